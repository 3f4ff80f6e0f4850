//! Trust, negotiated parameters, and loads that cannot use HTTP/3.

use super::server::{Server, Setup, good};
use crate::server::{carry_out, rows};
use speedwell_load::generator;
use speedwell_load::load::{LoadConfig, ServerAddress, TrustSource};
use std::sync::atomic::AtomicBool;

fn with_trust(load: LoadConfig, trust: TrustSource) -> LoadConfig {
    let mut load = load;
    if let Some(tls) = &mut load.target.tls {
        tls.trust = trust;
    }
    load
}

#[test]
fn a_certificate_of_somebody_unknown_is_refused_unless_anyone_is_trusted() {
    let server = Server::start(|_| good());
    let other = Server::start(|_| good());
    let mut load = server.load(1, 1, 3);
    load.target.tls = other.load(1, 1, 1).target.tls;
    assert_eq!(rows(&carry_out(&load)), [("tls.verify", 3)]);
    assert_eq!(server.requests(), 0);
    let measured = carry_out(&with_trust(load, TrustSource::Anyone));
    assert_eq!(rows(&measured), [("ok", 3)]);
}

#[test]
fn a_certificate_for_another_name_is_refused_unless_that_name_is_asked_for() {
    let setup = Setup { name: "known.test", ..Setup::default() };
    let server = Server::start_as(&setup, |_| good());
    let mut load = server.load(1, 1, 3);
    assert_eq!(rows(&carry_out(&load)), [("tls.verify", 3)]);
    if let Some(tls) = &mut load.target.tls {
        tls.server_name = Some("known.test".to_owned());
    }
    assert_eq!(rows(&carry_out(&load)), [("ok", 3)]);
}

#[test]
fn a_server_with_another_protocol_over_quic_is_an_alpn_error() {
    let setup = Setup { protocol: b"doq", ..Setup::default() };
    let server = Server::start_as(&setup, |_| good());
    assert_eq!(rows(&carry_out(&server.load(1, 1, 3))), [("tls.alpn", 3)]);
}

#[test]
fn unix_sockets_and_plain_targets_are_rejected_for_http3() {
    let server = Server::start(|_| good());
    let error_message = |load: &LoadConfig| {
        let never = AtomicBool::new(false);
        let error = generator::run(load, &never, &mut |_| {}).unwrap_err();
        let of_probe = generator::send_probe(load, &never).unwrap_err();
        assert_eq!(error.to_string(), of_probe.to_string());
        error.to_string()
    };
    let mut load = server.load(1, 1, 1);
    load.target.addresses = vec![ServerAddress::Unix("/nowhere".into())];
    assert!(error_message(&load).contains("Unix socket"));
    let mut load = server.load(1, 1, 1);
    load.target.tls = None;
    assert!(error_message(&load).contains("does not use TLS"));
}
