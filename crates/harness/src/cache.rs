//! The folder for things that can be made anew: harnesses, compiled programs, search paths.
//!
//! What lies there is executed. So it is used only if nobody else can write to it; otherwise a new folder takes its
//! place, for this process alone.

use speedwell_process::{Scratch, user};
use std::fs::{self, DirBuilder, Metadata};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

/// What the names of things begin with that are being made.
const DRAFT: &str = "draft-";

/// Drafts older than this are those of processes that were killed: no compilation may last so long.
const DRAFTS_KEPT: Duration = Duration::from_secs(3600);

/// `$XDG_CACHE_HOME/speedwell`, else `~/.cache/speedwell`, else a folder of this user among temporary files; if
/// others could write there, one for this process alone.
pub fn cache_folder() -> PathBuf {
    CHOSEN.get_or_init(choose).0.clone()
}

/// Why the usual folder was not used, as a whole sentence, if a folder was needed at all.
pub fn cache_warning() -> Option<&'static str> {
    CHOSEN.get()?.1.as_deref()
}

static CHOSEN: OnceLock<(PathBuf, Option<String>)> = OnceLock::new();

fn choose() -> (PathBuf, Option<String>) {
    let usual = usual();
    match unsafe_reason(&usual, user()) {
        None => (usual, None),
        Some(reason) => {
            let warning = format!(
                "The cache folder '{}' is not used, because {reason}: code from it would be executed. Everything \
                 is unpacked and compiled anew.",
                usual.display()
            );
            (own_folder(), Some(warning))
        }
    }
}

/// A folder for this process, removed by a later one.
fn own_folder() -> PathBuf {
    static OWN: OnceLock<Option<Scratch>> = OnceLock::new();
    let own = OWN.get_or_init(|| Scratch::new().ok());
    // Without a place for temporary files, whoever writes there tells that it cannot.
    own.as_ref()
        .map_or_else(std::env::temp_dir, |own| own.folder().to_owned())
}

fn usual() -> PathBuf {
    let set = |name| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let home = || set("HOME").map(|home| home.join(".cache"));
    match set("XDG_CACHE_HOME").or_else(home) {
        Some(caches) => caches.join("speedwell"),
        None => std::env::temp_dir().join(format!("speedwell-{}", user())),
    }
}

/// Why somebody else may have put things into the folder, as a fragment of a sentence. A folder that is missing is
/// made, for its owner alone; where that is impossible, whoever writes to it reports the error.
fn unsafe_reason(folder: &Path, user: u32) -> Option<String> {
    if let Some(parent) = folder.parent() {
        let _ = fs::create_dir_all(parent);
        // The place for temporary files belongs to everybody, and its sticky bit keeps what lies in it from
        // being renamed by others.
        let is_shared = |data: &Metadata| is_open(data) && data.mode() & 0o1000 == 0;
        let data = fs::metadata(parent).ok();
        if let Some(data) = data.filter(|data| is_foreign(data, user) || is_shared(data)) {
            return Some(format!("{} '{}'", who(&data, user), parent.display()));
        }
    }
    let _ = DirBuilder::new().mode(0o700).create(folder);
    let link = fs::symlink_metadata(folder).ok()?;
    let data = if link.is_symlink() && !is_foreign(&link, user) {
        fs::metadata(folder).ok()?
    } else {
        link
    };
    let is_unsafe = is_foreign(&data, user) || is_open(&data);
    is_unsafe.then(|| format!("{} it", who(&data, user)))
}

fn is_foreign(data: &Metadata, user: u32) -> bool {
    data.uid() != user && data.uid() != 0
}

/// Whether others may write. The group of the same number as its user has no other member by convention.
fn is_open(data: &Metadata) -> bool {
    let by_group = data.mode() & 0o020 != 0 && data.gid() != data.uid();
    by_group || data.mode() & 0o002 != 0
}

fn who(data: &Metadata, user: u32) -> String {
    if is_foreign(data, user) {
        format!("the user with the number {} owns", data.uid())
    } else {
        "others may write to".to_owned()
    }
}

/// Removes drafts in a folder that nobody makes any more.
pub(super) fn remove_drafts(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_draft = entry.file_name().to_string_lossy().starts_with(DRAFT);
        let changed = entry.metadata().and_then(|data| data.modified());
        if is_draft && changed.is_ok_and(|time| is_older(time, DRAFTS_KEPT)) {
            remove(&entry.path());
        }
    }
}

/// Whether this was so long ago.
pub(super) fn is_older(time: SystemTime, age: Duration) -> bool {
    time.elapsed().is_ok_and(|elapsed| elapsed > age)
}

/// Removes a file or a folder, or leaves it to somebody who may.
pub(super) fn remove(path: &Path) {
    let _ = if path.is_dir() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn with_mode(folder: &Path, mode: u32) {
        fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_missing_folder_is_made_for_its_owner_alone() {
        let home = tempfile::tempdir().unwrap();
        let cache = home.path().join(".cache/speedwell");
        assert_eq!(unsafe_reason(&cache, user()), None);
        assert_eq!(fs::metadata(&cache).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_folder_of_another_user_or_open_to_others_is_not_used() {
        let home = tempfile::tempdir().unwrap();
        let cache = home.path().join("speedwell");
        fs::create_dir(&cache).unwrap();
        let told = |user| unsafe_reason(&cache, user).unwrap_or_default();
        with_mode(&cache, 0o755);
        assert_eq!(told(user()), "");
        // Root is trusted by everybody.
        if user() != 0 {
            assert!(told(user() + 1).contains("owns"), "{}", told(user() + 1));
        }
        for mode in [0o757, 0o1777] {
            with_mode(&cache, mode);
            assert_eq!(told(user()), "others may write to it", "{mode:o}");
        }
        with_mode(&cache, 0o700);
        with_mode(home.path(), 0o777);
        assert!(told(user()).starts_with("others may write to '"));
        with_mode(home.path(), 0o1777);
        assert_eq!(told(user()), "");
    }

    #[test]
    fn what_another_user_planted_is_not_used() {
        let home = tempfile::tempdir().unwrap();
        let cache = home.path().join("speedwell");
        fs::create_dir(&cache).unwrap();
        if std::os::unix::fs::chown(&cache, Some(65_534), None).is_err() {
            eprintln!("skipped: only root can give a folder away");
            return;
        }
        let told = unsafe_reason(&cache, user());
        assert_eq!(told.unwrap(), "the user with the number 65534 owns it");
    }

    #[test]
    fn old_drafts_go_and_everything_else_stays() {
        let cache = tempfile::tempdir().unwrap();
        let old = SystemTime::now() - 2 * DRAFTS_KEPT;
        for (name, time) in [
            ("draft-a.d", old),
            ("draft-b", SystemTime::now()),
            ("program", old),
        ] {
            let path = cache.path().join(name);
            let file = fs::File::create(path).unwrap();
            file.set_modified(time).unwrap();
        }
        remove_drafts(cache.path());
        let left = |name: &str| cache.path().join(name).exists();
        assert!(!left("draft-a.d") && left("draft-b") && left("program"));
    }
}
