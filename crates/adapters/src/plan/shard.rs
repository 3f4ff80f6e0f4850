//! Divides a plan into shards, one per machine. A slot keeps its number, whichever machine executes
//! it.

use super::SessionPlan;
use anyhow::ensure;
use serde::{Deserialize, Serialize};

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

impl ShardOfPlan {
    /// Maps every case of the whole plan to its index in the shard, or to `None` if the case has no
    /// slots of `stratum` there.
    pub(super) fn indexes_in(&self, stratum: u32) -> Vec<Option<usize>> {
        let mut indexes = vec![None; self.cases as usize];
        if stratum == self.shard.stratum {
            for (index, &job) in self.shard.jobs.iter().enumerate() {
                if let Some(entry) = indexes.get_mut(job as usize) {
                    *entry = Some(index);
                }
            }
        }
        indexes
    }
}

impl SessionPlan {
    /// Extracts the part `shard` of the plan. Its slots keep the numbers, blocks, order and
    /// random choices of the whole plan.
    ///
    /// A stratum number beyond the plan's strata adds another execution. Cases that move to another
    /// machine are measured in this way: again from the start, with new slot numbers.
    ///
    /// # Errors
    /// Fails if the shard is empty, if its cases are not in ascending order or not in the plan, or
    /// if the plan cannot be divided.
    pub fn extract_shard(&self, shard: &PlanShard) -> anyhow::Result<SessionPlan> {
        ensure!(self.part.is_none(), "a part of a plan cannot be divided");
        ensure!(!self.is_search, "a search cannot be divided");
        ensure!(
            !self.shared || shard.jobs.len() == self.jobs.len(),
            "snippets that share a process cannot be divided"
        );
        ensure!(!shard.jobs.is_empty(), "a shard needs at least one case");
        ensure!(
            shard.jobs.is_sorted_by(|one, next| one < next),
            "the cases of a shard are not in order"
        );
        let jobs = shard.jobs.iter().map(|&job| {
            let source = self.jobs.get(job as usize).cloned();
            source.ok_or_else(|| anyhow::anyhow!("the plan has no case {job}"))
        });
        Ok(SessionPlan {
            jobs: jobs.collect::<anyhow::Result<_>>()?,
            part: Some(ShardOfPlan {
                shard: shard.clone(),
                cases: self.jobs.len() as u32,
                strata: self.strata,
            }),
            strata: 1,
            ..self.clone()
        })
    }

    /// Returns the index that a case has in the whole plan. `job` is its index in this plan.
    pub fn index_in_whole(&self, job: usize) -> u32 {
        let shard = self.part.as_ref();
        shard.map_or(job as u32, |part| part.shard.jobs[job])
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use super::super::tests::test_plan;
    use super::super::{BlockShuffle, PlanSlot, SessionPlan};
    use super::PlanShard;
    use speedwell_model::RunOrder;

    /// Divides cases at random among this many shards. Drops empty shards.
    fn divide_cases(cases: u32, shards: u32, random: &mut BlockShuffle) -> Vec<Vec<u32>> {
        let mut all: Vec<Vec<u32>> = vec![Vec::new(); shards as usize];
        for case in 0..cases {
            let drawn = random.shuffle_block(shards as usize, 1)[0];
            all[drawn].push(case);
        }
        all.retain(|jobs| !jobs.is_empty());
        all
    }

    /// The slots of a shard with the case indexes of the whole plan.
    fn slots_in_whole(part: &SessionPlan) -> Vec<PlanSlot> {
        let slots = part.slots().into_iter();
        slots.map(|slot| PlanSlot { job: part.index_in_whole(slot.job) as usize, ..slot }).collect()
    }

    #[test]
    fn each_slot_is_in_exactly_one_shard_and_unchanged() {
        let mut random = BlockShuffle::new(3);
        for order in [RunOrder::Blocks, RunOrder::Alternate, RunOrder::Paired] {
            for cases in [1, 2, 7] {
                for strata in [1, 3] {
                    let mut whole = test_plan(cases, &["a", "b", "c"], 5, order);
                    whole.strata = strata;
                    whole.design.layout.builds = (cases as u32 % 2) * 4;
                    let mut found: Vec<PlanSlot> = Vec::new();
                    for stratum in 0..strata {
                        for jobs in divide_cases(cases as u32, 3, &mut random) {
                            let part = whole.extract_shard(&PlanShard { jobs, stratum }).unwrap();
                            let slots = slots_in_whole(&part);
                            assert!(slots.is_sorted_by_key(|slot| slot.index));
                            found.extend(slots);
                        }
                    }
                    found.sort_by_key(|slot| slot.index);
                    assert_eq!(found, whole.slots(), "{order:?} {cases} {strata}");
                }
            }
        }
    }

    #[test]
    fn strata_have_blocks_and_an_order_of_their_own() {
        let mut whole = test_plan(4, &["a", "b"], 6, RunOrder::Blocks);
        whole.strata = 2;
        let slots = whole.slots();
        let (first, second) = slots.split_at(slots.len() / 2);
        assert_eq!(first, test_plan(4, &["a", "b"], 6, RunOrder::Blocks).slots());
        assert!(first.iter().all(|slot| slot.block < 3));
        assert!(second.iter().all(|slot| (3..6).contains(&slot.block)));
        let order = |slots: &[PlanSlot]| slots.iter().map(|slot| slot.variant).collect::<Vec<_>>();
        assert_ne!(order(first), order(second));
        assert!(slots.iter().zip(0..).all(|(slot, index)| slot.index == index));
        // Ordinals of a case and variant continue across strata.
        let ordinals = second.iter().map(|slot| slot.ordinal);
        assert_eq!(ordinals.min(), Some(6));
    }

    #[test]
    fn a_moved_case_gets_unused_slot_and_block_numbers() {
        let whole = test_plan(3, &["a", "b"], 4, RunOrder::Blocks);
        let moved = PlanShard { jobs: vec![1], stratum: 2 };
        let part = whole.extract_shard(&moved).unwrap();
        let last = whole.slots().last().unwrap().index;
        assert_eq!(part.slots().len(), 8);
        assert!(part.slots().iter().all(|slot| slot.index > 2 * last && slot.block >= 4));
    }

    #[test]
    fn a_part_survives_serialization() {
        let whole = test_plan(3, &["a", "b"], 4, RunOrder::Blocks);
        let part = whole.extract_shard(&PlanShard { jobs: vec![0, 2], stratum: 0 }).unwrap();
        let text = serde_json::to_string(&part).unwrap();
        let back: SessionPlan = serde_json::from_str(&text).unwrap();
        assert_eq!(back.slots(), part.slots());
        let stored = serde_json::to_string(&whole).unwrap();
        assert!(!stored.contains("strata") && !stored.contains("part"), "has defaults: {stored}");
    }

    #[test]
    fn invalid_shards_are_refused_with_a_reason() {
        let whole = test_plan(3, &["a", "b"], 4, RunOrder::Blocks);
        let refusal = |plan: &SessionPlan, jobs: &[u32]| {
            let shard = PlanShard { jobs: jobs.to_vec(), stratum: 0 };
            plan.extract_shard(&shard).unwrap_err().to_string()
        };
        assert_eq!(refusal(&whole, &[7]), "the plan has no case 7");
        assert_eq!(refusal(&whole, &[]), "a shard needs at least one case");
        assert!(refusal(&whole, &[1, 0]).contains("not in order"));
        let search = SessionPlan { is_search: true, ..whole.clone() };
        assert!(refusal(&search, &[0]).contains("a search"));
        let shared = SessionPlan { shared: true, ..whole };
        assert!(refusal(&shared, &[0]).contains("share a process"));
    }
}
