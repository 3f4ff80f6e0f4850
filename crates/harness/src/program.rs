//! Programs that somebody has built with our C++ header, driven over the harness protocol.
//!
//! A program is only ever started when it says itself, by a note in its file, that it speaks the
//! protocol: nobody's own programs are executed to find out what they are.

use super::elf_note::has_note;
use super::job::{Description, Job, Request, Setting, Source};
use super::protocol::{self, Loop, draft};
use super::{Attempt, Harness};
use speedwell_model::Cause;
use speedwell_process::{Channel, Spec};
use std::path::{Path, PathBuf};

/// The owner of the note that `speedwell.hpp` puts into every program.
const OWNER: &str = "Speedwell";

/// The harness for built programs.
pub struct Program;

/// Whether the file is a program that speaks the protocol. It is read, not executed.
pub fn is_harness(file: &Path) -> bool {
    has_note(file, OWNER)
}

impl Harness for Program {
    fn describe(&self, source: &Source, request: &Request) -> Description {
        let plain = plain(&request.program, source).args(request.variant.arguments.clone());
        if let Some(cause) = refusal(&request.program) {
            return protocol::failed(source, cause, &plain);
        }
        let spec = speaking(Spec {
            environment: request.variant.environment.clone(),
            ..plain.clone()
        });
        let plain = plain.args(["--list"]);
        protocol::describe(source, request, &spec, &plain, &draft(source, request))
    }

    fn perform(&self, job: &Job, setting: &Setting<'_>) -> Attempt {
        let mut plain = plain(&setting.program, &job.source);
        plain.arguments = setting.variant.arguments.clone();
        if let Some(cause) = refusal(&setting.program) {
            return Attempt::refused(&plain, &cause.to_string(), job, setting);
        }
        perform(job, setting, plain)
    }

    fn usual_program(&self, source: &Source) -> PathBuf {
        source.file.clone()
    }

    fn divides_runs(&self) -> bool {
        true
    }
}

/// Performs one case with the program of `plain`, under the variables of the variant.
pub(super) fn perform(job: &Job, setting: &Setting<'_>, mut plain: Spec) -> Attempt {
    plain.environment = setting.variant.environment.clone();
    plain.limit = setting.limit;
    let spec = Spec {
        pin: setting.pin.cloned(),
        ..speaking(plain.clone())
    };
    plain.arguments.extend(words(job));
    protocol::perform(job, setting, &spec, &plain, Loop::OfTheHarness)
}

/// A start of `program` by hand.
pub(super) fn plain(program: &Path, source: &Source) -> Spec {
    let mut spec = Spec::new(program);
    spec.directory = Some(source.directory.clone());
    spec
}

/// The same, with the private line.
pub(super) fn speaking(plain: Spec) -> Spec {
    Spec {
        channel: Channel::Harness,
        ..plain
    }
}

/// The words by which a person chooses the case: the benchmark's own name and its values.
pub(super) fn words(job: &Job) -> Vec<String> {
    let name = job
        .case
        .iter()
        .filter_map(|case| case.benchmark.rsplit('/').next());
    name.map(str::to_owned)
        .chain(job.arguments.iter().cloned())
        .collect()
}

fn refusal(program: &Path) -> Option<Cause> {
    (!is_harness(program)).then(|| Cause::Invalid {
        reason: format!(
            "'{}' was not built with speedwell.hpp, so it is not started",
            program.display()
        ),
    })
}
