//! Whether a load has become steady, so that it need not go on.

use crate::measured::Tick;

/// Intervals that are compared with as many before them.
const INTERVALS: usize = 10;

/// A load is steady when its last second is like the one before: in good answers, and in the median
/// service time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Steady {
    /// The greatest relative difference of the two seconds: 0.05 is 5 %.
    pub within: f64,
}

impl Steady {
    /// Looks at the course so far, in intervals of a tenth of a second.
    pub fn is_met(&self, ticks: &[Tick]) -> bool {
        let Some(from) = ticks.len().checked_sub(2 * INTERVALS) else {
            return false;
        };
        let (before, last) = ticks[from..].split_at(INTERVALS);
        let answers = |ticks: &[Tick]| ticks.iter().map(|tick| tick.ok as f64).sum::<f64>();
        let medians = |ticks: &[Tick]| -> f64 {
            let known = ticks.iter().filter_map(|tick| tick.p50_ns);
            known.map(|ns| ns as f64).sum::<f64>() / ticks.len() as f64
        };
        let is_like = |a: f64, b: f64| a > 0.0 && (a - b).abs() <= self.within * a.max(b);
        is_like(answers(before), answers(last)) && is_like(medians(before), medians(last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(of: impl Fn(usize) -> (u64, u64)) -> Vec<Tick> {
        let tick = |at| {
            let (ok, p50_ns) = of(at);
            Tick {
                ok,
                p50_ns: Some(p50_ns),
                ..Tick::default()
            }
        };
        (0..30).map(tick).collect()
    }

    #[test]
    fn a_load_is_steady_when_a_second_is_like_the_one_before() {
        let steady = Steady { within: 0.05 };
        assert!(steady.is_met(&ticks(|at| (1000 + at as u64 % 3, 200_000))));
        assert!(
            !steady.is_met(&ticks(|at| (1000 + 10 * at as u64, 200_000))),
            "it grows"
        );
        assert!(
            !steady.is_met(&ticks(|at| (1000, 200_000 + 4_000 * at as u64))),
            "it slows down"
        );
        assert!(!steady.is_met(&ticks(|_| (0, 0))), "nothing is answered");
        assert!(
            !steady.is_met(&ticks(|_| (1000, 200_000))[..19]),
            "too short to tell"
        );
    }
}
