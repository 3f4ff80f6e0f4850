//! From options to a measured session: shared by `run` and `compare`.

use super::options::{ComparisonArgs, ExecutionArgs, RunArgs, SamplingArgs};
use super::progress::Progress;
use super::{Status, experiment, status};
use crate::analysis::{self, Settings};
use crate::define::{self, Side, Suite};
use crate::environment;
use crate::harness;
use crate::model::{
    Design, Environment, Event, Observer, Run, Runs, Sampling, Session, State, Stopping, Variant,
    milliseconds,
};
use crate::plan::Plan;
use crate::process::{self, quote};
use crate::runner::{self, Ended, Judge, Orders};
use crate::store::Store;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

/// A plan, and what is known beside it.
pub struct Plans {
    /// What will be executed.
    pub plan: Plan,
    /// What describing the benchmarks brought up.
    pub suite: Suite,
    /// The session that is gone on with, and what it has done.
    pub resumed: Option<Resumed>,
}

/// An earlier session.
pub struct Resumed {
    /// Its number.
    pub number: i64,
    /// Its finished slots.
    pub done: BTreeSet<u32>,
    /// Its runs.
    pub runs: Vec<Run>,
}

impl Plans {
    /// Reads the targets and plans their execution.
    ///
    /// # Errors
    /// Unknown targets, values or variants.
    pub fn read(args: &RunArgs) -> anyhow::Result<Plans> {
        process::adopt_orphans();
        process::on_interrupt()?;
        let (targets, values) = split(&args.targets);
        if let Some(file) = define::experiment(&targets, &std::env::current_dir()?)? {
            return experiment::plans(&file, &values, args);
        }
        let sources = define::all_sources(&targets, &std::env::current_dir()?)?;
        let declared = match args.variants.is_any() {
            true => Vec::new(),
            false => define::declared_variants(&sources)?,
        };
        let mut variants = args.variants.variants(declared)?;
        for variant in &mut variants {
            variant
                .arguments
                .splice(0..0, args.arguments.iter().cloned());
        }
        let selection = args.selection.selection(&values, args.execution.trial())?;
        let shown = args.output.progress();
        let suite = define::read(sources, &selection, &variants[0], &|done, all| {
            if shown {
                super::progress::describing(done, all);
            }
        })?;
        let plan = plan(args, variants, &suite);
        Ok(Plans {
            plan,
            suite,
            resumed: None,
        })
    }
}

impl Plans {
    /// Plans the measuring of programs against each other.
    ///
    /// # Errors
    /// Programs that cannot be asked or have nothing in common.
    pub fn of_sides(sides: &[Side], word: Option<&str>, args: &RunArgs) -> anyhow::Result<Plans> {
        process::adopt_orphans();
        process::on_interrupt()?;
        let selection = args.selection.selection(&[], args.execution.trial())?;
        let suite = define::common_benchmarks(sides, word, &selection)?;
        let variants = sides.iter().map(|side| side.variant.clone()).collect();
        Ok(Plans {
            plan: plan(args, variants, &suite),
            suite,
            resumed: None,
        })
    }
}

/// Targets, and `NAME=VALUE` words among them that are no files.
fn split(words: &[String]) -> (Vec<String>, Vec<String>) {
    let is_value = |word: &&String| word.contains('=') && !PathBuf::from(word).exists();
    let (values, targets): (Vec<&String>, Vec<&String>) = words.iter().partition(is_value);
    (
        targets.into_iter().cloned().collect(),
        values.into_iter().cloned().collect(),
    )
}

/// What is asked for of a plan, whatever is measured.
pub struct Manner<'a> {
    /// How much is measured.
    pub sampling: &'a SamplingArgs,
    /// When a comparison is decided.
    pub comparison: &'a ComparisonArgs,
    /// In which order.
    pub execution: &'a ExecutionArgs,
    /// Codes share a process.
    pub shared: bool,
}

pub fn plan(args: &RunArgs, variants: Vec<Variant>, suite: &Suite) -> Plan {
    let manner = Manner {
        sampling: &args.sampling,
        comparison: &args.comparison,
        execution: &args.execution,
        shared: false,
    };
    manner.plan(variants, suite)
}

impl Manner<'_> {
    /// The plan for what was found.
    pub fn plan(&self, variants: Vec<Variant>, suite: &Suite) -> Plan {
        let args = self;
        let sampling = Sampling {
            budget_ms: args.execution.budget.map(milliseconds),
            ..args.sampling.sampling(variants.len())
        };
        let stopping = match sampling.runs {
            Runs::Fixed(runs) => Stopping::Fixed { runs },
            Runs::Sequential => Stopping::Sequential {
                looks: Settings::DEFAULT_LOOKS.to_vec(),
                alpha: 1.0
                    - args
                        .comparison
                        .confidence
                        .unwrap_or(Settings::DEFAULT_CONFIDENCE),
                delta: args.comparison.threshold.unwrap_or(Settings::DEFAULT_DELTA),
            },
        };
        let design = Design {
            order: args.execution.order.into(),
            stopping,
            baseline: variants[0].name.clone(),
            seed: args.execution.seed.unwrap_or_else(draw_seed),
            runs_per_block: if variants.len() > 1 { 2 } else { 1 },
            threshold: args.comparison.threshold,
            experiment: None,
            definitions: suite.definitions(),
        };
        Plan {
            jobs: suite.jobs.clone(),
            variants,
            design,
            sampling,
            pin: args.execution.pin.clone(),
            shared: args.shared,
            is_search: false,
        }
    }
}

/// A seed nobody chose. Kept below 2^53, so that JSON readers of other languages keep every digit.
pub fn draw_seed() -> u64 {
    uuid::Uuid::now_v7().as_u128() as u64 >> 11
}

/// Executes the plan, stored while it runs, and reads the session back.
///
/// # Errors
/// The store cannot be written. Failing benchmarks are part of the session.
pub fn measure(
    plans: Plans,
    settings: &Settings,
    store: &mut Store,
    args: &RunArgs,
) -> anyhow::Result<(Session, Status)> {
    warn_before(&plans.plan, &plans.suite, settings, args);
    carry_out(plans, settings, store, args)
}

/// Like [`measure`], for those who measure several times and have warned themselves.
///
/// # Errors
/// As for [`measure`].
pub fn carry_out(
    plans: Plans,
    settings: &Settings,
    store: &mut Store,
    args: &RunArgs,
) -> anyhow::Result<(Session, Status)> {
    let Plans {
        plan,
        suite,
        resumed,
    } = plans;
    let mut orders = Orders {
        fail_fast: args.execution.fail_fast,
        budget: args
            .execution
            .budget
            .or(plan.sampling.budget_ms.map(Duration::from_millis)),
        ..Orders::default()
    };
    let mut recorder = match resumed {
        Some(earlier) => {
            (orders.done, orders.earlier) = (earlier.done, earlier.runs);
            store.resume(earlier.number)?
        }
        None => store.begin(&header(&plan, suite, args), &serde_json::to_string(&plan)?)?,
    };
    let number = recorder.number();
    let mut judge = Decider::new(&plan, settings);
    let mut progress = Progress::new(args.output.progress());
    let planned = plan.slots().len();
    let executed = runner::execute(
        &plan,
        orders,
        &mut judge,
        &mut [&mut recorder, &mut progress],
    );
    drop(progress);
    let status = match executed {
        Ok(Ended::Interrupted) => Status::INTERRUPTED,
        Ok(Ended::Failed | Ended::Complete) => Status::DONE,
        // A full disk ends the measuring, but what was kept until then has been paid for.
        Err(error) => {
            status::tell(&error);
            // Where even that cannot be written, the end of this process says the same.
            let _ = recorder.observe(&Event::Finished { interrupted: true });
            Status::COULD_NOT
        }
    };
    drop(recorder);
    if status != Status::DONE {
        let done = store.finished_slots(number)?.len();
        let done = done_of(done, planned, &plan.design.stopping);
        note_resume(status, &done, number, args);
    }
    process::forget_interrupt();
    Ok((store.session(number)?, status))
}

/// Warns of what would distort the figures, before any time is spent on them.
fn warn_before(plan: &Plan, suite: &Suite, settings: &Settings, args: &RunArgs) {
    for warning in &suite.warnings {
        status::warn(warning);
    }
    warn_of_reach(plan, settings);
    warn_of_undivided(plan, args);
    if !args.output.quiet {
        status::warn_if_busy();
    }
}

/// Warns where a fixed number of runs cannot give a verdict. Files that measure several cases in a run, and `--metric all`,
/// make more comparisons than are counted here. What an experiment claims is judged by its own rules.
pub fn warn_of_reach(plan: &Plan, settings: &Settings) {
    if plan.design.experiment.is_some() {
        return;
    }
    let candidates = plan.variants.len() - 1;
    let metrics = match settings.wants_all_metrics() {
        true => 1,
        false => settings.metrics.len().max(1),
    };
    let comparisons = plan.jobs.len() * candidates * metrics;
    if let Some(sentence) = analysis::out_of_reach(&plan.design, settings, comparisons) {
        status::warn(&sentence);
    }
}

/// How a session that ended early is gone on with.
fn note_resume(status: Status, done: &str, number: i64, args: &RunArgs) {
    if args.store.no_save {
        return;
    }
    let db = args.store.db.as_ref();
    let db = db.map(|db| format!(" --db {}", quote(&db.to_string_lossy())));
    let why = match status {
        Status::INTERRUPTED => format!("interrupted: {done}; what was measured is kept"),
        _ => "what was measured until then is kept".to_owned(),
    };
    status::note(&format!(
        "{why}, go on with: speedwell {} --resume @{number}{}",
        args.command,
        db.unwrap_or_default()
    ));
}

/// `only 1 of 128 runs was done`; a test that may end early has a largest number of runs only.
fn done_of(done: usize, planned: usize, stopping: &Stopping) -> String {
    let at_most = match stopping {
        Stopping::Fixed { .. } => "",
        Stopping::Sequential { .. } => "at most ",
    };
    let verb = if done == 1 { "was" } else { "were" };
    format!("only {done} of {at_most}{planned} runs {verb} done")
}

/// Options that divide a run into samples say nothing to files that measure once per process.
fn warn_of_undivided(plan: &Plan, args: &RunArgs) {
    let undivided = |job: &&harness::Job| !harness::of(job.source.kind).divides_runs();
    if let Some(job) = plan.jobs.iter().find(undivided)
        && args.sampling.divides_runs()
    {
        status::warn(&format!(
            "'{}' decides itself what it measures in a run: --samples, --time, --iterations and \
             --warmup do not reach it.",
            job.source.name
        ));
    }
}

/// The session before its first run.
pub fn header(plan: &Plan, suite: Suite, args: &RunArgs) -> Session {
    Session {
        id: uuid::Uuid::now_v7().to_string(),
        number: None,
        started_unix_ms: process::unix_ms(),
        state: State::Running,
        tags: args.store.tag.clone(),
        command: std::env::args().collect(),
        design: plan.design.clone(),
        variants: plan.variants.clone(),
        metrics: Vec::new(),
        environment: surroundings(plan, suite.versions),
        runs: Vec::new(),
        failures: suite.failures,
        profiles: Vec::new(),
    }
}

/// Machine and programs, asked once, before anything is measured. `known` are the versions of the
/// baseline's program as it described its files; others are asked for theirs.
fn surroundings(plan: &Plan, known: BTreeMap<String, String>) -> Environment {
    let usual = plan
        .jobs
        .first()
        .map(|job| harness::of(job.source.kind).usual_program(&job.source));
    let harnesses = plan.jobs.iter().map(|job| harness::of(job.source.kind));
    let asks_version = harnesses.into_iter().all(|harness| harness.has_version());
    let mut programs = Vec::new();
    let mut versions = Vec::new();
    for variant in &plan.variants {
        let Some(program) = variant.program.clone().or_else(|| usual.clone()) else {
            continue;
        };
        let path = crate::process::resolve(&program).unwrap_or(program);
        let described = plan.variants[0].program.clone().or_else(|| usual.clone());
        let is_known = variant.program.clone().or_else(|| usual.clone()) == described;
        let version = match asks_version {
            true if is_known && known.contains_key("node") => {
                environment::ProgramVersion::of_node(known.clone())
            }
            true => environment::program_version(&path),
            false => environment::ProgramVersion::default(),
        };
        programs.push((variant.name.clone(), path, version.text));
        versions.push(version.parts);
    }
    let mut environment = environment::capture(&programs);
    for (program, parts) in environment.programs.iter_mut().zip(versions) {
        program.versions = parts;
    }
    environment
}

/// The analysis as judge of when a case is decided.
struct Decider(analysis::Judge);

impl Decider {
    fn new(plan: &Plan, settings: &Settings) -> Decider {
        Decider(match plan.sampling.precision {
            Some(share) => analysis::Judge::precision(share, settings),
            None => analysis::Judge::new(&plan.design, settings),
        })
    }
}

impl Judge for Decider {
    fn decided(&mut self, cases: &[&[Run]]) -> Vec<bool> {
        self.0.decided(cases)
    }
}
