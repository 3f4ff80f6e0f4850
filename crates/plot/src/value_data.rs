//! The values of several series along one axis, shared by histograms and their small multiples:
//! which can be shown, whether as bars or individually, and the extent of the axis.

use crate::axes::{bottom_height, draw_bottom_axis};
use crate::bins::{Bins, Counted, total};
use crate::box_mark::{Tukey, offsets};
use crate::category_labels::CategoryLabels;
use crate::colour::PAPER;
use crate::histogram_bars::{Labels, NAME_GAP, NAME_SHARE, Plots, Tally, height_unit};
use crate::numeral::figure;
use crate::scale::{Extent, Mapping, Projection, can_show};
use crate::style::Style;
use crate::svg::{Rect, Svg};
use crate::{Axis, Scale};

/// Maximum number of series whose bars share a plot.
const MOST_OVERLAID: usize = 2;
/// Up to this many values per series are drawn individually: bins would contain two or three each
/// (the rule of H. Sturges, 1926, would make five bins).
const FEW: u64 = 20;
const ROW_PX: f64 = 90.0;
const STRIP_PX: f64 = 70.0;

/// The values of a histogram.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HistogramSeries {
    /// Name in the legend, or beside the row.
    pub name: String,
    /// Values, in any order.
    pub values: Vec<f64>,
    /// Number of occurrences of each value; if empty, each occurred once.
    pub counts: Vec<u64>,
}

/// A view of the values of a chart.
pub(crate) struct ValueData<'a> {
    /// The axis without category names, which values do not have.
    x: Axis,
    series: &'a [HistogramSeries],
}

impl<'a> ValueData<'a> {
    pub fn new(x: &Axis, series: &'a [HistogramSeries]) -> Self {
        let mut x = x.clone();
        if matches!(x.scale, Scale::Category(_)) {
            x.scale = Scale::Linear;
        }
        Self { x, series }
    }

    pub fn scale(&self) -> &Scale {
        &self.x.scale
    }

    pub fn names(&self) -> Vec<&'a str> {
        self.series
            .iter()
            .map(|series| series.name.as_str())
            .collect()
    }

    pub fn count_shown(&self) -> usize {
        let shown = self.series.iter().map(|series| self.shown(series));
        shown.map(|values| total(&values) as usize).sum()
    }

    pub fn count_omitted(&self) -> usize {
        let all = self.series.iter().flat_map(counted);
        all.map(|of| of.count as usize).sum::<usize>() - self.count_shown()
    }

    /// Whether no series has enough values for bars.
    pub fn are_few(&self) -> bool {
        let most = self.series.iter().map(|series| total(&self.shown(series)));
        most.max().unwrap_or(0) <= FEW
    }

    /// Whether each series has its own row.
    pub fn in_rows(&self) -> bool {
        self.are_few() || self.series.len() > MOST_OVERLAID
    }

    /// Extent of the axis for the values; `None` without values.
    pub fn extent(&self) -> Option<Extent> {
        if self.are_few() {
            let values = self.series.iter().flat_map(|series| self.shown(series));
            let extent = Extent::of_values(self.scale(), values.map(|of| of.value))?;
            return Some(extent.padded(0.04));
        }
        self.bins()?.extent(self.scale())
    }

    /// Draws all series over `extent` of the axis.
    pub fn draw(&self, svg: &mut Svg, area: Rect, extent: Extent, labels: Labels) {
        let mut x = self.x.clone();
        if labels == Labels::OfSheet {
            x.label.clear();
        }
        if self.are_few() {
            let label = &self.x.label;
            return draw_strips(svg, area, (&x, extent), &self.strips(labels), label);
        }
        let Some(bins) = self.bins() else {
            return;
        };
        let plots = Plots {
            bins: &bins,
            tallies: &self.tallies(&bins, labels),
            as_shares: self.as_shares(),
            labels,
        };
        if self.in_rows() {
            plots.draw_rows(svg, area, &x, extent);
        } else {
            plots.draw_overlaid(svg, area, &x, extent);
        }
    }

    /// Unit of the bar heights, if there are bars.
    pub fn height_unit(&self) -> Option<&'static str> {
        (!self.are_few()).then(|| height_unit(self.as_shares()))
    }

    pub fn natural_height(&self) -> f64 {
        let rows = self.series.len() as f64;
        match (self.are_few(), self.in_rows()) {
            (true, _) => rows * STRIP_PX + 60.0,
            (_, true) => rows * ROW_PX + 80.0,
            _ => 480.0,
        }
    }

    fn shown(&self, series: &HistogramSeries) -> Vec<Counted> {
        counted(series)
            .filter(|of| of.count > 0 && can_show(self.scale(), of.value))
            .collect()
    }

    fn bins(&self) -> Option<Bins> {
        let values: Vec<Vec<Counted>> = self
            .series
            .iter()
            .map(|series| self.shown(series))
            .collect();
        Bins::of_series(Projection::of_scale(self.scale()), &values)
    }

    /// Whether heights are percentages: counts of series of different size are not comparable.
    fn as_shares(&self) -> bool {
        let mut sizes = self.series.iter().map(|series| total(&self.shown(series)));
        let first = sizes.next();
        sizes.any(|size| Some(size) != first)
    }

    /// Bars of all series, with comparable heights.
    fn tallies(&self, bins: &Bins, labels: Labels) -> Vec<Tally<'_>> {
        let as_shares = self.as_shares();
        let tally = |(at, series): (usize, &'a HistogramSeries)| {
            let values = self.shown(series);
            let total = total(&values);
            let unit = if as_shares {
                100.0 / total.max(1) as f64
            } else {
                1.0
            };
            Tally {
                name: &series.name,
                label: label(series, labels),
                style: Style::of_series(at),
                counts: bins.counts(&values),
                total,
                unit,
            }
        };
        self.series.iter().enumerate().map(tally).collect()
    }

    fn strips(&self, labels: Labels) -> Vec<Strip<'a>> {
        let strip = |(at, series): (usize, &'a HistogramSeries)| {
            let shown = self.shown(series);
            let each = |of: &Counted| vec![of.value; of.count as usize];
            let mut values: Vec<f64> = shown.iter().flat_map(each).collect();
            values.sort_by(f64::total_cmp);
            Strip {
                name: &series.name,
                label: label(series, labels),
                style: Style::of_series(at),
                values,
            }
        };
        self.series.iter().enumerate().map(strip).collect()
    }
}

/// Label beside the row of a series.
fn label(series: &HistogramSeries, labels: Labels) -> &str {
    match labels {
        Labels::Own => &series.name,
        Labels::OfSheet => "",
    }
}

/// Each value with its number of occurrences.
fn counted(series: &HistogramSeries) -> impl Iterator<Item = Counted> + '_ {
    let count = |at: usize| {
        if series.counts.is_empty() {
            1
        } else {
            series.counts.get(at).copied().unwrap_or(0)
        }
    };
    let values = series.values.iter().enumerate();
    values.map(move |(at, value)| Counted {
        value: *value,
        count: count(at),
    })
}

// Few values of each series as dots along one axis: a row per series, with a line at its median.

/// Shares of a row height for the spread of the dots, and for the median line.
const SPREAD: f64 = 0.4;
const MEDIAN: f64 = 0.7;
/// Maximum radius of a dot, and minimum in a low row.
const LARGEST_PX: f64 = 4.4;
const SMALLEST_PX: f64 = 2.2;

/// The values of a series.
pub(crate) struct Strip<'a> {
    pub name: &'a str,
    /// Label beside its row.
    pub label: &'a str,
    pub style: Style,
    /// In ascending order.
    pub values: Vec<f64>,
}

/// Draws a row for each of `strips`; tooltips name the values by `quantity`.
pub(crate) fn draw_strips(
    svg: &mut Svg,
    sheet: Rect,
    (x, extent): (&Axis, Extent),
    strips: &[Strip<'_>],
    quantity: &str,
) {
    let bottom = (sheet.bottom - bottom_height(&x.label)).max(sheet.top + 8.0);
    let row_px = (bottom - sheet.top) / strips.len().max(1) as f64;
    let labels: Vec<&str> = strips.iter().map(|strip| strip.label).collect();
    let named = labels.iter().any(|label| !label.trim().is_empty());
    let names = CategoryLabels::beside(&labels, row_px, sheet.width() * NAME_SHARE);
    let aside = if named { names.width() + NAME_GAP } else { 8.0 };
    let plot = Rect::new(sheet.left + aside, sheet.top, sheet.right - 8.0, bottom);
    let along = Mapping::new(x, extent, plot.left, plot.right);
    draw_bottom_axis(svg, sheet, plot, &along, &x.described());
    let middle = |at: usize| plot.top + (at as f64 + 0.5) * row_px;
    if named {
        names.draw_beside(svg, plot.left - NAME_GAP, middle);
    }
    for (at, strip) in strips.iter().enumerate() {
        draw_strip(svg, &along, strip, (middle(at), row_px), quantity);
    }
}

fn draw_strip(
    svg: &mut Svg,
    along: &Mapping,
    strip: &Strip<'_>,
    (middle, row_px): (f64, f64),
    quantity: &str,
) {
    let Some(tukey) = Tukey::of_sorted(&strip.values) else {
        return;
    };
    let colour = strip.style.colour();
    let (x, half) = (along.at(tukey.median), row_px * MEDIAN / 2.0);
    svg.line((x, middle - half), (x, middle + half))
        .set("class", "median")
        .set("stroke", &colour)
        .num("stroke-width", 1.6)
        .close();
    let radius = (row_px / 9.0).clamp(SMALLEST_PX, LARGEST_PX);
    let group = svg
        .group("points")
        .set("fill", &colour)
        .num("fill-opacity", 0.8)
        .set("stroke", PAPER)
        .num("stroke-width", 0.7);
    group.containing(|svg| {
        for (value, offset) in strip.values.iter().zip(offsets(&strip.values)) {
            let y = middle + offset * row_px * SPREAD;
            let outline = strip.style.marker().path(along.at(*value), y, radius);
            svg.element("path")
                .set("class", "point")
                .set("d", &outline)
                .titled(&describe(strip, quantity, *value));
        }
    });
}

fn describe(strip: &Strip<'_>, quantity: &str, value: f64) -> String {
    let name = match strip.name.trim() {
        "" => String::new(),
        name => format!("{name}\n"),
    };
    match quantity.trim() {
        "" => format!("{name}{}", figure(value)),
        quantity => format!("{name}{quantity}: {}", figure(value)),
    }
}
