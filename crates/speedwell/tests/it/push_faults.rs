//! Requests cut at every byte; and clients that are killed, whose disk is full, whose clock jumps,
//! or that a server asks to return tomorrow. Each test ends with a count: the session is stored
//! once and complete.

use super::back_ends::{StorePlace, on_both};
use super::project::TempProject;
use super::push::{core, lines, session, without_number};
use super::small_disk::SmallDisk;
use super::team_server::TeamServer;
use speedwell_model::Session;
use speedwell_store::{SessionDigest, SessionFilter, Store};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Stdio;
use std::time::Duration;

on_both! {
    requests_that_are_cut_at_every_byte_make_one_session
    a_client_that_is_killed_again_and_again_loses_nothing
    a_clock_that_jumps_a_day_holds_nothing_up
}

/// Pushes a file to an address without a server, after which it is in the outbox.
const TO_NOBODY: [&str; 6] =
    ["push", "one.jsonl", "--to", "http://127.0.0.1:1/core", "--wait", "1ms"];

#[track_caller]
fn check_the_count(place: &StorePlace, expected: &[Session]) {
    let there = core(place);
    let stored = there.count_sessions(&SessionFilter::default()).unwrap();
    assert_eq!(stored, expected.len());
    for session in expected {
        assert_eq!(without_number(&there, &session.id), *session);
    }
}

/// A complete request as sent over the wire.
fn request(server: &TeamServer, method: &str, path: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "{method} /api/v1/core/sessions/{path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\
         Connection: close\r\nContent-Length: {}\r\n\r\n",
        server.address,
        server.token,
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// Sends the start of a request and hangs up; or all of it, and reads a few bytes of the response.
fn sent_and_cut(server: &TeamServer, request: &[u8], at: usize) {
    let mut stream = TcpStream::connect(&server.address).unwrap();
    stream.write_all(&request[..at]).unwrap();
    if at < request.len() {
        stream.shutdown(Shutdown::Write).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    } else {
        let _ = stream.read(&mut [0; 9]);
    }
}

/// At every 43rd byte; `SPEEDWELL_CUTS=1` selects every byte.
fn requests_that_are_cut_at_every_byte_make_one_session(place: &StorePlace) {
    let step = std::env::var("SPEEDWELL_CUTS").map_or(43, |step| step.parse().unwrap());
    let project = TempProject::new();
    let server = TeamServer::of(&project, place);
    let told = session("0197-c07", 2);
    let text = lines(&told);
    let path = format!("{}?sha256={}", told.id, SessionDigest::hash_lines(&text));
    let request = request(&server, "PUT", &path, &text);
    let mut cuts = 0;
    for at in (0..request.len()).step_by(step) {
        sent_and_cut(&server, &request, at);
        cuts += 1;
    }
    // None of the incomplete requests had an effect.
    check_the_count(place, &[]);
    // The complete request, whose response is lost, twice.
    for _ in 0..2 {
        sent_and_cut(&server, &request, request.len());
    }
    server.ask("PUT", &path, &text).expect(200, "known");
    eprintln!("{cuts} requests were cut, 2 answers lost, 1 session stored");
    check_the_count(place, &[told]);
}

fn a_client_that_is_killed_again_and_again_loses_nothing(place: &StorePlace) {
    let project = TempProject::new();
    let server = TeamServer::of(&project, place);
    let told: Vec<Session> = (0..6).map(|n| session(&format!("0197-d1e{n}"), 3)).collect();
    let text = told.iter().flat_map(lines).collect::<Vec<u8>>();
    std::fs::write(project.path("all.jsonl"), text).unwrap();
    project.run(&["import", "all.jsonl", "-q"]).expect_status(0);
    let url = server.url();
    let words = ["push", "@1", "@2", "@3", "@4", "@5", "@6", "--to", &url, "-q"];
    let outbox = || {
        let store = Store::open(&project.path(".speedwell/results.db")).unwrap();
        store.list_uploads().unwrap()
    };
    let mut kills = 0;
    for step in 0..12 {
        let mut command = server.command(&project, &words);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // Another session arrives; from there on, any moment will do.
        let there = core(place);
        let arrived = || there.count_sessions(&SessionFilter::default()).unwrap();
        while arrived() < step / 2 && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        kills += usize::from(child.try_wait().unwrap().is_none());
        let _ = child.kill();
        child.wait().unwrap();
    }
    server.run(&project, &words).expect_status(0);
    assert!(outbox().iter().all(|item| item.sent_unix_ms.is_some()), "{:?}", outbox());
    eprintln!("killed {kills} times while it sent");
    check_the_count(place, &told);
}

/// Items written while the clock was a day ahead, or a day behind.
fn a_clock_that_jumps_a_day_holds_nothing_up(place: &StorePlace) {
    const DAY_MS: i64 = 86_400_000;
    let project = TempProject::new();
    let server = TeamServer::of(&project, place);
    let told: Vec<Session> = (0..2).map(|n| session(&format!("0197-da{n}"), 3)).collect();
    for (told, jump) in told.iter().zip([DAY_MS, -DAY_MS]) {
        std::fs::write(project.path("one.jsonl"), lines(told)).unwrap();
        server.run(&project, &TO_NOBODY).expect_status(2);
        let local = rusqlite::Connection::open(project.path(".speedwell/results.db")).unwrap();
        let now = "CAST(strftime('%s', 'now') AS INTEGER) * 1000";
        let moved = format!(
            "UPDATE outbox SET url = '{}', added_unix_ms = {now} + {jump},
                 next_unix_ms = {now} + {jump}, claimed_until_unix_ms = {now} + {jump}
             WHERE state = 'waiting'",
            server.url()
        );
        assert_eq!(local.execute(&moved, []).unwrap(), 1);
        server.run(&project, &["push"]).expect_status(0);
    }
    check_the_count(place, &told);
}

#[test]
fn an_outbox_on_a_full_disk_keeps_what_is_owed() {
    let Some(disk) = SmallDisk::new(4) else {
        return;
    };
    let place = StorePlace::file();
    let project = TempProject::new();
    let server = TeamServer::of(&project, &place);
    let told = session("0197-f011", 3);
    std::fs::write(project.path("one.jsonl"), lines(&told)).unwrap();
    let url = server.url();
    let db = disk.path("results.db");
    let db = ["--db", db.to_str().unwrap()];
    let push = |words: &[&str]| server.run(&project, &[words, &db].concat());
    // Queued while the server was unreachable, in a store whose disk is full by then.
    push(&TO_NOBODY).expect_status(2);
    disk.fill();
    let one = ["push", "@1", "--to", &url];
    push(&one).expect_status(2).expect_stderr(&["the disk "]);
    assert!(core(&place).count_sessions(&SessionFilter::default()).unwrap() <= 1);
    disk.make_room();
    push(&["push", "--list"]).expect_status(0).expect_stdout(&["waiting"]);
    push(&one).expect_status(0);
    check_the_count(&place, &[told]);
}

/// A server that asks for a day's delay is not contacted repeatedly.
#[test]
fn a_server_that_sends_retry_after_is_not_contacted_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/core", listener.local_addr().unwrap());
    let asked = std::thread::spawn(move || {
        let mut asked = 0;
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = [0; 4096];
            let read = stream.read(&mut head).unwrap();
            if head[..read].starts_with(b"STOP") {
                return asked;
            }
            asked += 1;
            assert!(asked < 20, "asked again and again");
            let _ = stream.write_all(
                b"HTTP/1.1 503 Later\r\nRetry-After: 86400\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
            );
        }
        asked
    });
    let project = TempProject::new();
    std::fs::write(project.path("one.jsonl"), lines(&session("0197-1a7e", 2))).unwrap();
    let words = ["push", "one.jsonl", "--to", &url, "--wait", "2s"];
    project
        .run(&words)
        .expect_status(2)
        .expect_stderr(&["could not be sent", "unsent sessions stay in the outbox"]);
    let mut last = TcpStream::connect(url[7..].trim_end_matches("/core")).unwrap();
    last.write_all(b"STOP").unwrap();
    assert_eq!(asked.join().unwrap(), 1);
}
