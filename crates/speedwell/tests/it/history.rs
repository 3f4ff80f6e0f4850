//! Results over time: the trend of a project along its commits, its changes, and the gate.

use super::project::{CommandResult, TempProject};
use super::repository::{BENCH, TestRepository};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::fmt::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Number of commits of the project, and the first one with the change.
pub const COMMITS: u32 = 40;
pub const SLOWER: u32 = 23;

/// Three figures of a commit, within a percent, in no particular order; 8% lower from [`SLOWER`]
/// on.
pub fn figures(commit: u32) -> [f64; 3] {
    let factor = if commit < SLOWER { 1.0 } else { 0.92 };
    [0, 1, 2].map(|run| {
        let drawn = (commit * 3 + run).wrapping_mul(2_654_435_761);
        let drawn = (drawn ^ (drawn >> 15)).wrapping_mul(2_246_822_519);
        let noise = f64::from(drawn) / f64::from(u32::MAX) - 0.5;
        (1000.0 * factor * (1.0 + 0.02 * noise)).round()
    })
}

/// The benchmark file as of a commit.
pub fn benchmark(commit: u32) -> String {
    let [a, b, c] = figures(commit);
    format!("case n=1\n* {a} {b} {c}\n")
}

/// A repository whose benchmark became 8% slower with commit [`SLOWER`]. Every commit is dated
/// before its parent.
pub fn repository() -> Option<TestRepository> {
    let repository = TestRepository::new()?;
    let commit = |commit: u32| {
        let unix_s = 2_000_000_000 - i64::from(commit) * 1000;
        (format!("commit {commit}"), unix_s, benchmark(commit))
    };
    let commits: Vec<_> = (1..=COMMITS).map(commit).collect();
    repository.import_commits("g/parse.fake", &commits);
    Some(repository)
}

/// The exported lines of a session of one commit; `edit` changes its header.
pub fn session(commit: u32, [revision, tree]: [&str; 2], edit: impl Fn(&mut Value)) -> String {
    let mut header = json!({
        "speedwell": "session", "version": 1, "id": format!("session-{commit}-{revision}"),
        "started_unix_ms": 1_700_000_000_000_i64 + i64::from(commit), "state": "complete",
        "tags": [], "command": ["speedwell", "run", "g"],
        "design": {"order": "blocks", "stopping": {"kind": "fixed", "runs": 3}, "baseline": "default",
                   "seed": 1, "runs_per_block": 1},
        "variants": [{"name": "default", "program": null}],
        "metrics": [{"name": "throughput", "unit": "1/s", "better": "higher"}],
        "environment": {"host": "lab", "cpu": "C", "cpus": 2},
        "origin": {"revision": revision, "tree": tree, "branch": "main", "source": "git"},
        "runs": 3,
    });
    edit(&mut header);
    let mut lines = format!("{header}\n");
    for (slot, value) in figures(commit).into_iter().enumerate() {
        let run = json!({"run": {
            "benchmark": "g/parse.fake", "parameters": [["n", 1.0]], "variant": "default", "slot": slot,
            "block": slot, "started_unix_ms": 1_700_000_000_000_i64, "wall_ns": 1_000_000,
            "samples": [{"metric": "throughput", "value": value}],
        }});
        writeln!(lines, "{run}").unwrap();
    }
    lines
}

/// [`repository`] with a session of every commit in its store. `edit` changes each by its commit
/// number, or omits it by returning false.
pub fn measured_repository(edit: impl Fn(u32, &mut Value) -> bool) -> Option<TestRepository> {
    let repository = repository()?;
    let line = repository.run_git(&["log", "--reverse", "--format=%H %T", "main"]);
    let mut text = String::new();
    for (commit, line) in (1..).zip(line.lines()) {
        let (revision, tree) = line.split_once(' ').unwrap();
        if edit(commit, &mut Value::Null) {
            text += &session(commit, [revision, tree], |header| {
                edit(commit, header);
            });
        }
    }
    import(&repository, &text);
    Some(repository)
}

/// Imports exported sessions into the store of the repository.
pub fn import(repository: &TestRepository, text: &str) {
    let file = repository.outside("all.jsonl");
    std::fs::write(&file, text).unwrap();
    repository.run(&["import", file.to_str().unwrap(), "-q"]).expect_status(0);
}

pub fn every(_: u32, _: &mut Value) -> bool {
    true
}

/// The command that lists changes as JSON.
pub fn list_sessions<'a>(words: &[&'a str]) -> Vec<&'a str> {
    [&["history", "changes", "--format", "json"][..], words].concat()
}

pub fn changes(answer: CommandResult) -> Vec<Value> {
    let json = answer.expect_status(0).json();
    json["changes"].as_array().unwrap().clone()
}

#[test]
fn a_change_is_found_at_its_commit_and_fails_the_gate_until_accepted() {
    let Some(repository) = repository() else {
        return;
    };
    for commit in 1..=COMMITS {
        let revision = format!("main~{}", COMMITS - commit);
        repository.run_git(&["checkout", "--quiet", &revision]);
        let words = ["run", "g", "-n", "3", "--branch", "main"];
        repository.run(&words).expect_status(0);
    }
    repository.run_git(&["checkout", "--quiet", "main"]);
    let found = changes(repository.run(&list_sessions(&[])));
    assert_eq!(found.len(), 1, "{found:?}");
    let slower = repository.commit_id(&format!("HEAD~{}", COMMITS - SLOWER));
    assert_eq!(found[0]["after"], slower.as_str());
    assert_eq!(found[0]["before"], repository.commit_id(&format!("{slower}~")).as_str());
    assert_eq!((&found[0]["state"], &found[0]["verdict"]), (&"found".into(), &"worse".into()));
    let change = found[0]["change"].as_f64().unwrap();
    assert!((change + 0.08).abs() < 0.005, "{change}");

    let gate = ["history", "changes", "--fail-on", "worse"];
    repository.run(&gate).expect_status(1);
    let since = |revision: &str| repository.run(&[&gate[..], &["--since", revision]].concat());
    since(&slower).expect_status(0);
    since(&format!("{slower}~")).expect_status(1);
    repository.run(&[&gate[..], &["--threshold", "10%"]].concat()).expect_status(0);
    repository
        .run(&["history", "triage", "1", "accepted", "--note", "fixes a leak"])
        .expect_status(0);
    repository.run(&gate).expect_status(0);
    let listed = repository.run(&["history", "changes"]);
    listed.expect_status(0).expect_stdout(&[
        "no open change",
        "accepted: fixes a leak",
        "commit 23",
    ]);
}

#[test]
fn the_stored_commit_order_works_without_a_repository_and_after_rewrites() {
    let Some(repository) = measured_repository(every) else {
        return;
    };
    let found = changes(repository.run(&list_sessions(&[])));
    let store = repository.project.path(".speedwell/results.db");
    let elsewhere = TempProject::new();
    let answer =
        elsewhere.run(&[&list_sessions(&[])[..], &["--db", store.to_str().unwrap()]].concat());
    assert_eq!(changes(answer), found);

    // Every commit once more, with the same files under another id.
    let mut parent = String::new();
    for commit in (0..COMMITS).rev() {
        let tree = format!("HEAD~{commit}^{{tree}}");
        let mut words = vec!["commit-tree", &tree, "-m", "rewritten"];
        if !parent.is_empty() {
            words.extend(["-p", &parent]);
        }
        parent = repository.run_git(&words);
    }
    repository.run_git(&["branch", "rewritten", &parent]);
    let adopted = changes(repository.run(&list_sessions(&["--branch", "rewritten"])));
    assert_eq!(adopted.len(), 1);
    assert_eq!(adopted[0]["after"], found[0]["after"]);
    let unknown = repository.run(&list_sessions(&["--branch", "nowhere"]));
    unknown.expect_status(2).expect_stderr(&["no branch 'nowhere' here", "'main', 'rewritten'"]);
}

#[test]
fn an_unrelated_repository_does_not_determine_the_order_of_revisions() {
    let (Some(repository), Some(other)) = (measured_repository(every), TestRepository::new())
    else {
        return;
    };
    other.commit_all("the first of another project");
    let store = repository.project.path(".speedwell/results.db");
    let words = [&list_sessions(&[])[..], &["--db", store.to_str().unwrap()]].concat();
    // The commit graph is unknown here: revisions are in the order in which they were measured.
    let note = "none of the revisions that were measured last";
    let measured_order = changes(other.run(&words).expect_stdout(&[note]));
    assert_eq!(measured_order.len(), 1);
    let found = changes(repository.run(&list_sessions(&[])));
    assert_eq!(measured_order[0]["after"], found[0]["after"]);
    // The cached order of revisions stays as it is.
    assert_eq!(changes(other.run(&words)), found);
    assert_eq!(changes(repository.run(&list_sessions(&[]))), found);
}

#[test]
fn a_shallow_clone_continues_the_stored_commit_order() {
    let Some(repository) = measured_repository(every) else {
        return;
    };
    let found = changes(repository.run(&list_sessions(&[])));
    let store = repository.project.path(".speedwell/results.db");
    let origin = format!("file://{}", repository.folder().display());
    let in_clone = |depth: &str| {
        let clone = repository.outside(depth);
        repository.run_git(&[
            "clone",
            "--quiet",
            "--depth",
            depth,
            &origin,
            clone.to_str().unwrap(),
        ]);
        let mut command = repository.command(&list_sessions(&["--db", store.to_str().unwrap()]));
        CommandResult::from(command.current_dir(clone).output().unwrap())
    };
    repository.commit_all("commit 41");
    let reaches = in_clone("3");
    assert!(!reaches.stdout.contains("shallow"), "{reaches:#?}");
    assert_eq!(changes(reaches), found);

    for commit in 42..50 {
        repository.commit_all(&format!("commit {commit}"));
    }
    let has_a_gap = in_clone("2").expect_stdout(&["git fetch --unshallow"]);
    assert_eq!(changes(has_a_gap), found);
    assert_eq!(changes(repository.run(&list_sessions(&[]))), found);
}

#[test]
fn measuring_on_another_machine_neither_causes_nor_hides_a_change() {
    let of_two = |commit: u32, header: &mut Value| {
        let name = if commit.is_multiple_of(3) { "old" } else { "new" };
        header["environment"]["machine"] = name.into();
        true
    };
    let Some(repository) = measured_repository(of_two) else {
        return;
    };
    let found = changes(repository.run(&list_sessions(&[])));
    assert_eq!(found.len(), 1);
    let trend = repository.run(&["history", "trend", "parse", "--format", "csv"]);
    let csv = trend.expect_status(0).stdout;
    assert_eq!(csv.lines().count() as u32, 1 + COMMITS);
    assert_eq!(csv.matches(",old,").count() as u32, COMMITS / 3);
}

#[test]
fn uncommitted_results_are_drawn_but_cause_no_new_change() {
    let Some(repository) = measured_repository(every) else {
        return;
    };
    repository.write_file("g/parse.fake", "case n=1\n* 1 2 3\n");
    repository.run(&["run", "g", "-n", "3"]).expect_status(0);
    let trend = repository.run(&["history", "trend", "--format", "json"]);
    let shown = trend.expect_status(0).json();
    let points = shown["points"].as_array().unwrap();
    assert_eq!(points.len() as u32, COMMITS + 1);
    let dirty = points.iter().filter(|point| point["dirty"] == true);
    assert_eq!(dirty.count(), 1);
    assert_eq!(changes(repository.run(&list_sessions(&[]))).len(), 1);
}

#[test]
fn a_renamed_benchmark_keeps_its_history_and_a_rename_can_be_taken_back() {
    let Some(repository) = measured_repository(|commit, _| commit < 30) else {
        return;
    };
    repository.run_git(&["mv", "g/parse.fake", "g/parser.fake"]);
    for commit in 41..=52 {
        repository.write_file("g/parser.fake", &benchmark(commit));
        repository.commit_all(&format!("commit {commit}"));
        repository.run(&["run", "g", "-n", "3"]).expect_status(0);
    }
    let points = || {
        let answer = repository.run(&["history", "trend", "parser", "--format", "csv"]);
        answer.expect_status(0).stdout.lines().count() - 1
    };
    assert_eq!(points(), 12);
    repository
        .run(&["history", "changes"])
        .expect_status(0)
        .expect_stdout(&["Did 'g/parse.fake n=1' become 'g/parser.fake n=1'?"]);
    let rename = |words: &[&str]| repository.run(&[&["history", "rename"][..], words].concat());
    rename(&["g/nothing.fake", "g/parser.fake"])
        .expect_status(2)
        .expect_stderr(&["no benchmark or case in the history is named 'g/nothing.fake'"]);
    rename(&["g/parse.fake", "g/parser.fake"]).expect_status(0);
    assert_eq!(points(), 41);
    let found = changes(repository.run(&list_sessions(&[])));
    assert_eq!(found.len(), 1);
    assert_eq!(found[0]["case"], "g/parser.fake n=1");
    rename(&["g/parser.fake", "g/parse.fake"])
        .expect_status(2)
        .expect_stderr(&["so this would be a cycle"]);
    rename(&["g/parse.fake", "--undo"]).expect_status(0);
    assert_eq!(points(), 12);
}

#[test]
fn the_table_exported_for_otava_has_no_gaps() {
    let Some(repository) = measured_repository(every) else {
        return;
    };
    let export = || repository.run(&["history", "trend", "--export", "otava"]);
    let table = export().expect_status(0).stdout;
    let rows: Vec<&str> = table.lines().collect();
    assert_eq!(rows[0], "time,commit,machine,\"g/parse.fake n=1, throughput\"");
    assert_eq!(rows.len() as u32, 1 + COMMITS);
    let mut first = figures(1);
    first.sort_by(f64::total_cmp);
    let id = repository.commit_id("main~39");
    assert_eq!(rows[1], format!("2033-05-18T03:16:40Z,{id},lab,{}", first[1]));

    repository.write_file("g/parse.fake", "case n=1\n* 1 2 3\ncase n=2\n* 4 5 6\n");
    repository.commit_all("two cases");
    repository.run(&["run", "g", "--runs", "3"]).expect_status(0);
    export()
        .expect_status(0)
        .expect_stderr(&["40 sessions lack a point in some series and were left out"]);
    let one = repository.run(&["history", "trend", "n=1", "--export", "otava"]);
    assert_eq!(one.expect_status(0).stdout.lines().count() as u32, 2 + COMMITS);
}

#[test]
fn the_pages_of_github_action_benchmark_get_an_entry_for_each_session() {
    let Some(repository) = measured_repository(every) else {
        return;
    };
    let words = ["history", "trend", "--export", "data.js"];
    let text = repository.run(&words).expect_status(0).stdout;
    let data = text.strip_prefix("window.BENCHMARK_DATA = ").unwrap();
    let data: Value = serde_json::from_str(data).unwrap();
    let entries = data["entries"]["Benchmark, higher is better"].as_array().unwrap();
    assert_eq!(entries.len() as u32, COMMITS);
    let (first, tip) = (&entries[0], repository.commit_id("main"));
    assert_eq!(first["commit"]["message"], "commit 1");
    assert_eq!(first["commit"]["timestamp"], "2033-05-18T03:16:40Z");
    assert_eq!(entries[39]["commit"]["id"], *tip);
    assert_eq!(first["tool"], "customBiggerIsBetter");
    let mut figures = figures(1);
    figures.sort_by(f64::total_cmp);
    let bench = &first["benches"][0];
    assert_eq!(
        (&bench["value"], &bench["extra"]),
        (&figures[1].into(), &"runs: 3".into()),
        "{bench}"
    );

    let other = TempProject::new();
    std::fs::write(other.path("data.js"), &text).unwrap();
    other.run(&["import", "data.js", "-q"]).expect_status(0);
    let sessions = other.run(&["history", "--format", "csv"]).stdout;
    assert_eq!(sessions.lines().count() as u32, 1 + COMMITS);
}

#[test]
fn the_chart_shows_failures_unmeasured_releases_and_the_parent_branch() {
    let Some(repository) = measured_repository(|commit, _| commit != 12) else {
        return;
    };
    repository.run_git(&["tag", "v1.0", "main~28"]);
    let page = |words: &[&str]| {
        let words = [&["history", "trend", "--format", "html"], words].concat();
        repository.run(&words).expect_status(0).stdout
    };
    let whole = page(&[]);
    assert!(whole.contains("v1.0"), "the twelfth commit has no point");
    assert!(!whole.contains("class=\"failure\"") && !whole.contains("class=\"continuation\""));

    repository.write_file("g/parse.fake", "case n=1\n* exit:3\n");
    let broken = repository.commit_all("broken");
    repository.run(&["run", "g", "--runs", "3"]).expect_status(2);
    let failed = page(&[]);
    // Each chart is drawn twice, for wide screens and for narrow ones.
    assert_eq!(failed.matches("class=\"failure\"").count(), 2);
    assert!(failed.contains(&format!("{} failed in session @40", &broken[..10])));

    repository.run_git(&["checkout", "-q", "-b", "topic", "main~10"]);
    repository.write_file("g/parse.fake", "case n=1\n* 1000\n");
    repository.commit_all("own way");
    repository.run(&["run", "g", "--runs", "3"]).expect_status(0);
    std::fs::write(repository.project.path("speedwell.toml"), "[history]\nbranch = \"main\"\n")
        .unwrap();
    let topic = page(&["--branch", "topic"]);
    assert_eq!(topic.matches("class=\"continuation\"").count(), 2);
    assert!(topic.contains("<title>main</title>"));
}

/// A file above the root of the project is that of another project, whatever it says.
#[test]
fn a_threshold_above_the_project_root_is_ignored() {
    let project = TempProject::new()
        .with("speedwell.toml", "[history]\nthreshold = \"a lot\"\n")
        .with("inner/.speedwell/empty", "")
        .with("inner/g/one.fake", "case n=1\n* 1\n");
    let inside = |words: &[&str]| {
        let mut command = project.command(words);
        command.current_dir(project.path("inner"));
        command.output().unwrap()
    };
    assert_eq!(inside(&["run", "g", "-r", "2", "-q"]).status.code(), Some(0));
    let trend = inside(&["history", "trend"]);
    let said = String::from_utf8_lossy(&trend.stderr);
    assert_eq!(trend.status.code(), Some(0), "{said}");
    let outside = project.run(&["history", "trend", "--db", "inner/.speedwell/results.db"]);
    outside.expect_status(2).expect_stderr(&["'a lot'"]);
}

/// Backfills the repository of [`small_repository`] with its program, with two runs per revision.
fn backfill(repository: &TestRepository, words: &[&str]) -> CommandResult {
    let own = ["backfill", "--runs", "2"];
    repository.run(&[&own, words, &BENCH].concat())
}

/// A repository of nine commits whose program cannot be built at the fifth.
fn small_repository() -> Option<TestRepository> {
    let repository = TestRepository::with_program("100")?;
    let build = std::fs::read_to_string(repository.project.path("build.sh")).unwrap();
    for commit in 2..=9 {
        let broken = format!("echo no compiler in $SPEEDWELL_REVISION; exit 3\n{build}");
        repository.write_file("build.sh", if commit == 5 { &broken } else { &build });
        repository.commit_all(&format!("commit {commit}"));
    }
    Some(repository)
}

/// Subjects of the revisions that have points, in order, and the number of series.
fn points(repository: &TestRepository) -> (Vec<String>, usize) {
    let shown = repository.run(&["history", "trend", "--format", "json"]);
    let shown = shown.expect_status(0).json();
    let of_first = shown["trends"][0]["series"].clone();
    let points = shown["points"].as_array().unwrap().iter();
    let points = points.filter(|point| point["series"] == of_first);
    let subjects = points.map(|point| point["subject"].as_str().unwrap().to_owned());
    (subjects.collect(), shown["trends"].as_array().unwrap().len())
}

#[test]
fn old_revisions_get_points_from_coarse_to_fine_and_none_is_measured_twice() {
    let Some(repository) = small_repository() else {
        return;
    };
    let subjects = |numbers: &[u32]| -> Vec<String> {
        let name = |number: &u32| match number {
            1 => "first".to_owned(),
            number => format!("commit {number}"),
        };
        numbers.iter().map(name).collect()
    };
    let answer = backfill(&repository, &["main~8..main", "--points", "3"]);
    answer
        .expect_status(0)
        .expect_stdout(&["3 of 9 revisions have data, 3 measured now, 1 failed"])
        .expect_stderr(&["no compiler in", "cannot measure", "; skipping it"]);
    assert_eq!(points(&repository), (subjects(&[1, 7, 9]), 2));
    let ids = [0, 8, 4, 2].map(|back| repository.commit_id(&format!("main~{back}")));
    assert_eq!(repository.log(), [&ids[0], &ids[1], &ids[3]].map(String::clone));

    let again = || backfill(&repository, &["main~8..main", "--points", "5"]);
    let answer = again().expect_status(0);
    answer.expect_stdout(&["5 of 9 revisions have data, 2 measured now, 1 failed"]);
    assert_eq!(points(&repository).0, subjects(&[1, 3, 7, 8, 9]));
    again().expect_status(0).expect_stdout(&["0 measured now"]);
    assert_eq!(repository.log().len(), 5);
    let all = backfill(&repository, &["main~8..main", "--points", "9"]);
    all.expect_status(1).expect_stderr(&["the history has data for 8 of the 9 revisions"]);

    let listed = repository.run(&["history", "--format", "json"]).expect_status(0).json();
    let failed = listed["sessions"].as_array().unwrap().iter().filter(|own| own["failures"] == 1);
    assert_eq!(failed.count(), 1);
}

#[test]
fn after_ctrl_c_in_a_build_the_same_command_continues() {
    let Some(repository) = small_repository() else {
        return;
    };
    // The build of the third measured revision waits while the file exists.
    let build = "sh build.sh; while [ -e $FLAG ] && [ $(wc -l < $LOG) = 3 ]; do sleep 0.05; done";
    let words =
        ["backfill", "main~8..main", "--points", "3", "--runs", "2", "--build", build, "./bench"];
    let flag = repository.outside("flag");
    std::fs::write(&flag, "").unwrap();
    let mut command = repository.command(&words);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(120);
    while repository.log().len() < 3 {
        assert!(Instant::now() < deadline, "no third build was begun");
        std::thread::sleep(Duration::from_millis(20));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let answer = CommandResult::from(child.wait_with_output().unwrap()).expect_status(130);
    answer.expect_stdout(&["2 of 9 revisions have data, 2 measured now"]).expect_stderr(&[
        "interrupted: completed runs are stored; run the same command to continue",
    ]);
    std::fs::remove_file(flag).unwrap();
    let answer = repository.run(&words).expect_status(0);
    answer.expect_stdout(&["3 of 9 revisions have data, 1 measured now"]);
}

#[test]
fn a_revision_measured_by_a_plain_run_needs_no_other_point() {
    let Some(repository) = small_repository() else {
        return;
    };
    let mut build = Command::new("sh");
    build.arg("build.sh").env("LOG", "/dev/null");
    let built = build.current_dir(repository.project.path("")).status();
    assert!(built.unwrap().success());
    let run = repository.run(&["run", "./bench", "--runs", "2"]);
    run.expect_status(0);
    let answer = backfill(&repository, &["main~8..main", "--points", "2"]);
    answer.expect_status(0).expect_stdout(&["2 of 9 revisions have data, 1 measured now"]);
    assert_eq!(points(&repository), (vec!["first".to_owned(), "commit 9".to_owned()], 2));
    // Another machine has no points yet.
    let other = backfill(&repository, &["main~8..main", "--points", "2", "--machine", "other"]);
    other.expect_status(0).expect_stdout(&["2 measured now"]);
}

#[test]
fn an_invalid_range_is_refused_before_anything_is_built() {
    let Some(repository) = small_repository() else {
        return;
    };
    repository.check_out("main~3").create_branch("side");
    repository.commit_all("beside");
    for (range, reason) in [
        ("main", "expected A..B"),
        ("side..main", "'side' is not a first-parent ancestor of 'main'"),
        ("main..main~2", "'main' is not a first-parent ancestor"),
        ("nowhere..main", "unknown revision 'nowhere'"),
    ] {
        let answer = backfill(&repository, &[range, "--points", "3"]);
        answer.expect_status(2).expect_stderr(&[reason]);
    }
    assert_eq!(repository.log(), [""; 0]);
    let late = backfill(&repository, &["main~2..main", "--points", "3", "--budget", "1ns"]);
    late.expect_status(1)
        .expect_stderr(&["the time budget is used up; run the same command to continue"]);
}

#[test]
fn a_gate_cannot_pass_with_too_few_points() {
    let Some(repository) = measured_repository(|commit, _| commit > 30) else {
        return;
    };
    let listed = repository.run(&["history", "changes"]);
    listed.expect_status(0).expect_stdout(&["no series is long enough", "needs another 8 points"]);
    let gate = repository.run(&["history", "changes", "--fail-on", "worse"]);
    gate.expect_status(2).expect_stderr(&["nothing could be compared"]);
}

#[test]
fn simultaneous_environment_changes_are_named_as_causes() {
    let updated = |commit: u32, header: &mut Value| {
        let kernel = if commit < SLOWER { "6.1.0" } else { "6.2.0" };
        header["environment"]["kernel"] = kernel.into();
        true
    };
    let Some(repository) = measured_repository(updated) else {
        return;
    };
    let found = changes(repository.run(&list_sessions(&[])));
    assert_eq!(found[0]["causes"], "kernel '6.1.0' became '6.2.0'");
}

/// Sessions of every commit whose operations allocate nothing before [`SLOWER`], and once from it on.
fn allocating() -> Option<TestRepository> {
    let repository = repository()?;
    let line = repository.run_git(&["log", "--reverse", "--format=%H %T", "main"]);
    let mut text = String::new();
    for (commit, line) in (1..).zip(line.lines()) {
        let (revision, tree) = line.split_once(' ').unwrap();
        let allocs = u32::from(commit >= SLOWER);
        let measured = session(commit, [revision, tree], |header| {
            header["metrics"] = json!([{"name": "allocs_per_op", "unit": "", "better": "lower"}]);
        });
        for line in measured.lines() {
            let mut line: Value = serde_json::from_str(line).unwrap();
            if line["run"].is_object() {
                line["run"]["samples"] = json!([{"metric": "allocs_per_op", "value": allocs}]);
            }
            writeln!(text, "{line}").unwrap();
        }
    }
    import(&repository, &text);
    Some(repository)
}

#[test]
fn a_change_from_zero_is_found_shown_with_both_levels_and_fails_the_gate() {
    let Some(repository) = allocating() else {
        return;
    };
    let gate = ["history", "changes", "--fail-on", "worse"];
    repository
        .run(&[&gate[..], &["--threshold", "50%"]].concat())
        .expect_status(1)
        .expect_stdout(&["0 -> 1", "worse", "gate failed: 1 change for the worse of 1 series"]);
    let found = changes(repository.run(&list_sessions(&[])));
    let slower = repository.commit_id(&format!("HEAD~{}", COMMITS - SLOWER));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0]["after"], slower.as_str());
    assert_eq!((&found[0]["change"], &found[0]["state"]), (&Value::Null, &"found".into()));
    repository.run(&["history", "trend"]).expect_status(0).expect_stdout(&["0 -> 1"]);
    let number = found[0]["number"].to_string();
    repository.run(&["history", "triage", &number, "accepted"]).expect_status(0);
    repository.run(&gate).expect_status(0);
}
