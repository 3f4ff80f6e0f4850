//! Asks every file for its cases, and checks the user's values against declared parameters.

use super::Selection;
use crate::{Description, Job, Kind, NamePatterns, Parameter, Request, Source, Tell};
use anyhow::{Context as _, bail};
use speedwell_model::quote;
use speedwell_model::{Case, Cause, DefinitionFile, Event, Failure, Step, Value, Variant, nearest};
use speedwell_process::{begin_activity, check_interrupted, interrupted};
use speedwell_suite::Definition;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Time limit for describing a file.
const LIMIT: Duration = Duration::from_secs(15);

/// Parameters that benchmarks read without declaring them.
const EXTRA: [&str; 2] = ["benchmarker", "CPUSET"];

/// All cases of all selected benchmarks.
#[derive(Debug, Clone, Default)]
pub struct Suite {
    /// Cases in the order of targets and files.
    pub jobs: Vec<Job>,
    /// Files that could not be described, with the reason.
    pub failures: Vec<Failure>,
    /// Warnings for the user, as whole sentences.
    pub warnings: Vec<String>,
    /// Number of benchmark files considered.
    pub files: usize,
    /// Versions of the baseline's program and its components, if files reported them.
    pub versions: BTreeMap<String, String>,
    /// Versions of other frameworks whose benchmarks are included, by name.
    pub suites: BTreeMap<String, String>,
}

/// Describes the benchmarks of `sources` under `baseline`. `tell` receives build notices and (done,
/// total).
///
/// # Errors
/// No benchmark is left after filtering, or no benchmark can take a value.
pub fn read(
    sources: Vec<Source>,
    selection: &Selection,
    baseline: &Variant,
    tell: Tell<'_>,
) -> anyhow::Result<Suite> {
    let mut wanted = sources;
    // A file with several benchmarks must be described to learn their names.
    wanted.retain(|source| source.kind.holds_several() || selection.wants(&source.name));
    if wanted.is_empty() {
        bail!("no benchmarks found\nhint: --filter and --exclude are patterns of 'group/name'");
    }
    let described = describe(&wanted, selection, baseline, tell);
    check_interrupted()?;
    check_values(&described.iter().collect::<Vec<_>>(), &selection.sets)?;
    for (path, sets) in &selection.of_files {
        let own = wanted.iter().zip(&described);
        let own = own.filter(|(source, _)| source.file.starts_with(path));
        check_values(
            &own.map(|(_, description)| description).collect::<Vec<_>>(),
            sets,
        )?;
    }
    for (source, description) in wanted.iter().zip(&described) {
        let own: Vec<_> = selection.of_benchmark(&source.name).cloned().collect();
        check_values(&[description], &own).with_context(|| format!("in '{}'", source.name))?;
    }
    let mut suite = Suite {
        files: wanted.len(),
        ..Suite::default()
    };
    let mut unwanted = BTreeSet::new();
    for description in described {
        for job in description.jobs {
            let name = job.case.as_ref().map(|case| case.benchmark.as_str());
            let name = name.unwrap_or(&job.source.name);
            if !job.source.kind.holds_several() || selection.wants(name) {
                suite.jobs.push(job);
            } else {
                unwanted.insert(format!("'{name}'"));
            }
        }
        suite.failures.extend(description.failure);
        suite.versions.extend(description.versions);
        suite.suites.extend(description.suites);
        suite.warnings.extend(description.warnings);
    }
    if suite.jobs.is_empty() && suite.failures.is_empty() && !unwanted.is_empty() {
        let names: Vec<String> = unwanted.into_iter().collect();
        bail!(
            "--filter and --exclude leave no benchmark over\nhint: there are {}",
            names.join(", ")
        );
    }
    refuse_twins(&suite.jobs)?;
    Ok(suite)
}

/// Rejects two files with a benchmark of the same name: their results would be merged.
fn refuse_twins(jobs: &[Job]) -> anyhow::Result<()> {
    let mut known: HashMap<&str, &Job> = HashMap::new();
    for job in jobs.iter().filter(|job| job.source.kind.holds_several()) {
        if let Some(twin) = known.insert(&job.label, job)
            && twin.source.file != job.source.file
        {
            bail!(
                "'{}' and '{}' both have a benchmark '{}'\nhint: 'speedwell compare' measures them \
                 against each other",
                twin.source.file.display(),
                job.source.file.display(),
                job.label
            );
        }
    }
    Ok(())
}

/// Describes all files, several at a time since nothing is measured.
pub fn describe(
    wanted: &[Source],
    selection: &Selection,
    baseline: &Variant,
    tell: Tell<'_>,
) -> Vec<Description> {
    let next = AtomicUsize::new(0);
    let done = AtomicUsize::new(0);
    let places: Vec<Mutex<Description>> = wanted.iter().map(|_| Mutex::default()).collect();
    let workers = std::thread::available_parallelism().map_or(1, |count| count.get());
    std::thread::scope(|scope| {
        for _ in 0..workers.min(wanted.len()) {
            scope.spawn(|| {
                while let Some(source) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if interrupted() {
                        break;
                    }
                    let description = describe_one(source, selection, baseline, tell);
                    let at = wanted.iter().position(|known| std::ptr::eq(known, source));
                    if let Some(Ok(mut place)) = at.map(|at| places[at].lock()) {
                        *place = description;
                    }
                    let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                    let all = wanted.len();
                    tell(&Event::Described { done, all });
                }
            });
        }
    });
    places
        .into_iter()
        .map(|place| place.into_inner().unwrap_or_default())
        .collect()
}

fn describe_one(
    source: &Source,
    selection: &Selection,
    baseline: &Variant,
    tell: Tell<'_>,
) -> Description {
    let _activity = begin_activity(format!("listing {}", source.name));
    let harness = crate::for_kind(source.kind);
    let request = Request {
        program: crate::program_of(source, baseline),
        variant: baseline.clone(),
        sets: selection.sets_of(&source.name, &source.file),
        names: NamePatterns {
            filters: selection.filters.clone(),
            excludes: selection.excludes.clone(),
        },
        trial: selection.trial,
        usual_tool: selection.usual_tool,
        limit: LIMIT,
    };
    // A failed build is reported when the cases are described.
    let _ = crate::build(source, baseline, tell);
    // Benchmark files are taken from the checkout, but a program may exist only where its revision
    // was built.
    let mut description = if source.is_program() {
        let mut described = harness.describe(&source.under(baseline), &request);
        let own = |job: &mut Job| job.source = source.clone();
        described.jobs.iter_mut().for_each(own);
        described
    } else {
        harness.describe(source, &request)
    };
    if let Some(reason) = unfit_name(&description) {
        description.jobs.clear();
        description.parameters.clear();
        description.failure = Some(Failure {
            step: Step::Describe,
            benchmark: source.name.clone(),
            case: None,
            variant: None,
            slot: None,
            cause: Cause::Invalid { reason },
            stderr_tail: String::new(),
            replay: format!(
                "speedwell run {} --list",
                quote(&source.file.to_string_lossy())
            ),
        });
    }
    description
}

/// Explains what is wrong with a parameter name, and how to fix it.
fn unfit_name(description: &Description) -> Option<String> {
    let cases = description.jobs.iter().filter_map(|job| job.case.as_ref());
    let own = cases.flat_map(|case| case.values.iter().map(|(name, _)| name.as_str()));
    let declared = description
        .parameters
        .iter()
        .map(|parameter| parameter.name.as_str());
    own.chain(declared).find_map(|name| {
        let reason = Case::refuses_name(name)?;
        let shown = name.escape_debug();
        Some(format!(
            "has a parameter '{shown}': {reason}; rename it where it is declared"
        ))
    })
}

/// Rejects values that would silently be misinterpreted: an undeclared name, or text where numbers
/// are declared (Node.js core measures NaN iterations then).
fn check_values(described: &[&Description], sets: &[(String, String)]) -> anyhow::Result<()> {
    let whole_files = described
        .iter()
        .flat_map(|d| &d.jobs)
        .any(|job| job.route == crate::Route::Parent && job.source.kind != Kind::Fake);
    let declared: Vec<&Parameter> = described.iter().flat_map(|d| &d.parameters).collect();
    for (name, value) in sets {
        let of_name: Vec<&&Parameter> = declared.iter().filter(|p| p.name == *name).collect();
        if of_name.is_empty() && !EXTRA.contains(&name.as_str()) && !whole_files {
            if let Some(failure) = described.iter().find_map(|d| d.failure.as_ref()) {
                bail!("'{}' {}", failure.benchmark, failure.cause);
            }
            bail!(
                "no selected benchmark has a parameter '{name}'{}",
                hint(name, &declared)
            );
        }
        let numeric = |p: &&&Parameter| p.values.iter().all(|v| matches!(v, Value::Number(_)));
        let wrong = !of_name.is_empty() && of_name.iter().all(numeric);
        if wrong && Value::parse(value, speedwell_model::ValueKind::Number).is_none() {
            bail!("the parameter '{name}' is a number, but '{value}' is not one");
        }
    }
    Ok(())
}

fn hint(name: &str, declared: &[&Parameter]) -> String {
    let mut known: Vec<String> = declared.iter().map(|p| p.name.clone()).collect();
    known.sort();
    known.dedup();
    match nearest(name, &known) {
        Some(near) => format!("\nhint: did you mean '{near}'?"),
        None if known.is_empty() => String::new(),
        None => format!("\nhint: their parameters are {}", known.join(", ")),
    }
}

impl Suite {
    /// Definition files of the benchmarks, as they were read.
    pub fn definitions(&self) -> Vec<DefinitionFile> {
        let mut found: Vec<DefinitionFile> = Vec::new();
        for job in self.jobs.iter().filter(|job| job.source.kind == Kind::Load) {
            let definition = job.source.definition.as_deref();
            let definition = definition.map(Definition::source);
            if let Some(definition) = definition.filter(|new| !found.contains(new)) {
                found.push(definition.clone());
            }
        }
        found
    }

    /// Failures other than skipped benchmarks.
    pub fn broken(&self) -> impl Iterator<Item = &Failure> {
        self.failures
            .iter()
            .filter(|failure| !matches!(failure.cause, Cause::Skipped { .. }))
    }
}
