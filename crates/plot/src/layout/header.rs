//! Title, subtitle, notes and legend, stacked at the top of the sheet.

use super::legend::{Key, Legend};
use crate::Scale;
use crate::draw::{INK, MUTED, Svg, Text};
use crate::text::{Wrapped, wrap};

const TITLE_PX: f64 = 18.0;
const TITLE_LINE: f64 = 24.0;
const SUBTITLE_PX: f64 = 13.0;
const SUBTITLE_LINE: f64 = 18.0;
/// Empty pixels between the header and the chart.
const GAP: f64 = 14.0;

/// What stands above a chart.
#[derive(Clone, Debug, Default)]
pub(crate) struct Header<'a> {
    pub title: &'a str,
    pub subtitle: Option<&'a str>,
    /// What the reader must know of what is missing, as a line below the subtitle.
    pub note: Option<String>,
    pub legend: Vec<Key>,
}

impl Header<'_> {
    /// Breaks everything into lines of at most `width` pixels.
    pub fn lay_out(&self, width: f64) -> PlacedHeader {
        let subtitle = self.subtitle.unwrap_or_default();
        let note = self.note.as_deref().unwrap_or_default();
        let lines = |text: &str, size_px, max_lines| match text.trim() {
            "" => None,
            text => Some(wrap(text, width, size_px, max_lines)),
        };
        PlacedHeader {
            title: lines(self.title, TITLE_PX, 2),
            subtitle: lines(subtitle, SUBTITLE_PX, 3),
            note: lines(note, SUBTITLE_PX, 1),
            legend: Legend::lay_out(&self.legend, width),
        }
    }
}

/// A header whose lines are broken.
pub(crate) struct PlacedHeader {
    title: Option<Wrapped>,
    subtitle: Option<Wrapped>,
    note: Option<Wrapped>,
    legend: Legend,
}

impl PlacedHeader {
    /// Height in pixels, with the gap to the chart.
    pub fn height(&self) -> f64 {
        let count =
            |wrapped: &Option<Wrapped>| wrapped.as_ref().map_or(0, |w| w.lines.len()) as f64;
        count(&self.title) * TITLE_LINE
            + (count(&self.subtitle) + count(&self.note)) * SUBTITLE_LINE
            + self.legend.height()
            + GAP
    }

    /// Draws with the upper left corner at (`left`, `top`).
    pub fn draw(&self, svg: &mut Svg, left: f64, top: f64) {
        let mut y = top;
        let mut write = |svg: &mut Svg, block: &Option<Wrapped>, size_px, line_px, colour| {
            for line in block.iter().flat_map(|wrapped| &wrapped.lines) {
                y += line_px;
                let text = Text::at(&line.text, left, y - line_px * 0.27, size_px);
                svg.text(&text.coloured(colour));
            }
        };
        write(svg, &self.title, TITLE_PX, TITLE_LINE, INK);
        write(svg, &self.subtitle, SUBTITLE_PX, SUBTITLE_LINE, MUTED);
        write(svg, &self.note, SUBTITLE_PX, SUBTITLE_LINE, MUTED);
        self.legend.draw(svg, left, y);
    }
}

/// "2 values not shown" with the reason; nothing when none were left out.
pub(crate) fn omitted_note(count: usize, scales: &[&Scale]) -> Option<String> {
    let logarithmic = scales
        .iter()
        .any(|scale| matches!(scale, Scale::Log2 | Scale::Log10));
    let named = scales
        .iter()
        .any(|scale| matches!(scale, Scale::Category(_) | Scale::Nines));
    let reason = match (logarithmic, named) {
        (true, _) => "not finite, or not positive on a logarithmic axis",
        (false, true) => "not finite, or without a place on the axis",
        (false, false) => "not finite",
    };
    let values = if count == 1 { "value" } else { "values" };
    (count > 0).then(|| format!("{count} {values} not shown ({reason})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_grows_with_what_it_holds() {
        let bare = Header {
            title: "t",
            ..Header::default()
        };
        let full = Header {
            subtitle: Some("s"),
            note: Some("n".into()),
            ..bare.clone()
        };
        assert_eq!(
            full.lay_out(500.0).height() - bare.lay_out(500.0).height(),
            2.0 * SUBTITLE_LINE
        );
    }

    #[test]
    fn left_out_values_are_counted_with_the_reason() {
        assert_eq!(omitted_note(0, &[&Scale::Linear]), None);
        let one = omitted_note(1, &[&Scale::Linear]).unwrap();
        assert_eq!(one, "1 value not shown (not finite)");
        assert!(
            omitted_note(2, &[&Scale::Log2])
                .unwrap()
                .starts_with("2 values not shown (not fin")
        );
    }
}
