//! Finds the words, literals and comments of source code by patterns. Decides only where they begin
//! and end, not what they mean. Start at [`token_at`].

use regex::Regex;
use std::path::Path;
use std::sync::LazyLock;

/// Lexical syntax of a language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceSyntax {
    Go,
    Rust,
    Python,
    /// JavaScript and TypeScript.
    Script,
    /// C, C++.
    C,
    Java,
}

impl SourceSyntax {
    /// Selects the syntax by file extension.
    pub fn from_file(file: &Path) -> Option<SourceSyntax> {
        Some(match file.extension()?.to_str()? {
            "go" => SourceSyntax::Go,
            "rs" => SourceSyntax::Rust,
            "py" => SourceSyntax::Python,
            "js" | "cjs" | "mjs" | "ts" | "cts" | "mts" | "jsx" | "tsx" => SourceSyntax::Script,
            "c" | "cc" | "cpp" | "cxx" | "h" | "hh" | "hpp" | "hxx" => SourceSyntax::C,
            "java" => SourceSyntax::Java,
            _ => return None,
        })
    }
}

/// Kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// A name, a keyword or a number.
    Word,
    /// A literal with its quotes, or a compiler directive.
    Text,
    /// A comment.
    Comment,
    /// Any other single character.
    Mark,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceToken {
    pub kind: TokenKind,
    /// Characters of the token.
    pub text: String,
    /// Column of the token, if it is the first token of its line.
    pub column: Option<usize>,
}

impl SourceToken {
    /// Whether the token is this single character.
    pub fn is(&self, mark: char) -> bool {
        self.kind == TokenKind::Mark && self.text.starts_with(mark)
    }

    /// Returns the word, if the token is one.
    pub fn as_word(&self) -> Option<&str> {
        (self.kind == TokenKind::Word).then_some(&self.text)
    }

    /// Returns the text between the quotes, if the token is a literal.
    pub fn as_literal(&self) -> Option<&str> {
        let quotes = ['"', '\'', '`', '#'];
        (self.kind == TokenKind::Text && self.text.starts_with(quotes))
            .then(|| self.text.trim_matches(quotes))
    }
}

/// Comments and literals of each language, in the order of [`SourceSyntax`]. What is not closed
/// extends to the end of the text. A slash begins a regular expression of JavaScript only where
/// [`may_be_expression`] says so.
const COMMENTS_AND_LITERALS: [(&str, &[&str]); 6] = [
    (C_COMMENT, &[DOUBLE_QUOTED, SINGLE_QUOTED, "`[^`]*`?"]),
    // A lifetime begins like a character literal, but has no second quote.
    (C_COMMENT, &[DOUBLE_QUOTED, r"'\\.(?:\\.?|[^'\\])*'?|'[^\\]'"]),
    (r"#[^\n]*", &[TRIPLE_QUOTED, r"'''(?:\\.|[^\\])*?(?:'''|\z)", DOUBLE_QUOTED, SINGLE_QUOTED]),
    (C_COMMENT, &[DOUBLE_QUOTED, SINGLE_QUOTED, r"`(?:\\.?|[^`\\])*`?", EXPRESSION]),
    (C_COMMENT, &[DOUBLE_QUOTED, SINGLE_QUOTED]),
    (C_COMMENT, &[TRIPLE_QUOTED, DOUBLE_QUOTED, SINGLE_QUOTED]),
];

const C_COMMENT: &str = r"//[^\n]*|/\*.*?(?:\*/|\z)";
const DOUBLE_QUOTED: &str = r#""(?:\\.?|[^"\\])*"?"#;
const SINGLE_QUOTED: &str = r"'(?:\\.?|[^'\\\n])*'?";
const TRIPLE_QUOTED: &str = r#""""(?:\\.|[^\\])*?(?:"""|\z)"#;
const EXPRESSION: &str = r"/(?:\\[^\n]|\[(?:\\[^\n]|[^\]\\\n])*\]|[^/\[\\\n])+/";

static TOKEN_PATTERNS: LazyLock<Vec<Option<Regex>>> = LazyLock::new(|| {
    let pattern = |(comment, literals): &(&str, &[&str])| {
        let literals = literals.join("|");
        format!(r"^(?s:(?P<comment>{comment})|(?P<literal>{literals})|(?P<word>[\w$]+)|.)")
    };
    COMMENTS_AND_LITERALS.iter().map(|syntax| Regex::new(&pattern(syntax)).ok()).collect()
});

/// Returns the kind and the length of the token at the beginning of `text`; `None` at its end.
pub fn token_at(text: &str, syntax: SourceSyntax) -> Option<(TokenKind, usize)> {
    if let Some(length) = raw_string_length(text, syntax) {
        return Some((TokenKind::Text, length));
    }
    // Block comments of Rust nest.
    if syntax == SourceSyntax::Rust && text.starts_with("/*") {
        return Some((TokenKind::Comment, nested_comment_length(text)));
    }
    // A test ensures that every pattern can be parsed. Each matches any character.
    let found = TOKEN_PATTERNS[syntax as usize].as_ref()?.captures(text)?;
    let groups =
        [("comment", TokenKind::Comment), ("literal", TokenKind::Text), ("word", TokenKind::Word)];
    let group = groups.into_iter().find(|(name, _)| found.name(name).is_some());
    let kind = group.map_or(TokenKind::Mark, |(_, kind)| kind);
    Some((kind, found[0].len()))
}

/// Length of a raw string that begins here: `r#"..."#` in Rust, `R"x(...)x"` in C++.
fn raw_string_length(text: &str, syntax: SourceSyntax) -> Option<usize> {
    let (delimiter, content, end) = match syntax {
        SourceSyntax::Rust => {
            let (hashes, content) = text.strip_prefix('r')?.split_once('"')?;
            (hashes, content, format!("\"{hashes}"))
        }
        SourceSyntax::C => {
            let (mark, content) = text.strip_prefix("R\"")?.split_once('(')?;
            (mark, content, format!("){mark}\""))
        }
        _ => return None,
    };
    if syntax == SourceSyntax::Rust && delimiter.contains(|c: char| c != '#') {
        return None;
    }
    let begin = text.len() - content.len();
    Some(content.find(&end).map_or(text.len(), |index| begin + index + end.len()))
}

/// Length of a block comment that begins here, with the comments in it.
fn nested_comment_length(text: &str) -> usize {
    let (mut depth, mut offset) = (0, 0);
    while let Some(pair) = text.as_bytes().get(offset..offset + 2) {
        let change = i32::from(pair == b"/*") - i32::from(pair == b"*/");
        depth += change;
        offset += if change == 0 { 1 } else { 2 };
        if depth == 0 {
            return offset;
        }
    }
    text.len()
}

/// Tokenizes source code. Whitespace and comments yield no tokens, because they do not change a
/// program.
pub fn tokenize(text: &str, syntax: SourceSyntax) -> Vec<SourceToken> {
    let mut tokens: Vec<SourceToken> = Vec::new();
    // The column is unknown after the first token of a line.
    let (mut offset, mut column) = (0, Some(0));
    while let Some(next) = text[offset..].chars().next() {
        let rest = &text[offset..];
        if next.is_whitespace() {
            offset += next.len_utf8();
            column = if next == '\n' { Some(0) } else { column.map(|column| column + 1) };
            continue;
        }
        let Some((mut kind, mut length)) = token_at(rest, syntax) else { break };
        if kind == TokenKind::Comment {
            // '//go:embed' and similar comments are compiler directives.
            if syntax != SourceSyntax::Go || column.is_none() || !rest.starts_with("//go:") {
                offset += length;
                continue;
            }
            kind = TokenKind::Text;
        } else if next == '/' && !may_be_expression(tokens.last()) {
            (kind, length) = (TokenKind::Mark, 1);
        }
        tokens.push(SourceToken { kind, text: rest[..length].to_owned(), column: column.take() });
        offset += length;
    }
    tokens
}

/// Whether a slash after this token begins a regular expression, because an operand is expected.
fn may_be_expression(previous: Option<&SourceToken>) -> bool {
    previous.is_none_or(|previous| match previous.kind {
        TokenKind::Mark => !previous.is(')') && !previous.is(']') && !previous.is('}'),
        TokenKind::Word => ["return", "typeof", "case", "of", "in"].contains(&&*previous.text),
        TokenKind::Text | TokenKind::Comment => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token_texts(text: &str, syntax: SourceSyntax) -> Vec<String> {
        let read = tokenize(text, syntax).into_iter();
        read.map(|token| token.text).collect()
    }

    #[test]
    fn comments_and_white_space_are_not_tokens() {
        assert!(TOKEN_PATTERNS.iter().all(Option::is_some));
        assert_eq!(token_texts("a /* b */ +c // d\n", SourceSyntax::Go), ["a", "+", "c"]);
        assert_eq!(token_texts("a /* b /* c */ d */ e", SourceSyntax::Rust), ["a", "e"]);
        assert_eq!(token_texts("a = 1  # b\n", SourceSyntax::Python), ["a", "=", "1"]);
        assert_eq!(token_texts("//go:noinline\nf", SourceSyntax::Go), ["//go:noinline", "f"]);
    }

    #[test]
    fn literals_are_whole() {
        assert_eq!(
            token_texts(r#"f("a // \" b")"#, SourceSyntax::C),
            ["f", "(", r#""a // \" b""#, ")"]
        );
        assert_eq!(token_texts("'''a # b'''c", SourceSyntax::Python), ["'''a # b'''", "c"]);
        assert_eq!(
            token_texts("&'a x 'b' '\\''", SourceSyntax::Rust),
            ["&", "'", "a", "x", "'b'", "'\\''"]
        );
        assert_eq!(token_texts("r#\"a\"b\"#c", SourceSyntax::Rust), ["r#\"a\"b\"#", "c"]);
        assert_eq!(
            token_texts("x = /[/]\"/ / 2", SourceSyntax::Script),
            ["x", "=", "/[/]\"/", "/", "2"]
        );
        assert_eq!(token_texts("`a\\`b`", SourceSyntax::Go), ["`a\\`", "b", "`"]);
        assert_eq!(token_texts("\"unfinished", SourceSyntax::C), ["\"unfinished"]);
    }

    #[test]
    fn only_the_first_token_of_a_line_has_a_column() {
        let read = tokenize("a b\n  c\n", SourceSyntax::Python);
        let columns: Vec<_> = read.iter().map(|token| token.column).collect();
        assert_eq!(columns, [Some(0), None, Some(2)]);
    }
}
