//! Open loads: constant rates, stalls, and growing numbers of connections.

use super::busy::{ensure_holds, retry_busy, wait_until};
use super::server::{Server, carry_out, carry_out_beside, for_ms, good, rows};
use speedwell_load::load::LoadConfig;
use speedwell_load::pace::{ArrivalSpacing, PacingModel, RateSchedule, RequestRate, ScheduleStage};
use speedwell_model::clock::WaitClock;
use speedwell_model::load::latency::{LoadLatency, OpenVerdict};
use speedwell_model::load::measurement::LoadMeasurement;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

const MS: u64 = 1_000_000;

fn at_rate(load: LoadConfig, rate: f64, spacing: ArrivalSpacing) -> LoadConfig {
    let stage = ScheduleStage::constant(RequestRate::per_second(rate).unwrap());
    LoadConfig {
        pace: PacingModel::Open(RateSchedule::new(vec![stage], spacing).unwrap()),
        max_connections: 100,
        ..load
    }
}

/// Runs a load on a clock that advances by a millisecond at a time, calling `before` each time so
/// that the test can wait for something, until the load has ended.
fn run_on_moving_clock(
    clock: WaitClock,
    load: &LoadConfig,
    mut before: impl FnMut(u64),
) -> LoadMeasurement {
    carry_out_beside(clock, load, |has_ended| {
        for ms in (0..).take_while(|_| !has_ended()) {
            before(ms);
            clock.advance(Duration::from_millis(1));
            clock.wait(Duration::from_micros(50));
        }
    })
}

#[test]
fn a_constant_rate_is_kept_and_the_last_request_is_as_punctual_as_the_first() {
    let server = good();
    let load = at_rate(for_ms(server.load(4, 0), 1000), 2000.0, ArrivalSpacing::Even);
    let measured = run_on_moving_clock(WaitClock::movable(), &load, |_| ());
    let outcomes = &measured.totals.outcomes;
    assert_eq!(outcomes.attempts(), 2000);
    assert_eq!(server.seen(), outcomes.succeeded());
    assert_eq!(measured.elapsed_ns, 1000 * MS);
}

#[test]
fn random_arrivals_come_as_often_as_asked_for() {
    let server = good();
    let load = at_rate(for_ms(server.load(4, 0), 500), 2000.0, ArrivalSpacing::Poisson { seed: 3 });
    let measured = run_on_moving_clock(WaitClock::movable(), &load, |_| ());
    // 1000 expected, with a standard deviation of 32.
    let attempts = measured.totals.outcomes.attempts();
    assert!((872..=1128).contains(&attempts), "{attempts}");
}

/// A server that stalls for 300 ms after its first 400 ms, and the times of its responses.
fn stalling_server() -> (Server, Arc<Mutex<Vec<Instant>>>) {
    let first = OnceLock::new();
    let answered = Arc::new(Mutex::new(Vec::new()));
    let log = answered.clone();
    let server = Server::start(move |mut request| {
        let at = first.get_or_init(Instant::now).elapsed();
        let stall = Duration::from_millis(400)..Duration::from_millis(700);
        if stall.contains(&at) {
            std::thread::sleep(stall.end - at);
        }
        let then = request.answer("200 OK", "good");
        log.lock().unwrap().push(Instant::now());
        then
    });
    (server, answered)
}

/// True 90th percentile of the wait from when each request is due, at one per millisecond, until
/// the server responds by its own clock.
fn truth_p90(answered: &[Instant]) -> f64 {
    let due = |at: usize| Duration::from_millis(at as u64);
    let begin = (0..answered.len()).map(|at| answered[at] - due(at));
    let begin = begin.min().unwrap();
    let waited = (0..answered.len()).map(|at| answered[at] - (begin + due(at)));
    let mut waited: Vec<Duration> = waited.collect();
    waited.sort();
    waited[waited.len() * 9 / 10].as_nanos() as f64
}

fn load_through_a_stall() -> Result<(), String> {
    let (server, answered) = stalling_server();
    let mut load = at_rate(for_ms(server.load(2, 0), 1500), 1000.0, ArrivalSpacing::Even);
    load.max_connections = 2;
    let measured = carry_out(&load);
    let LoadLatency::Open(latency) = &measured.totals.latency else {
        panic!("an open load has open latencies")
    };
    // A busy machine may not have caught up at the end; such requests are unsent and include their
    // wait.
    let outcomes = &measured.totals.outcomes;
    assert_eq!((outcomes.attempts(), server.seen()), (1500, outcomes.succeeded()));
    let unanswered = outcomes.attempts() - outcomes.succeeded();
    ensure_holds(unanswered < 150, || format!("{:?}", rows(&measured)))?;
    let all = latency.requests.merge_all();
    // 300 of 1500 requests were due during the stall and waited up to 300 ms for its end: a tenth
    // of all waited longer than 150 ms, or as long as a busy machine caused.
    let response = all.response.quantile(900_000).unwrap().ns as f64;
    let truth = truth_p90(&answered.lock().unwrap());
    assert!(truth > 130e6, "{truth}");
    ensure_holds((response - truth).abs() < 0.1 * truth + 5e6, || format!("{response} {truth}"))?;
    // Only the two requests in flight experienced the stall itself.
    let service = all.sent.service.quantile(900_000).unwrap().ns as f64;
    ensure_holds(service < response / 2.0, || format!("{service} {response}"))?;
    // The connections were busy: not the generator's fault.
    let verdict = OpenVerdict::assess(latency, 1500, 1500);
    let own_lag = verdict.own_lag_p99_ns as f64;
    assert!(measured.reached_max_connections);
    ensure_holds(own_lag < response / 2.0, || format!("{verdict:?}"))
}

/// A server whose responses take 50 ms of the clock; counts requests started and answered.
fn slow_server(clock: WaitClock) -> (Server, [Arc<AtomicU64>; 2]) {
    let counts: [Arc<AtomicU64>; 2] = Default::default();
    let [begun, answered] = counts.clone();
    let server = Server::start(move |mut request| {
        let until = clock.now() + Duration::from_millis(50);
        begun.fetch_add(1, Ordering::SeqCst);
        wait_until(|| clock.now() >= until);
        let then = request.answer("200 OK", "good");
        answered.fetch_add(1, Ordering::SeqCst);
        then
    });
    (server, counts)
}

#[test]
fn connections_grow_with_the_load_up_to_the_limit() {
    // 200/s at 50 ms each means ten at once.
    let clock = WaitClock::movable();
    let (server, [begun, answered]) = slow_server(clock);
    let load = at_rate(for_ms(server.load(1, 0), 500), 200.0, ArrivalSpacing::Even);
    let measured = run_on_moving_clock(clock, &load, |ms| {
        // Time advances once due requests have arrived and served ones have been answered.
        let due = (ms / 5 + 1).min(100);
        wait_until(|| begun.load(Ordering::SeqCst) >= due);
        wait_until(|| answered.load(Ordering::SeqCst) >= due.saturating_sub(10));
    });
    assert_eq!(rows(&measured), [("ok", 100)]);
    let most = measured.max_connections;
    assert!((10..=20).contains(&most), "{most} connections");
    assert!(!measured.reached_max_connections);

    let clock = WaitClock::movable();
    let (server, _) = slow_server(clock);
    let mut load = at_rate(for_ms(server.load(1, 0), 500), 200.0, ArrivalSpacing::Even);
    load.max_connections = 2;
    let measured = run_on_moving_clock(clock, &load, |_| ());
    assert!(measured.reached_max_connections);
    assert_eq!(measured.max_connections, 2);
    let outcomes = &measured.totals.outcomes;
    // Two connections handle 40/s: the rest is due but never sent.
    let unsent = rows(&measured).iter().find(|row| row.0 == "unsent").unwrap().1;
    assert_eq!(outcomes.attempts(), 100);
    assert_eq!(unsent + server.seen(), 100);
    assert!(unsent >= 70, "{unsent}");
    let LoadLatency::Open(latency) = &measured.totals.latency else {
        panic!("an open load has open latencies")
    };
    assert_eq!(latency.requests.merge_all().response.count(), 100);
}

/// Other load on the machine would change the results.
mod measures {
    use super::*;

    #[test]
    fn a_stall_of_the_server_is_in_the_response_time_and_not_in_the_service_time() {
        // A busy machine adds its own stalls to server and generator.
        retry_busy(3, load_through_a_stall);
    }
}
