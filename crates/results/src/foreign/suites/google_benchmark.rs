//! JSON of one process of a google/benchmark program. Repetitions are samples; if only aggregates
//! were written, the median stands for them.

use super::Reported;
use crate::foreign::google_benchmark::{File, Row, context, metric};
use crate::foreign::json::Node;
use anyhow::Result;
use speedwell_model::{Cause, Metric};
use std::sync::Arc;

/// Note on a run whose wall time says little about the code.
const NOTE_ON_WAITING: &str = "Wall time was more than a tenth above CPU time: the machine was busy, \
     or the code waits; --metric cpu_time shows CPU time.";

/// Failure of benchmarks with the same name.
const SAME_NAME: &str = "several benchmarks of the program have this name, and nothing tells them apart; give each its own";

/// Parses the output of a program.
///
/// # Errors
/// The bytes are not JSON of the library; the message names the location.
pub fn read(bytes: &[u8]) -> Result<Vec<Reported>> {
    let file = File::read(bytes)?;
    let context = Node::at("context".to_owned(), &file.context);
    let remark = context::remark_on_build(&context).map(|remark| sentence(&remark));
    let mut names: Vec<&str> = Vec::new();
    for row in &file.rows {
        if !names.contains(&row.name.as_str()) {
            names.push(&row.name);
        }
    }
    let reported = names.into_iter().filter_map(|name| of_name(name, &file));
    Ok(reported
        .map(|mut reported| {
            reported.notes.extend(remark.clone());
            reported
        })
        .collect())
}

fn of_name(name: &str, file: &File) -> Option<Reported> {
    let own = || file.rows.iter().filter(|row| row.name == name);
    let mut rows: Vec<&Row> = own().filter(|row| !row.is_aggregate()).collect();
    if rows.is_empty() {
        rows.extend(own().find(|row| row.is_centre("median")));
    }
    let mut reported = Reported {
        notes: rows.first()?.notes(),
        cause: rows.iter().find_map(|row| row.cause()),
        ..Reported::new(Some(name.to_owned()))
    };
    if rows.iter().any(|row| row.place != rows[0].place) {
        reported.cause = Some(Cause::Invalid {
            reason: SAME_NAME.to_owned(),
        });
        return Some(reported);
    }
    if rows.iter().filter(|row| row.waits() == Some(true)).count() > rows.len() / 2 {
        reported.notes.push(NOTE_ON_WAITING.to_owned());
    }
    let mut metrics: Vec<(Metric, Arc<str>)> = Vec::new();
    for row in rows.iter().filter(|row| row.cause().is_none()) {
        reported.samples.extend(row.samples(|name| {
            if let Some((_, known)) = metrics.iter().find(|(known, _)| known.name == name) {
                return known.clone();
            }
            let shared: Arc<str> = Arc::from(name);
            metrics.push((metric(name), shared.clone()));
            shared
        }));
    }
    reported.metrics = metrics.into_iter().map(|(metric, _)| metric).collect();
    if let Some(reason) = reported.fault() {
        reported.samples.clear();
        reported.cause = Some(Cause::Invalid { reason });
    }
    Some(reported)
}

/// Formats a warning as a whole sentence.
fn sentence(remark: &str) -> String {
    let mut letters = remark.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).chain(['.']).collect()
}
