//! Details of a trend point: a tooltip, and attributes for programs.

use crate::numeral::figure;
use crate::point_series::Point;
use crate::svg::Element;
use crate::trend_point::{Bucket, PointField, TrendDetail, TrendPoint};

/// Formats a number for programs with all digits; empty if not finite.
fn written(value: f64) -> String {
    match value.abs() {
        0.0 | 1e-6..1e15 => value.to_string(),
        _ if value.is_finite() => format!("{value:e}"),
        _ => String::new(),
    }
}

impl PointField<'_> {
    /// Ends a mark with its details.
    pub(crate) fn say(&self, mark: Element<'_>, bucket: &Bucket<'_>) {
        match bucket.only() {
            Some(point) => self.say_one(mark, point),
            None => self.say_many(mark, bucket),
        }
    }

    /// Ends the mark of a single point with its details.
    pub(crate) fn say_one(&self, mark: Element<'_>, point: &TrendPoint) {
        let end = |end: Option<f64>| end.map(written).unwrap_or_default();
        match self.detail {
            TrendDetail::Nothing => mark.close(),
            TrendDetail::Tooltips => mark.titled(&self.words(point)),
            TrendDetail::Full => mark
                .set("data-revision", &point.revision)
                .set_some("data-subject", &point.subject)
                .set("data-value", &written(point.at.y))
                .set_some("data-low", &end(point.at.low))
                .set_some("data-high", &end(point.at.high))
                .set("data-runs", &point.runs.to_string())
                .set_some("data-machine", self.machine(point.machine))
                .set_some("data-session", &point.session)
                .titled(&self.words(point)),
        }
    }

    /// Ends the mark of a bucket with its details.
    fn say_many(&self, mark: Element<'_>, bucket: &Bucket<'_>) {
        let [first, .., last] = &bucket.points[..] else {
            return mark.close();
        };
        let at = bucket.at();
        let (low, high) = (at.low.unwrap_or(at.y), at.high.unwrap_or(at.y));
        let count = bucket.points.len();
        let mut words = format!(
            "{} to {}: {count} points\nmedian {} {}\n{} to {}",
            first.revision,
            last.revision,
            figure(at.y),
            self.unit,
            figure(low),
            figure(high)
        );
        let machine = self.machine_in_words(first.machine);
        if !machine.is_empty() {
            words.push('\n');
            words.push_str(machine);
        }
        match self.detail {
            TrendDetail::Nothing => mark.close(),
            TrendDetail::Tooltips => mark.titled(&words),
            TrendDetail::Full => mark
                .set("data-from", &first.revision)
                .set("data-to", &last.revision)
                .set("data-points", &count.to_string())
                .set("data-value", &written(at.y))
                .set("data-low", &written(low))
                .set("data-high", &written(high))
                .set_some("data-machine", self.machine(first.machine))
                .titled(&words),
        }
    }

    fn machine(&self, at: usize) -> &str {
        self.machines.get(at).map_or("", String::as_str)
    }

    /// Machine of a point for its tooltip; empty in brief tooltips if there is only one.
    fn machine_in_words(&self, at: usize) -> &str {
        match (self.detail, self.machines) {
            (TrendDetail::Tooltips, [] | [_]) => "",
            _ => self.machine(at),
        }
    }

    /// Tooltip of a single point.
    fn words(&self, point: &TrendPoint) -> String {
        let runs = match point.runs {
            0 => String::new(),
            1 => "1 run".into(),
            many => format!("{many} runs"),
        };
        let known = [
            &*runs,
            self.machine_in_words(point.machine),
            &*point.session,
        ];
        let revision = [&*point.revision, &*point.subject].join(" ");
        let mut words = format!("{}\n{}", revision.trim(), self.value(&point.at));
        for (at, known) in known.iter().filter(|text| !text.is_empty()).enumerate() {
            words.push_str(if at == 0 { "\n" } else { ", " });
            words.push_str(known);
        }
        if point.is_aside() {
            words.push('\n');
            words.push_str(&point.aside);
        }
        words
    }

    /// Formats a value as `26,705 ns [26,475, 26,806]`.
    fn value(&self, at: &Point) -> String {
        let value = format!("{} {}", figure(at.y), self.unit);
        match (at.low, at.high) {
            (Some(low), Some(high)) => {
                format!("{} [{}, {}]", value.trim_end(), figure(low), figure(high))
            }
            _ => value.trim_end().to_owned(),
        }
    }
}
