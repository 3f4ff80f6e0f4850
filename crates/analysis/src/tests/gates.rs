//! The table of docs/reference/gates.md, cell by cell.

use crate::gate::{self, FailOn, GateAnswer, GateOutcome};
use crate::validity::{FindingSeverity, ValidityCheck, ValidityFinding};
use crate::{AnalysisFindings, AnalysisSettings, WithheldReason, compare_sources};
use speedwell_fixtures::FakeSession;
use speedwell_model::{
    FailureCause, Metric, MetricDirection, RunOrder, Session, SessionState, SessionStep,
    StepFailure, Verdict,
};

const VARIANTS: [&str; 2] = ["old", "new"];

/// An imported session with `runs` runs per side (an even number) of cases that differ by these
/// factors; lower is better.
fn imported_session(runs: u32, factors: &[f64]) -> Session {
    let mut story =
        FakeSession::with_order(&VARIANTS, runs / 2, RunOrder::Imported).lower_is_better();
    for (at, &factor) in factors.iter().enumerate() {
        let value = move |variant: &str, number: u32| {
            let own = if variant == "new" { factor } else { 1.0 };
            1000.0 * own + f64::from(number * 7 % 11)
        };
        story = story.add_case(&format!("g/{at}"), value);
    }
    story.build()
}

fn find_all_metrics(session: &Session) -> AnalysisFindings {
    let settings = AnalysisSettings {
        correction: crate::TestingCorrection::Holm,
        ..AnalysisSettings::default()
    };
    crate::analyze_session(session, &settings)
}

fn judge_gate(findings: &AnalysisFindings, fail_on: FailOn) -> GateOutcome {
    gate::judge_findings(findings, fail_on, None).unwrap()
}

#[track_caller]
fn assert_line(findings: &AnalysisFindings, fail_on: FailOn, line: &str) {
    assert_eq!(judge_gate(findings, fail_on).to_line(), line);
}

#[test]
fn without_a_rule_there_is_no_gate() {
    assert_eq!(
        gate::judge_findings(&find_all_metrics(&imported_session(8, &[2.0])), FailOn::Never, None),
        None
    );
}

#[test]
fn a_gate_passes_where_every_case_was_judged_and_none_is_worse() {
    let same = find_all_metrics(&imported_session(8, &[1.0, 0.5]));
    assert_line(&same, FailOn::Worse, "gate passed: 2 cases by throughput");
}

#[test]
fn a_worse_case_fails_the_gate() {
    let worse = find_all_metrics(&imported_session(8, &[1.0, 2.0]));
    assert_line(&worse, FailOn::Worse, "gate failed: 1 worse ('g/1') of 2 cases by throughput");
}

#[test]
fn unclear_cases_pass_one_rule_and_fail_the_other() {
    let mut findings = find_all_metrics(&imported_session(8, &[1.0, 0.5]));
    findings.comparisons[0].rows[0].verdict = Verdict::Unclear;
    assert_line(&findings, FailOn::Worse, "gate passed: 2 cases by throughput; 1 unclear");
    assert_line(
        &findings,
        FailOn::Unclear,
        "gate failed: 1 unclear ('g/0') of 2 cases by throughput",
    );
}

#[test]
fn an_unmatched_case_is_reported_and_fails_the_stricter_rule() {
    let mut findings = find_all_metrics(&imported_session(8, &[1.0]));
    findings.comparisons[0].only_baseline = vec!["g/gone".to_owned()];
    assert_line(
        &findings,
        FailOn::Worse,
        "gate passed: 1 case by throughput; 1 only in the baseline",
    );
    assert_line(
        &findings,
        FailOn::Unclear,
        "gate failed: 1 only in the baseline ('g/gone') of 1 case by throughput",
    );
}

#[test]
fn nothing_to_compare_cannot_be_judged() {
    let line = "gate cannot judge: there is nothing to compare; judged: no case";
    assert_line(&AnalysisFindings::default(), FailOn::Worse, line);
    let mut findings = find_all_metrics(&imported_session(8, &[1.0]));
    findings.comparisons[0].rows.clear();
    assert_line(&findings, FailOn::Worse, line);
}

#[test]
fn an_unknown_metric_cannot_be_judged() {
    let settings =
        AnalysisSettings { metrics: vec!["throughputt".to_owned()], ..AnalysisSettings::default() };
    let outcome =
        judge_gate(&crate::analyze_session(&imported_session(8, &[2.0]), &settings), FailOn::Worse);
    assert_eq!(outcome.to_answer(), GateAnswer::CannotJudge);
    assert_eq!(outcome.obstacles[0], "unknown metric 'throughputt'");
}

#[test]
fn a_metric_that_a_side_lacks_cannot_be_judged() {
    let (old, mut new) = (imported_session(8, &[1.0]), imported_session(8, &[1.0]));
    new.id = "other".into();
    let mut old = old;
    old.metrics.push(Metric::new("allocs", "", MetricDirection::Lower));
    for run in &mut old.runs {
        let mut sample = run.samples[0].clone();
        sample.metric = "allocs".into();
        run.samples.push(sample);
    }
    let settings =
        AnalysisSettings { metrics: vec!["all".to_owned()], ..AnalysisSettings::default() };
    let sources = [("a".to_owned(), &old, None), ("b".to_owned(), &new, None)];
    let outcome = judge_gate(&compare_sources(&sources, &settings), FailOn::Worse);
    assert_eq!(outcome.to_answer(), GateAnswer::CannotJudge, "{}", outcome.to_line());
    assert!(outcome.to_line().contains("'b' has no metric 'allocs'"), "{}", outcome.to_line());
}

#[test]
fn too_few_runs_cannot_be_judged() {
    let outcome = judge_gate(&find_all_metrics(&imported_session(2, &[2.0])), FailOn::Worse);
    assert_eq!(outcome.to_line(), "gate cannot judge: too few runs in 1 case; judged: no case");
    let note = &find_all_metrics(&imported_session(2, &[2.0])).comparisons[0].rows[0].notes[0];
    assert_eq!(note, "Too few runs: 2 a side can decide nothing; 4 are enough.");
}

#[test]
fn six_runs_a_side_decide_one_case_and_not_forty() {
    let one = find_all_metrics(&imported_session(6, &[2.0]));
    assert_eq!(judge_gate(&one, FailOn::Worse).to_answer(), GateAnswer::Failed);
    let forty = find_all_metrics(&imported_session(6, &[2.0; 40]));
    let outcome = judge_gate(&forty, FailOn::Worse);
    assert_eq!(outcome.to_answer(), GateAnswer::CannotJudge);
    // 23 = .05 / (2 / 924), and 2 / 3432 is below .05 / 40.
    let note = &forty.comparisons[0].rows[0].notes[0];
    assert_eq!(
        note,
        "Too few runs: 6 a side can decide at most 23 comparisons, and there are 40; 7 are enough."
    );
    assert_eq!(
        judge_gate(&find_all_metrics(&imported_session(8, &[2.0; 40])), FailOn::Worse).to_answer(),
        GateAnswer::Failed
    );
}

#[test]
fn repetitions_of_one_process_need_a_larger_difference_to_fail() {
    // Within a side, values differ by up to 1%.
    let answer_with = |factor| {
        let mut session = imported_session(8, &[factor]);
        for run in &mut session.runs {
            run.notes.push(speedwell_model::REPETITION.to_owned());
        }
        judge_gate(&find_all_metrics(&session), FailOn::Worse).to_answer()
    };
    assert_eq!(
        judge_gate(&find_all_metrics(&imported_session(8, &[1.012])), FailOn::Worse).to_answer(),
        GateAnswer::Failed
    );
    assert_eq!(answer_with(1.012), GateAnswer::Passed);
    assert_eq!(answer_with(1.05), GateAnswer::Failed);
}

#[test]
fn sides_with_different_numbers_of_runs_can_be_judged() {
    let mut session = imported_session(12, &[2.0]);
    let mut remaining_runs = 7;
    session.runs.retain(|run| {
        if &*run.variant == "new" {
            remaining_runs -= i32::from(remaining_runs >= 0);
        }
        &*run.variant == "old" || remaining_runs >= 0
    });
    assert_eq!(
        judge_gate(&find_all_metrics(&session), FailOn::Worse).to_answer(),
        GateAnswer::Failed
    );
}

#[test]
fn an_incomplete_session_cannot_be_judged_unless_a_case_is_worse() {
    for (state, words) in [
        (SessionState::Interrupted, "the session was interrupted after 16 runs"),
        (SessionState::Running, "the session did not end, or is still measuring"),
    ] {
        let mut session = imported_session(8, &[1.0]);
        session.state = state;
        let line = format!("gate cannot judge: {words}; judged: 1 case by throughput");
        assert_line(&find_all_metrics(&session), FailOn::Worse, &line);
        let mut session = imported_session(8, &[2.0]);
        session.state = state;
        let line = format!("gate failed: 1 worse ('g/0') of 1 case by throughput; {words}");
        assert_line(&find_all_metrics(&session), FailOn::Worse, &line);
    }
}

#[test]
fn a_failed_step_prevents_judging_and_a_skip_does_not() {
    let failure = |cause| StepFailure {
        step: SessionStep::Run,
        benchmark: "g/b".into(),
        case: Some("g/b".into()),
        variant: Some("new".into()),
        slot: None,
        cause,
        stderr_tail: String::new(),
        replay: String::new(),
    };
    let mut session = imported_session(8, &[1.0]);
    session.failures = vec![failure(FailureCause::Exit { code: 3 })];
    assert_line(
        &find_all_metrics(&session),
        FailOn::Worse,
        "gate cannot judge: 1 step failed; judged: 1 case by throughput",
    );
    session.failures = vec![failure(FailureCause::Skipped { reason: "no".into() })];
    assert_eq!(
        judge_gate(&find_all_metrics(&session), FailOn::Worse).to_answer(),
        GateAnswer::Passed
    );
}

#[test]
fn red_findings_prevent_judging_and_amber_findings_do_not() {
    let answer_with = |level| {
        let mut findings = find_all_metrics(&imported_session(8, &[1.0]));
        let finding = ValidityFinding {
            level,
            ..ValidityFinding::amber(ValidityCheck::Impossible, String::new(), "")
        };
        findings.validity = vec![finding];
        judge_gate(&findings, FailOn::Worse)
    };
    let red = answer_with(FindingSeverity::Red);
    assert_eq!(red.to_answer(), GateAnswer::CannotJudge);
    assert_eq!(red.obstacles, ["some figures must not be used (impossible-figures)"]);
    assert_eq!(answer_with(FindingSeverity::Amber).to_answer(), GateAnswer::Passed);
}

#[test]
fn a_benchmark_that_changed_is_left_out_and_cannot_be_judged_alone() {
    let mut findings = find_all_metrics(&imported_session(8, &[1.0, 2.0]));
    findings.comparisons[0].rows[1].withheld = Some(WithheldReason::BenchmarkChanged);
    assert_line(
        &findings,
        FailOn::Worse,
        "gate passed: 1 case by throughput; 1 left out: the benchmark itself changed",
    );
    findings.comparisons[0].rows[0].withheld = Some(WithheldReason::BenchmarkChanged);
    assert_line(
        &findings,
        FailOn::Worse,
        "gate cannot judge: the benchmark itself changed in 2 cases; judged: no case",
    );
}

#[test]
fn a_metric_without_direction_has_no_verdict_until_the_user_sets_one() {
    let mut session = imported_session(8, &[2.0]);
    session.metrics = vec![Metric::new("throughput", "misses/s", MetricDirection::Unknown)];
    let findings = find_all_metrics(&session);
    let row = &findings.comparisons[0].rows[0];
    assert_eq!((row.verdict, row.differs), (Verdict::Unclear, true));
    assert_eq!(findings.warnings.iter().filter(|w| w.contains("--better")).count(), 1);
    let outcome = judge_gate(&findings, FailOn::Worse);
    assert_eq!(outcome.to_answer(), GateAnswer::CannotJudge);
    assert!(
        outcome.to_line().contains("direction of throughput is unknown"),
        "{}",
        outcome.to_line()
    );
    for (better, answer) in [
        (MetricDirection::Lower, GateAnswer::Failed),
        (MetricDirection::Higher, GateAnswer::Passed),
    ] {
        let settings = AnalysisSettings {
            better: [("throughput".to_owned(), better)].into(),
            ..AnalysisSettings::default()
        };
        let outcome = judge_gate(&crate::analyze_session(&session, &settings), FailOn::Worse);
        assert_eq!(outcome.to_answer(), answer);
    }
}

#[test]
fn a_metric_that_differs_and_is_not_in_the_gate_is_named() {
    let gated = find_all_metrics(&imported_session(8, &[1.0]));
    let mut all_findings = find_all_metrics(&imported_session(8, &[1.0]));
    let mut other = find_all_metrics(&imported_session(8, &[2.0])).comparisons.remove(0);
    other.metric.name = "allocs_per_op".to_owned();
    all_findings.comparisons.push(other);
    let outcome = gate::judge_findings(&gated, FailOn::Worse, Some(&all_findings)).unwrap();
    assert_eq!(
        outcome.to_line(),
        "gate passed: 1 case by throughput; allocs_per_op differs but is not in the gate"
    );
}

#[test]
fn variants_that_take_no_part_are_named() {
    let (old, mut new) = (imported_session(8, &[1.0]), imported_session(8, &[0.5]));
    new.id = "other".into();
    let sources = [("a".to_owned(), &old, None), ("b".to_owned(), &new, None)];
    let outcome =
        judge_gate(&compare_sources(&sources, &AnalysisSettings::default()), FailOn::Worse);
    let line = outcome.to_line();
    assert!(line.contains("'new' of 'a' left out; 'new' of 'b' left out"), "{line}");
}

#[test]
fn a_copy_of_the_same_results_cannot_be_judged() {
    let (old, copy) = (imported_session(8, &[1.0]), imported_session(8, &[1.0]));
    let sources = [("a".to_owned(), &old, None), ("b".to_owned(), &copy, None)];
    let outcome =
        judge_gate(&compare_sources(&sources, &AnalysisSettings::default()), FailOn::Worse);
    assert_eq!(outcome.to_answer(), GateAnswer::CannotJudge);
    assert!(
        outcome.to_line().contains("'a' and 'b' contain the same results"),
        "{}",
        outcome.to_line()
    );
}
