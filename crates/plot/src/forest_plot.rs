//! The drawing of a forest plot: labels, marks with intervals, and the column of figures.

use crate::draw::{AXIS, Anchor, BAND, INK, MUTED, Rect, Svg, Text};
use crate::forest_chart::ForestChart;
use crate::forest_row::ForestRow;
use crate::layout::{CategoryLabels, LABEL_PX, bottom_height, draw_bottom_axis, wanted_height};
use crate::scale::{Extent, Mapping, figure};
use crate::text::{CAP_HEIGHT, room_for};

/// Share of the width that labels may take.
const LABEL_SHARE: f64 = 0.4;
const LABEL_GAP: f64 = 14.0;
const FIGURES_PX: f64 = 12.0;
const ROW_PX: f64 = 26.0;
/// Height of the line above the rows that names the column of figures.
const HEAD_PX: f64 = 22.0;

/// Where the columns and rows of a forest plot are.
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
    /// Places the rows of `chart` in `sheet`.
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
        // Where the column of figures would leave too little for the plot, the tooltips still have them.
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

    /// The height in pixels that the plot wants on `width` pixels.
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

    /// Band, axis, reference line and labels.
    fn draw_ground(&self, svg: &mut Svg) {
        let Rect { top, bottom, .. } = self.plot;
        draw_band(svg, self.chart, &self.x, (top, bottom));
        draw_bottom_axis(svg, self.sheet, self.plot, &self.x, &self.chart.x_label);
        draw_reference(svg, self.chart, &self.x, (top, bottom));
        self.labels
            .draw_beside(svg, self.plot.left - LABEL_GAP, |at| self.row_middle(at));
    }

    /// The column of figures, as many rows of it as have room.
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

/// Shades what does not matter, from `top` to `bottom`.
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

/// The line at which there is no difference.
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

/// Draws the mark of one row with its interval, around the middle of a row of some height.
pub(crate) fn draw_row(
    svg: &mut Svg,
    row: &ForestRow,
    x: &Mapping,
    (y, row_px): (f64, f64),
    tooltip: &str,
) {
    let radius = (row_px * 0.3).clamp(1.6, LABEL_PX * 0.44);
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

/// A stop where the interval ends, an arrow where it goes on beyond the plot.
fn draw_end(svg: &mut Svg, inside: bool, x: f64, y: f64, turn: f64, radius: f64) {
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
