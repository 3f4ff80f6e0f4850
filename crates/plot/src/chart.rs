//! Defines the main type of this crate: a chart of any kind, with its output formats. `sheet` draws
//! the sheet around the chart. Each kind of chart has a module of its own.

use crate::header::ChartHeader;
use crate::sheet::{ImageSize, SheetContent, draw_sheet, natural_size};
use crate::svg::OutputMedium;
use crate::{
    BarChart, BoxChart, FlameChart, ForestChart, GridChart, HistogramChart, LineChart, RunsChart,
    ScatterChart, TrendChart,
};

/// A chart of any kind.
#[derive(Clone, Debug, PartialEq)]
pub enum AnyChart {
    /// Distributions side by side.
    Box(BoxChart),
    /// Points in the plane.
    Scatter(ScatterChart),
    /// Points connected by lines, with error bars.
    Line(LineChart),
    /// Grouped bars with intervals.
    Bar(BarChart),
    /// Estimates with intervals against a reference.
    Forest(ForestChart),
    /// Frequencies of values.
    Histogram(HistogramChart),
    /// Values in measurement order, with a box for each series.
    Runs(RunsChart),
    /// Where a program spends its time.
    Flame(FlameChart),
    /// A small chart for each of many cases.
    Grid(GridChart),
    /// A metric over revisions, with its changes.
    Trend(TrendChart),
}

impl AnyChart {
    /// Renders the chart as SVG. The output is deterministic.
    pub fn svg(&self, size: ImageSize) -> String {
        let content = self.as_content();
        draw_sheet(content, content.header(), size, OutputMedium::File)
    }

    /// Renders the chart as SVG with text as outlines. The chart looks the same in every program,
    /// regardless of fonts, but its text cannot be selected or searched.
    pub fn svg_outlined(&self, size: ImageSize) -> String {
        let content = self.as_content();
        draw_sheet(content, content.header(), size, OutputMedium::Painter)
    }

    /// Renders the chart as SVG for an HTML page, `width_px` wide and with its natural height. The
    /// colors are CSS variables that the page must set; [`page_colors`](crate::page_colors) lists
    /// them with values for white paper. The element IDs start with `id`, which must be unique on
    /// the page.
    pub fn svg_on_page(&self, width_px: u32, id: &str) -> String {
        self.draw_on_page(self.as_content().header(), width_px, id)
    }

    /// Same as [`AnyChart::svg_on_page`], without a title, for use below a heading of the page.
    pub fn svg_below_heading(&self, width_px: u32, id: &str) -> String {
        let header = ChartHeader { title: "", ..self.as_content().header() };
        self.draw_on_page(header, width_px, id)
    }

    fn draw_on_page(&self, header: ChartHeader<'_>, width_px: u32, id: &str) -> String {
        let content = self.as_content();
        let medium = OutputMedium::Page(id.to_owned());
        let size = natural_size(content, &header, width_px, &medium);
        draw_sheet(content, header, size, medium)
    }

    /// Renders the chart as a PNG file of exactly `size`.
    ///
    /// # Errors
    /// Returns [`PlotError`](crate::PlotError) if the size is zero or too large to paint.
    #[cfg(feature = "png")]
    pub fn png(&self, size: ImageSize) -> Result<Vec<u8>, crate::PlotError> {
        self.png_zoomed(size, 1)
    }

    /// Renders the chart laid out for `size` and enlarged by `zoom`, for high-density screens and
    /// print. The file has `zoom * size` pixels.
    ///
    /// # Errors
    /// See [`AnyChart::png`].
    #[cfg(feature = "png")]
    pub fn png_zoomed(&self, size: ImageSize, zoom: u32) -> Result<Vec<u8>, crate::PlotError> {
        crate::png::encode_png(&self.svg_outlined(size), size, zoom)
    }

    /// A size with room for every label of this chart. The width is 960, or 1280 for many small
    /// charts. The height depends on the number of categories or rows.
    pub fn natural_size(&self) -> ImageSize {
        let content = self.as_content();
        natural_size(content, &content.header(), content.natural_width(), &OutputMedium::File)
    }

    fn as_content(&self) -> &dyn SheetContent {
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
