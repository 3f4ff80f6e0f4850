//! Reads result files of other programs, and our own exchange format, as sessions.
//!
//! Detects the format by content, never by file name. Knows neither where the bytes come from nor
//! where the sessions go. To add a format, add a file here and an entry in [`FORMATS`]. Start at
//! [`read`].

pub mod ab;
pub mod action_benchmark;
pub mod asv;
pub mod bencher;
pub mod go_bench;
pub mod google_benchmark;
pub mod hdr_log;
pub mod http_tools;
pub mod hyperfine;
mod imported;
mod input;
pub mod json_lines;
pub mod krun;
mod load_report;
pub mod markdown_tables;
pub mod measured;
pub mod node_csv;
pub mod point_table;
mod points;
pub mod pyperf;
mod same_names;
mod suites;

pub use crate::foreign::BEGINNING_BYTES;
pub use crate::foreign::json::Content;
use crate::foreign::readable::Unreadable;
use crate::foreign::{beginning, utf8};
pub use imported::{Skipped, merge, set};
pub use input::{Directions, Input};
pub use points::part_id;

use anyhow::{Context, Result, bail};
use flate2::read::GzDecoder;
use speedwell_model::{Case, Session};
use std::borrow::Cow;
use std::io::Read;

/// A file format that can be read.
pub struct Format {
    /// Name for messages.
    pub name: &'static str,
    /// Returns whether a file has this format, judging by its beginning.
    pub recognises: fn(&Content<'_>) -> bool,
    /// Reads the whole file.
    pub read: ReadAll,
}

/// Reads a file; adds warnings about dropped content to the last argument.
pub type ReadAll = fn(&Input<'_>, &mut Vec<String>) -> Result<Vec<Session>>;

/// All formats. The first one that recognizes a file reads it. JSON of other programs may be on a
/// single line, so it is tried before JSON Lines.
pub const FORMATS: &[Format] = &[
    Format {
        name: "JSON of pyperf",
        recognises: pyperf::recognises,
        read: |file, warnings| sole(pyperf::read(file.label, file.bytes, warnings)),
    },
    Format {
        name: "JSON of Krun",
        recognises: krun::recognises,
        read: |file, _| sole(krun::read(file.label, file.bytes)),
    },
    Format {
        name: "JSON of pytest-benchmark",
        recognises: suites::recognises_pytest_benchmark,
        read: |file, warnings| {
            sole(suites::read_pytest_benchmark(
                file.label, file.bytes, warnings,
            ))
        },
    },
    Format {
        name: "JSON of vitest",
        recognises: suites::recognises_vitest,
        read: |file, warnings| sole(suites::read_vitest(file.label, file.bytes, warnings)),
    },
    Format {
        name: "JSON of google/benchmark",
        recognises: google_benchmark::recognises,
        read: |file, warnings| sole(google_benchmark::read(file.label, file.bytes, warnings)),
    },
    Format {
        name: "JSON of asv",
        recognises: asv::recognises,
        read: asv::read,
    },
    Format {
        name: "data.js of github-action-benchmark",
        recognises: action_benchmark::recognises,
        read: action_benchmark::read,
    },
    Format {
        name: "JSON of bencher",
        recognises: bencher::recognises,
        read: bencher::read,
    },
    Format {
        name: "JSON of hyperfine",
        recognises: hyperfine::recognises,
        read: |file, warnings| sole(hyperfine::read(file.label, file.bytes, warnings)),
    },
    Format {
        name: "JSON of autocannon",
        recognises: http_tools::recognises_autocannon,
        read: |file, warnings| {
            sole(http_tools::read_autocannon(
                file.label, file.bytes, warnings,
            ))
        },
    },
    Format {
        name: "JSON of oha",
        recognises: http_tools::recognises_oha,
        read: |file, warnings| sole(http_tools::read_oha(file.label, file.bytes, warnings)),
    },
    Format {
        name: "JSON of speedwell load",
        recognises: measured::recognises,
        read: |file, warnings| sole(measured::read(file.label, file.bytes, warnings)),
    },
    Format {
        name: "JSON lines of Speedwell",
        recognises: is_json_lines,
        read: |file, _| json_lines::read(utf8(file.bytes)?),
    },
    Format {
        name: "CSV of Node.js run.js, compare.js or scatter.js",
        recognises: |file| node_csv::first_header(beginning(file.bytes)).is_some(),
        read: |file, warnings| sole(node_csv::sessions::read(file.label, file.bytes, warnings)),
    },
    Format {
        name: "CSV of points over time",
        recognises: |file| point_table::recognises(file.bytes),
        read: point_table::read,
    },
    Format {
        name: "XML of Catch2",
        recognises: |file| suites::recognises_catch2(file.bytes),
        read: |file, warnings| sole(suites::read_catch2(file.label, file.bytes, warnings)),
    },
    Format {
        name: "text of ab",
        recognises: |file| ab::recognises(file.bytes),
        read: |file, warnings| sole(ab::read(file.label, file.bytes, warnings)),
    },
    Format {
        name: "CSV of ab -e",
        recognises: |file| ab::recognises_percentages(file.bytes),
        read: |file, warnings| sole(ab::read_percentages(file.label, file.bytes, warnings)),
    },
    Format {
        name: "TSV of ab -g",
        recognises: |file| ab::recognises_requests(file.bytes),
        read: |file, warnings| sole(ab::read_requests(file.label, file.bytes, warnings)),
    },
    Format {
        name: "text of wrk or h2load",
        recognises: |file| http_tools::recognises_text(file.bytes),
        read: |file, warnings| sole(http_tools::read_text(file.label, file.bytes, warnings)),
    },
    Format {
        name: "text of hey or oha",
        recognises: |file| http_tools::recognises_hey_oha(file.bytes),
        read: |file, warnings| sole(http_tools::read_hey_oha(file.label, file.bytes, warnings)),
    },
    Format {
        name: "log of HdrHistogram",
        recognises: |file| hdr_log::recognises(file.bytes),
        read: |file, warnings| sole(hdr_log::read(file.label, file.bytes, warnings)),
    },
    Format {
        name: "text of go test -bench",
        recognises: |file| go_bench::recognises(file.bytes),
        read: |file, warnings| sole(go_bench::read(file.label, file.bytes, warnings)),
    },
    // Last, because a document may contain any of the others.
    Format {
        name: "tables of figures in Markdown",
        recognises: |file| markdown_tables::recognises(file.bytes),
        read: |file, warnings| markdown_tables::read(file.label, file.bytes, warnings),
    },
];

/// Magic number of gzip (RFC 1952).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Limit for unpacked data, larger than any result file: gzip can expand data a thousandfold.
const MOST_UNPACKED_BYTES: u64 = 1 << 30;

/// Unpacks up to `most` bytes if the data are gzipped; returns them with the error that ended
/// unpacking, if any.
fn unpacked(bytes: &[u8], most: u64) -> (Cow<'_, [u8]>, Option<std::io::Error>) {
    if !bytes.starts_with(&GZIP) {
        return (bytes.into(), None);
    }
    let mut plain = Vec::new();
    let read = GzDecoder::new(bytes).take(most).read_to_end(&mut plain);
    (plain.into(), read.err())
}

fn sole(session: Result<Session>) -> Result<Vec<Session>> {
    session.map(|session| vec![session])
}

/// Reads results in any known format. `label` is the user's name for the data: a path, or `-`.
///
/// # Errors
/// The format is unknown, or the content is invalid.
pub fn read(label: &str, bytes: &[u8]) -> Result<Vec<Session>> {
    read_noting(label, bytes, &mut Vec::new())
}

/// Like [`read`]; adds warnings about dropped content to `warnings`.
///
/// # Errors
/// As for [`read`].
pub fn read_noting(label: &str, bytes: &[u8], warnings: &mut Vec<String>) -> Result<Vec<Session>> {
    let better = &Directions::default();
    let input = Input {
        label,
        bytes,
        better,
    };
    read_input(&input, warnings)
}

/// Like [`read_noting`], with additional facts given by the user.
///
/// # Errors
/// As for [`read`].
pub fn read_input(input: &Input<'_>, warnings: &mut Vec<String>) -> Result<Vec<Session>> {
    read_as(format_of(input.bytes), input, warnings)
}

/// Like [`read_input`], with the format that [`format_of`] returned.
///
/// # Errors
/// As for [`read`].
pub fn read_as(
    format: Option<&Format>,
    input: &Input<'_>,
    warnings: &mut Vec<String>,
) -> Result<Vec<Session>> {
    let label = input.label;
    let bytes = &*match unpacked(input.bytes, MOST_UNPACKED_BYTES) {
        (bytes, None) => bytes,
        (_, Some(error)) => return Err(error).with_context(|| format!("cannot unpack '{label}'")),
    };
    // Windows editors and shells prepend a byte order mark.
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let Some(format) = format else {
        let names: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
        let told = Unreadable::of_bytes(bytes);
        bail!(
            "'{label}' {}; expected {}{}",
            told.found,
            names.join(", or "),
            told.hint_line()
        );
    };
    (format.read)(&Input { bytes, ..*input }, warnings)
        .and_then(|sessions| check_names(&sessions).map(|()| sessions))
        .with_context(|| format!("cannot read '{label}' as {}", format.name))
}

/// Rejects parameter names that would not round-trip through the store.
fn check_names(sessions: &[Session]) -> Result<()> {
    for run in sessions.iter().flat_map(|session| &session.runs) {
        for (name, _) in &run.case.values {
            if let Some(reason) = Case::refuses_name(name) {
                bail!(
                    "'{}' has a parameter '{}': {reason}\nhint: rename it in the file",
                    run.case.benchmark,
                    name.escape_debug()
                );
            }
        }
    }
    Ok(())
}

/// Returns the first format that recognizes the beginning of a file; `None` if none does.
pub fn format_of(bytes: &[u8]) -> Option<&'static Format> {
    // Unpacking a truncated beginning fails, which is expected.
    let (bytes, _) = unpacked(bytes, BEGINNING_BYTES);
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    let content = Content::new(bytes);
    FORMATS.iter().find(|format| (format.recognises)(&content))
}

/// Returns whether the first line is an object with a key of our format. That includes files
/// truncated within this line.
fn is_json_lines(file: &Content<'_>) -> bool {
    let ours = ["speedwell", "run", "failure"];
    // Most files have none of these keys, which saves the second check.
    if !ours.iter().any(|key| file.has(1, key)) {
        return false;
    }
    let line = file.bytes.trim_ascii_start();
    let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let line = Content::new(line);
    line.bytes.starts_with(b"{") && ours.iter().any(|key| line.has(1, key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_kind_is_answered_with_the_known_ones() {
        let error = read("notes.txt", b"hello\n").unwrap_err().to_string();
        assert!(
            error.starts_with("'notes.txt' is of no known kind; expected JSON of pyperf, or "),
            "{error}"
        );
        assert!(
            error.ends_with(", or tables of figures in Markdown"),
            "{error}"
        );
        assert!(
            read("-", b" \n")
                .unwrap_err()
                .to_string()
                .starts_with("'-' is empty")
        );
    }

    #[test]
    fn a_header_below_chatter_still_makes_a_node_csv() {
        let text = "> node compare.js\n\"filename\", \"configuration\", \"rate\", \"time\"\n\
                    \"g/a.js\", \"n=1\", 5, 0.000000001\n";
        let mut warnings = Vec::new();
        let sessions = read_noting("run.csv", text.as_bytes(), &mut warnings).unwrap();
        assert_eq!(sessions[0].runs[0].case.id(), "g/a.js n=1");
        assert_eq!(
            warnings,
            ["'run.csv': 1 line that is no result was left out; the first is '> node compare.js'"]
        );
    }
}
