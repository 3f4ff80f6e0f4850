//! Distributions side by side: Tukey box plots overlaid with every value as a point. A single box
//! is drawn in `box_mark`.

use crate::banded::Banded;
use crate::box_mark::BoxMark;
use crate::header::{Header, Key, Lineup, Swatch, omitted_note};
use crate::page::{Figure, count, list};
use crate::scale::{Extent, can_show};
use crate::style::{Style, define_hatchings};
use crate::svg::{Rect, Svg};
use crate::{Axis, Scale};

/// A box plot that also shows every value as a point.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BoxChart {
    /// Title, in large letters.
    pub title: String,
    /// Subtitle.
    pub subtitle: Option<String>,
    /// Value axis. A category scale makes no sense here and is treated as linear.
    pub value_axis: Axis,
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
    /// Name of the series: equal names have equal colors in all categories.
    pub name: String,
    /// Values, in any order.
    pub values: Vec<f64>,
    /// Position of the line across the box, if not the median: an estimate that uses additional
    /// information, such as which values were measured together.
    pub center: Option<f64>,
}

impl BoxCategory {
    fn names(&self) -> impl Iterator<Item = &str> {
        self.boxes.iter().map(|series| series.name.as_str())
    }
}

impl BoxChart {
    fn lineup(&self) -> Lineup<'_> {
        Lineup::of_categories(self.categories.iter().map(BoxCategory::names))
    }

    fn labels(&self) -> Vec<&str> {
        self.categories
            .iter()
            .map(|category| category.label.as_str())
            .collect()
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        let boxes = self.categories.iter().flat_map(|category| &category.boxes);
        boxes.flat_map(|series| series.values.iter().copied())
    }

    fn centers(&self) -> impl Iterator<Item = f64> {
        let boxes = self.categories.iter().flat_map(|category| &category.boxes);
        boxes.filter_map(|series| series.center)
    }

    fn shown(&self, value: f64) -> bool {
        can_show(self.scale(), value)
    }

    fn scale(&self) -> &Scale {
        self.value_axis.value_scale()
    }
}

impl Figure for BoxChart {
    fn header(&self) -> Header<'_> {
        let omitted = self.values().filter(|value| !self.shown(*value)).count();
        Header {
            title: &self.title,
            subtitle: self.subtitle.as_deref(),
            note: omitted_note(omitted, &[self.scale()]),
            legend: Key::list(&self.lineup().names(), Swatch::Box),
        }
    }

    fn summary(&self) -> String {
        let boxes: usize = self
            .categories
            .iter()
            .map(|category| category.boxes.len())
            .sum();
        let values = self.values().filter(|value| self.shown(*value)).count();
        format!(
            "Box plot of {} in {} ({}): {}.",
            count(boxes, "box", "es"),
            count(self.categories.len(), "group", "s"),
            count(values, "value", "s"),
            list(&self.labels()),
        )
    }

    fn is_empty(&self) -> bool {
        !self.values().any(|value| self.shown(value))
    }

    fn draw(&self, svg: &mut Svg, area: Rect) {
        let Some(extent) = Extent::of_values(self.scale(), self.values().chain(self.centers()))
        else {
            return;
        };
        let extent = extent.including_near_zero().padded(0.05);
        let axis = Axis {
            label: self.value_axis.label.clone(),
            scale: self.scale().clone(),
        };
        let lineup = self.lineup();
        let banded = Banded::lay_out(area, &self.labels(), lineup.len(), &axis, extent);
        define_hatchings(svg, lineup.len(), true);
        banded.draw_axes(svg);
        for (band, category) in self.categories.iter().enumerate() {
            let mut values = category.boxes.iter().flat_map(|series| &series.values);
            if !values.any(|value| self.shown(*value)) {
                banded.draw_no_data(svg, band);
            }
            for (slot, series) in lineup
                .slots(category.names())
                .into_iter()
                .zip(&category.boxes)
            {
                let mut sorted = series.values.clone();
                sorted.retain(|value| self.shown(*value));
                sorted.sort_by(f64::total_cmp);
                let mark = BoxMark {
                    category: &category.label,
                    name: &series.name,
                    sorted: &sorted,
                    center: series.center.filter(|center| self.shown(*center)),
                    style: Style::of_series(slot),
                    middle: banded.slot_middle(band, slot),
                };
                mark.draw(svg, &banded);
            }
        }
    }

    fn natural_height(&self, width: f64) -> f64 {
        Banded::natural_height(&self.labels(), self.lineup().len(), width)
    }
}
