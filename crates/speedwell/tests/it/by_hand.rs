//! Small hand-made sessions, for tests in which every value is known.

use speedwell_model::*;

/// A session of two variants without measurements yet.
pub fn blank_session(id: &str) -> Session {
    Session {
        id: id.into(),
        number: None,
        started_unix_ms: 1_750_000_000_000,
        state: SessionState::Running,
        tags: Vec::new(),
        command: vec!["speedwell".into(), "run".into(), "buffers".into()],
        design: SessionDesign {
            seed: 7,
            runs_per_block: 2,
            ..SessionDesign::new(RunOrder::Blocks, StoppingDesign::Fixed { runs: 8 }, "old")
        },
        variants: vec![Variant::plain("old"), Variant::plain("new")],
        metrics: vec![Metric::throughput()],
        environment: Environment::default(),
        origin: None,
        runs: Vec::new(),
        failures: Vec::new(),
        profiles: Vec::new(),
        calibration: None,
        machines: Vec::new(),
    }
}

/// A run with one sample of `metric`; even slots belong to the old variant.
pub fn run_of(slot: u32, metric: &str, value: f64) -> Run {
    let len = ("len".to_owned(), ParameterValue::Number(f64::from(slot % 3)));
    Run {
        started_unix_ms: 1_750_000_000_000 + i64::from(slot),
        wall_ns: 1_000,
        samples: vec![Sample { metric: metric.into(), value, elapsed_ns: None, iterations: None }],
        ..Run::empty(
            Case::new("buffers/fill.js", vec![len]),
            if slot.is_multiple_of(2) { "old" } else { "new" },
            slot,
            slot / 4,
        )
    }
}

/// A run of a slot, whose value encodes the slot.
pub fn run(slot: u32) -> Run {
    run_of(slot, "throughput", f64::from(slot) + 0.5)
}

/// A failed step, of a slot or before all slots.
pub fn failure(slot: Option<u32>) -> StepFailure {
    StepFailure {
        step: if slot.is_some() { SessionStep::Run } else { SessionStep::Describe },
        benchmark: "buffers/broken.js".into(),
        case: None,
        variant: None,
        slot,
        cause: FailureCause::Exit { code: 1 },
        stderr_tail: "TypeError".into(),
        replay: "node buffers/broken.js".into(),
    }
}

/// The slots of all runs in the order of the session.
pub fn slots(session: &Session) -> Vec<u32> {
    session.runs.iter().map(|run| run.slot).collect()
}
