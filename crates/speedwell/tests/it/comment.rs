//! `speedwell comment` in CI jobs, against a fake forge on this machine.

use super::fake_forge::FakeForge;
use super::project::{CommandResult, TempProject};
use speedwell_server::clients::forge::ForgeKind;

/// Results in the format of compare.js, whose second program is a fifth slower.
fn results() -> String {
    let mut text = "\"binary\",\"filename\",\"configuration\",\"rate\",\"time\"\n".to_owned();
    for run in 0..16 {
        for (binary, rate) in [("old", 1000), ("new", 800)] {
            let rate = rate + run * 7 % 11;
            text.push_str(&format!("\"{binary}\",\"misc/copy.js\",\"n=1\",{rate},0.1\n"));
        }
    }
    text
}

struct PullJob {
    project: TempProject,
    forge: FakeForge,
}

impl PullJob {
    fn new(forge: ForgeKind) -> PullJob {
        PullJob {
            project: TempProject::new().with("results.csv", &results()),
            forge: FakeForge::start(forge),
        }
    }

    /// Runs the command in a job for pull request 12.
    fn run(&self, words: &[&str]) -> CommandResult {
        let api = |version: &str| format!("{}/api/{version}", self.forge.address);
        let mut command = self.project.command(words);
        let variables = match self.forge.forge {
            ForgeKind::GitLab => vec![
                ("GITLAB_CI", "true".to_owned()),
                ("CI_API_V4_URL", api("v4")),
                ("CI_PROJECT_PATH", "owner/name".to_owned()),
                ("CI_MERGE_REQUEST_IID", "12".to_owned()),
                ("CI_COMMIT_SHA", REVISION.to_owned()),
                ("CI_JOB_URL", "https://forge.example/job/5".to_owned()),
                ("GITLAB_TOKEN", "secret".to_owned()),
            ],
            of_actions => vec![
                ("GITHUB_ACTIONS", "true".to_owned()),
                ("GITHUB_API_URL", api(if of_actions == ForgeKind::Gitea { "v1" } else { "v3" })),
                ("GITHUB_REPOSITORY", "owner/name".to_owned()),
                ("GITHUB_REF", "refs/pull/12/merge".to_owned()),
                ("GITHUB_SHA", REVISION.to_owned()),
                ("GITHUB_SERVER_URL", "https://forge.example".to_owned()),
                ("GITHUB_RUN_ID", "5".to_owned()),
                ("GITHUB_TOKEN", "secret".to_owned()),
            ],
        };
        for name in ["GITHUB_ACTIONS", "GITLAB_CI", "GITEA_ACTIONS", "FORGEJO_ACTIONS"] {
            command.env_remove(name);
        }
        if self.forge.forge == ForgeKind::Gitea {
            command.env("GITEA_ACTIONS", "true");
        }
        CommandResult::from(command.envs(variables).output().unwrap())
    }

    /// Returns the body of the only comment.
    #[track_caller]
    fn comment(&self) -> String {
        let comments = self.forge.comments();
        let [comment] = &comments[..] else {
            panic!("one comment: {comments:#?}");
        };
        comment.body.clone()
    }
}

const REVISION: &str = "0123456789abcdef0123456789abcdef01234567";

#[test]
fn the_answer_is_one_comment_and_a_status_on_every_forge() {
    for forge in [ForgeKind::GitHub, ForgeKind::GitLab, ForgeKind::Gitea] {
        let job = PullJob::new(forge);
        let words = ["comment", "results.csv", "--status", "--fail-on", "worse"];
        let said = job.run(&words).expect_status(1);
        said.expect_stderr(&["wrote comment ", "set the status 'speedwell/compare' of 0123456789"]);
        let comment = job.comment();
        let mut lines = comment.lines();
        assert_eq!(lines.next(), Some("<!-- speedwell:name:compare -->"));
        let stamp = format!("<!-- measured {REVISION} at ");
        assert!(lines.next().unwrap().starts_with(&stamp), "{comment}");
        assert!(comment.contains("worse"), "{comment}");
        assert!(comment.contains("[the job](<https://forge.example/"), "{comment}");

        let statuses = job.forge.statuses();
        let refused = if forge == ForgeKind::GitLab { "failed" } else { "failure" };
        assert_eq!(statuses[0]["state"], refused, "{statuses:?}");
        let link = statuses[0]["target_url"].as_str().unwrap();
        assert!(link.starts_with("https://forge.example/"), "{link}");
        let description = statuses[0]["description"].as_str().unwrap();
        assert!(!description.is_empty() && description.len() <= 140, "{description}");

        let again = job.run(&["comment", "results.csv"]).expect_status(0);
        again.expect_stderr(&["comment 1001 on owner/name"]);
        job.comment();
        // Another check has a separate comment.
        job.run(&["comment", "results.csv", "--check", "other"]).expect_status(0);
        assert_eq!(job.forge.comments().len(), 2);
    }
}

#[test]
fn a_failed_comparison_is_posted_as_not_compared() {
    let job = PullJob::new(ForgeKind::GitHub);
    let words = ["comment", "missing.csv", "--status"];
    job.run(&words).expect_status(2).expect_stderr(&["missing.csv"]);
    assert!(job.comment().contains("**not compared: "), "{}", job.comment());
    assert_eq!(job.forge.statuses()[0]["state"], "error");
    // The same without any session.
    job.run(&["comment"]).expect_status(2);
    assert!(job.comment().contains("**not compared: "), "{}", job.comment());
}

#[test]
fn names_in_a_comment_cause_no_mention_and_no_markup() {
    let job = PullJob::new(ForgeKind::GitHub);
    let hostile = results().replace("copy.js", "@all <img src=x> #7 --> [a](http://b).js");
    std::fs::write(job.project.path("results.csv"), hostile).unwrap();
    job.run(&["comment", "results.csv"]).expect_status(0);
    let comment = job.comment();
    let without_code: String = comment.split('`').step_by(2).collect();
    let live_text = without_code.replace("\\[", "");
    for live in ["@all", "<img", " #7", "[a](http://b)"] {
        assert!(!live_text.contains(live), "'{live}' in {comment}");
    }
}

#[test]
fn a_text_is_posted_unchanged_and_a_refusal_is_a_warning() {
    let job = PullJob::new(ForgeKind::Gitea);
    std::fs::write(job.project.path("report.md"), "**hello**\n").unwrap();
    job.run(&["comment", "--text", "report.md"]).expect_status(0);
    assert!(job.comment().contains("**hello**\n"), "{}", job.comment());

    job.forge.refuse_writing(403);
    std::fs::write(job.project.path("report.md"), "**changed**\n").unwrap();
    let refused = job.run(&["comment", "--text", "report.md"]).expect_status(0);
    let refused = refused.expect_stderr(&["warning: ", "write:issue", "status 403"]);
    assert!(!refused.stderr.contains("secret"), "{}", refused.stderr);
    assert!(job.comment().contains("**hello**"));
}

#[test]
fn the_status_is_set_even_if_the_comment_is_refused() {
    let job = PullJob::new(ForgeKind::GitHub);
    job.forge.refuse_comments(403);
    let words = ["comment", "results.csv", "--status", "--fail-on", "worse"];
    job.run(&words).expect_status(1).expect_stderr(&[
        "warning: ",
        "pull-requests: write",
        "set the status 'speedwell/compare' of 0123456789",
    ]);
    assert_eq!(job.forge.comments().len(), 0);
    assert_eq!(job.forge.statuses()[0]["state"], "failure");
}

#[test]
fn without_a_ci_job_the_pull_request_must_be_given() {
    let project = TempProject::new().with("results.csv", &results());
    let run = |words: &[&str]| {
        let mut command = project.command(words);
        for name in [
            "GITHUB_ACTIONS",
            "GITLAB_CI",
            "GITHUB_TOKEN",
            "GH_TOKEN",
            "GITEA_TOKEN",
            "FORGEJO_TOKEN",
        ] {
            command.env_remove(name);
        }
        CommandResult::from(command.output().unwrap())
    };
    let printed = run(&["comment", "results.csv", "--dry-run"]).expect_status(0);
    assert!(printed.stdout.starts_with("**"), "{}", printed.stdout);
    run(&["comment", "results.csv"])
        .expect_status(2)
        .expect_stderr(&["no pull request given", "--on github:OWNER/NAME#12"]);
    run(&["comment", "results.csv", "--on", "github:owner/name#12"])
        .expect_status(2)
        .expect_stderr(&["no token for owner/name#12", "GITHUB_TOKEN or GH_TOKEN", "--token-file"]);
    run(&["comment", "results.csv", "--on", "gitea:http://forge.example/a/b#1"])
        .expect_status(2)
        .expect_stderr(&["is not encrypted"]);

    let forge = FakeForge::start(ForgeKind::Gitea);
    std::fs::write(project.path("token"), "secret\n").unwrap();
    let on = format!("gitea:{}/owner/name#12", forge.address);
    run(&["comment", "results.csv", "--on", &on, "--token-file", "token"]).expect_status(0);
    assert_eq!((forge.comments().len(), forge.foreign_tokens()), (1, 0));
}
