//! Grouped bars with intervals. Bars start at zero, because their lengths are compared; on a
//! logarithmic axis, which has no zero, they start at the lower end.

use crate::banded::Banded;
use crate::colour::{INK, PAPER};
use crate::header::{Header, Key, Lineup, Swatch, omitted_note};
use crate::numeral::figure;
use crate::page::{Figure, count, list};
use crate::scale::{Extent, can_show};
use crate::style::{Style, define_hatchings, hatched};
use crate::svg::{Rect, Svg};
use crate::{Axis, Scale};

/// Maximum thickness of a bar.
const THICKEST_PX: f64 = 72.0;

/// Bars in groups, each with an interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BarChart {
    /// Title, in large letters.
    pub title: String,
    /// Subtitle.
    pub subtitle: Option<String>,
    /// Value axis. A category scale makes no sense here and is treated as linear.
    pub value_axis: Axis,
    /// Groups of bars, in order.
    pub categories: Vec<BarCategory>,
}

/// A group of bars.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BarCategory {
    /// Label of the group; a line break separates name and description.
    pub label: String,
    /// Bars, side by side.
    pub bars: Vec<Bar>,
}

/// One bar.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bar {
    /// Name of the series: equal names have equal colors in all categories.
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
    fn lineup(&self) -> Lineup<'_> {
        Lineup::of_categories(self.categories.iter().map(BarCategory::names))
    }

    fn labels(&self) -> Vec<&str> {
        self.categories
            .iter()
            .map(|category| category.label.as_str())
            .collect()
    }

    fn bars(&self) -> impl Iterator<Item = &Bar> {
        self.categories.iter().flat_map(|category| &category.bars)
    }

    fn scale(&self) -> &Scale {
        self.value_axis.value_scale()
    }

    fn shown(&self, bar: &Bar) -> bool {
        can_show(self.scale(), bar.value)
    }

    fn extent(&self) -> Option<Extent> {
        let shown = self.bars().filter(|bar| self.shown(bar));
        let ends = shown
            .flat_map(|bar| [Some(bar.value), bar.low, bar.high])
            .flatten();
        // A logarithmic axis cannot show zero, so including it has no effect there.
        Extent::of_values(self.scale(), ends).map(|extent| extent.including(0.0).padded(0.06))
    }
}

impl Figure for BarChart {
    fn header(&self) -> Header<'_> {
        let omitted = self.bars().filter(|bar| !self.shown(bar)).count();
        Header {
            title: &self.title,
            subtitle: self.subtitle.as_deref(),
            note: omitted_note(omitted, &[self.scale()]),
            legend: Key::list(&self.lineup().names(), Swatch::Bar),
        }
    }

    fn summary(&self) -> String {
        format!(
            "Bar chart of {} in {}: {}.",
            count(self.bars().count(), "bar", "s"),
            count(self.categories.len(), "group", "s"),
            list(&self.labels()),
        )
    }

    fn is_empty(&self) -> bool {
        !self.bars().any(|bar| self.shown(bar))
    }

    fn draw(&self, svg: &mut Svg, area: Rect) {
        let Some(extent) = self.extent() else { return };
        let axis = Axis {
            label: self.value_axis.label.clone(),
            scale: self.scale().clone(),
        };
        let lineup = self.lineup();
        let banded = Banded::lay_out(area, &self.labels(), lineup.len(), &axis, extent);
        define_hatchings(svg, lineup.len(), false);
        banded.draw_axes(svg);
        for (band, category) in self.categories.iter().enumerate() {
            if !category.bars.iter().any(|bar| self.shown(bar)) {
                banded.draw_no_data(svg, band);
            }
            for (slot, bar) in lineup
                .slots(category.names())
                .into_iter()
                .zip(&category.bars)
            {
                if self.shown(bar) {
                    let middle = banded.slot_middle(band, slot);
                    let tooltip = describe(&category.label, bar);
                    draw_bar(svg, &banded, bar, Style::of_series(slot), middle, &tooltip);
                }
            }
        }
    }

    fn natural_height(&self, width: f64) -> f64 {
        Banded::natural_height(&self.labels(), self.lineup().len(), width)
    }
}

fn draw_bar(svg: &mut Svg, banded: &Banded, bar: &Bar, style: Style, middle: f64, tooltip: &str) {
    let half = (banded.slot_px() * 0.9).min(THICKEST_PX) / 2.0;
    let rect = banded.rect((middle - half, middle + half), (0.0, bar.value));
    svg.element("rect")
        .set("class", "bar")
        .num("x", rect.left)
        .num("y", rect.top)
        .num("width", rect.right - rect.left)
        .num("height", rect.bottom - rect.top)
        .set("fill", &hatched(style))
        .titled(tooltip);
    draw_interval(svg, banded, bar, middle, (half * 0.5).min(6.0));
}

/// Draws the interval as a line with caps, on a pale background that keeps it visible over the bar.
fn draw_interval(svg: &mut Svg, banded: &Banded, bar: &Bar, middle: f64, cap: f64) {
    let (low, high) = (bar.low.unwrap_or(bar.value), bar.high.unwrap_or(bar.value));
    if low.is_nan() || high.is_nan() || low == high {
        return;
    }
    let line = |one: (f64, f64), other: (f64, f64)| {
        let [(x1, y1), (x2, y2)] = [one, other];
        format!("M{x1:.2} {y1:.2}L{x2:.2} {y2:.2}")
    };
    let stop = |end| {
        line(
            banded.point(middle - cap, end),
            banded.point(middle + cap, end),
        )
    };
    let shaft = line(banded.point(middle, low), banded.point(middle, high));
    let data = [shaft, stop(low), stop(high)].concat();
    svg.group("interval").set("fill", "none").containing(|svg| {
        for (colour, width) in [(PAPER, 5.0), (INK, 1.6)] {
            let path = svg.element("path").set("d", &data).set("stroke", colour);
            path.num("stroke-width", width).close();
        }
    });
}

fn describe(category: &str, bar: &Bar) -> String {
    let parts = [category, bar.name.as_str()];
    let named: Vec<&str> = parts
        .into_iter()
        .filter(|part| !part.trim().is_empty())
        .collect();
    let interval = match (bar.low, bar.high) {
        (Some(low), Some(high)) => format!("\n{} to {}", figure(low), figure(high)),
        _ => String::new(),
    };
    format!("{}: {}{interval}", named.join(", "), figure(bar.value))
}
