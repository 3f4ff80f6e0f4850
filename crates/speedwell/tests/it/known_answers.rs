//! Conditional requests: a client's current response is not sent again, a changed one is.

use super::back_ends::{StorePlace, on_both};
use super::dashboard::{HttpReply, TestDashboard};
use super::project::TempProject;

on_both! {
    what_a_client_has_is_not_sent_again_until_it_changes
}

/// Sends a request from a client that has the response with this tag.
fn conditional_request(
    dashboard: &TestDashboard,
    method: &str,
    path: &str,
    tag: &str,
) -> HttpReply {
    dashboard.request(method, path, &[("If-None-Match", tag)], "")
}

fn what_a_client_has_is_not_sent_again_until_it_changes(place: &StorePlace) {
    let project = TempProject::new().storing_in(place);
    let project = project.with("g/one.fake", "case n=1\n* 1\n");
    let measure = |revision: &str| {
        let words = ["run", "g", "-r", "1", "--revision", revision, "-q"];
        project.run(&words).expect_status(0);
    };
    measure("first");
    let dashboard = TestDashboard::of(&project);
    let name = dashboard.project();
    // The first request creates the points, and with them the machine.
    dashboard.get(&format!("/{name}/trend.json")).expect(200, &[]);
    let paths = [
        format!("/{name}/sessions"),
        format!("/{name}/sessions.json"),
        format!("/{name}/benchmarks.csv"),
        format!("/{name}/trend.json"),
        format!("/api/v1/{name}/sessions"),
        format!("/api/v1/{name}/benchmarks"),
    ];
    let tag_of = |reply: &HttpReply| {
        let tag = reply.field("etag");
        tag.unwrap_or_else(|| panic!("no tag: {reply:?}"))
    };
    let tags = paths.each_ref().map(|path| tag_of(&dashboard.get(path).expect(200, &[])));
    for (path, tag) in paths.iter().zip(&tags) {
        let again = conditional_request(&dashboard, "GET", path, tag);
        assert_eq!((again.status, &*again.body), (304, ""), "{path}");
        assert_eq!(tag_of(&again), *tag, "{path}");
        let other = conditional_request(&dashboard, "GET", path, "\"another\"");
        assert_eq!(other.status, 200, "{path}");
    }
    let missing = conditional_request(&dashboard, "GET", &format!("/{name}/nothing"), "*");
    assert_eq!((missing.status, missing.field("etag")), (404, None));
    // A change is never answered as "not modified".
    let triaged = conditional_request(&dashboard, "POST", &format!("/{name}/alerts"), "*");
    assert!(triaged.status >= 400, "{triaged:?}");
    measure("second");
    for (path, tag) in paths.iter().zip(&tags) {
        let changed = conditional_request(&dashboard, "GET", path, tag);
        assert_eq!(changed.status, 200, "{path}");
        assert_ne!(tag_of(&changed), *tag, "{path}");
    }
}
