//! The thing compared: program, flags, environment, code.

use super::Code;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// One side of a comparison. The baseline is the reference, all others are candidates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Variant {
    /// The name in tables: `old`, `node22`, `with-module`.
    pub name: String,
    /// The program that performs the cases; `None` means the harness's usual one from `PATH`.
    pub program: Option<PathBuf>,
    /// Arguments given to the program before those of the benchmark.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// Environment variables set for the measured process only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub environment: Vec<(String, String)>,
    /// The code that is measured, where pieces of code are what is compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
}

impl Variant {
    /// A variant that differs from the usual set-up in nothing but its name.
    pub fn plain(name: impl Into<String>) -> Variant {
        Variant {
            name: name.into(),
            program: None,
            arguments: Vec::new(),
            environment: Vec::new(),
            code: None,
        }
    }
}
