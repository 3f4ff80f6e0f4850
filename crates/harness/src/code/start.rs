//! How the process is started that performs a piece of code.

use super::super::compile::{Failed, unpacked};
use super::super::own_program;
use super::super::sources::{self, Sources};
use super::{beam, built, sh};
use speedwell_model::{Code, Language, Variant};
use speedwell_process::{Channel, Spec};
use std::path::{Path, PathBuf};

/// The program that performs code of a language when a variant names none.
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

/// The process that will perform `code` under `variant`: it speaks the protocol and knows nothing yet, unless
/// its language is compiled.
///
/// # Errors
/// Our files cannot be unpacked; a compiler refuses the code.
pub fn start(code: &Code, program: &Path, variant: &Variant) -> Result<Spec, Failed> {
    let mut spec = match code.language {
        Language::Node => script(&sources::NODE, "harness.cjs", program, variant)?,
        Language::Python => script(&sources::PYTHON, "harness.py", program, variant)?,
        Language::Sh => own(program),
        Language::Erlang | Language::Elixir => beam::start(code.language, program, variant)?,
        _ => built::build(code, program, variant)?,
    };
    spec.environment.extend(variant.environment.iter().cloned());
    spec.channel = Channel::Harness;
    Ok(spec)
}

/// A script of ours that an interpreter performs.
fn script(from: &Sources, file: &str, program: &Path, variant: &Variant) -> Result<Spec, Failed> {
    let folder = unpacked(from)?;
    let script = folder.join(file).to_string_lossy().into_owned();
    let arguments = variant.arguments.iter().cloned().chain([script]);
    Ok(Spec::new(program).args(arguments))
}

/// This very program, as the harness of a shell.
fn own(shell: &Path) -> Spec {
    let shell = shell.to_string_lossy().into_owned();
    Spec::new(own_program()).args([sh::COMMAND.to_owned(), shell])
}
