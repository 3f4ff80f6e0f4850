//! Describes files and performs cases over the harness protocol (docs/reference/protocol.md).
//!
//! This module decides, for all languages, which commands are sent and what the events mean. The
//! harness of a language decides how its process is started, and which command a user would type to
//! repeat the execution. All commands are known before the process starts, so they are all sent up
//! front and the process never waits for a command. Start with [`describe_file`] and
//! [`perform_case`].
//!
//! Instructions of a case are counted with valgrind's callgrind ([`perform_counted`]). Equal work at
//! equal addresses has the same count. The count ignores waiting, the kernel, caches and branches.
//! Harnesses in C, C++ and Rust mark the counted section with client requests
//! (`crates/adapters/languages/c/requests.h`). This module sets every environment variable of a
//! counted process, so that all runs have the same environment.

use crate::cache::{self, DescriptionInputs, DescriptionOrigin};
use crate::job::{
    BenchmarkDescription, BenchmarkJob, BenchmarkSource, DeclaredParameter, DescribeRequest,
    RunContext, SourceKind, StartMode, TrialMode,
};
use crate::run_outcome::{description_failure, invalid_cause, observe_case, start_reason};
use crate::wire::EventLog;
use crate::{ProtocolMessage, RunOutcome, RunResult};
use speedwell_machine::process::{ProcessSpec, ScratchFolder, resolve_program, run_child};
use speedwell_model::{
    Case, FailureCause, InstructionCounting, Metric, MetricDirection, ParameterValue, Run,
    SampleDivision, SampleLength, SnippetLanguage, SteadyRule, ValueKind, VariantWorktree,
};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Whether the file or the harness marks start and end of the measured section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoopOwner {
    /// The file marks them, and is measured once per process.
    File,
    /// The harness marks them. It takes several samples and chooses the number of iterations.
    Harness,
}

/// Asks the process of `spec` for the cases of a file. Each case becomes a job: a copy of `draft`,
/// completed with what the file reports about the case. `plain` is the command with which a user
/// can repeat a failure.
pub(super) fn describe_file(
    request: &DescribeRequest,
    spec: &ProcessSpec,
    plain: &ProcessSpec,
    draft: &BenchmarkJob,
) -> BenchmarkDescription {
    let source = &request.source;
    let spec = ProcessSpec { limit: request.limit, ..spec.clone() };
    let mut message = ProtocolMessage::new("describe")
        .with("id", 2)
        .with("path", source.file.display())
        .with("root", source.root.display())
        .with_list("args", &request.assignments());
    if request.trial != TrialMode::No {
        message = message.with("test", 1);
    }
    let mut events = EventLog::new([message]);
    match cache::ask_cached(&spec, &mut events, dependencies_in) {
        Err(error) => {
            let reason = start_reason(&spec, &error);
            description_failure(source, FailureCause::Start { reason }, plain, None)
        }
        Ok(outcome) => {
            match events.error_cause().or_else(|| outcome.as_ref()?.failure_cause(spec.limit)) {
                Some(cause) => description_failure(source, cause, plain, outcome.as_ref()),
                None => to_description(request, &events, draft),
            }
        }
    }
}

/// Extracts the dependencies of a description from the last event, if the language reports them.
fn dependencies_in(line: &[u8]) -> Option<DescriptionOrigin> {
    let described = ProtocolMessage::parse(line).filter(|message| message.verb == "described")?;
    Some(DescriptionOrigin {
        program: described.get("program")?.into(),
        depends: DescriptionInputs {
            files: described.list("files").into_iter().map(Into::into).collect(),
            environment: described.list("env"),
            volatile: described.get("volatile").is_some() || described.get("more").is_some(),
        },
    })
}

/// Performs one case in the process of `spec`. `plain` is the command with which a user can repeat
/// it.
pub(super) fn perform_case(
    job: &BenchmarkJob,
    setting: &RunContext<'_>,
    spec: &ProcessSpec,
    plain: &ProcessSpec,
    owner: LoopOwner,
) -> RunOutcome {
    if let Some(counting) = setting.counting {
        let commands = |samples: &SampleDivision| {
            EventLog::new([load_message(job, setting), samples_message(samples, false)])
        };
        let observe = |events: &EventLog| observe_case(job, events);
        let (commands, observe) = (&commands, &observe);
        return perform_counted(&CountingInputs {
            job,
            setting,
            counting,
            spec,
            plain,
            commands,
            observe,
        });
    }
    let worktree = setting.variant.worktree.as_ref();
    // A trial only checks whether the case works.
    let mut run_message = if owner == LoopOwner::File || job.test {
        run_case().with("mode", "once")
    } else {
        samples_message(&setting.samples, setting.is_series)
    };
    if let Some(checkout) = worktree.and_then(|worktree| fs::canonicalize(&worktree.checkout).ok())
    {
        run_message = run_message.with("modules_below", checkout.display());
    }
    let mut events = EventLog::new([load_message(job, setting), run_message]);
    match run_child(&setting.layout.apply_to(spec), &mut events) {
        Err(error) => RunOutcome::start_failed(spec, &error, job, setting),
        Ok(outcome) => {
            let (mut result, fault) = observe_case(job, &events);
            if let (Some(result), Some(worktree)) = (&mut result, worktree) {
                result.notes.extend(stray_note(&events, worktree));
            }
            // Other kinds of sources are not checked: their benchmarks may report times that they
            // did not measure themselves, for example times of a device.
            let is_clocked = job.source.kind == SourceKind::Node;
            let wall_ns = outcome.wall_ns;
            let fault =
                fault.or_else(|| check_lifetime(result.as_ref().filter(|_| is_clocked)?, wall_ns));
            RunOutcome::from_process(plain, &outcome, result, fault, job, setting)
        }
    }
}

/// Returns a note if the process loaded modules from the user's checkout instead of the worktree.
/// The worktree may be a folder inside the checkout.
fn stray_note(events: &EventLog, worktree: &VariantWorktree) -> Option<String> {
    let [checkout, folder] = [&worktree.checkout, &worktree.folder]
        .map(|path| fs::canonicalize(path).unwrap_or_else(|_| path.clone()));
    let modules = events.first("end")?.list("modules");
    let mut checkout_files: Vec<String> = modules
        .iter()
        .map(Path::new)
        .filter(|file| !file.starts_with(&folder))
        .filter_map(|file| file.strip_prefix(&checkout).ok())
        .map(|file| file.to_string_lossy().into_owned())
        .collect();
    checkout_files.sort();
    (!checkout_files.is_empty()).then(|| Run::stray_note(&checkout_files))
}

/// Rejects a measured section that is longer than the lifetime of its process. Such a time cannot
/// have been measured.
fn check_lifetime(result: &RunResult, wall_ns: u64) -> Option<FailureCause> {
    let elapsed = result.samples.iter().filter_map(|sample| sample.elapsed_ns);
    let longest = elapsed.max().filter(|longest| *longest > wall_ns)?;
    Some(invalid_cause(format!(
        "reported a section of {longest} ns, but its process ran for only {wall_ns} ns"
    )))
}

fn load_message(job: &BenchmarkJob, setting: &RunContext<'_>) -> ProtocolMessage {
    let mut message = ProtocolMessage::new("load")
        .with("id", 2)
        .with("job", "case")
        .with("form", "case")
        .with("path", job.source.file.display())
        .with("root", job.source.root.display());
    if let Some(benchmark) = job.benchmark_under(&setting.variant.name) {
        message = message.with("benchmark", benchmark);
    }
    if job.test {
        message = message.with("test", 1);
    }
    for word in &job.arguments {
        if let Some((name, value)) = word.split_once('=') {
            message = message.with(format!("value.{name}"), value);
        }
    }
    message
}

fn run_case() -> ProtocolMessage {
    ProtocolMessage::new("run").with("id", 3).with("jobs", "case")
}

fn samples_message(samples: &SampleDivision, is_series: bool) -> ProtocolMessage {
    let run = run_case().with("samples", samples.count);
    let run = if is_series {
        run.with("mode", "series").with("reference", SteadyRule::REFERENCE_EVERY)
    } else {
        run.with("mode", "timed").with("warmup_ns", samples.warmup_ns)
    };
    match samples.length {
        SampleLength::TimeNs(ns) => run.with("sample_ns", ns),
        SampleLength::Iterations(count) => run.with("loop", count),
    }
}

/// Converts events to the description of a file. The jobs of the description are copies of `draft`.
fn to_description(
    request: &DescribeRequest,
    events: &EventLog,
    draft: &BenchmarkJob,
) -> BenchmarkDescription {
    let mut description = BenchmarkDescription::default();
    let described = events.events_of("described").next();
    for list in ["files", "loaded"] {
        let files = described.map(|described| described.list(list)).unwrap_or_default();
        description.loaded.extend(files.into_iter().map(Into::into));
    }
    for benchmark in events.events_of("benchmark") {
        description.parameters.extend(declared_parameters(benchmark));
        let draft = BenchmarkJob { flags: benchmark.list("flags"), ..draft.clone() };
        if benchmark.get("setup").as_deref() == Some("1") {
            // The benchmark's set-up must run once before all cases, so the file has to start the
            // cases itself.
            description.jobs.push(BenchmarkJob {
                route: StartMode::Parent,
                arguments: request.assignments(),
                flags: Vec::new(),
                ..draft
            });
            continue;
        }
        let name = benchmark.get("name");
        let cases = events.events_of("case").filter(|case| case.get("benchmark") == name);
        description.jobs.extend(cases.map(|case| parse_job(case, benchmark, &draft)));
    }
    let versions = events.first("described").map(|described| described.list("versions"));
    description.versions = versions
        .iter()
        .flatten()
        .filter_map(|word| word.split_once('='))
        .map(|(name, version)| (name.to_owned(), version.to_owned()))
        .collect();
    if description.jobs.is_empty() && events.first("described").is_some() {
        description.warnings.push(no_cases_warning(&request.source, events));
    }
    description
}

/// Explains why a file has no cases although describing it succeeded.
fn no_cases_warning(source: &BenchmarkSource, events: &EventLog) -> String {
    let name = &source.name;
    match events.first("benchmark") {
        Some(_) => format!("'{name}' has no cases: its own filter excludes all of them."),
        None => format!("'{name}' declares no benchmark."),
    }
}

/// Returns the declared kind of a parameter.
fn parameter_kind(benchmark: &ProtocolMessage, name: &str) -> ValueKind {
    match benchmark.get(&format!("type.{name}")).as_deref() {
        Some("int" | "float") => ValueKind::Number,
        Some("bool") => ValueKind::Bool,
        _ => ValueKind::Text,
    }
}

fn declared_parameters(benchmark: &ProtocolMessage) -> Vec<DeclaredParameter> {
    let names = benchmark.keys().filter_map(|key| key.strip_prefix("param."));
    names
        .map(|name| {
            let kind = parameter_kind(benchmark, name);
            let value_strings = benchmark.list(&format!("param.{name}"));
            let values =
                value_strings.iter().filter_map(|text| ParameterValue::parse(text, kind)).collect();
            DeclaredParameter { name: name.to_owned(), values }
        })
        .collect()
}

fn parse_job(
    event: &ProtocolMessage,
    benchmark: &ProtocolMessage,
    draft: &BenchmarkJob,
) -> BenchmarkJob {
    let build = |mut arguments: Vec<String>| {
        let pairs = arguments.iter().filter_map(|word| word.split_once('='));
        let values = pairs.map(|(name, text)| {
            let value = ParameterValue::parse(text, parameter_kind(benchmark, name));
            (name.to_owned(), value.unwrap_or_else(|| ParameterValue::infer_value(text)))
        });
        let case = Case::new(event.get("benchmark").unwrap_or_default(), values.collect());
        let missing_arguments: Vec<String> =
            draft.arguments.iter().filter(|word| !arguments.contains(word)).cloned().collect();
        arguments.extend(missing_arguments);
        BenchmarkJob { label: case.id(), arguments, case: Some(case), ..draft.clone() }
    };
    let measured = Some(event.list("measured")).filter(|measured| !measured.is_empty());
    BenchmarkJob {
        measured: measured.map(|measured| Box::new(build(measured))),
        ..build(event.list("args"))
    }
}

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
    pub job: &'a BenchmarkJob,
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
pub(super) fn perform_counted(inputs: &CountingInputs<'_>) -> RunOutcome {
    let (job, setting) = (inputs.job, inputs.setting);
    let unsupported = |reason: &str| RunOutcome::unsupported(inputs.plain, reason, job, setting);
    let SampleLength::Iterations(iterations) = setting.samples.length else {
        return unsupported("counting instructions requires a fixed number of iterations");
    };
    let prepared = ScratchFolder::new().and_then(|folder| {
        let spec = wrap_with_callgrind(inputs, folder.folder())?;
        Ok((folder, spec))
    });
    let (folder, spec) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => return unsupported(&format!("{error:#}")),
    };
    let length = SampleLength::Iterations(iterations);
    let samples = SampleDivision { count: 1, length, warmup_ns: 0 };
    let mut attempt = perform_process(inputs, &spec, &samples);
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
            return unsupported(
                "callgrind counted nothing: the program does not mark the measured section",
            );
        }
    }
    // Resource usage under valgrind is meaningless for the benchmark.
    attempt.usage = None;
    if inputs.counting.also_timed && attempt.failure.is_none() && !attempt.interrupted {
        return add_times(inputs, iterations, attempt);
    }
    attempt
}

/// Performs the case in the process of `spec`.
fn perform_process(
    inputs: &CountingInputs<'_>,
    spec: &ProcessSpec,
    samples: &SampleDivision,
) -> RunOutcome {
    let (job, setting) = (inputs.job, inputs.setting);
    let mut events = (inputs.commands)(samples);
    match run_child(spec, &mut events) {
        Err(error) => RunOutcome::start_failed(spec, &error, job, setting),
        Ok(outcome) => {
            let (result, fault) = (inputs.observe)(&events);
            RunOutcome::from_process(inputs.plain, &outcome, result, fault, job, setting)
        }
    }
}

/// Measures the times of the same case and adds them to its counts.
fn add_times(inputs: &CountingInputs<'_>, iterations: u64, mut counted: RunOutcome) -> RunOutcome {
    let length = SampleLength::Iterations(iterations);
    let samples = SampleDivision { count: TIMED_SAMPLES, length, warmup_ns: WARMUP_NS };
    let mut timed = perform_process(inputs, inputs.spec, &samples);
    if timed.failure.is_some() || timed.interrupted {
        timed.observations.clear();
        return timed;
    }
    let is_time = |name: &str| Metric::TIMES.contains(&name);
    for (counted, timed) in counted.observations.iter_mut().zip(timed.observations) {
        let (samples, metrics) = (timed.samples.into_iter(), timed.metrics.into_iter());
        (counted.samples).extend(samples.filter(|sample| is_time(&sample.metric)));
        (counted.metrics).extend(metrics.filter(|metric| is_time(&metric.name)));
    }
    counted
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
struct EventCounts(Vec<(String, u64)>);

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
        let counted = self.0.iter().find(|(event, _)| event == name);
        counted.map_or(0, |(_, count)| *count)
    }

    fn subtract(&self, other: &EventCounts) -> EventCounts {
        let counts = self.0.iter();
        let counts =
            counts.map(|(name, count)| (name.clone(), count.saturating_sub(other.count_of(name))));
        EventCounts(counts.collect())
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
        result.add_value(
            Metric::new(Metric::INSTRUCTIONS, "1", MetricDirection::Lower),
            per_iteration(self.count_of("Ir")),
        );
        if counting.cache_model {
            result.add_value(
                Metric::new(Metric::CYCLES_ESTIMATE, "1", MetricDirection::Lower),
                per_iteration(self.cycles_estimate()),
            );
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
