//! Reports the findings of `speedwell warmup`: which processes reach a steady state, when, and at
//! what cost.
//!
//! This module chooses wording, tables and charts; `analysis::warmup` decides when a process is
//! steady. Start at [`report_warmup`].

use crate::case_labels::{distinct, parameters_json};
use crate::charts::{label_cases, metric_axis};
use crate::comparison;
use crate::document::{Document, ReportBlock, ReportChart};
use crate::figure::{
    Uncertainty, decimal_place, format_count, format_number, format_quantity, format_setting,
    format_share, uncertainty_of,
};
use crate::output::OutputOptions;
use crate::table::{ColumnKind, ColumnSet, ReportCell, ReportColumn, ReportTable, TextEmphasis};
use crate::unit::FigureScale;
use serde_json::Value;
use speedwell_analysis::CaseComparison;
use speedwell_analysis::warmup::{
    CaseWarmup, ProcessWarmup, STEADY_TIME, TIME_TO_STEADY, TOTAL_TIME, WarmupAgreement,
    WarmupClass, WarmupFindings, break_even,
};
use speedwell_model::{
    ComparedClock, Environment, IntervalEstimate, Metric, MetricDirection, Verdict,
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
    document.push(ReportBlock::Headline(warmup_headline(found)));
    for sentence in comparison_sentences(found, &names) {
        document.push(ReportBlock::Paragraph(sentence));
    }
    output.add_detail(&mut document, |_, document| {
        document.push(ReportBlock::Paragraph(machine_sentence(found, machine)));
    });
    document.push(ReportBlock::Table(cases_table(found, &names)));
    output.add_detail(&mut document, |_, document| {
        document.push(ReportBlock::Note(warmup_note(found)));
    });
    if !found.findings.comparisons.is_empty() {
        let compared = comparison::report_comparison(&found.findings, output);
        document.blocks.push(ReportBlock::Appendix {
            title: "Comparison of the figures".into(),
            instead: None,
            blocks: compared.blocks,
        });
        document.data.extend(compared.data);
    }
    document.push(ReportBlock::Appendix {
        title: "Every process".into(),
        instead: Some("-v shows every process.".into()),
        blocks: vec![ReportBlock::Table(
            process_columns().build_table("processes", &process_lines(found, &names)),
        )],
    });
    document.append_document(crate::report_failures(&found.findings.failures, output.verbosity));
    document.push_charts(warmup_charts(found, &names));
    document
}

/// Returns the keys by which the rows of the tables can be sorted.
pub fn sort_keys() -> Vec<&'static str> {
    [case_columns(ComparedClock::Wall).sort_keys(), process_columns().sort_keys()].concat()
}

/// Returns the name of each entry. The name says what distinguishes the entry's case from the other
/// cases. If there are several variants, the name also contains the variant.
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
        (Some(steady), Some(start)) => {
            let first_point = warmup
                .median_over_processes(|process| Some(process.search.first_steady_point()? as f64));
            let iteration = first_point.unwrap_or(0.0) * warmup.iterations;
            format!(
                "{agreement}: steady after {} (iteration {}), then {} an iteration; {processes}",
                ns(start),
                format_number(iteration, 0),
                ns(steady)
            )
        }
        _ => agreement.to_string(),
    }
}

/// Counts the processes in each class, as in `8 warm-up, 2 flat`.
fn class_counts(warmup: &CaseWarmup) -> String {
    let counts =
        warmup.count_classes().into_iter().map(|(class, count)| format!("{count} {class}"));
    counts.collect::<Vec<_>>().join(", ")
}

/// Returns a sentence per case and candidate with three verdicts: on the steady time, on the start
/// and on the total time. If one variant starts faster and the other is faster when steady, a
/// second sentence says after how many iterations their total times are equal.
fn comparison_sentences(found: &WarmupFindings, names: &[String]) -> Vec<String> {
    let candidates = distinct(
        found
            .findings
            .comparisons
            .iter()
            .map(|pair| (pair.baseline.as_str(), pair.candidate.as_str())),
    );
    let mut sentences = Vec::new();
    for (name, warmup) in names.iter().zip(&found.cases) {
        let Some((baseline, candidate)) =
            candidates.iter().find(|(_, variant)| *variant == &*warmup.variant)
        else {
            continue;
        };
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
        let crossing = found
            .case_warmup(&warmup.case, baseline)
            .and_then(|before| break_even(before, warmup))
            .map(|iterations| {
                format_number(iterations, decimal_place(iterations, Uncertainty::Unknown))
            });
        match (verdict(STEADY_TIME), verdict(TIME_TO_STEADY), crossing) {
            (Some(Verdict::Better), Some(Verdict::Worse), Some(iterations)) => sentences.push(format!(
                "From about {iterations} iterations on, {candidate} has made up for its slower \
                 start."
            )),
            (Some(Verdict::Worse), Some(Verdict::Better), Some(iterations)) => sentences.push(format!(
                "Up to about {iterations} iterations, {candidate} takes less time, thanks to its \
                 faster start."
            )),
            _ => {}
        }
    }
    sentences
}

/// Describes one verdict, as in `start: worse by 18 %`.
fn verdict_part(name: &str, row: Option<&CaseComparison>) -> String {
    let Some(row) = row else {
        return format!("{name}: not reached in every process");
    };
    let amount = row.change.map(|change| format!(" by {}", format_share(change.value.abs())));
    match row.verdict {
        Verdict::Better | Verdict::Worse => {
            format!("{name}: {}{}", row.verdict, amount.unwrap_or_default())
        }
        other => format!("{name}: {other}"),
    }
}

/// Says how busy the machine was. Also counts the processes in which the reference loop changed its
/// speed at the same moment as the measured code. The machine caused such a change.
fn machine_sentence(found: &WarmupFindings, machine: &Environment) -> String {
    let mut parts = Vec::new();
    if let Some([minute, ..]) = machine.load {
        parts.push(format!("load {minute:.1}"));
    }
    let steal = machine.facts.get("now_steal_percent");
    parts.extend(steal.map(|percent| format!("{percent} % of the processor time stolen")));
    let processes = || found.cases.iter().flat_map(|warmup| &warmup.processes);
    let with_reference = processes().filter(|process| process.reference > 0).count();
    let changed = processes().filter(|process| !process.search.machine_changes.is_empty()).count();
    parts.push(match (with_reference, changed) {
        (0, _) => "no reference loop".to_owned(),
        (_, 0) => {
            "the reference loop never changed its speed together with the measured code".to_owned()
        }
        (total, changed) => format!(
            "the speed of the machine changed in {changed} of {}",
            format_count(total, "process", "processes")
        ),
    });
    format!("Machine: {}.", parts.join(", "))
}

fn warmup_note(found: &WarmupFindings) -> String {
    let clock = match found.clock {
        ComparedClock::Cpu => "processor time",
        ComparedClock::Wall => "wall-clock time",
    };
    let first = found.cases.first();
    let point = first.map_or(1.0, |warmup| warmup.iterations);
    let point = match point {
        1.0 => "a point is one iteration".to_owned(),
        iterations => format!("a point is {} iterations", format_number(iterations, 0)),
    };
    format!(
        "steady: median time of an iteration after the last change of level; to steady: time until \
         the first steady point has ended; total: time of all points; all are medians of {clock} \
         over the processes; {point}. A level is a series of points with similar times. Levels \
         within {} of each other count as one, and the last must cover {} of the points.",
        format_setting(found.rule.delta),
        format_setting(found.rule.min_share)
    )
}

struct CaseLine {
    name: String,
    warmup: CaseWarmup,
    figures: [Option<IntervalEstimate>; 3],
}

fn cases_table(found: &WarmupFindings, names: &[String]) -> ReportTable {
    let figure = |warmup: &CaseWarmup, metric: &str| {
        let summaries = found.findings.summaries.iter();
        summaries
            .filter(|summary| summary.metric.name == metric)
            .find(|summary| *summary.case == *warmup.case && summary.variant == warmup.variant)
            .map(|summary| summary.center)
    };
    let line = |(name, warmup): (&String, &CaseWarmup)| CaseLine {
        name: name.clone(),
        figures: [STEADY_TIME, TIME_TO_STEADY, TOTAL_TIME].map(|metric| figure(warmup, metric)),
        warmup: warmup.clone(),
    };
    let lines: Vec<CaseLine> = names.iter().zip(&found.cases).map(line).collect();
    case_columns(found.clock).build_table("warmup", &lines)
}

fn agreement_emphasis(agreement: WarmupAgreement) -> TextEmphasis {
    match agreement {
        WarmupAgreement::All(class) if class.is_steady() => TextEmphasis::Good,
        WarmupAgreement::MixedGood => TextEmphasis::Good,
        _ => TextEmphasis::Caution,
    }
}

/// Adds columns for steady time, time to steady and total time, each with its interval.
fn add_time_columns(columns: &mut ColumnSet<CaseLine>) {
    let keys = [
        ("steady_time", "steady_low", "steady_high", "steady"),
        ("time_to_steady", "to_steady_low", "to_steady_high", "to steady"),
        ("total", "total_low", "total_high", "total"),
    ];
    for (index, (key, low, high, header)) in keys.into_iter().enumerate() {
        columns.add_column(ReportColumn::figure(key, header), move |line| {
            let figure = line.figures[index];
            ReportCell::shown_figure(figure.map(|estimate| estimate.value), |ns| {
                let uncertainty =
                    figure.map_or(Uncertainty::Unknown, |estimate| uncertainty_of(&estimate));
                format_quantity(ns, "ns", uncertainty)
            })
        });
        columns.add_figure(low, move |line| Some(line.figures[index]?.low));
        columns.add_figure(high, move |line| Some(line.figures[index]?.high));
    }
}

fn case_columns(clock: ComparedClock) -> ColumnSet<CaseLine> {
    let mut columns = ColumnSet::new();
    columns.add_column(ReportColumn::new("case", "case", ColumnKind::Label), |line: &CaseLine| {
        ReportCell::words(line.warmup.case.id()).with_text(line.name.clone())
    });
    columns.add_value("benchmark", |line| line.warmup.case.benchmark.clone());
    columns.add_value("parameters", |line| parameters_json(&line.warmup.case));
    columns.add_value("variant", |line| line.warmup.variant.to_string());
    columns.add_column(ReportColumn::words("class", "class").facet(), |line| {
        let agreement = line.warmup.agreement();
        ReportCell::words(agreement.to_string()).with_emphasis(agreement_emphasis(agreement))
    });
    columns.add_column(ReportColumn::words("processes", "processes"), |line| {
        ReportCell::words(class_counts(&line.warmup))
    });
    add_time_columns(&mut columns);
    columns.add_value("clock", move |_| match clock {
        ComparedClock::Cpu => "cpu",
        ComparedClock::Wall => "wall",
    });
    columns.add_column(ReportColumn::figure("steady_from", "from iteration"), |line| {
        let first = line
            .warmup
            .median_over_processes(|process| Some(process.search.first_steady_point()? as f64));
        let iteration =
            first.filter(|_| line.warmup.is_steady()).map(|first| first * line.warmup.iterations);
        ReportCell::shown_figure(iteration, |iteration| format_number(iteration, 0))
    });
    columns.add_column(ReportColumn::figure("noise", "noise").expendable(1), |line| {
        ReportCell::shown_figure(
            line.warmup.median_over_processes(|process| Some(process.search.noise)),
            format_share,
        )
    });
    columns.add_figure("points", |line| {
        line.warmup.median_over_processes(|process| Some(process.times_ns.len() as f64))
    });
    columns.add_figure("iterations_per_point", |line| Some(line.warmup.iterations));
    columns
}

struct ProcessLine {
    name: String,
    case: String,
    variant: String,
    iterations: f64,
    process: ProcessWarmup,
}

fn process_lines(found: &WarmupFindings, names: &[String]) -> Vec<ProcessLine> {
    let of_case = |(name, warmup): (&String, &CaseWarmup)| {
        let line = |process: &ProcessWarmup| ProcessLine {
            name: name.clone(),
            case: warmup.case.id(),
            variant: warmup.variant.to_string(),
            iterations: warmup.iterations,
            process: process.clone(),
        };
        warmup.processes.iter().map(line).collect::<Vec<_>>()
    };
    names.iter().zip(&found.cases).flat_map(of_case).collect()
}

fn process_columns() -> ColumnSet<ProcessLine> {
    let mut columns = ColumnSet::new();
    columns
        .add_column(ReportColumn::new("case", "case", ColumnKind::Label), |line: &ProcessLine| {
            ReportCell::words(line.case.clone()).with_text(line.name.clone())
        });
    columns.add_value("variant", |line| line.variant.clone());
    columns.add_column(ReportColumn::figure("run", "run"), |line| {
        ReportCell::count(line.process.slot)
    });
    columns.add_column(ReportColumn::words("class", "class").facet(), |line| {
        let class = line.process.search.class;
        ReportCell::words(class.to_string())
            .with_emphasis(agreement_emphasis(WarmupAgreement::All(class)))
    });
    let format_time = |ns: f64| format_quantity(ns, "ns", Uncertainty::Unknown);
    columns.add_column(ReportColumn::figure("steady_time", "steady"), move |line| {
        ReportCell::shown_figure(line.process.steady_ns, format_time)
    });
    columns.add_column(ReportColumn::figure("time_to_steady", "to steady"), move |line| {
        ReportCell::shown_figure(line.process.to_steady_ns, format_time)
    });
    columns.add_column(ReportColumn::figure("total", "total"), move |line| {
        ReportCell::shown_figure(Some(line.process.total_ns), format_time)
    });
    columns.add_column(ReportColumn::figure("steady_from", "from iteration"), |line| {
        let first = line.process.search.first_steady_point();
        ReportCell::shown_figure(first.map(|first| first as f64 * line.iterations), |iteration| {
            format_number(iteration, 0)
        })
    });
    add_search_columns(&mut columns);
    columns
}

/// Adds columns for what was found in the times of a process: levels, spikes, noise, period,
/// changes of the machine, and the class that `warmup_stats` would give.
fn add_search_columns(columns: &mut ColumnSet<ProcessLine>) {
    columns.add_column(ReportColumn::figure("levels", "levels"), |line: &ProcessLine| {
        ReportCell::count(line.process.search.levels.len() as u64)
    });
    columns.add_column(ReportColumn::figure("spikes", "spikes"), |line| {
        ReportCell::count(line.process.search.spikes.len() as u64)
    });
    columns.add_column(ReportColumn::figure("noise", "noise"), |line| {
        ReportCell::shown_figure(Some(line.process.search.noise), format_share)
    });
    columns.add_column(ReportColumn::figure("period", "period"), |line| {
        let period = line.process.search.period.map(|points| points * line.iterations);
        ReportCell::shown_figure(period, |iterations| format_number(iterations, 0))
    });
    columns.add_column(ReportColumn::figure("machine_changes", "machine changed"), |line| {
        ReportCell::count(line.process.search.machine_changes.len() as u64)
    });
    columns.add_column(ReportColumn::words("warmup_stats", "warmup_stats").expendable(2), |line| {
        ReportCell::words(line.process.compat.to_string())
    });
    columns.add_value("starts", |line| {
        let starts = line.process.search.levels.iter().map(|level| level.points.start);
        starts.map(Value::from).collect::<Vec<_>>()
    });
}

/// Minimum number of processes with a steady part. A case with fewer is left out of the histogram
/// of the iterations at which steady parts begin.
const MIN_HISTOGRAM_PROCESSES: usize = 5;

/// Draws a chart per case, with every process from its first iteration on. Also draws a histogram
/// of the iterations at which steady parts begin.
fn warmup_charts(found: &WarmupFindings, names: &[String]) -> Vec<ReportChart> {
    let mut charts: Vec<ReportChart> =
        names.iter().zip(&found.cases).map(|(name, warmup)| sequence_chart(name, warmup)).collect();
    let first_iterations = |warmup: &CaseWarmup| -> Vec<f64> {
        let first_iteration = |process: &ProcessWarmup| {
            Some(process.search.first_steady_point()? as f64 * warmup.iterations)
        };
        warmup.processes.iter().filter_map(first_iteration).collect()
    };
    let series: Vec<plot::HistogramSeries> = names
        .iter()
        .zip(&found.cases)
        .filter(|(_, warmup)| first_iterations(warmup).len() >= MIN_HISTOGRAM_PROCESSES)
        .map(|(name, warmup)| plot::HistogramSeries {
            name: name.clone(),
            values: first_iterations(warmup),
            counts: Vec::new(),
        })
        .collect();
    if !series.is_empty() {
        let title = "Where steady parts begin";
        let chart = plot::HistogramChart {
            title: title.into(),
            subtitle: None,
            x: plot::ChartAxis::linear("iteration"),
            series,
        };
        charts.push(ReportChart::new(title, plot::AnyChart::Histogram(chart)));
    }
    charts
}

fn sequence_chart(name: &str, warmup: &CaseWarmup) -> ReportChart {
    let times = || warmup.processes.iter().flat_map(|process| process.times_ns.iter().copied());
    let scale = FigureScale::typical_scale(
        "ns",
        warmup.processes.iter().map(|process| process.search.last_level_time()),
        None,
    );
    let panel = |process: &ProcessWarmup| plot::GridPanel {
        title: format!("run {}: {}", process.slot, process.search.class),
        marks: plot::GridMarks::Sequence(plot::ValueSequence {
            values: process.times_ns.iter().map(|ns| scale.to_shown(*ns)).collect(),
            step: warmup.iterations,
            spikes: process.search.spikes.clone(),
            levels: process
                .search
                .levels
                .iter()
                .map(|level| (level.points.clone(), scale.to_shown(level.time)))
                .collect(),
            shaded_from: process.search.first_steady_point(),
        }),
    };
    let metric = Metric::new("time of an iteration", "ns", MetricDirection::Lower);
    let title = format!("{name}: every process from its first iteration on");
    let chart = plot::GridChart {
        title: title.clone(),
        subtitle: Some("hollow: spikes; lines: levels; shaded: the steady part".into()),
        x: plot::ChartAxis::linear("iteration"),
        y: metric_axis(&metric, &scale, times().map(|ns| scale.to_shown(ns))),
        panels: warmup.processes.iter().map(panel).collect(),
    };
    ReportChart::new(title, plot::AnyChart::Grid(chart))
}
