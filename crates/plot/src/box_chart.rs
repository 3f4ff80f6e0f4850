//! Draws distributions side by side as Tukey box plots, with every value as a point on top.
//! `box_mark` draws a single box.

use crate::banded::BandPlot;
use crate::box_mark::BoxMark;
use crate::header::{ChartHeader, LegendKey, LegendSwatch, SeriesLineup, omitted_note};
use crate::page::{SheetContent, format_count, join_names};
use crate::scale::{AxisExtent, can_show};
use crate::style::{SeriesStyle, define_hatchings};
use crate::svg::{PixelRect, SvgWriter};
use crate::{AxisScale, ChartAxis};

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

impl BoxCategory {
    fn names(&self) -> impl Iterator<Item = &str> {
        self.boxes.iter().map(|series| series.name.as_str())
    }
}

impl BoxChart {
    fn series_lineup(&self) -> SeriesLineup<'_> {
        SeriesLineup::of_categories(self.categories.iter().map(BoxCategory::names))
    }

    fn labels(&self) -> Vec<&str> {
        self.categories.iter().map(|category| category.label.as_str()).collect()
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        let boxes = self.categories.iter().flat_map(|category| &category.boxes);
        boxes.flat_map(|series| series.values.iter().copied())
    }

    fn centers(&self) -> impl Iterator<Item = f64> {
        let boxes = self.categories.iter().flat_map(|category| &category.boxes);
        boxes.filter_map(|series| series.center)
    }

    fn can_show_value(&self, value: f64) -> bool {
        can_show(self.scale(), value)
    }

    fn scale(&self) -> &AxisScale {
        self.value_axis.value_scale()
    }
}

impl SheetContent for BoxChart {
    fn header(&self) -> ChartHeader<'_> {
        let omitted = self.values().filter(|value| !self.can_show_value(*value)).count();
        ChartHeader {
            title: &self.title,
            subtitle: self.subtitle.as_deref(),
            note: omitted_note(omitted, &[self.scale()]),
            legend: LegendKey::legend_keys(&self.series_lineup().names(), LegendSwatch::Box),
        }
    }

    fn summary(&self) -> String {
        let boxes: usize = self.categories.iter().map(|category| category.boxes.len()).sum();
        let values = self.values().filter(|value| self.can_show_value(*value)).count();
        format!(
            "Box plot of {} in {} ({}): {}.",
            format_count(boxes, "box", "es"),
            format_count(self.categories.len(), "group", "s"),
            format_count(values, "value", "s"),
            join_names(&self.labels()),
        )
    }

    fn is_empty(&self) -> bool {
        !self.values().any(|value| self.can_show_value(value))
    }

    fn draw(&self, svg: &mut SvgWriter, area: PixelRect) {
        let Some(values) = AxisExtent::of_values(self.scale(), self.values().chain(self.centers()))
        else {
            return;
        };
        let extent = values.including_near_zero().with_padding(0.05);
        let axis = ChartAxis { label: self.value_axis.label.clone(), scale: self.scale().clone() };
        let lineup = self.series_lineup();
        let banded = BandPlot::lay_out(area, &self.labels(), lineup.len(), &axis, extent);
        define_hatchings(svg, lineup.len(), true);
        banded.draw_axes(svg);
        for (band, category) in self.categories.iter().enumerate() {
            let mut values = category.boxes.iter().flat_map(|series| &series.values);
            if !values.any(|value| self.can_show_value(*value)) {
                banded.draw_no_data(svg, band);
            }
            for (slot, series) in
                lineup.series_slots(category.names()).into_iter().zip(&category.boxes)
            {
                let mut sorted = series.values.clone();
                sorted.retain(|value| self.can_show_value(*value));
                sorted.sort_by(f64::total_cmp);
                let mark = BoxMark {
                    category: &category.label,
                    name: &series.name,
                    sorted: &sorted,
                    center: series.center.filter(|center| self.can_show_value(*center)),
                    style: SeriesStyle::of_series(slot),
                    middle: banded.slot_middle(band, slot),
                };
                mark.draw(svg, &banded);
            }
        }
    }

    fn natural_height(&self, width: f64) -> f64 {
        BandPlot::natural_height(&self.labels(), self.series_lineup().len(), width)
    }
}
