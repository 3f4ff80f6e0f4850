//! Each floor imports only the floors below it. The order is that of docs/why/architecture.md.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Module and floor; a module may import modules of lower floors only.
const FLOORS: [(&str, u32); 17] = [
    ("model", 0),
    ("definition", 1),
    ("foreign", 1),
    ("process", 1),
    ("harness", 2),
    ("define", 3),
    ("plan", 3),
    ("runner", 5),
    ("store", 4),
    ("exchange", 4),
    ("environment", 2),
    ("analysis", 5),
    ("measure", 6),
    ("report", 6),
    ("compat", 7),
    ("cli", 8),
    ("main", 9),
];

/// Leaf crates, and the modules that may use each.
const LEAVES: [(&str, &[&str]); 3] = [
    ("speedwell_stats", &["analysis"]),
    ("speedwell_plot", &["report"]),
    (
        "speedwell_load",
        &[
            "model", "runner", "exchange", "analysis", "report", "measure", "compat", "cli",
        ],
    ),
];

fn floor(module: &str) -> Option<u32> {
    FLOORS
        .iter()
        .find(|(known, _)| *known == module)
        .map(|(_, floor)| *floor)
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(rust_files(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
    found
}

/// The code of a file: no comments, no tests below it.
fn code(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap();
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    code.lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n")
}

/// Top-level modules named after `crate::`, also inside braces.
fn imports(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        let words: Vec<&str> = match rest.strip_prefix('{') {
            Some(list) => list
                .split('}')
                .next()
                .unwrap_or_default()
                .split(',')
                .collect(),
            None => vec![rest],
        };
        for word in words {
            let name: String = word
                .trim()
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            found.insert(name);
        }
    }
    found
}

fn modules() -> Vec<(String, PathBuf)> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = rust_files(&src);
    files
        .into_iter()
        .filter_map(|file| {
            let inside = file.strip_prefix(&src).unwrap().to_owned();
            let first = inside
                .components()
                .next()?
                .as_os_str()
                .to_string_lossy()
                .into_owned();
            let module = first.trim_end_matches(".rs").to_owned();
            (module != "lib").then_some((module, file))
        })
        .collect()
}

#[test]
fn a_module_imports_only_lower_floors() {
    let mut wrong = Vec::new();
    for (module, file) in modules() {
        let own = floor(&module).unwrap_or_else(|| panic!("'{module}' has no floor"));
        for import in imports(&code(&file)) {
            let Some(other) = floor(&import).filter(|_| import != module) else {
                continue;
            };
            if other >= own {
                wrong.push(format!("{}: {module} imports {import}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn leaf_crates_are_used_only_by_their_users() {
    for (module, file) in modules() {
        let code = code(&file);
        for (leaf, users) in LEAVES {
            assert!(
                !code.contains(leaf) || users.contains(&module.as_str()),
                "{} uses {leaf}, which is for {users:?}",
                file.display()
            );
        }
    }
}

#[test]
fn every_module_says_what_it_decides() {
    for (_, file) in modules() {
        let text = fs::read_to_string(&file).unwrap();
        assert!(
            text.starts_with("//!"),
            "{} has no module header",
            file.display()
        );
    }
}

#[test]
fn the_check_sees_imports_in_every_form() {
    let code = "use crate::{model::Case, store};\nlet x = crate::cli::main();";
    let found: Vec<String> = imports(code).into_iter().collect();
    assert_eq!(found, ["cli", "model", "store"]);
}
