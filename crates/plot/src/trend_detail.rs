//! Adds details to the mark of a trend point: a tooltip, and attributes for programs.

use crate::numeral::format_figure;
use crate::point_series::ChartPoint;
use crate::svg::OpenElement;
use crate::trend_point::{PointBucket, PointField, TrendDetail, TrendPoint};

/// Formats a number with all its digits, for programs. Empty if the number is not finite.
fn format_exact(value: f64) -> String {
    match value.abs() {
        0.0 | 1e-6..1e15 => value.to_string(),
        _ if value.is_finite() => format!("{value:e}"),
        _ => String::new(),
    }
}

impl PointField<'_> {
    /// Ends a mark with its details.
    pub(crate) fn end_mark(&self, mark: OpenElement<'_>, bucket: &PointBucket<'_>) {
        match bucket.single_point() {
            Some(point) => self.end_point_mark(mark, point),
            None => self.end_bucket_mark(mark, bucket),
        }
    }

    /// Ends the mark of a single point with its details.
    pub(crate) fn end_point_mark(&self, mark: OpenElement<'_>, point: &TrendPoint) {
        let end = |end: Option<f64>| end.map(format_exact).unwrap_or_default();
        match self.detail {
            TrendDetail::Nothing => mark.end_empty(),
            TrendDetail::Tooltips => mark.end_with_tooltip(&self.point_tooltip(point)),
            TrendDetail::Full => mark
                .set_text("data-revision", &point.revision)
                .set_nonempty("data-subject", &point.subject)
                .set_text("data-value", &format_exact(point.at.y))
                .set_nonempty("data-low", &end(point.at.low))
                .set_nonempty("data-high", &end(point.at.high))
                .set_text("data-runs", &point.runs.to_string())
                .set_nonempty("data-machine", self.machine_name(point.machine))
                .set_nonempty("data-session", &point.session)
                .end_with_tooltip(&self.point_tooltip(point)),
        }
    }

    /// Ends the mark of a bucket with its details.
    fn end_bucket_mark(&self, mark: OpenElement<'_>, bucket: &PointBucket<'_>) {
        let [first, .., last] = &bucket.points[..] else {
            return mark.end_empty();
        };
        let summary = bucket.summary_point();
        let (low, high) = (summary.low.unwrap_or(summary.y), summary.high.unwrap_or(summary.y));
        let count = bucket.points.len();
        let mut tooltip = format!(
            "{} to {}: {count} points\nmedian {} {}\n{} to {}",
            first.revision,
            last.revision,
            format_figure(summary.y),
            self.unit,
            format_figure(low),
            format_figure(high)
        );
        let machine = self.tooltip_machine(first.machine);
        if !machine.is_empty() {
            tooltip.push('\n');
            tooltip.push_str(machine);
        }
        match self.detail {
            TrendDetail::Nothing => mark.end_empty(),
            TrendDetail::Tooltips => mark.end_with_tooltip(&tooltip),
            TrendDetail::Full => mark
                .set_text("data-from", &first.revision)
                .set_text("data-to", &last.revision)
                .set_text("data-points", &count.to_string())
                .set_text("data-value", &format_exact(summary.y))
                .set_text("data-low", &format_exact(low))
                .set_text("data-high", &format_exact(high))
                .set_nonempty("data-machine", self.machine_name(first.machine))
                .end_with_tooltip(&tooltip),
        }
    }

    fn machine_name(&self, machine: usize) -> &str {
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

    /// Tooltip of a single point.
    fn point_tooltip(&self, point: &TrendPoint) -> String {
        let runs = match point.runs {
            0 => String::new(),
            1 => "1 run".into(),
            runs => format!("{runs} runs"),
        };
        let details = [&*runs, self.tooltip_machine(point.machine), &*point.session];
        let revision = [&*point.revision, &*point.subject].join(" ");
        let mut tooltip = format!("{}\n{}", revision.trim(), self.format_value(&point.at));
        for (index, detail) in details.iter().filter(|text| !text.is_empty()).enumerate() {
            tooltip.push_str(if index == 0 { "\n" } else { ", " });
            tooltip.push_str(detail);
        }
        if point.is_aside() {
            tooltip.push('\n');
            tooltip.push_str(&point.aside);
        }
        tooltip
    }

    /// Formats a value as `26,705 ns [26,475, 26,806]`.
    fn format_value(&self, point: &ChartPoint) -> String {
        let value = format!("{} {}", format_figure(point.y), self.unit);
        match (point.low, point.high) {
            (Some(low), Some(high)) => {
                format!("{} [{}, {}]", value.trim_end(), format_figure(low), format_figure(high))
            }
            _ => value.trim_end().to_owned(),
        }
    }
}
