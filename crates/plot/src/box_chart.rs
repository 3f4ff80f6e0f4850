//! Draws distributions side by side as Tukey box plots, with every value as a point on top.

use crate::axis::{AxisExtent, can_show};
use crate::banded::{BandData, BandPlot};
use crate::distribution::{TukeyStats, point_offsets};
use crate::format::{format_count, format_figure, format_owner, format_range, join_names};
use crate::header::{ChartHeader, LegendSwatch, omitted_note};
use crate::sheet::SheetContent;
use crate::style::{SeriesStyle, define_hatchings, pale_fill};
use crate::svg::{PixelRect, SvgWriter};
use crate::{AxisScale, ChartAxis};

/// Maximum thickness of a box.
const MAX_THICKNESS_PX: f64 = 72.0;

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
            let names = category.boxes.iter().map(|series| series.name.as_str());
            (category.label.as_str(), names.collect())
        });
        BandData::new(&self.value_axis, categories)
    }

    fn boxes(&self) -> impl Iterator<Item = &BoxSeries> {
        self.categories.iter().flat_map(|category| &category.boxes)
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        self.boxes().flat_map(|series| series.values.iter().copied())
    }

    fn scale(&self) -> &AxisScale {
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
        ChartHeader::new(&self.title, &self.subtitle, note, self.bands().legend(LegendSwatch::Box))
    }

    fn summary(&self) -> String {
        format!(
            "Box plot of {} in {} ({}): {}.",
            format_count(self.boxes().count(), "box", "es"),
            format_count(self.categories.len(), "group", "s"),
            format_count(self.count_shown(), "value", "s"),
            join_names(&self.bands().labels),
        )
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
        (scale, series): (&AxisScale, &'a BoxSeries),
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
            let line = svg.start_line(start, end).set_text("class", "median");
            line.set_number("stroke-width", width).end_empty();
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
            svg.start_line(from, to_middle).set_text("class", "whisker").end_empty();
            let [start, end] = self.ends_across(self.half_px * 0.4, to);
            svg.start_line(start, end).set_text("class", "cap").end_empty();
        }
    }

    fn draw_box(&self, svg: &mut SvgWriter, category: &str) {
        let tukey = &self.tukey;
        let across = (self.middle - self.half_px, self.middle + self.half_px);
        let rect = self.plot.rect(across, (tukey.low_quartile, tukey.high_quartile));
        let tooltip = format!(
            "{}{}\nwhiskers {}\nn = {}",
            format_owner(&[category, self.name]),
            tukey.describe_box(),
            format_range(tukey.low_whisker, tukey.high_whisker),
            self.sorted.len(),
        );
        svg.start_rect("box", rect)
            .set_text("fill", &pale_fill(self.style))
            .end_with_tooltip(&tooltip);
    }

    fn draw_points(&self, svg: &mut SvgWriter) {
        let radius = self.point_radius();
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

    /// Radius of the points. They are smaller if there are many, or in a thin box.
    fn point_radius(&self) -> f64 {
        let preferred = match self.sorted.len() {
            0..40 => 2.8,
            40..200 => 2.2,
            _ => 1.6,
        };
        f64::min(preferred, self.half_px * 0.2).max(0.6)
    }
}
