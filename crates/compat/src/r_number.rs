//! Numbers as R prints a column of them.
//!
//! Decides how many digits a column shows: as few as give every number 7 significant ones, all
//! with the same number of decimals, or all in scientific form where that is narrower (R's
//! `options(digits = 7, scipen = 0)`; the rule is described under `print.default` and `format`).
//! It must not know tables.

/// R's default number of significant digits.
const DIGITS: usize = 7;

/// How a number looks when rounded to [`DIGITS`] significant digits.
struct Rounded {
    negative: bool,
    /// Power of ten of the first digit.
    exponent: i32,
    /// Significant digits without trailing zeros.
    digits: i32,
    /// Whether rounding gave it one digit more before the point than it has.
    widened: bool,
}

impl Rounded {
    fn of(number: f64) -> Rounded {
        let text = format!("{:.*e}", DIGITS - 1, number.abs());
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let exponent: i32 = exponent.parse().unwrap_or(0);
        let significant = mantissa
            .trim_end_matches('0')
            .bytes()
            .filter(u8::is_ascii_digit)
            .count();
        // In fixed form the number keeps `cut` decimals, so it may stay below the power of ten to
        // which the scientific form rounds it.
        let cut = (DIGITS as i32 - exponent).max(0);
        let stays_below = 10f64.powi(exponent) - 0.5 / 10f64.powi(cut);
        Rounded {
            negative: number < 0.0,
            exponent,
            digits: significant.max(1) as i32,
            widened: exponent > 0 && number.abs() < stays_below,
        }
    }

    /// Characters before the point in fixed form, the sign included.
    fn left(&self) -> i32 {
        let digits = self.exponent + 1 - i32::from(self.widened);
        digits.max(1) + i32::from(self.negative)
    }

    /// Digits after the point in fixed form.
    fn right(&self) -> i32 {
        (self.digits - self.exponent - 1).max(0)
    }
}

/// The texts of one column, not yet padded to one width. `None` is R's `NA`.
pub fn column(numbers: &[Option<f64>]) -> Vec<String> {
    let finite = numbers
        .iter()
        .flatten()
        .copied()
        .filter(|number| number.is_finite());
    let rounded: Vec<Rounded> = finite.map(Rounded::of).collect();
    let largest = |of: fn(&Rounded) -> i32| rounded.iter().map(of).max().unwrap_or(0);
    let (left, right) = (largest(Rounded::left), largest(Rounded::right));
    let fixed_width = left + right + i32::from(right > 0);
    let decimals = largest(|number| number.digits) - 1;
    let sign = i32::from(rounded.iter().any(|number| number.negative));
    let exponent_digits = if rounded.iter().any(|number| number.exponent.abs() >= 100) {
        3
    } else {
        2
    };
    let point = i32::from(decimals > 0);
    // Sign, first digit, point, decimals, `e`, sign of the exponent, exponent.
    let scientific_width = sign + 1 + point + decimals + 2 + exponent_digits;
    let scientific = fixed_width > scientific_width;
    let text = |number: &Option<f64>| match *number {
        None => "NA".to_owned(),
        Some(number) if number.is_nan() => "NaN".to_owned(),
        Some(f64::INFINITY) => "Inf".to_owned(),
        Some(f64::NEG_INFINITY) => "-Inf".to_owned(),
        Some(number) if scientific => in_scientific_form(number, decimals as usize),
        Some(number) => format!("{number:.*}", right as usize),
    };
    numbers.iter().map(text).collect()
}

/// C's `%.*e`: the exponent has a sign and at least two digits.
fn in_scientific_form(number: f64, decimals: usize) -> String {
    let text = format!("{number:.decimals$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::column;

    /// Each expected column was printed by `format(c(...))` of R 4.2.2.
    #[test]
    fn columns_are_those_of_r() {
        let cases: &[(&[f64], &[&str])] = &[
            (
                &[516194.04781470774, 505270.1370375367, 1038734.0434914406],
                &["516194.0", "505270.1", "1038734.0"],
            ),
            (
                &[0.5, 1000000.0, 3000000000.0],
                &["5e-01", "1e+06", "3e+09"],
            ),
            (
                &[1234567890.0, 0.00012345678],
                &["1.234568e+09", "1.234568e-04"],
            ),
            (&[100000.0], &["1e+05"]),
            (&[100000.0, 1.0], &["1e+05", "1e+00"]),
            (&[123456.0], &["123456"]),
            (&[0.1, 0.12345678], &["0.1000000", "0.1234568"]),
            (&[99999999.0], &["1e+08"]),
            (&[9999999.6, 1.0], &["1e+07", "1e+00"]),
            (&[1e-300, 1.0], &["1e-300", "1e+00"]),
            (&[1e+100, 1e-05], &["1e+100", "1e-05"]),
            (&[-1.5, 2.0], &["-1.5", "2.0"]),
            (&[-10000000000.0, 5.0], &["-1e+10", "5e+00"]),
            (
                &[f64::NAN, 1.25, f64::INFINITY, f64::NEG_INFINITY],
                &["NaN", "1.25", "Inf", "-Inf"],
            ),
            (&[0.0, 0.0], &["0", "0"]),
            (&[635.3102, f64::NAN], &["635.3102", "NaN"]),
            (&[100000.0, 1e-05], &["1e+05", "1e-05"]),
            (&[9.99999999, 100.5], &["10.0", "100.5"]),
            (&[99999.99999], &["1e+05"]),
            (&[1000000000000000.0], &["1e+15"]),
            (&[1000000000000002.0], &["1e+15"]),
            (&[1e-05], &["1e-05"]),
            (&[0.0001], &["1e-04"]),
            (&[0.0001234], &["0.0001234"]),
            (&[1234567.8], &["1234568"]),
            (&[123456789.123], &["123456789"]),
            (
                &[0.6666666666666666, 6.666666666666667, 666666.6666666666],
                &["6.666667e-01", "6.666667e+00", "6.666667e+05"],
            ),
            (&[1e+300, -1e-300], &["1e+300", "-1e-300"]),
            (&[31.0, 1.2345678912], &["31.000000", "1.234568"]),
            (&[1e-15, 1.0], &["1e-15", "1e+00"]),
            (&[f64::NAN], &["NaN"]),
            (&[12345678.0], &["12345678"]),
            (&[999999.95, 1.0], &["999999.9", "1.0"]),
            (&[-1.23456e-05], &["-1.23456e-05"]),
            (&[1e+22, 1.0], &["1e+22", "1e+00"]),
            (&[5e-324], &["4.940656e-324"]),
            (&[1.7976931348623157e+308], &["1.797693e+308"]),
        ];
        for (numbers, texts) in cases {
            let numbers: Vec<_> = numbers.iter().copied().map(Some).collect();
            assert_eq!(column(&numbers), *texts, "{numbers:?}");
        }
    }

    #[test]
    fn a_missing_number_does_not_change_the_others() {
        assert_eq!(column(&[Some(1.5), None, Some(2.0)]), ["1.5", "NA", "2.0"]);
        assert_eq!(column(&[None]), ["NA"]);
    }
}
