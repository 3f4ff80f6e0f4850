//! Builds the report of loads at several levels of concurrency or several rates: the answer, a row
//! per level or rate, the law that throughput follows, charts, and every single load.
//!
//! This module chooses wording and order; `analysis` interprets the figures. Start at
//! [`report_search`].

use crate::charts::{NS_PER_MS, point_series};
use crate::document::{Document, ReportBlock, ReportChart};
use crate::figure::{format_rate, format_share};
use crate::load::tables::{findings_data, format_failed, run_data, summary_table};
use crate::output::OutputOptions;
use crate::snippet::{
    change_cell, format_throughput_error, law_sentence, noise_warning, scaling_data,
    scaling_headline, standing_cell, throughput_chart,
};
use crate::table::{ColumnSet, ReportCell, ReportTable, column_set};
use serde_json::{Value, json};
use speedwell_analysis::load::{
    ConcurrencySeries, LevelVisits, LoadFindings, MissedReason, RateAttempt, RateSeries,
};
use speedwell_analysis::scaling::LevelState;
use speedwell_plot as plot;

/// Reports loads at several levels of concurrency, or at several rates.
pub fn report_search(
    loads: &[LoadFindings<'_>],
    levels: &[ConcurrencySeries],
    tried: &[RateSeries],
    output: &OutputOptions,
) -> Document {
    let mut document = Document::new("load");
    document.extend(levels.iter().flat_map(levels_warnings).map(ReportBlock::Warning));
    for series in levels {
        document.push_headline(levels_headline(series));
        document.push_table(levels_table(series));
        output.add_detail(&mut document, |_, document| {
            document.push_notes(series.scaling.as_ref().map(law_sentence));
            document.push_note(levels_note(series));
        });
    }
    for series in tried {
        add_rates(series, &mut document);
    }
    let every_load = vec![ReportBlock::Table(summary_table(loads))];
    document.push(ReportBlock::appendix("Every load", every_load));
    document.push_charts(levels.iter().flat_map(levels_charts));
    document.attach_data("scaling", levels.iter().map(levels_data).collect());
    document.attach_data("load_findings", loads.iter().map(findings_data).collect());
    document.attach_data("loads", loads.iter().map(run_data).collect());
    document
}

/// States the answer about levels of concurrency in one sentence.
fn levels_headline(levels: &ConcurrencySeries) -> String {
    let Some(scaling) = &levels.scaling else {
        return format!("{}: no level of concurrency succeeded.", levels.label);
    };
    let spoilt = levels.passes.iter().find(|pass| pass.is_spoilt);
    scaling_headline(&levels.label, scaling, spoilt.map(|pass| pass.concurrency))
}

fn levels_warnings(levels: &ConcurrencySeries) -> Vec<String> {
    let scaling = levels.scaling.as_ref();
    let noise = scaling.and_then(|scaling| noise_warning(&levels.label, scaling, "loads"));
    let mut warnings: Vec<String> = noise.into_iter().collect();
    if let Some(spoilt) = levels.passes.iter().find(|pass| pass.is_spoilt) {
        let (errors, attempts) = spoilt.failed;
        warnings.push(format!(
            "{}: with {} requests in flight, {}, so this level is ignored (a search tries no higher level).",
            levels.label,
            spoilt.concurrency,
            format_failed(errors, attempts)
        ));
    }
    if let Some(first) = levels.passes.iter().find(|pass| pass.is_generator_bound) {
        warnings.push(format!(
            "{}: at {} or more requests in flight, the generator, not the server, was the limit (one of \
             its threads was busy for {} of the time): the server may be able to do more. More \
             --threads help if there are processors for them.",
            levels.label,
            first.concurrency,
            format_share(first.busiest)
        ));
    }
    warnings
}

fn levels_note(levels: &ConcurrencySeries) -> String {
    let unit = if levels.is_windowed {
        "time windows of a single load per level, so they exclude differences between loads"
    } else {
        "the measurements (visits) at all levels together"
    };
    format!(
        "The answer is the lowest concurrency whose throughput is statistically indistinguishable \
         from the highest. ± and [ ] are 95% intervals, computed from {unit}. p50 and p99 are \
         percentiles of the service time of successful requests; each is the median over the visits \
         to a level."
    )
}

/// A level of concurrency, and how it compares with the best one unless it failed.
type LevelRow<'a> = (&'a LevelVisits, Option<&'a LevelState>);

fn levels_table(levels: &ConcurrencySeries) -> ReportTable {
    let answer = levels.scaling.as_ref().map(|scaling| &scaling.answer);
    let rows = levels.passes.iter().map(|pass| {
        let is_same_level = |state: &&LevelState| state.concurrency == pass.concurrency;
        (pass, answer.and_then(|answer| answer.standings.iter().find(is_same_level)))
    });
    let knee = answer.map(|answer| answer.at_knee().concurrency);
    level_columns(&levels.label, knee).build_table("levels", rows)
}

/// The sort keys of the level tables.
pub fn level_sort_keys() -> Vec<&'static str> {
    level_columns("", None).sort_keys()
}

fn level_columns<'a>(label: &str, knee: Option<u32>) -> ColumnSet<LevelRow<'a>> {
    let load = label.to_owned();
    column_set! { row: LevelRow<'a>;
        machine("load") => &load,
        figure("concurrency", "concurrency") => row.0.concurrency,
        figure("visits", "visits").expendable(4) => row.0.visits,
        figure("throughput", "throughput") => throughput_cell(row),
        figure("change", "vs. best so far") => change_cell(row.1),
        words("verdict", "") =>
            standing_cell(row.1, knee == Some(row.0.concurrency)),
        figure("p50_ns", "p50").expendable(2) => ReportCell::time(row.0.p50_ns),
        figure("p99_ns", "p99") => ReportCell::time(row.0.p99_ns),
        figure("effective_concurrency", "in flight").expendable(3) =>
            ReportCell::shown_figure(row.0.effective, |effective| format!("{effective:.1}")),
        figure("errors", "failed") => row.0.failed.0,
        // A mark says that the generator may have limited the load.
        figure("generator_busy", "generator").expendable(1) => {
            let mark = if row.0.is_generator_bound { " !" } else { "" };
            ReportCell::shown_figure(row.0.busiest, |busy| format!("{}{mark}", format_share(busy)))
        },
    }
}

fn throughput_cell((pass, standing): &LevelRow<'_>) -> ReportCell {
    let per_s = pass.throughput_per_s;
    let text = standing.map(format_throughput_error);
    ReportCell::from(per_s).with_text(text.unwrap_or_else(|| format_rate(per_s)))
}

fn levels_data(levels: &ConcurrencySeries) -> Value {
    let mut data = scaling_data("load", &levels.label, levels.scaling.as_ref());
    data["is_windowed"] = levels.is_windowed.into();
    data
}

/// The note that defines when a rate is kept.
const KEPT_NOTE: &str = "A rate is kept when at least 98% of the due requests were sent and \
    succeeded, the generator itself was not late, and every --fail-on limit holds. p50 and p99 are \
    response times from when each request was due.";

/// Adds the results of the rates tried on one address.
fn add_rates(rates: &RateSeries, document: &mut Document) {
    document.push_headline(rates_headline(rates));
    document.push_table(rate_columns(&rates.label).build_table("rates", &rates.tries));
    document.push_note(KEPT_NOTE);
    document.push_charts(rates_chart(rates));
    let RateSeries { label, answer, is_disturbed, refused_at, .. } = rates;
    let data = match refused_at {
        None => json!({
            "load": label, "kept": answer.kept, "missed": answer.missed,
            "is_disturbed": is_disturbed,
        }),
        Some(rate) => json!({
            "load": label, "kept": null, "missed": null,
            "refused_at": rate, "kept_at_least": answer.kept,
        }),
    };
    document.attach_data("highest_rate", data);
}

fn rates_headline(rates: &RateSeries) -> String {
    let label = &rates.label;
    if let Some(refused_at) = rates.refused_at {
        let kept = rates.answer.kept.map(format_rate);
        let kept_note = kept.map_or(String::new(), |kept| format!("; it keeps at least {kept}"));
        return format!(
            "{label}: the highest rate is unknown: in every try of {}, the generator, not the \
             server, was late{kept_note}. More --threads help if there are processors for them; \
             otherwise quiet the machine, or use --pin or --rt.",
            format_rate(refused_at)
        );
    }
    let last_reason = |missed: f64| {
        let tries = rates.tries.iter().filter(|attempt| attempt.rate == missed);
        let mut reasons = tries.filter_map(|attempt| attempt.missed.as_ref());
        reasons.next_back().map_or(String::new(), missed_reason)
    };
    let reason = rates.answer.missed.map_or(String::new(), last_reason);
    match [rates.answer.kept, rates.answer.missed].map(|rate| rate.map(format_rate)) {
        [Some(kept), Some(missed)] if rates.is_disturbed => format!(
            "{label}: keeps at least {kept}; unclear whether the server can keep {missed}, which it \
             missed ({reason}): other programs took the processor during every try of both rates. \
             Quiet the machine, or use --pin or --rt."
        ),
        [Some(kept), Some(missed)] => {
            format!("{label}: keeps {kept}; misses {missed} ({reason}).")
        }
        [Some(kept), None] => format!("{label}: keeps {kept}, the highest rate tried."),
        [None, Some(missed)] => {
            format!("{label}: keeps no rate; misses even {missed} ({reason}).")
        }
        [None, None] => format!("{label}: no try was completed."),
    }
}

fn missed_reason(missed: &MissedReason) -> String {
    match missed {
        MissedReason::Generator => "the generator itself was late".to_owned(),
        MissedReason::Unsent => "fewer than 98% of the due requests were sent".to_owned(),
        MissedReason::Unanswered => "fewer than 98% succeeded in time".to_owned(),
        MissedReason::Limit(condition) => format!("--fail-on '{condition}'"),
    }
}

/// The sort keys of the rate tables.
pub fn rate_sort_keys() -> Vec<&'static str> {
    rate_columns("").sort_keys()
}

fn rate_columns(label: &str) -> ColumnSet<RateAttempt> {
    let load = label.to_owned();
    column_set! { attempt: RateAttempt;
        machine("load") => &load,
        figure("rate", "rate") => ReportCell::shown_figure(attempt.rate, format_rate),
        figure("sent_share", "sent") => ReportCell::share(attempt.sent),
        figure("answered_share", "answered") => ReportCell::share(attempt.answered),
        figure("p50_ns", "p50") => response_cell(attempt.p50_ns),
        figure("p99_ns", "p99") => response_cell(attempt.p99_ns),
        words("outcome", "") => attempt.missed.as_ref().map_or("kept".to_owned(), missed_reason),
    }
}

fn response_cell(ns: Option<f64>) -> ReportCell {
    ns.map_or_else(|| ReportCell::text("unknown"), ReportCell::time)
}

fn rates_chart(rates: &RateSeries) -> Option<ReportChart> {
    let series =
        percentile_lines(&rates.tries, |attempt| (attempt.rate, [attempt.p50_ns, attempt.p99_ns]))?;
    Some(ReportChart::from_picture(plot::AnyChart::Scatter(plot::ScatterChart {
        title: "Response time over rate".into(),
        subtitle: Some(rates.label.clone()),
        x: plot::ChartAxis::log10("requests per second"),
        y: plot::ChartAxis::log10("response time, ms"),
        series,
    })))
}

/// Draws the charts of the levels tried on one address.
fn levels_charts(levels: &ConcurrencySeries) -> Vec<ReportChart> {
    let y = "successful requests per second";
    let scaling = levels.scaling.iter();
    let throughput = scaling.map(|scaling| throughput_chart(&levels.label, scaling, y));
    throughput.chain(percentiles_chart(levels)).collect()
}

fn percentiles_chart(levels: &ConcurrencySeries) -> Option<ReportChart> {
    let series = percentile_lines(&levels.passes, |pass| {
        (f64::from(pass.concurrency), [pass.p50_ns, pass.p99_ns])
    })?;
    Some(ReportChart::from_picture(plot::AnyChart::Line(plot::LineChart {
        title: "Service time over concurrency".into(),
        subtitle: Some(levels.label.clone()),
        x: plot::ChartAxis::log2("concurrency"),
        y: plot::ChartAxis::log10("service time of successful requests, ms"),
        series,
        ..plot::LineChart::default()
    })))
}

/// An x coordinate, with the median and the 99th percentile of the times there in nanoseconds.
type PlacedTimes = (f64, [Option<f64>; 2]);

/// Draws a line of the medians of `items` and a line of their 99th percentiles. Returns `None` if
/// no item has a time.
fn percentile_lines<T>(items: &[T], read: fn(&T) -> PlacedTimes) -> Option<Vec<plot::PointSeries>> {
    let line = |(percentile, name): (usize, &str)| {
        let point = |item| {
            let (x, times_ns) = read(item);
            Some(plot::ChartPoint::new(x, times_ns[percentile]? / NS_PER_MS))
        };
        point_series(name, items.iter().filter_map(point))
    };
    let series: Vec<_> = ["p50", "p99"].into_iter().enumerate().map(line).collect();
    let is_drawn = series.iter().any(|series| !series.points.is_empty());
    is_drawn.then_some(series)
}
