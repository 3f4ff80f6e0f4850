//! Where a server listens: loopback on both families, Unix sockets, and nowhere unprotected.

use super::served::{Served, Wire, limits, local};
use speedwell_serve::{Address, Error, Listen, Options, Server};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

#[test]
fn loopback_is_ipv4_and_ipv6_where_the_machine_has_it() {
    let served = Served::local();
    let port = served.address().port();
    for address in &served.addresses {
        let Address::Tcp(address) = address else {
            panic!("{address:?}")
        };
        assert!(address.ip().is_loopback());
        assert_eq!(address.port(), port);
        let mut wire = Wire::new(TcpStream::connect(address).unwrap());
        wire.send(format!("GET / HTTP/1.1\r\nHost: {address}\r\n\r\n"));
        assert_eq!(wire.answer().text(), "hello");
    }
}

#[test]
fn a_unix_socket_serves_its_owner_and_goes_with_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listen = vec![Listen::Unix(path.clone())];
    let mut served = Served::start(Options {
        listen,
        limits: limits(),
        ..Options::default()
    });
    let ask = |host: &str| {
        let mut wire = Wire::new(UnixStream::connect(&path).unwrap());
        wire.send(format!("GET /client HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        wire.answer()
    };
    let answer = ask("localhost");
    assert!(answer.text().contains("address: None"), "{}", answer.text());
    assert_eq!(ask("evil.example").status, 421);
    served.stopper.stop();
    served.join();
    assert!(!path.exists());
}

#[test]
fn nothing_is_served_unprotected_where_others_can_reach_it() {
    let listen = vec![Listen::Address("0.0.0.0:0".parse().unwrap())];
    let bind = |has_token| {
        let options = Options {
            listen: listen.clone(),
            has_token,
            ..local()
        };
        Server::bind(options, axum::Router::new())
    };
    for has_token in [false, true] {
        match bind(has_token) {
            Err(Error::Exposed(why)) => assert!(why.contains("'0.0.0.0:0'") && why.contains("TLS")),
            other => panic!("{other:?}"),
        }
    }
}
