//! When the next request is due.
//!
//! A pace is data: closed (a number of clients, each of which waits for its answer) or open (a
//! schedule that does not care about answers). Nothing here sleeps or reads a clock. Start reading
//! at [`Schedule`], the arithmetic of the open model, then [`Share`], one thread's part of it.

mod schedule;

pub use schedule::{
    Due, FOREVER_NS, PaceError, Rate, Schedule, Share, Spacing, Stage, Stop, part_of,
};

use schedule::Exponential;

/// How requests are paced.
#[derive(Debug, Clone, PartialEq)]
pub enum Pace {
    /// Each client sends its next request when it has its answer. Only service time has a meaning.
    Closed(Closed),
    /// Requests are sent when the schedule says, whatever the server does.
    Open(Schedule),
}

// The closed model: clients that wait for their answer, and perhaps think before the next request.

/// A number of clients, each with at most one request on its way.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Closed {
    /// Clients at once.
    pub concurrency: u32,
    /// What a client does between an answer and its next request.
    pub think: Think,
}

/// The pause of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Think {
    /// The next request follows at once.
    None,
    /// The same pause each time, in nanoseconds.
    Fixed(u64),
    /// Pauses of random length.
    Exponential {
        /// Their mean in nanoseconds.
        mean_ns: u64,
        /// What the pauses follow from.
        seed: u64,
    },
}

impl Closed {
    /// Checks the number of clients.
    ///
    /// # Errors
    /// Without a client.
    pub fn new(concurrency: u32, think: Think) -> Result<Closed, PaceError> {
        match concurrency {
            0 => Err(PaceError::NoClients),
            _ => Ok(Closed { concurrency, think }),
        }
    }

    /// Clients of one thread out of `threads`.
    pub fn clients_of(&self, thread: u32, threads: u32) -> u32 {
        // At most `concurrency`, so it fits.
        part_of(u64::from(self.concurrency), thread, threads) as u32
    }
}

/// The pauses of one client.
#[derive(Debug, Clone)]
pub struct Thinker {
    mean_ns: u64,
    random: Option<Exponential>,
}

impl Thinker {
    /// The pauses of client number `client`; clients with the same seed think independently.
    pub fn new(think: Think, client: u32) -> Thinker {
        match think {
            Think::None => Thinker {
                mean_ns: 0,
                random: None,
            },
            Think::Fixed(mean_ns) => Thinker {
                mean_ns,
                random: None,
            },
            Think::Exponential { mean_ns, seed } => Thinker {
                mean_ns,
                // The golden ratio's bits spread neighbouring numbers over the whole range
                // (Steele, Lea and Flood 2014, SplitMix).
                random: Some(Exponential::new(
                    seed ^ u64::from(client).wrapping_mul(0x9e37_79b9_7f4a_7c15),
                )),
            },
        }
    }

    /// How long the client thinks now, in nanoseconds.
    pub fn next_ns(&mut self) -> u64 {
        match &mut self.random {
            None => self.mean_ns,
            Some(random) => (random.draw() * self.mean_ns as f64).round() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_client_belongs_to_one_thread() {
        let closed = Closed::new(50, Think::None).unwrap();
        let parts: Vec<u32> = (0..4).map(|thread| closed.clients_of(thread, 4)).collect();
        assert_eq!(parts, [13, 13, 12, 12]);
        assert_eq!(Closed::new(0, Think::None), Err(PaceError::NoClients));
    }

    #[test]
    fn random_pauses_have_their_mean_and_differ_between_clients() {
        let think = Think::Exponential {
            mean_ns: 2_000_000,
            seed: 7,
        };
        let pauses = |client| -> Vec<u64> {
            let mut thinker = Thinker::new(think, client);
            (0..100_000).map(|_| thinker.next_ns()).collect()
        };
        let first = pauses(0);
        let mean = first.iter().sum::<u64>() as f64 / 1e5;
        // The standard error is 2 ms / sqrt(100 000) = 6325 ns; four of them.
        assert!((mean - 2e6).abs() < 4.0 * 6325.0, "mean {mean}");
        assert_ne!(first[..10], pauses(1)[..10]);
        assert_eq!(Thinker::new(Think::Fixed(5), 3).next_ns(), 5);
        assert_eq!(Thinker::new(Think::None, 3).next_ns(), 0);
    }
}
