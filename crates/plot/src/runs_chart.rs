//! Draws values in the order in which they were measured, to show drift. Beside them, each series
//! has a box on the same axis, to make series comparable.

use crate::ChartAxis;
use crate::axes::{PlotArea, PointPlane};
use crate::axis::{AxisExtent, can_show};
use crate::color::{GRID, PAPER};
use crate::distribution::TukeyStats;
use crate::format::{format_count, format_figure, join_names};
use crate::header::{ChartHeader, LegendSwatch};
use crate::point_chart::{PointData, PointSeries};
use crate::sheet::SheetContent;
use crate::style::SeriesStyle;
use crate::svg::{PixelRect, SvgWriter};

/// Height of the chart below its header. Several charts of this height fit on a screen.
const NATURAL_HEIGHT_PX: f64 = 225.0;
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
            AxisExtent::of_values(&self.x.scale, runs)?.with_padding(0.03),
            AxisExtent::of_data(&self.y.scale, values, 0.06)?,
        ))
    }

    /// Box statistics per series; `None` for a series without values to show.
    fn box_stats(&self) -> Vec<Option<TukeyStats>> {
        let data = self.data();
        let tukey = |(index, series): (usize, &PointSeries)| {
            let mut values: Vec<f64> = data.shown_points(series).map(|point| point.y).collect();
            values.sort_by(f64::total_cmp);
            let center = self.centers.get(index).copied().flatten();
            let center = center.filter(|center| can_show(&self.y.scale, *center));
            Some(TukeyStats::of_sorted(&values)?.with_center(center))
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
        NATURAL_HEIGHT_PX
    }
}

/// Draws a line across the plot at the median of a series, or at the compared estimate.
fn draw_center(svg: &mut SvgWriter, area: &PlotArea, tukey: &TukeyStats, style: SeriesStyle) {
    let y = area.y.pixel_at(tukey.center);
    svg.start_line((area.rect.left, y), (area.rect.right, y))
        .set_text("class", "median")
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
    let whiskers = format!(
        "M{middle:.1} {low:.1}V{:.1}M{middle:.1} {high:.1}V{:.1}",
        y_of(tukey.low_whisker),
        y_of(tukey.high_whisker)
    );
    let (left, right) = (middle - half_px, middle + half_px);
    let group = svg.start_group("series").set_text("stroke", &style.color());
    group.set_text("fill", &style.color()).end_with(|svg| {
        svg.start_path("", &whiskers).end_empty();
        let rect = PixelRect { left, right, top: high.min(low), bottom: high.max(low) };
        svg.start_rect("box", rect)
            .set_number("fill-opacity", 0.2)
            .end_with_tooltip(&tukey.describe_box());
        let center = y_of(tukey.center);
        svg.start_line((left, center), (right, center)).set_number("stroke-width", 2.4).end_empty();
        svg.start_path("", &style.marker().path(middle, center, 2.8)).end_empty();
    });
}
