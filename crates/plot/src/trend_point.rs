//! Draws the points of a trend. Each point has a marker that shows the machine, and a bar that
//! shows the interval. If there are too many points to be distinguished, they are combined into
//! buckets. `trend_detail` adds tooltips and attributes.

use crate::ChartAxis;
use crate::color::PAPER;
use crate::point_series::ChartPoint;
use crate::scale::{AxisMapping, can_show};
use crate::style::SeriesStyle;
use crate::svg::{OpenElement, PixelRect, SvgWriter};
use std::borrow::Cow;

/// Maximum number of points that are drawn individually instead of in buckets.
pub(crate) const MAX_SINGLE_POINTS: usize = 1000;
/// Approximate number of buckets.
const BUCKET_COUNT: usize = 400;

/// Result of one session in a [`TrendChart`](crate::TrendChart).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrendPoint {
    /// Position or time, value and interval.
    pub at: ChartPoint,
    /// Index into the machines of the chart.
    pub machine: usize,
    /// Why the point belongs to no level, such as uncommitted changes. Such a point is drawn
    /// hollow. Empty for regular points.
    pub aside: String,
    /// Revision, abbreviated.
    pub revision: String,
    /// First line of the revision's message.
    pub subject: String,
    /// Number of runs.
    pub runs: usize,
    /// Name of the session.
    pub session: String,
}

impl TrendPoint {
    pub(crate) fn is_aside(&self) -> bool {
        !self.aside.is_empty()
    }

    /// Whether both axes can show the point.
    pub(crate) fn can_be_shown(&self, y: &ChartAxis) -> bool {
        self.at.x.is_finite() && can_show(y.value_scale(), self.at.y)
    }
}

/// Amount of detail about single points of a trend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrendDetail {
    /// A tooltip, and the same data as attributes for programs.
    #[default]
    Full,
    /// A tooltip without the data common to all points, for pages that link to the numbers.
    Tooltips,
    /// No details, for a second drawing of the same trend.
    Nothing,
}

/// The points that one mark represents: a single point, or neighbors of the same machine between
/// two borders.
pub(crate) struct PointBucket<'a> {
    pub points: Vec<&'a TrendPoint>,
}

impl<'a> PointBucket<'a> {
    fn first(&self) -> Option<&'a TrendPoint> {
        self.points.first().copied()
    }

    pub fn single_point(&self) -> Option<&'a TrendPoint> {
        match self.points[..] {
            [only] => Some(only),
            _ => None,
        }
    }

    pub fn machine(&self) -> Option<usize> {
        self.first().map(|point| point.machine)
    }

    /// Position, value, and ends of the bar. For several points, the position and value are
    /// medians, and the bar extends from the minimum to the maximum.
    pub fn summary_point(&self) -> ChartPoint {
        if let Some(only) = self.single_point() {
            return only.at;
        }
        let median = |mut values: Vec<f64>| {
            values.sort_by(f64::total_cmp);
            let half = values.len() / 2;
            match values.len() % 2 {
                _ if values.is_empty() => f64::NAN,
                0 => values[half - 1] / 2.0 + values[half] / 2.0,
                _ => values[half],
            }
        };
        let values = || self.points.iter().map(|point| point.at.y);
        ChartPoint::with_interval(
            median(self.points.iter().map(|point| point.at.x).collect()),
            median(values().collect()),
            values().fold(f64::INFINITY, f64::min),
            values().fold(f64::NEG_INFINITY, f64::max),
        )
    }
}

/// Groups points into buckets. With at most `max_marks` points, each bucket has one point. All
/// points of a bucket belong to the same machine and lie on the same side of each border. Either
/// all or none of them belong to a level. `points` are in ascending order of position.
pub(crate) fn make_buckets<'a>(
    points: &[&'a TrendPoint],
    borders: &[f64],
    max_marks: usize,
) -> Vec<PointBucket<'a>> {
    let size = match points.len() {
        count if count <= max_marks => 1,
        count => count.div_ceil(max_marks.min(BUCKET_COUNT)),
    };
    let segment_of =
        |point: &TrendPoint| borders.iter().filter(|border| **border < point.at.x).count();
    let mut keyed_points: Vec<(usize, usize, bool, &TrendPoint)> = points
        .iter()
        .map(|point| (segment_of(point), point.machine, point.is_aside(), *point))
        .collect();
    keyed_points.sort_by_key(|(segment, machine, is_aside, _)| (*segment, *machine, *is_aside));
    let key =
        |(segment, machine, is_aside, _): &(usize, usize, bool, _)| (*segment, *machine, *is_aside);
    let mut buckets = Vec::new();
    for group in keyed_points.chunk_by(|one, other| key(one) == key(other)) {
        // The sizes of buckets differ by at most one point. Otherwise, the last bucket could be so
        // small that its median would be atypical.
        let number = group.len().div_ceil(size);
        let bucket = |index: usize| {
            let points = &group[index * group.len() / number..(index + 1) * group.len() / number];
            PointBucket { points: points.iter().map(|(.., point)| *point).collect() }
        };
        buckets.extend((0..number).map(bucket));
    }
    buckets
}

/// Number of points in the largest bucket.
pub(crate) fn largest_bucket(buckets: &[PointBucket<'_>]) -> usize {
    let sizes = buckets.iter().map(|bucket| bucket.points.len());
    sizes.max().unwrap_or(0)
}

/// Style of a machine's marks. The colors for better and worse are reserved for changes.
pub(crate) fn style_of_machine(machine: usize) -> SeriesStyle {
    const LOOKS: [usize; 5] = [0, 6, 3, 4, 5];
    let round = machine / LOOKS.len();
    SeriesStyle::of_series(LOOKS[machine % LOOKS.len()] + 7 * round)
}

fn shape_id(machine: usize, is_aside: bool) -> String {
    let kind = if is_aside { "aside" } else { "point" };
    format!("{kind}{machine}")
}

/// Style of the marks of one kind. A kind is either all regular points of a machine, or all its
/// points that belong to no level. The second kind is hollow.
struct MarkerLook {
    fill: Cow<'static, str>,
    stroke: Cow<'static, str>,
    stroke_px: f64,
}

impl MarkerLook {
    fn for_kind((machine, is_aside): (usize, bool), radius: f64) -> MarkerLook {
        let colour = style_of_machine(machine).color();
        let (fill, stroke) = if is_aside { (PAPER.into(), colour) } else { (colour, PAPER.into()) };
        let stroke_px = match (is_aside, radius > 3.0) {
            (true, _) => 1.4,
            (false, true) => 0.8,
            (false, false) => 0.4,
        };
        MarkerLook { fill, stroke, stroke_px }
    }

    fn apply_look<'e>(&self, element: OpenElement<'e>) -> OpenElement<'e> {
        element
            .set_text("fill", &self.fill)
            .set_text("stroke", &self.stroke)
            .set_number("stroke-width", self.stroke_px)
    }
}

/// The plot area, and the data that all points share.
pub(crate) struct PointField<'a> {
    pub plot: PixelRect,
    pub x: &'a AxisMapping,
    pub y: &'a AxisMapping,
    pub machines: &'a [String],
    pub unit: &'a str,
    pub detail: TrendDetail,
}

impl PointField<'_> {
    /// Draws all bars and markers, by machine.
    pub fn draw(&self, svg: &mut SvgWriter, buckets: &[PointBucket<'_>]) {
        let radius = (1.1 * self.plot.width() / buckets.len().max(1) as f64).clamp(1.9, 3.8);
        let mut kinds: Vec<(usize, bool)> = buckets
            .iter()
            .filter_map(PointBucket::first)
            .map(|point| (point.machine, point.is_aside()))
            .collect();
        kinds.sort_unstable();
        kinds.dedup();
        self.define_shapes(svg, &kinds, radius);
        for kind in kinds {
            let kind_buckets: Vec<&PointBucket<'_>> = buckets
                .iter()
                .filter(|bucket| {
                    let first = bucket.first();
                    first.is_some_and(|point| (point.machine, point.is_aside()) == kind)
                })
                .collect();
            self.draw_bars(svg, &kind_buckets, kind.0);
            match self.detail {
                TrendDetail::Nothing => self.draw_vertices(svg, &kind_buckets, kind),
                TrendDetail::Full | TrendDetail::Tooltips => {
                    self.draw_markers(svg, &kind_buckets, kind, radius);
                }
            }
        }
    }

    /// Defines each shape once, for all points of its kind.
    fn define_shapes(&self, svg: &mut SvgWriter, kinds: &[(usize, bool)], radius: f64) {
        let outline = |machine: usize| style_of_machine(machine).marker().path(0.0, 0.0, radius);
        svg.start_element("defs").end_with(|svg| {
            if self.detail == TrendDetail::Nothing {
                for (machine, is_aside) in kinds {
                    let look = MarkerLook::for_kind((*machine, *is_aside), radius);
                    // These attributes give the size of the marker in pixels, and prevent clipping
                    // at its edge.
                    svg.start_element("marker")
                        .set_text("id", &shape_id(*machine, *is_aside))
                        .set_text("markerUnits", "userSpaceOnUse")
                        .set_text("overflow", "visible")
                        .end_with(|svg| {
                            let shape = svg.start_element("path").set_text("d", &outline(*machine));
                            look.apply_look(shape).end_empty();
                        });
                }
                return;
            }
            let mut machines: Vec<usize> = kinds.iter().map(|(machine, _)| *machine).collect();
            machines.dedup();
            for machine in machines {
                let shape = svg.start_element("path").set_text("id", &shape_id(machine, false));
                shape.set_text("d", &outline(machine)).end_empty();
            }
        });
    }

    fn draw_bars(&self, svg: &mut SvgWriter, buckets: &[&PointBucket<'_>], machine: usize) {
        let bar = |bucket: &&PointBucket<'_>| {
            let point = bucket.summary_point();
            let (low, high) = (point.low?, point.high?);
            if low.is_nan() || high.is_nan() {
                return None;
            }
            let (low, high) = (self.y.pixel_at(low), self.y.pixel_at(high));
            let (low, high) = (format!("{low:.1}"), format!("{high:.1}"));
            // A bar without height is invisible.
            (low != high).then(|| format!("M{:.1} {low}V{high}", self.x.pixel_at(point.x)))
        };
        let bars: String = buckets.iter().filter_map(bar).collect();
        if !bars.is_empty() {
            svg.start_element("path")
                .set_text("class", "intervals")
                .set_text("d", &bars)
                .set_text("stroke", &style_of_machine(machine).color())
                .set_number("stroke-width", 1.2)
                .set_number("stroke-opacity", 0.5)
                .end_empty();
        }
    }

    fn draw_markers(
        &self,
        svg: &mut SvgWriter,
        buckets: &[&PointBucket<'_>],
        kind: (usize, bool),
        radius: f64,
    ) {
        let (machine, is_aside) = kind;
        let look = MarkerLook::for_kind(kind, radius);
        let shape = format!("#{}", shape_id(machine, false));
        let class = if is_aside { "points aside" } else { "points" };
        let group = svg
            .start_group(class)
            .set_text("fill", &look.fill)
            .set_text("stroke", &look.stroke)
            .set_nonempty("data-unit", self.unit);
        group.set_number("stroke-width", look.stroke_px).end_with(|svg| {
            for bucket in buckets {
                let point = bucket.summary_point();
                let (x, y) = (self.x.pixel_at(point.x), self.y.pixel_at(point.y));
                let mark = svg.start_element("use");
                let mark = match self.detail {
                    TrendDetail::Full => mark.set_text("class", "point").set_text("href", &shape),
                    _ => mark.set_text("href", &shape),
                };
                self.end_mark(mark.set_number("x", x).set_number("y", y), bucket);
            }
        });
    }

    /// Draws all marks of a kind as markers on the vertices of an invisible line. This makes the
    /// file much smaller.
    fn draw_vertices(
        &self,
        svg: &mut SvgWriter,
        buckets: &[&PointBucket<'_>],
        (machine, is_aside): (usize, bool),
    ) {
        let vertex = |bucket: &&PointBucket<'_>| {
            let point = bucket.summary_point();
            format!(" {:.1} {:.1}", self.x.pixel_at(point.x), self.y.pixel_at(point.y))
        };
        let vertices: String = buckets.iter().map(vertex).collect();
        // A line with a single vertex would not be drawn.
        let end = if buckets.len() == 1 { "h0" } else { "" };
        let marker = format!("url(#{})", shape_id(machine, is_aside));
        svg.start_element("path")
            .set_text("class", if is_aside { "points aside" } else { "points" })
            .set_text("d", &format!("M{}{end}", vertices.trim_start()))
            .set_text("fill", "none")
            .set_text("marker-start", &marker)
            .set_text("marker-mid", &marker)
            .set_text("marker-end", &marker)
            .end_empty();
    }

    /// Draws arrows at the ends of the axis for points beyond the axis.
    pub fn draw_strays<'p>(
        &self,
        svg: &mut SvgWriter,
        strays: impl Iterator<Item = &'p TrendPoint>,
    ) {
        const HALF_PX: f64 = 3.5;
        svg.start_group("strays").end_with(|svg| {
            for point in strays {
                let x = self.x.pixel_at(point.at.x);
                // The mapping puts values beyond the axis at the end of the axis.
                let y = self.y.pixel_at(point.at.y);
                let is_high = y < self.plot.middle_y();
                let back = if is_high { 7.0 } else { -7.0 };
                let arrow = format!(
                    "M{x:.1} {y:.1}L{:.1} {:.1}H{:.1}Z",
                    x + HALF_PX,
                    y + back,
                    x - HALF_PX
                );
                let colour = style_of_machine(point.machine).color();
                let mark = svg
                    .start_element("path")
                    .set_text("class", "stray")
                    .set_text("d", &arrow)
                    .set_text("fill", PAPER)
                    .set_text("stroke", &colour);
                self.end_point_mark(mark.set_number("stroke-width", 1.4), point);
            }
        });
    }
}
