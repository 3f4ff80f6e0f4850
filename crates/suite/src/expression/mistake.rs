//! What is wrong with an expression, and in which column.

/// A mistake in an expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}\n  {text}\n  {}^{}", " ".repeat(*column), hint_line(hint))]
pub struct Mistake {
    /// What is wrong.
    pub message: String,
    /// The expression.
    pub text: String,
    /// Letters before the place.
    pub column: usize,
    /// What helps, if anything does.
    pub hint: Option<String>,
}

fn hint_line(hint: &Option<String>) -> String {
    let line = |hint: &String| format!("\nhint: {hint}");
    hint.as_ref().map(line).unwrap_or_default()
}

impl Mistake {
    /// The mistake that `part`, which occurs in the expression, names something that does not exist.
    pub fn about(text: &str, part: &str, message: String, hint: String) -> Mistake {
        let goes_on = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
        let is_whole = |at: &usize| {
            let (before, behind) = (&text[..*at], &text[at + part.len()..]);
            !before.ends_with(goes_on) && !behind.starts_with(goes_on)
        };
        let mut places = text.match_indices(part).map(|(at, _)| at);
        let place = places.find(is_whole).or_else(|| text.find(part));
        let before = place.map_or("", |at| &text[..at]);
        Mistake {
            message,
            text: text.to_owned(),
            column: before.chars().count(),
            hint: Some(hint),
        }
    }
}
