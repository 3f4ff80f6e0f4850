//! What loads gave, in a few figures.

use crate::report::{Block, Document};
use crate::runner::load::LoadRun;

/// A table with a row for each load.
pub fn summary(runs: &[LoadRun]) -> Document {
    let mut document = Document::default();
    document.push(Block::Headline(format!("{} loads", runs.len())));
    for run in runs {
        let books = &run.measured.account.books;
        let service = run.measured.account.latency.service();
        let mut list = vec![
            format!(
                "{}: {:.1}/s",
                run.url,
                run.measured.throughput().unwrap_or(0.0)
            ),
            format!("attempted {}, ok {}", books.attempts(), books.succeeded()),
        ];
        for row in books.rows() {
            list.push(format!("{row:?}"));
        }
        if let Some(p99) = service.quantile(990_000) {
            list.push(format!("p99 {} ns", p99.ns));
        }
        document.push(Block::List(list));
    }
    document
}
