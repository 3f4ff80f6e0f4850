//! Folded stacks: one line for a stack, `outermost;...;innermost WEIGHT`.
//!
//! The text that B. Gregg's stackcollapse programs and their successors write. Start at [`read`].

use super::FrameNames;
use anyhow::{Context, Result, bail};
use speedwell_model::{Profile, ProfileTool, WeightUnit};

/// Whether the beginning of a text is folded stacks: every line ends in a weight, and one of them at least is a
/// stack of several frames.
pub fn recognises(beginning: &str) -> bool {
    let mut lines = lines(beginning).peekable();
    let some_are_stacks = beginning.contains(';');
    lines.peek().is_some() && some_are_stacks && lines.all(|(_, line)| parts(line).is_some())
}

/// Reads a text of folded stacks.
///
/// # Errors
/// A line without a weight, or no lines at all.
pub fn read(text: &str, names: &FrameNames) -> Result<Profile> {
    let mut profile = Profile::new(ProfileTool::Folded, WeightUnit::Unknown);
    for (number, line) in lines(text) {
        let (stack, weight) =
            parts(line).with_context(|| format!("line {number} is no stack with a weight"))?;
        let frames: Vec<_> = stack.split(';').map(|frame| names.short(frame)).collect();
        profile.add(frames.iter().map(AsRef::as_ref), weight);
    }
    if profile.total() == 0 {
        bail!("it holds no weight");
    }
    Ok(profile)
}

/// Lines that say something, with their numbers.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = text.lines().enumerate().map(|(at, line)| (at + 1, line));
    numbered.filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'))
}

/// A stack and its weight. Weights with a fraction, which some programs write, are rounded.
fn parts(line: &str) -> Option<(&str, u64)> {
    let (stack, weight) = line.trim_end().rsplit_once(' ')?;
    let whole = weight.parse().ok();
    let weight = whole.or_else(|| {
        let fraction: f64 = weight.parse().ok()?;
        (fraction.is_finite() && fraction >= 0.0).then(|| fraction.round() as u64)
    })?;
    (!stack.trim().is_empty()).then_some((stack, weight))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_is_read_and_written_again_is_the_same() {
        let text = "main;a b;(anonymous namespace)::c 12\nmain;d 3\n";
        let profile = read(text, &FrameNames::default()).unwrap();
        assert_eq!(profile.to_string(), text);
    }

    #[test]
    fn other_texts_are_not_taken_for_stacks() {
        assert!(recognises("a;b 1\na 2\n"));
        for other in [
            "",
            "hello 1\nworld 2\n",
            "a;b 1\nnot a stack\n",
            "BenchmarkX-8  100  123 ns/op\n",
            "x;y\n1;2\n",
        ] {
            assert!(!recognises(other), "{other:?}");
        }
    }

    #[test]
    fn a_broken_line_is_named() {
        let error = read("a;b 1\na;b x\n", &FrameNames::default()).unwrap_err();
        assert_eq!(error.to_string(), "line 2 is no stack with a weight");
    }
}
