//! A generated source file, and where the user's text stands in it.

use super::parts::{Part, Parts};

/// How a source file says which line of which other file follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marks {
    /// `#line 3 "runner"`
    Hash,
    /// `//line runner:3`
    Slashes,
    /// The language has no such mark: [`SourceFile::places`] says where the texts are.
    None,
}

/// Where some lines of the user's text are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The text: `runner`, `init`, `init-worker` or `done`.
    pub name: &'static str,
    /// Its first line in the user's text.
    pub line: usize,
    /// Its first and last line in the generated one.
    pub first: usize,
    pub last: usize,
}

/// A generated source file, in which the user's code keeps its line numbers.
#[derive(Debug, Clone)]
pub struct SourceFile {
    pub text: String,
    pub places: Vec<Place>,
    name: &'static str,
    marks: Marks,
}

impl SourceFile {
    /// An empty file of that name.
    pub fn new(name: &'static str, marks: Marks) -> SourceFile {
        SourceFile {
            text: String::new(),
            places: Vec::new(),
            name,
            marks,
        }
    }

    /// Fills a template: its lines stand as they are, but for directives, which begin with `@`. `@top` is what belongs to the top of
    /// a file; any other, `@NAME PART WORDS`, is for `write`, which gets the text that is named.
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

    /// Adds our own lines.
    pub fn own(&mut self, lines: &str) {
        self.text.push_str(lines);
        if !lines.ends_with('\n') {
            self.text.push('\n');
        }
    }

    /// Adds lines of the text `name`, of which the first one is its line `line`; `end` follows on a line of its
    /// own, because the text may end with a comment.
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
        // What the compiler misses at the end of the text it misses at the first of our words behind it.
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
