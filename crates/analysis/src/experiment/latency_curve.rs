//! Computes latency curves: the time within which each percentage of requests was served, per case
//! and variant.
//!
//! Runs count as independent, requests do not: a curve is the median over its runs, and the band
//! around it spans their minimum and maximum.

use speedwell_model::load::latency::{AB_PERCENTS, percent_rows};
use speedwell_model::load::run::LoadRun;
use speedwell_model::{Case, ParameterValue, Run, Session, median};
use std::sync::Arc;

/// Percentages in the latency table: the list that ab (ApacheBench) uses.
pub const PERCENTS: [u32; 9] = AB_PERCENTS;

/// Minimum number of points of a curve.
const MIN_CURVE_POINTS: usize = 3;

/// Time in nanoseconds within which each percentage of a run's requests was served; NaN if unknown.
type PercentTimes = [f64; 101];

/// A latency curve. Times are in nanoseconds.
#[derive(Debug, Clone)]
pub struct LatencyCurve {
    /// The case.
    pub case: Arc<Case>,
    /// Name of the variant.
    pub variant: Arc<str>,
    /// Each percentage with its time: the median, minimum and maximum over the runs.
    pub points: Vec<(u32, [f64; 3])>,
    /// Number of requests in flight by Little's law: the median over the runs.
    pub effective_concurrency: Option<f64>,
    /// Requested number of requests in flight.
    pub requested_concurrency: Option<f64>,
    /// Number of runs.
    pub runs: usize,
}

impl LatencyCurve {
    /// Median time of a percentage.
    pub fn median_at(&self, percent: u32) -> Option<f64> {
        let point = self.points.iter().find(|(listed, _)| *listed == percent);
        point.map(|(_, [middle, ..])| *middle)
    }
}

/// Latency curves of a session's loads, in the order in which case and variant first appear.
pub fn latency_curves(session: &Session) -> Vec<LatencyCurve> {
    let mut curves: Vec<(LatencyCurve, Vec<PercentTimes>)> = Vec::new();
    for run in &session.runs {
        let load = run.load.as_deref().and_then(|text| serde_json::from_str::<LoadRun>(text).ok());
        let row = match &load {
            Some(load) => times_of_histogram(load),
            None => times_of_percentiles(run),
        };
        let Some(row) = row else {
            continue;
        };
        let is_of_run = |(curve, _): &&mut (LatencyCurve, Vec<PercentTimes>)| {
            curve.case == run.case && curve.variant == run.variant
        };
        match curves.iter_mut().find(is_of_run) {
            Some((_, rows)) => rows.push(row),
            None => {
                let curve = LatencyCurve {
                    case: run.case.clone(),
                    variant: run.variant.clone(),
                    points: Vec::new(),
                    effective_concurrency: None,
                    requested_concurrency: requested_concurrency(load.as_ref(), run),
                    runs: 0,
                };
                curves.push((curve, vec![row]));
            }
        }
    }
    curves.into_iter().map(|(curve, rows)| complete_curve(curve, &rows, session)).collect()
}

/// Times of all percentages, from a load by Speedwell's own generator.
fn times_of_histogram(load: &LoadRun) -> Option<PercentTimes> {
    let mut row = [f64::NAN; 101];
    for served in percent_rows(load.measured.totals.latency.service_times()) {
        row[served.percent.min(100) as usize] = served.within.ns as f64;
    }
    Some(row)
}

/// Times of the percentiles that another tool printed. `None` if there are too few for a curve.
fn times_of_percentiles(run: &Run) -> Option<PercentTimes> {
    let mut row = [f64::NAN; 101];
    for sample in &run.samples {
        let percent = match sample.metric.strip_prefix("latency_") {
            Some("min") => Some(0),
            Some("max") => Some(100),
            Some(name) => name.strip_prefix('p').and_then(|digits| digits.parse::<usize>().ok()),
            None => None,
        };
        if let Some(time) = percent.and_then(|percent| row.get_mut(percent)) {
            *time = sample.value;
        }
    }
    let finite_count = row.iter().filter(|ns| ns.is_finite()).count();
    (finite_count >= MIN_CURVE_POINTS).then_some(row)
}

/// Requested number of requests in flight. Runs of other tools store it only as a parameter.
fn requested_concurrency(load: Option<&LoadRun>, run: &Run) -> Option<f64> {
    let number = |name: &str| run.case.value(name).and_then(ParameterValue::as_number);
    match load {
        Some(load) => load.requested.concurrency().map(f64::from),
        None => number("concurrency").or_else(|| number("connections")),
    }
}

fn complete_curve(
    mut curve: LatencyCurve,
    rows: &[PercentTimes],
    session: &Session,
) -> LatencyCurve {
    curve.runs = rows.len();
    curve.points = (0..=100u32)
        .filter_map(|percent| {
            let mut values: Vec<f64> =
                rows.iter().map(|row| row[percent as usize]).filter(|ns| ns.is_finite()).collect();
            let min = values.iter().copied().fold(f64::INFINITY, f64::min);
            let max = values.iter().copied().fold(0.0, f64::max);
            Some((percent, [median(&mut values)?, min, max]))
        })
        .collect();
    let runs =
        session.runs.iter().filter(|run| run.case == curve.case && run.variant == curve.variant);
    let mut in_flight: Vec<f64> =
        runs.filter_map(|run| run.value_of("effective_concurrency")).collect();
    curve.effective_concurrency = median(&mut in_flight);
    curve
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_fixtures::FakeSession;
    use speedwell_model::Sample;

    #[test]
    fn percentiles_that_another_tool_printed_make_a_curve() {
        let mut session = FakeSession::with_fixed_blocks(&["old", "new"], 1)
            .add_case("web connections=7", |_, _| 1.0)
            .build();
        for (run, slower) in session.runs.iter_mut().zip([0.0, 1e6, 2e6, 3e6]) {
            let times = [("latency_p50", 5e6), ("latency_p98", 9e6), ("latency_max", 2e7)];
            run.samples.extend(times.map(|(name, ns)| Sample {
                metric: Arc::from(name),
                value: ns + slower,
                elapsed_ns: None,
                iterations: None,
            }));
        }
        let found = latency_curves(&session);
        assert_eq!(found.len(), 2);
        for curve in &found {
            let percents: Vec<u32> = curve.points.iter().map(|(percent, _)| *percent).collect();
            assert_eq!(percents, [50, 98, 100]);
            assert_eq!((curve.runs, curve.requested_concurrency), (2, Some(7.0)));
        }
        for run in &mut session.runs {
            run.samples.retain(|sample| &*sample.metric != "latency_max");
        }
        assert!(latency_curves(&session).is_empty(), "two points are no curve");
    }
}
