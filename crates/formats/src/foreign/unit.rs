//! Interprets units as written in files, and returns the metrics they denote.
//!
//! Decides how a figure with a unit is stored: times in nanoseconds, sizes in bytes, rates per
//! second; any other unit defines a metric of its own. This module knows nothing about file
//! formats. Start at [`MetricConversion::from_unit`].

use speedwell_model::{Metric, MetricDirection};

/// Quantity that a unit measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeasuredQuantity {
    /// Time, which is stored in nanoseconds.
    Time,
    /// Events per second.
    Rate,
    /// Bytes per second.
    Bandwidth,
    /// Bytes.
    Size,
    /// Ratios and factors, which are derived from measurements.
    Derived,
}

impl MeasuredQuantity {
    /// Returns the metric of the quantity, with the stored unit; `None` for derived figures.
    pub fn metric(self) -> Option<Metric> {
        Some(match self {
            MeasuredQuantity::Time => Metric::new(Metric::TIME, "ns", MetricDirection::Lower),
            MeasuredQuantity::Rate => Metric::throughput(),
            MeasuredQuantity::Bandwidth => {
                Metric::new("bytes_per_second", "B/s", MetricDirection::Higher)
            }
            MeasuredQuantity::Size => Metric::new("size", "B", MetricDirection::Lower),
            MeasuredQuantity::Derived => return None,
        })
    }
}

/// A unit. The ratio of the unit to the stored unit of its quantity is the product of a power of
/// ten and a power of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeasuredUnit {
    /// Measured quantity.
    pub quantity: MeasuredQuantity,
    /// Exponent of ten in the ratio.
    pub exponent10: i32,
    /// Exponent of two in the ratio.
    pub exponent2: i32,
}

const fn new_unit(quantity: MeasuredQuantity, exponent10: i32, exponent2: i32) -> MeasuredUnit {
    MeasuredUnit { quantity, exponent10, exponent2 }
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
        f64::powi(10.0, self.exponent10) * f64::powi(2.0, self.exponent2)
    }
}

/// Splits `Latency (ms)` into `Latency` and its unit; a label without a known unit at its end
/// is returned unchanged.
pub fn split_trailing_unit(label: &str) -> (&str, Option<MeasuredUnit>) {
    for (open, close) in [('(', ')'), ('[', ']')] {
        let inside = label.trim_end().strip_suffix(close);
        let parts = inside.and_then(|text| text.rsplit_once(open));
        if let Some((name, symbol)) = parts
            && let Some(unit) = MeasuredUnit::parse(symbol)
        {
            return (name.trim_end(), Some(unit));
        }
    }
    (label, None)
}

/// The metric that follows from a unit, and the factor that converts values to the stored unit.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricConversion {
    /// Metric, with the stored unit.
    pub metric: Metric,
    /// Factor that converts figures to the stored unit.
    pub factor: f64,
}

impl MetricConversion {
    /// Interprets a unit as written in a file: `ns/iter`, `ops/sec`, `nanoseconds (ns)`, `seconds`.
    /// An empty text means that the figures have no unit.
    pub fn from_unit(unit_text: &str) -> MetricConversion {
        let unit_text = unit_text.trim();
        let symbol = match split_trailing_unit(unit_text) {
            (_, Some(unit)) => Some(unit),
            (_, None) => MeasuredUnit::parse(strip_iteration(unit_text)),
        };
        let known = symbol.and_then(|unit| Some((unit.quantity.metric()?, unit.scale_factor())));
        let (metric, factor) = known.unwrap_or_else(|| {
            // If the unit has the same name as one of the known metrics, its metric needs another
            // name.
            let is_taken =
                [Metric::TIME, "size", Metric::THROUGHPUT, "bytes_per_second"].contains(&unit_text);
            let name = if unit_text.is_empty() || is_taken { "value" } else { unit_text };
            (Metric::new(name, unit_text, MetricDirection::of_unit(unit_text)), 1.0)
        });
        MetricConversion { metric, factor }
    }
}

/// Strips a per-iteration suffix, so that `ns/iter` is parsed as `ns`.
fn strip_iteration(symbol: &str) -> &str {
    let suffixes = ["/iter", "/op", "/ops", "/iteration"];
    let stripped = suffixes.iter().find_map(|suffix| symbol.strip_suffix(suffix));
    stripped.unwrap_or(symbol)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_may_stand_in_brackets_at_the_end() {
        assert_eq!(split_trailing_unit("Latency (ms)"), ("Latency", Some(MeasuredUnit::MS)));
        assert_eq!(split_trailing_unit("Mean [ms]"), ("Mean", Some(MeasuredUnit::MS)));
        assert_eq!(split_trailing_unit("Latency (mean)"), ("Latency (mean)", None));
    }

    #[test]
    fn one_quantity_is_one_metric_however_its_unit_is_written() {
        let read = |unit| {
            let measure = MetricConversion::from_unit(unit);
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
        let percent = MetricConversion::from_unit("%");
        assert_eq!(percent.metric, Metric::new("%", "%", MetricDirection::Unknown));
        let items = MetricConversion::from_unit("items/s");
        assert_eq!(items.metric, Metric::new("items/s", "items/s", MetricDirection::Higher));
        let misses = MetricConversion::from_unit("misses/s");
        assert_eq!(misses.metric.better, MetricDirection::Unknown);
        assert_eq!(MetricConversion::from_unit(" ").metric.name, "value");
    }
}
