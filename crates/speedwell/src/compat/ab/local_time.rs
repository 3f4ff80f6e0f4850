//! A time of day as `-g` writes it: local, in the form of C's `ctime`.

const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// `Sat Nov 21 19:18:13 2026`, in the time zone of this machine; empty for a time that has no date.
pub fn local_time(epoch_s: u64) -> String {
    let Ok(seconds) = libc::time_t::try_from(epoch_s) else {
        return String::new();
    };
    let mut parts = std::mem::MaybeUninit::<libc::tm>::uninit();
    // SAFETY: both pointers are valid for the call, and localtime_r fills `parts` unless it
    // returns null, which is checked before `parts` is read.
    let parts = unsafe {
        if libc::localtime_r(&seconds, parts.as_mut_ptr()).is_null() {
            return String::new();
        }
        parts.assume_init()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_is_that_of_the_program_date() {
        let told = std::process::Command::new("date")
            .env("LC_ALL", "C")
            .args(["-d", "@1795288693", "+%a %b %d %H:%M:%S %Y"])
            .output();
        let Ok(told) = told else {
            eprintln!("skipped: there is no program date");
            return;
        };
        let told = String::from_utf8(told.stdout).unwrap();
        assert_eq!(local_time(1_795_288_693), told.trim());
    }
}
