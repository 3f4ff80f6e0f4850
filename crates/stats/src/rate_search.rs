//! Searches for the highest sustainable rate, when a trial shows only whether a rate was sustained.
//!
//! Decides which rate to try next and what the answer is: doubles the rate until one is missed,
//! then bisects between the highest kept and the lowest missed one. Near the limit a rate may be
//! kept by chance, so the rates that bound the answer are repeated until two trials agree. Does not
//! know what is sent. Start at [`next`].

/// A trial of a rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trial {
    /// Per second, above zero.
    pub rate: f64,
    /// Whether the rate was kept.
    pub is_kept: bool,
}

/// Settings of the search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rules {
    /// The first rate. If it is missed, lower ones are tried, down to a sixteenth of it.
    pub first: f64,
    /// The highest rate to try.
    pub limit: f64,
    /// The search ends when the lowest missed rate exceeds the highest kept one by no more than
    /// this fraction.
    pub resolution: f64,
}

/// Next action of the search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Next {
    /// Try this rate, once.
    Try(f64),
    /// The answer is known, or the limit is reached.
    Stop,
}

/// Result of the search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Answer {
    /// The highest rate that was kept below [`Answer::missed`], if any was.
    pub kept: Option<f64>,
    /// The lowest rate that was missed, if any was.
    pub missed: Option<f64>,
}

/// Verdict on one rate, from its trials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Kept in two trials, or in the majority of three.
    Kept,
    /// Kept once, never missed.
    Provisional,
    /// Missed once.
    Unclear,
    /// Missed twice.
    Missed,
}

/// Returns the rate to try next.
pub fn next(trials: &[Trial], rules: &Rules) -> Next {
    let rates = rates(trials);
    let missed = rates.iter().position(|(_, how)| *how == Standing::Missed);
    let below = &rates[..missed.unwrap_or(rates.len())];
    if let Some((rate, _)) = below.iter().find(|(_, how)| *how == Standing::Unclear) {
        return Next::Try(*rate);
    }
    let (kept, missed) = (below.last(), missed.map(|at| rates[at].0));
    match (kept, missed) {
        (None, None) => Next::Try(rules.first),
        (Some((kept, _)), None) if *kept < rules.limit => Next::Try((2.0 * kept).min(rules.limit)),
        (None, Some(missed)) if missed > rules.first / 16.0 => Next::Try(missed / 2.0),
        (None, Some(_)) => Next::Stop,
        (Some((kept, how)), missed) => {
            let is_wide = missed.is_some_and(|missed| missed / kept > 1.0 + rules.resolution);
            let middle = rounded((kept * missed.unwrap_or(*kept)).sqrt());
            match how {
                _ if is_wide && *kept < middle && missed.is_some_and(|missed| middle < missed) => {
                    Next::Try(middle)
                }
                Standing::Provisional => Next::Try(*kept),
                _ => Next::Stop,
            }
        }
    }
}

/// Returns the answer so far.
pub fn answer(trials: &[Trial]) -> Answer {
    let rates = rates(trials);
    let missed = rates.iter().position(|(_, how)| *how == Standing::Missed);
    let below = &rates[..missed.unwrap_or(rates.len())];
    let is_kept = |how: Standing| matches!(how, Standing::Kept | Standing::Provisional);
    let kept = below.iter().rev().find(|(_, how)| is_kept(*how));
    Answer {
        kept: kept.map(|(rate, _)| *rate),
        missed: missed.map(|at| rates[at].0),
    }
}

/// Returns every rate tried, in ascending order, with its verdict.
fn rates(trials: &[Trial]) -> Vec<(f64, Standing)> {
    let mut rates: Vec<f64> = trials.iter().map(|trial| trial.rate).collect();
    rates.sort_unstable_by(f64::total_cmp);
    rates.dedup();
    let standing = |rate: f64| {
        let of_rate = trials.iter().filter(|trial| trial.rate == rate);
        let (kept, missed): (Vec<&Trial>, Vec<&Trial>) = of_rate.partition(|trial| trial.is_kept);
        let how = match (kept.len(), missed.len()) {
            (kept, missed) if missed >= 2 && missed >= kept => Standing::Missed,
            (kept, _) if kept >= 2 => Standing::Kept,
            (_, 0) => Standing::Provisional,
            _ => Standing::Unclear,
        };
        (rate, how)
    };
    rates.into_iter().map(standing).collect()
}

/// Rounds to three digits, so that people can type the rate.
fn rounded(rate: f64) -> f64 {
    let step = 10f64.powf(rate.log10().floor() - 2.0);
    (rate / step).round() * step
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules = Rules {
        first: 100.0,
        limit: 1e6,
        resolution: 0.05,
    };

    /// Tries rates until there is nothing left to try.
    fn search(mut is_kept: impl FnMut(f64) -> bool) -> (Answer, Vec<Trial>) {
        let mut trials = Vec::new();
        while let Next::Try(rate) = next(&trials, &RULES) {
            assert!(trials.len() < 100, "{trials:?}");
            let is_kept = is_kept(rate);
            trials.push(Trial { rate, is_kept });
        }
        (answer(&trials), trials)
    }

    #[test]
    fn the_limit_is_enclosed_within_the_resolution() {
        for limit in [7.0, 99.0, 100.0, 101.0, 1234.0, 54_321.0] {
            let (found, trials) = search(|rate| rate <= limit);
            let (kept, missed) = (found.kept.unwrap(), found.missed.unwrap());
            assert!(kept <= limit && limit < missed, "{limit}: {found:?}");
            assert!(missed / kept <= 1.06, "{limit}: {found:?}");
            assert!(trials.len() <= 35, "{limit}: {}", trials.len());
        }
    }

    #[test]
    fn what_is_always_or_never_kept_ends_at_the_bounds() {
        let (always, _) = search(|_| true);
        assert_eq!((always.kept, always.missed), (Some(1e6), None));
        let (never, _) = search(|_| false);
        assert_eq!((never.kept, never.missed), (None, Some(6.25)));
    }

    #[test]
    fn one_accident_decides_nothing() {
        for accident in 0..8 {
            let mut count = 0;
            let (found, _) = search(|rate| {
                count += 1;
                rate <= 1000.0 && count != accident
            });
            let kept = found.kept.unwrap();
            assert!((950.0..=1000.0).contains(&kept), "{accident}: {found:?}");
        }
    }
}
