//! C++.

use super::{LanguageSnippets, TestFault, TestModule, TestSnippet};

const HOOKS: TestSnippet = TestSnippet::new(
    "if (state < 1003) ofstream(getenv(\"TRACE\"), ios::app) << \"turn \" + to_string(state) + \"\\n\";
    return ++state;",
)
.init("ofstream(getenv(\"TRACE\"), ios::app) << \"init\\n\"; 1000")
.init_runner(
    "ofstream(getenv(\"TRACE\"), ios::app) << \"runner \" + to_string(shared) + \"\\n\"; return shared;",
)
.done("ofstream(getenv(\"TRACE\"), ios::app) << \"done \" + to_string(shared) + \"\\n\"");

const DONE: &str = "ofstream(getenv(\"TRACE\"), ios::app) << \"done\\n\";";

const KEEPER: TestSnippet = TestSnippet::new(
    "if (*state) ofstream(getenv(\"TRACE\"), ios::app) << \"first\\n\";
    *state = false;
    this_thread::sleep_for(chrono::milliseconds(1))",
)
.init_runner("ofstream(getenv(\"TRACE\"), ios::app) << \"runner\\n\"; make_unique<bool>(true)")
.done(DONE);

const EMPTY: TestSnippet = TestSnippet::new("0");

pub const SNIPPETS: LanguageSnippets = LanguageSnippets {
    empty: EMPTY,
    pure: TestSnippet::new("state = (state * 1103515245 + 12345) % 2147483647").init_runner("1L"),
    sleep_700_ms: TestSnippet::new("this_thread::sleep_for(700ms)")
        .init("using namespace chrono_literals;"),
    sleep_20_ms: TestSnippet::new("this_thread::sleep_for(chrono::milliseconds(20))"),
    hooks: HOOKS,
    keeper: KEEPER,
    prints: TestSnippet::new("puts(\"end\\tid=1\\tjobs=a\"); usleep(1000)"),
    endless: TestSnippet::new("for (;;) asm volatile(\"\");").done(DONE),
    endless_sleep: TestSnippet::new("for (;;) usleep(1000);").done(DONE),
    awkward: EMPTY.init("ofstream(getenv(\"TRACE\")) << \"\t100 %, %41 é😀 a=b,c\\n\""),
    awaited_20_ms: None,
    module: Some(TestModule {
        file: "deep_thought.hpp",
        text: "template <class T> constexpr T answer = 42;\n",
        snippet: EMPTY.init(
            "#include \"deep_thought.hpp\"
            ofstream(getenv(\"TRACE\")) << \"answer \" << answer<int> << \"\\n\"",
        ),
    }),
    failing: TestSnippet { runner: "throw runtime_error(\"bad luck\")", ..KEEPER },
    failing_done: EMPTY.done("throw runtime_error(\"no room\")"),
    faults: &[
        TestFault {
            // With 'return' it is compiled once: it cannot be a statement without a value.
            snippet: TestSnippet::new("int a = 1;\nint b = ;\nreturn a + b;"),
            stage: "compile",
            message: "expected",
            line: Some(2),
        },
        TestFault {
            snippet: EMPTY.init("return 1\n+ );"),
            stage: "compile",
            message: "expected",
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
                "int luck = 13;\nif (luck == 13) throw out_of_range(\"bad luck\");",
            ),
            stage: "run",
            message: "bad luck",
            line: None,
        },
        TestFault {
            snippet: EMPTY.init("throw runtime_error(\"no room\")"),
            stage: "init",
            message: "no room",
            line: None,
        },
        TestFault {
            snippet: EMPTY.init_runner("throw \"no room\";"),
            stage: "init_runner",
            message: "no room",
            line: None,
        },
    ],
};
