//! What sources are called in tables: files by as much of their path as tells them apart, stored
//! sessions as they were typed. Two full paths as headings leave no room for the figures below.

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

    #[test]
    fn files_are_called_by_what_tells_them_apart() {
        for (words, expected) in [
            (["out/a.json", "out/b.json"], ["a.json", "b.json"]),
            (["/x/old/r.csv", "/x/new/r.csv"], ["old/r.csv", "new/r.csv"]),
            (["a/r.csv", "r.csv"], ["a/r.csv", "r.csv"]),
            (
                ["x/r.csv[old]", "x/r.csv[new]"],
                ["r.csv[old]", "r.csv[new]"],
            ),
            (
                ["x/r.csv::a/b", "x/r.csv::a/c"],
                ["r.csv::a/b", "r.csv::a/c"],
            ),
            (["x/r.csv", "x/r.csv"], ["r.csv", "r.csv"]),
            (["@prev", "@latest"], ["@prev", "@latest"]),
        ] {
            assert_eq!(labels(&words), expected);
        }
    }
}
