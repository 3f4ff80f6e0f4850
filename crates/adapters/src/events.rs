//! Collects the events of the harness protocol and interprets them for one case.

use super::job::BenchmarkJob;
use super::{ProtocolMessage, RunResult};
use crate::run_outcome::{ReportedRate, invalid_cause, observe_rate};
use speedwell_machine::process::{ChildConversation, NextStep, OutputStream};
use speedwell_model::{Case, FailureCause, Metric, MetricDirection, ParameterValue, Sample};
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

/// Time that a process may take to exit after its last event.
const EXIT_GRACE: Duration = Duration::from_secs(6);

/// Converts the events to the result of the job's case. Also returns what is wrong with the result,
/// if anything.
pub(super) fn observe_case(
    job: &BenchmarkJob,
    events: &EventLog,
) -> (Option<RunResult>, Option<FailureCause>) {
    let mut case = job.known_case();
    let results = events.events_of("timed").count() + events.events_of("once").count();
    if results > 1 {
        let reason = format!("reported {results} results for one run; expected one");
        return (None, Some(invalid_cause(reason)));
    }
    if let Some(timed) = events.first("timed") {
        return observe_timed(case, timed, events);
    }
    let Some(once) = events.first("once") else {
        return (None, Some(events.error_cause().unwrap_or(FailureCause::Silent)));
    };
    if let Some(tool) = once.get("tool").filter(|tool| !tool.is_empty()) {
        case.values.retain(|(name, _)| name != "benchmarker");
        case.values.push(("benchmarker".into(), ParameterValue::Text(tool)));
    }
    let rate = ReportedRate {
        rate: once.get("rate").map_or(serde_json::Value::Null, |text| {
            text.parse::<f64>().ok().and_then(serde_json::Number::from_f64).into()
        }),
        elapsed_ns: once.parse_number("elapsed_ns"),
        http: None,
    };
    let (mut result, fault) = observe_rate(case, &rate, job.test);
    for metric in events.events_of("metric") {
        add_metric(&mut result, metric);
    }
    let iterations = once.parse_number::<f64>("iterations").filter(|count| *count > 0.0);
    if let (Some(cpu_ns), Some(count)) = (once.parse_number::<u64>("cpu_ns"), iterations) {
        result.add_cpu_times(&[cpu_ns as f64 / count]);
    }
    result.check = events.first("check").and_then(|check| check.get("text"));
    let logs = events.events_of("log").filter_map(|log| log.get("text"));
    result.notes.extend(logs);
    let metric_value = |name| {
        let found = result.samples.iter().find(|sample| &*sample.metric == name);
        found.map_or(0.0, |sample| sample.value)
    };
    let failed_requests = metric_value("http_errors") + metric_value("http_non2xx");
    let failure = format!("had {failed_requests} failed requests, so the rate is invalid");
    let failure = (failed_requests > 0.0).then(|| invalid_cause(failure));
    (Some(result), events.error_cause().or(fault).or(failure))
}

/// Converts the samples of a loop that the harness controls. Each sample has a number of iterations
/// and a time.
fn observe_timed(
    case: Case,
    timed: &ProtocolMessage,
    events: &EventLog,
) -> (Option<RunResult>, Option<FailureCause>) {
    let mut result = RunResult {
        notes: events.first("ready").map(harness_warnings).unwrap_or_default(),
        check: events.first("check").and_then(|check| check.get("text")),
        ..RunResult::new(case, vec![Metric::throughput()])
    };
    let numbers = |key| -> Vec<u64> {
        let texts = timed.list(key);
        texts.iter().filter_map(|text| text.parse().ok()).collect()
    };
    let (times, counts, cpu_times) = (numbers("ns"), numbers("loop"), numbers("cpu_ns"));
    let workers = timed.parse_number::<f64>("workers").unwrap_or(1.0);
    let is_invalid = times.len() != timed.list("ns").len()
        || counts.is_empty()
        || !timed.list("cpu_ns").is_empty() && cpu_times.len() != times.len();
    let mut each_cpu_ns = Vec::new();
    let mut fault = is_invalid.then(|| invalid_cause("reported samples that are not numbers"));
    for (index, &elapsed_ns) in times.iter().enumerate() {
        // There is one count per sample, or a single count for all samples.
        let count = counts.get(index).or(counts.first()).copied().unwrap_or(0);
        let iterations = count as f64 * workers;
        if elapsed_ns == 0 || iterations == 0.0 {
            let reason = format!("reported {iterations} iterations in {elapsed_ns} ns");
            fault = fault.or(Some(invalid_cause(reason)));
            continue;
        }
        result.samples.push(Sample {
            metric: Arc::from(Metric::THROUGHPUT),
            value: iterations / elapsed_ns as f64 * 1e9,
            elapsed_ns: Some(elapsed_ns),
            iterations: Some(iterations),
        });
        let cpu_ns = cpu_times.get(index);
        each_cpu_ns.extend(cpu_ns.map(|&cpu_ns| cpu_ns as f64 / iterations));
    }
    for metric in events.events_of("metric") {
        add_metric(&mut result, metric);
    }
    result.add_cpu_times(&each_cpu_ns);
    let reference = Metric::new(Metric::REFERENCE_TIME, "ns", MetricDirection::Lower);
    for ns in numbers("reference_ns") {
        result.add_value(reference.clone(), ns as f64);
    }
    (Some(result), events.error_cause().or(fault))
}

/// Returns the warnings of the harness about distorted values, as whole sentences.
pub(super) fn harness_warnings(ready: &ProtocolMessage) -> Vec<String> {
    let keys = ready.keys().filter(|key| key.starts_with("warn"));
    keys.filter_map(|key| ready.get(key))
        .map(|text| format!("The harness warns: {}.", text.trim_end_matches('.')))
        .collect()
}

/// Creates a metric as a harness declares it. If no direction is declared, the unit implies it.
pub(super) fn declared_metric(name: &str, unit: &str, better: Option<&str>) -> Metric {
    let better = match better {
        Some("higher") => MetricDirection::Higher,
        Some("lower") => MetricDirection::Lower,
        _ => MetricDirection::of_unit(unit),
    };
    Metric::new(name, unit, better)
}

/// Adds the values of a `metric` event, which has one value for the run or one for each sample.
pub(super) fn add_metric(result: &mut RunResult, event: &ProtocolMessage) {
    let Some(name) = event.get("name") else {
        return;
    };
    let unit = event.get("unit").unwrap_or_default();
    let metric = declared_metric(&name, &unit, event.get("better").as_deref());
    let texts = event.list("value");
    for value in texts.iter().filter_map(|text| text.parse::<f64>().ok()) {
        result.add_value(metric.clone(), value);
    }
}

/// A conversation that sends all its commands at the start and collects every event.
pub(super) struct EventLog {
    opening: Vec<u8>,
    received: Vec<ProtocolMessage>,
    shows_output: bool,
}

impl EventLog {
    /// Creates a conversation that sends `hello`, these commands and `quit`.
    pub fn new<const N: usize>(commands: [ProtocolMessage; N]) -> EventLog {
        let mut opening = ProtocolMessage::new("hello").with("id", 1).with("proto", 1).to_string();
        for command in commands {
            opening.push_str(&command.to_string());
        }
        opening.push_str(&ProtocolMessage::new("quit").with("id", 9).to_string());
        EventLog { opening: opening.into_bytes(), received: Vec::new(), shows_output: false }
    }

    /// Forwards the process's output to our stderr if `shows` is true; stdout is for results.
    pub fn with_output(self, shows: bool) -> EventLog {
        EventLog { shows_output: shows, ..self }
    }

    pub fn all_events(&self) -> impl Iterator<Item = &ProtocolMessage> + Clone {
        self.received.iter()
    }

    /// Returns all events with this verb.
    pub fn events_of<'a>(&'a self, verb: &'a str) -> impl Iterator<Item = &'a ProtocolMessage> {
        self.received.iter().filter(move |message| message.verb == verb)
    }

    /// Returns the first event with this verb.
    pub fn first(&self, verb: &str) -> Option<&ProtocolMessage> {
        self.received.iter().find(|message| message.verb == verb)
    }

    /// Converts the first error event to a cause.
    pub fn error_cause(&self) -> Option<FailureCause> {
        let error = self.first("error")?;
        let message = error.get("msg").unwrap_or_default();
        let first_line = message.lines().next().unwrap_or_default().to_owned();
        match error.get("class").as_deref() {
            Some("NothingReported") => Some(FailureCause::Silent),
            Some("Skipped") => Some(FailureCause::Skipped { reason: first_line }),
            // The exit status describes this failure better.
            Some("ProcessExit") => None,
            Some(class) => Some(invalid_cause(format!("{class}: {first_line}"))),
            None => Some(invalid_cause(first_line)),
        }
    }
}

impl ChildConversation for EventLog {
    fn opening_bytes(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.opening)
    }

    fn handle_line(&mut self, line: &[u8]) -> NextStep {
        let Some(message) = ProtocolMessage::parse(line) else {
            return NextStep::Wait;
        };
        // A long list arrives in several messages; all but the last are marked as continued.
        if let Some(previous) =
            self.received.last_mut().filter(|previous| previous.is_continued_by(&message))
        {
            previous.append(message);
            return NextStep::Wait;
        }
        let is_last = matches!(message.verb.as_str(), "end" | "described");
        self.received.push(message);
        if is_last { NextStep::Linger(EXIT_GRACE) } else { NextStep::Wait }
    }

    fn observe_output(&mut self, _stream: OutputStream, bytes: &[u8]) {
        if self.shows_output {
            // Ignore errors: if stderr is closed, no one wants the output.
            let _ = std::io::stderr().write_all(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BenchmarkSource, SourceKind};
    use std::path::Path;

    fn observe_lines(lines: &[&str]) -> (RunResult, Option<FailureCause>) {
        let mut events = EventLog::new([]);
        for line in lines {
            events.handle_line(line.as_bytes());
        }
        let root = Path::new("/");
        let source = BenchmarkSource::new(SourceKind::Cpp, Path::new("/g/b.cpp"), root, root);
        let job = BenchmarkJob::new(source, "g/b/x");
        let (result, fault) = observe_case(&job, &events);
        (result.expect("something was reported"), fault)
    }

    fn metric_values(result: &RunResult, metric: &str) -> Vec<f64> {
        let samples = result.samples.iter().filter(|s| &*s.metric == metric);
        samples.map(|sample| sample.value).collect()
    }

    #[test]
    fn samples_count_the_iterations_of_all_workers() {
        let (result, fault) = observe_lines(&[
            "ready\twarn0=compiled without optimisation",
            "timed\tjob=case\tns=1000,2000\tloop=500\tworkers=2",
            "metric\tname=bytes\tunit=B/s\tbetter=higher\tvalue=7,8.5",
            "end",
        ]);
        assert_eq!(metric_values(&result, "throughput"), [1e9, 0.5e9]);
        assert_eq!(result.samples[1].iterations, Some(1000.0));
        assert_eq!(metric_values(&result, "bytes"), [7.0, 8.5]);
        assert_eq!(result.notes, ["The harness warns: compiled without optimisation."]);
        assert_eq!((result.metrics.len(), fault), (2, None));
    }

    #[test]
    fn each_sample_may_have_its_own_number_of_iterations() {
        let (result, _) = observe_lines(&["timed\tns=1000,1000\tloop=1,3\tworkers=1"]);
        assert_eq!(metric_values(&result, "throughput"), [1e6, 3e6]);
    }

    #[test]
    fn processor_time_is_per_iteration_and_not_the_first_metric() {
        let (result, fault) =
            observe_lines(&["timed\tns=1000,2000\tloop=5\tworkers=2\tcpu_ns=500,800"]);
        assert_eq!(metric_values(&result, Metric::CPU_TIME), [50.0, 80.0]);
        assert_eq!((result.metrics[0].name.as_str(), fault), ("throughput", None));
        let once = "once\titerations=4\telapsed_ns=1000\trate=4e6\tcpu_ns=600";
        assert_eq!(metric_values(&observe_lines(&[once]).0, Metric::CPU_TIME), [150.0]);
        let own = "metric\tname=cpu_time\tunit=ns\tbetter=lower\tvalue=7";
        assert_eq!(metric_values(&observe_lines(&[once, own]).0, Metric::CPU_TIME), [7.0]);
    }

    #[test]
    fn samples_without_time_or_with_invalid_numbers_are_faults() {
        for line in [
            "timed\tns=0\tloop=9",
            "timed\tns=5\tloop=",
            "timed\tns=x\tloop=1",
            "timed\tns=5,6\tloop=1\tcpu_ns=5",
        ] {
            let (_, fault) = observe_lines(&[line]);
            assert!(matches!(fault, Some(FailureCause::Invalid { .. })), "{line}");
        }
    }

    #[test]
    fn an_error_of_class_skipped_is_recorded_as_a_skip() {
        let mut events = EventLog::new([]);
        events.handle_line(b"error\tstage=run\tclass=Skipped\tmsg=no device");
        let reason = "no device".to_owned();
        assert_eq!(events.error_cause(), Some(FailureCause::Skipped { reason }));
    }
}
