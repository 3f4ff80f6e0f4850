//! Closed loads: number of requests, duration, and the server's view.

use super::busy::{ensure_holds, retry_busy, wait_until};
use super::server::{
    Server, Then, carry_out, carry_out_beside, carry_out_by, for_ms, good, good_by, rows,
};
use speedwell_load::generator;
use speedwell_load::load::{LoadConfig, LoadShare, RequestTimeouts, ServerAddress, SteadinessRule};
use speedwell_load::pace::{ClosedPace, PacingModel, ThinkTime};
use speedwell_model::clock::WaitClock;
use speedwell_model::load::measurement::{LoadMeasurement, TimelineTick};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const MS: u64 = 1_000_000;

#[test]
fn as_many_requests_are_sent_as_asked_for_however_many_threads_send_them() {
    for threads in [1, 3] {
        let server = good();
        let load = LoadConfig { threads, ..server.load(5, 1234) };
        let measured = carry_out(&load);
        assert_eq!(rows(&measured), [("ok", 1234)]);
        assert_eq!(server.seen(), 1234);
        assert_eq!(measured.threads.len(), threads as usize);
        assert_eq!(measured.max_connections, 5);
        assert_eq!(measured.ok_in_time, 1234);
    }
}

#[test]
fn connections_are_dealt_out_evenly_to_all_addresses() {
    for (addresses, threads) in [(2, 1), (3, 1), (4, 1), (2, 2), (4, 3)] {
        let servers: Vec<Server> = (0..addresses).map(|_| good()).collect();
        let mut load = LoadConfig { threads, ..servers[0].load(12, 240) };
        let others = servers[1..].iter().map(|server| server.address);
        load.target.addresses.extend(others.map(ServerAddress::Internet));
        assert_eq!(rows(&carry_out(&load)), [("ok", 240)]);
        let connections = servers.iter().map(|server| server.connections.load(Ordering::SeqCst));
        let connections: Vec<u64> = connections.collect();
        assert_eq!(connections, vec![12 / addresses; addresses as usize], "{threads} threads");
    }
}

#[test]
fn parts_of_a_load_add_up_to_the_whole() {
    let server = good();
    let part = |index| {
        let load = LoadConfig {
            part: LoadShare { index, count: 3 },
            keeps_rows: true,
            ..server.load(7, 1000)
        };
        carry_out(&load)
    };
    let mut merged = part(0);
    merged.merge(part(1));
    merged.merge(part(2));
    assert_eq!(rows(&merged), [("ok", 1000)]);
    assert_eq!((server.seen(), merged.max_connections), (1000, 7));
    let mut numbers: Vec<u64> = merged.rows.iter().map(|row| row.index).collect();
    numbers.sort_unstable();
    assert!(numbers.iter().copied().eq(0..1000));
    let text = serde_json::to_string(&merged).unwrap();
    let parsed: LoadMeasurement = serde_json::from_str(&text).unwrap();
    assert_eq!(parsed, merged);
}

#[test]
fn a_timed_load_ends_on_time_and_counts_late_responses_separately() {
    let clock = WaitClock::movable();
    let server = good_by(clock);
    let measured = carry_out_by(clock, &for_ms(server.load(3, 0), 250));
    assert_eq!(measured.elapsed_ns, 250 * MS);
    let ok = measured.totals.outcomes.succeeded();
    // One per millisecond, plus at most one in flight for each client at the end.
    assert!((250..=253).contains(&ok), "{ok}");
    assert_eq!(server.seen(), ok);
    assert!(measured.ok_in_time <= ok && measured.ok_in_time + 3 >= ok);
    let timeline_ok: u64 = measured.timeline.ticks.iter().map(|tick| tick.ok).sum();
    assert_eq!(timeline_ok, ok);
}

#[test]
fn answers_of_the_warm_up_are_in_its_part_of_the_timeline() {
    let clock = WaitClock::movable();
    let server = good_by(clock);
    let load = LoadConfig { warmup_ns: 200 * MS, ..for_ms(server.load(3, 0), 250) };
    let measured = carry_out_by(clock, &load);
    let timeline = &measured.timeline;
    let (warmup, after) = timeline.ticks.split_at(timeline.warmup);
    let good = |ticks: &[TimelineTick]| ticks.iter().map(|tick| tick.ok).sum::<u64>();
    assert_eq!(good(warmup), measured.warmup.outcomes.succeeded());
    assert_eq!(good(after), measured.totals.outcomes.succeeded());
}

#[test]
fn effective_concurrency_is_at_most_the_number_of_clients() {
    // Every response arrives after the end of the load.
    let clock = WaitClock::movable();
    let server = Server::start(move |mut request| {
        clock.advance(Duration::from_millis(400));
        request.answer("200 OK", "good")
    });
    let measured = carry_out_by(clock, &for_ms(server.load(3, 0), 200));
    assert_eq!(rows(&measured), [("ok", 3)]);
    let under_way = measured.effective_concurrency().unwrap();
    assert!(under_way > 0.0 && under_way <= 3.0, "{under_way}");
}

#[test]
fn unanswered_requests_are_in_flight_at_the_end_and_cancelled_when_interrupted() {
    let silent = || Server::start(|_| Then::Hold);
    let (clock, server) = (WaitClock::movable(), silent());
    let mut load = for_ms(server.load(3, 0), 1500);
    load.drain_ns = 50 * MS;
    load.rules.timeouts = RequestTimeouts::default();
    let measured = carry_out_beside(clock, &load, |has_ended| {
        wait_until(|| server.seen() == 3);
        wait_until(|| {
            clock.advance(Duration::from_millis(100));
            has_ended()
        });
    });
    assert_eq!(measured.elapsed_ns, 1500 * MS);
    assert_eq!(rows(&measured), [("in-flight", 3)]);
    assert!(measured.totals.latency.service_times().count() == 0);

    let server = silent();
    let load = for_ms(server.load(3, 0), 60_000);
    let stop = AtomicBool::new(false);
    let measured = generator::run(&load, &stop, &mut |_| {
        stop.store(server.seen() == 3, Ordering::SeqCst);
    });
    let measured = measured.unwrap();
    measured.totals.outcomes.check_balance().unwrap();
    assert_eq!(rows(&measured), [("cancelled", 3)]);
    assert!(measured.is_interrupted);
}

#[test]
fn the_warm_up_is_kept_apart() {
    let clock = WaitClock::movable();
    let server = good_by(clock);
    let load = LoadConfig { warmup_ns: 130 * MS, ..server.load(2, 500) };
    let measured = carry_out_by(clock, &load);
    // A response that began in the warm-up may arrive after it, so its bytes are counted later.
    let mut together = measured.totals.clone();
    together.merge(&measured.warmup);
    together.outcomes.check_balance().unwrap();
    assert_eq!(rows(&measured), [("ok", 500)]);
    let warm = measured.warmup.outcomes.attempts();
    assert_eq!(server.seen(), 500 + warm);
    assert_eq!(measured.totals.latency.service_times().count(), 500);
    assert!((130..=132).contains(&warm), "{warm} requests warmed up");
}

#[test]
fn clients_think_between_requests() {
    let server = good();
    let load = LoadConfig {
        pace: PacingModel::Closed(ClosedPace::new(4, ThinkTime::Fixed(20 * MS)).unwrap()),
        ..for_ms(server.load(4, 0), 400)
    };
    retry_busy(1, || {
        let measured = carry_out(&load);
        // At most 400 / 20 rounds of four, and not much fewer unless the machine delays the client.
        let ok = measured.totals.outcomes.succeeded();
        assert!(ok <= 84, "{ok}");
        ensure_holds(ok >= 40, || format!("{ok} requests"))
    });
}

#[test]
fn a_steady_load_ends_before_its_time_and_an_unsteady_one_does_not() {
    let even = until_steady(20_000, |_| 0.004);
    let seconds = even.elapsed_ns as f64 / 1e9;
    assert!((2.0..3.0).contains(&seconds), "{seconds}");
    assert!(even.ok_in_time + 2 >= even.totals.outcomes.succeeded());
    // Each response takes 1% longer than the previous one, so a second has half as many as the one
    // before: far from steady.
    let slowing = until_steady(2_500, |number| 0.0005 * 1.01_f64.powi(number.min(700) as i32));
    assert_eq!(slowing.elapsed_ns, 2_500 * MS);
}

/// Runs a load of `ms` milliseconds that ends when steady. `seconds` returns the duration of each
/// response. Time advances no faster than its intervals are reported.
fn until_steady(ms: u64, seconds: fn(u64) -> f64) -> LoadMeasurement {
    let clock = WaitClock::movable();
    let (begin, watched) = (clock.now(), Arc::new(AtomicU64::new(0)));
    let seen_until = watched.clone();
    let server = Server::start(move |mut request| {
        clock.advance(Duration::from_secs_f64(seconds(request.number)));
        wait_until(|| {
            let behind = Duration::from_nanos(seen_until.load(Ordering::SeqCst) + 160 * MS);
            clock.elapsed_since(begin) < behind
        });
        request.answer("200 OK", "good")
    });
    let load = LoadConfig {
        steady: Some(SteadinessRule { within: 0.2 }),
        ..for_ms(server.load(1, 0), ms)
    };
    let measured =
        generator::run_with_clock(clock, &load, &AtomicBool::new(false), &mut |progress| {
            watched.store(progress.at_ns, Ordering::SeqCst);
        });
    // Release requests that still wait in the server.
    watched.store(u64::MAX / 2, Ordering::SeqCst);
    let measured = measured.unwrap();
    measured.totals.outcomes.check_balance().unwrap();
    measured
}
