//! Connections, and which requests went over new and over used ones.

use serde::{Deserialize, Serialize};

/// Counts of connections and of the requests sent on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Connections {
    /// Attempts to connect.
    pub tried: u64,
    /// Attempts that led to a connection, with TLS where it was asked for.
    pub opened: u64,
    /// Attempts that did not.
    pub failed: u64,
    /// Attempts under way when the counts were closed.
    pub pending: u64,
    /// Requests and retries written, in whole or in part.
    pub sends: u64,
    /// Those that were the first on their connection.
    pub first_sends: u64,
    /// Those that went over a connection that had been used before.
    pub reused_sends: u64,
}

impl Connections {
    /// An attempt begins.
    pub fn attempt(&mut self) {
        self.tried += 1;
    }

    /// An attempt led to a connection.
    pub fn opened(&mut self) {
        self.opened += 1;
    }

    /// An attempt did not.
    pub fn failed(&mut self) {
        self.failed += 1;
    }

    /// A request is written on a connection.
    pub fn send(&mut self, is_reused: bool) {
        self.sends += 1;
        if is_reused {
            self.reused_sends += 1
        } else {
            self.first_sends += 1
        }
    }

    pub(super) fn merge(&mut self, other: &Connections) {
        self.tried += other.tried;
        self.opened += other.opened;
        self.failed += other.failed;
        self.pending += other.pending;
        self.sends += other.sends;
        self.first_sends += other.first_sends;
        self.reused_sends += other.reused_sends;
    }
}
