//! Reads the column `configuration`: `n=1000 encoding='utf8'`.
//!
//! Decides how the two forms in use, JSON strings from `run.js` and `util.inspect` strings from
//! `compare.js`, become the same values. It must not know the rest of the row. Splitting at blanks
//! would be wrong, because values contain blanks (`s='x y'`). Start at [`parse`]; the opposite
//! direction is in `javascript`.

use super::number;
use speedwell_model::Value;

/// Why a text is no configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigurationError {
    /// A word without `=`.
    #[error("'{0}' is not of the form name=value")]
    NotAPair(String),
    /// A quoted value that does not end, or goes on behind its end.
    #[error("the quoted value at '{0}' does not end properly")]
    BadQuote(String),
    /// A backslash followed by something that JavaScript never writes.
    #[error("'{0}' begins with an unknown escape sequence")]
    BadEscape(String),
}

/// The parameters and values of `text`, in order.
///
/// # Errors
/// The text is not a list of `name=value` separated by blanks.
pub fn parse(text: &str) -> Result<Vec<(String, Value)>, ConfigurationError> {
    let mut values = Vec::new();
    let mut rest = text.trim_start_matches(' ');
    while !rest.is_empty() {
        let (name, tail) = rest
            .split_once('=')
            .filter(|(name, _)| !name.contains(' '))
            .ok_or_else(|| ConfigurationError::NotAPair(shorten(rest)))?;
        let (value, tail) = match tail.chars().next() {
            Some('"' | '\'' | '`') => string(tail)?,
            _ => {
                let end = tail.find(' ').unwrap_or(tail.len());
                (bare(&tail[..end]), &tail[end..])
            }
        };
        if !(tail.is_empty() || tail.starts_with(' ')) {
            return Err(ConfigurationError::BadQuote(shorten(rest)));
        }
        values.push((name.to_owned(), value));
        rest = tail.trim_start_matches(' ');
    }
    Ok(values)
}

/// The value of a word without quotes.
///
/// `null` is what JSON makes of numbers that are not finite.
pub fn bare(word: &str) -> Value {
    match word {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        "undefined" => Value::Text(word.to_owned()),
        _ => number::parse(word.as_bytes())
            .map_or_else(|| Value::Text(word.to_owned()), Value::Number),
    }
}

/// Reads one string, which `util.inspect` may have broken at its line ends: `'a\n' +` and the next
/// line `  'b'`.
fn string(text: &str) -> Result<(Value, &str), ConfigurationError> {
    let mut decoded = String::new();
    let mut rest = text;
    loop {
        rest = piece(rest, &mut decoded)?;
        match rest
            .strip_prefix(" +\n")
            .map(|tail| tail.trim_start_matches(' '))
        {
            Some(next) if next.starts_with(['"', '\'', '`']) => rest = next,
            _ => return Ok((Value::Text(decoded), rest)),
        }
    }
}

/// Decodes one quoted piece at the front of `text`; returns what follows it.
fn piece<'a>(text: &'a str, decoded: &mut String) -> Result<&'a str, ConfigurationError> {
    let unended = || ConfigurationError::BadQuote(shorten(text));
    let quote = text.chars().next().ok_or_else(unended)?;
    let mut rest = &text[quote.len_utf8()..];
    loop {
        let at = rest.find([quote, '\\']).ok_or_else(unended)?;
        decoded.push_str(&rest[..at]);
        rest = &rest[at..];
        match rest.strip_prefix(quote) {
            Some(tail) => return Ok(tail),
            None => rest = escape(rest, decoded)?,
        }
    }
}

/// Decodes the escape sequence at the front of `text`; returns what follows it.
fn escape<'a>(text: &'a str, decoded: &mut String) -> Result<&'a str, ConfigurationError> {
    let unknown = || ConfigurationError::BadEscape(shorten(text));
    let letter = text.chars().nth(1).ok_or_else(unknown)?;
    let plain = match letter {
        'b' => '\u{8}',
        't' => '\t',
        'n' => '\n',
        'v' => '\u{b}',
        'f' => '\u{c}',
        'r' => '\r',
        '0' => '\0',
        '\\' | '/' | '"' | '\'' | '`' => letter,
        'x' => {
            decoded.push(char::from(hex(text, 2, 2).ok_or_else(unknown)? as u8));
            return Ok(&text[4..]);
        }
        'u' => return unicode(text, decoded).ok_or_else(unknown),
        _ => return Err(unknown()),
    };
    decoded.push(plain);
    Ok(&text[1 + letter.len_utf8()..])
}

/// `\uD83D\uDE00` and the like. A half of a pair without the other half, which no Rust text can
/// hold, becomes the replacement character.
fn unicode<'a>(text: &'a str, decoded: &mut String) -> Option<&'a str> {
    let first = hex(text, 2, 4)?;
    let second = text[6..].strip_prefix("\\u").and_then(|_| hex(text, 8, 4));
    if let Some(second) = second
        && let Some(Ok(both)) = char::decode_utf16([first, second]).next()
        && both.len_utf16() == 2
    {
        decoded.push(both);
        return Some(&text[12..]);
    }
    decoded.push(char::from_u32(first.into()).unwrap_or(char::REPLACEMENT_CHARACTER));
    Some(&text[6..])
}

fn hex(text: &str, start: usize, digits: usize) -> Option<u16> {
    let digits = text.get(start..start + digits)?;
    let all_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    all_hex.then(|| u16::from_str_radix(digits, 16).ok())?
}

/// Enough of a text to find the place, not so much as to fill the screen.
fn shorten(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Value {
        let values = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(values.len(), 1, "{text}");
        values[0].1.clone()
    }

    #[test]
    fn both_forms_of_a_string_are_the_same_value() {
        for (json, inspect, meaning) in [
            (r#"q="a\"b""#, r#"q='a"b'"#, "a\"b"),
            (r#"q="e'f""#, r#"q="e'f""#, "e'f"),
            (r#"q="a'b\"c""#, r#"q=`a'b"c`"#, "a'b\"c"),
            (r#"q="g\nh""#, r#"q='g\nh'"#, "g\nh"),
            (r#"q="\u0000\u001b""#, r"q='\x00\x1B'", "\0\u{1b}"),
            (r#"q="x y=2 z=3""#, "q='x y=2 z=3'", "x y=2 z=3"),
            (r#"q="""#, "q=''", ""),
            (r#"q="é😀""#, r#"q="é\uD83D\uDE00""#, "é😀"),
            (r#"q="a\\""#, r"q='a\\'", "a\\"),
        ] {
            assert_eq!(one(json), Value::Text(meaning.into()), "{json}");
            assert_eq!(one(inspect), Value::Text(meaning.into()), "{inspect}");
        }
    }

    #[test]
    fn strings_broken_at_their_line_ends_are_put_together() {
        assert_eq!(
            one("q='a\\n' +\n  \"b'\\n\" +\n  'c'"),
            Value::Text("a\nb'\nc".into())
        );
    }

    #[test]
    fn words_without_quotes_are_numbers_and_truth_values() {
        assert_eq!(one("n=1e+21"), Value::Number(1e21));
        assert_eq!(one("n=-0.5"), Value::Number(-0.5));
        assert_eq!(one("keep=true"), Value::Bool(true));
        assert_eq!(one("kind=inf"), Value::Text("inf".into()));
        assert!(matches!(one("n=null"), Value::Number(n) if n.is_nan()));
        assert!(matches!(one("n=NaN"), Value::Number(n) if n.is_nan()));
    }

    #[test]
    fn order_is_kept_and_nothing_is_no_parameter() {
        let names: Vec<_> = parse("z='' n=5 a=\"\"")
            .unwrap()
            .into_iter()
            .map(|v| v.0)
            .collect();
        assert_eq!(names, ["z", "n", "a"]);
        assert_eq!(parse(""), Ok(Vec::new()));
    }

    #[test]
    fn broken_texts_say_where() {
        assert_eq!(
            parse("n=1 len"),
            Err(ConfigurationError::NotAPair("len".into()))
        );
        assert_eq!(
            parse("q='a"),
            Err(ConfigurationError::BadQuote("'a".into()))
        );
        assert_eq!(
            parse("q='a'b"),
            Err(ConfigurationError::BadQuote("q='a'b".into()))
        );
        assert_eq!(
            parse(r"q='\q'"),
            Err(ConfigurationError::BadEscape(r"\q'".into()))
        );
        assert_eq!(
            parse(r"q='\u12"),
            Err(ConfigurationError::BadEscape(r"\u12".into()))
        );
    }
}
