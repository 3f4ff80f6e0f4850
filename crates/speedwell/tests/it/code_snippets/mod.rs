//! Snippets of every language for the suite of `conformance_code/mod.rs`.
//!
//! A language is one file here, with one constant of type [`LanguageSnippets`], and a line in [`of`]. The
//! suite observes only the events of a harness, its output, and the *trace*: the file named by the
//! variable `TRACE`, to which code appends lines. The required lines are documented at each field.

mod c;
mod cpp;
mod elixir;
mod erlang;
mod go;
mod java;
mod node;
mod python;
mod rust;

/// Code and its hooks, as the user would write them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TestSnippet {
    pub runner: &'static str,
    pub init: &'static str,
    pub init_runner: &'static str,
    pub done: &'static str,
}

/// Code that fails, and the expected report.
pub struct TestFault {
    pub snippet: TestSnippet,
    pub stage: &'static str,
    /// A part of the language's own message.
    pub message: &'static str,
    /// The line in the user's text; `None` if the language does not report it.
    pub line: Option<u32>,
}

/// A module in a folder, and code that uses it.
pub struct TestModule {
    pub file: &'static str,
    pub text: &'static str,
    /// Its `init` traces `answer 42`.
    pub snippet: TestSnippet,
}

pub struct LanguageSnippets {
    /// A runner that does nothing.
    pub empty: TestSnippet,
    /// Some arithmetic with an unused result. Each iteration depends on the previous one, so that
    /// only a harness that does not chain results lets it be optimized away.
    pub pure: TestSnippet,
    pub sleep_700_ms: TestSnippet,
    pub sleep_20_ms: TestSnippet,
    /// `init` traces `init` and returns 1000. `init_runner` traces `runner` and the shared value,
    /// and returns the shared value. The runner traces `turn` and the result of the previous
    /// iteration while that is below 1003, and returns one more. `done` traces `done` and the
    /// shared value.
    pub hooks: TestSnippet,
    /// `init_runner` traces `runner` and returns something mutable. The runner traces `first` in
    /// the first iteration of each worker, then sleeps for 1 ms. `done` traces `done`.
    pub keeper: TestSnippet,
    /// Prints `end TAB id=1 TAB jobs=a` to stdout in every iteration, then sleeps for 1 ms.
    pub prints: TestSnippet,
    /// An iteration that never ends, in the language itself. `done` traces `done`.
    pub endless: TestSnippet,
    /// The same, except that it sleeps for 1 ms again and again.
    pub endless_sleep: TestSnippet,
    /// `init` traces a tab, then `100 %, %41 é😀 a=b,c` written as literals.
    pub awkward: TestSnippet,
    /// Sleeps for 20 ms by awaiting; `None` in a language without that.
    pub awaited_20_ms: Option<TestSnippet>,
    /// Code with a module; `None` if the language does not look up modules in folders.
    pub module: Option<TestModule>,
    /// The runner fails; its hooks are those of `keeper`.
    pub failing: TestSnippet,
    /// `done` fails, with `no room` in its message.
    pub failing_done: TestSnippet,
    /// Errors of parsing, of compiling, of hooks and of the runner.
    pub faults: &'static [TestFault],
}

/// Returns the snippets of a language; `None` if there are none.
pub fn of(language: &str) -> Option<&'static LanguageSnippets> {
    match language {
        "elixir" => Some(&elixir::SNIPPETS),
        "erlang" => Some(&erlang::SNIPPETS),
        "c" => Some(&c::SNIPPETS),
        "cpp" => Some(&cpp::SNIPPETS),
        "go" => Some(&go::SNIPPETS),
        "java" => Some(&java::SNIPPETS),
        "rust" => Some(&rust::SNIPPETS),
        "node" | "bun" | "deno" => Some(&node::SNIPPETS),
        "python" => Some(&python::SNIPPETS),
        _ => None,
    }
}

impl TestSnippet {
    /// A runner without hooks.
    pub const fn new(runner: &'static str) -> TestSnippet {
        TestSnippet { runner, init: "", init_runner: "", done: "" }
    }

    /// Returns the snippet with another hook, by its name on the wire.
    pub const fn init(self, init: &'static str) -> TestSnippet {
        TestSnippet { init, ..self }
    }

    pub const fn init_runner(self, init_runner: &'static str) -> TestSnippet {
        TestSnippet { init_runner, ..self }
    }

    pub const fn done(self, done: &'static str) -> TestSnippet {
        TestSnippet { done, ..self }
    }
}
