//! Decides before the first run what will be executed and in which order. The random choices follow
//! from a stored seed.
//!
//! A [`SessionPlan`] holds the cases, the variants, and the design with its seed. The runs, each a
//! [`PlanSlot`], are derived from the plan alone, so a session can be resumed, and its order can be
//! explained years later.

mod shard;

pub use shard::RelocationMap;

use crate::layout::{LinkedBuild, RunLayout};
use crate::{BenchmarkJob, RunContext, SourceKind};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use serde::{Deserialize, Serialize};
use speedwell_config::experiment::Experiment;
use speedwell_machine::process::CpuSet;
use speedwell_model::{
    RunOrder, SamplingOptions, SessionDesign, StoppingDesign, Variant, seed_of_step,
};
use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};

/// Maximum number of bytes that the additional environment variable adds above a process's stack.
const MAX_PAD_BYTES: u64 = 4096;
/// Maximum number of bytes that the longer program path adds above a process's stack.
const MAX_PATH_BYTES: u64 = 255;

/// Draws the random order of the runs inside blocks.
#[derive(Debug)]
pub struct BlockShuffle(Xoshiro256PlusPlus);

impl BlockShuffle {
    /// Creates the generator for `seed`.
    pub fn new(seed: u64) -> BlockShuffle {
        BlockShuffle(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// Returns the indexes of `variants` variants, each `repeats` times, in random order.
    pub fn shuffle_block(&mut self, variants: usize, repeats: u32) -> Vec<usize> {
        let mut order: Vec<usize> = (0..repeats).flat_map(|_| 0..variants).collect();
        // The Fisher-Yates shuffle is written out here, because a resumed session must reproduce
        // its planned order even if a library changes its own shuffle.
        for last in (1..order.len()).rev() {
            order.swap(last, self.draw_below(last as u64 + 1) as usize);
        }
        order
    }

    /// Draws a uniform number below `bound` with the rejection method of Lemire (2019).
    fn draw_below(&mut self, bound: u64) -> u64 {
        loop {
            let product = u128::from(self.0.next_u64()) * u128::from(bound);
            if product as u64 >= bound.wrapping_neg() % bound {
                return (product >> 64) as u64;
            }
        }
    }
}

/// Everything needed to execute or resume a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionPlan {
    /// Cases in the order of their files.
    pub jobs: Vec<BenchmarkJob>,
    /// Variants in the given order.
    pub variants: Vec<Variant>,
    /// Order, seed and interim analyses.
    pub design: SessionDesign,
    /// Length and number of samples, number of runs, and time limits.
    pub sampling: SamplingOptions,
    /// Processors that measured processes may use.
    pub pin: Option<CpuSet>,
    /// Whether snippets share one process. Depending on the design's [`RunOrder`], they take turns
    /// or run at the same time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
    /// Whether later measurements depend on earlier ones. If so, the slots of the session differ
    /// from the slots of the plan.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_search: bool,
    /// Number of strata: how many times the whole plan is executed, each time with its own blocks
    /// and random order.
    #[serde(default = "default_strata", skip_serializing_if = "is_default_strata")]
    pub strata: u32,
    /// How this plan relates to a larger plan, if it is a part of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<ShardOfPlan>,
}

fn default_strata() -> u32 {
    1
}

fn is_default_strata(number: &u32) -> bool {
    *number == 1
}

/// Shard for one machine: some cases with all their blocks and variants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanShard {
    /// Indexes of the cases in [`SessionPlan::jobs`], ascending.
    pub jobs: Vec<u32>,
    /// Stratum to which the shard belongs. A stratum is one execution of the whole plan, by one
    /// machine or several, with its own slot numbers, block numbers and random order.
    #[serde(default)]
    pub stratum: u32,
}

/// Relation of a shard to the whole plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardOfPlan {
    /// The shard.
    pub shard: PlanShard,
    /// Number of cases of the whole plan.
    pub cases: u32,
    /// Number of strata of the whole plan.
    pub strata: u32,
}

/// One run to be executed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PlanSlot {
    /// Position in the execution order, from 0.
    pub index: u32,
    /// Index of the slot's block among the blocks of its case, from 0.
    pub block: u32,
    /// Index into [`SessionPlan::jobs`].
    pub job: usize,
    /// Index into [`SessionPlan::variants`].
    pub variant: usize,
    /// Number of earlier runs of the same job and variant.
    pub ordinal: u32,
    /// Whether this slot is the last of its block. A case can end early only after a whole block.
    pub closes_block: bool,
    /// Whether this slot is executed at the same time as the other slot of its pair. The indexes of
    /// the two slots are adjacent.
    pub is_at_once: bool,
    /// Number of earlier executions of this slot. A plan has each slot once, but disturbed runs are
    /// retried.
    pub repeated: u32,
    /// Build that this run executes, if there are several.
    pub build: Option<u32>,
}

impl PlanSlot {
    /// Whether both slots are executed at the same time.
    pub fn is_paired_with(&self, other: &PlanSlot) -> bool {
        self.is_at_once && other.is_at_once && self.index / 2 == other.index / 2
    }

    /// Seed of the run's random choices, the same for all runs of a block.
    pub fn seed(&self, seed: u64) -> u64 {
        seed_of_step(seed, self.block)
    }
}

impl SessionPlan {
    /// Returns the experiment that the plan executes, if it executes one. An experiment of only
    /// benchmark files has no job that holds its definition, so its text is parsed here.
    ///
    /// # Errors
    /// Fails if the experiment was stored by a version of Speedwell with a different grammar.
    pub fn experiment(&self) -> anyhow::Result<Option<Cow<'_, Experiment>>> {
        let sources = self.jobs.iter().map(|job| &job.source);
        let mut experiments = sources.filter(|source| source.kind == SourceKind::Experiment);
        match experiments.find_map(|source| source.definition.as_deref()) {
            Some(definition) => definition.experiment().map(Cow::Borrowed).map(Some),
            None => {
                let parsed = self.design.experiment.as_ref().map(Experiment::parse).transpose()?;
                Ok(parsed.map(Cow::Owned))
            }
        }
    }

    /// Creates the context of a plain run: without the counting, the series and the layout of the
    /// plan.
    pub fn run_context<'a>(
        &'a self,
        job: &'a BenchmarkJob,
        variant: &'a Variant,
        slot: u32,
    ) -> RunContext<'a> {
        RunContext {
            job,
            variant,
            program: crate::resolve_program_for(&job.source, variant),
            slot,
            ordinal: 0,
            repeated: 0,
            seed: self.design.seed,
            sampling: &self.sampling,
            samples: self.sampling.samples,
            is_series: false,
            is_rehearsal: false,
            pin: self.pin.as_ref(),
            layout: RunLayout::default(),
            kept: None,
            counting: None,
        }
    }

    /// Maximum number of runs per variant.
    pub fn runs_per_variant(&self) -> u32 {
        self.design.max_runs()
    }

    /// Whether there may be fewer runs than the maximum, because a case may need fewer, or time may
    /// run out.
    pub fn may_need_fewer_runs(&self) -> bool {
        let is_sequential = matches!(self.design.stopping, StoppingDesign::Sequential { .. });
        is_sequential || self.sampling.precision.is_some() || self.sampling.budget_ms.is_some()
    }

    /// Derives the memory layout of a slot's program from the session's seed, without further
    /// random choices.
    pub fn run_layout(&self, slot: &PlanSlot) -> RunLayout {
        let SessionDesign { layout, seed, .. } = self.design;
        let build_of = |number: u32| {
            let variant_seed = seed ^ seed_of_step(!seed, slot.variant as u32);
            // Linkers interpret 0 as random, or as no shuffling.
            LinkedBuild { number, seed: seed_of_step(variant_seed, number).max(1) as u32 }
        };
        let draw = |salt: u64, max: u64| {
            let step = seed_of_step(seed.rotate_left(32) ^ salt, slot.index);
            (1 + step % max) as u32
        };
        RunLayout {
            build: slot.build.map(build_of),
            align: layout.align,
            pad_bytes: layout.env.then(|| draw(1, MAX_PAD_BYTES)),
            path_bytes: layout.stack.then(|| draw(2, MAX_PATH_BYTES)),
        }
    }

    /// Returns all slots in execution order: round by round, with one block of every case in each
    /// round. Every case is thus spread over the whole session, and its variants stay close in
    /// time. If this plan is a part of a larger plan, its slots keep the numbers and order that
    /// they have there.
    pub fn slots(&self) -> Vec<PlanSlot> {
        let mut slots = Vec::new();
        let strata = self.part.as_ref().map_or(self.strata, |part| part.shard.stratum + 1);
        let mut begin = StratumStart::default();
        while begin.stratum < strata {
            let jobs = self.jobs_in_stratum(begin.stratum);
            begin = match self.design.order {
                RunOrder::Paired => self.paired_slots(begin, &jobs, &mut slots),
                _ => self.block_slots(begin, &jobs, &mut slots),
            };
        }
        slots
    }

    /// Whether some jobs are snippets. A snippet that fails is abandoned only after the others have
    /// enough runs.
    pub fn has_snippets(&self) -> bool {
        let mut kinds = self.jobs.iter().map(|job| &job.source.kind);
        kinds.any(|kind| matches!(kind, SourceKind::Snippet(_)))
    }

    /// Returns the slots in `done` whose block is incomplete. If disturbed runs are rejected, the
    /// block of the last slot in `done` is also treated as incomplete, because retries of its runs
    /// may be missing.
    pub fn begun_slots(&self, done: &BTreeSet<u32>) -> BTreeSet<u32> {
        let slots = self.slots();
        let is_done = |slot: &&PlanSlot| done.contains(&slot.index);
        let block_of = |slot: &PlanSlot| (slot.job, slot.block);
        let incomplete_blocks = slots.iter().filter(|slot| !is_done(slot)).map(block_of);
        let mut incomplete_blocks: HashSet<(usize, u32)> = incomplete_blocks.collect();
        if !self.design.reject.is_empty() {
            incomplete_blocks.extend(slots.iter().rfind(is_done).map(block_of));
        }
        slots
            .iter()
            .filter(is_done)
            .filter(|slot| incomplete_blocks.contains(&block_of(slot)))
            .map(|slot| slot.index)
            .collect()
    }

    /// Maps every case of the whole plan to its index in this plan, or to `None` if the case has no
    /// slots of `stratum` here.
    fn jobs_in_stratum(&self, stratum: u32) -> Vec<Option<usize>> {
        match &self.part {
            None => (0..self.jobs.len()).map(Some).collect(),
            Some(ShardOfPlan { shard, cases, .. }) => {
                let index_of = |job| shard.jobs.binary_search(&job).ok();
                let index_here = |job| index_of(job).filter(|_| stratum == shard.stratum);
                (0..*cases).map(index_here).collect()
            }
        }
    }

    /// Seed of a stratum's order.
    fn stratum_seed(&self, stratum: u32) -> u64 {
        match stratum {
            0 => self.design.seed,
            _ => seed_of_step(!self.design.seed, stratum),
        }
    }

    fn block_slots(
        &self,
        begin: StratumStart,
        jobs: &[Option<usize>],
        slots: &mut Vec<PlanSlot>,
    ) -> StratumStart {
        let blocks = self.builds_of_blocks();
        let slots_per_job: usize =
            blocks.iter().map(|builds| builds.len()).sum::<usize>() * self.variants.len();
        let end = StratumStart {
            stratum: begin.stratum + 1,
            index: begin.index + (slots_per_job * jobs.len()) as u32,
            block: begin.block + blocks.len() as u32,
            ordinal: begin.ordinal + (slots_per_job / self.variants.len()) as u32,
        };
        if jobs.iter().all(Option::is_none) {
            return end;
        }
        let mut shuffle = BlockShuffle::new(self.stratum_seed(begin.stratum));
        let mut shuffle_builds = BlockShuffle::new(!self.stratum_seed(begin.stratum));
        let variants = self.variants.len();
        let StratumStart { mut index, mut ordinal, .. } = begin;
        for (builds, block) in blocks.iter().zip(begin.block..) {
            let repeats = builds.len() as u32;
            for &job in jobs {
                let order = match self.design.order {
                    RunOrder::Blocks => shuffle.shuffle_block(variants, repeats),
                    _ => (0..repeats).flat_map(|_| 0..variants).collect(),
                };
                // The order of builds is random as well, because the statistical test permutes the
                // builds of a block.
                let drawn: Vec<Vec<usize>> =
                    (0..variants).map(|_| shuffle_builds.shuffle_block(builds.len(), 1)).collect();
                let first = index;
                index += order.len() as u32;
                let Some(job) = job else { continue };
                let start = slots.len();
                push_block(slots, (first, block, job), vec![ordinal; variants], &order);
                for (variant, drawn) in drawn.into_iter().enumerate() {
                    let variant_slots = slots[start..].iter_mut().filter(|s| s.variant == variant);
                    variant_slots.zip(drawn).for_each(|(slot, drawn)| slot.build = builds[drawn]);
                }
            }
            ordinal += repeats;
        }
        end
    }

    /// Returns, for each block, the builds that every variant runs in it.
    ///
    /// If runs share builds, consecutive runs cycle through all builds, so that changes over time
    /// affect all builds alike. However, if measuring may end early, each interim analysis must see
    /// complete builds. The builds of one block then get all their runs before the builds of the
    /// next block.
    fn builds_of_blocks(&self) -> Vec<Vec<Option<u32>>> {
        let design = &self.design;
        let (builds, max_runs) = (design.layout.builds, design.max_runs());
        let builds_per_block = design.runs_per_block.max(1) as usize;
        // Runs, each by the number of its build, and how many of them form a block.
        let rounds: Vec<(Vec<u32>, usize)> = if !design.shares_builds() {
            vec![((0..max_runs).collect(), builds_per_block)]
        } else if let StoppingDesign::Sequential { .. } = design.stopping {
            let numbers: Vec<u32> = (0..builds).collect();
            let runs_per_build = design.runs_per_build() as usize;
            let repeated = |builds: &[u32]| (builds.repeat(runs_per_build), builds.len());
            numbers.chunks(builds_per_block).map(repeated).collect()
        } else {
            let runs: Vec<u32> = (0..max_runs).map(|run| run % builds).collect();
            let rounds = runs.chunks(builds as usize);
            rounds.map(|round| (round.to_vec(), builds_per_block)).collect()
        };
        let block = |runs: &[u32]| -> Vec<Option<u32>> {
            runs.iter().map(|&build| (builds > 0).then_some(build)).collect()
        };
        rounds.iter().flat_map(|(runs, size)| runs.chunks(*size).map(&block)).collect()
    }

    /// Adds rounds of pairs until every candidate has the wanted number of simultaneous pairs.
    /// Slots 2k and 2k + 1 are a candidate and the baseline, in random order. The baseline, the
    /// first variant, has a separate run for every candidate. Each round of a case is a block.
    fn paired_slots(
        &self,
        begin: StratumStart,
        jobs: &[Option<usize>],
        slots: &mut Vec<PlanSlot>,
    ) -> StratumStart {
        let mut shuffle = BlockShuffle::new(self.stratum_seed(begin.stratum));
        let StratumStart { mut index, mut block, .. } = begin;
        let mut simultaneous_rounds = 0;
        while simultaneous_rounds < self.runs_per_variant() {
            let is_alone = self.design.is_alone(block);
            for &job in jobs {
                let order = (1..self.variants.len()).flat_map(|candidate| {
                    let pair = shuffle.shuffle_block(2, 1);
                    pair.into_iter().map(move |side| side * candidate)
                });
                let order: Vec<usize> = order.collect();
                let first = index;
                index += order.len() as u32;
                let Some(job) = job else { continue };
                let start = slots.len();
                let builds = self.design.layout.builds;
                let mut ordinals = vec![block; self.variants.len()];
                ordinals[0] = block * (ordinals.len() as u32 - 1);
                push_block(slots, (first, block, job), ordinals, &order);
                for slot in &mut slots[start..] {
                    slot.is_at_once = !is_alone;
                    slot.build = (builds > 0).then(|| simultaneous_rounds % builds);
                }
            }
            block += 1;
            simultaneous_rounds += u32::from(!is_alone);
        }
        StratumStart { stratum: begin.stratum + 1, index, block, ordinal: 0 }
    }
}

/// Number of a stratum, and counters at its beginning.
#[derive(Debug, Clone, Copy, Default)]
struct StratumStart {
    stratum: u32,
    index: u32,
    block: u32,
    ordinal: u32,
}

/// Adds the slots of one block of a job, numbered from `first`. `ordinals` holds the number of
/// earlier runs of each variant.
fn push_block(
    slots: &mut Vec<PlanSlot>,
    (first, block, job): (u32, u32, usize),
    mut ordinals: Vec<u32>,
    order: &[usize],
) {
    for ((position, &variant), index) in order.iter().enumerate().zip(first..) {
        slots.push(PlanSlot {
            index,
            block,
            job,
            variant,
            ordinal: ordinals[variant],
            closes_block: position + 1 == order.len(),
            is_at_once: false,
            repeated: 0,
            build: None,
        });
        ordinals[variant] += 1;
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::BenchmarkSource;
    use speedwell_model::{ComparedClock, RunCount, SampleDivision};
    use std::path::Path;

    #[test]
    fn a_seed_always_gives_the_same_order() {
        let mut shuffle = BlockShuffle::new(7);
        let blocks: Vec<Vec<usize>> = (0..3).map(|_| shuffle.shuffle_block(2, 2)).collect();
        assert_eq!(blocks, [[0, 1, 1, 0], [1, 0, 0, 1], [1, 1, 0, 0]]);
    }

    #[test]
    fn all_six_orders_of_a_block_are_equally_likely() {
        let mut shuffle = BlockShuffle::new(1);
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..6000 {
            *counts.entry(shuffle.shuffle_block(2, 2)).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 6);
        // 1000 are expected for each order. Four standard deviations of this binomial distribution
        // are 115.
        assert!(counts.values().all(|&count| (885..=1115).contains(&count)), "{counts:?}");
    }

    pub(super) fn test_plan(
        jobs: usize,
        variants: &[&str],
        runs: u32,
        order: RunOrder,
    ) -> SessionPlan {
        let root = Path::new("/");
        let source = BenchmarkSource::new(SourceKind::Fake, Path::new("/g/b"), root, root);
        let jobs =
            (0..jobs).map(|number| BenchmarkJob::new(source.clone(), &format!("g/b n={number}")));
        SessionPlan {
            jobs: jobs.collect(),
            variants: variants.iter().map(|name| Variant::plain(*name)).collect(),
            design: SessionDesign {
                seed: 7,
                runs_per_block: 2,
                ..SessionDesign::new(order, StoppingDesign::Fixed { runs }, variants[0])
            },
            sampling: SamplingOptions {
                runs: RunCount::Fixed(runs),
                precision: None,
                timeout_ms: 1000,
                budget_ms: None,
                samples: SampleDivision::default(),
                requested: Default::default(),
                clock: ComparedClock::Wall,
            },
            pin: None,
            shared: false,
            is_search: false,
            strata: 1,
            part: None,
        }
    }

    #[test]
    fn every_block_holds_each_variant_twice_in_random_order() {
        let plan = test_plan(3, &["a", "b"], 8, RunOrder::Blocks);
        let slots = plan.slots();
        assert_eq!(slots.len(), 3 * 2 * 8);
        for block in slots.chunks(4) {
            assert!(block.iter().all(|s| s.block == block[0].block && s.job == block[0].job));
            assert_eq!(block.iter().filter(|s| s.variant == 0).count(), 2);
            assert_eq!(
                block.iter().map(|s| s.closes_block).collect::<Vec<_>>(),
                [false, false, false, true]
            );
        }
        let orders: std::collections::BTreeSet<Vec<usize>> =
            slots.chunks(4).map(|b| b.iter().map(|s| s.variant).collect()).collect();
        assert!(orders.len() > 2, "the order never changes: {orders:?}");
        assert_eq!(slots, plan.slots(), "the same seed gives the same order");
    }

    #[test]
    fn an_odd_number_of_runs_ends_with_a_smaller_block() {
        let slots = test_plan(1, &["a", "b"], 5, RunOrder::Blocks).slots();
        for variant in 0..2 {
            let ordinals: Vec<u32> =
                slots.iter().filter(|s| s.variant == variant).map(|s| s.ordinal).collect();
            assert_eq!(ordinals, [0, 1, 2, 3, 4]);
        }
    }

    #[test]
    fn every_candidate_is_paired_with_its_own_run_of_the_baseline() {
        let plan = test_plan(2, &["a", "b", "c"], 14, RunOrder::Paired);
        let slots = plan.slots();
        let pairs: Vec<&[PlanSlot]> = slots.chunks(2).collect();
        for (pair, number) in pairs.iter().zip(0..) {
            let candidate = 1 + number % 2;
            let mut variants = [pair[0].variant, pair[1].variant];
            variants.sort_unstable();
            assert_eq!(variants, [0, candidate]);
            assert_eq!((pair[0].block, pair[0].job), (pair[1].block, pair[1].job));
            assert_eq!(pair[0].is_at_once, !plan.design.is_alone(pair[0].block));
            assert_eq!(pair[0].is_at_once, pair[1].is_at_once);
        }
        let at_once = |job: usize, variant: usize| {
            let is_one = |s: &&PlanSlot| s.is_at_once && s.job == job && s.variant == variant;
            slots.iter().filter(is_one).count()
        };
        assert_eq!([at_once(0, 1), at_once(1, 2), at_once(0, 0)], [14, 14, 28]);
        let baseline_first = pairs.iter().filter(|pair| pair[0].variant == 0).count();
        assert!((10..54).contains(&baseline_first), "{baseline_first}");
    }

    #[test]
    fn in_one_of_eight_rounds_each_side_has_the_processor_to_itself() {
        let design = test_plan(1, &["a", "b"], 32, RunOrder::Paired).design;
        for group in 0..50 {
            let rounds = (0..8).filter(|place| design.is_alone(8 * group + place));
            assert_eq!(rounds.count(), 1);
        }
        let places: std::collections::BTreeSet<u32> =
            (0..400).filter(|&block| design.is_alone(block)).map(|block| block % 8).collect();
        assert_eq!(places.len(), 8, "the position of this round is random");
        let blocks = test_plan(1, &["a", "b"], 32, RunOrder::Blocks).design;
        assert!(!(0..400).any(|block| blocks.is_alone(block)));
    }

    /// Returns the builds of one variant's runs in execution order.
    fn builds_of(plan: &SessionPlan, variant: usize) -> Vec<u32> {
        let slots = plan.slots();
        let own = slots.iter().filter(|slot| slot.variant == variant);
        own.filter_map(|slot| slot.build).collect()
    }

    fn with_builds(builds: u32, variants: &[&str], runs: u32, order: RunOrder) -> SessionPlan {
        let mut plan = test_plan(1, variants, runs, order);
        plan.design.layout.builds = builds;
        plan
    }

    #[test]
    fn runs_that_share_builds_cycle_through_all_of_them() {
        let plan = with_builds(6, &["a", "b"], 15, RunOrder::Blocks);
        for round in builds_of(&plan, 1).chunks(6) {
            let mut round = round.to_vec();
            round.sort_unstable();
            let all: Vec<u32> = (0..round.len() as u32).collect();
            assert_eq!(round, all);
        }
        // A block has the same builds of both variants, in random order.
        let slots = plan.slots();
        let mut first: Vec<u32> = Vec::new();
        for block in slots.chunk_by(|one, other| one.block == other.block) {
            let builds = |variant| {
                let own = block.iter().filter(move |slot| slot.variant == variant);
                own.filter_map(|slot| slot.build).collect::<Vec<u32>>()
            };
            let (mut a, mut b) = (builds(0), builds(1));
            first.push(a[0] % 2);
            a.sort_unstable();
            b.sort_unstable();
            assert_eq!(a, b);
        }
        assert!(first.contains(&0) && first.contains(&1), "{first:?}");
        assert_eq!(slots, plan.slots());
    }

    #[test]
    fn with_early_stopping_the_builds_of_a_block_get_all_runs_first() {
        let mut plan = with_builds(4, &["a", "b"], 0, RunOrder::Blocks);
        plan.design.stopping =
            StoppingDesign::Sequential { looks: vec![12], alpha: 0.05, delta: 0.02 };
        let builds: Vec<u32> = builds_of(&plan, 0).iter().map(|build| build / 2).collect();
        assert_eq!(builds, [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1]);
    }

    #[test]
    fn every_run_has_a_build_of_its_own_where_there_are_enough() {
        for order in [RunOrder::Blocks, RunOrder::Alternate, RunOrder::Paired] {
            let plan = with_builds(16, &["a", "b"], 10, order);
            let at_once = |slot: &&PlanSlot| order != RunOrder::Paired || slot.is_at_once;
            let slots = plan.slots();
            let own = slots.iter().filter(at_once).filter(|slot| slot.variant == 1);
            let mut builds: Vec<u32> = own.filter_map(|slot| slot.build).collect();
            builds.sort_unstable();
            assert_eq!(builds, (0..10).collect::<Vec<u32>>(), "{order:?}");
        }
        let usual = test_plan(1, &["a", "b"], 10, RunOrder::Blocks);
        assert!(usual.slots().iter().all(|slot| slot.build.is_none()));
    }

    #[test]
    fn layouts_differ_between_variants_and_follow_from_the_seed() {
        let mut plan = with_builds(8, &["a", "b"], 8, RunOrder::Blocks);
        plan.design.layout.env = true;
        plan.design.layout.stack = true;
        let of_slot = |slot: &PlanSlot| plan.run_layout(slot);
        let layouts: Vec<RunLayout> = plan.slots().iter().map(of_slot).collect();
        let seeds: std::collections::BTreeSet<u32> =
            layouts.iter().filter_map(|layout| Some(layout.build?.seed)).collect();
        assert_eq!(seeds.len(), 16);
        let pads: std::collections::BTreeSet<Option<u32>> =
            layouts.iter().map(|layout| layout.pad_bytes).collect();
        assert!(pads.len() > 12 && layouts.iter().all(|layout| layout.path_bytes <= Some(255)));
        assert_eq!(layouts, plan.slots().iter().map(of_slot).collect::<Vec<_>>());
    }

    #[test]
    fn alternation_is_not_shuffled() {
        let slots = test_plan(1, &["a", "b"], 3, RunOrder::Alternate).slots();
        assert_eq!(slots.iter().map(|s| s.variant).collect::<Vec<_>>(), [0, 1, 0, 1, 0, 1]);
    }
}
