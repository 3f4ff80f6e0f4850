//! What is typed for a SOURCE: `[NAME=]PLACE[,PLACE...][[VARIANT]][::REGEX]`.
//!
//! Decides which characters mean what. It must not know what is in the places. Start at [`parse_all`].

use anyhow::{Context, ensure};
use speedwell_harness::discover::{self, Part};
use std::path::Path;

/// One SOURCE.
#[derive(Debug, Clone)]
pub struct Operand {
    /// What it is called in tables.
    pub label: String,
    /// Files, folders, `-` or stored sessions; several make one side together.
    pub places: Vec<String>,
    /// The variant that is picked.
    pub variant: Option<String>,
    /// The part that is picked.
    pub part: Option<Part>,
}

/// Reads all words. Words with the same `NAME=` are one operand; operands without a name are called
/// after their files.
///
/// # Errors
/// A pattern that is none.
pub fn parse_all(words: &[String]) -> anyhow::Result<Vec<Operand>> {
    parse_among(words, |word| Path::new(word).exists())
}

/// Reads words that name stored sessions, without a look at the disk.
///
/// # Errors
/// A pattern that is none, or a word that names something else.
pub fn parse_stored(words: &[String]) -> anyhow::Result<Vec<Operand>> {
    let operands = parse_among(words, |_| false)?;
    for place in operands.iter().flat_map(|operand| &operand.places) {
        ensure!(
            place.starts_with('@'),
            "'{place}' names no stored session\nhint: @latest, @prev, @NUMBER, @TAG, @rev:REVISION, @branch:NAME and @base do"
        );
    }
    Ok(operands)
}

/// Reads all words, where `is_file` says which are files as a whole.
fn parse_among(words: &[String], is_file: fn(&str) -> bool) -> anyhow::Result<Vec<Operand>> {
    let mut operands: Vec<(bool, Operand)> = Vec::new();
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
    shorten(&mut operands);
    Ok(operands.into_iter().map(|(_, operand)| operand).collect())
}

/// The word that stands for what the parts of all operands match.
pub fn common_word(operands: &[Operand]) -> Option<String> {
    let parts: Vec<Option<&Part>> = operands.iter().map(|o| o.part.as_ref()).collect();
    discover::common_word(&parts)
}

/// One word, and whether it has a name of its own.
fn parse_word(word: &str, is_file: fn(&str) -> bool) -> anyhow::Result<(bool, Operand)> {
    let (name, rest) = name(word, is_file);
    let (rest, part) = match rest.split_once("::") {
        Some((rest, pattern)) => (rest, Some(Part::parse(pattern)?)),
        None => (rest, None),
    };
    let (places, variant) = match rest
        .strip_suffix(']')
        .and_then(|rest| rest.rsplit_once('['))
    {
        Some((places, variant)) if !places.is_empty() => (places, Some(variant.to_owned())),
        _ => (rest, None),
    };
    let operand = Operand {
        label: name.unwrap_or(word).to_owned(),
        places: split(places, is_file),
        variant,
        part,
    };
    Ok((name.is_some(), operand))
}

/// A name before `=`, unless the word as a whole is a file or the `=` belongs to something else.
fn name(word: &str, is_file: fn(&str) -> bool) -> (Option<&str>, &str) {
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

/// Places between commas, unless there is a file with commas in its name.
fn split(places: &str, is_file: fn(&str) -> bool) -> Vec<String> {
    if is_file(places) {
        return vec![places.to_owned()];
    }
    let parts = places.split(',').filter(|part| !part.is_empty());
    parts.map(str::to_owned).collect()
}

/// Calls operands by as much of their paths as tells them apart, and numbers those that are alike.
fn shorten(operands: &mut [(bool, Operand)]) {
    let is_plain = |(named, operand): &(bool, Operand)| *named || operand.places.len() == 1;
    let typed: Vec<String> = operands.iter().map(|(_, o)| o.label.clone()).collect();
    let labels = if operands.iter().all(is_plain) {
        labels(&typed.iter().map(String::as_str).collect::<Vec<_>>())
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

/// The labels of sources, given the words typed.
pub fn labels(words: &[&str]) -> Vec<String> {
    let longest = words
        .iter()
        .map(|word| parts(word).len())
        .max()
        .unwrap_or(1);
    for kept in 1..longest {
        let short: Vec<String> = words.iter().map(|word| shortened(word, kept)).collect();
        if tells_apart(words, &short) {
            return short;
        }
    }
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Whether different words have different labels.
fn tells_apart(words: &[&str], labels: &[String]) -> bool {
    words.iter().enumerate().all(|(at, word)| {
        (0..at).all(|before| words[before] == *word || labels[before] != labels[at])
    })
}

/// The last `kept` parts of the path, and whatever was chosen of the file.
fn shortened(word: &str, kept: usize) -> String {
    let (path, chosen) = word.split_at(end_of_path(word));
    let parts = parts(path);
    let from = parts.len().saturating_sub(kept);
    parts[from..].join("/") + chosen
}

fn parts(word: &str) -> Vec<&str> {
    word[..end_of_path(word)].split('/').collect()
}

/// Where the path of a file ends and `[VARIANT]` or `::REGEX` begins.
fn end_of_path(word: &str) -> usize {
    let part = word.find("::").unwrap_or(word.len());
    word[..part].find('[').unwrap_or(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Vec<Operand> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        parse_all(&words).unwrap()
    }

    fn called(words: &[&str]) -> Vec<String> {
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
        assert_eq!(called(&["old=a.json", "new=b.json"]), ["old", "new"]);
    }

    #[test]
    fn sides_are_called_after_their_files_where_that_tells_them_apart() {
        assert_eq!(called(&["r/a.json", "s/b.json"]), ["a.json", "b.json"]);
        assert_eq!(called(&["q/r/a", "q/s/a"]), ["r/a", "s/a"]);
        assert_eq!(called(&["./a::x", "./a::y"]), ["a::x", "a::y"]);
        assert_eq!(called(&["./a", "./a"]), ["a (1)", "a (2)"]);
        assert_eq!(called(&["@1", "-"]), ["@1", "-"]);
    }
}
