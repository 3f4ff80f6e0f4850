//! Families of cases with correction for multiple comparisons: errors, power and runs of the
//! sequential design beside a fixed 30 + 30.
//!
//! Composes families of simulated cases, and follows them through the looks like a session. Start
//! at [`run_families`].

use super::check::{ToleranceCheck, print_head, print_row};
use super::experiment::{simulate_blocks, test_blocks};
use super::noise::{NoiseModel, SimulationRandom, normal_noise};
use super::repeat::repeat_parallel;
use speedwell_stats::sequential::{
    AdjustPValues, ComparisonFamily, DEFAULT_DELTA, RepeatedP, SequentialDesign, adjust_holm,
    benjamini_hochberg, survives_correction,
};

/// Sizes of families, with the number of families for each in thousandths of the repetitions.
const SIZES: [(usize, u64); 6] =
    [(1, 20_000), (10, 10_000), (33, 5_000), (100, 3_000), (1000, 300), (3000, 300)];
/// Runs per side of the fixed test.
const FIXED: usize = 30;
const ALPHA: f64 = 0.05;
const LOOKS: usize = 5;

/// One case, measured to the end, with everything a session could see of it.
#[derive(Clone, Copy)]
struct FamilyCase {
    /// Repeated p-value at every look.
    p: [f64; LOOKS],
    /// The first look at which it is shown to be the same.
    same_at: usize,
    /// p-value of the fixed test.
    fixed: f64,
}

/// Noise with a change.
struct FamilySetting {
    name: &'static str,
    noise: NoiseModel,
    change: f64,
    /// Whether intervals can become so narrow that a case is shown to be the same.
    may_be_same: bool,
}

/// How many cases of a family are changed.
#[derive(Clone, Copy, PartialEq)]
enum ChangedCases {
    None,
    One,
    Twentieth,
    All,
}

impl ChangedCases {
    fn count(self, size: usize) -> usize {
        match self {
            ChangedCases::None => 0,
            ChangedCases::One => 1,
            ChangedCases::Twentieth => size.div_ceil(20),
            ChangedCases::All => size,
        }
    }

    fn name(self) -> &'static str {
        match self {
            ChangedCases::None => "none",
            ChangedCases::One => "one",
            ChangedCases::Twentieth => "5%",
            ChangedCases::All => "all",
        }
    }
}

/// Results of some families under one correction.
#[derive(Default, Clone, Copy)]
struct FamilyTally {
    families: f64,
    changed: f64,
    found: f64,
    any_false: f64,
    false_share: f64,
    runs: f64,
    cases: f64,
}

impl FamilyTally {
    fn add_family(&mut self, changed: usize, is_found: &[bool], runs: f64) {
        let found = is_found[..changed].iter().filter(|&&found| found).count();
        let wrong = is_found[changed..].iter().filter(|&&found| found).count();
        self.families += 1.0;
        self.changed += changed as f64;
        self.found += found as f64;
        self.any_false += f64::from(u8::from(wrong > 0));
        self.false_share += wrong as f64 / (wrong + found).max(1) as f64;
        self.runs += runs;
        self.cases += is_found.len() as f64;
    }

    fn power(&self) -> f64 {
        100.0 * self.found / self.changed
    }
}

/// Quiet cases, in which every change is certain to be found, and noisy ones.
fn family_settings() -> [FamilySetting; 4] {
    [
        FamilySetting {
            name: "normal 2%",
            noise: noise_model(|random, slots| normal_noise(random, slots, 0.02)),
            change: 0.05,
            may_be_same: true,
        },
        FamilySetting {
            name: "normal 2%",
            noise: noise_model(|random, slots| normal_noise(random, slots, 0.02)),
            change: 0.20,
            may_be_same: true,
        },
        FamilySetting {
            name: "normal 5%",
            noise: noise_model(|random, slots| normal_noise(random, slots, 0.05)),
            change: 0.05,
            may_be_same: false,
        },
        FamilySetting {
            name: "normal 20%",
            noise: noise_model(|random, slots| normal_noise(random, slots, 0.20)),
            change: 0.20,
            may_be_same: false,
        },
    ]
}

/// Runs all families under all settings; `thousandths` scales the numbers of families.
pub fn run_families(check: &mut ToleranceCheck, thousandths: u64) {
    print_head(
        "Families of cases: sequential design (fixed 30 + 30 with the same correction). Power % of changed cases, runs \
         per side, families with any false alarm % under Holm, false discoveries % under Benjamini-Hochberg",
        &[
            "noise, change",
            "cases",
            "changed",
            "families",
            "power, Holm",
            "runs",
            "any false, Holm",
            "power, BH",
            "runs",
            "false share, BH",
        ],
    );
    let largest =
        |(size, families): &(usize, u64)| *size as u64 * scale_count(*families, thousandths);
    let pool = SIZES.iter().map(largest).max().unwrap_or_default();
    for (place, setting) in (2000u64..).step_by(2).zip(&family_settings()) {
        let same =
            simulate_cases(setting, 0.0, pool / if setting.may_be_same { 3 } else { 1 }, place);
        let changed = simulate_cases(setting, setting.change, (pool / 10).max(60), place + 1);
        for (size, families) in SIZES {
            for kind in
                [ChangedCases::None, ChangedCases::One, ChangedCases::Twentieth, ChangedCases::All]
            {
                let is_repeated = kind == ChangedCases::None && setting.change > 0.05
                    || kind == ChangedCases::Twentieth && size < 20
                    || kind == ChangedCases::All && size == 1;
                if !is_repeated {
                    let families = scale_count(families, thousandths);
                    let cell = FamilyCell { size, kind, families };
                    cell.simulate_cell(check, setting, &same, &changed);
                }
            }
        }
    }
}

fn scale_count(families: u64, thousandths: u64) -> u64 {
    (families * thousandths / 1000).max(2)
}

fn noise_model(series: fn(&mut SimulationRandom, usize) -> Vec<f64>) -> NoiseModel {
    NoiseModel { name: "normal", series }
}

/// Simulates cases that are measured to the end.
fn simulate_cases(setting: &FamilySetting, change: f64, count: u64, place: u64) -> Vec<FamilyCase> {
    let design = SequentialDesign::new(&[8, 14, 20, 26, 32], 0.05, 2.0);
    let repeated = RepeatedP::new(&design);
    repeat_parallel(count, |repetition| {
        let mut random = SimulationRandom::new(place, repetition);
        let observations = simulate_blocks(&setting.noise, design.max_runs(), change, &mut random);
        let mut case = FamilyCase {
            p: [1.0; LOOKS],
            same_at: LOOKS,
            fixed: test_blocks(&observations[..2 * FIXED]).p,
        };
        for look in design.limits() {
            let test = test_blocks(&observations[..2 * look.n]);
            case.p[look.index] = repeated.at(look.index, test.p);
            let (theta, level) = (DEFAULT_DELTA.ln_1p(), 0.5 * look.p_limit);
            let is_same = setting.may_be_same
                && case.same_at == LOOKS
                && test.test_shifted(theta).lower <= level
                && test.test_shifted(-theta).upper <= level;
            if is_same {
                case.same_at = look.index;
            }
        }
        case
    })
}

/// One row of the table.
struct FamilyCell {
    size: usize,
    kind: ChangedCases,
    families: u64,
}

impl FamilyCell {
    fn simulate_cell(
        &self,
        check: &mut ToleranceCheck,
        setting: &FamilySetting,
        same: &[FamilyCase],
        changed: &[FamilyCase],
    ) {
        let count = self.kind.count(self.size);
        let mut tallies = [[FamilyTally::default(); 2]; 2];
        let mut family: Vec<FamilyCase> = Vec::with_capacity(self.size);
        for number in 0..self.families as usize {
            let take = |pool: &[FamilyCase], of_family: usize, index: usize| {
                pool[(number * of_family + index) % pool.len()]
            };
            family.clear();
            family.extend((0..count).map(|index| take(changed, count, index)));
            let unchanged = self.size - count;
            family.extend((0..unchanged).map(|index| take(same, unchanged, index)));
            for (tallies, adjust) in
                tallies.iter_mut().zip([adjust_holm as AdjustPValues, benjamini_hochberg])
            {
                let (is_found, runs) = follow_sequential(&family, adjust);
                tallies[0].add_family(count, &is_found, runs);
                tallies[1].add_family(
                    count,
                    &follow_fixed(&family, adjust),
                    (FIXED * self.size) as f64,
                );
            }
        }
        self.print_cell(check, setting, &tallies);
    }

    fn print_cell(
        &self,
        check: &mut ToleranceCheck,
        setting: &FamilySetting,
        tallies: &[[FamilyTally; 2]; 2],
    ) {
        let [holm, bh] = tallies;
        let place = format!(
            "families, {} {}%, {} cases, {} changed",
            setting.name,
            100.0 * setting.change,
            self.size,
            self.kind.name()
        );
        let share =
            |sum: fn(&FamilyTally) -> f64, tally: &FamilyTally| 100.0 * sum(tally) / tally.families;
        let any_false = |tally: &FamilyTally| share(|tally| tally.any_false, tally);
        let false_share = |tally: &FamilyTally| share(|tally| tally.false_share, tally);
        let power = |check: &mut ToleranceCheck, name: &str, [design, fixed]: &[FamilyTally; 2]| {
            if self.kind == ChangedCases::None {
                "-".into()
            } else {
                let least = fixed.power() - 3.0;
                check.at_least(&format!("{place}, power {name}"), design.power(), least)
                    + &format!(" ({:.1})", fixed.power())
            }
        };
        let runs = |tally: &FamilyTally| format!("{:.1}", tally.runs / tally.cases);
        // Three standard errors of a proportion of 5%.
        let error = 100.0 * (ALPHA * (1.0 - ALPHA) / self.families as f64).sqrt();
        let errors = |check: &mut ToleranceCheck, name: &str, [design, fixed]: [f64; 2]| {
            if self.kind == ChangedCases::All {
                "-".into()
            } else {
                let most = 100.0 * ALPHA + 3.0 * error;
                check.at_most(&format!("{place}, {name}"), design, most) + &format!(" ({fixed:.1})")
            }
        };
        print_row(&[
            format!("{}, {:.0}%", setting.name, 100.0 * setting.change),
            self.size.to_string(),
            self.kind.name().into(),
            self.families.to_string(),
            power(check, "Holm", holm),
            runs(&holm[0]),
            errors(check, "any false alarm", [&holm[0], &holm[1]].map(any_false)),
            power(check, "BH", bh),
            runs(&bh[0]),
            errors(check, "false share", [&bh[0], &bh[1]].map(false_share)),
        ]);
    }
}

/// Follows a family through the looks: returns which cases are called different in the end, and the
/// total runs per side.
fn follow_sequential(cases: &[FamilyCase], adjust: AdjustPValues) -> (Vec<bool>, f64) {
    let design = SequentialDesign::new(&[8, 14, 20, 26, 32], 0.05, 2.0);
    let mut family = ComparisonFamily::new(ALPHA, adjust);
    cases.iter().for_each(|_| {
        family.add_member();
    });
    let mut runs = 0.0;
    let mut before = 0;
    for look in design.limits() {
        let open: Vec<usize> = (0..cases.len()).filter(|&i| !family.has_ended(i)).collect();
        runs += ((look.n - before) * open.len()) as f64;
        before = look.n;
        for &member in &open {
            family.update_p(member, cases[member].p[look.index]);
        }
        family.settle_survivors();
        for member in open {
            if look.is_last || cases[member].same_at <= look.index {
                family.end_member(member);
            }
        }
    }
    (called_different(&family.p_values, adjust), runs)
}

fn follow_fixed(cases: &[FamilyCase], adjust: AdjustPValues) -> Vec<bool> {
    let p: Vec<f64> = cases.iter().map(|case| case.fixed).collect();
    called_different(&p, adjust)
}

fn called_different(p: &[f64], adjust: AdjustPValues) -> Vec<bool> {
    let adjusted = adjust(p).into_iter();
    adjusted.map(|p| survives_correction(p, ALPHA)).collect()
}
