//! Provides a result file for each of the two inputs: opens an input that is a result file, and
//! runs an input that is a program.
//!
//! Decides what is checked before measuring. Like `compare.py`, runs the baseline completely before
//! the contender. Does not interpret the results.
//!
//! The content of an input decides whether it is a program or a result file. A program is machine
//! code, or an executable file that does not begin like JSON. As in `compare.py`, a program runs as
//! one process, and its output is shown while it runs. Start at [`ComparedSources::open_sides`].

use crate::compare_py::arguments::{ComparePyRequest, TOOL};
use crate::console::{DropInConsole, EXIT_FAILED, EXIT_INTERRUPTED};
use anyhow::{Context, Result, bail, ensure};
use speedwell_formats::foreign::diagnosis::{self, UnreadableFile};
use speedwell_formats::foreign::google_benchmark::ResultFile;
use speedwell_formats::output_files::{OutputFile, refuse_file, refuse_same, refuse_word};
use speedwell_machine::process::{self, ProcessEnd, ScratchFolder};
use std::fs;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a program may take to exit after the user has interrupted the measurement.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// Name of standard input, as in Python.
const STDIN: &str = "<stdin>";

/// Option for the format of the result file.
const OUT_FORMAT_FLAG: &str = "--benchmark_out_format=";

/// Option that selects benchmarks of a program.
pub const FILTER_FLAG: &str = "--benchmark_filter=";

/// The two sides, ready to be read.
pub struct ComparedSources {
    /// Names of the sides as typed by the user.
    pub labels: [String; 2],
    /// Which sides are programs that were measured by this command.
    pub are_programs: [bool; 2],
    /// Result file of the baseline.
    pub first: ResultFile,
    /// Result file of the contender; `None` if both sides use the same file.
    pub second: Option<ResultFile>,
}

impl ComparedSources {
    /// Opens the inputs of a request and measures programs. If a side has no results and the reason
    /// was already reported, returns the exit status.
    ///
    /// # Errors
    /// Fails if an input cannot be used, or a stream is closed.
    pub fn open_sides(
        request: &ComparePyRequest,
        console: &mut DropInConsole<'_>,
    ) -> Result<Result<ComparedSources, i32>> {
        let count = if request.is_one_input { 1 } else { 2 };
        let inputs = request.inputs[..count].iter();
        let inputs: Vec<SideInput> =
            inputs.map(|input| SideInput::open_input(input, console)).collect::<Result<_>>()?;
        let sides = [&inputs[0], &inputs[count - 1]];
        check_outputs(request, sides, &console.directory)?;
        let labels = sides.map(|input| input.label.clone());
        let are_programs = sides.map(SideInput::is_program);
        if !print_warnings(request, are_programs, console)? {
            return Ok(Err(EXIT_FAILED));
        }
        if are_programs != [false; 2] {
            check_inputs(request, sides, console)?;
            process::install_handlers()?;
        } else if request.is_one_input && request.both_filters().is_none() && !request.strict {
            bail!(
                "nothing compared: a filter is empty, so both sides have all benchmarks of '{}'",
                labels[0]
            );
        }
        // If both sides are the same program, it runs once for each side. If both sides are the
        // same file, it is read once.
        let mut measured = [None, None];
        for (side, input) in sides.into_iter().enumerate() {
            if let Kind::Program(path) = &input.kind {
                let filter = request.both_filters().map(|filters| filters[side]);
                match run_program(path, &input.label, request, filter, console)? {
                    Ok(file) => measured[side] = Some(file),
                    Err(status) => return Ok(Err(status)),
                }
            }
        }
        let [first, second] = measured;
        let mut opened = inputs.into_iter().map(|input| match input.kind {
            Kind::Results(file) => Some(file),
            Kind::Program(_) => None,
        });
        Ok(Ok(ComparedSources {
            labels,
            are_programs,
            first: first.or(opened.next().flatten()).context("missing baseline")?,
            second: second.or(opened.next().flatten()),
        }))
    }
}

/// Prints what `compare.py` prints at the start; returns whether to continue.
fn print_warnings(
    request: &ComparePyRequest,
    are_programs: [bool; 2],
    console: &mut DropInConsole<'_>,
) -> io::Result<bool> {
    let out = &mut console.stdout;
    if let Some(file) = request.passed_value(OUT_FLAG).filter(|_| are_programs == [true; 2]) {
        writeln!(
            out,
            "WARNING: '{OUT_FLAG}{file}' will be passed to both benchmarks causing it to be overwritten"
        )?;
    }
    if are_programs == [false; 2] {
        for option in request.passed.iter().filter(|argument| !argument.starts_with(FILTER_FLAG)) {
            writeln!(out, "WARNING: passing {option} has no effect since both inputs are JSON")?;
        }
    }
    if let Some(format) = request.passed_value(OUT_FORMAT_FLAG).filter(|format| *format != "json") {
        // The quotes do not match in `compare.py` either.
        let option = format!("{OUT_FORMAT_FLAG}{format}");
        writeln!(out, "ERROR: passing '{option}' to 'compare.py` is not supported.")?;
        return Ok(false);
    }
    for option in request.misplaced_options() {
        let advice = format!("'{option}' has no effect after the inputs; put it before the mode");
        console.warn(TOOL, &advice)?;
    }
    Ok(true)
}

/// Rejects output files that would replace each other or an input.
fn check_outputs(request: &ComparePyRequest, sides: [&SideInput; 2], folder: &Path) -> Result<()> {
    let is_measured = sides.iter().any(|input| input.is_program());
    let dump = request.dump.as_deref().map(|file| ("-d ", file));
    // Only a program that is measured writes this file.
    let passed_file = request.passed_value(OUT_FLAG).filter(|_| is_measured);
    let program_output = passed_file.map(|file| (OUT_FLAG, Path::new(file)));
    let output = |(option, file): (&str, &Path)| {
        OutputFile::new(format!("{option}{}", file.display()), &folder.join(file))
    };
    let outputs: Vec<_> = dump.into_iter().chain(program_output).filter_map(output).collect();
    refuse_same(&outputs)?;
    for side in sides {
        let path = match &side.kind {
            Kind::Program(path) => folder.join(path),
            Kind::Results(_) if side.label == STDIN => "/dev/stdin".into(),
            Kind::Results(_) => folder.join(&side.label),
        };
        refuse_file(&outputs, &path)?;
    }
    for argument in request.passed.iter().filter(|argument| !argument.starts_with(OUT_FLAG)) {
        refuse_word(&outputs, argument, folder)?;
    }
    Ok(())
}

/// Checks early for errors that would otherwise be found only after measuring.
fn check_inputs(
    request: &ComparePyRequest,
    inputs: [&SideInput; 2],
    console: &mut DropInConsole<'_>,
) -> Result<()> {
    for input in inputs {
        if let Kind::Results(file) = &input.kind {
            file.parse_entries().with_context(|| format!("cannot read '{}'", input.label))?;
        }
    }
    if let Some(dump) = &request.dump {
        let path = console.directory.join(dump);
        let folder = path.parent().unwrap_or(&path);
        ensure!(folder.is_dir(), "cannot write '{}': the folder does not exist", dump.display());
    }
    if inputs.iter().all(|input| input.is_program()) && !request.strict {
        let [first, second] = inputs.map(|input| input.label.as_str());
        writeln!(
            console.stderr,
            "hint: the sides run one after the other, each as one process, so machine drift looks \
             like a change; 'speedwell compare {first} {second}' measures in randomised blocks"
        )?;
    }
    Ok(())
}

/// First bytes of a program in the executable format of Linux and other systems.
const ELF_MAGIC: &[u8] = b"\x7fELF";

/// One input, as it is known before any program runs.
#[derive(Debug)]
pub struct SideInput {
    /// Name as typed by the user; standard input is `<stdin>`, as in Python.
    pub label: String,
    pub kind: Kind,
}

/// Kind of an input.
#[derive(Debug)]
pub enum Kind {
    Results(ResultFile),
    /// Path of a program. It contains a slash, so that the program is not searched for in `PATH`.
    Program(PathBuf),
}

impl SideInput {
    /// Opens what `name` refers to: a path, a program in `PATH`, or `-`.
    ///
    /// # Errors
    /// Fails if there is no file with that name, or if the file is neither a result file nor a
    /// program.
    pub fn open_input(name: &str, console: &mut DropInConsole<'_>) -> Result<SideInput> {
        if name == "-" {
            let mut bytes = Vec::new();
            console.stdin.read_to_end(&mut bytes)?;
            return SideInput::from_results(STDIN, bytes);
        }
        let path = console.directory.join(name);
        let Ok(metadata) = fs::metadata(&path) else {
            return match find_in_path(name, console) {
                Some(program) => Ok(SideInput::from_program(name, program)),
                None => fs::File::open(&path)
                    .with_context(|| format!("cannot open '{name}'"))
                    .and_then(|_| bail!("cannot open '{name}'")),
            };
        };
        if metadata.is_dir() {
            bail!("'{name}' is a folder; expected a result file or a program");
        }
        let bytes = read_input(&path).with_context(|| format!("cannot read '{name}'"))?;
        if bytes == ELF_MAGIC || (!ResultFile::recognises(&bytes) && is_executable(&metadata)) {
            let folder = if name.contains('/') { "" } else { "." };
            return Ok(SideInput::from_program(name, Path::new(folder).join(name)));
        }
        SideInput::from_results(name, bytes)
    }

    fn from_program(name: &str, path: PathBuf) -> SideInput {
        SideInput { label: name.to_owned(), kind: Kind::Program(path) }
    }

    fn from_results(label: &str, bytes: Vec<u8>) -> Result<SideInput> {
        if bytes.trim_ascii().is_empty() {
            bail!("'{label}' is empty");
        }
        diagnosis::strip_bom(&bytes).with_context(|| format!("cannot read '{label}'"))?;
        if !ResultFile::recognises(&bytes) {
            let diagnosis = UnreadableFile::diagnose(&bytes);
            let expectation = "neither a JSON result file nor an executable program";
            match diagnosis.hint {
                "" => bail!("'{label}' is {expectation}"),
                hint => bail!("'{label}' {}, {expectation}\nhint: {hint}", diagnosis.found),
            }
        }
        let file = ResultFile::new(bytes).with_context(|| format!("cannot read '{label}'"))?;
        Ok(SideInput { label: label.to_owned(), kind: Kind::Results(file) })
    }

    /// Whether the input is a program.
    pub fn is_program(&self) -> bool {
        matches!(self.kind, Kind::Program(_))
    }
}

/// Reads a file. If it is machine code, only its first bytes are read.
fn read_input(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = fs::File::open(path)?;
    let mut bytes = Vec::new();
    (&mut file).take(ELF_MAGIC.len() as u64).read_to_end(&mut bytes)?;
    if bytes != ELF_MAGIC {
        file.read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// Finds a program named without a slash in `PATH`.
fn find_in_path(name: &str, console: &DropInConsole<'_>) -> Option<PathBuf> {
    let path = (console.variable)("PATH").filter(|_| !name.contains('/') && !name.is_empty())?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| {
        fs::metadata(file).is_ok_and(|metadata| metadata.is_file() && is_executable(&metadata))
    })
}

fn is_executable(metadata: &fs::Metadata) -> bool {
    metadata.permissions().mode() & 0o111 != 0
}

/// Option for the result file.
pub const OUT_FLAG: &str = "--benchmark_out=";

/// Runs `program` and reads its results. `filter` selects benchmarks of this side, if the mode has
/// a filter for each side. If the user interrupted the program, or it did not exit with status 0,
/// returns the exit status of this tool.
///
/// # Errors
/// Fails if the program cannot be started, or wrote no results.
fn run_program(
    program: &Path,
    label: &str,
    request: &ComparePyRequest,
    filter: Option<&str>,
    console: &mut DropInConsole<'_>,
) -> Result<Result<ResultFile, i32>> {
    let mut arguments = program_arguments(request, filter);
    let given_out = request.passed_value(OUT_FLAG);
    let scratch = given_out.is_none().then(ScratchFolder::new).transpose()?;
    let mut out = console.directory.join(given_out.unwrap_or_default());
    if let Some(scratch) = &scratch {
        out = scratch.path("results.json");
        arguments.push(format!("{OUT_FLAG}{}", out.display()));
    }
    let line = format!("{} {}", program.display(), arguments.join(" "));
    writeln!(console.stdout, "RUNNING: {line}")?;
    // The program's output must come after this line, even if stdout is not line-buffered.
    console.stdout.flush()?;
    let ended = process::run_attached(program, &arguments, &console.directory, STOP_GRACE);
    let ending = match ended.with_context(|| format!("cannot start '{label}'"))? {
        ProcessEnd::Exit(0) => return read_results(&out, label, request, filter).map(Ok),
        ProcessEnd::Interrupted => return Ok(Err(EXIT_INTERRUPTED)),
        ProcessEnd::Exit(status) => format!("exited with status {status}"),
        ProcessEnd::Signal(signal) => format!("was killed by signal {signal}"),
        ProcessEnd::Timeout | ProcessEnd::Lingered => "was killed".to_owned(),
    };
    writeln!(console.stdout, "TEST FAILED...")?;
    console.stdout.flush()?;
    let replay = replay_command(program, &arguments, scratch.is_some());
    writeln!(console.stderr, "{TOOL}: '{label}' {ending}\nhint: repeat it with: {replay}")?;
    Ok(Err(EXIT_FAILED))
}

/// Returns a shell command that repeats the run. The command discards results that would go to a
/// temporary file.
fn replay_command(program: &Path, arguments: &[String], discards_results: bool) -> String {
    let quoted = arguments.iter().map(|argument| {
        if discards_results && argument.starts_with(OUT_FLAG) {
            format!("{OUT_FLAG}/dev/null")
        } else {
            speedwell_model::quote(argument)
        }
    });
    let program = speedwell_model::quote(&program.to_string_lossy());
    [program].into_iter().chain(quoted).collect::<Vec<_>>().join(" ")
}

/// Returns the arguments of a program in the same order as `compare.py`. The user's arguments come
/// first, followed by the arguments that `compare.py` adds. If two arguments conflict, the later
/// one takes precedence.
fn program_arguments(request: &ComparePyRequest, filter: Option<&str>) -> Vec<String> {
    let mut arguments = request.passed.clone();
    if !request.strict {
        let misplaced = request.misplaced_options();
        arguments.retain(|argument| !misplaced.contains(&argument.as_str()));
    }
    if request.aggregates_only {
        arguments.push("--benchmark_display_aggregates_only=true".to_owned());
    }
    arguments.extend(filter.map(|filter| format!("{FILTER_FLAG}{filter}")));
    arguments
}

/// Reads the results that a program wrote. The google/benchmark library leaves the file empty if no
/// benchmark matches the filter; programs without this library create no file.
fn read_results(
    out: &Path,
    label: &str,
    request: &ComparePyRequest,
    filter: Option<&str>,
) -> Result<ResultFile> {
    let bytes = match fs::read(out) {
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        read => read.with_context(|| format!("cannot read the results of '{label}'"))?,
    };
    if bytes.trim_ascii().is_empty() {
        let hint = match filter.or(request.passed_value(FILTER_FLAG)) {
            Some(filter) => format!("check that a benchmark matches '{filter}'"),
            None => "check that it is a google/benchmark program".to_owned(),
        };
        bail!("'{label}' wrote no results, so nothing was compared\nhint: {hint}");
    }
    ResultFile::new(bytes).with_context(|| format!("cannot read the results of '{label}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(word: &str, folder: &Path, stdin: &[u8]) -> Result<SideInput> {
        let mut console = DropInConsole {
            stdin: &mut &*stdin,
            stdout: &mut Vec::new(),
            stderr: &mut Vec::new(),
            stdout_is_terminal: false,
            progress: None,
            directory: folder.to_owned(),
            variable: &|_| Some("/nowhere:/bin".to_owned()),
            measure: &|_, _| Ok(()),
        };
        SideInput::open_input(word, &mut console)
    }

    #[test]
    fn programs_are_recognised_by_content_before_permissions() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8], mode: u32| {
            let path = folder.path().join(name);
            fs::write(&path, bytes).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        };
        write("elf", b"\x7fELF...", 0o644);
        write("script", b"#!/bin/sh\n", 0o755);
        write("shared.json", b" {}", 0o755);
        write("notes", b"hello", 0o644);
        write("empty", b" \n", 0o644);
        let program = |word: &str| match open(word, folder.path(), b"").unwrap().kind {
            Kind::Program(path) => path.display().to_string(),
            Kind::Results(_) => panic!("{word}"),
        };
        assert_eq!(program("elf"), "./elf");
        assert_eq!(program("./script"), "./script");
        assert_eq!(program("ls"), "/bin/ls");
        assert!(!open("shared.json", folder.path(), b"").unwrap().is_program());
        let stdin = open("-", folder.path(), b"{}").unwrap();
        assert_eq!((stdin.label.as_str(), stdin.is_program()), ("<stdin>", false));
        for (word, reason) in [
            ("notes", "is neither a JSON result file nor an executable program"),
            ("empty", "'empty' is empty"),
            (".", "is a folder"),
            ("gone", "cannot open 'gone': No such file"),
            ("-", "'<stdin>' is empty"),
        ] {
            let error = format!("{:#}", open(word, folder.path(), b"").unwrap_err());
            assert!(error.contains(reason), "{error}");
        }
    }
}
