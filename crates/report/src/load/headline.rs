//! The answer in a sentence.

use super::told;
use crate::digits::{Uncertainty, spell};
use crate::metric_words::count;
use crate::quantity::{quantity, share};
use speedwell_analysis::load::{LoadFindings, Quantity, Told};

/// The answer.
pub fn headline(loads: &[LoadFindings<'_>]) -> String {
    match loads {
        [] => "nothing was measured".to_owned(),
        [load] => single(load),
        _ => several(loads),
    }
}

/// A rate in its unit.
pub fn rate(per_s: f64) -> String {
    quantity(per_s, "1/s", Uncertainty::Unknown)
}

fn single(load: &LoadFindings<'_>) -> String {
    let counts = &load.run.measured.totals.outcomes;
    let rate = load.throughput_per_s.map_or("no rate".to_owned(), rate);
    let pace = match (load.concurrency.asked, load.open) {
        (_, Some(verdict)) => format!(" ({} of the due requests sent)", share(verdict.achieved)),
        (Some(clients), None) => {
            format!(" with {} requests in flight", spell(f64::from(clients), 0))
        }
        (None, None) => String::new(),
    };
    let failed = match counts.all_errors() {
        0 if counts.succeeded() == 0 => "no request was answered".to_owned(),
        0 => "no request failed".to_owned(),
        errors => format!(
            "{} of {} failed ({})",
            spell(errors as f64, 0),
            count(counts.attempts() as usize, "request", "requests"),
            share(errors as f64 / counts.attempts() as f64)
        ),
    };
    format!(
        "{}: {rate}{pace}{}{}; {failed}.",
        load.run.label,
        latency(load),
        connections(load)
    )
}

/// What is said of the times, as a part of the sentence.
fn latency(load: &LoadFindings<'_>) -> String {
    let (principal, group) = load.principal();
    let name = match principal {
        Quantity::Response => "response time",
        _ => "service time",
    };
    let [median, tail] = [500_000, 990_000].map(|ppm| load.quantile(principal, group, ppm));
    match (median, tail) {
        (Some(Told::Refused(_)), Some(Told::Refused(_))) => format!("; its {name} is refused"),
        (Some(median), Some(tail)) => {
            let words = |told| match told {
                Told::Refused(_) => "is refused".to_owned(),
                known => told::told(known),
            };
            format!("; {name} p50 {}, p99 {}", words(median), words(tail))
        }
        _ => String::new(),
    }
}

/// What connections had to do with it, if each answer ended one.
fn connections(load: &LoadFindings<'_>) -> &'static str {
    let replies = &load.run.measured.totals.replies;
    let closed = replies.count - replies.reusable.min(replies.count);
    if load.run.asked.keeps_alive && 2 * closed > replies.count {
        "; the server closed the connection after most answers"
    } else {
        ""
    }
}

fn several(loads: &[LoadFindings<'_>]) -> String {
    let rated = loads
        .iter()
        .filter_map(|load| Some((load.throughput_per_s?, load.run.label.as_str())));
    let mut rated: Vec<(f64, &str)> = rated.collect();
    rated.sort_by(|one, other| one.0.total_cmp(&other.0));
    let errors = |load: &LoadFindings<'_>| load.run.measured.totals.outcomes.all_errors();
    let failed: u64 = loads.iter().map(errors).sum();
    let failed = match failed {
        0 => "no request failed".to_owned(),
        failed => format!("{} failed", count(failed as usize, "request", "requests")),
    };
    match (rated.first(), rated.last()) {
        (Some((low, slowest)), Some((high, fastest))) => format!(
            "{}: throughput from {} ({slowest}) to {} ({fastest}); {failed}.",
            count(loads.len(), "load", "loads"),
            rate(*low),
            rate(*high)
        ),
        _ => format!("{}; {failed}.", count(loads.len(), "load", "loads")),
    }
}
