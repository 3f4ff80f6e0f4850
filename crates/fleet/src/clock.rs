//! Estimates the clock offset between this machine and another.
//!
//! The remote clock is read somewhere between sending a query and receiving the answer. The offset
//! is therefore known to half of the round trip, however asymmetric the two directions are, and the
//! shortest of several round trips gives the best estimate (the clock filter of NTP, RFC 5905).
//! Start at [`estimate`].

use anyhow::{Context, Result, ensure};
use std::io::{BufRead, Write};
use std::time::{SystemTime, UNIX_EPOCH};

/// Queries per estimate: enough that at least one is answered without delay.
pub const EXCHANGES: usize = 32;
/// Upper bound of the clock's resolution: a reading may be this old.
const GRAIN_NS: u64 = 1_000;

/// One clock query and its answer, in nanoseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// When the query was sent, by our clock.
    pub asked_ns: i64,
    /// The answer, by the remote clock.
    pub answer_ns: i64,
    /// When the answer arrived, by our clock.
    pub answered_ns: i64,
}

/// Offset of a remote clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Offset {
    /// Added to a remote timestamp, gives local time.
    pub offset_ns: i64,
    /// Upper bound of the error.
    pub uncertainty_ns: u64,
    /// Round trip of the exchange that this estimate comes from.
    pub round_trip_ns: u64,
}

impl Offset {
    /// Converts a local timestamp to remote time.
    pub fn theirs(&self, ours_ns: i64) -> i64 {
        ours_ns.saturating_sub(self.offset_ns)
    }
}

/// Estimates the offset from several exchanges; `None` if there are none, or if our clock went
/// backwards in all of them.
pub fn estimate(exchanges: &[Exchange]) -> Option<Offset> {
    let forwards = exchanges
        .iter()
        .filter(|one| one.answered_ns >= one.asked_ns);
    let best = forwards.min_by_key(|one| one.answered_ns.abs_diff(one.asked_ns))?;
    let round_trip_ns = best.answered_ns.abs_diff(best.asked_ns);
    let middle_ns = best.asked_ns.saturating_add((round_trip_ns / 2) as i64);
    Some(Offset {
        offset_ns: middle_ns.saturating_sub(best.answer_ns),
        uncertainty_ns: round_trip_ns.div_ceil(2) + GRAIN_NS,
        round_trip_ns,
    })
}

/// Queries the clock at the other end of a connection, where [`answer`] replies to each `time` with
/// [`now_ns`].
///
/// # Errors
/// Fails if the connection ends or the answer is not a timestamp.
pub fn ask(to: &mut impl Write, from: &mut impl BufRead) -> Result<Offset> {
    let mut exchanges = Vec::with_capacity(EXCHANGES);
    let mut line = String::new();
    for _ in 0..EXCHANGES {
        let asked_ns = now_ns();
        to.write_all(b"time\n").and_then(|()| to.flush())?;
        line.clear();
        ensure!(from.read_line(&mut line)? > 0, "the line ended");
        let answered_ns = now_ns();
        let answer = line.trim_end().parse();
        let answer_ns = answer.with_context(|| format!("'{}' is no time", line.trim_end()))?;
        exchanges.push(Exchange {
            asked_ns,
            answer_ns,
            answered_ns,
        });
    }
    estimate(&exchanges).context("the clock of this machine goes backwards")
}

/// Answers `time` queries until another line arrives or the connection ends; returns that line.
///
/// # Errors
/// Fails if the connection breaks.
pub fn answer(from: &mut impl BufRead, to: &mut impl Write) -> Result<String> {
    let mut line = String::new();
    loop {
        line.clear();
        from.read_line(&mut line)?;
        if line.trim_end() != "time" {
            return Ok(line);
        }
        writeln!(to, "{}", now_ns())?;
        to.flush()?;
    }
}

/// Current time in nanoseconds since the Unix epoch.
pub fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    /// Deterministic pseudorandom numbers below `bound` (64-bit LCG with Knuth's constants).
    fn below(state: &mut u64, bound: u64) -> u64 {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) % bound
    }

    #[test]
    fn the_true_offset_is_within_the_uncertainty_whatever_the_ways_take() {
        let mut state = 5;
        for round in 0..2000 {
            // The remote clock is off by up to 30 s; one-way delays are up to 200 us, a few of them
            // 50 ms.
            let skew_ns = below(&mut state, 60_000_000_000) as i64 - 30_000_000_000;
            let count = 1 + below(&mut state, EXCHANGES as u64);
            let mut now_ns = 1_000_000_000_000;
            let exchanges: Vec<Exchange> = (0..count)
                .map(|_| {
                    let mut way = || match below(&mut state, 8) {
                        0 => below(&mut state, 50_000_000) as i64,
                        _ => below(&mut state, 200_000) as i64,
                    };
                    let asked_ns = now_ns;
                    let arrived_ns = asked_ns + way();
                    let answered_ns = arrived_ns + way();
                    now_ns = answered_ns + 1;
                    Exchange {
                        asked_ns,
                        answer_ns: arrived_ns + skew_ns,
                        answered_ns,
                    }
                })
                .collect();
            let found = estimate(&exchanges).unwrap();
            let wrong_by = found.offset_ns.abs_diff(-skew_ns);
            assert!(
                wrong_by <= found.uncertainty_ns,
                "{round}: {found:?} for {skew_ns}"
            );
            let shortest = exchanges
                .iter()
                .map(|one| one.answered_ns - one.asked_ns)
                .min();
            assert_eq!(Some(found.round_trip_ns as i64), shortest);
            let there = found.theirs(now_ns);
            assert!(there.abs_diff(now_ns + skew_ns) <= found.uncertainty_ns);
        }
    }

    #[test]
    fn exchanges_in_which_our_clock_was_set_back_say_nothing() {
        let back = Exchange {
            asked_ns: 10,
            answer_ns: 5,
            answered_ns: 9,
        };
        assert_eq!(estimate(&[back]), None);
        assert_eq!(estimate(&[]), None);
        let usable = Exchange {
            asked_ns: 100,
            answer_ns: 500,
            answered_ns: 140,
        };
        let found = estimate(&[back, usable]).unwrap();
        assert_eq!((found.offset_ns, found.round_trip_ns), (-380, 40));
    }

    #[test]
    fn both_ends_of_a_line_agree_on_what_is_said() {
        // Both ends read the same clock, connected by one pipe per direction.
        let (there, mut to) = std::io::pipe().unwrap();
        let (from, mut back) = std::io::pipe().unwrap();
        let other =
            std::thread::spawn(move || answer(&mut BufReader::new(there), &mut back).unwrap());
        let found = ask(&mut to, &mut BufReader::new(from)).unwrap();
        assert!(
            found.offset_ns.unsigned_abs() <= found.uncertainty_ns,
            "{found:?}"
        );
        to.write_all(b"start 5\n").unwrap();
        assert_eq!(other.join().unwrap(), "start 5\n");
        let refused = ask(&mut Vec::new(), &mut &b"soon\n"[..]).unwrap_err();
        assert_eq!(refused.to_string(), "'soon' is no time");
    }
}
