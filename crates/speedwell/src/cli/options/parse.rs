//! One parser each for counts, shares and durations.

use std::time::Duration;

/// A whole number of at least 1; accepts `10k`, `2M`, `1e6`.
///
/// # Errors
/// Anything else, with an example.
pub fn count(text: &str) -> Result<u32, String> {
    let wrong = || format!("'{text}' is not a whole number of at least 1, such as 30, 10k or 1e6");
    match crate::model::Value::parse(text, crate::model::ValueKind::Number) {
        Some(crate::model::Value::Number(n)) if n >= 1.0 && n.fract() == 0.0 && n <= 4e9 => {
            Ok(n as u32)
        }
        _ => Err(wrong()),
    }
}

/// A percentage as a share: `5%` and `5` are 0.05.
///
/// # Errors
/// Anything that is not a number of 0 or more, with an example.
pub fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>();
    match number {
        Ok(number) if number >= 0.0 && number.is_finite() => Ok(number / 100.0),
        _ => Err(format!("'{text}' is not a percentage such as 5% or 0.5")),
    }
}

/// A confidence: a percentage strictly between 50 and 100, as a share.
///
/// # Errors
/// Anything else, with an example.
pub fn confidence(text: &str) -> Result<f64, String> {
    let share = percent(text)?;
    if share > 0.5 && share < 1.0 {
        Ok(share)
    } else {
        Err(format!(
            "'{text}' is not a confidence between 50 and 100 %, such as 95"
        ))
    }
}

/// A length of time: `500ms`, `3s`, `2m`, `1h`; seconds without unit.
///
/// # Errors
/// Anything else, and zero, with an example.
pub fn duration(text: &str) -> Result<Duration, String> {
    crate::model::parse_duration(text)
        .ok_or_else(|| format!("'{text}' is not a duration such as 500ms, 3s or 2m"))
}

/// A length of time as in [`duration`], or `0`.
///
/// # Errors
/// Anything else, with an example.
pub fn duration_or_none(text: &str) -> Result<Duration, String> {
    match text {
        "0" | "0s" | "0ms" => Ok(Duration::ZERO),
        _ => duration(text),
    }
}

/// A number of 0 or more; accepts `10k`, `2M`, `1e6`, `0.5`.
fn number(text: &str) -> Option<f64> {
    match crate::model::Value::parse(text.trim(), crate::model::ValueKind::Number) {
        Some(crate::model::Value::Number(n)) if n >= 0.0 && n.is_finite() => Some(n),
        _ => None,
    }
}

/// A rate per second above zero: `500`, `10k`, `0.5`, `500/s`, `90/m`.
///
/// # Errors
/// Anything else, with an example.
pub fn rate(text: &str) -> Result<f64, String> {
    let (figure, seconds) = match text.rsplit_once('/') {
        None => (text, 1.0),
        Some((figure, "s")) => (figure, 1.0),
        Some((figure, "m" | "min")) => (figure, 60.0),
        Some((figure, "h")) => (figure, 3600.0),
        Some(_) => ("", 1.0),
    };
    match number(figure) {
        Some(rate) if rate > 0.0 => Ok(rate / seconds),
        _ => Err(format!(
            "'{text}' is not a rate such as 500, 10k or 500/s (requests per second)"
        )),
    }
}

/// A stretch of time in which a rate goes from one value to another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ramp {
    /// Requests per second at its beginning.
    pub from: f64,
    /// Requests per second at its end.
    pub to: f64,
    /// Its length.
    pub duration: Duration,
}

/// A stage: `0-1000:30s` rises or falls, `1000:1m` stays.
///
/// # Errors
/// Anything else, with an example.
pub fn ramp(text: &str) -> Result<Ramp, String> {
    let wrong = || format!("'{text}' is not a stage such as 0-1000:30s or 1000:1m");
    let (rates, length) = text.rsplit_once(':').ok_or_else(wrong)?;
    let (from, to) = rates.split_once('-').unwrap_or((rates, rates));
    Ok(Ramp {
        from: number(from).ok_or_else(wrong)?,
        to: number(to).ok_or_else(wrong)?,
        duration: duration(length)?,
    })
}

/// A pause between an answer and the next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// Its length, or its mean.
    pub length: Duration,
    /// Whether pauses are of random length, exponentially distributed.
    pub is_random: bool,
}

/// A pause: `100ms`, or `'100ms exp'` for random ones of that mean.
///
/// # Errors
/// Anything else, with an example.
pub fn pause(text: &str) -> Result<Pause, String> {
    let mut words = text.split_whitespace();
    let length = duration(words.next().unwrap_or_default())?;
    match (words.next(), words.next()) {
        (None, _) => Ok(Pause {
            length,
            is_random: false,
        }),
        (Some("exp"), None) => Ok(Pause {
            length,
            is_random: true,
        }),
        _ => Err(format!(
            "'{text}' is not a pause such as 100ms or '100ms exp'"
        )),
    }
}

/// A status or several: `304`, `200-299`, `2xx`.
///
/// # Errors
/// Anything else, with an example.
pub fn statuses(text: &str) -> Result<std::ops::RangeInclusive<u16>, String> {
    let wrong = || format!("'{text}' is not a status such as 304, 200-299 or 2xx");
    let code = |text: &str| match text.parse::<u16>() {
        Ok(code) if (200..1000).contains(&code) => Ok(code),
        _ => Err(wrong()),
    };
    if let Some(hundreds) = text.strip_suffix("xx") {
        let first = code(&format!("{hundreds}00"))?;
        return Ok(first..=first + 99);
    }
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let range = code(first)?..=code(last)?;
    match range.is_empty() {
        true => Err(wrong()),
        false => Ok(range),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_accept_suffixes_and_refuse_fractions() {
        assert_eq!(
            (count("30"), count("10k"), count("1e6")),
            (Ok(30), Ok(10_000), Ok(1_000_000))
        );
        for wrong in ["0", "-1", "1.5", "abc", "", "1e12"] {
            assert!(count(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn percentages_are_shares() {
        assert_eq!((percent("5%"), percent("0.5")), (Ok(0.05), Ok(0.005)));
        assert!(percent("-1").is_err() && percent("x%").is_err());
        assert!(confidence("100").is_err() && confidence("95%") == Ok(0.95));
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("1.5"), Ok(Duration::from_millis(1500)));
        for wrong in ["", "0", "-1s", "3 weeks", "s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert_eq!(duration_or_none("0"), Ok(Duration::ZERO));
        assert!(duration_or_none("-1s").is_err());
    }

    #[test]
    fn rates_are_per_second_unless_they_say_otherwise() {
        assert_eq!((rate("500"), rate("10k/s")), (Ok(500.0), Ok(10_000.0)));
        assert_eq!((rate("90/m"), rate("0.5")), (Ok(1.5), Ok(0.5)));
        for wrong in ["0", "-5", "fast", "5/d", "", "/s"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn stages_rise_or_stay() {
        let seconds = Duration::from_secs(30);
        let stage = |from, to| Ramp {
            from,
            to,
            duration: seconds,
        };
        assert_eq!(ramp("0-1k:30s"), Ok(stage(0.0, 1000.0)));
        assert_eq!(ramp("200:30"), Ok(stage(200.0, 200.0)));
        for wrong in ["1000", "a-b:3s", "0-10:", ":3s", "1-2-3:4s"] {
            assert!(ramp(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn pauses_are_fixed_or_random() {
        let is_random = |text| pause(text).map(|pause| pause.is_random);
        assert_eq!(
            (is_random("5ms"), is_random("5ms exp")),
            (Ok(false), Ok(true))
        );
        assert!(pause("5ms norm").is_err() && pause("").is_err() && pause("0").is_err());
    }

    #[test]
    fn statuses_are_single_or_ranges() {
        assert_eq!(statuses("304"), Ok(304..=304));
        assert_eq!(statuses("2xx"), Ok(200..=299));
        assert_eq!(statuses("200-206"), Ok(200..=206));
        for wrong in ["", "99", "100", "300-200", "xx", "20x", "1000"] {
            assert!(statuses(wrong).is_err(), "{wrong}");
        }
    }
}
