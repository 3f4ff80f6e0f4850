//! Tests the server with curl, an independent client.

use super::served::{TestServer, local_options, test_limits};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use speedwell_server::http::{ListenAddress, ServerOptions, TlsIdentity};
use std::process::Command;

/// Returns curl's output, or `None` if curl is not installed.
fn run_curl(arguments: &[&str]) -> Option<String> {
    let output = Command::new("curl").args(["-sS", "--max-time", "60"]).args(arguments).output();
    let Ok(output) = output else {
        eprintln!("skipped: there is no curl");
        return None;
    };
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn curl_gets_pages_by_tcp_and_unpacks_them() {
    let served = TestServer::start_local();
    let url = |path: &str| format!("http://{}{path}", served.address());
    let Some(text) = run_curl(&["--compressed", "-D", "-", &url("/text")]) else {
        return;
    };
    assert!(text.to_lowercase().contains("content-encoding: gzip"));
    assert!(text.ends_with(&"0123456789 ".repeat(1000)));
    assert_eq!(run_curl(&["--http1.0", &url("/")]).unwrap(), "hello");
    let name = format!("http://localhost:{}/", served.address().port());
    assert_eq!(run_curl(&[&name]).unwrap(), "hello");
    let twice = run_curl(&["-w", "%{num_connects} ", &url("/"), &url("/")]).unwrap();
    assert_eq!(twice, "hello1 hello0 ", "one connection for both");
}

#[test]
fn curl_uploads_a_body_and_reads_the_refusal_of_a_larger_one() {
    let served = TestServer::start_local();
    let folder = tempfile::tempdir().unwrap();
    let file = |bytes: usize| {
        let path = folder.path().join(bytes.to_string());
        std::fs::write(&path, vec![b'x'; bytes]).unwrap();
        format!("@{}", path.display())
    };
    let url = format!("http://{}/read", served.address());
    let status = "-w%{http_code}";
    let Some(output) = run_curl(&["--data-binary", &file(3_000_000), &url]) else {
        return;
    };
    assert_eq!(output, "3000000 bytes");
    // With and without `Expect`: the second sends everything, and reads the response nevertheless.
    for expect in ["Expect: 100-continue", "Expect:"] {
        let output =
            run_curl(&["-H", expect, status, "--data-binary", &file(20_000_000), &url]).unwrap();
        assert!(output.ends_with("413"), "{output}");
    }
    let chunked = "Transfer-Encoding: chunked";
    let output = run_curl(&["-H", chunked, status, "--data-binary", &file(1000), &url]).unwrap();
    assert!(output.starts_with("the request body has no stated length"), "{output}");
    assert!(output.ends_with("411"), "{output}");
}

#[test]
fn curl_connects_by_tls_and_to_a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).unwrap();
    std::fs::write(file("cert.pem"), cert.pem()).unwrap();
    std::fs::write(file("key.pem"), signing_key.serialize_pem()).unwrap();
    let tls = TlsIdentity::from_files(&file("cert.pem"), &file("key.pem")).unwrap();
    let secured = TestServer::start(ServerOptions { tls: Some(tls), ..local_options() });
    let url = format!("https://{}/text", secured.address());
    let authority = file("cert.pem");
    for version in [["--tlsv1.2", "--tls-max", "1.2"], ["--tlsv1.3", "--tls-max", "1.3"]] {
        let ask = [&version[..], &["--cacert", authority.to_str().unwrap(), &url]].concat();
        let Some(text) = run_curl(&ask) else { return };
        assert_eq!(text.len(), 11_000);
    }

    let socket = file("socket");
    let listen = vec![ListenAddress::Unix(socket.clone())];
    let _served = TestServer::start(ServerOptions {
        listen,
        limits: test_limits(),
        ..ServerOptions::default()
    });
    let ask = ["--unix-socket", socket.to_str().unwrap(), "http://localhost/"];
    assert_eq!(run_curl(&ask).unwrap(), "hello");
}
