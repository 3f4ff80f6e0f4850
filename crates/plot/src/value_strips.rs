//! A few values of each series as dots along one axis, a row for each series, with a line at its median.

use crate::Axis;
use crate::draw::{PAPER, Rect, Style, Svg};
use crate::jitter::offsets;
use crate::layout::{CategoryLabels, bottom_height, draw_bottom_axis};
use crate::scale::{Extent, Mapping, figure};
use crate::tukey::Tukey;

/// Share of the width that names beside rows may take.
const NAME_SHARE: f64 = 0.3;
const NAME_GAP: f64 = 12.0;
/// Shares of a row over which the dots spread, and that the line at the median crosses.
const SPREAD: f64 = 0.4;
const MEDIAN: f64 = 0.7;
/// A dot is no larger than this, and smaller in a low row.
const LARGEST_PX: f64 = 4.4;
const SMALLEST_PX: f64 = 2.2;

/// The values of one series.
pub(crate) struct Strip<'a> {
    /// What tooltips call it.
    pub name: &'a str,
    /// What stands beside its row.
    pub label: &'a str,
    pub style: Style,
    /// In ascending order.
    pub values: Vec<f64>,
}

/// Draws a row for each of `strips`; tooltips call the values by `quantity`.
pub(crate) fn draw_strips(
    svg: &mut Svg,
    sheet: Rect,
    (x, extent): (&Axis, Extent),
    strips: &[Strip<'_>],
    quantity: &str,
) {
    let bottom = (sheet.bottom - bottom_height(&x.label)).max(sheet.top + 8.0);
    let row_px = (bottom - sheet.top) / strips.len().max(1) as f64;
    let labels: Vec<&str> = strips.iter().map(|strip| strip.label).collect();
    let named = labels.iter().any(|label| !label.trim().is_empty());
    let names = CategoryLabels::beside(&labels, row_px, sheet.width() * NAME_SHARE);
    let aside = if named { names.width() + NAME_GAP } else { 8.0 };
    let plot = Rect::new(sheet.left + aside, sheet.top, sheet.right - 8.0, bottom);
    let along = Mapping::new(x, extent, plot.left, plot.right);
    draw_bottom_axis(svg, sheet, plot, &along, &x.described());
    let middle = |at: usize| plot.top + (at as f64 + 0.5) * row_px;
    if named {
        names.draw_beside(svg, plot.left - NAME_GAP, middle);
    }
    for (at, strip) in strips.iter().enumerate() {
        draw_strip(svg, &along, strip, (middle(at), row_px), quantity);
    }
}

fn draw_strip(
    svg: &mut Svg,
    along: &Mapping,
    strip: &Strip<'_>,
    (middle, row_px): (f64, f64),
    quantity: &str,
) {
    let Some(tukey) = Tukey::of(&strip.values) else {
        return;
    };
    let colour = strip.style.colour();
    let (x, half) = (along.at(tukey.median), row_px * MEDIAN / 2.0);
    svg.line((x, middle - half), (x, middle + half))
        .set("class", "median")
        .set("stroke", &colour)
        .num("stroke-width", 1.6)
        .close();
    let radius = (row_px / 9.0).clamp(SMALLEST_PX, LARGEST_PX);
    let group = svg
        .group("points")
        .set("fill", &colour)
        .num("fill-opacity", 0.8)
        .set("stroke", PAPER)
        .num("stroke-width", 0.7);
    group.containing(|svg| {
        for (value, offset) in strip.values.iter().zip(offsets(&strip.values)) {
            let y = middle + offset * row_px * SPREAD;
            let outline = strip.style.marker().path(along.at(*value), y, radius);
            svg.element("path")
                .set("class", "point")
                .set("d", &outline)
                .titled(&describe(strip, quantity, *value));
        }
    });
}

fn describe(strip: &Strip<'_>, quantity: &str, value: f64) -> String {
    let name = match strip.name.trim() {
        "" => String::new(),
        name => format!("{name}\n"),
    };
    match quantity.trim() {
        "" => format!("{name}{}", figure(value)),
        quantity => format!("{name}{quantity}: {}", figure(value)),
    }
}
