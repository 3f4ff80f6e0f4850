//! Builds the report of `backfill`: for which revisions the history now has data. Start at
//! [`report_backfill`].

use crate::document::{Document, ReportBlock};
use crate::figure::format_count;
use crate::table::{ColumnKind, ColumnSet, ReportCell, ReportColumn, TextEmphasis};
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
    let mut columns = ColumnSet::new();
    columns.add_column(ReportColumn::words("revision", "revision"), |line: &BackfillLine| {
        let id = &line.revision.id;
        ReportCell::words(id).with_text(short_revision(id))
    });
    columns.add_column(ReportColumn::words("outcome", "outcome"), |line| {
        let cell = ReportCell::words(line.outcome.outcome_text());
        if line.outcome.has_point() { cell } else { cell.with_emphasis(TextEmphasis::Caution) }
    });
    columns.add_column(ReportColumn::figure("session", "session"), |line| match line.session {
        Some(number) => ReportCell::value(number).with_text(format!("@{number}")),
        None => ReportCell::words(""),
    });
    columns.add_column(ReportColumn::figure("failures", "failed cases"), |line| {
        let shown = if line.failures == 0 { String::new() } else { line.failures.to_string() };
        ReportCell::value(line.failures).with_text(shown)
    });
    columns.add_column(
        ReportColumn::new("subject", "subject", ColumnKind::Label).expendable(1),
        |line| ReportCell::words(line.revision.subject.clone().unwrap_or_default()),
    );
    columns
}
