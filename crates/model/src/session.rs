//! Everything that one invocation measured, and its experimental design: what the analysis must know about how it was
//! measured, and how much is measured per case. Start at [`Session`] and [`Design`].

use crate::{
    Bisection, Calibration, Environment, Failure, Metric, Origin, Placement, Recording, Rules, Run,
    RunValue, Series, SessionMachine, Variant,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Still measuring, or killed without a chance to say so.
    Running,
    /// Ended as planned.
    Complete,
    /// Ended early by the user; what was measured is kept.
    Interrupted,
    /// Came from a file.
    Imported,
}

/// One invocation that measured, or one imported file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// Unique identity, the same in every copy.
    pub id: String,
    /// The number that `@NUMBER` means in the local store; `None` outside a store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<i64>,
    /// Start, in milliseconds since the Unix epoch.
    pub started_unix_ms: i64,
    /// How it ended.
    pub state: State,
    /// Names given by the user.
    pub tags: Vec<String>,
    /// The words typed.
    pub command: Vec<String>,
    /// How it was measured.
    pub design: Design,
    /// The variants in the order given; the design names the baseline.
    pub variants: Vec<Variant>,
    /// Every metric that the runs report; the first is the primary one.
    pub metrics: Vec<Metric>,
    /// What it was measured on.
    pub environment: Environment,
    /// The code that was measured, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// Finished runs in order of execution.
    pub runs: Vec<Run>,
    /// Steps that gave nothing.
    pub failures: Vec<Failure>,
    /// Where cases spent their time, by runs that were recorded and not timed; at most one for each case
    /// and variant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<Recording>,
    /// How often the machine took a thing for different from itself, if the session was measured to find that out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
    /// What it was measured on, where that was not the machine of the program that wrote it down: [`Run::machine`] is a
    /// place in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<SessionMachine>,
}

impl Session {
    /// The session with some of its runs, as if it had no others, no failures and no profiles.
    pub fn part(&self, belongs: impl Fn(&Run) -> bool) -> Session {
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
            failures: Vec::new(),
            profiles: Vec::new(),
            calibration: None,
            machines: self.machines.clone(),
        }
    }

    /// The session as if it had measured one of its variants alone.
    pub fn only_variant(&self, name: &str) -> Session {
        let mut one = self.part(|run| *run.variant == *name);
        one.variants.retain(|variant| variant.name == name);
        one.design.baseline = name.to_owned();
        one.environment
            .programs
            .retain(|program| program.variant == name);
        // Its question cannot be answered by one variant.
        one.design.experiment = None;
        let is_own = |failure: &&Failure| failure.variant.as_deref().is_none_or(|own| own == name);
        one.failures = self.failures.iter().filter(is_own).cloned().collect();
        let recordings = self.profiles.iter();
        let own = recordings.filter(|recording| *recording.variant == *name);
        one.profiles = own.cloned().collect();
        one
    }

    /// All series of `metric`, ordered by first appearance of the case, then of the variant.
    pub fn series(&self, metric: &Metric) -> Vec<Series> {
        let mut places: HashMap<(String, Arc<str>), usize> = HashMap::new();
        let mut all: Vec<Series> = Vec::new();
        for run in &self.runs {
            let Some(value) = run.value_of(&metric.name) else {
                continue;
            };
            let place = *places
                .entry((run.case.id(), run.variant.clone()))
                .or_insert_with(|| {
                    all.push(Series {
                        case: run.case.clone(),
                        variant: run.variant.clone(),
                        metric: metric.clone(),
                        runs: Vec::new(),
                    });
                    all.len() - 1
                });
            all[place].runs.push(RunValue {
                slot: run.slot,
                block: run.block,
                value,
            });
        }
        all
    }

    /// The metric of that name.
    pub fn metric(&self, name: &str) -> Option<&Metric> {
        self.metrics.iter().find(|metric| metric.name == name)
    }
}

/// The order in which runs were executed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Randomised blocks: the only order with a matching test.
    #[default]
    Blocks,
    /// Fixed alternation: baseline, candidate, baseline, candidate ...
    Alternate,
    /// All variants at the same time.
    Parallel,
    /// Pairs of a candidate and a run of the baseline of its own, both at once on one processor: what slows the machine
    /// slows both. What is compared is processor time.
    Paired,
    /// Unknown: the runs were imported.
    Imported,
}

impl Order {
    /// Whether the order of the sides was drawn at random, so that a test of its own is valid.
    pub fn is_randomised(self) -> bool {
        matches!(self, Order::Blocks | Order::Paired)
    }
}

/// When measuring a case ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Stopping {
    /// After a fixed number of runs per variant.
    Fixed {
        /// Runs per variant.
        runs: u32,
    },
    /// At the first look at which the sequential test decides.
    Sequential {
        /// Runs per variant at which the test may stop the measuring, ascending.
        looks: Vec<u32>,
        /// Error rate kept over all looks together.
        alpha: f64,
        /// The change that counts as "no change", as a share (0.02 is 2 %).
        delta: f64,
    },
}

/// How a session was, or is to be, measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Design {
    /// Order of execution.
    pub order: Order,
    /// Rule for the number of runs.
    pub stopping: Stopping,
    /// Name of the reference variant.
    pub baseline: String,
    /// Seed of every random choice of the plan.
    pub seed: u64,
    /// Runs of each variant in one block.
    pub runs_per_block: u32,
    /// The smallest change that matters, as a share, if the user named one before measuring.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// The definition file of the experiment, if it is one: what a report needs to know beside the figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experiment: Option<DefinitionFile>,
    /// The definition files of the benchmarks that were measured, if there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub definitions: Vec<DefinitionFile>,
    /// What must not be so of HTTP loads, as it was written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<String>,
    /// Rules by which a disturbed run is put aside and its slot repeated.
    #[serde(default, skip_serializing_if = "Rules::is_empty")]
    pub reject: Rules,
    /// How instructions were counted, where they were and not time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counting: Option<Counting>,
    /// Every run is a series of points from its first iteration on, in which the steady part is looked for by this rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady: Option<SteadyRule>,
    /// What of a program's layout in memory is varied between runs.
    #[serde(default, skip_serializing_if = "Layout::is_usual")]
    pub layout: Layout,
    /// The line of revisions in which a change is searched, if that is what was measured for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bisection: Option<Bisection>,
    /// Why it is measured.
    #[serde(default, skip_serializing_if = "Purpose::is_usual")]
    pub purpose: Purpose,
    /// Digests of the files that say what each benchmark does, by its name: with another file it is other work.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub work: BTreeMap<String, String>,
}

impl Design {
    /// One run of each variant in a block, and nothing out of the ordinary.
    pub fn new(order: Order, stopping: Stopping, baseline: impl Into<String>) -> Design {
        Design {
            order,
            stopping,
            baseline: baseline.into(),
            seed: 0,
            runs_per_block: 1,
            threshold: None,
            experiment: None,
            definitions: Vec::new(),
            conditions: Vec::new(),
            reject: Rules::default(),
            counting: None,
            steady: None,
            layout: Layout::default(),
            bisection: None,
            purpose: Purpose::default(),
            work: BTreeMap::new(),
        }
    }
}

/// Why a session is measured. What is measured because of a value that was seen says nothing about how common such values
/// are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// To know its result.
    #[default]
    Measured,
    /// To see whether a change that was suspected is there.
    Confirm,
    /// To find the revision of a change.
    Bisect,
    /// To learn about revisions that were not measured in their time, chosen without looking at values.
    Backfill,
}

impl Purpose {
    fn is_usual(&self) -> bool {
        *self == Purpose::Measured
    }
}

/// What counts as the steady part of a series, fixed before measuring.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SteadyRule {
    /// Levels that differ by no more than this share are one.
    pub delta: f64,
    /// The least share of a series that its steady part must be.
    pub least_share: f64,
    /// The time that is looked at; processor time where all runs have it if none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<Clock>,
    /// Whether the time of the steady part is a metric of its own, first among the others of a run; else the whole session
    /// is about warm-up.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_metric: bool,
}

impl SteadyRule {
    /// The reference loop is performed after so many points.
    pub const REFERENCE_EVERY: u32 = 16;
}

impl Default for SteadyRule {
    /// 2 % is what `same` means elsewhere. A quarter: the last 500 of 2000 iterations of Barrett et al., OOPSLA 2017.
    fn default() -> SteadyRule {
        SteadyRule {
            delta: 0.02,
            least_share: 0.25,
            clock: None,
            is_metric: false,
        }
    }
}

/// Of so many consecutive rounds of pairs, in one the sides have the processor for themselves.
const ROUNDS_WITH_ONE_ALONE: u32 = 8;

impl Design {
    /// Whether the two sides of the pairs in this block (a round of pairs) are measured one after the other, to see
    /// whether sharing the processor changes their ratio. Which one of eight follows from the seed alone.
    pub fn is_alone(&self, block: u32) -> bool {
        let (group, place) = (block / ROUNDS_WITH_ONE_ALONE, block % ROUNDS_WITH_ONE_ALONE);
        let drawn = seed_of_step(self.seed ^ 0x0A9A_2705, group) % u64::from(ROUNDS_WITH_ONE_ALONE);
        self.order == Order::Paired && u64::from(place) == drawn
    }

    /// The most runs that a variant of a case gets.
    pub fn most_runs(&self) -> u32 {
        match &self.stopping {
            Stopping::Fixed { runs } => *runs,
            Stopping::Sequential { looks, .. } => looks.iter().copied().max().unwrap_or(0),
        }
    }

    /// The most runs of one build; 1 where every run has a build of its own, or all have the same.
    pub fn runs_per_build(&self) -> u32 {
        match self.layout.builds {
            0 => 1,
            builds => self.most_runs().div_ceil(builds).max(1),
        }
    }

    /// Whether several runs share a build. Then they share its layout as well, and what is independent is the build.
    pub fn shares_builds(&self) -> bool {
        self.runs_per_build() > 1
    }
}

/// How instructions are counted: by a tool that executes the program itself, the same way every time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counting {
    /// The tool with its version, once it is known.
    pub tool: String,
    /// Whether a model of caches estimates cycles.
    pub cache_model: bool,
    /// Whether every run is also executed at full speed, for its times.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub times: bool,
}

/// A definition file as it was read, once for the whole session. A later change of the file changes no session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DefinitionFile {
    /// Where it lay.
    pub file: PathBuf,
    /// Its text.
    pub text: String,
    /// Values that took the place of what it says; benchmarks get theirs otherwise.
    pub set: Vec<(String, String)>,
    /// Processors that could be used.
    pub cpus: u32,
    /// The machines that its parts have, where it gives them machines of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Box<Placement>>,
}

/// How many runs each variant of a case gets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Runs {
    /// Exactly this many.
    Fixed(u32),
    /// As many as the sequential design needs; the largest number of its looks is the cap.
    Sequential,
}

/// How the harness divides one run into samples, where the harness owns the loop. A file that starts
/// and ends the clock itself measures once, whatever this says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Samples {
    /// Samples in one run.
    pub count: u32,
    /// What ends a sample.
    pub length: Length,
    /// Time spent with iterations that are thrown away, before the first sample.
    pub warmup_ns: u64,
}

/// What of the division of a run somebody asked for; the rest is as usual, which suites decide for themselves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Division {
    /// Samples in one run.
    pub count: Option<u32>,
    /// What ends a sample.
    pub length: Option<Length>,
    /// Time before the first sample.
    pub warmup_ns: Option<u64>,
}

/// What ends a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Length {
    /// The harness finds the number of iterations that takes about this long.
    TimeNs(u64),
    /// Exactly so many iterations.
    Iterations(u64),
}

impl Default for Samples {
    /// A third of a second per run. The run is the unit of independence, so time is better spent
    /// on more runs than on more samples of one (docs/why/statistics.md, "One value per process"); a
    /// sample of 50 ms is a million times the resolution of the clock, and 100 ms let a processor
    /// reach the frequency that it will keep.
    fn default() -> Samples {
        Samples {
            count: 5,
            length: Length::TimeNs(50_000_000),
            warmup_ns: 100_000_000,
        }
    }
}

impl Sampling {
    /// The time limit of a run when nothing else is said.
    pub const USUAL_TIMEOUT: Duration = Duration::from_secs(300);
}

/// The time that is compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// What passes between beginning and end, waiting included.
    #[default]
    Wall,
    /// What processors spend on the work.
    Cpu,
}

/// What the sampling options request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    /// Runs per case and variant.
    pub runs: Runs,
    /// Stop a case without comparison when the interval's half width is below this share.
    pub precision: Option<f64>,
    /// Time limit of one run.
    pub timeout_ms: u64,
    /// The time that all measuring may take; a session that is resumed has it anew.
    #[serde(default)]
    pub budget_ms: Option<u64>,
    /// How a run is divided, where the harness decides that.
    #[serde(default)]
    pub samples: Samples,
    /// What of that was asked for.
    #[serde(default)]
    pub asked: Division,
    /// The time that is compared.
    #[serde(default)]
    pub clock: Clock,
}

/// The seed of a step: a number of 31 bits, which every language holds exactly. The distance between steps is that of
/// Weyl's sequence in SplitMix64 (Steele, Lea, Flood 2014), and so is the first of its two mixings.
pub fn seed_of_step(seed: u64, step: u32) -> u64 {
    let weyl = seed.wrapping_add((u64::from(step) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    (weyl ^ (weyl >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33
}

/// What differs between the runs of one variant beside chance: the order of its code and data (builds), and what lies
/// above its stack.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Layout {
    /// Builds of every variant, each linked with functions and data in another order; 0 for the usual one alone.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub builds: u32,
    /// Whether a variable of a length drawn for every run is added to the environment.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub env: bool,
    /// Whether programs are started under a path of a length drawn for every run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stack: bool,
    /// Whether functions begin at multiples of 64 bytes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub align: bool,
}

impl Layout {
    /// Whether everything is as it is without being asked for.
    pub fn is_usual(&self) -> bool {
        *self == Layout::default()
    }
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}
