//! Pairs the benchmarks of the programs in a comparison.
//!
//! This module decides which benchmarks are the same case, not how they are measured. Start at
//! [`find_common_benchmarks`].

use super::{
    BenchmarkPart, BenchmarkSelection, DiscoveredBenchmarks, describe_sources, program_source,
};
use crate::BenchmarkJob;
use anyhow::{bail, ensure};
use indexmap::{IndexMap, IndexSet};
use speedwell_config::adapter::SuiteAdapter;
use speedwell_machine::process::check_interrupted;
use speedwell_model::{Case, Variant};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// A side of a comparison: one program and its benchmarks.
#[derive(Debug, Clone)]
pub struct ComparisonSide {
    /// The variant under which this program is measured; the variant's program is `file`.
    pub variant: Variant,
    /// The program.
    pub file: PathBuf,
    /// Adapter for the benchmark framework of the program, if it uses one.
    pub suite: Option<Arc<SuiteAdapter>>,
    /// Folder of the package from which the program is built; also the working directory. `None` if
    /// the program runs in the user's working directory.
    pub directory: Option<PathBuf>,
    /// The benchmarks of this program to compare; all of them if `None`.
    pub part: Option<BenchmarkPart>,
}

impl ComparisonSide {
    /// Fingerprints the code that the benchmark of each job runs on this side; see
    /// [`crate::fingerprint_benchmarks`]. Returns no fingerprints if the program is not built from
    /// a local package, because its source is then unknown.
    pub fn fingerprint_work(&self, jobs: &[BenchmarkJob]) -> BTreeMap<String, String> {
        let Some(package) = &self.directory else { return BTreeMap::new() };
        let in_package = |job: &BenchmarkJob| BenchmarkJob {
            source: crate::BenchmarkSource {
                file: package.clone(),
                is_artifact: false,
                ..job.source.clone()
            },
            ..job.clone()
        };
        let jobs: Vec<BenchmarkJob> = jobs.iter().map(in_package).collect();
        crate::fingerprint_benchmarks(&jobs, &self.variant)
    }
}

/// Jobs of one side with their cases, by case id in the comparison.
pub(super) type JobsByCase = IndexMap<String, (Case, BenchmarkJob)>;

/// Finds the benchmarks that all `sides` have, in the order of the first side. If a side has a
/// pattern ([`ComparisonSide::part`]), `word` replaces the matching text in its benchmark names.
/// Warns about benchmarks that are missing on a side.
///
/// # Errors
/// Fails if the benchmarks of a side cannot be listed, a side has no matching benchmark, or the
/// sides have no benchmark in common.
pub fn find_common_benchmarks(
    sides: &[ComparisonSide],
    word: Option<&str>,
    selection: &BenchmarkSelection,
) -> anyhow::Result<DiscoveredBenchmarks> {
    let mut suite = DiscoveredBenchmarks { files: sides.len(), ..DiscoveredBenchmarks::default() };
    let naming = CaseNaming::from_sides(sides, word);
    let mut indexed: Vec<JobsByCase> = Vec::new();
    for side in sides {
        let jobs = describe_side(side, selection, &mut suite)?;
        indexed.push(naming.index_jobs(side, jobs, &mut suite.warnings));
    }
    if let Some(word) = word {
        pair_single_cases(&mut indexed, word);
    }
    let Some((first, others)) = indexed.split_first() else { return Ok(suite) };
    for name in first.keys() {
        if others.iter().all(|other| other.contains_key(name)) {
            suite.jobs.push(join_jobs(name, sides, &indexed));
        }
    }
    let names: Vec<&str> = sides.iter().map(|side| side.variant.name.as_str()).collect();
    suite.warnings.extend(unmatched_warning(&names, &indexed));
    if suite.jobs.is_empty() {
        bail!(
            "nothing to compare: the programs have no benchmark in common\n\
             hint: append '::REGEX' to each program to pair benchmarks with different names"
        );
    }
    Ok(suite)
}

fn describe_side(
    side: &ComparisonSide,
    selection: &BenchmarkSelection,
    suite: &mut DiscoveredBenchmarks,
) -> anyhow::Result<Vec<BenchmarkJob>> {
    let directory = std::env::current_dir()?;
    let directory = side.directory.as_deref().unwrap_or(&directory);
    let source = program_source(&side.file, side.suite.clone(), directory);
    let described = describe_sources(&[source], selection, &side.variant, &|_| ());
    check_interrupted()?;
    let mut jobs = Vec::new();
    for description in described {
        if let Some(failure) = description.failure {
            let last_line =
                failure.stderr_tail.lines().last().map(str::trim).filter(|line| !line.is_empty());
            bail!(
                "'{}' {}{}\nhint: repeat it with: {}",
                side.variant.name,
                failure.cause,
                last_line.map_or(String::new(), |last_line| format!(" and printed: {last_line}")),
                failure.replay
            );
        }
        jobs.extend(description.jobs);
        suite.warnings.extend(description.warnings);
    }
    if let Some(part) = &side.part {
        let cases: Vec<Case> = jobs.iter().map(BenchmarkJob::described_case).collect();
        let narrowed = part.narrowed_to(&cases);
        jobs.retain(|job| narrowed.contains(&job.described_case()));
        ensure!(!jobs.is_empty(), part.explain_no_match(&cases));
    }
    jobs.retain(|job| selection.selects_name(&job.label));
    ensure!(!jobs.is_empty(), "'{}' has no matching benchmark", side.variant.name);
    Ok(jobs)
}

/// Maps benchmarks to their names in the comparison.
struct CaseNaming<'a> {
    /// File name of the first side, if the file names of the sides differ.
    first_file: Option<String>,
    /// Replacement for text that the patterns of the sides match.
    word: Option<&'a str>,
}

impl<'a> CaseNaming<'a> {
    fn from_sides(sides: &[ComparisonSide], word: Option<&'a str>) -> CaseNaming<'a> {
        let name =
            |side: &ComparisonSide| side.file.file_name().map(|name| name.to_string_lossy().into());
        let files: IndexSet<Option<String>> = sides.iter().map(name).collect();
        CaseNaming {
            first_file: files.first().cloned().flatten().filter(|_| files.len() > 1),
            word,
        }
    }

    /// Indexes the jobs by the ids of their cases in the comparison.
    fn index_jobs(
        &self,
        side: &ComparisonSide,
        jobs: Vec<BenchmarkJob>,
        warnings: &mut Vec<String>,
    ) -> JobsByCase {
        let count = jobs.len();
        let mut indexed = IndexMap::new();
        let cases: Vec<Case> = jobs.iter().map(BenchmarkJob::described_case).collect();
        let part = side.part.as_ref().map(|part| part.narrowed_to(&cases));
        for job in jobs {
            let (case, job) = self.common_case(part.as_ref(), job);
            indexed.entry(case.id()).or_insert((case, job));
        }
        if indexed.len() < count {
            warnings.push(format!(
                "with the pattern of '{}', {count} benchmarks have only {} different names, so \
                 only the first benchmark of each name is measured; enclose the distinguishing text in a group: (...)",
                side.variant.name,
                indexed.len()
            ));
        }
        indexed
    }

    fn common_case(
        &self,
        part: Option<&BenchmarkPart>,
        mut job: BenchmarkJob,
    ) -> (Case, BenchmarkJob) {
        let mut case = job.described_case();
        // A program with `speedwell.hpp` puts its file name before the names of its benchmarks. Labels
        // show the file name of the first side instead, and benchmarks are paired by their names
        // without the file.
        let own_file = format!("{}/", job.source.name);
        if let (Some(first_file), Some(name)) =
            (&self.first_file, case.benchmark.strip_prefix(&own_file))
        {
            let bare_name = name.to_owned();
            case.benchmark = format!("{first_file}/{bare_name}");
            job.label = case.id();
            case.benchmark = bare_name;
        }
        match (part, self.word) {
            (Some(part), Some(word)) => (part.common_case(&case, word), job),
            _ => (case, job),
        }
    }
}

/// If every side has a single case, the cases are compared whatever their names: all get the name
/// `word`, unless they have the same name.
pub(super) fn pair_single_cases(sides: &mut [JobsByCase], word: &str) {
    let are_paired = sides.windows(2).all(|pair| pair[0].keys().eq(pair[1].keys()));
    if are_paired || sides.iter().any(|side| side.len() != 1) {
        return;
    }
    let case = Case::new(word, Vec::new());
    for side in sides {
        let jobs = std::mem::take(side).into_values();
        *side = jobs.map(|(_, job)| (case.id(), (case.clone(), job))).collect();
    }
}

/// Builds one job for all sides.
fn join_jobs(name: &str, sides: &[ComparisonSide], jobs_by_side: &[JobsByCase]) -> BenchmarkJob {
    let (case, job) = jobs_by_side[0][name].clone();
    let differing_name = |(side, jobs): (&ComparisonSide, &JobsByCase)| {
        let own_name = jobs[name].1.own_name();
        let common_name = job.in_suite.as_ref().map_or(name, |in_suite| &in_suite.name);
        (own_name != common_name).then(|| (side.variant.name.clone(), own_name.to_owned()))
    };
    BenchmarkJob {
        label: name.to_owned(),
        names: sides.iter().zip(jobs_by_side).filter_map(differing_name).collect(),
        case: Some(case),
        snippet: None,
        ..job
    }
}

/// Returns a warning about benchmarks that not all sides have. `sides` are the names of the sides.
pub(super) fn unmatched_warning(sides: &[&str], jobs_by_side: &[JobsByCase]) -> Option<String> {
    let mut unmatched = Vec::new();
    for (index, jobs) in jobs_by_side.iter().enumerate() {
        let lacks = |name: &&String| jobs_by_side.iter().any(|other| !other.contains_key(*name));
        let names: Vec<String> =
            jobs.keys().filter(lacks).map(|name| format!("'{name}'")).collect();
        if !names.is_empty() {
            unmatched.push(format!("{} of '{}'", names.join(", "), sides[index]));
        }
    }
    (!unmatched.is_empty()).then(|| {
        format!(
            "these benchmarks are not measured, because not every side has them: {}",
            unmatched.join("; ")
        )
    })
}
