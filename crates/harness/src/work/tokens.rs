//! Tokenizes source text without comments, for the few languages that benchmarks are written in.
//!
//! Decides only where words, literals and comments begin and end: whitespace and comments do not
//! change a program. Start at [`tokens`].

use std::path::Path;

/// Lexical syntax of a language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    Go,
    Rust,
    Python,
    /// JavaScript and TypeScript.
    Script,
    /// C, C++.
    C,
    Java,
}

impl Syntax {
    /// Selects the syntax by file extension.
    pub fn of_file(file: &Path) -> Option<Syntax> {
        Some(match file.extension()?.to_str()? {
            "go" => Syntax::Go,
            "rs" => Syntax::Rust,
            "py" => Syntax::Python,
            "js" | "cjs" | "mjs" | "ts" | "cts" | "mts" | "jsx" | "tsx" => Syntax::Script,
            "c" | "cc" | "cpp" | "cxx" | "h" | "hh" | "hpp" | "hxx" => Syntax::C,
            "java" => Syntax::Java,
            _ => return None,
        })
    }
}

/// Kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A name, a keyword or a number.
    Word,
    /// A literal with its quotes, or a compiler directive.
    Text,
    /// Any other single character.
    Mark,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    pub kind: Kind,
    /// Its characters.
    pub text: String,
    /// Its column, if it is the first token of its line.
    pub column: Option<usize>,
}

impl Token {
    /// Whether it is this single character.
    pub fn is(&self, mark: char) -> bool {
        self.kind == Kind::Mark && self.text.starts_with(mark)
    }

    /// Its text, if it is a word.
    pub fn word(&self) -> Option<&str> {
        (self.kind == Kind::Word).then_some(&self.text)
    }

    /// The text between its quotes, if it is a literal.
    pub fn literal(&self) -> Option<&str> {
        let quotes = ['"', '\'', '`', '#'];
        (self.kind == Kind::Text && self.text.starts_with(quotes))
            .then(|| self.text.trim_matches(quotes))
    }
}

/// Tokenizes a text.
pub fn tokens(text: &str, syntax: Syntax) -> Vec<Token> {
    let mut reader = Reader {
        text,
        syntax,
        at: 0,
        column: Some(0),
        found: Vec::new(),
    };
    while let Some(next) = reader.rest().chars().next() {
        reader.step(next);
    }
    reader.found
}

struct Reader<'t> {
    text: &'t str,
    syntax: Syntax,
    at: usize,
    /// Current column, until the first token of the line.
    column: Option<usize>,
    found: Vec<Token>,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn step(&mut self, next: char) {
        if next == '\n' {
            (self.at, self.column) = (self.at + 1, Some(0));
        } else if next.is_whitespace() {
            self.at += next.len_utf8();
            self.column = self.column.map(|column| column + 1);
        } else if let Some(end) = self.comment() {
            self.at += end;
        } else if let Some(end) = self.literal(next) {
            self.push(Kind::Text, end);
        } else if is_in_word(next) {
            let end = self.rest().find(|c| !is_in_word(c));
            self.push(Kind::Word, end.unwrap_or(self.rest().len()));
        } else {
            self.push(Kind::Mark, next.len_utf8());
        }
    }

    fn push(&mut self, kind: Kind, length: usize) {
        let text = self.rest()[..length].to_owned();
        self.at += length;
        self.found.push(Token {
            kind,
            text,
            column: self.column.take(),
        });
    }

    /// Length of a comment that begins here, excluding the line end.
    fn comment(&mut self) -> Option<usize> {
        let rest = self.rest();
        let line = || rest.find('\n').unwrap_or(rest.len());
        match self.syntax {
            Syntax::Python => rest.starts_with('#').then(line),
            // '//go:embed' and similar comments are compiler directives.
            Syntax::Go if rest.starts_with("//go:") && self.column.is_some() => {
                let end = line();
                self.push(Kind::Text, end);
                Some(0)
            }
            _ if rest.starts_with("//") => Some(line()),
            _ if rest.starts_with("/*") => Some(block_comment(rest, self.syntax == Syntax::Rust)),
            _ => None,
        }
    }

    /// Length of a literal that begins here.
    fn literal(&self, next: char) -> Option<usize> {
        let rest = self.rest();
        let is_one_of = |syntaxes: &[Syntax]| syntaxes.contains(&self.syntax);
        match next {
            '"' if rest.starts_with("\"\"\"") && is_one_of(&[Syntax::Python, Syntax::Java]) => {
                Some(quoted(rest, "\"\"\"", true))
            }
            '\'' if rest.starts_with("'''") && is_one_of(&[Syntax::Python]) => {
                Some(quoted(rest, "'''", true))
            }
            '"' => Some(quoted(rest, "\"", true)),
            '`' if is_one_of(&[Syntax::Go]) => Some(quoted(rest, "`", false)),
            '`' if is_one_of(&[Syntax::Script]) => Some(quoted(rest, "`", true)),
            // A lifetime has no second quote.
            '\'' if is_one_of(&[Syntax::Rust]) => {
                let mut letters = rest.chars().skip(1);
                let is_escape = letters.next() == Some('\\');
                (is_escape || letters.next() == Some('\'')).then(|| quoted(rest, "'", true))
            }
            '\'' => Some(quoted(rest, "'", true)),
            'r' if is_one_of(&[Syntax::Rust]) => raw_string(rest),
            '/' if is_one_of(&[Syntax::Script]) && self.may_be_pattern() => pattern(rest),
            _ => None,
        }
    }

    /// Whether a slash begins a regular expression: an operand is expected.
    fn may_be_pattern(&self) -> bool {
        self.found.last().is_none_or(|before| match before.kind {
            Kind::Mark => !before.is(')') && !before.is(']') && !before.is('}'),
            Kind::Word => ["return", "typeof", "case", "of", "in"].contains(&&*before.text),
            Kind::Text => false,
        })
    }
}

fn is_in_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_' || letter == '$'
}

fn block_comment(text: &str, is_nested: bool) -> usize {
    let (mut at, mut depth) = (2, 1);
    while depth > 0 {
        let Some(next) = text[at..].find(['*', '/']) else {
            return text.len();
        };
        at += next;
        let rest = &text[at..];
        let step = if rest.starts_with("*/") {
            depth -= 1;
            2
        } else if is_nested && rest.starts_with("/*") {
            depth += 1;
            2
        } else {
            1
        };
        at += step;
    }
    at
}

/// Length of a literal that begins and ends with `quote`.
fn quoted(text: &str, quote: &str, has_escapes: bool) -> usize {
    let mut at = quote.len();
    while at < text.len() && !text[at..].starts_with(quote) {
        let mut letters = text[at..].chars();
        let letter = letters.next().map_or(1, char::len_utf8);
        let is_escape = has_escapes && text[at..].starts_with('\\');
        at += letter;
        if is_escape {
            at += letters.next().map_or(0, char::len_utf8);
        }
    }
    (at + quote.len()).min(text.len())
}

/// Length of `r"..."` or `r#"..."#`.
fn raw_string(text: &str) -> Option<usize> {
    let marks = text[1..]
        .chars()
        .take_while(|letter| *letter == '#')
        .count();
    text[1 + marks..].starts_with('"').then(|| {
        let end = format!("\"{}", "#".repeat(marks));
        let begin = 2 + marks;
        let found = text[begin..].find(&end);
        found.map_or(text.len(), |at| begin + at + end.len())
    })
}

/// Length of a regular expression; `None` if the line ends first.
fn pattern(text: &str) -> Option<usize> {
    let (mut is_escaped, mut in_class) = (false, false);
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            '\n' => return None,
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '[' => in_class = true,
            ']' => in_class = false,
            '/' if !in_class => return Some(at + 1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str, syntax: Syntax) -> Vec<String> {
        let read = tokens(text, syntax).into_iter();
        read.map(|token| token.text).collect()
    }

    #[test]
    fn comments_and_blanks_are_no_tokens() {
        assert_eq!(texts("a /* b */ +c // d\n", Syntax::Go), ["a", "+", "c"]);
        assert_eq!(texts("a /* b /* c */ d */ e", Syntax::Rust), ["a", "e"]);
        assert_eq!(texts("a = 1  # b\n", Syntax::Python), ["a", "=", "1"]);
        assert_eq!(
            texts("//go:noinline\nf", Syntax::Go),
            ["//go:noinline", "f"]
        );
    }

    #[test]
    fn literals_are_whole() {
        assert_eq!(
            texts(r#"f("a // \" b")"#, Syntax::C),
            ["f", "(", r#""a // \" b""#, ")"]
        );
        assert_eq!(texts("'''a # b'''c", Syntax::Python), ["'''a # b'''", "c"]);
        assert_eq!(
            texts("&'a x 'b' '\\''", Syntax::Rust),
            ["&", "'", "a", "x", "'b'", "'\\''"]
        );
        assert_eq!(texts("r#\"a\"b\"#c", Syntax::Rust), ["r#\"a\"b\"#", "c"]);
        assert_eq!(
            texts("x = /[/]\"/ / 2", Syntax::Script),
            ["x", "=", "/[/]\"/", "/", "2"]
        );
        assert_eq!(texts("`a\\`b`", Syntax::Go), ["`a\\`", "b", "`"]);
        assert_eq!(texts("\"unfinished", Syntax::C), ["\"unfinished"]);
    }

    #[test]
    fn the_first_token_of_a_line_knows_its_place() {
        let read = tokens("a b\n  c\n", Syntax::Python);
        let columns: Vec<_> = read.iter().map(|token| token.column).collect();
        assert_eq!(columns, [Some(0), None, Some(2)]);
    }
}
