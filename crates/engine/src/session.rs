//! Turns a request to measure into a plan ([`PreparedPlan::read`]) and into the record of a session
//! ([`session_header`]), and decides when a case needs no more runs ([`AnalysisStoppingRule`]).
//!
//! `rehearsal.rs` decides what to reject and what to warn about before measuring.

use crate::execution::{SessionEnd, StoppingRule};
use crate::experiment::{
    apply_file_plan, build_variants, check_requirements, divide_values, shared_processors_warning,
};
use crate::order::LOOKS_AT_PAIRS;
use crate::{
    EventListener, ExecutionArgs, MeasureRequest, PlanRequest, PreparedPlan, SessionRequest,
    VariantRequest, measured_code, order, revisions, shared_emitter,
};
use anyhow::{Context, Result, bail, ensure};
use speedwell_adapters::discover::{
    self, BenchmarkSelection, ComparisonSide, DiscoveredBenchmarks,
};
use speedwell_adapters::plan::SessionPlan;
use speedwell_adapters::snippet::sh::direct_program;
use speedwell_adapters::{
    self as adapters, BenchmarkJob, BenchmarkSource, KnownAdapters, RunResult, SourceKind,
    build_cost,
};
use speedwell_analysis::{
    self as analysis, AnalysisSettings, LayoutSpread, confirm, layout_spreads,
};
use speedwell_config::LazyDefinition;
use speedwell_config::experiment::Experiment;
use speedwell_machine::{environment, process};
use speedwell_model::{
    CodeOrigin, ComparedClock, DefinitionFile, Environment, LayoutVariation, OrderChoice,
    OrderRequest, Run, RunCount, RunOrder, SamplingOptions, Session, SessionDesign, SessionPurpose,
    SessionState, SnippetLanguage, SteadyRule, StoppingDesign, Variant, as_milliseconds,
};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uuid::Uuid;

/// Runs per side if instruction counts differ from run to run. Otherwise, two runs are enough.
const RUNS_THAT_DIFFER: u32 = 8;

impl PreparedPlan {
    /// Creates the plan of a new session.
    pub fn new(plan: SessionPlan, suite: DiscoveredBenchmarks) -> PreparedPlan {
        PreparedPlan { plan, suite, resumed: None, held: None }
    }

    /// Reads the targets and plans their execution.
    ///
    /// # Errors
    /// Fails if a target, a parameter value or a variant is unknown.
    pub fn read(
        request: &MeasureRequest,
        listener: &mut EventListener<'_>,
    ) -> Result<PreparedPlan> {
        process::adopt_orphans();
        process::install_handlers()?;
        let directory = std::env::current_dir()?;
        if let Some(file) = discover::find_experiment(&request.targets, &directory)? {
            return plan_experiment(&file, request, listener);
        }
        if request.plan.execution.is_order(RunOrder::Paired) {
            order::check_targets(&request.targets, &directory)?;
        }
        let mut resolved = request.variants.clone();
        if !resolved.revisions.is_empty() {
            resolved = revisions::check_out_revisions(&resolved, &request.targets, listener)?;
        }
        let sources = revisions::find_sources(&request.targets, &directory, &resolved.given)?;
        let declared = if resolved.given.is_empty() {
            discover::declared_variants(&sources)?
        } else {
            Vec::new()
        };
        let mut variants = resolved.build_variants(declared)?;
        let (emit, selection) = (shared_emitter(listener), &request.selection);
        revisions::place_benchmark_files(&variants, sources.iter())?;
        let mut suite = discover::discover_benchmarks(sources, selection, &variants[0], &emit)?;
        revisions::keep_common(&mut suite, &variants, selection, &emit)?;
        if let Some(division) = &resolved.division {
            ensure!(
                variants.len() == 1,
                "the definition file declares its own variants\nhint: leave out --by"
            );
            // The variants start the same program.
            let names = discover::divide_cases(&mut suite, division)?;
            let given = names.into_iter().map(Variant::plain).collect();
            let divided = VariantRequest { given, division: None, ..resolved.clone() };
            variants = divided.build_variants(Vec::new())?;
        } else {
            measured_code::record_benchmarks(&mut variants, &mut suite, selection, &emit)?;
        }
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
    ) -> Result<PreparedPlan> {
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

/// Reads and plans an experiment.
///
/// # Errors
/// Fails if the file is invalid or a requirement is not met.
fn plan_experiment(
    file: &Path,
    request: &MeasureRequest,
    listener: &mut EventListener<'_>,
) -> Result<PreparedPlan> {
    ensure!(
        request.variants.given.is_empty() && request.variants.division.is_none(),
        "'{}' declares its own variants\nhint: --variant, --old, --new and --by are for benchmark files",
        file.display()
    );
    let mut selection = request.selection.clone();
    let directory = std::env::current_dir()?;
    let file = std::fs::canonicalize(file)
        .with_context(|| format!("cannot resolve the path '{}'", file.display()))?;
    let mut definition = speedwell_config::read_source(&file, &selection.sets)?;
    let mut experiment = Experiment::parse(&definition)?;
    let adapters = KnownAdapters::new(&[], &directory)?;
    let mut sources = Vec::new();
    for file in experiment.groups.iter().flat_map(|group| &group.files) {
        sources.extend(discover::find_sources(&file.to_string_lossy(), &directory, &adapters)?);
    }
    let mut machine_lease = None;
    // Nothing has to be installed to list the cases.
    if !request.plan.execution.list {
        check_requirements(&experiment, listener)?;
        if let Some(roles_on_machines) = &experiment.place {
            let place_roles = request.place_roles.context("this command cannot use a fleet")?;
            let (placement, lease) = place_roles(roles_on_machines, &experiment.root, listener)?;
            definition.placement = Some(Box::new(placement));
            experiment.design.placement.clone_from(&definition.placement);
            machine_lease = Some(lease);
        }
    }
    let definition = Arc::new(LazyDefinition::from_parsed(definition, experiment));
    // The source of the servers and commands of the file. The name of the experiment is read when it
    // is described.
    let file = definition.source().file.as_path();
    let folder = file.parent().unwrap_or(Path::new("/"));
    let source = BenchmarkSource {
        name: file.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        definition: Some(Arc::clone(&definition)),
        ..BenchmarkSource::new(SourceKind::Experiment, file, folder, folder)
    };
    sources.insert(0, source);
    let experiment = definition.experiment()?;
    divide_values(experiment, &mut selection);
    let variants = build_variants(experiment, request)?;
    let mut suite = discover::discover_benchmarks(sources, &selection, &variants[0], &|_| ())?;
    suite.warnings.extend(shared_processors_warning(experiment));
    // The file of an experiment determines the order.
    let execution = ExecutionArgs { project_order: None, ..request.plan.execution.clone() };
    let mut plan = PlanRequest { execution, ..request.plan.clone() }.build_plan(variants, &suite);
    plan.design.order_choice = None;
    plan.design.experiment = Some(definition.source().clone());
    // In an experiment, the processor counts instructions as one metric among others, so no
    // separate tool counts them.
    plan.design.counting = None;
    apply_file_plan(experiment, &request.plan, &mut plan);
    Ok(PreparedPlan { held: machine_lease, ..PreparedPlan::new(plan, suite) })
}

impl VariantRequest {
    /// Returns the variants, the baseline first: the given variants, else the variants declared in
    /// files, else one plain variant.
    ///
    /// # Errors
    /// Fails if two variants have the same name, the baseline is unknown, or a program is missing.
    pub fn build_variants(&self, declared: Vec<Variant>) -> Result<Vec<Variant>> {
        let mut variants = self.given.clone();
        if variants.is_empty() {
            variants = declared;
            for program in variants.iter_mut().flat_map(|variant| &mut variant.program) {
                *program = process::resolve_program(program)?;
            }
        }
        if variants.is_empty() {
            variants.push(Variant::plain("default"));
        }
        for (position, variant) in variants.iter().enumerate() {
            let is_same = |earlier: &Variant| earlier.name == variant.name;
            if variants[..position].iter().any(is_same) {
                bail!("two variants are named '{}'", variant.name);
            }
        }
        // Values and benchmarks become variants only when the cases are known.
        if let Some(name) = self.baseline.as_ref().filter(|_| self.division.is_none()) {
            let names: Vec<&str> = variants.iter().map(|variant| variant.name.as_str()).collect();
            let position = names.iter().position(|names| names == name).with_context(|| {
                format!("no variant is named '{name}'\nhint: the variants are {}", names.join(", "))
            })?;
            variants.swap(0, position);
        }
        for variant in &mut variants {
            let arguments = self.arguments.iter().cloned();
            variant.arguments.splice(0..0, arguments);
        }
        Ok(variants)
    }
}

impl PlanRequest {
    /// Builds the plan for the discovered cases.
    pub fn build_plan(&self, variants: Vec<Variant>, suite: &DiscoveredBenchmarks) -> SessionPlan {
        let execution = &self.execution;
        let request = self.order_request(variants.len());
        let order = request.initial_order();
        let mut sampling = SamplingOptions {
            budget_ms: execution.budget.map(as_milliseconds),
            clock: match order {
                RunOrder::Paired => ComparedClock::Cpu,
                _ => execution.clock.unwrap_or_default(),
            },
            ..self.sampling.sampling_options(variants.len())
        };
        if self.counting.is_some() {
            let runs = self.sampling.runs.unwrap_or(RUNS_THAT_DIFFER);
            sampling.runs = RunCount::Fixed(runs.max(2));
        }
        let runs_per_block = match order {
            RunOrder::Paired => 1,
            _ if variants.len() == 1 => 1,
            _ => 2,
        };
        // The runs of a variant in a block all execute different builds.
        let builds = self.layout.builds.next_multiple_of(runs_per_block);
        let layout = LayoutVariation { builds, ..self.layout };
        let stopping = self.stopping_design(&sampling.runs, order, layout.builds);
        let order_choice =
            (request == OrderRequest::Auto && variants.len() > 1).then(|| OrderChoice {
                requested: request,
                reason: self.fixing_option().map(str::to_owned),
                clock: sampling.clock,
                trial: Vec::new(),
            });
        let design = SessionDesign {
            seed: execution.seed.unwrap_or_else(draw_seed),
            runs_per_block,
            // A confirmation asks only whether there is a change, so it has no threshold. The
            // interval shows the size of the change.
            threshold: self.threshold.filter(|_| !self.is_confirmation()),
            definitions: suite.definitions(),
            reject: execution.reject.clone().unwrap_or_default(),
            counting: self.counting.clone(),
            layout,
            purpose: self.purpose,
            order_choice,
            ..SessionDesign::new(order, stopping, &variants[0].name)
        };
        SessionPlan {
            jobs: suite.jobs.clone(),
            variants,
            design,
            sampling,
            pin: execution.pin.clone(),
            shared: false,
            is_search: false,
            strata: 1,
            part: None,
        }
    }

    /// Whether the purpose is to confirm or to bisect a suspected change.
    fn is_confirmation(&self) -> bool {
        matches!(self.purpose, SessionPurpose::Confirm | SessionPurpose::Bisect)
    }

    /// Returns the requested order. The project file's order applies unless an option needs blocks;
    /// a gate does not. A measurement with a purpose of its own, such as a confirmation, uses blocks
    /// unless another order is fixed.
    fn order_request(&self, variants: usize) -> OrderRequest {
        let given = self.execution.order.unwrap_or_default();
        match (self.purpose, self.fixing_option()) {
            (SessionPurpose::Measured, None | Some(PlanRequest::GATE_OPTION)) => {
                self.execution.order_request(variants)
            }
            (SessionPurpose::Measured, Some(_)) => given,
            _ => OrderRequest::Fixed(given.initial_order()),
        }
    }

    /// Decides when to stop measuring a case.
    fn stopping_design(&self, runs: &RunCount, order: RunOrder, builds: u32) -> StoppingDesign {
        if let RunCount::Fixed(runs) = *runs {
            return StoppingDesign::Fixed { runs };
        }
        let (looks, alpha) = if self.is_confirmation() {
            (confirm::CONFIRMATION_LOOKS.to_vec(), confirm::CONFIRMATION_ALPHA)
        } else {
            let confidence = self.confidence.unwrap_or(AnalysisSettings::DEFAULT_CONFIDENCE);
            (self.sampling.bounded_looks(&AnalysisSettings::DEFAULT_LOOKS), 1.0 - confidence)
        };
        let looks = match order {
            RunOrder::Paired => self.sampling.bounded_looks(&LOOKS_AT_PAIRS),
            _ => build_looks(&looks, builds),
        };
        let delta = self.threshold.unwrap_or(AnalysisSettings::DEFAULT_DELTA);
        StoppingDesign::Sequential { looks, alpha, delta }
    }
}

/// Returns the looks (interim analyses) of a comparison, as numbers of runs. If runs share builds,
/// each look comes after a whole number of builds, and the last look comes after all builds.
fn build_looks(default_looks: &[u32], builds: u32) -> Vec<u32> {
    let max_runs = default_looks.iter().copied().max().unwrap_or(0);
    if builds == 0 || builds >= max_runs {
        return default_looks.to_vec();
    }
    let runs_per_build = max_runs.div_ceil(builds);
    let looks = default_looks.iter().copied().filter(|look| *look < builds).chain([builds]);
    looks.map(|builds| builds * runs_per_build).collect()
}

/// Draws a random seed below 2^53, so that JSON parsers of other languages keep every digit.
pub fn draw_seed() -> u64 {
    uuid::Uuid::now_v7().as_u128() as u64 >> 11
}

/// Gives jobs the text that their definition file had at the start of the session. A plan written
/// by an earlier version of Speedwell lacks the text; in that case, this function reads each file
/// once.
///
/// # Errors
/// Fails if a definition file that the plan does not contain cannot be read.
pub fn attach_definitions(plan: &mut SessionPlan) -> Result<()> {
    let to_definition = |source: DefinitionFile| Arc::new(LazyDefinition::new(source));
    let stored = plan.design.experiment.iter().chain(&plan.design.definitions);
    let mut definitions: Vec<Arc<LazyDefinition>> = stored.cloned().map(to_definition).collect();
    let is_definition = |source: &&mut BenchmarkSource| {
        matches!(source.kind, SourceKind::Load | SourceKind::Experiment)
    };
    let sources = plan.jobs.iter_mut().flat_map(|job| {
        let sides = job.sides.iter_mut().map(|(_, side)| &mut side.source);
        std::iter::once(&mut job.source).chain(sides)
    });
    for source in sources.filter(is_definition) {
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
    pub ended: Result<SessionEnd>,
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
        ended: Result<SessionEnd>,
        planned: usize,
    ) -> MeasuredSession {
        MeasuredSession { session, in_parts, ended, planned, advice: None }
    }
}

/// Suggests how many runs per build would have given the narrowest intervals in the same time;
/// `None` if builds had one run each or do not differ.
pub fn suggest_runs_per_build(session: &Session) -> Option<String> {
    let build_s = build_cost()?.as_secs_f64();
    let runs_s = session.runs.iter().map(|run| run.wall_ns as f64 / 1e9);
    let run_s = runs_s.sum::<f64>() / session.runs.len().max(1) as f64;
    let spreads = layout_spreads(session, &[session.metrics.first()?]);
    let best_number = |spread: &LayoutSpread| spread.components.values_per_group(build_s / run_s);
    // Of the best numbers of all cases, take the largest.
    let runs = spreads.iter().filter_map(best_number).max()?;
    let runs = if runs == 1 { "1 run".to_owned() } else { format!("{runs} runs") };
    Some(format!(
        "in the same time, {runs} of every build would have been most informative: a build took \
         {build_s:.2} s, a run {run_s:.2} s"
    ))
}

/// Creates the record of the session as it is before the first run.
pub fn session_header(
    plan: &SessionPlan,
    suite: DiscoveredBenchmarks,
    request: &SessionRequest,
) -> Session {
    let placement = plan.design.experiment.as_ref().and_then(|file| file.placement.as_ref());
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

/// Returns the program of a shell command that is started without a shell.
fn command_program(job: &BenchmarkJob, variant: &Variant) -> Option<PathBuf> {
    let snippet = job.snippet_under(variant).filter(|_| variant.program.is_none())?;
    let is_direct = snippet.language == SnippetLanguage::Sh && !snippet.in_shell;
    is_direct.then(|| direct_program(&snippet.runner)).flatten()
}

/// Captures machine and programs once, before measuring. If the baseline's program is Node.js, it
/// may have reported its versions when it listed the cases. Other programs are started to print
/// their versions.
fn capture_environment(
    plan: &SessionPlan,
    suite: &DiscoveredBenchmarks,
    request: &SessionRequest,
) -> Environment {
    let first = plan.jobs.first();
    let program_of = |variant: &Variant| match first {
        Some(job) => command_program(job, variant)
            .or_else(|| Some(adapters::resolve_program_for(&job.source, variant))),
        None => variant.program.clone(),
    };
    let described_program = program_of(&plan.variants[0]);
    let described_versions = &suite.versions;
    let asks_version = plan.jobs.iter().all(|job| adapters::has_version(&job.source));
    let mut programs = Vec::new();
    let mut versions = Vec::new();
    // Snippets that are compared usually have the same program.
    let mut queried: BTreeMap<PathBuf, environment::ProgramVersion> = BTreeMap::new();
    for variant in &plan.variants {
        let Some(program) = program_of(variant) else { continue };
        let is_known = described_program.as_ref() == Some(&program);
        let path = process::resolve_program(&program).unwrap_or(program);
        let version = match asks_version {
            true if is_known && described_versions.contains_key("node") => {
                environment::ProgramVersion::from_version_table(described_versions.clone())
            }
            true => queried
                .entry(path.clone())
                .or_insert_with(|| environment::program_version(&path))
                .clone(),
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
