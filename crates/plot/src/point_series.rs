//! Provides the common parts of scatter and line charts: points in the plane, the selection of
//! points that the axes can show, and axes that fit these points.

use crate::axes::PointPlane;
use crate::color::{PAPER, RgbColor};
use crate::header::{ChartHeader, LegendKey, LegendSwatch, omitted_note};
use crate::numeral::format_figure;
use crate::scale::{AxisExtent, can_show};
use crate::style::SeriesStyle;
use crate::svg::{PixelRect, SvgWriter};
use crate::{AxisScale, ChartAxis};

/// The points of a series.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PointSeries {
    /// Name in the legend.
    pub name: String,
    /// Points; a line connects them in ascending order of x.
    pub points: Vec<ChartPoint>,
    /// Custom color; by default one of the color-blind-safe series colors.
    pub colour: Option<RgbColor>,
}

impl PointSeries {
    /// Style of the series at this index.
    pub(crate) fn style(&self, index: usize) -> SeriesStyle {
        SeriesStyle::of_series(index).with_color(self.colour)
    }
}

/// A point, optionally with an interval around its y.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ChartPoint {
    /// Coordinate along the bottom axis. For a category axis, an index.
    pub x: f64,
    /// Coordinate along the left axis.
    pub y: f64,
    /// Lower end of the interval around y.
    pub low: Option<f64>,
    /// Upper end of the interval around y.
    pub high: Option<f64>,
}

impl ChartPoint {
    /// Creates a point without an interval.
    pub fn new(x: f64, y: f64) -> Self {
        Self { x, y, low: None, high: None }
    }

    /// Creates a point with an interval from `low` to `high` around y.
    pub fn with_interval(x: f64, y: f64, low: f64, high: f64) -> Self {
        Self { x, y, low: Some(low), high: Some(high) }
    }
}

/// A view of the data of a point chart.
pub(crate) struct PointData<'a> {
    pub x: &'a ChartAxis,
    pub y: &'a ChartAxis,
    pub series: &'a [PointSeries],
}

impl<'a> PointData<'a> {
    /// Preferred height of a point chart below its header.
    pub const NATURAL_HEIGHT_PX: f64 = 520.0;

    pub fn new(x: &'a ChartAxis, y: &'a ChartAxis, series: &'a [PointSeries]) -> Self {
        Self { x, y, series }
    }

    /// The header, with a note on omitted points and the legend.
    pub fn header(&self, swatch: impl Fn(SeriesStyle) -> LegendSwatch) -> ChartHeader<'a> {
        ChartHeader {
            note: omitted_note(self.count_omitted(), &[&self.x.scale, &self.y.scale]),
            legend: self.legend(swatch),
            ..ChartHeader::default()
        }
    }

    pub fn legend(&self, swatch: impl Fn(SeriesStyle) -> LegendSwatch) -> Vec<LegendKey> {
        let mut keys = LegendKey::legend_keys(&self.names(), &swatch);
        for (index, (key, series)) in keys.iter_mut().zip(self.series).enumerate() {
            key.swatch = swatch(series.style(index));
        }
        keys
    }

    /// Whether both axes can show the point.
    pub fn can_show_point(&self, point: &ChartPoint) -> bool {
        can_show(&self.x.scale, point.x) && can_show(&self.y.scale, point.y)
    }

    fn points(&self) -> impl Iterator<Item = &'a ChartPoint> {
        self.series.iter().flat_map(|series| &series.points)
    }

    pub fn count_omitted(&self) -> usize {
        self.points().filter(|point| !self.can_show_point(point)).count()
    }

    pub fn count_shown(&self) -> usize {
        self.points().filter(|point| self.can_show_point(point)).count()
    }

    pub fn names(&self) -> Vec<&'a str> {
        self.series.iter().map(|series| series.name.as_str()).collect()
    }

    /// Axes that fit all points and, optionally, their intervals.
    pub fn plane(&self, sheet: PixelRect, with_intervals: bool) -> Option<PointPlane> {
        let (x, y) = self.extents(with_intervals)?;
        Some(PointPlane::lay_out(sheet, (self.x, x), (self.y, y)))
    }

    /// Extents of both axes for all points and, optionally, their intervals.
    pub fn extents(&self, with_intervals: bool) -> Option<(AxisExtent, AxisExtent)> {
        let shown: Vec<&ChartPoint> =
            self.points().filter(|point| self.can_show_point(point)).collect();
        let ends = |point: &&ChartPoint| {
            let (low, high) = if with_intervals { (point.low, point.high) } else { (None, None) };
            [Some(point.y), low, high].into_iter().flatten()
        };
        let x = extent(self.x, shown.iter().map(|point| point.x), 0.03)?;
        let y = extent(self.y, shown.iter().flat_map(ends), 0.05)?;
        Some((x, y))
    }

    pub fn point_tooltip(&self, series: &PointSeries, point: &ChartPoint) -> String {
        let name = match series.name.trim() {
            "" => String::new(),
            name => format!("{name}\n"),
        };
        let mut tooltip = format!(
            "{name}{}: {}\n{}: {}",
            axis_name(self.x, "x"),
            format_value(self.x, point.x),
            axis_name(self.y, "y"),
            format_value(self.y, point.y)
        );
        if let (Some(low), Some(high)) = (point.low, point.high) {
            tooltip.push_str(&format!("\n{} to {}", format_figure(low), format_figure(high)));
        }
        tooltip
    }

    pub fn draw_markers(
        &self,
        svg: &mut SvgWriter,
        plane: &PointPlane,
        series: &PointSeries,
        style: SeriesStyle,
        radius: f64,
    ) {
        let group =
            svg.start_group("points").set_text("fill", &style.color()).set_text("stroke", PAPER);
        group.set_number("stroke-width", if radius > 3.0 { 1.0 } else { 0.5 }).end_with(|svg| {
            for point in series.points.iter().filter(|point| self.can_show_point(point)) {
                let (x, y) = (plane.x.pixel_at(point.x), plane.y.pixel_at(point.y));
                svg.start_element("path")
                    .set_text("class", "point")
                    .set_text("d", &style.marker().path(x, y, radius))
                    .end_with_tooltip(&self.point_tooltip(series, point));
            }
        });
    }
}

fn extent(axis: &ChartAxis, values: impl Iterator<Item = f64>, padding: f64) -> Option<AxisExtent> {
    match &axis.scale {
        AxisScale::Category(names) => Some(AxisExtent::of_names(names.len())),
        scale => AxisExtent::of_values(scale, values)
            .map(|e| e.including_near_zero().with_padding(padding)),
    }
}

/// Label of an axis, which includes the unit. `default_name` if the label is empty.
fn axis_name<'a>(axis: &'a ChartAxis, default_name: &'a str) -> &'a str {
    match axis.label.trim() {
        "" => default_name,
        label => label,
    }
}

fn format_value(axis: &ChartAxis, value: f64) -> String {
    match &axis.scale {
        AxisScale::Category(names) => {
            let index = value.round().max(0.0) as usize;
            names.get(index).cloned().unwrap_or_else(|| format_figure(value))
        }
        _ => format_figure(value),
    }
}
