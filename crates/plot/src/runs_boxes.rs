//! The boxes beside values in order of execution: one per series, on the axis of the values.

use crate::draw::{Rect, Style, Svg};
use crate::scale::{Mapping, figure};
use crate::tukey::Tukey;

/// Pixels that a box has with its distance to the next one, where there is room.
const SLOT_PX: f64 = 30.0;
/// Share of the chart's width that all boxes together may take.
const MOST_OF_WIDTH: f64 = 0.35;
/// Empty pixels between the runs and the first box.
const GAP: f64 = 8.0;

/// Where the boxes of all series are.
pub(crate) struct RunsBoxes<'a> {
    left: f64,
    slot_px: f64,
    tukeys: &'a [Option<Tukey>],
}

impl<'a> RunsBoxes<'a> {
    /// The pixels that `count` boxes take of a chart of some width.
    pub fn width(count: usize, chart_px: f64) -> f64 {
        (count as f64 * SLOT_PX + GAP).min(chart_px * MOST_OF_WIDTH)
    }

    /// Boxes right of `plot`, up to `right`.
    pub fn beside(plot: Rect, right: f64, tukeys: &'a [Option<Tukey>]) -> Self {
        let left = plot.right + GAP;
        Self {
            left,
            // A sheet may be too small for its chart.
            slot_px: (right - left).max(0.0) / tukeys.len().max(1) as f64,
            tukeys,
        }
    }

    /// Draws every box along the axis of the values.
    pub fn draw(&self, svg: &mut Svg, y: &Mapping) {
        svg.group("boxes").containing(|svg| {
            for (at, tukey) in self.tukeys.iter().enumerate() {
                let Some(tukey) = tukey else { continue };
                let middle = self.left + (at as f64 + 0.5) * self.slot_px;
                draw_box(svg, tukey, Style::of(at), y, (middle, self.slot_px * 0.32));
            }
        });
    }
}

/// One box around `middle`, reaching `half` pixels to both sides.
fn draw_box(svg: &mut Svg, tukey: &Tukey, style: Style, y: &Mapping, (middle, half): (f64, f64)) {
    let (low, high) = (y.at(tukey.low_quartile), y.at(tukey.high_quartile));
    let whiskers = format!(
        "M{middle:.1} {low:.1}V{:.1}M{middle:.1} {high:.1}V{:.1}",
        y.at(tukey.low_whisker),
        y.at(tukey.high_whisker)
    );
    let tooltip = format!(
        "{}\nquartiles {} to {}",
        tukey.describe_center(),
        figure(tukey.low_quartile),
        figure(tukey.high_quartile)
    );
    let group = svg.group("series").set("stroke", &style.colour());
    group.set("fill", &style.colour()).containing(|svg| {
        svg.element("path").set("d", &whiskers).close();
        svg.element("rect")
            .set("class", "box")
            .num("x", middle - half)
            .num("y", high.min(low))
            .num("width", 2.0 * half)
            .num("height", (low - high).abs())
            .num("fill-opacity", 0.2)
            .titled(&tooltip);
        let center = y.at(tukey.center);
        svg.line((middle - half, center), (middle + half, center))
            .num("stroke-width", 2.4)
            .close();
        svg.element("path")
            .set("d", &style.marker().path(middle, center, 2.8))
            .close();
    });
}
