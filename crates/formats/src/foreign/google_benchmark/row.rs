//! Reads a row of the list `benchmarks`, which is a repetition or an aggregate over several
//! repetitions.
//!
//! Interprets a row and its figures, and knows which keys the library itself writes. A number under
//! any other key is a counter. A large file has hundreds of thousands of rows, so they are
//! deserialized directly from the text. Each row is interpreted on its own.

use crate::foreign::google_benchmark::{CPU_TIME, REAL_TIME};
use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use speedwell_model::{FailureCause, Metric, MetricDirection, Sample};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

const AGGREGATE_SUFFIXES: [&str; 6] = ["_mean", "_median", "_stddev", "_cv", "_BigO", "_RMS"];

/// Kind of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum RowKind {
    /// A repetition.
    Iteration,
    /// An aggregate over several repetitions, with its name, such as `median`.
    Aggregate(String),
    /// The row does not state its kind, as in files from before version 1.5 of the library.
    Unspecified,
}

/// A row.
#[derive(Debug)]
pub struct GoogleBenchmarkRow {
    /// Name of the benchmark with arguments and number of threads. In old files, the name of an
    /// aggregate includes a suffix such as `_mean`.
    pub name: String,
    /// Kind of the row.
    pub kind: RowKind,
    /// Iterations over all threads; for an aggregate, the number of repetitions.
    pub iterations: Option<f64>,
    /// Number of threads.
    pub threads: f64,
    /// Wall time per iteration.
    pub real_ns: Option<f64>,
    /// CPU time per iteration.
    pub cpu_ns: Option<f64>,
    /// Counters in file order.
    pub counters: Vec<(String, f64)>,
    /// Results of fitting a complexity to the times of a whole family: the coefficients (BigO) and
    /// the error (RMS).
    pub fit: Vec<(Metric, f64)>,
    /// Complexity of a family, such as `NlgN`.
    pub big_o: Option<String>,
    /// Index of the family in the program, and of the benchmark in its family, if stated.
    /// Repetitions of one benchmark share both numbers; two benchmarks with the same name do not.
    pub place: Option<(u64, u64)>,
    error: Option<String>,
    skipped: Option<String>,
    /// The label set by the program.
    pub label: Option<String>,
}

impl GoogleBenchmarkRow {
    /// Returns whether the row is an aggregate over several repetitions.
    pub fn is_aggregate(&self) -> bool {
        matches!(self.kind, RowKind::Aggregate(_)) || !self.fit.is_empty()
    }

    /// Returns whether the row is the aggregate with the given name, such as `median`, and has a
    /// time.
    pub fn is_center(&self, name: &str) -> bool {
        self.real_ns.is_some() && self.kind == RowKind::Aggregate(name.to_owned())
    }

    /// Returns the name without the suffix of aggregates; `None` if the name has no such suffix.
    pub fn base_name(&self) -> Option<&str> {
        AGGREGATE_SUFFIXES.iter().find_map(|end| self.name.strip_suffix(end))
    }

    /// Returns why the row has no result, if it has none.
    pub fn failure_cause(&self) -> Option<FailureCause> {
        match (&self.error, &self.skipped) {
            (Some(message), _) => Some(FailureCause::invalid(message)),
            (None, Some(reason)) => Some(FailureCause::Skipped { reason: reason.clone() }),
            (None, None) if self.real_ns.is_none() => {
                Some(FailureCause::invalid("real_time is missing"))
            }
            (None, None) => None,
        }
    }

    /// Returns the times and counters of the row. The function `metric` declares the metric with
    /// the given name, and returns the name as a string that all samples share.
    pub fn to_samples(&self, mut metric: impl FnMut(&str) -> Arc<str>) -> Vec<Sample> {
        let iterations = self.iterations.filter(|_| !self.is_aggregate());
        let elapsed_ns = self.elapsed_ns();
        let times = [(REAL_TIME, self.real_ns, elapsed_ns), (CPU_TIME, self.cpu_ns, None)];
        let mut samples = Vec::with_capacity(times.len() + self.counters.len());
        for (name, value, elapsed_ns) in times {
            samples.extend(value.map(|value| Sample {
                metric: metric(name),
                value,
                elapsed_ns,
                iterations,
            }));
        }
        samples.extend(self.counters.iter().map(|(name, value)| Sample {
            metric: metric(name),
            value: *value,
            elapsed_ns: None,
            iterations: None,
        }));
        samples
    }

    /// Returns whether the wall time of an iteration exceeds its CPU time by more than 10%. In
    /// that case the machine was busy, or the code sleeps or waits for I/O, and wall time says
    /// little about the code. Returns `None` with several threads or manual timing, where the two
    /// times need not agree.
    pub fn is_waiting(&self) -> Option<bool> {
        let comparable = self.threads <= 1.0 && !self.name.contains("/manual_time");
        let (real_ns, cpu_ns) = self.real_ns.zip(self.cpu_ns).filter(|_| comparable)?;
        Some(real_ns > 1.1 * cpu_ns)
    }

    /// Returns the duration of the measured section; `None` for an aggregate, and with several
    /// threads, whose iterations may have overlapped.
    pub fn elapsed_ns(&self) -> Option<u64> {
        let iterations = self.iterations.filter(|_| !self.is_aggregate());
        iterations
            .zip(self.real_ns)
            .filter(|_| self.threads <= 1.0)
            .map(|(iterations, each)| (iterations * each) as u64)
    }

    /// Returns notes on the figures of the row.
    pub fn figure_notes(&self) -> Vec<String> {
        let label = self.label.iter().map(|label| format!("Its label is '{label}'."));
        let aggregate = match &self.kind {
            RowKind::Aggregate(name) => Some(format!(
                "This is the {name} of {} repetitions, which are not in the file.",
                self.iterations.map_or("some".to_owned(), |count| count.to_string())
            )),
            _ => None,
        };
        label.chain(aggregate).collect()
    }
}

/// Keys that the library itself writes and that are not needed here.
const UNUSED_KEYS: [&str; 3] = ["repetitions", "repetition_index", "aggregate_unit"];

impl<'de> Deserialize<'de> for GoogleBenchmarkRow {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<GoogleBenchmarkRow, D::Error> {
        source.deserialize_map(RowVisitor)
    }
}

struct RowVisitor;

impl<'de> Visitor<'de> for RowVisitor {
    type Value = GoogleBenchmarkRow;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<GoogleBenchmarkRow, A::Error> {
        let mut members = RowKeys::default();
        while let Some(BorrowedText(key)) = map.next_key::<BorrowedText<'de>>()? {
            members.read_key(&key, &mut map)?;
        }
        members.into_row()
    }
}

/// Values of the keys read so far. A null value is treated as absent, because null stands for a
/// number that is not finite.
#[derive(Default)]
struct RowKeys<'de> {
    name: Option<BorrowedText<'de>>,
    run_name: Option<BorrowedText<'de>>,
    run_type: Option<BorrowedText<'de>>,
    aggregate_name: Option<BorrowedText<'de>>,
    threads: Option<f64>,
    iterations: Option<f64>,
    real_time: Option<f64>,
    cpu_time: Option<f64>,
    time_unit: Option<BorrowedText<'de>>,
    real_coefficient: Option<f64>,
    cpu_coefficient: Option<f64>,
    rms: Option<f64>,
    big_o: Option<BorrowedText<'de>>,
    error_occurred: bool,
    error_message: Option<BorrowedText<'de>>,
    skipped: bool,
    skip_message: Option<BorrowedText<'de>>,
    label: Option<BorrowedText<'de>>,
    family_index: Option<f64>,
    per_family_instance_index: Option<f64>,
    counters: Vec<(String, f64)>,
}

impl<'de> RowKeys<'de> {
    fn read_key<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "name" => self.name = next_value(key, map)?,
            "run_name" => self.run_name = next_value(key, map)?,
            "run_type" => self.run_type = next_value(key, map)?,
            "aggregate_name" => self.aggregate_name = next_value(key, map)?,
            "threads" => self.threads = next_value(key, map)?,
            "iterations" => self.iterations = next_value(key, map)?,
            "real_time" => self.real_time = next_value(key, map)?,
            "cpu_time" => self.cpu_time = next_value(key, map)?,
            "time_unit" => self.time_unit = next_value(key, map)?,
            "real_coefficient" => self.real_coefficient = next_value(key, map)?,
            "cpu_coefficient" => self.cpu_coefficient = next_value(key, map)?,
            "rms" => self.rms = next_value(key, map)?,
            "big_o" => self.big_o = next_value(key, map)?,
            "error_occurred" => self.error_occurred = next_value(key, map)?.unwrap_or_default(),
            "error_message" => self.error_message = next_value(key, map)?,
            "skipped" => self.skipped = next_value(key, map)?.unwrap_or_default(),
            "skip_message" => self.skip_message = next_value(key, map)?,
            "label" => self.label = next_value(key, map)?,
            "family_index" => self.family_index = next_value(key, map)?,
            "per_family_instance_index" => {
                self.per_family_instance_index = next_value(key, map)?;
            }
            _ if UNUSED_KEYS.contains(&key) => drop(map.next_value::<IgnoredAny>()?),
            _ => {
                // A number is a counter; anything else is skipped.
                let text = map.next_value::<&RawValue>()?.get();
                if text.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
                    let value = serde_json::from_str(text).map_err(A::Error::custom)?;
                    self.counters.push((key.to_owned(), value));
                }
            }
        }
        Ok(())
    }

    /// Returns the results of a fit over a family, each with its metric.
    fn fit_figures(&self, ns_per_unit: f64) -> Vec<(Metric, f64)> {
        let figures = [
            ("real_coefficient", "ns", self.real_coefficient, ns_per_unit),
            ("cpu_coefficient", "ns", self.cpu_coefficient, ns_per_unit),
            ("rms", "", self.rms, 1.0),
        ];
        let metric = |(name, unit, figure, factor): (&str, &str, Option<f64>, f64)| {
            Some((Metric::new(name, unit, MetricDirection::Lower), figure? * factor))
        };
        figures.into_iter().filter_map(metric).collect()
    }

    fn into_row<E: Error>(self) -> Result<GoogleBenchmarkRow, E> {
        let factor = match self.real_time.or(self.cpu_time) {
            None if self.big_o.is_none() => 1.0,
            _ => ns_per_unit(self.time_unit.as_ref().map(|text| &*text.0))?,
        };
        let fit_figures = self.fit_figures(factor);
        let into_owned = |text: Option<BorrowedText<'de>>| text.map(|text| text.0.into_owned());
        let name = into_owned(self.name).ok_or_else(|| E::custom("the key 'name' is missing"))?;
        let kind = match self.run_type.as_ref().map(|text| &*text.0) {
            Some("aggregate") => {
                RowKind::Aggregate(into_owned(self.aggregate_name).unwrap_or_default())
            }
            Some(_) => RowKind::Iteration,
            None => RowKind::Unspecified,
        };
        let name = if fit_figures.is_empty() {
            name
        } else {
            // Old files have no key `run_name`, so the name of the family must be taken from the
            // name of the row.
            let mut suffixes = ["_BigO", "_RMS"].into_iter();
            suffixes.find_map(|end| name.strip_suffix(end)).unwrap_or(&name).to_owned()
        };
        let reason = |is_so: bool, message| is_so.then(|| into_owned(message).unwrap_or_default());
        Ok(GoogleBenchmarkRow {
            name: into_owned(self.run_name).unwrap_or(name),
            kind,
            iterations: self.iterations,
            threads: self.threads.unwrap_or(1.0),
            real_ns: self.real_time.map(|time| time * factor),
            cpu_ns: self.cpu_time.map(|time| time * factor),
            counters: self.counters,
            fit: fit_figures,
            big_o: into_owned(self.big_o),
            place: (self.family_index.zip(self.per_family_instance_index))
                .map(|(family, instance)| (family as u64, instance as u64)),
            error: reason(self.error_occurred, self.error_message),
            skipped: reason(self.skipped, self.skip_message),
            label: into_owned(self.label).filter(|label| !label.is_empty()),
        })
    }
}

/// Reads the value of a key. The value must have the type `T` or be null.
fn next_value<'de, A: MapAccess<'de>, T: Deserialize<'de>>(
    key: &str,
    map: &mut A,
) -> Result<Option<T>, A::Error> {
    let value = map.next_value::<Option<T>>();
    value.map_err(|error| A::Error::custom(format!("'{key}': {error}")))
}

fn ns_per_unit<E: Error>(unit: Option<&str>) -> Result<f64, E> {
    let unit = unit.ok_or_else(|| E::custom("the key 'time_unit' is missing"))?;
    nanoseconds_per(unit)
        .ok_or_else(|| E::custom(format!("'time_unit' is '{unit}', not ns, us, ms or s")))
}

/// Returns the nanoseconds in a unit that the library writes; `None` for any other unit.
pub fn nanoseconds_per(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return None,
    })
}

/// A string that is copied only if it contains escapes.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct BorrowedText<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);
