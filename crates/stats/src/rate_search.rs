//! Searches for the highest sustainable rate. A trial shows only whether a rate was kept or missed.
//!
//! This module decides which rate to try next and what the answer is. It doubles the rate until a
//! rate is missed, then bisects between the highest kept and the lowest missed rate. Near the
//! limit, a rate may be kept by chance, so the rates that bound the answer are repeated until two
//! trials agree. The module does not know how requests are sent. Start at [`next_rate`].

/// A trial of a rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateTrial {
    /// The rate per second, above zero.
    pub rate: f64,
    /// Whether the rate was kept.
    pub is_kept: bool,
}

/// Settings of the search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateSearchRules {
    /// The first rate. If this rate is missed, lower rates are tried, down to a sixteenth of it.
    pub first: f64,
    /// The highest rate to try.
    pub limit: f64,
    /// The search ends when the lowest missed rate exceeds the highest kept rate by no more than
    /// this fraction.
    pub resolution: f64,
}

/// Result of the search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateSearchAnswer {
    /// The highest rate below [`RateSearchAnswer::missed`] that was kept, if there is one.
    pub kept: Option<f64>,
    /// The lowest rate that was missed in two trials, if there is one.
    pub missed: Option<f64>,
}

/// Verdict on one rate, from its trials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProbeVerdict {
    /// Kept at least twice, and more often than missed.
    Kept,
    /// Kept once, never missed.
    Provisional,
    /// Missed once, and kept at most once.
    Unclear,
    /// Missed at least twice, and at least as often as kept.
    Missed,
}

/// Returns the rate to try next, once. `None` if the answer is known, the limit is reached, or even
/// the lowest rate to try was missed.
pub fn next_rate(trials: &[RateTrial], rules: &RateSearchRules) -> Option<f64> {
    let rates = rate_verdicts(trials);
    let missed = rates.iter().position(|(_, verdict)| *verdict == ProbeVerdict::Missed);
    let below = &rates[..missed.unwrap_or(rates.len())];
    if let Some((rate, _)) = below.iter().find(|(_, verdict)| *verdict == ProbeVerdict::Unclear) {
        return Some(*rate);
    }
    match (below.last(), missed.map(|index| rates[index].0)) {
        (None, None) => Some(rules.first),
        (None, Some(missed)) => (missed > rules.first / 16.0).then_some(missed / 2.0),
        (Some((kept, _)), None) if *kept < rules.limit => Some((2.0 * kept).min(rules.limit)),
        (Some((kept, verdict)), missed) => {
            let wide = missed.filter(|missed| missed / kept > 1.0 + rules.resolution);
            let middle = wide.map(|missed| (round_rate((kept * missed).sqrt()), missed));
            let between = middle.filter(|(middle, missed)| kept < middle && middle < missed);
            between
                .map(|(middle, _)| middle)
                .or((*verdict == ProbeVerdict::Provisional).then_some(*kept))
        }
    }
}

/// Returns the answer so far.
pub fn search_answer(trials: &[RateTrial]) -> RateSearchAnswer {
    let rates = rate_verdicts(trials);
    let missed = rates.iter().position(|(_, verdict)| *verdict == ProbeVerdict::Missed);
    let below = &rates[..missed.unwrap_or(rates.len())];
    let kept = below.iter().rfind(|(_, verdict)| *verdict != ProbeVerdict::Unclear);
    RateSearchAnswer {
        kept: kept.map(|(rate, _)| *rate),
        missed: missed.map(|index| rates[index].0),
    }
}

fn rate_verdicts(trials: &[RateTrial]) -> Vec<(f64, ProbeVerdict)> {
    let mut rates: Vec<f64> = trials.iter().map(|trial| trial.rate).collect();
    rates.sort_unstable_by(f64::total_cmp);
    rates.dedup();
    let with_verdict = |rate: f64| {
        let rate_trials = trials.iter().filter(|trial| trial.rate == rate);
        let (kept, missed): (Vec<&RateTrial>, Vec<&RateTrial>) =
            rate_trials.partition(|trial| trial.is_kept);
        let verdict = match (kept.len(), missed.len()) {
            (kept, missed) if missed >= 2 && missed >= kept => ProbeVerdict::Missed,
            (kept, _) if kept >= 2 => ProbeVerdict::Kept,
            (_, 0) => ProbeVerdict::Provisional,
            _ => ProbeVerdict::Unclear,
        };
        (rate, verdict)
    };
    rates.into_iter().map(with_verdict).collect()
}

/// Rounds to three significant digits, so that people can type the rate.
fn round_rate(rate: f64) -> f64 {
    let step = 10f64.powf(rate.log10().floor() - 2.0);
    (rate / step).round() * step
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: RateSearchRules = RateSearchRules { first: 100.0, limit: 1e6, resolution: 0.05 };

    fn run_search(mut is_kept: impl FnMut(f64) -> bool) -> (RateSearchAnswer, Vec<RateTrial>) {
        let mut trials = Vec::new();
        while let Some(rate) = next_rate(&trials, &RULES) {
            assert!(trials.len() < 100, "{trials:?}");
            let is_kept = is_kept(rate);
            trials.push(RateTrial { rate, is_kept });
        }
        (search_answer(&trials), trials)
    }

    #[test]
    fn the_limit_is_enclosed_within_the_resolution() {
        for limit in [7.0, 99.0, 100.0, 101.0, 1234.0, 54_321.0] {
            let (found, trials) = run_search(|rate| rate <= limit);
            let (kept, missed) = (found.kept.unwrap(), found.missed.unwrap());
            assert!(kept <= limit && limit < missed, "{limit}: {found:?}");
            assert!(missed / kept <= 1.06, "{limit}: {found:?}");
            assert!(trials.len() <= 35, "{limit}: {}", trials.len());
        }
    }

    #[test]
    fn a_limit_beyond_the_bounds_ends_the_search_at_the_bounds() {
        let (always, _) = run_search(|_| true);
        assert_eq!((always.kept, always.missed), (Some(1e6), None));
        let (never, _) = run_search(|_| false);
        assert_eq!((never.kept, never.missed), (None, Some(6.25)));
    }

    #[test]
    fn one_wrong_trial_does_not_change_the_result() {
        for accident in 0..8 {
            let mut count = 0;
            let (found, _) = run_search(|rate| {
                count += 1;
                rate <= 1000.0 && count != accident
            });
            let kept = found.kept.unwrap();
            assert!((950.0..=1000.0).contains(&kept), "{accident}: {found:?}");
        }
    }
}
