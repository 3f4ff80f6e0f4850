//! Chooses the units in which numbers are shown, based on the units in which the numbers are stored
//! and the unit that the user requested.
//!
//! A metric's unit is free text (`1/s`, `ns`, `B`). Figures in known units are scaled to stay
//! short. Other figures are shown unchanged. `figure.rs` decides the number of digits.

use std::fmt;
use std::str::FromStr;

/// The quantity that a unit measures. A figure can only be shown in units of the same dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnitDimension {
    /// Things per second.
    Rate,
    /// Time.
    Time,
    /// Sizes.
    Size,
    /// Sizes per second.
    Bandwidth,
}

/// A unit with its symbol and its size in base units: 1/s, ns, B, B/s.
#[derive(Debug, PartialEq)]
struct ShownUnit {
    symbol: &'static str,
    base_units: f64,
    dimension: UnitDimension,
    /// Whether figures are scaled to this unit unless another unit is requested.
    is_default: bool,
}

const fn new_unit(
    symbol: &'static str,
    base_units: f64,
    dimension: UnitDimension,
    is_default: bool,
) -> ShownUnit {
    ShownUnit { symbol, base_units, dimension, is_default }
}

/// All known units, ascending within each dimension. Binary prefixes follow IEC 80000-13.
const KNOWN_UNITS: &[ShownUnit] = &[
    new_unit("/s", 1.0, UnitDimension::Rate, true),
    new_unit("k/s", 1e3, UnitDimension::Rate, true),
    new_unit("M/s", 1e6, UnitDimension::Rate, true),
    new_unit("G/s", 1e9, UnitDimension::Rate, true),
    new_unit("ns", 1.0, UnitDimension::Time, true),
    new_unit("µs", 1e3, UnitDimension::Time, true),
    new_unit("ms", 1e6, UnitDimension::Time, true),
    new_unit("s", 1e9, UnitDimension::Time, true),
    new_unit("B", 1.0, UnitDimension::Size, true),
    new_unit("kB", 1e3, UnitDimension::Size, false),
    new_unit("KiB", 1024.0, UnitDimension::Size, true),
    new_unit("MB", 1e6, UnitDimension::Size, false),
    new_unit("MiB", 1_048_576.0, UnitDimension::Size, true),
    new_unit("GB", 1e9, UnitDimension::Size, false),
    new_unit("GiB", 1_073_741_824.0, UnitDimension::Size, true),
    new_unit("B/s", 1.0, UnitDimension::Bandwidth, true),
    new_unit("kB/s", 1e3, UnitDimension::Bandwidth, false),
    new_unit("KiB/s", 1024.0, UnitDimension::Bandwidth, true),
    new_unit("MB/s", 1e6, UnitDimension::Bandwidth, false),
    new_unit("MiB/s", 1_048_576.0, UnitDimension::Bandwidth, true),
    new_unit("GB/s", 1e9, UnitDimension::Bandwidth, false),
    new_unit("GiB/s", 1_073_741_824.0, UnitDimension::Bandwidth, true),
];

/// Minimum rate that is shown in k/s. Smaller rates read better in full: `1,234/s` instead of `1.23
/// k/s`.
const MIN_SCALED_RATE: f64 = 10_000.0;

/// Maximum ratio of a table's largest figure to its smallest, if all figures are in one unit.
const MAX_COMMON_UNIT_RATIO: f64 = 1e3;

/// The unit requested with `--unit`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UnitChoice(&'static ShownUnit);

/// An unknown unit in `--unit`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown unit '{0}': supported units are {known}", known = known_units())]
pub struct UnknownUnit(pub String);

fn known_units() -> String {
    KNOWN_UNITS.iter().map(|unit| unit.symbol).collect::<Vec<_>>().join(" ")
}

/// Normalizes the spellings that people and other programs use.
fn normalize_symbol(symbol: &str) -> &str {
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

/// Returns the symbol of a unit whose figures are not scaled. Micro is always written `µ`.
fn unscaled_symbol(unit: &str) -> String {
    match unit.strip_prefix("us/") {
        _ if unit == "1" => String::new(),
        Some(work) => format!("µs/{work}"),
        None => unit.to_owned(),
    }
}

fn find_unit(symbol: &str) -> Option<&'static ShownUnit> {
    let symbol = normalize_symbol(symbol.trim());
    KNOWN_UNITS.iter().find(|unit| unit.symbol == symbol)
}

/// Returns the dimension of the unit `symbol`, or `None` for units without scaling.
pub fn dimension_of(symbol: &str) -> Option<UnitDimension> {
    find_unit(symbol).map(|unit| unit.dimension)
}

/// Converts a figure with unit `symbol` to the base unit of its dimension: 1/s, ns, B, B/s.
pub fn in_base_units(figure: f64, symbol: &str) -> Option<f64> {
    find_unit(symbol).map(|unit| figure * unit.base_units)
}

impl FromStr for UnitChoice {
    type Err = UnknownUnit;

    fn from_str(text: &str) -> Result<UnitChoice, UnknownUnit> {
        find_unit(text).map(UnitChoice).ok_or_else(|| UnknownUnit(text.to_owned()))
    }
}

impl fmt::Display for UnitChoice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.0.symbol)
    }
}

impl UnitChoice {
    /// Whether figures with the unit `symbol` can be shown in the requested unit.
    pub fn fits(self, symbol: &str) -> bool {
        dimension_of(symbol) == Some(self.0.dimension)
    }
}

/// The conversion from stored figures to shown figures.
#[derive(Debug, Clone, PartialEq)]
pub struct FigureScale {
    /// The unit shown after a figure; may be empty.
    pub symbol: String,
    /// The number of stored units in a shown unit.
    pub stored_per_shown: f64,
    /// Whether figures are counts: their unit is neither a time, a size nor a rate.
    pub is_count: bool,
}

impl FigureScale {
    /// Returns the scale that keeps all `figures` short: the largest unit in which the smallest
    /// figure is at least 1. A requested unit, `choice`, takes precedence if it fits. The figures
    /// are in `stored_unit`.
    pub fn fit_scale(
        stored_unit: &str,
        figures: &[f64],
        choice: Option<UnitChoice>,
    ) -> FigureScale {
        let Some(stored) = find_unit(stored_unit) else {
            return FigureScale {
                symbol: unscaled_symbol(stored_unit),
                stored_per_shown: 1.0,
                is_count: !stored_unit.contains('/'),
            };
        };
        let chosen = choice.filter(|choice| choice.fits(stored_unit)).map(|choice| choice.0);
        let shown = chosen.unwrap_or_else(|| largest_below(stored, figures));
        FigureScale {
            symbol: shown.symbol.to_owned(),
            stored_per_shown: shown.base_units / stored.base_units,
            is_count: false,
        }
    }

    /// Returns the scale that suits the median of `figures`, so that no outlier decides the scale.
    pub fn typical_scale(
        stored_unit: &str,
        figures: impl IntoIterator<Item = f64>,
        choice: Option<UnitChoice>,
    ) -> FigureScale {
        let mut sizes: Vec<f64> = figures.into_iter().map(f64::abs).collect();
        sizes.sort_by(f64::total_cmp);
        let median = sizes.get(sizes.len() / 2).copied();
        FigureScale::fit_scale(stored_unit, median.as_slice(), choice)
    }

    /// Returns the typical scale of `figures` if they can share a unit. Returns `None` if their
    /// sizes differ too much or all are zero.
    pub fn common_scale(
        stored_unit: &str,
        figures: impl IntoIterator<Item = f64>,
        choice: Option<UnitChoice>,
    ) -> Option<FigureScale> {
        let sizes = figures.into_iter().map(f64::abs);
        let sizes: Vec<f64> = sizes.filter(|size| *size > 0.0).collect();
        let smallest = sizes.iter().copied().reduce(f64::min)?;
        let largest = sizes.iter().copied().reduce(f64::max)?;
        (largest / smallest <= MAX_COMMON_UNIT_RATIO)
            .then(|| FigureScale::typical_scale(stored_unit, sizes, choice))
    }

    /// Converts a stored figure to the shown unit.
    pub fn to_shown(&self, stored: f64) -> f64 {
        stored / self.stored_per_shown
    }
}

fn largest_below(stored: &ShownUnit, figures: &[f64]) -> &'static ShownUnit {
    let sizes = figures.iter().map(|figure| figure.abs() * stored.base_units);
    let known = sizes.filter(|size| size.is_finite() && *size > 0.0);
    let smallest = known.reduce(f64::min).unwrap_or(0.0);
    let mut default_units =
        KNOWN_UNITS.iter().filter(|unit| unit.is_default && unit.dimension == stored.dimension);
    let fits = |unit: &&ShownUnit| {
        unit.base_units <= smallest && (unit.symbol != "k/s" || smallest >= MIN_SCALED_RATE)
    };
    // Figures that are smaller than every unit are shown in the smallest unit of the dimension.
    let first = default_units.next().unwrap_or(&KNOWN_UNITS[0]);
    default_units.rfind(fits).unwrap_or(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbol(unit: &str, figures: &[f64]) -> String {
        FigureScale::fit_scale(unit, figures, None).symbol
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
        let scale =
            |figures: &[f64]| FigureScale::typical_scale("ns", figures.iter().copied(), None);
        assert_eq!(scale(&[2e3, -3e3, 4e9]).symbol, "µs");
        assert_eq!(scale(&[2e3, 3e6]).symbol, "ms");
        assert_eq!(scale(&[]).symbol, "ns");
    }

    #[test]
    fn figures_of_similar_size_have_a_common_unit() {
        let scale =
            |figures: &[f64]| FigureScale::common_scale("ns", figures.iter().copied(), None);
        let symbol = |figures: &[f64]| scale(figures).map(|scale| scale.symbol);
        assert_eq!(symbol(&[2e3, 2e6, 0.0]).as_deref(), Some("ms"));
        assert_eq!(symbol(&[2e3, -2e4, 1e6]).as_deref(), Some("µs"));
        assert_eq!(symbol(&[2e3, 2.1e6]), None);
        assert_eq!(symbol(&[2e3, f64::INFINITY]), None);
        assert_eq!(symbol(&[0.0, f64::NAN]), None);
    }

    #[test]
    fn shown_figures_are_converted_from_the_stored_unit() {
        let scale = FigureScale::fit_scale("ms", &[0.25], None);
        assert_eq!((scale.symbol.as_str(), scale.to_shown(0.25)), ("µs", 250.0));
    }

    #[test]
    fn a_chosen_unit_wins_where_it_fits() {
        let choice: UnitChoice = "us".parse().unwrap();
        assert_eq!(FigureScale::fit_scale("ns", &[3e9], Some(choice)).symbol, "µs");
        assert_eq!(FigureScale::fit_scale("1/s", &[3e9], Some(choice)).symbol, "G/s");
        let decimal: UnitChoice = "MB".parse().unwrap();
        assert_eq!(FigureScale::fit_scale("B", &[3e9], Some(decimal)).to_shown(3e9), 3000.0);
    }

    #[test]
    fn an_unknown_unit_is_refused_with_the_supported_ones() {
        let message = "parsecs".parse::<UnitChoice>().unwrap_err().to_string();
        assert!(
            message.starts_with("unknown unit 'parsecs': supported units are /s k/s"),
            "{message}"
        );
    }

    #[test]
    fn unknown_units_of_metrics_are_shown_as_they_are() {
        let scale = FigureScale::fit_scale("allocations", &[1e9], None);
        assert_eq!((scale.symbol.as_str(), scale.to_shown(5.0)), ("allocations", 5.0));
        assert_eq!(FigureScale::fit_scale("1", &[5.0], None).symbol, "");
        assert_eq!(FigureScale::fit_scale("us/op", &[5.0], None).symbol, "µs/op");
    }
}
