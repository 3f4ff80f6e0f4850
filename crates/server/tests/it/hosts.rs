//! T9: a page that has rebound its own name to this server gets no response.

use super::served::{TestServer, local_options};
use speedwell_server::http::{AllowedHosts, ServerOptions, TrustedProxy};

#[test]
fn no_route_responds_to_a_foreign_host_name() {
    let served = TestServer::start_local();
    let port = served.address().port();
    let own_host = format!("127.0.0.1:{port}");
    let foreign = [
        "evil.example".to_owned(),
        format!("evil.example:{port}"),
        format!("127.0.0.1.evil:{port}"),
        format!("localhost.evil:{port}"),
        format!("evil@127.0.0.1:{port}"),
        format!("0.0.0.0:{port}"),
        format!("2130706433:{port}"),
        format!("[::ffff:127.0.0.1]:{port}"),
        format!("127.0.0.1:{}", port ^ 1),
        "127.0.0.1".to_owned(),
        String::new(),
    ];
    let style = format!("GET {}", served.style);
    for request in ["GET /", "POST /", "GET /events", "GET /health", "GET /nowhere", &style] {
        for name in &foreign {
            let answer = served.send_raw_request(request, &[&format!("Host: {name}")]);
            assert_eq!(answer.status, 421, "{request} {name}");
        }
        let check_refused =
            |lines: &[&str]| assert_eq!(served.send_raw_request(request, lines).status, 421);
        check_refused(&[]);
        check_refused(&[&format!("Host: {own_host}"), "Host: evil.example"]);
        check_refused(&["Host: evil.example", &format!("Host: {own_host}")]);
        check_refused(&[&format!("Host: {own_host}"), &format!("Host: {own_host}")]);
        check_refused(&["Host: evil.example", &format!("X-Forwarded-Host: {own_host}")]);
    }
    assert_eq!(served.request_count(), 0);
    for name in [own_host, format!("localhost:{port}"), format!("[::1]:{port}")] {
        assert_eq!(served.send_raw_request("GET /", &[&format!("Host: {name}")]).status, 200);
    }
}

#[test]
fn the_host_in_an_absolute_request_target_is_checked() {
    let served = TestServer::start_local();
    let host = format!("Host: {}", served.address());
    let ask = |target: &str| served.send_raw_request(&format!("GET {target}"), &[&host]).status;
    assert_eq!(ask("http://evil.example/"), 421);
    assert_eq!(ask(&format!("http://{}/", served.address())), 200);
}

#[test]
fn a_request_of_http_1_0_without_a_name_is_refused() {
    let served = TestServer::start_local();
    let mut wire = served.connect();
    wire.send("GET / HTTP/1.0\r\n\r\n");
    assert_eq!(wire.read_response().status, 421);
    assert_eq!(wire.read_to_end(), "");
}

#[test]
fn a_public_host_is_served_and_its_own_pages_may_change_things() {
    let hosts = AllowedHosts::public("https://perf.example").unwrap();
    let served = TestServer::start(ServerOptions { hosts, ..local_options() });
    let change = |origin: &str| {
        let fields = ["Host: perf.example", origin, "Content-Length: 0"];
        served.send_raw_request("POST /", &fields).status
    };
    assert_eq!(change("Origin: https://perf.example"), 200);
    assert_eq!(change("Origin: http://perf.example"), 403);
    assert_eq!(change("Origin: https://other.example"), 403);
}

#[test]
fn forwarded_headers_are_accepted_only_from_a_trusted_proxy() {
    let fields = [
        "X-Forwarded-For: 6.6.6.6, 203.0.113.7",
        "X-Forwarded-Proto: https",
        "X-Forwarded-Host: perf.example",
    ];
    let ask = |proxy| {
        let hosts = AllowedHosts::public("https://perf.example").unwrap();
        let served = TestServer::start(ServerOptions { hosts, proxy, ..local_options() });
        let response_text = served.send_request("GET /client", &fields).text().to_owned();
        (response_text, served.log_line())
    };
    let (response_text, logged) = ask(Some(TrustedProxy::Address("127.0.0.1".parse().unwrap())));
    assert!(
        response_text.contains("203.0.113.7") && response_text.contains("secure: true"),
        "{response_text}"
    );
    assert!(response_text.contains("https://perf.example"), "{response_text}");
    assert!(logged.contains(" 203.0.113.7 GET /client 200 "), "{logged}");
    let (response_text, logged) = ask(None);
    assert!(
        response_text.contains("Some(127.0.0.1)") && response_text.contains("secure: false"),
        "{response_text}"
    );
    assert!(logged.contains(" 127.0.0.1 GET "), "{logged}");
    // Requests that bypass the TLS-terminating proxy are rejected in plain text.
    for proxy in [TrustedProxy::Unix, TrustedProxy::Address("127.0.0.9".parse().unwrap())] {
        let (response_text, logged) = ask(Some(proxy));
        assert!(
            response_text.contains("only the TLS-terminating proxy may connect here"),
            "{response_text}"
        );
        assert!(logged.contains(" 127.0.0.1 GET /client 403 "), "{logged}");
    }
}
