//! Draws value axes at the left and the bottom: grid lines behind the data, tick labels and axis
//! labels. Uses as many ticks as possible without overlapping labels. Also lays out the names of
//! categories.

use crate::axis::{AxisMapping, AxisTick, ShownAxis};
use crate::svg::{AXIS, GRID, INK, MUTED, PixelRect, SvgWriter, TextAnchor};
use crate::text::{CAP_HEIGHT, WrappedLabel, reserved_width, truncate_end, wrap_text};

pub(crate) const TICK_PX: f64 = 12.0;
const AXIS_LABEL_PX: f64 = 13.0;
/// Gap in pixels between a tick label and the plot.
const TICK_GAP: f64 = 8.0;
/// Height of the strip above the plot, which contains the label of the left axis.
pub(crate) const TOP_STRIP: f64 = 26.0;
/// Distance from the top of the sheet to the text baseline of the left axis's label.
const TOP_BASELINE: f64 = 13.0;
/// A plot taller than this repeats its bottom tick labels at the top.
const TALL_PLOT_PX: f64 = 1000.0;

/// Chooses ticks of a left axis whose labels do not overlap.
fn left_ticks(mapping: &AxisMapping) -> Vec<AxisTick> {
    // In a short plot, ticks are closer together. A plot with only one or two ticks would be
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

/// Returns as many ticks as possible, up to about `limit`. Each label needs `label_px` along
/// the axis.
fn fit_ticks(mapping: &AxisMapping, limit: usize, label_px: impl Fn(&str) -> f64) -> Vec<AxisTick> {
    let are_apart = |ticks: &Vec<AxisTick>| {
        let written: Vec<&AxisTick> = ticks.iter().filter(|tick| !tick.label.is_empty()).collect();
        written.windows(2).all(|pair| {
            let needed = (label_px(&pair[0].label) + label_px(&pair[1].label)) / 2.0;
            (mapping.pixel_at(pair[1].value) - mapping.pixel_at(pair[0].value)).abs() >= needed
        })
    };
    let fitting = (1..=limit).rev().map(|target_count| mapping.ticks(target_count)).find(are_apart);
    fitting.unwrap_or_else(|| mapping.ticks(1).into_iter().take(1).collect())
}

/// Width in pixels of the labels of a left axis.
pub(crate) fn left_gutter_width(mapping: &AxisMapping) -> f64 {
    let widths = left_ticks(mapping).into_iter().map(|tick| reserved_width(&tick.label, TICK_PX));
    widths.fold(0.0, f64::max) + TICK_GAP
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

/// Draws the grid lines, tick labels and label of a left axis.
pub(crate) fn draw_left_axis(
    svg: &mut SvgWriter,
    sheet: PixelRect,
    plot: PixelRect,
    mapping: &AxisMapping,
    label: &str,
) {
    let ticks = left_ticks(mapping);
    draw_grid(svg, &ticks, |value| {
        let y = mapping.pixel_at(value);
        [(plot.left, y), (plot.right, y)]
    });
    svg.start_group("y-ticks").end_with(|svg| {
        for tick in &ticks {
            let y = mapping.pixel_at(tick.value) + TICK_PX * CAP_HEIGHT / 2.0;
            svg.write_text(&tick.label, (plot.left - TICK_GAP, y), TICK_PX, TextAnchor::End, MUTED);
        }
    });
    draw_left_label(svg, sheet, label);
}

/// Draws the label of a left axis at the top of the sheet, horizontally so that it is easy to read.
pub(crate) fn draw_left_label(svg: &mut SvgWriter, sheet: PixelRect, label: &str) {
    let label = truncate_end(label, sheet.width(), AXIS_LABEL_PX);
    let at = (sheet.left, sheet.top + TOP_BASELINE);
    svg.start_group("y-label")
        .end_with(|svg| svg.write_text(&label, at, AXIS_LABEL_PX, TextAnchor::Start, INK));
}

/// Draws grid lines. `ends_at` returns both ends of the line at a value.
fn draw_grid(svg: &mut SvgWriter, ticks: &[AxisTick], ends_at: impl Fn(f64) -> [(f64, f64); 2]) {
    svg.start_group("grid").set_text("stroke", GRID).end_with(|svg| {
        for tick in ticks {
            let [from, to] = ends_at(tick.value);
            let line = svg.start_line("", from, to);
            let is_minor = tick.label.is_empty();
            let line = if is_minor { line.set_number("stroke-width", 0.5) } else { line };
            line.end_empty();
        }
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
    let max_ticks = (mapping.length_px() / 70.0).clamp(2.0, 12.0) as usize;
    let ticks = fit_ticks(mapping, max_ticks, |label| reserved_width(label, TICK_PX) + 14.0);
    draw_grid(svg, &ticks, |value| {
        let x = mapping.pixel_at(value);
        [(x, plot.top), (x, plot.bottom)]
    });
    let write_labels = |svg: &mut SvgWriter, baseline: f64| {
        for tick in &ticks {
            let half_width = reserved_width(&tick.label, TICK_PX) / 2.0;
            let tick_x = mapping.pixel_at(tick.value);
            let label_x = tick_x.min(sheet.right - half_width).max(sheet.left + half_width);
            svg.write_text(&tick.label, (label_x, baseline), TICK_PX, TextAnchor::Middle, MUTED);
        }
    };
    svg.start_group("x-ticks").end_with(|svg| {
        write_labels(svg, plot.bottom + TICK_GAP + TICK_PX * 0.8);
        if plot.height() > TALL_PLOT_PX {
            write_labels(svg, plot.top - 6.0);
        }
    });
    draw_bottom_label(svg, plot, plot.bottom + bottom_height(label), label);
}

/// Draws the label of a bottom axis with its lower edge at `bottom`.
pub(crate) fn draw_bottom_label(svg: &mut SvgWriter, plot: PixelRect, bottom: f64, label: &str) {
    let label = truncate_end(label, plot.width(), AXIS_LABEL_PX);
    svg.start_group("x-label").end_with(|svg| {
        let at = (plot.middle_x(), bottom - 3.0);
        svg.write_text(&label, at, AXIS_LABEL_PX, TextAnchor::Middle, INK);
    });
}

/// Draws the base line of a plot, for example the line at which bars start.
pub(crate) fn draw_base_line(svg: &mut SvgWriter, from: (f64, f64), to: (f64, f64)) {
    svg.start_line("base", from, to).set_text("stroke", AXIS).end_empty();
}

/// The area of the data, with the mappings of both axes.
pub(crate) struct PlotArea {
    pub rect: PixelRect,
    pub x: AxisMapping,
    pub y: AxisMapping,
}

impl PlotArea {
    /// Pixels of a point.
    pub fn point_at(&self, x: f64, y: f64) -> (f64, f64) {
        (self.x.pixel_at(x), self.y.pixel_at(y))
    }
}

/// The plot of a point chart: two axes and the area between them. A category axis at the bottom has
/// names, which are wrapped into lines, or slanted if they are too long.
pub(crate) struct PointPlane {
    pub area: PlotArea,
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
    pub fn lay_out(sheet: PixelRect, x: ShownAxis<'_>, y: ShownAxis<'_>) -> Self {
        let top = sheet.top + top_strip_height(&y.0.label);
        let draft = AxisMapping::new(y.0, y.1, sheet.bottom - bottom_height(&x.0.label), top);
        // The lengths of the axes depend on each other. A single draft of the left labels is
        // accurate enough, because their widths hardly change with the height.
        let mut left = sheet.left + left_gutter_width(&draft);
        let right = sheet.right - RIGHT_PX;
        let names = AxisMapping::new(x.0, x.1, left, right).names().map(|names| {
            let (labels, aside) = lay_out_names(names, left, sheet);
            left += aside;
            labels
        });
        let names_px = names.as_ref().map(|names| names.tallest_px() + 10.0);
        let below = names_px.unwrap_or(TICK_GAP + TICK_PX) + bottom_label_height(&x.0.label);
        let rect = PixelRect::new(left, top, right, sheet.bottom - below);
        let area = PlotArea {
            rect,
            x: AxisMapping::new(x.0, x.1, rect.left, rect.right),
            y: AxisMapping::new(y.0, y.1, rect.bottom, rect.top),
        };
        Self { area, sheet, x_label: x.0.full_label(), y_label: y.0.full_label(), names }
    }

    /// Draws everything except the data.
    pub fn draw_axes(&self, svg: &mut SvgWriter) {
        let PlotArea { rect, x, y } = &self.area;
        let PixelRect { left, right, bottom, .. } = *rect;
        draw_left_axis(svg, self.sheet, *rect, y, &self.y_label);
        match &self.names {
            None => draw_bottom_axis(svg, self.sheet, *rect, x, &self.x_label),
            Some(names) => {
                names.draw_below(svg, bottom + 7.0, |index| x.pixel_at(index as f64));
                draw_bottom_label(svg, *rect, self.sheet.bottom, &self.x_label);
            }
        }
        draw_base_line(svg, (left, bottom), (right, bottom));
        // Draw a line at zero if the axis continues below zero.
        let zero = y.pixel_at(0.0);
        if y.contains_value(0.0) && zero < bottom - 1.0 {
            svg.start_line("", (left, zero), (right, zero)).set_text("stroke", AXIS).end_empty();
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

// Lays out the labels of categories. Chooses line breaks and font size, and omits labels that do
// not fit.

/// Font size of labels with enough room, in pixels.
pub(crate) const LABEL_PX: f64 = 12.5;
/// Smallest font size of any text. Smaller text cannot be read at 100%.
pub(crate) const MIN_LABEL_PX: f64 = 9.0;
/// Distance between baselines, as a fraction of the font size.
const LINE_SPACING: f64 = 1.25;

/// Labels of all categories, wrapped into lines.
#[derive(Clone, Debug)]
pub(crate) struct CategoryLabels {
    blocks: Vec<WrappedLabel>,
    size_px: f64,
    /// Every `stride`th label is drawn.
    stride: usize,
    is_slanted: bool,
}

impl CategoryLabels {
    /// Lays out labels in a column left of bands of height `band_px`. Chooses the largest font size
    /// at which all labels are complete in a column of at most `max_width`. Then chooses the
    /// narrowest column for this font size.
    pub fn beside_bands(labels: &[&str], band_px: f64, max_width: f64) -> Self {
        let largest = (band_px / LINE_SPACING).clamp(MIN_LABEL_PX, LABEL_PX);
        let smaller = [11.0, 10.0, MIN_LABEL_PX].into_iter().filter(|size| *size < largest);
        let complete = std::iter::once(largest).chain(smaller).find_map(|size_px| {
            Some((size_px, complete_column(labels, band_px, max_width, size_px)?))
        });
        let (size_px, blocks) = complete.unwrap_or_else(|| {
            let size_px = largest.min(10.0);
            let truncate =
                |label: &&str| wrap_text(label, max_width, size_px, max_lines(band_px, size_px));
            (size_px, labels.iter().map(truncate).collect())
        });
        let stride = (size_px * LINE_SPACING * 0.96 / band_px).ceil().max(1.0) as usize;
        Self { blocks, size_px, stride, is_slanted: false }
    }

    /// Lays out labels centered below positions `slot_px` apart; `None` if a label does not fit.
    pub fn below_slots(labels: &[&str], slot_px: f64) -> Option<Self> {
        let width = slot_px - 10.0;
        let blocks: Vec<WrappedLabel> =
            labels.iter().map(|label| wrap_text(label, width, LABEL_PX, 3)).collect();
        let are_complete = blocks.iter().all(|block| block.is_complete);
        are_complete.then_some(Self { blocks, size_px: LABEL_PX, stride: 1, is_slanted: false })
    }

    /// Distance in pixels by which slanted labels would extend to the left of the first slot.
    pub fn slanted_reach(labels: &[&str], slot_px: f64, max_height: f64) -> f64 {
        let reach = |(index, label): (usize, &&str)| {
            let height = reserved_width(label, LABEL_PX) / std::f64::consts::SQRT_2;
            height.min(max_height) + 4.0 - (index as f64 + 0.5) * slot_px
        };
        labels.iter().enumerate().map(reach).fold(0.0, f64::max)
    }

    /// Lays out slanted labels below positions `slot_px` apart. Each label rises to the right,
    /// towards its position, and is at most `max_height` high. Labels may extend to the left of the
    /// first slot by up to `reach_px`.
    pub fn slanted_below(labels: &[&str], slot_px: f64, max_height: f64, reach_px: f64) -> Self {
        let stride = (LABEL_PX * 1.5 / slot_px).ceil().max(1.0) as usize;
        let max_length = (max_height - LABEL_PX) * std::f64::consts::SQRT_2;
        let block = |(index, label): (usize, &&str)| {
            let room = (reach_px + (index as f64 + 0.5) * slot_px) * std::f64::consts::SQRT_2;
            let one_line = label.split_whitespace().collect::<Vec<_>>().join(" ");
            let text = truncate_end(&one_line, max_length.min(room), LABEL_PX);
            wrap_text(&text, f64::INFINITY, LABEL_PX, 1)
        };
        let blocks = labels.iter().enumerate().map(block).collect();
        Self { blocks, size_px: LABEL_PX, stride, is_slanted: true }
    }

    /// Width in pixels of the widest label.
    pub fn widest_px(&self) -> f64 {
        self.blocks.iter().map(|block| block.widest_line(self.size_px)).fold(0.0, f64::max)
    }

    /// Height in pixels of the tallest label.
    pub fn tallest_px(&self) -> f64 {
        if self.is_slanted {
            return self.widest_px() / std::f64::consts::SQRT_2 + self.size_px;
        }
        let lines = self.blocks.iter().map(|block| block.lines.len()).max().unwrap_or(0);
        lines as f64 * self.size_px * LINE_SPACING
    }

    /// Draws the labels right-aligned at `right`, each centered on its position.
    pub fn draw_beside(&self, svg: &mut SvgWriter, right: f64, position_of: impl Fn(usize) -> f64) {
        svg.start_group("labels").end_with(|svg| {
            for (index, block) in self.blocks.iter().enumerate().step_by(self.stride) {
                let height = block.lines.len() as f64 * self.size_px * LINE_SPACING;
                let top = position_of(index) - height / 2.0;
                self.draw_block(svg, block, (right, top), TextAnchor::End);
            }
        });
    }

    /// Draws the labels below `top`, each at its position.
    pub fn draw_below(&self, svg: &mut SvgWriter, top: f64, position_of: impl Fn(usize) -> f64) {
        svg.start_group("labels").end_with(|svg| {
            for (index, block) in self.blocks.iter().enumerate().step_by(self.stride) {
                let x = position_of(index);
                if !self.is_slanted {
                    self.draw_block(svg, block, (x, top), TextAnchor::Middle);
                    continue;
                }
                for line in &block.lines {
                    let (at, anchor) = ((x + 4.0, top + self.size_px * 0.7), TextAnchor::End);
                    svg.write_rotated_text(&line.text, at, self.size_px, anchor, INK, -45.0);
                }
            }
        });
    }

    fn draw_block(
        &self,
        svg: &mut SvgWriter,
        block: &WrappedLabel,
        (x, top): (f64, f64),
        anchor: TextAnchor,
    ) {
        for (row, line) in block.lines.iter().enumerate() {
            let middle = top + (row as f64 + 0.5) * self.size_px * LINE_SPACING;
            let baseline = middle + self.size_px * CAP_HEIGHT / 2.0;
            // The first line of a label is the name. The other lines describe it.
            let colour = if line.source == 0 { INK } else { MUTED };
            svg.write_text(&line.text, (x, baseline), self.size_px, anchor, colour);
        }
    }
}

/// Number of text lines that fit into a band.
fn max_lines(band_px: f64, size_px: f64) -> usize {
    ((band_px - 6.0) / (size_px * LINE_SPACING)).floor().clamp(1.0, 4.0) as usize
}

/// Lays out all labels completely in one column; `None` if `max_width` is too small. If possible,
/// every label is on one line, in a column of up to two thirds of `max_width`. Otherwise, labels
/// are wrapped into the narrowest column in which all are complete.
fn complete_column(
    labels: &[&str],
    band_px: f64,
    max_width: f64,
    size_px: f64,
) -> Option<Vec<WrappedLabel>> {
    let wrap = |share: &f64| -> Vec<WrappedLabel> {
        let fill = |label: &&str| {
            wrap_text(label, share * max_width, size_px, max_lines(band_px, size_px))
        };
        labels.iter().map(fill).collect()
    };
    let are_unbroken = |blocks: &Vec<WrappedLabel>| blocks.iter().all(WrappedLabel::is_unbroken);
    let are_complete = |blocks: &Vec<WrappedLabel>| blocks.iter().all(|block| block.is_complete);
    let shares = [0.45, 0.66, 0.8, 1.0];
    let narrow = shares[..2].iter().map(wrap).find(are_unbroken);
    narrow.or_else(|| shares.iter().map(wrap).find(are_complete))
}

/// Preferred height in pixels of a category label at the side of its band.
pub(crate) fn wanted_height(label: &str, max_width: f64) -> f64 {
    let lines = wrap_text(label, max_width, LABEL_PX, 4).lines.len();
    lines as f64 * LABEL_PX * LINE_SPACING + 9.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_labels_take_little_room_and_long_ones_are_broken() {
        let short = CategoryLabels::beside_bands(&["a", "b"], 30.0, 300.0);
        assert!(short.widest_px() < 20.0);
        let label = "string_decoder/string-decoder.js n=25000 len=1024 encoding=base64-utf8";
        let long = CategoryLabels::beside_bands(&[label], 60.0, 200.0);
        assert!(
            long.blocks[0].lines.len() > 1
                && long.blocks[0].is_complete
                && long.widest_px() <= 200.0
        );
    }

    #[test]
    fn crowded_labels_shrink_and_then_thin_out() {
        let labels = vec!["x"; 200];
        let crowded = CategoryLabels::beside_bands(&labels, 3.0, 300.0);
        assert_eq!(crowded.size_px, MIN_LABEL_PX);
        assert!(crowded.stride as f64 * 3.0 >= MIN_LABEL_PX);
        assert_eq!(CategoryLabels::beside_bands(&labels, 12.0, 300.0).stride, 1);
    }

    #[test]
    fn labels_are_placed_below_only_if_they_fit_whole() {
        assert!(CategoryLabels::below_slots(&["node 18", "node 20"], 80.0).is_some());
        assert!(CategoryLabels::below_slots(&["incomprehensibilities"], 80.0).is_none());
    }

    #[test]
    fn slanted_labels_stay_on_the_sheet() {
        let label = "a very long name of a place on the axis that cannot be shown whole";
        let slanted = CategoryLabels::slanted_below(&[label, label], 40.0, 100.0, 30.0);
        assert!(slanted.tallest_px() <= 100.5);
        let first = reserved_width(&slanted.blocks[0].lines[0].text, LABEL_PX);
        assert!(first / std::f64::consts::SQRT_2 <= 50.5);
    }
}
