//! Figures that a command prints itself: by a pattern, from JSON, between two marks; and the
//! expected end.

use super::busy::{ensure_holds, retry_busy};
use super::experiments::{all_values, data};
use super::project::TempProject;
use serde_json::Value;

/// Median of a metric of the baseline in a case.
#[track_caller]
fn median(found: &Value, case: &str, metric: &str) -> f64 {
    let rows = found["changes"].as_array().unwrap();
    let row = rows.iter().find(|row| row["case"] == case && row["metric"] == metric);
    row.and_then(|row| row["baseline_median"].as_f64())
        .unwrap_or_else(|| panic!("no {metric} of {case} in {found:#}"))
}

const VARIANTS: &str = "[[variant]]\nname = \"old\"\n[[variant]]\nname = \"new\"\n";

#[test]
fn a_command_prints_its_own_figures() {
    let group = r#"
[[group]]
name = "own"
kind = "command"
[group.target]
command = ["cat", "results.json"]
[group.metric.seconds]
regex = 'took (?P<value>[\d.]+)'
unit = "s"
[group.metric.memory]
json = "results.1.peak"
unit = "KiB"
[group.metric.marks]
json = "points"
unit = "points"
better = "higher"
"#;
    let results =
        r#"{"text": "took 1.5, then took 2.5", "points": 12, "results": [{}, {"peak": 3}]}"#;
    let project = TempProject::new()
        .with("results.json", results)
        .with("own.toml", &format!("{VARIANTS}{group}"));
    let answer = project.run(&["run", "own.toml", "--runs=2", "--format=json"]);
    let found = data(&answer.expect_status(0));
    assert_eq!(
        all_values(&found, "changes", "metric"),
        ["seconds", "memory", "marks"],
        "in the order of the file"
    );
    // The pattern matches twice: the run has two samples.
    assert_eq!(median(&found, "own/own", "seconds"), 2e9);
    assert_eq!(median(&found, "own/own", "memory"), 3.0 * 1024.0);
    assert_eq!(median(&found, "own/own", "marks"), 12.0);
    assert_eq!(found["changes"][2]["unit"], "points");
    assert_eq!(found["changes"][2]["better"], "higher");
}

#[test]
fn exit_delay_is_measured_for_crashes_with_the_expected_exit_status() {
    let file = r#"
[[group]]
name = "end"
kind = "command"
parameters.how = ["crash", "clean"]
[group.target]
command = ["sh", "end.sh", "{how}"]
expect_exit = { crash = 3, clean = 0 }
[group.metric.exit_delay]
from = "mark:throw"
to = "process-end"
unit = "ms"
"#;
    let script = "sleep 0.05\necho mark:throw >&2\nsleep 0.05\ntest $1 = clean || exit 3\n";
    let project =
        TempProject::new().with("end.sh", script).with("end.toml", &format!("{VARIANTS}{file}"));
    // A delay when a mark arrives makes it late.
    retry_busy(2, || {
        let answer = project.run(&["run", "end.toml", "--runs=1", "--format=json"]);
        let found = data(&answer.expect_status(0));
        ["end/end how=crash", "end/end how=clean"].into_iter().try_for_each(|case| {
            let delay_ns = median(&found, case, "exit_delay");
            ensure_holds((45e6..60e9).contains(&delay_ns), || format!("{case}: {delay_ns}"))
        })
    });
    // Another end than the expected one is a failure of its case.
    let project = project.with("end.sh", "echo mark:throw\nexit 3\n");
    let answer = project.run(&["run", "end.toml", "--runs=1"]);
    answer
        .expect_status(2)
        .expect_stdout(&["end/end how=clean (new, old): failed at 'alive': exited with status 3"]);
}

#[test]
fn instruction_counts_complement_unclear_times_in_the_headline() {
    // Times vary between 400 and 2000 ms under both variants; counts are 100 and 200, plus or minus
    // the seed.
    let script = r#"
echo >> turns
echo "took $((400 + 1600 * ($(wc -l < turns) % 2))) ms"
echo "executed $(($1 * 10 + $2 % 7))"
"#;
    let file = r#"
[[variant]]
name = "old"
args = ["10", "{seed}"]
[[variant]]
name = "new"
args = ["20", "{seed}"]
[[group]]
name = "work"
kind = "command"
metrics = ["time", "instructions"]
[group.target]
command = ["sh", "work.sh"]
[group.metric.time]
regex = 'took (\S+)'
unit = "ms"
[group.metric.instructions]
regex = 'executed (\S+)'
unit = "instructions"
better = "lower"
"#;
    let project = TempProject::new().with("work.sh", script).with("work.toml", file);
    let words = ["run", "work.toml", "--seed=1", "--runs=8", "--format=json"];
    let found = data(&project.run(&words).expect_status(0));
    assert_eq!(all_values(&found, "changes", "verdict"), ["unclear", "worse"], "{found:#}");
    let headline = found["headlines"][0].as_str().unwrap();
    assert!(headline.starts_with("time: new against old: unclear"), "{headline}");
    // The answer comes first, and metrics after the first are collapsed.
    let page = project.run(&["report", "--format=html"]).expect_status(0);
    let place = |text: &str| page.stdout.find(text).expect(text);
    let [chart, table, more] =
        ["<figure", "id=\"changes", "<summary>More: instructions"].map(place);
    assert!(chart < table && table < more);
    assert!(page.stdout.contains("class=\"fold\">\n<summary>More"));
    let counted = "; where the verdict is unclear, the counts of instructions show: worse, ";
    assert!(headline.contains(counted), "{headline}");
}
