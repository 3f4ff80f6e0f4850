//! Draws the frequencies of values, or the values themselves if there are few. One or two series
//! share a plot of bars. Three or more series have one row each over a common axis, because more
//! than two overlapping histograms are unreadable.
//!
//! [`ValueData`] decides which values can be shown, how they are shown, and how far the axis
//! extends. Grids of small charts use it, too.

use crate::axes::{PlotArea, PointPlane, draw_base_line, draw_left_label, top_strip_height};
use crate::axis::{AxisExtent, AxisMapping, ShownAxis, can_show};
use crate::banded::{RowMargins, RowPlot};
use crate::distribution::{CountedValue, HistogramBins, TukeyStats, point_offsets, total_count};
use crate::format::{format_count, format_figure, format_heading, format_range, summarize_series};
use crate::sheet::{ChartHeader, LegendKey, LegendSwatch, SheetContent, omitted_note};
use crate::style::SeriesStyle;
use crate::svg::{PAPER, PixelRect, SvgWriter};
use crate::{AxisScale, ChartAxis};

/// Maximum number of series whose bars share a plot.
const MAX_OVERLAID: usize = 2;
/// If no series has more values than this, all values are drawn individually: bins would contain
/// few values each. For 20 values, the rule of H. Sturges (1926) makes about five bins.
const MAX_INDIVIDUAL: u64 = 20;
/// Height of a row of bars, and of a row of individual values.
const ROW_PX: f64 = 90.0;
const STRIP_PX: f64 = 70.0;
/// Room around the rows.
const MARGINS: RowMargins = RowMargins { top: 0.0, right: 8.0, label_share: 0.3, label_gap: 12.0 };
/// Fraction of the height of a row that the tallest bar of the chart fills.
const FILLED_ROW_SHARE: f64 = 0.86;
/// Fractions of the height of a row for the spread of individual values, and for their median line.
const SPREAD_SHARE: f64 = 0.4;
const MEDIAN_SHARE: f64 = 0.7;

/// Histograms over a common axis. If no series has more than twenty values, the values are drawn
/// individually: bars of two or three values would have an accidental shape.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HistogramChart {
    /// Title, in large letters.
    pub title: String,
    /// Subtitle.
    pub subtitle: Option<String>,
    /// Value axis. A category scale makes no sense here and is treated as linear.
    pub x: ChartAxis,
    /// Values by series.
    pub series: Vec<HistogramSeries>,
}

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

impl HistogramSeries {
    /// Returns each value with its number of occurrences.
    fn counted_values(&self) -> impl Iterator<Item = CountedValue> {
        let default = u64::from(self.counts.is_empty());
        let counts = self.counts.iter().copied().chain(std::iter::repeat(default));
        self.values.iter().zip(counts).map(|(value, count)| CountedValue { value: *value, count })
    }
}

impl HistogramChart {
    fn data(&self) -> ValueData<'_> {
        ValueData::new(&self.x, &self.series)
    }
}

impl SheetContent for HistogramChart {
    fn header(&self) -> ChartHeader<'_> {
        let data = self.data();
        let legend = if data.uses_rows() { Vec::new() } else { data.legend(LegendSwatch::Area) };
        let note = omitted_note(data.count_omitted(), &[data.x.scale]);
        ChartHeader { title: &self.title, subtitle: self.subtitle.as_deref(), note, legend }
    }

    fn summary(&self) -> String {
        let data = self.data();
        let values = format_count(data.count_shown(), "value", "s");
        let kind = if data.has_few_values() { "Strip chart" } else { "Histogram" };
        summarize_series(&format!("{kind} of {values}"), &data.names())
    }

    fn is_empty(&self) -> bool {
        self.data().count_shown() == 0
    }

    fn draw(&self, svg: &mut SvgWriter, area: PixelRect) {
        let data = self.data();
        if let Some(extent) = data.extent() {
            data.draw(svg, area, extent, LabelPlacement::Own);
        }
    }

    fn natural_height(&self, _width: f64) -> f64 {
        let data = self.data();
        let rows = self.series.len() as f64;
        match (data.has_few_values(), data.uses_rows()) {
            (true, _) => rows * STRIP_PX + 60.0,
            (_, true) => rows * ROW_PX + 80.0,
            _ => 480.0,
        }
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

/// The values of a series that the axis can show.
struct ShownSeries<'a> {
    name: &'a str,
    style: SeriesStyle,
    values: Vec<CountedValue>,
    /// Number of values.
    total: u64,
}

/// The values of all series along one axis.
pub(crate) struct ValueData<'a> {
    /// The axis of the values. It is never a category axis, because values have no category names.
    x: ChartAxis,
    series: Vec<ShownSeries<'a>>,
    /// Number of all values, including those that the axis cannot show.
    total: u64,
}

impl<'a> ValueData<'a> {
    /// Selects the values that `x` can show.
    pub fn new(x: &ChartAxis, series: &'a [HistogramSeries]) -> Self {
        let x = x.to_value_axis();
        let all_values = series.iter().flat_map(HistogramSeries::counted_values);
        let total = all_values.map(|counted| counted.count).sum();
        let shown_series = |(index, series): (usize, &'a HistogramSeries)| {
            let is_shown =
                |counted: &CountedValue| counted.count > 0 && can_show(x.scale, counted.value);
            let values: Vec<CountedValue> = series.counted_values().filter(is_shown).collect();
            let style = SeriesStyle::of_series(index);
            ShownSeries { name: &series.name, style, total: total_count(&values), values }
        };
        let series = series.iter().enumerate().map(shown_series).collect();
        Self { x, series, total }
    }

    pub fn names(&self) -> Vec<&'a str> {
        self.series.iter().map(|series| series.name).collect()
    }

    pub fn legend(&self, swatch: impl Fn(SeriesStyle) -> LegendSwatch) -> Vec<LegendKey> {
        LegendKey::of_series(self.series.iter().map(|series| (series.name, series.style)), swatch)
    }

    pub fn count_shown(&self) -> usize {
        self.series.iter().map(|series| series.total as usize).sum()
    }

    pub fn count_omitted(&self) -> usize {
        self.total as usize - self.count_shown()
    }

    /// Whether no series has enough values for bars.
    pub fn has_few_values(&self) -> bool {
        self.series.iter().all(|series| series.total <= MAX_INDIVIDUAL)
    }

    /// Whether each series has its own row.
    fn uses_rows(&self) -> bool {
        self.has_few_values() || self.series.len() > MAX_OVERLAID
    }

    /// Whether bar heights are percentages: if the series differ in size, counts are not
    /// comparable.
    fn as_shares(&self) -> bool {
        self.series.windows(2).any(|pair| pair[0].total != pair[1].total)
    }

    /// Unit of the bar heights, if there are bars.
    pub fn height_unit(&self) -> Option<&'static str> {
        let unit = if self.as_shares() { "share of values, %" } else { "number of values" };
        (!self.has_few_values()).then_some(unit)
    }

    /// Extent of the axis for the values; `None` without values.
    pub fn extent(&self) -> Option<AxisExtent> {
        if self.has_few_values() {
            let values =
                self.series.iter().flat_map(|series| &series.values).map(|counted| counted.value);
            return Some(AxisExtent::of_values(self.x.scale, values)?.with_padding(0.04));
        }
        self.bins()?.extent()
    }

    fn bins(&self) -> Option<HistogramBins> {
        HistogramBins::of_series(self.x.scale, self.series.iter().map(|series| &series.values))
    }

    /// Draws all series over `extent` of the axis.
    pub fn draw(
        &self,
        svg: &mut SvgWriter,
        area: PixelRect,
        extent: AxisExtent,
        labels: LabelPlacement,
    ) {
        let (x, names) = match labels {
            LabelPlacement::Own => (self.x.clone(), self.names()),
            LabelPlacement::OfSheet => (self.x.without_label(), vec![""; self.series.len()]),
        };
        if self.has_few_values() {
            return self.draw_strips(svg, area, (&x, extent), &names);
        }
        let Some(bars) = HistogramBars::new(self) else { return };
        let unit = self.height_unit().filter(|_| labels == LabelPlacement::Own).unwrap_or_default();
        if self.uses_rows() {
            bars.draw_rows(svg, area, (&x, extent), &names, unit);
        } else {
            bars.draw_overlaid(svg, area, (&x, extent), unit);
        }
    }

    /// Draws a row for each series, with a dot for each value and a line at the median.
    fn draw_strips(&self, svg: &mut SvgWriter, sheet: PixelRect, x: ShownAxis<'_>, names: &[&str]) {
        let rows = RowPlot::lay_out(sheet, x, names, MARGINS);
        rows.draw_axis(svg);
        rows.draw_labels(svg, 0.5);
        for (index, series) in self.series.iter().enumerate() {
            self.draw_strip(svg, &rows, series, rows.row_y(index, 0.5));
        }
    }

    fn draw_strip(&self, svg: &mut SvgWriter, rows: &RowPlot, series: &ShownSeries<'_>, y: f64) {
        let repeat = |counted: &CountedValue| vec![counted.value; counted.count as usize];
        let mut values: Vec<f64> = series.values.iter().flat_map(repeat).collect();
        values.sort_by(f64::total_cmp);
        let Some(tukey) = TukeyStats::of_sorted(&values) else { return };
        let colour = series.style.color();
        let (x, half_px) = (rows.x.pixel_at(tukey.median), rows.row_px * MEDIAN_SHARE / 2.0);
        let median = svg.start_line("median", (x, y - half_px), (x, y + half_px));
        median.set_stroke(&colour, 1.6).end_empty();
        let radius = (rows.row_px / 9.0).clamp(2.2, 4.4);
        let quantity = match self.x.label.trim() {
            "" => String::new(),
            quantity => format!("{quantity}: "),
        };
        let group = svg.start_group("points").set_text("fill", &colour);
        group.set_number("fill-opacity", 0.8).set_stroke(PAPER, 0.7).end_with(|svg| {
            for (value, offset) in values.iter().zip(point_offsets(&values)) {
                let at = (rows.x.pixel_at(*value), y + offset * rows.row_px * SPREAD_SHARE);
                let name = format_heading(series.name);
                let tooltip = format!("{name}{quantity}{}", format_figure(*value));
                series.style.draw_point(svg, at, radius, &tooltip);
            }
        });
    }
}

/// The bars of one series.
struct SeriesBars<'a> {
    series: &'a ShownSeries<'a>,
    /// Number of values in each bin.
    counts: Vec<u64>,
    /// Height that one value adds to a bar.
    unit: f64,
}

/// The bars of all series. They have the same bins and comparable heights.
struct HistogramBars<'a> {
    bins: HistogramBins,
    bars: Vec<SeriesBars<'a>>,
    /// Whether heights are percentages of a series instead of numbers of values.
    as_shares: bool,
    tallest: f64,
    heights: AxisExtent,
}

impl<'a> HistogramBars<'a> {
    /// Counts the values in each bin; `None` without values.
    fn new(data: &'a ValueData<'a>) -> Option<Self> {
        let bins = data.bins()?;
        let as_shares = data.as_shares();
        let series_bars = |series: &'a ShownSeries<'a>| SeriesBars {
            series,
            counts: bins.bin_counts(&series.values),
            unit: if as_shares { 100.0 / series.total.max(1) as f64 } else { 1.0 },
        };
        let bars: Vec<SeriesBars<'a>> = data.series.iter().map(series_bars).collect();
        let tallest_of = |bars: &SeriesBars<'_>| {
            bars.counts.iter().max().map_or(0.0, |count| *count as f64 * bars.unit)
        };
        let tallest = bars.iter().map(tallest_of).fold(0.0, f64::max);
        let heights = AxisExtent::of_values(AxisScale::Linear, [0.0, tallest])?;
        Some(Self { bins, bars, as_shares, tallest, heights })
    }

    /// Draws all series into one plot. `unit` labels the heights; it may be empty.
    fn draw_overlaid(&self, svg: &mut SvgWriter, sheet: PixelRect, x: ShownAxis<'_>, unit: &str) {
        let y = ChartAxis::linear(unit);
        let mut plane = PointPlane::lay_out(sheet, x, (&y, self.heights.with_padding(0.05)));
        plane.area.y.whole_numbers = !self.as_shares;
        plane.draw_axes(svg);
        let area = &plane.area;
        let is_overlaid = self.bars.len() > 1;
        for bars in &self.bars {
            self.draw_bars(svg, (&area.x, &area.y), bars, if is_overlaid { 0.45 } else { 0.75 });
        }
        // Overlapping areas need outlines. The bars of a single series do not.
        for bars in self.bars.iter().filter(|_| is_overlaid) {
            self.draw_outline(svg, area, bars);
        }
    }

    /// Draws one row per series over a common axis. `unit` labels the heights; it may be empty.
    fn draw_rows(
        &self,
        svg: &mut SvgWriter,
        sheet: PixelRect,
        x: ShownAxis<'_>,
        names: &[&str],
        unit: &str,
    ) {
        let label = format!("{unit} (highest bar: {})", format_figure(self.tallest));
        let label = if unit.is_empty() { String::new() } else { label };
        let margins = RowMargins { top: top_strip_height(&label), ..MARGINS };
        let rows = RowPlot::lay_out(sheet, x, names, margins);
        rows.draw_axis(svg);
        draw_left_label(svg, sheet, &label);
        rows.draw_labels(svg, 0.6);
        for (index, bars) in self.bars.iter().enumerate() {
            let base = rows.row_y(index, 1.0);
            let top = base - rows.row_px * FILLED_ROW_SHARE;
            let y = AxisMapping::new(&ChartAxis::default(), self.heights, base, top);
            self.draw_bars(svg, (&rows.x, &y), bars, 0.75);
            draw_base_line(svg, (rows.plot.left, base), (rows.plot.right, base));
        }
    }

    fn draw_bars(
        &self,
        svg: &mut SvgWriter,
        (x, y): (&AxisMapping, &AxisMapping),
        bars: &SeriesBars<'_>,
        opacity: f64,
    ) {
        let ShownSeries { name, style, total, .. } = bars.series;
        let group = svg.start_group("bars").set_text("fill", &style.color());
        group.set_number("fill-opacity", opacity).end_with(|svg| {
            for (bin, count) in bars.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
                let (low, high) = self.bins.bin_ends(bin);
                let (left, right) = (x.pixel_at(low), x.pixel_at(high));
                let rect = PixelRect {
                    left,
                    right: (right - 0.6).max(left + 0.4),
                    top: y.pixel_at(*count as f64 * bars.unit),
                    bottom: y.start_px,
                };
                let (name, range) = (format_heading(name), format_range(low, high));
                svg.start_rect("bar", rect)
                    .end_with_tooltip(&format!("{name}{range}: {count} of {total}"));
            }
        });
    }

    /// Draws the steps of a series as a line.
    fn draw_outline(&self, svg: &mut SvgWriter, area: &PlotArea, bars: &SeriesBars<'_>) {
        let base = area.y.start_px;
        let mut data = format!("M{:.2} {base:.2}", area.x.pixel_at(self.bins.bin_ends(0).0));
        for (bin, count) in bars.counts.iter().enumerate() {
            let height = *count as f64 * bars.unit;
            let (right, top) = area.point_at(self.bins.bin_ends(bin).1, height);
            data.push_str(&format!("V{top:.2}H{right:.2}"));
        }
        data.push_str(&format!("V{base:.2}"));
        let style = bars.series.style;
        svg.start_path("outline", &data)
            .set_text("fill", "none")
            .set_stroke(&style.color(), 1.6)
            .set_nonempty("stroke-dasharray", style.dash())
            .end_empty();
    }
}
