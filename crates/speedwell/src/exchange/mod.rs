//! Result files of other programs, and our own exchange format, as sessions.
//!
//! Decides by its content what kind a file is; a file's name never matters. It must not know where
//! the bytes came from or where the sessions go. A further format is a file beside this one and a
//! line in `FORMATS`. Start at [`read`].

pub mod google_benchmark;
pub mod hyperfine;
mod imported;
pub mod json_lines;
mod merge;
pub mod node_csv;
pub mod pyperf;

pub use merge::merge;

use crate::model::Session;
use anyhow::{Context, Result, bail};

/// A kind of file that can be read.
struct Format {
    /// Its name in messages.
    name: &'static str,
    /// Whether bytes are of this kind, judged by their beginning.
    recognises: fn(&[u8]) -> bool,
    /// Reads all of it.
    read: ReadAll,
}

/// Reads the bytes that the user calls by a label; sentences about what was left out are added to
/// the last argument.
type ReadAll = fn(&str, &[u8], &mut Vec<String>) -> Result<Vec<Session>>;

/// Every kind known. The first that recognises a file reads it. Other programs' JSON may stand in
/// one line, so it is looked for before JSON lines.
const FORMATS: &[Format] = &[
    Format {
        name: "JSON of pyperf",
        recognises: pyperf::recognises,
        read: |label, bytes, _| pyperf::read(label, bytes).map(|session| vec![session]),
    },
    Format {
        name: "JSON of google/benchmark",
        recognises: google_benchmark::recognises,
        read: |label, bytes, warnings| {
            google_benchmark::read(label, bytes, warnings).map(|session| vec![session])
        },
    },
    Format {
        name: "JSON of hyperfine",
        recognises: hyperfine::recognises,
        read: |label, bytes, warnings| {
            hyperfine::read(label, bytes, warnings).map(|session| vec![session])
        },
    },
    Format {
        name: "JSON lines of Speedwell",
        recognises: is_json_lines,
        read: |_, bytes, _| json_lines::read(std::str::from_utf8(bytes)?),
    },
    Format {
        name: "CSV of Node.js run.js, compare.js or scatter.js",
        recognises: |bytes| node_csv::layout::first_header(beginning(bytes)).is_some(),
        read: |label, bytes, warnings| {
            node_csv::sessions::read(label, bytes, warnings).map(|session| vec![session])
        },
    },
];

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
    let Some(format) = FORMATS.iter().find(|format| (format.recognises)(bytes)) else {
        let names: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
        let found = if bytes.trim_ascii().is_empty() {
            "is empty"
        } else {
            "is of no known kind"
        };
        bail!("'{label}' {found}; expected {}", names.join(", or "));
    };
    (format.read)(label, bytes, warnings)
        .with_context(|| format!("cannot read '{label}' as {}", format.name))
}

/// As much of a file as is looked at to find its kind.
fn beginning(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(64 * 1024)]
}

/// Every line of that format is a JSON object; that of another program's JSON spans many lines or
/// is an array.
fn is_json_lines(bytes: &[u8]) -> bool {
    let line = bytes
        .split(|&byte| byte == b'\n')
        .next()
        .unwrap_or_default();
    line.starts_with(b"{")
        && serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(line).is_ok()
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
            error.ends_with("CSV of Node.js run.js, compare.js or scatter.js"),
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
