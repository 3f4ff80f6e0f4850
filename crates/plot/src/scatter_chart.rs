//! Draws points in the plane, with one marker and color per series.

use crate::ChartAxis;
use crate::header::{ChartHeader, LegendSwatch};
use crate::page::{SheetContent, format_count, join_names};
use crate::point_series::{PointData, PointSeries};
use crate::svg::{PixelRect, SvgWriter};

/// Points in the plane, without intervals. [`LineChart`](crate::LineChart) draws intervals.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScatterChart {
    /// Title, in large letters.
    pub title: String,
    /// Subtitle.
    pub subtitle: Option<String>,
    /// The bottom axis.
    pub x: ChartAxis,
    /// The left axis.
    pub y: ChartAxis,
    /// Points by series.
    pub series: Vec<PointSeries>,
}

impl ScatterChart {
    fn data(&self) -> PointData<'_> {
        PointData::new(&self.x, &self.y, &self.series)
    }
}

impl SheetContent for ScatterChart {
    fn header(&self) -> ChartHeader<'_> {
        ChartHeader {
            title: &self.title,
            subtitle: self.subtitle.as_deref(),
            ..self.data().header(LegendSwatch::Points)
        }
    }

    fn summary(&self) -> String {
        let data = self.data();
        let points = format_count(data.count_shown(), "point", "s");
        format!(
            "Scatter chart of {points} in {} series: {}.",
            self.series.len(),
            join_names(&data.names())
        )
    }

    fn is_empty(&self) -> bool {
        self.data().count_shown() == 0
    }

    fn draw(&self, svg: &mut SvgWriter, area: PixelRect) {
        let data = self.data();
        let Some(plane) = data.plane(area, false) else {
            return;
        };
        plane.draw_axes(svg);
        let (radius, opacity) = match data.count_shown() {
            0..200 => (4.4, 0.85),
            200..1000 => (3.0, 0.7),
            _ => (2.2, 0.55),
        };
        svg.start_group("series").set_number("opacity", opacity).end_with(|svg| {
            for (index, series) in self.series.iter().enumerate() {
                data.draw_markers(svg, &plane, series, series.style(index), radius);
            }
        });
    }

    fn natural_height(&self, _width: f64) -> f64 {
        PointData::NATURAL_HEIGHT_PX
    }
}
