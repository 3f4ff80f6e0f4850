//! Comments, messages and documents are plain English (CONTRIBUTING.md, "Messages"); conventions
//! of source files.

use super::project::{expect_golden, repository};
use regex::Regex;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Patterns of text that a native speaker of the field would write otherwise, for instance "what
/// came of a run", "is told", "is no number". Some of it is good English in its place: what is
/// limited is how often it occurs.
const STUMBLES: &[&str] = &[
    r"\b(is|are|was|were|be|been) (said|told|asked|meant|had|looked (at|for))\b",
    r"\b(said|told|asked) (of|by|for)\b",
    r"\b(whoever|nobody|somebody|meanwhile|in vain|of which|beside)\b",
    r"\bwhat (came|becomes|became|is|are|was|were|has|have|it|they|he|that|this|somebody)\b",
    r"\b(stands?|lies?|lives?) (in|beside|below|behind|at|there|once)\b",
    r"\bso many\b",
    r"\b(is|are) no [a-z]+",
    r"\bgo(es|ing)? on\b",
    r"\bthose (that|who|of)\b",
    r"\bthat of the\b",
    r"\b(tells|told) (apart|how|what|which)\b",
    r"\b(he|his|house|floors?)\b",
    r"\bas it stands\b",
];

/// "There is no file" is plain English, unlike "that is no file".
const PLAIN: &[&str] = &["there is no ", "there are no "];

/// Maximum share of the pieces of text of a kind that may match one of [`STUMBLES`].
const MAX_STUMBLES: f64 = 0.01;

fn stumbles() -> Regex {
    Regex::new(&format!("(?i){}", STUMBLES.join("|"))).unwrap()
}

fn is_stumble(stumbles: &Regex, text: &str) -> bool {
    let mut plain = text.to_lowercase();
    for phrase in PLAIN {
        plain = plain.replace(phrase, "");
    }
    stumbles.is_match(&plain)
}

/// Asserts that few of these pieces of text, each with its place, match; the rate and the matching
/// pieces are printed.
#[track_caller]
fn assert_plain(kind: &str, pieces: impl Iterator<Item = (String, String)>) {
    let stumbles = stumbles();
    let (mut count, mut found) = (0_usize, Vec::new());
    for (place, text) in pieces {
        count += 1;
        if is_stumble(&stumbles, &text) {
            found.push(format!("{place}: {text}"));
        }
    }
    let rate = found.len() as f64 / count.max(1) as f64;
    println!("{kind}: {} of {count}, {:.2} %", found.len(), 100.0 * rate);
    assert!(count > 100, "only {count} {kind} were read");
    assert!(
        rate <= MAX_STUMBLES,
        "{kind}: {} of {count} would be written otherwise (CONTRIBUTING.md, \"Messages\"):\n{}",
        found.len(),
        found.join("\n")
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

/// Source files of the product, without tests.
fn product_sources() -> Vec<PathBuf> {
    let mut sources = files(&repository().join("crates"), ".rs");
    sources.retain(|path| {
        let path = path.to_string_lossy();
        path.contains("/src/") && !path.contains("/tests/") && !path.ends_with("tests.rs")
    });
    sources
}

/// Text of a source file without its tests. A module of tests in a file of its own, which is only
/// declared here, ends nothing.
fn product_text(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    let inline_tests = Regex::new(r"#\[cfg\(test\)\]\nmod \w+ \{").unwrap();
    let end = inline_tests.find(&text).map_or(text.len(), |found| found.start());
    text[..end].to_owned()
}

/// Place of something in the repository.
fn place_of(path: &Path, line: usize) -> String {
    let inside = path.strip_prefix(repository()).unwrap_or(path);
    format!("{}:{line}", inside.display())
}

#[test]
fn string_literals_continued_on_the_next_line_are_read_whole() {
    let code = r##"
        // "not this"
        let (quote, other) = ('"', '\"');
        say("the reports bear no names, and cannot \
             be told \"apart\"", r#"a "raw" one"#, 'a');
    "##;
    let expected = [r#"the reports bear no names, and cannot be told \"apart\""#, r#"a "raw" one"#];
    assert_eq!(literals(code), expected);
}

#[test]
fn awkward_phrases_are_distinguished_from_plain_english() {
    let stumbles = stumbles();
    let found = |text| is_stumble(&stumbles, text);
    assert!(found("'5x' is no duration") && found("What came of the runs"));
    assert!(!found("There is no file 'a.js'") && !found("'5x' is not a duration"));
}

#[test]
fn comments_are_plain() {
    let mut lines = Vec::new();
    for path in product_sources() {
        for (index, line) in product_text(&path).lines().enumerate() {
            if line.trim_start().starts_with("//") {
                lines.push((place_of(&path, index + 1), line.trim().to_owned()));
            }
        }
    }
    assert_plain("lines of comments", lines.into_iter());
}

#[test]
fn messages_are_plain() {
    let has_words = |text: &String| text.split_whitespace().count() >= 3;
    let texts = product_sources().into_iter().flat_map(|path| {
        let texts = literals(&product_text(&path)).into_iter();
        texts.filter(has_words).map(|text| (path.display().to_string(), text)).collect::<Vec<_>>()
    });
    assert_plain("literals", texts);
}

/// Messages of each crate, file by file, so that they can be read side by side.
#[test]
fn messages_of_each_crate_are_listed() {
    // Statements of SQL and pieces of markup are no messages.
    let other =
        Regex::new(r"^(SELECT|INSERT|UPDATE|DELETE|CREATE|WITH|ALTER|FROM|WHERE)\b|<[a-z/]")
            .unwrap();
    let word = Regex::new(r"[A-Za-z']{2,}").unwrap();
    let mut crates: BTreeMap<String, String> = BTreeMap::new();
    let mut sources = product_sources();
    sources.sort();
    for path in sources {
        let messages: Vec<String> = literals(&product_text(&path))
            .into_iter()
            .filter(|text| {
                text.split_whitespace().count() >= 3
                    && word.find_iter(text).count() >= 3
                    && !other.is_match(text)
            })
            .collect();
        let inside = path.strip_prefix(repository().join("crates")).unwrap();
        let (name, file) = inside.to_str().unwrap().split_once("/src/").unwrap();
        if !messages.is_empty() {
            let listed = crates.entry(name.to_owned()).or_default();
            *listed += &format!("{file}\n  {}\n", messages.join("\n  "));
        }
    }
    assert!(crates.len() > 10, "{:?}", crates.keys());
    for (name, messages) in crates {
        expect_golden(&format!("messages/{name}.txt"), &messages);
    }
}

/// Lines of all documents outside of code, with their places.
fn document_lines() -> Vec<(String, String)> {
    let mut pages = files(&repository().join("docs"), ".md");
    pages.extend(["README.md", "CONTRIBUTING.md"].map(|name| repository().join(name)));
    let mut lines = Vec::new();
    for path in pages {
        let mut is_code = false;
        for (index, line) in std::fs::read_to_string(&path).unwrap().lines().enumerate() {
            if line.starts_with("```") {
                is_code = !is_code;
            } else if !is_code && !line.trim().is_empty() {
                lines.push((place_of(&path, index + 1), line.to_owned()));
            }
        }
    }
    lines
}

#[test]
fn documents_are_plain() {
    assert_plain("lines of documents", document_lines().into_iter());
}

/// The part of a row that continues on the next line would be shown as text after the table.
#[test]
fn every_row_of_a_table_is_one_line() {
    let is_row = |line: &str| line.starts_with('|') || line.contains(" | ");
    let is_broken = |line: &str| is_row(line) && line.starts_with('|') != line.ends_with('|');
    let broken: Vec<_> = document_lines().into_iter().filter(|(_, line)| is_broken(line)).collect();
    assert!(broken.is_empty(), "{broken:#?}");
}

/// In "Five ways through the code", `crate/{a,b}` stands for two files.
#[test]
fn the_ways_through_the_code_name_files_that_exist() {
    let page = std::fs::read_to_string(repository().join("docs/why/architecture.md")).unwrap();
    let (_, section) = page.split_once("## Five ways through the code\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let mut paths = Vec::new();
    for name in section.split('`').skip(1).step_by(2) {
        let (folder, files) = name.split_once('{').unwrap_or((name, ""));
        paths.extend(files.trim_end_matches('}').split(',').map(|file| format!("{folder}{file}")));
    }
    assert!(paths.len() > 50, "{paths:#?}");
    paths.retain(|path| {
        let (crate_name, file) = path.split_once('/').unwrap();
        !repository().join(format!("crates/{crate_name}/src/{file}.rs")).is_file()
    });
    assert!(paths.is_empty(), "missing: {paths:#?}");
}

#[test]
fn every_source_file_starts_with_a_header_comment() {
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
        let comment = comment.strip_prefix("///").or(comment.strip_prefix("//!"))?;
        comment.trim_start().strip_prefix("```")
    });
    let mut opened = fences.step_by(2);
    opened.any(|language| ["", "no_run", "should_panic", "rust"].contains(&language))
}

/// Searching for doc tests takes a second for each crate, even without any.
#[test]
fn doctests_are_enabled_only_in_crates_with_examples() {
    for entry in std::fs::read_dir(repository().join("crates")).unwrap() {
        let folder = entry.unwrap().path();
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let sources = files(&folder.join("src"), ".rs");
        let example =
            sources.iter().any(|path| has_example(&std::fs::read_to_string(path).unwrap()));
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
fn serialized_fields_that_may_be_skipped_have_a_default() {
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
