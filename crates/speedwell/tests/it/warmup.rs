//! Which processes become steady: `warmup`, `run --steady`, and published series.

use super::project::{CommandResult, TempProject};
use serde_json::Value;

/// The second variant starts slower and is faster once steady.
const TWO: &str = "case k=1\n\
    old 30x80/10x520\n\
    new 35x120/9x480\n";

const OLD_AND_NEW: [&str; 4] = ["--variant", "old=true", "--variant", "new=true"];

fn warmup(text: &str, words: &[&str]) -> CommandResult {
    let all = [&["warmup", "g/start.fake", "--seed", "3"], words].concat();
    TempProject::new().with("g/start.fake", text).run(&all)
}

fn json(text: &str, words: &[&str]) -> Value {
    warmup(text, &[words, &["--format", "json"]].concat()).expect_status(0).json()
}

#[test]
fn warmup_reports_steady_time_time_to_steady_and_total() {
    let found = json("case k=1\n* 30x80/10x520\n", &["--runs", "5"]);
    let row = &found["warmup"][0];
    assert_eq!((&row["class"], &row["processes"]), (&"warm-up".into(), &"5 warm-up".into()));
    // A point lasts a millisecond: 100 000 iterations of 10 ns.
    assert_eq!(row["iterations_per_point"], 100_000);
    assert_eq!(row["steady_from"], 8_000_000);
    let near = |key: &str, wanted: f64| {
        let value = row[key].as_f64().unwrap();
        assert!((value / wanted - 1.0).abs() < 0.005, "{key}: {value}");
    };
    near("steady_time", 10.0);
    near("time_to_steady", (80.0 * 30.0 + 10.0) * 1e5);
    near("total", (80.0 * 30.0 + 520.0 * 10.0) * 1e5);
    assert_eq!(found["processes"].as_array().unwrap().len(), 5);
}

#[test]
fn processes_that_disagree_have_no_steady_figure() {
    let found = json("case k=1\n* 10x600 10x550/13x50\n", &["--runs", "4"]);
    let row = &found["warmup"][0];
    assert_eq!(row["class"], "mixed, bad");
    assert_eq!(row["processes"], "2 flat, 2 no steady state");
    assert_eq!((&row["steady_time"], &row["time_to_steady"]), (&Value::Null, &Value::Null));
    assert!(row["total"].is_number());
}

#[test]
fn variants_are_compared_by_three_figures_and_a_break_even_count() {
    let found = warmup(TWO, &OLD_AND_NEW).expect_status(0);
    found.expect_stdout(&[
        "new against old: steady: better by 10.0%, start: worse by 75%, total over",
        "iterations on, new has made up for its slower start.",
    ]);
    let found = json(TWO, &OLD_AND_NEW);
    let verdicts: Vec<(&str, &str)> = found["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["metric"].as_str().unwrap(), row["verdict"].as_str().unwrap()))
        .collect();
    assert_eq!(
        verdicts,
        [("steady_time", "better"), ("time_to_steady", "worse"), ("total", "worse")]
    );
}

#[test]
fn fail_on_worse_requires_processes_that_agree() {
    let status = |text: &str, words: &[&str]| warmup(text, words).status;
    let worse = [&OLD_AND_NEW[..], &["--fail-on", "worse"]].concat();
    assert_eq!(status(TWO, &worse), 1);
    assert_eq!(status(TWO, &OLD_AND_NEW), 0);
    let alone = ["--fail-on", "worse"];
    assert_eq!(status("case k=1\n* 10x550/13x50\n", &alone), 1);
    assert_eq!(status("case k=1\n* 10x600 10x550/13x50\n", &alone), 2, "they do not agree");
}

#[test]
fn a_stored_warmup_session_is_reported_like_a_new_one() {
    let project = TempProject::new().with("g/start.fake", TWO);
    let words =
        [&["warmup", "g/start.fake", "--seed", "3", "--format", "csv"][..], &OLD_AND_NEW].concat();
    let measured = project.run(&words).expect_status(0);
    let reported = project.run(&["report", "--format", "csv"]).expect_status(0);
    assert_eq!(measured.stdout, reported.stdout);
}

#[test]
fn charts_show_every_process_with_its_spikes_and_its_steady_part() {
    let project = TempProject::new().with("g/start.fake", "case k=1\n* 30x80/10x200/90x1/10x300\n");
    let words = [
        "warmup",
        "g/start.fake",
        "--runs",
        "5",
        "-o",
        "all.svg",
        "-o",
        "all.html",
        "-o",
        "all.md",
    ];
    project.run(&words).expect_status(0);
    let text_of = |file: &str| std::fs::read_to_string(project.path(file)).unwrap();
    let svg = text_of("all.svg");
    let count = |what: &str| svg.matches(what).count();
    assert_eq!(count("class=\"panel\""), 5);
    assert_eq!(count("class=\"shade\""), 5);
    assert_eq!(count("class=\"spike\""), 5);
    assert_eq!(count("class=\"level\""), 10);
    assert!(text_of("all.html").contains("every process from its first iteration on"));
    assert!(text_of("all.md").contains("| warm-up "));
}

#[test]
fn a_benchmark_with_its_own_loop_is_refused_with_a_hint() {
    if super::project::node().is_none() {
        return;
    }
    let file = "const { createBenchmark } = require('speedwell');\n\
        const bench = createBenchmark(({ n }) => { bench.start(); bench.end(n); }, { n: [1] });\n";
    let project = TempProject::new().with("g/a.js", file);
    let refused = project.run(&["warmup", "g/a.js"]).expect_status(2);
    refused.expect_stderr(&["has its own loop", "hint: speedwell warmup --code node 'CODE'"]);
}

#[test]
fn mistakes_are_refused_before_anything_is_measured() {
    let refused = |words: &[&str], told: &str| {
        warmup(TWO, words).expect_status(2).expect_stderr(&[told]);
    };
    refused(&["--steady", "100%"], "the steady part must be less than the whole process");
    refused(
        &["--order", "paired", "--variant", "a=true", "--variant", "b=true"],
        "hint: leave out --order",
    );
    let short = [&OLD_AND_NEW[..], &["--iterations", "1000"]].concat();
    refused(&short, "is too short to detect a change");
    refused(&["--iterations", "9", "--time", "3s"], "cannot be used with");
    refused(&["--sort", "nothing"], "unknown sort column 'nothing'");
}

#[test]
fn run_can_measure_the_steady_part_as_a_metric() {
    let run = |words: &[&str]| {
        let all = [&["run", "g/start.fake", "--steady", "--seed", "3"], words].concat();
        let project = TempProject::new()
            .with("g/start.fake", "case k=1\nold 30x80/10x520\nnew 35x120/9x480\n");
        project.run(&[&all[..], &OLD_AND_NEW].concat()).expect_status(0).json()
    };
    let change = &run(&["--format", "json"])["changes"][0];
    assert_eq!((&change["metric"], &change["verdict"]), (&"steady_time".into(), &"better".into()));
    // The usual metric is stored beside it: half of all points are after the warm-up.
    let change = &run(&["--format", "json", "--metric", "throughput"])["changes"][0];
    assert_eq!(change["metric"], "throughput");
}

#[test]
fn runs_without_a_steady_part_are_not_counted() {
    let text = "case k=1\n* 10x600 10x550/13x50\n";
    let project = TempProject::new().with("g/start.fake", text);
    let found =
        project.run(&["run", "g/start.fake", "--steady", "--runs", "6", "--format", "json"]);
    let row = &found.expect_status(0).json()["summaries"][0];
    assert_eq!((&row["metric"], &row["runs"]), (&"steady_time".into(), &3.into()));
}

#[test]
fn plain_and_gzipped_published_series_are_classified_alike() {
    let points = |first: f64| -> Vec<f64> {
        let noise = [1.0, 1.004, 0.997, 1.001, 0.999];
        (0..2000).map(|at| if at < 300 { first } else { 0.5 } * noise[at % 5]).collect()
    };
    let processes: Vec<Vec<f64>> = (0..5).map(|_| points(0.8)).collect();
    let text =
        serde_json::json!({"wallclock_times": {"nbody:Graal:default-java": processes}}).to_string();
    let project = TempProject::new().with("krun.json", &text);
    let report =
        |file: &str| project.run(&["report", file, "--format", "json"]).expect_status(0).json();
    let found = report("krun.json");
    let row = &found["warmup"][0];
    assert_eq!((&row["class"], &row["steady_from"]), (&"warm-up".into(), &300.into()));
    assert_eq!(found["processes"][0]["warmup_stats"], "warm-up");
    let packed =
        std::process::Command::new("gzip").arg("-k").arg(project.path("krun.json")).status();
    if !packed.is_ok_and(|status| status.success()) {
        eprintln!("skipped: there is no gzip");
        return;
    }
    assert_eq!(report("krun.json.gz")["warmup"], found["warmup"]);
}
