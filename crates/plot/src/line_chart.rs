//! Points joined by lines, each with its interval as an error bar.

use crate::Axis;
use crate::draw::{Rect, Style, Svg};
use crate::layout::{Header, Plane, Swatch};
use crate::page::Figure;
use crate::point_series::{Point, PointData, PointSeries};
use crate::summary::{count, list};

/// Lines with markers and error bars. A point that cannot be shown leaves a gap in its line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LineChart {
    /// What the chart shows, in large letters.
    pub title: String,
    /// A line of explanation.
    pub subtitle: Option<String>,
    /// The bottom axis.
    pub x: Axis,
    /// The left axis.
    pub y: Axis,
    /// The lines.
    pub series: Vec<PointSeries>,
    /// So many of the last series are curves, such as fitted ones: their points were not measured and have no
    /// markers.
    pub curves: usize,
}

impl LineChart {
    fn data(&self) -> PointData<'_> {
        PointData {
            x: &self.x,
            y: &self.y,
            series: &self.series,
        }
    }

    /// The stretches of a line between gaps, in ascending order of x.
    fn stretches(&self, series: &PointSeries) -> Vec<Vec<Point>> {
        let data = self.data();
        let mut points = series.points.clone();
        points.sort_by(|one, other| one.x.total_cmp(&other.x));
        let stretches = points.split(|point| !data.shown(point));
        stretches
            .filter(|stretch| !stretch.is_empty())
            .map(<[Point]>::to_vec)
            .collect()
    }

    fn draw_line(&self, svg: &mut Svg, plane: &Plane<'_>, series: &PointSeries, style: Style) {
        for stretch in self
            .stretches(series)
            .iter()
            .filter(|stretch| stretch.len() > 1)
        {
            let corner = |point: &Point| {
                let (x, y) = (plane.x.at(point.x), plane.y.at(point.y));
                format!("{x:.2},{y:.2}")
            };
            let corners: Vec<String> = stretch.iter().map(corner).collect();
            svg.element("polyline")
                .set("class", "line")
                .set("points", &corners.join(" "))
                .set("fill", "none")
                .set("stroke", &style.colour())
                .num("stroke-width", 2.0)
                .set("stroke-linejoin", "round")
                .set_some("stroke-dasharray", style.dash())
                .close();
        }
    }
}

impl Figure for LineChart {
    fn header(&self) -> Header<'_> {
        Header {
            title: &self.title,
            subtitle: self.subtitle.as_deref(),
            ..self.data().header(Swatch::Line)
        }
    }

    fn summary(&self) -> String {
        let data = self.data();
        let points = count(data.count_shown(), "point", "s");
        let lines = count(self.series.len(), "line", "s");
        format!(
            "Line chart of {lines} with {points}: {}.",
            list(&data.names())
        )
    }

    fn is_empty(&self) -> bool {
        self.data().count_shown() == 0
    }

    fn draw(&self, svg: &mut Svg, area: Rect) {
        let data = self.data();
        let Some(plane) = data.plane(area, true) else {
            return;
        };
        plane.draw_axes(svg);
        for (at, series) in self.series.iter().enumerate() {
            let style = series.style(at);
            draw_intervals(svg, &plane, &data, series, style);
            self.draw_line(svg, &plane, series, style);
        }
        let marked = self.series.len().saturating_sub(self.curves);
        let marked = &self.series[..marked];
        let shown = PointData {
            series: marked,
            ..data
        };
        let radius = match shown.count_shown() {
            0..200 => 4.5,
            200..600 => 3.2,
            _ => 2.2,
        };
        for (at, series) in marked.iter().enumerate() {
            data.draw_markers(svg, &plane, series, series.style(at), radius);
        }
    }

    fn natural_height(&self, _width: f64) -> f64 {
        PointData::NATURAL_HEIGHT_PX
    }
}

fn draw_intervals(
    svg: &mut Svg,
    plane: &Plane<'_>,
    data: &PointData<'_>,
    series: &PointSeries,
    style: Style,
) {
    const CAP_PX: f64 = 4.0;
    let bounded = |point: &&Point| {
        let ends = [point.low, point.high];
        data.shown(point)
            && ends.iter().flatten().next().is_some()
            && !ends.contains(&Some(f64::NAN))
    };
    let group = svg.group("intervals").set("stroke", &style.colour());
    group
        .num("stroke-width", 1.3)
        .num("stroke-opacity", 0.75)
        .containing(|svg| {
            for point in series.points.iter().filter(bounded) {
                let x = plane.x.at(point.x);
                let low = plane.y.at(point.low.unwrap_or(point.y));
                let high = plane.y.at(point.high.unwrap_or(point.y));
                svg.line((x, low), (x, high))
                    .set("class", "interval")
                    .close();
                for end in [low, high] {
                    svg.line((x - CAP_PX, end), (x + CAP_PX, end))
                        .set("class", "cap")
                        .close();
                }
            }
        });
}
