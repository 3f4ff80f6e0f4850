//! The table of ab: within which time which percentage of the requests was served.

use super::{Quantile, Values};

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
