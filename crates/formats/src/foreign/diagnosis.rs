//! Diagnoses files that cannot be read: wrong encoding, no results, or output formatted for people.
//!
//! Decides how messages describe such a file, and which hint they give for getting a readable one.
//! Imports use this module, and so do the commands that replace other tools. Start at [`strip_bom`]
//! for bytes that should be text, and at [`UnreadableFile::diagnose`] for bytes of an unknown
//! format.

use super::file_beginning;
use anyhow::{Result, ensure};
use std::io::{Cursor, Read};

/// Strips the byte order mark, which Windows editors and shells prepend.
///
/// # Errors
/// Fails if the bytes are UTF-16; the message does not name the file.
pub fn strip_bom(bytes: &[u8]) -> Result<&[u8]> {
    ensure!(!is_utf16(bytes), "it {UTF16_FOUND}\nhint: {SAVE_AS_UTF8}");
    Ok(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes))
}

const UTF16_FOUND: &str = "is UTF-16 text";
const SAVE_AS_UTF8: &str = "save it as UTF-8";

/// Number of bytes that are inspected if there is no byte order mark.
const MAX_INSPECTED_BYTES: usize = 64;

/// Returns whether bytes are UTF-16. Such bytes begin with a byte order mark, or every second byte
/// is zero, as in UTF-16 text that begins with ASCII characters.
pub fn is_utf16(bytes: &[u8]) -> bool {
    let starts_with = |mark: &[u8]| bytes.starts_with(mark);
    let first = &bytes[..bytes.len().min(MAX_INSPECTED_BYTES) & !1];
    let has_zeros_from = |offset: usize| {
        let mut every_second = first.iter().skip(offset).step_by(2);
        first.len() >= 4 && every_second.all(|&byte| byte == 0)
    };
    let is_marked = starts_with(b"\xff\xfe") || starts_with(b"\xfe\xff");
    is_marked || (has_zeros_from(0) != has_zeros_from(1))
}

/// Returns a reader of the same source without its byte order mark.
///
/// # Errors
/// Fails if the source is UTF-16 or reading fails.
pub fn plain_source(mut source: impl Read) -> Result<impl Read> {
    let mut first = Vec::with_capacity(MAX_INSPECTED_BYTES);
    source.by_ref().take(MAX_INSPECTED_BYTES as u64).read_to_end(&mut first)?;
    let first = strip_bom(&first)?.to_vec();
    Ok(Cursor::new(first).chain(source))
}

/// Diagnosis of unreadable bytes, with a remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableFile {
    /// Predicate to put after the file name: `is empty`.
    pub found: String,
    /// How to get a readable file; empty if unknown.
    pub hint: &'static str,
}

/// Output that a program formats for people: a function that recognizes one of its lines, the name
/// of the program, and a hint on how to get readable results.
type PrintedOutput = (fn(&str) -> bool, &'static str, &'static str);

const PRINTED_OUTPUTS: [PrintedOutput; 7] = [
    (
        |line| has_all(line, &["Benchmark", "Time", "CPU", "Iterations"]),
        "google/benchmark",
        "have the program write a file: --benchmark_out=FILE --benchmark_out_format=json",
    ),
    (
        |line| line.trim_start().starts_with("Time (mean ±"),
        "hyperfine",
        "have it write a file: hyperfine --export-json FILE",
    ),
    (
        |line| line.starts_with("Name (time in "),
        "pytest-benchmark",
        "have it write a file: pytest --benchmark-json=FILE",
    ),
    (
        |line| has_all(line, &["Benchmark", "Mode", "Score", "Units"]),
        "JMH",
        "have it write JSON: -rf json",
    ),
    (
        |line| has_all(line, &["time:", "[", "]"]) && line.trim_end().ends_with(']'),
        "criterion",
        "read the folder that it wrote: target/criterion",
    ),
    (
        |line| line.contains('│') && line.contains("Stat"),
        "autocannon",
        "have it write JSON: autocannon -j",
    ),
    (
        |line| has_all(line, &["benchmark name", "samples", "iterations"]),
        "Catch2",
        "have the program write XML: --reporter xml --out FILE",
    ),
];

fn has_all(line: &str, words: &[&str]) -> bool {
    words.iter().all(|word| line.contains(word))
}

impl UnreadableFile {
    /// Diagnoses bytes that no reader recognizes.
    pub fn diagnose(bytes: &[u8]) -> UnreadableFile {
        let diagnosis = |found: &str, hint| UnreadableFile { found: found.to_owned(), hint };
        if bytes.trim_ascii().is_empty() {
            return diagnosis("is empty", "did the program that wrote it exit successfully?");
        }
        if is_utf16(bytes) {
            // PowerShell's `>` writes UTF-16.
            return diagnosis(UTF16_FOUND, SAVE_AS_UTF8);
        }
        let bytes = file_beginning(bytes);
        if bytes.contains(&0) {
            return diagnosis("is a binary file", "");
        }
        let text = String::from_utf8_lossy(bytes);
        if let Some(line) = find_json_below_text(&text) {
            let found = format!("has other text before its JSON, which begins at line {line}");
            let hint = "redirect only standard output to the file (without '2>&1'), or let a google/benchmark program write the file: --benchmark_out=FILE";
            return diagnosis(&found, hint);
        }
        let printed = PRINTED_OUTPUTS.iter().find(|(is_line, ..)| text.lines().any(is_line));
        match printed {
            Some((_, program, hint)) => {
                diagnosis(&format!("is output that {program} formats for people"), hint)
            }
            None => diagnosis("has an unknown format", ""),
        }
    }

    /// Returns the hint as the last line of a message, or an empty string if there is no hint.
    pub fn hint_line(&self) -> String {
        match self.hint {
            "" => String::new(),
            hint => format!("\nhint: {hint}"),
        }
    }
}

/// Returns the number of the line at which JSON begins, if there is other text above that line.
fn find_json_below_text(text: &str) -> Option<usize> {
    let is_json_start = |line: &str| {
        let line = line.trim_end();
        matches!(line, "{" | "[") || line.starts_with("{\"") || line.starts_with("[{")
    };
    let first = text.trim_start();
    if first.starts_with('{') || is_json_start(first.lines().next()?) {
        return None;
    }
    let found = text.lines().position(is_json_start)?;
    Some(found + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode_utf16(text: &str, mark: bool) -> Vec<u8> {
        let mark = mark.then_some(0xfeff);
        let units = mark.into_iter().chain(text.encode_utf16());
        units.flat_map(u16::to_le_bytes).collect()
    }

    #[test]
    fn utf16_is_known_with_and_without_its_mark() {
        for bytes in [encode_utf16("goos: linux\n", true), encode_utf16("goos: linux\n", false)] {
            let error = strip_bom(&bytes).unwrap_err().to_string();
            assert_eq!(error, "it is UTF-16 text\nhint: save it as UTF-8");
            assert_eq!(UnreadableFile::diagnose(&bytes).found, "is UTF-16 text");
        }
        assert_eq!(strip_bom(b"\xef\xbb\xbfgoos").unwrap(), b"goos");
        assert_eq!(strip_bom(b"\0\0\0\0").unwrap(), b"\0\0\0\0");
        assert_eq!(strip_bom(b"").unwrap(), b"");
    }

    #[test]
    fn unreadable_files_are_diagnosed_with_a_hint() {
        for (text, found, hint) in [
            (
                "-----\nBenchmark        Time             CPU   Iterations\n-----\nBM_x  1 ns  1 ns  7\n",
                "is output that google/benchmark formats for people",
                "--benchmark_out=",
            ),
            (
                "Benchmark 1: sleep 1\n  Time (mean ± σ):     1.0 s ±  0.1 s\n",
                "is output that hyperfine formats for people",
                "--export-json",
            ),
            (
                "Run on (2 X 2400 MHz CPU s)\n***WARNING*** CPU scaling\n{\n  \"context\": {\n",
                "has other text before its JSON, which begins at line 3",
                "2>&1",
            ),
            (" \n", "is empty", "exit successfully"),
            ("hello\n", "has an unknown format", ""),
        ] {
            let diagnosis = UnreadableFile::diagnose(text.as_bytes());
            assert_eq!(diagnosis.found, found);
            assert!(diagnosis.hint.contains(hint), "{diagnosis:?}");
        }
    }
}
