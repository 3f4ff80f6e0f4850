//! Draws value axes at the left and the bottom: grid lines behind the data, tick labels and axis
//! labels. Uses as many ticks as possible without overlapping labels.

use crate::ChartAxis;
use crate::category_labels::CategoryLabels;
use crate::color::{AXIS, GRID, INK, MUTED};
use crate::scale::{AxisExtent, AxisMapping};
use crate::svg::{PixelRect, SvgWriter, TextAnchor, TextLine};
use crate::text::{CAP_HEIGHT, reserved_width, truncate_end};
use crate::ticks::AxisTick;

pub(crate) const TICK_PX: f64 = 12.0;
const AXIS_LABEL_PX: f64 = 13.0;
/// Gap in pixels between a tick label and the plot.
const TICK_GAP: f64 = 8.0;
/// Height of the strip above the plot, which contains the label of the left axis.
const TOP_STRIP: f64 = 26.0;
/// A plot taller than this repeats its bottom tick labels at the top.
const TALL_PLOT_PX: f64 = 1000.0;

/// Chooses ticks of a bottom axis whose labels do not overlap.
pub(crate) fn bottom_ticks(mapping: &AxisMapping) -> Vec<AxisTick> {
    let max_ticks = (mapping.length_px() / 70.0).clamp(2.0, 12.0) as usize;
    fit_ticks(mapping, max_ticks, |label| reserved_width(label, TICK_PX) + 14.0)
}

/// Chooses ticks of a left axis whose labels do not overlap.
pub(crate) fn left_ticks(mapping: &AxisMapping) -> Vec<AxisTick> {
    // In a low plot, ticks are closer together. A plot with only one or two ticks would be
    // unreadable.
    let at_normal_distance = (mapping.length_px() / 55.0).clamp(2.0, 10.0);
    let at_small_distance = (mapping.length_px() / 28.0).clamp(2.0, 4.0);
    let max_ticks = at_normal_distance.max(at_small_distance) as usize;
    fit_ticks(mapping, max_ticks, |_| TICK_PX * 1.4)
}

/// Chooses the ticks of a small axis, which has small labels and no grid lines.
pub(crate) fn small_ticks(mapping: &AxisMapping, size_px: f64) -> Vec<AxisTick> {
    let max_ticks = (mapping.length_px() / 34.0).clamp(2.0, 8.0) as usize;
    fit_ticks(mapping, max_ticks, |label| reserved_width(label, size_px) + 8.0)
}

/// Returns as many ticks as possible, up to about `max_ticks`. Each label needs `label_px` along
/// the axis.
fn fit_ticks(
    mapping: &AxisMapping,
    max_ticks: usize,
    label_px: impl Fn(&str) -> f64,
) -> Vec<AxisTick> {
    let are_apart = |ticks: &Vec<AxisTick>| {
        let written: Vec<&AxisTick> = ticks.iter().filter(|tick| !tick.label.is_empty()).collect();
        written.windows(2).all(|pair| {
            let needed = (label_px(&pair[0].label) + label_px(&pair[1].label)) / 2.0;
            (mapping.pixel_at(pair[1].value) - mapping.pixel_at(pair[0].value)).abs() >= needed
        })
    };
    let fitting =
        (1..=max_ticks).rev().map(|target_count| mapping.ticks(target_count)).find(are_apart);
    fitting.unwrap_or_else(|| mapping.ticks(1).into_iter().take(1).collect())
}

/// Width in pixels of the labels of a left axis.
pub(crate) fn left_gutter_width(ticks: &[AxisTick]) -> f64 {
    let widest = ticks.iter().map(|tick| reserved_width(&tick.label, TICK_PX)).fold(0.0, f64::max);
    widest + TICK_GAP
}

/// Height in pixels above the plot for the label of a left axis.
pub(crate) fn top_strip_height(label: &str) -> f64 {
    if label.trim().is_empty() { 8.0 } else { TOP_STRIP }
}

/// Height in pixels of a bottom axis, including its label.
pub(crate) fn bottom_height(label: &str) -> f64 {
    TICK_GAP + TICK_PX + bottom_label_height(label)
}

/// Height in pixels of the label of a bottom axis.
pub(crate) fn bottom_label_height(label: &str) -> f64 {
    if label.trim().is_empty() { 0.0 } else { AXIS_LABEL_PX + 11.0 }
}

/// Draws the grid lines and tick labels of a left axis.
pub(crate) fn draw_left_axis(
    svg: &mut SvgWriter,
    plot: PixelRect,
    mapping: &AxisMapping,
    ticks: &[AxisTick],
) {
    svg.start_group("grid").set_text("stroke", GRID).end_with(|svg| {
        for tick in ticks {
            let y = mapping.pixel_at(tick.value);
            style_grid_line(svg.start_line((plot.left, y), (plot.right, y)), tick).end_empty();
        }
    });
    svg.start_group("y-ticks").end_with(|svg| {
        for tick in ticks {
            let y = mapping.pixel_at(tick.value) + TICK_PX * CAP_HEIGHT / 2.0;
            let text = TextLine::at(&tick.label, plot.left - TICK_GAP, y, TICK_PX);
            svg.write_text(&text.with_anchor(TextAnchor::End).with_color(MUTED));
        }
    });
}

/// Draws the label of a left axis above the axis, horizontally so that it is easy to read.
pub(crate) fn draw_left_label(svg: &mut SvgWriter, sheet: PixelRect, plot: PixelRect, label: &str) {
    let label = truncate_end(label, sheet.width(), AXIS_LABEL_PX);
    svg.start_group("y-label").end_with(|svg| {
        svg.write_text(
            &TextLine::at(&label, sheet.left, plot.top - 13.0, AXIS_LABEL_PX).with_color(INK),
        );
    });
}

/// Draws the grid lines, tick labels and label of a bottom axis.
pub(crate) fn draw_bottom_axis(
    svg: &mut SvgWriter,
    sheet: PixelRect,
    plot: PixelRect,
    mapping: &AxisMapping,
    label: &str,
) {
    let ticks = bottom_ticks(mapping);
    svg.start_group("grid").set_text("stroke", GRID).end_with(|svg| {
        for tick in &ticks {
            let x = mapping.pixel_at(tick.value);
            style_grid_line(svg.start_line((x, plot.top), (x, plot.bottom)), tick).end_empty();
        }
    });
    svg.start_group("x-ticks").end_with(|svg| {
        tick_labels(svg, sheet, mapping, &ticks, plot.bottom + TICK_GAP + TICK_PX * 0.8);
        if plot.height() > TALL_PLOT_PX {
            tick_labels(svg, sheet, mapping, &ticks, plot.top - 6.0);
        }
    });
    draw_bottom_label(svg, plot, plot.bottom + bottom_height(label), label);
}

fn tick_labels(
    svg: &mut SvgWriter,
    sheet: PixelRect,
    mapping: &AxisMapping,
    ticks: &[AxisTick],
    baseline: f64,
) {
    for tick in ticks {
        let half_width = reserved_width(&tick.label, TICK_PX) / 2.0;
        let x =
            mapping.pixel_at(tick.value).min(sheet.right - half_width).max(sheet.left + half_width);
        let text = TextLine::at(&tick.label, x, baseline, TICK_PX);
        svg.write_text(&text.with_anchor(TextAnchor::Middle).with_color(MUTED));
    }
}

/// Draws the label of a bottom axis with its lower edge at `bottom`.
pub(crate) fn draw_bottom_label(svg: &mut SvgWriter, plot: PixelRect, bottom: f64, label: &str) {
    let label = truncate_end(label, plot.width(), AXIS_LABEL_PX);
    svg.start_group("x-label").end_with(|svg| {
        let text = TextLine::at(&label, plot.middle_x(), bottom - 3.0, AXIS_LABEL_PX);
        svg.write_text(&text.with_anchor(TextAnchor::Middle).with_color(INK));
    });
}

pub(crate) fn draw_base_line(svg: &mut SvgWriter, from: (f64, f64), to: (f64, f64)) {
    svg.start_line(from, to).set_text("class", "base").set_text("stroke", AXIS).end_empty();
}

fn style_grid_line<'a>(
    line: crate::svg::OpenElement<'a>,
    tick: &AxisTick,
) -> crate::svg::OpenElement<'a> {
    if tick.label.is_empty() { line.set_number("stroke-width", 0.5) } else { line }
}

// Two axes and the plot between them, for point charts. A category axis at the bottom has names,
// which are wrapped into lines, or slanted if they are too long.

/// The plot of a point chart.
pub(crate) struct PointPlane {
    /// Area of the data.
    pub plot: PixelRect,
    pub x: AxisMapping,
    pub y: AxisMapping,
    sheet: PixelRect,
    x_label: String,
    y_label: String,
    names: Option<CategoryLabels>,
}

/// Space right of the plot for half of the last tick label.
const RIGHT_PX: f64 = 6.0;
/// Maximum fraction of the sheet's height for slanted names.
const MAX_SLANTED_HEIGHT: f64 = 0.34;
/// Maximum fraction of the sheet's width by which slanted names may shift the plot to the right.
const MAX_SLANTED_SHIFT: f64 = 0.14;

impl PointPlane {
    /// Lays out the axes in `sheet`. `x` and `y` are each an axis with the extent to show.
    pub fn lay_out(
        sheet: PixelRect,
        x: (&ChartAxis, AxisExtent),
        y: (&ChartAxis, AxisExtent),
    ) -> Self {
        let top = sheet.top + top_strip_height(&y.0.label);
        let draft = AxisMapping::new(y.0, y.1, sheet.bottom - bottom_height(&x.0.label), top);
        // The lengths of the axes depend on each other. A single draft of the left labels is
        // accurate enough, because their widths hardly change with the height.
        let mut left = sheet.left + left_gutter_width(&left_ticks(&draft));
        let right = sheet.right - RIGHT_PX;
        let names = AxisMapping::new(x.0, x.1, left, right).names().map(|names| {
            let (labels, aside) = lay_out_names(names, left, sheet);
            left += aside;
            labels
        });
        let below = match &names {
            None => bottom_height(&x.0.label),
            Some(names) => names.tallest_px() + 10.0 + bottom_label_height(&x.0.label),
        };
        let plot = PixelRect::new(left, top, right, sheet.bottom - below);
        Self {
            plot,
            x: AxisMapping::new(x.0, x.1, plot.left, plot.right),
            y: AxisMapping::new(y.0, y.1, plot.bottom, plot.top),
            sheet,
            x_label: x.0.full_label(),
            y_label: y.0.full_label(),
            names,
        }
    }

    /// Restricts the left axis to ticks at whole numbers.
    pub fn with_whole_y(self) -> Self {
        Self { y: self.y.with_whole_numbers(), ..self }
    }

    /// Restricts the bottom axis to ticks at whole numbers.
    pub fn with_whole_x(self) -> Self {
        Self { x: self.x.with_whole_numbers(), ..self }
    }

    /// Draws everything except the data.
    pub fn draw_axes(&self, svg: &mut SvgWriter) {
        let PixelRect { left, right, bottom, .. } = self.plot;
        draw_left_axis(svg, self.plot, &self.y, &left_ticks(&self.y));
        draw_left_label(svg, self.sheet, self.plot, &self.y_label);
        match &self.names {
            None => draw_bottom_axis(svg, self.sheet, self.plot, &self.x, &self.x_label),
            Some(names) => {
                let slot_center = |index: usize| self.x.pixel_at(index as f64);
                names.draw_below(svg, bottom + 7.0, slot_center);
                draw_bottom_label(svg, self.plot, self.sheet.bottom, &self.x_label);
            }
        }
        draw_base_line(svg, (left, bottom), (right, bottom));
        // Draw a line at zero if the axis continues below zero.
        if self.y.contains_value(0.0) && self.y.pixel_at(0.0) < bottom - 1.0 {
            let zero = self.y.pixel_at(0.0);
            svg.start_line((left, zero), (right, zero)).set_text("stroke", AXIS).end_empty();
        }
    }
}

/// Lays out category names. Also returns how far the plot must move to the right to make room for
/// the first name.
fn lay_out_names(names: &[String], left: f64, sheet: PixelRect) -> (CategoryLabels, f64) {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let width = sheet.right - RIGHT_PX - left;
    let slot_px = width / names.len().max(1) as f64;
    if let Some(labels) = CategoryLabels::below_slots(&names, slot_px) {
        return (labels, 0.0);
    }
    let max_height = sheet.height() * MAX_SLANTED_HEIGHT;
    let gutter = left - sheet.left;
    let shift = (CategoryLabels::slanted_reach(&names, slot_px, max_height) - gutter)
        .clamp(0.0, sheet.width() * MAX_SLANTED_SHIFT);
    let slot_px = (width - shift) / names.len().max(1) as f64;
    (CategoryLabels::slanted_below(&names, slot_px, max_height, gutter + shift), shift)
}
