//! Lists and performs the cases of C++ source files, of programs built from them, and of Python
//! files: everything that is started as a program and speaks the harness protocol.
//!
//! A C++ source file includes `speedwell.hpp`. A variant's program is the compiler, and the variant's
//! arguments are compiler flags. One command can therefore compare two builds of the same source.
//! `compile.rs` decides when to recompile.
//!
//! A prebuilt program is started only if a note in its ELF file says that it speaks the protocol,
//! because unknown programs are never executed just to identify them. The System V ABI defines the
//! layout of notes (chapter 5, "Program Header", "Note Section"). A program header of type `PT_NOTE`
//! points to entries. Each entry consists of name size, description size, type, name and
//! description. Name and description are padded to a multiple of four bytes. Only files in native
//! byte order are read.

use crate::compile::{self, BuildRecipe, variable_words};
use crate::counting::{CountingInputs, perform_counted};
use crate::job::{BenchmarkJob, BenchmarkSource, DescribeRequest, RunContext};
use crate::layout::{LinkedProgram, ObjectFiles, RunLayout};
use crate::run_outcome::{self, DescribeResult, describe_file, perform_case};
use crate::wire::EventLog;
use crate::{HarnessFailure, LanguageHarness, RunOutcome, sources};
use speedwell_machine::process::{ChannelKind, ProcessSpec};
use speedwell_model::{SampleDivision, Variant};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// Owner of the note that `speedwell.hpp` adds to every program.
const NOTE_OWNER: &str = "Speedwell";

/// Harness for prebuilt programs.
pub struct ProgramHarness;

/// Whether the file is a program that speaks the protocol. Reads the file without executing it.
pub fn is_harness(file: &Path) -> bool {
    has_note(file, NOTE_OWNER).unwrap_or(false)
}

impl LanguageHarness for ProgramHarness {
    fn describe_source(&self, request: &DescribeRequest) -> DescribeResult {
        let plain =
            plain_command(&request.program, &request.source).args(&request.variant.arguments);
        check_program(&plain)?;
        let spec = with_channel(ProcessSpec {
            environment: request.variant.environment.clone(),
            ..plain.clone()
        });
        describe_file(request, &spec, &plain.args(["--list"]), &request.draft_job())
    }

    fn perform_job(&self, setting: &RunContext<'_>) -> Result<RunOutcome, HarnessFailure> {
        let plain =
            plain_command(&setting.program, &setting.job.source).args(&setting.variant.arguments);
        check_program(&plain)?;
        perform_program(setting, plain)
    }
}

/// Performs one case with the program that the command `plain` starts, in the variant's
/// environment.
fn perform_program(
    setting: &RunContext<'_>,
    mut plain: ProcessSpec,
) -> Result<RunOutcome, HarnessFailure> {
    plain.environment = setting.variant.environment.clone();
    plain.limit = setting.limit();
    let spec = ProcessSpec { pin: setting.pin.cloned(), ..with_channel(plain.clone()) };
    plain.arguments.extend(case_arguments(setting.job));
    let Some(counting) = setting.counting else {
        return perform_case(setting, &spec, &plain);
    };
    perform_counted(&CountingInputs {
        setting,
        counting,
        spec: &spec,
        plain: &plain,
        commands: &|samples: &SampleDivision| {
            let run = run_outcome::samples_message(samples, false);
            EventLog::new([run_outcome::load_message(setting), run])
        },
        observe: &|events: &EventLog| run_outcome::observe_case(setting.job, events),
    })
}

/// Builds the command with which a user would start `program`.
fn plain_command(program: &Path, source: &BenchmarkSource) -> ProcessSpec {
    let mut spec = ProcessSpec::new(program);
    spec.directory = Some(source.directory.clone());
    spec
}

/// Adds the channel for commands and events to the command `plain`.
fn with_channel(plain: ProcessSpec) -> ProcessSpec {
    ProcessSpec { channel: ChannelKind::Harness, ..plain }
}

/// Arguments by which a user selects the case: the benchmark's name without its folders, and the
/// case's parameter values.
fn case_arguments(job: &BenchmarkJob) -> Vec<String> {
    let name = job.case.iter().filter_map(|case| case.benchmark.rsplit('/').next());
    name.map(str::to_owned).chain(job.arguments.iter().cloned()).collect()
}

/// Rejects a program that does not speak the protocol. `plain` is the command that starts it.
fn check_program(plain: &ProcessSpec) -> Result<(), HarnessFailure> {
    if is_harness(&plain.program) {
        return Ok(());
    }
    let shown = plain.program.display();
    let reason = format!("'{shown}' was not built with speedwell.hpp, so it is not started");
    Err(HarnessFailure::invalid(reason).with_replay(plain))
}

/// Type of a program header that points to notes.
const PT_NOTE: u32 = 4;

/// Maximum size of a table or of notes. Tables and notes in real programs are smaller, but a
/// corrupt file may claim more.
const MAX_TABLE_BYTES: u64 = 1 << 20;

/// Whether the file at `path` is a 64-bit ELF file with a note whose owner is `owner`.
fn has_note(path: &Path, owner: &str) -> std::io::Result<bool> {
    let mut file = File::open(path)?;
    let mut header = [0u8; 64];
    file.read_exact(&mut header)?;
    // The magic number, followed by class 2, which stands for 64 bits.
    if header[..5] != *b"\x7fELF\x02" {
        return Ok(false);
    }
    let u16_at = |offset| u64::from(u16::from_ne_bytes(bytes_at(&header, offset)));
    let u64_at = |bytes: &[u8], offset| u64::from_ne_bytes(bytes_at(bytes, offset));
    let entry_bytes = u16_at(54);
    let table = read_section(&mut file, u64_at(&header, 32), entry_bytes * u16_at(56))?;
    for entry in table.chunks_exact((entry_bytes as usize).max(1)) {
        if entry.len() < 56 || read_u32(entry, 0) != PT_NOTE {
            continue;
        }
        let notes = read_section(&mut file, u64_at(entry, 8), u64_at(entry, 32))?;
        if note_owners(&notes).any(|note_owner| note_owner == owner.as_bytes()) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn read_section(file: &mut File, offset: u64, bytes: u64) -> std::io::Result<Vec<u8>> {
    let mut content = Vec::new();
    file.seek(SeekFrom::Start(offset))?;
    file.take(bytes.min(MAX_TABLE_BYTES)).read_to_end(&mut content)?;
    Ok(content)
}

/// Returns the owners of all notes, without the final NUL.
fn note_owners(notes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let padded = |bytes: u32| (bytes as usize).div_ceil(4) * 4;
    let mut remaining = notes;
    std::iter::from_fn(move || {
        let name_bytes = (remaining.len() >= 12).then(|| read_u32(remaining, 0))?;
        let end = 12 + padded(name_bytes) + padded(read_u32(remaining, 4));
        let name = remaining.get(12..12 + name_bytes as usize)?;
        remaining = remaining.get(end..).unwrap_or_default();
        Some(name.strip_suffix(b"\0").unwrap_or(name))
    })
}

fn read_u32(bytes: &[u8], offset: usize) -> u32 {
    u32::from_ne_bytes(bytes_at(bytes, offset))
}

fn bytes_at<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    let mut found = [0; N];
    found.copy_from_slice(&bytes[offset..offset + N]);
    found
}

/// Default flags of every file. Flags of the file or variant follow these and take precedence.
const DEFAULT_FLAGS: [&str; 3] = ["-std=c++17", "-O2", "-pthread"];

/// Prefix of a comment line with flags that a file needs.
const FLAGS_PREFIX: &str = "// speedwell: flags ";

/// Harness for C++ source files.
pub struct CppHarness;

impl LanguageHarness for CppHarness {
    fn describe_source(&self, request: &DescribeRequest) -> DescribeResult {
        let DescribeRequest { source, program, variant, .. } = request;
        let (built, _) = build_benchmark(source, program, variant, RunLayout::default())?;
        let mut plain = plain_command(&built, source);
        plain.environment = variant.environment.clone();
        let spec = with_channel(plain.clone());
        describe_file(request, &spec, &plain.args(["--list"]), &request.draft_job())
    }

    fn perform_job(&self, setting: &RunContext<'_>) -> Result<RunOutcome, HarnessFailure> {
        let (built, linking) = build_for_run(setting)?;
        let mut attempt = perform_program(setting, plain_command(&built, &setting.job.source))
            .unwrap_or_else(|failure| RunOutcome::from_failure(failure, setting));
        // The linked program no longer exists when a user reads the failure.
        if let (Some(linking), Some(failure)) = (&linking, &mut attempt.failure) {
            failure.replay = format!("{} && {}", linking.link_command, failure.replay);
        }
        Ok(attempt.with_linking(linking))
    }

    fn prepare_job(&self, setting: &RunContext<'_>) {
        let _ = build_for_run(setting);
    }
}

fn build_for_run(setting: &RunContext<'_>) -> Result<LinkedProgram, HarnessFailure> {
    build_benchmark(&setting.job.source, &setting.program, setting.variant, setting.layout)
}

/// Builds the program of `source` under `variant`. The harness takes far longer to compile than
/// most benchmarks. It therefore becomes a separate object, which other benchmark files and later
/// versions of this file reuse.
fn build_benchmark(
    source: &BenchmarkSource,
    compiler: &Path,
    variant: &Variant,
    layout: RunLayout,
) -> Result<LinkedProgram, HarnessFailure> {
    let header = sources::CPP.folder()?;
    let default_flags = DEFAULT_FLAGS.map(str::to_owned).into_iter();
    // In `CXX='ccache g++'`, the words after the first are arguments of every compiler call.
    let compiler_words = variable_words("CXX", &[]).into_iter().skip(1);
    let mut flags: Vec<String> = match variant.program {
        Some(_) => default_flags.collect(),
        None => compiler_words.chain(default_flags).collect(),
    };
    flags.extend(variable_words("CXXFLAGS", &variant.environment));
    flags.extend(read_flags(&source.file));
    flags.extend(variant.arguments.iter().cloned());
    flags.extend(layout.compiler_flags());
    let harness = BuildRecipe {
        compiler: compiler.to_owned(),
        flags: [&flags[..], &["-c".to_owned()]].concat(),
        file: header.join("main.cpp"),
        directory: header.clone(),
        header,
        environment: variant.environment.clone(),
    };
    let main = compile::build_program(&harness)?;
    let mut benchmark_flags = [&flags[..], &["-DSPEEDWELL_NO_MAIN".to_owned()]].concat();
    benchmark_flags.push(match layout.build {
        Some(_) => "-c".to_owned(),
        None => main.to_string_lossy().into_owned(),
    });
    let recipe = BuildRecipe {
        flags: benchmark_flags,
        file: source.file.clone(),
        directory: source.directory.clone(),
        ..harness
    };
    let built = compile::build_program(&recipe)?;
    let objects = ObjectFiles { recipe: &recipe, files: vec![built, main], flags: &flags };
    objects.program_of(layout.build)
}

/// Returns the flags that a file requests in its comments.
fn read_flags(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.trim().strip_prefix(FLAGS_PREFIX));
    lines.flat_map(|words| shell_words::split(words).unwrap_or_default()).collect()
}

/// Harness for Python files.
pub struct PythonHarness;

impl LanguageHarness for PythonHarness {
    fn describe_source(&self, request: &DescribeRequest) -> DescribeResult {
        let DescribeRequest { source, program, variant, .. } = request;
        let (spec, plain) = build_commands(source, program, variant)?;
        describe_file(request, &spec, &plain.args(["--list"]), &request.draft_job())
    }

    fn perform_job(&self, setting: &RunContext<'_>) -> Result<RunOutcome, HarnessFailure> {
        let job = setting.job;
        let (mut spec, mut plain) = build_commands(&job.source, &setting.program, setting.variant)?;
        spec.limit = setting.limit();
        spec.pin = setting.pin.cloned();
        plain.limit = setting.limit();
        perform_case(setting, &spec, &plain.args(case_arguments(job)))
    }
}

/// Builds the process of the harness, and the command with which a user would start the file. That
/// command finds the package `speedwell` through `PYTHONPATH`.
fn build_commands(
    source: &BenchmarkSource,
    program: &Path,
    variant: &Variant,
) -> Result<(ProcessSpec, ProcessSpec), HarnessFailure> {
    let folder = sources::PYTHON.folder()?;
    let mut command = plain_command(program, source).args(&variant.arguments);
    command.environment = variant.environment.clone();
    let plain = command
        .clone()
        .args(["-m", "speedwell", &source.file.to_string_lossy()])
        .env("PYTHONPATH", python_path(&folder, variant));
    let spec = command.args([folder.join("harness.py").to_string_lossy()]);
    Ok((with_channel(spec), plain))
}

/// Appends `folder`, which contains the package `speedwell`, to the variant's search path.
fn python_path(folder: &Path, variant: &Variant) -> String {
    let search_path = variant.environment.iter().find(|(name, _)| name == "PYTHONPATH");
    let shown = folder.display();
    search_path.map_or_else(|| shown.to_string(), |(_, path)| format!("{path}:{shown}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_programs_have_the_notes_of_their_linker() {
        let own = std::env::current_exe().unwrap();
        assert!(has_note(&own, "GNU").unwrap(), "linkers write a build id or an ABI note");
        assert!(!has_note(&own, "Speedwell").unwrap());
    }

    #[test]
    fn other_files_have_no_notes() {
        let folder = tempfile::tempdir().unwrap();
        let whole = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let mut wild = whole[..64].to_vec();
        wild[32..40].fill(0xff);
        wild[54..58].fill(0xff);
        for content in [&b""[..], b"#!/bin/sh\n", &whole[..100], &wild] {
            let file = folder.path().join("x");
            std::fs::write(&file, content).unwrap();
            assert!(!has_note(&file, "GNU").unwrap_or(false));
        }
        assert!(!has_note(folder.path(), "GNU").unwrap_or(false));
        assert!(!is_harness(Path::new("/nonexistent")));
    }

    #[test]
    fn reading_stops_at_a_broken_note() {
        let note =
            |name: &[u8]| [&[name.len() as u8, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0], name].concat();
        let mut notes = note(b"GNU\0");
        notes.extend([0; 4]);
        notes.extend(note(b"Speedwel"));
        assert_eq!(note_owners(&notes).collect::<Vec<_>>(), [&b"GNU"[..], b"Speedwel"]);
        assert_eq!(note_owners(&[0xff; 40]).count(), 0);
        assert_eq!(note_owners(&[0; 11]).count(), 0);
    }
}
