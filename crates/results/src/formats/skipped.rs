//! Lines of a file that were no results.
//!
//! Decides how the user is told of them: how many, and how the first one begins.

/// Length of the beginning that is shown.
const SHOWN_CHARS: usize = 60;

/// The lines that were left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Their number; blank lines and headers are not counted.
    pub lines: u64,
    /// The beginning of the first one.
    pub first: Option<String>,
}

impl Skipped {
    /// Counts a line, unless it is blank.
    pub fn add(&mut self, line: &[u8]) {
        let line = line.trim_ascii();
        if line.is_empty() {
            return;
        }
        self.lines += 1;
        self.first.get_or_insert_with(|| {
            let text = String::from_utf8_lossy(line);
            text.chars().take(SHOWN_CHARS).collect()
        });
    }

    /// What to tell the user, if there is anything to tell.
    pub fn warning(&self) -> Option<String> {
        let first = self.first.as_deref()?;
        let (lines, is, was) = match self.lines {
            1 => ("line", "is", "was"),
            _ => ("lines", "are", "were"),
        };
        Some(format!(
            "{} {lines} that {is} no result {was} left out; the first is '{first}'",
            self.lines
        ))
    }
}
