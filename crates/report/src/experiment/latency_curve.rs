//! Shows what percentage of the requests was served within a given time, as charts and tables per
//! case or variant.

use crate::charts::NS_PER_MS;
use crate::document::ReportChart;
use crate::experiment::headline::variant_label;
use crate::figure::{Uncertainty, decimal_place, format_number, join_texts};
use crate::table::{ReportCell, ReportColumn, ReportRow, ReportTable, json_number};
use crate::unit::FigureScale;
use speedwell_analysis::experiment::{GroupFindings, LatencyCurve};
use speedwell_model::Case;
use speedwell_model::experiment::{ChartSeries, ExperimentDesign, is_repetition, repeated_variant};
use speedwell_model::load::latency::AB_PERCENTS;
use speedwell_plot as plot;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Percentages at which a chart may end, in order of preference. The slowest requests must not
/// dominate the chart: on a linear axis, 1% of very slow requests would flatten everything else.
/// The subtitle gives the time of the slowest request.
const END_PERCENTAGES: [u32; 4] = [98, 97, 95, 90];

/// A time above this multiple of the time at 90% dominates the chart.
const MAX_TIME_RATIO: f64 = 4.0;

/// Maximum number of lines in a chart that also shows the spread of the runs. With more lines, the
/// spreads would hide the lines.
const MAX_LINES_WITH_RUNS: usize = 2;

/// The curves of one picture.
struct ServedPicture<'a> {
    /// The case or variant that all curves share.
    subject: String,
    lines: Vec<ServedLine<'a>>,
    /// Returns a shorter name for a line.
    short_name: fn(&LatencyCurve) -> String,
}

/// A line of a picture.
#[derive(Clone)]
struct ServedLine<'a> {
    name: String,
    curve: &'a LatencyCurve,
    colour: Option<plot::RgbColor>,
}

/// Draws which percentage of the requests was served within each time. There is a chart per case,
/// or per variant if `series` says so. If `stages` is not empty, each of its lists of variants has
/// its own version of the chart, which shows only these variants.
pub fn draw_served(
    group: &GroupFindings,
    series: ChartSeries,
    stages: &[Vec<String>],
    experiment: &ExperimentDesign,
) -> Vec<ReportChart> {
    let all_variants = [experiment.variants.iter().map(|v| v.name.clone()).collect()];
    let stages = if stages.is_empty() { &all_variants } else { stages };
    let pictures = served_pictures(group, series, experiment);
    let parts = pictures.iter().flat_map(|picture| {
        let picture_of_stage = |stage: &Vec<String>| {
            picture.filter_curves(|curve| stage.contains(&curve.variant.to_string()))
        };
        stages.iter().filter_map(picture_of_stage).collect::<Vec<_>>()
    });
    parts.map(|part| part.draw_up_to_end()).collect()
}

/// Draws the slower half of the requests. The axis gives the range from 0 to 90% the same room as
/// the range from 90% to 99%.
pub fn draw_tail(
    group: &GroupFindings,
    series: ChartSeries,
    experiment: &ExperimentDesign,
) -> Vec<ReportChart> {
    served_pictures(group, series, experiment).iter().map(ServedPicture::draw_slowest).collect()
}

fn served_pictures<'a>(
    group: &'a GroupFindings,
    series: ChartSeries,
    experiment: &ExperimentDesign,
) -> Vec<ServedPicture<'a>> {
    let cases = curves_by_case(group, experiment);
    if series == ChartSeries::Variants {
        let line = |curve: &'a LatencyCurve| ServedLine {
            name: variant_label(experiment, &curve.variant),
            curve,
            colour: variant_color(experiment, curve),
        };
        let pictures = cases.into_iter().map(|(case, curves)| ServedPicture {
            subject: case.id(),
            short_name: |curve| curve.variant.to_string(),
            lines: curves.into_iter().map(line).collect(),
        });
        return pictures.collect();
    }
    let mut pictures: Vec<ServedPicture<'_>> = Vec::new();
    for curve in cases.into_iter().flat_map(|(_, curves)| curves) {
        let line = ServedLine { name: curve.case.id(), curve, colour: None };
        let subject = variant_label(experiment, &curve.variant);
        match pictures.iter_mut().find(|picture| picture.subject == subject) {
            Some(picture) => picture.lines.push(line),
            None => pictures.push(ServedPicture {
                subject,
                short_name: |curve| curve.case.id(),
                lines: vec![line],
            }),
        }
    }
    pictures
}

fn variant_color(experiment: &ExperimentDesign, curve: &LatencyCurve) -> Option<plot::RgbColor> {
    let variant = experiment.variants.iter().find(|variant| variant.name == *curve.variant)?;
    variant.color.as_ref()?.parse().ok()
}

impl<'a> ServedPicture<'a> {
    /// Returns a picture of the selected curves, or `None` if there are none.
    fn filter_curves(&self, is_shown: impl Fn(&LatencyCurve) -> bool) -> Option<ServedPicture<'a>> {
        let shown = self.lines.iter().filter(|line| is_shown(line.curve));
        let lines: Vec<ServedLine<'a>> = shown.cloned().collect();
        (!lines.is_empty()).then(|| ServedPicture {
            subject: self.subject.clone(),
            lines,
            short_name: self.short_name,
        })
    }

    fn draw_up_to_end(&self) -> ReportChart {
        let end = self.end_percentage();
        let longest = self.lines.iter().filter_map(|line| {
            let ms = line.curve.median_at(100)? / NS_PER_MS;
            let name = (self.short_name)(line.curve);
            Some(format!("{name} {}", format_number(ms, decimal_place(ms, Uncertainty::Unknown))))
        });
        let longest = join_texts(", ", longest);
        let subtitle =
            format!("{}; shown up to {end}%; slowest request in ms: {longest}", self.subject);
        let axes = (
            plot::ChartAxis::linear("percentage of the requests"),
            plot::ChartAxis::linear("served within, ms"),
        );
        self.draw_lines("Percentage served", subtitle, axes, 0..=end)
    }

    /// Returns the percentage at which the chart ends.
    fn end_percentage(&self) -> u32 {
        let highest = |percent: u32| {
            self.lines.iter().filter_map(|line| line.curve.median_at(percent)).fold(0.0, f64::max)
        };
        let [highest_end, .., lowest_end] = END_PERCENTAGES;
        let fits = |percent: &u32| highest(*percent) <= MAX_TIME_RATIO * highest(lowest_end);
        END_PERCENTAGES.into_iter().find(fits).unwrap_or(highest_end)
    }

    fn draw_slowest(&self) -> ReportChart {
        let axes = (
            plot::ChartAxis::nines("percentage of the requests"),
            plot::ChartAxis::log10("served within, ms"),
        );
        self.draw_lines("Percentage served, slowest requests", self.subject.clone(), axes, 50..=99)
    }

    fn draw_lines(
        &self,
        title: &str,
        subtitle: String,
        (x, y): (plot::ChartAxis, plot::ChartAxis),
        percents: RangeInclusive<u32>,
    ) -> ReportChart {
        let with_runs = self.lines.len() <= MAX_LINES_WITH_RUNS;
        let series = self.lines.iter().map(|line| plot::PointSeries {
            name: line.name.clone(),
            points: curve_points(line.curve, &percents, with_runs),
            colour: line.colour,
        });
        let series: Vec<plot::PointSeries> = series.collect();
        ReportChart::from_picture(plot::AnyChart::Line(plot::LineChart {
            title: title.to_owned(),
            subtitle: Some(subtitle),
            x,
            y,
            observations: Vec::new(),
            curves: series.len(),
            series,
        }))
    }
}

/// Returns a point for each percentage: the median over the runs. At multiples of 10%, `with_runs`
/// adds the times of the fastest and the slowest run.
fn curve_points(
    curve: &LatencyCurve,
    percents: &RangeInclusive<u32>,
    with_runs: bool,
) -> Vec<plot::ChartPoint> {
    let point = |(percent, times): &(u32, [f64; 3])| {
        let x = f64::from(*percent);
        let [median, low, high] = times.map(|ns| ns / NS_PER_MS);
        if with_runs && curve.runs > 1 && percent % 10 == 0 {
            plot::ChartPoint::with_interval(x, median, low, high)
        } else {
            plot::ChartPoint::new(x, median)
        }
    };
    curve.points.iter().filter(|(percent, _)| percents.contains(percent)).map(point).collect()
}

/// Builds a table per case.
pub fn served_tables(group: &GroupFindings, experiment: &ExperimentDesign) -> Vec<ReportTable> {
    let cases = curves_by_case(group, experiment);
    cases.iter().map(|(case, curves)| case_table(&case.id(), curves, experiment)).collect()
}

/// Returns the curves of each case, in order of first appearance. Variants are in file order.
fn curves_by_case<'a>(
    group: &'a GroupFindings,
    experiment: &ExperimentDesign,
) -> Vec<(Arc<Case>, Vec<&'a LatencyCurve>)> {
    let mut cases: Vec<(Arc<Case>, Vec<&LatencyCurve>)> = Vec::new();
    for curve in &group.curves {
        match cases.iter_mut().find(|(case, _)| *case == curve.case) {
            Some((_, curves)) => curves.push(curve),
            None => cases.push((Arc::clone(&curve.case), vec![curve])),
        }
    }
    for (_, curves) in &mut cases {
        curves.sort_by_key(|curve| variant_order(experiment, &curve.variant));
    }
    cases
}

/// Returns the position of a variant in the file. The control follows the variant that it repeats.
fn variant_order(experiment: &ExperimentDesign, name: &str) -> (usize, bool) {
    let origin = repeated_variant(name);
    let position = experiment.variants.iter().position(|variant| variant.name == origin);
    (position.unwrap_or(usize::MAX), is_repetition(name))
}

fn case_table(case: &str, curves: &[&LatencyCurve], experiment: &ExperimentDesign) -> ReportTable {
    let medians = |curve: &&LatencyCurve| AB_PERCENTS.map(|percent| curve.median_at(percent));
    let times: Vec<f64> = curves.iter().flat_map(medians).flatten().collect();
    let scale = FigureScale::fit_scale("ns", &times, None);
    let mut columns = vec![
        ReportColumn::machine("case"),
        ReportColumn::figure("percent", "%"),
        ReportColumn::machine("values"),
    ];
    let column =
        |curve: &&LatencyCurve| ReportColumn::figure("shown", &*curve.variant).for_people();
    columns.extend(curves.iter().map(column));
    let row = |percent: u32| {
        let time_cell = |curve: &&LatencyCurve| {
            let ns = curve.median_at(percent);
            ReportCell::text(ns.map_or("?".to_owned(), |ns| {
                scale.format_bare(ns, scale.rounding_place(ns, Uncertainty::Unknown))
            }))
        };
        let values = curves.iter().filter_map(|curve| {
            Some((curve.variant.to_string(), json_number(curve.median_at(percent)?)?))
        });
        let mut cells = vec![
            ReportCell::value(case),
            ReportCell::from(f64::from(percent)).with_text(percent.to_string()),
            ReportCell::value(values.collect::<serde_json::Value>()),
        ];
        cells.extend(curves.iter().map(time_cell));
        ReportRow::Cells(cells)
    };
    let mut rows: Vec<ReportRow> = AB_PERCENTS.map(row).into();
    rows.push(ReportRow::Remark(in_flight_caption(curves)));
    let labels = curves.iter().map(|curve| variant_label(experiment, &curve.variant));
    let labels = join_texts(", ", labels);
    ReportTable {
        caption: vec![
            case.to_owned(),
            format!(
                "percentage of the requests served within the given time, in {}; medians of the runs: {labels}",
                scale.symbol
            ),
        ],
        columns,
        rows,
        ..ReportTable::new("percentiles")
    }
}

/// Says how many requests were in flight, because latencies at different loads are not comparable.
fn in_flight_caption(curves: &[&LatencyCurve]) -> String {
    let part = |curve: &&LatencyCurve| {
        Some(format!("{} {:.1}", curve.variant, curve.effective_concurrency?))
    };
    let averages = join_texts(", ", curves.iter().filter_map(part));
    let requested = curves.iter().find_map(|curve| curve.requested_concurrency);
    let requested_note = requested.map(|requested| format!(" of {requested}")).unwrap_or_default();
    format!("requests in flight on average{requested_note}: {averages}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_model::experiment::ExperimentVariant;
    use speedwell_model::{Case, ParameterValue};
    use std::sync::Arc;

    fn experiment() -> ExperimentDesign {
        let variant = |name: &str, label: Option<&str>, color: Option<&str>| ExperimentVariant {
            name: name.to_owned(),
            label: label.map(str::to_owned),
            color: color.map(str::to_owned),
            factors: Vec::new(),
            is_declared: true,
        };
        let variants =
            vec![variant("old", None, Some("#c0392b")), variant("new", Some("with a cache"), None)];
        ExperimentDesign { variants, ..ExperimentDesign::default() }
    }

    /// Returns curves of two pages under two variants. The time in milliseconds at each percentage
    /// is the percentage multiplied by the third element of a tuple below.
    fn group() -> GroupFindings {
        let curve = |(variant, page, times): (&str, &str, f64)| LatencyCurve {
            case: Arc::new(Case::new(
                "web",
                vec![("page".to_owned(), ParameterValue::Text(page.to_owned()))],
            )),
            variant: variant.into(),
            points: (0..=100)
                .map(|percent| {
                    let ns = f64::from(percent) * times * NS_PER_MS;
                    (percent, [ns, ns / 2.0, ns * 2.0])
                })
                .collect(),
            effective_concurrency: None,
            requested_concurrency: None,
            runs: 3,
        };
        let curves = [
            ("new", "home", 1.0),
            ("old", "home", 2.0),
            ("new", "cart", 3.0),
            ("old", "cart", 4.0),
        ];
        GroupFindings {
            name: "web".to_owned(),
            metrics: Vec::new(),
            curves: curves.into_iter().map(curve).collect(),
        }
    }

    fn line_chart(chart: &ReportChart) -> &plot::LineChart {
        match &chart.picture {
            plot::AnyChart::Line(picture) => picture,
            other => panic!("{other:?}"),
        }
    }

    fn names(chart: &ReportChart) -> Vec<&str> {
        let series = line_chart(chart).series.iter();
        series.map(|series| series.name.as_str()).collect()
    }

    #[test]
    fn a_picture_shows_the_variants_of_a_case_or_the_cases_of_a_variant() {
        let experiment = experiment();
        let by_case = draw_served(&group(), ChartSeries::Variants, &[], &experiment);
        assert_eq!(by_case.len(), 2);
        assert!(by_case.iter().all(|chart| names(chart) == ["old", "new (with a cache)"]));
        let old = &line_chart(&by_case[0]).series[0];
        assert_eq!(old.colour, "#c0392b".parse().ok());
        let by_variant = draw_served(&group(), ChartSeries::Cases, &[], &experiment);
        assert_eq!(by_variant.len(), 2);
        let pages = ["web page=home", "web page=cart"];
        assert!(by_variant.iter().all(|chart| names(chart) == pages));
        let about = line_chart(&by_variant[1]).subtitle.clone().unwrap();
        assert_eq!(
            about,
            "new (with a cache); shown up to 98%; slowest request in ms: web page=home 100, web page=cart 300"
        );
        assert_eq!(draw_tail(&group(), ChartSeries::Cases, &experiment).len(), 2);
    }

    #[test]
    fn a_stage_shows_its_variants_with_their_colours() {
        let experiment = experiment();
        let stages = [vec!["new".to_owned()], vec!["old".to_owned(), "new".to_owned()]];
        let charts = draw_served(&group(), ChartSeries::Variants, &stages, &experiment);
        assert_eq!(charts.len(), 4, "two stages of two cases");
        assert_eq!(names(&charts[0]), ["new (with a cache)"]);
        assert_eq!(line_chart(&charts[0]).series[0].colour, None);
        assert_eq!(names(&charts[1]), ["old", "new (with a cache)"]);
    }

    #[test]
    fn a_curve_is_clipped_before_very_slow_requests_dominate_it() {
        let ends_at = |starved: std::ops::RangeInclusive<u32>| {
            let mut group = group();
            for (percent, times) in &mut group.curves[0].points {
                if starved.contains(percent) {
                    *times = [1e12; 3];
                }
            }
            let charts = draw_served(&group, ChartSeries::Variants, &[], &experiment());
            line_chart(&charts[0]).series[0].points.len() - 1
        };
        assert_eq!([99..=100, 98..=100, 97..=100, 91..=100].map(ends_at), [98, 97, 95, 90]);
    }

    #[test]
    fn every_tenth_percentage_has_an_interval_of_fastest_and_slowest_run() {
        let experiment = experiment();
        let charts = draw_served(&group(), ChartSeries::Variants, &[], &experiment);
        let points = &line_chart(&charts[0]).series[1].points;
        assert_eq!(points.len(), 99, "clipped");
        assert_eq!(points[50], plot::ChartPoint::with_interval(50.0, 50.0, 25.0, 100.0));
        assert_eq!(points[51], plot::ChartPoint::new(51.0, 51.0));
    }
}
