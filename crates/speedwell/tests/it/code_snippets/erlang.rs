//! Erlang.

use super::{LanguageSnippets, TestFault, TestModule, TestSnippet};

/// An expression that appends to the trace; `$text` is an expression, too.
macro_rules! trace {
    ($text:literal) => {
        concat!(
            "file:write_file(os:getenv(\"TRACE\"), unicode:characters_to_binary(",
            $text,
            "), [append])"
        )
    };
}

const HOOKS: TestSnippet = TestSnippet::new(concat!(
    "turn(_, Previous) when Previous < 1003 -> ",
    trace!("io_lib:format(\"turn ~p~n\", [Previous])"),
    ", Previous + 1;\nturn(_, Previous) -> Previous + 1."
))
.init(concat!(trace!("\"init\\n\""), ", 1000."))
.init_runner(concat!(
    "begin_worker(Shared) -> ",
    trace!("io_lib:format(\"runner ~p~n\", [Shared])"),
    ", Shared."
))
.done(concat!("fun(Shared) -> ", trace!("io_lib:format(\"done ~p~n\", [Shared])"), " end"));

const KEEPER: TestSnippet = TestSnippet::new(concat!(
    "case erase(fresh) of true -> ",
    trace!("\"first\\n\""),
    "; undefined -> ok end, timer:sleep(1)."
))
.init_runner(concat!(trace!("\"runner\\n\""), ", put(fresh, true)."))
.done(concat!(trace!("\"done\\n\""), "."));

const EMPTY: TestSnippet = TestSnippet::new("ok.");

pub const SNIPPETS: LanguageSnippets = LanguageSnippets {
    empty: EMPTY,
    pure: TestSnippet::new("turn(_, Previous) -> (Previous * 1103515245 + 12345) rem 2147483647.")
        .init_runner("1."),
    sleep_700_ms: TestSnippet::new("timer:sleep(700)"),
    sleep_20_ms: TestSnippet::new("{timer, sleep, [20]}"),
    hooks: HOOKS,
    keeper: KEEPER,
    prints: TestSnippet::new("io:format(\"end\tid=1\tjobs=a~n\"), timer:sleep(1)."),
    endless: TestSnippet::new("Endless = fun Again() -> Again() end, Endless().").done(KEEPER.done),
    endless_sleep: TestSnippet::new(
        "Endless = fun Again() -> timer:sleep(1), Again() end, Endless().",
    )
    .done(KEEPER.done),
    awkward: EMPTY.init(trace!("\"\t100 %, %41 é😀 a=b,c\\n\"")),
    awaited_20_ms: None,
    // Modules are compiled files; any other file in a folder is found the same way.
    module: Some(TestModule {
        file: "deep_thought.terms",
        text: "{answer, 42}.",
        snippet: EMPTY.init(concat!(
            "{ok, [{answer, Answer}]} = file:consult(code:where_is_file(\"deep_thought.terms\")), ",
            trace!("io_lib:format(\"answer ~p~n\", [Answer])"),
            "."
        )),
    }),
    failing: TestSnippet { runner: "erlang:error(\"bad luck\").", ..KEEPER },
    failing_done: EMPTY.done("erlang:error(\"no room\")."),
    faults: &[
        TestFault {
            snippet: TestSnippet::new("A = 1,\nB = ,\nA + B."),
            stage: "parse",
            message: "syntax error before: ','",
            line: Some(2),
        },
        TestFault {
            snippet: EMPTY.init("1 +\n)."),
            stage: "parse",
            message: "syntax error before: ')'",
            line: Some(2),
        },
        TestFault {
            snippet: TestSnippet::new("1,\n\nNotThere."),
            stage: "compile",
            message: "variable 'NotThere' is unbound",
            line: Some(3),
        },
        TestFault {
            snippet: TestSnippet::new("turn(State) -> State."),
            stage: "compile",
            message: "runner/1 requires init_runner",
            line: None,
        },
        TestFault {
            snippet: TestSnippet::new("ok,\n\nnot_there:answer()."),
            stage: "run",
            message: "undef",
            line: Some(3),
        },
        TestFault {
            snippet: TestSnippet::new("exit(normal)."),
            stage: "run",
            message: "normal",
            line: Some(1),
        },
        TestFault {
            snippet: EMPTY.init("ok,\nthrow(\"no room\")."),
            stage: "init",
            message: "no room",
            line: Some(2),
        },
        TestFault {
            snippet: EMPTY.init_runner("begin_worker() ->\n\n  erlang:error(\"no room\")."),
            stage: "init_runner",
            message: "no room",
            line: Some(3),
        },
    ],
};
