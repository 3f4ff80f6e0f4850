//! Servers that load generators are known to miscount, on real sockets: every request is counted
//! once, with the right outcome. Forty requests over two connections, as in the comparison of
//! generators that these cases come from; "every second" refers to the request number.

use super::busy::wait_until;
use super::server::{Asked, Server, Then, carry_out, carry_out_by, load_to, rows};
use speedwell_load::generator;
use speedwell_load::load::{LoadConfig, RequestKind, RequestKinds, RequestTimeouts};
use speedwell_load::pace::{ClosedPace, PacingModel, ThinkTime};
use speedwell_model::clock::WaitClock;
use speedwell_model::load::measurement::{LoadMeasurement, TimelineTick};
use speedwell_model::load::outcomes::ErrorClass;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const REQUESTS: u64 = 40;

/// Sends forty requests over two connections.
#[track_caller]
fn forty(handler: impl Fn(Asked) -> Then + Send + Sync + 'static) -> (LoadMeasurement, Server) {
    let server = Server::start(handler);
    let measured = carry_out(&server.load(2, REQUESTS));
    assert_eq!(measured.totals.outcomes.attempts(), REQUESTS);
    (measured, server)
}

/// Same as [`forty`], with every second request served correctly.
#[track_caller]
fn every_second(
    misbehave: impl Fn(Asked) -> Then + Send + Sync + 'static,
) -> (Vec<(&'static str, u64)>, LoadMeasurement) {
    let (measured, _server) = forty(move |mut request| match request.number % 2 {
        0 => request.answer("200 OK", "good"),
        _ => misbehave(request),
    });
    (rows(&measured), measured)
}

/// Sends forty requests over one connection at a time, so that their order is known.
fn one_by_one(handler: impl Fn(Asked) -> Then + Send + Sync + 'static) -> LoadMeasurement {
    let server = Server::start(handler);
    carry_out(&server.load(1, REQUESTS))
}

const WAIT: Duration = Duration::from_millis(5);

#[test]
fn bodies_of_varying_length_are_good() {
    let (measured, _) = forty(|mut request| {
        let length = 1 + request.number as usize % 5;
        request.answer("200 OK", &"x".repeat(length))
    });
    assert_eq!(rows(&measured), [("ok", 40)]);
    let replies = measured.totals.responses;
    assert!(replies.lengths_vary());
    assert_eq!((replies.min_body_bytes, replies.max_body_bytes), (1, 5));
    assert_eq!(measured.totals.outcomes.bytes.body, 8 * (1 + 2 + 3 + 4 + 5));
}

#[test]
fn a_truncated_body_is_short() {
    let (rows, measured) = every_second(|mut request| {
        let half = "x".repeat(50);
        request.say(&format!("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{half}"));
        Then::Close
    });
    assert_eq!(rows, [("ok", 20), ("eof.in-body", 20)]);
    assert_eq!(measured.totals.outcomes.bytes.body, 20 * 4);
}

#[test]
fn a_reset_is_classified_by_the_phase_of_the_response() {
    let (before, _) = every_second(|_| Then::Reset);
    assert_eq!(before, [("ok", 20), ("reset.before-first-byte", 20)]);
    let (in_head, _) = every_second(|mut request| {
        request.say("HTTP/1.1 200 OK\r\nContent-");
        std::thread::sleep(WAIT);
        Then::Reset
    });
    assert_eq!(in_head, [("ok", 20), ("reset.in-head", 20)]);
    let (in_body, _) = every_second(|mut request| {
        request.say("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf");
        std::thread::sleep(WAIT);
        Then::Reset
    });
    assert_eq!(in_body, [("ok", 20), ("reset.in-body", 20)]);
}

#[test]
fn an_end_before_any_byte_is_stale_only_on_a_reused_connection() {
    let measured = one_by_one(|mut request| match request.number % 2 {
        0 => request.answer("200 OK", "good"),
        _ => Then::Close,
    });
    assert_eq!(rows(&measured), [("ok", 20), ("eof.stale", 20)]);
    assert_eq!(measured.totals.outcomes.connections.opened, 20);
    let measured = one_by_one(|_| Then::Close);
    assert_eq!(rows(&measured), [("eof.first", 40)]);
    let measured = one_by_one(|mut request| {
        request.say("HTTP/1.1 2");
        Then::Close
    });
    assert_eq!(rows(&measured), [("eof.in-head", 40)]);
}

#[test]
fn retries_on_stale_connections_are_counted() {
    let server = Server::start(|mut request| match request.number % 3 {
        1 => Then::Close,
        _ => request.answer("200 OK", "good"),
    });
    let mut load = server.load(1, REQUESTS);
    load.rules.retries_stale = true;
    let measured = carry_out(&load);
    // The server's sequence is 0 ok, 1 closed, 2 ok (the retry), 3 ok, 4 closed, 5 ok ...
    assert_eq!(rows(&measured), [("ok", 40)]);
    let outcomes = &measured.totals.outcomes;
    assert_eq!(outcomes.retries, 20);
    assert_eq!(outcomes.connections.sends, 60);
    assert_eq!(server.seen(), 60);
}

#[test]
fn a_500_is_an_answer_and_an_error() {
    let (rows, measured) = every_second(|mut request| request.answer("500 Oops", "sorry!"));
    assert_eq!(rows, [("ok", 20), ("status", 20)]);
    let codes: Vec<_> = measured.totals.outcomes.codes.nonzero_counts().collect();
    assert_eq!(codes, [(200, 20), (500, 20)]);
    // Its latency does not count as successful.
    assert_eq!(measured.totals.latency.service_times().count(), 20);
}

#[test]
fn early_hints_are_interim_responses() {
    let (measured, _) = forty(|mut request| {
        request.say("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
        std::thread::sleep(Duration::from_millis(1));
        request.answer("200 OK", "good")
    });
    assert_eq!(rows(&measured), [("ok", 40)]);
    let interim: Vec<_> = measured.totals.outcomes.interim_codes.nonzero_counts().collect();
    assert_eq!(interim, [(103, 40)]);
}

#[test]
fn a_connection_that_closes_after_each_answer_is_made_anew() {
    let (measured, server) = forty(|mut request| {
        request.say("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\ngood");
        Then::Close
    });
    assert_eq!(rows(&measured), [("ok", 40)]);
    assert_eq!(measured.totals.outcomes.connections.opened, 40);
    assert_eq!(measured.totals.responses.reusable, 0);
    assert_eq!(server.seen(), 40);
}

#[test]
fn a_body_may_last_until_the_end_of_the_connection() {
    let (measured, _) = forty(|mut request| {
        request.say("HTTP/1.0 200 OK\r\n\r\nhello ");
        std::thread::sleep(Duration::from_millis(1));
        request.say("world");
        Then::Close
    });
    assert_eq!(rows(&measured), [("ok", 40)]);
    assert_eq!(measured.totals.outcomes.bytes.body, 40 * 11);
}

#[test]
fn a_204_needs_no_length() {
    let (measured, _) = forty(|mut request| {
        request.say("HTTP/1.1 204 No Content\r\n\r\n");
        Then::Keep
    });
    assert_eq!(rows(&measured), [("ok", 40)]);
    assert_eq!(measured.totals.outcomes.connections.opened, 2);
}

#[test]
fn data_other_than_http_is_a_status_line_error() {
    let (measured, _) = forty(|mut request| {
        request.say("SSH-2.0-OpenSSH_9.2\r\n");
        Then::Close
    });
    assert_eq!(rows(&measured), [("protocol.status-line", 40)]);
}

#[test]
fn an_answer_to_head_has_no_body_whatever_its_length_says() {
    let server = Server::start(|mut request| {
        assert!(request.head.starts_with("HEAD / "));
        request.say("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
        Then::Keep
    });
    let head = RequestKind { method: "HEAD".to_owned(), ..RequestKind::get("test", "/") };
    let load =
        LoadConfig { kinds: RequestKinds::single(head).unwrap(), ..server.load(2, REQUESTS) };
    let measured = carry_out(&load);
    assert_eq!(rows(&measured), [("ok", 40)]);
    assert_eq!(measured.totals.outcomes.connections.opened, 2);
}

#[test]
fn an_answer_that_never_comes_runs_into_its_limit() {
    const LIMIT: Duration = Duration::from_secs(20);
    let limit = Some(LIMIT.as_nanos() as u64);
    let slow = |limits: RequestTimeouts, requests: u64, handler: fn(Asked, WaitClock) -> Then| {
        let clock = WaitClock::movable();
        let server = Server::start(move |request| handler(request, clock));
        let mut load = server.load(1, requests);
        load.rules.timeouts = limits;
        load.drain_ns = 10 * LIMIT.as_nanos() as u64;
        let measured = carry_out_by(clock, &load);
        (rows(&measured), measured.elapsed_ns)
    };
    // Unanswered requests take as long as the limit.
    let never: fn(Asked, WaitClock) -> Then = |mut request, clock| match request.number % 2 {
        0 => request.answer("200 OK", "good"),
        _ => {
            clock.advance(LIMIT);
            Then::Hold
        }
    };
    let total = RequestTimeouts { total_ns: limit, ..RequestTimeouts::default() };
    let (outcomes, elapsed_ns) = slow(total, 6, never);
    assert_eq!(outcomes, [("ok", 3), ("timeout.total", 3)]);
    assert_eq!(Some(elapsed_ns), limit.map(|limit| 3 * limit));
    let first_byte = RequestTimeouts { first_byte_ns: limit, ..RequestTimeouts::default() };
    let (outcomes, _) = slow(first_byte, 4, never);
    assert_eq!(outcomes, [("ok", 2), ("timeout.first-byte", 2)]);
    // The first byte arrives in time.
    let half: fn(Asked, WaitClock) -> Then = |mut request, clock| {
        request.say("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf");
        clock.advance(LIMIT);
        // Give the client time to check its timeouts.
        std::thread::sleep(4 * WAIT);
        clock.advance(LIMIT);
        Then::Hold
    };
    let both = RequestTimeouts {
        first_byte_ns: limit,
        total_ns: limit.map(|limit| 2 * limit),
        ..RequestTimeouts::default()
    };
    assert_eq!(slow(both, 2, half).0, [("timeout.total", 2)]);
}

#[test]
fn a_server_that_does_not_listen_refuses_every_request() {
    let closed_address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let measured = carry_out(&load_to(closed_address, 2, REQUESTS));
    assert_eq!(rows(&measured), [("connect.refused", 40)]);
    let lines = measured.totals.outcomes.connections;
    assert_eq!((lines.tried, lines.failed, lines.sends), (40, 40, 0));
    // Pauses of 1, 2, 4, ... 64, then 100 ms between attempts, instead of spinning on a dead
    // server.
    let least_ns = (127 + 12 * 100) * 1_000_000;
    assert!(measured.elapsed_ns > least_ns, "{}", measured.elapsed_ns);
    does_not_spin(&measured);
}

/// Checks that the event loop did not iterate far more often than there are requests, timeout
/// checks and ticks.
#[track_caller]
fn does_not_spin(measured: &LoadMeasurement) {
    let thread = &measured.threads[0];
    let looks = 2 * thread.elapsed_ns / 20_000_000 + thread.elapsed_ns / 100_000_000;
    let most = looks + 10 * measured.totals.outcomes.attempts();
    assert!(thread.loops < most + 100, "{thread:?}, at most {most}");
}

#[test]
fn a_connection_that_is_never_established_runs_into_its_limit() {
    // A backlog of one without accepts: the kernel silently drops further attempts.
    let listener = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::STREAM,
        None,
    )
    .unwrap();
    rustix::net::bind(&listener, &std::net::SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let address: std::net::SocketAddr =
        rustix::net::getsockname(&listener).unwrap().try_into().unwrap();
    let _filling = std::net::TcpStream::connect(address).unwrap();
    let mut load = load_to(address, 1, 3);
    load.rules.timeouts.connect_ns = Some(60_000_000);
    let measured = carry_out(&load);
    assert_eq!(rows(&measured), [("timeout.connect", 3)]);
}

#[test]
fn chunks_may_have_extensions_and_trailers() {
    let (measured, _) = forty(|mut request| {
        request.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        request.say("5;name=\"va;lue\"\r\nhello\r\n0\r\nChecksum: 12\r\n\r\n");
        Then::Keep
    });
    assert_eq!(rows(&measured), [("ok", 40)]);
    assert_eq!(measured.totals.outcomes.bytes.body, 40 * 5);
    assert_eq!(measured.totals.outcomes.connections.opened, 2);
}

#[test]
fn lengths_that_contradict_each_other_are_an_error_and_equal_ones_are_not() {
    let (measured, _) = forty(|mut request| {
        let other = 4 + request.number % 2;
        request.say(&format!(
            "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: {other}\r\n\r\ngood"
        ));
        Then::Keep
    });
    assert_eq!(rows(&measured), [("ok", 20), ("protocol.length", 20)]);
    let (measured, _) = forty(|mut request| {
        request.say("HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n");
        request.say("4\r\ngood\r\n0\r\n\r\n");
        Then::Keep
    });
    assert_eq!(rows(&measured), [("ok", 40)]);
    assert_eq!(measured.totals.responses.doubtful_framing, 40);
}

#[test]
fn answers_may_come_byte_by_byte() {
    let (measured, _) = forty(|mut request| {
        let answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n";
        for at in 0..answer.len() {
            request.say(&answer[at..=at]);
        }
        Then::Keep
    });
    assert_eq!(rows(&measured), [("ok", 40)]);
    assert_eq!(measured.totals.outcomes.bytes.body, 80);
}

#[test]
fn malformed_chunks_and_malformed_headers_are_counted_separately() {
    let (rows, _) = every_second(|mut request| {
        request.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n");
        Then::Hold
    });
    assert_eq!(rows, [("ok", 20), ("protocol.chunk", 20)]);
    let (rows, _) = every_second(|mut request| {
        request.say("HTTP/1.1 200 OK\r\nBad Header: x\r\n\r\n");
        Then::Hold
    });
    assert_eq!(rows, [("ok", 20), ("protocol.header", 20)]);
}

#[test]
fn extra_bytes_after_a_response_are_an_error() {
    let (rows, _) = every_second(|mut request| {
        request.say("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngoodHTTP/1.1 200 OK\r\n");
        Then::Hold
    });
    assert_eq!(rows, [("ok", 20), ("protocol.extra-bytes", 20)]);
}

#[test]
fn a_server_that_closes_an_idle_connection_with_408_spoils_no_answer() {
    // The notice arrives together with the response, or once the connection has been idle for a
    // while.
    let goodbye = "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    let (measured, _) = forty(move |mut request| {
        let good = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood";
        request.say(&format!("{good}{goodbye}"));
        Then::Close
    });
    assert_eq!(rows(&measured), [("ok", 40)]);
    assert_eq!(measured.totals.responses.stray_bytes, 0);
    assert_eq!(measured.totals.outcomes.connections.opened, 40);

    let server = Server::start(move |mut request| {
        request.answer("200 OK", "good");
        request.say(goodbye);
        Then::Close
    });
    let load = LoadConfig {
        pace: PacingModel::Closed(ClosedPace::new(2, ThinkTime::Fixed(20_000_000)).unwrap()),
        ..server.load(2, 6)
    };
    let measured = carry_out(&load);
    let good = measured.totals.outcomes.succeeded();
    // If the machine delays the client, its next request may meet the notice or the end.
    assert!(good >= 1, "{:?}", rows(&measured));
    assert_eq!(measured.totals.responses.stray_bytes, 0);
}

#[test]
fn a_server_that_restarts_in_mid_run_is_waited_for_without_spinning() {
    let good = |mut request: Asked| {
        std::thread::sleep(Duration::from_millis(1));
        request.answer("200 OK", "good")
    };
    // The first server closes everything after 60 requests and stops.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let first = Server::on(listener, move |request| match request.number {
        0..60 => good(request),
        _ => Then::Close,
    });
    let mut load = load_to(address, 4, 0);
    load.stop.after_requests = None;
    load.stop.after_ns = Some(60_000_000_000);
    let (is_over, gaps) = (AtomicBool::new(false), AtomicU64::new(0));
    let (measured, second, gap) = std::thread::scope(|scope| {
        let restart = scope.spawn(|| {
            wait_until(|| first.seen() >= 60);
            let begin = Instant::now();
            drop(first);
            // The second starts once the timeline shows a gap.
            wait_until(|| {
                begin.elapsed() > Duration::from_millis(400) && gaps.load(Ordering::SeqCst) > 0
            });
            let gap = begin.elapsed();
            let second = Server::on(TcpListener::bind(address).unwrap(), good);
            wait_until(|| second.seen() > 100);
            is_over.store(true, Ordering::SeqCst);
            (second, gap)
        });
        let measured = generator::run(&load, &is_over, &mut |progress| {
            gaps.fetch_add(u64::from(is_gap(progress.tick)), Ordering::SeqCst);
        });
        let (second, gap) = restart.join().unwrap();
        (measured.unwrap(), second, gap)
    });
    let outcomes = &measured.totals.outcomes;
    outcomes.check_balance().unwrap();
    assert!(outcomes.succeeded() > 100, "{:?}", rows(&measured));
    assert!(outcomes.succeeded() <= 60 + second.seen(), "{:?}", rows(&measured));
    let refused = outcomes.errors(ErrorClass::ConnectRefused);
    // Four connections, each of which retries after 1, 2, 4, ... 64, 100, 100 ms.
    let most = 4 * (9 + gap.as_millis() as u64 / 100);
    assert!((1..=most).contains(&refused), "{:?}", rows(&measured));
    does_not_spin(&measured);
    assert!(measured.timeline.ticks.iter().any(is_gap), "{:?}", measured.timeline);
}

/// An interval in which everything failed.
fn is_gap(tick: &TimelineTick) -> bool {
    tick.ok == 0 && tick.errors > 0
}
