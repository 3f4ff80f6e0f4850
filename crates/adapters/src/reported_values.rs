//! Defines the result that a process reports for a case ([`RunResult`]), and judges the values that
//! the process computed itself.
//!
//! A rate ([`observe_rate`]) may be faulty: no value, NaN, infinity, zero or less, a number as text,
//! a count instead of a rate, and a load with failed requests. The tools of Node.js core accept all
//! of them.

use serde_json::Value as Json;
use speedwell_model::{Case, FailureCause, Metric, MetricDirection, ParameterValue, Sample};
use std::sync::Arc;

/// Result reported for one case.
#[derive(Debug, Clone, PartialEq)]
pub struct RunResult {
    /// The case as named by the process.
    pub case: Case,
    /// Measured values.
    pub samples: Vec<Sample>,
    /// Metrics of the values.
    pub metrics: Vec<Metric>,
    /// Notes on these values, as whole sentences.
    pub notes: Vec<String>,
    /// Checksum computed by the process, compared between variants.
    pub check: Option<String>,
    /// Details of an HTTP load; see [`speedwell_model::Run::load`].
    pub load: Option<Arc<str>>,
}

impl RunResult {
    /// Creates a result without samples. The first of the metrics is the one that is compared.
    pub(crate) fn new(case: Case, metrics: Vec<Metric>) -> RunResult {
        RunResult { case, samples: Vec::new(), metrics, notes: Vec::new(), check: None, load: None }
    }

    /// Adds the throughput of a section.
    pub(crate) fn add_throughput(&mut self, value: f64, elapsed_ns: u64, iterations: f64) {
        self.samples.push(Sample {
            metric: Arc::from(Metric::THROUGHPUT),
            value,
            elapsed_ns: Some(elapsed_ns),
            iterations: Some(iterations),
        });
    }

    /// Adds a value that has neither an elapsed time nor a number of iterations.
    pub(crate) fn add_value(&mut self, metric: Metric, value: f64) {
        self.samples.push(Sample {
            metric: Arc::from(metric.name.as_str()),
            value,
            elapsed_ns: None,
            iterations: None,
        });
        self.declare_metric(metric);
    }

    /// Adds a metric unless there is one of its name.
    pub(crate) fn declare_metric(&mut self, metric: Metric) {
        if self.metrics.iter().all(|other| other.name != metric.name) {
            self.metrics.push(metric);
        }
    }

    /// Adds processor times per iteration, in nanoseconds, unless the benchmark reports this metric
    /// itself.
    pub(crate) fn add_cpu_times(&mut self, times_ns: &[f64]) {
        let metric = Metric::cpu_time();
        if self.metrics.iter().all(|other| other.name != metric.name) {
            times_ns.iter().for_each(|&value| self.add_value(metric.clone(), value));
        }
    }
}

/// Largest accepted value. The square of a larger value might overflow, for example in a variance.
const MAX_VALUE: f64 = 1e150;

/// Rejects values that no measurement can produce. All results are checked here, whether they come
/// from a harness, a command, or a benchmark that writes to the harness channel itself.
pub fn find_impossible_value(result: &RunResult) -> Option<FailureCause> {
    let reason = result.samples.iter().find_map(|sample| {
        let (name, value) = (&sample.metric, sample.value);
        let metric = result.metrics.iter().find(|metric| metric.name == **name);
        let is_time = metric.is_some_and(|metric| metric.unit == "ns");
        if !value.is_finite() || value.abs() > MAX_VALUE {
            return Some(format!("reported the impossible value {value:e} for '{name}'"));
        }
        (is_time && value < 0.0)
            .then(|| format!("reported a negative time for '{name}': {value} ns"))
    })?;
    Some(FailureCause::invalid(reason))
}

/// Rejects a measured section that is longer than the lifetime of its process. Such a time cannot
/// have been measured.
pub fn check_lifetime(result: &RunResult, wall_ns: u64) -> Option<FailureCause> {
    let elapsed = result.samples.iter().filter_map(|sample| sample.elapsed_ns);
    let longest = elapsed.max().filter(|longest| *longest > wall_ns)?;
    Some(FailureCause::invalid(format!(
        "reported a section of {longest} ns, but its process ran for only {wall_ns} ns"
    )))
}

/// Metric that holds the value as reported, if the rate had to be corrected.
pub const REPORTED_METRIC: &str = "reported";

/// One reported rate.
#[derive(Debug, Clone, Default)]
pub struct ReportedRate {
    /// The rate as received: a number, text, or nothing usable.
    pub rate: Json,
    /// Length of the measured section, if it could be read.
    pub elapsed_ns: Option<u64>,
    /// Further results of the HTTP tool, if the harness kept them.
    pub http: Option<Json>,
}

/// Converts `rate` to an observation of `case`. In a trial (`test`), implausible rates such as zero
/// are accepted, because no conclusion is drawn from them.
pub fn observe_rate(
    case: Case,
    rate: &ReportedRate,
    test: bool,
) -> (RunResult, Option<FailureCause>) {
    let mut result = RunResult::new(case, vec![Metric::throughput()]);
    let value = match parse_rate(&rate.rate, &mut result.notes) {
        Ok(value) => value,
        Err(reason) => return (result, Some(FailureCause::invalid(reason))),
    };
    if !test && let Some(reason) = find_implausible(value) {
        return (result, Some(FailureCause::invalid(reason)));
    }
    let value = correct_rate(value, rate, &mut result);
    let iterations = rate.elapsed_ns.map(|elapsed_ns| value * elapsed_ns as f64 / 1e9);
    let sample = Sample {
        metric: Arc::from(Metric::THROUGHPUT),
        value,
        elapsed_ns: rate.elapsed_ns,
        iterations: iterations.map(f64::round).filter(|count| count.is_finite()),
    };
    result.samples.insert(0, sample);
    let cause = rate.http.as_ref().and_then(|http| add_http_metrics(http, &mut result));
    (result, cause)
}

/// Parses seconds, given as decimal text (`"0.003686740"`) or as a number, with nanosecond
/// precision.
pub fn parse_elapsed_ns(time: &Json) -> Option<u64> {
    let text = match time {
        Json::String(text) => text.clone(),
        Json::Number(number) => format!("{:.9}", number.as_f64()?),
        _ => return None,
    };
    let (seconds, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let digits: String = fraction.chars().chain(std::iter::repeat('0')).take(9).collect();
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(digits.parse().ok()?)
}

fn parse_rate(rate: &Json, notes: &mut Vec<String>) -> Result<f64, String> {
    match rate {
        Json::Number(number) => number.as_f64().ok_or_else(|| "reported no finite rate".to_owned()),
        Json::String(text) => match text.trim().parse::<f64>() {
            Ok(value) => {
                notes.push("The rate was reported as text and converted to a number.".to_owned());
                Ok(value)
            }
            Err(_) => Err(format!("reported the rate '{text}', which is not a number")),
        },
        Json::Null => Err("reported no rate (null, which also stands for NaN)".to_owned()),
        other => Err(format!("reported the rate {other}, which is not a number")),
    }
}

fn find_implausible(value: f64) -> Option<String> {
    if value.is_nan() || value.is_infinite() || value == f64::MAX {
        Some(format!("reported the impossible rate {value:e}"))
    } else if value <= 0.0 {
        Some(format!("reported the rate {value}; expected a rate above zero"))
    } else {
        None
    }
}

/// Corrects the rate of `test-double`, the stand-in for an HTTP tool in Node.js. The stand-in
/// reports the number of requests, but its callers print this number as a rate. This function
/// divides the number by the time, and keeps the reported value as a second metric.
fn correct_rate(value: f64, rate: &ReportedRate, result: &mut RunResult) -> f64 {
    let tool = result.case.value("benchmarker").map(ParameterValue::plain).unwrap_or_default();
    if !tool.starts_with("test-double") {
        return value;
    }
    let reported_seconds = rate.http.as_ref().and_then(|http| http["seconds"].as_f64());
    let Some(seconds) =
        reported_seconds.or(rate.elapsed_ns.map(|ns| ns as f64 / 1e9)).filter(|s| *s > 0.0)
    else {
        return value;
    };
    result.notes.push(format!(
        "The test double reported a count of {value} requests; the rate is this count divided by \
         the measured time of {seconds} s."
    ));
    result.add_value(Metric::new(REPORTED_METRIC, "", MetricDirection::Higher), value);
    value / seconds
}

/// Adds latency and error counts. A load with failed requests does not measure the server.
fn add_http_metrics(http: &Json, result: &mut RunResult) -> Option<FailureCause> {
    let mut add = |name: &str, unit: &str, value: Option<f64>| {
        let metric = Metric::new(name, unit, MetricDirection::Lower);
        if let Some(value) = value {
            result.add_value(metric, value);
        }
    };
    for name in ["mean", "p50", "p75", "p90", "p99", "max"] {
        let ms = http["latency_ms"][name].as_f64();
        add(&format!("latency_{name}"), "ns", ms.map(|ms| ms * 1e6));
    }
    let errors = http["errors"].as_f64();
    let non2xx = http["non2xx"].as_f64();
    add("http_errors", "", errors);
    add("http_non2xx", "", non2xx);
    let failed_requests = errors.unwrap_or(0.0) + non2xx.unwrap_or(0.0);
    (failed_requests > 0.0).then(|| {
        FailureCause::invalid(format!(
            "{failed_requests} requests failed ({} errors, {} responses other than 2xx), so the rate is invalid",
            errors.unwrap_or(0.0),
            non2xx.unwrap_or(0.0)
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rate(rate: Json) -> ReportedRate {
        ReportedRate { rate, elapsed_ns: Some(2_000_000_000), http: None }
    }

    fn case(tool: &str) -> Case {
        let value = speedwell_model::ParameterValue::Text(tool.into());
        Case::new("http/simple.js", vec![("benchmarker".into(), value)])
    }

    #[test]
    fn elapsed_seconds_are_parsed_to_the_nanosecond() {
        assert_eq!(parse_elapsed_ns(&json!("0.003686740")), Some(3_686_740));
        assert_eq!(parse_elapsed_ns(&json!("12.5")), Some(12_500_000_000));
        assert_eq!(parse_elapsed_ns(&json!(1.5)), Some(1_500_000_000));
        assert_eq!(parse_elapsed_ns(&json!("x")), None);
    }

    #[test]
    fn a_figure_as_text_is_converted_and_noted() {
        let (result, cause) = observe_rate(case("h2load"), &rate(json!("549.52")), false);
        assert_eq!((result.samples[0].value, cause), (549.52, None));
        assert_eq!(result.notes.len(), 1);
    }

    #[test]
    fn impossible_rates_are_failures() {
        for value in [json!(null), json!(0), json!(-1.0), json!(f64::MAX), json!("abc"), json!([])]
        {
            let (_, cause) = observe_rate(case("wrk"), &rate(value.clone()), false);
            assert!(matches!(cause, Some(FailureCause::Invalid { .. })), "{value}");
        }
        assert_eq!(
            observe_rate(case("wrk"), &rate(json!(0)), true).1,
            None,
            "a trial may report 0"
        );
    }

    #[test]
    fn the_count_of_a_test_double_is_converted_to_a_rate() {
        let (result, _) = observe_rate(case("test-double-http"), &rate(json!(2473)), false);
        assert_eq!(result.samples[0].value, 1236.5);
        assert_eq!(
            (&*result.samples[1].metric, result.samples[1].value),
            (REPORTED_METRIC, 2473.0)
        );
    }

    #[test]
    fn failed_requests_fail_a_load_but_keep_its_latencies() {
        let mut rate = rate(json!(1000.0));
        rate.http = Some(json!({"tool": "wrk", "errors": 3, "latency_ms": {"p99": 4.2}}));
        let (result, cause) = observe_rate(case("wrk"), &rate, false);
        assert!(cause.unwrap().to_string().contains("3 requests failed"));
        assert!(result.samples.iter().any(|s| &*s.metric == "latency_p99" && s.value == 4.2e6));
    }
}
