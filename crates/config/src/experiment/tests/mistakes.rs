//! Every kind of error in a file is reported with its line and a hint.

use super::{assignment_of, case_ids, message_of, read_experiment, service_of};
use std::time::Duration;

/// A valid file; each of the following mistakes replaces one of its lines.
const SMALL: &str = r##"schema = 2
name = "small"
[params]
clients = 10
[[variant]]
name = "plain"
[[variant]]
name = "loaded"
args = ["--load"]
color = "#c0392b"
[[group]]
name = "web"
kind = "server"
metrics = ["throughput", "latency_p99"]
exclude = [{ size = 10, mode = "b" }]
[group.parameters]
size = [10, 1000]
mode = ["a", "b"]
[group.target]
command = ["node", "server.js", "--size={size}", "--port={port}"]
[group.load]
concurrency = "2*{clients}"
requests = 100
[group.verify]
status = ["2xx", 304]
[[group.override]]
match = { size = 1000 }
load.duration = "2s"
[plan]
runs = 5
control = "plain"
[compare]
pairs = [["plain", "loaded"]]
gate = "throughput > -5%"
[[claim]]
expr = "throughput(loaded) > 0.5*throughput(plain)"
[profile]
when = ["web, size=10"]
"##;

#[test]
fn the_small_file_is_valid_and_overrides_set_the_length_per_case() {
    let found = read_experiment(SMALL).unwrap();
    let cases =
        ["small/web mode=a size=10", "small/web mode=a size=1000", "small/web mode=b size=1000"];
    assert_eq!(case_ids(&found, "web"), cases);
    let load =
        |case: usize| service_of(&assignment_of(&found, "web", case, "plain")).load.spec.clone();
    assert_eq!((load(0).time, load(0).count), (None, Some(100)));
    assert_eq!((load(1).time, load(1).count), (Some(Duration::from_secs(2)), None));
    assert_eq!(load(0).concurrency, Some(20));
    let run = assignment_of(&found, "web", 0, "plain");
    assert_eq!(service_of(&run).verify.statuses, [(200, 299), (304, 304)]);
    assert_eq!(found.claims[0].rows.len(), 3);
}

/// Original text, replacement, line of the error, and texts that the message must contain.
type FileMistake = (&'static str, &'static str, usize, &'static [&'static str]);

const MISTAKES: &[FileMistake] = &[
    ("schema = 2", "schema = 3", 1, &["schema 3", "hint: set schema = 2"]),
    ("schema = 2", "schema = 1", 1, &["schema 1", "hint: set schema = 2"]),
    ("schema = 2", "title = 1", 1, &["key 'title'"]),
    ("runs = 5", "run = 5", 30, &["[plan] has an unknown key 'run'", "did you mean 'runs'?"]),
    ("runs = 5", "runs = 0.5", 30, &["'runs' of [plan] must be a whole number above 0"]),
    ("args =", "arg =", 9, &["[[variant]] has an unknown key 'arg'", "did you mean 'args'?"]),
    ("args = [\"--load\"]", "args = { a = 1 }", 9, &["'args'", "must be a string"]),
    ("args = [\"--load\"]", "env = { A = { add = 1 } }", 9, &["[variant.env.A]", "'add'"]),
    ("args = [\"--load\"]", "env = { A = { set = 1, append = 2 } }", 9, &["exactly one"]),
    ("args = [\"--load\"]", "assert = { stderr = '(' }", 9, &["'('", "unclosed group"]),
    ("args = [\"--load\"]", "assert = { match = 'x' }", 9, &["requires 'file' or 'http'"]),
    ("#c0392b", "#c0392", 10, &["cannot parse color '#c0392'"]),
    ("#c0392b", "#c0392g", 10, &["cannot parse color '#c0392g'"]),
    ("\"loaded\"\nargs", "\"plain\"\nargs", 8, &["two variants", "'plain'"]),
    ("\"server\"", "\"sever\"", 13, &["cannot be 'sever'", "did you mean 'server'?"]),
    ("\"latency_p99\"", "\"latency_p101\"", 14, &["no metric 'latency_p101'", "'latency_p50'"]),
    ("mode = \"b\"", "mde = \"b\"", 15, &["unknown parameter 'mde'", "did you mean 'mode'?"]),
    ("mode = \"b\"", "mode = \"c\"", 15, &["'mode' has no value 'c'", "did you mean 'a'?"]),
    ("size = [10, 1000]", "port = [10, 1000]", 17, &["'port'", "is reserved"]),
    ("{size}", "{siez}", 20, &["'{siez}'", "did you mean 'size'?", "the variant 'plain'"]),
    ("2*{clients}", "two", 22, &["'concurrency' of [group.load]", "whole number"]),
    ("requests = 100", "requests = 100\nduration = \"1s\"", 24, &["cannot have both"]),
    ("requests = 100\n", "\n", 21, &["must have 'requests' or 'duration'"]),
    ("requests = 100", "duration = \"1 parsec\"", 23, &["cannot parse duration '1 parsec'"]),
    ("304", "1777", 25, &["cannot parse status '1777'"]),
    ("\"2xx\"", "\"300-200\"", 25, &["cannot parse status '300-200'"]),
    ("[group.verify]", "[group.verify]\nbody = { regex = 'a', bytes = 1 }", 25, &["exactly one"]),
    ("match = { size", "match = { sizes", 27, &["'sizes'", "did you mean 'size'?"]),
    ("match = { size = 1000 }", "match = { size = 100 }", 27, &["'size' has no value '100'"]),
    ("load.duration", "load.durations", 28, &["'durations'", "did you mean 'duration'?"]),
    ("load.duration", "laod.duration", 28, &["'laod'", "did you mean 'load'?"]),
    ("control = \"plain\"", "control = \"plan\"", 31, &["variant 'plan'", "'plain'?"]),
    ("[[\"plain\", \"loaded\"]]", "[[\"plain\", \"loadde\"]]", 33, &["'loadde'", "'loaded'?"]),
    ("[[\"plain\", \"loaded\"]]", "[[\"plain\"]]", 33, &["must be a list of pairs"]),
    (
        "throughput > -5%",
        "througput > -5%",
        34,
        &["unknown metric 'througput'\n  througput > -5%\n  ^\n", "'throughput'?"],
    ),
    ("throughput > -5%", "throughput > -5", 34, &["expected a change in percent\n"]),
    (
        "0.5*throughput(plain)",
        "0.5*throughput(plai)",
        36,
        &["\n  throughput(loaded) > 0.5*throughput(plai)\n"],
    ),
    (
        "0.5*throughput(plain)",
        "0.5*throughput(plai)",
        36,
        &["\n                                      ^\nhint: did you mean 'plain'?"],
    ),
    ("0.5*throughput(plain)", "0.5*cpu", 36, &["unknown parameter 'cpu'", "'cpus'?"]),
    ("size=10\"]", "size=10, \"]", 38, &["expected a group or PARAMETER=VALUE"]),
    ("\"web, size", "\"wep, size", 38, &["unknown group 'wep'", "did you mean 'web'?"]),
    (
        "0.5*throughput(plain)",
        "50ms",
        36,
        &["'50ms' cannot be compared with the metrics in this claim\n"],
    ),
    ("0.5*throughput(plain)", "50 mss", 36, &["expected an operator\n"]),
    ("0.5*throughput(plain)", "50mss", 36, &["unknown unit 'mss'\n"]),
    (
        "throughput(loaded) >",
        "latency_p50(loaded) < 50ms and throughput(plain) + ",
        36,
        &["expected a comparison"],
    ),
    (
        "throughput(loaded) >",
        "throughput(plain) > throughput(plai) and throughput(plain) >",
        36,
        &["\n                                 ^\nhint: did you"],
    ),
    ("when = [\"web, size=10\"]", "when = [\"web, size=11\"]", 38, &["'size' has no value '11'"]),
    ("when = [\"web, size=10\"]", "when = \"verdict = same\"", 38, &["cannot be 'verdict = same'"]),
    (
        "requests = 100",
        "requests = 100\nwarmup = { requests = 5, duration = \"1s\" }",
        24,
        &["the key 'warmup' of [group.load]: a warm-up must have exactly one end condition"],
    ),
    (
        "requests = 100",
        "requests = 100\nclient = \"wrkk\"",
        24,
        &["cannot be 'wrkk'", "did you mean 'wrk'?"],
    ),
    ("color =", "colour =", 10, &["[[variant]] has an unknown key 'colour'", "'color'?"]),
    ("\"latency_p99\"", "\"latency.p99\"", 14, &["no metric 'latency.p99'", "'latency_p99'?"]),
    ("\"latency_p99\"", "\"ready_ms\"", 14, &["no metric 'ready_ms'", "server_ready"]),
    ("throughput > -5%", "rps > -5%", 34, &["unknown metric 'rps'", "use one of throughput"]),
    ("concurrency =", "connections =", 22, &["unknown key 'connections'", "concurrency"]),
    (
        "status = [\"2xx\", 304]",
        "status = []",
        25,
        &["'status' of [group.verify] is an empty list"],
    ),
    (
        "exclude = [{ size = 10, mode = \"b\" }]",
        "exclude = 5",
        15,
        &["'exclude' of [[group]] must be a table"],
    ),
    ("expr = ", "exp = ", 36, &["[[claim]] has an unknown key 'exp'", "did you mean 'expr'?"]),
    (
        "expr = \"throughput(loaded) > 0.5*throughput(plain)\"",
        "say = \"it is faster\"",
        35,
        &["[[claim]] has no key 'expr'\nhint: expr = "],
    ),
    ("load.duration = \"2s\"", "load = 5", 28, &["'load' of [[group.override]] must be a table"]),
];

#[test]
fn every_mistake_is_reported_with_its_line_and_a_hint() {
    let mut wrongly = Vec::new();
    for (good, wrong, line, parts) in MISTAKES {
        assert!(SMALL.contains(good), "{good}");
        let message = message_of(&SMALL.replace(good, wrong));
        let has_line = message.starts_with(&format!("line {line}: "));
        if !has_line || !parts.iter().all(|part| message.contains(part)) {
            wrongly.push(format!("{wrong}: {message}"));
        }
    }
    assert!(wrongly.is_empty(), "{}", wrongly.join("\n"));
}

#[test]
fn claims_cannot_mix_different_cases_but_may_refer_to_a_single_case() {
    let mixed = SMALL.replace("0.5*throughput(plain)", "throughput[mode=a](plain)");
    let message = message_of(&mixed);
    assert!(message.contains("'throughput[mode=a](plain)' covers different cases"), "{message}");
    let one = SMALL.replace("0.5*throughput(plain)", "throughput[web, mode=b, size=1000](plain)");
    assert_eq!(read_experiment(&one).unwrap().claims[0].rows.len(), 3);
}
