//! `speedwell confirm`: whether a suspected change is there when both sides are measured again.
//!
//! Decides on the options and on what the store keeps of the answer. Start at [`run`].

use super::options::{RunArgs, Task};
use super::{Status, run as measuring, status};
use anyhow::{bail, ensure};
use clap::{Args, FromArgMatches};
use speedwell_analysis::confirm::{Confirmation, confirmations};
use speedwell_analysis::{self as analysis, Correction, Settings};
use speedwell_measure::confirm::{self, Suspect};
use speedwell_measure::{self as measure, MeasureRequest, Plans};
use speedwell_model::{Change, ChangeState, Estimate, Order, Purpose, Session};
use speedwell_report::{self as report, Document, Subject};
use speedwell_results::store::Store;
use std::ffi::OsString;

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
    // An argument that is changed goes to the end of the list, where what follows '--' must be.
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

impl ConfirmArgs {
    /// What words would ask for, for commands that confirm on their own.
    ///
    /// # Errors
    /// They make no sense.
    pub fn of_words(words: Vec<OsString>) -> anyhow::Result<ConfirmArgs> {
        let command = ConfirmArgs::augment_args(clap::Command::new("confirm"));
        Ok(ConfirmArgs::from_arg_matches(
            &command.try_get_matches_from(words)?,
        )?)
    }
}

/// Measures again, and says what came of it.
///
/// # Errors
/// Changes that are not known, sides that cannot be built, a store that cannot be written.
pub fn run(args: ConfirmArgs) -> anyhow::Result<Status> {
    let args = args.measuring;
    check(&args)?;
    let task = task(&args);
    task.output.check(Subject::Confirmation)?;
    let mut store = task.open_store()?;
    if let Some(session) = &args.execution.resume {
        let plans = measure::resumed(&store, session, args.execution.budget, &mut task.progress())?;
        ensure!(
            plans.plan.design.purpose == Purpose::Confirm,
            "session {session} was not measured to confirm anything\nhint: speedwell run --resume {session}"
        );
        let (session, ended) = measuring::measure(plans, &mut store, &task)?;
        return Ok(ended.or(conclude(&session, None, &task)?.0));
    }
    if args.variants.is_any() {
        let mut request = args.request()?;
        request.plan.purpose = Purpose::Confirm;
        return Ok(measured(&request, None, &mut store, &task)?.0);
    }
    let mut status = Status::DONE;
    for word in &args.targets {
        let Ok(number) = word.parse() else {
            bail!(
                "'{word}' is no number of a change\nhint: 'speedwell history changes' lists them; --old rev:OLD --new \
                 rev:NEW measures '{word}' at two revisions"
            );
        };
        status = status.or(change(number, &args, &mut store, &task)?);
    }
    Ok(status)
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
        Order::from(args.execution.order) == Order::Blocks && args.comparison.method.is_none(),
        "a confirmation is measured in randomised blocks and judged by ranks\nhint: leave out --order and --method"
    );
    Ok(())
}

fn task(args: &RunArgs) -> Task {
    let task = args.task();
    Task {
        settings: Settings {
            correction: Correction::Holm,
            // It says from where on a change is too small to matter, and is part of the plan.
            threshold: None,
            ..task.settings
        },
        resumed_by: "confirm",
        ..task
    }
}

/// Measures a change of the store again, and keeps what came of it.
fn change(number: i64, args: &RunArgs, store: &mut Store, task: &Task) -> anyhow::Result<Status> {
    let request = MeasureRequest {
        plan: args.plan()?,
        ..MeasureRequest::default()
    };
    let (suspect, mut request) = confirm::of_change(store, number, &request)?;
    request
        .variants
        .build
        .command
        .clone_from(&args.variants.build);
    request.variants.build.limit = args.variants.build_timeout;
    request.variants.arguments.clone_from(&args.arguments);
    let (status, outcome) = measured(&request, Some(&suspect), store, task)?;
    let Some((session, confirmation)) = outcome else {
        return Ok(status);
    };
    let by = |share: f64| 1.0 + share;
    let known = suspect.change;
    let (state, ratio) = match confirmation {
        Some(confirmation) => {
            let Estimate { value, low, high } = confirmation.change();
            let ratio = Estimate {
                value: by(value),
                low: by(low),
                high: by(high),
            };
            let is_there = matches!(confirmation, Confirmation::Confirmed(_));
            let states = [ChangeState::Refuted, ChangeState::Confirmed];
            (states[usize::from(is_there)], ratio)
        }
        None => (ChangeState::Refuted, known.ratio),
    };
    store.settle(&Change {
        state,
        ratio,
        confirmed_by: session,
        ..known
    })?;
    status::note(&format!("change {number} is {state}"));
    Ok(status)
}

/// The session of an answer, and the answer; none where both sides are the same program.
type Outcome = (Option<i64>, Option<Confirmation>);

/// Measures, unless both sides are the same; the status, and the answer if there is one.
fn measured(
    request: &MeasureRequest,
    suspect: Option<&Suspect>,
    store: &mut Store,
    task: &Task,
) -> anyhow::Result<(Status, Option<Outcome>)> {
    let mut plans = Plans::read(request, &mut task.progress())?;
    if let Some(suspect) = suspect {
        suspect.keep_case(&mut plans)?;
    }
    ensure!(
        plans.plan.variants.len() == 2,
        "a confirmation has two sides\nhint: --old and --new"
    );
    if task.execution.list || task.execution.test {
        return Ok((measuring::execute(plans, store, task)?, None));
    }
    if confirm::are_identical(&plans) {
        task.output.print(&report::identical())?;
        return Ok((Status::NO, Some((None, None))));
    }
    let (session, ended) = measuring::measure(plans, store, task)?;
    let (status, confirmation) = conclude(&session, suspect, task)?;
    let outcome = confirmation.map(|confirmation| (session.number, Some(confirmation)));
    Ok((ended.or(status), outcome))
}

/// Reports what came of a session, and says it.
fn conclude(
    session: &Session,
    suspect: Option<&Suspect>,
    task: &Task,
) -> anyhow::Result<(Status, Option<Confirmation>)> {
    let metrics = suspect.map(|suspect| suspect.series.metric.name.clone());
    let settings = Settings {
        metrics: match metrics {
            Some(metric) if task.settings.metrics.is_empty() => vec![metric],
            _ => task.settings.metrics.clone(),
        },
        ..task.settings.clone()
    };
    let is_more = suspect.map(|suspect| suspect.change.ratio.value > 1.0);
    let findings = analysis::analyse(session, &settings);
    let mut document: Document = report::confirm(&findings, is_more, &task.output.settings());
    document.append(report::circumstances(&[(None, session)], &findings));
    task.output.print(&document)?;
    let outcomes: Vec<Option<Confirmation>> = confirmations(&findings, is_more)
        .into_iter()
        .map(|(_, _, outcome)| outcome)
        .collect();
    let is_confirmed =
        |outcome: &Option<Confirmation>| matches!(outcome, Some(Confirmation::Confirmed(_)));
    let answer = if outcomes.iter().all(is_confirmed) && !outcomes.is_empty() {
        Status::DONE
    } else {
        Status::NO
    };
    let status = answer.or(status::of_failures(&findings.failures));
    Ok((status, outcomes.first().copied().flatten()))
}
