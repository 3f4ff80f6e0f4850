//! Reports on cases that several machines measured, and their error rates.

use super::only_row;
use crate::machines::conclude_across;
use crate::policy::JudgingPolicy;
use crate::{AcrossMachines, AnalysisSettings, CaseComparison, MachineEffect};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use speedwell_fixtures::FakeSession;
use speedwell_model::{IntervalEstimate, Session, Verdict};
use speedwell_stats::BlockObservation;
use speedwell_stats::distribution::normal;
use speedwell_stats::test::stratified_rank;

const VARIANTS: [&str; 2] = ["old", "new"];
const FOUR: [(&str, &str); 4] = [("m1", "zen4"), ("m2", "zen4"), ("m3", "zen4"), ("m4", "zen4")];

/// Four machines, each a hundred times as fast as the one before, with four blocks each; `factors`
/// apply to the new variant.
fn session(factors: [f64; 4], noise: f64, machines: &[(&str, &str)]) -> Session {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
    let value = move |variant: &str, number: u32| {
        // Eight runs of a variant on each machine.
        let machine = (number / 8) as usize;
        let factor = if variant == "new" { factors[machine] } else { 1.0 };
        let noise = noise * normal::quantile(random.random_range(1e-9..1.0));
        100.0 * 100_f64.powi(machine as i32) * factor * noise.exp()
    };
    FakeSession::with_fixed_blocks(&VARIANTS, 16)
        .add_case("b", value)
        .distribute_over_machines(machines)
        .build()
}

fn judge_machines(session: &Session) -> (CaseComparison, AcrossMachines) {
    let row = only_row(session, &AnalysisSettings::default());
    let machines = row.machines.clone().unwrap();
    (row, machines)
}

#[test]
fn a_change_equal_on_all_machines_is_decided_and_generalized() {
    let (row, known) = judge_machines(&session([1.10; 4], 0.01, &FOUR));
    assert_eq!(
        (row.verdict, known.on_these, known.depends),
        (Verdict::Better, Verdict::Better, false)
    );
    assert!(known.p_equal.is_some_and(|p| p > 0.05), "{known:?}");
    let names: Vec<&str> = known.machines.iter().map(|machine| machine.name.as_str()).collect();
    assert_eq!(names, ["m1", "m2", "m3", "m4"]);
    for machine in &known.machines {
        assert_eq!(machine.blocks, 4);
        assert!(
            machine.change.is_some_and(|change| change.low > 0.05 && change.high < 0.15),
            "{machine:?}"
        );
    }
    let [population] = &known.populations[..] else {
        panic!("{known:?}");
    };
    assert_eq!((population.class.as_str(), population.machines), ("zen4", 4));
    assert!(population.change.low < 0.10 && population.change.high > 0.10, "{population:?}");
    assert!((1..12).contains(&population.to_halve), "{population:?}");
}

#[test]
fn a_change_reversed_on_one_machine_is_unclear_but_reaches_the_gate() {
    let (row, known) = judge_machines(&session([0.90, 0.90, 0.90, 1.05], 0.01, &FOUR));
    assert!(known.depends && known.p_equal.is_some_and(|p| p < 0.001), "{known:?}");
    assert_eq!((row.verdict, known.on_these), (Verdict::Unclear, Verdict::Worse));
    assert_eq!(row.more_runs, None, "more runs would not make the machines agree");
    let [low, high] = known.extreme_machines().unwrap();
    assert!(low.change.unwrap().value < -0.08 && high.name == "m4", "{low:?} {high:?}");
    assert_eq!(row.gate_verdicts().collect::<Vec<_>>(), [Verdict::Unclear, Verdict::Worse]);
}

#[test]
fn a_change_that_differs_only_in_size_keeps_its_verdict() {
    let (row, known) = judge_machines(&session([1.05, 1.30, 1.05, 1.30], 0.01, &FOUR));
    assert!(known.p_equal.is_some_and(|p| p < 0.001), "{known:?}");
    assert_eq!((row.verdict, known.depends), (Verdict::Better, false));
    // Changes of a tenth of a percent differ significantly, but none is relevant.
    let (row, known) = judge_machines(&session([1.001, 1.0, 1.001, 0.999], 0.000_02, &FOUR));
    assert!(known.p_equal.is_some_and(|p| p < 0.001), "{known:?}");
    assert!(!known.depends && row.verdict != Verdict::Unclear, "{row:?}");
}

#[test]
fn a_population_needs_three_machines_of_one_class() {
    let mixed = [("m1", "zen4"), ("m2", "zen4"), ("m3", "zen3"), ("m4", "zen3")];
    let (_, known) = judge_machines(&session([1.10; 4], 0.01, &mixed));
    assert_eq!(known.populations, []);
    let three = [("m1", "zen4"), ("m2", "zen3"), ("m3", "zen4"), ("m4", "zen4")];
    let (_, known) = judge_machines(&session([1.10; 4], 0.01, &three));
    assert_eq!(known.populations.len(), 1);
    assert_eq!(known.populations[0].machines, 3);
}

#[test]
fn exact_changes_that_differ_between_machines_are_unclear() {
    let (_, known) = judge_machines(&session([1.10; 4], 0.0, &FOUR));
    assert_eq!((known.p_equal, known.depends), (Some(1.0), false));
    let (row, known) = judge_machines(&session([1.10, 0.90, 1.10, 0.90], 0.0, &FOUR));
    assert_eq!((known.p_equal, known.depends, row.verdict), (Some(0.0), true, Verdict::Unclear));
}

#[test]
fn a_case_measured_on_one_machine_names_that_machine() {
    let factor = |variant: &str| if variant == "new" { 1.10 } else { 1.0 };
    let story = FakeSession::sequential(&VARIANTS, 4).add_noisy_case("b", 0.01, factor);
    let (row, known) = judge_machines(&story.distribute_over_machines(&[("m3", "zen4")]).build());
    let [only] = &known.machines[..] else {
        panic!("{known:?}");
    };
    assert_eq!((only.name.as_str(), only.change), ("m3", row.change));
    assert_eq!((known.p_equal, known.depends, known.populations.len()), (None, false, 0));
    assert_eq!(row.verdict, Verdict::Better);
    // A session on one machine reports nothing by machine.
    let local = FakeSession::sequential(&VARIANTS, 4).add_noisy_case("b", 0.01, factor).build();
    assert_eq!(super::only_row(&local, &AnalysisSettings::default()).machines, None);
}

/// Rates over trials, in percent.
#[derive(Debug, Default)]
struct ErrorRates {
    /// Statement 1 finds a change.
    found: f64,
    /// Statement 2 finds a difference between machines.
    differs: f64,
    /// Statement 3 covers the mean of all machines.
    covers: f64,
}

/// Simulates a machine with `blocks` blocks of two runs per side, numbered from `first`. Machines
/// differ by up to 70% in speed; noise differs between machines and follows Student's distribution
/// with 4 degrees of freedom; both sides drift from block to block.
fn simulated_machine(
    first: u32,
    blocks: u32,
    change: f64,
    gauss: &mut dyn FnMut() -> f64,
) -> (MachineEffect, Vec<BlockObservation>) {
    let (speed, noise) = (0.35 * gauss(), 0.03 * (0.5 * gauss()).exp());
    let mut student = || {
        let squares: f64 = (0..4).map(|_| gauss().powi(2)).sum();
        gauss() / (squares / 4.0).sqrt()
    };
    let (mut effects, mut observations) = (Vec::new(), Vec::new());
    for block in first..first + blocks {
        let drift = 0.01 * student();
        let mut means = [0.0, 0.0];
        for run in 0..4 {
            let side = run % 2;
            let value = speed + drift + change * f64::from(side) + noise * student();
            means[side as usize] += value / 2.0;
            observations.push(match side {
                0 => BlockObservation::baseline(value.exp(), block),
                _ => BlockObservation::candidate(value.exp(), block),
            });
        }
        effects.push(means[1] - means[0]);
    }
    let machine = MachineEffect {
        name: first.to_string(),
        class: "zen4".into(),
        blocks: effects.len(),
        change: None,
        effects,
    };
    (machine, observations)
}

/// Simulates sessions of machines of one class, whose changes have the standard deviation `spread`
/// around `change`.
fn simulate_sessions(
    machines: u32,
    blocks: u32,
    change: f64,
    spread: f64,
    trials: u32,
) -> ErrorRates {
    let seed = 7 + u64::from(machines * 100 + blocks);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut gauss = move || normal::quantile(random.random_range(1e-12..1.0_f64));
    let design = FakeSession::with_fixed_blocks(&VARIANTS, 4).build().design;
    let policy = JudgingPolicy::new(&design, &AnalysisSettings::default());
    let mut rates = ErrorRates::default();
    let share = 100.0 / f64::from(trials);
    for _ in 0..trials {
        let (mut effects, mut observations) = (Vec::new(), Vec::new());
        for machine in 0..machines {
            let machine_change = change + spread * gauss();
            let (effect, runs) =
                simulated_machine(machine * blocks, blocks, machine_change, &mut gauss);
            effects.push(effect);
            observations.extend(runs);
        }
        let test = stratified_rank(&observations).unwrap();
        let conclusion = conclude_across(effects, Verdict::Unclear, &policy);
        let covers = |population: &crate::MachinePopulation| {
            let IntervalEstimate { low, high, .. } = population.change;
            low.ln_1p() <= change && change <= high.ln_1p()
        };
        rates.found += share * f64::from(u8::from(test.p <= 0.05));
        rates.differs += share * f64::from(u8::from(conclusion.p_equal.is_some_and(|p| p < 0.05)));
        rates.covers +=
            share * f64::from(u8::from(conclusion.populations.first().is_some_and(covers)));
    }
    rates
}

/// Error rates of the three statements, over thousands of sessions:
/// `cargo test --release -p speedwell-analysis error_rates_of_several -- --ignored --nocapture`
#[test]
#[ignore = "takes minutes"]
fn error_rates_of_several_machines_are_as_promised() {
    for (machines, blocks) in [(3, 4), (3, 8), (4, 4), (8, 4), (8, 8)] {
        let equal = simulate_sessions(machines, blocks, 0.0, 0.0, 4000);
        let unequal = simulate_sessions(machines, blocks, 0.0, 0.02, 4000);
        println!(
            "{machines} machines, {blocks} blocks: equal {equal:.1?}, unequal by 2% {unequal:.1?}"
        );
        // With few blocks, an exact test cannot use all of its 5%.
        assert!((2.5..=6.0).contains(&equal.found), "{equal:?}");
        assert!(equal.differs <= 8.0, "{equal:?}");
        assert!(unequal.differs > equal.differs, "{unequal:?}");
        for rates in [&equal, &unequal] {
            assert!((93.0..=97.0).contains(&rates.covers), "{rates:?}");
        }
    }
}

/// The same check for one size of session, which takes about a second.
#[test]
fn a_few_hundred_sessions_of_equal_machines_raise_few_alarms() {
    let equal = simulate_sessions(4, 4, 0.0, 0.0, 300);
    assert!(equal.found < 10.0 && equal.differs < 12.0 && equal.covers > 90.0, "{equal:?}");
    let changed = simulate_sessions(4, 4, 0.05, 0.0, 100);
    assert!(changed.found > 60.0, "{changed:?}");
}
