//! Files stay under 400 lines of code and functions under 60: small pieces are read, long ones are
//! scrolled.

use std::fs;
use std::path::{Path, PathBuf};

const LINES_OF_A_FILE: usize = 400;
const LINES_OF_A_FUNCTION: usize = 60;

fn files() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    for part in ["crates", "harness", "scripts", "examples"] {
        collect(&root.join(part), &mut found);
    }
    assert!(
        found.len() > 50,
        "the check found hardly any files: {found:?}"
    );
    found
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() && !["target", "node_modules", "golden", "assets"].contains(&&*name) {
            collect(&path, found);
        }
        let code = ["rs", "js", "cjs", "mjs", "py"];
        if path
            .extension()
            .is_some_and(|e| code.iter().any(|known| e == *known))
        {
            found.push(path);
        }
    }
}

fn is_code(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with("//") && !line.starts_with('*') && !line.starts_with('#')
}

#[test]
fn no_file_is_too_long() {
    for file in files() {
        let text = fs::read_to_string(&file).unwrap();
        // Unit tests below the code do not count: they are read on their own.
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let lines = code.lines().filter(|line| is_code(line)).count();
        assert!(
            lines <= LINES_OF_A_FILE,
            "{}: {lines} lines of code",
            file.display()
        );
    }
}

#[test]
fn no_function_is_too_long() {
    for file in files()
        .iter()
        .filter(|file| file.extension().is_some_and(|e| e == "rs"))
    {
        for (name, lines) in functions(&fs::read_to_string(file).unwrap()) {
            assert!(
                lines <= LINES_OF_A_FUNCTION,
                "{}: {name} has {lines} lines",
                file.display()
            );
        }
    }
}

/// Functions of a formatted Rust file with their lengths: from `fn` to the brace at its indent.
fn functions(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(place) = words.iter().position(|word| *word == "fn") else {
            continue;
        };
        let modifiers = [
            "pub",
            "pub(super)",
            "pub(crate)",
            "const",
            "unsafe",
            "extern",
            "async",
            "\"C\"",
        ];
        if line.trim_end().ends_with(';') {
            continue;
        }
        if !words[..place].iter().all(|word| modifiers.contains(word)) {
            continue;
        }
        let end = format!("{}}}", " ".repeat(indent));
        let length = lines[at..]
            .iter()
            .position(|line| *line == end)
            .unwrap_or(0);
        found.push((words.get(place + 1).unwrap_or(&"?").to_string(), length));
    }
    found
}

#[test]
fn the_check_measures_functions() {
    let text = "impl A {\n    pub fn b() {\n        c();\n    }\n}\nfn d() {}\n";
    assert_eq!(
        functions(text),
        [("b()".to_owned(), 2), ("d()".to_owned(), 0)]
    );
}
