//! Chooses by the kind of a benchmark file which harness lists and performs its cases
//! ([`harness_for`]), and which program that harness starts ([`resolve_program_for`]).

use crate::job::{BenchmarkSource, RunContext, SourceKind};
use crate::{LanguageHarness, RunOutcome, experiment, fake, node, program, snippet, suites};
use speedwell_model::{SnippetLanguage, Variant};
use std::path::PathBuf;

/// Returns the program that performs the cases of a file under a variant.
pub fn resolve_program_for(source: &BenchmarkSource, variant: &Variant) -> PathBuf {
    variant.program.clone().unwrap_or_else(|| default_program(&source.under(variant)))
}

/// Returns the program to start for variants that do not name one.
fn default_program(source: &BenchmarkSource) -> PathBuf {
    let own_file = || source.file.clone();
    match source.kind {
        SourceKind::NodeCore | SourceKind::Node => PathBuf::from("node"),
        SourceKind::Suite => {
            let program = source.adapter().and_then(|adapter| adapter.keys.program.as_ref());
            program.map_or_else(own_file, PathBuf::from)
        }
        SourceKind::Cpp => snippet::default_program(SnippetLanguage::Cpp),
        SourceKind::Program => own_file(),
        SourceKind::Python => PathBuf::from("python3"),
        SourceKind::Load | SourceKind::Experiment => experiment::default_program(source),
        SourceKind::Snippet(language) => snippet::default_program(language),
        SourceKind::Fake => PathBuf::from("true"),
    }
}

/// Whether a variant's program may be queried for its version. A benchmark program might interpret
/// this query as a command to measure.
pub fn has_version(source: &BenchmarkSource) -> bool {
    match source.kind {
        SourceKind::Suite => source.adapter().is_some_and(|adapter| adapter.keys.program.is_some()),
        kind => kind != SourceKind::Snippet(SnippetLanguage::Sh),
    }
}

/// Returns the harness for files of this kind.
pub fn harness_for(kind: SourceKind) -> &'static dyn LanguageHarness {
    match kind {
        SourceKind::NodeCore => &node::core::NodeCoreHarness,
        SourceKind::Node => &node::NodeHarness,
        SourceKind::Suite => &suites::FrameworkHarness,
        SourceKind::Cpp => &program::CppHarness,
        SourceKind::Program => &program::ProgramHarness,
        SourceKind::Python => &program::PythonHarness,
        SourceKind::Load | SourceKind::Experiment => &experiment::ExperimentHarness,
        SourceKind::Snippet(_) => &snippet::SnippetHarness,
        SourceKind::Fake => &fake::FakeHarness,
    }
}

impl RunContext<'_> {
    /// Executes the job in a fresh process, with the files of the variant.
    pub fn perform(&self) -> RunOutcome {
        self.with_own_files(|context| {
            let performed = harness_for(context.job.source.kind).perform_job(context);
            performed.unwrap_or_else(|failure| RunOutcome::from_failure(failure, context))
        })
    }

    /// Builds in advance what [`RunContext::perform`] needs, from the files of the variant.
    pub fn prepare(&self) {
        self.with_own_files(|context| harness_for(context.job.source.kind).prepare_job(context));
    }

    fn with_own_files<T>(&self, act: impl FnOnce(&RunContext<'_>) -> T) -> T {
        let job = self.job.under(self.variant);
        act(&RunContext { job: &job, ..self.clone() })
    }
}
