//! Explains sources of `compare` that are not results: benchmark files, folders of them, and
//! commands.
//!
//! Suggests how to measure them. Independent of how anything is measured. Start at
//! [`explain_mistake`].

use super::operand::SourceOperand;
use anyhow::anyhow;
use speedwell_harness::KnownAdapters;
use speedwell_harness::discover::{find_sources, is_command};
use speedwell_model::quote;
use std::path::Path;

/// Turns the error from reading the operands into one that suggests how to measure them, if they
/// are measurable.
pub fn explain_mistake(error: anyhow::Error, operands: &[SourceOperand]) -> anyhow::Error {
    let Ok(here) = std::env::current_dir() else {
        return error;
    };
    let places: Vec<&String> = operands
        .iter()
        .flat_map(|operand| &operand.places)
        .collect();
    let quoted: Vec<String> = places.iter().map(|place| quote(place)).collect();
    let all_places = quoted.join(" ");
    if let Some(target) = places.iter().find(|place| is_target(place, &here)) {
        let first = quote(target);
        return anyhow!(
            "'{target}' is a benchmark, not a result\nhint: to compare two programs on it: speedwell \
             compare --old PROGRAM --new PROGRAM {first}\nhint: to compare flags or variables: speedwell run {first} \
             --variant a=PROGRAM --variant 'b=PROGRAM --flag'\nhint: to measure without comparing: speedwell run {all_places}"
        );
    }
    if let Some(command) = places.first()
        && places.iter().all(|place| is_command(place))
    {
        return anyhow!(
            "'{command}' is a command, not a result\nhint: to compare commands: speedwell eval sh {all_places}"
        );
    }
    error
}

/// Returns whether this is a benchmark file or a folder that contains some.
fn is_target(place: &str, here: &Path) -> bool {
    let is_benchmark = |known: KnownAdapters| find_sources(place, here, &known).is_ok();
    here.join(place).exists()
        && KnownAdapters::new(&[place.to_owned()], here).is_ok_and(is_benchmark)
}
