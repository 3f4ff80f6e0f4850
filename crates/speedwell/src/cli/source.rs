//! SOURCE operands: a file, `-`, or a stored session, each with an optional `[VARIANT]` and
//! `::REGEX`.

use super::source_labels::labels;
use super::status;
use crate::exchange;
use crate::model::Session;
use crate::store::{Reference, Store};
use anyhow::{Context, bail};
use regex::Regex;
use std::io::Read;
use std::sync::Arc;

/// One operand, read.
#[derive(Debug)]
pub struct Source {
    /// What it is called in tables.
    pub label: String,
    /// Its results.
    pub session: Session,
    /// The variant that was picked.
    pub variant: Option<String>,
    /// The pattern after `::`.
    part: Option<Regex>,
}

/// Reads every operand.
///
/// # Errors
/// A missing or unreadable file, an unknown session or variant, a pattern that matches nothing.
pub fn read(
    words: &[String],
    store: &mut dyn FnMut() -> anyhow::Result<Store>,
) -> anyhow::Result<Vec<Source>> {
    let mut sources = Vec::new();
    for word in words {
        sources.extend(read_one(word, store).with_context(|| format!("in source '{word}'"))?);
    }
    join_parts(&mut sources);
    let typed: Vec<String> = sources.iter().map(|source| source.label.clone()).collect();
    let typed: Vec<&str> = typed.iter().map(String::as_str).collect();
    for (source, label) in sources.iter_mut().zip(labels(&typed)) {
        source.label = label;
    }
    Ok(sources)
}

fn read_one(
    word: &str,
    store: &mut dyn FnMut() -> anyhow::Result<Store>,
) -> anyhow::Result<Vec<Source>> {
    let (place, part) = match word.split_once("::") {
        Some((place, pattern)) => (place, Some(Regex::new(pattern)?)),
        None => (word, None),
    };
    let (place, variant) = match place
        .strip_suffix(']')
        .and_then(|rest| rest.rsplit_once('['))
    {
        Some((place, variant)) if !place.is_empty() => (place, Some(variant.to_owned())),
        _ => (place, None),
    };
    let sessions = sessions_of(place, store)?;
    sessions
        .into_iter()
        .map(|session| {
            check_variant(&session, variant.as_deref())?;
            let mut source = Source {
                label: word.to_owned(),
                session,
                variant: variant.clone(),
                part: part.clone(),
            };
            source.take_part()?;
            Ok(source)
        })
        .collect()
}

fn sessions_of(
    place: &str,
    store: &mut dyn FnMut() -> anyhow::Result<Store>,
) -> anyhow::Result<Vec<Session>> {
    if place.starts_with('@') {
        let store = store()?;
        let number = store.find(&place.parse::<Reference>()?)?;
        return Ok(vec![store.session(number)?]);
    }
    let mut bytes = Vec::new();
    if place == "-" {
        std::io::stdin()
            .lock()
            .read_to_end(&mut bytes)
            .context("cannot read stdin")?;
    } else {
        bytes = std::fs::read(place).with_context(|| {
            format!("cannot read the file '{place}'\nhint: stored sessions are named @latest, @prev, @NUMBER or @TAG")
        })?;
    }
    let mut warnings = Vec::new();
    let sessions = exchange::read_noting(place, &bytes, &mut warnings)?;
    warnings.iter().for_each(|warning| status::warn(warning));
    Ok(sessions)
}

fn check_variant(session: &Session, variant: Option<&str>) -> anyhow::Result<()> {
    let Some(name) = variant else { return Ok(()) };
    let known: Vec<&str> = session.variants.iter().map(|v| v.name.as_str()).collect();
    if !known.contains(&name) {
        bail!(
            "no variant '{name}'\nhint: its variants are {}",
            known.join(", ")
        );
    }
    Ok(())
}

impl Source {
    /// Keeps only the cases that match the pattern.
    fn take_part(&mut self) -> anyhow::Result<()> {
        let Some(part) = &self.part else {
            return Ok(());
        };
        self.session
            .runs
            .retain(|run| part.is_match(&run.case.id()));
        if self.session.runs.is_empty() {
            bail!("no case matches '{part}'");
        }
        Ok(())
    }
}

/// Where the operands name different parts, the matched text becomes a common word, so that
/// `BM_memcpy/8` of one and `BM_copy/8` of the other are the same case.
fn join_parts(sources: &mut [Source]) {
    let patterns: Vec<String> = sources
        .iter()
        .filter_map(|s| s.part.as_ref().map(ToString::to_string))
        .collect();
    let differ = patterns.len() == sources.len() && patterns.windows(2).any(|two| two[0] != two[1]);
    if !differ {
        return;
    }
    let common = format!("[{}]", patterns.join("|"));
    for source in sources {
        let Some(part) = &source.part else { continue };
        for run in &mut source.session.runs {
            let mut case = (*run.case).clone();
            case.benchmark = part
                .replace(&case.benchmark, regex::NoExpand(&common))
                .into_owned();
            run.case = Arc::new(case);
        }
    }
}
