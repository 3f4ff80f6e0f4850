//! Connection times: least, mean, standard deviation, median and greatest of each quantity.

use super::{summary, told};
use crate::digits::spell;
use crate::field::{Field, table_of};
use crate::table::{Cell, Column, Kind, Table};
use speedwell_analysis::load::{LoadFindings, Quantity, Spread};

/// The table; every row is one quantity of one group of requests.
pub fn table(load: &LoadFindings<'_>) -> Table {
    let name = super::name(load);
    let mut rows: Vec<&Spread> = load.spreads.iter().collect();
    rows.sort_by_key(|spread| Quantity::ALL.iter().position(|of| *of == spread.quantity));
    Table {
        caption: vec!["times of connections and requests:".to_owned()],
        ..table_of("times", fields(name), &rows)
    }
}

fn fields<'a>(name: String) -> Vec<Field<&'a Spread>> {
    let figure = |key, header, of: fn(&Spread) -> Option<f64>| {
        Field::new(
            Column::new(key, header, Kind::Figure),
            move |spread: &&'a Spread| time_cell(spread, of(spread), false),
        )
    };
    vec![
        Field::machine("load", move |_: &&'a Spread| Cell::words(name.clone())),
        Field::new(
            Column::new("quantity", "", Kind::Label),
            |spread: &&'a Spread| Cell::value(spread.quantity.name()).shown(words(spread)),
        ),
        Field::machine("group", |spread: &&'a Spread| {
            Cell::value(spread.group.name())
        }),
        Field::new(
            Column::new("count", "number", Kind::Figure),
            |spread: &&'a Spread| Cell::value(spread.count).shown(spell(spread.count as f64, 0)),
        ),
        Field::machine("lower_bounds", |spread: &&'a Spread| {
            Cell::value(spread.lower_bounds)
        }),
        figure("least_ns", "min", |spread| Some(spread.least_ns as f64)),
        Field::new(
            Column::new("mean_ns", "mean", Kind::Figure),
            |spread: &&'a Spread| {
                let cell = time_cell(spread, Some(spread.mean_ns), spread.lower_bounds > 0);
                match (spread.refusal, spread.low_mean_ns) {
                    (None, Some(low_ns)) => cell.shown(told::range(low_ns, spread.mean_ns)),
                    _ => cell,
                }
            },
        ),
        figure("deviation_ns", "sd", |spread| spread.deviation_ns),
        Field::new(
            Column::new("median_ns", "median", Kind::Figure),
            |spread: &&'a Spread| summary::time_cell(Some(spread.median)),
        ),
        Field::new(
            Column::new("greatest_ns", "max", Kind::Figure),
            |spread: &&'a Spread| summary::time_cell(Some(spread.greatest)),
        ),
    ]
}

fn time_cell(spread: &Spread, ns: Option<f64>, is_lower_bound: bool) -> Cell {
    match (spread.refusal, ns) {
        (Some(_), _) => Cell::figure(None).shown("refused"),
        (None, Some(ns)) => Cell::figure(Some(ns)).shown(told::time(ns, is_lower_bound)),
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
