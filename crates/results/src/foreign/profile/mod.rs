//! Recordings of where a program spends its time, read into [`Profile`]s.
//!
//! Decides by content whether bytes are one, and of which kind: text of `perf script`, `.cpuprofile` of V8, or
//! folded stacks. It must not know how recordings are made. Start at [`read`]; what becomes of a frame's name
//! is in `frame_name.rs`.

mod cpu_profile;
mod folded;
mod frame_name;
mod perf_script;

pub use frame_name::FrameNames;
pub use perf_script::{PerfScript, read as read_perf_script};

use super::utf8;
use anyhow::{Result, bail};
use speedwell_model::Profile;

/// How `perf record` begins its file (tools/perf/util/header.c of Linux).
const PERF_DATA: &[u8] = b"PERFILE2";
/// As much of a file as is looked at to find its kind.
const BEGINNING: usize = 64 * 1024;

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
    if cpu_profile::recognises(beginning(bytes)) {
        return cpu_profile::read(utf8(bytes)?, names).map(Some);
    }
    let beginning = String::from_utf8_lossy(beginning(bytes));
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
fn beginning(bytes: &[u8]) -> &[u8] {
    if bytes.len() <= BEGINNING {
        return bytes;
    }
    let start = &bytes[..BEGINNING];
    match start.iter().rposition(|&byte| byte == b'\n') {
        Some(end) => &start[..end],
        None => start,
    }
}
