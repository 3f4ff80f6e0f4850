//! Values in the order in which they were measured, so that drift can be seen, and beside them a box for each
//! series on the same axis, so that the series can be compared.

use crate::Axis;
use crate::draw::{GRID, PAPER, Rect, Style, Svg};
use crate::layout::{Header, Plane, Swatch};
use crate::page::Figure;
use crate::point_series::{Point, PointData, PointSeries};
use crate::runs_boxes::RunsBoxes;
use crate::scale::{Extent, can_show, figure};
use crate::summary::{count, list};
use crate::tukey::Tukey;

/// Height of the chart below its header: low enough that several stand below each other on a screen.
const NATURAL_HEIGHT_PX: f64 = 225.0;

/// Values in order of execution, with a box per series.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunsChart {
    /// What the chart shows, in large letters; may be empty where the page says it.
    pub title: String,
    /// A line of explanation.
    pub subtitle: Option<String>,
    /// The order of execution.
    pub x: Axis,
    /// The values.
    pub y: Axis,
    /// The values of each series; x is the position in the order of execution.
    pub series: Vec<PointSeries>,
    /// Places on the bottom axis where one part of the plan ends and the next begins; thin lines.
    pub breaks: Vec<f64>,
    /// Where the line of each series is, if not at its median: an estimate that knows more than the
    /// values by themselves, such as which of them were measured together. May be empty.
    pub centers: Vec<Option<f64>>,
}

impl RunsChart {
    fn data(&self) -> PointData<'_> {
        PointData {
            x: &self.x,
            y: &self.y,
            series: &self.series,
        }
    }

    /// The axes that fit all runs. Positions begin where they begin: there is no run before the first.
    fn plane(&self, sheet: Rect) -> Option<Plane> {
        let data = self.data();
        let points = self.series.iter().flat_map(|series| &series.points);
        let shown: Vec<&Point> = points.filter(|point| data.shown(point)).collect();
        let x = Extent::of(&self.x.scale, shown.iter().map(|point| point.x))?;
        let centers = self.centers.iter().flatten().copied();
        let centers = centers.filter(|center| can_show(&self.y.scale, *center));
        let values = shown.iter().map(|point| point.y).chain(centers);
        let y = Extent::of(&self.y.scale, values)?;
        let (x, y) = (x.padded(0.03), y.including_near_zero().padded(0.06));
        Some(Plane::lay_out(sheet, (&self.x, x), (&self.y, y)).of_positions())
    }

    /// The figures of each series' box; `None` for a series without a value that can be shown.
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
            Tukey::of(&values).map(|tukey| tukey.centered(center(at)))
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

    /// One line across the plot at the median of each series, or at what is compared instead.
    fn draw_centers(&self, svg: &mut Svg, plane: &Plane, tukeys: &[Option<Tukey>]) {
        for (at, tukey) in tukeys.iter().enumerate() {
            let (style, Some(tukey)) = (Style::of(at), tukey) else {
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

    /// The marks of all runs. A shape is written once and used for every run: a page can hold
    /// thousands of these charts.
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
                let outline = Style::of(at).marker().path(0.0, 0.0, radius);
                shape.set("d", &outline).close();
            }
        });
        for (at, series) in self.series.iter().enumerate() {
            let group = svg
                .group("points")
                .set("fill", &Style::of(at).colour())
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
