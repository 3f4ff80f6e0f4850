//! Recorded times of one quantity, typed so that quantities cannot be mixed, and the statistics
//! read from them. Start at [`Distribution`]; [`Values`] holds the data.

use hdrhistogram::Histogram;
use std::borrow::Cow;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::OnceLock;

/// Recorded times of one kind. All kinds can be read as [`Values`], but only times of the same kind
/// can be merged.
#[derive(Debug, Clone)]
pub struct Distribution<K> {
    values: Values,
    kind: PhantomData<K>,
}

impl<K> Default for Distribution<K> {
    fn default() -> Distribution<K> {
        Distribution {
            values: Values::default(),
            kind: PhantomData,
        }
    }
}

/// Equal if both hold the same values at the resolution of the histogram.
impl<K> PartialEq for Distribution<K> {
    fn eq(&self, other: &Distribution<K>) -> bool {
        self.values == other.values
    }
}

impl<K> Deref for Distribution<K> {
    type Target = Values;

    fn deref(&self) -> &Values {
        &self.values
    }
}

impl<K> From<Values> for Distribution<K> {
    fn from(values: Values) -> Distribution<K> {
        Distribution {
            values,
            kind: PhantomData,
        }
    }
}

impl<K: Kind> Distribution<K> {
    /// Creates an empty distribution.
    pub fn new() -> Distribution<K> {
        Distribution::default()
    }

    /// Adds a time.
    pub fn record(&mut self, ns: u64) {
        self.values.record(ns);
    }

    /// Adds the time of an unfinished request: a lower bound of the true time.
    pub fn record_lower_bound(&mut self, ns: u64) {
        self.values.record_lower_bound(ns);
    }

    /// Adds `count` equal times.
    pub(super) fn record_n(&mut self, ns: u64, count: u64) {
        self.values.record_n(ns, count);
    }

    /// Merges the values of another thread or process. Order and grouping do not matter.
    pub fn merge(&mut self, other: &Distribution<K>) {
        self.values.merge(&other.values);
    }

    /// Clears the values but keeps the allocated memory, for snapshots that swap two distributions.
    pub fn clear(&mut self) {
        self.values.clear();
    }
}

/// A quantity in nanoseconds.
pub trait Kind {
    /// Stable name in files.
    const NAME: &'static str;
}

macro_rules! kinds {
    ($($(#[$text:meta])* $kind:ident = $name:literal;)*) => {$(
        $(#[$text])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $kind {}

        impl Kind for $kind {
            const NAME: &'static str = $name;
        }
    )*};
}

kinds! {
    /// From sending a request to the last byte of its response: the time of server and network.
    Service = "service";
    /// From sending a request to the first byte of its response.
    FirstByte = "first-byte";
    /// From the intended start to the last byte: the wait that a user would have had. Open model
    /// only.
    Response = "response";
    /// [`Response`] minus the generator's own lag, i.e. the response time of a request sent on
    /// time. Together they bound the wait that a user would have had.
    Punctual = "punctual";
    /// From the intended start to sending.
    Lag = "lag";
    /// The part of the lag that busy connections do not explain: the generator itself was late.
    OwnLag = "own-lag";
    /// From starting to connect to a usable connection, including TLS if requested.
    Connect = "connect";
}

// Values: recorded times with exact count, sum, minimum and maximum.

/// Upper limit of the histogram: one hour.
pub const HIGHEST_NS: u64 = 3_600_000_000_000;

/// Significant digits of a recorded value: a quantile is off by at most 0.1 %.
const DIGITS: u8 = 3;

/// Number of times kept individually before a histogram is used. A histogram takes 270 kB, and
/// creating, merging, reading or clearing it costs as much for the few times of a short interval as
/// for millions.
const EARLY: usize = 2048;

/// If unfinished requests could shift a quantile by less than this factor, it is not marked as a
/// lower bound.
const SAME_FIGURE: f64 = 1.01;

/// Recorded times in nanoseconds, regardless of the quantity. They take 16 kB while they are few,
/// and then 270 kB for any number.
#[derive(Debug, Clone)]
pub struct Values {
    /// All times within range while they are few. The histogram is empty until then.
    early: Vec<u64>,
    /// Created on demand, then kept.
    histogram: Option<Histogram<u64>>,
    moments: Moments,
    beyond: u64,
    lower_bounds: u64,
    least_lower_bound_ns: u64,
}

/// Integer sums, independent of the order of addition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Moments {
    least_ns: u64,
    greatest_ns: u64,
    sum: u128,
    squares: u128,
}

impl Moments {
    const EMPTY: Moments = Moments {
        least_ns: u64::MAX,
        greatest_ns: 0,
        sum: 0,
        squares: 0,
    };
}

/// All components of recorded times, for files.
pub(super) struct Stored {
    pub histogram: Histogram<u64>,
    pub least_ns: u64,
    pub greatest_ns: u64,
    pub sum: u128,
    pub squares: u128,
    pub beyond: u64,
    pub lower_bounds: u64,
    pub least_lower_bound_ns: u64,
}

impl Default for Values {
    fn default() -> Values {
        Values {
            early: Vec::new(),
            histogram: None,
            moments: Moments::EMPTY,
            beyond: 0,
            lower_bounds: 0,
            least_lower_bound_ns: u64::MAX,
        }
    }
}

/// Creates an empty histogram.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, HIGHEST_NS, DIGITS)
        .unwrap_or_else(|_| unreachable!("1 ns to 1 h with 3 digits is a legal histogram"))
}

/// An always empty histogram, used to look up bin boundaries.
fn ruler() -> &'static Histogram<u64> {
    static RULER: OnceLock<Histogram<u64>> = OnceLock::new();
    RULER.get_or_init(histogram)
}

/// Equal if both hold the same values at the resolution of the histogram.
impl PartialEq for Values {
    fn eq(&self, other: &Values) -> bool {
        self.moments == other.moments
            && self.beyond == other.beyond
            && self.lower_bounds == other.lower_bounds
            && self.least_lower_bound_ns == other.least_lower_bound_ns
            && self.histogram() == other.histogram()
    }
}

impl Values {
    pub(super) fn stored(&self) -> Stored {
        Stored {
            histogram: self.histogram().into_owned(),
            least_ns: self.moments.least_ns,
            greatest_ns: self.moments.greatest_ns,
            sum: self.moments.sum,
            squares: self.moments.squares,
            beyond: self.beyond,
            lower_bounds: self.lower_bounds,
            least_lower_bound_ns: self.least_lower_bound_ns,
        }
    }

    /// Restores stored times; `None` if the histogram has another precision or does not fit into
    /// ours.
    pub(super) fn restore(stored: Stored) -> Option<Values> {
        let mut restored = Values::default();
        if stored.histogram.sigfig() != DIGITS {
            return None;
        }
        let histogram = restored.histogram.get_or_insert_with(histogram);
        histogram.add(&stored.histogram).ok()?;
        restored.moments = Moments {
            least_ns: stored.least_ns,
            greatest_ns: stored.greatest_ns,
            sum: stored.sum,
            squares: stored.squares,
        };
        restored.beyond = stored.beyond;
        restored.lower_bounds = stored.lower_bounds;
        restored.least_lower_bound_ns = stored.least_lower_bound_ns;
        Some(restored)
    }

    /// Adds a time.
    pub(super) fn record(&mut self, ns: u64) {
        self.record_n(ns, 1);
    }

    /// Adds the time of an unfinished request: a lower bound of the true time.
    pub(super) fn record_lower_bound(&mut self, ns: u64) {
        self.lower_bounds += 1;
        self.least_lower_bound_ns = self.least_lower_bound_ns.min(ns);
        self.record_n(ns, 1);
    }

    /// Adds `count` equal times.
    pub(super) fn record_n(&mut self, ns: u64, count: u64) {
        let moments = &mut self.moments;
        moments.least_ns = moments.least_ns.min(ns);
        moments.greatest_ns = moments.greatest_ns.max(ns);
        let sum = u128::from(ns) * u128::from(count);
        moments.sum = moments.sum.saturating_add(sum);
        let squares = sum.saturating_mul(u128::from(ns));
        moments.squares = moments.squares.saturating_add(squares);
        if ns <= HIGHEST_NS {
            self.place(ns, count)
        } else {
            self.beyond += count
        }
    }

    /// Stores `count` equal times, which must be within range.
    fn place(&mut self, ns: u64, count: u64) {
        if count == 1 && self.early.len() < EARLY && self.recorded_in_histogram() == 0 {
            self.early.push(ns);
            return;
        }
        self.leave_early()
            .record_n(ns, count)
            .unwrap_or_else(|_| unreachable!("the histogram has a place for all up to 1 h"));
    }

    fn recorded_in_histogram(&self) -> u64 {
        self.histogram.as_ref().map_or(0, Histogram::len)
    }

    /// Moves the individually kept times into the histogram.
    fn leave_early(&mut self) -> &mut Histogram<u64> {
        let histogram = self.histogram.get_or_insert_with(histogram);
        for ns in self.early.drain(..) {
            histogram
                .record(ns)
                .unwrap_or_else(|_| unreachable!("the histogram has a place for all up to 1 h"));
        }
        histogram
    }

    /// Returns all values within range as one histogram.
    pub(super) fn histogram(&self) -> Cow<'_, Histogram<u64>> {
        if self.early.is_empty() {
            Cow::Borrowed(self.histogram.as_ref().unwrap_or(ruler()))
        } else {
            let mut all = self.clone();
            all.leave_early();
            Cow::Owned(all.histogram.unwrap_or_else(histogram))
        }
    }

    /// Iterates over the non-empty histogram bins in ascending order: the largest value of each and
    /// its count.
    pub(super) fn recorded(&self) -> Box<dyn Iterator<Item = (u64, u64)> + '_> {
        if let Some(histogram) = self.histogram.as_ref().filter(|all| !all.is_empty()) {
            let bins = histogram.iter_recorded();
            return Box::new(bins.map(|bin| (bin.value_iterated_to(), bin.count_at_value())));
        }
        let greatest = |ns: &u64| ruler().highest_equivalent(*ns);
        let mut early: Vec<u64> = self.early.iter().map(greatest).collect();
        early.sort_unstable();
        let bins = early.chunk_by(|a, b| a == b);
        let bins: Vec<(u64, u64)> = bins.map(|bin| (bin[0], bin.len() as u64)).collect();
        Box::new(bins.into_iter())
    }

    /// Returns the smallest value of the bin that contains `ns`.
    pub(super) fn least_of_bin(ns: u64) -> u64 {
        ruler().lowest_equivalent(ns)
    }

    /// Merges the values of another thread or process. Order and grouping do not matter.
    pub(super) fn merge(&mut self, other: &Values) {
        if other.count() == 0 {
            return;
        }
        match other.histogram.as_ref().filter(|all| !all.is_empty()) {
            None => other.early.iter().for_each(|ns| self.place(*ns, 1)),
            Some(histogram) => self
                .leave_early()
                .add(histogram)
                .unwrap_or_else(|_| unreachable!("all histograms have the same bounds")),
        }
        let (mine, theirs) = (&mut self.moments, &other.moments);
        mine.least_ns = mine.least_ns.min(theirs.least_ns);
        mine.greatest_ns = mine.greatest_ns.max(theirs.greatest_ns);
        mine.sum = mine.sum.saturating_add(theirs.sum);
        mine.squares = mine.squares.saturating_add(theirs.squares);
        self.beyond += other.beyond;
        self.lower_bounds += other.lower_bounds;
        self.least_lower_bound_ns = self.least_lower_bound_ns.min(other.least_lower_bound_ns);
    }

    /// Clears the values but keeps the allocated memory, for snapshots that swap two of them.
    pub(super) fn clear(&mut self) {
        if self.count() == 0 {
            return;
        }
        self.early.clear();
        if let Some(histogram) = self.histogram.as_mut().filter(|all| !all.is_empty()) {
            histogram.reset();
        }
        self.moments = Moments::EMPTY;
        self.beyond = 0;
        self.lower_bounds = 0;
        self.least_lower_bound_ns = u64::MAX;
    }

    /// Number of values, including those beyond the range.
    pub fn count(&self) -> u64 {
        self.recorded_in_histogram() + self.early.len() as u64 + self.beyond
    }

    /// Number of values above [`HIGHEST_NS`]. They count in all statistics, but not at their exact
    /// position.
    pub fn beyond(&self) -> u64 {
        self.beyond
    }

    /// Number of values that are lower bounds, from unfinished requests.
    pub fn lower_bounds(&self) -> u64 {
        self.lower_bounds
    }

    /// The exact minimum.
    pub fn least_ns(&self) -> Option<u64> {
        (self.count() > 0).then_some(self.moments.least_ns)
    }

    /// The exact maximum.
    pub fn greatest_ns(&self) -> Option<u64> {
        (self.count() > 0).then_some(self.moments.greatest_ns)
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
        let Moments { sum, squares, .. } = self.moments;
        // n * squares - sum^2 suffers from cancellation in floating point, so use integers while
        // they fit: up to ten million values of ten seconds.
        let exact = squares
            .checked_mul(u128::from(self.count()))
            .zip(sum.checked_mul(sum));
        let spread = match exact {
            Some((left, right)) => left.saturating_sub(right) as f64,
            None => (squares as f64 * count - (sum as f64).powi(2)).max(0.0),
        };
        Some((spread / count / (count - 1.0)).sqrt())
    }

    /// The quantile of a share given in parts per million: 990 000 is the 99th percentile. It is
    /// the value of rank ceil(share * count), at most 0.1 % too large.
    pub fn quantile(&self, ppm: u32) -> Option<Quantile> {
        self.quantiles(&[ppm]).into_iter().next().flatten()
    }

    /// Computes several quantiles in one pass; `ppm` must be ascending.
    pub fn quantiles(&self, ppm: &[u32]) -> Vec<Option<Quantile>> {
        let ranks: Vec<Option<u64>> = ppm.iter().map(|share| self.rank(*share)).collect();
        let values = self.values_at(ranks.iter().flatten().copied());
        // Worst case: all unfinished requests would have taken longer than all others, so the
        // quantile lies that many ranks higher.
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

    /// Returns the values of ascending ranks; `None` for those beyond the range.
    fn values_at(&self, ranks: impl Iterator<Item = u64>) -> Vec<Option<u64>> {
        let mut bins = self.recorded();
        let (mut passed, mut value_ns) = (0, 0);
        ranks
            .map(|rank| {
                while passed < rank {
                    let Some((greatest_ns, count)) = bins.next() else {
                        break;
                    };
                    passed += count;
                    value_ns = greatest_ns;
                }
                (passed >= rank).then_some(value_ns)
            })
            .collect()
    }

    /// Converts a share to a rank between 1 and the number of values.
    fn rank(&self, ppm: u32) -> Option<u64> {
        let product = u128::from(self.count()) * u128::from(ppm.min(1_000_000));
        let rank = product.div_ceil(1_000_000) as u64;
        (self.count() > 0).then(|| rank.max(1))
    }

    fn quantile_at(&self, rank: u64, value_ns: Option<u64>, moved_ns: Option<u64>) -> Quantile {
        let Moments {
            least_ns,
            greatest_ns,
            ..
        } = self.moments;
        let is_last = rank == self.count();
        let ns = match value_ns {
            _ if is_last => greatest_ns,
            // The end of the bin may lie outside the recorded range.
            Some(ns) => ns.clamp(least_ns, greatest_ns),
            None => HIGHEST_NS,
        };
        let has_no_place = value_ns.is_none() && !is_last;
        // Unfinished requests that lie above this value do not change it, nor do a few below it
        // among many similar values.
        let is_beyond = rank + self.lower_bounds > self.count();
        let moves =
            is_beyond || moved_ns.is_none_or(|moved| moved as f64 > ns as f64 * SAME_FIGURE);
        Quantile {
            ns,
            is_lower_bound: has_no_place || (ns >= self.least_lower_bound_ns && moves),
        }
    }
}

// Quantiles, the percentage table of ab, and bins for charts and other programs.

/// A time that a given share of the values does not exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quantile {
    /// In nanoseconds.
    pub ns: u64,
    /// Whether the true value may be higher because of unfinished requests or values beyond the
    /// range.
    pub is_lower_bound: bool,
}

/// The percentages that ab prints.
pub const AB_PERCENTS: [u32; 9] = [50, 66, 75, 80, 90, 95, 98, 99, 100];

/// One row of the percentage table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Served {
    /// Percentage of all requests.
    pub percent: u32,
    /// Time within which they finished.
    pub within: Quantile,
}

/// Returns the table for ascending percentages; empty without values. Unlike ab's rows, which are
/// one rank too high, these are the quantiles of [`Values::quantile`].
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

/// Returns the table for every percentage from 0, the fastest request, to 100, the slowest.
pub fn every_percent(times: &Values) -> Vec<Served> {
    let percents: Vec<u32> = (0..=100).collect();
    percentage_served(times, &percents)
}

/// Values that the histogram cannot distinguish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bin {
    /// The smallest time of the bin, in nanoseconds.
    pub from_ns: u64,
    /// The largest time of the bin, in nanoseconds.
    pub to_ns: u64,
    /// Number of values; never 0.
    pub count: u64,
}

impl Values {
    /// Iterates over the non-empty bins in ascending order. Values beyond [`super::HIGHEST_NS`]
    /// have no bin.
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

    #[test]
    fn every_value_but_those_beyond_the_range_lies_in_its_bin() {
        let mut times = Distribution::<Service>::new();
        for ns in [5, 5, 1_000_000, HIGHEST_NS + 1] {
            times.record(ns);
        }
        let bins: Vec<Bin> = times.bins().collect();
        assert_eq!(bins.iter().map(|bin| bin.count).collect::<Vec<_>>(), [2, 1]);
        assert_eq!((bins[0].from_ns, bins[0].to_ns), (5, 5));
        // Three digits: a bin near a million nanoseconds is narrower than a thousandth of that.
        assert!((bins[1].from_ns..=bins[1].to_ns).contains(&1_000_000));
        assert!(bins[1].to_ns - bins[1].from_ns < 1_000);
    }
}
