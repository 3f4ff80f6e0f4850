//! Families of cases with correction for multiple comparisons: errors, power and runs of the
//! sequential design beside a fixed 30 + 30.
//!
//! Composes families of simulated cases, and follows them through the looks like a session. Start
//! at [`study`].

use super::check::{Check, head, row};
use super::experiment::{experiment, test};
use super::noise::{Model, Random, normal};
use super::repeat::repeat;
use speedwell_stats::multiple::{benjamini_hochberg, holm};
use speedwell_stats::sequential::{Adjust, DEFAULT_DELTA, Design, Family, RepeatedP, survives};

/// Sizes of families, with the number of families for each in thousandths of the repetitions.
const SIZES: [(usize, u64); 6] = [
    (1, 20_000),
    (10, 10_000),
    (33, 5_000),
    (100, 3_000),
    (1000, 300),
    (3000, 300),
];
/// Runs per side of the fixed test.
const FIXED: usize = 30;
const ALPHA: f64 = 0.05;
const LOOKS: usize = 5;

/// One case, measured to the end, with everything a session could see of it.
#[derive(Clone, Copy)]
struct Case {
    /// Repeated p-value at every look.
    p: [f64; LOOKS],
    /// The first look at which it is shown to be the same.
    same_at: usize,
    /// p-value of the fixed test.
    fixed: f64,
}

/// Noise with a change.
struct Setting {
    name: &'static str,
    noise: Model,
    change: f64,
    /// Whether intervals can become so narrow that a case is shown to be the same.
    may_be_same: bool,
}

/// How many cases of a family are changed.
#[derive(Clone, Copy, PartialEq)]
enum Changed {
    None,
    One,
    Twentieth,
    All,
}

impl Changed {
    fn count(self, size: usize) -> usize {
        match self {
            Changed::None => 0,
            Changed::One => 1,
            Changed::Twentieth => size.div_ceil(20),
            Changed::All => size,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Changed::None => "none",
            Changed::One => "one",
            Changed::Twentieth => "5 %",
            Changed::All => "all",
        }
    }
}

/// Results of some families under one correction.
#[derive(Default, Clone, Copy)]
struct Tally {
    families: f64,
    changed: f64,
    found: f64,
    any_false: f64,
    false_share: f64,
    runs: f64,
    cases: f64,
}

impl Tally {
    fn add(&mut self, changed: usize, is_found: &[bool], runs: f64) {
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
fn settings() -> [Setting; 4] {
    [
        Setting {
            name: "normal 2 %",
            noise: normal_noise(|random, slots| normal(random, slots, 0.02)),
            change: 0.05,
            may_be_same: true,
        },
        Setting {
            name: "normal 2 %",
            noise: normal_noise(|random, slots| normal(random, slots, 0.02)),
            change: 0.20,
            may_be_same: true,
        },
        Setting {
            name: "normal 5 %",
            noise: normal_noise(|random, slots| normal(random, slots, 0.05)),
            change: 0.05,
            may_be_same: false,
        },
        Setting {
            name: "normal 20 %",
            noise: normal_noise(|random, slots| normal(random, slots, 0.20)),
            change: 0.20,
            may_be_same: false,
        },
    ]
}

/// Runs all families under all settings; `thousandths` scales the numbers of families.
pub fn study(check: &mut Check, thousandths: u64) {
    head(
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
    let largest = |(size, families): &(usize, u64)| *size as u64 * scaled(*families, thousandths);
    let pool = SIZES.iter().map(largest).max().unwrap_or_default();
    for (place, setting) in (2000u64..).step_by(2).zip(&settings()) {
        let same = cases(
            setting,
            0.0,
            pool / if setting.may_be_same { 3 } else { 1 },
            place,
        );
        let changed = cases(setting, setting.change, (pool / 10).max(60), place + 1);
        for (size, families) in SIZES {
            for kind in [
                Changed::None,
                Changed::One,
                Changed::Twentieth,
                Changed::All,
            ] {
                let is_repeated = kind == Changed::None && setting.change > 0.05
                    || kind == Changed::Twentieth && size < 20
                    || kind == Changed::All && size == 1;
                if !is_repeated {
                    let families = scaled(families, thousandths);
                    let cell = Cell {
                        size,
                        kind,
                        families,
                    };
                    cell.print(check, setting, &same, &changed);
                }
            }
        }
    }
}

fn scaled(families: u64, thousandths: u64) -> u64 {
    (families * thousandths / 1000).max(2)
}

fn normal_noise(series: fn(&mut Random, usize) -> Vec<f64>) -> Model {
    Model {
        name: "normal",
        series,
    }
}

/// Simulates cases that are measured to the end.
fn cases(setting: &Setting, change: f64, count: u64, place: u64) -> Vec<Case> {
    let design = Design::default();
    let repeated = RepeatedP::new(&design);
    repeat(count, |repetition| {
        let mut random = Random::new(place, repetition);
        let observations = experiment(&setting.noise, design.maximum(), change, &mut random);
        let mut case = Case {
            p: [1.0; LOOKS],
            same_at: LOOKS,
            fixed: test(&observations[..2 * FIXED]).p,
        };
        for look in design.limits() {
            let test = test(&observations[..2 * look.n]);
            case.p[look.index] = repeated.at(look.index, test.p);
            let (theta, level) = (DEFAULT_DELTA.ln_1p(), 0.5 * look.p_limit);
            let is_same = setting.may_be_same
                && case.same_at == LOOKS
                && test.shifted(theta).lower <= level
                && test.shifted(-theta).upper <= level;
            if is_same {
                case.same_at = look.index;
            }
        }
        case
    })
}

/// One row of the table.
struct Cell {
    size: usize,
    kind: Changed,
    families: u64,
}

impl Cell {
    fn print(&self, check: &mut Check, setting: &Setting, same: &[Case], changed: &[Case]) {
        let count = self.kind.count(self.size);
        let mut tallies = [[Tally::default(); 2]; 2];
        let mut family: Vec<Case> = Vec::with_capacity(self.size);
        for number in 0..self.families as usize {
            let take = |pool: &[Case], of_family: usize, index: usize| {
                pool[(number * of_family + index) % pool.len()]
            };
            family.clear();
            family.extend((0..count).map(|index| take(changed, count, index)));
            let unchanged = self.size - count;
            family.extend((0..unchanged).map(|index| take(same, unchanged, index)));
            for (tallies, adjust) in tallies.iter_mut().zip([holm as Adjust, benjamini_hochberg]) {
                let (is_found, runs) = sequential(&family, adjust);
                tallies[0].add(count, &is_found, runs);
                tallies[1].add(count, &fixed(&family, adjust), (FIXED * self.size) as f64);
            }
        }
        self.tell(check, setting, &tallies);
    }

    fn tell(&self, check: &mut Check, setting: &Setting, tallies: &[[Tally; 2]; 2]) {
        let [holm, bh] = tallies;
        let place = format!(
            "families, {} {} %, {} cases, {} changed",
            setting.name,
            100.0 * setting.change,
            self.size,
            self.kind.name()
        );
        let share = |sum: fn(&Tally) -> f64, tally: &Tally| 100.0 * sum(tally) / tally.families;
        let any_false = |tally: &Tally| share(|tally| tally.any_false, tally);
        let false_share = |tally: &Tally| share(|tally| tally.false_share, tally);
        let power = |check: &mut Check, name: &str, [design, fixed]: &[Tally; 2]| {
            if self.kind == Changed::None {
                "-".into()
            } else {
                let least = fixed.power() - 3.0;
                check.at_least(&format!("{place}, power {name}"), design.power(), least)
                    + &format!(" ({:.1})", fixed.power())
            }
        };
        let runs = |tally: &Tally| format!("{:.1}", tally.runs / tally.cases);
        // Three standard errors of a proportion of 5 %.
        let error = 100.0 * (ALPHA * (1.0 - ALPHA) / self.families as f64).sqrt();
        let errors = |check: &mut Check, name: &str, [design, fixed]: [f64; 2]| {
            if self.kind == Changed::All {
                "-".into()
            } else {
                let most = 100.0 * ALPHA + 3.0 * error;
                check.at_most(&format!("{place}, {name}"), design, most) + &format!(" ({fixed:.1})")
            }
        };
        row(&[
            format!("{}, {:.0} %", setting.name, 100.0 * setting.change),
            self.size.to_string(),
            self.kind.name().into(),
            self.families.to_string(),
            power(check, "Holm", holm),
            runs(&holm[0]),
            errors(
                check,
                "any false alarm",
                [&holm[0], &holm[1]].map(any_false),
            ),
            power(check, "BH", bh),
            runs(&bh[0]),
            errors(check, "false share", [&bh[0], &bh[1]].map(false_share)),
        ]);
    }
}

/// Follows a family through the looks: returns which cases are called different in the end, and the
/// total runs per side.
fn sequential(cases: &[Case], adjust: Adjust) -> (Vec<bool>, f64) {
    let design = Design::default();
    let mut family = Family::new(ALPHA, adjust);
    cases.iter().for_each(|_| {
        family.join();
    });
    let mut runs = 0.0;
    let mut before = 0;
    for look in design.limits() {
        let open: Vec<usize> = (0..cases.len()).filter(|&i| !family.has_ended(i)).collect();
        runs += ((look.n - before) * open.len()) as f64;
        before = look.n;
        for &member in &open {
            family.look(member, cases[member].p[look.index]);
        }
        family.settle();
        for member in open {
            if look.is_last || cases[member].same_at <= look.index {
                family.end(member);
            }
        }
    }
    (called(family.p_values(), adjust), runs)
}

fn fixed(cases: &[Case], adjust: Adjust) -> Vec<bool> {
    let p: Vec<f64> = cases.iter().map(|case| case.fixed).collect();
    called(&p, adjust)
}

fn called(p: &[f64], adjust: Adjust) -> Vec<bool> {
    let adjusted = adjust(p).into_iter();
    adjusted.map(|p| survives(p, ALPHA)).collect()
}
