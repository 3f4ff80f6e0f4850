//! Mistakes that are detected before anything is measured, so that no time is wasted and no file is
//! lost.

use super::project::{CommandResult, TempProject, node};
use super::repository::{BENCH, TestRepository};
use std::process::Stdio;
use std::time::{Duration, Instant};

const ONE_CASE: &str = "case n=1 k=a\n* 100 101 102 103 104 105 106 107\n";

/// Results of `go test -bench`.
const GO: &str = "BenchmarkA 100 10 ns/op\nBenchmarkA 100 11 ns/op\n";

fn project() -> TempProject {
    TempProject::new().with("g/one.fake", ONE_CASE)
}

#[track_caller]
fn expect_nothing_measured(project: &TempProject) {
    assert_eq!(project.stored_runs(), 0);
    let history = project.run(&["history", "--format", "csv"]);
    assert!(history.stdout.lines().count() <= 1, "{history:#?}");
}

#[test]
fn unwritable_outputs_are_refused_before_the_first_run() {
    let project = project().with("results/keep", "");
    for (file, why) in [
        ("x.pdf", "unknown kind of file: supported extensions are "),
        ("no/such/x.svg", "cannot write 'no/such/x.svg'"),
        ("results", "unknown kind of file"),
    ] {
        for words in
            [&["run", "g/one.fake"][..], &["eval", "sh", "true"], &["load", "http://127.0.0.1:1/"]]
        {
            let words = [words, &["-o", file]].concat();
            project.run(&words).expect_status(2).expect_stderr(&[why]);
        }
    }
    for option in ["--hdr", "--log-requests"] {
        let words = ["load", "http://127.0.0.1:1/", option, "no/such/file"];
        let answer = project.run(&words).expect_status(2);
        answer.expect_stderr(&["cannot write 'no/such/file'"]);
    }
    expect_nothing_measured(&project);
    assert!(!project.path("x.pdf").exists());
}

#[test]
fn a_report_that_cannot_be_made_is_refused_before_the_first_run() {
    let project = project();
    let two = ["--variant", "a=", "--variant", "b="];
    let check = |words: &[&str], why: &str| {
        let words = [&["run", "g/one.fake"], words].concat();
        project.run(&words).expect_status(2).expect_stderr(&[why]);
    };
    check(&["--x-axis", "m"], "no parameter 'm'");
    check(&["--x-axis", "n", "--by", "m"], "no parameter 'm'");
    check(&["--sort", "size"], "unknown sort column 'size': supported columns are ");
    check(&[&["--sort", "-candidat"], &two[..]].concat(), "unknown sort column 'candidat'");
    check(&["--chart", "forest"], "there is nothing to compare");
    check(&["--chart", "flame"], "flame graphs need profiles");
    check(&["--chart", "line"], "a line chart needs a parameter study (--x-axis NAME)");
    check(
        &["--x-axis", "n", "--chart", "box"],
        "this chart cannot show a parameter study: supported charts are line, scatter and bar",
    );
    check(&["--chart", "pie"], "unknown chart 'pie'");
    check(&[&["--baseline", "c"], &two[..]].concat(), "no variant is named 'c'");
    for words in [&["--sort", "size"][..], &["--chart", "flame"]] {
        let words = [&["eval", "sh", "true"], words].concat();
        project.run(&words).expect_status(2);
    }
    let words = ["load", "http://127.0.0.1:1/", "--chart", "box"];
    let answer = project.run(&words).expect_status(2);
    answer.expect_stderr(&["--chart needs several runs"]);
    expect_nothing_measured(&project);
}

#[test]
fn charts_that_an_experiment_cannot_draw_are_refused() {
    let text = "schema = 2\n[[group]]\nname = \"g\"\nkind = \"command\"\nmetrics = [\"took\"]\n\
                [group.target]\ncommand = [\"sh\", \"-c\", 'echo took 5 ms']\n\
                [group.metric.took]\nregex = 'took (\\S+) ms'\nunit = \"ms\"\n";
    let project = TempProject::new().with("x.toml", text);
    for (chart, why) in
        [("flame", "hint: measure with --profile"), ("box", "an experiment defines its own charts")]
    {
        let answer = project.run(&["run", "x.toml", "--chart", chart]);
        answer.expect_status(2).expect_stderr(&[why]);
    }
    expect_nothing_measured(&project);
}

#[test]
fn possible_charts_and_sort_columns_pass_the_early_check() {
    let project = project();
    let run = |words: &[&str]| {
        let words = [&["run", "g/one.fake", "--runs", "2", "--no-save"], words].concat();
        project.run(&words).expect_status(0);
    };
    run(&["--x-axis", "n", "--by", "k", "-o", "x.svg"]);
    run(&["--chart", "scatter", "--sort", "-median", "-o", "y.svg"]);
    let two = ["--variant", "a=", "--variant", "b="];
    run(&[&["--sort", "-change", "--chart", "forest"], &two[..]].concat());
    run(&["--metric", "throughput", "--unit", "k/s", "-o", "z.html"]);
}

#[test]
fn a_metric_that_no_case_reports_is_refused_and_nothing_is_kept() {
    let project = project().with("g/two.fake", ONE_CASE);
    for gate in [&[][..], &["--fail-on", "worse", "--variant", "a=", "--variant", "b="]] {
        let words = [&["run", "g", "--metric", "throuput"], gate].concat();
        let answer = project.run(&words).expect_status(2);
        answer.expect_stderr(&["unknown metric 'throuput'", "did you mean 'throughput'?"]);
    }
    for (typed, meant) in [("tim", "time"), ("memory", "max_rss")] {
        let answer = project.run(&["eval", "sh", "true", "--metric", typed]);
        answer.expect_status(2).expect_stderr(&[&format!("did you mean '{meant}'?")]);
    }
    expect_nothing_measured(&project);
    project.run(&["run", "g", "--runs", "1"]).expect_status(0);
    project.run(&["run", "g", "--runs", "1"]).expect_status(0);
    for words in [&["report"][..], &["compare", "@1", "@2"]] {
        let answer = project.run(&[words, &["--metric", "latency"]].concat());
        let answer = answer.expect_status(2);
        answer
            .expect_stderr(&["unknown metric 'latency'", "hint: the only metric is 'throughput'"]);
    }
}

#[test]
fn a_session_without_results_has_no_metrics_to_list() {
    let project = TempProject::new().with("g/bad.fake", "case n=1\n* exit:1\n");
    project.run(&["run", "g", "--runs", "1"]).expect_status(2);
    let answer = project.run(&["report", "--metric", "nope"]).expect_status(2);
    assert!(!answer.stderr.contains("metrics are ."), "{answer:#?}");
    answer.expect_stderr(&["unknown metric 'nope': there are no results"]);
}

#[test]
fn a_baseline_among_results_must_exist_and_is_put_first() {
    let project = project();
    for _ in 0..2 {
        project.run(&["run", "g", "--runs", "2"]).expect_status(0);
    }
    let why = "in --baseline: no source is named 'x'\nhint: the sources are @1, @2";
    let answer = project.run(&["compare", "@1", "@2", "--baseline", "x"]);
    answer.expect_status(2).expect_stderr(&[why]);
    let answer = project.run(&["compare", "@1", "@2", "--baseline", "@2"]);
    answer.expect_status(0).expect_stdout(&["to compare @1 with @2: 2 a side"]);
    let answer = project.run(&["report", "--baseline", "x"]);
    answer.expect_status(2).expect_stderr(&["unknown variant 'x'"]);
}

#[test]
fn a_program_that_cannot_start_is_refused_before_the_runs_of_the_other_side() {
    // This is how pyenv's shims respond for a version that is not installed.
    let shim = "#!/bin/sh\necho 'python: command not found' >&2\nexit 127\n";
    let project = TempProject::new()
        .with("g/x.py", "import speedwell\n@speedwell.benchmark\ndef f():\n    pass\n")
        .with_program("shim", shim);
    let words = ["run", "g/x.py", "--variant", "a=", "--variant", "b=./shim"];
    let answer = project.run(&words).expect_status(2);
    let why = ["'b'", "status 127", "python: command not found", "hint: repeat it with: "];
    answer.expect_stderr(&why);
    let answer = project.run(&["eval", "sh", "true", "./nothing-here"]).expect_status(2);
    answer.expect_stderr(&["'./nothing-here'"]);
    expect_nothing_measured(&project);
}

#[test]
fn missing_toolchains_and_compile_errors_are_reported_in_one_line() {
    let project = TempProject::new().with("g/x.cpp", "#include <speedwell.hpp>\nnothing\n");
    for (words, reasons) in [
        (&["eval", "c", "nothing("][..], 1),
        (&["eval", "c", "nothing(", "nothing)"], 2),
        (&["eval", "python", "nothing("], 1),
        (&["run", "g/x.cpp"], 1),
        (&["run", "g/x.cpp", "--variant", "a=/no/such/compiler"], 1),
    ] {
        let answer = project.run(words).expect_status(2);
        assert!(answer.stdout.is_empty(), "{words:?}: {answer:#?}");
        let lines = answer.stderr.lines().filter(|line| !line.starts_with("hint: "));
        assert_eq!(lines.count(), reasons, "{words:?}: {answer:#?}");
    }
    expect_nothing_measured(&project);
}

#[test]
fn processors_that_are_not_there_are_refused() {
    let project = project();
    for words in [
        &["run", "g/one.fake"][..],
        &["eval", "sh", "true"],
        &["eval", "sh", "true", "-c", "max"],
        &["iterations", "g/one.fake"],
        &["warmup", "--code", "python", "1"],
        &["load", "http://127.0.0.1:1/"],
    ] {
        let answer = project.run(&[words, &["--pin", "1000"]].concat());
        let answer = answer.expect_status(2);
        answer.expect_stderr(&["in --pin: cannot use processor '1000': expected one of '"]);
    }
    expect_nothing_measured(&project);
}

/// Asserts that a command is rejected because of `why` and leaves a file unchanged.
#[track_caller]
fn expect_kept(project: &TempProject, file: &str, words: &[&str], why: &[&str]) {
    let read = || std::fs::read(project.path(file)).unwrap();
    let before = read();
    project.run(words).expect_status(2).expect_stderr(why);
    assert_eq!(read(), before, "{words:?}");
}

#[test]
fn an_output_never_replaces_an_input() {
    let project = project()
        .with("old.md", GO)
        .with("new.md", GO)
        .with("results/a.md", GO)
        .with("body.js", "{}")
        .with("requests.toml", "[[request]]\npath = \"/\"\nbody-file = \"body.json\"\n")
        .with("body.json", "{}");
    std::os::unix::fs::symlink(project.path("old.md"), project.path("link.md")).unwrap();
    std::fs::hard_link(project.path("old.md"), project.path("hard.md")).unwrap();
    let replaced = ["would overwrite the input"];
    for output in ["old.md", "./old.md", "results/../old.md", "link.md", "hard.md"] {
        let words = ["compare", "a=old.md", "b=new.md,new.md", "-o", output];
        expect_kept(&project, "old.md", &words, &replaced);
    }
    expect_kept(&project, "old.md", &["report", "old.md", "-o", "old.md"], &replaced);
    let words = ["report", "results", "-o", "results/a.md"];
    expect_kept(&project, "results/a.md", &words, &replaced);
    for words in [
        &["-d", "@body.js", "--log-requests", "body.js"][..],
        &["--body-file", "body.js", "--hdr", "body.js"],
    ] {
        let words = [&["load", "http://127.0.0.1:1/"], words].concat();
        expect_kept(&project, "body.js", &words, &replaced);
    }
    let words = ["load", "http://127.0.0.1:1/", "--requests", "requests.toml", "-o", "body.json"];
    expect_kept(&project, "body.json", &words, &replaced);
    let words = ["eval", "sh", "cat body.json", "-o", "body.json"];
    expect_kept(&project, "body.json", &words, &replaced);
}

#[test]
fn an_output_never_replaces_the_database() {
    let project = project();
    let words = ["run", "g/one.fake", "--runs", "1", "--db", "e.json"];
    project.run(&words).expect_status(0);
    let replaced = ["would replace the database 'e.json'"];
    let words = ["report", "@1", "--db", "e.json", "-o", "./e.json"];
    expect_kept(&project, "e.json", &words, &replaced);
    let words = ["run", "g/one.fake", "--db", "new.json", "-o", "new.json"];
    project.run(&words).expect_status(2).expect_stderr(&["would replace the database 'new.json'"]);
    project.run(&["run", "g/one.fake", "--runs", "1"]).expect_status(0);
    let words = ["load", "http://127.0.0.1:1/", "--hdr", ".speedwell/results.db"];
    expect_kept(&project, ".speedwell/results.db", &words, &["would replace the database"]);
}

#[test]
fn two_outputs_with_the_same_file_are_refused() {
    let project = project();
    std::os::unix::fs::symlink("x.csv", project.path("link.csv")).unwrap();
    let why = ["would be written to the same file"];
    for words in [
        &["load", "http://127.0.0.1:1/", "--hdr", "x.csv", "--log-requests", "x.csv"][..],
        &["load", "http://127.0.0.1:1/", "--hdr", "x.csv", "-o", "./x.csv"],
        &["run", "g/one.fake", "-o", "x.csv", "-o", "link.csv"],
        &["run", "g/one.fake", "-o", "x.svg", "-o", "x-2.svg"],
    ] {
        project.run(words).expect_status(2).expect_stderr(&why);
    }
    expect_nothing_measured(&project);
    let words = ["run", "g/one.fake", "--runs", "1", "--no-save", "-o", "r.html", "-o", "r.csv"];
    for _ in 0..2 {
        project.run(&words).expect_status(0);
    }
}

#[test]
fn editing_a_benchmark_during_the_measurement_stops_its_runs() {
    if node().is_none() {
        return;
    }
    // Every run edits the file, or a project module that it requires.
    let script = |edited: &str| {
        format!(
            "const {{ createBenchmark }} = require('speedwell');\nrequire('../lib/work');\n\
             const bench = createBenchmark(main, {{ n: [10] }});\n\
             function main({{ n }}) {{\n  bench.start(); bench.end(n);\n\
             require('fs').appendFileSync(require.resolve('{edited}'), '// more\\n');\n}}\n"
        )
    };
    let project = TempProject::new()
        .with("g/self.js", &script("./self"))
        .with("g/other.js", &script("../lib/work"))
        .with("lib/work.js", "");
    for file in ["g/self.js", "g/other.js"] {
        let answer = project.run(&["run", file, "--runs", "6"]).expect_status(2);
        answer.expect_stdout(&["changed during the measurement"]);
        let data = project.run(&["report", "--export", "jsonl"]).stdout;
        let runs = data.lines().filter(|line| line.contains(r#"{"run":"#));
        assert_eq!(runs.count(), 1, "{data}");
    }
}

#[test]
fn changing_a_program_during_the_measurement_stops_its_runs() {
    let project = TempProject::new().with_program("tool", "#!/bin/sh\necho '# more' >> \"$0\"\n");
    let words = ["eval", "sh", "./tool", "--runs", "6"];
    let answer = project.run(&words).expect_status(2);
    answer.expect_stdout(&["tool' changed during the measurement"]);
    assert_eq!(project.stored_runs(), 1);
}

#[test]
fn ctrl_c_before_the_first_run_is_an_interruption() {
    let slow = "#!/bin/sh\ntouch \"$MARK\"\nexec sleep 60\n";
    for words in [
        &["run", "g/x.cpp"][..],
        &["run", "g/x.cpp", "--list"],
        &["run", "g/x.cpp", "--fail-on", "worse", "--variant", "a=", "--variant", "b=./slow"],
        &["eval", "c", "1"],
        &["run", "g/x.py"],
    ] {
        let project = TempProject::new()
            .with("g/x.cpp", "#include <speedwell.hpp>\n")
            .with("g/x.py", "import os, time\nimport speedwell\nopen(os.environ['MARK'], 'w')\ntime.sleep(60)\n")
            .with_program("slow", slow);
        let mut command = project.command(words);
        for variable in ["CC", "CXX"] {
            command.env(variable, project.path("slow"));
        }
        let mark = project.path("started");
        command.env("MARK", &mark).env("XDG_CACHE_HOME", project.path("cache"));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        let limit = Instant::now() + Duration::from_secs(120);
        while !mark.exists() && Instant::now() < limit {
            std::thread::sleep(Duration::from_millis(20));
        }
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        let answer = CommandResult::from(child.wait_with_output().unwrap()).expect_status(130);
        assert!(!answer.stderr.contains("reported nothing"), "{words:?}: {answer:#?}");
        answer.expect_stderr(&["interrupted before anything was measured"]);
        expect_nothing_measured(&project);
    }
}

/// The result of a program of google/benchmark.
const GOOGLE: &str = r#"{"context": {"num_cpus": 2}, "benchmarks": [{"name": "BM_a", "run_name": "BM_a",
"run_type": "iteration", "iterations": 10, "real_time": 5.0, "cpu_time": 5.0, "time_unit": "ns"}]}"#;

fn words_of(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

#[test]
fn drop_ins_never_overwrite_their_inputs() {
    let google = "#!/bin/sh\n: > started\n";
    let project = TempProject::new()
        .with("old.json", GOOGLE)
        .with("new.json", GOOGLE)
        .with("body", "a=1")
        .with_program("bench", google);
    std::os::unix::fs::symlink("old.json", project.path("link.json")).unwrap();
    let replaced = ["would overwrite the input"];
    for dump in ["old.json", "./new.json", "link.json"] {
        let line = format!("as compare.py -d {dump} benchmarks old.json new.json");
        expect_kept(&project, dump, &words_of(&line), &replaced);
    }
    let measured = words_of("as compare.py -d bench benchmarks ./bench old.json");
    expect_kept(&project, "bench", &measured, &replaced);
    let out = "--benchmark_out=old.json";
    let words = ["as", "compare.py", "benchmarks", "./bench", "old.json", out];
    expect_kept(&project, "old.json", &words, &replaced);
    let words =
        words_of("as compare.py -d x.json benchmarks ./bench old.json --benchmark_out=x.json");
    let both = ["would be written to the same file"];
    project.run(&words).expect_status(2).expect_stderr(&both);
    let url = "http://127.0.0.1:1/";
    for option in ["-e", "-g"] {
        let line = format!("as ab -n 1 -p body -T text/plain {option} body {url}");
        expect_kept(&project, "body", &words_of(&line), &replaced);
    }
    let words = ["as", "ab", "-n", "1", "-e", "x", "-g", "./x", url];
    project.run(&words).expect_status(2).expect_stderr(&both);
    assert!(!project.path("started").exists() && !project.path("x").exists());
    let words = words_of("as compare.py -d x.json benchmarks old.json new.json");
    for _ in 0..2 {
        project.run(&words).expect_status(0);
    }
}

#[test]
fn changing_a_program_built_in_a_worktree_stops_its_runs() {
    let Some(repository) = TestRepository::with_program("100") else {
        return;
    };
    // Each run of the second revision edits the program that was built.
    let program = std::fs::read_to_string(repository.project.path("bench.in")).unwrap();
    let edited = program.replace("echo \"chatter", "echo '# more' >> \"$0\"\necho \"chatter");
    assert_ne!(edited, program);
    let repository = repository.with("bench.in", &edited).committed("edits itself");
    let words = [
        &["compare", "--old", "rev:HEAD~1", "--new", "rev:HEAD", "--runs", "4", "-f", "copy/8"],
        &BENCH[..],
    ];
    let answer = repository.run(&words.concat()).expect_status(2);
    let words: Vec<&str> = answer.stdout.split_whitespace().collect();
    let why = "bench' changed during the measurement: later runs would measure different code";
    assert!(words.join(" ").contains(why), "{answer:#?}");
    let data = repository.run(&["report", "--export", "jsonl"]).stdout;
    let runs: Vec<serde_json::Value> = data
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|line: &serde_json::Value| !line["run"].is_null())
        .collect();
    let variants: Vec<&str> =
        runs.iter().map(|line| line["run"]["variant"].as_str().unwrap()).collect();
    let of_second = variants.iter().filter(|name| name.starts_with("HEAD (")).count();
    assert_eq!((variants.len(), of_second), (5, 1), "{variants:?}");
}
