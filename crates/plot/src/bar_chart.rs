//! Draws grouped bars with intervals, and groups of box plots. Bars start at zero, because their
//! lengths are compared. A logarithmic axis has no zero, so its bars start at the lower end.

use crate::axis::{AxisExtent, can_show};
use crate::banded::{BandData, BandPlot};
use crate::distribution::{TukeyStats, point_offsets};
use crate::format::{format_count, format_figure, format_owner, format_range, join_names};
use crate::sheet::{ChartHeader, LegendSwatch, SheetContent, omitted_note};
use crate::style::{SeriesStyle, define_hatchings, full_fill, pale_fill};
use crate::svg::{INK, PAPER, PixelRect, SvgWriter};
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
            (&*category.label, category.bars.iter().map(|bar| &*bar.name).collect())
        });
        BandData::new(&self.value_axis, categories)
    }

    fn bars(&self) -> impl Iterator<Item = &ChartBar> {
        self.categories.iter().flat_map(|category| &category.bars)
    }

    fn scale(&self) -> AxisScale {
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
        let legend = self.bands().legend(LegendSwatch::Bar);
        ChartHeader { title: &self.title, subtitle: self.subtitle.as_deref(), note, legend }
    }

    fn summary(&self) -> String {
        let bars = format_count(self.bars().count(), "bar", "s");
        let groups = format_count(self.categories.len(), "group", "s");
        format!("Bar chart of {bars} in {groups}: {}.", join_names(&self.bands().labels))
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
            let half_px = (plot.slot_px() * 0.9).min(MAX_THICKNESS_PX) / 2.0;
            for (slot, bar) in shown {
                let middle = plot.slot_middle(band, slot);
                let rect = plot.rect((middle - half_px, middle + half_px), (0.0, bar.value));
                svg.start_rect("bar", rect)
                    .set_text("fill", &full_fill(SeriesStyle::of_series(slot)))
                    .end_with_tooltip(&bar_tooltip(&category.label, bar));
                draw_interval(svg, &plot, bar, middle, (half_px * 0.5).min(6.0));
            }
        }
    }

    fn natural_height(&self, width: f64) -> f64 {
        self.bands().natural_height(width)
    }
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

// Draws distributions side by side as Tukey box plots, with every value as a point on top.

/// A box plot that also shows every value as a point.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BoxChart {
    /// Title, in large letters.
    pub title: String,
    /// Subtitle.
    pub subtitle: Option<String>,
    /// Value axis. A category scale makes no sense here and is treated as linear.
    pub value_axis: ChartAxis,
    /// Groups of boxes, in order.
    pub categories: Vec<BoxCategory>,
}

/// A group of boxes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BoxCategory {
    /// Label of the group; a line break separates name and description.
    pub label: String,
    /// Boxes, side by side.
    pub boxes: Vec<BoxSeries>,
}

/// The values of one box.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BoxSeries {
    /// Name of the series. Equal names have equal colors in all categories.
    pub name: String,
    /// Values, in any order.
    pub values: Vec<f64>,
    /// Position of the line across the box; `None` for the median. Any other position is an
    /// estimate that uses additional information, such as which values were measured together.
    pub center: Option<f64>,
}

impl BoxChart {
    fn bands(&self) -> BandData<'_> {
        let categories = self.categories.iter().map(|category| {
            (&*category.label, category.boxes.iter().map(|series| &*series.name).collect())
        });
        BandData::new(&self.value_axis, categories)
    }

    fn boxes(&self) -> impl Iterator<Item = &BoxSeries> {
        self.categories.iter().flat_map(|category| &category.boxes)
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        self.boxes().flat_map(|series| series.values.iter().copied())
    }

    fn scale(&self) -> AxisScale {
        self.value_axis.value_scale()
    }

    fn count_shown(&self) -> usize {
        self.values().filter(|value| can_show(self.scale(), *value)).count()
    }

    fn extent(&self) -> Option<AxisExtent> {
        let centers = self.boxes().filter_map(|series| series.center);
        AxisExtent::of_data(self.scale(), self.values().chain(centers), 0.05)
    }
}

impl SheetContent for BoxChart {
    fn header(&self) -> ChartHeader<'_> {
        let omitted = self.values().count() - self.count_shown();
        let note = omitted_note(omitted, &[self.scale()]);
        let legend = self.bands().legend(LegendSwatch::Box);
        ChartHeader { title: &self.title, subtitle: self.subtitle.as_deref(), note, legend }
    }

    fn summary(&self) -> String {
        let boxes = format_count(self.boxes().count(), "box", "es");
        let groups = format_count(self.categories.len(), "group", "s");
        let values = format_count(self.count_shown(), "value", "s");
        let labels = join_names(&self.bands().labels);
        format!("Box plot of {boxes} in {groups} ({values}): {labels}.")
    }

    fn is_empty(&self) -> bool {
        self.count_shown() == 0
    }

    fn draw(&self, svg: &mut SvgWriter, area: PixelRect) {
        let Some(extent) = self.extent() else { return };
        let bands = self.bands();
        let plot = bands.lay_out(area, extent);
        define_hatchings(svg, bands.slot_count(), true);
        plot.draw_axes(svg);
        for (band, category) in self.categories.iter().enumerate() {
            let series = bands.slots(band).zip(&category.boxes);
            let marks = series.filter_map(|(slot, series)| {
                let middle = plot.slot_middle(band, slot);
                BoxMark::new(&plot, (self.scale(), series), (slot, middle))
            });
            let marks: Vec<BoxMark<'_>> = marks.collect();
            if marks.is_empty() {
                plot.draw_no_data(svg, band);
            }
            for mark in marks {
                mark.draw(svg, &category.label);
            }
        }
    }

    fn natural_height(&self, width: f64) -> f64 {
        self.bands().natural_height(width)
    }
}

/// A single box: box, center line, whiskers, and the values as points.
struct BoxMark<'a> {
    plot: &'a BandPlot<'a>,
    name: &'a str,
    /// The values that can be shown, ascending.
    sorted: Vec<f64>,
    tukey: TukeyStats,
    style: SeriesStyle,
    /// Center in pixels, across the value direction.
    middle: f64,
    half_px: f64,
}

impl<'a> BoxMark<'a> {
    /// Summarizes the values of a series; `None` if `scale` can show none of them.
    fn new(
        plot: &'a BandPlot<'a>,
        (scale, series): (AxisScale, &'a BoxSeries),
        (slot, middle): (usize, f64),
    ) -> Option<Self> {
        let mut sorted = series.values.clone();
        sorted.retain(|value| can_show(scale, *value));
        sorted.sort_by(f64::total_cmp);
        let center = series.center.filter(|center| can_show(scale, *center));
        let tukey = TukeyStats::of_sorted(&sorted)?.with_center(center);
        let half_px = (plot.slot_px() * 0.86).min(MAX_THICKNESS_PX) / 2.0;
        let style = SeriesStyle::of_series(slot);
        Some(Self { plot, name: &series.name, sorted, tukey, style, middle, half_px })
    }

    fn draw(&self, svg: &mut SvgWriter, category: &str) {
        let width = if self.half_px < 3.0 { 0.6 } else { 1.2 };
        svg.start_group("series").set_stroke(&self.style.color(), width).end_with(|svg| {
            self.draw_whiskers(svg);
            self.draw_box(svg, category);
            self.draw_points(svg);
            let [start, end] = self.ends_across(self.half_px, self.tukey.center);
            let width = if self.half_px > 5.0 { 2.5 } else { 1.5 };
            svg.start_line("median", start, end).set_number("stroke-width", width).end_empty();
        });
    }

    /// Both ends of a line across the value direction.
    fn ends_across(&self, half_px: f64, value: f64) -> [(f64, f64); 2] {
        [self.middle - half_px, self.middle + half_px].map(|across| self.plot.point(across, value))
    }

    fn draw_whiskers(&self, svg: &mut SvgWriter) {
        let tukey = &self.tukey;
        let arms =
            [(tukey.low_quartile, tukey.low_whisker), (tukey.high_quartile, tukey.high_whisker)];
        for (from, to) in arms {
            let [from, to_middle] = [from, to].map(|value| self.plot.point(self.middle, value));
            svg.start_line("whisker", from, to_middle).end_empty();
            let [start, end] = self.ends_across(self.half_px * 0.4, to);
            svg.start_line("cap", start, end).end_empty();
        }
    }

    fn draw_box(&self, svg: &mut SvgWriter, category: &str) {
        let tukey = &self.tukey;
        let across = (self.middle - self.half_px, self.middle + self.half_px);
        let rect = self.plot.rect(across, (tukey.low_quartile, tukey.high_quartile));
        let (owner, quartiles) = (format_owner(&[category, self.name]), tukey.describe_box());
        let whiskers = format_range(tukey.low_whisker, tukey.high_whisker);
        let count = self.sorted.len();
        let tooltip = format!("{owner}{quartiles}\nwhiskers {whiskers}\nn = {count}");
        svg.start_rect("box", rect)
            .set_text("fill", &pale_fill(self.style))
            .end_with_tooltip(&tooltip);
    }

    fn draw_points(&self, svg: &mut SvgWriter) {
        // Points are smaller if there are many, or in a thin box.
        let preferred = match self.sorted.len() {
            0..40 => 2.8,
            40..200 => 2.2,
            _ => 1.6,
        };
        let radius = f64::min(preferred, self.half_px * 0.2).max(0.6);
        let opacity = if self.sorted.len() > 200 { 0.45 } else { 0.65 };
        // The tooltips of points omit the category: repeated for every point, its name would make
        // up most of the file.
        let owner = format_owner(&[self.name]);
        let points = svg
            .start_group("points")
            .set_text("stroke", "none")
            .set_text("fill", &self.style.color());
        points.set_number("fill-opacity", opacity).end_with(|svg| {
            for (value, offset) in self.sorted.iter().zip(point_offsets(&self.sorted)) {
                let spread_px = (self.half_px - radius).max(0.0) * 1.7;
                let at = self.plot.point(self.middle + offset * spread_px, *value);
                let tooltip = format!("{owner}{}", format_figure(*value));
                self.style.draw_point(svg, at, radius, &tooltip);
            }
        });
    }
}
