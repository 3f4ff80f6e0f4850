//! Reads SOURCE operands that name results: files, folders of files, `-` and stored sessions.
//!
//! This module combines the locations of an operand and rejects identical sources. It also gives
//! common names to cases that are selected by different patterns. `operand` parses the arguments
//! and finds out which operands name programs or profiles instead.

use crate::operand::SourceOperand;
use crate::options::{OutputArgs, StoreArgs};
use crate::results_file::FileWarnings;
use crate::stored_session::SessionSelection;
use crate::{operand, results_file, status, stored_session};
use anyhow::{Context, Result, bail, ensure};
use speedwell_adapters::discover::{BenchmarkPart, BenchmarkSelection};
use speedwell_formats::MetricDirections;
use speedwell_model::Session;
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
            let files = results_file::files_at(location)?;
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
                let ids = ids.entry(loaded.origin.clone()).or_insert(session_ids.collect());
                for (session, id) in loaded.sessions.iter_mut().zip(ids.iter()) {
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
        let loaded = load_stored(&store.open_to_read()?, location, selected)?;
        loaded.note.iter().for_each(|note| status::print_note(note));
        return Ok(loaded);
    }
    let sessions =
        results_file::read_file(location.as_ref(), &MetricDirections::default(), warnings)?;
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
        files.extend(results_file::files_at(location)?);
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
