//! Definition files: a load as a benchmark with cases, variants and verdicts.

use super::harness_driver::is_missing;
use super::project::{CommandResult, TempProject, node, repository};

/// Responds after `DELAY_MS`, and exits at request number `DIES_OF` if that is set.
const SERVER: &str = "const http = require('http');
const delay = Number(process.env.DELAY_MS || 0);
const server = http.createServer((request, response) => {
  const answer = () => response.end('hello ' + request.method);
  if (delay > 0) setTimeout(answer, delay); else answer();
});
server.listen(Number(process.argv[2]), '127.0.0.1');
if (process.env.DIES_OF) {
  let count = 0;
  server.on('request', () => {
    if (++count < Number(process.env.DIES_OF)) return;
    console.error('out of ideas');
    process.exit(3);
  });
}
";

const DEFINITION: &str = r#"
program = "node"

[benchmark.hello]
kind = "load"
serve = "{program} server.js {port}"
url = "http://127.0.0.1:{port}/"
concurrency = [1, 4]
requests = 60
expect = { status = 200, body = "hello" }
"#;

/// A project with a server and this definition, if the machine has Node.js.
fn project(definition: &str) -> Option<TempProject> {
    node()?;
    let project = TempProject::new().with("server.js", SERVER);
    Some(project.with("servers.toml", definition))
}

fn run(definition: &str, more: &[&str]) -> Option<(TempProject, CommandResult)> {
    let project = project(definition)?;
    let mut words = vec!["run", "servers.toml", "--runs", "2"];
    words.extend(more);
    let answer = project.run(&words);
    Some((project, answer))
}

#[test]
fn every_run_of_a_case_has_a_server_of_its_own_and_all_figures_of_a_load() {
    let Some((project, answer)) = run(DEFINITION, &["--metric", "all"]) else {
        return;
    };
    answer.expect_status(0).expect_stdout(&[
        "servers/hello",
        "throughput",
        "latency_p50",
        "latency_p99",
        "cpu_per_request",
        "http_errors",
    ]);
    let data = project.run(&["report", "--export", "jsonl"]).stdout;
    let ready = data.matches(r#""metric":"server_ready""#).count();
    assert!(ready >= 4, "two cases were run twice: {data}");
    for concurrency in [r#"["concurrency",1.0]"#, r#"["concurrency",4.0]"#] {
        assert_eq!(data.matches(concurrency).count(), 2, "{data}");
    }
}

#[test]
fn expectations_are_checked_before_another_tool_sends_the_load() {
    if is_missing("ab") {
        return;
    }
    let ab = DEFINITION.replace("concurrency = [1, 4]", "concurrency = 4\nclient = \"ab\"");
    let Some((_, answer)) = run(&ab, &[]) else {
        return;
    };
    answer.expect_status(0).expect_stdout(&["client=ab"]);
    // Lines are wrapped, so the reason is compared word by word.
    let told = |answer: CommandResult| {
        let words = answer.stdout.split_whitespace().collect::<Vec<_>>();
        words.join(" ")
    };
    let other_body = ab.replace("hello\" }", "goodbye\" }");
    let (_, answer) = run(&other_body, &[]).unwrap();
    let refused = told(answer.expect_status(2));
    assert!(refused.contains("with an unexpected body of"), "{refused}");
    let both = ab.replace("status = 200", "status = [200, 404]");
    let (_, answer) = run(&both, &[]).unwrap();
    let refused = told(answer.expect_status(2));
    assert!(refused.contains("ab cannot count 200, 404 as success"), "{refused}");
}

#[test]
fn a_slower_server_is_worse() {
    let variants = "[variant.plain]\n[variant.slow]\nenv = { DELAY_MS = 120 }\n";
    let definition = format!("{DEFINITION}{variants}").replace("[1, 4]", "4");
    let definition = definition.replace("requests = 60", "requests = 24");
    let Some(project) = project(&definition) else {
        return;
    };
    let words = ["compare", "servers.toml", "--runs", "8", "--fail-on", "worse"];
    project.run(&words).expect_status(1).expect_stdout(&["servers/hello", "worse"]);
    let words = ["report", "--metric", "latency_p99"];
    project.run(&words).expect_status(0).expect_stdout(&["worse"]);
}

#[test]
fn a_definition_with_a_claim_is_judged_as_an_experiment() {
    let claim = "[variant.plain]\n[variant.slow]\nenv = { DELAY_MS = 20 }\n[plan]\nruns = 2\n[[claim]]\n\
                 expr = \"throughput(slow) < throughput(plain)\"\n";
    let definition = DEFINITION.replace("requests = 60", "requests = 20");
    let Some(project) = project(&format!("{definition}{claim}").replace("[1, 4]", "4")) else {
        return;
    };
    project
        .run(&["run", "servers.toml"])
        .expect_stdout(&["throughput(slow) < throughput(plain)", "servers/hello"]);
}

#[test]
fn values_can_be_set_on_the_command_line_and_are_checked() {
    let Some((project, answer)) = run(DEFINITION, &["--set", "concurrency=2", "--list"]) else {
        return;
    };
    answer.expect_status(0).expect_stdout(&["servers/hello concurrency=2"]);
    let tried = project.run(&["run", "servers.toml", "--test"]);
    tried.expect_status(0);
    let wrong = project.run(&["run", "servers.toml", "--set", "concurency=2"]);
    wrong.expect_status(2).expect_stderr(&["did you mean 'concurrency'?"]);
    let half = project.run(&["run", "servers.toml", "--set", "concurrency=2.5", "--runs", "1"]);
    half.expect_status(2).expect_stderr(&["a whole number of at least 1, not 2.5"]);
}

#[test]
fn an_unexpected_body_is_a_failure_with_a_command_to_repeat_it() {
    let wrong = DEFINITION.replace("body = \"hello\"", "body = \"goodbye\"");
    let Some((_, answer)) = run(&wrong, &[]) else {
        return;
    };
    answer.expect_status(2).expect_stdout(&["servers/hello", "goodbye", "load http://127.0.0.1:"]);
}

#[test]
fn a_server_crash_during_the_load_is_a_failure_with_its_last_output() {
    let dying = DEFINITION
        .replace("serve = \"", "serve = \"DIES_OF=100 ")
        .replace("requests = 60", "duration = \"20s\"")
        .replace("[1, 4]", "4");
    let Some((_, answer)) = run(&dying, &[]) else {
        return;
    };
    answer.expect_status(2).expect_stdout(&[
        "failed at 'load'",
        "exited with status 3",
        "out of ideas",
    ]);
}

#[test]
fn waiting_for_a_server_that_listens_elsewhere_times_out() {
    let elsewhere = DEFINITION
        .replace("server.js {port}", "server.js 0")
        .replace("requests = 60", "requests = 60\nready = \"400ms\"");
    let Some((_, answer)) = run(&elsewhere, &[]) else {
        return;
    };
    answer
        .expect_status(2)
        .expect_stdout(&["failed at 'ready'", "accept connections at 127.0.0.1:"]);
}

#[test]
fn a_key_that_is_not_known_is_refused_before_anything_is_started() {
    let wrong = DEFINITION.replace("concurrency", "concurency");
    let project = TempProject::new().with("servers.toml", &wrong);
    project.run(&["run", "servers.toml"]).expect_status(2).expect_stderr(&[
        "'servers.toml",
        "'concurency'",
        "did you mean 'concurrency'?",
    ]);
}

#[test]
fn the_example_of_the_documentation_works() {
    let page =
        std::fs::read_to_string(repository().join("docs/guide/definition-files.md")).unwrap();
    let after = |mark: &str| page.split_once(mark).map(|(_, rest)| rest).unwrap();
    let block = |language: &str| after(language).split("```").next().unwrap().to_owned();
    let definition = block("```toml\n")
        .replace("duration = \"5s\"", "requests = 40")
        .replace("warmup = \"500ms\"", "warmup = \"20ms\"");
    assert!(definition.contains("20ms") && definition.contains("requests = 40"), "{definition}");
    let Some(project) = project(&definition) else {
        return;
    };
    let project = project.with("server.js", &block("```js\n"));
    project
        .run(&["run", "servers.toml", "--runs", "1"])
        .expect_status(0)
        .expect_stdout(&["servers/", "old", "new"]);
}

#[test]
fn editing_a_definition_during_a_session_does_not_affect_it() {
    // The server's own command edits the file, so that it differs from the first run on.
    let edit =
        "sed -i -e s/requests...60/requests=7/ -e s/benchmark.hello/benchmark.bye/ servers.toml";
    let definition = DEFINITION
        .replace("{program} server.js", &format!("{edit} && exec {{program}} server.js"))
        .replace("[1, 4]", "1");
    let Some((project, answer)) = run(&definition, &[]) else {
        return;
    };
    answer.expect_status(0);
    let now = std::fs::read_to_string(project.path("servers.toml")).unwrap();
    assert!(now.contains("requests=7") && now.contains("[benchmark.bye]"), "{now}");
    let data = project.run(&["report", "--export", "jsonl"]).stdout;
    assert_eq!(data.matches(r#""iterations":60"#).count() % 2, 0, "{data}");
    assert!(data.contains(r#""iterations":60"#) && !data.contains(r#""iterations":7,"#), "{data}");
    assert!(data.contains("requests = 60"), "the text is kept with the session: {data}");
}
