//! Whether the report that was asked for can be made, before the first run: the same report, of made-up figures.
//!
//! Decides what is made up. A column to sort by, a parameter for the x axis or a chart that does not exist is then
//! refused by the very code that would refuse it afterwards. Names of metrics are the exception: only a run tells them
//! ([`MetricCheck`]). Start at [`check`].

use super::options::RunArgs;
use super::report::document_of;
use crate::analysis::{self, Settings};
use crate::harness::{Job, Kind};
use crate::model::{
    Better, Case, Environment, Event, Metric, Observer, Run, Sample, Session, State,
};
use crate::plan::{Plan, Slot};
use crate::report::{self, ChartKind};
use anyhow::{Context, bail};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Made-up runs of a case and variant: enough for every interval and test.
const RUNS: u32 = 8;

/// Cases with the same parameters that are made up; more would show the same columns and charts.
const ALIKE: usize = 3;

/// Checks what the options ask of the report.
///
/// # Errors
/// What cannot be shown of such a session.
pub fn check(plan: &Plan, settings: &Settings, args: &RunArgs) -> anyhow::Result<()> {
    let output = args.output.settings();
    let is_whole = args.study.x_axis.is_none() && settings.metrics.is_empty();
    if plan.design.experiment.is_some() && is_whole {
        // Its figures come from its own file, and cannot be made up.
        let wants_flames = output.chart == Some(ChartKind::Flame);
        if wants_flames && !args.profile {
            bail!("flame graphs are drawn of profiles\nhint: measure with --profile");
        }
        return Ok(());
    }
    let asks = output.sort.is_some()
        || output.chart.is_some()
        || args.study.x_axis.is_some()
        || !output.files.is_empty();
    let knows_cases = plan.jobs.iter().all(|job| job.case.is_some());
    if !asks || !knows_cases || plan.jobs.is_empty() || args.style.is_some() {
        return Ok(());
    }
    let session = session(plan, settings);
    let findings = analysis::of(&session, settings);
    let document = document_of(&session, &findings, &args.study, settings, &output)?;
    report::check(&document, &output).map(|_| ())
}

/// The session that the plan might give.
fn session(plan: &Plan, settings: &Settings) -> Session {
    let plan = shortened(plan);
    let metrics = metrics(&plan, settings);
    let slots = plan.slots().into_iter();
    let runs = slots.filter(|slot| slot.ordinal < RUNS);
    Session {
        id: String::new(),
        number: None,
        started_unix_ms: 0,
        state: State::Complete,
        tags: Vec::new(),
        command: Vec::new(),
        runs: runs
            .filter_map(|slot| run(&plan, &slot, &metrics))
            .collect(),
        design: plan.design,
        variants: plan.variants,
        metrics,
        environment: Environment::default(),
        failures: Vec::new(),
        profiles: Vec::new(),
    }
}

/// The plan with few cases of each kind.
fn shortened(plan: &Plan) -> Plan {
    let mut seen: HashMap<(String, Vec<String>), usize> = HashMap::new();
    let is_new = |job: &&Job| {
        let case = job.case.as_ref();
        let names = case.map_or_else(Vec::new, |case| {
            case.values.iter().map(|(name, _)| name.clone()).collect()
        });
        let count = seen.entry((job.source.name.clone(), names)).or_default();
        *count += 1;
        *count <= ALIKE
    };
    Plan {
        jobs: plan.jobs.iter().filter(is_new).cloned().collect(),
        ..plan.clone()
    }
}

/// The metrics of its runs: those asked for, and those that pieces of code always have.
fn metrics(plan: &Plan, settings: &Settings) -> Vec<Metric> {
    let asked = settings.metrics.iter().map(String::as_str);
    let mut names: Vec<&str> = asked.filter(|name| *name != "all").collect();
    let is_code = |job: &Job| matches!(job.source.kind, Kind::Code(_));
    if plan.jobs.iter().any(is_code) {
        names.extend([Metric::TIME, Metric::TIME_MEDIAN, Metric::TIME_P5]);
        names.extend(["user_time", "system_time"]);
    }
    let others = names.into_iter().filter(|name| *name != Metric::THROUGHPUT);
    let others = others.map(|name| Metric::new(name, "ns", Better::Lower));
    [Metric::throughput()].into_iter().chain(others).collect()
}

fn run(plan: &Plan, slot: &Slot, metrics: &[Metric]) -> Option<Run> {
    let case: &Case = plan.jobs[slot.job].case.as_ref()?;
    let sample = |metric: &Metric| Sample {
        metric: Arc::from(metric.name.as_str()),
        value: 100.0 + f64::from(slot.index),
        elapsed_ns: Some(1_000_000),
        iterations: Some(1.0),
    };
    Some(Run {
        case: Arc::new(case.clone()),
        variant: Arc::from(plan.variants[slot.variant].name.as_str()),
        slot: slot.index,
        block: slot.block,
        started_unix_ms: 0,
        wall_ns: 1_000_000,
        usage: None,
        samples: metrics.iter().map(sample).collect(),
        notes: Vec::new(),
        load: None,
    })
}

/// Ends a session when every case has been executed once and a metric that was asked for is none of theirs.
pub struct MetricCheck<'a> {
    settings: &'a Settings,
    job_of_slot: Vec<usize>,
    unseen: HashSet<usize>,
    declared: Vec<String>,
    has_refused: bool,
}

impl<'a> MetricCheck<'a> {
    /// The check for a session that begins; one that is resumed was checked when it began.
    pub fn new(plan: &Plan, settings: &'a Settings, is_resumed: bool) -> MetricCheck<'a> {
        let needs_none = settings.metrics.is_empty() || is_resumed;
        let slots = if needs_none { Vec::new() } else { plan.slots() };
        let job_of_slot: Vec<usize> = slots.iter().map(|slot| slot.job).collect();
        MetricCheck {
            settings,
            unseen: job_of_slot.iter().copied().collect(),
            job_of_slot,
            declared: Vec::new(),
            has_refused: false,
        }
    }

    /// Whether it ended the session.
    pub fn has_refused(&self) -> bool {
        self.has_refused
    }
}

impl Observer for MetricCheck<'_> {
    fn observe(&mut self, event: &Event<'_>) -> anyhow::Result<()> {
        match event {
            Event::Declared(metric) => self.declared.push(metric.name.clone()),
            Event::SlotDone(slot) => {
                let job = self.job_of_slot.get(*slot as usize);
                let is_first = job.is_some_and(|job| self.unseen.remove(job));
                if is_first && self.unseen.is_empty() {
                    let known = self.declared.iter().map(String::as_str);
                    let checked = analysis::check_metrics(self.settings, known);
                    self.has_refused = checked.is_err();
                    checked.context("in --metric")?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}
