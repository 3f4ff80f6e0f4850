//! A forest plot taken to pieces: one small drawing per row, all on the same axis, to stand inside the
//! rows of a table whose other columns have the names and the figures.

use crate::draw::{Anchor, MUTED, Medium, Svg, Text, decimal};
use crate::forest_chart::ForestChart;
use crate::forest_plot::{draw_band, draw_reference, draw_row};
use crate::forest_row::ForestRow;
use crate::layout::small_ticks;
use crate::scale::Mapping;

/// Empty pixels at both ends, in which half of a mark has room.
const MARGIN: f64 = 8.0;
const ROW_PX: f64 = 22.0;
const AXIS_PX: f64 = 14.0;
const TICK_PX: f64 = 10.5;

/// The pieces of a forest plot, each SVG text for a page; see
/// [`svg_on_page`](crate::Chart::svg_on_page) for its colours. They have no ids, and no words of their
/// own for those who do not see them: the row must say what they show.
#[derive(Clone, Debug, PartialEq)]
pub struct ForestStrips {
    /// The numbers of the axis.
    pub axis: String,
    /// One drawing per row of the chart; `None` without an estimate.
    pub rows: Vec<Option<String>>,
}

impl ForestChart {
    /// The plot in pieces, each `width_px` wide; `None` when there is nothing to show. Title, labels and
    /// figures are left to the table.
    pub fn strips(&self, width_px: u32) -> Option<ForestStrips> {
        let width = f64::from(width_px);
        let x = Mapping::new(&self.axis(), self.extent()?, MARGIN, width - MARGIN);
        let row = |row: &ForestRow| {
            let shown = row.estimate.is_finite();
            shown.then(|| sheet(width, ROW_PX, |svg| self.strip(svg, row, &x)))
        };
        Some(ForestStrips {
            axis: sheet(width, AXIS_PX, |svg| draw_ticks(svg, &x, width)),
            rows: self.rows.iter().map(row).collect(),
        })
    }

    fn strip(&self, svg: &mut Svg, row: &ForestRow, x: &Mapping) {
        draw_band(svg, self, x, (0.0, ROW_PX));
        draw_reference(svg, self, x, (0.0, ROW_PX));
        draw_row(svg, row, x, (ROW_PX / 2.0, ROW_PX), row.mark.word());
    }
}

fn sheet(width: f64, height: f64, content: impl FnOnce(&mut Svg)) -> String {
    let (wide, high) = (decimal(width), decimal(height));
    let attributes = [
        ("class", "strip"),
        ("width", wide.as_str()),
        ("height", high.as_str()),
        ("viewBox", &format!("0 0 {wide} {high}")),
        ("aria-hidden", "true"),
    ];
    Svg::document(Medium::Page(String::new()), &attributes, content)
}

fn draw_ticks(svg: &mut Svg, x: &Mapping, width: f64) {
    for tick in small_ticks(x, TICK_PX) {
        // A number at the end of the axis is moved inside rather than cut.
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
    use crate::Mark;

    fn row(estimate: f64, low: f64, high: f64) -> ForestRow {
        ForestRow {
            label: String::new(),
            estimate,
            low,
            high,
            mark: Mark::Better,
        }
    }

    /// The x at which the estimate of a strip is drawn: its path begins at the tip of a triangle.
    fn tip(strip: &str) -> f64 {
        let path = strip.split("d=\"M").nth(1).unwrap();
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
            (tip(first) + tip(last) - 200.0).abs() < 0.1,
            "symmetric around the reference"
        );
        assert!(strips.axis.contains(">0</text>"), "{}", strips.axis);
        assert_eq!(ForestChart::default().strips(200), None);
    }
}
