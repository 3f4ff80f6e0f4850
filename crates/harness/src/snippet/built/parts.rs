//! The texts of a snippet, and the order in which their interpretations are tried.
//!
//! Only the compiler can tell whether a last statement is an expression with a value. First, every
//! text that may have a value is assumed to have one; texts with compiler errors are then treated
//! as statements. A program compiled earlier is found without trying again.

use super::text::{Kind, Text};
use crate::compile::Failed;
use speedwell_model::{Cause, Snippet};

/// The texts of a snippet; missing ones are empty.
#[derive(Debug, Clone)]
pub struct Parts {
    pub init: Part,
    pub init_worker: Part,
    pub runner: Part,
    pub done: Part,
}

/// One text.
#[derive(Debug, Clone)]
pub struct Part {
    /// Name of the text in messages.
    pub name: &'static str,
    pub text: Text,
    /// Whether it is treated as statements without a value, although it may have one.
    pub is_plain: bool,
}

impl Part {
    /// Whether the text is assumed to have a value.
    pub fn has_value(&self) -> bool {
        match self.text.kind {
            Kind::Plain => false,
            Kind::Return => true,
            Kind::Expression | Kind::Last => !self.is_plain,
        }
    }

    /// Whether the text is not empty.
    pub fn has_text(&self) -> bool {
        !self.text.body.is_empty()
    }

    fn is_open(&self) -> bool {
        !self.is_plain && matches!(self.text.kind, Kind::Expression | Kind::Last)
    }
}

/// Returns the text to which a line of compiler output refers: `runner:3: error: ...`, with or
/// without a folder.
fn about(line: &str) -> Option<&'static str> {
    let (place, rest) = line
        .trim_start()
        .trim_start_matches("--> ")
        .split_once(':')?;
    let name = place.rsplit('/').next().unwrap_or(place).trim();
    let counted = rest.starts_with(|digit: char| digit.is_ascii_digit());
    let known = ["runner", "init", "init-worker", "done"];
    known.into_iter().find(|one| counted && *one == name)
}

impl Parts {
    pub fn of_snippet(snippet: &Snippet) -> Parts {
        let part = |name, text: Option<&str>| Part {
            name,
            text: Text::divided(text.unwrap_or_default(), snippet.language),
            is_plain: false,
        };
        Parts {
            init: part("init", snippet.init.as_deref()),
            init_worker: part("init-worker", snippet.init_worker.as_deref()),
            runner: part("runner", Some(&snippet.runner)),
            done: part("done", snippet.done.as_deref()),
        }
    }

    /// Returns all texts in execution order.
    pub fn in_order(&self) -> [&Part; 4] {
        [&self.init, &self.init_worker, &self.runner, &self.done]
    }

    /// Returns the text of that name, or the runner for any other name.
    pub fn named(&self, name: &str) -> &Part {
        let found = self.in_order().into_iter().find(|part| part.name == name);
        found.unwrap_or(&self.runner)
    }

    /// Passes interpretations to `compile` until one succeeds or none is left. A result of `find`
    /// was compiled earlier, after the compiler had rejected the interpretations before it.
    ///
    /// # Errors
    /// The failure with the fewest compiler errors.
    pub fn compiled<T>(
        mut self,
        find: impl Fn(&Parts) -> Option<T>,
        compile: impl Fn(&Parts) -> Result<T, Failed>,
    ) -> Result<T, Failed> {
        if let Some(known) = self.readings().iter().find_map(find) {
            return Ok(known);
        }
        let mut best: Option<Failed> = None;
        loop {
            let failed = match compile(&self) {
                Ok(done) => return Ok(done),
                Err(failed) => in_users_terms(failed),
            };
            let changed = self.take_for_statements(&failed.output);
            let known = best.as_ref().map_or(usize::MAX, complaints);
            if best.is_none() || (1..known).contains(&complaints(&failed)) {
                best = Some(failed);
            }
            match best {
                Some(failed) if !changed || failed.interrupted => return Err(failed),
                _ => {}
            }
        }
    }

    /// All interpretations: each text that may have a value with and without one.
    fn readings(&self) -> Vec<Parts> {
        let mut readings = vec![self.clone()];
        let texts: [fn(&mut Parts) -> &mut Part; 4] = [
            |parts| &mut parts.init,
            |parts| &mut parts.init_worker,
            |parts| &mut parts.runner,
            |parts| &mut parts.done,
        ];
        for text in texts {
            let mut plain = readings.clone();
            plain.retain_mut(|parts| {
                let part = text(parts);
                let is_open = part.is_open();
                part.is_plain = true;
                is_open
            });
            readings.extend(plain);
        }
        readings
    }

    /// Treats texts with compiler errors as statements. Returns whether any changed.
    fn take_for_statements(&mut self, output: &str) -> bool {
        let mut changed = false;
        for part in [
            &mut self.init,
            &mut self.init_worker,
            &mut self.runner,
            &mut self.done,
        ] {
            let complained = output.lines().any(|line| about(line) == Some(part.name));
            if part.is_open() && complained {
                part.is_plain = true;
                changed = true;
            }
        }
        changed
    }
}

/// Number of compiler messages about the user's text.
fn complaints(failed: &Failed) -> usize {
    failed
        .output
        .lines()
        .filter(|line| about(line).is_some())
        .count()
}

/// Rewrites a failure for the user: the first error in their text as the reason, each message once,
/// and none about generated code.
pub fn in_users_terms(mut failed: Failed) -> Failed {
    let Cause::Invalid { reason } = &mut failed.cause else {
        return failed;
    };
    let lines = own_lines(&failed.output);
    if let Some(at) = lines.iter().position(|line| about(line).is_some()) {
        // rustc reports the error in the line above its position.
        let place = lines[at].trim_start().trim_start_matches("--> ");
        let complaint = if lines[at].trim_start().starts_with("--> ") {
            format!("{place}: {}", lines[at.saturating_sub(1)])
        } else {
            place.to_owned()
        };
        *reason = format!("does not compile: {complaint}");
    }
    let leaves = [
        "speedwell_finished",
        "speedwell.Finished",
        "Finished",
        "too many return values",
    ];
    let mut output = lines.join("\n");
    if leaves.iter().any(|mark| output.contains(mark)) {
        output += "\nhint: in a runner in this language, only the last statement may be 'return'";
    }
    failed.output = output;
    // Repeating the compiler call would not help: the user has to change the code.
    failed.replay = String::new();
    failed
}

/// Drops lines about generated code, unless there are no others.
fn own_lines(output: &str) -> Vec<&str> {
    let mut own: Vec<&str> = Vec::new();
    let mut keeps = true;
    for line in output.lines() {
        if about(line).is_some() {
            keeps = !own.contains(&line);
        } else if line.starts_with("In file included")
            || line.contains(": In function")
            || is_placed(line)
        {
            keeps = false;
        }
        if keeps {
            own.push(line);
        }
    }
    if own.iter().any(|line| about(line).is_some()) {
        own
    } else {
        output.lines().collect()
    }
}

/// Whether a line begins with a file and a line number.
fn is_placed(line: &str) -> bool {
    let mut output = line.split(':');
    let file = output.next().unwrap_or_default();
    let number = output.next().unwrap_or_default();
    let counted = !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit());
    counted && !file.is_empty() && !file.starts_with(' ')
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_model::Language;
    use std::cell::RefCell;

    fn failed(output: &str) -> Failed {
        let reason = String::new();
        Failed {
            output: output.to_owned(),
            ..Failed::before_start(Cause::Invalid { reason })
        }
    }

    #[test]
    fn a_text_without_a_value_is_tried_as_statements() {
        let snippet = Snippet {
            init: Some("1".to_owned()),
            ..Snippet::new(Language::Java, "f()")
        };
        let tried = RefCell::new(Vec::new());
        let values = |parts: &Parts| (parts.init.has_value(), parts.runner.has_value());
        let compile = |parts: &Parts| {
            tried.borrow_mut().push(values(parts));
            if parts.runner.has_value() {
                Err(failed("runner:1: error: 'void' type not allowed here"))
            } else {
                Ok(())
            }
        };
        let compiled = Parts::of_snippet(&snippet).compiled(|_| None, compile);
        assert!(compiled.is_ok());
        assert_eq!(tried.take(), [(true, true), (true, false)]);

        let known = |parts: &Parts| (values(parts) == (true, false)).then_some(());
        let compiled = Parts::of_snippet(&snippet).compiled(known, compile);
        assert!(compiled.is_ok());
        assert_eq!(tried.take(), [], "what was compiled once is found again");
    }

    #[test]
    fn the_shorter_list_of_complaints_is_told() {
        let snippet = Snippet {
            init: Some("x".to_owned()),
            ..Snippet::new(Language::Java, "f()")
        };
        let refuse = |parts: &Parts| -> Result<(), Failed> {
            Err(failed(if parts.runner.has_value() {
                "runner:1: error: void\ninit:1: error: no x\n"
            } else {
                "init:1: error: no x\ninit:1: error: no x\n"
            }))
        };
        let compiled = Parts::of_snippet(&snippet).compiled(|_| None, refuse);
        let failed = compiled.unwrap_err();
        assert_eq!(failed.output, "init:1: error: no x");
        assert_eq!(failed.replay, "");
        let reason = "does not compile: init:1: error: no x".to_owned();
        assert_eq!(failed.cause, Cause::Invalid { reason });
    }

    #[test]
    fn what_is_generated_is_not_talked_about() {
        let output = "In file included from /a/code.c:1:\ncode.c:3: error: x\n   3 | x\nrunner:1: error: y\n   1 | y";
        assert_eq!(own_lines(output), ["runner:1: error: y", "   1 | y"]);
        assert_eq!(own_lines("code.c:3: error: x"), ["code.c:3: error: x"]);
    }

    #[test]
    fn lines_about_a_text_are_recognised() {
        assert_eq!(about("/cache/runner:3:1: error"), Some("runner"));
        assert_eq!(about("  --> init-worker:3:1"), Some("init-worker"));
        assert_eq!(about("runner: In function 'f':"), None);
        assert_eq!(about("strunner:3: x"), None);
    }
}
