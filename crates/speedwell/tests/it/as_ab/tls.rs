//! TLS: certificates are verified, and the report names the negotiated parameters. The server is
//! openssl's.

use super::server::closed_port;
use super::{as_ab, beside};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A file server; dropping it stops it.
struct TlsServer {
    child: Child,
    port: u16,
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts it in a folder, to which it adds a certificate and a file; `None` without openssl.
fn start(folder: &Path, more: &[&str]) -> Option<TlsServer> {
    std::fs::write(folder.join("page"), "hello\n").unwrap();
    let name = "subjectAltName=DNS:localhost,IP:127.0.0.1";
    let made = Command::new("openssl")
        .current_dir(folder)
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"])
        .args(["-addext", name, "-keyout", "key.pem", "-out", "cert.pem"])
        .stderr(Stdio::null())
        .status();
    if !made.is_ok_and(|status| status.success()) {
        eprintln!("skipped: openssl makes no certificate");
        return None;
    }
    let port = closed_port().port();
    let child = Command::new("openssl")
        .current_dir(folder)
        .args(["s_server", "-quiet", "-WWW", "-cert", "cert.pem", "-key", "key.pem", "-accept"])
        .arg(format!("127.0.0.1:{port}"))
        .args(more)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let server = TlsServer { child, port };
    for _ in 0..1500 {
        if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return Some(server);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("openssl s_server does not listen");
}

#[test]
fn tls_is_reported_as_by_ab_and_certificates_are_verified() {
    let folder = tempfile::tempdir().unwrap();
    let Some(server) = start(folder.path(), &[]) else {
        return;
    };
    let url = format!("https://127.0.0.1:{}/page", server.port);
    let ours = as_ab("--insecure -n 6 -c 2", &url);
    assert_eq!(ours.status, 0, "{}{}", ours.stdout, ours.stderr);
    assert_eq!(ours.value("Account"), "6 attempted = 6 ok");
    assert_eq!(ours.value("Document Length"), "6 bytes");
    let agreed = ours.value("SSL/TLS Protocol");
    assert_eq!(agreed, "TLSv1.3,TLS_AES_256_GCM_SHA384,2048,256");
    if let Some(theirs) = beside::run_original("-n 6 -c 2", &url) {
        for name in ["SSL/TLS Protocol", "Complete requests", "Total transferred"] {
            assert_eq!(ours.value(name), theirs.value(name), "{name}");
        }
    }
    let refused = as_ab("-r -n 6", &url);
    assert_eq!(refused.status, 2);
    assert_eq!(refused.value("Account"), "1 attempted = 0 ok + 1 tls.verify");
    let hint = "hint: '--insecure' accepts any certificate, as ab itself does\n";
    assert!(refused.stderr.ends_with(hint), "{}", refused.stderr);
}

#[test]
fn a_required_tls_version_that_is_not_negotiated_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let Some(server) = start(folder.path(), &["-tls1_2"]) else {
        return;
    };
    let url = format!("https://127.0.0.1:{}/page", server.port);
    let older = as_ab("--insecure -f TLS1.2 -n 1", &url);
    assert_eq!(older.status, 0, "{}", older.stderr);
    // OpenSSL's own name, as ab prints it.
    let agreed = "TLSv1.2,ECDHE-RSA-AES256-GCM-SHA384,2048,256";
    assert_eq!(older.value("SSL/TLS Protocol"), agreed);
    let newer = as_ab("--insecure -f TLS1.3 -n 1", &url);
    assert_eq!(newer.status, 2);
    let why = "ab: '-f' requires TLSv1.3, but the server negotiated TLSv1.2";
    assert!(newer.stderr.contains(why), "{}", newer.stderr);
}
