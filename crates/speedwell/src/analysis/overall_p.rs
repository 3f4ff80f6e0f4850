//! The p value of a test that looked at the data several times.
//!
//! Decides it by the stagewise ordering: a result is more extreme the earlier the test crossed its
//! limit, and at equal looks the farther it went (Tsiatis, Rosner and Mehta, Biometrics 40, 1984).
//! So p is the probability, when nothing differs, to cross at an earlier look or to be at least as
//! far out at this one; it is at most the error rate exactly when the test rejected. Stops for
//! equivalence need no term of their own: they end at the smallest |z| of a look, and every path
//! that went on was farther out. It must not know data. Start at [`OverallP::at`].

use speedwell_stats::distribution::normal;
use speedwell_stats::sequential::Design;

/// Grid points per standard deviation of an increment. Simpson's rule on this grid agrees with a
/// ten times finer one to 1e-8.
const POINTS_PER_DEVIATION: f64 = 20.0;

/// Tables by look from which the p value of any |z| follows.
#[derive(Debug, Clone)]
pub(super) struct OverallP {
    looks: Vec<Stage>,
}

/// What is known before a look.
#[derive(Debug, Clone)]
struct Stage {
    /// Probability to have crossed at an earlier look.
    spent: f64,
    /// Square root of the information at the look, as a share of that at the last one.
    scale: f64,
    /// Standard deviation of the score's increment since the look before.
    deviation: f64,
    /// Scores at the look before among the paths that have not crossed, with their shares.
    before: Vec<(f64, f64)>,
}

impl OverallP {
    /// Prepares the tables for a design.
    ///
    /// The score at information t is a Brownian motion; its density among the paths that have not
    /// crossed is carried from look to look (Armitage, McPherson and Rowe, JRSS A 132, 1969).
    pub fn new(design: &Design) -> OverallP {
        let last = design.maximum() as f64;
        let (mut time, mut spent, mut before) = (0.0, 0.0, vec![(0.0, 1.0)]);
        let mut looks = Vec::new();
        for look in design.limits() {
            let now = look.n as f64 / last;
            let stage = Stage {
                spent,
                scale: now.sqrt(),
                deviation: (now - time).sqrt(),
                before,
            };
            spent = stage.p(look.z_limit);
            before = stage.survivors(look.z_limit);
            time = now;
            looks.push(stage);
        }
        OverallP { looks }
    }

    /// The p value of a test that crossed no limit before the look of this index, from 0, and is
    /// at |z| there.
    pub fn at(&self, look: usize, z: f64) -> f64 {
        self.looks[look].p(z)
    }
}

impl Stage {
    fn p(&self, z: f64) -> f64 {
        let limit = z.abs() * self.scale;
        let beyond = |score: f64| {
            normal::upper_tail((limit - score) / self.deviation)
                + normal::upper_tail((limit + score) / self.deviation)
        };
        let here: f64 = self
            .before
            .iter()
            .map(|&(score, share)| share * beyond(score))
            .sum();
        (self.spent + here).min(1.0)
    }

    /// Scores at this look that stay within its limit, with Simpson's weights in their shares.
    fn survivors(&self, z_limit: f64) -> Vec<(f64, f64)> {
        let limit = z_limit * self.scale;
        let half = (limit / self.deviation * POINTS_PER_DEVIATION)
            .ceil()
            .max(10.0) as i32;
        let width = limit / f64::from(half);
        (-half..=half)
            .map(|step| {
                let weight = match step {
                    _ if step.abs() == half => 1.0,
                    _ if (step + half) % 2 == 1 => 4.0,
                    _ => 2.0,
                };
                let score = f64::from(step) * width;
                (score, self.density(score) * weight * width / 3.0)
            })
            .collect()
    }

    fn density(&self, score: f64) -> f64 {
        let from = |&(start, share): &(f64, f64)| {
            share * normal::density((score - start) / self.deviation) / self.deviation
        };
        self.before.iter().map(from).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_stats::sequential::probability_to_cross;

    fn times(design: &Design) -> Vec<f64> {
        design
            .limits()
            .iter()
            .map(|look| look.n as f64 / design.maximum() as f64)
            .collect()
    }

    #[test]
    fn at_the_limit_of_a_look_p_is_the_error_spent_so_far() {
        for design in [
            Design::default(),
            Design::new(&[8, 16, 24, 32, 40], 0.01, 2.0),
        ] {
            let overall = OverallP::new(&design);
            for look in design.limits() {
                let p = overall.at(look.index, look.z_limit);
                assert!(
                    (p / look.cumulative_alpha - 1.0).abs() < 1e-4,
                    "{look:?}: {p}"
                );
            }
        }
    }

    #[test]
    fn between_the_limits_p_is_the_probability_to_cross() {
        let design = Design::default();
        let (overall, times) = (OverallP::new(&design), times(&design));
        for (look, z) in [(0, 1.5), (1, 4.0), (2, 0.3), (3, 2.6), (4, 1.0)] {
            let mut limits: Vec<f64> = design.limits().iter().map(|l| l.z_limit).collect();
            limits[look] = z;
            let reference = probability_to_cross(&times[..=look], &limits[..=look]);
            assert!(
                (overall.at(look, z) - reference).abs() < 1e-7,
                "look {look}, z {z}"
            );
        }
    }

    #[test]
    fn one_look_gives_the_ordinary_p_value() {
        let overall = OverallP::new(&Design::fixed(30, 0.05));
        assert!((overall.at(0, 1.959963984540054) - 0.05).abs() < 1e-12);
        assert_eq!(overall.at(0, 0.0), 1.0);
    }

    /// Random walks without a difference, stopped as the design says: p must be uniform.
    #[test]
    fn when_nothing_differs_every_p_is_equally_likely() {
        use rand::{Rng, SeedableRng};
        let design = Design::default();
        let overall = OverallP::new(&design);
        let mut random = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(5);
        let mut below = [0u32; 4];
        let walks = 4_000;
        for _ in 0..walks {
            let (mut time, mut score) = (0.0, 0.0);
            let mut p = 1.0;
            for look in design.limits() {
                let now = look.n as f64 / 32.0;
                score += normal::quantile(random.random::<f64>()) * f64::sqrt(now - time);
                time = now;
                let z: f64 = score / now.sqrt();
                p = overall.at(look.index, z);
                if z.abs() >= look.z_limit {
                    break;
                }
            }
            for (count, level) in below.iter_mut().zip([0.01, 0.05, 0.3, 0.8]) {
                *count += u32::from(p <= level);
            }
        }
        for (count, level) in below.into_iter().zip([0.01, 0.05, 0.3, 0.8]) {
            let share = f64::from(count) / f64::from(walks);
            let error = 4.0 * f64::sqrt(level * (1.0 - level) / f64::from(walks));
            assert!(
                (share - level).abs() < error,
                "{share} of the p values are below {level}"
            );
        }
    }
}
