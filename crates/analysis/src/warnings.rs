//! Whole sentences about the validity of all figures together.
//!
//! Decides what may spoil a whole session or comparison and words it. It changes no figure.

use super::across::Chosen;
use super::code;
use super::comparison::Compared;
use super::planning::{fewest_runs, smallest_p};
use super::remarks::count;
use super::rule::Rule;
use super::{Correction, Method, Settings};
use speedwell_model::{
    Calibration, Code, Design, Environment, Metric, Order, Program, Session, State, Step, Stopping,
};
use speedwell_stats::test::stratified::MINIMUM_PER_SIDE;

/// Share of failed runs from which what is left may be a selection.
const MANY_FAILURES: f64 = 0.05;

/// What may spoil the figures of a session; `label` names it where there are several.
pub(super) fn of_session(session: &Session, label: Option<&str>) -> Vec<String> {
    let name = label.map_or("The session".to_owned(), |label| format!("'{label}'"));
    let mut warnings = Vec::new();
    match session.state {
        State::Interrupted => {
            let done = count(session.runs.len(), "run", "runs");
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
    let runs = count(all, "run", "runs");
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

/// Whether the test asked for gave way to another.
pub(super) fn of_method(settings: &Settings, rule: &Rule) -> Option<String> {
    let gave_way = settings.method.is_some_and(|method| method != rule.method);
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
    let (rule, runs) = (Rule::of(design, settings), runs as usize);
    let block = match rule.method {
        Method::Rank => rule.runs_per_block(),
        Method::MannWhitney => runs,
        // Their p values have no lower limit, or not one that more runs would change.
        Method::Welch | Method::Bootstrap => return None,
    };
    let counted = match settings.correction {
        Correction::Holm | Correction::BenjaminiHochberg => comparisons,
        Correction::None => 1,
    };
    let enough = || {
        let level = rule.alpha / counted as f64;
        let reaches = |runs: &usize| smallest_p(*runs, *runs) <= level;
        let needed = match rule.method {
            Method::Rank => fewest_runs(level, block),
            _ => (1..).find(reaches).unwrap_or_default(),
        };
        needed.max(MINIMUM_PER_SIDE)
    };
    let smallest = smallest_p(runs, block);
    // Under Benjamini and Hochberg's correction so many changes are found together or not at all.
    let at_once = (smallest * counted as f64 / rule.alpha * (1.0 - 1e-9)).ceil() as usize;
    let why = match () {
        () if comparisons == 0 => return None,
        () if runs < MINIMUM_PER_SIDE => {
            let show = count(runs, "run a side shows", "runs a side show");
            format!("{show} nothing: below {MINIMUM_PER_SIDE} nothing is claimed")
        }
        () if at_once <= 1 => return None,
        () => {
            let few = if settings.correction == Correction::BenjaminiHochberg && at_once <= counted
            {
                format!("fewer than {at_once} changes")
            } else {
                "any change".into()
            };
            let digits = (1.0 - smallest.log10().floor()).max(0.0) as usize;
            format!(
                "{runs} runs a side cannot show {few} among {counted} comparisons: the smallest p value, \
                 {smallest:.digits$}, times {counted} is above {} %",
                percent(rule.alpha)
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
            count(known.false_alarms as usize, "false alarm", "false alarms"),
            known.comparisons,
            known.expected_low,
            known.expected_high,
        )
    })
}

/// What may spoil one comparison.
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
        let cases = count(found.left_out, "case", "cases");
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
pub(super) fn of_environments(sources: &[Chosen<'_>]) -> Vec<String> {
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
fn changed_program(first: &Chosen<'_>, other: &Chosen<'_>) -> Option<String> {
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

fn program<'a>(source: &'a Chosen<'_>) -> Option<&'a Program> {
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
