//! `speedwell confirm`: measures both sides of a suspected change again.
//!
//! This module handles the options and records the outcome in the store. Start at [`run`].

pub mod measure;

use crate::options::{FailOn, MeasureTask, RunArgs};
use crate::resume::load_interrupted_plan;
use crate::{CommandStatus, run as measuring, status};
use anyhow::{anyhow, ensure};
use clap::Args;
use measure::{SuspectChange, SuspectGroup};
use speedwell_analysis::confirm::{ConfirmationResult, read_confirmations};
use speedwell_analysis::{self as analysis, AnalysisSettings, TestingCorrection, identify_machine};
use speedwell_engine::{MeasureRequest, PreparedPlan};
use speedwell_model::{
    ChangeState, IntervalEstimate, Machine, RecordedChange, RunOrder, Session, SessionPurpose,
};
use speedwell_report::{self as report, Document, ReportBlock, ReportSubject};
use speedwell_store::Store;
use std::collections::BTreeSet;

/// Measure both sides of a suspected change again, to confirm or refute it
///
/// Both sides are measured on this machine in randomised blocks of four, with 14 to 48 runs per side. If a change does
/// not exist, the chance that it is confirmed is at most 1 %. Earlier measurements do not count, so the change is not
/// overstated. CHANGE is a number from 'speedwell history changes': its revisions, case and target are taken from the
/// store, and the result is stored there.
///
/// Exit status 1 if a change is not confirmed.
#[derive(Debug, Args)]
#[command(
    mut_arg("targets", |arg| arg.value_name("CHANGE|TARGET").help(
        "Numbers of changes; with --old and --new, targets to measure")),
    // mut_arg moves an argument to the end. Call it for `arguments`, because the argument after
    // '--' must be the last.
    mut_arg("arguments", |arg| arg),
    after_help = "Examples:
  speedwell confirm 7 --build 'make bench'
  speedwell confirm --old rev:v1.4 --new rev:HEAD --build 'make bench' ./bench -f parse
  speedwell confirm --old ./bench-old --new ./bench-new -f parse bench.toml
  speedwell confirm --resume @latest")]
pub struct ConfirmArgs {
    #[command(flatten)]
    measuring: RunArgs,
}

/// Measures the changes again and reports the outcome.
///
/// # Errors
/// Fails if a change is unknown, a side cannot be built, or the store cannot be written.
pub fn run(args: ConfirmArgs) -> anyhow::Result<CommandStatus> {
    let args = args.measuring;
    check_options(&args)?;
    let task = confirm_task(args.measure_task());
    task.output.check_report(ReportSubject::Confirmation)?;
    let mut store = task.open_store()?;
    if let Some(session) = &args.execution.resume {
        let plans = load_interrupted_plan(
            &store,
            session,
            args.execution.budget,
            &mut task.progress_display(),
        )?;
        ensure!(
            plans.plan.design.purpose == SessionPurpose::Confirm,
            "session {session} is not a confirmation\nhint: speedwell run --resume {session}"
        );
        let suspects = measure::changes_in_plan(&store, &plans.plan)?;
        return measure_and_record(plans, &suspects, &mut store, &task);
    }
    if args.variants.is_any() {
        let mut request = args.measure_request()?;
        request.plan.purpose = SessionPurpose::Confirm;
        return measure_suspects(&request, &[], &mut store, &task);
    }
    let mut request = MeasureRequest { plan: args.plan_request()?, ..MeasureRequest::default() };
    let variants = &mut request.variants;
    variants.build = args.variants.build.build_request();
    variants.arguments.clone_from(&args.arguments);
    confirm_changes(&parse_numbers(&args.targets)?, &request, &mut store, &task)
}

/// Measures stored changes again and records the outcomes. Changes between the same revisions of
/// one target share a session.
///
/// # Errors
/// Fails if a change is unknown, a side cannot be built, or the store cannot be written.
pub fn confirm_changes(
    numbers: &[i64],
    request: &MeasureRequest,
    store: &mut Store,
    task: &MeasureTask,
) -> anyhow::Result<CommandStatus> {
    let mut status = CommandStatus::DONE;
    for SuspectGroup { suspects, request } in measure::group_changes(store, numbers, request)? {
        status = status.worse_of(measure_suspects(&request, &suspects, store, task)?);
    }
    Ok(status)
}

fn parse_numbers(words: &[String]) -> anyhow::Result<Vec<i64>> {
    let number = |text: &String| {
        text.parse().map_err(|_| {
            anyhow!(
                "cannot parse '{text}': expected the number of a change\nhint: 'speedwell history changes' lists them; --old rev:OLD --new \
                 rev:NEW measures '{text}' at two revisions"
            )
        })
    };
    words.iter().map(number).collect()
}

fn check_options(args: &RunArgs) -> anyhow::Result<()> {
    let sampling = &args.sampling;
    ensure!(
        sampling.runs.is_none()
            && sampling.precision.is_none()
            && args.comparison.confidence.is_none(),
        "a confirmation determines the number of runs itself, for an error rate of 1 %\nhint: leave out --runs, \
         --precision and --confidence"
    );
    ensure!(
        args.comparison.fail_on == FailOn::Never,
        "a confirmation is a gate itself: its exit status is 1 if a change is not confirmed\nhint: leave out --fail-on"
    );
    ensure!(
        args.execution.order == RunOrder::Blocks && args.comparison.method.is_none(),
        "a confirmation uses randomised blocks and the rank test: --order and --method cannot be set\nhint: leave out --order and --method"
    );
    ensure!(
        args.study.x_axis.is_none(),
        "a confirmation compares two sides and cannot be a parameter study\nhint: leave out --x-axis"
    );
    Ok(())
}

/// Adapts a measuring task to a confirmation.
pub fn confirm_task(task: MeasureTask) -> MeasureTask {
    MeasureTask {
        settings: AnalysisSettings {
            correction: TestingCorrection::Holm,
            // In a confirmation, the plan contains the threshold.
            threshold: None,
            ..task.settings
        },
        resume_command: "confirm",
        ..task
    }
}

/// Measures both sides and records the outcome. Does not measure sides that are the same program.
fn measure_suspects(
    request: &MeasureRequest,
    suspects: &[SuspectChange],
    store: &mut Store,
    task: &MeasureTask,
) -> anyhow::Result<CommandStatus> {
    let mut plans = PreparedPlan::read(request, &mut task.progress_display())?;
    if !suspects.is_empty() {
        measure::keep_cases(suspects, &mut plans)?;
    }
    ensure!(
        plans.plan.variants.len() == 2,
        "a confirmation compares exactly two sides\nhint: name them with --old and --new"
    );
    if task.execution.list || task.execution.test {
        return measuring::execute_plans(plans, store, task);
    }
    if measure::are_identical(&plans) {
        task.output.print_document(&report::report_identical())?;
        for suspect in suspects {
            record_outcome(suspect, None, None, store)?;
        }
        return Ok(CommandStatus::NEGATIVE);
    }
    measure_and_record(plans, suspects, store, task)
}

/// Measures, reports the outcome, and records it.
fn measure_and_record(
    plans: PreparedPlan,
    suspects: &[SuspectChange],
    store: &mut Store,
    task: &MeasureTask,
) -> anyhow::Result<CommandStatus> {
    let (session, ended) = measuring::measure_session(plans, store, task)?;
    let metric_names: BTreeSet<&String> =
        suspects.iter().map(|suspect| &suspect.series.metric.name).collect();
    let mut settings = task.settings.clone();
    if settings.metrics.is_empty() {
        settings.metrics = metric_names.into_iter().cloned().collect();
    }
    let findings = analysis::analyze_session(&session, &settings);
    let is_increase = |case: &str, metric: &str| {
        let suspect = suspects.iter().find(|suspect| suspect.is_of(case, metric))?;
        Some(suspect.change.ratio.value > 1.0)
    };
    let mut document: Document =
        report::report_confirmation(&findings, &is_increase, &task.output.report_settings());
    if let Some(note) = other_machines_note(&session, suspects) {
        document.push(ReportBlock::Note(note));
    }
    document.append_document(report::report_measurement_details(&[(None, &session)], &findings));
    task.output.print_document(&document)?;
    let mut status_of_changes = CommandStatus::DONE;
    let confirmations = read_confirmations(&findings, &is_increase);
    for (comparison, row, outcome) in &confirmations {
        if !matches!(outcome, Some(ConfirmationResult::Confirmed(_))) {
            status_of_changes = CommandStatus::NEGATIVE;
        }
        let (case, metric) = (row.case.id(), &comparison.metric.name);
        if outcome.is_some()
            && let Some(suspect) = suspects.iter().find(|suspect| suspect.is_of(&case, metric))
        {
            record_outcome(suspect, session.number, *outcome, store)?;
        }
    }
    if confirmations.is_empty() {
        status_of_changes = CommandStatus::NEGATIVE;
    }
    Ok(ended.worse_of(status_of_changes).worse_of(status::status_of_failures(&findings.failures)))
}

/// Returns a note if some of the suspects were measured only on other machines. The note names
/// these machines.
fn other_machines_note(session: &Session, suspects: &[SuspectChange]) -> Option<String> {
    let this_machine = identify_machine(&session.environment, session.origin.as_ref());
    let earlier_machines: BTreeSet<&str> = (suspects.iter())
        .filter(|suspect| !suspect.machines.iter().any(|machine| machine.id == this_machine.id))
        .flat_map(|suspect| suspect.machines.iter().map(Machine::title))
        .collect();
    (!earlier_machines.is_empty()).then(|| {
        let earlier_machines: Vec<&str> = earlier_machines.into_iter().collect();
        format!(
            "Measured again on {}, but the history was measured on {}: changes specific to other machines do not show here.",
            this_machine.title(),
            earlier_machines.join(", ")
        )
    })
}

/// Records the outcome for a change in the store and prints it. `outcome` is `None` if both sides
/// are the same program.
fn record_outcome(
    suspect: &SuspectChange,
    session: Option<i64>,
    outcome: Option<ConfirmationResult>,
    store: &mut Store,
) -> anyhow::Result<()> {
    let change = suspect.change.clone();
    let ratio = outcome.map_or(change.ratio, |outcome| {
        let IntervalEstimate { value, low, high } = outcome.change();
        IntervalEstimate { value: 1.0 + value, low: 1.0 + low, high: 1.0 + high }
    });
    let state = match outcome {
        Some(ConfirmationResult::Confirmed(_)) => ChangeState::Confirmed,
        _ => ChangeState::Refuted,
    };
    status::print_note(&format!("change {} is {state}", change.number));
    store.store_confirmation(&RecordedChange { state, ratio, confirmed_by: session, ..change })
}
