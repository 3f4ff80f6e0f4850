//! The check of the disk that results are written to.

use super::{Check, State};
use std::ffi::CString;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// How much room there is where the results file is, or is going to be.
///
/// A sample takes 8 to 24 bytes and a run about 100, so that even long sessions stay below 1 GiB.
pub fn free_disk(results: &Path) -> Check {
    let results = std::path::absolute(results).unwrap_or_else(|_| results.to_owned());
    let existing = results.ancestors().find(|folder| folder.exists());
    match existing.and_then(|folder| Some((folder, free_bytes(folder)?))) {
        Some((folder, bytes)) => judge(folder, bytes),
        None => Check::unknown("free disk"),
    }
}

fn judge(folder: &Path, free_bytes: u64) -> Check {
    let mebibytes = free_bytes >> 20;
    let state = match mebibytes {
        0..100 => State::Bad,
        100..1024 => State::Warning,
        _ => State::Good,
    };
    let amount = match mebibytes {
        0..1024 => format!("{mebibytes} MiB"),
        _ => format!("{:.1} GiB", mebibytes as f64 / 1024.0),
    };
    Check::new(
        "free disk",
        state,
        format!("{amount} at '{}'", folder.display()),
    )
    .remedy(format!(
        "df -h '{}', and choose another file with --db FILE",
        folder.display()
    ))
}

/// Bytes that a user without privileges may still write.
fn free_bytes(folder: &Path) -> Option<u64> {
    let folder = CString::new(folder.as_os_str().as_bytes()).ok()?;
    let mut answer = MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: the path ends with a zero byte, `answer` is a valid place for what is written, and
    // zeroes are a valid value of all its fields should nothing be written.
    let answer = unsafe {
        match libc::statvfs(folder.as_ptr(), answer.as_mut_ptr()) {
            0 => answer.assume_init(),
            _ => return None,
        }
    };
    // The widths of these fields differ between systems.
    #[allow(clippy::unnecessary_cast)]
    Some((answer.f_bavail as u64).saturating_mul(answer.f_frsize as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_room_is_told_with_a_way_out() {
        let folder = Path::new("/data");
        let full = judge(folder, 50 << 20);
        assert_eq!(
            (full.state, full.found.as_str()),
            (State::Bad, "50 MiB at '/data'")
        );
        assert!(full.remedy.unwrap().contains("--db FILE"));
        assert_eq!(judge(folder, 500 << 20).state, State::Warning);
        let enough = judge(folder, 3 << 29);
        assert_eq!(
            (enough.state, enough.found.as_str()),
            (State::Good, "1.5 GiB at '/data'")
        );
    }

    #[test]
    fn the_folder_need_not_exist_yet() {
        let home = tempfile::tempdir().unwrap();
        let check = free_disk(&home.path().join("not/yet/there/results.db"));
        assert_ne!(check.state, State::Unknown);
        assert!(
            check
                .found
                .ends_with(&format!("'{}'", home.path().display())),
            "{}",
            check.found
        );
    }
}
