//! TLS: handshakes, and clients that do not complete one.

use super::served::{Served, Wire, limits, local};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use speedwell_serve::{Error, Limits, Options, Tls};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

struct Papers {
    certificate: String,
    key: String,
    roots: RootCertStore,
}

fn papers() -> Papers {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    Papers {
        certificate: cert.pem(),
        key: signing_key.serialize_pem(),
        roots,
    }
}

fn served(papers: &Papers, limits: Limits) -> Served {
    let tls = Tls::from_pem(papers.certificate.as_bytes(), papers.key.as_bytes()).unwrap();
    Served::start(Options {
        tls: Some(tls),
        limits,
        ..local()
    })
}

fn connect(served: &Served, papers: &Papers) -> Wire<StreamOwned<ClientConnection, TcpStream>> {
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(papers.roots.clone())
        .with_no_client_auth();
    let name = "127.0.0.1".try_into().unwrap();
    let client = ClientConnection::new(Arc::new(config), name).unwrap();
    Wire::new(StreamOwned::new(client, served.connect().socket))
}

#[test]
fn requests_travel_by_tls_and_handlers_know_it() {
    let papers = papers();
    let served = served(&papers, limits());
    let mut wire = connect(&served, &papers);
    let host = served.address();
    for _ in 0..2 {
        wire.send(format!("GET /client HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        let answer = wire.answer();
        assert!(answer.text().contains("secure: true"), "{}", answer.text());
        assert!(
            answer.text().contains(&format!("https://{host}")),
            "{}",
            answer.text()
        );
    }
    wire.send(format!(
        "POST / HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nContent-Length: 0\r\n\r\n"
    ));
    assert_eq!(
        wire.answer().status,
        403,
        "the same name without TLS is another site"
    );
}

#[test]
fn a_large_answer_is_whole_and_ends_properly() {
    let papers = papers();
    let served = served(&papers, limits());
    let mut wire = connect(&served, &papers);
    let host = served.address();
    wire.send(format!(
        "GET /text HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    ));
    assert_eq!(wire.answer().body.len(), 11_000);
    assert_eq!(wire.rest(), "");
}

#[test]
fn who_does_not_speak_tls_is_not_answered() {
    let papers = papers();
    let served = served(&papers, limits());
    let mut wire = served.connect();
    wire.send(format!(
        "GET / HTTP/1.1\r\nHost: {}\r\n\r\n",
        served.address()
    ));
    assert!(!wire.rest().contains("hello"));
    assert_eq!(served.requests(), 0);
}

#[test]
fn a_handshake_that_does_not_come_is_not_waited_for() {
    let papers = papers();
    let served = served(
        &papers,
        Limits {
            head: Duration::from_millis(100),
            ..limits()
        },
    );
    assert_eq!(served.connect().rest(), "");
}

#[test]
fn files_that_do_not_hold_what_they_should_are_named() {
    let (one, other) = (papers(), papers());
    let why = |certificate: &str, key: &str| match Tls::from_pem(
        certificate.as_bytes(),
        key.as_bytes(),
    ) {
        Err(Error::Tls(why)) => why,
        other => panic!("{other:?}"),
    };
    assert!(why("", &one.key).contains("no certificate"));
    assert!(why(&one.certificate, "").contains("no private key"));
    assert!(why(&one.certificate, &other.key).len() > 5);
    let nowhere = std::path::Path::new("/nowhere/cert.pem");
    assert!(
        Tls::from_files(nowhere, nowhere)
            .unwrap_err()
            .to_string()
            .contains("/nowhere/cert.pem")
    );
}
