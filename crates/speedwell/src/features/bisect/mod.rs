//! `speedwell bisect`: finds the revision that changed a benchmark.
//!
//! This module decides which revisions belong to a range, how a revision becomes a variant, and when
//! to stop. It builds and measures what `analysis::bisect` asks for, and stores each result at once:
//! the stored session holds the state of the search, so a killed search can be resumed. Start at
//! [`run`].

use crate::features::confirm::{self, revision_variant};
use crate::options::{
    MachineArgs, OriginArgs, RevisionMeasuringArgs, RevisionProgramArgs, StoreArgs, hide_unused,
    parse,
};
use crate::progress::ProgressDisplay;
use crate::{CommandStatus, status, stored_session};
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use speedwell_adapters::fingerprint_benchmarks;
use speedwell_adapters::plan::SessionPlan;
use speedwell_analysis::AnalysisFindings;
use speedwell_analysis::bisect::{
    self as analysis, BisectBlock, BisectFindings, BisectObservations, BisectPhase, BisectStep,
    EndsComparison, RUNS_PER_BLOCK,
};
use speedwell_engine::execution::worktree::{self, Checkout};
use speedwell_engine::execution::{ExecuteOptions, NeverSettled, SessionEnd, execute};
use speedwell_engine::{
    EventListener, ExecutionArgs, MeasureRequest, PlanRequest, PreparedPlan, SamplingRequest,
    SessionRequest, check_processors, emit_warning, prepare_counting, revisions, session_header,
    warn_if_busy,
};
use speedwell_machine::environment::{GitRepository, revision_line};
use speedwell_machine::process::{
    clear_interrupt, is_interrupt_requested, prepare_to_measure, resolve_program,
};
use speedwell_model::{
    BisectionRange, FailureCause, LineRevision, Run, RunCount, SamplingOptions, Session,
    SessionDesign, SessionEvent, SessionObserver, SessionPurpose, SessionStep, StepFailure,
    StoppingDesign, Variant, VariantWorktree, as_milliseconds, quote, seed_of_step,
};
use speedwell_report::{self as report, ReportSubject};
use speedwell_store::{SessionRecorder, Store};
use std::path::Path;
use std::time::{Duration, Instant};

/// Find the revision that changed a benchmark
///
/// The revisions GOOD and BAD, the two ends of the range, are compared first. Then revisions between them are built in
/// a worktree and measured together with both ends, in randomised blocks. Noise does not mislead the search: each block
/// updates the probability of every revision, until one reaches 95%. That one is measured again, against the revision
/// before it. Revisions that fail to build or run are skipped. Your checkout is not touched.
///
/// Exit status 1 if no revision is found, for example because the ends do not differ.
#[derive(Debug, Args)]
#[command(mut_args(|arg| hide_unused(arg, "chart")), after_help = "Examples:
  speedwell bisect v1.4..HEAD --build 'make -j4 bench' ./bench -f parse
  speedwell bisect main~20..main speed/parse.js -s n=10000 --build 'npm ci'
  speedwell bisect v1.4..HEAD --program out/node --build './configure && make -j4' speed/parse.js
  speedwell bisect --change 7 --build 'make -j4 bench'
  speedwell bisect --resume @latest")]
pub struct BisectArgs {
    /// Revision without the change, and a later one with it
    #[arg(
        index = 1,
        value_name = "GOOD..BAD",
        required_unless_present_any = ["resume", "change"]
    )]
    range: Option<String>,
    /// Benchmark with a single case; NAME=VALUE sets a parameter
    ///
    /// A file or a program. If it has several cases, select one with --filter and NAME=VALUE.
    #[arg(
        index = 2,
        value_name = "TARGET|NAME=VALUE",
        required_unless_present_any = ["resume", "change"]
    )]
    targets: Vec<String>,
    /// After '--': arguments for every measured program
    #[arg(index = 3, last = true, value_name = "ARG")]
    arguments: Vec<String>,
    /// Take range, case and target from this change
    ///
    /// CHANGE is a number from 'speedwell history changes'.
    #[arg(long, value_name = "CHANGE", conflicts_with_all = ["range", "resume"], help_heading = "Search")]
    change: Option<i64>,
    /// Follow all parents of merges, not only first parents
    ///
    /// The search then follows the longest path from GOOD to BAD.
    #[arg(long, help_heading = "Search")]
    all_parents: bool,
    #[command(flatten)]
    built: RevisionProgramArgs,
    /// Smallest change that matters
    ///
    /// There is no search if the ends differ by less.
    #[arg(long, value_name = "PCT", default_value = "2%", value_parser = parse::percentage_as_fraction, help_heading = "Search")]
    threshold: f64,
    /// Compare changed benchmarks, too: each side runs its own version
    #[arg(long, help_heading = "Search")]
    with_own_benchmarks: bool,
    /// Stop after the first block of runs that completes past this time
    #[arg(long, value_name = "DUR", value_parser = parse::duration, help_heading = "Search")]
    budget: Option<Duration>,
    /// Resume an interrupted session, e.g. @latest
    #[arg(long, value_name = "SESSION", conflicts_with_all = ["range", "seed", "pin"], help_heading = "Search")]
    resume: Option<String>,
    #[command(flatten)]
    measuring: RevisionMeasuringArgs,
    /// Seed for all random choices [default: random; stored and shown]
    #[arg(long, value_name = "N", help_heading = "Execution")]
    seed: Option<u64>,
    #[command(flatten)]
    machine: MachineArgs,
}

/// Searches for the revision and reports the result.
///
/// # Errors
/// Fails if the range is invalid, the targets are not exactly one case, an end cannot be built, or
/// the store cannot be written.
pub fn run(args: BisectArgs) -> Result<CommandStatus> {
    args.measuring.output.check_report(ReportSubject::Bisection)?;
    let mut store = args.measuring.store.open_store()?;
    let mut progress = ProgressDisplay::with_notes(&args.measuring.output);
    let (session, ended) = match &args.resume {
        Some(session) => resume_bisection(&mut store, session, args.budget, &mut progress)?,
        None => {
            let plans = args.plan_bisection(&store, &mut progress)?;
            start_bisection(plans, &args.session_request(), &mut store, &mut progress)?
        }
    };
    let findings =
        analysis::analyze_bisection(&session).context("the session is not a bisection")?;
    let mut document = report::report_bisection(
        &findings,
        &session.failures,
        &args.measuring.output.report_settings(),
    );
    document.append_details(&session, &AnalysisFindings::default());
    args.measuring.output.print_document(&document)?;
    if findings.answer.is_none() && !args.measuring.store.no_save {
        status::print_note(&resume_note(&session, &args.measuring.store));
    }
    Ok(CommandStatus::from_session_end(ended).worse_of(answer_status(&findings)))
}

fn answer_status(findings: &BisectFindings) -> CommandStatus {
    match &findings.answer {
        Some(answer) if answer.is_found() => CommandStatus::DONE,
        Some(answer) if matches!(answer.ends, EndsComparison::Unmeasurable(_)) => {
            CommandStatus::FAILED
        }
        _ => CommandStatus::NEGATIVE,
    }
}

fn resume_note(session: &Session, store: &StoreArgs) -> String {
    format!(
        "completed runs are stored; resume with: speedwell bisect --resume @{}{}",
        session.number.unwrap_or_default(),
        store.database.db_option()
    )
}

impl BisectArgs {
    /// Plans a search: lists the revisions, builds both ends, and selects the case to measure.
    fn plan_bisection(
        &self,
        store: &Store,
        listener: &mut EventListener<'_>,
    ) -> Result<PreparedPlan> {
        let mut measuring = self.measure_request()?;
        let mut bisection = BisectionRange {
            range: self.range.clone().unwrap_or_default(),
            line: Vec::new(),
            metric: self.measuring.selection.metric.names.first().cloned(),
            with_own_benchmarks: self.with_own_benchmarks,
        };
        let mut suspect = None;
        if let Some(number) = self.change {
            let (change, request) = confirm::prepare_change(store, number, &measuring)?;
            bisection.metric = bisection.metric.or(Some(change.series.metric.name.clone()));
            bisection.range = format!("{}..{}", change.change.before, change.change.after);
            (measuring, suspect) = (request, Some(change));
        }
        prepare_to_measure()?;
        let ([good, bad], line) = read_line(&bisection.range, self.all_parents)?;
        bisection.line = line;
        measuring.plan.purpose = SessionPurpose::Bisect;
        measuring.variants.build = self.built.build.clone();
        measuring.variants.given = vec![Variant::plain("good"), Variant::plain("bad")];
        let program = self.built.program.as_ref();
        measuring.variants.revisions =
            vec![revision_variant(0, &good, program), revision_variant(1, &bad, program)];
        let mut plans = PreparedPlan::read(&measuring, listener)?;
        confirm::keep_cases(suspect.as_slice(), &mut plans)?;
        check_case(&plans.plan)?;
        plans.plan.design.bisection = Some(bisection);
        plans.plan.is_search = true;
        Ok(plans)
    }

    /// Returns what to measure, without the variants.
    fn measure_request(&self) -> Result<MeasureRequest> {
        let SamplingRequest { runs, precision, steady, .. } = self.measuring.sampling;
        ensure!(
            runs.is_none() && precision.is_none() && !steady,
            "a bisection determines the number of runs itself\nhint: leave out --runs, --precision and --steady"
        );
        ensure!(
            self.measuring.selection.metric.names.len() < 2,
            "a bisection uses a single metric\nhint: give --metric once"
        );
        let plan = PlanRequest {
            execution: ExecutionArgs {
                seed: self.seed,
                budget: self.budget,
                ..ExecutionArgs::default()
            },
            threshold: Some(self.threshold),
            ..PlanRequest::default()
        };
        self.measuring.measure_request(&self.targets, &self.arguments, plan)
    }

    fn session_request(&self) -> SessionRequest {
        let origin = OriginArgs { machine: self.machine.clone(), ..OriginArgs::default() };
        SessionRequest {
            origin: None,
            divides_runs: self.measuring.sampling.divides_runs(),
            ..self.measuring.store.session_request(&origin)
        }
    }
}

/// Timeout for git to list the revisions of a range.
pub const LIST_TIMEOUT: Duration = Duration::from_secs(120);

/// Maximum number of worktrees. Once it is reached, all worktrees but those of the two ends are
/// released.
const MAX_READY: usize = 5;

/// Splits a range of revisions into its ends. An empty second end stands for HEAD.
///
/// # Errors
/// Fails if the text is not a range; the message shows its `form` and an `example`.
pub fn parse_range<'a>(range: &'a str, form: &str, example: &str) -> Result<(&'a str, &'a str)> {
    let (first, last) = range
        .split_once("..")
        .filter(|(first, last)| !first.is_empty() && !last.starts_with('.'))
        .with_context(|| {
            format!(
                "cannot parse range '{range}': expected {form}\nhint: for example v1.4..HEAD or \
                 {example}"
            )
        })?;
    Ok((first, if last.is_empty() { "HEAD" } else { last }))
}

/// Parses the range. Returns its ends as typed, and all revisions from the good end to the bad end.
///
/// # Errors
/// Fails if the range is invalid.
fn read_line(range: &str, along_all_parents: bool) -> Result<([String; 2], Vec<LineRevision>)> {
    let (good, bad) = parse_range(range, "GOOD..BAD", "main~20..main")?;
    let error_context = || format!("in the range '{range}'");
    let directory = std::env::current_dir()?;
    let checkout = Checkout::find(&directory).with_context(error_context)?;
    let ids = [checkout.resolve_commit(good), checkout.resolve_commit(bad)];
    let [good_id, bad_id] =
        ids.map(|commit| commit.map(|commit| commit.id).with_context(error_context));
    let (good_id, bad_id) = (good_id?, bad_id?);
    ensure!(good_id != bad_id, "'{good}' and '{bad}' are the same revision: nothing to bisect");
    let git = GitRepository::for_folder(&directory, LIST_TIMEOUT);
    if let Some(line) = revision_line(&git, &good_id, &bad_id, along_all_parents)? {
        return Ok(([good.to_owned(), bad.to_owned()], line));
    }
    match git.merge_base(&good_id, &bad_id) {
        Some(base) if base == bad_id => bail!(
            "'{bad}' is an ancestor of '{good}'\nhint: swap the ends: {bad}..{good}; the good end \
             comes first, even if the change is an improvement"
        ),
        Some(base) if base == good_id => bail!(
            "'{good}' is not a first-parent ancestor of '{bad}': it was merged in\nhint: add \
             --all-parents"
        ),
        Some(base) => bail!(
            "'{good}' and '{bad}' are on different branches\nhint: they fork at {base}; use the \
             range {}..{bad}",
            &base[..base.len().min(10)]
        ),
        None => bail!(
            "'{good}' and '{bad}' have no common commit in this clone\nhint: run 'git fetch \
             --unshallow' if the clone is shallow"
        ),
    }
}

/// Checks that the plan has exactly one case.
///
/// # Errors
/// Fails with the names of the cases.
fn check_case(plan: &SessionPlan) -> Result<()> {
    const SHOWN: usize = 5;
    if plan.jobs.len() == 1 {
        return Ok(());
    }
    let mut names: Vec<&str> = plan.jobs.iter().map(|job| &*job.label).collect();
    let total = names.len();
    ensure!(total > 0, "no case to bisect");
    names.truncate(SHOWN);
    let ellipsis = if total > SHOWN { ", ..." } else { "" };
    bail!(
        "a bisection measures a single case, but {total} are selected: {}{ellipsis}\nhint: --filter selects a \
         benchmark, --set selects a parameter value",
        names.join(", ")
    )
}

/// Runs a search from its beginning.
///
/// # Errors
/// Fails if a requested processor is not usable, instructions cannot be counted, or the store
/// cannot be written.
fn start_bisection(
    plans: PreparedPlan,
    request: &SessionRequest,
    store: &mut Store,
    listener: &mut EventListener<'_>,
) -> Result<(Session, SessionEnd)> {
    for sentence in &plans.suite.warnings {
        emit_warning(listener, sentence)?;
    }
    check_processors(&plans.plan)?;
    let PreparedPlan { mut plan, suite, .. } = plans;
    match plan.design.counting {
        Some(_) => prepare_counting(&mut plan)?,
        None => warn_if_busy(listener)?,
    }
    let header = session_header(&plan, suite, request);
    let recorder = store.begin_recording(&header, &serde_json::to_string(&plan)?)?;
    let number = recorder.number();
    let ended = run_search(plan, header, recorder, listener)?;
    Ok((store.load_session(number)?, ended))
}

/// Resumes a search that was interrupted or killed. `budget` replaces the search's own time limit.
///
/// # Errors
/// Fails if there is no such session, or the session is not a bisection or complete, if another
/// process is measuring it, or if the store cannot be written.
fn resume_bisection(
    store: &mut Store,
    session: &str,
    budget: Option<Duration>,
    listener: &mut EventListener<'_>,
) -> Result<(Session, SessionEnd)> {
    prepare_to_measure()?;
    let number = stored_session::find_session(store, session)?.number;
    let text = store.session_plan(number)?.unwrap_or_default();
    let mut plan = serde_json::from_str::<SessionPlan>(&text)
        .ok()
        .filter(|plan| plan.design.bisection.is_some())
        .with_context(|| {
            format!(
                "session @{number} is not a bisection\nhint: 'speedwell run --resume @{number}' \
                 resumes other sessions"
            )
        })?;
    plan.sampling.budget_ms = budget.map(as_milliseconds).or(plan.sampling.budget_ms);
    let mut session = store.load_session(number)?;
    let finished = store.finished_slots(number)?;
    session.runs.retain(|run| finished.contains(&run.slot));
    session.failures.retain(|failure| failure.slot.is_none_or(|slot| finished.contains(&slot)));
    let ended = run_search(plan, session, store.resume_recording(number)?, listener)?;
    Ok((store.load_session(number)?, ended))
}

fn run_search(
    plan: SessionPlan,
    session: Session,
    recorder: SessionRecorder<'_>,
    listener: &mut EventListener<'_>,
) -> Result<SessionEnd> {
    let mut search = BisectRun {
        begin: Instant::now(),
        plan,
        session,
        recorder,
        listener,
        ready: Vec::new(),
        last_note: String::new(),
    };
    let result = search.run_steps();
    let has_answer = matches!(result, Ok((SessionEnd::Complete, true)));
    let finished = search.recorder.observe(&SessionEvent::Finished { interrupted: !has_answer });
    clear_interrupt();
    let (session_end, _) = result?;
    finished?;
    Ok(session_end)
}

struct BisectRun<'a, 'l> {
    begin: Instant,
    plan: SessionPlan,
    /// The session, kept equal to its record in the store.
    session: Session,
    recorder: SessionRecorder<'a>,
    listener: &'a mut EventListener<'l>,
    /// Built revisions: the index in [`BisectionRange::line`] and the variant.
    ready: Vec<(usize, Variant)>,
    last_note: String,
}

impl BisectRun<'_, '_> {
    /// Executes steps until the search ends. Returns how it ended and whether it found an answer.
    fn run_steps(&mut self) -> Result<(SessionEnd, bool)> {
        let bisection = self.plan.design.bisection.clone().unwrap_or_default();
        let budget = self.plan.sampling.budget_ms.map(Duration::from_millis);
        loop {
            if is_interrupt_requested() {
                return Ok((SessionEnd::Interrupted, false));
            }
            let mut state = BisectObservations::from_session(&self.session, &bisection);
            state.built = self.ready.iter().map(|(index, _)| *index).collect();
            let step = analysis::next_step(&state);
            let is_late = budget.is_some_and(|budget| self.begin.elapsed() > budget);
            match step {
                BisectStep::Answer(_) => return Ok((SessionEnd::Complete, true)),
                _ if is_late => {
                    self.note("the time budget is used up (--budget)")?;
                    return Ok((SessionEnd::Complete, false));
                }
                BisectStep::Build(index) => self.build_revision(index, &bisection)?,
                BisectStep::Measure(block) => {
                    self.report_block(&block, &state, &bisection)?;
                    if self.measure_block(&block)? != SessionEnd::Complete {
                        return Ok((SessionEnd::Interrupted, false));
                    }
                }
            }
        }
    }

    fn note(&mut self, text: &str) -> Result<()> {
        self.listener.observe(&SessionEvent::Note(text))
    }

    /// Reports the purpose of the next block.
    fn report_block(
        &mut self,
        block: &BisectBlock,
        state: &BisectObservations,
        bisection: &BisectionRange,
    ) -> Result<()> {
        let name = |index: usize| bisection.line[index].short();
        let note = match (block.phase, block.revisions.as_slice()) {
            (BisectPhase::Search, &[_, middle, _]) => {
                let remaining = analysis::bisect_state(state).set.len();
                let total = bisection.line.len() - 1;
                format!("measuring {}: {remaining} of {total} revisions left", name(middle))
            }
            (BisectPhase::Confirm, &[before, after]) => {
                format!("confirming {} against {}", name(after), name(before))
            }
            _ => format!("comparing both ends of {}", bisection.range),
        };
        if note != self.last_note {
            self.note(&note)?;
            self.last_note = note;
        }
        Ok(())
    }

    /// Builds a revision, or records that it cannot be built.
    fn build_revision(&mut self, index: usize, bisection: &BisectionRange) -> Result<()> {
        let last = bisection.line.len() - 1;
        if self.ready.len() >= MAX_READY {
            let is_end = |index: usize| index == 0 || index == last;
            let others = self.ready.iter().filter(|(index, _)| !is_end(*index));
            let worktrees = others.filter_map(|(_, variant)| variant.worktree.as_ref());
            worktrees.for_each(worktree::release_worktree);
            self.ready.retain(|(index, _)| is_end(*index));
        }
        let revision = &bisection.line[index];
        let is_of_revision = |variant: &&Variant| {
            variant.worktree.as_ref().is_some_and(|worktree| worktree.revision == revision.id)
        };
        let existing = self.session.variants.iter().find(is_of_revision).cloned();
        let built = match existing {
            Some(variant) => self.ensure_ready(&variant).map(|()| variant),
            None => self.create_variant(revision),
        };
        match built {
            Ok(mut variant) => {
                let sources = self.plan.jobs.iter().map(|job| &job.source);
                revisions::place_benchmark_files(std::slice::from_ref(&variant), sources)?;
                variant.work = fingerprint_benchmarks(&self.plan.jobs, &variant);
                self.add_variant(&variant)?;
                self.ready.push((index, variant));
                Ok(())
            }
            Err(_) if is_interrupt_requested() => Ok(()),
            Err(error) => self.note_failure(revision, &error),
        }
    }

    fn ensure_ready(&mut self, variant: &Variant) -> Result<()> {
        let Some(worktree) = &variant.worktree else { return Ok(()) };
        worktree::prepare_worktree(worktree, &mut |sentence| {
            self.listener.observe(&SessionEvent::Note(sentence))
        })
    }

    /// Creates the variant of a revision: a copy of the good end's variant in the revision's
    /// worktree.
    fn create_variant(&mut self, revision: &LineRevision) -> Result<Variant> {
        let good = &self.plan.variants[0];
        let good_worktree = good.worktree.as_ref().context("the good end is not a revision")?;
        let checkout = Checkout::find(&good_worktree.checkout)?;
        let commit = checkout.resolve_commit(&revision.id)?;
        let worktree =
            checkout.describe_worktree(revision.short(), &commit, good_worktree.build.as_ref());
        let variant = Variant {
            name: revision.short().to_owned(),
            ..revisions::move_variant(good, &worktree)
        };
        self.ensure_ready(&variant)?;
        if let Some(program) = &variant.program {
            resolve_program(program)?;
        }
        Ok(variant)
    }

    fn add_variant(&mut self, variant: &Variant) -> Result<()> {
        if self.session.variants.contains(variant) {
            return Ok(());
        }
        self.session.variants.push(variant.clone());
        self.recorder.set_variants(&self.session.variants)
    }

    /// Records that a revision could not be built, with a command that repeats the attempt.
    fn note_failure(&mut self, revision: &LineRevision, error: &anyhow::Error) -> Result<()> {
        let worktree =
            self.plan.variants[0].worktree.clone().context("the good end is not a revision")?;
        let folder = format!("/tmp/{}", revision.short());
        let add_worktree = format!("git worktree add --detach {folder} {}", revision.id);
        let replay = match &worktree.build {
            Some(build) => {
                let build_directory = Path::new(&folder).join(&build.directory);
                let build_directory = quote(&build_directory.to_string_lossy());
                format!("{add_worktree} && cd {build_directory} && {}", build.command)
            }
            None => add_worktree,
        };
        let variant = Variant {
            worktree: Some(VariantWorktree {
                revision: revision.id.clone(),
                typed: revision.short().to_owned(),
                ..worktree
            }),
            ..Variant::plain(revision.short())
        };
        self.add_variant(&variant)?;
        let failure = build_failure(&self.plan, &variant.name, &format!("{error:#}"), replay);
        self.note(&format!("cannot build {}; skipping it", revision.short()))?;
        self.recorder.observe(&SessionEvent::Failed(&failure))?;
        self.session.failures.push(failure);
        Ok(())
    }

    /// Measures the missing runs of a block.
    fn measure_block(&mut self, block: &BisectBlock) -> Result<SessionEnd> {
        let variant = |index: &usize| {
            let ready = self.ready.iter().find(|(ready_index, _)| ready_index == index);
            let variant = ready.map(|(_, variant)| variant.clone());
            variant.context("a revision is measured before it is built")
        };
        let variants = block.revisions.iter().map(variant).collect::<Result<Vec<Variant>>>()?;
        let plan = SessionPlan {
            design: SessionDesign {
                baseline: variants[0].name.clone(),
                seed: seed_of_step(self.plan.design.seed, block.number),
                stopping: StoppingDesign::Fixed { runs: RUNS_PER_BLOCK },
                runs_per_block: RUNS_PER_BLOCK,
                ..self.plan.design.clone()
            },
            sampling: SamplingOptions {
                runs: RunCount::Fixed(RUNS_PER_BLOCK),
                ..self.plan.sampling.clone()
            },
            variants,
            ..self.plan.clone()
        };
        let first = block.first_slot;
        let block_slots = first..first + block.run_count();
        let runs = self.session.runs.iter().map(|run| run.slot);
        let failures = self.session.failures.iter().filter_map(|failure| failure.slot);
        let completed_slots = runs.chain(failures).filter(|slot| block_slots.contains(slot));
        let options = ExecuteOptions {
            completed_slots: completed_slots.map(|slot| slot - first).collect(),
            ..ExecuteOptions::default()
        };
        let mut block_recorder =
            BlockRecorder { block, session: &mut self.session, recorder: &mut self.recorder };
        execute(&plan, options, &mut NeverSettled, &mut [&mut block_recorder, self.listener])
    }
}

/// Builds the failure for a revision that could not be built. `replay` is a command that repeats
/// the attempt.
pub fn build_failure(
    plan: &SessionPlan,
    variant: &str,
    message: &str,
    replay: String,
) -> StepFailure {
    let (reason, output) = message.split_once('\n').unwrap_or((message, ""));
    StepFailure {
        step: SessionStep::Build,
        benchmark: plan.jobs[0].source.name.clone(),
        case: None,
        variant: Some(variant.to_owned()),
        slot: None,
        cause: FailureCause::Invalid { reason: reason.to_owned() },
        stderr_tail: output.to_owned(),
        replay,
    }
}

/// Records the events of a block in the session. Translates the slot numbers of the block
/// (positions of its runs) into slot numbers of the session.
struct BlockRecorder<'a, 'r> {
    block: &'a BisectBlock,
    session: &'a mut Session,
    recorder: &'a mut SessionRecorder<'r>,
}

impl SessionObserver for BlockRecorder<'_, '_> {
    fn observe(&mut self, event: &SessionEvent<'_>) -> Result<()> {
        let session_slot = |slot: u32| slot + self.block.first_slot;
        match event {
            SessionEvent::Declared(metric) => {
                if self.session.metric(&metric.name).is_none() {
                    self.session.metrics.push((*metric).clone());
                }
                self.recorder.observe(event)
            }
            SessionEvent::RunFinished(run) => {
                let run = Run {
                    slot: session_slot(run.slot),
                    block: self.block.number,
                    ..(*run).clone()
                };
                self.recorder.observe(&SessionEvent::RunFinished(&run))?;
                self.session.runs.push(run);
                Ok(())
            }
            SessionEvent::Failed(failure) => {
                let failure =
                    StepFailure { slot: failure.slot.map(session_slot), ..(*failure).clone() };
                self.recorder.observe(&SessionEvent::Failed(&failure))?;
                self.session.failures.push(failure);
                Ok(())
            }
            SessionEvent::SlotsDone(slots) => {
                let slots: Vec<u32> = slots.iter().map(|slot| session_slot(*slot)).collect();
                self.recorder.observe(&SessionEvent::SlotsDone(&slots))
            }
            _ => Ok(()),
        }
    }
}
