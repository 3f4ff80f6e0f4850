//! Contains the drop-ins, each of which replaces another tool and emulates its command line and its
//! output.
//!
//! Decides which tool names exist. Every drop-in accepts the same command lines as the tool that it
//! replaces and writes the same bytes, with four exceptions: unknown options are errors, failures
//! are reported, `--help` works, and a table does not stop at a case whose values do not vary. The
//! drop-ins for `compare.py`, ab, erlperf, hyperfine and benchstat deviate further
//! (`docs/reference/compare-py.md`, `ab.md` and so on). To add a drop-in, add a file next to this
//! one and a line in `TOOLS`. Start at [`run_tool`].

pub mod ab;
pub mod benchstat;
pub mod calibrate_n;
pub mod compare;
pub mod compare_py;
pub mod console;
pub mod erlperf;
pub mod hyperfine;
pub mod node;
pub mod r;
pub mod scatter;

pub use console::DropInConsole;

use anyhow::Result;

/// Runs a tool with arguments; returns the exit status.
type RunTool = fn(&[String], &mut DropInConsole<'_>) -> Result<i32>;

/// The emulated tools, each under the name of the original tool.
const TOOLS: &[(&str, RunTool)] = &[
    ("run.js", node::run),
    ("compare.js", compare::run_js),
    ("scatter.js", scatter::run_js),
    ("calibrate-n.js", calibrate_n::run),
    ("compare.py", compare_py::run),
    ("ab", ab::run),
    ("erlperf", erlperf::run),
    ("hyperfine", hyperfine::run),
    ("benchstat", benchstat::run),
    ("compare.R", compare::run),
    ("scatter.R", scatter::run),
    ("bar.R", compare::run_bars),
];

/// Returns the names of all emulated tools.
pub fn tool_names() -> impl Iterator<Item = &'static str> {
    TOOLS.iter().map(|(name, _)| *name)
}

/// Runs `tool` with these arguments; returns the exit status.
pub fn run_tool(tool: &str, arguments: &[String], console: &mut DropInConsole<'_>) -> i32 {
    let result = match TOOLS.iter().find(|(name, _)| *name == tool) {
        Some((_, run)) => run(arguments, console),
        None => {
            let names: Vec<&str> = tool_names().collect();
            Err(anyhow::anyhow!("unknown tool; supported tools are {}", names.join(", ")))
        }
    };
    console.finish(tool, result)
}
