//! Draws small multiples (E. Tufte, "Envisioning Information", 1990): many small charts of the same
//! kind, called panels. All panels share an axis if the data of every panel have enough room on it.

use crate::axes::{PlotArea, PointPlane, TOP_STRIP, draw_bottom_label, draw_left_label};
use crate::axis::{AxisExtent, can_show};
use crate::format::{format_count, format_figure, join_names};
use crate::histogram_chart::{LabelPlacement, ValueData};
use crate::point_chart::{PointData, PointSeries};
use crate::sheet::{
    ChartHeader, ImageSize, LegendKey, LegendSwatch, SheetContent, draw_message, omitted_note,
};
use crate::style::SeriesStyle;
use crate::svg::{BAND, INK, PAPER, PixelRect, SvgWriter, TextAnchor};
use crate::text::wrap_text;
use crate::{ChartAxis, HistogramSeries};
use std::ops::Range;

/// Width of a sheet with four columns; sheets with fewer columns use the default width.
const FOUR_COLUMNS_PX: u32 = 1280;
const TITLE_PX: f64 = 12.5;
const TITLE_LINE: f64 = 15.0;
const MESSAGE_PX: f64 = 13.0;
/// Maximum number of points of a sequence. More points would overlap in a small panel.
const MAX_POINTS: usize = 1500;
/// Maximum length of a shared axis, relative to the longest axis that a single panel needs. If the
/// values of the panels lie far apart, a shared axis would be longer and squeeze the data of every
/// panel too much.
const MAX_SHARED_FACTOR: f64 = 4.0;

/// Small charts of the same kind, each with a title. Their axes show the same quantities.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GridChart {
    /// Title, in large letters.
    pub title: String,
    /// Subtitle.
    pub subtitle: Option<String>,
    /// Bottom axis of all panels.
    pub x: ChartAxis,
    /// Left axis of point panels.
    pub y: ChartAxis,
    /// Panels, in reading order.
    pub panels: Vec<GridPanel>,
}

/// One small chart.
#[derive(Clone, Debug, PartialEq)]
pub struct GridPanel {
    /// Title, in at most two lines.
    pub title: String,
    /// Data of the panel.
    pub marks: GridMarks,
}

/// Data of a small chart. A series has the same index in every panel. It is empty in a panel that
/// has no values of the series.
#[derive(Clone, Debug, PartialEq)]
pub enum GridMarks {
    /// Points in the plane.
    Points(Vec<PointSeries>),
    /// Frequencies of values, or the values themselves if there are few.
    Values(Vec<HistogramSeries>),
    /// Values in order.
    Sequence(ValueSequence),
}

/// Values in order with the detected levels and spikes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ValueSequence {
    /// Values; the first is at 0 on the bottom axis.
    pub values: Vec<f64>,
    /// Distance between consecutive values on the bottom axis.
    pub step: f64,
    /// Indices of spikes, ascending.
    pub spikes: Vec<usize>,
    /// Ranges of indices, each with the level of its values.
    pub levels: Vec<(Range<usize>, f64)>,
    /// Index of the first value in the shaded part, which extends to the end.
    pub shaded_from: Option<usize>,
}

/// Extents of the bottom axis and the left axis of a panel. The second is `None` for panels of
/// values: they have no left axis to share.
type PanelExtents = (AxisExtent, Option<AxisExtent>);

enum PanelData<'a> {
    Points(PointData<'a>),
    Values(ValueData<'a>),
    Sequence(SequenceData<'a>),
}

impl PanelData<'_> {
    fn names(&self) -> Vec<&str> {
        match self {
            Self::Points(data) => data.names(),
            Self::Values(data) => data.names(),
            Self::Sequence(_) => Vec::new(),
        }
    }

    fn legend(&self) -> Vec<LegendKey> {
        match self {
            Self::Points(data) => data.legend(LegendSwatch::Points),
            Self::Values(data) if data.has_few_values() => data.legend(LegendSwatch::Points),
            Self::Values(data) => data.legend(LegendSwatch::Area),
            Self::Sequence(_) => Vec::new(),
        }
    }

    fn count_shown(&self) -> usize {
        match self {
            Self::Points(data) => data.count_shown(),
            Self::Values(data) => data.count_shown(),
            Self::Sequence(data) => data.count_shown(),
        }
    }

    fn count_omitted(&self) -> usize {
        match self {
            Self::Points(data) => data.count_omitted(),
            Self::Values(data) => data.count_omitted(),
            Self::Sequence(data) => data.sequence.values.len() - data.count_shown(),
        }
    }

    fn extents(&self) -> Option<PanelExtents> {
        match self {
            Self::Points(data) => data.extents(false).map(|(x, y)| (x, Some(y))),
            Self::Values(data) => data.extent().map(|x| (x, None)),
            Self::Sequence(data) => data.extents().map(|(x, y)| (x, Some(y))),
        }
    }

    /// Draws the panel. Its axes have no labels, because all panels share the labels.
    fn draw(&self, svg: &mut SvgWriter, sheet: PixelRect, (x, y): PanelExtents) {
        let plane = |axes: [&ChartAxis; 2]| {
            let [x_axis, y_axis] = axes.map(ChartAxis::without_label);
            Some(PointPlane::lay_out(sheet, (&x_axis, x), (&y_axis, y?)))
        };
        match self {
            Self::Values(data) => data.draw(svg, sheet, x, LabelPlacement::OfSheet),
            Self::Sequence(data) => {
                if let Some(plane) = plane([data.x, data.y]) {
                    data.draw_shade(svg, &plane.area);
                    plane.draw_axes(svg);
                    data.draw(svg, &plane.area);
                }
            }
            Self::Points(data) => {
                if let Some(plane) = plane([data.x, data.y]) {
                    plane.draw_axes(svg);
                    let radius = if data.count_shown() < 60 { 3.2 } else { 2.2 };
                    data.draw_points(svg, &plane.area, radius);
                }
            }
        }
    }
}

impl GridChart {
    fn panel_data(&self) -> impl Iterator<Item = PanelData<'_>> {
        self.panels.iter().map(|panel| match &panel.marks {
            GridMarks::Points(series) => {
                PanelData::Points(PointData { x: &self.x, y: &self.y, series })
            }
            GridMarks::Values(series) => PanelData::Values(ValueData::new(&self.x, series)),
            GridMarks::Sequence(sequence) => {
                PanelData::Sequence(SequenceData { x: &self.x, y: &self.y, sequence })
            }
        })
    }

    /// Extents of each panel; `None` for a panel without data.
    fn extents(&self) -> Vec<Option<PanelExtents>> {
        let panels: Vec<_> = self.panel_data().map(|data| data.extents()).collect();
        let shared_x = shared_extent(panels.iter().flatten().map(|(x, _)| *x));
        let shared_y = shared_extent(panels.iter().flatten().filter_map(|(_, y)| *y));
        let fitted =
            |(x, y): PanelExtents| (shared_x.unwrap_or(x), y.map(|y| shared_y.unwrap_or(y)));
        panels.into_iter().map(|extents| extents.map(fitted)).collect()
    }

    /// Note about panels with different axes.
    fn different_axes_note(&self) -> Option<String> {
        let extents = self.extents();
        let mut shown = extents.iter().flatten();
        let first = shown.next()?;
        let differs = shown.any(|other| other != first);
        differs.then(|| {
            "each panel has its own axis, because the values of the panels are too far apart"
                .to_owned()
        })
    }

    /// Label above all panels.
    fn top_label(&self) -> Option<String> {
        match self.panel_data().next()? {
            PanelData::Points(_) | PanelData::Sequence(_) => Some(self.y.full_label()),
            PanelData::Values(data) => data.height_unit().map(str::to_owned),
        }
    }
}

/// The common extent of all panels; `None` if it would squeeze the data of the panels too much.
fn shared_extent(panels: impl Iterator<Item = AxisExtent>) -> Option<AxisExtent> {
    let extents: Vec<AxisExtent> = panels.collect();
    let span = |extent: &AxisExtent| extent.high - extent.low;
    let longest = extents.iter().map(span).fold(0.0, f64::max);
    let shared = extents.into_iter().reduce(|shared, extent| {
        shared.extended_to_projected(extent.low).extended_to_projected(extent.high)
    })?;
    (span(&shared) <= longest * MAX_SHARED_FACTOR).then_some(shared)
}

/// Draws the title of a panel and returns the remaining area below.
fn draw_title(svg: &mut SvgWriter, title: &str, area: PixelRect) -> PixelRect {
    let lines = wrap_text(title, area.width(), TITLE_PX, 2).lines;
    let mut y = area.top;
    for line in &lines {
        y += TITLE_LINE;
        let at = (area.left, y - TITLE_LINE * 0.27);
        svg.write_text(&line.text, at, TITLE_PX, TextAnchor::Start, INK);
    }
    // If there is enough room, reserve two lines for every title. Then the plots of a row are
    // aligned at the top.
    let lines = if area.height() > 130.0 { 2 } else { lines.len() };
    let top = area.top + lines as f64 * TITLE_LINE + 4.0;
    PixelRect::new(area.left, top, area.right, area.bottom.max(top + 8.0))
}

impl SheetContent for GridChart {
    fn header(&self) -> ChartHeader<'_> {
        let omitted = self.panel_data().map(|data| data.count_omitted()).sum();
        let omitted = omitted_note(omitted, &[self.x.scale, self.y.scale]);
        let notes: Vec<String> = self.different_axes_note().into_iter().chain(omitted).collect();
        let note = Some(notes.join("; ")).filter(|note| !note.is_empty());
        let legend = self.panel_data().next().map(|data| data.legend()).unwrap_or_default();
        ChartHeader { title: &self.title, subtitle: self.subtitle.as_deref(), note, legend }
    }

    fn summary(&self) -> String {
        let panels = format_count(self.panels.len(), "panel", "s");
        let values: usize = self.panel_data().map(|data| data.count_shown()).sum();
        let titles: Vec<&str> = self.panels.iter().map(|panel| &*panel.title).collect();
        let values = format_count(values, "value", "s");
        let names = self.panel_data().next().map(|data| join_names(&data.names()));
        let series = names.filter(|names| !names.is_empty());
        let of_series = series.map_or(String::new(), |names| format!(" of {names}"));
        format!("{panels} with {values}{of_series}: {}.", join_names(&titles))
    }

    fn is_empty(&self) -> bool {
        self.panel_data().all(|data| data.count_shown() == 0)
    }

    fn draw(&self, svg: &mut SvgWriter, area: PixelRect) {
        let label = self.top_label();
        draw_left_label(svg, area, label.as_deref().unwrap_or_default());
        draw_bottom_label(svg, area, area.bottom, &self.x.full_label());
        let top = area.top + label.map_or(0.0, |_| TOP_STRIP);
        let below = PixelRect::new(area.left, top, area.right, area.bottom - TOP_STRIP);
        let layout = GridLayout::for_panels(self.panels.len(), below);
        // The number of panels that fit.
        let capacity = layout.columns * layout.rows;
        let panels = self.panels.iter().zip(self.panel_data()).zip(self.extents());
        for (index, ((panel, data), extents)) in panels.enumerate().take(capacity) {
            let panel_area = layout.panel_rect(index);
            let more = self.panels.len() - index;
            if index + 1 == capacity && more > 1 {
                draw_message(svg, &format!("{more} more do not fit"), panel_area, MESSAGE_PX);
                break;
            }
            svg.start_group("panel").end_with(|svg| {
                let plot = draw_title(svg, &panel.title, panel_area);
                match extents {
                    Some(extents) => data.draw(svg, plot, extents),
                    None => draw_message(svg, "no data", plot, MESSAGE_PX),
                }
            });
        }
    }

    fn natural_width(&self) -> u32 {
        if self.panels.len() > 9 { FOUR_COLUMNS_PX } else { ImageSize::default().width_px }
    }

    fn natural_height(&self, width: f64) -> f64 {
        GridLayout::natural_height(self.panels.len(), width) + 2.0 * TOP_STRIP
    }
}

// Panels with the values of a process in order. Spikes are hollow points, each level is a line, and
// the steady part is shaded.

struct SequenceData<'a> {
    x: &'a ChartAxis,
    y: &'a ChartAxis,
    sequence: &'a ValueSequence,
}

impl SequenceData<'_> {
    fn can_show_value(&self, value: f64) -> bool {
        can_show(self.y.scale, value)
    }

    fn count_shown(&self) -> usize {
        self.sequence.values.iter().filter(|value| self.can_show_value(**value)).count()
    }

    /// Values that can be shown and are not spikes, with their indices.
    fn regular_values(&self) -> impl Iterator<Item = (usize, f64)> {
        let values = self.sequence.values.iter().copied().enumerate();
        values.filter(move |(index, value)| {
            self.can_show_value(*value) && self.sequence.spikes.binary_search(index).is_err()
        })
    }

    /// Extents of both axes for all values except spikes. Spikes beyond the extents are drawn at
    /// the edge.
    fn extents(&self) -> Option<(AxisExtent, AxisExtent)> {
        let levels = self.sequence.levels.iter().map(|(_, level)| *level);
        let shown = self.regular_values().map(|(_, value)| value).chain(levels);
        let y = AxisExtent::of_data(self.y.scale, shown, 0.06)?;
        let end = self.sequence.values.len() as f64 * self.sequence.step;
        let x = AxisExtent::of_values(self.x.scale, [0.0, end])?;
        Some((x.with_padding(0.01), y))
    }

    /// Position of a value in pixels. Values beyond the plot are drawn at its edge.
    fn place_value(&self, area: &PlotArea, index: usize, value: f64) -> (f64, f64) {
        let (x, y) = area.point_at(index as f64 * self.sequence.step, value);
        (x, y.clamp(area.rect.top, area.rect.bottom))
    }

    fn draw_shade(&self, svg: &mut SvgWriter, area: &PlotArea) {
        let Some(from) = self.sequence.shaded_from else { return };
        let left = area.x.pixel_at(from as f64 * self.sequence.step);
        let rect = PixelRect { left, right: area.rect.right.max(left), ..area.rect };
        svg.start_rect("shade", rect).set_text("fill", BAND).end_empty();
    }

    fn draw(&self, svg: &mut SvgWriter, area: &PlotArea) {
        let ValueSequence { values, spikes, levels, .. } = self.sequence;
        let colour = SeriesStyle::of_series(0).color();
        let stride = values.len().div_ceil(MAX_POINTS).max(1);
        let drawn = self.regular_values().filter(|(index, _)| index.is_multiple_of(stride));
        let dots = drawn.map(|(index, value)| {
            let (x, y) = self.place_value(area, index, value);
            format!("M{x:.1} {y:.1}h0")
        });
        svg.start_path("points", &dots.collect::<String>())
            .set_text("stroke", &colour)
            .set_text("stroke-linecap", "round")
            .set_number("stroke-width", 2.2)
            .set_number("stroke-opacity", 0.7)
            .end_empty();
        for spike in spikes {
            let value = values.get(*spike).filter(|value| self.can_show_value(**value));
            let Some(value) = value else { continue };
            svg.start_circle("spike", self.place_value(area, *spike, *value), 2.0)
                .set_text("fill", PAPER)
                .set_text("stroke", &colour)
                .end_empty();
        }
        for (points, level) in levels.iter().filter(|(_, level)| self.can_show_value(*level)) {
            let [from, to] =
                [points.start, points.end].map(|index| self.place_value(area, index, *level));
            svg.start_line("level", from, to)
                .set_stroke(INK, 1.4)
                .end_with_tooltip(&format!("level {}", format_figure(*level)));
        }
    }
}

// Layout of a grid: one to four columns, depending on the number of panels and the width of the
// sheet.

/// Minimum width of a readable panel.
const MIN_WIDTH_PX: f64 = 150.0;
/// Minimum height of a readable panel.
const MIN_HEIGHT_PX: f64 = 96.0;
/// Preferred height of a panel, including the gap below.
const NATURAL_HEIGHT_PX: f64 = 204.0;
/// Gap in pixels between panels.
const GAP_PX: f64 = 22.0;

/// Layout of panels on a sheet.
struct GridLayout {
    columns: usize,
    rows: usize,
    sheet: PixelRect,
}

impl GridLayout {
    /// Lays out as many of the panels as fit on `sheet` at a readable size.
    fn for_panels(panels: usize, sheet: PixelRect) -> Self {
        let columns = column_count(panels, sheet.width());
        let fitting = (sheet.height() / MIN_HEIGHT_PX).max(1.0) as usize;
        Self { columns, rows: panels.div_ceil(columns).clamp(1, fitting), sheet }
    }

    /// Area of the panel with this index, in reading order.
    fn panel_rect(&self, index: usize) -> PixelRect {
        let (row, column) = (index / self.columns, index % self.columns);
        let column_pitch = (self.sheet.width() + GAP_PX) / self.columns as f64;
        let row_height = self.sheet.height() / self.rows as f64;
        let left = self.sheet.left + column as f64 * column_pitch;
        let top = self.sheet.top + row as f64 * row_height;
        let gap = GAP_PX.min(row_height / 4.0);
        PixelRect::new(left, top, left + column_pitch - GAP_PX, top + row_height - gap)
    }

    /// Preferred height of this many panels on a sheet of the given width.
    fn natural_height(panels: usize, width: f64) -> f64 {
        panels.div_ceil(column_count(panels, width)) as f64 * NATURAL_HEIGHT_PX
    }
}

/// Number of columns, which grows with the number of panels. All panels have the same size.
fn column_count(panels: usize, width: f64) -> usize {
    let wanted = match panels {
        0 | 1 => 1,
        2..=4 => 2,
        5..=9 => 3,
        _ => 4,
    };
    wanted.min((width / MIN_WIDTH_PX) as usize).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(panels: usize, width: f64, height: f64) -> (usize, usize) {
        let layout = GridLayout::for_panels(panels, PixelRect::new(0.0, 0.0, width, height));
        (layout.columns, layout.rows)
    }

    #[test]
    fn columns_follow_the_number_of_panels_and_the_width() {
        let natural = |panels| grid(panels, 1200.0, GridLayout::natural_height(panels, 1200.0));
        assert_eq!(
            [1, 2, 4, 5, 9, 10, 14, 24].map(natural),
            [(1, 1), (2, 1), (2, 2), (3, 2), (3, 3), (4, 3), (4, 4), (4, 6)]
        );
        assert_eq!(grid(14, 320.0, 4000.0), (2, 7));
    }

    #[test]
    fn panels_lie_inside_of_the_sheet_and_apart() {
        let sheet = PixelRect::new(10.0, 20.0, 910.0, 620.0);
        let layout = GridLayout::for_panels(6, sheet);
        let rects: Vec<PixelRect> = (0..6).map(|index| layout.panel_rect(index)).collect();
        assert!(rects[0].right < rects[1].left && rects[0].bottom < rects[3].top);
        assert!((rects[2].right - sheet.right).abs() < 1e-9);
        assert!(rects[5].bottom <= sheet.bottom);
    }

    #[test]
    fn a_low_sheet_has_places_for_the_first_panels_only() {
        let layout = GridLayout::for_panels(24, PixelRect::new(0.0, 0.0, 800.0, 200.0));
        assert_eq!(layout.columns * layout.rows, 8);
    }
}
