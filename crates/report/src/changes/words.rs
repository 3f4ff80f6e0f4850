//! What is said of a change, in tables, in charts and in sentences.
//!
//! Start at [`of_series`]; the columns of tables are in `changes.rs`.

use crate::comparison::{emphasis, symbol};
use crate::document::Answer;
use crate::figure::{change, change_with_interval};
use crate::table::Emphasis;
use crate::trend::figure;
use speedwell_analysis::Difference;
use speedwell_analysis::history::{History, SeriesTrend};
use speedwell_model::{Change, ChangeState, Estimate, Judgement, Verdict, short_revision};

/// The case, and what else tells series apart.
pub(crate) fn title(series: &SeriesTrend) -> String {
    format!("{}, {}", case(series), series.key.metric.name)
}

fn case(series: &SeriesTrend) -> String {
    match &*series.key.variant {
        "default" => series.key.case.clone(),
        variant => format!("{} [{variant}]", series.key.case),
    }
}

/// A change with the series that it belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line<'a> {
    pub series: &'a SeriesTrend,
    pub change: &'a Change,
    causes: &'a [Difference],
    pub verdict: Verdict,
}

/// The changes of a series, as its course has them.
pub(crate) fn of_series<'a>(series: &'a SeriesTrend, history: &History) -> Vec<Line<'a>> {
    let changes = series.trend.changes.iter().zip(&series.causes);
    changes
        .map(|(change, causes)| Line {
            series,
            change,
            causes,
            verdict: series.verdict(change, history.threshold),
        })
        .collect()
}

/// Both sides of a change from zero; of one whose levels are not shown, that it is such.
fn from_zero(series: &SeriesTrend, change: &Change) -> Option<String> {
    let sides = |sides: [Estimate; 2]| {
        let shown = sides.map(|side| figure(&side, &series.key.metric));
        shown.join(" -> ")
    };
    let is_infinite = change.ratio.value.is_infinite();
    let levels = series.trend.from_zero(change).map(sides);
    is_infinite.then(|| levels.unwrap_or_else(|| "from 0".to_owned()))
}

/// What a line says, without what it was taken from.
pub(crate) struct Shown {
    pub number: i64,
    pub verdict: Verdict,
    pub change: Estimate,
    /// Of a change from zero, which has no percentage: `0 -> 1`.
    pub from_zero: Option<String>,
    pub case: String,
    pub metric: String,
    pub between: [String; 2],
    pub revisions: Option<u32>,
    pub subject: String,
    pub evidence: f64,
    pub state: ChangeState,
    pub is_drift: bool,
    pub judgement: Judgement,
    pub note: String,
    pub causes: String,
}

impl Line<'_> {
    /// The finding for the gallery of a page.
    pub fn answer(&self) -> Answer {
        let emphasis = match self.change.state {
            _ if !self.change.is_open() => Emphasis::Muted,
            ChangeState::Suspected => Emphasis::Caution,
            _ => emphasis(self.verdict),
        };
        Answer {
            about: String::new(),
            text: format!("{} {}", symbol(self.verdict), self.shown().sentence()),
            emphasis,
        }
    }

    pub fn shown(&self) -> Shown {
        let Line {
            series,
            change,
            causes,
            verdict,
        } = self;
        let share = |ratio: f64| ratio - 1.0;
        let after = series.trend.points.iter();
        let mut after = after.filter(|point| point.revision.id == change.after);
        let subject = after
            .next()
            .and_then(|point| point.revision.subject.clone());
        Shown {
            number: change.number,
            verdict: *verdict,
            change: Estimate {
                value: share(change.ratio.value),
                low: share(change.ratio.low),
                high: share(change.ratio.high),
            },
            from_zero: from_zero(series, change),
            case: case(series),
            metric: series.key.metric.name.clone(),
            between: [change.before.clone(), change.after.clone()],
            revisions: series.trend.revisions_between(change),
            subject: subject.unwrap_or_default(),
            evidence: change.evidence,
            state: change.state,
            is_drift: change.is_drift,
            judgement: change.judgement,
            note: change.note.clone().unwrap_or_default(),
            causes: causes.iter().map(cause).collect::<Vec<_>>().join("; "),
        }
    }
}

impl Shown {
    /// `~+4.8 %`, with its interval `~+4.8 % [+4.1, +5.5]`; `0 -> 1`.
    pub fn size(&self, with_interval: bool) -> String {
        if let Some(sides) = &self.from_zero {
            return sides.clone();
        }
        // A border that was searched for shows its change too large.
        let about = match self.state {
            ChangeState::Confirmed => "",
            _ => "~",
        };
        let words = if with_interval {
            change_with_interval
        } else {
            change
        };
        format!("{about}{}", words(&self.change))
    }

    pub fn between(&self) -> String {
        let [before, after] = self.between.each_ref().map(|id| short_revision(id));
        match self.revisions {
            Some(1) | None => format!("{before} and {after}"),
            Some(revisions) => format!("{before} and {after} ({revisions} revisions)"),
        }
    }

    pub fn state(&self) -> String {
        let drift = if self.is_drift { ", a drift" } else { "" };
        format!("{}{drift}", self.state)
    }

    pub fn judged(&self) -> String {
        match (self.judgement, &*self.note) {
            (Judgement::Open, "") => String::new(),
            (judgement, "") => judgement.to_string(),
            (judgement, note) => format!("{judgement}: {note}"),
        }
    }

    /// `7: worse ~+4.8 % [+4.1, +5.5] between 4a5b6c7 and 89abcde, found; kernel '6.1' became '6.8'`
    pub fn sentence(&self) -> String {
        let number = match self.number {
            0 => String::new(),
            number => format!("{number}: "),
        };
        let mut words = format!(
            "{number}{} {} between {}, {}",
            self.verdict,
            self.size(true),
            self.between(),
            self.state()
        );
        for further in [self.judged(), self.causes.clone()] {
            if !further.is_empty() {
                words.push_str("; ");
                words.push_str(&further);
            }
        }
        words
    }
}

/// `kernel 6.1 became 6.2`.
pub(crate) fn cause(difference: &Difference) -> String {
    let Difference {
        name,
        before,
        after,
    } = difference;
    format!("{name} '{before}' became '{after}'")
}
