//! Value axes at the left and the bottom: grid lines behind the data, tick labels and axis labels.
//! Uses as many ticks as fit without overlapping labels.

use crate::Axis;
use crate::category_labels::CategoryLabels;
use crate::colour::{AXIS, GRID, INK, MUTED};
use crate::scale::{Extent, Mapping};
use crate::svg::{Anchor, Rect, Svg, Text};
use crate::text::{CAP_HEIGHT, elide, room_for};
use crate::ticks::Tick;

pub(crate) const TICK_PX: f64 = 12.0;
const AXIS_LABEL_PX: f64 = 13.0;
/// Gap in pixels between a tick label and the plot.
const TICK_GAP: f64 = 8.0;
/// Height of the strip above the plot that contains the label of the left axis.
const TOP_STRIP: f64 = 26.0;
/// A plot taller than this repeats its bottom tick labels at the top.
const TALL: f64 = 1000.0;

/// Ticks of a bottom axis without overlapping labels.
pub(crate) fn bottom_ticks(mapping: &Mapping) -> Vec<Tick> {
    let most = (mapping.length_px() / 70.0).clamp(2.0, 12.0) as usize;
    spread(mapping, most, |label| room_for(label, TICK_PX) + 14.0)
}

/// Ticks of a left axis without overlapping labels.
pub(crate) fn left_ticks(mapping: &Mapping) -> Vec<Tick> {
    // Place ticks closer together in a low plot: one or two would make it unreadable.
    let loose = (mapping.length_px() / 55.0).clamp(2.0, 10.0);
    let close = (mapping.length_px() / 28.0).clamp(2.0, 4.0);
    let most = loose.max(close) as usize;
    spread(mapping, most, |_| TICK_PX * 1.4)
}

/// Ticks of a small axis without grid lines and with small labels.
pub(crate) fn small_ticks(mapping: &Mapping, size_px: f64) -> Vec<Tick> {
    let most = (mapping.length_px() / 34.0).clamp(2.0, 8.0) as usize;
    spread(mapping, most, |label| room_for(label, size_px) + 8.0)
}

/// As many ticks as possible, up to about `most`, with `room` for each label along the axis.
fn spread(mapping: &Mapping, most: usize, room: impl Fn(&str) -> f64) -> Vec<Tick> {
    let apart = |ticks: &Vec<Tick>| {
        let written: Vec<&Tick> = ticks.iter().filter(|tick| !tick.label.is_empty()).collect();
        written.windows(2).all(|pair| {
            let needed = (room(&pair[0].label) + room(&pair[1].label)) / 2.0;
            (mapping.at(pair[1].value) - mapping.at(pair[0].value)).abs() >= needed
        })
    };
    let fitting = (1..=most)
        .rev()
        .map(|about| mapping.ticks(about))
        .find(apart);
    fitting.unwrap_or_else(|| mapping.ticks(1).into_iter().take(1).collect())
}

/// Width in pixels of the labels of a left axis.
pub(crate) fn left_gutter(ticks: &[Tick]) -> f64 {
    let widest = ticks
        .iter()
        .map(|tick| room_for(&tick.label, TICK_PX))
        .fold(0.0, f64::max);
    widest + TICK_GAP
}

/// Height in pixels above the plot for the label of a left axis.
pub(crate) fn top_strip(label: &str) -> f64 {
    if label.trim().is_empty() {
        8.0
    } else {
        TOP_STRIP
    }
}

/// Height in pixels of a bottom axis, including its label.
pub(crate) fn bottom_height(label: &str) -> f64 {
    TICK_GAP + TICK_PX + bottom_label_height(label)
}

/// Height in pixels of the label of a bottom axis.
pub(crate) fn bottom_label_height(label: &str) -> f64 {
    if label.trim().is_empty() {
        0.0
    } else {
        AXIS_LABEL_PX + 11.0
    }
}

/// Draws the grid lines and tick labels of a left axis.
pub(crate) fn draw_left_axis(svg: &mut Svg, plot: Rect, mapping: &Mapping, ticks: &[Tick]) {
    svg.group("grid").set("stroke", GRID).containing(|svg| {
        for tick in ticks {
            let y = mapping.at(tick.value);
            minor(svg.line((plot.left, y), (plot.right, y)), tick).close();
        }
    });
    svg.group("y-ticks").containing(|svg| {
        for tick in ticks {
            let y = mapping.at(tick.value) + TICK_PX * CAP_HEIGHT / 2.0;
            let text = Text::at(&tick.label, plot.left - TICK_GAP, y, TICK_PX);
            svg.text(&text.anchored(Anchor::End).coloured(MUTED));
        }
    });
}

/// Draws the label of a left axis horizontally above it, where it is easy to read.
pub(crate) fn draw_left_label(svg: &mut Svg, sheet: Rect, plot: Rect, label: &str) {
    let label = elide(label, sheet.width(), AXIS_LABEL_PX);
    svg.group("y-label").containing(|svg| {
        svg.text(&Text::at(&label, sheet.left, plot.top - 13.0, AXIS_LABEL_PX).coloured(INK));
    });
}

/// Draws the grid lines, tick labels and label of a bottom axis.
pub(crate) fn draw_bottom_axis(
    svg: &mut Svg,
    sheet: Rect,
    plot: Rect,
    mapping: &Mapping,
    label: &str,
) {
    let ticks = bottom_ticks(mapping);
    svg.group("grid").set("stroke", GRID).containing(|svg| {
        for tick in &ticks {
            let x = mapping.at(tick.value);
            minor(svg.line((x, plot.top), (x, plot.bottom)), tick).close();
        }
    });
    svg.group("x-ticks").containing(|svg| {
        tick_labels(
            svg,
            sheet,
            mapping,
            &ticks,
            plot.bottom + TICK_GAP + TICK_PX * 0.8,
        );
        if plot.height() > TALL {
            tick_labels(svg, sheet, mapping, &ticks, plot.top - 6.0);
        }
    });
    draw_bottom_label(svg, plot, plot.bottom + bottom_height(label), label);
}

fn tick_labels(svg: &mut Svg, sheet: Rect, mapping: &Mapping, ticks: &[Tick], baseline: f64) {
    for tick in ticks {
        let half = room_for(&tick.label, TICK_PX) / 2.0;
        let x = mapping
            .at(tick.value)
            .min(sheet.right - half)
            .max(sheet.left + half);
        let text = Text::at(&tick.label, x, baseline, TICK_PX);
        svg.text(&text.anchored(Anchor::Middle).coloured(MUTED));
    }
}

/// Draws the label of a bottom axis with its lower edge at `bottom`.
pub(crate) fn draw_bottom_label(svg: &mut Svg, plot: Rect, bottom: f64, label: &str) {
    let label = elide(label, plot.width(), AXIS_LABEL_PX);
    svg.group("x-label").containing(|svg| {
        let text = Text::at(&label, plot.middle_x(), bottom - 3.0, AXIS_LABEL_PX);
        svg.text(&text.anchored(Anchor::Middle).coloured(INK));
    });
}

pub(crate) fn draw_base_line(svg: &mut Svg, from: (f64, f64), to: (f64, f64)) {
    svg.line(from, to)
        .set("class", "base")
        .set("stroke", AXIS)
        .close();
}

fn minor<'a>(line: crate::svg::Element<'a>, tick: &Tick) -> crate::svg::Element<'a> {
    if tick.label.is_empty() {
        line.num("stroke-width", 0.5)
    } else {
        line
    }
}

// Two axes and the plot between them, for point charts. The names of a category axis at the bottom
// are wrapped into lines, or slanted if too long.

/// The plot of a point chart.
pub(crate) struct Plane {
    /// Area of the data.
    pub plot: Rect,
    pub x: Mapping,
    pub y: Mapping,
    sheet: Rect,
    x_label: String,
    y_label: String,
    names: Option<CategoryLabels>,
}

/// Space right of the plot for half of the last tick label.
const RIGHT_PX: f64 = 6.0;
/// Maximum share of the height for slanted names, and of the width by which they may shift the
/// plot.
const SLANTED_HEIGHT: f64 = 0.34;
const SLANTED_ASIDE: f64 = 0.14;

impl Plane {
    /// Lays out the axes in `sheet`; `x` and `y` each come with the extent to show.
    pub fn lay_out(sheet: Rect, x: (&Axis, Extent), y: (&Axis, Extent)) -> Self {
        let top = sheet.top + top_strip(&y.0.label);
        let draft = Mapping::new(y.0, y.1, sheet.bottom - bottom_height(&x.0.label), top);
        // The lengths of the axes depend on each other; one draft of the left labels is accurate
        // enough, because their widths hardly change with the height.
        let mut left = sheet.left + left_gutter(&left_ticks(&draft));
        let right = sheet.right - RIGHT_PX;
        let names = Mapping::new(x.0, x.1, left, right).names().map(|names| {
            let (labels, aside) = name_labels(names, left, sheet);
            left += aside;
            labels
        });
        let below = match &names {
            None => bottom_height(&x.0.label),
            Some(names) => names.height() + 10.0 + bottom_label_height(&x.0.label),
        };
        let plot = Rect::new(left, top, right, sheet.bottom - below);
        Self {
            plot,
            x: Mapping::new(x.0, x.1, plot.left, plot.right),
            y: Mapping::new(y.0, y.1, plot.bottom, plot.top),
            sheet,
            x_label: x.0.described(),
            y_label: y.0.described(),
            names,
        }
    }

    /// Restricts the left axis to ticks at whole numbers.
    pub fn of_counts(self) -> Self {
        Self {
            y: self.y.of_counts(),
            ..self
        }
    }

    /// Restricts the bottom axis to ticks at whole numbers.
    pub fn of_positions(self) -> Self {
        Self {
            x: self.x.of_counts(),
            ..self
        }
    }

    /// Draws everything except the data.
    pub fn draw_axes(&self, svg: &mut Svg) {
        let Rect {
            left,
            right,
            bottom,
            ..
        } = self.plot;
        draw_left_axis(svg, self.plot, &self.y, &left_ticks(&self.y));
        draw_left_label(svg, self.sheet, self.plot, &self.y_label);
        match &self.names {
            None => draw_bottom_axis(svg, self.sheet, self.plot, &self.x, &self.x_label),
            Some(names) => {
                let place = |at: usize| self.x.at(at as f64);
                names.draw_below(svg, bottom + 7.0, place);
                draw_bottom_label(svg, self.plot, self.sheet.bottom, &self.x_label);
            }
        }
        draw_base_line(svg, (left, bottom), (right, bottom));
        // Mark zero if there are data on both sides of it.
        if self.y.reaches(0.0) && self.y.at(0.0) < bottom - 1.0 {
            let zero = self.y.at(0.0);
            svg.line((left, zero), (right, zero))
                .set("stroke", AXIS)
                .close();
        }
    }
}

/// Lays out category names; also returns how far the plot must move right for the first of them.
fn name_labels(names: &[String], left: f64, sheet: Rect) -> (CategoryLabels, f64) {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let width = sheet.right - RIGHT_PX - left;
    let slot_px = width / names.len().max(1) as f64;
    if let Some(labels) = CategoryLabels::below(&names, slot_px) {
        return (labels, 0.0);
    }
    let max_height = sheet.height() * SLANTED_HEIGHT;
    let gutter = left - sheet.left;
    let aside = CategoryLabels::slanted_reach(&names, slot_px, max_height) - gutter;
    let aside = aside.clamp(0.0, sheet.width() * SLANTED_ASIDE);
    let slot_px = (width - aside) / names.len().max(1) as f64;
    (
        CategoryLabels::slanted_below(&names, slot_px, max_height, gutter + aside),
        aside,
    )
}
