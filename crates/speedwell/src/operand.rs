//! Parses a SOURCE argument: `[NAME=]PLACE[,PLACE...][[VARIANT]][::REGEX]`.
//!
//! Decides which characters mean what. Independent of what the places contain. Start at
//! [`parse_all`].

use anyhow::{Context, ensure};
use speedwell_harness::discover::{self, BenchmarkPart};
use std::path::Path;

/// A parsed SOURCE.
#[derive(Debug, Clone)]
pub struct SourceOperand {
    /// Label in tables.
    pub label: String,
    /// Files, folders, `-` or stored sessions; several form one side together.
    pub places: Vec<String>,
    pub variant: Option<String>,
    pub part: Option<BenchmarkPart>,
}

/// Parses all arguments. Those with the same `NAME=` form one operand; operands without a name are
/// labeled by their files.
///
/// # Errors
/// Fails on an invalid pattern.
pub fn parse_all(words: &[String]) -> anyhow::Result<Vec<SourceOperand>> {
    parse_among(words, |word| Path::new(word).exists())
}

/// Parses arguments that name stored sessions, without accessing the disk.
///
/// # Errors
/// Fails on an invalid pattern, and on an argument that names something else.
pub fn parse_stored(words: &[String]) -> anyhow::Result<Vec<SourceOperand>> {
    let operands = parse_among(words, |_| false)?;
    for place in operands.iter().flat_map(|operand| &operand.places) {
        ensure!(
            place.starts_with('@'),
            "'{place}' is not a stored session\nhint: use @latest, @prev, @NUMBER, @TAG, @rev:REVISION, @branch:NAME or @base"
        );
    }
    Ok(operands)
}

/// Parses all arguments; `is_file` returns whether a whole argument is the name of a file.
fn parse_among(words: &[String], is_file: fn(&str) -> bool) -> anyhow::Result<Vec<SourceOperand>> {
    let mut operands: Vec<(bool, SourceOperand)> = Vec::new();
    for word in words {
        let (name, operand) =
            parse_word(word, is_file).with_context(|| format!("in source '{word}'"))?;
        let known = operands
            .iter_mut()
            .find(|(named, known)| *named && name && known.label == operand.label);
        match known {
            Some((_, known)) => known.places.extend(operand.places),
            None => operands.push((name, operand)),
        }
    }
    shorten_labels(&mut operands);
    Ok(operands.into_iter().map(|(_, operand)| operand).collect())
}

/// Returns the word that replaces what the parts of all operands match.
pub fn common_word(operands: &[SourceOperand]) -> Option<String> {
    let parts: Vec<Option<&BenchmarkPart>> = operands.iter().map(|o| o.part.as_ref()).collect();
    discover::shared_word(&parts)
}

/// Parses one argument; returns whether it has a `NAME=`, too.
fn parse_word(word: &str, is_file: fn(&str) -> bool) -> anyhow::Result<(bool, SourceOperand)> {
    let (name, rest) = split_name(word, is_file);
    let (rest, part) = match rest.split_once("::") {
        Some((rest, pattern)) => (rest, Some(BenchmarkPart::parse(pattern)?)),
        None => (rest, None),
    };
    let (places, variant) = match rest
        .strip_suffix(']')
        .and_then(|rest| rest.rsplit_once('['))
    {
        Some((places, variant)) if !places.is_empty() => (places, Some(variant.to_owned())),
        _ => (rest, None),
    };
    let operand = SourceOperand {
        label: name.unwrap_or(word).to_owned(),
        places: split_places(places, is_file),
        variant,
        part,
    };
    Ok((name.is_some(), operand))
}

/// Splits off a name before `=`, unless the whole argument is a file or the `=` belongs to
/// something else.
fn split_name(word: &str, is_file: fn(&str) -> bool) -> (Option<&str>, &str) {
    let is_name = |name: &str| {
        let letter = |c: char| c.is_alphanumeric() || "_-.+".contains(c);
        !name.is_empty() && name.chars().all(letter)
    };
    match word.split_once('=') {
        Some((name, rest)) if is_name(name) && !rest.is_empty() && !is_file(word) => {
            (Some(name), rest)
        }
        _ => (None, word),
    }
}

/// Splits places at commas, unless a file has that name, commas included.
fn split_places(places: &str, is_file: fn(&str) -> bool) -> Vec<String> {
    if is_file(places) {
        return vec![places.to_owned()];
    }
    let parts = places.split(',').filter(|part| !part.is_empty());
    parts.map(str::to_owned).collect()
}

/// Labels operands by the shortest path suffixes that distinguish them, and numbers equal ones.
fn shorten_labels(operands: &mut [(bool, SourceOperand)]) {
    let is_plain = |(named, operand): &(bool, SourceOperand)| *named || operand.places.len() == 1;
    let typed: Vec<String> = operands.iter().map(|(_, o)| o.label.clone()).collect();
    let labels = if operands.iter().all(is_plain) {
        shortest_labels(&typed.iter().map(String::as_str).collect::<Vec<_>>())
    } else {
        typed
    };
    for (at, (_, operand)) in operands.iter_mut().enumerate() {
        let alike = |among: &[String]| among.iter().filter(|label| **label == labels[at]).count();
        operand.label = match alike(&labels) {
            1 => labels[at].clone(),
            _ => format!("{} ({})", labels[at], alike(&labels[..at]) + 1),
        };
    }
}

/// Returns the labels of sources for the arguments typed.
pub fn shortest_labels(words: &[&str]) -> Vec<String> {
    let longest = words
        .iter()
        .map(|word| path_components(word).len())
        .max()
        .unwrap_or(1);
    for kept in 1..longest {
        let short: Vec<String> = words.iter().map(|word| path_suffix(word, kept)).collect();
        if tells_apart(words, &short) {
            return short;
        }
    }
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Returns whether different arguments have different labels.
fn tells_apart(words: &[&str], labels: &[String]) -> bool {
    words.iter().enumerate().all(|(at, word)| {
        (0..at).all(|before| words[before] == *word || labels[before] != labels[at])
    })
}

/// Returns the last `kept` components of the path, with the selection that follows it.
fn path_suffix(word: &str, kept: usize) -> String {
    let (path, chosen) = word.split_at(end_of_path(word));
    let parts = path_components(path);
    let from = parts.len().saturating_sub(kept);
    parts[from..].join("/") + chosen
}

fn path_components(word: &str) -> Vec<&str> {
    word[..end_of_path(word)].split('/').collect()
}

/// Returns where the path ends and `[VARIANT]` or `::REGEX` begins.
fn end_of_path(word: &str) -> usize {
    let part = word.find("::").unwrap_or(word.len());
    word[..part].find('[').unwrap_or(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Vec<SourceOperand> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        parse_all(&words).unwrap()
    }

    fn labels_of(words: &[&str]) -> Vec<String> {
        read(words)
            .into_iter()
            .map(|operand| operand.label)
            .collect()
    }

    #[test]
    fn a_source_is_a_place_with_a_variant_and_a_part() {
        let operand = read(&["@latest[old]::BM_(mem|str)cpy/8"]).remove(0);
        assert_eq!(operand.places, ["@latest"]);
        assert_eq!(operand.variant.as_deref(), Some("old"));
        assert_eq!(operand.part.unwrap().pattern(), "BM_(mem|str)cpy/8");
    }

    #[test]
    fn several_places_make_one_side() {
        let operands = read(&["old=a.json", "new=c.json", "old=b.json", "x.json,y.json"]);
        let places: Vec<_> = operands.iter().map(|o| o.places.join(" ")).collect();
        assert_eq!(places, ["a.json b.json", "c.json", "x.json y.json"]);
        assert_eq!(labels_of(&["old=a.json", "new=b.json"]), ["old", "new"]);
    }

    #[test]
    fn sides_are_called_after_their_files_where_that_tells_them_apart() {
        assert_eq!(labels_of(&["r/a.json", "s/b.json"]), ["a.json", "b.json"]);
        assert_eq!(labels_of(&["q/r/a", "q/s/a"]), ["r/a", "s/a"]);
        assert_eq!(labels_of(&["./a::x", "./a::y"]), ["a::x", "a::y"]);
        assert_eq!(labels_of(&["./a", "./a"]), ["a (1)", "a (2)"]);
        assert_eq!(labels_of(&["@1", "-"]), ["@1", "-"]);
    }
}
