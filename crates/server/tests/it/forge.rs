//! Comments and statuses on a fake forge of each kind, served on this machine.

use super::fake_forge::{FakeForge, RequestFault};
use speedwell_model::clock::WaitClock;
use speedwell_server::clients::SecretToken;
use speedwell_server::clients::forge::{
    CommentOutcome, CommentText, CommitState, CommitStatus, Error, ForgeClient, ForgeKind,
    PullRequestRef, PullUpdate, ResultStamp, StatusOutcome,
};
use std::time::Duration;

const FORGES: [ForgeKind; 3] = [ForgeKind::GitHub, ForgeKind::GitLab, ForgeKind::Gitea];

const MARKER: &str = "<!-- speedwell:name:compare -->";

fn client(fake: &FakeForge) -> ForgeClient {
    let text = format!("{}:{}/owner/name#12", fake.forge, fake.address);
    let pull_request: PullRequestRef = text.parse().expect("it names a pull request");
    ForgeClient::new(pull_request, SecretToken::new("secret\n")).with_clock(WaitClock::movable())
}

fn comment_text(revision: &str, at_unix_ms: u64, body: &str) -> CommentText {
    CommentText {
        marker: "speedwell:name:compare".into(),
        stamp: ResultStamp { revision: revision.into(), at_unix_ms },
        body: body.into(),
    }
}

fn unknown_order(_: &str, _: &str) -> Option<std::cmp::Ordering> {
    None
}

/// Text of our comments, below the hidden lines.
fn our_comments(fake: &FakeForge) -> Vec<String> {
    let comments = fake.comments();
    let ours = comments.iter().filter(|comment| comment.body.starts_with(MARKER));
    ours.map(|comment| comment.body.lines().skip(2).collect::<Vec<_>>().join("\n")).collect()
}

#[test]
fn the_comment_is_written_once_and_then_edited_in_place() {
    for forge in FORGES {
        let fake = FakeForge::start(forge);
        fake.add("somebody", "I looked at it");
        // A comment with our marker by someone else is not ours.
        fake.add("somebody", &format!("{MARKER}\nmine"));
        let client = client(&fake);
        let posted = client.post_comment(&comment_text("a", 1, "first"), &unknown_order).unwrap();
        let CommentOutcome::Created(id) = posted else { panic!("{forge}: {posted:?}") };
        let edited = client.post_comment(&comment_text("b", 2, "second"), &unknown_order).unwrap();
        assert_eq!(edited, CommentOutcome::Edited(id), "{forge}");
        let repeated =
            client.post_comment(&comment_text("b", 2, "second"), &unknown_order).unwrap();
        assert_eq!(repeated, CommentOutcome::Unchanged(id), "{forge}");
        assert_eq!(our_comments(&fake), ["", "second"], "{forge}");
        assert_eq!(fake.comments().len(), 3, "{forge}");
        assert_eq!(fake.foreign_tokens(), 0, "{forge}: each request has the token");
    }
}

#[test]
fn our_comment_is_found_on_any_page() {
    for forge in FORGES {
        let fake = FakeForge::start(forge);
        for number in 0..250 {
            fake.add("somebody", &format!("comment {number}"));
        }
        let client = client(&fake);
        client.post_comment(&comment_text("a", 1, "first"), &unknown_order).unwrap();
        let edited = client.post_comment(&comment_text("b", 2, "second"), &unknown_order).unwrap();
        assert!(matches!(edited, CommentOutcome::Edited(_)), "{forge}: {edited:?}");
        assert_eq!(our_comments(&fake), ["second"], "{forge}");
    }
}

#[test]
fn two_jobs_at_once_leave_one_comment() {
    for forge in FORGES {
        let fake = FakeForge::start(forge);
        // The other job writes between our listing and our writing.
        fake.write_before_the_next(&text_of_other("other", 1));
        let posted =
            client(&fake).post_comment(&comment_text("b", 2, "ours"), &unknown_order).unwrap();
        assert!(matches!(posted, CommentOutcome::Edited(_)), "{forge}: {posted:?}");
        assert_eq!(our_comments(&fake), ["ours"], "{forge}");

        // If several exist, the oldest stays.
        fake.add(FakeForge::ME, &text_of_other("third", 1));
        client(&fake).post_comment(&comment_text("c", 3, "newest"), &unknown_order).unwrap();
        assert_eq!(our_comments(&fake), ["newest"], "{forge}");
    }
}

fn text_of_other(body: &str, at_unix_ms: u64) -> String {
    format!("{MARKER}\n<!-- measured a at {at_unix_ms} -->\n{body}")
}

#[test]
fn an_older_result_never_replaces_a_newer_one() {
    for forge in FORGES {
        let fake = FakeForge::start(forge);
        let client = client(&fake);
        client.post_comment(&comment_text("b", 5, "newer"), &unknown_order).unwrap();
        let older_outcome =
            client.post_comment(&comment_text("a", 4, "older"), &unknown_order).unwrap();
        assert!(
            matches!(older_outcome, CommentOutcome::Outdated { .. }),
            "{forge}: {older_outcome:?}"
        );
        assert_eq!(our_comments(&fake), ["newer"], "{forge}");
        // Measured later, but of older code.
        let order = |one: &str, other: &str| Some(one.cmp(other));
        let older_outcome =
            client.post_comment(&comment_text("a", 9, "older code"), &order).unwrap();
        assert!(
            matches!(older_outcome, CommentOutcome::Outdated { .. }),
            "{forge}: {older_outcome:?}"
        );
        assert_eq!(our_comments(&fake), ["newer"], "{forge}");
    }
}

#[test]
fn a_job_that_may_not_query_its_user_assumes_the_name_of_the_robot() {
    for forge in [ForgeKind::GitHub, ForgeKind::Gitea] {
        let fake = FakeForge::start(forge).with_job_token();
        let robot = match forge {
            ForgeKind::GitHub => "github-actions[bot]",
            _ => "gitea-actions",
        };
        fake.add("somebody", &text_of_other("a quotation", 1));
        let posted =
            client(&fake).post_comment(&comment_text("a", 1, "first"), &unknown_order).unwrap();
        assert!(matches!(posted, CommentOutcome::Created(_)), "{forge}: {posted:?}");
        assert!(fake.comments().iter().any(|one| one.author == robot));
        let posted =
            client(&fake).post_comment(&comment_text("b", 2, "second"), &unknown_order).unwrap();
        assert!(matches!(posted, CommentOutcome::Edited(_)), "{forge}: {posted:?}");
        assert_eq!(our_comments(&fake), ["a quotation", "second"], "{forge}");
    }
}

#[test]
fn temporary_failures_are_retried() {
    for forge in FORGES {
        let fake = FakeForge::start(forge);
        let clock = WaitClock::movable();
        let waited = |fault, text: &CommentText| {
            let begin = clock.now();
            fake.fail_next(fault);
            let client = client(&fake).with_clock(clock);
            client.post_comment(text, &unknown_order).unwrap();
            clock.elapsed_since(begin)
        };
        for (fault, seconds) in [
            (RequestFault::Status(503), 1),
            (RequestFault::Status(409), 1),
            (RequestFault::Close, 1),
            // At most a minute, even if the forge asks for a longer delay.
            (RequestFault::RetryAfter(429, 3600), 60),
            (RequestFault::RetryAfter(429, 7), 7),
            (RequestFault::Status(500), 1),
        ] {
            let waited = waited(fault, &comment_text("a", 1, "said"));
            assert_eq!(waited, Duration::from_secs(seconds), "{forge}");
        }
        // GitHub's secondary rate limit.
        waited(RequestFault::RetryAfter(403, 1), &comment_text("b", 2, "said again"));
        assert_eq!(our_comments(&fake), ["said again"], "{forge}");
    }
}

#[test]
fn a_refusal_names_the_missing_permission_and_hides_the_token() {
    for (forge, right) in [
        (ForgeKind::GitHub, "pull-requests: write"),
        (ForgeKind::GitLab, "scope 'api'"),
        (ForgeKind::Gitea, "write:issue"),
    ] {
        for status in [403, 404] {
            let fake = FakeForge::start(forge);
            fake.refuse_writing(status);
            let error =
                client(&fake).post_comment(&comment_text("a", 1, "x"), &unknown_order).unwrap_err();
            let message = error.to_string();
            assert!(matches!(error, Error::Refused { .. }), "{message}");
            assert!(message.contains(right) && message.contains("write a comment"), "{message}");
            assert!(message.contains(&format!("(status {status}, 'not for you')")), "{message}");
            assert!(!message.contains("secret"), "{message}");
        }
        assert!(!format!("{:?}", SecretToken::new("secret")).contains("secret\""));
    }
}

#[test]
fn an_unavailable_or_redirecting_forge_is_an_error() {
    let fake = FakeForge::start(ForgeKind::GitHub);
    for _ in 0..20 {
        fake.fail_next(RequestFault::Status(502));
    }
    let error = client(&fake).post_comment(&comment_text("a", 1, "x"), &unknown_order).unwrap_err();
    assert!(error.to_string().ends_with("status 502, after 4 attempts"), "{error}");

    let redirecting = FakeForge::start(ForgeKind::GitHub);
    let redirect_target = FakeForge::start(ForgeKind::GitHub);
    redirecting.redirect_to(&redirect_target.address);
    let error =
        client(&redirecting).post_comment(&comment_text("a", 1, "x"), &unknown_order).unwrap_err();
    assert!(error.to_string().contains("is a redirect"), "{error}");
    assert_eq!(redirect_target.requests(), 0, "the token stays");

    let unreadable = FakeForge::start(ForgeKind::Gitea);
    unreadable.answer_with("<html>");
    let error =
        client(&unreadable).post_comment(&comment_text("a", 1, "x"), &unknown_order).unwrap_err();
    assert!(error.to_string().contains("is not JSON"), "{error}");
}

#[test]
fn a_status_is_set_in_the_words_of_each_forge() {
    for (forge, states) in [
        (ForgeKind::GitHub, ["pending", "success", "failure", "error"]),
        (ForgeKind::GitLab, ["pending", "success", "failed", "canceled"]),
        (ForgeKind::Gitea, ["pending", "success", "failure", "error"]),
    ] {
        let fake = FakeForge::start(forge);
        let client = client(&fake);
        let revision = "0123456789abcdef0123456789abcdef01234567";
        for state in
            [CommitState::Pending, CommitState::Success, CommitState::Failure, CommitState::Error]
        {
            let status = CommitStatus {
                revision: revision.into(),
                context: "speedwell/compare".into(),
                state,
                description: "2 worse\n".to_owned() + &"x".repeat(500),
                at_unix_ms: Some(1_767_268_800_000),
                link: Some("https://example.org/job/1".into()),
            };
            client.set_status(&status).unwrap();
        }
        let statuses = fake.statuses();
        let state_names: Vec<&str> =
            statuses.iter().map(|status| status["state"].as_str().unwrap()).collect();
        assert_eq!(state_names, states, "{forge}");
        for status in &statuses {
            let name = if forge == ForgeKind::GitLab { "name" } else { "context" };
            assert_eq!(status[name], "speedwell/compare");
            assert_eq!(status["target_url"], "https://example.org/job/1");
            let description = status["description"].as_str().unwrap();
            assert_eq!(description.chars().count(), 140);
            assert!(description.starts_with("2 worse x"));
            assert!(description.ends_with("x (measured 2026-01-01T12:00:00Z)"));
        }
    }
}

#[test]
fn a_repeated_status_that_gitlab_refuses_is_not_an_error() {
    let fake = FakeForge::start(ForgeKind::GitLab);
    fake.fail_next(RequestFault::Words(400, "Cannot transition status via :run from :running"));
    let status = CommitStatus {
        revision: "0123456789abcdef0123456789abcdef01234567".into(),
        context: "c".into(),
        state: CommitState::Pending,
        description: String::new(),
        at_unix_ms: None,
        link: None,
    };
    client(&fake).set_status(&status).unwrap();
    let short = CommitStatus { revision: "0123".into(), ..status };
    let error = client(&fake).set_status(&short).unwrap_err();
    assert!(error.to_string().contains("'0123' is not a full commit id"), "{error}");
}

const REVISION: &str = "0123456789abcdef0123456789abcdef01234567";

/// An update that posts a result of a revision.
fn update(revision: &str, at_unix_ms: u64, state: CommitState) -> PullUpdate {
    PullUpdate {
        comment: Some(comment_text(revision, at_unix_ms, &format!("{state:?}"))),
        status: Some(status(revision, Some(at_unix_ms), state)),
    }
}

fn status(revision: &str, at_unix_ms: Option<u64>, state: CommitState) -> CommitStatus {
    CommitStatus {
        revision: revision.into(),
        context: "speedwell/compare".into(),
        state,
        description: format!("{state:?}"),
        at_unix_ms,
        link: None,
    }
}

/// The states of a revision's statuses, oldest first.
fn states(fake: &FakeForge, revision: &str) -> Vec<String> {
    let all = fake.statuses();
    let own = all.iter().filter(|status| status["sha"] == revision);
    own.map(|status| status["state"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn an_older_result_replaces_neither_the_comment_nor_the_status() {
    for forge in FORGES {
        let fake = FakeForge::start(forge);
        let client = client(&fake);
        let red = client.post_update(&update(REVISION, 5, CommitState::Failure), &unknown_order);
        assert_eq!(red.status.unwrap().unwrap(), StatusOutcome::Set, "{forge}");
        let older_outcome =
            client.post_update(&update(REVISION, 4, CommitState::Success), &unknown_order);
        assert!(
            matches!(older_outcome.comment, Some(Ok(CommentOutcome::Outdated { .. }))),
            "{forge}"
        );
        assert_eq!(older_outcome.status.unwrap().unwrap(), StatusOutcome::Outdated, "{forge}");
        assert_eq!(our_comments(&fake), ["Failure"], "{forge}");
        assert_eq!(states(&fake, REVISION).len(), 1, "{forge}");
        // Neither does the notice that a result is arriving.
        let arriving = client.set_status(&status(REVISION, None, CommitState::Pending)).unwrap();
        assert_eq!(arriving, StatusOutcome::Outdated, "{forge}");
        // A result that was measured later does.
        client.post_update(&update(REVISION, 6, CommitState::Success), &unknown_order);
        assert_eq!(our_comments(&fake), ["Success"], "{forge}");
        assert_eq!(states(&fake, REVISION)[1..], ["success"], "{forge}");
    }
}

#[test]
fn each_commit_keeps_the_status_of_its_own_newest_result() {
    for forge in FORGES {
        let fake = FakeForge::start(forge);
        let client = client(&fake);
        let next = "89abcdef0123456789abcdef0123456789abcdef";
        let red =
            |at| client.post_update(&update(REVISION, at, CommitState::Failure), &unknown_order);
        client.post_update(&update(next, 7, CommitState::Success), &unknown_order);
        // The comment is about the next commit, and this one has no status yet.
        let older_outcome = red(5);
        assert!(
            matches!(older_outcome.comment, Some(Ok(CommentOutcome::Outdated { .. }))),
            "{forge}"
        );
        assert_eq!(older_outcome.status.unwrap().unwrap(), StatusOutcome::Set, "{forge}");
        client.post_update(&update(REVISION, 4, CommitState::Success), &unknown_order);
        assert_eq!(states(&fake, REVISION).len(), 1, "{forge}");
        assert_eq!(states(&fake, next), ["success"], "{forge}");
    }
}

#[test]
fn the_status_is_set_even_if_the_comment_is_refused() {
    for forge in FORGES {
        for refusal in [403, 404, 422] {
            let fake = FakeForge::start(forge);
            fake.refuse_comments(refusal);
            let outcome = client(&fake)
                .post_update(&update(REVISION, 5, CommitState::Failure), &unknown_order);
            assert!(matches!(outcome.status, Some(Ok(StatusOutcome::Set))), "{forge}");
            let failures = outcome.into_failures();
            assert!(matches!(failures[..], [Error::Refused { .. }]), "{failures:?}");
            assert_eq!(states(&fake, REVISION).len(), 1, "{forge}");
        }
    }
}

#[test]
fn the_newer_of_two_concurrent_statuses_wins() {
    for forge in FORGES {
        let fake = FakeForge::start(forge);
        let client = client(&fake);
        // The other job writes between our reading and our writing.
        let name = if forge == ForgeKind::GitLab { "name" } else { "context" };
        let state = if forge == ForgeKind::GitLab { "failed" } else { "failure" };
        fake.set_before_the_next(serde_json::json!({
            "state": state,
            name: "speedwell/compare",
            "description": "worse (measured 1970-01-01T00:00:00.009Z)",
        }));
        let older_outcome =
            client.set_status(&status(REVISION, Some(4), CommitState::Success)).unwrap();
        assert_eq!(older_outcome, StatusOutcome::Outdated, "{forge}");
        let last = states(&fake, REVISION).pop().unwrap();
        assert!(["failed", "failure"].contains(&&*last), "{forge}: {last}");
    }
}
