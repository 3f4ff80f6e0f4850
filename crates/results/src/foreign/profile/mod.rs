//! Recordings of where a program spends its time, read into [`Profile`]s.
//!
//! Decides by content whether bytes are one, and of which kind: text of `perf script`, `.cpuprofile` of V8, or
//! folded stacks. It must not know how recordings are made. Start at [`read`]; what becomes of a frame's name
//! is decided by [`FrameNames::short`].

use crate::foreign::{beginning, utf8};
use anyhow::{Result, bail};
use speedwell_model::Profile;

mod cpu_profile;
mod folded;
mod frame_names;
mod perf_script;

pub use frame_names::FrameNames;
pub use perf_script::{PerfScript, read as read_perf_script};

/// How `perf record` begins its file (tools/perf/util/header.c of Linux).
const PERF_DATA: &[u8] = b"PERFILE2";

/// Reads a recording. `None`: the bytes are something else.
///
/// # Errors
/// They are of a known kind and broken, or recorded by perf and not yet made into text.
pub fn read(bytes: &[u8], names: &FrameNames) -> Result<Option<Profile>> {
    if bytes.starts_with(PERF_DATA) {
        bail!(
            "it is perf's own file, which only perf can read on the machine that wrote it\n\
             hint: make it text first: perf script -i FILE > FILE.txt"
        );
    }
    if cpu_profile::recognises(whole_lines(bytes)) {
        return cpu_profile::read(utf8(bytes)?, names).map(Some);
    }
    let beginning = String::from_utf8_lossy(whole_lines(bytes));
    if perf_script::recognises(&beginning) {
        // Names of functions may be any bytes; one bad name must not make the others unreadable.
        let script = perf_script::read(bytes, names)?;
        return Ok(Some(script.profile));
    }
    if folded::recognises(&beginning) {
        return folded::read(&String::from_utf8_lossy(bytes), names).map(Some);
    }
    Ok(None)
}

/// The beginning of the bytes, cut behind a whole line where there is one.
fn whole_lines(bytes: &[u8]) -> &[u8] {
    let start = beginning(bytes);
    let end = start.iter().rposition(|&byte| byte == b'\n');
    let end = end.filter(|_| start.len() < bytes.len());
    &start[..end.unwrap_or(start.len())]
}
