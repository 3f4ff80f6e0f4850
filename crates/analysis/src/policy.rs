//! User settings of an analysis, and the policy by which all pairs of one comparison are judged.
//!
//! Derives the test, the error rate, the looks and what counts as "same" from the session's design
//! and the user's [`Settings`]. Whatever the design fixed before measuring takes precedence,
//! because only then does the error rate hold. Does not look at data.

use crate::builds::Unit;
use crate::exact;
use crate::paired::Matching;
use crate::power::SmallestP;
use crate::{Correction, Method};
use serde::{Deserialize, Serialize};
use speedwell_model::{Better, Design, Metric, Order, Stopping};
use speedwell_stats::distribution::normal;
use speedwell_stats::sequential::{self, DEFAULT_DELTA, Look, RepeatedP};
use speedwell_stats::test::stratified::MINIMUM_PER_SIDE;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Exponent of the spending function alpha t^rho (Kim and DeMets, Biometrika 74, 1987).
const SPENDING_EXPONENT: f64 = 2.0;

/// How the pairs of one comparison are judged.
#[derive(Debug, Clone)]
pub(super) struct Policy {
    /// The test.
    pub method: Method,
    /// How runs are matched.
    pub matching: Matching,
    /// Unit of independence; numbers of runs that express how much is known count these units.
    pub unit: Unit,
    /// Whether the order of runs does not protect the test.
    pub indicative: bool,
    /// Error rate of the test.
    pub alpha: f64,
    /// Largest change that still counts as "same", as a share.
    pub delta: f64,
    /// Threshold that a proven change must exceed, as a share; 0 if any change counts.
    pub threshold: f64,
    /// Looks of a session that was measured sequentially.
    pub looks: Option<Looks>,
    /// Seed of bootstraps.
    pub seed: u64,
    /// Whether the values are counts, which need no statistics if they do not vary.
    pub counts: bool,
}

/// Looks of a sequential design, with repeated p values.
#[derive(Debug, Clone)]
pub(super) struct Looks {
    pub design: sequential::Design,
    pub repeated: RepeatedP,
}

/// Significance limit, in two forms.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limit {
    /// Two-sided p value.
    pub p: f64,
    /// The same limit as |z|.
    pub z: f64,
}

/// The limit of a look.
impl From<&Look> for Limit {
    fn from(look: &Look) -> Limit {
        Limit {
            p: look.p_limit,
            z: look.z_limit,
        }
    }
}

impl Policy {
    /// Creates the policy for the runs of one session.
    pub fn new(design: &Design, settings: &Settings) -> Policy {
        let default = match design.order {
            Order::Blocks => Method::Rank,
            Order::Paired => Method::SignedRank,
            Order::Alternate | Order::Parallel | Order::Imported => Method::MannWhitney,
        };
        let method = match settings.method {
            // Imported runs have no blocks for the rank test, and pairs have their own test.
            Some(Method::Rank) if matches!(design.order, Order::Imported | Order::Paired) => {
                default
            }
            chosen => chosen.unwrap_or(default),
        };
        let needs_blocks = design.order == Order::Blocks || method == Method::Rank;
        let runs = design.runs_per_block.max(1) as usize;
        let matching = if design.order == Order::Paired {
            Matching::Pairs
        } else if needs_blocks {
            Matching::blocks(runs, planned_units(design))
        } else {
            Matching::None
        };
        let threshold = settings.threshold.or(design.threshold);
        let (alpha, delta) = match &design.stopping {
            Stopping::Fixed { .. } => (default_alpha(), DEFAULT_DELTA),
            Stopping::Sequential { alpha, delta, .. } => (*alpha, *delta),
        };
        let alpha = settings
            .confidence
            .map_or(alpha, |confidence| 1.0 - confidence);
        let unit = Unit::new(design);
        Policy {
            method,
            matching,
            unit,
            indicative: !design.order.is_randomised(),
            alpha,
            delta: match &design.counting {
                Some(_) => threshold.unwrap_or(exact::DELTA),
                None => threshold.unwrap_or(delta),
            },
            counts: design.counting.is_some(),
            threshold: threshold.unwrap_or(0.0),
            looks: Looks::from_stopping(&design.stopping, alpha, runs, unit),
            seed: design.seed,
        }
    }

    /// The policy for `metric`: that for times if it was measured along with counts.
    pub fn of(&self, metric: &Metric) -> Cow<'_, Policy> {
        if !self.counts || metric.is_count() {
            return Cow::Borrowed(self);
        }
        let delta = match self.threshold {
            0.0 => DEFAULT_DELTA,
            threshold => threshold,
        };
        Cow::Owned(Policy {
            counts: false,
            delta,
            ..self.clone()
        })
    }

    /// Creates the policy for runs of different sessions, which share neither blocks nor time.
    pub fn unmatched(settings: &Settings) -> Policy {
        let method = match settings.method {
            None | Some(Method::Rank | Method::SignedRank) => Method::MannWhitney,
            Some(chosen) => chosen,
        };
        Policy {
            method,
            matching: Matching::None,
            unit: Unit::Run,
            indicative: true,
            alpha: settings
                .confidence
                .map_or(default_alpha(), |confidence| 1.0 - confidence),
            delta: settings.threshold.unwrap_or(DEFAULT_DELTA),
            threshold: settings.threshold.unwrap_or(0.0),
            looks: None,
            seed: settings.seed,
            counts: false,
        }
    }

    /// Creates the policy for different cases of one session that took turns in its blocks: close
    /// in time, but always in the same order. The looks applied to each case alone.
    pub fn in_turns(design: &Design, settings: &Settings) -> Policy {
        Policy {
            indicative: true,
            looks: None,
            ..Policy::new(design, settings)
        }
    }

    /// Confidence level of the intervals, as a share.
    pub fn confidence(&self) -> f64 {
        1.0 - self.alpha
    }

    /// Limit of a test with a single look.
    pub fn single_limit(&self) -> Limit {
        Limit {
            p: self.alpha,
            z: normal::upper_quantile(0.5 * self.alpha),
        }
    }

    /// Runs per side in a block; 1 without blocks.
    pub fn runs_per_block(&self) -> usize {
        self.matching.runs_together().unwrap_or(1)
    }

    /// Minimum number of runs per side for a claim at the error rate `level`: that of the first
    /// look, or that with which the test can reach the level at all.
    pub fn fewest_runs(&self, level: f64) -> usize {
        match self.looks.as_ref().and_then(Looks::first) {
            Some(look) => look.n,
            None => self.smallest_p().fewest_runs(level),
        }
    }

    /// How small a p value a number of runs can give in a single look.
    pub fn smallest_p(&self) -> SmallestP {
        match self.method {
            Method::Rank | Method::SignedRank => SmallestP::Blocks(self.runs_per_block()),
            Method::MannWhitney => SmallestP::Unmatched,
            Method::Welch | Method::Bootstrap => SmallestP::Unbounded,
        }
    }

    /// Seed for one case: cases draw independently, whatever other cases there are.
    pub fn seed_for(&self, case_id: &str) -> u64 {
        // FNV-1a (Fowler, Noll and Vo), 64 bits.
        let prime = 0x0100_0000_01b3;
        let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(prime);
        case_id.bytes().fold(0xcbf2_9ce4_8422_2325 ^ self.seed, mix)
    }
}

impl Looks {
    /// Creates looks at complete blocks, none before a p value may be claimed. `None` for a fixed
    /// number of runs and for invalid looks.
    fn from_stopping(
        stopping: &Stopping,
        alpha: f64,
        runs_per_block: usize,
        unit: Unit,
    ) -> Option<Looks> {
        let Stopping::Sequential { looks, .. } = stopping else {
            return None;
        };
        let units = |runs: &u32| *runs as usize / unit.runs();
        let whole = |runs: &u32| units(runs).div_ceil(runs_per_block) * runs_per_block;
        let mut looks: Vec<usize> = looks.iter().map(whole).collect();
        looks.retain(|&runs| runs >= MINIMUM_PER_SIDE);
        looks.dedup();
        let design = sequential::Design::try_new(&looks, alpha, SPENDING_EXPONENT).ok()?;
        let repeated = RepeatedP::new(&design);
        Some(Looks { design, repeated })
    }

    /// All looks, in order.
    pub fn limits(&self) -> &[Look] {
        self.design.limits()
    }

    /// The first look.
    pub fn first(&self) -> Option<Look> {
        self.design.limits().first().copied()
    }
}

/// Number of units per variant, if it was fixed before measuring.
pub(super) fn planned_units(design: &Design) -> Option<usize> {
    match design.stopping {
        Stopping::Fixed { .. } if design.shares_builds() => Some(design.layout.builds as usize),
        Stopping::Fixed { runs } => Some(runs as usize),
        Stopping::Sequential { .. } => None,
    }
}

fn default_alpha() -> f64 {
    1.0 - Settings::DEFAULT_CONFIDENCE
}

/// User settings that shape the findings. By default the session's design decides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The test; `None` selects the one that matches the execution order of the runs.
    pub method: Option<Method>,
    /// Confidence level of the intervals, and 1 - error rate of the tests, as a share. `None` keeps
    /// the error rate that was fixed before measuring, or else means 0.95.
    pub confidence: Option<f64>,
    /// How the p values of many cases are adjusted.
    pub correction: Correction,
    /// Smallest change that matters, as a share: the intervals of better and worse lie entirely
    /// beyond it. `None` reports every proven change, and keeps the design's delta for "same".
    pub threshold: Option<f64>,
    /// Names of the metrics to analyze; empty means the primary one, `all` every one.
    pub metrics: Vec<String>,
    /// Good direction of metrics by name, if the user sets it.
    #[serde(default)]
    pub better: BTreeMap<String, Better>,
    /// Name of the baseline variant; `None` selects the design's.
    pub baseline: Option<String>,
    /// Seed of bootstraps, and of tests of data without a seed of their own.
    pub seed: u64,
    /// Whether to judge cases whose benchmark differs between the sides.
    pub with_own_benchmarks: bool,
}

impl Settings {
    /// Default confidence level, if neither the user nor the design sets one.
    pub const DEFAULT_CONFIDENCE: f64 = 0.95;

    /// Largest change that counts as "same" without a user-defined threshold, as a share.
    pub const DEFAULT_DELTA: f64 = 0.02;

    /// Default looks of the sequential test, in runs per side.
    pub const DEFAULT_LOOKS: [u32; 5] = [8, 14, 20, 26, 32];

    /// Whether all metrics are requested.
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
            better: BTreeMap::new(),
            baseline: None,
            seed: 0,
            with_own_benchmarks: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn design(order: Order, looks: &[u32], runs_per_block: u32) -> Design {
        let stopping = Stopping::Sequential {
            looks: looks.to_vec(),
            alpha: 0.01,
            delta: 0.03,
        };
        Design {
            seed: 9,
            runs_per_block,
            ..Design::new(order, stopping, "old")
        }
    }

    #[test]
    fn the_design_decides_where_the_user_is_silent() {
        let policy = Policy::new(&design(Order::Blocks, &[8, 14], 2), &Settings::default());
        assert_eq!((policy.method, policy.indicative), (Method::Rank, false));
        assert_eq!(
            (policy.alpha, policy.delta, policy.threshold),
            (0.01, 0.03, 0.0)
        );
        let asked = Settings {
            confidence: Some(0.9),
            threshold: Some(0.05),
            method: Some(Method::Welch),
            ..Settings::default()
        };
        let policy = Policy::new(&design(Order::Blocks, &[8, 14], 2), &asked);
        assert!((policy.alpha - 0.1).abs() < 1e-12);
        assert_eq!(
            (policy.delta, policy.threshold, policy.method),
            (0.05, 0.05, Method::Welch)
        );
    }

    #[test]
    fn runs_without_randomised_blocks_get_a_test_without_blocks_and_a_caveat() {
        for order in [Order::Alternate, Order::Parallel, Order::Imported] {
            let policy = Policy::new(&design(order, &[8], 1), &Settings::default());
            assert_eq!(
                (policy.method, policy.matching),
                (Method::MannWhitney, Matching::None)
            );
            assert!(policy.indicative);
        }
        let rank = Settings {
            method: Some(Method::Rank),
            ..Settings::default()
        };
        assert_eq!(
            Policy::new(&design(Order::Imported, &[8], 1), &rank).method,
            Method::MannWhitney
        );
        assert_eq!(Policy::unmatched(&rank).method, Method::MannWhitney);
        let alternate = Policy::new(&design(Order::Alternate, &[8], 1), &rank);
        assert_eq!(alternate.matching, Matching::blocks(1, None));
    }

    #[test]
    fn looks_happen_at_whole_blocks_and_never_below_eight_runs() {
        let looks = |looks: &[u32], per_block| {
            let policy = Policy::new(
                &design(Order::Blocks, looks, per_block),
                &Settings::default(),
            );
            policy
                .looks
                .map(|l| l.design.limits().iter().map(|l| l.n).collect::<Vec<_>>())
        };
        assert_eq!(looks(&[8, 14, 20], 2), Some(vec![8, 14, 20]));
        assert_eq!(looks(&[8, 9, 20], 3), Some(vec![9, 21]));
        assert_eq!(looks(&[4, 8], 2), Some(vec![8]));
        assert_eq!(looks(&[4], 2), None);
    }

    #[test]
    fn cases_draw_independently() {
        let policy = Policy::unmatched(&Settings::default());
        assert_ne!(policy.seed_for("a"), policy.seed_for("b"));
        let other = Policy::unmatched(&Settings {
            seed: 1,
            ..Settings::default()
        });
        assert_ne!(policy.seed_for("a"), other.seed_for("a"));
    }
}
