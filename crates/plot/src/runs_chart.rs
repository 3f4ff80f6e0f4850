//! Values in measurement order, which shows drift, next to a box for each series on the same axis,
//! for comparison.

use crate::Axis;
use crate::axes::Plane;
use crate::box_mark::Tukey;
use crate::colour::{GRID, PAPER};
use crate::header::{Header, Swatch};
use crate::numeral::figure;
use crate::page::{Figure, count, list};
use crate::point_series::{Point, PointData, PointSeries};
use crate::scale::{Extent, Mapping, can_show};
use crate::style::Style;
use crate::svg::{Rect, Svg};

/// Height of the chart below its header: low enough for several on a screen.
const NATURAL_HEIGHT_PX: f64 = 225.0;

/// Values in order of execution, with a box per series.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunsChart {
    /// Title, in large letters; may be empty if the page has one.
    pub title: String,
    /// Subtitle.
    pub subtitle: Option<String>,
    /// Order of execution.
    pub x: Axis,
    /// Value axis.
    pub y: Axis,
    /// Values of each series; x is the position in the order of execution.
    pub series: Vec<PointSeries>,
    /// Positions on the bottom axis at which one part of the plan ends and the next starts; drawn
    /// as thin lines.
    pub breaks: Vec<f64>,
    /// Position of the line of each series, if not its median: an estimate that uses additional
    /// information, such as which values were measured together. May be empty.
    pub centers: Vec<Option<f64>>,
}

impl RunsChart {
    fn data(&self) -> PointData<'_> {
        PointData::new(&self.x, &self.y, &self.series)
    }

    /// Axes that fit all runs. The bottom axis starts at the first run.
    fn plane(&self, sheet: Rect) -> Option<Plane> {
        let data = self.data();
        let points = self.series.iter().flat_map(|series| &series.points);
        let shown: Vec<&Point> = points.filter(|point| data.shown(point)).collect();
        let x = Extent::of_values(&self.x.scale, shown.iter().map(|point| point.x))?;
        let centers = self.centers.iter().flatten().copied();
        let centers = centers.filter(|center| can_show(&self.y.scale, *center));
        let values = shown.iter().map(|point| point.y).chain(centers);
        let y = Extent::of_values(&self.y.scale, values)?;
        let (x, y) = (x.padded(0.03), y.including_near_zero().padded(0.06));
        Some(Plane::lay_out(sheet, (&self.x, x), (&self.y, y)).of_positions())
    }

    /// Box statistics per series; `None` for a series without values that can be shown.
    fn tukeys(&self) -> Vec<Option<Tukey>> {
        let data = self.data();
        let center = |at: usize| {
            let given = self.centers.get(at).copied().flatten();
            given.filter(|center| can_show(&self.y.scale, *center))
        };
        let tukey = |(at, series): (usize, &PointSeries)| {
            let shown = series.points.iter().filter(|point| data.shown(point));
            let mut values: Vec<f64> = shown.map(|point| point.y).collect();
            values.sort_by(f64::total_cmp);
            Tukey::of_sorted(&values).map(|tukey| tukey.centered(center(at)))
        };
        self.series.iter().enumerate().map(tukey).collect()
    }

    fn draw_breaks(&self, svg: &mut Svg, plane: &Plane) {
        let Rect { top, bottom, .. } = plane.plot;
        let line = |at: &f64| format!("M{:.1} {top:.1}V{bottom:.1}", plane.x.at(*at));
        let inside = self.breaks.iter().filter(|at| plane.x.reaches(**at));
        let data: String = inside.map(line).collect();
        if !data.is_empty() {
            let path = svg.element("path").set("class", "breaks").set("d", &data);
            path.set("stroke", GRID).close();
        }
    }

    /// Draws a line across the plot at the median of each series, or at the compared estimate.
    fn draw_centers(&self, svg: &mut Svg, plane: &Plane, tukeys: &[Option<Tukey>]) {
        for (at, tukey) in tukeys.iter().enumerate() {
            let (style, Some(tukey)) = (Style::of_series(at), tukey) else {
                continue;
            };
            let y = plane.y.at(tukey.center);
            let line = svg.line((plane.plot.left, y), (plane.plot.right, y));
            line.set("class", "median")
                .set("stroke", &style.colour())
                .num("stroke-width", 1.2)
                .num("stroke-opacity", 0.6)
                .set_some("stroke-dasharray", style.dash())
                .close();
        }
    }

    /// Draws the marks of all runs. A shape is defined once and referenced for every run: a page
    /// can contain thousands of these charts.
    fn draw_runs(&self, svg: &mut Svg, plane: &Plane) {
        let data = self.data();
        let radius = match data.count_shown() {
            0..80 => 3.6,
            80..300 => 2.6,
            _ => 1.8,
        };
        svg.element("defs").containing(|svg| {
            for at in 0..self.series.len() {
                let shape = svg.element("path").set("id", &format!("run{at}"));
                let outline = Style::of_series(at).marker().path(0.0, 0.0, radius);
                shape.set("d", &outline).close();
            }
        });
        for (at, series) in self.series.iter().enumerate() {
            let group = svg
                .group("points")
                .set("fill", &Style::of_series(at).colour())
                .set("stroke", PAPER)
                .num("stroke-width", 0.7);
            group.containing(|svg| {
                for point in series.points.iter().filter(|point| data.shown(point)) {
                    svg.element("use")
                        .set("class", "point")
                        .set("href", &format!("#run{at}"))
                        .num("x", plane.x.at(point.x))
                        .num("y", plane.y.at(point.y))
                        .titled(&format!("run {}: {}", figure(point.x), figure(point.y)));
                }
            });
        }
    }
}

impl Figure for RunsChart {
    fn header(&self) -> Header<'_> {
        Header {
            title: &self.title,
            subtitle: self.subtitle.as_deref(),
            ..self.data().header(Swatch::Line)
        }
    }

    fn summary(&self) -> String {
        let data = self.data();
        let runs = count(data.count_shown(), "value", "s");
        let median = |(name, tukey): (&&str, &Option<Tukey>)| match tukey {
            Some(tukey) => {
                let center = tukey.describe_center().replace('\n', ", ");
                format!("{name} ({center})")
            }
            None => (*name).to_owned(),
        };
        let names = data.names();
        let medians: Vec<String> = names.iter().zip(&self.tukeys()).map(median).collect();
        let medians: Vec<&str> = medians.iter().map(String::as_str).collect();
        format!("{runs} in order of execution: {}.", list(&medians))
    }

    fn is_empty(&self) -> bool {
        self.data().count_shown() == 0
    }

    fn draw(&self, svg: &mut Svg, area: Rect) {
        let boxes_px = RunsBoxes::width(self.series.len(), area.width());
        let left = Rect::new(area.left, area.top, area.right - boxes_px, area.bottom);
        let Some(plane) = self.plane(left) else {
            return;
        };
        let tukeys = self.tukeys();
        self.draw_breaks(svg, &plane);
        plane.draw_axes(svg);
        self.draw_centers(svg, &plane, &tukeys);
        self.draw_runs(svg, &plane);
        RunsBoxes::beside(plane.plot, area.right, &tukeys).draw(svg, &plane.y);
    }

    fn natural_height(&self, _width: f64) -> f64 {
        NATURAL_HEIGHT_PX
    }
}

// The boxes beside values in order of execution: one per series, on the value axis.

/// Pixels per box including the gap to the next, if there is room.
const SLOT_PX: f64 = 30.0;
/// Maximum share of the chart's width for all boxes.
const MOST_OF_WIDTH: f64 = 0.35;
/// Gap in pixels between the runs and the first box.
const GAP: f64 = 8.0;

/// Layout of the boxes of all series.
pub(crate) struct RunsBoxes<'a> {
    left: f64,
    slot_px: f64,
    tukeys: &'a [Option<Tukey>],
}

impl<'a> RunsBoxes<'a> {
    /// Width in pixels of `count` boxes in a chart of the given width.
    pub fn width(count: usize, chart_px: f64) -> f64 {
        (count as f64 * SLOT_PX + GAP).min(chart_px * MOST_OF_WIDTH)
    }

    /// Places boxes right of `plot`, up to `right`.
    pub fn beside(plot: Rect, right: f64, tukeys: &'a [Option<Tukey>]) -> Self {
        let left = plot.right + GAP;
        Self {
            left,
            // A sheet may be too small for its chart.
            slot_px: (right - left).max(0.0) / tukeys.len().max(1) as f64,
            tukeys,
        }
    }

    /// Draws every box along the value axis.
    pub fn draw(&self, svg: &mut Svg, y: &Mapping) {
        svg.group("boxes").containing(|svg| {
            for (at, tukey) in self.tukeys.iter().enumerate() {
                let Some(tukey) = tukey else { continue };
                let middle = self.left + (at as f64 + 0.5) * self.slot_px;
                draw_box(
                    svg,
                    tukey,
                    Style::of_series(at),
                    y,
                    (middle, self.slot_px * 0.32),
                );
            }
        });
    }
}

/// Draws a box around `middle`, extending by `half` pixels to both sides.
fn draw_box(svg: &mut Svg, tukey: &Tukey, style: Style, y: &Mapping, (middle, half): (f64, f64)) {
    let (low, high) = (y.at(tukey.low_quartile), y.at(tukey.high_quartile));
    let whiskers = format!(
        "M{middle:.1} {low:.1}V{:.1}M{middle:.1} {high:.1}V{:.1}",
        y.at(tukey.low_whisker),
        y.at(tukey.high_whisker)
    );
    let tooltip = format!(
        "{}\nquartiles {} to {}",
        tukey.describe_center(),
        figure(tukey.low_quartile),
        figure(tukey.high_quartile)
    );
    let group = svg.group("series").set("stroke", &style.colour());
    group.set("fill", &style.colour()).containing(|svg| {
        svg.element("path").set("d", &whiskers).close();
        svg.element("rect")
            .set("class", "box")
            .num("x", middle - half)
            .num("y", high.min(low))
            .num("width", 2.0 * half)
            .num("height", (low - high).abs())
            .num("fill-opacity", 0.2)
            .titled(&tooltip);
        let center = y.at(tukey.center);
        svg.line((middle - half, center), (middle + half, center))
            .num("stroke-width", 2.4)
            .close();
        svg.element("path")
            .set("d", &style.marker().path(middle, center, 2.8))
            .close();
    });
}
