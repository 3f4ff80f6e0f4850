//! Draws conclusions about a case measured on several machines.
//!
//! Answers three questions in this order. What holds on these machines? (Another module decides
//! this, with a test of all blocks.) Is the change the same on all of them? How large is it
//! on similar machines? Runs are compared only within their machine, and machines of different
//! classes are not pooled. Start at [`add_machine_results`]; crates/stats/DERIVATIONS.md, "Several
//! machines", lists the error rates.

use crate::grid::{CaseRuns, SourceSide, distinct_items, value_range};
use crate::paired::{ComparedData, PairedRuns};
use crate::policy::JudgingPolicy;
use crate::{AcrossMachines, CandidateComparison, MachineEffect, MachinePopulation, evidence};
use speedwell_model::{IntervalEstimate, Run, Verdict};
use speedwell_stats::describe::{mean, median};
use speedwell_stats::interval::{Interval, mean_t, values_to_halve};
use speedwell_stats::test::{WelchError, welch_anova};
use std::collections::{BTreeMap, HashMap};

/// Minimum number of blocks on a machine for the test of whether machines differ. The test
/// estimates the scatter of each machine. With 4 blocks on each of 8 machines, the test has 7.8%
/// false alarms at a level of 5%; with more blocks, it keeps its level.
const MIN_BLOCKS: usize = 4;
/// Minimum number of machines from which to generalize to their class. With two machines, Student's
/// interval would be twelve times as wide as the difference between them.
const MIN_MACHINES: usize = 3;
/// Level of the test of whether machines differ.
const EQUALITY_LEVEL: f64 = 0.05;
/// Block effects that differ by less than this are treated as equal: such a difference comes from
/// rounding of logarithms.
const ROUNDING: f64 = 1e-9;

/// Computes, for each case in `ids`, the change on each machine that measured the session.
pub(super) fn effects_of_cases<'c>(
    sides: [SourceSide<'_, '_>; 2],
    metric: &str,
    policy: &JudgingPolicy,
    ids: impl Iterator<Item = &'c str>,
) -> Vec<Vec<MachineEffect>> {
    let SourceSide { session, grid, .. } = sides[0];
    let cases = grid.cases.iter().map(|case| (case.id.as_str(), case));
    let by_id: HashMap<&str, &CaseRuns<'_>> = cases.collect();
    let effects_of_case = |id: &str| -> Option<Vec<MachineEffect>> {
        let case = by_id.get(id)?;
        let mut by_machine: BTreeMap<u32, [Vec<&Run>; 2]> = BTreeMap::new();
        for (number, side) in sides.iter().enumerate() {
            for run in &case.by_variant[side.variant] {
                if let Some(machine) = run.machine {
                    by_machine.entry(machine).or_default()[number].push(run);
                }
            }
        }
        let effects = by_machine.into_iter().filter_map(|(index, runs)| {
            let machine = session.machines.get(index as usize)?;
            let [old, new] = policy.unit.paired_values([&runs[0], &runs[1]], metric);
            let data = PairedRuns::new(old, new, policy.matching).all_runs();
            let effects = block_effects(&data);
            let (limit, seed) = (policy.single_limit(), policy.seed_for(id));
            Some(MachineEffect {
                name: machine.name.clone(),
                class: machine.class.clone(),
                blocks: effects.len(),
                change: evidence::estimate_change(policy.method, &data, limit, seed),
                effects,
            })
        });
        Some(effects.collect())
    };
    ids.map(|id| effects_of_case(id).unwrap_or_default()).collect()
}

/// Adds the results by machine to each row, and withdraws verdicts that depend on the machine.
/// `effects` holds, for each comparison, what [`effects_of_cases`] returned for its rows.
pub(super) fn add_machine_results(
    effects: Vec<Vec<Vec<MachineEffect>>>,
    policy: &JudgingPolicy,
    comparisons: &mut [CandidateComparison],
) {
    for (comparison, effects) in comparisons.iter_mut().zip(effects) {
        for (row, mut machines) in comparison.rows.iter_mut().zip(effects) {
            if let [only] = &mut machines[..] {
                // If there is one machine, its change is the row's change, which may be based on
                // several interim analyses.
                only.change = row.change;
            }
            let results = conclude_across(machines, row.verdict, policy);
            if results.depends {
                row.verdict = Verdict::Unclear;
                // More runs on the same machines would not make them agree.
                (row.more_runs, row.detectable) = (None, None);
            }
            row.machines = Some(results);
        }
    }
}

/// Difference of the mean logs of candidate and baseline, per block; empty if there are no blocks,
/// or if a value is not positive and so has no logarithm.
fn block_effects(data: &ComparedData) -> Vec<f64> {
    if !data.is_positive() {
        return Vec::new();
    }
    let blocks = data.observations.chunk_by(|a, b| a.block == b.block);
    blocks
        .map(|block| {
            let side = |block_side| {
                let runs = block.iter().filter(|run| run.side == block_side);
                mean(&runs.map(|run| run.value.ln()).collect::<Vec<f64>>())
            };
            side(speedwell_stats::BlockSide::Candidate) - side(speedwell_stats::BlockSide::Baseline)
        })
        .collect()
}

/// Draws the conclusions about machines, given the change on each machine.
pub(super) fn conclude_across(
    machines: Vec<MachineEffect>,
    on_these: Verdict,
    policy: &JudgingPolicy,
) -> AcrossMachines {
    let tested: Vec<&MachineEffect> =
        machines.iter().filter(|machine| machine.blocks >= MIN_BLOCKS).collect();
    let equality_p = p_equal(&tested);
    let differs = equality_p.is_some_and(|p| p < EQUALITY_LEVEL);
    let depends = differs && !machines_agree(&machines, policy);
    let classes = distinct_items(tested.iter().map(|machine| machine.class.as_str()));
    let populations = classes.into_iter().filter_map(|class| {
        let values: Vec<f64> = tested
            .iter()
            .filter(|machine| machine.class == class)
            .map(|machine| median(&machine.effects))
            .collect();
        class_population(class, &values, policy.confidence())
    });
    AcrossMachines {
        on_these,
        p_equal: equality_p,
        depends,
        populations: populations.collect(),
        machines,
    }
}

/// Tests whether the change is the same on all machines, by Welch's analysis of variance of the
/// block effects.
fn p_equal(machines: &[&MachineEffect]) -> Option<f64> {
    let groups: Vec<&[f64]> = machines.iter().map(|machine| &machine.effects[..]).collect();
    match welch_anova(&groups) {
        Ok(test) => Some(test.p),
        Err(WelchError::TooFew) => None,
        // Counts and exact values do not scatter, so the machines' values are equal or not.
        Err(WelchError::Constant) => {
            let spread = |values: &[f64]| {
                let (low, high) = value_range(values.iter().copied());
                high - low
            };
            if groups.iter().any(|group| spread(group) > ROUNDING) {
                return None;
            }
            Some(f64::from(u8::from(spread(&groups.concat()) <= ROUNDING)))
        }
    }
}

/// Whether the machines agree: the case changes in the same direction on all of them, or on none by
/// an amount that matters.
fn machines_agree(machines: &[MachineEffect], policy: &JudgingPolicy) -> bool {
    let all_changes = |holds: &dyn Fn(&IntervalEstimate) -> bool| {
        let mut changes = machines.iter().filter_map(|machine| machine.change.as_ref());
        changes.all(holds)
    };
    all_changes(&|change| change.low > policy.threshold)
        || all_changes(&|change| change.high < -policy.threshold)
        || all_changes(&|change| change.lies_within(-policy.delta, policy.delta))
}

/// Generalizes from one value per machine to the class of these machines.
fn class_population(class: &str, values: &[f64], confidence: f64) -> Option<MachinePopulation> {
    if values.len() < MIN_MACHINES {
        return None;
    }
    let Interval { low, high } = mean_t(values, confidence)?.map(f64::exp_m1);
    Some(MachinePopulation {
        class: class.to_owned(),
        machines: values.len(),
        change: IntervalEstimate { value: mean(values).exp_m1(), low, high },
        to_halve: values_to_halve(values.len(), confidence) - values.len(),
    })
}
