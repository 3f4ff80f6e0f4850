//! Draws the values of several series along one axis, for histograms and their small multiples.
//! Decides which values can be shown, whether they are shown as bars or individually, and how far
//! the axis extends.

use crate::axes::{bottom_height, draw_bottom_axis};
use crate::bins::{CountedValue, HistogramBins, total_count};
use crate::box_mark::{TukeyStats, point_offsets};
use crate::category_labels::CategoryLabels;
use crate::color::PAPER;
use crate::histogram_bars::{
    HistogramPlots, LabelPlacement, NAME_GAP, NAME_SHARE, SeriesTally, height_unit,
};
use crate::numeral::format_figure;
use crate::scale::{AxisExtent, AxisMapping, ScaleProjection, can_show};
use crate::style::SeriesStyle;
use crate::svg::{PixelRect, SvgWriter};
use crate::{AxisScale, ChartAxis};

/// Maximum number of series whose bars share a plot.
const MAX_OVERLAID: usize = 2;
/// If no series has more values than this, all values are drawn individually: bins would contain
/// few values each. For 20 values, the rule of H. Sturges (1926) makes about five bins.
const MAX_INDIVIDUAL: u64 = 20;
const ROW_PX: f64 = 90.0;
const STRIP_PX: f64 = 70.0;

/// The values of a histogram.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HistogramSeries {
    /// Name in the legend, or in front of the row.
    pub name: String,
    /// Values, in any order.
    pub values: Vec<f64>,
    /// Number of occurrences of each value. If empty, each value occurred once.
    pub counts: Vec<u64>,
}

/// A view of the values of a chart.
pub(crate) struct ValueData<'a> {
    /// The axis of the values. It is never a category axis, because values have no category names.
    x: ChartAxis,
    series: &'a [HistogramSeries],
}

impl<'a> ValueData<'a> {
    pub fn new(x: &ChartAxis, series: &'a [HistogramSeries]) -> Self {
        let mut x = x.clone();
        if matches!(x.scale, AxisScale::Category(_)) {
            x.scale = AxisScale::Linear;
        }
        Self { x, series }
    }

    pub fn scale(&self) -> &AxisScale {
        &self.x.scale
    }

    pub fn names(&self) -> Vec<&'a str> {
        self.series.iter().map(|series| series.name.as_str()).collect()
    }

    pub fn count_shown(&self) -> usize {
        let shown = self.series.iter().map(|series| self.shown_values(series));
        shown.map(|values| total_count(&values) as usize).sum()
    }

    pub fn count_omitted(&self) -> usize {
        let values = self.series.iter().flat_map(counted_values);
        values.map(|counted| counted.count as usize).sum::<usize>() - self.count_shown()
    }

    /// Whether no series has enough values for bars.
    pub fn has_few_values(&self) -> bool {
        let counts = self.series.iter().map(|series| total_count(&self.shown_values(series)));
        counts.max().unwrap_or(0) <= MAX_INDIVIDUAL
    }

    /// Whether each series has its own row.
    pub fn uses_rows(&self) -> bool {
        self.has_few_values() || self.series.len() > MAX_OVERLAID
    }

    /// Extent of the axis for the values; `None` without values.
    pub fn extent(&self) -> Option<AxisExtent> {
        if self.has_few_values() {
            let values = self.series.iter().flat_map(|series| self.shown_values(series));
            let extent = AxisExtent::of_values(self.scale(), values.map(|counted| counted.value))?;
            return Some(extent.with_padding(0.04));
        }
        self.value_bins()?.extent(self.scale())
    }

    /// Draws all series over `extent` of the axis.
    pub fn draw(
        &self,
        svg: &mut SvgWriter,
        area: PixelRect,
        extent: AxisExtent,
        labels: LabelPlacement,
    ) {
        let mut x = self.x.clone();
        if labels == LabelPlacement::OfSheet {
            x.label.clear();
        }
        if self.has_few_values() {
            let label = &self.x.label;
            return draw_strips(svg, area, (&x, extent), &self.value_strips(labels), label);
        }
        let Some(bins) = self.value_bins() else {
            return;
        };
        let plots = HistogramPlots {
            bins: &bins,
            tallies: &self.series_tallies(&bins, labels),
            as_shares: self.as_shares(),
            labels,
        };
        if self.uses_rows() {
            plots.draw_rows(svg, area, &x, extent);
        } else {
            plots.draw_overlaid(svg, area, &x, extent);
        }
    }

    /// Unit of the bar heights, if there are bars.
    pub fn height_unit(&self) -> Option<&'static str> {
        (!self.has_few_values()).then(|| height_unit(self.as_shares()))
    }

    pub fn natural_height(&self) -> f64 {
        let rows = self.series.len() as f64;
        match (self.has_few_values(), self.uses_rows()) {
            (true, _) => rows * STRIP_PX + 60.0,
            (_, true) => rows * ROW_PX + 80.0,
            _ => 480.0,
        }
    }

    fn shown_values(&self, series: &HistogramSeries) -> Vec<CountedValue> {
        counted_values(series)
            .filter(|counted| counted.count > 0 && can_show(self.scale(), counted.value))
            .collect()
    }

    fn value_bins(&self) -> Option<HistogramBins> {
        let values: Vec<Vec<CountedValue>> =
            self.series.iter().map(|series| self.shown_values(series)).collect();
        HistogramBins::of_series(ScaleProjection::of_scale(self.scale()), &values)
    }

    /// Whether bar heights are percentages: if the series differ in size, counts are not
    /// comparable.
    fn as_shares(&self) -> bool {
        let mut sizes = self.series.iter().map(|series| total_count(&self.shown_values(series)));
        let first = sizes.next();
        sizes.any(|size| Some(size) != first)
    }

    /// Bars of all series, with comparable heights.
    fn series_tallies(&self, bins: &HistogramBins, labels: LabelPlacement) -> Vec<SeriesTally<'_>> {
        let as_shares = self.as_shares();
        let tally = |(index, series): (usize, &'a HistogramSeries)| {
            let values = self.shown_values(series);
            let total = total_count(&values);
            let unit = if as_shares { 100.0 / total.max(1) as f64 } else { 1.0 };
            SeriesTally {
                name: &series.name,
                label: row_label(series, labels),
                style: SeriesStyle::of_series(index),
                counts: bins.bin_counts(&values),
                total,
                unit,
            }
        };
        self.series.iter().enumerate().map(tally).collect()
    }

    fn value_strips(&self, labels: LabelPlacement) -> Vec<ValueStrip<'a>> {
        let strip = |(index, series): (usize, &'a HistogramSeries)| {
            let shown = self.shown_values(series);
            let repeat = |counted: &CountedValue| vec![counted.value; counted.count as usize];
            let mut values: Vec<f64> = shown.iter().flat_map(repeat).collect();
            values.sort_by(f64::total_cmp);
            ValueStrip {
                name: &series.name,
                label: row_label(series, labels),
                style: SeriesStyle::of_series(index),
                values,
            }
        };
        self.series.iter().enumerate().map(strip).collect()
    }
}

/// Label of a series' row.
fn row_label(series: &HistogramSeries, labels: LabelPlacement) -> &str {
    match labels {
        LabelPlacement::Own => &series.name,
        LabelPlacement::OfSheet => "",
    }
}

/// Returns each value with its number of occurrences.
fn counted_values(series: &HistogramSeries) -> impl Iterator<Item = CountedValue> + '_ {
    let count = |index: usize| {
        if series.counts.is_empty() { 1 } else { series.counts.get(index).copied().unwrap_or(0) }
    };
    let values = series.values.iter().enumerate();
    values.map(move |(index, value)| CountedValue { value: *value, count: count(index) })
}

// The code below draws series with few values. Each series has a row, with a dot for each value
// along one axis and a line at the median.

/// Fractions of the row height for the spread of the dots, and for the median line.
const SPREAD_SHARE: f64 = 0.4;
const MEDIAN_SHARE: f64 = 0.7;
/// Maximum radius of a dot, and minimum radius, for low rows.
const MAX_RADIUS_PX: f64 = 4.4;
const MIN_RADIUS_PX: f64 = 2.2;

/// The values of a series.
pub(crate) struct ValueStrip<'a> {
    pub name: &'a str,
    /// Label of the series' row.
    pub label: &'a str,
    pub style: SeriesStyle,
    /// The values, in ascending order.
    pub values: Vec<f64>,
}

/// Draws a row for each of `strips`. `quantity` is the name of the values in tooltips.
pub(crate) fn draw_strips(
    svg: &mut SvgWriter,
    sheet: PixelRect,
    (x, extent): (&ChartAxis, AxisExtent),
    strips: &[ValueStrip<'_>],
    quantity: &str,
) {
    let bottom = (sheet.bottom - bottom_height(&x.label)).max(sheet.top + 8.0);
    let row_px = (bottom - sheet.top) / strips.len().max(1) as f64;
    let labels: Vec<&str> = strips.iter().map(|strip| strip.label).collect();
    let has_labels = labels.iter().any(|label| !label.trim().is_empty());
    let names = CategoryLabels::beside_bands(&labels, row_px, sheet.width() * NAME_SHARE);
    let label_px = if has_labels { names.widest_px() + NAME_GAP } else { 8.0 };
    let plot = PixelRect::new(sheet.left + label_px, sheet.top, sheet.right - 8.0, bottom);
    let x_mapping = AxisMapping::new(x, extent, plot.left, plot.right);
    draw_bottom_axis(svg, sheet, plot, &x_mapping, &x.full_label());
    let middle = |index: usize| plot.top + (index as f64 + 0.5) * row_px;
    if has_labels {
        names.draw_beside(svg, plot.left - NAME_GAP, middle);
    }
    for (index, strip) in strips.iter().enumerate() {
        draw_strip(svg, &x_mapping, strip, (middle(index), row_px), quantity);
    }
}

fn draw_strip(
    svg: &mut SvgWriter,
    x_mapping: &AxisMapping,
    strip: &ValueStrip<'_>,
    (middle, row_px): (f64, f64),
    quantity: &str,
) {
    let Some(tukey) = TukeyStats::of_sorted(&strip.values) else {
        return;
    };
    let colour = strip.style.color();
    let (x, half_px) = (x_mapping.pixel_at(tukey.median), row_px * MEDIAN_SHARE / 2.0);
    svg.start_line((x, middle - half_px), (x, middle + half_px))
        .set_text("class", "median")
        .set_text("stroke", &colour)
        .set_number("stroke-width", 1.6)
        .end_empty();
    let radius = (row_px / 9.0).clamp(MIN_RADIUS_PX, MAX_RADIUS_PX);
    let group = svg
        .start_group("points")
        .set_text("fill", &colour)
        .set_number("fill-opacity", 0.8)
        .set_text("stroke", PAPER)
        .set_number("stroke-width", 0.7);
    group.end_with(|svg| {
        for (value, offset) in strip.values.iter().zip(point_offsets(&strip.values)) {
            let y = middle + offset * row_px * SPREAD_SHARE;
            let outline = strip.style.marker().path(x_mapping.pixel_at(*value), y, radius);
            svg.start_element("path")
                .set_text("class", "point")
                .set_text("d", &outline)
                .end_with_tooltip(&value_tooltip(strip, quantity, *value));
        }
    });
}

fn value_tooltip(strip: &ValueStrip<'_>, quantity: &str, value: f64) -> String {
    let name = match strip.name.trim() {
        "" => String::new(),
        name => format!("{name}\n"),
    };
    match quantity.trim() {
        "" => format!("{name}{}", format_figure(value)),
        quantity => format!("{name}{quantity}: {}", format_figure(value)),
    }
}
