//! `speedwell new`: the created files work as they are.

use super::harness_driver::is_missing;
use super::project::{CommandResult, TempProject, node, repository};
use speedwell_config::experiment::{self, Experiment};
use speedwell_model::assignment::{EnvVarChange, RunAssignment, TargetWork};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn parse_file(file: &Path, set: &[(String, String)]) -> anyhow::Result<Experiment> {
    Experiment::parse(&speedwell_config::read_source(file, set)?)
}

fn read(file: &Path) -> Experiment {
    let form = experiment::definition_form(file);
    assert_eq!(form, Some(experiment::DefinitionForm::Experiment), "{}", file.display());
    parse_file(file, &[]).unwrap_or_else(|error| panic!("{error:#}"))
}

fn run_of(experiment: &Experiment, variant: &str) -> RunAssignment {
    let group = &experiment.groups[0];
    experiment.assignment(group, &group.cases[0], variant, 7).unwrap()
}

/// Runs the target's command of an assignment, with its environment changes.
fn run_assignment(run: &RunAssignment) -> String {
    let mut command = Command::new(&run.target.command[0]);
    command.args(&run.target.command[1..]).current_dir(&run.target.directory);
    for change in &run.target.environment {
        match change {
            EnvVarChange::Set(name, value)
            | EnvVarChange::Append(name, value)
            | EnvVarChange::Prepend(name, value) => command.env(name, value),
            EnvVarChange::Unset(name) => command.env_remove(name),
        };
    }
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn written_files(answer: &CommandResult) -> Vec<&str> {
    answer.stdout.lines().collect()
}

#[test]
fn new_overhead_loads_a_node_module_only_in_the_second_variant() {
    if node().is_none() {
        return;
    }
    let project = TempProject::new()
        .with("a folder/mod.js", "console.log('loaded');")
        .with("app.js", "console.log(process.argv[2]);");
    let words = [
        "new",
        "overhead",
        "--no-look",
        "--require",
        "./a folder/mod.js",
        "--",
        "node",
        "app.js",
        "{x}",
    ];
    let answer = project.run(&words).expect_status(0);
    assert_eq!(written_files(&answer), ["overhead.toml"]);
    answer.expect_stderr(&["speedwell run overhead.toml --test"]);
    let found = read(&project.path("overhead.toml"));
    assert_eq!(found.requirements[0].name, "node");
    assert_eq!(found.plan.control.as_deref(), Some("without"));
    assert_eq!(run_assignment(&run_of(&found, "without")), "{x}\n");
    assert_eq!(run_assignment(&run_of(&found, "with")), "loaded\n{x}\n");
}

#[test]
fn new_overhead_loads_a_python_module_without_changing_the_program() {
    if is_missing("python3") {
        return;
    }
    let project = TempProject::new()
        .with("mod.py", "print('loaded')")
        .with("app.py", "import sys; print(any('preload' == p for p in sys.path))");
    let words = ["new", "overhead", "--no-look", "--require", "mod.py", "--", "python3", "app.py"];
    let answer = project.run(&words).expect_status(0);
    assert_eq!(written_files(&answer), ["overhead.toml", "preload/sitecustomize.py"]);
    let found = read(&project.path("overhead.toml"));
    assert_eq!(run_assignment(&run_of(&found, "without")), "False\n");
    assert_eq!(run_assignment(&run_of(&found, "with")), "loaded\nFalse\n");
}

#[test]
fn a_definition_in_another_folder_runs_in_the_original_one() {
    let project = TempProject::new().with("libm.so", "").with("app", "").with("other/x", "");
    let words = [
        "new",
        "overhead",
        "--no-look",
        "-o",
        "other/o.toml",
        "--require",
        "libm.so",
        "--",
        "./app",
    ];
    project.run(&words).expect_status(0);
    let run = run_of(&read(&project.path("other/o.toml")), "with");
    let here = project.path("").canonicalize().unwrap();
    assert_eq!(run.target.directory.canonicalize().unwrap(), here);
    let EnvVarChange::Append(name, library) = &run.target.environment[0] else { panic!("{run:?}") };
    assert_eq!(name, "LD_PRELOAD");
    assert_eq!(Path::new(library).canonicalize().unwrap(), here.join("libm.so"));
}

#[test]
fn unloadable_modules_and_existing_files_are_refused() {
    let project = TempProject::new().with("mod.rb", "").with("topology.toml", "mine");
    let loaded = |module: &str| {
        project.run(&["new", "overhead", "--no-look", "--require", module, "--", "x"])
    };
    loaded("./lost.js").expect_status(2).expect_stderr(&["cannot find the module './lost.js'"]);
    loaded("./mod.rb").expect_status(2).expect_stderr(&["cannot load the module './mod.rb'"]);
    let refused = project.run(&["new", "topology", "--no-look"]).expect_status(2);
    refused.expect_stderr(&["'topology.toml' already exists", "hint: --force"]);
    assert!(!project.path("server.js").exists());
    assert_eq!(std::fs::read_to_string(project.path("topology.toml")).unwrap(), "mine");
    project.run(&["new", "topology", "--force", "--no-look"]).expect_status(0);
    read(&project.path("topology.toml"));
    let one = project.run(&["new", "servers", "--no-look", "--server", "a=b"]).expect_status(2);
    one.expect_stderr(&["a single server cannot be compared"]);
}

#[test]
fn servers_become_variants_that_receive_their_port() {
    let project = TempProject::new();
    let words = ["--server", "a=node a.js --port={port}", "--server", "b=./b '{x} y'"];
    let all = [&["new", "servers", "--no-look", "--path", "/it's"][..], &words].concat();
    project.run(&all).expect_status(0);
    let found = read(&project.path("servers.toml"));
    assert_eq!(run_of(&found, "a").target.command, ["node", "a.js", "--port={port}"]);
    let b = run_of(&found, "b");
    assert_eq!(b.target.command, ["./b", "{x} y"]);
    assert_eq!(b.target.environment, [EnvVarChange::Set("PORT".into(), "{port}".into())]);
    let TargetWork::Server(service) = b.work else { panic!("no server") };
    assert_eq!(service.load.spec.url, "http://127.0.0.1:{port}/it's");
}

#[test]
fn the_schema_of_definition_files_is_printed_for_editors() {
    let project = TempProject::new();
    let printed = project.run(&["new", "--schema"]).expect_status(0);
    let schema: serde_json::Value = serde_json::from_str(&printed.stdout).unwrap();
    assert_eq!(schema["properties"]["group"]["description"], "What is measured, in order.");
    project.run(&["new"]).expect_status(2);
    project.run(&["new", "--schema", "topology"]).expect_status(2);
}

/// A server that is stopped with the test.
struct StartedServer(Child);

impl Drop for StartedServer {
    fn drop(&mut self) {
        // Its children exit with it, because their connection to it is closed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn request_root(port: u16) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(60))).ok()?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned())
}

fn collect_answers(run: &RunAssignment) -> Vec<String> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let words = run.target.command.iter().map(|word| word.replace("{port}", &port.to_string()));
    let words: Vec<String> = words.collect();
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).current_dir(&run.target.directory);
    let _server = StartedServer(command.stdin(Stdio::null()).spawn().unwrap());
    let since = Instant::now();
    let mut found = Vec::new();
    while found.len() < 6 {
        match request_root(port) {
            Some(answer) => found.push(answer),
            None if since.elapsed() > Duration::from_secs(90) => panic!("no answer of {words:?}"),
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    }
    found
}

#[test]
fn all_six_topologies_answer_with_the_same_numbers() {
    if node().is_none() {
        return;
    }
    let project = TempProject::new();
    let answer = project.run(&["new", "topology", "--no-look"]).expect_status(0);
    assert_eq!(written_files(&answer), ["topology.toml", "server.js"]);
    let set = [("workers".to_owned(), "2".to_owned())];
    let found = parse_file(&project.path("topology.toml"), &set).unwrap();
    let all: Vec<Vec<String>> = found
        .variants
        .iter()
        .map(|variant| collect_answers(&run_of(&found, &variant.name)))
        .collect();
    assert_eq!(all.len(), 6);
    assert!(all.iter().all(|answers| *answers == all[0]), "{all:?}");
    // Fibonacci numbers, starting with 1 and 2 because fib(0) is 1, and not always the same one.
    let mut known = vec![1u64, 2];
    while known.len() < 30 {
        known.push(known[known.len() - 1] + known[known.len() - 2]);
    }
    assert!(all[0].iter().all(|answer| known.contains(&answer.parse().unwrap())), "{all:?}");
    assert!(all[0].iter().any(|answer| *answer != all[0][0]), "{all:?}");
}

#[test]
fn a_suite_has_cases_in_every_language_that_is_installed() {
    let project = TempProject::new();
    let answer = project.run(&["new", "suite", "mine"]).expect_status(0);
    let files = written_files(&answer);
    let listed = project.run(&["run", "--list", "mine"]).expect_status(0);
    for file in files {
        let name = Path::new(file).file_stem().unwrap().to_string_lossy();
        let lines = listed.stdout.lines();
        let cases = lines.filter(|line| line.contains(&format!("mine/{name}")));
        assert!(cases.count() >= 2, "{file}: {listed:?}");
    }
    project.run(&["run", "--test", "mine"]).expect_status(0);
}

#[test]
fn the_example_in_the_documentation_has_the_documented_cases() {
    let page = std::fs::read_to_string(repository().join("docs/guide/experiments.md")).unwrap();
    let (_, rest) = page.split_once("```toml\n").unwrap();
    let (text, _) = rest.split_once("```").unwrap();
    let project = TempProject::new().with("cache.toml", text);
    let found = read(&project.path("cache.toml"));
    let cases: Vec<String> = found.groups[0].cases.iter().map(|case| case.id()).collect();
    assert_eq!(cases, ["cache/http size=100", "cache/http size=10000"]);
    assert!(cases.iter().all(|case| page.contains(&format!("`{case}`"))));
    let wrong = text.replace(
        "throughput(large) > throughput(small) and",
        "throughput(lage) > throughput(small) and",
    );
    let project = project.with("wrong/cache.toml", &wrong);
    let told = parse_file(&project.path("wrong/cache.toml"), &[]).unwrap_err();
    assert!(format!("{told:#}").contains("hint: did you mean 'large'?"), "{told:#}");
}
