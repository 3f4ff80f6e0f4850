//! Loads of several rates: the highest that was kept, and a row for each trial.

use super::headline::rate;
use super::levels_chart;
use super::search::chart;
use crate::digits::Uncertainty;
use crate::document::{Block, Chart, Document};
use crate::field::{Field, keys, table_of};
use crate::quantity::{quantity, share};
use crate::table::{Cell, Column, Kind, Table};
use serde_json::json;
use speedwell_analysis::load::{Missed, RateTry, Rates};
use speedwell_plot as plot;

/// What counts as kept.
const NOTE: &str = "A rate is kept when at least 98 % of the due requests were sent and answered well, the generator \
    was not late by itself, and every --fail-on limit holds. p50 and p99 are response times from when each \
    request was due.";

/// Adds what is said of one address.
pub fn add(rates: &Rates, document: &mut Document) {
    document.push(Block::Headline(headline(rates)));
    document.push(Block::Table(table(rates)));
    document.push(Block::Note(NOTE.into()));
    document
        .blocks
        .extend(picture(rates).map(|chart| Block::Chart(Box::new(chart))));
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

fn headline(rates: &Rates) -> String {
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

fn table(rates: &Rates) -> Table {
    table_of("rates", fields(&rates.label), &rates.tries)
}

/// What the tables of rates can be sorted by.
pub fn rate_sort_keys() -> Vec<&'static str> {
    keys(&fields(""))
}

fn fields(label: &str) -> Vec<Field<RateTry>> {
    let time = |ns: Option<f64>| {
        let words = ns.map(|ns| quantity(ns, "ns", Uncertainty::Unknown));
        Cell::figure(ns).shown(words.unwrap_or_else(|| "refused".into()))
    };
    let part = |part: f64| Cell::figure(Some(part)).shown(share(part));
    let column = |key, header| Column::new(key, header, Kind::Figure);
    let label = label.to_owned();
    vec![
        Field::machine("load", move |_: &RateTry| Cell::words(label.clone())),
        Field::new(column("rate", "rate"), |one: &RateTry| {
            Cell::figure(Some(one.rate)).shown(rate(one.rate))
        }),
        Field::new(column("sent_share", "sent"), move |one: &RateTry| {
            part(one.sent)
        }),
        Field::new(
            column("answered_share", "answered"),
            move |one: &RateTry| part(one.answered),
        ),
        Field::new(column("p50_ns", "p50"), move |one: &RateTry| {
            time(one.p50_ns)
        }),
        Field::new(column("p99_ns", "p99"), move |one: &RateTry| {
            time(one.p99_ns)
        }),
        Field::new(
            Column::new("missed", "", Kind::Words),
            |one: &RateTry| match &one.missed {
                None => Cell::value("kept").shown("kept"),
                Some(missed) => Cell::words(reason(missed)),
            },
        ),
    ]
}

fn picture(rates: &Rates) -> Option<Chart> {
    let line = |name: &str, of: fn(&RateTry) -> Option<f64>| plot::PointSeries {
        name: name.into(),
        points: rates
            .tries
            .iter()
            .filter_map(|one| {
                Some(plot::Point::new(
                    one.rate,
                    of(one)? / levels_chart::NS_PER_MS,
                ))
            })
            .collect(),
        colour: None,
    };
    let series = vec![line("p50", |one| one.p50_ns), line("p99", |one| one.p99_ns)];
    let is_drawn = series.iter().any(|series| !series.points.is_empty());
    let title = "Response time over rate";
    is_drawn.then(|| {
        let picture = plot::Chart::Scatter(plot::ScatterChart {
            title: title.into(),
            subtitle: Some(rates.label.clone()),
            x: plot::Axis::log10("requests per second"),
            y: plot::Axis::log10("response time, ms"),
            series,
        });
        chart(title.into(), picture)
    })
}
