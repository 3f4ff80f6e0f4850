//! The style of a series: color, marker, dash and hatching, all determined by its index.
//!
//! Seven colors (`colour.rs`) combined with seven markers, shifted on every round, distinguish 49
//! series.

use crate::colour::{COLOURS, FULL_LINE, NEUTRAL, PALE_LINE, PAPER, Rgb, blend, tint};
use crate::svg::{Svg, decimal};
use std::borrow::Cow;

const DASHES: [&str; 4] = ["", "7 4", "2 3", "9 3 2 3"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Style {
    index: usize,
    own: Option<Rgb>,
}

impl Style {
    pub fn of_series(index: usize) -> Self {
        Self { index, own: None }
    }

    /// Overrides the color, if given.
    pub fn coloured(self, own: Option<Rgb>) -> Self {
        Self { own, ..self }
    }

    pub fn colour(self) -> Cow<'static, str> {
        match self.own {
            Some(Rgb(red, green, blue)) => format!("#{red:02x}{green:02x}{blue:02x}").into(),
            None => COLOURS[self.index % COLOURS.len()].into(),
        }
    }

    pub fn marker(self) -> Marker {
        let round = self.index / COLOURS.len();
        Marker::ALL[(self.index + round) % Marker::ALL.len()]
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

// Shapes of points. All have about the same area at the same radius, so that none dominates.

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Marker {
    Circle,
    Square,
    TriangleUp,
    Diamond,
    TriangleDown,
    Cross,
    Plus,
}

impl Marker {
    pub const ALL: [Self; 7] = [
        Self::Circle,
        Self::Square,
        Self::TriangleUp,
        Self::Diamond,
        Self::TriangleDown,
        Self::Cross,
        Self::Plus,
    ];

    /// SVG path data of the shape at (`x`, `y`), as large as a circle of `radius`.
    pub fn path(self, x: f64, y: f64, radius: f64) -> String {
        let corners: &[(f64, f64)] = match self {
            Self::Circle => return circle(x, y, radius),
            // Half the side of a square with the circle's area is sqrt(pi) / 2 of the radius.
            Self::Square => &[
                (-0.886, -0.886),
                (0.886, -0.886),
                (0.886, 0.886),
                (-0.886, 0.886),
            ],
            // An equilateral triangle of area pi has side 2.694 and extends 1.555 from its center.
            Self::TriangleUp => &[(0.0, -1.455), (1.347, 0.878), (-1.347, 0.878)],
            Self::TriangleDown => &[(0.0, 1.455), (-1.347, -0.878), (1.347, -0.878)],
            Self::Diamond => &[(0.0, -1.3), (1.2, 0.0), (0.0, 1.3), (-1.2, 0.0)],
            Self::Cross => &CROSS,
            Self::Plus => &PLUS,
        };
        let mut path = String::new();
        for (at, (dx, dy)) in corners.iter().enumerate() {
            path.push(if at == 0 { 'M' } else { 'L' });
            path.push_str(&decimal(x + dx * radius));
            path.push(' ');
            path.push_str(&decimal(y + dy * radius));
        }
        path.push('Z');
        path
    }
}

/// Arms 0.8 wide; the cross is the plus turned by 45 degrees.
const PLUS: [(f64, f64); 12] = [
    (-0.4, -1.25),
    (0.4, -1.25),
    (0.4, -0.4),
    (1.25, -0.4),
    (1.25, 0.4),
    (0.4, 0.4),
    (0.4, 1.25),
    (-0.4, 1.25),
    (-0.4, 0.4),
    (-1.25, 0.4),
    (-1.25, -0.4),
    (-0.4, -0.4),
];

const CROSS: [(f64, f64); 12] = [
    (-1.167, -0.601),
    (-0.601, -1.167),
    (0.0, -0.566),
    (0.601, -1.167),
    (1.167, -0.601),
    (0.566, 0.0),
    (1.167, 0.601),
    (0.601, 1.167),
    (0.0, 0.566),
    (-0.601, 1.167),
    (-1.167, 0.601),
    (-0.566, 0.0),
];

fn circle(x: f64, y: f64, radius: f64) -> String {
    let (left, right) = (decimal(x - radius), decimal(x + radius));
    let (y, radius) = (decimal(y), decimal(radius));
    format!("M{left} {y}A{radius} {radius} 0 1 1 {right} {y}A{radius} {radius} 0 1 1 {left} {y}Z")
}

// Hatchings that distinguish areas without color. A hatching is an SVG pattern whose ID contains
// the color, so that several charts on one page may define it redundantly.

/// `fill` value for a full area of this style.
pub(crate) fn hatched(style: Style) -> String {
    match style.hatching() {
        0 => style.colour().into_owned(),
        _ => format!("url(#{})", id(style, "full")),
    }
}

/// `fill` value for a pale area of this style, behind other marks.
pub(crate) fn hatched_tint(style: Style) -> String {
    match style.hatching() {
        0 => tint(&style.colour()),
        _ => format!("url(#{})", id(style, "pale")),
    }
}

/// Defines the hatchings that the first `count` styles need, either full or pale.
pub(crate) fn define_hatchings(svg: &mut Svg, count: usize, pale: bool) {
    // After 35 styles (7 colors, 5 hatchings) the combinations repeat.
    let styles: Vec<Style> = (0..count.min(35))
        .map(Style::of_series)
        .filter(|style| style.hatching() > 0)
        .collect();
    if styles.is_empty() {
        return;
    }
    svg.element("defs").containing(|svg| {
        for style in styles {
            define(svg, style, pale);
        }
    });
}

fn define(svg: &mut Svg, style: Style, pale: bool) {
    let colour = style.colour();
    let (ground, line) = if pale {
        (tint(&colour), blend(&colour, PALE_LINE))
    } else {
        (colour.to_string(), blend(&colour, FULL_LINE))
    };
    let (data, width) = match style.hatching() {
        1 => ("M-2 2L2 -2M0 8L8 0M6 10L10 6", 1.3),
        2 => ("M0 4H8", 1.3),
        3 => ("M-2 6L2 10M0 0L8 8M6 -2L10 2", 1.3),
        _ => ("M4 0V8", 1.3),
    };
    svg.element("pattern")
        .set("id", &id(style, if pale { "pale" } else { "full" }))
        .num("width", 8.0)
        .num("height", 8.0)
        .set("patternUnits", "userSpaceOnUse")
        .containing(|svg| {
            svg.element("rect")
                .num("width", 8.0)
                .num("height", 8.0)
                .set("fill", &ground)
                .close();
            svg.element("path")
                .set("d", data)
                .set("stroke", &line)
                .num("stroke-width", width)
                .close();
        });
}

fn id(style: Style, kind: &str) -> String {
    format!("hatch-{kind}-{}-{}", style.hatching(), &style.colour()[1..])
}

/// Verdict of an interval about an estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mark {
    /// Better than the reference: a green triangle pointing up.
    Better,
    /// Worse than the reference: a red triangle pointing down.
    Worse,
    /// Equivalent to the reference: a blue square.
    Same,
    /// No verdict possible: a hollow gray circle.
    Unclear,
}

impl Mark {
    /// All marks, in legend order.
    pub(crate) const ALL: [Self; 4] = [Self::Better, Self::Worse, Self::Same, Self::Unclear];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Same => "same",
            Self::Unclear => "unclear",
        }
    }

    /// Colors of Okabe and Ito: bluish green, vermilion, blue, and a gray.
    pub(crate) fn colour(self) -> &'static str {
        match self {
            Self::Better => "#009e73",
            Self::Worse => "#d55e00",
            Self::Same => "#0072b2",
            Self::Unclear => NEUTRAL,
        }
    }

    pub(crate) fn marker(self) -> Marker {
        match self {
            Self::Better => Marker::TriangleUp,
            Self::Worse => Marker::TriangleDown,
            Self::Same => Marker::Square,
            Self::Unclear => Marker::Circle,
        }
    }

    /// Draws the mark at (`x`, `y`): with a tooltip as an estimate of the chart, without as a
    /// swatch of its legend.
    pub(crate) fn draw(self, svg: &mut Svg, x: f64, y: f64, radius: f64, tooltip: Option<&str>) {
        let hollow = self == Self::Unclear;
        // Half of the outline of a hollow mark lies outside of it.
        let radius = if hollow { radius - 0.6 } else { radius };
        let (fill, stroke) = if hollow {
            (PAPER, self.colour())
        } else {
            (self.colour(), PAPER)
        };
        let shape = svg
            .element("path")
            .set("class", if tooltip.is_some() { "estimate" } else { "key" })
            .set("d", &self.marker().path(x, y, radius))
            .set("fill", fill)
            .set("stroke", stroke)
            .num("stroke-width", if hollow { 1.8 } else { 1.0 });
        match tooltip {
            Some(tooltip) => shape.titled(tooltip),
            None => shape.close(),
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
                (
                    Style::of_series(index).colour(),
                    Style::of_series(index).marker(),
                )
            })
            .collect();
        assert_eq!(looks.len(), 49);
    }

    #[test]
    fn a_colour_of_its_own_is_written_as_it_was_read() {
        let own: Rgb = "#8d6e4b".parse().unwrap();
        assert_eq!(Style::of_series(0).coloured(Some(own)).colour(), "#8d6e4b");
        for wrong in ["8d6e4b", "#8d6e4", "#8d6e4g", "red", "#é6e4b"] {
            assert!(wrong.parse::<Rgb>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn neighbours_differ_without_colour() {
        for index in 0..48 {
            let (one, next) = (Style::of_series(index), Style::of_series(index + 1));
            assert_ne!(one.marker(), next.marker());
            assert_ne!(one.dash(), next.dash());
            assert_ne!(one.hatching(), next.hatching());
        }
    }
}
