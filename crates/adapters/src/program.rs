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

use crate::compile::{self, BuildRecipe, CompileFailure, unpack_harness, variable_words};
use crate::counting::{CountingInputs, perform_counted};
use crate::job::{
    BenchmarkDescription, BenchmarkJob, BenchmarkSource, DescribeRequest, RunContext,
};
use crate::layout::{LinkRecord, ObjectFiles, RunLayout};
use crate::reported_values::invalid_cause;
use crate::run_outcome::{self, LoopOwner, describe_file, description_failure, perform_case};
use crate::snippet::default_program as default_compiler;
use crate::wire::EventLog;
use crate::{LanguageHarness, RunOutcome, sources};
use speedwell_machine::process::{ChannelKind, ProcessSpec};
use speedwell_model::{FailureCause, SampleDivision, SnippetLanguage, Variant};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Owner of the note that `speedwell.hpp` adds to every program.
const NOTE_OWNER: &str = "Speedwell";

/// Harness for prebuilt programs.
pub struct ProgramHarness;

/// Whether the file is a program that speaks the protocol. Reads the file without executing it.
pub fn is_harness(file: &Path) -> bool {
    has_note(file, NOTE_OWNER)
}

impl LanguageHarness for ProgramHarness {
    fn describe_source(&self, request: &DescribeRequest) -> BenchmarkDescription {
        let source = &request.source;
        let plain = plain_command(&request.program, source).args(request.variant.arguments.clone());
        if let Some(cause) = refuse_program(&request.program) {
            return description_failure(source, cause, &plain, None);
        }
        let spec = with_channel(ProcessSpec {
            environment: request.variant.environment.clone(),
            ..plain.clone()
        });
        let listing = plain.args(["--list"]);
        describe_file(request, &spec, &listing, &request.draft_job())
    }

    fn perform_job(&self, job: &BenchmarkJob, setting: &RunContext<'_>) -> RunOutcome {
        let mut plain = plain_command(&setting.program, &job.source);
        plain.arguments = setting.variant.arguments.clone();
        if let Some(cause) = refuse_program(&setting.program) {
            return RunOutcome::unsupported(&plain, &cause.to_string(), job, setting);
        }
        perform_program(job, setting, plain)
    }

    fn default_program(&self, source: &BenchmarkSource) -> PathBuf {
        source.file.clone()
    }

    fn divides_runs(&self) -> bool {
        true
    }
}

/// Performs one case with the program that the command `plain` starts, in the variant's
/// environment.
fn perform_program(
    job: &BenchmarkJob,
    setting: &RunContext<'_>,
    mut plain: ProcessSpec,
) -> RunOutcome {
    plain.environment = setting.variant.environment.clone();
    plain.limit = setting.limit();
    let spec = ProcessSpec { pin: setting.pin.cloned(), ..with_channel(plain.clone()) };
    plain.arguments.extend(case_arguments(job));
    let Some(counting) = setting.counting else {
        return perform_case(job, setting, &spec, &plain, LoopOwner::Harness);
    };
    perform_counted(&CountingInputs {
        job,
        setting,
        counting,
        spec: &spec,
        plain: &plain,
        commands: &|samples: &SampleDivision| {
            let run = run_outcome::samples_message(samples, false);
            EventLog::new([run_outcome::load_message(job, setting), run])
        },
        observe: &|events: &EventLog| run_outcome::observe_case(job, events),
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

fn refuse_program(program: &Path) -> Option<FailureCause> {
    let shown = program.display();
    (!is_harness(program)).then(|| {
        invalid_cause(format!("'{shown}' was not built with speedwell.hpp, so it is not started"))
    })
}

/// Type of a program header that points to notes.
const PT_NOTE: u32 = 4;

/// Maximum size of a table or of notes. Tables and notes in real programs are smaller, but a
/// corrupt file may claim more.
const MAX_TABLE_BYTES: u64 = 1 << 20;

/// Whether the file at `path` is a 64-bit ELF file with a note whose owner is `owner`.
fn has_note(path: &Path, owner: &str) -> bool {
    find_note(path, owner).unwrap_or(false)
}

fn find_note(path: &Path, owner: &str) -> std::io::Result<bool> {
    let mut file = File::open(path)?;
    let mut header = [0u8; 64];
    file.read_exact(&mut header)?;
    // The magic number, followed by class 2, which stands for 64 bits.
    if header[..5] != *b"\x7fELF\x02" {
        return Ok(false);
    }
    let entry_bytes = u64::from(read_u16(&header, 54));
    let table_bytes = entry_bytes * u64::from(read_u16(&header, 56));
    let table = read_section(&mut file, read_u64(&header, 32), table_bytes)?;
    for entry in table.chunks_exact((entry_bytes as usize).max(1)) {
        if entry.len() < 56 || read_u32(entry, 0) != PT_NOTE {
            continue;
        }
        let notes = read_section(&mut file, read_u64(entry, 8), read_u64(entry, 32))?;
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

fn read_u16(bytes: &[u8], offset: usize) -> u16 {
    u16::from_ne_bytes([bytes[offset], bytes[offset + 1]])
}

fn read_u32(bytes: &[u8], offset: usize) -> u32 {
    let mut buffer = [0; 4];
    buffer.copy_from_slice(&bytes[offset..offset + 4]);
    u32::from_ne_bytes(buffer)
}

fn read_u64(bytes: &[u8], offset: usize) -> u64 {
    let mut buffer = [0; 8];
    buffer.copy_from_slice(&bytes[offset..offset + 8]);
    u64::from_ne_bytes(buffer)
}

/// Default flags of every file. Flags of the file or variant follow these and take precedence.
const DEFAULT_FLAGS: [&str; 3] = ["-std=c++17", "-O2", "-pthread"];

/// Prefix of a comment line with flags that a file needs.
const FLAGS_PREFIX: &str = "// speedwell: flags ";

/// Harness for C++ source files.
pub struct CppHarness;

impl LanguageHarness for CppHarness {
    fn describe_source(&self, request: &DescribeRequest) -> BenchmarkDescription {
        let source = &request.source;
        match build_benchmark(source, &request.program, &request.variant, RunLayout::default()) {
            Ok((built, _)) => {
                let mut plain = plain_command(&built, source);
                plain.environment = request.variant.environment.clone();
                let spec = with_channel(plain.clone());
                let listing = plain.args(["--list"]);
                describe_file(request, &spec, &listing, &request.draft_job())
            }
            Err(compile_failure) => compile_failure.into_description(source),
        }
    }

    fn perform_job(&self, job: &BenchmarkJob, setting: &RunContext<'_>) -> RunOutcome {
        match build_benchmark(&job.source, &setting.program, setting.variant, setting.layout) {
            Ok((built, linking)) => {
                let plain = plain_command(&built, &job.source);
                let mut attempt = perform_program(job, setting, plain);
                // The linked program no longer exists when a user reads the failure.
                if let (Some(linking), Some(failure)) = (&linking, &mut attempt.failure) {
                    failure.replay = format!("{} && {}", linking.link_command, failure.replay);
                }
                attempt.with_linking(linking)
            }
            Err(compile_failure) => compile_failure.into_outcome(job, setting),
        }
    }

    fn prepare_job(&self, job: &BenchmarkJob, setting: &RunContext<'_>) {
        let _ = build_benchmark(&job.source, &setting.program, setting.variant, setting.layout);
    }

    fn default_program(&self, _source: &BenchmarkSource) -> PathBuf {
        default_compiler(SnippetLanguage::Cpp)
    }

    fn divides_runs(&self) -> bool {
        true
    }
}

/// Builds the program of `source` under `variant`. The harness takes far longer to compile than
/// most benchmarks. It therefore becomes a separate object, which other benchmark files and later
/// versions of this file reuse.
fn build_benchmark(
    source: &BenchmarkSource,
    compiler: &Path,
    variant: &Variant,
    layout: RunLayout,
) -> Result<(PathBuf, Option<LinkRecord>), CompileFailure> {
    let header = unpack_harness(&sources::CPP)?;
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
    fn describe_source(&self, request: &DescribeRequest) -> BenchmarkDescription {
        let source = &request.source;
        let (spec, mut plain) = match build_commands(source, &request.program, &request.variant) {
            Ok(specs) => specs,
            Err(cause) => {
                let spec = ProcessSpec::new(&request.program);
                return description_failure(source, cause, &spec, None);
            }
        };
        plain.arguments.push("--list".into());
        describe_file(request, &spec, &plain, &request.draft_job())
    }

    fn perform_job(&self, job: &BenchmarkJob, setting: &RunContext<'_>) -> RunOutcome {
        let (mut spec, mut plain) =
            match build_commands(&job.source, &setting.program, setting.variant) {
                Ok(specs) => specs,
                Err(cause) => {
                    let spec = ProcessSpec::new(&setting.program);
                    return RunOutcome::unsupported(&spec, &cause.to_string(), job, setting);
                }
            };
        spec.limit = setting.limit();
        spec.pin = setting.pin.cloned();
        plain.limit = setting.limit();
        plain.arguments.extend(case_arguments(job));
        perform_case(job, setting, &spec, &plain, LoopOwner::Harness)
    }

    fn default_program(&self, _source: &BenchmarkSource) -> PathBuf {
        PathBuf::from("python3")
    }

    fn divides_runs(&self) -> bool {
        true
    }
}

/// Builds the process of the harness, and the command with which a user would start the file. That
/// command finds the package `speedwell` through `PYTHONPATH`.
fn build_commands(
    source: &BenchmarkSource,
    program: &Path,
    variant: &Variant,
) -> Result<(ProcessSpec, ProcessSpec), FailureCause> {
    let folder = sources::PYTHON.folder()?;
    let file = |path: &Path| path.to_string_lossy().into_owned();
    let mut spec = ProcessSpec::new(program).args(variant.arguments.clone());
    spec.environment = variant.environment.clone();
    spec.directory = Some(source.directory.clone());
    let plain = spec
        .clone()
        .args(["-m".into(), "speedwell".into(), file(&source.file)])
        .env("PYTHONPATH", python_path(&folder, variant));
    spec = spec.args([file(&folder.join("harness.py"))]);
    spec.channel = ChannelKind::Harness;
    Ok((spec, plain))
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
        assert!(has_note(&own, "GNU"), "linkers write a build id or an ABI note");
        assert!(!has_note(&own, "Speedwell"));
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
            assert!(!has_note(&file, "GNU"));
        }
        assert!(!has_note(folder.path(), "GNU"));
        assert!(!has_note(Path::new("/nonexistent"), "GNU"));
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
