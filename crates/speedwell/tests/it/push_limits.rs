//! What a server accepts from clients, and what not: oversized or damaged sessions, decompression
//! bombs, tokens for something else. The threat numbers are those of docs/reference/security.md.

#![expect(clippy::too_many_lines, reason = "a story is told in one piece")]

use super::back_ends::{StorePlace, on_both};
use super::project::TempProject;
use super::push::{core, lines, session};
use super::team_server::TeamServer;
use speedwell_store::{SessionDigest, SessionFilter};
use std::io::{Read, Write};
use std::time::Instant;

on_both! {
    what_is_too_much_or_damaged_is_refused_with_its_line
    a_token_pushes_to_its_project_its_branches_and_its_machines
    a_bomb_is_refused_before_it_is_unpacked
}

fn what_is_too_much_or_damaged_is_refused_with_its_line(place: &StorePlace) {
    let project = TempProject::new();
    let server = TeamServer::of(&project, place);
    let good = lines(&session("0197-11", 2));
    let whole = |text: &[u8]| {
        let path = format!("0197-11?sha256={}", SessionDigest::hash_lines(text));
        server.ask("PUT", &path, text)
    };
    let edited = |from: &str, to: &str| {
        let text = String::from_utf8(good.clone()).unwrap();
        assert!(text.contains(from), "{from} in {text}");
        text.replacen(from, to, 1).into_bytes()
    };
    let deep = format!("{}{}", "[".repeat(70), "]".repeat(70));
    let many = (0..70).map(|n| format!("[\"p{n}\",1]")).collect::<Vec<_>>().join(",");
    for (text, status, words) in [
        (
            edited("\"slot\":0", &format!("\"x\":{deep},\"slot\":0")),
            413,
            "line 2 is nested deeper than 64",
        ),
        (edited("buffers/fill.js", &"a".repeat(5000)), 413, "the benchmark 'aaaa"),
        (edited("[\"len\",0", &format!("{many},[\"len\",0")), 413, "more than 64 parameters"),
        (edited("buffers", "buf\\u0000fers"), 413, "line 1 contains a NUL character"),
        (edited("\"value\":100.0", "\"value\":1e999"), 400, "line 2: number out of range"),
        (
            edited("\"wall_ns\":1000", "\"wall_ns\":18446744073709551615"),
            400,
            "run 1 took longer than a year",
        ),
        (
            edited("\"started_unix_ms\":1750000000000", "\"started_unix_ms\":9223372036854775807"),
            400,
            "before 1970 or after 9999",
        ),
        (edited("\"state\":\"complete\"", "\"state\":\"running\""), 400, "still being measured"),
        (
            edited("\"id\":\"0197-11\"", "\"id\":\"0197-12\""),
            400,
            "the header names session '0197-12'",
        ),
        (good[..good.len() - 30].to_vec(), 400, "the last line is incomplete"),
        (b"{}\n".to_vec(), 400, "the header of a session"),
        (b"\xff\xfe\n".to_vec(), 400, "not valid UTF-8"),
    ] {
        whole(&text).expect_rejected(status, words);
    }
    let swapped = format!("0197-11?sha256={}", SessionDigest::hash_lines(b"x"));
    server.ask("PUT", &swapped, &good).expect_rejected(409, "differ from the sent ones");
    server.ask("PUT", "0197-11", &good).expect_rejected(400, "missing digest 'sha256'");
    server.ask("PUT", "..%2f..%2fetc", &good).expect_rejected(400, "invalid session id");
    server.ask("POST", "0197-11", b"").expect_rejected(405, "method POST not allowed");

    // A header, and a line that does not belong in a session: nothing of it is kept.
    let header = &good[..=good.iter().position(|byte| *byte == b'\n').unwrap()];
    whole(&[header, b"{\"run\":7}\n"].concat()).expect_rejected(400, "line 2");
    server.ask("GET", "0197-11", b"").expect_rejected(404, "session '0197-11' not found");
    whole(&good).expect(201, "stored");
    assert_eq!(core(place).count_sessions(&SessionFilter::default()).unwrap(), 1);
    let back = server.ask("GET", "0197-11", b"");
    assert_eq!(back.body.as_str().unwrap().as_bytes(), &good[..]);
}

/// Threats T10 and T11: every URL of the API with every kind of token; and sessions of branches and
/// machines that a token does not cover.
fn a_token_pushes_to_its_project_its_branches_and_its_machines(place: &StorePlace) {
    let project = TempProject::new();
    let server = TeamServer::of(&project, place);
    let db = place.path();
    let token = |words: &[&str]| {
        let begin = ["serve", "token", "add", "t", "--db", db.to_str().unwrap()];
        let made = project.run(&[&begin[..], words].concat()).expect_status(0);
        format!("Bearer {}", made.stdout.trim())
    };
    project
        .run(&["serve", "project", "add", "other", "--db", db.to_str().unwrap()])
        .expect_status(0);
    let secret = session("0197-5ec2e7", 2);
    let text = lines(&secret);
    let path = format!("0197-5ec2e7?sha256={}", SessionDigest::hash_lines(&text));
    server.ask("PUT", &path, &text).expect(201, "stored");
    let kinds = [
        ("push other", token(&["--scope", "push", "--project", "other"])),
        ("read other", token(&["--scope", "read", "--project", "other"])),
        ("admin other", token(&["--scope", "admin", "--project", "other"])),
        ("read core", token(&["--scope", "read", "--project", "core"])),
        ("none", String::new()),
    ];
    let document = server.try_ask("GET", "/api/v1/openapi.json", &[], b"").unwrap();
    for (path, operations) in document.body["paths"].as_object().unwrap() {
        if !path.contains("{project}") {
            continue;
        }
        for method in operations.as_object().unwrap().keys().map(|name| name.to_uppercase()) {
            for (name, bearer) in &kinds {
                let path = path.replace("{project}", "core").replace("{id}", &secret.id);
                let answer =
                    server.try_ask(&method, &path, &[("Authorization", bearer)], b"").unwrap();
                let may = *name == "read core" && method == "GET";
                let refused = if *name == "none" { 401 } else { 403 };
                // A comparison needs two sessions; that error is visible only with permission to
                // compare.
                let is_refused = [401, 403].contains(&answer.status);
                let words = format!("{name}: {method} {path}: {answer:?}");
                assert_eq!(is_refused, !may, "{words}");
                assert!(may || answer.status == refused, "{words}");
                let said = answer.body.to_string();
                assert!(may || !said.contains("buffers/fill.js"), "{name}: {method} {path}");
            }
        }
    }
    // The same id in another project reveals nothing about this one.
    let bearer = &kinds[0].1;
    let there = format!("/api/v1/other/sessions/{path}");
    let answer = server.try_ask("PUT", &there, &[("Authorization", bearer)], &text).unwrap();
    answer.expect(201, "stored");

    let bound = ["--scope", "push", "--project", "core", "--branch", "pr/1", "--machine", "lab"];
    let bearer = token(&bound);
    let of = |id: &str, branch: &str, machine: &str| {
        let mut session = session(id, 1);
        session.environment.machine = Some(machine.to_owned());
        session.origin = Some(speedwell_model::CodeOrigin {
            revision: "abc".to_owned(),
            branch: Some(branch.to_owned()),
            ..Default::default()
        });
        let text = lines(&session);
        let path =
            format!("/api/v1/core/sessions/{id}?sha256={}", SessionDigest::hash_lines(&text));
        server.try_ask("PUT", &path, &[("Authorization", &bearer)], &text).unwrap()
    };
    of("0197-b1", "main", "lab").expect_rejected(403, "may not push sessions of the branch 'main'");
    of("0197-b2", "pr/1", "mine")
        .expect_rejected(403, "may not push sessions of the machine 'mine'");
    of("0197-b3", "pr/1", "lab").expect(201, "stored");
    let refused = "SELECT count(*) FROM audit WHERE action = 'push' AND result LIKE '%may not%'";
    assert_eq!(place.number(refused), 2);
    let done = "SELECT count(*) FROM audit WHERE action = 'push' AND result = 'done'";
    assert_eq!(place.number(done), 3);
}

/// Threat T4, on the running server: 10 GB of zeros in 10 MB take no memory.
fn a_bomb_is_refused_before_it_is_unpacked(place: &StorePlace) {
    let project = TempProject::new();
    let server = TeamServer::of(&project, place);
    let text = lines(&session("0197-b0", 1));
    let path = format!("0197-b0?sha256={}", SessionDigest::hash_lines(&text));
    server.ask("PUT", &path, &text).expect(201, "stored");
    let before = server.peak_kb();
    // A gzip file of many members, generated on the fly: each is ten megabytes of zeros in ten
    // kilobytes.
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    packer.write_all(&vec![0; 10 << 20]).unwrap();
    let member = packer.finish().unwrap();
    let path = format!("/api/v1/core/sessions/{path}");
    // The first is rejected for its announced size, the second for its decompressed size.
    for bytes in [300 << 20, 8 << 20] {
        let begun = Instant::now();
        let answer = send_bomb(&server, &path, &member, bytes / member.len());
        assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
        let grown = server.peak_kb() - before;
        eprintln!(
            "{} MB of zeros in {} kB: 413 after {:.0?}, the server grew by {grown} kB",
            10 * (bytes / member.len()),
            bytes / 1000,
            begun.elapsed()
        );
        assert!(grown < 80 << 10, "{grown} kB");
    }
    server.ask("PUT", path.rsplit('/').next().unwrap(), &text).expect(200, "known");
}

/// Response to a body of this many members, sent one by one until the server rejects it.
fn send_bomb(server: &TeamServer, path: &str, member: &[u8], members: usize) -> String {
    let fields = [("Content-Encoding", "gzip")];
    let length = members * member.len();
    let mut stream = server.send_head("PUT", path, &fields, length).unwrap();
    for _ in 0..members {
        if stream.write_all(member).is_err() {
            break;
        }
    }
    let mut answer = Vec::new();
    // If the server has hung up, it has responded before.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}
