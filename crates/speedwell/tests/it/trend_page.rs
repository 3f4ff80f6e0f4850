//! The trend page: part of a series by machine and time, and very many points.

use super::back_ends::{StorePlace, on_both};
use super::dashboard::TestDashboard;
use super::project::TempProject;
use speedwell_analysis as analysis;
use speedwell_fixtures::FakeSession;
use speedwell_model::{CodeOrigin, Session, SessionState};
use speedwell_store::Store;

on_both! {
    part_of_a_trend_is_chosen_by_machine_and_time
    programs_get_series_points_and_what_a_gate_says
}

const DAY_MS: i64 = 86_400_000;
/// 1 January 2026.
const BEGIN_MS: i64 = 1_767_225_600_000;

/// A session of the revision of a day, on one of two machines.
fn insert(store: &mut Store, day: i64, value: f64) {
    let mut session: Session = FakeSession::with_fixed_blocks(&["default"], 1)
        .add_case("g/fill n=1", |_, _| value)
        .build();
    session.id = format!("s-{day}");
    session.state = SessionState::Complete;
    session.started_unix_ms = BEGIN_MS + day * DAY_MS;
    session.environment.machine = Some(["lab", "attic"][day as usize % 2].to_owned());
    session.origin = Some(CodeOrigin {
        revision: format!("{day:040x}"),
        parents: vec![format!("{:040x}", day - 1)],
        branch: Some("main".into()),
        committed_unix_ms: Some(BEGIN_MS + day * DAY_MS),
        author: Some("Ada".into()),
        ..CodeOrigin::default()
    });
    let number = store.insert_session(&session).unwrap();
    store.store_points(number, &analysis::session_points(&session)).unwrap();
}

fn part_of_a_trend_is_chosen_by_machine_and_time(place: &StorePlace) {
    let project = TempProject::new().storing_in(place);
    let mut store = place.open();
    for day in 0..12 {
        insert(&mut store, day, 100.0 + day as f64);
    }
    let dashboard = TestDashboard::of(&project);
    let name = dashboard.project();
    let points = |query: &str| -> Vec<f64> {
        let page = dashboard.get(&format!("/{name}/trend.json?case=g%2Ffill%20n%3D1{query}"));
        let page = page.expect(200, &[]).json();
        let points = page["points"].as_array().cloned().unwrap_or_default();
        let points = points.iter();
        points.map(|point| point["value"].as_f64().unwrap()).collect()
    };
    assert_eq!(points("").len(), 12);
    assert_eq!(points("&from=2026-01-03&to=2026-01-05"), [102.0, 103.0, 104.0]);
    assert_eq!(points("&from=2026-01-11T12:00"), [111.0]);
    assert_eq!(points("&to=2025-12-31"), [] as [f64; 0]);
    let lab = store.list_machines().unwrap();
    let lab = lab.iter().find(|machine| machine.machine.title() == "lab").unwrap();
    let on_lab = points(&format!("&machine={}&from=2026-01-07", lab.number));
    assert_eq!(on_lab, [106.0, 108.0, 110.0]);
    for (query, status) in [
        ("from=yesterday", 400),
        ("from=2026-01-05&to=2026-01-03", 400),
        ("machine=99", 404),
        ("machine=x", 400),
    ] {
        let reply = dashboard.get(&format!("/{name}/trend?{query}"));
        assert_eq!(reply.status, status, "{query}: {reply:?}");
    }
    let page = dashboard.get(&format!("/{name}/trend?from=2026-01-03"));
    page.expect(200, &["from: 2026-01-03", "name=\"machine\"", "&#10;Ada, 2026-01-03 00:00&#10;"]);
}

fn programs_get_series_points_and_what_a_gate_says(place: &StorePlace) {
    let project = TempProject::new().storing_in(place);
    let mut store = place.open();
    for day in 0..5 {
        insert(&mut store, day, 100.0 + day as f64);
    }
    // Two sessions with enough runs for a verdict.
    for (id, factor) in [("before", 1.0), ("after", 0.7)] {
        let mut session = FakeSession::with_fixed_blocks(&["default"], 8)
            .add_noisy_case("g/copy n=1", 0.01, move |_| factor)
            .build();
        session.id = id.to_owned();
        session.state = SessionState::Complete;
        store.insert_session(&session).unwrap();
    }
    let dashboard = TestDashboard::of(&project);
    let name = dashboard.project();
    let ask = |path: &str| dashboard.get(&format!("/api/v1/{name}/{path}"));
    let series = ask("series").expect(200, &[]).json();
    let fill = &series["series"][0];
    assert_eq!(fill["case"], "g/fill n=1");
    let newest = ask(&format!("points?series={}&most=3", fill["number"]));
    let newest = newest.expect(200, &[]).json();
    let values: Vec<f64> = (newest["points"].as_array().unwrap().iter())
        .map(|point| point["value"].as_f64().unwrap())
        .collect();
    assert_eq!((values, &newest["more"]), (vec![102.0, 103.0, 104.0], &true.into()));
    let gate = ask("gate?base=@6&with=@7").expect(200, &[]).json();
    assert_eq!(gate["status"], 1, "{gate}");
    assert!(gate["words"].as_str().unwrap().contains("gate failed: 1 worse"), "{gate}");
    let other = ask("gate?base=@7&with=@6").expect(200, &[]).json();
    assert_eq!(other["status"], 0, "{other}");
    for (path, status) in [
        ("points", 400),
        ("points?series=1&most=0", 400),
        ("gate?base=@6", 400),
        ("gate?base=@6&with=@99", 404),
        ("gate?base=@6&with=@7&fail-on=sometimes", 400),
        ("gate?base=@1&with=@7", 400),
    ] {
        assert_eq!(ask(path).status, status, "{path}");
    }
}

/// What is drawn and listed is limited, and omissions are reported.
#[test]
fn very_many_points_are_drawn_as_fewer_marks_and_listed_in_part() {
    let place = StorePlace::file();
    let project = TempProject::new().storing_in(&place);
    let mut store = place.open();
    insert(&mut store, 0, 100.0);
    // Points as after years of use; their sessions do not matter here.
    place.change(
        "INSERT INTO session (id, started_unix_ms, state, command, design, variants, environment)
         WITH RECURSIVE n(at) AS (SELECT 1 UNION ALL SELECT at + 1 FROM n WHERE at < 2500)
         SELECT 'x' || at, 1767225600000 + at, 'complete', command, design, variants, environment
         FROM session, n WHERE number = 1",
    );
    place.change(
        "INSERT INTO point (series, at_unix_ms, session, seq, revision, machine, value, low, high,
                            runs, spread, kind, dirty, benchmark_digest)
         SELECT series, session.started_unix_ms, session.number, 0, revision, machine,
                100 + session.number % 7, low, high, runs, spread, kind, dirty, benchmark_digest
         FROM point, session WHERE session.number > 1",
    );
    place.change(
        "INSERT INTO session_machine (session, machine, environment_facts)
         SELECT session.number, machine, environment_facts FROM session, session_machine
         WHERE session.number > 1",
    );
    let dashboard = TestDashboard::of(&project);
    let name = dashboard.project();
    let page = dashboard.get(&format!("/{name}/trend?case=g%2Ffill%20n%3D1")).expect(
        200,
        &["2,501 points: each mark is the median of up to 7", "The newest 100 of 2501 points"],
    );
    assert!(page.body.len() < 250_000, "{}", page.body.len());
    let whole = dashboard.get(&format!("/{name}/trend.json")).json();
    assert_eq!(whole["points"].as_array().unwrap().len(), 2_501);
}
