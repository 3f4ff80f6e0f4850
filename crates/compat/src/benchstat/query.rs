//! Parses the two expression languages of benchstat's options: filters (`key:value`, AND, OR, `-`,
//! parentheses, patterns between slashes) and projections (`key@order,...`). `keys.rs` gives them
//! their meaning. Start at [`filter`] and [`projection`].

use regex::Regex;

/// Filter for results.
#[derive(Debug, Clone)]
pub enum Filter {
    /// Matches if all do; without any, everything matches.
    And(Vec<Filter>),
    /// Matches if at least one does.
    Or(Vec<Filter>),
    /// Matches if the filter does not.
    Not(Box<Filter>),
    /// Matches a key with a value.
    Match(String, Wanted),
}

/// Value that a key must have.
#[derive(Debug, Clone)]
pub enum Wanted {
    /// Exactly this text.
    Text(String),
    /// Any text that contains a match of this pattern.
    Pattern(Regex),
}

impl Wanted {
    /// Whether the value matches.
    pub fn is(&self, value: &str) -> bool {
        match self {
            Wanted::Text(text) => text == value,
            Wanted::Pattern(pattern) => pattern.is_match(value),
        }
    }
}

/// One part of a projection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
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
fn mistake(text: &str, at: usize, why: &str) -> String {
    let place = text
        .char_indices()
        .take_while(|(byte, _)| *byte < at)
        .count();
    format!("{why}\n\t{text}\n\t{:place$}^", "")
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    End,
    Sign(char),
    And,
    Or,
    Word(String),
    Pattern(String),
}

/// Splits a text into tokens.
#[derive(Debug, Clone, Copy)]
struct Tokens<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Tokens<'a> {
    fn new(text: &'a str) -> Tokens<'a> {
        Tokens { text, at: 0 }
    }

    fn error<T>(&self, why: &str) -> Result<T, String> {
        Err(mistake(self.text, self.at, why))
    }

    fn skip_blanks(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    /// Returns the next token and the remaining tokens. Patterns are recognized only where a value
    /// may appear.
    fn next(mut self, is_value: bool) -> Result<(Token, Tokens<'a>), String> {
        self.skip_blanks();
        let rest = &self.text[self.at..];
        let after = |length: usize| Tokens {
            at: self.at + length,
            ..self
        };
        let Some(first) = rest.chars().next() else {
            return Ok((Token::End, self));
        };
        match first {
            '(' | ')' | ':' | '@' | ',' | '-' | '*' => Ok((Token::Sign(first), after(1))),
            '/' if is_value => {
                let Some(length) = pattern_length(&rest[1..]) else {
                    return self.error("missing close \"/\"");
                };
                let next = after(length + 2);
                let follows = next.text[next.at..].chars().next();
                if follows.is_some_and(|c| !c.is_whitespace() && !"():@,-*".contains(c)) {
                    return next.error(
                        "regexp must be followed by space or an operator (unescaped \"/\"?)",
                    );
                }
                Ok((Token::Pattern(rest[1..=length].to_owned()), next))
            }
            '"' => {
                let Some(length) = quoted_length(rest) else {
                    return self.error("missing end quote");
                };
                match serde_json::from_str(&rest[..length]) {
                    Ok(word) => Ok((Token::Word(word), after(length))),
                    Err(_) => self.error("bad escape sequence"),
                }
            }
            _ => {
                let is_end = |c: char| c.is_whitespace() || "():@,".contains(c);
                let length = rest.find(is_end).unwrap_or(rest.len());
                let token = match &rest[..length] {
                    "AND" => Token::And,
                    "OR" => Token::Or,
                    word => Token::Word(word.to_owned()),
                };
                Ok((token, after(length)))
            }
        }
    }

    fn shown(token: &Token) -> String {
        match token {
            Token::Sign(sign) => sign.to_string(),
            Token::And => "AND".to_owned(),
            Token::Or => "OR".to_owned(),
            Token::Word(text) | Token::Pattern(text) => text.clone(),
            Token::End => String::new(),
        }
    }

    fn end(self) -> Result<(), String> {
        match self.next(false)? {
            (Token::End, _) => Ok(()),
            (token, _) => {
                let mut here = self;
                here.skip_blanks();
                here.error(&format!("unexpected {:?}", Tokens::shown(&token)))
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
pub fn filter(text: &str) -> Result<Filter, String> {
    let (filter, rest) = either(Tokens::new(text))?;
    rest.end()?;
    Ok(filter)
}

fn either(mut tokens: Tokens<'_>) -> Result<(Filter, Tokens<'_>), String> {
    let mut terms = Vec::new();
    loop {
        let (term, rest) = all_of(tokens)?;
        terms.push(term);
        tokens = rest;
        match tokens.next(false)? {
            (Token::Or, rest) => tokens = rest,
            _ => break,
        }
    }
    Ok((alone_or(terms, Filter::Or), tokens))
}

fn all_of(tokens: Tokens<'_>) -> Result<(Filter, Tokens<'_>), String> {
    let (first, mut tokens) = single(tokens)?;
    let mut terms = vec![first];
    loop {
        let (token, rest) = tokens.next(false)?;
        match token {
            Token::And => tokens = rest,
            Token::Sign('(' | '-' | '*') | Token::Word(_) => {
                let (term, rest) = single(tokens)?;
                terms.push(term);
                tokens = rest;
            }
            Token::Sign(')') | Token::Or | Token::End => break,
            other => {
                tokens.skip_blanks();
                return tokens.error(&format!("unexpected {:?}", Tokens::shown(&other)));
            }
        }
    }
    Ok((alone_or(terms, Filter::And), tokens))
}

fn alone_or(mut terms: Vec<Filter>, many: fn(Vec<Filter>) -> Filter) -> Filter {
    match terms.len() {
        1 => terms.remove(0),
        _ => many(terms),
    }
}

fn single(start: Tokens<'_>) -> Result<(Filter, Tokens<'_>), String> {
    let (token, rest) = start.next(false)?;
    match token {
        Token::Sign('(') => {
            let (inner, rest) = either(rest)?;
            match rest.next(false)? {
                (Token::Sign(')'), after) => Ok((inner, after)),
                _ => rest.error("missing \")\""),
            }
        }
        Token::Sign('-') => {
            let (inner, rest) = single(rest)?;
            Ok((Filter::Not(Box::new(inner)), rest))
        }
        Token::Sign('*') => Ok((Filter::And(Vec::new()), rest)),
        Token::Word(key) => {
            let (Token::Sign(':'), rest) = rest.next(false)? else {
                return start.error("expected key:value");
            };
            match rest.next(true)? {
                (Token::Sign('('), rest) => listed(&key, rest),
                (value, after) => match wanted(&value, rest)? {
                    Some(wanted) => Ok((Filter::Match(key, wanted), after)),
                    None => start.error("expected key:value"),
                },
            }
        }
        _ => start.error("expected key:value or subexpression"),
    }
}

/// Parses `(a OR /b/)` after a key.
fn listed<'a>(key: &str, mut tokens: Tokens<'a>) -> Result<(Filter, Tokens<'a>), String> {
    let mut terms = Vec::new();
    loop {
        let (value, rest) = tokens.next(true)?;
        let Some(wanted) = wanted(&value, tokens)? else {
            return tokens.error("expected value");
        };
        terms.push(Filter::Match(key.to_owned(), wanted));
        tokens = match rest.next(true)? {
            (Token::Sign(')'), rest) => return Ok((Filter::Or(terms), rest)),
            (Token::Or, rest) => rest,
            _ => return rest.error("value list must be separated by OR"),
        };
    }
}

fn wanted(token: &Token, at: Tokens<'_>) -> Result<Option<Wanted>, String> {
    match token {
        Token::Word(text) => Ok(Some(Wanted::Text(text.clone()))),
        Token::Pattern(text) => match Regex::new(text) {
            Ok(pattern) => Ok(Some(Wanted::Pattern(pattern))),
            Err(error) => at.error(&error.to_string()),
        },
        _ => Ok(None),
    }
}

/// Parses a projection.
///
/// # Errors
/// Returns the position and the reason of a syntax error.
pub fn projection(text: &str) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    let mut tokens = Tokens::new(text);
    loop {
        match tokens.next(false)? {
            (Token::End, _) => return Ok(parts),
            (Token::Sign(','), rest) if !parts.is_empty() => tokens = rest,
            _ => {}
        }
        let (part, rest) = part(tokens)?;
        parts.push(part);
        tokens = rest;
    }
}

fn part(tokens: Tokens<'_>) -> Result<(Part, Tokens<'_>), String> {
    let (Token::Word(key), rest) = tokens.next(false)? else {
        return tokens.error("expected key");
    };
    let (Token::Sign('@'), rest_of_order) = rest.next(false)? else {
        let order = PartOrder::First;
        return Ok((Part { key, order }, rest));
    };
    let (order, after) = match rest_of_order.next(false)? {
        (Token::Word(word), after) => match word.as_str() {
            "first" => (PartOrder::First, after),
            "alpha" => (PartOrder::Alpha, after),
            "num" => (PartOrder::Number, after),
            word => return rest_of_order.error(&format!("unknown order {word:?}")),
        },
        (Token::Sign('('), after) => fixed(after)?,
        _ => return rest_of_order.error("expected named sort order or parenthesized list"),
    };
    if order_is_fixed(&order) && key == ".config" {
        return rest_of_order.error("fixed order not allowed for .config");
    }
    Ok((Part { key, order }, after))
}

fn order_is_fixed(order: &PartOrder) -> bool {
    matches!(order, PartOrder::Fixed(_))
}

fn fixed(mut tokens: Tokens<'_>) -> Result<(PartOrder, Tokens<'_>), String> {
    let mut words = Vec::new();
    loop {
        match tokens.next(false)? {
            (Token::Word(word), rest) => {
                words.push(word);
                tokens = rest;
            }
            (Token::Sign(')'), _) if words.is_empty() => return tokens.error("nothing to match"),
            (Token::Sign(')'), rest) => return Ok((PartOrder::Fixed(words), rest)),
            _ => return tokens.error("missing )"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_bind_as_in_the_original() {
        let shown = |text: &str| format!("{:?}", filter(text).unwrap());
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
        let part = |key: &str, order| Part {
            key: key.to_owned(),
            order,
        };
        let fixed = PartOrder::Fixed(vec!["b".to_owned(), "a".to_owned()]);
        assert_eq!(
            projection("goos,/size@num .name@(b a)").unwrap(),
            [
                part("goos", PartOrder::First),
                part("/size", PartOrder::Number),
                part(".name", fixed)
            ]
        );
        assert_eq!(projection("").unwrap(), []);
    }

    #[test]
    fn what_cannot_be_read_is_marked() {
        for text in [
            "a", "a:", "(a:1", "a:(1 2)", "a:/x", "a:\"", "a:/[/", ")", "a:1)", "a:/x/y", "",
        ] {
            assert!(filter(text).is_err(), "{text}");
        }
        for text in [",", "a@", "a@()", "a@(b", "a@up", ".config@(a)", ":"] {
            assert!(projection(text).is_err(), "{text}");
        }
        let error = filter("a:1 :").unwrap_err();
        assert!(error.ends_with("\n\ta:1 :\n\t    ^"), "{error}");
    }
}
