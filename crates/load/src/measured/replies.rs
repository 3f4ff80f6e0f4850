//! What the answers were like, as far as it may be a sign of a wrong experiment.

use serde::{Deserialize, Serialize};

/// Properties of whole answers with a good status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Replies {
    /// Whole answers that were counted here.
    pub count: u64,
    /// Bytes of the first body.
    pub first_body_bytes: Option<u64>,
    /// Bytes of the shortest body.
    pub least_body_bytes: u64,
    /// Bytes of the longest body.
    pub greatest_body_bytes: u64,
    /// Bodies whose length is not that of the first.
    pub other_lengths: u64,
    /// Answers whose connection may be used again.
    pub reusable: u64,
    /// Answers with both Transfer-Encoding and Content-Length (RFC 9112, section 6.1).
    pub doubtful_framing: u64,
    /// Connections closed because unexpected bytes arrived.
    pub stray_bytes: u64,
}

impl Replies {
    /// Empty counts for the time after these, which still know the first body.
    pub fn following(&self) -> Replies {
        Replies {
            first_body_bytes: self.first_body_bytes,
            least_body_bytes: self.least_body_bytes,
            greatest_body_bytes: self.greatest_body_bytes,
            ..Replies::default()
        }
    }

    /// Counts a whole answer.
    pub fn count(&mut self, body_bytes: u64, is_reusable: bool, is_doubtful: bool) {
        match self.first_body_bytes {
            None => {
                self.first_body_bytes = Some(body_bytes);
                self.least_body_bytes = body_bytes;
                self.greatest_body_bytes = body_bytes;
            }
            Some(first) => {
                self.other_lengths += u64::from(first != body_bytes);
                self.least_body_bytes = self.least_body_bytes.min(body_bytes);
                self.greatest_body_bytes = self.greatest_body_bytes.max(body_bytes);
            }
        }
        self.count += 1;
        self.reusable += u64::from(is_reusable);
        self.doubtful_framing += u64::from(is_doubtful);
    }

    /// Adds the answers of another thread or time. If its first body had another length, so had at
    /// least those of its answers that were like it.
    pub fn merge(&mut self, other: &Replies) {
        match (self.first_body_bytes, other.first_body_bytes) {
            (_, None) => {}
            (None, Some(_)) => {
                self.first_body_bytes = other.first_body_bytes;
                self.least_body_bytes = other.least_body_bytes;
                self.greatest_body_bytes = other.greatest_body_bytes;
                self.other_lengths += other.other_lengths;
            }
            (Some(mine), Some(theirs)) => {
                self.least_body_bytes = self.least_body_bytes.min(other.least_body_bytes);
                self.greatest_body_bytes = self.greatest_body_bytes.max(other.greatest_body_bytes);
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

    /// Whether bodies differed in length.
    pub fn lengths_vary(&self) -> bool {
        self.least_body_bytes != self.greatest_body_bytes
    }
}
