//! V8's own profiler, where perf cannot be had: `node --cpu-prof` writes a file for each process and worker when
//! it ends.

use anyhow::{Context, Result, bail};
use speedwell_model::Profile;
use speedwell_process::{Scratch, Spec};
use speedwell_results::foreign::profile::{FrameNames, read};
use std::time::Duration;

/// The same program, recorded from its start to its end. Node.js takes these options on its command line
/// only, in front of the script.
pub fn recorded(scratch: &Scratch, mut spec: Spec) -> Spec {
    let folder = format!("--cpu-prof-dir={}", scratch.folder().display());
    spec.arguments
        .splice(0..0, ["--cpu-prof".to_owned(), folder]);
    spec
}

/// What was recorded: all files as one profile.
///
/// # Errors
/// There is none, because the program was killed, or one cannot be read.
pub fn profile(scratch: &Scratch, names: &FrameNames) -> Result<Profile> {
    let folder = std::fs::read_dir(scratch.folder()).context("cannot read the recordings")?;
    let mut files: Vec<_> = folder.flatten().map(|entry| entry.path()).collect();
    files.sort();
    let mut whole: Option<Profile> = None;
    for file in files {
        let bytes = std::fs::read(&file).context("cannot read a recording")?;
        let Some(profile) = read(&bytes, names)? else {
            continue;
        };
        match &mut whole {
            None => whole = Some(profile),
            Some(whole) => whole.merge(&profile),
        }
    }
    let Some(profile) = whole else {
        bail!(
            "Node.js wrote no recording: it does so when it ends by itself, and not when it is killed"
        );
    };
    Ok(profile)
}

/// What must be known of a recording that was made because there is no perf, and should have left out its
/// beginning.
pub fn remarks(no_perf: &str, skip: Duration) -> Vec<String> {
    let mut remarks = vec![format!("V8's profiler was used because {no_perf}.")];
    if !skip.is_zero() {
        remarks.push("It records a program from its start, warm-up included.".to_owned());
    }
    remarks
}
