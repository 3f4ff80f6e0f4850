//! Where a server listens: loopback on both families, Unix sockets, and nowhere unprotected.

use super::served::{TestConnection, TestServer, local_options, test_limits};
use speedwell_server::http::{BoundAddress, Error, HttpServer, ListenAddress, ServerOptions};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

#[test]
fn the_server_listens_on_all_available_loopback_addresses() {
    let served = TestServer::start_local();
    let port = served.address().port();
    for address in &served.addresses {
        let BoundAddress::Tcp(address) = address else { panic!("{address:?}") };
        assert!(address.ip().is_loopback());
        assert_eq!(address.port(), port);
        let mut wire = TestConnection::new(TcpStream::connect(address).unwrap());
        wire.send(format!("GET / HTTP/1.1\r\nHost: {address}\r\n\r\n"));
        assert_eq!(wire.read_response().text(), "hello");
    }
}

#[test]
fn a_unix_socket_is_served_and_removed_with_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listen = vec![ListenAddress::Unix(path.clone())];
    let mut served = TestServer::start(ServerOptions {
        listen,
        limits: test_limits(),
        ..ServerOptions::default()
    });
    let ask = |host: &str| {
        let mut wire = TestConnection::new(UnixStream::connect(&path).unwrap());
        wire.send(format!("GET /client HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        wire.read_response()
    };
    let answer = ask("localhost");
    assert!(answer.text().contains("address: None"), "{}", answer.text());
    assert_eq!(ask("evil.example").status, 421);
    served.stopper.stop();
    served.wait_for_end();
    assert!(!path.exists());
}

#[test]
fn an_address_reachable_by_others_is_refused_without_tls() {
    let listen = vec![ListenAddress::Address("0.0.0.0:0".parse().unwrap())];
    let bind = |has_token| {
        let options = ServerOptions { listen: listen.clone(), has_token, ..local_options() };
        HttpServer::bind(options, axum::Router::new())
    };
    for has_token in [false, true] {
        match bind(has_token) {
            Err(Error::Exposed(message)) => {
                assert!(message.contains("'0.0.0.0:0'") && message.contains("TLS"))
            }
            other => panic!("{:?}", other.map(|_| ())),
        }
    }
}
