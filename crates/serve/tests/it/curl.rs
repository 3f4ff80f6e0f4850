//! Tests the server with curl, an independent client.

use super::served::{Served, limits, local};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use speedwell_serve::{Listen, Options, Tls};
use std::process::Command;

/// Returns curl's output, or `None` if curl is not installed.
fn curl(words: &[&str]) -> Option<String> {
    let output = Command::new("curl")
        .args(["-sS", "--max-time", "60"])
        .args(words)
        .output();
    let Ok(output) = output else {
        eprintln!("skipped: there is no curl");
        return None;
    };
    assert!(
        output.status.success(),
        "{words:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn curl_gets_pages_by_tcp_and_unpacks_them() {
    let served = Served::local();
    let url = |path: &str| format!("http://{}{path}", served.address());
    let Some(text) = curl(&["--compressed", "-D", "-", &url("/text")]) else {
        return;
    };
    assert!(text.to_lowercase().contains("content-encoding: gzip"));
    assert!(text.ends_with(&"0123456789 ".repeat(1000)));
    assert_eq!(curl(&["--http1.0", &url("/")]).unwrap(), "hello");
    let name = format!("http://localhost:{}/", served.address().port());
    assert_eq!(curl(&[&name]).unwrap(), "hello");
    let twice = curl(&["-w", "%{num_connects} ", &url("/"), &url("/")]).unwrap();
    assert_eq!(twice, "hello1 hello0 ", "one connection for both");
}

#[test]
fn curl_uploads_what_is_not_too_large_and_hears_what_is() {
    let served = Served::local();
    let folder = tempfile::tempdir().unwrap();
    let file = |bytes: usize| {
        let path = folder.path().join(bytes.to_string());
        std::fs::write(&path, vec![b'x'; bytes]).unwrap();
        format!("@{}", path.display())
    };
    let url = format!("http://{}/read", served.address());
    let status = "-w%{http_code}";
    let Some(said) = curl(&["--data-binary", &file(3_000_000), &url]) else {
        return;
    };
    assert_eq!(said, "3000000 bytes");
    // With and without `Expect`: the second sends everything, and reads the response nevertheless.
    for expect in ["Expect: 100-continue", "Expect:"] {
        let said = curl(&[
            "-H",
            expect,
            status,
            "--data-binary",
            &file(20_000_000),
            &url,
        ])
        .unwrap();
        assert!(said.ends_with("413"), "{said}");
    }
    let chunked = "Transfer-Encoding: chunked";
    let said = curl(&["-H", chunked, status, "--data-binary", &file(1000), &url]).unwrap();
    assert!(
        said.starts_with("the body of the request comes without its length"),
        "{said}"
    );
    assert!(said.ends_with("411"), "{said}");
}

#[test]
fn curl_speaks_tls_and_to_a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).unwrap();
    std::fs::write(file("cert.pem"), cert.pem()).unwrap();
    std::fs::write(file("key.pem"), signing_key.serialize_pem()).unwrap();
    let tls = Tls::from_files(&file("cert.pem"), &file("key.pem")).unwrap();
    let secured = Served::start(Options {
        tls: Some(tls),
        ..local()
    });
    let url = format!("https://{}/text", secured.address());
    let authority = file("cert.pem");
    for version in [
        ["--tlsv1.2", "--tls-max", "1.2"],
        ["--tlsv1.3", "--tls-max", "1.3"],
    ] {
        let ask = [
            &version[..],
            &["--cacert", authority.to_str().unwrap(), &url],
        ]
        .concat();
        let Some(text) = curl(&ask) else { return };
        assert_eq!(text.len(), 11_000);
    }

    let socket = file("socket");
    let listen = vec![Listen::Unix(socket.clone())];
    let _served = Served::start(Options {
        listen,
        limits: limits(),
        ..Options::default()
    });
    let ask = [
        "--unix-socket",
        socket.to_str().unwrap(),
        "http://localhost/",
    ];
    assert_eq!(curl(&ask).unwrap(), "hello");
}
