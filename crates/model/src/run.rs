//! Defines a run: one fresh process that executes one case under one variant. Runs are
//! statistically independent of each other; samples of the same run are not. Also defines the
//! timing of a snippet's run, in windows and batches, and the rules that discard disturbed runs.
//! Start at [`Run`].

use crate::{Case, Metric, nearest_name};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Note on results that come from several repetitions in one process.
pub const REPETITION: &str = "Repetitions within one process are not independent.";

/// The samples of one process, with its position in the plan and its resource usage.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
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
    /// For an HTTP load, the JSON of a [`LoadRun`](super::load::measurement::LoadRun). It is kept as text,
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
        Run { case: case.into(), variant: variant.into(), slot, block, ..Run::default() }
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

    /// The run's value of `metric`: the median of the samples, or `None` without samples.
    pub fn value_of(&self, metric: &str) -> Option<f64> {
        let mut values: Vec<f64> =
            self.samples.iter().filter(|s| &*s.metric == metric).map(|s| s.value).collect();
        median(&mut values)
    }

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

impl Sample {
    /// A value without a duration or a number of iterations.
    pub fn plain(metric: &str, value: f64) -> Sample {
        Sample { metric: metric.into(), value, elapsed_ns: None, iterations: None }
    }
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

// The kernel counters of a run, and the rules that discard disturbed runs.
//
// A rule may use kernel counters only, never the measured value or anything derived from the
// value. Discarding slow runs would bias the result. Start at [`DisturbanceFigure`] and
// [`RejectRules`].

/// One of the twelve kernel counters recorded with every run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DisturbanceFigure {
    /// Fraction of the machine's processor time that the hypervisor gave to other guests.
    Steal,
    /// Fraction of time in which at least one task waited for a processor.
    Pressure,
    /// Fraction of the process's lifetime in which it used no processor.
    Wait,
    /// Context switches forced by the scheduler, per second.
    Involuntary,
    /// Context switches because the process waited, per second.
    Voluntary,
    /// Migrations of the process's first thread between processors, per second.
    Migrations,
    /// Page faults without reading from a disk, per second.
    MinorFaults,
    /// Page faults that read from a disk, per second.
    MajorFaults,
    /// The lower of the frequencies before and after the run, in MHz.
    Frequency,
    /// Number of thermal throttling events of a core or its package.
    Throttled,
    /// Load average of the last minute.
    Load,
    /// Temperature in degrees Celsius.
    Temperature,
}

// The names of the counters in rules and in exports.
name_variants!(DisturbanceFigure: Steal = "steal", Pressure = "pressure", Wait = "wait",
    Involuntary = "involuntary", Voluntary = "voluntary", Migrations = "migrations",
    MinorFaults = "minor_faults", MajorFaults = "major_faults", Frequency = "frequency",
    Throttled = "throttled", Load = "load", Temperature = "temperature");

impl DisturbanceFigure {
    /// The unit of the counter in a rule: `%` for fractions, `/s` for rates.
    fn unit(self) -> &'static str {
        use DisturbanceFigure::*;
        match self {
            Steal | Pressure | Wait => "%",
            Involuntary | Voluntary | Migrations | MinorFaults | MajorFaults => "/s",
            Frequency => "MHz",
            Throttled | Load => "",
            Temperature => "C",
        }
    }

    /// The value of the counter in a run, in the unit that rules use; `None` if the kernel does not
    /// report the counter.
    pub fn value_in(self, run: &Run) -> Option<f64> {
        let percent = |share: Option<f64>| share.map(|share| 100.0 * share);
        let per_s = |count: fn(&ResourceUsage) -> Option<u64>| {
            let events = count(run.usage.as_ref()?)?;
            (run.wall_ns > 0).then(|| events as f64 / (run.wall_ns as f64 / 1e9))
        };
        let kernel_stats = run.kernel_stats.as_ref();
        match self {
            DisturbanceFigure::Steal => percent(kernel_stats?.steal),
            DisturbanceFigure::Pressure => percent(kernel_stats?.pressure),
            DisturbanceFigure::Wait => percent(time_waited(run)),
            DisturbanceFigure::Involuntary => per_s(|usage| Some(usage.involuntary_switches)),
            DisturbanceFigure::Voluntary => per_s(|usage| usage.voluntary_switches),
            DisturbanceFigure::Migrations => per_s(|usage| usage.migrations),
            DisturbanceFigure::MinorFaults => per_s(|usage| usage.minor_faults),
            DisturbanceFigure::MajorFaults => per_s(|usage| usage.major_faults),
            DisturbanceFigure::Frequency => kernel_stats?.frequency_mhz.map(|[a, b]| a.min(b)),
            DisturbanceFigure::Throttled => kernel_stats?.throttled.map(|[a, b]| a.max(b) as f64),
            DisturbanceFigure::Load => kernel_stats?.load,
            DisturbanceFigure::Temperature => kernel_stats?.temperature_c,
        }
    }
}

/// Fraction of a process's lifetime in which it used no processor. 0 if the threads used more than
/// one processor on average.
fn time_waited(run: &Run) -> Option<f64> {
    let usage = run.usage.as_ref()?;
    let used = usage.cpu_ns() as f64;
    (run.wall_ns > 0).then(|| (1.0 - used / run.wall_ns as f64).max(0.0))
}

/// A limit on one counter. Runs beyond the limit are regarded as disturbed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RejectRule {
    figure: DisturbanceFigure,
    is_above: bool,
    limit: f64,
}

impl RejectRule {
    /// Rules to suggest to the user. The default rules come first.
    pub const OFFERED: [RejectRule; 6] = [
        RejectRule::exceeded_by(DisturbanceFigure::Steal, 1.0),
        RejectRule::exceeded_by(DisturbanceFigure::Involuntary, 50.0),
        RejectRule::exceeded_by(DisturbanceFigure::Throttled, 0.0),
        RejectRule::exceeded_by(DisturbanceFigure::Pressure, 10.0),
        RejectRule::exceeded_by(DisturbanceFigure::Migrations, 10.0),
        RejectRule::exceeded_by(DisturbanceFigure::MajorFaults, 1.0),
    ];

    const fn exceeded_by(figure: DisturbanceFigure, limit: f64) -> RejectRule {
        RejectRule { figure, is_above: true, limit }
    }

    /// Whether the run is beyond the limit. A run for which the kernel does not report the counter
    /// is never beyond the limit.
    pub fn is_broken_by(&self, run: &Run) -> bool {
        self.figure.value_in(run).is_some_and(|value| {
            if self.is_above { value > self.limit } else { value < self.limit }
        })
    }
}

impl fmt::Display for RejectRule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operator = if self.is_above { '>' } else { '<' };
        let (name, unit) = (self.figure.name(), self.figure.unit());
        write!(out, "{name}{operator}{}{unit}", self.limit)
    }
}

impl FromStr for RejectRule {
    type Err = String;

    fn from_str(text: &str) -> Result<RejectRule, String> {
        let error =
            || format!("cannot parse rule '{text}': expected e.g. steal>1% or involuntary>50/s");
        let operator_index = text.find(['>', '<']).ok_or_else(error)?;
        let (name, limit) = (text[..operator_index].trim(), text[operator_index + 1..].trim());
        let figure = figure(name)?;
        let number = limit.strip_suffix(figure.unit()).unwrap_or(limit).trim();
        match number.parse() {
            Ok(limit) if f64::is_finite(limit) && limit >= 0.0 => {
                Ok(RejectRule { figure, is_above: text[operator_index..].starts_with('>'), limit })
            }
            _ => Err(format!(
                "cannot parse the limit '{limit}' of '{name}': expected e.g. 10{}",
                figure.unit()
            )),
        }
    }
}

/// Looks up the counter that a rule names.
fn figure(name: &str) -> Result<DisturbanceFigure, String> {
    const MEASURED: [&str; 9] =
        ["wall", "time", "cpu", "cpu_time", "throughput", "latency", "value", "rate", "elapsed"];
    if name == DisturbanceFigure::Wait.name() {
        return Err(
            "a rule cannot use 'wait': it is a fraction of the measured time, so slow runs would be \
             rejected for being slow"
                .into(),
        );
    }
    if MEASURED.contains(&name) || name.starts_with("time_") || name.starts_with("latency_") {
        return Err(format!(
            "a rule cannot use '{name}', which is a measured value: rejecting slow runs makes one variant look faster, \
             so that equal variants look different"
        ));
    }
    DisturbanceFigure::from_name(name).ok_or_else(|| {
        let names = DisturbanceFigure::ALL.map(|figure| figure.name().to_owned());
        let usable: Vec<&str> =
            names.iter().map(String::as_str).filter(|name| *name != "wait").collect();
        let hint = match nearest_name(name, &names) {
            Some(suggestion) => format!("did you mean '{suggestion}'?"),
            None => format!("expected one of {}", usable.join(", ")),
        };
        format!("unknown kernel counter '{name}'; {hint}")
    })
}

/// At most three rules; a run that violates any of them is disturbed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RejectRules(Vec<RejectRule>);

impl RejectRules {
    /// Maximum number of rules. Each further rule rejects more undisturbed runs.
    const MOST: usize = 3;

    /// The default rules, which only mark runs as disturbed and never reject a run.
    pub fn default_rules() -> RejectRules {
        RejectRules(RejectRule::OFFERED[..RejectRules::MOST].to_vec())
    }

    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over the rules.
    pub fn iter(&self) -> impl Iterator<Item = &RejectRule> {
        self.0.iter()
    }

    /// The first rule that the run violates.
    pub fn broken_by(&self, run: &Run) -> Option<&RejectRule> {
        self.iter().find(|rule| rule.is_broken_by(run))
    }
}

impl fmt::Display for RejectRules {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules: Vec<String> = self.iter().map(ToString::to_string).collect();
        out.write_str(&rules.join(","))
    }
}

impl FromStr for RejectRules {
    type Err = String;

    fn from_str(text: &str) -> Result<RejectRules, String> {
        let rules: Vec<RejectRule> = text.split(',').map(str::parse).collect::<Result<_, _>>()?;
        match rules.len() {
            0..=RejectRules::MOST => Ok(RejectRules(rules)),
            count => Err(format!(
                "{count} rules are too many: expected at most {}, because each further rule rejects \
                     more undisturbed runs",
                RejectRules::MOST
            )),
        }
    }
}

impl TryFrom<String> for RejectRules {
    type Error = String;

    fn try_from(text: String) -> Result<RejectRules, String> {
        text.parse()
    }
}

impl From<RejectRules> for String {
    fn from(rules: RejectRules) -> String {
        rules.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> Run {
        Run {
            wall_ns: 500_000_000,
            usage: Some(ResourceUsage {
                user_ns: 300_000_000,
                system_ns: 100_000_000,
                max_rss_bytes: 0,
                involuntary_switches: 30,
                voluntary_switches: Some(1),
                minor_faults: Some(200),
                major_faults: Some(0),
                migrations: None,
            }),
            kernel_stats: Some(KernelStats {
                steal: Some(0.015),
                frequency_mhz: Some([3000.0, 2400.0]),
                throttled: Some([0, 2]),
                ..KernelStats::default()
            }),
            ..Run::empty(Case::new("g/b", Vec::new()), "a", 0, 0)
        }
    }

    #[test]
    fn figures_are_shares_in_percent_and_counts_per_second() {
        let values = DisturbanceFigure::ALL.map(|figure| figure.value_in(&run()));
        let expected = [
            Some(1.5),
            None,
            Some(20.0),
            Some(60.0),
            Some(2.0),
            None,
            Some(400.0),
            Some(0.0),
            Some(2400.0),
            Some(2.0),
            None,
            None,
        ];
        for ((value, expected), figure) in values.iter().zip(expected).zip(DisturbanceFigure::ALL) {
            let is_near = match (value, expected) {
                (Some(value), Some(expected)) => (value - expected).abs() < 1e-9,
                (value, expected) => value.is_none() && expected.is_none(),
            };
            assert!(is_near, "{}: {value:?} instead of {expected:?}", figure.name());
        }
    }

    #[test]
    fn the_first_rule_that_a_run_breaks_is_named_and_unknown_figures_break_none() {
        let rules: RejectRules = "pressure>1%, frequency<2500MHz ,steal>1.2%".parse().unwrap();
        assert_eq!(rules.to_string(), "pressure>1%,frequency<2500MHz,steal>1.2%");
        let broken = |rules: &RejectRules| rules.broken_by(&run()).map(ToString::to_string);
        assert_eq!(broken(&rules).as_deref(), Some("frequency<2500MHz"));
        assert_eq!(broken(&"steal>1.5,load>0".parse().unwrap()), None);
        assert_eq!(broken(&RejectRules::default_rules()).as_deref(), Some("steal>1%"));
        assert!(RejectRules::default().broken_by(&run()).is_none());
    }

    #[test]
    fn invalid_rules_are_refused_with_a_reason() {
        let refused = |text: &str| text.parse::<RejectRules>().unwrap_err();
        for (text, part) in [
            ("time>3", "'time', which is a measured value"),
            ("latency_p99>1", "which is a measured value"),
            ("wait>5%", "a fraction of the measured time"),
            ("stael>1%", "did you mean 'steal'?"),
            ("noise>1", "expected one of steal, pressure, involuntary"),
            ("steal", "cannot parse rule 'steal'"),
            ("steal>much", "cannot parse the limit 'much' of 'steal': expected e.g. 10%"),
            ("steal>-1%", "cannot parse the limit"),
            ("load>1,load>2,load>3,load>4", "4 rules are too many"),
        ] {
            assert!(refused(text).contains(part), "{text}: {}", refused(text));
        }
    }
}
