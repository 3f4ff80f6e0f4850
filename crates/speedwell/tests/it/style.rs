//! Help texts, messages and pages use the terms of the field (CONTRIBUTING.md, "Messages").

use super::project::repository;
use std::path::{Path, PathBuf};

/// Phrases, in lower case, that a native speaker of the field stumbles over, each with a better one.
const AVOIDED: [&str; 22] = [
    "what became of",      // the outcome of
    "requests under way",  // requests in flight
    "is told",             // is reported, is shown
    "are told",            // are reported, are shown
    "was asked for",       // as requested
    "were asked for",      // as requested
    "cannot be told",      // is (statistically) indistinguishable from
    "may spoil",           // distorts the figures; a source of noise
    "go on with",          // resume a session
    " codes ",             // snippets
    "not answered well",   // that fails
    "kept apart",          // excluded from the results
    "none of ours",        // not a Speedwell file
    "false finds",         // controls the false discovery rate
    "files to begin with", // starter files
    " bears",              // how far it scales
    "bear no name",        // reports are unnamed
    "in mid-load",         // during the load
    "stood in for",        // a drop-in replacement for
    "put right",           // is fixed, is corrected
    "as far as it may",    // where it can
    "nothing fills",       // an unknown placeholder
];

/// Established terms that contain such a phrase: codes of errors, of statuses and of programs.
const TERMS: [&str; 4] = ["status codes", "error codes", "reset codes", "exit codes"];

/// The phrases found in a text.
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
        "see AVOIDED in tests/it/style.rs:\n{}",
        wrong.join("\n")
    );
}

/// Files below a folder with this extension.
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

/// The string literals of Rust code, with white space collapsed, so that a text continued on the
/// next line reads as the user sees it.
fn literals(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(at) = rest.find(['"', '\'', '/']) {
        let (before, from) = rest.split_at(at);
        rest = if from.starts_with("//") {
            &from[from.find('\n').unwrap_or(from.len())..]
        } else if let Some(opened) = from.strip_prefix('"') {
            let (text, after) = literal(before, opened);
            let text = text.replace("\\n", " ").replace("\\\n", " ");
            found.push(text.split_whitespace().collect::<Vec<_>>().join(" "));
            after
        } else if from.starts_with("'\"'") || from.starts_with("'\\\"'") {
            &from[from[1..].find('\'').unwrap() + 2..]
        } else {
            &from[1..]
        };
    }
    found
}

/// A literal after its opening quote, and the rest; `before` shows whether it is a raw one.
fn literal<'a>(before: &str, text: &'a str) -> (&'a str, &'a str) {
    let name = before.trim_end_matches('#');
    let end = if name.ends_with('r') {
        text.find(&format!("\"{}", "#".repeat(before.len() - name.len())))
    } else {
        let backslashes = |at: usize| at - text[..at].trim_end_matches('\\').len();
        let mut quotes = text.match_indices('"').map(|(at, _)| at);
        quotes.find(|at| backslashes(*at) % 2 == 0)
    };
    let end = end.unwrap_or(text.len());
    (&text[..end], text.get(end + 1..).unwrap_or_default())
}

#[test]
fn texts_that_are_continued_on_the_next_line_are_seen_whole() {
    let code = r##"
        // "not this"
        let (quote, other) = ('"', '\"');
        say("the reports bear no names, and cannot \
             be told \"apart\"", r#"a "raw" one"#, 'a');
    "##;
    let expected = [
        r#"the reports bear no names, and cannot be told \"apart\""#,
        r#"a "raw" one"#,
    ];
    assert_eq!(literals(code), expected);
    assert_eq!(
        found(&literals(code).join("\n")),
        ["cannot be told", "bear no name"]
    );
}

#[test]
fn help_texts_use_the_terms_of_the_field() {
    let mut grammar = speedwell::build_grammar();
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
        (path.display().to_string(), literals(product).join("\n"))
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

/// Whether the documentation of a file's items has an example that could be executed.
fn has_example(text: &str) -> bool {
    let fences = text.lines().filter_map(|line| {
        let comment = line.trim_start();
        let comment = comment
            .strip_prefix("///")
            .or(comment.strip_prefix("//!"))?;
        comment.trim_start().strip_prefix("```")
    });
    let mut opened = fences.step_by(2);
    opened.any(|language| ["", "no_run", "should_panic", "rust"].contains(&language))
}

/// Searching for doc tests takes a second for each crate, even without any.
#[test]
fn examples_are_executed_where_there_are_any() {
    for entry in std::fs::read_dir(repository().join("crates")).unwrap() {
        let folder = entry.unwrap().path();
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let sources = files(&folder.join("src"), ".rs");
        let example = sources
            .iter()
            .any(|path| has_example(&std::fs::read_to_string(path).unwrap()));
        assert_eq!(
            example,
            !manifest.contains("doctest = false"),
            "{}: 'doctest = false' is for crates without examples in the documentation of their items",
            folder.display()
        );
    }
}

/// A field that is skipped when empty must be optional when read; otherwise the output could not be
/// read back.
#[test]
fn what_may_be_left_out_of_a_file_may_be_missing_in_it() {
    let sources = files(&repository().join("crates"), ".rs");
    let mut wrong = Vec::new();
    for path in sources {
        let code = std::fs::read_to_string(&path).unwrap();
        let is_read = code.contains("Deserialize");
        for attribute in code.split("#[serde(").skip(1).filter(|_| is_read) {
            let attribute = attribute.split(")]").next().unwrap_or_default();
            if attribute.contains("skip_serializing_if") && !attribute.contains("default") {
                wrong.push(format!("{}: {attribute}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "without 'default': {wrong:#?}");
}
