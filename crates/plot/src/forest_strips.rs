//! Draws a forest plot in pieces, to be embedded in the rows of a table. Each row has one small
//! drawing, and all drawings share an axis. Other columns of the table hold the names and numbers.
//!
//! [`ForestChart::render_strips`] returns self-contained drawings for standalone pages. With a
//! style sheet, [`ForestChart::render_shared_strips`] writes the common parts of all rows once.

use crate::axes::small_ticks;
use crate::color::MUTED;
use crate::forest_chart::{
    ForestChart, ForestRow, draw_band, draw_end, draw_reference, draw_row, mark_radius,
};
use crate::scale::AxisMapping;
use crate::svg::{OutputMedium, SvgWriter, TextAnchor, TextLine, format_decimal};

/// Margin at both ends, so that a mark at an end of the axis is not cut off.
const MARGIN: f64 = 8.0;
const STRIP_PX: f64 = 22.0;
const AXIS_PX: f64 = 14.0;
const TICK_PX: f64 = 10.5;
/// Suffix of the background's ID, after the table's ID. All rows share the background.
const BACKGROUND: &str = "ground";

/// The pieces of a forest plot, each an SVG to embed in a page. Colors work as in
/// [`svg_on_page`](crate::AnyChart::svg_on_page). The pieces have no accessible text: the table row
/// must describe them.
#[derive(Clone, Debug, PartialEq)]
pub struct ForestStrips {
    /// Tick labels of the axis.
    pub axis: String,
    /// One drawing per row of the chart; `None` for a row without an estimate.
    pub rows: Vec<Option<String>>,
}

impl ForestChart {
    /// Renders the plot in pieces of width `width_px`; `None` if there is nothing to show. The
    /// table provides title, labels and numbers. The pieces contain no IDs.
    pub fn render_strips(&self, width_px: u32) -> Option<ForestStrips> {
        let width = f64::from(width_px);
        let x = AxisMapping::new(&self.axis(), self.extent()?, MARGIN, width - MARGIN);
        let row = |row: &ForestRow| {
            let shown = row.estimate.is_finite();
            shown.then(|| render_piece("", width, STRIP_PX, |svg| self.draw_strip(svg, row, &x)))
        };
        Some(ForestStrips {
            axis: render_piece("", width, AXIS_PX, |svg| draw_ticks(svg, &x, width)),
            rows: self.rows.iter().map(row).collect(),
        })
    }

    /// Same as [`render_strips`](ForestChart::render_strips), with about a third of the output. The
    /// axis defines the common parts of all rows, with an ID that starts with `table`. The page
    /// styles lines and marks by the classes `better`, `worse`, `same`, `unclear`, `interval` and
    /// `estimate`.
    pub fn render_shared_strips(&self, width_px: u32, table: &str) -> Option<ForestStrips> {
        let width = f64::from(width_px);
        let x = AxisMapping::new(&self.axis(), self.extent()?, MARGIN, width - MARGIN);
        let row = |row: &ForestRow| {
            let shown = row.estimate.is_finite();
            shown.then(|| {
                render_piece(table, width, STRIP_PX, |svg| draw_shared_strip(svg, row, &x))
            })
        };
        let axis = render_piece(table, width, AXIS_PX, |svg| {
            svg.start_element("defs").end_with(|svg| {
                let background = svg.start_element("g").set_text("id", BACKGROUND);
                background.end_with(|svg| self.draw_background(svg, &x));
            });
            draw_ticks(svg, &x, width);
        });
        Some(ForestStrips { axis, rows: self.rows.iter().map(row).collect() })
    }

    fn draw_strip(&self, svg: &mut SvgWriter, row: &ForestRow, x: &AxisMapping) {
        self.draw_background(svg, x);
        draw_row(svg, row, x, (STRIP_PX / 2.0, STRIP_PX), row.mark.word());
    }

    fn draw_background(&self, svg: &mut SvgWriter, x: &AxisMapping) {
        draw_band(svg, self, x, (0.0, STRIP_PX));
        draw_reference(svg, self, x, (0.0, STRIP_PX));
    }
}

fn draw_shared_strip(svg: &mut SvgWriter, row: &ForestRow, x: &AxisMapping) {
    let (y, radius) = (STRIP_PX / 2.0, mark_radius(STRIP_PX));
    let background = svg.start_element("use").set_text("href", &format!("#{BACKGROUND}"));
    background.end_empty();
    svg.start_group(row.mark.word()).end_with(|svg| {
        if !row.low.is_nan() && !row.high.is_nan() {
            let (low, high) = (x.pixel_at(row.low), x.pixel_at(row.high));
            let mut path = format!("M{} {y}H{}", format_decimal(low), format_decimal(high));
            for (end, end_x, direction) in [(row.low, low, -1.0), (row.high, high, 1.0)] {
                if x.contains_value(end) {
                    path += &format!("M{} {}v8", format_decimal(end_x), y - 4.0);
                } else {
                    draw_end(svg, false, end_x, y, direction, radius);
                }
            }
            let interval = svg.start_element("path").set_text("class", "interval");
            interval.set_text("d", &path).end_empty();
        }
        let shape = row.mark.marker().path(x.pixel_at(row.estimate), y, radius);
        let estimate = svg.start_element("path").set_text("class", "estimate");
        estimate.set_text("d", &shape).end_empty();
    });
}

fn render_piece(
    table: &str,
    width: f64,
    height: f64,
    content: impl FnOnce(&mut SvgWriter),
) -> String {
    let (width_text, height_text) = (format_decimal(width), format_decimal(height));
    let attributes = [
        ("class", "strip"),
        ("width", width_text.as_str()),
        ("height", height_text.as_str()),
        ("viewBox", &format!("0 0 {width_text} {height_text}")),
        ("aria-hidden", "true"),
    ];
    SvgWriter::write_document(OutputMedium::Page(table.to_owned()), &attributes, content)
}

fn draw_ticks(svg: &mut SvgWriter, x: &AxisMapping, width: f64) {
    for tick in small_ticks(x, TICK_PX) {
        // Shift the labels at both ends of the axis inward, so they are not cut off.
        let x_px = x.pixel_at(tick.value);
        let anchor = match x_px {
            x_px if x_px < MARGIN * 2.0 => TextAnchor::Start,
            x_px if x_px > width - MARGIN * 2.0 => TextAnchor::End,
            _ => TextAnchor::Middle,
        };
        let x_px = match anchor {
            TextAnchor::Start => 0.0,
            TextAnchor::Middle => x_px,
            TextAnchor::End => width,
        };
        let text = TextLine::at(&tick.label, x_px, AXIS_PX - 3.0, TICK_PX);
        svg.write_text(&text.with_anchor(anchor).with_color(MUTED));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::style::VerdictMark;

    fn row(estimate: f64, low: f64, high: f64) -> ForestRow {
        ForestRow { label: String::new(), estimate, low, high, mark: VerdictMark::Better }
    }

    /// The x coordinate of the estimate of a strip: its path starts at the tip of a triangle.
    fn estimate(strip: &str) -> f64 {
        let path = strip.split("class=\"estimate\" d=\"M").nth(1).unwrap();
        path.split([' ', 'L']).next().unwrap().parse().unwrap()
    }

    #[test]
    fn all_rows_share_one_axis() {
        let chart = ForestChart {
            rows: vec![row(-10.0, -12.0, -8.0), row(f64::NAN, 0.0, 0.0), row(10.0, 8.0, 12.0)],
            ..ForestChart::default()
        };
        let strips = chart.render_strips(200).unwrap();
        let [Some(first), None, Some(last)] = &strips.rows[..] else { panic!("{:?}", strips.rows) };
        assert!(
            (estimate(first) + estimate(last) - 200.0).abs() < 0.1,
            "symmetric around the reference"
        );
        assert!(strips.axis.contains(">0</text>"), "{}", strips.axis);
        assert_eq!(ForestChart::default().render_strips(200), None);
    }

    #[test]
    fn strips_with_a_shared_axis_show_the_same() {
        let chart = ForestChart {
            band: Some((-2.0, 2.0)),
            rows: vec![row(-10.0, -12.0, -8.0), row(10.0, 8.0, f64::INFINITY)],
            ..ForestChart::default()
        };
        let whole = chart.render_strips(200).unwrap();
        let shared = chart.render_shared_strips(200, "t-1").unwrap();
        assert!(shared.axis.contains("<g id=\"t-1-ground\">"));
        assert!(shared.axis.contains("class=\"band\""), "{}", shared.axis);
        for (whole, shared) in whole.rows.iter().zip(&shared.rows) {
            let (whole, shared) = (whole.as_ref().unwrap(), shared.as_ref().unwrap());
            assert!(shared.contains("<use href=\"#t-1-ground\"/>"), "{shared}");
            assert!((estimate(whole) - estimate(shared)).abs() < 0.01);
            assert!(shared.len() < whole.len() / 2, "{shared}");
        }
        let open = shared.rows[1].as_ref().unwrap();
        assert!(open.contains("<polygon class=\"open\""), "{open}");
    }
}
