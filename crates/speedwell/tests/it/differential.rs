//! The same sessions in a file and on a server: every query gives the same result, byte by byte.

use crate::arbitrary;
use crate::back_ends::StorePlace;
use crate::dashboard::TestDashboard;
use crate::project::TempProject;
use speedwell_analysis as analysis;
use speedwell_formats::json_lines;
use speedwell_model::*;
use speedwell_store::{PlacedRevision, SessionFilter, Store, StoredPoint};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of sessions; override with `SPEEDWELL_DIFFERENTIAL=2000`.
const SESSIONS: u64 = 200;

/// Queries both stores, compares, and returns the result.
fn query_both<T: PartialEq + std::fmt::Debug>(
    [file, server]: &mut [Store; 2],
    what: &str,
    mut ask: impl FnMut(&mut Store) -> T,
) -> T {
    let (of_file, of_server) = (ask(file), ask(server));
    assert_eq!(of_server, of_file, "{what}");
    of_file
}

/// Two empty stores, and the places that hold them.
fn stores() -> Option<([Store; 2], [StorePlace; 2])> {
    let places = [StorePlace::file(), StorePlace::server()?];
    Some((places.each_ref().map(StorePlace::open), places))
}

/// Lists sessions by every filter.
fn lists(stores: &mut [Store; 2]) {
    let all = SessionFilter::default();
    let of_branch =
        |name: &str| SessionFilter { branch: Some(name.to_owned()), ..SessionFilter::default() };
    let began = stores[0].list_sessions(&all).unwrap()[3].started_unix_ms;
    let later = SessionFilter { since_unix_ms: Some(began), ..SessionFilter::default() };
    let numbered = SessionFilter { numbers: Some(vec![2, 5, 9]), ..SessionFilter::default() };
    for filter in [all, of_branch("fix/a b"), of_branch("none"), later, numbered] {
        query_both(stores, "list", |store| store.list_sessions(&filter).unwrap());
        query_both(stores, "count", |store| store.count_sessions(&filter).unwrap());
        for page in 0..4 {
            let read = |store: &mut Store| store.session_page(&filter, 50, page).unwrap();
            query_both(stores, &format!("page {page}"), read);
        }
    }
    query_both(stores, "sessions with a case", |store| {
        store.numbers_with_case(|id| id.contains('1')).unwrap()
    });
    query_both(stores, "revisions of sessions", |store| store.revisions_of_sessions().unwrap());
}

#[test]
fn both_stores_return_the_same_sessions_lists_and_exports() {
    let Some((mut stores, _places)) = stores() else {
        return;
    };
    let wanted = std::env::var("SPEEDWELL_DIFFERENTIAL");
    let sessions = wanted.map_or(SESSIONS, |number| number.parse().unwrap());
    for seed in 0..sessions {
        let session = arbitrary::arbitrary_session(seed);
        let number =
            query_both(&mut stores, "number", |store| store.insert_session(&session).unwrap());
        if seed % 7 == 3 {
            query_both(&mut stores, "deleted", |store| store.delete_untracked(number).unwrap());
            continue;
        }
        let read = |store: &mut Store| store.load_session(number).unwrap();
        let back = query_both(&mut stores, &format!("session of seed {seed}"), read);
        assert_eq!(back.runs, session.runs, "seed {seed}");
        query_both(&mut stores, &format!("export of seed {seed}"), |store| {
            let mut lines = Vec::new();
            json_lines::write(&read(store), &mut lines).unwrap();
            lines
        });
        let slots = |store: &mut Store| store.finished_slots(number).unwrap();
        query_both(&mut stores, "slots", slots);
    }
    lists(&mut stores);
    query_both(&mut stores, "revisions", |store| store.measured_revisions().unwrap());
    for reference in ["@latest", "@prev", "@4", "@9", "@tag-0-0", "@tug-0-0", "@branch:fix/a b"] {
        let reference = reference.parse().unwrap();
        let told = query_both(&mut stores, &format!("{reference}"), |store| {
            // Only the name of the place differs.
            let found = store.resolve_reference(&reference).map_err(|error| error.to_string());
            found.map_err(|words| words.split(" holds ").last().unwrap().to_owned())
        });
        // The fourth was deleted.
        let is_unknown = ["@4", "@tug-0-0"].contains(&reference.to_string().as_str());
        assert_eq!(told.is_err(), is_unknown, "{told:?}");
    }
}

/// Pages of a project in JSON.
const PAGES: [&str; 21] = [
    "index.json",
    "sessions.json",
    "sessions.json?branch=main&before=20",
    "sessions.json?tag=kept",
    "sessions.json?variant=variant+0&state=complete",
    "@12.json",
    "@30.jsonl",
    "benchmarks.json",
    "trend.json",
    "compare.json?base=@3&with=@21",
    "compare.json?base=@21",
    "revisions/c9.json",
    "branches/main.json",
    "machines.json",
    "machines/1.json",
    "calibration.json",
    "alerts.json",
    "live.json",
    "search.json?q=utf",
    "search.json?q=c1",
    "nothing.json",
];

/// Compares every page in JSON.
#[test]
fn every_page_is_the_same_for_both_stores() {
    pages_of(30, 30);
}

/// Compares every page in JSON with 2,000 sessions, including the pages of each.
///
/// `cargo test -p speedwell --features postgres --test it -- --ignored every_page_of_two_thousand_sessions`
#[test]
#[ignore = "three minutes"]
fn every_page_of_two_thousand_sessions_is_the_same_for_both_stores() {
    pages_of(2000, 1);
}

/// Number of clients that request pages at the same time.
const CLIENTS: usize = 4;

/// Lists show fifty sessions: each session is in two of them.
const LISTED: usize = 25;

/// Compares the pages of a project with this many sessions, and those of every `step`th session.
fn pages_of(sessions: u32, step: usize) {
    let Some((mut stores, places)) = stores() else {
        return;
    };
    query_both_parallel(&mut stores, "numbers", |store| {
        let numbers = (0..sessions).map(|commit| insert_commit(store, commit));
        numbers.collect::<Vec<i64>>()
    });
    // A server would summarize them in the background, some at a time.
    query_both_parallel(&mut stores, "points", |store| {
        speedwell::project_history::summarize_sessions(store, usize::MAX).unwrap()
    });
    let served = places.each_ref().map(|place| {
        let project = TempProject::new().storing_in(place);
        let dashboard = TestDashboard::of(&project);
        let name = dashboard.project();
        (project, dashboard, name)
    });
    let case = served[0].1.get_when_ready(&format!("/{}/trend.json", served[0].2));
    let case = case.json()["series"][0]["case"].as_str().unwrap_or("utf8").to_owned();
    let case = case.replace(' ', "+");
    let pages = PAGES.into_iter().map(str::to_owned);
    let pages: Vec<String> = pages
        .chain([format!("trend.json?case={case}&axis=time")])
        .chain(lists_of(sessions, step))
        .chain((0..sessions).step_by(step).flat_map(own_pages))
        .collect();
    // Each client takes the next page.
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                while let Some(page) = pages.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let [of_file, of_server] = served
                        .each_ref()
                        .map(|(_, dashboard, name)| page_text(dashboard, name, page));
                    assert_eq!(of_server, of_file, "{page}");
                    assert_ne!(of_file.0, 500, "{page}: {}", of_file.1);
                }
            });
        }
    });
}

/// Queries both stores at the same time, compares, and returns the result.
fn query_both_parallel<T: PartialEq + std::fmt::Debug + Send>(
    [file, server]: &mut [Store; 2],
    what: &str,
    ask: impl Fn(&mut Store) -> T + Sync,
) -> T {
    let (of_file, of_server) = std::thread::scope(|scope| {
        let of_server = scope.spawn(|| ask(server));
        (ask(file), of_server.join().unwrap())
    });
    assert_eq!(of_server, of_file, "{what}");
    of_file
}

/// Adds the session of a commit; returns its number.
fn insert_commit(store: &mut Store, commit: u32) -> i64 {
    let mut session = session_of(commit);
    // A random load is not a valid one that a page could show.
    session.runs.iter_mut().for_each(|run| run.load = None);
    let number = store.insert_session(&session).unwrap();
    if commit == 7 {
        store.tag_session(number, "kept").unwrap();
    }
    number
}

/// Lists that include every session; with a step, some of them.
fn lists_of(sessions: u32, step: usize) -> impl Iterator<Item = String> {
    let numbers = (1..=sessions).step_by(step.max(LISTED));
    numbers.map(|number| format!("sessions.json?before={number}"))
}

/// The pages of a commit's session: by its id, and compared with the previous one.
fn own_pages(commit: u32) -> [String; 3] {
    let id = session_of(commit).id;
    let (base, number) = (commit.max(1), commit + 1);
    [
        format!("sessions/{id}.json"),
        format!("sessions/{id}.jsonl"),
        format!("compare.json?base=@{base}&with=@{number}"),
    ]
}

/// The status and text of a page, without the project's name.
fn page_text(dashboard: &TestDashboard, name: &str, page: &str) -> (u16, String) {
    let reply = dashboard.get_when_ready(&format!("/{name}/{page}"));
    let names = [
        format!("/{name}/"),
        format!("\"{name}\""),
        format!(">{name}<"),
        format!("{name}:"),
        format!("{name} /"),
    ];
    let body = (names.iter()).fold(reply.body, |body, name| body.replace(name, "PROJECT"));
    (reply.status, body)
}

/// A session of a commit, with figures that fall from the 20th on.
fn session_of(commit: u32) -> Session {
    let mut session = arbitrary::arbitrary_session(u64::from(commit));
    session.state = SessionState::Complete;
    session.origin = Some(CodeOrigin {
        revision: format!("c{commit}"),
        tree: Some(format!("tree of {commit}")),
        branch: Some("main".to_owned()),
        committed_unix_ms: Some(i64::from(commit) * 1000),
        ..CodeOrigin::default()
    });
    // Random cases rarely coincide; this one is in every session, so that it has a trend.
    session.runs[0].case = Case::new("group/shared", Vec::new()).into();
    for (run, value) in session.runs.iter_mut().zip(1..) {
        // Sums of random figures would be inconsistent.
        (run.usage, run.kernel_stats) = (None, None);
        run.wall_ns = 1_000_000;
        for sample in &mut run.samples {
            sample.value = f64::from(value + commit) / 3.0;
        }
    }
    if commit.is_multiple_of(5) {
        session.design.purpose = SessionPurpose::Backfill;
        session.failures[0].step = SessionStep::Build;
    }
    session
}

/// A point with its revision and its machine.
type PlacedPoint = (StoredPoint, Option<PlacedRevision>, Machine);

/// The points of every series. Numbers of series and revisions depend on the back end, so names
/// replace them.
fn points(store: &mut Store) -> Vec<(String, Vec<PlacedPoint>)> {
    let series = store.list_series().unwrap();
    let points = |number: i64| -> Vec<PlacedPoint> {
        let points = store.load_points(&[number]).unwrap().into_iter().map(|mut found| {
            let revision = found.revision.take();
            let placed = revision.and_then(|number| {
                let placed = store.place_revisions("main", &[number]).unwrap().pop();
                placed.map(|(_, placed)| placed)
            });
            let machine = store.find_machine(found.machine).unwrap();
            (found.series, found.machine) = (0, 0);
            (found, placed, machine)
        });
        points.collect()
    };
    let series = series.into_iter().map(|series| {
        let name = format!("{:?} {}", series.key, series.is_primary);
        (name, points(series.number))
    });
    series.collect()
}

pub fn change(before: &str, after: &str, evidence: f64) -> RecordedChange {
    let ratio = IntervalEstimate { value: 0.92, low: 0.9, high: 1.0 / 3.0 };
    RecordedChange { evidence, ..RecordedChange::suspected(before, after, ratio) }
}

#[test]
fn both_stores_return_the_same_points_lines_and_changes() {
    let Some((mut stores, _places)) = stores() else {
        return;
    };
    for commit in 0..40 {
        let session = session_of(commit);
        query_both(&mut stores, "number", |store| store.insert_session(&session).unwrap());
    }
    let missing =
        query_both(&mut stores, "missing", |store| store.find_sessions_without_points().unwrap());
    assert_eq!(missing.len(), 40);
    for number in missing {
        query_both(&mut stores, "points", |store| {
            let points = analysis::session_points(&store.load_session(number).unwrap());
            store.store_points(number, &points).unwrap();
            store.environment_facts(number).unwrap()
        });
    }
    environment_facts(&mut stores);
    let revision = |commit: u32| Revision {
        id: format!("c{commit}"),
        tree: Some(format!("tree of {commit}")),
        ..Revision::default()
    };
    let line: Vec<Revision> = (0..40).map(revision).collect();
    query_both(&mut stores, "line", |store| {
        for branch in ["main", "Übung", "a b", "B", "_"] {
            store.store_line(branch, 0, &line).unwrap();
        }
        (store.list_lines().unwrap(), store.line_tip("main").unwrap())
    });
    let found = query_both(&mut stores, "points", points);
    assert!(found.iter().any(|(_, points)| points.len() > 2), "{found:?}");
    query_both(&mut stores, "revisions", |store| {
        let numbers: Vec<i64> = (1..=100).collect();
        [Some("main"), None].map(|branch| {
            store.store_measured_order("/order", branch).unwrap();
            let placed = store.place_revisions("/order", &numbers).unwrap().into_iter();
            let positions = placed.map(|(_, placed)| (placed.revision, placed.position));
            positions.collect::<Vec<_>>()
        })
    });
    query_both(&mut stores, "failures", |store| {
        store.line_failures("main").unwrap().of_case("utf8", "variant 0")
    });
    let failed = query_both(&mut stores, "backfills", |store| store.failed_backfills().unwrap());
    assert_eq!(failed.len(), 8);
    query_both(&mut stores, "measured", |store| {
        let machine = store.find_machine(found_machine(store)).unwrap().id;
        let mut measured = store.revisions_measured_on(&machine).unwrap();
        measured.sort();
        measured
    });
    changes(&mut stores);
}

/// The environment facts of all sessions, read at once, equal those read one by one.
fn environment_facts(stores: &mut [Store; 2]) {
    let numbers: Vec<i64> = (1..=50).collect();
    let sets = query_both(stores, "environment facts of all", |store| {
        let mut sets = store.facts_by_sessions(&numbers).unwrap();
        sets.sort_by_key(|(_, sessions)| sessions[0]);
        sets
    });
    let mut seen = 0;
    for (facts, sessions) in &sets {
        seen += sessions.len();
        for session in sessions {
            assert_eq!(stores[0].environment_facts(*session).unwrap(), *facts);
        }
    }
    assert_eq!(seen, 40, "each session is in one set");
}

/// The machine of the first point.
fn found_machine(store: &Store) -> i64 {
    let mut series = store.list_series().unwrap().into_iter();
    let first = series.find_map(|series| store.load_points(&[series.number]).unwrap().pop());
    first.unwrap().machine
}

fn changes(stores: &mut [Store; 2]) {
    let kept = query_both(stores, "kept", |store| {
        let series = store.list_series().unwrap()[0].number;
        let changes = [change("c3", "c4", 5.5), change("c20", "c22", 1e-3)];
        let mut kept = store.replace_changes(series, "main", &changes).unwrap();
        kept[1].state = ChangeState::Confirmed;
        kept[1].confirmed_by = Some(7);
        kept[1].triage = ChangeTriage::Wrong;
        kept[1].note = Some("it's\nnoise".into());
        store.store_confirmation(&kept[1]).unwrap();
        store.store_triage(&kept[1]).unwrap();
        kept.push(change("c30", "c31", 9.0));
        store.replace_changes(series, "main", &kept[1..]).unwrap();
        (
            store.list_changes(&[series], "main").unwrap(),
            store.find_changes_between(series, "c20", "c22").unwrap(),
            store.find_change(2).unwrap().change,
        )
    });
    let numbers: Vec<i64> = kept.0.iter().map(|stored| stored.change.number).collect();
    assert_eq!(numbers, [2, 3], "a number is kept, and never given twice");
    query_both(stores, "names and remarks", |store| {
        store.add_rename("a", "b").unwrap();
        store.add_rename("a", "c").unwrap();
        store.add_rename("d", "a").unwrap();
        let circle = store.add_rename("c", "d").unwrap_err().to_string();
        store.add_note("c3", "compiler").unwrap();
        store.add_note("c3", "löste").unwrap();
        (
            circle,
            store.undo_rename("d").unwrap(),
            store.undo_rename("d").unwrap(),
            store.list_renames().unwrap(),
            store.list_notes().unwrap(),
        )
    });
}
