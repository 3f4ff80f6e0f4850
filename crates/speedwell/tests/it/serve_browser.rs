//! The dashboard in a real browser that is told to do it harm, and one that is there while the server is started again. The
//! threats that are numbered here are those of docs/reference/security.md.

use super::back_ends::Place;
use super::browser::{Page, REBOUND, Screen};
use super::by_hand::blank;
use super::dashboard::Dashboard;
use super::project::Project;
use super::serve::{everything_hostile, long_project, measure, pages, project};
use super::serve_screens::TEXT;
use serde_json::{Value, json};
use speedwell_model::{Event, Observer};
use std::io::{Read, Write};
use std::net::TcpListener;

/// A server of somebody else, all of whose pages are empty.
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

/// Threat T8: whoever is logged in opens a page of somebody else, which tries all that a page can.
#[test]
fn a_page_of_another_site_reads_nothing_and_changes_nothing() {
    let place = Place::file();
    let project = long_project(120, &place);
    let dashboard = Dashboard::of(&project);
    let name = dashboard.project();
    let ours = format!("http://{}", dashboard.address);
    let Some(mut page) = Page::at(&format!("{ours}{}", dashboard.key), Screen::default()) else {
        return;
    };
    page.go(&format!("{ours}/{name}/alerts"));
    let judging = "document.querySelectorAll('form[aria-label=\"Judge a change\"]').length";
    assert_eq!(page.value(judging), 1, "it is logged in");
    let judged = || {
        let said = project.run(&["history", "changes", "--format", "json"]);
        said.json()["changes"][0]["judged"].clone()
    };
    let before = judged();
    // Of another site by its name, and of the same by its name but at another port.
    let port = other_site();
    for there in ["localhost", "127.0.0.1"] {
        let elsewhere = format!("http://{there}:{port}/");
        page.go(&elsewhere);
        let alerts = json!(format!("{ours}/{name}/alerts"));
        let with = "{credentials: 'include'}";
        let fetched = page.value(&format!(
            "fetch({alerts}, {with}).then(() => 'read', () => 'refused')"
        ));
        assert_eq!(fetched, "refused", "{there}");
        let sent = page.value(&format!(
            "fetch({alerts}, {{method: 'POST', mode: 'no-cors', credentials: 'include', \
             headers: {{'Content-Type': 'application/x-www-form-urlencoded'}}, \
             body: 'change=1&judgement=wrong'}}).then(answer => answer.type, () => 'failed')"
        ));
        assert!(sent == "opaque" || sent == "failed", "{there}: {sent}");
        for tag in ["img", "script", "iframe", "link"] {
            let shown = page.value(&loaded(tag, &alerts));
            assert_ne!(shown, "loaded", "{tag} at {there}");
        }
        let events = json!(format!("{ours}/{name}/sessions/any/events"));
        let followed = page.value(&followed(&events));
        assert_eq!(followed, "refused", "{there}");
        let loads = page.loads;
        page.value(&posted(&alerts));
        page.wait_for_load(loads);
        let said = page.value("document.body.textContent");
        let said = said.as_str().unwrap();
        assert!(said.contains("a page of another site"), "{there}: {said}");
        assert_eq!(judged(), before, "{there}");
    }
    // The same form on our own page does it.
    page.go(&format!("{ours}/{name}/alerts"));
    let loads = page.loads;
    let form = "document.querySelector('form[aria-label=\"Judge a change\"]')";
    page.value(&format!(
        "(() => {{ const form = {form}; form.elements.judgement.value = 'wrong'; form.requestSubmit(); }})()"
    ));
    page.wait_for_load(loads);
    let said = page.value("document.body.textContent");
    assert_eq!(judged(), "wrong", "{said}");
}

/// Whether a page reads the events of that address.
fn followed(address: &Value) -> String {
    format!(
        "new Promise(done => {{ const events = new EventSource({address}, {{withCredentials: true}}); \
         events.addEventListener('progress', () => done('read')); \
         events.onerror = () => {{ events.close(); done('refused'); }}; }})"
    )
}

/// Sends a form to that address, which calls the change wrong.
fn posted(address: &Value) -> String {
    format!(
        "(() => {{ const form = document.createElement('form'); form.method = 'post'; form.action = {address}; \
         for (const [name, value] of [['change', '1'], ['judgement', 'wrong']]) {{ \
         const field = document.createElement('input'); field.name = name; field.value = value; form.append(field); }} \
         document.body.append(form); form.submit(); }})()"
    )
}

/// What becomes of an element that shows something of that address.
fn loaded(tag: &str, address: &Value) -> String {
    let key = if tag == "link" { "href" } else { "src" };
    // A frame is not told that it was refused: what is in it can be read by nobody, so its size would be all it says.
    format!(
        "new Promise(done => {{ const e = document.createElement('{tag}'); e.rel = 'stylesheet'; \
         e.onload = () => done('{tag}' === 'iframe' ? (() => {{ \
             try {{ return e.contentDocument ? 'empty' : 'refused'; }} catch {{ return 'refused'; }} }})() : 'loaded'); \
         e.onerror = () => done('refused'); e.{key} = {address}; document.body.append(e); }})"
    )
}

/// Threat T9: a name of somebody else that leads here.
#[test]
fn a_name_of_somebody_else_that_leads_here_shows_nothing() {
    let place = Place::file();
    let project = project(&place);
    let dashboard = Dashboard::of(&project);
    let name = dashboard.project();
    let port = dashboard.address.rsplit(':').next().unwrap();
    let rebound = format!("http://{REBOUND}:{port}");
    let Some(mut page) = Page::at(&format!("{rebound}/{name}/sessions"), Screen::default()) else {
        return;
    };
    let said = page.value("document.body.textContent");
    let said = said.as_str().unwrap();
    assert!(!said.contains("decode.fake"), "{said}");
    for path in ["sessions.json", "sessions/any/events", "@1.jsonl"] {
        let status = page.value(&format!(
            "fetch('/{name}/{path}').then(answer => answer.status)"
        ));
        assert_eq!(status, 421, "{path}");
    }
}

/// Threat T2: everything that has a name is called so that it would like to be markup, and is shown as it is called.
#[test]
fn whatever_is_called_like_markup_is_shown_as_text() {
    let place = Place::file();
    let project = project(&place);
    everything_hostile(&project);
    let dashboard = Dashboard::of(&project);
    let name = dashboard.project();
    let own = format!("http://{}", dashboard.address);
    let Some(mut page) = Page::at(&own, Screen::default()) else {
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
        page.go(&format!("{own}/{name}/{path}"));
        for name in names {
            let text = page.value(&format!(
                "document.documentElement.textContent.includes({})",
                json!(name)
            ));
            assert_eq!(text, true, "{path} does not show {name}");
        }
        assert_eq!(page.value(markup), 0, "{path}");
    }
    for path in pages(&name) {
        page.go(&format!("{own}{path}"));
        assert_eq!(page.value(markup), 0, "{path}");
    }
    assert_eq!(page.complaints, [] as [&str; 0]);
}

/// A page that follows a session goes on when the server is started again, and leads to the report when it is over.
#[test]
fn a_page_that_follows_a_session_outlives_the_server() {
    let place = Place::file();
    let project = Project::new().storing_in(&place);
    let mut store = place.open();
    let mut recorder = store.begin(&blank("watched"), "{}").unwrap();
    measure(&mut recorder, 0);
    let dashboard = Dashboard::of(&project);
    let name = dashboard.project();
    let address = dashboard.address.clone();
    let live = format!("http://{address}/{name}/sessions/watched/live");
    let Some(mut page) = Page::at(&live, Screen::default()) else {
        return;
    };
    let says = |words: &str| format!("document.body?.textContent.includes({})", json!(words));
    page.wait_until(&says("measuring: 1 run done"));
    measure(&mut recorder, 1);
    page.wait_until(&says("measuring: 2 runs done"));
    // All that says how far it is says the same.
    page.wait_until("document.title.includes('2 runs done')");
    page.wait_until("!document.documentElement.textContent.includes('1 run done')");
    assert_eq!(dashboard.interrupt(), Some(0));
    page.wait_until(&says("cannot be reached just now"));
    measure(&mut recorder, 2);
    let port = address.rsplit(':').next().unwrap();
    let again = Dashboard::with(&project, &["--port", port]);
    assert_eq!(again.address, address);
    page.wait_until(&says("measuring: 3 runs done"));
    recorder
        .observe(&Event::Finished { interrupted: false })
        .unwrap();
    page.wait_until(&format!(
        "location.pathname === {}",
        json!(format!("/{name}/sessions/watched"))
    ));
    page.wait_until(&says("buffers/fill.js"));
}

/// What scripts add are ways to sort, to filter and to get about, no figure and no word of the report.
#[test]
fn a_page_says_the_same_with_and_without_scripts() {
    let place = Place::file();
    let project = project(&place);
    let dashboard = Dashboard::of(&project);
    let name = dashboard.project();
    let own = format!("http://{}/", dashboard.address);
    let plain = Screen {
        scripts: false,
        ..Screen::default()
    };
    let (Some(mut with), Some(mut without)) =
        (Page::at(&own, Screen::default()), Page::at(&own, plain))
    else {
        return;
    };
    for path in pages(&name) {
        let address = format!("http://{}{path}", dashboard.address);
        with.go(&address);
        without.go(&address);
        // Scripts of the page are off there, not those of the test.
        let (with, without) = (with.value(TEXT), without.value(TEXT));
        assert!(!with.as_str().unwrap().is_empty(), "{path}");
        assert_eq!(with, without, "{path}");
    }
}
