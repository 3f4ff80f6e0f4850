//! A minimal SVG writer: elements, attributes and text, as needed by the charts. Numbers have at
//! most two decimals, so that a chart is the same text everywhere.

use crate::colour::{INK, themed};
use crate::text::{FAMILIES, outline, text_width};
use std::borrow::Cow;
use std::fmt::Write as _;

/// Target of a drawing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Medium {
    /// A separate file. Text can be selected, searched and read aloud.
    File,
    /// A rasterizer without fonts: text is outlined.
    Painter,
    /// Part of a page, which may change the colors by variables and contain several drawings: every
    /// ID starts with this prefix.
    Page(String),
}

/// Which part of a text line is at its x.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// A line of text. `y` is the baseline.
#[derive(Clone, Debug)]
pub(crate) struct Text<'a> {
    pub content: &'a str,
    pub x: f64,
    pub y: f64,
    pub size_px: f64,
    pub anchor: Anchor,
    pub colour: &'a str,
    /// Clockwise around (x, y).
    pub turn_degrees: f64,
}

impl<'a> Text<'a> {
    /// Creates text that starts at (x, y).
    pub fn at(content: &'a str, x: f64, y: f64, size_px: f64) -> Self {
        Self {
            content,
            x,
            y,
            size_px,
            anchor: Anchor::Start,
            colour: INK,
            turn_degrees: 0.0,
        }
    }

    pub fn anchored(self, anchor: Anchor) -> Self {
        Self { anchor, ..self }
    }

    pub fn coloured(self, colour: &'a str) -> Self {
        Self { colour, ..self }
    }
}

/// Writer of an SVG document.
pub(crate) struct Svg {
    out: String,
    medium: Medium,
}

impl Svg {
    /// Writes a complete document: `attributes` of the root, and its contents by `content`.
    pub fn document(
        medium: Medium,
        attributes: &[(&str, &str)],
        content: impl FnOnce(&mut Self),
    ) -> String {
        let mut svg = Self {
            out: String::new(),
            medium,
        };
        // A page knows the SVG namespace and sets the font families of its charts.
        let alone = !matches!(svg.medium, Medium::Page(_));
        let mut root = svg.element("svg");
        if alone {
            root = root.set("xmlns", "http://www.w3.org/2000/svg");
        }
        root = attributes
            .iter()
            .fold(root, |root, (name, value)| root.set(name, value));
        if alone {
            root = root.set("font-family", FAMILIES);
        }
        root.containing(content);
        svg.out
    }

    /// Starts an element; it must be ended by `close`, `titled` or `containing`.
    pub fn element(&mut self, tag: &'static str) -> Element<'_> {
        self.out.push('<');
        self.out.push_str(tag);
        Element { svg: self, tag }
    }

    /// Starts a straight line.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64)) -> Element<'_> {
        self.element("line")
            .num("x1", from.0)
            .num("y1", from.1)
            .num("x2", to.0)
            .num("y2", to.1)
    }

    /// Starts a group of elements that share its attributes.
    pub fn group(&mut self, class: &str) -> Element<'_> {
        self.element("g").set("class", class)
    }

    /// Writes a line of text.
    pub fn text(&mut self, text: &Text<'_>) {
        if text.content.trim().is_empty() {
            return;
        }
        match &self.medium {
            Medium::File | Medium::Page(_) => self.live(text),
            Medium::Painter => self.outlined(text),
        }
    }

    fn live(&mut self, text: &Text<'_>) {
        let anchor = match text.anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let element = self.element("text").num("x", text.x).num("y", text.y);
        let mut element = element
            .num("font-size", text.size_px)
            .set("fill", text.colour);
        if text.anchor != Anchor::Start {
            element = element.set("text-anchor", anchor);
        }
        turned(element, text).containing_text(text.content);
    }

    fn outlined(&mut self, text: &Text<'_>) {
        let width = text_width(text.content, text.size_px);
        let x = match text.anchor {
            Anchor::Start => text.x,
            Anchor::Middle => text.x - width / 2.0,
            Anchor::End => text.x - width,
        };
        let data = outline(text.content, text.size_px, x, text.y);
        let element = self
            .element("path")
            .set("d", &data)
            .set("fill", text.colour);
        turned(element, text).close();
    }
}

fn turned<'a>(element: Element<'a>, text: &Text<'_>) -> Element<'a> {
    if text.turn_degrees == 0.0 {
        return element;
    }
    let (turn, x, y) = (decimal(text.turn_degrees), decimal(text.x), decimal(text.y));
    element.set("transform", &format!("rotate({turn} {x} {y})"))
}

/// An element whose start tag is still open.
#[must_use = "an element must be ended"]
pub(crate) struct Element<'a> {
    svg: &'a mut Svg,
    tag: &'static str,
}

impl Element<'_> {
    /// Sets a numeric attribute.
    pub fn num(self, name: &str, value: f64) -> Self {
        // Writing to a `String` cannot fail.
        let _ = write!(self.svg.out, " {name}=\"{}\"", decimal(value));
        self
    }

    /// Sets a text attribute.
    pub fn set(self, name: &str, value: &str) -> Self {
        let _ = write!(self.svg.out, " {name}=\"");
        match &self.svg.medium {
            Medium::Page(id) => escape(&on_page(id, name, value), &mut self.svg.out),
            Medium::File | Medium::Painter => escape(value, &mut self.svg.out),
        }
        self.svg.out.push('"');
        self
    }

    /// Sets an attribute unless the text is empty.
    pub fn set_some(self, name: &str, value: &str) -> Self {
        if value.is_empty() {
            self
        } else {
            self.set(name, value)
        }
    }

    /// Ends an element without content.
    pub fn close(self) {
        self.svg.out.push_str("/>\n");
    }

    /// Ends an element whose only content is a tooltip.
    pub fn titled(self, tooltip: &str) {
        self.svg.out.push_str("><title>");
        escape(tooltip, &mut self.svg.out);
        let _ = writeln!(self.svg.out, "</title></{}>", self.tag);
    }

    /// Ends an element after writing its content.
    pub fn containing(self, content: impl FnOnce(&mut Svg)) {
        let Self { svg, tag } = self;
        svg.out.push_str(">\n");
        content(svg);
        let _ = writeln!(svg.out, "</{tag}>");
    }

    /// Ends an element whose only content is text.
    pub fn containing_text(self, text: &str) {
        self.svg.out.push('>');
        escape(text, &mut self.svg.out);
        let _ = writeln!(self.svg.out, "</{}>", self.tag);
    }
}

/// Adapts an attribute value to a page that contains other drawings with their own IDs and colors
/// that follow its theme.
fn on_page<'v>(id: &str, name: &str, value: &'v str) -> Cow<'v, str> {
    match name {
        "id" => format!("{id}-{value}").into(),
        "href" => value.replacen('#', &format!("#{id}-"), 1).into(),
        "fill" | "stroke" | "marker-start" | "marker-mid" | "marker-end" => {
            match value.strip_prefix("url(#") {
                Some(rest) => format!("url(#{id}-{rest}").into(),
                None => themed(value),
            }
        }
        _ => value.into(),
    }
}

/// Formats a number with at most two decimals, without trailing zeros or negative zero.
pub(crate) fn decimal(value: f64) -> String {
    let hundredths = (value * 100.0).round();
    let text = format!(
        "{:.2}",
        if hundredths == 0.0 {
            0.0
        } else {
            hundredths / 100.0
        }
    );
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Escapes characters that XML reserves, and replaces those that XML 1.0 (section 2.2) forbids.
fn escape(text: &str, out: &mut String) {
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push_str("&#10;"),
            '\t' => out.push(' '),
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            // Bidirectional control characters could make the text appear as another.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rect {
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
}

impl Rect {
    /// Creates a rectangle with a nonempty interior, even on a sheet that is too small for its
    /// contents.
    pub fn new(left: f64, top: f64, right: f64, bottom: f64) -> Self {
        Self {
            left,
            top,
            right: right.max(left + 8.0),
            bottom: bottom.max(top + 8.0),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_never_minus_zero() {
        assert_eq!(
            [1.0, 1.256, -0.001, 100.0, -2.5].map(decimal),
            ["1", "1.26", "0", "100", "-2.5"]
        );
    }

    #[test]
    fn what_xml_reserves_or_forbids_is_replaced() {
        let mut out = String::new();
        escape("a<b> & \"c\"\u{1b}[1m\u{202e}", &mut out);
        assert_eq!(out, "a&lt;b&gt; &amp; &quot;c&quot;\u{fffd}[1m\u{fffd}");
    }

    #[test]
    fn text_is_written_live_or_as_outlines() {
        let write =
            |medium| Svg::document(medium, &[], |svg| svg.text(&Text::at("Hi", 1.0, 2.0, 10.0)));
        assert!(write(Medium::File).contains(">Hi</text>"));
        let outlined = write(Medium::Painter);
        assert!(outlined.contains("<path d=\"M") && !outlined.contains("<text"));
    }

    #[test]
    fn on_a_page_ids_are_its_own_and_colours_follow_its_theme() {
        for (name, value, written) in [
            ("id", "dot", "c7-dot"),
            ("href", "#dot", "#c7-dot"),
            ("fill", "url(#hatch)", "url(#c7-hatch)"),
            ("fill", INK, "var(--plot-ink)"),
            ("fill", "none", "none"),
            ("class", INK, INK),
        ] {
            assert_eq!(on_page("c7", name, value), written);
        }
    }
}
