//! What a session says of each of its series: one point, which stands for it in every trend.
//!
//! Decides what is a point and which revision, machine and circumstances it belongs to. It must not look at other sessions.
//! Start at [`points`].

use crate::builds::independent_values;
use crate::circumstances::{Activity, facts};
use crate::grid::Grid;
use speedwell_model::{
    Environment, Machine, Metric, Origin, OriginSource, Point, PointKind, Revision, Run, SeriesKey,
    Session, SessionPoint, SessionPoints, State, Variant,
};
use speedwell_stats::describe::{NORMAL_CONSISTENCY, mad, median};
use speedwell_stats::interval::median_binomial;

/// The name under which series of single variants go, so that a program that is compared is the one that is run alone.
const ONLY: &str = "default";

/// Confidence of the interval of a point.
const CONFIDENCE: f64 = 0.95;

/// All points of a session. One that did not end as planned has none: what is missing there is not filled in. Nor has one on
/// several machines, because a point is of one.
pub fn points(session: &Session) -> SessionPoints {
    let mut points = PointsInTurn::default();
    points.add(session);
    points.of(session)
}

/// The points of a session that is seen some cases at a time. Of each run that is gone, a few numbers stay.
#[derive(Default)]
pub struct PointsInTurn {
    activity: Activity,
    points: Vec<SessionPoint>,
}

impl PointsInTurn {
    /// Takes in the session with all runs of some of its cases.
    pub fn add(&mut self, part: &Session) {
        self.activity.add(&part.runs);
        if matches!(part.state, State::Complete | State::Imported) && part.machines.len() < 2 {
            self.points.extend(all(part));
        }
    }

    /// The points of the session, as [`points`] gives them. It need not have runs.
    pub fn of(self, session: &Session) -> SessionPoints {
        let mut circumstances = facts(&session.environment);
        circumstances.retain(|(name, _)| name != "host");
        circumstances.extend(programs(session));
        circumstances.extend(self.activity.facts());
        SessionPoints {
            machine: machine(&session.environment, session.origin.as_ref()),
            circumstances,
            points: self.points,
        }
    }
}

fn all(session: &Session) -> Vec<SessionPoint> {
    let grid = Grid::new(session);
    let mut all = Vec::new();
    for case in &grid.cases {
        for (name, runs) in grid.variants.iter().zip(&case.by_variant) {
            let variant = session.variants.iter().find(|own| own.name == **name);
            for (place, metric) in session.metrics.iter().enumerate() {
                if let Some(point) = point(session, variant, &case.case.benchmark, runs, metric) {
                    all.push(SessionPoint {
                        series: SeriesKey {
                            case: case.id.clone(),
                            variant: series_variant(session, variant, name),
                            metric: metric.clone(),
                        },
                        place,
                        revision: revision(session, variant),
                        point,
                    });
                }
            }
        }
    }
    all
}

fn point(
    session: &Session,
    variant: Option<&Variant>,
    benchmark: &str,
    runs: &[&Run],
    metric: &Metric,
) -> Option<Point> {
    let values = independent_values(runs, &metric.name);
    let values: Vec<f64> = values.iter().map(|run| run.value).collect();
    let value = Some(median(&values)).filter(|value| value.is_finite())?;
    let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    let spread = NORMAL_CONSISTENCY * mad(&logs);
    let is_worktree = variant.is_some_and(|variant| variant.worktree.is_some());
    Some(Point {
        value,
        interval: median_binomial(&values, CONFIDENCE).map(|ends| (ends.low, ends.high)),
        runs: u32::try_from(values.len()).unwrap_or(u32::MAX),
        spread: Some(spread).filter(|spread| spread.is_finite() && values.len() > 1),
        kind: PointKind::of(session.state, session.design.purpose),
        is_dirty: !is_worktree && session.origin.as_ref().is_some_and(|o| o.dirty.is_some()),
        work: work(session, variant, benchmark).cloned(),
    })
}

/// What the benchmark does: by its whole file, where it is one, and else by its own part of the text.
fn work<'s>(
    session: &'s Session,
    variant: Option<&'s Variant>,
    benchmark: &str,
) -> Option<&'s String> {
    let of_file = session.design.work.get(benchmark);
    of_file.or_else(|| variant?.work.get(benchmark))
}

/// What the variant is called in a series. A session of one variant, and one whose variants are revisions of the same
/// thing, measure what the project is.
fn series_variant(session: &Session, variant: Option<&Variant>, name: &str) -> String {
    let is_revision = variant.is_some_and(|variant| variant.worktree.is_some());
    if session.variants.len() < 2 || is_revision {
        ONLY.to_owned()
    } else {
        name.to_owned()
    }
}

/// The code of a variant: its own revision, or that of the checkout.
fn revision(session: &Session, variant: Option<&Variant>) -> Option<Revision> {
    if let Some(worktree) = variant.and_then(|variant| variant.worktree.as_ref()) {
        return Some(Revision {
            id: worktree.revision.clone(),
            ..Revision::default()
        });
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

/// Which machine it is: the one people name, or the host with its processors. Services that run jobs throw hosts away.
/// Environments that lie side by side on a machine have levels of their own, as machines have.
pub fn machine(environment: &Environment, origin: Option<&Origin>) -> Machine {
    let is_job = origin.is_some_and(|o| o.source == OriginSource::Ci || o.job_url.is_some());
    let Environment {
        machine: label,
        host,
        cpu,
        cpus,
        ..
    } = environment;
    let name = host.clone().filter(|_| !is_job);
    let cpus = cpus.map(|count| format!("{count} processors"));
    let parts: Vec<&str> = [cpu.as_deref(), cpus.as_deref()]
        .into_iter()
        .flatten()
        .collect();
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
    Machine {
        id,
        name,
        label: label.clone(),
        class,
    }
}

/// Versions of Speedwell and of programs that are not built from the revision.
fn programs(session: &Session) -> impl Iterator<Item = (String, String)> {
    let own = session.environment.speedwell.clone();
    let own = own.map(|version| ("speedwell".to_owned(), version));
    let is_only = session.variants.len() < 2;
    let program = session.environment.programs.first().filter(|_| is_only);
    let program = program.and_then(|program| {
        let name = program.path.file_name()?.to_string_lossy().into_owned();
        Some((name, program.version.clone()?))
    });
    own.into_iter().chain(program)
}
