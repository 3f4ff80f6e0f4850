//! Texts become files, all of them or none.

use anyhow::{Context, Result, bail};
use std::path::PathBuf;

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
