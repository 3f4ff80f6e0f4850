//! `speedwell backfill`: measures old revisions for which the history has no data.
//!
//! This module handles the options; `measure.rs` measures the revisions. Start at [`run`].

pub mod measure;

use crate::options::{
    BuildArgs, ExecutionArgs, MachineArgs, OriginArgs, OutputArgs, SelectionArgs, StoreArgs,
    VariantArgs, instruction_counting, parse,
};
use crate::progress::ProgressDisplay;
use crate::{CommandStatus, status};
use anyhow::ensure;
use clap::Args;
use measure::{BackfillRequest, BackfillResult, EarlyStop, RevisionOutcome};
use speedwell_engine::{PlanRequest, SamplingRequest, SessionRequest};
use speedwell_machine::process::CpuSet;
use speedwell_report::{self as report, BackfillLine, BackfillOutcome, ReportSubject};
use std::path::PathBuf;
use std::time::Duration;

/// Measure old revisions to fill gaps in the history
///
/// The revisions from A to B along first parents are measured from coarse to fine: first both ends, then the middle of
/// the widest gap, until the history has points for N of them. The choice does not depend on measured values, so these
/// points can be searched for changes like any others. Each revision is built in a worktree, measured in its own
/// session and stored at once. Revisions that already have a point from this machine are not measured again; those that
/// failed to build with the same command are not retried. Your checkout is not touched.
///
/// Exit status 1 if the history has points for fewer than N revisions at the end, unless every revision of the range
/// has one.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  speedwell backfill v1.4..HEAD --points 25 --build 'make -j4 bench' ./bench
  speedwell backfill main~200..main --points 30 --budget 2h --build 'npm ci' speed/
  speedwell history changes")]
pub struct BackfillArgs {
    /// Range of revisions, including both ends
    #[arg(index = 1, value_name = "A..B")]
    range: String,
    /// Files, programs, folders; and NAME=VALUE to set a parameter
    #[arg(index = 2, value_name = "TARGET|NAME=VALUE", required = true)]
    targets: Vec<String>,
    /// After '--': arguments for every measured program
    #[arg(index = 3, last = true, value_name = "ARG")]
    arguments: Vec<String>,
    /// Number of revisions for which the history should have points
    ///
    /// Revisions that already have a point are counted. Finding a change needs at least 21 points.
    #[arg(long, value_name = "N", default_value_t = 25, value_parser = parse_points, help_heading = "Search")]
    points: usize,
    /// Program built from each revision, to run the targets
    ///
    /// The path is relative to the current folder.
    #[arg(long, value_name = "PROGRAM", help_heading = "Search")]
    program: Option<PathBuf>,
    #[command(flatten, next_help_heading = "Search")]
    build: BuildArgs,
    /// Start no further revision once this much time has passed
    ///
    /// The time for builds also counts.
    #[arg(long, value_name = "DUR", value_parser = parse::duration, help_heading = "Search")]
    budget: Option<Duration>,
    /// Pin measured processes to these CPUs, e.g. 1 or 0,2-3
    #[arg(long, value_name = "CPUS", help_heading = "Execution")]
    pin: Option<CpuSet>,
    #[command(flatten)]
    selection: SelectionArgs,
    #[command(flatten)]
    sampling: SamplingRequest,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    store: StoreArgs,
    /// Branch of the revisions [default: none]
    #[arg(long, value_name = "NAME", help_heading = "Store")]
    branch: Option<String>,
    #[command(flatten)]
    machine: MachineArgs,
}

fn parse_points(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("expected a whole number of at least 1".to_owned()),
        Ok(number) => Ok(number),
    }
}

/// Measures the revisions, and reports which of them have points in the history.
///
/// # Errors
/// Returns an error if the range is invalid, the newest revision cannot be measured, or the store
/// cannot be written.
pub fn run(args: BackfillArgs) -> anyhow::Result<CommandStatus> {
    args.output.check_report(ReportSubject::Backfill)?;
    ensure!(!args.store.no_save, "backfill needs to store its sessions\nhint: leave out --no-save");
    let mut store = args.store.open_store()?;
    let mut progress = ProgressDisplay::with_notes(&args.output);
    let result = measure::backfill_line(
        &args.backfill_request()?,
        &args.session_request(),
        &mut store,
        &mut progress,
    )?;
    for (_, outcome) in &result.revisions {
        if let RevisionOutcome::Failed(reason) = outcome {
            status::print_warning(reason);
        }
    }
    args.output.print_document(&report::report_backfill(&backfill_lines(&result), result.line))?;
    Ok(match result.early {
        None => CommandStatus::DONE,
        Some(EarlyStop::Interrupted) => {
            status::print_note(
                "interrupted: completed runs are stored; run the same command to continue",
            );
            CommandStatus::INTERRUPTED
        }
        Some(EarlyStop::Budget) => {
            status::print_note("the time budget is used up; run the same command to continue");
            CommandStatus::NEGATIVE
        }
        Some(EarlyStop::NoMoreRevisions) => {
            let points = result.count_points();
            status::print_note(&format!(
                "the history has data for {points} of the {} revisions",
                result.line
            ));
            if points == result.line { CommandStatus::DONE } else { CommandStatus::NEGATIVE }
        }
    })
}

fn backfill_lines(result: &BackfillResult) -> Vec<BackfillLine> {
    let line = |(revision, outcome): &(_, RevisionOutcome)| {
        let (outcome, session, failures) = match outcome {
            RevisionOutcome::Measured(number, failures) => {
                (BackfillOutcome::Measured, Some(*number), *failures)
            }
            RevisionOutcome::AlreadyMeasured => (BackfillOutcome::Known, None, 0),
            RevisionOutcome::Failed(_) => (BackfillOutcome::Failed, None, 0),
            RevisionOutcome::FailedBefore(number) => {
                (BackfillOutcome::FailedBefore, Some(*number), 0)
            }
        };
        BackfillLine { revision: Clone::clone(revision), outcome, session, failures }
    };
    result.revisions.iter().map(line).collect()
}

impl BackfillArgs {
    fn backfill_request(&self) -> anyhow::Result<BackfillRequest> {
        let plan = PlanRequest {
            sampling: self.sampling.clone(),
            pin: self.pin.clone(),
            counting: instruction_counting(&self.selection.metric.names, false),
            ..PlanRequest::default()
        };
        ensure!(
            !self.sampling.steady,
            "--steady analyzes single runs, but points of the history are medians over runs\nhint: 'speedwell warmup' \
             analyzes single runs"
        );
        let mut measuring = self.selection.measure_request(
            &self.targets,
            &self.arguments,
            &VariantArgs::default(),
            &ExecutionArgs::default(),
            plan,
        )?;
        measuring.variants.build = self.build.build_request();
        Ok(BackfillRequest {
            range: self.range.clone(),
            points: self.points,
            budget: self.budget,
            program: self.program.clone(),
            measuring,
        })
    }

    fn session_request(&self) -> SessionRequest {
        let origin = OriginArgs {
            revision: None,
            branch: self.branch.clone(),
            machine: self.machine.clone(),
        };
        SessionRequest {
            divides_runs: self.sampling.divides_runs(),
            ..self.store.session_request(&origin)
        }
    }
}
