//! Texts become files, all of them or none.

use anyhow::{Context, Result, bail};
use clap::Args;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Where files are written.
#[derive(Debug, Clone, Args)]
pub struct PlaceArgs {
    /// The definition file, instead of one in this folder that is named after the command
    #[arg(short = 'o', long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write over files that are there
    #[arg(long)]
    pub force: bool,
    /// Only write: do not measure for a minute to have a first look
    #[arg(long)]
    pub no_look: bool,
}

impl PlaceArgs {
    /// The definition file.
    pub fn file(&self, usual: &str) -> PathBuf {
        self.output.clone().unwrap_or_else(|| PathBuf::from(usual))
    }

    /// The folder of the definition file.
    pub fn folder(&self, usual: &str) -> PathBuf {
        self.file(usual)
            .parent()
            .unwrap_or(Path::new(""))
            .to_owned()
    }
}

/// What is to be written.
#[derive(Debug, Clone)]
pub struct Written {
    /// Files with their texts.
    pub files: Vec<(PathBuf, String)>,
    /// What is measured afterwards: one of the files, or their folder.
    pub target: PathBuf,
    /// Words that make the first look at it short.
    pub shortened: &'static [&'static str],
}

impl Written {
    /// What is measured afterwards, as a shell takes it.
    pub fn quoted_target(&self) -> String {
        shell_words::quote(&self.target.to_string_lossy()).into_owned()
    }

    /// The command line that measures it, with these options.
    pub fn run_words(&self, options: &[&str]) -> Vec<OsString> {
        let mut words: Vec<OsString> = ["speedwell", "run"].map(OsString::from).to_vec();
        words.push(self.target.as_os_str().to_owned());
        words.extend(options.iter().map(OsString::from));
        words
    }
}

/// Writes the files and the folders that they need.
///
/// # Errors
/// One of them is there already and `force` is not set; then nothing is written. Or it cannot be
/// written.
pub fn write(written: &Written, force: bool) -> Result<()> {
    let there = written.files.iter().find(|(path, _)| path.exists());
    if let Some((path, _)) = there.filter(|_| !force) {
        bail!(
            "the file '{}' is there already\nhint: --force writes over it",
            path.display()
        );
    }
    for (path, text) in &written.files {
        let shown = path.display();
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot make the folder of '{shown}'"))?;
        }
        std::fs::write(path, text).with_context(|| format!("cannot write the file '{shown}'"))?;
    }
    Ok(())
}
