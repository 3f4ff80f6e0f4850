//! Draws the trend chart, which shows a metric over the revisions of a program. The chart has
//! points with intervals, levels between changes, a labeled mark at every change, and thin lines at
//! other events.
//!
//! This module chooses the range of values to show. `trend_point` draws the points, `trend_marks`
//! draws changes and notes, and `trend_axis` draws the area below the plot. Callers detect the
//! changes.

use crate::axes::{
    draw_left_axis, draw_left_label, left_gutter_width, left_ticks, top_strip_height,
};
use crate::color::{INK, tint_color};
use crate::header::{ChartHeader, LegendKey, LegendSwatch, make_dotted, omitted_note};
use crate::numeral::format_figure;
use crate::page::{SheetContent, format_count, join_names};
use crate::point_series::PointSeries;
use crate::scale::{AxisExtent, AxisMapping, can_show};
use crate::style::SeriesStyle;
use crate::svg::{PixelRect, SvgWriter};
use crate::trend_axis::{TrendAxis, TrendFoot};
use crate::trend_marks::{TrendChange, TrendMarks, TrendNote, TrendNoteKind};
use crate::trend_point::{
    MAX_SINGLE_POINTS, PointField, TrendDetail, TrendPoint, largest_bucket, make_buckets,
    style_of_machine,
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

/// A metric over the revisions of a branch, or over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrendChart {
    /// Title, in large letters.
    pub title: String,
    /// Subtitle.
    pub subtitle: Option<String>,
    /// Meaning of the positions.
    pub x: TrendAxis,
    /// Label below the positions; may be empty.
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

impl TrendChart {
    /// Points that can be shown, in ascending order of position.
    pub(crate) fn shown_points(&self) -> Vec<&TrendPoint> {
        let shown = self.points.iter().filter(|point| point.can_be_shown(&self.y));
        let mut shown: Vec<&TrendPoint> = shown.collect();
        shown.sort_by(|one, other| one.at.x.total_cmp(&other.at.x));
        shown
    }

    /// Positions of the changes, and of the notes of kind `TrendNoteKind::Work`. No bucket may
    /// extend across such a position.
    pub(crate) fn bucket_borders(&self) -> Vec<f64> {
        let work_changes =
            self.notes.iter().filter(|note| note.kind == TrendNoteKind::Work).map(|note| note.x);
        self.changes.iter().map(TrendChange::border_position).chain(work_changes).collect()
    }

    pub(crate) fn x_extent(&self, shown: &[&TrendPoint]) -> Option<AxisExtent> {
        let continued =
            self.continuation.iter().flat_map(|series| &series.points).map(|point| point.x);
        let levels = self.levels.iter().flat_map(|level| [level.from, level.to]);
        let failures =
            self.notes.iter().filter(|note| note.kind == TrendNoteKind::Failure).map(|note| note.x);
        let positions =
            shown.iter().map(|point| point.at.x).chain(continued).chain(levels).chain(failures);
        AxisExtent::of_values(&AxisScale::Linear, positions)
    }

    /// Range of values shown. The range contains all levels and points. It may cut off intervals,
    /// because a very wide interval would flatten everything else.
    pub(crate) fn y_extent(&self, inside: &[&TrendPoint]) -> Option<AxisExtent> {
        const MAX_INTERVAL_SHARE: f64 = 0.4;
        let scale = self.y.value_scale();
        let continued = self.continuation.iter().flat_map(|series| &series.points);
        let values = inside
            .iter()
            .map(|point| point.at.y)
            .chain(continued.map(|point| point.y))
            .chain(self.levels.iter().map(|level| level.value));
        let core = AxisExtent::of_values(scale, values)?;
        let max_excess = match core.high - core.low {
            0.0 => f64::INFINITY,
            span => span * MAX_INTERVAL_SHARE,
        };
        let bands = self.levels.iter().flat_map(|level| [level.low, level.high]);
        let extent = inside
            .iter()
            .flat_map(|point| [point.at.low, point.at.high])
            .chain(bands)
            .flatten()
            .filter_map(|end| core.projection().project(end))
            .fold(core, |extent, end| {
                extent
                    .extended_to_projected(end.clamp(core.low - max_excess, core.high + max_excess))
            });
        Some(extent)
    }

    /// Tells for each point whether it is a stray, which is drawn as an arrow at the edge. A stray
    /// is an isolated point far outside the range of the central 90 % of all points. Its distance
    /// from the range exceeds the width of the range. Two adjacent points, and the newest point,
    /// are not strays: they may start a new level.
    pub(crate) fn find_strays(&self, shown: &[&TrendPoint]) -> Vec<bool> {
        const MIN_POINTS: usize = 20;
        let Some(extent) =
            AxisExtent::of_values(self.y.value_scale(), shown.iter().map(|point| point.at.y))
        else {
            return Vec::new();
        };
        let projected: Vec<f64> = shown
            .iter()
            .map(|point| extent.projection().project(point.at.y).unwrap_or(extent.low))
            .collect();
        let mut sorted = projected.clone();
        sorted.sort_by(f64::total_cmp);
        let quantile = |p: f64| sorted.get((p * (sorted.len() - 1) as f64) as usize).copied();
        let (Some(low), Some(high)) = (quantile(0.05), quantile(0.95)) else {
            return Vec::new();
        };
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

    fn omission_note(&self) -> Option<String> {
        let shown = self.shown_points();
        let scales = [self.y.value_scale()];
        let mut notes: Vec<String> =
            omitted_note(self.points.len() - shown.len(), &scales).into_iter().collect();
        let strays = self.find_strays(&shown).iter().filter(|stray| **stray).count();
        if strays > 0 {
            let points = format_count(strays, "point", "s");
            notes.push(format!("{points} beyond the axis, shown by an arrow at its end"));
        }
        let inside = without_strays(&shown, &self.find_strays(&shown));
        if inside.len() > MAX_SINGLE_POINTS {
            let size =
                largest_bucket(&make_buckets(&inside, &self.bucket_borders(), MAX_SINGLE_POINTS));
            notes.push(format!(
                "{} points: each mark is the median of up to {size}, and its bar shows their range",
                format_figure(inside.len() as f64)
            ));
        }
        (!notes.is_empty()).then(|| notes.join("; "))
    }

    fn legend(&self) -> Vec<LegendKey> {
        let key = |name: &str, swatch| LegendKey { name: name.to_owned(), swatch };
        let mut keys = Vec::new();
        let aside = self.points.iter().filter(|point| point.is_aside());
        if let Some(first) = aside.clone().next() {
            let mut reasons: Vec<&str> = aside.map(|point| &*point.aside).collect();
            reasons.sort_unstable();
            reasons.dedup();
            let swatch = LegendSwatch::Hollow(style_of_machine(first.machine));
            keys.push(key(&reasons.join(" or "), swatch));
        }
        if !self.levels.is_empty() {
            let machine = self.levels.iter().find_map(|level| level.machine);
            let style = style_of_machine(machine.unwrap_or(0));
            keys.push(key("level with its interval", LegendSwatch::Level(style)));
        }
        if let Some(continuation) = &self.continuation {
            let name = format!("{}, after the branch", continuation.name);
            keys.push(key(&name, LegendSwatch::Dotted(style_of_continuation())));
        }
        if self.notes.iter().any(|note| note.kind == TrendNoteKind::Failure) {
            keys.push(key("failed", LegendSwatch::Failure));
        }
        // Machines come last, because there may not be room for all of them in the legend.
        if self.machines.len() > 1 {
            let machines = self.machines.iter().enumerate();
            keys.extend(
                machines
                    .map(|(index, name)| key(name, LegendSwatch::Points(style_of_machine(index)))),
            );
        }
        keys
    }

    fn trend_foot(&self, shown: &[&TrendPoint]) -> TrendFoot<'_> {
        let mut revisions: Vec<(f64, String)> = shown
            .iter()
            .filter(|point| !point.is_aside())
            .map(|point| (point.at.x, point.revision.clone()))
            .collect();
        revisions.dedup_by(|one, other| one.0 == other.0);
        let tags = self.notes.iter().filter(|note| note.kind == TrendNoteKind::Tag);
        let mut tags: Vec<_> = tags.map(|tag| (tag.x, tag.label.clone())).collect();
        tags.sort_by(|one, other| one.0.total_cmp(&other.0));
        TrendFoot { axis: self.x, label: &self.x_label, revisions, tags }
    }
}

pub(crate) fn without_strays<'a>(
    points: &[&'a TrendPoint],
    strays: &[bool],
) -> Vec<&'a TrendPoint> {
    let inside = points.iter().zip(strays).filter(|(_, stray)| !**stray);
    inside.map(|(point, _)| *point).collect()
}

fn style_of_continuation() -> SeriesStyle {
    style_of_machine(1)
}

struct TrendLayout<'a> {
    chart: &'a TrendChart,
    sheet: PixelRect,
    plot: PixelRect,
    x: AxisMapping,
    y: AxisMapping,
    shown: Vec<&'a TrendPoint>,
    strays: Vec<bool>,
    marks: TrendMarks<'a>,
    foot: TrendFoot<'a>,
}

impl<'a> TrendLayout<'a> {
    fn new(chart: &'a TrendChart, sheet: PixelRect) -> Option<Self> {
        let shown = chart.shown_points();
        let strays = chart.find_strays(&shown);
        let x = chart.x_extent(&shown)?.padded_across(0.015);
        let y = chart
            .y_extent(&without_strays(&shown, &strays))?
            .including_near_zero()
            .with_padding(0.05);
        let foot = chart.trend_foot(&shown);
        let axis = ChartAxis { label: String::new(), scale: chart.y.value_scale().clone() };
        let (above, bottom) =
            (sheet.top + top_strip_height(&chart.y.label), sheet.bottom - foot.height());
        // The width of the labels hardly changes with the height, so the height without labels is
        // accurate enough.
        let draft = AxisMapping::new(&axis, y, bottom.max(above + MIN_PLOT_PX), above);
        let left = sheet.left + left_gutter_width(&left_ticks(&draft));
        let right = (sheet.right - RIGHT_PX).max(left + 8.0);
        let x = AxisMapping::new(&ChartAxis::linear(""), x, left, right);
        let max_lanes = ((bottom - above - MIN_PLOT_PX) / TrendMarks::LANE_PX).floor().max(0.0);
        let ends = (sheet.left, sheet.right.max(right));
        let marks =
            TrendMarks::lay_out((&chart.changes, &chart.notes), &x, ends, max_lanes as usize);
        let plot = PixelRect::new(left, above + marks.height(), right, bottom);
        Some(Self {
            chart,
            sheet,
            plot,
            x,
            y: AxisMapping::new(&axis, y, plot.bottom, plot.top),
            shown,
            strays,
            marks,
            foot,
        })
    }

    fn draw(&self, svg: &mut SvgWriter) {
        let label = self.chart.y.full_label();
        draw_left_axis(svg, self.plot, &self.y, &left_ticks(&self.y));
        let above = PixelRect { top: self.sheet.top + top_strip_height(&label), ..self.plot };
        draw_left_label(svg, self.sheet, above, &label);
        self.marks.draw_behind(svg, self.plot, &self.x);
        self.draw_bands(svg);
        self.foot.draw(svg, self.sheet, self.plot, &self.x);
        self.draw_continuation(svg);
        self.draw_levels(svg);
        self.draw_points(svg);
        self.draw_levels_above(svg);
        self.marks.draw(svg, self.plot, &self.x);
    }

    /// Horizontal ends of a level in pixels.
    fn level_ends(&self, level: &TrendLevel) -> (f64, f64) {
        let (from, to) = (self.x.pixel_at(level.from), self.x.pixel_at(level.to));
        let extension = ((MIN_LEVEL_PX - (to - from)) / 2.0).max(0.0);
        (from - extension, to + extension)
    }

    fn shown_levels(&self) -> impl Iterator<Item = &TrendLevel> {
        let scale = self.chart.y.value_scale();
        let levels = self.chart.levels.iter();
        levels.filter(|level| can_show(scale, level.value))
    }

    fn draw_bands(&self, svg: &mut SvgWriter) {
        svg.start_group("bands").end_with(|svg| {
            for level in self.shown_levels() {
                let (Some(low), Some(high)) = (level.low, level.high) else {
                    continue;
                };
                let (from, to) = self.level_ends(level);
                let (low, high) = (self.y.pixel_at(low), self.y.pixel_at(high));
                let style = style_of_machine(level.machine.unwrap_or(0));
                svg.start_element("rect")
                    .set_number("x", from)
                    .set_number("y", high)
                    .set_number("width", to - from)
                    .set_number("height", (low - high).max(0.0))
                    .set_text("fill", &tint_color(&style.color()))
                    .end_empty();
            }
        });
    }

    fn draw_levels(&self, svg: &mut SvgWriter) {
        svg.start_group("levels").set_text("stroke", INK).set_number("stroke-width", 2.0).end_with(
            |svg| {
                for level in self.shown_levels() {
                    let (from, to) = self.level_ends(level);
                    let y = self.y.pixel_at(level.value);
                    let interval = match (level.low, level.high) {
                        (Some(low), Some(high)) => {
                            format!(" [{}, {}]", format_figure(low), format_figure(high))
                        }
                        _ => String::new(),
                    };
                    let machine = level
                        .machine
                        .and_then(|index| self.chart.machines.get(index))
                        .map_or(String::new(), |name| format!("\n{name}"));
                    let value = [&*format_figure(level.value), &*self.chart.unit].join(" ");
                    svg.start_line((from, y), (to, y))
                        .set_text("class", "level")
                        .end_with_tooltip(&format!("level {}{interval}{machine}", value.trim()));
                }
            },
        );
    }

    /// Draws the level lines again on top of the points, which could hide them. These lines ignore
    /// the pointer, so the tooltips of the points still appear.
    fn draw_levels_above(&self, svg: &mut SvgWriter) {
        svg.start_group("levels-above")
            .set_text("stroke", INK)
            .set_number("stroke-width", 2.0)
            .set_text("pointer-events", "none")
            .end_with(|svg| {
                for level in self.shown_levels() {
                    let (from, to) = self.level_ends(level);
                    let y = self.y.pixel_at(level.value);
                    svg.start_line((from, y), (to, y)).end_empty();
                }
                self.draw_slopes(svg);
            });
    }

    /// For each drift and each machine, connects the middle of the level before the drift with the
    /// middle of the level after it.
    fn draw_slopes(&self, svg: &mut SvgWriter) {
        let middle = |level: &TrendLevel| {
            let (from, to) = self.level_ends(level);
            (f64::midpoint(from, to), self.y.pixel_at(level.value))
        };
        for change in self.chart.changes.iter().filter(|change| change.is_drift) {
            let begins_after = |level: &&TrendLevel| level.from >= change.after;
            for after in self.shown_levels().filter(begins_after) {
                let is_same_machine = |level: &&TrendLevel| level.machine == after.machine;
                let is_earlier = |level: &&TrendLevel| level.to < after.from;
                let earlier = self.shown_levels().filter(is_same_machine).filter(is_earlier);
                let before = earlier.max_by(|one, other| one.to.total_cmp(&other.to));
                let Some(before) = before.filter(|level| level.to <= change.before) else {
                    continue;
                };
                svg.start_line(middle(before), middle(after))
                    .set_text("class", "slope")
                    .set_text("stroke", change.colour())
                    .set_text("stroke-dasharray", "7 4")
                    .end_empty();
            }
        }
    }

    fn draw_continuation(&self, svg: &mut SvgWriter) {
        let Some(continuation) = &self.chart.continuation else {
            return;
        };
        let scale = self.chart.y.value_scale();
        let mut shown: Vec<(f64, f64)> = continuation
            .points
            .iter()
            .filter(|point| point.x.is_finite() && can_show(scale, point.y))
            .map(|point| (point.x, point.y))
            .collect();
        shown.sort_by(|one, other| one.0.total_cmp(&other.0));
        let corner =
            |(x, y): &(f64, f64)| format!("{:.1},{:.1}", self.x.pixel_at(*x), self.y.pixel_at(*y));
        let corners: Vec<String> = shown.iter().map(corner).collect();
        let line = svg
            .start_element("polyline")
            .set_text("class", "continuation")
            .set_text("points", &corners.join(" "))
            .set_text("fill", "none")
            .set_text("stroke", &style_of_continuation().color())
            .set_number("stroke-width", 2.0);
        make_dotted(line).end_with_tooltip(&continuation.name);
    }

    fn draw_points(&self, svg: &mut SvgWriter) {
        let field = PointField {
            plot: self.plot,
            x: &self.x,
            y: &self.y,
            machines: &self.chart.machines,
            unit: &self.chart.unit,
            detail: self.chart.detail,
        };
        let inside = without_strays(&self.shown, &self.strays);
        field.draw(svg, &make_buckets(&inside, &self.chart.bucket_borders(), MAX_SINGLE_POINTS));
        let strays = self.shown.iter().zip(&self.strays).filter(|(_, stray)| **stray);
        field.draw_strays(svg, strays.map(|(point, _)| *point));
    }
}

impl SheetContent for TrendChart {
    fn header(&self) -> ChartHeader<'_> {
        ChartHeader {
            title: &self.title,
            subtitle: self.subtitle.as_deref(),
            note: self.omission_note(),
            legend: self.legend(),
        }
    }

    fn summary(&self) -> String {
        let points = format_count(self.shown_points().len(), "point", "s");
        let machines: Vec<&str> = self.machines.iter().map(String::as_str).collect();
        let machines = match machines[..] {
            [] => String::new(),
            _ => format!(" of {}", join_names(&machines)),
        };
        let changes = match self.changes.len() {
            0 => "no change".to_owned(),
            changes => format_count(changes, "change", "s"),
        };
        let descriptions: Vec<&str> =
            self.changes.iter().map(|change| &*change.description).collect();
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
        self.shown_points().is_empty()
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
        let above = top_strip_height(&self.y.label) + layout.marks.height();
        above + plot.max(MIN_PLOT_PX) + layout.foot.height()
    }
}
