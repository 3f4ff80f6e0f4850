//! Configures language runtimes so that a recording shows the functions of scripts.

use anyhow::{Context, Result, bail};
use speedwell_formats::foreign::profile::{FrameNames, read_profile};
use speedwell_machine::process::{ProcessSpec, ScratchFolder};
use speedwell_model::StackProfile;
use std::path::Path;
use std::time::Duration;

/// Environment variables, each with the text to append to its value. They make runtimes export the
/// symbols of compiled code and keep stacks readable for perf. Every program gets all of them: a
/// shell script may start any runtime, and other programs ignore the variables.
const SYMBOL_VARIABLES: [(&str, &str); 3] = [
    // Node.js writes /tmp/perf-PID.map and gives each interpreted function a frame of its own.
    ("NODE_OPTIONS", "--perf-basic-prof --interpreted-frames-native-stack"),
    // The JIT compiler of Erlang also writes such a map, and keeps frame pointers (OTP 25, "perf
    // support" in its internal docs).
    ("ERL_FLAGS", "+JPperf true"),
    // Python also writes such a map, since version 3.12.
    ("PYTHONPERFSUPPORT", "1"),
];

/// Sets the variables that make the program's runtime export symbols.
pub fn enable_symbols(spec: &mut ProcessSpec) {
    for (name, addition) in SYMBOL_VARIABLES {
        append_variable(spec, name, addition);
    }
}

/// Appends to the value that a variable has in the spec or, if the spec does not mention it, in our
/// own environment.
fn append_variable(spec: &mut ProcessSpec, name: &str, addition: &str) {
    let existing = spec.environment.iter().rev().find(|(existing, _)| existing == name);
    let previous = match existing {
        Some((_, value)) => value.clone(),
        None if spec.unset.iter().any(|unset| unset == name) => String::new(),
        None => std::env::var(name).unwrap_or_default(),
    };
    let value = match previous.trim() {
        "" => addition.to_owned(),
        previous if previous.contains(addition) => previous.to_owned(),
        previous => format!("{previous} {addition}"),
    };
    spec.environment.retain(|(existing, _)| existing != name);
    spec.environment.push((name.to_owned(), value));
}

/// Whether the program is Node.js, by its name: `node`, `nodejs`, `node-22`.
pub fn is_node(program: &Path) -> bool {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let version = name.strip_prefix("nodejs").or_else(|| name.strip_prefix("node"));
    version.is_some_and(|suffix| suffix.is_empty() || !suffix.starts_with(char::is_alphabetic))
}

/// Makes Node.js record the program from start to end. Node.js accepts these options only on its
/// command line, before the script.
pub fn with_v8_profiler(scratch: &ScratchFolder, mut spec: ProcessSpec) -> ProcessSpec {
    let folder = format!("--cpu-prof-dir={}", scratch.folder().display());
    spec.arguments.splice(0..0, ["--cpu-prof".to_owned(), folder]);
    spec
}

/// Reads all files that V8's profiler wrote, and merges them into one profile.
///
/// # Errors
/// Fails if a file cannot be read, or if there are no files, which happens if the program was
/// killed.
pub fn read_v8_profile(scratch: &ScratchFolder, names: &FrameNames) -> Result<StackProfile> {
    let folder = std::fs::read_dir(scratch.folder()).context("cannot read the recordings")?;
    let mut files: Vec<_> = folder.flatten().map(|entry| entry.path()).collect();
    files.sort();
    let mut merged: Option<StackProfile> = None;
    for file in files {
        let bytes = std::fs::read(&file).context("cannot read a recording")?;
        let Some(profile) = read_profile(&bytes, names)? else {
            continue;
        };
        match &mut merged {
            None => merged = Some(profile),
            Some(merged) => merged.merge(&profile),
        }
    }
    let Some(profile) = merged else {
        bail!(
            "Node.js wrote no recording: it writes one when it ends by itself, not when it is killed"
        );
    };
    Ok(profile)
}

/// Returns the notes on a recording by V8's profiler: why perf could not be used and, if the
/// beginning was to be skipped, that this is impossible with V8's profiler.
pub fn fallback_notes(perf_problem: &str, skip: Duration) -> Vec<String> {
    let mut remarks = vec![format!("V8's profiler was used because {perf_problem}.")];
    if !skip.is_zero() {
        remarks.push("It records a program from its start, warm-up included.".to_owned());
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiling_flags_are_appended_once_to_existing_options() {
        let mut spec = ProcessSpec::new("node").env("NODE_OPTIONS", "--require=./module.js");
        enable_symbols(&mut spec);
        enable_symbols(&mut spec);
        let options = spec.environment.iter().filter(|(name, _)| name == "NODE_OPTIONS");
        let options: Vec<&str> = options.map(|(_, value)| value.as_str()).collect();
        assert_eq!(
            options,
            ["--require=./module.js --perf-basic-prof --interpreted-frames-native-stack"]
        );
    }

    #[test]
    fn node_is_known_by_its_name() {
        for node in ["node", "/usr/bin/nodejs", "./node-22", "node18"] {
            assert!(is_node(Path::new(node)), "{node}");
        }
        for other in ["nodemon", "/node/server", "erl"] {
            assert!(!is_node(Path::new(other)), "{other}");
        }
    }
}
