//! Servers with TLS: trust, client identity, negotiated parameters, and failures.

use super::server::{Server, carry_out, load_to, rows};
use rcgen::{
    CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
};
use rcgen::{IsCa, KeyPair, SanType, date_time_ymd};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use speedwell_load::generator;
use speedwell_load::load::{ClientIdentity, HttpVersion, LoadConfig, TlsOptions, TrustSource};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Files with an authority, a server certificate for 127.0.0.1 and `known.test`, and a client
/// certificate.
struct TestCertificates {
    folder: PathBuf,
}

impl TestCertificates {
    fn new(name: &str) -> TestCertificates {
        let folder =
            std::env::temp_dir().join(format!("speedwell-tls-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let files = TestCertificates { folder };
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        std::fs::write(files.file("ca.pem"), authority.pem()).unwrap();
        for (name, purpose) in [
            ("server", ExtendedKeyUsagePurpose::ServerAuth),
            ("client", ExtendedKeyUsagePurpose::ClientAuth),
        ] {
            let names = vec!["127.0.0.1".to_owned(), "known.test".to_owned()];
            let mut params = CertificateParams::new(names).unwrap();
            params.extended_key_usages = vec![purpose];
            params.distinguished_name.push(DnType::CommonName, name);
            let key = KeyPair::generate().unwrap();
            let signed = params.signed_by(&key, &authority).unwrap();
            std::fs::write(files.file(&format!("{name}.pem")), signed.pem()).unwrap();
            std::fs::write(files.file(&format!("{name}.key")), key.serialize_pem()).unwrap();
        }
        files
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn server_config(&self, asks_client: bool, protocols: &[&[u8]]) -> Arc<ServerConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = if asks_client {
            let mut roots = RootCertStore::empty();
            roots.add(certificate(&self.file("ca.pem"))).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .build()
                .unwrap();
            builder.with_client_cert_verifier(verifier)
        } else {
            builder.with_no_client_auth()
        };
        let key = PrivateKeyDer::from_pem_file(self.file("server.key")).unwrap();
        let chain = vec![certificate(&self.file("server.pem"))];
        let mut config = builder.with_single_cert(chain, key).unwrap();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Arc::new(config)
    }

    fn trusted(&self) -> TlsOptions {
        TlsOptions { trust: TrustSource::Authority(self.file("ca.pem")), ..TlsOptions::default() }
    }
}

impl Drop for TestCertificates {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn certificate(file: &Path) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(file).unwrap()
}

/// Accepts TLS connections and passes each to `talk`.
fn accept(
    config: Arc<ServerConfig>,
    talk: impl Fn(StreamOwned<ServerConnection, TcpStream>) + Copy + Send + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let config = config.clone();
            std::thread::spawn(move || {
                let connection = ServerConnection::new(config).unwrap();
                talk(StreamOwned::new(connection, socket.unwrap()));
            });
        }
    });
    address
}

/// Responds to every request on every connection with `good`.
fn serve(config: Arc<ServerConfig>) -> SocketAddr {
    accept(config, |mut stream| {
        let mut buffer = [0; 4096];
        while stream.read(&mut buffer).is_ok_and(|read| read > 0) {
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood";
            if stream.write_all(answer).is_err() {
                return;
            }
        }
    })
}

fn load(address: SocketAddr, tls: TlsOptions) -> LoadConfig {
    let mut load = load_to(address, 2, 40);
    load.target.tls = Some(tls);
    load
}

#[test]
fn a_server_whose_authority_is_known_is_trusted_and_others_are_not() {
    let files = TestCertificates::new("trust");
    let address = serve(files.server_config(false, &[]));
    let measured = carry_out(&load(address, files.trusted()));
    assert_eq!(rows(&measured), [("ok", 40)]);
    assert_eq!(measured.totals.outcomes.connections.opened, 2);
    let anyone = TlsOptions { trust: TrustSource::Anyone, ..TlsOptions::default() };
    assert_eq!(rows(&carry_out(&load(address, anyone))), [("ok", 40)]);
    let other = TestCertificates::new("other");
    let strangers = carry_out(&load(address, other.trusted()));
    assert_eq!(rows(&strangers), [("tls.verify", 40)]);
}

#[test]
fn the_name_is_checked_and_may_be_given() {
    let files = TestCertificates::new("name");
    let address = serve(files.server_config(false, &[]));
    let named = |name: &str| TlsOptions { server_name: Some(name.to_owned()), ..files.trusted() };
    let known = carry_out(&load(address, named("known.test")));
    assert_eq!(rows(&known), [("ok", 40)]);
    let unknown = carry_out(&load(address, named("unknown.test")));
    assert_eq!(rows(&unknown), [("tls.verify", 40)]);
}

/// A server with a self-signed certificate as made by `openssl req -x509`: an authority used by a
/// server.
struct SelfSigned {
    files: TestCertificates,
    address: SocketAddr,
}

impl SelfSigned {
    fn new(name: &str, change: impl FnOnce(&mut CertificateParams)) -> SelfSigned {
        let files = TestCertificates::new(name);
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "127.0.0.1");
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        std::fs::write(files.file("server.pem"), certificate.pem()).unwrap();
        std::fs::write(files.file("server.key"), key.serialize_pem()).unwrap();
        let address = serve(files.server_config(false, &[]));
        SelfSigned { files, address }
    }

    fn trusting(&self, file: &str) -> LoadConfig {
        let trust = TrustSource::Authority(self.files.file(file));
        let tls = TlsOptions { trust, ..TlsOptions::default() };
        load(self.address, tls)
    }

    /// The reason that a probe reports when the certificate itself is the trusted one.
    fn refusal(&self) -> String {
        refusal(&self.trusting("server.pem"))
    }
}

fn refusal(load: &LoadConfig) -> String {
    let probe = generator::send_probe(load, &AtomicBool::new(false));
    probe.unwrap_err().to_string()
}

fn named(names: &[&str]) -> Vec<SanType> {
    let names = names.iter().map(|name| match name.parse() {
        Ok(address) => SanType::IpAddress(address),
        Err(_) => SanType::DnsName((*name).try_into().unwrap()),
    });
    names.collect()
}

#[test]
fn a_self_signed_certificate_can_be_trusted_explicitly() {
    let with_name = SelfSigned::new("self", |params| {
        params.subject_alt_names = named(&["127.0.0.1", "known.test"]);
    });
    let with_common_name_only = SelfSigned::new("common-name", |_| {});
    let of_no_authority = SelfSigned::new("leaf", |params| {
        params.is_ca = IsCa::ExplicitNoCa;
        params.subject_alt_names = named(&["127.0.0.1"]);
    });
    for server in [&with_name, &with_common_name_only, &of_no_authority] {
        let measured = carry_out(&server.trusting("server.pem"));
        assert_eq!(rows(&measured), [("ok", 40)]);
        // Another authority does not vouch for it.
        let measured = carry_out(&server.trusting("ca.pem"));
        assert_eq!(rows(&measured), [("tls.verify", 40)]);
    }
    // A certificate signed by another authority can be trusted itself, too.
    let files = TestCertificates::new("pinned");
    let address = serve(files.server_config(false, &[]));
    let pinned = TlsOptions {
        trust: TrustSource::Authority(files.file("server.pem")),
        ..TlsOptions::default()
    };
    assert_eq!(rows(&carry_out(&load(address, pinned))), [("ok", 40)]);
}

#[test]
fn a_probe_says_why_a_certificate_is_refused() {
    let expired = SelfSigned::new("expired", |params| {
        params.not_before = date_time_ymd(2010, 1, 1);
        params.not_after = date_time_ymd(2020, 1, 1);
    });
    let message = expired.refusal();
    assert!(
        message.starts_with("the server's certificate was rejected: it expired ")
            && message.ends_with(" days ago"),
        "{message}"
    );
    let early = SelfSigned::new("early", |params| {
        params.not_before = date_time_ymd(4000, 1, 1);
        params.not_after = date_time_ymd(4001, 1, 1);
    });
    let message = early.refusal();
    assert!(message.contains("it becomes valid in "), "{message}");
    let elsewhere = SelfSigned::new("elsewhere", |params| {
        params.subject_alt_names = named(&["a.test", "10.0.0.1"]);
    });
    let message = elsewhere.refusal();
    assert!(message.ends_with("it is for 'a.test', '10.0.0.1', not for '127.0.0.1'"), "{message}");
    let other = SelfSigned::new("other-common-name", |params| {
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "b.test");
    });
    let message = other.refusal();
    assert!(message.ends_with("it is for 'b.test', not for '127.0.0.1'"), "{message}");
    let message = refusal(&other.trusting("ca.pem"));
    assert!(message.ends_with("it is self-signed ('b.test') and not trusted"), "{message}");
}

#[test]
fn a_probe_says_which_issuer_is_not_trusted() {
    let (files, strangers) = (TestCertificates::new("issuer"), TestCertificates::new("strangers"));
    let address = serve(files.server_config(false, &[]));
    let message = refusal(&load(address, strangers.trusted()));
    assert!(
        message.ends_with(
            "its signature does not match the key of the trusted issuer 'rcgen self signed cert'"
        ),
        "{message}"
    );
    let unrelated = SelfSigned::new("unrelated", |_| {});
    let trust = TrustSource::Authority(unrelated.files.file("server.pem"));
    let message = refusal(&load(address, TlsOptions { trust, ..files.trusted() }));
    assert!(message.ends_with("its issuer 'rcgen self signed cert' is not trusted"), "{message}");
}

#[test]
fn a_client_shows_its_certificate_when_it_is_asked_for_one() {
    let files = TestCertificates::new("client");
    let address = serve(files.server_config(true, &[]));
    let shown = TlsOptions {
        identity: Some(ClientIdentity {
            certificates: files.file("client.pem"),
            key: files.file("client.key"),
        }),
        ..files.trusted()
    };
    assert_eq!(rows(&carry_out(&load(address, shown))), [("ok", 40)]);
    let measured = carry_out(&load(address, files.trusted()));
    assert_eq!(measured.totals.outcomes.succeeded(), 0, "{:?}", rows(&measured));
    assert_eq!(measured.totals.outcomes.attempts(), 40);
}

#[test]
fn a_server_that_does_not_negotiate_http_2_is_an_alpn_error() {
    let files = TestCertificates::new("alpn");
    for protocols in [&[][..], &[&b"http/1.1"[..]]] {
        let address = serve(files.server_config(false, protocols));
        let mut load = load(address, files.trusted());
        load.http = HttpVersion::Two { table_bytes: 0 };
        assert_eq!(rows(&carry_out(&load)), [("tls.alpn", 40)], "{protocols:?}");
    }
}

#[test]
fn a_server_without_tls_fails_the_handshake() {
    let files = TestCertificates::new("plain");
    let plain = Server::start(|mut asked| asked.answer("200 OK", "good"));
    let not_tls = load(plain.address, files.trusted());
    // The TLS greeting contains no end of a head, so that server waits; the next one responds.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let _ = socket.unwrap().write_all(b"SSH-2.0-OpenSSH_9.2\r\n");
        }
    });
    let measured = carry_out(&load(address, files.trusted()));
    assert_eq!(rows(&measured), [("tls.handshake", 40)]);
    let mut waiting = not_tls;
    waiting.rules.timeouts.connect_ns = Some(50_000_000);
    waiting.stop.after_requests = Some(2);
    assert_eq!(rows(&carry_out(&waiting)), [("timeout.connect", 2)]);
}

/// Answers the first request on each connection with these bytes, then calls `then` with the raw
/// socket.
fn serve_once(
    config: Arc<ServerConfig>,
    answer: &'static [u8],
    then: fn(&mut ServerConnection, &mut TcpStream),
) -> SocketAddr {
    accept(config, move |mut stream| {
        let mut buffer = [0; 4096];
        if stream.read(&mut buffer).is_ok_and(|read| read > 0) {
            let _ = stream.write_all(answer);
            let (mut connection, mut socket) = stream.into_parts();
            then(&mut connection, &mut socket);
            let _ = socket.shutdown(Shutdown::Write);
            let _ = std::io::copy(&mut socket, &mut std::io::sink());
        }
    })
}

#[test]
fn a_tls_error_after_the_handshake_is_a_record_error() {
    let files = TestCertificates::new("record");
    let config = files.server_config(false, &[]);
    // An application data record encrypted with an unknown key.
    let address = serve_once(config, b"", |_, socket| {
        let _ = socket.write_all(b"\x17\x03\x03\x00\x20this is no ciphertext of ours, no");
    });
    let measured = carry_out(&load(address, files.trusted()));
    assert_eq!(rows(&measured), [("tls.record", 40)]);
    assert_eq!(measured.totals.outcomes.connections.failed, 0);
}

#[test]
fn a_body_ended_by_close_is_complete_only_after_close_notify() {
    let files = TestCertificates::new("cut");
    let config = files.server_config(false, &[]);
    const ANSWER: &[u8] = b"HTTP/1.0 200 OK\r\n\r\nhello";
    let cut = serve_once(config.clone(), ANSWER, |_, _| {});
    assert_eq!(rows(&carry_out(&load(cut, files.trusted()))), [("tls.truncated", 40)]);
    let polite = serve_once(config.clone(), ANSWER, |tls, socket| {
        tls.send_close_notify();
        let _ = tls.complete_io(socket);
    });
    assert_eq!(rows(&carry_out(&load(polite, files.trusted()))), [("ok", 40)]);
    // Content-Length alone determines completeness.
    let stated = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\ngood";
    let rude = serve_once(config, stated, |_, _| {});
    assert_eq!(rows(&carry_out(&load(rude, files.trusted()))), [("ok", 40)]);
}

#[test]
fn a_probe_reports_the_negotiated_tls_parameters() {
    let files = TestCertificates::new("probe");
    let address = serve(files.server_config(false, &[b"http/1.1"]));
    let load = load(address, files.trusted());
    let probe = generator::send_probe(&load, &AtomicBool::new(false)).unwrap();
    let tls = probe.facts.tls.unwrap();
    assert_eq!(tls.version, "TLSv1.3");
    assert!(tls.cipher.starts_with("TLS13_AES"), "{}", tls.cipher);
    assert_eq!(tls.group.as_deref(), Some("X25519"));
    assert_eq!(tls.alpn.as_deref(), Some("http/1.1"));
    let missing = TlsOptions {
        trust: TrustSource::Authority(files.file("nothing.pem")),
        ..TlsOptions::default()
    };
    let error = missing.client_config(&[], &Arc::default()).unwrap_err().to_string();
    assert!(error.contains("nothing.pem"), "{error}");
}
