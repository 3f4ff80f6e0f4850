//! One load test as an HTTP tool reports it, whatever the tool.
//!
//! Decides the names of cases and metrics, so that reports of different tools can be compared. It must
//! not know any format; whether the figures can be believed is decided in `analysis/validity/`. Start at
//! [`LoadReport`].

use super::imported::{Imported, Process, sample};
use crate::foreign::http_output;
use anyhow::Result;
use speedwell_model::{Better, Case, Cause, Environment, Metric, Run, Sample, Session, Value};

/// Nanoseconds in a millisecond.
pub const NS_PER_MS: f64 = 1e6;

/// The metric of the least duration.
const LATENCY_MIN: &str = "latency_min";

/// Nanoseconds in a second.
pub const NS_PER_SECOND: f64 = 1e9;

/// More requests than connections are impossible without pipelining; rounding may look like a few.
const MOST_BUSY_SHARE: f64 = 1.05;

/// What a report tells.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct LoadReport {
    /// `http://host:port/path`, or the tool's name where it does not print the address.
    pub target: String,
    /// Connections at once.
    pub concurrency: Option<f64>,
    /// Answers per second.
    pub throughput: Option<f64>,
    /// Requests that were completed.
    pub requests: Option<f64>,
    /// Length of the test.
    pub elapsed_ns: Option<f64>,
    /// Requests without a good end, by any cause that the tool knows.
    pub errors: Option<f64>,
    /// Answers with another status than 2xx.
    pub non2xx: Option<f64>,
    /// Durations: name of the metric and value.
    pub times_ns: Vec<(String, f64)>,
    /// Durations below this length are given as 0; 0 for tools that measure finely.
    pub resolution_ns: f64,
    /// Whether requests were sent at a fixed rate, so that connections are idle in between.
    pub has_fixed_rate: bool,
    /// Further parameters of the case.
    pub parameters: Vec<(String, Value)>,
    /// Whether a connection carries at most one request at a time: the tool has no pipelining.
    pub has_single_requests: bool,
    /// Further figures.
    pub others: Vec<(Metric, f64)>,
    /// Remarks on the figures, without the name of the file.
    pub remarks: Vec<String>,
}

impl LoadReport {
    /// The report as a session of one run. What the user should know is added to `warnings`.
    ///
    /// # Errors
    /// It has no figures at all.
    pub fn into_session(self, label: &str, warnings: &mut Vec<String>) -> Result<Session> {
        let mut imported = Imported::default();
        let mut remarks = Vec::new();
        self.add(&mut imported, &mut remarks);
        warnings.extend(remarks.iter().map(|remark| format!("'{label}': {remark}")));
        imported.into_session(label, Environment::default(), None)
    }

    /// Adds the report as one run: a load test is one process. What the user should know is added to
    /// `remarks`.
    pub fn add(mut self, imported: &mut Imported, remarks: &mut Vec<String>) {
        if let (Some(0.0), Some(failed @ 1.0..)) = (self.requests, self.errors) {
            let reason = format!("none of its requests was answered ({failed} errors)");
            let cause = Cause::Invalid { reason };
            imported.failure(&self.case(), cause, String::new());
            return;
        }
        self.leave_out_zeros();
        self.refuse_impossible();
        let mut samples = Vec::new();
        let mut keep = |metric: Metric, value: f64| {
            // A figure that the tool could not compute is missing, not infinite.
            if value.is_finite() {
                let metric = imported.metric(metric);
                samples.push(sample(&metric, value));
            }
        };
        if let Some(rate) = self.throughput {
            // Of throughput the reports tell the time per iteration, for which the concurrency must
            // be known.
            let metric = match self.concurrency {
                Some(_) => Metric::throughput(),
                None => Metric::new("requests_per_second", "1/s", Better::Higher),
            };
            keep(metric, rate);
        }
        for (name, value_ns) in &self.times_ns {
            keep(Metric::new(name, "ns", Better::Lower), *value_ns);
        }
        for (metric, value) in self.others.drain(..) {
            keep(metric, value);
        }
        for (name, count) in [("http_errors", self.errors), ("http_non2xx", self.non2xx)] {
            if let Some(count) = count {
                keep(Metric::new(name, "", Better::Lower), count);
            }
        }
        for sample in samples.iter_mut().take(1) {
            *sample = Sample {
                elapsed_ns: self.elapsed_ns.map(|elapsed| elapsed as u64),
                iterations: self.requests,
                ..sample.clone()
            };
        }
        let case = self.case();
        for remark in &self.remarks {
            let remark = format!("'{case}': {remark}");
            if !remarks.contains(&remark) {
                remarks.push(remark);
            }
        }
        let process = Process {
            wall_ns: self.elapsed_ns.unwrap_or_default(),
            samples,
            notes: self.notes(),
        };
        imported.run(case, process);
    }

    fn notes(&self) -> Vec<String> {
        let paced = self.has_fixed_rate.then(|| Run::AT_FIXED_RATE.to_owned());
        let remarks = self.remarks.iter().map(|remark| sentence(remark));
        remarks.chain(paced).collect()
    }

    /// The case that was loaded.
    pub fn case(&self) -> Case {
        let concurrency = self
            .concurrency
            .map(|count| ("concurrency".to_owned(), Value::Number(count)));
        let values = concurrency.into_iter().chain(self.parameters.clone());
        Case::new(&self.target, values.collect())
    }

    /// A time of 0 means "less than the tool can tell": as a figure it would be wrong.
    fn leave_out_zeros(&mut self) {
        let (zeros, times): (Vec<_>, Vec<_>) = std::mem::take(&mut self.times_ns)
            .into_iter()
            .partition(|(_, value)| *value == 0.0);
        self.times_ns = times;
        let latencies: Vec<&str> = zeros
            .iter()
            .map(|(name, _)| name.as_str())
            .filter(|name| name.starts_with("latency"))
            .collect();
        // A percentile below the least time that is printed shows that this is not the least one.
        let is_least = |name: &str| name == LATENCY_MIN;
        let has_lower = latencies.iter().any(|name| !is_least(name));
        let before = self.times_ns.len();
        self.times_ns
            .retain(|(name, _)| !(has_lower && is_least(name)));
        if !latencies.is_empty() && self.resolution_ns > 0.0 {
            self.remarks.push(format!(
                "times are whole multiples of {} ms, so {} of 0 ms {} left out{}",
                self.resolution_ns / NS_PER_MS,
                latencies.join(", "),
                if latencies.len() == 1 { "is" } else { "are" },
                if self.times_ns.len() < before {
                    ", and latency_min with them"
                } else {
                    ""
                }
            ));
        }
    }

    /// A connection without pipelining carries one request at most, so by Little's law (rate times mean
    /// latency, Little 1961) more requests than connections are a damaged report. The mean may be rounded.
    fn refuse_impossible(&mut self) {
        let others = self.others.iter();
        let by_length = others.filter(|(metric, _)| metric.name == "http_failed_length");
        let by_length: f64 = by_length.map(|(_, count)| count).sum();
        // Answers of another length are answers, whatever ab thinks of them.
        let failed = self.errors.is_some_and(|errors| errors > by_length);
        let mean = self
            .times_ns
            .iter()
            .find(|(name, _)| name == "latency_mean");
        let (Some(concurrency), Some(rate), Some((_, mean_ns))) =
            (self.concurrency, self.throughput, mean)
        else {
            return;
        };
        let least = rate * (mean_ns - self.resolution_ns / 2.0) / NS_PER_SECOND;
        let is_plain = self.has_single_requests && !self.has_fixed_rate && !failed;
        if is_plain && least > concurrency * MOST_BUSY_SHARE {
            self.remarks.push(format!(
                "{least:.1} requests would have been in flight on {concurrency} connections (rate \
                 times mean latency), so its figures do not belong together"
            ));
        }
    }
}

/// A remark as a sentence.
fn sentence(remark: &str) -> String {
    let mut letters = remark.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    format!(
        "{}{}.",
        first.map_or(String::new(), String::from),
        letters.as_str()
    )
}

/// The name of a percentile's metric: `latency_p50`, `latency_p99_9`, `latency_max`.
pub fn percentile(percent: &str) -> String {
    format!("latency_{}", http_output::percentile(percent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_time_is_left_out_where_a_percentile_is_below_it() {
        let times = |of: &[(&str, f64)]| {
            let times = of.iter().map(|(name, ns)| ((*name).to_owned(), *ns));
            let mut report = LoadReport {
                times_ns: times.collect(),
                resolution_ns: NS_PER_MS,
                ..LoadReport::default()
            };
            report.leave_out_zeros();
            let names = report.times_ns.into_iter().map(|(name, _)| name);
            (names.collect::<Vec<_>>(), report.remarks.concat())
        };
        let (kept, told) = times(&[
            ("latency_min", 1e6),
            ("latency_p50", 0.0),
            ("latency_max", 9e6),
        ]);
        assert_eq!(kept, ["latency_max"]);
        assert_eq!(
            told,
            "times are whole multiples of 1 ms, so latency_p50 of 0 ms is left out, and latency_min with them"
        );
        let (kept, told) = times(&[("latency_min", 0.0), ("latency_p50", 1e6)]);
        assert_eq!(kept, ["latency_p50"]);
        assert!(told.ends_with("latency_min of 0 ms is left out"), "{told}");
    }
}
