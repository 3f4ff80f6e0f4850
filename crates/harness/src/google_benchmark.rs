//! Programs built with google/benchmark, driven over their own options.
//!
//! Decides how one benchmark of a program is asked for and what its rows stand for: repetitions
//! inside the process are samples of one run. The program's own output stays its own; results come
//! over a private pipe. Options of the user come after ours, and the library takes the last.

use super::attempt::{not_described, start_reason};
use super::job::{Description, Job, Request, Setting, Source};
use super::protocol::draft;
use super::{Attempt, Harness, Observation};
use speedwell_model::{Case, Cause, Length, Metric};
use speedwell_process::{Channel, Conversation, Next, Spec, run};
use speedwell_results::foreign::google_benchmark::{File, Row, context, filter, metric};
use speedwell_results::foreign::json::Node;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a program holds that was linked with the library: its own option where the library is
/// inside, its C++ namespace where it is shared. Names of Mach-O have one underscore more.
const MARKS: [&[u8]; 2] = [b"benchmark_list_tests", b"_ZN9benchmark"];

/// The descriptor of the pipe that results come over.
const RESULTS: &str = "--benchmark_out=/dev/fd/3";

/// What is said of a run whose wall time tells little of the code.
const NOTE_ON_WAITING: &str = "Wall time was more than a tenth above CPU time: the machine was busy, \
     or the code waits; --metric cpu_time shows CPU time.";

/// The harness for programs built with google/benchmark.
pub struct GoogleBenchmark;

/// Whether the file looks like a program built with google/benchmark. It is read, not executed.
pub fn is_google_benchmark(file: &Path) -> bool {
    let Some(bytes) = is_elf(file).then(|| std::fs::read(file).ok()).flatten() else {
        return false;
    };
    let holds = |mark: &&[u8]| memchr::memmem::find(&bytes, mark).is_some();
    MARKS.iter().any(holds)
}

/// Whether the file is a program or library of this system.
pub fn is_elf(file: &Path) -> bool {
    begins_with(file, b"\x7fELF")
}

/// Whether the file may be executed and is a script, which may start such a program.
pub fn is_wrapper(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let mode = file.metadata().map_or(0, |data| data.permissions().mode());
    mode & 0o111 != 0 && begins_with(file, b"#!")
}

fn begins_with(file: &Path, magic: &[u8]) -> bool {
    let mut beginning = vec![0; magic.len()];
    let read = std::fs::File::open(file).and_then(|mut file| file.read_exact(&mut beginning));
    read.is_ok() && beginning == magic
}

impl Harness for GoogleBenchmark {
    fn describe(&self, source: &Source, request: &Request) -> Description {
        let mut spec = Spec::new(&request.program).args(request.variant.arguments.clone());
        spec.arguments.push("--benchmark_list_tests=true".into());
        spec.environment = request.variant.environment.clone();
        spec.directory = Some(source.directory.clone());
        spec.limit = request.limit;
        let mut output = Collected::default();
        spec.channel = Channel::Stdout;
        let outcome = run(&spec, &mut output);
        let (cause, outcome) = match &outcome {
            Err(error) => {
                let reason = start_reason(&spec, error);
                (Some(Cause::Start { reason }), None)
            }
            Ok(outcome) => (outcome.cause(spec.limit), Some(outcome)),
        };
        let names = listed(&output.0);
        let cause = cause.or_else(|| names.is_empty().then(|| nothing_listed(&spec)));
        if let Some(cause) = cause {
            return not_described(source, cause, &spec, outcome);
        }
        Description {
            jobs: names
                .iter()
                .map(|name| job(source, name, request))
                .collect(),
            ..Description::default()
        }
    }

    fn perform(&self, job: &Job, setting: &Setting<'_>) -> Attempt {
        let name = job.name_under(&setting.variant.name);
        let plain = plain_spec(job, name, setting);
        let mut spec = plain.clone();
        spec.arguments.push(RESULTS.into());
        spec.arguments.push("--benchmark_out_format=json".into());
        spec.channel = Channel::Pipe("SPEEDWELL_RESULTS");
        spec.pin = setting.pin.cloned();
        let mut written = Collected::default();
        match run(&setting.layout.apply(&spec), &mut written) {
            Err(error) => Attempt::not_started(&plain, &error, job, setting),
            Ok(outcome) => {
                let (seen, fault) = observation(job, name, &written.0);
                Attempt::new(
                    &plain,
                    &outcome,
                    seen.into_iter().collect(),
                    fault,
                    job,
                    setting,
                )
            }
        }
    }

    fn usual_program(&self, source: &Source) -> PathBuf {
        source.file.clone()
    }

    fn has_version(&self) -> bool {
        false
    }

    fn divides_runs(&self) -> bool {
        true
    }
}

/// Everything that came over the line.
#[derive(Default)]
struct Collected(Vec<u8>);

impl Conversation for Collected {
    fn received(&mut self, line: &[u8]) -> Next {
        self.0.extend_from_slice(line);
        self.0.push(b'\n');
        Next::Wait
    }
}

/// The names that a program lists, one a line.
fn listed(output: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(output);
    let lines = text.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect()
}

fn nothing_listed(spec: &Spec) -> Cause {
    let reason = format!(
        "'{}' lists no benchmarks when started with --benchmark_list_tests",
        spec.program.display()
    );
    Cause::Invalid { reason }
}

fn job(source: &Source, name: &str, request: &Request) -> Job {
    Job {
        label: name.to_owned(),
        case: Some(Case::new(name, Vec::new())),
        ..draft(source, request)
    }
}

/// The line that a person would type to see the same benchmark.
fn plain_spec(job: &Job, name: &str, setting: &Setting<'_>) -> Spec {
    let samples = &setting.samples;
    let (length, repetitions) = match samples.length {
        _ if job.test => ("0".to_owned(), 1),
        Length::TimeNs(ns) => ((ns as f64 / 1e9).to_string(), samples.count),
        Length::Iterations(count) => (format!("{count}x"), samples.count),
    };
    let mut spec = Spec::new(&setting.program)
        .args([
            format!("--benchmark_min_time={length}"),
            format!("--benchmark_repetitions={repetitions}"),
        ])
        .args(setting.variant.arguments.iter().cloned())
        .args([format!("--benchmark_filter={}", filter(name))]);
    spec.environment = setting.variant.environment.clone();
    spec.directory = Some(job.source.directory.clone());
    spec.limit = setting.limit;
    spec
}

/// What the program wrote of the benchmark `name`.
fn observation(job: &Job, name: &str, written: &[u8]) -> (Option<Observation>, Option<Cause>) {
    if written.trim_ascii().is_empty() {
        let reason = format!("wrote no results; has it a benchmark '{name}'?");
        return (None, Some(Cause::Invalid { reason }));
    }
    let file = match File::read(written) {
        Ok(file) => file,
        Err(error) => {
            let reason = format!("its results cannot be read: {error:#}");
            return (None, Some(Cause::Invalid { reason }));
        }
    };
    let own: Vec<&Row> = file.rows.iter().filter(|row| row.name == name).collect();
    let repetitions: Vec<&Row> = own
        .iter()
        .copied()
        .filter(|row| !row.is_aggregate())
        .collect();
    let centre = || own.iter().copied().find(|row| row.is_centre("median"));
    let rows = if repetitions.is_empty() {
        centre().into_iter().collect()
    } else {
        repetitions
    };
    let cause = rows.iter().find_map(|row| row.cause());
    if rows.is_empty() {
        let reason = format!("wrote no results of '{name}'");
        return (None, Some(Cause::Invalid { reason }));
    }
    let case = job
        .case
        .clone()
        .unwrap_or_else(|| Case::new(name, Vec::new()));
    let mut notes = rows[0].notes();
    if rows.iter().filter(|row| row.waits() == Some(true)).count() > rows.len() / 2 {
        notes.push(NOTE_ON_WAITING.to_owned());
    }
    let context = Node::at("context".to_owned(), &file.context);
    notes.extend(context::remark_on_build(&context).map(|remark| sentence(&remark)));
    (Some(observe_rows(case, &rows, notes)), cause)
}

/// A remark as a whole sentence.
fn sentence(remark: &str) -> String {
    let mut letters = remark.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).chain(['.']).collect()
}

fn observe_rows(case: Case, rows: &[&Row], notes: Vec<String>) -> Observation {
    let mut metrics: Vec<(Metric, Arc<str>)> = Vec::new();
    let samples = rows
        .iter()
        .filter(|row| row.cause().is_none())
        .flat_map(|row| {
            row.samples(|name| {
                if let Some((_, known)) = metrics.iter().find(|(known, _)| known.name == name) {
                    return known.clone();
                }
                let shared: Arc<str> = Arc::from(name);
                metrics.push((metric(name).0, shared.clone()));
                shared
            })
        });
    let samples = samples.collect();
    let metrics = metrics.into_iter().map(|(metric, _)| metric);
    Observation {
        samples,
        notes,
        ..Observation::new(case, metrics.collect())
    }
}
