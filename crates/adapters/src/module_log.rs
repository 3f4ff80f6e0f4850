//! Records the modules that Python and Node.js processes load from the user's checkout.
//!
//! Environment variables make the interpreter execute one of our two scripts before the program
//! itself, and that script records the files. This works for any process, but is never done in
//! measured runs. Start at [`ModuleLog::new`].

use crate::sources::MODULES;
use anyhow::Result;
use speedwell_machine::process::ScratchFolder;
use speedwell_model::{Variant, VariantWorktree};
use std::fs;
use std::path::PathBuf;

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
        let script = self
            .scripts
            .join("node.cjs")
            .to_string_lossy()
            .replace('\\', "\\\\")
            .replace('"', "\\\"");
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
            ("SPEEDWELL_MODULES".to_owned(), path(self.file())),
        ]);
        observed
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
    use std::path::Path;
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
