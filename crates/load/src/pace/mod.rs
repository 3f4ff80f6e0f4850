//! Decides when the next request is due.
//!
//! A pace is plain data. A closed pace is a number of clients, each of which waits for a response
//! before it sends its next request. An open pace is a schedule that does not depend on responses.
//! Nothing here sleeps or reads a clock. Start at [`RateSchedule`], which computes when the
//! requests of an open pace are due. Continue with [`ThreadSchedule`], the part of a schedule that
//! one thread sends.

mod schedule;

pub use schedule::{
    ArrivalSpacing, DueRequest, FOREVER_NS, PaceError, RateSchedule, RequestRate, ScheduleStage,
    StopCondition, ThreadSchedule, thread_part,
};

use schedule::ExponentialDraws;

/// How requests are paced.
#[derive(Debug, Clone, PartialEq)]
pub enum PacingModel {
    /// Each client sends its next request when it has received the response to its previous one.
    /// Only service times are meaningful, since no request has an intended start.
    Closed(ClosedPace),
    /// Requests are sent on schedule, whatever the server does.
    Open(RateSchedule),
}

// The closed model: clients that wait for each response, and optionally think before the next
// request.

/// A number of clients, each with at most one request in flight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClosedPace {
    /// Number of clients.
    pub concurrency: u32,
    /// Pause between a response and the next request.
    pub think: ThinkTime,
}

/// Think time of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThinkTime {
    /// No pause.
    None,
    /// A constant pause in nanoseconds.
    Fixed(u64),
    /// Exponentially distributed pauses.
    Exponential {
        /// Mean in nanoseconds.
        mean_ns: u64,
        /// Seed of the random numbers.
        seed: u64,
    },
}

impl ClosedPace {
    /// Creates a closed pace.
    ///
    /// # Errors
    /// Fails if there are no clients.
    pub fn new(concurrency: u32, think: ThinkTime) -> Result<ClosedPace, PaceError> {
        match concurrency {
            0 => Err(PaceError::NoClients),
            _ => Ok(ClosedPace { concurrency, think }),
        }
    }

    /// Number of clients that belong to thread number `thread` of `threads`.
    pub fn thread_clients(&self, thread: u32, threads: u32) -> u32 {
        // The result is at most `concurrency`, so it fits into 32 bits.
        thread_part(u64::from(self.concurrency), thread, threads) as u32
    }
}

/// Generates the pauses of one client.
#[derive(Debug, Clone)]
pub struct ThinkTimer {
    mean_ns: u64,
    random: Option<ExponentialDraws>,
}

impl ThinkTimer {
    /// Creates the generator for client number `client`. Clients with the same seed have
    /// independent pauses.
    pub fn new(think: ThinkTime, client: u32) -> ThinkTimer {
        match think {
            ThinkTime::None => ThinkTimer { mean_ns: 0, random: None },
            ThinkTime::Fixed(mean_ns) => ThinkTimer { mean_ns, random: None },
            ThinkTime::Exponential { mean_ns, seed } => ThinkTimer {
                mean_ns,
                // Multiplying by the bits of the golden ratio spreads consecutive client numbers
                // over the whole range (SplitMix; Steele, Lea and Flood 2014).
                random: Some(ExponentialDraws::new(
                    seed ^ u64::from(client).wrapping_mul(0x9e37_79b9_7f4a_7c15),
                )),
            },
        }
    }

    /// Returns the next pause in nanoseconds.
    pub fn next_ns(&mut self) -> u64 {
        match &mut self.random {
            None => self.mean_ns,
            Some(random) => (random.next_draw() * self.mean_ns as f64).round() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_client_belongs_to_one_thread() {
        let closed = ClosedPace::new(50, ThinkTime::None).unwrap();
        let parts: Vec<u32> = (0..4).map(|thread| closed.thread_clients(thread, 4)).collect();
        assert_eq!(parts, [13, 13, 12, 12]);
        assert_eq!(ClosedPace::new(0, ThinkTime::None), Err(PaceError::NoClients));
    }

    #[test]
    fn random_pauses_have_the_given_mean_and_differ_between_clients() {
        let think = ThinkTime::Exponential { mean_ns: 2_000_000, seed: 7 };
        let pauses = |client| -> Vec<u64> {
            let mut thinker = ThinkTimer::new(think, client);
            (0..100_000).map(|_| thinker.next_ns()).collect()
        };
        let first = pauses(0);
        let mean = first.iter().sum::<u64>() as f64 / 1e5;
        // The standard error is 2 ms / sqrt(100 000) = 6325 ns; the test allows four standard
        // errors.
        assert!((mean - 2e6).abs() < 4.0 * 6325.0, "mean {mean}");
        assert_ne!(first[..10], pauses(1)[..10]);
        assert_eq!(ThinkTimer::new(ThinkTime::Fixed(5), 3).next_ns(), 5);
        assert_eq!(ThinkTimer::new(ThinkTime::None, 3).next_ns(), 0);
    }
}
