//! Which processes become steady, when, and what that costs: the report of `warmup`.
//!
//! Decides on its words, its tables and its charts; what is steady was decided by `analysis::warmup`. Start at [`warmup`].

use crate::case_labels::{distinct, parameters};
use crate::charts::{axis, labels};
use crate::comparison;
use crate::document::{Block, Chart, Document};
use crate::figure::{Uncertainty, count, place, quantity, setting, share, spell, uncertainty_of};
use crate::output::Output;
use crate::table::{Cell, Column, Columns, Emphasis, Kind, Table};
use crate::unit::Scale;
use serde_json::Value;
use speedwell_analysis::CaseComparison;
use speedwell_analysis::warmup::{
    Agreement, CaseWarmup, Class, Process, STEADY_TIME, TIME_TO_STEADY, TOTAL, WarmupFindings,
    break_even,
};
use speedwell_model::{Better, Clock, Environment, Estimate, Metric, Verdict};
use speedwell_plot as plot;
use std::sync::Arc;

/// The report of series that were recorded on a machine like this.
pub fn warmup(found: &WarmupFindings, machine: &Environment, output: &Output) -> Document {
    let mut document = Document::new("warmup");
    document.push_warnings(&found.findings.warnings);
    let names = names(found);
    document.push(Block::Headline(headline(found)));
    for sentence in compared(found, &names) {
        document.push(Block::Paragraph(sentence));
    }
    output.add_detail(&mut document, |_, document| {
        document.push(Block::Paragraph(of_machine(found, machine)));
    });
    document.push(Block::Table(cases_table(found, &names)));
    output.add_detail(&mut document, |_, document| {
        document.push(Block::Note(explanation(found)));
    });
    if !found.findings.comparisons.is_empty() {
        let compared = comparison::comparison(&found.findings, output);
        document.blocks.push(Block::Appendix {
            title: "Comparison of the figures".into(),
            instead: None,
            blocks: compared.blocks,
        });
        document.data.extend(compared.data);
    }
    document.push(Block::Appendix {
        title: "Every process".into(),
        instead: Some("-v shows every process.".into()),
        blocks: vec![Block::Table(
            process_columns().table("processes", &processes(found, &names)),
        )],
    });
    document.append(crate::failures(&found.findings.failures, output.verbosity));
    document.push_charts(charts(found, &names));
    document
}

/// What the tables can be sorted by.
pub fn sort_keys() -> Vec<&'static str> {
    [
        case_columns(Clock::Wall).sort_keys(),
        process_columns().sort_keys(),
    ]
    .concat()
}

/// The name of each entry: the case as far as cases differ, and the variant where there are several.
fn names(found: &WarmupFindings) -> Vec<String> {
    let cases: Vec<_> = found
        .cases
        .iter()
        .map(|own| Arc::clone(&own.case))
        .collect();
    let ids = distinct(cases.iter().map(|case| case.id()));
    let variants = distinct(found.cases.iter().map(|own| own.variant.clone()));
    let mut names = vec![String::new(); cases.len()];
    for (index, label) in labels(&cases).1 {
        names[index] = label.replace('\n', " ");
    }
    for (name, own) in names.iter_mut().zip(&found.cases) {
        match (ids.len(), variants.len()) {
            (_, 1) if !name.is_empty() => {}
            (_, 1) => *name = own.case.id(),
            (1, _) => *name = own.variant.to_string(),
            _ => *name = format!("{name} [{}]", own.variant),
        }
    }
    names
}

fn headline(found: &WarmupFindings) -> String {
    let steady = found.cases.iter().filter(|own| own.is_steady()).count();
    match &found.cases[..] {
        [] => "nothing was recorded".into(),
        [only] => of_one(only),
        all if steady == all.len() => "every process of every case becomes steady".into(),
        all => format!(
            "every process becomes steady in {steady} of {}",
            count(all.len(), "case", "cases")
        ),
    }
}

/// `warm-up: steady after 1.2 s (iteration 80), then 1.03 ms an iteration; 10 processes`.
fn of_one(own: &CaseWarmup) -> String {
    let agreement = own.agreement();
    let processes = count(own.processes.len(), "process", "processes");
    let ns = |ns: f64| quantity(ns, "ns", Uncertainty::Unknown);
    let steady = own.median(|process| process.steady_ns);
    let start = own.median(|process| process.to_steady_ns);
    match (steady, start) {
        _ if !own.is_steady() => format!("{agreement}: {}", class_counts(own)),
        (Some(steady), _) if agreement == Agreement::All(Class::Flat) => {
            format!(
                "flat: {} an iteration from the start; {processes}",
                ns(steady)
            )
        }
        (Some(steady), Some(start)) => {
            let first = own.median(|process| Some(process.search.first()? as f64));
            let at = first.unwrap_or(0.0) * own.iterations;
            format!(
                "{agreement}: steady after {} (iteration {}), then {} an iteration; {processes}",
                ns(start),
                spell(at, 0),
                ns(steady)
            )
        }
        _ => agreement.to_string(),
    }
}

/// `8 warm-up, 2 flat`.
fn class_counts(own: &CaseWarmup) -> String {
    let counts = own
        .counts()
        .into_iter()
        .map(|(class, count)| format!("{count} {class}"));
    counts.collect::<Vec<_>>().join(", ")
}

/// The three verdicts of every case and candidate, and where two variants have taken equally long.
fn compared(found: &WarmupFindings, names: &[String]) -> Vec<String> {
    let candidates = distinct(
        found
            .findings
            .comparisons
            .iter()
            .map(|own| (own.baseline.as_str(), own.candidate.as_str())),
    );
    let mut sentences = Vec::new();
    for (name, own) in names.iter().zip(&found.cases) {
        let Some((baseline, candidate)) = candidates.iter().find(|(_, one)| *one == &*own.variant)
        else {
            continue;
        };
        let row = |metric| found.row(metric, &own.case, candidate);
        let iterations = own
            .processes
            .first()
            .map_or(0.0, |one| one.times_ns.len() as f64)
            * own.iterations;
        let parts = [
            part("steady", row(STEADY_TIME)),
            part("start", row(TIME_TO_STEADY)),
            part(&format!("total over {}", spell(iterations, 0)), row(TOTAL)),
        ];
        sentences.push(format!("{name} against {baseline}: {}", parts.join(", ")));
        let verdict = |metric| row(metric).map(|row| row.verdict);
        let crossing = found
            .case(&own.case, baseline)
            .and_then(|before| break_even(before, own))
            .map(|iterations| spell(iterations, place(iterations, Uncertainty::Unknown)));
        match (verdict(STEADY_TIME), verdict(TIME_TO_STEADY), crossing) {
            (Some(Verdict::Better), Some(Verdict::Worse), Some(at)) => sentences.push(format!(
                "From about {at} iterations on, {candidate} has made up for its slower start."
            )),
            (Some(Verdict::Worse), Some(Verdict::Better), Some(at)) => sentences.push(format!(
                "Up to about {at} iterations, {candidate} takes less time, thanks to its faster start."
            )),
            _ => {}
        }
    }
    sentences
}

/// `start: worse by 18 %`.
fn part(name: &str, row: Option<&CaseComparison>) -> String {
    let Some(row) = row else {
        return format!("{name}: not in every process");
    };
    let by = row
        .change
        .map(|change| format!(" by {}", share(change.value.abs())));
    match row.verdict {
        Verdict::Better | Verdict::Worse => {
            format!("{name}: {}{}", row.verdict, by.unwrap_or_default())
        }
        other => format!("{name}: {other}"),
    }
}

/// What else the machine did, and what the reference loop says of it.
fn of_machine(found: &WarmupFindings, machine: &Environment) -> String {
    let mut parts = Vec::new();
    if let Some([minute, ..]) = machine.load {
        parts.push(format!("load {minute:.1}"));
    }
    let steal = machine.facts.get("now_steal_percent");
    parts.extend(steal.map(|percent| format!("{percent} % of the processor time stolen")));
    let all = || found.cases.iter().flat_map(|own| &own.processes);
    let referred = all().filter(|process| process.reference > 0).count();
    let changed = all()
        .filter(|process| !process.search.machine_changes.is_empty())
        .count();
    parts.push(match (referred, changed) {
        (0, _) => "no reference loop".to_owned(),
        (_, 0) => "the reference loop changed beside no change of level".to_owned(),
        (all, some) => format!(
            "the machine changed in {some} of {}",
            count(all, "process", "processes")
        ),
    });
    format!("Machine: {}.", parts.join(", "))
}

fn explanation(found: &WarmupFindings) -> String {
    let clock = match found.clock {
        Clock::Cpu => "processor time",
        Clock::Wall => "time by the wall clock",
    };
    let first = found.cases.first();
    let point = first.map_or(1.0, |own| own.iterations);
    let point = match point {
        1.0 => "a point is one iteration".to_owned(),
        many => format!("a point is {} iterations", spell(many, 0)),
    };
    format!(
        "steady: median time of an iteration after the last change of level; to steady: time until the first steady point has \
         ended; total: time of all points; all are medians over the processes, of {clock}; {point}. Levels within {} of each \
         other are one, and the last must be {} of the points.",
        setting(found.rule.delta),
        setting(found.rule.least_share)
    )
}

/// A case under a variant, as a row.
struct CaseLine {
    name: String,
    own: CaseWarmup,
    figures: [Option<Estimate>; 3],
}

fn cases_table(found: &WarmupFindings, names: &[String]) -> Table {
    let figure = |own: &CaseWarmup, metric: &str| {
        let summaries = found.findings.summaries.iter();
        let mut of_metric = summaries.filter(|summary| summary.metric.name == metric);
        let known =
            of_metric.find(|summary| *summary.case == *own.case && summary.variant == own.variant);
        known.map(|summary| summary.center)
    };
    let line = |(name, own): (&String, &CaseWarmup)| CaseLine {
        name: name.clone(),
        figures: [STEADY_TIME, TIME_TO_STEADY, TOTAL].map(|metric| figure(own, metric)),
        own: own.clone(),
    };
    let lines: Vec<CaseLine> = names.iter().zip(&found.cases).map(line).collect();
    case_columns(found.clock).table("warmup", &lines)
}

fn emphasis(agreement: Agreement) -> Emphasis {
    match agreement {
        Agreement::All(class) if class.is_steady() => Emphasis::Good,
        Agreement::MixedGood => Emphasis::Good,
        _ => Emphasis::Caution,
    }
}

fn case_columns(clock: Clock) -> Columns<CaseLine> {
    let mut columns = Columns::new();
    columns.add(
        Column::new("case", "case", Kind::Label),
        |line: &CaseLine| Cell::words(line.own.case.id()).shown(line.name.clone()),
    );
    columns.add_value("benchmark", |line| line.own.case.benchmark.clone());
    columns.add_value("parameters", |line| parameters(&line.own.case));
    columns.add_value("variant", |line| line.own.variant.to_string());
    columns.add(Column::words("class", "class").facet(), |line| {
        let agreement = line.own.agreement();
        Cell::words(agreement.to_string()).emphasised(emphasis(agreement))
    });
    columns.add(Column::words("processes", "processes"), |line| {
        Cell::words(class_counts(&line.own))
    });
    let keys = [
        ("steady_time", "steady_low", "steady_high", "steady"),
        (
            "time_to_steady",
            "to_steady_low",
            "to_steady_high",
            "to steady",
        ),
        ("total", "total_low", "total_high", "total"),
    ];
    for (at, (key, low, high, header)) in keys.into_iter().enumerate() {
        columns.add(Column::figure(key, header), move |line| {
            let figure = line.figures[at];
            Cell::shown_figure(figure.map(|own| own.value), |ns| {
                let uncertainty = figure.map_or(Uncertainty::Unknown, |own| uncertainty_of(&own));
                quantity(ns, "ns", uncertainty)
            })
        });
        columns.add_figure(low, move |line| Some(line.figures[at]?.low));
        columns.add_figure(high, move |line| Some(line.figures[at]?.high));
    }
    columns.add_value("clock", move |_| match clock {
        Clock::Cpu => "cpu",
        Clock::Wall => "wall",
    });
    columns.add(Column::figure("steady_from", "from iteration"), |line| {
        let first = line
            .own
            .median(|process| Some(process.search.first()? as f64));
        let at = first
            .filter(|_| line.own.is_steady())
            .map(|first| first * line.own.iterations);
        Cell::shown_figure(at, |at| spell(at, 0))
    });
    columns.add(Column::figure("noise", "noise").expendable(1), |line| {
        Cell::shown_figure(line.own.median(|process| Some(process.search.noise)), share)
    });
    columns.add_figure("points", |line| {
        line.own
            .median(|process| Some(process.times_ns.len() as f64))
    });
    columns.add_figure("iterations_per_point", |line| Some(line.own.iterations));
    columns
}

/// A process, as a row.
struct ProcessLine {
    name: String,
    case: String,
    variant: String,
    iterations: f64,
    process: Process,
}

fn processes(found: &WarmupFindings, names: &[String]) -> Vec<ProcessLine> {
    let of_case = |(name, own): (&String, &CaseWarmup)| {
        let line = |process: &Process| ProcessLine {
            name: name.clone(),
            case: own.case.id(),
            variant: own.variant.to_string(),
            iterations: own.iterations,
            process: process.clone(),
        };
        own.processes.iter().map(line).collect::<Vec<_>>()
    };
    names.iter().zip(&found.cases).flat_map(of_case).collect()
}

fn process_columns() -> Columns<ProcessLine> {
    let mut columns = Columns::new();
    columns.add(
        Column::new("case", "case", Kind::Label),
        |line: &ProcessLine| Cell::words(line.case.clone()).shown(line.name.clone()),
    );
    columns.add_value("variant", |line| line.variant.clone());
    columns.add(Column::figure("run", "run"), |line| {
        Cell::count(line.process.slot)
    });
    columns.add(Column::words("class", "class").facet(), |line| {
        let class = line.process.search.class;
        Cell::words(class.to_string()).emphasised(emphasis(Agreement::All(class)))
    });
    let time = |ns: f64| quantity(ns, "ns", Uncertainty::Unknown);
    columns.add(Column::figure("steady_time", "steady"), move |line| {
        Cell::shown_figure(line.process.steady_ns, time)
    });
    columns.add(Column::figure("time_to_steady", "to steady"), move |line| {
        Cell::shown_figure(line.process.to_steady_ns, time)
    });
    columns.add(Column::figure("total", "total"), move |line| {
        Cell::shown_figure(Some(line.process.total_ns), time)
    });
    columns.add(Column::figure("steady_from", "from iteration"), |line| {
        let first = line.process.search.first();
        Cell::shown_figure(first.map(|first| first as f64 * line.iterations), |at| {
            spell(at, 0)
        })
    });
    add_search_columns(&mut columns);
    columns
}

/// What was found in the times of a process, beside its class.
fn add_search_columns(columns: &mut Columns<ProcessLine>) {
    columns.add(Column::figure("levels", "levels"), |line: &ProcessLine| {
        Cell::count(line.process.search.levels.len() as u64)
    });
    columns.add(Column::figure("spikes", "spikes"), |line| {
        Cell::count(line.process.search.spikes.len() as u64)
    });
    columns.add(Column::figure("noise", "noise"), |line| {
        Cell::shown_figure(Some(line.process.search.noise), share)
    });
    columns.add(Column::figure("period", "period"), |line| {
        let period = line
            .process
            .search
            .period
            .map(|points| points * line.iterations);
        Cell::shown_figure(period, |iterations| spell(iterations, 0))
    });
    columns.add(
        Column::figure("machine_changes", "machine changed"),
        |line| Cell::count(line.process.search.machine_changes.len() as u64),
    );
    columns.add(
        Column::words("warmup_stats", "warmup_stats").expendable(2),
        |line| Cell::words(line.process.compat.to_string()),
    );
    columns.add_value("starts", |line| {
        let starts = line
            .process
            .search
            .levels
            .iter()
            .map(|level| level.points.start);
        starts.map(Value::from).collect::<Vec<_>>()
    });
}

/// Where a steady part begins is shown as a histogram from so many processes on.
const ENOUGH_FOR_HISTOGRAM: usize = 5;

/// Every process in order, case by case, and where steady parts begin.
fn charts(found: &WarmupFindings, names: &[String]) -> Vec<Chart> {
    let mut charts: Vec<Chart> = names
        .iter()
        .zip(&found.cases)
        .map(|(name, own)| sequences(name, own))
        .collect();
    let firsts = |own: &CaseWarmup| -> Vec<f64> {
        let first = |process: &Process| Some(process.search.first()? as f64 * own.iterations);
        own.processes.iter().filter_map(first).collect()
    };
    let series: Vec<plot::HistogramSeries> = names
        .iter()
        .zip(&found.cases)
        .filter(|(_, own)| firsts(own).len() >= ENOUGH_FOR_HISTOGRAM)
        .map(|(name, own)| plot::HistogramSeries {
            name: name.clone(),
            values: firsts(own),
            counts: Vec::new(),
        })
        .collect();
    if !series.is_empty() {
        let title = "Where steady parts begin";
        let chart = plot::HistogramChart {
            title: title.into(),
            subtitle: None,
            x: plot::Axis::linear("iteration"),
            series,
        };
        charts.push(Chart::new(title, plot::Chart::Histogram(chart)));
    }
    charts
}

fn sequences(name: &str, own: &CaseWarmup) -> Chart {
    let times = || {
        own.processes
            .iter()
            .flat_map(|process| process.times_ns.iter().copied())
    };
    let scale = Scale::typical(
        "ns",
        own.processes.iter().map(|one| one.search.typical()),
        None,
    );
    let panel = |process: &Process| plot::GridPanel {
        title: format!("run {}: {}", process.slot, process.search.class),
        marks: plot::GridMarks::Sequence(plot::Sequence {
            values: process.times_ns.iter().map(|ns| scale.shown(*ns)).collect(),
            step: own.iterations,
            spikes: process.search.spikes.clone(),
            levels: process
                .search
                .levels
                .iter()
                .map(|level| (level.points.clone(), scale.shown(level.time)))
                .collect(),
            shaded_from: process.search.first(),
        }),
    };
    let metric = Metric::new("time of an iteration", "ns", Better::Lower);
    let title = format!("{name}: every process from its first iteration on");
    let chart = plot::GridChart {
        title: title.clone(),
        subtitle: Some("hollow: spikes; lines: levels; shaded: the steady part".into()),
        x: plot::Axis::linear("iteration"),
        y: axis(&metric, &scale, times().map(|ns| scale.shown(ns))),
        panels: own.processes.iter().map(panel).collect(),
    };
    Chart::new(title, plot::Chart::Grid(chart))
}
