//! Elixir.

use super::{LanguageSnippets, TestFault, TestModule, TestSnippet};

/// An expression that appends to the trace.
macro_rules! trace {
    ($text:literal) => {
        concat!("File.write!(System.get_env(\"TRACE\"), \"", $text, "\", [:append])")
    };
}

const HOOKS: TestSnippet = TestSnippet::new(concat!(
    "fn\n  _, previous when previous < 1003 ->\n    ",
    trace!("turn #{previous}\\n"),
    "\n    previous + 1\n  _, previous -> previous + 1\nend"
))
.init(concat!(trace!("init\\n"), "\n1000"))
.init_runner(concat!("fn shared ->\n  ", trace!("runner #{shared}\\n"), "\n  shared\nend"))
.done(concat!("fn shared -> ", trace!("done #{shared}\\n"), " end"));

const KEEPER: TestSnippet = TestSnippet::new(concat!(
    "if Process.delete(:fresh), do: ",
    trace!("first\\n"),
    "\nProcess.sleep(1)"
))
.init_runner(concat!(trace!("runner\\n"), "\nProcess.put(:fresh, true)"))
.done(trace!("done\\n"));

const EMPTY: TestSnippet = TestSnippet::new(":ok");

pub const SNIPPETS: LanguageSnippets = LanguageSnippets {
    empty: EMPTY,
    pure: TestSnippet::new("fn _, previous -> rem(previous * 1103515245 + 12345, 2147483647) end")
        .init_runner("1"),
    sleep_700_ms: TestSnippet::new("Process.sleep(700)"),
    sleep_20_ms: TestSnippet::new("fn -> :timer.sleep(20) end"),
    hooks: HOOKS,
    keeper: KEEPER,
    prints: TestSnippet::new("IO.puts(\"end\\tid=1\\tjobs=a\"); Process.sleep(1)"),
    endless: TestSnippet::new("Enum.each(Stream.cycle([1]), fn _ -> nil end)").done(KEEPER.done),
    endless_sleep: TestSnippet::new("Enum.each(Stream.cycle([1]), fn _ -> Process.sleep(1) end)")
        .done(KEEPER.done),
    awkward: EMPTY.init(trace!("\t100 %, %41 é😀 a=b,c\\n")),
    awaited_20_ms: None,
    module: Some(TestModule {
        file: "deep_thought.exs",
        text: "42",
        snippet: EMPTY.init(concat!(
            "{answer, _} = Code.eval_file(List.to_string(:code.where_is_file(~c\"deep_thought.exs\")))\n",
            trace!("answer #{answer}\\n")
        )),
    }),
    failing: TestSnippet {
        runner: "raise \"bad luck\"",
        ..KEEPER
    },
    failing_done: EMPTY.done("raise \"no room\""),
    faults: &[
        TestFault {
            snippet: TestSnippet::new("a = 1\nb = )\na + b"),
            stage: "parse",
            message: "unexpected token: )",
            line: Some(2),
        },
        TestFault {
            snippet: EMPTY.init("1\n2 + ]"),
            stage: "parse",
            message: "unexpected token: ]",
            line: Some(2),
        },
        TestFault {
            snippet: TestSnippet::new("1\n\nnot_there()"),
            stage: "compile",
            message: "undefined function not_there/0",
            line: Some(3),
        },
        TestFault {
            snippet: TestSnippet::new("fn state -> state end"),
            stage: "compile",
            message: "runner/1 requires init_runner",
            line: None,
        },
        TestFault {
            snippet: TestSnippet::new("fn ->\n  raise ArgumentError, \"bad luck\"\nend"),
            stage: "run",
            message: "bad luck",
            line: Some(2),
        },
        TestFault {
            snippet: EMPTY.init(":ok\nraise \"no room\""),
            stage: "init",
            message: "no room",
            line: Some(2),
        },
        TestFault {
            snippet: EMPTY.init_runner("fn ->\n\n  throw \"no room\"\nend"),
            stage: "init_runner",
            message: "no room",
            line: Some(3),
        },
    ],
};
