//! Draws a forest plot. Every row shows one estimate with its interval, against a common reference
//! line. A column at the right lists the numbers, so the chart can also be read as a table.

use crate::axes::{bottom_height, draw_bottom_axis};
use crate::category_labels::{CategoryLabels, LABEL_PX, wanted_height};
use crate::color::{AXIS, BAND, INK, MUTED};
use crate::header::{ChartHeader, LegendKey, LegendSwatch, omitted_note};
use crate::numeral::{format_figure, format_fixed};
use crate::page::{SheetContent, format_count, join_names};
use crate::scale::{AxisExtent, AxisMapping};
use crate::style::VerdictMark;
use crate::svg::{PixelRect, SvgWriter, TextAnchor, TextLine};
use crate::text::{CAP_HEIGHT, reserved_width};
use crate::{AxisScale, ChartAxis};

/// A forest plot: estimates with intervals, one per row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ForestChart {
    /// Title, in large letters.
    pub title: String,
    /// Subtitle.
    pub subtitle: Option<String>,
    /// Label of the estimates, with the unit and whether higher or lower is better.
    pub x_label: String,
    /// Whether the estimates are changes in percent. If any estimate is beyond a halving or a
    /// doubling, all changes are placed by their ratio: on a linear axis, the largest change would
    /// squeeze the others.
    pub percent: bool,
    /// Position of the reference line, which means no difference.
    pub reference: f64,
    /// Range of negligible differences, which is shaded.
    pub band: Option<(f64, f64)>,
    /// Rows, from top to bottom.
    pub rows: Vec<ForestRow>,
}

impl ForestChart {
    fn finite_rows(&self) -> impl Iterator<Item = &ForestRow> {
        self.rows.iter().filter(|row| row.estimate.is_finite())
    }

    fn labels(&self) -> Vec<&str> {
        self.rows.iter().map(|row| row.label.as_str()).collect()
    }

    pub(crate) fn axis(&self) -> ChartAxis {
        let is_far = |row: &ForestRow| !(-50.0..=100.0).contains(&row.estimate);
        let scale = if self.percent && self.finite_rows().any(is_far) {
            AxisScale::Change
        } else {
            AxisScale::Linear
        };
        ChartAxis { label: self.x_label.clone(), scale }
    }

    /// Extent of the axis, from the lowest to the highest end of an interval. It reaches at most
    /// four median half-widths beyond the outermost estimates, so a single wide interval does not
    /// squeeze the others. A longer interval is cut off and ends in an arrow. The extent always
    /// includes the band and the reference line.
    pub(crate) fn extent(&self) -> Option<AxisExtent> {
        let scale = self.axis().scale;
        let estimates = AxisExtent::of_values(&scale, self.finite_rows().map(|row| row.estimate))?;
        let projected = |value: f64| estimates.projection().project(value);
        let half_width =
            |row: &ForestRow| Some((projected(row.high)? - projected(row.low)?).abs() / 2.0);
        let mut half_widths: Vec<f64> = self.finite_rows().filter_map(half_width).collect();
        half_widths.sort_by(f64::total_cmp);
        let median = half_widths.get(half_widths.len() / 2).copied().unwrap_or(0.0);
        let (lowest, highest) = (estimates.low - 4.0 * median, estimates.high + 4.0 * median);
        let ends = self
            .finite_rows()
            .flat_map(|row| [row.low, row.high])
            .filter_map(projected)
            .map(|end| end.clamp(lowest, highest));
        let extent = ends.fold(estimates, AxisExtent::extended_to_projected);
        let band = self.band.into_iter().flat_map(|(low, high)| [low, high]);
        let extent = band.chain([self.reference]).fold(extent, AxisExtent::extended_to);
        Some(extent.padded_across(0.04))
    }

    /// Number of decimals at which a typical interval has two significant digits.
    fn figure_decimals(&self) -> usize {
        let mut widths: Vec<f64> =
            self.finite_rows().map(|row| (row.high - row.low).abs()).collect();
        widths.retain(|width| width.is_finite() && *width > 0.0);
        widths.sort_by(f64::total_cmp);
        let width = widths.get(widths.len() / 2).copied().unwrap_or(1.0);
        (1.0 - width.log10().floor()).clamp(0.0, 9.0) as usize
    }

    /// The formatted estimates and intervals of all rows.
    pub(crate) fn row_figures(&self) -> Vec<String> {
        let decimals = self.figure_decimals();
        self.rows.iter().map(|row| format_figures(row, decimals)).collect()
    }
}

/// Formats a row as `1.02 [0.99, 1.05]`.
fn format_figures(row: &ForestRow, decimals: usize) -> String {
    let [estimate, low, high] =
        [row.estimate, row.low, row.high].map(|value| format_fixed(value, decimals));
    match (row.estimate.is_finite(), row.low.is_nan() || row.high.is_nan()) {
        (false, _) => "no estimate".into(),
        (true, true) => estimate,
        (true, false) => format!("{estimate} [{low}, {high}]"),
    }
}

impl SheetContent for ForestChart {
    fn header(&self) -> ChartHeader<'_> {
        let is_used = |mark: &VerdictMark| self.finite_rows().any(|row| row.mark == *mark);
        let key = |mark| LegendKey {
            name: VerdictMark::word(mark).into(),
            swatch: LegendSwatch::Forest(mark),
        };
        ChartHeader {
            title: &self.title,
            subtitle: self.subtitle.as_deref(),
            note: omitted_note(self.rows.len() - self.finite_rows().count(), &[]),
            legend: VerdictMark::ALL.into_iter().filter(is_used).map(key).collect(),
        }
    }

    fn summary(&self) -> String {
        let verdicts = VerdictMark::ALL.map(|mark| {
            let rows = self.finite_rows().filter(|row| row.mark == mark).count();
            format!("{rows} {}", mark.word())
        });
        let rows = format_count(self.rows.len(), "row", "s");
        format!(
            "Forest plot of {rows}: {}. Rows: {}.",
            verdicts.join(", "),
            join_names(&self.labels())
        )
    }

    fn is_empty(&self) -> bool {
        self.finite_rows().next().is_none()
    }

    fn draw(&self, svg: &mut SvgWriter, area: PixelRect) {
        let Some(extent) = self.extent() else { return };
        ForestPlot::lay_out(self, area, extent).draw(svg);
    }

    fn natural_height(&self, width: f64) -> f64 {
        ForestPlot::natural_height(self, width)
    }
}

// Rows and their marks. The verdict is shown twice, by the shape and by the color of the mark.

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
    pub mark: VerdictMark,
}

// Drawing of a forest plot: labels, marks with intervals, and the column of numbers.

/// Maximum fraction of the width for labels.
const LABEL_SHARE: f64 = 0.4;
const LABEL_GAP: f64 = 14.0;
const FIGURES_PX: f64 = 12.0;
const ROW_PX: f64 = 26.0;
/// Height of the header line of the column of numbers.
const HEAD_PX: f64 = 22.0;

/// Layout of columns and rows of a forest plot.
pub(crate) struct ForestPlot<'a> {
    chart: &'a ForestChart,
    sheet: PixelRect,
    plot: PixelRect,
    labels: CategoryLabels,
    x: AxisMapping,
    row_px: f64,
    figures: Vec<String>,
    with_column: bool,
}

impl<'a> ForestPlot<'a> {
    /// Lays out the rows of `chart` in `sheet`.
    pub fn lay_out(chart: &'a ForestChart, sheet: PixelRect, extent: AxisExtent) -> Self {
        let top = sheet.top + HEAD_PX;
        let bottom = (sheet.bottom - bottom_height(&chart.x_label)).max(top + 8.0);
        let row_px = (bottom - top) / chart.rows.len().max(1) as f64;
        let labels: Vec<&str> = chart.rows.iter().map(|row| row.label.as_str()).collect();
        let labels = CategoryLabels::beside_bands(&labels, row_px, sheet.width() * LABEL_SHARE);
        let left = sheet.left + labels.widest_px() + LABEL_GAP;
        let figures = chart.row_figures();
        let widest =
            figures.iter().map(|text| reserved_width(text, FIGURES_PX)).fold(0.0, f64::max);
        // The column of numbers is omitted if it would leave too little room for the plot. The
        // tooltips also contain the numbers.
        let with_column = widest < (sheet.right - left) * 0.5;
        let column = if with_column { widest + LABEL_GAP } else { 0.0 };
        let plot = PixelRect::new(left, top, sheet.right - column, bottom);
        let x = AxisMapping::new(&chart.axis(), extent, plot.left, plot.right);
        Self { chart, sheet, plot, labels, x, row_px, figures, with_column }
    }

    /// Preferred height in pixels for a given width.
    pub fn natural_height(chart: &ForestChart, width: f64) -> f64 {
        let column = width * LABEL_SHARE;
        let heights = chart.rows.iter().map(|row| wanted_height(&row.label, column));
        let row_px = heights.fold(ROW_PX, f64::max);
        row_px * chart.rows.len() as f64 + HEAD_PX + bottom_height(&chart.x_label)
    }

    pub fn draw(&self, svg: &mut SvgWriter) {
        self.draw_background(svg);
        for (index, (row, figures)) in self.chart.rows.iter().zip(&self.figures).enumerate() {
            if row.estimate.is_finite() {
                let tooltip = format!("{}: {figures}, {}", row.label, row.mark.word());
                draw_row(svg, row, &self.x, (self.row_middle(index), self.row_px), &tooltip);
            }
        }
        if self.with_column {
            self.draw_figures(svg);
        }
    }

    fn row_middle(&self, index: usize) -> f64 {
        self.plot.top + (index as f64 + 0.5) * self.row_px
    }

    /// Draws band, axis, reference line and labels.
    fn draw_background(&self, svg: &mut SvgWriter) {
        let PixelRect { top, bottom, .. } = self.plot;
        draw_band(svg, self.chart, &self.x, (top, bottom));
        draw_bottom_axis(svg, self.sheet, self.plot, &self.x, &self.chart.x_label);
        draw_reference(svg, self.chart, &self.x, (top, bottom));
        self.labels.draw_beside(svg, self.plot.left - LABEL_GAP, |index| self.row_middle(index));
    }

    /// Draws the column of numbers. If the rows are not tall enough, draws the numbers of every
    /// second row, every third row, and so on.
    fn draw_figures(&self, svg: &mut SvgWriter) {
        let fitting_px = FIGURES_PX.min(self.row_px * 0.9);
        let stride = if fitting_px < 7.0 { (7.0 / fitting_px).ceil() as usize } else { 1 };
        let size_px = fitting_px.max(7.0);
        svg.start_group("figures").end_with(|svg| {
            let head =
                TextLine::at("estimate [interval]", self.sheet.right, self.plot.top - 8.0, 11.0);
            svg.write_text(&head.with_anchor(TextAnchor::End).with_color(MUTED));
            for (index, figures) in self.figures.iter().enumerate().step_by(stride) {
                let baseline = self.row_middle(index) + size_px * CAP_HEIGHT / 2.0;
                let colour = if self.chart.rows[index].estimate.is_finite() { INK } else { MUTED };
                let text = TextLine::at(figures, self.sheet.right, baseline, size_px);
                svg.write_text(&text.with_anchor(TextAnchor::End).with_color(colour));
            }
        });
    }
}

/// Shades the range of negligible differences from `top` to `bottom`.
pub(crate) fn draw_band(
    svg: &mut SvgWriter,
    chart: &ForestChart,
    x: &AxisMapping,
    (top, bottom): (f64, f64),
) {
    let Some((low, high)) = chart.band else {
        return;
    };
    let (low_px, high_px) = (x.pixel_at(low), x.pixel_at(high));
    svg.start_element("rect")
        .set_text("class", "band")
        .set_number("x", low_px.min(high_px))
        .set_number("y", top)
        .set_number("width", (high_px - low_px).abs())
        .set_number("height", bottom - top)
        .set_text("fill", BAND)
        .end_with_tooltip(&format!("{} to {}", format_figure(low), format_figure(high)));
}

/// Draws the reference line.
pub(crate) fn draw_reference(
    svg: &mut SvgWriter,
    chart: &ForestChart,
    x: &AxisMapping,
    (top, bottom): (f64, f64),
) {
    let reference = x.pixel_at(chart.reference);
    svg.start_line((reference, top), (reference, bottom))
        .set_text("class", "reference")
        .set_text("stroke", AXIS)
        .set_number("stroke-width", 1.5)
        .end_empty();
}

/// Draws the mark and interval of a row, centered in a row of the given height.
pub(crate) fn draw_row(
    svg: &mut SvgWriter,
    row: &ForestRow,
    x: &AxisMapping,
    (y, row_px): (f64, f64),
    tooltip: &str,
) {
    let radius = mark_radius(row_px);
    let colour = row.mark.color();
    svg.start_group("row").set_text("stroke", colour).set_text("fill", colour).end_with(|svg| {
        if !row.low.is_nan() && !row.high.is_nan() {
            let width = if row_px > 8.0 { 2.2 } else { 1.0 };
            let (low, high) = (x.pixel_at(row.low), x.pixel_at(row.high));
            let line = svg.start_line((low, y), (high, y)).set_text("class", "interval");
            line.set_number("stroke-width", width).end_empty();
            for (end, at, turn) in [(row.low, low, -1.0), (row.high, high, 1.0)] {
                draw_end(svg, x.contains_value(end), at, y, turn, radius);
            }
        }
        row.mark.draw(svg, x.pixel_at(row.estimate), y, radius, Some(tooltip));
    });
}

/// Radius of a mark in a row of the given height.
pub(crate) fn mark_radius(row_px: f64) -> f64 {
    (row_px * 0.3).clamp(1.6, LABEL_PX * 0.44)
}

/// Draws a cap at the end of the interval, or an arrow if the interval continues beyond the plot.
pub(crate) fn draw_end(
    svg: &mut SvgWriter,
    is_inside: bool,
    x: f64,
    y: f64,
    direction: f64,
    radius: f64,
) {
    if is_inside {
        let half_px = radius * 0.7;
        svg.start_line((x, y - half_px), (x, y + half_px))
            .set_text("class", "cap")
            .set_number("stroke-width", 1.4)
            .end_empty();
        return;
    }
    let back = x - direction * radius * 1.6;
    let points = format!("{x:.2},{y:.2} {back:.2},{:.2} {back:.2},{:.2}", y - radius, y + radius);
    svg.start_element("polygon")
        .set_text("class", "open")
        .set_text("points", &points)
        .set_text("stroke", "none")
        .end_empty();
}
