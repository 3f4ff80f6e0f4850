//! Writes SVG: the elements, attributes and text that the charts need. Numbers have at most two
//! decimals, so a chart gives the same text on every machine. Also defines the colors of the
//! charts.

use crate::text::{FONT_FAMILIES, text_outline, text_width};
use std::borrow::Cow;
use std::fmt::Write as _;
use std::str::FromStr;
use std::sync::LazyLock;

/// The medium for which a drawing is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OutputMedium {
    /// A separate file. Text can be selected, searched and read aloud.
    File,
    /// A rasterizer without fonts. Text is outlined.
    Painter,
    /// Part of a page, which may override the colors with CSS variables. Every ID starts with this
    /// prefix, because a page may contain several drawings.
    Page(String),
}

/// Whether `x` is at the start, the middle or the end of a text line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextAnchor {
    Start,
    Middle,
    End,
}

/// Writer of an SVG document.
pub(crate) struct SvgWriter {
    out: String,
    medium: OutputMedium,
}

impl SvgWriter {
    /// Writes a complete document: a root element of the given width and height, with `class`
    /// (which may be empty) and `attributes`, and the `content`.
    pub fn write_document(
        medium: OutputMedium,
        class: &str,
        (width, height): (f64, f64),
        attributes: &[(&str, &str)],
        content: impl FnOnce(&mut Self),
    ) -> String {
        let mut svg = Self { out: String::new(), medium };
        // SVG in an HTML page needs no namespace. The page sets the font families of its charts.
        let (namespace, families) = match svg.medium {
            OutputMedium::Page(_) => ("", ""),
            _ => ("http://www.w3.org/2000/svg", FONT_FAMILIES),
        };
        let view_box = format!("0 0 {} {}", format_decimal(width), format_decimal(height));
        let root = svg
            .start_element("svg")
            .set_nonempty("xmlns", namespace)
            .set_nonempty("class", class)
            .set_number("width", width)
            .set_number("height", height)
            .set_text("viewBox", &view_box);
        let root = attributes.iter().fold(root, |root, (name, value)| root.set_text(name, value));
        root.set_nonempty("font-family", families).end_with(content);
        svg.out
    }

    /// Starts an element. One of the `end_` methods must end it.
    pub fn start_element(&mut self, tag: &'static str) -> OpenElement<'_> {
        self.out.push('<');
        self.out.push_str(tag);
        OpenElement { svg: self, tag }
    }

    /// Starts a straight line. `class` may be empty.
    pub fn start_line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) -> OpenElement<'_> {
        self.start_element("line")
            .set_number("x1", from.0)
            .set_number("y1", from.1)
            .set_number("x2", to.0)
            .set_number("y2", to.1)
            .set_nonempty("class", class)
    }

    /// Starts a path with this data. `class` may be empty.
    pub fn start_path(&mut self, class: &str, data: &str) -> OpenElement<'_> {
        self.start_element("path").set_nonempty("class", class).set_text("d", data)
    }

    /// Starts a rectangle. `class` may be empty.
    pub fn start_rect(&mut self, class: &str, rect: PixelRect) -> OpenElement<'_> {
        self.start_element("rect")
            .set_nonempty("class", class)
            .set_number("x", rect.left)
            .set_number("y", rect.top)
            .set_number("width", rect.width())
            .set_number("height", rect.height())
    }

    /// Starts a circle.
    pub fn start_circle(&mut self, class: &str, at: (f64, f64), radius: f64) -> OpenElement<'_> {
        self.start_element("circle")
            .set_text("class", class)
            .set_number("cx", at.0)
            .set_number("cy", at.1)
            .set_number("r", radius)
    }

    /// Starts a line through several points, or a polygon with these corners, depending on `tag`.
    pub fn start_corners(
        &mut self,
        tag: &'static str,
        class: &str,
        corners: impl IntoIterator<Item = (f64, f64)>,
    ) -> OpenElement<'_> {
        let corners = corners.into_iter().map(|(x, y)| format!("{x:.2},{y:.2}"));
        let points = corners.collect::<Vec<_>>().join(" ");
        self.start_element(tag).set_text("class", class).set_text("points", &points)
    }

    /// Starts a group of elements.
    pub fn start_group(&mut self, class: &str) -> OpenElement<'_> {
        self.start_element("g").set_text("class", class)
    }

    /// Writes a line of text at `x`, with the baseline at `y`.
    pub fn write_text(
        &mut self,
        text: &str,
        at: (f64, f64),
        size_px: f64,
        anchor: TextAnchor,
        colour: &str,
    ) {
        self.write_rotated_text(text, at, size_px, anchor, colour, 0.0);
    }

    /// Writes a line of text, rotated clockwise around (x, y).
    pub fn write_rotated_text(
        &mut self,
        text: &str,
        (x, y): (f64, f64),
        size_px: f64,
        anchor: TextAnchor,
        colour: &str,
        degrees: f64,
    ) {
        if text.trim().is_empty() {
            return;
        }
        let [rotation, center_x, center_y] = [degrees, x, y].map(format_decimal);
        let transform = match degrees {
            0.0 => String::new(),
            _ => format!("rotate({rotation} {center_x} {center_y})"),
        };
        let (anchor, width_before) = match anchor {
            TextAnchor::Start => ("", 0.0),
            TextAnchor::Middle => ("middle", text_width(text, size_px) / 2.0),
            TextAnchor::End => ("end", text_width(text, size_px)),
        };
        if self.medium == OutputMedium::Painter {
            let data = text_outline(text, size_px, x - width_before, y);
            let outline = self.start_path("", &data).set_text("fill", colour);
            return outline.set_nonempty("transform", &transform).end_empty();
        }
        self.start_element("text")
            .set_number("x", x)
            .set_number("y", y)
            .set_number("font-size", size_px)
            .set_text("fill", colour)
            .set_nonempty("text-anchor", anchor)
            .set_nonempty("transform", &transform)
            .end_with_text(text);
    }
}

/// An element whose start tag is still open.
#[must_use = "an element must be ended"]
pub(crate) struct OpenElement<'a> {
    svg: &'a mut SvgWriter,
    tag: &'static str,
}

impl OpenElement<'_> {
    /// Sets a numeric attribute.
    pub fn set_number(self, name: &str, value: f64) -> Self {
        // Writing to a `String` cannot fail.
        let _ = write!(self.svg.out, " {name}=\"{}\"", format_decimal(value));
        self
    }

    /// Sets an attribute to a string.
    pub fn set_text(self, name: &str, value: &str) -> Self {
        let _ = write!(self.svg.out, " {name}=\"");
        match &self.svg.medium {
            OutputMedium::Page(id) => {
                escape_xml(&adapt_to_page(id, name, value), &mut self.svg.out)
            }
            OutputMedium::File | OutputMedium::Painter => escape_xml(value, &mut self.svg.out),
        }
        self.svg.out.push('"');
        self
    }

    /// Sets an attribute to a string, unless the string is empty.
    pub fn set_nonempty(self, name: &str, value: &str) -> Self {
        if value.is_empty() { self } else { self.set_text(name, value) }
    }

    /// Sets the color and width of a line.
    pub fn set_stroke(self, colour: &str, width: f64) -> Self {
        self.set_text("stroke", colour).set_number("stroke-width", width)
    }

    pub fn end_empty(self) {
        self.svg.out.push_str("/>\n");
    }

    /// Ends an element whose only content is a tooltip.
    pub fn end_with_tooltip(self, tooltip: &str) {
        self.svg.out.push_str("><title>");
        escape_xml(tooltip, &mut self.svg.out);
        let _ = writeln!(self.svg.out, "</title></{}>", self.tag);
    }

    /// Ends an element after writing its content.
    pub fn end_with(self, content: impl FnOnce(&mut SvgWriter)) {
        let Self { svg, tag } = self;
        svg.out.push_str(">\n");
        content(svg);
        let _ = writeln!(svg.out, "</{tag}>");
    }

    /// Ends an element whose only content is text.
    pub fn end_with_text(self, text: &str) {
        self.svg.out.push('>');
        escape_xml(text, &mut self.svg.out);
        let _ = writeln!(self.svg.out, "</{}>", self.tag);
    }
}

/// Adapts an attribute value to a page: makes IDs unique on the page, and lets colors follow the
/// page's theme.
fn adapt_to_page<'v>(id: &str, name: &str, value: &'v str) -> Cow<'v, str> {
    match name {
        "id" => format!("{id}-{value}").into(),
        "href" => value.replacen('#', &format!("#{id}-"), 1).into(),
        "fill" | "stroke" | "marker-start" | "marker-mid" | "marker-end" => {
            match value.strip_prefix("url(#") {
                Some(id_suffix) => format!("url(#{id}-{id_suffix}").into(),
                // A known color becomes a variable.
                None => match PAGE_VARIABLES.iter().find(|(_, light)| light == value) {
                    Some((name, _)) => format!("var({name})").into(),
                    None => value.into(),
                },
            }
        }
        _ => value.into(),
    }
}

/// Formats a number with at most two decimals, without trailing zeros or negative zero.
pub(crate) fn format_decimal(value: f64) -> String {
    let hundredths = (value * 100.0).round();
    let text = format!("{:.2}", if hundredths == 0.0 { 0.0 } else { hundredths / 100.0 });
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Escapes characters that XML reserves, and replaces characters that XML 1.0 (section 2.2)
/// forbids.
fn escape_xml(text: &str, out: &mut String) {
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push_str("&#10;"),
            '\t' => out.push(' '),
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            // Bidirectional control characters could disguise the text.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PixelRect {
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
}

impl PixelRect {
    /// Creates a rectangle with a nonempty interior, even if the sheet is too small for its
    /// contents.
    pub fn new(left: f64, top: f64, right: f64, bottom: f64) -> Self {
        Self { left, top, right: right.max(left + 8.0), bottom: bottom.max(top + 8.0) }
    }

    pub fn width(&self) -> f64 {
        self.right - self.left
    }

    pub fn height(&self) -> f64 {
        self.bottom - self.top
    }

    pub fn middle_x(&self) -> f64 {
        (self.left + self.right) / 2.0
    }

    pub fn middle_y(&self) -> f64 {
        (self.top + self.bottom) / 2.0
    }
}

// Defines the colors of charts, and the CSS variables with which a page can change the colors.
//
// The series colors follow M. Okabe and K. Ito, "Color Universal Design" (2008), and remain
// distinguishable with all common kinds of color blindness. Two of their colors are omitted:
// yellow is invisible on white, and text uses black. A dark gray is added.

/// Titles and important labels.
pub(crate) const INK: &str = "#1f2328";
/// Axis labels and explanations.
pub(crate) const MUTED: &str = "#59616d";
/// Axis lines.
pub(crate) const AXIS: &str = "#8b939e";
/// Grid lines.
pub(crate) const GRID: &str = "#e4e7eb";
/// A range behind the data.
pub(crate) const BAND: &str = "#eef1f5";
/// Marks for results that are neither good nor bad.
pub(crate) const NEUTRAL: &str = "#6b7280";
/// Background of the sheet.
pub(crate) const PAPER: &str = "#ffffff";

/// Series colors, in order.
pub(crate) const SERIES_COLORS: [&str; 7] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#4d4d4d"];

/// A user-defined series color: red, green, blue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RgbColor(pub u8, pub u8, pub u8);

impl FromStr for RgbColor {
    type Err = ();

    /// Parses `#rrggbb`.
    fn from_str(text: &str) -> Result<RgbColor, ()> {
        let digits = text.strip_prefix('#').filter(|digits| digits.len() == 6).ok_or(())?;
        let [_, red, green, blue] = u32::from_str_radix(digits, 16).map_err(|_| ())?.to_be_bytes();
        Ok(RgbColor(red, green, blue))
    }
}

/// Opacity of a pale area.
const TINT: f64 = 0.22;
/// Opacity of lines on a pale area.
pub(crate) const PALE_LINE: f64 = 0.45;
/// Opacity of lines on a full area.
pub(crate) const FULL_LINE: f64 = 0.6;

pub(crate) fn tint_color(colour: &str) -> String {
    blend_with_white(colour, TINT)
}

/// Blends a color with white. The result is opaque, so overlapping areas do not become darker.
pub(crate) fn blend_with_white(colour: &str, share: f64) -> String {
    let RgbColor(red, green, blue) = colour.parse().unwrap_or(RgbColor(0, 0, 0));
    let blend = |value: u8| (255.0 - (255.0 - f64::from(value)) * share).round() as u8;
    format!("#{:02x}{:02x}{:02x}", blend(red), blend(green), blend(blue))
}

/// CSS variables for the chart colors, with their values for white paper. A page sets these
/// variables. A dark page chooses other values.
static PAGE_VARIABLES: LazyLock<Vec<(String, String)>> = LazyLock::new(|| {
    let base_colors = [
        ("ink", INK),
        ("muted", MUTED),
        ("axis", AXIS),
        ("grid", GRID),
        ("band", BAND),
        ("paper", PAPER),
        ("neutral", NEUTRAL),
    ];
    let named = |(name, colour): (&str, &str)| (format!("--plot-{name}"), colour.to_owned());
    let mut variables = Vec::from(base_colors.map(named));
    for (index, colour) in SERIES_COLORS.into_iter().enumerate() {
        variables.push((format!("--plot-series-{index}"), colour.to_owned()));
        for (name, share) in [("tint", TINT), ("pale", PALE_LINE), ("line", FULL_LINE)] {
            variables.push((format!("--plot-{name}-{index}"), blend_with_white(colour, share)));
        }
    }
    variables
});

/// All variables used by charts on a page, with their colors on white paper.
pub fn page_colors() -> &'static [(String, String)] {
    &PAGE_VARIABLES
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn numbers_are_short_and_never_minus_zero() {
        assert_eq!(
            [1.0, 1.256, -0.001, 100.0, -2.5].map(format_decimal),
            ["1", "1.26", "0", "100", "-2.5"]
        );
    }

    #[test]
    fn reserved_and_forbidden_xml_characters_are_replaced() {
        let mut out = String::new();
        escape_xml("a<b> & \"c\"\u{1b}[1m\u{202e}", &mut out);
        assert_eq!(out, "a&lt;b&gt; &amp; &quot;c&quot;\u{fffd}[1m\u{fffd}");
    }

    #[test]
    fn text_is_written_as_text_elements_or_as_outlines() {
        let write = |medium| {
            SvgWriter::write_document(medium, "", (20.0, 20.0), &[], |svg| {
                svg.write_text("Hi", (1.0, 2.0), 10.0, TextAnchor::Start, INK)
            })
        };
        assert!(write(OutputMedium::File).contains(">Hi</text>"));
        let outlined = write(OutputMedium::Painter);
        assert!(outlined.contains("<path d=\"M") && !outlined.contains("<text"));
    }

    #[test]
    fn ids_on_a_page_get_a_prefix_and_colours_become_variables() {
        for (name, value, written) in [
            ("id", "dot", "c7-dot"),
            ("href", "#dot", "#c7-dot"),
            ("fill", "url(#hatch)", "url(#c7-hatch)"),
            ("fill", INK, "var(--plot-ink)"),
            ("fill", "none", "none"),
            ("class", INK, INK),
        ] {
            assert_eq!(adapt_to_page("c7", name, value), written);
        }
    }

    #[test]
    fn a_partial_colour_is_blended_with_white() {
        assert_eq!(blend_with_white("#000000", 0.5), "#808080");
        assert_eq!(blend_with_white("#0072b2", 0.0), "#ffffff");
        assert_eq!(blend_with_white("#0072b2", 1.0), "#0072b2");
    }

    #[test]
    fn no_two_variables_share_a_colour() {
        // Variables are looked up by color, so a duplicate would never be used.
        let colours: HashSet<_> = page_colors().iter().map(|(_, light)| light).collect();
        assert_eq!(colours.len(), page_colors().len());
    }
}
