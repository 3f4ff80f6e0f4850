//! Parses the output of other programs into plain figures.
//!
//! Decides what the words, units and names in such output mean, both in imported files and in the
//! output of measured programs. Knows neither where the bytes come from nor how the figures are
//! used.

pub mod diagnosis;
pub mod google_benchmark;
pub mod http_output;
pub mod json;
pub mod profile;
pub mod suites;
pub mod unit;

use anyhow::{Result, anyhow};

/// Converts bytes to text.
///
/// # Errors
/// Fails if the bytes are not UTF-8; the message names the line.
pub fn require_utf8(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|error| {
        let valid_bytes = &bytes[..error.valid_up_to()];
        let line = 1 + valid_bytes.iter().filter(|&&byte| byte == b'\n').count();
        match error.error_len() {
            Some(_) => anyhow!("line {line} is not UTF-8"),
            None => {
                anyhow!("line {line} ends inside a UTF-8 character\nhint: is the file cut short?")
            }
        }
    })
}

/// Number of bytes that are inspected to detect the format of a file.
pub const BEGINNING_BYTES: u64 = 64 * 1024;

/// Returns the part of a file that is inspected to detect its format.
pub fn file_beginning(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(BEGINNING_BYTES as usize)]
}

/// Formats a warning as a whole sentence.
pub fn to_sentence(remark: &str) -> String {
    let mut characters = remark.chars();
    let first = characters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(characters).chain(['.']).collect()
}
