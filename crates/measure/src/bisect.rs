//! Bisects a line of revisions: builds and measures what `analysis::bisect` asks for, storing
//! results as it goes.
//!
//! Decides what a range of revisions is, how a revision becomes a variant, and when to stop.
//! Everything else follows from the store, so a search that was killed can be resumed. Start at
//! [`plans`], then [`search`].

use super::{Listener, MeasureRequest, Plans, RevisionRequest, SessionRequest};
use crate::confirm::{Suspect, keep_cases};
use crate::session::check_processors;
use crate::{header, instructions, reference, revisions, warn, warn_if_busy};
use anyhow::{Context, Result, anyhow, bail, ensure};
use speedwell_analysis::bisect::{self, Block, Phase, RUNS_PER_BLOCK, State, Step};
use speedwell_environment::{Git, line};
use speedwell_harness::fingerprints;
use speedwell_harness::plan::Plan;
use speedwell_model::{
    Bisection, Cause, Design, Event, Failure, LineRevision, Observer, Purpose, Run, Runs, Sampling,
    Session, Step as FailedStep, Stopping, Variant, Worktree, milliseconds, quote, seed_of_step,
};
use speedwell_process::{adopt_orphans, forget_interrupt, interrupted, on_interrupt, resolve};
use speedwell_results::store::{Recorder, Store};
use speedwell_runner::worktree::{self, Checkout};
use speedwell_runner::{self as runner, Ended, Judge, Orders};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Timeout for git to list a line.
const LISTING: Duration = Duration::from_secs(120);

/// Maximum number of worktrees kept at a time. Beyond it, all but the two ends are released, which
/// makes room for others.
const READY: usize = 5;

/// Options for a bisection.
#[derive(Debug, Clone, Default)]
pub struct BisectRequest {
    /// `GOOD..BAD`.
    pub range: String,
    /// Whether the line follows all parents instead of only the first ones.
    pub along_all_parents: bool,
    /// Program to build from each revision, relative to the current folder.
    pub program: Option<PathBuf>,
    /// The metric to follow; by default the first one reported.
    pub metric: Option<String>,
    /// Whether to confirm a change even if the benchmark itself changed, too.
    pub with_own_benchmarks: bool,
    /// What to measure, without variants.
    pub measuring: MeasureRequest,
    /// The stored change whose case is followed, if any.
    pub suspect: Option<Suspect>,
}

/// Plans a search: its line, both ends built, and the single case to measure.
///
/// # Errors
/// Fails if the range is invalid, an end cannot be built, or the targets are not exactly one case.
pub fn plans(request: &BisectRequest, listener: &mut Listener<'_>) -> Result<Plans> {
    adopt_orphans();
    on_interrupt()?;
    let (ends, line) = read_line(request)?;
    let mut measuring = request.measuring.clone();
    measuring.plan.purpose = Purpose::Bisect;
    measuring.variants.given = vec![Variant::plain("good"), Variant::plain("bad")];
    measuring.variants.revisions = (ends.into_iter().enumerate())
        .map(|(variant, typed)| RevisionRequest {
            variant,
            typed,
            program: request.program.clone(),
            names_variant: true,
        })
        .collect();
    let mut plans = Plans::read(&measuring, listener)?;
    if let Some(suspect) = &request.suspect {
        keep_cases(std::slice::from_ref(suspect), &mut plans)?;
    }
    let plan = &mut plans.plan;
    check_case(plan)?;
    plan.design.bisection = Some(Bisection {
        range: request.range.clone(),
        line,
        metric: request.metric.clone(),
        with_own_benchmarks: request.with_own_benchmarks,
    });
    plan.is_search = true;
    Ok(plans)
}

/// Loads the plan of a search that was interrupted or killed.
///
/// # Errors
/// Fails if there is no such session or it is not a bisection.
pub fn resumed(store: &Store, session: &str, budget: Option<Duration>) -> Result<(i64, Plan)> {
    adopt_orphans();
    on_interrupt()?;
    let number = reference::find(store, session)?.number;
    let text = store.plan(number)?.unwrap_or_default();
    let plan: Option<Plan> = serde_json::from_str(&text).ok();
    let mut plan = plan
        .filter(|plan| plan.design.bisection.is_some())
        .with_context(|| {
            format!(
                "session @{number} is no bisection\nhint: 'speedwell run --resume @{number}' resumes other sessions"
            )
        })?;
    plan.sampling.budget_ms = budget.map(milliseconds).or(plan.sampling.budget_ms);
    Ok((number, plan))
}

/// Parses the range into both ends as typed and the revisions between them.
fn read_line(request: &BisectRequest) -> Result<([String; 2], Vec<LineRevision>)> {
    let typed = &request.range;
    let (good, bad) = typed
        .split_once("..")
        .filter(|(good, bad)| !good.is_empty() && !bad.starts_with('.'))
        .with_context(|| {
            format!("'{typed}' is not of the form GOOD..BAD\nhint: v1.4..HEAD, main~20..main")
        })?;
    let bad = if bad.is_empty() { "HEAD" } else { bad };
    let in_range = || format!("in the range '{typed}'");
    let here = std::env::current_dir()?;
    let checkout = Checkout::find(&here).with_context(in_range)?;
    let ids = [checkout.commit(good), checkout.commit(bad)];
    let [good_id, bad_id] = ids.map(|found| found.map(|commit| commit.id).with_context(in_range));
    let (good_id, bad_id) = (good_id?, bad_id?);
    ensure!(
        good_id != bad_id,
        "'{good}' and '{bad}' are the same revision: there is nothing between them"
    );
    let git = Git::at(&here, LISTING);
    if let Some(line) = line(&git, &good_id, &bad_id, request.along_all_parents)? {
        return Ok(([good.to_owned(), bad.to_owned()], line));
    }
    match git.merge_base(&good_id, &bad_id) {
        Some(base) if base == bad_id => bail!(
            "'{bad}' comes before '{good}'\nhint: the other way round: {bad}..{good}; the good end comes first, whether \
             the change is a loss or a gain"
        ),
        Some(base) if base == good_id => bail!(
            "'{good}' is not on the line of first parents of '{bad}': it came in by a merge\nhint: --all-parents"
        ),
        Some(base) => bail!(
            "'{good}' and '{bad}' are on different lines\nhint: they part at {base}; {}..{bad} is one line",
            &base[..base.len().min(10)]
        ),
        None => bail!(
            "'{good}' and '{bad}' have no commit in common here\nhint: git fetch --unshallow, if the history was cut off"
        ),
    }
}

/// Checks that the plan has exactly one case.
fn check_case(plan: &Plan) -> Result<()> {
    const SHOWN: usize = 5;
    if plan.jobs.len() == 1 {
        return Ok(());
    }
    let mut names: Vec<&str> = plan.jobs.iter().map(|job| &*job.label).collect();
    let all = names.len();
    ensure!(all > 0, "there is no case to follow");
    names.truncate(SHOWN);
    let more = if all > SHOWN { ", ..." } else { "" };
    bail!(
        "a bisection follows one case, and these are {all}: {}{more}\nhint: --filter picks a benchmark, --set a value",
        names.join(", ")
    )
}

/// Searches from the beginning.
///
/// # Errors
/// Fails if the store cannot be written.
pub fn search(
    plans: Plans,
    request: &SessionRequest,
    store: &mut Store,
    listener: &mut Listener<'_>,
) -> Result<(Session, Ended)> {
    for sentence in &plans.suite.warnings {
        warn(listener, sentence)?;
    }
    check_processors(&plans.plan)?;
    let Plans {
        mut plan, suite, ..
    } = plans;
    match plan.design.counting {
        Some(_) => instructions::prepare(&mut plan)?,
        None => warn_if_busy(listener)?,
    }
    let header = header(&plan, suite, request);
    let recorder = store.begin(&header, &serde_json::to_string(&plan)?)?;
    let number = recorder.number();
    let ended = carry_out(plan, header, recorder, listener)?;
    Ok((store.session(number)?, ended))
}

/// Resumes a search.
///
/// # Errors
/// Fails if the session is complete or being measured, or the store cannot be written.
pub fn resume(
    (number, plan): (i64, Plan),
    store: &mut Store,
    listener: &mut Listener<'_>,
) -> Result<(Session, Ended)> {
    let mut session = store.session(number)?;
    let done = store.finished_slots(number)?;
    session.runs.retain(|run| done.contains(&run.slot));
    session
        .failures
        .retain(|failure| failure.slot.is_none_or(|slot| done.contains(&slot)));
    let recorder = store.resume(number)?;
    let ended = carry_out(plan, session, recorder, listener)?;
    Ok((store.session(number)?, ended))
}

fn carry_out(
    plan: Plan,
    session: Session,
    recorder: Recorder<'_>,
    listener: &mut Listener<'_>,
) -> Result<Ended> {
    let mut search = Search {
        begin: Instant::now(),
        plan,
        session,
        recorder,
        listener,
        ready: Vec::new(),
        said: String::new(),
    };
    let ended = search.go_on();
    let is_over = matches!(ended, Ok((Ended::Complete, true)));
    let finished = search.recorder.observe(&Event::Finished {
        interrupted: !is_over,
    });
    forget_interrupt();
    let ended = ended?.0;
    finished?;
    Ok(ended)
}

struct Search<'a, 'l> {
    begin: Instant,
    plan: Plan,
    /// The session as stored.
    session: Session,
    recorder: Recorder<'a>,
    listener: &'a mut Listener<'l>,
    /// Revisions that are ready to be measured, as index on the line and variant.
    ready: Vec<(usize, Variant)>,
    said: String,
}

/// A rule that never ends a block early.
struct Whole;

impl Judge for Whole {
    fn decided(&mut self, cases: &[&[Run]]) -> Vec<bool> {
        vec![false; cases.len()]
    }
}

impl Search<'_, '_> {
    /// Executes steps until the end; returns how it ended and whether there is an answer.
    fn go_on(&mut self) -> Result<(Ended, bool)> {
        let bisection = self.plan.design.bisection.clone().unwrap_or_default();
        let budget = self.plan.sampling.budget_ms.map(Duration::from_millis);
        loop {
            if interrupted() {
                return Ok((Ended::Interrupted, false));
            }
            let mut state = State::of(&self.session, &bisection);
            state.built = self.ready.iter().map(|(place, _)| *place).collect();
            let step = bisect::next(&state);
            let is_late = budget.is_some_and(|budget| self.begin.elapsed() > budget);
            match step {
                Step::Answer(_) => return Ok((Ended::Complete, true)),
                _ if is_late => {
                    let note = "the time of --budget is over";
                    self.listener.observe(&Event::Note(note))?;
                    return Ok((Ended::Complete, false));
                }
                Step::Build(place) => self.build(place, &bisection)?,
                Step::Measure(block) => {
                    self.say(&block, &state, &bisection)?;
                    if self.measure(&block)? != Ended::Complete {
                        return Ok((Ended::Interrupted, false));
                    }
                }
            }
        }
    }

    /// Reports the purpose of the next block.
    fn say(&mut self, block: &Block, state: &State, bisection: &Bisection) -> Result<()> {
        let name = |place: usize| bisection.line[place].short();
        let doing = match (block.phase, block.revisions.as_slice()) {
            (Phase::Search, &[_, middle, _]) => {
                let left = bisect::standing(state).set.len();
                let all = bisection.line.len() - 1;
                format!("measuring {}: {left} of {all} revisions left", name(middle))
            }
            (Phase::Confirm, &[before, after]) => {
                format!("confirming {} against {}", name(after), name(before))
            }
            _ => format!("comparing both ends of {}", bisection.range),
        };
        if doing != self.said {
            self.listener.observe(&Event::Note(&doing))?;
            self.said = doing;
        }
        Ok(())
    }

    /// Builds a revision, or records that it cannot be built.
    fn build(&mut self, place: usize, bisection: &Bisection) -> Result<()> {
        let last = bisection.line.len() - 1;
        if self.ready.len() >= READY {
            let (kept, others) = std::mem::take(&mut self.ready)
                .into_iter()
                .partition(|(own, _)| *own == 0 || *own == last);
            self.ready = kept;
            let worktrees = others
                .iter()
                .filter_map(|(_, own): &(usize, Variant)| own.worktree.as_ref());
            worktrees.for_each(worktree::release);
        }
        let wanted = &bisection.line[place];
        let is_wanted = |own: &&Variant| {
            own.worktree
                .as_ref()
                .is_some_and(|worktree| worktree.revision == wanted.id)
        };
        let known = self.session.variants.iter().find(is_wanted).cloned();
        let built = match known {
            Some(variant) => self.ready_again(&variant).map(|()| variant),
            None => self.settled(wanted),
        };
        match built {
            Ok(mut variant) => {
                let sources = self.plan.jobs.iter().map(|job| &job.source);
                revisions::place(std::slice::from_ref(&variant), sources)?;
                variant.work = fingerprints(&self.plan.jobs, &variant);
                self.add(&variant)?;
                self.ready.push((place, variant));
                Ok(())
            }
            Err(_) if interrupted() => Ok(()),
            Err(error) => self.note_failure(wanted, &error),
        }
    }

    fn ready_again(&mut self, variant: &Variant) -> Result<()> {
        let Some(own) = &variant.worktree else {
            return Ok(());
        };
        worktree::ready(own, &mut |sentence| {
            self.listener.observe(&Event::Note(sentence))
        })
    }

    /// Creates the variant of a revision that has not been built in this search, modeled on the
    /// good end.
    fn settled(&mut self, wanted: &LineRevision) -> Result<Variant> {
        let good = &self.plan.variants[0];
        let own = good
            .worktree
            .as_ref()
            .context("the good end is a revision")?;
        let checkout = Checkout::find(&own.checkout)?;
        let commit = checkout.commit(&wanted.id)?;
        let other = checkout.worktree(wanted.short(), &commit, own.build.as_ref());
        let variant = Variant {
            name: wanted.short().to_owned(),
            ..revisions::moved(good, &other)
        };
        self.ready_again(&variant)?;
        if let Some(program) = &variant.program {
            resolve(program)?;
        }
        Ok(variant)
    }

    fn add(&mut self, variant: &Variant) -> Result<()> {
        if self.session.variants.contains(variant) {
            return Ok(());
        }
        self.session.variants.push(variant.clone());
        self.recorder.set_variants(&self.session.variants)
    }

    /// Records that a revision could not be built, with a command that repeats the attempt.
    fn note_failure(&mut self, wanted: &LineRevision, error: &anyhow::Error) -> Result<()> {
        let said = format!("{error:#}");
        let (reason, output) = said.split_once('\n').unwrap_or((&said, ""));
        let own = self.plan.variants[0].worktree.clone();
        let own = own.context("the good end is a revision")?;
        let folder = format!("/tmp/{}", wanted.short());
        let add = format!("git worktree add --detach {folder} {}", wanted.id);
        let replay = match &own.build {
            Some(build) => {
                let inside = std::path::Path::new(&folder).join(&build.directory);
                let inside = quote(&inside.to_string_lossy());
                format!("{add} && cd {inside} && {}", build.command)
            }
            None => add,
        };
        let variant = Variant {
            worktree: Some(Worktree {
                revision: wanted.id.clone(),
                typed: wanted.short().to_owned(),
                ..own
            }),
            ..Variant::plain(wanted.short())
        };
        self.add(&variant)?;
        let failure = Failure {
            step: FailedStep::Build,
            benchmark: self.plan.jobs[0].source.name.clone(),
            case: None,
            variant: Some(variant.name),
            slot: None,
            cause: Cause::Invalid {
                reason: reason.to_owned(),
            },
            stderr_tail: output.to_owned(),
            replay,
        };
        let note = format!("{} cannot be built: passed over", wanted.short());
        self.listener.observe(&Event::Note(&note))?;
        self.recorder.observe(&Event::Failed(&failure))?;
        self.session.failures.push(failure);
        Ok(())
    }

    /// Measures the rest of a block.
    fn measure(&mut self, block: &Block) -> Result<Ended> {
        let variant = |place: &usize| {
            let ready = self.ready.iter().find(|(own, _)| own == place);
            ready.map(|(_, variant)| variant.clone())
        };
        let variants: Option<Vec<Variant>> = block.revisions.iter().map(variant).collect();
        let variants =
            variants.ok_or_else(|| anyhow!("a revision is measured before it is built"))?;
        let plan = Plan {
            design: Design {
                baseline: variants[0].name.clone(),
                seed: seed_of_step(self.plan.design.seed, block.number),
                stopping: Stopping::Fixed {
                    runs: RUNS_PER_BLOCK,
                },
                runs_per_block: RUNS_PER_BLOCK,
                ..self.plan.design.clone()
            },
            sampling: Sampling {
                runs: Runs::Fixed(RUNS_PER_BLOCK),
                ..self.plan.sampling.clone()
            },
            variants,
            ..self.plan.clone()
        };
        let first = block.first_slot;
        let own = first..first + block.runs();
        let runs = self.session.runs.iter().map(|run| run.slot);
        let failures = self
            .session
            .failures
            .iter()
            .filter_map(|failure| failure.slot);
        let orders = Orders {
            done: runs
                .chain(failures)
                .filter(|slot| own.contains(slot))
                .map(|slot| slot - first)
                .collect(),
            ..Orders::default()
        };
        let mut kept = Kept {
            block,
            session: &mut self.session,
            recorder: &mut self.recorder,
        };
        runner::execute(&plan, orders, &mut Whole, &mut [&mut kept, self.listener])
    }
}

/// Records the events of a block in the session, translating its slot numbers.
struct Kept<'a, 'r> {
    block: &'a Block,
    session: &'a mut Session,
    recorder: &'a mut Recorder<'r>,
}

impl Observer for Kept<'_, '_> {
    fn observe(&mut self, event: &Event<'_>) -> Result<()> {
        let place = |slot: u32| slot + self.block.first_slot;
        match event {
            Event::Declared(metric) => {
                if self.session.metric(&metric.name).is_none() {
                    self.session.metrics.push((*metric).clone());
                }
                self.recorder.observe(event)
            }
            Event::RunFinished(run) => {
                let run = Run {
                    slot: place(run.slot),
                    block: self.block.number,
                    ..(*run).clone()
                };
                self.recorder.observe(&Event::RunFinished(&run))?;
                self.session.runs.push(run);
                Ok(())
            }
            Event::Failed(failure) => {
                let failure = Failure {
                    slot: failure.slot.map(place),
                    ..(*failure).clone()
                };
                self.recorder.observe(&Event::Failed(&failure))?;
                self.session.failures.push(failure);
                Ok(())
            }
            Event::SlotsDone(slots) => {
                let slots: Vec<u32> = slots.iter().map(|slot| place(*slot)).collect();
                self.recorder.observe(&Event::SlotsDone(&slots))
            }
            _ => Ok(()),
        }
    }
}
