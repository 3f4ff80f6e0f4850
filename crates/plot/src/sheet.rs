//! Draws the sheet around every chart: background, accessible text, and a header with title,
//! subtitle and legend. The chart itself gets the remaining area.

use crate::AxisScale;
use crate::style::{SeriesStyle, VerdictMark, full_fill, pale_fill};
use crate::svg::{
    INK, MUTED, OpenElement, OutputMedium, PAPER, PixelRect, SvgWriter, TextAnchor, tint_color,
};
use crate::text::{CAP_HEIGHT, WrappedLabel, reserved_width, truncate_end, wrap_text};

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
    fn natural_height(&self, _width: f64) -> f64 {
        520.0
    }
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
            // Text for programs that ignore ARIA labels.
            svg.start_element("title").end_with_text(header.title);
            svg.start_element("desc").end_with_text(&summary);
            svg.start_element("rect")
                .set_number("width", width)
                .set_number("height", height)
                .set_text("fill", PAPER)
                .end_empty();
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

/// Writes a message into the middle of an area without a chart.
pub(crate) fn draw_message(svg: &mut SvgWriter, message: &str, area: PixelRect, size_px: f64) {
    let message = truncate_end(message, area.width(), size_px);
    let middle = (area.middle_x(), area.middle_y());
    svg.write_text(&message, middle, size_px, TextAnchor::Middle, MUTED);
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
    if matches!(medium, OutputMedium::Page(_)) { MARGIN_ON_PAGE } else { MARGIN }
}

// Lays out and draws the top of the sheet: title, subtitle, note and legend.

const TITLE_PX: f64 = 18.0;
const TITLE_LINE: f64 = 24.0;
const SUBTITLE_PX: f64 = 13.0;
const SUBTITLE_LINE: f64 = 18.0;
/// Gap in pixels between the header and the chart.
const GAP: f64 = 14.0;

/// Contents above a chart.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChartHeader<'a> {
    pub title: &'a str,
    pub subtitle: Option<&'a str>,
    /// Note about omitted data, below the subtitle.
    pub note: Option<String>,
    pub legend: Vec<LegendKey>,
}

impl ChartHeader<'_> {
    /// Wraps all text into lines of at most `width` pixels.
    pub fn lay_out(&self, width: f64) -> PlacedHeader {
        let subtitle_block = |text: Option<&str>| {
            let label = wrap_text(text.unwrap_or_default().trim(), width, SUBTITLE_PX, 3);
            HeaderBlock { label, size_px: SUBTITLE_PX, line_px: SUBTITLE_LINE, colour: MUTED }
        };
        let title = wrap_text(self.title.trim(), width, TITLE_PX, 2);
        let title =
            HeaderBlock { label: title, size_px: TITLE_PX, line_px: TITLE_LINE, colour: INK };
        let notes = [subtitle_block(self.subtitle), subtitle_block(self.note.as_deref())];
        let blocks = [title].into_iter().chain(notes);
        PlacedHeader {
            // A blank text is wrapped into one blank line.
            blocks: blocks.filter(|block| !block.label.lines[0].text.is_empty()).collect(),
            legend: LegendLayout::lay_out(&self.legend, width),
        }
    }
}

/// The title, the subtitle or the note, wrapped into lines.
struct HeaderBlock {
    label: WrappedLabel,
    size_px: f64,
    line_px: f64,
    colour: &'static str,
}

/// A header with wrapped lines.
pub(crate) struct PlacedHeader {
    blocks: Vec<HeaderBlock>,
    legend: LegendLayout,
}

impl PlacedHeader {
    /// Height in pixels, including the gap to the chart.
    pub fn height(&self) -> f64 {
        let heights =
            self.blocks.iter().map(|block| block.label.lines.len() as f64 * block.line_px);
        heights.sum::<f64>() + self.legend.height() + GAP
    }

    /// Draws the header with its upper left corner at (`left`, `top`).
    pub fn draw(&self, svg: &mut SvgWriter, left: f64, top: f64) {
        let mut y = top;
        for block in &self.blocks {
            for line in &block.label.lines {
                y += block.line_px;
                let at = (left, y - block.line_px * 0.27);
                svg.write_text(&line.text, at, block.size_px, TextAnchor::Start, block.colour);
            }
        }
        self.legend.draw(svg, left, y);
    }
}

/// Returns a note such as "2 values not shown", with the reason. `None` if no values were omitted.
pub(crate) fn omitted_note(count: usize, scales: &[AxisScale]) -> Option<String> {
    let logarithmic =
        scales.iter().any(|scale| matches!(scale, AxisScale::Log2 | AxisScale::Log10));
    let named =
        scales.iter().any(|scale| matches!(scale, AxisScale::Category(_) | AxisScale::Nines));
    let reason = match (logarithmic, named) {
        (true, _) => "not finite, or not positive on a logarithmic axis",
        (false, true) => "not finite, or not on the axis",
        (false, false) => "not finite",
    };
    let values = if count == 1 { "value" } else { "values" };
    (count > 0).then(|| format!("{count} {values} not shown ({reason})"))
}

// The legend: a swatch and a name per series, in rows from left to right.

const SIZE_PX: f64 = 13.0;
const ROW: f64 = 22.0;
const KEY_GAP: f64 = 20.0;
/// Maximum number of rows of the legend. Further names are only counted, to leave room for the
/// chart.
const MAX_ROWS: usize = 4;

/// One entry of the legend.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LegendKey {
    pub name: String,
    pub swatch: LegendSwatch,
}

impl LegendKey {
    /// Creates a key.
    pub fn new(name: impl Into<String>, swatch: LegendSwatch) -> Self {
        Self { name: name.into(), swatch }
    }

    /// Creates one key per series, or no keys if all names are empty.
    pub fn of_series<'n>(
        series: impl IntoIterator<Item = (&'n str, SeriesStyle)>,
        swatch: impl Fn(SeriesStyle) -> LegendSwatch,
    ) -> Vec<Self> {
        let keys = series.into_iter().map(|(name, style)| Self::new(name, swatch(style)));
        let keys: Vec<Self> = keys.collect();
        if keys.iter().all(|key| key.name.trim().is_empty()) { Vec::new() } else { keys }
    }
}

/// A laid out legend, relative to its upper left corner.
pub(crate) struct LegendLayout {
    keys: Vec<(f64, usize, LegendKey)>,
    rows: usize,
    omission: Option<(f64, String)>,
}

impl LegendLayout {
    pub fn lay_out(keys: &[LegendKey], width: f64) -> Self {
        let mut legend = Self { keys: Vec::new(), rows: 0, omission: None };
        let (mut x, mut row) = (0.0, 0);
        for (index, key) in keys.iter().enumerate() {
            let swatch = key.swatch.width();
            let name = truncate_end(&key.name, (width - swatch).clamp(40.0, 420.0), SIZE_PX);
            let width_px = swatch + reserved_width(&name, SIZE_PX);
            // Reserve room in the last row for the number of omitted names.
            let reserved = if row + 1 == MAX_ROWS && index + 1 < keys.len() { 90.0 } else { 0.0 };
            if x > 0.0 && x + width_px + reserved > width {
                if row + 1 == MAX_ROWS {
                    legend.omission = Some((x, format!("and {} more", keys.len() - index)));
                    break;
                }
                (x, row) = (0.0, row + 1);
            }
            legend.keys.push((x, row, LegendKey { name, swatch: key.swatch }));
            x += width_px + KEY_GAP;
        }
        legend.rows = if keys.is_empty() { 0 } else { row + 1 };
        legend
    }

    /// Height in pixels, including the gap above; zero without keys.
    pub fn height(&self) -> f64 {
        if self.rows == 0 { 0.0 } else { self.rows as f64 * ROW + 8.0 }
    }

    pub fn draw(&self, svg: &mut SvgWriter, left: f64, top: f64) {
        if self.keys.is_empty() {
            return;
        }
        let middle = |row: usize| top + 8.0 + (row as f64 + 0.5) * ROW;
        svg.start_group("legend").end_with(|svg| {
            for (x, row, key) in &self.keys {
                let (x, y) = (left + x, middle(*row));
                key.swatch.draw(svg, x, y);
                let baseline = y + SIZE_PX * CAP_HEIGHT / 2.0;
                let at = (x + key.swatch.width(), baseline);
                svg.write_text(&key.name, at, SIZE_PX, TextAnchor::Start, INK);
            }
            if let Some((x, text)) = &self.omission {
                let baseline = middle(self.rows - 1) + SIZE_PX * CAP_HEIGHT / 2.0;
                svg.write_text(text, (left + x, baseline), SIZE_PX, TextAnchor::Start, MUTED);
            }
        });
    }
}

// Legend swatches: samples that look like the marks of the chart.

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum LegendSwatch {
    Box(SeriesStyle),
    Bar(SeriesStyle),
    Line(SeriesStyle),
    Points(SeriesStyle),
    Area(SeriesStyle),
    /// A tinted area without hatching.
    Tint(SeriesStyle),
    Forest(VerdictMark),
    /// A marker filled with the background color.
    Hollow(SeriesStyle),
    /// A line within a band of its color.
    Level(SeriesStyle),
    /// A dotted line without markers.
    Dotted(SeriesStyle),
    /// A cross that marks a missing value.
    Failure,
}

impl LegendSwatch {
    /// Width in pixels, including the gap to the name.
    pub fn width(self) -> f64 {
        match self {
            Self::Box(_) | Self::Bar(_) | Self::Area(_) | Self::Tint(_) => 25.0,
            Self::Line(_) | Self::Level(_) | Self::Dotted(_) => 36.0,
            Self::Points(_) | Self::Forest(_) | Self::Hollow(_) | Self::Failure => 16.0,
        }
    }

    /// Draws the swatch right of `x`, centered on `y`.
    pub fn draw(self, svg: &mut SvgWriter, x: f64, y: f64) {
        let rect = PixelRect::new(x, y - 6.0, x + 18.0, y + 6.0);
        match self {
            Self::Box(style) => {
                draw_area(svg, rect, &pale_fill(style), style).end_empty();
                draw_marker(svg, style, x + 9.0, y, 3.0);
            }
            Self::Bar(style) => draw_area(svg, rect, &full_fill(style), style).end_empty(),
            Self::Tint(style) => draw_area(svg, rect, &style.color(), style)
                .set_number("fill-opacity", 0.45)
                .end_empty(),
            Self::Area(style) => draw_area(svg, rect, &style.color(), style)
                .set_number("fill-opacity", 0.45)
                .set_nonempty("stroke-dasharray", style.dash())
                .end_empty(),
            Self::Line(style) => {
                draw_sample_line(svg, x, y, &style.color())
                    .set_nonempty("stroke-dasharray", style.dash())
                    .end_empty();
                draw_marker(svg, style, x + 14.0, y, 4.5);
            }
            Self::Points(style) => draw_marker(svg, style, x + 5.0, y, 4.5),
            Self::Forest(mark) => mark.draw(svg, x + 5.0, y, 5.0, None),
            Self::Hollow(style) => svg
                .start_path("", &style.marker().path(x + 5.0, y, 4.0))
                .set_text("fill", PAPER)
                .set_stroke(&style.color(), 1.4)
                .end_empty(),
            Self::Level(style) => {
                let band = PixelRect { right: x + 28.0, ..rect };
                let band = draw_area(svg, band, &tint_color(&style.color()), style);
                band.set_number("stroke-width", 0.0).end_empty();
                draw_sample_line(svg, x, y, INK).end_empty();
            }
            Self::Dotted(style) => {
                make_dotted(draw_sample_line(svg, x, y, &style.color())).end_empty()
            }
            Self::Failure => draw_failure(svg, x + 5.0, y).end_empty(),
        }
    }
}

fn draw_sample_line<'a>(svg: &'a mut SvgWriter, x: f64, y: f64, colour: &str) -> OpenElement<'a> {
    svg.start_line("", (x, y), (x + 28.0, y)).set_stroke(colour, 2.0)
}

/// Turns a line into round dots.
pub(crate) fn make_dotted(line: OpenElement<'_>) -> OpenElement<'_> {
    line.set_text("stroke-dasharray", "1.5 4").set_text("stroke-linecap", "round")
}

/// Draws the cross that marks a failure.
pub(crate) fn draw_failure(svg: &mut SvgWriter, x: f64, y: f64) -> OpenElement<'_> {
    const ARM_PX: f64 = 3.5;
    let (left, top) = (x - ARM_PX, y - ARM_PX);
    let arms = format!("M{left:.1} {top:.1}l{d} {d}m0 -{d}l-{d} {d}", d = 2.0 * ARM_PX);
    svg.start_path("", &arms).set_stroke(INK, 1.5)
}

fn draw_area<'a>(
    svg: &'a mut SvgWriter,
    rect: PixelRect,
    fill: &str,
    style: SeriesStyle,
) -> OpenElement<'a> {
    svg.start_rect("", rect).set_text("fill", fill).set_text("stroke", &style.color())
}

fn draw_marker(svg: &mut SvgWriter, style: SeriesStyle, x: f64, y: f64, radius: f64) {
    svg.start_path("", &style.marker().path(x, y, radius))
        .set_text("fill", &style.color())
        .set_stroke(PAPER, if radius > 4.0 { 1.0 } else { 0.0 })
        .end_empty();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_grows_with_a_subtitle_and_a_note() {
        let bare = ChartHeader { title: "t", ..ChartHeader::default() };
        let full = ChartHeader { subtitle: Some("s"), note: Some("n".into()), ..bare.clone() };
        assert_eq!(
            full.lay_out(500.0).height() - bare.lay_out(500.0).height(),
            2.0 * SUBTITLE_LINE
        );
    }

    #[test]
    fn left_out_values_are_counted_with_the_reason() {
        assert_eq!(omitted_note(0, &[AxisScale::Linear]), None);
        let one = omitted_note(1, &[AxisScale::Linear]).unwrap();
        assert_eq!(one, "1 value not shown (not finite)");
        assert!(
            omitted_note(2, &[AxisScale::Log2]).unwrap().starts_with("2 values not shown (not fin")
        );
    }

    fn styled(names: &[String]) -> impl Iterator<Item = (&str, SeriesStyle)> {
        names.iter().enumerate().map(|(at, name)| (name.as_str(), SeriesStyle::of_series(at)))
    }

    fn keys(count: usize) -> Vec<LegendKey> {
        let names: Vec<String> = (0..count).map(|at| format!("series number {at}")).collect();
        LegendKey::of_series(styled(&names), LegendSwatch::Points)
    }

    #[test]
    fn keys_flow_into_rows_within_the_width() {
        let legend = LegendLayout::lay_out(&keys(7), 400.0);
        assert!(legend.rows > 1 && legend.omission.is_none());
        for (x, _, key) in &legend.keys {
            assert!(x + key.swatch.width() + reserved_width(&key.name, SIZE_PX) <= 400.0);
        }
    }

    #[test]
    fn legend_keys_without_room_are_counted() {
        let legend = LegendLayout::lay_out(&keys(60), 400.0);
        assert_eq!(legend.rows, MAX_ROWS);
        let (x, text) = legend.omission.as_ref().unwrap();
        assert_eq!(*text, format!("and {} more", 60 - legend.keys.len()));
        assert!(x + reserved_width(text, SIZE_PX) <= 400.0);
    }

    #[test]
    fn nameless_series_need_no_legend() {
        let names = [String::new(), " ".into()];
        assert!(LegendKey::of_series(styled(&names), LegendSwatch::Bar).is_empty());
        assert_eq!(LegendLayout::lay_out(&[], 400.0).height(), 0.0);
    }
}
