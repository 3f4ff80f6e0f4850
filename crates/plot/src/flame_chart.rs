//! Flame graphs: functions as boxes as wide as their cost, below their callers. Colored by kind of
//! code, or by the change of cost compared with another side. Boxes are placed by [`Rows`];
//! `fitting` shortens names to fit their boxes.

use crate::colour::{INK, MUTED, NEUTRAL, PAPER};
use crate::header::{Header, Key, Swatch};
use crate::page::{Figure, count};
use crate::style::Style;
use crate::svg::{Rect, Svg, Text};
use crate::text::{elide, room_for};
use std::borrow::Cow;

/// Height of a box, including the gap to the next one.
const ROW_PX: f64 = 17.0;
const TEXT_PX: f64 = 11.0;
/// Series colors for more and for less cost: vermilion and blue of Okabe and Ito, which are never
/// confused.
const MORE: usize = 1;
const LESS: usize = 0;
/// Range of opacity: pale enough for text, but always visible.
const PALEST: f64 = 0.1;
const FULLEST: f64 = 0.75;
/// First series color for kinds of code, not used by changes: orange, light blue, gray.
const FIRST_KIND: usize = 4;
/// Opacity of kinds of code, which are less informative than changes.
const KIND_TINT: f64 = 0.3;

/// A flame graph.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlameChart {
    /// Title, in large letters.
    pub title: String,
    /// Subtitle.
    pub subtitle: Option<String>,
    /// Weight that corresponds to the full width. Charts with the same value can be compared box by
    /// box.
    pub full: f64,
    /// Names of the kinds of code, for the legend; empty if colors show changes.
    pub kinds: Vec<String>,
    /// The outermost functions, from left to right.
    pub frames: Vec<FlameFrame>,
}

/// A function called from a particular place.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlameFrame {
    /// Name of the function.
    pub name: String,
    /// Total cost including callees, in the unit of [`FlameChart::full`].
    pub weight: f64,
    /// Meaning of its color.
    pub part: FlamePart,
    /// Tooltip.
    pub tooltip: String,
    /// Callees, from left to right.
    pub children: Vec<FlameFrame>,
}

/// Meaning of a box color.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FlamePart {
    /// Index into [`FlameChart::kinds`].
    Kind(usize),
    /// Change of cost relative to the other side: 1 if only this side has it, -1 if it has
    /// vanished, 0 if both cost the same.
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

    /// Width used before the actual width is known, to report above the chart how many boxes are
    /// too narrow.
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

/// Color and opacity of a box.
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

/// Outlines boxes that only one side has in their color, so that they are recognizable without
/// color; narrow ones would consist of outline only.
fn outline(part: FlamePart, width: f64) -> Cow<'static, str> {
    match part {
        _ if width < 3.0 => "none".into(),
        FlamePart::Change(change) if change.abs() >= 1.0 => look(part).0,
        _ => PAPER.into(),
    }
}

/// Text color: muted for negligible changes.
fn ink(part: FlamePart) -> &'static str {
    match part {
        FlamePart::Change(change) if change.abs() < 0.01 => MUTED,
        _ => INK,
    }
}

// Layout: callers above callees, side by side in the given order.

/// Narrower boxes are invisible, and thousands of them make a file that slows browsers down.
const NARROWEST_PX: f64 = 0.6;
/// Deeper rows are omitted: a recursion of hundreds would fill many screens.
const MOST_ROWS: usize = 90;

/// A placed box, relative to the upper left corner.
pub(crate) struct Placed<'a> {
    pub frame: &'a FlameFrame,
    pub left: f64,
    pub width: f64,
    /// From the top, starting with 0.
    pub row: usize,
}

/// All placed boxes.
#[derive(Default)]
pub(crate) struct Rows<'a> {
    pub boxes: Vec<Placed<'a>>,
    /// Number of rows.
    pub depth: usize,
    too_narrow: usize,
    too_deep: usize,
}

impl<'a> Rows<'a> {
    /// Places the boxes on a sheet of `width` pixels that represents a weight of `full`.
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
            // NaN weights cannot be drawn either.
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

    /// Describes the omitted boxes.
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

// Labels: the end of a function name is the most specific part; enclosing scopes are dropped first.

/// Padding in pixels beside the text.
pub(crate) const PADDING_PX: f64 = 3.0;
/// Fewer letters are not informative.
const FEWEST_LETTERS: usize = 3;

/// Returns the name, or its part after the scopes, or a truncated form of that with an ellipsis;
/// `None` if not even that fits.
pub(crate) fn fitting(name: &str, width_px: f64, size_px: f64) -> Option<String> {
    let room = width_px - 2.0 * PADDING_PX;
    // Fast path: most boxes are too narrow for any text.
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

/// Strips leading namespaces, ignoring those in brackets: `a::b<c::d>::e` becomes `e`.
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
