//! Converts the report of a load test, whichever HTTP tool wrote it, into a run.
//!
//! Decides the names of cases and metrics, so that reports of different tools can be compared. This
//! module knows nothing about file formats. Start at [`LoadReport`].

use super::session_builder::{ImportedProcess, InputFile, SessionBuilder};
use crate::foreign::{http_output, to_sentence};
use anyhow::Result;
use speedwell_model::{Case, FailureCause, Metric, MetricDirection, ParameterValue, Session};

/// Nanoseconds in a millisecond.
pub const NS_PER_MS: f64 = 1e6;

const LATENCY_MIN: &str = "latency_min";

/// Nanoseconds in a second.
pub const NS_PER_SECOND: f64 = 1e9;

/// Maximum mean number of requests in flight per connection without pipelining: 1, plus a tolerance
/// for rounding in the report.
const MAX_REQUESTS_PER_CONNECTION: f64 = 1.05;

/// Content of a report.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct LoadReport {
    /// `http://host:port/path`, or the tool's name if it does not print the address.
    pub target: String,
    /// Number of concurrent connections.
    pub concurrency: Option<f64>,
    /// Responses per second.
    pub throughput: Option<f64>,
    /// Completed requests; for a load of Speedwell's own generator, all requests.
    pub requests: Option<f64>,
    /// Duration of the test.
    pub elapsed_ns: Option<f64>,
    /// Failed requests, as counted by the tool.
    pub errors: Option<f64>,
    /// Responses with a status other than 2xx.
    pub non2xx: Option<f64>,
    /// Durations, each with the name of its metric.
    pub times_ns: Vec<(String, f64)>,
    /// The tool reports durations below this resolution as 0. The field is 0 for a tool without
    /// such a limit.
    pub resolution_ns: f64,
    /// The note that says why connections were idle between requests, if they were.
    pub idle_note: Option<&'static str>,
    /// Other parameters of the case.
    pub parameters: Vec<(String, ParameterValue)>,
    /// Whether the tool has no pipelining. A connection then carries at most one request at a time.
    pub has_single_requests: bool,
    /// Other metrics with their values.
    pub others: Vec<(Metric, f64)>,
    /// Warnings, without the name of the file.
    pub remarks: Vec<String>,
}

impl LoadReport {
    /// Converts the report into a session with one run. Adds messages for the user to `remarks`.
    ///
    /// # Errors
    /// Fails if the report has no values.
    pub fn into_sessions(
        self,
        file: &InputFile<'_>,
        remarks: &mut Vec<String>,
    ) -> Result<Vec<Session>> {
        let mut imported = SessionBuilder::default();
        self.add_to(&mut imported, remarks);
        Ok(vec![imported.into_session(file.label)?])
    }

    /// Adds the report as one run, because a load test is one process. If requests failed and none
    /// was answered, adds a failure instead. Adds messages for the user to `remarks`.
    pub fn add_to(mut self, imported: &mut SessionBuilder, remarks: &mut Vec<String>) {
        if let (Some(0.0), Some(failed @ 1.0..)) = (self.requests, self.errors) {
            let reason = format!("no request was answered ({failed} errors)");
            let cause = FailureCause::Invalid { reason };
            imported.add_failure(&self.case(), cause, String::new());
            return;
        }
        self.drop_zero_times();
        self.warn_if_impossible();
        let mut samples = Vec::new();
        let mut add_sample = |metric: Metric, value: f64| {
            // A value that the tool could not compute is missing, not infinite.
            if value.is_finite() {
                samples.push(imported.metric_sample(metric, value));
            }
        };
        if let Some(rate) = self.throughput {
            // For the metric `throughput`, reports also show the time per iteration. This time can
            // only be computed if the concurrency is known.
            let metric = match self.concurrency {
                Some(_) => Metric::throughput(),
                None => Metric::new("requests_per_second", "1/s", MetricDirection::Higher),
            };
            add_sample(metric, rate);
        }
        for (name, value_ns) in &self.times_ns {
            add_sample(Metric::new(name, "ns", MetricDirection::Lower), *value_ns);
        }
        self.others.drain(..).for_each(|(metric, value)| add_sample(metric, value));
        for (name, count) in [("http_errors", self.errors), ("http_non2xx", self.non2xx)] {
            if let Some(count) = count {
                add_sample(Metric::new(name, "", MetricDirection::Lower), count);
            }
        }
        if let Some(first) = samples.first_mut() {
            first.elapsed_ns = self.elapsed_ns.map(|elapsed| elapsed as u64);
            first.iterations = self.requests;
        }
        let case = self.case();
        for remark in &self.remarks {
            let remark = format!("'{case}': {remark}");
            if !remarks.contains(&remark) {
                remarks.push(remark);
            }
        }
        let (wall_ns, notes) = (self.elapsed_ns.unwrap_or_default(), self.notes());
        imported.add_run(case, ImportedProcess { wall_ns, samples, notes });
    }

    fn notes(&self) -> Vec<String> {
        let remarks = self.remarks.iter().map(|remark| to_sentence(remark));
        remarks.chain(self.idle_note.map(str::to_owned)).collect()
    }

    /// Returns the case of the load.
    pub fn case(&self) -> Case {
        let concurrency =
            self.concurrency.map(|count| ("concurrency".to_owned(), ParameterValue::Number(count)));
        let values = concurrency.into_iter().chain(self.parameters.clone());
        Case::new(&self.target, values.collect())
    }

    /// Drops times of 0, which only mean "below the resolution".
    fn drop_zero_times(&mut self) {
        let (zeros, times): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.times_ns).into_iter().partition(|(_, value)| *value == 0.0);
        self.times_ns = times;
        let names = zeros.iter().map(|(name, _)| name.as_str());
        let latencies: Vec<&str> = names.filter(|name| name.starts_with("latency")).collect();
        // If a percentile was 0, a printed minimum above 0 is wrong.
        let is_minimum = |name: &str| name == LATENCY_MIN;
        let has_lower = latencies.iter().any(|name| !is_minimum(name));
        let old_count = self.times_ns.len();
        self.times_ns.retain(|(name, _)| !(has_lower && is_minimum(name)));
        if !latencies.is_empty() && self.resolution_ns > 0.0 {
            self.remarks.push(format!(
                "times are whole multiples of {} ms, so {} of 0 ms {} left out{}",
                self.resolution_ns / NS_PER_MS,
                latencies.join(", "),
                if latencies.len() == 1 { "is" } else { "are" },
                if self.times_ns.len() < old_count { ", and so is latency_min" } else { "" }
            ));
        }
    }

    /// Warns about impossible values. By Little's law (Little 1961), the rate times the mean
    /// latency is the mean number of requests in flight. A connection without pipelining carries at
    /// most one request, so a report that implies more requests in flight than connections is
    /// corrupt. The mean latency may be rounded by half the resolution of the tool.
    fn warn_if_impossible(&mut self) {
        let lengths = self.others.iter().filter(|(metric, _)| metric.name == "http_failed_length");
        let by_length: f64 = lengths.map(|(_, count)| count).sum();
        // Responses of a different length are still responses, although ab counts them as failed.
        let failed = self.errors.is_some_and(|errors| errors > by_length);
        let mean = self.times_ns.iter().find(|(name, _)| name == "latency_mean");
        let (Some(concurrency), Some(rate), Some((_, mean_ns))) =
            (self.concurrency, self.throughput, mean)
        else {
            return;
        };
        let min_in_flight = rate * (mean_ns - self.resolution_ns / 2.0) / NS_PER_SECOND;
        let is_plain = self.has_single_requests && self.idle_note.is_none() && !failed;
        if is_plain && min_in_flight > concurrency * MAX_REQUESTS_PER_CONNECTION {
            self.remarks.push(format!(
                "rate times mean latency implies {min_in_flight:.1} requests in flight on {concurrency} \
                 connections, so the figures are inconsistent"
            ));
        }
    }
}

/// Returns the metric name of a percentile: `latency_p50`, `latency_p99_9`, `latency_max`.
pub fn percentile_metric(percent: &str) -> String {
    format!("latency_{}", http_output::percentile_name(percent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_minimum_is_left_out_if_a_percentile_is_below_it() {
        let times = |of: &[(&str, f64)]| {
            let times = of.iter().map(|(name, ns)| ((*name).to_owned(), *ns));
            let mut report = LoadReport {
                times_ns: times.collect(),
                resolution_ns: NS_PER_MS,
                ..LoadReport::default()
            };
            report.drop_zero_times();
            let names = report.times_ns.into_iter().map(|(name, _)| name);
            (names.collect::<Vec<_>>(), report.remarks.concat())
        };
        let (kept, told) =
            times(&[("latency_min", 1e6), ("latency_p50", 0.0), ("latency_max", 9e6)]);
        assert_eq!(kept, ["latency_max"]);
        assert_eq!(
            told,
            "times are whole multiples of 1 ms, so latency_p50 of 0 ms is left out, and so is latency_min"
        );
        let (kept, told) = times(&[("latency_min", 0.0), ("latency_p50", 1e6)]);
        assert_eq!(kept, ["latency_p50"]);
        assert!(told.ends_with("latency_min of 0 ms is left out"), "{told}");
    }
}
