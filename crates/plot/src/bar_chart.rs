//! Draws grouped bars with intervals. Bars start at zero, because their lengths are compared. A
//! logarithmic axis has no zero, so its bars start at the lower end.

use crate::axis::{AxisExtent, can_show};
use crate::banded::{BandData, BandPlot};
use crate::color::{INK, PAPER};
use crate::format::{format_count, format_figure, format_owner, format_range, join_names};
use crate::header::{ChartHeader, LegendSwatch, omitted_note};
use crate::sheet::SheetContent;
use crate::style::{SeriesStyle, define_hatchings, full_fill};
use crate::svg::{PixelRect, SvgWriter};
use crate::{AxisScale, ChartAxis};

/// Maximum thickness of a bar.
const MAX_THICKNESS_PX: f64 = 72.0;

/// Bars in groups, each with an interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BarChart {
    /// Title, in large letters.
    pub title: String,
    /// Subtitle.
    pub subtitle: Option<String>,
    /// Value axis. A category scale makes no sense here and is treated as linear.
    pub value_axis: ChartAxis,
    /// Groups of bars, in order.
    pub categories: Vec<BarCategory>,
}

/// A group of bars.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BarCategory {
    /// Label of the group; a line break separates name and description.
    pub label: String,
    /// Bars, side by side.
    pub bars: Vec<ChartBar>,
}

/// One bar.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChartBar {
    /// Name of the series. Bars with the same name have the same color in all categories.
    pub name: String,
    /// Length of the bar.
    pub value: f64,
    /// Lower end of the interval around the value.
    pub low: Option<f64>,
    /// Upper end of the interval around the value.
    pub high: Option<f64>,
}

impl BarChart {
    fn bands(&self) -> BandData<'_> {
        let categories = self.categories.iter().map(|category| {
            let names = category.bars.iter().map(|bar| bar.name.as_str());
            (category.label.as_str(), names.collect())
        });
        BandData::new(&self.value_axis, categories)
    }

    fn bars(&self) -> impl Iterator<Item = &ChartBar> {
        self.categories.iter().flat_map(|category| &category.bars)
    }

    fn scale(&self) -> &AxisScale {
        self.value_axis.value_scale()
    }

    fn shown_bars(&self) -> impl Iterator<Item = &ChartBar> {
        self.bars().filter(|bar| can_show(self.scale(), bar.value))
    }

    fn extent(&self) -> Option<AxisExtent> {
        let ends = self.shown_bars().flat_map(|bar| [Some(bar.value), bar.low, bar.high]).flatten();
        // A logarithmic axis cannot show zero and ignores it.
        AxisExtent::of_values(self.scale(), ends)
            .map(|extent| extent.extended_to(0.0).with_padding(0.06))
    }
}

impl SheetContent for BarChart {
    fn header(&self) -> ChartHeader<'_> {
        let omitted = self.bars().count() - self.shown_bars().count();
        let note = omitted_note(omitted, &[self.scale()]);
        ChartHeader::new(&self.title, &self.subtitle, note, self.bands().legend(LegendSwatch::Bar))
    }

    fn summary(&self) -> String {
        format!(
            "Bar chart of {} in {}: {}.",
            format_count(self.bars().count(), "bar", "s"),
            format_count(self.categories.len(), "group", "s"),
            join_names(&self.bands().labels),
        )
    }

    fn is_empty(&self) -> bool {
        self.shown_bars().next().is_none()
    }

    fn draw(&self, svg: &mut SvgWriter, area: PixelRect) {
        let Some(extent) = self.extent() else { return };
        let bands = self.bands();
        let plot = bands.lay_out(area, extent);
        define_hatchings(svg, bands.slot_count(), false);
        plot.draw_axes(svg);
        for (band, category) in self.categories.iter().enumerate() {
            let bars = bands.slots(band).zip(&category.bars);
            let shown = bars.filter(|(_, bar)| can_show(self.scale(), bar.value));
            let shown: Vec<(usize, &ChartBar)> = shown.collect();
            if shown.is_empty() {
                plot.draw_no_data(svg, band);
            }
            for (slot, bar) in shown {
                let middle = plot.slot_middle(band, slot);
                let tooltip = bar_tooltip(&category.label, bar);
                draw_bar(svg, &plot, bar, (SeriesStyle::of_series(slot), middle), &tooltip);
            }
        }
    }

    fn natural_height(&self, width: f64) -> f64 {
        self.bands().natural_height(width)
    }
}

fn draw_bar(
    svg: &mut SvgWriter,
    plot: &BandPlot<'_>,
    bar: &ChartBar,
    (style, middle): (SeriesStyle, f64),
    tooltip: &str,
) {
    let half_px = (plot.slot_px() * 0.9).min(MAX_THICKNESS_PX) / 2.0;
    let rect = plot.rect((middle - half_px, middle + half_px), (0.0, bar.value));
    svg.start_rect("bar", rect).set_text("fill", &full_fill(style)).end_with_tooltip(tooltip);
    draw_interval(svg, plot, bar, middle, (half_px * 0.5).min(6.0));
}

/// Draws the interval as a line with caps. A pale background keeps the line visible over the bar.
fn draw_interval(svg: &mut SvgWriter, plot: &BandPlot<'_>, bar: &ChartBar, middle: f64, cap: f64) {
    let (low, high) = (bar.low.unwrap_or(bar.value), bar.high.unwrap_or(bar.value));
    if low.is_nan() || high.is_nan() || low == high {
        return;
    }
    let line = |start: (f64, f64), end: (f64, f64)| {
        let [(x1, y1), (x2, y2)] = [start, end];
        format!("M{x1:.2} {y1:.2}L{x2:.2} {y2:.2}")
    };
    let end_cap = |end| line(plot.point(middle - cap, end), plot.point(middle + cap, end));
    let shaft = line(plot.point(middle, low), plot.point(middle, high));
    let data = [shaft, end_cap(low), end_cap(high)].concat();
    svg.start_group("interval").set_text("fill", "none").end_with(|svg| {
        for (colour, width) in [(PAPER, 5.0), (INK, 1.6)] {
            svg.start_path("", &data).set_stroke(colour, width).end_empty();
        }
    });
}

fn bar_tooltip(category: &str, bar: &ChartBar) -> String {
    let value = format!("{}{}", format_owner(&[category, &bar.name]), format_figure(bar.value));
    match (bar.low, bar.high) {
        (Some(low), Some(high)) => format!("{value}\n{}", format_range(low, high)),
        _ => value,
    }
}
