//! Figures as JavaScript writes them into these files, and their meaning.
//!
//! Decides how the texts of the columns rate and time become numbers and back. A time is kept in
//! whole nanoseconds, because that is what was measured: the text is its exact decimal form.

/// The number that `text` stands for.
///
/// Words that JavaScript prints where a number is missing (`null`, `undefined`, `NaN`) are NaN;
/// anything else that is no number is `None`.
pub fn parse(text: &[u8]) -> Option<f64> {
    match text {
        [b'0'..=b'9' | b'-' | b'.', ..] => std::str::from_utf8(text).ok()?.parse().ok(),
        b"NaN" | b"null" | b"undefined" => Some(f64::NAN),
        b"Infinity" => Some(f64::INFINITY),
        _ => None,
    }
}

/// The figure in a column of numbers, as R reads it: an empty field and `NA` are missing figures, which are NaN here.
pub fn figure(text: &[u8]) -> Option<f64> {
    match text {
        b"" | b"NA" => Some(f64::NAN),
        _ => parse(text),
    }
}

/// Whether [`parse`] would find a number, without the work of finding out which.
pub fn is_number(text: &[u8]) -> bool {
    let plain = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    match text {
        [b'0'..=b'9', rest @ ..] if rest.iter().all(plain) && rest.len() < 20 => {
            rest.iter().filter(|&&byte| byte == b'.').count() <= 1
        }
        _ => parse(text).is_some(),
    }
}

/// The shortest text that reads back as the same number, in JavaScript's form (`1e+21`, `0.05`).
pub fn text(number: f64) -> String {
    ryu_js::Buffer::new().format(number).to_owned()
}

/// Seconds with exactly nine digits after the point; `NaN` where the time is not known, which is
/// the one word that programs reading a column of numbers understand.
pub fn seconds_text(elapsed_ns: Option<u64>) -> String {
    match elapsed_ns {
        Some(ns) => format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000),
        None => "NaN".to_owned(),
    }
}

/// Nanoseconds in a text of seconds; `None` where it is no time.
pub fn nanoseconds(seconds: &[u8]) -> Option<u64> {
    exact_nanoseconds(seconds).or_else(|| {
        // Older drivers wrote a plain number of seconds, sometimes with more than nine digits.
        let ns = (parse(seconds)? * 1e9).round();
        (0.0..=2f64.powi(63)).contains(&ns).then_some(ns as u64)
    })
}

fn exact_nanoseconds(seconds: &[u8]) -> Option<u64> {
    let (whole, fraction) = std::str::from_utf8(seconds).ok()?.split_once('.')?;
    let nine_digits = fraction.len() == 9 && fraction.bytes().all(|byte| byte.is_ascii_digit());
    let whole: u64 = whole.parse().ok()?;
    let fraction: u64 = if nine_digits {
        fraction.parse().ok()?
    } else {
        return None;
    };
    whole.checked_mul(1_000_000_000)?.checked_add(fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_keep_every_nanosecond() {
        for (ns, text) in [
            (880_068, "0.000880068"),
            (0, "0.000000000"),
            (9_007_199_254_740_993, "9007199.254740993"),
        ] {
            assert_eq!(seconds_text(Some(ns)), text);
            assert_eq!(nanoseconds(text.as_bytes()), Some(ns));
        }
    }

    #[test]
    fn times_of_older_drivers_are_plain_numbers() {
        assert_eq!(nanoseconds(b"0.5"), Some(500_000_000));
        assert_eq!(nanoseconds(b"2"), Some(2_000_000_000));
        assert_eq!(nanoseconds(b"1.5e-7"), Some(150));
        for none in ["", "NaN", "undefined", "-1", "soon"] {
            assert_eq!(nanoseconds(none.as_bytes()), None, "{none}");
        }
    }

    #[test]
    fn rates_read_back_as_the_same_number() {
        for text in [
            "1136275.8332310684",
            "1e+21",
            "0.05",
            "1.7976931348623157e+308",
            "5",
        ] {
            assert_eq!(super::text(parse(text.as_bytes()).unwrap()), text);
        }
        assert!(parse(b"null").unwrap().is_nan());
        for number in ["0.000880068", "5", "1e-7", "-1", "7."] {
            assert!(
                is_number(number.as_bytes()) && parse(number.as_bytes()).is_some(),
                "{number}"
            );
        }
        for word in ["", "inf", "nan", "abc", "12 apples", "1,000", "1.2.3"] {
            assert_eq!(parse(word.as_bytes()), None, "{word}");
            assert!(!is_number(word.as_bytes()), "{word}");
        }
    }
}
