//! Arranges the values of two variants for the tests of one case and metric. Detects runs that
//! depend on earlier runs.
//!
//! Decides which values are compared. If runs are in randomized blocks or pairs, only complete
//! blocks or pairs are compared, because a lost run unbalances its block. Otherwise, all values are
//! compared. A block is complete if both sides have all their runs in it, even if a third variant
//! lost a run: the order of the two sides within the block is still random. Does not know which
//! tests are used. Start at [`PairedRuns`].

use crate::grid::value_range;
use speedwell_model::RunValue;
use speedwell_stats::BlockObservation;
use speedwell_stats::describe::{lag1_autocorrelation, mean, median};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// How runs are matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunMatching {
    /// In blocks with this many runs per side.
    Blocks {
        /// Runs of each variant in one block.
        runs: usize,
        /// Number of the last planned block and its runs per side, if that block is shorter than
        /// the others.
        short: Option<(u32, usize)>,
    },
    /// In pairs: the runs of slots 2k and 2k + 1.
    Pairs,
    /// Not matched.
    None,
}

impl RunMatching {
    /// Matches runs in blocks of equal length. If `planned` runs of each variant do not fill the
    /// last block, that block is shorter.
    pub fn in_blocks(runs: usize, planned: Option<usize>) -> RunMatching {
        let block_len = runs.max(1);
        let remainder = |planned: usize| ((planned / block_len) as u32, planned % block_len);
        let short = planned.map(remainder).filter(|(_, remainder)| *remainder > 0);
        RunMatching::Blocks { runs: block_len, short }
    }

    /// Runs per side in a block or pair; `None` if runs are not matched.
    pub fn runs_together(self) -> Option<usize> {
        match self {
            RunMatching::Blocks { runs, .. } => Some(runs),
            RunMatching::Pairs => Some(1),
            RunMatching::None => None,
        }
    }

    /// Number of the block or pair that a run belongs to.
    pub fn group_of_run(self, slot: u32, block: u32) -> u32 {
        match self {
            RunMatching::Pairs => slot / 2,
            _ => block,
        }
    }
}

/// All runs of two variants for one case and metric.
pub(super) struct PairedRuns {
    /// Runs of the baseline, in execution order.
    pub baseline: Vec<RunValue>,
    /// Runs of the candidate, in execution order.
    pub candidate: Vec<RunValue>,
    matching: RunMatching,
    /// Complete blocks, in order of completion.
    blocks: Vec<CompleteBlock>,
    /// Number of blocks that lack a run on either side.
    pub incomplete: usize,
    /// Whether the runs of a side are repetitions within one process, and so share the properties
    /// of that process.
    pub repeats_process: bool,
}

/// A complete block: slot and block number of the run that completed it, which is the run with the
/// largest slot, and the values of the baseline and of the candidate.
type CompleteBlock = ((u32, u32), [Vec<f64>; 2]);

/// Data compared in one analysis.
#[derive(Debug, Clone, Default)]
pub(super) struct ComparedData {
    /// Values of the baseline.
    pub baseline: Vec<f64>,
    /// Values of the candidate.
    pub candidate: Vec<f64>,
    /// The same values with their blocks; empty when runs are not matched.
    pub observations: Vec<BlockObservation>,
    /// Log ratio by which the values of two processes of the same program may differ; 0 for
    /// independent runs.
    pub allowance: f64,
}

impl ComparedData {
    /// Baseline and candidate values of each pair, if runs are matched in pairs.
    pub fn to_pairs(&self) -> Vec<(f64, f64)> {
        let sides = self.baseline.iter().zip(&self.candidate);
        sides.map(|(&a, &b)| (a, b)).collect()
    }

    /// Number of runs on the smaller side.
    pub fn smaller_side_runs(&self) -> usize {
        self.baseline.len().min(self.candidate.len())
    }

    /// Whether all values are non-negative.
    pub fn is_never_negative(&self) -> bool {
        self.all_values().all(|value| value >= 0.0)
    }

    /// Whether all values have a logarithm.
    pub fn is_positive(&self) -> bool {
        self.all_values().all(|value| value > 0.0)
    }

    /// Whether the baseline's median is zero, so that a change from it has no percentage.
    pub fn is_from_zero(&self) -> bool {
        self.is_never_negative() && median(&self.baseline) == 0.0
    }

    /// Makes all values suitable for logarithms by replacing zero with the smallest positive
    /// number. Rank tests only need the order of the values, and both zero and its replacement are
    /// below every other value. `None` if a value is negative.
    pub fn with_logs(&self) -> Option<Cow<'_, ComparedData>> {
        if !self.is_never_negative() {
            return None;
        }
        if self.is_positive() {
            return Some(Cow::Borrowed(self));
        }
        let mut data = self.clone();
        let values = data.baseline.iter_mut().chain(&mut data.candidate);
        let observed = data.observations.iter_mut().map(|observation| &mut observation.value);
        values.chain(observed).for_each(|value| *value = value.max(f64::MIN_POSITIVE));
        Some(Cow::Owned(data))
    }

    /// The common value of all runs of both sides, if they all have the same value.
    pub fn constant_value(&self) -> Option<f64> {
        let first = self.all_values().next()?;
        self.all_values().all(|value| value == first).then_some(first)
    }

    fn all_values(&self) -> impl Iterator<Item = f64> {
        self.baseline.iter().chain(&self.candidate).copied()
    }

    fn from_blocks(blocks: &[CompleteBlock]) -> ComparedData {
        let mut data = ComparedData::default();
        for ((_, [baseline, candidate]), number) in blocks.iter().zip(0..) {
            data.baseline.extend(baseline);
            data.candidate.extend(candidate);
            let baseline = baseline.iter().map(|&value| BlockObservation::baseline(value, number));
            let candidate =
                candidate.iter().map(|&value| BlockObservation::candidate(value, number));
            data.observations.extend(baseline.chain(candidate));
        }
        data
    }
}

impl PairedRuns {
    /// Arranges the runs of two variants.
    pub fn new(
        baseline: Vec<RunValue>,
        candidate: Vec<RunValue>,
        matching: RunMatching,
    ) -> PairedRuns {
        let mut pair = PairedRuns {
            baseline,
            candidate,
            matching,
            blocks: Vec::new(),
            incomplete: 0,
            repeats_process: false,
        };
        match matching {
            RunMatching::Blocks { runs, short } => pair.match_blocks(|block| match short {
                Some((last, remainder)) if last == block => remainder,
                _ => runs,
            }),
            RunMatching::Pairs => pair.match_pairs(),
            RunMatching::None => {}
        }
        pair
    }

    /// Keeps complete pairs. Drops runs of the baseline that were measured together with another
    /// candidate.
    fn match_pairs(&mut self) {
        let pairs = |runs: &[RunValue]| runs.iter().map(|run| run.slot / 2).collect();
        let with_baseline: BTreeSet<u32> = pairs(&self.baseline);
        let with_candidate: BTreeSet<u32> = pairs(&self.candidate);
        let rounds = |runs: &[RunValue]| runs.iter().map(|run| run.block).collect();
        let mut planned: BTreeSet<u32> = rounds(&self.baseline);
        planned.extend(self.candidate.iter().map(|run| run.block));
        (self.baseline).retain(|run| with_candidate.contains(&(run.slot / 2)));
        (self.candidate).retain(|run| with_baseline.contains(&(run.slot / 2)));
        self.match_blocks(|_| 1);
        self.incomplete = planned.len().saturating_sub(self.blocks.len());
    }

    /// Keeps the blocks in which both sides have all planned runs.
    fn match_blocks(&mut self, planned: impl Fn(u32) -> usize) {
        let mut blocks: BTreeMap<u32, CompleteBlock> = BTreeMap::new();
        for (side, runs) in [&self.baseline, &self.candidate].into_iter().enumerate() {
            for run in runs {
                let group = self.matching.group_of_run(run.slot, run.block);
                let (completed, sides) = blocks.entry(group).or_default();
                *completed = (*completed).max((run.slot, run.block));
                sides[side].push(run.value);
            }
        }
        let block_count = blocks.len();
        let is_complete = |(number, (_, sides)): &(u32, CompleteBlock)| {
            let expected = planned(*number);
            sides.iter().all(|side| side.len() == expected)
        };
        let complete = blocks.into_iter().filter(is_complete);
        self.blocks = complete.map(|(_, block)| block).collect();
        self.blocks.sort_by_key(|(completed, _)| *completed);
        self.incomplete = block_count - self.blocks.len();
    }

    /// Number of comparable runs of the baseline and of the candidate.
    pub fn comparable_sizes(&self) -> [usize; 2] {
        match self.matching.runs_together() {
            Some(_) => [self.comparable_runs(); 2],
            None => [self.baseline.len(), self.candidate.len()],
        }
    }

    /// Comparable runs per side.
    pub fn comparable_runs(&self) -> usize {
        match self.matching.runs_together() {
            Some(_) => self.blocks.iter().map(|(_, [old, _])| old.len()).sum(),
            None => self.baseline.len().min(self.candidate.len()),
        }
    }

    /// First block after which both sides have at least one run; `None` if one side has no run.
    pub fn begins_in_block(&self) -> Option<u32> {
        let first = |side: &[RunValue]| side.iter().map(|run| run.block).min();
        Some(first(&self.baseline)?.max(first(&self.candidate)?))
    }

    /// First block after which `runs` runs per side can be compared.
    pub fn block_reaching(&self, runs: usize) -> u32 {
        let last = match self.matching.runs_together() {
            Some(per_block) => {
                let blocks = self.blocks.iter().take(runs / per_block.max(1));
                blocks.map(|((_, number), _)| *number).max()
            }
            None => {
                let sides = [&self.baseline, &self.candidate];
                let runs = sides.into_iter().flat_map(|side| side.iter().take(runs));
                runs.map(|run| run.block).max()
            }
        };
        last.unwrap_or_default()
    }

    /// The data as of the time when `runs` runs per side could be compared.
    pub fn first_runs(&self, runs: usize) -> ComparedData {
        match self.matching.runs_together() {
            Some(per_block) => self.first_blocks(runs / per_block.max(1)),
            None => {
                let values =
                    |all: &[RunValue]| all.iter().take(runs).map(|run| run.value).collect();
                ComparedData {
                    baseline: values(&self.baseline),
                    candidate: values(&self.candidate),
                    ..ComparedData::default()
                }
            }
        }
    }

    /// All comparable data.
    pub fn all_runs(&self) -> ComparedData {
        match self.matching.runs_together() {
            Some(_) => self.first_blocks(self.blocks.len()),
            None => {
                let mut data = self.first_runs(usize::MAX);
                if self.repeats_process {
                    data.allowance = log_range(&data.baseline).max(log_range(&data.candidate));
                }
                data
            }
        }
    }

    /// Splits the complete blocks into consecutive parts of `blocks` blocks each. Blocks that do
    /// not fill a part are dropped.
    pub fn split_blocks(&self, blocks: usize) -> Vec<ComparedData> {
        self.blocks.chunks_exact(blocks.max(1)).map(ComparedData::from_blocks).collect()
    }

    fn first_blocks(&self, count: usize) -> ComparedData {
        ComparedData::from_blocks(&self.blocks[..count.min(self.blocks.len())])
    }
}

/// Logarithm of the ratio of the largest value to the smallest positive value.
fn log_range(values: &[f64]) -> f64 {
    let (min, max) = value_range(values.iter().copied().filter(|value| *value > 0.0));
    if max > min { (max / min).ln() } else { 0.0 }
}

/// Minimum number of runs for a meaningful correlation.
const MIN_CORRELATION_RUNS: usize = 8;

/// Lag-1 autocorrelation of one series in execution order; `None` for fewer than 8 runs and for
/// constant values.
pub(super) fn series_autocorrelation(values: &[f64]) -> Option<f64> {
    (values.len() >= MIN_CORRELATION_RUNS)
        .then(|| lag1_autocorrelation(values))
        .filter(|correlation| correlation.is_finite())
}

/// Whether a lag-1 autocorrelation of `runs` values is larger than chance can explain. The limit
/// is two standard errors, that is, 2 / sqrt n (Box and Jenkins, Time Series Analysis, 1970).
/// Independent values exceed it in 5% of cases.
pub(super) fn exceeds_chance(correlation: f64, runs: usize) -> bool {
    correlation.abs() > 2.0 / (runs as f64).sqrt()
}

/// Whether the noise of a pair is autocorrelated. For `apart` see [`noise_autocorrelation`].
pub(super) fn is_noise_autocorrelated(pair: &PairedRuns, apart: bool) -> bool {
    let runs = pair.baseline.len() + pair.candidate.len();
    noise_autocorrelation(pair, apart).is_some_and(|correlation| exceeds_chance(correlation, runs))
}

/// Lag-1 autocorrelation of both sides' runs in execution order, after subtracting each side's
/// mean. Subtracting block means instead would make independent noise look correlated.
///
/// `apart` means that the sides come from different sessions, so that their slots are not
/// comparable.
pub(super) fn noise_autocorrelation(pair: &PairedRuns, apart: bool) -> Option<f64> {
    let mut noise = mean_residuals(&pair.baseline);
    noise.extend(mean_residuals(&pair.candidate));
    if !apart {
        noise.sort_by_key(|&(slot, _)| slot);
    }
    let noise: Vec<f64> = noise.into_iter().map(|(_, residual)| residual).collect();
    series_autocorrelation(&noise)
}

/// Whether one side executed all its runs before the other side began.
pub(super) fn is_one_after_the_other(pair: &PairedRuns) -> bool {
    let span = |runs: &[RunValue]| {
        let slots = runs.iter().map(|run| run.slot);
        slots.clone().min().zip(slots.max())
    };
    let (Some(old), Some(new)) = (span(&pair.baseline), span(&pair.candidate)) else {
        return false;
    };
    let runs = pair.baseline.len() + pair.candidate.len();
    runs > 2 && (old.1 < new.0 || new.1 < old.0)
}

/// Deviations from the mean, in logarithms if all values are positive.
fn mean_residuals(runs: &[RunValue]) -> Vec<(u32, f64)> {
    let positive = runs.iter().all(|run| run.value > 0.0);
    let scale = |value: f64| if positive { value.ln() } else { value };
    let values: Vec<f64> = runs.iter().map(|run| scale(run.value)).collect();
    let center = mean(&values);
    runs.iter().zip(values).map(|(run, value)| (run.slot, value - center)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(slot: u32, block: u32, value: f64) -> RunValue {
        RunValue { slot, block, value }
    }

    fn side(slots: &[(u32, u32, f64)]) -> Vec<RunValue> {
        slots.iter().map(|&(slot, block, value)| run(slot, block, value)).collect()
    }

    #[test]
    fn a_candidate_is_compared_only_with_baseline_runs_of_its_own_pairs() {
        // There are two candidates: pairs 0 and 2 belong to `new`, and pairs 1 and 3 to the other
        // candidate. In round 2, `new` lost its run.
        let old = side(&[(0, 0, 1.0), (2, 0, 9.0), (5, 1, 2.0), (7, 1, 9.0), (8, 2, 3.0)]);
        let new = side(&[(1, 0, 1.5), (4, 1, 2.5)]);
        let pair = PairedRuns::new(old, new, RunMatching::Pairs);
        assert_eq!((pair.comparable_runs(), pair.incomplete), (2, 1));
        assert_eq!(pair.all_runs().to_pairs(), [(1.0, 1.5), (2.0, 2.5)]);
        assert_eq!(pair.baseline.len(), 2);
        assert_eq!((pair.block_reaching(1), pair.block_reaching(2)), (0, 1));
    }

    #[test]
    fn a_block_with_a_lost_run_is_dropped() {
        let old = side(&[(0, 0, 1.0), (1, 0, 2.0), (4, 1, 3.0), (8, 2, 5.0), (9, 2, 6.0)]);
        let new = side(&[
            (2, 0, 11.0),
            (3, 0, 12.0),
            (6, 1, 13.0),
            (7, 1, 14.0),
            (10, 2, 15.0),
            (11, 2, 16.0),
        ]);
        let pair = PairedRuns::new(old, new, RunMatching::in_blocks(2, None));
        assert_eq!((pair.comparable_runs(), pair.incomplete), (4, 1));
        let data = pair.all_runs();
        assert_eq!(data.baseline, [1.0, 2.0, 5.0, 6.0]);
        assert_eq!(data.candidate, [11.0, 12.0, 15.0, 16.0]);
        assert_eq!(pair.first_runs(2).candidate, [11.0, 12.0]);
    }

    #[test]
    fn blocks_are_ordered_by_completion() {
        // Block 0 was repeated at the end under its old number.
        let old = side(&[(8, 0, 1.0), (2, 1, 2.0)]);
        let new = side(&[(9, 0, 3.0), (3, 1, 4.0)]);
        let pair = PairedRuns::new(old, new, RunMatching::in_blocks(1, None));
        assert_eq!(pair.first_runs(1).baseline, [2.0]);
        assert_eq!(pair.all_runs().baseline, [2.0, 1.0]);
    }

    /// Three runs per side in blocks of two: nothing is missing.
    #[test]
    fn a_block_that_was_planned_shorter_is_complete() {
        let old = side(&[(0, 0, 1.0), (1, 0, 2.0), (4, 1, 3.0)]);
        let new = side(&[(2, 0, 11.0), (3, 0, 12.0), (5, 1, 13.0)]);
        let pair = PairedRuns::new(old.clone(), new.clone(), RunMatching::in_blocks(2, Some(3)));
        assert_eq!((pair.comparable_runs(), pair.incomplete), (3, 0));
        assert_eq!(pair.all_runs().candidate, [11.0, 12.0, 13.0]);
        let interrupted = PairedRuns::new(old, new, RunMatching::in_blocks(2, Some(6)));
        assert_eq!((interrupted.comparable_runs(), interrupted.incomplete), (2, 1));
    }

    #[test]
    fn unmatched_runs_may_differ_in_number() {
        let old = side(&[(0, 0, 1.0), (1, 0, 2.0), (2, 0, 3.0)]);
        let new = side(&[(3, 0, 1.0), (4, 0, -2.0)]);
        let pair = PairedRuns::new(old, new, RunMatching::None);
        assert_eq!(pair.comparable_runs(), 2);
        assert_eq!(pair.all_runs().baseline.len(), 3);
        assert!(pair.all_runs().observations.is_empty() && !pair.all_runs().is_positive());
    }

    #[test]
    fn constant_data_are_recognised() {
        let pair = |value| {
            let old = side(&[(0, 0, 7.0), (1, 0, 7.0)]);
            PairedRuns::new(old, side(&[(2, 0, 7.0), (3, 0, value)]), RunMatching::None)
        };
        assert_eq!(pair(7.0).all_runs().constant_value(), Some(7.0));
        assert_eq!(pair(7.5).all_runs().constant_value(), None);
    }

    /// Alternating runs whose values depend on the slot.
    fn alternating(runs: u32, value: impl Fn(u32) -> f64) -> PairedRuns {
        let side = |first: u32| -> Vec<RunValue> {
            let slots = (0..runs).map(|i| 2 * i + first);
            slots.map(|slot| RunValue { slot, block: 0, value: value(slot) }).collect()
        };
        PairedRuns::new(side(0), side(1), RunMatching::None)
    }

    #[test]
    fn drift_counts_as_dependence_but_a_difference_between_sides_does_not() {
        let irregular = |slot: u32| f64::from(slot * slot * 7919 % 101) / 5000.0;
        let change = |slot: u32| if slot % 2 == 1 { 50.0 } else { 0.0 };
        let independent = alternating(20, |slot| 100.0 + change(slot) + irregular(slot));
        assert!(!is_noise_autocorrelated(&independent, false));
        let drifting = alternating(20, |slot| 100.0 + change(slot) + f64::from(slot));
        assert!(is_noise_autocorrelated(&drifting, false));
    }

    #[test]
    fn few_or_constant_runs_say_nothing() {
        assert!(!is_noise_autocorrelated(&alternating(3, f64::from), false));
        assert!(!is_noise_autocorrelated(&alternating(20, |_| 5.0), false));
        assert_eq!(series_autocorrelation(&[1.0, 2.0, 3.0]), None);
    }

    #[test]
    fn sides_that_do_not_overlap_in_time_are_noticed() {
        let side = |first: u32| -> Vec<RunValue> {
            (first..first + 5).map(|slot| RunValue { slot, block: 0, value: 1.0 }).collect()
        };
        let pair = |a: u32, b: u32| PairedRuns::new(side(a), side(b), RunMatching::None);
        assert!(is_one_after_the_other(&pair(0, 5)));
        assert!(is_one_after_the_other(&pair(5, 0)));
        assert!(!is_one_after_the_other(&pair(0, 4)));
        assert!(!is_one_after_the_other(&alternating(5, f64::from)));
    }
}
