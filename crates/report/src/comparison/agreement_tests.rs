//! Each row is consistent: dividing its printed figures gives its printed change, as far as three
//! digits allow.

use crate::comparison::table::{VerdictLine, prepare_lines};
use crate::figure::{format_change, format_interval};
use crate::table::TableFootnotes;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use speedwell_analysis::{AnalysisSettings, CandidateComparison, analyze_session};
use speedwell_fixtures::FakeSession;
use speedwell_model::Session;

/// Cases per session. Four machines, each with two numbers of blocks, give 1,000 rows.
const CASES: usize = 125;

/// How the machine changes from run to run, on a log scale.
#[derive(Debug, Clone, Copy)]
enum SimulatedMachine {
    Steady,
    Drifting,
    Jumping,
    Wild,
}

const MACHINES: [SimulatedMachine; 4] = [
    SimulatedMachine::Steady,
    SimulatedMachine::Drifting,
    SimulatedMachine::Jumping,
    SimulatedMachine::Wild,
];

impl SimulatedMachine {
    /// The level at run `at` of `all`, and the standard deviation of the noise around it.
    fn level_at(self, at: usize, all: usize, random: &mut impl Rng) -> (f64, f64) {
        let share = at as f64 / all as f64;
        match self {
            SimulatedMachine::Steady => (0.0, 0.003),
            SimulatedMachine::Drifting => (0.8 * share, 0.02),
            SimulatedMachine::Jumping => (if share < 0.5 { 0.0 } else { 0.7 }, 0.01),
            SimulatedMachine::Wild if random.random_bool(0.2) => (1.5, 0.5),
            SimulatedMachine::Wild => (0.0, 0.4),
        }
    }
}

/// Cases whose true changes lie between 0.02% and a factor of sixteen, either way.
fn simulate_session(machine: SimulatedMachine, blocks: u32, seed: u64) -> Session {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut story = FakeSession::with_fixed_blocks(&["old", "new"], blocks).with_seed(seed);
    for case in 0..CASES {
        let change = [2e-4, 0.005, 0.03, 0.2, 2.8][case % 5] * [1.0, -1.0][case / 5 % 2];
        let size = 10f64.powf(random.random_range(-1.0..7.0));
        let all = 4 * blocks as usize;
        let mut at = 0;
        story = story.add_case(&format!("g/case n={case}"), |variant, _| {
            let (level, deviation) = machine.level_at(at, all, &mut random);
            at += 1;
            // The sum of twelve uniform values has the variance of a standard normal one.
            let noise: f64 = (0..12).map(|_| random.random_range(-0.5..0.5)).sum();
            let noise = deviation * noise;
            let own = if variant == "new" { change } else { 0.0 };
            size * (level + noise + own).exp()
        });
    }
    story.build()
}

/// Parses a printed figure; `∞` is infinite.
fn parse_figure(text: &str) -> f64 {
    let text = text.trim().replace([',', '+'], "").replace('∞', "inf");
    text.parse().unwrap_or_else(|_| panic!("'{text}' cannot be parsed"))
}

/// One unit of the last printed place.
fn last_place_unit(text: &str) -> f64 {
    let decimals = text.split_once('.').map_or(0, |(_, rest)| rest.trim().len());
    10f64.powi(-(decimals as i32))
}

/// The inconsistency in a printed line, if any.
fn find_contradiction(line: &VerdictLine<'_>) -> Option<String> {
    let estimate = line.row.change?;
    let [old, new] = line.side_figures();
    let (change, interval) = (format_change(&estimate), format_interval(&estimate));
    let said = format!("{old} -> {new}: {change} {interval}");
    let percent = change.trim_end_matches([' ', '%']);
    let ends: Vec<f64> = interval.trim_matches(['[', ']']).split(", ").map(parse_figure).collect();
    let printed = parse_figure(percent);
    let computed = (parse_figure(&new) / parse_figure(&old) - 1.0) * 100.0;
    // Both sides are rounded to three digits.
    let tolerance = (1.0 + (computed / 100.0).abs()) * 1.01 + last_place_unit(percent);
    let signless_zero = [percent, interval.as_str()].iter().all(|text| {
        let zeros = text.split(['[', ']', ' ', ',']).filter(|word| {
            word.starts_with(['+', '-']) && !word.contains(|c: char| "123456789∞".contains(c))
        });
        zeros.count() == 0
    });
    let excludes_zero = ends[0] > 0.0 || ends[1] < 0.0;
    match () {
        () if computed * printed < 0.0 => Some(format!("opposite signs in {said}")),
        () if (computed - printed).abs() > tolerance => Some(format!("{computed:.3}% in {said}")),
        () if printed < ends[0] || printed > ends[1] => Some(format!("outside: {said}")),
        () if (estimate.low > 0.0 || estimate.high < 0.0) != excludes_zero => {
            Some(format!("exact and printed interval disagree about zero in {said}"))
        }
        () if !signless_zero => Some(format!("a zero with a sign in {said}")),
        () => None,
    }
}

#[test]
fn no_printed_row_contradicts_itself() {
    let mut rows = 0;
    let mut opposite_medians = 0;
    for (number, machine) in MACHINES.into_iter().enumerate() {
        for blocks in [2, 4] {
            let session = simulate_session(machine, blocks, number as u64 * 10 + u64::from(blocks));
            let found = analyze_session(&session, &AnalysisSettings::default());
            let comparison: &CandidateComparison = &found.comparisons[0];
            let places = comparison.rows.iter().map(|row| (comparison, row));
            for line in prepare_lines(places.collect(), None, &mut TableFootnotes::default()) {
                rows += 1;
                assert_eq!(find_contradiction(&line), None, "{machine:?}, {blocks} blocks");
                let [old, new] = [line.row.baseline.median, line.row.candidate.median];
                let change = line.row.change.map_or(0.0, |change| change.value);
                opposite_medians += usize::from((new - old) * change < 0.0);
            }
        }
    }
    assert_eq!(rows, 1000);
    // Medians over all runs would contradict the change in many of these rows.
    assert!(opposite_medians > 50, "{opposite_medians}");
}
