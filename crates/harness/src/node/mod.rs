//! Node.js files that use our package, driven over the harness protocol.
//!
//! What is said over the protocol is the same for every language; here is how Node.js is started,
//! and what a file that starts its cases itself needs instead: it is listened to over Node's own channel between parent and child
//! ([`Reports`]), one JSON text a line, of which `config` announces how many cases follow and `report` gives one of them.

pub mod core;
pub mod http_tool;
pub mod probe;

use crate::attempt::{invalid, not_described};
use crate::job::{Description, Job, Request, Route, Setting, Source};
use crate::node::http_tool::Shim;
use crate::node::probe::FOREIGN;
use crate::protocol::{self, Loop};
use crate::report::{Rate, elapsed_ns, observe};
use crate::{Attempt, Harness, Observation, sources};
use serde_json::Value as Json;
use speedwell_model::{Better, Case, Cause, Metric, Value};
use speedwell_process::{Channel, Conversation, Next, Spec, run};
use std::path::PathBuf;
use std::time::Duration;

/// The harness for files that use our package.
pub struct Node;

impl Harness for Node {
    fn describe(&self, source: &Source, request: &Request) -> Description {
        match harness_spec(&request.program, source, None) {
            Ok(spec) => {
                let draft = draft(source, request);
                let plain = by_hand(&request.program, source, &[], &request.words());
                protocol::describe(source, request, &spec, &plain, &draft)
            }
            Err(cause) => not_described(source, cause, &Spec::new(&request.program), None),
        }
    }

    fn perform(&self, job: &Job, setting: &Setting<'_>) -> Attempt {
        let spec = match measuring_spec(job, setting) {
            Ok(spec) => spec,
            Err(cause) => {
                let spec = Spec::new(&setting.program);
                return Attempt::refused(&spec, &cause.to_string(), job, setting);
            }
        };
        if let Some(reason) = &job.unavailable {
            return Attempt::refused(&spec, reason, job, setting);
        }
        if job.route == Route::Parent {
            return perform_whole(job, setting, &spec);
        }
        // What the reader is to repeat is the file itself, not our side of the protocol.
        let plain = plain_spec(job, setting);
        protocol::perform(job, setting, &spec, &plain, Loop::OfTheFile)
    }

    fn usual_program(&self, _source: &Source) -> PathBuf {
        PathBuf::from("node")
    }
}

/// What all cases of the file have in common, with the HTTP tool that it needs.
fn draft(source: &Source, request: &Request) -> Job {
    let text = std::fs::read_to_string(&source.file).unwrap_or_default();
    let tool = http_tool::choose(&text, request, http_tool::Library::Ours);
    core::with_tool(protocol::draft(source, request), &tool)
}

/// A process of the harness itself.
fn harness_spec(
    program: &std::path::Path,
    source: &Source,
    tool: Option<&str>,
) -> Result<Spec, Cause> {
    let folder = sources::NODE.folder()?;
    let mut spec = Spec::new(program).args([folder.join("harness.cjs").to_string_lossy()]);
    spec.directory = Some(source.directory.clone());
    spec.unset = FOREIGN.map(str::to_owned).to_vec();
    spec.channel = Channel::Harness;
    Ok(core::with_surroundings(spec, tool))
}

fn measuring_spec(job: &Job, setting: &Setting<'_>) -> Result<Spec, Cause> {
    let mut spec = harness_spec(&setting.program, &job.source, job.http_tool.as_deref())?;
    if job.route == Route::Parent {
        let folder = sources::NODE.folder()?;
        let register = folder.join("register.cjs").to_string_lossy().into_owned();
        spec.arguments = vec![
            "-r".into(),
            register,
            job.source.file.to_string_lossy().into(),
        ];
        spec.arguments.extend(job.arguments.iter().cloned());
        spec.channel = Channel::NodeSocket;
    }
    let flags = setting.variant.arguments.iter().chain(&job.flags).cloned();
    spec.arguments.splice(0..0, flags);
    spec.environment
        .extend(setting.variant.environment.iter().cloned());
    spec.limit = setting.limit;
    spec.pin = setting.pin.cloned();
    Ok(spec)
}

/// The line that a person would type to see the same case.
fn plain_spec(job: &Job, setting: &Setting<'_>) -> Spec {
    let flags: Vec<String> = setting
        .variant
        .arguments
        .iter()
        .chain(&job.flags)
        .cloned()
        .collect();
    Spec {
        environment: setting.variant.environment.clone(),
        limit: setting.limit,
        ..by_hand(&setting.program, &job.source, &flags, &job.arguments)
    }
}

/// A start of the file without us, except that it finds our package.
fn by_hand(
    program: &std::path::Path,
    source: &Source,
    flags: &[String],
    arguments: &[String],
) -> Spec {
    let mut spec = Spec::new(program);
    if let Ok(folder) = sources::NODE.folder() {
        let register = folder.join("register.cjs");
        spec = spec.args(["-r".to_owned(), register.to_string_lossy().into_owned()]);
    }
    spec.directory = Some(source.directory.clone());
    spec.args(flags.iter().cloned())
        .args([source.file.to_string_lossy()])
        .args(arguments.iter().cloned())
}

fn perform_whole(job: &Job, setting: &Setting<'_>, spec: &Spec) -> Attempt {
    let mut reports = Reports::new(None, None, job.test);
    match run(spec, &mut reports) {
        Err(error) => Attempt::not_started(spec, &error, job, setting),
        Ok(outcome) => {
            let fault = reports.verdict();
            Attempt::new(spec, &outcome, reports.observations, fault, job, setting)
        }
    }
}

/// A script that has reported ends itself after 5 s even if it keeps its event loop alive; one
/// that does not even then is ended by us.
const LINGER: Duration = Duration::from_secs(6);

/// Listens to one process and collects its observations.
pub(super) struct Reports {
    /// Name used instead of the one in the messages; theirs is relative to their `common.js`.
    pub name: Option<String>,
    /// What was reported so far.
    pub observations: Vec<Observation>,
    /// What is wrong with the reports, the first fault found.
    pub fault: Option<Cause>,
    /// How many reports are to come; told by `config` unless known before.
    pub expected: Option<usize>,
    /// The stand-in for the process's HTTP tool, which knows more than the report.
    pub shim: Option<Shim>,
    test: bool,
}

impl Reports {
    /// Expects `expected` reports, or as many as the `config` message says.
    pub fn new(expected: Option<usize>, name: Option<String>, test: bool) -> Reports {
        Reports {
            name,
            observations: Vec::new(),
            fault: None,
            expected,
            shim: None,
            test,
        }
    }

    /// What is wrong with all that was reported, once the process has ended.
    pub fn verdict(&self) -> Option<Cause> {
        if self.fault.is_some() || self.observations.is_empty() {
            return Some(self.fault.clone().unwrap_or(Cause::Silent));
        }
        let (seen, expected) = (self.observations.len(), self.expected?);
        (seen != expected).then(|| invalid(format!("reported {seen} of {expected} cases")))
    }

    fn report(&mut self, message: &Json) {
        let rate = Rate {
            rate: message["rate"].clone(),
            elapsed_ns: elapsed_ns(&message["time"]),
            // The stand-in saw all that the tool told; a library passes on what it understood.
            http: self
                .shim
                .as_ref()
                .and_then(Shim::figures)
                .or_else(|| message.get("http").cloned()),
        };
        let (seen, fault) = observe(self.case_of(message), &rate, self.test);
        self.fault = self.fault.take().or(fault);
        self.observations.push(seen);
    }

    /// A further figure about a case, which the process sends before the case's report or after.
    fn metric(&mut self, message: &Json) {
        let metric = &message["metric"];
        let (Some(name), Some(value)) = (metric["name"].as_str(), metric["value"].as_f64()) else {
            return;
        };
        let better = if metric["better"] == "higher" {
            Better::Higher
        } else {
            Better::Lower
        };
        let unit = metric["unit"].as_str().unwrap_or_default();
        if let Some(last) = self.observations.last_mut() {
            last.add(Metric::new(name, unit, better), value);
        }
    }

    fn case_of(&self, message: &Json) -> Case {
        let name = self
            .name
            .clone()
            .or_else(|| message["name"].as_str().map(str::to_owned));
        let conf = message["conf"].as_object().into_iter().flatten();
        let mut values: Vec<(String, Value)> = conf
            .map(|(name, value)| (name.clone(), parameter_value(value)))
            .collect();
        let tool = values.iter_mut().find(|(name, _)| name == "benchmarker");
        if let (Some((_, tool)), Some(shim)) = (tool, &self.shim) {
            // The library knows the tool that it called; what answered may have been another.
            *tool = Value::Text(shim.tool().to_owned());
        }
        Case::new(name.unwrap_or_default(), values)
    }
}

fn parameter_value(json: &Json) -> Value {
    match json {
        Json::Bool(truth) => Value::Bool(*truth),
        Json::Number(number) => Value::Number(number.as_f64().unwrap_or(f64::NAN)),
        Json::String(text) => Value::Text(text.clone()),
        other => Value::Text(other.to_string()),
    }
}

impl Conversation for Reports {
    fn received(&mut self, line: &[u8]) -> Next {
        let Ok(message) = serde_json::from_slice::<Json>(line) else {
            return Next::Wait;
        };
        match message["type"].as_str() {
            Some("config") => {
                let length = message["queueLength"]
                    .as_u64()
                    .map(|length| length as usize);
                self.expected = self.expected.or(length);
            }
            Some("report") => self.report(&message),
            Some("metric") => self.metric(&message),
            Some("check") => {
                if let Some(last) = self.observations.last_mut() {
                    last.check = message["text"].as_str().map(str::to_owned);
                }
            }
            _ => {}
        }
        if self.expected == Some(self.observations.len()) {
            return Next::Linger(LINGER);
        }
        Next::Wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(lines: &[&str]) -> Reports {
        let mut reports = Reports::new(None, None, false);
        for line in lines {
            reports.received(line.as_bytes());
        }
        reports
    }

    const CONFIG: &str = r#"{"type":"config","name":"zz/scalar.js","queueLength":1}"#;
    const REPORT: &str = r#"{"name":"zz/scalar.js","conf":{"q":"a\"b","s":"x y","n":5},"rate":271.24,"time":"0.003686740","type":"report"}"#;

    #[test]
    fn a_report_keeps_the_order_of_its_parameters() {
        let reports = after(&[CONFIG, REPORT]);
        let seen = &reports.observations[0];
        let names: Vec<_> = seen
            .case
            .values
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        assert_eq!(names, ["q", "s", "n"]);
        assert_eq!(seen.samples[0].elapsed_ns, Some(3_686_740));
        assert_eq!(reports.verdict(), None);
    }

    #[test]
    fn internal_messages_and_garbage_are_ignored() {
        let reports = after(&[
            r#"{"cmd":"NODE_HANDLE"}"#,
            "not json",
            "[1]",
            "",
            CONFIG,
            REPORT,
        ]);
        assert_eq!((reports.observations.len(), reports.verdict()), (1, None));
    }

    #[test]
    fn missing_reports_are_noticed() {
        assert_eq!(after(&[CONFIG]).verdict(), Some(Cause::Silent));
        let two = CONFIG.replace(":1}", ":2}");
        let told = after(&[&two, REPORT]).verdict().unwrap().to_string();
        assert_eq!(told, "reported 1 of 2 cases");
    }
}
