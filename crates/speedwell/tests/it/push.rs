//! Sessions pushed to a team's server: despite cuts, repetitions, kills and full disks, each
//! acknowledged session is stored once and complete.

use super::arbitrary;
use super::back_ends::{StorePlace, on_both};
use super::backup::deleted_sessions;
use super::busy::wait_until;
use super::by_hand::{blank_session, run_of};
use super::dashboard::TestDashboard;
use super::project::TempProject;
use super::team_server::{BreakingLine, ServerAnswer, TeamServer};
use super::web_server::free_port;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use speedwell_formats::json_lines;
use speedwell_model::stored::SessionOverview;
use speedwell_model::{NoiseCalibration, Session, SessionState};
use speedwell_store::{SessionDigest, SessionFilter, Store};
use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

on_both! {
    what_is_measured_arrives_whole_and_has_its_points
    nothing_is_lost_while_the_server_is_away
    a_killed_session_keeps_no_other_from_being_sent
    files_of_other_tools_are_pushed
    a_large_session_is_sent_again_over_a_line_that_breaks
    whatever_comes_twice_or_is_cut_makes_one_session
    what_differs_is_refused_and_nothing_is_replaced
    a_server_that_is_killed_again_and_again_loses_nothing
    what_was_deleted_is_not_taken_in_again
}

/// A project that measures quickly.
fn quick_project() -> TempProject {
    TempProject::new().with("g/a.fake", "case len=16\n* 100 101 102 103 104 105 106 107\n")
}

/// The tables of the project `core` on a server.
pub fn core(place: &StorePlace) -> Store {
    let store = place.open();
    let project = store.find_project("core").unwrap().unwrap();
    Store::open(&store.project_path(&project).unwrap()).unwrap()
}

/// A finished session with this many runs.
pub fn session(id: &str, runs: u32) -> Session {
    Session {
        state: SessionState::Complete,
        runs: (0..runs).map(|slot| run_of(slot, "throughput", 100.0 + f64::from(slot))).collect(),
        ..blank_session(id)
    }
}

pub fn lines(session: &Session) -> Vec<u8> {
    let mut text = Vec::new();
    json_lines::write(session, &mut text).unwrap();
    text
}

/// Response to a session that is sent as a whole; an error if the connection breaks.
pub fn send_whole(server: &TeamServer, session: &Session) -> std::io::Result<ServerAnswer> {
    let text = lines(session);
    let digest = SessionDigest::hash_lines(&text);
    let path = format!("/api/v1/core/sessions/{}?sha256={digest}", session.id);
    server.try_ask("PUT", &path, &[], &text)
}

/// Number of stored sessions of this many runs. Asserts that acknowledged ones are stored as they
/// were sent, and that none is stored twice or in part.
pub fn count_stored(place: &StorePlace, acknowledged: &[String], runs: u32) -> usize {
    let there = core(place);
    let stored = there.list_sessions(&SessionFilter::default()).unwrap();
    let ids: BTreeSet<&str> = stored.iter().map(|one| one.id.as_str()).collect();
    assert_eq!(ids.len(), stored.len(), "one is there twice");
    for id in acknowledged {
        assert!(ids.contains(id.as_str()), "{id} is lost");
        assert_eq!(without_number(&there, id), session(id, runs), "{id}");
    }
    let is_whole = |one: &SessionOverview| one.runs == runs as usize;
    assert!(stored.iter().all(is_whole), "one is there in parts");
    eprintln!("{} acknowledged, {} stored, 0 twice, 0 in parts", acknowledged.len(), stored.len());
    stored.len()
}

/// A session without its number and whatever derives from that, which makes both stores comparable.
pub fn without_number(store: &Store, id: &str) -> Session {
    let number = store.find_by_id(id).unwrap().unwrap();
    let mut session = store.load_session(number).unwrap();
    session.number = None;
    if let Some(found) = &mut session.calibration {
        found.session = 0;
    }
    session
}

fn what_is_measured_arrives_whole_and_has_its_points(place: &StorePlace) {
    let project = quick_project();
    let server = TeamServer::of(&project, place);
    let url = server.url();
    let mut words = vec!["run", "g", "-q", "-r", "4", "--push", &url, "--tag", "nightly"];
    words.extend(["--variant", "old=X=1", "--variant", "new=X=2"]);
    let run = |words: &[&str]| server.run(&project, words);
    run(&words).expect_status(0).expect_stderr(&["sent @1 to"]);
    let local = Store::open(&project.path(".speedwell/results.db")).unwrap();
    let id = local.load_session(1).unwrap().id;
    let there = core(place);
    assert_eq!(without_number(&there, &id), without_number(&local, &id));
    assert_eq!(there.find_sessions_without_points().unwrap(), [] as [i64; 0]);
    let listed = run(&["push", "--list", "--format", "json"]).expect_status(0).json();
    let listed = listed.to_string();
    assert!(listed.contains("\"sent\"") && listed.contains(&id), "{listed}");

    // Sent again, it is known; a calibration is part of its session.
    run(&["push", "@1", "--to", &url]).expect_status(0);
    let calibrated = Session {
        calibration: Some(NoiseCalibration {
            started_unix_ms: 1_750_000_000_000,
            comparisons: 200,
            false_alarms: 9,
            expected_low: 4,
            expected_high: 17,
            ..NoiseCalibration::default()
        }),
        ..session("0197-ca11", 2)
    };
    std::fs::write(project.path("c.jsonl"), lines(&calibrated)).unwrap();
    run(&["push", "c.jsonl", "--to", &url]).expect_status(0);
    assert_eq!(without_number(&there, "0197-ca11"), calibrated);
    assert_eq!(there.count_sessions(&SessionFilter::default()).unwrap(), 2);
}

fn a_killed_session_keeps_no_other_from_being_sent(place: &StorePlace) {
    let project = quick_project();
    let server = TeamServer::of(&project, place);
    let url = server.url();
    let mut local = Store::open(&project.path(".speedwell/results.db")).unwrap();
    for number in 1..=5 {
        let mut session = session(&format!("0197-{number}"), 2);
        if number == 3 {
            session.state = SessionState::Running;
        }
        local.insert_session(&session).unwrap();
    }
    let push =
        |sources: &[&str]| server.run(&project, &[&["push"], sources, &["--to", &url]].concat());
    push(&["@2..@4"]).expect_status(0).expect_stderr(&[
        "sent @2 to",
        "sent @4 to",
        "being measured or their measurement was killed: @3.",
    ]);
    assert_eq!(core(place).count_sessions(&SessionFilter::default()).unwrap(), 2);
    // Named by itself, it is an error; the others are still sent.
    push(&["@1", "@3", "@4"]).expect_status(2).expect_stderr(&[
        "sent @1 to",
        "hint: wait until they have ended",
        "--resume @3",
    ]);
    push(&["--all"]).expect_status(0).expect_stderr(&["sent @5 to"]);
    assert_eq!(core(place).count_sessions(&SessionFilter::default()).unwrap(), 4);
    push(&["@4..@2"]).expect_status(2).expect_stderr(&["hint: use @2..@4"]);
    push(&["@3"]).expect_status(2);
}

fn nothing_is_lost_while_the_server_is_away(place: &StorePlace) {
    let project = quick_project();
    let mut server = TeamServer::of(&project, place);
    let url = server.url();
    server.kill();
    let measure = ["run", "g", "-q", "-r", "2", "--push", &url];
    server.run(&project, &measure).expect_status(0).expect_stderr(&[
        "warning: @1 could not be sent",
        "speedwell push @1 --to http://127.0.0.1",
    ]);
    server.run(&project, &[&measure[..], &["--push-required"]].concat()).expect_status(2);
    server
        .run(&project, &["push", "--wait", "1ms"])
        .expect_status(2)
        .expect_stderr(&["@2 could not be sent", "hint: unsent sessions stay in the outbox"]);
    // A CI job that ends writes unsent sessions to a file.
    server.run(&project, &["push", "--wait", "1ms", "--spool", "out.jsonl"]).expect_status(0);
    let kept = std::fs::read_to_string(project.path("out.jsonl")).unwrap();
    assert_eq!(json_lines::read(&kept).unwrap().len(), 2);

    server.start_again(&project, place);
    // Another job, which has only the file, and the one that measured.
    let other = TempProject::new().with("out.jsonl", &kept);
    let all = server.run(&other, &["push", "out.jsonl", "--to", &url]);
    all.expect_status(0);
    server.run(&project, &["push", "--wait", "1m"]).expect_status(0).expect_stderr(&[
        "sent @1",
        "sent @2",
        "which already had it",
    ]);
    assert_eq!(core(place).count_sessions(&SessionFilter::default()).unwrap(), 2);
    server.run(&project, &["push"]).expect_status(0);
}

fn files_of_other_tools_are_pushed(place: &StorePlace) {
    let project = TempProject::new().with(
        "google.json",
        r#"{"context":{"date":"2025-01-01T00:00:00Z","host_name":"h","num_cpus":2,"mhz_per_cpu":1000,
            "library_build_type":"release"},
            "benchmarks":[{"name":"BM_a/8","run_name":"BM_a/8","run_type":"iteration","repetitions":1,
            "repetition_index":0,"threads":1,"iterations":1000,"real_time":12.5,"cpu_time":12.0,"time_unit":"ns"}]}"#,
    );
    let server = TeamServer::of(&project, place);
    let push = |words: &[&str]| server.run(&project, words);
    let url = server.url();
    push(&["push", "google.json", "--to", &url]).expect_status(0);
    push(&["push", "@1", "--to", &url]).expect_status(0);
    let there = core(place);
    assert_eq!(there.count_sessions(&SessionFilter::default()).unwrap(), 1);
    assert_eq!(there.load_session(1).unwrap().runs[0].case.benchmark, "BM_a/8");
    push(&["push", "nothing.json", "--to", &url])
        .expect_status(2)
        .expect_stderr(&["neither a session nor a file"]);
    push(&["push", "google.json"]).expect_status(2).expect_stderr(&["no server given"]);
}

fn a_large_session_is_sent_again_over_a_line_that_breaks(place: &StorePlace) {
    let project = TempProject::new();
    let server = TeamServer::of(&project, place);
    let line = BreakingLine::proxy_to(&server, 300, 450_000);
    // Notes make it large; random digits do not compress well.
    let mut dice = Xoshiro256PlusPlus::seed_from_u64(5);
    let mut large = session("0197-1a49e", 45);
    for run in &mut large.runs {
        let notes =
            (0..50).map(|_| (0..130).map(|_| format!("{:016x}", dice.random::<u64>())).collect());
        run.notes = notes.collect();
    }
    let text = lines(&large);
    assert!(text.len() > 4 << 20, "{}", text.len());
    std::fs::write(project.path("large.jsonl"), &text).unwrap();
    let url = format!("http://{}/core", line.address);
    let mut tries = 0;
    loop {
        let words = ["push", "large.jsonl", "--to", &url, "--wait", "1ms"];
        let pushed = server.run(&project, &words);
        if pushed.status == 0 {
            break;
        }
        tries += 1;
        assert!(tries < 60, "{}", pushed.stderr);
        let stored = core(place).count_sessions(&SessionFilter::default()).unwrap();
        assert_eq!(stored, 0, "nothing of it is there");
    }
    assert!(line.broken.load(Ordering::SeqCst) > 3, "the line held");
    let there = core(place);
    assert_eq!(without_number(&there, &large.id), large);
    assert_eq!(there.count_sessions(&SessionFilter::default()).unwrap(), 1);
}

fn whatever_comes_twice_or_is_cut_makes_one_session(place: &StorePlace) {
    let project = TempProject::new();
    let server = TeamServer::of(&project, place);
    let mut dice = Xoshiro256PlusPlus::seed_from_u64(29);
    for seed in 0..12 {
        let mut told = arbitrary::arbitrary_session(1000 + seed);
        if told.state == SessionState::Running {
            told.state = SessionState::Interrupted;
        }
        for run in &mut told.runs {
            // No server accepts a run of 584 years.
            (run.wall_ns, run.started_unix_ms) = (run.wall_ns.min(1), run.started_unix_ms.max(0));
            run.usage = None;
        }
        let text = lines(&told);
        let digest = SessionDigest::hash_lines(&text).to_string();
        let path = format!("/api/v1/core/sessions/{}?sha256={digest}", told.id);
        for _ in 0..dice.random_range(0..8) {
            let is_cut = dice.random_range(0..2) == 0;
            let sent = if is_cut { dice.random_range(0..text.len()) } else { text.len() };
            let mut stream = server.send_head("PUT", &path, &[], text.len()).unwrap();
            let _ = stream.write_all(&text[..sent]);
            // The response is lost.
            drop(stream);
        }
        // Then it is sent properly.
        let answer = server.try_ask("PUT", &path, &[], &text).unwrap();
        assert!(matches!(answer.status, 200 | 201), "seed {seed}: {answer:?}");
        assert_eq!(answer.body["sha256"], digest, "seed {seed}");
        let there = core(place);
        let mut expected = told.clone();
        expected.number = None;
        assert_eq!(without_number(&there, &told.id), expected, "seed {seed}");
    }
    assert_eq!(core(place).count_sessions(&SessionFilter::default()).unwrap(), 12);
}

fn what_differs_is_refused_and_nothing_is_replaced(place: &StorePlace) {
    let project = TempProject::new();
    let server = TeamServer::of(&project, place);
    let one = session("0197-d1ff", 4);
    let other = session("0197-d1ff", 5);
    let whole = |session: &Session| send_whole(&server, session).unwrap();
    whole(&one).expect(201, "stored");
    whole(&one).expect(200, "known");
    let refused =
        whole(&other).expect_rejected(409, "a different session '0197-d1ff' is already stored");
    assert_eq!(refused.body["stored_digest"], SessionDigest::hash_lines(&lines(&one)).to_string());
    assert_eq!(refused.body["sent_digest"], SessionDigest::hash_lines(&lines(&other)).to_string());
    assert_eq!(without_number(&core(place), "0197-d1ff"), one);

    std::fs::write(project.path("other.jsonl"), lines(&other)).unwrap();
    let push = |words: &[&str]| server.run(&project, words);
    push(&["push", "other.jsonl", "--to", &server.url()])
        .expect_status(2)
        .expect_stderr(&["rejected @1", "a different session '0197-d1ff' is already stored"]);
    push(&["push", "--list"]).expect_status(0).expect_stdout(&["refused", "a different session"]);
    push(&["doctor"]).expect_stdout(&["1 session is refused"]);
}

fn a_server_that_is_killed_again_and_again_loses_nothing(place: &StorePlace) {
    let kills = std::env::var("SPEEDWELL_KILLS").map_or(3, |kills| kills.parse().unwrap());
    let project = TempProject::new();
    let mut server = TeamServer::of(&project, place);
    let mut acknowledged: Vec<String> = Vec::new();
    let mut number = 0;
    let mut dice = Xoshiro256PlusPlus::seed_from_u64(31);
    for _ in 0..kills {
        let count = AtomicUsize::new(0);
        let wanted = dice.random_range(8..40);
        let sent: Vec<String> = std::thread::scope(|scope| {
            let (server, count) = (&server, &count);
            let clients: Vec<_> = (0..8)
                .map(|client| {
                    let first = number + client * 1000;
                    scope.spawn(move || send_until_it_breaks(server, first, count))
                })
                .collect();
            wait_until(|| count.load(Ordering::SeqCst) >= wanted);
            server.kill_without_waiting();
            let sent = clients.into_iter().flat_map(|client| client.join().unwrap());
            sent.collect()
        });
        number += 8000;
        acknowledged.extend(sent);
        server.kill();
        server.start_again(&project, place);
    }
    assert!(acknowledged.len() > kills, "{}", acknowledged.len());
    let stored = count_stored(place, &acknowledged, 4);
    assert!((acknowledged.len()..=acknowledged.len() + 8 * kills).contains(&stored));
}

/// Sends sessions one after the other until the connection breaks; returns those that were
/// acknowledged.
fn send_until_it_breaks(server: &TeamServer, first: usize, count: &AtomicUsize) -> Vec<String> {
    let mut acknowledged = Vec::new();
    for number in first..first + 1000 {
        let session = session(&format!("0197-{number:08x}"), 4);
        match send_whole(server, &session) {
            Ok(answer) if answer.status == 201 => {
                acknowledged.push(session.id);
                count.fetch_add(1, Ordering::SeqCst);
            }
            Ok(answer) => assert_eq!(answer.status, 503, "{answer:?}"),
            Err(_) => break,
        }
    }
    acknowledged
}

fn what_was_deleted_is_not_taken_in_again(place: &StorePlace) {
    let project = TempProject::new();
    let server = TeamServer::of(&project, place);
    let one = session("0197-de1", 3);
    std::fs::write(project.path("one.jsonl"), lines(&one)).unwrap();
    let push = |words: &[&str]| server.run(&project, words);
    let url = server.url();
    push(&["push", "one.jsonl", "--to", &url]).expect_status(0);
    server.ask("DELETE", "0197-de1", b"").expect(200, "deleted");
    server.ask("GET", "0197-de1", b"").expect_rejected(404, "session '0197-de1' not found");
    let other = TempProject::new().with("one.jsonl", std::str::from_utf8(&lines(&one)).unwrap());
    server
        .run(&other, &["push", "one.jsonl", "--to", &url])
        .expect_status(2)
        .expect_stderr(&["was deleted from this server", "--undelete"]);
    let mut there = core(place);
    assert_eq!(deleted_sessions(&there).len(), 1);
    there.restore_deleted("0197-de1").unwrap();
    assert_eq!(without_number(&there, "0197-de1"), one);
    assert!(deleted_sessions(&there).is_empty());
}

/// Makes an authority, `ca.pem`, and a certificate of localhost that it has signed; says where openssl cannot.
fn certificates(project: &TempProject) -> bool {
    let made = Command::new("sh")
        .current_dir(project.path(""))
        .args([
            "-ec",
            "new='-newkey rsa:2048 -nodes'
             openssl req -x509 $new -subj /CN=authority -keyout ca.key -out ca.pem
             openssl req $new -subj /CN=localhost -keyout key.pem -out request.pem
             echo 'subjectAltName=DNS:localhost' > names
             openssl x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -extfile names -out cert.pem",
        ])
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .status();
    let is_made = made.is_ok_and(|status| status.success());
    if !is_made {
        eprintln!("skipped: openssl makes no certificate");
    }
    is_made
}

#[test]
fn a_private_certificate_authority_is_trusted_if_given_with_ca() {
    let project = quick_project();
    if !certificates(&project) {
        return;
    }
    project.run(&["run", "g", "-r", "2", "-q"]).expect_status(0);
    let team = ["--db", "team.db"];
    let serve = |words: &[&str]| project.run(&[&["serve"], words, &team].concat());
    serve(&["project", "add", "core"]).expect_status(0);
    let token = serve(&["token", "add", "ci", "--scope", "push"]).expect_status(0);
    let port = free_port().to_string();
    let url = format!("https://localhost:{port}");
    let options = ["--port", &port, "--public-url", &url, "--cert", "cert.pem", "--key", "key.pem"];
    let _server = TestDashboard::with(&project, &[&options[..], &team].concat());
    let push = |words: &[&str]| {
        let to = format!("{url}/core");
        let mut command = project.command(&[&["push", "@1", "--to", &to], words].concat());
        command.env("SPEEDWELL_TOKEN", token.stdout.trim());
        super::project::CommandResult::from(command.output().unwrap())
    };
    let unknown = push(&[]);
    assert!(
        unknown
            .stderr
            .contains("this machine does not trust its issuer; add the issuer with --ca FILE"),
        "{unknown:?}"
    );
    push(&["--ca", "key.pem"]).expect_status(2).expect_stderr(&["no certificate"]);
    push(&["--ca", "ca.pem"]).expect_status(0).expect_stderr(&["sent @1 to"]);
}
