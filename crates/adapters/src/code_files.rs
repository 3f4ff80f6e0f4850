//! Finds the files whose content determines a run: the benchmark file, the program that executes
//! it, and the modules of the project that either of them loads.
//!
//! The search reads the text of scripts without executing them, so it misses modules with computed
//! names. It excludes files that are read once per session (definition files) or built once (C++,
//! packages). Start at [`code_files`].
//!
//! A [`ModuleLog`] records the modules that Python and Node.js processes load from the user's
//! checkout. Environment variables make the interpreter execute one of our two scripts before the
//! program itself, and that script records the files. This works for any process, but is never done
//! in measured runs.

use crate::sources::MODULES;
use crate::{BenchmarkJob, BenchmarkSource, SourceKind};
use anyhow::Result;
use regex::Regex;
use speedwell_machine::process::{ScratchFolder, resolve_program};
use speedwell_model::{SnippetLanguage, Variant, VariantWorktree};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::LazyLock;

/// Maximum size of a file that is searched for modules. Larger files are data or generated code.
const MAX_SCRIPT_BYTES: u64 = 1 << 20;

/// Maximum number of files per benchmark. If there are more, a change to the code usually still
/// affects some of the files that were found.
const MAX_FILES: usize = 2_000;

/// Extensions of scripts that are searched for modules.
const JAVASCRIPT_EXTENSIONS: [&str; 8] = ["js", "mjs", "cjs", "ts", "mts", "cts", "jsx", "tsx"];
const PYTHON_EXTENSION: &str = "py";

/// Extensions of other scripts. Their modules are not searched for.
const OTHER_EXTENSIONS: [&str; 7] = ["sh", "bash", "rb", "pl", "php", "lua", "r"];

static JAVASCRIPT_MODULE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let pattern =
        r#"(?:\brequire(?:\.resolve)?\s*\(\s*|\bfrom\s*|\bimport\s*\(?\s*)["'`]([^"'`\n]+)["'`]"#;
    Regex::new(pattern).ok()
});

static PYTHON_MODULE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let pattern = r"(?m)^\s*(?:from\s+([.\w]+)\s+import\s+(\([^)]*\)|[^\n#]+)|import\s+([^\n#]+))";
    Regex::new(pattern).ok()
});

/// Returns the files whose content determines a run of `job` under `variant`. `program` is the
/// program that executes the job.
pub fn code_files(job: &BenchmarkJob, variant: &Variant, program: &Path) -> Vec<PathBuf> {
    let job = job.under(variant);
    let source = &job.source;
    let folders = [source.file.parent(), Some(&source.directory), Some(&source.root)];
    let mut search = ModuleSearch {
        folders: folders.into_iter().flatten().map(Path::to_owned).collect(),
        found: BTreeSet::new(),
        unsearched: Vec::new(),
    };
    let is_definition = matches!(source.kind, SourceKind::Load | SourceKind::Experiment);
    let has_no_file = matches!(source.kind, SourceKind::Cpp | SourceKind::Snippet(_));
    if !is_definition && !has_no_file && source.file.is_file() {
        search.add_file(&source.file);
    }
    if !is_definition && !is_built_once(source) {
        search.add_program(program, &source.directory);
    }
    variant.arguments.iter().for_each(|word| search.add_script(word, &source.directory));
    for (name, value) in &variant.environment {
        if name == "PYTHONPATH" || name == "NODE_PATH" {
            let listed = value.split(':').filter(|folder| !folder.is_empty());
            search.folders.extend(listed.map(|folder| source.directory.join(folder)));
        }
        let words = value.split([' ', '=']);
        words.for_each(|word| search.add_script(word, &source.directory));
    }
    if let Some(snippet) = job.snippet_under(variant) {
        if snippet.language == SnippetLanguage::Sh {
            search.add_command(&snippet.runner, &source.directory);
        }
        snippet.paths.iter().for_each(|path| search.add_folder(path));
    }
    if let Some(definition) = &source.definition {
        search.add_definition(&definition.source().text, &source.file);
    }
    search.follow_modules();
    search.found.into_iter().collect()
}

/// Whether the source is compiled once per session. The variant's program is then a compiler, and
/// runs do not execute it.
fn is_built_once(source: &BenchmarkSource) -> bool {
    match source.kind {
        SourceKind::Cpp => true,
        SourceKind::Snippet(language) => language.is_compiled(),
        _ => source.file.is_dir() && source.is_program(),
    }
}

/// The files found so far, and the files that must still be searched for modules.
struct ModuleSearch {
    /// Search path of Python modules, besides the folder of the importing file.
    folders: Vec<PathBuf>,
    found: BTreeSet<PathBuf>,
    unsearched: Vec<PathBuf>,
}

impl ModuleSearch {
    /// Adds the canonical path of a file and also the path as given, which may contain symlinks: a
    /// symlink may get a new target.
    fn add_file(&mut self, file: &Path) {
        let Ok(path) = fs::canonicalize(file) else { return };
        let is_new = path.is_file() && self.found.len() < MAX_FILES;
        if is_new && self.found.insert(path.clone()) {
            self.unsearched.push(path.clone());
        }
        let uncanonical = remove_dots(file);
        if is_new && uncanonical.is_absolute() && uncanonical != path {
            self.found.insert(uncanonical);
        }
    }

    fn add_program(&mut self, program: &Path, directory: &Path) {
        // A bare name is looked up in PATH. A path is relative to the working directory.
        let candidate = match program.components().count() {
            1 => program.to_owned(),
            _ => directory.join(program),
        };
        if let Ok(path) = resolve_program(&candidate) {
            self.add_file(&path);
        }
    }

    /// Adds the file that an argument names if the file is a script. Other files may be outputs of
    /// the program.
    fn add_script(&mut self, word: &str, directory: &Path) {
        let path = directory.join(word);
        if is_script(&path) && path.is_file() {
            self.add_file(&path);
        }
    }

    /// Adds the program of a command line, and the script it executes.
    fn add_command(&mut self, command_line: &str, directory: &Path) {
        let split = shell_words::split(command_line).unwrap_or_default();
        let is_assignment = |word: &&String| word.contains('=');
        let mut words = split.iter().skip_while(is_assignment);
        let Some(program) = words.next() else { return };
        self.add_program(Path::new(program), directory);
        if let Some(script) = words.find(|word| is_script(Path::new(word))) {
            self.add_script(script, directory);
        }
    }

    /// Adds the scripts named in the commands of a definition file.
    fn add_definition(&mut self, text: &str, file: &Path) {
        let folder = file.parent().unwrap_or(Path::new("."));
        for word in text.split(|c: char| c.is_whitespace() || "\"'`,[]=".contains(c)) {
            if is_script(Path::new(word)) {
                self.add_script(word, folder);
            }
        }
    }

    /// Adds a folder to the search path of modules, and adds the scripts in it. If the path is a
    /// file, adds only this file.
    fn add_folder(&mut self, path: &Path) {
        if path.is_file() {
            return self.add_file(path);
        }
        self.folders.push(path.to_owned());
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        let scripts = entries.map(|entry| entry.path()).filter(|path| is_script(path));
        scripts.for_each(|script| self.add_file(&script));
    }

    /// Searches all files for modules, including the files that the search adds.
    fn follow_modules(&mut self) {
        while let Some(file) = self.unsearched.pop() {
            let is_small = fs::metadata(&file).is_ok_and(|data| data.len() <= MAX_SCRIPT_BYTES);
            if !is_small || !(is_python(&file) || is_javascript(&file)) {
                continue;
            }
            let Ok(text) = fs::read_to_string(&file) else { continue };
            let folder = file.parent().unwrap_or(Path::new("/")).to_owned();
            if is_python(&file) {
                self.follow_python(&text, &folder);
            } else {
                self.follow_javascript(&text, &folder);
            }
        }
    }

    fn follow_javascript(&mut self, text: &str, folder: &Path) {
        let Some(pattern) = &*JAVASCRIPT_MODULE else { return };
        for captures in pattern.captures_iter(text) {
            let name = &captures[1];
            let relative = name.starts_with(['.', '/']).then(|| folder.join(name));
            let path = relative.or_else(|| resolve_linked_package(name, folder));
            if let Some(file) = path.as_deref().and_then(resolve_javascript_module) {
                self.add_file(&file);
            }
        }
    }

    fn follow_python(&mut self, text: &str, folder: &Path) {
        let Some(pattern) = &*PYTHON_MODULE else { return };
        let names_in = |list: &str| -> Vec<String> {
            let first = |part: &str| part.split_whitespace().next().map(str::to_owned);
            list.trim_matches(['(', ')']).split(',').filter_map(first).collect()
        };
        for captures in pattern.captures_iter(text) {
            let mut modules = Vec::new();
            match (captures.get(1), captures.get(2), captures.get(3)) {
                (Some(package), Some(names), _) => {
                    let module = package.as_str();
                    let imported = names_in(names.as_str());
                    let dot = if module.ends_with('.') { "" } else { "." };
                    modules.extend(imported.iter().map(|name| format!("{module}{dot}{name}")));
                    modules.push(module.to_owned());
                }
                (_, _, Some(list)) => modules.extend(names_in(list.as_str())),
                _ => {}
            }
            modules.iter().for_each(|module| self.add_python(module, folder));
        }
    }

    /// Adds a module and its enclosing packages.
    fn add_python(&mut self, module: &str, folder: &Path) {
        let name = module.trim_start_matches('.');
        let dots = module.len() - name.len();
        let mut folders = Vec::new();
        match dots {
            0 => {
                folders.push(folder.to_owned());
                folders.extend(self.folders.iter().cloned());
            }
            // One dot stands for the folder itself. Each further dot leads one folder up.
            _ => folders.extend(folder.ancestors().nth(dots - 1).map(Path::to_owned)),
        }
        for mut module_path in folders {
            for part in name.split('.').filter(|part| !part.is_empty()) {
                module_path.push(part);
                self.add_file(&module_path.join("__init__.py"));
                self.add_file(&module_path.with_extension(PYTHON_EXTENSION));
            }
        }
    }
}

/// Removes `.` and `..` from the path.
fn remove_dots(path: &Path) -> PathBuf {
    let mut cleaned = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                cleaned.pop();
            }
            part => cleaned.push(part),
        }
    }
    cleaned
}

fn is_script(path: &Path) -> bool {
    is_javascript(path) || is_python(path) || OTHER_EXTENSIONS.contains(&extension(path))
}

/// Whether the file is JavaScript or TypeScript, by its extension.
pub fn is_javascript(path: &Path) -> bool {
    JAVASCRIPT_EXTENSIONS.contains(&extension(path))
}

/// Whether the file is Python, by its extension.
pub fn is_python(path: &Path) -> bool {
    extension(path) == PYTHON_EXTENSION
}

fn extension(path: &Path) -> &str {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.unwrap_or_default()
}

/// Resolves a module as Node.js does: by the exact path, with an extension added, or as a folder.
fn resolve_javascript_module(base: &Path) -> Option<PathBuf> {
    let with_ending = |ending: &str| {
        let mut name = base.as_os_str().to_owned();
        name.push(format!(".{ending}"));
        PathBuf::from(name)
    };
    let main = || {
        let text = fs::read_to_string(base.join("package.json")).ok()?;
        let package: serde_json::Value = serde_json::from_str(&text).ok()?;
        Some(base.join(package.get("main")?.as_str()?))
    };
    let endings = JAVASCRIPT_EXTENSIONS.into_iter().chain(["json", "node"]);
    let files = [base.to_owned()]
        .into_iter()
        .chain(endings.map(with_ending))
        .chain(main())
        .chain(["index.js", "index.mjs", "index.cjs", "index.ts"].map(|name| base.join(name)));
    files.into_iter().find(|file| file.is_file())
}

/// Resolves a package that is a symlink from `node_modules` to a folder of the project, as in a
/// workspace. Returns `None` for installed packages.
fn resolve_linked_package(name: &str, folder: &Path) -> Option<PathBuf> {
    let mut candidates =
        folder.ancestors().map(|ancestor| ancestor.join("node_modules").join(name));
    let target = fs::canonicalize(candidates.find(|candidate| candidate.exists())?).ok()?;
    let is_installed = target.components().any(|part| part.as_os_str() == "node_modules");
    (!is_installed).then_some(target)
}

/// Environment variable with the file of a log.
const LOG_VARIABLE: &str = "SPEEDWELL_MODULES";

/// A log of loaded modules; deleted when dropped.
pub struct ModuleLog {
    scratch: ScratchFolder,
    scripts: PathBuf,
    checkout: PathBuf,
}

impl ModuleLog {
    /// Creates a log of the modules loaded from the checkout that `worktree` belongs to.
    ///
    /// # Errors
    /// Fails if the checkout does not exist, or if the cache folder or the folder for temporary
    /// files cannot be written.
    pub fn new(worktree: &VariantWorktree) -> Result<ModuleLog> {
        let scripts = MODULES.folder().map_err(|cause| anyhow::anyhow!("{cause}"))?;
        Ok(ModuleLog {
            scratch: ScratchFolder::new()?,
            scripts,
            checkout: fs::canonicalize(&worktree.checkout)?,
        })
    }

    /// Returns a copy of the variant, with environment variables that make its processes record
    /// loaded modules.
    pub fn observed(&self, variant: &Variant) -> Variant {
        let mut observed = variant.clone();
        let node_script = self.scripts.join("node.cjs");
        let script = node_script.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\"");
        let python = self.scripts.join("python");
        let existing = |name: &str| {
            let entry = variant.environment.iter().rfind(|(variable, _)| variable == name);
            entry
                .map(|(_, value)| value.clone())
                .or_else(|| std::env::var(name).ok())
                .filter(|value| !value.is_empty())
        };
        let options = existing("NODE_OPTIONS").map_or(String::new(), |value| format!("{value} "));
        let folders = existing("PYTHONPATH").map_or(String::new(), |value| format!(":{value}"));
        let path = |path: PathBuf| path.to_string_lossy().into_owned();
        observed.environment.extend([
            ("NODE_OPTIONS".to_owned(), format!("{options}--require \"{script}\"")),
            ("PYTHONPATH".to_owned(), path(python) + &folders),
            ("SPEEDWELL_CHECKOUT".to_owned(), path(self.checkout.clone())),
            (LOG_VARIABLE.to_owned(), path(self.file())),
        ]);
        observed
    }

    /// Whether the variant's processes record loaded modules.
    pub fn observes(variant: &Variant) -> bool {
        variant.environment.iter().any(|(name, _)| name == LOG_VARIABLE)
    }

    /// Returns the files recorded so far.
    pub fn files(&self) -> Vec<PathBuf> {
        let text = fs::read(self.file()).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        text.lines().map(PathBuf::from).collect()
    }

    fn file(&self) -> PathBuf {
        self.scratch.path("modules")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn test_job(kind: SourceKind, folder: &Path, name: &str) -> BenchmarkJob {
        BenchmarkJob::new(BenchmarkSource::new(kind, &folder.join(name), folder, folder), name)
    }

    /// Names of the files in `folder` that determine a run.
    fn code_file_names(folder: &Path, job: &BenchmarkJob, variant: &Variant) -> Vec<String> {
        let files = code_files(job, variant, Path::new("/bin/sh"));
        let inside = files.iter().filter_map(|file| file.strip_prefix(folder).ok());
        inside.map(|file| file.to_string_lossy().into_owned()).collect()
    }

    fn create_project(files: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for (name, text) in files {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        (folder, root)
    }

    #[test]
    fn javascript_modules_are_found_however_they_are_loaded() {
        let (_folder, root) = create_project(&[
            (
                "g/x.js",
                "const a = require('./a'); import('../lib/lazy.mjs');\nrequire('fs'); require('linked')",
            ),
            ("g/a.js", "export { b } from '../lib';\nconst d = require(\"./data.json\")"),
            ("g/data.json", "{}"),
            ("g/unused.js", ""),
            ("lib/index.js", "import './side.js'"),
            ("lib/side.js", "import x from './missing.js'"),
            ("lib/lazy.mjs", ""),
            ("packages/linked/package.json", "{\"main\": \"main.js\"}"),
            ("packages/linked/main.js", ""),
            ("node_modules/.keep", ""),
        ]);
        std::os::unix::fs::symlink("../packages/linked", root.join("node_modules/linked")).unwrap();
        let found = code_file_names(
            &root,
            &test_job(SourceKind::Node, &root, "g/x.js"),
            &Variant::plain("a"),
        );
        let expected = [
            "g/a.js",
            "g/data.json",
            "g/x.js",
            "lib/index.js",
            "lib/lazy.mjs",
            "lib/side.js",
            "packages/linked/main.js",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn python_modules_are_found_through_packages_and_relative_imports() {
        let (_folder, root) = create_project(&[
            (
                "g/x.py",
                "import os, helper as h\nfrom pkg import inner, other\nfrom elsewhere import y\n",
            ),
            ("g/helper.py", "  import pkg.deep\n"),
            ("pkg/__init__.py", "from . import sibling\n"),
            ("pkg/inner.py", "from .sibling import (a,\n b)\n"),
            ("pkg/sibling.py", ""),
            ("pkg/deep.py", "from .. import nothing\n"),
            ("pkg/unused.py", ""),
            ("more/elsewhere.py", ""),
        ]);
        let mut variant = Variant::plain("a");
        variant.environment.push(("PYTHONPATH".into(), "more".into()));
        let found =
            code_file_names(&root, &test_job(SourceKind::Python, &root, "g/x.py"), &variant);
        let expected = [
            "g/helper.py",
            "g/x.py",
            "more/elsewhere.py",
            "pkg/__init__.py",
            "pkg/deep.py",
            "pkg/inner.py",
            "pkg/sibling.py",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn the_program_and_scripts_of_a_variant_are_code_files() {
        let (_folder, root) =
            create_project(&[("x.js", ""), ("hook.cjs", ""), ("bin", ""), ("out.txt", "")]);
        let mut variant = Variant::plain("a");
        variant.arguments = vec!["--require".into(), "./hook.cjs".into(), "out.txt".into()];
        let found = code_file_names(&root, &test_job(SourceKind::Node, &root, "x.js"), &variant);
        assert_eq!(found, ["hook.cjs", "x.js"]);
        let with_program =
            code_files(&test_job(SourceKind::Node, &root, "x.js"), &variant, Path::new("sh"));
        let shell = fs::canonicalize(resolve_program(Path::new("sh")).unwrap()).unwrap();
        assert!(with_program.contains(&shell), "a name is looked up in PATH: {with_program:?}");
        std::os::unix::fs::symlink("x.js", root.join("link.js")).unwrap();
        let found = code_file_names(
            &root,
            &test_job(SourceKind::Node, &root, "link.js"),
            &Variant::plain("a"),
        );
        assert_eq!(found, ["link.js", "x.js"], "the link may lead to another file one day");
    }

    /// Number of bytes that this thread has read; `None` if the kernel does not count them.
    fn bytes_read() -> Option<u64> {
        let counters = fs::read_to_string("/proc/thread-self/io").ok()?;
        counters.lines().find_map(|line| line.strip_prefix("rchar: "))?.parse().ok()
    }

    #[test]
    fn the_content_of_a_program_is_not_read() {
        let (_folder, root) = create_project(&[("x.js", "")]);
        let program = root.join("program");
        let size = 16 << 20;
        let file = fs::File::create(&program).unwrap();
        file.set_len(size).unwrap();
        file.set_permissions(PermissionsExt::from_mode(0o755)).unwrap();
        let before = bytes_read();
        let job = test_job(SourceKind::Node, &root, "x.js");
        let found = code_files(&job, &Variant::plain("a"), &program);
        let read = before.zip(bytes_read()).map(|(before, after)| after - before);
        assert!(found.contains(&program), "{found:?}");
        assert!(read.is_none_or(|bytes| bytes < size), "{read:?} bytes were read");
    }
}

#[cfg(test)]
mod module_log_tests {
    use super::*;
    use std::process::Command;

    /// Returns the files that `program` loads from a checkout when it executes `script`, which
    /// loads the module `k`.
    fn loaded_files(
        program: &str,
        files: &[(&str, &str)],
        script: &str,
        variables: &[(&str, &str)],
    ) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for (name, text) in files {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text.replace("ROOT", &root.to_string_lossy())).unwrap();
        }
        let worktree = VariantWorktree {
            revision: "0".repeat(40),
            typed: "main".to_owned(),
            checkout: root.join("checkout"),
            folder: root.join("worktree"),
            build: None,
            changes: None,
            commits: None,
        };
        let mut variant = Variant::plain("a");
        for (name, value) in variables {
            let value = value.replace("ROOT", &root.to_string_lossy());
            variant.environment.push(((*name).to_owned(), value));
        }
        let log = ModuleLog::new(&worktree).unwrap();
        let observed = log.observed(&variant);
        let output = Command::new(program)
            .arg(root.join(script))
            .envs(observed.environment)
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        let relative = |path: PathBuf| path.strip_prefix(&root).map(Path::to_owned).unwrap_or(path);
        let mut names: Vec<String> = (log.files().into_iter())
            .map(|path| relative(path).to_string_lossy().into_owned())
            .collect();
        names.sort();
        names.dedup();
        names
    }

    fn is_missing(program: &str) -> bool {
        let is_missing = Command::new(program).arg("--version").output().is_err();
        if is_missing {
            eprintln!("skipped: {program} is not installed");
        }
        is_missing
    }

    #[test]
    fn modules_of_python_are_noted_even_if_they_are_compiled_or_loaded_late() {
        if is_missing("python3") {
            return;
        }
        // The script loads `k` late, then starts a child process that finds the module compiled. It
        // also checks that the user's own `sitecustomize` is still executed.
        let script = "import sys, subprocess, sitecustomize\n\
            assert sitecustomize.NAME == 'mine', sitecustomize\n\
            def late():\n    import importlib\n    return importlib.import_module('k' + '')\n\
            late()\n\
            if len(sys.argv) == 1:\n    subprocess.check_call([sys.executable, __file__, 'child'])\n";
        let files = [
            ("worktree/x.py", script),
            ("checkout/src/k.py", "import deep.inner\n"),
            ("checkout/src/deep/__init__.py", ""),
            ("checkout/src/deep/inner.py", "open('ROOT/checkout/data.txt').close()\n"),
            ("checkout/src/unused.py", ""),
            ("checkout/data.txt", ""),
            ("site/sitecustomize.py", "NAME = 'mine'\n"),
        ];
        let path = [("PYTHONPATH", "ROOT/site:ROOT/checkout/src")];
        let found = loaded_files("python3", &files, "worktree/x.py", &path);
        let expected =
            ["checkout/src/deep/__init__.py", "checkout/src/deep/inner.py", "checkout/src/k.py"];
        assert_eq!(found, expected);
    }

    #[test]
    fn modules_of_node_are_noted_even_if_they_are_only_read() {
        if is_missing("node") {
            return;
        }
        let script = "const fs = require('fs');\n\
            const load = (name) => require('ROOT/checkout/' + name);\n\
            load('k'); load('data.json');\n\
            fs.promises.readFile('ROOT/checkout/read.ts').then(() => fs.readFileSync('ROOT/checkout/notes.txt'));\n\
            new (require('worker_threads').Worker)(\"require('ROOT/checkout/in_worker')\", { eval: true });\n";
        let files = [
            ("worktree/x.js", script),
            ("checkout/k.js", "require('./deep')"),
            ("checkout/deep/index.js", ""),
            ("checkout/data.json", "{}"),
            ("checkout/read.ts", ""),
            ("checkout/in_worker.js", ""),
            ("checkout/notes.txt", ""),
            ("checkout/unused.js", ""),
        ];
        let found =
            loaded_files("node", &files, "worktree/x.js", &[("NODE_OPTIONS", "--no-warnings")]);
        let expected = [
            "checkout/data.json",
            "checkout/deep/index.js",
            "checkout/in_worker.js",
            "checkout/k.js",
            "checkout/read.ts",
        ];
        assert_eq!(found, expected);
    }
}
