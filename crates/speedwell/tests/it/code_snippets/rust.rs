//! Rust.

use super::{LanguageSnippets, TestFault, TestSnippet};

const HOOKS: TestSnippet = TestSnippet::new(
    "use std::io::Write;
    if *state < 1003 {
        let mut trace = std::fs::File::options().append(true).open(std::env::var(\"TRACE\").unwrap()).unwrap();
        trace.write_all(format!(\"turn {state}\\n\").as_bytes()).unwrap();
    }
    *state += 1;
    *state",
)
.init("std::fs::write(std::env::var(\"TRACE\").unwrap(), \"init\\n\").unwrap(); 1000")
.init_runner(
    "let mut trace = std::fs::File::options().append(true).open(std::env::var(\"TRACE\").unwrap()).unwrap();
    trace.write_all(format!(\"runner {shared}\\n\").as_bytes()).unwrap();
    return *shared;",
)
.done(
    "let mut trace = std::fs::File::options().append(true).open(std::env::var(\"TRACE\").unwrap()).unwrap();
    trace.write_all(format!(\"done {shared}\\n\").as_bytes()).unwrap()",
);

/// Opens the trace as `trace`; the names come from [`KEEPER`]'s `init_runner`.
const DONE: &str = "use std::io::Write;
    let mut trace = std::fs::File::options().create(true).append(true).open(std::env::var(\"TRACE\").unwrap()).unwrap();
    trace.write_all(b\"done\\n\").unwrap();";

const KEEPER: TestSnippet = TestSnippet::new(
    "if *state {
        let mut trace = std::fs::File::options().append(true).open(std::env::var(\"TRACE\").unwrap()).unwrap();
        trace.write_all(b\"first\\n\").unwrap();
    }
    *state = false;
    thread::sleep(Duration::from_millis(1))",
)
.init_runner(
    "let mut trace = std::fs::File::options().create(true).append(true).open(std::env::var(\"TRACE\").unwrap()).unwrap();
    trace.write_all(b\"runner\\n\").unwrap();
    true",
)
.done(DONE);

const EMPTY: TestSnippet = TestSnippet::new("()");

pub const SNIPPETS: LanguageSnippets = LanguageSnippets {
    empty: EMPTY,
    pure: TestSnippet::new(
        "*state = (state.wrapping_mul(1103515245) + 12345) % 2147483647; *state",
    )
    .init_runner("1_u64"),
    sleep_700_ms: TestSnippet::new("thread::sleep(Duration::from_millis(700))"),
    sleep_20_ms: TestSnippet::new("thread::sleep(Duration::from_millis(20))"),
    hooks: HOOKS,
    keeper: KEEPER,
    prints: TestSnippet::new(
        "println!(\"end\\tid=1\\tjobs=a\"); thread::sleep(Duration::from_millis(1));",
    ),
    endless: TestSnippet::new("loop {}").done(DONE),
    endless_sleep: TestSnippet::new("loop { thread::sleep(Duration::from_millis(1)) }").done(DONE),
    awkward: EMPTY
        .init("std::fs::write(std::env::var(\"TRACE\").unwrap(), \"\t100 %, %41 é😀 a=b,c\\n\")"),
    awaited_20_ms: None,
    // A crate must be compiled before it can be found.
    module: None,
    failing: TestSnippet { runner: "panic!(\"bad luck\")", ..KEEPER },
    failing_done: EMPTY.done("panic!(\"no room\")"),
    faults: &[
        TestFault {
            snippet: TestSnippet::new("let a = 1;\nlet b = ;\na + b"),
            stage: "compile",
            message: "expected expression",
            line: Some(2),
        },
        TestFault {
            snippet: EMPTY.init("1\n+ )"),
            stage: "compile",
            message: "unexpected closing delimiter",
            line: Some(2),
        },
        TestFault {
            snippet: TestSnippet::new("1;\n\nnot_there()"),
            stage: "compile",
            message: "not_there",
            line: Some(3),
        },
        TestFault {
            snippet: TestSnippet::new(
                "let luck = 13;\nif luck == 13 { panic!(\"bad luck {luck}\") }",
            ),
            stage: "run",
            message: "bad luck 13",
            line: Some(2),
        },
        TestFault {
            snippet: EMPTY.init("1;\nNone::<u8>.expect(\"no room\")"),
            stage: "init",
            message: "no room",
            line: Some(2),
        },
        TestFault {
            snippet: EMPTY.init_runner("\n\npanic!(\"no room\")"),
            stage: "init_runner",
            message: "no room",
            line: Some(3),
        },
    ],
};
