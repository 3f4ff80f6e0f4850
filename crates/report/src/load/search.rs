//! Loads of several levels or rates, as a document: the answer, a row for each level, the law that throughput
//! follows, pictures, and every load behind them.
//!
//! Decides what is said where. What the figures mean is decided in `analysis`. Start at [`search`].

use crate::charts::point_series;
use crate::document::{Block, Chart, Document};
use crate::figure::{Uncertainty, count, quantity, share};
use crate::load::words::rate;
use crate::load::{findings_data, run_data, tables};
use crate::output::Output;
use crate::scaling::{self, throughput_chart};
use crate::table::{Cell, Column, Columns, Table};
use serde_json::{Value, json};
use speedwell_analysis::load::{Levels, LoadFindings, Missed, Pass, RateTry, Rates};
use speedwell_analysis::scaling::Standing;
use speedwell_plot as plot;

/// The report of loads at several levels of concurrency, or at several rates.
pub fn search(
    loads: &[LoadFindings<'_>],
    levels: &[Levels],
    tried: &[Rates],
    output: &Output,
) -> Document {
    let mut document = Document::new("load");
    document.extend(levels.iter().flat_map(warnings).map(Block::Warning));
    for one in levels {
        document.push(Block::Headline(headline(one)));
        document.push(Block::Table(table(one)));
        output.add_detail(&mut document, |_, document| {
            let known = one.scaling.as_ref();
            document.extend(known.map(|known| Block::Note(scaling::sentence(known))));
            document.push(Block::Note(note(one)));
        });
    }
    for one in tried {
        add_rates(one, &mut document);
    }
    document.push(Block::Appendix {
        title: "Every load".into(),
        instead: None,
        blocks: vec![Block::Table(tables::summary_table(loads))],
    });
    let charts = levels.iter().flat_map(charts);
    document.push_charts(charts);
    document.attach("scaling", levels.iter().map(for_machines).collect());
    document.attach("load_findings", loads.iter().map(findings_data).collect());
    document.attach("loads", loads.iter().map(run_data).collect());
    document
}

/// The answer in a sentence.
fn headline(levels: &Levels) -> String {
    let Some(scaling) = &levels.scaling else {
        return format!(
            "{}: no level of concurrency was answered well.",
            levels.label
        );
    };
    let spoilt = levels.passes.iter().find(|pass| pass.is_spoilt);
    scaling::headline(&levels.label, scaling, spoilt.map(|pass| pass.concurrency))
}

fn warnings(levels: &Levels) -> Vec<String> {
    let mut warnings = Vec::new();
    let known = levels.scaling.as_ref();
    warnings.extend(known.and_then(|known| scaling::noise_warning(&levels.label, known, "loads")));
    if let Some(spoilt) = levels.passes.iter().find(|pass| pass.is_spoilt) {
        let (failed, all) = spoilt.failed;
        warnings.push(format!(
            "{}: with {} requests in flight {} of {} failed ({}), so that level does not count and nothing \
             above it was looked at by a search.",
            levels.label,
            spoilt.concurrency,
            failed,
            count(all as usize, "request", "requests"),
            share(failed as f64 / all.max(1) as f64)
        ));
    }
    let bound: Vec<&Pass> = levels
        .passes
        .iter()
        .filter(|pass| pass.is_generator_bound)
        .collect();
    if let Some(first) = bound.first() {
        warnings.push(format!(
            "{}: from {} requests in flight on, the generator, not the server, was the limit (a thread of it was \
             busy for {} of the time): the server may be able to do more. More --threads help where there are \
             processors for them.",
            levels.label,
            first.concurrency,
            share(first.busiest)
        ));
    }
    warnings
}

fn note(levels: &Levels) -> String {
    let unit = if levels.is_windowed {
        "windows of one load for each level: how much loads differ from each other is not in it"
    } else {
        "the visits of all levels together"
    };
    format!(
        "The answer is the lowest concurrency whose throughput is statistically indistinguishable from the highest. ± and [ ] are 95 % \
         intervals from {unit}. p50 and p99 are medians over visits of the service time of good answers."
    )
}

/// A level and how it stands.
type Row<'a> = (&'a Pass, Option<&'a Standing>);

fn table(levels: &Levels) -> Table {
    let standings = levels.scaling.as_ref().map(|all| &all.answer.standings[..]);
    let row = |pass: &Pass| {
        let same = |one: &&Standing| one.concurrency == pass.concurrency;
        let standing = standings.unwrap_or_default().iter().find(same);
        (pass.clone(), standing.copied())
    };
    let rows: Vec<(Pass, Option<Standing>)> = levels.passes.iter().map(row).collect();
    let rows: Vec<Row<'_>> = rows
        .iter()
        .map(|(pass, standing)| (pass, standing.as_ref()))
        .collect();
    let knee = levels.scaling.as_ref().map(|all| *all.answer.at_knee());
    level_columns(&levels.label, knee.map(|knee| knee.concurrency)).table("levels", &rows)
}

/// What the tables of levels can be sorted by.
pub fn level_sort_keys() -> Vec<&'static str> {
    level_columns("", None).sort_keys()
}

fn level_columns<'a>(label: &str, knee: Option<u32>) -> Columns<Row<'a>> {
    let label = label.to_owned();
    let mut columns = Columns::new();
    columns.add_value("load", move |_: &Row<'a>| label.clone());
    columns.add(Column::figure("concurrency", "concurrency"), |(pass, _)| {
        Cell::count(pass.concurrency)
    });
    columns.add(
        Column::figure("visits", "visits").expendable(4),
        |(pass, _)| Cell::count(pass.visits as u64),
    );
    columns.add(
        Column::figure("throughput", "throughput"),
        |(pass, standing)| {
            let words = standing.map(scaling::throughput_with_error);
            Cell::figure(Some(pass.throughput_per_s))
                .shown(words.unwrap_or_else(|| rate(pass.throughput_per_s)))
        },
    );
    columns.add(
        Column::figure("change", "to the best before"),
        |(_, standing)| scaling::change_cell(*standing),
    );
    columns.add(Column::words("standing", ""), move |(pass, standing)| {
        scaling::standing_cell(*standing, knee == Some(pass.concurrency))
    });
    let spelled = |ns| quantity(ns, "ns", Uncertainty::Unknown);
    columns.add(
        Column::figure("p50_ns", "p50").expendable(2),
        move |(pass, _)| Cell::shown_figure(pass.p50_ns, spelled),
    );
    columns.add(Column::figure("p99_ns", "p99"), move |(pass, _)| {
        Cell::shown_figure(pass.p99_ns, spelled)
    });
    let in_flight = Column::figure("effective_concurrency", "in flight");
    columns.add(in_flight.expendable(3), |(pass, _)| {
        Cell::shown_figure(pass.effective, |effective| format!("{effective:.1}"))
    });
    columns.add(Column::figure("errors", "failed"), |(pass, _)| {
        Cell::count(pass.failed.0)
    });
    columns.add(
        Column::figure("generator_busy", "generator").expendable(1),
        |(pass, _)| {
            let mark = if pass.is_generator_bound { " !" } else { "" };
            Cell::shown_figure(Some(pass.busiest), |busy| format!("{}{mark}", share(busy)))
        },
    );
    columns
}

fn for_machines(levels: &Levels) -> Value {
    let mut known = scaling::for_machines("load", &levels.label, levels.scaling.as_ref());
    known["is_windowed"] = levels.is_windowed.into();
    known
}

/// What counts as kept.
const NOTE: &str = "A rate is kept when at least 98 % of the due requests were sent and answered well, the generator \
    was not late by itself, and every --fail-on limit holds. p50 and p99 are response times from when each \
    request was due.";

/// Adds what is said of one address.
pub fn add_rates(rates: &Rates, document: &mut Document) {
    document.push(Block::Headline(rates_headline(rates)));
    document.push(Block::Table(rates_table(rates)));
    document.push(Block::Note(NOTE.into()));
    document.push_charts(picture(rates));
    document.attach(
        "highest_rate",
        match rates.refused_at {
            None => json!({
                "load": rates.label, "kept": rates.answer.kept, "missed": rates.answer.missed,
                "is_disturbed": rates.is_disturbed,
            }),
            Some(rate) => json!({
                "load": rates.label, "kept": null, "missed": null,
                "refused_at": rate, "kept_at_least": rates.answer.kept,
            }),
        },
    );
}

fn rates_headline(rates: &Rates) -> String {
    let label = &rates.label;
    if let Some(refused_at) = rates.refused_at {
        let least = rates.answer.kept.map(rate);
        let least = least.map_or(String::new(), |least| {
            format!("; it keeps at least {least}")
        });
        return format!(
            "{label}: the highest rate is refused: in every try of {} the generator, not the server, was late{least}. \
             More --threads help where there are processors for them; else quiet the machine, or use --pin or --rt.",
            rate(refused_at)
        );
    }
    let why = |missed: f64| {
        let of_rate = rates.tries.iter().filter(|one| one.rate == missed);
        let mut reasons = of_rate.filter_map(|one| one.missed.as_ref());
        reasons.next_back().map_or(String::new(), reason)
    };
    match (rates.answer.kept, rates.answer.missed) {
        (Some(kept), Some(missed)) if rates.is_disturbed => format!(
            "{label}: keeps at least {}; whether the server can keep {} is unclear: it was missed ({}) while other \
             programs took the processor, as they did in every try of the rate that is kept. Quiet the machine, or use \
             --pin or --rt.",
            rate(kept),
            rate(missed),
            why(missed)
        ),
        (Some(kept), Some(missed)) => format!(
            "{label}: keeps {}; {} is missed ({}).",
            rate(kept),
            rate(missed),
            why(missed)
        ),
        (Some(kept), None) => format!(
            "{label}: keeps {}, the highest rate that was tried.",
            rate(kept)
        ),
        (None, Some(missed)) => format!(
            "{label}: keeps no rate; even {} is missed ({}).",
            rate(missed),
            why(missed)
        ),
        (None, None) => format!("{label}: no rate was tried to its end."),
    }
}

fn reason(missed: &Missed) -> String {
    match missed {
        Missed::Generator => "the generator was late by itself".to_owned(),
        Missed::Unsent => "fewer than 98 % of the due requests were sent".to_owned(),
        Missed::Unanswered => "fewer than 98 % were answered well in time".to_owned(),
        Missed::Limit(condition) => format!("--fail-on '{condition}'"),
    }
}

fn rates_table(rates: &Rates) -> Table {
    rate_columns(&rates.label).table("rates", &rates.tries)
}

/// What the tables of rates can be sorted by.
pub fn rate_sort_keys() -> Vec<&'static str> {
    rate_columns("").sort_keys()
}

fn rate_columns(label: &str) -> Columns<RateTry> {
    let time = |ns: Option<f64>| {
        let words = ns.map(|ns| quantity(ns, "ns", Uncertainty::Unknown));
        Cell::figure(ns).shown(words.unwrap_or_else(|| "refused".into()))
    };
    let label = label.to_owned();
    let mut columns = Columns::new();
    columns.add_value("load", move |_: &RateTry| label.clone());
    columns.add(Column::figure("rate", "rate"), |one| {
        Cell::shown_figure(Some(one.rate), rate)
    });
    columns.add(Column::figure("sent_share", "sent"), |one| {
        Cell::shown_figure(Some(one.sent), share)
    });
    columns.add(Column::figure("answered_share", "answered"), |one| {
        Cell::shown_figure(Some(one.answered), share)
    });
    columns.add(Column::figure("p50_ns", "p50"), move |one| time(one.p50_ns));
    columns.add(Column::figure("p99_ns", "p99"), move |one| time(one.p99_ns));
    columns.add(Column::words("missed", ""), |one| match &one.missed {
        None => Cell::words("kept"),
        Some(missed) => Cell::words(reason(missed)),
    });
    columns
}

fn picture(rates: &Rates) -> Option<Chart> {
    let series = percentile_lines(&rates.tries, |one| (one.rate, [one.p50_ns, one.p99_ns]))?;
    let title = "Response time over rate";
    let picture = plot::Chart::Scatter(plot::ScatterChart {
        title: title.into(),
        subtitle: Some(rates.label.clone()),
        x: plot::Axis::log10("requests per second"),
        y: plot::Axis::log10("response time, ms"),
        series,
    });
    Some(Chart::new(title, picture))
}

pub const NS_PER_MS: f64 = 1e6;

/// The charts of one address.
pub fn charts(levels: &Levels) -> Vec<Chart> {
    let throughput = levels.scaling.as_ref();
    let throughput =
        throughput.map(|known| throughput_chart(&levels.label, known, "good answers per second"));
    [throughput, tail(levels)].into_iter().flatten().collect()
}

fn tail(levels: &Levels) -> Option<Chart> {
    let series = percentile_lines(&levels.passes, |pass| {
        (f64::from(pass.concurrency), [pass.p50_ns, pass.p99_ns])
    })?;
    let title = "Service time over concurrency";
    let picture = plot::Chart::Line(plot::LineChart {
        title: title.into(),
        subtitle: Some(levels.label.clone()),
        x: plot::Axis::log2("concurrency"),
        y: plot::Axis::log10("service time of good answers, ms"),
        series,
        observations: Vec::new(),
        curves: 0,
    });
    Some(Chart::new(title, picture))
}

/// Where a point stands, and its median and 99th percentile in nanoseconds.
type PlacedTimes = (f64, [Option<f64>; 2]);

/// A line of the medians and one of the 99th percentiles of `items`; `None` without any time.
fn percentile_lines<T>(items: &[T], read: fn(&T) -> PlacedTimes) -> Option<Vec<plot::PointSeries>> {
    let line = |(at, name): (usize, &str)| {
        let point = |item| {
            let (x, times_ns) = read(item);
            Some(plot::Point::new(x, times_ns[at]? / NS_PER_MS))
        };
        point_series(name, items.iter().filter_map(point))
    };
    let series: Vec<_> = ["p50", "p99"].into_iter().enumerate().map(line).collect();
    let is_drawn = series.iter().any(|series| !series.points.is_empty());
    is_drawn.then_some(series)
}
