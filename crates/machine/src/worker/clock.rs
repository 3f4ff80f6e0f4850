//! Estimates the clock offset between this machine and another.
//!
//! The remote clock is read at some time between sending a query and receiving the answer. The
//! offset is therefore known to within half the round trip, even if the two directions take
//! different times. The shortest of several round trips gives the best estimate (the clock filter
//! of NTP, RFC 5905). Start at [`estimate_offset`].

use super::{CLOCK_QUERY, read_message, write_line};
use anyhow::{Context, Result};
use std::io::{BufRead, Write};
use std::time::{SystemTime, UNIX_EPOCH};

/// Number of queries per estimate. With this many, at least one is very likely to be answered
/// without delay.
const CLOCK_QUERIES: usize = 32;
/// Upper bound of the clock's resolution: a reading may lag behind the true time by at most this.
const CLOCK_RESOLUTION_NS: u64 = 1_000;

/// One clock query and its answer, in nanoseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ClockExchange {
    /// When the query was sent, by our clock.
    sent_ns: i64,
    /// The answer: the time of the remote clock.
    remote_ns: i64,
    /// When the answer arrived, by our clock.
    received_ns: i64,
}

/// Offset of a remote clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClockOffset {
    /// The number to add to a remote timestamp to get local time.
    pub offset_ns: i64,
    /// Upper bound of the error.
    pub uncertainty_ns: u64,
    /// Round trip of the exchange that this estimate comes from.
    pub round_trip_ns: u64,
}

impl ClockOffset {
    /// Converts a local timestamp to remote time.
    pub fn to_remote_ns(&self, ours_ns: i64) -> i64 {
        ours_ns.saturating_sub(self.offset_ns)
    }
}

/// Estimates the offset from several exchanges. Returns `None` if there are none, or if our clock
/// went backwards in all of them.
fn estimate_offset(exchanges: &[ClockExchange]) -> Option<ClockOffset> {
    let valid = exchanges.iter().filter(|exchange| exchange.received_ns >= exchange.sent_ns);
    let best = valid.min_by_key(|exchange| exchange.received_ns.abs_diff(exchange.sent_ns))?;
    let round_trip_ns = best.received_ns.abs_diff(best.sent_ns);
    let middle_ns = best.sent_ns.saturating_add((round_trip_ns / 2) as i64);
    Some(ClockOffset {
        offset_ns: middle_ns.saturating_sub(best.remote_ns),
        uncertainty_ns: round_trip_ns.div_ceil(2) + CLOCK_RESOLUTION_NS,
        round_trip_ns,
    })
}

/// Queries the clock of a worker.
///
/// # Errors
/// Fails if the connection ends or the answer is not a timestamp.
pub(super) fn query_clock(writer: &mut dyn Write, reader: &mut dyn BufRead) -> Result<ClockOffset> {
    let mut exchanges = Vec::with_capacity(CLOCK_QUERIES);
    for _ in 0..CLOCK_QUERIES {
        let sent_ns = now_ns();
        write_line(writer, CLOCK_QUERY.to_vec())?;
        let remote_ns = read_message(reader)?;
        exchanges.push(ClockExchange { sent_ns, remote_ns, received_ns: now_ns() });
    }
    estimate_offset(&exchanges).context("the clock of this machine runs backwards")
}

/// Current time in nanoseconds since the Unix epoch.
pub fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a deterministic pseudorandom number below `bound` (64-bit LCG with Knuth's
    /// constants).
    fn random_below(state: &mut u64, bound: u64) -> u64 {
        *state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) % bound
    }

    #[test]
    fn the_true_clock_offset_is_within_the_uncertainty_for_any_delays() {
        let mut state = 5;
        for round in 0..2000 {
            // The remote clock is off by up to 30 s. Most one-way delays are up to 200 us; one in
            // eight is up to 50 ms.
            let skew_ns = random_below(&mut state, 60_000_000_000) as i64 - 30_000_000_000;
            let count = 1 + random_below(&mut state, CLOCK_QUERIES as u64);
            let mut now_ns = 1_000_000_000_000;
            let exchanges: Vec<ClockExchange> = (0..count)
                .map(|_| {
                    let mut way = || match random_below(&mut state, 8) {
                        0 => random_below(&mut state, 50_000_000) as i64,
                        _ => random_below(&mut state, 200_000) as i64,
                    };
                    let asked_ns = now_ns;
                    let arrived_ns = asked_ns + way();
                    let answered_ns = arrived_ns + way();
                    now_ns = answered_ns + 1;
                    ClockExchange {
                        sent_ns: asked_ns,
                        remote_ns: arrived_ns + skew_ns,
                        received_ns: answered_ns,
                    }
                })
                .collect();
            let found = estimate_offset(&exchanges).unwrap();
            let wrong_by = found.offset_ns.abs_diff(-skew_ns);
            assert!(wrong_by <= found.uncertainty_ns, "{round}: {found:?} for {skew_ns}");
            let shortest = exchanges.iter().map(|one| one.received_ns - one.sent_ns).min();
            assert_eq!(Some(found.round_trip_ns as i64), shortest);
            let there = found.to_remote_ns(now_ns);
            assert!(there.abs_diff(now_ns + skew_ns) <= found.uncertainty_ns);
        }
    }

    #[test]
    fn exchanges_during_which_the_local_clock_was_set_back_are_ignored() {
        let back = ClockExchange { sent_ns: 10, remote_ns: 5, received_ns: 9 };
        assert_eq!(estimate_offset(&[back]), None);
        assert_eq!(estimate_offset(&[]), None);
        let usable = ClockExchange { sent_ns: 100, remote_ns: 500, received_ns: 140 };
        let found = estimate_offset(&[back, usable]).unwrap();
        assert_eq!((found.offset_ns, found.round_trip_ns), (-380, 40));
    }
}
