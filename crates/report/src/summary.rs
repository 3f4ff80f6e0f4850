//! What was measured, without comparing: one row per case (and variant) of each metric.
//!
//! Where there is a single case with several metrics (a load test, a one-liner), the metrics are the
//! rows of one table. A row is prepared in `line.rs`; the columns are in `columns.rs`.

use crate::case_labels::{CaseLabels, CaseMetric, Line as LabelLine, case_fields, slots, values};
use crate::document::{Block, Document, Emphasis};
use crate::figure::{
    Uncertainty, count, direction, in_unit, share, spell, spell_signed, uncertainty_of,
    uncertainty_of_median,
};
use crate::output::{Output, Verbosity};
use crate::table::{
    Cell, Column, Field, Footnotes, Kind, Name, Row, Table, keys, row_of, take_common,
};
use crate::unit::{Scale, UnitChoice, in_base_units};
use speedwell_analysis::CaseSummary;
use speedwell_model::{Better, Metric};
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
    if output.verbosity != Verbosity::Quiet && !summaries.is_empty() {
        document.push(Block::Note(EXPLANATION.into()));
    }
    document
}

/// What the table can be sorted by.
pub fn sort_keys() -> Vec<&'static str> {
    keys(&fields("", Verbosity::Normal))
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
    let fields = fields(names, output.verbosity);
    let mut rows = Vec::new();
    for label in labels {
        match label {
            LabelLine::Group(name) => rows.push(Row::Group(name)),
            LabelLine::Case { index, name } => {
                lines[index].name = name;
                rows.push(row_of(&fields, &lines[index]));
            }
        }
    }
    let mut caption: Vec<String> = Some(shared)
        .filter(|text| !text.is_empty())
        .into_iter()
        .collect();
    let metric = (!metrics_are_rows).then_some(&section[0].metric);
    caption.extend(line_of_caption(metric, unit, runs, variant));
    Table {
        caption,
        columns: fields.into_iter().map(|field| field.column).collect(),
        rows,
        footnotes: footnotes.into_texts(),
        ..Table::new(TABLE)
    }
}

fn by_case(section: &Section<'_>) -> (String, Vec<LabelLine>) {
    let cases: Vec<_> = section
        .iter()
        .map(|summary| Arc::clone(&summary.case))
        .collect();
    let labels = CaseLabels::of(&cases);
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

type Fields<'a> = Vec<Field<Line<'a>>>;

/// All columns; `names` is the heading of the rows' names.
pub fn fields<'a>(names: &str, verbosity: Verbosity) -> Fields<'a> {
    let names = Column::new("case", names, Kind::Label);
    let mut fields = vec![Field::new(names, |line: &Line<'_>| {
        Cell::value(line.summary.case.id()).named(&line.name)
    })];
    fields.extend(case_fields(|line: &Line<'a>| CaseMetric {
        case: &line.summary.case,
        metric: &line.summary.metric,
    }));
    fields.extend(centre());
    fields.extend(spread());
    if verbosity == Verbosity::Verbose {
        fields.extend(more());
    }
    fields.push(Field::people(
        "marks",
        "",
        Kind::Words,
        |line: &Line<'_>| line.marks.clone(),
    ));
    fields.extend(figures());
    fields
}

fn expendable<'a>(mut field: Field<Line<'a>>, order: u8) -> Field<Line<'a>> {
    field.column.expendable = order;
    field
}

/// The figure itself.
fn centre<'a>() -> Fields<'a> {
    vec![
        Field::new(
            Column::new("variant", "variant", Kind::Words),
            |line: &Line<'_>| {
                Cell::value(line.summary.variant.to_string()).shown(line.variant.clone())
            },
        ),
        Field::new(
            Column::new("median_shown", "median", Kind::Figure).for_people(),
            |line: &Line<'_>| {
                let median = line.summary.center.value;
                Cell::figure(Some(median))
                    .shown(shown(line, median))
                    .emphasised(Emphasis::Strong)
            },
        ),
        Field::people("unit_shown", "unit", Kind::Words, |line: &Line<'_>| {
            line.unit.clone()
        }),
        figured(
            "interval_shown",
            "interval",
            |s| Some(s.center.low),
            interval,
        ),
    ]
}

fn interval(line: &Line<'_>) -> String {
    let center = &line.summary.center;
    if center.low == center.high {
        return String::new();
    }
    format!(
        "[{}, {}]",
        shown(line, center.low),
        shown(line, center.high)
    )
}

/// How much the runs differ.
fn spread<'a>() -> Fields<'a> {
    vec![
        figured(
            "cv_shown",
            "CV",
            |s| s.variation,
            |line| line.summary.variation.map(share).unwrap_or_default(),
        ),
        expendable(figured("range_shown", "min … max", least, range), 3),
        expendable(time(), 2),
        expendable(
            figured("runs_shown", "runs", runs, |line| line.runs.clone()),
            1,
        ),
        expendable(
            figured(
                "outliers_shown",
                "outliers",
                |s| Some(s.outliers.len() as f64),
                outliers,
            ),
            5,
        ),
    ]
}

/// A column for people whose rows can be sorted by a figure.
fn figured<'a>(
    key: &'static str,
    header: &str,
    figure: fn(&CaseSummary) -> Option<f64>,
    text: fn(&Line<'_>) -> String,
) -> Field<Line<'a>> {
    let column = Column::new(key, header, Kind::Figure).for_people();
    Field::new(column, move |line: &Line<'_>| {
        Cell::figure(figure(line.summary)).shown(text(line))
    })
}

fn time<'a>() -> Field<Line<'a>> {
    let column = Column::new("time", "time", Kind::Figure).for_people();
    Field::new(column, |line: &Line<'_>| match &line.time {
        Some((time_ns, text)) => Cell::figure(Some(*time_ns)).shown(text),
        None => Cell::default(),
    })
}

fn runs(summary: &CaseSummary) -> Option<f64> {
    Some(summary.runs.len() as f64)
}

fn range(line: &Line<'_>) -> String {
    match (least(line.summary), most(line.summary)) {
        (Some(min), Some(max)) if line.summary.runs.len() > 1 => {
            format!("{} … {}", shown(line, min), shown(line, max))
        }
        _ => String::new(),
    }
}

fn outliers(line: &Line<'_>) -> String {
    match line.summary.outliers.len() {
        0 => String::new(),
        number => spell(number as f64, 0),
    }
}

fn least(summary: &CaseSummary) -> Option<f64> {
    summary.runs.iter().map(|run| run.value).reduce(f64::min)
}

fn most(summary: &CaseSummary) -> Option<f64> {
    summary.runs.iter().map(|run| run.value).reduce(f64::max)
}

/// For those who ask for more.
fn more<'a>() -> Fields<'a> {
    let correlation = |line: &Line<'_>| {
        line.summary
            .autocorrelation
            .map(|r| spell_signed(r, 2))
            .unwrap_or_default()
    };
    let mean = figured(
        "mean_shown",
        "mean",
        |s| Some(s.mean),
        |line| shown(line, line.summary.mean),
    );
    let r1 = figured(
        "r1_shown",
        "autocorrelation",
        |s| s.autocorrelation,
        correlation,
    );
    vec![expendable(mean, 6), expendable(r1, 7)]
}

/// Every figure with all its digits, for machines.
fn figures<'a>() -> Fields<'a> {
    let mut fields: Fields<'a> = vec![
        figure("runs", runs),
        figure("median", |summary| Some(summary.center.value)),
        figure("median_low", |summary| known(summary, summary.center.low)),
        figure("median_high", |summary| known(summary, summary.center.high)),
        figure("mean", |summary| Some(summary.mean)),
        figure("variation", |summary| summary.variation),
        figure("min", least),
        figure("max", most),
        figure("autocorrelation", |summary| summary.autocorrelation),
        figure("outliers", |summary| Some(summary.outliers.len() as f64)),
    ];
    fields.push(Field::machine("notes", |line: &Line<'_>| {
        Cell::value(line.summary.notes.join(" "))
    }));
    fields.push(Field::machine("values", |line: &Line<'_>| {
        Cell::value(values(&line.summary.runs))
    }));
    fields.push(Field::machine("slots", |line: &Line<'_>| {
        Cell::value(slots(&line.summary.runs))
    }));
    fields
}

fn figure<'a>(key: &'static str, of: fn(&CaseSummary) -> Option<f64>) -> Field<Line<'a>> {
    Field::machine(key, move |line: &Line<'_>| Cell::figure(of(line.summary)))
}

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
    /// Mean time of one iteration of one worker in nanoseconds and as text, where that can be told.
    pub time: Option<(f64, String)>,
    /// Marks of the footnotes.
    pub marks: String,
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
        let own = || Scale::fitting(&summary.metric.unit, &[summary.center.value], choice);
        let scale = common.clone().unwrap_or_else(own);
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

fn common_scale(section: &[&CaseSummary], choice: Option<UnitChoice>) -> Option<Scale> {
    let unit = &section.first()?.metric.unit;
    let centres = section.iter().map(|summary| summary.center.value);
    Scale::common(unit, centres, choice)
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
    let workers = summary
        .case
        .value("concurrency")
        .and_then(|value| value.as_number());
    let time_ns = workers.filter(|number| *number >= 1.0).unwrap_or(1.0) / per_second * 1e9;
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
    let scale = Scale::fitting(&summary.metric.unit, &[summary.center.value], choice);
    let place = scale.place(summary.center.value, uncertainty(summary));
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

/// The bare spelling of `stored` with the digits of the line.
pub fn shown(line: &Line<'_>, stored: f64) -> String {
    line.scale.bare(stored, line.place)
}
