//! Benchmark programs among the SOURCEs of a comparison.
//!
//! Decides which operands are programs to be measured, and as which variants. It must not know how
//! benchmarks are paired.

use super::operand::Operand;
use anyhow::{Context, bail};
use speedwell_harness as harness;
use speedwell_harness::discover::Side;
use speedwell_model::Variant;
use std::path::Path;

/// The program that an operand is, started with `arguments`, or `None` for results.
///
/// # Errors
/// A program that holds no benchmarks of a known kind, or is one of several places.
pub fn side(operand: &Operand, arguments: &[String]) -> anyhow::Result<Option<Side>> {
    let is_program = |place: &String| is_program(Path::new(place));
    let Some(place) = operand.places.iter().find(|place| is_program(place)) else {
        return Ok(None);
    };
    let in_source = || format!("in source '{}'", operand.label);
    if operand.places.len() > 1 {
        bail!("'{place}' is a program: it cannot be merged with other places");
    }
    if let Some(variant) = &operand.variant {
        bail!("'{place}' is a program: it has no variant '[{variant}]'");
    }
    let file = Path::new(place);
    let holds_benchmarks = harness::is_google_benchmark(file)
        || harness::is_program_with_harness(file)
        || harness::is_wrapper(file);
    if !holds_benchmarks {
        bail!("'{place}' is a program, but was not built with google/benchmark or speedwell.hpp");
    }
    let file = speedwell_process::resolve(&Path::new(".").join(file)).with_context(in_source)?;
    let file = file.canonicalize().with_context(in_source)?;
    Ok(Some(Side {
        variant: Variant {
            program: Some(file.clone()),
            arguments: arguments.to_vec(),
            ..Variant::plain(&operand.label)
        },
        file,
        part: operand.part.clone(),
    }))
}

/// Whether the file is an ELF program, or a script that may be executed.
fn is_program(file: &Path) -> bool {
    file.is_file() && (harness::is_elf(file) || harness::is_wrapper(file))
}
