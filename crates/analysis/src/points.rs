//! Turns each series of a session into one point of a trend.
//!
//! Decides which series become points, and each point's revision, machine and environment. Does not
//! look at other sessions. Start at [`session_points`].

use crate::builds::independent_values;
use crate::environment_facts::{MachineActivity, environment_facts};
use crate::grid::RunGrid;
use speedwell_model::{
    CodeOrigin, Environment, HistoryPoint, Machine, Metric, OriginSource, PointKind, Revision, Run,
    SeriesKey, Session, SessionPoint, SessionPoints, SessionState, Variant,
};
use speedwell_stats::describe::{NORMAL_CONSISTENCY, mad, median};
use speedwell_stats::interval::median_binomial;

/// Variant name of series that measure the project itself. Sessions with one variant and
/// comparisons of revisions thus contribute to the same series.
const ONLY_VARIANT: &str = "default";

/// Confidence level of a point's interval.
const CONFIDENCE: f64 = 0.95;

/// All points of a session. A session that did not end as planned has no points, because nothing
/// replaces its missing runs. A session on several machines has no points either, because a point
/// belongs to one machine.
pub fn session_points(session: &Session) -> SessionPoints {
    let mut points = PointCollector::default();
    points.add_part(session);
    points.into_points(session)
}

/// Collects the points of a session, which is read a few cases at a time. Only a few numbers are
/// kept per run.
#[derive(Default)]
pub struct PointCollector {
    activity: MachineActivity,
    points: Vec<SessionPoint>,
}

impl PointCollector {
    /// Adds a part of the session, which holds all runs of some of its cases.
    pub fn add_part(&mut self, part: &Session) {
        self.activity.add_runs(&part.runs);
        if matches!(part.state, SessionState::Complete | SessionState::Imported)
            && part.machines.len() < 2
        {
            self.points.extend(points_of_part(part));
        }
    }

    /// Returns the same points as [`session_points`]. `session` need not have runs.
    pub fn into_points(self, session: &Session) -> SessionPoints {
        let mut facts = environment_facts(&session.environment);
        facts.retain(|(name, _)| name != "host");
        facts.extend(program_facts(session));
        facts.extend(self.activity.activity_facts());
        SessionPoints {
            machine: identify_machine(&session.environment, session.origin.as_ref()),
            environment_facts: facts,
            points: self.points,
        }
    }
}

fn points_of_part(session: &Session) -> Vec<SessionPoint> {
    let grid = RunGrid::new(session);
    let mut points = Vec::new();
    for case in &grid.cases {
        for (name, runs) in grid.variants.iter().zip(&case.by_variant) {
            let variant = session.variants.iter().find(|listed| listed.name == **name);
            for (metric_index, metric) in session.metrics.iter().enumerate() {
                if let Some(point) =
                    series_point(session, variant, &case.case.benchmark, runs, metric)
                {
                    points.push(SessionPoint {
                        series: SeriesKey {
                            case: case.id.clone(),
                            variant: series_variant(session, variant, name),
                            metric: metric.clone(),
                        },
                        metric_index,
                        revision: variant_revision(session, variant),
                        point,
                    });
                }
            }
        }
    }
    points
}

fn series_point(
    session: &Session,
    variant: Option<&Variant>,
    benchmark: &str,
    runs: &[&Run],
    metric: &Metric,
) -> Option<HistoryPoint> {
    let values = independent_values(runs, &metric.name);
    let values: Vec<f64> = values.iter().map(|run| run.value).collect();
    let value = Some(median(&values)).filter(|value| value.is_finite())?;
    let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    let spread = NORMAL_CONSISTENCY * mad(&logs);
    let is_worktree = variant.is_some_and(|variant| variant.worktree.is_some());
    Some(HistoryPoint {
        value,
        interval: median_binomial(&values, CONFIDENCE).map(|ends| (ends.low, ends.high)),
        runs: u32::try_from(values.len()).unwrap_or(u32::MAX),
        spread: Some(spread).filter(|spread| spread.is_finite() && values.len() > 1),
        kind: PointKind::of(session.state, session.design.purpose),
        is_dirty: !is_worktree
            && session.origin.as_ref().is_some_and(|origin| origin.dirty.is_some()),
        benchmark_digest: work_digest(session, variant, benchmark).cloned(),
    })
}

/// Digest of the benchmark's source, as recorded for the whole session or else for the variant.
fn work_digest<'s>(
    session: &'s Session,
    variant: Option<&'s Variant>,
    benchmark: &str,
) -> Option<&'s String> {
    let file_digest = session.design.work.get(benchmark);
    file_digest.or_else(|| variant?.work.get(benchmark))
}

/// Name of the variant in a series. A session of one variant, or of revisions of the same program,
/// measures the project itself.
fn series_variant(session: &Session, variant: Option<&Variant>, name: &str) -> String {
    let is_revision = variant.is_some_and(|variant| variant.worktree.is_some());
    if session.variants.len() < 2 || is_revision {
        ONLY_VARIANT.to_owned()
    } else {
        name.to_owned()
    }
}

/// Revision of a variant: its own, or else the revision of the checkout.
fn variant_revision(session: &Session, variant: Option<&Variant>) -> Option<Revision> {
    if let Some(worktree) = variant.and_then(|variant| variant.worktree.as_ref()) {
        return Some(Revision { id: worktree.revision.clone(), ..Revision::default() });
    }
    let origin = session.origin.as_ref()?;
    Some(Revision {
        id: origin.revision.clone(),
        tree: origin.tree.clone(),
        parents: origin.parents.clone(),
        committed_unix_ms: origin.committed_unix_ms,
        subject: origin.subject.clone(),
    })
}

/// Identifies the machine: by its user-given name, else by host and processors. The host of a CI
/// job is ignored, because it is ephemeral. Named environments on one machine count as separate
/// machines, because the levels of their series differ.
pub fn identify_machine(environment: &Environment, origin: Option<&CodeOrigin>) -> Machine {
    let is_job =
        origin.is_some_and(|origin| origin.source == OriginSource::Ci || origin.job_url.is_some());
    let Environment { machine: label, host, cpu, cpus, .. } = environment;
    let name = host.clone().filter(|_| !is_job);
    let cpu_count = cpus.map(|count| format!("{count} processors"));
    let parts: Vec<&str> = [cpu.as_deref(), cpu_count.as_deref()].into_iter().flatten().collect();
    let class = Some(parts.join(", ")).filter(|class| !class.is_empty());
    let mut id = match label {
        Some(label) => format!("label {label}"),
        None => format!(
            "host {} class {}",
            name.as_deref().unwrap_or(""),
            class.as_deref().unwrap_or("")
        ),
    };
    if let Some(name) = environment.facts.get(Environment::NAME) {
        id.push_str(&format!(" environment {name}"));
    }
    Machine { id, name, label: label.clone(), class }
}

/// Version of Speedwell and, in a session of one variant, the version of its program.
fn program_facts(session: &Session) -> impl Iterator<Item = (String, String)> {
    let speedwell =
        (session.environment.speedwell.clone()).map(|version| ("speedwell".to_owned(), version));
    let is_only = session.variants.len() < 2;
    let only_program =
        (session.environment.programs.first()).filter(|_| is_only).and_then(|program| {
            let name = program.path.file_name()?.to_string_lossy().into_owned();
            Some((name, program.version.clone()?))
        });
    speedwell.into_iter().chain(only_program)
}
