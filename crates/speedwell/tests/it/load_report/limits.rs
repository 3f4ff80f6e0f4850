//! Limits of loads, and the highest rate: what passes, what fails, and what cannot be judged.

use super::sample_loads::{MS, MadeLoad, US};
use super::{scheduled, thousand};
use speedwell_analysis::gate::GateAnswer;
use speedwell_analysis::load::gate::{
    ConditionAnswer, JudgedCondition, LoadCondition, UnknownReason, gate_outcome, judge_conditions,
};
use speedwell_analysis::load::{
    LoadRemark, MissedReason, RateRules, TimeRefusal, analyze_load, group_by_rate, next_rate,
};
use speedwell_model::load::latency::RequestOutcome;
use speedwell_model::load::outcomes::ErrorClass;
use speedwell_report::load::{gate_lines, report_search};
use speedwell_report::{OutputOptions, ReportBlock};

fn conditions(texts: &[&str]) -> Vec<LoadCondition> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// Whether every load passes every condition.
fn passes(judged: &[JudgedCondition<'_>]) -> bool {
    gate_outcome(judged).unwrap().to_answer() == GateAnswer::Passed
}

#[test]
fn limits_pass_fail_or_cannot_be_judged() {
    let made =
        thousand().with_outcomes(RequestOutcome::Failed(ErrorClass::TimeoutTotal), 10, 10 * US);
    let loads = [analyze_load(&made.run)];
    for (text, answer) in [
        ("p99>991ms", ConditionAnswer::Passed),
        ("p99>980us", ConditionAnswer::Failed),
        // The 505th of 1010 requests, because failed requests count as the slowest.
        ("p50<507us", ConditionAnswer::Failed),
        ("p50<505us", ConditionAnswer::Passed),
        ("p99.1>1h", ConditionAnswer::Failed),
        ("max>1h", ConditionAnswer::Failed),
        ("mean>1h", ConditionAnswer::Failed),
        ("first-byte-p99>501us", ConditionAnswer::Passed),
        ("errors>0", ConditionAnswer::Failed),
        ("errors>1%", ConditionAnswer::Passed),
        ("errors>0.9%", ConditionAnswer::Failed),
        ("ok<100%", ConditionAnswer::Failed),
        ("ok<99%", ConditionAnswer::Passed),
        ("throughput<9k", ConditionAnswer::Passed),
        ("throughput<10k", ConditionAnswer::Failed),
        ("connect-max>80us", ConditionAnswer::Passed),
        ("response p99>1s", ConditionAnswer::Unknown(UnknownReason::ClosedLoad)),
        ("lag-p99>1s", ConditionAnswer::Unknown(UnknownReason::ClosedLoad)),
    ] {
        let conditions = conditions(&[text]);
        let judged = judge_conditions(&conditions, &loads);
        assert_eq!(judged[0].answer, answer, "{text}: {:?}", judged[0].value);
        assert_eq!(passes(&judged), answer == ConditionAnswer::Passed);
    }
}

#[test]
fn refused_figures_never_pass_and_bounds_pass_only_if_conclusive() {
    let limited = scheduled(5 * MS);
    let loads = [analyze_load(&limited.run)];
    let conditions_of_times = conditions(&["p50>1h", "service-p50>1h", "mean>1h", "lag-p99>1s"]);
    let answers: Vec<ConditionAnswer> =
        judge_conditions(&conditions_of_times, &loads).iter().map(|row| row.answer).collect();
    let refused = ConditionAnswer::Unknown(UnknownReason::Refused(TimeRefusal::GeneratorLimited));
    assert_eq!(answers, [refused, refused, refused, ConditionAnswer::Passed]);

    // Between 1 and 1.5 ms: half a millisecond is the generator's own lateness.
    let late = scheduled(500 * US);
    let loads = [analyze_load(&late.run)];
    for (text, answer) in [
        ("p99>1200us", ConditionAnswer::Unknown(UnknownReason::Range)),
        ("p99<1200us", ConditionAnswer::Unknown(UnknownReason::Range)),
        ("mean>1200us", ConditionAnswer::Unknown(UnknownReason::Range)),
        ("max>1200us", ConditionAnswer::Unknown(UnknownReason::Range)),
        ("p99>2ms", ConditionAnswer::Passed),
        ("p99>900us", ConditionAnswer::Failed),
        ("service-p99>1200us", ConditionAnswer::Passed),
    ] {
        let conditions = conditions(&[text]);
        let judged = judge_conditions(&conditions, &loads);
        assert_eq!(judged[0].answer, answer, "{text}: {:?}", judged[0]);
    }

    // The slowest 20 had not ended after 10 ms.
    let mut made = scheduled(0);
    for _ in 0..20 {
        made.add_request(RequestOutcome::Unsent, 0, 10 * MS);
    }
    let loads = [analyze_load(&made.run)];
    for (text, answer) in [
        ("p99>9ms", ConditionAnswer::Failed),
        ("p99>11ms", ConditionAnswer::Unknown(UnknownReason::LowerBound)),
        ("p99<9ms", ConditionAnswer::Passed),
        ("p99<11ms", ConditionAnswer::Unknown(UnknownReason::LowerBound)),
        ("p90>2ms", ConditionAnswer::Passed),
    ] {
        assert_eq!(judge_conditions(&conditions(&[text]), &loads)[0].answer, answer, "{text}");
    }
}

/// The lines of a gate over one load.
fn lines(made: &MadeLoad, texts: &[&str]) -> Vec<String> {
    let (conditions, loads) = (conditions(texts), [analyze_load(&made.run)]);
    gate_lines(&judge_conditions(&conditions, &loads))
}

#[test]
fn requests_that_fail_fast_do_not_pass_a_limit_on_time() {
    let fail = RequestOutcome::Failed(ErrorClass::Status);
    let closed = || MadeLoad::closed(5).with_outcomes(RequestOutcome::Ok, 380, MS);
    let open = || MadeLoad::open(1000.0).with_outcomes(RequestOutcome::Ok, 380, MS);
    for made in [closed(), open()] {
        let made = made.with_outcomes(fail, 620, 10 * US);
        for figure in ["p99", "p50", "mean", "max", "service-p99", "first-byte-p99"] {
            let why = format!(
                "gate failed: 62% of the requests failed, so {figure} is above every limit"
            );
            assert_eq!(lines(&made, &[&format!("{figure}>1h")]), [why]);
        }
        // The percentile of the successful third alone is still known.
        let passed = lines(&made, &["p25>20ms"]).concat();
        assert!(
            passed.starts_with("gate passed: p25 1.00 ms (62% of the requests failed"),
            "{passed}"
        );
    }
    let all_failed = MadeLoad::closed(5).with_outcomes(fail, 150, US);
    let why = "gate failed: 100% of the requests failed, so p99 is above every limit";
    assert_eq!(lines(&all_failed, &["p99>20ms"]), [why]);
}

#[test]
fn a_rate_at_which_too_many_requests_fail_for_the_limit_is_missed() {
    let kept = MadeLoad::open(500.0).with_outcomes(RequestOutcome::Ok, 500, MS);
    let fail = RequestOutcome::Failed(ErrorClass::Status);
    let missed = MadeLoad::open(1000.0).with_outcomes(RequestOutcome::Ok, 985, MS);
    let missed = missed.with_outcomes(fail, 15, US);
    let loads = [analyze_load(&kept.run), analyze_load(&missed.run)];
    let reasons = |limit: &str| -> Vec<Option<MissedReason>> {
        let found = group_by_rate(&loads, &conditions(&[limit])).remove(0);
        found.tries.into_iter().map(|attempt| attempt.missed).collect()
    };
    assert_eq!(reasons("p99>20ms"), [None, Some(MissedReason::Limit("p99>20ms".to_owned()))]);
    assert_eq!(reasons("p98>20ms"), [None, None]);
}

#[test]
fn an_attempt_to_connect_that_fails_counts_as_slower_than_any_limit() {
    let made = thousand().with_change(|run| {
        run.measured.totals.outcomes.connections.tried += 1;
        run.measured.totals.outcomes.connections.failed += 1;
    });
    let told = lines(&made, &["connect-p99>1h"]).concat();
    assert!(told.contains("11% of the connection attempts failed"), "{told}");
    assert!(lines(&made, &["p99>1h"]).concat().starts_with("gate passed: p99 990 µs, "));
}

#[test]
fn a_lower_bound_above_the_limit_decides_although_the_figure_is_unknown() {
    // 100 of 1100 were never sent and are 3.4 s old: the 99th percentile is refused.
    let mut made = scheduled(0);
    for _ in 0..100 {
        made.add_request(RequestOutcome::Unsent, 0, 3400 * MS);
    }
    let told = lines(&made, &["p99>20ms"]).concat();
    assert_eq!(told, "gate failed: p99 ≥ 3.40 s > 20 ms");
    let told = lines(&made, &["p99>5s"]).concat();
    assert!(told.starts_with("gate cannot judge: p99 > 5 s: fewer than 98%"), "{told}");
    // Between 1 and 6 ms, because the generator was late.
    let made = scheduled(5 * MS);
    assert_eq!(lines(&made, &["p99>900us"]), ["gate failed: p99 ≥ 1.00 ms > 900 µs"]);
    let told = lines(&made, &["mean>2ms"]).concat();
    assert!(told.starts_with("gate cannot judge: mean > 2 ms: the generator itself"), "{told}");
}

#[test]
fn no_condition_can_be_judged_for_a_load_without_requests() {
    let made = MadeLoad::closed(1).with_change(|run| run.measured.elapsed_ns = 0);
    let loads = [analyze_load(&made.run)];
    assert_eq!(loads[0].remarks, [LoadRemark::NothingAnswered]);
    let conditions = conditions(&["p99>1h", "errors>50%", "ok<1%", "throughput<1"]);
    let judged = judge_conditions(&conditions, &loads);
    assert!(
        judged.iter().all(|row| row.answer == ConditionAnswer::Unknown(UnknownReason::NoRequests))
    );
}

/// A trial of a rate during which the generator was interrupted this many times.
fn interrupted_load(rate: f64, times: u64, is_kept: bool) -> MadeLoad {
    let mut made = MadeLoad::open(rate).with_change(|run| {
        run.measured.threads[0].involuntary_switches = times;
    });
    for at in 0..rate as u64 {
        // A server that is too slow has a queue of half a second.
        let (outcome, service_ns) = if is_kept || at % 10 > 0 {
            (RequestOutcome::Ok, MS)
        } else {
            (RequestOutcome::Failed(ErrorClass::TimeoutTotal), 500 * MS)
        };
        made.add_request(outcome, service_ns, 0);
    }
    made
}

#[test]
fn a_rate_missed_by_a_disturbed_generator_may_not_be_the_limit() {
    let answer = |kept: u64, missed: u64| {
        let tries = [
            interrupted_load(1000.0, kept, true),
            interrupted_load(1000.0, kept, true),
            interrupted_load(1050.0, missed, false),
            interrupted_load(1050.0, missed, false),
        ];
        let loads: Vec<_> = tries.iter().map(|made| analyze_load(&made.run)).collect();
        let found = group_by_rate(&loads, &[]).remove(0);
        let bounds = (found.answer.kept, found.answer.missed);
        assert_eq!(bounds, (Some(1000.0), Some(1050.0)));
        let report =
            report_search(&loads, &[], std::slice::from_ref(&found), &OutputOptions::default());
        let headline = report.blocks.iter().find_map(|block| match block {
            ReportBlock::Headline(text) => Some(text.clone()),
            _ => None,
        });
        (found.is_disturbed, headline.unwrap())
    };
    let (is_disturbed, headline) = answer(300, 300);
    assert!(is_disturbed && headline.contains("at least 1,000/s; unclear whether"), "{headline}");
    // Queues at the missed rate mean that few interrupts affect many requests, which is only the
    // server's fault.
    let (is_disturbed, headline) = answer(2, 300);
    assert!(!is_disturbed && headline.contains("misses 1,050/s (fewer"), "{headline}");
    assert!(!answer(300, 0).0 && !answer(0, 0).0);
}

#[test]
fn the_highest_rate_is_refused_where_the_generator_was_the_limit() {
    let at = |rate: f64, late_ns: u64| {
        let mut made = MadeLoad::open(rate);
        for _ in 0..rate as u64 {
            made.add_request(RequestOutcome::Ok, MS, late_ns);
        }
        made
    };
    let rules = RateRules { first: 1000.0, limit: 1e6, resolution: 0.05 };
    let mut tries = vec![at(1000.0, 0), at(1000.0, 0)];
    for _ in 0..4 {
        let loads: Vec<_> = tries.iter().map(|made| analyze_load(&made.run)).collect();
        // A late generator says nothing about the server: the same rate is tried again.
        assert_eq!(next_rate(&loads, &[], &rules), Some(2000.0));
        drop(loads);
        tries.push(at(2000.0, 20 * MS));
    }
    let loads: Vec<_> = tries.iter().map(|made| analyze_load(&made.run)).collect();
    assert_eq!(next_rate(&loads, &[], &rules), None);
    let found = group_by_rate(&loads, &[]);
    assert_eq!(found[0].refused_at, Some(2000.0));
    assert_eq!((found[0].answer.kept, found[0].answer.missed), (Some(1000.0), None));
}
