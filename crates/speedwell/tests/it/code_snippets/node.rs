//! JavaScript as Node.js understands it.

use super::{Code, Fault, Module, Snippets};

const SLEEP_700: &str = "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 700)";
const SLEEP_20: &str = "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20)";

const HOOKS: Code = Code::new(
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

const KEEPER: Code = Code::new(
    "if (state.fresh) require('fs').appendFileSync(process.env.TRACE, 'first\\n');
    state.fresh = false;
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1)",
)
.init_runner("require('fs').appendFileSync(process.env.TRACE, 'runner\\n'); ({ fresh: true })")
.done("require('fs').appendFileSync(process.env.TRACE, 'done\\n')");

const EMPTY: Code = Code::new("undefined");

pub const SNIPPETS: Snippets = Snippets {
    empty: EMPTY,
    pure: Code::new("(state, previous) => (previous * 1103515245 + 12345) % 2147483647")
        .init_runner("1"),
    sleep_700_ms: Code::new(SLEEP_700),
    sleep_20_ms: Code::new(SLEEP_20),
    hooks: HOOKS,
    keeper: KEEPER,
    prints: Code::new(
        "console.log('end\\tid=1\\tjobs=a'); Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1)",
    ),
    endless: Code::new("for (;;);").done("require('fs').appendFileSync(process.env.TRACE, 'done\\n')"),
    awkward: EMPTY
        .init("require('fs').appendFileSync(process.env.TRACE, '\t100 %, %41 é😀 a=b,c\\n')"),
    awaited_20_ms: Some(Code::new("await new Promise((resolve) => setTimeout(resolve, 20))")),
    module: Some(Module {
        file: "deep_thought.js",
        text: "exports.answer = 42;",
        code: EMPTY.init(
            "require('fs').appendFileSync(process.env.TRACE, `answer ${require('deep_thought').answer}\\n`)",
        ),
    }),
    failing: Code {
        runner: "throw new Error('bad luck')",
        ..KEEPER
    },
    failing_done: Code::new("undefined").done("throw new Error('no room')"),
    faults: &[
        Fault {
            code: Code::new("let a = 1;\nlet b = ;\na + b"),
            stage: "parse",
            message: "Unexpected token",
            line: Some(2),
        },
        Fault {
            code: EMPTY.init("1 +\n+ )"),
            stage: "parse",
            message: "Unexpected token",
            line: Some(2),
        },
        Fault {
            code: Code::new("1;\n\nnot_there()"),
            stage: "run",
            message: "not_there is not defined",
            line: Some(3),
        },
        Fault {
            code: Code::new("(state, previous) => {\n  throw new TypeError('bad luck');\n}"),
            stage: "run",
            message: "bad luck",
            line: Some(2),
        },
        Fault {
            code: EMPTY.init("1\nthrow new Error('no room')"),
            stage: "init",
            message: "no room",
            line: Some(2),
        },
        Fault {
            code: EMPTY.init_runner("() => {\n\n  throw new Error('no room')\n}"),
            stage: "init_runner",
            message: "no room",
            line: Some(3),
        },
    ],
};
