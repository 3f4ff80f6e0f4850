//! How a series looks: colour, marker, dash and hatching, all by its place in the order of series.
//!
//! The colours are those of M. Okabe and K. Ito, "Color Universal Design" (2008), which stay apart in
//! all common kinds of colour blindness. Their yellow is left out because it cannot be seen on white,
//! and black because text has it; a dark grey closes the list. Seven colours against seven
//! markers, shifted on every round, keep 49 series apart.

use super::Marker;
use std::borrow::Cow;
use std::str::FromStr;

/// Title, labels that must be read.
pub(crate) const INK: &str = "#1f2328";
/// Labels of axes and everything that explains.
pub(crate) const MUTED: &str = "#59616d";
/// Lines of axes.
pub(crate) const AXIS: &str = "#8b939e";
/// Lines behind the data.
pub(crate) const GRID: &str = "#e4e7eb";
/// A range behind the data.
pub(crate) const BAND: &str = "#eef1f5";
/// What is neither good nor bad.
pub(crate) const NEUTRAL: &str = "#6b7280";
/// The sheet.
pub(crate) const PAPER: &str = "#ffffff";

pub(super) const COLOURS: [&str; 7] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#4d4d4d",
];
const DASHES: [&str; 4] = ["", "7 4", "2 3", "9 3 2 3"];

/// How one series looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Style {
    index: usize,
    own: Option<Rgb>,
}

/// A colour that somebody chose for a series: red, green, blue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rgb(pub u8, pub u8, pub u8);

impl FromStr for Rgb {
    type Err = ();

    /// Reads `#rrggbb`.
    fn from_str(text: &str) -> Result<Rgb, ()> {
        let digits = text.strip_prefix('#').filter(|digits| digits.len() == 6);
        let part = |at: usize| {
            let pair = digits.and_then(|digits| digits.get(at..at + 2)).ok_or(())?;
            u8::from_str_radix(pair, 16).map_err(|_| ())
        };
        Ok(Rgb(part(0)?, part(2)?, part(4)?))
    }
}

impl Style {
    /// The look of the series at `index`.
    pub fn of(index: usize) -> Self {
        Self { index, own: None }
    }

    /// The same with a colour of its own, if there is one.
    pub fn coloured(self, own: Option<Rgb>) -> Self {
        Self { own, ..self }
    }

    pub fn colour(self) -> Cow<'static, str> {
        match self.own {
            Some(Rgb(red, green, blue)) => format!("#{red:02x}{green:02x}{blue:02x}").into(),
            None => COLOURS[self.index % COLOURS.len()].into(),
        }
    }

    pub fn marker(self) -> Marker {
        let round = self.index / COLOURS.len();
        Marker::ALL[(self.index + round) % Marker::ALL.len()]
    }

    /// The dash of a line as SVG's `stroke-dasharray`; empty for a solid line.
    pub fn dash(self) -> &'static str {
        DASHES[self.index % DASHES.len()]
    }

    /// Which hatching an area has: 0 is none.
    pub fn hatching(self) -> usize {
        self.index % 5
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forty_nine_series_look_different_without_hatching() {
        let looks: std::collections::HashSet<_> = (0..49)
            .map(|index| (Style::of(index).colour(), Style::of(index).marker()))
            .collect();
        assert_eq!(looks.len(), 49);
    }

    #[test]
    fn a_colour_of_its_own_is_written_as_it_was_read() {
        let own: Rgb = "#8d6e4b".parse().unwrap();
        assert_eq!(Style::of(0).coloured(Some(own)).colour(), "#8d6e4b");
        for wrong in ["8d6e4b", "#8d6e4", "#8d6e4g", "red", "#é6e4b"] {
            assert!(wrong.parse::<Rgb>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn neighbours_differ_without_colour() {
        for index in 0..48 {
            let (one, next) = (Style::of(index), Style::of(index + 1));
            assert_ne!(one.marker(), next.marker());
            assert_ne!(one.dash(), next.dash());
            assert_ne!(one.hatching(), next.hatching());
        }
    }
}
