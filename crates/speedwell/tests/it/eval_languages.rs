//! `speedwell eval` in every installed language: each mode once, and failures.

use super::busy::{ensure_holds, retry_busy};
use super::harness_driver::find_tool;
use super::project::TempProject;
use serde_json::Value;

/// Test snippets of one language.
struct LanguageTexts {
    word: &'static str,
    tools: &'static [&'static str],
    /// Something that takes a little time.
    plain: &'static str,
    /// A sleep of 10 ms.
    sleep: &'static str,
    /// Code that does not compile, and a word of the error message.
    wrong: (&'static str, &'static str),
    /// A failing iteration, and a word of the error message; `None` if a signal ends the process.
    fails: Option<(&'static str, &'static str)>,
}

const LANGUAGES: [LanguageTexts; 9] = [
    LanguageTexts {
        word: "erlang",
        tools: &["erl"],
        plain: "rand:uniform().",
        sleep: "timer:sleep(10).",
        wrong: ("foo(", "syntax error"),
        fails: Some(("error(broken).", "broken")),
    },
    LanguageTexts {
        word: "elixir",
        tools: &["elixir"],
        plain: "Enum.reduce([1, 2, 3], 0, &(&1 + &2))",
        sleep: "Process.sleep(10)",
        wrong: ("foo(", "missing terminator"),
        fails: Some(("raise \"broken\"", "broken")),
    },
    LanguageTexts {
        word: "node",
        tools: &["node"],
        plain: "[3, 1, 2].sort()",
        sleep: "await new Promise((done) => setTimeout(done, 10))",
        wrong: ("foo(", "Unexpected end of input"),
        fails: Some(("(() => { throw new Error('broken') })()", "broken")),
    },
    LanguageTexts {
        word: "python",
        tools: &["python3"],
        plain: "sum(range(100))",
        sleep: "__import__('time').sleep(0.01)",
        wrong: ("foo(", "was never closed"),
        fails: Some(("1 / 0", "division by zero")),
    },
    LanguageTexts {
        word: "c",
        tools: &["cc", "gcc", "clang"],
        plain: "rand()",
        sleep: "usleep(10000)",
        wrong: ("undefined_name + 1", "undeclared"),
        fails: None,
    },
    LanguageTexts {
        word: "cpp",
        tools: &["c++", "g++", "clang++"],
        plain: "std::rand()",
        sleep: "usleep(10000)",
        // With 'return' it is compiled once: it cannot be a statement without a value.
        wrong: ("return std::nothing();", "nothing"),
        fails: Some(("throw std::runtime_error(\"broken\");", "broken")),
    },
    LanguageTexts {
        word: "go",
        tools: &["go"],
        plain: "strings.Repeat(\"a\", 10)",
        sleep: "time.Sleep(10 * time.Millisecond)",
        wrong: ("undefinedName + 1", "undefined"),
        fails: Some(("panic(\"broken\");", "broken")),
    },
    LanguageTexts {
        word: "rust",
        tools: &["rustc"],
        plain: "\"a\".repeat(10)",
        sleep: "std::thread::sleep(std::time::Duration::from_millis(10))",
        wrong: ("undefined_name + 1", "undefined_name"),
        fails: Some(("panic!(\"broken\")", "broken")),
    },
    LanguageTexts {
        word: "java",
        tools: &["javac"],
        plain: "Math.sqrt(System.nanoTime())",
        sleep: "Thread.sleep(10);",
        wrong: ("return undefinedName + 1;", "cannot find symbol"),
        fails: Some(("Integer.parseInt(\"broken\")", "broken")),
    },
];

/// Quick figures, which are not examined closely.
const QUICK: [&str; 8] = ["-r", "1", "-n", "2", "-t", "30ms", "-w", "10ms"];

fn language(word: &str) -> Option<&'static LanguageTexts> {
    let found = LANGUAGES.iter().find(|one| one.word == word).unwrap();
    find_tool(found.tools).map(|_| found)
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn each_mode(word: &str) {
    let Some(language) = language(word) else {
        return;
    };
    let project = TempProject::new();
    let eval = |words: &[&str]| project.run(&[&["eval", word], words].concat()).expect_status(0);
    // The figure of the last snippet.
    let figure = |words: &[&str], name: &str| {
        let answer = eval(&[words, &["--format", "json"]].concat());
        let codes = &json(&answer.stdout)["codes"];
        codes.as_array().unwrap().last().unwrap()[name].as_f64().unwrap()
    };
    let pair = [language.plain, language.sleep];
    let timed = [&pair[..], &["--iterations=3", "-n", "2", "-r", "1", "-w", "0"]].concat();
    let at_once = [&[language.sleep, "-c", "4"], &QUICK[..]].concat();
    // At least the sleep; more on a busy machine, which may also stall between counting and reading
    // the clock.
    retry_busy(1, || {
        let time_ns = figure(&timed, "time_ns");
        assert!(time_ns > 9.9e6, "{time_ns}");
        let report = project.run(&["report"]).expect_status(0);
        report.expect_stdout(&[language.plain, "baseline"]);
        let per_s = figure(&at_once, "throughput");
        ensure_holds(time_ns < 5e9 && (1.0..405.0).contains(&per_s), || {
            format!("{time_ns} ns an iteration, {per_s} a second at once")
        })
    });
    let lines = eval(&[language.plain, "--watch", "-n", "2", "-t", "100ms"]).stdout;
    assert_eq!(lines.lines().count(), 3, "{lines}");
}

/// Languages whose hooks fail: one that is interpreted, and one that is compiled. Which event tells
/// of it is the same in all (`conformance_code`), and so is the code that reads it.
const WITH_FAILING_HOOKS: [&str; 2] = ["python", "rust"];

/// Snippets that fail in each way, in one session: each is a process of its own.
fn bad_input(word: &str) {
    let Some(language) = language(word) else {
        return;
    };
    let (wrong, complaint) = language.wrong;
    let mut words = vec!["eval", word, wrong, language.plain];
    let mut names = vec!["wrong", "plain"];
    let mut expected = vec!["does not compile".to_owned(), complaint.to_owned()];
    if let Some((fails, _)) = language.fails {
        words.push(fails);
        names.push("fails");
        expected.push("fails failed: ".to_owned());
        if WITH_FAILING_HOOKS.contains(&word) {
            words.extend([language.plain; 3]);
            for (name, hook, failing) in [
                ("in-init", "--init", 3),
                ("in-worker", "--init-worker", 4),
                ("in-done", "--done", 5),
            ] {
                words.extend((0..6).flat_map(|at| [hook, if at == failing { fails } else { "" }]));
                names.push(name);
                expected.push(format!("{name} failed in {}: ", &hook[2..]));
            }
        }
    }
    let failures = expected.len() - 2;
    words.extend(names.iter().flat_map(|name| ["--name", *name]));
    words.extend(QUICK);
    let answer = TempProject::new().run(&words).expect_status(2);
    let lines: Vec<&str> = answer.stdout.lines().collect();
    let told = answer.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for text in expected {
        assert!(told.contains(&text), "no '{text}' in {answer:#?}");
    }
    if let Some((_, complaint)) = language.fails {
        let count = told.matches(complaint).count();
        assert!(count >= failures, "one for each failure: {answer:#?}");
    }
    // What does not fail has its figures, and so has what fails afterwards.
    let table = lines.iter().position(|line| *line == "Each snippet by itself").unwrap();
    for name in names {
        let has_figures =
            lines[table..].iter().any(|line| line.split_whitespace().next() == Some(name));
        assert_eq!(has_figures, ["plain", "in-done"].contains(&name), "{name} in {answer:#?}");
    }
}

macro_rules! languages {
    ($($word:ident)*) => { $(
        mod $word {
            #[test]
            fn is_measured_in_each_mode() {
                super::each_mode(stringify!($word));
            }

            #[test]
            fn says_what_is_wrong_with_code() {
                super::bad_input(stringify!($word));
            }
        }
    )* };
}

languages! { erlang elixir node python c cpp go rust java }

#[test]
fn a_file_may_export_any_name() {
    const NAMES: [&str; 9] =
        ["loop", "state", "shared", "require", "run", "i", "n", "main", "bench"];
    for (word, file, head, item, end) in [
        ("node", "names.js", "", "exports.NAME = (t) => t;\n", ""),
        ("python", "names.py", "", "def NAME(t):\n    return t\n", ""),
        ("erlang", "names.erl", "-module(names).\n-compile(export_all).\n", "NAME(T) -> T.\n", "."),
    ] {
        if language(word).is_none() {
            continue;
        }
        let text: String = NAMES.iter().map(|name| item.replace("NAME", name)).collect();
        let project = TempProject::new().with(file, &format!("{head}{text}"));
        let calls = NAMES.map(|name| format!("{name}(1)")).join(" + ") + end;
        let init = format!("@{file}");
        let eval = |code: &str, more: &[&str]| {
            project.run(&[&["eval", word, code, "--init", &init], more, &QUICK[..]].concat())
        };
        eval(&calls, &[]).expect_status(0);
        if word != "erlang" {
            let answer = eval(&calls, &["--init-worker", "1"]).expect_status(2);
            assert!((answer.stdout + &answer.stderr).contains("'state'"), "{word}");
            let answer = eval("n(1)()", &[]).expect_status(2).stdout;
            assert!(answer.contains(" --init @") && !answer.contains("--path"), "{answer}");
        }
    }
}

#[test]
fn a_missing_toolchain_is_named() {
    let project = TempProject::new();
    for word in ["erlang", "elixir", "node", "python", "c", "cpp", "go", "rust", "java"] {
        let mut command = project.command(&["eval", word, "1", "-r", "1"]);
        // An empty folder, so that nothing is found.
        command.env("PATH", project.path("")).env_remove("CC").env_remove("CXX");
        let output = command.output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{word}: {told}");
        assert!(
            told.contains("could not be started") || told.contains("not found"),
            "{word}: {told}"
        );
    }
}

const STATE: &str = "r(_, S) -> {_, N} = rand:uniform_s(S), N.";
const GROUP: &str = "ok = pg:join(g, self()), ok = pg:leave(g, self()).";
/// The first commands of erlperf's users, except those that are part of another one or of
/// [`each_mode`].
const EXAMPLES: [&[&str]; 8] = [
    &["rand:uniform().", "-c", "4"],
    &["rand:uniform().", "crypto:strong_rand_bytes(2).", "--samples", "10", "--warmup", "100ms"],
    &[STATE, "r() -> rand:uniform().", "--init-runner", "rand:seed(exsss).", "--init-runner", ""],
    &["application_controller:is_running(kernel).", "--squeeze"],
    &["persistent_term:put(atom, \"string\").", "-c", "max"],
    &[
        "pg:join(scope, group, self()), pg:leave(scope, group, self()).",
        "--init",
        "pg:start_link(scope).",
        "--done",
        "gen_server:stop(scope).",
    ],
    &[
        "runner(X) -> timer:sleep(X).",
        "  runner(X) -> timer:sleep(X).",
        "--init-runner",
        "1.",
        "--init-runner",
        "2.",
    ],
    &[GROUP, "--init", "pg:start(pg).", "--nodes", "3", "--done", "2 = length(nodes())."],
];

/// erlperf's introductory examples, with a group of `pg` instead of the removed `pg2`.
#[test]
fn the_examples_of_erlperf_work() {
    if find_tool(&["erl"]).is_none() {
        return;
    }
    let project = TempProject::new();
    let search = ["--concurrency-limit", "2", "-n", "2", "-t", "10ms", "-w", "10ms"];
    for example in EXAMPLES {
        let is_search = example.contains(&"--squeeze") || example.contains(&"max");
        let quick: &[&str] = match example.contains(&"--samples") {
            _ if is_search => &search,
            true => &["-r", "1", "-t", "10ms"],
            false => &QUICK,
        };
        let words = [&["eval", "erlang"], example, quick].concat();
        let answer = project.run(&words);
        assert_eq!(answer.status, 0, "{words:?}: {answer:#?}");
    }
}
