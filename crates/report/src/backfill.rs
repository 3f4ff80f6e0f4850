//! The report of `backfill`: revisions of a line that got points later. Start at [`backfill`].

use crate::document::{Block, Document};
use crate::figure::count;
use crate::table::{Cell, Column, Columns, Emphasis, Kind};
use speedwell_model::{Revision, short_revision};

/// A revision and its outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackfillLine {
    /// The revision.
    pub revision: Revision,
    /// The outcome.
    pub outcome: BackfillOutcome,
    /// The session that was measured, or the one that recorded an earlier failure.
    pub session: Option<i64>,
    /// Cases that failed.
    pub failures: usize,
}

/// The outcome of backfilling a revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackfillOutcome {
    /// It was measured.
    Measured,
    /// It already had a point.
    Known,
    /// It could not be built or described.
    Failed,
    /// It failed before and was not tried again.
    FailedBefore,
}

impl BackfillOutcome {
    fn words(self) -> &'static str {
        match self {
            BackfillOutcome::Measured => "measured",
            BackfillOutcome::Known => "had a point",
            BackfillOutcome::Failed => "failed",
            BackfillOutcome::FailedBefore => "failed before",
        }
    }

    fn has_point(self) -> bool {
        matches!(self, BackfillOutcome::Measured | BackfillOutcome::Known)
    }
}

/// Builds the report: the number of points, and each revision examined. `all` is the number of
/// revisions on the line.
pub fn backfill(lines: &[BackfillLine], all: usize) -> Document {
    let mut document = Document::new("backfill");
    let of = |wanted: &dyn Fn(BackfillOutcome) -> bool| {
        lines.iter().filter(|line| wanted(line.outcome)).count()
    };
    let mut parts = vec![format!(
        "{} of {} have a point",
        of(&BackfillOutcome::has_point),
        count(all, "revision", "revisions")
    )];
    parts.push(format!(
        "{} measured now",
        of(&|own| own == BackfillOutcome::Measured)
    ));
    let failed = of(&|own| !own.has_point());
    if failed > 0 {
        parts.push(format!("{failed} failed"));
    }
    document.push(Block::Headline(parts.join(", ")));
    document.push(Block::Table(columns().table("revisions", lines)));
    document
}

/// The sort keys of the table.
pub fn sort_keys() -> Vec<&'static str> {
    columns().sort_keys()
}

fn columns() -> Columns<BackfillLine> {
    let mut columns = Columns::new();
    columns.add(
        Column::words("revision", "revision"),
        |line: &BackfillLine| {
            let id = &line.revision.id;
            Cell::words(id).shown(short_revision(id))
        },
    );
    columns.add(Column::words("outcome", "outcome"), |line| {
        let cell = Cell::words(line.outcome.words());
        if line.outcome.has_point() {
            cell
        } else {
            cell.emphasised(Emphasis::Caution)
        }
    });
    columns.add(Column::figure("session", "session"), |line| {
        match line.session {
            Some(number) => Cell::value(number).shown(format!("@{number}")),
            None => Cell::words(""),
        }
    });
    columns.add(Column::figure("failures", "failed cases"), |line| {
        let shown = if line.failures == 0 {
            String::new()
        } else {
            line.failures.to_string()
        };
        Cell::value(line.failures).shown(shown)
    });
    columns.add(
        Column::new("subject", "subject", Kind::Label).expendable(1),
        |line| Cell::words(line.revision.subject.clone().unwrap_or_default()),
    );
    columns
}
