//! Flame graphs: functions as boxes as wide as their cost, below the functions that called them. Coloured by
//! what kind of code they are, or by how much more or less they cost than on another side.
//! Boxes are placed by [`Rows`]; `fitting` decides how much of a name is written into its box.

use crate::colour::{INK, MUTED, NEUTRAL, PAPER};
use crate::header::{Header, Key, Swatch};
use crate::page::{Figure, count};
use crate::style::Style;
use crate::svg::{Rect, Svg, Text};
use crate::text::{elide, room_for};
use std::borrow::Cow;

/// Height of a box and the gap to the next one.
const ROW_PX: f64 = 17.0;
const TEXT_PX: f64 = 11.0;
/// The colours of more and of less cost: Okabe and Ito's vermillion and blue, which nobody confuses.
const MORE: usize = 1;
const LESS: usize = 0;
/// How much of a colour covers the paper: pale enough for letters, and never so pale that it is not seen.
const PALEST: f64 = 0.1;
const FULLEST: f64 = 0.75;
/// Kinds of code have the colours from here on, which no change has: orange, light blue, grey.
const FIRST_KIND: usize = 4;
/// The kind of code, which says less than a change does, is a tint.
const KIND_TINT: f64 = 0.3;

/// Where a program spends its time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlameChart {
    /// What the chart shows, in large letters.
    pub title: String,
    /// A line of explanation.
    pub subtitle: Option<String>,
    /// The weight that is as wide as the sheet. Charts with the same one can be compared box by box.
    pub full: f64,
    /// Names of the kinds of code, for the legend; empty where colours show changes.
    pub kinds: Vec<String>,
    /// The outermost functions, from left to right.
    pub frames: Vec<FlameFrame>,
}

/// A function, called from one place.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlameFrame {
    /// Its name.
    pub name: String,
    /// Its cost with all that it called, in the unit of [`FlameChart::full`].
    pub weight: f64,
    /// What its colour says.
    pub part: FlamePart,
    /// Words for those who point at it.
    pub tooltip: String,
    /// What it called, from left to right.
    pub children: Vec<FlameFrame>,
}

/// What the colour of a box says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FlamePart {
    /// Which of [`FlameChart::kinds`] it is.
    Kind(usize),
    /// How much of its cost is more than on the other side, or less: 1 where only this side has it, -1 where it
    /// has vanished, 0 where both cost the same.
    Change(f64),
}

impl Default for FlamePart {
    fn default() -> Self {
        Self::Kind(0)
    }
}

impl FlameChart {
    fn rows(&self, width: f64) -> Rows<'_> {
        Rows::place(&self.frames, self.full, width)
    }

    /// A chart's width is known only when it is drawn, but how many boxes are too narrow is said above it.
    fn assumed_width(&self) -> f64 {
        f64::from(crate::Size::default().width_px)
    }

    fn has_changes(&self) -> bool {
        let changes = |frame: &FlameFrame| matches!(frame.part, FlamePart::Change(_));
        self.frames.iter().any(changes)
    }
}

impl Figure for FlameChart {
    fn header(&self) -> Header<'_> {
        let key = |name: &str, colour| Key {
            name: name.to_owned(),
            swatch: Swatch::Tint(Style::of_series(colour)),
        };
        let kinds = self.kinds.iter().enumerate();
        let legend = if self.has_changes() {
            vec![
                key("costs more (all of it: outlined)", MORE),
                key("costs less", LESS),
            ]
        } else {
            kinds.map(|(at, name)| key(name, FIRST_KIND + at)).collect()
        };
        Header {
            title: &self.title,
            subtitle: self.subtitle.as_deref(),
            note: self.rows(self.assumed_width()).left_out(),
            legend,
        }
    }

    fn summary(&self) -> String {
        let rows = self.rows(self.assumed_width());
        let widest = rows.boxes.iter().max_by(|a, b| a.width.total_cmp(&b.width));
        let widest = widest.map_or("", |placed| placed.frame.name.as_str());
        format!(
            "Flame graph of {} in {}; the widest is {widest}.",
            count(rows.boxes.len(), "box", "es"),
            count(rows.depth, "row", "s"),
        )
    }

    fn is_empty(&self) -> bool {
        self.rows(self.assumed_width()).boxes.is_empty()
    }

    fn draw(&self, svg: &mut Svg, area: Rect) {
        for placed in self.rows(area.width()).boxes {
            draw_box(svg, &placed, area);
        }
    }

    fn natural_height(&self, width: f64) -> f64 {
        self.rows(width).depth as f64 * ROW_PX
    }
}

fn draw_box(svg: &mut Svg, placed: &Placed<'_>, area: Rect) {
    let frame = placed.frame;
    let (colour, cover) = look(frame.part);
    let (x, y) = (
        area.left + placed.left,
        area.top + placed.row as f64 * ROW_PX,
    );
    let label = fitting(&frame.name, placed.width, TEXT_PX);
    svg.group("frame").containing(|svg| {
        svg.element("title").containing_text(&frame.tooltip);
        svg.element("rect")
            .num("x", x)
            .num("y", y)
            .num("width", placed.width)
            .num("height", ROW_PX - 1.0)
            .set("fill", &colour)
            .num("fill-opacity", cover)
            .set("stroke", &outline(frame.part, placed.width))
            .num("stroke-width", 0.5)
            .close();
        if let Some(label) = label {
            let text = Text::at(&label, x + PADDING_PX, y + 12.0, TEXT_PX);
            svg.text(&text.coloured(ink(frame.part)));
        }
    });
}

/// The colour of a box and how much of it covers the paper.
fn look(part: FlamePart) -> (Cow<'static, str>, f64) {
    match part {
        FlamePart::Kind(kind) => (Style::of_series(FIRST_KIND + kind).colour(), KIND_TINT),
        FlamePart::Change(0.0) => (NEUTRAL.into(), PALEST),
        FlamePart::Change(change) => {
            let style = Style::of_series(if change > 0.0 { MORE } else { LESS });
            let strength = change.abs().min(1.0);
            (style.colour(), PALEST + strength * (FULLEST - PALEST))
        }
    }
}

/// Boxes that only one side has are outlined in their colour, so that they are seen without colour as well;
/// narrow ones would be nothing but outline.
fn outline(part: FlamePart, width: f64) -> Cow<'static, str> {
    match part {
        _ if width < 3.0 => "none".into(),
        FlamePart::Change(change) if change.abs() >= 1.0 => look(part).0,
        _ => PAPER.into(),
    }
}

/// What changed next to nothing steps back.
fn ink(part: FlamePart) -> &'static str {
    match part {
        FlamePart::Change(change) if change.abs() < 0.01 => MUTED,
        _ => INK,
    }
}

// Places: callers above what they call, side by side in the order given.

/// A narrower box shows nothing, and thousands of them make a file that no browser likes.
const NARROWEST_PX: f64 = 0.6;
/// Deeper rows are left out: a recursion of hundreds would be a picture of many screens.
const MOST_ROWS: usize = 90;

/// A box of the picture, relative to its upper left corner.
pub(crate) struct Placed<'a> {
    pub frame: &'a FlameFrame,
    pub left: f64,
    pub width: f64,
    /// From the top, beginning with 0.
    pub row: usize,
}

/// All boxes.
#[derive(Default)]
pub(crate) struct Rows<'a> {
    pub boxes: Vec<Placed<'a>>,
    /// How many rows there are.
    pub depth: usize,
    too_narrow: usize,
    too_deep: usize,
}

impl<'a> Rows<'a> {
    /// Places the boxes on a sheet of `width` pixels that stands for a weight of `full`.
    pub fn place(frames: &'a [FlameFrame], full: f64, width: f64) -> Self {
        let mut rows = Self::default();
        if full > 0.0 && full.is_finite() {
            rows.put(frames, 0.0, 0, width / full);
        }
        rows
    }

    fn put(&mut self, frames: &'a [FlameFrame], mut left: f64, row: usize, px_per_weight: f64) {
        for frame in frames {
            let width = frame.weight * px_per_weight;
            // Also a weight that is no number, which nothing can be drawn of.
            if width.is_nan() || width < NARROWEST_PX {
                self.too_narrow += usize::from(frame.weight > 0.0);
            } else if row >= MOST_ROWS {
                self.too_deep += 1;
            } else {
                self.boxes.push(Placed {
                    frame,
                    left,
                    width,
                    row,
                });
                self.depth = self.depth.max(row + 1);
                self.put(&frame.children, left, row + 1, px_per_weight);
            }
            left += width.max(0.0);
        }
    }

    /// What is not shown, as a sentence.
    pub fn left_out(&self) -> Option<String> {
        let narrow = count(self.too_narrow, "tower", "s");
        let deep = count(self.too_deep, "tower", "s");
        match (self.too_narrow, self.too_deep) {
            (0, 0) => None,
            (_, 0) => Some(format!("Not drawn, narrower than a pixel: {narrow}.")),
            (0, _) => Some(format!("Cut off below row {MOST_ROWS}: {deep}.")),
            _ => Some(format!(
                "Not drawn, narrower than a pixel: {narrow}; cut off below row {MOST_ROWS}: {deep}."
            )),
        }
    }
}

// Labels: the end of a function's name says most; the scopes that it is in are left out first.

/// Empty pixels beside the letters.
pub(crate) const PADDING_PX: f64 = 3.0;
/// Fewer letters say nothing.
const FEWEST_LETTERS: usize = 3;

/// The name, or its end from a `::`, `/` or `.` on, or the beginning of that with an ellipsis; `None` where not
/// even that has room.
pub(crate) fn fitting(name: &str, width_px: f64, size_px: f64) -> Option<String> {
    let room = width_px - 2.0 * PADDING_PX;
    // Most boxes are too narrow for anything; they are many.
    if room < room_for("iii", size_px) {
        return None;
    }
    if room_for(name, size_px) <= room {
        return Some(name.to_owned());
    }
    let short = without_scope(name);
    let label = elide(short, room, size_px);
    (label.chars().count() > FEWEST_LETTERS || label == short).then_some(label)
}

/// The name without the namespaces in front, those in brackets aside: `a::b<c::d>::e` is `e`.
fn without_scope(name: &str) -> &str {
    let mut open = 0_i32;
    let mut start = 0;
    let bytes = name.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'<' | b'(' => open += 1,
            b'>' | b')' => open -= 1,
            b':' if open == 0 && at > 0 && bytes[at - 1] == b':' => start = at + 1,
            _ => {}
        }
    }
    match &name[start..] {
        "" => name,
        rest => rest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(weight: f64, children: Vec<FlameFrame>) -> FlameFrame {
        FlameFrame {
            weight,
            children,
            ..FlameFrame::default()
        }
    }

    #[test]
    fn boxes_lie_below_their_callers_side_by_side() {
        let frames = [
            frame(60.0, vec![frame(20.0, vec![]), frame(30.0, vec![])]),
            frame(40.0, vec![]),
        ];
        let rows = Rows::place(&frames, 200.0, 400.0);
        let places: Vec<_> = rows
            .boxes
            .iter()
            .map(|b| (b.row, b.left, b.width))
            .collect();
        assert_eq!(
            places,
            [
                (0, 0.0, 120.0),
                (1, 0.0, 40.0),
                (1, 40.0, 60.0),
                (0, 120.0, 80.0)
            ]
        );
        assert_eq!((rows.depth, rows.left_out()), (2, None));
    }

    #[test]
    fn what_is_left_out_is_told() {
        let mut deep = frame(1.0, vec![]);
        for _ in 0..MOST_ROWS {
            deep = frame(1.0, vec![deep]);
        }
        let frames = [deep, frame(0.0001, vec![]), frame(f64::NAN, vec![])];
        let rows = Rows::place(&frames, 1.0, 100.0);
        assert_eq!(rows.depth, MOST_ROWS);
        assert_eq!(
            rows.left_out().unwrap(),
            "Not drawn, narrower than a pixel: 1 tower; cut off below row 90: 1 tower."
        );
    }

    #[test]
    fn namespaces_go_before_letters_do() {
        let room = |text: &str| room_for(text, 11.0) + 2.0 * PADDING_PX + 0.1;
        let name = "v8::internal::(anonymous namespace)::Invoke";
        assert_eq!(fitting(name, room(name), 11.0).as_deref(), Some(name));
        assert_eq!(
            fitting(name, room("Invoke"), 11.0).as_deref(),
            Some("Invoke")
        );
        assert_eq!(fitting(name, room("Invo…"), 11.0).as_deref(), Some("Invo…"));
        assert_eq!(fitting(name, 4.0, 11.0), None);
        assert_eq!(fitting("ab", room("abc"), 11.0).as_deref(), Some("ab"));
    }

    #[test]
    fn what_stands_in_brackets_is_no_scope() {
        for (name, short) in [
            ("a::b<c::d>::e", "e"),
            ("f<c::d>", "f<c::d>"),
            ("JS:fib lib/w.js:1:13", "JS:fib lib/w.js:1:13"),
            ("odd::", "odd::"),
        ] {
            assert_eq!(without_scope(name), short);
        }
    }
}
