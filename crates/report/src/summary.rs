//! What was measured, without comparing: one row per case (and variant) of each metric.
//!
//! Where there is a single case with several metrics (a load test, a one-liner), the metrics are the
//! rows of one table. Start at [`summary`]; a row is prepared by [`prepare`].

use crate::case_labels::{CaseLabels, Line as LabelLine, add_case_columns, labelled_rows};
use crate::document::{Block, Document};
use crate::figure::{
    Uncertainty, count, direction, in_unit, share, spell, spell_signed, uncertainty_of,
    uncertainty_of_median,
};
use crate::output::{Output, Verbosity};
use crate::table::{
    Cell, Column, Columns, Emphasis, Footnotes, Kind, Name, RunList, Table, take_common,
};
use crate::unit::{Scale, UnitChoice, in_base_units};
use speedwell_analysis::CaseSummary;
use speedwell_model::{Better, Estimate, Figure as Recorded, Metric};
use std::sync::Arc;

/// Said below the tables.
const EXPLANATION: &str = "median over the runs with its interval; CV: standard deviation of the \
                           runs divided by their mean; time: of one iteration of one worker.";

/// The name of the table, for machines.
pub const TABLE: &str = "summaries";

/// The summaries, without failures, warnings and charts, which all reports share.
pub fn summary(summaries: &[CaseSummary], output: &Output) -> Document {
    let mut document = Document::new("summary");
    if let [only] = summaries {
        document.push(Block::Headline(sentence(only, output.unit)));
    }
    for section in sections(summaries) {
        document.push(Block::Table(table(&section, output)));
    }
    if !summaries.is_empty() {
        output.add_detail(&mut document, |_, document| {
            document.push(Block::Note(EXPLANATION.into()));
        });
    }
    document
}

/// What the table can be sorted by.
pub fn sort_keys() -> Vec<&'static str> {
    columns("", Verbosity::Normal).sort_keys()
}

/// The summaries of one table.
type Section<'a> = Vec<&'a CaseSummary>;

fn sections(summaries: &[CaseSummary]) -> Vec<Section<'_>> {
    let Some(first) = summaries.first() else {
        return Vec::new();
    };
    let id = first.case.id();
    if summaries
        .iter()
        .all(|s| s.case.id() == id && s.variant == first.variant)
    {
        return vec![summaries.iter().collect()];
    }
    let mut metrics: Vec<&Metric> = Vec::new();
    for summary in summaries {
        if !metrics.contains(&&summary.metric) {
            metrics.push(&summary.metric);
        }
    }
    let of = |metric: &Metric| summaries.iter().filter(|s| s.metric == *metric).collect();
    metrics.into_iter().map(of).collect()
}

fn table(section: &Section<'_>, output: &Output) -> Table {
    let mut footnotes = Footnotes::default();
    let metrics_are_rows = section.len() > 1 && section[0].metric != section[1].metric;
    let (shared, labels) = if metrics_are_rows {
        by_metric(section)
    } else {
        by_case(section)
    };
    let mut lines = prepare(section, !metrics_are_rows, output.unit, &mut footnotes);
    let unit = take_common(&mut lines, |line| &mut line.unit);
    let runs = take_common(&mut lines, |line| &mut line.runs);
    let variant = take_common(&mut lines, |line| &mut line.variant);
    let names = if metrics_are_rows { "metric" } else { "case" };
    let mut columns = columns(names, output.verbosity);
    if section
        .iter()
        .any(|summary| summary.exposure.known_share().is_some())
    {
        add_disturbance(&mut columns);
    }
    let rows = labelled_rows(labels, |index, name| {
        lines[index].name = name;
        columns.row(&lines[index])
    });
    let mut caption: Vec<String> = Some(shared)
        .filter(|text| !text.is_empty())
        .into_iter()
        .collect();
    let metric = (!metrics_are_rows).then_some(&section[0].metric);
    caption.extend(line_of_caption(metric, unit, runs, variant));
    Table {
        caption,
        footnotes: footnotes.into_texts(),
        ..columns.table_of_rows(TABLE, rows)
    }
}

fn by_case(section: &Section<'_>) -> (String, Vec<LabelLine>) {
    let cases: Vec<_> = section
        .iter()
        .map(|summary| Arc::clone(&summary.case))
        .collect();
    let labels = CaseLabels::new(&cases);
    (labels.shared, labels.lines)
}

fn by_metric(section: &Section<'_>) -> (String, Vec<LabelLine>) {
    let label = |(index, summary): (usize, &&CaseSummary)| {
        let metric = &summary.metric;
        let full = format!("{} ({})", metric.name, direction(metric.better));
        LabelLine::Case {
            index,
            name: Name {
                full,
                short: metric.name.clone(),
            },
        }
    };
    (
        section[0].case.id(),
        section.iter().enumerate().map(label).collect(),
    )
}

/// What all rows share, in words.
fn line_of_caption(
    metric: Option<&Metric>,
    unit: Option<String>,
    runs: Option<String>,
    variant: Option<String>,
) -> Option<String> {
    let mut words: Vec<String> = Vec::new();
    if let Some(metric) = metric {
        words.push(in_unit(&metric.name, unit.as_deref().unwrap_or_default()));
        words.push(direction(metric.better).to_owned());
    }
    // The count was spelled by `prepare`; only 1 has a different noun.
    words.extend(runs.map(|runs| {
        if runs == "1" {
            count(1, "run", "")
        } else {
            runs + " runs"
        }
    }));
    words.extend(
        variant
            .filter(|name| !name.is_empty())
            .map(|name| format!("variant {name}")),
    );
    Some(words.join(", ")).filter(|line| !line.is_empty())
}

/// All columns; `names` is the heading of the rows' names.
fn columns<'a>(names: &str, verbosity: Verbosity) -> Columns<Line<'a>> {
    let mut columns = Columns::new();
    columns.add(
        Column::new("case", names, Kind::Label),
        |line: &Line<'a>| Cell::value(line.summary.case.id()).named(&line.name),
    );
    add_case_columns(
        &mut columns,
        |line: &Line<'a>| &line.summary.case,
        |line: &Line<'a>| &line.summary.metric,
    );
    add_centre(&mut columns);
    add_spread(&mut columns);
    if verbosity == Verbosity::Verbose {
        let mean = Column::figure("mean_shown", "mean").for_people();
        columns.add(mean.expendable(6), |line| {
            Cell::shown_figure(Some(line.summary.mean), |mean| line.shown(mean))
        });
        let r1 = Column::figure("r1_shown", "autocorrelation").for_people();
        columns.add(r1.expendable(7), |line| {
            Cell::shown_figure(line.summary.autocorrelation, |r1| spell_signed(r1, 2))
        });
    }
    columns.add_text(Column::words("marks", ""), |line| line.marks.clone());
    for (key, figure) in FIGURES {
        columns.add_figure(key, move |line| figure(line.summary));
    }
    columns.add_value("notes", |line| line.summary.notes.join(" "));
    columns.add_runs("values", |line| RunList::Values(line.summary.runs.clone()));
    columns.add_runs("slots", |line| RunList::Slots(line.summary.runs.clone()));
    columns
}

/// How often runs were disturbed, where that is often, and for machines what the kernel said of them.
fn add_disturbance(columns: &mut Columns<Line<'_>>) {
    let disturbed = Column::figure("disturbed_shown", "disturbed").for_people();
    columns.add(disturbed.expendable(5), |line| {
        let exposure = &line.summary.exposure;
        Cell::shown_figure(
            Some(exposure.share()).filter(|_| exposure.is_notable()),
            share,
        )
    });
    columns.add_figure("disturbed", |line| line.summary.exposure.known_share());
    for figure in Recorded::ALL {
        columns.add_figure(figure.name(), move |line| {
            line.summary.exposure.median(figure)
        });
    }
}

/// The figure itself.
fn add_centre(columns: &mut Columns<Line<'_>>) {
    columns.add(Column::words("variant", "variant"), |line| {
        Cell::value(line.summary.variant.to_string()).shown(line.variant.clone())
    });
    columns.add(
        Column::figure("median_shown", "median").for_people(),
        |line| {
            let median = line.summary.center.value;
            Cell::shown_figure(Some(median), |median| line.shown(median))
                .emphasised(Emphasis::Strong)
        },
    );
    columns.add_text(Column::words("unit_shown", "unit"), |line| {
        line.unit.clone()
    });
    columns.add(
        Column::figure("interval_shown", "interval").for_people(),
        |line| {
            let Estimate { low, high, .. } = line.summary.center;
            let ends = || format!("[{}, {}]", line.shown(low), line.shown(high));
            Cell::figure(Some(low)).shown(if low == high { String::new() } else { ends() })
        },
    );
}

/// How much the runs differ.
fn add_spread(columns: &mut Columns<Line<'_>>) {
    columns.add(Column::figure("cv_shown", "CV").for_people(), |line| {
        Cell::shown_figure(line.summary.variation, share)
    });
    let range = Column::figure("range_shown", "min … max").for_people();
    columns.add(range.expendable(3), |line| {
        let range = match (least(line.summary), most(line.summary)) {
            (Some(min), Some(max)) if line.summary.runs.len() > 1 => {
                format!("{} … {}", line.shown(min), line.shown(max))
            }
            _ => String::new(),
        };
        Cell::figure(least(line.summary)).shown(range)
    });
    let time = Column::figure("time", "time").for_people();
    columns.add(time.expendable(2), |line| match &line.time {
        Some((time_ns, text)) => Cell::figure(Some(*time_ns)).shown(text),
        None => Cell::default(),
    });
    let runs = Column::figure("runs_shown", "runs").for_people();
    columns.add(runs.expendable(1), |line| {
        Cell::figure(Some(line.summary.runs.len() as f64)).shown(line.runs.clone())
    });
    let outliers = Column::figure("outliers_shown", "outliers").for_people();
    columns.add(outliers.expendable(5), |line| {
        Cell::shown_figure(Some(line.summary.outliers.len() as f64), |number| {
            if number == 0.0 {
                String::new()
            } else {
                spell(number, 0)
            }
        })
    });
}

fn least(summary: &CaseSummary) -> Option<f64> {
    summary.runs.iter().map(|run| run.value).reduce(f64::min)
}

fn most(summary: &CaseSummary) -> Option<f64> {
    summary.runs.iter().map(|run| run.value).reduce(f64::max)
}

/// The key of a column for machines, and its figure.
type Figure = (&'static str, fn(&CaseSummary) -> Option<f64>);

/// Figures for machines with all their digits.
const FIGURES: [Figure; 10] = [
    ("runs", |summary| Some(summary.runs.len() as f64)),
    ("median", |summary| Some(summary.center.value)),
    ("median_low", |summary| known(summary, summary.center.low)),
    ("median_high", |summary| known(summary, summary.center.high)),
    ("mean", |summary| Some(summary.mean)),
    ("variation", |summary| summary.variation),
    ("min", least),
    ("max", most),
    ("autocorrelation", |summary| summary.autocorrelation),
    ("outliers", |summary| Some(summary.outliers.len() as f64)),
];

/// An end of the interval; below 6 runs there is none, and both ends equal the median.
fn known(summary: &CaseSummary, end: f64) -> Option<f64> {
    (summary.center.low < summary.center.high || summary.variation == Some(0.0)).then_some(end)
}

/// A row of the table.
pub struct Line<'a> {
    /// Its figures.
    pub summary: &'a CaseSummary,
    /// What it is called in its table.
    pub name: Name,
    /// How its figures are shown.
    pub scale: Scale,
    /// The last decimal place of its figures.
    pub place: i32,
    /// The unit, unless the caption says it.
    pub unit: String,
    /// The number of runs, unless the caption says it.
    pub runs: String,
    /// The variant, unless the caption says it.
    pub variant: String,
    /// Mean time of one iteration of one worker in nanoseconds and as text, where it is known.
    pub time: Option<(f64, String)>,
    /// Marks of the footnotes.
    pub marks: String,
}

impl Line<'_> {
    /// The bare spelling of `stored` with the digits of the line.
    fn shown(&self, stored: f64) -> String {
        self.scale.bare(stored, self.place)
    }
}

/// The lines of one table, in the order given; with one unit for all if they are `alike`.
pub fn prepare<'a>(
    section: &[&'a CaseSummary],
    alike: bool,
    choice: Option<UnitChoice>,
    footnotes: &mut Footnotes,
) -> Vec<Line<'a>> {
    let common = if alike {
        common_scale(section, choice)
    } else {
        None
    };
    let line = |summary: &&'a CaseSummary| {
        let (own, _) = scale_and_place(summary, choice);
        let scale = common.clone().unwrap_or(own);
        let notes = summary.notes.iter().map(|note| footnotes.mark(note));
        Line {
            summary,
            name: Name::default(),
            place: scale.place(summary.center.value, uncertainty(summary)),
            unit: scale.symbol.clone(),
            runs: spell(summary.runs.len() as f64, 0),
            variant: summary.variant.to_string(),
            time: time_per_iteration(summary, choice),
            marks: notes.collect::<Vec<_>>().join(" "),
            scale,
        }
    };
    section.iter().map(line).collect()
}

fn uncertainty(summary: &CaseSummary) -> Uncertainty {
    match uncertainty_of(&summary.center) {
        Uncertainty::Unknown => {
            uncertainty_of_median(summary.center.value, summary.variation, summary.runs.len())
        }
        known => known,
    }
}

/// The scale of a summary by itself, and the place at which its center is rounded there.
pub(crate) fn scale_and_place(summary: &CaseSummary, choice: Option<UnitChoice>) -> (Scale, i32) {
    let (unit, center) = (&summary.metric.unit, summary.center.value);
    let known = uncertainty(summary);
    let scale = Scale::fitting(unit, &[center], choice);
    let scale = scale.keeping_counts(unit, [(center, known)], choice);
    let place = scale.place(center, known);
    (scale, place)
}

fn common_scale(section: &[&CaseSummary], choice: Option<UnitChoice>) -> Option<Scale> {
    let unit = &section.first()?.metric.unit;
    let centres = section.iter().map(|summary| summary.center.value);
    let scale = Scale::common(unit, centres, choice)?;
    let figures = section.iter();
    let figures = figures.map(|summary| (summary.center.value, uncertainty(summary)));
    Some(scale.keeping_counts(unit, figures, choice))
}

/// Time per iteration and worker: the workers that share a throughput are counted by the parameter
/// `concurrency`, one without it.
fn time_per_iteration(summary: &CaseSummary, choice: Option<UnitChoice>) -> Option<(f64, String)> {
    let metric = &summary.metric;
    if metric.name != Metric::THROUGHPUT || metric.better != Better::Higher {
        return None;
    }
    let per_second =
        in_base_units(summary.center.value, &metric.unit).filter(|rate| *rate > 0.0)?;
    let time_ns = f64::from(summary.case.workers().unwrap_or(1)) / per_second * 1e9;
    let relative = match uncertainty(summary) {
        Uncertainty::Half(half) => Uncertainty::Half(half / summary.center.value * time_ns),
        Uncertainty::Exact | Uncertainty::Unknown => Uncertainty::Unknown,
    };
    let scale = Scale::fitting("ns", &[time_ns], choice);
    let text = scale.full(time_ns, scale.place(time_ns, relative));
    Some((time_ns, text))
}

/// The answer of a single summary: `g/a.js: 1.234 M/s [1.221, 1.240], 810 ns per iteration`.
pub fn sentence(summary: &CaseSummary, choice: Option<UnitChoice>) -> String {
    let (scale, place) = scale_and_place(summary, choice);
    let mut sentence = format!(
        "{}: {}",
        summary.case.benchmark,
        scale.full(summary.center.value, place)
    );
    if summary.center.low < summary.center.high {
        let ends = [summary.center.low, summary.center.high].map(|end| scale.bare(end, place));
        sentence.push_str(&format!(" [{}, {}]", ends[0], ends[1]));
    }
    if let Some((_, time)) = time_per_iteration(summary, choice) {
        sentence.push_str(&format!(", {time} per iteration"));
    }
    let runs = count(summary.runs.len(), "run", "runs");
    format!("{sentence} ({runs}).")
}
