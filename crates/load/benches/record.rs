//! Cost of recording one request: `cargo bench -p speedwell-load --bench record`.
//!
//! One request is one attempt, one send, one successful response and its times, recorded as by an
//! event loop. Prints the median of several rounds. Without `--bench` (as under `cargo test
//! --benches`) it runs one short round, only to verify that everything works.

use speedwell_load::pace::{
    ArrivalSpacing, RateSchedule, RequestRate, ScheduleStage, StopCondition,
};
use speedwell_model::load::latency::{
    ClosedLatency, ConnectionLag, IntendedStart, OpenLatency, RequestOutcome, RequestTimes,
    TimeDistribution,
};
use speedwell_model::load::outcomes::OutcomeCounts;
use std::hint::black_box;
use std::time::Instant;

fn main() {
    let is_measuring = std::env::args().any(|argument| argument == "--bench");
    let (rounds, requests) = if is_measuring { (15, 1_000_000) } else { (1, 1000) };
    let spread = latencies();
    let mut plain = TimeDistribution::default();
    time("one histogram", rounds, requests, |k| plain.record(spread[k % spread.len()]));
    let mut outcomes = OutcomeCounts::default();
    time("books", rounds, requests, |_| count(&mut outcomes));
    let (mut outcomes, mut closed) = (OutcomeCounts::default(), ClosedLatency::default());
    time("books and histograms, closed", rounds, requests, |k| {
        count(&mut outcomes);
        closed.record(RequestOutcome::Ok, times(k, spread[k % spread.len()]));
    });
    let (mut outcomes, mut open) = (OutcomeCounts::default(), OpenLatency::default());
    time("books and histograms, open", rounds, requests, |k| {
        count(&mut outcomes);
        let times = times(k, spread[k % spread.len()]);
        black_box(open.record_sent(times.sent_ns - 50, ConnectionLag::default(), times.sent_ns));
        let intended = IntendedStart { due_ns: times.sent_ns - 50, own_lag_ns: 50 };
        open.record(RequestOutcome::Ok, intended, times);
    });
    schedules(rounds, requests);
}

/// Measures the cost of computing the next time of a schedule.
fn schedules(rounds: usize, requests: usize) {
    let rate = |per_s| RequestRate::per_second(per_s).unwrap_or(RequestRate::ZERO);
    let ramp = ScheduleStage { from: rate(0.0), to: rate(1e6), duration_ns: 3_600_000_000_000 };
    let constant = ScheduleStage::constant(rate(5000.0));
    for (name, stage, spacing) in [
        ("next time, constant", constant, ArrivalSpacing::Even),
        ("next time, Poisson", constant, ArrivalSpacing::Poisson { seed: 1 }),
        ("next time, ramp", ramp, ArrivalSpacing::Even),
    ] {
        let Ok(schedule) = RateSchedule::new(vec![stage], spacing) else {
            continue;
        };
        let mut share = schedule.thread_schedule(0, 1, StopCondition::default());
        time(name, rounds, requests, |_| {
            black_box(share.next());
        });
    }
}

fn count(outcomes: &mut OutcomeCounts) {
    outcomes.count_attempt();
    outcomes.connections.count_send(true);
    outcomes.bytes.sent += 80;
    outcomes.bytes.received += black_box(240);
    outcomes.bytes.body += 100;
    outcomes.count_ok(black_box(200));
}

fn times(k: usize, latency_ns: u64) -> RequestTimes {
    let sent_ns = 100 + k as u64 * 1000;
    RequestTimes {
        sent_ns,
        first_byte_ns: Some(sent_ns + latency_ns - 10),
        end_ns: sent_ns + latency_ns,
    }
}

/// Latencies of 50 us to 5 ms in scrambled order, most of them short.
fn latencies() -> Vec<u64> {
    (0..4096_u64).map(|k| 50_000 + (k * 2_654_435_761 % 4096).pow(2) / 4).collect()
}

fn time(name: &str, rounds: usize, requests: usize, mut one: impl FnMut(usize)) {
    let mut per_request: Vec<f64> = (0..rounds)
        .map(|_| {
            let begin = Instant::now();
            (0..requests).for_each(|k| one(black_box(k)));
            begin.elapsed().as_nanos() as f64 / requests as f64
        })
        .collect();
    per_request.sort_by(f64::total_cmp);
    println!("{name:<32} {:>8.1} ns", per_request[rounds / 2]);
}
