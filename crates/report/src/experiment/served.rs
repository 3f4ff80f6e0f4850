//! Charts and tables of the share of requests served within a time, per case or per variant.

use crate::document::Chart;
use crate::experiment::headline::label;
use crate::figure::{Uncertainty, place, spell};
use crate::table::{Cell, Column, Kind, Row, Table, number};
use crate::unit::Scale;
use speedwell_analysis::experiment::{Curve, GroupFound, PERCENTS};
use speedwell_model::Case;
use speedwell_plot as plot;
use speedwell_suite::experiment::{Experiment, Series, is_repetition, repeated_variant};
use std::ops::RangeInclusive;
use std::sync::Arc;

const NS_PER_MS: f64 = 1e6;

/// The chart ends at the first of these percentages that the slowest requests do not dominate: on a
/// linear axis, a starved 1 % would flatten everything else. Their times are given as text.
const ENDS: [u32; 4] = [98, 97, 95, 90];

/// A time above this multiple of the time at 90 % dominates the chart.
const TOO_HIGH: f64 = 4.0;

/// Most lines with the spread of their runs; with more, the spreads would hide the lines.
const MOST_WITH_RUNS: usize = 2;

/// The curves of one picture.
struct Picture<'a> {
    /// What the curves have in common.
    about: String,
    /// The curves with the names of their lines.
    curves: Vec<(String, &'a Curve)>,
    /// Returns a shorter name of a line.
    short: fn(&Curve) -> String,
    colours: Vec<Option<plot::Rgb>>,
}

/// Percentage served against time: a chart per case and stage of the story.
pub fn served(
    group: &GroupFound,
    series: Series,
    stages: &[Vec<String>],
    experiment: &Experiment,
) -> Vec<Chart> {
    let whole = [experiment.variants.iter().map(|v| v.name.clone()).collect()];
    let stages = if stages.is_empty() { &whole } else { stages };
    let pictures = pictures(group, series, experiment);
    let pairs = pictures.iter().flat_map(|picture| {
        let part =
            |stage: &Vec<String>| picture.part(|curve| stage.contains(&curve.variant.to_string()));
        stages.iter().filter_map(part).collect::<Vec<_>>()
    });
    pairs.map(|part| part.up_to_most()).collect()
}

/// The last tenth of the requests, on an axis where each further nine has the same length.
pub fn tail(group: &GroupFound, series: Series, experiment: &Experiment) -> Vec<Chart> {
    let pictures = pictures(group, series, experiment);
    pictures.iter().map(Picture::of_the_slow).collect()
}

fn pictures<'a>(
    group: &'a GroupFound,
    series: Series,
    experiment: &Experiment,
) -> Vec<Picture<'a>> {
    let cases = curves_by_case(group, experiment);
    if series == Series::Variants {
        let pictures = cases.into_iter().map(|(case, curves)| Picture {
            about: case.id(),
            short: |curve| curve.variant.to_string(),
            colours: curves
                .iter()
                .map(|curve| colour(experiment, curve))
                .collect(),
            curves: curves
                .into_iter()
                .map(|curve| (label(experiment, &curve.variant), curve))
                .collect(),
        });
        return pictures.collect();
    }
    let mut pictures: Vec<Picture<'_>> = Vec::new();
    for curve in cases.into_iter().flat_map(|(_, curves)| curves) {
        let line = (curve.case.id(), curve);
        let about = label(experiment, &curve.variant);
        match pictures.iter_mut().find(|picture| picture.about == about) {
            Some(picture) => picture.curves.push(line),
            None => pictures.push(Picture {
                about,
                short: |curve| curve.case.id(),
                curves: vec![line],
                colours: Vec::new(),
            }),
        }
    }
    pictures
}

fn colour(experiment: &Experiment, curve: &Curve) -> Option<plot::Rgb> {
    let mut variants = experiment.variants.iter();
    let variant = variants.find(|variant| variant.name == *curve.variant)?;
    variant.color.as_ref()?.parse().ok()
}

impl<'a> Picture<'a> {
    /// A picture of the selected curves; `None` if there are none.
    fn part(&self, is_shown: impl Fn(&Curve) -> bool) -> Option<Picture<'a>> {
        let colours = self.colours.iter().copied().chain(std::iter::repeat(None));
        let all = self.curves.iter().cloned().zip(colours);
        let (curves, colours): (Vec<_>, Vec<_>) =
            all.filter(|((_, curve), _)| is_shown(curve)).unzip();
        (!curves.is_empty()).then(|| Picture {
            about: self.about.clone(),
            short: self.short,
            curves,
            colours,
        })
    }

    fn up_to_most(&self) -> Chart {
        let end = self.end();
        let longest = self.curves.iter().filter_map(|(_, curve)| {
            let ms = curve.at(100)? / NS_PER_MS;
            let name = (self.short)(curve);
            Some(format!(
                "{name} {}",
                spell(ms, place(ms, Uncertainty::Unknown))
            ))
        });
        let longest: Vec<String> = longest.collect();
        let subtitle = format!(
            "{}; up to {end} %, the slowest request in ms: {}",
            self.about,
            longest.join(", ")
        );
        let axes = (
            plot::Axis::linear("percentage of the requests"),
            plot::Axis::linear("served within, ms"),
        );
        self.lines("Percentage served", subtitle, axes, 0..=end)
    }

    /// The percentage at which the chart ends.
    fn end(&self) -> u32 {
        let highest = |percent: u32| {
            let times = self
                .curves
                .iter()
                .filter_map(|(_, curve)| curve.at(percent));
            times.fold(0.0, f64::max)
        };
        let [most, .., least] = ENDS;
        let fits = |percent: &u32| highest(*percent) <= TOO_HIGH * highest(least);
        ENDS.into_iter().find(fits).unwrap_or(most)
    }

    fn of_the_slow(&self) -> Chart {
        let axes = (
            plot::Axis::nines("percentage of the requests"),
            plot::Axis::log10("served within, ms"),
        );
        let title = "Percentage served, the slow ones";
        self.lines(title, self.about.clone(), axes, 50..=99)
    }

    fn lines(
        &self,
        title: &str,
        subtitle: String,
        (x, y): (plot::Axis, plot::Axis),
        percents: RangeInclusive<u32>,
    ) -> Chart {
        let colours = self.colours.iter().copied().chain(std::iter::repeat(None));
        let series = self.curves.iter().zip(colours);
        let series: Vec<plot::PointSeries> = series
            .map(|((name, curve), colour)| plot::PointSeries {
                name: name.clone(),
                points: points(curve, &percents, self.curves.len() <= MOST_WITH_RUNS),
                colour,
            })
            .collect();
        Chart::new(
            title,
            plot::Chart::Line(plot::LineChart {
                title: title.to_owned(),
                subtitle: Some(subtitle),
                x,
                y,
                observations: Vec::new(),
                curves: series.len(),
                series,
            }),
        )
    }
}

/// The medians of the runs; `with_runs` adds the fastest and slowest run to every tenth point.
fn points(curve: &Curve, percents: &RangeInclusive<u32>, with_runs: bool) -> Vec<plot::Point> {
    let wanted = curve
        .points
        .iter()
        .filter(|(percent, _)| percents.contains(percent));
    let point = |(percent, times): &(u32, [f64; 3])| {
        let x = f64::from(*percent);
        let [middle, low, high] = times.map(|ns| ns / NS_PER_MS);
        if with_runs && curve.runs > 1 && percent % 10 == 0 {
            plot::Point::with_interval(x, middle, low, high)
        } else {
            plot::Point::new(x, middle)
        }
    };
    wanted.map(point).collect()
}

/// A table per case.
pub fn tables(group: &GroupFound, experiment: &Experiment) -> Vec<Table> {
    let cases = curves_by_case(group, experiment);
    let tables = cases
        .iter()
        .map(|(case, curves)| table(&case.id(), curves, experiment));
    tables.collect()
}

/// The curves of each case, in order of first appearance; variants are in file order.
pub fn curves_by_case<'a>(
    group: &'a GroupFound,
    experiment: &Experiment,
) -> Vec<(Arc<Case>, Vec<&'a Curve>)> {
    let mut cases: Vec<(Arc<Case>, Vec<&Curve>)> = Vec::new();
    for curve in &group.curves {
        match cases.iter_mut().find(|(case, _)| *case == curve.case) {
            Some((_, curves)) => curves.push(curve),
            None => cases.push((Arc::clone(&curve.case), vec![curve])),
        }
    }
    for (_, curves) in &mut cases {
        curves.sort_by_key(|curve| place_of(experiment, &curve.variant));
    }
    cases
}

/// The position of a variant in the file; the control follows its origin.
fn place_of(experiment: &Experiment, name: &str) -> (usize, bool) {
    let origin = repeated_variant(name);
    let at = experiment
        .variants
        .iter()
        .position(|variant| variant.name == origin);
    (at.unwrap_or(usize::MAX), is_repetition(name))
}

fn table(case: &str, curves: &[&Curve], experiment: &Experiment) -> Table {
    let all: Vec<f64> = curves
        .iter()
        .flat_map(|curve| PERCENTS.iter().filter_map(|percent| curve.at(*percent)))
        .collect();
    let scale = Scale::fitting("ns", &all, None);
    let mut columns = vec![
        Column::machine("case"),
        Column::new("percent", "%", Kind::Figure),
    ];
    columns.push(Column::machine("values"));
    columns.extend(
        curves
            .iter()
            .map(|curve| Column::new("shown", &*curve.variant, Kind::Figure).for_people()),
    );
    let mut rows: Vec<Row> = PERCENTS
        .iter()
        .map(|percent| {
            let time = |curve: &&Curve| {
                let ns = curve.at(*percent);
                Cell::text(ns.map_or("?".to_owned(), |ns| {
                    scale.bare(ns, scale.place(ns, Uncertainty::Unknown))
                }))
            };
            let values = curves.iter().filter_map(|curve| {
                Some((curve.variant.to_string(), number(curve.at(*percent)?)?))
            });
            let values: serde_json::Map<String, serde_json::Value> = values.collect();
            let mut cells = vec![
                Cell::value(case),
                Cell::figure(Some(f64::from(*percent))).shown(percent.to_string()),
            ];
            cells.push(Cell::value(values));
            cells.extend(curves.iter().map(time));
            Row::Cells(cells)
        })
        .collect();
    rows.push(Row::Remark(under_way(curves)));
    let labels: Vec<String> = curves
        .iter()
        .map(|curve| label(experiment, &curve.variant))
        .collect();
    let labels = labels.join(", ");
    Table {
        caption: vec![
            case.to_owned(),
            format!(
                "percentage of the requests served within, in {}, medians of the runs: {labels}",
                scale.symbol
            ),
        ],
        columns,
        rows,
        ..Table::new("percentiles")
    }
}

/// The requests in flight, needed with every latency: different loads are not comparable.
fn under_way(curves: &[&Curve]) -> String {
    let each = curves.iter().filter_map(|curve| {
        Some(format!(
            "{} {:.1}",
            curve.variant, curve.effective_concurrency?
        ))
    });
    let each: Vec<String> = each.collect();
    let asked = curves.iter().find_map(|curve| curve.asked_concurrency);
    let asked = asked
        .map(|asked| format!(" of {asked}"))
        .unwrap_or_default();
    format!("requests in flight on average{asked}: {}", each.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_model::{Case, DefinitionFile, Value};
    use std::sync::Arc;

    const FILE: &str = r##"
[[variant]]
name = "old"
color = "#c0392b"
[[variant]]
name = "new"
label = "with a cache"
[[group]]
name = "web"
kind = "server"
[group.target]
command = ["serve"]
[group.load]
url = "http://127.0.0.1:{port}/"
connections = 1
requests = 10
"##;

    fn experiment() -> Experiment {
        Experiment::parse(&DefinitionFile {
            file: "web.toml".into(),
            text: FILE.to_owned(),
            set: Vec::new(),
            cpus: 2,
            placement: None,
        })
        .unwrap()
    }

    /// Curves of two pages under two variants: the percentage in milliseconds, times `of_case`.
    fn group() -> GroupFound {
        let curve = |(variant, page, times): (&str, &str, f64)| Curve {
            case: Arc::new(Case::new(
                "web",
                vec![("page".to_owned(), Value::Text(page.to_owned()))],
            )),
            variant: variant.into(),
            points: (0..=100)
                .map(|percent| {
                    let ns = f64::from(percent) * times * NS_PER_MS;
                    (percent, [ns, ns / 2.0, ns * 2.0])
                })
                .collect(),
            effective_concurrency: None,
            asked_concurrency: None,
            runs: 3,
        };
        let curves = [
            ("new", "home", 1.0),
            ("old", "home", 2.0),
            ("new", "cart", 3.0),
            ("old", "cart", 4.0),
        ];
        GroupFound {
            name: "web".to_owned(),
            metrics: Vec::new(),
            curves: curves.into_iter().map(curve).collect(),
        }
    }

    fn line_chart(chart: &Chart) -> &plot::LineChart {
        match &chart.picture {
            plot::Chart::Line(picture) => picture,
            other => panic!("{other:?}"),
        }
    }

    fn names(chart: &Chart) -> Vec<&str> {
        let series = line_chart(chart).series.iter();
        series.map(|series| series.name.as_str()).collect()
    }

    #[test]
    fn a_picture_shows_the_variants_of_a_case_or_the_cases_of_a_variant() {
        let experiment = experiment();
        let by_case = served(&group(), Series::Variants, &[], &experiment);
        assert_eq!(by_case.len(), 2);
        assert!(
            by_case
                .iter()
                .all(|chart| names(chart) == ["old", "new (with a cache)"])
        );
        let old = &line_chart(&by_case[0]).series[0];
        assert_eq!(old.colour, "#c0392b".parse().ok());
        let by_variant = served(&group(), Series::Cases, &[], &experiment);
        assert_eq!(by_variant.len(), 2);
        let pages = ["web page=home", "web page=cart"];
        assert!(by_variant.iter().all(|chart| names(chart) == pages));
        let about = line_chart(&by_variant[1]).subtitle.clone().unwrap();
        assert_eq!(
            about,
            "new (with a cache); up to 98 %, the slowest request in ms: web page=home 100, web page=cart 300"
        );
        assert_eq!(tail(&group(), Series::Cases, &experiment).len(), 2);
    }

    #[test]
    fn a_stage_shows_its_variants_with_their_colours() {
        let experiment = experiment();
        let stages = [
            vec!["new".to_owned()],
            vec!["old".to_owned(), "new".to_owned()],
        ];
        let charts = served(&group(), Series::Variants, &stages, &experiment);
        assert_eq!(charts.len(), 4, "two stages of two cases");
        assert_eq!(names(&charts[0]), ["new (with a cache)"]);
        assert_eq!(line_chart(&charts[0]).series[0].colour, None);
        assert_eq!(names(&charts[1]), ["old", "new (with a cache)"]);
    }

    #[test]
    fn a_picture_ends_before_a_starved_hundredth_rules_it() {
        let ends_at = |starved: std::ops::RangeInclusive<u32>| {
            let mut group = group();
            for (percent, times) in &mut group.curves[0].points {
                if starved.contains(percent) {
                    *times = [1e12; 3];
                }
            }
            let charts = served(&group, Series::Variants, &[], &experiment());
            line_chart(&charts[0]).series[0].points.len() - 1
        };
        assert_eq!(
            [99..=100, 98..=100, 97..=100, 91..=100].map(ends_at),
            [98, 97, 95, 90]
        );
    }

    #[test]
    fn every_tenth_percentage_has_the_fastest_and_the_slowest_run() {
        let experiment = experiment();
        let charts = served(&group(), Series::Variants, &[], &experiment);
        let points = &line_chart(&charts[0]).series[1].points;
        assert_eq!(points.len(), 99, "clipped");
        assert_eq!(
            points[50],
            plot::Point::with_interval(50.0, 50.0, 25.0, 100.0)
        );
        assert_eq!(points[51], plot::Point::new(51.0, 51.0));
    }
}
