//! Lists in a browser: changes are judged and reopened in their rows, sessions show their results,
//! pull requests show their comments, and the feed is well-formed.

use super::back_ends::StorePlace;
use super::browser::{BrowserPage, ScreenSize};
use super::dashboard::TestDashboard;
use super::project::TempProject;
use super::serve::long_project;
use serde_json::json;
use speedwell_fixtures::FakeSession;
use speedwell_model::{CodeOrigin, Session, SessionState};
use speedwell_store::{ForgeSetting, PostedComment, Store};

/// Presses a button in the first row with a form, and waits for the page after it.
fn judge(page: &mut BrowserPage, value: &str, note: &str) {
    let loads = page.loads;
    let note = json!(note);
    page.evaluate_script(&format!(
        "(() => {{ const form = document.querySelector('.row-form'); form.elements.note.value = {note}; \
         form.querySelector('button[value={value}]').click(); }})()"
    ));
    page.wait_for_load(loads);
}

fn address(page: &mut BrowserPage) -> String {
    let address = page.evaluate_script("location.pathname + location.search");
    address.as_str().unwrap().to_owned()
}

fn text_of(page: &mut BrowserPage, selector: &str) -> String {
    let selector = json!(selector);
    let script =
        format!("[...document.querySelectorAll({selector})].map(e => e.textContent).join('|')");
    page.evaluate_script(&script).as_str().unwrap().to_owned()
}

#[test]
fn a_change_is_judged_and_reopened_in_its_row_with_and_without_scripts() {
    let place = StorePlace::file();
    let project = long_project(120, &place);
    let dashboard = TestDashboard::of(&project);
    let name = dashboard.project();
    let own = format!("http://{}", dashboard.address);
    let screen = ScreenSize { width: 390, ..ScreenSize::default() };
    let Some(mut page) = BrowserPage::at(&format!("{own}{}", dashboard.key), screen) else {
        return;
    };
    for scripts in [true, false] {
        page.scripts(scripts);
        page.navigate_to(&format!("{own}/{name}/changes"));
        page.expect_fit(screen.width, "the list of changes");
        assert_eq!(text_of(&mut page, ".links a"), "open 1|suspected 0|judged 0");
        assert_eq!(text_of(&mut page, ".row-form button"), "accept|wrong|fixed");
        assert!(text_of(&mut page, ".bar nav a").contains("Changes 1"));
        judge(&mut page, "accepted", "worth it");
        assert_eq!(address(&mut page), format!("/{name}/changes"));
        assert_eq!(text_of(&mut page, ".links a"), "open 0|suspected 0|judged 1");
        let judged = format!("/{name}/changes?state=judged");
        page.navigate_to(&format!("{own}{judged}"));
        let row = text_of(&mut page, "tr.row");
        assert!(row.contains("accepted: worth it") && row.contains("start key"), "{row}");
        assert_eq!(text_of(&mut page, ".row-form button"), "reopen");
        judge(&mut page, "open", "");
        assert_eq!(address(&mut page), judged, "the page with the form");
        assert_eq!(text_of(&mut page, "h1"), "0 judged changes");
    }
    page.scripts(true);
    feed_is_well_formed(&mut page, &own, &name);
    assert_eq!(page.complaints, [] as [&str; 0]);
}

/// The page names the feed, and the feed has the change.
fn feed_is_well_formed(page: &mut BrowserPage, own: &str, name: &str) {
    page.navigate_to(&format!("{own}/{name}/sessions"));
    let read = page.evaluate_script(
        "fetch(document.querySelector('link[type=\"application/atom+xml\"]').href) \
         .then(answer => answer.text()).then(text => { \
         const feed = new DOMParser().parseFromString(text, 'application/xml'); \
         const texts = name => [...feed.querySelectorAll('entry > ' + name)].map(e => e.textContent); \
         return {errors: feed.querySelectorAll('parsererror').length, titles: texts('title'), \
                 ids: texts('id'), updated: texts('updated'), \
                 links: [...feed.querySelectorAll('entry > link')].map(e => e.getAttribute('href'))}; })",
    );
    assert_eq!(read["errors"], 0, "{read}");
    let title = read["titles"][0].as_str().unwrap();
    assert!(title.starts_with("g/parse.fake n=1, ") && title.contains(": worse"), "{read}");
    assert_eq!(read["titles"].as_array().unwrap().len(), 1, "{read}");
    let id = read["ids"][0].as_str().unwrap();
    assert!(id.starts_with(&format!("{own}/{name}/changes#change-")), "{read}");
    assert_eq!(read["links"][0], format!("{own}/{name}/trend?case=g%2Fparse.fake%20n%3D1"));
    // The session of day 60 was the first at the new level.
    assert!(read["updated"][0].as_str().unwrap().starts_with("2020-11-1"), "{read}");
}

/// Stores two sessions of a comparison, of which the second belongs to a pull request.
fn fill_store(store: &mut Store) {
    let setting = ForgeSetting {
        repository: "gitea:https://forge.example/o/n".into(),
        token_file: "/nowhere".into(),
        check: "compare".into(),
        options: Vec::new(),
    };
    store.set_forge(Some(&setting)).unwrap();
    for (number, pull) in [(1, None), (2, Some("7"))] {
        let factor = |variant: &str| if variant == "new" { 1.5 } else { 1.0 };
        let mut session: Session = FakeSession::with_fixed_blocks(&["old", "new"], 8)
            .lower_is_better()
            .add_case("g/fill n=1", |variant, run| factor(variant) * (1e3 + f64::from(run)))
            .add_case("g/same n=1", |_, run| 1e3 + f64::from(run))
            .build();
        session.id = format!("s-{number}");
        session.state = SessionState::Complete;
        session.started_unix_ms = 1_767_225_600_000;
        session.origin = Some(CodeOrigin {
            revision: format!("{number:040x}"),
            subject: Some(format!("<b>change {number}")),
            branch: Some("main".into()),
            pull: pull.map(str::to_owned),
            ..CodeOrigin::default()
        });
        store.insert_session(&session).unwrap();
    }
    let comment = PostedComment {
        forge: "gitea".into(),
        repository: "o/n".into(),
        pull: "7".into(),
        revision: format!("{:040x}", 2),
        posted_unix_ms: 1_767_225_600_000,
        text: "**gate failed: 1 worse**\n\n| case | change |\n| :--- | ---: |\n| `a\\|b` | &lt;img> |\n"
            .into(),
    };
    store.store_comment(&comment).unwrap();
}

#[test]
fn sessions_show_their_results_and_pull_requests_their_comments() {
    let place = StorePlace::file();
    let project = TempProject::new().storing_in(&place);
    fill_store(&mut place.open());
    let dashboard = TestDashboard::of(&project);
    let name = dashboard.project();
    let own = format!("http://{}/{name}", dashboard.address);
    let Some(mut page) = BrowserPage::at(&format!("{own}/sessions"), ScreenSize::default()) else {
        return;
    };
    let results = text_of(&mut page, "td[data-l=result]");
    assert_eq!(results.matches("▼ g/fill n=1 +50").count(), 2, "{results}");
    assert_eq!(text_of(&mut page, "td[data-l=commit]"), "<b>change 2|<b>change 1");
    let dates =
        "[...document.querySelectorAll('td time')].map(e => e.dateTime.slice(0, 16)).join('|')";
    assert_eq!(page.evaluate_script(dates), "2026-01-01T00:00|2026-01-01T00:00");
    let shown = "document.querySelector('.filters [name=branch]').getClientRects().length";
    assert_eq!(page.evaluate_script(shown), 1, "the filters are not folded");

    page.navigate_to(&format!("{own}/pulls"));
    let row = text_of(&mut page, "tr.row");
    assert!(row.contains("#7") && row.contains("gate failed: 1 worse"), "{row}");
    page.click_and_load("tr.row a");
    assert_eq!(address(&mut page), format!("/{name}/pulls/7"));
    assert!(text_of(&mut page, "tr.row").contains("a|b"), "the comment's table is a table");
    assert!(text_of(&mut page, "td").contains("<img>"), "as text");
    let forge = "document.querySelector('.links a').href";
    assert_eq!(page.evaluate_script(forge), "https://forge.example/o/n/pulls/7");
    assert_eq!(page.complaints, [] as [&str; 0]);
}
