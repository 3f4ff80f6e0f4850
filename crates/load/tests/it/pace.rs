//! Schedules compared with independent arithmetic.

use speedwell_load::pace::{
    ArrivalSpacing, DueRequest, PaceError, RateSchedule, RequestRate, ScheduleStage, StopCondition,
};

const SECOND_NS: u64 = 1_000_000_000;

fn rate(per_s: f64) -> RequestRate {
    RequestRate::per_second(per_s).unwrap()
}

fn constant(per_s: f64) -> RateSchedule {
    RateSchedule::new(vec![ScheduleStage::constant(rate(per_s))], ArrivalSpacing::Even).unwrap()
}

fn stage(from: f64, to: f64, seconds: u64) -> ScheduleStage {
    ScheduleStage { from: rate(from), to: rate(to), duration_ns: seconds * SECOND_NS }
}

fn seconds(seconds: u64) -> StopCondition {
    StopCondition { after_ns: Some(seconds * SECOND_NS), ..StopCondition::default() }
}

#[test]
fn five_thousand_a_second_for_an_hour_has_no_drift() {
    let schedule = constant(5000.0);
    let mut count = 0;
    for due in schedule.thread_schedule(0, 1, seconds(3600)) {
        assert_eq!(due, DueRequest { index: count, at_ns: count * 200_000 });
        count += 1;
    }
    assert_eq!(count, 18_000_000);
    assert_eq!(schedule.due_ns(17_999_999), Some(3_599_999_800_000));
    assert_eq!(schedule.due_by(3600 * SECOND_NS - 1), 18_000_000);
    assert_eq!(schedule.due_by(0), 1);
}

#[test]
fn rounding_errors_of_due_times_do_not_accumulate() {
    let schedule = constant(3.0);
    for k in [0_u64, 1, 2, 3, 1_000_000_007] {
        let exact = u128::from(k) * 1_000_000_000 / 3;
        assert_eq!(u128::from(schedule.due_ns(k).unwrap()), exact);
    }
    assert_eq!(constant(0.5).due_ns(3), Some(6 * SECOND_NS));
}

#[test]
fn threads_together_send_what_one_thread_would() {
    for spacing in [ArrivalSpacing::Even, ArrivalSpacing::Poisson { seed: 3 }] {
        let stages = vec![stage(100.0, 900.0, 2), stage(900.0, 900.0, 1)];
        let schedule = RateSchedule::new(stages, spacing).unwrap();
        let whole: Vec<DueRequest> =
            schedule.thread_schedule(0, 1, StopCondition::default()).collect();
        let mut parts: Vec<DueRequest> = (0..3)
            .flat_map(|thread| schedule.thread_schedule(thread, 3, StopCondition::default()))
            .collect();
        parts.sort_by_key(|due| due.index);
        assert_eq!(parts, whole);
        assert!(whole.windows(2).all(|pair| pair[0].at_ns <= pair[1].at_ns));
        let middle = whole[whole.len() / 2];
        assert_eq!(schedule.due_ns(middle.index), Some(middle.at_ns));
    }
}

#[test]
fn poisson_arrivals_have_the_mean_and_the_variance_of_their_rate() {
    let stages = vec![ScheduleStage::constant(rate(2000.0))];
    let schedule = RateSchedule::new(stages, ArrivalSpacing::Poisson { seed: 42 }).unwrap();
    let times: Vec<u64> =
        schedule.thread_schedule(0, 1, seconds(500)).map(|due| due.at_ns).collect();
    // A million arrivals have a standard deviation of a thousand; tolerate four.
    assert!(times.len().abs_diff(1_000_000) < 4000, "{}", times.len());

    let mut per_ten_ms = vec![0_u32; 50_000];
    for at_ns in &times {
        per_ten_ms[(at_ns / 10_000_000) as usize] += 1;
    }
    let mean = times.len() as f64 / 50_000.0;
    let squares: f64 = per_ten_ms.iter().map(|n| (f64::from(*n) - mean).powi(2)).sum();
    let dispersion = squares / 49_999.0 / mean;
    // Variance over mean is 1 with a standard error of sqrt(2 / 49999) = 0.0063.
    assert!((dispersion - 1.0).abs() < 4.0 * 0.0063, "{dispersion}");

    // A share of e^-1 of the intervals is longer than the mean, with a standard error of 0.00048.
    let long = times.windows(2).filter(|pair| pair[1] - pair[0] > 500_000).count();
    let share = long as f64 / (times.len() - 1) as f64;
    assert!((share - (-1_f64).exp()).abs() < 0.002, "{share}");

    let again = schedule.thread_schedule(0, 1, seconds(500)).map(|due| due.at_ns);
    assert!(again.eq(times));
}

/// Integral of the rate up to a time, as a sum over short steps.
fn integral(stages: &[ScheduleStage], at_ns: u64) -> f64 {
    let step_ns = 10_000;
    let mut sum = 0.0;
    let mut begin_ns = 0;
    for stage in stages {
        let end_ns = (begin_ns + stage.duration_ns).min(at_ns);
        let mut t = begin_ns;
        while t < end_ns {
            let width = step_ns.min(end_ns - t);
            let middle = (t - begin_ns) as f64 + width as f64 / 2.0;
            let share = middle / stage.duration_ns as f64;
            let (a, b) = (stage.from.requests_per_s(), stage.to.requests_per_s());
            sum += (a + (b - a) * share) * width as f64 / 1e9;
            t += width;
        }
        begin_ns += stage.duration_ns;
    }
    sum
}

#[test]
fn ramps_follow_the_integral_of_their_rate() {
    let stages = vec![
        stage(0.0, 1000.0, 4),
        stage(1000.0, 1000.0, 2),
        stage(1000.0, 0.0, 3),
        stage(0.0, 0.0, 1),
        stage(50.0, 50.0, 2),
    ];
    let schedule = RateSchedule::new(stages.clone(), ArrivalSpacing::Even).unwrap();
    let all: Vec<DueRequest> = schedule.thread_schedule(0, 1, StopCondition::default()).collect();
    // 2000 while rising, 2000 constant, 1500 while falling, none in the pause, 100.
    assert_eq!(all.len(), 5600);
    for due in all.iter().step_by(97) {
        let passed = integral(&stages, due.at_ns);
        let behind = due.index as f64 - passed;
        // At 1000/s a microsecond is a thousandth of a request.
        assert!(behind.abs() < 0.001, "{due:?} at {passed}");
        assert_eq!(schedule.due_by(due.at_ns), due.index + 1);
    }
    // The foot of a ramp follows a square root: request k of a rise by 250/s each second.
    let at_ns = schedule.due_ns(500).unwrap() as f64;
    assert!((at_ns - (2.0 * 500.0 / 250.0_f64).sqrt() * 1e9).abs() < 2.0);
    // The first request after the pause is due at its end, not at its start.
    assert_eq!(schedule.due_ns(5500), Some(10 * SECOND_NS));
    assert_eq!(schedule.due_ns(5600), None);
}

#[test]
fn a_load_ends_by_count_or_by_time_whichever_is_first() {
    let schedule = constant(1000.0);
    let count = |after_requests, after_ns| {
        let stop = StopCondition { after_requests, after_ns };
        (0..4).map(|thread| schedule.thread_schedule(thread, 4, stop).count()).sum::<usize>()
    };
    assert_eq!(count(Some(777), None), 777);
    assert_eq!(count(Some(777), Some(SECOND_NS / 2)), 500);
    assert_eq!(count(None, Some(SECOND_NS)), 1000);
}

#[test]
fn impossible_rates_and_schedules_are_rejected() {
    assert!(matches!(RequestRate::per_second(-1.0), Err(PaceError::Rate(_))));
    assert!(matches!(RequestRate::per_second(f64::NAN), Err(PaceError::Rate(_))));
    let nothing = RateSchedule::new(vec![stage(0.0, 0.0, 5)], ArrivalSpacing::Even);
    assert_eq!(nothing, Err(PaceError::Empty));
    let year = RateSchedule::new(vec![stage(0.0, 1e8, 31_536_000)], ArrivalSpacing::Even);
    assert!(matches!(year, Err(PaceError::RampTooLong { .. })));
}
