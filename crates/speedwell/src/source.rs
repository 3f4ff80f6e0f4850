//! Reads SOURCE operands: files, folders of files, `-` and stored sessions; and detects programs,
//! which are measured instead.
//!
//! Decides how several places of one operand combine, how cases of different parts are named, and
//! which sources are identical. `operand` parses the arguments.

use super::large::{self, SessionSelection};
use super::operand::{self, SourceOperand};
use super::options::OutputArgs;
use super::results_file::{self, FileWarnings};
use super::status;
use anyhow::{Context, anyhow, bail};
use speedwell_analysis::{self as analysis, AnalysisSettings};
use speedwell_harness as harness;
use speedwell_harness::discover::{BenchmarkPart, BenchmarkSelection, ComparisonSide};
use speedwell_measure::reference;
use speedwell_model::{Session, Variant, quote};
use speedwell_results::formats;
use speedwell_results::store::Store;
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
    /// The pattern after `::`.
    part: Option<BenchmarkPart>,
    /// The places as typed.
    words: String,
    /// Identities of the places: session numbers, resolved paths.
    origins: Vec<String>,
}

/// State shared by the sources read so far.
#[derive(Default)]
struct ReadState {
    /// Session ids by origin. A file has no id of its own and would get a new one each time it is
    /// read, although two variants of it belong to one session just like two of a stored one.
    ids: HashMap<String, Vec<String>>,
    /// Warnings about files.
    remarks: FileWarnings,
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
    let word = operand::common_word(operands);
    let mut sources = Vec::new();
    let mut known = ReadState::default();
    for operand in operands {
        sources.extend(read_knowing(
            operand,
            word.as_deref(),
            selection,
            store,
            &mut known,
        )?);
    }
    known.remarks.print_warnings();
    Ok(sources)
}

/// Reads one of several operands, where `word` replaces what their parts match. A file may hold
/// several sessions.
///
/// # Errors
/// As for [`read_sources`].
pub fn read_one(
    operand: &SourceOperand,
    word: Option<&str>,
    selection: &BenchmarkSelection,
    store: &mut dyn FnMut() -> anyhow::Result<Store>,
) -> anyhow::Result<Vec<ResultSource>> {
    let mut known = ReadState::default();
    let sources = read_knowing(operand, word, selection, store, &mut known)?;
    known.remarks.print_warnings();
    Ok(sources)
}

/// Like [`read_one`], with the state of the sources before it.
fn read_knowing(
    operand: &SourceOperand,
    word: Option<&str>,
    selection: &BenchmarkSelection,
    store: &mut dyn FnMut() -> anyhow::Result<Store>,
    known: &mut ReadState,
) -> anyhow::Result<Vec<ResultSource>> {
    let in_source = || format!("in source '{}'", operand.label);
    let mut sources = read_operand(operand, selection, store, known).with_context(in_source)?;
    for source in &mut sources {
        source.keep_selected(selection).with_context(in_source)?;
    }
    if let Some(word) = word {
        sources
            .iter_mut()
            .for_each(|source| source.rename_cases(word));
    }
    Ok(sources)
}

fn read_operand(
    operand: &SourceOperand,
    selection: &BenchmarkSelection,
    store: &mut dyn FnMut() -> anyhow::Result<Store>,
    known: &mut ReadState,
) -> anyhow::Result<Vec<ResultSource>> {
    let mut sessions = Vec::new();
    let mut origins = Vec::new();
    for place in &operand.places {
        for file in files_of(place)? {
            let wanted = SessionSelection {
                selection: Some(selection),
                part: operand.part.as_ref(),
            };
            let (origin, mut found) = sessions_of(&file, &wanted, store, &mut known.remarks)?;
            let session_ids = || found.iter().map(|session| session.id.clone()).collect();
            let ids = known
                .ids
                .entry(origin.clone())
                .or_insert_with(session_ids)
                .clone();
            for (session, id) in found.iter_mut().zip(ids) {
                session.id = id;
            }
            sessions.extend(found);
            origins.push(origin);
        }
    }
    assemble_sources(operand, sessions, origins)
}

/// Reads operands that must name sessions of this store.
///
/// # Errors
/// Fails on an unknown session or variant, a pattern that matches nothing, and two identical
/// sources.
#[cfg(feature = "serve")]
pub fn read_stored(
    operands: &[SourceOperand],
    store: &Store,
) -> anyhow::Result<Vec<(ResultSource, Option<String>)>> {
    let word = operand::common_word(operands);
    let (mut sources, mut said) = (Vec::new(), Vec::new());
    for operand in operands {
        let read = || {
            let (mut sessions, mut origins, mut taken_for) = (Vec::new(), Vec::new(), None);
            for place in &operand.places {
                let wanted = SessionSelection {
                    selection: None,
                    part: operand.part.as_ref(),
                };
                let (found, session) = load_stored(store, place, &wanted)?;
                origins.push(format!("@{}", found.number));
                taken_for = found.note.or(taken_for);
                sessions.push(session);
            }
            anyhow::Ok((assemble_sources(operand, sessions, origins)?, taken_for))
        };
        let (mut found, taken_for) =
            read().with_context(|| format!("in source '{}'", operand.label))?;
        if let Some(word) = &word {
            found
                .iter_mut()
                .for_each(|source| source.rename_cases(word));
        }
        said.extend(found.iter().map(|_| taken_for.clone()));
        sources.extend(found);
    }
    reject_identical(&sources)?;
    Ok(sources.into_iter().zip(said).collect())
}

/// Loads the session that a reference names; of a large one, only the selected part.
fn load_stored(
    store: &Store,
    word: &str,
    wanted: &SessionSelection<'_>,
) -> anyhow::Result<(reference::ResolvedSession, Session)> {
    let found = reference::find_session(store, word)?;
    let session = large::load_selected((store, found.number), wanted)?;
    Ok((found, session))
}

/// Combines the sessions of an operand into sources.
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
        let parts = sessions
            .into_iter()
            .map(|session| (session, variant.clone()));
        sessions = vec![formats::merge_sessions(&operand.label, parts.collect())?];
        variant = None;
    }
    let source = |(at, session): (usize, Session)| -> anyhow::Result<ResultSource> {
        let mut origins = origins.clone();
        origins.push(format!("#{at}"));
        let mut source = ResultSource {
            label: operand.label.clone(),
            session,
            variant: variant.clone(),
            part: operand.part.clone(),
            words: operand.places.join(","),
            origins,
        };
        source.keep_matching()?;
        Ok(source)
    };
    sessions.into_iter().enumerate().map(source).collect()
}

/// Returns the place itself, or its files if it is a folder.
pub(super) fn files_of(place: &str) -> anyhow::Result<Vec<String>> {
    if !Path::new(place).is_dir() {
        return Ok(vec![place.to_owned()]);
    }
    let entries = std::fs::read_dir(place)
        .with_context(|| format!("cannot read the folder '{place}'"))?
        .flatten();
    let visible = entries.filter(|entry| !entry.file_name().to_string_lossy().starts_with('.'));
    let mut files: Vec<String> = visible
        .map(|entry| entry.path())
        .filter(|path| path.is_file())
        .map(|path| path.to_string_lossy().into_owned())
        .collect();
    files.sort();
    if files.is_empty() {
        bail!("the folder '{place}' has no files");
    }
    Ok(files)
}

/// Reads the sessions of one place; returns its identity, too.
fn sessions_of(
    place: &str,
    wanted: &SessionSelection<'_>,
    store: &mut dyn FnMut() -> anyhow::Result<Store>,
    remarks: &mut FileWarnings,
) -> anyhow::Result<(String, Vec<Session>)> {
    if place.starts_with('@') {
        let (found, session) = load_stored(&store()?, place, wanted)?;
        if let Some(sentence) = &found.note {
            status::print_note(sentence);
        }
        return Ok((format!("@{}", found.number), vec![session]));
    }
    let sessions = results_file::read(place.as_ref(), remarks)?;
    let path = std::fs::canonicalize(place);
    let origin = path.map_or_else(|_| place.to_owned(), |path| path.display().to_string());
    Ok((origin, sessions))
}

/// Rejects identical sources: they cannot differ, so comparing them would only mislead.
///
/// # Errors
/// Fails if two sources are the same variant and part of the same session.
pub fn reject_identical(sources: &[ResultSource]) -> anyhow::Result<()> {
    for (at, one) in sources.iter().enumerate() {
        let Some(other) = sources[..at].iter().find(|other| other.is_same(one)) else {
            continue;
        };
        let kind = if one.words.starts_with('@') {
            "session"
        } else {
            "file"
        };
        let names = if other.words == one.words {
            format!("'{}'", one.words)
        } else {
            format!("'{}' and '{}'", other.words, one.words)
        };
        bail!(
            "both sources are the same {kind}, {names}\nhint: {}",
            one.suggest_alternative()
        );
    }
    Ok(())
}

/// Checks that at least one session has each requested metric.
///
/// # Errors
/// Fails on a metric that none of them has.
pub fn check_metrics<'s>(
    sessions: impl IntoIterator<Item = &'s Session>,
    settings: &AnalysisSettings,
) -> anyhow::Result<()> {
    let metrics = sessions.into_iter().flat_map(|session| &session.metrics);
    let names = metrics.map(|metric| metric.name.as_str());
    analysis::check_metrics(settings, names).context("in --metric")
}

/// Rejects files of `-o` that would replace a result file.
///
/// # Errors
/// Fails if there is one, and names both files.
pub fn check_outputs(operands: &[SourceOperand], output: &OutputArgs) -> anyhow::Result<()> {
    if output.output.is_empty() {
        return Ok(());
    }
    let places = operands.iter().flat_map(|operand| &operand.places);
    let mut files = Vec::new();
    for place in places.filter(|place| Path::new(place).exists()) {
        files.extend(files_of(place)?);
    }
    output.check_inputs(files.iter().map(Path::new))
}

/// Checks that a session has the requested variant, if any.
///
/// # Errors
/// Fails if it does not.
pub fn check_variant(session: &Session, variant: Option<&str>) -> anyhow::Result<()> {
    let Some(name) = variant else { return Ok(()) };
    let names: Vec<&str> = session.variants.iter().map(|v| v.name.as_str()).collect();
    if !names.contains(&name) {
        bail!(
            "unknown variant '{name}'\nhint: the variants are {}",
            names.join(", ")
        );
    }
    Ok(())
}

impl ResultSource {
    /// The label, the session, and the selected variant.
    pub fn labelled(&self) -> (String, &Session, Option<String>) {
        (self.label.clone(), &self.session, self.variant.clone())
    }

    /// The name of the variant that is compared.
    fn compared_variant(&self) -> &str {
        self.variant
            .as_deref()
            .unwrap_or(&self.session.design.baseline)
    }

    /// The session without the variants that were not selected.
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
        let word = &self.words;
        let names: Vec<&str> = self
            .session
            .variants
            .iter()
            .map(|v| v.name.as_str())
            .collect();
        match &names[..] {
            [_, _, ..] => format!(
                "'speedwell compare {word}' compares its variants {}",
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
        session
            .failures
            .retain(|failure| selection.selects_name(&failure.benchmark));
        if had_runs && session.runs.is_empty() {
            bail!("no case is left after --filter, --exclude and --set");
        }
        Ok(())
    }

    /// Keeps only the cases that match the pattern.
    fn keep_matching(&mut self) -> anyhow::Result<()> {
        let Some(part) = &self.part else {
            return Ok(());
        };
        self.session
            .runs
            .retain(|run| part.contains(&run.case.id()));
        if self.session.runs.is_empty() {
            bail!("no case matches '{}'", part.pattern());
        }
        Ok(())
    }

    /// Replaces what the pattern matches by the common word, so that `BM_memcpy/8` of one source
    /// and `BM_copy/8` of another become the same case.
    fn rename_cases(&mut self, word: &str) {
        let Some(part) = &self.part else { return };
        let (mut before, mut after) = (HashSet::new(), HashSet::new());
        for run in &mut self.session.runs {
            before.insert(run.case.id());
            let mut case = (*run.case).clone();
            case.benchmark = part.rename_matches(&case.benchmark, word);
            after.insert(case.id());
            run.case = Arc::new(case);
        }
        if after.len() < before.len() {
            status::print_warning(&format!(
                "the pattern of '{}' merges {} cases into {}, which mixes their runs; capture what \
                 distinguishes them in a group: (...)",
                self.label,
                before.len(),
                after.len()
            ));
        }
    }
}

/// Returns the program that an operand names, started with `arguments`; `None` for results.
///
/// # Errors
/// Fails on a program without benchmarks of a known kind, and on one among several places.
pub fn program_side(
    operand: &SourceOperand,
    arguments: &[String],
    tell: harness::ProgressReporter<'_>,
) -> anyhow::Result<Option<ComparisonSide>> {
    let adapters = harness::KnownAdapters::new(&[], &std::env::current_dir()?)?;
    let is_program = |place: &&String| {
        let is_own = is_program(Path::new(place)) || adapters.split_operand(place).is_some();
        is_own || is_package(&adapters, place) || is_artifact(&adapters, place)
    };
    let Some(place) = operand.places.iter().find(is_program) else {
        return Ok(None);
    };
    let in_source = || format!("in source '{}'", operand.label);
    if operand.places.len() > 1 {
        bail!("'{place}' is a program and cannot be merged with other sources");
    }
    if let Some(variant) = &operand.variant {
        bail!("'{place}' is a program and has no variant '[{variant}]'");
    }
    let (adapter, file) = match adapters.split_operand(place) {
        Some((suite, path)) => (Some(suite), Path::new(path)),
        None => (adapters.recognize(Path::new(place)), Path::new(place)),
    };
    let wrapped = || harness::builtin_adapter("google-benchmark");
    let mut suite = adapter.or_else(|| harness::is_wrapper(file).then(wrapped)?);
    if suite.is_none() && !harness::is_program_with_harness(file) {
        return Err(explain_unknown_program(file, place));
    }
    let mut file = Path::new(".").join(file);
    let performer = suite
        .as_deref()
        .filter(|suite| suite.keys.build.is_none())
        .and_then(|suite| suite.keys.program.clone());
    if !file.is_dir() && performer.is_none() {
        file = speedwell_process::resolve_program(&file).with_context(in_source)?;
    }
    file = file.canonicalize().with_context(in_source)?;
    let mut variant = Variant {
        arguments: arguments.to_vec(),
        ..Variant::plain(&operand.label)
    };
    let mut directory = None;
    if let Some(package) = suite.as_deref().filter(|suite| suite.keys.build.is_some()) {
        let built = harness::build_single_program((package, &adapters), &file, &variant, tell);
        let (program, own) = built.with_context(in_source)?;
        directory = Some(std::mem::replace(&mut file, program));
        suite = Some(own);
    }
    match performer {
        Some(_) => variant.artifact = Some(file.clone()),
        None => variant.program = Some(file.clone()),
    }
    Ok(Some(ComparisonSide {
        variant,
        file,
        suite,
        directory,
        part: operand.part.clone(),
    }))
}

/// Explains that a program has no benchmarks of a known kind.
fn explain_unknown_program(file: &Path, place: &str) -> anyhow::Error {
    if let Some(name) = harness::framework_without_adapter(file) {
        return anyhow!("'{place}': {}", harness::explain_framework(name, place));
    }
    anyhow!(
        "'{place}' is a program, but was not built with google/benchmark, another suite or speedwell.hpp\n\
         hint: docs/reference/suites.md explains how to describe a suite; to measure it as a command: speedwell eval sh {}",
        quote(place)
    )
}

/// Returns whether this is a folder from which a benchmark program is built.
fn is_package(adapters: &harness::KnownAdapters, place: &str) -> bool {
    let place = Path::new(place);
    let suite = || adapters.recognize(place);
    place.is_dir() && suite().is_some_and(|suite| suite.keys.build.is_some())
}

/// Returns whether this is a build artifact, such as a jar, that a suite's program executes.
fn is_artifact(adapters: &harness::KnownAdapters, place: &str) -> bool {
    let place = Path::new(place);
    place.is_file()
        && adapters
            .recognize(place)
            .is_some_and(|suite| suite.keys.program.is_some())
        && !harness::is_text(place)
}

/// Returns whether the file is an ELF program or an executable script.
fn is_program(file: &Path) -> bool {
    file.is_file() && (harness::is_elf(file) || harness::is_wrapper(file))
}

#[cfg(test)]
mod tests {

    use crate::operand::shortest_labels;

    #[test]
    fn files_are_called_by_what_tells_them_apart() {
        for (words, expected) in [
            (["out/a.json", "out/b.json"], ["a.json", "b.json"]),
            (["/x/old/r.csv", "/x/new/r.csv"], ["old/r.csv", "new/r.csv"]),
            (["a/r.csv", "r.csv"], ["a/r.csv", "r.csv"]),
            (
                ["x/r.csv[old]", "x/r.csv[new]"],
                ["r.csv[old]", "r.csv[new]"],
            ),
            (
                ["x/r.csv::a/b", "x/r.csv::a/c"],
                ["r.csv::a/b", "r.csv::a/c"],
            ),
            (["x/r.csv", "x/r.csv"], ["r.csv", "r.csv"]),
            (["@prev", "@latest"], ["@prev", "@latest"]),
        ] {
            assert_eq!(shortest_labels(&words), expected);
        }
    }
}
