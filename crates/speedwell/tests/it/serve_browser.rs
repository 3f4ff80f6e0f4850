//! The dashboard in a real browser under attack, and one that stays open while the server restarts.
//! The threat numbers are those of docs/reference/security.md.

use super::back_ends::StorePlace;
use super::browser::{BrowserPage, REBOUND, ScreenSize};
use super::dashboard::TestDashboard;
use super::project::TempProject;
use super::serve::{begin_watched, everything_hostile, long_project, measure, pages, project};
use super::serve_screens::TEXT;
use serde_json::{Value, json};
use speedwell_model::{SessionEvent, SessionObserver};
use std::io::{Read, Write};
use std::net::TcpListener;

/// A foreign server, all of whose pages are empty.
fn other_site() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.read(&mut [0; 4096]);
            let page = "<!doctype html><title>elsewhere</title><p>elsewhere";
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                page.len()
            );
            let _ = stream.write_all((head + page).as_bytes());
        }
    });
    port
}

/// Threat T8: a logged-in user opens a foreign page, which tries everything that a page can.
#[test]
fn a_page_of_another_site_reads_nothing_and_changes_nothing() {
    let place = StorePlace::file();
    let project = long_project(120, &place);
    let dashboard = TestDashboard::of(&project);
    let name = dashboard.project();
    let ours = format!("http://{}", dashboard.address);
    let Some(mut page) =
        BrowserPage::at(&format!("{ours}{}", dashboard.key), ScreenSize::default())
    else {
        return;
    };
    page.navigate_to(&format!("{ours}/{name}/alerts"));
    let form = "document.querySelector('form[aria-label^=\"Judge change\"]')";
    assert_eq!(page.evaluate_script(&format!("{form} !== null")), true, "it is logged in");
    let triaged = || {
        let said = project.run(&["history", "changes", "--format", "json"]);
        said.json()["changes"][0]["triage"].clone()
    };
    let before = triaged();
    // A foreign site by name, and the same name at another port.
    let port = other_site();
    for there in ["localhost", "127.0.0.1"] {
        let elsewhere = format!("http://{there}:{port}/");
        page.navigate_to(&elsewhere);
        let alerts = json!(format!("{ours}/{name}/alerts"));
        let with = "{credentials: 'include'}";
        let fetched = page.evaluate_script(&format!(
            "fetch({alerts}, {with}).then(() => 'read', () => 'refused')"
        ));
        assert_eq!(fetched, "refused", "{there}");
        let sent = page.evaluate_script(&format!(
            "fetch({alerts}, {{method: 'POST', mode: 'no-cors', credentials: 'include', \
             headers: {{'Content-Type': 'application/x-www-form-urlencoded'}}, \
             body: 'change=1&triage=wrong'}}).then(answer => answer.type, () => 'failed')"
        ));
        assert!(sent == "opaque" || sent == "failed", "{there}: {sent}");
        for tag in ["img", "script", "iframe", "link"] {
            let shown = page.evaluate_script(&load_script(tag, &alerts));
            assert_ne!(shown, "loaded", "{tag} at {there}");
        }
        let events = json!(format!("{ours}/{name}/sessions/any/events"));
        let followed = page.evaluate_script(&follow_script(&events));
        assert_eq!(followed, "refused", "{there}");
        let loads = page.loads;
        page.evaluate_script(&post_script(&alerts));
        page.wait_for_load(loads);
        let said = page.evaluate_script("document.body.textContent");
        let said = said.as_str().unwrap();
        assert!(said.contains("a page of another site"), "{there}: {said}");
        assert_eq!(triaged(), before, "{there}");
    }
    // The same form on our own page works.
    page.navigate_to(&format!("{ours}/{name}/alerts"));
    let loads = page.loads;
    page.evaluate_script(&format!("{form}.querySelector('button[value=wrong]').click()"));
    page.wait_for_load(loads);
    let said = page.evaluate_script("document.body.textContent");
    assert_eq!(triaged(), "wrong", "{said}");
}

/// Whether a page can read the events of that URL.
fn follow_script(address: &Value) -> String {
    format!(
        "new Promise(done => {{ const events = new EventSource({address}, {{withCredentials: true}}); \
         events.addEventListener('progress', () => done('read')); \
         events.onerror = () => {{ events.close(); done('refused'); }}; }})"
    )
}

/// Submits a form to that URL, which marks the change as wrong.
fn post_script(address: &Value) -> String {
    format!(
        "(() => {{ const form = document.createElement('form'); form.method = 'post'; form.action = {address}; \
         for (const [name, value] of [['change', '1'], ['triage', 'wrong']]) {{ \
         const field = document.createElement('input'); field.name = name; field.value = value; form.append(field); }} \
         document.body.append(form); form.submit(); }})()"
    )
}

/// What happens to an element that shows that URL.
fn load_script(tag: &str, address: &Value) -> String {
    let key = if tag == "link" { "href" } else { "src" };
    // A frame does not learn that it was rejected: its contents cannot be read, so only its size
    // could reveal anything.
    format!(
        "new Promise(done => {{ const e = document.createElement('{tag}'); e.rel = 'stylesheet'; \
         e.onload = () => done('{tag}' === 'iframe' ? (() => {{ \
             try {{ return e.contentDocument ? 'empty' : 'refused'; }} catch {{ return 'refused'; }} }})() : 'loaded'); \
         e.onerror = () => done('refused'); e.{key} = {address}; document.body.append(e); }})"
    )
}

/// Threat T9: a foreign name that resolves to this server.
#[test]
fn requests_with_a_foreign_host_name_are_refused() {
    let place = StorePlace::file();
    let project = project(&place);
    let dashboard = TestDashboard::of(&project);
    let name = dashboard.project();
    let port = dashboard.address.rsplit(':').next().unwrap();
    let rebound = format!("http://{REBOUND}:{port}");
    let Some(mut page) =
        BrowserPage::at(&format!("{rebound}/{name}/sessions"), ScreenSize::default())
    else {
        return;
    };
    let said = page.evaluate_script("document.body.textContent");
    let said = said.as_str().unwrap();
    assert!(!said.contains("decode.fake"), "{said}");
    for path in ["sessions.json", "sessions/any/events", "@1.jsonl"] {
        let status =
            page.evaluate_script(&format!("fetch('/{name}/{path}').then(answer => answer.status)"));
        assert_eq!(status, 421, "{path}");
    }
}

/// Threat T2: every name contains markup, and is shown as text.
#[test]
fn names_that_contain_markup_are_shown_as_text() {
    let place = StorePlace::file();
    let project = project(&place);
    everything_hostile(&project);
    let dashboard = TestDashboard::of(&project);
    let name = dashboard.project();
    let own = format!("http://{}", dashboard.address);
    let Some(mut page) = BrowserPage::at(&own, ScreenSize::default()) else {
        return;
    };
    let shown = |number: u8| format!("<img src=x onerror=alert({number})>'\"&");
    let markup = "document.querySelectorAll('img, main script, main style, iframe, [onerror], [onload], \
                  a[href^=\"javascript:\" i]').length";
    for (path, names) in [
        ("@4", &[shown(3)][..]),
        ("sessions", &[shown(4)]),
        ("machines", &[shown(7)]),
        (
            "branches/%3Cimg%20src=x%20onerror=alert(2)%3E",
            &["<img src=x onerror=alert(2)>".to_owned()],
        ),
        ("pulls/7", &[]),
        ("revisions/cccc", &[]),
        ("compare?base=@3&with=@4", &[]),
        ("search?q=img", &[]),
    ] {
        page.navigate_to(&format!("{own}/{name}/{path}"));
        for name in names {
            let text = page.evaluate_script(&format!(
                "document.documentElement.textContent.includes({})",
                json!(name)
            ));
            assert_eq!(text, true, "{path} does not show {name}");
        }
        assert_eq!(page.evaluate_script(markup), 0, "{path}");
    }
    for path in pages(&name) {
        page.navigate_to(&format!("{own}{path}"));
        assert_eq!(page.evaluate_script(markup), 0, "{path}");
    }
    assert_eq!(page.complaints, [] as [&str; 0]);
}

/// A page that follows a session continues when the server restarts, and leads to the report in the
/// end.
#[test]
fn a_live_page_continues_after_a_server_restart() {
    let place = StorePlace::file();
    let project = TempProject::new().storing_in(&place);
    let mut store = place.open();
    let mut recorder = begin_watched(&mut store, 1);
    let dashboard = TestDashboard::of(&project);
    let name = dashboard.project();
    let address = dashboard.address.clone();
    let live = format!("http://{address}/{name}/sessions/watched/live");
    let Some(mut page) = BrowserPage::at(&live, ScreenSize::default()) else {
        return;
    };
    page.wait_for_text("measuring: 1 run done");
    measure(&mut recorder, 1);
    page.wait_for_text("measuring: 2 runs done");
    // Everything that shows the progress agrees.
    page.wait_until("document.title.includes('2 runs done')");
    page.wait_until("!document.documentElement.textContent.includes('1 run done')");
    assert_eq!(dashboard.interrupt(), Some(0));
    page.wait_for_text("the page continues when it is back");
    measure(&mut recorder, 2);
    let port = address.rsplit(':').next().unwrap();
    let again = TestDashboard::with(&project, &["--port", port]);
    assert_eq!(again.address, address);
    page.wait_for_text("measuring: 3 runs done");
    recorder.observe(&SessionEvent::Finished { interrupted: false }).unwrap();
    page.wait_for_path(&format!("/{name}/sessions/watched"));
    page.wait_for_text("buffers/fill.js");
}

/// Scripts add ways to sort, to filter and to navigate, but no figure and no text of the report.
#[test]
fn a_page_shows_the_same_text_with_and_without_scripts() {
    let place = StorePlace::file();
    let project = project(&place);
    let dashboard = TestDashboard::of(&project);
    let name = dashboard.project();
    let own = format!("http://{}/", dashboard.address);
    let plain = ScreenSize { scripts: false, ..ScreenSize::default() };
    let (Some(mut with), Some(mut without)) =
        (BrowserPage::at(&own, ScreenSize::default()), BrowserPage::at(&own, plain))
    else {
        return;
    };
    for path in pages(&name) {
        let address = format!("http://{}{path}", dashboard.address);
        with.navigate_to(&address);
        without.navigate_to(&address);
        // Scripts of the page are disabled there, those of the test are not.
        let (with, without) = (with.evaluate_script(TEXT), without.evaluate_script(TEXT));
        assert!(!with.as_str().unwrap().is_empty(), "{path}");
        assert_eq!(with, without, "{path}");
    }
}
