//! A forest plot in pieces: one small drawing per row on a common axis, for embedding in the rows
//! of a table whose other columns have the names and figures.
//!
//! Standalone pages get self-contained drawings ([`ForestChart::strips`]); if a style sheet is
//! available, the parts common to all rows are written once ([`ForestChart::strips_sharing`]).

use crate::axes::small_ticks;
use crate::colour::MUTED;
use crate::forest_chart::{
    ForestChart, ForestRow, draw_band, draw_end, draw_reference, draw_row, mark_px,
};
use crate::scale::Mapping;
use crate::svg::{Anchor, Medium, Svg, Text, decimal};

/// Margin at both ends, for half of a mark.
const MARGIN: f64 = 8.0;
const STRIP_PX: f64 = 22.0;
const AXIS_PX: f64 = 14.0;
const TICK_PX: f64 = 10.5;
/// ID suffix, after that of the table, of the part common to all rows.
const GROUND: &str = "ground";

/// The pieces of a forest plot, each an SVG for a page; see
/// [`svg_on_page`](crate::Chart::svg_on_page) for its colors. They have no accessible text: the
/// table row must describe them.
#[derive(Clone, Debug, PartialEq)]
pub struct ForestStrips {
    /// Tick labels of the axis.
    pub axis: String,
    /// One drawing per row of the chart; `None` without an estimate.
    pub rows: Vec<Option<String>>,
}

impl ForestChart {
    /// Renders the plot in pieces, each `width_px` wide; `None` if there is nothing to show. The
    /// table provides title, labels and figures. The pieces contain no IDs.
    pub fn strips(&self, width_px: u32) -> Option<ForestStrips> {
        let width = f64::from(width_px);
        let x = Mapping::new(&self.axis(), self.extent()?, MARGIN, width - MARGIN);
        let row = |row: &ForestRow| {
            let shown = row.estimate.is_finite();
            shown.then(|| sheet("", width, STRIP_PX, |svg| self.strip(svg, row, &x)))
        };
        Some(ForestStrips {
            axis: sheet("", width, AXIS_PX, |svg| draw_ticks(svg, &x, width)),
            rows: self.rows.iter().map(row).collect(),
        })
    }

    /// Same as [`strips`](ForestChart::strips) in a third of the size: parts common to all rows are
    /// in the axis, under an ID that starts with `table`, and the page styles lines and marks by
    /// the classes `better`, `worse`, `same`, `unclear`, `interval` and `estimate`.
    pub fn strips_sharing(&self, width_px: u32, table: &str) -> Option<ForestStrips> {
        let width = f64::from(width_px);
        let x = Mapping::new(&self.axis(), self.extent()?, MARGIN, width - MARGIN);
        let row = |row: &ForestRow| {
            let shown = row.estimate.is_finite();
            shown.then(|| sheet(table, width, STRIP_PX, |svg| terse_strip(svg, row, &x)))
        };
        let axis = sheet(table, width, AXIS_PX, |svg| {
            svg.element("defs").containing(|svg| {
                let ground = svg.element("g").set("id", GROUND);
                ground.containing(|svg| self.ground(svg, &x));
            });
            draw_ticks(svg, &x, width);
        });
        Some(ForestStrips {
            axis,
            rows: self.rows.iter().map(row).collect(),
        })
    }

    fn strip(&self, svg: &mut Svg, row: &ForestRow, x: &Mapping) {
        self.ground(svg, x);
        draw_row(svg, row, x, (STRIP_PX / 2.0, STRIP_PX), row.mark.word());
    }

    fn ground(&self, svg: &mut Svg, x: &Mapping) {
        draw_band(svg, self, x, (0.0, STRIP_PX));
        draw_reference(svg, self, x, (0.0, STRIP_PX));
    }
}

fn terse_strip(svg: &mut Svg, row: &ForestRow, x: &Mapping) {
    let (y, radius) = (STRIP_PX / 2.0, mark_px(STRIP_PX));
    let ground = svg.element("use").set("href", &format!("#{GROUND}"));
    ground.close();
    svg.group(row.mark.word()).containing(|svg| {
        if !row.low.is_nan() && !row.high.is_nan() {
            let (low, high) = (x.at(row.low), x.at(row.high));
            let mut path = format!("M{} {y}H{}", decimal(low), decimal(high));
            for (end, at, turn) in [(row.low, low, -1.0), (row.high, high, 1.0)] {
                if x.reaches(end) {
                    path += &format!("M{} {}v8", decimal(at), y - 4.0);
                } else {
                    draw_end(svg, false, at, y, turn, radius);
                }
            }
            let interval = svg.element("path").set("class", "interval");
            interval.set("d", &path).close();
        }
        let shape = row.mark.marker().path(x.at(row.estimate), y, radius);
        let estimate = svg.element("path").set("class", "estimate");
        estimate.set("d", &shape).close();
    });
}

fn sheet(table: &str, width: f64, height: f64, content: impl FnOnce(&mut Svg)) -> String {
    let (wide, high) = (decimal(width), decimal(height));
    let attributes = [
        ("class", "strip"),
        ("width", wide.as_str()),
        ("height", high.as_str()),
        ("viewBox", &format!("0 0 {wide} {high}")),
        ("aria-hidden", "true"),
    ];
    Svg::document(Medium::Page(table.to_owned()), &attributes, content)
}

fn draw_ticks(svg: &mut Svg, x: &Mapping, width: f64) {
    for tick in small_ticks(x, TICK_PX) {
        // Move a number at the end of the axis inside instead of cutting it off.
        let place = x.at(tick.value);
        let anchor = match place {
            near if near < MARGIN * 2.0 => Anchor::Start,
            near if near > width - MARGIN * 2.0 => Anchor::End,
            _ => Anchor::Middle,
        };
        let place = match anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => place,
            Anchor::End => width,
        };
        let text = Text::at(&tick.label, place, AXIS_PX - 3.0, TICK_PX);
        svg.text(&text.anchored(anchor).coloured(MUTED));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::style::Mark;

    fn row(estimate: f64, low: f64, high: f64) -> ForestRow {
        ForestRow {
            label: String::new(),
            estimate,
            low,
            high,
            mark: Mark::Better,
        }
    }

    /// The x coordinate of the estimate of a strip: its path starts at the tip of a triangle.
    fn estimate(strip: &str) -> f64 {
        let path = strip.split("class=\"estimate\" d=\"M").nth(1).unwrap();
        path.split([' ', 'L']).next().unwrap().parse().unwrap()
    }

    #[test]
    fn all_rows_share_one_axis() {
        let chart = ForestChart {
            rows: vec![
                row(-10.0, -12.0, -8.0),
                row(f64::NAN, 0.0, 0.0),
                row(10.0, 8.0, 12.0),
            ],
            ..ForestChart::default()
        };
        let strips = chart.strips(200).unwrap();
        let [Some(first), None, Some(last)] = &strips.rows[..] else {
            panic!("{:?}", strips.rows)
        };
        assert!(
            (estimate(first) + estimate(last) - 200.0).abs() < 0.1,
            "symmetric around the reference"
        );
        assert!(strips.axis.contains(">0</text>"), "{}", strips.axis);
        assert_eq!(ForestChart::default().strips(200), None);
    }

    #[test]
    fn strips_that_share_what_they_have_in_common_show_the_same() {
        let chart = ForestChart {
            band: Some((-2.0, 2.0)),
            rows: vec![row(-10.0, -12.0, -8.0), row(10.0, 8.0, f64::INFINITY)],
            ..ForestChart::default()
        };
        let whole = chart.strips(200).unwrap();
        let shared = chart.strips_sharing(200, "t-1").unwrap();
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
