//! Python.

use super::{LanguageSnippets, TestFault, TestModule, TestSnippet};

const DONE: &str = "print('done', file=open(__import__('os').environ['TRACE'], 'a'))";

const HOOKS: TestSnippet = TestSnippet::new(
    "def turn(state, previous):
    if previous < 1003:
        with open(__import__('os').environ['TRACE'], 'a') as trace: print('turn', previous, file=trace)
    return previous + 1
",
)
.init(
    "import os
with open(os.environ['TRACE'], 'a') as trace: print('init', file=trace)
1000",
)
.init_runner(
    "def begin(shared):
    import os
    with open(os.environ['TRACE'], 'a') as trace: print('runner', shared, file=trace)
    return shared",
)
.done("lambda shared: print('done', shared, file=open(__import__('os').environ['TRACE'], 'a'))");

const KEEPER: TestSnippet = TestSnippet::new(
    "import os, time
if state.pop('fresh', False):
    with open(os.environ['TRACE'], 'a') as trace: print('first', file=trace)
time.sleep(0.001)",
)
.init_runner(
    "import os
with open(os.environ['TRACE'], 'a') as trace: print('runner', file=trace)
{'fresh': True}",
)
.done(DONE);

const EMPTY: TestSnippet = TestSnippet::new("pass");

pub const SNIPPETS: LanguageSnippets = LanguageSnippets {
    empty: EMPTY,
    pure: TestSnippet::new("lambda state, previous: (previous * 1103515245 + 12345) % 2147483647")
        .init_runner("1"),
    sleep_700_ms: TestSnippet::new("time.sleep(0.7)").init("import time"),
    sleep_20_ms: TestSnippet::new("import time; time.sleep(0.02)"),
    hooks: HOOKS,
    keeper: KEEPER,
    prints: TestSnippet::new("print('end\\tid=1\\tjobs=a'); time.sleep(0.001)").init("import time"),
    endless: TestSnippet::new("while True: pass").done(DONE),
    endless_sleep: TestSnippet::new("while True: time.sleep(0.001)")
        .init("import time")
        .done(DONE),
    awkward: EMPTY.init(
        "print('\t100 %, %41 é😀 a=b,c', file=open(__import__('os').environ['TRACE'], 'a', encoding='utf-8'))",
    ),
    awaited_20_ms: Some(TestSnippet::new("await asyncio.sleep(0.02)").init("import asyncio")),
    module: Some(TestModule {
        file: "deep_thought.py",
        text: "answer = 42",
        snippet: EMPTY.init(
            "import os, deep_thought
print('answer', deep_thought.answer, file=open(os.environ['TRACE'], 'a'))",
        ),
    }),
    failing: TestSnippet {
        runner: "raise OSError('bad luck')",
        ..KEEPER
    },
    failing_done: EMPTY.done("raise OSError('no room')"),
    faults: &[
        TestFault {
            snippet: TestSnippet::new("a = 1\nb = = 2\na + b"),
            stage: "parse",
            message: "invalid syntax",
            line: Some(2),
        },
        TestFault {
            snippet: EMPTY.init("1\n2 +"),
            stage: "parse",
            message: "invalid syntax",
            line: Some(2),
        },
        TestFault {
            snippet: TestSnippet::new("1\nreturn = 2"),
            stage: "parse",
            message: "invalid syntax",
            line: Some(2),
        },
        TestFault {
            snippet: TestSnippet::new("1\n\nnot_there()"),
            stage: "run",
            message: "name 'not_there' is not defined",
            line: Some(3),
        },
        TestFault {
            snippet: TestSnippet::new("def turn(state):\n    raise OSError('bad luck')"),
            stage: "run",
            message: "bad luck",
            line: Some(2),
        },
        TestFault {
            snippet: EMPTY.init("1\nraise OSError('no room')"),
            stage: "init",
            message: "no room",
            line: Some(2),
        },
        TestFault {
            snippet: EMPTY.init_runner("def begin():\n\n    raise OSError('no room')"),
            stage: "init_runner",
            message: "no room",
            line: Some(3),
        },
    ],
};
