//! What loads gave, in a few figures.

use crate::report::{Block, Document, Uncertainty, quantity};
use crate::runner::load::LoadRun;

/// The figures of each load, in the order of execution.
pub fn summary(runs: &[LoadRun]) -> Document {
    let mut document = Document {
        report: "load",
        ..Document::default()
    };
    for run in runs {
        document.push(Block::Headline(headline(run)));
        document.push(Block::List(lines(run)));
    }
    document
}

fn headline(run: &LoadRun) -> String {
    let throughput = run.measured.throughput().unwrap_or_default();
    let figure = quantity(throughput, "1/s", Uncertainty::Unknown);
    format!("{}: {figure} answered well", run.label)
}

/// Service times of good answers, and what became of every request.
fn lines(run: &LoadRun) -> Vec<String> {
    let service = run.measured.account.latency.service();
    let quantiles = service.quantiles(&[500_000, 990_000]);
    let time = |ns: u64| quantity(ns as f64, "ns", Uncertainty::Unknown);
    let mut lines = Vec::new();
    if let [Some(p50), Some(p99)] = quantiles[..] {
        lines.push(format!(
            "latency p50 {}, p99 {}",
            time(p50.ns),
            time(p99.ns)
        ));
    }
    let books = &run.measured.account.books;
    let doors = books.rows().filter(|row| row.count > 0);
    let doors: Vec<String> = doors
        .map(|row| format!("{} {}", row.count, row.name))
        .collect();
    lines.push(format!(
        "{} requests: {}",
        books.attempts(),
        doors.join(", ")
    ));
    lines
}
