//! Counts the instructions of a case with valgrind's callgrind ([`perform_counted`]).
//!
//! Equal work at equal addresses has the same count. The count ignores waiting, the kernel, caches
//! and branches. Harnesses in C, C++ and Rust mark the counted section with client requests
//! (`crates/adapters/languages/c/requests.h`). This module sets every environment variable of a
//! counted process, so that all runs have the same environment.

use crate::failure::{HarnessFailure, converse};
use crate::job::{RunContext, SourceKind};
use crate::wire::EventLog;
use crate::{RunOutcome, RunResult};
use speedwell_machine::process::{ProcessSpec, ScratchFolder, resolve_program};
use speedwell_model::{
    FailureCause, InstructionCounting, Metric, MetricDirection, SampleDivision, SampleLength,
    SnippetLanguage,
};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Checks whether instructions of this kind of benchmark can be counted.
///
/// # Errors
/// Returns the reason if instructions cannot be counted.
pub fn check_countable(kind: SourceKind) -> Result<(), &'static str> {
    use SnippetLanguage::*;
    match kind {
        SourceKind::Cpp | SourceKind::Program | SourceKind::Snippet(C | Cpp | Rust) => Ok(()),
        SourceKind::Python | SourceKind::Snippet(Python) => {
            Err("the counts would include its interpreter and its harness, which reads the clock")
        }
        SourceKind::Snippet(Go) => {
            Err("its runtime does not run under valgrind (valgrind 3.19 crashes)")
        }
        SourceKind::Snippet(Java | Erlang | Elixir | Node)
        | SourceKind::Node
        | SourceKind::NodeCore => Err(
            "its virtual machine compiles at run time, and how much it compiles depends on timing",
        ),
        SourceKind::Snippet(Sh) => Err("a shell starts other processes, which are not counted"),
        SourceKind::Suite => Err("the program chooses its number of iterations by the clock"),
        SourceKind::Load | SourceKind::Experiment => {
            Err("its work depends on when requests arrive")
        }
        SourceKind::Fake => Err("its numbers are made up, not measured"),
    }
}

/// The result that a harness reported for a case, if any, and the fault in its events, if any.
pub(super) type HarnessObservation = (Option<RunResult>, Option<FailureCause>);

pub(super) struct CountingInputs<'a> {
    pub setting: &'a RunContext<'a>,
    pub counting: &'a InstructionCounting,
    /// Process of the harness.
    pub spec: &'a ProcessSpec,
    /// Command with which a user repeats the process by hand.
    pub plain: &'a ProcessSpec,
    /// Builds the commands for the harness.
    pub commands: &'a dyn Fn(&SampleDivision) -> EventLog,
    /// Extracts the result of the case, and any fault, from the events of the harness.
    pub observe: &'a dyn Fn(&EventLog) -> HarnessObservation,
}

/// Performs one case and counts its instructions; if requested, also measures its times.
pub(super) fn perform_counted(inputs: &CountingInputs<'_>) -> Result<RunOutcome, HarnessFailure> {
    let refusal = |reason: &str| HarnessFailure::invalid(reason).with_replay(inputs.plain);
    let SampleLength::Iterations(iterations) = inputs.setting.samples.length else {
        return Err(refusal("counting instructions requires a fixed number of iterations"));
    };
    let unprepared = |error: anyhow::Error| refusal(&format!("{error:#}"));
    let folder = ScratchFolder::new().map_err(unprepared)?;
    let spec = wrap_with_callgrind(inputs, folder.folder()).map_err(unprepared)?;
    let length = SampleLength::Iterations(iterations);
    let samples = SampleDivision { count: 1, length, warmup_ns: 0 };
    let mut attempt = perform_process(inputs, &spec, &samples)?;
    let read_counts =
        |name: &str| EventCounts::parse(&fs::read_to_string(folder.folder().join(name)).ok()?);
    // `counts.1` has the counts of an empty section. These counts are the cost of counting itself,
    // and are subtracted.
    let counts = read_counts("counts.2").zip(read_counts("counts.1"));
    match counts {
        Some((counted, empty)) => {
            let counts = counted.subtract(&empty);
            for result in &mut attempt.observations {
                counts.replace_metrics(result, iterations, inputs.counting);
            }
        }
        None if attempt.failure.is_some() || attempt.interrupted => attempt.observations.clear(),
        None => {
            return Err(refusal(
                "callgrind counted nothing: the program does not mark the measured section",
            ));
        }
    }
    // Resource usage under valgrind is meaningless for the benchmark.
    attempt.usage = None;
    if inputs.counting.also_timed && attempt.failure.is_none() && !attempt.interrupted {
        return add_times(inputs, iterations, attempt);
    }
    Ok(attempt)
}

/// Performs the case in the process of `spec`.
fn perform_process(
    inputs: &CountingInputs<'_>,
    spec: &ProcessSpec,
    samples: &SampleDivision,
) -> Result<RunOutcome, HarnessFailure> {
    let mut events = (inputs.commands)(samples);
    let outcome = converse(spec, spec, &mut events)?;
    let (result, fault) = (inputs.observe)(&events);
    Ok(RunOutcome::from_process(inputs.plain, &outcome, result, fault, inputs.setting))
}

/// Measures the times of the same case and adds them to its counts.
fn add_times(
    inputs: &CountingInputs<'_>,
    iterations: u64,
    mut counted: RunOutcome,
) -> Result<RunOutcome, HarnessFailure> {
    let length = SampleLength::Iterations(iterations);
    let samples = SampleDivision { count: TIMED_SAMPLES, length, warmup_ns: WARMUP_NS };
    let mut timed = perform_process(inputs, inputs.spec, &samples)?;
    if timed.failure.is_some() || timed.interrupted {
        timed.observations.clear();
        return Ok(timed);
    }
    let is_time = |name: &str| Metric::TIMES.contains(&name);
    for (counted, timed) in counted.observations.iter_mut().zip(timed.observations) {
        let (samples, metrics) = (timed.samples.into_iter(), timed.metrics.into_iter());
        (counted.samples).extend(samples.filter(|sample| is_time(&sample.metric)));
        (counted.metrics).extend(metrics.filter(|metric| is_time(&metric.name)));
    }
    Ok(counted)
}

/// Number of timed samples; each has as many iterations as the counted sample.
const TIMED_SAMPLES: u32 = 10;
/// Warm-up time before the timed samples.
const WARMUP_NS: u64 = 10_000_000;

/// Simulated caches. By default, callgrind simulates the caches of the machine, so counts would
/// depend on the machine. These sizes are fixed instead.
const CACHE_MODEL: [&str; 4] =
    ["--cache-sim=yes", "--I1=32768,8,64", "--D1=32768,8,64", "--LL=8388608,16,64"];

/// Environment of every counted process, besides the variables of its variant.
const ENVIRONMENT: [(&str, &str); 3] =
    [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "/"), ("LANG", "C")];

/// Wraps the harness process in callgrind. The program is started through a link with a path of
/// constant length: the path is on the stack, and its length shifts addresses.
fn wrap_with_callgrind(inputs: &CountingInputs<'_>, folder: &Path) -> anyhow::Result<ProcessSpec> {
    let link = folder.join("program");
    symlink(resolve_program(&inputs.spec.program)?, &link)?;
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let mut arguments = vec![
        "--tool=callgrind".to_owned(),
        format!("--callgrind-out-file={}", text(&folder.join("counts"))),
        "--collect-atstart=no".to_owned(),
        "--quiet".to_owned(),
    ];
    if inputs.counting.cache_model {
        arguments.extend(CACHE_MODEL.map(str::to_owned));
    }
    arguments.push(text(&link));
    arguments.extend(inputs.spec.arguments.iter().cloned());
    let fixed = ENVIRONMENT.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let declared = inputs.spec.environment.iter().cloned();
    Ok(ProcessSpec {
        program: PathBuf::from("valgrind"),
        arguments,
        environment: fixed.into_iter().chain(declared).collect(),
        is_fixed: true,
        ..inputs.spec.clone()
    })
}

/// Event counts of callgrind by their names (Callgrind Format Specification).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct EventCounts(BTreeMap<String, u64>);

impl EventCounts {
    /// Parses an output file. The line `events:` has the names, and the line `totals:` has the
    /// sums. Trailing sums of zero are omitted.
    fn parse(text: &str) -> Option<EventCounts> {
        let line = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
        let names = line("events:")?.split_whitespace();
        let mut sums = line("totals:")?.split_whitespace().map(str::parse);
        let counts = names.map(|name| Some((name.to_owned(), sums.next().unwrap_or(Ok(0)).ok()?)));
        counts.collect::<Option<_>>().map(EventCounts)
    }

    fn count_of(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    fn subtract(mut self, other: &EventCounts) -> EventCounts {
        for (name, count) in &mut self.0 {
            *count = count.saturating_sub(other.count_of(name));
        }
        self
    }

    /// Estimates cycles. An access costs 1 cycle if the first-level cache answers it, 5 cycles if
    /// the last-level cache does, and 35 cycles if the memory does. These are the weights of
    /// cachegrind's authors, popularized by iai.
    fn cycles_estimate(&self) -> u64 {
        let sum = |names: [&str; 3]| names.iter().map(|name| self.count_of(name)).sum::<u64>();
        let accesses = sum(["Ir", "Dr", "Dw"]);
        let missed = sum(["I1mr", "D1mr", "D1mw"]);
        let memory = sum(["ILmr", "DLmr", "DLmw"]);
        accesses.saturating_sub(missed) + 5 * missed.saturating_sub(memory) + 35 * memory
    }

    /// Replaces all metrics with counts, because times under valgrind are meaningless.
    fn replace_metrics(
        &self,
        result: &mut RunResult,
        iterations: u64,
        counting: &InstructionCounting,
    ) {
        result.samples.clear();
        result.metrics.clear();
        let per_iteration = |count: u64| count as f64 / iterations as f64;
        let metric = |name| Metric::new(name, "1", MetricDirection::Lower);
        result.add_value(metric(Metric::INSTRUCTIONS), per_iteration(self.count_of("Ir")));
        if counting.cache_model {
            let cycles = per_iteration(self.cycles_estimate());
            result.add_value(metric(Metric::CYCLES_ESTIMATE), cycles);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of callgrind 3.19, which omits trailing events that did not occur.
    const PART: &str = "# callgrind format\nversion: 1\ncreator: callgrind-3.19.0\npart: 2\n\n\
        events: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw\nsummary: 6031 1006 1012\n\nfn=(1) main\n3 6031 1006 1012\n\n\
        totals: 6031 1006 1012\n";

    #[test]
    fn the_counts_of_an_empty_part_are_subtracted() {
        let part = EventCounts::parse(PART).unwrap();
        assert_eq!(
            (part.count_of("Ir"), part.count_of("Dw"), part.count_of("DLmw")),
            (6031, 1012, 0)
        );
        let empty = EventCounts::parse("events: Ir\ntotals: 20\n").unwrap();
        let rest = part.subtract(&empty);
        assert_eq!((rest.count_of("Ir"), rest.count_of("Dr")), (6011, 1006));
        assert_eq!(EventCounts::parse("events: Ir\n"), None);
        assert_eq!(EventCounts::parse("events: Ir\ntotals: many\n"), None);
    }

    #[test]
    fn cycles_are_estimated_from_the_hits_of_each_cache_level() {
        let text =
            "events: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw\ntotals: 1000 300 200 10 20 30 1 2 3\n";
        // 1500 accesses, 60 misses in the first level, 6 of them also in the last.
        assert_eq!(EventCounts::parse(text).unwrap().cycles_estimate(), 1440 + 5 * 54 + 35 * 6);
    }

    #[test]
    fn uncountable_kinds_of_source_are_rejected_with_a_reason() {
        use SnippetLanguage::*;
        for kind in [
            SourceKind::Cpp,
            SourceKind::Program,
            SourceKind::Snippet(Rust),
            SourceKind::Snippet(C),
        ] {
            assert_eq!(check_countable(kind), Ok(()));
        }
        for (kind, reason) in [
            (SourceKind::Snippet(Java), "compiles at run time"),
            (SourceKind::NodeCore, "compiles at run time"),
            (SourceKind::Snippet(Go), "does not run under valgrind"),
            (SourceKind::Snippet(Python), "the counts would include its interpreter"),
            (SourceKind::Load, "when requests arrive"),
            (SourceKind::Snippet(Sh), "starts other processes"),
        ] {
            assert!(check_countable(kind).is_err_and(|error| error.contains(reason)), "{kind:?}");
        }
    }
}
