//! The texts of a piece of code, and the order in which they are tried.
//!
//! Whether a last statement is an expression with a value is for the compiler to say. First every text that may
//! have a value is taken to have one; texts that the compiler then complains of are taken for mere statements.

use super::super::super::compile::Failed;
use super::text::{Kind, Text};
use crate::model::{Cause, Code};

/// The texts of a piece of code. One that is missing is empty.
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
    /// What messages call it.
    pub name: &'static str,
    pub text: Text,
    /// Whether it is taken for statements without a value, although it may have one.
    pub is_plain: bool,
}

impl Part {
    /// Whether the text has a value, as far as is known.
    pub fn has_value(&self) -> bool {
        match self.text.kind {
            Kind::Plain => false,
            Kind::Return => true,
            Kind::Expression | Kind::Last => !self.is_plain,
        }
    }

    /// Whether there is anything in it.
    pub fn has_text(&self) -> bool {
        !self.text.body.is_empty()
    }

    fn is_open(&self) -> bool {
        !self.is_plain && matches!(self.text.kind, Kind::Expression | Kind::Last)
    }

    /// Lines of a compiler's words that are about this text.
    fn complaints(&self, words: &str) -> usize {
        let lines = words.lines();
        lines.filter(|line| about(line) == Some(self.name)).count()
    }
}

/// The text that a line of a compiler is about: `runner:3: error: ...`, with or without a folder.
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
    pub fn of(code: &Code) -> Parts {
        let part = |name, text: Option<&str>| Part {
            name,
            text: Text::of(text.unwrap_or_default(), code.language),
            is_plain: false,
        };
        Parts {
            init: part("init", code.init.as_deref()),
            init_worker: part("init-worker", code.init_worker.as_deref()),
            runner: part("runner", Some(&code.runner)),
            done: part("done", code.done.as_deref()),
        }
    }

    /// All of them, in the order in which they are executed.
    pub fn all(&self) -> [&Part; 4] {
        [&self.init, &self.init_worker, &self.runner, &self.done]
    }

    /// Hands the parts to `compile` until it succeeds, or there is nothing more to try.
    ///
    /// # Errors
    /// The shortest list of complaints.
    pub fn compiled<T>(
        mut self,
        compile: impl Fn(&Parts) -> Result<T, Failed>,
    ) -> Result<T, Failed> {
        let first = match compile(&self) {
            Ok(done) => return Ok(done),
            Err(failed) => told(failed),
        };
        let mut changed = false;
        for part in [
            &mut self.init,
            &mut self.init_worker,
            &mut self.runner,
            &mut self.done,
        ] {
            if part.is_open() && part.complaints(&first.words) > 0 {
                part.is_plain = true;
                changed = true;
            }
        }
        if !changed || !matches!(first.cause, Cause::Invalid { .. }) {
            return Err(first);
        }
        let second = match compile(&self) {
            Ok(done) => return Ok(done),
            Err(failed) => told(failed),
        };
        let count = |failed: &Failed| -> usize {
            let parts = self.all().into_iter();
            parts.map(|part| part.complaints(&failed.words)).sum()
        };
        let shorter = count(&second) > 0 && count(&second) < count(&first);
        Err(if shorter { second } else { first })
    }
}

/// The failure, with the first complaint about the user's text as its reason, each complaint once.
fn told(mut failed: Failed) -> Failed {
    let mut lines: Vec<&str> = Vec::new();
    for line in failed.words.lines() {
        if about(line).is_none() || !lines.contains(&line) {
            lines.push(line);
        }
    }
    let first = lines.iter().position(|line| about(line).is_some());
    if let (Cause::Invalid { reason }, Some(at)) = (&mut failed.cause, first) {
        // rustc says what is wrong in the line above the one that says where.
        let place = lines[at].trim_start().trim_start_matches("--> ");
        let complaint = match lines[at].trim_start().starts_with("--> ") {
            true => format!("{place}: {}", lines[at.saturating_sub(1)]),
            false => place.to_owned(),
        };
        *reason = format!("does not compile: {complaint}");
    }
    failed.words = lines.join("\n");
    failed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Language;
    use std::cell::RefCell;

    fn failed(words: &str) -> Failed {
        let reason = String::new();
        Failed {
            words: words.to_owned(),
            ..Failed::before_start(Cause::Invalid { reason })
        }
    }

    #[test]
    fn a_text_without_a_value_is_tried_as_statements() {
        let code = Code {
            init: Some("1".to_owned()),
            ..Code::new(Language::Java, "f()")
        };
        let tried = RefCell::new(Vec::new());
        let compiled = Parts::of(&code).compiled(|parts| {
            tried
                .borrow_mut()
                .push((parts.init.has_value(), parts.runner.has_value()));
            match parts.runner.has_value() {
                true => Err(failed("runner:1: error: 'void' type not allowed here")),
                false => Ok(()),
            }
        });
        assert!(compiled.is_ok());
        assert_eq!(tried.into_inner(), [(true, true), (true, false)]);
    }

    #[test]
    fn the_shorter_list_of_complaints_is_told() {
        let code = Code {
            init: Some("x".to_owned()),
            ..Code::new(Language::Java, "f()")
        };
        let compiled = Parts::of(&code).compiled(|parts| -> Result<(), Failed> {
            Err(failed(match parts.runner.has_value() {
                true => "runner:1: error: void\ninit:1: error: no x\n",
                false => "init:1: error: no x\ninit:1: error: no x\n",
            }))
        });
        let failed = compiled.unwrap_err();
        assert_eq!(failed.words, "init:1: error: no x");
        let reason = "does not compile: init:1: error: no x".to_owned();
        assert_eq!(failed.cause, Cause::Invalid { reason });
    }

    #[test]
    fn lines_about_a_text_are_recognised() {
        assert_eq!(about("/cache/runner:3:1: error"), Some("runner"));
        assert_eq!(about("  --> init-worker:3:1"), Some("init-worker"));
        assert_eq!(about("runner: In function 'f':"), None);
        assert_eq!(about("strunner:3: x"), None);
    }
}
