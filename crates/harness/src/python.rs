//! Python files that use our package, driven over the harness protocol.

use super::attempt::not_described;
use super::job::{Description, Job, Request, Setting, Source};
use super::protocol::{self, Loop, draft};
use super::{Attempt, Harness, program, sources};
use speedwell_model::{Cause, Variant};
use speedwell_process::{Channel, Spec};
use std::path::{Path, PathBuf};

/// Harness for Python files.
pub struct Python;

impl Harness for Python {
    fn describe(&self, source: &Source, request: &Request) -> Description {
        let (spec, mut plain) = match specs(source, &request.program, &request.variant) {
            Ok(specs) => specs,
            Err(cause) => return not_described(source, cause, &Spec::new(&request.program), None),
        };
        plain.arguments.push("--list".into());
        protocol::describe(source, request, &spec, &plain, &draft(source, request))
    }

    fn perform(&self, job: &Job, setting: &Setting<'_>) -> Attempt {
        let (mut spec, mut plain) = match specs(&job.source, &setting.program, setting.variant) {
            Ok(specs) => specs,
            Err(cause) => {
                let spec = Spec::new(&setting.program);
                return Attempt::refused(&spec, &cause.to_string(), job, setting);
            }
        };
        spec.limit = setting.limit;
        spec.pin = setting.pin.cloned();
        plain.limit = setting.limit;
        plain.arguments.extend(program::case_arguments(job));
        protocol::perform(job, setting, &spec, &plain, Loop::OfTheHarness)
    }

    fn usual_program(&self, _source: &Source) -> PathBuf {
        PathBuf::from("python3")
    }

    fn divides_runs(&self) -> bool {
        true
    }
}

/// Builds the process of the harness, and the command by which a user starts the file, which finds
/// the package through a variable.
fn specs(source: &Source, program: &Path, variant: &Variant) -> Result<(Spec, Spec), Cause> {
    let folder = sources::PYTHON.folder()?;
    let file = |path: &Path| path.to_string_lossy().into_owned();
    let mut spec = Spec::new(program).args(variant.arguments.clone());
    spec.environment = variant.environment.clone();
    spec.directory = Some(source.directory.clone());
    let plain = spec.clone();
    let plain = plain.args(["-m".into(), "speedwell".into(), file(&source.file)]);
    let plain = plain.env("PYTHONPATH", python_path(&folder, variant));
    spec = spec.args([file(&folder.join("harness.py"))]);
    spec.channel = Channel::Harness;
    Ok((spec, plain))
}

/// Appends our folder to the variant's search path.
fn python_path(folder: &Path, variant: &Variant) -> String {
    let own = variant
        .environment
        .iter()
        .find(|(name, _)| name == "PYTHONPATH");
    let folder = folder.display();
    match own {
        Some((_, path)) => format!("{path}:{folder}"),
        None => folder.to_string(),
    }
}
