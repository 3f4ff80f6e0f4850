//! Units as written in files, and the metrics they denote.
//!
//! Decides how a figure with a unit is stored: times in nanoseconds, sizes in bytes, rates per
//! second; any other unit is a metric of its own. Knows no format. Start at [`Measure::of_unit`].

use speedwell_model::{Better, Metric};

/// Quantity that a unit measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
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
pub struct Unit {
    /// Measured quantity.
    pub quantity: Quantity,
    /// Power of ten.
    pub tens: i32,
    /// Power of two.
    pub twos: i32,
}

const fn unit(quantity: Quantity, tens: i32, twos: i32) -> Unit {
    Unit {
        quantity,
        tens,
        twos,
    }
}

impl Unit {
    /// Milliseconds.
    pub const MS: Unit = unit(Quantity::Time, 6, 0);
    /// Events per second.
    pub const PER_SECOND: Unit = unit(Quantity::Rate, 0, 0);
    /// Millions of bytes per second.
    pub const MB_PER_SECOND: Unit = unit(Quantity::Bandwidth, 6, 0);
    /// Mebibytes per second.
    pub const MIB_PER_SECOND: Unit = unit(Quantity::Bandwidth, 0, 20);

    /// Parses the symbol of a unit.
    pub fn parse(symbol: &str) -> Option<Unit> {
        use Quantity::{Bandwidth, Derived, Rate, Size, Time};
        let symbol = symbol.trim().replace("/sec", "/s").replace("/second", "/s");
        Some(match symbol.as_str() {
            "ns" => unit(Time, 0, 0),
            "us" | "µs" | "μs" => unit(Time, 3, 0),
            "ms" => Unit::MS,
            "s" | "sec" | "seconds" => unit(Time, 9, 0),
            "1/s" | "/s" | "req/s" | "reqs/s" | "requests/s" | "ops/s" | "op/s" | "iter/s"
            | "rps" => Unit::PER_SECOND,
            "k/s" | "kreq/s" | "k req/s" | "kops/s" | "ops/ms" => unit(Rate, 3, 0),
            "ops/us" => unit(Rate, 6, 0),
            "ops/ns" => unit(Rate, 9, 0),
            "B/s" => unit(Bandwidth, 0, 0),
            "kB/s" | "KB/s" => unit(Bandwidth, 3, 0),
            "MB/s" => Unit::MB_PER_SECOND,
            "GB/s" => unit(Bandwidth, 9, 0),
            "KiB/s" => unit(Bandwidth, 0, 10),
            "MiB/s" => Unit::MIB_PER_SECOND,
            "GiB/s" => unit(Bandwidth, 0, 30),
            "B" | "bytes" => unit(Size, 0, 0),
            "kB" | "KB" => unit(Size, 3, 0),
            "MB" => unit(Size, 6, 0),
            "GB" => unit(Size, 9, 0),
            "KiB" => unit(Size, 0, 10),
            "MiB" => unit(Size, 0, 20),
            "GiB" => unit(Size, 0, 30),
            "%" | "x" | "×" => unit(Derived, 0, 0),
            _ => return None,
        })
    }

    /// Returns the factor that converts a figure to the stored unit.
    pub fn scale(self) -> f64 {
        f64::powi(10.0, self.tens) * f64::powi(2.0, self.twos)
    }
}

/// Splits `Latency (ms)` into `Latency` and its unit; a text without a known unit at its end is
/// returned unchanged.
pub fn unit_at_end(words: &str) -> (&str, Option<Unit>) {
    for (open, close) in [('(', ')'), ('[', ']')] {
        let inside = words.trim_end().strip_suffix(close);
        let parts = inside.and_then(|text| text.rsplit_once(open));
        if let Some((name, symbol)) = parts
            && let Some(unit) = Unit::parse(symbol)
        {
            return (name.trim_end(), Some(unit));
        }
    }
    (words, None)
}

/// Interpretation of a unit.
#[derive(Debug, Clone, PartialEq)]
pub struct Measure {
    /// Metric, with the stored unit.
    pub metric: Metric,
    /// Factor that converts figures to the stored unit.
    pub factor: f64,
}

impl Measure {
    /// Interprets a unit as written in a file: `ns/iter`, `ops/sec`, `nanoseconds (ns)`, `seconds`;
    /// empty means no unit.
    pub fn of_unit(written: &str) -> Measure {
        let written = written.trim();
        let symbol = match unit_at_end(written) {
            (_, Some(unit)) => Some(unit),
            (_, None) => Unit::parse(per_iteration(written)),
        };
        let (name, stored, better) = match symbol.map(|unit| unit.quantity) {
            Some(Quantity::Time) => (Metric::TIME, "ns", Better::Lower),
            Some(Quantity::Size) => ("size", "B", Better::Lower),
            Some(Quantity::Rate) => (Metric::THROUGHPUT, "1/s", Better::Higher),
            Some(Quantity::Bandwidth) => ("bytes_per_second", "B/s", Better::Higher),
            Some(Quantity::Derived) | None => {
                // A unit named like one of the metrics above must not be confused with it.
                let is_taken = [Metric::TIME, "size", Metric::THROUGHPUT, "bytes_per_second"]
                    .contains(&written);
                let name = if written.is_empty() || is_taken {
                    "value"
                } else {
                    written
                };
                (name, written, Better::of_unit(written))
            }
        };
        let known = symbol.filter(|unit| unit.quantity != Quantity::Derived);
        Measure {
            metric: Metric::new(name, stored, better),
            factor: known.map_or(1.0, Unit::scale),
        }
    }
}

/// Removes the word for one execution from a unit: `ns/iter` is a time.
fn per_iteration(written: &str) -> &str {
    let ends = ["/iter", "/op", "/ops", "/iteration"];
    let bare = ends.iter().find_map(|end| written.strip_suffix(end));
    bare.unwrap_or(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_may_stand_in_brackets_at_the_end() {
        assert_eq!(unit_at_end("Latency (ms)"), ("Latency", Some(Unit::MS)));
        assert_eq!(unit_at_end("Mean [ms]"), ("Mean", Some(Unit::MS)));
        assert_eq!(unit_at_end("Latency (mean)"), ("Latency (mean)", None));
    }

    #[test]
    fn one_quantity_is_one_metric_however_its_unit_is_written() {
        let read = |written| {
            let measure = Measure::of_unit(written);
            (measure.metric, measure.factor)
        };
        let time = || Metric::new("time", "ns", Better::Lower);
        assert_eq!(read("ns/iter"), (time(), 1.0));
        assert_eq!(read("seconds"), (time(), 1e9));
        assert_eq!(read("us/op"), (time(), 1e3));
        assert_eq!(read("nanoseconds (ns)"), (time(), 1.0));
        assert_eq!(read("ops/sec"), (Metric::throughput(), 1.0));
        assert_eq!(read("iter/sec"), (Metric::throughput(), 1.0));
        assert_eq!(read("ops/us"), (Metric::throughput(), 1e6));
        let size = Metric::new("size", "B", Better::Lower);
        assert_eq!(read("bytes"), (size, 1.0));
    }

    #[test]
    fn any_other_unit_is_a_metric_of_its_own() {
        let percent = Measure::of_unit("%");
        assert_eq!(percent.metric, Metric::new("%", "%", Better::Unknown));
        let items = Measure::of_unit("items/s");
        assert_eq!(
            items.metric,
            Metric::new("items/s", "items/s", Better::Higher)
        );
        let misses = Measure::of_unit("misses/s");
        assert_eq!(misses.metric.better, Better::Unknown);
        assert_eq!(Measure::of_unit(" ").metric.name, "value");
    }
}
