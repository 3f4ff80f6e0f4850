//! Reads SOURCE operands: files, folders of files, `-` and stored sessions. An operand may also
//! name a program to be measured. This module only detects such an operand, and builds the program
//! if necessary.
//!
//! This module combines the locations of an operand and rejects identical sources. It also gives
//! common names to cases that are selected by different patterns. `operand` parses the arguments.

use super::large_sessions::{self, SessionSelection};
use super::operand::{self, SourceOperand};
use super::options::OutputArgs;
use super::results_file::{self, FileWarnings};
use super::status;
use crate::reference;
use anyhow::{Context, anyhow, bail};
use speedwell_adapters::discover::{BenchmarkPart, BenchmarkSelection, ComparisonSide};
use speedwell_adapters::{
    KnownAdapters, ProgressReporter, build_single_program, builtin_adapter, explain_framework,
    files_matching, framework_without_adapter, is_elf, is_program_with_harness, is_text,
    is_wrapper,
};
use speedwell_analysis::{self as analysis, AnalysisSettings};
use speedwell_model::{Session, Variant, quote};
use speedwell_store::Store;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::path::Path;
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

/// State shared by the sources read so far.
#[derive(Default)]
struct ReadState {
    /// Session ids by origin. The sessions of a file get new ids each time the file is read. If two
    /// operands select different variants of one file, this map gives both the same session id.
    ids: HashMap<String, Vec<String>>,
    file_warnings: FileWarnings,
}

/// Reads every operand.
///
/// # Errors
/// Fails on a missing or unreadable file, an unknown session or variant, and a pattern that matches
/// nothing.
pub fn read_sources(
    operands: &[SourceOperand],
    selection: &BenchmarkSelection,
    store: &mut dyn FnMut() -> anyhow::Result<Store>,
) -> anyhow::Result<Vec<ResultSource>> {
    let common_name = operand::common_name(operands);
    let mut sources = Vec::new();
    let mut state = ReadState::default();
    for operand in operands {
        sources.extend(read_with_state(
            operand,
            common_name.as_deref(),
            selection,
            store,
            &mut state,
        )?);
    }
    state.file_warnings.print_warnings();
    Ok(sources)
}

/// Reads one of several operands. In the names of cases, `common_name` replaces the text that the
/// operand's pattern matches. A file may hold several sessions.
///
/// # Errors
/// Fails under the same conditions as [`read_sources`].
pub fn read_one(
    operand: &SourceOperand,
    common_name: Option<&str>,
    selection: &BenchmarkSelection,
    store: &mut dyn FnMut() -> anyhow::Result<Store>,
) -> anyhow::Result<Vec<ResultSource>> {
    let mut state = ReadState::default();
    let sources = read_with_state(operand, common_name, selection, store, &mut state)?;
    state.file_warnings.print_warnings();
    Ok(sources)
}

/// Like [`read_one`], but shares `state` with the operands that were read before.
fn read_with_state(
    operand: &SourceOperand,
    common_name: Option<&str>,
    selection: &BenchmarkSelection,
    store: &mut dyn FnMut() -> anyhow::Result<Store>,
    state: &mut ReadState,
) -> anyhow::Result<Vec<ResultSource>> {
    let context = || format!("in source '{}'", operand.label);
    let mut sources = read_operand(operand, selection, store, state).with_context(context)?;
    for source in &mut sources {
        source.keep_selected(selection).with_context(context)?;
    }
    if let Some(common_name) = common_name {
        sources.iter_mut().for_each(|source| source.rename_cases(common_name));
    }
    Ok(sources)
}

fn read_operand(
    operand: &SourceOperand,
    selection: &BenchmarkSelection,
    store: &mut dyn FnMut() -> anyhow::Result<Store>,
    state: &mut ReadState,
) -> anyhow::Result<Vec<ResultSource>> {
    let mut sessions = Vec::new();
    let mut origins = Vec::new();
    for location in &operand.locations {
        for file in files_at(location)? {
            let selected =
                SessionSelection { selection: Some(selection), part: operand.part.as_ref() };
            let (origin, mut loaded) =
                load_sessions(&file, &selected, store, &mut state.file_warnings)?;
            let session_ids = || loaded.iter().map(|session| session.id.clone()).collect();
            let ids = state.ids.entry(origin.clone()).or_insert_with(session_ids).clone();
            for (session, id) in loaded.iter_mut().zip(ids) {
                session.id = id;
            }
            sessions.extend(loaded);
            origins.push(origin);
        }
    }
    assemble_sources(operand, sessions, origins)
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
) -> anyhow::Result<Vec<(ResultSource, Option<String>)>> {
    let common_name = operand::common_name(operands);
    let (mut sources, mut notes) = (Vec::new(), Vec::new());
    for operand in operands {
        let read = || {
            let (mut sessions, mut origins, mut note) = (Vec::new(), Vec::new(), None);
            for location in &operand.locations {
                let selected = SessionSelection { selection: None, part: operand.part.as_ref() };
                let (resolved, session) = load_stored(store, location, &selected)?;
                origins.push(format!("@{}", resolved.number));
                note = resolved.note.or(note);
                sessions.push(session);
            }
            anyhow::Ok((assemble_sources(operand, sessions, origins)?, note))
        };
        let (mut operand_sources, note) =
            read().with_context(|| format!("in source '{}'", operand.label))?;
        if let Some(common_name) = &common_name {
            operand_sources.iter_mut().for_each(|source| source.rename_cases(common_name));
        }
        notes.extend(operand_sources.iter().map(|_| note.clone()));
        sources.extend(operand_sources);
    }
    reject_identical(&sources)?;
    Ok(sources.into_iter().zip(notes).collect())
}

/// Loads the session that a reference names. If the session is large, loads only the selected part.
fn load_stored(
    store: &Store,
    reference: &str,
    selected: &SessionSelection<'_>,
) -> anyhow::Result<(reference::ResolvedSession, Session)> {
    let resolved = reference::find_session(store, reference)?;
    let session = large_sessions::load_selected((store, resolved.number), selected)?;
    Ok((resolved, session))
}

fn assemble_sources(
    operand: &SourceOperand,
    mut sessions: Vec<Session>,
    origins: Vec<String>,
) -> anyhow::Result<Vec<ResultSource>> {
    let files = origins.len();
    let mut variant = operand.variant.clone();
    for session in &sessions {
        check_variant(session, variant.as_deref())?;
    }
    if files > 1 {
        let parts = sessions.into_iter().map(|session| (session, variant.clone()));
        sessions = vec![speedwell_formats::merge_sessions(&operand.label, parts.collect())?];
        variant = None;
    }
    let source = |(index, session): (usize, Session)| -> anyhow::Result<ResultSource> {
        let mut origins = origins.clone();
        origins.push(format!("#{index}"));
        let mut source = ResultSource {
            label: operand.label.clone(),
            session,
            variant: variant.clone(),
            part: operand.part.clone(),
            typed: operand.locations.join(","),
            origins,
        };
        source.keep_matching()?;
        Ok(source)
    };
    sessions.into_iter().enumerate().map(source).collect()
}

/// Samples in a folder that criterion wrote, such as `target/criterion`.
const CRITERION_SAMPLES: &str = "**/new/sample.json";

/// Returns the location itself or, if it is a folder, the files directly in the folder. If there
/// are only subfolders, as in a folder that criterion wrote, returns the files with the latest
/// samples of criterion's benchmarks.
pub(super) fn files_at(location: &str) -> anyhow::Result<Vec<String>> {
    if !Path::new(location).is_dir() {
        return Ok(vec![location.to_owned()]);
    }
    let entries = std::fs::read_dir(location)
        .with_context(|| format!("cannot read the folder '{location}'"))?
        .flatten();
    let visible = entries.filter(|entry| !entry.file_name().to_string_lossy().starts_with('.'));
    let mut files: Vec<String> = visible
        .map(|entry| entry.path())
        .filter(|path| path.is_file())
        .map(|path| path.to_string_lossy().into_owned())
        .collect();
    files.sort();
    if files.is_empty() {
        let samples = files_matching(Path::new(location), CRITERION_SAMPLES);
        files.extend(samples.iter().map(|path| path.to_string_lossy().into_owned()));
    }
    if files.is_empty() {
        bail!("the folder '{location}' has no files");
    }
    Ok(files)
}

/// Reads the sessions of one location; also returns the identity of the location.
fn load_sessions(
    location: &str,
    selected: &SessionSelection<'_>,
    store: &mut dyn FnMut() -> anyhow::Result<Store>,
    file_warnings: &mut FileWarnings,
) -> anyhow::Result<(String, Vec<Session>)> {
    if location.starts_with('@') {
        let (resolved, session) = load_stored(&store()?, location, selected)?;
        if let Some(note) = &resolved.note {
            status::print_note(note);
        }
        return Ok((format!("@{}", resolved.number), vec![session]));
    }
    let sessions = results_file::read(location.as_ref(), file_warnings)?;
    let path = std::fs::canonicalize(location);
    let origin = path.map_or_else(|_| location.to_owned(), |path| path.display().to_string());
    Ok((origin, sessions))
}

/// Rejects identical sources: they cannot differ, so comparing them would only mislead.
///
/// # Errors
/// Fails if two sources select the same variant and the same benchmarks of the same session.
pub fn reject_identical(sources: &[ResultSource]) -> anyhow::Result<()> {
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

/// Checks that each requested metric exists in at least one session.
///
/// # Errors
/// Fails on a metric that no session has.
pub fn check_metrics<'s>(
    sessions: impl IntoIterator<Item = &'s Session>,
    settings: &AnalysisSettings,
) -> anyhow::Result<()> {
    let metrics = sessions.into_iter().flat_map(|session| &session.metrics);
    let names = metrics.map(|metric| metric.name.as_str());
    analysis::check_metrics(settings, names).context("in --metric")
}

/// Rejects output files (`-o`) that would overwrite a result file of an operand.
///
/// # Errors
/// Fails if there is such a file; the message names both files.
pub fn check_outputs(operands: &[SourceOperand], output: &OutputArgs) -> anyhow::Result<()> {
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

/// Checks that a session has the requested variant, if any.
///
/// # Errors
/// Fails if the session does not have the variant.
pub fn check_variant(session: &Session, variant: Option<&str>) -> anyhow::Result<()> {
    let Some(name) = variant else { return Ok(()) };
    let names: Vec<&str> = session.variants.iter().map(|variant| variant.name.as_str()).collect();
    if !names.contains(&name) {
        bail!("unknown variant '{name}'\nhint: the variants are {}", names.join(", "));
    }
    Ok(())
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

    fn keep_selected(&mut self, selection: &BenchmarkSelection) -> anyhow::Result<()> {
        let session = &mut self.session;
        let had_runs = !session.runs.is_empty();
        session.runs.retain(|run| selection.selects_case(&run.case));
        session.failures.retain(|failure| selection.selects_name(&failure.benchmark));
        if had_runs && session.runs.is_empty() {
            bail!("no case is left after --filter, --exclude and --set");
        }
        Ok(())
    }

    fn keep_matching(&mut self) -> anyhow::Result<()> {
        let Some(part) = &self.part else {
            return Ok(());
        };
        self.session.runs.retain(|run| part.contains(&run.case.id()));
        if self.session.runs.is_empty() {
            bail!("no case matches '{}'", part.pattern());
        }
        Ok(())
    }

    /// Replaces what the pattern matches with the common name, so that `BM_memcpy/8` of one source
    /// and `BM_copy/8` of another become the same case.
    fn rename_cases(&mut self, name: &str) {
        let Some(part) = &self.part else { return };
        let (mut before, mut after) = (HashSet::new(), HashSet::new());
        for run in &mut self.session.runs {
            before.insert(run.case.id());
            let mut case = (*run.case).clone();
            case.benchmark = part.rename_matches(&case.benchmark, name);
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

/// Returns the program that an operand names, as a side of a comparison. The program will be
/// started with `arguments`. Returns `None` if the operand names results.
///
/// # Errors
/// Fails if the program has no benchmarks of a known kind, or if the operand has other locations.
pub fn program_side(
    operand: &SourceOperand,
    arguments: &[String],
    reporter: ProgressReporter<'_>,
) -> anyhow::Result<Option<ComparisonSide>> {
    let adapters = KnownAdapters::new(&[], &std::env::current_dir()?)?;
    let is_program = |location: &&String| {
        let is_benchmark =
            is_program(Path::new(location)) || adapters.split_operand(location).is_some();
        is_benchmark || is_package(&adapters, location) || is_artifact(&adapters, location)
    };
    let Some(location) = operand.locations.iter().find(is_program) else {
        return Ok(None);
    };
    let context = || format!("in source '{}'", operand.label);
    if operand.locations.len() > 1 {
        bail!("'{location}' is a program and cannot be merged with other sources");
    }
    if let Some(variant) = &operand.variant {
        bail!("'{location}' is a program and has no variant '[{variant}]'");
    }
    let (adapter, file) = match adapters.split_operand(location) {
        Some((suite, path)) => (Some(suite), Path::new(path)),
        None => (adapters.recognize(Path::new(location)), Path::new(location)),
    };
    let google_benchmark = || builtin_adapter("google-benchmark");
    let mut suite = adapter.or_else(|| is_wrapper(file).then(google_benchmark)?);
    if suite.is_none() && !is_program_with_harness(file) {
        return Err(explain_unknown_program(file, location));
    }
    let mut file = Path::new(".").join(file);
    let suite_program = suite
        .as_deref()
        .filter(|suite| suite.keys.build.is_none())
        .and_then(|suite| suite.keys.program.clone());
    if !file.is_dir() && suite_program.is_none() {
        file = speedwell_machine::process::resolve_program(&file).with_context(context)?;
    }
    file = file.canonicalize().with_context(context)?;
    let mut variant = Variant { arguments: arguments.to_vec(), ..Variant::plain(&operand.label) };
    let mut directory = None;
    if let Some(package) = suite.as_deref().filter(|suite| suite.keys.build.is_some()) {
        let built = build_single_program((package, &adapters), &file, &variant, reporter);
        let (program, adapter_of_build) = built.with_context(context)?;
        directory = Some(std::mem::replace(&mut file, program));
        suite = Some(adapter_of_build);
    }
    match suite_program {
        Some(_) => variant.artifact = Some(file.clone()),
        None => variant.program = Some(file.clone()),
    }
    Ok(Some(ComparisonSide { variant, file, suite, directory, part: operand.part.clone() }))
}

fn explain_unknown_program(file: &Path, location: &str) -> anyhow::Error {
    if let Some(name) = framework_without_adapter(file) {
        return anyhow!("'{location}': {}", explain_framework(name, location));
    }
    anyhow!(
        "'{location}' is a program, but it contains no benchmarks of google/benchmark, another known suite or speedwell.hpp\n\
         hint: docs/reference/suites.md explains how to define another suite; to measure it as a command: speedwell eval sh {}",
        quote(location)
    )
}

/// Returns whether `location` is a folder from which a benchmark program is built.
fn is_package(adapters: &KnownAdapters, location: &str) -> bool {
    let location = Path::new(location);
    let suite = || adapters.recognize(location);
    location.is_dir() && suite().is_some_and(|suite| suite.keys.build.is_some())
}

/// Returns whether `location` is a build artifact, such as a jar, that a suite's program executes.
fn is_artifact(adapters: &KnownAdapters, location: &str) -> bool {
    let location = Path::new(location);
    location.is_file()
        && adapters.recognize(location).is_some_and(|suite| suite.keys.program.is_some())
        && !is_text(location)
}

/// Returns whether the file is an ELF program or an executable script.
fn is_program(file: &Path) -> bool {
    file.is_file() && (is_elf(file) || is_wrapper(file))
}

#[cfg(test)]
mod tests {

    use crate::operand::shortest_labels;

    #[test]
    fn files_are_labelled_by_the_shortest_distinct_name() {
        for (arguments, expected) in [
            (["out/a.json", "out/b.json"], ["a.json", "b.json"]),
            (["/x/old/r.csv", "/x/new/r.csv"], ["old/r.csv", "new/r.csv"]),
            (["a/r.csv", "r.csv"], ["a/r.csv", "r.csv"]),
            (["x/r.csv[old]", "x/r.csv[new]"], ["r.csv[old]", "r.csv[new]"]),
            (["x/r.csv::a/b", "x/r.csv::a/c"], ["r.csv::a/b", "r.csv::a/c"]),
            (["x/r.csv", "x/r.csv"], ["r.csv", "r.csv"]),
            (["@prev", "@latest"], ["@prev", "@latest"]),
        ] {
            assert_eq!(shortest_labels(&arguments), expected);
        }
    }
}
