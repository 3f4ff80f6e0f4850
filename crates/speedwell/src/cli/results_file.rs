//! A file of results, or stdin, as sessions.
//!
//! Decides what the user is told when such a file cannot be had, or is only partly understood. It
//! must not know what the sessions are for. The entry point is [`read`].

use super::status;
use crate::exchange;
use crate::model::Session;
use anyhow::{Context, Result};
use std::io::Read;
use std::path::Path;

/// Reads the file at `place`, or stdin where that is `-`. What was left out of it goes to stderr.
///
/// # Errors
/// It cannot be read, or what is in it is not understood.
pub fn read(place: &Path) -> Result<Vec<Session>> {
    let label = place.display().to_string();
    let mut bytes = Vec::new();
    if label == "-" {
        std::io::stdin()
            .lock()
            .read_to_end(&mut bytes)
            .context("cannot read stdin")?;
    } else {
        bytes = std::fs::read(place).with_context(|| cannot_read(&label))?;
    }
    let mut warnings = Vec::new();
    let sessions = exchange::read_noting(&label, &bytes, &mut warnings)?;
    warnings.iter().for_each(|warning| status::warn(warning));
    Ok(sessions)
}

fn cannot_read(label: &str) -> String {
    format!(
        "cannot read the file '{label}'\n\
         hint: stored sessions are named @latest, @prev, @NUMBER or @TAG"
    )
}
