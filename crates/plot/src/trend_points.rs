//! Draws the points of a trend. Each point has a marker that shows the machine, a bar that shows
//! the interval, and details: a tooltip, and attributes for programs. If there are too many points
//! to be distinguished, they are combined into buckets.

use crate::axes::PlotArea;
use crate::color::PAPER;
use crate::distribution::median;
use crate::format::{format_figure, format_range};
use crate::point_chart::ChartPoint;
use crate::style::SeriesStyle;
use crate::svg::{OpenElement, SvgWriter};

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

    fn kind(&self) -> PointKind {
        PointKind { machine: self.machine, is_aside: self.is_aside() }
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

/// What determines the look of a mark: the machine, and whether the points belong to no level. In
/// that case, the mark is hollow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PointKind {
    machine: usize,
    is_aside: bool,
}

impl PointKind {
    fn style(self) -> SeriesStyle {
        style_of_machine(self.machine)
    }

    fn class(self) -> &'static str {
        if self.is_aside { "points aside" } else { "points" }
    }

    /// ID of the SVG marker of this kind.
    fn marker_id(self) -> String {
        format!("{}{}", if self.is_aside { "aside" } else { "point" }, self.machine)
    }

    /// Sets the colors of a mark, or of a group of marks.
    fn paint<'e>(self, element: OpenElement<'e>, radius: f64) -> OpenElement<'e> {
        let colour = self.style().color();
        match (self.is_aside, radius > 3.0) {
            (true, _) => element.set_text("fill", PAPER).set_stroke(&colour, 1.4),
            (false, true) => element.set_text("fill", &colour).set_stroke(PAPER, 0.8),
            (false, false) => element.set_text("fill", &colour).set_stroke(PAPER, 0.4),
        }
    }
}

/// Style of a machine's marks. The colors for better and worse are reserved for changes.
pub(crate) fn style_of_machine(machine: usize) -> SeriesStyle {
    const LOOKS: [usize; 5] = [0, 6, 3, 4, 5];
    let round = machine / LOOKS.len();
    SeriesStyle::of_series(LOOKS[machine % LOOKS.len()] + 7 * round)
}

/// The points that one mark represents: a single point, or neighbors of the same kind between two
/// borders. There is at least one.
pub(crate) struct PointBucket<'a> {
    pub kind: PointKind,
    pub points: Vec<&'a TrendPoint>,
}

impl PointBucket<'_> {
    /// Position, value, and ends of the bar. For several points, the position and value are
    /// medians, and the bar extends from the minimum to the maximum.
    pub fn summary_point(&self) -> ChartPoint {
        if let [only] = self.points[..] {
            return only.at;
        }
        let values = || self.points.iter().map(|point| point.at.y);
        ChartPoint::with_interval(
            median(self.points.iter().map(|point| point.at.x).collect()),
            median(values().collect()),
            values().fold(f64::INFINITY, f64::min),
            values().fold(f64::NEG_INFINITY, f64::max),
        )
    }
}

/// Groups points into buckets, sorted by kind and position. With at most `max_marks` points, each
/// bucket has one point. All points of a bucket are of the same kind and lie on the same side of
/// each border. `points` are in ascending order of position.
pub(crate) fn make_buckets<'a>(
    points: &[&'a TrendPoint],
    borders: &[f64],
    max_marks: usize,
) -> Vec<PointBucket<'a>> {
    let size = match points.len() {
        count if count <= max_marks => 1,
        count => count.div_ceil(max_marks.min(BUCKET_COUNT)),
    };
    let key = |point: &&TrendPoint| {
        let segment = borders.iter().filter(|border| **border < point.at.x).count();
        (point.kind(), segment)
    };
    let mut keyed: Vec<_> = points.iter().map(|point| (key(point), *point)).collect();
    keyed.sort_by_key(|(key, _)| *key);
    let mut buckets = Vec::new();
    for group in keyed.chunk_by(|(one, _), (other, _)| one == other) {
        // The sizes of buckets differ by at most one point. Otherwise, the last bucket could be so
        // small that its median would be atypical.
        let number = group.len().div_ceil(size);
        let bucket = |index: usize| {
            let points = &group[index * group.len() / number..(index + 1) * group.len() / number];
            let ((kind, _), _) = group[0];
            PointBucket { kind, points: points.iter().map(|(_, point)| *point).collect() }
        };
        buckets.extend((0..number).map(bucket));
    }
    buckets
}

/// Formats a number with all its digits, for programs. Empty if the number is not finite.
fn format_exact(value: f64) -> String {
    match value.abs() {
        0.0 | 1e-6..1e15 => value.to_string(),
        _ if value.is_finite() => format!("{value:e}"),
        _ => String::new(),
    }
}

/// Attributes of a mark for programs, by name.
type MarkAttributes = Vec<(&'static str, String)>;

/// The plot area of a trend, and the data that its points share.
pub(crate) struct PointField<'a> {
    pub area: &'a PlotArea,
    pub machines: &'a [String],
    pub unit: &'a str,
    pub detail: TrendDetail,
}

impl PointField<'_> {
    /// Draws the bars and marks of all buckets, by kind.
    pub fn draw_points(&self, svg: &mut SvgWriter, buckets: &[PointBucket<'_>]) {
        let width = self.area.rect.width();
        let radius = (1.1 * width / buckets.len().max(1) as f64).clamp(1.9, 3.8);
        let groups = || buckets.chunk_by(|one, other| one.kind == other.kind);
        let kinds: Vec<PointKind> = groups().map(|group| group[0].kind).collect();
        svg.start_element("defs").end_with(|svg| self.define_shapes(svg, &kinds, radius));
        for (kind, group) in kinds.into_iter().zip(groups()) {
            self.draw_bars(svg, group, kind);
            match self.detail {
                TrendDetail::Nothing => self.draw_vertices(svg, group, kind),
                TrendDetail::Full | TrendDetail::Tooltips => {
                    self.draw_markers(svg, group, kind, radius);
                }
            }
        }
    }

    /// Defines each shape once, for all points of its kind.
    fn define_shapes(&self, svg: &mut SvgWriter, kinds: &[PointKind], radius: f64) {
        if self.detail == TrendDetail::Nothing {
            for kind in kinds {
                // These attributes give the size of the marker in pixels, and prevent clipping at
                // its edge.
                svg.start_element("marker")
                    .set_text("id", &kind.marker_id())
                    .set_text("markerUnits", "userSpaceOnUse")
                    .set_text("overflow", "visible")
                    .end_with(|svg| {
                        let outline = kind.style().marker().path(0.0, 0.0, radius);
                        kind.paint(svg.start_path("", &outline), radius).end_empty();
                    });
            }
            return;
        }
        for same_machine in kinds.chunk_by(|one, other| one.machine == other.machine) {
            let kind = PointKind { is_aside: false, ..same_machine[0] };
            kind.style().define_marker(svg, &kind.marker_id(), radius);
        }
    }

    fn draw_bars(&self, svg: &mut SvgWriter, buckets: &[PointBucket<'_>], kind: PointKind) {
        let bar = |bucket: &PointBucket<'_>| {
            let point = bucket.summary_point();
            let (low, high) = (point.low?, point.high?);
            if low.is_nan() || high.is_nan() {
                return None;
            }
            let [low, high] = [low, high].map(|end| format!("{:.1}", self.area.y.pixel_at(end)));
            // A bar without height is invisible.
            (low != high).then(|| format!("M{:.1} {low}V{high}", self.area.x.pixel_at(point.x)))
        };
        let bars: String = buckets.iter().filter_map(bar).collect();
        if !bars.is_empty() {
            svg.start_path("intervals", &bars)
                .set_stroke(&kind.style().color(), 1.2)
                .set_number("stroke-opacity", 0.5)
                .end_empty();
        }
    }

    fn draw_markers(
        &self,
        svg: &mut SvgWriter,
        buckets: &[PointBucket<'_>],
        kind: PointKind,
        radius: f64,
    ) {
        let shape = format!("#{}", PointKind { is_aside: false, ..kind }.marker_id());
        let class = if self.detail == TrendDetail::Full { "point" } else { "" };
        let group = kind.paint(svg.start_group(kind.class()), radius);
        group.set_nonempty("data-unit", self.unit).end_with(|svg| {
            for bucket in buckets {
                let point = bucket.summary_point();
                let (x, y) = self.area.point_at(point.x, point.y);
                let mark = svg
                    .start_element("use")
                    .set_nonempty("class", class)
                    .set_text("href", &shape)
                    .set_number("x", x)
                    .set_number("y", y);
                self.end_mark(mark, bucket);
            }
        });
    }

    /// Draws all marks of a kind as markers on the vertices of an invisible line. This makes the
    /// file much smaller.
    fn draw_vertices(&self, svg: &mut SvgWriter, buckets: &[PointBucket<'_>], kind: PointKind) {
        let vertex = |bucket: &PointBucket<'_>| {
            let point = bucket.summary_point();
            let (x, y) = self.area.point_at(point.x, point.y);
            format!(" {x:.1} {y:.1}")
        };
        let vertices: String = buckets.iter().map(vertex).collect();
        // A line with a single vertex would not be drawn.
        let end = if buckets.len() == 1 { "h0" } else { "" };
        let marker = format!("url(#{})", kind.marker_id());
        svg.start_path(kind.class(), &format!("M{}{end}", vertices.trim_start()))
            .set_text("fill", "none")
            .set_text("marker-start", &marker)
            .set_text("marker-mid", &marker)
            .set_text("marker-end", &marker)
            .end_empty();
    }

    /// Draws arrows at the ends of the axis for points beyond the axis.
    pub fn draw_strays(&self, svg: &mut SvgWriter, strays: &[&TrendPoint]) {
        const HALF_PX: f64 = 3.5;
        svg.start_group("strays").end_with(|svg| {
            for point in strays {
                // The mapping puts values beyond the axis at the end of the axis.
                let (x, y) = self.area.point_at(point.at.x, point.at.y);
                let back = y + if y < self.area.rect.middle_y() { 7.0 } else { -7.0 };
                let (left, right) = (x - HALF_PX, x + HALF_PX);
                let arrow = format!("M{x:.1} {y:.1}L{right:.1} {back:.1}H{left:.1}Z");
                let mark = svg
                    .start_path("stray", &arrow)
                    .set_text("fill", PAPER)
                    .set_stroke(&point.kind().style().color(), 1.4);
                self.end_mark(mark, &PointBucket { kind: point.kind(), points: vec![*point] });
            }
        });
    }

    /// Ends a mark with its details.
    fn end_mark(&self, mark: OpenElement<'_>, bucket: &PointBucket<'_>) {
        let (attributes, tooltip) = match bucket.points[..] {
            [] => return mark.end_empty(),
            [point] => self.point_details(point),
            [first, .., last] => self.bucket_details(bucket, first, last),
        };
        match self.detail {
            TrendDetail::Nothing => mark.end_empty(),
            TrendDetail::Tooltips => mark.end_with_tooltip(&tooltip),
            TrendDetail::Full => attributes
                .iter()
                .fold(mark, |mark, (name, value)| mark.set_nonempty(name, value))
                .end_with_tooltip(&tooltip),
        }
    }

    fn point_details(&self, point: &TrendPoint) -> (MarkAttributes, String) {
        let TrendPoint { at, revision, subject, session, .. } = point;
        let format_end = |end: Option<f64>| end.map(format_exact).unwrap_or_default();
        let attributes = vec![
            ("data-revision", revision.clone()),
            ("data-subject", subject.clone()),
            ("data-value", format_exact(at.y)),
            ("data-low", format_end(at.low)),
            ("data-high", format_end(at.high)),
            ("data-runs", point.runs.to_string()),
            ("data-machine", self.machine_name(point.machine).to_owned()),
            ("data-session", session.clone()),
        ];
        let runs = match point.runs {
            0 => String::new(),
            1 => "1 run".into(),
            runs => format!("{runs} runs"),
        };
        let origin = [&*runs, self.tooltip_machine(point.machine), session];
        let origin: Vec<&str> = origin.into_iter().filter(|text| !text.is_empty()).collect();
        let heading = [&**revision, subject].join(" ");
        let estimate = self.format_estimate(at.y, at.low, at.high);
        let lines = [heading.trim(), &estimate, &origin.join(", "), &point.aside];
        (attributes, join_lines(&lines))
    }

    /// Details of several points, from `first` to `last`.
    fn bucket_details(
        &self,
        bucket: &PointBucket<'_>,
        first: &TrendPoint,
        last: &TrendPoint,
    ) -> (MarkAttributes, String) {
        let summary = bucket.summary_point();
        let (low, high) = (summary.low.unwrap_or(summary.y), summary.high.unwrap_or(summary.y));
        let count = bucket.points.len();
        let attributes = vec![
            ("data-from", first.revision.clone()),
            ("data-to", last.revision.clone()),
            ("data-points", count.to_string()),
            ("data-value", format_exact(summary.y)),
            ("data-low", format_exact(low)),
            ("data-high", format_exact(high)),
            ("data-machine", self.machine_name(first.machine).to_owned()),
        ];
        let tooltip = format!(
            "{} to {}: {count} points\nmedian {} {}\n{}",
            first.revision,
            last.revision,
            format_figure(summary.y),
            self.unit,
            format_range(low, high)
        );
        (attributes, join_lines(&[&tooltip, self.tooltip_machine(first.machine)]))
    }

    /// Name of a machine; empty if it is unknown.
    pub fn machine_name(&self, machine: usize) -> &str {
        self.machines.get(machine).map_or("", String::as_str)
    }

    /// Name of a machine for a tooltip. Empty with [`TrendDetail::Tooltips`] if there is only one
    /// machine.
    fn tooltip_machine(&self, machine: usize) -> &str {
        match (self.detail, self.machines) {
            (TrendDetail::Tooltips, [] | [_]) => "",
            _ => self.machine_name(machine),
        }
    }

    /// Formats a value as `26,705 ns [26,475, 26,806]`.
    pub fn format_estimate(&self, value: f64, low: Option<f64>, high: Option<f64>) -> String {
        let value = format!("{} {}", format_figure(value), self.unit);
        match (low, high) {
            (Some(low), Some(high)) => {
                format!("{} [{}, {}]", value.trim_end(), format_figure(low), format_figure(high))
            }
            _ => value.trim_end().to_owned(),
        }
    }
}

/// Joins lines of a tooltip, except empty ones.
fn join_lines(lines: &[&str]) -> String {
    lines.iter().copied().filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}
