//! Defines a run: one fresh process that executes one case under one variant. Runs are
//! statistically independent of each other; samples of the same run are not. Also defines the
//! timing of a snippet's run, in windows and batches. Start at [`Run`].

use crate::{Case, Metric};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Note on results that come from several repetitions in one process.
pub const REPETITION: &str = "Repetitions within one process are not independent.";

/// The samples of one process, with its position in the plan and its resource usage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The executed case.
    pub case: Arc<Case>,
    /// Name of the variant.
    pub variant: Arc<str>,
    /// Position in the order of execution of the session, from 0.
    pub slot: u32,
    /// Index of the randomized block within the case, from 0.
    pub block: u32,
    /// Index of the variant's build that was executed, from 0, if there are several builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<u32>,
    /// Start time of the process, in milliseconds since the Unix epoch.
    pub started_unix_ms: i64,
    /// Lifetime of the process, including start-up.
    pub wall_ns: u64,
    /// Resource usage of the process and of the children that it waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<ResourceUsage>,
    /// Kernel counters during the run.
    #[serde(default, alias = "surroundings", skip_serializing_if = "Option::is_none")]
    pub kernel_stats: Option<KernelStats>,
    /// The rule that rejected the run, if any.
    #[serde(default, alias = "disturbed", skip_serializing_if = "Option::is_none")]
    pub rejected_by: Option<String>,
    /// The machine that executed the run, as an index into [`crate::Session::machines`]. `None` if
    /// that list is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<u32>,
    /// All reported values in order, without the warm-up.
    pub samples: Vec<Sample>,
    /// Caveats for the reader of the results, as whole sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// For an HTTP load, the JSON of a [`LoadRun`](super::load::run::LoadRun). It is kept as text,
    /// because the histograms take megabytes in memory and only a report about this run needs them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<Arc<str>>,
}

impl Run {
    /// Returns a run without samples, times or resource usage.
    pub fn empty(
        case: impl Into<Arc<Case>>,
        variant: impl Into<Arc<str>>,
        slot: u32,
        block: u32,
    ) -> Run {
        Run {
            case: case.into(),
            variant: variant.into(),
            slot,
            block,
            build: None,
            started_unix_ms: 0,
            wall_ns: 0,
            usage: None,
            kernel_stats: None,
            rejected_by: None,
            machine: None,
            samples: Vec::new(),
            notes: Vec::new(),
            load: None,
        }
    }

    /// Note on a load whose requests followed a schedule.
    pub const AT_FIXED_RATE: &str =
        "Requests were sent at a fixed rate, so connections were idle in between.";

    /// Note on a load whose clients had a think time.
    pub const WITH_THINK_TIME: &str =
        "Clients paused between requests, so connections were idle in between.";

    /// Whether the notes say that connections were idle between requests.
    pub fn has_idle_connections(&self) -> bool {
        let idle_notes = [Run::AT_FIXED_RATE, Run::WITH_THINK_TIME];
        self.notes.iter().any(|note| idle_notes.contains(&note.as_str()))
    }
}

/// Resource usage of a process and the children that it waited for (`getrusage`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceUsage {
    /// Processor time in user mode.
    pub user_ns: u64,
    /// Processor time in kernel mode.
    pub system_ns: u64,
    /// Largest resident set.
    pub max_rss_bytes: u64,
    /// Context switches forced by the scheduler: a sign of a busy machine.
    pub involuntary_switches: u64,
    /// Context switches because the process waited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub voluntary_switches: Option<u64>,
    /// Page faults that did not read from a disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minor_faults: Option<u64>,
    /// Page faults that read from a disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub major_faults: Option<u64>,
    /// Migrations of the first thread between processors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migrations: Option<u64>,
}

impl ResourceUsage {
    /// Processor time in both modes.
    pub fn cpu_ns(&self) -> u64 {
        self.user_ns + self.system_ns
    }
}

/// Kernel counters of the machine during a run. Values that the kernel does not report are `None`.
/// Fractions are from 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct KernelStats {
    /// Fraction of the machine's processor time that the hypervisor gave to other guests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steal: Option<f64>,
    /// Fraction of time in which at least one task waited for a processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pressure: Option<f64>,
    /// Frequency of the first processor before and after the run, in MHz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frequency_mhz: Option<[f64; 2]>,
    /// Thermal throttling events of the first core and of its package.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled: Option<[u64; 2]>,
    /// Load average of the last minute at the end of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<f64>,
    /// Temperature of the first thermal zone at the end of the run, in degrees Celsius.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature_c: Option<f64>,
}

/// One observed value of a metric, such as a rate over a number of iterations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Name of the [`crate::Metric`].
    pub metric: Arc<str>,
    /// The value in the metric's unit, exactly as reported.
    pub value: f64,
    /// Duration of the observation in nanoseconds, if reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed_ns: Option<u64>,
    /// Number of iterations in the observation, if reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iterations: Option<f64>,
}

/// A run's contribution to a series: the median of the run's samples of the metric.
///
/// A run is one replicate, however many values it has. Values from one process are not independent,
/// and treating them as independent multiplies false alarms (docs/why/statistics.md, "One value per
/// process").
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunValue {
    /// Position in the order of execution.
    pub slot: u32,
    /// Randomized block within the case.
    pub block: u32,
    /// The value in the metric's unit.
    pub value: f64,
}

/// The values of one variant for one case and metric.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSeries {
    /// The case.
    pub case: Arc<Case>,
    /// The variant's name.
    pub variant: Arc<str>,
    /// The metric.
    pub metric: Metric,
    /// One value per run, in order of execution.
    pub runs: Vec<RunValue>,
}

impl RunSeries {
    /// The values in order of execution.
    pub fn values(&self) -> Vec<f64> {
        self.runs.iter().map(|run| run.value).collect()
    }
}

impl Run {
    /// The run's value of `metric`: the median of the samples, or `None` without samples.
    pub fn value_of(&self, metric: &str) -> Option<f64> {
        let mut values: Vec<f64> =
            self.samples.iter().filter(|s| &*s.metric == metric).map(|s| s.value).collect();
        median(&mut values)
    }
}

/// Median of `values`. Sorts them in place. `None` for an empty slice.
pub fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        n if n % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

/// Timing of one run of a snippet.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SnippetTiming {
    /// Number of workers.
    pub workers: u32,
    /// The measuring windows, or samples of fixed length (a number of iterations that was fixed in
    /// advance), in order.
    pub windows: Vec<TimingWindow>,
    /// Iterations per second over all windows together. The mean of the rates would be more biased:
    /// samples of fixed length vary in duration x, and the mean of 1/x exceeds the reciprocal of
    /// the mean of x.
    pub per_s: Option<f64>,
    /// Quantiles over single batches; `None` if there were no batches after the warm-up.
    pub batches: Option<BatchQuantiles>,
    /// Processor time per iteration in nanoseconds, over all workers: one value per sample of fixed
    /// length, or a single value for all windows. Empty if the harness cannot measure processor
    /// time.
    pub cpu_ns: Vec<f64>,
    /// Times of the reference loop between samples, in nanoseconds, if requested.
    pub reference_ns: Vec<f64>,
}

/// Start of the note on a run that loaded files from the user's checkout.
const STRAY_FILES: &str = "It loaded these files from the checkout instead of from its revision: ";

impl Run {
    /// Whether the results of this run come from several repetitions in one process.
    pub fn is_repetition(&self) -> bool {
        self.notes.iter().any(|note| note == REPETITION)
    }

    /// Returns the note on a run that loaded these files from the user's checkout instead of from
    /// its revision. The paths are relative to the project.
    pub fn stray_note(files: &[String]) -> String {
        format!("{STRAY_FILES}{}.", files.join(", "))
    }

    /// The files named in the notes that [`Run::stray_note`] created.
    pub fn stray_files(&self) -> impl Iterator<Item = &str> {
        let files =
            self.notes.iter().filter_map(|note| note.strip_prefix(STRAY_FILES)?.strip_suffix('.'));
        files.flat_map(|files| files.split(", "))
    }
}

/// One measuring window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimingWindow {
    /// Iterations per second over all workers.
    pub per_s: f64,
    /// Length of the window, in nanoseconds.
    pub elapsed_ns: f64,
    /// Iterations of all workers. Iterations in progress at the start or the end of the window are
    /// counted as fractions.
    pub iterations: f64,
}

/// Quantiles of the time per iteration of single batches, in nanoseconds. They are computed for
/// each worker and averaged over workers. Even on a busy machine, an undisturbed batch shows the
/// cost of the snippet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchQuantiles {
    /// Minimum.
    pub min_ns: f64,
    /// 5th percentile.
    pub p5_ns: f64,
    /// 25th percentile.
    pub p25_ns: f64,
    /// Median.
    pub median_ns: f64,
    /// Number of batches.
    pub count: u64,
}

impl SnippetTiming {
    /// Time that one worker needs for an iteration, over all windows, in nanoseconds.
    pub fn time_ns(&self) -> Option<f64> {
        Some(f64::from(self.workers) / self.per_s? * 1e9)
    }

    /// Mean time per iteration divided by the time per iteration in the median batch: 1 on a quiet
    /// machine.
    pub fn disturbance(&self) -> Option<f64> {
        Some(self.time_ns()? / self.batches?.median_ns)
    }
}
