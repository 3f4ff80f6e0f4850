//! Units of stored figures, the units in which they are shown, and the choice between those.
//!
//! A metric's unit is free text (`1/s`, `ns`, `B`); those known here are scaled so that figures stay
//! short, all others are shown as they are. How many digits are shown is decided in `figure.rs`.

use std::fmt;
use std::str::FromStr;

/// What a unit measures; figures can only be shown in units that measure the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dimension {
    /// Things per second.
    Rate,
    /// Time.
    Time,
    /// Sizes.
    Size,
    /// Sizes per second.
    Bandwidth,
}

/// A unit with its name and how many base units it is: 1/s, ns, B, B/s.
#[derive(Debug)]
struct Unit {
    symbol: &'static str,
    base_units: f64,
    dimension: Dimension,
    /// Whether figures are scaled to it without being asked.
    usual: bool,
}

const fn unit(symbol: &'static str, base_units: f64, dimension: Dimension, usual: bool) -> Unit {
    Unit {
        symbol,
        base_units,
        dimension,
        usual,
    }
}

/// Every unit known, ascending within its dimension. Binary prefixes are those of IEC 80000-13.
const UNITS: &[Unit] = &[
    unit("/s", 1.0, Dimension::Rate, true),
    unit("k/s", 1e3, Dimension::Rate, true),
    unit("M/s", 1e6, Dimension::Rate, true),
    unit("G/s", 1e9, Dimension::Rate, true),
    unit("ns", 1.0, Dimension::Time, true),
    unit("µs", 1e3, Dimension::Time, true),
    unit("ms", 1e6, Dimension::Time, true),
    unit("s", 1e9, Dimension::Time, true),
    unit("B", 1.0, Dimension::Size, true),
    unit("kB", 1e3, Dimension::Size, false),
    unit("KiB", 1024.0, Dimension::Size, true),
    unit("MB", 1e6, Dimension::Size, false),
    unit("MiB", 1_048_576.0, Dimension::Size, true),
    unit("GB", 1e9, Dimension::Size, false),
    unit("GiB", 1_073_741_824.0, Dimension::Size, true),
    unit("B/s", 1.0, Dimension::Bandwidth, true),
    unit("kB/s", 1e3, Dimension::Bandwidth, false),
    unit("KiB/s", 1024.0, Dimension::Bandwidth, true),
    unit("MB/s", 1e6, Dimension::Bandwidth, false),
    unit("MiB/s", 1_048_576.0, Dimension::Bandwidth, true),
    unit("GB/s", 1e9, Dimension::Bandwidth, false),
    unit("GiB/s", 1_073_741_824.0, Dimension::Bandwidth, true),
];

/// Figures from here on leave the smallest unit: up to it `1,234/s` reads better than `1.23 k/s`.
const ENOUGH_PER_SECOND: f64 = 10_000.0;

/// Figures of one table are shown in one unit if the largest is at most this many times the smallest.
const ONE_UNIT_SPREAD: f64 = 1e3;

/// The unit requested with `--unit`.
#[derive(Debug, Clone, Copy)]
pub struct UnitChoice(&'static Unit);

/// A unit of `--unit` that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown unit '{0}' (known: {known})", known = known_units())]
pub struct UnknownUnit(pub String);

fn known_units() -> String {
    let symbols: Vec<_> = UNITS.iter().map(|unit| unit.symbol).collect();
    symbols.join(" ")
}

/// Units as people and other programs also write them.
fn normal(symbol: &str) -> &str {
    match symbol {
        "1/s" | "ops/s" | "op/s" | "iterations/s" | "items/s" => "/s",
        "us" | "μs" => "µs",
        "K/s" => "k/s",
        "bytes" | "byte" => "B",
        "bytes/s" => "B/s",
        "KB" => "kB",
        "seconds" => "s",
        other => other,
    }
}

/// How a unit without scaling is shown. Micro is `µ` everywhere.
fn unscaled(unit: &str) -> String {
    match unit.strip_prefix("us/") {
        _ if unit == "1" => String::new(),
        Some(work) => format!("µs/{work}"),
        None => unit.to_owned(),
    }
}

fn find(symbol: &str) -> Option<&'static Unit> {
    let symbol = normal(symbol.trim());
    UNITS.iter().find(|unit| unit.symbol == symbol)
}

/// What a metric of unit `symbol` measures; `None` for units without scaling.
pub fn dimension_of(symbol: &str) -> Option<Dimension> {
    find(symbol).map(|unit| unit.dimension)
}

/// A figure of unit `symbol` in the base unit of its dimension: 1/s, ns, B, B/s.
pub fn in_base_units(figure: f64, symbol: &str) -> Option<f64> {
    find(symbol).map(|unit| figure * unit.base_units)
}

impl FromStr for UnitChoice {
    type Err = UnknownUnit;

    fn from_str(text: &str) -> Result<UnitChoice, UnknownUnit> {
        find(text)
            .map(UnitChoice)
            .ok_or_else(|| UnknownUnit(text.to_owned()))
    }
}

impl fmt::Display for UnitChoice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.0.symbol)
    }
}

impl PartialEq for UnitChoice {
    fn eq(&self, other: &UnitChoice) -> bool {
        self.0.symbol == other.0.symbol
    }
}

impl UnitChoice {
    /// Whether figures of the unit `symbol` can be shown in this one.
    pub fn fits(self, symbol: &str) -> bool {
        dimension_of(symbol) == Some(self.0.dimension)
    }
}

/// How stored figures of one unit become shown ones.
#[derive(Debug, Clone, PartialEq)]
pub struct Scale {
    /// The unit shown, as it follows a figure; may be empty.
    pub symbol: String,
    /// Stored units in one shown unit.
    pub stored_per_shown: f64,
    /// Whether figures count things: their unit is no time, size or rate.
    pub is_count: bool,
}

impl Scale {
    /// The scale on which all of `figures`, stored in `stored_unit`, are short: the largest unit of
    /// which the smallest figure still is a whole one. A `choice` that fits wins.
    pub fn fitting(stored_unit: &str, figures: &[f64], choice: Option<UnitChoice>) -> Scale {
        let Some(stored) = find(stored_unit) else {
            return Scale {
                symbol: unscaled(stored_unit),
                stored_per_shown: 1.0,
                is_count: !stored_unit.contains('/'),
            };
        };
        let chosen = choice
            .filter(|choice| choice.fits(stored_unit))
            .map(|choice| choice.0);
        let shown = chosen.unwrap_or_else(|| largest_below(stored, figures));
        Scale {
            symbol: shown.symbol.to_owned(),
            stored_per_shown: shown.base_units / stored.base_units,
            is_count: false,
        }
    }

    /// The scale on which the middle one of `figures` by size is short: one outlier does not decide
    /// how all others are read.
    pub fn typical(
        stored_unit: &str,
        figures: impl IntoIterator<Item = f64>,
        choice: Option<UnitChoice>,
    ) -> Scale {
        let mut sizes: Vec<f64> = figures.into_iter().map(f64::abs).collect();
        sizes.sort_by(f64::total_cmp);
        let middle = sizes.get(sizes.len() / 2).copied();
        Scale::fitting(stored_unit, middle.as_slice(), choice)
    }

    /// The typical scale of `figures` that are of similar size, so that they can be read in one
    /// unit; `None` where they are not, or where there are none but zeros.
    pub fn common(
        stored_unit: &str,
        figures: impl IntoIterator<Item = f64>,
        choice: Option<UnitChoice>,
    ) -> Option<Scale> {
        let sizes = figures.into_iter().map(f64::abs);
        let sizes: Vec<f64> = sizes.filter(|size| *size > 0.0).collect();
        let smallest = sizes.iter().copied().reduce(f64::min)?;
        let largest = sizes.iter().copied().reduce(f64::max)?;
        (largest / smallest <= ONE_UNIT_SPREAD).then(|| Scale::typical(stored_unit, sizes, choice))
    }

    /// A stored figure in the shown unit.
    pub fn shown(&self, stored: f64) -> f64 {
        stored / self.stored_per_shown
    }
}

fn largest_below(stored: &Unit, figures: &[f64]) -> &'static Unit {
    let smallest = figures
        .iter()
        .map(|figure| figure.abs() * stored.base_units)
        .filter(|size| size.is_finite() && *size > 0.0)
        .fold(f64::INFINITY, f64::min);
    let smallest = if smallest.is_finite() { smallest } else { 0.0 };
    let mut of_kind = UNITS
        .iter()
        .filter(|unit| unit.usual && unit.dimension == stored.dimension);
    let fits = |unit: &&Unit| {
        unit.base_units <= smallest && (unit.symbol != "k/s" || smallest >= ENOUGH_PER_SECOND)
    };
    // The first unit of a kind is the one for figures smaller than every unit.
    let first = of_kind.next().unwrap_or(&UNITS[0]);
    of_kind.rfind(fits).unwrap_or(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbol(unit: &str, figures: &[f64]) -> String {
        Scale::fitting(unit, figures, None).symbol
    }

    #[test]
    fn the_unit_follows_the_smallest_figure() {
        assert_eq!(symbol("1/s", &[1_234.0]), "/s");
        assert_eq!(symbol("1/s", &[12_345.0, 2e6]), "k/s");
        assert_eq!(symbol("1/s", &[1.2e6, 3e9]), "M/s");
        assert_eq!(symbol("ns", &[0.4]), "ns");
        assert_eq!(symbol("ns", &[1_500.0]), "µs");
        assert_eq!(symbol("s", &[0.0015]), "ms");
        assert_eq!(symbol("B", &[3.0 * 1024.0 * 1024.0]), "MiB");
        assert_eq!(symbol("B/s", &[2e9]), "GiB/s");
        assert_eq!(symbol("ns", &[]), "ns");
        assert_eq!(symbol("ns", &[0.0, f64::NAN]), "ns");
    }

    #[test]
    fn an_outlier_does_not_decide_the_typical_unit() {
        let scale = |figures: &[f64]| Scale::typical("ns", figures.iter().copied(), None);
        assert_eq!(scale(&[2e3, -3e3, 4e9]).symbol, "µs");
        assert_eq!(scale(&[2e3, 3e6]).symbol, "ms");
        assert_eq!(scale(&[]).symbol, "ns");
    }

    #[test]
    fn figures_of_similar_size_have_a_common_unit() {
        let scale = |figures: &[f64]| Scale::common("ns", figures.iter().copied(), None);
        let symbol = |figures: &[f64]| scale(figures).map(|scale| scale.symbol);
        assert_eq!(symbol(&[2e3, 2e6, 0.0]).as_deref(), Some("ms"));
        assert_eq!(symbol(&[2e3, -2e4, 1e6]).as_deref(), Some("µs"));
        assert_eq!(symbol(&[2e3, 2.1e6]), None);
        assert_eq!(symbol(&[2e3, f64::INFINITY]), None);
        assert_eq!(symbol(&[0.0, f64::NAN]), None);
    }

    #[test]
    fn shown_figures_are_converted_from_the_stored_unit() {
        let scale = Scale::fitting("ms", &[0.25], None);
        assert_eq!((scale.symbol.as_str(), scale.shown(0.25)), ("µs", 250.0));
    }

    #[test]
    fn a_chosen_unit_wins_where_it_fits() {
        let choice: UnitChoice = "us".parse().unwrap();
        assert_eq!(Scale::fitting("ns", &[3e9], Some(choice)).symbol, "µs");
        assert_eq!(Scale::fitting("1/s", &[3e9], Some(choice)).symbol, "G/s");
        let decimal: UnitChoice = "MB".parse().unwrap();
        assert_eq!(
            Scale::fitting("B", &[3e9], Some(decimal)).shown(3e9),
            3000.0
        );
    }

    #[test]
    fn an_unknown_choice_names_the_known_ones() {
        let message = "parsecs".parse::<UnitChoice>().unwrap_err().to_string();
        assert!(
            message.starts_with("unknown unit 'parsecs' (known: /s k/s"),
            "{message}"
        );
    }

    #[test]
    fn unknown_units_of_metrics_are_shown_as_they_are() {
        let scale = Scale::fitting("allocations", &[1e9], None);
        assert_eq!(
            (scale.symbol.as_str(), scale.shown(5.0)),
            ("allocations", 5.0)
        );
        assert_eq!(Scale::fitting("1", &[5.0], None).symbol, "");
        assert_eq!(Scale::fitting("us/op", &[5.0], None).symbol, "µs/op");
    }
}
