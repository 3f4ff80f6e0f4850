//! Counts the outcome of every request.
//!
//! A request is counted once when it is attempted, and once when it ends with an outcome.
//! [`OutcomeCounts::check_balance`] compares the two sums, which reveals whether the client lost
//! track of a request. Counting does not allocate. Start at [`OutcomeCounts`]. [`ErrorClass`] names
//! the failures.

mod error_class;

pub use error_class::ErrorClass;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Bytes on the wire, as counted at the client's socket calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WireBytes {
    /// Bytes written, including protocol overhead such as TLS records.
    pub sent: u64,
    /// Bytes read, including protocol overhead such as TLS records.
    pub received: u64,
    /// Bytes of response bodies, which are part of `received`.
    pub body: u64,
}

/// Number of requests by outcome, for one thread, one generator or a whole load. Files name the
/// error classes and codes that occurred.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OutcomeCounts {
    attempted: u64,
    ok: u64,
    errors: ErrorCounts,
    /// Requests in flight when the load ended. The number must come from the connections. If it
    /// came from these counts, they would be checked against themselves.
    pub in_flight: u64,
    /// Requests that the client cancelled, for example after Ctrl-C.
    pub cancelled: u64,
    /// Requests that were due but not sent when the load ended.
    pub unsent: u64,
    /// Retries. The attempts do not include them.
    pub retries: u64,
    /// Status codes of complete responses.
    #[serde(rename = "status")]
    pub codes: StatusCounts,
    /// Status codes of interim responses, from 100 to 199.
    #[serde(rename = "interim")]
    pub interim_codes: StatusCounts,
    h2_reset: ResetCodes,
    /// HTTP/2 streams that were reset with a code that the protocol does not define.
    h2_reset_unknown: u64,
    /// Absent from the file if no HTTP/3 stream was reset.
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    h3_reset: Http3ResetCodes,
    #[serde(default, skip_serializing_if = "crate::session::is_default")]
    h3_reset_unknown: u64,
    /// Counts of connections, and of the requests sent on new and on reused connections.
    pub connections: ConnectionCounts,
    /// Bytes on the wire.
    pub bytes: WireBytes,
}

/// Number of failures by class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "BTreeMap<String, u64>", try_from = "BTreeMap<String, u64>")]
struct ErrorCounts([u64; ErrorClass::COUNT]);

impl Default for ErrorCounts {
    fn default() -> ErrorCounts {
        ErrorCounts([0; ErrorClass::COUNT])
    }
}

impl From<ErrorCounts> for BTreeMap<String, u64> {
    fn from(errors: ErrorCounts) -> BTreeMap<String, u64> {
        let counts = ErrorClass::all_classes().zip(errors.0).filter(|(_, count)| *count > 0);
        counts.map(|(class, count)| (class.name().to_owned(), count)).collect()
    }
}

impl TryFrom<BTreeMap<String, u64>> for ErrorCounts {
    type Error = String;

    fn try_from(stored: BTreeMap<String, u64>) -> Result<ErrorCounts, String> {
        let mut errors = ErrorCounts::default();
        for (name, count) in stored {
            let class = ErrorClass::from_name(&name)
                .ok_or_else(|| format!("unknown error class '{name}'"))?;
            errors.0[class.index()] = count;
        }
        Ok(errors)
    }
}

impl OutcomeCounts {
    /// Counts a request that is due. Later, one of the methods below must count its outcome.
    pub fn count_attempt(&mut self) {
        self.attempted += 1;
    }

    /// Counts a complete, successful response with this status.
    pub fn count_ok(&mut self, code: u16) {
        self.ok += 1;
        self.codes.count_status(code);
    }

    /// Counts a complete response with this status that is a failure: of the class `Status`, or of
    /// the class `Assertion` if it is not the expected response.
    pub fn count_failed_response(&mut self, class: ErrorClass, code: u16) {
        self.count_failed(class);
        self.codes.count_status(code);
    }

    /// Counts an HTTP/2 stream that the server reset with this code (RFC 9113, section 7).
    pub fn count_reset_stream(&mut self, code: u32) {
        self.count_failed(ErrorClass::H2Reset);
        *self.h2_reset.counter(code).unwrap_or(&mut self.h2_reset_unknown) += 1;
    }

    /// Counts an HTTP/3 stream that the server reset with this code (RFC 9114, section 8.1).
    pub fn count_reset_http3_stream(&mut self, code: u64) {
        self.count_failed(ErrorClass::H3Reset);
        // HTTP/3 codes have up to 62 bits. A code that exceeds 32 bits is counted as unknown.
        let counter = self.h3_reset.counter(u32::try_from(code).unwrap_or(u32::MAX));
        *counter.unwrap_or(&mut self.h3_reset_unknown) += 1;
    }

    /// Counts a request that failed without a complete response. The classes `Status`, `Assertion`,
    /// `H2Reset` and `H3Reset` have their own methods, which also count the status or the reset
    /// code. [`OutcomeCounts::check_balance`] detects it if this method counts such a failure by
    /// mistake.
    pub fn count_failed(&mut self, class: ErrorClass) {
        self.errors.0[class.index()] += 1;
    }

    /// Number of requests that were due.
    pub fn attempts(&self) -> u64 {
        self.attempted
    }

    /// Number of successful requests.
    pub fn succeeded(&self) -> u64 {
        self.ok
    }

    /// Number of requests that failed with this class.
    pub fn errors(&self, class: ErrorClass) -> u64 {
        self.errors.0[class.index()]
    }

    /// Number of failed requests.
    pub fn all_errors(&self) -> u64 {
        self.errors.0.iter().sum()
    }

    /// Adds the counts of another thread or process.
    pub fn merge(&mut self, other: &OutcomeCounts) {
        self.attempted += other.attempted;
        self.ok += other.ok;
        self.errors.0.iter_mut().zip(&other.errors.0).for_each(|(mine, theirs)| *mine += theirs);
        self.cancelled += other.cancelled;
        self.unsent += other.unsent;
        self.in_flight += other.in_flight;
        self.retries += other.retries;
        self.codes.merge(&other.codes);
        self.interim_codes.merge(&other.interim_codes);
        self.h2_reset.merge(&other.h2_reset);
        self.h2_reset_unknown += other.h2_reset_unknown;
        self.h3_reset.merge(&other.h3_reset);
        self.h3_reset_unknown += other.h3_reset_unknown;
        self.connections.merge(&other.connections);
        self.bytes.sent += other.bytes.sent;
        self.bytes.received += other.bytes.received;
        self.bytes.body += other.bytes.body;
    }
}

/// Counts of connections and of the requests sent on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ConnectionCounts {
    /// Connection attempts.
    pub tried: u64,
    /// Successful attempts, including TLS if requested.
    pub opened: u64,
    /// Failed attempts.
    pub failed: u64,
    /// Attempts pending when the load ended.
    pub pending: u64,
    /// Requests and retries written, completely or partly.
    pub sends: u64,
    /// Requests that were the first on their connection.
    pub first_sends: u64,
    /// Requests on a reused connection.
    pub reused_sends: u64,
}

impl ConnectionCounts {
    /// Counts a request written to a connection.
    pub fn count_send(&mut self, is_reused: bool) {
        self.sends += 1;
        if is_reused { self.reused_sends += 1 } else { self.first_sends += 1 }
    }

    fn merge(&mut self, other: &ConnectionCounts) {
        self.tried += other.tried;
        self.opened += other.opened;
        self.failed += other.failed;
        self.pending += other.pending;
        self.sends += other.sends;
        self.first_sends += other.first_sends;
        self.reused_sends += other.reused_sends;
    }
}

// The code below checks whether the counts add up, and reports any two counts that differ.

/// Number of requests with one outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutcomeCount {
    /// `ok`, the name of an [`ErrorClass`], `in-flight`, `cancelled` or `unsent`.
    pub name: &'static str,
    /// Number of requests with this outcome.
    pub count: u64,
}

/// Two counts that should be equal but differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("count mismatch: {left} {left_name}, {right} {right_name}")]
pub struct CountImbalance {
    /// Name of the first count.
    pub left_name: &'static str,
    /// Value of the first count.
    pub left: u64,
    /// Name of the second count.
    pub right_name: &'static str,
    /// Value of the second count.
    pub right: u64,
}

impl OutcomeCounts {
    /// Iterates over all outcomes with their counts, in a fixed order. The sum of the counts is the
    /// number of attempts.
    pub fn rows(&self) -> impl Iterator<Item = OutcomeCount> + '_ {
        let row = |name, count| OutcomeCount { name, count };
        let errors =
            ErrorClass::all_classes().map(move |class| row(class.name(), self.errors(class)));
        let last = [
            row("in-flight", self.in_flight),
            row("cancelled", self.cancelled),
            row("unsent", self.unsent),
        ];
        std::iter::once(row("ok", self.ok)).chain(errors).chain(last)
    }

    /// Number of requests whose outcome has this [name](OutcomeCount::name); 0 for other names.
    pub fn count_of(&self, outcome: &str) -> u64 {
        self.rows().find(|row| row.name == outcome).map_or(0, |row| row.count)
    }

    /// Pairs of counts that must be equal.
    fn balanced_pairs(&self) -> [CountImbalance; 8] {
        let pair = |left_name, left, right_name, right| CountImbalance {
            left_name,
            left,
            right_name,
            right,
        };
        let ended: u64 = self.rows().map(|row| row.count).sum();
        let answered: u64 = ErrorClass::all_classes()
            .filter(|class| class.has_response())
            .map(|class| self.errors(class))
            .sum();
        let lines = &self.connections;
        let settled = lines.opened + lines.failed + lines.pending;
        let sends = lines.first_sends + lines.reused_sends;
        let [h2_resets, h3_resets] =
            [ErrorClass::H2Reset, ErrorClass::H3Reset].map(|class| self.errors(class));
        let h2_codes = self.h2_reset.total() + self.h2_reset_unknown;
        let h3_codes = self.h3_reset.total() + self.h3_reset_unknown;
        let (interim, from_100) = (self.interim_codes.total(), self.interim_codes.class_count(1));
        let excess = self.bytes.body.saturating_sub(self.bytes.received);
        [
            pair("requests attempted", self.attempted, "requests accounted for", ended),
            pair("complete responses", self.ok + answered, "counted statuses", self.codes.total()),
            pair("reset streams", h2_resets, "counted reset codes", h2_codes),
            pair("reset HTTP/3 streams", h3_resets, "counted HTTP/3 reset codes", h3_codes),
            pair("interim responses", interim, "statuses from 100 to 199", from_100),
            pair("attempts to connect", lines.tried, "connections accounted for", settled),
            pair("requests written", lines.sends, "requests on new and used connections", sends),
            pair("body bytes in excess of the bytes received", excess, "expected", 0),
        ]
    }

    /// Verifies that the counts add up. Set [`OutcomeCounts::in_flight`] first: incomplete
    /// counts do not add up.
    ///
    /// # Errors
    /// Returns the pairs of counts that differ.
    pub fn check_balance(&self) -> Result<(), Vec<CountImbalance>> {
        let pairs = self.balanced_pairs().into_iter();
        let imbalances: Vec<_> = pairs.filter(|pair| pair.left != pair.right).collect();
        if imbalances.is_empty() { Ok(()) } else { Err(imbalances) }
    }
}

// Counts of responses by status code, and of reset streams by reset code.

/// Status codes that are counted individually. An HTTP status code has three digits (RFC 9110,
/// section 15).
const COUNTED_STATUSES: std::ops::Range<u16> = 100..1000;

/// Number of counters in [`ResetCodes`]: enough for HTTP/3, the protocol with the most codes.
const RESET_CODE_COUNT: usize = 17;

/// The form of [`StatusCounts`] in files. `outside` is the number of responses whose status does not
/// have three digits.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct StoredStatuses {
    codes: BTreeMap<u16, u64>,
    outside: u64,
}

impl From<StatusCounts> for StoredStatuses {
    fn from(codes: StatusCounts) -> StoredStatuses {
        StoredStatuses { codes: codes.nonzero_counts().collect(), outside: codes.outside }
    }
}

impl From<StoredStatuses> for StatusCounts {
    fn from(stored: StoredStatuses) -> StatusCounts {
        let mut codes = StatusCounts::default();
        stored.codes.into_iter().for_each(|(code, count)| codes.add_statuses(code, count));
        codes.outside += stored.outside;
        codes
    }
}

/// Number of responses by status code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "StoredStatuses", from = "StoredStatuses")]
pub struct StatusCounts {
    counts: Box<[u64; 900]>,
    /// Number of responses whose status does not have three digits.
    pub outside: u64,
}

impl Default for StatusCounts {
    fn default() -> StatusCounts {
        StatusCounts { counts: Box::new([0; 900]), outside: 0 }
    }
}

impl StatusCounts {
    /// Counts one response.
    pub fn count_status(&mut self, code: u16) {
        self.add_statuses(code, 1);
    }

    /// Counts several responses with the same status.
    fn add_statuses(&mut self, code: u16, count: u64) {
        let index = code.checked_sub(COUNTED_STATUSES.start).map(usize::from);
        let counter = index.and_then(|index| self.counts.get_mut(index));
        *counter.unwrap_or(&mut self.outside) += count;
    }

    /// Number of responses with this status.
    pub fn count_of(&self, code: u16) -> u64 {
        let index = code.checked_sub(COUNTED_STATUSES.start).map(usize::from);
        index.and_then(|index| self.counts.get(index)).copied().unwrap_or(0)
    }

    /// Number of responses in the status class with this first digit, for example 200 to 299 for 2.
    pub fn class_count(&self, hundred: u16) -> u64 {
        let first = hundred.saturating_mul(100);
        (first..first.saturating_add(100)).map(|code| self.count_of(code)).sum()
    }

    /// Iterates over the statuses that occurred, each with its count, in ascending order.
    pub fn nonzero_counts(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        COUNTED_STATUSES.zip(self.counts.iter().copied()).filter(|(_, count)| *count > 0)
    }

    /// Total number of responses.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum::<u64>() + self.outside
    }

    fn merge(&mut self, other: &StatusCounts) {
        self.counts.iter_mut().zip(other.counts.iter()).for_each(|(mine, theirs)| *mine += theirs);
        self.outside += other.outside;
    }
}

/// Number of stream resets by code. The protocol defines the codes `FIRST` to `LAST`. The default
/// is HTTP/2, with the codes 0x0 to 0xd (RFC 9113, section 7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(into = "BTreeMap<u32, u64>", from = "BTreeMap<u32, u64>")]
struct ResetCodes<const FIRST: u32 = 0x0, const LAST: u32 = 0xd>([u64; RESET_CODE_COUNT]);

/// Number of stream resets by HTTP/3 code: 0x100 to 0x110 (RFC 9114, section 8.1).
type Http3ResetCodes = ResetCodes<0x100, 0x110>;

impl<const FIRST: u32, const LAST: u32> ResetCodes<FIRST, LAST> {
    /// The counter of a code; `None` if the protocol does not define the code.
    fn counter(&mut self, code: u32) -> Option<&mut u64> {
        self.0.get_mut((FIRST..=LAST).position(|defined| defined == code)?)
    }

    fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(mine, theirs)| *mine += theirs);
    }
}

impl<const FIRST: u32, const LAST: u32> From<ResetCodes<FIRST, LAST>> for BTreeMap<u32, u64> {
    fn from(resets: ResetCodes<FIRST, LAST>) -> BTreeMap<u32, u64> {
        (FIRST..=LAST).zip(resets.0).filter(|(_, count)| *count > 0).collect()
    }
}

impl<const FIRST: u32, const LAST: u32> From<BTreeMap<u32, u64>> for ResetCodes<FIRST, LAST> {
    fn from(stored: BTreeMap<u32, u64>) -> ResetCodes<FIRST, LAST> {
        ResetCodes(std::array::from_fn(|index| {
            stored.get(&(FIRST + index as u32)).copied().unwrap_or(0)
        }))
    }
}

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
