//! Every case by itself: what was found about it, and its runs or its course. For formats that can hold thousands of
//! pictures; see `format/html`.

use super::output::Output;
use crate::Format;
use crate::changes::words::{Line, of_series, title};
use crate::charts::{CourseAxis, Lane, course, every_run};
use crate::comparison::{emphasis, machines, symbol};
use crate::document::{Answer, Block, CaseView, Chart, Gallery, GalleryKind};
use crate::figure::change_with_interval;
use crate::summary::scale_and_place;
use crate::table::Emphasis;
use speedwell_analysis::history::{History, SeriesTrend};
use speedwell_analysis::{CaseComparison, CaseSummary, Comparison, Findings, Side};
use speedwell_model::{Change, Metric};
use std::collections::HashMap;

/// The cases of `findings`, in order of first appearance; nothing if there are none.
pub fn gallery(findings: &Findings, output: &Output) -> Option<Block> {
    let mut cases = Cases::default();
    for comparison in &findings.comparisons {
        for row in &comparison.rows {
            cases.add_comparison(comparison, row);
        }
    }
    if findings.comparisons.is_empty() {
        for summary in &findings.summaries {
            cases.add_summary(summary, output);
        }
    }
    let views: Vec<CaseView> = cases
        .cases
        .into_iter()
        .map(|case| case.view(findings.apart, output))
        .collect();
    (!views.is_empty()).then_some(Block::Gallery(Gallery {
        kind: GalleryKind::Runs,
        cases: views,
    }))
}

/// Courses along a line of revisions.
pub struct Courses<'a> {
    /// What they are of.
    pub history: &'a History,
    /// What their bottom axis shows.
    pub axis: CourseAxis,
    /// How figures are shown.
    pub output: &'a Output,
}

impl Courses<'_> {
    /// A gallery of the series that `is_among` lets pass, with the changes that `is_shown` lets pass in words; and the charts
    /// again, for files that hold nothing else.
    pub fn blocks(
        &self,
        is_among: &dyn Fn(&SeriesTrend) -> bool,
        is_shown: &dyn Fn(&SeriesTrend, &Change) -> bool,
    ) -> Vec<Block> {
        // Hundreds of courses take a while, and a terminal shows none.
        if self.output.files.is_empty() && self.output.format != Some(Format::Html) {
            return Vec::new();
        }
        let among = self.history.series.iter().filter(|series| is_among(series));
        let view = |series: &SeriesTrend| {
            let lines = of_series(series, self.history);
            let shown = lines.iter().filter(|line| is_shown(series, line.change));
            CaseView {
                id: title(series),
                answers: shown.map(Line::answer).collect(),
                charts: vec![course(series, self.history, self.axis, self.output.unit)],
            }
        };
        let cases: Vec<CaseView> = among.map(view).collect();
        if cases.is_empty() {
            return Vec::new();
        }
        let charts = cases.iter().flat_map(|case| case.charts.clone());
        let charts: Vec<Block> = charts.map(|chart| Block::Chart(Box::new(chart))).collect();
        let kind = GalleryKind::Courses;
        let gallery = Block::Gallery(Gallery { kind, cases });
        [gallery].into_iter().chain(charts).collect()
    }
}

/// The cases found so far, and where each is.
#[derive(Default)]
struct Cases<'a> {
    cases: Vec<Gathered<'a>>,
    places: HashMap<String, usize>,
}

/// What is known of one case.
struct Gathered<'a> {
    id: String,
    answers: Vec<Answer>,
    panels: Vec<(&'a Metric, Vec<Lane<'a>>)>,
    /// What further charts show.
    further: Vec<Chart>,
}

impl<'a> Cases<'a> {
    fn entry(&mut self, id: String) -> &mut Gathered<'a> {
        let at = *self.places.entry(id.clone()).or_insert_with(|| {
            self.cases.push(Gathered {
                id,
                answers: Vec::new(),
                panels: Vec::new(),
                further: Vec::new(),
            });
            self.cases.len() - 1
        });
        &mut self.cases[at]
    }

    fn add_comparison(&mut self, comparison: &'a Comparison, row: &'a CaseComparison) {
        let case = self.entry(row.case.id());
        case.answers.push(of_comparison(comparison, row));
        case.further.extend(machines::forest(comparison, row));
        case.add(
            &comparison.metric,
            lane(&comparison.baseline, &row.baseline),
        );
        case.add(
            &comparison.metric,
            lane(&comparison.candidate, &row.candidate),
        );
    }

    fn add_summary(&mut self, summary: &'a CaseSummary, output: &Output) {
        let case = self.entry(summary.case.id());
        case.answers.push(of_summary(summary, output));
        let lane = Lane {
            variant: &summary.variant,
            runs: &summary.runs,
            center: summary.center.value,
        };
        case.add(&summary.metric, lane);
    }
}

impl<'a> Gathered<'a> {
    /// Adds the runs of a variant, unless they are known: the baseline is part of every comparison.
    fn add(&mut self, metric: &'a Metric, lane: Lane<'a>) {
        let known = self.panels.iter().position(|(other, _)| *other == metric);
        let at = known.unwrap_or_else(|| {
            self.panels.push((metric, Vec::new()));
            self.panels.len() - 1
        });
        let lanes = &mut self.panels[at].1;
        if lanes.iter().all(|known| known.variant != lane.variant) {
            lanes.push(lane);
        }
    }

    fn view(self, apart: bool, output: &Output) -> CaseView {
        let chart = |(metric, lanes): &(&Metric, Vec<Lane<'_>>)| {
            every_run(metric, lanes, apart, output.unit)
        };
        CaseView {
            id: self.id,
            answers: self.answers,
            charts: self.panels.iter().map(chart).chain(self.further).collect(),
        }
    }
}

fn lane<'a>(variant: &'a str, side: &'a Side) -> Lane<'a> {
    Lane {
        variant,
        runs: &side.runs,
        center: side.location,
    }
}

fn of_comparison(comparison: &Comparison, row: &CaseComparison) -> Answer {
    let verdict = row.verdict;
    let change = row.change.as_ref().map(change_with_interval);
    let text = format!(
        "{} {verdict} {}",
        symbol(verdict),
        change.unwrap_or_default()
    );
    Answer {
        about: format!("{}, {}", comparison.metric.name, comparison.candidate),
        text: text.trim_end().to_owned(),
        emphasis: emphasis(verdict),
    }
}

fn of_summary(summary: &CaseSummary, output: &Output) -> Answer {
    let center = &summary.center;
    let (scale, place) = scale_and_place(summary, output.unit);
    let mut text = format!("median {}", scale.full(center.value, place));
    if center.low < center.high {
        let [low, high] = [center.low, center.high].map(|end| scale.bare(end, place));
        text.push_str(&format!(" [{low}, {high}]"));
    }
    Answer {
        about: format!("{}, {}", summary.metric.name, summary.variant),
        text,
        emphasis: Emphasis::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_model::{Case, Estimate, RunValue};
    use std::sync::Arc;

    fn summary(case: &str, variant: &str, value: f64) -> CaseSummary {
        CaseSummary {
            case: Arc::new(Case::parse(case).unwrap()),
            variant: variant.into(),
            metric: Metric::throughput(),
            runs: vec![RunValue {
                slot: 0,
                block: 0,
                value,
            }]
            .into(),
            center: Estimate {
                value,
                low: value,
                high: value,
            },
            mean: value,
            variation: None,
            autocorrelation: None,
            outliers: Vec::new(),
            exposure: Default::default(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn a_case_measured_under_two_variants_has_one_chart_and_two_answers() {
        let findings = Findings {
            summaries: vec![
                summary("g/a n=1", "old", 1e6),
                summary("g/b n=1", "old", 2e6),
                summary("g/a n=1", "new", 3e6),
            ],
            ..Findings::default()
        };
        let Some(Block::Gallery(Gallery { cases, .. })) = gallery(&findings, &Output::default())
        else {
            panic!("no gallery")
        };
        let ids: Vec<_> = cases.iter().map(|case| case.id.as_str()).collect();
        assert_eq!(ids, ["g/a n=1", "g/b n=1"]);
        assert_eq!(cases[0].charts.len(), 1);
        let said: Vec<_> = cases[0]
            .answers
            .iter()
            .map(|a| (&*a.about, &*a.text))
            .collect();
        let (old, new) = ("throughput, old", "throughput, new");
        assert_eq!(said, [(old, "median 1.00 M/s"), (new, "median 3.00 M/s")]);
    }
}
