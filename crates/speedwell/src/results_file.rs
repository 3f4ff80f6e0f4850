//! Reads a results file, stdin, or a folder of results as sessions. Either asv or criterion wrote the
//! folder, or it contains results files of any format.
//!
//! The module also reports files that cannot be read, or are only partly understood. It decides
//! which files of a folder belong together, and which may be skipped. An unreadable file that asv
//! would skip causes a warning; all others are errors. `speedwell_formats` parses the files. Start
//! at [`read`].

use crate::status;
use anyhow::{Context, Result, bail, ensure};
use speedwell_adapters::discover::similar_file;
use speedwell_adapters::files_matching;
use speedwell_formats::asv::AsvMetadata;
use speedwell_formats::{
    CRITERION_JSON, FileFormat, InputFile, MetricDirections, asv, name_criterion_benchmark,
};
use speedwell_model::Session;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Maximum size of a file. Files are read into memory as a whole.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// Warnings, each with the files that it is about.
#[derive(Debug, Default)]
pub struct FileWarnings(Vec<(String, Vec<String>)>);

impl FileWarnings {
    /// Maximum number of files named in one warning.
    const MAX_NAMED_FILES: usize = 2;

    /// Adds a warning about the file `label`. Equal warnings about several files are printed once.
    pub fn add_warning(&mut self, label: &str, warning: String) {
        match self.0.iter_mut().find(|(existing, _)| *existing == warning) {
            Some((_, files)) => files.push(label.to_owned()),
            None => self.0.push((warning, vec![label.to_owned()])),
        }
    }

    /// Returns each warning once, with the files that it is about.
    fn warning_texts(&self) -> impl Iterator<Item = String> + '_ {
        self.0.iter().map(|(text, files)| match &files[..] {
            [file] => format!("'{file}': {text}"),
            [first, second] => format!("'{first}' and '{second}': {text}"),
            files => {
                let named_files = files[..Self::MAX_NAMED_FILES].join("', '");
                format!("'{named_files}' and {} more: {text}", files.len() - Self::MAX_NAMED_FILES)
            }
        })
    }

    /// Prints the warnings on stderr.
    pub fn print_warnings(&self) {
        self.warning_texts().for_each(|warning| status::print_warning(&warning));
    }
}

/// Reads the file at `path`, or stdin if `path` is `-`. Adds warnings about skipped content to
/// `file_warnings`. Uses `better`, the directions that the user has given, for metrics whose
/// direction the file does not state.
///
/// # Errors
/// Fails if the file cannot be read or its content is not understood.
pub fn read_file(
    path: &Path,
    better: &MetricDirections,
    file_warnings: &mut FileWarnings,
) -> Result<Vec<Session>> {
    let label = path.display().to_string();
    let (bytes, format) = match label.as_str() {
        "-" => read_content(std::io::stdin().lock()).context("cannot read stdin")?,
        _ => File::open(path)
            .map_err(anyhow::Error::from)
            .and_then(read_content)
            .with_context(|| read_error_message(&label))?,
    };
    let mut warnings = Vec::new();
    let input = InputFile { label: &label, bytes: &bytes, better };
    let mut sessions = speedwell_formats::read_as_format(format, &input, &mut warnings)?;
    if format.is_some_and(|format| format.name == CRITERION_JSON) {
        name_criterion_benchmarks(path, &mut sessions)?;
    }
    warnings.into_iter().for_each(|warning| file_warnings.add_warning(&label, warning));
    Ok(sessions)
}

/// Names the benchmark in a `sample.json` of criterion after the `benchmark.json` beside it, if
/// there is one.
fn name_criterion_benchmarks(path: &Path, sessions: &mut [Session]) -> Result<()> {
    let description = path.with_file_name("benchmark.json");
    if !description.is_file() {
        return Ok(());
    }
    let bytes = read_contents(&description)?;
    sessions.iter_mut().try_for_each(|session| {
        name_criterion_benchmark(session, &bytes)
            .with_context(|| format!("cannot read '{}'", description.display()))
    })
}

/// Reads a file of any format, up to [`MAX_FILE_BYTES`]. The caller must ensure that it is a
/// regular file.
///
/// # Errors
/// Fails if the file cannot be read.
fn read_contents(file: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(file)
        .and_then(|file| file.take(MAX_FILE_BYTES).read_to_end(&mut bytes))
        .with_context(|| format!("cannot read the file '{}'", file.display()))?;
    Ok(bytes)
}

/// Reads the content and detects its format. Fails if the content reaches [`MAX_FILE_BYTES`]. If
/// the format is unknown, reads only the beginning of the content, because a device may never end.
fn read_content(mut reader: impl Read) -> Result<(Vec<u8>, Option<&'static FileFormat>)> {
    let mut bytes = Vec::new();
    reader.by_ref().take(speedwell_formats::BEGINNING_BYTES).read_to_end(&mut bytes)?;
    let format = speedwell_formats::detect_format(&bytes);
    if format.is_some() {
        let remaining_bytes = MAX_FILE_BYTES - bytes.len() as u64;
        reader.take(remaining_bytes).read_to_end(&mut bytes)?;
        ensure!(
            (bytes.len() as u64) < MAX_FILE_BYTES,
            "it is larger than {} MiB\nhint: import it in parts",
            MAX_FILE_BYTES >> 20
        );
    }
    Ok((bytes, format))
}

fn read_error_message(label: &str) -> String {
    let hint = match similar_file(label, Path::new(".")) {
        Some(similar) if !Path::new(label).exists() => format!("did you mean '{similar}'?"),
        _ => "stored sessions are named @latest, @prev, @NUMBER or @TAG".to_owned(),
    };
    format!("cannot read the file '{label}'\nhint: {hint}")
}

/// Reads a file, stdin (`-`), or all results in a folder. See [`read_file`].
///
/// # Errors
/// Fails if a file or folder cannot be read, a file is not understood, or a folder has no results.
pub fn read(
    path: &Path,
    better: &MetricDirections,
    file_warnings: &mut FileWarnings,
) -> Result<Vec<Session>> {
    if path.is_dir() {
        return read_folder(path, better, file_warnings);
    }
    read_file(path, better, file_warnings)
}

/// Reads all results in `folder`. Adds warnings about skipped content to `file_warnings`.
fn read_folder(
    folder: &Path,
    better: &MetricDirections,
    file_warnings: &mut FileWarnings,
) -> Result<Vec<Session>> {
    if let Some(results) = AsvResults::find_results(folder)? {
        return results.read(better, file_warnings);
    }
    let label = folder.to_string_lossy();
    let files = files_at(&label)?;
    let mut sessions = Vec::new();
    for file in &files {
        sessions.extend(read_file(Path::new(file), better, file_warnings)?);
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

/// Samples in a folder that criterion wrote, such as `target/criterion`.
const CRITERION_SAMPLES: &str = "**/new/sample.json";

/// Returns the location itself or, if it is a folder, the files directly in the folder. If there
/// are only subfolders, as in a folder that criterion wrote, returns the files with the latest
/// samples of criterion's benchmarks.
pub fn files_at(location: &str) -> Result<Vec<String>> {
    if !Path::new(location).is_dir() {
        return Ok(vec![location.to_owned()]);
    }
    let path_text = |path: &PathBuf| path.to_string_lossy().into_owned();
    let entries = visible_entries(Path::new(location))?;
    let mut files: Vec<String> =
        entries.iter().filter(|path| path.is_file()).map(path_text).collect();
    if files.is_empty() {
        let samples = files_matching(Path::new(location), CRITERION_SAMPLES);
        files.extend(samples.iter().map(path_text));
    }
    if files.is_empty() {
        bail!("the folder '{location}' has no files");
    }
    Ok(files)
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
                let bytes = read_contents(&file)?;
                let input = InputFile { label: &label, bytes: &bytes, better };
                let mut warnings = Vec::new();
                match asv::read_file(&input, &metadata, &mut warnings) {
                    Ok(session) => sessions.push(session),
                    // asv skips unreadable files, too, because an interrupt may leave a partial
                    // file.
                    Err(error) => warnings.push(format!("skipped the file: {error:#}")),
                }
                for warning in warnings {
                    file_warnings.add_warning(&label, warning);
                }
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
            let bytes = read_contents(file)?;
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

/// Lists the visible entries of a folder, sorted by name.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Reader of endless zeros. Reading more than this number of bytes panics.
    struct EndlessZeros(u64);

    impl Read for EndlessZeros {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            into.fill(0);
            let count = into.len() as u64;
            self.0 = self.0.checked_sub(count).expect("far more is read than is needed");
            Ok(into.len())
        }
    }

    #[test]
    fn only_the_beginning_of_an_unknown_file_is_read() {
        let (bytes, _) =
            read_content(EndlessZeros(4 * speedwell_formats::BEGINNING_BYTES)).unwrap();
        assert_eq!(bytes.len() as u64, speedwell_formats::BEGINNING_BYTES);
        let message = speedwell_formats::read("zero", &bytes).unwrap_err().to_string();
        assert!(message.starts_with("'zero' is a binary file"), "{message}");
    }

    #[test]
    fn a_byte_order_mark_changes_nothing() {
        let wrk = "Running 1s test @ http://127.0.0.1:8080/\n  1 threads and 2 connections\n  Thread Stats   Avg      \
                   Stdev     Max   +/- Stdev\n    Latency   100.00us   10.00us   1.00ms   90.00%\n    Req/Sec    \
                   10.00k     1.00k   11.00k    90.00%\n  10000 requests in 1.00s, 1.00MB read\nRequests/sec:  \
                   10000.00\nTransfer/sec:      1.00MB\n";
        let plain = speedwell_formats::read("a", wrk.as_bytes()).unwrap();
        let marked = speedwell_formats::read("a", format!("\u{feff}{wrk}").as_bytes()).unwrap();
        assert_eq!(plain[0].runs, marked[0].runs);
    }

    #[test]
    fn a_warning_shared_by_many_files_is_printed_once() {
        let mut file_warnings = FileWarnings::default();
        for file in ["a", "b", "c", "d"] {
            file_warnings.add_warning(file, "a debug build".to_owned());
        }
        file_warnings.add_warning("b", "has two dates".to_owned());
        let texts: Vec<String> = file_warnings.warning_texts().collect();
        let expected = ["'a', 'b' and 2 more: a debug build", "'b': has two dates"];
        assert_eq!(texts, expected);
    }
}
