//! Collects the declarations in the test and benchmark sources of one package or file, and finds
//! out which of them one benchmark uses.
//!
//! Names alone decide which declarations are used. An ambiguous name counts as a use of every
//! declaration with that name, so that no used declaration is missed. Start at
//! [`SourcePool::fingerprint_benchmark`].

use super::source_items::{SourceItem, split_items};
use crate::lexer::{SourceSyntax, SourceToken, TokenKind, tokenize};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// Maximum size of a data file that is read. A larger file contributes only its name, which is part
/// of the source code.
const MAX_DATA_BYTES: u64 = 64 << 20;

/// Declarations of several files.
#[derive(Debug, Default)]
pub struct SourcePool {
    items: Vec<(SourceItem, PathBuf)>,
    files: HashSet<PathBuf>,
    /// Folder to which a path in a string literal may be relative. Such a path may also be relative
    /// to the folder of its source file.
    folder: PathBuf,
}

impl SourcePool {
    pub fn new(folder: &Path) -> SourcePool {
        SourcePool { folder: folder.to_owned(), ..SourcePool::default() }
    }

    /// Adds a file and returns its tokens. Returns no tokens if the file was added before.
    pub fn add_file(&mut self, file: &Path) -> Vec<SourceToken> {
        let (Some(syntax), Ok(bytes)) = (SourceSyntax::from_file(file), fs::read(file)) else {
            return Vec::new();
        };
        if !self.files.insert(file.to_owned()) {
            return Vec::new();
        }
        let tokens = tokenize(&String::from_utf8_lossy(&bytes), syntax);
        let items = split_items(tokens.clone(), syntax).into_iter();
        self.items.extend(items.map(|item| (item, file.to_owned())));
        tokens
    }

    /// Fingerprints the source code of one benchmark. Its name is that of a function or class, or a
    /// literal passed to the framework; literals are tried first if `is_literal` is true. If no
    /// declaration fits the name, fingerprints all declarations, or returns `None` if `or_all` is
    /// false.
    pub fn fingerprint_benchmark(
        &self,
        name: &str,
        is_literal: bool,
        or_all: bool,
    ) -> Option<String> {
        let mut searches = [SourcePool::find_declared, SourcePool::find_by_literal];
        if is_literal {
            searches.reverse();
        }
        let mut found = searches.iter().map(|search| search(self, name));
        let all = || if or_all { (0..self.items.len()).collect() } else { Vec::new() };
        let roots = found.find(|roots| !roots.is_empty()).unwrap_or_else(all);
        (!roots.is_empty()).then(|| self.hash_items(self.used_items(roots)))
    }

    /// Finds the declarations whose name is a part of `name`. If several parts match, only the last
    /// of them is used.
    fn find_declared(&self, name: &str) -> Vec<usize> {
        let parts = name.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '$');
        let items_named = |part: &str| -> Vec<usize> {
            let declares_part = |item: &SourceItem| {
                !item.is_import && item.names.iter().any(|declared_name| declared_name == part)
            };
            self.find_items(declares_part)
        };
        let mut found = parts.rev().filter(|part| !part.is_empty()).map(items_named);
        found.find(|indexes| !indexes.is_empty()).unwrap_or_default()
    }

    /// Finds the declarations whose literals match the most parts of `name`.
    fn find_by_literal(&self, name: &str) -> Vec<usize> {
        let parts: Vec<&str> = name.split('/').collect();
        let score = |item: &SourceItem| {
            let literals: Vec<&str> =
                item.tokens.iter().filter_map(SourceToken::as_literal).collect();
            let is_named =
                |text: &str| literals.iter().any(|literal| literal_matches(literal, text));
            let matching_parts = parts.iter().filter(|part| is_named(part)).count();
            if is_named(name) { parts.len() + 1 } else { matching_parts }
        };
        let scores: Vec<usize> = self.items.iter().map(|(item, _)| score(item)).collect();
        let best = scores.iter().copied().max().unwrap_or(0);
        let is_best = |index: &usize| best > 0 && scores[*index] == best;
        (0..self.items.len()).filter(is_best).collect()
    }

    fn find_items(&self, wanted: impl Fn(&SourceItem) -> bool) -> Vec<usize> {
        let indexed = self.items.iter().enumerate();
        indexed.filter(|(_, (item, _))| wanted(item)).map(|(index, _)| index).collect()
    }

    /// Returns these declarations and all they use, directly or indirectly.
    fn used_items(&self, roots: Vec<usize>) -> BTreeSet<usize> {
        let mut by_name: HashMap<&str, Vec<usize>> = HashMap::new();
        for (index, (item, _)) in self.items.iter().enumerate() {
            for name in item.names.iter().chain(&item.belongs_to) {
                by_name.entry(name).or_default().push(index);
            }
        }
        let mut used = BTreeSet::new();
        let mut pending = roots;
        pending.extend(self.find_items(|item| item.is_always));
        loop {
            while let Some(index) = pending.pop() {
                let (item, file) = &self.items[index];
                if !used.insert(index) || item.is_import {
                    continue;
                }
                let words = item.words().flat_map(|word| by_name.get(word).into_iter().flatten());
                let is_visible = |index: &&usize| {
                    !self.items[**index].0.is_import || self.items[**index].1 == *file
                };
                pending.extend(words.filter(is_visible));
            }
            pending.extend(self.statements_about(&used));
            if pending.is_empty() {
                return used;
            }
        }
    }

    /// Finds Python statements that refer to a used name without declaring a name, such as
    /// `DATA.sort()`. Leaves out the entry point of a script.
    fn statements_about(&self, used: &BTreeSet<usize>) -> Vec<usize> {
        let items = used.iter().map(|index| &self.items[*index].0);
        let names: HashSet<&str> = items
            .filter(|item| !item.is_import)
            .flat_map(|item| item.names.iter().map(String::as_str))
            .collect();
        let indexed = self.items.iter().enumerate();
        let refers_to_used = |(index, (item, file)): &(usize, &(SourceItem, PathBuf))| {
            SourceSyntax::from_file(file) == Some(SourceSyntax::Python)
                && item.names.is_empty()
                && !item.is_import
                // The entry point of a script: `if __name__ == "__main__":`.
                && !item.words().any(|word| word == "__name__")
                && !used.contains(index)
                && item.words().any(|word| names.contains(word))
        };
        indexed.filter(refers_to_used).map(|(index, _)| index).collect()
    }

    /// Hashes the declarations independently of their order and file.
    fn hash_items(&self, used: BTreeSet<usize>) -> String {
        let item_hash = |index: &usize| {
            let (item, file) = &self.items[*index];
            let mut text = Vec::new();
            for token in &item.tokens {
                text.extend(token.text.as_bytes());
                text.push(0);
                if let Some(data) =
                    token.as_literal().and_then(|path| self.hash_data_file(path, file))
                {
                    text.extend(data);
                }
            }
            Uuid::new_v5(&Uuid::NAMESPACE_OID, &text)
        };
        let parts: BTreeSet<Uuid> = used.iter().map(item_hash).collect();
        let bytes: Vec<u8> = parts.into_iter().flat_map(Uuid::into_bytes).collect();
        Uuid::new_v5(&Uuid::NAMESPACE_OID, &bytes).to_string()
    }

    /// Hashes the data file that a literal names. Source files are excluded, because the
    /// benchmark's source files are added to the pool separately.
    fn hash_data_file(&self, path: &str, file: &Path) -> Option<[u8; 16]> {
        let is_path = path.contains(['.', '/']) && path.len() < 256 && !path.contains('\n');
        let is_source = SourceSyntax::from_file(Path::new(path)).is_some();
        if !is_path || is_source || path.starts_with('/') {
            return None;
        }
        let folders = [file.parent()?, &self.folder];
        let found =
            folders.into_iter().map(|folder| folder.join(path)).find(|file| file.is_file())?;
        let is_readable = found.metadata().ok()?.len() <= MAX_DATA_BYTES;
        let content = is_readable.then(|| fs::read(found).ok()).flatten()?;
        Some(Uuid::new_v5(&Uuid::NAMESPACE_OID, &content).into_bytes())
    }
}

/// Whether a literal matches the name. For example, `parse-{}` matches every name that begins with
/// `parse-`.
fn literal_matches(literal: &str, name: &str) -> bool {
    let is_word = |text: &str| text.contains(char::is_alphanumeric);
    let mut remaining_name = name;
    let mut remaining_pattern = literal;
    let mut has_word = false;
    let mut is_first = true;
    while let Some((text, after_brace)) = remaining_pattern.split_once('{') {
        let Some((_, after)) = after_brace.split_once('}') else { break };
        let index = if is_first {
            remaining_name.starts_with(text).then_some(0)
        } else {
            remaining_name.find(text)
        };
        let Some(index) = index else { return false };
        remaining_name = &remaining_name[index + text.len()..];
        has_word |= is_word(text);
        (remaining_pattern, is_first) = (after, false);
    }
    has_word |= is_word(remaining_pattern);
    has_word
        && if is_first {
            remaining_name == remaining_pattern
        } else {
            remaining_name.ends_with(remaining_pattern)
        }
}

/// Returns the paths of other files named in source code: modules, headers.
pub fn named_files(tokens: &[SourceToken], file: &Path) -> Vec<PathBuf> {
    let folder = file.parent().unwrap_or(Path::new("/"));
    let literal = |token: &SourceToken| token.as_literal().map(|path| folder.join(path));
    match SourceSyntax::from_file(file) {
        Some(SourceSyntax::Rust) => rust_modules(tokens, file),
        Some(SourceSyntax::C) => {
            let pairs = tokens.windows(2).filter(|pair| pair[0].as_word() == Some("include"));
            let paths = pairs.filter_map(|pair| literal(&pair[1]));
            paths.filter(|path| path.is_file()).collect()
        }
        Some(SourceSyntax::Script) => {
            let is_relative =
                |token: &&SourceToken| token.as_literal().is_some_and(|path| path.starts_with('.'));
            let paths = tokens.iter().filter(is_relative).filter_map(literal);
            let with_endings = |path: PathBuf| {
                let endings =
                    ["", ".js", ".cjs", ".mjs", ".ts", ".cts", ".mts", "/index.js", "/index.ts"];
                let named = |ending: &str| PathBuf::from(format!("{}{ending}", path.display()));
                first_file(endings.map(named))
            };
            paths.filter_map(with_endings).collect()
        }
        Some(SourceSyntax::Python) => {
            let statements = split_items(tokens.to_vec(), SourceSyntax::Python).into_iter();
            let imports = statements.filter(|item| item.is_import);
            let words: Vec<String> = imports
                .flat_map(|item| item.words().map(str::to_owned).collect::<Vec<_>>())
                .collect();
            let module = |word: &String| {
                first_file([
                    folder.join(format!("{word}.py")),
                    folder.join(word).join("__init__.py"),
                ])
            };
            words.iter().filter_map(module).collect()
        }
        Some(SourceSyntax::Go | SourceSyntax::Java) | None => Vec::new(),
    }
}

/// Returns the files that declarations of the form `mod name;` refer to
/// (https://doc.rust-lang.org/reference/items/modules.html).
fn rust_modules(tokens: &[SourceToken], file: &Path) -> Vec<PathBuf> {
    let parent = file.parent().unwrap_or(Path::new("/"));
    let stem = file.file_stem().unwrap_or_default();
    let mut found = Vec::new();
    for (index, part) in tokens.windows(3).enumerate() {
        let (Some("mod"), Some(name), true) =
            (part[0].as_word(), part[1].as_word(), part[2].is(';'))
        else {
            continue;
        };
        let literal =
            index.checked_sub(2).map(|index| &tokens[index]).and_then(SourceToken::as_literal);
        let is_path = index >= 4 && tokens[index - 4].as_word() == Some("path");
        let declared = literal.filter(|_| is_path).map(|path| parent.join(path));
        let default_paths = [parent.to_owned(), parent.join(stem)].into_iter().flat_map(|folder| {
            [folder.join(format!("{name}.rs")), folder.join(name).join("mod.rs")]
        });
        found.extend(first_file(declared.into_iter().chain(default_paths)));
    }
    found
}

pub fn first_file(candidates: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
    candidates.into_iter().find(|path| path.is_file())
}

/// Whether any word or literal of the source code begins with this prefix.
pub fn has_word(tokens: &[SourceToken], prefix: &str) -> bool {
    let words = tokens.iter().filter(|token| token.kind != TokenKind::Mark);
    words.into_iter().any(|token| token.text.trim_start_matches('"').starts_with(prefix))
}
