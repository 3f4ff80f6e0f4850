//! What the data of one pair say at one look, whatever other cases say.
//!
//! Decides the p value of the question that was asked, on which side the data lie, and whether they are shown to be the
//! same. Whether the p value is small enough among all cases is for [`super::replay`] to say. Start at [`look`].

use super::Method;
use super::evidence::{self, Limit};
use super::pair::Data;
use super::rule::Rule;
use speedwell_model::Estimate;
use speedwell_stats::distribution::normal;
use speedwell_stats::sequential::Look;
use speedwell_stats::test::StratifiedRank;

/// On which side of the baseline's values the candidate's lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// They are larger.
    Larger,
    /// They are smaller.
    Smaller,
}

/// The evidence at one look.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Seen {
    /// The p value of this look alone: of no change, or of a change within the threshold if there is one.
    pub p: Option<f64>,
    /// Where the change lies if the p value is small enough.
    pub direction: Option<Direction>,
    /// Whether the change is shown to be within delta.
    pub is_same: bool,
}

/// Looks at `data`; `is_last` says that no more runs will come.
pub(super) fn look(data: &Data, rule: &Rule, limit: Limit, is_last: bool, seed: u64) -> Seen {
    let mut seen = match (rule.method, data.is_positive()) {
        (Method::Rank, true) => by_ranks(data, rule, limit, is_last),
        _ => by_interval(data, rule, limit, is_last, seed),
    };
    seen.is_same |= data.constant().is_some();
    seen
}

/// Values whose ratio exists have an exact test of every ratio, which agrees with the interval.
fn by_ranks(data: &Data, rule: &Rule, limit: Limit, is_last: bool) -> Seen {
    let Some(test) = evidence::rank_test(data) else {
        return Seen::default();
    };
    let (p, direction) = beyond(&test, rule.threshold);
    // Before the last look "same" needs both tests shifted by delta on the scale of logarithms.
    let highest = rule.delta.ln_1p();
    let lowest = if is_last {
        (-rule.delta).ln_1p()
    } else {
        -highest
    };
    let level = 0.5 * limit.p;
    Seen {
        p: Some(p),
        direction: Some(direction),
        is_same: test.shifted(highest).lower <= level && test.shifted(lowest).upper <= level,
    }
}

/// The two-sided p value of a change of at most `threshold` in either direction.
fn beyond(test: &StratifiedRank, threshold: f64) -> (f64, Direction) {
    let larger = test.shifted(threshold.ln_1p()).upper;
    // A loss of everything or more cannot be exceeded.
    let smaller = if threshold < 1.0 {
        test.shifted((-threshold).ln_1p()).lower
    } else {
        1.0
    };
    let direction = if larger < smaller {
        Direction::Larger
    } else {
        Direction::Smaller
    };
    ((2.0 * larger.min(smaller)).min(1.0), direction)
}

/// Other tests have p values and intervals that may differ a little; both must agree before anything is claimed.
fn by_interval(data: &Data, rule: &Rule, limit: Limit, is_last: bool, seed: u64) -> Seen {
    let Some(change) = evidence::change(rule.method, data, limit, seed) else {
        return Seen {
            p: evidence::p(rule.method, data, 1.0, seed),
            ..Seen::default()
        };
    };
    let threshold = rule.threshold;
    let nearest = change.value.clamp(-threshold, threshold);
    let p = if change.value == nearest && threshold > 0.0 {
        Some(1.0)
    } else {
        evidence::p(rule.method, data, 1.0 + nearest, seed)
    };
    let lowest = if is_last {
        -rule.delta
    } else {
        -rule.delta / (1.0 + rule.delta)
    };
    Seen {
        // An interval that does not lie beyond the threshold takes the p value back.
        p: p.map(|p| match direction(&change, threshold) {
            None if p <= limit.p => limit.p.next_up(),
            _ => p,
        }),
        direction: direction(&change, threshold),
        is_same: change.lies_within(lowest, rule.delta),
    }
}

/// Where the whole interval lies.
fn direction(change: &Estimate, threshold: f64) -> Option<Direction> {
    if change.low > threshold {
        Some(Direction::Larger)
    } else if change.high < -threshold {
        Some(Direction::Smaller)
    } else {
        None
    }
}

/// The limit of a look.
pub(super) fn limit(look: &Look) -> Limit {
    Limit {
        p: look.p_limit,
        z: look.z_limit,
    }
}

/// The interval spans 2 z standard errors on the scale of logarithms.
pub(super) fn standard_error(change: &Estimate, limit: Limit) -> Option<f64> {
    let error = (change.high.ln_1p() - change.low.ln_1p()) / (2.0 * limit.z);
    error.is_finite().then_some(error)
}

/// The limit of a test that looks once with this error rate.
pub(super) fn single(alpha: f64) -> Limit {
    Limit {
        p: alpha,
        z: normal::upper_quantile(0.5 * alpha),
    }
}
