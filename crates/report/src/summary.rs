//! Reports results without a comparison: a table per metric, with a row per case and variant.
//!
//! A single case with several metrics (a load test, a snippet) gets one table, with a row per
//! metric. Start at [`report_summaries`]; [`prepare_lines`] prepares the rows.

use crate::case_labels::{
    CaseLabels, LabelLine, distinct, labelled_rows, parameters_json, shown_case,
};
use crate::document::Document;
use crate::figure::{
    Uncertainty, better_direction, describe_metric, format_count, format_signed, format_whole,
    join_texts, uncertainty_of, uncertainty_of_median,
};
use crate::output::{OutputOptions, Verbosity};
use crate::table::{
    ColumnSet, ReportCell, ReportColumn, ReportTable, RowName, RunList, SUMMARIES_TABLE,
    TableFootnotes, TextEmphasis, column_set, take_common_text,
};
use crate::unit::{FigureScale, UnitChoice, in_base_units};
use serde_json::json;
use speedwell_analysis::CaseSummary;
use speedwell_model::{DisturbanceFigure, IntervalEstimate, Metric, MetricDirection};
use std::sync::Arc;

/// The note below the tables, after the words about the median.
const SUMMARY_NOTE: &str = "CV: standard deviation of the runs divided by their mean";

/// The end of the note if a table has the column `time`.
const TIME_NOTE: &str = "; time: how long one worker takes for one iteration";

/// Reports the summaries, without the failures, warnings and charts that all reports share.
pub fn report_summaries(summaries: &[CaseSummary], output: &OutputOptions) -> Document {
    let mut document = Document::new("summary");
    if let [only] = summaries {
        document.push_headline(summary_sentence(only, output.unit));
    }
    for section in group_sections(summaries) {
        document.push_table(section_table(&section, output));
    }
    if !summaries.is_empty() {
        output.add_detail(&mut document, |_, document| {
            let has_interval = |summary: &CaseSummary| known_bound(summary, 0.0).is_some();
            let interval = if summaries.iter().any(has_interval) {
                " with its interval"
            } else {
                ", which are too few for an interval"
            };
            let has_time =
                |summary: &CaseSummary| time_per_iteration(summary, output.unit).is_some();
            let time = if summaries.iter().any(has_time) { TIME_NOTE } else { "" };
            document.push_note(format!("median over the runs{interval}; {SUMMARY_NOTE}{time}."));
        });
    }
    document
}

type SummarySection<'a> = Vec<&'a CaseSummary>;

fn group_sections(summaries: &[CaseSummary]) -> Vec<SummarySection<'_>> {
    let Some(first) = summaries.first() else { return Vec::new() };
    let id = first.case.id();
    if summaries.iter().all(|s| s.case.id() == id && s.variant == first.variant) {
        return vec![summaries.iter().collect()];
    }
    let section_of = |metric: &Metric| summaries.iter().filter(|s| s.metric == *metric).collect();
    distinct(summaries.iter().map(|s| &s.metric)).into_iter().map(section_of).collect()
}

fn section_table(section: &SummarySection<'_>, output: &OutputOptions) -> ReportTable {
    let mut footnotes = TableFootnotes::default();
    let metrics_are_rows = section.len() > 1 && section[0].metric != section[1].metric;
    let (shared, labels) = if metrics_are_rows {
        let label = |(index, summary): (usize, &&CaseSummary)| LabelLine::Case {
            index,
            name: metric_name(&summary.metric),
        };
        (shown_case(&section[0].case).id(), section.iter().enumerate().map(label).collect())
    } else {
        let cases: Vec<_> = section.iter().map(|summary| Arc::clone(&summary.case)).collect();
        let labels = CaseLabels::new(&cases);
        (labels.shared, labels.lines)
    };
    let mut lines = prepare_lines(section, !metrics_are_rows, output.unit, &mut footnotes);
    let unit = take_common_text(&mut lines, |line| &mut line.unit);
    let run_count = take_common_text(&mut lines, |line| &mut line.runs);
    let variant = take_common_text(&mut lines, |line| &mut line.variant);
    let names = if metrics_are_rows { "metric" } else { "case" };
    let mut columns = summary_columns(names, output.verbosity);
    if section.iter().any(|summary| summary.exposure.known_share().is_some()) {
        add_disturbance(&mut columns, output.verbosity);
    }
    let rows = labelled_rows(labels, |index, name| {
        lines[index].name = name;
        columns.build_row(&lines[index])
    });
    // The second line names the metric, the unit, the number of runs and the variant, if all rows
    // share them.
    let metric = (!metrics_are_rows).then(|| describe_metric(&section[0].metric, unit));
    // `prepare_lines` has already formatted the count. Only 1 takes the singular.
    let runs = run_count.map(|count| count.clone() + if count == "1" { " run" } else { " runs" });
    // A session without named variants has only this one.
    let variant_name = variant.filter(|name| !name.is_empty() && name != "default");
    let named_variant = variant_name.map(|name| format!("variant {name}"));
    let facts = metric.into_iter().chain(runs).chain(named_variant);
    let mut caption = vec![shared, join_texts(", ", facts)];
    caption.retain(|line| !line.is_empty());
    ReportTable {
        caption,
        footnotes: footnotes.into_texts(),
        ..columns.table_of_rows(SUMMARIES_TABLE, rows)
    }
}

/// Returns a metric as the name of a row.
pub(crate) fn metric_name(metric: &Metric) -> RowName {
    let full = format!("{} ({})", metric.name, better_direction(metric.better));
    RowName { full, short: metric.name.clone() }
}

/// Returns all columns. `names` is the heading of the row names.
pub fn summary_columns<'a>(names: &str, verbosity: Verbosity) -> ColumnSet<SummaryLine<'a>> {
    let is_verbose = verbosity == Verbosity::Verbose;
    column_set! { line: SummaryLine<'a>;
        label("case", names) => ReportCell::words(line.summary.case.id()).with_name(&line.name),
        machine("benchmark") => &line.summary.case.benchmark,
        machine("parameters") => parameters_json(&line.summary.case),
        machine("metric") => &line.summary.metric.name,
        machine("unit") => &line.summary.metric.unit,
        machine("better") => json!(line.summary.metric.better),
        words("variant", "variant") =>
            ReportCell::words(&*line.summary.variant).with_text(&line.variant),
        figure("median_shown", "median").for_people() =>
            line.shown_cell(line.summary.center.value).with_emphasis(TextEmphasis::Strong),
        words("unit_shown", "unit").for_people() => ReportCell::text(&line.unit),
        figure("interval_shown", "interval").for_people() => line.interval_cell(),
        figure("cv_shown", "CV").for_people() => ReportCell::share(line.summary.variation),
        figure("range_shown", "min … max").for_people().expendable(3) => line.range_cell(),
        figure("time", "time").for_people().expendable(2) =>
            line.time.as_ref().map(|(ns, text)| ReportCell::from(*ns).with_text(text)),
        figure("runs_shown", "runs").for_people().expendable(1) =>
            ReportCell::from(line.summary.runs.len()).with_text(&line.runs),
        figure("outliers_shown", "outliers").for_people().expendable(5) =>
            ReportCell::from(line.summary.outliers.len())
                .shown_if(!line.summary.outliers.is_empty()),
        figure("mean_shown", "mean").for_people().expendable(6) if is_verbose =>
            line.shown_cell(line.summary.mean),
        figure("r1_shown", "autocorrelation").for_people().expendable(7) if is_verbose =>
            ReportCell::shown_figure(line.summary.autocorrelation, |r1| format_signed(r1, 2)),
        words("marks", "").for_people() => ReportCell::text(&line.marks),
        machine("runs") => line.summary.runs.len(),
        machine("median") => line.summary.center.value,
        machine("median_low") => known_bound(line.summary, line.summary.center.low),
        machine("median_high") => known_bound(line.summary, line.summary.center.high),
        machine("mean") => line.summary.mean,
        machine("variation") => line.summary.variation,
        machine("min") => extreme_run(line.summary, f64::min),
        machine("max") => extreme_run(line.summary, f64::max),
        machine("autocorrelation") => line.summary.autocorrelation,
        machine("outliers") => line.summary.outliers.len(),
        machine("notes") => line.summary.notes.join(" "),
        machine("values") => RunList::Values(line.summary.runs.clone()),
        machine("slots") => RunList::Slots(line.summary.runs.clone()),
    }
}

/// Adds columns about disturbed runs. In verbose output, people see the fraction of disturbed runs
/// if it is notable. Programs get the fraction and the kernel's figures.
fn add_disturbance(columns: &mut ColumnSet<SummaryLine<'_>>, verbosity: Verbosity) {
    columns.append(column_set! { line: SummaryLine<'_>;
        figure("disturbed_shown", "disturbed").for_people().expendable(5)
            if verbosity == Verbosity::Verbose => line.summary.exposure.is_notable().then(|| {
                ReportCell::share(line.summary.exposure.disturbed_share())
            }),
        machine("disturbed") => line.summary.exposure.known_share(),
    });
    for figure in DisturbanceFigure::ALL {
        columns.add_column(ReportColumn::machine(figure.name()), move |line| {
            line.summary.exposure.median_figure(figure).into()
        });
    }
}

/// Returns the smallest or the largest run, as `choose` says.
fn extreme_run(summary: &CaseSummary, choose: fn(f64, f64) -> f64) -> Option<f64> {
    summary.runs.iter().map(|run| run.value).reduce(choose)
}

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

    fn shown_cell(&self, stored: f64) -> ReportCell {
        ReportCell::shown_figure(stored, |stored| self.format_shown(stored))
    }

    fn interval_cell(&self) -> ReportCell {
        let IntervalEstimate { low, high, .. } = self.summary.center;
        let text = format!("[{}, {}]", self.format_shown(low), self.format_shown(high));
        ReportCell::from(low).with_text(text).shown_if(low != high)
    }

    fn range_cell(&self) -> ReportCell {
        let ends = [extreme_run(self.summary, f64::min), extreme_run(self.summary, f64::max)];
        let cell = ReportCell::from(ends[0]);
        match ends.map(|end| end.map(|end| self.format_shown(end))) {
            [Some(min), Some(max)] if self.summary.runs.len() > 1 => {
                cell.with_text(format!("{min} … {max}"))
            }
            _ => cell,
        }
    }
}

/// Prepares the rows of one table, in the order of `section`. If the rows are `alike` (all about
/// one metric), they get a common unit where possible.
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
            runs: format_whole(summary.runs.len()),
            variant: summary.variant.to_string(),
            time: time_per_iteration(summary, choice),
            marks: join_texts(" ", notes),
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
    let fitted = FigureScale::fit_scale(unit, &[center], choice);
    let scale = fitted.keeping_counts(unit, [(center, uncertainty)], choice);
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
    Some((time_ns, scale.format_rounded(time_ns, relative)))
}

/// Returns the answer for a single summary:
/// `g/a.js: 1.23 M/s [1.22, 1.24], 810 ns per iteration (30 runs).`
pub(crate) fn summary_sentence(summary: &CaseSummary, choice: Option<UnitChoice>) -> String {
    let (scale, place) = scale_and_place(summary, choice);
    let median = scale.format_estimate(&summary.center, place);
    let time =
        time_per_iteration(summary, choice).map(|(_, time)| format!(", {time} per iteration"));
    let runs = format_count(summary.runs.len(), "run", "runs");
    let benchmark = &shown_case(&summary.case).benchmark;
    format!("{benchmark}: {median}{} ({runs}).", time.unwrap_or_default())
}
