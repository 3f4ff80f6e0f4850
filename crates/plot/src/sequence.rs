//! Draws a panel with the values of a process in order. Spikes are hollow points, each level is a
//! line, and the steady part is shaded.

use crate::ChartAxis;
use crate::axes::PointPlane;
use crate::color::{BAND, INK, PAPER};
use crate::numeral::format_figure;
use crate::scale::{AxisExtent, can_show};
use crate::style::SeriesStyle;
use crate::svg::{PixelRect, SvgWriter};
use std::ops::Range;

/// Maximum number of points. More points would overlap in a small panel.
const MAX_POINTS: usize = 1500;

/// Values in order with the detected levels and spikes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ValueSequence {
    /// Values; the first is at 0 on the bottom axis.
    pub values: Vec<f64>,
    /// Distance between consecutive values on the bottom axis.
    pub step: f64,
    /// Indices of spikes, ascending.
    pub spikes: Vec<usize>,
    /// Ranges of indices, each with the level of its values.
    pub levels: Vec<(Range<usize>, f64)>,
    /// Start of the shaded part, which extends to the end.
    pub shaded_from: Option<usize>,
}

impl ValueSequence {
    pub(crate) fn count_shown(&self, y: &ChartAxis) -> usize {
        let shown = self.values.iter().filter(|value| can_show(&y.scale, **value));
        shown.count()
    }

    /// Extents of both axes for all values except spikes. Spikes beyond the extents are drawn at
    /// the edge.
    pub(crate) fn axis_extents(
        &self,
        x: &ChartAxis,
        y: &ChartAxis,
    ) -> Option<(AxisExtent, AxisExtent)> {
        let is_no_spike = |(index, _): &(usize, &f64)| self.spikes.binary_search(index).is_err();
        let without_spikes = self.values.iter().enumerate().filter(is_no_spike);
        let values = without_spikes.map(|(_, value)| *value);
        let levels = self.levels.iter().map(|(_, level)| *level);
        let shown = values.chain(levels).filter(|value| can_show(&y.scale, *value));
        let y = AxisExtent::of_values(&y.scale, shown)?;
        let end = self.values.len() as f64 * self.step;
        let x = AxisExtent::of_values(&x.scale, [0.0, end])?;
        Some((x.with_padding(0.01), y.including_near_zero().with_padding(0.06)))
    }

    pub(crate) fn draw(&self, svg: &mut SvgWriter, plane: &PointPlane, y: &ChartAxis) {
        let PixelRect { top, bottom, .. } = plane.plot;
        let x_of = |index: usize| plane.x.pixel_at(index as f64 * self.step);
        let y_of = |value: f64| plane.y.pixel_at(value).clamp(top, bottom);
        if let Some(from) = self.shaded_from.map(x_of) {
            draw_shade(svg, plane.plot, from);
        }
        plane.draw_axes(svg);
        let colour = SeriesStyle::of_series(0).color();
        let stride = self.values.len().div_ceil(MAX_POINTS).max(1);
        let dots: String = self
            .values
            .iter()
            .enumerate()
            .step_by(stride)
            .filter(|(index, value)| {
                can_show(&y.scale, **value) && self.spikes.binary_search(index).is_err()
            })
            .map(|(index, value)| format!("M{:.1} {:.1}h0", x_of(index), y_of(*value)))
            .collect();
        svg.start_element("path")
            .set_text("class", "points")
            .set_text("d", &dots)
            .set_text("stroke", &colour)
            .set_text("stroke-linecap", "round")
            .set_number("stroke-width", 2.2)
            .set_number("stroke-opacity", 0.7)
            .end_empty();
        let spikes = self.spikes.iter().filter(|spike| {
            let value = self.values.get(**spike);
            value.is_some_and(|value| can_show(&y.scale, *value))
        });
        for spike in spikes {
            svg.start_element("circle")
                .set_text("class", "spike")
                .set_number("cx", x_of(*spike))
                .set_number("cy", y_of(self.values[*spike]))
                .set_number("r", 2.0)
                .set_text("fill", PAPER)
                .set_text("stroke", &colour)
                .end_empty();
        }
        for (points, level) in self.levels.iter().filter(|(_, level)| can_show(&y.scale, *level)) {
            let y = y_of(*level);
            svg.start_line((x_of(points.start), y), (x_of(points.end), y))
                .set_text("class", "level")
                .set_text("stroke", INK)
                .set_number("stroke-width", 1.4)
                .end_with_tooltip(&format!("level {}", format_figure(*level)));
        }
    }
}

/// Shades the plot from an x coordinate to its right edge.
fn draw_shade(svg: &mut SvgWriter, plot: PixelRect, from: f64) {
    svg.start_element("rect")
        .set_text("class", "shade")
        .set_number("x", from)
        .set_number("y", plot.top)
        .set_number("width", (plot.right - from).max(0.0))
        .set_number("height", plot.bottom - plot.top)
        .set_text("fill", BAND)
        .end_empty();
}
