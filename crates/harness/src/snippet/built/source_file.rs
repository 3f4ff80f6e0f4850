//! A generated source file that tracks the positions of the user's text.

use super::parts::{Part, Parts};

/// How a source file marks that the following line comes from another file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marks {
    /// `#line 3 "runner"`
    Hash,
    /// `//line runner:3`
    Slashes,
    /// The language has no such mark: [`SourceFile::places`] holds the positions.
    None,
}

/// Position of some lines of the user's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The text: `runner`, `init`, `init-worker` or `done`.
    pub name: &'static str,
    /// First line in the user's text.
    pub line: usize,
    /// First and last line in the generated file.
    pub first: usize,
    pub last: usize,
}

/// A generated source file in which the user's code keeps its line numbers.
#[derive(Debug, Clone)]
pub struct SourceFile {
    pub text: String,
    pub places: Vec<Place>,
    name: &'static str,
    marks: Marks,
}

impl SourceFile {
    pub fn new(name: &'static str, marks: Marks) -> SourceFile {
        SourceFile {
            text: String::new(),
            places: Vec::new(),
            name,
            marks,
        }
    }

    /// Fills a template. Lines are copied, except for directives, which begin with `@`: `@top`
    /// inserts what belongs to the top of a file; any other, `@NAME PART WORDS`, calls `write` with
    /// the named text.
    pub fn fill(
        &mut self,
        template: &str,
        parts: &Parts,
        write: impl Fn(&mut SourceFile, &str, &Part, &str),
    ) {
        for line in template.lines() {
            let Some(directive) = line.strip_prefix('@') else {
                self.own(line);
                continue;
            };
            if directive == "top" {
                for part in parts.in_order() {
                    for (line, number) in &part.text.top {
                        self.user(part.name, line, *number, "");
                    }
                }
                continue;
            }
            let mut words = directive.splitn(3, ' ');
            let mut word = || words.next().unwrap_or_default();
            let (name, part) = (word(), parts.named(word()));
            write(self, name, part, word());
        }
    }

    /// Adds generated lines.
    pub fn own(&mut self, lines: &str) {
        self.text.push_str(lines);
        if !lines.ends_with('\n') {
            self.text.push('\n');
        }
    }

    /// Adds lines of the text `name`, beginning with its line `line`; `end` follows on a separate
    /// line, because the text may end with a comment.
    pub fn user(&mut self, name: &'static str, text: &str, line: usize, end: &str) {
        self.mark(name, line);
        let first = self.next_line();
        self.own(text);
        let last = self.next_line() - 1;
        self.places.push(Place {
            name,
            line,
            first,
            last,
        });
        // The compiler reports what is missing at the end of the text at the generated line after
        // it.
        self.mark(name, line + last - first);
        let (at_the_end, after) = end.split_once('\n').unwrap_or((end, ""));
        self.own(at_the_end);
        self.mark(
            self.name,
            self.next_line() + usize::from(self.marks != Marks::None),
        );
        if !after.is_empty() {
            self.own(after);
        }
    }

    fn next_line(&self) -> usize {
        self.text.matches('\n').count() + 1
    }

    fn mark(&mut self, name: &str, line: usize) {
        match self.marks {
            Marks::Hash => self.own(&format!("#line {line} \"{name}\"")),
            Marks::Slashes => self.own(&format!("//line {name}:{line}")),
            Marks::None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_lines_are_counted_as_he_counts_them() {
        let mut file = SourceFile::new("code.c", Marks::Hash);
        file.own("int f() {");
        file.user("runner", "a\n+ b", 3, "}");
        assert_eq!(
            file.text,
            "int f() {\n#line 3 \"runner\"\na\n+ b\n#line 4 \"runner\"\n}\n#line 8 \"code.c\"\n"
        );
        let mut file = SourceFile::new("Main.java", Marks::None);
        file.own("class Main {");
        file.user("init", "a\nb", 2, "}");
        let place = &file.places[0];
        assert_eq!((place.line, place.first, place.last), (2, 2, 3));
    }
}
