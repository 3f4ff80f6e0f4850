//! Builds galleries: every case with its findings and a chart of its runs or trend. Galleries are
//! for formats that can hold thousands of pictures; see `format/html`.

use super::output::OutputOptions;
use crate::ReportFormat;
use crate::case_labels::shown_case;
use crate::cell::{verdict_emphasis, verdict_symbol};
use crate::charts::{TrendXAxis, VariantLane, draw_every_run, draw_trend};
use crate::comparison::machines;
use crate::document::{CaseAnswer, CaseGallery, CaseView, GalleryKind, ReportBlock, ReportChart};
use crate::figure::format_change_interval;
use crate::series_change::{SeriesChange, series_changes, series_title};
use crate::summary::scale_and_place;
use crate::table::TextEmphasis;
use indexmap::IndexMap;
use speedwell_analysis::history::{ProjectHistory, SeriesTrend};
use speedwell_analysis::{
    AnalysisFindings, CandidateComparison, CaseComparison, CaseSummary, SideSummary,
};
use speedwell_model::{Metric, RecordedChange};

/// Builds a gallery of the cases in `findings`, in order of first appearance. Returns `None` if
/// there are no cases.
pub fn findings_gallery(
    findings: &AnalysisFindings,
    output: &OutputOptions,
) -> Option<ReportBlock> {
    let mut cases: IndexMap<String, GatheredCase<'_>> = IndexMap::new();
    for comparison in &findings.comparisons {
        for row in &comparison.rows {
            cases.entry(row.case.id()).or_default().add_comparison(comparison, row);
        }
    }
    if findings.comparisons.is_empty() {
        for summary in &findings.summaries {
            cases.entry(summary.case.id()).or_default().add_summary(summary, output);
        }
    }
    let view = |case: GatheredCase<'_>| case.into_view(findings.is_cross_session, output);
    let views: Vec<CaseView> = cases.into_values().map(view).collect();
    (!views.is_empty())
        .then_some(ReportBlock::Gallery(CaseGallery { kind: GalleryKind::Runs, cases: views }))
}

/// Builds a gallery of the series that pass `is_selected`, with a sentence for each change that
/// passes `is_shown`. Only standalone charts are written to chart files (SVG, PNG), so each chart
/// also follows the gallery as a block.
pub fn trend_blocks(
    history: &ProjectHistory,
    axis: TrendXAxis,
    output: &OutputOptions,
    is_selected: &dyn Fn(&SeriesTrend) -> bool,
    is_shown: &dyn Fn(&SeriesTrend, &RecordedChange) -> bool,
) -> Vec<ReportBlock> {
    // Drawing hundreds of trend charts takes a while. A terminal shows no charts.
    if output.files.is_empty() && output.format != Some(ReportFormat::Html) {
        return Vec::new();
    }
    let view = |series: &SeriesTrend| {
        let lines = series_changes(series, history);
        let shown = lines.iter().filter(|line| is_shown(series, line.change));
        CaseView {
            id: series_title(series),
            answers: shown.map(SeriesChange::gallery_answer).collect(),
            charts: vec![draw_trend(series, history, axis, output.unit)],
        }
    };
    let selected = history.series.iter().filter(|series| is_selected(series));
    let cases: Vec<CaseView> = selected.map(view).collect();
    if cases.is_empty() {
        return Vec::new();
    }
    let charts = cases.iter().flat_map(|case| case.charts.clone());
    let charts: Vec<ReportBlock> = charts.map(Box::new).map(ReportBlock::Chart).collect();
    let gallery = ReportBlock::Gallery(CaseGallery { kind: GalleryKind::Trends, cases });
    [gallery].into_iter().chain(charts).collect()
}

/// What the findings say about a case.
#[derive(Default)]
struct GatheredCase<'a> {
    /// The name of the case.
    name: String,
    answers: Vec<CaseAnswer>,
    /// One chart per metric, with the runs of each variant.
    panels: IndexMap<&'a Metric, Vec<VariantLane<'a>>>,
    /// Additional charts.
    extra_charts: Vec<ReportChart>,
}

impl<'a> GatheredCase<'a> {
    fn add_comparison(&mut self, comparison: &'a CandidateComparison, row: &'a CaseComparison) {
        self.name = shown_case(&row.case).id();
        self.answers.push(comparison_answer(comparison, row));
        self.extra_charts.extend(machines::machines_forest(comparison, row));
        self.add_lane(&comparison.metric, side_lane(&comparison.baseline, &row.baseline));
        self.add_lane(&comparison.metric, side_lane(&comparison.candidate, &row.candidate));
    }

    fn add_summary(&mut self, summary: &'a CaseSummary, output: &OutputOptions) {
        self.name = shown_case(&summary.case).id();
        self.answers.push(summary_answer(summary, output));
        let lane = VariantLane {
            variant: &summary.variant,
            runs: &summary.runs,
            center: summary.center.value,
        };
        self.add_lane(&summary.metric, lane);
    }

    /// Adds the runs of a variant to the chart of `metric`. Does nothing if the chart already has
    /// them: the baseline is part of every comparison.
    fn add_lane(&mut self, metric: &'a Metric, lane: VariantLane<'a>) {
        let lanes = self.panels.entry(metric).or_default();
        if lanes.iter().all(|other| other.variant != lane.variant) {
            lanes.push(lane);
        }
    }

    fn into_view(self, is_cross_session: bool, output: &OutputOptions) -> CaseView {
        let chart = |(metric, lanes): (&&Metric, &Vec<VariantLane<'_>>)| {
            draw_every_run(metric, lanes, is_cross_session, output.unit)
        };
        CaseView {
            id: self.name,
            answers: self.answers,
            charts: self.panels.iter().map(chart).chain(self.extra_charts).collect(),
        }
    }
}

fn side_lane<'a>(variant: &'a str, side: &'a SideSummary) -> VariantLane<'a> {
    VariantLane { variant, runs: &side.runs, center: side.location }
}

fn comparison_answer(comparison: &CandidateComparison, row: &CaseComparison) -> CaseAnswer {
    let verdict = row.verdict;
    let change = row.change.as_ref().map(format_change_interval);
    let text = format!("{} {verdict} {}", verdict_symbol(verdict), change.unwrap_or_default());
    CaseAnswer {
        about: format!("{}, {}", comparison.metric.plain_name(), comparison.candidate),
        text: text.trim_end().to_owned(),
        emphasis: verdict_emphasis(verdict),
    }
}

fn summary_answer(summary: &CaseSummary, output: &OutputOptions) -> CaseAnswer {
    let (scale, place) = scale_and_place(summary, output.unit);
    CaseAnswer {
        about: format!("{}, {}", summary.metric.plain_name(), summary.variant),
        text: format!("median {}", scale.format_estimate(&summary.center, place)),
        emphasis: TextEmphasis::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_model::{Case, IntervalEstimate, RunValue};
    use std::sync::Arc;

    fn summary(case: &str, variant: &str, value: f64) -> CaseSummary {
        CaseSummary {
            case: Arc::new(Case::parse(case).unwrap()),
            variant: variant.into(),
            metric: Metric::throughput(),
            runs: vec![RunValue { slot: 0, block: 0, value }].into(),
            center: IntervalEstimate { value, low: value, high: value },
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
        let findings = AnalysisFindings {
            summaries: vec![
                summary("g/a n=1", "old", 1e6),
                summary("g/b n=1", "old", 2e6),
                summary("g/a n=1", "new", 3e6),
            ],
            ..AnalysisFindings::default()
        };
        let Some(ReportBlock::Gallery(CaseGallery { cases, .. })) =
            findings_gallery(&findings, &OutputOptions::default())
        else {
            panic!("no gallery")
        };
        let ids: Vec<_> = cases.iter().map(|case| case.id.as_str()).collect();
        assert_eq!(ids, ["g/a n=1", "g/b n=1"]);
        assert_eq!(cases[0].charts.len(), 1);
        let said: Vec<_> = cases[0].answers.iter().map(|a| (&*a.about, &*a.text)).collect();
        let (old, new) = ("throughput, old", "throughput, new");
        assert_eq!(said, [(old, "median 1.00 M/s"), (new, "median 3.00 M/s")]);
    }
}
