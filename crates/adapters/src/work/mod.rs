//! Computes a fingerprint of each benchmark from its source text. If the fingerprints of two
//! revisions differ, the benchmark itself changed, so its values cannot show a change in the code
//! under test.
//!
//! This file decides which sources make up a benchmark: only files of tests and benchmarks.
//! `source_items.rs` decides how source code is split, and `pool.rs` decides which parts one
//! benchmark uses. No file is executed. Start at [`fingerprint_benchmarks`].

mod pool;
mod source_items;

use crate::cache::sorted_entries;
use crate::suites::files_matching;
use crate::{BenchmarkJob, BenchmarkSource, SourceKind};
use pool::{SourcePool, first_file, has_word, named_files};
use speedwell_config::adapter::ResultFormat;
use speedwell_config::project;
use speedwell_model::Variant;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

/// Names of folders with tests and benchmarks.
const TEST_FOLDERS: [&str; 13] = [
    "bench",
    "benches",
    "benchmark",
    "benchmarks",
    "__benchmarks__",
    "microbench",
    "jmh",
    "perf",
    "performance",
    "test",
    "tests",
    "__tests__",
    "spec",
];

/// Folders that are skipped, because they do not contain the project's own sources.
const SKIPPED_FOLDERS: [&str; 5] = ["target", "node_modules", "build", "out", "vendor"];

/// Maximum number of files and folders that a search for sources considers.
const MAX_FILES: usize = 20_000;

/// Location of a benchmark's source.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum SourceLocation {
    /// Files `*_test.go` of a package.
    GoPackage(PathBuf),
    /// Bench target of a cargo package or workspace.
    CargoTarget(PathBuf, String),
    /// File that is executed as is.
    File(PathBuf),
    /// Source of a class in a built jar, below this folder.
    Class(PathBuf, String),
    /// Sources of a program, below this folder.
    Program(PathBuf),
}

/// Returns the fingerprints of the jobs' benchmarks under a variant, by benchmark name. Omits
/// benchmarks whose source is not found.
pub fn fingerprint_benchmarks(
    jobs: &[BenchmarkJob],
    variant: &Variant,
) -> BTreeMap<String, String> {
    let mut pools: HashMap<SourceLocation, SourcePool> = HashMap::new();
    let mut found = BTreeMap::new();
    for job in jobs {
        let benchmark = (job.case.as_ref()).map_or(&job.source.name, |case| &case.benchmark);
        if found.contains_key(benchmark) {
            continue;
        }
        let source = job.source.under(variant);
        let Some(location) = locate_source(job, &source, variant) else { continue };
        let has_own_text = !matches!(location, SourceLocation::Program(_));
        let pool = pools.entry(location.clone()).or_insert_with(|| location.build_pool());
        let name = job.name_under(&variant.name);
        // In Go, the part after a slash is a sub-benchmark.
        let name = match location {
            SourceLocation::GoPackage(_) => name.split('/').next().unwrap_or(name),
            _ => name,
        };
        let fingerprint =
            pool.fingerprint_benchmark(name, has_literal_names(&source), has_own_text);
        found.extend(fingerprint.map(|fingerprint| (benchmark.clone(), fingerprint)));
    }
    found
}

/// Whether names of benchmarks are literals passed to the framework. A cargo package may use any of
/// several frameworks. In all but criterion, benchmarks are named after functions, so functions are
/// tried first.
fn has_literal_names(source: &BenchmarkSource) -> bool {
    use ResultFormat::*;
    let read = source.adapter().map(|adapter| adapter.keys.read);
    matches!(read, Some(Criterion | Pyperf | Catch2 | Vitest))
}

fn locate_source(
    job: &BenchmarkJob,
    source: &BenchmarkSource,
    variant: &Variant,
) -> Option<SourceLocation> {
    let file = &source.file;
    match source.kind {
        SourceKind::Snippet(_) | SourceKind::Fake | SourceKind::Load | SourceKind::Experiment => {
            return None;
        }
        SourceKind::Program => return program_location(variant),
        SourceKind::NodeCore | SourceKind::Node | SourceKind::Cpp | SourceKind::Python => {
            return Some(SourceLocation::File(file.clone()));
        }
        SourceKind::Suite => {}
    }
    let adapter = source.adapter()?;
    let target = job.in_suite.as_ref().and_then(|suite_case| suite_case.target.clone());
    match (adapter.keys.read, target) {
        (_, Some(target)) => Some(SourceLocation::CargoTarget(file.clone(), target)),
        (ResultFormat::Jmh, None) => {
            let root = variant.worktree.as_ref().map(|worktree| worktree.folder.clone());
            let class = job.name_under(&variant.name).rsplit_once('.')?.0.to_owned();
            root.map(|root| SourceLocation::Class(root, class))
        }
        _ if file.is_dir() => Some(SourceLocation::GoPackage(file.clone())),
        _ if source.is_program() => program_location(variant),
        _ => Some(SourceLocation::File(file.clone())),
    }
}

/// Returns where to search for the sources of a program: in the variant's worktree.
fn program_location(variant: &Variant) -> Option<SourceLocation> {
    let worktree = variant.worktree.as_ref()?;
    Some(SourceLocation::Program(worktree.folder.clone()))
}

impl SourceLocation {
    fn build_pool(&self) -> SourcePool {
        match self {
            SourceLocation::GoPackage(folder) => {
                let mut pool = SourcePool::new(folder);
                for file in files_matching(folder, "*_test.go") {
                    pool.add_file(&file);
                }
                pool
            }
            SourceLocation::CargoTarget(folder, target) => target_pool(folder, target),
            SourceLocation::File(file) => file_pool(file),
            SourceLocation::Class(root, class) => {
                let mut pool = SourcePool::new(root);
                let sources = sources_below(root, &|path| file_extension(path) == Some("java"));
                // A nested class is in the file of its outer class.
                let mut names = Some(class.as_str());
                while let Some(name) = names {
                    let path = format!("{}.java", name.replace('.', "/"));
                    if let Some(file) = sources.iter().find(|file| file.ends_with(&path)) {
                        pool.add_file(file);
                        break;
                    }
                    names = name.rsplit_once('.').map(|(outer, _)| outer);
                }
                pool
            }
            SourceLocation::Program(root) => root_pool(root),
        }
    }
}

/// Collects the files of a bench target. They are at the path in Cargo.toml, or where cargo looks
/// by default.
fn target_pool(folder: &Path, target: &str) -> SourcePool {
    let manifests = sources_below(folder, &|path| path.ends_with("Cargo.toml"));
    let find_file = |manifest: &PathBuf| {
        let package = manifest.parent()?;
        let default_paths = [format!("benches/{target}.rs"), format!("benches/{target}/main.rs")];
        let declared = manifest_path(manifest, target).into_iter();
        first_file(declared.chain(default_paths).map(|path| package.join(path)))
    };
    let mut pool = SourcePool::new(folder);
    if let Some(file) = manifests.iter().find_map(find_file) {
        add_with_modules(&mut pool, &file, &|_| true);
    }
    pool
}

/// Returns the path that a manifest declares for a bench target.
fn manifest_path(manifest: &Path, target: &str) -> Option<String> {
    let table: toml::Table = fs::read_to_string(manifest).ok()?.parse().ok()?;
    let is_target =
        |bench: &&toml::Value| bench.get("name").and_then(toml::Value::as_str) == Some(target);
    let path = table.get("bench")?.as_array()?.iter().find(is_target)?.get("path")?;
    path.as_str().map(str::to_owned)
}

/// Collects the declarations of a file, and of the test and benchmark files to which it refers.
fn file_pool(file: &Path) -> SourcePool {
    let folder = file.parent().unwrap_or(Path::new("/"));
    let root = project::project_root(folder).unwrap_or(folder).to_owned();
    let mut pool = SourcePool::new(folder);
    add_with_modules(&mut pool, file, &|path| is_of_tests(path, &root));
    let is_python = file_extension(file) == Some("py");
    // pytest takes fixtures from `conftest.py` in the file's folder and in the folders above it.
    let folders = folder.ancestors().take_while(|folder| is_python && folder.starts_with(&root));
    for fixtures in folders.map(|folder| folder.join("conftest.py")) {
        pool.add_file(&fixtures);
    }
    pool
}

fn add_with_modules(pool: &mut SourcePool, file: &Path, belongs: &dyn Fn(&Path) -> bool) {
    let mut pending = vec![file.to_owned()];
    while let Some(file) = pending.pop() {
        let tokens = pool.add_file(&file);
        let others = named_files(&tokens, &file).into_iter();
        pending.extend(
            others.filter_map(|path| path.canonicalize().ok()).filter(|path| belongs(path)),
        );
    }
}

/// Collects the C and C++ benchmark sources from which a program may be built.
fn root_pool(root: &Path) -> SourcePool {
    let is_source = |path: &Path| {
        let is_c = ["cc", "cpp", "cxx", "c"].contains(&file_extension(path).unwrap_or_default());
        is_c && is_of_tests(path, root)
    };
    let mut pool = SourcePool::new(root);
    for file in sources_below(root, &is_source) {
        let mut file_pool = SourcePool::new(root);
        let tokens = file_pool.add_file(&file);
        if ["BENCHMARK", "speedwell"].iter().any(|word| has_word(&tokens, word)) {
            add_with_modules(&mut pool, &file, &|path| is_of_tests(path, root));
        }
    }
    pool
}

fn file_extension(path: &Path) -> Option<&str> {
    path.extension()?.to_str()
}

/// Whether a file belongs to tests or benchmarks, judging by its name and the names of its folders
/// below `root`.
fn is_of_tests(path: &Path, root: &Path) -> bool {
    let Ok(relative) = path.strip_prefix(root) else { return false };
    let name = relative.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let stem = name.split('.').next().unwrap_or_default();
    let parts = stem.split(['_', '-']);
    let is_named = parts
        .chain(name.split('.').skip(1))
        .any(|part| ["bench", "benchmark", "benchmarks", "test", "spec", "perf"].contains(&part));
    let mut folders = relative
        .parent()
        .into_iter()
        .flat_map(Path::components)
        .map(|folder| folder.as_os_str().to_string_lossy().to_lowercase());
    is_named || folders.any(|folder| TEST_FOLDERS.contains(&&*folder))
}

/// Returns the files below a folder for which `is_wanted` is true. Skips hidden folders and
/// [`SKIPPED_FOLDERS`].
fn sources_below(folder: &Path, is_wanted: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let (mut found, mut pending, mut file_count) = (Vec::new(), vec![folder.to_owned()], 0);
    while let Some(folder) = pending.pop() {
        for path in sorted_entries(&folder) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let is_skipped = name.starts_with('.') || SKIPPED_FOLDERS.contains(&&*name);
            file_count += 1;
            if is_skipped || path.is_symlink() || file_count > MAX_FILES {
                continue;
            }
            if path.is_dir() {
                pending.push(path);
            } else if is_wanted(&path) {
                found.push(path);
            }
        }
    }
    found.sort_by_key(|path| path.components().count());
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use super::*;
    use crate::job::{BenchmarkSelection, SuiteCase};
    use crate::{DescribeRequest, builtin_adapter};
    use std::time::Duration;

    /// Creates files with the given contents in a folder.
    struct TestProject(tempfile::TempDir);

    impl TestProject {
        fn new(files: &[(&str, &str)]) -> TestProject {
            let project = TestProject(tempfile::tempdir().unwrap());
            files.iter().for_each(|(path, text)| project.write_file(path, text));
            project
        }

        fn write_file(&self, path: &str, text: &str) {
            let file = self.0.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }

        /// Fingerprint of one benchmark of a framework.
        fn fingerprint_in_framework(
            &self,
            suite: &str,
            target: Option<&str>,
            name: &str,
        ) -> Option<String> {
            let mut source = BenchmarkSource::new(
                SourceKind::Suite,
                self.0.path(),
                self.0.path(),
                self.0.path(),
            );
            source.suite = builtin_adapter(suite);
            self.fingerprint_source(source, target, name)
        }

        fn fingerprint_file(&self, kind: SourceKind, path: &str, name: &str) -> Option<String> {
            let file = self.0.path().join(path);
            self.fingerprint_source(
                BenchmarkSource::new(kind, &file, self.0.path(), self.0.path()),
                None,
                name,
            )
        }

        fn fingerprint_source(
            &self,
            source: BenchmarkSource,
            target: Option<&str>,
            name: &str,
        ) -> Option<String> {
            let variant = Variant::plain("a");
            let request = DescribeRequest {
                source,
                program: "x".into(),
                variant: variant.clone(),
                sets: Vec::new(),
                selection: BenchmarkSelection::default(),
                limit: Duration::ZERO,
            };
            let job = BenchmarkJob {
                label: name.to_owned(),
                in_suite: Some(SuiteCase {
                    name: name.to_owned(),
                    target: target.map(str::to_owned),
                }),
                ..request.draft_job()
            };
            fingerprint_benchmarks(&[job], &variant).into_values().next()
        }

        /// Whether the fingerprint changes when the file gets other content.
        fn changes_fingerprint(
            &self,
            path: &str,
            text: &str,
            of: impl Fn(&TestProject) -> Option<String>,
        ) -> bool {
            let (file, before) = (self.0.path().join(path), of(self));
            assert!(before.is_some());
            let own = fs::read_to_string(&file).unwrap_or_default();
            self.write_file(path, text);
            let after = of(self);
            fs::write(file, own).unwrap();
            assert!(after.is_some());
            before != after
        }
    }

    const GO: &str = "package a\n\nimport \"testing\"\n\nvar input = load(\"testdata/in\")\n\nfunc load(path string) string {\n\treturn path\n}\n\n\
        func BenchmarkSum(b *testing.B) {\n\tfor i := 0; i < b.N; i++ {\n\t\tSum(input)\n\t}\n}\n\n\
        func BenchmarkOther(b *testing.B) {\n\tother(b)\n}\n\nfunc other(b *testing.B) {\n}\n";

    #[test]
    fn a_go_fingerprint_covers_the_benchmark_and_the_test_code_it_uses() {
        let project = TestProject::new(&[
            ("a.go", "package a\nfunc Sum(s string) int { return 0 }\n"),
            ("a_test.go", GO),
            ("testdata/in", "1"),
        ]);
        let sum = |project: &TestProject| {
            project.fingerprint_in_framework("go-package", None, "BenchmarkSum/n=5")
        };
        let edited = |from: &str, to: &str| {
            project.changes_fingerprint("a_test.go", &GO.replace(from, to), sum)
        };
        assert!(edited("Sum(input)", "Sum(input + input)"));
        assert!(edited("return path", "return path + path"), "what it uses");
        assert!(project.changes_fingerprint("testdata/in", "2", sum), "its data");
        assert!(!edited("other(b)\n", "other(b)\n\tother(b)\n"), "another benchmark");
        assert!(!edited("func other(b *testing.B) {\n", "func other(b *testing.B) {\n\tx := 1\n"));
        assert!(!edited("\tfor i", "\t// About.\n\tfor  i"), "a comment and white space");
        let code = "package a\nfunc Sum(s string) int { return 1 }\n";
        assert!(!project.changes_fingerprint("a.go", code, sum), "the code under test");
        assert!(project.changes_fingerprint(
            "b_test.go",
            "package a\nfunc init() { warm() }\n",
            sum
        ));
        // Moving a function to another file changes nothing.
        let (first, second) = GO.split_at(GO.find("func BenchmarkSum").unwrap());
        let before = sum(&project);
        project.write_file("a_test.go", first);
        project.write_file("c_test.go", &format!("package a\nimport \"testing\"\n{second}"));
        assert_eq!(sum(&project), before);
    }

    const RUST: &str = "use criterion::{criterion_group, criterion_main, Criterion};\nuse lib::{parse, print};\nmod common;\n\
        fn parsing(c: &mut Criterion) { c.bench_function(\"parse small\", |b| b.iter(|| parse(common::text()))); }\n\
        fn printing(c: &mut Criterion) { for n in [1, 2] { c.bench_function(&format!(\"print {n}\"), |b| b.iter(|| print(n))); } }\n\
        criterion_group!(benches, parsing, printing);\ncriterion_main!(benches);\n";

    #[test]
    fn a_cargo_benchmark_is_found_by_its_function_or_registered_name() {
        let manifest =
            "[package]\nname = \"a\"\n[[bench]]\nname = \"speed\"\npath = \"perf/all.rs\"\n";
        let project = TestProject::new(&[
            ("Cargo.toml", manifest),
            ("perf/all.rs", RUST),
            ("perf/common.rs", "pub fn text() -> &'static str { \"a\" }\npub fn unused() {}\n"),
        ]);
        let of = |name: &'static str| {
            move |project: &TestProject| {
                project.fingerprint_in_framework("cargo", Some("speed"), name)
            }
        };
        let edited = |name, from: &str, to: &str| {
            project.changes_fingerprint("perf/all.rs", &RUST.replace(from, to), of(name))
        };
        assert!(edited("parse small", "common::text()", "common::text().repeat(2)"));
        assert!(!edited("parse small", "print(n)", "print(n + 1)"));
        assert!(edited("print 2", "print(n)", "print(n + 1)"));
        assert!(!edited("print 2", "common::text()", "common::text().repeat(2)"));
        assert!(
            !edited("print 2", "{parse, print}", "{parse, print, more}"),
            "an import that it does not use"
        );
        let common = "pub fn text() -> &'static str { \"ab\" }\npub fn unused() {}\n";
        assert!(project.changes_fingerprint("perf/common.rs", common, of("parse small")));
        let common = "pub fn text() -> &'static str { \"a\" }\npub fn unused() { text(); }\n";
        assert!(!project.changes_fingerprint("perf/common.rs", common, of("parse small")));
    }

    #[test]
    fn a_file_fingerprint_covers_its_helpers_but_not_code_under_test() {
        let script = "const k = require('../lib/k');\nconst { text } = require('./common');\n";
        let project = TestProject::new(&[
            (".git/HEAD", ""),
            ("bench/y.js", script),
            ("bench/common.js", "exports.text = 'a';"),
            ("lib/k.js", "exports.k = 1;"),
        ]);
        let of = |project: &TestProject| {
            project.fingerprint_file(SourceKind::Node, "bench/y.js", "bench/y.js")
        };
        assert!(project.changes_fingerprint("bench/common.js", "exports.text = 'b';", of));
        assert!(!project.changes_fingerprint("lib/k.js", "exports.k = 2;", of));
        assert!(project.changes_fingerprint("bench/y.js", &script.replace("text", "words"), of));
        assert!(!project.changes_fingerprint("bench/y.js", &format!("// About.\n{script}"), of));
    }

    #[test]
    fn each_python_function_is_a_benchmark_of_its_own() {
        let text = "from speedwell import bench\nfrom lib import total, most\nDATA = [3, 1]\nDATA.sort()\n\
            @bench\ndef sums(b):\n    total(DATA)\n\n@bench\ndef peaks(b):\n    most([1])\n";
        let project = TestProject::new(&[(".git/HEAD", ""), ("speed/lists.py", text)]);
        let of = |name: &'static str| {
            move |project: &TestProject| {
                project.fingerprint_file(SourceKind::Python, "speed/lists.py", name)
            }
        };
        let edited = |name, from: &str, to: &str| {
            project.changes_fingerprint("speed/lists.py", &text.replace(from, to), of(name))
        };
        assert!(edited("speed/lists.py/sums", "[3, 1]", "[3, 1, 2]"));
        assert!(edited("speed/lists.py/sums", "DATA.sort()", "DATA.reverse()"));
        assert!(!edited("speed/lists.py/sums", "most([1])", "most([1, 2])"));
        assert!(!edited("speed/lists.py/peaks", "DATA.sort()", "DATA.reverse()"));
        assert!(edited("speed/lists.py/peaks", "most([1])", "most([1, 2])"));
    }
}
