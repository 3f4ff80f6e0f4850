//! Reads a folder of results as sessions. Either asv or criterion wrote the folder, or it contains
//! results files of any format.
//!
//! The module decides which files belong together, and which may be skipped. An unreadable file
//! that asv would skip causes a warning; all others are errors. `speedwell_formats` parses the
//! files.

use super::results_file::{self, FileWarnings};
use super::source;
use anyhow::{Context, Result, ensure};
use speedwell_formats::asv::{self, AsvMetadata};
use speedwell_formats::{InputFile, MetricDirections};
use speedwell_model::Session;
use std::path::{Path, PathBuf};

/// Reads all results in `folder`. Adds warnings about skipped content to `file_warnings`.
///
/// # Errors
/// Fails if the folder or a file cannot be read, or there are no results.
pub fn read(
    folder: &Path,
    better: &MetricDirections,
    file_warnings: &mut FileWarnings,
) -> Result<Vec<Session>> {
    if let Some(results) = AsvResults::find_results(folder)? {
        return results.read(better, file_warnings);
    }
    let label = folder.to_string_lossy();
    let files = source::files_at(&label)?;
    let mut sessions = Vec::new();
    for file in &files {
        sessions.extend(results_file::read_with(Path::new(file), better, file_warnings)?);
    }
    // Criterion writes a file for each benchmark.
    if files.len() == sessions.len() && files.iter().all(|file| file.ends_with("/new/sample.json"))
    {
        let id = sessions[0].id.clone();
        let parts = sessions.into_iter().map(|session| (session, None)).collect();
        let merged = speedwell_formats::merge_sessions(&label, parts)?;
        sessions = vec![Session { id, ..merged }];
    }
    Ok(sessions)
}

/// A results folder of asv.
struct AsvResults {
    folder: PathBuf,
    /// `benchmarks.json`, if it exists.
    benchmarks: Option<PathBuf>,
    /// Folders with a `machine.json`, one per machine.
    machines: Vec<PathBuf>,
}

impl AsvResults {
    /// Finds the results of asv in `folder`, for all machines or a single machine. Returns `None`
    /// if asv did not write the folder.
    fn find_results(folder: &Path) -> Result<Option<AsvResults>> {
        let is_machine = |folder: &Path| folder.join("machine.json").is_file();
        let (root, machines) = if is_machine(folder) {
            (folder.join(".."), vec![folder.to_owned()])
        } else {
            let mut machine_folders = visible_entries(folder)?;
            machine_folders.retain(|path| path.is_dir() && is_machine(path));
            (folder.to_owned(), machine_folders)
        };
        let benchmarks = Some(root.join("benchmarks.json")).filter(|file| file.is_file());
        Ok((!machines.is_empty()).then(|| AsvResults {
            folder: folder.to_owned(),
            benchmarks,
            machines,
        }))
    }

    /// Reads the sessions machine by machine, sorted by commit date.
    fn read(
        &self,
        better: &MetricDirections,
        file_warnings: &mut FileWarnings,
    ) -> Result<Vec<Session>> {
        let mut all_sessions = Vec::new();
        for machine in &self.machines {
            let metadata = self.read_companions(machine)?;
            let mut sessions = Vec::new();
            for file in result_files(machine)? {
                let label = file.display().to_string();
                let bytes = results_file::read_contents(&file)?;
                let input = InputFile { label: &label, bytes: &bytes, better };
                let mut warnings = Vec::new();
                match asv::read_file(&input, &metadata, &mut warnings) {
                    Ok(session) => sessions.push(session),
                    // asv skips unreadable files, too, because an interrupt may leave a partial
                    // file.
                    Err(error) => warnings.push(format!("'{label}': skipped the file: {error:#}")),
                }
                warnings.iter().for_each(|warning| file_warnings.add_warning(&label, warning));
            }
            // The files have no order of their own, so sort by commit date.
            sessions.sort_by_key(|session: &Session| {
                session.origin.as_ref().and_then(|origin| origin.committed_unix_ms)
            });
            all_sessions.extend(sessions);
        }
        ensure!(!all_sessions.is_empty(), "found no asv results in '{}'", self.folder.display());
        Ok(all_sessions)
    }

    /// Reads the metadata from `benchmarks.json` and `machine.json`.
    fn read_companions(&self, machine: &Path) -> Result<AsvMetadata> {
        let add_file = |file: &Path, add: &dyn Fn(&[u8]) -> Result<AsvMetadata>| {
            let bytes = results_file::read_contents(file)?;
            add(&bytes).with_context(|| format!("cannot read '{}'", file.display()))
        };
        let file = machine.join("machine.json");
        let mut metadata = add_file(&file, &|bytes| AsvMetadata::default().with_machine(bytes))?;
        if let Some(file) = &self.benchmarks {
            metadata = add_file(file, &|bytes| metadata.clone().with_benchmarks(bytes))?;
        }
        Ok(metadata)
    }
}

/// Lists the visible entries of a folder, by name.
fn visible_entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder)
        .with_context(|| format!("cannot read the folder '{}'", folder.display()))?
        .flatten();
    let visible = entries.filter(|entry| !entry.file_name().to_string_lossy().starts_with('.'));
    let mut paths: Vec<PathBuf> = visible.map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}

/// Lists the results files of a machine.
fn result_files(machine: &Path) -> Result<Vec<PathBuf>> {
    let mut files = visible_entries(machine)?;
    files.retain(|file| {
        let is_json = file.extension().is_some_and(|extension| extension == "json");
        is_json && !file.ends_with("machine.json") && file.is_file()
    });
    Ok(files)
}
