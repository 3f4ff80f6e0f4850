//! Reads results: files, folders of files, `-` and stored sessions, for SOURCE operands
//! ([`read_sources`]) and for commands that store files ([`read_file_or_folder`]). Reads the
//! profiles among operands, which record where a program spends its time ([`read_profiles`]).
//!
//! This module combines the locations of an operand and rejects identical sources. It also gives
//! common names to cases that are selected by different patterns. `operand` parses the arguments
//! and finds out which operands name programs instead.
//!
//! A folder was written by asv or criterion, or contains results files of any format. The module
//! decides which files of a folder belong together, and which may be skipped. An unreadable file
//! that asv would skip causes a warning; all others are errors. `speedwell_formats` parses the
//! files, and `foreign::profile` those with profiles, which are recognized by their content.

use crate::operand::SourceOperand;
use crate::options::{OutputArgs, StoreArgs};
use crate::stored_session::SessionSelection;
use crate::{operand, status, stored_session};
use anyhow::{Context, Result, bail, ensure};
use indexmap::IndexMap;
use speedwell_adapters::discover::{BenchmarkPart, BenchmarkSelection, similar_file};
use speedwell_adapters::{files_matching, is_elf};
use speedwell_formats::asv::AsvMetadata;
use speedwell_formats::foreign::profile::{FrameNames, read_profile};
use speedwell_formats::{
    CRITERION_JSON, FileFormat, InputFile, MetricDirections, asv, name_criterion_benchmark,
};
use speedwell_model::{Session, StackProfile};
use speedwell_store::Store;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An operand that was read.
#[derive(Debug)]
pub struct ResultSource {
    /// Label in tables.
    pub label: String,
    pub session: Session,
    pub variant: Option<String>,
    part: Option<BenchmarkPart>,
    /// The locations as the user typed them.
    typed: String,
    /// Identities of the locations (session numbers or resolved paths), followed by the index of
    /// the session in the operand.
    origins: Vec<String>,
}

/// The sessions at a location.
struct LoadedLocation {
    /// Identity of the location: the number of a session, or a resolved path.
    origin: String,
    sessions: Vec<Session>,
    /// How the reference to a session was resolved, if that is not obvious.
    note: Option<String>,
}

/// Loads the selected part of the sessions at a location.
type LoadLocation<'l> = dyn FnMut(&str, &SessionSelection<'_>) -> Result<Vec<LoadedLocation>> + 'l;

/// Reads every operand.
///
/// # Errors
/// Fails on a missing or unreadable file, an unknown session or variant, and a pattern that matches
/// nothing.
pub fn read_sources(
    operands: &[SourceOperand],
    selection: &BenchmarkSelection,
    store: &StoreArgs,
) -> Result<Vec<ResultSource>> {
    read_with_name(operands, operand::common_name(operands).as_deref(), selection, store)
}

/// Reads some of the operands of a command. In the names of cases, `common_name` replaces the text
/// that an operand's pattern matches. A file may hold several sessions.
///
/// # Errors
/// Fails under the same conditions as [`read_sources`].
pub fn read_with_name(
    operands: &[SourceOperand],
    common_name: Option<&str>,
    selection: &BenchmarkSelection,
    store: &StoreArgs,
) -> Result<Vec<ResultSource>> {
    let mut warnings = FileWarnings::default();
    let mut load =
        |location: &str, selected: &SessionSelection<'_>| -> Result<Vec<LoadedLocation>> {
            let files = files_at(location)?;
            files.iter().map(|file| load_location(file, selected, store, &mut warnings)).collect()
        };
    let (sources, _) = read_operands(operands, common_name, Some(selection), &mut load)?;
    warnings.print_warnings();
    Ok(sources)
}

/// Reads operands that must name sessions of this store. Each source is returned with the note on
/// how its reference was resolved, if there is one.
///
/// # Errors
/// Fails on an unknown session or variant, a pattern that matches nothing, and two identical
/// sources.
#[cfg(feature = "serve")]
pub fn read_stored(
    operands: &[SourceOperand],
    store: &Store,
) -> Result<Vec<(ResultSource, Option<String>)>> {
    let common_name = operand::common_name(operands);
    let mut load = |reference: &str, selected: &SessionSelection<'_>| {
        load_stored(store, reference, selected).map(|loaded| vec![loaded])
    };
    let (sources, notes) = read_operands(operands, common_name.as_deref(), None, &mut load)?;
    reject_identical(&sources)?;
    Ok(sources.into_iter().zip(notes).collect())
}

/// Reads the operands, whose locations `load` reads. Also returns the note of each source.
fn read_operands(
    operands: &[SourceOperand],
    common_name: Option<&str>,
    selection: Option<&BenchmarkSelection>,
    load: &mut LoadLocation<'_>,
) -> Result<(Vec<ResultSource>, Vec<Option<String>>)> {
    // The sessions of a file get new ids each time the file is read. Two operands that select
    // different variants of one file get the same ids.
    let mut ids: HashMap<String, Vec<String>> = HashMap::new();
    let (mut sources, mut notes) = (Vec::new(), Vec::new());
    for operand in operands {
        let context = || format!("in source '{}'", operand.label);
        let selected = SessionSelection { selection, part: operand.part.as_ref() };
        let (mut sessions, mut origins, mut note) = (Vec::new(), Vec::new(), None);
        for location in &operand.locations {
            for mut loaded in load(location, &selected).with_context(context)? {
                let session_ids = loaded.sessions.iter().map(|session| session.id.clone());
                let origin_ids = ids.entry(loaded.origin.clone()).or_insert(session_ids.collect());
                for (session, id) in loaded.sessions.iter_mut().zip(origin_ids.iter()) {
                    session.id.clone_from(id);
                }
                sessions.extend(loaded.sessions);
                origins.push(loaded.origin);
                note = loaded.note.or(note);
            }
        }
        let mut operand_sources =
            assemble_sources(operand, sessions, origins).with_context(context)?;
        if let Some(selection) = selection {
            for source in &mut operand_sources {
                source.keep_selected(selection).with_context(context)?;
            }
        }
        if let Some(name) = common_name {
            operand_sources.iter_mut().for_each(|source| source.rename_cases(name));
        }
        notes.extend(operand_sources.iter().map(|_| note.clone()));
        sources.extend(operand_sources);
    }
    Ok((sources, notes))
}

/// Reads the sessions of a file, stdin, or the stored session that a reference names.
fn load_location(
    location: &str,
    selected: &SessionSelection<'_>,
    store: &StoreArgs,
    warnings: &mut FileWarnings,
) -> Result<LoadedLocation> {
    if location.starts_with('@') {
        let loaded = load_stored(&store.open_with(Store::open_to_read)?, location, selected)?;
        loaded.note.iter().for_each(|note| status::print_note(note));
        return Ok(loaded);
    }
    let sessions = read_file(location.as_ref(), &MetricDirections::default(), warnings)?;
    let path = std::fs::canonicalize(location);
    let origin = path.map_or_else(|_| location.to_owned(), |path| path.display().to_string());
    Ok(LoadedLocation { origin, sessions, note: None })
}

/// Loads the session that a reference names. If the session is large, loads only the selected part.
fn load_stored(
    store: &Store,
    reference: &str,
    selected: &SessionSelection<'_>,
) -> Result<LoadedLocation> {
    let resolved = stored_session::find_session(store, reference)?;
    let session = stored_session::load_selected((store, resolved.number), selected)?;
    let origin = format!("@{}", resolved.number);
    Ok(LoadedLocation { origin, sessions: vec![session], note: resolved.note })
}

fn assemble_sources(
    operand: &SourceOperand,
    mut sessions: Vec<Session>,
    origins: Vec<String>,
) -> Result<Vec<ResultSource>> {
    let files = origins.len();
    let mut variant = operand.variant.clone();
    for session in &sessions {
        stored_session::check_variant(session, variant.as_deref())?;
    }
    if files > 1 {
        let parts = sessions.into_iter().map(|session| (session, variant.clone()));
        sessions = vec![speedwell_formats::merge_sessions(&operand.label, parts.collect())?];
        variant = None;
    }
    let source = |(index, session): (usize, Session)| -> Result<ResultSource> {
        let mut source = ResultSource {
            label: operand.label.clone(),
            session,
            variant: variant.clone(),
            part: operand.part.clone(),
            typed: operand.locations.join(","),
            origins: origins.iter().cloned().chain([format!("#{index}")]).collect(),
        };
        source.keep_matching()?;
        Ok(source)
    };
    sessions.into_iter().enumerate().map(source).collect()
}

/// Rejects identical sources: they cannot differ, so comparing them would only mislead.
///
/// # Errors
/// Fails if two sources select the same variant and the same benchmarks of the same session.
pub fn reject_identical(sources: &[ResultSource]) -> Result<()> {
    for (index, source) in sources.iter().enumerate() {
        let Some(earlier) = sources[..index].iter().find(|earlier| earlier.is_same(source)) else {
            continue;
        };
        let kind = if source.typed.starts_with('@') { "session" } else { "file" };
        let names = if earlier.typed == source.typed {
            format!("'{}'", source.typed)
        } else {
            format!("'{}' and '{}'", earlier.typed, source.typed)
        };
        bail!("both sources are the same {kind}, {names}\nhint: {}", source.suggest_alternative());
    }
    Ok(())
}

/// Rejects output files (`-o`) that would overwrite a result file of an operand.
///
/// # Errors
/// Fails if there is such a file; the message names both files.
pub fn check_outputs(operands: &[SourceOperand], output: &OutputArgs) -> Result<()> {
    if output.output.is_empty() {
        return Ok(());
    }
    let locations = operands.iter().flat_map(|operand| &operand.locations);
    let mut files = Vec::new();
    for location in locations.filter(|location| Path::new(location).exists()) {
        files.extend(files_at(location)?);
    }
    output.check_inputs(files.iter().map(Path::new))
}

impl ResultSource {
    /// Returns the label, the session, and the selected variant.
    pub fn labelled(&self) -> (String, &Session, Option<String>) {
        (self.label.clone(), &self.session, self.variant.clone())
    }

    fn compared_variant(&self) -> &str {
        self.variant.as_deref().unwrap_or(&self.session.design.baseline)
    }

    /// Returns the session without the variants that were not selected.
    pub fn compared_session(&self) -> Cow<'_, Session> {
        match &self.variant {
            Some(name) => Cow::Owned(self.session.only_variant(name)),
            None => Cow::Borrowed(&self.session),
        }
    }

    fn is_same(&self, other: &ResultSource) -> bool {
        let pattern =
            |source: &ResultSource| source.part.as_ref().map(|part| part.pattern().to_owned());
        self.origins == other.origins
            && self.compared_variant() == other.compared_variant()
            && pattern(self) == pattern(other)
    }

    /// Suggests what to compare instead of the source with itself.
    fn suggest_alternative(&self) -> String {
        let typed = &self.typed;
        let names: Vec<&str> =
            self.session.variants.iter().map(|variant| variant.name.as_str()).collect();
        match &names[..] {
            [_, _, ..] => format!(
                "'speedwell compare {typed}' compares its variants {}",
                names.join(", ")
            ),
            _ => "name another session (@prev, @NUMBER, @TAG), or measure both sides together with --old and --new"
                .to_owned(),
        }
    }

    fn keep_selected(&mut self, selection: &BenchmarkSelection) -> Result<()> {
        let session = &mut self.session;
        let had_runs = !session.runs.is_empty();
        session.runs.retain(|run| selection.selects_case(&run.case));
        session.failures.retain(|failure| selection.selects_name(&failure.benchmark));
        if had_runs && session.runs.is_empty() {
            bail!("no case is left after --filter, --exclude and --set");
        }
        Ok(())
    }

    fn keep_matching(&mut self) -> Result<()> {
        let Some(part) = &self.part else { return Ok(()) };
        let cases = || self.session.runs.iter().map(|run| &*run.case);
        let narrowed = part.narrowed_to(cases());
        ensure!(cases().any(|case| narrowed.contains(case)), part.explain_no_match(cases()));
        self.session.runs.retain(|run| narrowed.contains(&run.case));
        self.part = Some(narrowed);
        Ok(())
    }

    /// Gives the cases their common names, so that `BM_memcpy/8` of one source and `BM_copy/8` of
    /// another become the same case.
    fn rename_cases(&mut self, name: &str) {
        let Some(part) = &self.part else { return };
        let (mut before, mut after) = (HashSet::new(), HashSet::new());
        for run in &mut self.session.runs {
            before.insert(run.case.id());
            let case = part.common_case(&run.case, name);
            after.insert(case.id());
            run.case = Arc::new(case);
        }
        if after.len() < before.len() {
            status::print_warning(&format!(
                "the pattern of '{}' merges {} cases into {}, which mixes their runs; put \
                 parentheses around the part of the pattern that distinguishes them",
                self.label,
                before.len(),
                after.len()
            ));
        }
    }
}

/// Maximum size of a file. Files are read into memory as a whole.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// Warnings, each with the files that it is about.
#[derive(Debug, Default)]
pub struct FileWarnings(IndexMap<String, Vec<String>>);

impl FileWarnings {
    /// Maximum number of files named in one warning.
    const MAX_NAMED_FILES: usize = 2;

    /// Adds a warning about the file `label`. Equal warnings about several files are printed once.
    pub fn add_warning(&mut self, label: &str, warning: String) {
        self.0.entry(warning).or_default().push(label.to_owned());
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
fn read_file(
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
        reader.take(MAX_FILE_BYTES - bytes.len() as u64).read_to_end(&mut bytes)?;
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
pub fn read_file_or_folder(
    path: &Path,
    better: &MetricDirections,
    file_warnings: &mut FileWarnings,
) -> Result<Vec<Session>> {
    if !path.is_dir() {
        return read_file(path, better, file_warnings);
    }
    let mut sessions = Vec::new();
    let (root, machines) = asv_machines(path)?;
    for machine in &machines {
        let benchmarks = root.join("benchmarks.json");
        sessions.extend(read_asv_machine(machine, &benchmarks, better, file_warnings)?);
    }
    if !machines.is_empty() {
        ensure!(!sessions.is_empty(), "found no asv results in '{}'", path.display());
        return Ok(sessions);
    }
    let label = path.to_string_lossy();
    let files = files_at(&label)?;
    for file in &files {
        sessions.extend(read_file(Path::new(file), better, file_warnings)?);
    }
    // Criterion writes a file for each benchmark.
    if files.len() == sessions.len() && files.iter().all(|file| file.ends_with("/new/sample.json"))
    {
        let id = sessions[0].id.clone();
        let parts = sessions.into_iter().map(|session| (session, None)).collect();
        sessions = vec![Session { id, ..speedwell_formats::merge_sessions(&label, parts)? }];
    }
    Ok(sessions)
}

/// Samples in a folder that criterion wrote, such as `target/criterion`.
const CRITERION_SAMPLES: &str = "**/new/sample.json";

/// Returns the location itself or, if it is a folder, the files directly in the folder. If there
/// are only subfolders, as in a folder that criterion wrote, returns the files with the latest
/// samples of criterion's benchmarks.
fn files_at(location: &str) -> Result<Vec<String>> {
    if !Path::new(location).is_dir() {
        return Ok(vec![location.to_owned()]);
    }
    let path_text = |path: &PathBuf| path.to_string_lossy().into_owned();
    let entries = visible_entries(Path::new(location))?;
    let mut files: Vec<String> =
        entries.iter().filter(|path| path.is_file()).map(path_text).collect();
    if files.is_empty() {
        files.extend(files_matching(Path::new(location), CRITERION_SAMPLES).iter().map(path_text));
    }
    if files.is_empty() {
        bail!("the folder '{location}' has no files");
    }
    Ok(files)
}

/// Returns the folders of a results folder of asv that have a `machine.json`, one per machine, and the
/// folder with their `benchmarks.json`. Returns no machines if asv did not write the folder.
fn asv_machines(folder: &Path) -> Result<(PathBuf, Vec<PathBuf>)> {
    let is_machine = |folder: &Path| folder.join("machine.json").is_file();
    if is_machine(folder) {
        return Ok((folder.join(".."), vec![folder.to_owned()]));
    }
    let mut machines = visible_entries(folder)?;
    machines.retain(|path| path.is_dir() && is_machine(path));
    Ok((folder.to_owned(), machines))
}

/// Reads the sessions of an asv machine, sorted by commit date.
fn read_asv_machine(
    machine: &Path,
    benchmarks: &Path,
    better: &MetricDirections,
    file_warnings: &mut FileWarnings,
) -> Result<Vec<Session>> {
    let metadata = read_companions(machine, benchmarks)?;
    let mut sessions = Vec::new();
    for file in result_files(machine)? {
        let label = file.display().to_string();
        let bytes = read_contents(&file)?;
        let input = InputFile { label: &label, bytes: &bytes, better };
        let mut warnings = Vec::new();
        match asv::read_file(&input, &metadata, &mut warnings) {
            Ok(session) => sessions.push(session),
            // asv skips unreadable files, too, because an interrupt may leave a partial file.
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
    Ok(sessions)
}

/// Reads the metadata from `machine.json`, and from `benchmarks.json` if it exists.
fn read_companions(machine: &Path, benchmarks: &Path) -> Result<AsvMetadata> {
    let add_file = |file: &Path, add: &dyn Fn(&[u8]) -> Result<AsvMetadata>| {
        add(&read_contents(file)?).with_context(|| format!("cannot read '{}'", file.display()))
    };
    let file = machine.join("machine.json");
    let metadata = add_file(&file, &|bytes| AsvMetadata::default().with_machine(bytes))?;
    if !benchmarks.is_file() {
        return Ok(metadata);
    }
    add_file(benchmarks, &|bytes| metadata.clone().with_benchmarks(bytes))
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

/// Reads the operands as profiles. Returns `None` if no operand is a profile.
///
/// # Errors
/// Fails if an operand cannot be read, or if profiles are mixed with other sources.
pub fn read_profiles(operands: &[SourceOperand]) -> Result<Option<Vec<StackProfile>>> {
    let read = |operand: &SourceOperand| {
        read_profile_of(operand).with_context(|| format!("in source '{}'", operand.label))
    };
    let profiles = operands.iter().map(read).collect::<Result<Vec<_>>>()?;
    let other = operands.iter().zip(&profiles).find(|(_, profile)| profile.is_none());
    let first_profile = operands.iter().zip(&profiles).find(|(_, profile)| profile.is_some());
    match (first_profile, other) {
        (None, _) => Ok(None),
        (Some((first_profile, _)), Some((other, _))) => bail!(
            "'{}' is a profile but '{}' is not: they cannot be compared",
            first_profile.label,
            other.label
        ),
        (Some(_), None) => Ok(Some(profiles.into_iter().flatten().collect())),
    }
}

/// Reads and adds up the profiles of one operand. Returns `None` if its files are not profiles.
fn read_profile_of(operand: &SourceOperand) -> Result<Option<StackProfile>> {
    let mut files = Vec::new();
    for location in &operand.locations {
        // Skip stored sessions and pipes. A pipe can be read only once, by the code that reads
        // results.
        let path = Path::new(location);
        if !path.is_file() && !path.is_dir() {
            return Ok(None);
        }
        files.extend(files_at(location)?);
    }
    let mut merged: Option<StackProfile> = None;
    for file in files {
        match (&mut merged, profile_in_file(&file)?) {
            (None, None) => return Ok(None),
            (None, Some(first)) => merged = Some(first),
            (Some(merged), Some(next)) if merged.unit == next.unit => merged.merge(&next),
            (Some(_), Some(_)) => {
                bail!("the costs in '{file}' have a different unit than in the files before it")
            }
            (Some(_), None) => bail!("'{file}' is not a profile, but the files before it are"),
        }
    }
    Ok(merged)
}

fn profile_in_file(file: &str) -> Result<Option<StackProfile>> {
    let read_context = || format!("cannot read the file '{file}'");
    // Rule out files with benchmark results first, so that none is mistaken for a profile.
    // Executable programs are not profiles, either.
    let mut opened_file = File::open(file).with_context(read_context)?;
    let mut bytes = Vec::new();
    let mut beginning = opened_file.by_ref().take(speedwell_formats::BEGINNING_BYTES);
    beginning.read_to_end(&mut bytes).with_context(read_context)?;
    if speedwell_formats::detect_format(&bytes).is_some() || is_elf(Path::new(file)) {
        return Ok(None);
    }
    opened_file.read_to_end(&mut bytes).with_context(read_context)?;
    let read = read_profile(&bytes, &FrameNames::default());
    read.with_context(|| format!("cannot read '{file}' as a profile"))
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
