//! A server with external failures: a full disk, a crashed database, a second server, the order to
//! stop, vanishing clients and viewers. Each test ends with a count: every acknowledged session is
//! stored once, and none in part. Failures of the connection are in `push_faults.rs`.

use super::back_ends::{StorePlace, on_both};
use super::busy::wait_until;
use super::dashboard::TestDashboard;
use super::project::TempProject;
use super::push::{count_stored, send_whole, session};
use super::serve::next_event;
use super::small_disk::SmallDisk;
use super::team_server::TeamServer;
use speedwell_model::Session;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

on_both! {
    two_servers_of_one_database_take_in_each_session_once
    a_server_that_is_told_to_stop_loses_nothing
    viewers_that_vanish_or_never_read_leave_nothing
}

/// Runs of each session.
const RUNS: u32 = 4;

fn numbered(number: usize) -> Session {
    session(&format!("0197-{number:08x}"), RUNS)
}

fn two_servers_of_one_database_take_in_each_session_once(place: &StorePlace) {
    const SESSIONS: usize = 24;
    let project = TempProject::new();
    let first = TeamServer::of(&project, place);
    let second = first.start_second(&project, place);
    let new = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for (client, server) in [&first, &second, &first, &second].into_iter().enumerate() {
            let new = &new;
            scope.spawn(move || {
                for turn in 0..SESSIONS {
                    // Each starts somewhere else, and all send all.
                    let session = numbered((turn + client * SESSIONS / 4) % SESSIONS);
                    loop {
                        let answer = send_whole(server, &session).unwrap();
                        match answer.status {
                            201 => new.fetch_add(1, Ordering::SeqCst),
                            200 => 0,
                            status => {
                                assert_eq!(status, 503, "{answer:?}");
                                continue;
                            }
                        };
                        break;
                    }
                }
            });
        }
    });
    assert_eq!(new.into_inner(), SESSIONS, "each was new to one of them");
    // What one has accepted, the other shows.
    for server in [&first, &second] {
        let listed = server.try_ask("GET", "/core/sessions.json", &[], b"").unwrap();
        assert_eq!(listed.body["sessions"].as_array().unwrap().len(), SESSIONS);
    }
    let all: Vec<String> = (0..SESSIONS).map(|number| numbered(number).id).collect();
    count_stored(place, &all, RUNS);
}

fn a_server_that_is_told_to_stop_loses_nothing(place: &StorePlace) {
    let project = TempProject::new();
    let mut server = TeamServer::of(&project, place);
    let (acknowledged, is_over) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for client in 0..8 {
            let (server, acknowledged, is_over) = (&server, &acknowledged, &is_over);
            scope.spawn(move || {
                for number in client * 1000.. {
                    let session = numbered(number);
                    match send_whole(server, &session) {
                        Ok(answer) if answer.status == 201 => {
                            acknowledged.lock().unwrap().push(session.id);
                        }
                        Ok(answer) => assert_eq!(answer.status, 503, "{answer:?}"),
                        // It may exit between a request and its response, but only once it was told
                        // to.
                        Err(error) => {
                            assert!(is_over.load(Ordering::SeqCst), "{error}");
                            break;
                        }
                    }
                }
            });
        }
        wait_until(|| acknowledged.lock().unwrap().len() >= 16);
        is_over.store(true, Ordering::SeqCst);
        server.terminate();
    });
    assert_eq!(server.wait(), Some(0));
    count_stored(place, &acknowledged.into_inner().unwrap(), RUNS);
}

#[test]
fn a_database_crash_loses_no_acknowledged_session() {
    let Some(place) = StorePlace::instance() else {
        return;
    };
    let database = place.database();
    let project = TempProject::new();
    let server = TeamServer::of(&project, &place);
    let (acknowledged, refused) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for client in 0..4 {
            let (server, acknowledged, refused) = (&server, &acknowledged, &refused);
            scope.spawn(move || {
                for number in client * 1000..client * 1000 + 12 {
                    let session = numbered(number);
                    loop {
                        let answer = send_whole(server, &session).unwrap();
                        if [200, 201].contains(&answer.status) {
                            break acknowledged.lock().unwrap().push(session.id);
                        }
                        assert_eq!(answer.status, 503, "{answer:?}");
                        refused.fetch_add(1, Ordering::SeqCst);
                    }
                }
            });
        }
        for stop in 1..=3 {
            wait_until(|| acknowledged.lock().unwrap().len() >= stop * 8);
            database.stop();
            database.start();
        }
    });
    eprintln!("refused meanwhile: {}", refused.into_inner());
    count_stored(&place, &acknowledged.into_inner().unwrap(), RUNS);
}

/// While its database is unavailable a server gives no wrong response, and it recovers by itself.
#[test]
fn a_server_without_its_database_answers_503_and_recovers() {
    let Some(place) = StorePlace::instance() else {
        return;
    };
    let database = place.database();
    let project = TempProject::new();
    let server = TeamServer::of(&project, &place);
    send_whole(&server, &numbered(1)).unwrap().expect(201, "stored");
    let page = |path: &str| server.try_ask("GET", path, &[], b"").unwrap();
    assert_eq!(page("/core/sessions.json").status, 200);
    database.stop();
    // Sending sessions waits ten seconds for a database, so these are requested at the same time.
    std::thread::scope(|scope| {
        let asked = ["/core/sessions", "/core/machines.json", "/health/ready"];
        let timed = |path| {
            let begun = Instant::now();
            (path, page(path).status, begun.elapsed())
        };
        let pages = asked.map(|path| scope.spawn(move || timed(path)));
        let pushed = scope.spawn(|| send_whole(&server, &numbered(2)).unwrap());
        assert_eq!(page("/health").status, 200);
        for asked in pages {
            let (path, status, waited) = asked.join().unwrap();
            assert_eq!(status, 503, "{path}");
            // A page request can be repeated, so it waits less long than work that must not be
            // lost.
            assert!(waited < Duration::from_secs(8), "{path}: {waited:?}");
        }
        let pushed = pushed.join().unwrap();
        assert_eq!(pushed.status, 503, "{pushed:?}");
    });
    database.start();
    assert_eq!(page("/core/sessions.json").status, 200);
    send_whole(&server, &numbered(2)).unwrap().expect(201, "stored");
    count_stored(&place, &[1, 2].map(|number| numbered(number).id), RUNS);
}

#[test]
fn a_full_disk_is_reported_and_stored_results_stay_readable() {
    let Some(disk) = SmallDisk::new(8) else {
        return;
    };
    let place = StorePlace::On(disk.path("results.db"));
    the_disk_is_full(&place, &disk);
}

#[test]
fn a_full_database_disk_is_reported_and_stored_results_stay_readable() {
    let Some(disk) = SmallDisk::new(24) else {
        return;
    };
    let Some(place) = StorePlace::instance_with_tables_in(&disk.folder("tables")) else {
        return;
    };
    the_disk_is_full(&place, &disk);
}

/// Sends sessions to a server until its disk is full, and after that.
fn the_disk_is_full(place: &StorePlace, disk: &SmallDisk) {
    const LARGE: u32 = 300;
    let project = TempProject::new();
    let server = TeamServer::of(&project, place);
    let large = |number: usize| session(&format!("0197-{number:08x}"), LARGE);
    let mut acknowledged = Vec::new();
    for number in 0..4 {
        let answer = send_whole(&server, &large(number)).unwrap();
        acknowledged.push(large(number).id);
        answer.expect(201, "stored");
    }
    disk.fill();
    // There is still room in partially filled pages.
    let mut number = 4;
    let refused = loop {
        let answer = send_whole(&server, &large(number)).unwrap();
        if answer.status != 201 {
            break answer;
        }
        acknowledged.push(large(number).id);
        number += 1;
        assert!(number < 200, "the disk is never full");
    };
    assert_eq!(refused.status, 507, "{refused:?}");
    refused.expect_rejected(507, "disk is full");
    let listed = server.try_ask("GET", "/core/sessions.json", &[], b"").unwrap();
    assert_eq!(listed.status, 200, "{listed:?}");
    let session = format!("sessions/{}", acknowledged[0]);
    for path in [&*session, "trend", "alerts", ""] {
        let path = format!("/core/{path}");
        let page = server.try_ask("GET", &path, &[], b"").unwrap();
        assert_eq!(page.status, 200, "{path}: {page:?}");
    }
    count_stored(place, &acknowledged, LARGE);

    disk.make_room();
    let answer = send_whole(&server, &large(number)).unwrap();
    answer.expect(201, "stored");
    acknowledged.push(large(number).id);
    count_stored(place, &acknowledged, LARGE);
}

/// Number of connections to these tables once there are some, or none, as `wanted`; at the latest
/// after a fifth of a second. The server waits, because each psql costs as much as a step of the test.
fn is_connected(place: &StorePlace, wanted: bool) -> i64 {
    let count = "SELECT count(*) FROM pg_stat_activity
        WHERE application_name = current_schema()::text";
    place.number(&format!(
        "DO $$ BEGIN FOR attempt IN 1..100 LOOP
            PERFORM pg_stat_clear_snapshot();
            EXIT WHEN (({count}) > 0) = {wanted};
            PERFORM pg_sleep(0.002);
        END LOOP; END $$; {count}"
    ))
}

/// Tables that are created by a program that is killed meanwhile all exist, or none does.
#[test]
fn tables_on_a_server_are_made_as_a_whole_or_not_at_all() {
    let tables = "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()";
    let project = TempProject::new();
    let Some(place) = StorePlace::server() else {
        return;
    };
    drop(place.open());
    let all = place.number(tables);
    assert!(all > 10, "{all}");
    let (mut none, mut whole) = (0, 0);
    for step in 0..10 {
        let Some(place) = StorePlace::server() else {
            return;
        };
        let db = place.path();
        let mut command = project.command(&["serve", "project", "add", "core", "--db"]);
        let mut child = command
            .arg(&db)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        // Its connection shows that it has started; from there on, any moment will do.
        while is_connected(&place, true) == 0 && child.try_wait().unwrap().is_none() {}
        std::thread::sleep(Duration::from_millis(2 * step));
        let _ = child.kill();
        child.wait().unwrap();
        // The database may still be executing the last statement.
        while is_connected(&place, false) > 0 {}
        match place.number(tables) {
            0 => none += 1,
            found if found == all => whole += 1,
            found => panic!("{found} tables of {all}"),
        }
        drop(place.open());
        assert_eq!(place.number(tables), all);
    }
    eprintln!("killed 10 times: {none} times there was no table, {whole} times all {all}");
}

/// Files and sockets that a process has open.
fn open_files(dashboard: &TestDashboard) -> usize {
    let folder = format!("/proc/{}/fd", dashboard.pid());
    std::fs::read_dir(folder).unwrap().count()
}

/// 50 at once; more with `SPEEDWELL_VIEWERS=500`.
fn viewers_that_vanish_or_never_read_leave_nothing(place: &StorePlace) {
    let wanted = std::env::var("SPEEDWELL_VIEWERS");
    let wanted: usize = wanted.map_or(50, |wanted| wanted.parse().unwrap());
    let project = TempProject::new().storing_in(place);
    project.run(&["serve", "token", "add", "t", "--scope", "read"]).expect_status(0);
    let public = project.run(&["serve", "project", "add", "open", "--public"]);
    public.expect_status(0);
    // Connections of a trusted proxy have no limit of their own.
    let dashboard = TestDashboard::with(&project, &super::access::PROXIED);
    let watch =
        || -> TcpStream { dashboard.send("GET", "/open/sessions/any/events", "perf.example") };
    let first = |viewer: TcpStream| {
        let mut read = BufReader::new(viewer);
        assert_eq!(next_event(&mut (&mut read).lines()).0, "progress");
        read.into_inner()
    };
    // This one never reads, and stays open all the time.
    let silent = watch();
    drop(first(watch()));
    let settled = |most: usize| {
        let begun = Instant::now();
        while open_files(&dashboard) > most {
            assert!(begun.elapsed() < Duration::from_secs(60), "{} files", open_files(&dashboard));
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let before = open_files(&dashboard);
    let mut most = 0;
    for _ in 0..3 {
        let viewers: Vec<TcpStream> = (0..wanted).map(|_| first(watch())).collect();
        most = most.max(open_files(&dashboard));
        drop(viewers);
        // Connections to the store are opened on demand, and stay open.
        settled(before + wanted / 3);
    }
    assert!(most >= wanted, "{most} files, {before} before");
    let page = dashboard.ask("GET", "/open/sessions", "perf.example");
    page.expect(200, &["</html>"]);
    drop(silent);
    let after = open_files(&dashboard);
    eprintln!("3 times {wanted} viewers: {before} files before, {most} meanwhile, {after} after");
    dashboard.signal(rustix::process::Signal::TERM);
    assert_eq!(dashboard.wait(), Some(0));
}
