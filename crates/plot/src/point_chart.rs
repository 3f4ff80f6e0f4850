//! Draws points in the plane: scatter charts with a marker per point, and line charts that connect
//! the points of a series and show their intervals as error bars. [`PointData`] selects the points
//! that the axes can show, finds axes that fit these points, and draws the layers of both charts.

use crate::axes::{PlotArea, PointPlane};
use crate::axis::{AxisExtent, can_show};
use crate::color::{PAPER, RgbColor};
use crate::distribution::point_offsets;
use crate::format::{
    format_count, format_figure, format_heading, format_range, join_names, summarize_series,
};
use crate::header::{ChartHeader, LegendKey, LegendSwatch, omitted_note};
use crate::sheet::SheetContent;
use crate::style::SeriesStyle;
use crate::svg::{PixelRect, SvgWriter};
use crate::{AxisScale, ChartAxis};

/// Radius of the dots that show the observations of a point.
const OBSERVED_PX: f64 = 2.4;
/// Distance of the dots from their point.
const OBSERVED_ASIDE_PX: f64 = 11.0;
/// Width over which the dots spread.
const OBSERVED_SPREAD_PX: f64 = 8.0;
/// Half the width of the caps at the ends of intervals.
const CAP_PX: f64 = 4.0;
/// Preferred height of a chart below its header.
const NATURAL_HEIGHT_PX: f64 = 520.0;

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
    fn style(&self, index: usize) -> SeriesStyle {
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

/// Points in the plane, without intervals. [`LineChart`] draws intervals.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScatterChart {
    /// Title, in large letters.
    pub title: String,
    /// Subtitle.
    pub subtitle: Option<String>,
    /// The bottom axis.
    pub x: ChartAxis,
    /// The left axis.
    pub y: ChartAxis,
    /// Points by series.
    pub series: Vec<PointSeries>,
}

impl ScatterChart {
    fn data(&self) -> PointData<'_> {
        PointData { x: &self.x, y: &self.y, series: &self.series }
    }
}

impl SheetContent for ScatterChart {
    fn header(&self) -> ChartHeader<'_> {
        self.data().header(&self.title, &self.subtitle, LegendSwatch::Points)
    }

    fn summary(&self) -> String {
        let data = self.data();
        let points = format_count(data.count_shown(), "point", "s");
        summarize_series(&format!("Scatter chart of {points}"), &data.names())
    }

    fn is_empty(&self) -> bool {
        self.data().count_shown() == 0
    }

    fn draw(&self, svg: &mut SvgWriter, area: PixelRect) {
        let data = self.data();
        let Some((x, y)) = data.extents(false) else { return };
        let plane = PointPlane::lay_out(area, (&self.x, x), (&self.y, y));
        plane.draw_axes(svg);
        let (radius, opacity) = match data.count_shown() {
            0..200 => (4.4, 0.85),
            200..1000 => (3.0, 0.7),
            _ => (2.2, 0.55),
        };
        svg.start_group("series")
            .set_number("opacity", opacity)
            .end_with(|svg| data.draw_points(svg, &plane.area, radius));
    }

    fn natural_height(&self, _width: f64) -> f64 {
        NATURAL_HEIGHT_PX
    }
}

/// Lines with markers and error bars. A point that cannot be shown leaves a gap in its line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LineChart {
    /// Title, in large letters.
    pub title: String,
    /// Subtitle.
    pub subtitle: Option<String>,
    /// The bottom axis.
    pub x: ChartAxis,
    /// The left axis.
    pub y: ChartAxis,
    /// The lines.
    pub series: Vec<PointSeries>,
    /// Observations from which the points of each series were estimated, such as single runs. They
    /// are drawn faintly beside the points. In the order of `series`; may be empty.
    pub observations: Vec<Vec<ChartPoint>>,
    /// Number of series that are curves, such as fitted curves. Curves come last in `series`. Their
    /// points were not measured and have no markers.
    pub curves: usize,
}

impl LineChart {
    fn data(&self) -> PointData<'_> {
        PointData { x: &self.x, y: &self.y, series: &self.series }
    }

    /// Extents of both axes for the points, their intervals and the observations.
    fn extents(&self) -> Option<(AxisExtent, AxisExtent)> {
        let data = self.data();
        let (x, y) = data.extents(true)?;
        let observations = self.observations.iter().flatten();
        let shown = observations.filter(|point| data.can_show_point(point));
        Some((x, shown.fold(y, |y, point| y.extended_to(point.y))))
    }

    /// Draws the observations of a series as dots to the right of their points, where dots and
    /// points do not hide each other.
    fn draw_observations(&self, svg: &mut SvgWriter, area: &PlotArea, index: usize) {
        let (data, series) = (self.data(), &self.series[index]);
        let Some(observed) = self.observations.get(index).filter(|points| !points.is_empty())
        else {
            return;
        };
        let mut observed: Vec<&ChartPoint> =
            observed.iter().filter(|point| data.can_show_point(point)).collect();
        observed.sort_by(|one, other| one.x.total_cmp(&other.x).then(one.y.total_cmp(&other.y)));
        let group = svg.start_group("observations").set_text("fill", &series.style(index).color());
        group.set_number("fill-opacity", 0.35).end_with(|svg| {
            for neighbors in observed.chunk_by(|one, other| one.x == other.x) {
                let values: Vec<f64> = neighbors.iter().map(|point| point.y).collect();
                for (point, offset) in neighbors.iter().zip(point_offsets(&values)) {
                    let (x, y) = area.point_at(point.x, point.y);
                    let center = (x + OBSERVED_ASIDE_PX + offset * OBSERVED_SPREAD_PX, y);
                    let name = format_heading(&series.name);
                    let tooltip = format!("{name}one run: {}", format_figure(point.y));
                    svg.start_circle("observation", center, OBSERVED_PX).end_with_tooltip(&tooltip);
                }
            }
        });
    }
}

impl SheetContent for LineChart {
    fn header(&self) -> ChartHeader<'_> {
        self.data().header(&self.title, &self.subtitle, LegendSwatch::Line)
    }

    fn summary(&self) -> String {
        let data = self.data();
        let points = format_count(data.count_shown(), "point", "s");
        let lines = format_count(self.series.len(), "line", "s");
        format!("Line chart of {lines} with {points}: {}.", join_names(&data.names()))
    }

    fn is_empty(&self) -> bool {
        self.data().count_shown() == 0
    }

    fn draw(&self, svg: &mut SvgWriter, area: PixelRect) {
        let data = self.data();
        let Some((x, y)) = self.extents() else { return };
        let plane = PointPlane::lay_out(area, (&self.x, x), (&self.y, y));
        plane.draw_axes(svg);
        for (index, series) in self.series.iter().enumerate() {
            let style = series.style(index);
            self.draw_observations(svg, &plane.area, index);
            data.draw_intervals(svg, &plane.area, series, style);
            data.draw_line(svg, &plane.area, series, style);
        }
        let marked_count = self.series.len().saturating_sub(self.curves);
        let marked = PointData { series: &self.series[..marked_count], ..data };
        let radius = match marked.count_shown() {
            0..200 => 4.5,
            200..600 => 3.2,
            _ => 2.2,
        };
        marked.draw_points(svg, &plane.area, radius);
    }

    fn natural_height(&self, _width: f64) -> f64 {
        NATURAL_HEIGHT_PX
    }
}

/// A view of the data of a point chart.
#[derive(Clone, Copy)]
pub(crate) struct PointData<'a> {
    pub x: &'a ChartAxis,
    pub y: &'a ChartAxis,
    pub series: &'a [PointSeries],
}

impl<'a> PointData<'a> {
    /// The header, with a note on omitted points and the legend.
    pub fn header(
        &self,
        title: &'a str,
        subtitle: &'a Option<String>,
        swatch: impl Fn(SeriesStyle) -> LegendSwatch,
    ) -> ChartHeader<'a> {
        let note = omitted_note(self.count_omitted(), &[&self.x.scale, &self.y.scale]);
        ChartHeader::new(title, subtitle, note, self.legend(swatch))
    }

    pub fn legend(&self, swatch: impl Fn(SeriesStyle) -> LegendSwatch) -> Vec<LegendKey> {
        let series = self.series.iter().enumerate();
        LegendKey::of_series(series.map(|(i, series)| (&*series.name, series.style(i))), swatch)
    }

    pub fn names(&self) -> Vec<&'a str> {
        self.series.iter().map(|series| series.name.as_str()).collect()
    }

    /// Whether both axes can show the point.
    fn can_show_point(&self, point: &ChartPoint) -> bool {
        can_show(&self.x.scale, point.x) && can_show(&self.y.scale, point.y)
    }

    /// The points of a series that both axes can show.
    pub fn shown_points<'p>(
        &self,
        series: &'p PointSeries,
    ) -> impl Iterator<Item = &'p ChartPoint> {
        series.points.iter().filter(move |point| self.can_show_point(point))
    }

    /// The points of all series that both axes can show.
    pub fn all_shown_points(&self) -> impl Iterator<Item = &'a ChartPoint> {
        self.series.iter().flat_map(move |series| self.shown_points(series))
    }

    pub fn count_shown(&self) -> usize {
        self.all_shown_points().count()
    }

    pub fn count_omitted(&self) -> usize {
        self.series.iter().map(|series| series.points.len()).sum::<usize>() - self.count_shown()
    }

    /// Extents of both axes for all points and, optionally, their intervals.
    pub fn extents(&self, with_intervals: bool) -> Option<(AxisExtent, AxisExtent)> {
        let ends = |point: &ChartPoint| {
            let (low, high) = if with_intervals { (point.low, point.high) } else { (None, None) };
            [Some(point.y), low, high].into_iter().flatten()
        };
        let x = self.all_shown_points().map(|point| point.x);
        let y = self.all_shown_points().flat_map(ends);
        Some((
            AxisExtent::of_data(&self.x.scale, x, 0.03)?,
            AxisExtent::of_data(&self.y.scale, y, 0.05)?,
        ))
    }

    /// Draws a marker for each point.
    pub fn draw_points(&self, svg: &mut SvgWriter, area: &PlotArea, radius: f64) {
        for (index, series) in self.series.iter().enumerate() {
            let style = series.style(index);
            let group = svg.start_group("points").set_text("fill", &style.color());
            group.set_stroke(PAPER, if radius > 3.0 { 1.0 } else { 0.5 }).end_with(|svg| {
                for point in self.shown_points(series) {
                    let at = area.point_at(point.x, point.y);
                    style.draw_point(svg, at, radius, &self.point_tooltip(series, point));
                }
            });
        }
    }

    fn point_tooltip(&self, series: &PointSeries, point: &ChartPoint) -> String {
        let mut tooltip = format!(
            "{}{}: {}\n{}: {}",
            format_heading(&series.name),
            axis_name(self.x, "x"),
            format_value(self.x, point.x),
            axis_name(self.y, "y"),
            format_value(self.y, point.y)
        );
        if let (Some(low), Some(high)) = (point.low, point.high) {
            tooltip.push_str(&format!("\n{}", format_range(low, high)));
        }
        tooltip
    }

    /// Draws a line through the points of a series, in ascending order of x.
    fn draw_line(
        &self,
        svg: &mut SvgWriter,
        area: &PlotArea,
        series: &PointSeries,
        style: SeriesStyle,
    ) {
        let mut points = series.points.clone();
        points.sort_by(|one, other| one.x.total_cmp(&other.x));
        let segments = points.split(|point| !self.can_show_point(point));
        for segment in segments.filter(|segment| segment.len() > 1) {
            let corners = segment.iter().map(|point| area.point_at(point.x, point.y));
            svg.start_corners("polyline", "line", corners)
                .set_text("fill", "none")
                .set_stroke(&style.color(), 2.0)
                .set_text("stroke-linejoin", "round")
                .set_nonempty("stroke-dasharray", style.dash())
                .end_empty();
        }
    }

    /// Draws the intervals of a series as lines with caps.
    fn draw_intervals(
        &self,
        svg: &mut SvgWriter,
        area: &PlotArea,
        series: &PointSeries,
        style: SeriesStyle,
    ) {
        let has_interval = |point: &&ChartPoint| {
            let mut ends = [point.low, point.high].into_iter().flatten();
            point.low.or(point.high).is_some() && !ends.any(f64::is_nan)
        };
        let group = svg.start_group("intervals").set_stroke(&style.color(), 1.3);
        group.set_number("stroke-opacity", 0.75).end_with(|svg| {
            for point in self.shown_points(series).filter(has_interval) {
                let ends = [point.low, point.high].map(|end| end.unwrap_or(point.y));
                let [low, high] = ends.map(|end| area.point_at(point.x, end));
                svg.start_line(low, high).set_text("class", "interval").end_empty();
                for (x, y) in [low, high] {
                    let cap = svg.start_line((x - CAP_PX, y), (x + CAP_PX, y));
                    cap.set_text("class", "cap").end_empty();
                }
            }
        });
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
