//! Provides helpers for text: parsing durations, suggestions for mistyped names, and shell quoting.

use std::time::Duration;

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
    fn awkward_words_survive_a_real_shell() {
        for word in ["plain", "", "two words", "it's", "$HOME `x` \"y\"", "a\nb", "*", "~", "é"] {
            let line = format!("printf %s {}", quote(word));
            let out = std::process::Command::new("sh").args(["-c", &line]).output().unwrap();
            assert_eq!(String::from_utf8(out.stdout).unwrap(), word);
        }
    }
}
