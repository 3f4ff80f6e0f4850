//! What people call metrics, their units and their good direction; and counted nouns.

use super::digits::spell;
use super::unit::{Dimension, dimension_of};
use speedwell_model::{Better, Metric};

/// `throughput in M/s`. A unit without anything before its slash reads better with a 1.
pub fn in_unit(name: &str, unit: &str) -> String {
    match unit {
        "" => name.to_owned(),
        _ if unit.starts_with('/') => format!("{name} in 1{unit}"),
        _ => format!("{name} in {unit}"),
    }
}

/// Which direction is the good one.
pub fn direction(better: Better) -> &'static str {
    match better {
        Better::Higher => "higher is better",
        Better::Lower => "lower is better",
    }
}

/// What a good and a bad candidate is called: only speeds are fast or slow.
pub fn good_and_bad(metric: &Metric) -> (&'static str, &'static str) {
    match dimension_of(&metric.unit) {
        Some(Dimension::Rate | Dimension::Time | Dimension::Bandwidth) => ("faster", "slower"),
        Some(Dimension::Size) | None => ("better", "worse"),
    }
}

/// A count with its noun: `1 case`, `1,234 cases`.
pub fn count(number: usize, one: &str, many: &str) -> String {
    let word = if number == 1 { one } else { many };
    format!("{} {word}", spell(number as f64, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_not_fast() {
        assert_eq!(good_and_bad(&Metric::throughput()), ("faster", "slower"));
        let memory = Metric::new("max_rss", "B", Better::Lower);
        assert_eq!(good_and_bad(&memory), ("better", "worse"));
    }

    #[test]
    fn counted_nouns_and_units() {
        assert_eq!(count(1, "case", "cases"), "1 case");
        assert_eq!(count(1234, "case", "cases"), "1,234 cases");
        assert_eq!(in_unit("throughput", "/s"), "throughput in 1/s");
        assert_eq!(in_unit("time", "µs"), "time in µs");
        assert_eq!(in_unit("ratio", ""), "ratio");
    }
}
