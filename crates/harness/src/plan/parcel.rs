//! Shards of a plan, one per machine: slots keep their numbers, whichever machine executes them.

use super::Plan;
use anyhow::ensure;
use serde::{Deserialize, Serialize};

/// Shard for one machine: some cases with all their blocks and variants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parcel {
    /// Indexes of the cases in [`Plan::jobs`], ascending.
    pub jobs: Vec<u32>,
    /// Stratum of the plan. Each stratum has its own slot and block numbers and random order.
    #[serde(default)]
    pub stratum: u32,
}

/// Relation of a shard to the whole plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The shard.
    pub parcel: Parcel,
    /// Number of cases of the whole plan.
    pub cases: u32,
    /// Number of strata of the whole plan.
    pub strata: u32,
}

impl Part {
    /// Maps every case of the whole plan to its index in the shard, if it has slots of that
    /// stratum.
    pub(super) fn places_in(&self, stratum: u32) -> Vec<Option<usize>> {
        let mut places = vec![None; self.cases as usize];
        if stratum == self.parcel.stratum {
            for (place, &job) in self.parcel.jobs.iter().enumerate() {
                if let Some(known) = places.get_mut(job as usize) {
                    *known = Some(place);
                }
            }
        }
        places
    }
}

impl Plan {
    /// Extracts the part `parcel` of the plan. Its slots keep the numbers, blocks, order and random
    /// choices of the whole plan.
    ///
    /// A stratum beyond those of the plan adds a replica: cases that move to another machine are
    /// measured there from the start, under other numbers.
    ///
    /// # Errors
    /// The parcel is empty or has a case that the plan lacks, or the plan cannot be divided.
    pub fn part(&self, parcel: &Parcel) -> anyhow::Result<Plan> {
        ensure!(self.part.is_none(), "a part of a plan cannot be divided");
        ensure!(!self.is_search, "a search cannot be divided");
        ensure!(
            !self.shared || parcel.jobs.len() == self.jobs.len(),
            "snippets that share a process cannot be divided"
        );
        ensure!(!parcel.jobs.is_empty(), "a parcel needs a case");
        ensure!(
            parcel.jobs.is_sorted_by(|one, next| one < next),
            "the cases of a parcel are not in order"
        );
        let jobs = parcel.jobs.iter().map(|&job| {
            let known = self.jobs.get(job as usize).cloned();
            known.ok_or_else(|| anyhow::anyhow!("the plan has no case {job}"))
        });
        Ok(Plan {
            jobs: jobs.collect::<anyhow::Result<_>>()?,
            part: Some(Part {
                parcel: parcel.clone(),
                cases: self.jobs.len() as u32,
                strata: self.strata,
            }),
            strata: 1,
            ..self.clone()
        })
    }

    /// Index in the whole plan of a case of this plan.
    pub fn place_in_whole(&self, job: usize) -> u32 {
        let known = self.part.as_ref();
        known.map_or(job as u32, |part| part.parcel.jobs[job])
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use super::super::tests::plan;
    use super::super::{Plan, Shuffle, Slot};
    use super::Parcel;
    use speedwell_model::Order;

    /// Divides cases at random among this many shards; empty ones are dropped.
    fn divided(cases: u32, parcels: u32, random: &mut Shuffle) -> Vec<Vec<u32>> {
        let mut all: Vec<Vec<u32>> = vec![Vec::new(); parcels as usize];
        for case in 0..cases {
            let drawn = random.block(parcels as usize, 1)[0];
            all[drawn].push(case);
        }
        all.retain(|jobs| !jobs.is_empty());
        all
    }

    /// The slots of a shard with the case indexes of the whole plan.
    fn in_whole(part: &Plan) -> Vec<Slot> {
        let slots = part.slots().into_iter();
        slots
            .map(|slot| Slot {
                job: part.place_in_whole(slot.job) as usize,
                ..slot
            })
            .collect()
    }

    #[test]
    fn each_slot_is_in_exactly_one_parcel_as_it_is_in_the_whole() {
        let mut random = Shuffle::new(3);
        for order in [Order::Blocks, Order::Alternate, Order::Paired] {
            for cases in [1, 2, 7] {
                for strata in [1, 3] {
                    let mut whole = plan(cases, &["a", "b", "c"], 5, order);
                    whole.strata = strata;
                    whole.design.layout.builds = (cases as u32 % 2) * 4;
                    let mut found: Vec<Slot> = Vec::new();
                    for stratum in 0..strata {
                        for jobs in divided(cases as u32, 3, &mut random) {
                            let part = whole.part(&Parcel { jobs, stratum }).unwrap();
                            let slots = in_whole(&part);
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
        let mut whole = plan(4, &["a", "b"], 6, Order::Blocks);
        whole.strata = 2;
        let slots = whole.slots();
        let (first, second) = slots.split_at(slots.len() / 2);
        assert_eq!(first, plan(4, &["a", "b"], 6, Order::Blocks).slots());
        assert!(first.iter().all(|slot| slot.block < 3));
        assert!(second.iter().all(|slot| (3..6).contains(&slot.block)));
        let order = |slots: &[Slot]| slots.iter().map(|slot| slot.variant).collect::<Vec<_>>();
        assert_ne!(order(first), order(second));
        assert!(
            slots
                .iter()
                .zip(0..)
                .all(|(slot, index)| slot.index == index)
        );
        // Ordinals of a case and variant continue across strata.
        let ordinals = second.iter().map(|slot| slot.ordinal);
        assert_eq!(ordinals.min(), Some(6));
    }

    #[test]
    fn a_case_that_moves_gets_numbers_that_nobody_has() {
        let whole = plan(3, &["a", "b"], 4, Order::Blocks);
        let moved = Parcel {
            jobs: vec![1],
            stratum: 2,
        };
        let part = whole.part(&moved).unwrap();
        let last = whole.slots().last().unwrap().index;
        assert_eq!(part.slots().len(), 8);
        assert!(
            part.slots()
                .iter()
                .all(|slot| slot.index > 2 * last && slot.block >= 4)
        );
    }

    #[test]
    fn a_part_survives_being_written_down() {
        let whole = plan(3, &["a", "b"], 4, Order::Blocks);
        let part = whole
            .part(&Parcel {
                jobs: vec![0, 2],
                stratum: 0,
            })
            .unwrap();
        let text = serde_json::to_string(&part).unwrap();
        let back: Plan = serde_json::from_str(&text).unwrap();
        assert_eq!(back.slots(), part.slots());
        let stored = serde_json::to_string(&whole).unwrap();
        assert!(
            !stored.contains("strata") && !stored.contains("part"),
            "as before: {stored}"
        );
    }

    #[test]
    fn what_cannot_be_divided_says_so() {
        let whole = plan(3, &["a", "b"], 4, Order::Blocks);
        let refusal = |plan: &Plan, jobs: &[u32]| {
            let parcel = Parcel {
                jobs: jobs.to_vec(),
                stratum: 0,
            };
            plan.part(&parcel).unwrap_err().to_string()
        };
        assert_eq!(refusal(&whole, &[7]), "the plan has no case 7");
        assert_eq!(refusal(&whole, &[]), "a parcel needs a case");
        assert!(refusal(&whole, &[1, 0]).contains("not in order"));
        let search = Plan {
            is_search: true,
            ..whole.clone()
        };
        assert!(refusal(&search, &[0]).contains("a search"));
        let shared = Plan {
            shared: true,
            ..whole
        };
        assert!(refusal(&shared, &[0]).contains("share a process"));
    }
}
