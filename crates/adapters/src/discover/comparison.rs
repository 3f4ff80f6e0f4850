//! Pairs the benchmarks of the sides of a comparison: of several programs
//! ([`find_common_benchmarks`]), or of the values of a parameter or the benchmarks of a file
//! ([`divide_cases`]).
//!
//! This module decides which benchmarks are the same case, not how they are measured.

use super::{
    BenchmarkPart, BenchmarkSelection, DiscoveredBenchmarks, TargetContext, describe_sources,
    shared_word, source_of_program, suggest_parameter,
};
use crate::job::{DeclaredParameter, StartMode};
use crate::{BenchmarkJob, KnownAdapters};
use anyhow::{bail, ensure};
use indexmap::{IndexMap, IndexSet};
use speedwell_config::adapter::SuiteAdapter;
use speedwell_machine::process::check_interrupted;
use speedwell_model::{Case, ParameterValue, Variant};
use std::collections::BTreeMap;
use std::ffi::OsStr;
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
type JobsByCase = IndexMap<String, (Case, BenchmarkJob)>;

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
    let files: IndexSet<_> = sides.iter().map(|side| side.file.file_name()).collect();
    let first_file = files.first().copied().flatten().filter(|_| files.len() > 1);
    let file_name = first_file.map(OsStr::to_string_lossy);
    let mut indexed: Vec<JobsByCase> = Vec::new();
    for side in sides {
        let jobs = describe_side(side, selection, &mut suite)?;
        let names = (file_name.as_deref(), word);
        indexed.push(index_jobs(side, jobs, names, &mut suite.warnings));
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
    let context = TargetContext { cwd: directory, adapters: &KnownAdapters::default() };
    let source = source_of_program(&side.file, side.suite.clone(), context);
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

/// Indexes the jobs by the ids of their cases in the comparison. `names` are the file name of the
/// first side, if the file names of the sides differ, and the replacement for text that the
/// patterns of the sides match.
fn index_jobs(
    side: &ComparisonSide,
    jobs: Vec<BenchmarkJob>,
    names: (Option<&str>, Option<&str>),
    warnings: &mut Vec<String>,
) -> JobsByCase {
    let count = jobs.len();
    let mut indexed = IndexMap::new();
    let cases: Vec<Case> = jobs.iter().map(BenchmarkJob::described_case).collect();
    let part = side.part.as_ref().map(|part| part.narrowed_to(&cases));
    for job in jobs {
        let (case, job) = common_case(part.as_ref(), job, names);
        indexed.entry(case.id()).or_insert((case, job));
    }
    if indexed.len() < count {
        warnings.push(format!(
            "with the pattern of '{}', {count} benchmarks have only {} different names, so only \
             the first benchmark of each name is measured; enclose the distinguishing text in a group: (...)",
            side.variant.name,
            indexed.len()
        ));
    }
    indexed
}

fn common_case(
    part: Option<&BenchmarkPart>,
    mut job: BenchmarkJob,
    (first_file, word): (Option<&str>, Option<&str>),
) -> (Case, BenchmarkJob) {
    let mut case = job.described_case();
    // A program with `speedwell.hpp` puts its file name before the names of its benchmarks. Labels
    // show the file name of the first side instead, and benchmarks are paired by their names
    // without the file.
    let own_file = format!("{}/", job.source.name);
    if let (Some(first_file), Some(name)) = (first_file, case.benchmark.strip_prefix(&own_file)) {
        let bare_name = name.to_owned();
        case.benchmark = format!("{first_file}/{bare_name}");
        job.label = case.id();
        case.benchmark = bare_name;
    }
    match (part, word) {
        (Some(part), Some(word)) => (part.common_case(&case, word), job),
        _ => (case, job),
    }
}

/// If every side has a single case, the cases are compared whatever their names: all get the name
/// `word`, unless they have the same name.
fn pair_single_cases(sides: &mut [JobsByCase], word: &str) {
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
fn unmatched_warning(sides: &[&str], jobs_by_side: &[JobsByCase]) -> Option<String> {
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

/// Source of the variants of a session.
#[derive(Debug, Clone)]
pub enum CaseDivision {
    /// The values of a parameter, the baseline first; without values, all values of the cases.
    Parameter {
        /// Name of the parameter.
        name: String,
        /// The values as text.
        values: Vec<String>,
    },
    /// Benchmarks, each with the name of its variant, the baseline first.
    Parts(Vec<(String, BenchmarkPart)>),
}

/// Keeps only the cases that all variants have: each variant performs its own job
/// ([`BenchmarkJob::sides`]). Returns the names of the variants.
///
/// # Errors
/// Fails if a variant has no case, or the variants have no case in common.
pub fn divide_cases(
    suite: &mut DiscoveredBenchmarks,
    division: &CaseDivision,
) -> anyhow::Result<Vec<String>> {
    if let Some(job) = suite.jobs.iter().find(|job| job.route == StartMode::Parent) {
        bail!(
            "'{}' starts its cases itself, so they cannot be measured as variants",
            job.source.name
        );
    }
    let jobs: Vec<(Case, BenchmarkJob)> = std::mem::take(&mut suite.jobs)
        .into_iter()
        .map(|job| (job.described_case(), job))
        .collect();
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let sides = match division {
        CaseDivision::Parameter { name, values } => sides_by_value(&jobs, name, values)?,
        CaseDivision::Parts(parts) => sides_by_part(&jobs, parts)?,
    };
    let (names, indexed): (Vec<String>, Vec<JobsByCase>) = sides.into_iter().unzip();
    for (id, (case, job)) in indexed.iter().take(1).flatten() {
        let own_job = |(name, side): (&String, &JobsByCase)| {
            side.get(id).map(|(_, job)| (name.clone(), job.clone()))
        };
        let all_jobs = names.iter().zip(&indexed).map(own_job);
        let Some(sides) = all_jobs.collect::<Option<Vec<_>>>() else { continue };
        suite.jobs.push(BenchmarkJob {
            label: id.clone(),
            case: Some(case.clone()),
            sides,
            measured: None,
            ..job.clone()
        });
    }
    let side_names: Vec<&str> = names.iter().map(String::as_str).collect();
    let warning = unmatched_warning(&side_names, &indexed);
    ensure!(!suite.jobs.is_empty(), "nothing to compare: {}", warning.unwrap_or_default());
    suite.warnings.extend(warning);
    Ok(names)
}

/// The jobs of each variant with their common cases.
type NamedSides = Vec<(String, JobsByCase)>;

fn sides_by_value(
    jobs: &[(Case, BenchmarkJob)],
    name: &str,
    values: &[String],
) -> anyhow::Result<NamedSides> {
    let all_values = jobs.iter().flat_map(|(case, _)| case.values.iter().cloned());
    let declared = DeclaredParameter::collect(all_values);
    let Some(parameter) = declared.iter().find(|parameter| parameter.name == name) else {
        let known: Vec<&DeclaredParameter> = declared.iter().collect();
        bail!("no benchmark has a parameter '{name}'{}", suggest_parameter(name, &known));
    };
    let mut chosen: Vec<String> = values.to_vec();
    if chosen.is_empty() {
        chosen.extend(parameter.values.iter().map(ParameterValue::plain));
    }
    if let [only] = &chosen[..] {
        bail!(
            "the value '{only}' of '{name}' alone cannot be compared\n\
             hint: name two values: --by {name}={only},OTHER"
        );
    }
    let side_of = |value: String| {
        let mut side = JobsByCase::new();
        for (case, job) in jobs {
            if case.value(name).is_some_and(|own| own.plain() == value) {
                let mut common = case.clone();
                common.values.retain(|(parameter, _)| parameter != name);
                side.insert(common.id(), (common, job.clone()));
            }
        }
        ensure!(!side.is_empty(), "no case has the value '{value}' of '{name}'");
        Ok((value, side))
    };
    chosen.into_iter().map(side_of).collect()
}

fn sides_by_part(
    jobs: &[(Case, BenchmarkJob)],
    parts: &[(String, BenchmarkPart)],
) -> anyhow::Result<NamedSides> {
    let cases = || jobs.iter().map(|(case, _)| case);
    let all_parts: Vec<Option<&BenchmarkPart>> = parts.iter().map(|(_, part)| Some(part)).collect();
    let word = shared_word(&all_parts).unwrap_or_default();
    let side_of = |(_, part): &(String, BenchmarkPart)| {
        let narrowed = part.narrowed_to(cases());
        let selected = jobs.iter().filter(|(case, _)| narrowed.contains(case));
        let mut side = JobsByCase::new();
        for (case, job) in selected {
            let common = narrowed.common_case(case, &word);
            let earlier = side.insert(common.id(), (common, job.clone()));
            if let Some((_, earlier)) = earlier {
                bail!(
                    "'::{}' matches '{}' and '{}', which would be one case\nhint: name one of them",
                    part.pattern(),
                    earlier.label,
                    job.label
                );
            }
        }
        ensure!(!side.is_empty(), part.explain_no_match(cases()));
        Ok(side)
    };
    let mut sides = parts.iter().map(side_of).collect::<anyhow::Result<Vec<JobsByCase>>>()?;
    pair_single_cases(&mut sides, &word);
    Ok(parts.iter().map(|(name, _)| name.clone()).zip(sides).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BenchmarkSource, SourceKind};
    use std::path::Path;

    /// Returns the names of the variants, then for each case its id and the labels of its jobs.
    fn divide(ids: &[&str], division: &CaseDivision) -> Result<Vec<String>, String> {
        let source = BenchmarkSource::new(
            SourceKind::Fake,
            Path::new("/s.fake"),
            Path::new("/"),
            Path::new("/"),
        );
        let job = |id: &&str| BenchmarkJob {
            case: Some(Case::parse(id).unwrap()),
            ..BenchmarkJob::new(source.clone(), id)
        };
        let mut suite = DiscoveredBenchmarks {
            jobs: ids.iter().map(job).collect(),
            ..DiscoveredBenchmarks::default()
        };
        let names = divide_cases(&mut suite, division).map_err(|error| error.to_string())?;
        let rows = suite.jobs.iter().map(|job| {
            let own = job.sides.iter().map(|(name, _)| job.for_variant(name).label.as_str());
            format!("{}: {}", job.label, own.collect::<Vec<_>>().join(", "))
        });
        Ok(std::iter::once(names.join(" ")).chain(rows).collect())
    }

    fn by(name: &str, values: &[&str]) -> CaseDivision {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        CaseDivision::Parameter { name: name.to_owned(), values }
    }

    fn parts(texts: &[&str]) -> CaseDivision {
        let part = |text: &&str| ((*text).to_owned(), BenchmarkPart::parse(text).unwrap());
        CaseDivision::Parts(texts.iter().map(part).collect())
    }

    #[test]
    fn values_and_benchmarks_become_variants() {
        let values = ["s impl=a n=1", "s impl=b n=1", "s impl=a n=2", "s impl=b n=2"];
        let both = ["s n=1: s impl=a n=1, s impl=b n=1", "s n=2: s impl=a n=2, s impl=b n=2"];
        let all = [&["a b"][..], &both[..]].concat();
        assert_eq!(divide(&values, &by("impl", &[])).unwrap(), all);
        assert_eq!(divide(&values, &parts(&["a", "b"])).unwrap(), all);
        assert_eq!(
            divide(&values, &by("n", &["2", "1"])).unwrap(),
            ["2 1", "s impl=a: s impl=a n=2, s impl=a n=1", "s impl=b: s impl=b n=2, s impl=b n=1"]
        );
        let names = ["f/loop n=1", "f/regex n=1", "f/regex n=2"];
        assert_eq!(
            divide(&names, &parts(&["regex", "loop"])).unwrap(),
            ["regex loop", "f n=1: f/regex n=1, f/loop n=1"]
        );
        assert_eq!(
            divide(&["f/small-sum", "f/total-of-large n=3"], &parts(&["small", "large"])).unwrap(),
            ["small large", "[small|large]: f/small-sum, f/total-of-large n=3"]
        );
    }

    #[test]
    fn a_division_that_leaves_nothing_to_compare_is_explained() {
        let values = ["s impl=a n=1", "s impl=b n=2"];
        for (division, text) in [
            (by("imp", &[]), "did you mean 'impl'?"),
            (by("impl", &["a"]), "the value 'a' of 'impl' alone cannot be compared"),
            (by("impl", &["a", "c"]), "no case has the value 'c' of 'impl'"),
            (by("impl", &[]), "nothing to compare: these benchmarks are not measured"),
            (parts(&["a", "x"]), "'::x' matches nothing; cases: impl=a n=1, impl=b n=2"),
        ] {
            let message = divide(&values, &division).unwrap_err();
            assert!(message.contains(text), "{message}");
        }
        let message = divide(&["f/a1", "f/a2", "f/b"], &parts(&["f/a.", "b"])).unwrap_err();
        assert!(message.contains("'::f/a.' matches 'f/a1' and 'f/a2'"), "{message}");
    }
}
