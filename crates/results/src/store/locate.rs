//! Where the results file of a project is.

use super::Store;
use std::env;
use std::path::{Path, PathBuf, absolute};

/// The folder of a project's results, which also marks the project's root.
pub(super) const FOLDER: &str = ".speedwell";

/// Any of these in a folder makes it the root of a project.
const MARKS: [&str; 3] = [FOLDER, "speedwell.toml", ".git"];

impl Store {
    /// The results file for work done in the folder `from`.
    ///
    /// `explicit` (`--db`) wins; then `.speedwell/results.db` in the nearest folder upwards that
    /// holds `.speedwell`, `speedwell.toml` or `.git`; then the user's data folder
    /// (`$XDG_DATA_HOME/speedwell`, by default `~/.local/share/speedwell`). Nothing is created.
    pub fn locate(explicit: Option<&Path>, from: &Path) -> PathBuf {
        locate(explicit, from, data_home())
    }
}

fn locate(explicit: Option<&Path>, from: &Path, data_home: Option<PathBuf>) -> PathBuf {
    if let Some(path) = explicit {
        return path.to_owned();
    }
    // A relative folder has no ancestors to look at; without a current folder it stays as it is.
    let from = absolute(from).unwrap_or_else(|_| from.to_owned());
    let is_root = |folder: &&Path| MARKS.iter().any(|mark| folder.join(mark).exists());
    match (from.ancestors().find(is_root), data_home) {
        (Some(root), _) => root.join(FOLDER).join("results.db"),
        (None, Some(home)) => home.join("speedwell").join("results.db"),
        (None, None) => from.join(FOLDER).join("results.db"),
    }
}

/// The user's data folder by the XDG base directory specification, which says that relative paths
/// in the variable are to be ignored.
fn data_home() -> Option<PathBuf> {
    let folder = |name: &str| {
        env::var_os(name)
            .map(PathBuf::from)
            .filter(|p| p.is_absolute())
    };
    folder("XDG_DATA_HOME").or_else(|| folder("HOME").map(|home| home.join(".local/share")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir_all, write};

    #[test]
    fn an_explicit_file_wins_over_everything() {
        let path = Path::new("/elsewhere/x.db");
        assert_eq!(locate(Some(path), Path::new("/"), None), path);
    }

    #[test]
    fn every_mark_makes_a_folder_the_root_and_the_nearest_wins() {
        let outer = tempfile::tempdir().unwrap();
        let deep = outer.path().join("project/sub/deeper");
        create_dir_all(&deep).unwrap();
        create_dir_all(outer.path().join(".git")).unwrap();
        assert_eq!(
            locate(None, &deep, None),
            outer.path().join(".speedwell/results.db")
        );

        write(outer.path().join("project/speedwell.toml"), "").unwrap();
        let project = outer.path().join("project/.speedwell/results.db");
        assert_eq!(locate(None, &deep, Some("/data".into())), project);

        create_dir_all(deep.join(".speedwell")).unwrap();
        assert_eq!(
            locate(None, &deep, None),
            deep.join(".speedwell/results.db")
        );
    }

    #[test]
    fn outside_of_a_project_results_go_to_the_users_data_folder() {
        let nowhere = Path::new("/nonexistent/a/b");
        assert_eq!(
            locate(None, nowhere, Some("/home/u/.local/share".into())),
            Path::new("/home/u/.local/share/speedwell/results.db")
        );
        let here = Path::new("/nonexistent/a/b/.speedwell/results.db");
        assert_eq!(
            locate(None, nowhere, None),
            here,
            "a user without a home folder"
        );
    }
}
