//! Starts recordings with Linux perf, and turns them into profiles.
//!
//! Samples are taken by the CPU clock (`cpu-clock`), not by the cycle counter: many virtual
//! machines hide the counter, and time is the same unit on every machine. Stacks are unwound by
//! frame pointers. Scripts compiled at run time have no other unwind information, and copying whole
//! stacks (`--call-graph dwarf`) would slow the program many times over. Callers of functions
//! compiled without frame pointers are therefore missing.

use anyhow::{Context, Result, bail};
use speedwell_formats::foreign::profile::{FrameNames, PerfScript, read_perf_script};
use speedwell_machine::process::{self, ProcessEnd, ProcessOutcome, ProcessSpec, ScratchFolder};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Samples per second on each processor. Not a round number, so that sampling does not run in
/// lockstep with periodic activity (B. Gregg, Systems Performance, chapter on perf).
const SAMPLING_RATE: &str = "997";
/// Time limit for converting a recording to text. The limit is long, because perf reads the symbols
/// of a program again for every conversion.
const CONVERSION_TIMEOUT: Duration = Duration::from_secs(300);
/// Folder in which perf looks for the symbols of code compiled at run time; it has one file for
/// each process (perf-script(1), jit interface).
const SYMBOL_MAP_FOLDER: &str = "/tmp";

/// Name of perf's data file in the folder of a recording.
const DATA_FILE: &str = "perf.data";

/// Builds a perf command that records into the scratch folder; the caller adds the program or
/// process.
pub fn perf_record_command(perf: &Path, scratch: &ScratchFolder) -> ProcessSpec {
    // -B and -N turn off build ids. To collect build ids, perf would read every file at the end and
    // fill a cache in the user's home folder.
    ProcessSpec::new(perf)
        .args(["record", "-q", "-B", "-N", "-e", "cpu-clock", "-F", SAMPLING_RATE])
        .args(["--call-graph", "fp", "-o"])
        .args([scratch.path(DATA_FILE).to_string_lossy()])
}

/// Builds the command that records a program to its end. The recording begins when the program
/// starts, or `skip` later.
pub fn wrap_with_perf(
    perf: &Path,
    scratch: &ScratchFolder,
    spec: ProcessSpec,
    skip: Duration,
) -> ProcessSpec {
    let mut command = perf_record_command(perf, scratch);
    if !skip.is_zero() {
        command = command.args(["-D".to_owned(), skip.as_millis().to_string()]);
    }
    let program = spec.program.to_string_lossy().into_owned();
    let recorded = command.args(["--".to_owned(), program]).args(spec.arguments.clone());
    ProcessSpec { program: recorded.program, arguments: recorded.arguments, ..spec }
}

/// Checks whether perf can record here. Returns the command that starts perf, or an error that says
/// why perf cannot record.
pub fn find_usable_perf() -> Result<PathBuf, String> {
    let perf = PathBuf::from("perf");
    let attempt = || -> Result<ProcessOutcome> {
        let scratch = ScratchFolder::new()?;
        let spec = perf_record_command(&perf, &scratch).args(["--", "true"]);
        Ok(process::run_child(&spec, &mut ())?)
    };
    match attempt() {
        Ok(outcome) if outcome.ended == ProcessEnd::Exit(0) => Ok(perf),
        Ok(outcome) => Err(explain_refusal(&outcome)),
        Err(error) => match error.downcast_ref::<std::io::Error>() {
            Some(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err("perf is not in PATH".to_owned())
            }
            _ => Err(format!("cannot start perf: {error:#}")),
        },
    }
}

/// Explains why perf does not record. Prefers the kernel's setting, which is clearer than perf's
/// own message.
fn explain_refusal(outcome: &ProcessOutcome) -> String {
    let level: Option<i32> = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid")
        .ok()
        .and_then(|text| text.trim().parse().ok());
    let stderr = outcome.stderr.text();
    let line =
        stderr.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("no error message");
    match level {
        // Some distributions extend the kernel with values above 2, which forbid perf to all users
        // but root (kernel documentation, perf-security).
        Some(level) if level > 2 && !stderr.contains("not found for kernel") => {
            format!("perf is not permitted to record: kernel.perf_event_paranoid is {level}")
        }
        _ => format!("perf cannot record: {line}"),
    }
}

/// Converts the recording to a profile. `home` is the folder that the program was started in.
///
/// # Errors
/// Fails if perf cannot read the recording, or the recording is empty.
pub fn read_profile(perf: &Path, scratch: &ScratchFolder, home: &Path) -> Result<PerfScript> {
    let data = scratch.path(DATA_FILE);
    if !data.is_file() {
        bail!("perf wrote no recording");
    }
    let text = scratch.path("stacks.txt");
    // A shell redirects the output to a file: stacks recorded over minutes exceed the limit on
    // captured output. The option `--no-inline` is set, because looking up inlined functions in
    // debugging information takes minutes.
    let script = "exec \"$0\" script -i \"$1\" --no-inline \
                  --fields comm,pid,tid,time,event,ip,sym,dso,period > \"$2\"";
    let arguments = [perf, &data, &text].map(|path| path.to_string_lossy().into_owned());
    let spec = ProcessSpec {
        limit: CONVERSION_TIMEOUT,
        ..ProcessSpec::new("/bin/sh").args(["-c", script]).args(arguments)
    };
    let outcome = process::run_child(&spec, &mut ()).context("cannot start perf")?;
    if outcome.ended != ProcessEnd::Exit(0) {
        bail!("perf cannot read its recording: {}", outcome.stderr.last_lines(1));
    }
    let file = File::open(&text).context("cannot read what perf wrote")?;
    let script = read_perf_script(BufReader::new(file), &FrameNames::from_home(home))?;
    remove_symbol_maps(&script.processes, home);
    Ok(script)
}

/// Removes symbol maps that runtimes of ended processes wrote for perf. Otherwise, perf would use
/// the names in such a map for a later process with the same pid. Also removes the useless log that
/// Node.js leaves in its working directory.
fn remove_symbol_maps(processes: &BTreeSet<i32>, home: &Path) {
    let has_ended = |pid: &&i32| !Path::new("/proc").join(pid.to_string()).exists();
    let files = std::fs::read_dir(home).into_iter().flatten().flatten();
    let logs: Vec<PathBuf> = files.map(|file| file.path()).filter(|file| is_v8_log(file)).collect();
    for pid in processes.iter().filter(has_ended) {
        let suffix = format!("-{pid}-v8.log");
        let own_logs = logs.iter().filter(|log| log.to_string_lossy().ends_with(&suffix));
        for log in own_logs {
            // Another process may have removed it already.
            let _ = std::fs::remove_file(log);
        }
        for name in [format!("perf-{pid}.map"), format!("jit-{pid}.dump")] {
            // Most processes have no such file.
            let _ = std::fs::remove_file(Path::new(SYMBOL_MAP_FOLDER).join(name));
        }
    }
}

/// Whether the file is the log of a V8 isolate: `isolate-0x2c97abc0-1478-v8.log`.
fn is_v8_log(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with("isolate-0x") && name.ends_with("-v8.log")
}
