//! `speedwell confirm`: measures both sides of a suspected change again.
//!
//! Handles the options and records the outcome in the store. Start at [`run`].

use super::options::{FailOn, RunArgs, Task};
use super::{Status, run as measuring, status};
use anyhow::{anyhow, ensure};
use clap::Args;
use speedwell_analysis::confirm::{Confirmation, confirmations};
use speedwell_analysis::{self as analysis, Correction, Settings, machine};
use speedwell_measure::confirm::{self, Suspect, Suspects};
use speedwell_measure::{self as measure, MeasureRequest, Plans};
use speedwell_model::{Change, ChangeState, Estimate, Machine, Order, Purpose, Session};
use speedwell_report::{self as report, Block, Document, Subject};
use speedwell_results::store::Store;
use std::collections::BTreeSet;

/// Measure a suspected change again, before and after, and say whether it is there
///
/// Both sides are measured on this machine in randomised blocks of four, 14 to 48 runs a side, so that of a hundred
/// suspicions of nothing at most one is confirmed. What made somebody suspect the change takes no part, so the ratio is
/// not overstated. CHANGE is a number of 'speedwell history changes': its revisions, case and target are taken from the
/// store, and the answer is kept there.
///
/// Exit status 1 if a change is not confirmed.
#[derive(Debug, Args)]
#[command(
    mut_arg("targets", |arg| arg.value_name("CHANGE|TARGET").help(
        "Numbers of changes; with --old and --new, what to measure")),
    // mut_arg moves an argument to the end of the list, where the one after '--' must be.
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

/// Measures again and reports the outcome.
///
/// # Errors
/// Returns an error for unknown changes, sides that cannot be built, or a store that cannot be
/// written.
pub fn run(args: ConfirmArgs) -> anyhow::Result<Status> {
    let args = args.measuring;
    check(&args)?;
    let task = confirming(args.task());
    task.output.check(Subject::Confirmation)?;
    let mut store = task.open_store()?;
    if let Some(session) = &args.execution.resume {
        let plans = measure::resumed(&store, session, args.execution.budget, &mut task.progress())?;
        ensure!(
            plans.plan.design.purpose == Purpose::Confirm,
            "session {session} was not measured to confirm anything\nhint: speedwell run --resume {session}"
        );
        let suspects = confirm::of_plan(&store, &plans.plan)?;
        return answered(plans, &suspects, &mut store, &task);
    }
    if args.variants.is_any() {
        let mut request = args.request()?;
        request.plan.purpose = Purpose::Confirm;
        return measured(&request, &[], &mut store, &task);
    }
    let mut request = MeasureRequest {
        plan: args.plan()?,
        ..MeasureRequest::default()
    };
    let own = &mut request.variants;
    own.build = args.variants.build.request();
    own.arguments.clone_from(&args.arguments);
    changes(&numbers(&args.targets)?, &request, &mut store, &task)
}

/// Measures stored changes again and records the outcomes. Changes between the same revisions of
/// one target share a session.
///
/// # Errors
/// Returns an error for unknown changes, sides that cannot be built, or a store that cannot be
/// written.
pub fn changes(
    numbers: &[i64],
    request: &MeasureRequest,
    store: &mut Store,
    task: &Task,
) -> anyhow::Result<Status> {
    let mut status = Status::DONE;
    for Suspects { suspects, request } in confirm::of_changes(store, numbers, request)? {
        status = status.or(measured(&request, &suspects, store, task)?);
    }
    Ok(status)
}

fn numbers(words: &[String]) -> anyhow::Result<Vec<i64>> {
    let number = |word: &String| {
        word.parse().map_err(|_| {
            anyhow!(
                "'{word}' is no number of a change\nhint: 'speedwell history changes' lists them; --old rev:OLD --new \
                 rev:NEW measures '{word}' at two revisions"
            )
        })
    };
    words.iter().map(number).collect()
}

fn check(args: &RunArgs) -> anyhow::Result<()> {
    let sampling = args.sampling.request();
    ensure!(
        sampling.runs.is_none()
            && sampling.precision.is_none()
            && args.comparison.confidence.is_none(),
        "a confirmation decides itself how many runs it needs, for an error rate of 1 %\nhint: leave out --runs, \
         --precision and --confidence"
    );
    ensure!(
        args.comparison.fail_on == FailOn::Never,
        "a confirmation is a gate itself: its exit status is 1 if a change is not confirmed\nhint: leave out --fail-on"
    );
    ensure!(
        Order::from(args.execution.order) == Order::Blocks && args.comparison.method.is_none(),
        "a confirmation is measured in randomised blocks and judged by ranks\nhint: leave out --order and --method"
    );
    ensure!(
        args.study.x_axis.is_none(),
        "a confirmation compares two sides, and is no parameter study\nhint: leave out --x-axis"
    );
    Ok(())
}

/// Adapts a task to confirming.
pub fn confirming(task: Task) -> Task {
    Task {
        settings: Settings {
            correction: Correction::Holm,
            // Here the threshold is the size below which a change does not matter, and part of the
            // plan.
            threshold: None,
            ..task.settings
        },
        resumed_by: "confirm",
        ..task
    }
}

/// Measures, unless both sides are the same program, and records the outcome.
fn measured(
    request: &MeasureRequest,
    suspects: &[Suspect],
    store: &mut Store,
    task: &Task,
) -> anyhow::Result<Status> {
    let mut plans = Plans::read(request, &mut task.progress())?;
    if !suspects.is_empty() {
        confirm::keep_cases(suspects, &mut plans)?;
    }
    ensure!(
        plans.plan.variants.len() == 2,
        "a confirmation has two sides\nhint: --old and --new"
    );
    if task.execution.list || task.execution.test {
        return measuring::execute(plans, store, task);
    }
    if confirm::are_identical(&plans) {
        task.output.print(&report::identical())?;
        for suspect in suspects {
            settle(suspect, None, None, store)?;
        }
        return Ok(Status::NO);
    }
    answered(plans, suspects, store, task)
}

/// Measures, reports the outcome, and records it.
fn answered(
    plans: Plans,
    suspects: &[Suspect],
    store: &mut Store,
    task: &Task,
) -> anyhow::Result<Status> {
    let (session, ended) = measuring::measure(plans, store, task)?;
    let named: BTreeSet<&String> = suspects.iter().map(|own| &own.series.metric.name).collect();
    let mut settings = task.settings.clone();
    if settings.metrics.is_empty() {
        settings.metrics = named.into_iter().cloned().collect();
    }
    let findings = analysis::analyse(&session, &settings);
    let is_more = |case: &str, metric: &str| {
        let own = suspects.iter().find(|own| own.is_of(case, metric))?;
        Some(own.change.ratio.value > 1.0)
    };
    let mut document: Document = report::confirm(&findings, &is_more, &task.output.settings());
    if let Some(note) = elsewhere(&session, suspects) {
        document.push(Block::Note(note));
    }
    document.append(report::circumstances(&[(None, &session)], &findings));
    task.output.print(&document)?;
    let mut answer = Status::DONE;
    let all = confirmations(&findings, &is_more);
    for (comparison, row, outcome) in &all {
        if !matches!(outcome, Some(Confirmation::Confirmed(_))) {
            answer = Status::NO;
        }
        let (case, metric) = (row.case.id(), &comparison.metric.name);
        if outcome.is_some()
            && let Some(own) = suspects.iter().find(|own| own.is_of(&case, metric))
        {
            settle(own, session.number, *outcome, store)?;
        }
    }
    if all.is_empty() {
        answer = Status::NO;
    }
    Ok(ended.or(answer).or(status::of_failures(&findings.failures)))
}

/// Warns about suspects that this machine has not measured before, naming the machines that have.
fn elsewhere(session: &Session, suspects: &[Suspect]) -> Option<String> {
    let own = machine(&session.environment, session.origin.as_ref());
    let known: BTreeSet<&str> = (suspects.iter())
        .filter(|suspect| !suspect.machines.iter().any(|machine| machine.id == own.id))
        .flat_map(|suspect| suspect.machines.iter().map(Machine::title))
        .collect();
    (!known.is_empty()).then(|| {
        let known: Vec<&str> = known.into_iter().collect();
        format!(
            "Measured again on {}; the history was measured on {}: what only that machine shows is not seen here.",
            own.title(),
            known.join(", ")
        )
    })
}

/// Records the outcome of a change in the store and reports it. No outcome means that both sides
/// are the same program.
fn settle(
    suspect: &Suspect,
    session: Option<i64>,
    outcome: Option<Confirmation>,
    store: &mut Store,
) -> anyhow::Result<()> {
    let known = suspect.change.clone();
    let ratio = outcome.map_or(known.ratio, |outcome| {
        let Estimate { value, low, high } = outcome.change();
        Estimate {
            value: 1.0 + value,
            low: 1.0 + low,
            high: 1.0 + high,
        }
    });
    let state = match outcome {
        Some(Confirmation::Confirmed(_)) => ChangeState::Confirmed,
        _ => ChangeState::Refuted,
    };
    status::note(&format!("change {} is {state}", known.number));
    store.settle(&Change {
        state,
        ratio,
        confirmed_by: session,
        ..known
    })
}
