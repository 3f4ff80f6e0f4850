//! Compares baseline and candidate in one case. Computes the change with its interval, the p value
//! of a single test, and the result of one look (an interim analysis). Does not look at other
//! cases.
//!
//! Decides how each method computes these results; `sequential.rs` decides whether a p value is
//! small enough, given the number of cases tested. Start at [`evaluate_look`], [`estimate_change`]
//! and [`p_value`].

use crate::StatisticalMethod;
use crate::paired::ComparedData;
use crate::policy::{JudgingPolicy, SignificanceLimit};
use speedwell_model::IntervalEstimate;
use speedwell_stats::effect::{RatioEstimate, fieller_interval, hodges_lehmann};
use speedwell_stats::test::stratified::MINIMUM_PER_SIDE;
use speedwell_stats::test::{
    SignedRank, StratifiedRank, TailProbabilities, mann_whitney, signed_rank, stratified_rank,
    welch,
};
use speedwell_stats::test::{mid_ranks, tie_term};
use speedwell_stats::{BlockObservation, Interval, bootstrap};

/// Number of bootstrap draws for a ratio of means. With this number, 50 draws lie beyond each end
/// of a 95% interval.
const BOOTSTRAP_DRAWS: usize = 2_000;
/// Number of bisection steps that find a bootstrap p value. More steps would be finer than the
/// draws can resolve.
const BOOTSTRAP_HALVINGS: u32 = 11;
/// Maximum number of runs, over both sides, for which ties are counted exactly. Counting takes a
/// millisecond for 60 runs, and the time grows with the fourth power of the number of runs. Beyond
/// this limit, the normal approximation with a correction for ties is used.
const MAX_EXACT_TIES: usize = 40;

/// Relative change from baseline to candidate (0.1 is +10%), with the interval that the method
/// gives at the significance limit `limit`. `None` if no ratio exists, as for a change from zero.
///
/// An end of the interval is -1 or infinite if there are too few runs to bound it.
pub(super) fn estimate_change(
    method: StatisticalMethod,
    data: &ComparedData,
    limit: SignificanceLimit,
    seed: u64,
) -> Option<IntervalEstimate> {
    let is_from_zero = |ratio: f64| ratio > FROM_ZERO_RATIO;
    let shift = estimate_shift(method, data, limit, seed)?;
    (!is_from_zero(shift.value)).then(|| IntervalEstimate {
        high: if is_from_zero(shift.high) { f64::INFINITY } else { shift.high },
        ..shift
    })
}

/// A ratio above this means that the baseline is zero and was replaced by the smallest positive
/// number.
pub(crate) const FROM_ZERO_RATIO: f64 = 1e100;

/// Does the same as [`estimate_change`], but represents a change from zero as a number above
/// [`FROM_ZERO_RATIO`].
fn estimate_shift(
    method: StatisticalMethod,
    data: &ComparedData,
    limit: SignificanceLimit,
    seed: u64,
) -> Option<IntervalEstimate> {
    let confidence = 1.0 - limit.p;
    let estimate = match method {
        StatisticalMethod::Rank | StatisticalMethod::SignedRank => {
            rank_test(method, &*data.with_logs()?)?.estimate(limit.p)
        }
        StatisticalMethod::MannWhitney => shift_of_logs(data, confidence)?,
        StatisticalMethod::Welch => fieller_interval(&data.baseline, &data.candidate, confidence)?,
        StatisticalMethod::Bootstrap => ratio_of_means(data, confidence, seed)?,
    };
    Some(ratio_to_share(estimate))
}

/// Two-sided p value of a single test. The hypothesis is that the candidate's values are the
/// baseline's values times `ratio`. `None` if the test is undefined.
pub(super) fn p_value(
    method: StatisticalMethod,
    data: &ComparedData,
    ratio: f64,
    seed: u64,
) -> Option<f64> {
    let candidate: Vec<f64> = data.candidate.iter().map(|value| value / ratio).collect();
    match method {
        StatisticalMethod::Rank | StatisticalMethod::SignedRank => {
            rank_test(method, data).map(|test| test.shifted_tails(ratio.ln()).two_sided_p())
        }
        StatisticalMethod::MannWhitney => Some(mann_whitney_p(&data.baseline, &candidate)),
        StatisticalMethod::Welch => welch(&data.baseline, &candidate).ok().map(|test| test.p),
        StatisticalMethod::Bootstrap => bootstrap_p(data, ratio, seed),
    }
    .filter(|p| p.is_finite())
}

/// Relative change of the arithmetic means, by bootstrap over blocks, or by Fieller's method if the
/// data have no blocks. `None` if the blocks contain fewer than [`MINIMUM_PER_SIDE`] runs per side,
/// because resamples of so few blocks vary too little.
pub(super) fn mean_change(
    data: &ComparedData,
    confidence: f64,
    seed: u64,
) -> Option<IntervalEstimate> {
    let ratio = match data.observations.is_empty() {
        true => fieller_interval(&data.baseline, &data.candidate, confidence),
        false if data.smaller_side_runs() < MINIMUM_PER_SIDE => None,
        false => ratio_of_means(data, confidence, seed),
    };
    ratio.map(ratio_to_share)
}

/// p value for two groups without blocks. Ties are counted exactly if that does not take too long.
pub fn mann_whitney_p(baseline: &[f64], candidate: &[f64]) -> f64 {
    use speedwell_stats::test::PValueMethod as Distribution;
    let pooled = [baseline, candidate].concat();
    let distribution = match tie_term(&pooled) > 0.0 {
        false => Distribution::Exact,
        true if pooled.len() <= MAX_EXACT_TIES => Distribution::ExactTies,
        true => Distribution::Asymptotic,
    };
    mann_whitney(baseline, candidate, distribution).p
}

/// Exact test for runs that were measured in blocks or in pairs.
enum RankTest {
    Blocks(StratifiedRank),
    Pairs(SignedRank),
}

impl RankTest {
    fn shifted_tails(&self, theta: f64) -> TailProbabilities {
        match self {
            RankTest::Blocks(test) => test.test_shifted(theta),
            RankTest::Pairs(test) => test.shifted(theta),
        }
    }

    fn estimate(&self, p_limit: f64) -> RatioEstimate {
        let (ratio, interval) = match self {
            RankTest::Blocks(test) => (test.ratio(), test.interval_at(p_limit)),
            RankTest::Pairs(test) => (test.ratio(), test.interval_at(p_limit)),
        };
        RatioEstimate { ratio, interval }
    }
}

/// Exact test of data in blocks or pairs. `None` for other data, and for pairs with negative
/// values.
fn rank_test(method: StatisticalMethod, data: &ComparedData) -> Option<RankTest> {
    match method {
        StatisticalMethod::SignedRank => {
            signed_rank(&data.with_logs()?.to_pairs()).ok().map(RankTest::Pairs)
        }
        _ => block_test(data).map(RankTest::Blocks),
    }
}

/// Test of data in blocks; `None` if the data have no blocks.
pub(super) fn block_test(data: &ComparedData) -> Option<StratifiedRank> {
    if let Some(data) = data.with_logs() {
        return stratified_rank(&data.observations).ok();
    }
    // The test uses only ranks, so values without a logarithm can be replaced by their ranks.
    let values: Vec<f64> = data.observations.iter().map(|observation| observation.value).collect();
    let ranked = data.observations.iter().zip(mid_ranks(&values));
    let ranked: Vec<_> = ranked
        .map(|(observation, rank)| BlockObservation { value: rank, ..*observation })
        .collect();
    stratified_rank(&ranked).ok()
}

fn shift_of_logs(data: &ComparedData, confidence: f64) -> Option<RatioEstimate> {
    let logarithmic = data.with_logs()?;
    let logs = |values: &[f64]| values.iter().map(|value| value.ln()).collect::<Vec<f64>>();
    let shift =
        hodges_lehmann(&logs(&logarithmic.baseline), &logs(&logarithmic.candidate), confidence)?;
    Some(RatioEstimate { ratio: shift.estimate.exp(), interval: shift.interval.map(f64::exp) })
}

fn ratio_of_means(data: &ComparedData, confidence: f64, seed: u64) -> Option<RatioEstimate> {
    let options = bootstrap::BootstrapOptions { draws: BOOTSTRAP_DRAWS, confidence, seed };
    let estimate = bootstrap::ratio_of_means(&block_observations(data), &options)?;
    let is_usable = estimate.ratio.is_finite() && estimate.ratio > 0.0;
    (is_usable && estimate.interval.is_bounded()).then_some(estimate)
}

/// Returns the observations in blocks. Data without blocks get artificial blocks: one block for
/// each run of the shorter side, with the runs of the longer side distributed evenly. Values of
/// independent sides are uncorrelated within such blocks, so resampling blocks resamples both
/// sides.
fn block_observations(data: &ComparedData) -> Vec<BlockObservation> {
    if !data.observations.is_empty() {
        return data.observations.clone();
    }
    let blocks = data.smaller_side_runs();
    let deal = |values: &[f64], new: fn(f64, u32) -> BlockObservation| -> Vec<BlockObservation> {
        let block = |index: usize| (index * blocks / values.len().max(1)) as u32;
        values.iter().enumerate().map(|(index, &value)| new(value, block(index))).collect()
    };
    [
        deal(&data.baseline, BlockObservation::baseline),
        deal(&data.candidate, BlockObservation::candidate),
    ]
    .concat()
}

/// Smallest risk (one minus the confidence level) at which the percentile interval excludes
/// `ratio`. The risk is found by bisection.
fn bootstrap_p(data: &ComparedData, ratio: f64, seed: u64) -> Option<f64> {
    let (mut included, mut excluded) = (0.0, 1.0);
    for _ in 0..BOOTSTRAP_HALVINGS {
        let risk = 0.5 * (included + excluded);
        if ratio_of_means(data, 1.0 - risk, seed)?.interval.contains(ratio) {
            included = risk
        } else {
            excluded = risk
        }
    }
    Some(excluded)
}

pub(super) fn ratio_to_share(estimate: RatioEstimate) -> IntervalEstimate {
    let Interval { low, high } = estimate.interval;
    IntervalEstimate { value: estimate.ratio - 1.0, low: low - 1.0, high: high - 1.0 }
}

/// Minimum number of pairs whose sides were measured one after the other. Fewer pairs do not show
/// how much their ratios vary.
const MIN_ALONE_PAIRS: usize = 3;

/// p value at or below which pairs whose sides ran simultaneously disagree with pairs whose sides
/// ran one after the other.
const DISAGREEMENT_P: f64 = 0.01;

/// Whether the ratios of the pairs in `at_once`, whose sides shared a processor, differ from the
/// ratios of the pairs in `alone`, whose sides ran one after the other. If so, sides that share a
/// processor disturb each other, for instance by evicting each other's cache lines, and the ratios
/// of their pairs are biased.
pub(super) fn sharing_matters(at_once: &[(f64, f64)], alone: &[(f64, f64)]) -> bool {
    let logs = |pairs: &[(f64, f64)]| -> Vec<f64> {
        let logs = pairs.iter().map(|(a, b)| b.ln() - a.ln());
        logs.filter(|log| log.is_finite()).collect()
    };
    let (at_once, alone) = (logs(at_once), logs(alone));
    alone.len() >= MIN_ALONE_PAIRS
        && welch(&at_once, &alone).is_ok_and(|test| test.p <= DISAGREEMENT_P)
}

/// Direction of the candidate's values relative to the baseline's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ShiftDirection {
    Larger,
    Smaller,
}

/// Evidence at one look.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LookResult {
    /// p value of this look alone. It tests the hypothesis of no change or, if a threshold is set,
    /// of no change beyond the threshold.
    pub p: Option<f64>,
    /// Direction of the change, which is reported only if the p value is small enough.
    pub direction: Option<ShiftDirection>,
    /// Whether the change is shown to be within delta.
    pub is_same: bool,
}

/// What a look requires of its result.
#[derive(Debug, Clone, Copy)]
pub(super) struct LookRule {
    pub limit: SignificanceLimit,
    /// Whether no more runs will come.
    pub is_last: bool,
}

/// Evaluates `data` at one look.
pub(super) fn evaluate_look(
    data: &ComparedData,
    policy: &JudgingPolicy,
    rule: LookRule,
    seed: u64,
) -> LookResult {
    let mut result = match (policy.method, data.is_never_negative()) {
        (StatisticalMethod::Rank | StatisticalMethod::SignedRank, true) => {
            look_by_ranks(data, policy, rule)
        }
        _ => look_by_interval(data, policy, rule, seed),
    };
    result.is_same |= data.constant_value().is_some();
    result
}

/// Evaluates non-negative values with a rank test. Such a test can check every ratio exactly, in
/// agreement with the interval.
fn look_by_ranks(data: &ComparedData, policy: &JudgingPolicy, rule: LookRule) -> LookResult {
    let Some(test) = rank_test(policy.method, data) else { return LookResult::default() };
    let (p, direction) = test_beyond(&test, policy.threshold);
    // The change is "same" if two tests show that it lies between two limits. Before the last look,
    // the limits are symmetric around zero as logarithms of the ratio. At the last look, they are
    // symmetric around zero as relative changes.
    let highest = policy.delta.ln_1p();
    let lowest = if rule.is_last { (-policy.delta).ln_1p() } else { -highest };
    let level = 0.5 * rule.limit.p;
    LookResult {
        p: Some(p),
        direction: Some(direction),
        is_same: test.shifted_tails(highest).lower <= level
            && test.shifted_tails(lowest).upper <= level,
    }
}

/// Two-sided p value of the hypothesis that the change is at most `threshold` in either direction.
fn test_beyond(test: &RankTest, threshold: f64) -> (f64, ShiftDirection) {
    let larger = test.shifted_tails(threshold.ln_1p()).upper;
    // A decrease cannot exceed 100%.
    let smaller =
        if threshold < 1.0 { test.shifted_tails((-threshold).ln_1p()).lower } else { 1.0 };
    let direction = if larger < smaller { ShiftDirection::Larger } else { ShiftDirection::Smaller };
    ((2.0 * larger.min(smaller)).min(1.0), direction)
}

/// Evaluates data by a method whose test and interval may disagree slightly. A change is reported
/// only if both the test and the interval show it.
fn look_by_interval(
    data: &ComparedData,
    policy: &JudgingPolicy,
    rule: LookRule,
    seed: u64,
) -> LookResult {
    let LookRule { limit, is_last } = rule;
    let Some(change) = estimate_shift(policy.method, data, limit, seed) else {
        let is_from_zero =
            data.is_never_negative() && data.baseline.iter().all(|value| *value == 0.0);
        return LookResult {
            p: p_value(policy.method, data, 1.0, seed),
            // A change from a zero mean exceeds every threshold.
            direction: is_from_zero.then_some(ShiftDirection::Larger),
            ..LookResult::default()
        };
    };
    let tolerated = tolerated_interval(policy.threshold, data);
    let nearest = change.value.clamp(tolerated.low, tolerated.high);
    let p = if change.value == nearest && tolerated.half_width() > 0.0 {
        Some(1.0)
    } else {
        p_value(policy.method, data, 1.0 + nearest, seed)
    };
    let lowest = if is_last { -policy.delta } else { -policy.delta / (1.0 + policy.delta) };
    LookResult {
        // If the interval is not beyond the threshold, the p value must not be significant.
        p: p.map(|p| match interval_direction(&change, tolerated) {
            None if p <= limit.p => limit.p.next_up(),
            _ => p,
        }),
        direction: interval_direction(&change, tolerated),
        is_same: change.lies_within(lowest, policy.delta),
    }
}

/// Range of changes that are treated as no change. It reaches from minus to plus the threshold, and
/// is widened by the variation that repetitions within one process can explain
/// (docs/why/statistics.md, "Repetitions within one process").
fn tolerated_interval(threshold: f64, data: &ComparedData) -> Interval {
    Interval {
        low: (1.0 - threshold) * (-data.allowance).exp() - 1.0,
        high: (1.0 + threshold) * data.allowance.exp() - 1.0,
    }
}

/// Direction in which the whole interval lies beyond `tolerated`.
fn interval_direction(change: &IntervalEstimate, tolerated: Interval) -> Option<ShiftDirection> {
    let larger = (change.low > tolerated.high).then_some(ShiftDirection::Larger);
    larger.or((change.high < tolerated.low).then_some(ShiftDirection::Smaller))
}

/// Standard error of the log ratio. In logarithms, the interval is 2 z standard errors wide.
pub(super) fn standard_error(change: &IntervalEstimate, limit: SignificanceLimit) -> Option<f64> {
    let error = (change.high.ln_1p() - change.low.ln_1p()) / (2.0 * limit.z);
    error.is_finite().then_some(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paired::PairedRuns;
    use crate::paired::RunMatching;
    use speedwell_model::RunValue;

    const LIMIT: SignificanceLimit = SignificanceLimit { p: 0.05, z: 1.959963984540054 };
    const ALL: [StatisticalMethod; 4] = [
        StatisticalMethod::Rank,
        StatisticalMethod::Welch,
        StatisticalMethod::MannWhitney,
        StatisticalMethod::Bootstrap,
    ];

    /// Runs in blocks of two per side, with a fixed irregular noise of about 1%.
    fn data(runs: u32, factor: f64, offset: f64) -> ComparedData {
        let noise = |i: u32| 1.0 + 0.01 * (f64::from(i * 7919 % 101) / 50.0 - 1.0);
        let side = |factor: f64, phase: u32| -> Vec<RunValue> {
            let value = |i: u32| 100.0 * factor * noise(i * 2 + phase) - offset;
            (0..runs).map(|i| RunValue { slot: i, block: i / 2, value: value(i) }).collect()
        };
        PairedRuns::new(side(1.0, 0), side(factor, 1), RunMatching::in_blocks(2, None)).all_runs()
    }

    #[test]
    fn every_method_finds_a_change_of_ten_percent() {
        let data = data(12, 1.10, 0.0);
        for method in ALL {
            let change = estimate_change(method, &data, LIMIT, 1).unwrap();
            assert!((change.value - 0.10).abs() < 0.01, "{method:?}: {change:?}");
            assert!(change.low > 0.08 && change.high < 0.12, "{method:?}: {change:?}");
            assert!(p_value(method, &data, 1.0, 1).unwrap() < 0.002, "{method:?}");
        }
    }

    #[test]
    fn no_method_reports_a_change_between_equal_sides() {
        let data = data(16, 1.0, 0.0);
        for method in ALL {
            assert!(estimate_change(method, &data, LIMIT, 1).unwrap().lies_within(-0.02, 0.02));
            assert!(p_value(method, &data, 1.0, 1).unwrap() > 0.05, "{method:?}");
        }
    }

    #[test]
    fn a_ratio_changed_by_sharing_the_processor_is_detected() {
        let pairs = |ratio: f64, count: u32| -> Vec<(f64, f64)> {
            let noise = |i: u32| 1.0 + 0.01 * (f64::from(i * 7919 % 101) / 50.0 - 1.0);
            (0..count).map(|i| (100.0 * noise(i), 100.0 * ratio * noise(i + 31))).collect()
        };
        assert!(sharing_matters(&pairs(0.92, 32), &pairs(1.0, 5)));
        assert!(!sharing_matters(&pairs(1.0, 32), &pairs(1.0, 5)));
        assert!(!sharing_matters(&pairs(0.5, 32), &pairs(1.0, 2)), "two say nothing");
    }

    #[test]
    fn pairs_are_judged_by_their_ratios() {
        let old: Vec<f64> = (0..12).map(|i| 100.0 * f64::from(1 + i % 5)).collect();
        let new: Vec<f64> =
            old.iter().zip(0..).map(|(v, i)| v * (1.02 + 1e-4 * f64::from(i))).collect();
        let data = ComparedData { baseline: old, candidate: new, ..ComparedData::default() };
        // Between pairs, the level varies by a factor of five, and the ratio by a thousandth.
        let change = estimate_change(StatisticalMethod::SignedRank, &data, LIMIT, 1).unwrap();
        assert!(change.low > 0.0199 && change.high < 0.0213, "{change:?}");
        assert_eq!(p_value(StatisticalMethod::SignedRank, &data, 1.0, 1), Some(2.0 / 4096.0));
    }

    #[test]
    fn values_around_zero_have_a_rank_test_but_no_ratio() {
        let data = data(12, 1.10, 100.0);
        assert_eq!(estimate_change(StatisticalMethod::Rank, &data, LIMIT, 1), None);
        assert_eq!(estimate_change(StatisticalMethod::MannWhitney, &data, LIMIT, 1), None);
        let moved = super::tests::data(12, 1.10, 0.0);
        assert_eq!(
            p_value(StatisticalMethod::Rank, &data, 1.0, 1),
            p_value(StatisticalMethod::Rank, &moved, 1.0, 1)
        );
    }

    /// The expected p value is from R 4.2.2: `t.test(b, a)$p.value` with a <- c(10.2, 11.1, 9.7,
    /// 10.9, 10.4, 10.0) and b <- c(12.9, 12.1, 13.6, 11.8, 12.4).
    #[test]
    fn welch_uses_the_values_themselves_and_needs_them_to_vary() {
        let data = |baseline: &[f64], candidate: &[f64]| ComparedData {
            baseline: baseline.to_vec(),
            candidate: candidate.to_vec(),
            ..ComparedData::default()
        };
        let varied = data(&[10.2, 11.1, 9.7, 10.9, 10.4, 10.0], &[12.9, 12.1, 13.6, 11.8, 12.4]);
        assert!(
            (p_value(StatisticalMethod::Welch, &varied, 1.0, 0).unwrap()
                / 6.451_274_208_179_406e-4
                - 1.0)
                .abs()
                < 1e-9
        );
        let constant = data(&[5.0; 9], &[6.0; 9]);
        assert_eq!(p_value(StatisticalMethod::Welch, &constant, 1.0, 0), None);
        let point = estimate_change(StatisticalMethod::Welch, &constant, LIMIT, 0).unwrap();
        assert!((point.value - 0.2).abs() < 1e-12 && point.low == point.high);
    }

    #[test]
    fn sides_of_different_length_can_be_resampled_without_blocks() {
        let data = ComparedData {
            baseline: vec![10.0, 10.1, 9.9, 10.05, 9.95, 10.02],
            candidate: (0..17).map(|i| 12.0 + 0.1 * f64::from(i % 5)).collect(),
            ..ComparedData::default()
        };
        let change = estimate_change(StatisticalMethod::Bootstrap, &data, LIMIT, 3).unwrap();
        assert!((change.value - 0.22).abs() < 0.01 && change.low > 0.2 && change.high < 0.24);
        assert!(block_observations(&data).iter().all(|o| o.block < 6));
    }
}
