//! Snippets in compiled languages: builds a program that speaks the protocol.
//!
//! The program consists of the code in a generated loop, and of a harness that is compiled once per
//! compiler and set of flags. Each language has a file that generates the source from a template
//! and lists in `languages/`; `compile.rs` runs compilers. Start at [`build`].

use crate::compile::{self, Failed, words_of};
use crate::layout::{Linking, RunLayout};
use speedwell_model::{Cause, Language, Snippet, Variant};
use speedwell_process::Spec;
use std::path::{Path, PathBuf};

mod c;
mod go;
mod java;
mod parts;
mod rust;
mod source_file;
mod text;

/// Default compiler if a variant names no program.
pub fn usual_compiler(language: Language) -> PathBuf {
    let of_variable = |name| words_of(name, &[]).into_iter().next();
    let chosen = match language {
        Language::C => of_variable("CC").unwrap_or_else(|| first_in_path(&["cc", "gcc", "clang"])),
        Language::Cpp => {
            of_variable("CXX").unwrap_or_else(|| first_in_path(&["c++", "g++", "clang++"]))
        }
        Language::Rust => "rustc".to_owned(),
        Language::Java => "java".to_owned(),
        other => other.word().to_owned(),
    };
    PathBuf::from(chosen)
}

fn first_in_path(names: &[&str]) -> String {
    let found = names
        .iter()
        .find(|name| compile::which(Path::new(name)).is_absolute());
    (*found.unwrap_or(&names[0])).to_owned()
}

/// Compiles `snippet` and returns the command that starts its program.
///
/// # Errors
/// The compiler is missing or rejects the code.
pub(super) fn build(
    snippet: &Snippet,
    compiler: &Path,
    variant: &Variant,
    layout: RunLayout,
) -> Result<(Spec, Option<Linking>), Failed> {
    let program = |(program, linking): (PathBuf, Option<Linking>)| (Spec::new(program), linking);
    let built = match snippet.language {
        Language::Rust => rust::build(snippet, compiler, variant, layout).map(program),
        Language::Go => go::build(snippet, compiler, variant, layout).map(program),
        Language::Java => java::build(snippet, compiler, variant).map(|spec| (spec, None)),
        _ => c::build(snippet, compiler, variant, layout).map(program),
    };
    built.map_err(|failed| with_hint(failed, snippet.language))
}

/// Adds a hint if the compiler cannot be started.
fn with_hint(mut failed: Failed, language: Language) -> Failed {
    let hint = match language {
        Language::C => {
            "install gcc or clang, or name a compiler with --variant 'NAME=PROGRAM' or CC"
        }
        Language::Cpp => {
            "install g++ or clang++, or name a compiler with --variant 'NAME=PROGRAM' or CXX"
        }
        Language::Rust => {
            "install Rust (https://rustup.rs), or name rustc with --variant 'NAME=PROGRAM'"
        }
        Language::Go => "install Go (https://go.dev/dl), or name it with --variant 'NAME=PROGRAM'",
        _ => "install a JDK: 'java' is needed, and 'javac' beside it",
    };
    if let Cause::Start { reason } = &mut failed.cause
        && reason.starts_with("the compiler")
    {
        *reason = format!("{reason}\nhint: {hint}");
    }
    failed
}
