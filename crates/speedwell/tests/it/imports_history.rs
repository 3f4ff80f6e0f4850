//! Files with the results of many revisions: those of asv, github-action-benchmark, bencher and
//! Otava. Each revision becomes one session.

use super::project::{CommandResult, TempProject, repository};
use speedwell_formats::{InputFile, MetricDirections, asv, read, read_input};
use speedwell_model::{MetricDirection, OriginSource, Session};
use speedwell_store::{SessionFilter, Store};
use std::path::{Path, PathBuf};

fn golden(path: &str) -> PathBuf {
    let folder = repository().join("crates/speedwell/tests/golden/history");
    folder.join(path)
}

/// The content of a recorded file.
fn text(path: &str) -> String {
    std::fs::read_to_string(golden(path)).unwrap()
}

/// A project with a copy of the recorded file or folder of that name.
fn project(name: &str) -> TempProject {
    with_copy(TempProject::new(), name, &golden(name))
}

fn with_copy(project: TempProject, name: &str, from: &Path) -> TempProject {
    if from.is_file() {
        return project.with(name, &std::fs::read_to_string(from).unwrap());
    }
    let entries = std::fs::read_dir(from).unwrap();
    entries.fold(project, |project, entry| {
        let entry = entry.unwrap();
        let name = format!("{name}/{}", entry.file_name().display());
        with_copy(project, &name, &entry.path())
    })
}

/// All sessions in the store of a project, the oldest first.
fn sessions(project: &TempProject) -> Vec<Session> {
    let store = Store::open(&project.path(".speedwell/results.db")).unwrap();
    let listed = store.list_sessions(&SessionFilter::default()).unwrap();
    let session = |number| store.load_session(number).unwrap();
    listed.iter().map(|one| session(one.number)).collect()
}

/// The values of a metric over time, with the revisions, for the case with that id.
fn values_over_time(sessions: &[Session], case: &str, metric: &str) -> Vec<(String, f64)> {
    let point = |session: &Session| {
        let run = session.runs.iter().find(|run| run.case.id() == case)?;
        let origin = session.origin.as_ref()?;
        Some((origin.short().to_owned(), run.value_of(metric)?))
    };
    sessions.iter().filter_map(point).collect()
}

/// Imports twice: the second time nothing is added, which is reported.
fn import_twice(project: &TempProject, words: &[&str], count: usize) -> CommandResult {
    let words = [&["import"], words].concat();
    let first = project.run(&words).expect_status(0);
    assert_eq!(sessions(project).len(), count);
    let known = format!("already in the store: {count} sessions");
    project.run(&words).expect_status(0).expect_stderr(&[&known]);
    assert_eq!(sessions(project).len(), count);
    first
}

#[test]
fn a_folder_of_asv_is_a_session_for_each_commit_and_environment() {
    let project = project("asv");
    // As counted by a Python program that reads the files like asv.
    import_twice(&project, &["asv", "--branch", "main"], 38).expect_stderr(&[
        "'asv': 38 sessions (@1 to @38), 23 cases, 422 points, 2 skipped, 45 failed",
        "aaaaaaaa-py2.7-Cython-numpy1.8.json': skipped the file: key must be a string at line 2",
        "bbbbbbbb-py2.7-Cython-numpy1.8.json': skipped the file: the key 'commit_hash' is missing",
        "from machine 'not-cheetah', but its folder belongs to machine 'cheetah'",
        "more or less of 'value' is better, so changes have no verdict",
        "22b920c6-py2.7-Cython-numpy1.8.json': the results of 1 benchmark were left out: they belong to another version",
    ]);
    let sessions = sessions(&project);
    let revisions = sessions.iter().map(|session| &session.origin.as_ref().unwrap().revision);
    let distinct: std::collections::HashSet<_> = revisions.collect();
    assert_eq!(distinct.len(), 37);
    let committed = |session: &Session| session.origin.as_ref().unwrap().committed_unix_ms;
    assert!(sessions.is_sorted_by_key(committed));
    let sum: f64 = (sessions.iter())
        .flat_map(|session| &session.runs)
        .map(|run| {
            run.value_of("time").map_or(0.0, |time| time / 1e9)
                + run.value_of("value").unwrap_or(0.0)
        })
        .sum();
    assert!((sum / 17_275.225_766_768_923 - 1.0).abs() < 1e-12, "{sum}");
    let found = (sessions.iter()).find(|session| committed(session) == Some(1_378_902_176_000));
    let session = found.unwrap();
    let origin = session.origin.as_ref().unwrap();
    assert_eq!(origin.source, OriginSource::File);
    assert_eq!(origin.branch.as_deref(), Some("main"));
    let environment = &session.environment;
    assert_eq!(environment.machine.as_deref(), Some("cheetah"));
    assert_eq!(environment.kernel.as_deref(), Some("Linux (Fedora 20)"));
    assert_eq!(environment.facts["requirement_numpy"], "1.8");
    assert_eq!(environment.facts["environment"], "py2.7-numpy1.8");
    assert_eq!(session.design.work["time_with_version_match"], "1");
    let big = session.runs.iter().find(|run| run.case.id() == "time_ci_big");
    let note = "asv reports quartiles 0.5 and 2.5 and a 99% interval from 0.5 to 2.5.";
    assert_eq!(big.unwrap().notes, [note]);
}

#[test]
fn files_of_asv_mean_the_same_in_both_of_their_forms() {
    let beside = asv::AsvMetadata::default();
    let beside = beside.with_benchmarks(text("asv/benchmarks.json").as_bytes()).unwrap();
    let figures = |path: &str| {
        let text = text(path);
        let input =
            InputFile { label: path, bytes: text.as_bytes(), better: &MetricDirections::default() };
        let session = asv::read_file(&input, &beside, &mut Vec::new()).unwrap();
        let runs = session.runs.iter();
        let mut all: Vec<String> = runs
            .map(|run| format!("{} {:?} {:?}", run.case.id(), run.samples, run.notes))
            .chain(
                session
                    .failures
                    .iter()
                    .map(|failure| format!("{:?} {}", failure.case, failure.cause)),
            )
            .collect();
        all.sort();
        (session.id, all)
    };
    let old = figures("asv/cheetah/22b920c6-py2.7-Cython-numpy1.8.json");
    assert_eq!(old.1.len(), 21 + 2 - 1);
    assert_eq!(old, figures("asv-2/22b920c6-updated.json"));
}

#[test]
fn asv_results_keep_their_samples_parameters_and_failures() {
    let project = project("asv-2/lab/34763eb7-existing-py_opt_venv_bin_python3.json")
        .with("asv-2/lab/machine.json", &text("asv-2/lab/machine.json"))
        .with("asv-2/benchmarks.json", &text("asv-2/benchmarks.json"));
    // The folder of one machine is a results folder as well.
    project.run(&["import", "asv-2/lab"]).expect_status(0).expect_stderr(&["@1: 7 runs"]);
    let session = sessions(&project).remove(0);
    let found = session.runs.iter().map(|run| (run.case.id(), run.samples.len()));
    let found: Vec<(String, usize)> = found.collect();
    let join = |values: &str, samples| (format!("words.Join.time_join {values}"), samples);
    assert_eq!(
        found[..3],
        [
            join("count=100 separator=,", 10),
            join("count=100 separator=--", 10),
            join("count=1000 separator=,", 10)
        ]
    );
    // The median of the samples is the result that asv wrote.
    let value = session.runs[0].value_of("time").unwrap();
    assert!((value / 1_216.496_457_345_783_7 - 1.0).abs() < 1e-12, "{value}");
    assert_eq!(session.runs[0].samples[0].iterations, Some(1.0));
    assert_eq!(session.runs[6].value_of("memory"), Some(8056.0));
    let causes = session.failures.iter().map(|failure| failure.cause.is_skip());
    assert_eq!(causes.collect::<Vec<_>>(), [true, true, false]);
    assert!(session.failures[2].replay.starts_with("asv run --bench '^words.time_fails\\b'"));
    assert_eq!(session.started_unix_ms, 1_795_454_484_879);
    assert_eq!(session.environment.programs[0].path, Path::new("/opt/venv/bin/python3"));
}

/// A result file of asv, with the time of one benchmark.
fn asv_file(commit: usize, environment: &str, seconds: f64) -> String {
    serde_json::json!({
        "commit_hash": format!("{commit:040x}"), "date": 1_700_000_000_000_u64 + commit as u64 * 1_000_000,
        "env_name": environment, "params": {"machine": "lab"}, "python": "3.11", "requirements": {},
        "env_vars": {}, "result_columns": ["result", "params"], "results": {"time_join": [[seconds], []]},
        "durations": {}, "version": 2
    })
    .to_string()
}

#[test]
fn dropping_an_asv_environment_is_not_reported_as_a_change() {
    // One of two environments is slower by 30% and measured for only the first half of the time.
    let files = (0..48).flat_map(|commit| {
        let noise = 1.0 + 0.002 * (commit * 7 % 11) as f64;
        let fast = asv_file(commit, "py3.11", 1e-3 * noise);
        let slow = asv_file(commit, "py3.8", 1.3e-3 * noise);
        let slow = (commit < 24).then(|| (format!("r/lab/{commit}-b.json"), slow));
        [Some((format!("r/lab/{commit}-a.json"), fast)), slow]
    });
    let project =
        TempProject::new().with("r/lab/machine.json", r#"{"machine": "lab", "version": 1}"#);
    let project = files.flatten().fold(project, |project, (name, text)| project.with(&name, &text));
    let imported = project.run(&["import", "r"]).expect_status(0);
    imported.expect_stderr(&["'r': 72 sessions (@1 to @72), 1 case, 72 points"]);
    let changes = project.run(&["history", "changes"]).expect_status(0);
    let changes = changes.expect_stdout(&["no open change in 1 series"]);
    assert!(!changes.stdout.contains("Suspected"), "{changes:#?}");
}

#[test]
fn a_single_file_of_asv_needs_nothing_beside_it() {
    let path = "asv-2/lab/34763eb7-existing-py_opt_venv_bin_python3.json";
    let session = read(path, text(path).as_bytes()).unwrap().remove(0);
    assert_eq!(session.runs[0].case.id(), "words.Join.time_join param1=100 param2=,");
    let names: Vec<&str> = session.metrics.iter().map(|metric| metric.name.as_str()).collect();
    assert_eq!(names, ["time", "value", "memory"]);
}

#[test]
fn only_new_results_of_a_known_commit_are_added() {
    let project = project("asv/cheetah/e54f8049-py2.7-Cython-numpy1.8.json");
    let file = "asv/cheetah/e54f8049-py2.7-Cython-numpy1.8.json";
    let all = text(file);
    let without = all.replace("\"time_units.time_unit_to\"", "\"time_units.time_other\"");
    let project = project.with("less.json", &without);
    project.run(&["import", "less.json"]).expect_status(0);
    let before = sessions(&project).remove(0);
    for _ in 0..2 {
        project.run(&["import", file]).expect_status(0);
        let sessions = sessions(&project);
        assert_eq!(sessions.len(), 2);
        assert_eq!(sessions[0], before);
        assert_eq!(sessions[1].id, format!("{}.2", before.id));
        let cases: Vec<String> = sessions[1].runs.iter().map(|run| run.case.id()).collect();
        assert_eq!(cases, ["time_units.time_unit_to"]);
    }
}

#[test]
fn the_data_of_github_action_benchmark_are_sessions_with_subjects() {
    let project = project("data.js");
    import_twice(&project, &["data.js"], 2).expect_stderr(&[
        "'data.js': 2 sessions (@1 to @2), 1 case, 2 points, 0 skipped, 0 failed",
    ]);
    let sessions = sessions(&project);
    let points = values_over_time(&sessions, "Rust/join", "time");
    assert_eq!(points, [("1111111111".into(), 1200.0), ("2222222222".into(), 1320.0)]);
    let origin = sessions[1].origin.as_ref().unwrap();
    assert_eq!(origin.subject.as_deref(), Some("two"));
    // 2026-11-02T10:00:00Z
    assert_eq!(origin.committed_unix_ms, Some(1_793_613_600_000));
    assert_eq!(sessions[1].started_unix_ms, 1_763_990_000_000);
    assert_eq!(sessions[0].runs[0].notes, ["The file states 1200 ns/iter (± 30)."]);
    // Without the assignment, as stored by `external-data-json-path`.
    let bare = text("data.js").replace("window.BENCHMARK_DATA = ", "");
    let project = project.with("cache.json", &bare);
    let again = project.run(&["import", "cache.json"]).expect_status(0);
    again.expect_stderr(&["already in the store: 2 sessions"]);
}

#[test]
fn an_answer_of_bencher_needs_a_direction() {
    let project = project("bencher-perf.json");
    project.run(&["import", "bencher-perf.json"]).expect_status(2).expect_stderr(&[
        "'bencher-perf.json' as bencher JSON: the file does not state whether more or less of 'latency' is better",
        "hint: speedwell import FILE --set better=less",
    ]);
    let words = ["bencher-perf.json", "--set", "better=less"];
    import_twice(&project, &words, 6).expect_stderr(&["3 cases, 18 points", "without a commit: 6"]);
    let sessions = sessions(&project);
    assert_eq!(sessions[0].environment.machine.as_deref(), Some("base"));
    assert_eq!(sessions[0].origin.as_ref().unwrap().branch.as_deref(), Some("master"));
    let points = values_over_time(&sessions, "bencher::mock_0", "latency");
    assert_eq!(points[5], ("version 5".into(), 1.550_049_911_137_37));
    // Three iterations of the first report are three runs.
    let runs = sessions[0].runs.iter().filter(|run| run.case.id() == "bencher::mock_0");
    let values: Vec<_> = runs.map(|run| run.value_of("latency").unwrap()).collect();
    assert_eq!(values, [7.070_632_155_490_754, 0.389_898_491_924_03, 8.618_085_683_005_877]);
    let note = "bencher reports 'latency' between 6.363568939941679 and 7.77769537103983.";
    assert_eq!(sessions[0].runs[0].notes, [note]);
    let other = [&["import"], &words[..2], &["better=more"]].concat();
    project.run(&other).expect_status(0).expect_stderr(&["differs in sessions that are already"]);
}

#[test]
fn a_table_of_otava_has_branches_and_directions_by_metric() {
    let project = project("otava-multi-branch.csv");
    let words = ["otava-multi-branch.csv", "--set", "better=less", "--set", "better.metric1=more"];
    import_twice(&project, &words, 8).expect_stderr(&["1 case, 16 points"]);
    let sessions = sessions(&project);
    let branches =
        sessions.iter().map(|session| session.origin.as_ref().unwrap().branch.as_deref());
    let main = branches.filter(|branch| *branch == Some("main")).count();
    assert_eq!(main, 4);
    let points = values_over_time(&sessions, "otava-multi-branch", "metric2");
    assert_eq!(points[2], ("aaa2".into(), 10.29));
    let metric = |name: &str| sessions[0].metric(name).unwrap().better;
    assert_eq!(
        (metric("metric1"), metric("metric2")),
        (MetricDirection::Higher, MetricDirection::Lower)
    );
    // 2024.01.01 3:00:00 +0100
    assert_eq!(sessions[0].started_unix_ms, 1_704_074_400_000);
    project
        .run(&["history", "--branch", "feature-x", "--format", "csv"])
        .expect_status(0)
        .expect_stdout(&["aaa2", "aaa3"]);
}

#[test]
fn any_folder_of_importable_files_is_imported() {
    let project = project("data.js").with("all/data.js", &text("data.js"));
    let table = "time;commit;machine;ops\n2026-01-31;c1;lab-3;5\n";
    let project = project.with("all/ops.csv", table);
    let imported = project.run(&["import", "all", "--set", "better=more"]).expect_status(0);
    imported.expect_stderr(&["'all': 3 sessions"]);
    assert_eq!(sessions(&project)[2].environment.machine.as_deref(), Some("lab-3"));
    let project = project.with("all/notes.txt", "hello\n");
    let refused = project.run(&["import", "all"]).expect_status(2);
    refused.expect_stderr(&["all/notes.txt' has an unknown format"]);
}

#[test]
fn one_revision_is_refused_for_a_file_of_several_revisions() {
    let project = project("data.js");
    let refused = project.run(&["import", "data.js", "--revision", "v1"]).expect_status(2);
    refused.expect_stderr(&[
        "'data.js' contains 2 sessions with their own revisions, which --revision would merge",
        "hint: leave out --revision",
    ]);
    assert!(!project.path(".speedwell/results.db").exists());
}

/// A file of asv with these results.
fn asv_results(results: &str) -> String {
    format!(
        r#"{{"commit_hash":"c","date":1,"params":{{}},"requirements":{{}},"results":{results},"version":1}}"#
    )
}

/// A response of bencher with these points.
fn bencher_answer(points: &str) -> String {
    format!(
        r#"{{"results":[{{"branch":{{"name":"b"}},"testbed":{{"name":"t"}},"benchmark":{{"name":"x"}},
            "measure":{{"slug":"m"}},"metrics":[{points}]}}]}}"#
    )
}

/// Files with a mistake, and the expected message.
fn broken_files() -> Vec<(String, &'static str)> {
    let no_combination = r#"{"time_a": {"result": [1, 2], "params": [["1"]]}}"#;
    let no_time = r#"{"report":"r","version":{"number":1},"start_time":"now"}"#;
    vec![
        (asv_results("5"), "it contains no results"),
        (asv_results(r#"{"time_a": "fast"}"#), "'results.time_a' is \"fast\", not a number"),
        (asv_results(no_combination), "'results.time_a' has 2 results for 1 combinations"),
        (asv_results("{}").replace("\"params\":{},", ""), "the key 'params' is missing"),
        (
            bencher_answer(r#"{"report":"r"}"#),
            "the key 'version' is missing in 'results[0].metrics[0]'",
        ),
        (bencher_answer(no_time), "'results[0].metrics[0].start_time' is 'now', not a time like"),
        (bencher_answer(""), "it contains no results"),
        (text("bencher-perf.json")[..5000].to_owned(), "is the file cut short?"),
        ("window.BENCHMARK_DATA = \n\n[1]".to_owned(), "line 3 column"),
        (
            "window.BENCHMARK_DATA = {\"entries\": {\"S\": 5}}".to_owned(),
            "'entries.S' is 5, not an array",
        ),
        ("time,commit,m\nsoon,d,6\n".to_owned(), "line 2: cannot parse time 'soon'"),
        (
            "time,commit,m\n2026-01-31,c\n".to_owned(),
            "the number of cells in line 2 is 2, expected 3 as in the header",
        ),
    ]
}

#[test]
fn a_broken_file_is_refused_with_the_place_of_its_mistake() {
    for (file, mistake) in broken_files() {
        let project = TempProject::new().with("f", &file);
        let words = ["import", "f", "--set", "better=less"];
        project.run(&words).expect_status(2).expect_stderr(&["cannot read 'f' as ", mistake]);
        assert!(!project.path(".speedwell/results.db").exists(), "{file}");
    }
    let project = TempProject::new().with("f", "time,commit,m\n2026-01-31,c,5\n");
    let wrong = project.run(&["import", "f", "--set", "better=up"]).expect_status(2);
    wrong.expect_stderr(&[
        "in --set 'better=up': unknown direction 'up'",
        "hint: use --set better=less",
    ]);
}

#[test]
fn damaged_folders_of_asv_are_refused() {
    let machine = text("asv/cheetah/machine.json");
    let project = TempProject::new().with("r/m/machine.json", &machine);
    let empty = project.run(&["import", "r"]).expect_status(2);
    empty.expect_stderr(&["found no asv results in 'r'"]);
    let project = TempProject::new().with("r/m/machine.json", &machine[..20]);
    let broken = project.run(&["import", "r"]).expect_status(2);
    broken.expect_stderr(&["cannot read 'r/m/machine.json'", "is the file cut short?"]);
    let project = TempProject::new()
        .with("r/m/machine.json", &machine)
        .with("r/benchmarks.json", "{\"a\": {\"type\": 5}}");
    let broken = project.run(&["import", "r"]).expect_status(2);
    broken.expect_stderr(&["cannot read 'r/benchmarks.json': 'a.type' is 5, not a string"]);
}

#[test]
fn metric_directions_also_apply_to_files_reported_without_import() {
    let better =
        MetricDirections { all: Some(MetricDirection::Higher), ..MetricDirections::default() };
    let text = text("otava-multi-branch.csv");
    let input = InputFile { label: "-", bytes: text.as_bytes(), better: &better };
    let sessions = read_input(&input, &mut Vec::new()).unwrap();
    assert_eq!(sessions[0].runs[0].case.id(), "points");
    assert_eq!(sessions[0].metrics[1].better, MetricDirection::Higher);
}
