//! The highest rate that is kept, when a trial only tells whether a rate was.
//!
//! Decides which rate is tried next and what the answer is: doubling until a rate is missed, then halving
//! the space between the highest kept and the lowest missed one. Near the limit a rate is kept by chance, so
//! what bounds the answer is tried until two trials agree. It must not know what is sent. Start at [`next`].

/// A trial of a rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trial {
    /// Per second, above zero.
    pub rate: f64,
    /// The rate was kept.
    pub is_kept: bool,
}

/// How rates are chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rules {
    /// The first rate.
    pub first: f64,
    /// The highest rate that is tried.
    pub limit: f64,
    /// The answer is found when the lowest missed rate is higher by no more than this share.
    pub resolution: f64,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Next {
    /// Try this rate, once.
    Try(f64),
    /// The answer is known, or the limit is reached.
    Stop,
}

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Answer {
    /// The highest rate that was kept below [`Answer::missed`], if any was.
    pub kept: Option<f64>,
    /// The lowest rate that was missed, if any was.
    pub missed: Option<f64>,
}

/// How the trials of one rate stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Two trials agree, or more of three.
    Kept,
    /// Kept once, never missed.
    Provisional,
    /// Missed once.
    Unclear,
    /// Missed twice.
    Missed,
}

/// Which rate is tried next.
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
        (None, Some(missed)) if missed > rules.first / 1024.0 => Next::Try(missed / 2.0),
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

/// The answer so far.
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

/// Every rate that was tried, in ascending order.
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

/// Three digits: a rate that people can repeat.
fn rounded(rate: f64) -> f64 {
    let step = 10f64.powf(rate.log10().floor() - 2.0);
    (rate / step).round() * step
}
