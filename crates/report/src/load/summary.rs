//! A row for each load: what people compare, and every summary figure for machines.

use super::{headline, told};
use crate::field::{Field, keys, table_of};
use crate::metric_words::count;
use crate::quantity::share;
use crate::table::{Cell, Column, Kind, Table, number};
use serde_json::Value;
use speedwell_analysis::load::{LoadFindings, Quantity, Told};
use speedwell_model::load_run::PaceFacts;

/// Percentiles of a row: key, heading, millionths.
const PERCENTILES: [(&str, &str, u32); 4] = [
    ("p50_ns", "p50", 500_000),
    ("p90_ns", "p90", 900_000),
    ("p99_ns", "p99", 990_000),
    ("max_ns", "max", 1_000_000),
];

type Load<'a> = &'a LoadFindings<'a>;

/// The table.
pub fn table(loads: &[LoadFindings<'_>]) -> Table {
    let rows: Vec<Load<'_>> = loads.iter().collect();
    let mut fields = for_people(loads);
    fields.extend(for_machines());
    let mut table = table_of("load_summaries", fields, &rows);
    table.caption = caption(loads).into_iter().collect();
    table
}

/// What the table can be sorted by.
pub fn sort_keys() -> Vec<&'static str> {
    let mut all = keys(&for_people(&[]));
    all.extend(keys(&for_machines()));
    all
}

/// Which quantity the percentiles are of, if it is the same for all.
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

fn for_people<'a>(loads: &[LoadFindings<'_>]) -> Vec<Field<Load<'a>>> {
    let is_mixed = caption(loads).is_none();
    let mut fields: Vec<Field<Load<'a>>> = vec![
        Field::new(
            Column::new("load", "load", Kind::Label),
            |load: &Load<'a>| Cell::words(super::name(load)),
        ),
        Field::new(
            Column::new("throughput", "throughput", Kind::Figure),
            |load: &Load<'a>| {
                let rate = load.throughput_per_s;
                Cell::figure(rate).shown(rate.map(headline::rate).unwrap_or_default())
            },
        ),
        Field::new(
            Column::new("quantity", "time", Kind::Words),
            move |load: &Load<'a>| {
                let name = load.principal().0.name();
                Cell::value(name).shown(if is_mixed { name } else { "" })
            },
        ),
    ];
    for (key, header, ppm) in PERCENTILES {
        fields.push(Field::new(
            Column::new(key, header, Kind::Figure),
            move |load: &Load<'a>| {
                let (quantity, group) = load.principal();
                time_cell(load.quantile(quantity, group, ppm))
            },
        ));
    }
    fields.push(Field::new(
        Column::new("errors", "failed", Kind::Figure),
        |load: &Load<'a>| {
            let counts = &load.run.measured.totals.outcomes;
            let errors = counts.all_errors();
            let part = errors as f64 / counts.attempts().max(1) as f64;
            let words = match errors {
                0 => "0".to_owned(),
                _ => format!("{errors} ({})", share(part)),
            };
            Cell::value(errors).shown(words)
        },
    ));
    fields.push(Field::new(
        Column::new("effective_concurrency", "in flight", Kind::Figure),
        |load: &Load<'a>| {
            let effective = load.concurrency.effective;
            let words = effective.map(|effective| match load.concurrency.asked {
                Some(asked) => format!("{effective:.1} of {asked}"),
                None => format!("{effective:.1}"),
            });
            Cell::figure(effective).shown(words.unwrap_or_default())
        },
    ));
    fields
}

/// The lower end of a range in nanoseconds.
pub fn low_ns(time: Option<Told>) -> Option<u64> {
    match time {
        Some(Told::Range { low, .. }) => Some(low.ns),
        _ => None,
    }
}

/// A time, for machines from when requests were due; refused times are unknown to them.
pub fn time_cell(time: Option<Told>) -> Cell {
    let known = time.and_then(Told::longest_ns);
    Cell::figure(known.map(|ns| ns as f64)).shown(time.map(told::told).unwrap_or_default())
}

fn for_machines<'a>() -> Vec<Field<Load<'a>>> {
    fn field<'a>(
        key: &'static str,
        value: fn(&LoadFindings<'_>) -> Option<Value>,
    ) -> Field<Load<'a>> {
        Field::machine(key, move |load: &Load<'a>| Cell {
            value: value(load),
            ..Cell::default()
        })
    }
    vec![
        field("url", |load| Some(load.run.url.as_str().into())),
        field("round", |load| Some(load.run.round.into())),
        field("protocol", |load| {
            Some(load.run.asked.protocol.as_str().into())
        }),
        field("model", |load| {
            let is_closed = matches!(load.run.asked.pace, PaceFacts::Closed { .. });
            Some(if is_closed { "closed" } else { "open" }.into())
        }),
        field("concurrency", |load| {
            load.run.asked.concurrency().map(Value::from)
        }),
        field("elapsed_ns", |load| {
            Some(load.run.measured.elapsed_ns.into())
        }),
        field("attempted", |load| {
            Some(load.run.measured.totals.outcomes.attempts().into())
        }),
        field("ok", |load| {
            Some(load.run.measured.totals.outcomes.succeeded().into())
        }),
        field("mean_ns", |load| {
            let (quantity, group) = load.principal();
            let spread = load.spread(quantity, group)?;
            spread.refusal.is_none().then(|| number(spread.mean_ns))?
        }),
        field("p50_low_ns", |load| low(load, 500_000)),
        field("p99_low_ns", |load| low(load, 990_000)),
        field("achieved_share", |load| number(load.open?.achieved)),
        field("lateness_p99_ns", |load| {
            Some(load.open?.own_lag_p99_ns.into())
        }),
        field("received_per_s", |load| number(load.bytes_per_s?.0)),
        field("sent_per_s", |load| number(load.bytes_per_s?.1)),
        field("connections_opened", |load| {
            Some(load.run.measured.totals.outcomes.connections.opened.into())
        }),
        field("generator_busy", |load| number(load.generator.busiest)),
        field("cpu_ns_per_request", |load| {
            number(load.generator.cpu_ns_per_request?)
        }),
        field("is_balanced", |load| Some(load.balance.is_ok().into())),
    ]
}

/// The lower end of the range of a quantile.
fn low(load: &LoadFindings<'_>, ppm: u32) -> Option<Value> {
    let (quantity, group) = load.principal();
    low_ns(load.quantile(quantity, group, ppm)).map(Value::from)
}

/// A count of requests.
pub fn requests(number: u64) -> String {
    count(number as usize, "request", "requests")
}
