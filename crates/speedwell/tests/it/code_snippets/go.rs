//! Go.

use super::{LanguageSnippets, TestFault, TestSnippet};

const HOOKS: TestSnippet = TestSnippet::new(
    "if state < 1003 {
        trace, _ := os.OpenFile(os.Getenv(\"TRACE\"), os.O_APPEND|os.O_WRONLY, 0)
        fmt.Fprintf(trace, \"turn %d\\n\", state)
        trace.Close()
    }
    state++
    return state",
)
.init("os.WriteFile(os.Getenv(\"TRACE\"), []byte(\"init\\n\"), 0o600); 1000")
.init_runner(
    "trace, _ := os.OpenFile(os.Getenv(\"TRACE\"), os.O_APPEND|os.O_WRONLY, 0)
    fmt.Fprintf(trace, \"runner %d\\n\", shared)
    trace.Close()
    shared",
)
.done(
    "trace, _ := os.OpenFile(os.Getenv(\"TRACE\"), os.O_APPEND|os.O_WRONLY, 0)
    fmt.Fprintf(trace, \"done %d\\n\", shared)",
);

const DONE: &str =
    "trace, _ := os.OpenFile(os.Getenv(\"TRACE\"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
    trace.WriteString(\"done\\n\")";

const KEEPER: TestSnippet = TestSnippet::new(
    "if state {
        trace, _ := os.OpenFile(os.Getenv(\"TRACE\"), os.O_APPEND|os.O_WRONLY, 0)
        trace.WriteString(\"first\\n\")
        trace.Close()
    }
    state = false
    time.Sleep(time.Millisecond)",
)
.init_runner(
    "trace, _ := os.OpenFile(os.Getenv(\"TRACE\"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
    trace.WriteString(\"runner\\n\")
    trace.Close()
    true",
)
.done(DONE);

const EMPTY: TestSnippet = TestSnippet::new("0");

pub const SNIPPETS: LanguageSnippets = LanguageSnippets {
    empty: EMPTY,
    pure: TestSnippet::new("state = (state * 1103515245 + 12345) % 2147483647").init_runner("1"),
    sleep_700_ms: TestSnippet::new("time.Sleep(700 * time.Millisecond)"),
    sleep_20_ms: TestSnippet::new("time.Sleep(20 * time.Millisecond)"),
    hooks: HOOKS,
    keeper: KEEPER,
    prints: TestSnippet::new("fmt.Println(\"end\\tid=1\\tjobs=a\"); time.Sleep(time.Millisecond)"),
    endless: TestSnippet::new("for {}").done(DONE),
    endless_sleep: TestSnippet::new("for { time.Sleep(time.Millisecond) }").done(DONE),
    awkward: EMPTY
        .init("os.WriteFile(os.Getenv(\"TRACE\"), []byte(\"\t100 %, %41 é😀 a=b,c\\n\"), 0o600)"),
    awaited_20_ms: None,
    // A module consists of a folder with a file that names it, and another one with its code.
    module: None,
    failing: TestSnippet { runner: "panic(\"bad luck\")", ..KEEPER },
    failing_done: EMPTY.done("panic(\"no room\")"),
    faults: &[
        TestFault {
            snippet: TestSnippet::new("a := 1\nb := ;\na + b"),
            stage: "compile",
            message: "expected expression",
            line: Some(2),
        },
        TestFault {
            snippet: EMPTY.init("1 +\n+ )"),
            stage: "compile",
            message: "syntax error",
            line: Some(2),
        },
        TestFault {
            snippet: TestSnippet::new("print()\n\nnotThere()"),
            stage: "compile",
            message: "undefined: notThere",
            line: Some(3),
        },
        TestFault {
            snippet: TestSnippet::new("if os.Getpid() > 0 { return 1 }\nreturn 2"),
            stage: "compile",
            message: "return",
            line: Some(1),
        },
        TestFault {
            snippet: TestSnippet::new("luck := 13\nif luck == 13 { panic(\"bad luck\") }"),
            stage: "run",
            message: "bad luck",
            line: Some(2),
        },
        TestFault {
            snippet: EMPTY.init("var list []int\nreturn list[len(os.Args)+13]"),
            stage: "init",
            message: "index out of range",
            line: Some(2),
        },
        TestFault {
            snippet: EMPTY.init_runner("\n\npanic(\"no room\")"),
            stage: "init_runner",
            message: "no room",
            line: Some(3),
        },
    ],
};
