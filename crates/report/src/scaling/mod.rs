//! Where throughput stops growing, in words: the answer, the figures of a level, the law, the picture.
//!
//! Loads and codes share it: what a worker does is not known here. Start at [`headline`].

mod chart;
pub mod law;

pub use chart::throughput_chart;

use super::digits::Uncertainty;
use super::quantity::{change_with_interval, quantity, share};
use super::table::Cell;
use serde_json::{Value, json};
use speedwell_analysis::scaling::{Answer, Scaling, Standing, Status};
use speedwell_model::Estimate;

/// Visits of one level that differ by more than this share hide where throughput stops growing: the simulations
/// of docs/why/statistics.md find it less than nine times of ten then.
const MOST_NOISE: f64 = 0.15;

/// A throughput with as many digits as its interval supports.
pub fn throughput(standing: &Standing) -> String {
    let half = standing
        .interval
        .map_or(Uncertainty::Unknown, |i| Uncertainty::Half(i.half_width()));
    quantity(standing.throughput, "1/s", half)
}

/// `91.2 k/s ± 1.1 %`.
pub fn throughput_with_error(standing: &Standing) -> String {
    let interval = standing.interval.filter(|_| standing.throughput > 0.0);
    match interval {
        Some(interval) => format!(
            "{} ± {}",
            throughput(standing),
            share(interval.half_width() / standing.throughput)
        ),
        None => throughput(standing),
    }
}

/// The answer in a sentence. At the level `spoilt`, if there is one, the work failed.
pub fn headline(label: &str, scaling: &Scaling, spoilt: Option<u32>) -> String {
    let Answer {
        standings, is_open, ..
    } = &scaling.answer;
    let (knee, best) = (scaling.answer.at_knee(), scaling.answer.at_best());
    let figure = throughput_with_error(knee);
    let at = knee.concurrency;
    match (is_open, spoilt) {
        (true, Some(spoilt)) => {
            format!("{label}: throughput grows up to {at}: {figure}; at {spoilt} requests fail.")
        }
        (true, None) => format!(
            "{label}: throughput still grows at {at}, the highest level that was measured: {figure}."
        ),
        (false, _) => {
            // The nearest level above, unless the best one says more.
            let above = standings
                .iter()
                .find(|one| one.concurrency > knee.concurrency);
            let more = above.map_or(String::new(), |above| match above.status {
                Status::Lower => format!("; {} gives less", above.concurrency),
                _ if best.concurrency == knee.concurrency => {
                    format!("; {} gives no more", above.concurrency)
                }
                _ => format!(
                    "; {} ({}) is statistically indistinguishable from it",
                    best.concurrency,
                    throughput(best)
                ),
            });
            let verb = if is_too_noisy(scaling) {
                "cannot be seen to grow beyond"
            } else {
                "stops growing at"
            };
            format!("{label}: throughput {verb} {at}: {figure}{more}.")
        }
    }
}

/// Whether visits differ so much that the answer is probably too low.
pub fn is_too_noisy(scaling: &Scaling) -> bool {
    scaling.answer.noise.spread > MOST_NOISE
}

/// What to say of visits that differ so much; `visits` is what they are called.
pub fn noise_warning(label: &str, scaling: &Scaling, visits: &str) -> Option<String> {
    is_too_noisy(scaling).then(|| {
        format!(
            "{label}: {visits} of the same level differ by {} (standard deviation), so throughput may go on growing \
             unseen: the answer is probably too low. A quieter machine or a longer --time helps.",
            share(scaling.answer.noise.spread)
        )
    })
}

/// From the best of the levels below to this one.
pub fn change_cell(standing: Option<&Standing>) -> Cell {
    let change = standing.and_then(|standing| standing.change);
    let words = change.map(|change| {
        let interval = change.interval();
        change_with_interval(&Estimate {
            value: change.ratio - 1.0,
            low: interval.low - 1.0,
            high: interval.high - 1.0,
        })
    });
    Cell::figure(change.map(|change| change.ratio - 1.0)).shown(words.unwrap_or_default())
}

/// How a level stands, and which one is the answer; a level without standing failed.
pub fn standing_cell(standing: Option<&Standing>, is_knee: bool) -> Cell {
    let name = standing.map_or("failed", |standing| status_name(standing.status));
    Cell::value(name).shown(if is_knee { "◀ here" } else { name })
}

fn status_name(status: Status) -> &'static str {
    match status {
        Status::Best => "best",
        Status::Lower => "lower",
        Status::AsGood => "as good",
        Status::Unclear => "unclear",
    }
}

/// Everything with every digit; what was measured is named by `key`.
pub fn for_machines(key: &str, label: &str, scaling: Option<&Scaling>) -> Value {
    let answer = scaling.map(|scaling| &scaling.answer);
    json!({
        key: label,
        "concurrency": answer.map(|answer| answer.at_knee().concurrency),
        "throughput": answer.map(|answer| answer.at_knee().throughput),
        "interval": answer.and_then(|answer| answer.at_knee().interval).map(|i| [i.low, i.high]),
        "best_concurrency": answer.map(|answer| answer.at_best().concurrency),
        "still_grows": answer.map(|answer| answer.is_open),
        "noise": answer.map(|answer| answer.noise.spread),
        "usl": scaling.map(law::for_machines),
    })
}
