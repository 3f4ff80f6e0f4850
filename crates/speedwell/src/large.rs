//! Stored sessions that are too large to be read as a whole: reported case by case, with the figures that reading them as a
//! whole would give, and exported run by run.
//!
//! Decides which sessions are, and refuses what would need all their runs at once. Start at [`document`] and [`chosen`].

use super::source;
use anyhow::{Context, Result, bail, ensure};
use speedwell_analysis::{self as analysis, Findings, Settings};
use speedwell_harness::discover::{Part, Selection};
use speedwell_model::{Case, Session};
use speedwell_report::{Document, Output, session};
use speedwell_results::store::{LARGE_SESSION, SessionByCases, Store};

/// Which part of a session is meant: all of it by default.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted<'a> {
    /// What was chosen by options.
    pub selection: Option<&'a Selection>,
    /// The pattern behind the session.
    pub part: Option<&'a Part>,
}

impl Wanted<'_> {
    /// Leaves out what is not meant.
    fn choose(&self, stored: &mut SessionByCases<'_>) -> Result<()> {
        if let Some(part) = self.part {
            stored.retain(|case: &Case| part.holds(&case.id()), |_| true);
            ensure!(stored.runs() > 0, "no case matches '{}'", part.pattern());
        }
        if let Some(selection) = self.selection {
            stored.retain(
                |case| selection.keeps(case),
                |failure| selection.wants(&failure.benchmark),
            );
            ensure!(
                stored.runs() > 0,
                "--filter, --exclude and --set leave no case of it"
            );
        }
        Ok(())
    }
}

/// Does something with what is meant of such a session; `None` if it is a small one.
///
/// # Errors
/// The file fails, nothing of the session is meant, or what `work` says.
pub fn in_parts<T>(
    (store, number): (&Store, i64),
    wanted: &Wanted<'_>,
    work: impl FnOnce(&SessionByCases<'_>) -> Result<T>,
) -> Result<Option<T>> {
    if store.run_count(number)? <= LARGE_SESSION {
        return Ok(None);
    }
    let done = store.by_cases(number, |stored| {
        wanted.choose(stored)?;
        work(stored)
    })?;
    Ok(Some(done))
}

/// The report of such a session; `None` if it is small, or if it has to be read as a whole because its cases are held against
/// each other. `mark` adds what is known besides, of the findings and the session without its runs.
///
/// # Errors
/// The file fails, nothing of the session is meant, metrics that it does not have, a unit or chart that does not fit.
pub fn document(
    of: (&Store, i64),
    wanted: &Wanted<'_>,
    settings: &Settings,
    output: &Output,
    mark: &mut dyn FnMut(&mut Findings, &Session),
) -> Result<Option<Document>> {
    let document = in_parts(of, wanted, |stored| {
        let header = stored.header();
        if stored.has_loads() || !analysis::can_be_divided(header, stored.cases()) {
            return Ok(None);
        }
        source::check_metrics([header], settings)?;
        source::check_variant(header, settings.baseline.as_deref()).context("in --baseline")?;
        let parts = |visit: &mut dyn FnMut(&Session)| stored.parts(visit);
        let mark = |findings: &mut Findings| mark(findings, header);
        session::in_parts((header, stored.runs()), parts, settings, output, mark).map(Some)
    })?;
    Ok(document.flatten())
}

/// What is meant of a session of any size, in memory.
///
/// # Errors
/// The file fails, or so many runs are meant that they cannot be read together.
pub fn chosen(of: (&Store, i64), wanted: &Wanted<'_>) -> Result<Session> {
    let (store, number) = of;
    let read = in_parts(of, wanted, |stored| {
        if stored.is_large() {
            bail!(
                "{} runs of session @{number} are meant, and at most {LARGE_SESSION} are read together, since each takes 1.5 KB of \
                 memory\nhint: choose cases by @{number}::REGEX, --filter, --exclude or --set; 'speedwell report @{number}' \
                 without --x-axis, and with --export, takes more",
                stored.runs()
            );
        }
        stored.whole()
    })?;
    read.map_or_else(|| store.session(number), Ok)
}
