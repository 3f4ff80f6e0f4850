//! What all rows of a table say alike is said once, above them.
//!
//! Decides when a text is common to all rows; how the caption words it is up to each report.

/// The text of a field that all `lines` share; the lines then do not repeat it.
pub fn hoist<T>(lines: &mut [T], field: for<'l> fn(&'l mut T) -> &'l mut String) -> Option<String> {
    let first = field(lines.first_mut()?).clone();
    if !lines.iter_mut().all(|line| *field(line) == first) {
        return None;
    }
    lines.iter_mut().for_each(|line| field(line).clear());
    Some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_all_lines_share_leaves_them() {
        let mut lines = [("k/s".to_owned(), 1), ("k/s".to_owned(), 2)];
        let unit = hoist(&mut lines, |line| &mut line.0);
        assert_eq!(unit.as_deref(), Some("k/s"));
        assert_eq!(lines, [(String::new(), 1), (String::new(), 2)]);
    }

    #[test]
    fn texts_that_differ_stay_where_they_are() {
        let before = [("k/s".to_owned(), 1), ("M/s".to_owned(), 2)];
        let mut lines = before.clone();
        assert_eq!(hoist(&mut lines, |line| &mut line.0), None);
        assert_eq!(lines, before);
    }
}
