//! Divides a snippet into parts, writes them to a generated source file, and compiles it in the
//! first interpretation that the compiler accepts.
//!
//! Only the compiler can tell whether the last statement of a part is an expression with a value.
//! In the first interpretation, every part that may have a value has one. In each further
//! interpretation, the parts with compiler errors are treated as statements without a value. If the
//! program was compiled earlier, it is found without trying the interpretations again.
//!
//! A [`SnippetBuild`] is the input of each language: a snippet, its compiler and its variant. A
//! [`GeneratedSource`] tracks the positions of the user's code in the file.

use super::text::{SplitText, StatementKind};
use crate::failure::HarnessFailure;
use crate::layout::RunLayout;
use speedwell_model::{FailureCause, Snippet, Variant};
use std::path::Path;

/// A snippet in a compiled language, and how its program is built.
#[derive(Clone, Copy)]
pub struct SnippetBuild<'a> {
    pub snippet: &'a Snippet,
    pub compiler: &'a Path,
    pub variant: &'a Variant,
    pub layout: RunLayout,
}

/// The parts of a snippet in execution order; missing ones are empty.
#[derive(Debug, Clone)]
pub struct SnippetParts([SnippetPart; 4]);

/// One part of a snippet.
#[derive(Debug, Clone)]
pub struct SnippetPart {
    /// Name of the part in messages.
    pub name: &'static str,
    pub text: SplitText,
    /// Whether the part is treated as statements without a value, although it may have a value.
    pub is_plain: bool,
}

impl SnippetPart {
    /// Whether the part is assumed to have a value.
    pub fn has_value(&self) -> bool {
        match self.text.kind {
            StatementKind::Plain => false,
            StatementKind::Return => true,
            StatementKind::Value => !self.is_plain,
        }
    }

    /// Whether the part is not empty.
    pub fn has_text(&self) -> bool {
        !self.text.body.is_empty()
    }

    fn is_undecided(&self) -> bool {
        !self.is_plain && self.text.kind == StatementKind::Value
    }
}

/// Returns the part to which a line of compiler output refers, such as `runner:3: error: ...`. The
/// name of the part may follow a folder.
fn part_of_line(line: &str) -> Option<&'static str> {
    let (path, rest) = line.trim_start().trim_start_matches("--> ").split_once(':')?;
    let name = path.rsplit('/').next().unwrap_or(path).trim();
    let has_line_number = rest.starts_with(|digit: char| digit.is_ascii_digit());
    let names = ["runner", "init", "init-worker", "done"];
    names.into_iter().find(|part| has_line_number && *part == name)
}

impl SnippetParts {
    pub fn of_snippet(snippet: &Snippet) -> SnippetParts {
        let part = |name, text: Option<&str>| SnippetPart {
            name,
            text: SplitText::split(text.unwrap_or_default(), snippet.language),
            is_plain: false,
        };
        SnippetParts([
            part("init", snippet.init.as_deref()),
            part("init-worker", snippet.init_worker.as_deref()),
            part("runner", Some(&snippet.runner)),
            part("done", snippet.done.as_deref()),
        ])
    }

    /// Returns all parts in execution order.
    pub fn all_parts(&self) -> &[SnippetPart; 4] {
        &self.0
    }

    /// Returns the part of that name, or the runner for any other name.
    pub fn find_part(&self, name: &str) -> &SnippetPart {
        self.0.iter().find(|part| part.name == name).unwrap_or(&self.0[2])
    }

    /// Passes one interpretation after another to `compile` until one succeeds or none is left.
    /// First asks `find` for an interpretation that was compiled earlier. If there is one, it is
    /// used at once, because the compiler rejected all preceding interpretations at that time.
    ///
    /// # Errors
    /// Returns the failure with the fewest compiler errors.
    pub fn compile_first<T>(
        mut self,
        find: impl Fn(&SnippetParts) -> Option<T>,
        compile: impl Fn(&SnippetParts) -> Result<T, HarnessFailure>,
    ) -> Result<T, HarnessFailure> {
        if let Some(result) = self.interpretations().iter().find_map(find) {
            return Ok(result);
        }
        let mut best: Option<HarnessFailure> = None;
        loop {
            let failure = match compile(&self) {
                Ok(result) => return Ok(result),
                Err(failure) => rewrite_for_user(failure),
            };
            let changed = self.demote_to_statements(&failure.output);
            let fewest = best.as_ref().map_or(usize::MAX, count_errors);
            if best.is_none() || (1..fewest).contains(&count_errors(&failure)) {
                best = Some(failure);
            }
            match best {
                Some(failure) if !changed || failure.interrupted => return Err(failure),
                _ => {}
            }
        }
    }

    /// Returns all interpretations: each part that may have a value occurs both with a value and
    /// without one.
    fn interpretations(&self) -> Vec<SnippetParts> {
        let mut interpretations = vec![self.clone()];
        for index in 0..self.0.len() {
            let mut as_statements = interpretations.clone();
            as_statements.retain_mut(|parts| {
                let part = &mut parts.0[index];
                let is_undecided = part.is_undecided();
                part.is_plain = true;
                is_undecided
            });
            interpretations.extend(as_statements);
        }
        interpretations
    }

    /// Treats parts with compiler errors as statements. Returns whether any changed.
    fn demote_to_statements(&mut self, output: &str) -> bool {
        let mut changed = false;
        for part in &mut self.0 {
            let has_errors = output.lines().any(|line| part_of_line(line) == Some(part.name));
            if part.is_undecided() && has_errors {
                part.is_plain = true;
                changed = true;
            }
        }
        changed
    }
}

/// Number of compiler messages about the user's code.
fn count_errors(failure: &HarnessFailure) -> usize {
    failure.output.lines().filter(|line| part_of_line(line).is_some()).count()
}

/// Rewrites a failure for the user: the first error in the user's code becomes the reason. The
/// output keeps each message once, without messages about generated code.
pub fn rewrite_for_user(mut failure: HarnessFailure) -> HarnessFailure {
    let FailureCause::Invalid { reason } = &mut failure.cause else { return failure };
    let lines = relevant_lines(&failure.output);
    if let Some(index) = lines.iter().position(|line| part_of_line(line).is_some()) {
        // rustc reports the error in the line above its position.
        let position = lines[index].trim_start().trim_start_matches("--> ");
        let complaint = if lines[index].trim_start().starts_with("--> ") {
            format!("{position}: {}", lines[index.saturating_sub(1)])
        } else {
            position.to_owned()
        };
        *reason = format!("does not compile: {complaint}");
    }
    let return_errors =
        ["speedwell_finished", "speedwell.Finished", "Finished", "too many return values"];
    let mut output = lines.join("\n");
    if return_errors.iter().any(|mark| output.contains(mark)) {
        output += "\nhint: in a runner in this language, only the last statement may be 'return'";
    }
    failure.output = output;
    // Repeating the compiler call would not help: the user has to change the code.
    failure.replay = String::new();
    failure
}

/// Drops repeated messages and lines about generated code. If no line is about the user's code,
/// returns all lines.
fn relevant_lines(output: &str) -> Vec<&str> {
    let mut relevant: Vec<&str> = Vec::new();
    let mut is_relevant = true;
    for line in output.lines() {
        if part_of_line(line).is_some() {
            is_relevant = !relevant.contains(&line);
        } else if line.starts_with("In file included")
            || line.contains(": In function")
            || has_position(line)
        {
            is_relevant = false;
        }
        if is_relevant {
            relevant.push(line);
        }
    }
    if relevant.iter().any(|line| part_of_line(line).is_some()) {
        relevant
    } else {
        output.lines().collect()
    }
}

/// Whether a line begins with a file and a line number.
fn has_position(line: &str) -> bool {
    let mut fields = line.split(':');
    let file = fields.next().unwrap_or_default();
    let number = fields.next().unwrap_or_default();
    let has_number = !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit());
    has_number && !file.is_empty() && !file.starts_with(' ')
}

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
        // If the user's code is incomplete, the compiler reports an error in the generated line
        // after it. That line therefore gets the number of the last line of the code.
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
    use speedwell_model::SnippetLanguage;
    use std::cell::RefCell;

    fn test_failure(output: &str) -> HarnessFailure {
        let reason = String::new();
        HarnessFailure { output: output.to_owned(), ..FailureCause::Invalid { reason }.into() }
    }

    #[test]
    fn a_part_without_a_value_is_compiled_as_statements() {
        let snippet =
            Snippet { init: Some("1".to_owned()), ..Snippet::new(SnippetLanguage::Java, "f()") };
        let tried = RefCell::new(Vec::new());
        let has_value = |parts: &SnippetParts, name: &str| parts.find_part(name).has_value();
        let values = |parts: &SnippetParts| (has_value(parts, "init"), has_value(parts, "runner"));
        let compile = |parts: &SnippetParts| {
            tried.borrow_mut().push(values(parts));
            if parts.find_part("runner").has_value() {
                Err(test_failure("runner:1: error: 'void' type not allowed here"))
            } else {
                Ok(())
            }
        };
        let compiled = SnippetParts::of_snippet(&snippet).compile_first(|_| None, compile);
        assert!(compiled.is_ok());
        assert_eq!(tried.take(), [(true, true), (true, false)]);

        let known = |parts: &SnippetParts| (values(parts) == (true, false)).then_some(());
        let compiled = SnippetParts::of_snippet(&snippet).compile_first(known, compile);
        assert!(compiled.is_ok());
        assert_eq!(tried.take(), [], "what was compiled once is found again");
    }

    #[test]
    fn the_shorter_list_of_errors_is_reported() {
        let snippet =
            Snippet { init: Some("x".to_owned()), ..Snippet::new(SnippetLanguage::Java, "f()") };
        let refuse = |parts: &SnippetParts| -> Result<(), HarnessFailure> {
            Err(test_failure(if parts.find_part("runner").has_value() {
                "runner:1: error: void\ninit:1: error: no x\n"
            } else {
                "init:1: error: no x\ninit:1: error: no x\n"
            }))
        };
        let compiled = SnippetParts::of_snippet(&snippet).compile_first(|_| None, refuse);
        let failure = compiled.unwrap_err();
        assert_eq!(failure.output, "init:1: error: no x");
        assert_eq!(failure.replay, "");
        let reason = "does not compile: init:1: error: no x".to_owned();
        assert_eq!(failure.cause, FailureCause::Invalid { reason });
    }

    #[test]
    fn errors_in_generated_code_are_dropped_if_user_code_has_errors() {
        let output = "In file included from /a/code.c:1:\ncode.c:3: error: x\n   3 | x\nrunner:1: error: y\n   1 | y";
        assert_eq!(relevant_lines(output), ["runner:1: error: y", "   1 | y"]);
        assert_eq!(relevant_lines("code.c:3: error: x"), ["code.c:3: error: x"]);
    }

    #[test]
    fn compiler_messages_about_a_part_are_recognised() {
        assert_eq!(part_of_line("/cache/runner:3:1: error"), Some("runner"));
        assert_eq!(part_of_line("  --> init-worker:3:1"), Some("init-worker"));
        assert_eq!(part_of_line("runner: In function 'f':"), None);
        assert_eq!(part_of_line("strunner:3: x"), None);
    }
}

#[cfg(test)]
mod source_tests {
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
