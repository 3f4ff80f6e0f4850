//! Builds the tables of a report of loads: a row per load, outcomes and statuses, percentiles,
//! times.
//!
//! Each table has its own entry point: [`summary_table`], [`outcome_blocks`], [`percentiles_table`]
//! and [`times_table`].

use crate::columns::{ColumnSet, column_set};
use crate::document::ReportBlock;
use crate::figure::{Uncertainty, decimal_place, format_number, format_rate, format_share};
use crate::load::text::{
    format_in_flight, format_ns, format_ns_range, format_reported_time, load_name, refusal_reason,
};
use crate::table::{ColumnKind, ReportCell, ReportColumn, ReportRow, ReportTable, TableFootnotes};
use serde_json::Value;
use speedwell_analysis::load::{
    LoadFindings, PERCENTILES_PPM, QuantityFindings, ReportedTime, RequestGroup, TimedQuantity,
};
use speedwell_model::load::outcomes::{ErrorClass, OutcomeCounts};
use speedwell_model::load::run::PaceFacts;

type LoadRef<'a> = &'a LoadFindings<'a>;

/// Builds the table with a row per load.
pub fn summary_table(loads: &[LoadFindings<'_>]) -> ReportTable {
    let rows: Vec<LoadRef<'_>> = loads.iter().collect();
    ReportTable {
        caption: quantity_caption(loads).into_iter().collect(),
        ..summary_columns(loads).build_table("load_summaries", &rows)
    }
}

/// The sort keys of the table of loads.
pub fn sort_keys() -> Vec<&'static str> {
    summary_columns(&[]).sort_keys()
}

/// Returns the caption, which names the quantity of the percentiles. Returns `None` if loads have
/// different quantities.
fn quantity_caption(loads: &[LoadFindings<'_>]) -> Option<String> {
    let quantity = loads.first()?.principal_quantity().0;
    let is_same = loads.iter().all(|load| load.principal_quantity().0 == quantity);
    is_same.then(|| format!("{}:", quantity_meaning(quantity)))
}

fn quantity_meaning(quantity: TimedQuantity) -> &'static str {
    match quantity {
        TimedQuantity::Response => "response time of all requests, from when each was due",
        _ => "service time of successful requests",
    }
}

fn summary_columns<'a>(loads: &[LoadFindings<'_>]) -> ColumnSet<LoadRef<'a>> {
    let is_mixed = quantity_caption(loads).is_none();
    column_set! { load: LoadRef<'a>;
        label("load", "load") => load_name(load),
        figure("throughput", "throughput") =>
            ReportCell::shown_figure(load.throughput_per_s, format_rate),
        words("quantity", "time") =>
            ReportCell::words(load.principal_quantity().0.name()).shown_if(is_mixed),
        figure("p50_ns", "p50") => time_cell(load.principal_quantile(500_000)),
        figure("p90_ns", "p90") => time_cell(load.principal_quantile(900_000)),
        figure("p99_ns", "p99") => time_cell(load.principal_quantile(990_000)),
        figure("max_ns", "max") => time_cell(load.principal_quantile(1_000_000)),
        figure("errors", "failed") => errors_cell(outcome_counts(load)),
        figure("effective_concurrency", "in flight") => concurrency_cell(load),
        machine("url") => load.run.url.as_str(),
        machine("round") => load.run.round,
        machine("protocol") => load.run.requested.protocol.as_str(),
        machine("model") => match load.run.requested.pace {
            PaceFacts::Closed { .. } => "closed",
            _ => "open",
        },
        machine("concurrency") => load.run.requested.concurrency(),
        machine("elapsed_ns") => load.run.measured.elapsed_ns,
        machine("attempted") => outcome_counts(load).attempts(),
        machine("ok") => outcome_counts(load).succeeded(),
        machine("mean_ns") => principal_mean_ns(load),
        machine("p50_low_ns") => load.principal_quantile(500_000).and_then(ReportedTime::low_ns),
        machine("p99_low_ns") => load.principal_quantile(990_000).and_then(ReportedTime::low_ns),
        machine("achieved_share") => load.open.map(|open| open.achieved),
        machine("lateness_p99_ns") => load.open.map(|open| open.own_lag_p99_ns),
        machine("received_per_s") => load.bytes_per_s.map(|(received, _)| received),
        machine("sent_per_s") => load.bytes_per_s.map(|(_, sent)| sent),
        machine("connections_opened") => outcome_counts(load).connections.opened,
        machine("generator_busy") => load.generator.busiest,
        machine("cpu_ns_per_request") => load.generator.cpu_ns_per_request,
        machine("is_balanced") => load.balance.is_ok(),
    }
}

fn errors_cell(counts: &OutcomeCounts) -> ReportCell {
    let errors = counts.all_errors();
    let share = errors as f64 / counts.attempts().max(1) as f64;
    ReportCell::value(errors).with_text(match errors {
        0 => "0".to_owned(),
        _ => format!("{errors} ({})", format_share(share)),
    })
}

fn concurrency_cell(load: &LoadFindings<'_>) -> ReportCell {
    let text = format_in_flight(&load.concurrency);
    ReportCell::figure(load.concurrency.effective).with_text(text.unwrap_or_default())
}

/// Returns the mean of the times that the load is judged by, unless it is withheld.
fn principal_mean_ns(load: &LoadFindings<'_>) -> Option<f64> {
    let (quantity, group) = load.principal_quantity();
    let times = load.times_of(quantity, group)?;
    times.refusal.is_none().then_some(times.mean_ns)
}

/// Builds the cell of a time. For a range, programs get the upper bound: the time since the
/// requests were due. For a withheld time, they get nothing.
fn time_cell(time: Option<ReportedTime>) -> ReportCell {
    let longest_ns = time.and_then(ReportedTime::longest_ns);
    ReportCell::figure(longest_ns.map(|ns| ns as f64))
        .with_text(time.map(format_reported_time).unwrap_or_default())
}

fn outcome_counts<'a>(load: &'a LoadFindings<'_>) -> &'a OutcomeCounts {
    &load.run.measured.totals.outcomes
}

/// Builds the tables of outcomes and statuses. They are collapsed if every request succeeded with
/// the same status, because people then learn nothing new.
pub fn outcome_blocks(load: &LoadFindings<'_>) -> Vec<ReportBlock> {
    let counts = &load.run.measured.totals.outcomes;
    let tables =
        [outcome_table(load, counts), status_table(load, counts)].map(ReportBlock::Table).into();
    let is_plain =
        counts.succeeded() == counts.attempts() && counts.codes().nonzero_counts().count() == 1;
    if is_plain {
        vec![ReportBlock::Appendix {
            title: "Outcomes and statuses".to_owned(),
            instead: None,
            blocks: tables,
        }]
    } else {
        tables
    }
}

fn outcome_table(load: &LoadFindings<'_>, counts: &OutcomeCounts) -> ReportTable {
    let total = counts.attempts();
    let occurred = counts.rows().filter(|row| row.count > 0);
    let mut rows: Vec<CountRow> = occurred
        .map(|row| CountRow::new(row.name, outcome_meaning(row.name), row.count, total))
        .collect();
    rows.push(CountRow::new("attempted", "all requests", total, total));
    count_columns(load, ["outcome", "requests", "meaning"], 1).build_table("outcomes", &rows)
}

fn status_table(load: &LoadFindings<'_>, counts: &OutcomeCounts) -> ReportTable {
    let (codes, interim) = (counts.codes(), counts.interim_codes());
    let total = codes.total();
    let row = |(code, count): (u16, u64)| CountRow::new(code, "response", count, total);
    let mut rows: Vec<CountRow> = codes.nonzero_counts().map(row).collect();
    let interim_row =
        |(code, count): (u16, u64)| CountRow::new(code, "before the response", count, total);
    rows.extend(interim.nonzero_counts().map(interim_row));
    if codes.count_outside() > 0 {
        rows.push(CountRow::new("other", "not of three digits", codes.count_outside(), total));
    }
    count_columns(load, ["status", "responses", "kind"], 0).build_table("statuses", &rows)
}

/// A number of requests or responses.
struct CountRow {
    name: String,
    meaning: &'static str,
    count: u64,
    total: u64,
}

impl CountRow {
    fn new(name: impl ToString, meaning: &'static str, count: u64, total: u64) -> CountRow {
        CountRow { name: name.to_string(), meaning, count, total }
    }
}

/// Returns the columns of counts. `headings` are those of the name, the count and the meaning.
fn count_columns(
    load: &LoadFindings<'_>,
    headings: [&'static str; 3],
    expendable: u8,
) -> ColumnSet<CountRow> {
    let load = load_name(load);
    let [name, count, meaning] = headings;
    column_set! { row: CountRow;
        machine("load") => &load,
        identifier(name, name) => &row.name,
        figure("count", count) => ReportCell::large_count(row.count as usize),
        figure("share", "share") =>
            ReportCell::share((row.total > 0).then(|| row.count as f64 / row.total as f64)),
        words(meaning, meaning).expendable(expendable) => row.meaning,
    }
}

fn outcome_meaning(name: &str) -> &'static str {
    match name {
        "ok" => "succeeded",
        "in-flight" => "sent, but not answered when the load ended",
        "cancelled" => "given up by the generator",
        "unsent" => "due, but not sent when the load ended",
        other => ErrorClass::from_name(other).map_or("", ErrorClass::description),
    }
}

/// The times of a load: quantity, group, machine-readable key of the percentiles, name.
const TIMES: [(TimedQuantity, RequestGroup, &str, &str); 7] = [
    (TimedQuantity::Response, RequestGroup::All, "response_all_ns", "response"),
    (TimedQuantity::Response, RequestGroup::Ok, "response_ok_ns", "response, ok"),
    (TimedQuantity::Service, RequestGroup::Ok, "service_ok_ns", "service"),
    (TimedQuantity::Service, RequestGroup::All, "service_all_ns", "service, all"),
    (TimedQuantity::FirstByte, RequestGroup::Ok, "first_byte_ns", "first byte"),
    (TimedQuantity::Lag, RequestGroup::All, "lag_ns", "lag"),
    (TimedQuantity::Connect, RequestGroup::All, "connect_ns", "connect"),
];

/// Quantities whose percentiles are for programs only. The first byte usually arrives together with
/// the last byte, so its line in a chart would hide the line of the last byte.
pub(crate) const HIDDEN_QUANTITIES: [TimedQuantity; 2] =
    [TimedQuantity::Connect, TimedQuantity::FirstByte];

/// Builds the table that shows within which time each percentage of the requests was served.
/// Returns `None` if nothing was timed.
pub fn percentiles_table(load: &LoadFindings<'_>) -> Option<ReportTable> {
    let columns = TIMES.map(|(quantity, group, _, _)| load.times_of(quantity, group));
    columns.iter().flatten().next()?;
    let mut footnotes = TableFootnotes::default();
    let rows = PERCENTILES_PPM
        .into_iter()
        .filter(|ppm| is_shown(*ppm, load))
        .map(|ppm| percentile_row(load, ppm, &columns, &mut footnotes))
        .collect();
    Some(ReportTable {
        caption: vec!["percentage of the requests served within:".to_owned()],
        columns: percentile_columns(),
        rows,
        footnotes: footnotes.into_texts(),
        ..ReportTable::new("percentiles")
    })
}

fn percentile_columns() -> Vec<ReportColumn> {
    let mut columns =
        vec![ReportColumn::machine("load"), ReportColumn::new("percent", "%", ColumnKind::Figure)];
    columns.extend(TIMES.map(|(quantity, _, key, name)| {
        if HIDDEN_QUANTITIES.contains(&quantity) {
            ReportColumn::machine(key)
        } else {
            ReportColumn::new(key, name, ColumnKind::Figure)
        }
    }));
    columns.push(ReportColumn::machine("response_all_low_ns"));
    columns.push(ReportColumn::machine("lower_bounds"));
    columns.push(ReportColumn::machine("refused"));
    columns
}

/// Whether a percentile is shown. A percentile above the 99th is shown if at least one request took
/// longer. The maximum is always shown.
fn is_shown(ppm: u32, load: &LoadFindings<'_>) -> bool {
    let largest_count = load.times.iter().map(|times| times.count).max();
    let slower_count = largest_count.unwrap_or(0) as f64 * f64::from(1_000_000 - ppm) / 1e6;
    ppm <= 990_000 || ppm == 1_000_000 || slower_count >= 1.0
}

fn percentile_row(
    load: &LoadFindings<'_>,
    ppm: u32,
    columns: &[Option<&QuantityFindings>],
    footnotes: &mut TableFootnotes,
) -> ReportRow {
    let percent = f64::from(ppm) / 1e4;
    let mut cells = vec![
        ReportCell::words(load_name(load)),
        ReportCell::figure(Some(percent))
            .with_text(format_number(percent, decimal_place(percent, Uncertainty::Exact))),
    ];
    let (mut lower_bounds, mut refused) = (Vec::new(), Vec::new());
    for ((_, _, key, _), times) in TIMES.iter().zip(columns) {
        let time = times.and_then(|times| times.percentile(ppm));
        let mut cell = time_cell(time);
        match time {
            Some(ReportedTime::Time(known)) if known.is_lower_bound => {
                lower_bounds.push(Value::from(*key))
            }
            Some(ReportedTime::Refused(refusal)) => {
                refused.push(Value::from(*key));
                cell.text.push_str(&footnotes.footnote_mark(refusal_reason(refusal)));
            }
            _ => {}
        }
        cells.push(cell);
    }
    let response = columns[0].and_then(|times| times.percentile(ppm));
    cells.push(ReportCell {
        value: response.and_then(ReportedTime::low_ns).map(|ns| Value::from(ns).into()),
        ..ReportCell::default()
    });
    cells.push(ReportCell::value(lower_bounds));
    cells.push(ReportCell::value(refused));
    ReportRow::Cells(cells)
}

/// Builds the table of connection and request times, one row per quantity and group of requests.
pub fn times_table(load: &LoadFindings<'_>) -> ReportTable {
    let name = load_name(load);
    let mut rows: Vec<&QuantityFindings> = load.times.iter().collect();
    rows.sort_by_key(|times| {
        TimedQuantity::ALL.iter().position(|quantity| *quantity == times.quantity)
    });
    ReportTable {
        caption: vec!["times of connections and requests:".to_owned()],
        ..time_columns(name).build_table("times", &rows)
    }
}

fn time_columns<'a>(name: String) -> ColumnSet<&'a QuantityFindings> {
    column_set! { times: &'a QuantityFindings;
        machine("load") => &name,
        label("quantity", "") =>
            ReportCell::words(times.quantity.name()).with_text(time_name(times)),
        machine("group") => times.group.name(),
        figure("count", "number") => ReportCell::large_count(times.count as usize),
        machine("lower_bounds") => times.lower_bounds,
        figure("min_ns", "min") => spread_cell(times, Some(times.least_ns as f64), false),
        figure("mean_ns", "mean") => mean_cell(times),
        figure("deviation_ns", "sd") => spread_cell(times, times.deviation_ns, false),
        figure("median_ns", "median") => time_cell(times.percentile(500_000)),
        figure("max_ns", "max") => time_cell(times.percentile(1_000_000)),
    }
}

fn mean_cell(times: &QuantityFindings) -> ReportCell {
    let cell = spread_cell(times, Some(times.mean_ns), times.lower_bounds > 0);
    match (times.refusal, times.low_mean_ns) {
        (None, Some(low_ns)) => cell.with_text(format_ns_range(low_ns, times.mean_ns)),
        _ => cell,
    }
}

fn spread_cell(times: &QuantityFindings, ns: Option<f64>, is_lower_bound: bool) -> ReportCell {
    match (times.refusal, ns) {
        (Some(_), _) => ReportCell::figure(None).with_text("refused"),
        (None, Some(ns)) => ReportCell::figure(Some(ns)).with_text(format_ns(ns, is_lower_bound)),
        (None, None) => ReportCell::figure(None),
    }
}

fn time_name(times: &QuantityFindings) -> &'static str {
    let time = TIMES.iter().find(|time| (time.0, time.1) == (times.quantity, times.group));
    time.map_or("", |time| time.3)
}
