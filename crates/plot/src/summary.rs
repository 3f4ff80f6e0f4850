//! Small phrases shared by the descriptions for those who cannot see a chart.

/// `1 box`, `2 boxes`: a count with its noun, plural by the given ending.
pub(crate) fn count(number: usize, noun: &str, plural_ending: &str) -> String {
    let ending = if number == 1 { "" } else { plural_ending };
    format!("{number} {noun}{ending}")
}

/// Names joined by commas, at most six of them.
pub(crate) fn list(names: &[&str]) -> String {
    const MOST: usize = 6;
    let shown = names
        .iter()
        .take(MOST)
        .copied()
        .collect::<Vec<_>>()
        .join(", ");
    match names.len().saturating_sub(MOST) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_agree_in_number() {
        assert_eq!(count(1, "box", "es"), "1 box");
        assert_eq!(count(0, "value", "s"), "0 values");
        assert_eq!(list(&["a", "b"]), "a, b");
        assert_eq!(list(&["a"; 8]), "a, a, a, a, a, a and 2 more");
    }
}
