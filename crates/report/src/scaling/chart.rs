//! Throughput over concurrency, with the fitted law.

use super::super::document::Chart;
use speedwell_analysis::scaling::Scaling;
use speedwell_plot as plot;

/// Points of the fitted curve: enough to look round.
const CURVE_POINTS: u32 = 96;

/// Every visit of every level.
fn visits(scaling: &Scaling) -> Vec<plot::Point> {
    let visits = scaling.visits.iter();
    visits
        .map(|&(concurrency, throughput)| plot::Point::new(f64::from(concurrency), throughput))
        .collect()
}

/// The chart of what is called `label`; `y` names what is counted.
pub fn throughput_chart(label: &str, scaling: &Scaling, y: &str) -> Chart {
    let standings = &scaling.answer.standings;
    let measured = standings.iter().map(|one| plot::Point {
        x: f64::from(one.concurrency),
        y: one.throughput,
        low: one.interval.map(|interval| interval.low),
        high: one.interval.map(|interval| interval.high),
    });
    let mut series = vec![plot::PointSeries {
        name: "mean with 95 % interval".into(),
        points: measured.collect(),
        colour: None,
    }];
    let ends = standings.first().zip(standings.last());
    if let (Ok(usl), Some((first, last))) = (&scaling.curve, ends) {
        let (low, high) = (f64::from(first.concurrency), f64::from(last.concurrency));
        let at = |point: u32| low * (high / low).powf(f64::from(point) / f64::from(CURVE_POINTS));
        let points = (0..=CURVE_POINTS).map(|point| plot::Point::new(at(point), usl.at(at(point))));
        series.push(plot::PointSeries {
            name: "Universal Scalability Law".into(),
            points: points.collect(),
            colour: None,
        });
    }
    let title = "Throughput over concurrency";
    let picture = plot::Chart::Line(plot::LineChart {
        title: title.into(),
        subtitle: Some(label.to_owned()),
        x: plot::Axis::log2("concurrency"),
        y: plot::Axis::linear(y),
        observations: vec![visits(scaling)],
        curves: series.len() - 1,
        series,
    });
    Chart {
        title: title.into(),
        picture,
        shown_elsewhere: false,
    }
}
