//! Builds a large session in a results file, as a fleet would have measured it, and reports it:
//!
//! ```text
//! cargo run --release -p speedwell-report --example large_session -- make results.db 1000 500
//! cargo run --release -p speedwell-report --example large_session -- report results.db text
//! ```
//!
//! Here 1,000 cases get 500 runs of each of two variants: a million runs of five samples, in blocks
//! of four. Each block is encoded as spool lines and merged in its own transaction, so memory stays
//! flat. The report comes from the code of `speedwell report`. `eval/bench-large-session`
//! measures both.

use anyhow::{Context, ensure};
use speedwell_analysis::AnalysisSettings;
use speedwell_formats::spool::{SpoolBlock, parse_runs, serialize_runs};
use speedwell_model::{
    Case, KernelStats, Metric, ParameterValue, ResourceUsage, Run, RunOrder, Sample, Session,
    SessionDesign, SessionMachine, SessionState, StoppingDesign, Variant,
};
use speedwell_report::session::report_session_in_parts;
use speedwell_report::{OutputOptions, print_document};
use speedwell_store::{BlockOrigin, MergeOutcome, Store};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

const VARIANTS: [&str; 2] = ["old", "new"];

/// Runs of each variant in a block.
const RUNS_PER_BLOCK: u32 = 2;

const SAMPLES_PER_RUN: usize = 5;

fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["make", file, cases, runs] => build_session(file, cases, runs),
        ["report", file, format] => report_session(file, format),
        _ => anyhow::bail!("make FILE CASES RUNS_OF_EACH_VARIANT, or report FILE FORMAT"),
    }
}

/// Reports session @1 case by case.
fn report_session(file: &str, format: &str) -> anyhow::Result<()> {
    let store = Store::open_to_read(Path::new(file))?;
    let output = OutputOptions {
        format: Some(format.parse()?),
        width: Some(120),
        ..OutputOptions::default()
    };
    let document = store.with_session_by_cases(1, |stored| {
        let header = (stored.header(), stored.total_runs());
        let parts = |visit: &mut dyn FnMut(&Session)| stored.for_each_part(visit);
        report_session_in_parts(header, parts, &AnalysisSettings::default(), &output, |_| {})
    })?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    print_document(&document, &output, &mut out)?;
    Ok(())
}

fn build_session(file: &str, cases: &str, runs: &str) -> anyhow::Result<()> {
    let cases: u32 = cases.parse().context("the number of cases")?;
    let runs: u32 = runs.parse().context("the number of runs")?;
    ensure!(
        runs.is_multiple_of(RUNS_PER_BLOCK),
        "a block has {RUNS_PER_BLOCK} runs of each variant"
    );
    let begin = Instant::now();
    fill_store(Path::new(file), cases, runs)?;
    let seconds = begin.elapsed().as_secs_f64();
    let all = f64::from(cases) * f64::from(runs) * VARIANTS.len() as f64;
    println!("{all} runs in {seconds:.1} s: {:.0} a second", all / seconds);
    Ok(())
}

/// Stores the session block by block; every block contains all cases, as in a real session.
fn fill_store(file: &Path, cases: u32, runs: u32) -> anyhow::Result<()> {
    let mut store = Store::open(file)?;
    let mut merger = store.begin_merging(&empty_session(runs), "{}", &[])?;
    merger.set_machine(0, &SessionMachine::default(), false)?;
    let known: Vec<Arc<Case>> = (0..cases).map(numbered_case).collect();
    let mut random = SplitMixRandom(1);
    let mut slot = 0;
    for block in 0..runs / RUNS_PER_BLOCK {
        for (case, job) in known.iter().zip(0..) {
            let runs = case_runs(case, (job, block), &mut slot, &mut random);
            let lines = serialize_runs(&runs)?;
            let whole = SpoolBlock {
                job,
                block,
                slots: runs.iter().map(|run| run.slot).collect(),
                runs: parse_runs(&lines)?,
                failures: Vec::new(),
                metrics: vec![(0, Metric::throughput())],
            };
            let origin = BlockOrigin { machine: 0, shard: 0, attempt: 0 };
            ensure!(
                merger.merge_block(origin, &whole)? == MergeOutcome::New,
                "block {block} of case {job} was there"
            );
        }
    }
    merger.finish_session(false)
}

/// The session before its first run. The design omits machines: they add little to a report.
fn empty_session(runs: u32) -> Session {
    let stopping = StoppingDesign::Fixed { runs };
    Session {
        id: "large".into(),
        started_unix_ms: 1_700_000_000_000,
        state: SessionState::Running,
        command: vec!["large_session".into()],
        design: SessionDesign {
            seed: 1,
            runs_per_block: RUNS_PER_BLOCK,
            ..SessionDesign::new(RunOrder::Blocks, stopping, VARIANTS[0])
        },
        variants: VARIANTS.into_iter().map(Variant::plain).collect(),
        metrics: vec![Metric::throughput()],
        ..Session::default()
    }
}

fn numbered_case(number: u32) -> Arc<Case> {
    let name = format!("group-{:02}/case-{number:05}", number / 500);
    let size = ParameterValue::Number(f64::from(1 << (number % 12)));
    Arc::new(Case::new(name, vec![("size".to_owned(), size)]))
}

/// The runs of a case in a block, shuffled. Every tenth case is 2% slower under the new variant.
fn case_runs(
    case: &Arc<Case>,
    (job, block): (u32, u32),
    slot: &mut u32,
    random: &mut SplitMixRandom,
) -> Vec<Run> {
    let mut order: Vec<usize> = (0..RUNS_PER_BLOCK).flat_map(|_| 0..VARIANTS.len()).collect();
    for at in (1..order.len()).rev() {
        order.swap(at, (random.next() * (at + 1) as f64) as usize);
    }
    let run = |variant: usize| {
        let factor = if variant == 1 && job % 10 == 0 { 0.98 } else { 1.0 };
        // A sum of a few uniform draws is close enough to normal.
        let noise = (0..6).map(|_| random.next() - 0.5).sum::<f64>();
        let level = 1e6 / f64::from(1 + job % 100) * factor * (1.0 + 0.02 * noise);
        let sample = |_| Sample {
            metric: Arc::from(Metric::THROUGHPUT),
            value: level * (1.0 + 0.004 * (random.next() - 0.5)),
            elapsed_ns: Some(50_000_000),
            iterations: Some((level / 20.0).round()),
        };
        let samples = (0..SAMPLES_PER_RUN).map(sample).collect();
        *slot += 1;
        finished_run(case, VARIANTS[variant], (*slot - 1, block), samples)
    };
    order.into_iter().map(run).collect()
}

/// A run with everything that is recorded on Linux.
fn finished_run(
    case: &Arc<Case>,
    variant: &str,
    (slot, block): (u32, u32),
    samples: Vec<Sample>,
) -> Run {
    Run {
        started_unix_ms: 1_700_000_000_000 + i64::from(slot),
        wall_ns: 412_345_678,
        usage: Some(ResourceUsage {
            user_ns: 390_000_000,
            system_ns: 12_000_000,
            max_rss_bytes: 48 << 20,
            involuntary_switches: 3,
            voluntary_switches: Some(12),
            minor_faults: Some(4_567),
            major_faults: Some(0),
            migrations: Some(1),
        }),
        kernel_stats: Some(KernelStats {
            steal: Some(0.0),
            pressure: Some(0.001),
            load: Some(0.52),
            ..KernelStats::default()
        }),
        machine: Some(0),
        samples,
        ..Run::empty(case.clone(), variant, slot, block)
    }
}

/// A reproducible generator of numbers in [0, 1) (SplitMix64: Steele, Lea, Flood 2014).
struct SplitMixRandom(u64);

impl SplitMixRandom {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}
