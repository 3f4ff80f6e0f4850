//! JavaScript for Node.js.

use super::{LanguageSnippets, TestFault, TestModule, TestSnippet};

const SLEEP_700: &str = "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 700)";
const SLEEP_20: &str = "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20)";

const DONE: &str = "require('fs').appendFileSync(process.env.TRACE, 'done\\n')";

const HOOKS: TestSnippet = TestSnippet::new(
    "(state, previous) => {
        if (previous < 1003) require('fs').appendFileSync(process.env.TRACE, `turn ${previous}\\n`);
        return previous + 1;
    }",
)
.init("require('fs').appendFileSync(process.env.TRACE, 'init\\n'); 1000")
.init_runner(
    "(shared) => { require('fs').appendFileSync(process.env.TRACE, `runner ${shared}\\n`); return shared }",
)
.done("(shared) => require('fs').appendFileSync(process.env.TRACE, `done ${shared}\\n`)");

const KEEPER: TestSnippet = TestSnippet::new(
    "if (state.fresh) require('fs').appendFileSync(process.env.TRACE, 'first\\n');
    state.fresh = false;
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1)",
)
.init_runner("require('fs').appendFileSync(process.env.TRACE, 'runner\\n'); ({ fresh: true })")
.done(DONE);

const EMPTY: TestSnippet = TestSnippet::new("undefined");

pub const SNIPPETS: LanguageSnippets = LanguageSnippets {
    empty: EMPTY,
    pure: TestSnippet::new("(state, previous) => (previous * 1103515245 + 12345) % 2147483647")
        .init_runner("1"),
    sleep_700_ms: TestSnippet::new(SLEEP_700),
    sleep_20_ms: TestSnippet::new(SLEEP_20),
    hooks: HOOKS,
    keeper: KEEPER,
    prints: TestSnippet::new(
        "console.log('end\\tid=1\\tjobs=a'); Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1)",
    ),
    endless: TestSnippet::new("for (;;);").done(DONE),
    endless_sleep: TestSnippet::new(
        "for (;;) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1)",
    )
    .done(DONE),
    awkward: EMPTY
        .init("require('fs').appendFileSync(process.env.TRACE, '\t100 %, %41 é😀 a=b,c\\n')"),
    awaited_20_ms: Some(TestSnippet::new("await new Promise((resolve) => setTimeout(resolve, 20))")),
    module: Some(TestModule {
        file: "deep_thought.js",
        text: "exports.answer = 42;",
        snippet: EMPTY.init(
            "require('fs').appendFileSync(process.env.TRACE, `answer ${require('deep_thought').answer}\\n`)",
        ),
    }),
    failing: TestSnippet {
        runner: "throw new Error('bad luck')",
        ..KEEPER
    },
    failing_done: TestSnippet::new("undefined").done("throw new Error('no room')"),
    faults: &[
        TestFault {
            snippet: TestSnippet::new("let a = 1;\nlet b = ;\na + b"),
            stage: "parse",
            message: "Unexpected token",
            line: Some(2),
        },
        TestFault {
            snippet: EMPTY.init("1 +\n+ )"),
            stage: "parse",
            message: "Unexpected token",
            line: Some(2),
        },
        TestFault {
            snippet: TestSnippet::new("1;\n\nnot_there()"),
            stage: "run",
            message: "not_there is not defined",
            line: Some(3),
        },
        TestFault {
            snippet: TestSnippet::new("(state, previous) => {\n  throw new TypeError('bad luck');\n}"),
            stage: "run",
            message: "bad luck",
            line: Some(2),
        },
        TestFault {
            snippet: EMPTY.init("1\nthrow new Error('no room')"),
            stage: "init",
            message: "no room",
            line: Some(2),
        },
        TestFault {
            snippet: EMPTY.init_runner("() => {\n\n  throw new Error('no room')\n}"),
            stage: "init_runner",
            message: "no room",
            line: Some(3),
        },
    ],
};
