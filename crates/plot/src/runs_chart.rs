//! Draws values in the order in which they were measured, to show drift. Beside them, each series
//! has a box on the same axis, to make series comparable.

use crate::ChartAxis;
use crate::axes::PointPlane;
use crate::box_mark::TukeyStats;
use crate::color::{GRID, PAPER};
use crate::header::{ChartHeader, LegendSwatch};
use crate::numeral::format_figure;
use crate::page::{SheetContent, format_count, join_names};
use crate::point_series::{ChartPoint, PointData, PointSeries};
use crate::scale::{AxisExtent, AxisMapping, can_show};
use crate::style::SeriesStyle;
use crate::svg::{PixelRect, SvgWriter};

/// Height of the chart below its header. Several charts of this height fit on a screen.
const NATURAL_HEIGHT_PX: f64 = 225.0;

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
        PointData::new(&self.x, &self.y, &self.series)
    }

    /// Axes that fit all runs. The bottom axis starts near the first run instead of at zero.
    fn plane(&self, sheet: PixelRect) -> Option<PointPlane> {
        let data = self.data();
        let points = self.series.iter().flat_map(|series| &series.points);
        let shown: Vec<&ChartPoint> = points.filter(|point| data.can_show_point(point)).collect();
        let x = AxisExtent::of_values(&self.x.scale, shown.iter().map(|point| point.x))?;
        let centers = self
            .centers
            .iter()
            .flatten()
            .copied()
            .filter(|center| can_show(&self.y.scale, *center));
        let values = shown.iter().map(|point| point.y).chain(centers);
        let y = AxisExtent::of_values(&self.y.scale, values)?;
        let (x, y) = (x.with_padding(0.03), y.including_near_zero().with_padding(0.06));
        Some(PointPlane::lay_out(sheet, (&self.x, x), (&self.y, y)).with_whole_x())
    }

    /// Box statistics per series; `None` for a series without values to show.
    fn box_stats(&self) -> Vec<Option<TukeyStats>> {
        let data = self.data();
        let center = |index: usize| {
            let estimate = self.centers.get(index).copied().flatten();
            estimate.filter(|center| can_show(&self.y.scale, *center))
        };
        let tukey = |(index, series): (usize, &PointSeries)| {
            let shown = series.points.iter().filter(|point| data.can_show_point(point));
            let mut values: Vec<f64> = shown.map(|point| point.y).collect();
            values.sort_by(f64::total_cmp);
            TukeyStats::of_sorted(&values).map(|tukey| tukey.with_center(center(index)))
        };
        self.series.iter().enumerate().map(tukey).collect()
    }

    fn draw_breaks(&self, svg: &mut SvgWriter, plane: &PointPlane) {
        let PixelRect { top, bottom, .. } = plane.plot;
        let line =
            |position: &f64| format!("M{:.1} {top:.1}V{bottom:.1}", plane.x.pixel_at(*position));
        let inside = self.breaks.iter().filter(|position| plane.x.contains_value(**position));
        let data: String = inside.map(line).collect();
        if !data.is_empty() {
            let path = svg.start_element("path").set_text("class", "breaks").set_text("d", &data);
            path.set_text("stroke", GRID).end_empty();
        }
    }

    /// Draws a line across the plot for each series, at the median or at the compared estimate.
    fn draw_centers(&self, svg: &mut SvgWriter, plane: &PointPlane, tukeys: &[Option<TukeyStats>]) {
        for (index, tukey) in tukeys.iter().enumerate() {
            let (style, Some(tukey)) = (SeriesStyle::of_series(index), tukey) else {
                continue;
            };
            let y = plane.y.pixel_at(tukey.center);
            let line = svg.start_line((plane.plot.left, y), (plane.plot.right, y));
            line.set_text("class", "median")
                .set_text("stroke", &style.color())
                .set_number("stroke-width", 1.2)
                .set_number("stroke-opacity", 0.6)
                .set_nonempty("stroke-dasharray", style.dash())
                .end_empty();
        }
    }

    /// Draws the marks of all runs. The shape of a series is defined once and referenced for every
    /// run. This keeps a page with thousands of charts small.
    fn draw_runs(&self, svg: &mut SvgWriter, plane: &PointPlane) {
        let data = self.data();
        let radius = match data.count_shown() {
            0..80 => 3.6,
            80..300 => 2.6,
            _ => 1.8,
        };
        svg.start_element("defs").end_with(|svg| {
            for index in 0..self.series.len() {
                let shape = svg.start_element("path").set_text("id", &format!("run{index}"));
                let outline = SeriesStyle::of_series(index).marker().path(0.0, 0.0, radius);
                shape.set_text("d", &outline).end_empty();
            }
        });
        for (index, series) in self.series.iter().enumerate() {
            let group = svg
                .start_group("points")
                .set_text("fill", &SeriesStyle::of_series(index).color())
                .set_text("stroke", PAPER)
                .set_number("stroke-width", 0.7);
            group.end_with(|svg| {
                for point in series.points.iter().filter(|point| data.can_show_point(point)) {
                    svg.start_element("use")
                        .set_text("class", "point")
                        .set_text("href", &format!("#run{index}"))
                        .set_number("x", plane.x.pixel_at(point.x))
                        .set_number("y", plane.y.pixel_at(point.y))
                        .end_with_tooltip(&format!(
                            "run {}: {}",
                            format_figure(point.x),
                            format_figure(point.y)
                        ));
                }
            });
        }
    }
}

impl SheetContent for RunsChart {
    fn header(&self) -> ChartHeader<'_> {
        ChartHeader {
            title: &self.title,
            subtitle: self.subtitle.as_deref(),
            ..self.data().header(LegendSwatch::Line)
        }
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
        let boxes_px = RunsBoxes::boxes_width(self.series.len(), area.width());
        let left = PixelRect::new(area.left, area.top, area.right - boxes_px, area.bottom);
        let Some(plane) = self.plane(left) else {
            return;
        };
        let tukeys = self.box_stats();
        self.draw_breaks(svg, &plane);
        plane.draw_axes(svg);
        self.draw_centers(svg, &plane, &tukeys);
        self.draw_runs(svg, &plane);
        RunsBoxes::place_beside(plane.plot, area.right, &tukeys).draw(svg, &plane.y);
    }

    fn natural_height(&self, _width: f64) -> f64 {
        NATURAL_HEIGHT_PX
    }
}

// Boxes to the right of the values in order of execution: one per series, on the value axis.

/// Pixels per box, including the gap to the next box, if there is room.
const SLOT_PX: f64 = 30.0;
/// Maximum fraction of the chart's width for all boxes.
const MAX_WIDTH_SHARE: f64 = 0.35;
/// Gap in pixels between the runs and the first box.
const GAP: f64 = 8.0;

/// Layout of the boxes of all series.
pub(crate) struct RunsBoxes<'a> {
    left: f64,
    slot_px: f64,
    tukeys: &'a [Option<TukeyStats>],
}

impl<'a> RunsBoxes<'a> {
    /// Width in pixels of `count` boxes in a chart of the given width.
    pub fn boxes_width(count: usize, chart_px: f64) -> f64 {
        (count as f64 * SLOT_PX + GAP).min(chart_px * MAX_WIDTH_SHARE)
    }

    /// Places boxes right of `plot`, up to `right`.
    pub fn place_beside(plot: PixelRect, right: f64, tukeys: &'a [Option<TukeyStats>]) -> Self {
        let left = plot.right + GAP;
        Self {
            left,
            // On a sheet that is too small for its chart, `right` can be less than `left`.
            slot_px: (right - left).max(0.0) / tukeys.len().max(1) as f64,
            tukeys,
        }
    }

    /// Draws every box along the value axis.
    pub fn draw(&self, svg: &mut SvgWriter, y: &AxisMapping) {
        svg.start_group("boxes").end_with(|svg| {
            for (index, tukey) in self.tukeys.iter().enumerate() {
                let Some(tukey) = tukey else { continue };
                let middle = self.left + (index as f64 + 0.5) * self.slot_px;
                draw_box(
                    svg,
                    tukey,
                    SeriesStyle::of_series(index),
                    y,
                    (middle, self.slot_px * 0.32),
                );
            }
        });
    }
}

/// Draws a box around `middle` that extends by `half_px` pixels to both sides.
fn draw_box(
    svg: &mut SvgWriter,
    tukey: &TukeyStats,
    style: SeriesStyle,
    y: &AxisMapping,
    (middle, half_px): (f64, f64),
) {
    let (low, high) = (y.pixel_at(tukey.low_quartile), y.pixel_at(tukey.high_quartile));
    let whiskers = format!(
        "M{middle:.1} {low:.1}V{:.1}M{middle:.1} {high:.1}V{:.1}",
        y.pixel_at(tukey.low_whisker),
        y.pixel_at(tukey.high_whisker)
    );
    let tooltip = format!(
        "{}\nquartiles {} to {}",
        tukey.describe_center(),
        format_figure(tukey.low_quartile),
        format_figure(tukey.high_quartile)
    );
    let group = svg.start_group("series").set_text("stroke", &style.color());
    group.set_text("fill", &style.color()).end_with(|svg| {
        svg.start_element("path").set_text("d", &whiskers).end_empty();
        svg.start_element("rect")
            .set_text("class", "box")
            .set_number("x", middle - half_px)
            .set_number("y", high.min(low))
            .set_number("width", 2.0 * half_px)
            .set_number("height", (low - high).abs())
            .set_number("fill-opacity", 0.2)
            .end_with_tooltip(&tooltip);
        let center = y.pixel_at(tukey.center);
        svg.start_line((middle - half_px, center), (middle + half_px, center))
            .set_number("stroke-width", 2.4)
            .end_empty();
        svg.start_element("path")
            .set_text("d", &style.marker().path(middle, center, 2.8))
            .end_empty();
    });
}
