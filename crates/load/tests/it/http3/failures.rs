//! Misbehaving servers: each request ends in one class, and the counts balance.

use super::server::{Asked, Server, Setup, Then, good};
use crate::server::{carry_out, rows};
use bytes::Bytes;
use h3::error::Code;
use speedwell_load::generator::{self, ProbeError};
use speedwell_load::load::{BodyRule, LoadConfig, RequestTimeouts};
use speedwell_model::load::outcomes::ErrorClass;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const MS: u64 = 1_000_000;

/// A server that answers every second request correctly.
fn every_second(then: Then) -> Server {
    Server::start(move |request: &Asked| match request.number % 2 {
        0 => then.clone(),
        _ => good(),
    })
}

fn sixteen(server: &Server) -> LoadConfig {
    server.load(1, 1, 16)
}

fn limits(load: LoadConfig, timeouts: RequestTimeouts) -> LoadConfig {
    let mut load = load;
    load.rules.timeouts = timeouts;
    load
}

#[test]
fn a_stream_that_is_reset_is_counted_by_its_code() {
    let server = every_second(Then::Reset(Code::H3_INTERNAL_ERROR, false));
    let measured = carry_out(&sixteen(&server));
    assert_eq!(rows(&measured), [("ok", 8), ("h3.reset", 8)]);
    let text = serde_json::to_string(&measured.totals.outcomes).unwrap();
    assert!(text.contains("\"h3_reset\":{\"258\":8}"), "{text}");
    assert_eq!(server.connections(), 1);

    let server = every_second(Then::Reset(Code::from(0x4242), true));
    let measured = carry_out(&sixteen(&server));
    assert_eq!(rows(&measured), [("ok", 8), ("h3.reset", 8)]);
    let text = serde_json::to_string(&measured.totals.outcomes).unwrap();
    assert!(text.contains("\"h3_reset_unknown\":8"), "{text}");
    let parsed: speedwell_model::load::outcomes::OutcomeCounts =
        serde_json::from_str(&text).unwrap();
    assert_eq!(parsed, measured.totals.outcomes);

    let server = every_second(Then::Reset(Code::H3_REQUEST_REJECTED, false));
    let measured = carry_out(&sixteen(&server));
    assert_eq!(rows(&measured), [("ok", 8), ("h3.refused", 8)]);
}

#[test]
fn a_closed_connection_is_classified_by_phase_and_replaced() {
    let cases = [
        // H3_NO_ERROR, and a code that HTTP/3 does not define, which means the same.
        (Then::Close(0x100, false), "eof.first"),
        (Then::Close(0, false), "eof.first"),
        (Then::Close(0x100, true), "eof.in-body"),
        (Then::Close(0x102, false), "reset.before-first-byte"),
        (Then::Close(0x102, true), "reset.in-body"),
    ];
    for (then, class) in cases {
        let measured = carry_out(&sixteen(&Server::start(move |_| then.clone())));
        assert_eq!(rows(&measured), [(class, 16)]);
        assert_eq!(measured.totals.outcomes.connections.opened, 16);
    }
    // The first response of each connection succeeds, so it was in use when it was closed.
    let server = Server::start(|request: &Asked| match request.number % 2 {
        0 => good(),
        _ => Then::Close(0x100, false),
    });
    let measured = carry_out(&sixteen(&server));
    assert_eq!(rows(&measured), [("ok", 8), ("eof.stale", 8)]);
    assert_eq!(server.connections(), 8);
}

#[test]
fn all_streams_of_a_connection_end_with_it() {
    let server = Server::start(|request: &Asked| match request.number {
        4 => Then::Close(0x102, false),
        _ => Then::Hold,
    });
    let measured = carry_out(&server.load(5, 5, 5));
    assert_eq!(rows(&measured), [("reset.before-first-byte", 5)]);
}

#[test]
fn no_request_is_lost_if_a_connection_accepts_no_more() {
    let server = Server::start(|request: &Asked| match request.number % 5 {
        4 => Then::Last,
        _ => good(),
    });
    let measured = carry_out(&server.load(1, 1, 20));
    let ok = measured.totals.outcomes.succeeded();
    assert_eq!(rows(&measured), [("ok", 20)], "{ok}");
    assert!((4..=5).contains(&server.connections()), "{}", server.connections());
}

#[test]
fn attempts_at_a_port_without_a_listener_are_refused_and_back_off() {
    let gone = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = Server::start(|_| good());
    let mut load = server.load(2, 1, 10);
    load.target.addresses = vec![speedwell_load::load::ServerAddress::Internet(gone)];
    let began = Instant::now();
    let measured = carry_out(&load);
    assert_eq!(rows(&measured), [("connect.refused", 10)]);
    assert_eq!(measured.totals.outcomes.connections.failed, 10);
    // Five attempts each, with pauses of 1, 2, 4 and 8 ms between them.
    assert!(began.elapsed() >= Duration::from_millis(15));
    assert!(began.elapsed() < Duration::from_secs(30));
    let probe = generator::send_probe(&load, &AtomicBool::new(false));
    assert!(matches!(probe, Err(ProbeError::Failed(class)) if class.name() == "connect.refused"));
}

#[test]
fn a_dead_server_is_noticed_and_attempts_back_off() {
    let server = Server::start(|_| good());
    let mut load = server.load(2, 1, 0);
    load.stop.after_requests = None;
    load.stop.after_ns = Some(60_000 * MS);
    let (stop, mut server, mut died) = (AtomicBool::new(false), Some(server), None);
    let measured = generator::run(&load, &stop, &mut |progress| {
        let outcomes = &progress.so_far.outcomes;
        if outcomes.succeeded() > 10 && server.take().is_some() {
            died = Some(Instant::now());
        }
        let is_noticed = outcomes.errors(ErrorClass::ConnectRefused) >= 4;
        let is_long_ago = died.is_some_and(|at| at.elapsed() > Duration::from_millis(400));
        stop.store(is_noticed && is_long_ago, Ordering::SeqCst);
    });
    let measured = measured.unwrap();
    let gone_ms = died.unwrap().elapsed().as_millis() as u64;
    let refused = measured.totals.outcomes.errors(ErrorClass::ConnectRefused);
    // Two clients that retry after 1, 2, 4, ... 64, 100, 100 ms.
    let most = 2 * (9 + gone_ms / 100);
    assert!((4..=most).contains(&refused), "{:?}", rows(&measured));
}

#[test]
fn timeouts_end_unanswered_requests_but_not_other_streams() {
    let first_byte = RequestTimeouts {
        // Long enough for the server to meet it with the others even if delayed.
        first_byte_ns: Some(2000 * MS),
        ..RequestTimeouts::default()
    };
    let server = every_second(Then::Hold);
    let measured = carry_out(&limits(server.load(4, 4, 8), first_byte));
    assert_eq!(rows(&measured), [("ok", 4), ("timeout.first-byte", 4)]);
    assert_eq!(server.connections(), 1);

    let total = RequestTimeouts { total_ns: Some(1000 * MS), ..RequestTimeouts::default() };
    let server = Server::start(|_| Then::Late(60_000));
    let measured = carry_out(&limits(server.load(2, 1, 4), total));
    assert_eq!(rows(&measured), [("timeout.total", 4)]);

    // A port that accepts packets and never responds.
    let deaf = UdpSocket::bind("127.0.0.1:0").unwrap();
    let connect = RequestTimeouts { connect_ns: Some(80 * MS), ..RequestTimeouts::default() };
    let mut load = limits(server.load(2, 1, 4), connect);
    load.target.addresses =
        vec![speedwell_load::load::ServerAddress::Internet(deaf.local_addr().unwrap())];
    let measured = carry_out(&load);
    assert_eq!(rows(&measured), [("timeout.connect", 4)]);
}

#[test]
fn a_silent_connection_is_reported_as_idle() {
    let setup = Setup { idle_ms: 2000, ..Setup::default() };
    let server = Server::start_as(&setup, |_| Then::Hold);
    let measured = carry_out(&server.load(2, 2, 2));
    assert_eq!(rows(&measured), [("h3.idle", 2)]);
}

#[test]
fn an_answer_is_judged_by_its_status_its_length_and_its_body() {
    let server = every_second(Then::Answer(503, Bytes::new()));
    let measured = carry_out(&sixteen(&server));
    assert_eq!(rows(&measured), [("ok", 8), ("status", 8)]);
    assert_eq!(measured.totals.outcomes.codes.count_of(503), 8);

    let server = every_second(Then::Answer(200, Bytes::from_static(b"poor!")));
    for rule in [BodyRule::Contains(b"oo".to_vec()), BodyRule::Length(4)] {
        let mut load = sixteen(&server);
        let is_length = matches!(rule, BodyRule::Length(_));
        load.success.body = Some(rule);
        let measured = carry_out(&load);
        if is_length {
            assert_eq!(rows(&measured), [("ok", 8), ("assertion", 8)])
        } else {
            assert_eq!(rows(&measured), [("ok", 16)])
        }
    }
    let mut load = sixteen(&server);
    load.success.body = Some(BodyRule::Contains(b"good".to_vec()));
    let measured = carry_out(&load);
    assert_eq!(rows(&measured), [("ok", 8), ("assertion", 8)]);

    let measured = carry_out(&sixteen(&every_second(Then::Short)));
    assert_eq!(rows(&measured), [("ok", 8), ("protocol.length", 8)]);
}

#[test]
fn early_hints_are_interim_and_a_missing_head_is_a_protocol_error() {
    let measured = carry_out(&sixteen(&every_second(Then::Hints)));
    assert_eq!(rows(&measured), [("ok", 16)]);
    assert_eq!(measured.totals.outcomes.interim_codes.count_of(103), 8);

    let measured = carry_out(&sixteen(&every_second(Then::Nothing)));
    assert_eq!(rows(&measured), [("ok", 8), ("h3.protocol", 8)]);
}
