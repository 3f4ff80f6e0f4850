//! Numbers of requests, connections and streams, and rates.

use super::server::{Server, Setup, Then, good};
use crate::busy::{ensure_holds, retry_busy};
use crate::server::{carry_out, rows};
use bytes::Bytes;
use speedwell_load::generator;
use speedwell_load::load::{LoadConfig, LoadShare, RequestKind, RequestKinds};
use speedwell_load::pace::{
    ArrivalSpacing, ClosedPace, PacingModel, RateSchedule, RequestRate, ScheduleStage,
    StopCondition, ThinkTime,
};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const MS: u64 = 1_000_000;

fn for_ms(load: LoadConfig, ms: u64) -> LoadConfig {
    LoadConfig { stop: StopCondition { after_requests: None, after_ns: Some(ms * MS) }, ..load }
}

fn at_rate(load: LoadConfig, rate: f64) -> LoadConfig {
    let stage = ScheduleStage::constant(RequestRate::per_second(rate).unwrap());
    LoadConfig {
        pace: PacingModel::Open(RateSchedule::new(vec![stage], ArrivalSpacing::Even).unwrap()),
        max_connections: 100,
        ..load
    }
}

#[test]
fn as_many_requests_are_sent_as_asked_for_however_many_threads_send_them() {
    for threads in [1, 3] {
        let server = Server::start(|_| good());
        let load = LoadConfig { threads, ..server.load(5, 1, 600) };
        let measured = carry_out(&load);
        assert_eq!(rows(&measured), [("ok", 600)]);
        assert_eq!((server.requests(), server.connections()), (600, 5));
        assert_eq!(measured.threads.len(), threads as usize);
        assert_eq!(measured.max_connections, 5);
        assert_eq!(measured.ok_in_time, 600);
        let outcomes = &measured.totals.outcomes;
        assert_eq!(outcomes.codes.count_of(200), 600);
        assert_eq!(outcomes.bytes.body, 600 * 4);
        assert_eq!((outcomes.connections.opened, outcomes.connections.sends), (5, 600));
        assert_eq!(outcomes.connections.first_sends, 5);
        assert_eq!(measured.totals.responses.count, 600);
        assert_eq!(measured.totals.latency.service_times().count(), 600);
        let calls: u64 = measured.threads.iter().map(|thread| thread.system_calls).sum();
        assert!(calls > 0 && outcomes.bytes.sent > 600 && outcomes.bytes.received > 600 * 4);
    }
}

#[test]
fn lanes_are_streams_of_one_connection() {
    let server = Server::start(|_| Then::Late(20));
    let measured = carry_out(&server.load(12, 6, 240));
    assert_eq!(rows(&measured), [("ok", 240)]);
    assert_eq!(server.connections(), 2);
    assert_eq!(server.seen.most_at_once.load(Ordering::SeqCst), 6);
}

#[test]
fn more_lanes_than_the_server_allows_wait_without_a_loss() {
    let setup = Setup { streams: 3, ..Setup::default() };
    let server = Server::start_as(&setup, |_| Then::Late(30));
    let measured = carry_out(&server.load(10, 10, 60));
    assert_eq!(rows(&measured), [("ok", 60)]);
    assert_eq!(server.connections(), 1);
    assert!(server.seen.most_at_once.load(Ordering::SeqCst) <= 3);
    // A request is timed from the opening of its stream, so waiting for one of the three slots does
    // not count: three at once can be in service for at most three times the elapsed time, whereas
    // ten, of which seven wait, would be in flight for ten times.
    let service = measured.totals.latency.service_times();
    assert!(service.quantile(500_000).unwrap().ns >= 30 * MS);
    let times = service.sum_ns() as f64 / measured.elapsed_ns as f64;
    assert!(times < 5.0, "{times} at once");
}

/// The smallest lag of the even and of the odd requests of an open load whose requests are all
/// answered.
fn least_lags_ns(server: &Server) -> [u64; 2] {
    let mut load = at_rate(server.load(4, 4, 100), 400.0);
    load.keeps_rows = true;
    let measured = carry_out(&load);
    assert_eq!(rows(&measured), [("ok", 100)]);
    let mut requests = measured.rows.clone();
    requests.sort_by_key(|row| row.index);
    let mut least = [u64::MAX; 2];
    for (index, row) in (0..).zip(requests) {
        let intended = index * 2_500_000;
        assert_eq!(row.intended_ns, Some(intended));
        assert!(row.sent_ns.unwrap() >= intended);
        assert!(row.first_byte_ns.unwrap() <= row.end_ns);
        let parity = (index % 2) as usize;
        least[parity] = least[parity].min(row.sent_ns.unwrap() - intended);
    }
    assert!(measured.elapsed_ns >= 99 * 2_500_000);
    least
}

#[test]
fn an_open_load_connects_as_often_as_it_needs_to() {
    let server = Server::start(|_| Then::Late(100));
    let mut load = at_rate(server.load(1, 1, 40), 200.0);
    load.max_connections = 40;
    let measured = carry_out(&load);
    assert_eq!(rows(&measured), [("ok", 40)]);
    // 200/s at 100 ms each: 20 at once.
    assert!(measured.max_connections >= 15);
    assert_eq!(server.connections(), u64::from(measured.max_connections));

    // Long enough for slow connection attempts.
    let mut load = for_ms(load, 1000);
    load.max_connections = 2;
    let measured = carry_out(&load);
    assert!(measured.reached_max_connections);
    assert_eq!(measured.max_connections, 2);
    let count: BTreeMap<_, _> = rows(&measured).into_iter().collect();
    let ok = count.get("ok").copied().unwrap_or(0);
    assert_eq!(ok + count["unsent"], 200);
    assert!(ok <= 22, "{count:?}");
}

#[test]
fn a_timed_load_ends_on_time_and_its_timeline_adds_up() {
    // A busy machine leaves little of such a short time, or no chance to report it.
    retry_busy(2, load_by_time);
}

fn load_by_time() -> Result<(), String> {
    let server = Server::start(|_| good());
    let mut load = for_ms(server.load(3, 1, 0), 250);
    load.warmup_ns = 150 * MS;
    let (mut told, mut in_warmup) = (0, 0);
    let measured = generator::run(&load, &AtomicBool::new(false), &mut |progress| {
        told += 1;
        in_warmup += u32::from(progress.is_warmup);
    })
    .unwrap();
    measured.totals.outcomes.check_balance().unwrap();
    // A response that began in the warm-up may arrive after it, so its bytes are counted later.
    let mut together = measured.totals.clone();
    together.merge(&measured.warmup);
    together.outcomes.check_balance().unwrap();
    assert_eq!(measured.elapsed_ns, 250 * MS);
    let (ok, warm) = (measured.totals.outcomes.succeeded(), measured.warmup.outcomes.succeeded());
    assert_eq!(server.requests(), ok + warm);
    let timeline_ok: u64 = measured.timeline.ticks.iter().map(|tick| tick.ok).sum();
    assert_eq!(timeline_ok, ok + warm);
    assert!(measured.ok_in_time <= ok && measured.ok_in_time + 3 >= ok);
    ensure_holds(told >= 2 && in_warmup >= 1, || format!("told {told} times, {in_warmup}"))?;
    ensure_holds(ok > 10 && warm > 10, || format!("{ok} and {warm}"))
}

#[test]
fn unanswered_requests_are_in_flight_at_the_end_and_cancelled_when_interrupted() {
    let server = Server::start(|_| Then::Hold);
    let mut load = for_ms(server.load(6, 3, 0), 2000);
    load.drain_ns = 50 * MS;
    let measured = carry_out(&load);
    assert_eq!(rows(&measured), [("in-flight", 6)]);
    let load = for_ms(server.load(4, 2, 0), 60_000);
    let (before, stop) = (server.requests(), AtomicBool::new(false));
    let measured = generator::run(&load, &stop, &mut |_| {
        stop.store(server.requests() == before + 4, Ordering::SeqCst);
    });
    let measured = measured.unwrap();
    measured.totals.outcomes.check_balance().unwrap();
    assert_eq!(rows(&measured), [("cancelled", 4)]);
    assert!(measured.is_interrupted);
}

#[test]
fn connections_have_a_request_limit_and_clients_a_think_time() {
    let server = Server::start(|_| good());
    let mut load = server.load(2, 1, 20);
    load.rules.max_requests = Some(4);
    let measured = carry_out(&load);
    assert_eq!(rows(&measured), [("ok", 20)]);
    assert!((5..=6).contains(&server.connections()));
    assert_eq!(measured.threads[0].most_requests, 4);

    let mut load = server.load(1, 1, 6);
    load.pace = PacingModel::Closed(ClosedPace::new(1, ThinkTime::Fixed(20 * MS)).unwrap());
    let began = Instant::now();
    assert_eq!(rows(&carry_out(&load)), [("ok", 6)]);
    assert!(began.elapsed() >= Duration::from_millis(100));
}

#[test]
fn parts_of_a_load_add_up_to_the_whole() {
    let server = Server::start(|_| good());
    let part = |index| {
        carry_out(&LoadConfig {
            part: LoadShare { index, count: 3 },
            keeps_rows: true,
            ..server.load(7, 1, 100)
        })
    };
    let mut whole = part(0);
    whole.merge(part(1));
    whole.merge(part(2));
    assert_eq!(rows(&whole), [("ok", 100)]);
    assert_eq!((server.requests(), whole.max_connections), (100, 7));
    let mut numbers: Vec<u64> = whole.rows.iter().map(|row| row.index).collect();
    numbers.sort_unstable();
    assert!(numbers.iter().copied().eq(0..100));
}

#[test]
fn a_request_arrives_as_it_was_written_and_large_bodies_do_in_both_directions() {
    const BYTES: usize = 3_000_000;
    let server = Server::start(|_| Then::Answer(200, Bytes::from(vec![b'y'; BYTES])));
    let mut load = server.load(1, 1, 2);
    load.kinds = RequestKinds::single(RequestKind {
        method: "POST".to_owned(),
        headers: vec![
            ("X-Who".to_owned(), b"me".to_vec()),
            ("Connection".to_owned(), b"keep-alive".to_vec()),
        ],
        body: Some(vec![b'x'; BYTES]),
        ..RequestKind::get("known.test:99", "/path?query=1")
    })
    .unwrap();
    let measured = carry_out(&load);
    assert_eq!(rows(&measured), [("ok", 2)]);
    assert_eq!(measured.totals.outcomes.bytes.body, 2 * BYTES as u64);
    assert!(measured.totals.outcomes.bytes.sent > 2 * BYTES as u64);
    let request = server.seen.last.lock().unwrap().clone().unwrap();
    assert_eq!(request.head.method(), "POST");
    assert_eq!(request.head.uri(), "https://known.test:99/path?query=1");
    assert_eq!(request.head.headers()["x-who"], "me");
    assert_eq!(request.head.headers()["content-length"], "3000000");
    assert!(!request.head.headers().contains_key("connection"));
    assert!(!request.head.headers().contains_key("host"));
    assert_eq!(request.body, vec![b'x'; BYTES]);
}

#[test]
fn servers_are_told_that_the_load_is_over() {
    let server = Server::start(|_| good());
    carry_out(&server.load(3, 1, 9));
    let began = Instant::now();
    while server.seen.closed_with.lock().unwrap().len() < 3 {
        assert!(began.elapsed() < Duration::from_secs(30), "nobody was told");
        std::thread::sleep(Duration::from_millis(5));
    }
    // H3_NO_ERROR.
    assert_eq!(*server.seen.closed_with.lock().unwrap(), [0x100; 3]);
}

#[test]
fn a_probe_shows_the_answer_in_full() {
    let server = Server::start(|_| good());
    let probe = generator::send_probe(&server.load(5, 5, 100), &AtomicBool::new(false)).unwrap();
    assert_eq!(server.requests(), 1);
    assert_eq!((probe.facts.status, probe.is_success), (200, true));
    assert_eq!(probe.facts.server.as_deref(), Some("of-the-test"));
    assert_eq!(probe.facts.content_type.as_deref(), Some("text/plain"));
    assert_eq!((probe.body.as_slice(), probe.facts.body_bytes), (&b"good"[..], 4));
    let tls = probe.facts.tls.unwrap();
    assert_eq!(tls.alpn.as_deref(), Some("h3"));
    assert_eq!((tls.version.as_str(), tls.key_bits), ("TLSv1.3", Some(256)));
    assert!(probe.facts.connect_ns > 0 && probe.facts.service_ns > 0);
}

/// Other load on the machine would change the results.
mod measures {
    use super::*;

    /// The runtime's own timers have a resolution of one millisecond. By them, the even requests, which
    /// are due at multiples of 5 ms, or the odd ones, due 2.5 ms later, would all be sent half a
    /// millisecond late or more. However busy the machine is, it sends some of either in time.
    #[test]
    fn an_open_load_keeps_its_rate_and_its_intended_times() {
        let server = Server::start(|_| good());
        let mut loads = (0..40).map(|_| least_lags_ns(&server));
        let is_punctual = |least: [u64; 2]| least.iter().all(|lag| *lag < 400_000);
        assert!(loads.any(is_punctual), "requests are always late");
    }
}
