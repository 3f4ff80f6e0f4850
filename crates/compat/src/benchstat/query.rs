//! Parses the two expression languages of benchstat's options: filters (`key:value`, AND, OR, `-`,
//! parentheses, patterns between slashes) and projections (`key@order,...`). `keys.rs` gives them
//! their meaning. Start at [`parse_filter`] and [`parse_projection`].

use regex::Regex;

/// Filter for results.
#[derive(Debug, Clone)]
pub enum BenchstatFilter {
    /// Matches if all do; without any, everything matches.
    And(Vec<BenchstatFilter>),
    /// Matches if at least one does.
    Or(Vec<BenchstatFilter>),
    /// Matches if the filter does not.
    Not(Box<BenchstatFilter>),
    /// Matches a key with a value.
    Match(String, ValuePattern),
}

/// Value that a key must have.
#[derive(Debug, Clone)]
pub enum ValuePattern {
    /// Exactly this text.
    Text(String),
    /// Any text that contains a match of this pattern.
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
    /// Numeric, with unit prefixes.
    Number,
    /// As listed; other values are excluded.
    Fixed(Vec<String>),
}

/// Formats a syntax error with a mark below its position.
fn syntax_error(text: &str, at: usize, why: &str) -> String {
    let place = text
        .char_indices()
        .take_while(|(byte, _)| *byte < at)
        .count();
    format!("{why}\n\t{text}\n\t{:place$}^", "")
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

/// Splits a text into tokens.
#[derive(Debug, Clone, Copy)]
struct QueryLexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> QueryLexer<'a> {
    fn new(text: &'a str) -> QueryLexer<'a> {
        QueryLexer { text, at: 0 }
    }

    fn fail_here<T>(&self, why: &str) -> Result<T, String> {
        Err(syntax_error(self.text, self.at, why))
    }

    fn skip_blanks(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    /// Returns the next token and the remaining tokens. Patterns are recognized only where a value
    /// may appear.
    fn next_token(mut self, is_value: bool) -> Result<(QueryToken, QueryLexer<'a>), String> {
        self.skip_blanks();
        let rest = &self.text[self.at..];
        let after = |length: usize| QueryLexer {
            at: self.at + length,
            ..self
        };
        let Some(first) = rest.chars().next() else {
            return Ok((QueryToken::End, self));
        };
        match first {
            '(' | ')' | ':' | '@' | ',' | '-' | '*' => Ok((QueryToken::Sign(first), after(1))),
            '/' if is_value => {
                let Some(length) = pattern_length(&rest[1..]) else {
                    return self.fail_here("missing close \"/\"");
                };
                let next = after(length + 2);
                let follows = next.text[next.at..].chars().next();
                if follows.is_some_and(|c| !c.is_whitespace() && !"():@,-*".contains(c)) {
                    return next.fail_here(
                        "regexp must be followed by space or an operator (unescaped \"/\"?)",
                    );
                }
                Ok((QueryToken::Pattern(rest[1..=length].to_owned()), next))
            }
            '"' => {
                let Some(length) = quoted_length(rest) else {
                    return self.fail_here("missing end quote");
                };
                match serde_json::from_str(&rest[..length]) {
                    Ok(word) => Ok((QueryToken::Word(word), after(length))),
                    Err(_) => self.fail_here("bad escape sequence"),
                }
            }
            _ => {
                let is_end = |c: char| c.is_whitespace() || "():@,".contains(c);
                let length = rest.find(is_end).unwrap_or(rest.len());
                let token = match &rest[..length] {
                    "AND" => QueryToken::And,
                    "OR" => QueryToken::Or,
                    word => QueryToken::Word(word.to_owned()),
                };
                Ok((token, after(length)))
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
                let mut here = self;
                here.skip_blanks();
                here.fail_here(&format!("unexpected {:?}", QueryLexer::token_text(&token)))
            }
        }
    }
}

/// Returns the length of a quoted text, including both quotes.
fn quoted_length(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let is_end = |at: &usize| bytes[*at] == b'"' && bytes[at - 1] != b'\\';
    (1..bytes.len()).find(is_end).map(|at| at + 1)
}

/// Returns the position of the end of a pattern: the first unescaped slash outside classes and
/// groups.
fn pattern_length(text: &str) -> Option<usize> {
    let (mut classes, mut groups) = (0i32, 0i32);
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'/' if classes == 0 && groups == 0 => return Some(at),
            b'[' => classes += 1,
            b']' => classes = (classes - 1).max(0),
            b'(' if classes == 0 => groups += 1,
            b')' if classes == 0 => groups -= 1,
            b'\\' => at += 1,
            _ => {}
        }
        at += 1;
    }
    None
}

/// Parses a filter.
///
/// # Errors
/// Returns the position and the reason of a syntax error.
pub fn parse_filter(text: &str) -> Result<BenchstatFilter, String> {
    let (filter, rest) = parse_or(QueryLexer::new(text))?;
    rest.expect_end()?;
    Ok(filter)
}

fn parse_or(mut tokens: QueryLexer<'_>) -> Result<(BenchstatFilter, QueryLexer<'_>), String> {
    let mut terms = Vec::new();
    loop {
        let (term, rest) = parse_and(tokens)?;
        terms.push(term);
        tokens = rest;
        match tokens.next_token(false)? {
            (QueryToken::Or, rest) => tokens = rest,
            _ => break,
        }
    }
    Ok((single_or_list(terms, BenchstatFilter::Or), tokens))
}

fn parse_and(tokens: QueryLexer<'_>) -> Result<(BenchstatFilter, QueryLexer<'_>), String> {
    let (first, mut tokens) = parse_term(tokens)?;
    let mut terms = vec![first];
    loop {
        let (token, rest) = tokens.next_token(false)?;
        match token {
            QueryToken::And => tokens = rest,
            QueryToken::Sign('(' | '-' | '*') | QueryToken::Word(_) => {
                let (term, rest) = parse_term(tokens)?;
                terms.push(term);
                tokens = rest;
            }
            QueryToken::Sign(')') | QueryToken::Or | QueryToken::End => break,
            other => {
                tokens.skip_blanks();
                return tokens
                    .fail_here(&format!("unexpected {:?}", QueryLexer::token_text(&other)));
            }
        }
    }
    Ok((single_or_list(terms, BenchstatFilter::And), tokens))
}

fn single_or_list(
    mut terms: Vec<BenchstatFilter>,
    many: fn(Vec<BenchstatFilter>) -> BenchstatFilter,
) -> BenchstatFilter {
    match terms.len() {
        1 => terms.remove(0),
        _ => many(terms),
    }
}

fn parse_term(start: QueryLexer<'_>) -> Result<(BenchstatFilter, QueryLexer<'_>), String> {
    let (token, rest) = start.next_token(false)?;
    match token {
        QueryToken::Sign('(') => {
            let (inner, rest) = parse_or(rest)?;
            match rest.next_token(false)? {
                (QueryToken::Sign(')'), after) => Ok((inner, after)),
                _ => rest.fail_here("missing \")\""),
            }
        }
        QueryToken::Sign('-') => {
            let (inner, rest) = parse_term(rest)?;
            Ok((BenchstatFilter::Not(Box::new(inner)), rest))
        }
        QueryToken::Sign('*') => Ok((BenchstatFilter::And(Vec::new()), rest)),
        QueryToken::Word(key) => {
            let (QueryToken::Sign(':'), rest) = rest.next_token(false)? else {
                return start.fail_here("expected key:value");
            };
            match rest.next_token(true)? {
                (QueryToken::Sign('('), rest) => parse_value_list(&key, rest),
                (value, after) => match parse_value(&value, rest)? {
                    Some(wanted) => Ok((BenchstatFilter::Match(key, wanted), after)),
                    None => start.fail_here("expected key:value"),
                },
            }
        }
        _ => start.fail_here("expected key:value or subexpression"),
    }
}

/// Parses `(a OR /b/)` after a key.
fn parse_value_list<'a>(
    key: &str,
    mut tokens: QueryLexer<'a>,
) -> Result<(BenchstatFilter, QueryLexer<'a>), String> {
    let mut terms = Vec::new();
    loop {
        let (value, rest) = tokens.next_token(true)?;
        let Some(wanted) = parse_value(&value, tokens)? else {
            return tokens.fail_here("expected value");
        };
        terms.push(BenchstatFilter::Match(key.to_owned(), wanted));
        tokens = match rest.next_token(true)? {
            (QueryToken::Sign(')'), rest) => return Ok((BenchstatFilter::Or(terms), rest)),
            (QueryToken::Or, rest) => rest,
            _ => return rest.fail_here("value list must be separated by OR"),
        };
    }
}

fn parse_value(token: &QueryToken, at: QueryLexer<'_>) -> Result<Option<ValuePattern>, String> {
    match token {
        QueryToken::Word(text) => Ok(Some(ValuePattern::Text(text.clone()))),
        QueryToken::Pattern(text) => match Regex::new(text) {
            Ok(pattern) => Ok(Some(ValuePattern::Pattern(pattern))),
            Err(error) => at.fail_here(&error.to_string()),
        },
        _ => Ok(None),
    }
}

/// Parses a projection.
///
/// # Errors
/// Returns the position and the reason of a syntax error.
pub fn parse_projection(text: &str) -> Result<Vec<ProjectionPart>, String> {
    let mut parts = Vec::new();
    let mut tokens = QueryLexer::new(text);
    loop {
        match tokens.next_token(false)? {
            (QueryToken::End, _) => return Ok(parts),
            (QueryToken::Sign(','), rest) if !parts.is_empty() => tokens = rest,
            _ => {}
        }
        let (part, rest) = parse_part(tokens)?;
        parts.push(part);
        tokens = rest;
    }
}

fn parse_part(tokens: QueryLexer<'_>) -> Result<(ProjectionPart, QueryLexer<'_>), String> {
    let (QueryToken::Word(key), rest) = tokens.next_token(false)? else {
        return tokens.fail_here("expected key");
    };
    let (QueryToken::Sign('@'), rest_of_order) = rest.next_token(false)? else {
        let order = PartOrder::First;
        return Ok((ProjectionPart { key, order }, rest));
    };
    let (order, after) = match rest_of_order.next_token(false)? {
        (QueryToken::Word(word), after) => match word.as_str() {
            "first" => (PartOrder::First, after),
            "alpha" => (PartOrder::Alpha, after),
            "num" => (PartOrder::Number, after),
            word => return rest_of_order.fail_here(&format!("unknown order {word:?}")),
        },
        (QueryToken::Sign('('), after) => parse_fixed_order(after)?,
        _ => return rest_of_order.fail_here("expected named sort order or parenthesized list"),
    };
    if is_fixed_order(&order) && key == ".config" {
        return rest_of_order.fail_here("fixed order not allowed for .config");
    }
    Ok((ProjectionPart { key, order }, after))
}

fn is_fixed_order(order: &PartOrder) -> bool {
    matches!(order, PartOrder::Fixed(_))
}

fn parse_fixed_order(mut tokens: QueryLexer<'_>) -> Result<(PartOrder, QueryLexer<'_>), String> {
    let mut words = Vec::new();
    loop {
        match tokens.next_token(false)? {
            (QueryToken::Word(word), rest) => {
                words.push(word);
                tokens = rest;
            }
            (QueryToken::Sign(')'), _) if words.is_empty() => {
                return tokens.fail_here("nothing to match");
            }
            (QueryToken::Sign(')'), rest) => return Ok((PartOrder::Fixed(words), rest)),
            _ => return tokens.fail_here("missing )"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_bind_as_in_the_original() {
        let shown = |text: &str| format!("{:?}", parse_filter(text).unwrap());
        assert_eq!(shown("*"), "And([])");
        assert_eq!(shown("a:1 b:2 OR c:3"), shown("(a:1 AND b:2) OR c:3"));
        assert_eq!(shown("a:(1 OR 2)"), shown("a:1 OR a:2"));
        assert_eq!(
            shown(r#"-"a b":"c d""#),
            r#"Not(Match("a b", Text("c d")))"#
        );
        assert!(shown("/align:/^[/0]$/ .unit:sec/op").contains("^[/0]$"));
    }

    #[test]
    fn projections_have_keys_and_orders() {
        let part = |key: &str, order| ProjectionPart {
            key: key.to_owned(),
            order,
        };
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
    fn what_cannot_be_read_is_marked() {
        for text in [
            "a", "a:", "(a:1", "a:(1 2)", "a:/x", "a:\"", "a:/[/", ")", "a:1)", "a:/x/y", "",
        ] {
            assert!(parse_filter(text).is_err(), "{text}");
        }
        for text in [",", "a@", "a@()", "a@(b", "a@up", ".config@(a)", ":"] {
            assert!(parse_projection(text).is_err(), "{text}");
        }
        let error = parse_filter("a:1 :").unwrap_err();
        assert!(error.ends_with("\n\ta:1 :\n\t    ^"), "{error}");
    }
}
