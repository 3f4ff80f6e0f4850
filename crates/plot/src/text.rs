//! Measures text, breaks it into lines, and converts it to outlines. Start at [`text_width`].

use std::fmt::Write as _;
use std::sync::LazyLock;
use ttf_parser::{Face, GlyphId, OutlineBuilder};

// The embedded font: widths and outlines of its glyphs. Kerning would change the width of a line by
// only about 1%. Without kerning, the measured width and the painted outline agree exactly.

static FONT_FILE: &[u8] = include_bytes!("../assets/Inter-Regular-subset.otf");

static FONT_FACE: LazyLock<Face<'static>> = LazyLock::new(|| {
    #[expect(clippy::expect_used, reason = "the file is compiled in, and every test parses it")]
    Face::parse(FONT_FILE, 0).expect("the embedded font is well formed")
});

/// Font families named in SVG text. Text is laid out for Inter. The other named fonts are not
/// wider, so the text also fits with them. [`reserved_width`] handles viewers without any of these
/// fonts.
pub(crate) const FONT_FAMILIES: &str =
    "Inter, 'Helvetica Neue', Helvetica, Arial, 'Liberation Sans', sans-serif";

/// Height of a capital letter as a fraction of the font size, from the font's OS/2 table: 2048 /
/// 2816.
pub(crate) const CAP_HEIGHT: f64 = 0.727;

/// Width in pixels of a line of text, in the font used for layout.
///
/// ```
/// assert!(speedwell_plot::text_width("wide label", 12.0) > speedwell_plot::text_width("label", 12.0));
/// ```
pub fn text_width(text: &str, size_px: f64) -> f64 {
    let units: u32 = text.chars().map(character_width).sum();
    f64::from(units) * size_px / f64::from(FONT_FACE.units_per_em())
}

/// Width in pixels to reserve for a line of text. A viewer without any of [`FONT_FAMILIES`] uses
/// another font. The widest common font, DejaVu Sans, is wider than Inter by 6 to 8 percent for
/// most labels.
pub(crate) fn reserved_width(text: &str, size_px: f64) -> f64 {
    const MAX_FACE_RATIO: f64 = 1.08;
    text_width(text, size_px) * MAX_FACE_RATIO
}

/// Cached widths of Latin characters, which make up nearly all labels. Searching the font's tables
/// for every character took most of the time of a chart with many labels.
static LATIN_WIDTHS: LazyLock<Vec<u32>> =
    LazyLock::new(|| ('\0'..='\u{24f}').map(advance_in_font).collect());

/// Width of a character in font units.
fn character_width(character: char) -> u32 {
    let cached = LATIN_WIDTHS.get(character as usize).copied();
    cached.unwrap_or_else(|| advance_in_font(character))
}

/// Looks up a width in the font. A missing character counts as a full square, which is the width of
/// Chinese, Japanese and Korean characters.
fn advance_in_font(character: char) -> u32 {
    match FONT_FACE.glyph_index(character) {
        Some(glyph) => u32::from(FONT_FACE.glyph_hor_advance(glyph).unwrap_or(0)),
        None => u32::from(FONT_FACE.units_per_em()),
    }
}

/// Outlines of a line of text as SVG path data. The first character has its origin at (`x`,
/// `baseline`).
pub(crate) fn text_outline(text: &str, size_px: f64, x: f64, baseline: f64) -> String {
    let scale = size_px / f64::from(FONT_FACE.units_per_em());
    let mut pen = OutlinePen { data: String::new(), x, baseline, scale };
    for character in text.chars() {
        let glyph = FONT_FACE.glyph_index(character).unwrap_or(GlyphId(0));
        // A glyph without contours (a space) returns `None`. This is not an error.
        let _ = FONT_FACE.outline_glyph(glyph, &mut pen);
        pen.x += f64::from(character_width(character)) * scale;
    }
    pen.data
}

struct OutlinePen {
    data: String,
    x: f64,
    baseline: f64,
    scale: f64,
}

impl OutlinePen {
    /// Appends a path command and its points, converted from font units (y up) to pixels (y down).
    fn append_command(&mut self, command: char, points: &[(f32, f32)]) {
        self.data.push(command);
        for (x, y) in points {
            let x = self.x + f64::from(*x) * self.scale;
            let y = self.baseline - f64::from(*y) * self.scale;
            // Writing to a `String` cannot fail.
            let _ = write!(self.data, "{x:.2} {y:.2} ");
        }
    }
}

impl OutlineBuilder for OutlinePen {
    fn move_to(&mut self, x: f32, y: f32) {
        self.append_command('M', &[(x, y)]);
    }
    fn line_to(&mut self, x: f32, y: f32) {
        self.append_command('L', &[(x, y)]);
    }
    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        self.append_command('Q', &[(x1, y1), (x, y)]);
    }
    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        self.append_command('C', &[(x1, y1), (x2, y2), (x, y)]);
    }
    fn close(&mut self) {
        self.data.push('Z');
    }
}

// Wraps a label into lines of a given width, and truncates excess text with an ellipsis. Lines
// break at spaces if possible. A word that is wider than a line breaks after its separators (`/ - _
// , = :`), which are common in file and parameter names. A part that is too wide breaks between any
// two letters.

/// A line of a wrapped label.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WrappedLine {
    pub text: String,
    /// Index of the line of the original label that this line comes from. The original label may
    /// have line breaks of its own.
    pub source: usize,
}

/// A label wrapped into lines.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WrappedLabel {
    /// Lines from top to bottom; at least one.
    pub lines: Vec<WrappedLine>,
    /// Whether nothing was truncated and no word was broken between two letters.
    pub is_complete: bool,
}

impl WrappedLabel {
    /// Whether no line of the original label was broken.
    pub fn is_unbroken(&self) -> bool {
        let sources = self.lines.windows(2);
        self.is_complete && sources.into_iter().all(|pair| pair[0].source != pair[1].source)
    }

    /// Width in pixels of the widest line.
    pub fn widest_line(&self, size_px: f64) -> f64 {
        self.lines.iter().map(|line| reserved_width(&line.text, size_px)).fold(0.0, f64::max)
    }
}

/// Wraps `text` into at most `max_lines` lines of at most `max_width` pixels.
pub(crate) fn wrap_text(
    text: &str,
    max_width: f64,
    size_px: f64,
    max_lines: usize,
) -> WrappedLabel {
    let max_lines = max_lines.max(1);
    let mut filler = LineFiller { is_complete: true, max_width, size_px, ..LineFiller::default() };
    for (source, paragraph) in text.lines().enumerate() {
        filler.fill_paragraph(paragraph.trim(), source);
    }
    let LineFiller { mut lines, mut is_complete, .. } = filler;
    if lines.is_empty() {
        lines.push(WrappedLine { text: String::new(), source: 0 });
    }
    if lines.len() > max_lines {
        is_complete = false;
        let remainder: Vec<&str> =
            lines[max_lines - 1..].iter().map(|line| line.text.as_str()).collect();
        let last = truncate_middle(&remainder.join(" "), max_width, size_px);
        lines.truncate(max_lines);
        lines[max_lines - 1].text = last;
    }
    WrappedLabel { lines, is_complete }
}

/// Returns `text`, or its longest prefix that fits `max_width` with an ellipsis.
pub(crate) fn truncate_end(text: &str, max_width: f64, size_px: f64) -> String {
    if reserved_width(text, size_px) <= max_width {
        return text.to_owned();
    }
    let available = max_width - reserved_width("…", size_px);
    format!("{}…", fitting_prefix(text.chars(), available, size_px).trim_end())
}

/// Returns the text, or replaces its middle with an ellipsis. Names with a common prefix often
/// differ in their last letters.
fn truncate_middle(text: &str, max_width: f64, size_px: f64) -> String {
    if reserved_width(text, size_px) <= max_width {
        return text.to_owned();
    }
    let half_width = ((max_width - reserved_width("…", size_px)) / 2.0).max(0.0);
    let backwards = fitting_prefix(text.chars().rev(), half_width, size_px);
    let end: String = backwards.chars().rev().collect();
    let start = fitting_prefix(text.chars(), half_width, size_px);
    format!("{}…{}", start.trim_end(), end.trim_start())
}

/// Returns as many characters as fit.
fn fitting_prefix(characters: impl Iterator<Item = char>, max_width: f64, size_px: f64) -> String {
    let mut width = 0.0;
    let fits = |character: &char| {
        width += reserved_width(character.encode_utf8(&mut [0; 4]), size_px);
        width <= max_width
    };
    characters.take_while(fits).collect()
}

/// Fills lines with pieces of text.
#[derive(Default)]
struct LineFiller {
    lines: Vec<WrappedLine>,
    line: String,
    line_width: f64,
    source: usize,
    is_complete: bool,
    max_width: f64,
    size_px: f64,
}

impl LineFiller {
    fn fill_paragraph(&mut self, paragraph: &str, source: usize) {
        self.source = source;
        for word in split_pieces(paragraph, |character| character == ' ') {
            if self.append_piece(word) {
                continue;
            }
            for part in split_pieces(word, |character| "/-_,=:".contains(character)) {
                if self.append_piece(part) {
                    continue;
                }
                self.is_complete = false;
                for character in part.chars() {
                    self.append_piece(character.encode_utf8(&mut [0; 4]));
                }
            }
        }
        self.end_line();
    }

    /// Appends a piece to this line or a new one. Returns false if the piece is wider than a whole
    /// line. A single character is always appended, to guarantee termination.
    fn append_piece(&mut self, piece: &str) -> bool {
        // A trailing space takes no room.
        let visible_px = reserved_width(piece.trim_end(), self.size_px);
        if self.line_width + visible_px > self.max_width {
            if visible_px > self.max_width && piece.chars().count() > 1 {
                return false;
            }
            self.end_line();
        }
        self.line.push_str(piece);
        self.line_width += reserved_width(piece, self.size_px);
        true
    }

    fn end_line(&mut self) {
        self.line_width = 0.0;
        let text = std::mem::take(&mut self.line).trim_end().to_owned();
        if !text.is_empty() {
            self.lines.push(WrappedLine { text, source: self.source });
        }
    }
}

/// Splits `text` after each run of separators. The pieces, joined, give `text` again.
fn split_pieces(text: &str, is_separator: impl Fn(char) -> bool) -> Vec<&str> {
    let neighbors = text.chars().zip(text.char_indices().skip(1));
    let starts = neighbors.filter(|(last, (_, next))| is_separator(*last) && !is_separator(*next));
    let mut cuts = vec![0];
    cuts.extend(starts.map(|(_, (start, _))| start));
    cuts.push(text.len());
    cuts.windows(2).map(|ends| &text[ends[0]..ends[1]]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_widths_match_the_font_tables() {
        // From the hmtx table of the embedded file (fontTools): ten digits are 16940 wide at 2816
        // units per em.
        assert!((text_width("0123456789", 2816.0) - 16_940.0).abs() < 1e-6);
        assert_eq!(text_width("", 12.0), 0.0);
        assert!((text_width("語", 10.0) - 10.0).abs() < 1e-9);
    }

    #[test]
    fn the_font_has_the_letters_that_charts_write() {
        for character in "−×·…±≥≤→µσΔ²⁻⁹₂éßñЖ∞".chars() {
            assert!(FONT_FACE.glyph_index(character).is_some(), "{character} is missing");
        }
    }

    #[test]
    fn an_outline_begins_at_the_pen_and_a_space_has_none() {
        assert!(text_outline("I", 10.0, 100.0, 50.0).starts_with("M10"));
        assert!(text_outline(" ", 10.0, 0.0, 0.0).is_empty());
    }

    fn texts(wrapped: &WrappedLabel) -> Vec<&str> {
        wrapped.lines.iter().map(|line| line.text.as_str()).collect()
    }

    #[test]
    fn a_label_breaks_at_spaces_first() {
        let width = reserved_width("buffer-compare.js", 12.0) + 0.1;
        let wrapped = wrap_text("buffer-compare.js size=16 n=4", width, 12.0, 9);
        assert_eq!(texts(&wrapped), ["buffer-compare.js", "size=16 n=4"]);
        assert!(wrapped.is_complete);
    }

    #[test]
    fn a_wide_word_breaks_after_its_separators() {
        let width = reserved_width("string_decoder/", 12.0) + 0.1;
        let wrapped = wrap_text("string_decoder/string-decoder.js", width, 12.0, 9);
        assert_eq!(texts(&wrapped), ["string_decoder/", "string-", "decoder.js"]);
        assert!(wrapped.is_complete);
    }

    #[test]
    fn breaking_a_word_between_letters_marks_the_label_as_incomplete() {
        let wrapped = wrap_text("abcdefghij", reserved_width("abcde", 12.0), 12.0, 9);
        assert_eq!(texts(&wrapped).concat(), "abcdefghij");
        assert!(!wrapped.is_complete && wrapped.lines.len() >= 2);
    }

    #[test]
    fn line_breaks_of_the_label_are_kept_and_numbered() {
        let wrapped = wrap_text("file.js\nsize=16", 500.0, 12.0, 4);
        assert_eq!(texts(&wrapped), ["file.js", "size=16"]);
        assert_eq!(wrapped.lines[1].source, 1);
    }

    #[test]
    fn an_ellipsis_replaces_the_middle_of_excess_lines() {
        let width = reserved_width("one two", 12.0);
        let wrapped = wrap_text("one two three four five six", width, 12.0, 2);
        assert_eq!(wrapped.lines.len(), 2);
        assert!(wrapped.lines[1].text.contains('…') && wrapped.widest_line(12.0) <= width);
        assert!(wrapped.lines[1].text.ends_with('x'), "the end of 'six' is kept");
        assert!(!wrapped.is_complete);
    }

    #[test]
    fn wrapping_handles_empty_text_and_zero_width() {
        assert_eq!(texts(&wrap_text("", 100.0, 12.0, 3)), [""]);
        assert_eq!(texts(&wrap_text("ab", 0.0, 12.0, 3)), ["a", "b"]);
        assert_eq!(truncate_end("abc", 0.0, 12.0), "…");
    }
}
