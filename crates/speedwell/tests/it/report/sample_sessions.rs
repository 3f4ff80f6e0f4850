//! Hand-made failures, a session, a machine and two programs.

use speedwell_model::{
    Environment, FailureCause, MeasuredProgram, Metric, RunOrder, Session, SessionDesign,
    SessionState, SessionStep, StepFailure, StoppingDesign, Variant,
};

/// A repeated crash, one without stderr, and a benchmark that cannot run here.
pub fn failures() -> Vec<StepFailure> {
    let crash = |slot| StepFailure {
        step: SessionStep::Run,
        benchmark: "fs/readfile.js".into(),
        case: Some("fs/readfile.js len=1024".into()),
        variant: Some("new".into()),
        slot: Some(slot),
        cause: FailureCause::Exit { code: 1 },
        stderr_tail:
            "Error: ENOSPC: no space left on device, write\n    at writeSync (node:fs:925:3)\n"
                .into(),
        replay: "NODE_ENV=production /opt/node-new/bin/node benchmark/fs/readfile.js len=1024"
            .into(),
    };
    let silent = StepFailure {
        step: SessionStep::Describe,
        benchmark: "tls/secure-pair.js".into(),
        case: None,
        variant: None,
        slot: None,
        cause: FailureCause::Timeout { limit_ms: 60_000 },
        stderr_tail: String::new(),
        replay: "/opt/node-old/bin/node benchmark/tls/secure-pair.js --list".into(),
    };
    let skipped = StepFailure {
        benchmark: "napi/function_call".into(),
        cause: FailureCause::Skipped { reason: "the addon is not built".into() },
        ..silent.clone()
    };
    vec![crash(17), silent, skipped, crash(41)]
}

/// A session measured in blocks until a sequential test decided. Its results do not matter here.
pub fn session() -> Session {
    let variant = |name: &str| Variant {
        program: Some(format!("/opt/node-{name}/bin/node").into()),
        ..Variant::plain(name)
    };
    Session {
        id: "0193b3c2-7b1e-7000-8000-000000000012".into(),
        number: Some(12),
        started_unix_ms: 1_769_868_300_000,
        state: SessionState::Complete,
        tags: vec!["nightly".into()],
        command: ["speedwell", "compare", "--old", "old node", "--new", "new"]
            .map(String::from)
            .to_vec(),
        design: SessionDesign {
            seed: 4_711,
            runs_per_block: 2,
            ..SessionDesign::new(
                RunOrder::Blocks,
                StoppingDesign::Sequential {
                    looks: vec![8, 14, 20, 26, 32],
                    alpha: 0.05,
                    delta: 0.02,
                },
                "old",
            )
        },
        variants: vec![variant("old"), variant("new")],
        metrics: vec![Metric::throughput()],
        environment: environment(),
        origin: None,
        runs: Vec::new(),
        failures: failures(),
        profiles: Vec::new(),
        calibration: None,
        machines: Vec::new(),
    }
}

/// A machine and two programs.
fn environment() -> Environment {
    let program = |variant: &str, version: &str| MeasuredProgram {
        variant: variant.into(),
        path: format!("/opt/node-{variant}/bin/node").into(),
        version: Some(version.into()),
        versions: [("v8".to_owned(), "12.4".to_owned())].into(),
        ..MeasuredProgram::default()
    };
    Environment {
        cpu: Some("AMD EPYC 7763".into()),
        cpus: Some(4),
        memory_bytes: Some(16 << 30),
        kernel: Some("Linux 6.8.0".into()),
        governors: vec!["performance".into()],
        aslr: Some(true),
        load: Some([0.12, 0.3, 0.25]),
        programs: vec![program("old", "v22.1.0"), program("new", "v22.2.0")],
        speedwell: Some("0.1.0".into()),
        ..Environment::default()
    }
}
