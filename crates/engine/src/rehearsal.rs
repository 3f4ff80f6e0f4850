//! Decides what to reject and what to warn about before measuring ([`check_plan`],
//! [`prepare_measurement`]), and which programs have a memory layout that cannot be varied.
//!
//! Also rehearses the plan ([`rehearse_plan`]): checks that every variant starts and that the
//! requested metrics exist. Benchmark files have already been listed under the first variant, so
//! under each of the other variants, files are listed only until one listing succeeds. Snippets run
//! once under every variant. No result is kept. If the order of runs is still open, `order.rs` runs
//! every case instead.

use crate::execution::map_concurrently;
use crate::trial::{announce_trial, rehearse_job};
use crate::{EventListener, PreparedPlan, SessionRequest, emit_warning, order, shared_emitter};
use anyhow::{Context, Result, anyhow, bail, ensure};
use speedwell_adapters::discover::{self, BenchmarkSelection};
use speedwell_adapters::plan::SessionPlan;
use speedwell_adapters::snippet::{self, sh};
use speedwell_adapters::{self as adapters, BenchmarkJob, BenchmarkSource, SourceKind};
use speedwell_analysis::{self as analysis, AnalysisSettings, check_metrics};
use speedwell_config::LazyDefinition;
use speedwell_config::experiment::Experiment;
use speedwell_machine::environment;
use speedwell_machine::process::{check_interrupted, resolve_program};
use speedwell_model::experiment::BenchmarkGroup;
use speedwell_model::{
    Case, FailureCause, LayoutVariation, RunOrder, SessionEvent, SessionPurpose, SnippetLanguage,
    StepFailure, Variant, quote,
};
use std::path::Path;
use std::thread;

/// Maximum number of files to list under a variant until one succeeds: a single file may fail for
/// reasons of its own.
const MAX_LISTED_FILES: usize = 3;

/// Maximum number of different failures to report. The message only gives the number of the others.
const MAX_REPORTED_FAILURES: usize = 5;

/// Metrics of commands. A run may lack some of them.
const COMMAND_METRICS: [&str; 10] = [
    "time_median",
    "time_p5",
    "throughput",
    "time",
    "cpu_time",
    "user_time",
    "system_time",
    "max_rss",
    "own_cpu_time",
    "shell_time",
];

/// Exit statuses of a shell for a program that cannot be executed or found (POSIX, 2.8.2).
const NOT_EXECUTED: [i32; 2] = [126, 127];

/// Checks a plan before anything is built or sent to other machines, and prepares to count
/// instructions if the plan requests that. The checks do not depend on where the plan is measured.
///
/// # Errors
/// Fails if the plan cannot be measured as requested.
pub fn check_plan(plans: &mut PreparedPlan) -> Result<()> {
    check_layout(&plans.plan)?;
    if plans.resumed.is_some() {
        return Ok(());
    }
    if plans.plan.design.order == RunOrder::Paired {
        order::check_paired(&plans.plan)?;
    }
    check_rules(&plans.plan)?;
    if plans.plan.design.counting.is_some() {
        order::prepare_counting(&mut plans.plan)?;
    }
    Ok(())
}

/// Prepares to measure a checked plan on this machine: builds packages, and tries the benchmarks of
/// a new session. Before time is spent on measuring, warns about too few runs for a verdict, options
/// without an effect and a busy machine. Also passes on the warnings from listing the cases.
///
/// # Errors
/// Fails if a package cannot be built, the trial shows that nothing can be measured, or the
/// listener fails.
pub fn prepare_measurement(
    plans: &mut PreparedPlan,
    request: &SessionRequest,
    listener: &mut EventListener<'_>,
) -> Result<()> {
    check_processors(&plans.plan)?;
    build_packages(&plans.plan, listener)?;
    if plans.resumed.is_none() {
        order::keep_blocks_if_needed(&mut plans.plan);
        rehearse_plan(&plans.plan, &plans.suite.failures, &request.settings)?;
        choose_order(&mut plans.plan, listener)?;
    }
    let PreparedPlan { plan, suite, .. } = plans;
    let undivided = request.divides_runs.then(|| undivided_warning(plan)).flatten();
    let other_warnings = reach_warning(plan, &request.settings).into_iter().chain(undivided);
    for warning in suite.warnings.iter().cloned().chain(other_warnings) {
        emit_warning(listener, &warning)?;
    }
    // Instruction counts do not depend on how busy the machine is.
    let counting = plan.design.counting.as_ref();
    let is_only_counted = counting.is_some_and(|counting| !counting.also_timed);
    // Pairs were chosen because the machine is busy.
    let has_chosen_pairs =
        plan.design.order_choice.is_some() && plan.design.order == RunOrder::Paired;
    if is_only_counted || has_chosen_pairs { Ok(()) } else { warn_if_busy(listener) }
}

/// Chooses the order of runs if it is still open, and reports the choice.
fn choose_order(plan: &mut SessionPlan, listener: &mut EventListener<'_>) -> Result<()> {
    if plan.design.has_open_order() {
        let trying = "running each case once, to choose the order of runs";
        listener.observe(&SessionEvent::Note(trying))?;
        let trial = order::run_trial(plan)?;
        reject_not_started(plan, &trial.failures, trial.runs)?;
        if !trial.is_complete {
            rehearse_snippets(plan)?;
        }
        order::choose_order(plan, trial);
    }
    let Some(choice) = plan.design.describe_order_choice() else { return Ok(()) };
    listener.observe(&SessionEvent::Note(&format!("order: {choice}")))
}

/// Builds all packages for all variants before the first run. Then no run waits for a build, and
/// compile errors are reported early.
///
/// # Errors
/// Fails if a package cannot be built, or the user interrupts.
pub fn build_packages(plan: &SessionPlan, listener: &mut EventListener<'_>) -> Result<()> {
    let emit = shared_emitter(listener);
    for job in &plan.jobs {
        for variant in &plan.variants {
            let program = adapters::resolve_program_for(&job.source, variant);
            let result = adapters::build_if_package(&job.source, &program, variant, &emit);
            // Check for an interrupt by the user first, because an interrupt also makes the build
            // fail.
            check_interrupted()?;
            result?;
        }
    }
    Ok(())
}

/// Rejects processors that this process may not use.
///
/// # Errors
/// Fails if the plan pins processes to such a processor.
pub fn check_processors(plan: &SessionPlan) -> Result<()> {
    plan.pin.iter().try_for_each(|pin| pin.check_usable().context("in --pin"))
}

/// Rejects plans with disturbance rules if single runs cannot be discarded and repeated.
fn check_rules(plan: &SessionPlan) -> Result<()> {
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
pub fn check_layout(plan: &SessionPlan) -> Result<()> {
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

fn check_job(job: &BenchmarkJob, layout: LayoutVariation) -> Result<()> {
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
            bail!("{language} is not linked, so there are no builds of such code\n{HINT}")
        }
        SourceKind::Node | SourceKind::NodeCore | SourceKind::Python if links => {
            bail!("'{name}' is not linked, so there are no builds of it\n{HINT}")
        }
        _ => Ok(()),
    }
}

/// Warns if the machine is busy with other work.
///
/// # Errors
/// Fails if the listener fails.
pub fn warn_if_busy(listener: &mut EventListener<'_>) -> Result<()> {
    let Some(sentence) = environment::busy_machine() else { return Ok(()) };
    listener.observe(&SessionEvent::Busy(&sentence))
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
    let unsupported = plan.jobs.iter().find_map(|job| {
        let option = adapters::unsupported_option(&job.source, plan.sampling.requested)?;
        Some(format!(
            "The suite of '{}' has no option for {option}, so the suite's default applies.",
            job.source.name
        ))
    });
    unsupported.or_else(|| {
        let undivided = plan.jobs.iter().find(|job| !job.source.kind.divides_runs())?;
        Some(format!(
            "'{}' controls its own measurements: --samples, --time, --iterations and \
             --warmup do not affect it.",
            undivided.source.name
        ))
    })
}

/// Rejects a plan if nothing, or only one side, could be measured.
///
/// # Errors
/// Fails if a variant cannot be started, no benchmark can be listed, or no case has a requested
/// metric.
pub fn rehearse_plan(
    plan: &SessionPlan,
    failures: &[StepFailure],
    settings: &AnalysisSettings,
) -> Result<()> {
    let serious_failures: Vec<&StepFailure> =
        failures.iter().filter(|failure| !failure.cause.is_skip()).collect();
    if plan.jobs.is_empty() && !serious_failures.is_empty() {
        return Err(describe_failures(&serious_failures, None));
    }
    // Backfills and bisections are not rejected: they record which revisions cannot be measured.
    let is_rehearsed =
        matches!(plan.design.purpose, SessionPurpose::Measured | SessionPurpose::Confirm);
    if !is_rehearsed || plan.jobs.is_empty() {
        return Ok(());
    }
    if let Some(experiment) = plan.experiment()? {
        // The requirements of the experiment were checked when it was planned.
        return check_defined_metrics(&[&*experiment], settings);
    }
    if !plan.design.has_open_order() {
        rehearse_snippets(plan)?;
    }
    for (index, variant) in plan.variants.iter().enumerate() {
        let is_listed =
            plan.variants[..index].iter().any(|earlier| is_started_alike(earlier, variant));
        if index > 0 && !is_listed {
            list_files(plan, variant)?;
        }
    }
    rehearse_metrics(plan, settings)?;
    Ok(check_interrupted()?)
}

/// Whether two variants start the same program in the same way.
fn is_started_alike(left: &Variant, right: &Variant) -> bool {
    let start_options = |variant: &Variant| {
        let folder = variant.worktree.as_ref().map(|worktree| worktree.folder.clone());
        (variant.program.clone(), variant.arguments.clone(), variant.environment.clone(), folder)
    };
    start_options(left) == start_options(right)
}

fn list_files(plan: &SessionPlan, variant: &Variant) -> Result<()> {
    let mut sources: Vec<&BenchmarkSource> = Vec::new();
    for job in plan.jobs.iter().filter(|job| starts_program(job)) {
        let source = &job.source;
        if sources.iter().all(|listed| listed.file != source.file) {
            sources.push(source);
        }
    }
    let mut failures = Vec::new();
    for source in sources.into_iter().take(MAX_LISTED_FILES) {
        let variant_source = [source.under(variant).into_owned()];
        let described = discover::describe_sources(
            &variant_source,
            &BenchmarkSelection::default(),
            variant,
            &|_| (),
        );
        check_interrupted()?;
        let failure = described.into_iter().find_map(|description| description.failure);
        match failure.filter(|failure| !failure.cause.is_skip()) {
            None => return Ok(()),
            Some(failure) if is_not_started(&failure) => {
                return Err(describe_failures(&[&failure], Some(variant)));
            }
            Some(failure) => failures.push(failure),
        }
    }
    if failures.is_empty() {
        return Ok(());
    }
    Err(describe_failures(&failures.iter().collect::<Vec<_>>(), Some(variant)))
}

/// Whether listing the job's file starts the variant's program.
fn starts_program(job: &BenchmarkJob) -> bool {
    let starts = !matches!(
        job.source.kind,
        SourceKind::Snippet(_) | SourceKind::Load | SourceKind::Experiment
    );
    starts && job.unavailable.is_none() && job.names.is_empty()
}

/// Runs every snippet once under every variant. Nothing is measured, so the runs are parallel,
/// unless a snippet is a command.
fn rehearse_snippets(plan: &SessionPlan) -> Result<()> {
    let mut jobs: Vec<usize> = Vec::new();
    for (index, job) in plan.jobs.iter().enumerate() {
        let is_snippet = matches!(job.source.kind, SourceKind::Snippet(_));
        let is_new = || jobs.iter().all(|earlier| plan.jobs[*earlier].snippet != job.snippet);
        let is_needless = plan.variants.len() == 1 && is_known_command(job, &plan.variants[0]);
        if is_snippet && is_new() && !is_needless {
            jobs.push(index);
        }
    }
    // In a paired plan, a trial has already run the baseline, to find out whether it waits.
    let first = usize::from(plan.design.order == RunOrder::Paired);
    let variants = first..plan.variants.len();
    let pairs: Vec<(usize, usize)> =
        jobs.iter().flat_map(|job| variants.clone().map(move |variant| (*job, variant))).collect();
    // Commands may write the same files or use the same port, so they never run in parallel.
    let is_command = |(job, variant): &(usize, usize)| {
        let snippet = plan.jobs[*job].snippet_under(&plan.variants[*variant]);
        snippet.is_some_and(|snippet| snippet.language == SnippetLanguage::Sh)
    };
    let processors = thread::available_parallelism().map_or(1, |count| count.get());
    let workers = if pairs.iter().any(is_command) { 1 } else { processors };
    let mut failures: Vec<(usize, StepFailure)> = Vec::new();
    for (index, batch) in pairs.chunks(workers).enumerate() {
        let _activity = announce_trial(index * workers, pairs.len());
        let results = map_concurrently(batch, |(job, variant)| rehearse_job(plan, *job, *variant));
        check_interrupted()?;
        let outcomes = batch.iter().zip(results);
        failures
            .extend(outcomes.filter_map(|((_, variant), (_, failure))| Some((*variant, failure?))));
    }
    reject_not_started(plan, &failures, pairs.len())
}

/// Rejects a plan if one of the tried programs cannot be started, or no code compiles. Each failure
/// has the index of its variant; `tried` is the number of runs.
fn reject_not_started(
    plan: &SessionPlan,
    failures: &[(usize, StepFailure)],
    tried: usize,
) -> Result<()> {
    let serious: Vec<&(usize, StepFailure)> =
        failures.iter().filter(|(_, failure)| !failure.cause.is_skip()).collect();
    if let Some((variant, failure)) = serious.iter().find(|(_, failure)| is_not_started(failure)) {
        return Err(describe_failures(&[failure], Some(&plan.variants[*variant])));
    }
    // Code that fails while it runs has started. The runs of the session will report its failure,
    // unless all code uses names that nothing defines.
    let is_permanent = |failed: &&(usize, StepFailure)| {
        let cause = &failed.1.cause;
        cause.is_compile_error() || snippet::undefined_name(cause).is_some()
    };
    if !serious.is_empty() && serious.len() == tried && serious.iter().all(is_permanent) {
        let all: Vec<&StepFailure> = serious.iter().map(|(_, failure)| failure).collect();
        return Err(describe_failures(&all, Some(&plan.variants[serious[0].0])));
    }
    Ok(())
}

/// Whether this is a command that the shell can parse and whose program exists. If nothing is
/// compared with such a command, its first run shows as much as a rehearsal, which would take just
/// as long.
fn is_known_command(job: &BenchmarkJob, variant: &Variant) -> bool {
    let Some(snippet) = job.snippet_under(variant) else { return false };
    let program = snippet.runner.split_whitespace().next().map(Path::new);
    snippet.language == SnippetLanguage::Sh
        && program.is_some_and(|program| resolve_program(program).is_ok())
        && shell_words::split(&snippet.runner).is_ok()
}

/// Runs jobs until all requested metrics have been reported.
fn rehearse_metrics(plan: &SessionPlan, settings: &AnalysisSettings) -> Result<()> {
    let names_metrics = !settings.metrics.is_empty() && !settings.wants_all_metrics();
    if !names_metrics || plan.design.counting.is_some() {
        return Ok(());
    }
    let is_command =
        |job: &BenchmarkJob| job.source.kind == SourceKind::Snippet(SnippetLanguage::Sh);
    if plan.jobs.iter().all(is_command) {
        // A command may run for a long time.
        check_metrics(settings, COMMAND_METRICS).context("in --metric")?;
    }
    let lazy = plan.jobs.iter().filter_map(|job| job.source.definition.as_deref());
    let definitions: Vec<&Experiment> =
        lazy.map(LazyDefinition::experiment).collect::<Result<_>>()?;
    if definitions.len() == plan.jobs.len() {
        return check_defined_metrics(&definitions, settings);
    }
    let mut reported: Vec<String> = Vec::new();
    for job in 0..plan.jobs.len() {
        let _activity = announce_trial(job, plan.jobs.len());
        let (metrics, _) = rehearse_job(plan, job, 0);
        reported.extend(metrics);
        check_interrupted()?;
        if settings.metrics.iter().all(|name| reported.contains(name)) {
            return Ok(());
        }
    }
    if reported.is_empty() {
        // Every trial failed; the runs will report why.
        return Ok(());
    }
    check_metrics(settings, reported.iter().map(String::as_str)).context("in --metric")
}

/// Checks requested metrics against the metrics declared in definition files.
fn check_defined_metrics(definitions: &[&Experiment], settings: &AnalysisSettings) -> Result<()> {
    let groups = || definitions.iter().flat_map(|definition| &definition.groups);
    let is_open = groups().any(|group| !group.files.is_empty());
    let is_known = |name: &String| groups().any(|group| group.find_metric(name).is_some());
    if is_open || settings.wants_all_metrics() || settings.metrics.iter().all(is_known) {
        // If a group has benchmark files, only runs show which metrics these files report.
        return Ok(());
    }
    let names: Vec<String> = groups().flat_map(BenchmarkGroup::metric_names).collect();
    check_metrics(settings, names.iter().map(String::as_str)).context("in --metric")
}

/// Whether the failure means that the program cannot be started at all, for any benchmark.
fn is_not_started(failure: &StepFailure) -> bool {
    match &failure.cause {
        FailureCause::Start { .. } => true,
        FailureCause::Exit { code } => NOT_EXECUTED.contains(code),
        cause => sh::is_not_started(cause),
    }
}

/// Describes the first failure with its output and a command that repeats it, and then failures
/// with other reasons. One line is enough for a program that did not start, or code that did not
/// compile.
fn describe_failures(failures: &[&StepFailure], variant: Option<&Variant>) -> anyhow::Error {
    let Some(first) = failures.first() else { return anyhow!("nothing can be measured") };
    let variant_clause =
        variant.map(|variant| format!(" of '{}'", variant.name)).unwrap_or_default();
    let describe = |failure: &StepFailure, reason: &str| match snippet_text(failure, variant) {
        Some(text) => format!("'{text}' {reason}"),
        None => format!("'{}'{variant_clause} {reason}", failure.benchmark),
    };
    let mut reasons = vec![first.reason_line()];
    let is_alike = |failure: &&StepFailure| failure.reason_line() == reasons[0];
    if variant.is_none() && failures.len() > 1 && failures.iter().all(is_alike) {
        let count = failures.len();
        return anyhow!(
            "all {count} benchmarks failed alike: {}{}",
            reasons[0],
            replay_hint(first)
        );
    }
    let (reason, output) = if is_not_started(first) || first.is_one_line() {
        (reasons[0].clone(), String::new())
    } else {
        (first.cause.to_string(), indented_output(first))
    };
    let mut different = String::new();
    for failure in &failures[1..] {
        let reason = failure.reason_line();
        if reasons.len() < MAX_REPORTED_FAILURES && !reasons.contains(&reason) {
            different += &format!("\n{}", describe(failure, &reason));
            reasons.push(reason);
        }
    }
    let others = match failures.len() - reasons.len() {
        0 => String::new(),
        others => format!(", and {others} more failed"),
    };
    // Hints come last.
    let (defect, hint) = reason.split_at(reason.find("\nhint: ").unwrap_or(reason.len()));
    let first_line = describe(first, defect);
    let next_step = module_hint(first).unwrap_or_else(|| replay_hint(first));
    anyhow!("{first_line}{others}{output}{different}{hint}{next_step}")
}

/// Returns the text of the snippet that failed. Programs that are compared on one snippet are not
/// named by it.
fn snippet_text(failure: &StepFailure, variant: Option<&Variant>) -> Option<String> {
    let case = Case::parse(failure.case.as_ref()?).ok()?;
    let named = variant.map(|variant| variant.name.as_str());
    let variant = failure.variant.as_deref().or(named).unwrap_or("default");
    let is_compared = case.value("code").is_some() && variant != "default";
    (case.snippet_language().is_some() && !is_compared).then(|| case.name_under(variant))
}

/// Suggests the file in this folder that defines the name which the snippet lacks.
fn module_hint(failure: &StepFailure) -> Option<String> {
    let case = Case::parse(failure.case.as_ref()?).ok()?;
    let name = snippet::undefined_name(&failure.cause)?;
    let file = snippet::find_module(case.snippet_language()?, name, Path::new("."))?;
    let option = quote(&format!("@{file}"));
    Some(format!("\nhint: '{file}' has this name; add --init {option}"))
}

/// Explains why a target lists no cases, with the output of the target and a command that repeats
/// the failure.
pub fn describe_failure(failure: &StepFailure) -> String {
    let reason = if failure.is_one_line() {
        failure.reason_line()
    } else {
        format!("{}{}", failure.cause, indented_output(failure))
    };
    format!("'{}' {reason}{}", failure.benchmark, replay_hint(failure))
}

fn indented_output(failure: &StepFailure) -> String {
    let lines: String = failure.stderr_tail.lines().map(|line| format!("\n  {line}")).collect();
    if lines.is_empty() { lines } else { format!(" and printed:{lines}") }
}

fn replay_hint(failure: &StepFailure) -> String {
    match failure.replay.as_str() {
        line if line.is_empty() || failure.has_install_hint() => String::new(),
        line => format!("\nhint: repeat it with: {line}"),
    }
}
