//! Failing variants: each is reported with its stage and reason, and the others are still measured.

use super::experiments::{all_values, data};
use super::harness_driver::is_missing;
use super::project::{TempProject, repository};
use serde_json::Value;

/// Four variants of a server (tests/experiment/server.py), only one of which works.
fn servers(behind: &str) -> TempProject {
    let server = repository().join("crates/speedwell/tests/experiment/server.py");
    let text = format!(
        r#"
[[variant]]
name = "good"
[[variant]]
name = "crashing"
args = ["dies=50", "says=the sky is falling"]
[[variant]]
name = "hasty"
args = ["exits=3"]
[[variant]]
name = "unproven"
assert = {{ stderr = "mode:on" }}
[[group]]
name = "web"
kind = "server"
[group.target]
command = ["python3", "{}", "{{port}}"]
[group.load]
requests = 100
concurrency = 2
{behind}"#,
        server.display()
    );
    TempProject::new().with("failing.toml", &text)
}

/// The failure of a variant in a case.
#[track_caller]
fn failure<'a>(found: &'a Value, case: &str, variant: &str) -> &'a Value {
    let failures = found["failures"].as_array().unwrap();
    let failure =
        failures.iter().find(|failure| failure["case"] == case && failure["variant"] == variant);
    failure.unwrap_or_else(|| panic!("{variant} did not fail in {case}: {failures:#?}"))
}

#[test]
fn variants_that_fail_do_not_keep_others_from_being_measured() {
    if is_missing("python3") {
        return;
    }
    let project = servers("[plan]\ncontrol = \"good\"\n");
    let answer = project.run(&["run", "failing.toml", "--runs=1", "--format=json"]);
    let found = data(&answer.expect_status(2));
    let case = "failing/web";
    let reason = |variant: &str| {
        let cause = &failure(&found, case, variant)["cause"];
        format!("{}: {}", cause["stage"], cause["reason"])
    };
    let crashed = reason("crashing");
    assert!(crashed.starts_with("\"load\"") && crashed.contains("signal 11"), "{crashed}");
    assert_eq!(failure(&found, case, "crashing")["stderr_tail"], "the sky is falling");
    assert!(
        reason("hasty").contains("ended before it was ready: exited with status 3"),
        "{}",
        reason("hasty")
    );
    assert!(
        reason("unproven").contains("'mode:on': the variant did not take effect"),
        "{}",
        reason("unproven")
    );
    // Only the working one and its control have figures.
    let measured = all_values(&found, "changes", "candidate");
    assert!(
        !measured.is_empty() && measured.iter().all(|name| *name == "good-again"),
        "{measured:?}"
    );
    // In a line to type, all placeholders are filled in.
    let replay = failure(&found, case, "hasty")["replay"].as_str().unwrap();
    assert!(replay.ends_with("server.py 3000 exits=3"), "{replay}");
    let shown = project.run(&["report", "-v"]).expect_status(0);
    shown.expect_stdout(&[
        "failing/web (crashing): failed at 'load': the server ended during the load: was killed by signal",
        "the sky is falling",
        "failing/web (hasty): failed at 'ready'",
        "failing/web (unproven): failed at 'proof of the variant'",
    ]);
}

#[test]
fn a_trial_names_each_variant_that_fails_and_its_stage() {
    if is_missing("python3") {
        return;
    }
    let answer = servers("").run(&["run", "failing.toml", "--test", "-v"]);
    // A single request does not make the crashing one fail.
    answer.expect_status(2).expect_stdout(&[
        "2 of 4 combinations of case and variant work",
        "failing/web (hasty): failed at 'ready'",
        "failing/web (unproven): failed at 'proof of the variant'",
    ]);
}

#[test]
fn a_server_that_never_listens_is_reported_after_its_time_limit() {
    let text = r#"
[[variant]]
name = "only"
[[group]]
name = "deaf"
kind = "server"
[group.target]
command = ["sleep", "60"]
ready = { http = "/", within = "200ms" }
[group.load]
requests = 1
[[group]]
name = "fine"
kind = "command"
target.command = ["true"]
"#;
    let project = TempProject::new().with("deaf.toml", text);
    let answer = project.run(&["run", "deaf.toml", "--runs=1"]);
    answer.expect_status(2).expect_stdout(&[
        "deaf/deaf (only): failed at 'ready': not ready within 0.2 s: nothing listens on port",
        "deaf/fine",
    ]);
}

#[test]
fn a_crashing_command_is_reported_with_its_last_output() {
    let text = r#"
[[variant]]
name = "good"
args = ["kill -0 $$"]
[[variant]]
name = "crashing"
args = ["echo first >&2; echo out of cheese >&2; kill -SEGV $$"]
[[group]]
name = "shop"
kind = "command"
target.command = ["sh", "-c"]
[[claim]]
say = "Crashing is slower"
expr = "wall_time(crashing) > wall_time(good)"
"#;
    let project = TempProject::new().with("shop.toml", text);
    let answer = project.run(&["run", "shop.toml", "--runs=2", "--format=json"]);
    let found = data(&answer.expect_status(2));
    let failed = failure(&found, "shop/shop", "crashing");
    assert_eq!(failed["stderr_tail"], "first\nout of cheese");
    assert_eq!(all_values(&found, "claims", "answer"), ["undecided"]);
    project.run(&["report"]).expect_status(0).expect_stdout(&[
        "shop/shop (crashing): failed at 'alive': was killed by signal 11",
        "(2 times)",
        "out of cheese",
        "not measured",
    ]);
}
