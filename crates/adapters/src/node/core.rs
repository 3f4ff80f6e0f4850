//! Runs unmodified benchmark scripts of Node.js core, with the unmodified `common.js` of their
//! folder.
//!
//! [`enumerate_cases`] enumerates the cases by running the file's own code, without measuring. A
//! preloaded script intercepts the start of each case and reports the case instead. The folder's own
//! `common.js` runs, so its filters, groups and future options work without further support.
//!
//! Each sample is one process. Node.js core's runner would start a child, which starts another
//! process that measures. We start that last process directly, so that a sample costs one start of
//! Node.js instead of two or three. A script that starts its cases in its own way is executed as a
//! whole.

use super::http_tool::{
    OWN_TOOL, ToolChoice, ToolShim, choose_tool, tool_alias, with_isolated_environment,
};
use super::{JsRuntime, LEAKED_VARIABLES, ReportCollector, search_path};
use crate::cache::{self, DescriptionOrigin};
use crate::failure::{HarnessFailure, converse};
use crate::job::{
    BenchmarkDescription, BenchmarkJob, DeclaredParameter, DescribeRequest, RunContext, StartMode,
    TrialMode, permits_value,
};
use crate::suites::command::CollectedOutput;
use crate::{DescribeResult, LanguageHarness, RunOutcome, sources};
use serde::Deserialize;
use speedwell_machine::process::{ChannelKind, ProcessEnd, ProcessOutcome, ProcessSpec};
use speedwell_model::{Case, FailureCause, ParameterValue};
use std::collections::{BTreeMap, HashSet};
use std::path::Path;

/// Harness for folders with their own `common.js`.
pub struct NodeCoreHarness;

impl LanguageHarness for NodeCoreHarness {
    fn describe_source(&self, request: &DescribeRequest) -> DescribeResult {
        if let Some(reason) = refuse_runtime(&request.program) {
            let spec = ProcessSpec::new(&request.program);
            return Err(HarnessFailure::invalid(reason).with_replay(&spec));
        }
        let text = std::fs::read_to_string(&request.source.file).unwrap_or_default();
        let tool = choose_tool(&text, request);
        let enumerated = match request.selection.trial {
            TrialMode::No => enumerate_cases(request, request.assignments())?,
            TrialMode::Own | TrialMode::EveryWord => enumerate_trial(request)?,
        };
        Ok(match enumerated {
            Some(found) => to_description(request, found, &tool),
            None => describe_as_one_job(request, &tool),
        })
    }

    fn perform_job(&self, setting: &RunContext<'_>) -> Result<RunOutcome, HarnessFailure> {
        let job = setting.job;
        // A replay command omits the port and the search path that Speedwell chooses, except for
        // the folder of its own load generator.
        let bare = bare_spec(setting);
        let (spec, shim) = with_http_tool(bare.clone(), job.http_tool.as_deref());
        let bare = with_shim_path(bare, shim.as_ref());
        let refusal = refuse_runtime(&setting.program);
        if let Some(reason) = job.unavailable.as_deref().or(refusal) {
            return Err(HarnessFailure::invalid(reason).with_replay(&bare));
        }
        let expected = (job.route == StartMode::Direct).then_some(1);
        let name = Some(job.source.name.clone());
        let mut reports =
            ReportCollector { name, expected, shim, test: job.test, ..ReportCollector::default() };
        let outcome = converse(&setting.layout.apply_to(&spec), &bare, &mut reports)?;
        let mut fault = reports.find_fault();
        if fault == Some(FailureCause::Silent) {
            fault = skip_cause(&outcome).or(fault);
        }
        let mut results = reports.observations;
        // We cannot read a clock inside the folder's library, so we take the processor time of the
        // whole process. If an HTTP tool runs, we report no processor time, because the tool would
        // use most of it.
        if let (Some(_), [result], None) = (expected, &mut results[..], &job.http_tool) {
            result.add_cpu_times(&[outcome.usage.cpu_ns() as f64]);
        }
        Ok(RunOutcome::from_process(&bare, &outcome, results, fault, setting))
    }
}

/// If the program cannot measure a folder with its own `common.js`, returns the reason.
fn refuse_runtime(program: &Path) -> Option<&'static str> {
    (JsRuntime::from_program(program) == JsRuntime::Deno).then_some(
        "benchmarks in a folder with its own common.js report over a channel that only Node.js \
         provides, so they cannot be measured with Deno; files that use the package 'speedwell' can",
    )
}

/// Enumerates cases for a trial: every combination of non-numeric values, with the small numbers
/// that the file uses for trials. Node.js core's own trial ignores the user's values and runs only
/// one case per file, so broken cases go unnoticed. Only [`TrialMode::Own`] enumerates that trial
/// unchanged.
fn enumerate_trial(request: &DescribeRequest) -> ProbeOutcome {
    let trial = |extra_arguments: Vec<String>| {
        let mut arguments = vec!["--test".to_owned()];
        arguments.extend(request.assignments());
        arguments.extend(extra_arguments);
        enumerate_cases(request, arguments)
    };
    if request.selection.trial == TrialMode::Own {
        return trial(Vec::new());
    }
    let (full, small) = match (enumerate_cases(request, request.assignments()), trial(Vec::new())) {
        (Ok(Some(full)), Ok(Some(small))) => (full, small),
        (_, small) => return small,
    };
    let extra_arguments = missing_words(&full, &small, request);
    let mut found = if extra_arguments.is_empty() {
        small
    } else {
        trial(extra_arguments).ok().flatten().unwrap_or(small)
    };
    found.cases.retain(|case| {
        let mut pairs = case.args.iter().filter_map(|word| word.split_once('='));
        pairs.all(|(name, value)| permits_value(&request.sets, name, value))
    });
    for case in &mut found.cases {
        let measured = full.cases.iter().find(|full| non_numbers(case) == non_numbers(full));
        case.measured = measured.filter(|m| m.args != case.args).cloned().map(Box::new);
    }
    let mut known_cases = HashSet::new();
    found.cases.retain(|case| known_cases.insert(case.clone()));
    Ok(Some(found))
}

/// Returns `name=value` for every non-numeric value that measurements use and the file's own trial
/// omits. Leaves out parameters that the user set, and parameters for which the trial starts with a
/// different value.
fn missing_words(
    full: &EnumeratedCases,
    small: &EnumeratedCases,
    request: &DescribeRequest,
) -> Vec<String> {
    let first_value = |found: &EnumeratedCases, name: &str| {
        let words = &found.cases.first()?.args;
        words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('=')).map(str::to_owned)
    };
    let mut words = Vec::new();
    for DeclaredParameter { name, values } in collect_parameters(&full.cases) {
        let is_set = request.sets.iter().any(|(set, _)| *set == name);
        if !is_set && first_value(full, &name) == first_value(small, &name) {
            let omitted = values.iter().skip(1).filter(|value| !is_number(value));
            words.extend(omitted.map(|value| format!("{name}={}", value.plain())));
        }
    }
    words
}

fn is_number(value: &ParameterValue) -> bool {
    matches!(value, ParameterValue::Number(_))
}

/// Returns the values of a case, with `None` for numbers.
fn non_numbers(case: &ObservedCase) -> Vec<(String, Option<ParameterValue>)> {
    let values = parse_values(&case.args).into_iter();
    values.map(|(name, value)| (name, Some(value).filter(|value| !is_number(value)))).collect()
}

fn to_description(
    request: &DescribeRequest,
    found: EnumeratedCases,
    tool: &ToolChoice,
) -> BenchmarkDescription {
    let source = &request.source;
    let mut description = BenchmarkDescription {
        parameters: declared_parameters(request, &found),
        versions: found.versions,
        loaded: found.origin.depends.files,
        ..Default::default()
    };
    if found.cases.is_empty() {
        let warning =
            format!("'{}' has no cases: its own filter excludes all of them.", source.name);
        description.warnings.push(warning);
    }
    let job_for = |case: &ObservedCase| {
        let job = BenchmarkJob {
            label: Case::new(&source.name, parse_values(&case.args)).id(),
            flags: case.flags.clone(),
            arguments: case.args.clone(),
            ..request.draft_job()
        };
        tool.assign_to(job)
    };
    let with_measured = |case: &ObservedCase| {
        let measured = case.measured.as_deref().map(|case| Box::new(job_for(case)));
        BenchmarkJob { measured, ..job_for(case) }
    };
    description.jobs = found.cases.iter().map(with_measured).collect();
    description
}

/// Returns the parameters that the file declares. If these could not be observed, collects the
/// parameters from the cases instead. Because values set by the user may add undeclared parameters,
/// these cases are then enumerated without the user's values.
fn declared_parameters(
    request: &DescribeRequest,
    found: &EnumeratedCases,
) -> Vec<DeclaredParameter> {
    if let Some(declared) = &found.declared {
        return declared.clone();
    }
    if request.sets.is_empty() {
        return collect_parameters(&found.cases);
    }
    let plain = DescribeRequest { sets: Vec::new(), ..request.clone() };
    let plain_cases = enumerate_cases(&plain, Vec::new()).ok().flatten();
    collect_parameters(&plain_cases.as_ref().unwrap_or(found).cases)
}

fn describe_as_one_job(request: &DescribeRequest, tool: &ToolChoice) -> BenchmarkDescription {
    let mut arguments = request.assignments();
    if request.selection.trial != TrialMode::No {
        arguments.insert(0, "--test".into());
    }
    let job = BenchmarkJob { route: StartMode::Parent, arguments, ..request.draft_job() };
    BenchmarkDescription { jobs: vec![tool.assign_to(job)], ..BenchmarkDescription::default() }
}

/// Parses words of the form `name=value`. Guesses each value's kind; a report states the kind
/// later.
fn parse_values(arguments: &[String]) -> Vec<(String, ParameterValue)> {
    let pair = |word: &String| {
        let (name, value) = word.split_once('=')?;
        Some((name.to_owned(), ParameterValue::infer_value(value)))
    };
    arguments.iter().filter_map(pair).collect()
}

fn collect_parameters(cases: &[ObservedCase]) -> Vec<DeclaredParameter> {
    DeclaredParameter::collect(cases.iter().flat_map(|case| parse_values(&case.args)))
}

/// Returns the process that yields one sample. Any HTTP tool is made available to it later.
fn bare_spec(setting: &RunContext<'_>) -> ProcessSpec {
    let job = setting.job;
    let mut spec = ProcessSpec::new(&setting.program);
    spec.arguments.extend(setting.variant.arguments.iter().cloned());
    spec.arguments.extend(job.flags.iter().cloned());
    spec.arguments.push(job.source.file.to_string_lossy().into_owned());
    spec.arguments.extend(job.arguments.iter().map(|word| argument_text(word, job)));
    spec.directory = Some(job.source.directory.clone());
    spec.unset = LEAKED_VARIABLES.map(str::to_owned).to_vec();
    spec.environment.extend(setting.variant.environment.iter().cloned());
    if job.route == StartMode::Direct {
        spec.environment.push(("NODE_RUN_BENCHMARK_FN".into(), String::new()));
    }
    if job.test {
        spec.environment.push(("NODEJS_BENCHMARK_ZERO_ALLOWED".into(), "1".into()));
    }
    spec.limit = setting.limit();
    spec.pin = setting.pin.cloned();
    spec.channel = ChannelKind::NodeSocket;
    spec
}

/// Translates an argument for the folder's own library. The library does not support our load
/// generator, so the generator gets the name of a tool that the library knows.
fn argument_text(word: &str, job: &BenchmarkJob) -> String {
    match (word.strip_prefix("benchmarker="), &job.http_tool) {
        (Some(OWN_TOOL), Some(tool)) => format!("benchmarker={}", tool_alias(tool)),
        _ => word.to_owned(),
    }
}

/// Makes the chosen HTTP tool available through a shim that saves its output. If no shim can be
/// created, the tool is available directly.
fn with_http_tool(spec: ProcessSpec, tool: Option<&str>) -> (ProcessSpec, Option<ToolShim>) {
    let Some(shim) = tool.and_then(ToolShim::new) else {
        return (with_isolated_environment(spec, tool), None);
    };
    let mut spec = with_isolated_environment(spec, None);
    if let Some((_, path)) = spec.environment.iter_mut().find(|(name, _)| name == "PATH") {
        *path = format!("{}:{path}", shim.folder.display());
    }
    spec.environment.extend(shim.environment());
    (spec, Some(shim))
}

/// Adds the folder of our load generator to the search path of the replay command.
fn with_shim_path(bare: ProcessSpec, shim: Option<&ToolShim>) -> ProcessSpec {
    let own_shim = shim.filter(|shim| shim.tool == OWN_TOOL);
    match (own_shim, std::env::var("PATH")) {
        (Some(shim), Ok(path)) => bare.env("PATH", format!("{}:{path}", shim.folder.display())),
        _ => bare,
    }
}

/// Output of the preloaded script at the end of the process.
#[derive(Debug, Clone, Deserialize)]
struct EnumeratedCases {
    pub cases: Vec<ObservedCase>,
    #[serde(default)]
    pub needs_parent: bool,
    #[serde(default)]
    pub error: Option<ThrownError>,
    /// Parameters that the file declares, if its library could be observed.
    #[serde(default)]
    pub declared: Option<Vec<DeclaredParameter>>,
    #[serde(default)]
    pub versions: BTreeMap<String, String>,
    #[serde(flatten)]
    origin: DescriptionOrigin,
}

/// One case that would have been started.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
struct ObservedCase {
    pub args: Vec<String>,
    #[serde(rename = "execArgv")]
    pub flags: Vec<String>,
    /// In a trial, the same case with its regular values; see [`crate::BenchmarkJob::measured`].
    #[serde(skip)]
    pub measured: Option<Box<ObservedCase>>,
}

/// An exception that ended the enumeration.
#[derive(Debug, Clone, Deserialize)]
struct ThrownError {
    #[serde(default)]
    pub class: String,
    #[serde(default)]
    pub message: String,
}

/// Result of an enumeration: the listed cases; `None` if the file did not end, or cannot list its
/// cases, so all of them must be executed together; or why the file failed or cannot run here.
type ProbeOutcome = Result<Option<EnumeratedCases>, HarnessFailure>;

/// Runs the file with the preloaded script and these arguments.
fn enumerate_cases(request: &DescribeRequest, arguments: Vec<String>) -> ProbeOutcome {
    let source = &request.source;
    let mut spec = ProcessSpec::new(&request.program);
    spec.directory = Some(source.directory.clone());
    spec.unset = LEAKED_VARIABLES.map(str::to_owned).to_vec();
    spec.limit = request.limit;
    spec.channel = ChannelKind::Pipe("SPEEDWELL_PROBE_FD");
    let script = sources::NODE.folder()?.join("probe.cjs");
    spec = spec.args(["-r", &script.to_string_lossy(), &source.file.to_string_lossy()]);
    spec.arguments.extend(arguments);
    // The replay command starts the file without the preloaded script.
    let bare = ProcessSpec {
        channel: ChannelKind::None,
        arguments: spec.arguments[2..].to_vec(),
        ..spec.clone()
    };
    let mut spec = with_isolated_environment(spec, None);
    spec.environment.extend(search_path(&request.variant));
    let mut output = CollectedOutput::default();
    let outcome = cache::ask_cached(&spec, &bare, &mut output, dependencies_in)?;
    // The preloaded script writes a single line.
    let mut lines = output.0.rsplit(|&byte| byte == b'\n');
    let enumerated = lines.find_map(|line| serde_json::from_slice(line).ok());
    interpret_outcome(enumerated, bare, outcome)
}

/// Returns what an enumeration depends on, if it succeeded.
fn dependencies_in(line: &[u8]) -> Option<DescriptionOrigin> {
    let enumerated: EnumeratedCases = serde_json::from_slice(line).ok()?;
    let is_complete =
        enumerated.error.is_none() && !enumerated.needs_parent && !enumerated.cases.is_empty();
    is_complete.then_some(enumerated.origin)
}

fn interpret_outcome(
    enumerated: Option<EnumeratedCases>,
    spec: ProcessSpec,
    outcome: Option<ProcessOutcome>,
) -> ProbeOutcome {
    let Some(outcome) = outcome else {
        // Only successful enumerations are cached.
        return Ok(enumerated);
    };
    if matches!(outcome.ended, ProcessEnd::Timeout | ProcessEnd::Lingered | ProcessEnd::Interrupted)
    {
        return Ok(None);
    }
    let is_empty = enumerated.as_ref().is_none_or(|enumerated| enumerated.cases.is_empty());
    let skipped = if is_empty { skip_cause(&outcome) } else { None };
    let thrown = || {
        let thrown = enumerated.as_ref()?.error.as_ref()?;
        let first_line = thrown.message.lines().next().unwrap_or_default();
        Some(FailureCause::invalid(format!("{}: {first_line}", thrown.class)))
    };
    match skipped.or_else(thrown).or_else(|| outcome.failure_cause(spec.limit)) {
        Some(cause) => Err(HarnessFailure::of_process(cause, &outcome).with_replay(&spec)),
        None => Ok(enumerated.filter(|enumerated| !enumerated.needs_parent)),
    }
}

/// If a script reported nothing and its output says that it cannot run here, returns the reason.
fn skip_cause(outcome: &ProcessOutcome) -> Option<FailureCause> {
    let has_message = |output: &str| output.contains("Binding failed to load");
    let is_skipped = has_message(&outcome.stdout.text()) || has_message(&outcome.stderr.text());
    let reason = "its native addon is not built (Binding failed to load)".to_owned();
    is_skipped.then_some(FailureCause::Skipped { reason })
}
