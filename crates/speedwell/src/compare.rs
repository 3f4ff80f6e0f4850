//! `speedwell compare`: compares existing results, or measures programs or variants and then
//! compares them.

use crate::gate::{CommandGate, every_metric};
use crate::operand::{SourceOperand, quote_all, script_command};
use crate::operand_kind::{OperandKind, is_target};
use crate::options::{FailOn, MeasureTask, RunArgs};
use crate::progress::ProgressDisplay;
use crate::source::ResultSource;
use crate::{CommandStatus, operand, operand_kind, run, source, stored_session, time};
use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;
use speedwell_adapters::discover::{BenchmarkPart, CaseDivision, ComparisonSide};
use speedwell_adapters::snippet::example_call;
use speedwell_adapters::{TrialMode, is_javascript, is_python};
use speedwell_analysis::{self as analysis, AnalysisFindings, AnalysisSettings, profile};
use speedwell_config::experiment::{DefinitionForm, Experiment, definition_form};
use speedwell_engine::PreparedPlan;
use speedwell_model::{RunOrder, Session, SnippetLanguage, StackProfile, quote};
use speedwell_report::sources::LabelledSession;
use speedwell_report::{self as report, ProfileSide, sources};
use std::path::Path;

/// Compare two or more of anything; the first is the baseline
///
/// A source is a result file (in any format that 'speedwell import' reads; '-' is stdin), a folder of result files, a
/// stored session (@latest, @prev, @NUMBER, @TAG, @rev:REVISION, @branch:NAME, @base), or a benchmark program, which is
/// measured in randomised blocks of fresh processes, or a command in quotes, which is timed. The first is the baseline.
/// For a single source with several variants, its variants are compared.
///
/// Two profiles (perf script output, .cpuprofile, folded stacks) are compared to show the extra cost of the second one: as a
/// table of functions, and as flame graphs with -o FILE.svg or FILE.html.
///
/// After a source, [VARIANT] selects a variant, and ::NAME selects benchmarks: by an equal name, PARAM=VALUE or value, else by
/// a pattern. What differs in the names is compared, also for benchmarks of one file, which are measured in one session. To combine several files as runs of one side, join them with
/// commas or give them the same NAME=.
#[derive(Debug, Args)]
#[command(
    mut_arg("targets", |arg| arg.value_name("A, B")
        .help("FILE[::NAME], @latest, @12, @TAG, or a quoted command")),
    // mut_arg moves an argument to the end. Call it for `arguments`, because the argument after
    // '--' must be the last.
    mut_arg("arguments", |arg| arg),
    override_usage = "speedwell compare [OPTION...] A B...
       speedwell compare [OPTION...] FILE --by PARAM[=V,V...]
       speedwell compare [OPTION...] --old P [--new P] TARGET...",
    after_help = "Examples:
  speedwell compare 'python3 a.py' 'python3 b.py'     # commands
  speedwell compare bench.js --by impl=regex,loop     # values of a parameter
  speedwell compare bench.py::parse bench.py::load    # benchmarks of a file
  speedwell compare --old rev:HEAD .                  # uncommitted changes
  speedwell compare --old rev:@base .                 # my whole branch
  speedwell compare before.json after.json            # results of any tool
  speedwell compare --old ./node-18 --new ./node-22 string_decoder
  speedwell compare --old rev:main --new rev:HEAD --build 'make bench' ./bench
  speedwell compare old=a1.json old=a2.json new=b1.json,b2.json
  speedwell compare ./bench-old ./bench-new -- --benchmark_min_time=0.1
  speedwell compare ./bench::BM_memcpy ./bench::BM_copy
  speedwell compare before.folded after.folded -o flame.html
  speedwell compare @prev @latest --fail-on worse --threshold 5%
  speedwell compare @base @latest
  speedwell compare '@latest[old]::memcpy' '@latest[new]::copy'")]
pub struct CompareArgs {
    #[command(flatten)]
    measuring: RunArgs,
}

/// Compares the sources, measuring programs first.
///
/// # Errors
/// Fails if a source cannot be read, the sources have nothing in common, or an option is invalid.
pub fn run(CompareArgs { measuring: mut args }: CompareArgs) -> Result<CommandStatus> {
    let study = &args.results.study;
    let measures_values = study.x_axis.is_none() || args.targets.iter().all(|word| is_target(word));
    let divides_cases = !study.by.is_empty() && measures_values;
    if args.variants.is_any() || divides_cases {
        if args.variants.variant.len() == 1 && !divides_cases {
            bail!("a single --variant cannot be compared\nhint: give a second one, or use 'run'");
        }
        if let Some(stored) = args.targets.iter().find(|target| target.starts_with('@')) {
            bail!(
                "'{stored}' is a stored result, which is not measured again\nhint: speedwell compare {stored}::A {stored}::B"
            );
        }
        return run::run(args);
    }
    let is_definition =
        |target: &String| definition_form(Path::new(target)) == Some(DefinitionForm::Benchmarks);
    if args.execution.resume.is_some() || args.targets.iter().any(is_definition) {
        return run::run(args);
    }
    ensure!(
        !args.targets.is_empty(),
        "nothing to compare\nhint: speedwell compare A B; 'speedwell compare -h' shows examples"
    );
    ensure!(
        !args.profile,
        "--profile needs an experiment, but these are results or programs\nhint: \
         'speedwell compare a.folded b.folded' compares existing profiles"
    );
    if let Some(word) = args.targets.iter().find(|target| target.starts_with("rev:")) {
        return Err(operand_kind::explain_revisions(word, &args.targets).unwrap_or_else(|| {
            anyhow!("'{word}' is unknown to git\nhint: speedwell compare --old rev:main --new rev:HEAD .")
        }));
    }
    let kinds = operand_kind::classify_all(&args)?;
    let command_of = |kind: &OperandKind| match kind {
        OperandKind::Command(command) => Some(command.clone()),
        _ => None,
    };
    let commands: Vec<String> = kinds.iter().filter_map(command_of).collect();
    if let [command] = &commands[..] {
        bail!("'{command}' alone cannot be compared\nhint: speedwell time {}", quote(command));
    }
    if !commands.is_empty() {
        args.arguments.clear();
        return time::compare_commands(commands, args);
    }
    let operands = operand::parse_all(&args.targets)?;
    if are_parts(&kinds, &operands) {
        return measure_parts(&operands, &args);
    }
    if let Some(profiles) = source::read_profiles(&operands)? {
        return compare_profiles(&operands, &profiles, &args);
    }
    let sides = program_sides(&operands, &args)?;
    match sides.len() {
        0 => compare_results(&operands, &args),
        count if count == operands.len() => measure_sides(&operands, &sides, &args),
        _ => compare_with_results(&operands, &sides, &args),
    }
}

/// Whether the operands are benchmarks of files, or of the same folder. A package may have several
/// programs, so its benchmarks are found as `run` finds them.
fn are_parts(kinds: &[OperandKind], operands: &[SourceOperand]) -> bool {
    if kinds.iter().all(|kind| *kind == OperandKind::Benchmarks) {
        return true;
    }
    let locations = &operands[0].locations;
    let [folder] = &locations[..] else { return false };
    let is_part = |operand: &SourceOperand| {
        operand.part.is_some() && operand.variant.is_none() && operand.locations == *locations
    };
    Path::new(folder).is_dir() && operands.iter().all(is_part)
}

/// Measures the named benchmarks of one file or folder as variants.
fn measure_parts(operands: &[SourceOperand], args: &RunArgs) -> Result<CommandStatus> {
    let locations = &operands[0].locations;
    if let Some(other) = operands.iter().find(|operand| operand.locations != *locations) {
        bail!(
            "'{}' and '{}' are benchmarks of different files\nhint: to measure both: speedwell run {} {}",
            operands[0].label,
            other.label,
            quote_all(locations),
            quote_all(&other.locations)
        );
    }
    let part_of = |operand: &SourceOperand| Some((operand.label.clone(), operand.part.clone()?));
    let parts: Vec<(String, BenchmarkPart)> = operands.iter().filter_map(part_of).collect();
    ensure!(
        parts.len() > 1,
        "'{}' alone cannot be compared\nhint: name a second benchmark, or use 'run'",
        args.targets[0]
    );
    let (selection, plan) = (&args.selection, args.plan_request()?);
    let mut request =
        selection.measure_request(locations, &args.arguments, &args.variants, plan)?;
    request.variants.division = Some(CaseDivision::Parts(parts));
    run::read_and_execute(args, |_, task| {
        PreparedPlan::read(&request, &mut task.progress_display())
    })
}

/// Returns the programs among the operands, and builds them if necessary.
fn program_sides(operands: &[SourceOperand], args: &RunArgs) -> Result<Vec<ComparisonSide>> {
    if args.execution.is_order(RunOrder::Paired) {
        let locations = operands.iter().flat_map(|operand| &operand.locations);
        let locations: Vec<String> = locations.cloned().collect();
        speedwell_engine::check_paired_targets(&locations, &std::env::current_dir()?)?;
    }
    let mut progress = ProgressDisplay::new(&args.results.output);
    let emitter = speedwell_engine::shared_emitter(&mut progress);
    let sides = operands.iter().filter_map(|operand| {
        operand::program_side(operand, &args.arguments, &emitter).transpose()
    });
    sides.collect()
}

fn measure_sides(
    operands: &[SourceOperand],
    sides: &[ComparisonSide],
    args: &RunArgs,
) -> Result<CommandStatus> {
    if let [only] = sides {
        let name = &only.variant.name;
        bail!(
            "'{name}' alone cannot be compared\nhint: name it twice for an A/A test, or use 'run'"
        );
    }
    let task = args.measure_task();
    let mut store = task.open_store()?;
    run::execute_plans(plan_sides(operands, sides, args)?, &mut store, &task)
}

fn plan_sides(
    operands: &[SourceOperand],
    sides: &[ComparisonSide],
    args: &RunArgs,
) -> Result<PreparedPlan> {
    let selection = args.selection.build_selection(&[], args.execution.trial_mode())?;
    let common_name = operand::common_name(operands);
    PreparedPlan::plan_sides(sides, common_name.as_deref(), &selection, &args.plan_request()?)
}

/// Measures the programs, then compares them with the existing results.
fn compare_with_results(
    operands: &[SourceOperand],
    sides: &[ComparisonSide],
    args: &RunArgs,
) -> Result<CommandStatus> {
    let settings = analysis_settings(args);
    let task = MeasureTask { settings: settings.clone(), ..args.measure_task() };
    let mut store = task.open_store()?;
    let mut plans = plan_sides(operands, sides, args)?;
    plans.plan.design.keep_order("compared with stored results");
    if args.execution.list || args.execution.test {
        return run::execute_plans(plans, &mut store, &task);
    }
    // Read the results first, so that unreadable results are reported before measuring.
    let selection = args.selection.build_selection(&[], TrialMode::No)?;
    let common_name = operand::common_name(operands);
    let mut others: Vec<Option<ResultSource>> = Vec::new();
    for operand in operands {
        let is_measured = sides.iter().any(|side| side.variant.name == operand.label);
        let read = || {
            let (operand, store) = (std::slice::from_ref(operand), &args.results.store);
            source::read_with_name(operand, common_name.as_deref(), &selection, store)
        };
        others.push(if is_measured { None } else { read()?.pop() });
    }
    source::check_outputs(operands, &args.results.output)?;
    let (session, ended) = run::measure_session(plans, &mut store, &task)?;
    let result_sessions = others.iter().flatten().map(|source| &source.session);
    stored_session::check_metrics(result_sessions.chain([&session]), &settings)?;
    let sources: Vec<LabelledSession<'_>> = operands
        .iter()
        .zip(&others)
        .map(|(operand, other)| match other {
            Some(source) => source.labelled(),
            None => (operand.label.clone(), &session, Some(operand.label.clone())),
        })
        .collect();
    sources::check_orders(&sources)?;
    let mut findings = analysis::compare_sources(&sources, &settings);
    args.results.store.mark_findings(&mut findings, &source_sessions(&sources));
    Ok(ended.combine_with_gate(print_comparison(&findings, &sources, &settings, args)?))
}

fn source_sessions<'a>(sources: &[LabelledSession<'a>]) -> Vec<&'a Session> {
    sources.iter().map(|(_, session, _)| *session).collect()
}

fn compare_results(operands: &[SourceOperand], args: &RunArgs) -> Result<CommandStatus> {
    let selection = args.selection.build_selection(&[], TrialMode::No)?;
    source::check_outputs(operands, &args.results.output)?;
    let mut sources = source::read_sources(operands, &selection, &args.results.store)
        .map_err(|error| explain_mistake(error, operands))?;
    let settings = analysis_settings(args);
    source::reject_identical(&sources)?;
    match (settings.baseline.as_deref(), &mut sources[..]) {
        (None, _) => {}
        (Some(name), [only]) => {
            stored_session::check_variant(&only.session, Some(name)).context("in --baseline")?;
        }
        (Some(name), other_sources) => put_first(other_sources, name)?,
    }
    stored_session::check_metrics(sources.iter().map(|source| &source.session), &settings)?;
    let sources: Vec<LabelledSession<'_>> = sources.iter().map(ResultSource::labelled).collect();
    let mut findings = sources::compare_sources(&sources, &settings)?;
    args.results.store.mark_findings(&mut findings, &source_sessions(&sources));
    print_comparison(&findings, &sources, &settings, args)
}

/// Moves the source with this name to the front, where the baseline is.
fn put_first(sources: &mut [ResultSource], name: &str) -> Result<()> {
    let labels: Vec<&str> = sources.iter().map(|source| source.label.as_str()).collect();
    match labels.iter().position(|label| *label == name) {
        Some(index) => sources[..=index].rotate_right(1),
        None => bail!(
            "in --baseline: no source is named '{name}'\nhint: the sources are {}",
            labels.join(", ")
        ),
    }
    Ok(())
}

fn analysis_settings(args: &RunArgs) -> AnalysisSettings {
    let baseline = args.variants.baseline.as_deref();
    args.results.comparison.analysis_settings(&args.selection.metric.names, baseline)
}

/// Prints the document and returns the exit status of the gate.
fn print_comparison(
    findings: &AnalysisFindings,
    sources: &[LabelledSession<'_>],
    settings: &AnalysisSettings,
    args: &RunArgs,
) -> Result<CommandStatus> {
    let output = args.results.output.report_settings();
    let study = args.results.study.study_choice();
    let first = sources.first();
    let experiment = first.map_or(Ok(None), |(_, session, _)| Experiment::of_session(session))?;
    let reported = (sources, experiment.as_deref());
    let document = sources::report_sources(reported, findings, &study, settings, &output)?;
    let gate = CommandGate::new(findings, args.results.comparison.fail_on, || {
        sources::compare_sources(sources, &every_metric(settings)?).ok()
    });
    let status = gate.print_report(document, &args.results.output)?;
    sources::check_rows(findings, sources)?;
    Ok(status)
}

/// If an operand is a benchmark, or all operands are scripts, returns an error that suggests how to
/// measure them. Otherwise, returns `error`.
fn explain_mistake(error: anyhow::Error, operands: &[SourceOperand]) -> anyhow::Error {
    let locations: Vec<&String> = operands.iter().flat_map(|operand| &operand.locations).collect();
    if let Some(target) = locations.iter().find(|location| is_target(location)) {
        let (first, all_locations) = (quote(target), quote_all(&locations));
        return anyhow!(
            "'{target}' is a benchmark, not a result\nhint: to compare values of a parameter: speedwell compare {first} --by PARAM\n\
             hint: to compare two programs on it: speedwell compare --old PROGRAM --new PROGRAM {first}\n\
             hint: to measure without comparing: speedwell run {all_locations}"
        );
    }
    if let Some(functions) = quote_functions(operands) {
        return anyhow!(
            "'{}' is a script without benchmarks\nhint: to compare functions, with values for their parameters: \
             speedwell eval {functions}",
            locations[0]
        );
    }
    let scripts = locations.iter().map(|location| script_command(Path::new(location)));
    match scripts.collect::<Option<Vec<String>>>() {
        Some(commands) if commands.len() > 1 => anyhow!(
            "'{}' is a script without benchmarks\nhint: to compare how long scripts take: speedwell compare {}",
            locations[0],
            quote_all(&commands)
        ),
        _ => error,
    }
}

/// Returns the operands of `eval` that compare functions of scripts, if every operand is of the form
/// `FILE::NAME`.
fn quote_functions(operands: &[SourceOperand]) -> Option<String> {
    let mut functions: Vec<(&str, &str)> = Vec::new();
    for operand in operands {
        let [file] = &operand.locations[..] else { return None };
        functions.push((file.as_str(), operand.part.as_ref()?.pattern()));
    }
    let mut files: Vec<&str> = functions.iter().map(|(file, _)| *file).collect();
    let first = *files.first()?;
    if files.iter().all(|file| *file == first) {
        files.truncate(1);
    }
    let are_all = |is_kind: fn(&Path) -> bool| {
        files.iter().all(|file| is_kind(Path::new(file)) && Path::new(file).is_file())
    };
    let language = match (are_all(is_javascript), are_all(is_python)) {
        (true, _) => SnippetLanguage::Node,
        (_, true) => SnippetLanguage::Python,
        _ => return None,
    };
    let call = |(file, name): &(&str, &str)| {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        example_call(language, &text, Some(*name)).unwrap_or_else(|| format!("{name}()"))
    };
    let calls: Vec<String> = functions.iter().map(call).collect();
    let inits: String =
        files.iter().map(|file| format!("--init {} ", quote(&format!("@{file}")))).collect();
    Some(format!("{language} {inits}{}", quote_all(&calls)))
}

/// Compares two profiles.
///
/// # Errors
/// Fails if there are not exactly two profiles, if their units differ, or if `--fail-on` is given.
fn compare_profiles(
    operands: &[SourceOperand],
    profiles: &[StackProfile],
    args: &RunArgs,
) -> Result<CommandStatus> {
    let ([old_name, new_name], [old, new]) = (operands, profiles) else {
        bail!(
            "cannot compare {}: expected two",
            report::format_count(operands.len(), "profile", "profiles")
        );
    };
    if old.unit != new.unit {
        bail!("the costs of '{}' and '{}' have different units", old_name.label, new_name.label);
    }
    if args.results.comparison.fail_on != FailOn::Never {
        bail!(
            "--fail-on needs a verdict, but profiles have none: they show where costs differ, not whether a difference is more than noise"
        );
    }
    let sides = [(old_name, old), (new_name, new)]
        .map(|(operand, profile)| ProfileSide { label: &operand.label, profile });
    let difference = profile::explain_difference(old, new);
    let document =
        report::report_profiles(sides, &difference, &args.results.output.report_settings());
    args.results.output.print_document(&document)?;
    Ok(CommandStatus::DONE)
}
