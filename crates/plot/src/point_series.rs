//! Points in the plane, as scatter and line charts share them: the data, which of them can be shown,
//! and the axes that fit them.

use crate::axes::Plane;
use crate::colour::{PAPER, Rgb};
use crate::header::{Header, Key, Swatch, omitted_note};
use crate::numeral::figure;
use crate::scale::{Extent, can_show};
use crate::style::Style;
use crate::svg::{Rect, Svg};
use crate::{Axis, Scale};

/// The points of one series.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PointSeries {
    /// The name in the legend.
    pub name: String,
    /// The points; a line joins them in ascending order of x.
    pub points: Vec<Point>,
    /// Its own colour; the usual ones, which stay apart for all eyes, where there is none.
    pub colour: Option<Rgb>,
}

impl PointSeries {
    /// How the series at this place looks.
    pub(crate) fn style(&self, at: usize) -> Style {
        Style::of_series(at).coloured(self.colour)
    }
}

/// A point, with an interval around its y where there is one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    /// Along the bottom axis; an index where that has categories.
    pub x: f64,
    /// Along the left axis.
    pub y: f64,
    /// Low end of the interval around y.
    pub low: Option<f64>,
    /// High end of the interval around y.
    pub high: Option<f64>,
}

impl Point {
    /// A point without an interval.
    pub fn new(x: f64, y: f64) -> Self {
        Self {
            x,
            y,
            low: None,
            high: None,
        }
    }

    /// A point with an interval from `low` to `high` around y.
    pub fn with_interval(x: f64, y: f64, low: f64, high: f64) -> Self {
        Self {
            x,
            y,
            low: Some(low),
            high: Some(high),
        }
    }
}

/// A view of the data of a chart of points.
pub(crate) struct PointData<'a> {
    pub x: &'a Axis,
    pub y: &'a Axis,
    pub series: &'a [PointSeries],
}

impl<'a> PointData<'a> {
    /// The height that a chart of points wants below its header.
    pub const NATURAL_HEIGHT_PX: f64 = 520.0;

    pub fn new(x: &'a Axis, y: &'a Axis, series: &'a [PointSeries]) -> Self {
        Self { x, y, series }
    }

    /// What the data put into the header: a note on the points left out, and the legend.
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

    /// Whether both axes have a place for the point.
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

    /// The axes that fit all points and, if asked for, their intervals.
    pub fn plane(&self, sheet: Rect, intervals: bool) -> Option<Plane> {
        let (x, y) = self.extents(intervals)?;
        Some(Plane::lay_out(sheet, (self.x, x), (self.y, y)))
    }

    /// The parts of both axes that all points and, if asked for, their intervals need.
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

    /// What a tooltip says of a point.
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

    /// Draws the markers of one series.
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

/// What an axis shows, with its unit.
fn named<'a>(axis: &'a Axis, otherwise: &'a str) -> &'a str {
    match axis.label.trim() {
        "" => otherwise,
        label => label,
    }
}

/// A value as the axis names it.
fn place(axis: &Axis, value: f64) -> String {
    match &axis.scale {
        Scale::Category(names) => {
            let at = value.round().max(0.0) as usize;
            names.get(at).cloned().unwrap_or_else(|| figure(value))
        }
        _ => figure(value),
    }
}
