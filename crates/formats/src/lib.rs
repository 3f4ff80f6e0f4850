//! Reads result files of other programs, and files in Speedwell's exchange format, as sessions.
//!
//! Detects the format by content, never by file name. Knows neither where the bytes come from nor
//! where the sessions go. To add a format, add a file here and an entry in [`FORMATS`]. Start at
//! [`read`].
//!
//! [`foreign`] parses the output of other programs into plain numbers and is independent of
//! sessions. [`spool`] is the log that a machine of a fleet writes while it measures.
//! [`output_files`] keeps outputs from overwriting their inputs.

pub mod ab;
pub mod action_benchmark;
pub mod asv;
pub mod bencher;
mod duplicate_names;
pub mod foreign;
pub mod go_bench;
pub mod google_benchmark;
pub mod hdr_log;
pub mod http_tools;
pub mod hyperfine;
pub mod json_lines;
pub mod krun;
mod load_report;
pub mod load_session;
pub mod markdown_tables;
pub mod node_csv;
pub mod output_files;
pub mod point_table;
pub mod pyperf;
mod session_builder;
pub mod spool;
mod suites;

pub use crate::foreign::BEGINNING_BYTES;
use crate::foreign::diagnosis::UnreadableFile;
pub use crate::foreign::json::JsonContent;
use crate::foreign::suites::{catch2, rust, vitest};
use crate::foreign::{file_beginning, require_utf8};
pub use session_builder::{
    InputFile, MetricDirections, SkippedLines, merge_sessions, part_id, set_parameters,
};
pub use suites::{CRITERION_JSON, name_criterion_benchmark};

use anyhow::{Context, Result, bail};
use flate2::read::GzDecoder;
use speedwell_model::{Case, Session, quote};
use std::borrow::Cow;
use std::io::Read;

/// A file format that can be read.
pub struct FileFormat {
    /// Name for messages.
    pub name: &'static str,
    /// Returns whether a file has this format, judging by its beginning.
    pub recognizes: fn(&JsonContent<'_>) -> bool,
    /// Reads the whole file.
    pub read: ReadFn,
}

/// Reads a file; adds remarks about dropped content, which do not name the file, to the last
/// argument.
pub type ReadFn = fn(&InputFile<'_>, &mut Vec<String>) -> Result<Vec<Session>>;

const fn format(
    name: &'static str,
    recognizes: fn(&JsonContent<'_>) -> bool,
    read: ReadFn,
) -> FileFormat {
    FileFormat { name, recognizes, read }
}

/// All formats. The first format that recognizes a file reads it. JSON formats of other programs
/// come before JSON Lines, because JSON on a single line resembles JSON Lines.
pub const FORMATS: &[FileFormat] = &[
    format("pyperf JSON", pyperf::recognizes, pyperf::read),
    format("Krun JSON", krun::recognizes, krun::read),
    format(
        "pytest-benchmark JSON",
        suites::recognizes_pytest_benchmark,
        suites::read_pytest_benchmark,
    ),
    format("vitest JSON", suites::recognizes_vitest, |file, warnings| {
        suites::read_with(file, vitest::read, warnings)
    }),
    format("JMH JSON", suites::recognizes_jmh, suites::read_jmh),
    format(CRITERION_JSON, suites::recognizes_criterion, |file, warnings| {
        suites::read_with(file, rust::read_criterion, warnings)
    }),
    format("google/benchmark JSON", google_benchmark::recognizes, google_benchmark::read),
    format("asv JSON", asv::recognizes, asv::read),
    format("github-action-benchmark data.js", action_benchmark::recognizes, action_benchmark::read),
    format("bencher JSON", bencher::recognizes, bencher::read),
    format("hyperfine JSON", |file| file.begins_with_key("results"), hyperfine::read),
    format("autocannon JSON", http_tools::recognizes_autocannon, http_tools::read_autocannon),
    format("oha JSON", http_tools::recognizes_oha, http_tools::read_oha),
    format("speedwell load JSON", load_session::recognizes, load_session::read),
    format("Bencher Metric Format JSON", bencher::recognizes_metrics, bencher::read_metrics),
    format("Speedwell JSON lines", is_json_lines, |file, _| {
        json_lines::read(require_utf8(file.bytes)?)
    }),
    format(
        "Node.js CSV (run.js, compare.js or scatter.js)",
        |file| node_csv::find_header(file_beginning(file.bytes)).is_some(),
        node_csv::sessions::read,
    ),
    format("CSV of points over time", point_table::recognizes, point_table::read),
    format("Catch2 XML", suites::recognizes_catch2, |file, warnings| {
        suites::read_with(file, catch2::read, warnings)
    }),
    format("ab output", ab::recognizes, ab::read),
    format("ab -e CSV", ab::recognizes_percentages, ab::read_percentages),
    format("ab -g TSV", ab::recognizes_requests, ab::read_requests),
    format("wrk or h2load output", http_tools::recognizes_text, http_tools::read_text),
    format("hey or oha output", http_tools::recognizes_hey_oha, http_tools::read_hey_oha),
    format("HdrHistogram log", hdr_log::recognizes, hdr_log::read),
    format("go test -bench output", go_bench::recognizes, go_bench::read),
    format("divan output", suites::recognizes_divan, suites::read_divan),
    format("#[bench] output", suites::recognizes_libtest, suites::read_libtest),
    // Markdown comes last, because a document may contain text in any of the other formats.
    format("Markdown tables of figures", markdown_tables::recognizes, markdown_tables::read),
];

/// Magic number of gzip (RFC 1952).
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Maximum size of unpacked data, because gzip can expand data a thousandfold. No result file is
/// this large.
const MAX_UNPACKED_BYTES: u64 = 1 << 30;

/// Unpacks gzipped data, up to `max_bytes` bytes. Returns other data unchanged. The second value is
/// the error, if any, that ended unpacking.
fn unpack(bytes: &[u8], max_bytes: u64) -> (Cow<'_, [u8]>, Option<std::io::Error>) {
    if !bytes.starts_with(&GZIP_MAGIC) {
        return (bytes.into(), None);
    }
    let mut unpacked = Vec::new();
    let read = GzDecoder::new(bytes).take(max_bytes).read_to_end(&mut unpacked);
    (unpacked.into(), read.err())
}

/// Reads results in any known format. `label` is the user's name for the data: a path, or `-`.
///
/// # Errors
/// Fails if the format is unknown, or the content is invalid.
pub fn read(label: &str, bytes: &[u8]) -> Result<Vec<Session>> {
    read_with_warnings(label, bytes, &mut Vec::new())
}

/// Reads results like [`read`], and adds warnings about dropped content to `warnings`. Each warning
/// begins with `label`.
///
/// # Errors
/// Fails like [`read`].
pub fn read_with_warnings(
    label: &str,
    bytes: &[u8],
    warnings: &mut Vec<String>,
) -> Result<Vec<Session>> {
    let mut remarks = Vec::new();
    let sessions = read_input(&InputFile::new(label, bytes), &mut remarks);
    warnings.extend(remarks.iter().map(|remark| format!("'{label}': {remark}")));
    sessions
}

/// Reads results. `input` also contains the directions of metrics that the user stated. Adds
/// remarks about dropped content, which do not name the file, to `remarks`.
///
/// # Errors
/// Fails like [`read`].
pub fn read_input(input: &InputFile<'_>, remarks: &mut Vec<String>) -> Result<Vec<Session>> {
    read_as_format(detect_format(input.bytes), input, remarks)
}

/// Reads results like [`read_input`], in the format that [`detect_format`] returned.
///
/// # Errors
/// Fails like [`read`].
pub fn read_as_format(
    format: Option<&FileFormat>,
    input: &InputFile<'_>,
    remarks: &mut Vec<String>,
) -> Result<Vec<Session>> {
    let label = input.label;
    let unpacked = match unpack(input.bytes, MAX_UNPACKED_BYTES) {
        (bytes, None) => bytes,
        (_, Some(error)) => return Err(error).with_context(|| format!("cannot unpack '{label}'")),
    };
    // Windows editors and shells prepend a byte order mark.
    let bytes = unpacked.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&unpacked);
    let Some(format) = format else {
        if let Some(language) = source_language(label) {
            bail!("'{label}' is {language}, not results\nhint: speedwell run {}", quote(label));
        }
        let diagnosis = UnreadableFile::diagnose(bytes);
        let hint = match diagnosis.hint {
            "" => "docs/guide/import.md lists the formats of results",
            hint => hint,
        };
        bail!("'{label}' {}\nhint: {hint}", diagnosis.found);
    };
    (format.read)(&InputFile { bytes, ..*input }, remarks)
        .and_then(|sessions| validate_names(&sessions).map(|()| sessions))
        .with_context(|| format!("cannot read '{label}' as {}", format.name))
}

/// Says what a source file is, by its name.
fn source_language(label: &str) -> Option<&'static str> {
    let (_, ending) = label.rsplit_once('.')?;
    Some(match ending {
        "js" | "cjs" | "mjs" => "a JavaScript file",
        "ts" | "cts" | "mts" => "a TypeScript file",
        "py" => "a Python file",
        "go" => "a Go file",
        "rs" => "a Rust file",
        "c" => "a C file",
        "cc" | "cpp" | "cxx" => "a C++ file",
        _ => return None,
    })
}

/// Rejects parameter names that the store could not return unchanged.
fn validate_names(sessions: &[Session]) -> Result<()> {
    for run in sessions.iter().flat_map(|session| &session.runs) {
        for (name, _) in &run.case.values {
            if let Some(reason) = Case::refuses_name(name) {
                bail!(
                    "'{}' has an invalid parameter '{}': {reason}\nhint: rename it in the file",
                    run.case.benchmark,
                    name.escape_debug()
                );
            }
        }
    }
    Ok(())
}

/// Returns the first format that recognizes the beginning of a file; `None` if none does.
pub fn detect_format(bytes: &[u8]) -> Option<&'static FileFormat> {
    // `bytes` may be only the beginning of a gzip file. Unpacking then ends with an error, which is
    // expected.
    let (unpacked, _) = unpack(bytes, BEGINNING_BYTES);
    let content = JsonContent::new(unpacked.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&unpacked));
    FORMATS.iter().find(|format| (format.recognizes)(&content))
}

/// Returns whether the first line is an object with a key of Speedwell's exchange format. A file
/// that ends within this line is also recognized.
fn is_json_lines(file: &JsonContent<'_>) -> bool {
    let own_keys = ["speedwell", "run", "failure"];
    // Fast path: most files have none of these keys.
    if !own_keys.iter().any(|key| file.has_key(1, key)) {
        return false;
    }
    let first =
        file.bytes.trim_ascii_start().split(|&byte| byte == b'\n').next().unwrap_or_default();
    let line = JsonContent::new(first);
    line.bytes.starts_with(b"{") && own_keys.iter().any(|key| line.has_key(1, key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_for_an_unknown_format_says_what_the_file_is() {
        for (label, text, expected) in [
            (
                "notes.txt",
                "hello\n",
                "'notes.txt' has an unknown format\nhint: docs/guide/import.md",
            ),
            (
                "a.js",
                "hello()",
                "'a.js' is a JavaScript file, not results\nhint: speedwell run a.js",
            ),
            ("-", " \n", "'-' is empty"),
        ] {
            let error = read(label, text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn a_node_csv_is_recognized_if_chatter_precedes_its_header() {
        let text = "> node compare.js\n\"filename\", \"configuration\", \"rate\", \"time\"\n\
                    \"g/a.js\", \"n=1\", 5, 0.000000001\n";
        let mut warnings = Vec::new();
        let sessions = read_with_warnings("run.csv", text.as_bytes(), &mut warnings).unwrap();
        assert_eq!(sessions[0].runs[0].case.id(), "g/a.js n=1");
        assert_eq!(
            warnings,
            ["'run.csv': 1 line without a result was left out; the first is '> node compare.js'"]
        );
    }
}
