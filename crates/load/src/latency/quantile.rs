//! What is read out of a distribution: quantiles, the table of percentages of ab, and the bins for pictures and other
//! programs.

use super::Values;

/// A time that a share of the values does not exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quantile {
    /// In nanoseconds.
    pub ns: u64,
    /// The true value may be longer: at this place there are requests without an end, or values
    /// beyond the range.
    pub is_lower_bound: bool,
}

/// The rows that ab prints.
pub const AB_PERCENTS: [u32; 9] = [50, 66, 75, 80, 90, 95, 98, 99, 100];

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Served {
    /// Of all requests.
    pub percent: u32,
    /// They took at most this long.
    pub within: Quantile,
}

/// The table for some percentages in ascending order; empty without values. Unlike ab's own rows,
/// which lie one place too high, these are the quantiles of [`Values::quantile`].
pub fn percentage_served(times: &Values, percents: &[u32]) -> Vec<Served> {
    let ppm: Vec<u32> = percents.iter().map(|percent| percent * 10_000).collect();
    percents
        .iter()
        .zip(times.quantiles(&ppm))
        .filter_map(|(percent, within)| {
            Some(Served {
                percent: *percent,
                within: within?,
            })
        })
        .collect()
}

/// The table for every percentage from 0, the fastest request, to 100, the slowest.
pub fn every_percent(times: &Values) -> Vec<Served> {
    let percents: Vec<u32> = (0..=100).collect();
    percentage_served(times, &percents)
}

/// Values that the histogram does not tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bin {
    /// The shortest time of the bin, in nanoseconds.
    pub from_ns: u64,
    /// The longest time of the bin, in nanoseconds.
    pub to_ns: u64,
    /// Values in it; never 0.
    pub count: u64,
}

impl Values {
    /// The bins that hold values, in ascending order. Values beyond [`super::HIGHEST_NS`] have no bin.
    pub fn bins(&self) -> impl Iterator<Item = Bin> + '_ {
        self.recorded().map(|(to_ns, count)| Bin {
            from_ns: Values::least_of_bin(to_ns),
            to_ns,
            count,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::{Distribution, HIGHEST_NS, Service};

    #[test]
    fn every_value_but_those_beyond_the_range_lies_in_its_bin() {
        let mut times = Distribution::<Service>::new();
        for ns in [5, 5, 1_000_000, HIGHEST_NS + 1] {
            times.record(ns);
        }
        let bins: Vec<Bin> = times.bins().collect();
        assert_eq!(bins.iter().map(|bin| bin.count).collect::<Vec<_>>(), [2, 1]);
        assert_eq!((bins[0].from_ns, bins[0].to_ns), (5, 5));
        // Three digits: a bin near a million nanoseconds is narrower than a thousandth of it.
        assert!((bins[1].from_ns..=bins[1].to_ns).contains(&1_000_000));
        assert!(bins[1].to_ns - bins[1].from_ns < 1_000);
    }
}
