//! `assert`: what must be seen, or a variant did not take effect.

use super::requirement::check_pattern;
use crate::keys::Keys;
use anyhow::Result;
use speedwell_model::assignment::{Place, Proof};
use std::path::Path;

/// Reads one proof or a list of them. Files are beside `directory`, where the target works. A
/// `server` is looked at when it is ready unless the proof says otherwise; a command has an end only.
pub fn read(keys: &Keys, directory: &Path, server: bool) -> Result<Vec<Proof>> {
    let proofs = keys.list("assert")?;
    proofs
        .iter()
        .map(|keys| one(keys, directory, server))
        .collect()
}

fn one(keys: &Keys, directory: &Path, server: bool) -> Result<Proof> {
    let mut found = Vec::new();
    for (key, place) in [("stdout", Place::Stdout), ("stderr", Place::Stderr)] {
        if let Some(pattern) = keys.text(key)? {
            check_pattern(keys, key, &pattern)?;
            found.push((place, pattern));
        }
    }
    let file = keys
        .text("file")?
        .map(|file| Place::File(directory.join(file)));
    let path = keys.text("http")?.map(Place::Http);
    let is_elsewhere = file.is_some() || path.is_some();
    let inside = keys.text("match")?.unwrap_or_default();
    check_pattern(keys, "match", &inside)?;
    found.extend(
        file.into_iter()
            .chain(path)
            .map(|place| (place, inside.clone())),
    );
    let on = keys.choice("on", &["ready", "exit"])?;
    keys.finish()?;
    if keys.has("match") && !is_elsewhere {
        let message = "the key 'match' says what is in a file or an answer, and there is none";
        return Err(keys.error("match", message));
    }
    match (found.pop(), found.is_empty()) {
        (Some((place, pattern)), true) => Ok(Proof {
            at_exit: !server || on.as_deref() == Some("exit"),
            place,
            pattern,
        }),
        _ => Err(keys.wrong_table(
            "does not say one place to look at\n\
             hint: it has one of stdout, stderr, file, http: { stderr = \"loaded\", on = \"exit\" }",
        )),
    }
}
