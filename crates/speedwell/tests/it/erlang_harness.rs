//! Starts the harness of Erlang and Elixir without Speedwell; compiles it when its sources have
//! changed.

use super::harness_driver::find_tool;
use super::project::{is_current, repository};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The command line that starts it for `erlang` or `elixir`; `None` if tools are missing.
pub fn words(language: &str) -> Option<Vec<String>> {
    let erl = find_tool(&["erl"])?;
    let compiler = find_tool(&["erlc"])?;
    let mut words: Vec<String> =
        ["-noshell", "-noinput", "-boot", "no_dot_erlang"].map(str::to_owned).to_vec();
    words.insert(0, erl);
    words.push("-pa".to_owned());
    if language == "elixir" {
        words.push(elixir()?.to_string_lossy().into_owned());
    }
    words.push(compiled_folder(&compiler).to_string_lossy().into_owned());
    words.extend(["-s", "speedwell_harness"].map(str::to_owned));
    Some(words)
}

/// The folder with the compiled harness.
fn compiled_folder(compiler: &str) -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        // A static is never dropped, so the folder is in Cargo's directory for temporary files.
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("erlang");
        std::fs::create_dir_all(&folder).unwrap();
        let sources = repository().join("crates/adapters/languages/erlang/src");
        let stamp = folder.join("compiled");
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/erlang_harness.rs");
        if is_current(&stamp, &[sources.clone(), own]) {
            return folder;
        }
        let files = std::fs::read_dir(sources).unwrap();
        let files = files.map(|file| file.unwrap().path());
        let files = files.filter(|file| file.extension().is_some_and(|end| end == "erl"));
        let mut command = Command::new(compiler);
        command.args(["-Wall", "-Werror", "-o"]).arg(&folder);
        let output = command.args(files).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        std::fs::write(stamp, "").unwrap();
        folder
    })
}

/// The folder of Elixir's own modules, located from its program.
fn elixir() -> Option<PathBuf> {
    let program = find_tool(&["elixir"])?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .map(|folder| folder.join(&program))
        .find(|file| file.is_file())?;
    let home = found.canonicalize().ok()?.parent()?.parent()?.to_owned();
    Some(home.join("lib/elixir/ebin"))
}
