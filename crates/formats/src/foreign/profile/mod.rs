//! Reads profiles, which are recordings of where a program spends its time, into [`StackProfile`]s.
//!
//! Detects the format from the content of a file: text of `perf script`, `.cpuprofile` of V8, or
//! folded stacks. B. Gregg's stackcollapse programs and their successors write folded stacks, with
//! one stack per line: `outermost;...;innermost WEIGHT`. This module knows nothing about how
//! recordings are made. Start at [`read_profile`]; [`FrameNames::shorten_function`] shortens the
//! names of frames.

use crate::foreign::{file_beginning, require_utf8};
use anyhow::{Context, Result, bail};
use speedwell_model::{ProfileTool, StackProfile, WeightUnit};

mod cpu_profile;
mod frame_names;
mod perf_script;

pub use frame_names::FrameNames;
pub use perf_script::{PerfScript, read as read_perf_script};

/// Magic number of `perf record` files (tools/perf/util/header.c of Linux).
const PERF_MAGIC: &[u8] = b"PERFILE2";

/// Reads a recording. Returns `None` if its format is not supported.
///
/// # Errors
/// Fails if the recording is invalid, or is a perf file that has not been converted to text.
pub fn read_profile(bytes: &[u8], names: &FrameNames) -> Result<Option<StackProfile>> {
    if bytes.starts_with(PERF_MAGIC) {
        bail!(
            "it is a binary perf.data file, which only perf can read, on the machine that recorded it\n\
             hint: convert it to text first: perf script -i FILE > FILE.txt"
        );
    }
    if cpu_profile::recognizes(beginning_lines(bytes)) {
        return cpu_profile::read(require_utf8(bytes)?, names).map(Some);
    }
    let beginning = String::from_utf8_lossy(beginning_lines(bytes));
    if perf_script::recognizes(&beginning) {
        // The bytes need not be UTF-8: a function name may be arbitrary bytes, and one bad name
        // must not make the others unreadable.
        let script = perf_script::read(bytes, names)?;
        return Ok(Some(script.profile));
    }
    if are_folded_stacks(&beginning) {
        return read_folded(&String::from_utf8_lossy(bytes), names).map(Some);
    }
    Ok(None)
}

/// Returns the beginning of a file, cut at the end of a line if possible.
fn beginning_lines(bytes: &[u8]) -> &[u8] {
    let start = file_beginning(bytes);
    let end = start.iter().rposition(|&byte| byte == b'\n').filter(|_| start.len() < bytes.len());
    &start[..end.unwrap_or(start.len())]
}

/// Returns whether the beginning of a file consists of folded stacks: every line ends with a
/// weight, and at least one is a stack with several frames.
fn are_folded_stacks(beginning: &str) -> bool {
    let mut lines = content_lines(beginning).peekable();
    let some_are_stacks = beginning.contains(';');
    lines.peek().is_some()
        && some_are_stacks
        && lines.all(|(_, line)| split_stack_line(line).is_some())
}

/// Parses folded stacks.
///
/// # Errors
/// Fails if a line has no weight, or the weights add up to 0.
fn read_folded(text: &str, names: &FrameNames) -> Result<StackProfile> {
    let mut profile = StackProfile::new(ProfileTool::Folded, WeightUnit::Unknown);
    for (number, line) in content_lines(text) {
        let (stack, weight) = split_stack_line(line)
            .with_context(|| format!("line {number} is not a stack with a weight"))?;
        let frames: Vec<_> = stack.split(';').map(|frame| names.shorten_function(frame)).collect();
        profile.add(frames.iter().map(AsRef::as_ref), weight);
    }
    if profile.total() == 0 {
        bail!("the weights of its stacks add up to 0");
    }
    Ok(profile)
}

/// Returns the lines that are neither blank nor comments, each with its number.
fn content_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    numbered.filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'))
}

/// Splits a line into stack and weight. Fractional weights, which some programs write, are rounded.
fn split_stack_line(line: &str) -> Option<(&str, u64)> {
    let (stack, weight) = line.trim_end().rsplit_once(' ')?;
    let count = weight.parse().ok();
    let weight = count.or_else(|| {
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
        let profile = read_folded(text, &FrameNames::default()).unwrap();
        assert_eq!(profile.to_string(), text);
    }

    #[test]
    fn other_texts_are_not_taken_for_stacks() {
        assert!(are_folded_stacks("a;b 1\na 2\n"));
        for other in [
            "",
            "hello 1\nworld 2\n",
            "a;b 1\nnot a stack\n",
            "BenchmarkX-8  100  123 ns/op\n",
            "x;y\n1;2\n",
        ] {
            assert!(!are_folded_stacks(other), "{other:?}");
        }
    }

    #[test]
    fn a_broken_line_is_named() {
        let error = read_folded("a;b 1\na;b x\n", &FrameNames::default()).unwrap_err();
        assert_eq!(error.to_string(), "line 2 is not a stack with a weight");
    }
}
