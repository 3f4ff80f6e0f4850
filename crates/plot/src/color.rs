//! Defines the colors of charts, and the CSS variables with which a page can change the colors.
//!
//! The series colors follow M. Okabe and K. Ito, "Color Universal Design" (2008), and remain
//! distinguishable with all common kinds of color blindness. Two of their colors are omitted:
//! yellow is invisible on white, and text uses black. A dark gray is added.

use std::borrow::Cow;
use std::str::FromStr;
use std::sync::LazyLock;

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
        let digits = text.strip_prefix('#').filter(|digits| digits.len() == 6);
        let component = |start: usize| {
            let pair = digits.and_then(|digits| digits.get(start..start + 2)).ok_or(())?;
            u8::from_str_radix(pair, 16).map_err(|_| ())
        };
        Ok(RgbColor(component(0)?, component(2)?, component(4)?))
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
    let blended_channel = |start: usize| {
        let value =
            u8::from_str_radix(colour.get(start..start + 2).unwrap_or("00"), 16).unwrap_or(0);
        (255.0 - (255.0 - f64::from(value)) * share).round() as u8
    };
    format!("#{:02x}{:02x}{:02x}", blended_channel(1), blended_channel(3), blended_channel(5))
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
    let mut variables: Vec<(String, String)> = base_colors
        .into_iter()
        .map(|(name, colour)| (format!("--plot-{name}"), colour.to_owned()))
        .collect();
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

/// Returns the variable of a known color; other values are returned unchanged.
pub(crate) fn to_variable(colour: &str) -> Cow<'_, str> {
    match PAGE_VARIABLES.iter().find(|(_, light)| light == colour) {
        Some((name, _)) => format!("var({name})").into(),
        None => colour.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

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
