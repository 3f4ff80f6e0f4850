//! T8: pages of other sites can neither change nor read anything.

use super::served::TestServer;

#[test]
fn no_page_of_another_site_changes_anything() {
    let served = TestServer::start_local();
    let ours = format!("Origin: http://{}", served.address());
    let foreign: [&[&str]; 6] = [
        &["Origin: http://evil.example", "Sec-Fetch-Site: cross-site"],
        &["Origin: http://evil.example"],
        &["Origin: null"],
        &[&ours, "Sec-Fetch-Site: same-site"],
        &["Sec-Fetch-Site: cross-site"],
        &["Cookie: speedwell=sent by an old browser"],
    ];
    for fields in foreign {
        for method in ["POST", "PUT", "PATCH", "DELETE", "MADEUP"] {
            let answer = served.send_request(&format!("{method} /"), fields);
            assert_eq!(answer.status, 403, "{method} {fields:?}");
        }
    }
    assert_eq!(served.request_count(), 0);
    for fields in [&[&ours[..], "Sec-Fetch-Site: same-origin", "Cookie: a=b"][..], &[]] {
        let fields = [fields, &["Content-Length: 0"]].concat();
        assert_eq!(served.send_request("POST /", &fields).text(), "changed");
    }
}

#[test]
fn other_sites_may_link_to_pages_but_not_embed_or_stream_them() {
    let served = TestServer::start_local();
    let from_elsewhere = |path: &str, mode: &str, kind: &str| {
        let (mode, kind) = (format!("Sec-Fetch-Mode: {mode}"), format!("Sec-Fetch-Dest: {kind}"));
        served
            .send_request(&format!("GET {path}"), &["Sec-Fetch-Site: cross-site", &mode, &kind])
            .status
    };
    assert_eq!(from_elsewhere("/", "no-cors", "image"), 403);
    assert_eq!(from_elsewhere("/", "cors", "empty"), 403);
    assert_eq!(from_elsewhere("/events", "cors", "empty"), 403);
    assert_eq!(from_elsewhere("/", "navigate", "iframe"), 403);
    assert_eq!(from_elsewhere("/", "navigate", "document"), 200);
}

#[test]
fn other_sites_get_no_cors_permission() {
    let served = TestServer::start_local();
    let request_headers = ["Origin: http://evil.example", "Access-Control-Request-Method: POST"];
    let answer = served.send_request("OPTIONS /", &request_headers);
    assert_eq!(answer.status, 403);
    assert!(!answer.headers.keys().any(|name| name.starts_with("access-control")));
}
