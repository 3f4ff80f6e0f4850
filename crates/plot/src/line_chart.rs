//! Points connected by lines, with intervals as error bars.

use crate::Axis;
use crate::axes::Plane;
use crate::box_mark::offsets;
use crate::header::{Header, Swatch};
use crate::numeral::figure;
use crate::page::{Figure, count, list};
use crate::point_series::{Point, PointData, PointSeries};
use crate::style::Style;
use crate::svg::{Rect, Svg};

/// Radius of the dot of an observation, and the distance and spread of these dots beside their
/// point.
const OBSERVED_PX: f64 = 2.4;
const OBSERVED_ASIDE_PX: f64 = 11.0;
const OBSERVED_SPREAD_PX: f64 = 8.0;

/// Lines with markers and error bars. A point that cannot be shown leaves a gap in its line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LineChart {
    /// Title, in large letters.
    pub title: String,
    /// Subtitle.
    pub subtitle: Option<String>,
    /// The bottom axis.
    pub x: Axis,
    /// The left axis.
    pub y: Axis,
    /// The lines.
    pub series: Vec<PointSeries>,
    /// Observations from which the points of each series were estimated, such as single runs, in
    /// the order of the series: drawn faintly beside the points. May be empty.
    pub observations: Vec<Vec<Point>>,
    /// Number of series at the end that are curves, such as fitted ones: their points were not
    /// measured and have no markers.
    pub curves: usize,
}

impl LineChart {
    fn data(&self) -> PointData<'_> {
        PointData::new(&self.x, &self.y, &self.series)
    }

    /// Axes that fit the points, their intervals and the observations.
    fn plane(&self, area: Rect) -> Option<Plane> {
        let data = self.data();
        let (x, mut y) = data.extents(true)?;
        for point in self.observed() {
            y = y.including(point.y);
        }
        Some(Plane::lay_out(area, (&self.x, x), (&self.y, y)))
    }

    /// All observations that both axes can show.
    fn observed(&self) -> impl Iterator<Item = &Point> {
        let data = self.data();
        let all = self.observations.iter().flatten();
        all.filter(move |point| data.shown(point))
    }

    /// Draws dots right of the points, so that neither hides the other.
    fn draw_observations(&self, svg: &mut Svg, plane: &Plane, at: usize, style: Style) {
        let data = self.data();
        let observed = self.observations.get(at).into_iter().flatten();
        let mut observed: Vec<&Point> = observed.filter(|point| data.shown(point)).collect();
        observed.sort_by(|one, other| one.x.total_cmp(&other.x).then(one.y.total_cmp(&other.y)));
        let group = svg
            .group("observations")
            .set("fill", &style.colour())
            .num("fill-opacity", 0.35);
        group.containing(|svg| {
            for of_point in observed.chunk_by(|one, other| one.x == other.x) {
                let values: Vec<f64> = of_point.iter().map(|point| point.y).collect();
                for (point, offset) in of_point.iter().zip(offsets(&values)) {
                    let aside = OBSERVED_ASIDE_PX + offset * OBSERVED_SPREAD_PX;
                    let series = self.series.get(at).map_or("", |series| &series.name);
                    svg.element("circle")
                        .set("class", "observation")
                        .num("cx", plane.x.at(point.x) + aside)
                        .num("cy", plane.y.at(point.y))
                        .num("r", OBSERVED_PX)
                        .titled(&format!("{series}\none run: {}", figure(point.y)));
                }
            }
        });
    }

    /// Segments of a line between gaps, in ascending order of x.
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

    fn draw_line(&self, svg: &mut Svg, plane: &Plane, series: &PointSeries, style: Style) {
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
        let Some(plane) = self.plane(area) else {
            return;
        };
        plane.draw_axes(svg);
        for (at, series) in self.series.iter().enumerate() {
            let style = series.style(at);
            if self.observations.get(at).is_some_and(|all| !all.is_empty()) {
                self.draw_observations(svg, &plane, at, style);
            }
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
    plane: &Plane,
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
