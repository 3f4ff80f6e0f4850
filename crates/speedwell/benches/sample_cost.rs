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

use speedwell_harness::discover::{Selection, read, sources};
use speedwell_harness::{self as harness, Job, Known, RunLayout, Setting};
use speedwell_model::{Samples, Variant, median};
use speedwell_process::{Ended, Spec, run};
use std::path::{Path, PathBuf};
use std::time::Duration;

const ROUNDS: usize = 40;

/// Wall and CPU time of one process, in seconds.
type Cost = (f64, f64);

/// Measured in each round.
struct Subject {
    name: &'static str,
    perform: Box<dyn Fn() -> Cost>,
    costs: Vec<Cost>,
}

impl Subject {
    fn new(name: &'static str, perform: impl Fn() -> Cost + 'static) -> Subject {
        Subject {
            name,
            perform: Box::new(perform),
            costs: Vec::new(),
        }
    }

    fn median(&self, of: impl Fn(&Cost) -> f64) -> f64 {
        median(&mut self.costs.iter().map(of).collect::<Vec<f64>>()).unwrap_or(f64::NAN)
    }

    fn wall_and_cpu(&self) -> Cost {
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
    let of = |name| {
        subjects
            .iter()
            .find(|s| s.name == name)
            .map(Subject::wall_and_cpu)
    };
    if let (Some(two), Some(one)) = (of(TWO_CASES), of(SEEN)) {
        print("each further case", (two.0 - one.0, two.1 - one.1), unit);
    }
}

const SEEN: &str = "run, file seen before";
const TWO_CASES: &str = "run of two cases";

fn print(name: &str, (wall, cpu): Cost, unit: Cost) {
    let (wall_ratio, cpu_ratio) = (wall / unit.0, cpu / unit.1);
    let (wall_ms, cpu_ms) = (wall * 1e3, cpu * 1e3);
    println!(
        "{name:<24} {wall_ms:>8.1} ms wall ({wall_ratio:.2} x) {cpu_ms:>8.1} ms CPU ({cpu_ratio:.2} x)"
    );
}

fn subjects(cache: &Path, core: Option<&Path>) -> Vec<Subject> {
    let examples = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/node");
    let file = examples.join("buffers/copy.js");
    let name = file.to_string_lossy();
    let sample_job = job(&file, &[("bytes", "64"), ("offset", "0"), ("n", "20")]);
    let run = |cache: &Path, bytes| {
        let values = ["--set", bytes, "offset=0", "n=20"];
        let words = [
            &["run", &name],
            &values[..],
            &["--runs", "1", "--no-save", "-q"],
        ]
        .concat();
        ours(cache, &words)
    };
    // The subject that starts cold in each round has its own cache, so that the others keep theirs.
    let forgetful = cache.join("forgetful");
    let (first, described) = (
        run(&forgetful, "bytes=64"),
        forgetful.join("speedwell/described"),
    );
    let (seen, two) = (run(cache, "bytes=64"), run(cache, "bytes=64,128"));
    let mut subjects = vec![
        Subject::new("node -e 0", || cost(&Spec::new("node").args(["-e", "0"]))),
        Subject::new("sample of our package", move || sample(&sample_job)),
        Subject::new("run, file seen first", move || {
            let _ = std::fs::remove_dir_all(&described);
            cost(&first)
        }),
        Subject::new(SEEN, move || cost(&seen)),
        Subject::new(TWO_CASES, move || cost(&two)),
    ];
    if let Some(core) = core {
        subjects.extend(beside_the_original(cache, &core.join("benchmark")));
    }
    subjects
}

fn beside_the_original(cache: &Path, folder: &Path) -> [Subject; 3] {
    let script = folder.join("string_decoder/string-decoder-create.js");
    let sample_job = job(&script, &[("n", "1"), ("encoding", "utf8")]);
    let values = ["--set", "n=1", "--set", "encoding=utf8"];
    let words = [
        &["run.js", "--filter", "create"],
        &values[..],
        &["string_decoder"],
    ]
    .concat();
    let in_folder = |spec: Spec| Spec {
        directory: Some(folder.to_owned()),
        ..spec
    };
    let original = in_folder(Spec::new("node").args(words.iter().copied()));
    let as_run = in_folder(ours(cache, &[&["as"], &words[..]].concat()));
    [
        Subject::new("sample of Node core", move || sample(&sample_job)),
        Subject::new("run.js, the original", move || cost(&original)),
        Subject::new("as run.js", move || cost(&as_run)),
    ]
}

fn ours(cache: &Path, words: &[&str]) -> Spec {
    let spec = Spec::new(env!("CARGO_BIN_EXE_speedwell")).args(words.iter().copied());
    spec.env("XDG_CACHE_HOME", cache.to_string_lossy())
}

/// Measures the cost of a process that must succeed.
fn cost(spec: &Spec) -> Cost {
    let mut spec = spec.clone();
    // Additional certificates would triple the start time of Node.js.
    spec.unset.push("NODE_EXTRA_CA_CERTS".into());
    let outcome = run(&spec, &mut ()).expect("the program can be started");
    assert_eq!(outcome.ended, Ended::Exit(0), "{}", outcome.stderr.text());
    let usage = outcome.usage;
    (seconds(outcome.wall_ns), seconds(usage.cpu_ns()))
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn job(file: &Path, sets: &[(&str, &str)]) -> Job {
    let sets = sets
        .iter()
        .map(|(n, v)| (n.to_string(), v.to_string()))
        .collect();
    let selection = Selection {
        sets,
        ..Selection::default()
    };
    let target = file.to_string_lossy().into_owned();
    let here = std::env::current_dir().expect("there is a current folder");
    let sources = sources(&target, &here, &Known::default()).expect("the file is there");
    let suite = read(sources, &selection, &Variant::plain("bench"), &|_| ())
        .expect("the file is a benchmark");
    suite.jobs.into_iter().next().expect("it has a case")
}

/// Measures the process of one sample, without ours.
fn sample(job: &Job) -> Cost {
    let variant = Variant {
        environment: vec![("NODE_EXTRA_CA_CERTS".into(), String::new())],
        ..Variant::plain("bench")
    };
    let setting = Setting {
        variant: &variant,
        program: "node".into(),
        slot: 0,
        ordinal: 0,
        repeated: 0,
        counting: None,
        clock: Default::default(),
        limit: Duration::from_secs(60),
        samples: Samples::default(),
        asked: Default::default(),
        is_series: false,
        pin: None,
        seed: 1,
        layout: RunLayout::default(),
        experiment: None,
        kept: None,
    };
    let attempt = harness::for_kind(job.source.kind).perform(job, &setting);
    assert!(attempt.failure.is_none(), "{:?}", attempt.failure);
    let usage = attempt.usage.expect("the process was started");
    (seconds(attempt.wall_ns), seconds(usage.cpu_ns()))
}
