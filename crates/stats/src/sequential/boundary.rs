//! Limits for |z| at each look, by recursive numerical integration.
//!
//! Decides how the probability to cross is computed: the score at information time t is a Brownian
//! motion, and its density among the paths that have not crossed yet is carried from look to look
//! (Armitage, McPherson and Rowe, JRSS A 132, 1969). It must not know runs or spending functions.
//! Start at [`limits_for_spending`].

use crate::distribution::normal;
use crate::distribution::solve::decreasing_root;

/// Grid points per standard deviation of the next increment. Simpson's rule is then accurate to
/// about 1e-7 of a look's probability, a hundredth of the last digit shown.
const POINTS_PER_DEVIATION: f64 = 20.0;

/// Increments farther than this many standard deviations are left out: they weigh below 1e-18.
const REACH: f64 = 9.0;

/// The limit of |z| at each look so that by look k the probability to have crossed is
/// `cumulative[k]` when nothing differs.
///
/// `times` are the information times, increasing and positive; only their ratios matter.
pub fn limits_for_spending(times: &[f64], cumulative: &[f64]) -> Vec<f64> {
    let mut walk = Walk::default();
    let mut spent = 0.0;
    let mut limits = Vec::with_capacity(times.len());
    for (&time, &target) in times.iter().zip(cumulative) {
        let increment = target - spent;
        // 38 standard deviations exhaust what a double can tell from zero.
        let score = decreasing_root(0.0, 38.0 * time.sqrt(), |s| {
            walk.crossing(time, s) - increment
        });
        limits.push(score / time.sqrt());
        walk.step(time, score);
        spent = target;
    }
    limits
}

/// The probability that |z| crosses `limits` at one of the looks when nothing differs.
pub fn probability_to_cross(times: &[f64], limits: &[f64]) -> f64 {
    let mut walk = Walk::default();
    let mut crossed = 0.0;
    for (&time, &limit) in times.iter().zip(limits) {
        let score = limit * time.sqrt();
        crossed += walk.crossing(time, score);
        walk.step(time, score);
    }
    crossed
}

/// Paths that have not crossed so far: a weighted grid of scores at the last look's time, or a
/// single certain score of zero before the first.
struct Walk {
    time: f64,
    /// Score and its share of the probability (density times Simpson weight).
    grid: Vec<(f64, f64)>,
}

impl Default for Walk {
    fn default() -> Walk {
        Walk {
            time: 0.0,
            grid: vec![(0.0, 1.0)],
        }
    }
}

impl Walk {
    /// Probability to be still inside before `time` and beyond +-`limit` (a score) at it.
    fn crossing(&self, time: f64, limit: f64) -> f64 {
        let deviation = (time - self.time).sqrt();
        let beyond = |score: f64| {
            normal::upper_tail((limit - score) / deviation)
                + normal::upper_tail((limit + score) / deviation)
        };
        self.grid
            .iter()
            .map(|&(score, share)| share * beyond(score))
            .sum()
    }

    /// Moves on to `time`, keeping the paths within +-`limit`.
    fn step(&mut self, time: f64, limit: f64) {
        let deviation = (time - self.time).sqrt();
        let half = (limit / deviation * POINTS_PER_DEVIATION).ceil().max(10.0) as usize;
        let width = limit / half as f64;
        let moved = (0..=2 * half).map(|index| {
            let score = index as f64 * width - limit;
            let simpson = if index == 0 || index == 2 * half {
                1.0
            } else if index % 2 == 1 {
                4.0
            } else {
                2.0
            };
            (
                score,
                self.density(score, deviation) * simpson * width / 3.0,
            )
        });
        self.grid = moved.collect();
        self.time = time;
    }

    /// Density of the next score.
    fn density(&self, score: f64, deviation: f64) -> f64 {
        let start = self
            .grid
            .partition_point(|&(from, _)| from < score - REACH * deviation);
        let near = self.grid[start..].iter();
        near.take_while(|&&(from, _)| from <= score + REACH * deviation)
            .map(|&(from, share)| share * normal::density((score - from) / deviation) / deviation)
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Constant limits that give 5 % in all, from Pocock (Biometrika 64, 1977), and O'Brien-Fleming
    /// limits C sqrt(K / k) (Biometrics 35, 1979), as tabulated by Jennison and Turnbull (Group
    /// Sequential Methods, 2000, tables 2.1 and 2.3).
    #[test]
    fn classical_designs_spend_what_their_tables_say() {
        for (looks, pocock, obrien) in [(2, 2.178, 1.977), (5, 2.413, 2.040), (10, 2.555, 2.087)] {
            let times: Vec<f64> = (1..=looks).map(f64::from).collect();
            let flat = vec![pocock; times.len()];
            let falling: Vec<f64> = times
                .iter()
                .map(|k| obrien * (f64::from(looks) / k).sqrt())
                .collect();
            assert!(
                (probability_to_cross(&times, &flat) - 0.05).abs() < 1e-4,
                "{looks} looks"
            );
            assert!(
                (probability_to_cross(&times, &falling) - 0.05).abs() < 1e-4,
                "{looks} looks"
            );
        }
    }

    #[test]
    fn limits_spend_exactly_what_was_asked() {
        let times = [0.2, 0.5, 0.55, 1.0];
        let limits = limits_for_spending(&times, &[0.01, 0.02, 0.03, 0.05]);
        for looks in 1..=4 {
            let crossed = probability_to_cross(&times[..looks], &limits[..looks]);
            let spent = [0.01, 0.02, 0.03, 0.05][looks - 1];
            assert!((crossed - spent).abs() < 1e-7, "{looks} looks: {crossed}");
        }
    }

    #[test]
    fn peeking_five_times_at_five_percent_rejects_one_time_in_seven() {
        let crossed = probability_to_cross(&[1.0, 2.0, 3.0, 4.0, 5.0], &[1.959964; 5]);
        // 0.142: Armitage, McPherson and Rowe 1969, table 2.
        assert!((crossed - 0.142).abs() < 5e-4, "{crossed}");
    }
}
