//! How often values occur, or the values themselves where they are few. One or two series share a plot of
//! bars; more of them get a row each over the same axis, because more than two overlapping histograms
//! cannot be read.

use crate::Axis;
use crate::header::{Header, Key, Swatch, omitted_note};
use crate::histogram_bars::Labels;
use crate::page::{Figure, count, list};
use crate::svg::{Rect, Svg};
use crate::value_data::{HistogramSeries, ValueData};

/// Histograms over one axis. Up to twenty values a series are drawn one by one: bars of two or three values
/// would have a shape by chance.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HistogramChart {
    /// What the chart shows, in large letters.
    pub title: String,
    /// A line of explanation.
    pub subtitle: Option<String>,
    /// The axis of the values. A category scale makes no sense here and is read as linear.
    pub x: Axis,
    /// The values, series by series.
    pub series: Vec<HistogramSeries>,
}

impl HistogramChart {
    fn data(&self) -> ValueData<'_> {
        ValueData::new(&self.x, &self.series)
    }
}

impl Figure for HistogramChart {
    fn header(&self) -> Header<'_> {
        let data = self.data();
        let legend = if data.in_rows() {
            Vec::new()
        } else {
            Key::list(&data.names(), Swatch::Area)
        };
        Header {
            title: &self.title,
            subtitle: self.subtitle.as_deref(),
            note: omitted_note(data.count_omitted(), &[data.scale()]),
            legend,
        }
    }

    fn summary(&self) -> String {
        let data = self.data();
        let values = count(data.count_shown(), "value", "s");
        let kind = if data.are_few() {
            "Strip chart"
        } else {
            "Histogram"
        };
        format!(
            "{kind} of {values} in {} series: {}.",
            self.series.len(),
            list(&data.names())
        )
    }

    fn is_empty(&self) -> bool {
        self.data().count_shown() == 0
    }

    fn draw(&self, svg: &mut Svg, area: Rect) {
        let data = self.data();
        if let Some(extent) = data.extent() {
            data.draw(svg, area, extent, Labels::Own);
        }
    }

    fn natural_height(&self, _width: f64) -> f64 {
        self.data().natural_height()
    }
}
