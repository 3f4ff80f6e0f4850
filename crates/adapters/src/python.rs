//! Lists and performs the cases of Python files that use the package `speedwell`, over the harness
//! protocol.

use super::job::{
    BenchmarkDescription, BenchmarkJob, BenchmarkSource, DescribeRequest, RunContext,
};
use super::protocol::{self, LoopOwner, draft_job};
use super::run_outcome::description_failure;
use super::{LanguageHarness, RunOutcome, program, sources};
use speedwell_machine::process::{ChannelKind, ProcessSpec};
use speedwell_model::{FailureCause, Variant};
use std::path::{Path, PathBuf};

/// Harness for Python files.
pub struct PythonHarness;

impl LanguageHarness for PythonHarness {
    fn describe_source(
        &self,
        source: &BenchmarkSource,
        request: &DescribeRequest,
    ) -> BenchmarkDescription {
        let (spec, mut plain) = match build_commands(source, &request.program, &request.variant) {
            Ok(specs) => specs,
            Err(cause) => {
                return description_failure(
                    source,
                    cause,
                    &ProcessSpec::new(&request.program),
                    None,
                );
            }
        };
        plain.arguments.push("--list".into());
        protocol::describe_file(source, request, &spec, &plain, &draft_job(source, request))
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
        spec.limit = setting.limit;
        spec.pin = setting.pin.cloned();
        plain.limit = setting.limit;
        plain.arguments.extend(program::case_arguments(job));
        protocol::perform_case(job, setting, &spec, &plain, LoopOwner::Harness)
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
    match search_path {
        Some((_, path)) => format!("{path}:{shown}"),
        None => shown.to_string(),
    }
}
