//! `speedwell run`: the whole path of data on one screen.

use super::measure::{Plans, measure};
use super::options::{OrderName, RunArgs};
use super::report::document_of;
use super::{Status, calibrated, experiment, gate, resume, trial};
use crate::analysis::{self, Settings};
use crate::compat::erlperf::style;
use crate::harness::{Job, Kind};
use crate::model::Session;
use crate::plan::Plan;
use crate::report::{self, ChartKind, Measured};
use crate::store::Store;
use anyhow::ensure;

/// Measures, analyses, reports, judges.
///
/// # Errors
/// Wrong words, unknown targets, a store that cannot be written.
pub fn run(args: RunArgs) -> anyhow::Result<Status> {
    ensure!(
        args.execution.order != OrderName::Parallel,
        "only codes can be measured at the same time\nhint: 'speedwell eval'"
    );
    let mut store = args.open_store()?;
    let plans = match &args.execution.resume {
        Some(session) => resume::plans(&store, session)?,
        None => Plans::read(&args)?,
    };
    execute(plans, &mut store, &args)
}

/// Executes plans as the options ask for: lists, tries, or measures and reports.
///
/// # Errors
/// A store or an output that cannot be written.
pub fn execute(plans: Plans, store: &mut Store, args: &RunArgs) -> anyhow::Result<Status> {
    ensure!(
        !args.profile || plans.plan.design.experiment.is_some(),
        "--profile records the commands and servers of an experiment, and these are benchmark files: how much \
         their runs do depends on time\nhint: 'speedwell new overhead' makes an experiment of a command; \
         docs/profiles.md tells how recordings of other programs are compared"
    );
    if args.execution.list {
        return trial::list(&plans, args);
    }
    if args.execution.test {
        return trial::test(&plans, args);
    }
    let settings = args.comparison.settings(&args.selection.metric.names, None);
    let plan = plans.plan.clone();
    check_report(&plan, args)?;
    let (mut session, mut ended) = measure(plans, &settings, store, args)?;
    if ended == Status::DONE {
        ended = experiment::record(&plan, &mut session, &settings, store, args)?;
    }
    Ok(ended.or(conclude(&session, &settings, args)?))
}

/// Refuses before anything is measured what the report would refuse afterwards. Studies and experiments have tables of
/// their own.
fn check_report(plan: &Plan, args: &RunArgs) -> anyhow::Result<()> {
    if plan.design.experiment.is_some() || args.study.x_axis.is_some() {
        return Ok(());
    }
    let is_code = |job: &Job| matches!(job.source.kind, Kind::Code(_));
    if plan.jobs.iter().all(is_code) {
        return args.output.check(Measured::Codes);
    }
    ensure!(
        args.output.chart != Some(ChartKind::Line),
        "a line chart needs a parameter study (--x-axis NAME)"
    );
    args.output.check(Measured::Runs)
}

/// Analyses a session that was just measured, reports, judges.
///
/// # Errors
/// An output that cannot be written.
pub fn conclude(session: &Session, settings: &Settings, args: &RunArgs) -> anyhow::Result<Status> {
    if let Some(written) = &session.design.experiment
        && args.study.x_axis.is_none()
        && settings.metrics.is_empty()
    {
        return experiment::conclude(session, written, settings, args);
    }
    let mut findings = analysis::of(session, settings);
    calibrated::mark(&mut findings, [session], &args.store);
    if let Some(style) = args.style {
        style::write(session, style, &mut std::io::stdout().lock())?;
        return Ok(gate::judge(&findings, args.comparison.fail_on));
    }
    let output = args.output.settings();
    let mut document = document_of(session, &findings, &args.study, settings, &output)?;
    document.append(report::circumstances(&[(None, session)], &findings));
    args.output.print(&document)?;
    Ok(gate::judge(&findings, args.comparison.fail_on))
}
