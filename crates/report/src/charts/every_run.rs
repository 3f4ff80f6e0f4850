//! The runs of one case: in order of execution, with a box per variant. The chart of a page's gallery.

use super::gather::axis;
use crate::document::Chart;
use crate::unit::{Scale, UnitChoice};
use speedwell_model::{Metric, RunValue};
use speedwell_plot as plot;

/// The runs of one variant.
#[derive(Debug, Clone, Copy)]
pub struct Lane<'a> {
    /// The variant.
    pub variant: &'a str,
    /// Its runs, in order of execution.
    pub runs: &'a [RunValue],
    /// The figure by which they are compared, or their median: the line, and the unit, follow it.
    pub center: f64,
}

/// Every run of a case. Lanes measured `apart`, in different sessions, have no common order and
/// stand one after the other.
pub fn every_run(
    metric: &Metric,
    lanes: &[Lane<'_>],
    apart: bool,
    unit: Option<UnitChoice>,
) -> Chart {
    let centers: Vec<f64> = lanes.iter().map(|lane| lane.center).collect();
    let scale = Scale::fitting(&metric.unit, &centers, unit);
    let (positions, breaks) = if apart {
        one_after_the_other(lanes)
    } else {
        in_common_order(lanes)
    };
    let series = |(lane, positions): (&Lane<'_>, Vec<usize>)| plot::PointSeries {
        name: lane.variant.to_owned(),
        points: positions
            .into_iter()
            .zip(lane.runs)
            .map(|(at, run)| plot::Point::new(at as f64, scale.shown(run.value)))
            .collect(),
        colour: None,
    };
    let series: Vec<_> = lanes.iter().zip(positions).map(series).collect();
    let all = series.iter().flat_map(|s| s.points.iter().map(|p| p.y));
    let words = if apart {
        "run (the sides were not measured together)"
    } else {
        "run, in order of execution"
    };
    Chart {
        title: format!("{} of every run", metric.name),
        picture: plot::Chart::Runs(plot::RunsChart {
            title: String::new(),
            subtitle: None,
            x: plot::Axis::linear(words),
            y: axis(metric, &scale, all),
            series,
            breaks,
            centers: centers
                .into_iter()
                .map(|center| Some(scale.shown(center)))
                .collect(),
        }),
        shown_elsewhere: false,
    }
}

/// Places on the bottom axis, per lane and run; and the ends of the blocks.
type Places = (Vec<Vec<usize>>, Vec<f64>);

fn in_common_order(lanes: &[Lane<'_>]) -> Places {
    let mut all: Vec<(u32, u32, usize, usize)> = Vec::new();
    for (lane, runs) in lanes.iter().enumerate() {
        let place = |(at, run): (usize, &RunValue)| (run.slot, run.block, lane, at);
        all.extend(runs.runs.iter().enumerate().map(place));
    }
    all.sort_unstable();
    let mut positions: Vec<Vec<usize>> = lanes.iter().map(|l| vec![0; l.runs.len()]).collect();
    for (order, &(_, _, lane, at)) in all.iter().enumerate() {
        positions[lane][at] = order + 1;
    }
    let new_block = |(at, two): (usize, &[(u32, u32, usize, usize)])| {
        (two[0].1 != two[1].1).then_some(at as f64 + 1.5)
    };
    let breaks = all.windows(2).enumerate().filter_map(new_block).collect();
    (positions, breaks)
}

fn one_after_the_other(lanes: &[Lane<'_>]) -> Places {
    let mut first = 1;
    let mut positions = Vec::new();
    let mut breaks = Vec::new();
    for lane in lanes {
        let next = first + lane.runs.len();
        positions.push((first..next).collect());
        breaks.push(next as f64 - 0.5);
        first = next;
    }
    breaks.pop();
    (positions, breaks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(slots: &[(u32, u32)]) -> Vec<RunValue> {
        let run = |&(slot, block): &(u32, u32)| RunValue {
            slot,
            block,
            value: f64::from(slot),
        };
        slots.iter().map(run).collect()
    }

    fn chart(old: &[(u32, u32)], new: &[(u32, u32)], apart: bool) -> plot::RunsChart {
        let (old, new) = (runs(old), runs(new));
        let lane = |variant, runs| Lane {
            variant,
            runs,
            center: 1.0,
        };
        let lanes = [lane("old", &old[..]), lane("new", &new[..])];
        match every_run(&Metric::throughput(), &lanes, apart, None).picture {
            plot::Chart::Runs(chart) => chart,
            other => panic!("{other:?}"),
        }
    }

    fn places(chart: &plot::RunsChart) -> Vec<Vec<f64>> {
        let xs = |series: &plot::PointSeries| series.points.iter().map(|p| p.x).collect();
        chart.series.iter().map(xs).collect()
    }

    #[test]
    fn runs_of_one_session_stand_in_the_order_in_which_they_were_executed() {
        let chart = chart(
            &[(0, 0), (3, 0), (11, 1)],
            &[(1, 0), (2, 0), (10, 1)],
            false,
        );
        assert_eq!(places(&chart), [[1.0, 4.0, 6.0], [2.0, 3.0, 5.0]]);
        assert_eq!(chart.breaks, [4.5]);
    }

    #[test]
    fn runs_of_different_sessions_are_not_mixed() {
        let chart = chart(&[(0, 0), (5, 1)], &[(1, 0), (2, 0), (9, 1)], true);
        assert_eq!(places(&chart), [vec![1.0, 2.0], vec![3.0, 4.0, 5.0]]);
        assert_eq!(chart.breaks, [2.5]);
    }
}
