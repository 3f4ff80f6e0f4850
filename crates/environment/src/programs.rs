//! Finds programs and notes which build it is that a name stands for.

use super::tree::Tree;
use speedwell_model::Program;
use std::env;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// The first executable file of that name in the folders of `search` (a `PATH`).
pub(super) fn find(tree: &Tree, search: &OsStr, name: &str) -> Option<PathBuf> {
    env::split_paths(search)
        .map(|folder| tree.path(folder).join(name))
        .find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// What is known of a measured program. Size and time of change are noted because two builds
/// often call themselves by the same version.
pub(super) fn program(variant: &str, path: &Path, version: Option<&str>) -> Program {
    let path = resolve(path);
    let file = path.metadata().ok();
    let modified = file.as_ref().and_then(|file| file.modified().ok());
    Program {
        variant: variant.to_owned(),
        size_bytes: file.as_ref().map(|file| file.len()),
        modified_unix_ms: modified.map(|time| match time.duration_since(UNIX_EPOCH) {
            Ok(after) => after.as_millis() as i64,
            Err(before) => -(before.duration().as_millis() as i64),
        }),
        version: version.map(str::to_owned),
        versions: Default::default(),
        path,
    }
}

/// The file behind a name or path, links followed; what cannot be found stays as it was given.
fn resolve(path: &Path) -> PathBuf {
    let is_bare_name = path.components().count() == 1 && !path.is_absolute();
    let search = env::var_os("PATH").filter(|_| is_bare_name);
    let found =
        search.and_then(|search| find(&Tree::at(Path::new("/")), &search, &path.to_string_lossy()));
    let path = found.as_deref().unwrap_or(path);
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::tree::fake::machine;
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::symlink;

    #[test]
    fn only_executable_files_are_programs() {
        let machine = machine(&[("/a/tool", "text"), ("/b/tool", "program")]);
        fs::set_permissions(machine.path("/b/tool"), Permissions::from_mode(0o755)).unwrap();
        let found = find(&machine, OsStr::new("/nowhere:/a:/b"), "tool");
        assert_eq!(found, Some(machine.path("/b/tool")));
        assert_eq!(find(&machine, OsStr::new("/a"), "tool"), None);
    }

    #[test]
    fn a_link_is_followed_to_the_build_it_stands_for() {
        let machine = machine(&[("/real/node-22", "12345")]);
        let link = machine.path("/node");
        symlink(machine.path("/real/node-22"), &link).unwrap();
        let noted = program("new", &link, Some("v22.1.0"));
        assert_eq!(
            noted.path,
            machine.path("/real/node-22").canonicalize().unwrap()
        );
        assert_eq!(noted.size_bytes, Some(5));
        assert!(
            noted
                .modified_unix_ms
                .is_some_and(|time| time > 1_500_000_000_000)
        );
        assert_eq!(
            (noted.variant.as_str(), noted.version.as_deref()),
            ("new", Some("v22.1.0"))
        );
    }

    #[test]
    fn a_bare_name_is_looked_up_and_an_unknown_one_kept() {
        assert!(resolve(Path::new("sh")).is_absolute());
        let unknown = program("a", Path::new("no-such-program"), None);
        assert_eq!(unknown.path, Path::new("no-such-program"));
        assert_eq!(unknown.size_bytes, None);
    }
}
