//! How busy processes and the machine are, as a live view shows it.

/// What processes and the machine did since the last one. What the kernel does not report is absent; shares are parts of 1.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Snapshot {
    /// Processors that the processes kept busy: 1 is one processor all the time.
    pub cpus: Option<f64>,
    /// Their resident memory, in bytes.
    pub rss_bytes: Option<u64>,
    /// Context switches of all their threads, per second: those they asked for, by waiting.
    pub voluntary_per_s: Option<f64>,
    /// Those they were forced to.
    pub involuntary_per_s: Option<f64>,
    /// Share of the machine's processor time that its host gave to others.
    pub steal: Option<f64>,
    /// Share of the last ten seconds in which some task waited for a processor.
    pub pressure: Option<f64>,
}
