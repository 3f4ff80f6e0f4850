//! Lists the cases of one program. Some frameworks list benchmarks without the cases within them;
//! each selected benchmark is then executed once to find its cases. Start at [`CaseListing`].

use super::build::BuiltProgram;
use super::command::{CollectedOutput, PlaceholderValues, find_refused_option, remove_decided};
use super::read::{self, ListedCase, tail_lines};
use super::refused_option;
use super::registry;
use crate::job::{
    BenchmarkDescription, BenchmarkJob, BenchmarkSource, DeclaredParameter, DescribeRequest,
    SuiteCase,
};
use crate::protocol::draft_job;
use crate::run_outcome::{description_failure, start_reason};
use speedwell_config::adapter::{ResultFormat, VersionSource};
use speedwell_formats::foreign::go_bench;
use speedwell_machine::process::{ChannelKind, ProcessEnd, ProcessOutcome, ProcessSpec, run_child};
use speedwell_model::{Case, FailureCause, ParameterValue};
use std::collections::{HashMap, HashSet};
use std::io::ErrorKind;
use std::time::Duration;

/// Time limit for listing: some frameworks execute all benchmarks once to list them.
const LISTING_TIMEOUT: Duration = Duration::from_secs(300);

/// Time limit for finding the cases within a benchmark. To find them, the benchmark is executed.
const EXPANSION_TIMEOUT: Duration = Duration::from_secs(120);

/// Pattern for the package path that Go embeds in a test binary, as `go version -m` shows it.
const GO_PACKAGE_PATTERN: &str = r"path\t(\S+)\.test\n";

/// A request for the cases of one program.
pub struct CaseListing<'a> {
    pub source: &'a BenchmarkSource,
    pub request: &'a DescribeRequest,
    /// The program of the target.
    pub built: &'a BuiltProgram,
}

impl CaseListing<'_> {
    /// Describes the cases.
    pub fn describe_cases(&self) -> BenchmarkDescription {
        let keys = &self.built.adapter.keys;
        let spec = self.listing_command(&keys.list, &PlaceholderValues::default(), LISTING_TIMEOUT);
        let adapter = &self.built.adapter;
        if let Some(option) = find_refused_option(adapter, &self.request.variant.arguments) {
            let cause = refused_option(adapter, option);
            return description_failure(self.source, cause, &spec, None);
        }
        let version = self.detect_version();
        if let Some(cause) = version.as_deref().and_then(|version| self.check_minimum(version)) {
            return description_failure(self.source, cause, &spec, None);
        }
        let mut cases = match self.run_listing(&spec) {
            Ok(cases) => cases,
            Err(description) => return *description,
        };
        if !keys.expand.is_empty() {
            cases = self.expand_selected(cases);
        }
        // A Catch2 test with a generator lists its benchmarks once per generated value.
        let mut listed_keys = HashSet::new();
        cases.retain(|listed| listed_keys.insert((listed.name.clone(), listed.case.id())));
        if cases.is_empty() {
            let command = speedwell_machine::process::shell_line(&ProcessSpec {
                directory: None,
                environment: Vec::new(),
                ..spec.clone()
            });
            let reason = format!("lists no benchmarks; the command was: {command}");
            return description_failure(self.source, FailureCause::Invalid { reason }, &spec, None);
        }
        let suite = version.map(|version| (self.built.adapter.name.clone(), version));
        BenchmarkDescription {
            warnings: self.shared_execution_warning(&cases).into_iter().collect(),
            jobs: cases.into_iter().map(|case| self.build_job(case)).collect(),
            suites: suite.into_iter().collect(),
            ..BenchmarkDescription::default()
        }
    }

    fn listing_command(
        &self,
        command: &[String],
        extra_values: &PlaceholderValues,
        limit: Duration,
    ) -> ProcessSpec {
        let variant = &self.request.variant;
        let arguments = remove_decided(&variant.arguments, command);
        let filling = self
            .built
            .placeholder_values(self.source, variant)
            .merged_with(extra_values)
            .words("arguments", arguments);
        ProcessSpec {
            limit,
            channel: ChannelKind::Stdout,
            ..self.built.build_process(command, &filling, variant)
        }
    }

    fn run_listing(
        &self,
        spec: &ProcessSpec,
    ) -> Result<Vec<ListedCase>, Box<BenchmarkDescription>> {
        let mut output = CollectedOutput::default();
        let outcome = match run_child(spec, &mut output) {
            Ok(outcome) => outcome,
            Err(error) => {
                let mut reason = start_reason(spec, &error);
                if error.kind() == ErrorKind::NotFound {
                    reason += &self.built.adapter.install_hint();
                }
                return Err(Box::new(description_failure(
                    self.source,
                    FailureCause::Start { reason },
                    spec,
                    None,
                )));
            }
        };
        let read = read::parse_cases(&self.built.adapter, &output.0);
        let unreadable = |error: &anyhow::Error| FailureCause::Invalid {
            reason: format!("printed an unreadable list of benchmarks: {error:#}"),
        };
        let cause = outcome
            .failure_cause(spec.limit)
            .map(|cause| self.missing_framework(&outcome, &output).unwrap_or(cause))
            .or_else(|| read.as_ref().err().map(unreadable));
        match (cause, read) {
            (None, Ok(cases)) => Ok(cases),
            (cause, _) => {
                let mut description = description_failure(
                    self.source,
                    cause.unwrap_or(FailureCause::Silent),
                    spec,
                    Some(&outcome),
                );
                // pytest reports import errors on stdout.
                if let Some(failure) = &mut description.failure
                    && failure.stderr_tail.is_empty()
                {
                    failure.stderr_tail = tail_lines(&String::from_utf8_lossy(&output.0));
                }
                Err(Box::new(description))
            }
        }
    }

    /// If the output of the failed listing says that the framework itself is missing, returns that
    /// as the cause.
    fn missing_framework(
        &self,
        outcome: &ProcessOutcome,
        output: &CollectedOutput,
    ) -> Option<FailureCause> {
        let adapter = &self.built.adapter;
        let pattern = regex::Regex::new(adapter.keys.missing.as_deref()?).ok()?;
        let stdout = String::from_utf8_lossy(&output.0);
        if !pattern.is_match(&stdout) && !pattern.is_match(&outcome.stderr.text()) {
            return None;
        }
        let (suite, program) = (&adapter.name, self.built.program.display());
        let hint = adapter.install_hint();
        Some(FailureCause::Invalid {
            reason: format!("needs {suite}, which is not installed for '{program}'{hint}"),
        })
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
                self.source.name
            )
        })
    }

    /// Replaces each selected benchmark with the cases within it, and keeps the others as listed.
    fn expand_selected(&self, listed: Vec<ListedCase>) -> Vec<ListedCase> {
        let listed: Vec<ListedCase> =
            listed.into_iter().map(|case| self.with_package(case)).collect();
        let names: Vec<String> =
            listed.iter().map(|case| self.benchmark_name(&case.case)).collect();
        let selected = self.request.names.select_benchmarks(&names);
        let expand = |(case, is_wanted)| {
            if is_wanted { self.expand_case(case) } else { vec![case] }
        };
        listed.into_iter().zip(selected).flat_map(expand).collect()
    }

    /// Returns the name of a case's benchmark, prefixed with the target if cargo built the program.
    fn benchmark_name(&self, case: &Case) -> String {
        match &self.built.target {
            Some(target) => format!("{target}/{}", case.benchmark),
            None => case.benchmark.clone(),
        }
    }

    /// Finds the cases within a listed benchmark by executing it. A benchmark that fails is kept as
    /// listed, because measuring it will show the failure.
    fn expand_case(&self, listed: ListedCase) -> Vec<ListedCase> {
        let adapter = &self.built.adapter;
        let filling =
            PlaceholderValues::default().with_case(&listed.name, Some(&listed.case), &adapter.keys);
        let spec = self.listing_command(&adapter.keys.expand, &filling, EXPANSION_TIMEOUT);
        let mut output = CollectedOutput::default();
        let has_succeeded =
            run_child(&spec, &mut output).is_ok_and(|outcome| outcome.ended == ProcessEnd::Exit(0));
        let results = read::parse_results(adapter, &output.0).unwrap_or_default();
        let inner: Vec<ListedCase> = results.into_iter().filter_map(read::to_listed).collect();
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
        let Some(package) = package.ok().flatten() else {
            return listed;
        };
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
                let spec = self.listing_command(
                    command,
                    &PlaceholderValues::default(),
                    self.request.limit,
                );
                run_child(&spec, &mut output).ok()?;
                let text = String::from_utf8_lossy(&output.0).into_owned();
                let version = regex::Regex::new(r"\d+(?:\.\w+)+").ok()?;
                version.find(&text).map(|found| found.as_str().to_owned())
            }
        }
    }

    /// Explains that the framework is too old, if it is.
    fn check_minimum(&self, version: &str) -> Option<FailureCause> {
        let (suite, minimum) =
            (&self.built.adapter.name, self.built.adapter.keys.minimum.as_deref()?);
        let numbers = |version: &str| -> Vec<u32> {
            let numbers = version.split('.').map_while(|part| part.parse().ok());
            numbers.collect()
        };
        let hint = self.built.adapter.install_hint();
        (numbers(version) < numbers(minimum)).then(|| FailureCause::Invalid {
            reason: format!("needs {suite} {minimum} or newer, but found {suite} {version}{hint}"),
        })
    }

    fn build_job(&self, listed: ListedCase) -> BenchmarkJob {
        let ListedCase { name, mut case } = listed;
        case.benchmark = self.benchmark_name(&case);
        BenchmarkJob {
            label: case.id(),
            arguments: (case.values.iter())
                .map(|(name, value)| format!("{name}={}", value.plain()))
                .collect(),
            case: Some(case),
            in_suite: Some(SuiteCase { name, target: self.built.target.clone() }),
            ..draft_job(self.source, self.request)
        }
    }
}

/// Returns the parameters of all cases with their values.
pub fn collect_parameters(jobs: &[BenchmarkJob]) -> Vec<DeclaredParameter> {
    let mut found: Vec<DeclaredParameter> = Vec::new();
    let cases = jobs.iter().filter_map(|job| job.case.as_ref());
    for (name, value) in cases.flat_map(|case| &case.values) {
        match found.iter_mut().find(|parameter| parameter.name == *name) {
            Some(parameter) if parameter.values.contains(value) => {}
            Some(parameter) => parameter.values.push(value.clone()),
            None => {
                found.push(DeclaredParameter { name: name.clone(), values: vec![value.clone()] })
            }
        }
    }
    found
}

/// Removes the cases in which a parameter does not have a requested value. New values cannot be
/// set, because the framework decides which cases exist.
pub fn select_values(description: &mut BenchmarkDescription, sets: &[(String, String)]) {
    let fits = |name: &str, value: &ParameterValue| {
        let mut wanted = sets.iter().filter(|(key, _)| key == name).peekable();
        wanted.peek().is_none() || wanted.any(|(_, wanted)| *wanted == value.plain())
    };
    description.jobs.retain(|job| {
        let values = job.case.iter().flat_map(|case| &case.values);
        values.into_iter().all(|(name, value)| fits(name, value))
    });
}
