//! A point of a trend and its drawing: a marker that shows its machine, and an interval. More
//! points than are distinguishable are combined into buckets. The details of a point are in
//! `trend_detail`.

use crate::Axis;
use crate::colour::PAPER;
use crate::point_series::Point;
use crate::scale::{Mapping, can_show};
use crate::style::Style;
use crate::svg::{Element, Rect, Svg};
use std::borrow::Cow;

/// Above this number of points, buckets are drawn.
pub(crate) const MOST_POINTS: usize = 1000;
/// Approximate number of buckets.
const BUCKETS: usize = 400;

/// Result of one session in a [`TrendChart`](crate::TrendChart).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrendPoint {
    /// Position or time, value and interval.
    pub at: Point,
    /// Index into the machines of the chart.
    pub machine: usize,
    /// Why it belongs to no level, such as uncommitted changes; drawn hollow. Empty for regular
    /// points.
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

    /// Whether both axes can show it.
    pub(crate) fn can_be_shown(&self, y: &Axis) -> bool {
        self.at.x.is_finite() && can_show(y.value_scale(), self.at.y)
    }
}

/// Amount of detail about single points of a trend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrendDetail {
    /// A tooltip, and the same data as attributes for programs.
    #[default]
    Full,
    /// A tooltip without data common to all points: for pages that link to the figures.
    Tooltips,
    /// No details: for a second drawing of the same trend.
    Nothing,
}

/// The points behind a mark: one, or neighbors of the same machine between two borders.
pub(crate) struct Bucket<'a> {
    pub points: Vec<&'a TrendPoint>,
}

impl<'a> Bucket<'a> {
    fn first(&self) -> Option<&'a TrendPoint> {
        self.points.first().copied()
    }

    pub fn only(&self) -> Option<&'a TrendPoint> {
        match self.points[..] {
            [only] => Some(only),
            _ => None,
        }
    }

    pub fn machine(&self) -> Option<usize> {
        self.first().map(|point| point.machine)
    }

    /// Position, median, and ends of the bar: the interval of a single point, else minimum and
    /// maximum.
    pub fn at(&self) -> Point {
        if let Some(only) = self.only() {
            return only.at;
        }
        let middle = |mut values: Vec<f64>| {
            values.sort_by(f64::total_cmp);
            let half = values.len() / 2;
            match values.len() % 2 {
                _ if values.is_empty() => f64::NAN,
                0 => values[half - 1] / 2.0 + values[half] / 2.0,
                _ => values[half],
            }
        };
        let values = || self.points.iter().map(|point| point.at.y);
        Point::with_interval(
            middle(self.points.iter().map(|point| point.at.x).collect()),
            middle(values().collect()),
            values().fold(f64::INFINITY, f64::min),
            values().fold(f64::NEG_INFINITY, f64::max),
        )
    }
}

/// Groups points into one mark each, or into buckets that contain neither points of two machines
/// nor from both sides of a border. `points` are in ascending order of position.
pub(crate) fn buckets<'a>(
    points: &[&'a TrendPoint],
    borders: &[f64],
    most: usize,
) -> Vec<Bucket<'a>> {
    let size = match points.len() {
        few if few <= most => 1,
        many => many.div_ceil(most.min(BUCKETS)),
    };
    let stretch = |point: &TrendPoint| borders.iter().filter(|at| **at < point.at.x).count();
    let mut alike: Vec<(usize, usize, bool, &TrendPoint)> = points
        .iter()
        .map(|point| (stretch(point), point.machine, point.is_aside(), *point))
        .collect();
    alike.sort_by_key(|(stretch, machine, aside, _)| (*stretch, *machine, *aside));
    let key = |(stretch, machine, aside, _): &(usize, usize, bool, _)| (*stretch, *machine, *aside);
    let mut all = Vec::new();
    for group in alike.chunk_by(|one, other| key(one) == key(other)) {
        // Equal sizes, within one, so that no bucket is a remnant with an atypical median.
        let number = group.len().div_ceil(size);
        let bucket = |at: usize| {
            let points = &group[at * group.len() / number..(at + 1) * group.len() / number];
            Bucket {
                points: points.iter().map(|(.., point)| *point).collect(),
            }
        };
        all.extend((0..number).map(bucket));
    }
    all
}

/// Number of points in the largest bucket.
pub(crate) fn largest(buckets: &[Bucket<'_>]) -> usize {
    let sizes = buckets.iter().map(|bucket| bucket.points.len());
    sizes.max().unwrap_or(0)
}

/// Style of a machine's marks. The colors of better and worse are reserved for changes.
pub(crate) fn style_of_machine(machine: usize) -> Style {
    const LOOKS: [usize; 5] = [0, 6, 3, 4, 5];
    let round = machine / LOOKS.len();
    Style::of_series(LOOKS[machine % LOOKS.len()] + 7 * round)
}

fn shape_of(machine: usize, is_aside: bool) -> String {
    let kind = if is_aside { "aside" } else { "point" };
    format!("{kind}{machine}")
}

/// Style of a kind of mark: points aside are hollow.
struct Look {
    fill: Cow<'static, str>,
    stroke: Cow<'static, str>,
    stroke_px: f64,
}

impl Look {
    fn of((machine, is_aside): (usize, bool), radius: f64) -> Look {
        let colour = style_of_machine(machine).colour();
        let (fill, stroke) = if is_aside {
            (PAPER.into(), colour)
        } else {
            (colour, PAPER.into())
        };
        let stroke_px = match (is_aside, radius > 3.0) {
            (true, _) => 1.4,
            (false, true) => 0.8,
            (false, false) => 0.4,
        };
        Look {
            fill,
            stroke,
            stroke_px,
        }
    }

    fn set<'e>(&self, element: Element<'e>) -> Element<'e> {
        element
            .set("fill", &self.fill)
            .set("stroke", &self.stroke)
            .num("stroke-width", self.stroke_px)
    }
}

/// Area and common data of the points.
pub(crate) struct PointField<'a> {
    pub plot: Rect,
    pub x: &'a Mapping,
    pub y: &'a Mapping,
    pub machines: &'a [String],
    pub unit: &'a str,
    pub detail: TrendDetail,
}

impl PointField<'_> {
    /// Draws all bars and markers, by machine.
    pub fn draw(&self, svg: &mut Svg, buckets: &[Bucket<'_>]) {
        let radius = (1.1 * self.plot.width() / buckets.len().max(1) as f64).clamp(1.9, 3.8);
        let mut kinds: Vec<(usize, bool)> = buckets
            .iter()
            .filter_map(Bucket::first)
            .map(|point| (point.machine, point.is_aside()))
            .collect();
        kinds.sort_unstable();
        kinds.dedup();
        self.define_shapes(svg, &kinds, radius);
        for kind in kinds {
            let of_kind: Vec<&Bucket<'_>> = buckets
                .iter()
                .filter(|bucket| {
                    let first = bucket.first();
                    first.is_some_and(|point| (point.machine, point.is_aside()) == kind)
                })
                .collect();
            self.draw_bars(svg, &of_kind, kind.0);
            match self.detail {
                TrendDetail::Nothing => self.draw_vertices(svg, &of_kind, kind),
                TrendDetail::Full | TrendDetail::Tooltips => {
                    self.draw_markers(svg, &of_kind, kind, radius);
                }
            }
        }
    }

    /// Defines each shape once, for all points of its kind.
    fn define_shapes(&self, svg: &mut Svg, kinds: &[(usize, bool)], radius: f64) {
        let outline = |machine: usize| style_of_machine(machine).marker().path(0.0, 0.0, radius);
        svg.element("defs").containing(|svg| {
            if self.detail == TrendDetail::Nothing {
                for (machine, is_aside) in kinds {
                    let look = Look::of((*machine, *is_aside), radius);
                    // In pixels, and not clipped at the edge of the shape.
                    svg.element("marker")
                        .set("id", &shape_of(*machine, *is_aside))
                        .set("markerUnits", "userSpaceOnUse")
                        .set("overflow", "visible")
                        .containing(|svg| {
                            let shape = svg.element("path").set("d", &outline(*machine));
                            look.set(shape).close();
                        });
                }
                return;
            }
            let mut machines: Vec<usize> = kinds.iter().map(|(machine, _)| *machine).collect();
            machines.dedup();
            for machine in machines {
                let shape = svg.element("path").set("id", &shape_of(machine, false));
                shape.set("d", &outline(machine)).close();
            }
        });
    }

    fn draw_bars(&self, svg: &mut Svg, buckets: &[&Bucket<'_>], machine: usize) {
        let bar = |bucket: &&Bucket<'_>| {
            let at = bucket.at();
            let (low, high) = (at.low?, at.high?);
            if low.is_nan() || high.is_nan() {
                return None;
            }
            let (low, high) = (self.y.at(low), self.y.at(high));
            let (low, high) = (format!("{low:.1}"), format!("{high:.1}"));
            // A bar without height is invisible.
            (low != high).then(|| format!("M{:.1} {low}V{high}", self.x.at(at.x)))
        };
        let bars: String = buckets.iter().filter_map(bar).collect();
        if !bars.is_empty() {
            svg.element("path")
                .set("class", "intervals")
                .set("d", &bars)
                .set("stroke", &style_of_machine(machine).colour())
                .num("stroke-width", 1.2)
                .num("stroke-opacity", 0.5)
                .close();
        }
    }

    fn draw_markers(
        &self,
        svg: &mut Svg,
        buckets: &[&Bucket<'_>],
        kind: (usize, bool),
        radius: f64,
    ) {
        let (machine, is_aside) = kind;
        let look = Look::of(kind, radius);
        let shape = format!("#{}", shape_of(machine, false));
        let class = if is_aside { "points aside" } else { "points" };
        let group = svg
            .group(class)
            .set("fill", &look.fill)
            .set("stroke", &look.stroke)
            .set_some("data-unit", self.unit);
        group.num("stroke-width", look.stroke_px).containing(|svg| {
            for bucket in buckets {
                let at = bucket.at();
                let (x, y) = (self.x.at(at.x), self.y.at(at.y));
                let mark = svg.element("use");
                let mark = match self.detail {
                    TrendDetail::Full => mark.set("class", "point").set("href", &shape),
                    _ => mark.set("href", &shape),
                };
                self.say(mark.num("x", x).num("y", y), bucket);
            }
        });
    }

    /// Draws all marks of a kind as markers on the vertices of an invisible line, in a tenth of the
    /// text.
    fn draw_vertices(
        &self,
        svg: &mut Svg,
        buckets: &[&Bucket<'_>],
        (machine, is_aside): (usize, bool),
    ) {
        let vertex = |bucket: &&Bucket<'_>| {
            let at = bucket.at();
            format!(" {:.1} {:.1}", self.x.at(at.x), self.y.at(at.y))
        };
        let vertices: String = buckets.iter().map(vertex).collect();
        // A line with a single vertex would not be drawn.
        let end = if buckets.len() == 1 { "h0" } else { "" };
        let marker = format!("url(#{})", shape_of(machine, is_aside));
        svg.element("path")
            .set("class", if is_aside { "points aside" } else { "points" })
            .set("d", &format!("M{}{end}", vertices.trim_start()))
            .set("fill", "none")
            .set("marker-start", &marker)
            .set("marker-mid", &marker)
            .set("marker-end", &marker)
            .close();
    }

    /// Draws arrows at the ends of the axis for points beyond it.
    pub fn draw_strays<'p>(&self, svg: &mut Svg, strays: impl Iterator<Item = &'p TrendPoint>) {
        const HALF_PX: f64 = 3.5;
        svg.group("strays").containing(|svg| {
            for point in strays {
                let x = self.x.at(point.at.x);
                // The mapping puts values beyond the axis at its end.
                let y = self.y.at(point.at.y);
                let is_high = y < self.plot.middle_y();
                let back = if is_high { 7.0 } else { -7.0 };
                let arrow = format!(
                    "M{x:.1} {y:.1}L{:.1} {:.1}H{:.1}Z",
                    x + HALF_PX,
                    y + back,
                    x - HALF_PX
                );
                let colour = style_of_machine(point.machine).colour();
                let mark = svg.element("path").set("class", "stray").set("d", &arrow);
                let mark = mark.set("fill", PAPER).set("stroke", &colour);
                self.say_one(mark.num("stroke-width", 1.4), point);
            }
        });
    }
}
