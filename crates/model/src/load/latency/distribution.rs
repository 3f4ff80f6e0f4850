//! Keeps the recorded times of one quantity, with their exact count, sum, minimum and maximum, and
//! computes statistics of them: quantiles, mean, standard deviation, the percentage table of
//! ApacheBench (`ab`), and bins. Start at [`TimeDistribution`].

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer as Payload, Serializer as _, V2DeflateSerializer};
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::sync::OnceLock;

/// Upper limit of the histogram: one hour.
pub const MAX_RECORDABLE_NS: u64 = 3_600_000_000_000;

/// Significant digits of a recorded value: a quantile is off by at most 0.1%.
const SIGNIFICANT_DIGITS: u8 = 3;

/// Maximum number of recorded times that are kept individually. If there are more, a histogram is
/// used. A histogram takes 270 kB. Creating, merging, reading or clearing it costs the same for a
/// handful of values as for millions.
const MAX_INDIVIDUAL: usize = 2048;

/// A quantile is marked as a lower bound if unfinished requests could shift it by more than this
/// factor.
const LOWER_BOUND_TOLERANCE: f64 = 1.01;

/// Recorded times of one quantity, in nanoseconds. A small number of values takes up to 16 kB, and
/// more values take 270 kB.
#[derive(Debug, Clone)]
pub struct TimeDistribution {
    /// The individual values within range, until there are too many. Then all move to the
    /// histogram, which is empty before that.
    early: Vec<u64>,
    /// Created on demand, then kept.
    histogram: Option<Histogram<u64>>,
    moments: ExactSums,
    beyond: u64,
    lower_bounds: u64,
    min_lower_bound_ns: u64,
}

/// Sums of integers, which do not depend on the order of addition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ExactSums {
    min_ns: u64,
    max_ns: u64,
    sum: u128,
    sum_of_squares: u128,
}

impl ExactSums {
    const EMPTY: ExactSums = ExactSums { min_ns: u64::MAX, max_ns: 0, sum: 0, sum_of_squares: 0 };
}

impl Default for TimeDistribution {
    fn default() -> TimeDistribution {
        TimeDistribution {
            early: Vec::new(),
            histogram: None,
            moments: ExactSums::EMPTY,
            beyond: 0,
            lower_bounds: 0,
            min_lower_bound_ns: u64::MAX,
        }
    }
}

/// Creates an empty histogram.
fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, MAX_RECORDABLE_NS, SIGNIFICANT_DIGITS)
        .unwrap_or_else(|_| unreachable!("1 ns to 1 h with 3 digits is a legal histogram"))
}

/// A histogram that is always empty, used to look up bin boundaries.
fn bin_reference() -> &'static Histogram<u64> {
    static RULER: OnceLock<Histogram<u64>> = OnceLock::new();
    RULER.get_or_init(new_histogram)
}

impl TimeDistribution {
    /// Adds a time.
    pub fn record(&mut self, ns: u64) {
        self.record_n(ns, 1);
    }

    /// Adds the time of an unfinished request: a lower bound of the true time.
    pub fn record_lower_bound(&mut self, ns: u64) {
        self.lower_bounds += 1;
        self.min_lower_bound_ns = self.min_lower_bound_ns.min(ns);
        self.record_n(ns, 1);
    }

    /// Adds `count` equal times.
    pub(super) fn record_n(&mut self, ns: u64, count: u64) {
        let moments = &mut self.moments;
        moments.min_ns = moments.min_ns.min(ns);
        moments.max_ns = moments.max_ns.max(ns);
        let sum = u128::from(ns) * u128::from(count);
        moments.sum = moments.sum.saturating_add(sum);
        let squares = sum.saturating_mul(u128::from(ns));
        moments.sum_of_squares = moments.sum_of_squares.saturating_add(squares);
        if ns <= MAX_RECORDABLE_NS { self.store_times(ns, count) } else { self.beyond += count }
    }

    fn store_times(&mut self, ns: u64, count: u64) {
        if count == 1 && self.early.len() < MAX_INDIVIDUAL && self.recorded_in_histogram() == 0 {
            self.early.push(ns);
            return;
        }
        self.move_to_histogram()
            .record_n(ns, count)
            .unwrap_or_else(|_| unreachable!("the histogram covers all values up to 1 h"));
    }

    fn recorded_in_histogram(&self) -> u64 {
        self.histogram.as_ref().map_or(0, Histogram::len)
    }

    fn move_to_histogram(&mut self) -> &mut Histogram<u64> {
        let histogram = self.histogram.get_or_insert_with(new_histogram);
        for ns in self.early.drain(..) {
            histogram
                .record(ns)
                .unwrap_or_else(|_| unreachable!("the histogram covers all values up to 1 h"));
        }
        histogram
    }

    /// Returns all values within range as one histogram.
    pub(super) fn to_histogram(&self) -> Cow<'_, Histogram<u64>> {
        if self.early.is_empty() {
            Cow::Borrowed(self.histogram.as_ref().unwrap_or(bin_reference()))
        } else {
            let mut all = self.clone();
            all.move_to_histogram();
            Cow::Owned(all.histogram.unwrap_or_else(new_histogram))
        }
    }

    /// Iterates over the non-empty histogram bins in ascending order. Yields the largest value of
    /// each bin and the number of values in it.
    fn recorded_bins(&self) -> Box<dyn Iterator<Item = (u64, u64)> + '_> {
        if let Some(histogram) = self.histogram.as_ref().filter(|all| !all.is_empty()) {
            let bins = histogram.iter_recorded();
            return Box::new(bins.map(|bin| (bin.value_iterated_to(), bin.count_at_value())));
        }
        let greatest = |ns: &u64| bin_reference().highest_equivalent(*ns);
        let mut early: Vec<u64> = self.early.iter().map(greatest).collect();
        early.sort_unstable();
        let bins = early.chunk_by(|a, b| a == b);
        let bins: Vec<(u64, u64)> = bins.map(|bin| (bin[0], bin.len() as u64)).collect();
        Box::new(bins.into_iter())
    }

    /// Merges the values of another thread or process. Order and grouping do not matter.
    pub fn merge(&mut self, other: &TimeDistribution) {
        if other.count() == 0 {
            return;
        }
        match other.histogram.as_ref().filter(|all| !all.is_empty()) {
            None => other.early.iter().for_each(|ns| self.store_times(*ns, 1)),
            Some(histogram) => self
                .move_to_histogram()
                .add(histogram)
                .unwrap_or_else(|_| unreachable!("all histograms have the same bounds")),
        }
        let (mine, theirs) = (&mut self.moments, &other.moments);
        mine.min_ns = mine.min_ns.min(theirs.min_ns);
        mine.max_ns = mine.max_ns.max(theirs.max_ns);
        mine.sum = mine.sum.saturating_add(theirs.sum);
        mine.sum_of_squares = mine.sum_of_squares.saturating_add(theirs.sum_of_squares);
        self.beyond += other.beyond;
        self.lower_bounds += other.lower_bounds;
        self.min_lower_bound_ns = self.min_lower_bound_ns.min(other.min_lower_bound_ns);
    }

    /// Clears the values but keeps the allocated memory for the next snapshot.
    pub fn clear(&mut self) {
        if self.count() == 0 {
            return;
        }
        self.early.clear();
        if let Some(histogram) = self.histogram.as_mut().filter(|all| !all.is_empty()) {
            histogram.reset();
        }
        self.moments = ExactSums::EMPTY;
        self.beyond = 0;
        self.lower_bounds = 0;
        self.min_lower_bound_ns = u64::MAX;
    }

    /// Number of values, including values beyond the range.
    pub fn count(&self) -> u64 {
        self.recorded_in_histogram() + self.early.len() as u64 + self.beyond
    }

    /// The quantile at `ppm` parts per million: 990 000 is the 99th percentile. The quantile is the
    /// value of rank ceil(ppm / 1 000 000 * count). It is at most 0.1% too large.
    pub fn quantile(&self, ppm: u32) -> Option<TimeQuantile> {
        self.quantiles(&[ppm]).into_iter().next().flatten()
    }

    /// Computes several quantiles in one pass; `ppm` must be ascending.
    pub fn quantiles(&self, ppm: &[u32]) -> Vec<Option<TimeQuantile>> {
        let rank_of = |ppm: &u32| (self.count() > 0).then(|| quantile_rank(*ppm, self.count()));
        let ranks: Vec<Option<u64>> = ppm.iter().map(rank_of).collect();
        let values = self.values_at(ranks.iter().flatten().copied());
        // In the worst case, all unfinished requests would have taken longer than all finished
        // requests. The quantile is then higher by as many ranks as there are unfinished requests.
        let moved = |rank: &u64| (rank + self.lower_bounds).min(self.count());
        let moved = match self.lower_bounds {
            0 => values.clone(),
            _ => self.values_at(ranks.iter().flatten().map(moved)),
        };
        let mut known = values.into_iter().zip(moved);
        ranks
            .into_iter()
            .map(|rank| {
                let (rank, (value_ns, moved_ns)) = rank.zip(known.next())?;
                Some(self.quantile_at(rank, value_ns, moved_ns))
            })
            .collect()
    }

    /// Returns the values at `ranks`, which must be ascending; `None` for values beyond the range.
    fn values_at(&self, ranks: impl Iterator<Item = u64>) -> Vec<Option<u64>> {
        let mut bins = self.recorded_bins();
        let (mut passed, mut value_ns) = (0, 0);
        ranks
            .map(|rank| {
                while passed < rank {
                    let Some((max_ns, count)) = bins.next() else { break };
                    passed += count;
                    value_ns = max_ns;
                }
                (passed >= rank).then_some(value_ns)
            })
            .collect()
    }

    fn quantile_at(&self, rank: u64, value_ns: Option<u64>, moved_ns: Option<u64>) -> TimeQuantile {
        let ExactSums { min_ns, max_ns, .. } = self.moments;
        let is_last = rank == self.count();
        let ns = match value_ns {
            _ if is_last => max_ns,
            // The end of the bin may lie outside the recorded range.
            Some(ns) => ns.clamp(min_ns, max_ns),
            None => MAX_RECORDABLE_NS,
        };
        let has_no_place = value_ns.is_none() && !is_last;
        // Unfinished requests with times above this quantile do not change it. A few unfinished
        // requests with times below it hardly change it if many values are similar.
        let is_beyond = rank + self.lower_bounds > self.count();
        let moves = is_beyond
            || moved_ns.is_none_or(|moved| moved as f64 > ns as f64 * LOWER_BOUND_TOLERANCE);
        TimeQuantile {
            ns,
            is_lower_bound: has_no_place || (ns >= self.min_lower_bound_ns && moves),
        }
    }

    /// Number of values above [`MAX_RECORDABLE_NS`]. All statistics include these values. A
    /// quantile among them is reported as at least that limit, unless it is the maximum.
    pub fn count_beyond_range(&self) -> u64 {
        self.beyond
    }

    /// Number of values that are lower bounds, from unfinished requests.
    pub fn lower_bounds(&self) -> u64 {
        self.lower_bounds
    }

    /// The exact minimum.
    pub fn min_ns(&self) -> Option<u64> {
        (self.count() > 0).then_some(self.moments.min_ns)
    }

    /// The exact maximum.
    pub fn max_ns(&self) -> Option<u64> {
        (self.count() > 0).then_some(self.moments.max_ns)
    }

    /// The exact sum of all times in nanoseconds.
    pub fn sum_ns(&self) -> u128 {
        self.moments.sum
    }

    /// The mean in nanoseconds, from the exact sum.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.moments.sum as f64 / self.count() as f64)
    }

    /// Sample standard deviation (n - 1) in nanoseconds; `None` for fewer than two values.
    pub fn standard_deviation_ns(&self) -> Option<f64> {
        if self.count() < 2 {
            return None;
        }
        let count = self.count() as f64;
        let ExactSums { sum, sum_of_squares: squares, .. } = self.moments;
        // In floating point, n * squares - sum^2 loses precision by cancellation. Use integers
        // unless they overflow; a billion values of ten seconds still fit.
        let exact = squares.checked_mul(u128::from(self.count())).zip(sum.checked_mul(sum));
        let spread = match exact {
            Some((left, right)) => left.saturating_sub(right) as f64,
            None => (squares as f64 * count - (sum as f64).powi(2)).max(0.0),
        };
        Some((spread / count / (count - 1.0)).sqrt())
    }

    /// Iterates over the non-empty bins in ascending order. Values beyond [`MAX_RECORDABLE_NS`] have
    /// no bin.
    pub fn bins(&self) -> impl Iterator<Item = HistogramBin> + '_ {
        self.recorded_bins().map(|(to_ns, count)| HistogramBin {
            from_ns: bin_reference().lowest_equivalent(to_ns),
            to_ns,
            count,
        })
    }
}

/// All values, in parts per million.
pub const ALL_PPM: u32 = 1_000_000;

/// Returns the rank, from 1, of the quantile at `ppm` parts per million among `count` values.
pub fn quantile_rank(ppm: u32, count: u64) -> u64 {
    let product = u128::from(ppm.min(ALL_PPM)) * u128::from(count);
    (product.div_ceil(u128::from(ALL_PPM)) as u64).max(1)
}

/// Whether the quantile at `ppm` parts per million of `count` requests is that of a failed request,
/// which has no time and counts as slower than any other.
pub fn is_reached_by_failures(ppm: u32, failed: u64, count: u64) -> bool {
    failed > 0 && quantile_rank(ppm, count) > count.saturating_sub(failed)
}

/// A time that a given fraction of the values does not exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeQuantile {
    /// The time in nanoseconds.
    pub ns: u64,
    /// Whether the true value may be higher because of unfinished requests or values beyond the
    /// range.
    pub is_lower_bound: bool,
}

/// Two sets are equal if they have the same sums, minimum and maximum, and the same values at the
/// resolution of the histogram.
impl PartialEq for TimeDistribution {
    fn eq(&self, other: &TimeDistribution) -> bool {
        self.moments == other.moments
            && self.beyond == other.beyond
            && self.lower_bounds == other.lower_bounds
            && self.min_lower_bound_ns == other.min_lower_bound_ns
            && self.to_histogram() == other.to_histogram()
    }
}

/// The percentages that ab prints.
pub const AB_PERCENTS: [u32; 9] = [50, 66, 75, 80, 90, 95, 98, 99, 100];

/// One row of the percentage table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PercentRow {
    /// Percentage of all requests.
    pub percent: u32,
    /// Time within which this percentage of the requests finished.
    pub within: TimeQuantile,
}

/// Returns the table for every percentage from 0 (fastest request) to 100 (slowest request); empty
/// without values. The rows are the quantiles of [`TimeDistribution::quantile`]. The rows that `ab`
/// prints are one rank too high.
pub fn percent_rows(times: &TimeDistribution) -> Vec<PercentRow> {
    let ppm: Vec<u32> = (0..=100).map(|percent| percent * 10_000).collect();
    let rows = (0..).zip(times.quantiles(&ppm));
    rows.filter_map(|(percent, within)| Some(PercentRow { percent, within: within? })).collect()
}

/// A bin: a range of values that the histogram cannot distinguish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistogramBin {
    /// The smallest time of the bin, in nanoseconds.
    pub from_ns: u64,
    /// The largest time of the bin, in nanoseconds.
    pub to_ns: u64,
    /// Number of values; never 0.
    pub count: u64,
}

/// The stored form of times. The sums are text, because they exceed the range of numbers in most
/// formats.
#[derive(Serialize, Deserialize)]
struct SerializedTimes {
    histogram: String,
    #[serde(alias = "least_ns")]
    min_ns: u64,
    #[serde(alias = "greatest_ns")]
    max_ns: u64,
    sum_ns: String,
    #[serde(alias = "squares")]
    sum_of_squares: String,
    beyond: u64,
    lower_bounds: u64,
    #[serde(alias = "least_lower_bound_ns")]
    min_lower_bound_ns: u64,
}

impl Serialize for TimeDistribution {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut payload = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&self.to_histogram(), &mut payload)
            .map_err(|error| S::Error::custom(error.to_string()))?;
        let record = SerializedTimes {
            histogram: STANDARD.encode(payload),
            min_ns: self.moments.min_ns,
            max_ns: self.moments.max_ns,
            sum_ns: self.moments.sum.to_string(),
            sum_of_squares: self.moments.sum_of_squares.to_string(),
            beyond: self.beyond,
            lower_bounds: self.lower_bounds,
            min_lower_bound_ns: self.min_lower_bound_ns,
        };
        record.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for TimeDistribution {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let record = SerializedTimes::deserialize(deserializer)?;
        let payload = STANDARD.decode(&record.histogram).map_err(D::Error::custom)?;
        let stored: Histogram<u64> =
            Payload::new().deserialize(&mut payload.as_slice()).map_err(D::Error::custom)?;
        let whole = |text: &str| text.parse().map_err(D::Error::custom);
        let moments = ExactSums {
            min_ns: record.min_ns,
            max_ns: record.max_ns,
            sum: whole(&record.sum_ns)?,
            sum_of_squares: whole(&record.sum_of_squares)?,
        };
        let mut histogram = new_histogram();
        if stored.sigfig() != SIGNIFICANT_DIGITS || histogram.add(&stored).is_err() {
            return Err(D::Error::custom("the histogram has unexpected bounds"));
        }
        Ok(TimeDistribution {
            early: Vec::new(),
            histogram: Some(histogram),
            moments,
            beyond: record.beyond,
            lower_bounds: record.lower_bounds,
            min_lower_bound_ns: record.min_lower_bound_ns,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_within_the_range_lies_in_its_bin() {
        let mut times = TimeDistribution::default();
        for ns in [5, 5, 1_000_000, MAX_RECORDABLE_NS + 1] {
            times.record(ns);
        }
        let bins: Vec<HistogramBin> = times.bins().collect();
        assert_eq!(bins.iter().map(|bin| bin.count).collect::<Vec<_>>(), [2, 1]);
        assert_eq!((bins[0].from_ns, bins[0].to_ns), (5, 5));
        // With three significant digits, a bin near a million nanoseconds is narrower than a
        // thousand nanoseconds.
        assert!((bins[1].from_ns..=bins[1].to_ns).contains(&1_000_000));
        assert!(bins[1].to_ns - bins[1].from_ns < 1_000);
    }
}
