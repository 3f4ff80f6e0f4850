//! `speedwell backfill`: measures old revisions for which the history has no data.
//!
//! This module decides which revisions to measure. The order goes from coarse to fine and does not
//! depend on the measured values. Revisions are built and measured one after the other, and each
//! result is stored immediately. The module `revisions` builds a revision. Start at [`run`].

use crate::features::bisect::{LIST_TIMEOUT, build_failure, parse_range};
use crate::features::confirm::revision_variant;
use crate::history::project;
use crate::options::{
    MachineArgs, OriginArgs, RevisionMeasuringArgs, RevisionProgramArgs, hide_unused, parse,
};
use crate::progress::ProgressDisplay;
use crate::run::measure_plan;
use crate::{CommandStatus, status};
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use speedwell_adapters::plan::SessionPlan;
use speedwell_analysis as analysis;
use speedwell_engine::execution::worktree::{self, Checkout};
use speedwell_engine::{
    EventListener, MeasureRequest, PlanRequest, PreparedPlan, SessionRequest, revisions,
    session_header,
};
use speedwell_machine::environment::GitRepository;
use speedwell_machine::process::{clear_interrupt, is_interrupt_requested, prepare_to_measure};
use speedwell_model::{
    Metric, OriginRequest, Revision, SessionEvent, SessionObserver, SessionPurpose, SessionState,
    Variant, quote, short_revision,
};
use speedwell_report::{self as report, BackfillLine, BackfillOutcome, ReportSubject};
use speedwell_store::Store;
use std::collections::{BTreeSet, BinaryHeap};
use std::time::{Duration, Instant};

/// Measure old revisions to fill gaps in the history
///
/// The revisions from A to B along first parents are measured from coarse to fine: first both ends, then the middle of
/// the widest gap, until the history has points for N of them. The choice does not depend on measured values, so these
/// points can be searched for changes like any others. Each revision is built in a worktree, measured in its own
/// session and stored at once. Revisions that already have a point from this machine are not measured again; those that
/// failed to build with the same command are not retried. Your checkout is not touched.
///
/// Exit status 1 if the history has points for fewer than N revisions at the end, unless every revision of the range
/// has one.
#[derive(Debug, Args)]
#[command(mut_args(|arg| hide_unused(arg, "chart")), after_help = "Examples:
  speedwell backfill v1.4..HEAD --points 25 --build 'make -j4 bench' ./bench
  speedwell backfill main~200..main --points 30 --budget 2h --build 'npm ci' speed/
  speedwell history changes")]
pub struct BackfillArgs {
    /// Range of revisions, including both ends
    #[arg(index = 1, value_name = "A..B")]
    range: String,
    /// Files, programs, folders; and NAME=VALUE to set a parameter
    #[arg(index = 2, value_name = "TARGET|NAME=VALUE", required = true)]
    targets: Vec<String>,
    /// After '--': arguments for every measured program
    #[arg(index = 3, last = true, value_name = "ARG")]
    arguments: Vec<String>,
    /// Number of revisions for which the history should have points
    ///
    /// Revisions that already have a point are counted. Finding a change needs at least 21 points.
    #[arg(long, value_name = "N", default_value_t = 25, value_parser = parse_points, help_heading = "Search")]
    points: usize,
    #[command(flatten)]
    built: RevisionProgramArgs,
    /// Start no further revision once this much time has passed
    ///
    /// The time includes builds.
    #[arg(long, value_name = "DUR", value_parser = parse::duration, help_heading = "Search")]
    budget: Option<Duration>,
    #[command(flatten)]
    measuring: RevisionMeasuringArgs,
    /// Branch of the revisions [default: none]
    #[arg(long, value_name = "NAME", help_heading = "Store")]
    branch: Option<String>,
    #[command(flatten)]
    machine: MachineArgs,
}

fn parse_points(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("expected a whole number of at least 1".to_owned()),
        Ok(number) => Ok(number),
    }
}

/// Measures the revisions, and reports which of them have points in the history.
///
/// # Errors
/// Returns an error if the range is invalid, the newest revision cannot be measured, or the store
/// cannot be written.
pub fn run(args: BackfillArgs) -> anyhow::Result<CommandStatus> {
    args.measuring.output.check_report(ReportSubject::Backfill)?;
    ensure!(
        !args.measuring.store.no_save,
        "backfill needs to store its sessions\nhint: leave out --no-save"
    );
    let mut store = args.measuring.store.open_store()?;
    let mut progress = ProgressDisplay::with_notes(&args.measuring.output);
    let BackfillResult { revisions, line, early } =
        backfill_line(&args, &mut store, &mut progress)?;
    revisions.iter().filter_map(|(_, reason)| reason.as_deref()).for_each(status::print_warning);
    let lines: Vec<BackfillLine> = revisions.into_iter().map(|(line, _)| line).collect();
    args.measuring.output.print_document(&report::report_backfill(&lines, line))?;
    let Some((note, status)) = early else { return Ok(CommandStatus::DONE) };
    status::print_note(&note);
    Ok(status)
}

impl BackfillArgs {
    /// Returns what to measure. The backfill sets the variants itself.
    fn measure_request(&self) -> anyhow::Result<MeasureRequest> {
        ensure!(
            !self.measuring.sampling.steady,
            "--steady analyzes single runs, but points of the history are medians over runs\nhint: 'speedwell warmup' \
             analyzes single runs"
        );
        let plan = PlanRequest::default();
        let mut measuring = self.measuring.measure_request(&self.targets, &self.arguments, plan)?;
        measuring.variants.build = self.built.build.clone();
        Ok(measuring)
    }

    fn session_request(&self) -> SessionRequest {
        let (branch, machine) = (self.branch.clone(), self.machine.clone());
        let origin = OriginArgs { revision: None, branch, machine };
        SessionRequest {
            divides_runs: self.measuring.sampling.divides_runs(),
            ..self.measuring.store.session_request(&origin)
        }
    }
}

/// A revision with its outcome and, if it failed, the reason.
type RevisionOutcome = (BackfillLine, Option<String>);

/// Result of a backfill.
struct BackfillResult {
    /// The revisions considered, oldest first.
    revisions: Vec<RevisionOutcome>,
    /// Number of revisions in the range.
    line: usize,
    /// Note on why there are fewer points than requested, and the exit status; `None` if there are
    /// enough.
    early: Option<(String, CommandStatus)>,
}

/// Measures revisions of the range until enough of them have points.
///
/// # Errors
/// Fails if the range is invalid, nothing can be measured at the newest revision, or the store
/// cannot be written.
fn backfill_line(
    args: &BackfillArgs,
    store: &mut Store,
    listener: &mut EventListener<'_>,
) -> Result<BackfillResult> {
    let (measuring, session) = (args.measure_request()?, args.session_request());
    prepare_to_measure()?;
    let begin = Instant::now();
    let (oldest, newest) = parse_range(&args.range, "A..B", "main~50..main")?;
    let build = args.built.build.build.as_deref();
    revisions::reject_commands(&args.targets, &[oldest, newest], build)?;
    let line = list_line(&args.range, oldest, newest)?;
    let newest = line.last().context("the range contains no revisions")?;
    let plans = plan_revision(args, &measuring, &newest.id, listener)
        .context("cannot measure the newest revision of the range")?;
    let mut run = BackfillRun {
        measured: measured_revisions(&plans.plan, &session, store)?,
        earlier_failures: store.failed_backfills()?,
        newest: plans.plan,
        args,
        measuring,
        session,
        store,
        listener,
    };
    let mut outcomes: Vec<(usize, RevisionOutcome)> = Vec::new();
    let mut stopped = None;
    let mut points = 0;
    for index in coarse_to_fine(line.len()) {
        let is_late = args.budget.is_some_and(|budget| begin.elapsed() > budget);
        if points == args.points || is_late {
            let note = "the time budget is used up; run the same command to continue";
            stopped = Some((note.to_owned(), CommandStatus::NEGATIVE));
            break;
        }
        run.report_progress(&line[index], points)?;
        let Some(outcome) = run.measure_revision(&line[index])? else {
            let note = "interrupted: completed runs are stored; run the same command to continue";
            stopped = Some((note.to_owned(), CommandStatus::INTERRUPTED));
            break;
        };
        let has_point = [BackfillOutcome::Measured, BackfillOutcome::Known];
        points += usize::from(has_point.contains(&outcome.0.outcome));
        outcomes.push((index, outcome));
    }
    clear_interrupt();
    outcomes.sort_by_key(|(index, _)| *index);
    let no_more = || {
        let is_whole = points == line.len();
        let status = if is_whole { CommandStatus::DONE } else { CommandStatus::NEGATIVE };
        (format!("the history has data for {points} of the {} revisions", line.len()), status)
    };
    Ok(BackfillResult {
        line: line.len(),
        early: (points < args.points).then(|| stopped.unwrap_or_else(no_more)),
        revisions: outcomes.into_iter().map(|(_, outcome)| outcome).collect(),
    })
}

/// Lists the revisions of a range along first parents, oldest first.
fn list_line(range: &str, oldest: &str, newest: &str) -> Result<Vec<Revision>> {
    let directory = std::env::current_dir()?;
    let checkout = Checkout::find(&directory)?;
    let commit = |name: &str| {
        revisions::resolve_commit(&checkout, name)
            .with_context(|| format!("in the range '{range}'"))
    };
    let (first, last) = (commit(oldest)?, commit(newest)?);
    let git = GitRepository::for_folder(&directory, LIST_TIMEOUT);
    let (first, _) =
        git.commit_details(&first.id).context("git cannot show the oldest revision")?;
    let later_revisions =
        git.first_parent_line(&last.id, Some(&first.id)).context("git cannot list the commits")?;
    let next_parent = later_revisions.first().map(|next| next.parents.first());
    let is_ancestor = next_parent.map_or(first.id == last.id, |parent| parent == Some(&first.id));
    if !is_ancestor {
        bail!(
            "'{oldest}' is not a first-parent ancestor of '{newest}'\nhint: 'git log --first-parent \
             {newest}' lists the ancestors; put the older revision first"
        );
    }
    Ok([vec![first], later_revisions].concat())
}

/// Returns the indexes of `count` consecutive revisions in measuring order: the newest, the oldest,
/// then repeatedly the middle of the widest gap. Of equally wide gaps, the newest comes first.
/// Every prefix of the sequence covers the range evenly. A later request for more points continues
/// the sequence.
fn coarse_to_fine(count: usize) -> Vec<usize> {
    let Some(last) = count.checked_sub(1) else { return Vec::new() };
    let mut indices = vec![last, 0];
    indices.dedup();
    // Each gap is stored as its width and the index of its newer end, so the heap returns the
    // widest gap first, and of equally wide gaps the newest.
    let mut gaps = BinaryHeap::from([(last, last)]);
    while let Some((width, high)) = gaps.pop() {
        if width < 2 {
            break;
        }
        let upper = width / 2;
        indices.push(high - upper);
        gaps.extend([(upper, high), (width - upper, high - upper)]);
    }
    indices
}

/// Creates the plan for measuring a single revision.
fn plan_revision(
    args: &BackfillArgs,
    measuring: &MeasureRequest,
    revision: &str,
    listener: &mut EventListener<'_>,
) -> Result<PreparedPlan> {
    let mut measuring = measuring.clone();
    measuring.variants.given = vec![Variant::plain("default")];
    measuring.variants.revisions = vec![revision_variant(0, revision, args.built.program.as_ref())];
    let mut plans = PreparedPlan::read(&measuring, listener)?;
    ensure!(!plans.plan.jobs.is_empty(), "there is nothing to measure");
    plans.plan.design.purpose = SessionPurpose::Backfill;
    Ok(plans)
}

/// Returns the IDs of revisions for which a case of the plan has a point from this machine. Skips
/// points that change detection ignores. If the plan counts instructions, considers only points of
/// instruction counts; otherwise, only points of other metrics.
fn measured_revisions(
    plan: &SessionPlan,
    session: &SessionRequest,
    store: &mut Store,
) -> Result<BTreeSet<String>> {
    project::summarize_sessions(store, usize::MAX)?;
    let machine = analysis::identify_machine(
        &session.capture_environment(&[]),
        session.find_origin().as_ref(),
    );
    let cases: BTreeSet<&str> = plan.jobs.iter().map(|job| &*job.label).collect();
    let points = store.revisions_measured_on(&machine.id)?.into_iter();
    let counts_instructions = plan.design.counting.is_some();
    let is_wanted = |case: &str, metric: &str| {
        cases.contains(case) && (metric == Metric::INSTRUCTIONS) == counts_instructions
    };
    let wanted = points.filter(|[case, metric, _]| is_wanted(case, metric));
    Ok(wanted.map(|[_, _, revision]| revision).collect())
}

struct BackfillRun<'a, 'l> {
    measured: BTreeSet<String>,
    /// Earlier failures: revision ID, build command and session.
    earlier_failures: Vec<(String, String, i64)>,
    /// Plan of the newest revision. Revisions that cannot be built are stored with this plan.
    newest: SessionPlan,
    args: &'a BackfillArgs,
    measuring: MeasureRequest,
    session: SessionRequest,
    store: &'a mut Store,
    listener: &'a mut EventListener<'l>,
}

impl BackfillRun<'_, '_> {
    fn report_progress(&mut self, revision: &Revision, points: usize) -> Result<()> {
        let subject = revision.subject.as_deref().unwrap_or_default();
        let sentence = format!(
            "{} of {} points done; next: {} {subject}",
            points,
            self.args.points,
            short_revision(&revision.id)
        );
        self.listener.observe(&SessionEvent::Note(&sentence))
    }

    /// Measures a revision if necessary. Returns `None` if the user interrupted.
    fn measure_revision(&mut self, revision: &Revision) -> Result<Option<RevisionOutcome>> {
        let line = |outcome, session, failures| BackfillLine {
            revision: revision.clone(),
            outcome,
            session,
            failures,
        };
        if self.measured.contains(&revision.id) {
            return Ok(Some((line(BackfillOutcome::Known, None, 0), None)));
        }
        let command = self.build_command();
        let earlier_failure = (self.earlier_failures.iter())
            .find(|(id, build, _)| *id == revision.id && *build == command);
        if let Some((_, _, number)) = earlier_failure {
            return Ok(Some((line(BackfillOutcome::FailedBefore, Some(*number), 0), None)));
        }
        if is_interrupt_requested() {
            return Ok(None);
        }
        let plans = match plan_revision(self.args, &self.measuring, &revision.id, self.listener) {
            Ok(plans) => plans,
            Err(_) if is_interrupt_requested() => return Ok(None),
            Err(error) => {
                let message = format!("{error:#}");
                self.note_failure(revision, &message)?;
                return Ok(Some((line(BackfillOutcome::Failed, None, 0), Some(message))));
            }
        };
        let used_worktree = plans.plan.variants[0].worktree.clone();
        let request = self.session_for(revision);
        let measured = measure_plan(plans, &request, None, self.store, self.listener)?;
        if let Some(used_worktree) = used_worktree {
            worktree::release_worktree(&used_worktree);
        }
        measured.ended?;
        let session = measured.session;
        let number = session.number.unwrap_or_default();
        let measured_line = line(BackfillOutcome::Measured, Some(number), session.failures.len());
        Ok((session.state == SessionState::Complete).then_some((measured_line, None)))
    }

    /// Returns the session options with this revision, not the checkout, as the origin.
    fn session_for(&self, revision: &Revision) -> SessionRequest {
        let of_revision = |origin| OriginRequest { revision: Some(revision.id.clone()), ..origin };
        let origin = self.session.origin.clone().map(of_revision);
        SessionRequest { origin, ..self.session.clone() }
    }

    /// Returns the build command. A revision that failed with this command is not tried again.
    fn build_command(&self) -> String {
        let worktree = self.newest.variants[0].worktree.as_ref();
        let build = worktree.and_then(|worktree| worktree.build.as_ref());
        build.map(|build| build.command.clone()).unwrap_or_default()
    }

    /// Stores a session without runs, to record that a revision could not be measured.
    fn note_failure(&mut self, revision: &Revision, message: &str) -> Result<()> {
        let mut plan = self.newest.clone();
        let variant = &mut plan.variants[0];
        variant.name = short_revision(&revision.id).to_owned();
        plan.design.baseline.clone_from(&variant.name);
        if let Some(worktree) = &mut variant.worktree {
            worktree.revision.clone_from(&revision.id);
            worktree.typed.clone_from(&revision.id);
        }
        let command = self.build_command();
        let replay = format!("git checkout --detach {} && sh -c {}", revision.id, quote(&command));
        let failure = build_failure(&plan, &plan.variants[0].name, message, replay);
        let header = session_header(&plan, Default::default(), &self.session_for(revision));
        let mut recorder = self.store.begin_recording(&header, &serde_json::to_string(&plan)?)?;
        recorder.observe(&SessionEvent::Failed(&failure))?;
        recorder.observe(&SessionEvent::Finished { interrupted: false })?;
        let note = format!("cannot measure {}; skipping it", short_revision(&revision.id));
        self.listener.observe(&SessionEvent::Note(&note))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_are_ordered_from_coarse_to_fine_without_repetition() {
        assert_eq!(coarse_to_fine(9), [8, 0, 4, 6, 2, 7, 5, 3, 1]);
        assert_eq!(coarse_to_fine(0), [0; 0]);
        assert_eq!(coarse_to_fine(1), [0]);
        assert_eq!(coarse_to_fine(2), [1, 0]);
        for count in 1..200 {
            let places = coarse_to_fine(count);
            let mut sorted = places.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..count).collect::<Vec<_>>());
            // In every prefix, no gap is more than twice as wide as another, except for rounding.
            for known in 2..count {
                let mut seen = places[..known].to_vec();
                seen.sort_unstable();
                let gaps = seen.windows(2).map(|pair| pair[1] - pair[0]);
                let (least, most) = (gaps.clone().min().unwrap(), gaps.max().unwrap());
                assert!(most <= 2 * least + 1, "{count} {seen:?}");
            }
        }
    }
}
