//! Measures snippets that share one process, where they take turns or run at the same time.
//!
//! Before the first run, the process is started and loads its snippets. Between runs, the workers
//! wait and keep their state. Each measurement is reported as a run of its own, with a note. Start
//! at [`SharedProcesses::perform_run`].

use super::fresh_process::{folded_warning, shared_process_failure, to_observation};
use super::live_harness::{CommandAnswer, HarnessFailure, LiveHarness};
use crate::{BenchmarkJob, ProtocolMessage, RunContext, RunOutcome};
use speedwell_machine::process::{is_interrupt_requested, unix_time_ms};
use speedwell_model::{FailureCause, SampleDivision, Snippet, Variant};
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// Note for readers of the results.
const NOTE: &str = "All snippets were measured in one process, so the results do not show \
                    differences between processes.";

/// Processes that several snippets share, one for each case.
pub struct SharedProcesses<'a> {
    variants: &'a [Variant],
    at_once: bool,
    processes: HashMap<String, SharedProcess>,
}

/// A process with the snippets of one case.
struct SharedProcess {
    harness: Option<LiveHarness>,
    /// Job names in the protocol, by variant.
    jobs: HashMap<String, String>,
    /// Faults of snippets, or of the process as a whole, by variant.
    faults: HashMap<String, HarnessFailure>,
    empty_ns: Option<f64>,
    /// The harness's reply for each loaded snippet, by job name.
    loaded: HashMap<String, ProtocolMessage>,
    /// Results from joint runs that no caller has requested yet, by variant.
    pending: HashMap<String, VecDeque<RunOutcome>>,
}

impl<'a> SharedProcesses<'a> {
    /// Prepares to measure the snippets of these variants; if `at_once`, they run at the same time.
    pub fn new(variants: &'a [Variant], at_once: bool) -> SharedProcesses<'a> {
        SharedProcesses { variants, at_once, processes: HashMap::new() }
    }

    /// Measures the snippet of one variant, or returns its result from an earlier joint run.
    pub fn perform_run(&mut self, job: &BenchmarkJob, setting: &RunContext<'_>) -> RunOutcome {
        let (variants, at_once) = (self.variants, self.at_once);
        let process = self
            .processes
            .entry(job.label.clone())
            .or_insert_with(|| SharedProcess::start(variants, job, setting));
        let name = &setting.variant.name;
        if let Some(ready) = process.pending.get_mut(name).and_then(VecDeque::pop_front) {
            return ready;
        }
        let wanted: Vec<&Variant> =
            if at_once { variants.iter().collect() } else { vec![setting.variant] };
        process.run_variants(&wanted, job, setting);
        let outcome = process.pending.get_mut(name).and_then(VecDeque::pop_front);
        outcome.unwrap_or_default()
    }
}

impl Drop for SharedProcesses<'_> {
    fn drop(&mut self) {
        for harness in self.processes.values_mut().filter_map(|process| process.harness.take()) {
            // All runs have been reported; this only executes 'done' and cleans up.
            let _ = harness.shut_down();
        }
    }
}

impl SharedProcess {
    fn start(variants: &[Variant], job: &BenchmarkJob, setting: &RunContext<'_>) -> SharedProcess {
        let numbered = variants.iter().enumerate();
        let mut process = SharedProcess {
            harness: None,
            jobs: numbered
                .map(|(index, variant)| (variant.name.clone(), format!("code{index}")))
                .collect(),
            faults: HashMap::new(),
            empty_ns: None,
            loaded: HashMap::new(),
            pending: HashMap::new(),
        };
        let first = variants.iter().find_map(|variant| job.snippet_under(variant));
        let (program, folder) = (&setting.program, &job.source.directory);
        let started = first.ok_or_else(silent_failure).and_then(|snippet| {
            LiveHarness::open(&snippet, program, setting.variant, folder, setting.pin)
        });
        match started {
            Ok((harness, _)) => {
                process.harness = Some(harness);
                for variant in variants {
                    process.load_variant(variant, job);
                }
            }
            Err(failure) => process.fail_all(variants, &failure),
        }
        process
    }

    fn load_variant(&mut self, variant: &Variant, job: &BenchmarkJob) {
        let Some(snippet) = job.snippet_under(variant) else {
            return;
        };
        let name = self.jobs[&variant.name].clone();
        let Err(failure) = self.try_load(&name, &snippet, job.worker_count()) else {
            return;
        };
        self.faults.insert(variant.name.clone(), failure);
    }

    fn try_load(
        &mut self,
        job: &str,
        snippet: &Snippet,
        workers: u32,
    ) -> Result<(), HarnessFailure> {
        let harness = self.harness.as_mut().ok_or_else(silent_failure)?;
        let answer = harness.load_snippet(job, snippet)?.check_fault(job)?;
        let loaded = answer.first("loaded").cloned();
        self.loaded.extend(loaded.map(|loaded| (job.to_owned(), loaded)));
        if self.empty_ns.is_none() {
            self.empty_ns = harness.measure_empty(job)?;
        }
        harness.set_workers(job, workers)?.check_fault(job).map(drop)
    }

    /// Marks the snippets of these variants as failed, because their process has ended.
    fn fail_all(&mut self, variants: &[Variant], failure: &HarnessFailure) {
        self.harness = None;
        for variant in variants {
            self.faults.entry(variant.name.clone()).or_insert_with(|| failure.clone());
        }
    }

    fn run_variants(&mut self, wanted: &[&Variant], job: &BenchmarkJob, setting: &RunContext<'_>) {
        let (started_unix_ms, begin) = (unix_time_ms(), Instant::now());
        let runnable = wanted.iter().filter(|variant| !self.faults.contains_key(&variant.name));
        let jobs: Vec<String> = runnable.map(|variant| self.jobs[&variant.name].clone()).collect();
        let answer = match (&mut self.harness, jobs.is_empty()) {
            (Some(harness), false) => {
                let expected = expected_duration(&setting.samples, setting.limit);
                Some(harness.run_jobs(&jobs, &setting.samples, false, expected, &mut |_| {}))
            }
            _ => None,
        };
        let answer = match answer {
            Some(Ok(answer)) => answer,
            Some(Err(failure)) => {
                let variants: Vec<Variant> =
                    wanted.iter().map(|variant| (*variant).clone()).collect();
                self.fail_all(&variants, &failure);
                CommandAnswer::default()
            }
            None => CommandAnswer::default(),
        };
        for variant in wanted {
            let mut attempt = self.build_outcome(variant, &answer, job, setting);
            attempt.started_unix_ms = started_unix_ms;
            attempt.wall_ns = begin.elapsed().as_nanos() as u64;
            attempt.interrupted = is_interrupt_requested();
            self.pending.entry(variant.name.clone()).or_default().push_back(attempt);
        }
    }

    fn build_outcome(
        &mut self,
        variant: &Variant,
        answer: &CommandAnswer,
        job: &BenchmarkJob,
        setting: &RunContext<'_>,
    ) -> RunOutcome {
        let job_name = &self.jobs[&variant.name];
        let result = answer.timing(job_name, &setting.samples).map(|timing| {
            let mut result = to_observation(&timing, job);
            result.notes.push(NOTE.to_owned());
            let loaded = self.loaded.get(job_name);
            result.notes.extend(folded_warning(&timing, self.empty_ns, loaded));
            result
        });
        let reported = answer.find_fault(job_name).map(HarnessFailure::new);
        let failure = self
            .faults
            .get(&variant.name)
            .cloned()
            .or(reported)
            .or_else(|| result.is_none().then(silent_failure));
        let failure = failure.map(|failure| {
            let setting = RunContext { variant, ..setting.clone() };
            shared_process_failure(&failure, job, &setting)
        });
        RunOutcome { observations: result.into_iter().collect(), failure, ..RunOutcome::default() }
    }
}

/// Returns how long a run is expected to take, at most `timeout`. If an iteration is longer than a
/// window, the run takes longer; if the number of iterations is fixed, returns `timeout`.
pub fn expected_duration(samples: &SampleDivision, timeout: Duration) -> Duration {
    samples.planned_time().map_or(timeout, |time| time.min(timeout))
}

fn silent_failure() -> HarnessFailure {
    HarnessFailure::new(FailureCause::Silent)
}
