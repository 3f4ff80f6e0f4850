//! Drop-in for `compare.py` with programs instead of files. Shell scripts stand in for programs of
//! google/benchmark, so that every figure is known.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::project::{CommandResult, TempProject};
use std::process::Stdio;

/// A script that writes its arguments to stdout, and two repetitions of `name` to its output file.
fn program(name: &str, time: u32) -> String {
    let entry = format!(
        r#"{{"name": "{name}", "run_type": "iteration", "iterations": 1, "real_time": {time},
            "cpu_time": {time}, "time_unit": "ns"}}"#
    );
    format!(
        r#"#!/bin/sh
echo "console of $0: $*"
for word; do case $word in --benchmark_out=*) out=${{word#*=}};; esac; done
echo "$out" >> outs
cat > "$out" <<'END'
{{"context": {{}}, "benchmarks": [{entry}, {entry}]}}
END
"#
    )
}

fn project(programs: &[(&str, &str)]) -> TempProject {
    let project = TempProject::new();
    std::fs::create_dir(project.path("tmp")).unwrap();
    programs.iter().fold(project, |project, (name, text)| project.with_program(name, text))
}

fn two_programs() -> TempProject {
    project(&[("old", &program("BM_x", 10)), ("new", &program("BM_x", 20))])
}

fn run(project: &TempProject, words: &[&str]) -> CommandResult {
    let words = [&["as", "compare.py"], words].concat();
    let mut command = project.command(&words);
    command.env("TMPDIR", project.path("tmp"));
    let answer = CommandResult::from(command.output().unwrap());
    let left = std::fs::read_dir(project.path("tmp")).unwrap().count();
    assert_eq!(left, 0, "temporary files were left behind: {answer:#?}");
    answer
}

/// Lines of stdout with the temporary file's name replaced.
fn lines(answer: &CommandResult) -> Vec<String> {
    let lines = answer.stdout.lines();
    let hide = |line: &str| match line.split_once("--benchmark_out=/") {
        Some((before, _)) => format!("{before}--benchmark_out=TMP"),
        None => line.to_owned(),
    };
    lines.map(hide).collect()
}

#[test]
fn the_baseline_runs_first_and_each_line_comes_before_the_output_it_announces() {
    let answer = run(&two_programs(), &["-a", "benchmarks", "./old", "./new", "--x=1", "--", "y"]);
    let flags = "--x=1 -- y --benchmark_display_aggregates_only=true --benchmark_out=TMP";
    assert_eq!(
        lines(&answer)[..5],
        [
            format!("RUNNING: ./old {flags}"),
            format!("console of ./old: {flags}"),
            format!("RUNNING: ./new {flags}"),
            format!("console of ./new: {flags}"),
            "Comparing ./old to ./new".to_owned(),
        ]
    );
    assert!(lines(&answer)[7].starts_with("BM_x_pvalue "), "{answer:#?}");
    assert_eq!(answer.status, 0);
    assert!(answer.stderr.contains("hint: the sides run one after the other"), "{answer:#?}");
    assert!(answer.stderr.contains("'speedwell compare ./old ./new'"), "{answer:#?}");
}

#[test]
fn filters_run_one_program_twice_and_win_over_the_given_filter() {
    let project = project(&[("both", &program("BM_x", 10))]);
    let words = ["filters", "./both", "BM_x", "BM_.", "--benchmark_filter=q"];
    let answer = run(&project, &words);
    let found = lines(&answer);
    let line = |filter: &str| {
        format!(
            "RUNNING: ./both --benchmark_filter=q --benchmark_filter={filter} --benchmark_out=TMP"
        )
    };
    assert_eq!([&found[0], &found[2]], [&line("BM_x"), &line("BM_.")]);
    assert_eq!(found[4], "Comparing BM_x to BM_. (from ./both)");
    assert!(found[7].starts_with("[BM_x vs. BM_.]  "), "{answer:#?}");
    assert_eq!(answer.status, 0);
}

#[test]
fn a_file_measured_before_is_compared_with_a_program() {
    let project = two_programs();
    let keep = ["benchmarks", "./old", "./new", "--benchmark_out=keep.json"];
    let answer = run(&project, &keep);
    assert!(answer.stdout.starts_with(
        "WARNING: '--benchmark_out=keep.json' will be passed to both benchmarks causing it to be \
         overwritten\nRUNNING: ./old --benchmark_out=keep.json\n"
    ));
    let answer = run(&project, &["benchmarks", "./old", "keep.json", "--x"]);
    assert_eq!(lines(&answer)[0], "RUNNING: ./old --x --benchmark_out=TMP");
    assert!(lines(&answer)[5].contains("+1.0000"), "{answer:#?}");
    assert!(!answer.stdout.contains("WARNING: passing"), "{answer:#?}");
    assert_eq!((answer.status, answer.stderr.as_str()), (0, ""));
}

#[test]
fn a_failing_program_is_shown_and_ends_the_comparison() {
    let failing = "#!/bin/sh\necho 'no such flag' >&2\nexit 7\n";
    let project = project(&[("old", failing), ("new", &program("BM_x", 1))]);
    let answer = run(&project, &["benchmarks", "./old", "./new", "--bogus=1 2"]);
    assert_eq!(
        lines(&answer),
        ["RUNNING: ./old --bogus=1 2 --benchmark_out=TMP", "TEST FAILED..."]
    );
    assert_eq!(answer.status, 2);
    assert!(
        answer.stderr.ends_with(
            "no such flag\ncompare.py: './old' exited with status 7\nhint: repeat it with: ./old \
             '--bogus=1 2' --benchmark_out=/dev/null\n"
        ),
        "{answer:#?}"
    );
}

#[test]
fn a_program_without_results_is_an_error_in_one_line() {
    let silent = "#!/bin/sh\nexit 0\n";
    let project = project(&[("old", silent)]);
    let answer = run(&project, &["filters", "./old", "zzz", "BM"]);
    assert_eq!(answer.status, 2);
    assert!(
        answer.stderr.contains(
            "compare.py: './old' wrote no results, so nothing was compared\nhint: check that a \
             benchmark matches 'zzz'\n"
        ),
        "{answer:#?}"
    );
}

#[test]
fn a_name_without_a_slash_is_looked_for_here_first() {
    // Every search path has a program of that name.
    let project = project(&[("ls", &program("BM_x", 1))]);
    let answer = run(&project, &["benchmarks", "ls", "ls"]);
    assert_eq!(lines(&answer)[0], "RUNNING: ./ls --benchmark_out=TMP");
    assert_eq!(answer.status, 0);
    let answer = run(&project, &["benchmarks", "true", "true"]);
    assert!(answer.stdout.contains("/true --benchmark_out="), "{answer:#?}");
    assert_eq!(answer.status, 2);
}

#[test]
fn own_options_after_the_inputs_are_not_passed_to_programs() {
    let answer = run(&two_programs(), &["benchmarks", "./old", "./new", "--no-color", "-a"]);
    assert_eq!(lines(&answer)[0], "RUNNING: ./old -a --benchmark_out=TMP");
    assert!(answer.stderr.contains("'--no-color' has no effect after the inputs"), "{answer:#?}");
    let answer = run(&two_programs(), &["benchmarks", "./old", "./new", "--", "--no-color"]);
    assert_eq!(lines(&answer)[0], "RUNNING: ./old --no-color --benchmark_out=TMP");
    assert!(!answer.stderr.contains("has no effect"), "{answer:#?}");
}

#[test]
fn predictable_errors_are_reported_before_any_program_runs() {
    let project = two_programs().with("broken.json", "{\"benchmarks\": [");
    for (words, reason) in [
        (vec!["benchmarks", "./old", "broken.json"], "cut short"),
        (vec!["-d", "no/x.json", "benchmarks", "./old", "./new"], "the folder does not exist"),
        (vec!["filters", "./old", "(", "x"], "unclosed group"),
    ] {
        let answer = run(&project, &words);
        assert_eq!((answer.status, answer.stdout.as_str()), (2, ""));
        assert!(answer.stderr.contains(reason), "{answer:#?}");
    }
}

#[test]
fn an_interrupted_comparison_leaves_nothing_behind() {
    let slow = "#!/bin/sh\ntouch started\nexec sleep 60\n";
    let project = project(&[("old", slow)]);
    let mut command = project.command(&["as", "compare.py", "benchmarks", "./old", "./old"]);
    command.env("TMPDIR", project.path("tmp"));
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    while !project.path("started").exists() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let kill = std::process::Command::new("kill").arg(child.id().to_string()).status();
    assert!(kill.unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(std::fs::read_dir(project.path("tmp")).unwrap().count(), 0);
}
