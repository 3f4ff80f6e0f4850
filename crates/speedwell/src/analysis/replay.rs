//! The one way to an answer, for measuring and for analysing alike: the looks are taken in order,
//! and the first that decides is final. Data after it change nothing.
//!
//! Decides when the test may stop and what it then says of the ratio. It must not know which
//! direction is good, nor other cases. Start at [`replay`].

use super::evidence::{self, Limit};
use super::pair::{Data, Pair};
use super::rule::{Looks, Rule};
use crate::model::Estimate;
use speedwell_stats::distribution::normal;
use speedwell_stats::sequential::Look;
use speedwell_stats::test::stratified::MINIMUM_PER_SIDE;

/// What the data say of the candidate's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// They are larger.
    Larger,
    /// They are smaller.
    Smaller,
    /// They differ by less than delta.
    Same,
    /// The data do not say.
    Open,
}

/// Why there is no further data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The test decided, or had its last look.
    Final,
    /// Measuring ended before the next look.
    Early,
    /// There are fewer runs than any claim needs.
    TooFew,
}

/// The answer for one pair, with the evidence at the moment at which it was given.
#[derive(Debug, Clone)]
pub(super) struct Outcome {
    /// The data that were looked at.
    pub data: Data,
    /// The answer.
    pub answer: Answer,
    /// Whether more runs could have changed it.
    pub end: End,
    /// Runs per side at which a sequential test decided.
    pub decided_at: Option<u32>,
    /// The change as a share; its interval holds in spite of earlier looks.
    pub change: Option<Estimate>,
    /// Standard error of the logarithm of the ratio, where the interval is bounded.
    pub error: Option<f64>,
    /// The p value, valid under the stopping rule.
    pub p: Option<f64>,
}

/// Judges a pair by the rule that was fixed before it was measured.
pub(super) fn replay(pair: &Pair, rule: &Rule, seed: u64) -> Outcome {
    let judge = Replay { pair, rule, seed };
    match &rule.looks {
        Some(looks) => judge.sequential(looks),
        None => judge.single(),
    }
}

struct Replay<'a> {
    pair: &'a Pair,
    rule: &'a Rule,
    seed: u64,
}

impl Replay<'_> {
    /// A fixed number of runs: one test of everything.
    fn single(&self) -> Outcome {
        let limit = self.rule.single_limit();
        let mut outcome = self.outcome(self.pair.all(), limit);
        if outcome.data.runs() >= MINIMUM_PER_SIDE {
            outcome.end = End::Final;
            outcome.p = self.p(&outcome.data);
            let rejects = outcome.p.is_some_and(|p| p <= limit.p);
            outcome.answer = self.final_answer(&outcome, rejects);
        }
        outcome
    }

    fn sequential(&self, looks: &Looks) -> Outcome {
        let available = self.pair.runs();
        // The p value is settled by the first crossing of a limit, even if the threshold asks for
        // more runs.
        let mut settled: Option<f64> = None;
        let mut last: Option<(&Look, Outcome)> = None;
        for look in looks
            .design
            .limits()
            .iter()
            .filter(|look| look.n <= available)
        {
            let (outcome, rejects) = self.look(look);
            if rejects && settled.is_none() {
                settled = outcome.p.map(|p| overall(looks, look, p));
            }
            let is_decided = outcome.answer != Answer::Open;
            last = Some((look, outcome));
            if is_decided {
                break;
            }
        }
        match last {
            Some((look, outcome)) => self.conclude(looks, look, outcome, settled),
            None => {
                let first = looks.design.limits().first();
                self.outcome(
                    self.pair.all(),
                    first.map_or(self.rule.single_limit(), limit),
                )
            }
        }
    }

    /// What one look says, and whether the test rejects there. The p value, the costly part, is
    /// computed only where it can matter: a test whose interval holds "no change" does not decide.
    fn look(&self, look: &Look) -> (Outcome, bool) {
        let mut outcome = self.outcome(self.pair.first(look.n), limit(look));
        if outcome.change.is_some_and(|change| excludes_zero(&change)) {
            outcome.p = self.p(&outcome.data);
        }
        let rejects = outcome.p.is_some_and(|p| p <= look.p_limit);
        outcome.answer = match look.is_last {
            true => self.final_answer(&outcome, rejects),
            false => self.stopping_answer(&outcome, rejects),
        };
        (outcome, rejects)
    }

    /// Completes the outcome of the look at which the replay ended.
    fn conclude(
        &self,
        looks: &Looks,
        look: &Look,
        mut outcome: Outcome,
        settled: Option<f64>,
    ) -> Outcome {
        let here = || outcome.p.or_else(|| self.p(&outcome.data));
        let p = settled.or_else(|| here().map(|p| overall(looks, look, p)));
        outcome.p = p;
        let is_decided = outcome.answer != Answer::Open;
        outcome.decided_at = is_decided.then_some(look.n as u32);
        outcome.end = if is_decided || look.is_last {
            End::Final
        } else {
            End::Early
        };
        outcome
    }

    /// The evidence in `data`, without an answer yet.
    fn outcome(&self, data: Data, limit: Limit) -> Outcome {
        let change = evidence::change(self.rule.method, &data, limit, self.seed);
        let error = change
            .as_ref()
            .and_then(|change| standard_error(change, limit));
        Outcome {
            data,
            answer: Answer::Open,
            end: End::TooFew,
            decided_at: None,
            change,
            error,
            p: None,
        }
    }

    fn p(&self, data: &Data) -> Option<f64> {
        evidence::p(self.rule.method, data, self.seed)
    }

    /// At a look before the last: "same" needs both tests shifted by delta, which is the interval
    /// within delta on the scale of logarithms.
    fn stopping_answer(&self, outcome: &Outcome, rejects: bool) -> Answer {
        let delta = self.rule.delta;
        self.answer(outcome, rejects, -delta / (1.0 + delta))
    }

    /// When no more runs will come.
    fn final_answer(&self, outcome: &Outcome, rejects: bool) -> Answer {
        self.answer(outcome, rejects, -self.rule.delta)
    }

    fn answer(&self, outcome: &Outcome, rejects: bool, lowest_same: f64) -> Answer {
        if outcome.data.constant().is_some() {
            return Answer::Same;
        }
        match outcome.change {
            Some(change) if rejects && change.low > self.rule.threshold => Answer::Larger,
            Some(change) if rejects && change.high < -self.rule.threshold => Answer::Smaller,
            Some(change) if change.lies_within(lowest_same, self.rule.delta) => Answer::Same,
            _ => Answer::Open,
        }
    }
}

/// The p value over all looks of a test whose own p value at `look` is `p`.
fn overall(looks: &Looks, look: &Look, p: f64) -> f64 {
    looks
        .overall
        .at(look.index, normal::upper_quantile(0.5 * p.min(1.0)))
}

fn limit(look: &Look) -> Limit {
    Limit {
        p: look.p_limit,
        z: look.z_limit,
    }
}

fn excludes_zero(change: &Estimate) -> bool {
    change.low > 0.0 || change.high < 0.0
}

/// The interval spans 2 z standard errors on the scale of logarithms.
pub(super) fn standard_error(change: &Estimate, limit: Limit) -> Option<f64> {
    let error = (change.high.ln_1p() - change.low.ln_1p()) / (2.0 * limit.z);
    error.is_finite().then_some(error)
}
