//! Lays out a plot with categories along one direction and values along the other. Each category
//! has a band. An upright plot has its categories at the bottom. It is used if its marks are wide
//! enough and every label fits below its band. Otherwise the plot is sideways, with the labels at
//! the left, where long names are readable. Charts draw with [`BandPlot::rect`] and
//! [`BandPlot::point`], which work for both orientations.

use crate::ChartAxis;
use crate::axes::{
    bottom_height, draw_base_line, draw_bottom_axis, draw_left_axis, draw_left_label,
    left_gutter_width, left_ticks, top_strip_height,
};
use crate::category_labels::{CategoryLabels, wanted_height};
use crate::color::{GRID, MUTED};
use crate::scale::{AxisExtent, AxisMapping};
use crate::svg::{PixelRect, SvgWriter, TextAnchor, TextLine};
use crate::text::CAP_HEIGHT;

/// Fraction of a band that marks may fill. The rest separates neighboring bands.
const FILLED_SHARE: f64 = 0.8;
/// Maximum distance between marks of a band. Up to this distance, marks are perceived as a group.
const MAX_SLOT_PX: f64 = 84.0;
/// Minimum width of a mark in an upright chart. If marks would be thinner, a sideways chart is more
/// readable, because its sheet can grow in height.
const MIN_UPRIGHT_PX: f64 = 14.0;
/// Typical width of an upright value axis at the left.
const TYPICAL_GUTTER_PX: f64 = 60.0;
/// Maximum fraction of the width for labels at the left.
const LABEL_SHARE: f64 = 0.42;
const LABEL_GAP: f64 = 10.0;

/// The plot of a category chart.
pub(crate) struct BandPlot {
    /// Area of the data.
    pub plot: PixelRect,
    /// Maps values to pixels, along either direction.
    pub value: AxisMapping,
    is_upright: bool,
    sheet: PixelRect,
    labels: CategoryLabels,
    axis_label: String,
    count: usize,
    slots: usize,
}

impl BandPlot {
    /// Lays out categories in `sheet`. Each category has room for `slots` marks.
    pub fn lay_out(
        sheet: PixelRect,
        labels: &[&str],
        slots: usize,
        axis: &ChartAxis,
        extent: AxisExtent,
    ) -> Self {
        let (count, slots) = (labels.len().max(1), slots.max(1));
        let (plot, value, is_upright, labels) = match upright_labels(labels, slots, sheet.width()) {
            Some(labels) => {
                let bottom = sheet.bottom - labels.tallest_px() - 8.0;
                let top = sheet.top + top_strip_height(&axis.label);
                let value = AxisMapping::new(axis, extent, bottom.max(top + 8.0), top);
                let left = sheet.left + left_gutter_width(&left_ticks(&value));
                (PixelRect::new(left, top, sheet.right, bottom), value, true, labels)
            }
            None => {
                let bottom = sheet.bottom - bottom_height(&axis.label);
                let top = sheet.top + top_margin(sheet);
                let band_px = ((bottom - top) / count as f64).max(0.1);
                let labels =
                    CategoryLabels::beside_bands(labels, band_px, sheet.width() * LABEL_SHARE);
                let left = sheet.left + labels.widest_px() + LABEL_GAP;
                let plot = PixelRect::new(left, top, sheet.right - 8.0, bottom);
                (plot, AxisMapping::new(axis, extent, plot.left, plot.right), false, labels)
            }
        };
        Self { plot, value, is_upright, sheet, labels, axis_label: axis.full_label(), count, slots }
    }

    /// Preferred height of the plot in pixels for a given width.
    pub fn natural_height(labels: &[&str], slots: usize, width: f64) -> f64 {
        if upright_labels(labels, slots.max(1), width).is_some() {
            return 500.0;
        }
        // If there are many marks, they are thinner, to limit scrolling.
        let mark_px = if labels.len() * slots > 60 { 17.0 } else { 24.0 };
        let marks = slots as f64 * mark_px / FILLED_SHARE + 4.0;
        let column = width * LABEL_SHARE;
        let band = labels.iter().map(|label| wanted_height(label, column)).fold(marks, f64::max);
        (band * labels.len() as f64 + 60.0).max(180.0)
    }

    /// Draws everything except the data.
    pub fn draw_axes(&self, svg: &mut SvgWriter) {
        let PixelRect { left, right, top, bottom } = self.plot;
        if self.is_upright {
            draw_left_axis(svg, self.plot, &self.value, &left_ticks(&self.value));
            draw_left_label(svg, self.sheet, self.plot, &self.axis_label);
            self.labels.draw_below(svg, bottom + 7.0, |band| self.band_middle(band));
        } else {
            draw_bottom_axis(svg, self.sheet, self.plot, &self.value, &self.axis_label);
            self.separate_bands(svg);
            self.labels.draw_beside(svg, left - LABEL_GAP, |band| self.band_middle(band));
        }
        let base = if self.value.contains_value(0.0) {
            self.value.pixel_at(0.0)
        } else {
            self.value.start_px()
        };
        if self.is_upright {
            draw_base_line(svg, (left, base), (right, base))
        } else {
            draw_base_line(svg, (base, top), (base, bottom))
        }
    }

    /// Separates the bands by thin lines if they have several marks.
    fn separate_bands(&self, svg: &mut SvgWriter) {
        if self.slots == 1 || self.band_px() < 12.0 {
            return;
        }
        svg.start_group("grid").set_text("stroke", GRID).end_with(|svg| {
            for band in 1..self.count {
                let y = self.plot.top + band as f64 * self.band_px();
                svg.start_line((self.sheet.left, y), (self.plot.right, y)).end_empty();
            }
        });
    }

    /// Marks a band as having no data, if there is room.
    pub fn draw_no_data(&self, svg: &mut SvgWriter, band: usize) {
        const SIZE_PX: f64 = 11.0;
        let middle = self.band_middle(band);
        let text = match self.is_upright {
            true if self.band_px() > 60.0 => {
                TextLine::at("no data", middle, self.plot.bottom - 8.0, SIZE_PX)
                    .with_anchor(TextAnchor::Middle)
            }
            false if self.band_px() > 14.0 => {
                let baseline = middle + SIZE_PX * CAP_HEIGHT / 2.0;
                TextLine::at("no data", self.plot.left + 8.0, baseline, SIZE_PX)
            }
            _ => return,
        };
        svg.write_text(&text.with_color(MUTED));
    }

    /// Width of a mark in pixels, across the value direction.
    pub fn slot_px(&self) -> f64 {
        (self.band_px() * FILLED_SHARE / self.slots as f64).min(MAX_SLOT_PX)
    }

    /// Pixel at the center of a mark, across the value direction.
    pub fn slot_middle(&self, band: usize, slot: usize) -> f64 {
        let from_middle = slot as f64 + 0.5 - self.slots as f64 / 2.0;
        self.band_middle(band) + from_middle * self.slot_px()
    }

    /// Pixel at the center of a band.
    pub fn band_middle(&self, band: usize) -> f64 {
        let start = if self.is_upright { self.plot.left } else { self.plot.top };
        start + (band as f64 + 0.5) * self.band_px()
    }

    fn band_px(&self) -> f64 {
        let length = if self.is_upright { self.plot.width() } else { self.plot.height() };
        length / self.count as f64
    }

    /// Returns the point at `across` (in pixels) and `value`.
    pub fn point(&self, across: f64, value: f64) -> (f64, f64) {
        let along = self.value.pixel_at(value);
        if self.is_upright { (across, along) } else { (along, across) }
    }

    /// Returns a rectangle. `across` are its ends across the value direction, in pixels. `values`
    /// are its other two ends.
    pub fn rect(&self, across: (f64, f64), values: (f64, f64)) -> PixelRect {
        let (corner, opposite_corner) =
            (self.point(across.0, values.0), self.point(across.1, values.1));
        PixelRect {
            left: corner.0.min(opposite_corner.0),
            top: corner.1.min(opposite_corner.1),
            right: corner.0.max(opposite_corner.0),
            bottom: corner.1.max(opposite_corner.1),
        }
    }
}

/// Lays out labels below the bands if an upright chart is feasible.
fn upright_labels(labels: &[&str], slots: usize, width: f64) -> Option<CategoryLabels> {
    let band_px = (width - TYPICAL_GUTTER_PX) / labels.len().max(1) as f64;
    let is_wide_enough = band_px * FILLED_SHARE / slots as f64 >= MIN_UPRIGHT_PX;
    if is_wide_enough { CategoryLabels::below_slots(labels, band_px) } else { None }
}

/// Height of the space above a sideways plot. Tall plots repeat the tick labels there.
fn top_margin(sheet: PixelRect) -> f64 {
    if sheet.height() > 1000.0 { 18.0 } else { 4.0 }
}
