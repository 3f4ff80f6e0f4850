//! Numbers as Python writes them.
//!
//! Decides signs, `nan` and `inf`, and the shortest form that reads back as the same number. Start
//! at [`fixed`] for tables, at [`shortest`] for JSON.

/// As `{:WIDTH.DIGITSf}`.
pub fn fixed(number: f64, width: usize, digits: usize) -> String {
    if number.is_nan() {
        format!("{:>width$}", "nan")
    } else {
        format!("{number:width$.digits$}")
    }
}

/// As `{:+WIDTH.DIGITSf}`.
pub fn signed(number: f64, width: usize, digits: usize) -> String {
    if number.is_nan() {
        format!("{:>width$}", "+nan")
    } else {
        format!("{number:+width$.digits$}")
    }
}

/// As `repr`: with an exponent below 1e-4 and from 1e16, which has two digits at least.
pub fn shortest(number: f64) -> String {
    let scientific = format!("{number:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..16).contains(&exponent) {
        return format!("{number:?}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values: Python 3.11, `format(x, "+16.4f")`, `format(x, "14.0f")`, `repr(x)`.
    #[test]
    fn numbers_are_those_of_python() {
        for (number, in_row, rounded, repr) in [
            (0.5, "+0.5000", "0", "0.5"),
            (1.5, "+1.5000", "2", "1.5"),
            (2.5, "+2.5000", "2", "2.5"),
            (-0.0, "-0.0000", "-0", "-0.0"),
            (-0.00001, "-0.0000", "-0", "-1e-05"),
            (0.0001, "+0.0001", "0", "0.0001"),
            (0.00005, "+0.0001", "0", "5e-05"),
            (
                1e15,
                "+1000000000000000.0000",
                "1000000000000000",
                "1000000000000000.0",
            ),
            (
                1e16,
                "+10000000000000000.0000",
                "10000000000000000",
                "1e+16",
            ),
            (1.25e-300, "+0.0000", "0", "1.25e-300"),
            (f64::NAN, "+nan", "nan", "NaN"),
            (f64::NEG_INFINITY, "-inf", "-inf", "-inf"),
        ] {
            assert_eq!(signed(number, 16, 4).trim_start(), in_row);
            assert_eq!(fixed(number, 14, 0).trim_start(), rounded);
            assert_eq!(shortest(number), repr);
        }
        assert_eq!(signed(1.0, 16, 4).len(), 16);
        assert_eq!(fixed(f64::NAN, 14, 0).len(), 14);
        assert_eq!(shortest(123456.789), "123456.789");
    }
}
