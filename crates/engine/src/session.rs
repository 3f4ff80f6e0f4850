//! Turns a request to measure into a plan, prepares its measurement, and decides when a case needs
//! no more runs.
//!
//! This module decides what to reject and what to warn about before measuring, and which programs
//! have a memory layout that cannot be varied. Start at [`PreparedPlan::read`], [`check_plan`],
//! [`prepare_measurement`] and [`session_header`].

use crate::execution::{SessionEnd, StoppingRule};
use crate::{
    EventListener, MeasureRequest, PlanRequest, PreparedPlan, SessionRequest, emit_warning,
    experiment, measured_code, pairs, rehearsal, revisions, shared_emitter,
};
use anyhow::{Context, bail, ensure};
use speedwell_adapters::discover::{
    self, BenchmarkSelection, ComparisonSide, DiscoveredBenchmarks,
};
use speedwell_adapters::plan::SessionPlan;
use speedwell_adapters::{
    self as adapters, BenchmarkJob, BenchmarkSource, RunResult, SourceKind, build_cost,
};
use speedwell_analysis::{self as analysis, AnalysisSettings, LayoutSpread, layout_spreads};
use speedwell_config::LazyDefinition;
use speedwell_machine::{environment, process};
use speedwell_model::{
    CodeOrigin, DefinitionFile, Environment, LayoutVariation, Run, RunOrder, Session,
    SessionDesign, SessionEvent, SessionPurpose, SessionState, SnippetLanguage, SteadyRule,
    StoppingDesign, Variant,
};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use uuid::Uuid;

impl PreparedPlan {
    /// Reads the targets and plans their execution.
    ///
    /// # Errors
    /// Fails if a target, a parameter value or a variant is unknown.
    pub fn read(
        request: &MeasureRequest,
        listener: &mut EventListener<'_>,
    ) -> anyhow::Result<PreparedPlan> {
        process::adopt_orphans();
        process::install_handlers()?;
        let directory = std::env::current_dir()?;
        if let Some(file) = discover::find_experiment(&request.targets, &directory)? {
            return experiment::plan_experiment(&file, request, listener);
        }
        if request.plan.execution.order == RunOrder::Paired {
            pairs::check_targets(&request.targets, &directory)?;
        }
        let has_revisions = !request.variants.revisions.is_empty();
        let mut resolved = request.variants.clone();
        let sources = if has_revisions {
            resolved = revisions::check_out_revisions(&request.variants, listener)?;
            revisions::find_sources(&request.targets, &directory, &resolved.given)?
        } else {
            discover::find_all_sources(&request.targets, &directory)?
        };
        let declared = if resolved.given.is_empty() {
            discover::declared_variants(&sources)?
        } else {
            Vec::new()
        };
        let mut variants = resolved.build_variants(declared)?;
        let (emit, selection) = (shared_emitter(listener), &request.selection);
        let mut suite = if has_revisions {
            revisions::discover_benchmarks(sources, &variants, selection, &emit)?
        } else {
            discover::discover_benchmarks(sources, selection, &variants[0], &emit)?
        };
        measured_code::record_benchmarks(&mut variants, &mut suite, selection, &emit)?;
        suite.warnings.extend(measured_code::identical_warnings(&variants, &suite.jobs));
        Ok(PreparedPlan::new(request.plan.build_plan(variants, &suite), suite))
    }

    /// Creates a plan that compares programs with each other. If a side selects its benchmarks with
    /// a pattern, `word` replaces the matching text in their names.
    ///
    /// # Errors
    /// Fails if a program cannot be queried, or the programs have no benchmark in common.
    pub fn plan_sides(
        sides: &[ComparisonSide],
        word: Option<&str>,
        selection: &BenchmarkSelection,
        request: &PlanRequest,
    ) -> anyhow::Result<PreparedPlan> {
        process::adopt_orphans();
        process::install_handlers()?;
        let mut suite = discover::common_benchmarks(sides, word, selection)?;
        let mut variants: Vec<Variant> = sides.iter().map(|side| side.variant.clone()).collect();
        if word.is_none() {
            // Without a pattern, both sides should do the same work. Benchmarks that a pattern
            // selects are different on purpose.
            for (variant, side) in variants.iter_mut().zip(sides) {
                variant.work = side.fingerprint_work(&suite.jobs);
            }
        }
        suite.warnings.extend(measured_code::identical_warnings(&variants, &suite.jobs));
        Ok(PreparedPlan::new(request.build_plan(variants, &suite), suite))
    }
}

/// Gives jobs the text that their definition file had at the start of the session. A plan written
/// by an earlier version of Speedwell lacks the text; in that case, this function reads each file
/// once.
///
/// # Errors
/// Fails if a definition file that the plan does not contain cannot be read.
pub fn attach_definitions(plan: &mut SessionPlan) -> anyhow::Result<()> {
    let to_definition = |source: DefinitionFile| Arc::new(LazyDefinition::new(source));
    let stored = plan.design.experiment.iter().chain(&plan.design.definitions);
    let mut definitions: Vec<Arc<LazyDefinition>> = stored.cloned().map(to_definition).collect();
    let is_definition = |source: &&mut BenchmarkSource| {
        matches!(source.kind, SourceKind::Load | SourceKind::Experiment)
    };
    for source in plan.jobs.iter_mut().map(|job| &mut job.source).filter(is_definition) {
        let stored =
            definitions.iter().find(|definition| definition.source().file == source.file).cloned();
        let definition = match stored {
            Some(definition) => definition,
            None => {
                definitions.push(to_definition(speedwell_config::read_source(&source.file, &[])?));
                definitions[definitions.len() - 1].clone()
            }
        };
        source.definition = Some(definition);
    }
    Ok(())
}

/// A measured session.
pub struct MeasuredSession {
    /// The session as stored; see [`MeasuredSession::in_parts`].
    pub session: Session,
    /// Whether `session` has no runs, because there are too many to load at once.
    pub in_parts: bool,
    /// How measuring ended. After an error, the session contains the earlier results.
    pub ended: anyhow::Result<SessionEnd>,
    /// Number of runs in the plan. Fewer are executed if a case is settled early.
    pub planned: usize,
    /// Advice on how a later session could give more precise results in the same time.
    pub advice: Option<String>,
}

impl MeasuredSession {
    /// Combines a stored session with the way its measurement ended. `in_parts` says whether the
    /// session was loaded without its runs.
    pub fn new(
        (session, in_parts): (Session, bool),
        ended: anyhow::Result<SessionEnd>,
        planned: usize,
    ) -> MeasuredSession {
        MeasuredSession { session, in_parts, ended, planned, advice: None }
    }
}

/// Checks a plan before anything is built or sent to other machines, and prepares to count
/// instructions if the plan requests that. The checks do not depend on where the plan is measured.
///
/// # Errors
/// Fails if the plan cannot be measured as requested.
pub fn check_plan(plans: &mut PreparedPlan) -> anyhow::Result<()> {
    check_layout(&plans.plan)?;
    if plans.resumed.is_some() {
        return Ok(());
    }
    if plans.plan.design.order == RunOrder::Paired {
        pairs::check_paired(&plans.plan)?;
    }
    check_rules(&plans.plan)?;
    if plans.plan.design.counting.is_some() {
        pairs::prepare_counting(&mut plans.plan)?;
    }
    Ok(())
}

/// Prepares to measure a checked plan on this machine: builds packages, tries the benchmarks of a
/// new session, and warns about anything that would distort the results.
///
/// # Errors
/// Fails if a package cannot be built, the trial shows that nothing can be measured, or the
/// listener fails.
pub fn prepare_measurement(
    plans: &PreparedPlan,
    request: &SessionRequest,
    listener: &mut EventListener<'_>,
) -> anyhow::Result<()> {
    check_processors(&plans.plan)?;
    build_packages(&plans.plan, listener)?;
    if plans.resumed.is_none() {
        rehearsal::rehearse_plan(&plans.plan, &plans.suite.failures, &request.settings)?;
    }
    warn_before(plans, request, listener)
}

/// Builds all packages for all variants before the first run. Then no run waits for a build, and
/// compile errors are reported early.
///
/// # Errors
/// Fails if a package cannot be built, or the user interrupts.
pub fn build_packages(plan: &SessionPlan, listener: &mut EventListener<'_>) -> anyhow::Result<()> {
    let emit = shared_emitter(listener);
    for job in &plan.jobs {
        for variant in &plan.variants {
            let result = adapters::build_if_package(&job.source, variant, &emit);
            // Check for an interrupt by the user first, because an interrupt also makes the build
            // fail.
            process::check_interrupted()?;
            result?;
        }
    }
    Ok(())
}

/// Rejects processors that this process may not use.
///
/// # Errors
/// Fails if the plan pins processes to such a processor.
pub fn check_processors(plan: &SessionPlan) -> anyhow::Result<()> {
    match &plan.pin {
        Some(pin) => Ok(pin.check_usable().context("in --pin")?),
        None => Ok(()),
    }
}

/// Rejects plans with disturbance rules if single runs cannot be discarded and repeated.
fn check_rules(plan: &SessionPlan) -> anyhow::Result<()> {
    let SessionPlan { design, shared, .. } = plan;
    ensure!(
        design.reject.is_empty() || design.order == RunOrder::Blocks,
        "--reject repeats single runs at the end of their block, so it requires '--order blocks'; \
         in a pair, a disturbance affects both sides\nhint: leave out --order or --reject"
    );
    ensure!(
        design.reject.is_empty() || design.experiment.is_none(),
        "--reject supports only benchmark files, commands and snippets; an experiment runs several \
         processes"
    );
    ensure!(
        design.reject.is_empty() || !shared,
        "--reject needs a separate process for every run, but the snippets share one\nhint: leave \
         out --shared"
    );
    Ok(())
}

/// Rejects plans with programs whose memory layout cannot be varied as requested.
///
/// # Errors
/// Fails with a message that explains the reason, and what can be varied instead.
pub fn check_layout(plan: &SessionPlan) -> anyhow::Result<()> {
    let layout = plan.design.layout;
    if layout.is_default() {
        return Ok(());
    }
    ensure!(
        !plan.shared,
        "the snippets share one process, which has only one layout\nhint: leave out --shared and --order parallel"
    );
    ensure!(
        !plan.is_search,
        "a search for the best concurrency compares numbers of workers, not builds\nhint: leave out --builds and \
         --layout"
    );
    ensure!(
        plan.design.order != RunOrder::Paired || !plan.design.shares_builds(),
        "'--order paired' needs separate builds for every pair, but {} runs share {} \
         builds\nhint: --builds {0}",
        plan.design.max_runs(),
        layout.builds,
    );
    plan.jobs.iter().try_for_each(|job| check_job(job, layout))
}

fn check_job(job: &BenchmarkJob, layout: LayoutVariation) -> anyhow::Result<()> {
    const HINT: &str = "hint: --layout env,stack varies the layout without another build";
    let (name, links) = (&job.source.name, layout.builds > 0 || layout.align);
    match job.source.kind {
        SourceKind::Load | SourceKind::Experiment => bail!(
            "'{name}' starts its own server and load processes, which --builds and --layout do not affect"
        ),
        SourceKind::Snippet(SnippetLanguage::Go) if layout.align => {
            bail!("Go has no option that aligns functions\nhint: leave out 'align'")
        }
        SourceKind::Cpp | SourceKind::Fake => Ok(()),
        SourceKind::Snippet(
            SnippetLanguage::C | SnippetLanguage::Cpp | SnippetLanguage::Rust | SnippetLanguage::Go,
        ) => Ok(()),
        SourceKind::Program | SourceKind::Suite if links => {
            bail!("'{name}' was built elsewhere and cannot be rebuilt here\n{HINT}")
        }
        SourceKind::Snippet(language) if links => {
            bail!("{language} is not linked, so there are no builds of '{name}'\n{HINT}")
        }
        SourceKind::Node | SourceKind::NodeCore | SourceKind::Python if links => {
            bail!("'{name}' is not linked, so there are no builds of it\n{HINT}")
        }
        _ => Ok(()),
    }
}

/// Suggests how many runs per build would have given the narrowest intervals in the same time;
/// `None` if builds had one run each or do not differ.
pub fn suggest_runs_per_build(session: &Session) -> Option<String> {
    let build_s = build_cost()?.as_secs_f64();
    let runs_s = session.runs.iter().map(|run| run.wall_ns as f64 / 1e9);
    let run_s = runs_s.sum::<f64>() / session.runs.len().max(1) as f64;
    let metric = session.metrics.first()?;
    let spreads = layout_spreads(session, &[metric]);
    let best_number = |spread: &LayoutSpread| spread.runs_per_build(build_s / run_s);
    // Of the best numbers of all cases, take the largest.
    let runs = spreads.iter().filter_map(best_number).max()?;
    let runs = if runs == 1 { "1 run".to_owned() } else { format!("{runs} runs") };
    Some(format!(
        "in the same time, {runs} of every build would have been most informative: a build took \
         {build_s:.2} s, a run {run_s:.2} s"
    ))
}

/// Before time is spent on measuring, warns about too few runs for a verdict, options without an
/// effect and a busy machine. Also passes on the warnings from listing the cases.
fn warn_before(
    plans: &PreparedPlan,
    request: &SessionRequest,
    listener: &mut EventListener<'_>,
) -> anyhow::Result<()> {
    let warnings =
        plans.suite.warnings.iter().cloned().chain(reach_warning(&plans.plan, &request.settings));
    let undivided = request.divides_runs.then(|| undivided_warning(&plans.plan)).flatten();
    for warning in warnings.chain(undivided) {
        emit_warning(listener, &warning)?;
    }
    let counting = plans.plan.design.counting.as_ref();
    if counting.is_some_and(|counting| !counting.also_timed) {
        // Instruction counts do not depend on how busy the machine is.
        return Ok(());
    }
    // Suggest pairs only if the user may choose the order of the runs. In a confirmation, for
    // example, the order is fixed.
    let may_be_paired =
        plans.plan.design.purpose == SessionPurpose::Measured && !request.has_given_order;
    let advice = pairs::suggest_pairs(&plans.plan).filter(|_| may_be_paired);
    match (environment::busy_machine(), advice) {
        (Some(busy), Some(advice)) => {
            listener.observe(&SessionEvent::Busy(&format!("{busy}\n{advice}")))
        }
        (Some(busy), None) => listener.observe(&SessionEvent::Busy(&busy)),
        (None, _) => Ok(()),
    }
}

/// Warns if the machine is busy with other work.
///
/// # Errors
/// Fails if the listener fails.
pub fn warn_if_busy(listener: &mut EventListener<'_>) -> anyhow::Result<()> {
    match environment::busy_machine() {
        Some(sentence) => listener.observe(&SessionEvent::Busy(&sentence)),
        None => Ok(()),
    }
}

/// Returns a warning if the fixed number of runs is too small for any verdict. The number of
/// comparisons used here is a lower bound: there are more with `--metric all` and with files that
/// measure several cases per run. Experiments and instruction counts get no such warning.
pub fn reach_warning(plan: &SessionPlan, settings: &AnalysisSettings) -> Option<String> {
    if plan.design.experiment.is_some() || plan.design.counting.is_some() {
        return None;
    }
    let candidates = plan.variants.len() - 1;
    let metrics = if settings.wants_all_metrics() { 1 } else { settings.metrics.len().max(1) };
    let comparisons = plan.jobs.len() * candidates * metrics;
    analysis::explain_out_of_reach(&plan.design, settings, comparisons)
}

/// Returns a warning if options for dividing a run into samples do not affect some of the files.
fn undivided_warning(plan: &SessionPlan) -> Option<String> {
    let undivided = |job: &&BenchmarkJob| !adapters::harness_for(job.source.kind).divides_runs();
    let unsupported_option_warning = |job: &BenchmarkJob| {
        let option = adapters::unsupported_option(&job.source, plan.sampling.requested)?;
        let name = &job.source.name;
        Some(format!(
            "The suite of '{name}' has no option for {option}, so the suite's default applies."
        ))
    };
    if let Some(sentence) = plan.jobs.iter().find_map(unsupported_option_warning) {
        return Some(sentence);
    }
    let job = plan.jobs.iter().find(undivided)?;
    Some(format!(
        "'{}' controls its own measurements: --samples, --time, --iterations and \
         --warmup do not affect it.",
        job.source.name
    ))
}

/// Creates the record of the session as it is before the first run.
pub fn session_header(
    plan: &SessionPlan,
    suite: DiscoveredBenchmarks,
    request: &SessionRequest,
) -> Session {
    let experiment = plan.design.experiment.as_ref();
    let placement = experiment.and_then(|file| file.placement.as_ref());
    Session {
        id: uuid::Uuid::now_v7().to_string(),
        number: None,
        started_unix_ms: process::unix_time_ms(),
        state: SessionState::Running,
        tags: request.tags.clone(),
        command: request.command.clone(),
        design: SessionDesign { work: benchmark_digests(plan), ..plan.design.clone() },
        variants: plan.variants.clone(),
        metrics: Vec::new(),
        environment: capture_environment(plan, &suite, request),
        origin: match (plan.design.purpose, request.find_origin()) {
            // A backfill measures an old revision, which uncommitted changes of the checkout do not
            // affect.
            (SessionPurpose::Backfill, Some(origin)) => Some(CodeOrigin { dirty: None, ..origin }),
            (_, origin) => origin,
        },
        runs: Vec::new(),
        failures: suite.failures,
        profiles: Vec::new(),
        calibration: None,
        machines: placement.map_or(Vec::new(), |placement| placement.session_machines()),
    }
}

/// Returns, for each benchmark, a digest of the file that defines it. Programs and snippets have no
/// digest, because they are the compared code themselves. Made-up results ([`SourceKind::Fake`])
/// have none either.
fn benchmark_digests(plan: &SessionPlan) -> BTreeMap<String, String> {
    let is_benchmark = |source: &BenchmarkSource| {
        !source.is_program() && !matches!(source.kind, SourceKind::Snippet(_) | SourceKind::Fake)
    };
    let mut digest_by_file: HashMap<&Path, Option<String>> = HashMap::new();
    let jobs = plan.jobs.iter().filter(|job| is_benchmark(&job.source));
    let digests = jobs.filter_map(|job| {
        let file = job.source.file.as_path();
        let read = || Some(Uuid::new_v5(&Uuid::NAMESPACE_OID, &fs::read(file).ok()?).to_string());
        let digest = digest_by_file.entry(file).or_insert_with(read).clone()?;
        let benchmark = (job.case.as_ref()).map_or(&job.source.name, |case| &case.benchmark);
        Some((benchmark.clone(), digest))
    });
    digests.collect()
}

/// Captures machine and programs once, before measuring. If the baseline's program is Node.js, it
/// may have reported its versions when it listed the cases. Other programs are asked for their
/// versions.
fn capture_environment(
    plan: &SessionPlan,
    suite: &DiscoveredBenchmarks,
    request: &SessionRequest,
) -> Environment {
    let first = plan.jobs.first();
    let program_of = |variant: &Variant| match first {
        Some(job) => Some(adapters::resolve_program_for(&job.source, variant)),
        None => variant.program.clone(),
    };
    let described_program = program_of(&plan.variants[0]);
    let described_versions = &suite.versions;
    let has_version =
        |job: &BenchmarkJob| adapters::harness_for(job.source.kind).has_version(&job.source);
    let asks_version = plan.jobs.iter().all(has_version);
    let mut programs = Vec::new();
    let mut versions = Vec::new();
    for variant in &plan.variants {
        let Some(program) = program_of(variant) else {
            continue;
        };
        let is_known = described_program.as_ref() == Some(&program);
        let path = process::resolve_program(&program).unwrap_or(program);
        let version = match asks_version {
            true if is_known && described_versions.contains_key("node") => {
                environment::ProgramVersion::from_version_table(described_versions.clone())
            }
            true => environment::program_version(&path),
            false => environment::ProgramVersion::default(),
        };
        programs.push((variant.name.clone(), path, version.text));
        versions.push(version.parts);
    }
    let mut environment = request.capture_environment(&programs);
    for (program, parts) in environment.programs.iter_mut().zip(versions) {
        program.versions = parts;
    }
    let suites = suite.suites.iter();
    let facts = suites.map(|(name, version)| (format!("suite {name}"), version.clone()));
    environment.facts.extend(facts);
    environment
}

/// Stopping rule that asks the analysis whether a case is settled.
#[derive(Debug)]
pub struct AnalysisStoppingRule {
    rule: analysis::StopRule,
    decides_by_runs: bool,
    /// The rule that finds the steady part of every run, if the time of that part is a requested
    /// metric.
    steady: Option<SteadyRule>,
}

/// Whether the stopping rule must see the runs: their values decide when a case is settled, or
/// instruction counts are compared.
fn decides_by_runs(plan: &SessionPlan) -> bool {
    let SessionPlan { sampling, design, .. } = plan;
    let is_fixed = matches!(design.stopping, StoppingDesign::Fixed { .. });
    !is_fixed || sampling.precision.is_some() || design.counting.is_some()
}

/// Whether the runs of a block must be kept in memory until the end of the measurement, and not
/// only until the block ends.
pub fn needs_earlier_runs(plan: &SessionPlan) -> bool {
    decides_by_runs(plan) || plan.has_snippets()
}

impl AnalysisStoppingRule {
    /// Creates the rule of a plan.
    pub fn new(plan: &SessionPlan, settings: &AnalysisSettings) -> AnalysisStoppingRule {
        AnalysisStoppingRule {
            rule: match plan.sampling.precision {
                Some(precision) => {
                    analysis::StopRule::for_precision(precision, &plan.design, settings)
                }
                None => analysis::StopRule::new(&plan.design, settings),
            },
            decides_by_runs: decides_by_runs(plan),
            steady: plan.design.steady.filter(|rule| rule.is_metric),
        }
    }
}

impl StoppingRule for AnalysisStoppingRule {
    fn settled_cases(&mut self, cases: &[&[Run]]) -> Vec<bool> {
        self.rule.settled_cases(cases)
    }

    fn inspects_runs(&self) -> bool {
        self.decides_by_runs
    }

    fn derive_metrics(&self, result: &mut RunResult) {
        let Some(rule) = &self.steady else { return };
        let [steady_time, ..] = analysis::warmup::warmup_metrics();
        result.metrics.insert(0, steady_time);
        match analysis::warmup::steady_time(&result.samples, rule) {
            Ok(sample) => result.samples.insert(0, sample),
            Err(class) => result.notes.push(format!("It has no steady part: {class}.")),
        }
    }
}
