//! Draws the sheet around every chart: background, accessible text, and at the top title, subtitle
//! and legend. The chart itself gets the remaining area.

use crate::color::{MUTED, PAPER};
use crate::header::ChartHeader;
use crate::svg::{OutputMedium, PixelRect, SvgWriter, TextAnchor, TextLine, format_decimal};

/// Margin in a separate file.
const MARGIN: f64 = 20.0;
/// Margin on a page. It is small, because the page has its own margins.
const MARGIN_ON_PAGE: f64 = 4.0;

/// Interface of a chart to the sheet.
pub(crate) trait SheetContent {
    /// Title, subtitle, notes and legend.
    fn header(&self) -> ChartHeader<'_>;

    /// Describes the chart in one or two sentences, for users of screen readers.
    fn summary(&self) -> String;

    /// ARIA role of the chart: an image, or a group of individually accessible parts.
    fn role(&self) -> &'static str {
        "img"
    }

    /// Whether there is nothing to show.
    fn is_empty(&self) -> bool;

    /// Draws axes and marks into `area`. Called only if there is something to show.
    fn draw(&self, svg: &mut SvgWriter, area: PixelRect);

    /// Preferred width of the whole sheet in a separate file, in pixels.
    fn natural_width(&self) -> u32 {
        ImageSize::default().width_px
    }

    /// Preferred height of the chart below its header, in pixels, for an area of this width.
    fn natural_height(&self, width: f64) -> f64;
}

/// Draws a complete sheet.
pub(crate) fn render_sheet(
    figure: &dyn SheetContent,
    size: ImageSize,
    medium: OutputMedium,
) -> String {
    draw_sheet(figure, figure.header(), size, medium)
}

/// Draws a sheet of the given width and natural height, with or without its title.
pub(crate) fn render_in_full(
    figure: &dyn SheetContent,
    width_px: u32,
    medium: OutputMedium,
    with_title: bool,
) -> String {
    let mut header = figure.header();
    if !with_title {
        header.title = "";
    }
    let size = size_below(figure, &header, width_px, &medium);
    draw_sheet(figure, header, size, medium)
}

fn draw_sheet(
    figure: &dyn SheetContent,
    header: ChartHeader<'_>,
    size: ImageSize,
    medium: OutputMedium,
) -> String {
    let margin = sheet_margin(&medium);
    let (width, height) = (f64::from(size.width_px.max(1)), f64::from(size.height_px.max(1)));
    let summary = figure.summary();
    let accessible_text = [figure.header().title, summary.as_str()].map(str::trim).join(". ");
    let (width_text, height_text) = (format_decimal(width), format_decimal(height));
    let attributes = [
        ("width", width_text.as_str()),
        ("height", height_text.as_str()),
        ("viewBox", &format!("0 0 {width_text} {height_text}")),
        ("role", figure.role()),
        ("aria-label", accessible_text.trim_start_matches(". ")),
    ];
    // A chart on a page needs no background, because the page has one. It also omits the title and
    // description, which repeat its ARIA label: a page can contain many charts.
    let is_separate_file = !matches!(medium, OutputMedium::Page(_));
    SvgWriter::write_document(medium, &attributes, |svg| {
        if is_separate_file {
            draw_paper(svg, header.title, &summary, (width, height));
        }
        let placed = header.lay_out(width - 2.0 * margin);
        placed.draw(svg, margin, margin);
        let top = margin + placed.height();
        let area = PixelRect::new(margin, top, width - margin, height - margin);
        if figure.is_empty() { draw_no_data(svg, area) } else { figure.draw(svg, area) }
    })
}

/// Draws the background of a chart in a separate file. Also writes text for programs that ignore
/// ARIA labels.
fn draw_paper(svg: &mut SvgWriter, title: &str, summary: &str, (width, height): (f64, f64)) {
    svg.start_element("title").end_with_text(title);
    svg.start_element("desc").end_with_text(summary);
    svg.start_element("rect")
        .set_number("width", width)
        .set_number("height", height)
        .set_text("fill", PAPER)
        .end_empty();
}

fn draw_no_data(svg: &mut SvgWriter, area: PixelRect) {
    let text = TextLine::at("no data", area.middle_x(), area.middle_y(), 15.0);
    svg.write_text(&text.with_anchor(TextAnchor::Middle).with_color(MUTED));
}

/// Size with this width and the natural height of the chart.
pub(crate) fn natural_size(
    figure: &dyn SheetContent,
    width_px: u32,
    medium: &OutputMedium,
) -> ImageSize {
    size_below(figure, &figure.header(), width_px, medium)
}

fn size_below(
    figure: &dyn SheetContent,
    header: &ChartHeader<'_>,
    width_px: u32,
    medium: &OutputMedium,
) -> ImageSize {
    let margin = sheet_margin(medium);
    let inner = f64::from(width_px) - 2.0 * margin;
    let header_px = header.lay_out(inner).height();
    let chart = if figure.is_empty() { 160.0 } else { figure.natural_height(inner) };
    let height_px = (header_px + chart + 2.0 * margin).ceil() as u32;
    ImageSize { width_px, height_px }
}

fn sheet_margin(medium: &OutputMedium) -> f64 {
    match medium {
        OutputMedium::File | OutputMedium::Painter => MARGIN,
        OutputMedium::Page(_) => MARGIN_ON_PAGE,
    }
}

// Phrases for the accessible summaries.

/// Formats a number with its noun and plural ending: `1 box`, `2 boxes`.
pub(crate) fn format_count(number: usize, noun: &str, plural_ending: &str) -> String {
    let ending = if number == 1 { "" } else { plural_ending };
    format!("{number} {noun}{ending}")
}

/// Joins at most six names by commas.
pub(crate) fn join_names(names: &[&str]) -> String {
    const MAX_NAMES: usize = 6;
    let shown = names.iter().take(MAX_NAMES).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(MAX_NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Width and height of an image in pixels (CSS pixels in SVG).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageSize {
    /// Width in pixels.
    pub width_px: u32,
    /// Height in pixels.
    pub height_px: u32,
}

impl Default for ImageSize {
    /// 960 by 640: a 3:2 image whose text is readable even at half that width.
    fn default() -> Self {
        Self { width_px: 960, height_px: 640 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_agree_in_number() {
        assert_eq!(format_count(1, "box", "es"), "1 box");
        assert_eq!(format_count(0, "value", "s"), "0 values");
        assert_eq!(join_names(&["a", "b"]), "a, b");
        assert_eq!(join_names(&["a"; 8]), "a, a, a, a, a, a and 2 more");
    }
}
