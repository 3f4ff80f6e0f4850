//! Draws flame graphs. Each function is a box below the box of its caller, and the width of the box
//! shows the cost of the function. Colors show the kind of code, or the change of the cost compared
//! with another profile. [`FlameRows`] places the boxes, and `fit_name` shortens names that do not
//! fit their boxes.

use crate::format::format_count;
use crate::sheet::{ChartHeader, ImageSize, LegendKey, LegendSwatch, SheetContent};
use crate::style::SeriesStyle;
use crate::svg::{INK, MUTED, NEUTRAL, PAPER, PixelRect, SvgWriter, TextAnchor};
use crate::text::{reserved_width, truncate_end};
use std::borrow::Cow;

/// Height of a box, including the gap to the next one.
const ROW_PX: f64 = 17.0;
const TEXT_PX: f64 = 11.0;
/// Series color for more cost: vermilion of Okabe and Ito. It can be distinguished from blue even
/// with color blindness.
const MORE_COLOR: usize = 1;
/// Series color for less cost: blue of Okabe and Ito.
const LESS_COLOR: usize = 0;
/// Opacity of boxes with the smallest changes. These boxes must be visible.
const MIN_OPACITY: f64 = 0.1;
/// Opacity of boxes with the largest changes. Their text must be readable.
const MAX_OPACITY: f64 = 0.75;
/// First series color for kinds of code: orange, light blue, gray. Changes do not use these colors.
const FIRST_KIND_COLOR: usize = 4;
/// Opacity of boxes that show kinds of code, which are less informative than changes.
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
    /// Meaning of the box color.
    pub part: FrameColoring,
    /// Tooltip.
    pub tooltip: String,
    /// Callees, from left to right.
    pub children: Vec<FlameFrame>,
}

/// Meaning of a box color.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FrameColoring {
    /// Index into [`FlameChart::kinds`].
    Kind(usize),
    /// Change of cost relative to the other profile. 1 if only this profile has the function, -1 if
    /// only the other one has it, 0 if the cost is equal.
    Change(f64),
}

impl Default for FrameColoring {
    fn default() -> Self {
        Self::Kind(0)
    }
}

impl FlameChart {
    fn rows(&self, width: f64) -> FlameRows<'_> {
        FlameRows::place_frames(&self.frames, self.full, width)
    }

    /// The rows at the default width, to report omitted boxes before the actual width is known.
    fn typical_rows(&self) -> FlameRows<'_> {
        self.rows(f64::from(ImageSize::default().width_px))
    }
}

impl SheetContent for FlameChart {
    fn header(&self) -> ChartHeader<'_> {
        let key = |name: &str, colour| {
            LegendKey::new(name, LegendSwatch::Tint(SeriesStyle::of_series(colour)))
        };
        let kinds = self.kinds.iter().enumerate();
        let is_change = |frame: &FlameFrame| matches!(frame.part, FrameColoring::Change(_));
        let legend = if self.frames.iter().any(is_change) {
            vec![
                key("costs more (outlined: only on this side)", MORE_COLOR),
                key("costs less", LESS_COLOR),
            ]
        } else {
            kinds.map(|(index, name)| key(name, FIRST_KIND_COLOR + index)).collect()
        };
        let note = self.typical_rows().omitted_note();
        ChartHeader { title: &self.title, subtitle: self.subtitle.as_deref(), note, legend }
    }

    fn summary(&self) -> String {
        let rows = self.typical_rows();
        let widest = rows.boxes.iter().max_by(|a, b| a.width.total_cmp(&b.width));
        let name = widest.map_or("", |placed| &placed.frame.name);
        let boxes = format_count(rows.boxes.len(), "box", "es");
        let depth = format_count(rows.depth, "row", "s");
        format!("Flame graph of {boxes} in {depth}; the widest is {name}.")
    }

    fn is_empty(&self) -> bool {
        self.typical_rows().boxes.is_empty()
    }

    fn draw(&self, svg: &mut SvgWriter, area: PixelRect) {
        for placed in self.rows(area.width()).boxes {
            draw_box(svg, &placed, area);
        }
    }

    fn natural_height(&self, width: f64) -> f64 {
        self.rows(width).depth as f64 * ROW_PX
    }
}

fn draw_box(svg: &mut SvgWriter, placed: &PlacedFrame<'_>, area: PixelRect) {
    let frame = placed.frame;
    let (colour, opacity) = fill_style(frame.part);
    let (x, y) = (area.left + placed.left, area.top + placed.row as f64 * ROW_PX);
    let rect = PixelRect { left: x, top: y, right: x + placed.width, bottom: y + ROW_PX - 1.0 };
    let label = fit_name(&frame.name, placed.width, TEXT_PX);
    svg.start_group("frame").end_with(|svg| {
        svg.start_element("title").end_with_text(&frame.tooltip);
        svg.start_rect("", rect)
            .set_text("fill", &colour)
            .set_number("fill-opacity", opacity)
            .set_stroke(&outline_color(frame.part, placed.width), 0.5)
            .end_empty();
        if let Some(label) = label {
            let at = (x + PADDING_PX, y + 12.0);
            svg.write_text(&label, at, TEXT_PX, TextAnchor::Start, text_color(frame.part));
        }
    });
}

/// Color and opacity of a box.
fn fill_style(part: FrameColoring) -> (Cow<'static, str>, f64) {
    match part {
        FrameColoring::Kind(kind) => {
            (SeriesStyle::of_series(FIRST_KIND_COLOR + kind).color(), KIND_TINT)
        }
        FrameColoring::Change(0.0) => (NEUTRAL.into(), MIN_OPACITY),
        FrameColoring::Change(change) => {
            let style = SeriesStyle::of_series(if change > 0.0 { MORE_COLOR } else { LESS_COLOR });
            let strength = change.abs().min(1.0);
            (style.color(), MIN_OPACITY + strength * (MAX_OPACITY - MIN_OPACITY))
        }
    }
}

/// Color of a box's outline. If only one profile has the function, the outline has the color of the
/// box, so the box stands out even in grayscale. Narrow boxes have no outline, because nothing
/// else would be visible.
fn outline_color(part: FrameColoring, width: f64) -> Cow<'static, str> {
    match part {
        _ if width < 3.0 => "none".into(),
        FrameColoring::Change(change) if change.abs() >= 1.0 => fill_style(part).0,
        _ => PAPER.into(),
    }
}

/// Text color: muted for negligible changes.
fn text_color(part: FrameColoring) -> &'static str {
    let is_negligible = matches!(part, FrameColoring::Change(change) if change.abs() < 0.01);
    if is_negligible { MUTED } else { INK }
}

// Layout: callers above callees, side by side in the given order.

/// Minimum width of a box. Narrower boxes are invisible, and thousands of them slow browsers down.
const MIN_BOX_PX: f64 = 0.6;
/// Maximum number of rows. A recursion of hundreds of calls would fill many screens.
const MAX_ROWS: usize = 90;

/// A placed box, relative to the upper left corner.
struct PlacedFrame<'a> {
    frame: &'a FlameFrame,
    left: f64,
    width: f64,
    /// Index of the row from the top, starting with 0.
    row: usize,
}

/// All placed boxes.
#[derive(Default)]
struct FlameRows<'a> {
    boxes: Vec<PlacedFrame<'a>>,
    /// Number of rows.
    depth: usize,
    too_narrow: usize,
    too_deep: usize,
}

impl<'a> FlameRows<'a> {
    /// Places the boxes on a sheet of `width` pixels that represents a weight of `full`.
    fn place_frames(frames: &'a [FlameFrame], full: f64, width: f64) -> Self {
        let mut rows = Self::default();
        if full > 0.0 && full.is_finite() {
            rows.place_row(frames, 0.0, 0, width / full);
        }
        rows
    }

    fn place_row(&mut self, frames: &'a [FlameFrame], mut left: f64, row: usize, scale: f64) {
        for frame in frames {
            let width = frame.weight * scale;
            // A frame with a weight of NaN cannot be drawn either.
            if width.is_nan() || width < MIN_BOX_PX {
                self.too_narrow += usize::from(frame.weight > 0.0);
            } else if row >= MAX_ROWS {
                self.too_deep += 1;
            } else {
                self.boxes.push(PlacedFrame { frame, left, width, row });
                self.depth = self.depth.max(row + 1);
                self.place_row(&frame.children, left, row + 1, scale);
            }
            left += width.max(0.0);
        }
    }

    /// Describes the omitted boxes.
    fn omitted_note(&self) -> Option<String> {
        let narrow_towers = format_count(self.too_narrow, "tower", "s");
        let deep_towers = format_count(self.too_deep, "tower", "s");
        match (self.too_narrow, self.too_deep) {
            (0, 0) => None,
            (_, 0) => Some(format!("Not drawn, narrower than a pixel: {narrow_towers}.")),
            (0, _) => Some(format!("Cut off below row {MAX_ROWS}: {deep_towers}.")),
            _ => Some(format!(
                "Not drawn, narrower than a pixel: {narrow_towers}; cut off below row {MAX_ROWS}: \
                 {deep_towers}."
            )),
        }
    }
}

// Labels. The end of a function name is the most specific part, so enclosing scopes are dropped
// first.

/// Padding in pixels to the left and right of the text.
const PADDING_PX: f64 = 3.0;
/// A truncated name must have more characters than this to be informative.
const MIN_CHARACTERS: usize = 3;

/// Returns the name if it fits. Otherwise returns the part after the scopes, truncated with an
/// ellipsis if necessary; `None` if even this does not fit.
fn fit_name(name: &str, width_px: f64, size_px: f64) -> Option<String> {
    let text_px = width_px - 2.0 * PADDING_PX;
    // Most boxes are too narrow for any text.
    if text_px < reserved_width("iii", size_px) {
        return None;
    }
    if reserved_width(name, size_px) <= text_px {
        return Some(name.to_owned());
    }
    let short = strip_scopes(name);
    let label = truncate_end(short, text_px, size_px);
    (label.chars().count() > MIN_CHARACTERS || label == short).then_some(label)
}

/// Strips leading namespaces, ignoring namespaces in brackets: `a::b<c::d>::e` becomes `e`.
fn strip_scopes(name: &str) -> &str {
    let mut depth = 0_i32;
    let mut start = 0;
    let bytes = name.as_bytes();
    for (index, byte) in bytes.iter().enumerate() {
        match byte {
            b'<' | b'(' => depth += 1,
            b'>' | b')' => depth -= 1,
            b':' if depth == 0 && index > 0 && bytes[index - 1] == b':' => start = index + 1,
            _ => {}
        }
    }
    if start == name.len() { name } else { &name[start..] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(weight: f64, children: Vec<FlameFrame>) -> FlameFrame {
        FlameFrame { weight, children, ..FlameFrame::default() }
    }

    #[test]
    fn boxes_lie_below_their_callers_side_by_side() {
        let frames =
            [frame(60.0, vec![frame(20.0, vec![]), frame(30.0, vec![])]), frame(40.0, vec![])];
        let rows = FlameRows::place_frames(&frames, 200.0, 400.0);
        let places: Vec<_> = rows.boxes.iter().map(|b| (b.row, b.left, b.width)).collect();
        assert_eq!(places, [(0, 0.0, 120.0), (1, 0.0, 40.0), (1, 40.0, 60.0), (0, 120.0, 80.0)]);
        assert_eq!((rows.depth, rows.omitted_note()), (2, None));
    }

    #[test]
    fn omitted_frames_are_counted_in_a_note() {
        let mut deep = frame(1.0, vec![]);
        for _ in 0..MAX_ROWS {
            deep = frame(1.0, vec![deep]);
        }
        let frames = [deep, frame(0.0001, vec![]), frame(f64::NAN, vec![])];
        let rows = FlameRows::place_frames(&frames, 1.0, 100.0);
        assert_eq!(rows.depth, MAX_ROWS);
        assert_eq!(
            rows.omitted_note().unwrap(),
            "Not drawn, narrower than a pixel: 1 tower; cut off below row 90: 1 tower."
        );
    }

    #[test]
    fn long_names_lose_their_namespaces_before_any_letters() {
        let room = |text: &str| reserved_width(text, 11.0) + 2.0 * PADDING_PX + 0.1;
        let name = "v8::internal::(anonymous namespace)::Invoke";
        assert_eq!(fit_name(name, room(name), 11.0).as_deref(), Some(name));
        assert_eq!(fit_name(name, room("Invoke"), 11.0).as_deref(), Some("Invoke"));
        assert_eq!(fit_name(name, room("Invo…"), 11.0).as_deref(), Some("Invo…"));
        assert_eq!(fit_name(name, 4.0, 11.0), None);
        assert_eq!(fit_name("ab", room("abc"), 11.0).as_deref(), Some("ab"));
    }

    #[test]
    fn scopes_inside_brackets_are_not_stripped() {
        for (name, short) in [
            ("a::b<c::d>::e", "e"),
            ("f<c::d>", "f<c::d>"),
            ("JS:fib lib/w.js:1:13", "JS:fib lib/w.js:1:13"),
            ("odd::", "odd::"),
        ] {
            assert_eq!(strip_scopes(name), short);
        }
    }
}
