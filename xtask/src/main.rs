//! Commands for developers: `cargo xtask test` runs everything that a change must pass (start
//! reading in `plan.rs`), `cargo xtask times` finds the most expensive tests.

mod build;
mod command;
mod output;
mod plan;
mod rust;
mod sequence;
mod summary;
mod times;

use sequence::Sequence;
use std::io;
use std::process::ExitCode;
use summary::Summary;

const USAGE: &str = "\
usage: cargo xtask test               everything that a change must pass
       cargo xtask test node          what depends on the version of Node.js
       cargo xtask test build         only compiles the tests
       cargo xtask times [--top N] [--ignored] [WORD...]
                                      the most expensive tests, or those whose names contain a word";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["test"] | ["test", "all"] => conclude(&plan::everything()),
        ["test", "node"] => conclude(&plan::of_node()),
        ["test", "build"] => match build::compile_tests(&mut Sequence::new(&mut io::stdout())) {
            Some(_) => ExitCode::SUCCESS,
            None => ExitCode::FAILURE,
        },
        ["times", ref options @ ..] => match times::TimesOptions::parse(options) {
            Some(options) => times::measure(&options),
            None => misused(),
        },
        _ => misused(),
    }
}

fn misused() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}

/// Prints the totals; the exit status says whether anything failed.
fn conclude(summary: &Summary) -> ExitCode {
    print!("{summary}");
    if summary.counts.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
