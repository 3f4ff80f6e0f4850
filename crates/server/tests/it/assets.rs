//! T1: no part of a path reaches the disk.

use super::served::{STYLE, TestServer};
use std::process::Command;

/// Forty paths that are not in the table.
const PATHS: [&str; 40] = [
    "/static/../../etc/passwd",
    "/static/..%2f..%2fetc/passwd",
    "/static/%2e%2e/%2e%2e/etc/passwd",
    "/static/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    "/static/..%252f..%252fetc/passwd",
    "/static/%252e%252e%252fetc/passwd",
    "/static/....//....//etc/passwd",
    "/static/..;/..;/etc/passwd",
    "/static/..\\..\\etc\\passwd",
    "/static/..%5c..%5cetc%5cpasswd",
    "/static/%c0%ae%c0%ae/etc/passwd",
    "/static/%c0%af..%c0%afetc/passwd",
    "/static/%uff0e%uff0e/etc/passwd",
    "/static//etc/passwd",
    "/static///etc/passwd",
    "/static/%2fetc/passwd",
    "/static/%2f%2fetc/passwd",
    "/static/etc/passwd",
    "/static/./etc/passwd",
    "/static/file:///etc/passwd",
    "/static/style.css",
    "/static/style.css%00",
    "/static/%00",
    "/static/%00/etc/passwd",
    "/static/passwd%00.css",
    "/static/",
    "/static//",
    "/static/.",
    "/static/..",
    "/static/...",
    "/static/*",
    "/static/?/etc/passwd",
    "/static/C:/etc/passwd",
    "/static/~/etc/passwd",
    "/static/$HOME/etc/passwd",
    "/static/%",
    "/static/%zz",
    "/static/%2",
    "//static/../etc/passwd",
    "/%2e%2e/etc/passwd",
];

#[test]
fn forty_ways_out_of_the_folder_lead_nowhere() {
    let served = TestServer::start_local();
    for path in PATHS {
        let answer = served.send_request(&format!("GET {path}"), &[]);
        assert!(matches!(answer.status, 404 | 400), "{path}: {}", answer.status);
        assert!(answer.body.is_empty(), "{path}");
    }
    let known = served.style.clone();
    for path in [
        format!("{known}/"),
        format!("{known}%00"),
        format!("/{known}"),
        known.replace("/static/", "/static//"),
        known.replace("/static/", "/static/x/../"),
        known.to_uppercase(),
        known.replace("style", "%73tyle"),
    ] {
        assert_eq!(served.send_request(&format!("GET {path}"), &[]).status, 404, "{path}");
    }
    assert_eq!(served.send_request(&format!("GET {known}"), &[]).body, STYLE);
}

/// Repeats the test above under strace, recording every file it opens.
#[test]
fn paths_out_of_the_folder_make_the_kernel_open_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    let traced = Command::new("strace")
        .args(["-f", "-qq", "-s", "200", "-e", "trace=%file", "-o"])
        .arg(&trace)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "assets::forty_ways_out_of_the_folder_lead_nowhere"])
        .output();
    let Ok(traced) = traced else {
        eprintln!("skipped: there is no strace");
        return;
    };
    let stderr = String::from_utf8_lossy(&traced.stderr);
    if stderr.contains("ptrace") {
        eprintln!("skipped: strace may not trace: {stderr}");
        return;
    }
    assert!(traced.status.success(), "{stderr}");
    assert!(String::from_utf8_lossy(&traced.stdout).contains("1 passed"));
    let calls = std::fs::read_to_string(&trace).unwrap();
    assert!(calls.contains("execve("), "nothing was traced");
    for line in calls.lines() {
        assert!(!line.contains("passwd") && !line.contains("/static"), "{line}");
    }
}

#[test]
fn assets_are_immutable_and_compressed_on_request() {
    let served = TestServer::start_local();
    let plain = served.send_request(&format!("GET {}", served.style), &[]);
    assert_eq!(plain.headers["cache-control"], "public, max-age=31536000, immutable");
    assert_eq!(plain.headers["content-type"], "text/css; charset=utf-8");
    assert_eq!(plain.headers["vary"], "accept-encoding");
    let packed = served.send_request(&format!("GET {}", served.style), &["Accept-Encoding: gzip"]);
    assert_eq!(packed.headers["content-encoding"], "gzip");
    let mut read = Vec::new();
    std::io::copy(&mut flate2::read::GzDecoder::new(&packed.body[..]), &mut read).unwrap();
    assert_eq!(read, STYLE);
    assert_eq!(
        served.send_request(&format!("POST {}", served.style), &["Content-Length: 0"]).status,
        405
    );
}
