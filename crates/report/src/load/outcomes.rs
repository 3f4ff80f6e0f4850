//! What became of the requests, and with which statuses they were answered.

use crate::digits::spell;
use crate::document::Block;
use crate::quantity::share;
use crate::table::{Cell, Column, Kind, Row, Table};
use speedwell_analysis::load::LoadFindings;
use speedwell_load::outcomes::{ErrorClass, OutcomeCounts};

/// Both tables. Where every request was answered well in the same way they say nothing new to people
/// and are folded away.
pub fn blocks(load: &LoadFindings<'_>) -> Vec<Block> {
    let counts = &load.run.measured.totals.outcomes;
    let tables = [outcomes(load, counts), statuses(load, counts)];
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

fn outcomes(load: &LoadFindings<'_>, counts: &OutcomeCounts) -> Table {
    let all = counts.attempts();
    let seen = counts.rows().filter(|row| row.count > 0);
    let mut rows: Vec<Row> = seen
        .map(|row| counted(load, row.name, meaning(row.name), row.count, all))
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
        Cell::words(super::name(load)),
        Cell::words(name),
        Cell::value(count).shown(spell(count as f64, 0)),
        Cell::figure(part).shown(part.map(share).unwrap_or_default()),
        Cell::words(words),
    ])
}

/// What an outcome means.
fn meaning(name: &str) -> &'static str {
    match name {
        "ok" => "answered well",
        "in-flight" => "sent, and not answered when the load ended",
        "cancelled" => "given up by the generator",
        "unsent" => "due, and not sent when the load ended",
        other => ErrorClass::from_name(other).map_or("", ErrorClass::sentence),
    }
}
