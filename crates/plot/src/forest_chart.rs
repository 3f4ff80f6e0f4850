//! Draws a forest plot. Every row shows one estimate with its interval, against a common reference
//! line. A column at the right lists the numbers, so the chart can also be read as a table.
//!
//! A table can also embed the plot in pieces, with one small drawing per row. Other columns of the
//! table hold the names and numbers.

use crate::axes::{LABEL_PX, MIN_LABEL_PX, bottom_height, small_ticks, wanted_height};
use crate::axis::{AxisExtent, AxisMapping};
use crate::banded::{RowMargins, RowPlot};
use crate::format::{format_count, format_fixed, format_range, join_names};
use crate::sheet::{ChartHeader, LegendKey, LegendSwatch, SheetContent, omitted_note};
use crate::style::VerdictMark;
use crate::svg::{
    AXIS, BAND, INK, MUTED, OutputMedium, PixelRect, SvgWriter, TextAnchor, format_decimal,
};
use crate::text::{CAP_HEIGHT, reserved_width};
use crate::{AxisScale, ChartAxis};

const FIGURES_PX: f64 = 12.0;
const ROW_PX: f64 = 26.0;
/// Height of the header line of the column of numbers.
const HEAD_PX: f64 = 22.0;
/// Gap between the columns of the chart.
const COLUMN_GAP: f64 = 14.0;
const MARGINS: RowMargins =
    RowMargins { top: HEAD_PX, right: 0.0, label_share: 0.4, label_gap: COLUMN_GAP };

/// A forest plot: estimates with intervals, one per row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ForestChart {
    /// Title, in large letters.
    pub title: String,
    /// Subtitle.
    pub subtitle: Option<String>,
    /// Label of the estimates, with the unit and the better direction.
    pub x_label: String,
    /// Whether the estimates are changes in percent. If any estimate is beyond a halving or a
    /// doubling, all changes are placed by their ratio: on a linear axis, the largest change would
    /// squeeze the others.
    pub percent: bool,
    /// Position of the reference line, which means no difference.
    pub reference: f64,
    /// Range of negligible differences, which is shaded.
    pub band: Option<(f64, f64)>,
    /// Rows, from top to bottom.
    pub rows: Vec<ForestRow>,
}

/// An estimate with its interval. The verdict is shown twice, by the shape and by the color of the
/// mark.
#[derive(Clone, Debug, PartialEq)]
pub struct ForestRow {
    /// Label at the left; a line break separates name and description.
    pub label: String,
    /// The estimate.
    pub estimate: f64,
    /// Lower end of the interval; minus infinity if open.
    pub low: f64,
    /// Upper end of the interval; infinity if open.
    pub high: f64,
    /// Verdict of the interval.
    pub mark: VerdictMark,
}

impl ForestRow {
    fn has_interval(&self) -> bool {
        !self.low.is_nan() && !self.high.is_nan()
    }

    /// Formats the row as `1.02 [0.99, 1.05]`, each figure followed by the unit.
    fn format_figures(&self, decimals: usize, unit: &str) -> String {
        let [estimate, low, high] = [self.estimate, self.low, self.high]
            .map(|value| format!("{}{unit}", format_fixed(value, decimals)));
        match (self.estimate.is_finite(), self.has_interval()) {
            (false, _) => "no estimate".into(),
            (true, false) => estimate,
            (true, true) => format!("{estimate} [{low}, {high}]"),
        }
    }
}

impl ForestChart {
    fn finite_rows(&self) -> impl Iterator<Item = &ForestRow> {
        self.rows.iter().filter(|row| row.estimate.is_finite())
    }

    fn labels(&self) -> Vec<&str> {
        self.rows.iter().map(|row| row.label.as_str()).collect()
    }

    fn axis(&self) -> ChartAxis {
        let is_far = |row: &ForestRow| !(-50.0..=100.0).contains(&row.estimate);
        let is_wide = self.percent && self.finite_rows().any(is_far);
        let scale = if is_wide { AxisScale::Change } else { AxisScale::Linear };
        ChartAxis { label: self.x_label.clone(), scale, names: Vec::new() }
    }

    /// Extent of the axis, from the lowest to the highest end of an interval. It reaches at most
    /// four median half-widths beyond the outermost estimates, so a single wide interval does not
    /// squeeze the others. A longer interval is cut off and ends in an arrow. The extent always
    /// includes the band and the reference line.
    fn extent(&self) -> Option<AxisExtent> {
        let scale = self.axis().scale;
        let estimates = AxisExtent::of_values(scale, self.finite_rows().map(|row| row.estimate))?;
        let projected = |value: f64| estimates.projection.project(value);
        let half_width =
            |row: &ForestRow| Some((projected(row.high)? - projected(row.low)?).abs() / 2.0);
        let mut half_widths: Vec<f64> = self.finite_rows().filter_map(half_width).collect();
        half_widths.sort_by(f64::total_cmp);
        let median = half_widths.get(half_widths.len() / 2).copied().unwrap_or(0.0);
        let (lowest, highest) = (estimates.low - 4.0 * median, estimates.high + 4.0 * median);
        let bounds = self.finite_rows().flat_map(|row| [row.low, row.high]);
        let ends = bounds.filter_map(projected).map(|end| end.clamp(lowest, highest));
        let extent = ends.fold(estimates, AxisExtent::extended_to_projected);
        let band = self.band.into_iter().flat_map(|(low, high)| [low, high]);
        let extent = band.chain([self.reference]).fold(extent, AxisExtent::extended_to);
        Some(extent.padded_across(0.04))
    }

    /// Number of decimals at which a typical interval has two significant digits.
    fn figure_decimals(&self) -> usize {
        let mut widths: Vec<_> = self.finite_rows().map(|row| (row.high - row.low).abs()).collect();
        widths.retain(|width| width.is_finite() && *width > 0.0);
        widths.sort_by(f64::total_cmp);
        let width = widths.get(widths.len() / 2).copied().unwrap_or(1.0);
        (1.0 - width.log10().floor()).clamp(0.0, 9.0) as usize
    }

    /// Shades the range of negligible differences from `top` to `bottom`.
    fn draw_band(&self, svg: &mut SvgWriter, x: &AxisMapping, (top, bottom): (f64, f64)) {
        let Some((low, high)) = self.band else { return };
        let (low_px, high_px) = (x.pixel_at(low), x.pixel_at(high));
        let (left, right) = (low_px.min(high_px), low_px.max(high_px));
        svg.start_rect("band", PixelRect { left, top, right, bottom })
            .set_text("fill", BAND)
            .end_with_tooltip(&format_range(low, high));
    }

    fn draw_reference(&self, svg: &mut SvgWriter, x: &AxisMapping, (top, bottom): (f64, f64)) {
        let reference = x.pixel_at(self.reference);
        let line = svg.start_line("reference", (reference, top), (reference, bottom));
        line.set_stroke(AXIS, 1.5).end_empty();
    }

    /// Draws the column of numbers. If the rows are not tall enough, draws the numbers of only
    /// every second row, every third row, and so on.
    fn draw_figures(&self, svg: &mut SvgWriter, rows: &RowPlot, right: f64, figures: &[String]) {
        let fitting_px = FIGURES_PX.min(rows.row_px * 0.9);
        let stride = (MIN_LABEL_PX / fitting_px).ceil().max(1.0) as usize;
        let size_px = fitting_px.max(MIN_LABEL_PX);
        svg.start_group("figures").end_with(|svg| {
            let at = (right, rows.plot.top - 8.0);
            svg.write_text("estimate [interval]", at, 11.0, TextAnchor::End, MUTED);
            for (index, figures) in figures.iter().enumerate().step_by(stride) {
                let baseline = rows.row_y(index, 0.5) + size_px * CAP_HEIGHT / 2.0;
                let colour = if self.rows[index].estimate.is_finite() { INK } else { MUTED };
                svg.write_text(figures, (right, baseline), size_px, TextAnchor::End, colour);
            }
        });
    }
}

impl SheetContent for ForestChart {
    fn header(&self) -> ChartHeader<'_> {
        let is_used = |mark: &VerdictMark| self.finite_rows().any(|row| row.mark == *mark);
        let key = |mark: VerdictMark| LegendKey::new(mark.word(), LegendSwatch::Forest(mark));
        let legend = VerdictMark::ALL.into_iter().filter(is_used).map(key).collect();
        let note = omitted_note(self.rows.len() - self.finite_rows().count(), &[]);
        ChartHeader { title: &self.title, subtitle: self.subtitle.as_deref(), note, legend }
    }

    fn summary(&self) -> String {
        let verdicts = VerdictMark::ALL.map(|mark| {
            let rows = self.finite_rows().filter(|row| row.mark == mark).count();
            format!("{rows} {}", mark.word())
        });
        let rows = format_count(self.rows.len(), "row", "s");
        let labels = join_names(&self.labels());
        format!("Forest plot of {rows}: {}. Rows: {labels}.", verdicts.join(", "))
    }

    fn is_empty(&self) -> bool {
        self.finite_rows().next().is_none()
    }

    fn draw(&self, svg: &mut SvgWriter, area: PixelRect) {
        let Some(extent) = self.extent() else { return };
        let decimals = self.figure_decimals();
        let unit = if self.percent { "%" } else { "" };
        let figures: Vec<String> =
            self.rows.iter().map(|row| row.format_figures(decimals, unit)).collect();
        let rows = RowPlot::lay_out(area, (&self.axis(), extent), &self.labels(), MARGINS);
        let widths = figures.iter().map(|text| reserved_width(text, FIGURES_PX));
        let widest = widths.fold(0.0, f64::max);
        // The column of numbers is omitted if it would leave too little room for the plot. The
        // tooltips also contain the numbers.
        let has_column = widest < rows.plot.width() * 0.5;
        let rows =
            if has_column { rows.with_right(area.right - widest - COLUMN_GAP) } else { rows };
        let span = (rows.plot.top, rows.plot.bottom);
        self.draw_band(svg, &rows.x, span);
        rows.draw_axis(svg);
        self.draw_reference(svg, &rows.x, span);
        rows.draw_labels(svg, 0.5);
        for (index, (row, figures)) in self.rows.iter().zip(&figures).enumerate() {
            if row.estimate.is_finite() {
                let tooltip = format!("{}: {figures}, {}", row.label, row.mark.word());
                draw_row(svg, row, &rows.x, (rows.row_y(index, 0.5), rows.row_px), &tooltip);
            }
        }
        if has_column {
            self.draw_figures(svg, &rows, area.right, &figures);
        }
    }

    fn natural_height(&self, width: f64) -> f64 {
        let column = width * MARGINS.label_share;
        let heights = self.rows.iter().map(|row| wanted_height(&row.label, column));
        let row_px = heights.fold(ROW_PX, f64::max);
        row_px * self.rows.len() as f64 + HEAD_PX + bottom_height(&self.x_label)
    }
}

/// Draws the mark and interval of a row, centered in a row of the given height.
fn draw_row(
    svg: &mut SvgWriter,
    row: &ForestRow,
    x: &AxisMapping,
    (y, row_px): (f64, f64),
    tooltip: &str,
) {
    let radius = mark_radius(row_px);
    let colour = row.mark.color();
    svg.start_group("row").set_text("stroke", colour).set_text("fill", colour).end_with(|svg| {
        if row.has_interval() {
            let width = if row_px > 8.0 { 2.2 } else { 1.0 };
            let (low, high) = (x.pixel_at(row.low), x.pixel_at(row.high));
            let line = svg.start_line("interval", (low, y), (high, y));
            line.set_number("stroke-width", width).end_empty();
            for (end, at, direction) in [(row.low, low, -1.0), (row.high, high, 1.0)] {
                if x.contains_value(end) {
                    let half_px = radius * 0.7;
                    let cap = svg.start_line("cap", (at, y - half_px), (at, y + half_px));
                    cap.set_number("stroke-width", 1.4).end_empty();
                } else {
                    draw_arrow(svg, (at, y), direction, radius);
                }
            }
        }
        row.mark.draw(svg, x.pixel_at(row.estimate), y, radius, Some(tooltip));
    });
}

/// Radius of a mark in a row of the given height.
fn mark_radius(row_px: f64) -> f64 {
    (row_px * 0.3).clamp(1.6, LABEL_PX * 0.44)
}

/// Draws an arrow at the end of an interval that continues beyond the plot.
fn draw_arrow(svg: &mut SvgWriter, (x, y): (f64, f64), direction: f64, radius: f64) {
    let back = x - direction * radius * 1.6;
    svg.start_corners("polygon", "open", [(x, y), (back, y - radius), (back, y + radius)])
        .set_text("stroke", "none")
        .end_empty();
}

// The pieces of a forest plot for the rows of a table. All pieces share an axis.

/// Margin at both ends, so that a mark at an end of the axis is not cut off.
const STRIP_MARGIN: f64 = 8.0;
const STRIP_PX: f64 = 22.0;
const STRIP_AXIS_PX: f64 = 14.0;
const STRIP_TICK_PX: f64 = 10.5;
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
    /// Renders the plot in pieces of width `width_px`; `None` if there is nothing to show. The table
    /// provides title, labels and numbers. Without the ID of the table, the pieces are
    /// self-contained and contain no IDs. With the ID, the output is only about a third as long: the
    /// axis defines the common parts of all rows, with an ID that starts with `table`, and the page
    /// styles lines and marks by the classes `better`, `worse`, `same`, `unclear`, `interval` and
    /// `estimate`.
    pub fn render_strips(&self, width_px: u32, table: Option<&str>) -> Option<ForestStrips> {
        let width = f64::from(width_px);
        let ends = (STRIP_MARGIN, width - STRIP_MARGIN);
        let x = AxisMapping::new(&self.axis(), self.extent()?, ends.0, ends.1);
        let piece = |height: f64, content: &dyn Fn(&mut SvgWriter)| {
            let medium = OutputMedium::Page(table.unwrap_or_default().to_owned());
            let attributes = [("aria-hidden", "true")];
            SvgWriter::write_document(medium, "strip", (width, height), &attributes, content)
        };
        let draw_background = |svg: &mut SvgWriter| {
            self.draw_band(svg, &x, (0.0, STRIP_PX));
            self.draw_reference(svg, &x, (0.0, STRIP_PX));
        };
        let axis = piece(STRIP_AXIS_PX, &|svg: &mut SvgWriter| {
            if table.is_some() {
                svg.start_element("defs").end_with(|svg| {
                    svg.start_element("g").set_text("id", BACKGROUND).end_with(draw_background);
                });
            }
            draw_strip_ticks(svg, &x, width);
        });
        let strip = |row: &ForestRow| {
            let draw = |svg: &mut SvgWriter| {
                if table.is_some() {
                    return draw_shared_strip(svg, row, &x);
                }
                draw_background(svg);
                draw_row(svg, row, &x, (STRIP_PX / 2.0, STRIP_PX), row.mark.word());
            };
            row.estimate.is_finite().then(|| piece(STRIP_PX, &draw))
        };
        Some(ForestStrips { axis, rows: self.rows.iter().map(strip).collect() })
    }
}

fn draw_shared_strip(svg: &mut SvgWriter, row: &ForestRow, x: &AxisMapping) {
    let (y, radius) = (STRIP_PX / 2.0, mark_radius(STRIP_PX));
    svg.start_element("use").set_text("href", &format!("#{BACKGROUND}")).end_empty();
    svg.start_group(row.mark.word()).end_with(|svg| {
        if row.has_interval() {
            let (low, high) = (x.pixel_at(row.low), x.pixel_at(row.high));
            let mut path = format!("M{} {y}H{}", format_decimal(low), format_decimal(high));
            for (end, end_x, direction) in [(row.low, low, -1.0), (row.high, high, 1.0)] {
                if x.contains_value(end) {
                    path += &format!("M{} {}v8", format_decimal(end_x), y - 4.0);
                } else {
                    draw_arrow(svg, (end_x, y), direction, radius);
                }
            }
            svg.start_path("interval", &path).end_empty();
        }
        let shape = row.mark.marker().path(x.pixel_at(row.estimate), y, radius);
        svg.start_path("estimate", &shape).end_empty();
    });
}

fn draw_strip_ticks(svg: &mut SvgWriter, x: &AxisMapping, width: f64) {
    for tick in small_ticks(x, STRIP_TICK_PX) {
        // Shift the labels at both ends of the axis inward, so they are not cut off.
        let x_px = x.pixel_at(tick.value);
        let (x_px, anchor) = match x_px {
            x_px if x_px < STRIP_MARGIN * 2.0 => (0.0, TextAnchor::Start),
            x_px if x_px > width - STRIP_MARGIN * 2.0 => (width, TextAnchor::End),
            _ => (x_px, TextAnchor::Middle),
        };
        svg.write_text(&tick.label, (x_px, STRIP_AXIS_PX - 3.0), STRIP_TICK_PX, anchor, MUTED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let strips = chart.render_strips(200, None).unwrap();
        let [Some(first), None, Some(last)] = &strips.rows[..] else { panic!("{:?}", strips.rows) };
        assert!(
            (estimate(first) + estimate(last) - 200.0).abs() < 0.1,
            "symmetric around the reference"
        );
        assert!(strips.axis.contains(">0</text>"), "{}", strips.axis);
        assert_eq!(ForestChart::default().render_strips(200, None), None);
    }

    #[test]
    fn changes_have_a_unit_and_an_axis_by_ratio_says_so() {
        let far = ForestChart {
            percent: true,
            x_label: "change in %".into(),
            rows: vec![row(-85.0, -89.0, -80.0)],
            ..ForestChart::default()
        };
        assert_eq!(far.rows[0].format_figures(0, "%"), "−85% [−89%, −80%]");
        assert_eq!(far.axis().full_label(), "change in % (logarithmic)");
        let near = ForestChart { rows: vec![row(5.0, 4.0, 6.0)], ..far };
        assert_eq!(near.axis().full_label(), "change in %");
    }

    #[test]
    fn strips_with_a_shared_background_show_the_same_estimates() {
        let chart = ForestChart {
            band: Some((-2.0, 2.0)),
            rows: vec![row(-10.0, -12.0, -8.0), row(10.0, 8.0, f64::INFINITY)],
            ..ForestChart::default()
        };
        let whole = chart.render_strips(200, None).unwrap();
        let shared = chart.render_strips(200, Some("t-1")).unwrap();
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
