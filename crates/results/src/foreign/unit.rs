//! Units as written in files, and the metrics they denote.
//!
//! Decides how a figure with a unit is stored: times in nanoseconds, sizes in bytes, rates per
//! second; any other unit is a metric of its own. Independent of the file format. Start at
//! [`UnitMeasure::from_unit`].

use speedwell_model::{Metric, MetricDirection};

/// Quantity that a unit measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeasuredQuantity {
    /// Nanoseconds.
    Time,
    /// Events per second.
    Rate,
    /// Bytes per second.
    Bandwidth,
    /// Bytes.
    Size,
    /// Ratios and factors: derived from figures, not figures themselves.
    Derived,
}

/// A unit: its quantity, and its ratio to the stored unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeasuredUnit {
    /// Measured quantity.
    pub quantity: MeasuredQuantity,
    /// Power of ten.
    pub tens: i32,
    /// Power of two.
    pub twos: i32,
}

const fn new_unit(quantity: MeasuredQuantity, tens: i32, twos: i32) -> MeasuredUnit {
    MeasuredUnit {
        quantity,
        tens,
        twos,
    }
}

impl MeasuredUnit {
    /// Milliseconds.
    pub const MS: MeasuredUnit = new_unit(MeasuredQuantity::Time, 6, 0);
    /// Events per second.
    pub const PER_SECOND: MeasuredUnit = new_unit(MeasuredQuantity::Rate, 0, 0);
    /// Millions of bytes per second.
    pub const MB_PER_SECOND: MeasuredUnit = new_unit(MeasuredQuantity::Bandwidth, 6, 0);
    /// Mebibytes per second.
    pub const MIB_PER_SECOND: MeasuredUnit = new_unit(MeasuredQuantity::Bandwidth, 0, 20);

    /// Parses the symbol of a unit.
    pub fn parse(symbol: &str) -> Option<MeasuredUnit> {
        use MeasuredQuantity::{Bandwidth, Derived, Rate, Size, Time};
        let shortened = symbol.trim().replace("/sec", "/s").replace("/second", "/s");
        Some(match shortened.as_str() {
            "ns" => new_unit(Time, 0, 0),
            "us" | "µs" | "μs" => new_unit(Time, 3, 0),
            "ms" => MeasuredUnit::MS,
            "s" | "sec" | "seconds" => new_unit(Time, 9, 0),
            "1/s" | "/s" | "req/s" | "reqs/s" | "requests/s" | "ops/s" | "op/s" | "iter/s"
            | "rps" => MeasuredUnit::PER_SECOND,
            "k/s" | "kreq/s" | "k req/s" | "kops/s" | "ops/ms" => new_unit(Rate, 3, 0),
            "ops/us" => new_unit(Rate, 6, 0),
            "ops/ns" => new_unit(Rate, 9, 0),
            "B/s" => new_unit(Bandwidth, 0, 0),
            "kB/s" | "KB/s" => new_unit(Bandwidth, 3, 0),
            "MB/s" => MeasuredUnit::MB_PER_SECOND,
            "GB/s" => new_unit(Bandwidth, 9, 0),
            "KiB/s" => new_unit(Bandwidth, 0, 10),
            "MiB/s" => MeasuredUnit::MIB_PER_SECOND,
            "GiB/s" => new_unit(Bandwidth, 0, 30),
            "B" | "bytes" => new_unit(Size, 0, 0),
            "kB" | "KB" => new_unit(Size, 3, 0),
            "MB" => new_unit(Size, 6, 0),
            "GB" => new_unit(Size, 9, 0),
            "KiB" => new_unit(Size, 0, 10),
            "MiB" => new_unit(Size, 0, 20),
            "GiB" => new_unit(Size, 0, 30),
            "%" | "x" | "×" => new_unit(Derived, 0, 0),
            _ => return None,
        })
    }

    /// Returns the factor that converts a figure to the stored unit.
    pub fn scale_factor(self) -> f64 {
        f64::powi(10.0, self.tens) * f64::powi(2.0, self.twos)
    }
}

/// Splits `Latency (ms)` into `Latency` and its unit; a text without a known unit at its end is
/// returned unchanged.
pub fn split_trailing_unit(words: &str) -> (&str, Option<MeasuredUnit>) {
    for (open, close) in [('(', ')'), ('[', ']')] {
        let inside = words.trim_end().strip_suffix(close);
        let parts = inside.and_then(|text| text.rsplit_once(open));
        if let Some((name, symbol)) = parts
            && let Some(unit) = MeasuredUnit::parse(symbol)
        {
            return (name.trim_end(), Some(unit));
        }
    }
    (words, None)
}

/// Interpretation of a unit.
#[derive(Debug, Clone, PartialEq)]
pub struct UnitMeasure {
    /// Metric, with the stored unit.
    pub metric: Metric,
    /// Factor that converts figures to the stored unit.
    pub factor: f64,
}

impl UnitMeasure {
    /// Interprets a unit as written in a file: `ns/iter`, `ops/sec`, `nanoseconds (ns)`, `seconds`;
    /// empty means no unit.
    pub fn from_unit(written: &str) -> UnitMeasure {
        let written = written.trim();
        let symbol = match split_trailing_unit(written) {
            (_, Some(unit)) => Some(unit),
            (_, None) => MeasuredUnit::parse(strip_iteration(written)),
        };
        let (name, stored, better) = match symbol.map(|unit| unit.quantity) {
            Some(MeasuredQuantity::Time) => (Metric::TIME, "ns", MetricDirection::Lower),
            Some(MeasuredQuantity::Size) => ("size", "B", MetricDirection::Lower),
            Some(MeasuredQuantity::Rate) => (Metric::THROUGHPUT, "1/s", MetricDirection::Higher),
            Some(MeasuredQuantity::Bandwidth) => {
                ("bytes_per_second", "B/s", MetricDirection::Higher)
            }
            Some(MeasuredQuantity::Derived) | None => {
                // A unit named like one of the metrics above must not be confused with it.
                let is_taken = [Metric::TIME, "size", Metric::THROUGHPUT, "bytes_per_second"]
                    .contains(&written);
                let name = if written.is_empty() || is_taken {
                    "value"
                } else {
                    written
                };
                (name, written, MetricDirection::of_unit(written))
            }
        };
        let known = symbol.filter(|unit| unit.quantity != MeasuredQuantity::Derived);
        UnitMeasure {
            metric: Metric::new(name, stored, better),
            factor: known.map_or(1.0, MeasuredUnit::scale_factor),
        }
    }
}

/// Removes the word for one execution from a unit: `ns/iter` is a time.
fn strip_iteration(written: &str) -> &str {
    let ends = ["/iter", "/op", "/ops", "/iteration"];
    let bare = ends.iter().find_map(|end| written.strip_suffix(end));
    bare.unwrap_or(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_may_stand_in_brackets_at_the_end() {
        assert_eq!(
            split_trailing_unit("Latency (ms)"),
            ("Latency", Some(MeasuredUnit::MS))
        );
        assert_eq!(
            split_trailing_unit("Mean [ms]"),
            ("Mean", Some(MeasuredUnit::MS))
        );
        assert_eq!(
            split_trailing_unit("Latency (mean)"),
            ("Latency (mean)", None)
        );
    }

    #[test]
    fn one_quantity_is_one_metric_however_its_unit_is_written() {
        let read = |written| {
            let measure = UnitMeasure::from_unit(written);
            (measure.metric, measure.factor)
        };
        let time = || Metric::new("time", "ns", MetricDirection::Lower);
        assert_eq!(read("ns/iter"), (time(), 1.0));
        assert_eq!(read("seconds"), (time(), 1e9));
        assert_eq!(read("us/op"), (time(), 1e3));
        assert_eq!(read("nanoseconds (ns)"), (time(), 1.0));
        assert_eq!(read("ops/sec"), (Metric::throughput(), 1.0));
        assert_eq!(read("iter/sec"), (Metric::throughput(), 1.0));
        assert_eq!(read("ops/us"), (Metric::throughput(), 1e6));
        let size = Metric::new("size", "B", MetricDirection::Lower);
        assert_eq!(read("bytes"), (size, 1.0));
    }

    #[test]
    fn any_other_unit_is_a_metric_of_its_own() {
        let percent = UnitMeasure::from_unit("%");
        assert_eq!(
            percent.metric,
            Metric::new("%", "%", MetricDirection::Unknown)
        );
        let items = UnitMeasure::from_unit("items/s");
        assert_eq!(
            items.metric,
            Metric::new("items/s", "items/s", MetricDirection::Higher)
        );
        let misses = UnitMeasure::from_unit("misses/s");
        assert_eq!(misses.metric.better, MetricDirection::Unknown);
        assert_eq!(UnitMeasure::from_unit(" ").metric.name, "value");
    }
}
