//! How many digits of a figure the data support, and how numbers are spelled with them.
//!
//! The rule is that of the Particle Data Group (Review of Particle Physics, introduction, section
//! "Rounding"): of the uncertainty, two digits are kept when its leading digits are 100 to 354, one
//! when they are 355 to 949, and 950 to 999 round up; the figure ends at the same place.

/// What is known about the uncertainty of a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Uncertainty {
    /// Half the width of its interval, in the figure's own unit.
    Half(f64),
    /// It is exact, for example because all runs gave the same value.
    Exact,
    /// Nothing is known.
    Unknown,
}

/// Digits shown of a figure of unknown uncertainty.
const PLAIN_DIGITS: i32 = 3;
/// No figure has more significant digits than this: differences in the seventh are no news.
const MOST_DIGITS: i32 = 6;

/// The last decimal place that an uncertainty of `half_width` supports; negative is left of the
/// point. `None` if the width is zero or not finite.
pub fn supported_place(half_width: f64) -> Option<i32> {
    if !half_width.is_finite() || half_width <= 0.0 {
        return None;
    }
    let exponent = half_width.log10().floor();
    let leading = (half_width / 10f64.powf(exponent) * 100.0).round();
    let place = -exponent as i32;
    Some(if leading <= 354.0 { place + 1 } else { place })
}

/// The decimal place of the first digit; negative is left of the point. `None` for zero.
pub fn first_place(figure: f64) -> Option<i32> {
    (figure != 0.0 && figure.is_finite()).then(|| -figure.abs().log10().floor() as i32)
}

/// The last decimal place at which `figure` is to be rounded. At least its first digit stays.
pub fn place(figure: f64, uncertainty: Uncertainty) -> i32 {
    let first = first_place(figure).unwrap_or(0);
    let last = first + MOST_DIGITS - 1;
    match uncertainty {
        Uncertainty::Half(half) => supported_place(half)
            .unwrap_or(first + PLAIN_DIGITS - 1)
            .clamp(first, last),
        Uncertainty::Exact => shortest_place(figure, last),
        Uncertainty::Unknown => first + PLAIN_DIGITS - 1,
    }
}

/// The first place at which nothing but zeros would follow, at most `last`.
fn shortest_place(figure: f64, last: i32) -> i32 {
    let exact = |place: &i32| {
        let power = 10f64.powi(*place);
        let tail = figure * power - (figure * power).round();
        tail.abs() <= 1e-9 * (figure * power).abs()
    };
    (0..last.max(0)).find(exact).unwrap_or(last.max(0))
}

/// `figure` rounded at `place`, with a comma between every three digits.
pub fn spell(figure: f64, place: i32) -> String {
    if figure.is_nan() {
        return "?".to_owned();
    }
    if figure.is_infinite() {
        return if figure > 0.0 { "∞" } else { "-∞" }.to_owned();
    }
    let number = if place >= 0 {
        format!("{figure:.*}", place as usize)
    } else {
        let step = 10f64.powi(-place);
        format!("{:.0}", (figure / step).round() * step)
    };
    let number = match number.strip_prefix('-') {
        Some(zero) if is_zero(zero) => zero,
        _ => &number,
    };
    separated(number)
}

/// The same with a sign in front of positive figures. What is shown as zero has none.
pub fn spell_signed(figure: f64, place: i32) -> String {
    let spelled = spell(figure, place);
    if figure > 0.0 && !is_zero(&spelled) {
        format!("+{spelled}")
    } else {
        spelled
    }
}

/// Whether a spelled number is zero as it stands there.
fn is_zero(spelled: &str) -> bool {
    !spelled.contains(|c: char| ('1'..='9').contains(&c) || c == '∞')
}

/// Puts commas into the whole part of a decimal number.
fn separated(number: &str) -> String {
    let (sign, rest) = match number.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", number),
    };
    let (whole, fraction) = match rest.find('.') {
        Some(point) => rest.split_at(point),
        None => (rest, ""),
    };
    let mut spelled = String::from(sign);
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            spelled.push(',');
        }
        spelled.push(digit);
    }
    spelled + fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of the Particle Data Group: 0.827 +- 0.119, 0.827 +- 0.367, 0.827 +- 0.996.
    #[test]
    fn the_published_rounding_examples_hold() {
        for (half, place, figure, error) in [
            (0.119, 2, "0.83", "0.12"),
            (0.367, 1, "0.8", "0.4"),
            (0.996, 1, "0.8", "1.0"),
        ] {
            assert_eq!(supported_place(half), Some(place), "{half}");
            assert_eq!(
                (spell(0.827, place).as_str(), spell(half, place).as_str()),
                (figure, error)
            );
        }
    }

    #[test]
    fn a_figure_never_shows_more_than_its_interval_supports() {
        let shown = |figure, half| spell(figure, place(figure, Uncertainty::Half(half)));
        assert_eq!(shown(1.234_567, 0.0123), "1.235");
        assert_eq!(shown(123_456.0, 40_000.0), "120,000");
        assert_eq!(shown(5.0, 300.0), "5");
        assert_eq!(shown(1.0, 0.9), "1.0");
        assert_eq!(shown(1.234_567_89, 1e-9), "1.23457");
    }

    #[test]
    fn exact_and_unknown_figures() {
        let exact = |figure| spell(figure, place(figure, Uncertainty::Exact));
        assert_eq!(exact(12_345.0), "12,345");
        assert_eq!(exact(0.25), "0.25");
        assert_eq!(exact(1.0 / 3.0), "0.333333");
        assert_eq!(exact(0.0), "0");
        assert_eq!(spell(1234.5, place(1234.5, Uncertainty::Unknown)), "1,230");
        assert_eq!(
            spell(0.012_345, place(0.012_345, Uncertainty::Unknown)),
            "0.0123"
        );
    }

    #[test]
    fn commas_stand_between_every_three_digits_of_the_whole_part() {
        for (figure, place, text) in [
            (999.0, 0, "999"),
            (1000.0, 0, "1,000"),
            (-1_234_567.891, 2, "-1,234,567.89"),
            (0.000_12, 5, "0.00012"),
        ] {
            assert_eq!(spell(figure, place), text);
        }
        assert_eq!(spell_signed(0.04, 1), "0.0");
        assert_eq!(spell_signed(-0.04, 1), "0.0");
        assert_eq!(spell(-40.0, -2), "0");
        assert_eq!(spell_signed(f64::INFINITY, 1), "+∞");
    }
}
