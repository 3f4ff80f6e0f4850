//! Snippets: executed by the harness of their language and its workers.
//!
//! The commands are the same for every language (`live.rs`), and so is the meaning of the answers
//! (`timing.rs`). Languages differ in how their process is started, which [`start`] decides;
//! compiled ones first get a program of their own (`built/`). Start at [`harness`].

use crate::compile::{Compilation, unpacked, which};
use crate::layout::{Linking, RunLayout};
use crate::node::runtime::Runtime;
use crate::sources::{self, Sources};
use crate::{cache_folder, own_program};
use speedwell_model::{Language, Snippet, Variant};
use speedwell_process::{Channel, Spec};
use std::fs;
use std::path::{Path, PathBuf};

mod built;
mod live;
mod once;
pub mod sh;
mod shared;
mod timing;

pub use crate::compile::Failed;
pub use live::{Answer, Gone, Live};
pub use once::{failure_of, fold_warning, harness, observation};
pub use shared::{Shared, expected};

/// Default program for snippets of a language.
pub fn usual_program(language: Language) -> PathBuf {
    match language {
        Language::Erlang => "erl".into(),
        Language::Elixir => "elixir".into(),
        Language::Node => "node".into(),
        Language::Python => "python3".into(),
        Language::Sh => "sh".into(),
        compiled => built::usual_compiler(compiled),
    }
}

/// Builds the process that performs `snippet` under `variant`. It speaks the protocol and must load
/// the code first, unless its language is compiled.
///
/// # Errors
/// Our files cannot be unpacked, or a compiler rejects the code.
pub fn start(snippet: &Snippet, program: &Path, variant: &Variant) -> Result<Spec, Failed> {
    laid_out(snippet, program, variant, RunLayout::default()).map(|(spec, _)| spec)
}

/// The same for a memory layout; also returns how the program was linked.
fn laid_out(
    snippet: &Snippet,
    program: &Path,
    variant: &Variant,
    layout: RunLayout,
) -> Result<(Spec, Option<Linking>), Failed> {
    let mut linking = None;
    let mut spec = match snippet.language {
        Language::Node => {
            let flags = Runtime::detect(program).arguments(&variant.arguments);
            script(&sources::NODE, "harness.cjs", program, &flags)?
        }
        Language::Python => script(&sources::PYTHON, "harness.py", program, &variant.arguments)?,
        Language::Sh => own(program),
        Language::Erlang | Language::Elixir => start_beam(snippet.language, program, variant)?,
        _ => {
            let built = built::build(snippet, program, variant, layout)?;
            linking = built.1;
            built.0
        }
    };
    spec.environment.extend(variant.environment.iter().cloned());
    spec.channel = Channel::Harness;
    Ok((layout.apply(&spec), linking))
}

/// Starts one of our scripts in an interpreter.
fn script(from: &Sources, file: &str, program: &Path, flags: &[String]) -> Result<Spec, Failed> {
    let folder = unpacked(from)?;
    let script = folder.join(file).to_string_lossy().into_owned();
    let arguments = flags.iter().cloned().chain([script]);
    Ok(Spec::new(program).args(arguments))
}

/// Starts this program as the harness of a shell.
fn own(shell: &Path) -> Spec {
    let shell = shell.to_string_lossy().into_owned();
    Spec::new(own_program()).args([sh::COMMAND.to_owned(), shell])
}

/// Emulator options: no shell, no user files, and no distribution daemon, which only several nodes
/// need.
const QUIET: [&str; 8] = [
    "-noshell",
    "-noinput",
    "-boot",
    "no_dot_erlang",
    "-start_epmd",
    "false",
    "-epmd_module",
    "speedwell_epmd",
];

/// Builds the process for Erlang or Elixir. `program` is `erl` or `elixir`, whose library is next
/// to it.
///
/// # Errors
/// Erlang, or Elixir where required, is missing.
fn start_beam(language: Language, program: &Path, variant: &Variant) -> Result<Spec, Failed> {
    let is_elixir = language == Language::Elixir;
    let emulator = if is_elixir {
        PathBuf::from("erl")
    } else {
        program.to_owned()
    };
    let mut folders = vec![compiled(&emulator)?];
    if is_elixir {
        folders.push(library(program)?);
    }
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let mut spec = Spec::new(&emulator).args(variant.arguments.iter().cloned());
    spec = spec.args(QUIET);
    // Without a cookie, the emulator would write one into the user's home.
    let cookie = uuid::Uuid::now_v7().simple().to_string();
    spec = spec.args(["-setcookie".to_owned(), cookie]);
    for folder in &folders {
        spec = spec.args(["-pa".to_owned(), text(folder)]);
    }
    spec = spec.args(["-s", "speedwell_harness"]);
    Ok(spec.env("SPEEDWELL_CACHE", text(&cache_folder().join("code"))))
}

/// Returns the folder with the harness, compiled by this emulator's compiler.
fn compiled(emulator: &Path) -> Result<PathBuf, Failed> {
    let found = which(emulator);
    if !found.is_absolute() {
        return Err(missing(emulator, "Erlang/OTP", "erlang"));
    }
    let found = fs::canonicalize(&found).unwrap_or(found);
    let beside = found.with_file_name("erlc");
    let compiler = if beside.is_file() {
        beside
    } else {
        PathBuf::from("erlc")
    };
    let folder = unpacked(&sources::ERLANG)?;
    let entries = fs::read_dir(folder.join("src")).map(|entries| entries.flatten());
    let mut files: Vec<String> = entries
        .into_iter()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "erl"))
        .map(|path| path.to_string_lossy().into_owned())
        .collect();
    files.sort();
    let arguments = ["+deterministic".to_owned(), "-o".to_owned(), ".".to_owned()];
    // Another Erlang release has a compiler of a different path, size or time.
    let data = fs::metadata(&compiler).ok();
    let identity = data.map(|data| format!("{} {:?}", data.len(), data.modified().ok()));
    Compilation {
        stem: "erlang-harness",
        files: Vec::new(),
        compiler,
        arguments: arguments.into_iter().chain(files).collect(),
        environment: Vec::new(),
        identity: identity.unwrap_or_default(),
    }
    .compile()
}

/// Folder of Elixir's modules.
fn library(program: &Path) -> Result<PathBuf, Failed> {
    let found = which(program);
    let found = fs::canonicalize(&found).unwrap_or(found);
    let root = found.parent().and_then(Path::parent);
    let folder = root.map(|root| root.join("lib/elixir/ebin"));
    let folder = folder.filter(|folder| folder.is_dir());
    folder.ok_or_else(|| missing(program, "Elixir", "elixir"))
}

fn missing(program: &Path, name: &str, package: &str) -> Failed {
    let reason = format!(
        "'{}': {name} was not found; it is in the package '{package}' of most systems",
        program.display()
    );
    Failed::start(reason)
}
