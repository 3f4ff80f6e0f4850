//! Suggests paired runs on one processor for cases that a busy machine left unclear, with the number
//! of pairs that they would need ([`pairs_hint`]).

use crate::comparison::analyze_session;
use crate::{AnalysisFindings, AnalysisSettings};
use speedwell_model::{Metric, RunOrder, Session, Verdict};
use std::collections::BTreeSet;

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
