//! Draws the points of a trend. Each point has a marker that shows the machine, a bar that shows
//! the interval, and details: a tooltip, and attributes for programs. If there are too many points
//! to be distinguished, they are combined into buckets. Also draws the axis below the plot.

use crate::axes::{PlotArea, TICK_PX, bottom_label_height, draw_base_line, draw_bottom_label};
use crate::axis::AxisMapping;
use crate::distribution::median;
use crate::format::{format_figure, format_range};
use crate::point_chart::ChartPoint;
use crate::style::SeriesStyle;
use crate::svg::{AXIS, INK, MUTED, OpenElement, PAPER, PixelRect, SvgWriter, TextAnchor};
use crate::text::{reserved_width, truncate_end};

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
    /// Author of the revision for tooltips; may be empty.
    pub author: String,
    /// Date of the revision for tooltips; may be empty.
    pub date: String,
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

/// Properties of points that determine the look of their mark: the machine, and whether the points
/// belong to no level. The mark of points without a level is hollow.
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
/// borders. A bucket contains at least one point.
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

/// Draws the points of a trend, and formats the values and machines in tooltips.
pub(crate) struct PointPainter<'a> {
    pub area: &'a PlotArea,
    pub detail: TrendDetail,
    pub unit: &'a str,
    pub machines: &'a [String],
}

impl PointPainter<'_> {
    /// Draws the bars and marks of all buckets, by kind. A group has buckets of one kind.
    pub fn draw_points(&self, svg: &mut SvgWriter, buckets: &[PointBucket<'_>]) {
        let width = self.area.rect.width();
        let radius = (1.1 * width / buckets.len().max(1) as f64).clamp(1.9, 3.8);
        let groups = || buckets.chunk_by(|one, other| one.kind == other.kind);
        let kinds: Vec<PointKind> = groups().map(|group| group[0].kind).collect();
        svg.start_element("defs").end_with(|svg| self.define_shapes(svg, &kinds, radius));
        for group in groups() {
            self.draw_bars(svg, group);
            match self.detail {
                TrendDetail::Nothing => self.draw_vertices(svg, group),
                TrendDetail::Full | TrendDetail::Tooltips => self.draw_markers(svg, group, radius),
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

    fn draw_bars(&self, svg: &mut SvgWriter, buckets: &[PointBucket<'_>]) {
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
                .set_stroke(&buckets[0].kind.style().color(), 1.2)
                .set_number("stroke-opacity", 0.5)
                .end_empty();
        }
    }

    fn draw_markers(&self, svg: &mut SvgWriter, buckets: &[PointBucket<'_>], radius: f64) {
        let kind = buckets[0].kind;
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
    fn draw_vertices(&self, svg: &mut SvgWriter, buckets: &[PointBucket<'_>]) {
        let kind = buckets[0].kind;
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
            [point] => self.point_details(point),
            _ => self.bucket_details(bucket),
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
        let TrendPoint { at, revision, subject, author, date, session, .. } = point;
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
        let commit = join_texts(&[author, date], ", ");
        let origin = join_texts(&[&runs, self.tooltip_machine(point.machine), session], ", ");
        let heading = [&**revision, subject].join(" ");
        let estimate = self.format_estimate(at.y, at.low, at.high);
        let lines = [heading.trim(), &commit, &estimate, &origin, &point.aside];
        (attributes, join_texts(&lines, "\n"))
    }

    /// Details of several points.
    fn bucket_details(&self, bucket: &PointBucket<'_>) -> (MarkAttributes, String) {
        let summary = bucket.summary_point();
        let (low, high) = (summary.low.unwrap_or(summary.y), summary.high.unwrap_or(summary.y));
        let count = bucket.points.len();
        let (first, last) = (bucket.points[0], bucket.points[count - 1]);
        let attributes = vec![
            ("data-from", first.revision.clone()),
            ("data-to", last.revision.clone()),
            ("data-points", count.to_string()),
            ("data-value", format_exact(summary.y)),
            ("data-low", format_exact(low)),
            ("data-high", format_exact(high)),
            ("data-machine", self.machine_name(first.machine).to_owned()),
        ];
        let heading = format!("{} to {}: {count} points", first.revision, last.revision);
        let dates = match (&*first.date, &*last.date) {
            ("", _) | (_, "") => String::new(),
            (from, to) => format!("{from} to {to}"),
        };
        let value = format!("median {} {}", format_figure(summary.y), self.unit);
        let range = format_range(low, high);
        let machine = self.tooltip_machine(first.machine);
        (attributes, join_texts(&[&heading, &dates, &value, &range, machine], "\n"))
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

/// Joins texts of a tooltip, except empty ones.
fn join_texts(texts: &[&str], separator: &str) -> String {
    texts.iter().copied().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(separator)
}

// Draws the area below a trend: revisions or dates, a row of tags, and the axis label. Selects
// labels that do not overlap.

/// Height of a row of labels.
const ROW_PX: f64 = 17.0;
/// Length of a tick above the labels.
const TICK_LENGTH_PX: f64 = 5.0;
/// Minimum gap between two labels.
const GAP_PX: f64 = 14.0;
/// Maximum width of a tag. Longer tags are truncated.
const MAX_TAG_PX: f64 = 110.0;

/// Meaning of the positions of a trend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrendAxis {
    /// Positions in a sequence of revisions, labeled with revisions.
    #[default]
    Revisions,
    /// Milliseconds since the Unix epoch, labeled with dates in UTC.
    Time,
}

pub(crate) type PositionLabel = (f64, String);

/// Contents of the area below a trend.
pub(crate) struct TrendFoot<'a> {
    pub axis: TrendAxis,
    pub label: &'a str,
    /// Revisions by position, ascending.
    pub revisions: Vec<PositionLabel>,
    pub tags: Vec<PositionLabel>,
}

impl TrendFoot<'_> {
    pub fn height(&self) -> f64 {
        let rows = if self.tags.is_empty() { 1.0 } else { 2.0 };
        TICK_LENGTH_PX + rows * ROW_PX + bottom_label_height(self.label)
    }

    /// Draws everything below `area`.
    pub fn draw(&self, svg: &mut SvgWriter, sheet: PixelRect, area: &PlotArea) {
        let PixelRect { left, right, bottom, .. } = area.rect;
        draw_base_line(svg, (left, bottom), (right, bottom));
        let ends = (sheet.left, sheet.right);
        let ticks = match self.axis {
            TrendAxis::Revisions => place_labels(&self.revisions, &area.x, ends),
            TrendAxis::Time => date_labels(&area.x, ends),
        };
        let tick_end = bottom + TICK_LENGTH_PX;
        svg.start_group("x-ticks").end_with(|svg| {
            for tick in &ticks {
                let line = svg.start_line("", (tick.x_px, bottom), (tick.x_px, tick_end));
                line.set_text("stroke", AXIS).end_empty();
                tick.write(svg, tick_end + TICK_PX, MUTED);
            }
        });
        self.draw_tags(svg, ends, area);
        draw_bottom_label(svg, area.rect, bottom + self.height(), self.label);
    }

    /// Draws a thin line at every tag, and the names of tags if they fit.
    fn draw_tags(&self, svg: &mut SvgWriter, ends: (f64, f64), area: &PlotArea) {
        if self.tags.is_empty() {
            return;
        }
        let PixelRect { top, bottom, .. } = area.rect;
        let shorten =
            |(position, name): &PositionLabel| (*position, truncate_end(name, MAX_TAG_PX, TICK_PX));
        let short: Vec<PositionLabel> = self.tags.iter().map(shorten).collect();
        svg.start_group("tags").end_with(|svg| {
            let inside = self.tags.iter().filter(|(position, _)| area.x.contains_value(*position));
            for (position, name) in inside {
                let x_px = area.x.pixel_at(*position);
                svg.start_line("tag", (x_px, top), (x_px, bottom))
                    .set_stroke(AXIS, 0.8)
                    .set_text("stroke-dasharray", "1 3")
                    .end_with_tooltip(name);
            }
            for label in place_labels(&short, &area.x, ends) {
                label.write(svg, bottom + TICK_LENGTH_PX + ROW_PX + TICK_PX, INK);
            }
        });
    }
}

/// A label that fits. `x_px` is the pixel of its position. `middle` is the center of the text,
/// which may be shifted to keep the text on the sheet.
#[derive(Debug, PartialEq)]
struct PlacedLabel {
    x_px: f64,
    middle: f64,
    text: String,
}

impl PlacedLabel {
    fn write(&self, svg: &mut SvgWriter, baseline: f64, colour: &str) {
        svg.write_text(&self.text, (self.middle, baseline), TICK_PX, TextAnchor::Middle, colour);
    }
}

/// Selects as many labels as fit: the newest first, then the oldest, then labels halfway between
/// selected labels.
fn place_labels(labels: &[PositionLabel], x: &AxisMapping, ends: (f64, f64)) -> Vec<PlacedLabel> {
    let inside: Vec<&PositionLabel> =
        labels.iter().filter(|(position, _)| x.contains_value(*position)).collect();
    let mut occupied: Vec<(f64, f64)> = Vec::new();
    let mut written = Vec::new();
    for index in halving_order(inside.len()) {
        let (value, text) = inside[index];
        let half_width = reserved_width(text, TICK_PX) / 2.0;
        let x_px = x.pixel_at(*value);
        let middle = x_px.min(ends.1 - half_width).max(ends.0 + half_width);
        let (low, high) = (middle - half_width - GAP_PX, middle + half_width);
        if occupied.iter().all(|(start, end)| high + GAP_PX <= *start || low >= *end) {
            occupied.push((middle - half_width, high));
            written.push(PlacedLabel { x_px, middle, text: text.clone() });
        }
    }
    written.sort_by(|one, other| one.x_px.total_cmp(&other.x_px));
    written
}

/// Order in which to select indices: the last, the first, then repeatedly the middle between two
/// selected neighbors.
fn halving_order(count: usize) -> Vec<usize> {
    let Some(last) = count.checked_sub(1) else { return Vec::new() };
    let mut order = vec![last, 0];
    let mut gaps = std::collections::VecDeque::from([(0, last)]);
    while let Some((low, high)) = gaps.pop_front() {
        let middle = usize::midpoint(low, high);
        if middle > low {
            order.push(middle);
            gaps.extend([(low, middle), (middle, high)]);
        }
    }
    order.truncate(count.max(1));
    order
}

// Labels with dates, at the finest calendar step at which they do not overlap.

const MINUTE_MS: f64 = 60e3;
const DAY_MS: f64 = 86.4e6;
/// Range of the ECMAScript calendar (ECMA-262, section 21.4.1.1). Dates beyond this range are
/// meaningless.
const MAX_DATE_MS: f64 = 8.64e15;

/// A step from one date to the next. The variants are sorted from fine to coarse.
#[derive(Clone, Copy)]
enum DateStep {
    Minutes(f64),
    Days(f64),
    Months(i64),
}

fn date_labels(x: &AxisMapping, ends: (f64, f64)) -> Vec<PlacedLabel> {
    let (low, high) = (x.extent.low, x.extent.high);
    if low.abs() > MAX_DATE_MS || high.abs() > MAX_DATE_MS {
        return Vec::new();
    }
    // A label is at least a few letters wide, so more labels cannot fit.
    let max_labels = x.length_px() / 30.0;
    let fitting_labels = |step: DateStep| {
        let labels = step.step_labels(low, high, max_labels);
        let written = place_labels(&labels, x, ends);
        (!labels.is_empty() && written.len() == labels.len()).then_some(written)
    };
    let minutes = [1.0, 5.0, 15.0, 60.0, 180.0, 720.0].map(DateStep::Minutes);
    let days = [1.0, 2.0, 7.0, 14.0].map(DateStep::Days);
    let months = [1, 2, 3, 6, 12, 24, 60, 120, 1200].map(DateStep::Months);
    let mut steps = minutes.into_iter().chain(days).chain(months);
    steps.find_map(fitting_labels).unwrap_or_default()
}

impl DateStep {
    /// Dates of this step from `low` to `high`; none if there are more than `max_labels`.
    fn step_labels(self, low: f64, high: f64, max_labels: f64) -> Vec<PositionLabel> {
        // The distance between candidates, and the number of candidates per label.
        let (distance, count) = match self {
            Self::Minutes(minutes) => (minutes * MINUTE_MS, 1.0),
            Self::Days(days) => (days * DAY_MS, 1.0),
            Self::Months(months) => (DAY_MS, months as f64 * 30.0),
        };
        if (high - low) / (count * distance) > max_labels {
            return Vec::new();
        }
        let [first, last] = [(low / distance).ceil(), (high / distance).floor()];
        let candidates = (first as i64..=last as i64).map(|index| index as f64 * distance);
        let dates = candidates.filter(|date_ms| match self {
            Self::Minutes(_) | Self::Days(_) => true,
            Self::Months(months) => {
                let (year, month, day) = civil_date(*date_ms);
                day == 1 && (year * 12 + month - 1).rem_euclid(months) == 0
            }
        });
        dates.map(|date_ms| (date_ms, self.format_date(date_ms))).collect()
    }

    fn format_date(self, at_ms: f64) -> String {
        let (year, month, day) = civil_date(at_ms);
        match self {
            Self::Minutes(_) => {
                let minute = (at_ms.rem_euclid(DAY_MS) / MINUTE_MS) as u32;
                format!("{month:02}-{day:02} {:02}:{:02}", minute / 60, minute % 60)
            }
            Self::Days(_) => format!("{year}-{month:02}-{day:02}"),
            Self::Months(months) if months < 12 => format!("{year}-{month:02}"),
            Self::Months(_) => year.to_string(),
        }
    }
}

/// Year, month and day of the Gregorian date (H. Hinnant, "chrono-Compatible Low-Level Date
/// Algorithms"). In the computation, years start in March, so the leap day is the last day of a
/// year.
fn civil_date(at_ms: f64) -> (i64, i64, i64) {
    let days = (at_ms / DAY_MS).floor() as i64 + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day_of_year - (153 * shifted + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axis::AxisExtent;
    use crate::{AxisScale, ChartAxis};

    /// Expected values from `date -u -d @SECONDS +%F`.
    #[test]
    fn civil_dates_match_the_calendar() {
        for (seconds, year, month, day) in [
            (0.0, 1970, 1, 1),
            (951_782_400.0, 2000, 2, 29),
            (1_709_164_799.0, 2024, 2, 28),
            (4_107_542_400.0, 2100, 3, 1),
            (-1.0, 1969, 12, 31),
        ] {
            assert_eq!(civil_date(seconds * 1e3), (year, month, day));
        }
        // The days from 1890 to 2110.
        let dates = (-29_219..51_134).map(|day| civil_date(f64::from(day) * DAY_MS));
        let firsts = dates.filter(|(.., day)| *day == 1);
        let months: Vec<i64> = firsts.map(|(year, month, _)| year * 12 + month - 1).collect();
        assert_eq!(months, (12 * 1890..12 * 2110).collect::<Vec<_>>());
    }

    fn days(count: f64, width: f64) -> Vec<String> {
        let low = 1_767_225_600e3; // 2026-01-01
        let extent = AxisExtent::of_values(AxisScale::Linear, [low, low + count * DAY_MS]).unwrap();
        let x = AxisMapping::new(&ChartAxis::linear(""), extent, 0.0, width);
        let written = date_labels(&x, (-20.0, width + 20.0));
        written.into_iter().map(|label| label.text).collect()
    }

    #[test]
    fn dates_are_as_fine_as_the_room_allows() {
        assert_eq!(days(0.5, 300.0), ["01-01 00:00", "01-01 12:00"]);
        assert_eq!(days(3.0, 400.0), ["2026-01-01", "2026-01-02", "2026-01-03", "2026-01-04"]);
        assert_eq!(days(150.0, 400.0), ["2026-01", "2026-02", "2026-03", "2026-04", "2026-05"]);
        assert_eq!(days(800.0, 200.0), ["2026", "2027", "2028"]);
        assert_eq!(days(1e9, 200.0), [""; 0]);
    }

    #[test]
    fn the_halving_order_begins_with_both_ends_and_repeats_nothing() {
        assert_eq!(halving_order(0), [0; 0]);
        assert_eq!(halving_order(1), [0]);
        assert_eq!(halving_order(5), [4, 0, 2, 1, 3]);
        let mut all = halving_order(1000);
        all.sort_unstable();
        assert_eq!(all, (0..1000).collect::<Vec<_>>());
    }
}
