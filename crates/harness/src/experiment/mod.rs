//! Runs of experiments: a process of this program performs each one, receiving a single assignment
//! and returning a single report.
//!
//! Decides which parts of a report are samples and which are failures. The definition file
//! (`suite/experiment`) decides what is done, `runner/experiment` how. Start at [`perform`].

mod kept;
mod profiled;

pub use kept::{COMMAND as KEEPING_COMMAND, KeptServices};
pub use profiled::{ProfileOrder, record};

use super::attempt::{failure, start_reason};
use super::events::Events;
use super::job::{Description, Job, Kind, Parameter, Request, Setting, Source};
use super::{Attempt, Harness, Message, Observation, own_program, protocol};
use anyhow::{Context, anyhow};
use speedwell_model::assignment::{self, Assignment, Warmup, Work};
use speedwell_model::performed::{Performed, StageFailure};
use speedwell_model::quote;
use speedwell_model::{Case, Cause, Sample};
use speedwell_process::{Channel, Outcome, Spec, interrupted, run};
use speedwell_suite::Definition;
use speedwell_suite::experiment::{Experiment, Kind as GroupKind, repeated_variant};
use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Hidden command that performs a run.
pub const COMMAND: &str = "perform-run";

/// Time beyond the run's limit after which its process is killed.
const GRACE: Duration = Duration::from_secs(60);

/// Harness for experiments.
pub struct Experiments;

impl Harness for Experiments {
    fn describe(&self, source: &Source, request: &Request) -> Description {
        let experiment = match source
            .definition()
            .and_then(|definition| read(definition, source, request))
        {
            Ok(experiment) => experiment,
            Err(error) => return protocol::unreadable(source, &error),
        };
        let mut description = Description::default();
        for (group, cases) in experiment.cases() {
            let own = group.parameters.iter().map(|(name, values)| Parameter {
                name: name.clone(),
                values: values.clone(),
            });
            description.parameters.extend(own);
            let jobs = cases
                .iter()
                .map(|case| protocol::job_of(source, request, case.clone()));
            description.jobs.extend(jobs);
        }
        let params = experiment.params.iter().map(|(name, value)| Parameter {
            name: name.clone(),
            values: vec![value.clone()],
        });
        description.parameters.extend(params);
        description
    }

    fn perform(&self, job: &Job, setting: &Setting<'_>) -> Attempt {
        match resolved(job, setting) {
            Ok(order) => beside_kept_services(order, job, setting),
            Err(error) => {
                let spec = Spec::new(own_program());
                Attempt::refused(&spec, &format!("{error:#}"), job, setting)
            }
        }
    }

    fn usual_program(&self, source: &Source) -> PathBuf {
        let experiment = source.definition().and_then(Definition::experiment).ok();
        let program = experiment.and_then(|experiment| experiment.program.clone());
        program.map_or_else(own_program, PathBuf::from)
    }
}

/// Reads the file with the user's values. Values for a load file that is measured with other
/// benchmarks may be meant for those, so unknown names are ignored.
fn read<'a>(
    definition: &'a Definition,
    source: &Source,
    request: &Request,
) -> anyhow::Result<Cow<'a, Experiment>> {
    let mut set = request.sets.clone();
    if source.kind == Kind::Load {
        let plain = definition.experiment()?;
        let known: Vec<&String> = plain
            .groups
            .iter()
            .flat_map(|group| &group.parameters)
            .map(|(name, _)| name)
            .collect();
        set.retain(|(name, _)| known.contains(&name));
    }
    definition.experiment_with(set)
}

/// Work of one run.
struct Order {
    assignment: Assignment,
    /// Seed of its random choices.
    seed: u64,
    /// Names of its metrics, the primary one first.
    metrics: Vec<String>,
}

fn resolved(job: &Job, setting: &Setting<'_>) -> anyhow::Result<Order> {
    let experiment = match setting.experiment {
        Some(experiment) => experiment,
        None => job.source.definition()?.experiment()?,
    };
    let case = job.case.as_ref().context("the case is not known")?;
    let group = experiment.group_of(case);
    let group = group.with_context(|| format!("'{}' belongs to no group", case.id()))?;
    let variant = repeated_variant(&setting.variant.name);
    let seed = group.seed.of_run(setting.seed, setting.slot);
    let mut assignment = match group.kind {
        GroupKind::Load => {
            experiment.load_assignment(group, case, setting.variant, Some(&setting.program))?
        }
        _ => experiment.assignment(group, case, variant, seed)?,
    };
    if job.test {
        shorten(&mut assignment);
    }
    // A short-form load reports all metrics in its own order, its rate first.
    let told = match group.kind {
        GroupKind::Load => 0,
        _ => group.metrics.len(),
    };
    let names = group.metrics[..told]
        .iter()
        .map(|metric| group.stored_name(metric));
    Ok(Order {
        assignment,
        seed,
        metrics: names.collect(),
    })
}

/// Reduces a load to a single request for a trial.
fn shorten(assignment: &mut Assignment) {
    match &mut assignment.work {
        Work::Command => {}
        Work::Load(spec) => **spec = std::mem::take(&mut **spec).single_request(),
        Work::Server(service) => {
            let load = &mut service.load;
            load.warmup = Warmup::None;
            load.spec = std::mem::take(&mut load.spec).single_request();
        }
    }
}

/// Starts a process of this program that performs the assignment.
fn answered_by_process(
    assignment: &Assignment,
    seed: u64,
    setting: &Setting<'_>,
) -> anyhow::Result<(Outcome, Events)> {
    let spec = Spec {
        channel: Channel::Harness,
        limit: match assignment.work {
            Work::Load(_) => setting.limit,
            // The process enforces the limits of each stage itself; this one is a fallback.
            _ => setting.limit + GRACE,
        },
        pin: setting.pin.cloned(),
        ..Spec::new(own_program()).args([COMMAND])
    };
    let text = serde_json::to_string(assignment)?;
    let order = Message::new("run").with("id", 2).with("seed", seed);
    let mut events = Events::after([order.with("assignment", text)]);
    let outcome = run(&spec, &mut events).map_err(|error| anyhow!(start_reason(&spec, &error)))?;
    Ok((outcome, events))
}

/// Performs a run once its shared services are ready.
fn beside_kept_services(mut order: Order, job: &Job, setting: &Setting<'_>) -> Attempt {
    let Some((kept, block)) = setting.kept else {
        return perform(&order, job, setting);
    };
    let plain = replayed(&order.assignment);
    let failed = |why: StageFailure| {
        let StageFailure {
            stage,
            reason,
            stderr_tail,
        } = why;
        failure(
            Cause::Stage { stage, reason },
            stderr_tail,
            &plain,
            job,
            setting,
        )
    };
    if let Err(why) = kept.ready(&mut order.assignment, block) {
        return Attempt {
            failure: Some(failed(why)),
            interrupted: interrupted(),
            ..Attempt::default()
        };
    }
    let mut attempt = perform(&order, job, setting);
    // A lost service is reported first: a target whose database is gone fails because of that.
    if let Some(why) = kept.lost(attempt.failure.is_some()) {
        attempt.failure = Some(failed(why));
    }
    attempt
}

/// Performs a run in a process.
fn perform(order: &Order, job: &Job, setting: &Setting<'_>) -> Attempt {
    let plain = replayed(&order.assignment);
    match answered_by_process(&order.assignment, order.seed, setting) {
        Err(error) => Attempt::refused(&plain, &format!("{error:#}"), job, setting),
        Ok((outcome, events)) => {
            let told = events.first("performed");
            let performed = told.and_then(performed);
            let (seen, stage_failure, fault) = match performed {
                None => (None, None, Some(events.error().unwrap_or(Cause::Silent))),
                Some(performed) => {
                    let load = told.and_then(|told| told.get("load"));
                    let stage_failure = performed.failure.clone();
                    (
                        Some(observation(job, &order.metrics, performed, load)),
                        stage_failure,
                        None,
                    )
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
            if let Some(StageFailure {
                stage,
                reason,
                stderr_tail,
            }) = stage_failure
            {
                let cause = Cause::Stage { stage, reason };
                attempt.failure = Some(failure(cause, stderr_tail, &plain, job, setting));
            }
            attempt
        }
    }
}

/// Extracts the report from a message.
fn performed(told: &Message) -> Option<Performed> {
    serde_json::from_str(&told.get("json")?).ok()
}

/// Port shown in replay commands, where any port works; that of the run may be in use by now.
const ANY_PORT: u16 = 3000;

/// Builds the command a user would type to start the target, or to send the load.
fn replayed(assigned: &Assignment) -> Spec {
    let target = &assigned.target;
    let port = match &assigned.work {
        Work::Server(service) => service.port.unwrap_or(ANY_PORT),
        Work::Command | Work::Load(_) => ANY_PORT,
    };
    let host = (assigned.placement.as_ref()).map(|own| own.of_target().address);
    let host = host.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)).to_string();
    let blanks = [
        ("port".to_owned(), port.to_string()),
        ("target.host".to_owned(), host.clone()),
        ("host".to_owned(), host),
    ];
    let filled = |text: &String| assignment::filled(text, &blanks);
    if let Work::Load(spec) = &assigned.work {
        let mut spec = spec.as_ref().clone().fill(&|text| filled(&text.to_owned()));
        spec.serve = spec
            .serve
            .map(|line| exports(&target.plain_environment()) + &line);
        let args = ["load".to_owned()].into_iter().chain(spec.to_args());
        return Spec {
            directory: Some(target.directory.clone()),
            ..Spec::new(own_program()).args(args).args(["--no-save"])
        };
    }
    let mut words = target.command.iter().map(filled);
    let environment = target.plain_environment().into_iter();
    Spec {
        directory: Some(target.directory.clone()),
        environment: environment
            .map(|(name, value)| (name, filled(&value)))
            .collect(),
        ..Spec::new(words.next().unwrap_or_default()).args(words)
    }
}

/// Exports variables for the server alone; they must not affect the load generator.
fn exports(environment: &[(String, String)]) -> String {
    let one = |(name, value): &(String, String)| format!("export {name}={}; ", quote(value));
    environment.iter().map(one).collect()
}

/// Converts the report to samples.
fn observation(
    job: &Job,
    metrics: &[String],
    mut performed: Performed,
    load: Option<String>,
) -> Observation {
    // Metrics of the file come first, because the first metric is the one compared.
    performed.figures.sort_by_key(|measure| {
        let place = metrics.iter().position(|name| *name == measure.metric.name);
        place.unwrap_or(metrics.len())
    });
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
                elapsed_ns: measure.elapsed_ns,
                iterations: measure.iterations,
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
