//! Builds the tables of a report of loads: a row per load, outcomes and statuses, percentiles,
//! times.
//!
//! Each table has its own entry point: [`summary_table`], [`outcome_blocks`], [`percentiles_table`]
//! and [`times_table`].

use crate::columns::{ColumnSet, column_set};
use crate::document::ReportBlock;
use crate::figure::{Uncertainty, decimal_place, format_number, format_share};
use crate::load::text::{
    format_ns, format_ns_range, format_rate, format_reported_time, load_name, refusal_reason,
};
use crate::table::{ColumnKind, ReportCell, ReportColumn, ReportRow, ReportTable, TableFootnotes};
use serde_json::Value;
use speedwell_analysis::load::{
    LoadFindings, PERCENTILES_PPM, QuantityPercentiles, QuantitySpread, ReportedTime, RequestGroup,
    TimedQuantity,
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
        figure("p50_ns", "p50") => time_cell(principal_quantile(load, 500_000)),
        figure("p90_ns", "p90") => time_cell(principal_quantile(load, 900_000)),
        figure("p99_ns", "p99") => time_cell(principal_quantile(load, 990_000)),
        figure("max_ns", "max") => time_cell(principal_quantile(load, 1_000_000)),
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
        machine("p50_low_ns") => low_ns(principal_quantile(load, 500_000)),
        machine("p99_low_ns") => low_ns(principal_quantile(load, 990_000)),
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
    ReportCell::shown_figure(load.concurrency.effective, |effective| {
        match load.concurrency.requested {
            Some(requested) => format!("{effective:.1} of {requested}"),
            None => format!("{effective:.1}"),
        }
    })
}

/// Returns a percentile, in parts per million, of the times that the load is judged by.
fn principal_quantile(load: &LoadFindings<'_>, ppm: u32) -> Option<ReportedTime> {
    let (quantity, group) = load.principal_quantity();
    load.quantile(quantity, group, ppm)
}

/// Returns the mean of the same times, unless it is withheld.
fn principal_mean_ns(load: &LoadFindings<'_>) -> Option<f64> {
    let (quantity, group) = load.principal_quantity();
    let spread = load.spread_of(quantity, group)?;
    spread.refusal.is_none().then_some(spread.mean_ns)
}

/// Returns the lower bound of a range of times, in nanoseconds. Returns `None` for other times.
pub fn low_ns(time: Option<ReportedTime>) -> Option<u64> {
    match time {
        Some(ReportedTime::Range { low, .. }) => Some(low.ns),
        _ => None,
    }
}

/// Builds the cell of a time. For a range, programs get the upper bound: the time since the
/// requests were due. For a withheld time, they get nothing.
pub fn time_cell(time: Option<ReportedTime>) -> ReportCell {
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
    let mut rows: Vec<ReportRow> = occurred
        .map(|row| count_row(load, row.name, outcome_meaning(row.name), row.count, total))
        .collect();
    rows.push(count_row(load, "attempted", "all requests", total, total));
    let columns = vec![
        ReportColumn::machine("load"),
        ReportColumn::new("outcome", "outcome", ColumnKind::Identifier),
        ReportColumn::new("count", "requests", ColumnKind::Figure),
        ReportColumn::new("share", "share", ColumnKind::Figure),
        ReportColumn::new("meaning", "meaning", ColumnKind::Words).expendable(1),
    ];
    ReportTable { columns, rows, ..ReportTable::new("outcomes") }
}

fn status_table(load: &LoadFindings<'_>, counts: &OutcomeCounts) -> ReportTable {
    let (codes, interim) = (counts.codes(), counts.interim_codes());
    let row =
        |code: u16, kind, count| count_row(load, &code.to_string(), kind, count, codes.total());
    let mut rows: Vec<ReportRow> =
        codes.nonzero_counts().map(|(code, count)| row(code, "response", count)).collect();
    let interim_counts = interim.nonzero_counts();
    rows.extend(interim_counts.map(|(code, count)| row(code, "before the response", count)));
    if codes.count_outside() > 0 {
        let (count, total) = (codes.count_outside(), codes.total());
        rows.push(count_row(load, "other", "not of three digits", count, total));
    }
    let columns = vec![
        ReportColumn::machine("load"),
        ReportColumn::new("status", "status", ColumnKind::Identifier),
        ReportColumn::new("count", "responses", ColumnKind::Figure),
        ReportColumn::new("share", "share", ColumnKind::Figure),
        ReportColumn::new("kind", "kind", ColumnKind::Words),
    ];
    ReportTable { columns, rows, ..ReportTable::new("statuses") }
}

fn count_row(
    load: &LoadFindings<'_>,
    name: &str,
    meaning: &str,
    count: u64,
    total: u64,
) -> ReportRow {
    let share = (total > 0).then(|| count as f64 / total as f64);
    ReportRow::Cells(vec![
        ReportCell::words(load_name(load)),
        ReportCell::words(name),
        ReportCell::value(count).with_text(format_number(count as f64, 0)),
        ReportCell::figure(share).with_text(share.map(format_share).unwrap_or_default()),
        ReportCell::words(meaning),
    ])
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

/// The columns of times: quantity, group, machine-readable key, heading. A column without a heading
/// is for programs only.
const TIME_COLUMNS: [(TimedQuantity, RequestGroup, &str, &str); 7] = [
    (TimedQuantity::Response, RequestGroup::All, "response_all_ns", "response"),
    (TimedQuantity::Response, RequestGroup::Ok, "response_ok_ns", "response, ok"),
    (TimedQuantity::Service, RequestGroup::Ok, "service_ok_ns", "service"),
    (TimedQuantity::Service, RequestGroup::All, "service_all_ns", "service, all"),
    (TimedQuantity::FirstByte, RequestGroup::Ok, "first_byte_ns", ""),
    (TimedQuantity::Lag, RequestGroup::All, "lag_ns", "lag"),
    (TimedQuantity::Connect, RequestGroup::All, "connect_ns", ""),
];

/// Builds the table that shows within which time each percentage of the requests was served.
/// Returns `None` if nothing was timed.
pub fn percentiles_table(load: &LoadFindings<'_>) -> Option<ReportTable> {
    let columns: Vec<Option<&QuantityPercentiles>> = TIME_COLUMNS
        .iter()
        .map(|(quantity, group, _, _)| {
            let is_wanted = |served: &&QuantityPercentiles| {
                (served.quantity, served.group) == (*quantity, *group)
            };
            load.served.iter().find(is_wanted)
        })
        .collect();
    columns.iter().flatten().next()?;
    let mut footnotes = TableFootnotes::default();
    let rows = PERCENTILES_PPM
        .iter()
        .enumerate()
        .filter(|(_, ppm)| is_shown(**ppm, load))
        .map(|(index, ppm)| percentile_row(load, index, *ppm, &columns, &mut footnotes))
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
    columns.extend(TIME_COLUMNS.iter().map(|(_, _, key, header)| match *header {
        "" => ReportColumn::machine(key),
        header => ReportColumn::new(key, header, ColumnKind::Figure),
    }));
    columns.push(ReportColumn::machine("response_all_low_ns"));
    columns.push(ReportColumn::machine("lower_bounds"));
    columns.push(ReportColumn::machine("refused"));
    columns
}

/// Whether a percentile is shown. A percentile above the 99th is shown if at least one request took
/// longer. The maximum is always shown.
fn is_shown(ppm: u32, load: &LoadFindings<'_>) -> bool {
    let largest_count = load.served.iter().map(|served| served.count).max();
    let slower_count = largest_count.unwrap_or(0) as f64 * f64::from(1_000_000 - ppm) / 1e6;
    ppm <= 990_000 || ppm == 1_000_000 || slower_count >= 1.0
}

fn percentile_row(
    load: &LoadFindings<'_>,
    index: usize,
    ppm: u32,
    columns: &[Option<&QuantityPercentiles>],
    footnotes: &mut TableFootnotes,
) -> ReportRow {
    let percent = f64::from(ppm) / 1e4;
    let mut cells = vec![
        ReportCell::words(load_name(load)),
        ReportCell::figure(Some(percent))
            .with_text(format_number(percent, decimal_place(percent, Uncertainty::Exact))),
    ];
    let (mut lower_bounds, mut refused) = (Vec::new(), Vec::new());
    for ((_, _, key, _), served) in TIME_COLUMNS.iter().zip(columns) {
        let time = served.and_then(|served| served.percentiles.get(index).copied());
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
    let response = columns[0].and_then(|served| served.percentiles.get(index).copied());
    cells.push(ReportCell {
        value: low_ns(response).map(|ns| Value::from(ns).into()),
        ..ReportCell::default()
    });
    cells.push(ReportCell::value(lower_bounds));
    cells.push(ReportCell::value(refused));
    ReportRow::Cells(cells)
}

/// Builds the table of connection and request times, one row per quantity and group of requests.
pub fn times_table(load: &LoadFindings<'_>) -> ReportTable {
    let name = load_name(load);
    let mut rows: Vec<&QuantitySpread> = load.spreads.iter().collect();
    rows.sort_by_key(|spread| {
        TimedQuantity::ALL.iter().position(|quantity| *quantity == spread.quantity)
    });
    ReportTable {
        caption: vec!["times of connections and requests:".to_owned()],
        ..spread_columns(name).build_table("times", &rows)
    }
}

fn spread_columns<'a>(name: String) -> ColumnSet<&'a QuantitySpread> {
    column_set! { spread: &'a QuantitySpread;
        machine("load") => &name,
        label("quantity", "") =>
            ReportCell::words(spread.quantity.name()).with_text(spread_note(spread)),
        machine("group") => spread.group.name(),
        figure("count", "number") => ReportCell::large_count(spread.count as usize),
        machine("lower_bounds") => spread.lower_bounds,
        figure("min_ns", "min") => spread_cell(spread, Some(spread.least_ns as f64), false),
        figure("mean_ns", "mean") => mean_cell(spread),
        figure("deviation_ns", "sd") => spread_cell(spread, spread.deviation_ns, false),
        figure("median_ns", "median") => time_cell(Some(spread.median)),
        figure("max_ns", "max") => time_cell(Some(spread.greatest)),
    }
}

fn mean_cell(spread: &QuantitySpread) -> ReportCell {
    let cell = spread_cell(spread, Some(spread.mean_ns), spread.lower_bounds > 0);
    match (spread.refusal, spread.low_mean_ns) {
        (None, Some(low_ns)) => cell.with_text(format_ns_range(low_ns, spread.mean_ns)),
        _ => cell,
    }
}

fn spread_cell(spread: &QuantitySpread, ns: Option<f64>, is_lower_bound: bool) -> ReportCell {
    match (spread.refusal, ns) {
        (Some(_), _) => ReportCell::figure(None).with_text("refused"),
        (None, Some(ns)) => ReportCell::figure(Some(ns)).with_text(format_ns(ns, is_lower_bound)),
        (None, None) => ReportCell::figure(None),
    }
}

fn spread_note(spread: &QuantitySpread) -> String {
    use speedwell_analysis::load::RequestGroup;
    let name = match spread.quantity {
        TimedQuantity::Connect => return "connect".to_owned(),
        TimedQuantity::Lag => return "lag".to_owned(),
        TimedQuantity::FirstByte => return "first byte".to_owned(),
        TimedQuantity::Service => "service",
        TimedQuantity::Response => "response",
    };
    let is_main = match spread.quantity {
        TimedQuantity::Response => spread.group == RequestGroup::All,
        _ => spread.group == RequestGroup::Ok,
    };
    if is_main { name.to_owned() } else { format!("{name}, {}", spread.group.name()) }
}
