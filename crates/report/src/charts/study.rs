//! Charts of a parameter study: the metric over one parameter, one line per value of another.

use crate::case_labels::distinct;
use crate::charts::panel::{axis, point_series};
use crate::document::Chart;
use crate::unit::{Scale, UnitChoice};
use speedwell_analysis::{Study, StudyPoint};
use speedwell_model::Value;
use speedwell_plot as plot;

/// Data shared by the charts of one study.
struct Drawing<'a> {
    study: &'a Study,
    scale: Scale,
    /// The distinct x values in order of first appearance.
    places: Vec<&'a Value>,
    /// The distinct lines in order of first appearance.
    lines: Vec<&'a str>,
}

/// Points with their intervals, joined.
pub fn line(study: &Study, unit: Option<UnitChoice>, log: bool) -> Chart {
    let drawing = Drawing::new(study, unit);
    chart(&drawing, |title, subtitle| {
        plot::Chart::Line(plot::LineChart {
            title,
            subtitle,
            x: drawing.x_axis(log),
            y: drawing.y_axis(),
            series: drawing.series(),
            observations: drawing.runs(),
            curves: 0,
        })
    })
}

/// Points only.
pub fn scatter(study: &Study, unit: Option<UnitChoice>, log: bool) -> Chart {
    let drawing = Drawing::new(study, unit);
    chart(&drawing, |title, subtitle| {
        plot::Chart::Scatter(plot::ScatterChart {
            title,
            subtitle,
            x: drawing.x_axis(log),
            y: drawing.y_axis(),
            series: drawing.series(),
        })
    })
}

/// A group of bars per x value.
pub fn bar(study: &Study, unit: Option<UnitChoice>) -> Chart {
    let drawing = Drawing::new(study, unit);
    let bar = |point: &StudyPoint| plot::Bar {
        name: point.line.clone(),
        value: drawing.scale.shown(point.mean.value),
        low: Some(drawing.scale.shown(point.mean.low)),
        high: Some(drawing.scale.shown(point.mean.high)),
    };
    let category = |place: &&Value| plot::BarCategory {
        label: format!("{}={place}", study.x_axis),
        bars: study
            .points
            .iter()
            .filter(|point| point.x == **place)
            .map(bar)
            .collect(),
    };
    chart(&drawing, |title, subtitle| {
        plot::Chart::Bar(plot::BarChart {
            title,
            subtitle,
            value_axis: drawing.y_axis(),
            categories: drawing.places.iter().map(category).collect(),
        })
    })
}

fn chart(drawing: &Drawing<'_>, draw: impl FnOnce(String, Option<String>) -> plot::Chart) -> Chart {
    let study = drawing.study;
    let title = format!("{} by {}", study.metric.name, study.x_axis);
    let mut parts: Vec<String> = study
        .by
        .iter()
        .map(|by| format!("one line per {by}"))
        .collect();
    let averaged: Vec<_> = study
        .aggregated
        .iter()
        .map(|one| one.name.as_str())
        .collect();
    if !averaged.is_empty() {
        parts.push(format!("mean over {}", averaged.join(", ")));
    }
    let subtitle = Some(parts.join("; ")).filter(|text| !text.is_empty());
    Chart::new(title.clone(), draw(title.clone(), subtitle))
}

impl<'a> Drawing<'a> {
    fn new(study: &'a Study, unit: Option<UnitChoice>) -> Drawing<'a> {
        let means = study.points.iter().map(|point| point.mean.value);
        let mut places: Vec<&Value> = Vec::new();
        for point in &study.points {
            if !places.contains(&&point.x) {
                places.push(&point.x);
            }
        }
        Drawing {
            study,
            scale: Scale::typical(&study.metric.unit, means, unit),
            places,
            lines: distinct(study.points.iter().map(|point| point.line.as_str())),
        }
    }

    /// Whether all x values are numbers; otherwise all are treated as names.
    fn numeric(&self) -> bool {
        self.places.iter().all(|place| place.as_number().is_some())
    }

    fn x_axis(&self, log: bool) -> plot::Axis {
        let name = self.study.x_axis.clone();
        match (self.numeric(), log) {
            (true, true) => plot::Axis::log2(name),
            (true, false) => plot::Axis::linear(name),
            _ => plot::Axis::category(name, self.places.iter().map(|x| x.plain()).collect()),
        }
    }

    fn y_axis(&self) -> plot::Axis {
        let values = self
            .study
            .points
            .iter()
            .map(|point| self.scale.shown(point.mean.value));
        axis(&self.study.metric, &self.scale, values)
    }

    /// The position of a point on the bottom axis.
    fn x(&self, point: &StudyPoint) -> f64 {
        let position = || self.places.iter().position(|place| **place == point.x);
        let x = if self.numeric() {
            point.x.as_number()
        } else {
            position().map(|at| at as f64)
        };
        x.unwrap_or(f64::NAN)
    }

    /// The points of each line.
    fn of_line(&self, line: &str) -> impl Iterator<Item = &'a StudyPoint> {
        let points = self.study.points.iter();
        points.filter(move |point| point.line == line)
    }

    fn series(&self) -> Vec<plot::PointSeries> {
        let point = |point: &StudyPoint| {
            let [y, low, high] = [point.mean.value, point.mean.low, point.mean.high]
                .map(|value| self.scale.shown(value));
            plot::Point::with_interval(self.x(point), y, low, high)
        };
        let series = |line: &&str| point_series((*line).to_owned(), self.of_line(line).map(point));
        self.lines.iter().map(series).collect()
    }

    /// The runs behind the points of each line.
    fn runs(&self) -> Vec<Vec<plot::Point>> {
        let runs = |point: &'a StudyPoint| {
            let shown = |value: &f64| plot::Point::new(self.x(point), self.scale.shown(*value));
            point.runs.iter().map(shown).collect::<Vec<_>>()
        };
        let of_line = |line: &&str| self.of_line(line).flat_map(runs).collect();
        self.lines.iter().map(of_line).collect()
    }
}
