//! `speedwell import`: reads results of other tools, or exported results, into the store.

use crate::options::{OriginArgs, OutputArgs, StoreArgs, hide_unused};
use crate::source::{self, FileWarnings};
use crate::{CommandStatus, status};
use anyhow::{Context, ensure};
use clap::Args;
use speedwell_adapters::discover::BenchmarkSelection;
use speedwell_analysis::validity::{self, KnownFacts, ValidityCheck};
use speedwell_formats::MetricDirections;
use speedwell_model::{OriginSource, ParameterValue, Run, Session, StepFailure};
use speedwell_report::{self as report, Document, ReportBlock};
use speedwell_store::Store;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

/// Import results of other tools, or exported sessions, into the store
///
/// The format of a file is detected from its content: Speedwell JSON lines, CSV of Node core's run.js, compare.js or
/// scatter.js, JSON of 'speedwell load', google/benchmark, hyperfine, Krun, pyperf, pytest-benchmark, vitest, JMH,
/// criterion, autocannon or oha, Bencher Metric Format, XML of Catch2, text of go test -bench, cargo bench, ab, wrk,
/// h2load, hey or oha, HdrHistogram logs, and tables of numbers in Markdown. Files with results of several revisions
/// become one session per revision: a folder of asv results, data.js of github-action-benchmark, JSON of bencher, CSV
/// with the columns time and commit. Stored results are not added again. Implausible values are reported. '--set
/// connections=100 --set pipelining=10' adds these parameters to all cases of a file that lacks them; '--set
/// better=less' states that lower values are better.
#[derive(Debug, Args)]
#[command(mut_args(|arg| hide_unused(arg, "chart unit sort no_progress")))]
pub struct ImportArgs {
    /// Files or folders to read; '-' is stdin
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Set a parameter to this value (repeatable)
    ///
    /// The value applies to all cases.
    #[arg(short = 's', long = "set", value_name = "NAME=V")]
    set: Vec<String>,
    /// Variant that does more work than the baseline (repeatable)
    ///
    /// It cannot be better, so results that say otherwise are reported.
    #[arg(long, value_name = "VARIANT")]
    never_better: Vec<String>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    origin: OriginArgs,
}

/// Imports the files.
///
/// # Errors
/// Fails if a file cannot be read or parsed. Nothing is stored then. A file without values is
/// stored, and a warning and the exit status report the problem.
pub fn run(args: ImportArgs) -> anyhow::Result<CommandStatus> {
    let (values, better) = args.parse_settings()?;
    let mut files = Vec::new();
    let mut warnings = FileWarnings::default();
    for file in &args.files {
        let sessions = source::read_file_or_folder(file, &better, &mut warnings)?;
        args.check_revisions(file, &sessions)?;
        files.push((file.display().to_string(), sessions));
    }
    warnings.print_warnings();
    let facts = KnownFacts { never_better: args.never_better.clone(), ..KnownFacts::default() };
    let mut store = args.store.open_store()?;
    let mut document = Document::new("validity");
    let mut status = CommandStatus::DONE;
    for (label, sessions) in files {
        let mut summary = ImportSummary::default();
        for mut session in sessions {
            speedwell_formats::set_parameters(&mut session, &values);
            session.tags.extend(args.store.tag.iter().cloned());
            args.origin.apply_to(&mut session);
            let Some(number) = summary.import_session(&mut store, &mut session)? else { continue };
            let mut findings = validity::check_session(&session, &facts);
            if has_revision_from_file(&session) {
                // A file with many revisions often has a single run of each revision. Differences
                // between neighboring points then show the noise.
                findings.retain(|finding| finding.check != ValidityCheck::SingleRuns);
            }
            if !findings.is_empty() {
                document.push(ReportBlock::Heading { level: 3, text: format!("@{number}") });
                document.append_document(report::report_validity(&findings));
            }
        }
        summary.report_import(&label, args.output.quiet);
        if summary.has_nothing() {
            status::print_warning(&format!(
                "'{label}': no result has a value: {} failed, {} skipped.",
                summary.failed, summary.skipped
            ));
            status = CommandStatus::FAILED;
        }
    }
    // Print a document without findings only if the user requested an output.
    let is_output_requested =
        args.output.output_format().is_some() || !args.output.output.is_empty();
    if !document.blocks.is_empty() || is_output_requested {
        args.output.print_document(&document)?;
    }
    Ok(status)
}

impl ImportArgs {
    /// Parses `--set` into parameter values for all cases, and directions of metrics.
    fn parse_settings(&self) -> anyhow::Result<(Vec<(String, ParameterValue)>, MetricDirections)> {
        let mut values = Vec::new();
        let mut better = MetricDirections::default();
        for text in &self.set {
            let (name, value) = text
                .split_once('=')
                .filter(|(name, _)| !name.is_empty())
                .with_context(|| format!("in --set: cannot parse '{text}': expected NAME=VALUE"))?;
            if !better.set_direction(name, value).with_context(|| format!("in --set '{text}'"))? {
                let value = ParameterValue::infer_value(&BenchmarkSelection::expand_number(value));
                values.push((name.to_owned(), value));
            }
        }
        Ok((values, better))
    }

    /// Rejects `--revision` for a file that contains several revisions.
    fn check_revisions(&self, file: &Path, sessions: &[Session]) -> anyhow::Result<()> {
        let revision_count =
            sessions.iter().filter(|session| has_revision_from_file(session)).count();
        ensure!(
            revision_count < 2 || self.origin.revision.is_none(),
            "'{}' contains {revision_count} sessions with their own revisions, which --revision would merge\n\
             hint: leave out --revision; --branch sets their branch",
            file.display()
        );
        Ok(())
    }
}

/// Whether the revision of a session comes from the file itself, as in files with many revisions.
fn has_revision_from_file(session: &Session) -> bool {
    let origin = session.origin.as_ref();
    origin.is_some_and(|origin| origin.source == OriginSource::File)
}

/// Totals of importing a file.
#[derive(Default)]
pub(super) struct ImportSummary {
    /// Numbers of the sessions that were added.
    numbers: Vec<i64>,
    cases: HashSet<String>,
    points: usize,
    runs: usize,
    variants: usize,
    skipped: usize,
    failed: usize,
    /// Number of sessions whose results were all in the store.
    known_sessions: usize,
    /// Whether the preferred direction of a metric differs between the file and a stored session.
    differs: bool,
}

impl ImportSummary {
    /// Removes the part of `session` that is in the store, and stores the rest. Returns the number
    /// of the new session, or `None` if nothing is left.
    pub(super) fn import_session(
        &mut self,
        store: &mut Store,
        session: &mut Session,
    ) -> anyhow::Result<Option<i64>> {
        let base_id = session.id.clone();
        for part in 0.. {
            session.id = speedwell_formats::part_id(&base_id, part);
            let Some(number) = store.find_by_id(&session.id)? else {
                let number = store.insert_session(session)?;
                self.count_session(number, session);
                return Ok(Some(number));
            };
            let stored = store.load_session(number)?;
            self.differs |= stored.metrics.iter().any(|metric| {
                let current = session.metric(&metric.name);
                current.is_some_and(|current| current.better != metric.better)
            });
            remove_known_runs(session, &stored);
            if session.runs.is_empty() && session.failures.is_empty() {
                break;
            }
        }
        self.known_sessions += 1;
        Ok(None)
    }

    /// Whether the file yielded no run in this import or in an earlier import.
    fn has_nothing(&self) -> bool {
        self.runs == 0 && self.known_sessions == 0
    }

    fn count_session(&mut self, number: i64, session: &Session) {
        self.numbers.push(number);
        let points: HashSet<(String, &str)> = (session.runs.iter())
            .flat_map(|run| {
                let case = run.case.id();
                run.samples.iter().map(move |sample| (case.clone(), &*sample.metric))
            })
            .collect();
        self.points += points.len();
        let failed_cases = session.failures.iter().filter_map(|failure| failure.case.clone());
        self.cases.extend(session.runs.iter().map(|run| run.case.id()));
        self.cases.extend(failed_cases);
        self.runs += session.runs.len();
        self.variants = session.variants.len();
        let skipped = session.failures.iter().filter(|failure| failure.cause.is_skip()).count();
        self.skipped += skipped;
        self.failed += session.failures.len() - skipped;
    }

    /// Prints the totals to stderr.
    pub(super) fn report_import(&self, label: &str, is_quiet: bool) {
        if self.differs {
            status::print_warning(&format!(
                "'{label}': the preferred direction of a metric differs in sessions that are already in the store; \
                 they are not changed."
            ));
        }
        if is_quiet {
            return;
        }
        match self.numbers[..] {
            [] => {}
            [number] => status::print_note(&format!(
                "@{number}: {} of {}",
                report::format_count(self.runs, "run", "runs"),
                report::format_count(self.variants, "variant", "variants")
            )),
            [first, .., last] => status::print_note(&format!(
                "'{label}': {} sessions (@{first} to @{last}), {}, {}, {} skipped, {} failed",
                self.numbers.len(),
                report::format_count(self.cases.len(), "case", "cases"),
                report::format_count(self.points, "point", "points"),
                self.skipped,
                self.failed
            )),
        }
        if self.known_sessions > 0 {
            let sessions = report::format_count(self.known_sessions, "session", "sessions");
            status::print_note(&format!("'{label}': already in the store: {sessions}"));
        }
    }
}

/// Removes from `session` the runs and failures that are also in `stored`.
fn remove_known_runs(session: &mut Session, stored: &Session) {
    let run_key = |run: &Run| format!("{} {:?}", run.case.id(), run.samples);
    let mut stored_counts: HashMap<String, usize> = HashMap::new();
    for run in &stored.runs {
        *stored_counts.entry(run_key(run)).or_default() += 1;
    }
    session.runs.retain(|run| {
        let remaining = stored_counts.get_mut(&run_key(run)).filter(|remaining| **remaining > 0);
        remaining.map(|remaining| *remaining -= 1).is_none()
    });
    session.failures.retain(|failure| {
        let is_same =
            |other: &StepFailure| other.case == failure.case && other.cause == failure.cause;
        !stored.failures.iter().any(is_same)
    });
}
