//! Collects the known adapters, and finds the adapter of a file. Adapters come from
//! `crates/adapters/suites/`, from the project file, and from definition files among the targets.
//! Also recognizes frameworks without an adapter, for messages. Files are read, never executed.
//! Start at [`KnownAdapters`].

use crate::cache::sorted_entries;
use anyhow::{Context, Result};
use include_dir::{Dir, include_dir};
use regex::Regex;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use speedwell_config::adapter::{FileKind, SuiteAdapter, TargetCriteria};
use speedwell_config::experiment::{DefinitionForm, definition_form};
use speedwell_config::project::ProjectFile;
use speedwell_model::{nearest_name, quote};
use std::cell::OnceCell;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

static BUILTIN_FILES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/suites");

static BUILTIN_ADAPTERS: LazyLock<Vec<Arc<SuiteAdapter>>> = LazyLock::new(|| {
    let texts = BUILTIN_FILES.files().filter_map(|file| file.contents_utf8());
    // A test ensures that every adapter is readable.
    let read = texts.filter_map(|text| SuiteAdapter::parse_checked(text).ok());
    read.flatten().map(Arc::new).collect()
});

/// Returns a built-in adapter.
pub fn builtin_adapter(name: &str) -> Option<Arc<SuiteAdapter>> {
    BUILTIN_ADAPTERS.iter().find(|adapter| adapter.name == name).cloned()
}

/// Whether the file is an ELF program or library.
pub fn is_elf(file: &Path) -> bool {
    starts_with_magic(file, b"\x7fELF")
}

/// Whether the file is an executable script that handles the options of google/benchmark itself. No
/// other script is started to identify it.
pub fn is_wrapper(file: &Path) -> bool {
    let handles_option = || {
        let text = fs::read(file).unwrap_or_default();
        memchr::memmem::find(&text, b"--benchmark_list_tests").is_some()
    };
    is_script(file) && handles_option()
}

/// Whether the file is an executable script.
pub fn is_script(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let mode = file.metadata().map_or(0, |data| data.permissions().mode());
    mode & 0o111 != 0 && starts_with_magic(file, b"#!")
}

fn starts_with_magic(file: &Path, magic: &[u8]) -> bool {
    let mut beginning = vec![0; magic.len()];
    let read = fs::File::open(file).and_then(|mut file| file.read_exact(&mut beginning));
    read.is_ok() && beginning == magic
}

/// Adapters that a command may use.
#[derive(Debug, Clone, Default)]
pub struct KnownAdapters {
    /// All adapters; the user's adapters come first.
    adapters: Vec<Arc<SuiteAdapter>>,
    /// Number of the user's adapters.
    user_count: usize,
}

impl KnownAdapters {
    /// Collects the built-in adapters, the adapters of the project to which `cwd` belongs, and the
    /// adapters in the definition files among `targets`.
    ///
    /// # Errors
    /// Fails if a file has an invalid table.
    pub fn new(targets: &[String], cwd: &Path) -> Result<KnownAdapters> {
        let mut adapters = Vec::new();
        for target in targets {
            let file = cwd.join(target);
            if definition_form(&file) == Some(DefinitionForm::Suites) {
                adapters.extend(SuiteAdapter::read_file(&file)?.into_iter().map(Arc::new));
            }
        }
        if let Some(project) = ProjectFile::find_file(cwd)? {
            adapters.extend(project.suites.into_iter().map(Arc::new));
        }
        let user_count = adapters.len();
        adapters.extend(BUILTIN_ADAPTERS.iter().cloned());
        Ok(KnownAdapters { adapters, user_count })
    }

    /// Puts the given adapters first.
    #[must_use]
    pub fn with_user_adapters(mut self, first: &[Arc<SuiteAdapter>]) -> KnownAdapters {
        self.adapters.splice(0..0, first.iter().cloned());
        self.user_count += first.len();
        self
    }

    /// The user's adapters.
    pub fn user_adapters(&self) -> &[Arc<SuiteAdapter>] {
        &self.adapters[..self.user_count]
    }

    /// Splits an operand such as `mine:./bench-tool`, where `mine` is an adapter, into the adapter
    /// and the path.
    pub fn split_operand<'a>(&self, operand: &'a str) -> Option<(Arc<SuiteAdapter>, &'a str)> {
        let (name, path) = operand.split_once(':')?;
        let adapter = self.adapters.iter().find(|adapter| adapter.name == name)?;
        Some((adapter.clone(), path))
    }

    /// Hint for a misspelled adapter, as in `mien:./bench-tool`.
    pub fn suggest_adapter(&self, operand: &str) -> Option<String> {
        let (name, path) = operand.split_once(':').filter(|(_, path)| !path.is_empty())?;
        let names: Vec<String> = self.adapters.iter().map(|adapter| adapter.name.clone()).collect();
        Some(match nearest_name(name, &names) {
            Some(near) => format!("\nhint: did you mean '{near}:{path}'?"),
            None => format!("\nhint: supported suites are {}", names.join(", ")),
        })
    }

    /// Finds the adapter of a file or folder by its content.
    pub fn recognize(&self, path: &Path) -> Option<Arc<SuiteAdapter>> {
        find_matching(&self.adapters, path)
    }

    /// Finds the adapter of a file or folder among the user's adapters.
    pub fn recognize_by_user(&self, path: &Path) -> Option<Arc<SuiteAdapter>> {
        find_matching(self.user_adapters(), path)
    }
}

fn find_matching(adapters: &[Arc<SuiteAdapter>], path: &Path) -> Option<Arc<SuiteAdapter>> {
    let file = FileInspection { path, content: OnceCell::new() };
    let fits = |adapter: &&Arc<SuiteAdapter>| {
        (adapter.keys.recognise.as_ref()).is_some_and(|criteria| file.matches(criteria))
    };
    adapters.iter().find(fits).cloned()
}

/// A file under inspection, whose content is read once.
struct FileInspection<'a> {
    path: &'a Path,
    content: OnceCell<Vec<u8>>,
}

impl FileInspection<'_> {
    fn content(&self) -> &[u8] {
        self.content.get_or_init(|| fs::read(self.path).unwrap_or_default())
    }

    fn matches(&self, criteria: &TargetCriteria) -> bool {
        let path = self.path;
        let Some((last, others)) = criteria.folder.0.split_last() else {
            return path.is_file()
                && self.is_named(criteria)
                && self.matches_kind(criteria)
                && self.matches_content(criteria);
        };
        let has_content = |file: &PathBuf| {
            FileInspection { path: file, content: OnceCell::new() }.matches_content(criteria)
        };
        path.is_dir()
            && others.iter().all(|glob| !files_matching(path, glob).is_empty())
            && files_matching(path, last).iter().any(has_content)
    }

    fn is_named(&self, criteria: &TargetCriteria) -> bool {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        (criteria.glob.as_ref())
            .is_none_or(|glob| glob_pattern(glob).is_some_and(|pattern| pattern.is_match(&name)))
    }

    fn matches_kind(&self, criteria: &TargetCriteria) -> bool {
        match criteria.kind {
            None => true,
            Some(FileKind::Elf) => starts_with_magic(self.path, b"\x7fELF"),
            Some(FileKind::Zip) => starts_with_magic(self.path, b"PK\x03\x04"),
            Some(FileKind::Text) => !self.content().contains(&0),
        }
    }

    fn matches_content(&self, criteria: &TargetCriteria) -> bool {
        let has = |mark: &String| memchr::memmem::find(self.content(), mark.as_bytes()).is_some();
        let marks = &criteria.content.0;
        let matches = |pattern: &String| {
            let text = String::from_utf8_lossy(self.content());
            Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(&text))
        };
        (marks.is_empty() || marks.iter().any(has)) && criteria.pattern.as_ref().is_none_or(matches)
    }
}

/// Files below `folder` whose relative path matches `glob`, sorted. With `**`, at most eight levels
/// of subfolders are searched.
pub fn files_matching(folder: &Path, glob: &str) -> Vec<PathBuf> {
    let Some(pattern) = glob_pattern(glob) else { return Vec::new() };
    let depth = if glob.contains("**") { 8 } else { glob.matches('/').count() };
    let (mut found, mut pending) = (Vec::new(), vec![(folder.to_owned(), depth)]);
    while let Some((inner, depth)) = pending.pop() {
        for path in sorted_entries(&inner) {
            let name = path.strip_prefix(folder).unwrap_or(&path).to_string_lossy();
            let is_match = pattern.is_match(&name);
            if !path.is_dir() {
                found.extend(is_match.then_some(path));
            } else if depth > 0 {
                pending.push((path, depth - 1));
            }
        }
    }
    found.sort();
    found
}

/// Translates a glob of file names: `*`, `**/`, `?` and `{a,b}`.
fn glob_pattern(glob: &str) -> Option<Regex> {
    let mut pattern = String::from("^");
    let mut remaining = glob;
    while let Some(first) = remaining.chars().next() {
        let (token, translation) = match first {
            '*' if remaining.starts_with("**/") => ("**/", "(?:.*/)?".to_owned()),
            '*' => ("*", "[^/]*".to_owned()),
            '?' => ("?", "[^/]".to_owned()),
            '{' => ("{", "(?:".to_owned()),
            '}' => ("}", ")".to_owned()),
            ',' => (",", "|".to_owned()),
            other => (&remaining[..other.len_utf8()], regex::escape(&other.to_string())),
        };
        pattern += &translation;
        remaining = &remaining[token.len()..];
    }
    Regex::new(&(pattern + "$")).ok()
}

/// Searches a program for a pattern. Returns the text of the pattern's first group, or the whole
/// match if there is no group.
pub(super) fn search_program(program: &Path, pattern: &str) -> Result<Option<String>> {
    let bytes =
        fs::read(program).with_context(|| format!("cannot read '{}'", program.display()))?;
    Ok(regex::bytes::Regex::new(pattern)?.captures(&bytes).and_then(|found| {
        let group = found.get(1).or(found.get(0))?;
        Some(String::from_utf8_lossy(group.as_bytes()).into_owned())
    }))
}

/// An adapter as a plan stores it: a built-in adapter by its name, any other adapter in full, so
/// that a resumed session does not depend on the user's files.
#[derive(Deserialize)]
#[serde(untagged)]
enum StoredAdapter {
    Name(String),
    Whole(Arc<SuiteAdapter>),
}

/// Serializes an adapter.
///
/// # Errors
/// Returns errors of the serializer.
pub fn serialize_adapter<S: Serializer>(
    adapter: &Option<Arc<SuiteAdapter>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match adapter {
        Some(own) if builtin_adapter(&own.name).as_ref() == Some(own) => {
            Some(&own.name).serialize(serializer)
        }
        _ => adapter.serialize(serializer),
    }
}

/// Deserializes an adapter.
///
/// # Errors
/// Fails if there is no built-in adapter of that name.
pub fn deserialize_adapter<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Arc<SuiteAdapter>>, D::Error> {
    match Option::<StoredAdapter>::deserialize(deserializer)? {
        Some(StoredAdapter::Name(name)) => {
            let unknown = || serde::de::Error::custom(format!("unknown suite '{name}'"));
            builtin_adapter(&name).map(Some).ok_or_else(unknown)
        }
        Some(StoredAdapter::Whole(adapter)) => Ok(Some(adapter)),
        None => Ok(None),
    }
}

/// Maximum size of a file that is searched. Benchmark sources are much smaller, and programs rarely
/// exceed this size.
const MAX_SEARCHED_BYTES: u64 = 64 << 20;

/// For each framework: the extensions of its files, its name, and a pattern of their content. An
/// empty list of extensions stands for programs.
const FRAMEWORKS: [(&[&str], &str, &str); 20] = [
    (JAVASCRIPT, "mitata", r#"['"]mitata['"]"#),
    (JAVASCRIPT, "tinybench", r#"['"]tinybench['"]"#),
    (JAVASCRIPT, "benchmark.js", r#"['"]benchmark['"]"#),
    (JAVASCRIPT, "benny", r#"['"]benny['"]"#),
    (JAVASCRIPT, "bench-node", r#"['"]bench-node['"]"#),
    (JAVASCRIPT, "cronometro", r#"['"]cronometro['"]"#),
    (JAVASCRIPT, "deno bench", r"\bDeno\.bench\("),
    (&["py"], "pytest-codspeed", r"\bpytest_codspeed\b|@pytest\.mark\.benchmark\b"),
    (&["py"], "asv", r"(?m)^\s*def (?:time|timeraw|peakmem|mem|track)_\w+\("),
    (&["rb"], "benchmark-ips", "benchmark/ips"),
    (&["exs"], "Benchee", r"\bBenchee\.run\("),
    (&["jl"], "BenchmarkTools", r"\bBenchmarkTools\b"),
    (&["cpp", "cc", "cxx"], "nanobench", r"#include\s*.*\bnanobench\.h"),
    (&["cpp", "cc", "cxx"], "Celero", r"#include\s*.celero/"),
    (PROGRAM, "nanobench", "nanobench"),
    (PROGRAM, "Celero", "celero"),
    (PROGRAM, "bencher", r"/bencher-[0-9][0-9.]*/"),
    (PROGRAM, "iai-callgrind", r"/iai-callgrind-[0-9][0-9.]*/"),
    (PROGRAM, "iai", r"/iai-[0-9][0-9.]*/"),
    (PROGRAM, "tango", r"/tango-bench-[0-9][0-9.]*/"),
];

const JAVASCRIPT: &[&str] = &["js", "mjs", "cjs", "ts", "mts", "cts"];

const PROGRAM: &[&str] = &[];

static PATTERNS: LazyLock<Vec<Option<regex::bytes::Regex>>> = LazyLock::new(|| {
    let patterns = FRAMEWORKS.iter();
    patterns.map(|(.., pattern)| regex::bytes::Regex::new(pattern).ok()).collect()
});

/// Returns the framework of a benchmark file or program if it is known and has no adapter.
pub fn framework_without_adapter(file: &Path) -> Option<&'static str> {
    let ending = file.extension().and_then(|ending| ending.to_str());
    let is_program = is_elf(file);
    let may_be = |endings: &[&str]| match endings {
        [] => is_program,
        endings => ending.is_some_and(|ending| endings.contains(&ending)),
    };
    let size = file.metadata().ok().filter(|data| data.is_file())?.len();
    if size > MAX_SEARCHED_BYTES || !FRAMEWORKS.iter().any(|(endings, ..)| may_be(endings)) {
        return None;
    }
    let content = fs::read(file).ok()?;
    let matches = |pattern: &Option<regex::bytes::Regex>| {
        pattern.as_ref().is_some_and(|pattern| pattern.is_match(&content))
    };
    let found = FRAMEWORKS.iter().zip(PATTERNS.iter());
    found
        .into_iter()
        .find(|((endings, ..), pattern)| may_be(endings) && matches(pattern))
        .map(|((_, name, _), _)| *name)
}

/// Explains that a file's framework has no adapter, and how to write one.
pub fn explain_framework(name: &str, target: &str) -> String {
    let adapter = name.to_lowercase().replace([' ', '.'], "-");
    let target = quote(target);
    format!(
        "it contains benchmarks written with {name}, for which Speedwell has no adapter\n\
         hint: 'speedwell new adapter {adapter} {target}' writes a template; \
         docs/reference/suites.md describes its keys"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_adapter_can_be_read() {
        for file in BUILTIN_FILES.files() {
            let read = SuiteAdapter::parse_all(file.contents_utf8().unwrap());
            assert!(!read.unwrap().is_empty(), "{}", file.path().display());
        }
        assert!(builtin_adapter("google-benchmark").is_some());
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
        let known = KnownAdapters::new(&[], folder.path()).unwrap();
        let name = |path: &Path| known.recognize(path).map(|adapter| adapter.name.clone());
        let elf = write("a", b"\x7fELF ... benchmark_list_tests ...");
        assert_eq!(name(&elf).as_deref(), Some("google-benchmark"));
        assert_eq!(name(&write("b", b"benchmark_list_tests")), None, "not a program");
        assert_eq!(name(&write("c", b"\x7fELF _testmain.go")).as_deref(), Some("go"));
        let package = write("p/x_test.go", b"package p\nfunc BenchmarkX(b *testing.B) {}");
        assert_eq!(name(package.parent().unwrap()).as_deref(), Some("go-package"));
        let tests_only = write("q/x_test.go", b"package q\nfunc TestX(t *testing.T) {}");
        assert_eq!(name(tests_only.parent().unwrap()), None);
        write("r/Cargo.toml", b"[package]");
        assert_eq!(name(&folder.path().join("r")), None, "a crate without benches");
        write("r/benches/x.rs", b"");
        assert_eq!(name(&folder.path().join("r")).as_deref(), Some("cargo"));
    }

    #[test]
    fn suites_defined_by_the_project_are_found_and_suggested() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("a/b");
        fs::create_dir_all(&inside).unwrap();
        let table = "[suite.mine]\nrecognise = { glob = '*.{mine,own}' }\nlist = ['x']\nrun = ['x']\n\
                     read = 'lines'\nline = '(?P<value>.*)'\n";
        fs::write(folder.path().join("speedwell.toml"), table).unwrap();
        let known = KnownAdapters::new(&[], &inside).unwrap();
        for (file, is_mine) in [("x.mine", true), ("x.own", true), ("x.mines", false)] {
            let path = inside.join(file);
            fs::write(&path, "").unwrap();
            assert_eq!(known.recognize(&path).is_some(), is_mine, "{file}");
        }
        assert_eq!(known.split_operand("mine:./tool").unwrap().1, "./tool");
        assert!(known.split_operand("./mine:tool").is_none());
        let hint = known.suggest_adapter("mien:./tool").unwrap();
        assert!(hint.ends_with("did you mean 'mine:./tool'?"), "{hint}");
    }
}

#[cfg(test)]
mod framework_tests {
    use super::*;

    #[test]
    fn frameworks_are_known_by_what_their_files_contain() {
        assert!(PATTERNS.iter().all(Option::is_some));
        let folder = tempfile::tempdir().unwrap();
        for (file, content, expected) in [
            ("a.mjs", "import { run, bench } from 'mitata';", Some("mitata")),
            ("a.js", "const { Suite } = require('benchmark');", Some("benchmark.js")),
            ("a.ts", "Deno.bench('x', () => 1);", Some("deno bench")),
            ("a.js", "// like mitata\nexport const a = 1;", None),
            ("test_a.py", "@pytest.mark.benchmark\ndef test_a(): pass", Some("pytest-codspeed")),
            ("bench_a.py", "class Suite:\n    def time_a(self): pass", Some("asv")),
            ("a", "\x7fELF /src/iai-callgrind-0.14.0/src/lib.rs", Some("iai-callgrind")),
            ("a", "\x7fELF /src/bencher-0.1.5/lib.rs", Some("bencher")),
            ("a", "#!/bin/sh\n/src/bencher-0.1.5/lib.rs", None),
        ] {
            let path = folder.path().join(file);
            fs::write(&path, content).unwrap();
            assert_eq!(framework_without_adapter(&path), expected, "{content}");
        }
    }
}
