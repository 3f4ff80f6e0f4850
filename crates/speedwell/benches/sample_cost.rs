//! Cost of samples, as multiples of a bare start of Node.js (`node -e 0`): whole processes of this
//! program, and the process of a single sample.
//!
//! cargo bench -p speedwell --bench sample_cost
//!
//! All subjects are measured alternately in the same rounds, and compared by their medians. CPU
//! time includes child processes. A Node core checkout named by SPEEDWELL_NODE_CORE adds one of its
//! scripts with the folder's own common.js, and `as run.js` beside the original. SPEEDWELL_ROUNDS
//! sets the number of rounds.

// A benchmark that cannot continue has nothing to print.
#![allow(clippy::expect_used)]

use speedwell_adapters::KnownAdapters;
use speedwell_adapters::discover::{BenchmarkSelection, discover_benchmarks, find_sources};
use speedwell_adapters::plan::SessionPlan;
use speedwell_engine::{ExecutionArgs, PlanRequest};
use speedwell_machine::process::{ProcessEnd, ProcessSpec, run_child};
use speedwell_model::{Variant, median};
use std::path::{Path, PathBuf};

const ROUNDS: usize = 40;

/// Wall and CPU time of one process, in seconds.
type ProcessCost = (f64, f64);

/// Measured in each round.
struct CostSubject {
    name: &'static str,
    perform: Box<dyn Fn() -> ProcessCost>,
    costs: Vec<ProcessCost>,
}

impl CostSubject {
    fn new(name: &'static str, perform: impl Fn() -> ProcessCost + 'static) -> CostSubject {
        CostSubject { name, perform: Box::new(perform), costs: Vec::new() }
    }

    fn median(&self, of: impl Fn(&ProcessCost) -> f64) -> f64 {
        median(&mut self.costs.iter().map(of).collect::<Vec<f64>>()).unwrap_or(f64::NAN)
    }

    fn wall_and_cpu(&self) -> ProcessCost {
        (self.median(|cost| cost.0), self.median(|cost| cost.1))
    }
}

fn main() {
    let rounds = std::env::var("SPEEDWELL_ROUNDS")
        .map(|text| text.parse().expect("SPEEDWELL_ROUNDS is a number"));
    let cache = tempfile::tempdir().expect("there is a place for temporary files");
    let core = std::env::var_os("SPEEDWELL_NODE_CORE").map(PathBuf::from);
    let mut subjects = subjects(cache.path(), core.as_deref());
    for round in 0..=rounds.unwrap_or(ROUNDS) {
        for subject in &mut subjects {
            let cost = (subject.perform)();
            // The first round warms the caches, of files and our own.
            if round > 0 {
                subject.costs.push(cost);
            }
        }
    }
    let unit = subjects[0].wall_and_cpu();
    for subject in &subjects {
        print(subject.name, subject.wall_and_cpu(), unit);
    }
    let of = |name| subjects.iter().find(|s| s.name == name).map(CostSubject::wall_and_cpu);
    if let (Some(two), Some(one)) = (of(TWO_CASES), of(SEEN)) {
        print("each further case", (two.0 - one.0, two.1 - one.1), unit);
    }
}

const SEEN: &str = "run, file seen before";
const TWO_CASES: &str = "run of two cases";

fn print(name: &str, (wall, cpu): ProcessCost, unit: ProcessCost) {
    let (wall_ratio, cpu_ratio) = (wall / unit.0, cpu / unit.1);
    let (wall_ms, cpu_ms) = (wall * 1e3, cpu * 1e3);
    println!(
        "{name:<24} {wall_ms:>8.1} ms wall ({wall_ratio:.2} x) {cpu_ms:>8.1} ms CPU ({cpu_ratio:.2} x)"
    );
}

fn subjects(cache: &Path, core: Option<&Path>) -> Vec<CostSubject> {
    let examples = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/node");
    let file = examples.join("buffers/copy.js");
    let name = file.to_string_lossy();
    let sample_plan = plan(&file, &[("bytes", "64"), ("offset", "0"), ("n", "20")]);
    let run = |cache: &Path, bytes| {
        let values = ["--set", bytes, "offset=0", "n=20"];
        let words = [&["run", &name], &values[..], &["--runs", "1", "--no-save", "-q"]].concat();
        ours(cache, &words)
    };
    // The subject that starts cold in each round has its own cache, so that the others keep theirs.
    let forgetful = cache.join("forgetful");
    let (first, described) = (run(&forgetful, "bytes=64"), forgetful.join("speedwell/described"));
    let (seen, two) = (run(cache, "bytes=64"), run(cache, "bytes=64,128"));
    let mut subjects = vec![
        CostSubject::new("node -e 0", || cost(&ProcessSpec::new("node").args(["-e", "0"]))),
        CostSubject::new("sample of our package", move || sample(&sample_plan)),
        CostSubject::new("run, file seen first", move || {
            let _ = std::fs::remove_dir_all(&described);
            cost(&first)
        }),
        CostSubject::new(SEEN, move || cost(&seen)),
        CostSubject::new(TWO_CASES, move || cost(&two)),
    ];
    if let Some(core) = core {
        subjects.extend(beside_the_original(cache, &core.join("benchmark")));
    }
    subjects
}

fn beside_the_original(cache: &Path, folder: &Path) -> [CostSubject; 3] {
    let script = folder.join("string_decoder/string-decoder-create.js");
    let sample_plan = plan(&script, &[("n", "1"), ("encoding", "utf8")]);
    let values = ["--set", "n=1", "--set", "encoding=utf8"];
    let words = [&["run.js", "--filter", "create"], &values[..], &["string_decoder"]].concat();
    let in_folder = |spec: ProcessSpec| ProcessSpec { directory: Some(folder.to_owned()), ..spec };
    let original = in_folder(ProcessSpec::new("node").args(words.iter().copied()));
    let as_run = in_folder(ours(cache, &[&["as"], &words[..]].concat()));
    [
        CostSubject::new("sample of Node core", move || sample(&sample_plan)),
        CostSubject::new("run.js, the original", move || cost(&original)),
        CostSubject::new("as run.js", move || cost(&as_run)),
    ]
}

fn ours(cache: &Path, words: &[&str]) -> ProcessSpec {
    let spec = ProcessSpec::new(env!("CARGO_BIN_EXE_speedwell")).args(words.iter().copied());
    spec.env("XDG_CACHE_HOME", cache.to_string_lossy())
}

/// Measures the cost of a process that must succeed.
fn cost(spec: &ProcessSpec) -> ProcessCost {
    let mut spec = spec.clone();
    // Additional certificates would triple the start time of Node.js.
    spec.unset.push("NODE_EXTRA_CA_CERTS".into());
    let outcome = run_child(&spec, &mut ()).expect("the program can be started");
    assert_eq!(outcome.ended, ProcessEnd::Exit(0), "{}", outcome.stderr.text());
    let usage = outcome.usage;
    (seconds(outcome.wall_ns), seconds(usage.cpu_ns()))
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Plans runs of the file, whose first case is measured.
fn plan(file: &Path, sets: &[(&str, &str)]) -> SessionPlan {
    let sets = sets.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
    let selection = BenchmarkSelection { sets, ..BenchmarkSelection::default() };
    let target = file.to_string_lossy().into_owned();
    let here = std::env::current_dir().expect("there is a current folder");
    let sources =
        find_sources(&target, &here, &KnownAdapters::default()).expect("the file is there");
    let suite = discover_benchmarks(sources, &selection, &Variant::plain("bench"), &|_| ())
        .expect("the file is a benchmark");
    let variant = Variant {
        environment: vec![("NODE_EXTRA_CA_CERTS".into(), String::new())],
        ..Variant::plain("bench")
    };
    let execution = ExecutionArgs { seed: Some(1), ..ExecutionArgs::default() };
    PlanRequest { execution, ..PlanRequest::default() }.build_plan(vec![variant], &suite)
}

/// Measures the process of one sample, without ours.
fn sample(plan: &SessionPlan) -> ProcessCost {
    let job = &plan.jobs[0];
    let attempt = plan.run_context(job, &plan.variants[0], 0).perform();
    assert!(attempt.failure.is_none(), "{:?}", attempt.failure);
    let usage = attempt.usage.expect("the process was started");
    (seconds(attempt.wall_ns), seconds(usage.cpu_ns()))
}
