//! `speedwell new suite`: a folder with a benchmark in every language that is there.

use super::written::Written;
use anyhow::{Result, bail};
use clap::Args;
use std::path::PathBuf;

/// Write a folder with a small benchmark for each language found on this machine
#[derive(Debug, Clone, Args)]
pub struct SuiteArgs {
    /// The folder
    #[arg(value_name = "FOLDER", default_value = "bench")]
    pub folder: PathBuf,
    /// Write over files that are there
    #[arg(long)]
    pub force: bool,
}

/// Programs, any of which a language needs, and its benchmark.
const LANGUAGES: [(&[&str], &str, &str); 3] = [
    (
        &["node"],
        "split.js",
        include_str!("templates/suite/split.js"),
    ),
    (
        &["python3"],
        "words.py",
        include_str!("templates/suite/words.py"),
    ),
    (
        &["c++", "g++", "clang++"],
        "text.cpp",
        include_str!("templates/suite/text.cpp"),
    ),
];

/// The files.
///
/// # Errors
/// There is no language that benchmarks can be written in.
pub fn files(args: &SuiteArgs) -> Result<Written> {
    let found = LANGUAGES
        .iter()
        .filter(|(programs, ..)| programs.iter().any(|name| is_there(name)));
    let files: Vec<(PathBuf, String)> = found
        .map(|(_, file, text)| (args.folder.join(file), (*text).to_owned()))
        .collect();
    if files.is_empty() {
        bail!("there is none of node, python3, c++, g++, clang++ in PATH");
    }
    Ok(Written {
        files,
        target: args.folder.clone(),
        beside: None,
        shortened: &[],
    })
}

fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
