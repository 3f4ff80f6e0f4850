//! Services shared by several runs: how often they are started, messages when they fail, and no
//! leftovers.

use super::experiment_place::{
    NEVER_READY, ON_ONE_MACHINE, by_ssh, expect_end_of, expect_failure, measured, pids,
    placed_project,
};
use super::harness_driver::is_missing;
use super::project::TempProject;
use speedwell_fixtures::clusters::SshdServer;

/// Two variants of two cases: two runs of each form a block of a case.
const TWICE: (&str, &str) = (
    "[[group]]\nname = \"web\"\n",
    "[[variant]]\nname = \"old\"\n[[variant]]\nname = \"new\"\n[[group]]\nname = \"web\"\nparameters = { turn = [1, 2] }\n",
);

fn scope(name: &'static str) -> (&'static str, &'static str) {
    let with = match name {
        "block" => "scope = \"block\"\nready = { command",
        _ => "scope = \"session\"\nready = { command",
    };
    ("ready = { command", with)
}

/// Measures, and counts how often the service and the target were started.
#[track_caller]
fn expect_starts(project: &TempProject, runs: &str, [db, web]: [usize; 2]) {
    measured(project, &[runs]).expect_status(0);
    let own = [pids(project, "db"), pids(project, "web")];
    assert_eq!(own.each_ref().map(Vec::len), [db, web]);
    expect_end_of(&own.concat());
}

/// Experiments share the lock of this machine; exclusive users, such as a fleet, may wait for it for
/// minutes.
mod mostly_waits {
    use super::*;

    #[test]
    fn block_services_start_once_per_block_and_session_services_once() {
        if is_missing("python3") {
            return;
        }
        let here = |name| placed_project(&[&ON_ONE_MACHINE[..], &[TWICE, scope(name)]].concat());
        expect_starts(&here("block"), "--runs=2", [2, 8]);
        expect_starts(&here("session"), "--runs=2", [1, 8]);
    }

    #[test]
    fn services_on_machines_of_their_own_are_shared_as_well() {
        if is_missing("python3") {
            return;
        }
        expect_starts(&placed_project(&[TWICE, scope("block")]), "--runs=2", [2, 8]);
        let sshd = match SshdServer::start() {
            Ok(sshd) => sshd,
            Err(reason) => return eprintln!("skipped: {reason}"),
        };
        expect_starts(&by_ssh(&sshd, &[scope("session")]), "--runs=2", [1, 2]);
    }

    #[test]
    fn a_shared_service_that_fails_is_named_with_its_machine() {
        if is_missing("python3") {
            return;
        }
        let db = "service 'db' on 'lab-2': ";
        let words = "\"python3\", \"-S\", \"{root}/part.py\", \"db\"";
        expect_failure(
            &[(words, "\"nothing-of-that-name\""), scope("session")],
            &["start", db, "nothing-of-that-name"],
        );
        expect_failure(
            &[scope("block"), NEVER_READY, ("within = \"60s\"", "within = \"1s\"")],
            &["ready", db, "not ready within 1 s"],
        );
        let dies = ("\"PIDS\"]\nready", "\"PIDS\", \"dies=9\"]\nready");
        expect_failure(&[dies, scope("block")], &["alive", db, "it ended by itself"]);
        let deaf = ("\"PIDS\"]\nready", "\"PIDS\", \"deaf\"]\nstop = { grace = \"200ms\" }\nready");
        expect_failure(&[deaf, scope("session")], &["stop", db, "was killed"]);
    }

    #[test]
    fn a_service_that_was_lost_is_started_anew_for_the_next_run() {
        if is_missing("python3") {
            return;
        }
        // It answers a readiness check and one run: one of four requests, and those of the target's own
        // checks.
        let dies = ("\"{port}\", \"PIDS\"]\nready", "\"{port}\", \"PIDS\", \"dies=70\"]\nready");
        let project = placed_project(&[&ON_ONE_MACHINE[..], &[dies, scope("session")]].concat());
        let answer = measured(&project, &["--runs=4"]);
        answer.expect_stdout(&["service 'db': it ended by itself"]);
        let own = [pids(&project, "db"), pids(&project, "web")];
        assert!(own[0].len() > 1, "{own:?}");
        expect_end_of(&own.concat());
    }
}
