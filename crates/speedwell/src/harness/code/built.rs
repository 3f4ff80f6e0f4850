//! Code in a language that is compiled: a program of its own, which speaks the protocol.

use super::super::compile::Failed;
use crate::model::{Cause, Code, Variant};
use crate::process::Spec;
use std::path::{Path, PathBuf};

/// The compiler that is used when a variant names no program.
pub fn usual_compiler(_language: crate::model::Language) -> PathBuf {
    PathBuf::from("cc")
}

/// Compiles `code`, and says how its program is started.
///
/// # Errors
/// The compiler is missing or refuses the code.
pub(super) fn build(code: &Code, _compiler: &Path, _variant: &Variant) -> Result<Spec, Failed> {
    let reason = format!("{} is not offered yet", code.language);
    Err(Failed::before_start(Cause::Start { reason }))
}
