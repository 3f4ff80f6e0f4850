//! What other programs print, read into plain figures.
//!
//! Decides the meaning of their words, units and names, for files that are imported and for
//! programs that are measured alike. It must not know where the bytes came from or what becomes of
//! the figures.

pub mod go_bench;
pub mod google_benchmark;
pub mod http_output;
pub mod json;
pub mod profile;
pub mod readable;
pub mod suites;
pub mod unit;

use anyhow::{Result, anyhow};

/// Bytes as text.
///
/// # Errors
/// They are not UTF-8; the message names the line.
pub fn utf8(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
        match error.error_len() {
            Some(_) => anyhow!("line {line} is not UTF-8"),
            None => anyhow!("line {line} ends within a letter\nhint: is the file cut short?"),
        }
    })
}

/// As many bytes of a file are looked at to find its kind.
pub const BEGINNING_BYTES: u64 = 64 * 1024;

/// As much of a file as is looked at to find its kind.
pub fn beginning(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(BEGINNING_BYTES as usize)]
}
