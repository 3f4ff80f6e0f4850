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

impl<'a> QueryLexer<'a> {
    fn new(text: &'a str) -> QueryLexer<'a> {
        QueryLexer { text, position: 0 }
    }

    /// Returns a syntax error: the reason, the expression, and a `^` below the current position.
    fn fail<T>(&self, reason: &str) -> Result<T, String> {
        let before = self.text.char_indices().take_while(|(byte, _)| *byte < self.position);
        let mark_column = before.count();
        Err(format!("{reason}\n\t{}\n\t{:mark_column$}^", self.text, ""))
    }

    fn skip_blanks(&mut self) {
        let remaining = &self.text[self.position..];
        self.position += remaining.len() - remaining.trim_start().len();
    }

    /// Returns the next token, and the lexer after this token. Patterns are recognized only if
    /// `is_value` is true, which means that a value may appear here.
    fn next_token(mut self, is_value: bool) -> Result<(QueryToken, QueryLexer<'a>), String> {
        self.skip_blanks();
        let remaining = &self.text[self.position..];
        let lexer_after = |length: usize| QueryLexer { position: self.position + length, ..self };
        let Some(first) = remaining.chars().next() else {
            return Ok((QueryToken::End, self));
        };
        match first {
            '(' | ')' | ':' | '@' | ',' | '-' | '*' => {
                Ok((QueryToken::Sign(first), lexer_after(1)))
            }
            '/' if is_value => {
                let Some(length) = pattern_length(&remaining[1..]) else {
                    return self.fail("missing close \"/\"");
                };
                let next = lexer_after(length + 2);
                let next_char = next.text[next.position..].chars().next();
                if next_char.is_some_and(|c| !c.is_whitespace() && !"():@,-*".contains(c)) {
                    return next.fail(
                        "regexp must be followed by space or an operator (unescaped \"/\"?)",
                    );
                }
                Ok((QueryToken::Pattern(remaining[1..=length].to_owned()), next))
            }
            '"' => {
                let Some(length) = quoted_length(remaining) else {
                    return self.fail("missing end quote");
                };
                match serde_json::from_str(&remaining[..length]) {
                    Ok(word) => Ok((QueryToken::Word(word), lexer_after(length))),
                    Err(_) => self.fail("bad escape sequence"),
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
                Ok((token, lexer_after(length)))
            }
        }
    }

    fn token_text(token: &QueryToken) -> String {
        match token {
            QueryToken::Sign(sign) => sign.to_string(),
            QueryToken::And => "AND".to_owned(),
            QueryToken::Or => "OR".to_owned(),
            QueryToken::Word(text) | QueryToken::Pattern(text) => text.clone(),
            QueryToken::End => String::new(),
        }
    }

    fn expect_end(self) -> Result<(), String> {
        match self.next_token(false)? {
            (QueryToken::End, _) => Ok(()),
            (token, _) => {
                let mut lexer = self;
                lexer.skip_blanks();
                lexer.fail(&format!("unexpected {:?}", QueryLexer::token_text(&token)))
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
    let (filter, tokens) = parse_or(QueryLexer::new(text))?;
    tokens.expect_end()?;
    Ok(filter)
}

fn parse_or(mut tokens: QueryLexer<'_>) -> Result<(BenchstatFilter, QueryLexer<'_>), String> {
    let mut terms = Vec::new();
    loop {
        let (term, remaining) = parse_and(tokens)?;
        terms.push(term);
        tokens = remaining;
        match tokens.next_token(false)? {
            (QueryToken::Or, remaining) => tokens = remaining,
            _ => break,
        }
    }
    Ok((single_or_list(terms, BenchstatFilter::Or), tokens))
}

fn parse_and(tokens: QueryLexer<'_>) -> Result<(BenchstatFilter, QueryLexer<'_>), String> {
    let (first, mut tokens) = parse_term(tokens)?;
    let mut terms = vec![first];
    loop {
        let (token, remaining) = tokens.next_token(false)?;
        match token {
            QueryToken::And => tokens = remaining,
            QueryToken::Sign('(' | '-' | '*') | QueryToken::Word(_) => {
                let (term, remaining) = parse_term(tokens)?;
                terms.push(term);
                tokens = remaining;
            }
            QueryToken::Sign(')') | QueryToken::Or | QueryToken::End => break,
            token => {
                tokens.skip_blanks();
                return tokens.fail(&format!("unexpected {:?}", QueryLexer::token_text(&token)));
            }
        }
    }
    Ok((single_or_list(terms, BenchstatFilter::And), tokens))
}

fn single_or_list(
    mut terms: Vec<BenchstatFilter>,
    combine: fn(Vec<BenchstatFilter>) -> BenchstatFilter,
) -> BenchstatFilter {
    match terms.len() {
        1 => terms.remove(0),
        _ => combine(terms),
    }
}

fn parse_term(start: QueryLexer<'_>) -> Result<(BenchstatFilter, QueryLexer<'_>), String> {
    let (token, remaining) = start.next_token(false)?;
    match token {
        QueryToken::Sign('(') => {
            let (inner, remaining) = parse_or(remaining)?;
            match remaining.next_token(false)? {
                (QueryToken::Sign(')'), remaining) => Ok((inner, remaining)),
                _ => remaining.fail("missing \")\""),
            }
        }
        QueryToken::Sign('-') => {
            let (inner, remaining) = parse_term(remaining)?;
            Ok((BenchstatFilter::Not(Box::new(inner)), remaining))
        }
        QueryToken::Sign('*') => Ok((BenchstatFilter::And(Vec::new()), remaining)),
        QueryToken::Word(key) => {
            let (QueryToken::Sign(':'), value_start) = remaining.next_token(false)? else {
                return start.fail("expected key:value");
            };
            match value_start.next_token(true)? {
                (QueryToken::Sign('('), remaining) => parse_value_list(&key, remaining),
                (value, remaining) => match parse_value(&value, value_start)? {
                    Some(pattern) => Ok((BenchstatFilter::Match(key, pattern), remaining)),
                    None => start.fail("expected key:value"),
                },
            }
        }
        _ => start.fail("expected key:value or subexpression"),
    }
}

/// Parses `(a OR /b/)` after a key.
fn parse_value_list<'a>(
    key: &str,
    mut tokens: QueryLexer<'a>,
) -> Result<(BenchstatFilter, QueryLexer<'a>), String> {
    let mut terms = Vec::new();
    loop {
        let (value, remaining) = tokens.next_token(true)?;
        let Some(pattern) = parse_value(&value, tokens)? else {
            return tokens.fail("expected value");
        };
        terms.push(BenchstatFilter::Match(key.to_owned(), pattern));
        tokens = match remaining.next_token(true)? {
            (QueryToken::Sign(')'), remaining) => {
                return Ok((BenchstatFilter::Or(terms), remaining));
            }
            (QueryToken::Or, remaining) => remaining,
            _ => return remaining.fail("value list must be separated by OR"),
        };
    }
}

fn parse_value(token: &QueryToken, tokens: QueryLexer<'_>) -> Result<Option<ValuePattern>, String> {
    match token {
        QueryToken::Word(text) => Ok(Some(ValuePattern::Text(text.clone()))),
        QueryToken::Pattern(text) => match Regex::new(text) {
            Ok(pattern) => Ok(Some(ValuePattern::Pattern(pattern))),
            Err(error) => tokens.fail(&error.to_string()),
        },
        _ => Ok(None),
    }
}

/// Parses a projection.
///
/// # Errors
/// Returns the position of a syntax error and the reason for it.
pub fn parse_projection(text: &str) -> Result<Vec<ProjectionPart>, String> {
    let mut parts = Vec::new();
    let mut tokens = QueryLexer::new(text);
    loop {
        match tokens.next_token(false)? {
            (QueryToken::End, _) => return Ok(parts),
            (QueryToken::Sign(','), remaining) if !parts.is_empty() => tokens = remaining,
            _ => {}
        }
        let (part, remaining) = parse_part(tokens)?;
        parts.push(part);
        tokens = remaining;
    }
}

fn parse_part(tokens: QueryLexer<'_>) -> Result<(ProjectionPart, QueryLexer<'_>), String> {
    let (QueryToken::Word(key), remaining) = tokens.next_token(false)? else {
        return tokens.fail("expected key");
    };
    let (QueryToken::Sign('@'), order_tokens) = remaining.next_token(false)? else {
        let order = PartOrder::First;
        return Ok((ProjectionPart { key, order }, remaining));
    };
    let (order, remaining) = match order_tokens.next_token(false)? {
        (QueryToken::Word(word), remaining) => match word.as_str() {
            "first" => (PartOrder::First, remaining),
            "alpha" => (PartOrder::Alpha, remaining),
            "num" => (PartOrder::Number, remaining),
            word => return order_tokens.fail(&format!("unknown order {word:?}")),
        },
        (QueryToken::Sign('('), remaining) => parse_fixed_order(remaining)?,
        _ => return order_tokens.fail("expected named sort order or parenthesized list"),
    };
    if matches!(order, PartOrder::Fixed(_)) && key == ".config" {
        return order_tokens.fail("fixed order not allowed for .config");
    }
    Ok((ProjectionPart { key, order }, remaining))
}

fn parse_fixed_order(mut tokens: QueryLexer<'_>) -> Result<(PartOrder, QueryLexer<'_>), String> {
    let mut values = Vec::new();
    loop {
        match tokens.next_token(false)? {
            (QueryToken::Word(value), remaining) => {
                values.push(value);
                tokens = remaining;
            }
            (QueryToken::Sign(')'), _) if values.is_empty() => {
                return tokens.fail("nothing to match");
            }
            (QueryToken::Sign(')'), remaining) => return Ok((PartOrder::Fixed(values), remaining)),
            _ => return tokens.fail("missing )"),
        }
    }
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
