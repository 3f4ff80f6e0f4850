//! Handles stored sessions that are too large to load as a whole. Reports them case by case, with
//! the same results as if they were loaded as a whole, and exports them run by run.
//!
//! The module rejects requests that need all runs of a large session at once. Start at
//! [`large_document`] and [`load_selected`].

use super::source;
use anyhow::{Context, Result, bail, ensure};
use speedwell_adapters::discover::{BenchmarkPart, BenchmarkSelection};
use speedwell_analysis::{self as analysis, AnalysisFindings, AnalysisSettings};
use speedwell_model::{Case, Session};
use speedwell_report::{Document, OutputOptions, session};
use speedwell_store::{LARGE_SESSION, SessionByCases, Store};

/// The selected part of a session: all of it by default.
#[derive(Debug, Clone, Copy, Default)]
pub struct SessionSelection<'a> {
    /// The selection by options.
    pub selection: Option<&'a BenchmarkSelection>,
    /// The pattern after the session's name.
    pub part: Option<&'a BenchmarkPart>,
}

impl SessionSelection<'_> {
    /// Removes cases that are not selected.
    fn apply_to(&self, stored: &mut SessionByCases<'_>) -> Result<()> {
        if let Some(part) = self.part {
            stored.retain_cases(|case: &Case| part.contains(&case.id()), |_| true);
            ensure!(stored.total_runs() > 0, "no case matches '{}'", part.pattern());
        }
        if let Some(selection) = self.selection {
            stored.retain_cases(
                |case| selection.selects_case(case),
                |failure| selection.selects_name(&failure.benchmark),
            );
            ensure!(stored.total_runs() > 0, "no case is left after --filter, --exclude and --set");
        }
        Ok(())
    }
}

/// Calls `process` with the selected part of a large session. Returns `None` if the session is
/// small.
///
/// # Errors
/// Fails if the store cannot be accessed, if nothing is selected, or if `process` fails.
pub fn in_parts<T>(
    (store, number): (&Store, i64),
    selected: &SessionSelection<'_>,
    process: impl FnOnce(&SessionByCases<'_>) -> Result<T>,
) -> Result<Option<T>> {
    if store.count_runs(number)? <= LARGE_SESSION {
        return Ok(None);
    }
    let result = store.with_session_by_cases(number, |stored| {
        selected.apply_to(stored)?;
        process(stored)
    })?;
    Ok(Some(result))
}

/// Builds the report of a large session. Returns `None` if the session is small. Also returns
/// `None` if it must be loaded as a whole, because it contains loads or compares cases with each
/// other. `mark` adds facts to the findings, such as a calibration, and gets the session without
/// its runs.
///
/// # Errors
/// Fails if the store cannot be accessed, nothing is selected, or a metric, unit or chart does not
/// suit the session.
pub fn large_document(
    stored_session: (&Store, i64),
    selected: &SessionSelection<'_>,
    settings: &AnalysisSettings,
    output: &OutputOptions,
    mark: &mut dyn FnMut(&mut AnalysisFindings, &Session),
) -> Result<Option<Document>> {
    let document = in_parts(stored_session, selected, |stored| {
        let header = stored.header();
        if stored.has_loads() || !analysis::can_be_divided(header, stored.cases()) {
            return Ok(None);
        }
        source::check_metrics([header], settings)?;
        source::check_variant(header, settings.baseline.as_deref()).context("in --baseline")?;
        let parts = |visitor: &mut dyn FnMut(&Session)| stored.for_each_part(visitor);
        let mark = |findings: &mut AnalysisFindings| mark(findings, header);
        session::report_session_in_parts(
            (header, stored.total_runs()),
            parts,
            settings,
            output,
            mark,
        )
        .map(Some)
    })?;
    Ok(document.flatten())
}

/// Loads a small session, or the selected part of a large session.
///
/// # Errors
/// Fails if the store cannot be accessed, or if the selection is too large to load.
pub fn load_selected(
    stored_session: (&Store, i64),
    selected: &SessionSelection<'_>,
) -> Result<Session> {
    let (store, number) = stored_session;
    let loaded = in_parts(stored_session, selected, |stored| {
        if stored.is_large() {
            bail!(
                "{} runs of session @{number} are too many: at most {LARGE_SESSION} can be loaded together, since each takes 1.5 KB of \
                 memory\nhint: select cases with @{number}::REGEX, --filter, --exclude or --set; 'speedwell report @{number}' \
                 without --x-axis, or with --export, can handle more",
                stored.total_runs()
            );
        }
        stored.load_whole()
    })?;
    loaded.map_or_else(|| store.load_session(number), Ok)
}
