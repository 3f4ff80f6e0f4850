//! Within which time which percentage of the requests was served: a curve for every case and variant.
//!
//! The runs are the unit of independence, so a curve is the median of those of its runs, and the band around it is
//! the least and the greatest of them.

use crate::model::load_run::LoadRun;
use crate::model::{Case, Session, median};
use speedwell_load::latency::{AB_PERCENTS, every_percent};
use std::sync::Arc;

/// The percentages of the table, which are those of ab.
pub const PERCENTS: [u32; 9] = AB_PERCENTS;

/// One curve. Times are in nanoseconds.
#[derive(Debug, Clone)]
pub struct Curve {
    /// The case.
    pub case: Arc<Case>,
    /// The variant's name.
    pub variant: Arc<str>,
    /// Percentage, and the median, least and greatest time of the runs.
    pub points: Vec<(u32, [f64; 3])>,
    /// Requests under way on average, by Little's law, over the runs.
    pub effective_concurrency: Option<f64>,
    /// Requests under way that were asked for.
    pub asked_concurrency: Option<f64>,
    /// Runs.
    pub runs: usize,
}

impl Curve {
    /// The median time of a percentage.
    pub fn at(&self, percent: u32) -> Option<f64> {
        let found = self.points.iter().find(|(known, _)| *known == percent);
        found.map(|(_, [middle, ..])| *middle)
    }
}

/// The curves of the loads of a session, in order of first appearance of case and variant.
pub fn curves(session: &Session) -> Vec<Curve> {
    let mut found: Vec<(Curve, Vec<[f64; 101]>)> = Vec::new();
    for run in &session.runs {
        // A load that another version kept has no curve.
        let load = run
            .load
            .as_deref()
            .and_then(|text| serde_json::from_str::<LoadRun>(text).ok());
        let Some(load) = load else {
            continue;
        };
        let times = every_percent(load.measured.account.latency.service());
        let mut row = [f64::NAN; 101];
        for served in times {
            row[served.percent.min(100) as usize] = served.within.ns as f64;
        }
        let is_it = |(curve, _): &&mut (Curve, Vec<[f64; 101]>)| {
            curve.case == run.case && curve.variant == run.variant
        };
        match found.iter_mut().find(is_it) {
            Some((_, rows)) => rows.push(row),
            None => {
                let curve = Curve {
                    case: run.case.clone(),
                    variant: run.variant.clone(),
                    points: Vec::new(),
                    effective_concurrency: None,
                    asked_concurrency: load.asked.concurrency().map(f64::from),
                    runs: 0,
                };
                found.push((curve, vec![row]));
            }
        }
    }
    found
        .into_iter()
        .map(|(curve, rows)| completed(curve, &rows, session))
        .collect()
}

fn completed(mut curve: Curve, rows: &[[f64; 101]], session: &Session) -> Curve {
    curve.runs = rows.len();
    curve.points = (0..=100u32)
        .filter_map(|percent| {
            let mut values: Vec<f64> = rows
                .iter()
                .map(|row| row[percent as usize])
                .filter(|ns| ns.is_finite())
                .collect();
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            let most = values.iter().copied().fold(0.0, f64::max);
            Some((percent, [median(&mut values)?, least, most]))
        })
        .collect();
    let of_curve = session
        .runs
        .iter()
        .filter(|run| run.case == curve.case && run.variant == curve.variant);
    let mut under_way: Vec<f64> = of_curve
        .filter_map(|run| run.value_of("effective_concurrency"))
        .collect();
    curve.effective_concurrency = median(&mut under_way);
    curve
}
