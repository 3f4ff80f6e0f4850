//! The little picture beside a name of the legend: it shows what the marks of the chart look like.

use crate::draw::{Element, PAPER, Rect, Style, Svg, hatched, hatched_tint};
use crate::forest_row::Mark;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Swatch {
    Box(Style),
    Bar(Style),
    Line(Style),
    Points(Style),
    Area(Style),
    /// An area that is a tint of its colour, without hatching.
    Tint(Style),
    Forest(Mark),
}

impl Swatch {
    /// Width in pixels, with the gap to the name.
    pub fn width(self) -> f64 {
        match self {
            Self::Box(_) | Self::Bar(_) | Self::Area(_) | Self::Tint(_) => 25.0,
            Self::Line(_) => 36.0,
            Self::Points(_) | Self::Forest(_) => 16.0,
        }
    }

    /// Draws right of `x`, centred on `y`.
    pub fn draw(self, svg: &mut Svg, x: f64, y: f64) {
        let rect = Rect::new(x, y - 6.0, x + 18.0, y + 6.0);
        match self {
            Self::Box(style) => {
                area(svg, rect, &hatched_tint(style), style).close();
                marker(svg, style, x + 9.0, y, 3.0);
            }
            Self::Bar(style) => area(svg, rect, &hatched(style), style).close(),
            Self::Tint(style) => area(svg, rect, &style.colour(), style)
                .num("fill-opacity", 0.45)
                .close(),
            Self::Area(style) => area(svg, rect, &style.colour(), style)
                .num("fill-opacity", 0.45)
                .set_some("stroke-dasharray", style.dash())
                .close(),
            Self::Line(style) => {
                svg.line((x, y), (x + 28.0, y))
                    .set("stroke", &style.colour())
                    .num("stroke-width", 2.0)
                    .set_some("stroke-dasharray", style.dash())
                    .close();
                marker(svg, style, x + 14.0, y, 4.5);
            }
            Self::Points(style) => marker(svg, style, x + 5.0, y, 4.5),
            Self::Forest(mark) => mark.draw(svg, x + 5.0, y, 5.0, None),
        }
    }
}

fn area<'a>(svg: &'a mut Svg, rect: Rect, fill: &str, style: Style) -> Element<'a> {
    svg.element("rect")
        .num("x", rect.left)
        .num("y", rect.top)
        .num("width", rect.width())
        .num("height", rect.height())
        .set("fill", fill)
        .set("stroke", &style.colour())
}

fn marker(svg: &mut Svg, style: Style, x: f64, y: f64, radius: f64) {
    svg.element("path")
        .set("d", &style.marker().path(x, y, radius))
        .set("fill", &style.colour())
        .set("stroke", PAPER)
        .num("stroke-width", if radius > 4.0 { 1.0 } else { 0.0 })
        .close();
}
