//! Hand-made loads, from their figures to the report: which times are reported, which are withheld,
//! warnings, and whole reports against golden files.

pub mod golden;
mod limits;
pub mod sample_loads;

use sample_loads::{MS, MadeLoad, S, US};
use speedwell_analysis::load::{
    DriftMetric, LoadRemark, RemarkSeverity, ReportedTime, RequestGroup, TimeRefusal,
    TimedQuantity, analyze_load,
};
use speedwell_model::load::latency::{RequestOutcome, TimeQuantile};
use speedwell_model::load::outcomes::ErrorClass;

/// Asserts a time, which may be a thousandth too long because histograms round up.
#[track_caller]
fn assert_time(told: Option<ReportedTime>, ns: u64, is_lower_bound: bool) {
    let Some(ReportedTime::Time(time)) = told else {
        panic!("{told:?} is no time");
    };
    assert!((ns..=ns + ns / 1000).contains(&time.ns), "{} for {ns}", time.ns);
    assert_eq!(time.is_lower_bound, is_lower_bound);
}

/// 1000 responses of 1 µs to 1 ms: their service times sum up to 500.5 ms.
fn thousand() -> MadeLoad {
    MadeLoad::closed(5)
        .with_successes(1000, US)
        .with_connections(&[80 * US; 8])
        .with_change(|run| run.measured.elapsed_ns = 100_100_000)
}

#[test]
fn a_closed_load_has_the_figures_worked_out_on_paper() {
    let made = thousand();
    let found = analyze_load(&made.run);
    assert!((found.throughput_per_s.unwrap() - 1000.0 / 0.1001).abs() < 1e-6);
    assert_eq!(found.principal_quantity(), (TimedQuantity::Service, RequestGroup::Ok));
    for (ppm, us) in [(500_000, 500), (990_000, 990), (999_000, 999), (1_000_000, 1000)] {
        assert_time(
            found.quantile((TimedQuantity::Service, RequestGroup::Ok), ppm),
            us * US,
            false,
        );
    }
    // A percentile that is in no table: the one of rank 123.
    assert_time(
        found.quantile((TimedQuantity::Service, RequestGroup::Ok), 123_000),
        123 * US,
        false,
    );
    let times = found.times_of((TimedQuantity::Service, RequestGroup::Ok)).unwrap();
    let longest_ns = times.percentile(1_000_000).and_then(ReportedTime::longest_ns);
    assert_eq!((times.least_ns, longest_ns), (US, Some(MS)));
    assert_eq!(times.mean_ns, 500.5 * US as f64);
    // 500.5 ms of service time in 100.1 ms are 5 requests in flight.
    assert_eq!(found.concurrency.effective, Some(5.0));
    assert!(!found.concurrency.is_short);
    assert_eq!(found.balance, Ok(()));
    assert_eq!(found.remarks, []);
}

#[test]
fn a_closed_load_has_service_times_but_no_response_times() {
    let made = thousand();
    let found = analyze_load(&made.run);
    let quantities: Vec<TimedQuantity> = found.times.iter().map(|times| times.quantity).collect();
    assert_eq!(
        quantities,
        [TimedQuantity::Service, TimedQuantity::FirstByte, TimedQuantity::Connect]
    );
    assert_eq!(found.quantile((TimedQuantity::Response, RequestGroup::All), 990_000), None);
}

#[test]
fn a_warning_explains_a_load_lighter_than_requested() {
    // 500.5 ms of service time in a second: half a request in flight, plus six connecting.
    let made = thousand().with_change(|run| {
        run.measured.elapsed_ns = S;
        for _ in 0..60 {
            run.measured.totals.latency.record_connect(100 * MS);
        }
    });
    let found = analyze_load(&made.run);
    assert_eq!(found.remarks, [LoadRemark::ConcurrencyShort]);
    let in_flight = found.concurrency;
    assert_eq!(in_flight.requested, Some(5));
    let effective = in_flight.effective.unwrap();
    assert!((effective - 0.5005).abs() < 1e-9 && in_flight.connecting.unwrap() > 6.0);
    let text = golden::text(std::slice::from_ref(&found));
    assert!(text.contains("Only 0.5 of 5 requests were in flight on average"), "{text}");
    // At 95% it is not short.
    let enough = thousand().with_change(|run| run.measured.elapsed_ns = 105_300_000);
    assert!(!analyze_load(&enough.run).concurrency.is_short);
}

#[test]
fn clients_that_pause_are_not_expected_to_be_busy() {
    let made = thousand().with_change(|run| {
        run.measured.elapsed_ns = S;
        if let speedwell_model::load::measurement::PaceFacts::Closed { think_ns, .. } =
            &mut run.requested.pace
        {
            *think_ns = MS;
        }
    });
    let found = analyze_load(&made.run);
    assert_eq!((found.concurrency.requested, &found.remarks[..]), (None, &[][..]));
}

/// 1000 requests that were due at the start and took a millisecond each, sent `late_ns` late.
fn scheduled(late_ns: u64) -> MadeLoad {
    let mut made = MadeLoad::open(1000.0).with_connections(&[80 * US; 8]);
    for _ in 0..1000 {
        made.add_request(RequestOutcome::Ok, MS, late_ns);
    }
    made
}

#[test]
fn an_open_load_is_judged_by_its_response_time() {
    let made = scheduled(500 * US);
    let found = analyze_load(&made.run);
    assert_eq!(found.principal_quantity(), (TimedQuantity::Response, RequestGroup::All));
    // Half a millisecond of it is the generator's own lateness.
    let Some(ReportedTime::Range { low, high }) =
        found.quantile((TimedQuantity::Response, RequestGroup::All), 990_000)
    else {
        panic!("one figure for a third that is not the server's");
    };
    assert_time(Some(ReportedTime::Time(low)), MS, false);
    assert_time(Some(ReportedTime::Time(high)), 1500 * US, false);
    assert_time(found.quantile((TimedQuantity::Service, RequestGroup::Ok), 990_000), MS, false);
    assert_time(found.quantile((TimedQuantity::Lag, RequestGroup::All), 990_000), 500 * US, false);
    assert_eq!(found.remarks, []);
}

#[test]
fn times_of_a_late_generator_are_refused_but_its_lag_is_reported() {
    // 5 ms late, where a tenth of the response time, or 1 ms, is allowed.
    let made = scheduled(5 * MS);
    let found = analyze_load(&made.run);
    assert!(matches!(found.remarks[..], [LoadRemark::GeneratorLimited(_)]));
    for quantity in [TimedQuantity::Response, TimedQuantity::Service] {
        let group =
            if quantity == TimedQuantity::Service { RequestGroup::Ok } else { RequestGroup::All };
        for ppm in [1, 500_000, 990_000, 1_000_000] {
            assert_eq!(
                found.quantile((quantity, group), ppm),
                Some(ReportedTime::Refused(TimeRefusal::GeneratorLimited))
            );
        }
        let times = found.times_of((quantity, group)).unwrap();
        assert_eq!(times.refusal, Some(TimeRefusal::GeneratorLimited));
    }
    assert!(found.principal_bins().is_empty());
    assert_time(found.quantile((TimedQuantity::Lag, RequestGroup::All), 990_000), 5 * MS, false);
}

#[test]
fn a_missed_rate_refuses_the_tail_only() {
    // 21 of 1021 were never sent: 97.9%.
    let mut made = scheduled(0);
    for _ in 0..21 {
        made.add_request(RequestOutcome::Unsent, 0, 10 * MS);
    }
    let found = analyze_load(&made.run);
    assert!(found.remarks.iter().any(|remark| matches!(remark, LoadRemark::RateMissed(_))));
    assert_time(found.quantile((TimedQuantity::Response, RequestGroup::All), 950_000), MS, false);
    for ppm in [990_000, 999_000, 1_000_000] {
        assert_eq!(
            found.quantile((TimedQuantity::Response, RequestGroup::All), ppm),
            Some(ReportedTime::Refused(TimeRefusal::RateMissed))
        );
    }
    // With 20 of 1020 it is 98.04%, and the time of what was not sent is a lower bound.
    let mut made = scheduled(0);
    for _ in 0..20 {
        made.add_request(RequestOutcome::Unsent, 0, 10 * MS);
    }
    let found = analyze_load(&made.run);
    assert_time(
        found.quantile((TimedQuantity::Response, RequestGroup::All), 990_000),
        10 * MS,
        true,
    );
    assert_eq!(found.run.measured.totals.outcomes.check_balance(), Ok(()));
}

#[test]
fn failures_are_reported_with_their_most_frequent_class() {
    let made = thousand()
        .with_outcomes(RequestOutcome::Failed(ErrorClass::Status), 30, 10 * US)
        .with_outcomes(RequestOutcome::Failed(ErrorClass::ResetInBody), 20, 10 * US);
    let found = analyze_load(&made.run);
    assert!(found.remarks.contains(&LoadRemark::Failed(ErrorClass::Status)), "{:?}", found.remarks);
    let text = golden::text(std::slice::from_ref(&found));
    assert!(text.contains("50 of 1,050 requests failed (4.8%); most often"), "{text}");
    // Successful responses and all requests have a column each.
    let of_service = |group| found.times_of((TimedQuantity::Service, group)).unwrap();
    assert_eq!(
        (of_service(RequestGroup::Ok).count, of_service(RequestGroup::All).count),
        (1000, 1050)
    );
    let Some(ReportedTime::Time(TimeQuantile { ns, .. })) =
        of_service(RequestGroup::All).percentile(500_000)
    else {
        panic!()
    };
    assert!((475 * US..476 * US).contains(&ns), "{ns}");
}

#[test]
fn unbalanced_outcomes_are_reported_first_as_a_bug() {
    let made = thousand().with_change(|run| run.measured.totals.outcomes.count_attempt());
    let found = analyze_load(&made.run);
    assert_eq!(found.remarks[0].severity(), RemarkSeverity::Wrong);
    let text = golden::text(std::slice::from_ref(&found));
    assert!(text.contains("BUG IN SPEEDWELL"), "{text}");
    assert!(text.contains("1,001 attempted = 1,000 ok: NOT BALANCED"), "{text}");
}

#[test]
fn a_busy_generator_and_a_disturbed_one_are_told_apart() {
    let busy = thousand().with_change(|run| run.measured.threads[0].cpu_ns = S / 100 * 95);
    let found = analyze_load(&busy.run);
    assert_eq!(found.remarks, [LoadRemark::GeneratorBound]);
    assert_eq!((found.generator.bottlenecks, found.generator.threads), (1, 1));
    let polling = busy.with_change(|run| run.requested.busy_polls = true);
    assert_eq!(analyze_load(&polling.run).remarks, []);
    // 50 switches a second, each of which affects the 5 requests in flight, are 250 of 9990 a
    // second: 2.5%.
    let disturbed = thousand().with_change(|run| run.measured.threads[0].involuntary_switches = 50);
    let found = analyze_load(&disturbed.run);
    let [LoadRemark::Disturbed(share)] = found.remarks[..] else {
        panic!("{:?}", found.remarks);
    };
    assert_eq!(found.generator.switches_per_s, 50.0);
    assert!((share - 0.025025).abs() < 1e-9, "{share}");
    // A few do not affect the 99th percentile.
    let calm = thousand().with_change(|run| run.measured.threads[0].involuntary_switches = 19);
    assert_eq!(analyze_load(&calm.run).remarks, []);
}

#[test]
fn peculiarities_of_responses_are_remarks_rather_than_failures() {
    let made = thousand().with_change(|run| {
        let totals = &mut run.measured.totals;
        totals.responses.max_body_bytes = 20;
        totals.responses.doubtful_framing = 3;
        totals.responses.stray_bytes = 1;
        totals.responses.reusable -= 10;
        totals.outcomes.retries += 1;
        totals.outcomes.interim_codes.count_status(103);
    });
    let found = analyze_load(&made.run);
    let expected = [
        LoadRemark::DoubtfulFraming,
        LoadRemark::StrayBytes,
        LoadRemark::LengthsVary,
        LoadRemark::NotReusable,
        LoadRemark::Retried,
        LoadRemark::Interim,
    ];
    assert_eq!(found.remarks, expected);
    let text = golden::text(std::slice::from_ref(&found)).replace("\n  ", " ").replace('\n', " ");
    for sentence in [
        "3 responses stated their length in two ways",
        "1 connection was closed",
        "differ in length (14 to 20 bytes)",
        "closed the connection after 10 of 1,000 responses",
        "1 request was sent again",
        "1 response was preceded by an interim response",
    ] {
        assert!(text.contains(sentence), "{sentence}: {text}");
    }
}

#[test]
fn halves_that_differ_are_remarked_and_noise_is_not() {
    let course = |later: u64| -> Vec<u64> {
        let noise = |at: u64| (at * 7) % 5;
        let first = (0..20).map(|at| 1000 + noise(at));
        first.chain((0..20).map(|at| later + noise(at))).collect()
    };
    let remarks = |later: u64| {
        let made = thousand().with_ticks(0, &course(later)).with_change(|run| {
            // As many in flight as requested, whatever the length.
            run.requested.pace = MadeLoad::closed(1).run.requested.pace;
            run.measured.elapsed_ns = 4 * S;
        });
        analyze_load(&made.run).halves
    };
    assert_eq!(remarks(1000), None);
    assert_eq!(remarks(1040), None, "4% are alike");
    let halves = remarks(1100).unwrap();
    assert_eq!(halves.course, DriftMetric::Throughput);
    // 100 ms intervals: ten times as many a second. The noise is 2 on average.
    assert!((halves.first - 10_020.0).abs() < 1e-6 && (halves.second - 11_020.0).abs() < 1e-6);
}

#[test]
fn the_warm_up_and_a_last_interval_cut_short_are_left_out_of_the_halves() {
    let mut ok = vec![1; 10];
    ok.extend([1000; 20]);
    ok.push(3);
    let made =
        thousand().with_ticks(10, &ok).with_change(|run| run.measured.elapsed_ns = 2_050 * MS);
    assert_eq!(analyze_load(&made.run).halves, None);
}
