//! Reports results without a comparison: a table per metric, with a row per case and variant.
//!
//! A single case with several metrics (a load test, a snippet) gets one table, with a row per
//! metric. Start at [`report_summaries`]; [`prepare_lines`] prepares the rows.

use crate::case_labels::{CaseLabels, LabelLine, add_case_columns, labelled_rows};
use crate::document::{Document, ReportBlock};
use crate::figure::{
    Uncertainty, better_direction, format_count, format_number, format_share, format_signed,
    name_in_unit, uncertainty_of, uncertainty_of_median,
};
use crate::output::{OutputOptions, Verbosity};
use crate::table::{
    ColumnKind, ColumnSet, ReportCell, ReportColumn, ReportTable, RowName, RunList, TableFootnotes,
    TextEmphasis, take_common_text,
};
use crate::unit::{FigureScale, UnitChoice, in_base_units};
use speedwell_analysis::CaseSummary;
use speedwell_model::{DisturbanceFigure as Recorded, IntervalEstimate, Metric, MetricDirection};
use std::sync::Arc;

/// The note below the tables.
const SUMMARY_NOTE: &str = "median over the runs with its interval; CV: standard deviation of the \
                           runs divided by their mean; time: of one iteration of one worker.";

/// The machine-readable name of the table.
pub const SUMMARIES_TABLE: &str = "summaries";

/// Reports the summaries, without the failures, warnings and charts that all reports share.
pub fn report_summaries(summaries: &[CaseSummary], output: &OutputOptions) -> Document {
    let mut document = Document::new("summary");
    if let [only] = summaries {
        document.push(ReportBlock::Headline(summary_sentence(only, output.unit)));
    }
    for section in group_sections(summaries) {
        document.push(ReportBlock::Table(section_table(&section, output)));
    }
    if !summaries.is_empty() {
        output.add_detail(&mut document, |_, document| {
            document.push(ReportBlock::Note(SUMMARY_NOTE.into()));
        });
    }
    document
}

/// The sort keys of the table.
pub fn sort_keys() -> Vec<&'static str> {
    summary_columns("", Verbosity::Normal).sort_keys()
}

type SummarySection<'a> = Vec<&'a CaseSummary>;

fn group_sections(summaries: &[CaseSummary]) -> Vec<SummarySection<'_>> {
    let Some(first) = summaries.first() else {
        return Vec::new();
    };
    let id = first.case.id();
    if summaries.iter().all(|s| s.case.id() == id && s.variant == first.variant) {
        return vec![summaries.iter().collect()];
    }
    let mut metrics: Vec<&Metric> = Vec::new();
    for summary in summaries {
        if !metrics.contains(&&summary.metric) {
            metrics.push(&summary.metric);
        }
    }
    let section_of = |metric: &Metric| summaries.iter().filter(|s| s.metric == *metric).collect();
    metrics.into_iter().map(section_of).collect()
}

fn section_table(section: &SummarySection<'_>, output: &OutputOptions) -> ReportTable {
    let mut footnotes = TableFootnotes::default();
    let metrics_are_rows = section.len() > 1 && section[0].metric != section[1].metric;
    let (shared, labels) =
        if metrics_are_rows { label_by_metric(section) } else { label_by_case(section) };
    let mut lines = prepare_lines(section, !metrics_are_rows, output.unit, &mut footnotes);
    let unit = take_common_text(&mut lines, |line| &mut line.unit);
    let runs = take_common_text(&mut lines, |line| &mut line.runs);
    let variant = take_common_text(&mut lines, |line| &mut line.variant);
    let names = if metrics_are_rows { "metric" } else { "case" };
    let mut columns = summary_columns(names, output.verbosity);
    if section.iter().any(|summary| summary.exposure.known_share().is_some()) {
        add_disturbance(&mut columns);
    }
    let rows = labelled_rows(labels, |index, name| {
        lines[index].name = name;
        columns.build_row(&lines[index])
    });
    let mut caption: Vec<String> =
        Some(shared).filter(|text| !text.is_empty()).into_iter().collect();
    let metric = (!metrics_are_rows).then_some(&section[0].metric);
    caption.extend(caption_line(metric, unit, runs, variant));
    ReportTable {
        caption,
        footnotes: footnotes.into_texts(),
        ..columns.table_of_rows(SUMMARIES_TABLE, rows)
    }
}

fn label_by_case(section: &SummarySection<'_>) -> (String, Vec<LabelLine>) {
    let cases: Vec<_> = section.iter().map(|summary| Arc::clone(&summary.case)).collect();
    let labels = CaseLabels::new(&cases);
    (labels.shared, labels.lines)
}

fn label_by_metric(section: &SummarySection<'_>) -> (String, Vec<LabelLine>) {
    let label = |(index, summary): (usize, &&CaseSummary)| {
        let metric = &summary.metric;
        let full = format!("{} ({})", metric.name, better_direction(metric.better));
        LabelLine::Case { index, name: RowName { full, short: metric.name.clone() } }
    };
    (section[0].case.id(), section.iter().enumerate().map(label).collect())
}

/// Returns the caption: what all rows share.
fn caption_line(
    metric: Option<&Metric>,
    unit: Option<String>,
    runs: Option<String>,
    variant: Option<String>,
) -> Option<String> {
    let mut parts: Vec<String> = Vec::new();
    if let Some(metric) = metric {
        parts.push(name_in_unit(&metric.name, unit.as_deref().unwrap_or_default()));
        parts.push(better_direction(metric.better).to_owned());
    }
    // `prepare_lines` has already formatted the count. Only 1 takes the singular.
    parts.extend(runs.map(
        |runs| {
            if runs == "1" { format_count(1, "run", "") } else { runs + " runs" }
        },
    ));
    parts.extend(variant.filter(|name| !name.is_empty()).map(|name| format!("variant {name}")));
    Some(parts.join(", ")).filter(|line| !line.is_empty())
}

/// Returns all columns. `names` is the heading of the row names.
fn summary_columns<'a>(names: &str, verbosity: Verbosity) -> ColumnSet<SummaryLine<'a>> {
    let mut columns = ColumnSet::new();
    columns.add_column(
        ReportColumn::new("case", names, ColumnKind::Label),
        |line: &SummaryLine<'a>| ReportCell::value(line.summary.case.id()).with_name(&line.name),
    );
    add_case_columns(
        &mut columns,
        |line: &SummaryLine<'a>| &line.summary.case,
        |line: &SummaryLine<'a>| &line.summary.metric,
    );
    add_center(&mut columns);
    add_spread(&mut columns);
    if verbosity == Verbosity::Verbose {
        let mean = ReportColumn::figure("mean_shown", "mean").for_people();
        columns.add_column(mean.expendable(6), |line| {
            ReportCell::shown_figure(Some(line.summary.mean), |mean| line.format_shown(mean))
        });
        let r1 = ReportColumn::figure("r1_shown", "autocorrelation").for_people();
        columns.add_column(r1.expendable(7), |line| {
            ReportCell::shown_figure(line.summary.autocorrelation, |r1| format_signed(r1, 2))
        });
    }
    columns.add_text(ReportColumn::words("marks", ""), |line| line.marks.clone());
    for (key, figure) in SUMMARY_FIGURES {
        columns.add_figure(key, move |line| figure(line.summary));
    }
    columns.add_value("notes", |line| line.summary.notes.join(" "));
    columns.add_runs("values", |line| RunList::Values(line.summary.runs.clone()));
    columns.add_runs("slots", |line| RunList::Slots(line.summary.runs.clone()));
    columns
}

/// Adds columns about disturbed runs. People see the fraction of disturbed runs if it is notable.
/// Programs get the fraction and the kernel's figures.
fn add_disturbance(columns: &mut ColumnSet<SummaryLine<'_>>) {
    let disturbed = ReportColumn::figure("disturbed_shown", "disturbed").for_people();
    columns.add_column(disturbed.expendable(5), |line| {
        let exposure = &line.summary.exposure;
        ReportCell::shown_figure(
            Some(exposure.disturbed_share()).filter(|_| exposure.is_notable()),
            format_share,
        )
    });
    columns.add_figure("disturbed", |line| line.summary.exposure.known_share());
    for figure in Recorded::ALL {
        columns.add_figure(figure.name(), move |line| line.summary.exposure.median_figure(figure));
    }
}

fn add_center(columns: &mut ColumnSet<SummaryLine<'_>>) {
    columns.add_column(ReportColumn::words("variant", "variant"), |line| {
        ReportCell::value(line.summary.variant.to_string()).with_text(line.variant.clone())
    });
    columns.add_column(ReportColumn::figure("median_shown", "median").for_people(), |line| {
        let median = line.summary.center.value;
        ReportCell::shown_figure(Some(median), |median| line.format_shown(median))
            .with_emphasis(TextEmphasis::Strong)
    });
    columns.add_text(ReportColumn::words("unit_shown", "unit"), |line| line.unit.clone());
    columns.add_column(ReportColumn::figure("interval_shown", "interval").for_people(), |line| {
        let IntervalEstimate { low, high, .. } = line.summary.center;
        let interval = || format!("[{}, {}]", line.format_shown(low), line.format_shown(high));
        ReportCell::figure(Some(low)).with_text(if low == high {
            String::new()
        } else {
            interval()
        })
    });
}

fn add_spread(columns: &mut ColumnSet<SummaryLine<'_>>) {
    columns.add_column(ReportColumn::figure("cv_shown", "CV").for_people(), |line| {
        ReportCell::shown_figure(line.summary.variation, format_share)
    });
    let range = ReportColumn::figure("range_shown", "min … max").for_people();
    columns.add_column(range.expendable(3), |line| {
        let range = match (smallest_run(line.summary), largest_run(line.summary)) {
            (Some(min), Some(max)) if line.summary.runs.len() > 1 => {
                format!("{} … {}", line.format_shown(min), line.format_shown(max))
            }
            _ => String::new(),
        };
        ReportCell::figure(smallest_run(line.summary)).with_text(range)
    });
    let time = ReportColumn::figure("time", "time").for_people();
    columns.add_column(time.expendable(2), |line| match &line.time {
        Some((time_ns, text)) => ReportCell::figure(Some(*time_ns)).with_text(text),
        None => ReportCell::default(),
    });
    let runs = ReportColumn::figure("runs_shown", "runs").for_people();
    columns.add_column(runs.expendable(1), |line| {
        ReportCell::figure(Some(line.summary.runs.len() as f64)).with_text(line.runs.clone())
    });
    let outliers = ReportColumn::figure("outliers_shown", "outliers").for_people();
    columns.add_column(outliers.expendable(5), |line| {
        ReportCell::shown_figure(Some(line.summary.outliers.len() as f64), |number| {
            if number == 0.0 { String::new() } else { format_number(number, 0) }
        })
    });
}

fn smallest_run(summary: &CaseSummary) -> Option<f64> {
    summary.runs.iter().map(|run| run.value).reduce(f64::min)
}

fn largest_run(summary: &CaseSummary) -> Option<f64> {
    summary.runs.iter().map(|run| run.value).reduce(f64::max)
}

/// The key of a machine-readable column, and its figure.
type SummaryFigure = (&'static str, fn(&CaseSummary) -> Option<f64>);

/// Machine-readable figures with all digits.
const SUMMARY_FIGURES: [SummaryFigure; 10] = [
    ("runs", |summary| Some(summary.runs.len() as f64)),
    ("median", |summary| Some(summary.center.value)),
    ("median_low", |summary| known_bound(summary, summary.center.low)),
    ("median_high", |summary| known_bound(summary, summary.center.high)),
    ("mean", |summary| Some(summary.mean)),
    ("variation", |summary| summary.variation),
    ("min", smallest_run),
    ("max", largest_run),
    ("autocorrelation", |summary| summary.autocorrelation),
    ("outliers", |summary| Some(summary.outliers.len() as f64)),
];

/// Returns a bound of the interval, or `None` if there is no interval. With fewer than 6 runs,
/// there is none, and both bounds are set to the median. If the runs do not vary at all, bounds
/// that equal the median are a real interval.
fn known_bound(summary: &CaseSummary, end: f64) -> Option<f64> {
    (summary.center.low < summary.center.high || summary.variation == Some(0.0)).then_some(end)
}

/// A row of the table.
pub struct SummaryLine<'a> {
    /// The row's figures.
    pub summary: &'a CaseSummary,
    /// The row's name in the table.
    pub name: RowName,
    /// The scale of the row's figures.
    pub scale: FigureScale,
    /// The last decimal place of the row's figures.
    pub place: i32,
    /// The unit; empty if it is in the caption.
    pub unit: String,
    /// The number of runs; empty if it is in the caption.
    pub runs: String,
    /// The variant; empty if it is in the caption.
    pub variant: String,
    /// Mean time that one worker needs for an iteration, in nanoseconds and as text, if known.
    pub time: Option<(f64, String)>,
    /// Footnote marks.
    pub marks: String,
}

impl SummaryLine<'_> {
    /// Formats `stored` with the precision of the row, without the unit.
    fn format_shown(&self, stored: f64) -> String {
        self.scale.format_bare(stored, self.place)
    }
}

/// Prepares the rows of one table, in the order of `section`. Rows that are `alike` (about one
/// metric) get a common unit where possible.
pub fn prepare_lines<'a>(
    section: &[&'a CaseSummary],
    alike: bool,
    choice: Option<UnitChoice>,
    footnotes: &mut TableFootnotes,
) -> Vec<SummaryLine<'a>> {
    let common = if alike { common_scale(section, choice) } else { None };
    let line = |summary: &&'a CaseSummary| {
        let (own, _) = scale_and_place(summary, choice);
        let scale = common.clone().unwrap_or(own);
        let notes = summary.notes.iter().map(|note| footnotes.footnote_mark(note));
        SummaryLine {
            summary,
            name: RowName::default(),
            place: scale.rounding_place(summary.center.value, summary_uncertainty(summary)),
            unit: scale.symbol.clone(),
            runs: format_number(summary.runs.len() as f64, 0),
            variant: summary.variant.to_string(),
            time: time_per_iteration(summary, choice),
            marks: notes.collect::<Vec<_>>().join(" "),
            scale,
        }
    };
    section.iter().map(line).collect()
}

fn summary_uncertainty(summary: &CaseSummary) -> Uncertainty {
    match uncertainty_of(&summary.center) {
        Uncertainty::Unknown => {
            uncertainty_of_median(summary.center.value, summary.variation, summary.runs.len())
        }
        known => known,
    }
}

/// Returns the scale of a single summary, and the decimal place to which its center is rounded.
pub(crate) fn scale_and_place(
    summary: &CaseSummary,
    choice: Option<UnitChoice>,
) -> (FigureScale, i32) {
    let (unit, center) = (&summary.metric.unit, summary.center.value);
    let uncertainty = summary_uncertainty(summary);
    let scale = FigureScale::fit_scale(unit, &[center], choice).keeping_counts(
        unit,
        [(center, uncertainty)],
        choice,
    );
    let place = scale.rounding_place(center, uncertainty);
    (scale, place)
}

fn common_scale(section: &[&CaseSummary], choice: Option<UnitChoice>) -> Option<FigureScale> {
    let unit = &section.first()?.metric.unit;
    let centers = section.iter().map(|summary| summary.center.value);
    let scale = FigureScale::common_scale(unit, centers, choice)?;
    let figures =
        section.iter().map(|summary| (summary.center.value, summary_uncertainty(summary)));
    Some(scale.keeping_counts(unit, figures, choice))
}

/// Returns the time that one worker needs for an iteration, or `None` unless the metric is
/// throughput. The parameter `concurrency` of a case is the number of workers that share the
/// throughput. Without this parameter, there is one worker.
fn time_per_iteration(summary: &CaseSummary, choice: Option<UnitChoice>) -> Option<(f64, String)> {
    let metric = &summary.metric;
    if metric.name != Metric::THROUGHPUT || metric.better != MetricDirection::Higher {
        return None;
    }
    let per_second =
        in_base_units(summary.center.value, &metric.unit).filter(|rate| *rate > 0.0)?;
    let time_ns = f64::from(summary.case.workers().unwrap_or(1)) / per_second * 1e9;
    let relative = match summary_uncertainty(summary) {
        Uncertainty::Half(half) => Uncertainty::Half(half / summary.center.value * time_ns),
        Uncertainty::Exact | Uncertainty::Unknown => Uncertainty::Unknown,
    };
    let scale = FigureScale::fit_scale("ns", &[time_ns], choice);
    let text = scale.format_full(time_ns, scale.rounding_place(time_ns, relative));
    Some((time_ns, text))
}

/// Returns the answer for a single summary:
/// `g/a.js: 1.234 M/s [1.221, 1.240], 810 ns per iteration (30 runs).`
pub fn summary_sentence(summary: &CaseSummary, choice: Option<UnitChoice>) -> String {
    let (scale, place) = scale_and_place(summary, choice);
    let mut sentence =
        format!("{}: {}", summary.case.benchmark, scale.format_full(summary.center.value, place));
    if summary.center.low < summary.center.high {
        let ends =
            [summary.center.low, summary.center.high].map(|end| scale.format_bare(end, place));
        sentence.push_str(&format!(" [{}, {}]", ends[0], ends[1]));
    }
    if let Some((_, time)) = time_per_iteration(summary, choice) {
        sentence.push_str(&format!(", {time} per iteration"));
    }
    let runs = format_count(summary.runs.len(), "run", "runs");
    format!("{sentence} ({runs}).")
}
