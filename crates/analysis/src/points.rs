//! Turns each series of a session into one point of a trend, extracts and compares the facts about
//! the environment of sessions, and describes what happened to a machine over its sessions: changed
//! settings, the load that others put on it, and series that became noisier.
//!
//! Decides which series become points, and each point's revision, machine and environment, and
//! which facts can affect figures. Start at [`session_points`], [`environment_facts`] and
//! [`fact_changes`].

use crate::builds::independent_values;
use crate::evidence::mann_whitney_p;
use crate::grid::RunGrid;
use speedwell_model::{
    CodeOrigin, DisturbanceFigure, Environment, HistoryPoint, Machine, Metric, OriginSource,
    PointKind, Revision, Run, RunOrder, SeriesKey, Session, SessionPoint, SessionPoints,
    SessionState, Variant,
};
use speedwell_stats::describe::{NORMAL_CONSISTENCY, mad, median};
use speedwell_stats::interval::median_binomial;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Variant name of series that measure the project itself. Sessions with one variant and
/// comparisons of revisions both use this name, so their points belong to the same series.
const ONLY_VARIANT: &str = "default";

/// Confidence level of a point's interval.
const CONFIDENCE: f64 = 0.95;

/// All points of a session. A session that did not end as planned has no points, because nothing
/// replaces its missing runs. A session on several machines has no points either, because a point
/// belongs to one machine. Pairs have no points, because a shared processor raises their level by
/// an amount that depends on the other side.
pub fn session_points(session: &Session) -> SessionPoints {
    let mut points = PointCollector::default();
    points.add_part(session);
    points.into_points(session)
}

/// Collects the points of a session, which is read a few cases at a time. Only a few numbers are
/// kept per run.
#[derive(Default)]
pub struct PointCollector {
    /// Values of each figure of [`ACTIVITY_FIGURES`] in the runs, in percent.
    activity: [Vec<f64>; ACTIVITY_FIGURES.len()],
    points: Vec<SessionPoint>,
}

impl PointCollector {
    /// Adds a part of the session, which holds all runs of some of its cases.
    pub fn add_part(&mut self, part: &Session) {
        for ((_, figure), values) in ACTIVITY_FIGURES.into_iter().zip(&mut self.activity) {
            values.extend(part.runs.iter().filter_map(|run| figure.value_in(run)));
        }
        if matches!(part.state, SessionState::Complete | SessionState::Imported)
            && part.machines.len() < 2
            && part.design.order != RunOrder::Paired
        {
            self.points.extend(points_of_part(part));
        }
    }

    /// Returns the same points as [`session_points`]. `session` need not have runs.
    pub fn into_points(self, session: &Session) -> SessionPoints {
        let mut facts = environment_facts(&session.environment);
        facts.retain(|(name, _)| name != "host");
        facts.extend(program_facts(session));
        // Load differs between any two sessions, so `activity_shifts` compares many of them.
        let activity = ACTIVITY_FIGURES.into_iter().zip(&self.activity);
        let measured = activity.filter(|(_, values)| !values.is_empty());
        let percent = |values: &[f64]| format!("{:.0}%", median(values));
        facts.extend(measured.map(|((name, _), values)| (name.to_owned(), percent(values))));
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
    let worktree = variant.and_then(|variant| variant.worktree.as_ref());
    // The digest is recorded for the whole session or else for the variant.
    let file_digest = session.design.work.get(benchmark);
    let digest = file_digest.or_else(|| variant?.work.get(benchmark));
    Some(HistoryPoint {
        value,
        interval: median_binomial(&values, CONFIDENCE).map(|ends| (ends.low, ends.high)),
        runs: u32::try_from(values.len()).unwrap_or(u32::MAX),
        spread: Some(spread).filter(|spread| spread.is_finite() && values.len() > 1),
        kind: PointKind::of(session.state, session.design.purpose),
        is_dirty: match worktree {
            Some(worktree) => worktree.changes.is_some(),
            None => session.origin.as_ref().is_some_and(|origin| origin.dirty.is_some()),
        },
        benchmark_digest: digest.cloned(),
    })
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
/// job is ignored, because it is ephemeral. Named environments on one machine are treated as
/// separate machines, because the levels of their series differ.
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

/// Facts about one session, as names and values.
pub type EnvironmentFacts = Arc<Vec<(String, String)>>;

/// Figures that show the load of the machine. Pressure saturates once there are two more running
/// programs than processors. The time that the measured program waited for a processor does not
/// saturate.
pub(crate) const ACTIVITY_FIGURES: [(&str, DisturbanceFigure); 3] = [
    ("cpu pressure", DisturbanceFigure::Pressure),
    ("steal", DisturbanceFigure::Steal),
    ("time without a processor", DisturbanceFigure::Wait),
];

/// Minimum number of sessions on each side of a change for judging the machine load.
const MIN_SESSIONS: usize = 3;

/// Smallest shift of a load figure that is worth reporting, in percentage points.
const MIN_SHIFT_PERCENT: f64 = 10.0;

/// A fact on which two sessions differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FactDifference {
    /// Name of the fact.
    pub name: String,
    /// Value in the first session.
    pub before: String,
    /// Value in the second session.
    pub after: String,
}

/// Facts about a machine and its settings that can affect figures, in display order. Facts that
/// change from minute to minute are left out.
pub fn environment_facts(environment: &Environment) -> Vec<(String, String)> {
    let aslr = environment.aslr.map(|on| if on { "on" } else { "off" });
    let governors = environment.governors.join("+");
    let named_facts = [
        ("host", environment.host.clone()),
        ("processor", environment.cpu.clone()),
        ("processors", environment.cpus.map(|count| count.to_string())),
        ("kernel", environment.kernel.clone()),
        ("clock governor", Some(governors).filter(|names| !names.is_empty())),
        ("address randomisation", aslr.map(str::to_owned)),
        (TUNED_FACT, tuned_knobs(environment)),
    ];
    let other_facts = (environment.facts.iter())
        .filter(|(name, _)| !is_volatile(name) && name.as_str() != TUNED_FACT);
    named_facts
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .chain(other_facts.map(|(name, value)| (name.replace('_', " "), value.clone())))
        .collect()
}

/// Load of the machine in a session, in percent, from the facts of [`PointCollector`].
fn activity_percent(facts: &EnvironmentFacts, figure_name: &str) -> Option<f64> {
    let (_, value) = facts.iter().find(|(name, _)| name == figure_name)?;
    value.strip_suffix('%')?.trim_end().parse().ok()
}

/// Compares the machine load of the sessions before and after a change. Returns the differences
/// that are large enough to explain the change.
pub fn activity_shifts(
    before: &[EnvironmentFacts],
    after: &[EnvironmentFacts],
) -> Vec<FactDifference> {
    let median_percent = |sessions: &[EnvironmentFacts], name: &str| {
        let values: Vec<f64> =
            sessions.iter().filter_map(|facts| activity_percent(facts, name)).collect();
        (values.len() >= MIN_SESSIONS).then(|| median(&values))
    };
    let shift = |(name, _): (&str, DisturbanceFigure)| {
        let (before, after) = (median_percent(before, name)?, median_percent(after, name)?);
        ((after - before).abs() >= MIN_SHIFT_PERCENT).then(|| FactDifference {
            name: name.to_owned(),
            before: format!("{before:.0}%"),
            after: format!("{after:.0}%"),
        })
    };
    ACTIVITY_FIGURES.into_iter().filter_map(shift).collect()
}

/// Facts whose values differ between the sides. Facts that only one side has, and facts about
/// machine load, are left out.
pub fn fact_differences(
    before: &[(String, String)],
    after: &[(String, String)],
) -> Vec<FactDifference> {
    let after_by_name: HashMap<&str, &str> =
        after.iter().map(|(name, value)| (&**name, &**value)).collect();
    before
        .iter()
        .filter_map(|(name, value)| {
            let is_activity = ACTIVITY_FIGURES.iter().any(|(figure_name, _)| figure_name == name);
            let after = *after_by_name.get(&**name)?;
            (after != value && !is_activity).then(|| FactDifference {
                name: name.clone(),
                before: value.clone(),
                after: after.to_owned(),
            })
        })
        .collect()
}

/// Fact that names the active knobs of `speedwell tune`.
pub(crate) const TUNED_FACT: &str = "tuned";

/// Active knobs, if known. Speedwell always records active knobs, so in a session that it measured,
/// a missing fact means that no knob was active.
fn tuned_knobs(environment: &Environment) -> Option<String> {
    let knobs = environment.facts.get(TUNED_FACT).cloned();
    knobs.or_else(|| environment.speedwell.as_ref().map(|_| "nothing".to_owned()))
}

/// Whether a fact, such as free memory, changes from minute to minute and so differs between any
/// two sessions.
fn is_volatile(fact: &str) -> bool {
    fact.starts_with("now_") || fact == "mhz_per_cpu"
}

/// A fact that differs from its last value on the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FactChange {
    /// The first session with the new value.
    pub session: i64,
    /// The fact with both values.
    pub difference: FactDifference,
}

/// Returns the changes of facts over the sessions of a machine, which are in order. A fact that a
/// session lacks keeps its last value: programs of other benchmarks come and go. Facts about load
/// are left out, because they differ between any two sessions; see [`activity_by_session`].
pub fn fact_changes(sessions: &[(i64, EnvironmentFacts)]) -> Vec<FactChange> {
    let mut last_values: BTreeMap<String, String> = BTreeMap::new();
    let mut changes = Vec::new();
    for (session, facts) in sessions {
        let before: Vec<(String, String)> =
            last_values.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        let differences = fact_differences(&before, facts).into_iter();
        changes.extend(differences.map(|difference| FactChange { session: *session, difference }));
        last_values.extend(facts.iter().cloned());
    }
    changes
}

/// Returns the load of a machine as the kernel reports it: for each figure, the sessions with their
/// medians in percent. Figures without a value are left out.
pub fn activity_by_session(
    sessions: &[(i64, EnvironmentFacts)],
) -> Vec<(&'static str, Vec<(i64, f64)>)> {
    let values_of = |figure_name: &str| -> Vec<(i64, f64)> {
        let percent = |(session, facts): &(i64, EnvironmentFacts)| {
            Some((*session, activity_percent(facts, figure_name)?))
        };
        sessions.iter().filter_map(percent).collect()
    };
    let figures = ACTIVITY_FIGURES.into_iter().map(|(name, _)| (name, values_of(name)));
    figures.filter(|(_, values)| !values.is_empty()).collect()
}

/// Number of latest points that are compared with earlier ones.
const RECENT_POINTS: usize = 5;
/// Minimum and maximum number of earlier points.
const EARLIER_POINTS: [usize; 2] = [10, 20];
/// Smallest growth of the spread that is reported.
const MIN_GROWTH: f64 = 1.5;
/// Spreads below this fraction disturb no comparison.
const MIN_SPREAD: f64 = 0.001;
/// Probability of naming any series if no noise has grown.
const ALPHA: f64 = 0.05;

/// A series whose runs differ more than they did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GrownNoise {
    /// The number of the series.
    pub series: i64,
    /// The median spread of the earlier points, as a fraction.
    pub before: f64,
    /// The median spread of the latest points.
    pub after: f64,
}

/// Finds the series whose noise grew. `spreads` has the relative spreads of the points of each
/// series, oldest first ([`speedwell_model::HistoryPoint::spread`]).
///
/// The rule: the last 5 points are compared with up to 20 points before them, at least 10. The
/// noise grew if the median spread is at least 1.5 times as large and above 0.1%, and the
/// Mann-Whitney test finds a difference at 5%, corrected for the number of series (Bonferroni).
/// The series with the largest growth comes first.
pub fn grown_noise(spreads: &BTreeMap<i64, Vec<f64>>) -> Vec<GrownNoise> {
    let sides = |spreads: &[f64]| -> Option<(Vec<f64>, Vec<f64>)> {
        let [fewest, most] = EARLIER_POINTS;
        let earlier_count = spreads.len().checked_sub(RECENT_POINTS)?;
        let (earlier, recent) = spreads.split_at(earlier_count);
        let earlier = &earlier[earlier.len().saturating_sub(most)..];
        (earlier.len() >= fewest).then(|| (earlier.to_vec(), recent.to_vec()))
    };
    let sides_of = |(series, values): (&i64, &Vec<f64>)| Some((*series, sides(values)?));
    let compared: Vec<_> = spreads.iter().filter_map(sides_of).collect();
    let level = ALPHA / compared.len().max(1) as f64;
    let mut grown: Vec<GrownNoise> = compared
        .iter()
        .filter_map(|(series, (earlier, recent))| {
            let (before, after) = (median(earlier), median(recent));
            let is_larger = after >= MIN_GROWTH * before && after >= MIN_SPREAD;
            (is_larger && mann_whitney_p(earlier, recent) < level).then_some(GrownNoise {
                series: *series,
                before,
                after,
            })
        })
        .collect();
    let growth = |noise: &GrownNoise| noise.after / noise.before.max(MIN_SPREAD);
    grown.sort_by(|one, other| growth(other).total_cmp(&growth(one)));
    grown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sessions(percents: &[&str]) -> Vec<EnvironmentFacts> {
        let facts = |percent: &&str| {
            let pressure = ("cpu pressure".to_owned(), format!("{percent}%"));
            Arc::new(vec![("kernel".to_owned(), "6.1".to_owned()), pressure])
        };
        percents.iter().map(facts).collect()
    }

    #[test]
    fn a_machine_that_became_busy_is_reported_once_for_many_sessions() {
        let (quiet, busy) = (sessions(&["0", "2", "60"]), sessions(&["50", "3", "71", "64"]));
        let expected = FactDifference {
            name: "cpu pressure".into(),
            before: "2%".into(),
            after: "57%".into(),
        };
        assert_eq!(activity_shifts(&quiet, &busy), [expected]);
        assert_eq!(activity_shifts(&quiet, &quiet), []);
        assert_eq!(activity_shifts(&quiet, &busy[..2]), [], "two sessions say little");
        assert_eq!(fact_differences(&quiet[0], &busy[0]), [], "any two sessions differ");
    }

    fn facts(list: &[(&str, &str)]) -> EnvironmentFacts {
        Arc::new(list.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect())
    }

    #[test]
    fn settings_are_changes_and_load_is_not() {
        let sessions = [
            (1, facts(&[("kernel", "6.1"), ("node", "v20"), ("cpu pressure", "3%")])),
            (2, facts(&[("kernel", "6.1"), ("cpu pressure", "60%"), ("steal", "1%")])),
            (3, facts(&[("kernel", "6.8"), ("node", "v22"), ("cpu pressure", "4%")])),
        ];
        let found = fact_changes(&sessions);
        let found: Vec<(i64, &str, &str, &str)> = found
            .iter()
            .map(|FactChange { session, difference }| {
                (*session, &*difference.name, &*difference.before, &*difference.after)
            })
            .collect();
        assert_eq!(found, [(3, "kernel", "6.1", "6.8"), (3, "node", "v20", "v22")]);
        let activity = activity_by_session(&sessions);
        assert_eq!(activity[0], ("cpu pressure", vec![(1, 3.0), (2, 60.0), (3, 4.0)]));
        assert_eq!(activity[1], ("steal", vec![(2, 1.0)]));
    }

    #[test]
    fn noise_must_grow_clearly_and_for_several_sessions() {
        let earlier: Vec<f64> = (0..20).map(|at| 0.010 + f64::from(at) * 0.0001).collect();
        let with = |recent: &[f64]| [&earlier[..], recent].concat();
        let spreads = BTreeMap::from([
            (1, with(&[0.05, 0.06, 0.05, 0.07, 0.055])),
            (2, with(&[0.011, 0.010, 0.012, 0.011, 0.0105])),
            (3, with(&[0.011, 0.010, 0.012, 0.011, 0.5])),
            (4, vec![0.01, 0.01, 0.01, 0.2, 0.2, 0.2, 0.2, 0.2]),
        ]);
        let found: Vec<i64> = grown_noise(&spreads).iter().map(|noise| noise.series).collect();
        assert_eq!(found, [1]);
    }
}
