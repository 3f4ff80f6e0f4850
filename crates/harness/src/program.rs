//! Prebuilt programs with our C++ header, driven over the harness protocol.
//!
//! A program is started only if a note in its file says that it speaks the protocol: foreign
//! programs are never executed to find out what they are. The layout of notes is that of the System
//! V ABI, chapter 5 ("Program Header", "Note Section"): a program header of type `PT_NOTE` points
//! to entries of name size, description size, type, name, description, each part padded to four
//! bytes. Only files in native byte order are read.

use crate::attempt::not_described;
use crate::job::{Description, Job, Request, Setting, Source};
use crate::protocol::{self, Loop, draft};
use crate::{Attempt, Harness};
use speedwell_model::Cause;
use speedwell_process::{Channel, Spec};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Owner of the note that `speedwell.hpp` adds to every program.
const OWNER: &str = "Speedwell";

/// Harness for prebuilt programs.
pub struct Program;

/// Whether the file is a program that speaks the protocol. Reads the file without executing it.
pub fn is_harness(file: &Path) -> bool {
    has_note(file, OWNER)
}

impl Harness for Program {
    fn describe(&self, source: &Source, request: &Request) -> Description {
        let plain = plain(&request.program, source).args(request.variant.arguments.clone());
        if let Some(cause) = refusal(&request.program) {
            return not_described(source, cause, &plain, None);
        }
        let spec = speaking(Spec {
            environment: request.variant.environment.clone(),
            ..plain.clone()
        });
        let plain = plain.args(["--list"]);
        protocol::describe(source, request, &spec, &plain, &draft(source, request))
    }

    fn perform(&self, job: &Job, setting: &Setting<'_>) -> Attempt {
        let mut plain = plain(&setting.program, &job.source);
        plain.arguments = setting.variant.arguments.clone();
        if let Some(cause) = refusal(&setting.program) {
            return Attempt::refused(&plain, &cause.to_string(), job, setting);
        }
        perform(job, setting, plain)
    }

    fn usual_program(&self, source: &Source) -> PathBuf {
        source.file.clone()
    }

    fn divides_runs(&self) -> bool {
        true
    }
}

/// Performs one case with the program of `plain`, with the variant's variables.
pub(super) fn perform(job: &Job, setting: &Setting<'_>, mut plain: Spec) -> Attempt {
    plain.environment = setting.variant.environment.clone();
    plain.limit = setting.limit;
    let spec = Spec {
        pin: setting.pin.cloned(),
        ..speaking(plain.clone())
    };
    plain.arguments.extend(case_arguments(job));
    protocol::perform(job, setting, &spec, &plain, Loop::OfTheHarness)
}

/// Builds a command that starts `program` by hand.
pub(super) fn plain(program: &Path, source: &Source) -> Spec {
    let mut spec = Spec::new(program);
    spec.directory = Some(source.directory.clone());
    spec
}

/// Adds the private channel.
pub(super) fn speaking(plain: Spec) -> Spec {
    Spec {
        channel: Channel::Harness,
        ..plain
    }
}

/// Arguments by which a user selects the case: the benchmark's own name and its values.
pub(super) fn case_arguments(job: &Job) -> Vec<String> {
    let name = job
        .case
        .iter()
        .filter_map(|case| case.benchmark.rsplit('/').next());
    name.map(str::to_owned)
        .chain(job.arguments.iter().cloned())
        .collect()
}

fn refusal(program: &Path) -> Option<Cause> {
    (!is_harness(program)).then(|| Cause::Invalid {
        reason: format!(
            "'{}' was not built with speedwell.hpp, so it is not started",
            program.display()
        ),
    })
}

/// `PT_NOTE`.
const NOTES: u32 = 4;

/// More than any real program has; limits reads of corrupt files.
const LARGEST_TABLE_BYTES: u64 = 1 << 20;

/// Whether the 64-bit ELF file at `path` has a note of this owner. Other files have none.
pub(super) fn has_note(path: &Path, owner: &str) -> bool {
    find(path, owner).unwrap_or(false)
}

fn find(path: &Path, owner: &str) -> std::io::Result<bool> {
    let mut file = File::open(path)?;
    let mut header = [0u8; 64];
    file.read_exact(&mut header)?;
    // Magic number, then class 2: 64 bits.
    if header[..5] != *b"\x7fELF\x02" {
        return Ok(false);
    }
    let entry_bytes = u64::from(half(&header, 54));
    let table_bytes = entry_bytes * u64::from(half(&header, 56));
    let table = part(&mut file, long(&header, 32), table_bytes)?;
    for entry in table.chunks_exact((entry_bytes as usize).max(1)) {
        if entry.len() < 56 || word(entry, 0) != NOTES {
            continue;
        }
        let notes = part(&mut file, long(entry, 8), long(entry, 32))?;
        if owners(&notes).any(|known| known == owner.as_bytes()) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn part(file: &mut File, offset: u64, bytes: u64) -> std::io::Result<Vec<u8>> {
    let mut read = Vec::new();
    file.seek(SeekFrom::Start(offset))?;
    file.take(bytes.min(LARGEST_TABLE_BYTES))
        .read_to_end(&mut read)?;
    Ok(read)
}

/// Names of all notes, without the final NUL.
fn owners(notes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let padded = |bytes: u32| (bytes as usize).div_ceil(4) * 4;
    let mut rest = notes;
    std::iter::from_fn(move || {
        let name_bytes = (rest.len() >= 12).then(|| word(rest, 0))?;
        let end = 12 + padded(name_bytes) + padded(word(rest, 4));
        let name = rest.get(12..12 + name_bytes as usize)?;
        rest = rest.get(end..).unwrap_or_default();
        Some(name.strip_suffix(b"\0").unwrap_or(name))
    })
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let mut four = [0; 4];
    four.copy_from_slice(&bytes[at..at + 4]);
    u32::from_ne_bytes(four)
}

fn long(bytes: &[u8], at: usize) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[at..at + 8]);
    u64::from_ne_bytes(eight)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_programs_have_the_notes_of_their_linker() {
        let own = std::env::current_exe().unwrap();
        assert!(
            has_note(&own, "GNU"),
            "linkers write a build id or an ABI note"
        );
        assert!(!has_note(&own, "Speedwell"));
    }

    #[test]
    fn other_files_have_none() {
        let folder = tempfile::tempdir().unwrap();
        let whole = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let mut wild = whole[..64].to_vec();
        wild[32..40].fill(0xff);
        wild[54..58].fill(0xff);
        for content in [&b""[..], b"#!/bin/sh\n", &whole[..100], &wild] {
            let file = folder.path().join("x");
            std::fs::write(&file, content).unwrap();
            assert!(!has_note(&file, "GNU"));
        }
        assert!(!has_note(folder.path(), "GNU"));
        assert!(!has_note(Path::new("/nonexistent"), "GNU"));
    }

    #[test]
    fn broken_notes_end_the_reading() {
        let note =
            |name: &[u8]| [&[name.len() as u8, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0], name].concat();
        let mut notes = note(b"GNU\0");
        notes.extend([0; 4]);
        notes.extend(note(b"Speedwel"));
        assert_eq!(
            owners(&notes).collect::<Vec<_>>(),
            [&b"GNU"[..], b"Speedwel"]
        );
        assert_eq!(owners(&[0xff; 40]).count(), 0);
        assert_eq!(owners(&[0; 11]).count(), 0);
    }
}
