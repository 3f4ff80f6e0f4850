//! Parses the two expression languages of benchstat's options: filters (`key:value`, AND, OR, `-`,
//! parentheses, patterns between slashes) and projections (`key@order,...`). `tables.rs` applies
//! the parsed expressions to results. Start at [`parse_filter`] and [`parse_projection`].

use regex::Regex;

/// Filter for results.
#[derive(Debug, Clone)]
pub enum BenchstatFilter {
    /// Matches if all of these filters match; an empty list matches everything.
    And(Vec<BenchstatFilter>),
    /// Matches if at least one of these filters matches.
    Or(Vec<BenchstatFilter>),
    /// Matches if this filter does not match.
    Not(Box<BenchstatFilter>),
    /// Matches if the pattern matches the value of the key.
    Match(String, ValuePattern),
}

/// Value that a key must have.
#[derive(Debug, Clone)]
pub enum ValuePattern {
    /// Exactly this string.
    Text(String),
    /// Any string that contains a match of this pattern.
    Pattern(Regex),
}

impl ValuePattern {
    /// Whether the value matches.
    pub fn matches(&self, value: &str) -> bool {
        match self {
            ValuePattern::Text(text) => text == value,
            ValuePattern::Pattern(pattern) => pattern.is_match(value),
        }
    }
}

/// One part of a projection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectionPart {
    pub key: String,
    pub order: PartOrder,
}

/// Order of values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartOrder {
    /// By first appearance.
    First,
    /// Alphabetical.
    Alpha,
    /// Numeric. A number may have a unit prefix, as in `4k` or `16KiB`.
    Number,
    /// In the order of this list; results with other values are excluded.
    Fixed(Vec<String>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum QueryToken {
    End,
    Sign(char),
    And,
    Or,
    Word(String),
    Pattern(String),
}

/// Splits an expression into tokens.
#[derive(Debug, Clone, Copy)]
struct QueryLexer<'a> {
    text: &'a str,
    position: usize,
}

impl QueryLexer<'_> {
    /// Returns a syntax error: the reason, the expression, and a `^` below the current position.
    fn fail<T>(&self, reason: &str) -> Result<T, String> {
        let before = self.text.char_indices().take_while(|(byte, _)| *byte < self.position);
        let mark_column = before.count();
        Err(format!("{reason}\n\t{}\n\t{:mark_column$}^", self.text, ""))
    }

    /// Returns the syntax error for a token that cannot follow here.
    fn fail_at_token<T>(&self, token: &QueryToken) -> Result<T, String> {
        let text = match token {
            QueryToken::Sign(sign) => sign.to_string(),
            QueryToken::And => "AND".to_owned(),
            QueryToken::Or => "OR".to_owned(),
            QueryToken::Word(text) | QueryToken::Pattern(text) => text.clone(),
            QueryToken::End => String::new(),
        };
        let remaining = &self.text[self.position..];
        let blanks = remaining.len() - remaining.trim_start().len();
        QueryLexer { position: self.position + blanks, ..*self }
            .fail(&format!("unexpected {text:?}"))
    }

    /// Takes the next token. Patterns are recognized only if `is_value` is true, which means that a
    /// value may appear here.
    fn take(&mut self, is_value: bool) -> Result<QueryToken, String> {
        let text = self.text;
        let remaining = text[self.position..].trim_start();
        self.position = text.len() - remaining.len();
        let Some(first) = remaining.chars().next() else { return Ok(QueryToken::End) };
        let (token, length) = match first {
            '(' | ')' | ':' | '@' | ',' | '-' | '*' => (QueryToken::Sign(first), 1),
            '/' if is_value => {
                let Some(length) = pattern_length(&remaining[1..]) else {
                    return self.fail("missing close \"/\"");
                };
                let next_char = remaining[length + 2..].chars().next();
                if next_char.is_some_and(|c| !c.is_whitespace() && !"():@,-*".contains(c)) {
                    self.position += length + 2;
                    return self.fail(
                        "regexp must be followed by space or an operator (unescaped \"/\"?)",
                    );
                }
                (QueryToken::Pattern(remaining[1..=length].to_owned()), length + 2)
            }
            '"' => {
                let Some(length) = quoted_length(remaining) else {
                    return self.fail("missing end quote");
                };
                match serde_json::from_str(&remaining[..length]) {
                    Ok(word) => (QueryToken::Word(word), length),
                    Err(_) => return self.fail("bad escape sequence"),
                }
            }
            _ => {
                let is_end = |c: char| c.is_whitespace() || "():@,".contains(c);
                let length = remaining.find(is_end).unwrap_or(remaining.len());
                let token = match &remaining[..length] {
                    "AND" => QueryToken::And,
                    "OR" => QueryToken::Or,
                    word => QueryToken::Word(word.to_owned()),
                };
                (token, length)
            }
        };
        self.position += length;
        Ok(token)
    }

    /// Takes the next token if it is `token`; returns whether it was.
    fn accept(&mut self, token: &QueryToken) -> Result<bool, String> {
        let mut after = *self;
        let is_next = after.take(false)? == *token;
        if is_next {
            *self = after;
        }
        Ok(is_next)
    }

    fn parse_or(&mut self) -> Result<BenchstatFilter, String> {
        let mut terms = vec![self.parse_and()?];
        while self.accept(&QueryToken::Or)? {
            terms.push(self.parse_and()?);
        }
        Ok(single_or_list(terms, BenchstatFilter::Or))
    }

    fn parse_and(&mut self) -> Result<BenchstatFilter, String> {
        let mut terms = vec![self.parse_term()?];
        loop {
            let mut after = *self;
            match after.take(false)? {
                QueryToken::And => *self = after,
                QueryToken::Sign('(' | '-' | '*') | QueryToken::Word(_) => {
                    terms.push(self.parse_term()?);
                }
                QueryToken::Sign(')') | QueryToken::Or | QueryToken::End => {
                    return Ok(single_or_list(terms, BenchstatFilter::And));
                }
                token => return self.fail_at_token(&token),
            }
        }
    }

    fn parse_term(&mut self) -> Result<BenchstatFilter, String> {
        let start = *self;
        let key = match self.take(false)? {
            QueryToken::Sign('(') => {
                let inner = self.parse_or()?;
                let is_closed = self.accept(&QueryToken::Sign(')'))?;
                return if is_closed { Ok(inner) } else { self.fail("missing \")\"") };
            }
            QueryToken::Sign('-') => {
                return Ok(BenchstatFilter::Not(Box::new(self.parse_term()?)));
            }
            QueryToken::Sign('*') => return Ok(BenchstatFilter::And(Vec::new())),
            QueryToken::Word(key) => key,
            _ => return start.fail("expected key:value or subexpression"),
        };
        if !self.accept(&QueryToken::Sign(':'))? {
            return start.fail("expected key:value");
        }
        let value_start = *self;
        match self.take(true)? {
            QueryToken::Sign('(') => self.parse_value_list(&key),
            value => match value_start.parse_value(value)? {
                Some(pattern) => Ok(BenchstatFilter::Match(key, pattern)),
                None => start.fail("expected key:value"),
            },
        }
    }

    /// Parses `a OR /b/)` after a key and an opening parenthesis.
    fn parse_value_list(&mut self, key: &str) -> Result<BenchstatFilter, String> {
        let mut terms = Vec::new();
        loop {
            let start = *self;
            let value = self.take(true)?;
            let Some(pattern) = start.parse_value(value)? else {
                return start.fail("expected value");
            };
            terms.push(BenchstatFilter::Match(key.to_owned(), pattern));
            let separator = *self;
            match self.take(true)? {
                QueryToken::Sign(')') => return Ok(BenchstatFilter::Or(terms)),
                QueryToken::Or => {}
                _ => return separator.fail("value list must be separated by OR"),
            }
        }
    }

    /// Converts the token at this position to a pattern; `None` if it is no value.
    fn parse_value(&self, token: QueryToken) -> Result<Option<ValuePattern>, String> {
        match token {
            QueryToken::Word(text) => Ok(Some(ValuePattern::Text(text))),
            QueryToken::Pattern(text) => match Regex::new(&text) {
                Ok(pattern) => Ok(Some(ValuePattern::Pattern(pattern))),
                Err(error) => self.fail(&error.to_string()),
            },
            _ => Ok(None),
        }
    }

    fn parse_part(&mut self) -> Result<ProjectionPart, String> {
        let start = *self;
        let QueryToken::Word(key) = self.take(false)? else { return start.fail("expected key") };
        if !self.accept(&QueryToken::Sign('@'))? {
            return Ok(ProjectionPart { key, order: PartOrder::First });
        }
        let order_start = *self;
        let order = match self.take(false)? {
            QueryToken::Word(word) => match word.as_str() {
                "first" => PartOrder::First,
                "alpha" => PartOrder::Alpha,
                "num" => PartOrder::Number,
                word => return order_start.fail(&format!("unknown order {word:?}")),
            },
            QueryToken::Sign('(') => PartOrder::Fixed(self.parse_fixed_order()?),
            _ => return order_start.fail("expected named sort order or parenthesized list"),
        };
        if matches!(order, PartOrder::Fixed(_)) && key == ".config" {
            return order_start.fail("fixed order not allowed for .config");
        }
        Ok(ProjectionPart { key, order })
    }

    fn parse_fixed_order(&mut self) -> Result<Vec<String>, String> {
        let mut values = Vec::new();
        loop {
            let start = *self;
            match self.take(false)? {
                QueryToken::Word(value) => values.push(value),
                QueryToken::Sign(')') if values.is_empty() => {
                    return start.fail("nothing to match");
                }
                QueryToken::Sign(')') => return Ok(values),
                _ => return start.fail("missing )"),
            }
        }
    }
}

/// Returns the length of a quoted string, including both quotes.
fn quoted_length(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let is_end = |index: &usize| bytes[*index] == b'"' && bytes[index - 1] != b'\\';
    (1..bytes.len()).find(is_end).map(|index| index + 1)
}

/// Returns the position of the end of a pattern: the first unescaped slash outside classes and
/// groups.
fn pattern_length(text: &str) -> Option<usize> {
    let (mut classes, mut groups) = (0i32, 0i32);
    let bytes = text.as_bytes();
    let mut index = 0;
    while index < bytes.len() {
        match bytes[index] {
            b'/' if classes == 0 && groups == 0 => return Some(index),
            b'[' => classes += 1,
            b']' => classes = (classes - 1).max(0),
            b'(' if classes == 0 => groups += 1,
            b')' if classes == 0 => groups -= 1,
            b'\\' => index += 1,
            _ => {}
        }
        index += 1;
    }
    None
}

/// Parses a filter.
///
/// # Errors
/// Returns the position of a syntax error and the reason for it.
pub fn parse_filter(text: &str) -> Result<BenchstatFilter, String> {
    let mut lexer = QueryLexer { text, position: 0 };
    let filter = lexer.parse_or()?;
    let end = lexer;
    match lexer.take(false)? {
        QueryToken::End => Ok(filter),
        token => end.fail_at_token(&token),
    }
}

fn single_or_list(
    mut terms: Vec<BenchstatFilter>,
    combine: fn(Vec<BenchstatFilter>) -> BenchstatFilter,
) -> BenchstatFilter {
    if terms.len() == 1 { terms.remove(0) } else { combine(terms) }
}

/// Parses a projection.
///
/// # Errors
/// Returns the position of a syntax error and the reason for it.
pub fn parse_projection(text: &str) -> Result<Vec<ProjectionPart>, String> {
    let mut parts = Vec::new();
    let mut lexer = QueryLexer { text, position: 0 };
    while !lexer.accept(&QueryToken::End)? {
        if !parts.is_empty() {
            lexer.accept(&QueryToken::Sign(','))?;
        }
        parts.push(lexer.parse_part()?);
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_bind_as_in_the_original() {
        let parsed_text = |text: &str| format!("{:?}", parse_filter(text).unwrap());
        assert_eq!(parsed_text("*"), "And([])");
        assert_eq!(parsed_text("a:1 b:2 OR c:3"), parsed_text("(a:1 AND b:2) OR c:3"));
        assert_eq!(parsed_text("a:(1 OR 2)"), parsed_text("a:1 OR a:2"));
        assert_eq!(parsed_text(r#"-"a b":"c d""#), r#"Not(Match("a b", Text("c d")))"#);
        assert!(parsed_text("/align:/^[/0]$/ .unit:sec/op").contains("^[/0]$"));
    }

    #[test]
    fn projections_have_keys_and_orders() {
        let part = |key: &str, order| ProjectionPart { key: key.to_owned(), order };
        let fixed = PartOrder::Fixed(vec!["b".to_owned(), "a".to_owned()]);
        assert_eq!(
            parse_projection("goos,/size@num .name@(b a)").unwrap(),
            [
                part("goos", PartOrder::First),
                part("/size", PartOrder::Number),
                part(".name", fixed)
            ]
        );
        assert_eq!(parse_projection("").unwrap(), []);
    }

    #[test]
    fn syntax_errors_are_marked_with_a_caret() {
        for text in
            ["a", "a:", "(a:1", "a:(1 2)", "a:/x", "a:\"", "a:/[/", ")", "a:1)", "a:/x/y", ""]
        {
            assert!(parse_filter(text).is_err(), "{text}");
        }
        for text in [",", "a@", "a@()", "a@(b", "a@up", ".config@(a)", ":"] {
            assert!(parse_projection(text).is_err(), "{text}");
        }
        let error = parse_filter("a:1 :").unwrap_err();
        assert!(error.ends_with("\n\ta:1 :\n\t    ^"), "{error}");
        let error = parse_filter("a:1 b:/[/").unwrap_err();
        assert!(error.ends_with("\n\ta:1 b:/[/\n\t      ^"), "{error}");
    }
}
