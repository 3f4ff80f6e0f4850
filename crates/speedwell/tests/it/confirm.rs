//! Suspected changes, measured again: confirmed, refuted, and not measured if both sides are the
//! same program.

use super::project::CommandResult;
use super::repository::{BENCH, TestRepository};
use serde_json::Value;
use speedwell_fixtures::{BEGIN_UNIX_S, ImportedCommit};
use speedwell_model::{ChangeState, IntervalEstimate, RecordedChange};
use speedwell_store::Store;

/// Two revisions whose program takes 100 µs in the first and `after` in the second, with `line` at
/// its end.
fn repository(after: &str, line: &str) -> Option<TestRepository> {
    let repository = TestRepository::with_program("100")?;
    let text = std::fs::read_to_string(repository.project.path("bench.in")).unwrap();
    let repository = repository.with("cost", after).with("bench.in", &format!("{text}{line}"));
    Some(repository.committed("second"))
}

fn confirm(repository: &TestRepository, more: &[&str]) -> CommandResult {
    let words = ["confirm", "--old", "rev:HEAD~1", "--new", "rev:HEAD", "-f", "BM_copy/8$"];
    repository.run(&[&words, &BENCH[..], more].concat())
}

#[test]
fn a_real_change_is_confirmed_at_the_first_look() {
    let Some(repository) = repository("110", "") else {
        return;
    };
    let answer = confirm(&repository, &[]).expect_status(0);
    answer.expect_stdout(&["confirmed: +", "], slower", "14"]);
    let report = repository.run(&["report", "@latest", "--format", "json"]);
    let row = report.expect_status(0).json()["confirmations"][0].clone();
    assert_eq!((&row["state"], &row["runs"]), (&"confirmed".into(), &14.into()), "{row:#}");
    let ends = ["change_low", "change_high"].map(|key| row[key].as_f64().unwrap());
    assert!(ends[0] > 0.09 && ends[1] < 0.11, "{ends:?}");
}

#[test]
fn unchanged_programs_are_refuted_and_identical_files_are_not_measured() {
    let Some(differs) = repository("100", "# another text\n") else {
        return;
    };
    let answer = confirm(&differs, &[]).expect_status(1);
    answer.expect_stdout(&["refuted: ", "14"]);

    let Some(same) = repository("100", "") else {
        return;
    };
    let sentence = "refuted: both programs are the same file; check data, machine and environment";
    confirm(&same, &[]).expect_status(1).expect_stdout(&[sentence]);
    let sessions = same.run(&["history", "--format", "csv"]).stdout;
    assert_eq!(sessions.lines().count(), 1, "{sessions}");
}

/// Measures the program of both revisions on the machine `lab`, and records a suspected change of
/// 10% between them in each of these cases; returns the numbers of the changes.
fn suspect_changes<const N: usize>(repository: &TestRepository, cases: [&str; N]) -> [String; N] {
    for revision in ["HEAD~1", "main"] {
        repository.check_out(revision);
        let mut build = repository.command(&[]);
        let mut shell = std::process::Command::new("sh");
        shell.arg("build.sh").current_dir(repository.project.path(""));
        shell.envs(build.get_envs().filter_map(|(name, value)| Some((name, value?))));
        assert!(shell.status().unwrap().success());
        build.args(["run", "--runs", "1", "--branch", "main", "--machine", "lab"]);
        build.arg("./bench");
        CommandResult::from(build.output().unwrap()).expect_status(0);
    }
    repository.run(&["history", "changes"]).expect_status(0);
    let mut store = Store::open(&repository.project.path(".speedwell/results.db")).unwrap();
    let series = store.list_series().unwrap();
    let (before, after) = (repository.commit_id("HEAD~1"), repository.commit_id("HEAD"));
    let ratio = IntervalEstimate { value: 1.1, low: 1.05, high: 1.15 };
    let change =
        RecordedChange { evidence: 3.5, ..RecordedChange::suspected(&before, &after, ratio) };
    cases.map(|case| {
        let is_of = |name: &str| name.ends_with(case) || name.contains(&format!("{case} "));
        let mut all = series.iter();
        let own = all.find(|own| own.is_primary && is_of(&own.key.case));
        let own = own.unwrap().number;
        let kept = store.replace_changes(own, "main", std::slice::from_ref(&change));
        kept.unwrap()[0].number.to_string()
    })
}

fn recorded_change(repository: &TestRepository, number: &str) -> RecordedChange {
    let store = Store::open(&repository.project.path(".speedwell/results.db")).unwrap();
    let found = store.find_change(number.parse().unwrap());
    found.unwrap().change
}

#[test]
fn confirming_or_refuting_a_change_is_recorded_in_the_history() {
    for (after, status, state) in
        [("110", 0, ChangeState::Confirmed), ("100", 1, ChangeState::Refuted)]
    {
        let Some(repository) = repository(after, "# another text\n") else {
            return;
        };
        let [number] = suspect_changes(&repository, ["BM_copy/8"]);
        let words = ["confirm", &number, "--build", "sh build.sh"];
        let answer = repository.run(&words).expect_status(status);
        answer
            .expect_stderr(&[&format!("change {number} is {state}")])
            .expect_stdout(&["the history was measured on lab"]);
        let known = recorded_change(&repository, &number);
        assert_eq!((known.state, known.confirmed_by), (state, Some(3)));
        let expected = if status == 0 { 1.1 } else { 1.0 };
        assert!((known.ratio.value - expected).abs() < 0.01, "{known:?}");
        let words = ["bisect", "--change", &number, "--build", "sh build.sh"];
        let found = repository.run(&words).expect_status(status);
        found.expect_stdout(&[if status == 0 {
            "made it slower: +"
        } else {
            "the ends do not differ"
        }]);
    }
}

#[test]
fn changes_between_the_same_revisions_share_a_session_which_may_be_interrupted() {
    let Some(repository) = repository("110", "# another text\n") else {
        return;
    };
    let numbers = suspect_changes(&repository, ["BM_copy/8", "BM_copy/64"]);
    let [first, second] = &numbers;
    let words = ["confirm", first, second, "--build", "sh build.sh"];
    repository.with_signal(&words, "INT", "20").expect_status(130);
    for number in &numbers {
        assert_eq!(recorded_change(&repository, number).state, ChangeState::Suspected);
    }
    let resumed = repository.run(&["confirm", "--resume", "@latest"]);
    resumed.expect_status(0).expect_stdout(&["confirmed in 2 of 2 cases"]);
    for number in &numbers {
        let known = recorded_change(&repository, number);
        assert_eq!((known.state, known.confirmed_by), (ChangeState::Confirmed, Some(3)));
    }
}

/// A repository of fifty commits whose history claims that the program became 10% slower with
/// commit `slower`. In fact it takes 100 µs before and `after` afterwards.
fn suspicious_repository(slower: usize, after: &str) -> Option<TestRepository> {
    let repository = TestRepository::with_program("100")?;
    let text = std::fs::read_to_string(repository.project.path("bench.in")).unwrap();
    let commit = |commit: usize| {
        let cost = if commit < slower { "100" } else { after };
        let program = format!("{text}# commit {commit}\n");
        ImportedCommit {
            message: format!("commit {commit}"),
            unix_s: BEGIN_UNIX_S + 3600 * (commit as i64 - 1),
            files: [("cost", cost.to_owned()), ("bench.in", program)]
                .map(|(path, text)| (path.to_owned(), text))
                .into(),
        }
    };
    repository.import_changes(&(2..=50).map(commit).collect::<Vec<_>>());
    let commits = repository.run_git(&["log", "--reverse", "--format=%H %T", "main"]);
    let mut shell = std::process::Command::new("sh");
    shell.arg("build.sh").env("LOG", "/dev/null");
    let built = shell.current_dir(repository.project.path("")).status();
    assert!(built.unwrap().success());
    let words = ["run", "--runs", "1", "-f", "BM_copy/8$", "./bench"];
    repository.run(&words).expect_status(0);
    let exported = repository.run(&["report", "@1", "--export", "jsonl"]).stdout;
    let mut lines = exported.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let (mut header, mut run) = (lines.next().unwrap(), lines.next().unwrap());
    header["runs"] = 1.into();
    let mut all = String::new();
    for (place, line) in commits.lines().enumerate() {
        let (revision, tree) = line.split_once(' ').unwrap();
        header["id"] = format!("session-{place}").into();
        header["origin"]["revision"] = revision.into();
        header["origin"]["tree"] = tree.into();
        let noise = (place * 7 % 11) as f64 * 0.001;
        let factor = if place + 1 < slower { 1.0 } else { 1.1 };
        for sample in run["run"]["samples"].as_array_mut().unwrap() {
            sample["value"] = (100_000.0 * (1.0 + noise) * factor).into();
        }
        all += &format!("{header}\n{run}\n");
    }
    std::fs::write(repository.outside("all.jsonl"), all).unwrap();
    let file = repository.outside("all.jsonl");
    repository.run(&["import", file.to_str().unwrap(), "-q"]).expect_status(0);
    Some(repository)
}

#[test]
fn a_confirming_gate_fails_only_for_confirmed_changes() {
    for (after, status, state) in [("110", 1, "confirmed"), ("100", 0, "refuted")] {
        let Some(repository) = suspicious_repository(20, after) else {
            return;
        };
        let gate = ["history", "changes", "--fail-on", "worse"];
        repository.run(&gate).expect_status(1);
        let confirmed = [&gate[..], &["--confirm", "--build", "sh build.sh"]].concat();
        let answer = repository.run(&confirmed).expect_status(status);
        answer.expect_stderr(&[&format!(" is {state}")]).expect_stdout(&[state]);
        repository.run(&gate).expect_status(status);
    }
}

#[test]
fn an_outlying_newest_point_is_measured_again_by_the_confirming_gate() {
    for (after, status, state) in [("110", 1, "confirmed"), ("100", 0, "refuted")] {
        let Some(repository) = suspicious_repository(50, after) else {
            return;
        };
        let trend = repository.run(&["history", "trend", "BM_copy/8"]);
        trend
            .expect_status(0)
            .expect_stdout(&["The newest point lies beyond all of the 40 before it"]);
        let gate = ["history", "changes", "--fail-on", "worse"];
        repository.run(&gate).expect_status(0);
        let confirmed = [&gate[..], &["--confirm", "--build", "sh build.sh"]].concat();
        let answer = repository.run(&confirmed).expect_status(status);
        answer.expect_stderr(&[&format!("change 1 is {state}")]).expect_stdout(&[state]);
    }
}

#[test]
fn unsuitable_confirmations_are_refused_with_a_hint() {
    let Some(repository) = repository("110", "") else {
        return;
    };
    let refused = |words: &[&str], expected: &[&str]| {
        repository.run(words).expect_status(2).expect_stderr(expected);
    };
    refused(&["confirm", "7"], &["change 7 does not exist", "speedwell history changes"]);
    refused(
        &["confirm", "./bench"],
        &["cannot parse './bench': expected the number of a change", "--old rev:OLD"],
    );
    let runs = confirm(&repository, &["--runs", "3"]).expect_status(2);
    runs.expect_stderr(&["determines the number of runs itself", "leave out --runs"]);
    let order = confirm(&repository, &["--order", "alternate"]).expect_status(2);
    order.expect_stderr(&["randomised blocks"]);
}
