//! Counts properties of responses that may reveal a flaw in the experiment.

use serde::{Deserialize, Serialize};

/// Properties of complete responses with a successful status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ResponseStats {
    /// Number of complete responses.
    pub count: u64,
    /// Length of the first body in bytes.
    pub first_body_bytes: Option<u64>,
    /// Length of the shortest body in bytes.
    #[serde(alias = "least_body_bytes")]
    pub min_body_bytes: u64,
    /// Length of the longest body in bytes.
    #[serde(alias = "greatest_body_bytes")]
    pub max_body_bytes: u64,
    /// Bodies that differ in length from the first.
    pub other_lengths: u64,
    /// Responses after which the connection can be reused.
    pub reusable: u64,
    /// Responses with both Transfer-Encoding and Content-Length (RFC 9112, section 6.1).
    pub doubtful_framing: u64,
    /// Connections closed because unexpected bytes arrived.
    pub stray_bytes: u64,
}

impl ResponseStats {
    /// Returns the stats with which the next period starts: counts of zero, but the same body
    /// lengths, for comparison with later responses.
    pub fn next_period(&self) -> ResponseStats {
        ResponseStats {
            first_body_bytes: self.first_body_bytes,
            min_body_bytes: self.min_body_bytes,
            max_body_bytes: self.max_body_bytes,
            ..ResponseStats::default()
        }
    }

    /// Counts a complete response.
    pub fn count_response(&mut self, body_bytes: u64, is_reusable: bool, is_doubtful: bool) {
        match self.first_body_bytes {
            None => {
                self.first_body_bytes = Some(body_bytes);
                self.min_body_bytes = body_bytes;
                self.max_body_bytes = body_bytes;
            }
            Some(first) => {
                self.other_lengths += u64::from(first != body_bytes);
                self.min_body_bytes = self.min_body_bytes.min(body_bytes);
                self.max_body_bytes = self.max_body_bytes.max(body_bytes);
            }
        }
        self.count += 1;
        self.reusable += u64::from(is_reusable);
        self.doubtful_framing += u64::from(is_doubtful);
    }

    /// Adds the responses of another thread or period. If the first bodies differ in length, all
    /// responses of `other` with the length of its first body count as different. For the remaining
    /// responses of `other`, it is unknown whether they differ, so they do not count as different.
    pub fn merge(&mut self, other: &ResponseStats) {
        match (self.first_body_bytes, other.first_body_bytes) {
            (_, None) => {}
            (None, Some(_)) => {
                self.first_body_bytes = other.first_body_bytes;
                self.min_body_bytes = other.min_body_bytes;
                self.max_body_bytes = other.max_body_bytes;
                self.other_lengths += other.other_lengths;
            }
            (Some(mine), Some(theirs)) => {
                self.min_body_bytes = self.min_body_bytes.min(other.min_body_bytes);
                self.max_body_bytes = self.max_body_bytes.max(other.max_body_bytes);
                self.other_lengths += if mine == theirs {
                    other.other_lengths
                } else {
                    other.count - other.other_lengths
                };
            }
        }
        self.count += other.count;
        self.reusable += other.reusable;
        self.doubtful_framing += other.doubtful_framing;
        self.stray_bytes += other.stray_bytes;
    }

    /// Number of responses after which the server closed the connection.
    pub fn closing(&self) -> u64 {
        self.count.saturating_sub(self.reusable)
    }

    /// Whether body lengths vary.
    pub fn lengths_vary(&self) -> bool {
        self.min_body_bytes != self.max_body_bytes
    }
}
