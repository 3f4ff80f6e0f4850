//! The times of requests: connecting, processing, waiting, and all of it.
//!
//! Decides which requests are timed (those with a whole answer: the end of a failure is no answer
//! time) and what is said of their times. The median is the middle one or the mean of the two in the
//! middle, and a percentile is the time of rank ceil(share * count): the original has both one place
//! too high. Start at [`Times::of`].

use speedwell_load::latency::Outcome;
use speedwell_load::measured::RequestRecord;

/// The percentages that ab prints.
pub const PERCENTS: [u32; 9] = speedwell_load::latency::AB_PERCENTS;

/// One request with a whole answer, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// When it began, from the start of the test.
    pub begun_ns: u64,
    /// Until the connection was there; 0 on one that was used before.
    pub connect_ns: u64,
    /// From sending to the end of the answer.
    pub processing_ns: u64,
    /// From sending to the first byte of the answer.
    pub waiting_ns: u64,
}

impl Timing {
    /// From the beginning to the end.
    pub fn total_ns(self) -> u64 {
        self.connect_ns + self.processing_ns
    }

    fn of(row: &RequestRecord) -> Option<Timing> {
        let sent_ns = row.sent_ns?;
        Some(Timing {
            begun_ns: row.begun_ns,
            connect_ns: if row.is_reused {
                0
            } else {
                sent_ns.saturating_sub(row.begun_ns)
            },
            processing_ns: row.end_ns.saturating_sub(sent_ns),
            waiting_ns: row.first_byte_ns?.saturating_sub(sent_ns),
        })
    }
}

/// One of the times of a request, in nanoseconds.
pub type Part = fn(Timing) -> u64;

/// What is said of one kind of time, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The shortest.
    pub least_ns: u64,
    /// The mean.
    pub mean_ns: f64,
    /// The standard deviation of a sample (n - 1); 0 for a single one.
    pub deviation_ns: f64,
    /// The median.
    pub median_ns: u64,
    /// The longest.
    pub greatest_ns: u64,
}

impl Spread {
    /// Of some times in any order; there is at least one.
    fn of(mut times_ns: Vec<u64>) -> Spread {
        times_ns.sort_unstable();
        let count = times_ns.len();
        let mean_ns = times_ns.iter().map(|ns| *ns as f64).sum::<f64>() / count as f64;
        let squares: f64 = times_ns
            .iter()
            .map(|ns| (*ns as f64 - mean_ns).powi(2))
            .sum();
        let middle = count / 2;
        Spread {
            least_ns: times_ns[0],
            mean_ns,
            deviation_ns: match count {
                1 => 0.0,
                _ => (squares / (count - 1) as f64).sqrt(),
            },
            median_ns: match count % 2 {
                1 => times_ns[middle],
                _ => times_ns[middle - 1].midpoint(times_ns[middle]),
            },
            greatest_ns: times_ns[count - 1],
        }
    }
}

/// The times of all requests with a whole answer; there is at least one.
#[derive(Debug, Clone, PartialEq)]
pub struct Times {
    timings: Vec<Timing>,
    sorted_totals_ns: Vec<u64>,
}

impl Times {
    /// The times of these requests; `None` if none has a whole answer.
    pub fn of(rows: &[RequestRecord]) -> Option<Times> {
        let answered = rows.iter().filter(|row| is_answered(row));
        let mut timings: Vec<Timing> = answered.filter_map(Timing::of).collect();
        timings.sort_by_key(|timing| timing.begun_ns);
        let mut sorted_totals_ns: Vec<u64> = timings.iter().map(|t| t.total_ns()).collect();
        sorted_totals_ns.sort_unstable();
        (!timings.is_empty()).then_some(Times {
            timings,
            sorted_totals_ns,
        })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.timings.len()
    }

    /// Every request, in the order in which they began.
    pub fn timings(&self) -> &[Timing] {
        &self.timings
    }

    /// What is said of one kind of time.
    pub fn spread(&self, part: Part) -> Spread {
        Spread::of(self.timings.iter().map(|timing| part(*timing)).collect())
    }

    /// The time within which a percentage of the requests was served; 0 gives the shortest.
    pub fn within_ns(&self, percent: u32) -> u64 {
        let count = self.sorted_totals_ns.len();
        let rank = (count * percent as usize).div_ceil(100).clamp(1, count);
        self.sorted_totals_ns[rank - 1]
    }

    /// The sum of all times in nanoseconds.
    pub fn sum_ns(&self) -> u128 {
        self.sorted_totals_ns.iter().map(|ns| u128::from(*ns)).sum()
    }
}

/// Whether the whole answer came. Its status and body may still not be what was wanted.
fn is_answered(row: &RequestRecord) -> bool {
    match row.outcome {
        Outcome::Ok => true,
        Outcome::Failed(class) => class.is_answered(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::made::row;
    use super::*;
    use speedwell_load::outcomes::ErrorClass;

    fn of_totals_ms(totals: &[u64]) -> Times {
        let rows: Vec<RequestRecord> = totals.iter().map(|ms| row(*ms * 1_000_000)).collect();
        Times::of(&rows).unwrap()
    }

    #[test]
    fn the_median_is_the_middle() {
        let median = |totals| of_totals_ms(totals).spread(Timing::total_ns).median_ns;
        assert_eq!(median(&[3, 1, 2]), 2_000_000);
        assert_eq!(median(&[4, 1, 3, 2]), 2_500_000);
        assert_eq!(median(&[7]), 7_000_000);
    }

    #[test]
    fn the_spread_is_that_of_a_sample() {
        // R: mean(c(2, 4, 4, 5)) = 3.75, sd(...) = 1.258306.
        let spread = of_totals_ms(&[4, 2, 5, 4]).spread(Timing::total_ns);
        assert_eq!(spread.mean_ns, 3_750_000.0);
        assert!((spread.deviation_ns - 1_258_306.0).abs() < 1.0);
        assert_eq!(
            (spread.least_ns, spread.greatest_ns),
            (2_000_000, 5_000_000)
        );
        assert_eq!(
            of_totals_ms(&[9]).spread(Timing::total_ns).deviation_ns,
            0.0
        );
    }

    #[test]
    fn a_percentage_of_the_requests_was_served_within_its_time() {
        let times = of_totals_ms(&(1..=100).collect::<Vec<_>>());
        for percent in PERCENTS {
            assert_eq!(times.within_ns(percent), u64::from(percent) * 1_000_000);
        }
        assert_eq!(times.within_ns(0), 1_000_000);
        // By definition: the least time that so many requests did not exceed.
        let few = of_totals_ms(&[10, 20, 30]);
        assert_eq!(few.within_ns(66), 20_000_000);
        assert_eq!(few.within_ns(67), 30_000_000);
    }

    #[test]
    fn a_request_without_a_whole_answer_has_no_times() {
        let mut failed = row(5_000_000);
        failed.outcome = Outcome::Failed(ErrorClass::ResetInBody);
        assert_eq!(Times::of(&[failed]), None);
        let mut wrong = row(5_000_000);
        wrong.outcome = Outcome::Failed(ErrorClass::Assertion);
        assert_eq!(Times::of(&[wrong, failed]).unwrap().count(), 1);
    }
}
