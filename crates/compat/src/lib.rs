//! Drop-ins: other tools' command lines and outputs, translated.
//!
//! Decides which tool names exist. Every drop-in accepts the grammar of its original and writes the
//! same bytes; it deviates in four ways only: unknown options are errors, failures are reported,
//! `--help` works, and a case without variation does not stop a table. That for `compare.py` deviates
//! further, as `docs/reference/compare-py.md` lists, and so do those for ab and erlperf (`docs/reference/ab.md`, `docs/reference/erlperf.md`). A further
//! drop-in is a file beside this one and a line in `TOOLS`. Start at [`main`].

pub mod ab;
pub mod band_chart;
pub mod bar_r;
pub mod benchmark_folder;
pub mod calibrate_n;
pub mod child_failures;
pub mod command_line;
pub mod compare_js;
pub mod compare_py;
pub mod compare_r;
pub mod console;
pub mod driver;
pub mod erlperf;
pub mod local_time;
pub mod node_cli;
pub mod plot_r;
pub mod progress;
pub mod r_collation;
pub mod r_number;
pub mod r_options;
pub mod r_print;
pub mod r_script;
pub mod r_texts;
pub mod run_js;
pub mod scatter_analysis;
pub mod scatter_js;
pub mod scatter_r;
pub mod scatter_steps;
pub mod scatter_table;
pub mod script_names;
pub mod simple_line;
pub mod u_test_table;
pub mod welch_table;

pub use console::Console;

use anyhow::Result;

/// A tool that can be stood in for.
struct DropIn {
    name: &'static str,
    run: fn(&[String], &mut Console<'_>) -> Result<i32>,
}

/// Every tool known, by the name of its original.
const TOOLS: &[DropIn] = &[
    DropIn {
        name: "run.js",
        run: run_js::run,
    },
    DropIn {
        name: "compare.js",
        run: compare_js::run,
    },
    DropIn {
        name: "scatter.js",
        run: scatter_js::run,
    },
    DropIn {
        name: "calibrate-n.js",
        run: calibrate_n::run,
    },
    DropIn {
        name: "compare.py",
        run: compare_py::run,
    },
    DropIn {
        name: "ab",
        run: ab::run,
    },
    DropIn {
        name: "erlperf",
        run: erlperf::run,
    },
    DropIn {
        name: "compare.R",
        run: compare_r::run,
    },
    DropIn {
        name: "scatter.R",
        run: scatter_r::run,
    },
    DropIn {
        name: "bar.R",
        run: bar_r::run,
    },
];

/// The names of all tools that can be stood in for.
pub fn names() -> impl Iterator<Item = &'static str> {
    TOOLS.iter().map(|tool| tool.name)
}

/// Does what `tool` does with these arguments; returns the exit status.
pub fn main(tool: &str, arguments: &[String], console: &mut Console<'_>) -> i32 {
    let result = match TOOLS.iter().find(|known| known.name == tool) {
        Some(known) => (known.run)(arguments, console),
        None => {
            let known: Vec<&str> = names().collect();
            Err(anyhow::anyhow!(
                "no such tool; there are {}",
                known.join(", ")
            ))
        }
    };
    console.conclude(tool, result)
}
