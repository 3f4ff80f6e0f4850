//! What became of every request.
//!
//! A request enters the counts once, when it is attempted, and leaves them once, by one of a few
//! doors. The two sides are counted apart and [`OutcomeCounts::balance`] compares them, so a request that a
//! client lost is found instead of forgotten. Nothing is allocated while counting. Start reading at
//! [`OutcomeCounts`], then [`ErrorClass`], the names of the failures.

mod balance;
mod codes;
mod connections;
mod error_class;
mod stored;

pub use balance::{Imbalance, OutcomeCount};
pub use codes::{Codes, Http3ResetCodes, ResetCodes};
pub use connections::Connections;
pub use error_class::ErrorClass;
pub use stored::StoredError;

use serde::{Deserialize, Serialize};

/// Bytes on the wire, as the client's socket calls counted them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Bytes {
    /// Written, heads and bodies.
    pub sent: u64,
    /// Read, heads and bodies.
    pub received: u64,
    /// Of what was read, the bodies of answers.
    pub body: u64,
}

/// The counts of one thread, one generator, or a whole load.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(into = "stored::Stored", try_from = "stored::Stored")]
pub struct OutcomeCounts {
    attempted: u64,
    ok: u64,
    errors: Errors,
    cancelled: u64,
    unsent: u64,
    in_flight: u64,
    retries: u64,
    codes: Codes,
    interim: Codes,
    resets: ResetCodes,
    resets_of_http3: Http3ResetCodes,
    /// Connections, and requests by the connection that they went over.
    pub connections: Connections,
    /// Bytes on the wire.
    pub bytes: Bytes,
}

/// How many requests failed in each way.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Errors([u64; ErrorClass::COUNT]);

impl Default for Errors {
    fn default() -> Errors {
        Errors([0; ErrorClass::COUNT])
    }
}

impl OutcomeCounts {
    /// Empty counts.
    pub fn new() -> OutcomeCounts {
        OutcomeCounts::default()
    }

    /// A request is due: it will leave by one of the doors below.
    pub fn attempt(&mut self) {
        self.attempted += 1;
    }

    /// A whole answer with this status, which is what was asked for.
    pub fn ok(&mut self, code: u16) {
        self.ok += 1;
        self.codes.count(code);
    }

    /// A whole answer whose status counts as failure.
    pub fn refused_status(&mut self, code: u16) {
        self.errors.0[ErrorClass::Status.index()] += 1;
        self.codes.count(code);
    }

    /// A whole answer with this status, but not with what was asked for.
    pub fn failed_assertion(&mut self, code: u16) {
        self.errors.0[ErrorClass::Assertion.index()] += 1;
        self.codes.count(code);
    }

    /// An HTTP/2 stream that the server reset with this code (RFC 9113, section 7).
    pub fn reset_stream(&mut self, code: u32) {
        self.errors.0[ErrorClass::H2Reset.index()] += 1;
        self.resets.count(code);
    }

    /// An HTTP/3 stream that the server reset with this code (RFC 9114, section 8.1).
    pub fn reset_http3_stream(&mut self, code: u64) {
        self.errors.0[ErrorClass::H3Reset.index()] += 1;
        // Codes have up to 62 bits; those beyond the table are counted as unknown.
        self.resets_of_http3
            .count(u32::try_from(code).unwrap_or(u32::MAX));
    }

    /// A request that failed without a whole answer. A status, an assertion and a reset stream have
    /// doors of their own, because their codes are counted; [`OutcomeCounts::balance`] finds them if they
    /// leave by this one.
    pub fn failed(&mut self, class: ErrorClass) {
        self.errors.0[class.index()] += 1;
    }

    /// A request that the client gave up for a reason of its own, such as Ctrl-C.
    pub fn cancelled(&mut self) {
        self.cancelled += 1;
    }

    /// A request that was due but had not been sent when the load ended.
    pub fn unsent(&mut self) {
        self.unsent += 1;
    }

    /// A request was sent again. It stays one request: a retry is no further attempt.
    pub fn retried(&mut self) {
        self.retries += 1;
    }

    /// An answer before the answer, with a status of 100 to 199.
    pub fn interim(&mut self, code: u16) {
        self.interim.count(code);
    }

    /// Closes the counts: so many requests were sent and had no end yet. The number must come from
    /// the connections, never from the counts, or the counts would check themselves.
    pub fn close(&mut self, in_flight: u64) {
        self.in_flight = in_flight;
    }

    /// Requests that were due.
    pub fn attempts(&self) -> u64 {
        self.attempted
    }

    /// Requests that were answered well.
    pub fn succeeded(&self) -> u64 {
        self.ok
    }

    /// Requests that failed in this way.
    pub fn errors(&self, class: ErrorClass) -> u64 {
        self.errors.0[class.index()]
    }

    /// Requests that failed in any way.
    pub fn all_errors(&self) -> u64 {
        self.errors.0.iter().sum()
    }

    /// Requests sent again.
    pub fn retries(&self) -> u64 {
        self.retries
    }

    /// Statuses of whole answers.
    pub fn codes(&self) -> &Codes {
        &self.codes
    }

    /// Statuses of answers before the answer.
    pub fn interim_codes(&self) -> &Codes {
        &self.interim
    }

    /// Codes of reset HTTP/2 streams.
    pub fn reset_codes(&self) -> &ResetCodes {
        &self.resets
    }

    /// Codes of reset HTTP/3 streams.
    pub fn http3_reset_codes(&self) -> &Http3ResetCodes {
        &self.resets_of_http3
    }

    /// Adds the counts of another thread or process. Only whole numbers are added, so the order and
    /// the grouping of several counts do not matter.
    pub fn merge(&mut self, other: &OutcomeCounts) {
        self.attempted += other.attempted;
        self.ok += other.ok;
        for (mine, theirs) in self.errors.0.iter_mut().zip(&other.errors.0) {
            *mine += theirs;
        }
        self.cancelled += other.cancelled;
        self.unsent += other.unsent;
        self.in_flight += other.in_flight;
        self.retries += other.retries;
        self.codes.merge(&other.codes);
        self.interim.merge(&other.interim);
        self.resets.merge(&other.resets);
        self.resets_of_http3.merge(&other.resets_of_http3);
        self.connections.merge(&other.connections);
        self.bytes.sent += other.bytes.sent;
        self.bytes.received += other.bytes.received;
        self.bytes.body += other.bytes.body;
    }
}
