//! Two axes and the plot between them, for charts of points.
//! A category axis at the bottom writes its names in lines, or slanted where they are too long.

use super::axes::{
    bottom_height, bottom_label_height, draw_base_line, draw_bottom_axis, draw_bottom_label,
    draw_left_axis, draw_left_label, left_gutter, left_ticks, top_strip,
};
use super::category_labels::CategoryLabels;
use crate::Axis;
use crate::draw::{AXIS, Rect, Svg};
use crate::scale::{Extent, Mapping};

/// The plot of a chart of points.
pub(crate) struct Plane {
    /// Where the data are drawn.
    pub plot: Rect,
    pub x: Mapping,
    pub y: Mapping,
    sheet: Rect,
    x_label: String,
    y_label: String,
    names: Option<CategoryLabels>,
}

/// Right of the plot, for half of the last tick label.
const RIGHT_PX: f64 = 6.0;
/// Slanted names may take this share of the height, and push the plot this share of the width aside.
const SLANTED_HEIGHT: f64 = 0.34;
const SLANTED_ASIDE: f64 = 0.14;

impl Plane {
    /// Places the axes in `sheet`; `x` and `y` each come with the part of the numbers they show.
    pub fn lay_out(sheet: Rect, x: (&Axis, Extent), y: (&Axis, Extent)) -> Self {
        let top = sheet.top + top_strip(&y.0.label);
        let draft = Mapping::new(y.0, y.1, sheet.bottom - bottom_height(&x.0.label), top);
        // The lengths of both axes depend on each other; one draft of the left labels is near enough,
        // because their widths hardly change with the height.
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

    /// With whole numbers only on the left axis.
    pub fn of_counts(self) -> Self {
        Self {
            y: self.y.of_counts(),
            ..self
        }
    }

    /// With whole numbers only on the bottom axis.
    pub fn of_positions(self) -> Self {
        Self {
            x: self.x.of_counts(),
            ..self
        }
    }

    /// Draws everything but the data.
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
        // A line at zero, where the data lie on both sides of it.
        if self.y.reaches(0.0) && self.y.at(0.0) < bottom - 1.0 {
            let zero = self.y.at(0.0);
            svg.line((left, zero), (right, zero))
                .set("stroke", AXIS)
                .close();
        }
    }
}

/// The labels of named places, and how far the plot must move to the right for the first of them.
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
