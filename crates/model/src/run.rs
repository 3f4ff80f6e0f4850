//! One fresh process executing one case under one variant: the unit of independence. Its samples, the one value that it
//! adds to a series, and the windows and batches of a snippet. Start at [`Run`].

use crate::{Case, Metric};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What every repetition of several in one process is noted as.
pub const REPETITION: &str = "Repetitions of one process are not independent.";

/// The samples of one process, with where it stood in the plan and what it cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// What was executed.
    pub case: Arc<Case>,
    /// Name of the variant it was executed under.
    pub variant: Arc<str>,
    /// Position in the order of execution of the session, from 0.
    pub slot: u32,
    /// The randomised block of its case that the run belongs to, from 0.
    pub block: u32,
    /// Which build of the variant's source was executed, from 0, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<u32>,
    /// When the process was started, in milliseconds since the Unix epoch.
    pub started_unix_ms: i64,
    /// How long the process lived, start-up included.
    pub wall_ns: u64,
    /// What the operating system accounted to the process and its waited-for children.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// What the machine did meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub surroundings: Option<Surroundings>,
    /// The rule by which it was put aside, where such rules were fixed before measuring.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disturbed: Option<String>,
    /// Which machine of the session executed it, where the session has machines ([`crate::Session::machines`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<u32>,
    /// Every value it reported, in order, warm-up excluded.
    pub samples: Vec<Sample>,
    /// Remarks a reader of the figures should know, as whole sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Everything that is known of the run if it was an HTTP load: the JSON of a
    /// [`LoadRun`](super::load_run::LoadRun). It is kept as text because its histograms take megabytes
    /// in memory, and only a report about that very run wants them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<Arc<str>>,
}

impl Run {
    /// The remark on a load whose requests left when they were due instead of when an answer had come, so
    /// that connections were idle in between.
    pub const AT_FIXED_RATE: &str =
        "Requests were sent at a fixed rate, so connections were idle in between.";
}

/// Resource usage of a process tree (`getrusage`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// CPU time in user mode.
    pub user_ns: u64,
    /// CPU time in kernel mode.
    pub system_ns: u64,
    /// Largest resident set.
    pub max_rss_bytes: u64,
    /// Context switches forced by the scheduler: a sign of a busy machine.
    pub involuntary_switches: u64,
    /// Context switches because it waited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub voluntary_switches: Option<u64>,
    /// Page faults without reading from a disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minor_faults: Option<u64>,
    /// Page faults that read from a disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub major_faults: Option<u64>,
    /// Moves of its first thread from one processor to another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migrations: Option<u64>,
}

impl Usage {
    /// CPU time in either mode.
    pub fn cpu_ns(&self) -> u64 {
        self.user_ns + self.system_ns
    }
}

/// What the machine did while a run was executed. What its kernel does not say is absent; shares are parts of 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Surroundings {
    /// Share of the machine's processor time that its host gave to others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steal: Option<f64>,
    /// Share of the time in which some task of the machine waited for a processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pressure: Option<f64>,
    /// Frequency of the first processor before and after, in MHz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frequency_mhz: Option<[f64; 2]>,
    /// Times that the first core and its package were slowed down because they were too hot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled: Option<[u64; 2]>,
    /// Tasks that ran or wanted to, over the last minute, when the run ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<f64>,
    /// Of the first thermal zone when the run ended, in degrees Celsius.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature_c: Option<f64>,
}

/// One observed value of a metric: N iterations in T time, or a figure that came with them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Name of the [`crate::Metric`] that the value belongs to.
    pub metric: Arc<str>,
    /// The value in the metric's unit, exactly as reported.
    pub value: f64,
    /// The length of the observation in nanoseconds, where the source tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed_ns: Option<u64>,
    /// How many iterations the observation covers, where the source tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iterations: Option<f64>,
}

/// One run's contribution: the median of its samples of the metric.
///
/// A process is one replicate however many values it gave: values inside a process are not
/// independent, and treating them so multiplies false alarms (docs/why/statistics.md, "One value per
/// process").
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunValue {
    /// Position in the order of execution.
    pub slot: u32,
    /// Randomised block.
    pub block: u32,
    /// The value in the metric's unit.
    pub value: f64,
}

/// The values that one variant gave for one case and metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The case.
    pub case: Arc<Case>,
    /// The variant's name.
    pub variant: Arc<str>,
    /// The metric.
    pub metric: Metric,
    /// One value per run, in order of execution.
    pub runs: Vec<RunValue>,
}

impl Series {
    /// The bare values in order of execution.
    pub fn values(&self) -> Vec<f64> {
        self.runs.iter().map(|run| run.value).collect()
    }
}

impl Run {
    /// The run's one value for `metric`: the median of its samples, `None` if it has none.
    pub fn value_of(&self, metric: &str) -> Option<f64> {
        let mut values: Vec<f64> = self
            .samples
            .iter()
            .filter(|s| &*s.metric == metric)
            .map(|s| s.value)
            .collect();
        median(&mut values)
    }
}

/// Median of `values`, which are sorted in place; `None` for an empty slice.
pub fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        n if n % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

/// What one run of a snippet gave.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SnippetTiming {
    /// Workers that took part.
    pub workers: u32,
    /// The windows, or samples of fixed length, in order.
    pub windows: Vec<Window>,
    /// Iterations per second over all windows together. It is less biased than the mean of short windows, which end
    /// when an iteration does: the mean of 1/x is more than 1 divided by the mean of x.
    pub per_s: Option<f64>,
    /// What single batches took; absent if there was none after the warm-up.
    pub batches: Option<Batches>,
    /// Processor time per iteration in nanoseconds, of all workers together: one for each sample of fixed length, else one
    /// for all windows; none where the harness has no clock for it.
    pub cpu_ns: Vec<f64>,
    /// What the reference loop took between samples, in nanoseconds, where it was asked for.
    pub reference_ns: Vec<f64>,
}

/// How the note on a run begins that loaded files of the checkout.
const STRAY_FILES: &str = "It loaded files of the checkout and not of its revision: ";

impl Run {
    /// The note on a run that loaded these files of the project, by their paths in it, from the user's checkout in place of those
    /// of its revision.
    pub fn stray_note(files: &[String]) -> String {
        format!("{STRAY_FILES}{}.", files.join(", "))
    }

    /// The files that such a note names.
    pub fn stray_files(&self) -> impl Iterator<Item = &str> {
        let notes = self.notes.iter();
        let files = notes.filter_map(|note| note.strip_prefix(STRAY_FILES)?.strip_suffix('.'));
        files.flat_map(|files| files.split(", "))
    }
}

/// One interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// Iterations per second of all workers together.
    pub per_s: f64,
    /// Its length, in nanoseconds.
    pub elapsed_ns: f64,
    /// Iterations of all workers; those that were in flight at its ends count in part.
    pub iterations: f64,
}

/// Time per iteration of single batches, in nanoseconds: quantiles of each worker, in the mean of the workers.
/// A batch that was not disturbed tells what the snippet costs, however busy the machine is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Batches {
    /// The quickest.
    pub min_ns: f64,
    /// A twentieth was quicker.
    pub p5_ns: f64,
    /// A quarter was quicker.
    pub p25_ns: f64,
    /// Half were quicker.
    pub median_ns: f64,
    /// How many there were.
    pub count: u64,
}

impl SnippetTiming {
    /// Time per iteration and worker over all windows, in nanoseconds.
    pub fn time_ns(&self) -> Option<f64> {
        Some(f64::from(self.workers) / self.per_s? * 1e9)
    }

    /// By how much iterations took longer in the mean than in the median batch: 1 on a quiet machine.
    pub fn disturbance(&self) -> Option<f64> {
        Some(self.time_ns()? / self.batches?.median_ns)
    }
}
