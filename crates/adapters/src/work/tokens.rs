//! Splits source text into tokens, for the few languages in which benchmarks are written.
//!
//! This module decides only where words, literals and comments begin and end. Whitespace and
//! comments yield no tokens, because they do not change a program. Start at [`tokenize`].

use std::path::Path;

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

/// Tokenizes source code.
pub fn tokenize(text: &str, syntax: SourceSyntax) -> Vec<SourceToken> {
    let mut reader = TokenReader { text, syntax, offset: 0, column: Some(0), tokens: Vec::new() };
    while let Some(next) = reader.remaining().chars().next() {
        reader.read_token(next);
    }
    reader.tokens
}

struct TokenReader<'t> {
    text: &'t str,
    syntax: SourceSyntax,
    offset: usize,
    /// Current column; `None` after the first token of the line.
    column: Option<usize>,
    tokens: Vec<SourceToken>,
}

impl TokenReader<'_> {
    fn remaining(&self) -> &str {
        &self.text[self.offset..]
    }

    fn read_token(&mut self, next: char) {
        if next == '\n' {
            (self.offset, self.column) = (self.offset + 1, Some(0));
        } else if next.is_whitespace() {
            self.offset += next.len_utf8();
            self.column = self.column.map(|column| column + 1);
        } else if let Some(length) = self.comment_length() {
            self.offset += length;
        } else if let Some(length) = self.literal_length(next) {
            self.push(TokenKind::Text, length);
        } else if is_in_word(next) {
            let length = self.remaining().find(|c| !is_in_word(c));
            self.push(TokenKind::Word, length.unwrap_or(self.remaining().len()));
        } else {
            self.push(TokenKind::Mark, next.len_utf8());
        }
    }

    fn push(&mut self, kind: TokenKind, length: usize) {
        let text = self.remaining()[..length].to_owned();
        self.offset += length;
        self.tokens.push(SourceToken { kind, text, column: self.column.take() });
    }

    /// Length of a comment that begins here, excluding the line end.
    fn comment_length(&mut self) -> Option<usize> {
        let rest = self.remaining();
        let line_length = || rest.find('\n').unwrap_or(rest.len());
        match self.syntax {
            SourceSyntax::Python => rest.starts_with('#').then(line_length),
            // '//go:embed' and similar comments are compiler directives.
            SourceSyntax::Go if rest.starts_with("//go:") && self.column.is_some() => {
                let end = line_length();
                self.push(TokenKind::Text, end);
                Some(0)
            }
            _ if rest.starts_with("//") => Some(line_length()),
            _ if rest.starts_with("/*") => {
                Some(block_comment(rest, self.syntax == SourceSyntax::Rust))
            }
            _ => None,
        }
    }

    /// Length of a literal that begins here.
    fn literal_length(&self, next: char) -> Option<usize> {
        let rest = self.remaining();
        let is_one_of = |syntaxes: &[SourceSyntax]| syntaxes.contains(&self.syntax);
        match next {
            '"' if rest.starts_with("\"\"\"")
                && is_one_of(&[SourceSyntax::Python, SourceSyntax::Java]) =>
            {
                Some(quoted_length(rest, "\"\"\"", true))
            }
            '\'' if rest.starts_with("'''") && is_one_of(&[SourceSyntax::Python]) => {
                Some(quoted_length(rest, "'''", true))
            }
            '"' => Some(quoted_length(rest, "\"", true)),
            '`' if is_one_of(&[SourceSyntax::Go]) => Some(quoted_length(rest, "`", false)),
            '`' if is_one_of(&[SourceSyntax::Script]) => Some(quoted_length(rest, "`", true)),
            // In Rust, a lifetime begins like a character literal, but has no second quote.
            '\'' if is_one_of(&[SourceSyntax::Rust]) => {
                let mut chars = rest.chars().skip(1);
                let is_escape = chars.next() == Some('\\');
                (is_escape || chars.next() == Some('\'')).then(|| quoted_length(rest, "'", true))
            }
            '\'' => Some(quoted_length(rest, "'", true)),
            'r' if is_one_of(&[SourceSyntax::Rust]) => raw_string(rest),
            '/' if is_one_of(&[SourceSyntax::Script]) && self.may_be_pattern() => {
                pattern_length(rest)
            }
            _ => None,
        }
    }

    /// Whether a slash here begins a regular expression, because an operand is expected.
    fn may_be_pattern(&self) -> bool {
        self.tokens.last().is_none_or(|previous| match previous.kind {
            TokenKind::Mark => !previous.is(')') && !previous.is(']') && !previous.is('}'),
            TokenKind::Word => ["return", "typeof", "case", "of", "in"].contains(&&*previous.text),
            TokenKind::Text => false,
        })
    }
}

fn is_in_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$'
}

fn block_comment(text: &str, is_nested: bool) -> usize {
    let (mut offset, mut depth) = (2, 1);
    while depth > 0 {
        let Some(next) = text[offset..].find(['*', '/']) else {
            return text.len();
        };
        offset += next;
        let rest = &text[offset..];
        let step = if rest.starts_with("*/") {
            depth -= 1;
            2
        } else if is_nested && rest.starts_with("/*") {
            depth += 1;
            2
        } else {
            1
        };
        offset += step;
    }
    offset
}

/// Length of a literal that begins and ends with `quote`.
fn quoted_length(text: &str, quote: &str, has_escapes: bool) -> usize {
    let mut offset = quote.len();
    while offset < text.len() && !text[offset..].starts_with(quote) {
        let mut chars = text[offset..].chars();
        let c = chars.next().map_or(1, char::len_utf8);
        let is_escape = has_escapes && text[offset..].starts_with('\\');
        offset += c;
        if is_escape {
            offset += chars.next().map_or(0, char::len_utf8);
        }
    }
    (offset + quote.len()).min(text.len())
}

/// Length of `r"..."` or `r#"..."#`.
fn raw_string(text: &str) -> Option<usize> {
    let hash_count = text[1..].chars().take_while(|c| *c == '#').count();
    text[1 + hash_count..].starts_with('"').then(|| {
        let end = format!("\"{}", "#".repeat(hash_count));
        let begin = 2 + hash_count;
        let found = text[begin..].find(&end);
        found.map_or(text.len(), |offset| begin + offset + end.len())
    })
}

/// Length of a regular expression; `None` if the line ends before the expression does.
fn pattern_length(text: &str) -> Option<usize> {
    let (mut is_escaped, mut in_class) = (false, false);
    for (offset, c) in text.char_indices().skip(1) {
        match c {
            '\n' => return None,
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '[' => in_class = true,
            ']' => in_class = false,
            '/' if !in_class => return Some(offset + 1),
            _ => {}
        }
    }
    None
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
