//! First attempts that mean something else: benchmark files, or commands, given to `compare` as results.
//!
//! Decides what is said to somebody who tries the obvious. It must not know how anything is measured.

use super::operand::Operand;
use crate::define;
use std::path::Path;

/// The error of reading the operands as results, or what helps somebody who meant things to be measured.
pub fn explained(error: anyhow::Error, operands: &[Operand]) -> anyhow::Error {
    let Ok(here) = std::env::current_dir() else {
        return error;
    };
    let places = || operands.iter().flat_map(|operand| &operand.places);
    let is_target = |place: &&String| {
        let path = here.join(place);
        let is_benchmark = || define::sources(place, &here).is_ok();
        // A folder is more likely one of results, unless nothing but benchmarks is in it.
        path.exists() && is_benchmark()
    };
    let is_command =
        |place: &&String| !here.join(place).exists() && define::is_command(first_word(place));
    if let Some(target) = places().find(is_target) {
        let all: Vec<String> = places().map(|place| quoted(place)).collect();
        return anyhow::anyhow!(
            "'{target}' is something to be measured, not a result\nhint: to compare two programs on it: speedwell \
             compare --old PROGRAM --new PROGRAM {}\nhint: to compare flags or variables: speedwell run {} --variant \
             a=PROGRAM --variant 'b=PROGRAM --flag'\nhint: to measure without comparing: speedwell run {}",
            quoted(target),
            quoted(target),
            all.join(" ")
        );
    }
    if let Some(command) = places().find(is_command) {
        let all: Vec<String> = places().map(|place| quoted(place)).collect();
        return anyhow::anyhow!(
            "'{command}' is a command, not a result\nhint: to compare commands: speedwell eval sh {}",
            all.join(" ")
        );
    }
    error
}

fn first_word(text: &str) -> &Path {
    Path::new(text.split_whitespace().next().unwrap_or_default())
}

fn quoted(word: &str) -> String {
    shell_words::quote(word).into_owned()
}
