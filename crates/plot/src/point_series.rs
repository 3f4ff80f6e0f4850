//! Points in the plane, shared by scatter and line charts: the data, which of them can be shown,
//! and axes that fit them.

use crate::axes::Plane;
use crate::colour::{PAPER, Rgb};
use crate::header::{Header, Key, Swatch, omitted_note};
use crate::numeral::figure;
use crate::scale::{Extent, can_show};
use crate::style::Style;
use crate::svg::{Rect, Svg};
use crate::{Axis, Scale};

/// The points of a series.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PointSeries {
    /// Name in the legend.
    pub name: String,
    /// Points; a line connects them in ascending order of x.
    pub points: Vec<Point>,
    /// Custom color; by default one of the color-blind-safe series colors.
    pub colour: Option<Rgb>,
}

impl PointSeries {
    /// Style of the series at this index.
    pub(crate) fn style(&self, at: usize) -> Style {
        Style::of_series(at).coloured(self.colour)
    }
}

/// A point, optionally with an interval around its y.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    /// Coordinate along the bottom axis; an index for a category axis.
    pub x: f64,
    /// Coordinate along the left axis.
    pub y: f64,
    /// Lower end of the interval around y.
    pub low: Option<f64>,
    /// Upper end of the interval around y.
    pub high: Option<f64>,
}

impl Point {
    /// Creates a point without an interval.
    pub fn new(x: f64, y: f64) -> Self {
        Self {
            x,
            y,
            low: None,
            high: None,
        }
    }

    /// Creates a point with an interval from `low` to `high` around y.
    pub fn with_interval(x: f64, y: f64, low: f64, high: f64) -> Self {
        Self {
            x,
            y,
            low: Some(low),
            high: Some(high),
        }
    }
}

/// A view of the data of a point chart.
pub(crate) struct PointData<'a> {
    pub x: &'a Axis,
    pub y: &'a Axis,
    pub series: &'a [PointSeries],
}

impl<'a> PointData<'a> {
    /// Preferred height of a point chart below its header.
    pub const NATURAL_HEIGHT_PX: f64 = 520.0;

    pub fn new(x: &'a Axis, y: &'a Axis, series: &'a [PointSeries]) -> Self {
        Self { x, y, series }
    }

    /// Header parts derived from the data: a note on omitted points, and the legend.
    pub fn header(&self, swatch: impl Fn(Style) -> Swatch) -> Header<'a> {
        Header {
            note: omitted_note(self.count_omitted(), &[&self.x.scale, &self.y.scale]),
            legend: self.legend(swatch),
            ..Header::default()
        }
    }

    pub fn legend(&self, swatch: impl Fn(Style) -> Swatch) -> Vec<Key> {
        let mut keys = Key::list(&self.names(), &swatch);
        for (at, (key, series)) in keys.iter_mut().zip(self.series).enumerate() {
            key.swatch = swatch(series.style(at));
        }
        keys
    }

    /// Whether both axes can show the point.
    pub fn shown(&self, point: &Point) -> bool {
        can_show(&self.x.scale, point.x) && can_show(&self.y.scale, point.y)
    }

    fn points(&self) -> impl Iterator<Item = &'a Point> {
        self.series.iter().flat_map(|series| &series.points)
    }

    pub fn count_omitted(&self) -> usize {
        self.points().filter(|point| !self.shown(point)).count()
    }

    pub fn count_shown(&self) -> usize {
        self.points().filter(|point| self.shown(point)).count()
    }

    pub fn names(&self) -> Vec<&'a str> {
        self.series
            .iter()
            .map(|series| series.name.as_str())
            .collect()
    }

    /// Axes that fit all points and, optionally, their intervals.
    pub fn plane(&self, sheet: Rect, intervals: bool) -> Option<Plane> {
        let (x, y) = self.extents(intervals)?;
        Some(Plane::lay_out(sheet, (self.x, x), (self.y, y)))
    }

    /// Extents of both axes for all points and, optionally, their intervals.
    pub fn extents(&self, intervals: bool) -> Option<(Extent, Extent)> {
        let shown: Vec<&Point> = self.points().filter(|point| self.shown(point)).collect();
        let ends = |point: &&Point| {
            let (low, high) = if intervals {
                (point.low, point.high)
            } else {
                (None, None)
            };
            [Some(point.y), low, high].into_iter().flatten()
        };
        let x = extent(self.x, shown.iter().map(|point| point.x), 0.03)?;
        let y = extent(self.y, shown.iter().flat_map(ends), 0.05)?;
        Some((x, y))
    }

    pub fn describe(&self, series: &PointSeries, point: &Point) -> String {
        let name = match series.name.trim() {
            "" => String::new(),
            name => format!("{name}\n"),
        };
        let mut text = format!(
            "{name}{}: {}\n{}: {}",
            named(self.x, "x"),
            place(self.x, point.x),
            named(self.y, "y"),
            place(self.y, point.y)
        );
        if let (Some(low), Some(high)) = (point.low, point.high) {
            text.push_str(&format!("\n{} to {}", figure(low), figure(high)));
        }
        text
    }

    pub fn draw_markers(
        &self,
        svg: &mut Svg,
        plane: &Plane,
        series: &PointSeries,
        style: Style,
        radius: f64,
    ) {
        let group = svg
            .group("points")
            .set("fill", &style.colour())
            .set("stroke", PAPER);
        group
            .num("stroke-width", if radius > 3.0 { 1.0 } else { 0.5 })
            .containing(|svg| {
                for point in series.points.iter().filter(|point| self.shown(point)) {
                    let (x, y) = (plane.x.at(point.x), plane.y.at(point.y));
                    svg.element("path")
                        .set("class", "point")
                        .set("d", &style.marker().path(x, y, radius))
                        .titled(&self.describe(series, point));
                }
            });
    }
}

fn extent(axis: &Axis, values: impl Iterator<Item = f64>, padding: f64) -> Option<Extent> {
    match &axis.scale {
        Scale::Category(names) => Some(Extent::of_names(names.len())),
        scale => Extent::of_values(scale, values).map(|e| e.including_near_zero().padded(padding)),
    }
}

/// Label of an axis, with its unit.
fn named<'a>(axis: &'a Axis, otherwise: &'a str) -> &'a str {
    match axis.label.trim() {
        "" => otherwise,
        label => label,
    }
}

fn place(axis: &Axis, value: f64) -> String {
    match &axis.scale {
        Scale::Category(names) => {
            let at = value.round().max(0.0) as usize;
            names.get(at).cloned().unwrap_or_else(|| figure(value))
        }
        _ => figure(value),
    }
}
