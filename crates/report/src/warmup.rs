//! Reports the findings of `speedwell warmup`: which processes reach a steady state, when, and at
//! what cost. Also reports the numbers of iterations that `speedwell iterations` finds.
//!
//! This module chooses wording, tables and charts; `analysis::warmup` decides when a process is
//! steady. Start at [`report_warmup`].

use crate::case_labels::{distinct, parameters_json};
use crate::charts::{label_cases, metric_axis};
use crate::comparison;
use crate::document::{Document, ReportBlock, ReportChart};
use crate::figure::{
    Uncertainty, decimal_place, format_count, format_number, format_quantity, format_setting,
    format_share, join_texts,
};
use crate::output::OutputOptions;
use crate::table::{ColumnSet, ReportCell, ReportTable, TextEmphasis, column_set};
use crate::unit::FigureScale;
use serde_json::{Value, json};
use speedwell_analysis::CaseComparison;
use speedwell_analysis::iterations::IterationLevel;
use speedwell_analysis::warmup::{
    CaseWarmup, ProcessWarmup, STEADY_TIME, TIME_TO_STEADY, TOTAL_TIME, WarmupAgreement,
    WarmupClass, WarmupFindings, break_even,
};
use speedwell_model::{
    ComparedClock, Environment, IntervalEstimate, Metric, MetricDirection, Verdict, name_variants,
};
use speedwell_plot as plot;
use std::sync::Arc;

/// Reports the warm-up of processes. `machine` describes the machine that ran them.
pub fn report_warmup(
    found: &WarmupFindings,
    machine: &Environment,
    output: &OutputOptions,
) -> Document {
    let mut document = Document::new("warmup");
    document.push_warnings(&found.findings.warnings);
    let names = entry_names(found);
    document.push_headline(warmup_headline(found));
    document.extend(comparison_sentences(found, &names).into_iter().map(ReportBlock::Paragraph));
    output.add_detail(&mut document, |_, document| {
        document.push_paragraph(machine_sentence(found, machine));
    });
    document.push_table(cases_table(found, &names));
    output.add_detail(&mut document, |_, document| document.push_note(warmup_note(found)));
    if !found.findings.comparisons.is_empty() {
        let compared = comparison::report_comparison(&found.findings, output);
        document.blocks.push(ReportBlock::appendix("Comparison of the figures", compared.blocks));
        document.data.extend(compared.data);
    }
    let cases = names.iter().zip(&found.cases);
    let processes = cases.flat_map(|(name, warmup)| {
        warmup.processes.iter().map(move |process| ProcessLine { name, warmup, process })
    });
    document.push(ReportBlock::Appendix {
        title: "Every process".into(),
        instead: Some("-v shows every process.".into()),
        blocks: vec![ReportBlock::Table(process_columns().build_table("processes", processes))],
    });
    document.append_document(crate::report_failures(&found.findings.failures, output.verbosity));
    document.push_charts(warmup_charts(found, &names));
    document
}

/// Returns the keys by which the rows of the tables can be sorted.
pub fn sort_keys() -> Vec<&'static str> {
    [case_columns(ComparedClock::Wall).sort_keys(), process_columns().sort_keys()].concat()
}

/// Returns a name for each entry of `found.cases`, which is a case under one variant. The name says
/// what distinguishes the case from the other cases. If there are several variants, the name also
/// contains the variant.
fn entry_names(found: &WarmupFindings) -> Vec<String> {
    let cases: Vec<_> = found.cases.iter().map(|warmup| Arc::clone(&warmup.case)).collect();
    let ids = distinct(cases.iter().map(|case| case.id()));
    let variants = distinct(found.cases.iter().map(|warmup| warmup.variant.clone()));
    let mut names = vec![String::new(); cases.len()];
    for (index, label) in label_cases(&cases).1 {
        names[index] = label.replace('\n', " ");
    }
    for (name, warmup) in names.iter_mut().zip(&found.cases) {
        match (ids.len(), variants.len()) {
            (_, 1) if !name.is_empty() => {}
            (_, 1) => *name = warmup.case.id(),
            (1, _) => *name = warmup.variant.to_string(),
            _ => *name = format!("{name} [{}]", warmup.variant),
        }
    }
    names
}

fn warmup_headline(found: &WarmupFindings) -> String {
    let steady = found.cases.iter().filter(|warmup| warmup.is_steady()).count();
    match &found.cases[..] {
        [] => "nothing was recorded".into(),
        [only] => entry_sentence(only),
        cases if steady == cases.len() => "every process of every case becomes steady".into(),
        cases => format!(
            "every process becomes steady in {steady} of {}",
            format_count(cases.len(), "case", "cases")
        ),
    }
}

/// Describes a case under a variant, as in `warm-up: steady after 1.2 s (iteration 80), then 1.03
/// ms an iteration; 10 processes`.
fn entry_sentence(warmup: &CaseWarmup) -> String {
    let agreement = warmup.agreement();
    let processes = format_count(warmup.processes.len(), "process", "processes");
    let ns = |ns: f64| format_quantity(ns, "ns", Uncertainty::Unknown);
    let steady = warmup.median_over_processes(|process| process.steady_ns);
    let start = warmup.median_over_processes(|process| process.to_steady_ns);
    match (steady, start) {
        _ if !warmup.is_steady() => format!("{agreement}: {}", class_counts(warmup)),
        (Some(steady), _) if agreement == WarmupAgreement::All(WarmupClass::Flat) => {
            format!("flat: {} an iteration from the start; {processes}", ns(steady))
        }
        (Some(steady), Some(start)) => format!(
            "{agreement}: steady after {} (iteration {}), then {} an iteration; {processes}",
            ns(start),
            format_number(first_iteration(warmup).unwrap_or(0.0), 0),
            ns(steady)
        ),
        _ => agreement.to_string(),
    }
}

/// Returns the iteration at which processes become steady: the median over all processes.
fn first_iteration(warmup: &CaseWarmup) -> Option<f64> {
    let first_point = |process: &ProcessWarmup| Some(process.search.first_steady_point()? as f64);
    Some(warmup.median_over_processes(first_point)? * warmup.iterations)
}

/// Counts the processes in each class, as in `8 warm-up, 2 flat`.
fn class_counts(warmup: &CaseWarmup) -> String {
    let counts = warmup.count_classes().into_iter();
    join_texts(", ", counts.map(|(class, count)| format!("{count} {class}")))
}

/// Returns a sentence per case and candidate with three verdicts: on the steady time, on the start
/// and on the total time. If one variant starts faster and the other is faster when steady, a
/// second sentence says after how many iterations their total times are equal.
fn comparison_sentences(found: &WarmupFindings, names: &[String]) -> Vec<String> {
    let mut sentences = Vec::new();
    for (name, warmup) in names.iter().zip(&found.cases) {
        let mut pairs = found.findings.comparisons.iter();
        let Some(pair) = pairs.find(|pair| *pair.candidate == *warmup.variant) else { continue };
        let (baseline, candidate) = (pair.baseline.as_str(), pair.candidate.as_str());
        let row = |metric| found.case_comparison(metric, &warmup.case, candidate);
        let iterations =
            warmup.processes.first().map_or(0.0, |process| process.times_ns.len() as f64)
                * warmup.iterations;
        let parts = [
            verdict_part("steady", row(STEADY_TIME)),
            verdict_part("start", row(TIME_TO_STEADY)),
            verdict_part(&format!("total over {}", format_number(iterations, 0)), row(TOTAL_TIME)),
        ];
        sentences.push(format!("{name} against {baseline}: {}", parts.join(", ")));
        let verdict = |metric| row(metric).map(|row| row.verdict);
        let before = found.case_warmup(&warmup.case, baseline);
        let Some(crossing) = before.and_then(|before| break_even(before, warmup)) else { continue };
        let iterations = format_number(crossing, decimal_place(crossing, Uncertainty::Unknown));
        match (verdict(STEADY_TIME), verdict(TIME_TO_STEADY)) {
            (Some(Verdict::Better), Some(Verdict::Worse)) => sentences.push(format!(
                "From about {iterations} iterations on, {candidate} has made up for its slower \
                 start."
            )),
            (Some(Verdict::Worse), Some(Verdict::Better)) => sentences.push(format!(
                "Up to about {iterations} iterations, {candidate} takes less time, thanks to its \
                 faster start."
            )),
            _ => {}
        }
    }
    sentences
}

/// Describes one verdict, as in `start: worse by 18%`.
fn verdict_part(name: &str, row: Option<&CaseComparison>) -> String {
    let Some(row) = row else { return format!("{name}: some processes did not become steady") };
    let is_decided = matches!(row.verdict, Verdict::Better | Verdict::Worse);
    let change = row.change.filter(|_| is_decided);
    let amount = change.map(|change| format!(" by {}", format_share(change.value.abs())));
    format!("{name}: {}{}", row.verdict, amount.unwrap_or_default())
}

/// Says how busy the machine was. Also counts the processes in which the reference loop changed its
/// speed at the same moment as the measured code. The machine caused such a change.
fn machine_sentence(found: &WarmupFindings, machine: &Environment) -> String {
    let load = machine.load.map(|[minute, ..]| format!("load {minute:.1}"));
    let steal_percent = machine.facts.get("now_steal_percent");
    let steal = steal_percent.map(|percent| format!("{percent}% of the processor time stolen"));
    let processes = || found.cases.iter().flat_map(|warmup| &warmup.processes);
    let with_reference = processes().filter(|process| process.reference > 0).count();
    let changed = processes().filter(|process| !process.search.machine_changes.is_empty()).count();
    let reference = match (with_reference, changed) {
        (0, _) => "no reference loop".to_owned(),
        (_, 0) => {
            "the reference loop never changed its speed together with the measured code".to_owned()
        }
        (total, changed) => format!(
            "the speed of the machine changed in {changed} of {}",
            format_count(total, "process", "processes")
        ),
    };
    format!("Machine: {}.", join_texts(", ", load.into_iter().chain(steal).chain([reference])))
}

fn warmup_note(found: &WarmupFindings) -> String {
    let is_cpu_time = found.clock == ComparedClock::Cpu;
    let clock = if is_cpu_time { "processor time" } else { "wall-clock time" };
    let point = match found.cases.first().map_or(1.0, |warmup| warmup.iterations) {
        1.0 => "a point is one iteration".to_owned(),
        iterations => format!("a point is {} iterations", format_number(iterations, 0)),
    };
    format!(
        "steady: median time of an iteration after the last change of level; to steady: time until \
         the first steady point has ended; total: time of all points; all are medians of {clock} \
         over the processes; {point}. A level is a series of points with similar times. Levels \
         within {} of each other are treated as one, and the last level must cover at least {} of the points.",
        format_setting(found.rule.delta),
        format_setting(found.rule.min_share)
    )
}

struct CaseLine<'a> {
    name: &'a str,
    warmup: &'a CaseWarmup,
    steady: Option<IntervalEstimate>,
    to_steady: Option<IntervalEstimate>,
    total: Option<IntervalEstimate>,
}

fn cases_table(found: &WarmupFindings, names: &[String]) -> ReportTable {
    let figure = |warmup: &CaseWarmup, metric: &str| {
        let summaries = found.findings.summaries.iter();
        summaries
            .filter(|summary| summary.metric.name == metric)
            .find(|summary| *summary.case == *warmup.case && summary.variant == warmup.variant)
            .map(|summary| summary.center)
    };
    let lines = names.iter().zip(&found.cases).map(|(name, warmup)| CaseLine {
        name,
        warmup,
        steady: figure(warmup, STEADY_TIME),
        to_steady: figure(warmup, TIME_TO_STEADY),
        total: figure(warmup, TOTAL_TIME),
    });
    case_columns(found.clock).build_table("warmup", lines)
}

fn case_columns<'a>(clock: ComparedClock) -> ColumnSet<CaseLine<'a>> {
    column_set! { line: CaseLine<'a>;
        label("case", "case") => ReportCell::words(line.warmup.case.id()).with_text(line.name),
        machine("benchmark") => &line.warmup.case.benchmark,
        machine("parameters") => parameters_json(&line.warmup.case),
        machine("variant") => &*line.warmup.variant,
        words("class", "class").facet() => agreement_cell(line.warmup.agreement()),
        words("processes", "processes") => class_counts(line.warmup),
        figure("steady_time", "steady") => ReportCell::estimate(line.steady, "ns"),
        machine("steady_low") => line.steady.map(|time| time.low),
        machine("steady_high") => line.steady.map(|time| time.high),
        figure("time_to_steady", "to steady") => ReportCell::estimate(line.to_steady, "ns"),
        machine("to_steady_low") => line.to_steady.map(|time| time.low),
        machine("to_steady_high") => line.to_steady.map(|time| time.high),
        figure("total", "total") => ReportCell::estimate(line.total, "ns"),
        machine("total_low") => line.total.map(|time| time.low),
        machine("total_high") => line.total.map(|time| time.high),
        machine("clock") => json!(clock),
        figure("steady_from", "from iteration") =>
            iterations_cell(first_iteration(line.warmup).filter(|_| line.warmup.is_steady())),
        figure("noise", "noise").expendable(1) =>
            ReportCell::share(
                line.warmup.median_over_processes(|process| Some(process.search.noise)),
            ),
        machine("points") =>
            line.warmup.median_over_processes(|process| Some(process.times_ns.len() as f64)),
        machine("iterations_per_point") => line.warmup.iterations,
    }
}

fn agreement_cell(agreement: WarmupAgreement) -> ReportCell {
    let emphasis = match agreement {
        WarmupAgreement::All(class) if class.is_steady() => TextEmphasis::Good,
        WarmupAgreement::MixedGood => TextEmphasis::Good,
        _ => TextEmphasis::Caution,
    };
    ReportCell::words(agreement.to_string()).with_emphasis(emphasis)
}

fn iterations_cell(iterations: Option<f64>) -> ReportCell {
    ReportCell::shown_figure(iterations, |iterations| format_number(iterations, 0))
}

struct ProcessLine<'a> {
    name: &'a str,
    warmup: &'a CaseWarmup,
    process: &'a ProcessWarmup,
}

fn process_columns<'a>() -> ColumnSet<ProcessLine<'a>> {
    column_set! { line: ProcessLine<'a>;
        label("case", "case") => ReportCell::words(line.warmup.case.id()).with_text(line.name),
        machine("variant") => &*line.warmup.variant,
        figure("run", "run") => line.process.slot,
        words("class", "class").facet() =>
            agreement_cell(WarmupAgreement::All(line.process.search.class)),
        figure("steady_time", "steady") => ReportCell::time(line.process.steady_ns),
        figure("time_to_steady", "to steady") => ReportCell::time(line.process.to_steady_ns),
        figure("total", "total") => ReportCell::time(line.process.total_ns),
        figure("steady_from", "from iteration") => {
            let first = line.process.search.first_steady_point();
            iterations_cell(first.map(|first| first as f64 * line.warmup.iterations))
        },
        figure("levels", "levels") => line.process.search.levels.len(),
        figure("spikes", "spikes") => line.process.search.spikes.len(),
        figure("noise", "noise") => ReportCell::share(line.process.search.noise),
        figure("period", "period") => {
            let period = line.process.search.period;
            iterations_cell(period.map(|points| points * line.warmup.iterations))
        },
        figure("machine_changes", "machine changed") => line.process.search.machine_changes.len(),
        // The class that `warmup_stats` would give.
        words("warmup_stats", "warmup_stats").expendable(2) => line.process.compat.to_string(),
        machine("starts") =>
            (line.process.search.levels.iter())
                .map(|level| level.points.start)
                .collect::<Value>(),
    }
}

/// Minimum number of processes with a steady part. A case with fewer is left out of the histogram
/// of the iterations at which steady parts begin.
const MIN_HISTOGRAM_PROCESSES: usize = 5;

/// Draws a chart per case, with every process from its first iteration on. Also draws a histogram
/// of the iterations at which steady parts begin.
fn warmup_charts(found: &WarmupFindings, names: &[String]) -> Vec<ReportChart> {
    let mut charts: Vec<ReportChart> =
        names.iter().zip(&found.cases).map(|(name, warmup)| sequence_chart(name, warmup)).collect();
    let first_iterations = |(name, warmup): (&String, &CaseWarmup)| {
        let points = warmup.processes.iter().filter_map(|one| one.search.first_steady_point());
        plot::HistogramSeries {
            name: name.clone(),
            values: points.map(|point| point as f64 * warmup.iterations).collect(),
            counts: Vec::new(),
        }
    };
    let has_enough =
        |series: &plot::HistogramSeries| series.values.len() >= MIN_HISTOGRAM_PROCESSES;
    let series = names.iter().zip(&found.cases).map(first_iterations);
    let series: Vec<_> = series.filter(has_enough).collect();
    if !series.is_empty() {
        let title = "Where steady parts begin".to_owned();
        let x = plot::ChartAxis::linear("iteration");
        let chart = plot::HistogramChart { title, subtitle: None, x, series };
        charts.push(ReportChart::from_picture(plot::AnyChart::Histogram(chart)));
    }
    charts
}

fn sequence_chart(name: &str, warmup: &CaseWarmup) -> ReportChart {
    let processes = warmup.processes.iter();
    let times = processes.clone().flat_map(|process| process.times_ns.iter().copied());
    let last_levels = processes.clone().map(|process| process.search.last_level_time());
    let scale = FigureScale::typical_scale("ns", last_levels, None);
    let panel = |process: &ProcessWarmup| plot::GridPanel {
        title: format!("run {}: {}", process.slot, process.search.class),
        marks: plot::GridMarks::Sequence(plot::ValueSequence {
            values: process.times_ns.iter().map(|ns| scale.to_shown(*ns)).collect(),
            step: warmup.iterations,
            spikes: process.search.spikes.clone(),
            levels: (process.search.levels.iter())
                .map(|level| (level.points.clone(), scale.to_shown(level.time)))
                .collect(),
            shaded_from: process.search.first_steady_point(),
        }),
    };
    let metric = Metric::new("time of an iteration", "ns", MetricDirection::Lower);
    ReportChart::from_picture(plot::AnyChart::Grid(plot::GridChart {
        title: format!("{name}: every process from its first iteration on"),
        subtitle: Some("hollow: spikes; lines: levels; shaded: the steady part".into()),
        x: plot::ChartAxis::linear("iteration"),
        y: metric_axis(&metric, &scale, times.map(|ns| scale.to_shown(ns))),
        panels: processes.map(panel).collect(),
    }))
}

// Builds the report of `speedwell iterations`: the number of iterations that each benchmark file
// needs.

/// The outcome of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IterationsOutcome {
    /// Some number of iterations is enough.
    Steady,
    /// No tried number is enough. The report shows the steadiest one.
    Unsteady,
    /// Samples are too short even with the largest number of iterations.
    TooShort,
    /// Runs failed.
    Failed,
}

name_variants!(IterationsOutcome: Steady = "steady", Unsteady = "not steady",
    TooShort = "too short", Failed = "failed");

/// A benchmark file with its outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct IterationsOfFile {
    /// `group/name` of the file.
    pub file: String,
    /// The outcome of the search.
    pub outcome: IterationsOutcome,
    /// The number of iterations that is enough, or else the steadiest one. Includes the variation
    /// of the results.
    pub level: Option<IterationLevel>,
}

/// Builds the report. `parameter` names the parameter that sets the number of iterations.
pub fn report_iterations(
    files: &[IterationsOfFile],
    parameter: &str,
    output: &OutputOptions,
) -> Document {
    let mut document = Document::new("iterations");
    let is_steady = |file: &&IterationsOfFile| file.outcome == IterationsOutcome::Steady;
    let steady = files.iter().filter(is_steady).count();
    document.push_headline(format!(
        "sufficient {parameter} found for {steady} of {}",
        format_count(files.len(), "benchmark file", "benchmark files")
    ));
    document.push_table(iterations_columns(parameter).build_table("iterations", files));
    output.add_detail(&mut document, |_, document| {
        document.push_note(
            "CV: standard deviation of the runs divided by their mean, averaged over the cases; \
             max CV: the CV of the case that varies most; shortest sample: duration of a sample of \
             the quickest case. Where no number is enough, the steadiest number is shown.",
        );
    });
    document
}

/// The columns of the table.
pub(crate) fn iterations_columns(parameter: &str) -> ColumnSet<IterationsOfFile> {
    let name = parameter.to_owned();
    column_set! { file: IterationsOfFile;
        identifier("file", "file") => &file.file,
        machine("parameter") => &name,
        figure("n", "iterations") =>
            file.level.as_ref().map(|level| level.n),
        words("outcome", "outcome") => outcome_cell(file.outcome),
        figure("cv", "CV") => ReportCell::share(file.level.as_ref().map(|level| level.spread.mean)),
        figure("max_cv", "max CV") => ReportCell::share(worst_case(file).map(|(_, cv)| cv)),
        machine("max_cv_case") => worst_case(file).map_or("", |(name, _)| name),
        machine("cases") => file.level.as_ref().map_or(0, |level| level.names.len()),
        figure("shortest_ns", "shortest sample") => ReportCell::time(shortest_ns(file)),
    }
}

fn outcome_cell(outcome: IterationsOutcome) -> ReportCell {
    ReportCell::words(outcome.name()).with_emphasis(match outcome {
        IterationsOutcome::Steady => TextEmphasis::Good,
        IterationsOutcome::Failed => TextEmphasis::Bad,
        _ => TextEmphasis::Caution,
    })
}

/// Returns the case that varies most, with its coefficient of variation.
fn worst_case(file: &IterationsOfFile) -> Option<(&str, f64)> {
    file.level.as_ref()?.cases().max_by(|a, b| a.1.total_cmp(&b.1))
}

fn shortest_ns(file: &IterationsOfFile) -> Option<f64> {
    Some(file.level.as_ref()?.shortest_ns? as f64)
}
