//! The same figures for other readers than people at a terminal: Markdown, CSV, JSON and HTML.

use super::number::{duration, number};
use super::squeeze::Pass;
use super::table::{Line, Table as Rows, Unit};
use speedwell_report::{Block, Cell, Column, Document, Kind, Row, Table};

/// A document of a table, and of the passes of a search if there was one.
pub fn document(rows: &Rows, passes: &[(Pass, Line)], warnings: &[String]) -> Document {
    let mut document = Document::new("erlperf");
    for warning in warnings {
        document.push(Block::Warning(warning.clone()));
    }
    let own: Vec<Vec<Cell>> = rows.lines.iter().map(|line| cells(rows, line)).collect();
    document.push(Block::Table(table("codes", own)));
    if !passes.is_empty() {
        let own = passes.iter().map(|(_, line)| cells(rows, line)).collect();
        document.push(Block::Table(table("passes", own)));
    }
    document
}

fn table(name: &'static str, rows: Vec<Vec<Cell>>) -> Table {
    let figure = |key, header| Column::new(key, header, Kind::Figure);
    Table {
        columns: vec![
            Column::new("code", "code", Kind::Label),
            figure("workers", "workers"),
            figure("samples", "samples"),
            figure("average", "average"),
            figure("deviation", "deviation"),
            figure("median", "median"),
            figure("p99", "p99"),
            figure("least", "least"),
            figure("greatest", "greatest"),
            figure("iteration_ns", "iteration"),
            figure("relative", "relative"),
        ],
        rows: rows.into_iter().map(Row::Cells).collect(),
        ..Table::new(name)
    }
}

fn cells(rows: &Rows, line: &Line) -> Vec<Cell> {
    let mut cells = vec![
        Cell::value(line.label.clone()).shown(&line.label),
        Cell::value(line.workers).shown(line.workers.to_string()),
    ];
    let Some((figures, seen)) = line.seen() else {
        cells.push(Cell::value(0).shown("failed"));
        cells.resize_with(11, || Cell::figure(None).shown(""));
        return cells;
    };
    let plain = |value: f64| {
        let words = match rows.unit {
            Unit::Iterations => number(value),
            Unit::Nanoseconds => duration(value),
        };
        Cell::figure(Some(value)).shown(words)
    };
    let deviation = seen
        .deviation
        .map_or_else(|| Cell::figure(None).shown("-"), plain);
    cells.push(Cell::value(seen.count).shown(seen.count.to_string()));
    cells.extend([
        plain(seen.average),
        deviation,
        plain(seen.median),
        plain(seen.p99),
        plain(seen.least),
        plain(seen.greatest),
        Cell::figure(Some(figures.iteration_ns)).shown(duration(figures.iteration_ns)),
    ]);
    let share = rows.share_of_best(line);
    let words = share.map(|share| format!("{:.0}%", 100.0 * share));
    cells.push(Cell::figure(share).shown(words.unwrap_or_default()));
    cells
}
