//! Draws a single box of a box plot: box, center line, whiskers, and the values as points.

use crate::banded::BandPlot;
use crate::numeral::format_figure;
use crate::style::{SeriesStyle, pale_fill};
use crate::svg::SvgWriter;

/// Maximum thickness of a box.
const MAX_THICKNESS_PX: f64 = 72.0;

/// A box with the data for its tooltips.
pub(crate) struct BoxMark<'a> {
    pub category: &'a str,
    pub name: &'a str,
    /// The values that can be shown, ascending.
    pub sorted: &'a [f64],
    /// Position of the line across the box; `None` for the median.
    pub center: Option<f64>,
    pub style: SeriesStyle,
    /// Center in pixels, across the value direction.
    pub middle: f64,
}

impl BoxMark<'_> {
    pub fn draw(&self, svg: &mut SvgWriter, banded: &BandPlot) {
        let Some(quartiles) = TukeyStats::of_sorted(self.sorted) else {
            return;
        };
        let tukey = quartiles.with_center(self.center);
        let half_px = (banded.slot_px() * 0.86).min(MAX_THICKNESS_PX) / 2.0;
        svg.start_group("series")
            .set_text("stroke", &self.style.color())
            .set_number("stroke-width", if half_px < 3.0 { 0.6 } else { 1.2 })
            .end_with(|svg| {
                self.draw_whiskers(svg, banded, &tukey, half_px * 0.4);
                self.draw_box(svg, banded, &tukey, half_px);
                self.draw_points(svg, banded, half_px);
                self.draw_center(svg, banded, &tukey, half_px);
            });
    }

    fn draw_whiskers(&self, svg: &mut SvgWriter, banded: &BandPlot, tukey: &TukeyStats, cap: f64) {
        let arms =
            [(tukey.low_quartile, tukey.low_whisker), (tukey.high_quartile, tukey.high_whisker)];
        for (from, to) in arms {
            let middle = banded.point(self.middle, to);
            svg.start_line(banded.point(self.middle, from), middle)
                .set_text("class", "whisker")
                .end_empty();
            let (start, end) =
                (banded.point(self.middle - cap, to), banded.point(self.middle + cap, to));
            svg.start_line(start, end).set_text("class", "cap").end_empty();
        }
    }

    fn draw_box(&self, svg: &mut SvgWriter, banded: &BandPlot, tukey: &TukeyStats, half_px: f64) {
        let across = (self.middle - half_px, self.middle + half_px);
        let rect = banded.rect(across, (tukey.low_quartile, tukey.high_quartile));
        svg.start_element("rect")
            .set_text("class", "box")
            .set_number("x", rect.left)
            .set_number("y", rect.top)
            .set_number("width", rect.right - rect.left)
            .set_number("height", rect.bottom - rect.top)
            .set_text("fill", &pale_fill(self.style))
            .end_with_tooltip(&self.tooltip(tukey));
    }

    fn draw_center(
        &self,
        svg: &mut SvgWriter,
        banded: &BandPlot,
        tukey: &TukeyStats,
        half_px: f64,
    ) {
        let ends = [self.middle - half_px, self.middle + half_px];
        let [start, end] = ends.map(|across| banded.point(across, tukey.center));
        let line = svg.start_line(start, end).set_text("class", "median");
        line.set_number("stroke-width", if half_px > 5.0 { 2.5 } else { 1.5 }).end_empty();
    }

    fn draw_points(&self, svg: &mut SvgWriter, banded: &BandPlot, half_px: f64) {
        let radius = self.point_radius(half_px);
        let opacity = if self.sorted.len() > 200 { 0.45 } else { 0.65 };
        // The tooltips of points omit the category: repeated for every point, its name would make
        // up most of the file.
        let name = match self.name.trim() {
            "" => String::new(),
            name => format!("{name}: "),
        };
        let points = svg
            .start_group("points")
            .set_text("stroke", "none")
            .set_text("fill", &self.style.color());
        points.set_number("fill-opacity", opacity).end_with(|svg| {
            for (value, offset) in self.sorted.iter().zip(point_offsets(self.sorted)) {
                let spread_px = (half_px - radius).max(0.0) * 1.7;
                let (x, y) = banded.point(self.middle + offset * spread_px, *value);
                svg.start_element("path")
                    .set_text("class", "point")
                    .set_text("d", &self.style.marker().path(x, y, radius))
                    .end_with_tooltip(&format!("{name}{}", format_figure(*value)));
            }
        });
    }

    /// Radius of the points. They are smaller if there are many, or in a thin box.
    fn point_radius(&self, half_px: f64) -> f64 {
        let preferred = match self.sorted.len() {
            0..40 => 2.8,
            40..200 => 2.2,
            _ => 1.6,
        };
        f64::min(preferred, half_px * 0.2).max(0.6)
    }

    /// Start of a tooltip: category and name.
    fn tooltip_owner(&self) -> String {
        let parts = [self.category, self.name];
        let named: Vec<&str> = parts.into_iter().filter(|part| !part.trim().is_empty()).collect();
        if named.is_empty() { String::new() } else { format!("{}: ", named.join(", ")) }
    }

    fn tooltip(&self, tukey: &TukeyStats) -> String {
        format!(
            "{}{}\nquartiles {} to {}\nwhiskers {} to {}\nn = {}",
            self.tooltip_owner(),
            tukey.describe_center(),
            format_figure(tukey.low_quartile),
            format_figure(tukey.high_quartile),
            format_figure(tukey.low_whisker),
            format_figure(tukey.high_whisker),
            self.sorted.len(),
        )
    }
}

// The statistics of a box plot (J. W. Tukey, "Exploratory Data Analysis", 1977).

/// Quartiles and whiskers of a set of values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TukeyStats {
    /// Lowest value within 1.5 interquartile ranges of the box.
    pub low_whisker: f64,
    pub low_quartile: f64,
    pub median: f64,
    /// Position of the line across the box: the median, or the estimate that is compared instead of
    /// the median.
    pub center: f64,
    pub high_quartile: f64,
    /// Highest value within 1.5 interquartile ranges of the box.
    pub high_whisker: f64,
}

impl TukeyStats {
    /// Computes the statistics of finite values in ascending order; `None` if there are none.
    pub fn of_sorted(sorted: &[f64]) -> Option<Self> {
        let (first, last) = (*sorted.first()?, *sorted.last()?);
        let [low_quartile, median, high_quartile] = [0.25, 0.5, 0.75].map(|p| quantile(sorted, p));
        let fence_distance = 1.5 * (high_quartile - low_quartile);
        let low_fence = low_quartile - fence_distance;
        let high_fence = high_quartile + fence_distance;
        let low_whisker = sorted.iter().copied().find(|value| *value >= low_fence).unwrap_or(first);
        let high_whisker =
            sorted.iter().rev().copied().find(|value| *value <= high_fence).unwrap_or(last);
        // A quartile may lie between two values. If the outer value is beyond the fence, the
        // whisker would end inside the box, so it ends at the quartile instead.
        let (low_whisker, high_whisker) =
            (low_whisker.min(low_quartile), high_whisker.max(high_quartile));
        Some(Self {
            low_whisker,
            low_quartile,
            median,
            center: median,
            high_quartile,
            high_whisker,
        })
    }

    /// Moves the line across the box to `center`, if given.
    pub fn with_center(self, center: Option<f64>) -> Self {
        Self { center: center.unwrap_or(self.median), ..self }
    }

    /// Tooltip text for the line, such as `median 5`. If the compared estimate differs from the
    /// median, the estimate comes first.
    pub fn describe_center(&self) -> String {
        let median = format!("median {}", format_figure(self.median));
        if self.center == self.median {
            median
        } else {
            format!("compared estimate {}\n{median} of all runs", format_figure(self.center))
        }
    }
}

/// Interpolates linearly between order statistics: type 7 of R. J. Hyndman and Y. Fan, "Sample
/// Quantiles in Statistical Packages" (1996), the default of R and NumPy.
fn quantile(sorted: &[f64], p: f64) -> f64 {
    let position = p * (sorted.len() - 1) as f64;
    let below = position.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    let share = position - below as f64;
    // Unlike the sum of a value and a difference, a weighted sum cannot overflow.
    sorted[below] * (1.0 - share) + sorted[above] * share
}

// Spreads the points of a box sideways, so that similar values are distinguishable. Uses no random
// numbers, so the result is deterministic.

/// Returns offsets in [-0.5, 0.5] for values in ascending order. Points spread wider where many
/// values are close together, so the outline of the cloud shows the distribution (a sina plot; N.
/// Sidiropoulos et al., 2018).
pub(crate) fn point_offsets(sorted: &[f64]) -> Vec<f64> {
    let densities = densities(sorted);
    // Fewer points than this hardly touch, and need less than the full width.
    const MIN_CROWD: f64 = 6.0;
    let densest = densities.iter().copied().fold(MIN_CROWD, f64::max);
    let spread =
        |(index, density): (usize, &f64)| (van_der_corput(index + 1) - 0.5) * density / densest;
    densities.iter().enumerate().map(spread).collect()
}

/// Returns, for each value, how many values differ from it by at most a tenth of the range. The
/// value itself counts.
fn densities(sorted: &[f64]) -> Vec<f64> {
    let (Some(first), Some(last)) = (sorted.first(), sorted.last()) else {
        return Vec::new();
    };
    // Halve both ends before the subtraction, because the range of finite numbers may overflow.
    let distance = (last / 2.0 - first / 2.0) * 0.2;
    let (mut from, mut to) = (0, 0);
    let count = |value: &f64| {
        while sorted[from] < value - distance {
            from += 1;
        }
        while to < sorted.len() && sorted[to] <= value + distance {
            to += 1;
        }
        (to - from) as f64
    };
    sorted.iter().map(count).collect()
}

/// The van der Corput sequence in base 2. Consecutive elements fill the unit interval evenly, and
/// two successive elements are far apart, so neighboring points hardly overlap.
fn van_der_corput(mut index: usize) -> f64 {
    let (mut value, mut share) = (0.0, 0.5);
    while index > 0 {
        value += share * (index % 2) as f64;
        index /= 2;
        share /= 2.0;
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_close(got: TukeyStats, wanted: [f64; 5]) {
        let got =
            [got.low_whisker, got.low_quartile, got.median, got.high_quartile, got.high_whisker];
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
        assert_close(TukeyStats::of_sorted(&values).unwrap(), [11.8, 11.925, 12.15, 12.375, 12.6]);
    }

    #[test]
    fn one_value_and_equal_values_are_a_line() {
        assert_close(TukeyStats::of_sorted(&[3.0]).unwrap(), [3.0; 5]);
        assert_close(TukeyStats::of_sorted(&[3.0, 3.0, 3.0]).unwrap(), [3.0; 5]);
        assert_eq!(TukeyStats::of_sorted(&[]), None);
    }

    #[test]
    fn equal_values_do_not_lie_on_each_other() {
        let mut offsets = point_offsets(&[1.0; 16]);
        offsets.sort_by(f64::total_cmp);
        assert!(offsets.windows(2).all(|pair| pair[1] - pair[0] > 0.01));
        assert!(offsets.iter().all(|offset| offset.abs() <= 0.5));
    }

    #[test]
    fn a_lonely_value_stays_near_the_middle() {
        let mut values = vec![1.0; 50];
        values.push(100.0);
        let offsets = point_offsets(&values);
        assert!(offsets[50].abs() < 0.02);
        assert!(offsets.iter().any(|offset| offset.abs() > 0.4));
    }

    #[test]
    fn the_sequence_is_that_of_van_der_corput() {
        assert_eq!([1, 2, 3, 4].map(van_der_corput), [0.5, 0.25, 0.75, 0.125]);
    }

    #[test]
    fn extreme_values_do_no_harm() {
        assert_eq!(point_offsets(&[f64::MIN, f64::MAX]).len(), 2);
        assert!(point_offsets(&[]).is_empty());
    }
}
