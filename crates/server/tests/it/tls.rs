//! TLS: handshakes, and clients that do not complete one.

use super::served::{TestConnection, TestServer, local_options, test_limits};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use speedwell_server::http::{Error, ServerLimits, ServerOptions, TlsIdentity};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

struct TestCertificate {
    certificate: String,
    key: String,
    roots: RootCertStore,
}

fn make_certificate() -> TestCertificate {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    TestCertificate { certificate: cert.pem(), key: signing_key.serialize_pem(), roots }
}

fn start_tls_server(papers: &TestCertificate, limits: ServerLimits) -> TestServer {
    let tls = TlsIdentity::from_pem(papers.certificate.as_bytes(), papers.key.as_bytes()).unwrap();
    TestServer::start(ServerOptions { tls: Some(tls), limits, ..local_options() })
}

fn connect_tls(
    served: &TestServer,
    papers: &TestCertificate,
) -> TestConnection<StreamOwned<ClientConnection, TcpStream>> {
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(papers.roots.clone())
        .with_no_client_auth();
    let name = "127.0.0.1".try_into().unwrap();
    let client = ClientConnection::new(Arc::new(config), name).unwrap();
    TestConnection::new(StreamOwned::new(client, served.connect().socket))
}

#[test]
fn handlers_see_that_a_request_arrived_over_tls() {
    let papers = make_certificate();
    let served = start_tls_server(&papers, test_limits());
    let mut wire = connect_tls(&served, &papers);
    let host = served.address();
    for _ in 0..2 {
        wire.send(format!("GET /client HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        let answer = wire.read_response();
        assert!(answer.text().contains("secure: true"), "{}", answer.text());
        assert!(answer.text().contains(&format!("https://{host}")), "{}", answer.text());
    }
    wire.send(format!(
        "POST / HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nContent-Length: 0\r\n\r\n"
    ));
    assert_eq!(wire.read_response().status, 403, "the same name without TLS is another site");
}

#[test]
fn a_large_answer_is_whole_and_ends_properly() {
    let papers = make_certificate();
    let served = start_tls_server(&papers, test_limits());
    let mut wire = connect_tls(&served, &papers);
    let host = served.address();
    wire.send(format!("GET /text HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"));
    assert_eq!(wire.read_response().body.len(), 11_000);
    assert_eq!(wire.read_to_end(), "");
}

#[test]
fn a_client_without_tls_is_not_answered() {
    let papers = make_certificate();
    let served = start_tls_server(&papers, test_limits());
    let mut wire = served.connect();
    wire.send(format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", served.address()));
    assert!(!wire.read_to_end().contains("hello"));
    assert_eq!(served.request_count(), 0);
}

#[test]
fn a_missing_tls_handshake_times_out() {
    let papers = make_certificate();
    let served = start_tls_server(
        &papers,
        ServerLimits { head_timeout: Duration::from_millis(100), ..test_limits() },
    );
    assert_eq!(served.connect().read_to_end(), "");
}

#[test]
fn invalid_certificate_and_key_files_are_reported() {
    let (first, second) = (make_certificate(), make_certificate());
    let message = |certificate: &str, key: &str| match TlsIdentity::from_pem(
        certificate.as_bytes(),
        key.as_bytes(),
    ) {
        Err(Error::Tls(message)) => message,
        other => panic!("{other:?}"),
    };
    assert!(message("", &first.key).contains("no certificate"));
    assert!(message(&first.certificate, "").contains("PEM private key"));
    assert!(message(&first.certificate, &second.key).len() > 5);
    let nowhere = std::path::Path::new("/nowhere/cert.pem");
    assert!(
        TlsIdentity::from_files(nowhere, nowhere)
            .unwrap_err()
            .to_string()
            .contains("/nowhere/cert.pem")
    );
}
