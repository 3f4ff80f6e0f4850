//! Checks the load under which figures were measured: whether the requested load was really in
//! flight, whether other activity disturbed the machine, whether latencies may be ranked, and
//! whether differences between variants are possible at all.
//!
//! Latencies must not be ranked if they were measured at different numbers of requests in flight,
//! or by generators that time requests differently. Rate times mean latency is the mean number of
//! requests in flight (Little 1961, "A proof for the queuing formula L = lambda W"). Limits decide
//! when a load is reported as lighter or heavier than requested.
//!
//! Other limits decide when figures may reflect the machine instead of the server, for instance
//! because the generator was too busy to send on time. The limit on pressure is so low that `top`
//! may not show the problem.
//!
//! A difference is impossible if a candidate is better although it does more work, or if a program
//! differs from itself. The control, which compares the baseline with itself, shows how large noise
//! can be. Start at [`check_in_flight`], [`check_machine`], [`check_latencies`],
//! [`check_better_than_possible`] and [`check_control`].

use crate::grid::distinct_items;
use crate::validity::cells::{
    CheckedCell, CheckedCells, KnownFacts, RoundedFigure, median_over_runs, requests_of,
};
use crate::validity::finding::{
    ValidityCheck, ValidityFinding, format_run_numbers, format_span, join_names, quote_names,
};
use crate::{CandidateComparison, CaseComparison, NoVerdict};
use speedwell_model::{Run, Verdict};

/// A figure that cannot be better for a candidate that does more work.
struct WorkMeasure {
    /// Metric name; `None` means responses per second, which have several names.
    metric: Option<&'static str>,
    /// Verb phrase for the message about a candidate that is better nevertheless.
    claim: &'static str,
}

const MEASURES: [WorkMeasure; 3] = [
    WorkMeasure { metric: None, claim: "serves more than" },
    WorkMeasure {
        metric: Some("instructions_per_request"),
        claim: "takes fewer instructions for a request than",
    },
    WorkMeasure { metric: Some("instructions"), claim: "takes fewer instructions than" },
];

/// One finding for each figure in which a candidate beats the baseline although that should be
/// impossible.
pub(super) fn check_better_than_possible(
    cells: &CheckedCells<'_>,
    facts: &KnownFacts<'_>,
) -> Vec<ValidityFinding> {
    let Some(baseline) = cells.variants.first() else { return Vec::new() };
    let names = facts.never_better.iter();
    let present = names.filter(|name| cells.variants.iter().any(|other| **other == ***name));
    let check = |(candidate, measure): (&String, &WorkMeasure)| {
        // The control must have measured the same metric. For responses per second, which have
        // several names, any control is accepted.
        let is_of_metric = |control: &&CandidateComparison| {
            measure.metric.is_none_or(|name| control.metric.name == name)
        };
        let control = facts.control.filter(is_of_metric);
        let better = measure.impossible_gains(cells, baseline, candidate, control);
        let (max_case, max_gain) = better.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let control_clause = match control {
            Some(_) => " and exceeds the difference found in the control",
            None => "; without a control, it is unknown how much of this is noise",
        };
        let message = format!(
            "'{candidate}' {} '{baseline}' in {} of {} cases, by up to {:.0}% ('{}'), which \
             should be impossible{control_clause}.",
            measure.claim,
            better.len(),
            cells.cells_by_case().count(),
            100.0 * max_gain,
            cells.case_name(max_case)
        );
        let remedy = "Treat differences of that size, in either direction, as noise or as a \
            mistake.";
        Some(ValidityFinding {
            cases: better.iter().map(|(case, _)| (*case).to_owned()).collect(),
            variants: vec![candidate.clone()],
            ..ValidityFinding::amber(ValidityCheck::BetterThanPossible, message, remedy)
        })
    };
    let pairs = present.flat_map(|name| MEASURES.iter().map(move |measure| (name, measure)));
    pairs.filter_map(check).collect()
}

impl WorkMeasure {
    /// Cases in which the candidate is better by more than the control allows, each with the gain.
    fn impossible_gains<'c>(
        &self,
        cells: &'c CheckedCells<'_>,
        baseline: &str,
        candidate: &str,
        control: Option<&CandidateComparison>,
    ) -> Vec<(&'c str, f64)> {
        let gain = |case: &'c [CheckedCell<'_>]| {
            let figure = |variant: &str| {
                let cell = case.iter().find(|cell| *cell.variant == *variant)?;
                median_over_runs(&cell.runs, |run| match self.metric {
                    None => Some(cells.response_rate(run)?.value),
                    Some(name) => run.value_of(name),
                })
            };
            let (old, new) = figure(baseline).zip(figure(candidate))?;
            let gain = match self.metric {
                None => new / old - 1.0,
                Some(_) => 1.0 - new / old,
            };
            let id = case[0].case.as_str();
            (gain > control_floor(control, id)).then_some((id, gain))
        };
        cells.cells_by_case().filter_map(gain).collect()
    }
}

/// Size of the largest change, as a fraction, that may be noise according to the control; 0 without
/// a control.
fn control_floor(control: Option<&CandidateComparison>, case: &str) -> f64 {
    let rows = control.map_or(&[][..], |control| &control.rows);
    let row = rows.iter().find(|row| row.case.id() == case);
    let change = row.and_then(|row| row.change);
    let max_change =
        change.map(|change| change.value.abs().max(change.low.abs()).max(change.high.abs()));
    max_change.filter(|floor| floor.is_finite()).unwrap_or(0.0)
}

/// Checks whether the baseline was found to differ from itself.
pub(super) fn check_control(control: &CandidateComparison) -> Option<ValidityFinding> {
    let is_different =
        |row: &&CaseComparison| matches!(row.verdict, Verdict::Better | Verdict::Worse);
    let cases: Vec<String> =
        control.rows.iter().filter(is_different).map(|row| row.case.id()).collect();
    let message = format!(
        "'{}' is the same program as '{}', but their results differ in {} of {} cases: {}.",
        control.candidate,
        control.baseline,
        cases.len(),
        control.rows.len(),
        quote_names(cases.iter().map(String::as_str))
    );
    let remedy =
        "Find out what changed between the runs before trusting any other difference of that size.";
    (!cases.is_empty()).then(|| ValidityFinding {
        cases,
        variants: vec![control.candidate.clone()],
        ..ValidityFinding::amber(ValidityCheck::ControlDiffers, message, remedy)
    })
}

/// Loads are treated as different if the ratio of their numbers of requests in flight is above
/// this.
const MAX_SAME_LOAD_RATIO: f64 = 1.05;

const RANKING_REMEDY: &str = "Compare throughput, or measure the latencies again with the same \
    number of requests in flight or at the same rate; until then, the only valid conclusion is \
    which of them served more requests.";

/// Note on a comparison whose verdict was withdrawn.
const REFUSED: &str = "The sides had different numbers of requests in flight, so these latencies are not \
    ranked.";

/// Name of a variant or run in findings, and its number of requests in flight.
type LatencyEntry = (String, RoundedFigure);

/// Checks whether a case was measured under different loads. Compares the loads of the case's
/// variants. If there is only one variant, compares the loads of its runs instead.
pub(super) fn check_latencies(
    cells: &CheckedCells<'_>,
    case: &[CheckedCell<'_>],
) -> Option<ValidityFinding> {
    let mut entries: Vec<LatencyEntry> =
        case.iter().flat_map(|cell| latency_entries(cells, cell)).collect();
    let pairs = differing_pairs(&entries);
    if pairs.is_empty() {
        return None;
    }
    entries.sort_by(|(_, a), (_, b)| b.value.total_cmp(&a.value));
    let groups: Vec<String> = entries
        .chunk_by(|(_, a), (_, b)| !loads_differ(a, b))
        .map(|group| {
            let values: Vec<f64> = group.iter().map(|(_, load)| load.value).collect();
            let names: Vec<String> = group.iter().map(|(name, _)| name.clone()).collect();
            format!("{} for {}", format_span(&values), join_names(&names))
        })
        .collect();
    let message = format!(
        "Latencies were measured at different numbers of requests in flight: {}. Do not rank \
         them against each other.",
        groups.join("; ")
    );
    Some(ValidityFinding {
        cases: vec![case[0].case.clone()],
        pairs,
        ..ValidityFinding::amber(ValidityCheck::LatencyRanking, message, RANKING_REMEDY)
    })
}

/// Returns one entry for the cell's variant. If there is only one variant and its runs carried
/// different loads, returns one entry for each run.
fn latency_entries(cells: &CheckedCells<'_>, cell: &CheckedCell<'_>) -> Vec<LatencyEntry> {
    let numbered = cell.runs.iter().zip(1..);
    let mut loads: Vec<(usize, RoundedFigure)> =
        numbered.filter_map(|(run, number)| Some((number, cells.in_flight(run)?))).collect();
    let name = cells.variant_of(cell).concat();
    let is_by_run =
        name.is_empty() && loads.iter().any(|(_, a)| loads.iter().any(|(_, b)| loads_differ(a, b)));
    if is_by_run {
        return loads.into_iter().map(|(number, load)| (format!("run {number}"), load)).collect();
    }
    loads.sort_by(|(_, a), (_, b)| a.value.total_cmp(&b.value));
    let median = loads.get(loads.len() / 2);
    median.map(|(_, load)| (name, *load)).into_iter().collect()
}

fn differing_pairs(entries: &[LatencyEntry]) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    for (index, (first, load)) in entries.iter().enumerate() {
        let others = entries[index + 1..].iter().filter(|(_, other)| loads_differ(load, other));
        pairs.extend(others.map(|(second, _)| (first.clone(), second.clone())));
    }
    pairs
}

fn loads_differ(a: &RoundedFigure, b: &RoundedFigure) -> bool {
    b.low > a.high * MAX_SAME_LOAD_RATIO || a.low > b.high * MAX_SAME_LOAD_RATIO
}

/// Checks whether latencies come from more than one generator. Generators may start timing at
/// different moments.
pub(super) fn check_generators(generators: &[String]) -> Option<ValidityFinding> {
    let message = format!(
        "Latencies come from {}, which may start timing at different moments.",
        quote_names(generators.iter().map(String::as_str))
    );
    let remedy = "Compare only latencies from one version of one generator.";
    (generators.len() > 1)
        .then(|| ValidityFinding::amber(ValidityCheck::Generators, message, remedy))
}

/// Withdraws verdicts on latencies that must not be ranked.
pub(crate) fn withdraw_latency_verdicts(
    validity: &[ValidityFinding],
    comparisons: &mut [CandidateComparison],
) {
    let rankings = validity.iter().filter(|finding| finding.check == ValidityCheck::LatencyRanking);
    for ranking in rankings {
        let is_refused = |a: &str, b: &str| {
            let mut pairs = ranking.pairs.iter();
            pairs.any(|(one, other)| (one == a && other == b) || (one == b && other == a))
        };
        for comparison in comparisons.iter_mut() {
            let is_latency = comparison.metric.name.starts_with("latency");
            if !is_latency || !is_refused(&comparison.baseline, &comparison.candidate) {
                continue;
            }
            let rows = comparison.rows.iter_mut();
            for row in rows.filter(|row| ranking.cases.contains(&row.case.id())) {
                row.verdict = Verdict::Unclear;
                row.no_verdict = Some(NoVerdict::NotComparable);
                row.differs = false;
                row.more_runs = None;
                row.notes.push(REFUSED.to_owned());
            }
        }
    }
}

/// A metric in percent, and the limit above which it is reported.
struct PercentLimit {
    check: ValidityCheck,
    metric: &'static str,
    percent: f64,
    message: &'static str,
    remedy: &'static str,
}

const LIMITS: [PercentLimit; 3] = [
    PercentLimit {
        check: ValidityCheck::GeneratorBusy,
        metric: "generator_busy",
        percent: 90.0,
        message: "The load generator used {}% of its core{}, so it may have been the bottleneck.",
        remedy: "Give it more threads or processors of its own, or a lighter load.",
    },
    PercentLimit {
        check: ValidityCheck::Pressure,
        metric: "pressure",
        percent: 10.0,
        message: "Tasks waited for a processor {}% of the time{}.",
        remedy: "Stop other programs, or pin server and generator to separate processors.",
    },
    PercentLimit {
        check: ValidityCheck::Steal,
        metric: "steal",
        percent: 1.0,
        message: "The hypervisor gave {}% of the time to other guests{}.",
        remedy: "Measure on a machine that is not shared.",
    },
];

/// Metrics that have limits.
pub(super) fn limited_metrics() -> impl Iterator<Item = &'static str> {
    LIMITS.iter().map(|limit| limit.metric)
}

/// One finding per limit, for all affected cells, because other activity on the machine rarely
/// affects only one cell.
pub(super) fn check_machine(cells: &CheckedCells<'_>) -> Vec<ValidityFinding> {
    LIMITS.iter().filter_map(|limit| limit_finding(cells, limit)).collect()
}

fn limit_finding(cells: &CheckedCells<'_>, limit: &PercentLimit) -> Option<ValidityFinding> {
    // Each affected cell with the numbers of its runs that exceed the limit, and the highest value.
    let excesses = cells.cells.iter().filter_map(|cell| {
        let (values, runs) = cell
            .known_figures(|run| run.value_of(limit.metric).filter(|value| *value > limit.percent));
        Some((cell, runs, values.into_iter().reduce(f64::max)?))
    });
    let excesses: Vec<(&CheckedCell<'_>, Vec<usize>, f64)> = excesses.collect();
    let (worst, _, max_percent) = excesses.iter().max_by(|one, other| one.2.total_cmp(&other.2))?;
    let hits: usize = excesses.iter().map(|(_, runs, _)| runs.len()).sum();
    let up_to = if hits == 1 { "" } else { "up to " };
    let percent = format!("{up_to}{max_percent:.0}");
    let cases = distinct_items(excesses.iter().map(|(cell, ..)| cell.case.clone()));
    let (runs, location) = match &excesses[..] {
        [(cell, runs, _)] => (runs.clone(), format_run_numbers(runs, cell.runs.len())),
        _ => {
            let total: usize = cells.cells.iter().map(|cell| cell.runs.len()).sum();
            let numbers: Vec<usize> = (1..=hits).collect();
            let count = if hits == total {
                format_run_numbers(&numbers, total)
            } else {
                format!(" in {hits} of {total} runs")
            };
            (Vec::new(), count + &most_with(cells, worst, cases.len()))
        }
    };
    let message = limit.message.replacen("{}", &percent, 1);
    Some(ValidityFinding {
        cases,
        variants: distinct_items(excesses.iter().flat_map(|(cell, ..)| cells.variant_of(cell))),
        runs,
        ..ValidityFinding::amber(limit.check, message.replacen("{}", &location, 1), limit.remedy)
    })
}

/// Names the cell with the highest value, such as `, most with 'cyan' in 'http server=koa'`. The
/// case is left out if `cases`, the number of cases, is 1.
fn most_with(cells: &CheckedCells<'_>, worst: &CheckedCell<'_>, cases: usize) -> String {
    let case = (cases > 1).then(|| worst.case.clone());
    let names = cells.variant_of(worst).into_iter().chain(case);
    let names: Vec<String> = names.map(|name| format!("'{name}'")).collect();
    format!(", most with {}", names.join(" in "))
}

/// If less than this fraction of the requested concurrency was in flight, latencies belong to a
/// lighter load than requested.
pub(super) const MIN_CONCURRENCY_SHARE: f64 = 0.95;

/// If more than this multiple of the requested concurrency was in flight, the figures contradict
/// each other, because a connection carries one request at a time, or as many as are pipelined.
const MAX_CONCURRENCY_SHARE: f64 = 1.05;

const CONTRADICTION: &str = "Look for a wrong unit, a shifted column, or latencies and rates of \
    different runs; if latencies are measured from the scheduled send time, give the request rate (--set \
    rate=N).";

const REMEDY: &str = "The measured latencies belong to the lower concurrency; check whether connections \
    waited to be accepted (backlog), whether they were kept open, and whether the \
    generator was busy.";

const TOO_FEW: &str = "Send many times more requests than there are connections.";

/// Findings about cells with runs that did not carry the requested load.
pub(super) fn check_in_flight(cells: &CheckedCells<'_>) -> Vec<ValidityFinding> {
    cells.cells.iter().flat_map(|cell| load_findings(cells, cell)).collect()
}

fn load_findings(cells: &CheckedCells<'_>, cell: &CheckedCell<'_>) -> Vec<ValidityFinding> {
    let Some(requested) = cell.requested else { return Vec::new() };
    let check = ValidityCheck::InFlight;
    let in_runs = |runs: &[usize]| format_run_numbers(runs, cell.runs.len());
    let is_too_short = |run: &Run| {
        run.value_of("latency_mean").is_some()
            && requests_of(run).is_some_and(|requests| requests < requested)
    };
    let too_few = |run: &Run| requests_of(run).filter(|_| is_too_short(run));
    let (requests, runs) = cell.known_figures(too_few);
    let message = format!(
        "{} requests cannot keep {requested} in flight{}.",
        requests.first().copied().unwrap_or_default(),
        in_runs(&runs)
    );
    let short = ValidityFinding::amber(check, message, TOO_FEW).in_cell(cells, cell, runs);
    let in_flight_if = |deviates: &dyn Fn(RoundedFigure) -> bool, run: &Run| {
        let figure = cells.in_flight(run)?;
        deviates(figure).then_some(figure.value)
    };
    let is_lighter = |figure: RoundedFigure| figure.high < requested * MIN_CONCURRENCY_SHARE;
    let (values, runs) =
        cell.known_figures(|run| in_flight_if(&is_lighter, run).filter(|_| !is_too_short(run)));
    let message = format!(
        "Only {} of {requested} requests were in flight{} (rate times mean latency).",
        format_span(&values),
        in_runs(&runs)
    );
    let lighter = ValidityFinding::amber(check, message, REMEDY).in_cell(cells, cell, runs);
    let is_heavier = |figure: RoundedFigure| figure.low > requested * MAX_CONCURRENCY_SHARE;
    let (values, runs) = cell.known_figures(|run| in_flight_if(&is_heavier, run));
    let message = format!(
        "Rate times mean latency gives {} requests in flight{}, more than the {requested} that were configured.",
        format_span(&values),
        in_runs(&runs)
    );
    let heavier = ValidityFinding::red(check, message, CONTRADICTION).in_cell(cells, cell, runs);
    let findings = [short, lighter, heavier].into_iter();
    findings.filter(|finding| !finding.runs.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{add_measured_runs, add_run, of_check, published};
    use super::*;
    use crate::AnalysisSettings;
    use crate::validity::{KnownFacts, check_session};

    fn checked(repeated: f64, new: f64) -> Vec<ValidityFinding> {
        let mut session = published(&["old", "old-again", "new"]);
        add_measured_runs(&mut session, "old", 1000.0, 249.0);
        add_measured_runs(&mut session, "old-again", repeated, 249.0);
        add_measured_runs(&mut session, "new", new, 249.0);
        let compared = crate::analyze_session(&session, &AnalysisSettings::default()).comparisons;
        assert_eq!(&*compared[0].candidate, "old-again");
        let facts = KnownFacts {
            never_better: vec!["new".to_owned()],
            control: Some(&compared[0]),
            ..KnownFacts::default()
        };
        check_session(&session, &facts)
    }

    #[test]
    fn a_differing_control_is_reported_and_counts_as_noise() {
        let noisy = checked(1300.0, 1200.0);
        let [differs] = of_check(&noisy, ValidityCheck::ControlDiffers)[..] else {
            panic!("{noisy:?}");
        };
        let says = "'old-again' is the same program as 'old', but their results differ in 1 of \
                    1 cases: 'a concurrency=250'.";
        assert_eq!(differs.says, says);
        assert!(of_check(&noisy, ValidityCheck::BetterThanPossible).is_empty());
    }

    /// Cases and message of the finding that `new` is better although that should be impossible.
    /// There is no control.
    fn impossible(figures: &[(&str, &str, f64)], metric: &str) -> (Vec<String>, String) {
        let mut session = published(&["old", "new"]);
        for (case, variant, value) in figures {
            add_run(&mut session, case, variant, &[(metric, *value)]);
        }
        let facts = KnownFacts { never_better: vec!["new".to_owned()], ..KnownFacts::default() };
        let found = check_session(&session, &facts);
        let [better] = of_check(&found, ValidityCheck::BetterThanPossible)[..] else {
            panic!("{found:?}");
        };
        (better.cases.clone(), better.says.clone())
    }

    #[test]
    fn an_impossibly_better_candidate_is_reported_with_its_cases() {
        let figures = [("a", 132.0), ("b", 77.0), ("c", 102.0)]
            .map(|(case, new)| [(case, "old", 100.0), (case, "new", new)]);
        let (cases, says) = impossible(figures.as_flattened(), "throughput");
        assert_eq!(cases, ["a", "c"]);
        assert!(says.contains("in 2 of 3 cases, by up to 32% ('a')"), "{says}");
    }

    /// Published instruction counts: with a module, koa needs a third fewer instructions than
    /// without it, and hapi needs twice as many.
    #[test]
    fn fewer_instructions_for_more_work_are_reported() {
        let figures = [
            ("koa", "old", 148_004.0),
            ("koa", "old", 148_433.0),
            ("koa", "new", 101_634.0),
            ("koa", "new", 109_057.0),
            ("hapi", "old", 113_431.0),
            ("hapi", "old", 115_319.0),
            ("hapi", "new", 240_735.0),
            ("hapi", "new", 277_147.0),
        ];
        let (cases, says) = impossible(&figures, "instructions_per_request");
        assert_eq!(cases, ["koa"]);
        let expected = "'new' takes fewer instructions for a request than 'old' in 1 of 2 cases, by up to 29% ('koa')";
        assert!(says.starts_with(expected), "{says}");
    }

    #[test]
    fn an_impossible_improvement_beyond_a_quiet_control_is_reported() {
        let quiet = checked(1000.0, 1200.0);
        assert!(of_check(&quiet, ValidityCheck::ControlDiffers).is_empty());
        let [better] = of_check(&quiet, ValidityCheck::BetterThanPossible)[..] else {
            panic!("{quiet:?}");
        };
        let beyond = "and exceeds the difference found in the control";
        assert!(better.says.contains(beyond), "{}", better.says);
    }
}
