//! Draws charts of a parameter study. They show the metric over one parameter, with one line per
//! value of another parameter.

use crate::case_labels::distinct;
use crate::charts::panel::{metric_axis, point_series};
use crate::document::ReportChart;
use crate::unit::{FigureScale, UnitChoice};
use speedwell_analysis::{ParameterStudy, StudyPoint};
use speedwell_model::ParameterValue;
use speedwell_plot as plot;

struct StudyDrawing<'a> {
    study: &'a ParameterStudy,
    scale: FigureScale,
    /// The distinct x values in order of first appearance.
    x_values: Vec<&'a ParameterValue>,
    /// The distinct lines in order of first appearance.
    lines: Vec<&'a str>,
}

/// Draws points with their intervals, joined by lines.
pub fn draw_line(study: &ParameterStudy, unit: Option<UnitChoice>, log: bool) -> ReportChart {
    let drawing = StudyDrawing::new(study, unit);
    build_chart(&drawing, |title, subtitle| {
        plot::AnyChart::Line(plot::LineChart {
            title,
            subtitle,
            x: drawing.x_axis(log),
            y: drawing.y_axis(),
            series: drawing.line_series(),
            observations: drawing.run_points(),
            curves: 0,
        })
    })
}

/// Draws points without lines. Only the points' tooltips contain the intervals.
pub fn draw_scatter(study: &ParameterStudy, unit: Option<UnitChoice>, log: bool) -> ReportChart {
    let drawing = StudyDrawing::new(study, unit);
    build_chart(&drawing, |title, subtitle| {
        plot::AnyChart::Scatter(plot::ScatterChart {
            title,
            subtitle,
            x: drawing.x_axis(log),
            y: drawing.y_axis(),
            series: drawing.line_series(),
        })
    })
}

/// Draws a group of bars for each x value.
pub fn draw_bar(study: &ParameterStudy, unit: Option<UnitChoice>) -> ReportChart {
    let drawing = StudyDrawing::new(study, unit);
    let bar = |point: &StudyPoint| plot::ChartBar {
        name: point.line.clone(),
        value: drawing.scale.to_shown(point.mean.value),
        low: Some(drawing.scale.to_shown(point.mean.low)),
        high: Some(drawing.scale.to_shown(point.mean.high)),
    };
    let category = |x_value: &&ParameterValue| plot::BarCategory {
        label: format!("{}={x_value}", study.x_axis),
        bars: study.points.iter().filter(|point| point.x == **x_value).map(bar).collect(),
    };
    build_chart(&drawing, |title, subtitle| {
        plot::AnyChart::Bar(plot::BarChart {
            title,
            subtitle,
            value_axis: drawing.y_axis(),
            categories: drawing.x_values.iter().map(category).collect(),
        })
    })
}

fn build_chart(
    drawing: &StudyDrawing<'_>,
    draw: impl FnOnce(String, Option<String>) -> plot::AnyChart,
) -> ReportChart {
    let study = drawing.study;
    let title = format!("{} by {}", study.metric.name, study.x_axis);
    let mut parts: Vec<String> =
        study.by.iter().map(|parameter| format!("one line per {parameter}")).collect();
    let averaged: Vec<_> =
        study.aggregated.iter().map(|parameter| parameter.name.as_str()).collect();
    if !averaged.is_empty() {
        parts.push(format!("mean over {}", averaged.join(", ")));
    }
    let subtitle = Some(parts.join("; ")).filter(|text| !text.is_empty());
    ReportChart::new(title.clone(), draw(title.clone(), subtitle))
}

impl<'a> StudyDrawing<'a> {
    fn new(study: &'a ParameterStudy, unit: Option<UnitChoice>) -> StudyDrawing<'a> {
        let means = study.points.iter().map(|point| point.mean.value);
        let mut x_values: Vec<&ParameterValue> = Vec::new();
        for point in &study.points {
            if !x_values.contains(&&point.x) {
                x_values.push(&point.x);
            }
        }
        StudyDrawing {
            study,
            scale: FigureScale::typical_scale(&study.metric.unit, means, unit),
            x_values,
            lines: distinct(study.points.iter().map(|point| point.line.as_str())),
        }
    }

    /// Whether all x values are numbers. Otherwise, all x values are treated as names.
    fn is_numeric(&self) -> bool {
        self.x_values.iter().all(|x_value| x_value.as_number().is_some())
    }

    fn x_axis(&self, log: bool) -> plot::ChartAxis {
        let name = self.study.x_axis.clone();
        match (self.is_numeric(), log) {
            (true, true) => plot::ChartAxis::log2(name),
            (true, false) => plot::ChartAxis::linear(name),
            _ => plot::ChartAxis::category(name, self.x_values.iter().map(|x| x.plain()).collect()),
        }
    }

    fn y_axis(&self) -> plot::ChartAxis {
        let values = self.study.points.iter().map(|point| self.scale.to_shown(point.mean.value));
        metric_axis(&self.study.metric, &self.scale, values)
    }

    /// Returns the position of a point on the bottom axis.
    fn x_position(&self, point: &StudyPoint) -> f64 {
        let position = || self.x_values.iter().position(|x_value| **x_value == point.x);
        let x = if self.is_numeric() {
            point.x.as_number()
        } else {
            position().map(|index| index as f64)
        };
        x.unwrap_or(f64::NAN)
    }

    fn line_points(&self, line: &str) -> impl Iterator<Item = &'a StudyPoint> {
        let points = self.study.points.iter();
        points.filter(move |point| point.line == line)
    }

    fn line_series(&self) -> Vec<plot::PointSeries> {
        let point = |point: &StudyPoint| {
            let [y, low, high] = [point.mean.value, point.mean.low, point.mean.high]
                .map(|value| self.scale.to_shown(value));
            plot::ChartPoint::with_interval(self.x_position(point), y, low, high)
        };
        let series =
            |line: &&str| point_series((*line).to_owned(), self.line_points(line).map(point));
        self.lines.iter().map(series).collect()
    }

    /// Returns the runs behind the points of each line.
    fn run_points(&self) -> Vec<Vec<plot::ChartPoint>> {
        let runs = |point: &'a StudyPoint| {
            let shown = |value: &f64| {
                plot::ChartPoint::new(self.x_position(point), self.scale.to_shown(*value))
            };
            point.runs.iter().map(shown).collect::<Vec<_>>()
        };
        let points = |line: &&str| self.line_points(line).flat_map(runs).collect();
        self.lines.iter().map(points).collect()
    }
}
