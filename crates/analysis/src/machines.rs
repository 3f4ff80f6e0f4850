//! What may be said of a case that was measured on several machines.
//!
//! Decides three statements, in this order: what is so on these machines (the test of all blocks, decided elsewhere), whether
//! it is the same on all of them, and what is to be expected on machines like these. Runs are compared within their machine
//! only, and machines of different classes are no population. Start at [`add`]; docs/why/derivations.md, "Several machines", has
//! the error rates.

use crate::Comparison;
use crate::evidence;
use crate::grid::{CaseRuns, Grid, distinct};
use crate::paired::{Data, PairedRuns};
use crate::policy::Policy;
use speedwell_model::{Estimate, Run, Session, SessionMachine, Verdict};
use speedwell_stats::describe::{mean, median};
use speedwell_stats::interval::{mean_t, values_to_halve};
use speedwell_stats::test::{WelchError, welch_anova};
use std::collections::{BTreeMap, HashMap};

/// Blocks of a machine below which its scatter is not known well enough for a test of several machines: with 4 blocks on each
/// of 8 machines such a test has 7.8 % false alarms at a level of 5 %, with more blocks it keeps its level.
const FEWEST_BLOCKS: usize = 4;
/// Machines of a class below which nothing is said about others of it: Student's interval of two would be twelve times as wide
/// as their scatter.
const FEWEST_MACHINES: usize = 3;
/// The level of the question whether machines differ.
const LEVEL: f64 = 0.05;
/// Block effects closer than this are equal: what lies between is the rounding of logarithms.
const ROUNDING: f64 = 1e-9;

/// What is known of a case by machine.
#[derive(Debug, Clone, PartialEq)]
pub struct AcrossMachines {
    /// One entry for each machine that measured the case, in the order of the session.
    pub machines: Vec<MachineEffect>,
    /// The verdict on these machines, all blocks taken together. It is the one that gates use.
    pub on_these: Verdict,
    /// The probability of such differences between machines, or larger ones, where the change is the same on all of them;
    /// `None` where fewer than two machines have blocks enough to say.
    pub p_equal: Option<f64>,
    /// Whether the verdict was taken back because it depends on the machine.
    pub depends: bool,
    /// What is to be expected on other machines, for each class with enough of them.
    pub populations: Vec<Population>,
}

/// The change on one machine by itself.
#[derive(Debug, Clone, PartialEq)]
pub struct MachineEffect {
    /// What its fleet calls it.
    pub name: String,
    /// Its class.
    pub class: String,
    /// Complete blocks.
    pub blocks: usize,
    /// The change with its interval, from its own runs; `None` where they are too few.
    pub change: Option<Estimate>,
    /// Logarithms of the ratio in each complete block.
    pub(super) effects: Vec<f64>,
}

/// The change on machines of one class.
#[derive(Debug, Clone, PartialEq)]
pub struct Population {
    /// The class.
    pub class: String,
    /// Machines of it that were measured.
    pub machines: usize,
    /// The change on a machine of this class, with Student's interval of the mean over machines.
    pub change: Estimate,
    /// How many more machines would make the interval half as wide.
    pub to_halve: usize,
}

impl AcrossMachines {
    /// The lowest and the highest change of a machine by itself.
    pub fn range(&self) -> Option<[&MachineEffect; 2]> {
        let value = |machine: &&MachineEffect| machine.change.map(|change| change.value);
        let known = || self.machines.iter().filter(|one| value(one).is_some());
        let order = |a: &&MachineEffect, b: &&MachineEffect| {
            let [a, b] = [a, b].map(|one| value(one).unwrap_or_default());
            a.total_cmp(&b)
        };
        Some([known().min_by(order)?, known().max_by(order)?])
    }
}

/// The change on every machine, for each of these cases of a session on several machines.
pub(super) fn effects_of_cases<'c>(
    session: &Session,
    grid: &Grid<'_>,
    variants: [usize; 2],
    metric: &str,
    policy: &Policy,
    ids: impl Iterator<Item = &'c str>,
) -> Vec<Vec<MachineEffect>> {
    let known = grid.cases.iter().map(|case| (case.id.as_str(), case));
    let by_id: HashMap<&str, &CaseRuns<'_>> = known.collect();
    let of_case = |id: &str| {
        let case = by_id.get(id)?;
        let sides = variants.map(|variant| &case.by_variant[variant][..]);
        Some(effects(session, case, sides, metric, policy))
    };
    ids.map(|id| of_case(id).unwrap_or_default()).collect()
}

/// Says of every row what is known by machine, and takes verdicts back that depend on the machine. `effects` are those of the
/// rows of each comparison, as [`effects_of_cases`] gives them.
pub(super) fn add(
    effects: Vec<Vec<Vec<MachineEffect>>>,
    policy: &Policy,
    comparisons: &mut [Comparison],
) {
    for (comparison, effects) in comparisons.iter_mut().zip(effects) {
        for (row, mut machines) in comparison.rows.iter_mut().zip(effects) {
            if let [only] = &mut machines[..] {
                // Of one machine the answer is that of the row, which may rest on several looks.
                only.change = row.change;
            }
            let found = across(machines, row.verdict, policy);
            if found.depends {
                row.verdict = Verdict::Unclear;
                // More runs of the same machines would not make them agree.
                (row.more_runs, row.detectable) = (None, None);
            }
            row.machines = Some(found);
        }
    }
}

/// The change on every machine by itself.
fn effects(
    session: &Session,
    case: &CaseRuns<'_>,
    sides: [&[&Run]; 2],
    metric: &str,
    policy: &Policy,
) -> Vec<MachineEffect> {
    let mut by_machine: BTreeMap<u32, [Vec<&Run>; 2]> = BTreeMap::new();
    for (side, runs) in sides.into_iter().enumerate() {
        for run in runs {
            if let Some(machine) = run.machine {
                by_machine.entry(machine).or_default()[side].push(run);
            }
        }
    }
    let known = by_machine.into_iter().filter_map(|(place, runs)| {
        let machine = session.machines.get(place as usize)?;
        let [old, new] = policy.unit.values([&runs[0], &runs[1]], metric);
        Some(effect(
            machine,
            &PairedRuns::new(old, new, policy.matching),
            case,
            policy,
        ))
    });
    known.collect()
}

fn effect(
    machine: &SessionMachine,
    pair: &PairedRuns,
    case: &CaseRuns<'_>,
    policy: &Policy,
) -> MachineEffect {
    let data = pair.all_runs();
    let effects = block_effects(&data);
    let seed = policy.seed_for(&case.id);
    MachineEffect {
        name: machine.name.clone(),
        class: machine.class.clone(),
        blocks: effects.len(),
        change: evidence::change(policy.method, &data, policy.single_limit(), seed),
        effects,
    }
}

/// The mean logarithm of the candidate less that of the baseline, in each block; nothing where there are no logarithms or no
/// blocks.
fn block_effects(data: &Data) -> Vec<f64> {
    if !data.is_positive() {
        return Vec::new();
    }
    let of_block = data.observations.chunk_by(|a, b| a.block == b.block);
    of_block
        .map(|block| {
            let side = |wanted| {
                let own = block.iter().filter(|run| run.side == wanted);
                mean(&own.map(|run| run.value.ln()).collect::<Vec<f64>>())
            };
            side(speedwell_stats::Side::Candidate) - side(speedwell_stats::Side::Baseline)
        })
        .collect()
}

/// The statements about machines whose own changes are known.
pub(super) fn across(
    machines: Vec<MachineEffect>,
    on_these: Verdict,
    policy: &Policy,
) -> AcrossMachines {
    let enough: Vec<&MachineEffect> = machines
        .iter()
        .filter(|machine| machine.blocks >= FEWEST_BLOCKS)
        .collect();
    let p_equal = p_equal(&enough);
    let differs = p_equal.is_some_and(|p| p < LEVEL);
    let depends = differs && !agree(&machines, policy);
    let classes = distinct(enough.iter().map(|machine| machine.class.as_str()));
    let populations = classes.into_iter().filter_map(|class| {
        let own = enough.iter().filter(|machine| machine.class == class);
        let values: Vec<f64> = own.map(|machine| median(&machine.effects)).collect();
        population(class, &values, policy.confidence())
    });
    AcrossMachines {
        on_these,
        p_equal,
        depends,
        populations: populations.collect(),
        machines,
    }
}

/// Whether the change is the same on all machines, by Welch's analysis of variance of the effects in blocks.
fn p_equal(machines: &[&MachineEffect]) -> Option<f64> {
    let groups: Vec<&[f64]> = machines
        .iter()
        .map(|machine| &machine.effects[..])
        .collect();
    match welch_anova(&groups) {
        Ok(test) => Some(test.p),
        Err(WelchError::TooFew) => None,
        // Counts and exact figures have no scatter: they are equal, or they are not.
        Err(WelchError::Constant) => {
            let spread = |values: &[f64]| {
                let ends = values
                    .iter()
                    .fold((f64::MAX, f64::MIN), |(low, high), &value| {
                        (low.min(value), high.max(value))
                    });
                ends.1 - ends.0
            };
            if groups.iter().any(|group| spread(group) > ROUNDING) {
                return None;
            }
            Some(f64::from(u8::from(spread(&groups.concat()) <= ROUNDING)))
        }
    }
}

/// Whether the machines, each by itself, give one answer: a change in one direction, or none that counts.
fn agree(machines: &[MachineEffect], policy: &Policy) -> bool {
    let all = |holds: &dyn Fn(&Estimate) -> bool| {
        let mut known = machines
            .iter()
            .filter_map(|machine| machine.change.as_ref());
        known.all(holds)
    };
    all(&|change| change.low > policy.threshold)
        || all(&|change| change.high < -policy.threshold)
        || all(&|change| change.lies_within(-policy.delta, policy.delta))
}

/// What one value of every machine says of others of their class.
fn population(class: &str, values: &[f64], confidence: f64) -> Option<Population> {
    if values.len() < FEWEST_MACHINES {
        return None;
    }
    let interval = mean_t(values, confidence)?;
    Some(Population {
        class: class.to_owned(),
        machines: values.len(),
        change: Estimate {
            value: mean(values).exp_m1(),
            low: interval.low.exp_m1(),
            high: interval.high.exp_m1(),
        },
        to_halve: values_to_halve(values.len(), confidence) - values.len(),
    })
}
