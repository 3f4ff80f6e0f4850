//! What comparing a thing with itself showed of a machine.

/// The false alarms of one calibration, and how many were to be expected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Calibration {
    /// Number of the session that was measured for it.
    pub session: i64,
    /// When that session began, in milliseconds since the Unix epoch.
    pub started_unix_ms: i64,
    /// Comparisons of the same thing.
    pub comparisons: u32,
    /// How many of them found a difference.
    pub false_alarms: u32,
    /// The fewest false alarms to be expected.
    pub expected_low: u32,
    /// The most false alarms to be expected.
    pub expected_high: u32,
}

impl Calibration {
    /// Whether the machine gave as many false alarms as the test promises.
    pub fn is_in_range(&self) -> bool {
        (self.expected_low..=self.expected_high).contains(&self.false_alarms)
    }
}
