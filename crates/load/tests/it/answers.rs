//! Requests and responses: several kinds of requests, other sockets, connection limits, rules for
//! responses, and times that agree with the server's log.

use super::server::{Server, Then, carry_out, carry_out_by, good, rows};
use speedwell_load::generator;
use speedwell_load::load::{
    BodyRule, DataTable, LoadConfig, RequestKind, RequestKinds, RequestTimeouts, ServerAddress,
    SuccessRule,
};
use speedwell_model::clock::WaitClock;
use speedwell_model::load::latency::TimeDistribution;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const MS: u64 = 1_000_000;

#[test]
fn several_kinds_of_requests_go_out_in_their_proportions_with_texts_filled_in() {
    let seen: Arc<Mutex<BTreeMap<String, u64>>> = Arc::default();
    let note = seen.clone();
    let server = Server::start(move |mut request| {
        let line = request.head.lines().next().unwrap_or_default().to_owned();
        let body = String::from_utf8_lossy(request.body).into_owned();
        *note.lock().unwrap().entry(format!("{line} {body}")).or_default() += 1;
        request.answer("200 OK", "good")
    });
    let read = RequestKind { weight: 3, ..RequestKind::get("test", "/read/{{id}}") };
    let write = RequestKind {
        method: "POST".to_owned(),
        body: Some(b"name={{name}}".to_vec()),
        ..RequestKind::get("test", "/write")
    };
    let table = DataTable {
        names: vec!["id".into(), "name".into()],
        values: vec![vec!["1".into(), "a".into()], vec!["2".into(), "bb".into()]],
    };
    let load = LoadConfig {
        kinds: RequestKinds::new(vec![read, write], table).unwrap(),
        ..server.load(1, 80)
    };
    let measured = carry_out(&load);
    assert_eq!(rows(&measured), [("ok", 80)]);
    let seen: Vec<(String, u64)> = seen.lock().unwrap().clone().into_iter().collect();
    let expected = [
        ("GET /read/1 HTTP/1.1 ", 30),
        ("GET /read/2 HTTP/1.1 ", 30),
        ("POST /write HTTP/1.1 name=a", 10),
        ("POST /write HTTP/1.1 name=bb", 10),
    ];
    let expected = expected.map(|(line, count)| (line.to_owned(), count));
    assert_eq!(seen, expected);
}

#[test]
fn a_unix_socket_is_as_good_as_a_port() {
    let folder = std::env::temp_dir().join(format!("speedwell-load-{}", std::process::id()));
    let listener = std::os::unix::net::UnixListener::bind(&folder).unwrap();
    std::thread::spawn(move || {
        use std::io::{Read, Write};
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                while stream.read(&mut buffer).is_ok_and(|read| read > 0) {
                    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
                }
            });
        }
    });
    let server = good();
    let mut load = server.load(2, 50);
    load.target.addresses = vec![ServerAddress::Unix(folder.clone())];
    let measured = carry_out(&load);
    assert_eq!(rows(&measured), [("ok", 50)]);
    assert_eq!(server.seen(), 0);
    std::fs::remove_file(folder).unwrap();
}

#[test]
fn a_connection_is_given_up_after_its_requests_or_its_time() {
    let server = good();
    let mut load = server.load(1, 100);
    load.rules.max_requests = Some(7);
    let measured = carry_out(&load);
    assert_eq!(rows(&measured), [("ok", 100)]);
    assert_eq!(measured.totals.outcomes.connections.opened, 15);
    assert_eq!(measured.threads[0].most_requests, 7);

    let clock = WaitClock::movable();
    let server = Server::start(move |mut request| {
        clock.advance(Duration::from_millis(10));
        request.answer("200 OK", "good")
    });
    let mut load = server.load(1, 20);
    load.rules.lifetime_ns = Some(45 * MS);
    let measured = carry_out_by(clock, &load);
    assert_eq!(rows(&measured), [("ok", 20)]);
    // The fifth response of each connection arrives when its lifetime is over.
    assert_eq!(measured.totals.outcomes.connections.opened, 4);
}

#[test]
fn pipelined_requests_are_answered_in_order_and_a_close_loses_none() {
    let server = good();
    let load = LoadConfig { streams_per_connection: 4, ..server.load(8, 400) };
    let measured = carry_out(&load);
    assert_eq!(rows(&measured), [("ok", 400)]);
    assert_eq!((server.seen(), measured.max_connections), (400, 2));

    // Every tenth response closes its connection; later pipelined requests are not lost.
    let server = Server::start(|mut request| match request.number % 10 {
        9 => {
            request.say("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
            // Read what the client has sent since; otherwise closing would reset the connection.
            let _ = request.stream.shutdown(std::net::Shutdown::Write);
            let _ = std::io::copy(request.stream, &mut std::io::sink());
            Then::Close
        }
        _ => request.answer("200 OK", "good"),
    });
    let load = LoadConfig { streams_per_connection: 4, ..server.load(4, 100) };
    let measured = carry_out(&load);
    let outcomes = &measured.totals.outcomes;
    assert_eq!(outcomes.attempts(), 100);
    let stale = outcomes.errors(speedwell_model::load::outcomes::ErrorClass::EofStale);
    assert_eq!(outcomes.succeeded() + stale, 100, "{:?}", rows(&measured));
    assert_eq!(server.seen(), outcomes.succeeded());
    assert!(stale > 0);
}

#[test]
fn bodies_and_statuses_are_checked_by_the_success_rule() {
    let odd = || {
        Server::start(|mut request| match request.number % 2 {
            0 => request.answer("200 OK", "the good one"),
            _ => request.answer("200 OK", "bad"),
        })
    };
    for rule in [BodyRule::Contains(b"good".to_vec()), BodyRule::Length(12)] {
        let server = odd();
        let load = LoadConfig {
            success: SuccessRule { body: Some(rule), ..SuccessRule::default() },
            ..server.load(2, 40)
        };
        let measured = carry_out(&load);
        assert_eq!(rows(&measured), [("ok", 20), ("assertion", 20)]);
    }
    let server = Server::start(|mut request| request.answer("302 Found", ""));
    let load = LoadConfig {
        success: SuccessRule { statuses: vec![200..=299, 302..=302], body: None },
        ..server.load(2, 10)
    };
    assert_eq!(rows(&carry_out(&load)), [("ok", 10)]);
}

#[test]
fn a_probe_reports_the_response_or_its_timeout() {
    let server = Server::start(|mut request| {
        request.say("HTTP/1.1 404 Not Found\r\nServer: tiny\r\nContent-Type: text/plain\r\n");
        request.say("Content-Length: 5\r\n\r\nnope\n");
        Then::Keep
    });
    let stop = AtomicBool::new(false);
    let probe = generator::send_probe(&server.load(3, 100), &stop).unwrap();
    assert_eq!((probe.facts.status, probe.is_success), (404, false));
    assert_eq!(probe.facts.server.as_deref(), Some("tiny"));
    assert_eq!(probe.facts.content_type.as_deref(), Some("text/plain"));
    assert_eq!((probe.body.as_slice(), probe.facts.body_bytes), (&b"nope\n"[..], 5));
    assert!(probe.facts.is_reusable && probe.facts.tls.is_none());
    assert_eq!(server.seen(), 1);

    let deaf = Server::start(|_| Then::Hold);
    let mut load = deaf.load(1, 1);
    load.rules.timeouts = RequestTimeouts { total_ns: Some(60 * MS), ..RequestTimeouts::default() };
    let error = generator::send_probe(&load, &stop).unwrap_err();
    assert_eq!(error.to_string(), "the response was not complete within the timeout");
}

#[test]
fn times_agree_with_a_log_that_the_server_keeps() {
    // The server takes a different time for each request and logs it.
    let log: Arc<Mutex<Vec<u64>>> = Arc::default();
    let note = log.clone();
    let turn = AtomicU64::new(0);
    let server = Server::start(move |mut request| {
        let began = Instant::now();
        let turn = turn.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_micros(500 + (turn * 7919) % 4000));
        note.lock().unwrap().push(began.elapsed().as_nanos() as u64);
        request.answer("200 OK", "good")
    });
    let load = LoadConfig { keeps_rows: true, ..server.load(4, 600) };
    let measured = carry_out(&load);
    let mut served = log.lock().unwrap().clone();
    let mut durations: Vec<u64> =
        measured.rows.iter().map(|row| row.end_ns - row.sent_ns.unwrap()).collect();
    served.sort_unstable();
    durations.sort_unstable();
    assert_eq!(served.len(), durations.len());
    // No request is faster than the server, and the k-th fastest is no faster than the server's
    // k-th.
    assert!(served.iter().zip(&durations).all(|(served, durations)| served <= durations));
    // The histogram's percentiles are within a thousandth of these times.
    let service: &TimeDistribution = measured.totals.latency.service_times();
    for ppm in [10_000, 250_000, 500_000, 900_000, 990_000, 1_000_000] {
        let rank = (600 * u64::from(ppm)).div_ceil(1_000_000) as usize;
        let (exact, reported) = (durations[rank - 1], service.quantile(ppm).unwrap().ns);
        assert!(
            reported >= exact && reported - exact <= exact / 1000 + 1,
            "{ppm}: {exact} {reported}"
        );
    }
}
