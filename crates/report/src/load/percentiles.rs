//! Within which time which percentage of the requests was served. Each column is one quantity.

use super::summary::{low_ns, time_cell};
use super::told;
use crate::digits::{Uncertainty, place, spell};
use crate::footnotes::Footnotes;
use crate::table::{Cell, Column, Kind, Row, Table};
use serde_json::Value;
use speedwell_analysis::load::{Group, LoadFindings, PERCENTILES_PPM, Quantity, Served, Told};

/// The columns, each with its key for machines and its heading.
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

/// The table; `None` where nothing was timed.
pub fn table(load: &LoadFindings<'_>) -> Option<Table> {
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

/// Further nines say nothing where the last of them is a fraction of a request.
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
        Cell::words(super::name(load)),
        Cell::figure(Some(percent)).shown(spell(percent, place(percent, Uncertainty::Exact))),
    ];
    let (mut lower_bounds, mut refused) = (Vec::new(), Vec::new());
    for ((_, _, key, _), served) in COLUMNS.iter().zip(columns) {
        let time = served.and_then(|served| served.told.get(at).copied());
        let mut cell = time_cell(time);
        match time {
            Some(Told::Time(known)) if known.is_lower_bound => lower_bounds.push(Value::from(*key)),
            Some(Told::Refused(refusal)) => {
                refused.push(Value::from(*key));
                cell.text.push_str(&footnotes.mark(told::why(refusal)));
            }
            _ => {}
        }
        cells.push(cell);
    }
    let response = columns[0].and_then(|served| served.told.get(at).copied());
    cells.push(Cell {
        value: low_ns(response).map(Value::from),
        ..Cell::default()
    });
    cells.push(Cell::value(lower_bounds));
    cells.push(Cell::value(refused));
    Row::Cells(cells)
}
