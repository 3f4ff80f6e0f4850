//! A forest plot: one estimate with its interval per row, against a reference line. A column at the
//! right lists the figures, so that the chart can also be read as a table.

use crate::axes::{bottom_height, draw_bottom_axis};
use crate::category_labels::{CategoryLabels, LABEL_PX, wanted_height};
use crate::colour::{AXIS, BAND, INK, MUTED};
use crate::header::{Header, Key, Swatch, omitted_note};
use crate::numeral::{figure, fixed};
use crate::page::{Figure, count, list};
use crate::scale::{Extent, Mapping};
use crate::style::Mark;
use crate::svg::{Anchor, Rect, Svg, Text};
use crate::text::{CAP_HEIGHT, room_for};
use crate::{Axis, Scale};

/// A forest plot: estimates with intervals, one per row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ForestChart {
    /// Title, in large letters.
    pub title: String,
    /// Subtitle.
    pub subtitle: Option<String>,
    /// Label of the estimates, with the unit and the better direction.
    pub x_label: String,
    /// Whether the estimates are changes in percent. If any exceeds a halving or a doubling,
    /// changes are drawn by their ratio, because on a linear axis the largest would squeeze all
    /// others.
    pub percent: bool,
    /// Position of the reference line, where there is no difference.
    pub reference: f64,
    /// Range of negligible differences; shaded.
    pub band: Option<(f64, f64)>,
    /// Rows, from top to bottom.
    pub rows: Vec<ForestRow>,
}

impl ForestChart {
    fn shown(&self) -> impl Iterator<Item = &ForestRow> {
        self.rows.iter().filter(|row| row.estimate.is_finite())
    }

    fn labels(&self) -> Vec<&str> {
        self.rows.iter().map(|row| row.label.as_str()).collect()
    }

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

    /// Extent from the lowest to the highest end. An interval much wider than the others is cut at
    /// four median half-widths from the estimates, so as not to squeeze them, and ends in an arrow.
    pub(crate) fn extent(&self) -> Option<Extent> {
        let scale = self.axis().scale;
        let estimates = Extent::of_values(&scale, self.shown().map(|row| row.estimate))?;
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

    /// Number of decimals at which a typical interval has two significant digits.
    fn decimals(&self) -> usize {
        let mut widths: Vec<f64> = self.shown().map(|row| (row.high - row.low).abs()).collect();
        widths.retain(|width| width.is_finite() && *width > 0.0);
        widths.sort_by(f64::total_cmp);
        let width = widths.get(widths.len() / 2).copied().unwrap_or(1.0);
        (1.0 - width.log10().floor()).clamp(0.0, 9.0) as usize
    }

    /// The formatted figures of all rows.
    pub(crate) fn figures(&self) -> Vec<String> {
        let decimals = self.decimals();
        self.rows.iter().map(|row| figures(row, decimals)).collect()
    }
}

/// Formats a row as `1.02 [0.99, 1.05]`.
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

// Rows and their marks: shape and color are redundant, so that either suffices.

/// An estimate with its interval.
#[derive(Clone, Debug, PartialEq)]
pub struct ForestRow {
    /// Label at the left; a line break separates name and description.
    pub label: String,
    /// The estimate.
    pub estimate: f64,
    /// Lower end of the interval; minus infinity if open.
    pub low: f64,
    /// Upper end of the interval; infinity if open.
    pub high: f64,
    /// Verdict of the interval.
    pub mark: Mark,
}

// Drawing of a forest plot: labels, marks with intervals, and the column of figures.

/// Maximum share of the width for labels.
const LABEL_SHARE: f64 = 0.4;
const LABEL_GAP: f64 = 14.0;
const FIGURES_PX: f64 = 12.0;
const ROW_PX: f64 = 26.0;
/// Height of the header line of the figures column.
const HEAD_PX: f64 = 22.0;

/// Layout of columns and rows of a forest plot.
pub(crate) struct ForestPlot<'a> {
    chart: &'a ForestChart,
    sheet: Rect,
    plot: Rect,
    labels: CategoryLabels,
    x: Mapping,
    row_px: f64,
    figures: Vec<String>,
    with_column: bool,
}

impl<'a> ForestPlot<'a> {
    /// Lays out the rows of `chart` in `sheet`.
    pub fn lay_out(chart: &'a ForestChart, sheet: Rect, extent: Extent) -> Self {
        let top = sheet.top + HEAD_PX;
        let bottom = (sheet.bottom - bottom_height(&chart.x_label)).max(top + 8.0);
        let row_px = (bottom - top) / chart.rows.len().max(1) as f64;
        let labels: Vec<&str> = chart.rows.iter().map(|row| row.label.as_str()).collect();
        let labels = CategoryLabels::beside(&labels, row_px, sheet.width() * LABEL_SHARE);
        let left = sheet.left + labels.width() + LABEL_GAP;
        let figures = chart.figures();
        let widest = figures
            .iter()
            .map(|text| room_for(text, FIGURES_PX))
            .fold(0.0, f64::max);
        // Omit the column of figures if it would leave too little for the plot; the tooltips
        // contain them, too.
        let with_column = widest < (sheet.right - left) * 0.5;
        let column = if with_column { widest + LABEL_GAP } else { 0.0 };
        let plot = Rect::new(left, top, sheet.right - column, bottom);
        let x = Mapping::new(&chart.axis(), extent, plot.left, plot.right);
        Self {
            chart,
            sheet,
            plot,
            labels,
            x,
            row_px,
            figures,
            with_column,
        }
    }

    /// Preferred height in pixels for a given width.
    pub fn natural_height(chart: &ForestChart, width: f64) -> f64 {
        let column = width * LABEL_SHARE;
        let heights = chart
            .rows
            .iter()
            .map(|row| wanted_height(&row.label, column));
        let row_px = heights.fold(ROW_PX, f64::max);
        row_px * chart.rows.len() as f64 + HEAD_PX + bottom_height(&chart.x_label)
    }

    pub fn draw(&self, svg: &mut Svg) {
        self.draw_ground(svg);
        for (at, (row, figures)) in self.chart.rows.iter().zip(&self.figures).enumerate() {
            if row.estimate.is_finite() {
                let tooltip = format!("{}: {figures}, {}", row.label, row.mark.word());
                draw_row(
                    svg,
                    row,
                    &self.x,
                    (self.row_middle(at), self.row_px),
                    &tooltip,
                );
            }
        }
        if self.with_column {
            self.draw_figures(svg);
        }
    }

    fn row_middle(&self, at: usize) -> f64 {
        self.plot.top + (at as f64 + 0.5) * self.row_px
    }

    /// Draws band, axis, reference line and labels.
    fn draw_ground(&self, svg: &mut Svg) {
        let Rect { top, bottom, .. } = self.plot;
        draw_band(svg, self.chart, &self.x, (top, bottom));
        draw_bottom_axis(svg, self.sheet, self.plot, &self.x, &self.chart.x_label);
        draw_reference(svg, self.chart, &self.x, (top, bottom));
        self.labels
            .draw_beside(svg, self.plot.left - LABEL_GAP, |at| self.row_middle(at));
    }

    /// Draws the column of figures, as many rows as fit.
    fn draw_figures(&self, svg: &mut Svg) {
        let size_px = FIGURES_PX.min(self.row_px * 0.9);
        let stride = if size_px < 7.0 {
            (7.0 / size_px).ceil() as usize
        } else {
            1
        };
        let size_px = size_px.max(7.0);
        svg.group("figures").containing(|svg| {
            let head = Text::at(
                "estimate [interval]",
                self.sheet.right,
                self.plot.top - 8.0,
                11.0,
            );
            svg.text(&head.anchored(Anchor::End).coloured(MUTED));
            for (at, figures) in self.figures.iter().enumerate().step_by(stride) {
                let baseline = self.row_middle(at) + size_px * CAP_HEIGHT / 2.0;
                let colour = if self.chart.rows[at].estimate.is_finite() {
                    INK
                } else {
                    MUTED
                };
                let text = Text::at(figures, self.sheet.right, baseline, size_px);
                svg.text(&text.anchored(Anchor::End).coloured(colour));
            }
        });
    }
}

/// Shades negligible differences from `top` to `bottom`.
pub(crate) fn draw_band(
    svg: &mut Svg,
    chart: &ForestChart,
    x: &Mapping,
    (top, bottom): (f64, f64),
) {
    let Some((low, high)) = chart.band else {
        return;
    };
    let (one, other) = (x.at(low), x.at(high));
    svg.element("rect")
        .set("class", "band")
        .num("x", one.min(other))
        .num("y", top)
        .num("width", (other - one).abs())
        .num("height", bottom - top)
        .set("fill", BAND)
        .titled(&format!("{} to {}", figure(low), figure(high)));
}

/// Draws the reference line, at which there is no difference.
pub(crate) fn draw_reference(
    svg: &mut Svg,
    chart: &ForestChart,
    x: &Mapping,
    (top, bottom): (f64, f64),
) {
    let reference = x.at(chart.reference);
    svg.line((reference, top), (reference, bottom))
        .set("class", "reference")
        .set("stroke", AXIS)
        .num("stroke-width", 1.5)
        .close();
}

/// Draws the mark of a row with its interval, centered in a row of the given height.
pub(crate) fn draw_row(
    svg: &mut Svg,
    row: &ForestRow,
    x: &Mapping,
    (y, row_px): (f64, f64),
    tooltip: &str,
) {
    let radius = mark_px(row_px);
    let colour = row.mark.colour();
    svg.group("row")
        .set("stroke", colour)
        .set("fill", colour)
        .containing(|svg| {
            if !row.low.is_nan() && !row.high.is_nan() {
                let width = if row_px > 8.0 { 2.2 } else { 1.0 };
                let (low, high) = (x.at(row.low), x.at(row.high));
                let line = svg.line((low, y), (high, y)).set("class", "interval");
                line.num("stroke-width", width).close();
                for (end, at, turn) in [(row.low, low, -1.0), (row.high, high, 1.0)] {
                    draw_end(svg, x.reaches(end), at, y, turn, radius);
                }
            }
            row.mark
                .draw(svg, x.at(row.estimate), y, radius, Some(tooltip));
        });
}

/// Radius of a mark in a row of the given height.
pub(crate) fn mark_px(row_px: f64) -> f64 {
    (row_px * 0.3).clamp(1.6, LABEL_PX * 0.44)
}

/// Draws a cap at the end of the interval, or an arrow if it continues beyond the plot.
pub(crate) fn draw_end(svg: &mut Svg, inside: bool, x: f64, y: f64, turn: f64, radius: f64) {
    if inside {
        let half = radius * 0.7;
        svg.line((x, y - half), (x, y + half))
            .set("class", "cap")
            .num("stroke-width", 1.4)
            .close();
        return;
    }
    let back = x - turn * radius * 1.6;
    let points = format!(
        "{x:.2},{y:.2} {back:.2},{:.2} {back:.2},{:.2}",
        y - radius,
        y + radius
    );
    svg.element("polygon")
        .set("class", "open")
        .set("points", &points)
        .set("stroke", "none")
        .close();
}
