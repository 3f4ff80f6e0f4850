//! Reference figures: an independent simulation of the same designs, in Python.
//!
//! Its cells come from 800 to 4000 repetitions and have errors of 1 to 2 points. Start at
//! [`SEQUENTIAL`].

/// Power in percent of the fixed test at a change of 1.5% with 30 runs per side.
pub const FIXED_POWER: [(&str, f64); 9] = [
    ("normal 2%", 78.0),
    ("skew", 84.0),
    ("bimodal", 75.0),
    ("outliers", 90.0),
    ("drift", 100.0),
    ("step", 100.0),
    ("AR(.95)", 100.0),
    ("AR(.6)", 95.0),
    ("period-2", 99.0),
];

/// Coverage in percent and width in points of the 95% interval at a ratio of 1.02, 30 runs per
/// side.
pub const COVERAGE: [(&str, f64, f64); 6] = [
    ("normal 2%", 94.2, 2.18),
    ("skew", 94.9, 1.93),
    ("bimodal", 93.9, 2.41),
    ("outliers", 95.0, 1.80),
    ("drift", 96.4, 1.11),
    ("AR(.95)", 95.4, 0.84),
];

/// The default design under one kind of noise: percent of rejections and mean runs per side.
pub struct SequentialReference {
    /// Name of the noise.
    pub model: &'static str,
    /// Without the equivalence stop, at changes of 0, 1, 2, 3 and 5%.
    pub rejections_and_runs: [(f64, f64); 5],
    /// With it at no change: percent of rejections, mean runs, percent declared equal.
    pub equal: (f64, f64, f64),
}

/// The default design under each kind of noise.
#[rustfmt::skip]
pub const SEQUENTIAL: [SequentialReference; 9] = [
    SequentialReference { model: "normal 2%", equal: (4.9, 24.8, 91.0), rejections_and_runs:
        [(5.3, 31.6), (45.0, 28.6), (97.0, 20.4), (100.0, 14.5), (100.0, 10.4)] },
    SequentialReference { model: "normal 1%", equal: (1.1, 13.5, 99.0), rejections_and_runs:
        [(5.1, 31.6), (96.0, 20.3), (100.0, 12.0), (100.0, 9.2), (100.0, 8.1)] },
    SequentialReference { model: "skew", equal: (4.6, 24.3, 89.0), rejections_and_runs:
        [(5.3, 31.6), (59.0, 27.1), (95.0, 19.8), (100.0, 15.8), (100.0, 12.4)] },
    SequentialReference { model: "bimodal", equal: (5.8, 27.8, 75.0), rejections_and_runs:
        [(6.1, 31.6), (46.0, 28.4), (88.0, 22.3), (96.0, 19.5), (100.0, 16.1)] },
    SequentialReference { model: "outliers", equal: (3.5, 21.5, 95.0), rejections_and_runs:
        [(5.3, 31.7), (59.0, 27.1), (99.0, 17.6), (100.0, 13.2), (100.0, 10.4)] },
    SequentialReference { model: "drift", equal: (0.6, 13.6, 99.0), rejections_and_runs:
        [(4.7, 31.7), (96.0, 20.4), (100.0, 11.9), (100.0, 9.2), (100.0, 8.1)] },
    SequentialReference { model: "step", equal: (1.6, 13.6, 98.0), rejections_and_runs:
        [(5.8, 31.6), (95.0, 20.5), (100.0, 11.8), (100.0, 9.4), (100.0, 8.2)] },
    SequentialReference { model: "AR(.95)", equal: (0.5, 11.3, 99.0), rejections_and_runs:
        [(4.3, 31.7), (100.0, 16.4), (100.0, 9.9), (100.0, 8.3), (100.0, 8.1)] },
    SequentialReference { model: "period-2", equal: (0.9, 14.9, 99.0), rejections_and_runs:
        [(4.0, 31.7), (88.0, 22.2), (100.0, 12.8), (100.0, 9.9), (100.0, 8.2)] },
];
