//! Remarks collected below a table, each said once however many rows it concerns.

/// The remarks of one table, in order of first mention.
#[derive(Debug, Default)]
pub struct Footnotes {
    texts: Vec<String>,
}

impl Footnotes {
    /// The mark that refers to `text`: `¹`, `²` ...
    pub fn mark(&mut self, text: &str) -> String {
        let at = self
            .texts
            .iter()
            .position(|known| known == text)
            .unwrap_or_else(|| {
                self.texts.push(text.to_owned());
                self.texts.len() - 1
            });
        mark(at + 1)
    }

    /// All remarks; the first has number 1.
    pub fn into_texts(self) -> Vec<String> {
        self.texts
    }
}

/// A number in raised digits.
pub fn mark(number: usize) -> String {
    const RAISED: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    number
        .to_string()
        .bytes()
        .map(|digit| RAISED[usize::from(digit - b'0')])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remark_made_twice_has_one_number() {
        let mut footnotes = Footnotes::default();
        let marks = ["a", "b", "a"].map(|text| footnotes.mark(text));
        assert_eq!(marks, ["¹", "²", "¹"]);
        assert_eq!(footnotes.into_texts(), ["a", "b"]);
        assert_eq!(mark(12), "¹²");
    }
}
