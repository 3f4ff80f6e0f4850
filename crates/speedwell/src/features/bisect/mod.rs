//! `speedwell bisect`: finds the revision that changed a benchmark.
//!
//! This module handles the options. `analysis::bisect` chooses the revisions, and `measure.rs`
//! measures them. Start at [`run`].

pub mod measure;

use crate::features::confirm::{self, revision_variant};
use crate::options::{
    MachineArgs, OriginArgs, RevisionMeasuringArgs, RevisionProgramArgs, StoreArgs, hide_unused,
    parse,
};
use crate::progress::ProgressDisplay;
use crate::{CommandStatus, status};
use anyhow::{Context, ensure};
use clap::Args;
use speedwell_analysis::AnalysisFindings;
use speedwell_analysis::bisect::{self as analysis, BisectFindings, EndsComparison};
use speedwell_engine::{
    EventListener, ExecutionArgs, MeasureRequest, PlanRequest, PreparedPlan, SamplingRequest,
    SessionRequest,
};
use speedwell_machine::process;
use speedwell_model::{BisectionRange, Session, SessionPurpose, Variant};
use speedwell_report::{self as report, ReportSubject};
use speedwell_store::Store;
use std::time::Duration;

/// Find the revision that changed a benchmark
///
/// The revisions GOOD and BAD, the two ends of the range, are compared first. Then revisions between them are built in
/// a worktree and measured together with both ends, in randomised blocks. Noise does not mislead the search: each block
/// updates the probability of every revision, until one reaches 95%. That one is measured again, against the revision
/// before it. Revisions that fail to build or run are skipped. Your checkout is not touched.
///
/// Exit status 1 if no revision is found, for example because the ends do not differ.
#[derive(Debug, Args)]
#[command(mut_args(|arg| hide_unused(arg, "chart")), after_help = "Examples:
  speedwell bisect v1.4..HEAD --build 'make -j4 bench' ./bench -f parse
  speedwell bisect main~20..main speed/parse.js -s n=10000 --build 'npm ci'
  speedwell bisect v1.4..HEAD --program out/node --build './configure && make -j4' speed/parse.js
  speedwell bisect --change 7 --build 'make -j4 bench'
  speedwell bisect --resume @latest")]
pub struct BisectArgs {
    /// Revision without the change, and a later one with it
    #[arg(
        index = 1,
        value_name = "GOOD..BAD",
        required_unless_present_any = ["resume", "change"]
    )]
    range: Option<String>,
    /// Benchmark with a single case; NAME=VALUE sets a parameter
    ///
    /// A file or a program. If it has several cases, select one with --filter and NAME=VALUE.
    #[arg(
        index = 2,
        value_name = "TARGET|NAME=VALUE",
        required_unless_present_any = ["resume", "change"]
    )]
    targets: Vec<String>,
    /// After '--': arguments for every measured program
    #[arg(index = 3, last = true, value_name = "ARG")]
    arguments: Vec<String>,
    /// Take range, case and target from this change
    ///
    /// CHANGE is a number from 'speedwell history changes'.
    #[arg(long, value_name = "CHANGE", conflicts_with_all = ["range", "resume"], help_heading = "Search")]
    change: Option<i64>,
    /// Follow all parents of merges, not only first parents
    ///
    /// The search then follows the longest path from GOOD to BAD.
    #[arg(long, help_heading = "Search")]
    all_parents: bool,
    #[command(flatten)]
    built: RevisionProgramArgs,
    /// Smallest change that matters
    ///
    /// There is no search if the ends differ by less.
    #[arg(long, value_name = "PCT", default_value = "2%", value_parser = parse::percentage_as_fraction, help_heading = "Search")]
    threshold: f64,
    /// Compare changed benchmarks, too: each side runs its own version
    #[arg(long, help_heading = "Search")]
    with_own_benchmarks: bool,
    /// Stop after the first block of runs that completes past this time
    #[arg(long, value_name = "DUR", value_parser = parse::duration, help_heading = "Search")]
    budget: Option<Duration>,
    /// Resume an interrupted session, e.g. @latest
    #[arg(long, value_name = "SESSION", conflicts_with_all = ["range", "seed", "pin"], help_heading = "Search")]
    resume: Option<String>,
    #[command(flatten)]
    measuring: RevisionMeasuringArgs,
    /// Seed for all random choices [default: random; stored and shown]
    #[arg(long, value_name = "N", help_heading = "Execution")]
    seed: Option<u64>,
    #[command(flatten)]
    machine: MachineArgs,
}

/// Searches for the revision and reports the result.
///
/// # Errors
/// Fails if the range is invalid, the targets are not exactly one case, an end cannot be built, or
/// the store cannot be written.
pub fn run(args: BisectArgs) -> anyhow::Result<CommandStatus> {
    args.measuring.output.check_report(ReportSubject::Bisection)?;
    let mut store = args.measuring.store.open_store()?;
    let mut progress = ProgressDisplay::with_notes(&args.measuring.output);
    let (session, ended) = match &args.resume {
        Some(session) => {
            measure::resume_bisection(&mut store, session, args.budget, &mut progress)?
        }
        None => {
            let plans = args.plan_bisection(&store, &mut progress)?;
            measure::start_bisection(plans, &args.session_request(), &mut store, &mut progress)?
        }
    };
    let findings =
        analysis::analyze_bisection(&session).context("the session is not a bisection")?;
    let mut document = report::report_bisection(
        &findings,
        &session.failures,
        &args.measuring.output.report_settings(),
    );
    document.append_details(&session, &AnalysisFindings::default());
    args.measuring.output.print_document(&document)?;
    if findings.answer.is_none() && !args.measuring.store.no_save {
        status::print_note(&resume_note(&session, &args.measuring.store));
    }
    Ok(CommandStatus::from_session_end(ended).worse_of(answer_status(&findings)))
}

fn answer_status(findings: &BisectFindings) -> CommandStatus {
    match &findings.answer {
        Some(answer) if answer.is_found() => CommandStatus::DONE,
        Some(answer) if matches!(answer.ends, EndsComparison::Unmeasurable(_)) => {
            CommandStatus::FAILED
        }
        _ => CommandStatus::NEGATIVE,
    }
}

fn resume_note(session: &Session, store: &StoreArgs) -> String {
    format!(
        "completed runs are stored; resume with: speedwell bisect --resume @{}{}",
        session.number.unwrap_or_default(),
        store.database.db_option()
    )
}

impl BisectArgs {
    /// Plans a search: lists the revisions, builds both ends, and selects the case to measure.
    fn plan_bisection(
        &self,
        store: &Store,
        listener: &mut EventListener<'_>,
    ) -> anyhow::Result<PreparedPlan> {
        let mut measuring = self.measure_request()?;
        let mut bisection = BisectionRange {
            range: self.range.clone().unwrap_or_default(),
            line: Vec::new(),
            metric: self.measuring.selection.metric.names.first().cloned(),
            with_own_benchmarks: self.with_own_benchmarks,
        };
        let mut suspect = None;
        if let Some(number) = self.change {
            let (change, request) = confirm::prepare_change(store, number, &measuring)?;
            bisection.metric = bisection.metric.or(Some(change.series.metric.name.clone()));
            bisection.range = format!("{}..{}", change.change.before, change.change.after);
            (measuring, suspect) = (request, Some(change));
        }
        process::adopt_orphans();
        process::install_handlers()?;
        let ([good, bad], line) = measure::read_line(&bisection.range, self.all_parents)?;
        bisection.line = line;
        measuring.plan.purpose = SessionPurpose::Bisect;
        measuring.variants.build = self.built.build.clone();
        measuring.variants.given = vec![Variant::plain("good"), Variant::plain("bad")];
        let program = self.built.program.as_ref();
        measuring.variants.revisions =
            vec![revision_variant(0, &good, program), revision_variant(1, &bad, program)];
        let mut plans = PreparedPlan::read(&measuring, listener)?;
        confirm::keep_cases(suspect.as_slice(), &mut plans)?;
        measure::check_case(&plans.plan)?;
        plans.plan.design.bisection = Some(bisection);
        plans.plan.is_search = true;
        Ok(plans)
    }

    /// Returns what to measure, without the variants.
    fn measure_request(&self) -> anyhow::Result<MeasureRequest> {
        let SamplingRequest { runs, precision, steady, .. } = self.measuring.sampling;
        ensure!(
            runs.is_none() && precision.is_none() && !steady,
            "a bisection determines the number of runs itself\nhint: leave out --runs, --precision and --steady"
        );
        ensure!(
            self.measuring.selection.metric.names.len() < 2,
            "a bisection uses a single metric\nhint: give --metric once"
        );
        let plan = PlanRequest {
            execution: ExecutionArgs {
                seed: self.seed,
                budget: self.budget,
                ..ExecutionArgs::default()
            },
            threshold: Some(self.threshold),
            ..PlanRequest::default()
        };
        self.measuring.measure_request(&self.targets, &self.arguments, plan)
    }

    fn session_request(&self) -> SessionRequest {
        let origin = OriginArgs { machine: self.machine.clone(), ..OriginArgs::default() };
        SessionRequest {
            origin: None,
            divides_runs: self.measuring.sampling.divides_runs(),
            ..self.measuring.store.session_request(&origin)
        }
    }
}
