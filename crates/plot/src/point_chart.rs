//! Draws points in the plane: scatter charts with a marker per point, and line charts that connect
//! the points of a series and show their intervals as error bars. [`PointData`] selects the points
//! that the axes can show, finds axes that fit these points, and draws the layers of both charts.
//! Also draws runs in order of execution.

use crate::ChartAxis;
use crate::axes::{PlotArea, PointPlane};
use crate::axis::{AxisExtent, can_show};
use crate::distribution::{TukeyStats, point_offsets};
use crate::format::{
    format_count, format_figure, format_heading, format_range, join_names, summarize_series,
};
use crate::sheet::{ChartHeader, LegendKey, LegendSwatch, SheetContent, omitted_note};
use crate::style::SeriesStyle;
use crate::svg::{GRID, PAPER, PixelRect, RgbColor, SvgWriter};

/// Radius of the dots that show the observations of a point.
const OBSERVED_PX: f64 = 2.4;
/// Distance of the dots from their point.
const OBSERVED_ASIDE_PX: f64 = 11.0;
/// Width over which the dots spread.
const OBSERVED_SPREAD_PX: f64 = 8.0;
/// Half the width of the caps at the ends of intervals.
const CAP_PX: f64 = 4.0;

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
        for index in 0..self.series.len() {
            self.draw_observations(svg, &plane.area, index);
            data.draw_intervals(svg, &plane.area, index);
            data.draw_line(svg, &plane.area, index);
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
        let note = omitted_note(self.count_omitted(), &[self.x.scale, self.y.scale]);
        let subtitle = subtitle.as_deref();
        ChartHeader { title, subtitle, note, legend: self.legend(swatch) }
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
        can_show(self.x.scale, point.x) && can_show(self.y.scale, point.y)
    }

    /// The points of a series that both axes can show.
    fn shown_points<'p>(&self, series: &'p PointSeries) -> impl Iterator<Item = &'p ChartPoint> {
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
            AxisExtent::of_data(self.x.scale, x, 0.03)?,
            AxisExtent::of_data(self.y.scale, y, 0.05)?,
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
        let x = format_coordinate(self.x, "x", point.x);
        let y = format_coordinate(self.y, "y", point.y);
        let mut tooltip = format!("{}{x}\n{y}", format_heading(&series.name));
        if let (Some(low), Some(high)) = (point.low, point.high) {
            tooltip.push_str(&format!("\n{}", format_range(low, high)));
        }
        tooltip
    }

    /// Draws a line through the points of a series, in ascending order of x.
    fn draw_line(&self, svg: &mut SvgWriter, area: &PlotArea, index: usize) {
        let style = self.series[index].style(index);
        let mut points = self.series[index].points.clone();
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
    fn draw_intervals(&self, svg: &mut SvgWriter, area: &PlotArea, index: usize) {
        let series = &self.series[index];
        let has_interval = |point: &&ChartPoint| {
            let mut ends = [point.low, point.high].into_iter().flatten();
            point.low.or(point.high).is_some() && !ends.any(f64::is_nan)
        };
        let group = svg.start_group("intervals").set_stroke(&series.style(index).color(), 1.3);
        group.set_number("stroke-opacity", 0.75).end_with(|svg| {
            for point in self.shown_points(series).filter(has_interval) {
                let ends = [point.low, point.high].map(|end| end.unwrap_or(point.y));
                let [low, high] = ends.map(|end| area.point_at(point.x, end));
                svg.start_line("interval", low, high).end_empty();
                for (x, y) in [low, high] {
                    svg.start_line("cap", (x - CAP_PX, y), (x + CAP_PX, y)).end_empty();
                }
            }
        });
    }
}

/// Formats a coordinate after the label of its axis, which includes the unit. If the label is empty,
/// `default_name` replaces it.
fn format_coordinate(axis: &ChartAxis, default_name: &str, value: f64) -> String {
    let label = Some(axis.label.trim()).filter(|label| !label.is_empty());
    let name = axis.names.get(value.round().max(0.0) as usize);
    let figure = name.cloned().unwrap_or_else(|| format_figure(value));
    format!("{}: {figure}", label.unwrap_or(default_name))
}

// Draws values in the order in which they were measured, to show drift. Beside them, each series
// has a box on the same axis, to make series comparable.

/// Height of the chart below its header. Several charts of this height fit on a screen.
const RUNS_HEIGHT_PX: f64 = 225.0;
/// Pixels per box, including the gap to the next box, if there is room.
const BOX_SLOT_PX: f64 = 30.0;
/// Maximum fraction of the chart's width for all boxes.
const MAX_BOXES_SHARE: f64 = 0.35;
/// Gap in pixels between the runs and the first box.
const BOX_GAP: f64 = 8.0;

/// Values in order of execution, with a box per series.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunsChart {
    /// Title, in large letters; may be empty if the page has one.
    pub title: String,
    /// Subtitle.
    pub subtitle: Option<String>,
    /// Bottom axis, with positions in the order of execution.
    pub x: ChartAxis,
    /// Value axis.
    pub y: ChartAxis,
    /// Values of each series. x is the position in the order of execution.
    pub series: Vec<PointSeries>,
    /// Positions on the bottom axis at which one part of the plan ends and the next starts. They
    /// are drawn as thin lines.
    pub breaks: Vec<f64>,
    /// Position of the line of each series; `None` for the median of the series. Any other position
    /// is an estimate that uses additional information, such as which values were measured
    /// together. May be empty.
    pub centers: Vec<Option<f64>>,
}

impl RunsChart {
    fn data(&self) -> PointData<'_> {
        PointData { x: &self.x, y: &self.y, series: &self.series }
    }

    /// Extents of both axes for all runs. The bottom axis starts near the first run instead of at
    /// zero.
    fn extents(&self) -> Option<(AxisExtent, AxisExtent)> {
        let data = self.data();
        let runs = data.all_shown_points().map(|point| point.x);
        let centers = self.centers.iter().flatten().copied();
        let values = data.all_shown_points().map(|point| point.y).chain(centers);
        Some((
            AxisExtent::of_values(self.x.scale, runs)?.with_padding(0.03),
            AxisExtent::of_data(self.y.scale, values, 0.06)?,
        ))
    }

    /// Box statistics per series; `None` for a series without values to show.
    fn box_stats(&self) -> Vec<Option<TukeyStats>> {
        let data = self.data();
        let tukey = |(index, series): (usize, &PointSeries)| {
            let mut values: Vec<f64> = data.shown_points(series).map(|point| point.y).collect();
            values.sort_by(f64::total_cmp);
            let center = self.centers.get(index).copied().flatten();
            let shown_center = center.filter(|center| can_show(self.y.scale, *center));
            Some(TukeyStats::of_sorted(&values)?.with_center(shown_center))
        };
        self.series.iter().enumerate().map(tukey).collect()
    }

    fn draw_breaks(&self, svg: &mut SvgWriter, area: &PlotArea) {
        let PixelRect { top, bottom, .. } = area.rect;
        let line =
            |position: &f64| format!("M{:.1} {top:.1}V{bottom:.1}", area.x.pixel_at(*position));
        let inside = self.breaks.iter().filter(|position| area.x.contains_value(**position));
        let data: String = inside.map(line).collect();
        if !data.is_empty() {
            svg.start_path("breaks", &data).set_text("stroke", GRID).end_empty();
        }
    }

    /// Draws the marks of all runs.
    fn draw_runs(&self, svg: &mut SvgWriter, area: &PlotArea) {
        let data = self.data();
        let radius = match data.count_shown() {
            0..80 => 3.6,
            80..300 => 2.6,
            _ => 1.8,
        };
        svg.start_element("defs").end_with(|svg| {
            for index in 0..self.series.len() {
                SeriesStyle::of_series(index).define_marker(svg, &format!("run{index}"), radius);
            }
        });
        for (index, series) in self.series.iter().enumerate() {
            let colour = SeriesStyle::of_series(index).color();
            let group = svg.start_group("points").set_text("fill", &colour);
            group.set_stroke(PAPER, 0.7).end_with(|svg| {
                for point in data.shown_points(series) {
                    let (run, value) = (format_figure(point.x), format_figure(point.y));
                    svg.start_element("use")
                        .set_text("class", "point")
                        .set_text("href", &format!("#run{index}"))
                        .set_number("x", area.x.pixel_at(point.x))
                        .set_number("y", area.y.pixel_at(point.y))
                        .end_with_tooltip(&format!("run {run}: {value}"));
                }
            });
        }
    }
}

impl SheetContent for RunsChart {
    fn header(&self) -> ChartHeader<'_> {
        self.data().header(&self.title, &self.subtitle, LegendSwatch::Line)
    }

    fn summary(&self) -> String {
        let data = self.data();
        let runs = format_count(data.count_shown(), "value", "s");
        let median = |(name, tukey): (&&str, &Option<TukeyStats>)| match tukey {
            Some(tukey) => {
                let center = tukey.describe_center().replace('\n', ", ");
                format!("{name} ({center})")
            }
            None => (*name).to_owned(),
        };
        let names = data.names();
        let medians: Vec<String> = names.iter().zip(&self.box_stats()).map(median).collect();
        let medians: Vec<&str> = medians.iter().map(String::as_str).collect();
        format!("{runs} in order of execution: {}.", join_names(&medians))
    }

    fn is_empty(&self) -> bool {
        self.data().count_shown() == 0
    }

    fn draw(&self, svg: &mut SvgWriter, area: PixelRect) {
        let count = self.series.len();
        let boxes_px = (count as f64 * BOX_SLOT_PX + BOX_GAP).min(area.width() * MAX_BOXES_SHARE);
        let left = PixelRect::new(area.left, area.top, area.right - boxes_px, area.bottom);
        let Some((x, y)) = self.extents() else { return };
        let mut plane = PointPlane::lay_out(left, (&self.x, x), (&self.y, y));
        plane.area.x.whole_numbers = true;
        let tukeys = self.box_stats();
        let tukeys = || tukeys.iter().enumerate().filter_map(|(i, tukey)| Some((i, (*tukey)?)));
        self.draw_breaks(svg, &plane.area);
        plane.draw_axes(svg);
        for (index, tukey) in tukeys() {
            draw_center(svg, &plane.area, &tukey, SeriesStyle::of_series(index));
        }
        self.draw_runs(svg, &plane.area);
        let boxes_left = plane.area.rect.right + BOX_GAP;
        // On a sheet that is too small for its chart, the boxes have no room.
        let slot_px = (area.right - boxes_left).max(0.0) / count.max(1) as f64;
        svg.start_group("boxes").end_with(|svg| {
            for (index, tukey) in tukeys() {
                let middle = boxes_left + (index as f64 + 0.5) * slot_px;
                let across = (middle, slot_px * 0.32);
                draw_box(svg, &tukey, SeriesStyle::of_series(index), &plane.area, across);
            }
        });
    }

    fn natural_height(&self, _width: f64) -> f64 {
        RUNS_HEIGHT_PX
    }
}

/// Draws a line across the plot at the median of a series, or at the compared estimate.
fn draw_center(svg: &mut SvgWriter, area: &PlotArea, tukey: &TukeyStats, style: SeriesStyle) {
    let y = area.y.pixel_at(tukey.center);
    svg.start_line("median", (area.rect.left, y), (area.rect.right, y))
        .set_stroke(&style.color(), 1.2)
        .set_number("stroke-opacity", 0.6)
        .set_nonempty("stroke-dasharray", style.dash())
        .end_empty();
}

/// Draws a box around `middle` that extends by `half_px` pixels to both sides.
fn draw_box(
    svg: &mut SvgWriter,
    tukey: &TukeyStats,
    style: SeriesStyle,
    area: &PlotArea,
    (middle, half_px): (f64, f64),
) {
    let y_of = |value: f64| area.y.pixel_at(value);
    let (low, high) = (y_of(tukey.low_quartile), y_of(tukey.high_quartile));
    let (lowest, highest) = (y_of(tukey.low_whisker), y_of(tukey.high_whisker));
    let whiskers = format!("M{middle:.1} {low:.1}V{lowest:.1}M{middle:.1} {high:.1}V{highest:.1}");
    let (left, right) = (middle - half_px, middle + half_px);
    let group = svg.start_group("series").set_text("stroke", &style.color());
    group.set_text("fill", &style.color()).end_with(|svg| {
        svg.start_path("", &whiskers).end_empty();
        let rect = PixelRect { left, right, top: high.min(low), bottom: high.max(low) };
        svg.start_rect("box", rect)
            .set_number("fill-opacity", 0.2)
            .end_with_tooltip(&tukey.describe_box());
        let center = y_of(tukey.center);
        let line = svg.start_line("", (left, center), (right, center));
        line.set_number("stroke-width", 2.4).end_empty();
        svg.start_path("", &style.marker().path(middle, center, 2.8)).end_empty();
    });
}
