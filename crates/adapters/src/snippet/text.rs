//! Splits the user's code in a C-like language: separates the lines that belong at the top of a
//! file, and finds the start of the last statement.
//!
//! This is not a parser. It recognizes literals, comments and brackets, and so finds the semicolons
//! that separate statements. Only the compiler can determine whether the last statement is an
//! expression. Start at [`SplitText::split`].

use crate::lexer::{SourceSyntax, token_at};
use speedwell_model::SnippetLanguage;

/// Words that begin a statement without a value.
const STATEMENT_WORDS: [&str; 22] = [
    "if", "for", "while", "do", "switch", "try", "goto", "break", "continue", "using", "typedef",
    "static", "struct", "class", "enum", "union", "var", "const", "defer", "go", "select", "throw",
];

/// Words that continue a statement after a closing brace.
const CONTINUATION_WORDS: [&str; 4] = ["else", "catch", "finally", "while"];

/// Code split into parts. Each part keeps its line numbers, so that line numbers in compiler
/// messages refer to the user's code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitText {
    /// Lines for the top of the file: `#include`, `import`, `use`; each with its line number,
    /// counting from 1.
    pub top: Vec<(String, usize)>,
    /// Everything else, unchanged.
    pub statements: String,
    /// `statements` without anything after the last statement.
    pub body: String,
    /// Start of the last statement in `body`.
    last: usize,
    pub kind: StatementKind,
}

/// Kind of the last statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatementKind {
    /// Possibly an expression, whose value is the value of the code.
    Value,
    /// `return` with an expression.
    Return,
    /// A statement without a value.
    Plain,
}

impl SplitText {
    /// Splits `text` by the rules of `language`.
    pub fn split(text: &str, language: SnippetLanguage) -> SplitText {
        let (top, statements) = split_top(text, language);
        let end = statement_end(&statements, language);
        let last = statement_start(&statements[..end], language);
        let statement = &statements[last..end];
        let word = first_word(statement);
        let kind = if word == "return" {
            StatementKind::Return
        } else if statement.starts_with('{') || is_statement(word, language) || statement.is_empty()
        {
            StatementKind::Plain
        } else {
            StatementKind::Value
        };
        let body = statements[..end].to_owned();
        SplitText { top, statements, body, last, kind }
    }

    /// Text before the last statement.
    pub fn text_before(&self) -> &str {
        &self.body[..self.last]
    }

    /// The last statement, without a leading `return`, and its line number, counting from 1.
    pub fn last_value(&self) -> (&str, usize) {
        let statement = &self.body[self.last..];
        let value = match self.kind {
            StatementKind::Return => statement["return".len()..].trim_start(),
            _ => statement,
        };
        let before = &self.body[..self.body.len() - value.len()];
        (value, before.matches('\n').count() + 1)
    }

    /// Whether the code contains the name.
    pub fn contains_name(&self, name: &str) -> bool {
        let mut words = self.body.split(|c: char| !is_name_char(c));
        words.any(|word| word == name)
    }

    /// Whether the code assigns to the variable `name`.
    pub fn assigns(&self, name: &str) -> bool {
        let occurrences = self.body.match_indices(name);
        occurrences.into_iter().any(|(index, _)| {
            let (before, after) = (&self.body[..index], &self.body[index + name.len()..]);
            let is_word = !before.ends_with(is_name_char) && !after.starts_with(is_name_char);
            let (before, after) = (before.trim_end(), after.trim_start());
            let steps = before.ends_with("++")
                || before.ends_with("--")
                || after.starts_with("++")
                || after.starts_with("--");
            let operator =
                after.trim_start_matches(['+', '-', '*', '/', '%', '&', '|', '^', '<', '>']);
            let assigned = operator.starts_with('=')
                && !operator.starts_with("==")
                && !["<=", ">="].contains(&&after[..after.len().min(2)]);
            is_word && !before.ends_with('.') && (steps || assigned)
        })
    }
}

/// Whether a statement that begins with this word cannot have a value.
fn is_statement(word: &str, language: SnippetLanguage) -> bool {
    let has_value = match language {
        SnippetLanguage::Go => word == "struct",
        SnippetLanguage::Java => word == "switch",
        _ => false,
    };
    STATEMENT_WORDS.contains(&word) && !has_value
}

fn is_name_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn first_word(text: &str) -> &str {
    let end = text.find(|c: char| !is_name_char(c));
    &text[..end.unwrap_or(text.len())]
}

/// Splits off the leading lines that belong at the top of a file. Returns these lines with their
/// line numbers, and the whole code with spaces in place of these lines.
fn split_top(text: &str, language: SnippetLanguage) -> (Vec<(String, usize)>, String) {
    let mut top = Vec::new();
    let mut offset = 0;
    loop {
        offset +=
            text[offset..].len() - text[offset..].trim_start_matches([' ', '\t', '\n', '\r']).len();
        let rest = &text[offset..];
        let after = |mark: char| rest.find(mark).map(|index| index + 1);
        let end = match (language, first_word(rest)) {
            (SnippetLanguage::C | SnippetLanguage::Cpp, _) if rest.starts_with('#') => {
                rest.find('\n')
            }
            (SnippetLanguage::Java, "import") => after(';'),
            (SnippetLanguage::Rust, "use" | "extern") => after(';'),
            (SnippetLanguage::Go, "import") => {
                let is_group = rest["import".len()..].trim_start().starts_with('(');
                if is_group { after(')') } else { rest.find(['\n', ';']) }
            }
            _ => break,
        };
        let length = end.unwrap_or(rest.len());
        let line = text[..offset].matches('\n').count() + 1;
        top.push((rest[..length].to_owned(), line));
        offset += length;
        if language == SnippetLanguage::Go && text[offset..].starts_with(';') {
            offset += 1;
        }
    }
    let blank = |c: char| if c == '\n' { '\n' } else { ' ' };
    let spaces: String = text[..offset].chars().map(blank).collect();
    (top, spaces + &text[offset..])
}

/// End of the last statement, before trailing whitespace, comments and semicolons.
fn statement_end(text: &str, language: SnippetLanguage) -> usize {
    let mut end = 0;
    let mut offset = 0;
    while offset < text.len() {
        let next_offset = offset + token_length(&text[offset..], language);
        let piece = &text[offset..next_offset];
        let is_comment = piece.starts_with("//") || piece.starts_with("/*");
        if !is_comment && !piece.trim().is_empty() && piece != ";" {
            end = next_offset;
        }
        offset = next_offset;
    }
    end
}

/// Start of the last statement: after the last semicolon or block outside of brackets. In Go, line
/// ends also separate statements.
fn statement_start(text: &str, language: SnippetLanguage) -> usize {
    let (mut depth, mut start, mut offset) = (0_usize, 0, 0);
    while offset < text.len() {
        let next_offset = offset + token_length(&text[offset..], language);
        match &text[offset..next_offset] {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" => depth = depth.saturating_sub(1),
            "}" => {
                depth = depth.saturating_sub(1);
                let rest = text[next_offset..].trim_start();
                let word = first_word(rest);
                let begins = !word.is_empty() && !CONTINUATION_WORDS.contains(&word);
                if depth == 0 && begins && !rest.starts_with(|l: char| l.is_ascii_digit()) {
                    start = next_offset;
                }
            }
            ";" if depth == 0 => start = next_offset,
            "\n" if depth == 0
                && language == SnippetLanguage::Go
                && !continues_line(&text[..offset]) =>
            {
                start = next_offset
            }
            _ => {}
        }
        offset = next_offset;
    }
    start + (text[start..].len() - text[start..].trim_start().len())
}

/// Whether a Go statement continues after `line`, by Go's rule for automatic semicolons.
fn continues_line(line: &str) -> bool {
    let line = line.trim_end();
    line.is_empty()
        || line.ends_with(['+', '-', '*', '/', '%', '&', '|', '^', '=', ',', '.', '<', '>', '!'])
            && !line.ends_with("++")
            && !line.ends_with("--")
}

/// Length of the literal, comment, word or single character at the beginning of `text`.
fn token_length(text: &str, language: SnippetLanguage) -> usize {
    let syntax = match language {
        SnippetLanguage::Go => SourceSyntax::Go,
        SnippetLanguage::Java => SourceSyntax::Java,
        SnippetLanguage::Rust => SourceSyntax::Rust,
        _ => SourceSyntax::C,
    };
    token_at(text, syntax).map_or(text.len(), |(_, length)| length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split_parts(
        text: &str,
        language: SnippetLanguage,
    ) -> (StatementKind, String, String, usize) {
        let text = SplitText::split(text, language);
        let (value, line) = text.last_value();
        (text.kind, text.text_before().to_owned(), value.to_owned(), line)
    }

    #[test]
    fn the_last_statement_follows_the_last_semicolon_outside_brackets() {
        let cases = [
            ("f(1, \";\")", StatementKind::Value, "f(1, \";\")", 1),
            ("f(1); // done;", StatementKind::Value, "f(1)", 1),
            ("int a = 1;\na + 1;", StatementKind::Value, "a + 1", 2),
            ("int a = 1; return a;", StatementKind::Return, "a", 1),
            ("for (;;) { a; }", StatementKind::Plain, "for (;;) { a; }", 1),
            ("if (a) { b; } else { c; }", StatementKind::Plain, "if (a) { b; } else { c; }", 1),
            ("if (a) { b; }\nc", StatementKind::Value, "c", 2),
            ("[&] { x; return 1; }()", StatementKind::Value, "[&] { x; return 1; }()", 1),
            ("(point){1, 2}.x", StatementKind::Value, "(point){1, 2}.x", 1),
            ("a = ';'; b", StatementKind::Value, "b", 1),
            ("f(R\"x(a);\")x\"); g", StatementKind::Value, "g", 1),
        ];
        for (text, kind, value, line) in cases {
            let found = split_parts(text, SnippetLanguage::Cpp);
            assert_eq!((found.0, &*found.2, found.3), (kind, value, line), "{text}");
        }
    }

    #[test]
    fn lines_divide_statements_in_go() {
        let found = split_parts("x := f(\n1,\n2)\nx +\n1", SnippetLanguage::Go);
        assert_eq!((found.0, &*found.2, found.3), (StatementKind::Value, "x +\n1", 4));
        let found = split_parts("x++\nx", SnippetLanguage::Go);
        assert_eq!((found.0, &*found.2), (StatementKind::Value, "x"));
        assert_eq!(split_parts("`a;\nb`", SnippetLanguage::Go).2, "`a;\nb`");
    }

    #[test]
    fn imports_and_preprocessor_lines_move_to_the_top_of_the_file() {
        let text = SplitText::split("#include <regex>\n#define A 1\n  A + 1", SnippetLanguage::C);
        let top = [("#include <regex>".to_owned(), 1), ("#define A 1".to_owned(), 2)];
        assert_eq!(text.top, top);
        assert_eq!(text.last_value(), ("A + 1", 3));
        let text =
            SplitText::split("import java.awt.Point; new Point(1, 2)", SnippetLanguage::Java);
        assert_eq!((text.top.len(), text.last_value()), (1, ("new Point(1, 2)", 1)));
        let text = SplitText::split("import \"math/bits\"; bits.Len(7)", SnippetLanguage::Go);
        assert_eq!(text.top, [("import \"math/bits\"".to_owned(), 1)]);
        assert_eq!(text.last_value().0, "bits.Len(7)");
        let text = SplitText::split("#include <a>", SnippetLanguage::C);
        assert_eq!((text.kind, text.top.len()), (StatementKind::Plain, 1));
    }

    #[test]
    fn rust_lifetimes_are_not_character_literals() {
        let found = split_parts("let a: &'static str = \"x\"; ';'; b", SnippetLanguage::Rust);
        assert_eq!((found.0, &*found.2), (StatementKind::Value, "b"));
    }

    #[test]
    fn assignments_are_distinguished_from_comparisons() {
        let assigns = |text: &str| SplitText::split(text, SnippetLanguage::Java).assigns("state");
        for text in
            ["state = 1", "state += 2", "++state", "state--", "x = state <<= 1", "f(state = 2)"]
        {
            assert!(assigns(text), "{text}");
        }
        for text in
            ["state == 1", "state <= 2", "a.state = 1", "states = 1", "f(state)", "x = state"]
        {
            assert!(!assigns(text), "{text}");
        }
    }
}
