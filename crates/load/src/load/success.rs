//! What counts as a good answer.

/// What the body of a good answer is like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyRule {
    /// So many bytes.
    Length(u64),
    /// It contains these bytes, among its first [`BodyRule::WATCHED_BYTES`].
    Contains(Vec<u8>),
}

impl BodyRule {
    /// Bytes of a body that are looked at.
    pub const WATCHED_BYTES: usize = 1 << 20;
}

/// What counts as success.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Success {
    /// Statuses that are good; 200 to 299 if there are none.
    pub statuses: Vec<std::ops::RangeInclusive<u16>>,
    /// What a body must be like.
    pub body: Option<BodyRule>,
}

impl Success {
    /// Whether a whole answer with this status is a good one, its body aside.
    pub fn admits(&self, status: u16) -> bool {
        match self.statuses.is_empty() {
            true => (200..300).contains(&status),
            false => self.statuses.iter().any(|range| range.contains(&status)),
        }
    }
}
