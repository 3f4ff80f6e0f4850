//! Help texts, messages and pages use the terms of the field: the table of CONTRIBUTING.md, "Messages", has the phrases
//! that they avoid, and what to write instead.

use super::project::repository;
use std::path::{Path, PathBuf};

/// Phrases, in lower case, that a native speaker of the field stumbles over.
const AVOIDED: [&str; 16] = [
    "what became of",
    "requests under way",
    "is told",
    "are told",
    "was asked for",
    "were asked for",
    "cannot be told",
    "may spoil",
    "go on with",
    " codes ",
    "not answered well",
    "kept apart",
    "none of ours",
    "false finds",
    "files to begin with",
    " bears",
];

/// What is measured against: codes of errors, of statuses and of programs are called so everywhere.
const TERMS: [&str; 4] = ["status codes", "error codes", "reset codes", "exit codes"];

/// The phrases that this text has.
fn found(text: &str) -> Vec<&'static str> {
    let mut plain = text.to_lowercase();
    for term in TERMS {
        plain = plain.replace(term, "");
    }
    let has = |phrase: &&str| plain.contains(*phrase);
    AVOIDED.into_iter().filter(has).collect()
}

#[track_caller]
fn assert_plain(texts: impl Iterator<Item = (String, String)>) {
    let mut seen = 0;
    let mut wrong = Vec::new();
    for (place, text) in texts {
        seen += 1;
        wrong.extend(
            found(&text)
                .iter()
                .map(|phrase| format!("{place}: '{phrase}'")),
        );
    }
    assert!(seen > 10, "only {seen} texts were seen");
    assert!(
        wrong.is_empty(),
        "see CONTRIBUTING.md, \"Messages\":\n{}",
        wrong.join("\n")
    );
}

/// Files below a folder whose name ends like this.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(files(&path, ending));
        } else if path.to_string_lossy().ends_with(ending) {
            all.push(path);
        }
    }
    all
}

/// The string literals of a line of Rust, as far as a line shows them; a comment has none.
fn literals(line: &str) -> Vec<&str> {
    if line.trim_start().starts_with("//") {
        return Vec::new();
    }
    line.split('"').skip(1).step_by(2).collect()
}

#[test]
fn help_texts_use_the_terms_of_the_field() {
    let mut grammar = speedwell::grammar();
    grammar.build();
    let texts: Vec<(String, String)> = grammar
        .get_subcommands_mut()
        .map(|command| {
            let help = command.render_long_help().to_string();
            // Wrapping must not hide a phrase.
            let words: Vec<&str> = help.split_whitespace().collect();
            (command.get_name().to_owned(), words.join(" "))
        })
        .collect();
    assert_plain(texts.into_iter());
}

#[test]
fn pages_use_the_terms_of_the_field() {
    let mut pages = files(&repository().join("docs"), ".md");
    pages.push(repository().join("README.md"));
    let text = |page: PathBuf| {
        let text = std::fs::read_to_string(&page).unwrap();
        let words: Vec<&str> = text.split_whitespace().collect();
        (page.display().to_string(), words.join(" "))
    };
    assert_plain(pages.into_iter().map(text));
}

#[test]
fn messages_use_the_terms_of_the_field() {
    let sources = files(&repository().join("crates"), ".rs");
    let product = sources.into_iter().filter(|path| {
        let path = path.to_string_lossy();
        path.contains("/src/") && !path.contains("test")
    });
    let texts = product.map(|path| {
        let text = std::fs::read_to_string(&path).unwrap();
        let product = text.split("#[cfg(test)]").next().unwrap_or_default();
        let said: Vec<&str> = product.lines().flat_map(literals).collect();
        (path.display().to_string(), said.join("\n"))
    });
    assert_plain(texts);
}

#[test]
fn every_file_says_what_it_decides() {
    let sources = files(&repository().join("crates"), ".rs");
    let bare: Vec<PathBuf> = sources
        .into_iter()
        .filter(|path| path.to_string_lossy().contains("/src/"))
        .filter(|path| !std::fs::read_to_string(path).unwrap().starts_with("//!"))
        .collect();
    assert!(bare.is_empty(), "no header (//!): {bare:?}");
}
