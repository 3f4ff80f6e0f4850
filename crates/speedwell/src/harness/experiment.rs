//! Runs of experiments: each is performed by a process of this very program, which gets everything it has to do as
//! one order and answers with everything that came of it.
//!
//! It decides what of an answer is a sample and what a failure. What is done is decided by the definition file
//! (`definition/experiment`), how by `runner/experiment`. Start at [`perform`].

use super::attempt::failure;
use super::events::Events;
use super::job::{Job, Setting};
use super::{Attempt, Message, Observation, own_program};
use crate::model::assignment::Assignment;
use crate::model::performed::{Performed, Stumble};
use crate::model::{Case, Cause, Sample};
use crate::process::{Channel, Spec, run};
use std::sync::Arc;

/// The hidden command that performs a run.
pub const COMMAND: &str = "perform-run";

/// Has a process perform a run.
pub(super) fn perform(assignment: &Assignment, job: &Job, setting: &Setting<'_>) -> Attempt {
    let spec = Spec {
        channel: Channel::Harness,
        limit: setting.limit,
        ..Spec::new(own_program()).args([COMMAND])
    };
    let plain = replayed(assignment);
    let text = match serde_json::to_string(assignment) {
        Ok(text) => text,
        Err(error) => return Attempt::refused(&plain, &error.to_string(), job, setting),
    };
    let order = Message::new("run").with("id", 2).with("seed", setting.seed);
    let mut events = Events::after([order.with("assignment", text)]);
    match run(&spec, &mut events) {
        Err(error) => Attempt::not_started(&spec, &error, job, setting),
        Ok(outcome) => {
            let told = events.first("performed");
            let performed = told.and_then(|told| told.get("json"));
            let performed =
                performed.and_then(|text| serde_json::from_str::<Performed>(&text).ok());
            let (seen, stumble, fault) = match performed {
                None => (None, None, Some(events.error().unwrap_or(Cause::Silent))),
                Some(performed) => {
                    let load = told.and_then(|told| told.get("load"));
                    let stumble = performed.stumble.clone();
                    (Some(observation(job, performed, load)), stumble, None)
                }
            };
            let mut attempt = Attempt::new(
                &plain,
                &outcome,
                seen.into_iter().collect(),
                fault,
                job,
                setting,
            );
            if let Some(Stumble {
                stage,
                reason,
                stderr_tail,
            }) = stumble
            {
                let cause = Cause::Stage { stage, reason };
                attempt.failure = Some(failure(cause, stderr_tail, &plain, job, setting));
            }
            attempt
        }
    }
}

/// What a person would type to start the target by hand.
fn replayed(assignment: &Assignment) -> Spec {
    crate::process::Spec {
        directory: Some(assignment.target.directory.clone()),
        environment: assignment.target.plain_environment(),
        ..Spec::new(
            assignment
                .target
                .command
                .first()
                .cloned()
                .unwrap_or_default(),
        )
        .args(assignment.target.command.iter().skip(1).cloned())
    }
}

/// Its figures as samples.
fn observation(job: &Job, performed: Performed, load: Option<String>) -> Observation {
    let case = job.case.clone();
    let mut seen = Observation {
        case: case.unwrap_or_else(|| Case::new(&job.source.name, Vec::new())),
        samples: Vec::new(),
        metrics: Vec::new(),
        notes: performed.notes,
        check: None,
        load: load.map(Arc::from),
    };
    for measure in performed.figures {
        let metric: Arc<str> = Arc::from(measure.metric.name.as_str());
        seen.samples
            .extend(measure.values.iter().map(|&value| Sample {
                metric: metric.clone(),
                value,
                elapsed_ns: None,
                iterations: None,
            }));
        if seen
            .metrics
            .iter()
            .all(|known| known.name != measure.metric.name)
        {
            seen.metrics.push(measure.metric);
        }
    }
    seen
}
