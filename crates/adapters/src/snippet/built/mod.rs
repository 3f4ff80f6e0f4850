//! Compiles a snippet in a compiled language to a program that speaks the protocol.
//!
//! The program consists of the user's code in a generated loop, and of a harness that is compiled
//! once per compiler and set of flags. Each language has a file here (C and C++ share one), which
//! generates the source from the templates and lists in `languages/`. `compile.rs` runs the
//! compilers. Start at [`build_snippet`].

use crate::compile::{self, CompileFailure, variable_words};
use crate::layout::{LinkRecord, RunLayout};
use speedwell_machine::process::ProcessSpec;
use speedwell_model::{FailureCause, Snippet, SnippetLanguage, Variant};
use std::path::{Path, PathBuf};

mod c;
mod go;
mod java;
mod parts;
mod rust;
mod source_file;
mod text;

/// Returns the compiler that is used if a variant names no program; for Java, returns `java`.
pub fn default_compiler(language: SnippetLanguage) -> PathBuf {
    let from_variable = |name| variable_words(name, &[]).into_iter().next();
    let compiler = match language {
        SnippetLanguage::C => {
            from_variable("CC").unwrap_or_else(|| first_in_path(&["cc", "gcc", "clang"]))
        }
        SnippetLanguage::Cpp => {
            from_variable("CXX").unwrap_or_else(|| first_in_path(&["c++", "g++", "clang++"]))
        }
        SnippetLanguage::Rust => "rustc".to_owned(),
        SnippetLanguage::Java => "java".to_owned(),
        other => other.keyword().to_owned(),
    };
    PathBuf::from(compiler)
}

fn first_in_path(names: &[&str]) -> String {
    let found = names.iter().find(|name| compile::locate_program(Path::new(name)).is_absolute());
    (*found.unwrap_or(&names[0])).to_owned()
}

/// Compiles `snippet` and returns the command that starts its program.
///
/// # Errors
/// Fails if the compiler is missing or rejects the code.
pub(super) fn build_snippet(
    snippet: &Snippet,
    compiler: &Path,
    variant: &Variant,
    layout: RunLayout,
) -> Result<(ProcessSpec, Option<LinkRecord>), CompileFailure> {
    let program =
        |(program, linking): (PathBuf, Option<LinkRecord>)| (ProcessSpec::new(program), linking);
    let built = match snippet.language {
        SnippetLanguage::Rust => {
            rust::build_program(snippet, compiler, variant, layout).map(program)
        }
        SnippetLanguage::Go => go::build_program(snippet, compiler, variant, layout).map(program),
        SnippetLanguage::Java => {
            java::build_program(snippet, compiler, variant).map(|spec| (spec, None))
        }
        _ => c::build_program(snippet, compiler, variant, layout).map(program),
    };
    built.map_err(|failure| with_hint(failure, snippet.language))
}

/// Adds a hint if the compiler cannot be started.
fn with_hint(mut failure: CompileFailure, language: SnippetLanguage) -> CompileFailure {
    let hint = match language {
        SnippetLanguage::C => {
            "install gcc or clang, or name a compiler with --variant 'NAME=PROGRAM' or the variable CC"
        }
        SnippetLanguage::Cpp => {
            "install g++ or clang++, or name a compiler with --variant 'NAME=PROGRAM' or the variable CXX"
        }
        SnippetLanguage::Rust => {
            "install Rust (https://rustup.rs), or name rustc with --variant 'NAME=PROGRAM'"
        }
        SnippetLanguage::Go => {
            "install Go (https://go.dev/dl), or name it with --variant 'NAME=PROGRAM'"
        }
        _ => "install a JDK, which has both 'java' and 'javac'",
    };
    if let FailureCause::Start { reason } = &mut failure.cause
        && reason.starts_with("the compiler")
    {
        *reason = format!("{reason}\nhint: {hint}");
    }
    failure
}
