//! Lengths of time as people say them, and points of time for lists.

use time::OffsetDateTime;
use time::macros::format_description;

/// `820 ms`, `12.3 s`, `4 min 05 s`, `2 h 07 min`.
pub fn duration(milliseconds: u64) -> String {
    match milliseconds {
        0..1_000 => format!("{milliseconds} ms"),
        1_000..60_000 => format!("{:.1} s", milliseconds as f64 / 1e3),
        60_000..3_600_000 => {
            format!(
                "{} min {:02} s",
                milliseconds / 60_000,
                milliseconds / 1_000 % 60
            )
        }
        _ => format!(
            "{} h {:02} min",
            milliseconds / 3_600_000,
            milliseconds / 60_000 % 60
        ),
    }
}

/// A point of time in UTC, to the minute: `2026-01-31 14:05`. Empty for times no calendar has.
pub fn moment(unix_ms: i64) -> String {
    let format = format_description!("[year]-[month]-[day] [hour]:[minute]");
    OffsetDateTime::from_unix_timestamp(unix_ms.div_euclid(1_000))
        .ok()
        .and_then(|time| time.format(&format).ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time() {
        for (milliseconds, text) in [
            (820, "820 ms"),
            (12_345, "12.3 s"),
            (245_000, "4 min 05 s"),
            (7_620_000, "2 h 07 min"),
        ] {
            assert_eq!(duration(milliseconds), text);
        }
    }

    #[test]
    fn points_of_time() {
        assert_eq!(moment(0), "1970-01-01 00:00");
        assert_eq!(moment(1_769_868_300_999), "2026-01-31 14:05");
        assert_eq!(moment(i64::MAX), "");
    }
}
