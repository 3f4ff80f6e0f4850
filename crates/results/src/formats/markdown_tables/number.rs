//! A number with its unit, as a cell or a heading of a table has it.
//!
//! Decides which units are known and what they are multiples of. It must not know metrics. Start at
//! [`Number::parse`] and [`unit_at_end`].

/// What a unit measures.
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
    /// Shares and factors: computed from figures, no figures.
    Derived,
}

/// A unit: what it measures, and by which power it exceeds the unit that is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unit {
    /// What it measures.
    pub quantity: Quantity,
    /// The power of ten.
    pub tens: i32,
    /// The power of two.
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

    /// The unit of that symbol.
    pub fn of(symbol: &str) -> Option<Unit> {
        use Quantity::{Bandwidth, Derived, Rate, Size, Time};
        let symbol = symbol.trim().replace("/sec", "/s").replace("/second", "/s");
        Some(match symbol.as_str() {
            "ns" => unit(Time, 0, 0),
            "us" | "µs" | "μs" => unit(Time, 3, 0),
            "ms" => Unit::MS,
            "s" | "sec" | "seconds" => unit(Time, 9, 0),
            "1/s" | "/s" | "req/s" | "reqs/s" | "requests/s" | "ops/s" | "op/s" | "rps" => {
                Unit::PER_SECOND
            }
            "k/s" | "kreq/s" | "k req/s" | "kops/s" => unit(Rate, 3, 0),
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
}

/// `Latency (ms)` as `Latency` and its unit; words without a known unit at their end are unchanged.
pub fn unit_at_end(words: &str) -> (&str, Option<Unit>) {
    for (open, close) in [('(', ')'), ('[', ']')] {
        let inside = words.trim_end().strip_suffix(close);
        let parts = inside.and_then(|text| text.rsplit_once(open));
        if let Some((name, symbol)) = parts
            && let Some(unit) = Unit::of(symbol)
        {
            return (name.trim_end(), Some(unit));
        }
    }
    (words, None)
}

/// A number as printed, which keeps its digits until its unit is known.
#[derive(Debug, Clone, PartialEq)]
pub struct Number {
    digits: String,
    /// Its own unit, if it has one.
    pub unit: Option<Unit>,
}

impl Number {
    /// Reads `62.17 ms`, `54,620` or `8.54`. `None` if it is no number without a sign, or its unit is not
    /// known.
    pub fn parse(text: &str) -> Option<Number> {
        let text = text.trim();
        let end = text.find(|letter: char| !letter.is_ascii_digit() && !".,".contains(letter));
        let (digits, symbol) = text.split_at(end.unwrap_or(text.len()));
        let unit = match symbol.trim() {
            "" => None,
            symbol => Some(Unit::of(symbol)?),
        };
        let digits = without_separators(digits)?;
        let is_finite = digits.parse().is_ok_and(f64::is_finite);
        is_finite.then_some(Number { digits, unit })
    }

    /// The value in the stored unit, as near to the printed digits as a number can be.
    pub fn value(&self, unit: Unit) -> f64 {
        let value: f64 = format!("{}e{}", self.digits, unit.tens)
            .parse()
            .unwrap_or(f64::NAN);
        value * f64::powi(2.0, unit.twos)
    }

    /// Digits behind the point.
    pub fn decimals(&self) -> usize {
        self.digits
            .split_once('.')
            .map_or(0, |(_, behind)| behind.len())
    }
}

/// Commas may stand between thousands only.
fn without_separators(digits: &str) -> Option<String> {
    let (whole, _) = digits.split_once('.').unwrap_or((digits, ""));
    let mut groups = whole.split(',');
    let first = groups.next().unwrap_or_default();
    let mut others = groups.peekable();
    let is_short = first.is_empty() || first.len() > 3;
    if others.peek().is_some() && (is_short || !others.all(|group| group.len() == 3)) {
        return None;
    }
    let plain = digits.replace(',', "");
    let is_number = plain.starts_with(|letter: char| letter.is_ascii_digit());
    is_number.then_some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_digits_whatever_their_unit() {
        let number = |text: &str| Number::parse(text).unwrap();
        assert_eq!(number("62.17 ms").value(Unit::MS), 62_170_000.0);
        assert_eq!(number("54,620").value(Unit::PER_SECOND), 54_620.0);
        let bytes = number("8.54").value(Unit::MIB_PER_SECOND);
        assert_eq!(bytes / 1_048_576.0, 8.54);
        assert_eq!(number("8.50").decimals(), 2);
        for wrong in [
            "+3 %", "-5", "v1.2", "1,23", "5 apples", "", ".", "1.2.3", "1e999",
        ] {
            assert_eq!(Number::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_heading_may_name_the_unit() {
        assert_eq!(unit_at_end("Latency (ms)"), ("Latency", Some(Unit::MS)));
        assert_eq!(unit_at_end("Mean [ms]"), ("Mean", Some(Unit::MS)));
        assert_eq!(unit_at_end("Latency (mean)"), ("Latency (mean)", None));
    }
}
