//! Cells without a figure: which variant failed in which case, at which stage, with which last words. A crash is a
//! result, never a gap.

use crate::document::Emphasis;
use crate::metric_words::count;
use crate::table::{Cell, Column, Kind, Row, Table, number};
use speedwell_analysis::experiment::Found;
use speedwell_model::Failure;

/// A row for every case and variant that failed, and why; none if nothing did.
pub fn table(found: &Found) -> Option<Table> {
    let mut cells: Vec<(&Failure, usize)> = Vec::new();
    for failure in found
        .failures
        .iter()
        .filter(|failure| !failure.cause.is_skip())
    {
        let is_same = |(known, _): &&mut (&Failure, usize)| {
            known.case == failure.case
                && known.variant == failure.variant
                && known.cause == failure.cause
        };
        match cells.iter_mut().find(is_same) {
            Some((_, times)) => *times += 1,
            None => cells.push((failure, 1)),
        }
    }
    (!cells.is_empty()).then(|| Table {
        caption: vec!["cells without a figure".to_owned()],
        columns: vec![
            Column::new("case", "case", Kind::Label),
            Column::new("variant", "variant", Kind::Words),
            Column::new("runs", "failed", Kind::Figure),
            Column::new("cause", "why", Kind::Words),
        ],
        rows: cells
            .iter()
            .flat_map(|(failure, times)| rows(failure, *times))
            .collect(),
        ..Table::new("cells")
    })
}

fn rows(failure: &Failure, times: usize) -> Vec<Row> {
    let words = |text: &Option<String>| Cell::words(text.as_deref().unwrap_or("all"));
    let cells = vec![
        words(&failure.case),
        words(&failure.variant),
        Cell {
            value: number(times as f64),
            ..Cell::text(count(times, "run", "runs"))
        },
        Cell::words(failure.cause.to_string()).emphasised(Emphasis::Bad),
    ];
    let last = failure
        .stderr_tail
        .lines()
        .last()
        .filter(|line| !line.trim().is_empty());
    let remark = last.map(|line| Row::Remark(format!("last words: {}", line.trim())));
    [Row::Cells(cells)].into_iter().chain(remark).collect()
}
