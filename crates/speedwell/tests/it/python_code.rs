//! Parsing of Python given as text, beyond the suite for all languages.

use super::code_driver::CodeHarness;
use super::code_snippets::TestSnippet;

fn python() -> Option<CodeHarness> {
    CodeHarness::of("python")
}

/// The value of `init`, as `done` sees it.
fn value(init: &'static str) -> String {
    let Some(harness) = python() else {
        return String::new();
    };
    const SAY: &str =
        "lambda shared: print(repr(shared), file=open(__import__('os').environ['TRACE'], 'a'))";
    let talk = harness.with(TestSnippet::new("pass").init(init).done(SAY));
    talk.quit().1.join("\n")
}

#[test]
fn the_value_of_the_last_expression_is_the_result() {
    if python().is_none() {
        return;
    }
    assert_eq!(value("1 + 1"), "2");
    assert_eq!(value("a = 1\na + 2"), "3");
    assert_eq!(value("def f():\n    return 4\nf()"), "4");
    assert_eq!(value("def f():\n    return 5"), "5", "a function is called");
    assert_eq!(value("lambda: 6"), "6");
    assert_eq!(value("a = 7"), "None");
    assert_eq!(value("import asyncio\nawait asyncio.sleep(0, 8)"), "8");
    assert_eq!(value("async def f():\n    return 9"), "9");
}

#[test]
fn code_that_cannot_run_inside_the_loop_is_refused() {
    let Some(harness) = python() else { return };
    for (text, stage, message) in [
        ("return 5", "parse", "'return' outside function"),
        ("break", "parse", "'break' outside loop"),
        ("lambda a, b, c: a", "compile", "at most 2 parameters"),
        ("from os import *", "compile", "only allowed at module level"),
        ("# nothing", "parse", "there is no code"),
    ] {
        let mut talk = harness.start(TestSnippet::default()).unwrap();
        let answer = talk.load("a", TestSnippet::new(text));
        let error = answer.only("error");
        assert_eq!(error.text("stage"), stage, "{text}: {error:?}");
        assert!(error.text("msg").contains(message), "{text}: {error:?}");
    }
}

#[test]
fn unawaited_coroutines_are_awaited() {
    let Some(harness) = python() else { return };
    let snippet = TestSnippet::new("asyncio.sleep(0.02)").init("import asyncio");
    let mut talk = harness.with(snippet);
    for _ in 0..2 {
        let answer = talk.measure_windows("a", 5, 2);
        let worker = answer.only("worker");
        assert_eq!(worker.numbers("count"), [0.0, 1.0, 2.0]);
        assert!(worker.numbers("t_ns")[1] > 19e6);
    }
    talk.workers("a", 3);
    assert_eq!(talk.measure_windows("a", 5, 1).all("worker").len(), 3);
}

#[test]
fn assigned_state_stays_between_batches() {
    let Some(harness) = python() else { return };
    let snippet = TestSnippet::new("state += 1\nif state == 5000: trace()").init_runner("0").init(
        "def trace():\n    print('seen', file=open(__import__('os').environ['TRACE'], 'a'))\nNone",
    );
    let mut talk = harness.with(snippet);
    talk.measure_samples("a", 3000, 3);
    assert_eq!(talk.trace(), ["seen"]);
}

#[test]
fn the_stack_of_an_error_shows_the_text_of_its_own_code() {
    let Some(harness) = python() else { return };
    let mut talk = harness.start(TestSnippet::default()).unwrap();
    talk.load("a", TestSnippet::new("1 / 0"));
    talk.load("b", TestSnippet::new("None"));
    talk.workers("a", 1);
    talk.send_and_wait("calibrate", &[("job", "a"), ("target_ns", "1000000")]);
    let stack = talk.measure_windows("a", 5, 1).only("error").text("stack").to_owned();
    assert!(stack.contains("1 / 0"), "{stack}");
}
