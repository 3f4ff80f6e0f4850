//! By how much the clock of another machine differs from ours, as far as a line between them lets us know.
//!
//! A question leaves here, is answered there with that clock's time, and comes back: the answer was written somewhere in
//! between. So the difference is known to half of the round trip and no better, whatever the way there and back take, and the
//! shortest of several round trips knows it best (RFC 5905, the clock filter of NTP). Start at [`estimate`].

use anyhow::{Context, Result, ensure};
use std::io::{BufRead, Write};
use std::time::{SystemTime, UNIX_EPOCH};

/// Questions that a clock is asked: with so many, one of them has been answered without waiting for anybody.
pub const EXCHANGES: usize = 32;
/// How long a clock takes to show another time, at most; it may be read just before.
const GRAIN_NS: u64 = 1_000;

/// One question about the time with its answer, in nanoseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// When the question left, by our clock.
    pub asked_ns: i64,
    /// What was answered, by the other clock.
    pub answer_ns: i64,
    /// When the answer was here, by our clock.
    pub answered_ns: i64,
}

/// The difference of two clocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Offset {
    /// What is to be added to times of the other clock to have those of ours.
    pub offset_ns: i64,
    /// By how much that may be wrong, at most.
    pub uncertainty_ns: u64,
    /// The round trip that it rests on.
    pub round_trip_ns: u64,
}

impl Offset {
    /// A time of our clock, as the other shows it.
    pub fn theirs(&self, ours_ns: i64) -> i64 {
        ours_ns.saturating_sub(self.offset_ns)
    }
}

/// What some exchanges say of a clock; `None` without any, or where our own clock went backwards in all of them.
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

/// Asks at the other end of a line, which answers the word `time` with [`now_ns`] (see [`answer`]).
///
/// # Errors
/// The line ends, or says something else.
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

/// Answers questions about the time until the line ends or something else is said, which is returned.
///
/// # Errors
/// The line fails.
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

/// Nanoseconds since the Unix epoch.
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

    /// A generator of numbers below a bound, always the same (Knuth's constants for a congruence of 64 bits).
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
            // The other clock is up to 30 s ahead or behind, and ways take up to 200 us, some of them 50 ms.
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
        // The same clock at both ends, by a pipe in either direction.
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
