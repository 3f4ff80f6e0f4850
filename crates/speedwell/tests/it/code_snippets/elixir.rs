//! Elixir.

use super::{Code, Fault, Module, Snippets};

/// An expression that appends to the trace.
macro_rules! trace {
    ($text:literal) => {
        concat!(
            "File.write!(System.get_env(\"TRACE\"), \"",
            $text,
            "\", [:append])"
        )
    };
}

const HOOKS: Code = Code::new(concat!(
    "fn\n  _, previous when previous < 1003 ->\n    ",
    trace!("turn #{previous}\\n"),
    "\n    previous + 1\n  _, previous -> previous + 1\nend"
))
.init(concat!(trace!("init\\n"), "\n1000"))
.init_runner(concat!(
    "fn shared ->\n  ",
    trace!("runner #{shared}\\n"),
    "\n  shared\nend"
))
.done(concat!(
    "fn shared -> ",
    trace!("done #{shared}\\n"),
    " end"
));

const KEEPER: Code = Code::new(concat!(
    "if Process.delete(:fresh), do: ",
    trace!("first\\n"),
    "\nProcess.sleep(1)"
))
.init_runner(concat!(trace!("runner\\n"), "\nProcess.put(:fresh, true)"))
.done(trace!("done\\n"));

const EMPTY: Code = Code::new(":ok");

pub const SNIPPETS: Snippets = Snippets {
    empty: EMPTY,
    pure: Code::new("fn _, previous -> rem(previous * 1103515245 + 12345, 2147483647) end")
        .init_runner("1"),
    sleep_700_ms: Code::new("Process.sleep(700)"),
    sleep_20_ms: Code::new("fn -> :timer.sleep(20) end"),
    hooks: HOOKS,
    keeper: KEEPER,
    prints: Code::new("IO.puts(\"end\\tid=1\\tjobs=a\"); Process.sleep(1)"),
    endless: Code::new("Enum.each(Stream.cycle([1]), fn _ -> nil end)").done(KEEPER.done),
    awkward: EMPTY.init(trace!("\t100 %, %41 é😀 a=b,c\\n")),
    awaited_20_ms: None,
    module: Some(Module {
        file: "deep_thought.exs",
        text: "42",
        code: EMPTY.init(concat!(
            "{answer, _} = Code.eval_file(List.to_string(:code.where_is_file(~c\"deep_thought.exs\")))\n",
            trace!("answer #{answer}\\n")
        )),
    }),
    failing: Code {
        runner: "raise \"bad luck\"",
        ..KEEPER
    },
    failing_done: EMPTY.done("raise \"no room\""),
    faults: &[
        Fault {
            code: Code::new("a = 1\nb = )\na + b"),
            stage: "parse",
            message: "unexpected token: )",
            line: Some(2),
        },
        Fault {
            code: EMPTY.init("1\n2 + ]"),
            stage: "parse",
            message: "unexpected token: ]",
            line: Some(2),
        },
        Fault {
            code: Code::new("1\n\nnot_there()"),
            stage: "compile",
            message: "undefined function not_there/0",
            line: Some(3),
        },
        Fault {
            code: Code::new("fn state -> state end"),
            stage: "compile",
            message: "runner/1 requires init_runner",
            line: None,
        },
        Fault {
            code: Code::new("fn ->\n  raise ArgumentError, \"bad luck\"\nend"),
            stage: "run",
            message: "bad luck",
            line: Some(2),
        },
        Fault {
            code: EMPTY.init(":ok\nraise \"no room\""),
            stage: "init",
            message: "no room",
            line: Some(2),
        },
        Fault {
            code: EMPTY.init_runner("fn ->\n\n  throw \"no room\"\nend"),
            stage: "init_runner",
            message: "no room",
            line: Some(3),
        },
    ],
};
