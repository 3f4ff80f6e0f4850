//! Known adapters: those in `crates/harness/suites/`, those of the project's file, and those of
//! definition files among the targets; and which of them a file belongs to. Files are read, never
//! executed. Start at [`Known`].

use anyhow::{Context, Result};
use include_dir::{Dir, include_dir};
use regex::Regex;
use speedwell_model::nearest;
use speedwell_suite::adapter::{Adapter, FileKind, Recognise};
use speedwell_suite::experiment::{Form, form};
use speedwell_suite::project::Project;
use std::cell::OnceCell;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

static SHIPPED: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/suites");

static OWN: LazyLock<Vec<Arc<Adapter>>> = LazyLock::new(|| {
    let texts = SHIPPED.files().filter_map(|file| file.contents_utf8());
    // An unreadable adapter would be missing; a test reads and checks them all.
    let read = texts.filter_map(|text| Adapter::read_checked(text).ok());
    read.flatten().map(Arc::new).collect()
});

/// Returns a built-in adapter.
pub fn shipped(name: &str) -> Option<Arc<Adapter>> {
    OWN.iter().find(|own| own.name == name).cloned()
}

/// Whether the file is an ELF program or library.
pub fn is_elf(file: &Path) -> bool {
    begins_with(file, b"\x7fELF")
}

/// Whether the file is an executable script, which may start a program of google/benchmark.
pub fn is_wrapper(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let mode = file.metadata().map_or(0, |data| data.permissions().mode());
    mode & 0o111 != 0 && begins_with(file, b"#!")
}

fn begins_with(file: &Path, magic: &[u8]) -> bool {
    let mut beginning = vec![0; magic.len()];
    let read = fs::File::open(file).and_then(|mut file| file.read_exact(&mut beginning));
    read.is_ok() && beginning == magic
}

/// Adapters that a command may use.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// The user's adapters come first.
    adapters: Vec<Arc<Adapter>>,
    /// Number of the user's adapters.
    of_user: usize,
}

impl Known {
    /// Collects the built-in adapters, those of the project of `here`, and those of definition
    /// files among `targets`.
    ///
    /// # Errors
    /// A file has an invalid table.
    pub fn new(targets: &[String], here: &Path) -> Result<Known> {
        let mut adapters = Vec::new();
        for target in targets {
            let file = here.join(target);
            if form(&file) == Some(Form::Suites) {
                adapters.extend(Adapter::read_file(&file)?.into_iter().map(Arc::new));
            }
        }
        if let Some(project) = Project::find(here)? {
            adapters.extend(project.suites.into_iter().map(Arc::new));
        }
        let of_user = adapters.len();
        adapters.extend(OWN.iter().cloned());
        Ok(Known { adapters, of_user })
    }

    /// Puts the given adapters first.
    #[must_use]
    pub fn after(mut self, first: &[Arc<Adapter>]) -> Known {
        self.adapters.splice(0..0, first.iter().cloned());
        self.of_user += first.len();
        self
    }

    /// The user's adapters.
    pub fn of_user(&self) -> &[Arc<Adapter>] {
        &self.adapters[..self.of_user]
    }

    /// Finds an adapter by name.
    pub fn named(&self, name: &str) -> Option<&Arc<Adapter>> {
        self.adapters.iter().find(|known| known.name == name)
    }

    /// Splits `mine:./bench-tool`, where `mine` is an adapter, into adapter and path.
    pub fn split<'a>(&self, operand: &'a str) -> Option<(Arc<Adapter>, &'a str)> {
        let (name, path) = operand.split_once(':')?;
        Some((self.named(name)?.clone(), path))
    }

    /// Hint for a misspelled adapter, as in `mien:./bench-tool`.
    pub fn hint(&self, operand: &str) -> Option<String> {
        let (name, path) = operand
            .split_once(':')
            .filter(|(_, path)| !path.is_empty())?;
        let names: Vec<String> = self.adapters.iter().map(|own| own.name.clone()).collect();
        Some(match nearest(name, &names) {
            Some(near) => format!("\nhint: did you mean '{near}:{path}'?"),
            None => format!("\nhint: suites are {}", names.join(", ")),
        })
    }

    /// Finds the adapter of a file or folder by its content.
    pub fn recognise(&self, path: &Path) -> Option<Arc<Adapter>> {
        first_that_fits(&self.adapters, path)
    }

    /// The same among the user's adapters.
    pub fn recognise_by_user(&self, path: &Path) -> Option<Arc<Adapter>> {
        first_that_fits(self.of_user(), path)
    }
}

fn first_that_fits(adapters: &[Arc<Adapter>], path: &Path) -> Option<Arc<Adapter>> {
    let look = Look::at(path);
    let fits =
        |own: &&Arc<Adapter>| (own.keys.recognise.as_ref()).is_some_and(|how| look.fits(how));
    adapters.iter().find(fits).cloned()
}

/// A file under inspection, whose content is read once.
struct Look<'a> {
    path: &'a Path,
    content: OnceCell<Vec<u8>>,
}

impl<'a> Look<'a> {
    fn at(path: &'a Path) -> Look<'a> {
        Look {
            path,
            content: OnceCell::new(),
        }
    }

    fn content(&self) -> &[u8] {
        self.content
            .get_or_init(|| fs::read(self.path).unwrap_or_default())
    }

    fn fits(&self, how: &Recognise) -> bool {
        let Some((last, others)) = how.folder.0.split_last() else {
            return self.path.is_file()
                && self.is_named(how)
                && self.begins(how)
                && self.holds(how);
        };
        if !self.path.is_dir()
            || !others
                .iter()
                .all(|glob| !files_like(self.path, glob).is_empty())
        {
            return false;
        }
        files_like(self.path, last)
            .iter()
            .any(|file| Look::at(file).holds(how))
    }

    fn is_named(&self, how: &Recognise) -> bool {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        (how.glob.as_ref()).is_none_or(|glob| like(glob).is_some_and(|like| like.is_match(&name)))
    }

    fn begins(&self, how: &Recognise) -> bool {
        match how.kind {
            None => true,
            Some(FileKind::Elf) => begins_with(self.path, b"\x7fELF"),
            Some(FileKind::Zip) => begins_with(self.path, b"PK\x03\x04"),
            Some(FileKind::Text) => !self.content().contains(&0),
        }
    }

    fn holds(&self, how: &Recognise) -> bool {
        let has = |mark: &String| memchr::memmem::find(self.content(), mark.as_bytes()).is_some();
        let marks = &how.content.0;
        let matches = |pattern: &String| {
            let text = String::from_utf8_lossy(self.content());
            Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(&text))
        };
        (marks.is_empty() || marks.iter().any(has)) && how.pattern.as_ref().is_none_or(matches)
    }
}

/// Files below `folder` whose relative path matches `glob`, sorted.
pub(crate) fn files_like(folder: &Path, glob: &str) -> Vec<PathBuf> {
    let depth = if glob.contains("**") {
        8
    } else {
        glob.matches('/').count()
    };
    let mut found = Vec::new();
    if let Some(like) = like(glob) {
        walk(folder, folder, depth, &like, &mut found);
    }
    found.sort();
    found
}

fn walk(root: &Path, folder: &Path, depth: usize, like: &Regex, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy();
        if path.is_dir() {
            if depth > 0 {
                walk(root, &path, depth - 1, like, found);
            }
        } else if like.is_match(&name) {
            found.push(path);
        }
    }
}

/// Translates a glob of file names: `*`, `**/`, `?` and `{a,b}`.
fn like(glob: &str) -> Option<Regex> {
    let mut pattern = String::from("^");
    let mut rest = glob;
    while let Some(first) = rest.chars().next() {
        let (taken, meaning) = match first {
            '*' if rest.starts_with("**/") => ("**/", "(?:.*/)?".to_owned()),
            '*' => ("*", "[^/]*".to_owned()),
            '?' => ("?", "[^/]".to_owned()),
            '{' => ("{", "(?:".to_owned()),
            '}' => ("}", ")".to_owned()),
            ',' => (",", "|".to_owned()),
            other => (&rest[..other.len_utf8()], regex::escape(&other.to_string())),
        };
        pattern += &meaning;
        rest = &rest[taken.len()..];
    }
    Regex::new(&(pattern + "$")).ok()
}

/// Searches a program for a pattern; returns the first group, or the whole match.
pub(super) fn found_in(program: &Path, pattern: &str) -> Result<Option<String>> {
    let bytes =
        fs::read(program).with_context(|| format!("cannot read '{}'", program.display()))?;
    let found = regex::bytes::Regex::new(pattern)?
        .captures(&bytes)
        .map(|found| {
            let group = found.get(1).or(found.get(0));
            group.map(|group| String::from_utf8_lossy(group.as_bytes()).into_owned())
        });
    Ok(found.flatten())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_adapter_can_be_read() {
        for file in SHIPPED.files() {
            let read = Adapter::read_all(file.contents_utf8().unwrap());
            assert!(!read.unwrap().is_empty(), "{}", file.path().display());
        }
        assert!(shipped("google-benchmark").is_some());
    }

    #[test]
    fn a_file_is_known_by_its_content_and_name() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &[u8]| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            path
        };
        let known = Known::new(&[], folder.path()).unwrap();
        let name = |path: &Path| known.recognise(path).map(|own| own.name.clone());
        let elf = write("a", b"\x7fELF ... benchmark_list_tests ...");
        assert_eq!(name(&elf).as_deref(), Some("google-benchmark"));
        assert_eq!(
            name(&write("b", b"benchmark_list_tests")),
            None,
            "no program"
        );
        assert_eq!(
            name(&write("c", b"\x7fELF _testmain.go")).as_deref(),
            Some("go")
        );
        let package = write(
            "p/x_test.go",
            b"package p\nfunc BenchmarkX(b *testing.B) {}",
        );
        assert_eq!(
            name(package.parent().unwrap()).as_deref(),
            Some("go-package")
        );
        let tests_only = write("q/x_test.go", b"package q\nfunc TestX(t *testing.T) {}");
        assert_eq!(name(tests_only.parent().unwrap()), None);
        write("r/Cargo.toml", b"[package]");
        assert_eq!(
            name(&folder.path().join("r")),
            None,
            "a crate without benches"
        );
        write("r/benches/x.rs", b"");
        assert_eq!(name(&folder.path().join("r")).as_deref(), Some("cargo"));
    }

    #[test]
    fn suites_of_the_project_come_first() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("a/b");
        fs::create_dir_all(&inside).unwrap();
        let table = "[suite.mine]\nrecognise = { glob = '*.{mine,own}' }\nlist = ['x']\nrun = ['x']\n\
                     read = 'lines'\nline = '(?P<value>.*)'\n";
        fs::write(folder.path().join("speedwell.toml"), table).unwrap();
        let known = Known::new(&[], &inside).unwrap();
        for (file, is_mine) in [("x.mine", true), ("x.own", true), ("x.mines", false)] {
            let path = inside.join(file);
            fs::write(&path, "").unwrap();
            assert_eq!(known.recognise(&path).is_some(), is_mine, "{file}");
        }
        assert_eq!(known.split("mine:./tool").unwrap().1, "./tool");
        assert!(known.split("./mine:tool").is_none());
        let hint = known.hint("mien:./tool").unwrap();
        assert!(hint.ends_with("did you mean 'mine:./tool'?"), "{hint}");
    }
}
