//! Draws statistical charts as SVG and PNG: box plots, scatter and line charts, grouped bars,
//! forest plots, histograms, flame graphs, runs in order of execution, a metric over revisions, and
//! small multiples.
//!
//! A chart is plain data. [`AnyChart::svg`] and [`AnyChart::png`] draw it without any setup. Text
//! widths come from an embedded font, so the same data give the same bytes on every machine and
//! text does not overlap. Colors follow the palette of Okabe and Ito, which is safe for color-blind
//! readers. A marker, dash or hatching repeats everything that a color shows.
//! [`AnyChart::svg_on_page`] draws a chart for a page with a dark and a light theme. Start at
//! [`AnyChart`].
//!
//! ```
//! use speedwell_plot::{ChartAxis, BarCategory, ChartBar, BarChart, AnyChart, ImageSize};
//!
//! let chart = AnyChart::Bar(BarChart {
//!     title: "Requests per second".into(),
//!     value_axis: ChartAxis::linear("requests per second"),
//!     categories: vec![BarCategory {
//!         label: "hello world".into(),
//!         bars: vec![
//!             ChartBar { name: "old".into(), value: 51_200.0, low: Some(50_100.0), high: Some(52_300.0) },
//!             ChartBar { name: "new".into(), value: 54_800.0, low: Some(53_900.0), high: Some(55_700.0) },
//!         ],
//!     }],
//!     ..BarChart::default()
//! });
//! let svg = chart.svg(ImageSize { width_px: 600, height_px: 400 });
//! assert!(svg.starts_with("<svg"));
//! ```

// Each kind of chart has a module of its own, which holds its data, its extents and the layers that
// it draws. Charts share `sheet` for everything around the chart; `axis` and `axes` for the axes;
// `banded` for plots with categories or rows; `style` and `svg` for the marks. The small charts of a
// grid also use `point_chart` and `histogram_chart`.
mod axes;
mod axis;
mod banded;
mod bar_chart;
mod distribution;
mod flame_chart;
mod forest_chart;
mod format;
mod grid_chart;
mod histogram_chart;
mod point_chart;
mod sheet;
mod style;
mod svg;
mod text;
mod trend_chart;
mod trend_marks;
mod trend_points;

pub use axis::{AxisScale, ChartAxis};
pub use bar_chart::{BarCategory, BarChart, BoxCategory, BoxChart, BoxSeries, ChartBar};
pub use flame_chart::{FlameChart, FlameFrame, FrameColoring};
pub use forest_chart::{ForestChart, ForestRow, ForestStrips};
pub use grid_chart::{GridChart, GridMarks, GridPanel, ValueSequence};
pub use histogram_chart::{HistogramChart, HistogramSeries};
pub use point_chart::{ChartPoint, LineChart, PointSeries, RunsChart, ScatterChart};
pub use sheet::ImageSize;
pub use style::VerdictMark;
pub use svg::{RgbColor, page_colors};
pub use text::text_width;
pub use trend_chart::{SparkLevel, Sparkline, TrendChart, TrendLevel};
pub use trend_marks::{TrendChange, TrendNote, TrendNoteKind, TrendState};
pub use trend_points::{TrendAxis, TrendDetail, TrendPoint};

#[cfg(feature = "png")]
use resvg::{tiny_skia, usvg};
use sheet::{ChartHeader, SheetContent, draw_sheet, natural_size};
use svg::OutputMedium;

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
    /// Returns the title.
    pub fn title(&self) -> &str {
        self.as_content().header().title
    }

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
    /// colors are CSS variables that the page must set; [`page_colors`] lists them with values for
    /// white paper. The element IDs start with `id`, which must be unique on the page.
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

    /// Renders the chart as a PNG file, laid out for `size` and enlarged by `zoom`, for high-density
    /// screens and print. The file has `zoom * size` pixels. No fonts or other files of the system
    /// are read.
    ///
    /// # Errors
    /// Returns [`PlotError`] if the size is zero or too large to paint.
    #[cfg(feature = "png")]
    pub fn png_zoomed(&self, size: ImageSize, zoom: u32) -> Result<Vec<u8>, PlotError> {
        let [width_px, height_px] =
            [size.width_px, size.height_px].map(|px| u64::from(px) * u64::from(zoom));
        if !(1..=MAX_PIXELS).contains(&width_px.saturating_mul(height_px)) {
            return Err(PlotError(format!(
                "cannot rasterize a picture of {width_px} x {height_px} pixels: expected 1 to \
                 200,000,000 pixels"
            )));
        }
        let bug = |reason: &str| PlotError(format!("cannot rasterize the drawing: {reason}"));
        let mut pixels = tiny_skia::Pixmap::new(width_px as u32, height_px as u32)
            .ok_or_else(|| bug("a side is too long"))?;
        let tree = usvg::Tree::from_str(&self.svg_outlined(size), &usvg::Options::default())
            .map_err(|error| bug(&error.to_string()))?;
        let scale = tiny_skia::Transform::from_scale(zoom as f32, zoom as f32);
        resvg::render(&tree, scale, &mut pixels.as_mut());
        let png = pixels.encode_png();
        png.map_err(|error| PlotError(format!("cannot encode the picture as PNG: {error}")))
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

/// Maximum number of pixels. 200 million pixels take 800 MB while rendering.
#[cfg(feature = "png")]
const MAX_PIXELS: u64 = 200_000_000;

/// Why an image could not be rendered.
#[cfg(feature = "png")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlotError(String);

#[cfg(feature = "png")]
impl std::fmt::Display for PlotError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

#[cfg(feature = "png")]
impl std::error::Error for PlotError {}
