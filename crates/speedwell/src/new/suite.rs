//! Implements `speedwell new suite`, which writes a benchmark for every installed language, and
//! `speedwell new adapter`, which writes a table that describes a foreign suite.

use super::templates::{StarterFiles, fill_template};
use anyhow::{Result, bail, ensure};
use clap::Args;
use std::path::PathBuf;

/// Write a folder with a small benchmark for each language found on this machine
#[derive(Debug, Clone, Args)]
pub struct SuiteArgs {
    /// Folder to write to
    #[arg(value_name = "FOLDER", default_value = "bench")]
    pub folder: PathBuf,
    /// Overwrite existing files
    #[arg(long)]
    pub force: bool,
}

/// For each language: its programs, and the name and the text of its benchmark file. A language is
/// available if one of the programs is installed.
const LANGUAGES: [(&[&str], &str, &str); 3] = [
    (&["node"], "split.js", include_str!("templates/suite/split.js")),
    (&["python3"], "words.py", include_str!("templates/suite/words.py")),
    (&["c++", "g++", "clang++"], "text.cpp", include_str!("templates/suite/text.cpp")),
];

/// Builds the files.
///
/// # Errors
/// Fails if no language for benchmarks is installed.
pub fn suite_files(args: &SuiteArgs) -> Result<StarterFiles> {
    let installed =
        LANGUAGES.iter().filter(|(programs, ..)| programs.iter().any(|name| is_installed(name)));
    let files: Vec<(PathBuf, String)> =
        installed.map(|(_, file, text)| (args.folder.join(file), (*text).to_owned())).collect();
    if files.is_empty() {
        bail!("found none of node, python3, c++, g++, clang++ in PATH");
    }
    Ok(StarterFiles { files, target: args.folder.clone(), ..StarterFiles::default() })
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Write a commented table `[suite.NAME]` for your own benchmark tool, and try it
///
/// The table describes how the tool lists its cases, executes one, and writes results (docs/reference/suites.md). With
/// TARGET, the table is tried at once and problems are reported.
#[derive(Debug, Clone, Args)]
pub struct AdapterArgs {
    /// Name of the suite
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Benchmark program of the suite, on which to try the table
    #[arg(value_name = "TARGET")]
    pub target: Option<String>,
    /// File to write [default: NAME.toml]
    #[arg(short = 'o', long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Overwrite an existing file
    #[arg(long)]
    pub force: bool,
    /// Only write the table, without trying it
    #[arg(long)]
    pub no_look: bool,
}

impl AdapterArgs {
    /// Whether to try the adapter after writing it.
    pub fn wants_trial(&self) -> bool {
        self.target.is_some() && !self.no_look
    }
}

/// Builds the file of an adapter.
///
/// # Errors
/// Fails if the name is empty or contains anything but letters, digits and hyphens.
pub fn adapter_files(args: &AdapterArgs) -> Result<StarterFiles> {
    let is_key_character = |c: char| c.is_ascii_alphanumeric() || c == '-';
    ensure!(
        !args.name.is_empty() && args.name.chars().all(is_key_character),
        "invalid suite name '{}': expected letters, digits and hyphens",
        args.name
    );
    let default_file = || PathBuf::from(format!("{}.toml", args.name));
    let file = args.output.clone().unwrap_or_else(default_file);
    let target = args.target.as_deref().unwrap_or("./bench-tool");
    let file_name = file.to_string_lossy();
    let values = [("NAME", args.name.as_str()), ("FILE", &file_name), ("TARGET", target)];
    let text = fill_template(include_str!("templates/adapter.toml"), &values);
    Ok(StarterFiles {
        files: vec![(file.clone(), text)],
        beside: Some(file.clone()),
        target: PathBuf::from(format!("{}:{target}", args.name)),
        ..StarterFiles::default()
    })
}
