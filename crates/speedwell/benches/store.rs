//! Cost of storing 100,000 samples as from a fast benchmark (one per process and transaction) and
//! as from a slow one (a hundred per process), and of reading them back.
//!
//! Prints the CPU time of this process, because wall time depends on the disk and on other tenants.

use rustix::time::{ClockId, clock_gettime};
use speedwell_model::{
    Case, KernelStats, Metric, ParameterValue, ResourceUsage, Run, RunOrder, Sample, Session,
    SessionDesign, SessionEvent, SessionObserver, SessionState, StoppingDesign, Variant,
};
use speedwell_store::Store;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn main() -> anyhow::Result<()> {
    println!("{:<44} {:>9} {:>9} {:>9} {:>9}", "session", "store", "read", "CPU", "file");
    for (runs, samples) in [(100_000, 1), (10_000, 10), (1_000, 100), (1, 100_000)] {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("results.db");
        let cpu_before = cpu_time();
        let begun = Instant::now();
        let number = record(&mut Store::open(&path)?, runs, samples)?;
        let stored = begun.elapsed();
        let session = Store::open(&path)?.load_session(number)?;
        let read = begun.elapsed() - stored;
        let cpu = cpu_time() - cpu_before;

        let found: usize = session.runs.iter().map(|run| run.samples.len()).sum();
        assert_eq!(found, (runs * samples) as usize, "something was lost");
        let megabytes = path.metadata()?.len() as f64 / 1e6;
        println!(
            "{:<44} {:>7.0}ms {:>7.0}ms {:>7.0}ms {megabytes:>7.1}MB",
            format!("{runs} runs of {samples} samples, {runs} commits"),
            stored.as_secs_f64() * 1e3,
            read.as_secs_f64() * 1e3,
            cpu.as_secs_f64() * 1e3,
        );
    }
    Ok(())
}

/// Records a session slot by slot, as the runner does.
fn record(store: &mut Store, runs: u32, samples: u32) -> anyhow::Result<i64> {
    let cases: Vec<Arc<Case>> = (0..20).map(|n| Arc::new(case(n))).collect();
    let variants: [Arc<str>; 2] = ["old".into(), "new".into()];
    let mut recorder = store.begin_recording(&session(), "{}")?;
    for slot in 0..runs {
        let case = cases[(slot / 4) as usize % cases.len()].clone();
        let variant = variants[slot as usize % 2].clone();
        recorder.observe(&SessionEvent::RunFinished(&run(case, variant, slot, samples)))?;
        recorder.observe(&SessionEvent::SlotsDone(&[slot]))?;
    }
    recorder.observe(&SessionEvent::Finished { interrupted: false })?;
    Ok(recorder.number())
}

fn case(n: u32) -> Case {
    let values = vec![
        ("len".into(), ParameterValue::Number(f64::from(1 << n))),
        ("encoding".into(), ParameterValue::Text("utf8".into())),
    ];
    Case::new("buffers/buffer-tostring.js", values)
}

fn run(case: Arc<Case>, variant: Arc<str>, slot: u32, samples: u32) -> Run {
    let metric: Arc<str> = Metric::THROUGHPUT.into();
    let sample = |at: u32| Sample {
        metric: metric.clone(),
        value: f64::from(slot * 31 + at).sqrt() * 1e6,
        elapsed_ns: Some(1_000_000 + u64::from(at)),
        iterations: Some(1e6),
    };
    Run {
        started_unix_ms: 1_750_000_000_000 + i64::from(slot),
        wall_ns: 50_000_000 + u64::from(slot),
        usage: Some(ResourceUsage {
            user_ns: 40_000_000,
            system_ns: 5_000_000,
            max_rss_bytes: 45 << 20,
            involuntary_switches: 3,
            ..ResourceUsage::default()
        }),
        kernel_stats: Some(KernelStats {
            steal: Some(0.0),
            pressure: Some(0.01),
            load: Some(0.5),
            ..KernelStats::default()
        }),
        samples: (0..samples).map(sample).collect(),
        ..Run::empty(case, variant, slot, slot / 4)
    }
}

fn session() -> Session {
    Session {
        id: "0197a1b2-0000-7000-8000-000000000000".into(),
        number: None,
        started_unix_ms: 1_750_000_000_000,
        state: SessionState::Running,
        tags: Vec::new(),
        command: vec!["speedwell".into(), "run".into()],
        design: SessionDesign {
            seed: 1,
            runs_per_block: 2,
            ..SessionDesign::new(RunOrder::Blocks, StoppingDesign::Fixed { runs: 30 }, "old")
        },
        variants: vec![Variant::plain("old"), Variant::plain("new")],
        metrics: vec![Metric::throughput()],
        environment: Default::default(),
        origin: None,
        runs: Vec::new(),
        failures: Vec::new(),
        profiles: Vec::new(),
        calibration: None,
        machines: Vec::new(),
    }
}

/// CPU time of this process, user and system.
fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}
