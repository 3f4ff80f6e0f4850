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
// it draws. Charts share `sheet` and `header` for everything around the chart; `axis`, `ticks` and
// `axes` for the axes; `banded` for plots with categories or rows; `style` and `svg` for the marks.
// The small charts of a grid also use `point_chart` and `histogram_chart`.
mod axes;
mod axis;
mod banded;
mod bar_chart;
mod box_chart;
mod category_labels;
mod chart;
mod color;
mod distribution;
mod flame_chart;
mod forest_chart;
mod format;
mod grid_chart;
mod header;
mod histogram_chart;
#[cfg(feature = "png")]
mod png;
mod point_chart;
mod runs_chart;
mod sheet;
mod style;
mod svg;
mod text;
mod ticks;
mod trend_axis;
mod trend_chart;
mod trend_marks;
mod trend_points;

pub use axis::{AxisScale, ChartAxis};
pub use bar_chart::{BarCategory, BarChart, ChartBar};
pub use box_chart::{BoxCategory, BoxChart, BoxSeries};
pub use chart::AnyChart;
pub use color::{RgbColor, page_colors};
pub use flame_chart::{FlameChart, FlameFrame, FrameColoring};
pub use forest_chart::{ForestChart, ForestRow, ForestStrips};
pub use grid_chart::{GridChart, GridMarks, GridPanel, ValueSequence};
pub use histogram_chart::{HistogramChart, HistogramSeries};
#[cfg(feature = "png")]
pub use png::PlotError;
pub use point_chart::{ChartPoint, LineChart, PointSeries, ScatterChart};
pub use runs_chart::RunsChart;
pub use sheet::ImageSize;
pub use style::VerdictMark;
pub use text::text_width;
pub use trend_axis::TrendAxis;
pub use trend_chart::{TrendChart, TrendLevel};
pub use trend_marks::{TrendChange, TrendNote, TrendNoteKind, TrendState};
pub use trend_points::{TrendDetail, TrendPoint};
