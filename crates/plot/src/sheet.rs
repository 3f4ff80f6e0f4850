//! Draws the sheet around every chart: background, accessible text, and a header with title,
//! subtitle and legend. The chart itself gets the remaining area.

use crate::color::{MUTED, PAPER};
use crate::header::ChartHeader;
use crate::svg::{OutputMedium, PixelRect, SvgWriter, TextAnchor, TextLine};
use crate::text::truncate_end;

/// Margin in a separate file.
const MARGIN: f64 = 20.0;
/// Margin on a page. It is small, because the page has its own margins.
const MARGIN_ON_PAGE: f64 = 4.0;

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

/// Draws a complete sheet with this header.
pub(crate) fn draw_sheet(
    content: &dyn SheetContent,
    header: ChartHeader<'_>,
    size: ImageSize,
    medium: OutputMedium,
) -> String {
    let margin = sheet_margin(&medium);
    let (width, height) = (f64::from(size.width_px.max(1)), f64::from(size.height_px.max(1)));
    let summary = content.summary();
    let accessible_text = [content.header().title, summary.as_str()].map(str::trim).join(". ");
    let attributes =
        [("role", content.role()), ("aria-label", accessible_text.trim_start_matches(". "))];
    // A chart on a page needs no background, because the page has one. It also omits the title and
    // description, which repeat its ARIA label: a page can contain many charts.
    let is_separate_file = !matches!(medium, OutputMedium::Page(_));
    SvgWriter::write_document(medium, "", (width, height), &attributes, |svg| {
        if is_separate_file {
            draw_paper(svg, header.title, &summary, (width, height));
        }
        let placed = header.lay_out(width - 2.0 * margin);
        placed.draw(svg, margin, margin);
        let top = margin + placed.height();
        let area = PixelRect::new(margin, top, width - margin, height - margin);
        if content.is_empty() {
            draw_message(svg, "no data", area, 15.0);
        } else {
            content.draw(svg, area);
        }
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

/// Writes a message into the middle of an area without a chart.
pub(crate) fn draw_message(svg: &mut SvgWriter, message: &str, area: PixelRect, size_px: f64) {
    let message = truncate_end(message, area.width(), size_px);
    let text = TextLine::at(&message, area.middle_x(), area.middle_y(), size_px);
    svg.write_text(&text.with_anchor(TextAnchor::Middle).with_color(MUTED));
}

/// Size of a sheet with this width and the natural height of the chart below `header`.
pub(crate) fn natural_size(
    content: &dyn SheetContent,
    header: &ChartHeader<'_>,
    width_px: u32,
    medium: &OutputMedium,
) -> ImageSize {
    let margin = sheet_margin(medium);
    let inner = f64::from(width_px) - 2.0 * margin;
    let header_px = header.lay_out(inner).height();
    let chart = if content.is_empty() { 160.0 } else { content.natural_height(inner) };
    let height_px = (header_px + chart + 2.0 * margin).ceil() as u32;
    ImageSize { width_px, height_px }
}

fn sheet_margin(medium: &OutputMedium) -> f64 {
    match medium {
        OutputMedium::File | OutputMedium::Painter => MARGIN,
        OutputMedium::Page(_) => MARGIN_ON_PAGE,
    }
}
