//! A session: measured as planned, kept while it is measured, read back.
//!
//! Decides what is warned of beforehand and when a case needs no more runs. Start at [`measure`].

use super::{
    Listener, Plans, SessionRequest, fleet, instructions, layout, pairs, rehearsal, roles, teller,
    warn,
};
use anyhow::{Context, ensure};
use speedwell_analysis::{self as analysis, Settings};
use speedwell_environment as environment;
use speedwell_harness::discover::Suite;
use speedwell_harness::plan::Plan;
use speedwell_harness::{self as harness, Kind, Observation, Source};
use speedwell_model::{
    Design, Environment, Event, Observer, Order, Origin, Purpose, Run, Session, State, SteadyRule,
    Stopping, Variant,
};
use speedwell_process as process;
use speedwell_results::store::{LARGE_SESSION, Store};
use speedwell_runner::{self as runner, Ended, Judge, Orders};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;
use std::time::Duration;
use uuid::Uuid;

/// A session that was measured.
pub struct MeasuredSession {
    /// What the store holds of it; see [`MeasuredSession::in_parts`].
    pub session: Session,
    /// Whether its runs are left out, because they are so many that the store hands them out in parts only.
    pub in_parts: bool,
    /// How measuring ended. An error ended it early, too: what was measured until then is part of the session.
    pub ended: anyhow::Result<Ended>,
    /// The largest number of runs that the plan needed.
    pub planned: usize,
    /// How a later session may learn more in the same time.
    pub advice: Option<String>,
}

/// Executes the plan, stored while it runs, and reads the session back.
///
/// # Errors
/// The store cannot be read or begun. Failing benchmarks are part of the session.
pub fn measure(
    mut plans: Plans,
    request: &SessionRequest,
    store: &mut Store,
    listener: &mut Listener<'_>,
) -> anyhow::Result<MeasuredSession> {
    layout::check(&plans.plan)?;
    if plans.plan.design.order == Order::Paired && plans.resumed.is_none() {
        pairs::check(&plans.plan)?;
    }
    if plans.resumed.is_none() {
        check_rules(&plans.plan)?;
        if plans.plan.design.counting.is_some() {
            instructions::prepare(&mut plans.plan)?;
        }
    }
    if let Some(fleet) = &request.fleet {
        return fleet::carry_out(plans, fleet, request, store, listener);
    }
    check_processors(&plans.plan)?;
    build_packages(&plans.plan, listener)?;
    if plans.resumed.is_none() {
        rehearsal::rehearse(&plans.plan, &plans.suite.failures, &request.settings)?;
    }
    warn_before(&plans, request, listener)?;
    carry_out(plans, request, store, listener)
}

/// Like [`measure`], for those who measure several times and have warned themselves.
///
/// # Errors
/// As for [`measure`].
pub fn carry_out(
    plans: Plans,
    request: &SessionRequest,
    store: &mut Store,
    listener: &mut Listener<'_>,
) -> anyhow::Result<MeasuredSession> {
    let Plans {
        mut plan,
        suite,
        resumed,
        mut held,
    } = plans;
    let is_resumed = resumed.is_some();
    let mut orders = Orders {
        fail_fast: request.fail_fast,
        budget: plan.sampling.budget_ms.map(Duration::from_millis),
        ..Orders::default()
    };
    let mut recorder = match resumed {
        Some(earlier) => {
            (orders.done, orders.earlier) = (earlier.done, earlier.runs);
            orders.silent = earlier.silent;
            orders.failed = earlier.failed;
            store.resume(earlier.number)?
        }
        None => store.begin(
            &header(&plan, suite, request),
            &serde_json::to_string(&plan)?,
        )?,
    };
    let number = recorder.number();
    if let Some(url) = &request.push {
        recorder.owe(url, process::unix_ms())?;
    }
    let mut judge = Decider::new(&plan, &request.settings);
    let mut ended = Ok(());
    let placement = (plan.design.experiment.as_mut()).and_then(|file| file.placement.as_mut());
    if let Some(placement) = placement.filter(|_| is_resumed) {
        // Only now it is sure that nobody else measures this session.
        let own = roles::have_again(placement, listener);
        ended = own.map(|own| held = Some(own));
    }
    let ended = ended
        .and_then(|()| runner::execute(&plan, orders, &mut judge, &mut [&mut recorder, listener]));
    drop(held);
    if ended.is_err() {
        // A full disk ends the measuring, but what was kept until then has been paid for. Where even this cannot be
        // written, the end of this process says the same.
        let end = Event::Finished { interrupted: true };
        let _ = recorder.observe(&end);
        let _ = listener.observe(&end);
    }
    drop(recorder);
    harness::remove_builds();
    process::forget_interrupt();
    let measured = read_back(store, number, ended, plan.slots().len())?;
    layout::keep_spreads(&measured.session, store)?;
    Ok(MeasuredSession {
        advice: layout::advice(&measured.session),
        ..measured
    })
}

/// A session that was measured and ended like this, of a plan with so many runs. Its own runs are left out where they are too many
/// to be in memory together.
pub(super) fn read_back(
    store: &Store,
    number: i64,
    ended: anyhow::Result<Ended>,
    planned: usize,
) -> anyhow::Result<MeasuredSession> {
    let in_parts = store.run_count(number)? > LARGE_SESSION;
    let session = if in_parts {
        store.session_without_runs(number)?
    } else {
        store.session(number)?
    };
    Ok(MeasuredSession {
        session,
        in_parts,
        ended,
        planned,
        advice: None,
    })
}

/// Builds what is built under all variants, so that no run waits for it, and what does not compile is said before any.
pub(super) fn build_packages(plan: &Plan, listener: &mut Listener<'_>) -> anyhow::Result<()> {
    let tell = teller(listener);
    for job in &plan.jobs {
        for variant in &plan.variants {
            let built = harness::build(&job.source, variant, &tell);
            // A build that the user ended failed because of it.
            process::check_interrupted()?;
            built?;
        }
    }
    Ok(())
}

/// Refuses processors that this process may not use.
pub(super) fn check_processors(plan: &Plan) -> anyhow::Result<()> {
    match &plan.pin {
        Some(pin) => Ok(pin.check_usable().context("in --pin")?),
        None => Ok(()),
    }
}

/// Refuses rules where no single run can be put aside and repeated.
fn check_rules(plan: &Plan) -> anyhow::Result<()> {
    let Plan { design, shared, .. } = plan;
    ensure!(
        design.reject.is_empty() || design.order == Order::Blocks,
        "--reject repeats single runs at the end of their block, and there are none without '--order blocks'; what \
         disturbs one side of a pair disturbs the other\nhint: leave out --order or --reject"
    );
    ensure!(
        design.reject.is_empty() || design.experiment.is_none(),
        "--reject is for benchmark files, commands and snippets; the stages of an experiment are no single process"
    );
    ensure!(
        design.reject.is_empty() || !shared,
        "--reject needs a process for every run, and snippets share one here\nhint: leave out --shared"
    );
    Ok(())
}

/// Warns of what would distort the figures, before any time is spent on them.
fn warn_before(
    plans: &Plans,
    request: &SessionRequest,
    listener: &mut Listener<'_>,
) -> anyhow::Result<()> {
    let own = plans.suite.warnings.iter().cloned();
    let own = own.chain(reach_warning(&plans.plan, &request.settings));
    let undivided = request
        .divides_runs
        .then(|| undivided_warning(&plans.plan))
        .flatten();
    for sentence in own.chain(undivided) {
        warn(listener, &sentence)?;
    }
    let counting = plans.plan.design.counting.as_ref();
    if counting.is_some_and(|counting| !counting.times) {
        // However busy a machine is, the instructions are the same.
        return Ok(());
    }
    // What confirms something has its order.
    let may_be_paired = plans.plan.design.purpose == Purpose::Measured && !request.has_given_order;
    let advice = pairs::advice(&plans.plan).filter(|_| may_be_paired);
    match (environment::busy_machine(), advice) {
        (Some(busy), Some(advice)) => listener.observe(&Event::Busy(&format!("{busy}\n{advice}"))),
        (Some(busy), None) => listener.observe(&Event::Busy(&busy)),
        (None, _) => Ok(()),
    }
}

/// Says that the machine is busy with other things, if it is.
///
/// # Errors
/// The listener's.
pub fn warn_if_busy(listener: &mut Listener<'_>) -> anyhow::Result<()> {
    match environment::busy_machine() {
        Some(sentence) => listener.observe(&Event::Busy(&sentence)),
        None => Ok(()),
    }
}

/// A sentence where a fixed number of runs cannot give a verdict. Files that measure several cases in a run, and `--metric all`,
/// make more comparisons than are counted here. What an experiment claims is judged by its own rules.
pub fn reach_warning(plan: &Plan, settings: &Settings) -> Option<String> {
    if plan.design.experiment.is_some() || plan.design.counting.is_some() {
        return None;
    }
    let candidates = plan.variants.len() - 1;
    let metrics = if settings.wants_all_metrics() {
        1
    } else {
        settings.metrics.len().max(1)
    };
    let comparisons = plan.jobs.len() * candidates * metrics;
    analysis::out_of_reach(&plan.design, settings, comparisons)
}

/// Options that divide a run into samples say nothing to files that measure once per process.
fn undivided_warning(plan: &Plan) -> Option<String> {
    let undivided = |job: &&harness::Job| !harness::for_kind(job.source.kind).divides_runs();
    let meaningless = |job: &harness::Job| {
        let option = harness::meaningless_option(&job.source, plan.sampling.asked)?;
        let name = &job.source.name;
        Some(format!(
            "The suite of '{name}' has no option for {option}: it does as usual."
        ))
    };
    if let Some(sentence) = plan.jobs.iter().find_map(meaningless) {
        return Some(sentence);
    }
    let job = plan.jobs.iter().find(undivided)?;
    Some(format!(
        "'{}' decides itself what it measures in a run: --samples, --time, --iterations and \
         --warmup do not reach it.",
        job.source.name
    ))
}

/// The session before its first run.
pub fn header(plan: &Plan, suite: Suite, request: &SessionRequest) -> Session {
    let experiment = plan.design.experiment.as_ref();
    let placement = experiment.and_then(|file| file.placement.as_ref());
    Session {
        id: uuid::Uuid::now_v7().to_string(),
        number: None,
        started_unix_ms: process::unix_ms(),
        state: State::Running,
        tags: request.tags.clone(),
        command: request.command.clone(),
        design: Design {
            work: work(plan),
            ..plan.design.clone()
        },
        variants: plan.variants.clone(),
        metrics: Vec::new(),
        environment: surroundings(plan, &suite, request),
        origin: match (plan.design.purpose, request.origin()) {
            // What is changed in the checkout takes no part in an old revision.
            (Purpose::Backfill, Some(origin)) => Some(Origin {
                dirty: None,
                ..origin
            }),
            (_, origin) => origin,
        },
        runs: Vec::new(),
        failures: suite.failures,
        profiles: Vec::new(),
        calibration: None,
        machines: placement.map_or(Vec::new(), |own| own.session_machines()),
    }
}

/// Digests of the files that say what benchmarks do. A program or a snippet is itself what changes, and so are figures
/// in a file.
fn work(plan: &Plan) -> BTreeMap<String, String> {
    let is_benchmark = |source: &Source| {
        !source.is_program() && !matches!(source.kind, Kind::Snippet(_) | Kind::Fake)
    };
    let mut of_files: HashMap<&Path, Option<String>> = HashMap::new();
    let jobs = plan.jobs.iter().filter(|job| is_benchmark(&job.source));
    let digests = jobs.filter_map(|job| {
        let file = job.source.file.as_path();
        let read = || Some(Uuid::new_v5(&Uuid::NAMESPACE_OID, &fs::read(file).ok()?).to_string());
        let digest = of_files.entry(file).or_insert_with(read).clone()?;
        let benchmark = (job.case.as_ref()).map_or(&job.source.name, |case| &case.benchmark);
        Some((benchmark.clone(), digest))
    });
    digests.collect()
}

/// Machine and programs, asked once, before anything is measured. `known` are the versions of the
/// baseline's program as it described its files; others are asked for theirs.
fn surroundings(plan: &Plan, suite: &Suite, request: &SessionRequest) -> Environment {
    let first = plan.jobs.first();
    let program_of = |variant: &Variant| match first {
        Some(job) => Some(harness::program_of(&job.source, variant)),
        None => variant.program.clone(),
    };
    let described = program_of(&plan.variants[0]);
    let known = &suite.versions;
    let has_version =
        |job: &harness::Job| harness::for_kind(job.source.kind).has_version(&job.source);
    let asks_version = plan.jobs.iter().all(has_version);
    let mut programs = Vec::new();
    let mut versions = Vec::new();
    for variant in &plan.variants {
        let Some(program) = program_of(variant) else {
            continue;
        };
        let is_known = described.as_ref() == Some(&program);
        let path = process::resolve(&program).unwrap_or(program);
        let version = match asks_version {
            true if is_known && known.contains_key("node") => {
                environment::ProgramVersion::of_javascript(known.clone())
            }
            true => environment::program_version(&path),
            false => environment::ProgramVersion::default(),
        };
        programs.push((variant.name.clone(), path, version.text));
        versions.push(version.parts);
    }
    let mut environment = request.environment(&programs);
    for (program, parts) in environment.programs.iter_mut().zip(versions) {
        program.versions = parts;
    }
    let suites = suite.suites.iter();
    let facts = suites.map(|(name, version)| (format!("suite {name}"), version.clone()));
    environment.facts.extend(facts);
    environment
}

/// The analysis as judge of when a case is decided.
pub(crate) struct Decider {
    rule: analysis::StopRule,
    looks: bool,
    /// The rule that finds the steady part of every run, where its time is wanted as a metric.
    steady: Option<SteadyRule>,
}

/// Whether runs say when a case needs no more of them, or a count of instructions is compared.
fn looks(plan: &Plan) -> bool {
    let Plan {
        sampling, design, ..
    } = plan;
    let is_fixed = matches!(design.stopping, Stopping::Fixed { .. });
    !is_fixed || sampling.precision.is_some() || design.counting.is_some()
}

/// Whether runs are looked at as long as the plan is measured. If not, only those of open blocks are.
pub(crate) fn looks_back(plan: &Plan) -> bool {
    looks(plan) || plan.has_snippets()
}

impl Decider {
    pub fn new(plan: &Plan, settings: &Settings) -> Decider {
        Decider {
            rule: match plan.sampling.precision {
                Some(share) => analysis::StopRule::precision(share, &plan.design, settings),
                None => analysis::StopRule::new(&plan.design, settings),
            },
            looks: looks(plan),
            steady: plan.design.steady.filter(|rule| rule.is_metric),
        }
    }
}

impl Judge for Decider {
    fn decided(&mut self, cases: &[&[Run]]) -> Vec<bool> {
        self.rule.decided(cases)
    }

    fn looks(&self) -> bool {
        self.looks
    }

    fn complete(&self, seen: &mut Observation) {
        let Some(rule) = &self.steady else { return };
        let [steady_time, ..] = analysis::warmup::metrics();
        seen.metrics.insert(0, steady_time);
        match analysis::warmup::steady_time(&seen.samples, rule) {
            Ok(sample) => seen.samples.insert(0, sample),
            Err(class) => seen.notes.push(format!("It has no steady part: {class}.")),
        }
    }
}
