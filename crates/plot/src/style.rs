//! Determines the style of a series from its index: color, marker, dash and hatching.
//!
//! There are seven colors (`svg.rs`) and seven markers. After every seven series, the markers
//! shift by one relative to the colors, so 49 series have different combinations.

use crate::svg::{
    FULL_LINE, NEUTRAL, PALE_LINE, PAPER, RgbColor, SERIES_COLORS, SvgWriter, blend_with_white,
    format_decimal, tint_color,
};
use std::borrow::Cow;

const DASHES: [&str; 4] = ["", "7 4", "2 3", "9 3 2 3"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SeriesStyle {
    index: usize,
    custom_color: Option<RgbColor>,
}

impl SeriesStyle {
    pub fn of_series(index: usize) -> Self {
        Self { index, custom_color: None }
    }

    /// Replaces the color by `custom_color`, if given.
    pub fn with_color(self, custom_color: Option<RgbColor>) -> Self {
        Self { custom_color, ..self }
    }

    pub fn color(self) -> Cow<'static, str> {
        match self.custom_color {
            Some(RgbColor(red, green, blue)) => format!("#{red:02x}{green:02x}{blue:02x}").into(),
            None => SERIES_COLORS[self.index % SERIES_COLORS.len()].into(),
        }
    }

    pub fn marker(self) -> MarkerShape {
        let round = self.index / SERIES_COLORS.len();
        MarkerShape::ALL[(self.index + round) % MarkerShape::ALL.len()]
    }

    /// Draws the marker of a value at these pixels.
    pub fn draw_point(self, svg: &mut SvgWriter, (x, y): (f64, f64), radius: f64, tooltip: &str) {
        svg.start_path("point", &self.marker().path(x, y, radius)).end_with_tooltip(tooltip);
    }

    /// Defines the marker once under this ID, for `use` elements. This keeps a page with thousands
    /// of points small.
    pub fn define_marker(self, svg: &mut SvgWriter, id: &str, radius: f64) {
        let outline = self.marker().path(0.0, 0.0, radius);
        svg.start_element("path").set_text("id", id).set_text("d", &outline).end_empty();
    }

    /// Dash pattern of a line as SVG's `stroke-dasharray`; empty for a solid line.
    pub fn dash(self) -> &'static str {
        DASHES[self.index % DASHES.len()]
    }

    /// Number of the hatching of an area; 0 for none.
    pub fn hatching(self) -> usize {
        self.index % 5
    }
}

// Shapes of points. At the same radius, all have about the same area, so none dominates.

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum MarkerShape {
    Circle,
    Square,
    TriangleUp,
    Diamond,
    TriangleDown,
    Cross,
    Plus,
}

impl MarkerShape {
    pub const ALL: [Self; 7] = {
        use MarkerShape::*;
        [Circle, Square, TriangleUp, Diamond, TriangleDown, Cross, Plus]
    };

    /// SVG path data of the shape at (`x`, `y`), as large as a circle of `radius`.
    pub fn path(self, x: f64, y: f64, radius: f64) -> String {
        let corners: &[(f64, f64)] = match self {
            Self::Circle => {
                let [left, right, y, radius] =
                    [x - radius, x + radius, y, radius].map(format_decimal);
                let arc = |end| format!("A{radius} {radius} 0 1 1 {end} {y}");
                return format!("M{left} {y}{}{}Z", arc(&right), arc(&left));
            }
            // Half the side of the square is sqrt(pi) / 2 times the radius of a circle with the
            // same area.
            Self::Square => &[(-0.886, -0.886), (0.886, -0.886), (0.886, 0.886), (-0.886, 0.886)],
            // The circle of radius 1 has area pi. An equilateral triangle of this area has side
            // 2.694 and extends 1.555 from its center to a corner. It is moved by 0.1 towards its
            // base.
            Self::TriangleUp => &[(0.0, -1.455), (1.347, 0.878), (-1.347, 0.878)],
            Self::TriangleDown => &[(0.0, 1.455), (-1.347, -0.878), (1.347, -0.878)],
            Self::Diamond => &[(0.0, -1.3), (1.2, 0.0), (0.0, 1.3), (-1.2, 0.0)],
            // A plus with arms 0.8 wide. The cross is this plus, turned by 45 degrees.
            Self::Plus => &four_arms([(-0.4, -1.25), (0.4, -1.25), (0.4, -0.4)]),
            Self::Cross => &four_arms([(-1.167, -0.601), (-0.601, -1.167), (0.0, -0.566)]),
        };
        let corner = |(dx, dy): &(f64, f64)| {
            let [x, y] = [x + dx * radius, y + dy * radius].map(format_decimal);
            format!("{x} {y}")
        };
        let corners: Vec<String> = corners.iter().map(corner).collect();
        format!("M{}Z", corners.join("L"))
    }
}

/// Corners of a shape with four equal arms, given the corners of the first one.
fn four_arms(arm: [(f64, f64); 3]) -> [(f64, f64); 12] {
    let quarter_turn = |(x, y): (f64, f64), _| (-y, x);
    std::array::from_fn(|index| (0..index / 3).fold(arm[index % 3], quarter_turn))
}

// Hatchings, which distinguish areas without color. A hatching is an SVG pattern. Its ID contains
// the color, so several charts on one page may define it redundantly.

/// `fill` value for a full area of this style.
pub(crate) fn full_fill(style: SeriesStyle) -> String {
    if style.hatching() == 0 { style.color().into_owned() } else { hatching_url(style, "full") }
}

/// `fill` value for a pale area of this style, behind other marks.
pub(crate) fn pale_fill(style: SeriesStyle) -> String {
    if style.hatching() == 0 { tint_color(&style.color()) } else { hatching_url(style, "pale") }
}

/// Defines the hatchings that the first `count` styles need, either full or pale.
pub(crate) fn define_hatchings(svg: &mut SvgWriter, count: usize, is_pale: bool) {
    // After 35 styles (7 colors, 5 hatchings) the combinations repeat.
    let styles = (0..count.min(35)).map(SeriesStyle::of_series);
    let styles: Vec<SeriesStyle> = styles.filter(|style| style.hatching() > 0).collect();
    if styles.is_empty() {
        return;
    }
    svg.start_element("defs").end_with(|svg| {
        for style in styles {
            define_hatching(svg, style, is_pale);
        }
    });
}

fn define_hatching(svg: &mut SvgWriter, style: SeriesStyle, is_pale: bool) {
    let colour = style.color();
    let (kind, background, line) = if is_pale {
        ("pale", tint_color(&colour), blend_with_white(&colour, PALE_LINE))
    } else {
        ("full", colour.to_string(), blend_with_white(&colour, FULL_LINE))
    };
    let data = match style.hatching() {
        1 => "M-2 2L2 -2M0 8L8 0M6 10L10 6",
        2 => "M0 4H8",
        3 => "M-2 6L2 10M0 0L8 8M6 -2L10 2",
        _ => "M4 0V8",
    };
    svg.start_element("pattern")
        .set_text("id", &hatching_id(style, kind))
        .set_number("width", 8.0)
        .set_number("height", 8.0)
        .set_text("patternUnits", "userSpaceOnUse")
        .end_with(|svg| {
            svg.start_element("rect")
                .set_number("width", 8.0)
                .set_number("height", 8.0)
                .set_text("fill", &background)
                .end_empty();
            svg.start_path("", data).set_stroke(&line, 1.3).end_empty();
        });
}

fn hatching_url(style: SeriesStyle, kind: &str) -> String {
    format!("url(#{})", hatching_id(style, kind))
}

fn hatching_id(style: SeriesStyle, kind: &str) -> String {
    format!("hatch-{kind}-{}-{}", style.hatching(), &style.color()[1..])
}

/// The verdict on an estimate, based on the interval of the estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VerdictMark {
    /// Better than the reference: a green triangle pointing up.
    Better,
    /// Worse than the reference: a red triangle pointing down.
    Worse,
    /// Equivalent to the reference: a blue square.
    Same,
    /// No verdict possible: a hollow gray circle.
    Unclear,
}

impl VerdictMark {
    /// All marks, in legend order.
    pub(crate) const ALL: [Self; 4] = [Self::Better, Self::Worse, Self::Same, Self::Unclear];

    /// The word, the color and the marker. The colors are those of Okabe and Ito: bluish green,
    /// vermilion, blue, and a gray.
    fn look(self) -> (&'static str, &'static str, MarkerShape) {
        match self {
            Self::Better => ("better", "#009e73", MarkerShape::TriangleUp),
            Self::Worse => ("worse", "#d55e00", MarkerShape::TriangleDown),
            Self::Same => ("same", "#0072b2", MarkerShape::Square),
            Self::Unclear => ("unclear", NEUTRAL, MarkerShape::Circle),
        }
    }

    pub(crate) fn word(self) -> &'static str {
        self.look().0
    }

    pub(crate) fn color(self) -> &'static str {
        self.look().1
    }

    pub(crate) fn marker(self) -> MarkerShape {
        self.look().2
    }

    /// Draws the mark at (`x`, `y`). A mark with a tooltip is an estimate of the chart. A mark
    /// without a tooltip is a swatch of the legend.
    pub(crate) fn draw(
        self,
        svg: &mut SvgWriter,
        x: f64,
        y: f64,
        radius: f64,
        tooltip: Option<&str>,
    ) {
        let is_hollow = self == Self::Unclear;
        // Half the width of a hollow mark's outline lies outside the mark.
        let radius = if is_hollow { radius - 0.6 } else { radius };
        let (fill, stroke) = if is_hollow { (PAPER, self.color()) } else { (self.color(), PAPER) };
        let class = if tooltip.is_some() { "estimate" } else { "key" };
        let shape = svg
            .start_path(class, &self.marker().path(x, y, radius))
            .set_text("fill", fill)
            .set_stroke(stroke, if is_hollow { 1.8 } else { 1.0 });
        match tooltip {
            Some(tooltip) => shape.end_with_tooltip(tooltip),
            None => shape.end_empty(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forty_nine_series_look_different_without_hatching() {
        let looks: std::collections::HashSet<_> = (0..49)
            .map(|index| {
                (SeriesStyle::of_series(index).color(), SeriesStyle::of_series(index).marker())
            })
            .collect();
        assert_eq!(looks.len(), 49);
    }

    #[test]
    fn a_custom_series_colour_is_written_as_it_was_read() {
        let own: RgbColor = "#8d6e4b".parse().unwrap();
        assert_eq!(SeriesStyle::of_series(0).with_color(Some(own)).color(), "#8d6e4b");
        for wrong in ["8d6e4b", "#8d6e4", "#8d6e4g", "red", "#é6e4b"] {
            assert!(wrong.parse::<RgbColor>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn neighbours_differ_without_colour() {
        for index in 0..48 {
            let (one, next) = (SeriesStyle::of_series(index), SeriesStyle::of_series(index + 1));
            assert_ne!(one.marker(), next.marker());
            assert_ne!(one.dash(), next.dash());
            assert_ne!(one.hatching(), next.hatching());
        }
    }
}
