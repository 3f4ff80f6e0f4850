//! Defines a session: everything that one invocation measured. Also defines the profiles of a
//! session, and its experimental design: how each case is measured, and how often. Start at
//! [`Session`] and [`SessionDesign`].

use crate::{
    BisectionRange, Case, CodeOrigin, ComparedClock, Environment, MachinePlacement,
    MeasuredProgram, Metric, NoiseCalibration, OrderChoice, RejectRules, Run, RunOrder, RunSeries,
    RunValue, SessionMachine, StepFailure, Variant,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Whether and how a session ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SessionState {
    /// Still measuring, or killed before the session could record its end.
    Running,
    /// Ended as planned.
    #[default]
    Complete,
    /// Ended early by the user. Finished runs are kept.
    Interrupted,
    /// Read from a file.
    Imported,
}

name_variants!(SessionState: Running = "running", Complete = "complete",
    Interrupted = "interrupted", Imported = "imported");

/// The results of one measuring invocation, or of one imported file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// Unique identity, the same in every copy.
    pub id: String,
    /// The number of the session in the local store, for users to type as `@NUMBER`. `None` outside
    /// a store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<i64>,
    /// Start, in milliseconds since the Unix epoch.
    pub started_unix_ms: i64,
    /// Whether and how the session ended.
    pub state: SessionState,
    /// User-defined tags.
    pub tags: Vec<String>,
    /// The command line that started the session.
    pub command: Vec<String>,
    /// The experimental design.
    pub design: SessionDesign,
    /// The variants in the order given. The design names the baseline.
    pub variants: Vec<Variant>,
    /// Every metric that the runs report. The first metric is the primary one.
    pub metrics: Vec<Metric>,
    /// The environment in which the session measured.
    pub environment: Environment,
    /// The revision of the measured code, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<CodeOrigin>,
    /// Finished runs in order of execution.
    pub runs: Vec<Run>,
    /// Steps that yielded no usable result.
    pub failures: Vec<StepFailure>,
    /// Profiles from runs that were recorded instead of timed, at most one per case and variant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<ProfileRecording>,
    /// The false alarm rate of this machine, if the session was a calibration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<NoiseCalibration>,
    /// The machines of the fleet that measured the session; empty if no fleet was used.
    /// [`Run::machine`] is an index into this list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<SessionMachine>,
}

impl Session {
    /// Returns a copy with only the matching runs, without failures, profiles or calibration.
    pub fn with_runs(&self, belongs: impl Fn(&Run) -> bool) -> Session {
        let runs = self.runs.iter().filter(|run| belongs(run));
        Session {
            id: self.id.clone(),
            number: self.number,
            started_unix_ms: self.started_unix_ms,
            state: self.state,
            tags: self.tags.clone(),
            command: self.command.clone(),
            design: self.design.clone(),
            variants: self.variants.clone(),
            metrics: self.metrics.clone(),
            environment: self.environment.clone(),
            origin: self.origin.clone(),
            runs: runs.cloned().collect(),
            machines: self.machines.clone(),
            ..Session::default()
        }
    }

    /// Returns a copy that looks as if only one variant had been measured.
    pub fn only_variant(&self, name: &str) -> Session {
        let mut session = self.with_runs(|run| *run.variant == *name);
        session.variants.retain(|variant| variant.name == name);
        session.design.baseline = name.to_owned();
        session.environment.programs.retain(|program| program.variant == name);
        // One variant cannot answer the question of an experiment, which compares variants.
        session.design.experiment = None;
        let is_of_variant = |failure: &&StepFailure| {
            failure.variant.as_deref().is_none_or(|variant| variant == name)
        };
        session.failures = self.failures.iter().filter(is_of_variant).cloned().collect();
        let matching = self.profiles.iter().filter(|recording| *recording.variant == *name);
        session.profiles = matching.cloned().collect();
        session
    }

    /// Names and known versions of the programs of variants that are only called `old` and `new`,
    /// by the variant's name, as in `node v22.1.0`. Empty if this does not distinguish the variants.
    pub fn program_names(&self) -> BTreeMap<String, String> {
        let is_version = |word: &&str| {
            word.trim_start_matches('v').starts_with(|first: char| first.is_ascii_digit())
        };
        let name_program = |program: &MeasuredProgram| {
            let file = program.path.file_name()?.to_string_lossy();
            let mut words = program.version.as_deref().unwrap_or_default().split_whitespace();
            let name = words
                .find(is_version)
                .map_or_else(|| file.clone().into_owned(), |version| format!("{file} {version}"));
            let is_side = matches!(program.variant.as_str(), "old" | "new");
            is_side.then(|| (program.variant.clone(), name))
        };
        let names: BTreeMap<String, String> =
            self.environment.programs.iter().filter_map(name_program).collect();
        if names.get("old") == names.get("new") { BTreeMap::new() } else { names }
    }

    /// All series of `metric`, in the order in which their first runs appear.
    pub fn series(&self, metric: &Metric) -> Vec<RunSeries> {
        let mut indices: HashMap<(String, Arc<str>), usize> = HashMap::new();
        let mut series: Vec<RunSeries> = Vec::new();
        for run in &self.runs {
            let Some(value) = run.value_of(&metric.name) else { continue };
            let index = *indices.entry((run.case.id(), run.variant.clone())).or_insert_with(|| {
                series.push(RunSeries {
                    case: run.case.clone(),
                    variant: run.variant.clone(),
                    metric: metric.clone(),
                    runs: Vec::new(),
                });
                series.len() - 1
            });
            series[index].runs.push(RunValue { slot: run.slot, block: run.block, value });
        }
        series
    }

    /// The metric with this name.
    pub fn metric(&self, name: &str) -> Option<&Metric> {
        self.metrics.iter().find(|metric| metric.name == name)
    }
}

/// When measuring a case ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum StoppingDesign {
    /// After a fixed number of runs per variant.
    Fixed {
        /// Runs per variant.
        runs: u32,
    },
    /// At the first interim analysis in which the sequential test reaches a decision.
    Sequential {
        /// Numbers of runs per variant at which an interim analysis takes place, ascending.
        looks: Vec<u32>,
        /// Error rate over all interim analyses together.
        alpha: f64,
        /// Largest change that counts as "no change", as a fraction: 0.02 is 2%.
        delta: f64,
    },
}

/// How a session was, or will be, measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionDesign {
    /// Order of execution.
    pub order: RunOrder,
    /// Rule for the number of runs.
    pub stopping: StoppingDesign,
    /// Name of the reference variant.
    pub baseline: String,
    /// Seed of every random choice of the plan.
    pub seed: u64,
    /// Number of runs per variant in one block.
    pub runs_per_block: u32,
    /// Smallest change that matters, as a fraction, if the user set one before measuring.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// The definition file, if the session is an experiment. Reports need it to interpret the
    /// results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experiment: Option<DefinitionFile>,
    /// The definition files of the measured benchmarks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub definitions: Vec<DefinitionFile>,
    /// Failure conditions for HTTP loads, as the user wrote them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<String>,
    /// The result of the gate, as it was printed when the session was measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gate_lines: Vec<String>,
    /// Rules that discard a disturbed run and repeat its slot, which is a position in the plan.
    #[serde(default, skip_serializing_if = "RejectRules::is_empty")]
    pub reject: RejectRules,
    /// How instructions were counted, if the session counted them instead of measuring time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counting: Option<InstructionCounting>,
    /// If set, each run is a time series from the first iteration on, and this rule finds its
    /// steady part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady: Option<SteadyRule>,
    /// Which parts of a program's memory layout vary between runs.
    #[serde(default, skip_serializing_if = "LayoutVariation::is_default")]
    pub layout: LayoutVariation,
    /// The range of revisions under bisection, if the session is a bisection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bisection: Option<BisectionRange>,
    /// Why the session is measured.
    #[serde(default, skip_serializing_if = "is_default")]
    pub purpose: SessionPurpose,
    /// Digests of each benchmark's source files, by benchmark name. A different digest means
    /// different work.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub work: BTreeMap<String, String>,
    /// How the order was chosen, if the user left the choice to Speedwell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order_choice: Option<OrderChoice>,
}

/// A design with one run of a single variant, which has no name.
impl Default for SessionDesign {
    fn default() -> SessionDesign {
        SessionDesign::new(RunOrder::default(), StoppingDesign::Fixed { runs: 1 }, "")
    }
}

impl SessionDesign {
    /// A design with one run of each variant per block and defaults for the rest.
    pub fn new(order: RunOrder, stopping: StoppingDesign, baseline: &str) -> SessionDesign {
        SessionDesign {
            order,
            stopping,
            baseline: baseline.to_owned(),
            seed: 0,
            runs_per_block: 1,
            threshold: None,
            experiment: None,
            definitions: Vec::new(),
            conditions: Vec::new(),
            gate_lines: Vec::new(),
            reject: RejectRules::default(),
            counting: None,
            steady: None,
            layout: LayoutVariation::default(),
            bisection: None,
            purpose: SessionPurpose::default(),
            work: BTreeMap::new(),
            order_choice: None,
        }
    }

    /// Whether Speedwell has yet to choose the order.
    pub fn has_open_order(&self) -> bool {
        self.order_choice.as_ref().is_some_and(|choice| choice.reason.is_none())
    }

    /// Keeps the order and the clock for this reason, unless the order is chosen already.
    pub fn keep_order(&mut self, reason: &str) {
        if let Some(choice) = self.order_choice.as_mut().filter(|choice| choice.reason.is_none()) {
            choice.reason = Some(reason.to_owned());
        }
    }

    /// Describes how the order was chosen; `None` if the user chose it.
    pub fn describe_order_choice(&self) -> Option<String> {
        self.order_choice.as_ref()?.describe(self.order)
    }

    /// Whether the runs of each pair in this block, a round of pairs, are executed one after the
    /// other. This is the case in one of eight rounds, to see whether sharing the processor changes
    /// the ratio of the variants. The seed alone determines the round.
    pub fn is_alone(&self, block: u32) -> bool {
        let (group, round) = (block / ROUNDS_WITH_ONE_ALONE, block % ROUNDS_WITH_ONE_ALONE);
        let drawn = seed_of_step(self.seed ^ 0x0A9A_2705, group) % u64::from(ROUNDS_WITH_ONE_ALONE);
        self.order == RunOrder::Paired && u64::from(round) == drawn
    }

    /// Maximum number of runs per variant and case.
    pub fn max_runs(&self) -> u32 {
        match &self.stopping {
            StoppingDesign::Fixed { runs } => *runs,
            StoppingDesign::Sequential { looks, .. } => looks.iter().copied().max().unwrap_or(0),
        }
    }

    /// Maximum number of runs per randomized build. 1 if every run has its own build, or if the
    /// layout is not randomized by building several times.
    pub fn runs_per_build(&self) -> u32 {
        let builds = self.layout.builds;
        if builds == 0 { 1 } else { self.max_runs().div_ceil(builds).max(1) }
    }

    /// Whether several runs share a randomized build, and with it a layout. Such runs are not
    /// independent; only builds are.
    pub fn shares_builds(&self) -> bool {
        self.runs_per_build() > 1
    }
}

/// Why a session was measured. A measurement that an observed value triggered is biased: it does
/// not show how common such values are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SessionPurpose {
    /// For its own result.
    #[default]
    Measured,
    /// To confirm or refute a suspected change.
    Confirm,
    /// To find the revision that introduced a change.
    Bisect,
    /// To fill gaps in the history, for revisions chosen without looking at values.
    Backfill,
}

/// Defines the steady part of a time series. The rule is fixed before measuring.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SteadyRule {
    /// Levels that differ by at most this fraction count as one level.
    pub delta: f64,
    /// Smallest fraction of a series that the steady part must cover.
    pub min_share: f64,
    /// The clock to use. By default, processor time if all runs have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<ComparedClock>,
    /// Whether the time of the steady part is an additional metric, listed before the other
    /// metrics. If not, the session examines the warm-up itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_metric: bool,
}

impl SteadyRule {
    /// Number of points between two executions of the reference loop.
    pub const REFERENCE_EVERY: u32 = 16;
}

impl Default for SteadyRule {
    /// Levels that differ by at most 2% count as one, as in the verdict `same`. The steady part
    /// must cover a quarter of the series, as in Barrett et al. (OOPSLA 2017): the last 500 of 2000
    /// iterations.
    fn default() -> SteadyRule {
        SteadyRule { delta: 0.02, min_share: 0.25, clock: None, is_metric: false }
    }
}

/// In one of this many consecutive rounds of pairs, the runs of a pair are executed one after the
/// other.
const ROUNDS_WITH_ONE_ALONE: u32 = 8;

/// How instructions are counted. The counting tool executes the program deterministically.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstructionCounting {
    /// The tool, with its version once known.
    pub tool: String,
    /// Whether a cache model estimates cycles.
    pub cache_model: bool,
    /// Whether every run is also executed at full speed, to time it.
    #[serde(alias = "times", default, skip_serializing_if = "std::ops::Not::not")]
    pub also_timed: bool,
}

/// A snapshot of a definition file, read once per session. Later edits do not affect the session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DefinitionFile {
    /// Its path.
    pub file: PathBuf,
    /// Its text.
    pub text: String,
    /// Values that override values of the file. Values for benchmarks are not included.
    pub set: Vec<(String, String)>,
    /// Number of usable processors.
    pub cpus: u32,
    /// The machines that the experiment's roles run on, if the file assigns roles to machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Box<MachinePlacement>>,
}

/// How many runs each variant of a case gets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunCount {
    /// Exactly this many.
    Fixed(u32),
    /// As many as the sequential design needs, at most the number at its last interim analysis.
    Sequential,
}

/// How a harness that controls the loop divides a run into samples. A file that starts and stops
/// the clock itself always has one sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampleDivision {
    /// Samples in one run.
    pub count: u32,
    /// What ends a sample.
    pub length: SampleLength,
    /// Duration of discarded iterations before the first sample.
    pub warmup_ns: u64,
}

impl SampleDivision {
    /// Returns how long the warm-up and the samples of a run take if no iteration is longer than a
    /// sample; `None` if a sample ends after a number of iterations.
    pub fn planned_time(&self) -> Option<Duration> {
        let SampleLength::TimeNs(ns) = self.length else { return None };
        let measured_ns = ns.saturating_mul(self.count.into());
        Some(Duration::from_nanos(measured_ns.saturating_add(self.warmup_ns)))
    }
}

/// The parts of a run's division that the user set. Frameworks choose defaults for the rest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestedDivision {
    /// Samples in one run.
    pub count: Option<u32>,
    /// What ends a sample.
    pub length: Option<SampleLength>,
    /// Warm-up before the first sample.
    pub warmup_ns: Option<u64>,
}

/// What ends a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SampleLength {
    /// About this much time; the harness calibrates the number of iterations.
    TimeNs(u64),
    /// Exactly this many iterations.
    Iterations(u64),
}

impl Default for SampleDivision {
    /// A run takes a third of a second. Additional runs help more than longer ones, because only
    /// runs are independent of each other (docs/why/statistics.md, "One value per process"). A
    /// sample of 50 ms is a million times the clock's resolution. A warm-up of 100 ms lets the
    /// processor reach its steady frequency.
    fn default() -> SampleDivision {
        SampleDivision {
            count: 5,
            length: SampleLength::TimeNs(50_000_000),
            warmup_ns: 100_000_000,
        }
    }
}

impl SamplingOptions {
    /// Default time limit of a run.
    pub const USUAL_TIMEOUT: Duration = Duration::from_secs(300);
}

/// The sampling options of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SamplingOptions {
    /// Runs per case and variant.
    pub runs: RunCount,
    /// For a case without comparison, measuring stops once the interval is narrow enough: its half
    /// width, relative to the value, is below this fraction.
    pub precision: Option<f64>,
    /// Time limit of one run.
    pub timeout_ms: u64,
    /// Time limit for measuring the whole session. A resumed session gets the full time again.
    #[serde(default)]
    pub budget_ms: Option<u64>,
    /// How a harness that controls the loop divides a run.
    #[serde(default)]
    pub samples: SampleDivision,
    /// The parts of the division that the user set.
    #[serde(default, alias = "asked")]
    pub requested: RequestedDivision,
    /// The clock whose time is compared.
    #[serde(default)]
    pub clock: ComparedClock,
}

/// Derives the seed of a step, a 31-bit number that every language represents exactly. Uses the
/// Weyl increment and the first mixing step of SplitMix64 (Steele, Lea, Flood 2014).
pub fn seed_of_step(seed: u64, step: u32) -> u64 {
    let weyl = seed.wrapping_add((u64::from(step) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    (weyl ^ (weyl >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33
}

/// Layout randomization: which parts of a program's memory layout vary between the runs of a
/// variant. Several builds vary the order of code and data. Strings of random length, which are
/// stored above the stack, vary the addresses in the stack.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LayoutVariation {
    /// Number of builds per variant, each linked with a different order of functions and data. 0
    /// for the normal build only.
    #[serde(default, skip_serializing_if = "is_default")]
    pub builds: u32,
    /// Whether to add an environment variable of random length to every run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub env: bool,
    /// Whether to start programs under a path of random length for every run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stack: bool,
    /// Whether functions are aligned to 64 bytes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub align: bool,
}

impl LayoutVariation {
    /// Whether nothing is varied.
    pub fn is_default(&self) -> bool {
        *self == LayoutVariation::default()
    }
}

pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

// Profiles, which are weighted call stacks, and the recordings of a session. Nothing here records or
// draws profiles. Start at [`StackProfile`].

/// Separates the frames of a folded stack, as in all tools that use this format.
const BETWEEN_FRAMES: char = ';';

/// The stacks of one recording or file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackProfile {
    /// The profiler, which determines the kinds of code that are visible.
    pub tool: ProfileTool,
    /// The unit of the weights.
    pub unit: WeightUnit,
    /// Number of samples, if known.
    pub samples: Option<u64>,
    /// Caveats for the reader, as whole sentences.
    pub notes: Vec<String>,
    /// Weights by folded stack: frame names joined by `;`, outermost caller first.
    stacks: BTreeMap<String, u64>,
}

/// The profiler that recorded a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProfileTool {
    /// Linux perf. It sees native code. It also sees scripts if their runtime reports the names of
    /// compiled functions.
    Perf,
    /// V8's own profiler (`node --cpu-prof`). It sees only JavaScript functions.
    V8,
    /// Unknown: a file of folded stacks.
    Folded,
}

/// The unit of weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WeightUnit {
    /// Processor time in nanoseconds.
    Nanoseconds,
    /// Time in microseconds.
    Microseconds,
    /// Hardware events, such as cycles.
    Events,
    /// Unknown.
    Unknown,
}

impl StackProfile {
    /// Creates a profile without stacks.
    pub fn new(tool: ProfileTool, unit: WeightUnit) -> StackProfile {
        StackProfile { tool, unit, samples: None, notes: Vec::new(), stacks: BTreeMap::new() }
    }

    /// Adds a weight to the stack of these frames; the outermost caller comes first.
    pub fn add<'a>(&mut self, frames: impl IntoIterator<Item = &'a str>, weight: u64) {
        let mut stack = String::new();
        for frame in frames {
            if !stack.is_empty() {
                stack.push(BETWEEN_FRAMES);
            }
            // Replace the separator. A name that contains it would become two frames.
            stack.extend(frame.chars().map(|character| match character {
                BETWEEN_FRAMES => ':',
                character if character.is_control() => ' ',
                character => character,
            }));
        }
        let total = self.stacks.entry(stack).or_default();
        *total = total.saturating_add(weight);
    }

    /// Adds all stacks and samples of another recording by the same profiler.
    pub fn merge(&mut self, other: &StackProfile) {
        for (stack, weight) in other.folded() {
            let total = self.stacks.entry(stack.to_owned()).or_default();
            *total = total.saturating_add(weight);
        }
        self.samples = self.samples.zip(other.samples).map(|(a, b)| a + b);
    }

    /// Iterates over folded stacks, each with its weight.
    pub fn folded(&self) -> impl Iterator<Item = (&str, u64)> {
        self.stacks.iter().map(|(stack, weight)| (stack.as_str(), *weight))
    }

    /// Iterates over stacks, as frames, each with its weight.
    pub fn stacks(&self) -> impl Iterator<Item = (Vec<&str>, u64)> {
        self.folded().map(|(stack, weight)| (stack.split(BETWEEN_FRAMES).collect(), weight))
    }

    /// Total weight of all stacks.
    pub fn total(&self) -> u64 {
        self.stacks.values().fold(0, |sum, weight| sum.saturating_add(*weight))
    }
}

/// Writes one line per stack: the folded stack, a space and the weight.
impl fmt::Display for StackProfile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (stack, weight) in self.folded() {
            writeln!(out, "{stack} {weight}")?;
        }
        Ok(())
    }
}

impl ProfileTool {
    /// Describes what the profiler cannot see, as a sentence.
    pub fn blind_spot(self) -> Option<&'static str> {
        match self {
            ProfileTool::V8 => Some(
                "V8's profiler sees only JavaScript functions: it attributes the runtime's work \
                 to the calling function, to '(program)' or to '(garbage collector)'. Its times include \
                 waiting for a processor.",
            ),
            ProfileTool::Perf | ProfileTool::Folded => None,
        }
    }
}

/// The profile of one case under one variant. It comes from a separate run that was not timed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProfileRecording {
    /// The case.
    pub case: Case,
    /// The name of the variant.
    pub variant: String,
    /// The profile.
    pub profile: ProfileOutcome,
}

/// A profile, or why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProfileOutcome {
    /// The profile. An `Arc` lets several copies of a session share it.
    Taken(Arc<StackProfile>),
    /// Why there is no profile, as the end of a sentence.
    Missing(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_samples_of_fixed_duration_have_a_planned_time() {
        let samples = SampleDivision::default();
        assert_eq!(samples.planned_time(), Some(Duration::from_millis(350)));
        let counted = SampleDivision { length: SampleLength::Iterations(10), ..samples };
        assert_eq!(counted.planned_time(), None);
    }

    #[test]
    fn sides_are_named_after_programs_that_differ() {
        let names = |programs: [(&str, &str); 2]| {
            let programs =
                ["old", "new"].into_iter().zip(programs).map(|(variant, (file, version))| {
                    MeasuredProgram {
                        variant: variant.to_owned(),
                        version: (!version.is_empty()).then(|| version.to_owned()),
                        path: format!("/opt/bin/{file}").into(),
                        ..MeasuredProgram::default()
                    }
                });
            let environment =
                Environment { programs: programs.collect(), ..Environment::default() };
            let session = Session { environment, ..Session::default() };
            session.program_names().into_values().collect::<Vec<_>>()
        };
        let nodes = names([("node", "v18.20.4"), ("node", "Node 22.1.0 (x)")]);
        assert_eq!(nodes, ["node 22.1.0", "node v18.20.4"]);
        assert_eq!(names([("sh", ""), ("bash", "bash 5.2.15")]), ["bash 5.2.15", "sh"]);
        assert!(names([("node", "v18.20.4"); 2]).is_empty());
    }

    #[test]
    fn weights_of_the_same_stack_add_up_and_the_text_is_folded() {
        let mut profile = StackProfile::new(ProfileTool::Perf, WeightUnit::Nanoseconds);
        profile.add(["main", "work"], 3);
        profile.add(["main", "idle"], 1);
        profile.add(["main", "work"], 4);
        assert_eq!(profile.to_string(), "main;idle 1\nmain;work 7\n");
        assert_eq!(profile.total(), 8);
    }

    #[test]
    fn a_name_with_the_separator_stays_one_frame() {
        let mut profile = StackProfile::new(ProfileTool::Perf, WeightUnit::Unknown);
        profile.add(["main", "Lorg/Foo;::run"], 1);
        assert_eq!(profile.stacks().next().unwrap().0, ["main", "Lorg/Foo:::run"]);
    }
}
