//! From the name of a program to its file, as a shell finds it.

use anyhow::{Context, bail};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The absolute path of a program given as path or by name, so that every process starts the same.
///
/// # Errors
/// No such program, or a file that cannot be executed.
pub fn resolve(program: &Path) -> anyhow::Result<PathBuf> {
    let found = if program.components().count() > 1 {
        program.exists().then(|| program.to_owned())
    } else {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let in_path = std::env::split_paths(&path).map(|folder| folder.join(program));
        in_path
            .chain([program.to_owned()])
            .find(|file| file.is_file())
    };
    let shown = program.display();
    let found = found.with_context(|| format!("no program '{shown}' here or in PATH"))?;
    let mode = found
        .metadata()
        .with_context(|| format!("cannot look at '{shown}'"))?;
    if mode.is_dir() || mode.permissions().mode() & 0o111 == 0 {
        bail!("'{shown}' cannot be executed\nhint: chmod +x '{shown}'");
    }
    std::path::absolute(&found).with_context(|| format!("cannot resolve '{shown}'"))
}
