//! Writes the warnings about the plan of a session. They explain how the order of runs, the test,
//! the user's settings and the machine affect all verdicts, and suggest paired runs on one processor
//! for cases that a busy machine left unclear ([`pairs_hint`]).
//!
//! Changes no figure and no verdict.

use crate::comparison::analyze_session;
use crate::policy::{JudgingPolicy, to_percent};
use crate::{AnalysisFindings, AnalysisSettings};
use speedwell_model::{
    Environment, Metric, MetricDirection, NoiseCalibration, RunOrder, Session, SessionDesign,
    StoppingDesign, Verdict,
};
use std::collections::BTreeSet;

/// Warns that the execution order weakens comparisons within a session.
pub(super) fn warn_order(order: RunOrder) -> Option<String> {
    let text = match order {
        RunOrder::Blocks | RunOrder::Paired => return None,
        RunOrder::Alternate => {
            "Runs alternated in a fixed order: noise with a period of two runs looks like a \
             change, so verdicts are indicative."
        }
        RunOrder::Parallel => {
            "The variants ran at the same time and may have disturbed each other, so verdicts are \
             indicative."
        }
        RunOrder::Imported => {
            "The order of the runs was not randomised by Speedwell, so verdicts are indicative."
        }
    };
    Some(text.into())
}

/// Warns that the preferred direction of a metric is unknown.
pub(super) fn warn_direction(metric: &Metric) -> Option<String> {
    let name = &metric.name;
    (metric.better == MetricDirection::Unknown).then(|| {
        format!(
            "It is unknown whether more or less of '{name}' is better, so its changes have no \
             verdict; set the direction with --better '{name}=lower' or '{name}=higher'."
        )
    })
}

/// Explains the consequences of comparing different cases of one session.
pub(super) fn warn_turns((old, new): (&str, &str), order: RunOrder) -> Option<String> {
    match order {
        RunOrder::Blocks | RunOrder::Paired => Some(format!(
            "'{old}' and '{new}' are different cases of one session: they alternated, always in \
             the same order, so verdicts are indicative."
        )),
        other => warn_order(other),
    }
}

/// Warns if the requested test was replaced by another.
pub(super) fn warn_method(settings: &AnalysisSettings, policy: &JudgingPolicy) -> Option<String> {
    let was_replaced = settings.method.is_some_and(|method| method != policy.method);
    was_replaced
        .then(|| "The rank test needs randomised blocks; using the default test instead.".into())
}

/// Warns if the user's settings differ from the settings that were fixed before measuring.
pub(super) fn warn_plan(design: &SessionDesign, settings: &AnalysisSettings) -> Option<String> {
    let StoppingDesign::Sequential { alpha, delta, .. } = &design.stopping else { return None };
    let differs = |requested: f64, planned: f64| (requested - planned).abs() > 1e-9;
    let confidence = settings.confidence.is_some_and(|requested| differs(1.0 - requested, *alpha));
    let threshold = settings.threshold.is_some_and(|requested| differs(requested, *delta));
    (confidence || threshold).then(|| {
        format!(
            "The plan was made for a confidence of {}% and a delta of {}%; with other choices \
             the verdicts are exploratory.",
            to_percent(1.0 - alpha),
            to_percent(*delta)
        )
    })
}

/// Warns that the calibration of a machine counted too many or too few false alarms. `None` if
/// their number is in the expected range.
pub fn warn_uncalibrated(machine: &Environment, calibration: &NoiseCalibration) -> Option<String> {
    let effect = if calibration.false_alarms > calibration.expected_high {
        "differences are found where there are none"
    } else {
        "the test is more conservative than stated"
    };
    let host = machine.host.as_deref().unwrap_or("unknown");
    (!calibration.is_in_range()).then(|| {
        format!(
            "The machine '{host}' is not calibrated: @{} found {} in {} comparisons of the same thing, \
             where {} to {} are expected; {effect}.",
            calibration.session,
            format_count(calibration.false_alarms as usize, "false alarm", "false alarms"),
            calibration.comparisons,
            calibration.expected_low,
            calibration.expected_high,
        )
    })
}

/// Suggests `--order paired` with the number of pairs that the unclear cases would need. `None` if
/// the machine was quiet, if every case with one worker has a verdict, or if the session lacks
/// blocks or processor times. The number is estimated from the processor time of the runs measured
/// so far, because paired runs compare only processor time.
pub fn pairs_hint(
    session: &Session,
    findings: &AnalysisFindings,
    settings: &AnalysisSettings,
) -> Option<String> {
    let unclear: BTreeSet<String> = findings
        .comparisons
        .iter()
        .flat_map(|comparison| &comparison.rows)
        .filter(|row| row.withheld.is_none())
        .filter(|row| row.verdict == Verdict::Unclear && row.case.workers().unwrap_or(1) == 1)
        .map(|row| row.case.id())
        .collect();
    let measured_apart = session.design.order == RunOrder::Blocks
        && session.design.order_choice.is_none()
        && session.environment.was_busy();
    session.metric(Metric::CPU_TIME)?;
    if unclear.is_empty() || !measured_apart {
        return None;
    }
    let by_processor_time =
        AnalysisSettings { metrics: vec![Metric::CPU_TIME.to_owned()], ..settings.clone() };
    let as_they_are = runs_for_verdicts(findings, &unclear).unwrap_or(usize::MAX);
    // The estimate is an upper limit, because pairs also cancel the noise that both sides share.
    let estimate = runs_for_verdicts(&analyze_session(session, &by_processor_time), &unclear)
        .filter(|pairs| *pairs < as_they_are)
        .map_or_else(String::new, |pairs| {
            format!(
                "; judging by the processor time of these runs, {pairs} pairs or fewer would suffice"
            )
        });
    Some(format!(
        "--order paired compares processor time while both sides share a processor{estimate}"
    ))
}

/// Number of runs per side that would give all these cases a verdict, if known.
fn runs_for_verdicts(findings: &AnalysisFindings, cases: &BTreeSet<String>) -> Option<usize> {
    let rows = findings.comparisons.iter().flat_map(|comparison| &comparison.rows);
    let run_counts = rows.filter(|row| cases.contains(&row.case.id())).map(|row| {
        let runs = row.baseline.runs.len().min(row.candidate.runs.len());
        match row.verdict {
            Verdict::Unclear => Some(runs + row.more_runs? as usize),
            _ => Some(runs),
        }
    });
    let run_counts: Option<Vec<usize>> = run_counts.collect();
    run_counts?.into_iter().max()
}

/// Adds the warnings that are not in the list yet.
pub(super) fn add_distinct(
    warnings: &mut Vec<String>,
    additional: impl IntoIterator<Item = String>,
) {
    for warning in additional {
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
}

/// Names in quotes, joined by commas.
pub(super) fn quote_list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ")
}

/// Formats a number with the singular or plural noun.
pub(super) fn format_count(number: usize, singular: &str, plural: &str) -> String {
    format!("{number} {}", if number == 1 { singular } else { plural })
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_fixtures::FakeSession;
    use speedwell_model::Sample;
    use std::sync::Arc;

    /// A session whose wall time is too noisy to decide, and whose processor time differs by 5%.
    fn noisy(pressure: &str) -> Session {
        let mut session =
            FakeSession::sequential(&["old", "new"], 16).add_noisy_case("b", 0.4, |_| 1.0).build();
        session.metrics.push(Metric::cpu_time());
        let fact = ("now_cpu_pressure_percent".to_owned(), pressure.to_owned());
        session.environment.facts = [fact].into();
        for (number, run) in session.runs.iter_mut().enumerate() {
            let factor = if &*run.variant == "new" { 1.05 } else { 1.0 };
            run.samples.push(Sample {
                metric: Arc::from(Metric::CPU_TIME),
                value: factor * (1000.0 + (number * 7919 % 11) as f64),
                elapsed_ns: None,
                iterations: None,
            });
        }
        session
    }

    fn hint_for(session: &Session) -> Option<String> {
        let settings = AnalysisSettings::default();
        pairs_hint(session, &analyze_session(session, &settings), &settings)
    }

    #[test]
    fn unclear_results_of_a_busy_machine_get_a_hint_to_measure_pairs() {
        let hint = hint_for(&noisy("80")).unwrap();
        assert!(hint.ends_with("32 pairs or fewer would suffice"), "{hint}");
        assert_eq!(hint_for(&noisy("3")), None, "the machine was quiet");
        let mut session = noisy("80");
        session.metrics.pop();
        assert_eq!(hint_for(&session), None, "no processor time");
        let mut session = noisy("80");
        session.runs.retain(|run| run.case.id() != "b");
        assert_eq!(hint_for(&session), None, "nothing is unclear");
    }
}
