//! A time of day in the time zone of this machine, as the originals write it: ab in the form of C's `ctime`, erlperf
//! with the distance from Greenwich.

const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// `Sat Nov 21 19:18:13 2026`, in the time zone of this machine; empty for a time that has no date.
pub fn local_time(epoch_s: u64) -> String {
    let Some(parts) = parts(epoch_s) else {
        return String::new();
    };
    let name = |names: &[&'static str], at: i32| {
        usize::try_from(at)
            .ok()
            .and_then(|at| names.get(at).copied())
            .unwrap_or_default()
    };
    format!(
        "{} {} {:02} {:02}:{:02}:{:02} {}",
        name(&DAYS, parts.tm_wday),
        name(&MONTHS, parts.tm_mon),
        parts.tm_mday,
        parts.tm_hour,
        parts.tm_min,
        parts.tm_sec,
        i64::from(parts.tm_year) + 1900
    )
}

/// `2026-11-21T19:18:13+01:00`; empty for a time that has no date.
pub fn iso_time(epoch_s: u64) -> String {
    let Some(parts) = parts(epoch_s) else {
        return String::new();
    };
    let minutes = parts.tm_gmtoff / 60;
    let sign = if minutes < 0 { '-' } else { '+' };
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}{sign}{:02}:{:02}",
        i64::from(parts.tm_year) + 1900,
        parts.tm_mon + 1,
        parts.tm_mday,
        parts.tm_hour,
        parts.tm_min,
        parts.tm_sec,
        minutes.abs() / 60,
        minutes.abs() % 60
    )
}

fn parts(epoch_s: u64) -> Option<libc::tm> {
    let seconds = libc::time_t::try_from(epoch_s).ok()?;
    let mut parts = std::mem::MaybeUninit::<libc::tm>::uninit();
    // SAFETY: both pointers are valid for the call, and localtime_r fills `parts` unless it
    // returns null, which is checked before `parts` is read.
    unsafe {
        if libc::localtime_r(&seconds, parts.as_mut_ptr()).is_null() {
            return None;
        }
        Some(parts.assume_init())
    }
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
                eprintln!("skipped: there is no program date");
                None
            }
        }
    }

    #[test]
    fn the_date_is_that_of_the_program_date() {
        let Some(printed) = date_command("+%a %b %d %H:%M:%S %Y") else {
            return;
        };
        assert_eq!(local_time(1_795_288_693), printed);
    }

    #[test]
    fn the_distance_from_greenwich_is_that_of_the_program_date() {
        let Some(printed) = date_command("+%Y-%m-%dT%H:%M:%S%:z") else {
            return;
        };
        assert_eq!(iso_time(1_795_288_693), printed);
    }
}
