//! The pages of running measurements and of machines, and the explanations of terms.

use super::back_ends::{StorePlace, on_both};
use super::browser::{BrowserPage, ScreenSize};
use super::dashboard::TestDashboard;
use super::project::TempProject;
use super::serve::{begin_watched, measure};
use serde_json::json;
use speedwell_analysis as analysis;
use speedwell_fixtures::FakeSession;
use speedwell_model::stored::LoadProgress;
use speedwell_model::{SessionEvent, SessionObserver, SessionState};
use speedwell_store::Store;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

on_both! {
    a_machine_lists_changed_settings_and_series_that_became_noisier
    a_live_page_has_estimates_and_no_verdicts
}

fn a_machine_lists_changed_settings_and_series_that_became_noisier(place: &StorePlace) {
    const DAY_MS: i64 = 86_400_000;
    let project = TempProject::new().storing_in(place);
    let mut store = place.open();
    for day in 0..16 {
        let mut session = FakeSession::with_fixed_blocks(&["default"], 1)
            .add_case("g/fill n=1", |_, _| 100.0)
            .build();
        session.id = format!("s-{day}");
        session.state = SessionState::Complete;
        session.started_unix_ms = 1_767_225_600_000 + day * DAY_MS;
        session.environment.kernel = Some(if day < 8 { "6.1" } else { "6.8" }.to_owned());
        let number = store.insert_session(&session).unwrap();
        let mut points = analysis::session_points(&session);
        points.environment_facts.push(("cpu pressure".to_owned(), format!("{day}%")));
        let spread = if day < 11 { 0.01 + day as f64 / 10_000.0 } else { 0.05 };
        points.points[0].point.spread = Some(spread);
        store.store_points(number, &points).unwrap();
    }
    let dashboard = TestDashboard::of(&project);
    let machines = format!("/{}/machines/1", dashboard.project());
    let found = dashboard.get(&format!("{machines}.json")).expect(200, &[]).json();
    let changes = json!([{"session": 9, "name": "kernel", "before": "6.1", "after": "6.8"}]);
    assert_eq!(found["environment_facts"], changes, "load is no change");
    let noisy = found["noisy_series"].as_array().unwrap();
    assert_eq!(noisy.len(), 1);
    assert_eq!((&noisy[0]["case"], &noisy[0]["after"]), (&json!("g/fill n=1"), &json!(0.05)));
    dashboard
        .get(&machines)
        .expect(200, &["Load by other work", "<svg", "trend?case=g%2Ffill%20n%3D1&amp;metric="]);
}

fn a_live_page_has_estimates_and_no_verdicts(place: &StorePlace) {
    let project = TempProject::new().storing_in(place);
    let mut store = place.open();
    let _recorder = begin_watched(&mut store, 48);
    let dashboard = TestDashboard::of(&project);
    let live = format!("/{}/sessions/watched/live", dashboard.project());
    let found = dashboard.get(&format!("{live}.json")).expect(200, &[]).json();
    let rows = found["estimates"].as_array().unwrap();
    assert_eq!(rows.len(), 6, "three cases, two variants");
    for row in rows {
        let figure = |key: &str| row[key].as_f64().unwrap();
        assert!(figure("median_low") < figure("median"), "{row}");
        assert!(figure("median") < figure("median_high"), "{row}");
        assert_eq!((&row["runs"], &row["verdict"]), (&json!(8), &json!(null)));
    }
    // The old variant of the first case ran in the slots 0, 6 ... 42, whose values are 0.5 more.
    assert_eq!(rows[0]["median"], json!(21.5));
    let page = dashboard.get(&live).expect(
        200,
        &["<title>48 runs done – session @1", "<svg", "?every=5", "id=\"term-interval\""],
    );
    for word in ["better", "worse", "faster", "slower"] {
        assert!(!page.body.contains(&format!("{word}</")), "{word}: {}", page.body);
    }
}

/// The masthead, the charts and the tables are changed in place: they keep focus, order and size.
#[test]
fn a_live_page_grows_in_place() {
    let place = StorePlace::file();
    let project = TempProject::new().storing_in(&place);
    let mut store = place.open();
    let mut recorder = begin_watched(&mut store, 6);
    let dashboard = TestDashboard::of(&project);
    let (own, name) = (format!("http://{}", dashboard.address), dashboard.project());
    let address = format!("{own}/{name}/sessions/watched/live");
    let Some(mut page) = BrowserPage::at(&address, ScreenSize::default()) else {
        return;
    };
    measure(&mut recorder, 6);
    page.wait_for_text("measuring: 7 runs done");
    page.evaluate_script(
        "for (const part of document.querySelectorAll('h1, figure.chart svg, tr.row')) part.kept = true; \
         document.querySelector('button[aria-label=\"Sort by runs\"]').click(); undefined",
    );
    let marks = "document.querySelector('figure.chart svg').querySelectorAll('*').length";
    let before = page.evaluate_script(marks).as_u64().unwrap();
    (7..13).for_each(|slot| measure(&mut recorder, slot));
    page.wait_until("document.querySelector('h1').textContent === 'measuring: 13 runs done'");
    page.wait_until("document.title.startsWith('13 runs done – session @1')");
    assert!(page.evaluate_script(marks).as_u64().unwrap() > before, "the chart has grown");
    let kept =
        "[...document.querySelectorAll('h1, figure.chart svg, tr.row')].every(part => part.kept)";
    assert_eq!(page.evaluate_script(kept), true);
    let order =
        "document.querySelector('th[data-k=\"runs\"][aria-sort]').getAttribute('aria-sort')";
    assert_eq!(page.evaluate_script(order), "descending");
    (13..48).for_each(|slot| measure(&mut recorder, slot));
    page.wait_until("document.querySelector('a.term') !== null");
    terms_are_explained(&mut page);
    recorder.observe(&SessionEvent::Finished { interrupted: false }).unwrap();
    drop(recorder);
    page.wait_for_path(&format!("/{name}/sessions/watched"));
    a_load_has_a_progress_bar(&mut page, &mut store, &format!("{own}/{name}/live"));
    assert_eq!(page.complaints, [] as [&str; 0]);
}

/// A term is explained to a keyboard and to a finger.
fn terms_are_explained(page: &mut BrowserPage) {
    let tip = "(() => { const tip = document.querySelector('.definition'); \
               return tip.hidden ? '' : tip.textContent; })()";
    assert_eq!(page.evaluate_script(tip), "");
    page.evaluate_script("document.querySelector('a.term').focus()");
    let definition = page.evaluate_script("document.getElementById('term-interval').textContent");
    assert!(definition.as_str().unwrap().starts_with("The range"), "{definition}");
    page.wait_until(&format!("{tip} === {definition}"));
    page.press("Escape", "", 27);
    page.wait_until(&format!("{tip} === ''"));
    page.click("a.term");
    page.wait_until(&format!("{tip} !== ''"));
    assert_eq!(page.evaluate_script("location.hash"), "", "the definition is beside the term");
}

fn a_load_has_a_progress_bar(page: &mut BrowserPage, store: &mut Store, address: &str) {
    let mut progress = LoadProgress {
        command: ["speedwell", "load", "http://localhost/"].map(str::to_owned).into(),
        elapsed_ms: 12_000,
        planned_ms: Some(30_000),
        ..LoadProgress::default()
    };
    let number = store.begin_load(&progress, 1_000).unwrap();
    page.navigate_to(address);
    page.wait_until("document.querySelector('progress')?.value === 0.4");
    page.wait_until("document.title.startsWith('40% – load')");
    let end = "/^Ends about \\d+:\\d+/.test(document.querySelector('.ends').textContent)";
    assert_eq!(page.evaluate_script(end), true);
    page.evaluate_script("document.querySelector('progress').kept = true");
    progress.elapsed_ms = 27_000;
    store.update_load(number, &progress, 2_000).unwrap();
    page.wait_until("document.querySelector('progress').value === 0.9");
    assert_eq!(page.evaluate_script("document.querySelector('progress').kept"), true);
}

/// No browser is started: standard output is not a terminal.
#[test]
fn a_run_with_a_dashboard_prints_the_address_of_its_session() {
    let project = TempProject::new()
        .with("g/slow.fake", "case n=1\n* sleep:400\n")
        .with_program("browser", "#!/bin/sh\ntouch opened\n");
    let mut command = project.command(&["run", "g", "-r", "3", "--dashboard"]);
    command.env("DISPLAY", ":0").env("BROWSER", project.path("browser")).env_remove("CI");
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let said: Vec<String> = lines.collect();
    assert!(child.wait().unwrap().success(), "{said:#?}");
    let watched: Vec<&String> = said.iter().filter(|line| line.contains("watch the")).collect();
    let [line] = watched[..] else { panic!("{said:#?}") };
    let (_, address) = line.split_once("http://").unwrap();
    assert!(address.contains("/sessions/") && address.ends_with("/live"), "{line}");
    assert!(!said.iter().any(|line| line.contains("Cannot open")), "{said:#?}");
    assert!(!project.path("opened").exists(), "the browser was started");
}
