//! Formats local times as the original tools do: like C's `ctime` for ab, and with the UTC offset
//! for erlperf.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// Formats a time like `Sat Nov 21 19:18:13 2026`, in the local time zone; empty if out of range.
pub fn local_time(epoch_s: u64) -> String {
    format_local(epoch_s, "%a %b %d %H:%M:%S %Y")
}

/// Formats a time like `2026-11-21T19:18:13+01:00`; empty if out of range.
pub fn iso_time(epoch_s: u64) -> String {
    format_local(epoch_s, "%Y-%m-%dT%H:%M:%S%:z")
}

fn format_local(epoch_s: u64, format: &str) -> String {
    to_local(epoch_s).map(|time| time.strftime(format).to_string()).unwrap_or_default()
}

fn to_local(epoch_s: u64) -> Option<Zoned> {
    let time = Timestamp::from_second(i64::try_from(epoch_s).ok()?).ok()?;
    Some(time.to_zoned(TimeZone::system()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date_command(format: &str) -> Option<String> {
        let printed = std::process::Command::new("date")
            .env("LC_ALL", "C")
            .args(["-d", "@1795288693", format])
            .output();
        match printed {
            Ok(printed) => Some(String::from_utf8(printed.stdout).unwrap().trim().to_owned()),
            Err(_) => {
                eprintln!("skipped: 'date' is not installed");
                None
            }
        }
    }

    #[test]
    fn the_local_time_matches_the_date_command() {
        let Some(printed) = date_command("+%a %b %d %H:%M:%S %Y") else {
            return;
        };
        assert_eq!(local_time(1_795_288_693), printed);
    }

    #[test]
    fn the_utc_offset_matches_the_date_command() {
        let Some(printed) = date_command("+%Y-%m-%dT%H:%M:%S%:z") else {
            return;
        };
        assert_eq!(iso_time(1_795_288_693), printed);
    }
}
