//! A server that responds within 10 us, but once in 10 s stalls for 1 s, under a load of 2000/s.
//!
//! The server is a simulated queue: it serves one request after another and starts none during the
//! stall. The expected values are computed from the schedule alone, without the code under test.

use speedwell_load::pace::{
    ArrivalSpacing, RateSchedule, RequestRate, ScheduleStage, StopCondition,
};
use speedwell_model::load::latency::{
    ClosedLatency, ConnectionLag, IntendedStart, OpenLatency, OpenVerdict, RequestOutcome,
    RequestTimes,
};
use speedwell_model::load::latency::{effective_concurrency, is_concurrency_short};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const SECOND_NS: u64 = 1_000_000_000;
const SERVICE_NS: u64 = 10_000;
const STALL: std::ops::Range<u64> = 5 * SECOND_NS..6 * SECOND_NS;
const CONNECTIONS: usize = 50;

/// Serves requests in order of arrival.
#[derive(Default)]
struct Server {
    free_ns: u64,
}

impl Server {
    fn serve(&mut self, arrival_ns: u64) -> u64 {
        let begin_ns = arrival_ns.max(self.free_ns);
        let begin_ns = if STALL.contains(&begin_ns) { STALL.end } else { begin_ns };
        self.free_ns = begin_ns + SERVICE_NS;
        self.free_ns
    }
}

fn stop() -> StopCondition {
    StopCondition { after_ns: Some(10 * SECOND_NS), ..StopCondition::default() }
}

/// An open load over a limited number of connections; the generator itself sleeps during `pause`.
fn open(pause: std::ops::Range<u64>) -> OpenLatency {
    let rate = RequestRate::per_second(2000.0).unwrap();
    let schedule =
        RateSchedule::new(vec![ScheduleStage::constant(rate)], ArrivalSpacing::Even).unwrap();
    let mut latency = OpenLatency::default();
    let mut server = Server::default();
    let mut free: BinaryHeap<Reverse<ConnectionLag>> =
        (0..CONNECTIONS).map(|_| Reverse(ConnectionLag::default())).collect();
    for due in schedule.thread_schedule(0, 1, stop()) {
        let Reverse(connection) = free.pop().unwrap();
        let ready_ns = due.at_ns.max(connection.since_ns);
        let sent_ns = if pause.contains(&ready_ns) { pause.end } else { ready_ns };
        let own_lag_ns = latency.record_sent(due.at_ns, connection, sent_ns);
        let end_ns = server.serve(sent_ns);
        free.push(Reverse(ConnectionLag { since_ns: end_ns, own_lag_ns }));
        let times = RequestTimes { sent_ns, first_byte_ns: Some(end_ns), end_ns };
        let intended = IntendedStart { due_ns: due.at_ns, own_lag_ns };
        latency.record(RequestOutcome::Ok, intended, times);
    }
    latency
}

/// Sorted response times of 20 000 users that arrive every 500 us.
fn true_times() -> Vec<u64> {
    let mut server = Server::default();
    let mut times: Vec<u64> =
        (0..20_000).map(|user| server.serve(user * 500_000) - user * 500_000).collect();
    times.sort_unstable();
    times
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

#[test]
fn response_times_show_the_stall_and_service_times_hide_it() {
    let latency = open(0..0);
    let ok = latency.requests.get(RequestOutcome::Ok).unwrap();
    let truth = true_times();
    assert_eq!(ok.response.count(), 20_000);
    for ppm in [500_000, 900_000, 950_000, 990_000, 999_000, 1_000_000_u32] {
        let rank = (20_000 * u64::from(ppm)).div_ceil(1_000_000) as usize;
        let exact = truth[rank - 1];
        let reported = ok.response.quantile(ppm).unwrap();
        assert!(
            reported.ns >= exact && reported.ns - exact <= exact / 1000,
            "{ppm}: {reported:?}, {exact}"
        );
        assert!(!reported.is_lower_bound);
    }
    let p = |ppm| ms(ok.response.quantile(ppm).unwrap().ns);
    assert!((490.0..530.0).contains(&p(950_000)), "p95 {}", p(950_000));
    assert!((890.0..915.0).contains(&p(990_000)), "p99 {}", p(990_000));
    assert_eq!(ok.response.max_ns(), truth.last().copied());
    // Only the 50 requests in flight experienced the stall: a quarter of a percent.
    assert!(ms(ok.sent.service.quantile(990_000).unwrap().ns) < 1.0);
    assert_eq!(ok.sent.service.max_ns(), truth.last().copied());
    let mean = truth.iter().sum::<u64>() as f64 / 20_000.0;
    assert_eq!(ok.response.mean_ns(), Some(mean));
}

#[test]
fn only_lag_without_busy_connections_is_blamed_on_the_generator() {
    let waiting = open(0..0);
    assert!(ms(waiting.lag.quantile(990_000).unwrap().ns) > 800.0);
    let verdict = OpenVerdict::assess(&waiting, 20_000, 20_000);
    assert_eq!(verdict.own_lag_p99_ns, 0);
    assert!(!verdict.is_generator_limited() && !verdict.is_rate_missed());

    let sleepy = open(2 * SECOND_NS..3 * SECOND_NS);
    let verdict = OpenVerdict::assess(&sleepy, 20_000, 20_000);
    assert!(verdict.is_generator_limited(), "{verdict:?}");

    // The generator's own sleep is part of the time since requests were due, but not of the other
    // bound.
    let all_times = sleepy.requests.merge_all();
    let bounds = |ppm| {
        (
            ms(all_times.punctual.quantile(ppm).unwrap().ns),
            ms(all_times.response.quantile(ppm).unwrap().ns),
        )
    };
    let (punctual, response) = bounds(800_000);
    assert!(punctual < 1.0 && response > 10.0, "{punctual} {response}");
    assert_eq!(all_times.punctual.count(), all_times.response.count());

    let missed = OpenVerdict::assess(&waiting, 20_000, 19_599);
    assert!(missed.is_rate_missed() && !missed.is_generator_limited());
    assert!(!OpenVerdict::assess(&waiting, 20_000, 19_600).is_rate_missed());
}

#[test]
fn a_closed_load_hardly_meets_the_stall_but_is_fully_concurrent() {
    let mut latency = ClosedLatency::default();
    let mut server = Server::default();
    let mut clients: BinaryHeap<Reverse<u64>> = (0..CONNECTIONS).map(|_| Reverse(0)).collect();
    let mut last_ns = 0;
    loop {
        let Reverse(sent_ns) = clients.pop().unwrap();
        if sent_ns >= 10 * SECOND_NS {
            break;
        }
        let end_ns = server.serve(sent_ns);
        clients.push(Reverse(end_ns));
        last_ns = last_ns.max(end_ns);
        let times = RequestTimes { sent_ns, first_byte_ns: None, end_ns };
        latency.record(RequestOutcome::Ok, times);
    }
    let service = latency.requests.merge_all().service;
    // 9 s at 10 us each; the raw p99 is the 50 requests in the queue, half a millisecond.
    assert!(service.count().abs_diff(900_000) < 100);
    assert!(ms(service.quantile(990_000).unwrap().ns) < 2.0);
    assert!(ms(service.max_ns().unwrap()) > 1000.0);
    let effective = effective_concurrency(&service, last_ns).unwrap();
    assert!((effective - 50.0).abs() < 0.1, "{effective}");
    assert!(!is_concurrency_short(effective, 50) && is_concurrency_short(effective, 53));
    assert_eq!(effective_concurrency(&service, 0), None);
}
