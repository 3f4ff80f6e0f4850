//! Stored sessions that are too large to be read as a whole: reported case by case, with the figures that reading them as a
//! whole would give.
//!
//! Decides which sessions are. Start at [`document`].

use anyhow::Result;
use speedwell_analysis::{self as analysis, Findings, Settings};
use speedwell_model::{Case, Failure, Session};
use speedwell_report::{Document, Output, session};
use speedwell_results::store::{LARGE_SESSION, Store};

/// Which part of a session is reported.
pub struct Wanted<'a> {
    /// The cases.
    pub case: &'a dyn Fn(&Case) -> bool,
    /// What gave nothing.
    pub failure: &'a dyn Fn(&Failure) -> bool,
}

impl Wanted<'_> {
    /// All of it.
    pub const ALL: Wanted<'static> = Wanted {
        case: &|_| true,
        failure: &|_| true,
    };
}

/// The report of such a session; `None` if it is small, if nothing of it is wanted, or if it has to be read as a whole because
/// its cases are held against each other. `mark` adds what is known besides, of the findings and the session without its runs.
///
/// # Errors
/// The file fails, metrics that the session does not have, a unit or chart that does not fit.
pub fn document(
    (store, number): (&Store, i64),
    wanted: &Wanted<'_>,
    settings: &Settings,
    output: &Output,
    mark: &mut dyn FnMut(&mut Findings, &Session),
) -> Result<Option<Document>> {
    if store.run_count(number)? <= LARGE_SESSION {
        return Ok(None);
    }
    store.by_cases(number, |stored| {
        stored.retain(wanted.case, wanted.failure);
        let header = stored.header();
        let is_divisible = !stored.has_loads() && analysis::can_be_divided(header, stored.cases());
        if stored.runs() == 0 || !is_divisible {
            return Ok(None);
        }
        let parts = |visit: &mut dyn FnMut(&Session)| stored.parts(visit);
        let mark = |findings: &mut Findings| mark(findings, header);
        session::in_parts((header, stored.runs()), parts, settings, output, mark).map(Some)
    })
}
