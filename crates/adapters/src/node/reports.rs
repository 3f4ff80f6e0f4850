//! Collects the reports that a script sends over Node.js's own channel between parent and child.
//!
//! The channel carries JSON, one message per line. A message of type `config` announces the number
//! of cases, `report` gives the result of a case, and `metric` and `check` add a metric or a
//! checksum to a result. Start at [`ReportCollector`].

use crate::RunResult;
use crate::events::declared_metric;
use crate::node::http_tool::ToolShim;
use crate::report::{ReportedRate, observe_rate, parse_elapsed_ns};
use crate::run_outcome::invalid_cause;
use serde_json::Value as Json;
use speedwell_machine::process::{ChildConversation, NextStep};
use speedwell_model::{Case, FailureCause, ParameterValue};
use std::time::Duration;

/// Time allowed for a script to exit after its last report; after that, the script is killed. The
/// benchmark library ends the script 5 s after the report, even if the event loop is still alive.
const EXIT_GRACE: Duration = Duration::from_secs(6);

/// Collects the observations of one process.
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
    /// Shim of the process's HTTP tool, which has more details than the report.
    pub shim: Option<ToolShim>,
    test: bool,
    /// Metrics and checksums that arrived before the report of their case.
    unmatched: Vec<Json>,
}

impl ReportCollector {
    /// Expects `expected` reports, or as many as the `config` message announces.
    pub fn new(expected: Option<usize>, name: Option<String>, test: bool) -> ReportCollector {
        ReportCollector {
            name,
            observations: Vec::new(),
            fault: None,
            expected,
            shim: None,
            test,
            unmatched: Vec::new(),
        }
    }

    /// Returns the fault in the reports as a whole, once the process has ended.
    pub fn find_fault(&self) -> Option<FailureCause> {
        if self.fault.is_some() || self.observations.is_empty() {
            return Some(self.fault.clone().unwrap_or(FailureCause::Silent));
        }
        let (reported, expected) = (self.observations.len(), self.expected?);
        (reported != expected)
            .then(|| invalid_cause(format!("reported {reported} of {expected} cases")))
    }

    fn handle_report(&mut self, message: &Json) {
        let rate = ReportedRate {
            rate: message["rate"].clone(),
            elapsed_ns: parse_elapsed_ns(&message["time"]),
            // The shim has the tool's whole output; the library forwards only the numbers that it
            // parsed.
            http: self
                .shim
                .as_ref()
                .and_then(ToolShim::read_figures)
                .or_else(|| message.get("http").cloned()),
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
            *tool = ParameterValue::Text(shim.tool().to_owned());
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
    match json {
        Json::Bool(truth) => ParameterValue::Bool(*truth),
        Json::Number(number) => ParameterValue::Number(number.as_f64().unwrap_or(f64::NAN)),
        Json::String(text) => ParameterValue::Text(text.clone()),
        other => ParameterValue::Text(other.to_string()),
    }
}

impl ChildConversation for ReportCollector {
    fn handle_line(&mut self, line: &[u8]) -> NextStep {
        let Ok(message) = serde_json::from_slice::<Json>(line) else {
            return NextStep::Wait;
        };
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
mod tests {
    use super::*;

    fn collect_reports(lines: &[&str]) -> ReportCollector {
        let mut reports = ReportCollector::new(None, None, false);
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
        let mut reports = ReportCollector::new(Some(2), None, false);
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
