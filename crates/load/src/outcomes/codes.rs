//! Exact tables of status codes and of the codes that streams are reset with.

/// The codes that have a place of their own; HTTP has three digits (RFC 9110, section 15).
const STATUSES: std::ops::Range<u16> = 100..1000;

/// Places in a table of reset codes: as many as the protocol with the most codes defines.
const RESETS: usize = 17;

/// How often each status came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Codes {
    counts: Box<[u64; 900]>,
    outside: u64,
}

impl Default for Codes {
    fn default() -> Codes {
        Codes {
            counts: Box::new([0; 900]),
            outside: 0,
        }
    }
}

impl Codes {
    /// Counts one answer.
    pub fn count(&mut self, code: u16) {
        self.add(code, 1);
    }

    /// Counts several answers with the same status.
    pub(super) fn add(&mut self, code: u16, count: u64) {
        if STATUSES.contains(&code) {
            self.counts[usize::from(code - STATUSES.start)] += count
        } else {
            self.outside += count
        }
    }

    /// Answers with this status.
    pub fn count_of(&self, code: u16) -> u64 {
        if STATUSES.contains(&code) {
            self.counts[usize::from(code - STATUSES.start)]
        } else {
            0
        }
    }

    /// Answers with a status of this hundred: 2 for 200 to 299.
    pub fn of_hundred(&self, hundred: u16) -> u64 {
        let first = hundred.saturating_mul(100);
        (first..first.saturating_add(100))
            .map(|code| self.count_of(code))
            .sum()
    }

    /// Answers whose status has not three digits.
    pub fn outside(&self) -> u64 {
        self.outside
    }

    /// The statuses that came, with their counts, in order.
    pub fn nonzero(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        STATUSES
            .zip(self.counts.iter().copied())
            .filter(|(_, count)| *count > 0)
    }

    /// All answers.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum::<u64>() + self.outside
    }

    pub(super) fn merge(&mut self, other: &Codes) {
        for (mine, theirs) in self.counts.iter_mut().zip(other.counts.iter()) {
            *mine += theirs;
        }
        self.outside += other.outside;
    }

    pub(super) fn add_outside(&mut self, count: u64) {
        self.outside += count;
    }
}

/// How often each code ended a stream. HTTP/2 defines the codes 0x0 to 0xd (RFC 9113, section 7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResetCodes<const FIRST: u32 = 0x0, const LAST: u32 = 0xd> {
    counts: [u64; RESETS],
    unknown: u64,
}

/// How often each code of HTTP/3 ended a stream: 0x100 to 0x110 (RFC 9114, section 8.1).
pub type Http3ResetCodes = ResetCodes<0x100, 0x110>;

impl<const FIRST: u32, const LAST: u32> ResetCodes<FIRST, LAST> {
    /// Counts one stream.
    pub fn count(&mut self, code: u32) {
        self.add(code, 1);
    }

    /// Counts several; a code that the protocol does not define is counted as unknown.
    pub(super) fn add(&mut self, code: u32, count: u64) {
        let place = (FIRST..=LAST)
            .contains(&code)
            .then(|| (code - FIRST) as usize)
            .and_then(|place| self.counts.get_mut(place));
        match place {
            Some(place) => *place += count,
            None => self.unknown += count,
        }
    }

    /// The codes that came, with their counts, in order.
    pub fn nonzero(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        (FIRST..=LAST)
            .zip(self.counts)
            .filter(|(_, count)| *count > 0)
    }

    /// Streams that ended with a code that the protocol does not define.
    pub fn unknown(&self) -> u64 {
        self.unknown
    }

    /// All streams.
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
