//! Parses the values of options: numbers, counts, percentages and durations. The error messages say
//! what is expected, and clap adds the option and the value.
//!
//! Also replaces strings in a text, suggests names for mistyped ones, and quotes words for a shell.

use std::time::Duration;

/// Parses a whole number from 1 to 4 billion; accepts `10k`, `2M`, `1e6`.
///
/// # Errors
/// Fails for anything else.
pub fn count(text: &str) -> Result<u32, String> {
    match parse_number(text) {
        Some(n) if n >= 1.0 && n.fract() == 0.0 && n <= 4e9 => Ok(n as u32),
        _ => Err("expected a whole number of at least 1, such as 30, 10k or 1e6".to_owned()),
    }
}

/// Parses a number with an optional `k`, `M` or `G` suffix (powers of 1000).
pub(crate) fn parse_number(text: &str) -> Option<f64> {
    let (digits, factor) = match text.char_indices().last()? {
        (suffix_index, 'k' | 'K') => (&text[..suffix_index], 1e3),
        (suffix_index, 'M') => (&text[..suffix_index], 1e6),
        (suffix_index, 'G') => (&text[..suffix_index], 1e9),
        _ => (text, 1.0),
    };
    looks_numeric(digits).then(|| digits.parse::<f64>().ok()).flatten().map(|n| n * factor)
}

/// Whether `text` looks like a number. Excludes `inf`, `nan` and `infinity`, although Rust parses
/// them as numbers.
pub(crate) fn looks_numeric(text: &str) -> bool {
    text.bytes().next().is_some_and(|b| b.is_ascii_digit() || b"+-.".contains(&b))
        && text.bytes().any(|b| b.is_ascii_digit())
        && !text.bytes().any(|b| b.is_ascii_alphabetic() && !b"eE".contains(&b))
}

/// Parses a percentage: `5%` and `5` are 5.
///
/// # Errors
/// Fails if the text is not a number of 0 or more.
pub fn percentage(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>();
    match number {
        Ok(number) if number >= 0.0 && number.is_finite() => Ok(number),
        _ => Err("expected a percentage such as 5% or 0.5".to_owned()),
    }
}

/// Parses a percentage as a fraction: `5%` and `5` are 0.05.
///
/// # Errors
/// Fails under the same conditions as [`percentage`].
pub fn percentage_as_fraction(text: &str) -> Result<f64, String> {
    Ok(percentage(text)? / 100.0)
}

/// Parses a duration: `500ms`, `3s`, `2m`, `1h`. The default unit is seconds.
///
/// # Errors
/// Fails for anything else, including zero.
pub fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "expected a duration such as 500ms, 3s or 2m".to_owned())
}

/// Parses a duration as in [`duration`], or `0`.
///
/// # Errors
/// Fails for anything else.
pub fn duration_or_none(text: &str) -> Result<Duration, String> {
    match text {
        "0" | "0s" | "0ms" => Ok(Duration::ZERO),
        _ => duration(text),
    }
}

/// Parses a warm-up time: a duration with a unit, or `0`. A bare number is rejected, because it
/// counts executions where commands are measured.
///
/// # Errors
/// Fails for anything else.
pub fn warmup_time(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(number) if number != 0.0 => {
            Err(format!("expected a duration with a unit, such as {text}s or {text}ms"))
        }
        Ok(_) => Ok(Duration::ZERO),
        Err(_) => duration_or_none(text),
    }
}

// Helpers for text: durations, placeholders, suggestions for mistyped names, and shell quoting.

/// Parses a duration: `500ms`, `3s`, `2m`, `1h`, `100us`; a bare number is in seconds. Zero is invalid.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let split = text.find(|c: char| c.is_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let factor = match unit {
        "ns" => 1e-9,
        "us" | "µs" | "μs" => 1e-6,
        "ms" => 1e-3,
        "s" | "" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    let seconds = number.trim().parse::<f64>().ok()? * factor;
    let duration = Duration::try_from_secs_f64(seconds).ok()?;
    (!duration.is_zero()).then_some(duration)
}

/// Converts to whole milliseconds, at least one.
pub fn as_milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1)
}

/// For every pair, replaces all occurrences of the first string with the second string. Inserted
/// strings are not searched.
pub fn format_fixed(text: &str, pairs: &[(String, String)]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    loop {
        let next = pairs.iter().filter_map(|pair| Some((rest.find(pair.0.as_str())?, pair)));
        let Some((position, (found, value))) = next.min_by_key(|(position, _)| *position) else {
            out.push_str(rest);
            return out;
        };
        out.push_str(&rest[..position]);
        out.push_str(value);
        // Advance at least one byte. An empty string would match at the same position forever.
        let end = position + found.len().max(1);
        rest = rest.get(end..).unwrap_or_default();
    }
}

/// Returns the name closest to `word` by edit distance, if it is close enough to suggest.
pub fn nearest_name<'a>(word: &str, names: &'a [String]) -> Option<&'a String> {
    let limit = (word.chars().count() / 3).max(1);
    let distances = names.iter().map(|name| (strsim::damerau_levenshtein(word, name), name));
    distances
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Quotes `text` as one word for a POSIX shell.
pub fn quote(text: &str) -> String {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || "_-./=:,+@%".contains(c);
    if !text.is_empty() && text.chars().all(is_safe) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_accept_suffixes_and_refuse_fractions() {
        assert_eq!((count("30"), count("10k"), count("1e6")), (Ok(30), Ok(10_000), Ok(1_000_000)));
        for invalid in ["0", "-1", "1.5", "abc", "", "1e12"] {
            assert!(count(invalid).is_err(), "{invalid}");
        }
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("1.5"), Ok(Duration::from_millis(1500)));
        for invalid in ["", "0", "-1s", "3 weeks", "s"] {
            assert!(duration(invalid).is_err(), "{invalid}");
        }
        assert_eq!(duration_or_none("0"), Ok(Duration::ZERO));
        assert!(duration_or_none("-1s").is_err());
        assert_eq!(warmup_time("0"), Ok(Duration::ZERO));
        assert_eq!(warmup_time("3s"), Ok(Duration::from_secs(3)));
        assert!(warmup_time("3").unwrap_err().contains("3s or 3ms"));
    }

    #[test]
    fn awkward_words_survive_a_real_shell() {
        for word in ["plain", "", "two words", "it's", "$HOME `x` \"y\"", "a\nb", "*", "~", "é"] {
            let line = format!("printf %s {}", quote(word));
            let out = std::process::Command::new("sh").args(["-c", &line]).output().unwrap();
            assert_eq!(String::from_utf8(out.stdout).unwrap(), word);
        }
    }
}
