//! Measures benchmarks of other frameworks through adapters: lists the cases, executes each case in
//! a fresh process, and parses the results.
//!
//! This file decides how cases are listed ([`CaseListing`]), how one case is started, and how its
//! output is read ([`extract_observation`]). `build.rs` decides how packages are built. Some
//! frameworks list benchmarks without the cases within them; each selected benchmark is then
//! executed once to find its cases. The adapters in `crates/adapters/suites/*.toml` declare the
//! options of each framework, and `formats::foreign::suites` parses the output. [`KnownAdapters`]
//! recognizes files. Start at [`FrameworkHarness`].

mod build;
pub mod command;
mod registry;

pub use build::{build_if_package, build_single_program};
pub use registry::{
    KnownAdapters, builtin_adapter, deserialize_adapter, explain_framework, files_matching,
    framework_without_adapter, is_elf, is_script, is_wrapper, serialize_adapter,
};

use crate::failure::{HarnessFailure, converse, start_reason};
use crate::job::{
    BenchmarkDescription, BenchmarkJob, BenchmarkSource, DeclaredParameter, DescribeRequest,
    RunContext, SuiteCase, permits_value,
};
use crate::{DescribeResult, LanguageHarness, ModuleLog, RunOutcome, RunResult};
use anyhow::{Context as _, Result, ensure};
use build::{BuiltProgram, target_programs};
use command::{
    CollectedOutput, PlaceholderValues, RESULT_PIPE, ResultLocation, read_result_file,
    remove_decided, with_placeholders,
};
use regex::Regex;
use speedwell_config::adapter::{GoodDirection, ResultFormat, SuiteAdapter, VersionSource};
use speedwell_formats::foreign::suites::{
    ReportedResult, catch2, configured, jmh, pytest_benchmark, rust, vitest,
};
use speedwell_formats::foreign::{diagnosis, google_benchmark, require_utf8};
use speedwell_formats::{go_bench, pyperf};
use speedwell_machine::process::{
    ChannelKind, ProcessEnd, ProcessSpec, ScratchFolder, run_child, shell_line,
};
use speedwell_model::{Case, FailureCause, Metric, MetricDirection, RequestedDivision};
use std::collections::{HashMap, HashSet};
use std::io::ErrorKind;
use std::time::Duration;

/// Harness for all adapters.
pub struct FrameworkHarness;

impl LanguageHarness for FrameworkHarness {
    fn describe_source(&self, request: &DescribeRequest) -> DescribeResult {
        let source = &request.source;
        let mut description = BenchmarkDescription::default();
        for built in target_programs(source, &request.program, &request.variant)? {
            match (CaseListing { request, built: &built }).describe_cases() {
                Ok(described) => {
                    description.jobs.extend(described.jobs);
                    description.suites.extend(described.suites);
                    description.warnings.extend(described.warnings);
                }
                Err(failure) => {
                    description.failure.get_or_insert_with(|| failure.in_description(source));
                }
            }
        }
        let cases = description.jobs.iter().filter_map(|job| job.case.as_ref());
        let values = cases.flat_map(|case| case.values.iter().cloned());
        description.parameters = DeclaredParameter::collect(values);
        select_values(&mut description, &request.sets);
        Ok(description)
    }

    fn perform_job(&self, setting: &RunContext<'_>) -> Result<RunOutcome, HarnessFailure> {
        let job = setting.job;
        let mut programs = target_programs(&job.source, &setting.program, setting.variant)?;
        let wanted = job.in_suite.as_ref().and_then(|suite_case| suite_case.target.as_deref());
        programs.retain(|built| built.target.as_deref() == wanted);
        let refusal = |reason: String| {
            HarnessFailure::invalid(reason).with_replay(&ProcessSpec::new(&setting.program))
        };
        let built = programs.first().ok_or_else(|| {
            refusal(format!("has no benchmark program '{}'", wanted.unwrap_or_default()))
        })?;
        let scratch = ScratchFolder::new().map_err(|error| refusal(format!("{error:#}")))?;
        perform_case(setting, built, &scratch)
    }

    fn prepare_job(&self, setting: &RunContext<'_>) {
        let _ = target_programs(&setting.job.source, &setting.program, setting.variant);
    }
}

/// Returns the requested option that the framework of a file does not support, if any.
pub fn unsupported_option(
    source: &BenchmarkSource,
    requested: RequestedDivision,
) -> Option<&'static str> {
    // For a package, only the programs built from it have options.
    let adapter = source.adapter().filter(|adapter| adapter.keys.build.is_none())?;
    command::unsupported_option(adapter, requested)
}

/// Performs one case in a fresh process.
fn perform_case(
    setting: &RunContext<'_>,
    built: &BuiltProgram,
    scratch: &ScratchFolder,
) -> Result<RunOutcome, HarnessFailure> {
    let job = setting.job;
    let (adapter, keys) = (&built.adapter, &built.adapter.keys);
    let name = job.name_under(&setting.variant.name);
    let options = match &keys.trial {
        Some(words) if job.test => words.clone(),
        _ => command::run_options(adapter, setting.sampling.requested),
    };
    let options = command::remove_given(options, &setting.variant.arguments);
    let common = built
        .placeholder_values(&job.source.file, setting.variant)
        .with_case(name, job.case.as_ref(), keys)
        .words("options", options);
    let command = with_placeholders(&keys.run, &["options", "arguments"]);
    let spec_of = |filling: &PlaceholderValues| ProcessSpec {
        limit: setting.limit(),
        ..built.build_process(&command, filling, setting.variant)
    };
    // The command that a user would type prints its results on the terminal.
    let terminal = "/dev/stdout";
    let plain = spec_of(&common.clone().text("pipe", terminal).text("output", terminal));
    let output = scratch.path("results");
    let filling =
        common.path("output", &output).path("scratch", scratch.folder()).text("pipe", RESULT_PIPE);
    let location = ResultLocation::from_adapter(adapter);
    let spec = ProcessSpec {
        channel: location.required_channel(),
        pin: setting.pin.cloned(),
        ..spec_of(&filling)
    };
    let mut collected = CollectedOutput::default();
    let outcome = converse(&setting.layout.apply_to(&spec), &plain, &mut collected)?;
    let case = job.case.clone().unwrap_or_else(|| Case::new(name, Vec::new()));
    let printed = match location {
        ResultLocation::Stdout => String::from_utf8_lossy(&collected.0).into_owned(),
        _ => outcome.stdout.text(),
    };
    let written = match location {
        ResultLocation::File => read_result_file(adapter, scratch, &output),
        _ => collected.0,
    };
    let (mut run, mut fault) = extract_observation(adapter, name, &case, &written);
    if run.is_none() && outcome.ended == ProcessEnd::Exit(0) {
        let skip = find_skip(adapter, &printed).or(fault.take_if(|fault| fault.is_skip()));
        if job.test && keys.trial.is_some() && skip.is_none() {
            // Frameworks write no results when they only try a case.
            (run, fault) = (Some(RunResult::new(case, Vec::new())), None);
        }
        fault = skip.or(fault);
    }
    let has_no_samples = run.as_ref().is_some_and(|run| run.samples.is_empty());
    let reported = fault.clone().filter(|_| has_no_samples);
    let result = run.filter(|_| reported.is_none());
    let mut attempt = RunOutcome::from_process(&plain, &outcome, result, fault, setting);
    attempt.stdout = printed;
    if attempt.failure.is_some() {
        attempt.observations.retain(|run| !run.samples.is_empty());
    }
    explain_failure(&mut attempt, reported);
    Ok(attempt)
}

/// Time limit for listing: some frameworks execute all benchmarks once to list them.
const LISTING_TIMEOUT: Duration = Duration::from_secs(300);

/// Time limit for finding the cases within a benchmark. To find them, the benchmark is executed.
const EXPANSION_TIMEOUT: Duration = Duration::from_secs(120);

/// Pattern for the package path that Go embeds in a test binary, as `go version -m` shows it.
const GO_PACKAGE_PATTERN: &str = r"path\t(\S+)\.test\n";

/// A request for the cases of one program.
struct CaseListing<'a> {
    request: &'a DescribeRequest,
    /// The program of the target.
    built: &'a BuiltProgram,
}

impl CaseListing<'_> {
    /// Describes the cases.
    fn describe_cases(&self) -> DescribeResult {
        let adapter = &self.built.adapter;
        let spec = self.listing_command(&adapter.keys.list, None, LISTING_TIMEOUT);
        // The same file was listed before its modules are observed.
        let is_observed = ModuleLog::observes(&self.request.variant);
        let version = if is_observed { None } else { self.detect_version() };
        if let Some(reason) = version.as_deref().and_then(|version| check_minimum(adapter, version))
        {
            return Err(HarnessFailure::invalid(reason).with_replay(&spec));
        }
        let mut cases = self.run_listing(&spec)?;
        if !adapter.keys.expand.is_empty() {
            cases = self.expand_selected(cases);
        }
        // A Catch2 test with a generator lists its benchmarks once per generated value.
        let mut listed_keys = HashSet::new();
        cases.retain(|listed| listed_keys.insert((listed.name.clone(), listed.case.id())));
        if cases.is_empty() {
            let command = shell_line(&ProcessSpec {
                directory: None,
                environment: Vec::new(),
                ..spec.clone()
            });
            let reason = format!("lists no benchmarks; the command was: {command}");
            return Err(HarnessFailure::invalid(reason).with_replay(&spec));
        }
        let suite = version.map(|version| (adapter.name.clone(), version));
        Ok(BenchmarkDescription {
            warnings: self.shared_execution_warning(&cases).into_iter().collect(),
            jobs: cases.into_iter().map(|case| self.build_job(case)).collect(),
            suites: suite.into_iter().collect(),
            ..BenchmarkDescription::default()
        })
    }

    fn listing_command(
        &self,
        command: &[String],
        expanded: Option<&ListedCase>,
        limit: Duration,
    ) -> ProcessSpec {
        let variant = &self.request.variant;
        let arguments = remove_decided(&variant.arguments, command);
        let values = self.built.placeholder_values(&self.request.source.file, variant);
        let mut filling = values.words("arguments", arguments);
        if let Some(ListedCase { name, case }) = expanded {
            filling = filling.with_case(name, Some(case), &self.built.adapter.keys);
        }
        ProcessSpec {
            limit,
            channel: ChannelKind::Stdout,
            ..self.built.build_process(command, &filling, variant)
        }
    }

    fn run_listing(&self, spec: &ProcessSpec) -> Result<Vec<ListedCase>, HarnessFailure> {
        let mut output = CollectedOutput::default();
        let outcome = run_child(spec, &mut output).map_err(|error| {
            let mut reason = start_reason(spec, &error);
            if error.kind() == ErrorKind::NotFound {
                reason += &self.built.adapter.install_hint();
            }
            HarnessFailure::start_failed(reason).with_replay(spec)
        })?;
        let stdout = String::from_utf8_lossy(&output.0);
        let failed = |cause: FailureCause| {
            let mut failure = HarnessFailure::of_process(cause, &outcome).with_replay(spec);
            // pytest reports import errors on stdout.
            if failure.output.is_empty() {
                failure.output = tail_lines(&stdout);
            }
            failure
        };
        if let Some(cause) = outcome.failure_cause(spec.limit) {
            let missing = self.missing_framework([&stdout, &outcome.stderr.text()]);
            return Err(failed(missing.unwrap_or(cause)));
        }
        parse_cases(&self.built.adapter, &output.0).map_err(|error| {
            let reason = format!("printed an unreadable list of benchmarks: {error:#}");
            failed(FailureCause::invalid(reason))
        })
    }

    /// If the output of the failed listing says that the framework itself is missing, returns that
    /// as the cause.
    fn missing_framework(&self, printed: [&str; 2]) -> Option<FailureCause> {
        let adapter = &self.built.adapter;
        let pattern = Regex::new(adapter.keys.missing.as_deref()?).ok()?;
        let (suite, program) = (&adapter.name, self.built.program.display());
        let hint = adapter.install_hint();
        let reason = format!("needs {suite}, which is not installed for '{program}'{hint}");
        let is_missing = printed.iter().any(|text| pattern.is_match(text));
        is_missing.then(|| FailureCause::invalid(reason))
    }

    /// Warns if several cases have the same command, so that the framework cannot execute them in
    /// isolation.
    fn shared_execution_warning(&self, cases: &[ListedCase]) -> Option<String> {
        let keys = &self.built.adapter.keys;
        let mut cases_per_command: HashMap<Vec<String>, usize> = HashMap::new();
        for listed in cases {
            let filling =
                PlaceholderValues::default().with_case(&listed.name, Some(&listed.case), keys);
            *cases_per_command.entry(filling.fill(&keys.run)).or_default() += 1;
        }
        let count: usize = cases_per_command.into_values().filter(|&count| count > 1).sum();
        let (case_count, suite) = (cases.len(), &self.built.adapter.name);
        (count > 0).then(|| {
            format!(
                "{suite} cannot execute {count} of the {case_count} benchmarks in '{}' in isolation: \
                 each run also executes the other benchmarks of its process, and keeps only its \
                 own results.",
                self.request.source.name
            )
        })
    }

    /// Replaces each selected benchmark with the cases within it, and keeps the others as listed.
    fn expand_selected(&self, listed: Vec<ListedCase>) -> Vec<ListedCase> {
        let listed: Vec<ListedCase> =
            listed.into_iter().map(|case| self.with_package(case)).collect();
        let names: Vec<String> =
            listed.iter().map(|case| self.benchmark_name(&case.case)).collect();
        let selected = self.request.selection.select_benchmarks(&names);
        let expand = |(case, is_wanted)| {
            if is_wanted { self.expand_case(case) } else { vec![case] }
        };
        listed.into_iter().zip(selected).flat_map(expand).collect()
    }

    /// Returns the name of a case's benchmark, prefixed with the target if cargo built the program.
    fn benchmark_name(&self, case: &Case) -> String {
        let prefix: String = self.built.target.iter().map(|target| format!("{target}/")).collect();
        prefix + &case.benchmark
    }

    /// Finds the cases within a listed benchmark by executing it. A benchmark that fails is kept as
    /// listed, because measuring it will show the failure.
    fn expand_case(&self, listed: ListedCase) -> Vec<ListedCase> {
        let adapter = &self.built.adapter;
        let spec = self.listing_command(&adapter.keys.expand, Some(&listed), EXPANSION_TIMEOUT);
        let mut output = CollectedOutput::default();
        let has_succeeded =
            run_child(&spec, &mut output).is_ok_and(|outcome| outcome.ended == ProcessEnd::Exit(0));
        let results = parse_results(adapter, &output.0).unwrap_or_default();
        let inner: Vec<ListedCase> = results.into_iter().filter_map(to_listed).collect();
        // Some results of a benchmark that panicked may be missing.
        if inner.is_empty() || !has_succeeded {
            vec![listed]
        } else {
            inner.into_iter().map(|case| self.with_package(case)).collect()
        }
    }

    /// Names a Go benchmark as if its output contained the package. The output lacks the package if
    /// the benchmark fails or is skipped early.
    fn with_package(&self, listed: ListedCase) -> ListedCase {
        if self.built.adapter.keys.read != ResultFormat::GoBench {
            return listed;
        }
        let package = registry::search_program(&self.built.program, GO_PACKAGE_PATTERN);
        let Some(package) = package.ok().flatten() else { return listed };
        let named = go_bench::case_from_name(Some(&package), &listed.name, None);
        if listed.case.benchmark == named.benchmark {
            return listed;
        }
        ListedCase { case: Case::new(named.benchmark, Vec::new()), ..listed }
    }

    fn detect_version(&self) -> Option<String> {
        match self.built.adapter.keys.version.as_ref()? {
            VersionSource::Content(pattern) => {
                registry::search_program(&self.built.program, pattern).ok().flatten()
            }
            VersionSource::Command(command) => {
                let mut output = CollectedOutput::default();
                let spec = self.listing_command(command, None, self.request.limit);
                run_child(&spec, &mut output).ok()?;
                let text = String::from_utf8_lossy(&output.0).into_owned();
                let version = Regex::new(r"\d+(?:\.\w+)+").ok()?;
                version.find(&text).map(|found| found.as_str().to_owned())
            }
        }
    }

    fn build_job(&self, listed: ListedCase) -> BenchmarkJob {
        let ListedCase { name, mut case } = listed;
        case.benchmark = self.benchmark_name(&case);
        BenchmarkJob {
            in_suite: Some(SuiteCase { name, target: self.built.target.clone() }),
            ..self.request.job_for_case(case)
        }
    }
}

/// Removes the cases in which a parameter does not have a requested value. New values cannot be
/// set, because the framework decides which cases exist.
fn select_values(description: &mut BenchmarkDescription, sets: &[(String, String)]) {
    description.jobs.retain(|job| {
        let mut values = job.case.iter().flat_map(|case| &case.values);
        values.all(|(name, value)| permits_value(sets, name, &value.plain()))
    });
}

/// A case listed by its framework.
#[derive(Debug, Clone, PartialEq)]
struct ListedCase {
    /// Name that selects the case on the command line.
    name: String,
    /// The case as Speedwell names it.
    case: Case,
}

/// Parses the results in a framework's output.
///
/// # Errors
/// Fails if the output does not match the adapter; the message gives the position of the first
/// error.
fn parse_results(adapter: &SuiteAdapter, bytes: &[u8]) -> Result<Vec<ReportedResult>> {
    ensure!(!diagnosis::is_utf16(bytes), "it is UTF-16 text, not UTF-8");
    let bytes = diagnosis::strip_bom(bytes)?;
    let keys = &adapter.keys;
    let unit = keys.unit.as_deref().unwrap_or("ns");
    let better = keys.better.map(|direction| match direction {
        GoodDirection::Less => MetricDirection::Lower,
        GoodDirection::More => MetricDirection::Higher,
    });
    match keys.read {
        ResultFormat::Json => {
            let paths = configured::ResultPaths {
                results: &keys.results,
                name: keys.name.as_deref(),
                samples: keys.samples.as_deref().unwrap_or_default(),
                unit,
                better,
            };
            paths.read(bytes)
        }
        ResultFormat::Lines => {
            let pattern = Regex::new(keys.line.as_deref().unwrap_or_default())?;
            configured::read_lines(bytes, &pattern, unit, better)
        }
        ResultFormat::GoogleBenchmark => google_benchmark::read_reported(bytes),
        ResultFormat::GoBench => go_bench::read_reported(bytes),
        ResultFormat::Criterion => rust::read_criterion(bytes),
        ResultFormat::Divan => rust::read_divan(bytes),
        ResultFormat::Libtest => rust::read_libtest(bytes),
        ResultFormat::Jmh => jmh::read(bytes),
        ResultFormat::PytestBenchmark => pytest_benchmark::read(bytes),
        ResultFormat::Pyperf => pyperf::read_reported(bytes),
        ResultFormat::Catch2 => catch2::read(bytes),
        ResultFormat::Vitest => vitest::read(bytes),
    }
}

/// Parses the listed cases from the lines that match the adapter's pattern. If the adapter has no
/// pattern, takes the cases from the names of results.
///
/// # Errors
/// Fails for the same reasons as [`parse_results`], or if the parameters of a case cannot be
/// parsed.
fn parse_cases(adapter: &SuiteAdapter, output: &[u8]) -> Result<Vec<ListedCase>> {
    let Some(pattern) = &adapter.keys.case else {
        return Ok(parse_results(adapter, output)?.into_iter().filter_map(to_listed).collect());
    };
    let pattern = Regex::new(pattern)?;
    let mut found = Vec::new();
    for groups in require_utf8(output)?.lines().filter_map(|line| pattern.captures(line)) {
        let group = |name| groups.name(name).map(|group| group.as_str().to_owned());
        let name = group("name").unwrap_or_default();
        ensure!(!name.is_empty(), "a case has no name: '{}'", &groups[0]);
        let case = match group("params") {
            Some(words) => Case::with_values(&name, &words).with_context(|| {
                format!("cannot parse the parameters of '{name}': expected k=v k=v")
            })?,
            None => Case::new(&name, Vec::new()),
        };
        found.push(ListedCase { name, case });
    }
    Ok(found)
}

/// Returns the case to which a result belongs; `None` if the result has no name.
fn to_listed(reported: ReportedResult) -> Option<ListedCase> {
    let name = reported.name?;
    let case = reported.case.unwrap_or_else(|| Case::new(&name, Vec::new()));
    Some(ListedCase { name, case })
}

/// Extracts the result of the case that the framework calls `name`.
fn extract_observation(
    adapter: &SuiteAdapter,
    name: &str,
    case: &Case,
    written: &[u8],
) -> (Option<RunResult>, Option<FailureCause>) {
    let failure = |reason: String| (None, Some(FailureCause::invalid(reason)));
    if written.trim_ascii().is_empty() {
        return failure(format!("wrote no results; does benchmark '{name}' exist?"));
    }
    let results = match parse_results(adapter, written) {
        Ok(results) => results,
        Err(error) => {
            let reason = shorten_reason(&format!("{error:#}"));
            return failure(format!("wrote unreadable results: {reason}"));
        }
    };
    // Go appends the number of processors to a name if there are several, so the names may differ.
    // However, a single result is always the requested one.
    let is_only = results.len() == 1 && adapter.keys.read == ResultFormat::GoBench;
    let is_requested = |reported: &ReportedResult| {
        is_only || (reported.name.as_deref()).is_none_or(|reported| reported == name)
    };
    let (mut matching, others): (Vec<ReportedResult>, Vec<ReportedResult>) =
        results.into_iter().partition(is_requested);
    if matching.is_empty() {
        let reason = format!("wrote no results for '{name}'");
        return (None, Some(all_skipped(&others).unwrap_or_else(|| FailureCause::invalid(reason))));
    }
    // One name may select several cases, such as the benchmarks of one test. Only the results of
    // the requested case are kept.
    if matching.iter().any(|reported| is_case(reported, case)) {
        matching.retain(|reported| is_case(reported, case));
    }
    if let Some(count) = count_namesakes(adapter.keys.read, &matching) {
        return failure(format!(
            "wrote results of {count} benchmarks that are all called '{name}'; give each a unique \
             name"
        ));
    }
    let mut observation = RunResult::new(case.clone(), Vec::new());
    let mut cause = None;
    for reported in matching {
        cause = cause.or(reported.cause);
        reported.metrics.into_iter().for_each(|metric| observation.declare_metric(metric));
        observation.samples.extend(reported.samples);
        observation.notes.extend(reported.notes);
    }
    if observation.samples.is_empty() && cause.is_none() {
        return failure(format!("wrote no samples for '{name}'"));
    }
    (Some(observation), cause)
}

/// Whether a result belongs to the case. The name of the case may have the program's name as a
/// prefix.
fn is_case(reported: &ReportedResult, case: &Case) -> bool {
    (reported.case.as_ref()).is_some_and(|reported_case| {
        reported_case.values == case.values && case.benchmark.ends_with(&reported_case.benchmark)
    })
}

/// Explains that the framework is too old, if it is.
fn check_minimum(adapter: &SuiteAdapter, version: &str) -> Option<String> {
    let (suite, minimum) = (&adapter.name, adapter.keys.minimum.as_deref()?);
    let numbers = |version: &str| -> Vec<u32> {
        version.split('.').map_while(|part| part.parse().ok()).collect()
    };
    let hint = adapter.install_hint();
    (numbers(version) < numbers(minimum))
        .then(|| format!("needs {suite} {minimum} or newer, but found {suite} {version}{hint}"))
}

/// If the framework reported an error, uses this error as the cause of the failure. The error says
/// more than the exit status.
fn explain_failure(attempt: &mut RunOutcome, reported: Option<FailureCause>) {
    let Some(failure) = &mut attempt.failure else { return };
    if matches!(failure.cause, FailureCause::Exit { .. }) {
        failure.cause = reported.unwrap_or(failure.cause.clone());
    }
    if failure.stderr_tail.is_empty() {
        failure.stderr_tail = tail_lines(&attempt.stdout);
    }
}

/// Last lines of a framework's stdout, for failures without stderr.
fn tail_lines(stdout: &str) -> String {
    let lines: Vec<&str> = stdout.trim_end().lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

/// Returns how many benchmarks share one name, if several do. `results` are all results with this
/// name. In most formats, a benchmark's name occurs once: the reader merges repetitions, or the
/// framework writes one result for each name. Several results for one metric therefore mean several
/// benchmarks. Pyperf's format and formats that an adapter describes are not checked, because a
/// benchmark may repeat its name there.
fn count_namesakes(read: ResultFormat, results: &[ReportedResult]) -> Option<usize> {
    let may_repeat =
        matches!(read, ResultFormat::Json | ResultFormat::Lines | ResultFormat::Pyperf);
    let primary = || results.iter().filter_map(|reported| reported.metrics.first());
    let count_with_metric =
        |first: &Metric| primary().filter(|metric| metric.name == first.name).count();
    let max_count = primary().map(count_with_metric).max()?;
    (max_count > 1 && !may_repeat).then_some(max_count)
}

/// Returns why nothing was measured, if all benchmarks that make up a case were skipped.
fn all_skipped(reported: &[ReportedResult]) -> Option<FailureCause> {
    let is_skip =
        |result: &ReportedResult| result.cause.as_ref().is_some_and(FailureCause::is_skip);
    let first = reported.first()?.cause.clone();
    first.filter(|_| reported.iter().all(is_skip))
}

/// Returns the reason if the output says that the benchmark was skipped.
fn find_skip(adapter: &SuiteAdapter, printed: &str) -> Option<FailureCause> {
    let pattern = Regex::new(adapter.keys.skipped.as_deref()?).ok()?;
    let found = pattern.captures(printed)?;
    let reason = found.name("reason").map_or_else(
        || format!("{} skips it", adapter.name),
        |reason| reason.as_str().trim().to_owned(),
    );
    Some(FailureCause::Skipped { reason })
}

/// Maximum length of a reason: libraries may quote the input that they could not parse.
const MAX_REASON_LENGTH: usize = 400;

/// Shortens a reason that is too long.
fn shorten_reason(reason: &str) -> String {
    let cut = reason.char_indices().nth(MAX_REASON_LENGTH);
    cut.map_or_else(|| reason.to_owned(), |(end, _)| format!("{}...", &reason[..end]))
}

#[cfg(test)]
mod output_tests;
