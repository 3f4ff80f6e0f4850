//! Bars of histograms: two overlaid series, or one row per series, always with the same bins and
//! scale, so that they can be compared.

use crate::axes::{
    Plane, bottom_height, draw_base_line, draw_bottom_axis, draw_left_label, top_strip,
};
use crate::bins::Bins;
use crate::category_labels::CategoryLabels;
use crate::numeral::figure;
use crate::scale::{Extent, Mapping};
use crate::style::Style;
use crate::svg::{Rect, Svg};
use crate::{Axis, Scale};

/// Maximum share of the width for names beside rows.
pub(crate) const NAME_SHARE: f64 = 0.3;

pub(crate) const NAME_GAP: f64 = 12.0;

/// Share of a row that its tallest bar fills.
const ROW_FILLED: f64 = 0.86;

/// Number of values of a series in each bin.
pub(crate) struct Tally<'a> {
    pub name: &'a str,
    /// Label beside its row.
    pub label: &'a str,
    pub style: Style,
    pub counts: Vec<u64>,
    pub total: u64,
    /// Height of a bar per value.
    pub unit: f64,
}

impl Tally<'_> {
    pub fn highest(&self) -> f64 {
        self.counts
            .iter()
            .max()
            .map_or(0.0, |count| *count as f64 * self.unit)
    }

    fn describe(&self, low: f64, high: f64, count: u64) -> String {
        let name = if self.name.is_empty() {
            ""
        } else {
            &format!("{}\n", self.name)
        };
        let (low, high) = (figure(low), figure(high));
        format!("{name}{low} to {high}: {count} of {}", self.total)
    }
}

/// All series of a chart, in the same bins.
pub(crate) struct Plots<'a> {
    pub bins: &'a Bins,
    pub tallies: &'a [Tally<'a>],
    /// Whether heights are percentages of a series or numbers of values.
    pub as_shares: bool,
    pub labels: Labels,
}

impl Plots<'_> {
    /// Draws all series into one plot.
    pub fn draw_overlaid(&self, svg: &mut Svg, sheet: Rect, x: &Axis, extent: Extent) {
        let y = Axis::linear(self.height_label(String::new()));
        let Some(heights) = self.heights() else {
            return;
        };
        let plane = Plane::lay_out(sheet, (x, extent), (&y, heights.padded(0.05)));
        let plane = if self.as_shares {
            plane
        } else {
            plane.of_counts()
        };
        plane.draw_axes(svg);
        let several = self.tallies.len() > 1;
        for tally in self.tallies {
            self.draw_bars(
                svg,
                &plane.x,
                &plane.y,
                tally,
                if several { 0.45 } else { 0.75 },
            );
        }
        // Overlapping areas need outlines; the bars of a single series do not.
        for tally in self.tallies.iter().filter(|_| several) {
            self.draw_outline(svg, &plane.x, &plane.y, tally);
        }
    }

    /// Draws one row per series over a common axis.
    pub fn draw_rows(&self, svg: &mut Svg, sheet: Rect, x: &Axis, extent: Extent) {
        let Some(heights) = self.heights() else {
            return;
        };
        let label = self.height_label(format!(" (highest bar: {})", figure(self.highest())));
        let top = sheet.top + top_strip(&label);
        let bottom = (sheet.bottom - bottom_height(&x.label)).max(top + 8.0);
        let row_px = (bottom - top) / self.tallies.len().max(1) as f64;
        let names: Vec<&str> = self.tallies.iter().map(|tally| tally.label).collect();
        let names = CategoryLabels::beside(&names, row_px, sheet.width() * NAME_SHARE);
        let left = sheet.left + names.width() + NAME_GAP;
        let plot = Rect::new(left, top, sheet.right - 8.0, bottom);
        let along = Mapping::new(x, extent, plot.left, plot.right);
        draw_bottom_axis(svg, sheet, plot, &along, &x.described());
        draw_left_label(svg, sheet, plot, &label);
        names.draw_beside(svg, plot.left - NAME_GAP, |at| {
            plot.top + (at as f64 + 0.6) * row_px
        });
        for (at, tally) in self.tallies.iter().enumerate() {
            let base = plot.top + (at + 1) as f64 * row_px;
            let y = Mapping::new(&Axis::default(), heights, base, base - row_px * ROW_FILLED);
            self.draw_bars(svg, &along, &y, tally, 0.75);
            draw_base_line(svg, (plot.left, base), (plot.right, base));
        }
    }

    /// Label of the heights, unless the surrounding sheet has one.
    fn height_label(&self, addition: String) -> String {
        match self.labels {
            Labels::Own => format!("{}{addition}", height_unit(self.as_shares)),
            Labels::OfSheet => String::new(),
        }
    }

    fn highest(&self) -> f64 {
        self.tallies.iter().map(Tally::highest).fold(0.0, f64::max)
    }

    fn heights(&self) -> Option<Extent> {
        Extent::of_values(&Scale::Linear, [0.0, self.highest()])
    }

    fn draw_bars(&self, svg: &mut Svg, x: &Mapping, y: &Mapping, tally: &Tally<'_>, opacity: f64) {
        let group = svg.group("bars").set("fill", &tally.style.colour());
        group.num("fill-opacity", opacity).containing(|svg| {
            for (bin, count) in tally
                .counts
                .iter()
                .enumerate()
                .filter(|(_, count)| **count > 0)
            {
                let (low, high) = self.bins.ends(bin);
                let (left, right) = (x.at(low), x.at(high));
                let top = y.at(*count as f64 * tally.unit);
                svg.element("rect")
                    .set("class", "bar")
                    .num("x", left)
                    .num("y", top)
                    .num("width", (right - left - 0.6).max(0.4))
                    .num("height", y.start_px() - top)
                    .titled(&tally.describe(low, high, *count));
            }
        });
    }

    /// Draws the steps of a series as a line.
    fn draw_outline(&self, svg: &mut Svg, x: &Mapping, y: &Mapping, tally: &Tally<'_>) {
        let base = y.start_px();
        let mut data = format!("M{:.2} {base:.2}", x.at(self.bins.ends(0).0));
        for (bin, count) in tally.counts.iter().enumerate() {
            let right = x.at(self.bins.ends(bin).1);
            let top = y.at(*count as f64 * tally.unit);
            data.push_str(&format!("V{top:.2}H{right:.2}"));
        }
        data.push_str(&format!("V{base:.2}"));
        svg.element("path")
            .set("class", "outline")
            .set("d", &data)
            .set("fill", "none")
            .set("stroke", &tally.style.colour())
            .num("stroke-width", 1.6)
            .set_some("stroke-dasharray", tally.style.dash())
            .close();
    }
}

/// Where series and axes are labeled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Labels {
    /// In the plot itself.
    Own,
    /// In the sheet around several plots.
    OfSheet,
}

/// Label of the bar heights.
pub(crate) fn height_unit(as_shares: bool) -> &'static str {
    if as_shares {
        "share of values, %"
    } else {
        "number of values"
    }
}
