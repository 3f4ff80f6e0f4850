//! What a user may choose about an analysis. Everything else follows from how the data were
//! measured.

use super::{Correction, Method};

/// Choices that shape the findings. The default is what the design of the session asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The test; `None` takes the one that matches the order in which the runs were executed.
    pub method: Option<Method>,
    /// Confidence of the intervals, and 1 - error rate of the tests, as a share. `None` keeps the
    /// error rate that was fixed before measuring, and is 0.95 where none was.
    pub confidence: Option<f64>,
    /// How the p values of many cases are adjusted.
    pub correction: Correction,
    /// The smallest change that matters, as a share: better and worse then lie wholly beyond it.
    /// `None` calls every proven change, and keeps the design's delta for "same".
    pub threshold: Option<f64>,
    /// Names of the metrics to look at; empty means the primary one, `all` every one.
    pub metrics: Vec<String>,
    /// Name of the reference variant; `None` takes the one named by the design.
    pub baseline: Option<String>,
    /// Seed of bootstraps, and of tests of data that carry no seed of their own.
    pub seed: u64,
}

impl Settings {
    /// Confidence where neither the user nor the design says anything.
    pub const DEFAULT_CONFIDENCE: f64 = 0.95;

    /// The change that counts as none where the user names no threshold, as a share.
    pub const DEFAULT_DELTA: f64 = 0.02;

    /// Runs per side at which the sequential test looks, where nothing else is asked for.
    pub const DEFAULT_LOOKS: [u32; 5] = [8, 14, 20, 26, 32];

    /// Whether every metric is to be looked at.
    pub fn wants_all_metrics(&self) -> bool {
        self.metrics.iter().any(|name| name == "all")
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            method: None,
            confidence: None,
            correction: Correction::BenjaminiHochberg,
            threshold: None,
            metrics: Vec::new(),
            baseline: None,
            seed: 0,
        }
    }
}
