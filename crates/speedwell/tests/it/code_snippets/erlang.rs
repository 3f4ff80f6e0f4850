//! Erlang.

use super::{Code, Fault, Module, Snippets};

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

const HOOKS: Code = Code::new(concat!(
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
.done(concat!(
    "fun(Shared) -> ",
    trace!("io_lib:format(\"done ~p~n\", [Shared])"),
    " end"
));

const KEEPER: Code = Code::new(concat!(
    "case erase(fresh) of true -> ",
    trace!("\"first\\n\""),
    "; undefined -> ok end, timer:sleep(1)."
))
.init_runner(concat!(trace!("\"runner\\n\""), ", put(fresh, true)."))
.done(concat!(trace!("\"done\\n\""), "."));

const EMPTY: Code = Code::new("ok.");

pub const SNIPPETS: Snippets = Snippets {
    empty: EMPTY,
    pure: Code::new("turn(_, Previous) -> (Previous * 1103515245 + 12345) rem 2147483647.")
        .init_runner("1."),
    sleep_700_ms: Code::new("timer:sleep(700)"),
    sleep_20_ms: Code::new("{timer, sleep, [20]}"),
    hooks: HOOKS,
    keeper: KEEPER,
    prints: Code::new("io:format(\"end\tid=1\tjobs=a~n\"), timer:sleep(1)."),
    endless: Code::new("Endless = fun Again() -> Again() end, Endless().").done(KEEPER.done),
    awkward: EMPTY.init(trace!("\"\t100 %, %41 é😀 a=b,c\\n\"")),
    awaited_20_ms: None,
    // Modules are compiled files; any other file of a folder is found in the same way.
    module: Some(Module {
        file: "deep_thought.terms",
        text: "{answer, 42}.",
        code: EMPTY.init(concat!(
            "{ok, [{answer, Answer}]} = file:consult(code:where_is_file(\"deep_thought.terms\")), ",
            trace!("io_lib:format(\"answer ~p~n\", [Answer])"),
            "."
        )),
    }),
    failing: Code {
        runner: "erlang:error(\"bad luck\").",
        ..KEEPER
    },
    failing_done: EMPTY.done("erlang:error(\"no room\")."),
    faults: &[
        Fault {
            code: Code::new("A = 1,\nB = ,\nA + B."),
            stage: "parse",
            message: "syntax error before: ','",
            line: Some(2),
        },
        Fault {
            code: EMPTY.init("1 +\n)."),
            stage: "parse",
            message: "syntax error before: ')'",
            line: Some(2),
        },
        Fault {
            code: Code::new("1,\n\nNotThere."),
            stage: "compile",
            message: "variable 'NotThere' is unbound",
            line: Some(3),
        },
        Fault {
            code: Code::new("turn(State) -> State."),
            stage: "compile",
            message: "runner/1 requires init_runner",
            line: None,
        },
        Fault {
            code: Code::new("ok,\n\nnot_there:answer()."),
            stage: "run",
            message: "undef",
            line: Some(3),
        },
        Fault {
            code: Code::new("exit(normal)."),
            stage: "run",
            message: "normal",
            line: Some(1),
        },
        Fault {
            code: EMPTY.init("ok,\nthrow(\"no room\")."),
            stage: "init",
            message: "no room",
            line: Some(2),
        },
        Fault {
            code: EMPTY.init_runner("begin_worker() ->\n\n  erlang:error(\"no room\")."),
            stage: "init_runner",
            message: "no room",
            line: Some(3),
        },
    ],
};
