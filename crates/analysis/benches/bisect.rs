//! Measures how often a whole bisection is right, wrong or inconclusive: `cargo bench -p
//! speedwell-analysis --bench bisect`.
//!
//! Prints the table of `crates/analysis/benches/bisect.md` and exits with 1 if bisections are wrong
//! too often or right too rarely. `--bench trend` of speedwell-stats measures the search alone,
//! without ends, confirmation and recursion. Without `--bench` (as under `cargo test --benches`) it
//! runs a twentieth of the repetitions, only to show that everything works. Seeds are fixed.

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use speedwell_analysis::bisect::{
    BisectAnswer, BisectObservations, BisectOutcome, BisectStep, ChangeConfirmation,
    EndsComparison, next_step,
};
use speedwell_analysis::confirm::ConfirmationResult;
use speedwell_model::MetricDirection;
use std::collections::{BTreeMap, BTreeSet};

/// Standard deviation of the noise of one run, as a share.
const NOISE: f64 = 0.01;
/// Smallest change that matters; below every change simulated here.
const MIN_CHANGE: f64 = 0.005;
/// Revisions between the ends, the bad one included.
const REVISIONS: usize = 64;

type NoiseSampler = fn(&mut Xoshiro256PlusPlus) -> f64;

const NOISES: [(&str, NoiseSampler); 3] = [
    ("normal", draw_normal),
    ("t, 2 degrees", |random| {
        0.6 * draw_normal(random) / (-random.random::<f64>().max(1e-300).ln()).sqrt()
    }),
    ("two-humped", |random| {
        0.5 * draw_normal(random) + if random.random::<f64>() < 0.35 { 2.5 } else { 0.0 }
    }),
];

/// Box-Muller transform.
fn draw_normal(random: &mut Xoshiro256PlusPlus) -> f64 {
    let (one, two): (f64, f64) = (random.random(), random.random());
    (-2.0 * one.max(1e-300).ln()).sqrt() * (std::f64::consts::TAU * two).cos()
}

/// Result of one bisection.
struct BisectTrial {
    answer: BisectAnswer,
    runs: usize,
}

/// Bisects a line with `changes`, each a first revision and a size in units of the noise. One
/// revision in `every` cannot be built; 0 means none.
fn simulate_bisection(
    changes: &[(usize, f64)],
    draw: NoiseSampler,
    every: usize,
    seed: u64,
) -> BisectTrial {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut state = BisectObservations {
        revisions: REVISIONS + 1,
        delta: MIN_CHANGE,
        better: MetricDirection::Lower,
        slots: BTreeMap::new(),
        built: BTreeSet::new(),
        unbuildable: BTreeSet::new(),
        work_digests: BTreeMap::new(),
    };
    loop {
        match next_step(&state) {
            BisectStep::Build(place)
                if every > 0 && place % every == every - 1 && place < REVISIONS =>
            {
                state.unbuildable.insert(place);
            }
            BisectStep::Build(place) => {
                state.built.insert(place);
            }
            BisectStep::Measure(block) => {
                for slot in 0..block.run_count() {
                    let place = block.revisions[slot as usize % block.revisions.len()];
                    let own = changes.iter().filter(|(first, _)| place >= *first);
                    let shift: f64 = own.map(|(_, size)| size).sum();
                    let value = (NOISE * (shift + draw(&mut random))).exp();
                    let outcome = BisectOutcome::Value(value);
                    state.slots.insert(block.first_slot + slot, (place, outcome));
                }
            }
            BisectStep::Answer(answer) => {
                return BisectTrial { answer, runs: state.slots.len() };
            }
        }
    }
}

/// Revision pairs (before, after) around confirmed changes.
fn confirmed_pairs(answer: &BisectAnswer) -> Vec<(usize, usize)> {
    let is_confirmed = |confirmed: &ChangeConfirmation| {
        matches!(confirmed, ChangeConfirmation::Measured(ConfirmationResult::Confirmed(_)))
    };
    let parts = answer.parts.iter().filter(|part| is_confirmed(&part.confirmed));
    parts.map(|part| (part.before, part.after)).collect()
}

/// Percentages of bisections that found everything, found something wrong, confirmed too few
/// changes, and found equal ends.
fn outcome_percentages(all: &[BisectTrial], changes: &[(usize, f64)]) -> [f64; 4] {
    let holds = |(before, after): (usize, usize)| {
        changes.iter().any(|(first, _)| before < *first && *first <= after)
    };
    let percent = |is: &dyn Fn(&BisectTrial) -> bool| {
        100.0 * all.iter().filter(|one| is(one)).count() as f64 / all.len() as f64
    };
    let is_wrong = |one: &BisectTrial| !confirmed_pairs(&one.answer).into_iter().all(holds);
    let is_right =
        |one: &BisectTrial| !is_wrong(one) && confirmed_pairs(&one.answer).len() == changes.len();
    let is_alike = |one: &BisectTrial| matches!(one.answer.ends, EndsComparison::Alike(_));
    [
        percent(&is_right),
        percent(&is_wrong),
        percent(&|one| !is_right(one) && !is_wrong(one) && !is_alike(one)),
        percent(&is_alike),
    ]
}

fn main() {
    let is_measuring = std::env::args().any(|argument| argument == "--bench");
    let repetitions: u64 = if is_measuring { 400 } else { 20 };
    // Name, changes, N if one revision in N cannot be built (0: none), and the minimum percentage
    // that must be right.
    type ScenarioRow = (&'static str, &'static [(usize, f64)], usize, f64);
    let cells: [ScenarioRow; 7] = [
        ("none", &[], 0, 95.0),
        ("1 at 40", &[(40, 1.0)], 0, 0.0),
        ("2 at 40", &[(40, 2.0)], 0, 70.0),
        ("4 at 40", &[(40, 4.0)], 0, 95.0),
        ("2 at 40, every fifth not built", &[(40, 2.0)], 5, 70.0),
        ("3 at 20, 6 at 50", &[(20, 3.0), (50, 6.0)], 0, 85.0),
        ("4 at 20, 4 at 50", &[(20, 4.0), (50, 4.0)], 0, 85.0),
    ];
    println!(
        "{repetitions} bisections of {REVISIONS} revisions a cell; changes in units of the noise\n"
    );
    println!(
        "| change | noise | all found, % | something wrong | not confirmed | ends alike | runs |"
    );
    println!("|---|---|---|---|---|---|---|");
    let mut failures = Vec::new();
    for ((name, changes, every, least), seed) in
        cells.into_iter().zip((1_000_000..).step_by(100_000))
    {
        for ((noise, draw), seed) in NOISES.into_iter().zip((seed..).step_by(10_000)) {
            let all: Vec<BisectTrial> = (0..repetitions)
                .map(|repetition| simulate_bisection(changes, draw, every, seed + repetition))
                .collect();
            let [right, wrong, open, alike] = outcome_percentages(&all, changes);
            let runs = all.iter().map(|one| one.runs).sum::<usize>() as f64 / all.len() as f64;
            println!(
                "| {name} | {noise} | {right:.1} | {wrong:.1} | {open:.1} | {alike:.1} | {runs:.0} |"
            );
            if right < least || wrong > 2.0 {
                failures.push(format!("{name}, {noise}: {right:.1}% right, {wrong:.1}% wrong"));
            }
        }
    }
    println!("\n{} out of tolerance:", failures.len());
    failures.iter().for_each(|failure| println!("- {failure}"));
    if is_measuring && !failures.is_empty() {
        std::process::exit(1);
    }
}
