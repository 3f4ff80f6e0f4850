//! Lays out plots with categories along one direction and values along the other.
//!
//! [`BandData`] gives each category a band with room for several marks. An upright plot has its
//! categories at the bottom. It is used if its marks are wide enough and every label fits below its
//! band. Otherwise the plot is sideways, with the labels at the left, where long names are readable.
//! Charts draw with [`BandPlot::rect`] and [`BandPlot::point`], which work for both orientations.
//! [`RowPlot`] is a sideways plot without bands, for charts that have one row per label.

use crate::ChartAxis;
use crate::axes::{
    CategoryLabels, bottom_height, draw_base_line, draw_bottom_axis, draw_left_axis,
    left_gutter_width, top_strip_height, wanted_height,
};
use crate::axis::{AxisExtent, AxisMapping, ShownAxis};
use crate::sheet::{LegendKey, LegendSwatch};
use crate::style::SeriesStyle;
use crate::svg::{GRID, MUTED, PixelRect, SvgWriter, TextAnchor};
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

/// The categories of a chart, with their marks side by side. A series has the same slot, color and
/// marker in all categories, even where other series are missing.
pub(crate) struct BandData<'a> {
    axis: ChartAxis,
    pub labels: Vec<&'a str>,
    /// Per slot, the name of its series, and the number of preceding series with the same name in
    /// the same category.
    series: Vec<(&'a str, usize)>,
    slots: Vec<Vec<usize>>,
}

impl<'a> BandData<'a> {
    /// Assigns slots to the series of all `groups`, in order of first appearance. A group
    /// has a label and the names of its series.
    pub fn new(axis: &ChartAxis, groups: impl Iterator<Item = (&'a str, Vec<&'a str>)>) -> Self {
        let (mut labels, mut series, mut slots) = (Vec::new(), Vec::new(), Vec::new());
        for (label, names) in groups {
            let mut band_slots = Vec::new();
            for (index, name) in names.iter().enumerate() {
                let preceding = names[..index].iter().filter(|other| *other == name).count();
                let occurrence = (*name, preceding);
                let known = series.iter().position(|other| *other == occurrence);
                band_slots.push(known.unwrap_or(series.len()));
                if known.is_none() {
                    series.push(occurrence);
                }
            }
            labels.push(label);
            slots.push(band_slots);
        }
        Self { axis: axis.to_value_axis(), labels, series, slots }
    }

    /// Number of slots of each band.
    pub fn slot_count(&self) -> usize {
        self.series.len()
    }

    /// Slots of the series of a category.
    pub fn slots(&self, band: usize) -> impl Iterator<Item = usize> {
        self.slots[band].iter().copied()
    }

    /// The legend, with one key per slot.
    pub fn legend(&self, swatch: impl Fn(SeriesStyle) -> LegendSwatch) -> Vec<LegendKey> {
        let series = self.series.iter().enumerate();
        let styled = series.map(|(slot, (name, _))| (*name, SeriesStyle::of_series(slot)));
        LegendKey::of_series(styled, swatch)
    }

    /// Preferred height of the plot in pixels for a given width.
    pub fn natural_height(&self, width: f64) -> f64 {
        if self.upright_labels(width).is_some() {
            return 500.0;
        }
        let (bands, slots) = (self.labels.len(), self.series.len());
        // If there are many marks, they are thinner, to limit scrolling.
        let mark_px = if bands * slots > 60 { 17.0 } else { 24.0 };
        let marks = slots as f64 * mark_px / FILLED_SHARE + 4.0;
        let column = width * LABEL_SHARE;
        let band =
            self.labels.iter().map(|label| wanted_height(label, column)).fold(marks, f64::max);
        (band * bands as f64 + 60.0).max(180.0)
    }

    /// Lays out the categories in `sheet`, with values in `extent`.
    pub fn lay_out(&self, sheet: PixelRect, extent: AxisExtent) -> BandPlot<'_> {
        let Some(labels) = self.upright_labels(sheet.width()) else {
            // Tall plots repeat the tick labels above the plot.
            let top = if sheet.height() > 1000.0 { 18.0 } else { 4.0 };
            let margins =
                RowMargins { top, right: 8.0, label_share: LABEL_SHARE, label_gap: LABEL_GAP };
            let rows = RowPlot::lay_out(sheet, (&self.axis, extent), &self.labels, margins);
            let (plot, value) = (rows.plot, rows.x.clone());
            return BandPlot { data: self, sheet, plot, value, labels: BandLabels::Beside(rows) };
        };
        let bottom = sheet.bottom - labels.tallest_px() - 8.0;
        let top = sheet.top + top_strip_height(&self.axis.label);
        let value = AxisMapping::new(&self.axis, extent, bottom.max(top + 8.0), top);
        let left = sheet.left + left_gutter_width(&value);
        let plot = PixelRect::new(left, top, sheet.right, bottom);
        BandPlot { data: self, sheet, plot, value, labels: BandLabels::Below(labels) }
    }

    /// Lays out labels below the bands if an upright chart is feasible.
    fn upright_labels(&self, width: f64) -> Option<CategoryLabels> {
        let band_px = (width - TYPICAL_GUTTER_PX) / self.labels.len().max(1) as f64;
        let mark_px = band_px * FILLED_SHARE / self.series.len().max(1) as f64;
        let is_wide_enough = mark_px >= MIN_UPRIGHT_PX;
        if is_wide_enough { CategoryLabels::below_slots(&self.labels, band_px) } else { None }
    }
}

/// The labels of bands. Their place tells the orientation of the plot.
enum BandLabels {
    /// The plot is upright.
    Below(CategoryLabels),
    /// The plot is sideways.
    Beside(RowPlot),
}

/// The plot of a category chart.
pub(crate) struct BandPlot<'a> {
    data: &'a BandData<'a>,
    sheet: PixelRect,
    plot: PixelRect,
    /// Maps values to pixels, along either direction.
    value: AxisMapping,
    labels: BandLabels,
}

impl BandPlot<'_> {
    /// Draws everything except the data.
    pub fn draw_axes(&self, svg: &mut SvgWriter) {
        let PixelRect { left, right, top, bottom } = self.plot;
        let has_zero = self.value.contains_value(0.0);
        let base = if has_zero { self.value.pixel_at(0.0) } else { self.value.start_px };
        match &self.labels {
            BandLabels::Below(labels) => {
                let label = self.data.axis.full_label();
                draw_left_axis(svg, self.sheet, self.plot, &self.value, &label);
                labels.draw_below(svg, bottom + 7.0, |band| self.band_middle(band));
                draw_base_line(svg, (left, base), (right, base));
            }
            BandLabels::Beside(rows) => {
                rows.draw_axis(svg);
                self.separate_bands(svg);
                rows.draw_labels(svg, 0.5);
                draw_base_line(svg, (base, top), (base, bottom));
            }
        }
    }

    /// Separates the bands by thin lines if they have several marks.
    fn separate_bands(&self, svg: &mut SvgWriter) {
        if self.data.slot_count() <= 1 || self.band_px() < 12.0 {
            return;
        }
        svg.start_group("grid").set_text("stroke", GRID).end_with(|svg| {
            for band in 1..self.data.labels.len() {
                let y = self.plot.top + band as f64 * self.band_px();
                svg.start_line("", (self.sheet.left, y), (self.plot.right, y)).end_empty();
            }
        });
    }

    /// Marks a band as having no data, if there is room.
    pub fn draw_no_data(&self, svg: &mut SvgWriter, band: usize) {
        const SIZE_PX: f64 = 11.0;
        let middle = self.band_middle(band);
        let (at, anchor) = match self.labels {
            BandLabels::Below(_) if self.band_px() > 60.0 => {
                ((middle, self.plot.bottom - 8.0), TextAnchor::Middle)
            }
            BandLabels::Beside(_) if self.band_px() > 14.0 => {
                ((self.plot.left + 8.0, middle + SIZE_PX * CAP_HEIGHT / 2.0), TextAnchor::Start)
            }
            _ => return,
        };
        svg.write_text("no data", at, SIZE_PX, anchor, MUTED);
    }

    /// Width of a mark in pixels, across the value direction.
    pub fn slot_px(&self) -> f64 {
        (self.band_px() * FILLED_SHARE / self.data.slot_count().max(1) as f64).min(MAX_SLOT_PX)
    }

    /// Pixel at the center of a mark, across the value direction.
    pub fn slot_middle(&self, band: usize, slot: usize) -> f64 {
        let from_middle = slot as f64 + 0.5 - self.data.slot_count().max(1) as f64 / 2.0;
        self.band_middle(band) + from_middle * self.slot_px()
    }

    /// Pixel at the center of a band.
    fn band_middle(&self, band: usize) -> f64 {
        let start = if self.is_upright() { self.plot.left } else { self.plot.top };
        start + (band as f64 + 0.5) * self.band_px()
    }

    fn band_px(&self) -> f64 {
        let length = if self.is_upright() { self.plot.width() } else { self.plot.height() };
        length / self.data.labels.len().max(1) as f64
    }

    fn is_upright(&self) -> bool {
        matches!(self.labels, BandLabels::Below(_))
    }

    /// Returns the point at `across` (in pixels) and `value`.
    pub fn point(&self, across: f64, value: f64) -> (f64, f64) {
        let along = self.value.pixel_at(value);
        if self.is_upright() { (across, along) } else { (along, across) }
    }

    /// Returns the rectangle between two values, and between two pixels across the value direction.
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

/// Room around the rows of a [`RowPlot`].
#[derive(Clone, Copy)]
pub(crate) struct RowMargins {
    /// Height above the first row, in pixels.
    pub top: f64,
    /// Width right of the rows, in pixels.
    pub right: f64,
    /// Maximum fraction of the sheet's width for labels.
    pub label_share: f64,
    /// Gap between labels and rows, in pixels.
    pub label_gap: f64,
}

/// A plot of rows with labels at the left, over a common bottom axis.
pub(crate) struct RowPlot {
    /// Area of the data.
    pub plot: PixelRect,
    pub x: AxisMapping,
    /// Height of a row.
    pub row_px: f64,
    sheet: PixelRect,
    x_label: String,
    /// `None` if all labels are blank.
    labels: Option<CategoryLabels>,
    label_gap: f64,
}

impl RowPlot {
    /// Lays out a row per label in `sheet`.
    pub fn lay_out(
        sheet: PixelRect,
        (axis, extent): ShownAxis<'_>,
        labels: &[&str],
        margins: RowMargins,
    ) -> Self {
        let top = sheet.top + margins.top;
        let bottom = (sheet.bottom - bottom_height(&axis.label)).max(top + 8.0);
        let row_px = (bottom - top) / labels.len().max(1) as f64;
        let label_column = sheet.width() * margins.label_share;
        let has_labels = labels.iter().any(|label| !label.trim().is_empty());
        let labels = has_labels.then(|| CategoryLabels::beside_bands(labels, row_px, label_column));
        let widest = labels.as_ref().map_or(8.0, |labels| labels.widest_px() + margins.label_gap);
        let plot = PixelRect::new(sheet.left + widest, top, sheet.right - margins.right, bottom);
        let x = AxisMapping::new(axis, extent, plot.left, plot.right);
        let (x_label, label_gap) = (axis.full_label(), margins.label_gap);
        Self { plot, x, row_px, sheet, x_label, labels, label_gap }
    }

    /// Moves the right end of the rows to the pixel `right`.
    pub fn with_right(mut self, right: f64) -> Self {
        self.plot = PixelRect::new(self.plot.left, self.plot.top, right, self.plot.bottom);
        self.x.to_px = self.plot.right;
        self
    }

    /// Pixel at a fraction of the height of a row.
    pub fn row_y(&self, index: usize, share: f64) -> f64 {
        self.plot.top + (index as f64 + share) * self.row_px
    }

    /// Draws the bottom axis.
    pub fn draw_axis(&self, svg: &mut SvgWriter) {
        draw_bottom_axis(svg, self.sheet, self.plot, &self.x, &self.x_label);
    }

    /// Draws the labels, each centered at a fraction of the height of its row.
    pub fn draw_labels(&self, svg: &mut SvgWriter, share: f64) {
        if let Some(labels) = &self.labels {
            let right = self.plot.left - self.label_gap;
            labels.draw_beside(svg, right, |index| self.row_y(index, share));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lined_up(categories: &[&[&'static str]]) -> BandData<'static> {
        let categories = categories.iter().map(|names| ("", names.to_vec()));
        BandData::new(&ChartAxis::default(), categories)
    }

    #[test]
    fn a_series_keeps_its_place_where_another_is_missing() {
        let lineup = lined_up(&[&["old", "new"], &["new"]]);
        let names: Vec<&str> = lineup.series.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["old", "new"]);
        assert_eq!(lineup.slots, [vec![0, 1], vec![1]]);
    }

    #[test]
    fn equal_names_in_one_category_stand_side_by_side() {
        let lineup = lined_up(&[&["", ""]]);
        assert_eq!((lineup.slot_count(), lineup.slots), (2, vec![vec![0, 1]]));
    }
}
