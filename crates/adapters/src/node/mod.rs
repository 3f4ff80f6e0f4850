//! Lists and performs the cases of JavaScript files that use the package `speedwell`.
//!
//! Such a file runs in Node.js, Bun or Deno, under a harness that speaks the same protocol as the
//! harnesses of other languages (`run_outcome.rs`). A file that starts its cases itself runs without
//! the harness, and reports over Node.js's own channel ([`ReportCollector`]). This channel carries
//! JSON, one message per line. A message of type `config` announces the number of cases, `report`
//! gives the result of a case, and `metric` and `check` add a metric or a checksum to a result.
//!
//! The runtime determines how a program is started ([`JsRuntime`]). It is recognized by the
//! program's name, because programs are never executed just to identify them.

pub mod core;
pub mod http_tool;

use crate::cache::SEARCH_PATH;
use crate::failure::{HarnessFailure, converse};
use crate::job::{BenchmarkJob, BenchmarkSource, DescribeRequest, RunContext, StartMode};
use crate::reported_values::{ReportedRate, observe_rate, parse_elapsed_ns};
use crate::run_outcome::{DescribeResult, declared_metric, describe_file, perform_case};
use crate::{LanguageHarness, RunOutcome, RunResult, sources};
use http_tool::ToolShim;
use serde::Deserialize as _;
use serde_json::Value as Json;
use speedwell_machine::process::{ChannelKind, ChildConversation, NextStep, ProcessSpec};
use speedwell_model::{Case, FailureCause, ParameterValue, Variant};
use std::path::Path;
use std::time::Duration;

/// Environment variables that a process must not inherit, because they would change what it does.
const LEAKED_VARIABLES: [&str; 6] = [
    "NODE_RUN_BENCHMARK_FN",
    "NODE_CHANNEL_FD",
    "NODE_CHANNEL_SERIALIZATION_MODE",
    "SPEEDWELL_FDS",
    "SPEEDWELL_PROBE_FD",
    "NODE_BENCHMARK_FLAGS",
];

/// Harness for files that use the package `speedwell`.
pub struct NodeHarness;

impl LanguageHarness for NodeHarness {
    fn describe_source(&self, request: &DescribeRequest) -> DescribeResult {
        let source = &request.source;
        let runtime = JsRuntime::from_program(&request.program);
        let mut spec = harness_spec(&request.program, source, None)?;
        spec.environment.extend(search_path(&request.variant));
        // Flags of Node.js do not change what a file declares, so they are left out. Flags of Deno
        // are needed, because they decide what the file is permitted to do.
        let flags = match runtime {
            JsRuntime::Deno => runtime.arguments(&request.variant.arguments),
            _ => Vec::new(),
        };
        spec.arguments.splice(0..0, flags.clone());
        let plain = plain_command(&request.program, source, flags, &request.assignments());
        describe_file(request, &spec, &plain, &draft_job(request))
    }

    fn perform_job(&self, setting: &RunContext<'_>) -> Result<RunOutcome, HarnessFailure> {
        let job = setting.job;
        let spec = measuring_spec(setting)?;
        if let Some(reason) = &job.unavailable {
            return Err(HarnessFailure::invalid(reason).with_replay(&spec));
        }
        // A replay command starts the file itself, without the protocol.
        let plain = plain_spec(setting);
        if let Some(reason) = JsRuntime::from_program(&setting.program).refuse_flags(job) {
            return Err(HarnessFailure::invalid(reason).with_replay(&plain));
        }
        if job.route == StartMode::Parent {
            let mut reports = ReportCollector { test: job.test, ..ReportCollector::default() };
            let outcome = converse(&spec, &spec, &mut reports)?;
            let fault = reports.find_fault();
            let results = reports.observations;
            return Ok(RunOutcome::from_process(&spec, &outcome, results, fault, setting));
        }
        perform_case(setting, &spec, &plain)
    }
}

/// Returns the module search path of a variant. The path determines what a file loads; other
/// variables do not affect what the file declares.
fn search_path(variant: &Variant) -> Option<(String, String)> {
    let mut variables = variant.environment.iter();
    variables.find(|(name, _)| name == SEARCH_PATH).cloned()
}

/// Builds the common part of all jobs of the file, including the HTTP tool that the file needs.
fn draft_job(request: &DescribeRequest) -> BenchmarkJob {
    let text = std::fs::read_to_string(&request.source.file).unwrap_or_default();
    http_tool::choose_tool(&text, request).assign_to(request.draft_job())
}

/// Builds a process of the harness itself.
fn harness_spec(
    program: &Path,
    source: &BenchmarkSource,
    tool: Option<&str>,
) -> Result<ProcessSpec, FailureCause> {
    let folder = sources::NODE.folder()?;
    let mut spec = ProcessSpec::new(program).args([folder.join("harness.cjs").to_string_lossy()]);
    spec.directory = Some(source.directory.clone());
    spec.unset = LEAKED_VARIABLES.map(str::to_owned).to_vec();
    spec.channel = ChannelKind::Harness;
    if JsRuntime::from_program(program) == JsRuntime::Deno {
        // Deno colors its output even in a pipe. The colors would appear in failures, which show
        // the end of the output.
        spec.environment.push(("NO_COLOR".into(), "1".into()));
    }
    Ok(http_tool::with_isolated_environment(spec, tool))
}

fn measuring_spec(setting: &RunContext<'_>) -> Result<ProcessSpec, FailureCause> {
    let job = setting.job;
    let mut spec = harness_spec(&setting.program, &job.source, job.http_tool.as_deref())?;
    if job.route == StartMode::Parent {
        let folder = sources::NODE.folder()?;
        let register = folder.join("register.cjs").to_string_lossy().into_owned();
        spec.arguments = vec!["-r".into(), register, job.source.file.to_string_lossy().into()];
        spec.arguments.extend(job.arguments.iter().cloned());
        spec.channel = ChannelKind::NodeSocket;
    }
    spec.arguments.splice(0..0, program_flags(setting));
    spec.environment.extend(setting.variant.environment.iter().cloned());
    spec.limit = setting.limit();
    spec.pin = setting.pin.cloned();
    Ok(spec)
}

/// Builds the command that a user would type to run the same case.
fn plain_spec(setting: &RunContext<'_>) -> ProcessSpec {
    let (job, flags) = (setting.job, program_flags(setting));
    ProcessSpec {
        environment: setting.variant.environment.clone(),
        limit: setting.limit(),
        ..plain_command(&setting.program, &job.source, flags, &job.arguments)
    }
}

/// Returns the flags given by the user, followed by the flags that the file requires.
fn program_flags(setting: &RunContext<'_>) -> Vec<String> {
    let arguments = JsRuntime::from_program(&setting.program).arguments(&setting.variant.arguments);
    [&arguments[..], &setting.job.flags].concat()
}

/// Builds a command that starts the file without the harness, but with the package `speedwell`
/// available.
fn plain_command(
    program: &Path,
    source: &BenchmarkSource,
    mut flags: Vec<String>,
    arguments: &[String],
) -> ProcessSpec {
    let mut spec = ProcessSpec::new(program);
    if let Ok(folder) = sources::NODE.folder() {
        let register = folder.join("register.cjs").to_string_lossy().into_owned();
        let preload = |option: &str| vec![option.to_owned(), register];
        flags = match JsRuntime::from_program(program) {
            JsRuntime::Deno => [flags, preload("--require")].concat(),
            _ => [preload("-r"), flags].concat(),
        };
    }
    spec.directory = Some(source.directory.clone());
    spec.args(flags).args([source.file.to_string_lossy()]).args(arguments.iter().cloned())
}

/// A JavaScript runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JsRuntime {
    /// Node.js. Programs with an unknown name are treated as Node.js, because builds of Node.js
    /// have arbitrary names.
    Node,
    Bun,
    Deno,
}

impl JsRuntime {
    /// Recognizes `bun`, `bun-1.2`, `deno`, `deno2`; every other name is treated as Node.js.
    pub(crate) fn from_program(program: &Path) -> JsRuntime {
        let name = program.file_stem().unwrap_or_default().to_string_lossy();
        let has_name = |expected: &str| {
            name.strip_prefix(expected)
                .is_some_and(|suffix| !suffix.starts_with(|next: char| next.is_ascii_alphabetic()))
        };
        match () {
            () if has_name("bun") => JsRuntime::Bun,
            () if has_name("deno") => JsRuntime::Deno,
            () => JsRuntime::Node,
        }
    }

    /// Returns the arguments between the program and the script: the user's `arguments`, and what
    /// the runtime needs before them. Deno needs a subcommand and permissions if `arguments` does
    /// not begin with a subcommand.
    pub(crate) fn arguments(self, arguments: &[String]) -> Vec<String> {
        let is_bare = arguments.first().is_none_or(|first| first.starts_with('-'));
        let defaults: &[&str] = match self {
            JsRuntime::Deno if is_bare => &["run", "-A"],
            _ => &[],
        };
        defaults.iter().map(|word| (*word).to_owned()).chain(arguments.iter().cloned()).collect()
    }

    /// If the job's file needs Node.js flags and this runtime is not Node.js, explains why the job
    /// cannot be performed.
    pub(crate) fn refuse_flags(self, job: &BenchmarkJob) -> Option<String> {
        let name = match self {
            JsRuntime::Node => return None,
            JsRuntime::Bun => "Bun",
            JsRuntime::Deno => "Deno",
        };
        (!job.flags.is_empty()).then(|| {
            let flags = job.flags.join(" ");
            format!("the file requires Node.js flags that {name} does not support: '{flags}'")
        })
    }
}

/// Time allowed for a script to exit after its last report; after that, the script is killed. The
/// benchmark library ends the script 5 s after the report, even if the event loop is still alive.
const EXIT_GRACE: Duration = Duration::from_secs(6);

/// Collects the observations of one process.
#[derive(Default)]
pub struct ReportCollector {
    /// Name of the benchmark. If it is set, the names in messages are ignored, because they are
    /// relative to `common.js`.
    pub name: Option<String>,
    /// Observations so far.
    pub observations: Vec<RunResult>,
    /// First fault found in the reports.
    pub fault: Option<FailureCause>,
    /// Number of expected reports. Unless it is known from the start, the `config` message gives
    /// it.
    pub expected: Option<usize>,
    /// Shim that saves the output of the process's HTTP tool. This output has more details than the
    /// report.
    pub shim: Option<ToolShim>,
    /// Whether the process is a trial.
    pub test: bool,
    /// Metrics and checksums that arrived before the report of their case.
    unmatched: Vec<Json>,
}

impl ReportCollector {
    /// Returns the fault in the reports as a whole, once the process has ended.
    pub fn find_fault(&self) -> Option<FailureCause> {
        if self.fault.is_some() || self.observations.is_empty() {
            return Some(self.fault.clone().unwrap_or(FailureCause::Silent));
        }
        let (reported, expected) = (self.observations.len(), self.expected?);
        (reported != expected)
            .then(|| FailureCause::invalid(format!("reported {reported} of {expected} cases")))
    }

    fn handle_report(&mut self, message: &Json) {
        // The shim has the tool's whole output; the library forwards only the numbers that it
        // parsed.
        let figures = self.shim.as_ref().and_then(ToolShim::read_figures);
        let rate = ReportedRate {
            rate: message["rate"].clone(),
            elapsed_ns: parse_elapsed_ns(&message["time"]),
            http: figures.or_else(|| message.get("http").cloned()),
        };
        let (result, fault) = observe_rate(self.report_case(message), &rate, self.test);
        self.fault = self.fault.take().or(fault);
        self.observations.push(result);
        for message in std::mem::take(&mut self.unmatched) {
            self.detail(message);
        }
    }

    /// Adds a metric or a checksum to its case, or keeps it until the case is reported.
    fn detail(&mut self, message: Json) {
        let case = self.report_case(&message).id();
        let mut reported = self.observations.iter_mut().rev();
        match reported.find(|result| result.case.id() == case) {
            Some(result) if message["type"] == "metric" => add_metric(result, &message["metric"]),
            Some(result) => result.check = message["text"].as_str().map(str::to_owned),
            None => self.unmatched.push(message),
        }
    }

    fn report_case(&self, message: &Json) -> Case {
        let name = self.name.clone().or_else(|| message["name"].as_str().map(str::to_owned));
        let conf = message["conf"].as_object().into_iter().flatten();
        let mut values: Vec<(String, ParameterValue)> =
            conf.map(|(name, value)| (name.clone(), parameter_value(value))).collect();
        let tool = values.iter_mut().find(|(name, _)| name == "benchmarker");
        if let (Some((_, tool)), Some(shim)) = (tool, &self.shim) {
            // The library names the tool that it called, but the shim may have run a different one.
            *tool = ParameterValue::Text(shim.tool.clone());
        }
        Case::new(name.unwrap_or_default(), values)
    }
}

fn add_metric(result: &mut RunResult, metric: &Json) {
    let (Some(name), Some(value)) = (metric["name"].as_str(), metric["value"].as_f64()) else {
        return;
    };
    let unit = metric["unit"].as_str().unwrap_or_default();
    let better = metric["better"].as_str();
    result.add_value(declared_metric(name, unit, better), value);
}

fn parameter_value(json: &Json) -> ParameterValue {
    let parsed = ParameterValue::deserialize(json);
    parsed.unwrap_or_else(|_| ParameterValue::Text(json.to_string()))
}

impl ChildConversation for ReportCollector {
    fn handle_line(&mut self, line: &[u8]) -> NextStep {
        let Ok(message) = serde_json::from_slice::<Json>(line) else { return NextStep::Wait };
        match message["type"].as_str() {
            Some("config") => {
                let length = message["queueLength"].as_u64().map(|length| length as usize);
                self.expected = self.expected.or(length);
            }
            Some("report") => self.handle_report(&message),
            Some("metric" | "check") => self.detail(message),
            _ => {}
        }
        if self.expected == Some(self.observations.len()) {
            return NextStep::Linger(EXIT_GRACE);
        }
        NextStep::Wait
    }
}

#[cfg(test)]
mod runtime_tests {
    use super::*;

    #[test]
    fn a_runtime_is_known_by_its_name() {
        let of = |path: &str| JsRuntime::from_program(Path::new(path));
        for path in ["bun", "/opt/bun-1.4.5/bin/bun", "x/bun.exe", "bun-profile"] {
            assert_eq!(of(path), JsRuntime::Bun, "{path}");
        }
        for path in ["deno", "/usr/bin/deno2", "deno-2.9.6"] {
            assert_eq!(of(path), JsRuntime::Deno, "{path}");
        }
        for path in ["node", "bunny", "/deno/node", "denote", "bun/"] {
            let expected = if path == "bun/" { JsRuntime::Bun } else { JsRuntime::Node };
            assert_eq!(of(path), expected, "{path}");
        }
    }

    #[test]
    fn deno_gets_a_subcommand_unless_it_has_one() {
        let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let of = |runtime: JsRuntime, given: &[&str]| runtime.arguments(&words(given));
        assert_eq!(of(JsRuntime::Deno, &[]), words(&["run", "-A"]));
        let flag = "--v8-flags=--maglev";
        assert_eq!(of(JsRuntime::Deno, &[flag]), words(&["run", "-A", flag]));
        let own = ["run", "--allow-read"];
        assert_eq!(of(JsRuntime::Deno, &own), words(&own));
        assert_eq!(of(JsRuntime::Bun, &["--smol"]), words(&["--smol"]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collect_reports(lines: &[&str]) -> ReportCollector {
        let mut reports = ReportCollector::default();
        for line in lines {
            reports.handle_line(line.as_bytes());
        }
        reports
    }

    const CONFIG: &str = r#"{"type":"config","name":"zz/scalar.js","queueLength":1}"#;
    const REPORT: &str = r#"{"name":"zz/scalar.js","conf":{"q":"a\"b","s":"x y","n":5},"rate":271.24,"time":"0.003686740","type":"report"}"#;

    #[test]
    fn a_report_keeps_the_order_of_its_parameters() {
        let reports = collect_reports(&[CONFIG, REPORT]);
        let result = &reports.observations[0];
        let names: Vec<_> = result.case.values.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["q", "s", "n"]);
        assert_eq!(result.samples[0].elapsed_ns, Some(3_686_740));
        assert_eq!(reports.find_fault(), None);
    }

    #[test]
    fn internal_messages_and_garbage_are_ignored() {
        let reports =
            collect_reports(&[r#"{"cmd":"NODE_HANDLE"}"#, "not json", "[1]", "", CONFIG, REPORT]);
        assert_eq!((reports.observations.len(), reports.find_fault()), (1, None));
    }

    #[test]
    fn missing_reports_are_noticed() {
        assert_eq!(collect_reports(&[CONFIG]).find_fault(), Some(FailureCause::Silent));
        let two = CONFIG.replace(":1}", ":2}");
        let message = collect_reports(&[&two, REPORT]).find_fault().unwrap().to_string();
        assert_eq!(message, "reported 1 of 2 cases");
    }

    #[test]
    fn metrics_and_checksums_belong_to_the_case_that_they_name() {
        let mut reports = ReportCollector { expected: Some(2), ..ReportCollector::default() };
        let report = r#"{"type":"report","name":"g/a.js","conf":{"n":N},"rate":10,"time":0.5}"#;
        let metric = r#"{"type":"metric","name":"g/a.js","conf":{"n":N},"metric":{"name":"bytes","value":N,"unit":"B","better":"lower"}}"#;
        let check = r#"{"type":"check","name":"g/a.js","conf":{"n":N},"text":"sum N"}"#;
        // Before the first report, between the reports, and after the last one.
        for (line, n) in
            [(metric, "1"), (report, "1"), (metric, "2"), (check, "1"), (report, "2"), (check, "2")]
        {
            reports.handle_line(line.replace('N', n).as_bytes());
        }
        for (result, n) in reports.observations.iter().zip(["1", "2"]) {
            let bytes = result.samples.iter().find(|sample| &*sample.metric == "bytes");
            assert_eq!(bytes.map(|sample| sample.value), n.parse().ok());
            assert_eq!(result.check, Some(format!("sum {n}")));
        }
    }
}
