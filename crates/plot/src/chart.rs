//! The one type a caller needs: a chart of any kind, and the two things it can become.
//! What a kind of chart looks like is in the file of that kind; the sheet around it in `page`.

use crate::page::Size;
use crate::page::{self, Figure};
use crate::svg::Medium;
use crate::{
    BarChart, BoxChart, FlameChart, ForestChart, GridChart, HistogramChart, LineChart, RunsChart,
    ScatterChart, TrendChart,
};

/// A chart of any kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Chart {
    /// Distributions side by side.
    Box(BoxChart),
    /// Points in the plane.
    Scatter(ScatterChart),
    /// Points joined by lines, with error bars.
    Line(LineChart),
    /// Grouped bars with intervals.
    Bar(BarChart),
    /// Estimates with intervals against a reference.
    Forest(ForestChart),
    /// How often values occur.
    Histogram(HistogramChart),
    /// Values in the order in which they were measured, with a box for each series.
    Runs(RunsChart),
    /// Where a program spends its time.
    Flame(FlameChart),
    /// A small chart for each of many cases.
    Grid(GridChart),
    /// The course of a figure over revisions, with its changes.
    Trend(TrendChart),
}

impl Chart {
    /// The chart as SVG text. The same data and size always give the same text.
    pub fn svg(&self, size: Size) -> String {
        page::render(self.figure(), size, Medium::File)
    }

    /// The chart as SVG text with letters as outlines: it looks the same in every program, with or without
    /// fonts, but its words can be neither selected nor searched.
    pub fn svg_outlined(&self, size: Size) -> String {
        page::render(self.figure(), size, Medium::Painter)
    }

    /// The chart as SVG text to stand inside of an HTML page, `width_px` wide and as high as it wants.
    /// Its colours are variables that the page must set, listed in [`page_colours`](crate::page_colours) with
    /// their values on white paper. Its own ids begin with `id`, which must be another one for every chart
    /// of the page.
    pub fn svg_on_page(&self, width_px: u32, id: &str) -> String {
        let medium = Medium::Page(id.to_owned());
        page::render_in_full(self.figure(), width_px, medium, true)
    }

    /// The same below a heading of the page that says what the chart shows: without a title of its own.
    pub fn svg_below_heading(&self, width_px: u32, id: &str) -> String {
        let medium = Medium::Page(id.to_owned());
        page::render_in_full(self.figure(), width_px, medium, false)
    }

    /// The chart as the bytes of a PNG file of exactly `size`.
    ///
    /// # Errors
    /// [`PlotError`](crate::PlotError) when the size is zero or larger than can be painted.
    #[cfg(feature = "png")]
    pub fn png(&self, size: Size) -> Result<Vec<u8>, crate::PlotError> {
        self.png_zoomed(size, 1)
    }

    /// The chart laid out for `size` and painted `zoom` times as large, for screens of high density
    /// and for print: the file has `zoom * size` pixels.
    ///
    /// # Errors
    /// As for [`Chart::png`].
    #[cfg(feature = "png")]
    pub fn png_zoomed(&self, size: Size, zoom: u32) -> Result<Vec<u8>, crate::PlotError> {
        crate::png::encode(&self.svg_outlined(size), size, zoom)
    }

    /// A size at which every label of this chart has room: 960 wide, or 1280 for many small charts, and as
    /// high as the number of categories or rows asks for.
    pub fn natural_size(&self) -> Size {
        let figure = self.figure();
        page::natural_size(figure, figure.natural_width(), &Medium::File)
    }

    fn figure(&self) -> &dyn Figure {
        match self {
            Self::Box(chart) => chart,
            Self::Scatter(chart) => chart,
            Self::Line(chart) => chart,
            Self::Bar(chart) => chart,
            Self::Forest(chart) => chart,
            Self::Histogram(chart) => chart,
            Self::Runs(chart) => chart,
            Self::Flame(chart) => chart,
            Self::Grid(chart) => chart,
            Self::Trend(chart) => chart,
        }
    }
}
