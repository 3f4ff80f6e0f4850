//! Puts a change of a series into words, for tables, charts and sentences. [`series_changes`]
//! returns the changes of a series.

use crate::cell::{TextEmphasis, verdict_emphasis, verdict_symbol};
use crate::document::CaseAnswer;
use crate::figure::{
    format_change, format_change_interval, format_quantity, join_texts, uncertainty_of,
    unless_empty,
};
use speedwell_analysis::FactDifference;
use speedwell_analysis::history::{ProjectHistory, SeriesTrend};
use speedwell_analysis::trend::TrendPoint;
use speedwell_model::{
    ChangeState, ChangeTriage, IntervalEstimate, Metric, RecordedChange, Verdict, short_revision,
};

/// Names the case, variant and metric of a series.
pub(crate) fn series_title(series: &SeriesTrend) -> String {
    format!("{}, {}", case_phrase(series), series.key.metric.name)
}

/// Names the case of a series, and its variant unless there is only the default one.
pub(crate) fn case_phrase(series: &SeriesTrend) -> String {
    match &*series.key.variant {
        "default" => series.key.case.clone(),
        variant => format!("{} [{variant}]", series.key.case),
    }
}

/// Formats a level with the digits that its interval supports.
pub(crate) fn format_figure(value: &IntervalEstimate, metric: &Metric) -> String {
    format_quantity(value.value, &metric.unit, uncertainty_of(value))
}

/// Returns the newest level or, before there is one, the newest point.
pub(crate) fn current_value(series: &SeriesTrend) -> Option<IntervalEstimate> {
    let level = series.trend.levels.last().filter(|level| level.is_claimed);
    level.map(|level| level.value).or_else(|| {
        let point = &series.trend.points.last()?.point;
        let (low, high) = point.interval.unwrap_or((point.value, point.value));
        Some(IntervalEstimate { value: point.value, low, high })
    })
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct SeriesChange<'a> {
    pub series: &'a SeriesTrend,
    pub change: &'a RecordedChange,
    pub causes: &'a [FactDifference],
    pub verdict: Verdict,
}

/// Returns the changes of a series, in the order of its trend.
pub(crate) fn series_changes<'a>(
    series: &'a SeriesTrend,
    history: &ProjectHistory,
) -> Vec<SeriesChange<'a>> {
    let changes = series.trend.changes.iter().zip(&series.causes);
    changes
        .map(|(change, causes)| SeriesChange {
            series,
            change,
            causes,
            verdict: series.change_verdict(change, history.threshold),
        })
        .collect()
}

/// Formats the levels on both sides of a change whose old level is zero, or returns "from 0" if the
/// levels are unknown. Returns `None` for any other change.
fn from_zero(series: &SeriesTrend, change: &RecordedChange) -> Option<String> {
    let format_sides = |sides: [IntervalEstimate; 2]| {
        sides.map(|side| format_figure(&side, &series.key.metric)).join(" -> ")
    };
    let is_infinite = change.ratio.value.is_infinite();
    let levels = series.trend.from_zero(change).map(format_sides);
    is_infinite.then(|| levels.unwrap_or_else(|| "from 0".to_owned()))
}

impl<'a> SeriesChange<'a> {
    /// Returns the finding for the gallery of a page.
    pub fn gallery_answer(&self) -> CaseAnswer {
        CaseAnswer {
            about: String::new(),
            text: format!("{} {}", verdict_symbol(self.verdict), self.sentence()),
            emphasis: self.emphasis(),
        }
    }

    /// Shows whether the change is good or bad. A suspected or triaged change stands out less.
    pub fn emphasis(&self) -> TextEmphasis {
        match self.change.state {
            _ if !self.change.is_open() => TextEmphasis::Muted,
            ChangeState::Suspected => TextEmphasis::Caution,
            _ => verdict_emphasis(self.verdict),
        }
    }

    /// The size of the change relative to the old level.
    pub fn relative_change(&self) -> IntervalEstimate {
        self.change.ratio.map(|ratio| ratio - 1.0)
    }

    /// The first point after the change.
    pub fn first_point(&self) -> Option<&'a TrendPoint> {
        let mut points = self.series.trend.points.iter();
        points.find(|point| point.revision.id == self.change.after)
    }

    /// The time of the first revision after the change, in milliseconds since the Unix epoch.
    pub fn time_unix_ms(&self) -> Option<i64> {
        self.first_point().map(TrendPoint::time_unix_ms)
    }

    /// The subject of the first revision after the change; empty if it is unknown.
    pub fn subject(&self) -> &str {
        self.first_point().and_then(|point| point.revision.subject.as_deref()).unwrap_or_default()
    }

    /// Formats the size of the change: `~+4.8%`, or `~+4.8% [+4.1, +5.5]` if `with_interval`. A
    /// change from zero is formatted as `0 -> 1`.
    pub fn size_text(&self, with_interval: bool) -> String {
        if let Some(sides) = from_zero(self.series, self.change) {
            return sides;
        }
        // On average, a change found by searching the history looks too large. New measurements
        // remove this bias.
        let approximation_mark = if self.change.state == ChangeState::Confirmed { "" } else { "~" };
        let format = if with_interval { format_change_interval } else { format_change };
        format!("{approximation_mark}{}", format(&self.relative_change()))
    }

    pub fn between(&self) -> String {
        let [before, after] =
            [&self.change.before, &self.change.after].map(|id| short_revision(id));
        match self.series.trend.revisions_between(self.change) {
            Some(1) | None => format!("{before} and {after}"),
            Some(revisions) => format!("{before} and {after} ({revisions} revisions)"),
        }
    }

    pub fn state_text(&self) -> String {
        let drift = if self.change.is_drift { ", a drift" } else { "" };
        format!("{}{drift}", self.change.state)
    }

    pub fn triage_text(&self) -> String {
        match (self.change.triage, self.change.note.as_deref().unwrap_or_default()) {
            (ChangeTriage::Open, "") => String::new(),
            (triage, "") => triage.to_string(),
            (triage, note) => format!("{triage}: {note}"),
        }
    }

    /// Describes the change, as in
    /// `7: worse ~+4.8% [+4.1, +5.5] between 4a5b6c7 and 89abcde, found; kernel '6.1' became '6.8'`
    pub fn sentence(&self) -> String {
        let number = unless_empty(self.change.number, |number| format!("{number}: "));
        let [triage, causes] = [self.triage_text(), causes_text(self.causes)]
            .map(|text| unless_empty(&*text, |text| format!("; {text}")));
        format!(
            "{number}{} {} between {}, {}{triage}{causes}",
            self.verdict,
            self.size_text(true),
            self.between(),
            self.state_text()
        )
    }
}

/// Describes differences, as in `kernel '6.1' became '6.2'`.
pub(crate) fn causes_text(differences: &[FactDifference]) -> String {
    let cause = |FactDifference { name, before, after }: &FactDifference| {
        format!("{name} '{before}' became '{after}'")
    };
    join_texts("; ", differences.iter().map(cause))
}
