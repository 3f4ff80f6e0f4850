//! Hatchings that keep areas apart without colour. A hatching is an SVG pattern with the colour in
//! its name, so that several charts on one page may define the same one twice without harm.

use super::{Style, Svg};

/// Share of the colour in a pale area, in the lines on a pale area, and in those on a full one.
pub(super) const TINT: f64 = 0.22;
pub(super) const PALE_LINE: f64 = 0.45;
pub(super) const FULL_LINE: f64 = 0.6;

/// What to write into `fill` for a full area of this style.
pub(crate) fn hatched(style: Style) -> String {
    match style.hatching() {
        0 => style.colour().into_owned(),
        _ => format!("url(#{})", id(style, "full")),
    }
}

/// What to write into `fill` for a pale area, behind other marks, of this style.
pub(crate) fn hatched_tint(style: Style) -> String {
    match style.hatching() {
        0 => tint(&style.colour()),
        _ => format!("url(#{})", id(style, "pale")),
    }
}

/// Defines the hatchings that the first `count` styles need, full ones or pale ones.
pub(crate) fn define_hatchings(svg: &mut Svg, count: usize, pale: bool) {
    // After 35 styles (7 colours, 5 hatchings) all combinations have been.
    let styles: Vec<Style> = (0..count.min(35))
        .map(Style::of)
        .filter(|style| style.hatching() > 0)
        .collect();
    if styles.is_empty() {
        return;
    }
    svg.element("defs").containing(|svg| {
        for style in styles {
            define(svg, style, pale);
        }
    });
}

fn define(svg: &mut Svg, style: Style, pale: bool) {
    let colour = style.colour();
    let (ground, line) = if pale {
        (tint(&colour), blend(&colour, PALE_LINE))
    } else {
        (colour.to_string(), blend(&colour, FULL_LINE))
    };
    let (data, width) = match style.hatching() {
        1 => ("M-2 2L2 -2M0 8L8 0M6 10L10 6", 1.3),
        2 => ("M0 4H8", 1.3),
        3 => ("M-2 6L2 10M0 0L8 8M6 -2L10 2", 1.3),
        _ => ("M4 0V8", 1.3),
    };
    svg.element("pattern")
        .set("id", &id(style, if pale { "pale" } else { "full" }))
        .num("width", 8.0)
        .num("height", 8.0)
        .set("patternUnits", "userSpaceOnUse")
        .containing(|svg| {
            svg.element("rect")
                .num("width", 8.0)
                .num("height", 8.0)
                .set("fill", &ground)
                .close();
            svg.element("path")
                .set("d", data)
                .set("stroke", &line)
                .num("stroke-width", width)
                .close();
        });
}

fn id(style: Style, kind: &str) -> String {
    format!("hatch-{kind}-{}-{}", style.hatching(), &style.colour()[1..])
}

fn tint(colour: &str) -> String {
    blend(colour, TINT)
}

/// A share of the colour on white paper, as an opaque colour: what overlaps then stays as it is.
pub(super) fn blend(colour: &str, share: f64) -> String {
    let channel = |at: usize| {
        let full = u8::from_str_radix(colour.get(at..at + 2).unwrap_or("00"), 16).unwrap_or(0);
        (255.0 - (255.0 - f64::from(full)) * share).round() as u8
    };
    format!("#{:02x}{:02x}{:02x}", channel(1), channel(3), channel(5))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_a_colour_lies_between_it_and_white() {
        assert_eq!(blend("#000000", 0.5), "#808080");
        assert_eq!(blend("#0072b2", 0.0), "#ffffff");
        assert_eq!(blend("#0072b2", 1.0), "#0072b2");
    }
}
