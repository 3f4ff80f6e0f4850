//! `speedwell load` against a server in the test itself: requests, counts, and rejected options.

use crate::project::{CommandResult, TempProject};
use crate::web_server::{WebRequest, WebServer};
use serde_json::Value as Json;

/// Loads `url` with further options; nothing is stored.
fn load(project: &TempProject, url: &str, words: &[&str]) -> CommandResult {
    project.run(&[&["load", url, "--no-save", "--format", "json"], words].concat())
}

/// Results of the first load in the JSON report.
fn load_json(answer: &CommandResult) -> Json {
    let document: Json = answer.json();
    document["loads"][0]["measured"].clone()
}

/// The first request of a load, without the probe.
fn first(server: &WebServer) -> WebRequest {
    server.requests()[0].clone()
}

#[test]
fn exactly_the_requested_number_of_requests_is_sent_and_counted() {
    let (project, server) = (TempProject::new(), WebServer::start());
    let words = ["-n", "137", "-c", "5", "--no-verify"];
    let answer = load(&project, &server.url("/"), &words).expect_status(0);
    assert_eq!(server.count(), 137);
    let counts = &load_json(&answer)["totals"]["outcomes"];
    assert_eq!((&counts["attempted"], &counts["ok"]), (&137.into(), &137.into()));
}

#[test]
fn a_probe_request_precedes_the_load_and_is_reported() {
    let (project, server) = (TempProject::new(), WebServer::start());
    load(&project, &server.url("/a"), &["-n", "20"])
        .expect_status(0)
        .expect_stderr(&["/a' answers 200 with 12 bytes of body (HTTP/1.1, server 'test')"]);
    assert_eq!(server.count(), 21);
}

#[test]
fn the_request_on_the_wire_matches_the_options() {
    let (project, server) = (TempProject::new(), WebServer::start());
    let words = [
        "-n",
        "1",
        "-c",
        "1",
        "--no-verify",
        "-X",
        "PUT",
        "-d",
        "a=1",
        "-u",
        "anna:secret",
        "-b",
        "x=1",
        "-b",
        "y=2",
        "-A",
        "me/1",
        "-H",
        "X-Id: 7",
        "-H",
        "Accept:",
        "-H",
        "Host: example.com",
    ];
    load(&project, &server.url("/p?q=1"), &words).expect_status(0);
    let expected = "PUT /p?q=1 HTTP/1.1\r\nHost: example.com\r\nUser-Agent: me/1\r\n\
                    Content-Type: application/x-www-form-urlencoded\r\n\
                    Authorization: Basic YW5uYTpzZWNyZXQ=\r\nCookie: x=1; y=2\r\nX-Id: 7\r\n\
                    Content-Length: 3\r\n\r\n";
    assert_eq!(first(&server).head, expected);
    assert_eq!(first(&server).body, "a=1");
}

#[test]
fn only_a_few_fields_are_sent_by_default() {
    let (project, server) = (TempProject::new(), WebServer::start());
    load(&project, &server.url("/"), &["-n", "1", "-c", "1", "--no-verify"]).expect_status(0);
    let expected = format!(
        "GET / HTTP/1.1\r\nHost: {}\r\nUser-Agent: speedwell/{}\r\nAccept: */*\r\n\r\n",
        server.address,
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!(first(&server).head, expected);
}

#[test]
fn without_keepalive_each_request_opens_and_closes_a_connection() {
    let (project, server) = (TempProject::new(), WebServer::start());
    let words = ["-n", "12", "-c", "2", "--no-verify", "--no-keepalive"];
    let answer = load(&project, &server.url("/"), &words).expect_status(0);
    assert!(first(&server).head.contains("\r\nConnection: close\r\n"));
    let connections = &load_json(&answer)["totals"]["outcomes"]["connections"];
    assert_eq!(connections["opened"], 12, "{connections}");
}

#[test]
fn a_body_comes_from_a_file_as_it_is() {
    let server = WebServer::start();
    let project = TempProject::new().with("body.txt", "line\nline\n");
    for words in [["-d", "@body.txt"], ["--body-file", "body.txt"]] {
        let words = [&["-n", "1", "-c", "1", "--no-verify"], &words[..]].concat();
        load(&project, &server.url("/"), &words).expect_status(0);
    }
    for request in server.requests() {
        assert!(request.head.starts_with("POST / "), "{request:?}");
        assert_eq!(request.body, "line\nline\n");
    }
    assert_eq!(server.count(), 2);
}

#[test]
fn the_host_of_the_url_is_sent_over_a_unix_socket() {
    let project = TempProject::new();
    let path = project.path("socket");
    let server = WebServer::at_path(&path);
    let words = ["-n", "10", "-c", "2", "--unix-socket", "socket"];
    load(&project, "http://app.test/x", &words).expect_status(0);
    assert_eq!(server.count(), 11);
    assert!(first(&server).head.contains("\r\nHost: app.test\r\n"));
}

#[test]
fn connections_can_be_sent_elsewhere_and_through_a_proxy() {
    let (project, server) = (TempProject::new(), WebServer::start());
    let to = format!("app.test:81:{}", server.address);
    let words = ["-n", "1", "-c", "1", "--no-verify", "--connect-to", &to];
    load(&project, "http://app.test:81/x", &words).expect_status(0);
    let proxy = server.url("");
    let words = ["-n", "1", "-c", "1", "--no-verify", "--proxy", &proxy];
    load(&project, "http://app.test:81/x", &words).expect_status(0);
    let heads: Vec<String> = server.requests().into_iter().map(|seen| seen.head).collect();
    assert!(heads[0].starts_with("GET /x HTTP/1.1\r\nHost: app.test:81\r\n"), "{heads:?}");
    let absolute = "GET http://app.test:81/x HTTP/1.1\r\nHost: app.test:81\r\n";
    assert!(heads[1].starts_with(absolute), "{heads:?}");
}

#[test]
fn a_mix_of_requests_takes_its_texts_from_rows() {
    let server = WebServer::start();
    let project = TempProject::new()
        .with(
            "mix.toml",
            "[[request]]\nweight = 3\npath = '/users/{{id}}'\n\
             [[request]]\nname = 'write'\npath = '/users'\nbody = '{\"name\": \"{{name}}\"}'\n",
        )
        .with("rows.csv", "id,name\n1,anna\n2,bo\n");
    let words =
        ["-n", "8", "-c", "1", "--no-verify", "--requests", "mix.toml", "--data-rows", "rows.csv"];
    load(&project, &server.url("/"), &words).expect_status(0);
    let count = |start: &str| {
        let requests = server.requests();
        requests.iter().filter(|seen| seen.head.starts_with(start)).count()
    };
    assert_eq!((count("GET /users/"), count("POST /users ")), (6, 2));
    assert!(count("GET /users/1 ") > 0 && count("GET /users/2 ") > 0);
    let requests = server.requests();
    let bodies: Vec<_> = requests.iter().filter(|seen| !seen.body.is_empty()).collect();
    let is_filled = |body: &str| body == "{\"name\": \"anna\"}" || body == "{\"name\": \"bo\"}";
    assert!(bodies.iter().all(|seen| is_filled(&seen.body)), "{bodies:?}");
}

#[test]
fn a_server_that_fails_the_probe_is_not_loaded() {
    let (project, server) = (TempProject::new(), WebServer::start());
    load(&project, &server.url("/missing"), &["-n", "10"])
        .expect_status(2)
        .expect_stderr(&["answered 404, which is not a success status", "--expect-status 404"]);
    assert_eq!(server.count(), 1);
    load(&project, &server.url("/"), &["-n", "10", "--expect-body", "goodbye"])
        .expect_status(2)
        .expect_stderr(&["answered 200 with an unexpected body of 12 bytes"]);
    let words = ["-n", "10", "--expect-status", "404"];
    load(&project, &server.url("/missing"), &words).expect_status(0);
    let port = crate::web_server::free_port();
    load(&project, &format!("http://127.0.0.1:{port}/"), &["-n", "10"])
        .expect_status(2)
        .expect_stderr(&["the server refused the connection", "--serve CMD starts it"]);
}

#[test]
fn a_load_without_successes_fails_even_with_no_verify() {
    let (project, server) = (TempProject::new(), WebServer::start());
    let words = ["-n", "10", "--no-verify"];
    let answer = load(&project, &server.url("/missing"), &words).expect_status(2);
    let counts = &load_json(&answer)["totals"]["outcomes"];
    assert_eq!(counts["attempted"], 10, "{counts}");
}

#[test]
fn redirects_are_followed_once_and_before_the_load() {
    let (project, server) = (TempProject::new(), WebServer::start());
    load(&project, &server.url("/moved"), &["-n", "10"])
        .expect_status(2)
        .expect_stderr(&["answered 302", "it redirects to '/there': -L follows"]);
    load(&project, &server.url("/moved"), &["-n", "10", "-L"]).expect_status(0);
    let requests = server.requests();
    let to = |path: &str| {
        let start = format!("GET {path} ");
        requests.iter().filter(|seen| seen.head.starts_with(&start)).count()
    };
    assert_eq!((to("/moved"), to("/there")), (2, 11));
}

#[test]
fn every_address_is_loaded_in_every_round() {
    let (project, server) = (TempProject::new(), WebServer::start());
    let (a, b) = (server.url("/a"), server.url("/b"));
    let words = [b.as_str(), "-n", "5", "-c", "1", "--no-verify", "-r", "3", "--seed", "1"];
    let answer = load(&project, &a, &words).expect_status(0);
    let document: Json = answer.json();
    let loads = document["loads"].as_array().unwrap();
    let rounds: Vec<_> = loads.iter().map(|load| load["round"].as_u64().unwrap()).collect();
    assert_eq!(rounds, [0, 0, 1, 1, 2, 2]);
    assert_eq!(server.count(), 30);
}

#[test]
fn history_calls_a_load_by_its_address() {
    let (project, server) = (TempProject::new(), WebServer::start());
    let url = server.url("/a");
    let words = ["load", &url, "-n", "5", "-c", "1", "--no-verify"];
    project.run(&words).expect_status(0);
    let listed = project.run(&["history"]).expect_status(0);
    let shown = [&["history"][..], &["history", "-v"]].map(|words| {
        let listed = project.run(words).expect_status(0);
        assert!(listed.stdout.lines().all(|line| line.chars().count() <= 100) || words.len() > 1);
        listed.stdout.matches(&url).count()
    });
    // With -v, in the columns of the variants and of the command, too.
    assert!(shown[0] >= 1 && shown[1] == 3, "{listed:?}");
    assert!(!listed.stdout.contains("default"), "{listed:?}");
}

#[test]
fn a_row_for_every_request_and_the_histograms_are_written() {
    let (project, server) = (TempProject::new(), WebServer::start());
    let words = ["-n", "25", "--rate", "1000", "--log-requests", "r.csv", "--hdr", "h.hlog"];
    load(&project, &server.url("/"), &words).expect_status(0);
    let rows = std::fs::read_to_string(project.path("r.csv")).unwrap();
    assert_eq!(rows.lines().count(), 26);
    assert_eq!(rows.lines().filter(|row| row.contains(",ok,200,12,")).count(), 25);
    let log = std::fs::read_to_string(project.path("h.hlog")).unwrap();
    for tag in ["service/ok", "response/ok", "lag/all", "connect/all"] {
        assert!(log.contains(&format!("Tag={tag},")), "no {tag} in {log}");
    }
}

#[test]
fn a_gate_fails_when_its_condition_is_met() {
    let (project, server) = (TempProject::new(), WebServer::start());
    let gate = |condition| load(&project, &server.url("/"), &["-n", "50", "--fail-on", condition]);
    gate("errors>1%").expect_status(0);
    gate("p50>1ns").expect_status(1);
    gate("p50 is bad").expect_status(2);
    // The picture shows what the gate is about.
    let words = ["-n", "50", "--fail-on", "p50>1m", "-o", "times.svg"];
    load(&project, &server.url("/"), &words).expect_status(0);
    let picture = std::fs::read_to_string(project.path("times.svg")).unwrap();
    assert!(picture.contains("Percentage served"), "{picture}");
}

#[test]
fn the_result_of_a_gate_is_shown_by_later_reports_of_the_session() {
    let (project, server) = (TempProject::new(), WebServer::start());
    let url = server.url("/");
    let words = ["load", &url, "-n", "50", "--fail-on", "p50>1ns"];
    let printed = project.run(&words).expect_status(1).stdout;
    let gate = printed.lines().next().unwrap();
    assert!(gate.starts_with("gate failed: p50 "), "{printed}");
    let report = project.run(&["report", "@1", "-v", "-o", "load.html"]).expect_status(0).stdout;
    assert_eq!(report.lines().next(), Some(gate));
    let page = std::fs::read_to_string(project.path("load.html")).unwrap();
    assert!(page.contains("<b>gate failed: p50 "), "{page}");
    // A single load has no blocks.
    assert!(!page.contains("of every variant") && !report.contains("randomised"), "{report}");
}

#[test]
fn options_that_contradict_each_other_are_refused_with_a_hint() {
    let project = TempProject::new();
    let refused: [(&[&str], &str); 20] = [
        (&["-c", "50", "-n", "10"], "hint: use -c 10, or a greater -n"),
        (&["--poisson"], "hint: add --rate N"),
        (&["--max-connections", "9"], "hint: add --rate N"),
        (&["--rate", "5", "--think", "1s"], "requests do not wait for responses"),
        (&["--insecure"], "hint: use https://"),
        (&["--streams", "4"], "--http2"),
        (&["--pipeline", "4", "--http2"], "cannot be used with"),
        (&["--pipeline", "40"], "hint: use -c 40 or more"),
        (&["--threads", "40"], "cannot be divided among 40 threads"),
        (&["--rate", "fast"], "cannot parse rate 'fast'"),
        (&["--ramp", "5"], "cannot parse stage '5'"),
        (&["--requests", "1000"], "set the number of requests with -n"),
        (&["--serve", "a", "--serve", "b"], "once for all, or once for each"),
        (&["-u", "anna"], "NAME:PASSWORD"),
        (&["--sort", "typo"], "unknown sort column 'typo'"),
        (&["-c", "max", "--sort", "sent_share"], "unknown sort column 'sent_share'"),
        (&["--rate", "max", "--sort", "verdict"], "unknown sort column 'verdict'"),
        (&["-o", "missing/x.html"], "cannot write 'missing/x.html'"),
        (&["--chart", "typo"], "unknown chart 'typo'"),
        (&["--unit", "typo"], "'typo'"),
    ];
    for (words, part) in refused {
        let answer = load(&project, "http://127.0.0.1:9/", words);
        assert_eq!(answer.status, 2, "{words:?}: {answer:#?}");
        assert!(answer.stderr.contains(part), "{words:?}: {answer:#?}");
    }
    load(&project, "ftp://h/", &[]).expect_status(2).expect_stderr(&["expected http or https"]);
    let refused = ["--proxy", "http://127.0.0.1:3128"];
    load(&project, "https://127.0.0.1/", &refused)
        .expect_status(2)
        .expect_stderr(&["through a proxy: with TLS"]);
}
