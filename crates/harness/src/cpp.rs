//! C++ source files that use our header: compiled, then driven over the harness protocol.
//!
//! A variant's program is the compiler and its arguments are flags, so that one command compares
//! two builds of one source. `compile.rs` decides when to recompile.

use super::compile::{self, Failed, Recipe, unpacked, words_of};
use super::job::{Description, Job, Request, Setting, Source};
use super::layout::{Linking, Objects, RunLayout};
use super::protocol::{self, draft};
use super::snippet::usual_program as usual_compiler;
use super::{Attempt, Harness, program, sources};
use speedwell_model::{Language, Variant};
use std::path::{Path, PathBuf};

/// Default flags of every file; flags of the file or variant follow and win.
const USUAL_FLAGS: [&str; 3] = ["-std=c++17", "-O2", "-pthread"];

/// Prefix of a comment line with flags that a file needs.
const COMMENT: &str = "// speedwell: flags ";

/// Harness for C++ source files.
pub struct Cpp;

impl Harness for Cpp {
    fn describe(&self, source: &Source, request: &Request) -> Description {
        match build(
            source,
            &request.program,
            &request.variant,
            RunLayout::default(),
        ) {
            Ok((built, _)) => {
                let mut plain = program::plain(&built, source);
                plain.environment = request.variant.environment.clone();
                let spec = program::speaking(plain.clone());
                let plain = plain.args(["--list"]);
                protocol::describe(source, request, &spec, &plain, &draft(source, request))
            }
            Err(failed) => Description {
                failure: Some(failed.failure(source, None)),
                ..Description::default()
            },
        }
    }

    fn perform(&self, job: &Job, setting: &Setting<'_>) -> Attempt {
        match build(
            &job.source,
            &setting.program,
            setting.variant,
            setting.layout,
        ) {
            Ok((built, linking)) => {
                let plain = program::plain(&built, &job.source);
                let mut attempt = program::perform(job, setting, plain);
                // The linked program no longer exists when a user reads the failure.
                if let (Some(linking), Some(failure)) = (&linking, &mut attempt.failure) {
                    failure.replay = linking.before(&failure.replay);
                }
                attempt.linked(linking)
            }
            Err(failed) => Attempt {
                interrupted: failed.interrupted,
                failure: Some(failed.failure(&job.source, Some((job, setting)))),
                ..Attempt::default()
            },
        }
    }

    fn prepare(&self, job: &Job, setting: &Setting<'_>) {
        let _ = build(
            &job.source,
            &setting.program,
            setting.variant,
            setting.layout,
        );
    }

    fn usual_program(&self, _source: &Source) -> PathBuf {
        usual_compiler(Language::Cpp)
    }

    fn divides_runs(&self) -> bool {
        true
    }
}

/// Builds the program of `source` under `variant`. The harness takes far longer to compile than
/// most benchmarks, so it is a separate object, shared by other files and later edits.
fn build(
    source: &Source,
    compiler: &Path,
    variant: &Variant,
    layout: RunLayout,
) -> Result<(PathBuf, Option<Linking>), Failed> {
    let header = unpacked(&sources::CPP)?;
    let usual = USUAL_FLAGS.map(str::to_owned).into_iter();
    // `CXX='ccache g++'`: words after the first belong to every call.
    let of_variable = words_of("CXX", &[]).into_iter().skip(1);
    let mut flags: Vec<String> = match variant.program {
        Some(_) => usual.collect(),
        None => of_variable.chain(usual).collect(),
    };
    flags.extend(words_of("CXXFLAGS", &variant.environment));
    flags.extend(flags_of(&source.file));
    flags.extend(variant.arguments.iter().cloned());
    flags.extend(layout.flags());
    let harness = Recipe {
        compiler: compiler.to_owned(),
        flags: [&flags[..], &["-c".to_owned()]].concat(),
        file: header.join("main.cpp"),
        directory: header.clone(),
        header,
        environment: variant.environment.clone(),
    };
    let main = compile::build(&harness)?;
    let mut own = [&flags[..], &["-DSPEEDWELL_NO_MAIN".to_owned()]].concat();
    own.push(match layout.build {
        Some(_) => "-c".to_owned(),
        None => main.to_string_lossy().into_owned(),
    });
    let built = compile::build(&Recipe {
        flags: own,
        file: source.file.clone(),
        directory: source.directory.clone(),
        ..harness
    })?;
    let objects = Objects {
        compiler,
        files: vec![built.clone(), main],
        flags: &flags,
        directory: &source.directory,
        environment: &variant.environment,
    };
    objects.program_of(layout.build, built)
}

/// Flags in the comments of a file.
fn flags_of(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let lines = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix(COMMENT));
    lines
        .flat_map(|words| shell_words::split(words).unwrap_or_default())
        .collect()
}
