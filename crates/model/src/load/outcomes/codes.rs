//! Counts responses by status code, and reset streams by reset code.

/// Status codes that are counted individually. An HTTP status code has three digits (RFC 9110,
/// section 15).
const COUNTED_STATUSES: std::ops::Range<u16> = 100..1000;

/// Number of counters in [`ResetCodes`]: enough for HTTP/3, the protocol with the most codes.
const RESET_CODE_COUNT: usize = 17;

/// Number of responses by status code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusCounts {
    counts: Box<[u64; 900]>,
    outside: u64,
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
    pub(super) fn add_statuses(&mut self, code: u16, count: u64) {
        if COUNTED_STATUSES.contains(&code) {
            self.counts[usize::from(code - COUNTED_STATUSES.start)] += count
        } else {
            self.outside += count
        }
    }

    /// Number of responses with this status.
    pub fn count_of(&self, code: u16) -> u64 {
        if COUNTED_STATUSES.contains(&code) {
            self.counts[usize::from(code - COUNTED_STATUSES.start)]
        } else {
            0
        }
    }

    /// Number of responses in the status class with this first digit, for example 200 to 299 for 2.
    pub fn class_count(&self, hundred: u16) -> u64 {
        let first = hundred.saturating_mul(100);
        (first..first.saturating_add(100)).map(|code| self.count_of(code)).sum()
    }

    /// Number of responses whose status does not have three digits.
    pub fn count_outside(&self) -> u64 {
        self.outside
    }

    /// Iterates over the statuses that occurred, each with its count, in ascending order.
    pub fn nonzero_counts(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        COUNTED_STATUSES.zip(self.counts.iter().copied()).filter(|(_, count)| *count > 0)
    }

    /// Total number of responses.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum::<u64>() + self.outside
    }

    pub(super) fn merge(&mut self, other: &StatusCounts) {
        for (mine, theirs) in self.counts.iter_mut().zip(other.counts.iter()) {
            *mine += theirs;
        }
        self.outside += other.outside;
    }

    pub(super) fn add_outside(&mut self, count: u64) {
        self.outside += count;
    }
}

/// Number of stream resets by code. The protocol defines the codes `FIRST` to `LAST`. The default
/// is HTTP/2, with the codes 0x0 to 0xd (RFC 9113, section 7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResetCodes<const FIRST: u32 = 0x0, const LAST: u32 = 0xd> {
    counts: [u64; RESET_CODE_COUNT],
    unknown: u64,
}

/// Number of stream resets by HTTP/3 code: 0x100 to 0x110 (RFC 9114, section 8.1).
pub type Http3ResetCodes = ResetCodes<0x100, 0x110>;

impl<const FIRST: u32, const LAST: u32> ResetCodes<FIRST, LAST> {
    /// Counts one reset stream.
    pub fn count_reset(&mut self, code: u32) {
        self.add_resets(code, 1);
    }

    /// Counts several reset streams. A code that the protocol does not define counts as unknown.
    pub(super) fn add_resets(&mut self, code: u32, count: u64) {
        let counter = (FIRST..=LAST)
            .contains(&code)
            .then(|| (code - FIRST) as usize)
            .and_then(|counter| self.counts.get_mut(counter));
        match counter {
            Some(counter) => *counter += count,
            None => self.unknown += count,
        }
    }

    /// Iterates over the codes that occurred, each with its count, in ascending order.
    pub fn nonzero_counts(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        (FIRST..=LAST).zip(self.counts).filter(|(_, count)| *count > 0)
    }

    /// Number of streams reset with a code that the protocol does not define.
    pub fn unknown(&self) -> u64 {
        self.unknown
    }

    /// Total number of reset streams.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum::<u64>() + self.unknown
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(other.counts) {
            *mine += theirs;
        }
        self.unknown += other.unknown;
    }
}
