//! Draws points connected by lines, with intervals as error bars.

use crate::ChartAxis;
use crate::axes::PointPlane;
use crate::box_mark::point_offsets;
use crate::header::{ChartHeader, LegendSwatch};
use crate::numeral::format_figure;
use crate::page::{SheetContent, format_count, join_names};
use crate::point_series::{ChartPoint, PointData, PointSeries};
use crate::style::SeriesStyle;
use crate::svg::{PixelRect, SvgWriter};

/// Radius of the dots that show the observations of a point.
const OBSERVED_PX: f64 = 2.4;
/// Distance of the dots from their point.
const OBSERVED_ASIDE_PX: f64 = 11.0;
/// Width over which the dots spread.
const OBSERVED_SPREAD_PX: f64 = 8.0;

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
        PointData::new(&self.x, &self.y, &self.series)
    }

    /// Axes that fit the points, their intervals and the observations.
    fn plane(&self, area: PixelRect) -> Option<PointPlane> {
        let data = self.data();
        let (x, mut y) = data.extents(true)?;
        for point in self.shown_observations() {
            y = y.extended_to(point.y);
        }
        Some(PointPlane::lay_out(area, (&self.x, x), (&self.y, y)))
    }

    /// All observations that both axes can show.
    fn shown_observations(&self) -> impl Iterator<Item = &ChartPoint> {
        let data = self.data();
        let observations = self.observations.iter().flatten();
        observations.filter(move |point| data.can_show_point(point))
    }

    /// Draws the observations as dots to the right of their points, where dots and points do not
    /// hide each other.
    fn draw_observations(
        &self,
        svg: &mut SvgWriter,
        plane: &PointPlane,
        index: usize,
        style: SeriesStyle,
    ) {
        let data = self.data();
        let observed = self.observations.get(index).into_iter().flatten();
        let mut observed: Vec<&ChartPoint> =
            observed.filter(|point| data.can_show_point(point)).collect();
        observed.sort_by(|one, other| one.x.total_cmp(&other.x).then(one.y.total_cmp(&other.y)));
        let group = svg
            .start_group("observations")
            .set_text("fill", &style.color())
            .set_number("fill-opacity", 0.35);
        group.end_with(|svg| {
            for neighbors in observed.chunk_by(|one, other| one.x == other.x) {
                let values: Vec<f64> = neighbors.iter().map(|point| point.y).collect();
                for (point, offset) in neighbors.iter().zip(point_offsets(&values)) {
                    let distance_px = OBSERVED_ASIDE_PX + offset * OBSERVED_SPREAD_PX;
                    let series = self.series.get(index).map_or("", |series| &series.name);
                    svg.start_element("circle")
                        .set_text("class", "observation")
                        .set_number("cx", plane.x.pixel_at(point.x) + distance_px)
                        .set_number("cy", plane.y.pixel_at(point.y))
                        .set_number("r", OBSERVED_PX)
                        .end_with_tooltip(&format!(
                            "{series}\none run: {}",
                            format_figure(point.y)
                        ));
                }
            }
        });
    }

    /// Segments of a line between gaps, in ascending order of x.
    fn line_segments(&self, series: &PointSeries) -> Vec<Vec<ChartPoint>> {
        let data = self.data();
        let mut points = series.points.clone();
        points.sort_by(|one, other| one.x.total_cmp(&other.x));
        let segments = points.split(|point| !data.can_show_point(point));
        segments.filter(|segment| !segment.is_empty()).map(<[ChartPoint]>::to_vec).collect()
    }

    fn draw_line(
        &self,
        svg: &mut SvgWriter,
        plane: &PointPlane,
        series: &PointSeries,
        style: SeriesStyle,
    ) {
        for segment in self.line_segments(series).iter().filter(|segment| segment.len() > 1) {
            let corner = |point: &ChartPoint| {
                let (x, y) = (plane.x.pixel_at(point.x), plane.y.pixel_at(point.y));
                format!("{x:.2},{y:.2}")
            };
            let corners: Vec<String> = segment.iter().map(corner).collect();
            svg.start_element("polyline")
                .set_text("class", "line")
                .set_text("points", &corners.join(" "))
                .set_text("fill", "none")
                .set_text("stroke", &style.color())
                .set_number("stroke-width", 2.0)
                .set_text("stroke-linejoin", "round")
                .set_nonempty("stroke-dasharray", style.dash())
                .end_empty();
        }
    }
}

impl SheetContent for LineChart {
    fn header(&self) -> ChartHeader<'_> {
        ChartHeader {
            title: &self.title,
            subtitle: self.subtitle.as_deref(),
            ..self.data().header(LegendSwatch::Line)
        }
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
        let Some(plane) = self.plane(area) else {
            return;
        };
        plane.draw_axes(svg);
        for (index, series) in self.series.iter().enumerate() {
            let style = series.style(index);
            if self.observations.get(index).is_some_and(|observations| !observations.is_empty()) {
                self.draw_observations(svg, &plane, index, style);
            }
            draw_intervals(svg, &plane, &data, series, style);
            self.draw_line(svg, &plane, series, style);
        }
        let marked_count = self.series.len().saturating_sub(self.curves);
        let marked = &self.series[..marked_count];
        let shown = PointData { series: marked, ..data };
        let radius = match shown.count_shown() {
            0..200 => 4.5,
            200..600 => 3.2,
            _ => 2.2,
        };
        for (index, series) in marked.iter().enumerate() {
            data.draw_markers(svg, &plane, series, series.style(index), radius);
        }
    }

    fn natural_height(&self, _width: f64) -> f64 {
        PointData::NATURAL_HEIGHT_PX
    }
}

fn draw_intervals(
    svg: &mut SvgWriter,
    plane: &PointPlane,
    data: &PointData<'_>,
    series: &PointSeries,
    style: SeriesStyle,
) {
    const CAP_PX: f64 = 4.0;
    let has_interval = |point: &&ChartPoint| {
        let ends = [point.low, point.high];
        data.can_show_point(point)
            && ends.iter().flatten().next().is_some()
            && !ends.contains(&Some(f64::NAN))
    };
    let group = svg.start_group("intervals").set_text("stroke", &style.color());
    group.set_number("stroke-width", 1.3).set_number("stroke-opacity", 0.75).end_with(|svg| {
        for point in series.points.iter().filter(has_interval) {
            let x = plane.x.pixel_at(point.x);
            let low = plane.y.pixel_at(point.low.unwrap_or(point.y));
            let high = plane.y.pixel_at(point.high.unwrap_or(point.y));
            svg.start_line((x, low), (x, high)).set_text("class", "interval").end_empty();
            for end in [low, high] {
                svg.start_line((x - CAP_PX, end), (x + CAP_PX, end))
                    .set_text("class", "cap")
                    .end_empty();
            }
        }
    });
}
