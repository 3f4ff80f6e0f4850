//! The known name that somebody who mistyped probably meant.

/// The nearest of `known` to `word` by edit distance, if it is near.
pub fn nearest<'a>(word: &str, known: &'a [String]) -> Option<&'a String> {
    let limit = (word.chars().count() / 3).max(1);
    let rated = known
        .iter()
        .map(|name| (strsim::damerau_levenshtein(word, name), name));
    rated
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}
