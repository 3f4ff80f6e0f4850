//! Draws grouped bars with intervals. Bars start at zero, because their lengths are compared. A
//! logarithmic axis has no zero, so its bars start at the lower end.

use crate::banded::BandPlot;
use crate::color::{INK, PAPER};
use crate::header::{ChartHeader, LegendKey, LegendSwatch, SeriesLineup, omitted_note};
use crate::numeral::format_figure;
use crate::page::{SheetContent, format_count, join_names};
use crate::scale::{AxisExtent, can_show};
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
    /// Name of the series. Equal names have equal colors in all categories.
    pub name: String,
    /// Length of the bar.
    pub value: f64,
    /// Lower end of the interval around the value.
    pub low: Option<f64>,
    /// Upper end of the interval around the value.
    pub high: Option<f64>,
}

impl BarCategory {
    fn names(&self) -> impl Iterator<Item = &str> {
        self.bars.iter().map(|bar| bar.name.as_str())
    }
}

impl BarChart {
    fn series_lineup(&self) -> SeriesLineup<'_> {
        SeriesLineup::of_categories(self.categories.iter().map(BarCategory::names))
    }

    fn labels(&self) -> Vec<&str> {
        self.categories.iter().map(|category| category.label.as_str()).collect()
    }

    fn bars(&self) -> impl Iterator<Item = &ChartBar> {
        self.categories.iter().flat_map(|category| &category.bars)
    }

    fn scale(&self) -> &AxisScale {
        self.value_axis.value_scale()
    }

    fn can_show_bar(&self, bar: &ChartBar) -> bool {
        can_show(self.scale(), bar.value)
    }

    fn extent(&self) -> Option<AxisExtent> {
        let shown = self.bars().filter(|bar| self.can_show_bar(bar));
        let ends = shown.flat_map(|bar| [Some(bar.value), bar.low, bar.high]).flatten();
        // A logarithmic axis cannot show zero and ignores it.
        AxisExtent::of_values(self.scale(), ends)
            .map(|extent| extent.extended_to(0.0).with_padding(0.06))
    }
}

impl SheetContent for BarChart {
    fn header(&self) -> ChartHeader<'_> {
        let omitted = self.bars().filter(|bar| !self.can_show_bar(bar)).count();
        ChartHeader {
            title: &self.title,
            subtitle: self.subtitle.as_deref(),
            note: omitted_note(omitted, &[self.scale()]),
            legend: LegendKey::legend_keys(&self.series_lineup().names(), LegendSwatch::Bar),
        }
    }

    fn summary(&self) -> String {
        format!(
            "Bar chart of {} in {}: {}.",
            format_count(self.bars().count(), "bar", "s"),
            format_count(self.categories.len(), "group", "s"),
            join_names(&self.labels()),
        )
    }

    fn is_empty(&self) -> bool {
        !self.bars().any(|bar| self.can_show_bar(bar))
    }

    fn draw(&self, svg: &mut SvgWriter, area: PixelRect) {
        let Some(extent) = self.extent() else { return };
        let axis = ChartAxis { label: self.value_axis.label.clone(), scale: self.scale().clone() };
        let lineup = self.series_lineup();
        let banded = BandPlot::lay_out(area, &self.labels(), lineup.len(), &axis, extent);
        define_hatchings(svg, lineup.len(), false);
        banded.draw_axes(svg);
        for (band, category) in self.categories.iter().enumerate() {
            if !category.bars.iter().any(|bar| self.can_show_bar(bar)) {
                banded.draw_no_data(svg, band);
            }
            for (slot, bar) in lineup.series_slots(category.names()).into_iter().zip(&category.bars)
            {
                if self.can_show_bar(bar) {
                    let middle = banded.slot_middle(band, slot);
                    let tooltip = bar_tooltip(&category.label, bar);
                    draw_bar(svg, &banded, bar, SeriesStyle::of_series(slot), middle, &tooltip);
                }
            }
        }
    }

    fn natural_height(&self, width: f64) -> f64 {
        BandPlot::natural_height(&self.labels(), self.series_lineup().len(), width)
    }
}

fn draw_bar(
    svg: &mut SvgWriter,
    banded: &BandPlot,
    bar: &ChartBar,
    style: SeriesStyle,
    middle: f64,
    tooltip: &str,
) {
    let half_px = (banded.slot_px() * 0.9).min(MAX_THICKNESS_PX) / 2.0;
    let rect = banded.rect((middle - half_px, middle + half_px), (0.0, bar.value));
    svg.start_element("rect")
        .set_text("class", "bar")
        .set_number("x", rect.left)
        .set_number("y", rect.top)
        .set_number("width", rect.right - rect.left)
        .set_number("height", rect.bottom - rect.top)
        .set_text("fill", &full_fill(style))
        .end_with_tooltip(tooltip);
    draw_interval(svg, banded, bar, middle, (half_px * 0.5).min(6.0));
}

/// Draws the interval as a line with caps. A pale background keeps the line visible over the bar.
fn draw_interval(svg: &mut SvgWriter, banded: &BandPlot, bar: &ChartBar, middle: f64, cap: f64) {
    let (low, high) = (bar.low.unwrap_or(bar.value), bar.high.unwrap_or(bar.value));
    if low.is_nan() || high.is_nan() || low == high {
        return;
    }
    let line = |start: (f64, f64), end: (f64, f64)| {
        let [(x1, y1), (x2, y2)] = [start, end];
        format!("M{x1:.2} {y1:.2}L{x2:.2} {y2:.2}")
    };
    let end_cap = |end| line(banded.point(middle - cap, end), banded.point(middle + cap, end));
    let shaft = line(banded.point(middle, low), banded.point(middle, high));
    let data = [shaft, end_cap(low), end_cap(high)].concat();
    svg.start_group("interval").set_text("fill", "none").end_with(|svg| {
        for (colour, width) in [(PAPER, 5.0), (INK, 1.6)] {
            let path = svg.start_element("path").set_text("d", &data).set_text("stroke", colour);
            path.set_number("stroke-width", width).end_empty();
        }
    });
}

fn bar_tooltip(category: &str, bar: &ChartBar) -> String {
    let parts = [category, bar.name.as_str()];
    let named: Vec<&str> = parts.into_iter().filter(|part| !part.trim().is_empty()).collect();
    let interval = match (bar.low, bar.high) {
        (Some(low), Some(high)) => format!("\n{} to {}", format_figure(low), format_figure(high)),
        _ => String::new(),
    };
    format!("{}: {}{interval}", named.join(", "), format_figure(bar.value))
}
