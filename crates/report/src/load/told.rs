//! Times as words: known, at least so long, or refused with its reason.

use crate::digits::Uncertainty;
use crate::quantity::quantity;
use speedwell_analysis::load::{Refusal, Told};
use speedwell_load::latency::Quantile;

/// `1.23 ms`, or `≥ 1.23 ms` where the true time may be longer.
pub fn time(ns: f64, is_lower_bound: bool) -> String {
    let mark = if is_lower_bound { "≥ " } else { "" };
    if ns == 0.0 {
        return format!("{mark}0 ns");
    }
    // Rounded before the unit is chosen: 999.99 µs are 1.00 ms.
    let step = 10f64.powf(ns.log10().floor() - 2.0);
    let rounded = (ns / step).round() * step;
    format!("{mark}{}", quantity(rounded, "ns", Uncertainty::Unknown))
}

/// The same of a quantile.
pub fn quantile(quantile: Quantile) -> String {
    time(quantile.ns as f64, quantile.is_lower_bound)
}

/// Two times between which the true one lies: `14.1-15.9 ms`, or `950 µs-1.20 ms` where their units differ.
pub fn range(low_ns: f64, high_ns: f64) -> String {
    let (low, high) = (time(low_ns, false), time(high_ns, false));
    match (low.split_once(' '), high.split_once(' ')) {
        (Some((low, unit)), Some((high, same))) if unit == same => format!("{low}-{high} {unit}"),
        _ => format!("{low}-{high}"),
    }
}

/// A time, a range, or the word that it is refused.
pub fn told(told: Told) -> String {
    match told {
        Told::Time(time) => quantile(time),
        Told::Range { low, high } => range(low.ns as f64, high.ns as f64),
        Told::Refused(_) => "refused".to_owned(),
    }
}

/// Why a time is refused, and what to do about it.
pub fn why(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::GeneratorLimited => {
            "refused: the generator itself was late, and that may be more than half of this time"
        }
        Refusal::RateMissed => {
            "refused: fewer than 98 % of the due requests were sent, and what the others would have met \
             is not known"
        }
    }
}
