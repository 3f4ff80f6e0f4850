//! Result files of other programs, and our own exchange format, as sessions.
//!
//! Decides by its content what kind a file is; a file's name never matters. It must not know where
//! the bytes came from or where the sessions go. A further format is a file beside this one and a
//! line in `FORMATS`. Start at [`read`].

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

/// A kind of file that can be read.
pub struct Format {
    /// Its name in messages.
    pub name: &'static str,
    /// Whether a file is of this kind, judged by its beginning.
    pub recognises: fn(&Content<'_>) -> bool,
    /// Reads all of it.
    pub read: ReadAll,
}

/// Reads a file; sentences about what was left out are added to the last argument.
pub type ReadAll = fn(&Input<'_>, &mut Vec<String>) -> Result<Vec<Session>>;

/// Every kind known. The first that recognises a file reads it. Other programs' JSON may stand in
/// one line, so it is looked for before JSON lines.
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
    // Last, because all others may stand inside a document.
    Format {
        name: "tables of figures in Markdown",
        recognises: |file| markdown_tables::recognises(file.bytes),
        read: |file, warnings| markdown_tables::read(file.label, file.bytes, warnings),
    },
];

/// The first bytes of a file packed by gzip (RFC 1952).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// More than any result file has; a packed file can be a thousand times as large as it looks.
const MOST_UNPACKED_BYTES: u64 = 1 << 30;

/// The bytes without gzip's packing, at most so many, and what is wrong with the rest of them.
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

/// Reads results of any known kind. `label` is what the user calls the bytes: a path, or `-`.
///
/// # Errors
/// The kind is not known, or the content is broken.
pub fn read(label: &str, bytes: &[u8]) -> Result<Vec<Session>> {
    read_noting(label, bytes, &mut Vec::new())
}

/// Like [`read`]; what was left out is added to `warnings` as whole sentences.
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

/// Like [`read_noting`], with what the user says of the file.
///
/// # Errors
/// As for [`read`].
pub fn read_input(input: &Input<'_>, warnings: &mut Vec<String>) -> Result<Vec<Session>> {
    read_as(format_of(input.bytes), input, warnings)
}

/// Like [`read_input`] where [`format_of`] has been asked before.
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
    // Editors and shells of Windows put a mark of the byte order in front.
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

/// Refuses names of parameters that would be read back from the store as others.
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

/// The first format that recognises a file, of which the beginning is enough; none if it is of no kind that can be read.
pub fn format_of(bytes: &[u8]) -> Option<&'static Format> {
    // The beginning of a packed file ends somewhere, which is no mistake.
    let (bytes, _) = unpacked(bytes, BEGINNING_BYTES);
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    let content = Content::new(bytes);
    FORMATS.iter().find(|format| (format.recognises)(&content))
}

/// The first line of that format is an object with a key that only we write. Files cut short within
/// that line are ours, too.
fn is_json_lines(file: &Content<'_>) -> bool {
    let ours = ["speedwell", "run", "failure"];
    // Most files have none of these keys, and need not be looked at again.
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
