//! Draws a trend as a sparkline, for a row of a table that describes the trend in words. A
//! sparkline shows the points as a faint line, with the levels and the marks of changes on top.

use crate::axis::ChartAxis;
use crate::color::{INK, MUTED};
use crate::page::SheetContent;
use crate::scale::{AxisMapping, can_show};
use crate::svg::{OutputMedium, PixelRect, SvgWriter, format_decimal};
use crate::trend_chart::{TrendChart, TrendLevel, without_strays};
use crate::trend_point::{PointBucket, make_buckets};

/// Margin at the left and right end, where marks must not be cut off; height of the strip of marks;
/// radius of a mark.
const MARGIN_PX: f64 = 7.0;
const MARKS_PX: f64 = 13.0;
const RADIUS_PX: f64 = 3.2;
/// Minimum distance between neighboring points of the line.
const POINT_PX: f64 = 2.0;

impl TrendChart {
    /// Renders the trend as a drawing of `width_px` by `height_px` for a page. Colors work as in
    /// [`AnyChart::svg_on_page`](crate::AnyChart::svg_on_page). The drawing contains no IDs and
    /// nothing reachable by keyboard. `None` if there is nothing to show.
    pub fn render_sparkline(&self, width_px: u32, height_px: u32) -> Option<String> {
        let (width, height) = (f64::from(width_px.max(40)), f64::from(height_px.max(24)));
        let shown = self.shown_points();
        let strays = self.find_strays(&shown);
        let axis = ChartAxis { label: String::new(), scale: self.y.value_scale().clone() };
        let plot = PixelRect::new(MARGIN_PX, MARKS_PX, width - MARGIN_PX, height - 2.0);
        let x = self.x_extent(&shown)?.padded_across(0.0);
        let x = AxisMapping::new(&ChartAxis::linear(""), x, plot.left, plot.right);
        let y = self.y_extent(&without_strays(&shown, &strays))?.with_padding(0.0);
        let y = AxisMapping::new(&axis, y, plot.bottom, plot.top + 2.0);
        let max_marks = (plot.width() / POINT_PX) as usize;
        let clean: Vec<_> = shown.into_iter().filter(|point| !point.is_aside()).collect();
        let marks = make_buckets(&clean, &self.bucket_borders(), max_marks);
        let (width_text, height_text) = (format_decimal(width), format_decimal(height));
        let attributes = [
            ("class", "spark"),
            ("width", width_text.as_str()),
            ("height", height_text.as_str()),
            ("viewBox", &format!("0 0 {width_text} {height_text}")),
            ("role", "img"),
            ("aria-label", &self.summary()),
        ];
        Some(SvgWriter::write_document(OutputMedium::Page(String::new()), &attributes, |svg| {
            draw_lines(svg, &marks, &x, &y);
            self.draw_levels_small(svg, &x, &y);
            self.draw_changes_small(svg, plot, &x);
        }))
    }

    fn draw_levels_small(&self, svg: &mut SvgWriter, x: &AxisMapping, y: &AxisMapping) {
        let is_shown = |value: f64| can_show(self.y.value_scale(), value);
        let levels = self.levels.iter().filter(|level| is_shown(level.value));
        let line = |level: &TrendLevel| {
            let (from, to) = (x.pixel_at(level.from), x.pixel_at(level.to));
            format!("M{from:.1} {:.1}H{:.1}", y.pixel_at(level.value), to.max(from + 3.0))
        };
        let lines: String = levels.map(line).collect();
        if !lines.is_empty() {
            let path = svg.start_element("path").set_text("class", "levels").set_text("d", &lines);
            path.set_text("stroke", INK).set_number("stroke-width", 1.3).end_empty();
        }
    }

    fn draw_changes_small(&self, svg: &mut SvgWriter, plot: PixelRect, x: &AxisMapping) {
        for change in &self.changes {
            let x_px = x.pixel_at(change.border_position());
            svg.start_line((x_px, MARKS_PX / 2.0), (x_px, plot.bottom))
                .set_text("stroke", change.colour())
                .set_number("stroke-width", 0.9)
                .set_text("stroke-dasharray", "2 2")
                .end_empty();
            change.draw_mark(svg, x_px, MARKS_PX / 2.0, RADIUS_PX);
        }
    }
}

/// Draws a faint line from point to point, for each machine.
fn draw_lines(svg: &mut SvgWriter, marks: &[PointBucket<'_>], x: &AxisMapping, y: &AxisMapping) {
    let mut machines: Vec<usize> = marks.iter().filter_map(PointBucket::machine).collect();
    machines.sort_unstable();
    machines.dedup();
    let mut lines = String::new();
    for machine in machines {
        let machine_marks = marks.iter().filter(|mark| mark.machine() == Some(machine));
        for (number, mark) in machine_marks.enumerate() {
            let point = mark.summary_point();
            let step = if number == 0 { 'M' } else { 'L' };
            lines.push_str(&format!("{step}{:.1} {:.1}", x.pixel_at(point.x), y.pixel_at(point.y)));
        }
    }
    svg.start_element("path")
        .set_text("class", "course")
        .set_text("d", &lines)
        .set_text("fill", "none")
        .set_text("stroke", MUTED)
        .set_number("stroke-width", 1.0)
        .set_number("stroke-opacity", 0.7)
        .set_text("stroke-linejoin", "round")
        .end_empty();
}
