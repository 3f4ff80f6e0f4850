//! A trend as a sparkline, for a row of a table that has the text: points as a faint line, levels
//! on top of it, and the marks of changes.

use crate::axis::Axis;
use crate::colour::{INK, MUTED};
use crate::page::Figure;
use crate::scale::{Mapping, can_show};
use crate::svg::{Medium, Rect, Svg, decimal};
use crate::trend_chart::{TrendChart, TrendLevel, without};
use crate::trend_point::{Bucket, buckets};

/// Margin at both ends for half of a mark, height of the strip of marks, and mark radius.
const MARGIN_PX: f64 = 7.0;
const MARKS_PX: f64 = 13.0;
const RADIUS_PX: f64 = 3.2;
/// Minimum width of a point on the line.
const POINT_PX: f64 = 2.0;

impl TrendChart {
    /// Renders the trend as a drawing of `width_px` by `height_px` for a page; see
    /// [`Chart::svg_on_page`](crate::Chart::svg_on_page) for its colors. It contains no IDs and
    /// nothing reachable by keyboard. `None` if there is nothing to show.
    pub fn sparkline(&self, width_px: u32, height_px: u32) -> Option<String> {
        let (width, height) = (f64::from(width_px.max(40)), f64::from(height_px.max(24)));
        let shown = self.shown();
        let strays = self.strays(&shown);
        let axis = Axis {
            label: String::new(),
            scale: self.y.value_scale().clone(),
        };
        let plot = Rect::new(MARGIN_PX, MARKS_PX, width - MARGIN_PX, height - 2.0);
        let x = self.x_extent(&shown)?.padded_across(0.0);
        let x = Mapping::new(&Axis::linear(""), x, plot.left, plot.right);
        let y = self.y_extent(&without(&shown, &strays))?.padded(0.0);
        let y = Mapping::new(&axis, y, plot.bottom, plot.top + 2.0);
        let most = (plot.width() / POINT_PX) as usize;
        let clean: Vec<_> = shown
            .into_iter()
            .filter(|point| !point.is_aside())
            .collect();
        let marks = buckets(&clean, &self.borders(), most);
        let (wide, high) = (decimal(width), decimal(height));
        let attributes = [
            ("class", "spark"),
            ("width", wide.as_str()),
            ("height", high.as_str()),
            ("viewBox", &format!("0 0 {wide} {high}")),
            ("role", "img"),
            ("aria-label", &self.summary()),
        ];
        Some(Svg::document(
            Medium::Page(String::new()),
            &attributes,
            |svg| {
                draw_course(svg, &marks, &x, &y);
                self.draw_levels_small(svg, &x, &y);
                self.draw_changes_small(svg, plot, &x);
            },
        ))
    }

    fn draw_levels_small(&self, svg: &mut Svg, x: &Mapping, y: &Mapping) {
        let shown = |value: f64| can_show(self.y.value_scale(), value);
        let levels = self.levels.iter().filter(|level| shown(level.value));
        let line = |level: &TrendLevel| {
            let (from, to) = (x.at(level.from), x.at(level.to));
            format!(
                "M{from:.1} {:.1}H{:.1}",
                y.at(level.value),
                to.max(from + 3.0)
            )
        };
        let lines: String = levels.map(line).collect();
        if !lines.is_empty() {
            let path = svg.element("path").set("class", "levels").set("d", &lines);
            path.set("stroke", INK).num("stroke-width", 1.3).close();
        }
    }

    fn draw_changes_small(&self, svg: &mut Svg, plot: Rect, x: &Mapping) {
        for change in &self.changes {
            let at = x.at(change.border());
            svg.line((at, MARKS_PX / 2.0), (at, plot.bottom))
                .set("stroke", change.colour())
                .num("stroke-width", 0.9)
                .set("stroke-dasharray", "2 2")
                .close();
            change.draw_mark(svg, at, MARKS_PX / 2.0, RADIUS_PX);
        }
    }
}

/// Draws a faint line from point to point, for each machine.
fn draw_course(svg: &mut Svg, marks: &[Bucket<'_>], x: &Mapping, y: &Mapping) {
    let mut machines: Vec<usize> = marks.iter().filter_map(Bucket::machine).collect();
    machines.sort_unstable();
    machines.dedup();
    let mut lines = String::new();
    for machine in machines {
        let of_machine = marks.iter().filter(|mark| mark.machine() == Some(machine));
        for (number, mark) in of_machine.enumerate() {
            let at = mark.at();
            let step = if number == 0 { 'M' } else { 'L' };
            lines.push_str(&format!("{step}{:.1} {:.1}", x.at(at.x), y.at(at.y)));
        }
    }
    svg.element("path")
        .set("class", "course")
        .set("d", &lines)
        .set("fill", "none")
        .set("stroke", MUTED)
        .num("stroke-width", 1.0)
        .num("stroke-opacity", 0.7)
        .set("stroke-linejoin", "round")
        .close();
}
