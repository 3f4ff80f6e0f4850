//! What a distribution holds, bin by bin, for pictures and other programs.

use super::Values;

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
