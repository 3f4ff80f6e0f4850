//! Python benchmarks from file to verdict, and failures.

use super::busy::{ensure_holds, retry_busy};
use super::harness_driver::find_tool;
use super::project::{CommandResult, TempProject, repository};

const LISTS: &str = r#"import asyncio
import speedwell

@speedwell.benchmark(size=[10, 100])
def copy(bench, size):
    source = list(range(size))
    for _ in bench:
        target = source.copy()
    bench.items(bench.iterations * size)
    bench.check(len(target))

@speedwell.benchmark(concurrency=[1, 4])
async def nap():
    await asyncio.sleep(0.005)

@speedwell.benchmark
def absent(bench):
    bench.skip("there is no such device")
"#;

const QUICK: [&str; 8] = ["--samples", "2", "--time", "2ms", "--warmup", "0", "--runs", "2"];

fn project(file: &str, text: &str) -> Option<TempProject> {
    find_tool(&["python3"])?;
    Some(TempProject::new().with(file, text))
}

#[test]
fn a_file_is_measured_without_any_installation() {
    let Some(project) = project("data/lists.py", LISTS) else {
        return;
    };
    let list = project.run(&["run", "--list", "data"]).expect_status(0);
    list.expect_stdout(&["data/lists/copy size=10", "data/lists/nap concurrency=4"]);
    let answer = project.run(&[&["run", "data", "--metric", "all"], &QUICK[..]].concat());
    answer.expect_status(0).expect_stdout(&["size=100", "items", "there is no such device"]);
    let kept = project.run(&["report", "--export", "jsonl"]).expect_status(0).stdout;
    assert_eq!(kept.matches(r#""metric":"items""#).count(), 2 * 2 * 2, "cases x runs x samples");
}

#[test]
fn the_rate_of_concurrent_tasks_counts_all_tasks() {
    let Some(project) = project("data/lists.py", LISTS) else {
        return;
    };
    let words = "run data --filter nap --samples 3 --time 50ms --warmup 0 --runs 2";
    let words: Vec<&str> = words.split(' ').collect();
    // A stall of the machine during one of the few samples spoils the ratio.
    retry_busy(1, || {
        project.run(&words).expect_status(0);
        let csv = project.run(&["report", "--format", "csv"]).expect_status(0).stdout;
        let rate = |concurrency: &str| -> f64 {
            let line = csv.lines().find(|line| line.contains(concurrency));
            let line = line.unwrap_or_else(|| panic!("no {concurrency} in {csv}"));
            let heads = csv.lines().next().unwrap_or_default();
            let median = heads.split(',').position(|head| head == "median").unwrap();
            line.split(',').nth(median).unwrap().parse().unwrap()
        };
        let gain = rate("concurrency=4") / rate("concurrency=1");
        ensure_holds((2.0..10.0).contains(&gain), || {
            format!("4 naps at once are {gain} times as many")
        })
    });
}

#[test]
fn an_error_shows_the_line_of_the_file_and_how_to_repeat_it() {
    let text = "import speedwell\n\n@speedwell.benchmark\ndef bad():\n    raise KeyError('lost')\n";
    let Some(project) = project("g/bad.py", text) else {
        return;
    };
    let answer = project.run(&[&["run", "g/bad.py"], &QUICK[..]].concat()).expect_status(2);
    let answer =
        answer.expect_stdout(&["KeyError: 'lost'", "line 5, in bad", "-m speedwell", "bad.py bad"]);
    let told = &answer.stdout;
    assert!(!told.contains("measure.py"), "our own lines say nothing: {told}");
    let line = told.lines().find_map(|line| line.trim().strip_prefix("to repeat it: ")).unwrap();
    let again = std::process::Command::new("sh").args(["-c", line]).output().unwrap();
    CommandResult::from(again).expect_status(2).expect_stdout(&["KeyError"]);
}

#[test]
fn files_that_cannot_be_loaded_are_reported_with_the_reason() {
    let Some(project) = project("g/syntax.py", "import speedwell\ndef (:\n") else {
        return;
    };
    let project = project.with("g/top.py", "import speedwell\nraise OSError('no disk')\n");
    let project = project
        .with("g/mixed.py", "import speedwell\n@speedwell.benchmark(n=[1, 'a'])\ndef x(n): pass\n");
    let answer = project.run(&["run", "g"]).expect_status(2);
    answer.expect_stderr(&["SyntaxError", "OSError: no disk", "'n' has values of several types"]);
}

#[test]
fn two_interpreters_are_two_variants() {
    let Some(project) = project("data/lists.py", LISTS) else {
        return;
    };
    let flags = ["--variant", "plain=python3", "--variant", "optimised=python3 -O"];
    let words = [
        &["compare", "data/lists.py", "--filter", "copy", "--set", "size=10"],
        &flags[..],
        &QUICK[..],
    ]
    .concat();
    project.run(&words).expect_status(0).expect_stdout(&[
        "plain",
        "optimised",
        "data/lists/copy\n",
        "size=10",
    ]);
}

#[test]
fn garbage_collection_is_disabled_while_measuring_unless_requested() {
    let text = "import gc, speedwell\n\
                def answer(bench):\n    for _ in bench:\n        on = gc.isenabled()\n    bench.check(on)\n\
                resting = speedwell.benchmark(answer, name='resting')\n\
                working = speedwell.benchmark(answer, name='working', gc=True)\n\
                speedwell.main() if __name__ == '__main__' else None\n";
    let Some(project) = project("g/collector.py", text) else {
        return;
    };
    let driver = super::harness_driver::TestHarness::of("python").unwrap();
    for (name, on) in [("resting", "False"), ("working", "True")] {
        let path = project.path("g/collector.py");
        let load = format!("load\tjob=a\tform=case\tpath={}\tbenchmark={name}\n", path.display());
        let ended = driver.converse(&[load, "run\tjobs=a\tmode=once\n".into()]);
        assert_eq!(ended.only("check").text("text"), on, "{name}");
    }
}

#[test]
fn a_file_that_ends_in_main_is_measured_with_a_guard_and_without() {
    for ending in ["speedwell.main()", "def by_hand():\n    speedwell.main()\n\nby_hand()"] {
        let Some(project) = project("lists.py", &format!("{LISTS}\n{ending}\n")) else {
            return;
        };
        let listed = project.run(&["run", "lists.py", "--list"]).expect_status(0);
        assert!(listed.stdout.contains("copy size=10"), "{listed:#?}");
    }
}

#[test]
fn started_by_hand_a_file_prints_a_table_and_a_hint() {
    let Some(project) = project("lists.py", &format!("{LISTS}\nspeedwell.main()\n")) else {
        return;
    };
    let mut command = std::process::Command::new("python3");
    command.arg("lists.py").args(["copy", "size=7"]).current_dir(project.path("."));
    let output = command
        .env("PYTHONPATH", repository().join("crates/adapters/languages/python"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output();
    let answer = CommandResult::from(output.unwrap()).expect_status(0);
    answer.expect_stdout(&["copy size=7", "items"]).expect_stderr(&["hint: ", "speedwell run"]);
}
