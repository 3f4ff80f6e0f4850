//! Describes experiments: what is measured, what is compared, and which statements the data must
//! support.
//!
//! Analysis and reports need only this data. The crate `config` reads it from a definition file, and
//! builds the runs. Start at [`ExperimentDesign`].

use crate::assignment::{ProcessorShares, ProfilingTool};
use crate::expression::{CaseFilter, ChangeGate, ClaimExpression};
use crate::{
    Case, MachinePlacement, Metric, MetricDirection, ParameterValue, RunOrder, Verdict,
    seed_of_step,
};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// An experiment as its definition file describes it, without the texts from which its runs are
/// built.
#[derive(Debug, Clone, Default)]
pub struct ExperimentDesign {
    /// Name in the file, else the file name without extension.
    pub name: String,
    /// Question that the experiment answers.
    pub question: Option<String>,
    /// Number of processors that the target may use.
    pub cpus: u32,
    /// Parameters with their values.
    pub params: Vec<(String, ParameterValue)>,
    /// Variants to compare, in order, at least one.
    pub variants: Vec<ExperimentVariant>,
    /// Groups to measure, in order.
    pub groups: Vec<BenchmarkGroup>,
    /// How the groups are measured.
    pub plan: ExperimentPlan,
    /// How variants are compared.
    pub compare: ComparePlan,
    /// Statements that the data must support.
    pub claims: Vec<ReportClaim>,
    /// How profiles are taken, if at all.
    pub profile: Option<ProfilePlan>,
    /// Outputs in order.
    pub outputs: Vec<ReportOutput>,
    /// Machines of the placement, once they are chosen.
    pub placement: Option<Box<MachinePlacement>>,
}

impl ExperimentDesign {
    /// Returns the group with that name.
    pub fn find_group(&self, name: &str) -> Option<&BenchmarkGroup> {
        self.groups.iter().find(|group| group.name == name)
    }

    /// Returns the group that a case belongs to; `None` for cases of benchmark files.
    pub fn group_of(&self, case: &Case) -> Option<&BenchmarkGroup> {
        let contains_case = |group: &&BenchmarkGroup| match group.kind {
            // Values set on the command line create cases that the file does not have.
            GroupKind::Load => case.benchmark == format!("{}/{}", self.name, group.name),
            _ => group.cases.contains(case),
        };
        self.groups.iter().find(contains_case)
    }

    /// Returns the number that a name in a claim stands for.
    pub fn claim_number(&self, name: &str) -> Option<f64> {
        match self.params.iter().find(|(param, _)| param == name) {
            Some((_, value)) => value.as_number(),
            None => (name == "cpus").then_some(f64::from(self.cpus)),
        }
    }
}

/// A variant as defined in the file.
#[derive(Debug, Clone)]
pub struct ExperimentVariant {
    /// Name of the variant.
    pub name: String,
    /// Name in reports, if different.
    pub label: Option<String>,
    /// Color in charts, `#rrggbb`.
    pub color: Option<String>,
    /// Properties that distinguish the variant in a grid of variants.
    pub factors: Vec<(String, String)>,
    /// Whether the file declares the variant. A file without variants has one, its unchanged target.
    pub is_declared: bool,
}

/// What a group does with its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum GroupKind {
    /// A server, which receives a load.
    Server,
    /// A program that runs to completion.
    Command,
    /// Benchmark files, measured by their harness.
    Function,
    /// The short form, `[benchmark.NAME]`: a server receives a load as from `speedwell load`.
    Load,
}

/// A group.
#[derive(Debug, Clone)]
pub struct BenchmarkGroup {
    /// Name of the group.
    pub name: String,
    /// Kind of the group.
    pub kind: GroupKind,
    /// Parameters of its cases. For benchmark files, they replace the values that the files
    /// declare.
    pub parameters: GroupParameters,
    /// Cases in order; empty for benchmark files, whose cases are unknown.
    pub cases: Vec<Case>,
    /// What the load of each case should show under the first variant. Empty unless the kind is
    /// [`GroupKind::Server`].
    pub expected_loads: Vec<ExpectedLoad>,
    /// Metrics, the headline first. If empty, the harness of the benchmark files decides which
    /// metrics there are.
    pub metrics: Vec<Metric>,
    /// Names of the metrics that its target reports itself.
    pub target_metrics: Vec<String>,
    /// Additional metrics: counters of the operating system.
    pub also: Vec<String>,
    /// Source of the seeds of its runs.
    pub seed: SeedSource,
    /// Benchmark files; empty unless the kind is [`GroupKind::Function`].
    pub files: Vec<PathBuf>,
}

/// Parameters with their values.
pub type GroupParameters = Vec<(String, Vec<ParameterValue>)>;

/// What a load on a server should show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpectedLoad {
    /// Requests in flight over all connections.
    pub in_flight: u32,
    /// Whether all responses have the same length.
    pub same_bytes: bool,
}

impl BenchmarkGroup {
    /// Returns the additional metrics.
    pub fn also_metrics(&self) -> Vec<Metric> {
        let unit = |name: &String| ALSO_METRICS.iter().find(|(other, _)| other == name);
        let metric = |name: &String| Some(Metric::new(name, unit(name)?.1, MetricDirection::Lower));
        self.also.iter().filter_map(metric).collect()
    }

    /// Returns the names of all metrics of the group, given those that its target reports.
    pub fn known_metrics(&self, target: &[Metric]) -> Vec<String> {
        let names = target.iter().map(|metric| metric.name.clone());
        names.chain(self.also.iter().cloned()).chain(metric_names(self.kind)).collect()
    }

    /// Returns the metric with that name, whether or not the group reports it.
    pub fn find_metric(&self, name: &str) -> Option<Metric> {
        let reported = self.metrics.iter().find(|metric| metric.name == name);
        reported.cloned().or_else(|| find_metric(self.kind, self.stored_name(name)))
    }

    /// Returns the name under which runs store a metric of this group: without `:u`, and
    /// `latency_max` for the highest percentile of a load. A metric that the target reports itself
    /// keeps its name.
    pub fn stored_name<'a>(&self, name: &'a str) -> &'a str {
        match name.strip_suffix(":u").unwrap_or(name) {
            _ if self.target_metrics.iter().any(|metric| metric == name) => name,
            "latency_p100" if is_loaded(self.kind) => "latency_max",
            plain => plain,
        }
    }

    /// Returns the names of all metrics that claims and gates may use for this group.
    pub fn metric_names(&self) -> Vec<String> {
        self.known_metrics(&self.metrics)
    }
}

/// Source of the seed of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SeedSource {
    /// The same for all variants of a block, different in the next block.
    #[default]
    PerBlock,
    /// Different for every run.
    PerRun,
    /// This seed for every run.
    Fixed(u64),
}

impl SeedSource {
    /// Returns the seed of a run; `slot` is its number in the plan, `block_seed` the seed of its block.
    pub fn for_run(self, block_seed: u64, slot: u32) -> u64 {
        match self {
            SeedSource::PerBlock => block_seed,
            SeedSource::PerRun => seed_of_step(block_seed, slot),
            SeedSource::Fixed(seed) => seed,
        }
    }
}

// Metrics of groups by kind.

/// Metrics of a server under load.
const SERVER_METRICS: [(&str, &str, MetricDirection); 13] = [
    ("throughput", "1/s", MetricDirection::Higher),
    ("bytes_per_second", "B/s", MetricDirection::Higher),
    ("bytes_per_response", "B", MetricDirection::Lower),
    ("cpu_per_request", "ns", MetricDirection::Lower),
    ("cpu_cores", "1", MetricDirection::Lower),
    ("instructions_per_request", "1", MetricDirection::Lower),
    ("max_rss", "B", MetricDirection::Lower),
    ("server_ready", "ns", MetricDirection::Lower),
    ("server_exit", "ns", MetricDirection::Lower),
    ("effective_concurrency", "1", MetricDirection::Higher),
    ("requests_per_connection_min", "1", MetricDirection::Higher),
    ("requests_per_connection_max", "1", MetricDirection::Lower),
    ("cpu_time", "ns", MetricDirection::Lower),
];

/// Metrics of a load in the short form, `[benchmark.NAME]`.
const LOAD_METRICS: [&str; 4] =
    ["throughput", "bytes_per_second", "cpu_per_request", "server_ready"];

/// Metrics of a command.
const COMMAND_METRICS: [(&str, &str, MetricDirection); 3] = [
    ("wall_time", "ns", MetricDirection::Lower),
    ("cpu_time", "ns", MetricDirection::Lower),
    ("max_rss", "B", MetricDirection::Lower),
];

/// Possible values of `also`: counters of the operating system. Not every machine has all of these
/// counters.
pub const ALSO_METRICS: [(&str, &str); 16] = [
    ("cpu_time", "ns"),
    ("max_rss", "B"),
    ("instructions", "1"),
    ("instructions:u", "1"),
    ("cycles", "1"),
    ("cycles:u", "1"),
    ("branches", "1"),
    ("branches:u", "1"),
    ("branch-misses", "1"),
    ("branch-misses:u", "1"),
    ("cache-references", "1"),
    ("cache-misses", "1"),
    ("task-clock", "ns"),
    ("page-faults", "1"),
    ("context-switches", "1"),
    ("cpu-migrations", "1"),
];

/// Returns the name, unit and direction of each metric of a kind.
fn kind_metrics(
    kind: GroupKind,
) -> impl Iterator<Item = (&'static str, &'static str, MetricDirection)> {
    let table: &[(&str, &str, MetricDirection)] = match kind {
        GroupKind::Server | GroupKind::Load => &SERVER_METRICS,
        GroupKind::Command => &COMMAND_METRICS,
        GroupKind::Function => &[],
    };
    let is_reported = move |name: &str| kind != GroupKind::Load || LOAD_METRICS.contains(&name);
    table.iter().copied().filter(move |(name, ..)| is_reported(name))
}

fn is_loaded(kind: GroupKind) -> bool {
    matches!(kind, GroupKind::Server | GroupKind::Load)
}

/// Returns the metric with that name, if every group of the kind has it.
fn find_metric(kind: GroupKind, name: &str) -> Option<Metric> {
    let listed = kind_metrics(kind).find(|(listed_name, ..)| *listed_name == name);
    let is_latency = || name == "latency_mean" || Metric::latency_percent(name).is_some();
    let latency = || (is_loaded(kind) && is_latency()).then_some(("ns", MetricDirection::Lower));
    let (unit, better) = listed.map(|(_, unit, better)| (unit, better)).or_else(latency)?;
    Some(Metric::new(name, unit, better))
}

/// Returns the metric names that a hint suggests for groups of this kind.
fn metric_names(kind: GroupKind) -> Vec<String> {
    let latencies = ["mean", "p50", "p75", "p90", "p95", "p99", "p99_9", "max"]
        .into_iter()
        .filter(|_| is_loaded(kind))
        .map(|statistic| format!("latency_{statistic}"));
    kind_metrics(kind).map(|(name, ..)| name.to_owned()).chain(latencies).collect()
}

/// Minimum number of processors to divide between target and load. With fewer processors, reserving
/// one for the load would change the target's results more than sharing all processors would.
const MIN_DIVISIBLE_PROCESSORS: u32 = 4;

/// How an experiment is measured.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ExperimentPlan {
    /// Runs of every case under every variant; `None` means as many as the verdict needs.
    pub runs: Option<u32>,
    /// Order of runs.
    pub order: RunOrder,
    /// Variant that is measured twice, to show how large the noise is.
    pub control: Option<String>,
    /// Division of processors.
    pub pins: Option<ProcessorPins>,
    /// Time limit of the whole measurement.
    pub budget: Option<Duration>,
    /// A case is done when the half-width of its interval has shrunk to this fraction of the mean.
    pub precision: Option<f64>,
    /// Default time limit of a run.
    pub timeout: Duration,
}

/// Division of processors between target and load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessorPins {
    /// Processors of the target; `None` means all processors that the load does not use.
    pub target: Option<u32>,
    /// Processors of the load generator.
    pub load: u32,
}

impl ProcessorPins {
    /// Divides `usable` processors between the target and the load; `None` if there are too few.
    pub fn divide_processors(self, usable: u32) -> Option<ProcessorShares> {
        let remaining = usable.checked_sub(self.load).filter(|remaining| *remaining > 0)?;
        let target = self.target.unwrap_or(remaining);
        let shares = ProcessorShares { target, load: self.load };
        (usable >= MIN_DIVISIBLE_PROCESSORS && target <= remaining).then_some(shares)
    }
}

/// Suffix of the name under which a control is measured the second time (A/A test). The difference
/// between the two measurements is noise.
const REPETITION_SUFFIX: &str = "-again";

/// Returns the name of the second measurement of a variant.
pub fn repetition_of(variant: &str) -> String {
    format!("{variant}{REPETITION_SUFFIX}")
}

/// Whether this is the name under which a control is measured the second time.
pub fn is_repetition(name: &str) -> bool {
    repeated_variant(name) != name
}

/// Returns the variant that is measured under this name, which may end in `-again`.
pub fn repeated_variant(name: &str) -> &str {
    name.strip_suffix(REPETITION_SUFFIX).unwrap_or(name)
}

/// How variants are compared.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ComparePlan {
    /// Reference; by default the first variant.
    pub baseline: String,
    /// Variants compared with the baseline, in order.
    pub candidates: Vec<String>,
    /// Further pairs (baseline, candidate) to compare. If the file lists pairs but no candidates,
    /// only these pairs are compared.
    pub pairs: Vec<(String, String)>,
    /// Test: `rank`, `welch`, `mann-whitney` or `bootstrap`.
    pub method: Option<String>,
    /// Confidence of intervals, as a fraction such as 0.95.
    pub confidence: f64,
    /// Smallest relevant change, as a fraction such as 0.02.
    pub threshold: Option<f64>,
    /// Limits on the change of a candidate, each with the name of the group to which it applies.
    /// `None` instead of a name stands for all groups that have the metric of the limit.
    pub gates: Vec<(Option<String>, ChangeGate)>,
}

impl ComparePlan {
    /// Returns the same comparison with another baseline. The candidates are the other variants of
    /// this comparison, or all other `variants` if it lists none.
    pub fn with_baseline(&self, baseline: &str, variants: &[ExperimentVariant]) -> ComparePlan {
        let listed = |name: &String| {
            self.candidates.is_empty() || self.candidates.contains(name) || *name == self.baseline
        };
        let others = variants.iter().map(|variant| variant.name.clone());
        ComparePlan {
            baseline: baseline.to_owned(),
            candidates: others.filter(|name| name != baseline && listed(name)).collect(),
            ..self.clone()
        }
    }

    /// Returns all pairs of baseline and candidate.
    pub fn all_pairs(&self) -> Vec<(String, String)> {
        let with_baseline =
            self.candidates.iter().map(|name| (self.baseline.clone(), name.clone()));
        let mut pairs: Vec<(String, String)> = with_baseline.collect();
        for pair in &self.pairs {
            if !pairs.contains(pair) {
                pairs.push(pair.clone());
            }
        }
        pairs
    }
}

/// A claim.
#[derive(Debug, Clone, PartialEq)]
pub struct ReportClaim {
    /// Sentence for the report.
    pub say: String,
    /// Condition under which the claim holds.
    pub expression: ClaimExpression,
    /// Text of the expression in the file.
    pub text: String,
    /// One row for every evaluation of the claim. A row holds one case for each of the
    /// [`ClaimExpression::terms`].
    pub rows: Vec<Vec<SelectedCase>>,
}

/// The position of a case in an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SelectedCase {
    /// Position of the group.
    pub group: usize,
    /// Position of the case in its group; `None` for benchmark files, whose cases are unknown until
    /// their harness lists them.
    pub case: Option<usize>,
}

/// How profiles are taken.
#[derive(Debug, Clone, PartialEq)]
pub struct ProfilePlan {
    /// Cases to profile.
    pub when: ProfileCondition,
    /// Profiler; `None` takes profiles only if the user requests them.
    pub tool: Option<ProfilingTool>,
    /// Whether to ignore samples taken during the warm-up.
    pub after_warmup: bool,
    /// Variants whose profiles are compared.
    pub pairs: Vec<(String, String)>,
}

/// Which cases are profiled.
#[derive(Debug, Clone, PartialEq)]
pub enum ProfileCondition {
    /// All cases.
    Always,
    /// No cases.
    Never,
    /// Cases with or without this verdict.
    Verdict {
        /// Verdict to compare with.
        verdict: Verdict,
        /// True if the verdict must match, false if it must differ.
        equal: bool,
    },
    /// Cases that one of the filters selects.
    Cases(Vec<CaseFilter>),
}

/// One output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReportOutput {
    /// The table with this name.
    Table(String),
    /// A chart.
    Chart {
        /// Name of the chart.
        name: String,
        /// What its lines show.
        series: ChartSeries,
        /// For `served`: variants of each picture, in order; if empty, one picture shows all
        /// variants.
        stages: Vec<Vec<String>>,
    },
    /// The report in these formats.
    Report(Vec<String>),
}

/// Whether each line of a chart shows a variant (with one picture for each case) or a case (with
/// one picture for each variant).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ChartSeries {
    /// All variants in one case.
    #[default]
    Variants,
    /// All cases of one variant.
    Cases,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_have_every_latency_percentile_and_commands_have_none() {
        for name in ["latency_p50", "latency_p99_9", "latency_p100", "latency_mean", "throughput"] {
            assert!(find_metric(GroupKind::Server, name).is_some(), "{name}");
            assert!(find_metric(GroupKind::Command, name).is_none(), "{name}");
        }
        for name in ["latency_p101", "latency_pinf", "latency_p", "latency", "p50"] {
            assert!(find_metric(GroupKind::Server, name).is_none(), "{name}");
        }
        for kind in [GroupKind::Server, GroupKind::Command, GroupKind::Load] {
            assert!(metric_names(kind).iter().all(|name| find_metric(kind, name).is_some()));
        }
    }
}
