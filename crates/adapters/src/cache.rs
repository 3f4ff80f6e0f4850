//! Chooses the cache folder for reproducible files, such as harnesses and compiled programs.
//!
//! Files in the cache folder are executed. The default folder is therefore used only if no other
//! user can write to it. Otherwise, this process uses a temporary folder.

use speedwell_machine::process::{ScratchFolder, effective_user_id};
use std::fs::{self, DirBuilder, Metadata};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

/// Prefix of entries under construction.
const DRAFT_PREFIX: &str = "draft-";

/// Drafts older than this belong to killed processes: no compilation may take that long.
const MAX_DRAFT_AGE: Duration = Duration::from_secs(3600);

/// Returns `$XDG_CACHE_HOME/speedwell`, else `~/.cache/speedwell`, else a folder of this user in
/// the temporary directory. If others could write there, returns a temporary folder of this
/// process.
pub fn cache_folder() -> PathBuf {
    CHOSEN_FOLDER.get_or_init(choose_folder).0.clone()
}

/// Explains in a sentence why the default folder is not used. `None` if it is used, or if no cache
/// folder was needed.
pub fn cache_warning() -> Option<&'static str> {
    CHOSEN_FOLDER.get()?.1.as_deref()
}

static CHOSEN_FOLDER: OnceLock<(PathBuf, Option<String>)> = OnceLock::new();

fn choose_folder() -> (PathBuf, Option<String>) {
    let default = default_folder();
    match unsafe_reason(&default, effective_user_id()) {
        None => (default, None),
        Some(reason) => {
            let warning = format!(
                "The cache folder '{}' is not used: {reason} and could plant code in it. \
                 Everything is unpacked and compiled again.",
                default.display()
            );
            (temporary_folder(), Some(warning))
        }
    }
}

/// Returns a temporary folder private to this process; a later process removes it.
fn temporary_folder() -> PathBuf {
    static FOLDER: OnceLock<Option<ScratchFolder>> = OnceLock::new();
    let scratch = FOLDER.get_or_init(|| ScratchFolder::new().ok());
    // Without a temporary folder, the first write reports the error.
    scratch.as_ref().map_or_else(std::env::temp_dir, |scratch| scratch.folder().to_owned())
}

fn default_folder() -> PathBuf {
    let folder_variable =
        |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = || folder_variable("HOME").map(|home| home.join(".cache"));
    match folder_variable("XDG_CACHE_HOME").or_else(home) {
        Some(caches) => caches.join("speedwell"),
        None => std::env::temp_dir().join(format!("speedwell-{}", effective_user_id())),
    }
}

/// Explains, as a sentence fragment, why another user may have written to the folder. Creates a
/// missing folder with access for its owner only. If this fails, the first write reports the error.
fn unsafe_reason(folder: &Path, user: u32) -> Option<String> {
    if let Some(parent) = folder.parent() {
        let _ = fs::create_dir_all(parent);
        // The sticky bit of a shared temporary folder prevents others from renaming its entries.
        let is_shared = |data: &Metadata| is_writable_by_others(data) && data.mode() & 0o1000 == 0;
        let data = fs::metadata(parent).ok();
        if let Some(data) = data.filter(|data| is_foreign_owned(data, user) || is_shared(data)) {
            return Some(format!("{} '{}'", describe_writer(&data, user), parent.display()));
        }
    }
    let _ = DirBuilder::new().mode(0o700).create(folder);
    let link = fs::symlink_metadata(folder).ok()?;
    let data = if link.is_symlink() && !is_foreign_owned(&link, user) {
        fs::metadata(folder).ok()?
    } else {
        link
    };
    let is_unsafe = is_foreign_owned(&data, user) || is_writable_by_others(&data);
    is_unsafe.then(|| format!("{} it", describe_writer(&data, user)))
}

fn is_foreign_owned(data: &Metadata, user: u32) -> bool {
    data.uid() != user && data.uid() != 0
}

/// Whether users other than the owner may write. By convention, a group with the same ID as the
/// owner has no other members.
fn is_writable_by_others(data: &Metadata) -> bool {
    let by_group = data.mode() & 0o020 != 0 && data.gid() != data.uid();
    by_group || data.mode() & 0o002 != 0
}

fn describe_writer(data: &Metadata, user: u32) -> String {
    if is_foreign_owned(data, user) {
        format!("the user with ID {} owns", data.uid())
    } else {
        "other users may write to".to_owned()
    }
}

/// Removes abandoned drafts from a folder.
pub(super) fn remove_drafts(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_draft = entry.file_name().to_string_lossy().starts_with(DRAFT_PREFIX);
        let modified = entry.metadata().and_then(|data| data.modified());
        if is_draft && modified.is_ok_and(|time| is_older(time, MAX_DRAFT_AGE)) {
            remove_entry(&entry.path());
        }
    }
}

pub(super) fn is_older(time: SystemTime, age: Duration) -> bool {
    time.elapsed().is_ok_and(|elapsed| elapsed > age)
}

/// Removes a file or folder, ignoring errors.
pub(super) fn remove_entry(path: &Path) {
    let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
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
        assert_eq!(unsafe_reason(&cache, effective_user_id()), None);
        assert_eq!(fs::metadata(&cache).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_folder_of_another_user_or_open_to_others_is_not_used() {
        let home = tempfile::tempdir().unwrap();
        let cache = home.path().join("speedwell");
        fs::create_dir(&cache).unwrap();
        let reason = |user| unsafe_reason(&cache, user).unwrap_or_default();
        with_mode(&cache, 0o755);
        assert_eq!(reason(effective_user_id()), "");
        // Root is trusted.
        if effective_user_id() != 0 {
            assert!(
                reason(effective_user_id() + 1).contains("owns"),
                "{}",
                reason(effective_user_id() + 1)
            );
        }
        for mode in [0o757, 0o1777] {
            with_mode(&cache, mode);
            assert_eq!(reason(effective_user_id()), "other users may write to it", "{mode:o}");
        }
        with_mode(&cache, 0o700);
        with_mode(home.path(), 0o777);
        assert!(reason(effective_user_id()).starts_with("other users may write to '"));
        with_mode(home.path(), 0o1777);
        assert_eq!(reason(effective_user_id()), "");
    }

    #[test]
    fn a_folder_owned_by_another_user_is_not_used() {
        let home = tempfile::tempdir().unwrap();
        let cache = home.path().join("speedwell");
        fs::create_dir(&cache).unwrap();
        if std::os::unix::fs::chown(&cache, Some(65_534), None).is_err() {
            eprintln!("skipped: only root can give a folder away");
            return;
        }
        let reason = unsafe_reason(&cache, effective_user_id());
        assert_eq!(reason.unwrap(), "the user with ID 65534 owns it");
    }

    #[test]
    fn old_drafts_go_and_everything_else_stays() {
        let cache = tempfile::tempdir().unwrap();
        let old = SystemTime::now() - 2 * MAX_DRAFT_AGE;
        for (name, time) in [("draft-a.d", old), ("draft-b", SystemTime::now()), ("program", old)] {
            let path = cache.path().join(name);
            let file = fs::File::create(path).unwrap();
            file.set_modified(time).unwrap();
        }
        remove_drafts(cache.path());
        let exists = |name: &str| cache.path().join(name).exists();
        assert!(!exists("draft-a.d") && exists("draft-b") && exists("program"));
    }
}
