//! Records where a program spends its time. Programs are recorded in separate runs that are not
//! timed, because recording slows them.
//!
//! Decides which tool is used and how it is controlled; `foreign::profile` reads the output of the
//! tool. This module knows nothing about why a program is recorded. Start at [`ProfileRecorder`]:
//! [`ProfileRecorder::record`] records a program that runs to its end; [`ProfileRecorder::prepare`]
//! and [`ProfileRecorder::attach`] record part of a server's lifetime.
//!
//! To record a running program, this module controls perf through two named pipes, one for commands
//! and one for acknowledgments (perf-record(1), `--control`). An acknowledgment shows that the
//! recording has really begun.
//!
//! perf takes samples by the CPU clock (`cpu-clock`), not by the cycle counter: many virtual
//! machines hide the counter, and time is the same unit on every machine. Stacks are unwound by
//! frame pointers. Scripts compiled at run time have no other unwind information, and copying whole
//! stacks (`--call-graph dwarf`) would slow the program many times over. Callers of functions
//! compiled without frame pointers are therefore missing.

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{CWD, Mode, OFlags, mkfifoat, open};
use speedwell_formats::foreign::profile::{FrameNames, read_perf_script, read_profile};
use speedwell_machine::process::{
    self, ChildConversation, ProcessEnd, ProcessOutcome, ProcessSpec, ScratchFolder,
    ServiceProcess, tree_of,
};
use speedwell_model::StackProfile;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Recording tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordingTool {
    /// Linux perf: native code and scripts.
    Perf,
    /// V8's own profiler: JavaScript functions only, and only for the whole run.
    V8,
}

/// Recording of a program that ran to its end.
#[derive(Debug)]
pub struct ProfiledRun {
    /// Where the program spent its time.
    pub profile: StackProfile,
    /// How the program ended. Its times include the cost of recording.
    pub outcome: ProcessOutcome,
}

/// Records programs with a tool that this machine has.
#[derive(Debug)]
pub struct ProfileRecorder {
    /// Path of perf, or why it cannot be used.
    perf: Result<PathBuf, String>,
}

impl ProfileRecorder {
    /// Detects whether perf can be used, by trying it once. This takes a fraction of a second.
    pub fn detect() -> ProfileRecorder {
        ProfileRecorder { perf: find_usable_perf() }
    }

    /// Creates a recorder that does not use perf, for the given reason.
    pub fn without_perf(reason: impl Into<String>) -> ProfileRecorder {
        ProfileRecorder { perf: Err(reason.into()) }
    }

    /// Returns the tool that would record this program.
    ///
    /// # Errors
    /// Fails if no tool can record the program; the message gives the reason.
    pub fn select_tool(&self, program: &Path) -> Result<RecordingTool> {
        match &self.perf {
            Ok(_) => Ok(RecordingTool::Perf),
            Err(_) if is_node(program) => Ok(RecordingTool::V8),
            Err(reason) => bail!("{reason}"),
        }
    }

    /// Runs a program to its end and records it, and holds a conversation with the program while it
    /// runs. A failing program is reported in the outcome, not as an error.
    ///
    /// # Errors
    /// Fails if no tool can record the program, or if the tool wrote no samples.
    pub fn record(
        &self,
        mut spec: ProcessSpec,
        conversation: &mut dyn ChildConversation,
    ) -> Result<ProfiledRun> {
        let home = working_folder(&spec);
        let scratch = ScratchFolder::new()?;
        let program = spec.program.display().to_string();
        let (profile, outcome) = match (self.select_tool(&spec.program)?, &self.perf) {
            (RecordingTool::Perf, Ok(perf)) => {
                enable_symbols(&mut spec);
                let outcome = run_recorded(&wrap_with_perf(perf, &scratch, spec), conversation)?;
                (read_perf_profile(perf, &scratch, &home), outcome)
            }
            (_, perf) => {
                let outcome = run_recorded(&with_v8_profiler(&scratch, spec), conversation)?;
                let mut profile = read_v8_profile(&scratch, &FrameNames::from_home(&home));
                if let (Ok(profile), Err(reason)) = (&mut profile, perf) {
                    profile.notes = vec![format!("V8's profiler was used because {reason}.")];
                }
                (profile, outcome)
            }
        };
        Ok(ProfiledRun {
            profile: profile.with_context(|| describe_unrecorded(&program, &outcome))?,
            outcome,
        })
    }

    /// Prepares a program for [`ProfileRecorder::attach`] before it starts.
    pub fn prepare(&self, spec: &mut ProcessSpec) {
        if self.perf.is_ok() {
            enable_symbols(spec);
        }
    }

    /// Records the process `pid` and its descendants from now on; `home` is its working directory.
    ///
    /// # Errors
    /// Fails if perf is unavailable, or cannot attach to the process.
    pub fn attach(&self, pid: i32, home: &Path) -> Result<ActiveRecording> {
        match &self.perf {
            Ok(perf) => ActiveRecording::attach(perf, pid, home),
            Err(reason) => bail!("{reason}; only perf can record a running process"),
        }
    }
}

fn run_recorded(
    spec: &ProcessSpec,
    conversation: &mut dyn ChildConversation,
) -> Result<ProcessOutcome> {
    let program = || format!("cannot start '{}'", spec.program.display());
    process::run_child(spec, conversation).with_context(program)
}

fn describe_unrecorded(program: &str, outcome: &ProcessOutcome) -> String {
    match outcome.stderr.last_lines(1) {
        line if line.is_empty() => format!("'{program}' was not recorded"),
        line => format!("'{program}' was not recorded; it printed '{line}'"),
    }
}

/// Returns the working directory of the program. Displayed paths are relative to it.
fn working_folder(spec: &ProcessSpec) -> PathBuf {
    let folder =
        spec.directory.clone().or_else(|| std::env::current_dir().ok()).unwrap_or_default();
    folder.canonicalize().unwrap_or(folder)
}

/// Time perf may take to start or stop. The limit is long, because perf reads the memory maps of
/// every process, possibly on a machine under load.
const PERF_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum duration of a recording. The recording of a server under load can reach gigabytes within
/// minutes.
const MAX_RECORDING: Duration = Duration::from_secs(600);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A recording in progress. Dropping it discards the recording.
#[derive(Debug)]
pub struct ActiveRecording {
    service: ServiceProcess,
    commands: File,
    recording: FinishedRecording,
}

impl ActiveRecording {
    /// Starts recording a process and its descendants. Returns when perf has begun to take samples.
    fn attach(perf: &Path, pid: i32, home: &Path) -> Result<ActiveRecording> {
        let scratch = ScratchFolder::new()?;
        let commands = create_pipe(&scratch.path("orders"))?;
        let acknowledgments = create_pipe(&scratch.path("answers"))?;
        let tree: Vec<String> = tree_of(pid).iter().map(ToString::to_string).collect();
        ensure!(!tree.is_empty(), "process {pid} has ended");
        let control = format!(
            "--control=fifo:{},{}",
            scratch.path("orders").display(),
            scratch.path("answers").display()
        );
        // -D -1 starts perf with recording disabled, until it receives `enable`.
        let spec =
            perf_record_command(perf, &scratch).args(["-D", "-1", "-p", &tree.join(","), &control]);
        let service = ServiceProcess::start(ProcessSpec { limit: MAX_RECORDING, ..spec })
            .context("cannot start perf")?;
        let (perf, home, last_line) = (perf.to_owned(), home.to_owned(), String::new());
        let recording = FinishedRecording { perf, scratch, home, last_line };
        let mut active = ActiveRecording { service, commands, recording };
        active.send_command("enable\n")?;
        active.wait_for_ack(acknowledgments)?;
        Ok(active)
    }

    /// Stops the recording; the program continues.
    ///
    /// # Errors
    /// Fails if waiting for perf fails.
    pub fn stop_recording(mut self) -> Result<FinishedRecording> {
        // If the pipe is closed, perf has ended together with the program, and the recording is
        // complete.
        let _ = self.send_command("stop\n");
        let clock = self.service.clock();
        let deadline = clock.now() + PERF_TIMEOUT;
        while !self.service.has_ended() && clock.now() < deadline {
            clock.wait(POLL_INTERVAL);
        }
        let outcome = self.service.stop_and_wait().context("cannot wait for perf")?;
        Ok(FinishedRecording { last_line: outcome.stderr.last_lines(1), ..self.recording })
    }

    fn send_command(&mut self, command: &str) -> Result<()> {
        self.commands.write_all(command.as_bytes()).context("cannot send commands to perf")
    }

    /// Waits until perf acknowledges a command with `ack`.
    fn wait_for_ack(&self, mut acknowledgments: File) -> Result<()> {
        let clock = self.service.clock();
        let deadline = clock.now() + PERF_TIMEOUT;
        let mut buffer = [0; 16];
        loop {
            if acknowledgments.read(&mut buffer).is_ok_and(|length| length > 0) {
                return Ok(());
            }
            if self.service.has_ended() {
                bail!("perf cannot record this process\nhint: does it belong to another user?");
            }
            ensure!(clock.now() <= deadline, "perf did not start to record");
            clock.wait(POLL_INTERVAL);
        }
    }
}

/// A recording that has not been read yet. It can be read once it is finished.
#[derive(Debug)]
pub struct FinishedRecording {
    perf: PathBuf,
    scratch: ScratchFolder,
    home: PathBuf,
    /// Last line of perf's stderr; empty until perf has ended.
    last_line: String,
}

impl FinishedRecording {
    /// Reads the recording. Call this after the program has ended, so that reading disturbs no
    /// measurement. Do not remove the files that the program's runtime wrote for perf before this
    /// call returns.
    ///
    /// # Errors
    /// Fails if nothing was recorded, or if the recording cannot be read.
    pub fn read_profile(self) -> Result<StackProfile> {
        let reason = || match self.last_line.as_str() {
            "" => "perf recorded nothing".to_owned(),
            line => format!("perf recorded nothing and printed '{line}'"),
        };
        read_perf_profile(&self.perf, &self.scratch, &self.home).with_context(reason)
    }
}

/// Creates a named pipe and opens it in both directions. Opening it in one direction would wait
/// until another process opens the pipe.
fn create_pipe(path: &Path) -> Result<File> {
    mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).context("cannot create a named pipe")?;
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(File::from(open(path, flags, Mode::empty()).context("cannot open a named pipe")?))
}

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
fn perf_record_command(perf: &Path, scratch: &ScratchFolder) -> ProcessSpec {
    // -B and -N turn off build ids. To collect build ids, perf would read every file at the end and
    // fill a cache in the user's home folder.
    ProcessSpec::new(perf)
        .args(["record", "-q", "-B", "-N", "-e", "cpu-clock", "-F", SAMPLING_RATE])
        .args(["--call-graph", "fp", "-o"])
        .args([scratch.path(DATA_FILE).to_string_lossy()])
}

/// Builds the command that records a program to its end.
fn wrap_with_perf(perf: &Path, scratch: &ScratchFolder, spec: ProcessSpec) -> ProcessSpec {
    let command = perf_record_command(perf, scratch).args(["--", &spec.program.to_string_lossy()]);
    let recorded = command.args(spec.arguments.clone());
    ProcessSpec { program: recorded.program, arguments: recorded.arguments, ..spec }
}

/// Checks whether perf can record here. Returns the command that starts perf, or an error that says
/// why perf cannot record.
fn find_usable_perf() -> Result<PathBuf, String> {
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
fn read_perf_profile(perf: &Path, scratch: &ScratchFolder, home: &Path) -> Result<StackProfile> {
    let data = scratch.path(DATA_FILE);
    ensure!(data.is_file(), "perf wrote no recording");
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
    Ok(script.profile)
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

/// Sets the variables that make the program's runtime export symbols. Appends to the value that a
/// variable has in the spec or, if the spec does not mention it, in our own environment.
fn enable_symbols(spec: &mut ProcessSpec) {
    for (name, addition) in SYMBOL_VARIABLES {
        let previous = spec.variable(name).unwrap_or_default();
        let value = match previous.trim() {
            "" => addition.to_owned(),
            previous if previous.contains(addition) => previous.to_owned(),
            previous => format!("{previous} {addition}"),
        };
        spec.environment.retain(|(existing, _)| existing != name);
        spec.environment.push((name.to_owned(), value));
    }
}

/// Whether the program is Node.js, by its name: `node`, `nodejs`, `node-22`.
fn is_node(program: &Path) -> bool {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let version = name.strip_prefix("nodejs").or_else(|| name.strip_prefix("node"));
    version.is_some_and(|suffix| suffix.is_empty() || !suffix.starts_with(char::is_alphabetic))
}

/// Makes Node.js record the program from start to end. Node.js accepts these options only on its
/// command line, before the script.
fn with_v8_profiler(scratch: &ScratchFolder, mut spec: ProcessSpec) -> ProcessSpec {
    let folder = format!("--cpu-prof-dir={}", scratch.folder().display());
    spec.arguments.splice(0..0, ["--cpu-prof".to_owned(), folder]);
    spec
}

/// Reads all files that V8's profiler wrote, and merges them into one profile.
///
/// # Errors
/// Fails if a file cannot be read, or if there are no files, which happens if the program was
/// killed.
fn read_v8_profile(scratch: &ScratchFolder, names: &FrameNames) -> Result<StackProfile> {
    let folder = std::fs::read_dir(scratch.folder()).context("cannot read the recordings")?;
    let mut files: Vec<_> = folder.flatten().map(|entry| entry.path()).collect();
    files.sort();
    let mut merged: Option<StackProfile> = None;
    for file in files {
        let bytes = std::fs::read(&file).context("cannot read a recording")?;
        let Some(profile) = read_profile(&bytes, names)? else { continue };
        match &mut merged {
            None => merged = Some(profile),
            Some(merged) => merged.merge(&profile),
        }
    }
    merged.context(
        "Node.js wrote no recording: it writes one when it ends by itself, not when it is killed",
    )
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
