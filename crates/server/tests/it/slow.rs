//! T5: clients that send nothing or little, or read nothing, and too many of them.

use super::served::{TestConnection, TestServer, test_limits};
use speedwell_server::http::{ListenAddress, ServerLimits, ServerOptions};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;
use tokio::net::TcpSocket;
use tokio::runtime::Builder;

/// Longer than a busy machine needs: exceeding it is a bug.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

const SHORT: Duration = Duration::from_millis(100);

#[test]
fn a_silent_client_is_disconnected() {
    let served =
        TestServer::start_with_limits(ServerLimits { head_timeout: SHORT, ..test_limits() });
    assert_eq!(served.connect().read_to_end(), "");
    let mut wire = served.connect();
    wire.send("GET / HTTP/1.1\r\nHos");
    assert_eq!(wire.read_to_end(), "", "half a head");
    let mut wire = served.connect();
    wire.send(format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", served.address()));
    assert_eq!(wire.read_response().text(), "hello");
    assert_eq!(wire.read_to_end(), "", "a connection without a further request");
}

/// Each byte is progress, but none of them buys more time.
#[test]
fn a_request_head_that_arrives_too_slowly_is_cut_off() {
    let served =
        TestServer::start_with_limits(ServerLimits { head_timeout: SHORT, ..test_limits() });
    let mut wire = served.connect();
    wire.send("GET / HTTP/1.1\r\n");
    while wire.socket.write_all(b"X: y\r\n").is_ok() {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(wire.read_to_end(), "");
    assert_eq!(served.request_count(), 0);
}

#[test]
fn a_stalled_request_body_is_refused() {
    let served = TestServer::start_with_limits(ServerLimits { body_grace: SHORT, ..test_limits() });
    for path in ["/read", "/pieces"] {
        let mut wire = served.connect();
        let host = served.address();
        wire.send(format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 1000\r\n\r\n1234"
        ));
        let answer = wire.read_response();
        assert_eq!(answer.status, 408);
        assert!(answer.text().contains("1000 bytes per second"), "{}", answer.text());
        assert_eq!(wire.read_to_end(), "");
    }
}

#[test]
fn an_answer_that_is_not_read_is_given_up() {
    let served =
        TestServer::start_with_limits(ServerLimits { stalled_answer: SHORT, ..test_limits() });
    let mut wire = served.connect();
    wire.send(format!("GET /endless HTTP/1.1\r\nHost: {}\r\n\r\n", served.address()));
    let line = served.log_line();
    assert!(line.contains(" GET /endless 200 ") && line.ends_with(", cut off"), "{line}");
}

/// The kernel does not help here: it never times out a Unix socket.
#[test]
fn an_answer_that_is_not_read_from_a_unix_socket_is_given_up_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let served = TestServer::start(ServerOptions {
        listen: vec![ListenAddress::Unix(path.clone())],
        limits: ServerLimits { stalled_answer: SHORT, ..test_limits() },
        ..ServerOptions::default()
    });
    let mut wire = TestConnection::new(UnixStream::connect(&path).unwrap());
    wire.send("GET /endless HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let line = served.log_line();
    assert!(line.contains(" unix GET /endless 200 ") && line.ends_with(", cut off"), "{line}");
}

#[test]
fn open_connections_per_address_are_limited() {
    let served =
        TestServer::start_with_limits(ServerLimits { connections_per_address: 3, ..test_limits() });
    has_room_for_three(&served);
}

#[test]
fn all_addresses_together_have_a_limit_of_connections() {
    let served = TestServer::start_with_limits(ServerLimits { connections: 3, ..test_limits() });
    has_room_for_three(&served);
}

/// A team shares an address: clients that log in leave the quota for any connection, and can
/// connect even when that is exhausted.
#[test]
fn logged_in_clients_have_a_separate_connection_limit() {
    let served = TestServer::start_with_limits(ServerLimits {
        connections_per_address: 2,
        connections_logged_in: 8,
        ..test_limits()
    });
    let ask = |path: &str, field: &str| {
        let mut wire = served.connect();
        let host = served.address();
        wire.send(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{field}\r\n"));
        let status = wire.read_response().status;
        (status, wire)
    };
    let known = || ask("/known", "Authorization: right\r\n");
    let team = [known(), known(), known()];
    assert!(team.iter().all(|(status, _)| *status == 200));
    let others = [ask("/", ""), ask("/", "")];
    assert!(others.iter().all(|(status, _)| *status == 200));
    assert_eq!(ask("/", "").0, 503, "anybody may have two");
    // A connection with wrong credentials gets one response and is closed.
    let (status, mut wrong) = ask("/known", "Authorization: wrong\r\n");
    assert_eq!((status, wrong.read_to_end().as_str()), (200, ""));
    drop(team);
    assert_eq!(known().0, 200);
    assert_eq!(ask("/", "").0, 503, "the team's places are not for anybody");
}

fn has_room_for_three(served: &TestServer) {
    let request = format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", served.address());
    let mut open: Vec<_> = (0..3).map(|_| served.connect()).collect();
    for wire in &mut open {
        wire.send(&request);
        assert_eq!(wire.read_response().text(), "hello");
    }
    let mut further = served.connect();
    further.send(&request);
    let answer = further.read_response();
    assert_eq!(answer.status, 503);
    assert_eq!(answer.headers["retry-after"], "1");
    assert_eq!(answer.text().trim_end(), "too many connections");
    assert_eq!(further.read_to_end(), "");
    open.pop();
    // The server notices the closed connection a moment later.
    let answered = (0..1000).any(|_| {
        let mut wire = served.connect();
        wire.send(&request);
        std::thread::sleep(Duration::from_millis(1));
        wire.try_read_response().is_some_and(|answer| answer.status == 200)
    });
    assert!(answered);
    open[0].send(&request);
    assert_eq!(open[0].read_response().text(), "hello", "those who were there stay");
}

/// Connects from an address of the loopback network.
fn connect_from(last: u8, served: &TestServer) -> TestConnection<TcpStream> {
    let runtime = Builder::new_current_thread().enable_io().build().unwrap();
    let socket = runtime.block_on(async {
        let socket = TcpSocket::new_v4().unwrap();
        let source_address = Ipv4Addr::new(127, 0, 0, last);
        socket.bind((source_address, 0).into()).unwrap();
        let stream = socket.connect(served.address()).await.unwrap();
        stream.into_std().unwrap()
    });
    socket.set_nonblocking(false).unwrap();
    socket.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    TestConnection::new(socket)
}

/// Silent clients fill their per-address quotas and all slots. A client that sends its request at
/// once is answered nevertheless, and connections that were answered before keep their slots.
#[test]
fn slow_clients_from_many_addresses_make_room_for_others() {
    let served = TestServer::start_with_limits(ServerLimits {
        connections: 64,
        connections_per_address: 4,
        ..test_limits()
    });
    let request = format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", served.address());
    let mut before = connect_from(1, &served);
    before.send(&request);
    assert_eq!(before.read_response().text(), "hello");
    let starts = ["", "GET", "GET / HTTP/1.1\r\nHost: x\r\nX: "];
    let mut slow: Vec<_> = (0..4 * 63)
        .map(|number| {
            let mut wire = connect_from(2 + number % 63, &served);
            wire.send(starts[usize::from(number) % 3]);
            wire
        })
        .collect();
    for number in 0..200 {
        // Reconnects in place of an evicted client.
        let last = 2 + number % 63;
        slow[usize::from(number)] = connect_from(last, &served);
        let mut other = connect_from(100 + number % 100, &served);
        other.send(&request);
        assert_eq!(other.read_response().text(), "hello", "{number}");
    }
    before.send(&request);
    assert_eq!(before.read_response().text(), "hello", "who was there is still");
    // A single address does not gain from it.
    let greedy: Vec<_> = (0..4).map(|_| connect_from(99, &served)).collect();
    let mut further = connect_from(99, &served);
    further.send(&request);
    assert_eq!(further.read_response().status, 503);
    drop((slow, greedy));
}

/// Connections that have sent a request are not closed in favor of new ones.
#[test]
fn a_client_that_is_being_answered_keeps_its_connection() {
    let served = TestServer::start_with_limits(ServerLimits { connections: 2, ..test_limits() });
    let request = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", served.address());
    let mut first = served.connect();
    first.send(request("/"));
    assert_eq!(first.read_response().text(), "hello");
    let mut second = served.connect();
    second.send(request("/endless"));
    second.socket.read_exact(&mut [0; 9]).unwrap();
    let mut further = served.connect();
    further.send(request("/"));
    assert_eq!(further.read_response().status, 503);
    first.send(request("/"));
    assert_eq!(first.read_response().text(), "hello");
}

#[test]
fn a_page_is_answered_while_hundreds_are_slow() {
    let served = TestServer::start_local();
    let slow: Vec<_> = (0..300)
        .map(|number| {
            let mut wire = served.connect();
            let start = ["", "GET", "POST /read HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n1"];
            wire.send(start[number % 3]);
            wire
        })
        .collect();
    for _ in 0..50 {
        assert_eq!(served.send_request("GET /", &[]).text(), "hello");
    }
    drop(slow);
}
