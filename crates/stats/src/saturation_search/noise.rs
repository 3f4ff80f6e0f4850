//! How much a level differs from itself, and what that says of the difference of two levels.
//!
//! Three visits know little about their own spread. The spread of all levels together, relative to their
//! throughputs, is known much better, and noise of a machine is about proportional to what is measured.

use super::Level;
use crate::describe::mean as mean_of;
use crate::distribution::student_t;

/// Confidence of the decisions: of about twenty comparisons in a search, each looked at several times, hardly
/// one may be wrong.
const CONFIDENCE: f64 = 0.98;

/// Less than this is never called growth or decline, however well it is known.
const MARGIN: f64 = 0.01;

/// Levels that differ by less are as good as each other.
const TOLERANCE: f64 = 0.05;

/// Relative spread of the visits of a level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise {
    /// Standard deviation of one visit, as a share of its level's throughput; 0 where no level was
    /// visited twice.
    pub spread: f64,
    /// Degrees of freedom: visits less levels.
    pub df: usize,
}

/// What two levels say of each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// Throughput of the second as a multiple of that of the first.
    pub ratio: f64,
    /// Half of the width of the interval of ln `ratio` at the confidence of the decisions.
    pub half: f64,
}

/// Mean throughput of a level; 0 without visits.
pub(super) fn mean(level: &Level) -> f64 {
    match level.throughputs.is_empty() {
        true => 0.0,
        false => mean_of(&level.throughputs),
    }
}

impl Noise {
    /// The spread of all levels together.
    pub fn of<'a>(levels: impl Iterator<Item = &'a Level>) -> Noise {
        let (mut squares, mut df) = (0.0, 0);
        for level in levels {
            let centre = mean(level);
            if level.throughputs.len() < 2 || level.is_spoilt || centre <= 0.0 {
                continue;
            }
            let square = |value: &f64| (value / centre - 1.0).powi(2);
            squares += level.throughputs.iter().map(square).sum::<f64>();
            df += level.throughputs.len() - 1;
        }
        Noise {
            spread: match df {
                0 => 0.0,
                df => (squares / df as f64).sqrt(),
            },
            df,
        }
    }

    /// Half of the width of the interval of the mean of so many visits, as a share of it. `None` where
    /// nothing is known of the spread.
    pub fn half_width(&self, visits: usize, confidence: f64) -> Option<f64> {
        self.half(1.0 / visits as f64, confidence)
    }

    fn half(&self, of_variance: f64, confidence: f64) -> Option<f64> {
        let tail = 0.5 * (1.0 - confidence);
        (self.df > 0 && of_variance.is_finite()).then(|| {
            student_t::upper_quantile(tail, self.df as f64) * self.spread * of_variance.sqrt()
        })
    }

    /// From one level to another, with an interval at `confidence` in logarithms. It has no width where
    /// nothing is known of the spread.
    pub fn change_at(&self, from: &Level, to: &Level, confidence: f64) -> Change {
        let visits = |level: &Level| 1.0 / level.throughputs.len() as f64;
        Change {
            ratio: mean(to) / mean(from),
            half: self
                .half(visits(from) + visits(to), confidence)
                .unwrap_or(0.0),
        }
    }

    /// The same at the confidence of the decisions.
    pub(super) fn change(&self, from: &Level, to: &Level) -> Change {
        self.change_at(from, to, CONFIDENCE)
    }
}

impl Change {
    /// The ends of the interval of the ratio.
    pub fn interval(&self) -> crate::Interval {
        crate::Interval {
            low: self.ratio * (-self.half).exp(),
            high: self.ratio * self.half.exp(),
        }
    }

    /// More than the margin, and beyond noise. From nothing to something is growth.
    pub(super) fn is_growth(&self) -> bool {
        self.ratio > 1.0 + MARGIN && self.interval().low > 1.0
    }

    /// Shown to be lower by more than the margin.
    pub(super) fn is_decline(&self) -> bool {
        self.interval().high < 1.0 - MARGIN
    }

    /// Shown not to be lower by more than the tolerance.
    pub(super) fn is_as_good(&self) -> bool {
        self.interval().low > 1.0 - TOLERANCE
    }
}
