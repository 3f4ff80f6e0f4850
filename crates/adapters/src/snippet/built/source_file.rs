//! Builds a generated source file, and tracks the positions of the user's code in it.

use super::parts::{SnippetPart, SnippetParts};

/// How a source file marks that the following line comes from another file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineMarkers {
    /// `#line 3 "runner"`
    Hash,
    /// `//line runner:3`
    Slashes,
    /// The language has no such mark: [`GeneratedSource::positions`] holds the positions.
    None,
}

/// Position of some lines of the user's code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextPosition {
    /// The part of the snippet: `runner`, `init`, `init-worker` or `done`.
    pub name: &'static str,
    /// First line in the user's code.
    pub line: usize,
    /// First line in the generated file.
    pub first: usize,
    /// Last line in the generated file.
    pub last: usize,
}

/// A generated source file that records the line numbers of the user's code in it.
#[derive(Debug, Clone)]
pub struct GeneratedSource {
    pub text: String,
    pub positions: Vec<TextPosition>,
    name: &'static str,
    marks: LineMarkers,
}

impl GeneratedSource {
    pub fn new(name: &'static str, marks: LineMarkers) -> GeneratedSource {
        GeneratedSource { text: String::new(), positions: Vec::new(), name, marks }
    }

    /// Fills a template. Lines are copied, except for directives, which begin with `@`. The
    /// directive `@top` inserts the lines of the user's code that belong to the top of a file. Any
    /// other directive, `@NAME PART WORDS`, calls `write` with NAME, the part named PART,
    /// and WORDS.
    pub fn fill_template(
        &mut self,
        template: &str,
        parts: &SnippetParts,
        write: impl Fn(&mut GeneratedSource, &str, &SnippetPart, &str),
    ) {
        for line in template.lines() {
            let Some(directive) = line.strip_prefix('@') else {
                self.add_generated(line);
                continue;
            };
            if directive == "top" {
                for part in parts.all_parts() {
                    for (line, number) in &part.text.top {
                        self.add_user_text(part.name, line, *number, "");
                    }
                }
                continue;
            }
            let mut words = directive.splitn(3, ' ');
            let mut word = || words.next().unwrap_or_default();
            let (name, part) = (word(), parts.find_part(word()));
            write(self, name, part, word());
        }
    }

    /// Adds generated lines.
    pub fn add_generated(&mut self, lines: &str) {
        self.text.push_str(lines);
        if !lines.ends_with('\n') {
            self.text.push('\n');
        }
    }

    /// Adds `text`, which begins at line `line` of the part `name`. `end` follows on a separate
    /// line, because the code may end with a comment.
    pub fn add_user_text(&mut self, name: &'static str, text: &str, line: usize, end: &str) {
        self.add_marker(name, line);
        let first = self.next_line();
        self.add_generated(text);
        let last = self.next_line() - 1;
        self.positions.push(TextPosition { name, line, first, last });
        // If the user's code breaks off, the compiler reports an error in the generated line after
        // it. That line therefore gets the number of the last line of the code.
        self.add_marker(name, line + last - first);
        let (closing_line, following_lines) = end.split_once('\n').unwrap_or((end, ""));
        self.add_generated(closing_line);
        self.add_marker(self.name, self.next_line() + usize::from(self.marks != LineMarkers::None));
        if !following_lines.is_empty() {
            self.add_generated(following_lines);
        }
    }

    fn next_line(&self) -> usize {
        self.text.matches('\n').count() + 1
    }

    fn add_marker(&mut self, name: &str, line: usize) {
        match self.marks {
            LineMarkers::Hash => self.add_generated(&format!("#line {line} \"{name}\"")),
            LineMarkers::Slashes => self.add_generated(&format!("//line {name}:{line}")),
            LineMarkers::None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_numbered_as_the_user_counts_them() {
        let mut file = GeneratedSource::new("code.c", LineMarkers::Hash);
        file.add_generated("int f() {");
        file.add_user_text("runner", "a\n+ b", 3, "}");
        assert_eq!(
            file.text,
            "int f() {\n#line 3 \"runner\"\na\n+ b\n#line 4 \"runner\"\n}\n#line 8 \"code.c\"\n"
        );
        let mut file = GeneratedSource::new("Main.java", LineMarkers::None);
        file.add_generated("class Main {");
        file.add_user_text("init", "a\nb", 2, "}");
        let position = &file.positions[0];
        assert_eq!((position.line, position.first, position.last), (2, 2, 3));
    }
}
