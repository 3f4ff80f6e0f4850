//! A quantile, and whether it is known or only bounded.

/// A time that a share of the values does not exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quantile {
    /// In nanoseconds.
    pub ns: u64,
    /// The true value may be longer: at this place there are requests without an end, or values
    /// beyond the range.
    pub is_lower_bound: bool,
}
