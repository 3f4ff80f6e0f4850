//! Colours that a page chooses: each colour of the charts has a variable, which the page sets. Knows no page;
//! which colours suit a dark one is the page's business.

use super::hatching::{FULL_LINE, PALE_LINE, TINT, blend};
use super::style::{AXIS, BAND, COLOURS, GRID, INK, MUTED, NEUTRAL, PAPER};
use std::borrow::Cow;
use std::sync::LazyLock;

static VARIABLES: LazyLock<Vec<(String, String)>> = LazyLock::new(|| {
    let plain = [
        ("ink", INK),
        ("muted", MUTED),
        ("axis", AXIS),
        ("grid", GRID),
        ("band", BAND),
        ("paper", PAPER),
        ("neutral", NEUTRAL),
    ];
    let mut all: Vec<(String, String)> = plain
        .into_iter()
        .map(|(name, colour)| (format!("--plot-{name}"), colour.to_owned()))
        .collect();
    for (at, colour) in COLOURS.into_iter().enumerate() {
        all.push((format!("--plot-series-{at}"), colour.to_owned()));
        for (name, share) in [("tint", TINT), ("pale", PALE_LINE), ("line", FULL_LINE)] {
            all.push((format!("--plot-{name}-{at}"), blend(colour, share)));
        }
    }
    all
});

/// Every variable that a chart on a page uses, with the colour that it has on white paper.
pub fn page_colours() -> &'static [(String, String)] {
    &VARIABLES
}

/// A colour as its variable; other words as they are.
pub(crate) fn themed(colour: &str) -> Cow<'_, str> {
    match VARIABLES.iter().find(|(_, light)| light == colour) {
        Some((name, _)) => format!("var({name})").into(),
        None => colour.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_two_variables_share_a_colour() {
        // The variable is found by its colour, so a second one could never be used.
        let colours: HashSet<_> = page_colours().iter().map(|(_, light)| light).collect();
        assert_eq!(colours.len(), page_colours().len());
    }
}
