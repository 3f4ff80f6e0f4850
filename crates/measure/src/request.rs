//! What can be asked of measuring, as plain data. What is not given follows the usual rules, which are decided here.

use crate::fleet::FleetRequest;
use crate::layout;
use crate::roles::Held;
use anyhow::{Context, bail};
use speedwell_analysis::scaling::Rules;
use speedwell_analysis::{Settings, confirm};
use speedwell_environment as environment;
use speedwell_harness::discover::{Selection, Suite};
use speedwell_harness::plan::Plan;
use speedwell_model::{
    Clock, Counting, Design, Division, Environment, Layout, Length, Order, Origin, OriginRequest,
    Purpose, Run, Runs, Samples, Sampling, Stopping, Variant, milliseconds,
};
use speedwell_process::{CpuSet, resolve};
use speedwell_suite::fleet::FleetFile;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

/// The fewest runs whose smallest and largest value are a 95 % interval of the median
/// (1 - 2 / 2^6 = 96.9 %): the default where nothing is compared.
const RUNS_OF_ONE_VARIANT: u32 = 6;

/// Pairs at which the sequential test looks: the smallest p value of eight pairs, 2/2^8, is above the first limit.
const LOOKS_AT_PAIRS: [u32; 5] = [10, 14, 20, 26, 32];

/// Runs of a side before which no comparison is decided: the first of the usual looks.
const FEWEST_OF_A_TEST: u32 = Settings::DEFAULT_LOOKS[0];

/// Runs of a side where counts of instructions differ from run to run; where they do not, two are enough.
const RUNS_THAT_DIFFER: u32 = 8;

/// Where measuring until a precision is reached gives up.
const RUNS_FOR_PRECISION: u32 = 40;

/// Benchmarks to be measured.
#[derive(Debug, Clone, Default)]
pub struct MeasureRequest {
    /// Files, folders, group names.
    pub targets: Vec<String>,
    /// Which benchmarks of them, with which values.
    pub selection: Selection,
    /// What is compared.
    pub variants: VariantRequest,
    /// How runs are planned.
    pub plan: PlanRequest,
    /// Whether cases are only to be listed, for which nothing has to be installed.
    pub only_lists: bool,
    /// What finds the fleet, for files whose parts have machines of their own.
    pub fleet: Option<fn() -> anyhow::Result<FleetFile>>,
}

/// What is compared with what.
#[derive(Debug, Clone, Default)]
pub struct VariantRequest {
    /// The variants; none for those that files declare.
    pub given: Vec<Variant>,
    /// Which of them are revisions of the user's repository.
    pub revisions: Vec<RevisionRequest>,
    /// How revisions are built.
    pub build: BuildRequest,
    /// The variant that is the reference; the first if not given.
    pub baseline: Option<String>,
    /// Arguments for every measured program, before those of a variant's own.
    pub arguments: Vec<String>,
}

/// A revision whose code is a variant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevisionRequest {
    /// Which of the given variants.
    pub variant: usize,
    /// What git knows it by.
    pub typed: String,
    /// The program that is built from it, from the current folder; if not given, it is the target that is the revision's.
    pub program: Option<PathBuf>,
    /// Whether the variant has no name of its own, so that it is called after the revision.
    pub names_variant: bool,
}

/// How revisions are built.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BuildRequest {
    /// What a shell executes in the current folder of a revision.
    pub command: Option<String>,
    /// How long that may take.
    pub limit: Duration,
}

/// How runs are planned, whatever is measured.
#[derive(Debug, Clone, Default)]
pub struct PlanRequest {
    /// How much is measured.
    pub sampling: SamplingRequest,
    /// In which order.
    pub order: Order,
    /// The time that is compared.
    pub clock: Clock,
    /// Seed of every random choice; drawn if not given.
    pub seed: Option<u64>,
    /// Processors that measured processes may use.
    pub pin: Option<CpuSet>,
    /// The time that all measuring may take.
    pub budget: Option<Duration>,
    /// Confidence of intervals and verdicts.
    pub confidence: Option<f64>,
    /// The smallest change that matters, as a share.
    pub threshold: Option<f64>,
    /// Rules by which a disturbed run is put aside.
    pub reject: speedwell_model::Rules,
    /// Counts instructions instead of measuring time.
    pub counting: Option<Counting>,
    /// What of a program's layout in memory is varied between runs.
    pub layout: Layout,
    /// Why it is measured. A change that is suspected is measured again with fewer false alarms, and so with more runs.
    pub purpose: Purpose,
}

/// How much is measured.
#[derive(Debug, Clone, Default)]
pub struct SamplingRequest {
    /// Runs of every case and variant.
    pub runs: Option<u32>,
    /// The fewest runs of every case and variant, where their number is not fixed.
    pub fewest_runs: Option<u32>,
    /// The most.
    pub most_runs: Option<u32>,
    /// Without comparison: measure until the interval's half width is below this share.
    pub precision: Option<f64>,
    /// Samples in one run.
    pub samples: Option<u32>,
    /// What ends a sample.
    pub length: Option<Length>,
    /// Time of iterations that are thrown away before the first sample.
    pub warmup_ns: Option<u64>,
    /// Time limit of one run.
    pub timeout: Option<Duration>,
}

/// A search for the concurrency beyond which there is no more throughput.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SearchRequest {
    /// Levels are multiples of this; they are doubled if not given.
    pub step: Option<u32>,
    /// The highest level.
    pub limit: Option<u32>,
    /// Levels without growth after which it climbs no further.
    pub patience: Option<u32>,
    /// Visits of each level.
    pub visits: Option<u32>,
}

/// A session to be measured and kept.
#[derive(Debug, Clone, Default)]
pub struct SessionRequest {
    /// The analysis that decides when a case needs no more runs.
    pub settings: Settings,
    /// Names of the session.
    pub tags: Vec<String>,
    /// The words typed, which are kept with it.
    pub command: Vec<String>,
    /// What the user says of the code that is measured; `None` asks nobody.
    pub origin: Option<OriginRequest>,
    /// What the user calls the machine.
    pub machine: Option<String>,
    /// The project on a server that it is pushed to once it is over.
    pub push: Option<String>,
    /// The order of runs is given, as that of a calibration is: nothing is advised about it.
    pub has_given_order: bool,
    /// End at the first failure.
    pub fail_fast: bool,
    /// Whether the division of runs into samples was asked for.
    pub divides_runs: bool,
    /// The machines that measure it, if this one does not.
    pub fleet: Option<FleetRequest>,
}

impl SessionRequest {
    /// The code that is measured in the current folder.
    pub fn origin(&self) -> Option<Origin> {
        environment::origin(Path::new("."), self.origin.as_ref()?)
    }

    /// The machine, and what is known of programs, as [`environment::capture`] takes them.
    pub fn environment(&self, programs: &[(String, PathBuf, Option<String>)]) -> Environment {
        Environment {
            machine: self.machine.clone(),
            ..environment::capture(programs)
        }
    }
}

impl SearchRequest {
    /// The rules of the search, from level `first` up to `limit` if no other is given.
    pub fn rules(&self, first: u32, limit: u32) -> Rules {
        let usual = Rules::default();
        let visits = self.visits.unwrap_or(usual.visits);
        Rules {
            first,
            step: self.step,
            limit: self.limit.unwrap_or(limit),
            patience: self.patience.unwrap_or(usual.patience),
            visits,
            most_visits: usual.most_visits.max(visits),
        }
    }
}

impl VariantRequest {
    /// The variants in the order given, the baseline first; those that files declare when none is
    /// given, or else one plain variant.
    ///
    /// # Errors
    /// Two variants of the same name, an unknown baseline, a missing program.
    pub fn variants(&self, declared: Vec<Variant>) -> anyhow::Result<Vec<Variant>> {
        let mut variants = self.given.clone();
        if variants.is_empty() {
            variants = declared;
            for program in variants.iter_mut().flat_map(|v| &mut v.program) {
                *program = resolve(program)?;
            }
        }
        if variants.is_empty() {
            variants.push(Variant::plain("default"));
        }
        for (at, variant) in variants.iter().enumerate() {
            let is_same = |earlier: &Variant| earlier.name == variant.name;
            if variants[..at].iter().any(is_same) {
                bail!("two variants are named '{}'", variant.name);
            }
        }
        if let Some(name) = &self.baseline {
            let known: Vec<&str> = variants.iter().map(|v| v.name.as_str()).collect();
            let at = known.iter().position(|known| known == name);
            let at = at.with_context(|| {
                let known = known.join(", ");
                format!("no variant is named '{name}'\nhint: they are {known}")
            })?;
            variants.swap(0, at);
        }
        for variant in &mut variants {
            let all = self.arguments.iter().cloned();
            variant.arguments.splice(0..0, all);
        }
        Ok(variants)
    }
}

impl PlanRequest {
    /// The plan for what was found.
    pub fn plan(&self, variants: Vec<Variant>, suite: &Suite) -> Plan {
        let mut sampling = Sampling {
            budget_ms: self.budget.map(milliseconds),
            clock: match self.order {
                Order::Paired => Clock::Cpu,
                _ => self.clock,
            },
            ..self.sampling.sampling(variants.len())
        };
        if self.counting.is_some() {
            let runs = self.sampling.runs.unwrap_or(RUNS_THAT_DIFFER);
            sampling.runs = Runs::Fixed(runs.max(2));
        }
        let runs_per_block = match self.order {
            Order::Paired => 1,
            _ if variants.len() == 1 => 1,
            _ => 2,
        };
        let layout = layout::whole_blocks(self.layout, runs_per_block);
        let stopping = self.stopping(&sampling.runs, layout.builds);
        let design = Design {
            order: self.order,
            stopping,
            baseline: variants[0].name.clone(),
            seed: self.seed.unwrap_or_else(draw_seed),
            runs_per_block,
            // What is confirmed is that there is a change; how large it is, its interval says.
            threshold: self.threshold.filter(|_| !self.confirms()),
            experiment: None,
            definitions: suite.definitions(),
            conditions: Vec::new(),
            reject: self.reject.clone(),
            counting: self.counting.clone(),
            steady: None,
            layout,
            bisection: None,
            purpose: self.purpose,
            work: BTreeMap::new(),
        };
        Plan {
            jobs: suite.jobs.clone(),
            variants,
            design,
            sampling,
            pin: self.pin.clone(),
            shared: false,
            is_search: false,
            strata: 1,
            part: None,
        }
    }

    /// Whether a change that is suspected is measured again.
    fn confirms(&self) -> bool {
        matches!(self.purpose, Purpose::Confirm | Purpose::Bisect)
    }

    /// When measuring a case ends.
    fn stopping(&self, runs: &Runs, builds: u32) -> Stopping {
        match *runs {
            Runs::Fixed(runs) => Stopping::Fixed { runs },
            Runs::Sequential => Stopping::Sequential {
                looks: match self.order {
                    Order::Paired => self.sampling.bounded(&LOOKS_AT_PAIRS),
                    _ if self.confirms() => layout::looks(&confirm::LOOKS, builds),
                    _ => layout::looks(&self.sampling.bounded(&Settings::DEFAULT_LOOKS), builds),
                },
                alpha: if self.confirms() {
                    confirm::ALPHA
                } else {
                    1.0 - self.confidence.unwrap_or(Settings::DEFAULT_CONFIDENCE)
                },
                delta: self.threshold.unwrap_or(Settings::DEFAULT_DELTA),
            },
        }
    }
}

impl SamplingRequest {
    /// The sampling for this many variants.
    pub fn sampling(&self, variants: usize) -> Sampling {
        let runs = match (self.runs, self.precision) {
            (Some(runs), _) => Runs::Fixed(runs),
            (None, Some(_)) if variants == 1 => {
                Runs::Fixed(self.most_runs.unwrap_or(RUNS_FOR_PRECISION))
            }
            (None, _) if variants == 1 => {
                let most = self.most_runs.unwrap_or(u32::MAX);
                Runs::Fixed(
                    RUNS_OF_ONE_VARIANT
                        .max(self.fewest_runs.unwrap_or(0))
                        .min(most),
                )
            }
            (None, _) => Runs::Sequential,
        };
        Sampling {
            runs,
            precision: self.precision.filter(|_| variants == 1),
            timeout_ms: milliseconds(self.timeout.unwrap_or(Sampling::USUAL_TIMEOUT)),
            budget_ms: None,
            samples: self.samples(Samples::default()),
            asked: Division {
                count: self.samples,
                length: self.length,
                warmup_ns: self.warmup_ns,
            },
            clock: Clock::Wall,
        }
    }

    /// The looks within the bounds on runs, the last of them at the most runs.
    fn bounded(&self, usual: &[u32]) -> Vec<u32> {
        let fewest = self.fewest_runs.unwrap_or(0);
        let last = usual.last().copied().unwrap_or(0);
        let most = self.most_runs.unwrap_or(last.max(fewest));
        let within = |look: &u32| *look >= fewest && *look < most;
        let looks = usual.iter().copied().filter(within);
        looks.chain([most]).collect()
    }

    /// Refuses bounds between which no comparison of this many variants can be decided.
    ///
    /// # Errors
    /// The fewest are more than the most, or the most are fewer than a test needs.
    pub fn check_bounds(&self, variants: usize) -> anyhow::Result<()> {
        if let (Some(fewest), Some(most)) = (self.fewest_runs, self.most_runs)
            && fewest > most
        {
            bail!("--min-runs {fewest} is more than --max-runs {most}");
        }
        match self.most_runs {
            Some(most) if variants > 1 && most < FEWEST_OF_A_TEST => bail!(
                "--max-runs {most} is too few for a comparison, which is decided at {FEWEST_OF_A_TEST} runs of each at \
                 the earliest\nhint: --runs {most} measures exactly so many, and the answer may be 'unclear'"
            ),
            _ => Ok(()),
        }
    }

    /// How a run is divided, where `usual` is how it is if nothing else is asked for.
    pub fn samples(&self, usual: Samples) -> Samples {
        Samples {
            count: self.samples.unwrap_or(usual.count),
            length: self.length.unwrap_or(usual.length),
            warmup_ns: self.warmup_ns.unwrap_or(usual.warmup_ns),
        }
    }

    /// Whether a run is to be divided in another way than usual.
    pub fn divides_runs(&self) -> bool {
        self.samples.is_some() || self.length.is_some() || self.warmup_ns.is_some()
    }
}

/// A seed nobody chose. Kept below 2^53, so that JSON readers of other languages keep every digit.
pub fn draw_seed() -> u64 {
    uuid::Uuid::now_v7().as_u128() as u64 >> 11
}

/// A plan, and what is known beside it.
pub struct Plans {
    /// What will be executed.
    pub plan: Plan,
    /// What describing the benchmarks brought up.
    pub suite: Suite,
    /// The session that is resumed, and what it has done.
    pub resumed: Option<Resumed>,
    /// The machines of an experiment whose parts have machines of their own.
    pub held: Option<Held>,
}

impl Plans {
    /// The plan of a new session.
    pub fn new(plan: Plan, suite: Suite) -> Plans {
        Plans {
            plan,
            suite,
            resumed: None,
            held: None,
        }
    }
}

/// An earlier session.
pub struct Resumed {
    /// Its number.
    pub number: i64,
    /// Its finished slots.
    pub done: BTreeSet<u32>,
    /// Those of them that failed.
    pub failed: BTreeSet<u32>,
    /// Its runs, if it is measured on this machine; of many, those that somebody looks at.
    pub runs: Vec<Run>,
    /// Its finished slots that gave nothing, where runs are left out.
    pub silent: Option<BTreeSet<u32>>,
}
