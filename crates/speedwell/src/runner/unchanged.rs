//! Whether what is measured is still what it was: a file that is edited, or a program that is built anew, while it is
//! measured gives runs of two works under one verdict.
//!
//! Decides by size, time of change and identity of the file, as seen before its first run. It must not know what is in
//! the file. Definition files and codes are read once, and C++ is compiled once, so that a change of these changes nothing.

use crate::harness::{Job, Kind};
use crate::model::{Cause, Variant};
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What tells one state of a file from another; `None` if there is no such file.
type Stamp = Option<(u64, i64, i64, u64)>;

/// The files of the runs so far, as they were before the first run of each.
#[derive(Debug, Default)]
pub(super) struct Unchanged {
    stamps: HashMap<PathBuf, Stamp>,
}

impl Unchanged {
    /// Why the next run would be of another work than those before, if it would.
    pub fn check(&mut self, job: &Job, variant: &Variant) -> Option<Cause> {
        let is_read_once = matches!(
            job.source.kind,
            Kind::Load | Kind::Experiment | Kind::Code(_) | Kind::Cpp
        );
        let file = (!is_read_once).then_some(&job.source.file);
        // A name without a folder is looked up anew for every run.
        let program = variant.program.as_ref();
        let program = program.filter(|program| program.components().count() > 1);
        file.into_iter().chain(program).find_map(|path| {
            let now = stamp(path);
            let first = *self.stamps.entry(path.clone()).or_insert(now);
            (now != first).then(|| Cause::Invalid {
                reason: format!(
                    "'{}' was changed while it was measured: the run would be of another work",
                    path.display()
                ),
            })
        })
    }
}

fn stamp(path: &Path) -> Stamp {
    let data = fs::metadata(path).ok()?;
    Some((data.len(), data.mtime(), data.mtime_nsec(), data.ino()))
}
