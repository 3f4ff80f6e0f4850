//! Builds the report of `backfill`: for which revisions the history now has data. Start at
//! [`report_backfill`].

use crate::columns::{ColumnSet, column_set};
use crate::document::{Document, ReportBlock};
use crate::figure::format_count;
use crate::table::{ReportCell, TextEmphasis};
use speedwell_model::{Revision, short_revision};

/// A revision and its outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackfillLine {
    /// The revision.
    pub revision: Revision,
    /// The outcome.
    pub outcome: BackfillOutcome,
    /// The number of the session that measured the revision or recorded its earlier failure.
    pub session: Option<i64>,
    /// The number of cases that failed.
    pub failures: usize,
}

/// The outcome of backfilling a revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackfillOutcome {
    /// The revision was measured.
    Measured,
    /// The history already had data for the revision.
    Known,
    /// The revision could not be built, or its benchmarks could not be listed.
    Failed,
    /// The revision failed before and was not tried again.
    FailedBefore,
}

impl BackfillOutcome {
    fn outcome_text(self) -> &'static str {
        match self {
            BackfillOutcome::Measured => "measured",
            BackfillOutcome::Known => "had data",
            BackfillOutcome::Failed => "failed",
            BackfillOutcome::FailedBefore => "failed before",
        }
    }

    fn outcome_cell(self) -> ReportCell {
        let emphasis = if self.has_point() { TextEmphasis::None } else { TextEmphasis::Caution };
        ReportCell::words(self.outcome_text()).with_emphasis(emphasis)
    }

    fn has_point(self) -> bool {
        matches!(self, BackfillOutcome::Measured | BackfillOutcome::Known)
    }
}

/// Builds the report. It says how many of the `total` revisions in the requested range have data,
/// and gives the outcome of each examined revision.
pub fn report_backfill(lines: &[BackfillLine], total: usize) -> Document {
    let mut document = Document::new("backfill");
    let count = |is_wanted: &dyn Fn(BackfillOutcome) -> bool| {
        lines.iter().filter(|line| is_wanted(line.outcome)).count()
    };
    let with_data = count(&BackfillOutcome::has_point);
    let verb = if with_data == 1 { "has" } else { "have" };
    let mut parts = vec![format!(
        "{with_data} of {} {verb} data",
        format_count(total, "revision", "revisions")
    )];
    parts.push(format!("{} measured now", count(&|outcome| outcome == BackfillOutcome::Measured)));
    let failed = count(&|outcome| !outcome.has_point());
    if failed > 0 {
        parts.push(format!("{failed} failed"));
    }
    document.push(ReportBlock::Headline(parts.join(", ")));
    document.push(ReportBlock::Table(backfill_columns().build_table("revisions", lines)));
    document
}

/// The sort keys of the table.
pub fn sort_keys() -> Vec<&'static str> {
    backfill_columns().sort_keys()
}

fn backfill_columns() -> ColumnSet<BackfillLine> {
    column_set! { line: BackfillLine;
        words("revision", "revision") =>
            ReportCell::words(&line.revision.id).with_text(short_revision(&line.revision.id)),
        words("outcome", "outcome") => line.outcome.outcome_cell(),
        figure("session", "session") => match line.session {
            Some(number) => ReportCell::session(number),
            None => ReportCell::words(""),
        },
        figure("failures", "failed cases") =>
            ReportCell::from(line.failures).shown_if(line.failures > 0),
        label("subject", "subject").expendable(1) =>
            line.revision.subject.as_deref().unwrap_or_default(),
    }
}
