//! Measures the cost of receiving sessions; ignored by default:
//!
//! `cargo test --release -p speedwell --features postgres --test it -- --ignored --nocapture costs`

use super::back_ends::StorePlace;
use super::by_hand::{blank_session, run_of};
use super::project::TempProject;
use super::team_server::TeamServer;
use speedwell_formats::json_lines;
use speedwell_model::{Case, ParameterValue, Session, SessionState};
use speedwell_store::{SessionDigest, SessionFilter, Store};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Number of sessions, and of clients that send them.
const SESSIONS: usize = 1000;
const CLIENTS: usize = 8;

mod costs {
    use super::*;

    #[test]
    #[ignore = "measures"]
    fn on_a_file() {
        a_thousand_sessions_from_eight_clients(&StorePlace::file());
        eight_large_sessions_at_once(&StorePlace::file());
    }

    #[test]
    #[ignore = "measures"]
    fn on_a_server() {
        if let Some(place) = StorePlace::server() {
            a_thousand_sessions_from_eight_clients(&place);
        }
        if let Some(place) = StorePlace::server() {
            eight_large_sessions_at_once(&place);
        }
    }
}

/// A session like the one of the demo: 14 cases, 2 variants, 8 runs of each.
fn session(id: usize) -> Session {
    let runs = (0..224).map(|slot| {
        let mut run = run_of(slot, "throughput", 1e6 + f64::from(slot * 7919 % 1000));
        let len = ("len".to_owned(), ParameterValue::Number(f64::from(slot / 2 % 14)));
        run.case = Arc::new(Case::new("buffers/fill.js", vec![len]));
        run
    });
    Session {
        state: SessionState::Complete,
        runs: runs.collect(),
        ..blank_session(&format!("0197-{id:08x}"))
    }
}

fn lines(session: &Session) -> Vec<u8> {
    let mut text = Vec::new();
    json_lines::write(session, &mut text).unwrap();
    text
}

/// Processor time of processes, in milliseconds.
fn cpu_ms(pids: &[u32]) -> f64 {
    let ticks = pids.iter().filter_map(|pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
        Some(fields[11].parse::<f64>().ok()? + fields[12].parse::<f64>().ok()?)
    });
    // A tick is 10 ms on every supported Linux.
    ticks.sum::<f64>() * 10.0
}

/// The processes of the database server; none for a file.
fn database_pids(place: &StorePlace) -> Vec<u32> {
    let StorePlace::Server(schema) = place else {
        return Vec::new();
    };
    let host = schema.address.split(['@', '/']).nth(3).unwrap_or_default();
    let folder = PathBuf::from(host.replace("%2F", "/"));
    let is_there = |pid: &u32| {
        std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(&folder))
    };
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(is_there).collect()
}

fn a_thousand_sessions_from_eight_clients(place: &StorePlace) {
    let home = TempProject::new();
    let server = TeamServer::of(&home, place);
    let texts: Vec<Vec<u8>> = (0..SESSIONS).map(|id| lines(&session(id))).collect();
    let warm = lines(&session(SESSIONS));
    let send = |id: usize, text: &[u8]| {
        let path = format!("0197-{id:08x}?sha256={}", SessionDigest::hash_lines(text));
        let begun = Instant::now();
        let answer = server.ask("PUT", &path, text);
        assert_eq!(answer.status, 201, "{answer:?}");
        begun.elapsed()
    };
    send(SESSIONS, &warm);
    let own = server.pid().as_raw_nonzero().get() as u32;
    let database = database_pids(place);
    let (before, before_database) = (cpu_ms(&[own]), cpu_ms(&database));
    let begun = Instant::now();
    let mut waits: Vec<Duration> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let texts = &texts;
                let send = &send;
                scope.spawn(move || {
                    let own = (client..SESSIONS).step_by(CLIENTS);
                    own.map(|id| send(id, &texts[id])).collect::<Vec<_>>()
                })
            })
            .collect();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    let took = begun.elapsed();
    waits.sort();
    let each = |ms: f64| ms / SESSIONS as f64;
    println!(
        "{SESSIONS} sessions of {} bytes, {CLIENTS} clients, {}: {took:.2?}, {:.0} a second, p50 {:.1?}, p99 {:.1?}; \
         server {:.2} ms of CPU each, database {:.2} ms; {} kB at most",
        texts[0].len(),
        if database.is_empty() { "file" } else { "PostgreSQL" },
        SESSIONS as f64 / took.as_secs_f64(),
        waits[waits.len() / 2],
        waits[waits.len() * 99 / 100],
        each(cpu_ms(&[own]) - before),
        each(cpu_ms(&database) - before_database),
        server.peak_kb(),
    );
    let there = store(place);
    assert_eq!(there.count_sessions(&SessionFilter::default()).unwrap(), SESSIONS + 1);
}

fn store(place: &StorePlace) -> Store {
    let first = place.open();
    let core = first.find_project("core").unwrap().unwrap();
    let path: PathBuf = first.project_path(&core).unwrap();
    Store::open(Path::new(&path)).unwrap()
}

/// Memory for 8 simultaneous pushes of nearly 8 MiB.
fn eight_large_sessions_at_once(place: &StorePlace) {
    let home = TempProject::new();
    let server = TeamServer::of(&home, place);
    server.ask("GET", "0197-0", b"");
    let idle = server.peak_kb();
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let server = &server;
            scope.spawn(move || {
                let mut large = session(client);
                while lines(&large).len() < 7 << 20 {
                    let runs = large.runs.clone();
                    large.runs.extend(runs);
                }
                large.runs.truncate(20_000);
                let text = lines(&large);
                let path = format!("{}?sha256={}", large.id, SessionDigest::hash_lines(&text));
                let answer = server.ask("PUT", &path, &text);
                assert_eq!(answer.status, 201, "{answer:?}");
            });
        }
    });
    println!("8 sessions of 7 MiB at once: {} kB at most, {idle} kB before", server.peak_kb());
}
