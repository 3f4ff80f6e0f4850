//! The embedded font: widths and outlines of its letters.
//! Kerning is left out on purpose: it is a hundredth of a line's width, and leaving it out makes
//! the measured width and the painted outline agree exactly.

use std::fmt::Write as _;
use std::sync::LazyLock;

use ttf_parser::{Face, GlyphId, OutlineBuilder};

static FILE: &[u8] = include_bytes!("../../assets/Inter-Regular-subset.otf");

static FACE: LazyLock<Face<'static>> = LazyLock::new(|| {
    #[expect(
        clippy::expect_used,
        reason = "the file is compiled in, and every test parses it"
    )]
    Face::parse(FILE, 0).expect("the embedded font is well formed")
});

/// The font families named in SVG text. After Inter itself come faces that are not wider, so that what
/// was laid out for Inter has room in them as well; for the last resort see [`room_for`].
pub(crate) const FAMILIES: &str =
    "Inter, 'Helvetica Neue', Helvetica, Arial, 'Liberation Sans', sans-serif";

/// Height of a capital letter as a share of the font size (the font's own OS/2 figure: 2048 / 2816).
pub(crate) const CAP_HEIGHT: f64 = 0.727;

/// Width in pixels of one line of text at a font size in pixels, in the font that charts are laid out with.
///
/// ```
/// assert!(speedwell_plot::text_width("wide label", 12.0) > speedwell_plot::text_width("label", 12.0));
/// ```
pub fn text_width(text: &str, size_px: f64) -> f64 {
    let units: u32 = text.chars().map(advance).sum();
    f64::from(units) * size_px / f64::from(FACE.units_per_em())
}

/// Width in pixels to keep free for one line of text. A viewer without any of [`FAMILIES`] shows it in a face
/// of its own; of those that are common DejaVu Sans is the widest, by 6 to 8 per cent for most labels.
pub(crate) fn room_for(text: &str, size_px: f64) -> f64 {
    const WIDEST_FACE: f64 = 1.08;
    text_width(text, size_px) * WIDEST_FACE
}

/// Widths of the Latin letters, looked up once: they make up nearly all labels, and a search in the
/// font's tables for every letter was most of the time of a chart with many labels.
static LATIN: LazyLock<Vec<u32>> =
    LazyLock::new(|| ('\0'..='\u{24f}').map(advance_in_font).collect());

/// Width of a letter in font units.
fn advance(letter: char) -> u32 {
    let known = LATIN.get(letter as usize).copied();
    known.unwrap_or_else(|| advance_in_font(letter))
}

/// A letter the font lacks is counted as a full square, which is what Chinese, Japanese and Korean
/// faces use.
fn advance_in_font(letter: char) -> u32 {
    match FACE.glyph_index(letter) {
        Some(glyph) => u32::from(FACE.glyph_hor_advance(glyph).unwrap_or(0)),
        None => u32::from(FACE.units_per_em()),
    }
}

/// The outlines of a line of text as SVG path data, its first letter's origin at (`x`, `baseline`).
pub(crate) fn outline(text: &str, size_px: f64, x: f64, baseline: f64) -> String {
    let scale = size_px / f64::from(FACE.units_per_em());
    let mut pen = Pen {
        data: String::new(),
        x,
        baseline,
        scale,
    };
    for letter in text.chars() {
        let glyph = FACE.glyph_index(letter).unwrap_or(GlyphId(0));
        // A glyph without contours (a blank) answers `None`, which is no error.
        let _ = FACE.outline_glyph(glyph, &mut pen);
        pen.x += f64::from(advance(letter)) * scale;
    }
    pen.data
}

struct Pen {
    data: String,
    x: f64,
    baseline: f64,
    scale: f64,
}

impl Pen {
    /// Appends a path command and its points, turned from font units (y up) to pixels (y down).
    fn put(&mut self, command: char, points: &[(f32, f32)]) {
        self.data.push(command);
        for (x, y) in points {
            let x = self.x + f64::from(*x) * self.scale;
            let y = self.baseline - f64::from(*y) * self.scale;
            // Writing to a `String` cannot fail.
            let _ = write!(self.data, "{x:.2} {y:.2} ");
        }
    }
}

impl OutlineBuilder for Pen {
    fn move_to(&mut self, x: f32, y: f32) {
        self.put('M', &[(x, y)]);
    }
    fn line_to(&mut self, x: f32, y: f32) {
        self.put('L', &[(x, y)]);
    }
    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        self.put('Q', &[(x1, y1), (x, y)]);
    }
    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        self.put('C', &[(x1, y1), (x2, y2), (x, y)]);
    }
    fn close(&mut self) {
        self.data.push('Z');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_those_of_the_font_tables() {
        // fontTools, hmtx of the embedded file: ten digits are 16940 of 2816 units per em.
        assert!((text_width("0123456789", 2816.0) - 16_940.0).abs() < 1e-6);
        assert_eq!(text_width("", 12.0), 0.0);
        assert!((text_width("語", 10.0) - 10.0).abs() < 1e-9);
    }

    #[test]
    fn the_font_has_the_letters_that_charts_write() {
        for letter in "−×·…±≥≤→µσΔ²⁻⁹₂éßñЖ∞".chars() {
            assert!(FACE.glyph_index(letter).is_some(), "{letter} is missing");
        }
    }

    #[test]
    fn an_outline_begins_at_the_pen_and_a_blank_has_none() {
        assert!(outline("I", 10.0, 100.0, 50.0).starts_with("M10"));
        assert!(outline(" ", 10.0, 0.0, 0.0).is_empty());
    }
}
