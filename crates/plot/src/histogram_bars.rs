//! Draws the bars of histograms. A single series, or two overlaid series, are drawn in one plot;
//! more series get one row each. All series have the same bins and scale, so they can be compared.

use crate::axes::{
    PointPlane, bottom_height, draw_base_line, draw_bottom_axis, draw_left_label, top_strip_height,
};
use crate::bins::HistogramBins;
use crate::category_labels::CategoryLabels;
use crate::numeral::format_figure;
use crate::scale::{AxisExtent, AxisMapping};
use crate::style::SeriesStyle;
use crate::svg::{PixelRect, SvgWriter};
use crate::{AxisScale, ChartAxis};

/// Maximum fraction of the width for the names of rows.
pub(crate) const NAME_SHARE: f64 = 0.3;

pub(crate) const NAME_GAP: f64 = 12.0;

/// Fraction of the height of a row that the tallest bar of the chart fills.
const FILLED_ROW_SHARE: f64 = 0.86;

/// Number of values of a series in each bin.
pub(crate) struct SeriesTally<'a> {
    pub name: &'a str,
    /// Label of the series' row.
    pub label: &'a str,
    pub style: SeriesStyle,
    pub counts: Vec<u64>,
    pub total: u64,
    /// Height that one value adds to a bar.
    pub unit: f64,
}

impl SeriesTally<'_> {
    pub fn tallest_bar(&self) -> f64 {
        self.counts.iter().max().map_or(0.0, |count| *count as f64 * self.unit)
    }

    fn bar_tooltip(&self, low: f64, high: f64, count: u64) -> String {
        let name = if self.name.is_empty() { "" } else { &format!("{}\n", self.name) };
        let (low, high) = (format_figure(low), format_figure(high));
        format!("{name}{low} to {high}: {count} of {}", self.total)
    }
}

/// All series of a chart, in the same bins.
pub(crate) struct HistogramPlots<'a> {
    pub bins: &'a HistogramBins,
    pub tallies: &'a [SeriesTally<'a>],
    /// Whether heights are percentages of a series instead of numbers of values.
    pub as_shares: bool,
    pub labels: LabelPlacement,
}

impl HistogramPlots<'_> {
    /// Draws all series into one plot.
    pub fn draw_overlaid(
        &self,
        svg: &mut SvgWriter,
        sheet: PixelRect,
        x: &ChartAxis,
        extent: AxisExtent,
    ) {
        let y = ChartAxis::linear(self.height_label(String::new()));
        let Some(heights) = self.height_extent() else {
            return;
        };
        let plane = PointPlane::lay_out(sheet, (x, extent), (&y, heights.with_padding(0.05)));
        let plane = if self.as_shares { plane } else { plane.with_whole_y() };
        plane.draw_axes(svg);
        let is_overlaid = self.tallies.len() > 1;
        for tally in self.tallies {
            self.draw_bars(svg, &plane.x, &plane.y, tally, if is_overlaid { 0.45 } else { 0.75 });
        }
        // Overlapping areas need outlines. The bars of a single series do not.
        for tally in self.tallies.iter().filter(|_| is_overlaid) {
            self.draw_outline(svg, &plane.x, &plane.y, tally);
        }
    }

    /// Draws one row per series over a common axis.
    pub fn draw_rows(
        &self,
        svg: &mut SvgWriter,
        sheet: PixelRect,
        x: &ChartAxis,
        extent: AxisExtent,
    ) {
        let Some(heights) = self.height_extent() else {
            return;
        };
        let label = self.height_label(format!(" (highest bar: {})", format_figure(self.highest())));
        let top = sheet.top + top_strip_height(&label);
        let bottom = (sheet.bottom - bottom_height(&x.label)).max(top + 8.0);
        let row_px = (bottom - top) / self.tallies.len().max(1) as f64;
        let names: Vec<&str> = self.tallies.iter().map(|tally| tally.label).collect();
        let names = CategoryLabels::beside_bands(&names, row_px, sheet.width() * NAME_SHARE);
        let left = sheet.left + names.widest_px() + NAME_GAP;
        let plot = PixelRect::new(left, top, sheet.right - 8.0, bottom);
        let x_mapping = AxisMapping::new(x, extent, plot.left, plot.right);
        draw_bottom_axis(svg, sheet, plot, &x_mapping, &x.full_label());
        draw_left_label(svg, sheet, plot, &label);
        names.draw_beside(svg, plot.left - NAME_GAP, |index| {
            plot.top + (index as f64 + 0.6) * row_px
        });
        for (index, tally) in self.tallies.iter().enumerate() {
            let base = plot.top + (index + 1) as f64 * row_px;
            let y = AxisMapping::new(
                &ChartAxis::default(),
                heights,
                base,
                base - row_px * FILLED_ROW_SHARE,
            );
            self.draw_bars(svg, &x_mapping, &y, tally, 0.75);
            draw_base_line(svg, (plot.left, base), (plot.right, base));
        }
    }

    /// Label of the heights; empty if the sheet has one.
    fn height_label(&self, addition: String) -> String {
        match self.labels {
            LabelPlacement::Own => format!("{}{addition}", height_unit(self.as_shares)),
            LabelPlacement::OfSheet => String::new(),
        }
    }

    fn highest(&self) -> f64 {
        self.tallies.iter().map(SeriesTally::tallest_bar).fold(0.0, f64::max)
    }

    fn height_extent(&self) -> Option<AxisExtent> {
        AxisExtent::of_values(&AxisScale::Linear, [0.0, self.highest()])
    }

    fn draw_bars(
        &self,
        svg: &mut SvgWriter,
        x: &AxisMapping,
        y: &AxisMapping,
        tally: &SeriesTally<'_>,
        opacity: f64,
    ) {
        let group = svg.start_group("bars").set_text("fill", &tally.style.color());
        group.set_number("fill-opacity", opacity).end_with(|svg| {
            for (bin, count) in tally.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
                let (low, high) = self.bins.bin_ends(bin);
                let (left, right) = (x.pixel_at(low), x.pixel_at(high));
                let top = y.pixel_at(*count as f64 * tally.unit);
                svg.start_element("rect")
                    .set_text("class", "bar")
                    .set_number("x", left)
                    .set_number("y", top)
                    .set_number("width", (right - left - 0.6).max(0.4))
                    .set_number("height", y.start_px() - top)
                    .end_with_tooltip(&tally.bar_tooltip(low, high, *count));
            }
        });
    }

    /// Draws the steps of a series as a line.
    fn draw_outline(
        &self,
        svg: &mut SvgWriter,
        x: &AxisMapping,
        y: &AxisMapping,
        tally: &SeriesTally<'_>,
    ) {
        let base = y.start_px();
        let mut data = format!("M{:.2} {base:.2}", x.pixel_at(self.bins.bin_ends(0).0));
        for (bin, count) in tally.counts.iter().enumerate() {
            let right = x.pixel_at(self.bins.bin_ends(bin).1);
            let top = y.pixel_at(*count as f64 * tally.unit);
            data.push_str(&format!("V{top:.2}H{right:.2}"));
        }
        data.push_str(&format!("V{base:.2}"));
        svg.start_element("path")
            .set_text("class", "outline")
            .set_text("d", &data)
            .set_text("fill", "none")
            .set_text("stroke", &tally.style.color())
            .set_number("stroke-width", 1.6)
            .set_nonempty("stroke-dasharray", tally.style.dash())
            .end_empty();
    }
}

/// Where series and axes are labeled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LabelPlacement {
    /// In the plot itself.
    Own,
    /// In the sheet around several plots.
    OfSheet,
}

/// Label of the bar heights.
pub(crate) fn height_unit(as_shares: bool) -> &'static str {
    if as_shares { "share of values, %" } else { "number of values" }
}
