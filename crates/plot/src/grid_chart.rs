//! Draws small multiples (E. Tufte, "Envisioning Information", 1990): many small charts of the same
//! kind, called panels. All panels share an axis if the data of every panel have enough room on it.

use crate::axes::{PointPlane, draw_bottom_label};
use crate::color::{INK, MUTED};
use crate::header::{ChartHeader, LegendKey, LegendSwatch, omitted_note};
use crate::histogram_bars::LabelPlacement;
use crate::page::{SheetContent, format_count, join_names};
use crate::point_series::{PointData, PointSeries};
use crate::scale::AxisExtent;
use crate::svg::{PixelRect, SvgWriter, TextAnchor, TextLine};
use crate::text::{truncate_end, wrap_text};
use crate::value_data::ValueData;
use crate::{ChartAxis, HistogramSeries, ImageSize, ValueSequence};

/// Width of a sheet with four columns; sheets with fewer columns use the default width.
const FOUR_COLUMNS_PX: u32 = 1280;
const TITLE_PX: f64 = 12.5;
const TITLE_LINE: f64 = 15.0;
const LABEL_PX: f64 = 13.0;
/// Height of the labels above and below all panels.
const LABEL_STRIP: f64 = 26.0;
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

/// Extents of the bottom axis and the left axis of a panel. The second is `None` for panels of
/// values: they have no left axis to share.
type PanelExtents = (AxisExtent, Option<AxisExtent>);

enum PanelData<'a> {
    Points(PointData<'a>),
    Values(ValueData<'a>),
    Sequence(&'a ValueSequence, [&'a ChartAxis; 2]),
}

impl PanelData<'_> {
    fn names(&self) -> Vec<&str> {
        match self {
            Self::Points(data) => data.names(),
            Self::Values(data) => data.names(),
            Self::Sequence(..) => Vec::new(),
        }
    }

    fn legend(&self) -> Vec<LegendKey> {
        match self {
            Self::Points(data) => data.legend(LegendSwatch::Points),
            Self::Values(data) if data.has_few_values() => {
                LegendKey::legend_keys(&data.names(), LegendSwatch::Points)
            }
            Self::Values(data) => LegendKey::legend_keys(&data.names(), LegendSwatch::Area),
            Self::Sequence(..) => Vec::new(),
        }
    }

    fn count_shown(&self) -> usize {
        match self {
            Self::Points(data) => data.count_shown(),
            Self::Values(data) => data.count_shown(),
            Self::Sequence(data, [_, y]) => data.count_shown(y),
        }
    }

    fn count_omitted(&self) -> usize {
        match self {
            Self::Points(data) => data.count_omitted(),
            Self::Values(data) => data.count_omitted(),
            Self::Sequence(data, [_, y]) => data.values.len() - data.count_shown(y),
        }
    }

    fn extents(&self) -> Option<PanelExtents> {
        match self {
            Self::Points(data) => data.extents(false).map(|(x, y)| (x, Some(y))),
            Self::Values(data) => data.extent().map(|x| (x, None)),
            Self::Sequence(data, [x, y]) => data.axis_extents(x, y).map(|(x, y)| (x, Some(y))),
        }
    }

    fn draw(&self, svg: &mut SvgWriter, area: PixelRect, (x, y): PanelExtents) {
        match self {
            Self::Values(data) => data.draw(svg, area, x, LabelPlacement::OfSheet),
            Self::Sequence(data, axes) => {
                if let Some(plane) = bare_plane(*axes, area, (x, y)) {
                    data.draw(svg, &plane, axes[1]);
                }
            }
            Self::Points(data) => {
                let Some(plane) = bare_plane([data.x, data.y], area, (x, y)) else {
                    return;
                };
                plane.draw_axes(svg);
                let radius = if data.count_shown() < 60 { 3.2 } else { 2.2 };
                for (index, series) in data.series.iter().enumerate() {
                    data.draw_markers(svg, &plane, series, series.style(index), radius);
                }
            }
        }
    }
}

/// Lays out the axes of a panel. The axes have no labels here, because all panels share the labels.
fn bare_plane(axes: [&ChartAxis; 2], area: PixelRect, (x, y): PanelExtents) -> Option<PointPlane> {
    let bare = axes.map(|axis| ChartAxis { label: String::new(), scale: axis.scale.clone() });
    Some(PointPlane::lay_out(area, (&bare[0], x), (&bare[1], y?)))
}

impl GridChart {
    fn panel_data(&self) -> impl Iterator<Item = PanelData<'_>> {
        self.panels.iter().map(|panel| match &panel.marks {
            GridMarks::Points(series) => {
                PanelData::Points(PointData { x: &self.x, y: &self.y, series })
            }
            GridMarks::Values(series) => PanelData::Values(ValueData::new(&self.x, series)),
            GridMarks::Sequence(sequence) => PanelData::Sequence(sequence, [&self.x, &self.y]),
        })
    }

    /// Extents of each panel; `None` for a panel without data.
    fn extents(&self) -> Vec<Option<PanelExtents>> {
        let panels: Vec<Option<PanelExtents>> =
            self.panel_data().map(|data| data.extents()).collect();
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
            PanelData::Points(_) | PanelData::Sequence(..) => Some(self.y.full_label()),
            PanelData::Values(data) => data.height_unit().map(str::to_owned),
        }
    }

    fn draw_labels(&self, svg: &mut SvgWriter, area: PixelRect) {
        let label = truncate_end(&self.top_label().unwrap_or_default(), area.width(), LABEL_PX);
        svg.start_group("y-label").end_with(|svg| {
            svg.write_text(
                &TextLine::at(&label, area.left, area.top + LABEL_PX, LABEL_PX).with_color(INK),
            );
        });
        draw_bottom_label(svg, area, area.bottom, &self.x.full_label());
    }

    /// Area of the sheet available to panels.
    fn panel_area(&self, area: PixelRect) -> PixelRect {
        let top = self.top_label().map_or(0.0, |_| LABEL_STRIP);
        PixelRect::new(area.left, area.top + top, area.right, area.bottom - LABEL_STRIP)
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
        svg.write_text(
            &TextLine::at(&line.text, area.left, y - TITLE_LINE * 0.27, TITLE_PX).with_color(INK),
        );
    }
    // If there is enough room, reserve two lines for every title. Then the plots of a row are
    // aligned at the top.
    let lines = if area.height() > 130.0 { 2 } else { lines.len() };
    let top = area.top + lines as f64 * TITLE_LINE + 4.0;
    PixelRect::new(area.left, top, area.right, area.bottom.max(top + 8.0))
}

fn draw_message(svg: &mut SvgWriter, message: &str, area: PixelRect) {
    let message = truncate_end(message, area.width(), LABEL_PX);
    let text = TextLine::at(&message, area.middle_x(), area.middle_y(), LABEL_PX);
    svg.write_text(&text.with_anchor(TextAnchor::Middle).with_color(MUTED));
}

impl SheetContent for GridChart {
    fn header(&self) -> ChartHeader<'_> {
        let omitted = self.panel_data().map(|data| data.count_omitted()).sum();
        let omitted = omitted_note(omitted, &[&self.x.scale, &self.y.scale]);
        let notes: Vec<String> = self.different_axes_note().into_iter().chain(omitted).collect();
        let legend = self.panel_data().next().map(|data| data.legend());
        ChartHeader {
            title: &self.title,
            subtitle: self.subtitle.as_deref(),
            note: Some(notes.join("; ")).filter(|note| !note.is_empty()),
            legend: legend.unwrap_or_default(),
        }
    }

    fn summary(&self) -> String {
        let panels = format_count(self.panels.len(), "panel", "s");
        let values: usize = self.panel_data().map(|data| data.count_shown()).sum();
        let titles: Vec<&str> = self.panels.iter().map(|panel| &*panel.title).collect();
        let series =
            self.panel_data().next().map_or(String::new(), |data| join_names(&data.names()));
        let of_series = match series.as_str() {
            "" => String::new(),
            names => format!(" of {names}"),
        };
        format!(
            "{panels} with {}{of_series}: {}.",
            format_count(values, "value", "s"),
            join_names(&titles)
        )
    }

    fn is_empty(&self) -> bool {
        self.panel_data().all(|data| data.count_shown() == 0)
    }

    fn draw(&self, svg: &mut SvgWriter, area: PixelRect) {
        self.draw_labels(svg, area);
        let layout = GridLayout::for_panels(self.panels.len(), self.panel_area(area));
        let capacity = layout.capacity();
        let panels = self.panels.iter().zip(self.panel_data()).zip(self.extents());
        for (index, ((panel, data), extents)) in panels.enumerate().take(capacity) {
            let panel_area = layout.panel_rect(index);
            let more = self.panels.len() - index;
            if index + 1 == capacity && more > 1 {
                draw_message(svg, &format!("{more} more do not fit"), panel_area);
                break;
            }
            svg.start_group("panel").end_with(|svg| {
                let plot = draw_title(svg, &panel.title, panel_area);
                match extents {
                    Some(extents) => data.draw(svg, plot, extents),
                    None => draw_message(svg, "no data", plot),
                }
            });
        }
    }

    fn natural_width(&self) -> u32 {
        match self.panels.len() {
            0..=9 => ImageSize::default().width_px,
            _ => FOUR_COLUMNS_PX,
        }
    }

    fn natural_height(&self, width: f64) -> f64 {
        GridLayout::natural_height(self.panels.len(), width) + 2.0 * LABEL_STRIP
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
pub(crate) struct GridLayout {
    columns: usize,
    rows: usize,
    sheet: PixelRect,
}

impl GridLayout {
    /// Lays out as many of the panels as fit on `sheet` at a readable size.
    pub fn for_panels(panels: usize, sheet: PixelRect) -> Self {
        let columns = column_count(panels, sheet.width());
        let fitting = (sheet.height() / MIN_HEIGHT_PX).max(1.0) as usize;
        Self { columns, rows: panels.div_ceil(columns).clamp(1, fitting), sheet }
    }

    /// Number of panels that fit.
    pub fn capacity(&self) -> usize {
        self.columns * self.rows
    }

    /// Area of the panel with this index, in reading order.
    pub fn panel_rect(&self, index: usize) -> PixelRect {
        let (row, column) = (index / self.columns, index % self.columns);
        let column_pitch = (self.sheet.width() + GAP_PX) / self.columns as f64;
        let row_height = self.sheet.height() / self.rows as f64;
        let left = self.sheet.left + column as f64 * column_pitch;
        let top = self.sheet.top + row as f64 * row_height;
        let gap = GAP_PX.min(row_height / 4.0);
        PixelRect::new(left, top, left + column_pitch - GAP_PX, top + row_height - gap)
    }

    /// Preferred height of this many panels on a sheet of the given width.
    pub fn natural_height(panels: usize, width: f64) -> f64 {
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
        assert_eq!(layout.capacity(), 8);
    }
}
