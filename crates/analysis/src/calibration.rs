//! Evaluates sessions that measured a program against itself. They show how often the default test
//! finds a difference where there is none.
//!
//! Decides how the runs of a case become comparisons and how many false alarms to expect. Does not
//! store the result. Start at [`calibrate_session`].

use super::findings::{CalibratedCase, CalibrationFindings, CalibrationOutcome, SpreadChange};
use crate::evidence::{self, standard_error};
use crate::grid::{CaseRuns, RunGrid, finite_values, rejected_by_rules};
use crate::paired::{PairedRuns, exceeds_chance, noise_autocorrelation};
use crate::policy::{AchievedPrecision, JudgingPolicy};
use crate::session::{SessionTally, requested_metrics, unknown_metric_message};
use crate::summary::{estimate_with_interval, finite_or_none};
use crate::{AnalysisSettings, StatisticalMethod};
use speedwell_model::{Metric, NoiseCalibration, Session, median};
use speedwell_stats::bootstrap;
use speedwell_stats::describe::coefficient_of_variation;
use speedwell_stats::distribution::binomial;
use speedwell_stats::interval::share_exact;
use std::collections::BTreeMap;

/// Probability that a count of false alarms is in the expected range (crates/stats/DERIVATIONS.md,
/// "Calibration").
const EXPECTED_RANGE: f64 = 0.95;

/// Result of one comparison of a program with itself: whether a difference was found, and the
/// probability that the test finds a difference by chance, given the ranks of the compared values.
type CalibrationTrial = (bool, f64);

/// Counts the comparisons of a program with itself that show a difference. The first two variants
/// are the same program. Their runs are split into comparisons of `runs` runs per side, rounded up
/// to whole blocks.
///
/// Only the first metric is evaluated: the metrics of a run rise and fall together, so their false
/// alarms are not independent.
pub fn calibrate_session(
    session: &Session,
    runs: usize,
    settings: &AnalysisSettings,
) -> CalibrationFindings {
    let grid = RunGrid::new(session);
    let policy = JudgingPolicy::new(&session.design, settings);
    let mut warnings = SessionTally::from_session(session).warnings(session, None);
    let (metrics, unknown) = requested_metrics(session, settings);
    warnings.extend(unknown.iter().map(|name| unknown_metric_message(session, name)));
    let metric = metrics.into_iter().next();
    let blocks = runs.div_ceil(policy.runs_per_block());
    let mut alarms = Vec::new();
    let mut cases = Vec::new();
    if let (Some(metric), true) = (metric, grid.variants.len() > 1) {
        for case in &grid.cases {
            let side = |variant: usize| finite_values(&case.by_variant[variant], &metric.name);
            let pair = PairedRuns::new(side(0), side(1), policy.matching);
            // One test for every `blocks` consecutive blocks.
            let parts = pair.split_blocks(blocks).into_iter();
            let tests = parts.filter_map(|data| evidence::block_test(&data));
            let trials: Vec<CalibrationTrial> = tests
                .map(|test| (test.p <= policy.alpha, test.attained_level(policy.alpha)))
                .collect();
            cases.push(describe_case(case, &pair, &trials, &policy));
            alarms.extend(trials);
        }
    }
    CalibrationFindings {
        metric: metric.cloned(),
        runs: blocks * policy.runs_per_block(),
        rules: rejected_by_rules(session),
        cases,
        failures: session.failures.clone(),
        warnings,
        ..count_alarms(&alarms, session, policy.alpha)
    }
}

fn describe_case(
    case: &CaseRuns<'_>,
    pair: &PairedRuns,
    alarms: &[CalibrationTrial],
    policy: &JudgingPolicy,
) -> CalibratedCase {
    let runs = pair.baseline.iter().chain(&pair.candidate);
    let values: Vec<f64> = runs.map(|run| run.value).collect();
    let autocorrelation = noise_autocorrelation(pair, false);
    CalibratedCase {
        case: case.case.clone(),
        comparisons: alarms.len() as u32,
        false_alarms: alarms.iter().filter(|(is_false, _)| *is_false).count() as u32,
        variation: finite_or_none(coefficient_of_variation(&values)),
        autocorrelation,
        is_dependent: autocorrelation
            .is_some_and(|correlation| exceeds_chance(correlation, values.len())),
        detectable: detectable_change(pair, policy),
    }
}

/// Smallest change that the sequential design can find in its last analysis. It is extrapolated
/// from the standard error of all runs.
fn detectable_change(pair: &PairedRuns, policy: &JudgingPolicy) -> Option<f64> {
    let max_runs = AnalysisSettings::DEFAULT_LOOKS.into_iter().max()? as usize;
    let limit = policy.single_limit();
    let change =
        evidence::estimate_change(StatisticalMethod::Rank, &pair.all_runs(), limit, policy.seed)?;
    let error = standard_error(&change, limit)?;
    let precision = AchievedPrecision {
        runs: max_runs,
        error: error * (pair.comparable_runs() as f64 / max_runs as f64).sqrt(),
    };
    Some(precision.detectable_change(policy.alpha))
}

/// Counts false alarms and computes the range in which their number is expected. The lower end of
/// the range follows from the exact level of the test. This level is low if there are few blocks.
/// The upper end follows from the error rate that the test promises.
fn count_alarms(alarms: &[CalibrationTrial], session: &Session, alpha: f64) -> CalibrationFindings {
    let comparisons = alarms.len() as u32;
    let false_alarms = alarms.iter().filter(|(is_false, _)| *is_false).count() as u32;
    let levels: f64 = alarms.iter().map(|(_, level)| level).sum();
    let level = if comparisons == 0 { 0.0 } else { levels / f64::from(comparisons) };
    let tail = 0.5 * (1.0 - EXPECTED_RANGE);
    let bound = |p: f64, share: f64| binomial::quantile(p, comparisons.into(), share) as u32;
    let share = share_exact(false_alarms.into(), comparisons.into(), EXPECTED_RANGE);
    let counts = NoiseCalibration {
        session: session.number.unwrap_or_default(),
        started_unix_ms: session.started_unix_ms,
        comparisons,
        false_alarms,
        expected_low: bound(tail, level),
        expected_high: bound(1.0 - tail, alpha),
    };
    CalibrationFindings {
        outcome: judge_counts(&counts),
        counts,
        alpha,
        level,
        rate: (comparisons > 0).then(|| {
            estimate_with_interval(f64::from(false_alarms) / f64::from(comparisons), Some(share))
        }),
        needed: needed_comparisons(level, tail),
        ..CalibrationFindings::default()
    }
}

fn judge_counts(counts: &NoiseCalibration) -> CalibrationOutcome {
    if counts.false_alarms > counts.expected_high {
        CalibrationOutcome::TooManyAlarms
    } else if counts.expected_low == 0 {
        CalibrationOutcome::Unknown
    } else if counts.false_alarms < counts.expected_low {
        CalibrationOutcome::TooFewAlarms
    } else {
        CalibrationOutcome::Yes
    }
}

/// Smallest number n of comparisons for which (1 - level)^n is at most `tail`. With n comparisons,
/// having no false alarm at all is too unlikely to be chance.
fn needed_comparisons(level: f64, tail: f64) -> Option<u32> {
    let comparisons = (tail.ln() / (-level).ln_1p()).ceil();
    (level > 0.0 && comparisons.is_finite()).then_some(comparisons as u32)
}

/// Compares the spread of each case's runs in two sessions that measured the same program against
/// itself. Only runs of the same block are compared with each other, because drift between blocks
/// does not affect comparisons.
pub fn compare_spreads(
    before: &Session,
    after: &Session,
    settings: &AnalysisSettings,
) -> Vec<SpreadChange> {
    let (first, second) = (RunGrid::new(before), RunGrid::new(after));
    let Some(metric) = requested_metrics(before, settings).0.into_iter().next() else {
        return Vec::new();
    };
    let options = bootstrap::BootstrapOptions {
        draws: SPREAD_DRAWS,
        confidence: EXPECTED_RANGE,
        seed: before.design.seed,
    };
    let compare = |case: &CaseRuns<'_>| {
        let counterpart = second.cases.iter().find(|other| other.case == case.case)?;
        let [old, new] = [case, counterpart].map(|case| block_differences(case, metric));
        let estimate = bootstrap::ratio_of_medians(&old, &new, &options);
        Some(SpreadChange {
            case: case.case.clone(),
            before: median(&mut old.concat())?,
            after: median(&mut new.concat())?,
            change: estimate.map(evidence::ratio_to_share),
        })
    };
    first.cases.iter().filter_map(compare).collect()
}

/// Number of resamples. It is large enough for an interval that is shown with two digits.
const SPREAD_DRAWS: usize = 2000;

/// Relative differences between every two runs of a block, as fractions of the lower value.
fn block_differences(case: &CaseRuns<'_>, metric: &Metric) -> Vec<Vec<f64>> {
    let runs = case.by_variant.iter().flat_map(|runs| finite_values(runs, &metric.name));
    let mut blocks: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for run in runs {
        blocks.entry(run.block).or_default().push(run.value);
    }
    let differences_of_block = |values: Vec<f64>| {
        let pairs = values
            .iter()
            .enumerate()
            .flat_map(|(index, value)| values[..index].iter().map(move |earlier| (value, earlier)));
        let shares = pairs.map(|(value, earlier)| (value - earlier).abs() / value.min(*earlier));
        shares.filter(|share| share.is_finite()).collect()
    };
    blocks.into_values().map(differences_of_block).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_fixtures::FakeSession;

    /// Builds a session with `comparisons` comparisons of four blocks each.
    fn session(comparisons: u32, cases: &[&str], factor: f64) -> Session {
        let story = FakeSession::with_fixed_blocks(&["a", "b"], 4 * comparisons);
        let factor = |variant: &str| if variant == "b" { factor } else { 1.0 };
        let noisy = |story: FakeSession, id: &&str| story.add_noisy_case(id, 0.02, factor);
        cases.iter().fold(story, noisy).build()
    }

    fn calibrated(session: &Session) -> CalibrationFindings {
        calibrate_session(session, 8, &AnalysisSettings::default())
    }

    #[test]
    fn equal_sides_give_the_false_alarms_that_are_expected() {
        let found = calibrated(&session(100, &["b n=1", "b n=2"], 1.0));
        assert_eq!(found.counts.comparisons, 200);
        assert_eq!(found.outcome, CalibrationOutcome::Yes, "{found:?}");
        assert!((0.038..0.05).contains(&found.level), "{}", found.level);
        assert!((0.019..0.021).contains(&found.cases[1].variation.unwrap()));
        assert!(!found.cases[0].is_dependent);
        // crates/stats/DERIVATIONS.md: with 2% noise, 32 runs can show a change of 1.4%.
        let detectable = found.cases[0].detectable.unwrap();
        assert!((0.0135..0.0155).contains(&detectable), "{detectable}");
    }

    #[test]
    fn different_sides_give_too_many_false_alarms() {
        let found = calibrated(&session(30, &["b"], 1.02));
        assert_eq!(found.outcome, CalibrationOutcome::TooManyAlarms);
        assert_eq!(found.cases[0].false_alarms, found.counts.false_alarms);
        let rate = found.rate.unwrap();
        assert!(rate.low > 0.05 && rate.low < rate.value);
    }

    #[test]
    fn few_comparisons_are_inconclusive_and_report_how_many_are_needed() {
        let found = calibrated(&session(20, &["b"], 1.0));
        assert_eq!(found.outcome, CalibrationOutcome::Unknown);
        // At a level of exactly 5%, 72 comparisons would be needed: .95^72 = .0249.
        assert!((72..100).contains(&found.needed.unwrap()), "{:?}", found.needed);
    }

    #[test]
    fn constant_values_are_inconclusive() {
        let constant = FakeSession::with_fixed_blocks(&["a", "b"], 400).add_case("b", |_, _| 5.0);
        let found = calibrated(&constant.build());
        assert_eq!((found.outcome, found.needed), (CalibrationOutcome::Unknown, None));
        assert_eq!(found.counts.comparisons, 100);
        let nothing = calibrated(&FakeSession::with_fixed_blocks(&["a", "b"], 1).build());
        assert_eq!(nothing.outcome, CalibrationOutcome::Unknown);
        assert_eq!(nothing.counts.comparisons, 0);
    }

    #[test]
    fn only_whole_comparisons_of_complete_blocks_count() {
        let steady =
            |variant: &str, run: u32| f64::from(run) + if variant == "b" { 0.5 } else { 0.0 };
        // One of the 9 blocks lost a run, which leaves two comparisons of four blocks.
        let story =
            FakeSession::with_fixed_blocks(&["a", "b"], 9).add_case("b", steady).remove_run("a", 3);
        assert_eq!(calibrated(&story.build()).counts.comparisons, 2);
        let ten = FakeSession::with_fixed_blocks(&["a", "b"], 9).add_case("b", steady).build();
        let found = calibrate_session(&ten, 9, &AnalysisSettings::default());
        assert_eq!((found.runs, found.counts.comparisons), (10, 1), "blocks are not divided");
    }

    #[test]
    fn half_the_noise_is_found_as_half_the_spread() {
        let session_with = |variation| {
            let story = FakeSession::with_fixed_blocks(&["a", "b"], 400).add_noisy_case(
                "b n=1",
                variation,
                |_| 1.0,
            );
            // A drift from block to block does not count as spread.
            story.add_case("b n=2", |_, run| f64::from(100 + run / 2)).build()
        };
        let (before, after) = (session_with(0.02), session_with(0.01));
        let found = compare_spreads(&before, &after, &AnalysisSettings::default());
        let change = found[0].change.unwrap();
        assert!(change.low < -0.5 && -0.5 < change.high, "{change:?}");
        assert!(change.low > -0.6 && change.high < -0.4, "{change:?}");
        // The median absolute difference of two normal values is .954 times their standard
        // deviation.
        assert!((0.018..0.020).contains(&found[0].before), "{}", found[0].before);
        assert_eq!((found[1].before, found[1].change), (0.0, None));
        let same = compare_spreads(&before, &before, &AnalysisSettings::default());
        let change = same[0].change.unwrap();
        assert!(change.low < 0.0 && 0.0 < change.high, "{change:?}");
    }
}
