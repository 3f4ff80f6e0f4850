//! Whole sentences about the validity of all figures together, and remarks that a reader of one figure should know.
//!
//! Decides which threats to a session, a comparison or a figure are worth a sentence, and words it. It changes no figure
//! and takes no part in the verdict.

use crate::between_sessions::SelectedSource;
use crate::comparison::Compared;
use crate::correction::{fewest_runs, smallest_p};
use crate::paired::{Matching, PairedRuns, is_marked};
use crate::policy::Policy;
use crate::sequential::{End, Outcome};
use crate::{CaseSummary, Correction, Method, Settings, code};
use speedwell_model::{
    Calibration, Code, Design, Environment, Metric, Order, Program, Session, State, Step, Stopping,
};
use speedwell_stats::test::stratified::MINIMUM_PER_SIDE;

/// Share of failed runs from which what is left may be a selection.
const MANY_FAILURES: f64 = 0.05;

/// Threats to the figures of a session; `label` names it where there are several.
pub(super) fn of_session(session: &Session, label: Option<&str>) -> Vec<String> {
    let name = label.map_or("The session".to_owned(), |label| format!("'{label}'"));
    let mut warnings = Vec::new();
    match session.state {
        State::Interrupted => {
            let done = counted(session.runs.len(), "run", "runs");
            warnings.push(format!("{name} was interrupted after {done}."));
        }
        State::Running => warnings.push(format!("{name} did not end, or is still measuring.")),
        State::Complete | State::Imported => {}
    }
    warnings.extend(on_failures(session, &name));
    warnings.extend(shared_notes(session).into_iter().map(String::from));
    warnings.extend(code::folded(session));
    let environment = &session.environment;
    if environment
        .governors
        .iter()
        .any(|governor| governor != "performance")
    {
        let governors = list(environment.governors.iter().map(String::as_str));
        warnings.push(format!(
            "{name} ran while the processor may change its clock ({governors})."
        ));
    }
    if environment.aslr == Some(false) {
        warnings.push(format!(
            "{name} ran with a fixed memory layout, which favours one variant by chance."
        ));
    }
    warnings
}

/// What is true of every run and therefore said once. An importer has told it already.
pub(super) fn shared_notes(session: &Session) -> Vec<&str> {
    let Some((first, others)) = session.runs.split_first() else {
        return Vec::new();
    };
    let mut notes: Vec<&str> = Vec::new();
    if session.state != State::Imported && !others.is_empty() {
        notes.extend(first.notes.iter().map(String::as_str));
    }
    // What is true of a code is said with its name.
    notes.retain(|note| *note != Code::FOLDED);
    notes.retain(|note| {
        others
            .iter()
            .all(|run| run.notes.iter().any(|other| other == note))
    });
    notes
}

fn on_failures(session: &Session, name: &str) -> Option<String> {
    let is_lost_run = |f: &&speedwell_model::Failure| f.step == Step::Run && !f.cause.is_skip();
    let failed = session.failures.iter().filter(is_lost_run).count();
    let all = session.runs.len() + failed;
    if failed == 0 || (failed as f64) < MANY_FAILURES * all as f64 {
        return None;
    }
    let share = 100.0 * failed as f64 / all as f64;
    let runs = counted(all, "run", "runs");
    if failed == all {
        return Some(format!("{name}: {failed} of {runs} failed."));
    }
    Some(format!(
        "{name}: {failed} of {runs} failed ({share:.0} %); the others may be a selection."
    ))
}

/// What the order of execution does to comparisons within a session.
pub(super) fn of_order(order: Order) -> Option<String> {
    let text = match order {
        Order::Blocks => return None,
        Order::Alternate => {
            "Runs alternated in a fixed order: noise with a period of two runs looks like a \
             change, so verdicts are indicative."
        }
        Order::Parallel => {
            "The variants ran at the same time and may have disturbed each other, so verdicts are \
             indicative."
        }
        Order::Imported => {
            "The order of the runs was not randomised by us, so verdicts are indicative."
        }
    };
    Some(text.into())
}

/// What it means that the sides are different cases of one session.
pub(super) fn of_turns((old, new): (&str, &str), order: Order) -> Option<String> {
    match order {
        Order::Blocks => Some(format!(
            "'{old}' and '{new}' are different cases of one session: they were measured in turns, always in the \
             same order, so verdicts are indicative."
        )),
        other => of_order(other),
    }
}

/// Whether the requested test gave way to another.
pub(super) fn of_method(settings: &Settings, policy: &Policy) -> Option<String> {
    let gave_way = settings
        .method
        .is_some_and(|method| method != policy.method);
    gave_way.then(|| "The rank test needs randomised blocks; Mann-Whitney's is used.".into())
}

/// Whether the user's choices differ from those that were fixed before measuring.
pub(super) fn of_plan(design: &Design, settings: &Settings) -> Option<String> {
    let Stopping::Sequential { alpha, delta, .. } = &design.stopping else {
        return None;
    };
    let differs = |chosen: f64, planned: f64| (chosen - planned).abs() > 1e-9;
    let confidence = settings
        .confidence
        .is_some_and(|asked| differs(1.0 - asked, *alpha));
    let threshold = settings
        .threshold
        .is_some_and(|asked| differs(asked, *delta));
    (confidence || threshold).then(|| {
        format!(
            "The plan was made for a confidence of {} % and a delta of {} %; with other choices \
             the verdicts are exploratory.",
            percent(1.0 - alpha),
            percent(*delta)
        )
    })
}

/// That the fixed number of runs in `design` cannot show a change among this many comparisons, whatever the runs will be;
/// `None` if it can, or where the runs are not limited.
pub fn out_of_reach(design: &Design, settings: &Settings, comparisons: usize) -> Option<String> {
    let Stopping::Fixed { runs } = design.stopping else {
        return None;
    };
    let (policy, runs) = (Policy::new(design, settings), runs as usize);
    let block = match policy.method {
        Method::Rank => policy.runs_per_block(),
        Method::MannWhitney => runs,
        // Their p values have no lower limit, or not one that more runs would change.
        Method::Welch | Method::Bootstrap => return None,
    };
    let tests = match settings.correction {
        Correction::Holm | Correction::BenjaminiHochberg => comparisons,
        Correction::None => 1,
    };
    let enough = || {
        let level = policy.alpha / tests as f64;
        let reaches = |runs: &usize| smallest_p(*runs, *runs) <= level;
        let needed = match policy.method {
            Method::Rank => fewest_runs(level, block),
            _ => (1..).find(reaches).unwrap_or_default(),
        };
        needed.max(MINIMUM_PER_SIDE)
    };
    let smallest = smallest_p(runs, block);
    // Under Benjamini and Hochberg's correction so many changes are found together or not at all.
    let at_once = (smallest * tests as f64 / policy.alpha * (1.0 - 1e-9)).ceil() as usize;
    let why = match () {
        () if comparisons == 0 => return None,
        () if runs < MINIMUM_PER_SIDE => {
            let show = counted(runs, "run a side shows", "runs a side show");
            format!("{show} nothing: below {MINIMUM_PER_SIDE} nothing is claimed")
        }
        () if at_once <= 1 => return None,
        () => {
            let few = if settings.correction == Correction::BenjaminiHochberg && at_once <= tests {
                format!("fewer than {at_once} changes")
            } else {
                "any change".into()
            };
            let digits = (1.0 - smallest.log10().floor()).max(0.0) as usize;
            format!(
                "{runs} runs a side cannot show {few} among {tests} comparisons: the smallest p value, \
                 {smallest:.digits$}, times {tests} is above {} %",
                percent(policy.alpha)
            )
        }
    };
    Some(format!("{why}. --runs {} is enough.", enough()))
}

/// That a machine sees differences where there are none, or overlooks some; `None` if it does not.
pub fn uncalibrated(machine: &Environment, known: &Calibration) -> Option<String> {
    let effect = if known.false_alarms > known.expected_high {
        "differences are seen where there are none"
    } else {
        "the test is more careful than it says"
    };
    let host = machine.host.as_deref().unwrap_or("unknown");
    (!known.is_in_range()).then(|| {
        format!(
            "The machine '{host}' is not calibrated: @{} found {} in {} comparisons of the same thing, \
             where {} to {} are expected; {effect}.",
            known.session,
            counted(known.false_alarms as usize, "false alarm", "false alarms"),
            known.comparisons,
            known.expected_low,
            known.expected_high,
        )
    })
}

/// Threats to one comparison.
pub(super) fn of_comparison(found: &Compared) -> Vec<String> {
    let comparison = &found.comparison;
    let (old, new) = (&comparison.baseline, &comparison.candidate);
    let mut warnings = Vec::new();
    if found.one_after_the_other > 0 {
        warnings.push(format!(
            "'{old}' and '{new}' were measured one after the other: a drift of the machine looks \
             like a change."
        ));
    }
    if comparison.overall.is_some() && found.left_out > 0 {
        let cases = counted(found.left_out, "case", "cases");
        warnings.push(format!(
            "The overall change of '{new}' leaves out {cases} without a bounded interval."
        ));
    }
    warnings
}

/// Whether another session means the same by a metric.
pub(super) fn of_metric(metric: &Metric, session: &Session, label: &str) -> Option<String> {
    let name = &metric.name;
    match session.metric(name) {
        None => Some(format!("'{label}' has no metric '{name}'.")),
        Some(other) if other.unit != metric.unit => Some(format!(
            "'{label}' gives '{name}' in '{}' instead of '{}'.",
            other.unit, metric.unit
        )),
        Some(other) if other.better != metric.better => Some(format!(
            "'{label}' takes the other direction of '{name}' for the better one."
        )),
        Some(_) => None,
    }
}

/// Circumstances in which the sources differ from the first.
pub(super) fn of_environments(sources: &[SelectedSource<'_>]) -> Vec<String> {
    let Some((first, others)) = sources.split_first() else {
        return Vec::new();
    };
    let mut warnings = Vec::new();
    for other in others
        .iter()
        .filter(|other| other.session.id != first.session.id)
    {
        let (a, b) = (&first.session.environment, &other.session.environment);
        let differences = differences(a, b);
        if !differences.is_empty() {
            warnings.push(format!(
                "'{}' and '{}' were measured under different circumstances: {}.",
                first.label,
                other.label,
                differences.join(", ")
            ));
        }
        warnings.extend(changed_program(first, other));
    }
    warnings
}

fn differences(a: &Environment, b: &Environment) -> Vec<String> {
    let number = |value: Option<u32>| value.map(|number| number.to_string());
    let aslr = |value: Option<bool>| value.map(|on| if on { "on" } else { "off" }.to_owned());
    let governors = |e: &Environment| (!e.governors.is_empty()).then(|| e.governors.join("+"));
    let known = [
        ("host", a.host.clone(), b.host.clone()),
        ("processor", a.cpu.clone(), b.cpu.clone()),
        ("processors", number(a.cpus), number(b.cpus)),
        ("kernel", a.kernel.clone(), b.kernel.clone()),
        ("clock governor", governors(a), governors(b)),
        ("address randomisation", aslr(a.aslr), aslr(b.aslr)),
    ];
    let known = known
        .into_iter()
        .map(|(name, a, b)| (name.to_owned(), a, b));
    let facts = a.facts.iter().filter(|(name, _)| !is_of_the_moment(name));
    let facts = facts.map(|(name, value)| {
        let other = b.facts.get(name).cloned();
        (name.replace('_', " "), Some(value.clone()), other)
    });
    let differ = |(name, a, b): (String, Option<String>, Option<String>)| {
        let (a, b) = a.zip(b)?;
        (a != b).then(|| format!("{name} '{a}' and '{b}'"))
    };
    known.chain(facts).filter_map(differ).collect()
}

/// What changes from minute to minute, such as the memory that is free: it differs between any two sessions.
fn is_of_the_moment(fact: &str) -> bool {
    fact.starts_with("now_") || fact == "mhz_per_cpu"
}

/// The same path may hold another build today.
fn changed_program(first: &SelectedSource<'_>, other: &SelectedSource<'_>) -> Option<String> {
    let (a, b) = (program(first)?, program(other)?);
    let build = |p: &Program| (p.version.clone(), p.size_bytes, p.modified_unix_ms);
    if a.path != b.path || build(a) == build(b) {
        return None;
    }
    let version = |p: &Program| {
        p.version
            .clone()
            .unwrap_or_else(|| "unknown version".into())
    };
    let path = a.path.display();
    Some(if a.version == b.version {
        format!(
            "'{path}' was another build of {} in '{}'.",
            version(a),
            other.label
        )
    } else {
        format!(
            "'{path}' was {} in '{}', {} in '{}'.",
            version(a),
            first.label,
            version(b),
            other.label
        )
    })
}

fn program<'a>(source: &'a SelectedSource<'_>) -> Option<&'a Program> {
    let programs = &source.session.environment.programs;
    programs
        .iter()
        .find(|program| program.variant == source.variant())
}

/// Adds the sentences that are not there yet.
pub(super) fn add(warnings: &mut Vec<String>, more: impl IntoIterator<Item = String>) {
    for warning in more {
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
}

/// Names in quotes, joined by commas.
pub(super) fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names
        .map(|name| format!("'{name}'"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// A share in percent without the noise of binary fractions.
fn percent(share: f64) -> f64 {
    (share * 1e8).round() / 1e6
}

/// How the runs of a pair follow each other.
pub(super) struct RunOrder {
    /// Whether the noise depends on its past.
    pub dependent: bool,
    /// Whether all runs of one side came before those of the other.
    pub one_after_the_other: bool,
}

/// Remarks on one case of a comparison.
pub(super) fn of_row(
    pair: &PairedRuns,
    outcome: &Outcome,
    policy: &Policy,
    order: &RunOrder,
) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(on_the_number_of_runs(pair, outcome, policy));
    if pair.incomplete > 0 {
        let blocks = counted(pair.incomplete, "block lacks", "blocks lack");
        notes.push(format!("{blocks} a run and cannot be compared."));
    }
    notes.extend(on_the_values(outcome, policy));
    notes.extend(on_dependence(policy, order));
    notes
}

fn on_the_number_of_runs(pair: &PairedRuns, outcome: &Outcome, policy: &Policy) -> Option<String> {
    let runs = outcome.data.runs();
    if outcome.is_contradictory {
        return Some(format!(
            "The intervals of the looks have nothing in common, so something changed while measuring; the figures are \
             those of the look at {runs} runs a side, where the change shows most clearly."
        ));
    }
    match outcome.end {
        End::TooFew if runs < MINIMUM_PER_SIDE => Some(format!(
            "Too few runs: {runs} a side, and below {MINIMUM_PER_SIDE} nothing is claimed."
        )),
        End::TooFew => Some(format!(
            "Measuring ended before the first look; there are {runs} runs a side."
        )),
        End::Early => {
            let next = policy
                .looks
                .as_ref()
                .and_then(|looks| looks.design.next_after(runs));
            let planned = next.map_or(String::new(), |look| format!(" at {} runs a side", look.n));
            Some(format!(
                "Measuring ended before the look{planned}; the figures are those of the look at {runs}."
            ))
        }
        End::Final if pair.runs() > runs && policy.looks.is_some() => Some(format!(
            "Decided at {runs} runs a side; the later ones take no part in the verdict."
        )),
        End::Final => None,
    }
}

fn on_the_values(outcome: &Outcome, policy: &Policy) -> Option<String> {
    let data = &outcome.data;
    if data.runs() == 0 {
        return None;
    }
    let varies = |values: &[f64]| values.iter().any(|&value| value != values[0]);
    if data.constant().is_some() {
        Some("All values of both sides are identical.".into())
    } else if !data.is_positive() && outcome.change.is_none() {
        Some("Values of zero or below have no logarithm, so no change can be given.".into())
    } else if policy.method == Method::Welch && !varies(&data.baseline) && !varies(&data.candidate)
    {
        Some("Neither side's values vary, so Welch's test is undefined.".into())
    } else if !outcome.is_same && outcome.change.is_none() {
        Some(
            "The baseline's mean is indistinguishable from zero, so no change can be given.".into(),
        )
    } else {
        None
    }
}

fn on_dependence(policy: &Policy, order: &RunOrder) -> Option<String> {
    let text = match (order.dependent, policy.matching) {
        (false, _) => return None,
        // Randomised blocks protect the test: nothing is wrong.
        (true, Matching::Blocks { .. }) if !policy.indicative => return None,
        (true, _) if order.one_after_the_other => {
            "Runs depend on each other and the sides were measured one after the other, so the p \
             value is not valid."
        }
        (true, _) => "Runs depend on each other, so the p value is not reliable.",
    };
    Some(text.into())
}

/// Remarks on one series, to be called when its figures are known.
pub(super) fn of_summary(summary: &CaseSummary, lost: usize, order: Order) -> Vec<String> {
    let mut notes = Vec::new();
    let runs = summary.runs.len();
    if lost > 0 {
        notes.push(format!(
            "{} gave no finite value.",
            counted(lost, "run", "runs")
        ));
    }
    if runs > 1
        && summary
            .runs
            .iter()
            .all(|run| run.value == summary.runs[0].value)
    {
        notes.push(format!("All {runs} values are identical."));
        return notes;
    }
    if !summary.outliers.is_empty() {
        let far = counted(summary.outliers.len(), "value lies", "values lie");
        notes.push(format!("{far} far from the median; nothing was dropped."));
    }
    match summary.autocorrelation {
        Some(known) if is_marked(known, runs) => {
            let effect = match order {
                Order::Blocks => "comparisons are protected by the randomised blocks",
                _ => "the interval may be too narrow",
            };
            notes.push(format!(
                "Runs depend on each other (lag-1 correlation {known:.2}); {effect}."
            ));
        }
        _ => {}
    }
    notes
}

/// A number with the word for one or for many.
pub(super) fn counted(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}
