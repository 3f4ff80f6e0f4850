//! The shipped example experiments, shortened: from the definition file to the page in a browser.

use super::browser::{BrowserPage, ScreenSize};
use super::experiments::all_values;
use super::project::{CommandResult, TempProject, node, repository};
use serde_json::Value;
use std::collections::BTreeSet;

/// Reads the report that was written as data.
#[track_caller]
fn read_data(project: &TempProject, name: &str) -> Value {
    let text = std::fs::read_to_string(project.path(name)).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The names under a key of the stored runs.
fn in_runs(project: &TempProject, key: &str) -> BTreeSet<String> {
    let lines = project.run(&["report", "--export", "jsonl"]).expect_status(0);
    let value = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["run"][key].as_str().map(str::to_owned)
    };
    lines.stdout.lines().filter_map(value).collect()
}

/// Returns whether a requirement of the example is missing here.
fn cannot_run(answer: &CommandResult) -> bool {
    let is_missing = answer.stderr.contains("are not met:");
    if is_missing {
        eprintln!("skipped: {}", answer.stderr.trim());
    }
    is_missing
}

/// Asserts that the page opens without errors and without requests.
fn check_page_opens(project: &TempProject, name: &str, charts: usize) {
    let file = project.path(name);
    let Some(mut page) = BrowserPage::open(&file, ScreenSize::default()) else {
        return;
    };
    let shown = page.evaluate_script("document.querySelectorAll('svg').length");
    assert!(shown.as_u64().is_some_and(|shown| shown >= charts as u64), "{shown} pictures");
    assert!(page.complaints.is_empty(), "{:?}", page.complaints);
    let own = format!("file://{}", file.display());
    assert_eq!(page.requests, [own]);
}

#[test]
fn topologies_of_a_server_are_measured_and_reported() {
    if node().is_none() {
        return;
    }
    let file = repository().join("examples/topologies/topologies.toml");
    let project = TempProject::new();
    let sets = ["--set=requests=120", "--set=clients=20", "--set=workers=2", "--set=warmup=40"];
    let words = [&["run", file.to_str().unwrap(), "--runs=1"], &sets[..]].concat();
    let answer = project.run(&words);
    if cannot_run(&answer) {
        return;
    }
    let answer = answer.expect_status(0);
    let colours = ["red", "green", "blue", "purple", "brown", "cyan"];
    assert_eq!(in_runs(&project, "variant"), colours.iter().map(|&name| name.to_owned()).collect());
    let found = read_data(&project, "http-worker-topologies.json");
    assert_eq!(all_values(&found, "claims", "answer"), ["undecided"; 6]);
    let headlines = found["headlines"].to_string();
    assert!(headlines.contains("cyan (HTTP workers and N"), "{headlines}");
    // One column per variant, in the order of the file.
    let head = answer.stdout.lines().find(|line| line.trim_start().starts_with("%  "));
    let columns: Vec<&str> = head.unwrap().split_whitespace().skip(1).collect();
    assert_eq!(columns, colours);
    for row in found["percentiles"].as_array().unwrap() {
        assert_eq!(row["values"].as_object().unwrap().len(), 6, "{row}");
    }
    let percents: Vec<u64> = found["percentiles"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["percent"].as_u64().unwrap())
        .collect();
    assert_eq!(percents, [50, 66, 75, 80, 90, 95, 98, 99, 100]);
    let markdown = std::fs::read_to_string(project.path("http-worker-topologies.md")).unwrap();
    assert!(markdown.contains("What do HTTP workers"), "{markdown}");
    // Four stages and the tail, each drawn for wide and for narrow screens.
    let page = std::fs::read_to_string(project.path("http-worker-topologies.html")).unwrap();
    assert_eq!(page.matches(">Percentage served</").count(), 8);
    assert!(page.contains(">Percentage served, slowest requests</"));
    check_page_opens(&project, "http-worker-topologies.html", 5);
}

#[test]
fn the_cost_of_a_module_is_measured_and_reported() {
    if node().is_none() {
        return;
    }
    let file = repository().join("examples/overhead/overhead.toml");
    let project = TempProject::new();
    let words = [
        "run",
        file.to_str().unwrap(),
        "--runs=1",
        "--set=duration=100ms",
        "--set=warmup=50",
        "--set=connections=10",
        "--set=test=parallel-promises-es2015-native",
        "--set=rounds=1",
        "--set=server=express",
    ];
    let answer = project.run(&words);
    if cannot_run(&answer) {
        return;
    }
    // One run per side decides no gate and no claim.
    answer.expect_status(2).expect_stdout(&["gate cannot judge: "]);
    let cases: BTreeSet<&str> = [
        "crash-collector-overhead/promises",
        "crash-collector-overhead/http",
        "crash-collector-overhead/exit-delay",
    ]
    .into();
    let measured = in_runs(&project, "benchmark");
    assert_eq!(measured.iter().map(String::as_str).collect::<BTreeSet<_>>(), cases);
    let variants = ["all", "baseline", "baseline-again", "collector", "enable", "hooks", "session"];
    assert_eq!(
        in_runs(&project, "variant"),
        variants.iter().map(|&name| name.to_owned()).collect()
    );
    let found = read_data(&project, "crash-collector-overhead.json");
    assert_eq!(all_values(&found, "claims", "answer"), ["undecided"; 6]);
    assert_eq!(found["failures"].as_array().map(Vec::len), Some(0));
    let verdicts = all_values(&found, "changes", "verdict");
    assert!(verdicts.iter().all(|verdict| *verdict == "unclear"), "{verdicts:?}");
    assert!(project.path("crash-collector-overhead.md").is_file());
    check_page_opens(&project, "crash-collector-overhead.html", 3);
}

#[test]
fn a_server_in_front_of_postgresql_is_measured_and_reported() {
    if node().is_none() {
        return;
    }
    if speedwell_fixtures::postgres::find_programs().is_none() {
        return eprintln!("skipped: PostgreSQL is not installed");
    }
    let file = repository().join("examples/database/database.toml");
    let project = TempProject::new();
    let sets = ["--set=duration=100ms", "--set=clients=4", "--runs=1"];
    let answer = project.run(&[&["run", file.to_str().unwrap()], &sets[..]].concat());
    if cannot_run(&answer) {
        return;
    }
    answer.expect_status(0);
    let variants = ["prepared", "simple"].map(str::to_owned);
    assert_eq!(in_runs(&project, "variant"), variants.into());
    let found = read_data(&project, "database.json");
    assert_eq!(found["failures"].as_array().map(Vec::len), Some(0));
    assert_eq!(all_values(&found, "claims", "answer"), ["undecided"]);
}

#[test]
fn the_database_the_server_and_the_load_have_a_machine_each() {
    if node().is_none() {
        return;
    }
    if speedwell_fixtures::postgres::find_programs().is_none() {
        return eprintln!("skipped: PostgreSQL is not installed");
    }
    let file = repository().join("examples/database/place.toml");
    let project = TempProject::new();
    let machine = |name: &str| format!("[[machine]]\nname = \"{name}\"\n");
    let machines: String = ["server", "db", "load"].map(machine).concat();
    let folder = project.path("fleet");
    let fleet = format!("engine = \"local\"\nfolder = \"{}\"\n", folder.display());
    let project = project.with("fleet.toml", &(fleet + &machines));
    let sets = ["--set=duration=100ms", "--set=clients=4", "--runs=1"];
    let answer = project.run(&[&["run", file.to_str().unwrap()], &sets[..]].concat());
    if cannot_run(&answer) {
        return;
    }
    let answer = answer.expect_status(0);
    answer.expect_stdout(&["The target ran on server, db on db, and the load came from load."]);
    let variants = ["prepared", "simple"].map(str::to_owned);
    assert_eq!(in_runs(&project, "variant"), variants.into());
    let found = read_data(&project, "database-place.json");
    assert_eq!(found["failures"].as_array().map(Vec::len), Some(0));
}

#[test]
fn counted_and_timed_module_experiments_contain_the_same_tests() {
    let project = TempProject::new();
    let cases = |file: &str| -> BTreeSet<String> {
        let file = repository().join("examples/overhead").join(file);
        let words = ["run", file.to_str().unwrap(), "--list", "--filter=promises"];
        let listed = project.run(&words).expect_status(0).stdout;
        let tests = listed.split("test=").skip(1);
        tests.map(|rest| rest.split_whitespace().next().unwrap().to_owned()).collect()
    };
    let counted = cases("instructions.toml");
    assert_eq!(counted.len(), 6, "{counted:?}");
    assert_eq!(counted, cases("overhead.toml"));
}
