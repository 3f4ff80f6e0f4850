//! Formats and parses values and figures as the Node.js drivers write them.
//!
//! [`format_json`] matches `JSON.stringify` and [`format_inspected`] matches `util.inspect`, so
//! that rows are byte-identical to the rows that Node.js writes. [`parse_configuration`] reads the
//! output of both (`n=1000 encoding='utf8'`); splitting at blanks would be wrong, because values
//! may contain blanks (`s='x y'`). Times are whole nanoseconds, and their text is the exact decimal
//! number of seconds. This module knows nothing about the layout of result files.

use anyhow::{Context, Result, bail, ensure};
use speedwell_model::ParameterValue;

/// Formats a value like `JSON.stringify`.
pub fn format_json(value: &ParameterValue) -> String {
    match value {
        ParameterValue::Text(text) => serde_json::Value::from(text.as_str()).to_string(),
        // JSON cannot express a number that is not finite.
        ParameterValue::Number(number) if !number.is_finite() => "null".to_owned(),
        ParameterValue::Number(number) => format_number(*number),
        ParameterValue::Bool(truth) => truth.to_string(),
    }
}

/// Formats a value like `util.inspect`.
pub fn format_inspected(value: &ParameterValue) -> String {
    match value {
        ParameterValue::Text(text) => format_inspected_text(text),
        ParameterValue::Number(number) if *number == 0.0 && number.is_sign_negative() => {
            "-0".to_owned()
        }
        ParameterValue::Number(number) => format_number(*number),
        ParameterValue::Bool(truth) => truth.to_string(),
    }
}

/// Length at which `util.inspect` truncates strings (its option `maxStringLength`), in UTF-16
/// units.
const MAX_INSPECTED_UNITS: usize = 10_000;

/// Length above which `util.inspect` breaks multi-line strings: its option `breakLength` of 80,
/// minus 4. Observed with Node.js 18.20, 20.20 and 26.10.
const MAX_UNBROKEN_UNITS: usize = 76;

fn format_inspected_text(text: &str) -> String {
    let length = text.encode_utf16().count();
    if length > MAX_INSPECTED_UNITS {
        let omitted = length - MAX_INSPECTED_UNITS;
        let plural = if omitted == 1 { "" } else { "s" };
        let prefix = prefix_of_units(text, MAX_INSPECTED_UNITS);
        return format!(
            "{}... {omitted} more character{plural}",
            break_lines(prefix, MAX_INSPECTED_UNITS)
        );
    }
    break_lines(text, length)
}

/// Returns the longest prefix of `text` with at most `units` UTF-16 units.
fn prefix_of_units(text: &str, units: usize) -> &str {
    let mut length = 0;
    let end = text.char_indices().find(|(_, c)| {
        length += c.len_utf16();
        length > units
    });
    end.map_or(text, |(offset, _)| &text[..offset])
}

fn break_lines(text: &str, length: usize) -> String {
    if length <= MAX_UNBROKEN_UNITS {
        return quote_text(text);
    }
    let lines: Vec<String> = text.split_inclusive('\n').map(quote_text).collect();
    if lines.is_empty() { quote_text(text) } else { lines.join(" +\n  ") }
}

/// Quotes a string with the first suitable kind of quote: single, double, backtick. A quote is
/// suitable if the string does not contain it; for backticks, the string must not contain `${`
/// either. If none is suitable, single quotes are used, and those in the string are escaped.
fn quote_text(text: &str) -> String {
    let is_suitable =
        |quote: &char| !text.contains(*quote) && (*quote != '`' || !text.contains("${"));
    let quote = ['\'', '"', '`'].into_iter().find(is_suitable).unwrap_or('\'');
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote);
    for c in text.chars() {
        match c {
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            '\\' => out.push_str("\\\\"),
            '\'' if quote == '\'' => out.push_str("\\'"),
            '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => out.push_str(&format!("\\x{:02X}", c as u32)),
            other => out.push(other),
        }
    }
    out.push(quote);
    out
}

/// Parses a number.
///
/// The words `null`, `undefined` and `NaN`, which JavaScript prints for a missing number, become
/// NaN. Any other text that is not a number becomes `None`.
pub fn parse_number(text: &[u8]) -> Option<f64> {
    match text {
        [b'0'..=b'9' | b'-' | b'.', ..] => std::str::from_utf8(text).ok()?.parse().ok(),
        b"NaN" | b"null" | b"undefined" => Some(f64::NAN),
        b"Infinity" => Some(f64::INFINITY),
        _ => None,
    }
}

/// Parses a number in a numeric column as R parses it: an empty field and `NA` become NaN.
pub fn parse_figure(text: &[u8]) -> Option<f64> {
    match text {
        b"" | b"NA" => Some(f64::NAN),
        _ => parse_number(text),
    }
}

/// Returns whether [`parse_number`] would succeed. For short texts of digits with at most one
/// decimal point, the number is not computed.
pub fn is_number(text: &[u8]) -> bool {
    let is_short = matches!(text, [b'0'..=b'9', rest @ ..] if rest.len() < 20);
    let mut points = 0;
    let is_decimal = is_short
        && text.iter().all(|byte| {
            points += u32::from(*byte == b'.');
            byte.is_ascii_digit() || (*byte == b'.' && points == 1)
        });
    is_decimal || parse_number(text).is_some()
}

/// Returns the shortest text that reads back as the same number, in JavaScript's format (`1e+21`,
/// `0.05`).
pub fn format_number(number: f64) -> String {
    ryu_js::Buffer::new().format(number).to_owned()
}

/// Formats seconds with exactly nine decimals. An unknown time becomes `NaN`, which other
/// programs accept in a numeric column.
pub fn format_seconds(elapsed_ns: Option<u64>) -> String {
    match elapsed_ns {
        Some(ns) => format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000),
        None => "NaN".to_owned(),
    }
}

/// Parses seconds into nanoseconds; `None` if the text is not a time.
pub fn parse_nanoseconds(seconds: &[u8]) -> Option<u64> {
    parse_exact_nanoseconds(seconds).or_else(|| {
        // Older drivers wrote a plain number of seconds, sometimes with more than nine decimals.
        let ns = (parse_number(seconds)? * 1e9).round();
        (0.0..=2f64.powi(63)).contains(&ns).then_some(ns as u64)
    })
}

fn parse_exact_nanoseconds(seconds: &[u8]) -> Option<u64> {
    let (integer_part, fraction) = std::str::from_utf8(seconds).ok()?.split_once('.')?;
    let nine_digits = fraction.len() == 9 && fraction.bytes().all(|byte| byte.is_ascii_digit());
    let fraction: u64 = fraction.parse().ok().filter(|_| nine_digits)?;
    integer_part.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(fraction)
}

/// Parses the parameters and values of `text`, in order.
///
/// # Errors
/// Fails if the text is not a list of `name=value` separated by blanks.
pub fn parse_configuration(text: &str) -> Result<Vec<(String, ParameterValue)>> {
    let mut values = Vec::new();
    let mut rest = text.trim_start_matches(' ');
    while !rest.is_empty() {
        let pair = rest.split_once('=').filter(|(name, _)| !name.contains(' '));
        let (name, tail) =
            pair.with_context(|| format!("'{}' is not of the form name=value", shorten(rest)))?;
        let (value, tail) = match tail.chars().next() {
            Some('"' | '\'' | '`') => parse_string(tail)?,
            _ => {
                let end = tail.find(' ').unwrap_or(tail.len());
                (parse_bare(&tail[..end]), &tail[end..])
            }
        };
        ensure!(tail.is_empty() || tail.starts_with(' '), malformed_quote(rest));
        values.push((name.to_owned(), value));
        rest = tail.trim_start_matches(' ');
    }
    Ok(values)
}

/// Parses an unquoted value.
///
/// The word `null` becomes NaN, because JSON writes `null` for a number that is not finite.
pub fn parse_bare(word: &str) -> ParameterValue {
    match word {
        "true" => ParameterValue::Bool(true),
        "false" => ParameterValue::Bool(false),
        "undefined" => ParameterValue::Text(word.to_owned()),
        _ => parse_number(word.as_bytes())
            .map_or_else(|| ParameterValue::Text(word.to_owned()), ParameterValue::Number),
    }
}

/// Parses a quoted string. After each line end in the string, `util.inspect` may have broken the
/// text into `'a\n' +` and, on the next line, `  'b'`.
fn parse_string(text: &str) -> Result<(ParameterValue, &str)> {
    let mut decoded = String::new();
    let mut rest = text;
    loop {
        rest = decode_piece(rest, &mut decoded)?;
        match rest.strip_prefix(" +\n").map(|tail| tail.trim_start_matches(' ')) {
            Some(next) if next.starts_with(['"', '\'', '`']) => rest = next,
            _ => return Ok((ParameterValue::Text(decoded), rest)),
        }
    }
}

/// Decodes a quoted piece at the front of `text`; returns the rest.
fn decode_piece<'a>(text: &'a str, decoded: &mut String) -> Result<&'a str> {
    let unterminated = || malformed_quote(text);
    let quote = text.chars().next().with_context(unterminated)?;
    let mut rest = &text[quote.len_utf8()..];
    loop {
        let index = rest.find([quote, '\\']).with_context(unterminated)?;
        decoded.push_str(&rest[..index]);
        rest = &rest[index..];
        match rest.strip_prefix(quote) {
            Some(tail) => return Ok(tail),
            None => rest = decode_escape(rest, decoded)?,
        }
    }
}

/// Decodes an escape sequence at the front of `text`; returns the rest.
fn decode_escape<'a>(text: &'a str, decoded: &mut String) -> Result<&'a str> {
    let unknown = || format!("'{}' begins with an unknown escape sequence", shorten(text));
    let escaped = text.chars().nth(1).with_context(unknown)?;
    let character = match escaped {
        'b' => '\u{8}',
        't' => '\t',
        'n' => '\n',
        'v' => '\u{b}',
        'f' => '\u{c}',
        'r' => '\r',
        '0' => '\0',
        '\\' | '/' | '"' | '\'' | '`' => escaped,
        'x' => {
            decoded.push(char::from(parse_hex(text, 2, 2).with_context(unknown)? as u8));
            return Ok(&text[4..]);
        }
        'u' => return decode_unicode(text, decoded).with_context(unknown),
        _ => bail!(unknown()),
    };
    decoded.push(character);
    Ok(&text[1 + escaped.len_utf8()..])
}

/// Decodes `\uD83D\uDE00` and the like. An unpaired surrogate, which a Rust string cannot hold,
/// becomes the replacement character.
fn decode_unicode<'a>(text: &'a str, decoded: &mut String) -> Option<&'a str> {
    let first = parse_hex(text, 2, 4)?;
    let second = text[6..].strip_prefix("\\u").and_then(|_| parse_hex(text, 8, 4));
    if let Some(second) = second
        && let Some(Ok(character)) = char::decode_utf16([first, second]).next()
        && character.len_utf16() == 2
    {
        decoded.push(character);
        return Some(&text[12..]);
    }
    decoded.push(char::from_u32(first.into()).unwrap_or(char::REPLACEMENT_CHARACTER));
    Some(&text[6..])
}

fn parse_hex(text: &str, start: usize, digits: usize) -> Option<u16> {
    let digits = text.get(start..start + digits)?;
    let all_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    all_hex.then(|| u16::from_str_radix(digits, 16).ok())?
}

/// Explains that a quoted value is not terminated, or followed by other text.
fn malformed_quote(text: &str) -> String {
    format!("the quoted value at '{}' is malformed", shorten(text))
}

/// Shortens a string for messages. The beginning suffices to find the string in its file.
fn shorten(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node_csv::javascript;

    fn text_value(text: &str) -> ParameterValue {
        ParameterValue::Text(text.into())
    }

    /// The expected strings were printed by `util.inspect` of Node.js 18.20, 20.20 and 26.10.
    #[test]
    fn strings_are_formatted_as_node_inspects_them() {
        for (value, printed) in [
            ("utf8", "'utf8'"),
            ("a\"b", "'a\"b'"),
            ("e'f", "\"e'f\""),
            ("a'b\"c", "`a'b\"c`"),
            ("a'b\"c`d", "'a\\'b\"c`d'"),
            ("x${y}'\"", "'x${y}\\'\"'"),
            (
                "\0\u{1b}\u{7f}\u{85}\u{a0}\u{b}\u{8}\u{c}\r\t\\",
                "'\\x00\\x1B\\x7F\\x85\u{a0}\\x0B\\b\\f\\r\\t\\\\'",
            ),
            ("é😀", "'é😀'"),
            ("", "''"),
            ("ab\nab\n", "'ab\\nab\\n'"),
        ] {
            assert_eq!(format_inspected(&text_value(value)), printed);
        }
    }

    #[test]
    fn long_strings_are_broken_after_their_line_ends() {
        let short = format!("{}\nz", "y".repeat(74));
        let long = format!("{}\nz", "y".repeat(75));
        assert_eq!(format_inspected(&text_value(&short)), format!("'{}\\nz'", "y".repeat(74)));
        assert_eq!(
            format_inspected(&text_value(&long)),
            format!("'{}\\n' +\n  'z'", "y".repeat(75))
        );
        assert_eq!(
            format_inspected(&text_value(&"y".repeat(200))),
            format!("'{}'", "y".repeat(200))
        );
    }

    #[test]
    fn very_long_strings_are_cut_where_node_cuts_them() {
        let printed = format_inspected(&text_value(&"z".repeat(10_005)));
        assert_eq!(printed, format!("'{}'... 5 more characters", "z".repeat(10_000)));
        assert!(
            format_inspected(&text_value(&"z".repeat(10_001))).ends_with("... 1 more character")
        );
    }

    #[test]
    fn json_and_inspect_agree_except_on_negative_zero_and_nonfinite_numbers() {
        for (number, as_json, inspected) in [
            (1e21, "1e+21", "1e+21"),
            (0.1 + 0.2, "0.30000000000000004", "0.30000000000000004"),
            (-0.0, "0", "-0"),
            (f64::NAN, "null", "NaN"),
            (f64::INFINITY, "null", "Infinity"),
        ] {
            assert_eq!(format_json(&ParameterValue::Number(number)), as_json);
            assert_eq!(format_inspected(&ParameterValue::Number(number)), inspected);
        }
        assert_eq!(format_json(&ParameterValue::Bool(true)), "true");
        assert_eq!(format_inspected(&ParameterValue::Bool(false)), "false");
    }

    #[test]
    fn formatted_strings_round_trip() {
        for awkward in ["x y", "a\"b'c`${d", "g\r\nh", "\u{7f}\u{9f}\u{2028}", "=", "\\x41", "😀"]
        {
            let long = format!("{awkward}\n").repeat(60);
            for value in [text_value(awkward), text_value(&long)] {
                for formatted in [format_json(&value), format_inspected(&value)] {
                    let parsed =
                        javascript::parse_configuration(&format!("k={formatted} n=1")).unwrap();
                    assert_eq!(parsed[0].1, value, "{formatted}");
                    assert_eq!(parsed.len(), 2);
                }
            }
        }
    }

    #[test]
    fn times_keep_every_nanosecond() {
        for (ns, text) in [
            (880_068, "0.000880068"),
            (0, "0.000000000"),
            (9_007_199_254_740_993, "9007199.254740993"),
        ] {
            assert_eq!(format_seconds(Some(ns)), text);
            assert_eq!(parse_nanoseconds(text.as_bytes()), Some(ns));
        }
    }

    #[test]
    fn times_of_older_drivers_are_plain_numbers() {
        assert_eq!(parse_nanoseconds(b"0.5"), Some(500_000_000));
        assert_eq!(parse_nanoseconds(b"2"), Some(2_000_000_000));
        assert_eq!(parse_nanoseconds(b"1.5e-7"), Some(150));
        for none in ["", "NaN", "undefined", "-1", "soon"] {
            assert_eq!(parse_nanoseconds(none.as_bytes()), None, "{none}");
        }
    }

    #[test]
    fn rates_read_back_as_the_same_number() {
        for text in ["1136275.8332310684", "1e+21", "0.05", "1.7976931348623157e+308", "5"] {
            assert_eq!(format_number(parse_number(text.as_bytes()).unwrap()), text);
        }
        assert!(parse_number(b"null").unwrap().is_nan());
        for number in ["0.000880068", "5", "1e-7", "-1", "7."] {
            assert!(
                is_number(number.as_bytes()) && parse_number(number.as_bytes()).is_some(),
                "{number}"
            );
        }
        for word in ["", "inf", "nan", "abc", "12 apples", "1,000", "1.2.3"] {
            assert_eq!(parse_number(word.as_bytes()), None, "{word}");
            assert!(!is_number(word.as_bytes()), "{word}");
        }
    }

    fn parse_single(text: &str) -> ParameterValue {
        let values = parse_configuration(text).unwrap_or_else(|error| panic!("{text}: {error}"));
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
            assert_eq!(parse_single(json), ParameterValue::Text(meaning.into()), "{json}");
            assert_eq!(parse_single(inspect), ParameterValue::Text(meaning.into()), "{inspect}");
        }
    }

    #[test]
    fn strings_broken_at_their_line_ends_are_put_together() {
        assert_eq!(
            parse_single("q='a\\n' +\n  \"b'\\n\" +\n  'c'"),
            ParameterValue::Text("a\nb'\nc".into())
        );
    }

    #[test]
    fn unquoted_words_are_numbers_booleans_or_strings() {
        assert_eq!(parse_single("n=1e+21"), ParameterValue::Number(1e21));
        assert_eq!(parse_single("n=-0.5"), ParameterValue::Number(-0.5));
        assert_eq!(parse_single("keep=true"), ParameterValue::Bool(true));
        assert_eq!(parse_single("kind=inf"), ParameterValue::Text("inf".into()));
        assert!(matches!(parse_single("n=null"), ParameterValue::Number(n) if n.is_nan()));
        assert!(matches!(parse_single("n=NaN"), ParameterValue::Number(n) if n.is_nan()));
    }

    #[test]
    fn parameters_keep_their_order_and_an_empty_text_has_no_parameters() {
        let names: Vec<_> =
            parse_configuration("z='' n=5 a=\"\"").unwrap().into_iter().map(|v| v.0).collect();
        assert_eq!(names, ["z", "n", "a"]);
        assert!(parse_configuration("").unwrap().is_empty());
    }

    #[test]
    fn errors_quote_the_malformed_text() {
        for (text, message) in [
            ("n=1 len", "'len' is not of the form name=value"),
            ("q='a", "the quoted value at ''a' is malformed"),
            ("q='a'b", "the quoted value at 'q='a'b' is malformed"),
            (r"q='\q'", r"'\q'' begins with an unknown escape sequence"),
            (r"q='\u12", r"'\u12' begins with an unknown escape sequence"),
        ] {
            assert_eq!(parse_configuration(text).unwrap_err().to_string(), message);
        }
    }
}
