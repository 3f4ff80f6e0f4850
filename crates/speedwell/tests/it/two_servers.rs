//! Two servers over one store: what one accepts, the other shows immediately, and nothing is stored
//! twice.

use super::back_ends::{StorePlace, on_both};
use super::project::TempProject;
use super::push::{core, lines, session};
use super::team_server::TeamServer;
use speedwell_store::{SessionDigest, SessionFilter};

on_both! {
    what_one_server_takes_in_the_other_shows_in_its_next_answer
    two_servers_that_get_the_same_session_keep_it_once
}

fn put(server: &TeamServer, id: &str) -> u16 {
    let text = lines(&session(id, 4));
    let path = format!("{id}?sha256={}", SessionDigest::hash_lines(&text));
    server.ask("PUT", &path, &text).status
}

fn page(server: &TeamServer, path: &str) -> String {
    let answer = server.try_ask("GET", path, &[], b"").unwrap();
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    answer.body.to_string()
}

fn what_one_server_takes_in_the_other_shows_in_its_next_answer(place: &StorePlace) {
    let project = TempProject::new();
    let servers = [TeamServer::of(&project, place), TeamServer::of(&project, place)];
    for number in 0..6 {
        let (here, there) = (&servers[number % 2], &servers[1 - number % 2]);
        assert_eq!(put(here, &format!("s-{number}")), 201);
        // Pages that are cached until something changes, and one that never is.
        for path in ["/core/benchmarks.json", "/core/sessions.json"] {
            let newest = format!("{}", number + 1);
            let shown = page(there, path);
            assert!(shown.contains(&newest), "{path}: {newest} is not in {shown}");
            page(here, path);
        }
        let benchmarks: serde_json::Value = {
            let answer = there.try_ask("GET", "/core/benchmarks.json", &[], b"");
            answer.unwrap().body
        };
        let sessions = &benchmarks["benchmarks"][0]["sessions"];
        assert_eq!(*sessions, serde_json::json!(number + 1), "{benchmarks}");
    }
}

fn two_servers_that_get_the_same_session_keep_it_once(place: &StorePlace) {
    let project = TempProject::new();
    let servers = [TeamServer::of(&project, place), TeamServer::of(&project, place)];
    let mut statuses = std::thread::scope(|scope| {
        let sent: Vec<_> = (0..8)
            .map(|number| {
                let server = &servers[number % 2];
                scope.spawn(move || put(server, "same"))
            })
            .collect();
        let statuses = sent.into_iter().map(|sender| sender.join().unwrap());
        statuses.collect::<Vec<u16>>()
    });
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 200, 200, 200, 200, 200, 201]);
    assert_eq!(core(place).count_sessions(&SessionFilter::default()).unwrap(), 1);
}
