//! Programs that are compared with each other: which benchmarks they have in common.
//!
//! Decides which benchmark of one program is the same case as which of another. It must not know
//! how they are measured. Start at [`common`].

use super::part::Part;
use super::suite::{Suite, describe};
use super::{Selection, target};
use crate::harness::Job;
use crate::model::{Case, Variant};
use anyhow::bail;
use indexmap::IndexMap;
use std::path::PathBuf;

/// One program of a comparison.
#[derive(Debug, Clone)]
pub struct Side {
    /// The variant that it is measured as; its program is the file.
    pub variant: Variant,
    /// The program.
    pub file: PathBuf,
    /// The part of its benchmarks that takes part.
    pub part: Option<Part>,
}

/// The jobs of one side with their cases, by the ids that they have in the comparison.
type Jobs = IndexMap<String, (Case, Job)>;

/// The benchmarks that all `sides` have, in the order of the first, with `word` for what their parts
/// match. Those that a side lacks are told in the warnings.
///
/// # Errors
/// A side that cannot be asked or has no such benchmark, and sides without a common one.
pub fn common(sides: &[Side], word: Option<&str>, selection: &Selection) -> anyhow::Result<Suite> {
    let mut suite = Suite {
        files: sides.len(),
        ..Suite::default()
    };
    let mut all: Vec<Jobs> = Vec::new();
    for side in sides {
        let jobs = jobs_of(side, selection, &mut suite)?;
        all.push(named(side, jobs, word, &mut suite.warnings));
    }
    let Some((first, others)) = all.split_first() else {
        return Ok(suite);
    };
    for name in first.keys() {
        if others.iter().all(|other| other.contains_key(name)) {
            suite.jobs.push(joined(name, sides, &all));
        }
    }
    suite.warnings.extend(unmatched(sides, &all));
    if suite.jobs.is_empty() {
        bail!(
            "nothing to compare: no benchmark is in all of them\nhint: '::REGEX' behind each \
             program pairs benchmarks of different names"
        );
    }
    Ok(suite)
}

fn jobs_of(side: &Side, selection: &Selection, suite: &mut Suite) -> anyhow::Result<Vec<Job>> {
    let here = std::env::current_dir()?;
    let source = target::program_source(&side.file, &here);
    let described = describe(&[source], selection, &side.variant, &|_, _| ());
    let mut jobs = Vec::new();
    for description in described {
        if let Some(failure) = description.failure {
            let last_words = failure.stderr_tail.lines().last().map(str::trim);
            let said = last_words.filter(|words| !words.is_empty());
            bail!(
                "'{}' {}{}\nhint: repeat it with: {}",
                side.variant.name,
                failure.cause,
                said.map_or(String::new(), |said| format!(" and said: {said}")),
                failure.replay
            );
        }
        jobs.extend(description.jobs);
        suite.warnings.extend(description.warnings);
    }
    let wanted = |job: &Job| {
        let in_part = side.part.as_ref().is_none_or(|part| part.holds(&job.label));
        in_part && selection.wants(&job.label)
    };
    jobs.retain(wanted);
    if jobs.is_empty() {
        bail!("'{}' has no benchmark that is asked for", side.variant.name);
    }
    Ok(jobs)
}

fn named(side: &Side, jobs: Vec<Job>, word: Option<&str>, warnings: &mut Vec<String>) -> Jobs {
    let count = jobs.len();
    let mut found = IndexMap::new();
    for job in jobs {
        let mut case = job
            .case
            .clone()
            .unwrap_or_else(|| Case::new(&job.label, Vec::new()));
        if let (Some(part), Some(word)) = (&side.part, word) {
            case.benchmark = part.renamed(&case.benchmark, word);
        }
        found.entry(case.id()).or_insert((case, job));
    }
    if found.len() < count {
        warnings.push(format!(
            "the pattern of '{}' makes {count} benchmarks into {}, of which the first each is \
             measured; put what tells them apart in a group: (...)",
            side.variant.name,
            found.len()
        ));
    }
    found
}

/// One job for all sides.
fn joined(name: &str, sides: &[Side], all: &[Jobs]) -> Job {
    let (case, job) = all[0][name].clone();
    let own = |(side, jobs): (&Side, &Jobs)| {
        let label = &jobs[name].1.label;
        (label != name).then(|| (side.variant.name.clone(), label.clone()))
    };
    Job {
        label: name.to_owned(),
        names: sides.iter().zip(all).filter_map(own).collect(),
        case: Some(case),
        ..job
    }
}

fn unmatched(sides: &[Side], all: &[Jobs]) -> Option<String> {
    let mut lonely = Vec::new();
    for (at, jobs) in all.iter().enumerate() {
        let lacks = |name: &&String| all.iter().any(|other| !other.contains_key(*name));
        let names: Vec<String> = jobs
            .keys()
            .filter(lacks)
            .map(|name| format!("'{name}'"))
            .collect();
        if !names.is_empty() {
            lonely.push(format!(
                "{} of '{}'",
                names.join(", "),
                sides[at].variant.name
            ));
        }
    }
    (!lonely.is_empty()).then(|| {
        format!(
            "not measured, because not every program has them: {}",
            lonely.join("; ")
        )
    })
}
