//! A forest plot: one estimate with its interval per row, against a reference line.
//! The figures stand in a column at the right, so that the chart can be read as a table, too.

use crate::draw::{Rect, Svg};
use crate::forest_plot::ForestPlot;
use crate::forest_row::{ForestRow, Mark};
use crate::layout::{Header, Key, Swatch, omitted_note};
use crate::page::Figure;
use crate::scale::{Extent, fixed};
use crate::summary::{count, list};
use crate::{Axis, Scale};

/// Estimates with intervals, one per row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ForestChart {
    /// What the chart shows, in large letters.
    pub title: String,
    /// A line of explanation.
    pub subtitle: Option<String>,
    /// What the estimates are, with the unit, and which side is good.
    pub x_label: String,
    /// Whether the estimates are changes in percent. Such that go beyond a halving or a doubling are drawn by
    /// their ratio, because on a linear axis the greatest one would squeeze all others.
    pub percent: bool,
    /// Where there is no difference; a line is drawn there.
    pub reference: f64,
    /// Differences within this range do not matter; it is shaded.
    pub band: Option<(f64, f64)>,
    /// The rows, from top to bottom.
    pub rows: Vec<ForestRow>,
}

impl ForestChart {
    fn shown(&self) -> impl Iterator<Item = &ForestRow> {
        self.rows.iter().filter(|row| row.estimate.is_finite())
    }

    fn labels(&self) -> Vec<&str> {
        self.rows.iter().map(|row| row.label.as_str()).collect()
    }

    /// The axis of the estimates.
    pub(crate) fn axis(&self) -> Axis {
        let far = |row: &ForestRow| !(-50.0..=100.0).contains(&row.estimate);
        let scale = if self.percent && self.shown().any(far) {
            Scale::Change
        } else {
            Scale::Linear
        };
        Axis {
            label: self.x_label.clone(),
            scale,
        }
    }

    /// From the lowest to the highest end, yet an interval much wider than the others does not squeeze
    /// them: it is cut at four median half-widths from the estimates, and an arrow says so.
    pub(crate) fn extent(&self) -> Option<Extent> {
        let scale = self.axis().scale;
        let estimates = Extent::of(&scale, self.shown().map(|row| row.estimate))?;
        let projected = |value: f64| estimates.projection().forward(value);
        let half = |row: &ForestRow| Some((projected(row.high)? - projected(row.low)?).abs() / 2.0);
        let mut halves: Vec<f64> = self.shown().filter_map(half).collect();
        halves.sort_by(f64::total_cmp);
        let median = halves.get(halves.len() / 2).copied().unwrap_or(0.0);
        let (lowest, highest) = (estimates.low - 4.0 * median, estimates.high + 4.0 * median);
        let ends = self.shown().flat_map(|row| [row.low, row.high]);
        let ends = ends
            .filter_map(projected)
            .map(|end| end.clamp(lowest, highest));
        let all = ends.fold(estimates, Extent::reaching);
        let band = self.band.into_iter().flat_map(|(low, high)| [low, high]);
        let all = band.chain([self.reference]).fold(all, Extent::including);
        Some(all.padded_across(0.04))
    }

    /// Decimals at which a typical interval has two significant digits.
    fn decimals(&self) -> usize {
        let mut widths: Vec<f64> = self.shown().map(|row| (row.high - row.low).abs()).collect();
        widths.retain(|width| width.is_finite() && *width > 0.0);
        widths.sort_by(f64::total_cmp);
        let width = widths.get(widths.len() / 2).copied().unwrap_or(1.0);
        (1.0 - width.log10().floor()).clamp(0.0, 9.0) as usize
    }

    /// The figures of all rows as text.
    pub(crate) fn figures(&self) -> Vec<String> {
        let decimals = self.decimals();
        self.rows.iter().map(|row| figures(row, decimals)).collect()
    }
}

/// `1.02 [0.99, 1.05]`
fn figures(row: &ForestRow, decimals: usize) -> String {
    let [estimate, low, high] =
        [row.estimate, row.low, row.high].map(|value| fixed(value, decimals));
    match (
        row.estimate.is_finite(),
        row.low.is_nan() || row.high.is_nan(),
    ) {
        (false, _) => "no estimate".into(),
        (true, true) => estimate,
        (true, false) => format!("{estimate} [{low}, {high}]"),
    }
}

impl Figure for ForestChart {
    fn header(&self) -> Header<'_> {
        let used = |mark: &Mark| self.shown().any(|row| row.mark == *mark);
        let key = |mark| Key {
            name: Mark::word(mark).into(),
            swatch: Swatch::Forest(mark),
        };
        Header {
            title: &self.title,
            subtitle: self.subtitle.as_deref(),
            note: omitted_note(self.rows.len() - self.shown().count(), &[]),
            legend: Mark::ALL.into_iter().filter(used).map(key).collect(),
        }
    }

    fn summary(&self) -> String {
        let verdicts = Mark::ALL.map(|mark| {
            let rows = self.shown().filter(|row| row.mark == mark).count();
            format!("{rows} {}", mark.word())
        });
        let rows = count(self.rows.len(), "row", "s");
        format!(
            "Forest plot of {rows}: {}. Rows: {}.",
            verdicts.join(", "),
            list(&self.labels())
        )
    }

    fn is_empty(&self) -> bool {
        self.shown().next().is_none()
    }

    fn draw(&self, svg: &mut Svg, area: Rect) {
        let Some(extent) = self.extent() else { return };
        ForestPlot::lay_out(self, area, extent).draw(svg);
    }

    fn natural_height(&self, width: f64) -> f64 {
        ForestPlot::natural_height(self, width)
    }
}
