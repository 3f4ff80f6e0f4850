//! Builds sessions for tests: who was measured, in which order, and what came out.

use crate::model::{
    Better, Case, Design, Environment, Metric, Order, Run, Sample, Session, State, Stopping, Value,
    Variant,
};
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use speedwell_stats::distribution::normal;
use std::sync::Arc;

/// A session under construction.
pub(crate) struct Story {
    session: Session,
    blocks: u32,
    random: Xoshiro256PlusPlus,
}

impl Story {
    /// A sequential session of `blocks` blocks of two runs of each variant per case.
    pub fn blocks(variants: &[&str], blocks: u32) -> Story {
        let stopping = Stopping::Sequential {
            looks: vec![8, 14, 20, 26, 32],
            alpha: 0.05,
            delta: 0.02,
        };
        Story::new(variants, blocks, Order::Blocks, stopping)
    }

    /// A session with a fixed number of blocks of two runs of each variant per case.
    pub fn fixed(variants: &[&str], blocks: u32) -> Story {
        Story::new(
            variants,
            blocks,
            Order::Blocks,
            Stopping::Fixed { runs: 2 * blocks },
        )
    }

    /// The same with another order of execution; imported runs come one variant after the other.
    pub fn ordered(variants: &[&str], blocks: u32, order: Order) -> Story {
        Story::new(
            variants,
            blocks,
            order,
            Stopping::Fixed { runs: 2 * blocks },
        )
    }

    /// Goes on with the variants and the number of blocks that `session` has.
    pub fn more(session: Session) -> Story {
        let blocks = 1 + session.runs.iter().map(|run| run.block).max().unwrap_or(0);
        let random = Xoshiro256PlusPlus::seed_from_u64(session.runs.len() as u64);
        Story {
            session,
            blocks,
            random,
        }
    }

    fn new(variants: &[&str], blocks: u32, order: Order, stopping: Stopping) -> Story {
        let baseline = variants[0].to_owned();
        let design = Design {
            order,
            stopping,
            baseline,
            seed: 7,
            runs_per_block: 2,
            threshold: None,
            experiment: None,
            definitions: Vec::new(),
            conditions: Vec::new(),
        };
        let session = Session {
            id: "story".into(),
            number: None,
            started_unix_ms: 0,
            state: State::Complete,
            tags: Vec::new(),
            command: Vec::new(),
            design,
            variants: variants.iter().copied().map(Variant::plain).collect(),
            metrics: vec![Metric::throughput()],
            environment: Environment::default(),
            runs: Vec::new(),
            failures: Vec::new(),
            profiles: Vec::new(),
        };
        Story {
            session,
            blocks,
            random: Xoshiro256PlusPlus::seed_from_u64(1),
        }
    }

    /// The seed of order and noise.
    pub fn seed(mut self, seed: u64) -> Story {
        self.random = Xoshiro256PlusPlus::seed_from_u64(seed);
        self
    }

    /// Makes smaller values the better ones.
    pub fn lower_is_better(mut self) -> Story {
        self.session.metrics = vec![Metric::new("throughput", "ns", Better::Lower)];
        self
    }

    /// Measures a case; `value` gives the result by variant and number of the run.
    pub fn case(mut self, id: &str, mut value: impl FnMut(&str, u32) -> f64) -> Story {
        let case = Arc::new(Case::parse(id).expect("a test's case id"));
        let mut counts = vec![0; self.session.variants.len()];
        for (variant, block) in self.plan() {
            let name: Arc<str> = Arc::from(self.session.variants[variant].name.as_str());
            let number = counts[variant];
            counts[variant] += 1;
            let result = value(&name, number);
            self.push(&case, &name, block, result);
        }
        self
    }

    /// Measures a case with normal noise of the given variation around 1000; `factor` is what a
    /// variant multiplies it by.
    pub fn noisy(self, id: &str, variation: f64, factor: impl Fn(&str) -> f64) -> Story {
        let seed = id
            .bytes()
            .fold(0u64, |sum, byte| sum.wrapping_mul(31) + u64::from(byte));
        let mut random =
            Xoshiro256PlusPlus::seed_from_u64(self.random.clone().random::<u64>() ^ seed);
        self.case(id, move |variant, _| {
            let noise = variation * normal::quantile(random.random_range(1e-9..1.0));
            1000.0 * factor(variant) * noise.exp()
        })
    }

    /// The numbers of variant and block in order of execution.
    fn plan(&mut self) -> Vec<(usize, u32)> {
        let variants = self.session.variants.len();
        let mut plan = Vec::new();
        for block in 0..self.blocks {
            let mut slots: Vec<usize> = (0..2 * variants).map(|slot| slot % variants).collect();
            if self.session.design.order == Order::Blocks {
                slots.shuffle(&mut self.random);
            }
            plan.extend(slots.into_iter().map(|variant| (variant, block)));
        }
        if self.session.design.order == Order::Imported {
            plan.sort_by_key(|&(variant, _)| variant);
        }
        plan
    }

    fn push(&mut self, case: &Arc<Case>, variant: &Arc<str>, block: u32, value: f64) {
        let metric = Arc::from(self.session.metrics[0].name.as_str());
        self.session.runs.push(Run {
            case: case.clone(),
            variant: variant.clone(),
            slot: self.session.runs.len() as u32,
            block,
            started_unix_ms: 0,
            wall_ns: 1,
            usage: None,
            samples: vec![Sample {
                metric,
                value,
                elapsed_ns: None,
                iterations: None,
            }],
            notes: Vec::new(),
            load: None,
        });
    }

    /// Loses the run of that number of a variant, over all cases.
    pub fn lose(mut self, variant: &str, number: usize) -> Story {
        let mut of_variant = self
            .session
            .runs
            .iter()
            .enumerate()
            .filter(|(_, r)| &*r.variant == variant);
        let (index, _) = of_variant
            .nth(number)
            .expect("a test loses a run that exists");
        self.session.runs.remove(index);
        self
    }

    /// The finished session.
    pub fn session(self) -> Session {
        self.session
    }
}

/// A numeric parameter.
pub(crate) fn number(name: &str, value: f64) -> (String, Value) {
    (name.to_owned(), Value::Number(value))
}
