//! `speedwell as hyperfine`, against recorded output and exports of the original, and with real
//! commands.

use super::node_bad_children::still_running;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/hyperfine-tool")
}

fn hyperfine(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_speedwell"));
    command.args(["as", "hyperfine"]).args(words).current_dir(folder);
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn output_and_exports_match_the_original_hyperfine() {
    let folder = tempfile::tempdir().unwrap();
    let calls = std::fs::read_to_string(golden().join("calls.txt")).unwrap();
    let mut seen = 0;
    for (name, line) in calls.lines().filter_map(|line| line.split_once(": ")) {
        if name.starts_with('#') {
            continue;
        }
        let kinds = ["json", "csv", "markdown", "asciidoc", "orgmode"];
        let endings = ["json", "csv", "md", "adoc", "org"];
        let mut words = vec!["--debug-mode".to_owned(), "--strict-compat".to_owned()];
        words.extend(shell_words::split(line).unwrap());
        for (kind, ending) in kinds.iter().zip(endings) {
            words.extend([format!("--export-{kind}"), format!("{name}.{ending}")]);
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = hyperfine(folder.path(), &words);
        let recorded = |ending: &str| {
            std::fs::read_to_string(golden().join(format!("{name}.{ending}"))).unwrap_or_default()
        };
        assert_eq!(output.status.code(), Some(0), "{name}: {output:?}");
        assert_eq!(text(&output.stdout), recorded("stdout"), "{name}");
        assert_eq!(text(&output.stderr), recorded("stderr"), "{name}");
        for ending in endings {
            let written = std::fs::read_to_string(folder.path().join(format!("{name}.{ending}")));
            assert_eq!(written.unwrap(), recorded(ending), "{name}.{ending}");
        }
        seen += 1;
    }
    assert_eq!(seen, 8);
}

#[test]
fn commands_run_with_their_parameters_iteration_and_surrounding_hooks() {
    let folder = tempfile::tempdir().unwrap();
    let append = |word: &str| format!("echo {word} >> log");
    let (prepare, conclude) = (append("prepare"), append("conclude"));
    let one = "echo one-$HYPERFINE_ITERATION >> log";
    let words = [
        "-w",
        "1",
        "-r",
        "2",
        "-p",
        &prepare,
        "-C",
        &conclude,
        one,
        "echo {x} >> log; exit {x}",
        "-L",
        "x",
        "3",
        "-i=3",
        "--export-json",
        "r.json",
        "--style",
        "none",
        "-n",
        "c{x}",
    ];
    let output = hyperfine(folder.path(), &words);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(text(&output.stdout), "");
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    let count = |word: &str| log.lines().filter(|line| *line == word).count();
    assert_eq!((count("prepare"), count("conclude"), count("3")), (6, 6, 3), "{log}");
    for word in ["one-warmup-0", "one-0", "one-1"] {
        assert_eq!(count(word), 1, "{log}");
    }
    let json: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.path().join("r.json")).unwrap()).unwrap();
    let results = json["results"].as_array().unwrap();
    assert_eq!(results[1]["exit_codes"], serde_json::json!([3, 3]));
    assert_eq!(results[1]["command"], "c3");
    assert_eq!(results[0]["parameters"]["x"], "3");
    assert!(results[0]["memory_usage_byte"][0].as_u64().unwrap() > 0);
}

#[test]
fn commands_run_in_sequence_only_if_requested_or_required() {
    let order = |words: &[&str]| -> String {
        let folder = tempfile::tempdir().unwrap();
        let common = [
            "-N",
            "-r",
            "20",
            "--seed",
            "1",
            "--style",
            "none",
            "sh -c 'printf a >> log'",
            "sh -c 'printf b >> log'",
        ];
        let output = hyperfine(folder.path(), &[words, &common[..]].concat());
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        std::fs::read_to_string(folder.path().join("log")).unwrap()
    };
    let in_turn = "a".repeat(20) + &"b".repeat(20);
    let mixed = order(&[]);
    assert_eq!(mixed.matches('a').count(), 20, "{mixed}");
    assert!(!mixed.contains("aaaaaaaaa") && !mixed.contains("bbbbbbbbb"), "{mixed}");
    assert_eq!(order(&["--strict-compat"]), in_turn);
    assert_eq!(order(&["--setup", "true"]), in_turn);
}

/// Returns the number of times of each command in an export.
fn runs_of(file: &Path) -> Vec<usize> {
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let results = json["results"].as_array().unwrap();
    let count = |result: &serde_json::Value| result["times"].as_array().unwrap().len();
    results.iter().map(count).collect()
}

#[test]
fn measured_runs_are_exported_even_after_a_kill_or_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("r.json");
    // The tenth start of the second command ends the session.
    let measure = |end: &str| {
        let _ = std::fs::remove_file(folder.path().join("starts"));
        let script = format!("sh -c 'echo >> starts; test $(wc -l < starts) != 10 || {end}'");
        let words = ["-N", "-r", "20", "--export-json", "r.json", "true", script.as_str()];
        hyperfine(folder.path(), &words)
    };
    let killed = measure("kill -9 $PPID");
    assert_eq!(killed.status.code(), None, "{killed:?}");
    let runs = runs_of(&file);
    assert_eq!(runs.len(), 2, "both commands are in it");
    // Nine runs are done; the last block may be incomplete.
    assert!((7..=9).contains(&runs[1]) && runs[0] >= 7, "{runs:?}");
    let failed = measure("exit 3");
    assert_eq!(failed.status.code(), Some(1), "{failed:?}");
    assert_eq!(runs_of(&file)[1], 9, "nothing is lost when a command fails");
    let names = std::fs::read_dir(folder.path()).unwrap();
    assert_eq!(names.count(), 2, "the export and the starts");
}

#[test]
fn commands_are_compared_by_ratio_if_they_have_enough_runs() {
    let folder = tempfile::tempdir().unwrap();
    let words = ["--debug-mode", "sleep 0.1", "sleep 0.2", "sleep 0.1005", "-r", "10"];
    let output = hyperfine(folder.path(), &words);
    let stdout = text(&output.stdout);
    // Times without any spread: the ratios are exact, and so are the intervals.
    assert!(stdout.contains("    2.00 [2.00, 2.00] times faster than sleep 0.2\n"), "{stdout}");
    let few = hyperfine(folder.path(), &["--debug-mode", "sleep 1", "sleep 2", "-r", "7"]);
    assert!(
        text(&few.stdout)
            .contains("too few runs to compare with sleep 2: each command needs 8 runs"),
        "{few:?}"
    );
}

#[test]
fn failures_have_the_exit_statuses_of_the_original() {
    let folder = tempfile::tempdir().unwrap();
    for (words, status, part) in [
        (&["exit 3"][..], 1, "exited with status 3 in its run number 1"),
        (&["-N", "/no/such/program"], 1, "cannot execute '/no/such/program'"),
        (&["true", "-p", "exit 4"], 1, "of --prepare exited with status 4"),
        (&["true", "--export-json", "no/folder/r.json"], 1, "cannot write 'no/folder/r.json'"),
        (&["-S", "/no/shell", "true"], 1, "/no/shell"),
        (&["--bogus"], 2, "hyperfine: unexpected argument '--bogus' found"),
        (&["true", "-r", "x"], 1, "'x'"),
    ] {
        let output = hyperfine(folder.path(), words);
        assert_eq!(output.status.code(), Some(status), "{words:?}: {output:?}");
        assert!(text(&output.stderr).contains(part), "{words:?}: {output:?}");
    }
}

#[test]
fn input_and_output_options_redirect_the_streams_of_commands() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("in"), "read\n").unwrap();
    let words = ["-r", "1", "--input", "in", "--style", "none"];
    let to = |output: &[&str]| hyperfine(folder.path(), &[&words[..], output, &["cat"]].concat());
    assert_eq!(text(&to(&["--output", "inherit"]).stdout), "read\n");
    assert_eq!(text(&to(&["--output", "pipe"]).stdout), "");
    assert_eq!(to(&["--output", "./out"]).status.code(), Some(0));
    assert_eq!(std::fs::read_to_string(folder.path().join("out")).unwrap(), "read\n");
}

#[test]
fn setup_processes_survive_and_leftovers_of_runs_are_killed() {
    let folder = tempfile::tempdir().unwrap();
    // Each run needs the service, and fails if a process of the run before it is still there.
    let command =
        "kill -0 $(cat pid) && ! kill -0 $(cat left) && { sleep 4321.5 & echo $! > left; }";
    let words = ["-r", "3", "--setup", "echo 0x > left; sleep 4321.625 & echo $! > pid", command];
    let output = hyperfine(folder.path(), &words);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let said = text(&output.stderr);
    let named = format!("'{command}' left processes behind, which were killed after each run: '");
    assert!(said.contains(&named), "{said}");
    assert!(!still_running("4321.5") && !still_running("4321.625"));
}

#[test]
fn a_file_that_commands_read_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for name in ["data", "other"] {
        std::fs::write(path(name), "3\n1\n").unwrap();
    }
    std::fs::hard_link(path("data"), path("link")).unwrap();
    let would = "would overwrite the input '";
    for (words, why) in [
        (&["sort data", "--export-json", "data"][..], would),
        (&["sort {x}", "-L", "x", "other,data", "--export-csv", "./data"], would),
        (&["cat", "--input", "data", "--export-markdown", "link"], would),
        (&["cat", "--input", "data", "--output", "./link"], would),
        (&["true", "--prepare", "cp data copy", "--export-json", "data"], would),
        (
            &["true", "--export-json", "data", "--export-csv", "link"],
            "would be written to the same file",
        ),
        (
            &["true", "--output", "./data", "--export-csv", "link"],
            "would be written to the same file",
        ),
    ] {
        let output = hyperfine(folder.path(), words);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {output:?}");
        let said = text(&output.stderr);
        assert!(said.contains(why), "{words:?}: {said}");
        assert_eq!(std::fs::read_to_string(path("data")).unwrap(), "3\n1\n", "{words:?}");
    }
    // A file with the results of an earlier call is replaced, even if a command after the runs reads it.
    let cleanup = ["--cleanup", "cat results.json"];
    let again = ["true", "-r", "2", "--export-json", "results.json"];
    for _ in 0..2 {
        let output = hyperfine(folder.path(), &[&again[..], &cleanup].concat());
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    }
}
