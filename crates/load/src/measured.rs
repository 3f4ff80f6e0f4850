//! What a load gave: counts, times, and what the generator says of itself. Plain data that can be
//! written to a file, read back, and added to the data of other generators without loss.
//!
//! Start reading at [`Measured`].

mod account;
mod latency;
mod replies;
mod row;
mod thread;
mod tick;
mod verdict;

pub use account::Account;
pub use latency::Latency;
pub use replies::Replies;
pub use row::Row;
pub use thread::ThreadReport;
pub use tick::{Tick, Timeline};

use crate::books::Class;
use crate::latency::effective_concurrency;
use serde::{Deserialize, Serialize};

/// What a load gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// When it began, in milliseconds after 1970.
    pub began_epoch_ms: u64,
    /// From the end of the warm-up to the last answer of a load that ends by requests, or to the
    /// end of sending of one that ends by time. Rates refer to it.
    pub elapsed_ns: u64,
    /// Answers that were good and came within [`Measured::elapsed_ns`]: those of throughput.
    pub ok_in_time: u64,
    /// Time that requests were under way within [`Measured::elapsed_ns`], added up: of one that began before or ended
    /// after it, the part within. Absent in files that were written without it.
    #[serde(default)]
    pub under_way_ns: Option<u64>,
    /// Everything after the warm-up.
    pub account: Account,
    /// The requests of the warm-up, which are in no other figure.
    pub warmup: Account,
    /// The course of the load.
    pub timeline: Timeline,
    /// What each thread of each generator says of itself.
    pub threads: Vec<ThreadReport>,
    /// The most connections that were open at once.
    pub most_connections: u32,
    /// An open load needed more connections than it may have.
    pub reached_most_connections: bool,
    /// It was interrupted.
    pub is_interrupted: bool,
    /// A row for every request, in the order of their ends, where asked for.
    pub rows: Vec<Row>,
}

impl Measured {
    /// Good answers per second.
    pub fn throughput(&self) -> Option<f64> {
        (self.elapsed_ns > 0).then(|| self.ok_in_time as f64 / (self.elapsed_ns as f64 / 1e9))
    }

    /// Whether requests failed in the way in which they do when a server dies.
    pub fn has_lost_server(&self) -> bool {
        let mut classes = Class::all().filter(|class| class.is_of_lost_server());
        classes.any(|class| self.account.books.errors(class) > 0)
    }

    /// Requests under way on average, by Little's law; `None` without a duration.
    pub fn effective_concurrency(&self) -> Option<f64> {
        match self.under_way_ns {
            Some(sum_ns) => (self.elapsed_ns > 0).then(|| sum_ns as f64 / self.elapsed_ns as f64),
            None => {
                let service = self.account.latency.all_sent().service;
                effective_concurrency(&service, self.elapsed_ns)
            }
        }
    }

    /// Adds what another generator gave that sent its part of the same load at the same time.
    pub fn merge(&mut self, other: Measured) {
        self.began_epoch_ms = self.began_epoch_ms.min(other.began_epoch_ms);
        self.elapsed_ns = self.elapsed_ns.max(other.elapsed_ns);
        self.ok_in_time += other.ok_in_time;
        let both = self.under_way_ns.zip(other.under_way_ns);
        self.under_way_ns = both.map(|(mine, theirs)| mine + theirs);
        self.account.merge(&other.account);
        self.warmup.merge(&other.warmup);
        self.timeline.merge(&other.timeline);
        self.threads.extend(other.threads);
        self.most_connections += other.most_connections;
        self.reached_most_connections |= other.reached_most_connections;
        self.is_interrupted |= other.is_interrupted;
        self.rows.extend(other.rows);
        self.rows.sort_by_key(|row| row.end_ns);
    }
}
