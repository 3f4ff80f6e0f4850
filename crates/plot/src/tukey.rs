//! The five figures of a box plot (J. W. Tukey, "Exploratory Data Analysis", 1977).

use crate::scale::figure;

/// Quartiles and whiskers of some values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Tukey {
    /// The lowest value within 1.5 times the interquartile range of the box.
    pub low_whisker: f64,
    pub low_quartile: f64,
    pub median: f64,
    /// Where the line across the box is: at the median, unless another estimate is compared.
    pub center: f64,
    pub high_quartile: f64,
    /// The highest value within 1.5 times the interquartile range of the box.
    pub high_whisker: f64,
}

impl Tukey {
    /// Of finite values in ascending order; `None` of no values.
    pub fn of(sorted: &[f64]) -> Option<Self> {
        let (first, last) = (*sorted.first()?, *sorted.last()?);
        let [low_quartile, median, high_quartile] = [0.25, 0.5, 0.75].map(|p| quantile(sorted, p));
        let reach = 1.5 * (high_quartile - low_quartile);
        let low_fence = low_quartile - reach;
        let high_fence = high_quartile + reach;
        let low_whisker = sorted
            .iter()
            .copied()
            .find(|value| *value >= low_fence)
            .unwrap_or(first);
        let high_whisker = sorted
            .iter()
            .rev()
            .copied()
            .find(|value| *value <= high_fence)
            .unwrap_or(last);
        // A quartile lies between two values; where the nearer one is beyond the fence, the whisker
        // would end inside the box.
        let (low_whisker, high_whisker) = (
            low_whisker.min(low_quartile),
            high_whisker.max(high_quartile),
        );
        Some(Self {
            low_whisker,
            low_quartile,
            median,
            center: median,
            high_quartile,
            high_whisker,
        })
    }

    /// The same with the line at `center`, if there is one.
    pub fn centered(self, center: Option<f64>) -> Self {
        let center = center.unwrap_or(self.median);
        Self { center, ..self }
    }

    /// What a tooltip says of the line: `median 5`, or what is compared in front of it.
    pub fn describe_center(&self) -> String {
        let median = format!("median {}", figure(self.median));
        match self.center == self.median {
            true => median,
            false => format!("compared {}\n{median} of all runs", figure(self.center)),
        }
    }
}

/// Linear interpolation between order statistics: type 7 of R. J. Hyndman and Y. Fan, "Sample Quantiles in
/// Statistical Packages" (1996), the default of R and NumPy.
fn quantile(sorted: &[f64], p: f64) -> f64 {
    let position = p * (sorted.len() - 1) as f64;
    let below = position.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    let share = position - below as f64;
    // Weighing both instead of adding a difference cannot overflow.
    sorted[below] * (1.0 - share) + sorted[above] * share
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(got: Tukey, wanted: [f64; 5]) {
        let got = [
            got.low_whisker,
            got.low_quartile,
            got.median,
            got.high_quartile,
            got.high_whisker,
        ];
        for (got, wanted) in got.iter().zip(wanted) {
            assert!((got - wanted).abs() < 1e-12, "{got} is not {wanted}");
        }
    }

    #[test]
    fn agrees_with_r() {
        // R 4.2: x <- sort(c(12.1, 11.8, 12.4, 15.9, 12.0, 11.9, 12.6, 9.7, 12.2, 12.3))
        // quantile(x, c(.25, .5, .75)); range(x[x >= q1 - 1.5 * iqr & x <= q3 + 1.5 * iqr])
        let mut values = vec![12.1, 11.8, 12.4, 15.9, 12.0, 11.9, 12.6, 9.7, 12.2, 12.3];
        values.sort_by(f64::total_cmp);
        close(
            Tukey::of(&values).unwrap(),
            [11.8, 11.925, 12.15, 12.375, 12.6],
        );
    }

    #[test]
    fn one_value_and_equal_values_are_a_line() {
        close(Tukey::of(&[3.0]).unwrap(), [3.0; 5]);
        close(Tukey::of(&[3.0, 3.0, 3.0]).unwrap(), [3.0; 5]);
        assert_eq!(Tukey::of(&[]), None);
    }
}
