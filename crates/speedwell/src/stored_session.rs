//! Finds and loads stored sessions: resolves references such as `@latest` or `@base`, and loads the
//! plan and the finished work of an interrupted session ([`load_interrupted_plan`]).
//!
//! A session may be too large to load as a whole. Such a session is reported case by case
//! ([`large_document`]), with the same results as if it were loaded as a whole, and exported run by
//! run. Requests that need all of its runs at once are rejected ([`load_selected`]).

use crate::history::line::branch_tip;
use crate::operand::quote_all;
use crate::options::MeasureTask;
use crate::status;
use anyhow::{Context, Result, anyhow, bail, ensure};
use speedwell_adapters::discover::{BenchmarkPart, BenchmarkSelection, DiscoveredBenchmarks};
use speedwell_adapters::plan::SessionPlan;
use speedwell_analysis::{self as analysis, AnalysisFindings, AnalysisSettings};
use speedwell_engine::execution::ExecuteOptions;
use speedwell_engine::{
    PreparedPlan, ResumedSession, attach_definitions, draw_seed, needs_earlier_runs, revisions,
};
use speedwell_machine::environment::{BranchFork, GitRepository, find_fork};
use speedwell_machine::process;
use speedwell_model::{
    Case, RunCount, Session, SessionReference, SessionState, StoppingDesign, as_milliseconds,
    short_revision,
};
use speedwell_report::{Document, OutputOptions, session};
use speedwell_store::{LARGE_SESSION, SessionByCases, Store};
use std::path::Path;
use std::time::Duration;

/// Timeout for git, which reads the history once.
const GIT_TIMEOUT: Duration = Duration::from_secs(10);

/// A resolved session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedSession {
    /// Number of the session.
    pub number: i64,
    /// Explanation of how the reference was resolved, as in `@base is @7, 3f2a1b0c4d, the merge
    /// base with 'main'`; `None` if it is obvious.
    pub note: Option<String>,
}

/// Finds the session to which `word` refers.
///
/// # Errors
/// Fails if there is no such session, or git cannot find the merge base.
pub fn find_session(store: &Store, word: &str) -> Result<ResolvedSession> {
    let git = GitRepository::for_folder(Path::new("."), GIT_TIMEOUT);
    let reference: SessionReference = word.parse()?;
    let reference = match &reference {
        SessionReference::Base(branch) => return find_base(store, &git, branch.as_deref()),
        SessionReference::Revision(revision) => {
            git.commit_id(revision).map_or(reference, SessionReference::Revision)
        }
        _ => reference,
    };
    let number = store.resolve_reference(&reference)?;
    Ok(ResolvedSession { number, note: None })
}

/// Returns the ID of the revision that `word` names, directly or by a session such as `@base`. A
/// word that git does not know counts as an ID.
///
/// # Errors
/// Fails if there is no such session, or its revision is unknown.
pub fn resolve_revision(store: &Store, git: &GitRepository, word: &str) -> Result<String> {
    if !word.starts_with('@') {
        return Ok(git.commit_id(word).unwrap_or_else(|| word.to_owned()));
    }
    let session = store.load_session(find_session(store, word)?.number)?;
    Ok(session.origin.with_context(|| format!("'{word}' has no known revision"))?.revision)
}

/// Returns the position of a revision in the first-parent history of the branch `line`. If the
/// revision is not in this history, returns the position where its branch forked from `line`.
/// `word` names the revision, directly or by a session such as `@base`.
///
/// # Errors
/// Fails if `word` names neither a revision nor a session, or the revision's branch did not fork
/// from `line`.
pub fn line_position(store: &Store, line: &str, word: &str) -> Result<u32> {
    let git = GitRepository::for_folder(Path::new("."), GIT_TIMEOUT);
    let revision = resolve_revision(store, &git, word)?;
    if let Some(position) = store.line_position(line, &revision)? {
        return Ok(position);
    }
    let fork = branch_tip(&git, line).and_then(|tip| git.merge_base(&tip, &revision));
    let position = fork.map(|fork| store.line_position(line, &fork)).transpose()?.flatten();
    position.with_context(|| format!("'{word}' is not a revision in the history of '{line}'"))
}

/// Returns the session of the newest measured revision that is in the history of both the checkout
/// and `branch`. Starts at their merge base and follows first parents.
fn find_base(store: &Store, git: &GitRepository, branch: Option<&str>) -> Result<ResolvedSession> {
    let BranchFork { target, id: fork } = find_fork(git, branch)?;
    let measured = store.measured_revisions()?;
    let line = git.first_parents_of(&fork);
    let newest_measured = line.iter().enumerate().find_map(|(commits_behind, revision)| {
        let number = *measured.get(revision)?;
        Some((commits_behind, revision, number))
    });
    let (commits_behind, revision, number) = newest_measured.with_context(|| {
        format!(
            "no measured revision at or before the merge base with '{target}', {}\nhint: measure it, for example after \
             'git checkout {}'",
            short_revision(&fork),
            short_revision(&fork)
        )
    })?;
    let distance = match commits_behind {
        0 => "the merge base".to_owned(),
        1 => "1 commit before the merge base".to_owned(),
        count => format!("{count} commits before the merge base"),
    };
    Ok(ResolvedSession {
        number,
        note: Some(format!(
            "{} is @{number}, {}, {distance} with '{target}'",
            SessionReference::Base(branch.map(str::to_owned)),
            short_revision(revision)
        )),
    })
}

/// The selected part of a session: all of it by default.
#[derive(Debug, Clone, Copy, Default)]
pub struct SessionSelection<'a> {
    /// The selection by options.
    pub selection: Option<&'a BenchmarkSelection>,
    /// The pattern after the session's reference, as in `@12::REGEX`.
    pub part: Option<&'a BenchmarkPart>,
}

impl SessionSelection<'_> {
    /// Removes cases that are not selected.
    fn apply_to(&self, stored: &mut SessionByCases<'_>) -> Result<()> {
        if let Some(part) = self.part {
            let narrowed = part.narrowed_to(stored.cases());
            let is_found = stored.cases().any(|case| narrowed.contains(case));
            ensure!(is_found, part.explain_no_match(stored.cases()));
            stored.retain_cases(|case: &Case| narrowed.contains(case), |_| true);
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
        check_metrics([header], settings)?;
        check_variant(header, settings.baseline.as_deref()).context("in --baseline")?;
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

/// Checks that each requested metric exists in at least one session.
///
/// # Errors
/// Fails on a metric that no session has.
pub fn check_metrics<'s>(
    sessions: impl IntoIterator<Item = &'s Session>,
    settings: &AnalysisSettings,
) -> Result<()> {
    let metrics = sessions.into_iter().flat_map(|session| &session.metrics);
    let names = metrics.map(|metric| metric.name.as_str());
    analysis::check_metrics(settings, names).context("in --metric")
}

/// Checks that a session has the requested variant, if any.
///
/// # Errors
/// Fails if the session does not have the variant.
pub fn check_variant(session: &Session, variant: Option<&str>) -> Result<()> {
    let Some(name) = variant else { return Ok(()) };
    let names: Vec<&str> = session.variants.iter().map(|variant| variant.name.as_str()).collect();
    if !names.contains(&name) {
        bail!("unknown variant '{name}'\nhint: the variants are {}", names.join(", "));
    }
    Ok(())
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

fn explain_no_plan(store: &Store, number: i64) -> Result<anyhow::Error> {
    let session = store.load_session_without_runs(number)?;
    if session.state == SessionState::Imported {
        return Ok(anyhow!("session @{number} was imported: nothing to resume"));
    }
    Ok(anyhow!(
        "session @{number} cannot be resumed: it was not measured in separate runs, because it is an \
         HTTP load\nhint: measure it again: {}",
        quote_all(&session.command)
    ))
}

/// Loads the plan of the session `reference`. `--budget` limits the time for the remaining runs; by
/// default, the session's own budget applies again, in full. If the session is complete and `--runs`
/// is given, returns the plan of a new session: the runs of the old one have used up their error
/// rate, so the new runs are judged alone.
///
/// # Errors
/// Fails if there is no such session, or the session cannot be resumed, for example after an
/// import.
pub fn load_interrupted_plan(
    store: &Store,
    reference: &str,
    task: &MeasureTask,
) -> Result<PreparedPlan> {
    process::prepare_to_measure()?;
    let number = find_session(store, reference)?.number;
    let Some(text) = store.session_plan(number)? else {
        return Err(explain_no_plan(store, number)?);
    };
    let mut plan: SessionPlan = serde_json::from_str(&text)
        .with_context(|| format!("cannot read the plan of session @{number}"))?;
    ensure!(
        plan.design.bisection.is_none(),
        "session @{number} is a bisection\nhint: speedwell bisect --resume @{number}"
    );
    ensure!(
        !plan.is_search,
        "session @{number} cannot be resumed: a concurrency search chooses each level based on \
         earlier ones\nhint: start it again; 'speedwell report @{number}' shows what was measured"
    );
    let budget_ms = task.execution.budget.map(as_milliseconds);
    plan.sampling.budget_ms = budget_ms.or(plan.sampling.budget_ms);
    attach_definitions(&mut plan)?;
    // Fails early if the text was stored by a version with a different grammar.
    plan.experiment()?;
    revisions::restore_worktrees(&plan, &mut task.progress_display())?;
    // A definition file need not exist, because its text is stored with the plan.
    for job in plan.jobs.iter().filter(|job| job.source.definition.is_none()) {
        let mut files = plan.variants.iter().map(|variant| variant.path_of(&job.source.file));
        if let Some(missing) = files.find(|file| !file.exists()) {
            bail!("'{}' of session @{number} no longer exists", missing.display());
        }
    }
    if let Some(runs) = task.runs
        && store.load_session_without_runs(number)?.state == SessionState::Complete
    {
        // The plan becomes that of a new session.
        plan.design.seed = draw_seed();
        plan.design.stopping = StoppingDesign::Fixed { runs };
        plan.sampling.runs = RunCount::Fixed(runs);
        status::print_note(&format!("{runs} new runs a side, judged without those of @{number}"));
        return Ok(PreparedPlan::new(plan, DiscoveredBenchmarks::default()));
    }
    let resumed = Some(finished_work(store, number, &plan)?);
    Ok(PreparedPlan { plan, suite: DiscoveredBenchmarks::default(), resumed, held: None })
}

/// Loads the finished work of a session. If the session is large, loads only the runs that the rest
/// of the session needs.
fn finished_work(store: &Store, number: i64, plan: &SessionPlan) -> Result<ResumedSession> {
    let finished = store.finished_slots(number)?;
    // In a distributed session, the runs are not needed, because each worker knows which of its
    // cases need no more runs.
    let is_elsewhere = !store.list_shards(number)?.is_empty();
    let is_large = store.count_runs(number)? > LARGE_SESSION && !needs_earlier_runs(plan);
    let session = if is_elsewhere || is_large {
        store.load_session_without_runs(number)?
    } else {
        store.load_session(number)?
    };
    let (mut runs, mut empty_slots) = (session.runs, None);
    if is_large && !is_elsewhere {
        runs = store.load_slot_runs(number, &plan.begun_slots(&finished))?;
        empty_slots = Some(store.empty_slots(number)?);
    }
    let failed_slots = session.failures.iter().filter_map(|failure| failure.slot).collect();
    let finished = ExecuteOptions {
        completed_slots: finished,
        failed_slots,
        previous_runs: runs,
        empty_slots,
        ..ExecuteOptions::default()
    };
    Ok(ResumedSession { number, finished })
}
