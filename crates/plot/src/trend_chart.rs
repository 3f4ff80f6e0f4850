//! Draws the trend chart, which shows a metric over the revisions of a program. The chart has
//! points with intervals, levels between changes, a labeled mark at every change, and thin lines at
//! other events. A sparkline shows the same in a row of a table.
//!
//! This module chooses the range of values to show, and draws the levels. `trend_points` draws the
//! points and the area below the plot, and `trend_marks` draws changes and notes. Callers detect
//! the changes.

use crate::axes::{PlotArea, draw_left_axis, left_gutter_width, top_strip_height};
use crate::axis::{AxisExtent, AxisMapping, can_show};
use crate::format::{format_count, format_figure, join_names};
use crate::point_chart::{ChartPoint, PointSeries};
use crate::sheet::{ChartHeader, LegendKey, LegendSwatch, SheetContent, make_dotted, omitted_note};
use crate::svg::{INK, MUTED, OutputMedium, PixelRect, SvgWriter, tint_color};
use crate::trend_marks::{CHANGE_LANE_PX, TrendChange, TrendMarks, TrendNote, TrendNoteKind};
use crate::trend_points::{
    MAX_SINGLE_POINTS, PointBucket, PointPainter, TrendAxis, TrendDetail, TrendFoot, TrendPoint,
    make_buckets, style_of_machine,
};
use crate::{AxisScale, ChartAxis};

/// Height of the plot on a wide sheet, and on a sheet narrower than `NARROW_PX`. If labels need the
/// room, the plot shrinks, but not below `MIN_PLOT_PX`.
const PLOT_PX: f64 = 300.0;
const NARROW_PLOT_PX: f64 = 220.0;
const NARROW_PX: f64 = 600.0;
const MIN_PLOT_PX: f64 = 110.0;
const RIGHT_PX: f64 = 8.0;
/// Minimum width of a level. Otherwise, a level with a single point would have no width.
const MIN_LEVEL_PX: f64 = 8.0;
/// Margin at the left and right end of a sparkline, where marks must not be cut off.
const SPARK_MARGIN_PX: f64 = 7.0;
/// Height of the strip of marks in a sparkline, and radius of a mark.
const SPARK_MARKS_PX: f64 = 13.0;
const SPARK_RADIUS_PX: f64 = 3.2;
/// The look of the continuation: the same as for a second machine.
const CONTINUATION_LOOK: usize = 1;
/// Minimum distance between neighboring points of a sparkline.
const SPARK_POINT_PX: f64 = 2.0;

/// A metric over the revisions of a branch, or over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrendChart {
    /// Title, in large letters.
    pub title: String,
    /// Subtitle.
    pub subtitle: Option<String>,
    /// Whether positions are revisions or times.
    pub x: TrendAxis,
    /// Label of the horizontal axis; may be empty.
    pub x_label: String,
    /// Value axis.
    pub y: ChartAxis,
    /// Unit of the values in tooltips; may be empty.
    pub unit: String,
    /// Names of the machines that points refer to. Each machine has its own marker.
    pub machines: Vec<String>,
    /// Points, in any order.
    pub points: Vec<TrendPoint>,
    /// Levels between changes.
    pub levels: Vec<TrendLevel>,
    /// Detected changes.
    pub changes: Vec<TrendChange>,
    /// Other events.
    pub notes: Vec<TrendNote>,
    /// Points of the parent branch after the fork, drawn as a dotted line with the branch's name.
    pub continuation: Option<PointSeries>,
    /// Amount of detail about single points.
    pub detail: TrendDetail,
}

/// A stretch of the trend without a change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrendLevel {
    /// Position of the first point of the level.
    pub from: f64,
    /// Position of the last point of the level.
    pub to: f64,
    /// Index of the level's machine, if machines have separate levels.
    pub machine: Option<usize>,
    /// Value of the metric at this level.
    pub value: f64,
    /// Lower end of the interval around the value.
    pub low: Option<f64>,
    /// Upper end of the interval around the value.
    pub high: Option<f64>,
}

/// The points of a trend that can be shown, in ascending order of position.
struct ShownPoints<'a> {
    all: Vec<&'a TrendPoint>,
    /// Points within the range of the value axis.
    inside: Vec<&'a TrendPoint>,
    /// Points far beyond the others, which are drawn as arrows at the ends of the axis.
    strays: Vec<&'a TrendPoint>,
}

impl TrendChart {
    fn shown_points(&self) -> ShownPoints<'_> {
        let can_show_point = |point: &&TrendPoint| {
            point.at.x.is_finite() && can_show(self.y.value_scale(), point.at.y)
        };
        let mut all: Vec<&TrendPoint> = self.points.iter().filter(can_show_point).collect();
        all.sort_by(|one, other| one.at.x.total_cmp(&other.at.x));
        let are_strays = self.find_strays(&all);
        let part = |is_stray: bool| -> Vec<&TrendPoint> {
            let points = all.iter().zip(&are_strays).filter(|(_, other)| **other == is_stray);
            points.map(|(point, _)| *point).collect()
        };
        let (inside, strays) = (part(false), part(true));
        ShownPoints { inside, strays, all }
    }

    /// Tells for each point whether it is a stray. A stray is an isolated point far outside the
    /// range of the central 90% of all points. Its distance from the range exceeds the width of
    /// the range. The newest point, and adjacent points that are all far outside, are not strays:
    /// they may start a new level.
    fn find_strays(&self, shown: &[&TrendPoint]) -> Vec<bool> {
        const MIN_POINTS: usize = 20;
        let Some(extent) =
            AxisExtent::of_values(self.y.value_scale(), shown.iter().map(|point| point.at.y))
        else {
            return Vec::new();
        };
        let project = |value: f64| extent.projection.project(value).unwrap_or(extent.low);
        let projected: Vec<f64> = shown.iter().map(|point| project(point.at.y)).collect();
        let mut sorted = projected.clone();
        sorted.sort_by(f64::total_cmp);
        let quantile = |p: f64| sorted[(p * (sorted.len() - 1) as f64) as usize];
        let (low, high) = (quantile(0.05), quantile(0.95));
        let width = high - low;
        let is_far = |value: f64| value < low - width || value > high + width;
        let is_stray = |index: usize| {
            shown.len() >= MIN_POINTS
                && width > 0.0
                && is_far(projected[index])
                && index.checked_sub(1).is_none_or(|previous| !is_far(projected[previous]))
                && projected.get(index + 1).is_some_and(|next| !is_far(*next))
        };
        (0..shown.len()).map(is_stray).collect()
    }

    /// Groups points into roughly `max_marks` marks or fewer. No mark extends across a change, or
    /// across a note of kind `TrendNoteKind::Work`.
    fn buckets<'a>(&self, points: &[&'a TrendPoint], max_marks: usize) -> Vec<PointBucket<'a>> {
        let changes = self.changes.iter().map(TrendChange::border_position);
        let borders: Vec<f64> = changes.chain(self.note_positions(TrendNoteKind::Work)).collect();
        make_buckets(points, &borders, max_marks)
    }

    fn note_positions(&self, kind: TrendNoteKind) -> impl Iterator<Item = f64> {
        self.notes.iter().filter(move |note| note.kind == kind).map(|note| note.x)
    }

    fn continued_points(&self) -> impl Iterator<Item = &ChartPoint> {
        self.continuation.iter().flat_map(|series| &series.points)
    }

    fn shown_levels(&self) -> impl Iterator<Item = &TrendLevel> {
        self.levels.iter().filter(|level| can_show(self.y.value_scale(), level.value))
    }

    fn x_extent(&self, shown: &ShownPoints<'_>) -> Option<AxisExtent> {
        let points = shown.all.iter().map(|point| point.at.x);
        let positions = points
            .chain(self.continued_points().map(|point| point.x))
            .chain(self.levels.iter().flat_map(|level| [level.from, level.to]))
            .chain(self.note_positions(TrendNoteKind::Failure));
        AxisExtent::of_values(AxisScale::Linear, positions)
    }

    /// Range of values shown. The range contains all levels, and all points except strays. It may
    /// cut off intervals, because a very wide interval would flatten everything else.
    fn y_extent(&self, shown: &ShownPoints<'_>) -> Option<AxisExtent> {
        const MAX_INTERVAL_SHARE: f64 = 0.4;
        let points = || shown.inside.iter();
        let values = points()
            .map(|point| point.at.y)
            .chain(self.continued_points().map(|point| point.y))
            .chain(self.levels.iter().map(|level| level.value));
        let core = AxisExtent::of_values(self.y.value_scale(), values)?;
        let span = core.high - core.low;
        let max_excess = if span == 0.0 { f64::INFINITY } else { span * MAX_INTERVAL_SHARE };
        let (lowest, highest) = (core.low - max_excess, core.high + max_excess);
        let extent = points()
            .flat_map(|point| [point.at.low, point.at.high])
            .chain(self.levels.iter().flat_map(|level| [level.low, level.high]))
            .flatten()
            .filter_map(|end| core.projection.project(end))
            .fold(core, |extent, end| extent.extended_to_projected(end.clamp(lowest, highest)));
        Some(extent)
    }

    fn omission_note(&self) -> Option<String> {
        let ShownPoints { all, inside, strays } = self.shown_points();
        let omitted = omitted_note(self.points.len() - all.len(), &[self.y.value_scale()]);
        let strays_note = (!strays.is_empty()).then(|| {
            let points = format_count(strays.len(), "point", "s");
            format!("{points} beyond the axis, shown by an arrow at its end")
        });
        let buckets_note = (inside.len() > MAX_SINGLE_POINTS).then(|| {
            let buckets = self.buckets(&inside, MAX_SINGLE_POINTS);
            let largest = buckets.iter().map(|bucket| bucket.points.len()).max().unwrap_or(0);
            format!(
                "{} points: each mark is the median of up to {largest}, and its bar shows their \
                 range",
                format_figure(inside.len() as f64)
            )
        });
        let notes = [omitted, strays_note, buckets_note].into_iter().flatten();
        let notes: Vec<String> = notes.collect();
        (!notes.is_empty()).then(|| notes.join("; "))
    }

    fn legend(&self) -> Vec<LegendKey> {
        let mut keys = Vec::new();
        let mut key = |name: &str, swatch| keys.push(LegendKey::new(name, swatch));
        let aside = self.points.iter().filter(|point| point.is_aside());
        if let Some(first) = aside.clone().next() {
            let mut reasons: Vec<&str> = aside.map(|point| &*point.aside).collect();
            reasons.sort_unstable();
            reasons.dedup();
            let swatch = LegendSwatch::Hollow(style_of_machine(first.machine));
            key(&reasons.join(" or "), swatch);
        }
        if !self.levels.is_empty() {
            let machine = self.levels.iter().find_map(|level| level.machine);
            let style = style_of_machine(machine.unwrap_or(0));
            key("level with its interval", LegendSwatch::Level(style));
        }
        if let Some(continuation) = &self.continuation {
            let name = format!("{}, after the fork", continuation.name);
            key(&name, LegendSwatch::Dotted(style_of_machine(CONTINUATION_LOOK)));
        }
        if self.notes.iter().any(|note| note.kind == TrendNoteKind::Failure) {
            key("failed", LegendSwatch::Failure);
        }
        // Machines come last, because there may not be room for all of them in the legend.
        if self.machines.len() > 1 {
            for (index, name) in self.machines.iter().enumerate() {
                key(name, LegendSwatch::Points(style_of_machine(index)));
            }
        }
        keys
    }

    fn trend_foot(&self, shown: &[&TrendPoint]) -> TrendFoot<'_> {
        let regular = shown.iter().filter(|point| !point.is_aside());
        let mut revisions: Vec<_> =
            regular.map(|point| (point.at.x, point.revision.clone())).collect();
        revisions.dedup_by(|one, other| one.0 == other.0);
        let tags = self.notes.iter().filter(|note| note.kind == TrendNoteKind::Tag);
        let mut tags: Vec<_> = tags.map(|tag| (tag.x, tag.label.clone())).collect();
        tags.sort_by(|one, other| one.0.total_cmp(&other.0));
        TrendFoot { axis: self.x, label: &self.x_label, revisions, tags }
    }
}

impl SheetContent for TrendChart {
    fn header(&self) -> ChartHeader<'_> {
        let (note, legend) = (self.omission_note(), self.legend());
        ChartHeader { title: &self.title, subtitle: self.subtitle.as_deref(), note, legend }
    }

    fn summary(&self) -> String {
        let points = format_count(self.shown_points().all.len(), "point", "s");
        let machines: Vec<&str> = self.machines.iter().map(String::as_str).collect();
        let machines = match machines[..] {
            [] => String::new(),
            _ => format!(" of {}", join_names(&machines)),
        };
        let changes = match self.changes.len() {
            0 => "no change".to_owned(),
            changes => format_count(changes, "change", "s"),
        };
        let descriptions: Vec<_> = self.changes.iter().map(|change| &*change.description).collect();
        let listed = match descriptions[..] {
            [] => String::new(),
            _ => format!(": {}", descriptions.join("; ")),
        };
        format!("Trend of {points}{machines}, with {changes}{}.", listed.trim_end_matches('.'))
    }

    /// Returns `group` rather than `img`, so that each change is accessible by itself.
    fn role(&self) -> &'static str {
        "group"
    }

    fn is_empty(&self) -> bool {
        self.shown_points().all.is_empty()
    }

    fn draw(&self, svg: &mut SvgWriter, area: PixelRect) {
        if let Some(layout) = TrendLayout::new(self, area) {
            layout.draw(svg);
        }
    }

    fn natural_height(&self, width: f64) -> f64 {
        let plot = if width < NARROW_PX { NARROW_PLOT_PX } else { PLOT_PX };
        // The sheet is high enough to have a lane for every label.
        let Some(layout) = TrendLayout::new(self, PixelRect::new(0.0, 0.0, width, 1e6)) else {
            return plot;
        };
        top_strip_height(&self.y.label) + layout.marks.height() + plot + layout.foot.height()
    }
}

/// A trend laid out on a sheet.
struct TrendLayout<'a> {
    chart: &'a TrendChart,
    area: PlotArea,
    sheet: PixelRect,
    shown: ShownPoints<'a>,
    marks: TrendMarks<'a>,
    foot: TrendFoot<'a>,
}

impl<'a> TrendLayout<'a> {
    fn new(chart: &'a TrendChart, sheet: PixelRect) -> Option<Self> {
        let shown = chart.shown_points();
        let x = chart.x_extent(&shown)?.padded_across(0.015);
        let y = chart.y_extent(&shown)?.including_near_zero().with_padding(0.05);
        let y_axis = chart.y.to_value_axis();
        let foot = chart.trend_foot(&shown.all);
        let above = sheet.top + top_strip_height(&chart.y.label);
        let bottom = sheet.bottom - foot.height();
        // The widths of the left labels hardly change with the height of the plot, so a draft that
        // ignores the labels above the plot is accurate enough.
        let draft = AxisMapping::new(&y_axis, y, bottom.max(above + MIN_PLOT_PX), above);
        let left = sheet.left + left_gutter_width(&draft);
        let right = (sheet.right - RIGHT_PX).max(left + 8.0);
        let x = AxisMapping::new(&ChartAxis::default(), x, left, right);
        let max_lanes = ((bottom - above - MIN_PLOT_PX) / CHANGE_LANE_PX).floor().max(0.0);
        let ends = (sheet.left, sheet.right.max(right));
        let marks =
            TrendMarks::lay_out((&chart.changes, &chart.notes), &x, ends, max_lanes as usize);
        let rect = PixelRect::new(left, above + marks.height(), right, bottom);
        let y = AxisMapping::new(&y_axis, y, rect.bottom, rect.top);
        Some(Self { chart, area: PlotArea { rect, x, y }, sheet, shown, marks, foot })
    }

    fn draw(&self, svg: &mut SvgWriter) {
        let PlotArea { rect, y, .. } = &self.area;
        let TrendChart { detail, unit, machines, .. } = self.chart;
        let painter = PointPainter { area: &self.area, detail: *detail, unit, machines };
        draw_left_axis(svg, self.sheet, *rect, y, &self.chart.y.full_label());
        self.marks.draw_behind(svg, &self.area);
        self.draw_bands(svg);
        self.foot.draw(svg, self.sheet, &self.area);
        self.draw_continuation(svg);
        self.draw_levels(svg, &painter);
        painter.draw_points(svg, &self.chart.buckets(&self.shown.inside, MAX_SINGLE_POINTS));
        painter.draw_strays(svg, &self.shown.strays);
        self.draw_levels_above(svg);
        self.marks.draw(svg, &self.area);
    }

    /// Both ends of the line of a level, in pixels.
    fn level_ends(&self, level: &TrendLevel) -> [(f64, f64); 2] {
        let (from, y) = self.area.point_at(level.from, level.value);
        let to = self.area.x.pixel_at(level.to);
        let extension = ((MIN_LEVEL_PX - (to - from)) / 2.0).max(0.0);
        [(from - extension, y), (to + extension, y)]
    }

    fn draw_bands(&self, svg: &mut SvgWriter) {
        svg.start_group("bands").end_with(|svg| {
            for level in self.chart.shown_levels() {
                let (Some(low), Some(high)) = (level.low, level.high) else { continue };
                let [(left, _), (right, _)] = self.level_ends(level);
                let (bottom, top) = (self.area.y.pixel_at(low), self.area.y.pixel_at(high));
                let rect = PixelRect { left, top, right, bottom: bottom.max(top) };
                let style = style_of_machine(level.machine.unwrap_or(0));
                svg.start_rect("", rect).set_text("fill", &tint_color(&style.color())).end_empty();
            }
        });
    }

    fn draw_levels(&self, svg: &mut SvgWriter, painter: &PointPainter<'_>) {
        svg.start_group("levels").set_stroke(INK, 2.0).end_with(|svg| {
            for level in self.chart.shown_levels() {
                let [from, to] = self.level_ends(level);
                let value = painter.format_estimate(level.value, level.low, level.high);
                let machine = level.machine.map_or("", |machine| painter.machine_name(machine));
                let tooltip = format!("level {value}\n{machine}");
                svg.start_line("level", from, to).end_with_tooltip(tooltip.trim_end());
            }
        });
    }

    /// Draws the level lines again on top of the points, because the points may hide the first
    /// lines. The lines on top ignore the pointer, so the tooltips of the points still appear.
    fn draw_levels_above(&self, svg: &mut SvgWriter) {
        let group = svg.start_group("levels-above").set_stroke(INK, 2.0);
        group.set_text("pointer-events", "none").end_with(|svg| {
            for level in self.chart.shown_levels() {
                let [from, to] = self.level_ends(level);
                svg.start_line("", from, to).end_empty();
            }
            self.draw_slopes(svg);
        });
    }

    /// For each drift and each machine, connects the middle of the level before the drift with the
    /// middle of the level after it.
    fn draw_slopes(&self, svg: &mut SvgWriter) {
        let middle = |level: &TrendLevel| {
            let [(from, y), (to, _)] = self.level_ends(level);
            (f64::midpoint(from, to), y)
        };
        for change in self.chart.changes.iter().filter(|change| change.is_drift) {
            let begins_after = |level: &&TrendLevel| level.from >= change.after;
            for after in self.chart.shown_levels().filter(begins_after) {
                let is_earlier =
                    |level: &&TrendLevel| level.machine == after.machine && level.to < after.from;
                let earlier = self.chart.shown_levels().filter(is_earlier);
                let before = earlier.max_by(|one, other| one.to.total_cmp(&other.to));
                let Some(before) = before.filter(|level| level.to <= change.before) else {
                    continue;
                };
                svg.start_line("slope", middle(before), middle(after))
                    .set_text("stroke", change.colour())
                    .set_text("stroke-dasharray", "7 4")
                    .end_empty();
            }
        }
    }

    fn draw_continuation(&self, svg: &mut SvgWriter) {
        let Some(continuation) = &self.chart.continuation else { return };
        let scale = self.chart.y.value_scale();
        let points = continuation.points.iter();
        let mut shown: Vec<&ChartPoint> =
            points.filter(|point| point.x.is_finite() && can_show(scale, point.y)).collect();
        shown.sort_by(|one, other| one.x.total_cmp(&other.x));
        let corners = shown.iter().map(|point| self.area.point_at(point.x, point.y));
        let line = svg
            .start_corners("polyline", "continuation", corners)
            .set_text("fill", "none")
            .set_stroke(&style_of_machine(CONTINUATION_LOOK).color(), 2.0);
        make_dotted(line).end_with_tooltip(&continuation.name);
    }
}

impl TrendChart {
    /// Renders the trend as a sparkline of `width_px` by `height_px` for a page. It is meant for a
    /// table row that also describes the trend in words. It shows the points as a faint line, with
    /// the levels and the marks of changes on top. Colors work as in
    /// [`AnyChart::svg_on_page`](crate::AnyChart::svg_on_page). The drawing contains no IDs and
    /// nothing reachable by keyboard. `None` if there is nothing to show.
    pub fn render_sparkline(&self, width_px: u32, height_px: u32) -> Option<String> {
        let (width, height) = (f64::from(width_px.max(40)), f64::from(height_px.max(24)));
        let right = width - SPARK_MARGIN_PX;
        let rect = PixelRect::new(SPARK_MARGIN_PX, SPARK_MARKS_PX, right, height - 2.0);
        let shown = self.shown_points();
        let x = self.x_extent(&shown)?.padded_across(0.0);
        let y = self.y_extent(&shown)?.with_padding(0.0);
        let area = PlotArea {
            rect,
            x: AxisMapping::new(&ChartAxis::default(), x, rect.left, rect.right),
            y: AxisMapping::new(&self.y.to_value_axis(), y, rect.bottom, rect.top + 2.0),
        };
        let regular: Vec<_> = shown.all.into_iter().filter(|point| !point.is_aside()).collect();
        let buckets = self.buckets(&regular, (rect.width() / SPARK_POINT_PX) as usize);
        let (medium, size) = (OutputMedium::Page(String::new()), (width, height));
        let attributes = [("role", "img"), ("aria-label", &self.summary())];
        Some(SvgWriter::write_document(medium, "spark", size, &attributes, |svg| {
            draw_spark_points(svg, &area, &buckets);
            self.draw_spark_levels(svg, &area);
            self.draw_spark_changes(svg, &area);
        }))
    }

    fn draw_spark_levels(&self, svg: &mut SvgWriter, area: &PlotArea) {
        let line = |level: &TrendLevel| {
            let (from, y) = area.point_at(level.from, level.value);
            let to = area.x.pixel_at(level.to).max(from + 3.0);
            format!("M{from:.1} {y:.1}H{to:.1}")
        };
        let lines: String = self.shown_levels().map(line).collect();
        if !lines.is_empty() {
            svg.start_path("levels", &lines).set_stroke(INK, 1.3).end_empty();
        }
    }

    fn draw_spark_changes(&self, svg: &mut SvgWriter, area: &PlotArea) {
        const MARK_Y: f64 = SPARK_MARKS_PX / 2.0;
        for change in &self.changes {
            let x = area.x.pixel_at(change.border_position());
            svg.start_line("", (x, MARK_Y), (x, area.rect.bottom))
                .set_stroke(change.colour(), 0.9)
                .set_text("stroke-dasharray", "2 2")
                .end_empty();
            change.draw_mark(svg, x, MARK_Y, SPARK_RADIUS_PX);
        }
    }
}

/// Draws a faint line from point to point, for each machine.
fn draw_spark_points(svg: &mut SvgWriter, area: &PlotArea, buckets: &[PointBucket<'_>]) {
    let corner = |bucket: &PointBucket<'_>| {
        let point = bucket.summary_point();
        let (x, y) = area.point_at(point.x, point.y);
        format!("{x:.1} {y:.1}")
    };
    let line = |buckets: &[PointBucket<'_>]| {
        format!("M{}", buckets.iter().map(corner).collect::<Vec<_>>().join("L"))
    };
    let lines = buckets.chunk_by(|one, other| one.kind == other.kind).map(line);
    svg.start_path("course", &lines.collect::<String>())
        .set_text("fill", "none")
        .set_stroke(MUTED, 1.0)
        .set_number("stroke-opacity", 0.7)
        .set_text("stroke-linejoin", "round")
        .end_empty();
}

// Small charts of values for the cells of a table: a line, its levels, and its last point. The style
// of the page chooses the colors.

/// Distance of the drawing from its edges, where lines and the last point must not be cut off.
const MARGIN_PX: f64 = 2.5;

/// Values in equal steps.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sparkline {
    /// The values, oldest first.
    pub points: Vec<f64>,
    /// The levels of the values.
    pub levels: Vec<SparkLevel>,
}

/// A level: a stretch of points without a change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SparkLevel {
    /// Index of its first point.
    pub first: usize,
    /// Index of its last point.
    pub last: usize,
    /// The value of the level.
    pub value: f64,
}

impl Sparkline {
    /// Renders the values as SVG of this size in pixels; `None` without a finite value. The drawing
    /// is hidden from screen readers, because the row states the same in words.
    pub fn render_svg(&self, width_px: u32, height_px: u32) -> Option<String> {
        let (width, height) = (f64::from(width_px), f64::from(height_px));
        let values = self.points.iter().copied().chain(self.levels.iter().map(|each| each.value));
        let finite = values.filter(|value| value.is_finite());
        let (low, high) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        let last_index = self.points.iter().rposition(|value| value.is_finite())?;
        let steps = self.points.len().saturating_sub(1).max(1) as f64;
        let x = |index: f64| MARGIN_PX + (width - 2.0 * MARGIN_PX) * index / steps;
        let y = |value: f64| {
            let share = if high > low { (value - low) / (high - low) } else { 0.5 };
            height - MARGIN_PX - (height - 2.0 * MARGIN_PX) * share
        };
        let mut out = format!(
            "<svg class=\"mini\" width=\"{width_px}\" height=\"{height_px}\" \
             viewBox=\"0 0 {width_px} {height_px}\" aria-hidden=\"true\">"
        );
        let corner = |(index, value): (f64, f64)| format!("{:.1} {:.1}", x(index), y(value));
        let corners = self.corners((width_px / 2).max(1) as usize).into_iter().map(corner);
        let corners: Vec<String> = corners.collect();
        if corners.len() > 1 {
            out.push_str(&format!("<path class=\"line\" d=\"M{}\"/>", corners.join("L")));
        }
        let shown = self.levels.iter().filter(|each| each.value.is_finite());
        let lines: String = shown
            .map(|level| {
                let [from, to] = [level.first, level.last].map(|index| x(index as f64));
                format!("M{from:.1} {:.1}H{:.1}", y(level.value), to.max(from + 2.0))
            })
            .collect();
        if !lines.is_empty() {
            out.push_str(&format!("<path class=\"level\" d=\"{lines}\"/>"));
        }
        let (end_x, end_y) = (x(last_index as f64), y(self.points[last_index]));
        Some(out + &format!("<circle cx=\"{end_x:.1}\" cy=\"{end_y:.1}\" r=\"1.8\"/></svg>"))
    }

    /// Returns at most about `max_count` corners of the line: the means of neighboring points, with
    /// their indexes.
    fn corners(&self, max_count: usize) -> Vec<(f64, f64)> {
        let size = self.points.len().div_ceil(max_count).max(1);
        let chunks = self.points.chunks(size).enumerate();
        let mean = |(number, chunk): (usize, &[f64])| {
            let finite: Vec<_> = chunk.iter().copied().filter(|value| value.is_finite()).collect();
            let count = finite.len() as f64;
            let middle = (number * size) as f64 + (chunk.len() - 1) as f64 / 2.0;
            (count > 0.0).then(|| (middle, finite.iter().sum::<f64>() / count))
        };
        chunks.filter_map(mean).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparkline_has_a_line_its_levels_and_its_last_point() {
        let level = |first, last, value| SparkLevel { first, last, value };
        let spark = Sparkline {
            points: vec![1.0, 1.0, f64::NAN, 3.0, 3.0],
            levels: vec![level(0, 1, 1.0), level(3, 4, 3.0)],
        };
        let svg = spark.render_svg(105, 15).unwrap();
        assert!(svg.contains("d=\"M2.5 12.5L27.5 12.5L77.5 2.5L102.5 2.5\""), "{svg}");
        assert!(svg.contains("d=\"M2.5 12.5H27.5M77.5 2.5H102.5\""), "{svg}");
        assert!(svg.contains("<circle cx=\"102.5\" cy=\"2.5\""), "{svg}");
    }

    #[test]
    fn few_or_no_points_and_very_many_are_drawn() {
        let of = |points: Vec<f64>| Sparkline { points, levels: Vec::new() };
        assert_eq!(of(Vec::new()).render_svg(100, 16), None);
        assert_eq!(of(vec![f64::NAN]).render_svg(100, 16), None);
        let one = of(vec![7.0]).render_svg(100, 16).unwrap();
        assert!(one.contains("cy=\"8.0\"") && !one.contains("<path"), "{one}");
        let many = of((0..2_000).map(f64::from).collect()).render_svg(100, 16).unwrap();
        assert!(many.len() < 900, "{}", many.len());
    }
}
