//! Embeds the harnesses that are written in other languages, and unpacks them on first use. Also
//! finds the path of this program itself, which is the harness of shell snippets and experiments.
//!
//! Only files that a harness needs at run time are embedded, not its tests or build outputs.
//! Node.js takes time for every file it opens, so files that each sample needs are also unpacked as
//! a single bundle.

use crate::cache::{self, cache_folder, hash_name};
use anyhow::Context;
use include_dir::{Dir, include_dir};
use speedwell_model::FailureCause;
use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Returns the path of this program. Programs that embed this library specify the path in
/// `$SPEEDWELL_PROGRAM`. Without this variable, returns the path of the running program, or
/// `speedwell` if the system does not report that path.
pub fn own_program() -> PathBuf {
    let variable = std::env::var_os("SPEEDWELL_PROGRAM").filter(|value| !value.is_empty());
    variable
        .map(PathBuf::from)
        .or_else(|| std::env::current_exe().ok())
        .unwrap_or_else(|| PathBuf::from("speedwell"))
}

/// One harness: its files, and their folder once unpacked.
pub struct HarnessSources {
    name: &'static str,
    /// Files by name.
    files: &'static [(&'static str, &'static str)],
    /// Folders with their contents.
    folders: &'static [(&'static str, Dir<'static>)],
    /// Folders whose scripts are bundled; the empty name stands for scripts outside all folders.
    bundled_folders: &'static [&'static str],
    unpacked: OnceLock<Result<PathBuf, FailureCause>>,
}

/// Embeds a file of a harness in `languages`, under its name.
macro_rules! file {
    ($folder:literal, $name:literal) => {
        ($name, include_str!(concat!("../languages/", $folder, "/", $name)))
    };
}

/// The Node.js harness.
pub static NODE: HarnessSources = HarnessSources::new(
    "node",
    &[
        file!("node", "index.js"),
        file!("node", "common.js"),
        file!("node", "harness.cjs"),
        file!("node", "probe.cjs"),
        file!("node", "register.cjs"),
        file!("node", "package.json"),
    ],
    &[("lib", include_dir!("$CARGO_MANIFEST_DIR/languages/node/lib"))],
)
.with_bundle(&["", "lib", "lib/harness", "lib/probe"]);

/// The C++ header, the harness in `main.cpp`, and `code.hpp` for snippets.
pub static CPP: HarnessSources =
    HarnessSources::new("cpp", &[], &[("", include_dir!("$CARGO_MANIFEST_DIR/languages/cpp"))]);

/// Harness for C snippets. Together with `code.hpp` from [`CPP`], it is also the harness for C++
/// snippets.
pub static C: HarnessSources =
    HarnessSources::new("c", &[], &[("", include_dir!("$CARGO_MANIFEST_DIR/languages/c"))]);

/// Harness for Rust snippets: a crate.
pub static RUST: HarnessSources =
    HarnessSources::new("rust", &[], &[("", include_dir!("$CARGO_MANIFEST_DIR/languages/rust"))]);

/// Harness for Go snippets: a module.
pub static GO: HarnessSources =
    HarnessSources::new("go", &[], &[("", include_dir!("$CARGO_MANIFEST_DIR/languages/go"))]);

/// Harness for Java snippets: a package.
pub static JAVA: HarnessSources =
    HarnessSources::new("java", &[], &[("", include_dir!("$CARGO_MANIFEST_DIR/languages/java"))]);

/// The Python harness.
pub static PYTHON: HarnessSources = HarnessSources::new(
    "python",
    &[file!("python", "harness.py")],
    &[("speedwell", include_dir!("$CARGO_MANIFEST_DIR/languages/python/speedwell"))],
);

/// The Erlang application, whose harness measures Elixir as well.
pub static ERLANG: HarnessSources = HarnessSources::new(
    "erlang",
    &[],
    &[("src", include_dir!("$CARGO_MANIFEST_DIR/languages/erlang/src"))],
);

/// Scripts that record the modules loaded while benchmarks are listed.
pub static MODULES: HarnessSources = HarnessSources::new(
    "modules",
    &[file!("modules", "node.cjs"), file!("modules", "python/sitecustomize.py")],
    &[],
);

impl HarnessSources {
    const fn new(
        name: &'static str,
        files: &'static [(&'static str, &'static str)],
        folders: &'static [(&'static str, Dir<'static>)],
    ) -> HarnessSources {
        HarnessSources { name, files, folders, bundled_folders: &[], unpacked: OnceLock::new() }
    }

    const fn with_bundle(mut self, folders: &'static [&'static str]) -> HarnessSources {
        self.bundled_folders = folders;
        self
    }

    /// Returns the folder of the harness, unpacking it if necessary.
    ///
    /// # Errors
    /// Fails if the cache folder cannot be written.
    pub fn folder(&self) -> Result<PathBuf, FailureCause> {
        let unpack = || {
            let unpacked = unpack_harness(self.name, &self.unpacked_files(), &cache_folder());
            unpacked.map_err(|error| FailureCause::Start { reason: format!("{error:#}") })
        };
        self.unpacked.get_or_init(unpack).clone()
    }

    /// Returns all files to unpack.
    fn unpacked_files(&self) -> Vec<UnpackedFile> {
        let listed = self.files.iter().map(|(name, text)| UnpackedFile {
            name: name.into(),
            content: text.as_bytes().into(),
        });
        let mut content: Vec<UnpackedFile> = listed.collect();
        for (name, dir) in self.folders {
            let inside = embedded_files(dir).into_iter().map(|file| UnpackedFile {
                name: Path::new(name).join(file.path()),
                content: file.contents().into(),
            });
            content.extend(inside);
        }
        if !self.bundled_folders.is_empty() {
            let bundle = bundle_scripts(&content, self.bundled_folders);
            content.push(bundle);
        }
        content
    }
}

/// An unpacked file.
#[derive(Hash)]
struct UnpackedFile {
    name: PathBuf,
    content: Cow<'static, [u8]>,
}

/// Bundles the scripts of these folders into a JavaScript object that maps file names to functions.
/// Each function is the wrapper that Node.js creates when it requires the file.
fn bundle_scripts(content: &[UnpackedFile], folders: &[&str]) -> UnpackedFile {
    let mut text = b"({\n".to_vec();
    for UnpackedFile { name, content } in content {
        let folder = name.parent().and_then(Path::to_str).unwrap_or_default();
        if name.extension().is_some_and(|ending| ending == "js") && folders.contains(&folder) {
            let head = "function (exports, require, module, __filename, __dirname) {";
            text.extend(format!("{:?}: {head}", name.to_string_lossy()).as_bytes());
            text.extend(content.iter());
            text.extend(b"\n},\n");
        }
    }
    text.extend(b"})\n");
    UnpackedFile { name: "bundle.js".into(), content: text.into() }
}

/// Unpacks a harness below `cache`, under a name that depends on its content.
fn unpack_harness(name: &str, content: &[UnpackedFile], cache: &Path) -> anyhow::Result<PathBuf> {
    let folder = cache.join(format!("harness-{name}-{}", hash_name(&content)));
    if folder.is_dir() {
        return Ok(folder);
    }
    fs::create_dir_all(cache).with_context(|| {
        format!(
            "cannot create the cache folder '{}'\nhint: set XDG_CACHE_HOME to a writable folder",
            cache.display()
        )
    })?;
    cache::remove_drafts(cache);
    let write_files = |draft: &Path| -> std::io::Result<()> {
        for file in content {
            let path = draft.join(&file.name);
            fs::create_dir_all(path.parent().unwrap_or(draft))?;
            fs::write(path, &file.content)?;
        }
        Ok(())
    };
    cache::fill_folder(&folder, |draft| {
        write_files(draft)
            .with_context(|| format!("cannot unpack the {name} harness to '{}'", draft.display()))
    })?;
    anyhow::ensure!(folder.is_dir(), "cannot unpack the {name} harness to '{}'", folder.display());
    Ok(folder)
}

/// Returns every file in the folder, except compiled Python.
fn embedded_files<'a>(dir: &'a Dir<'a>) -> Vec<&'a include_dir::File<'a>> {
    let mut found: Vec<_> = dir.files().collect();
    for inner in dir.dirs() {
        if !inner.path().ends_with("__pycache__") {
            found.extend(embedded_files(inner));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpacking_twice_gives_the_same_complete_folder() {
        let cache = tempfile::tempdir().unwrap();
        let first = unpack_harness("node", &NODE.unpacked_files(), cache.path()).unwrap();
        let second = unpack_harness("node", &NODE.unpacked_files(), cache.path()).unwrap();
        assert_eq!(first, second);
        for needed in ["index.js", "harness.cjs", "probe.cjs", "package.json"] {
            assert!(first.join(needed).is_file(), "{needed}");
        }
        assert!(!first.join("test").exists());
    }

    #[test]
    fn bundled_scripts_are_functions_keyed_by_file_name() {
        let bundle = NODE.unpacked_files().pop().unwrap();
        let text = String::from_utf8(bundle.content.into_owned()).unwrap();
        for needed in ["index.js", "lib/benchmark.js", "lib/harness/session.js"] {
            assert!(text.contains(&format!("\n\"{needed}\": function (exports, ")), "{needed}");
        }
        // Rarely needed files are not bundled.
        assert!(!text.contains("\"lib/http/"));
    }

    #[test]
    fn every_harness_contains_its_entry_file_and_no_tests() {
        let all = [
            (&NODE, "harness.cjs"),
            (&CPP, "speedwell.hpp"),
            (&C, "code.h"),
            (&RUST, "speedwell.rs"),
            (&GO, "speedwell.go"),
            (&JAVA, "speedwell/Code.java"),
            (&PYTHON, "harness.py"),
            (&ERLANG, "src/speedwell_harness.erl"),
        ];
        for (sources, needed) in all {
            let names: Vec<PathBuf> =
                sources.unpacked_files().into_iter().map(|file| file.name).collect();
            assert!(names.contains(&PathBuf::from(needed)), "{needed}");
            let is_below = |name: &PathBuf, folder| name.starts_with(folder);
            let stray =
                names.iter().find(|name| is_below(name, "test") || is_below(name, "_build"));
            assert_eq!(stray, None, "{}", sources.name);
        }
    }
}
