//! The tables of loads: a row per load, outcomes and statuses, percentiles, times.
//!
//! Each starts with its entry point: [`summary_table`], [`outcome_blocks`], [`percentiles_table`]
//! and [`times_table`].

use crate::document::Block;
use crate::figure::{Uncertainty, place, share, spell};
use crate::load::words::{
    load_name, rate, refusal_reason, spelled_ns, spelled_range, spelled_time,
};
use crate::table::{Cell, Column, Columns, Footnotes, Kind, Row, Table, number};
use serde_json::Value;
use speedwell_analysis::load::{
    Group, LoadFindings, PERCENTILES_PPM, Quantity, ReportedTime, Served, Spread,
};
use speedwell_load::outcomes::{ErrorClass, OutcomeCounts};
use speedwell_model::load_run::PaceFacts;

/// The percentiles of a row: key, heading, parts per million.
const PERCENTILES: [(&str, &str, u32); 4] = [
    ("p50_ns", "p50", 500_000),
    ("p90_ns", "p90", 900_000),
    ("p99_ns", "p99", 990_000),
    ("max_ns", "max", 1_000_000),
];

type Load<'a> = &'a LoadFindings<'a>;

/// Builds the table with a row per load.
pub fn summary_table(loads: &[LoadFindings<'_>]) -> Table {
    let rows: Vec<Load<'_>> = loads.iter().collect();
    Table {
        caption: caption(loads).into_iter().collect(),
        ..summary_columns(loads).table("load_summaries", &rows)
    }
}

/// The sort keys of the table of loads.
pub fn sort_keys() -> Vec<&'static str> {
    summary_columns(&[]).sort_keys()
}

/// The quantity of the percentiles, if all loads share it.
fn caption(loads: &[LoadFindings<'_>]) -> Option<String> {
    let quantity = loads.first()?.principal().0;
    let is_same = loads.iter().all(|load| load.principal().0 == quantity);
    is_same.then(|| format!("{}:", meaning(quantity)))
}

fn meaning(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Response => "response time from when each request was due, of all requests",
        _ => "service time of good answers",
    }
}

fn summary_columns<'a>(loads: &[LoadFindings<'_>]) -> Columns<Load<'a>> {
    let is_mixed = caption(loads).is_none();
    let mut columns = Columns::new();
    columns.add(
        Column::new("load", "load", Kind::Label),
        |load: &Load<'a>| Cell::words(load_name(load)),
    );
    columns.add(Column::figure("throughput", "throughput"), |load| {
        Cell::shown_figure(load.throughput_per_s, rate)
    });
    columns.add(Column::words("quantity", "time"), move |load| {
        let name = load.principal().0.name();
        Cell::value(name).shown(if is_mixed { name } else { "" })
    });
    for (key, header, ppm) in PERCENTILES {
        columns.add(Column::figure(key, header), move |load| {
            let (quantity, group) = load.principal();
            time_cell(load.quantile(quantity, group, ppm))
        });
    }
    columns.add(Column::figure("errors", "failed"), |load| {
        let counts = &load.run.measured.totals.outcomes;
        let errors = counts.all_errors();
        let part = errors as f64 / counts.attempts().max(1) as f64;
        Cell::value(errors).shown(match errors {
            0 => "0".to_owned(),
            _ => format!("{errors} ({})", share(part)),
        })
    });
    columns.add(
        Column::figure("effective_concurrency", "in flight"),
        |load| {
            Cell::shown_figure(load.concurrency.effective, |effective| {
                match load.concurrency.requested {
                    Some(requested) => format!("{effective:.1} of {requested}"),
                    None => format!("{effective:.1}"),
                }
            })
        },
    );
    for (key, value) in SUMMARY_VALUES {
        columns.add_known(key, move |load| value(load));
    }
    columns
}

/// The lower bound of a time, in nanoseconds.
pub fn low_ns(time: Option<ReportedTime>) -> Option<u64> {
    match time {
        Some(ReportedTime::Range { low, .. }) => Some(low.ns),
        _ => None,
    }
}

/// A time. Machines get its upper bound, counted from the due time, and nothing if withheld.
pub fn time_cell(time: Option<ReportedTime>) -> Cell {
    let known = time.and_then(ReportedTime::longest_ns);
    Cell::figure(known.map(|ns| ns as f64)).shown(time.map(spelled_time).unwrap_or_default())
}

/// The key of a machine-readable column, and its value.
type SummaryValue = (&'static str, fn(&LoadFindings<'_>) -> Option<Value>);

/// The machine-readable columns of the table of loads.
const SUMMARY_VALUES: [SummaryValue; 19] = [
    ("url", |load| Some(load.run.url.as_str().into())),
    ("round", |load| Some(load.run.round.into())),
    ("protocol", |load| {
        Some(load.run.requested.protocol.as_str().into())
    }),
    ("model", |load| {
        let is_closed = matches!(load.run.requested.pace, PaceFacts::Closed { .. });
        Some(if is_closed { "closed" } else { "open" }.into())
    }),
    ("concurrency", |load| {
        load.run.requested.concurrency().map(Value::from)
    }),
    ("elapsed_ns", |load| {
        Some(load.run.measured.elapsed_ns.into())
    }),
    ("attempted", |load| Some(outcomes(load).attempts().into())),
    ("ok", |load| Some(outcomes(load).succeeded().into())),
    ("mean_ns", |load| {
        let (quantity, group) = load.principal();
        let spread = load.spread(quantity, group)?;
        spread.refusal.is_none().then(|| number(spread.mean_ns))?
    }),
    ("p50_low_ns", |load| low(load, 500_000)),
    ("p99_low_ns", |load| low(load, 990_000)),
    ("achieved_share", |load| number(load.open?.achieved)),
    ("lateness_p99_ns", |load| {
        Some(load.open?.own_lag_p99_ns.into())
    }),
    ("received_per_s", |load| number(load.bytes_per_s?.0)),
    ("sent_per_s", |load| number(load.bytes_per_s?.1)),
    ("connections_opened", |load| {
        Some(outcomes(load).connections.opened.into())
    }),
    ("generator_busy", |load| number(load.generator.busiest)),
    ("cpu_ns_per_request", |load| {
        number(load.generator.cpu_ns_per_request?)
    }),
    ("is_balanced", |load| Some(load.balance.is_ok().into())),
];

fn outcomes<'a>(load: &'a LoadFindings<'_>) -> &'a OutcomeCounts {
    &load.run.measured.totals.outcomes
}

/// The lower bound of a quantile.
fn low(load: &LoadFindings<'_>, ppm: u32) -> Option<Value> {
    let (quantity, group) = load.principal();
    low_ns(load.quantile(quantity, group, ppm)).map(Value::from)
}

/// Outcome and status tables. Folded if every request succeeded in the same way, as they then tell
/// people nothing new.
pub fn outcome_blocks(load: &LoadFindings<'_>) -> Vec<Block> {
    let counts = &load.run.measured.totals.outcomes;
    let tables = [outcome_table(load, counts), statuses(load, counts)];
    let tables = tables.into_iter().map(Block::Table).collect();
    let is_plain = counts.succeeded() == counts.attempts() && counts.codes().nonzero().count() == 1;
    if is_plain {
        vec![Block::Appendix {
            title: "Outcomes and statuses".to_owned(),
            instead: None,
            blocks: tables,
        }]
    } else {
        tables
    }
}

fn outcome_table(load: &LoadFindings<'_>, counts: &OutcomeCounts) -> Table {
    let all = counts.attempts();
    let seen = counts.rows().filter(|row| row.count > 0);
    let mut rows: Vec<Row> = seen
        .map(|row| counted(load, row.name, outcome_meaning(row.name), row.count, all))
        .collect();
    rows.push(counted(load, "attempted", "all requests", all, all));
    let columns = vec![
        Column::machine("load"),
        Column::new("outcome", "outcome", Kind::Identifier),
        Column::new("count", "requests", Kind::Figure),
        Column::new("share", "share", Kind::Figure),
        Column::new("meaning", "meaning", Kind::Words).expendable(1),
    ];
    Table {
        columns,
        rows,
        ..Table::new("outcomes")
    }
}

fn statuses(load: &LoadFindings<'_>, counts: &OutcomeCounts) -> Table {
    let (all, interim) = (counts.codes(), counts.interim_codes());
    let of = |code: u16, kind, count| counted(load, &code.to_string(), kind, count, all.total());
    let mut rows: Vec<Row> = all
        .nonzero()
        .map(|(code, count)| of(code, "answer", count))
        .collect();
    let before = interim.nonzero();
    rows.extend(before.map(|(code, count)| of(code, "before the answer", count)));
    if all.outside() > 0 {
        let (count, all) = (all.outside(), all.total());
        rows.push(counted(load, "other", "not of three digits", count, all));
    }
    let columns = vec![
        Column::machine("load"),
        Column::new("status", "status", Kind::Identifier),
        Column::new("count", "answers", Kind::Figure),
        Column::new("share", "share", Kind::Figure),
        Column::new("kind", "kind", Kind::Words),
    ];
    Table {
        columns,
        rows,
        ..Table::new("statuses")
    }
}

fn counted(load: &LoadFindings<'_>, name: &str, words: &str, count: u64, all: u64) -> Row {
    let part = (all > 0).then(|| count as f64 / all as f64);
    Row::Cells(vec![
        Cell::words(load_name(load)),
        Cell::words(name),
        Cell::value(count).shown(spell(count as f64, 0)),
        Cell::figure(part).shown(part.map(share).unwrap_or_default()),
        Cell::words(words),
    ])
}

/// Describes an outcome.
fn outcome_meaning(name: &str) -> &'static str {
    match name {
        "ok" => "answered well",
        "in-flight" => "sent, and not answered when the load ended",
        "cancelled" => "given up by the generator",
        "unsent" => "due, and not sent when the load ended",
        other => ErrorClass::from_name(other).map_or("", ErrorClass::sentence),
    }
}

/// The columns: quantity, group, machine-readable key, heading.
const COLUMNS: [(Quantity, Group, &str, &str); 7] = [
    (
        Quantity::Response,
        Group::All,
        "response_all_ns",
        "response",
    ),
    (
        Quantity::Response,
        Group::Ok,
        "response_ok_ns",
        "response, ok",
    ),
    (Quantity::Service, Group::Ok, "service_ok_ns", "service"),
    (
        Quantity::Service,
        Group::All,
        "service_all_ns",
        "service, all",
    ),
    (Quantity::FirstByte, Group::Ok, "first_byte_ns", ""),
    (Quantity::Lag, Group::All, "lag_ns", "lag"),
    (Quantity::Connect, Group::All, "connect_ns", ""),
];

/// Builds the table of percentages of requests and their times; `None` if nothing was timed.
pub fn percentiles_table(load: &LoadFindings<'_>) -> Option<Table> {
    let columns: Vec<Option<&Served>> = COLUMNS
        .iter()
        .map(|(quantity, group, _, _)| {
            let is = |served: &&Served| (served.quantity, served.group) == (*quantity, *group);
            load.served.iter().find(is)
        })
        .collect();
    columns.iter().flatten().next()?;
    let mut footnotes = Footnotes::default();
    let rows = PERCENTILES_PPM
        .iter()
        .enumerate()
        .filter(|(_, ppm)| is_shown(**ppm, load))
        .map(|(at, ppm)| row(load, at, *ppm, &columns, &mut footnotes))
        .collect();
    Some(Table {
        caption: vec!["percentage of the requests served within:".to_owned()],
        columns: headings(),
        rows,
        footnotes: footnotes.into_texts(),
        ..Table::new("percentiles")
    })
}

fn headings() -> Vec<Column> {
    let mut columns = vec![
        Column::machine("load"),
        Column::new("percent", "%", Kind::Figure),
    ];
    columns.extend(COLUMNS.iter().map(|(_, _, key, header)| match *header {
        "" => Column::machine(key),
        header => Column::new(key, header, Kind::Figure),
    }));
    columns.push(Column::machine("response_all_low_ns"));
    columns.push(Column::machine("lower_bounds"));
    columns.push(Column::machine("refused"));
    columns
}

/// Whether the percentile is meaningful: omits nines beyond which there is less than one request.
fn is_shown(ppm: u32, load: &LoadFindings<'_>) -> bool {
    let most = load.served.iter().map(|served| served.count).max();
    let beyond = most.unwrap_or(0) as f64 * f64::from(1_000_000 - ppm) / 1e6;
    ppm <= 990_000 || ppm == 1_000_000 || beyond >= 1.0
}

fn row(
    load: &LoadFindings<'_>,
    at: usize,
    ppm: u32,
    columns: &[Option<&Served>],
    footnotes: &mut Footnotes,
) -> Row {
    let percent = f64::from(ppm) / 1e4;
    let mut cells = vec![
        Cell::words(load_name(load)),
        Cell::figure(Some(percent)).shown(spell(percent, place(percent, Uncertainty::Exact))),
    ];
    let (mut lower_bounds, mut refused) = (Vec::new(), Vec::new());
    for ((_, _, key, _), served) in COLUMNS.iter().zip(columns) {
        let time = served.and_then(|served| served.percentiles.get(at).copied());
        let mut cell = time_cell(time);
        match time {
            Some(ReportedTime::Time(known)) if known.is_lower_bound => {
                lower_bounds.push(Value::from(*key))
            }
            Some(ReportedTime::Refused(refusal)) => {
                refused.push(Value::from(*key));
                cell.text.push_str(&footnotes.mark(refusal_reason(refusal)));
            }
            _ => {}
        }
        cells.push(cell);
    }
    let response = columns[0].and_then(|served| served.percentiles.get(at).copied());
    cells.push(Cell {
        value: low_ns(response).map(|ns| Value::from(ns).into()),
        ..Cell::default()
    });
    cells.push(Cell::value(lower_bounds));
    cells.push(Cell::value(refused));
    Row::Cells(cells)
}

/// Builds the table of connection and request times, one row per quantity and group of requests.
pub fn times_table(load: &LoadFindings<'_>) -> Table {
    let name = load_name(load);
    let mut rows: Vec<&Spread> = load.spreads.iter().collect();
    rows.sort_by_key(|spread| Quantity::ALL.iter().position(|of| *of == spread.quantity));
    Table {
        caption: vec!["times of connections and requests:".to_owned()],
        ..spread_columns(name).table("times", &rows)
    }
}

fn spread_columns<'a>(name: String) -> Columns<&'a Spread> {
    let mut columns = Columns::new();
    columns.add_value("load", move |_: &&'a Spread| name.clone());
    columns.add(Column::new("quantity", "", Kind::Label), |spread| {
        Cell::value(spread.quantity.name()).shown(words(spread))
    });
    columns.add_value("group", |spread| spread.group.name());
    columns.add(Column::figure("count", "number"), |spread| {
        Cell::value(spread.count).shown(spell(spread.count as f64, 0))
    });
    columns.add_value("lower_bounds", |spread| spread.lower_bounds);
    columns.add(Column::figure("least_ns", "min"), |spread| {
        spread_cell(spread, Some(spread.least_ns as f64), false)
    });
    columns.add(Column::figure("mean_ns", "mean"), |spread| {
        let cell = spread_cell(spread, Some(spread.mean_ns), spread.lower_bounds > 0);
        match (spread.refusal, spread.low_mean_ns) {
            (None, Some(low_ns)) => cell.shown(spelled_range(low_ns, spread.mean_ns)),
            _ => cell,
        }
    });
    columns.add(Column::figure("deviation_ns", "sd"), |spread| {
        spread_cell(spread, spread.deviation_ns, false)
    });
    columns.add(Column::figure("median_ns", "median"), |spread| {
        time_cell(Some(spread.median))
    });
    columns.add(Column::figure("greatest_ns", "max"), |spread| {
        time_cell(Some(spread.greatest))
    });
    columns
}

fn spread_cell(spread: &Spread, ns: Option<f64>, is_lower_bound: bool) -> Cell {
    match (spread.refusal, ns) {
        (Some(_), _) => Cell::figure(None).shown("refused"),
        (None, Some(ns)) => Cell::figure(Some(ns)).shown(spelled_ns(ns, is_lower_bound)),
        (None, None) => Cell::figure(None),
    }
}

fn words(spread: &Spread) -> String {
    use speedwell_analysis::load::Group;
    let name = match spread.quantity {
        Quantity::Connect => return "connect".to_owned(),
        Quantity::Lag => return "lag".to_owned(),
        Quantity::FirstByte => return "first byte".to_owned(),
        Quantity::Service => "service",
        Quantity::Response => "response",
    };
    let is_main = match spread.quantity {
        Quantity::Response => spread.group == Group::All,
        _ => spread.group == Group::Ok,
    };
    if is_main {
        name.to_owned()
    } else {
        format!("{name}, {}", spread.group.name())
    }
}
