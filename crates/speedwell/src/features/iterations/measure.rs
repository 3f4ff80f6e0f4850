//! Searches for the numbers of iterations that make the samples of benchmark files long and steady
//! enough.
//!
//! This module first measures each file in single runs, until its samples are long enough. Several
//! runs then show how much the samples vary. `analysis::iterations` decides when samples are long
//! enough and which number to try next. Start at [`search_iterations`].

use crate::run::execute_session;
use anyhow::{bail, ensure};
use indexmap::IndexMap;
use speedwell_adapters::plan::SessionPlan;
use speedwell_analysis::iterations::{CaseSamples, IterationLevel, IterationSearch};
use speedwell_engine::execution::SessionEnd;
use speedwell_engine::{
    EventListener, MeasureRequest, PreparedPlan, SessionRequest, check_processors, emit_warning,
    warn_if_busy,
};
use speedwell_model::{Case, Session, SessionEvent, StepFailure};
use speedwell_store::Store;

/// Options for a search.
#[derive(Debug, Clone)]
pub struct IterationsRequest {
    /// The files and how to measure them.
    pub measuring: MeasureRequest,
    /// Number of runs per case, variant and number of iterations. The variation is computed from
    /// these runs.
    pub runs: u32,
    /// The parameter that counts the iterations.
    pub parameter: String,
    /// Initial state of each file's search.
    pub search: IterationSearch,
}

/// A benchmark file with its search.
#[derive(Debug, Clone)]
pub struct FileSearch {
    /// Name of the file.
    pub name: String,
    /// State of the search for this file.
    pub search: IterationSearch,
    /// Whether the file cannot be measured.
    pub failed: bool,
    /// Whether the samples of the file are long enough.
    is_long: bool,
}

/// Result of a search.
#[derive(Debug)]
pub struct IterationsResult {
    /// The files that have the parameter.
    pub files: Vec<FileSearch>,
    /// All failures.
    pub failures: Vec<StepFailure>,
    /// How the search ended.
    pub ended: SessionEnd,
}

/// Measures files with increasing numbers of iterations until every search has ended. Stores
/// nothing.
///
/// # Errors
/// Fails if a target is unknown or no file has the parameter.
pub fn search_iterations(
    request: &IterationsRequest,
    listener: &mut EventListener<'_>,
) -> anyhow::Result<IterationsResult> {
    let mut rounds = SearchRounds { request, failures: Vec::new(), listener };
    let mut files = rounds.find_files()?;
    let ended = rounds.run_rounds(&mut files)?;
    Ok(IterationsResult { files, failures: rounds.failures, ended })
}

/// Measures files until every search has ended.
struct SearchRounds<'a, 'l> {
    request: &'a IterationsRequest,
    failures: Vec<StepFailure>,
    listener: &'a mut EventListener<'l>,
}

impl SearchRounds<'_, '_> {
    /// Returns the files that have the parameter, each at the start of its search.
    fn find_files(&mut self) -> anyhow::Result<Vec<FileSearch>> {
        let plans = PreparedPlan::read(&self.request.measuring, self.listener)?;
        check_processors(&plans.plan)?;
        ensure!(
            plans.plan.design.experiment.is_none(),
            "an experiment defines the length of its runs itself\nhint: see 'plan' in its \
             definition file"
        );
        let mut files: IndexMap<String, Vec<Case>> = IndexMap::new();
        for job in &plans.plan.jobs {
            let case = job.case.clone().or_else(|| job.label_as_case());
            files.entry(job.source.name.clone()).or_default().extend(case);
        }
        let has_parameter = |cases: &[Case]| {
            // A file without a list of its cases may have the parameter.
            cases.is_empty()
                || cases.iter().any(|case| case.value(&self.request.parameter).is_some())
        };
        let messages: Vec<String> = files
            .iter()
            .filter(|(_, cases)| !has_parameter(cases))
            .map(|(name, cases)| self.missing_parameter_message(name, cases))
            .collect();
        files.retain(|_, cases| has_parameter(cases));
        if files.is_empty() && !messages.is_empty() {
            bail!(
                "{}\nhint: --parameter names the parameter that counts iterations; if the harness \
                 counts them (C++, Python), 'run --time' sets the length of a sample",
                messages.join("; ")
            );
        }
        for sentence in messages {
            emit_warning(self.listener, &format!("{sentence}; it is left out."))?;
        }
        for warning in &plans.suite.warnings {
            emit_warning(self.listener, warning)?;
        }
        warn_if_busy(self.listener)?;
        self.failures = plans.suite.failures;
        let file = |name| FileSearch {
            name,
            search: self.request.search.clone(),
            is_long: false,
            failed: false,
        };
        Ok(files.into_keys().map(file).collect())
    }

    fn missing_parameter_message(&self, file: &str, cases: &[Case]) -> String {
        let mut names: Vec<&str> =
            cases.iter().flat_map(|case| &case.values).map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let reason = if names.is_empty() {
            "has no parameters".to_owned()
        } else {
            format!("has no parameter '{}', only {}", self.request.parameter, names.join(", "))
        };
        format!("'{file}' {reason}")
    }

    /// Measures round after round until every search has ended.
    fn run_rounds(&mut self, files: &mut [FileSearch]) -> anyhow::Result<SessionEnd> {
        loop {
            let is_unfinished =
                |file: &&mut FileSearch| !file.failed && file.search.next_number().is_some();
            let mut unfinished: Vec<&mut FileSearch> =
                files.iter_mut().filter(is_unfinished).collect();
            // Files with short samples come first, because a single run tells whether samples are
            // long enough.
            let has_short_samples = unfinished.iter().any(|file| !file.is_long);
            unfinished.retain(|file| file.is_long != has_short_samples);
            if unfinished.is_empty() {
                return Ok(SessionEnd::Complete);
            }
            let runs = if has_short_samples { 1 } else { self.request.runs };
            let (plan, session, session_end) = self.measure_round(&unfinished, runs)?;
            if session_end != SessionEnd::Complete {
                return Ok(session_end);
            }
            let mut levels = group_by_file(&plan, &session, &unfinished, &self.request.parameter);
            for file in unfinished {
                match levels.swap_remove(&file.name) {
                    None => file.failed = true,
                    Some(level) if has_short_samples => match level.shortest_ns {
                        Some(shortest_ns) if !file.search.is_long_enough(level.shortest_ns) => {
                            file.search.skip_too_small(shortest_ns);
                        }
                        _ => file.is_long = true,
                    },
                    Some(level) => {
                        file.search.record_level(level);
                    }
                }
            }
        }
    }

    /// Measures the files, each with its own number of iterations.
    fn measure_round(
        &mut self,
        unfinished: &[&mut FileSearch],
        runs: u32,
    ) -> anyhow::Result<(SessionPlan, Session, SessionEnd)> {
        let parameter = &self.request.parameter;
        let values_of_file = |file: &&mut FileSearch| {
            let n = file.search.next_number().unwrap_or_default();
            (file.name.clone(), (parameter.clone(), n.to_string()))
        };
        let values_of_file: Vec<_> = unfinished.iter().map(values_of_file).collect();
        if runs > 1 {
            let settings = |(name, (parameter, n)): &(_, (_, _))| format!("{name} {parameter}={n}");
            let settings: Vec<String> = values_of_file.iter().map(settings).collect();
            let note = format!("measuring {}", settings.join(", "));
            self.listener.observe(&SessionEvent::Note(&note))?;
        }
        let mut request = self.request.measuring.clone();
        request.plan.sampling.runs = Some(runs);
        request.selection.of_benchmarks.extend(values_of_file);
        let mut plans = PreparedPlan::read(&request, self.listener)?;
        let is_unfinished = |name: &str| unfinished.iter().any(|file| file.name == name);
        plans.plan.jobs.retain(|job| is_unfinished(&job.source.name));
        let failures = std::mem::take(&mut plans.suite.failures).into_iter();
        self.failures.extend(failures.filter(|failure| is_unfinished(&failure.benchmark)));
        let plan = plans.plan.clone();
        let (session, mut store) = (SessionRequest::default(), Store::in_memory()?);
        let measured = execute_session(plans, &session, &mut store, self.listener)?;
        let session = measured.session;
        self.failures.extend(session.failures.iter().cloned());
        Ok((plan, session, measured.ended?))
    }
}

/// Returns the results by file. Omits files in which a run failed.
fn group_by_file(
    plan: &SessionPlan,
    session: &Session,
    unfinished: &[&mut FileSearch],
    parameter: &str,
) -> IndexMap<String, IterationLevel> {
    let slots = plan.slots();
    let file =
        |slot: u32| slots.get(slot as usize).map(|slot| plan.jobs[slot.job].source.name.as_str());
    let failed: Vec<&str> =
        session.failures.iter().filter_map(|failure| file(failure.slot?)).collect();
    let mut files: IndexMap<String, IndexMap<String, CaseSamples>> = IndexMap::new();
    let metric = session.metrics.first().map(|metric| metric.name.as_str());
    for run in &session.runs {
        let Some(name) = file(run.slot).filter(|name| !failed.contains(name)) else {
            continue;
        };
        let samples = run.samples.iter().filter(|sample| Some(&*sample.metric) == metric);
        let (mut sum, mut count) = (0.0, 0);
        let results = files
            .entry(name.to_owned())
            .or_default()
            .entry(series_name(&run.case, &run.variant, plan, parameter))
            .or_default();
        for sample in samples {
            (sum, count) = (sum + sample.value, count + 1);
            results.lengths_ns.extend(sample.elapsed_ns);
        }
        if count > 0 {
            results.rates.push(sum / f64::from(count));
        }
    }
    let level = |(name, cases): (String, IndexMap<String, CaseSamples>)| {
        let n = unfinished.iter().find(|file| file.name == name)?.search.next_number()?;
        Some((name, IterationLevel::new(n, cases)))
    };
    files.into_iter().filter_map(level).collect()
}

/// Returns the name of a case without the number of iterations. Appends the variant if there are
/// several.
fn series_name(case: &Case, variant: &str, plan: &SessionPlan, parameter: &str) -> String {
    let mut case = case.clone();
    case.values.retain(|(name, _)| name != parameter);
    match plan.variants.len() {
        1 => case.id(),
        _ => format!("{} [{variant}]", case.id()),
    }
}
