//! Draws the frequencies of values, or the values themselves if there are few. One or two series
//! share a plot of bars. Three or more series have one row each over a common axis, because more
//! than two overlapping histograms are unreadable.

use crate::ChartAxis;
use crate::header::{ChartHeader, LegendKey, LegendSwatch, omitted_note};
use crate::histogram_bars::LabelPlacement;
use crate::page::{SheetContent, format_count, join_names};
use crate::svg::{PixelRect, SvgWriter};
use crate::value_data::{HistogramSeries, ValueData};

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

impl HistogramChart {
    fn data(&self) -> ValueData<'_> {
        ValueData::new(&self.x, &self.series)
    }
}

impl SheetContent for HistogramChart {
    fn header(&self) -> ChartHeader<'_> {
        let data = self.data();
        let legend = if data.uses_rows() {
            Vec::new()
        } else {
            LegendKey::legend_keys(&data.names(), LegendSwatch::Area)
        };
        ChartHeader {
            title: &self.title,
            subtitle: self.subtitle.as_deref(),
            note: omitted_note(data.count_omitted(), &[data.scale()]),
            legend,
        }
    }

    fn summary(&self) -> String {
        let data = self.data();
        let values = format_count(data.count_shown(), "value", "s");
        let kind = if data.has_few_values() { "Strip chart" } else { "Histogram" };
        format!(
            "{kind} of {values} in {} series: {}.",
            self.series.len(),
            join_names(&data.names())
        )
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
        self.data().natural_height()
    }
}
