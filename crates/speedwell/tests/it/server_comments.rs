//! Comments and statuses that the server posts on pull requests of fake forges after a push.

use super::back_ends::{StorePlace, on_both};
use super::busy::wait_until;
use super::fake_forge::{FakeForge, RequestFault};
use super::project::TempProject;
use super::push::{core, lines};
use super::team_server::TeamServer;
use serde_json::json;
use speedwell_fixtures::FakeSession;
use speedwell_model::{CodeOrigin, Session, SessionState};
use speedwell_server::clients::forge::ForgeKind;
use speedwell_store::{CommentJob, CommentState, SessionDigest};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;

on_both! {
    a_pushed_session_is_answered_on_its_pull_request_on_every_forge
    what_is_not_comparable_is_said_and_never_that_nothing_changed
    a_forge_that_refuses_or_leads_elsewhere_gets_nothing_and_the_page_says_so
}

const BASE: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const HEAD: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
const NEXT: &str = "cccccccccccccccccccccccccccccccccccccccc";

/// A session of one revision; `pull` makes it part of the pull request, and is how much slower it
/// is.
fn session(id: &str, revision: &str, parent: &str, pull: Option<f64>) -> Session {
    let factor = pull.unwrap_or(1.0);
    let mut session = FakeSession::with_fixed_blocks(&["default"], 8)
        .add_noisy_case("misc/copy.js n=1", 0.01, move |_| factor)
        .build();
    session.id = id.to_owned();
    session.state = SessionState::Complete;
    session.started_unix_ms = 1_760_000_000_000;
    session.origin = Some(CodeOrigin {
        revision: revision.to_owned(),
        parents: vec![parent.to_owned()],
        base: pull.map(|_| BASE.to_owned()),
        pull: pull.map(|_| "12".to_owned()),
        ..CodeOrigin::default()
    });
    session
}

/// A server whose project posts to a forge, configured with these options.
fn commenting(
    project: &TempProject,
    place: &StorePlace,
    forge: &FakeForge,
    options: &[&str],
) -> TeamServer {
    let server = TeamServer::of(project, place);
    let token = project.path("forge.token");
    std::fs::write(&token, "secret\n").unwrap();
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
    let repository = format!("{}:{}/owner/name", forge.forge, forge.address);
    let db = place.path();
    let mut words = vec!["serve", "forge", "set", &repository];
    words.extend(["--token-file", "forge.token", "--project", "core"]);
    words.extend(["--db", db.to_str().unwrap()]);
    words.extend(options);
    let said = project.run(&words).expect_status(0);
    assert!(!said.stderr.contains("secret"), "{}", said.stderr);
    server
}

fn push(server: &TeamServer, session: &Session) {
    let text = lines(session);
    let path = format!("{}?sha256={}", session.id, SessionDigest::hash_lines(&text));
    server.ask("PUT", &path, &text).expect(201, "stored");
}

/// The only comment, once its second line names the revision.
fn comment_about(forge: &FakeForge, revision: &str) -> String {
    let stamp = format!("<!-- measured {revision} at ");
    wait_until(|| {
        let comments = forge.comments();
        let is_about = |body: &str| body.contains(&stamp);
        comments.iter().any(|comment| is_about(&comment.body))
    });
    let comments = forge.comments();
    assert_eq!(comments.len(), 1, "{comments:#?}");
    comments[0].body.clone()
}

fn a_pushed_session_is_answered_on_its_pull_request_on_every_forge(place: &StorePlace) {
    // Each forge once with a file; repeating it with PostgreSQL would add nothing.
    let forges = match place {
        StorePlace::File(_) => &[ForgeKind::GitHub, ForgeKind::GitLab, ForgeKind::Gitea][..],
        _ => &[ForgeKind::Gitea],
    };
    for kind in forges {
        let (project, forge) = (TempProject::new(), FakeForge::start(*kind));
        let own = StorePlace::file();
        let place = if matches!(place, StorePlace::File(_)) { &own } else { place };
        let options = ["--fail-on", "worse", "--threshold", "5%"];
        let server = commenting(&project, place, &forge, &options);
        push(&server, &session("a-1", BASE, "0", None));
        push(&server, &session("b-1", HEAD, BASE, Some(0.7)));
        let comment = comment_about(&forge, HEAD);
        assert!(comment.starts_with("<!-- speedwell:core:compare -->\n"));
        assert!(comment.contains("worse"), "{comment}");
        assert!(comment.contains("bbbbbbbbbb"), "{comment}");
        wait_until(|| !forge.statuses().is_empty());
        let status = &forge.statuses()[0];
        assert!(["failed", "failure"].contains(&status["state"].as_str().unwrap()), "{status}");

        // The next revision updates the same comment, and a late older one does not.
        push(&server, &session("b-2", NEXT, HEAD, Some(1.0)));
        let second = comment_about(&forge, NEXT);
        assert!(!second.contains("**1 worse"), "{second}");
        push(&server, &session("b-3", HEAD, BASE, Some(0.7)));
        wait_until(|| forge.statuses().len() == 3);
        assert_eq!(comment_about(&forge, NEXT), second);
        assert_eq!(forge.foreign_tokens(), 0, "each request has the token");

        // Nor does an earlier result replace the status of its commit when it arrives later.
        let mut earlier = session("b-4", HEAD, BASE, Some(1.0));
        earlier.started_unix_ms -= 86_400_000;
        push(&server, &earlier);
        let is_said =
            |job: &CommentJob| job.session == Some(5) && job.state == CommentState::Posted;
        wait_until(|| core(place).comment_job("12").unwrap().as_ref().is_some_and(is_said));
        assert_eq!(forge.statuses().len(), 3, "red stays red");
        assert_eq!(comment_about(&forge, NEXT), second);

        let kept = core(place).posted_comments("12").unwrap();
        assert_eq!(kept.len(), 2, "what was said stays known");
        assert_eq!(kept[0].revision, NEXT);
        let page = server.try_ask("GET", "/core/pulls/12.md", &[], b"").unwrap();
        assert!(page.body.to_string().contains("Comment posted"));
    }
}

fn what_is_not_comparable_is_said_and_never_that_nothing_changed(place: &StorePlace) {
    let (project, forge) = (TempProject::new(), FakeForge::start(ForgeKind::Gitea));
    let server = commenting(&project, place, &forge, &[]);
    // So large that it is announced while it arrives.
    let mut large = session("b-1", HEAD, BASE, Some(1.0));
    large.runs[0].notes = (0..1200).map(|_| "n".repeat(1000)).collect();
    let text = lines(&large);
    let path = format!("/api/v1/core/sessions/b-1?sha256={}", SessionDigest::hash_lines(&text));
    let mut stream = server.send_head("PUT", &path, &[], text.len()).unwrap();
    let (first, rest) = text.split_at(text.len() - 1);
    stream.write_all(first).unwrap();
    wait_until(|| forge.statuses().len() == 1);
    assert_eq!(forge.statuses()[0]["state"], "pending");
    assert_eq!(forge.comments().len(), 0);
    stream.write_all(rest).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    let comment = comment_about(&forge, HEAD);
    assert!(
        comment.contains("**not compared: base aaaaaaaaaa was not measured on the same machine"),
        "{comment}"
    );
    wait_until(|| forge.statuses().len() == 2);
    assert_eq!(forge.statuses()[1]["state"], "error");
}

fn a_forge_that_refuses_or_leads_elsewhere_gets_nothing_and_the_page_says_so(place: &StorePlace) {
    let (project, forge) = (TempProject::new(), FakeForge::start(ForgeKind::Gitea));
    let other = FakeForge::start(ForgeKind::Gitea);
    let server = commenting(&project, place, &forge, &[]);
    forge.redirect_to(&other.address);
    push(&server, &session("b-1", HEAD, BASE, Some(1.0)));
    let refused = || {
        let job = core(place).comment_job("12").unwrap();
        job.is_some_and(|job| job.state == CommentState::Refused)
    };
    wait_until(refused);
    assert_eq!(other.requests(), 0, "the token stays here");
    let page = || {
        let answer = server.try_ask("GET", "/core/pulls/12.md", &[], b"").unwrap();
        answer.body.to_string()
    };
    assert!(page().contains("is a redirect, which is not followed"), "{}", page());

    // A new configuration; rejections are reported, and a token that others can read is rejected.
    let db = place.path();
    let db = db.to_str().unwrap();
    let token = project.path("forge.token");
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o644)).unwrap();
    let repository = format!("gitea:{}/owner/name", other.address);
    let set = ["serve", "forge", "set", &repository, "--token-file", "forge.token"];
    let set = [&set[..], &["--project", "core", "--db", db]].concat();
    project.run(&set).expect_status(2).expect_stderr(&["can be read by others", "hint: chmod 600"]);
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
    other.fail_next(RequestFault::Status(502));
    project.run(&set).expect_status(0);
    comment_about(&other, HEAD);
    let show = ["serve", "forge", "show", "--project", "core", "--db", db];
    let shown = project.run(&show).expect_status(0).json();
    assert_eq!(shown["repository"], json!(repository));
    let remove = ["serve", "forge", "remove", "--project", "core", "--db", db];
    project.run(&remove).expect_status(0);
    project.run(&show).expect_status(1);
}

#[test]
fn unencrypted_or_malformed_forge_repositories_are_refused() {
    let project = TempProject::new().with("forge.token", "secret\n");
    for (repository, words) in [
        ("gitea:http://forge.example/o/n", "is not encrypted"),
        ("forge.example/o/n", "cannot parse repository"),
        ("github:o/n#12", "cannot parse repository"),
    ] {
        let set = ["serve", "forge", "set", repository, "--token-file", "forge.token"];
        project.run(&set).expect_status(2).expect_stderr(&[words]);
    }
}
