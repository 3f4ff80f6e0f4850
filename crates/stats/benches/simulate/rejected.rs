//! Disturbed runs discarded by a rule: false alarms, power, and a side that is disturbed more
//! often.
//!
//! A quarter of the runs is disturbed and takes longer, by 5% on average. The kernel counter of
//! such a run grows with an independent random number, so that it reveals the disturbance but not
//! its size. Start at [`run_rejected`].

use super::check::{ToleranceCheck, percent, print_head, print_row};
use super::experiment::test_blocks;
use super::noise::{MODELS, NoiseModel, SimulationRandom};
use super::repeat::repeat_parallel;
use speedwell_stats::BlockObservation;
use speedwell_stats::test::fisher_exact;

const RUNS: usize = 30;

/// Value of the counter beyond which a run is rejected.
const LIMIT: f64 = 0.3;

/// Maximum repetitions of a rejected run.
const REPETITIONS: usize = 2;

/// p-value below which the sides are disturbed unequally, so that the rule is not applied.
const UNEQUAL: f64 = 0.05;

/// One run: its side, its slot in the block, its log value, and whether the rule rejects it.
struct DisturbedRun {
    is_candidate: bool,
    slot: usize,
    value: f64,
    is_rejected: bool,
}

/// Simulates blocks of two runs of either side; rejected runs are repeated at the end of their
/// block. `disturbed` holds the fraction of disturbed runs of baseline and candidate.
fn simulate_runs(
    model: &NoiseModel,
    change: f64,
    disturbed: [f64; 2],
    random: &mut SimulationRandom,
) -> Vec<Vec<DisturbedRun>> {
    let slots = 2 * RUNS;
    // More than the repetitions ever need; and a drift must extend over the whole session.
    let noise = (model.series)(random, slots + slots / 2);
    let mut noise = noise.into_iter();
    let mut run = |slot: usize, is_candidate: bool, random: &mut SimulationRandom| {
        let is_disturbed = random.happens_with(disturbed[usize::from(is_candidate)]);
        let amount = |random: &mut SimulationRandom, mean: f64| {
            if is_disturbed { random.exponential(mean) } else { 0.0 }
        };
        let slower = amount(random, 0.05);
        let seen = amount(random, 1.0) + 0.1 * random.normal().abs();
        DisturbedRun {
            is_candidate,
            slot,
            value: noise.next().unwrap_or(0.0)
                + slower
                + if is_candidate { change.ln_1p() } else { 0.0 },
            is_rejected: seen >= LIMIT,
        }
    };
    let block = |block: usize| {
        let mut sides = [false, false, true, true];
        (1..4).rev().for_each(|place| sides.swap(place, random.below(place + 1)));
        let mut done: Vec<DisturbedRun> = Vec::new();
        for (place, side) in sides.into_iter().enumerate() {
            done.push(run(4 * block + place, side, random));
        }
        for _ in 0..REPETITIONS {
            for (place, side) in sides.into_iter().enumerate() {
                let slot = 4 * block + place;
                if done.iter().rfind(|run| run.slot == slot).is_some_and(|run| run.is_rejected) {
                    done.push(run(slot, side, random));
                }
            }
        }
        done
    };
    (0..slots / 4).map(block).collect()
}

/// Selects what is compared: without a rule, the first run of every slot; with one, the complete
/// blocks of undisturbed runs, unless one side was disturbed more often.
fn select_observations(blocks: &[Vec<DisturbedRun>], has_rule: bool) -> Vec<BlockObservation> {
    let firsts = || blocks.iter().flat_map(|block| &block[..4]);
    let rejected = |side: bool| {
        let own = firsts().filter(|run| run.is_candidate == side && run.is_rejected);
        own.count() as u32
    };
    let is_applied =
        has_rule && fisher_exact([rejected(false), rejected(true)], [RUNS as u32; 2]) >= UNEQUAL;
    let mut all = Vec::new();
    for (number, block) in (0u32..).zip(blocks) {
        let counted: Vec<&DisturbedRun> = if is_applied {
            block.iter().filter(|run| !run.is_rejected).collect()
        } else {
            block[..4].iter().collect()
        };
        if counted.len() < 4 {
            continue;
        }
        all.extend(counted.into_iter().map(|run| {
            let value = run.value.exp();
            if run.is_candidate {
                BlockObservation::candidate(value, number)
            } else {
                BlockObservation::baseline(value, number)
            }
        }));
    }
    all
}

/// Percentage of comparisons that call the sides different, without and with a rule.
pub fn called_different(
    model: &NoiseModel,
    change: f64,
    disturbed: [f64; 2],
    repetitions: u64,
    cell: u64,
) -> [f64; 2] {
    let found = repeat_parallel(repetitions, |repetition| {
        let mut random = SimulationRandom::new(cell, repetition);
        let blocks = simulate_runs(model, change, disturbed, &mut random);
        [false, true].map(|has_rule| test_blocks(&select_observations(&blocks, has_rule)).p <= 0.05)
    });
    [0, 1].map(|which| percent(&found, |found: &[bool; 2]| found[which]))
}

/// Simulates all kinds of noise and prints their table.
pub fn run_rejected(check: &mut ToleranceCheck, repetitions: u64) {
    print_head(
        &format!(
            "Disturbed runs, n = {RUNS}, {repetitions} repetitions: called different in %, without / with a rule"
        ),
        &[
            "noise",
            "no change",
            "change of 2%",
            "no change, candidate disturbed more often (35 against 15%)",
        ],
    );
    for (cell, model) in (4000..).step_by(3).zip(&MODELS) {
        let name = model.name;
        let [none, rule] = called_different(model, 0.0, [0.25; 2], repetitions, cell);
        let false_alarms = [("none", none), ("rule", rule)].map(|(which, rate)| {
            check.check_near(&format!("disturbed, false alarms, {which}, {name}"), rate, 5.0, 1.0)
        });
        let [power, with_rule] = called_different(model, 0.02, [0.25; 2], repetitions, cell + 1);
        let power = [
            format!("{power:.0}"),
            check.at_least(&format!("disturbed, power, {name}"), with_rule, power - 1.0),
        ];
        let unequal = called_different(model, 0.0, [0.15, 0.35], repetitions, cell + 2);
        let unequal = unequal.map(|rate| format!("{rate:.0}"));
        print_row(&[name.into(), false_alarms.join(" / "), power.join(" / "), unequal.join(" / ")]);
    }
}
