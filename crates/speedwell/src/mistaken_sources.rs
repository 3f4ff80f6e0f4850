//! Explains sources of `compare` that are not results: benchmark files, folders of them, and
//! commands.
//!
//! The module suggests how to measure such sources. Start at [`explain_mistake`].

use super::operand::SourceOperand;
use anyhow::anyhow;
use speedwell_adapters::KnownAdapters;
use speedwell_adapters::discover::{find_sources, is_command};
use speedwell_model::quote;
use std::path::Path;

/// If an operand is a benchmark, or all operands are commands, returns an error that suggests how
/// to measure them. Otherwise, returns `error`.
pub fn explain_mistake(error: anyhow::Error, operands: &[SourceOperand]) -> anyhow::Error {
    let Ok(current_folder) = std::env::current_dir() else {
        return error;
    };
    let locations: Vec<&String> = operands.iter().flat_map(|operand| &operand.locations).collect();
    let quoted: Vec<String> = locations.iter().map(|location| quote(location)).collect();
    let all_locations = quoted.join(" ");
    if let Some(target) = locations.iter().find(|location| is_target(location, &current_folder)) {
        let first = quote(target);
        return anyhow!(
            "'{target}' is a benchmark, not a result\nhint: to compare two programs on it: speedwell \
             compare --old PROGRAM --new PROGRAM {first}\nhint: to compare flags or variables: speedwell run {first} \
             --variant a=PROGRAM --variant 'b=PROGRAM --flag'\nhint: to measure without comparing: speedwell run {all_locations}"
        );
    }
    if let Some(command) = locations.first()
        && locations.iter().all(|location| is_command(location))
    {
        return anyhow!(
            "'{command}' is a command, not a result\nhint: to compare commands: speedwell eval sh {all_locations}"
        );
    }
    error
}

/// Whether this location is a benchmark file, or a folder with benchmark files.
fn is_target(location: &str, current_folder: &Path) -> bool {
    let is_benchmark =
        |adapters: KnownAdapters| find_sources(location, current_folder, &adapters).is_ok();
    current_folder.join(location).exists()
        && KnownAdapters::new(&[location.to_owned()], current_folder).is_ok_and(is_benchmark)
}
