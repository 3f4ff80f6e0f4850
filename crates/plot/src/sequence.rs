//! A panel with the values of a process in order: spikes as hollow points, a line at every level,
//! and shading behind the steady part.

use crate::Axis;
use crate::axes::Plane;
use crate::colour::{BAND, INK, PAPER};
use crate::numeral::figure;
use crate::scale::{Extent, can_show};
use crate::style::Style;
use crate::svg::{Rect, Svg};
use std::ops::Range;

/// Maximum number of points drawn; more would overlap in a small panel.
const MOST_POINTS: usize = 1500;

/// Values in order with the detected levels and spikes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sequence {
    /// Values; the first is at 0 on the bottom axis.
    pub values: Vec<f64>,
    /// Distance between consecutive values on the bottom axis.
    pub step: f64,
    /// Indices of spikes, ascending.
    pub spikes: Vec<usize>,
    /// Index ranges with the level of each.
    pub levels: Vec<(Range<usize>, f64)>,
    /// Start of the shaded part, which extends to the end.
    pub shaded_from: Option<usize>,
}

impl Sequence {
    pub(crate) fn count_shown(&self, y: &Axis) -> usize {
        let shown = self
            .values
            .iter()
            .filter(|value| can_show(&y.scale, **value));
        shown.count()
    }

    /// Extents of both axes for the values; spikes beyond are drawn at the edge.
    pub(crate) fn extents(&self, x: &Axis, y: &Axis) -> Option<(Extent, Extent)> {
        let is_usual = |(at, _): &(usize, &f64)| self.spikes.binary_search(at).is_err();
        let usual = self.values.iter().enumerate().filter(is_usual);
        let values = usual.map(|(_, value)| *value);
        let levels = self.levels.iter().map(|(_, level)| *level);
        let shown = values
            .chain(levels)
            .filter(|value| can_show(&y.scale, *value));
        let y = Extent::of_values(&y.scale, shown)?;
        let end = self.values.len() as f64 * self.step;
        let x = Extent::of_values(&x.scale, [0.0, end])?;
        Some((x.padded(0.01), y.including_near_zero().padded(0.06)))
    }

    pub(crate) fn draw(&self, svg: &mut Svg, plane: &Plane, y: &Axis) {
        let Rect {
            top, bottom, right, ..
        } = plane.plot;
        let x_of = |at: usize| plane.x.at(at as f64 * self.step);
        let y_of = |value: f64| plane.y.at(value).clamp(top, bottom);
        if let Some(from) = self.shaded_from.map(x_of) {
            svg.element("rect")
                .set("class", "shade")
                .num("x", from)
                .num("y", top)
                .num("width", (right - from).max(0.0))
                .num("height", bottom - top)
                .set("fill", BAND)
                .close();
        }
        plane.draw_axes(svg);
        let colour = Style::of_series(0).colour();
        let stride = self.values.len().div_ceil(MOST_POINTS).max(1);
        let drawn = self.values.iter().enumerate().step_by(stride);
        let drawn = drawn.filter(|(at, value)| {
            can_show(&y.scale, **value) && self.spikes.binary_search(at).is_err()
        });
        let dot = |(at, value): (usize, &f64)| format!("M{:.1} {:.1}h0", x_of(at), y_of(*value));
        let dots: String = drawn.map(dot).collect();
        svg.element("path")
            .set("class", "points")
            .set("d", &dots)
            .set("stroke", &colour)
            .set("stroke-linecap", "round")
            .num("stroke-width", 2.2)
            .num("stroke-opacity", 0.7)
            .close();
        let spikes = self.spikes.iter().filter(|at| {
            let value = self.values.get(**at);
            value.is_some_and(|value| can_show(&y.scale, *value))
        });
        for at in spikes {
            svg.element("circle")
                .set("class", "spike")
                .num("cx", x_of(*at))
                .num("cy", y_of(self.values[*at]))
                .num("r", 2.0)
                .set("fill", PAPER)
                .set("stroke", &colour)
                .close();
        }
        for (points, level) in self
            .levels
            .iter()
            .filter(|(_, level)| can_show(&y.scale, *level))
        {
            let y = y_of(*level);
            svg.line((x_of(points.start), y), (x_of(points.end), y))
                .set("class", "level")
                .set("stroke", INK)
                .num("stroke-width", 1.4)
                .titled(&format!("level {}", figure(*level)));
        }
    }
}
