//! Random sessions with every oddity that the data model allows. A seed identifies one, so that a
//! failing test can be repeated.

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use speedwell_model::*;
use std::path::PathBuf;
use std::sync::Arc;

const WORDS: &[&str] = &[
    "utf8",
    "",
    "two words",
    "a=b",
    "line\nbreak",
    "\"quoted\"",
    "back\\slash",
    "é😀",
    "16",
    "true",
    "\u{1}",
    "-0",
    "null",
    "NaN",
    "it's",
];

/// Returns the session of `seed`. Its values are finite, so that `==` compares them.
pub fn arbitrary_session(seed: u64) -> Session {
    let mut dice = SessionGenerator(Xoshiro256PlusPlus::seed_from_u64(seed));
    let metrics: Vec<Metric> = ["throughput", "latency_p99", "heap used"][..dice.up_to(3)]
        .iter()
        .map(|name| metric(name))
        .collect();
    let variants: Vec<Variant> = (0..dice.up_to(3)).map(|n| variant(n, &mut dice)).collect();
    let cases: Vec<Arc<Case>> = (0..dice.up_to(4)).map(|n| Arc::new(case(n, &mut dice))).collect();
    let runs = (0..dice.up_to(12) as u32)
        .map(|slot| run(slot, &cases, &variants, &metrics, &mut dice))
        .collect();
    Session {
        id: format!("0197-{seed:08x}"),
        number: None,
        started_unix_ms: 1_700_000_000_000 + seed as i64,
        state: dice.one_of(&[
            SessionState::Running,
            SessionState::Complete,
            SessionState::Interrupted,
            SessionState::Imported,
        ]),
        tags: (0..dice.up_to(3)).map(|n| format!("tag-{seed}-{n}")).collect(),
        command: (0..dice.up_to(4)).map(|_| dice.word()).collect(),
        design: design(&variants, &mut dice),
        variants,
        metrics,
        environment: environment(&mut dice),
        origin: origin(&mut dice),
        runs,
        failures: (0..dice.up_to(4)).map(|_| failure(&mut dice)).collect(),
        machines: Vec::new(),
        profiles: (0..dice.up_to(4)).map(|place| recording(place, &mut dice)).collect(),
        calibration: None,
    }
}

/// A case has one profile per variant.
fn recording(place: usize, dice: &mut SessionGenerator) -> ProfileRecording {
    let mut profile = StackProfile::new(ProfileTool::Perf, WeightUnit::Nanoseconds);
    for _ in 0..dice.up_to(3) {
        profile.add([dice.word().as_str(), "main"], dice.0.random());
    }
    profile.notes = (1..dice.up_to(3)).map(|_| dice.word()).collect();
    let missing = ProfileOutcome::Missing(dice.word());
    ProfileRecording {
        case: Case::new(format!("g/{place}"), vec![("n".into(), ParameterValue::Number(2.0))]),
        variant: dice.word(),
        profile: dice.one_of(&[ProfileOutcome::Taken(Arc::new(profile)), missing]),
    }
}

struct SessionGenerator(Xoshiro256PlusPlus);

impl SessionGenerator {
    /// 1 to `limit`.
    fn up_to(&mut self, limit: usize) -> usize {
        self.0.random_range(1..=limit)
    }

    fn coin(&mut self) -> bool {
        self.0.random()
    }

    fn one_of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.0.random_range(0..choices.len())].clone()
    }

    fn word(&mut self) -> String {
        self.one_of(WORDS).to_owned()
    }

    fn maybe<T>(&mut self, make: impl FnOnce(&mut SessionGenerator) -> T) -> Option<T> {
        if self.coin() { Some(make(self)) } else { None }
    }

    /// Any finite number, across the full range and precision.
    fn number(&mut self) -> f64 {
        let plain = self.0.random_range(-1e6..1e6);
        let any = Some(f64::from_bits(self.0.random())).filter(|n| n.is_finite());
        let edges = [0.0, -0.0, 0.1, 1e300, 5e-324, 9_007_199_254_740_993.0, 1.0 / 3.0];
        match self.up_to(3) {
            1 => plain,
            2 => any.unwrap_or(plain),
            _ => self.one_of(&edges),
        }
    }
}

fn metric(name: &str) -> Metric {
    match name {
        "throughput" => Metric::throughput(),
        other => Metric::new(other, "µs", MetricDirection::Lower),
    }
}

fn variant(n: usize, dice: &mut SessionGenerator) -> Variant {
    Variant {
        name: format!("variant {n}"),
        program: dice.maybe(|dice| PathBuf::from(format!("/opt/{}", dice.word()))),
        arguments: (0..dice.up_to(3) - 1).map(|_| dice.word()).collect(),
        environment: (0..dice.up_to(3) - 1).map(|_| ("NAME".into(), dice.word())).collect(),
        snippet: dice.maybe(|dice| Snippet::new(SnippetLanguage::Sh, dice.word())),
        worktree: dice.maybe(|dice| VariantWorktree {
            revision: dice.word(),
            typed: dice.word(),
            checkout: dice.word().into(),
            folder: dice.word().into(),
            build: dice.maybe(|dice| BuildCommand {
                command: dice.word(),
                directory: dice.word().into(),
                limit_ms: dice.up_to(9) as u64,
            }),
            changes: dice
                .maybe(|dice| UncommittedChanges { files: dice.up_to(9), digest: dice.word() }),
            commits: dice
                .maybe(|dice| CommitsSince { count: dice.up_to(9), revision: dice.word() }),
        }),
        artifact: dice.maybe(|dice| dice.word().into()),
        work: (dice.maybe(|dice| (dice.word(), dice.word())).into_iter()).collect(),
        checkout_files: dice.maybe(|dice| dice.word()).into_iter().collect(),
    }
}

/// Parameters are drawn in either order, so that the same case occurs in both.
fn case(n: usize, dice: &mut SessionGenerator) -> Case {
    let mut values = vec![("len".into(), ParameterValue::Number(dice.number()))];
    for name in ["type", "encoding"] {
        let value = match dice.up_to(3) {
            1 => ParameterValue::Bool(dice.coin()),
            2 => ParameterValue::Number(16.0),
            _ => ParameterValue::Text(dice.word()),
        };
        values.push((name.to_owned(), value));
    }
    if dice.coin() {
        values.reverse();
    }
    Case::new(format!("group/benchmark-{}", n % 2), values)
}

fn run(
    slot: u32,
    cases: &[Arc<Case>],
    variants: &[Variant],
    metrics: &[Metric],
    dice: &mut SessionGenerator,
) -> Run {
    let names: Vec<Arc<str>> = metrics.iter().map(|metric| metric.name.as_str().into()).collect();
    Run {
        case: dice.one_of(cases),
        variant: dice.one_of(variants).name.into(),
        slot: slot / 2,
        block: slot / 4,
        build: None,
        started_unix_ms: dice.0.random_range(-1_000..4_000_000_000_000),
        wall_ns: dice.one_of(&[0, 1, 1_500_000_000, u64::MAX]),
        usage: dice.maybe(|dice| ResourceUsage {
            user_ns: dice.0.random(),
            system_ns: dice.0.random(),
            max_rss_bytes: dice.0.random(),
            involuntary_switches: dice.0.random(),
            voluntary_switches: dice.maybe(|dice| dice.0.random()),
            minor_faults: dice.maybe(|dice| dice.0.random()),
            major_faults: dice.maybe(|dice| dice.0.random()),
            migrations: dice.maybe(|dice| dice.0.random()),
        }),
        kernel_stats: dice.maybe(|dice| KernelStats {
            steal: dice.maybe(|dice| dice.0.random()),
            pressure: dice.maybe(|dice| dice.0.random()),
            frequency_mhz: dice.maybe(|dice| [3000.0, dice.0.random()]),
            throttled: dice.maybe(|dice| [0, dice.0.random()]),
            load: dice.maybe(|dice| dice.0.random()),
            temperature_c: dice.maybe(|dice| dice.0.random()),
        }),
        rejected_by: dice.maybe(SessionGenerator::word),
        machine: None,
        samples: (0..dice.up_to(7) - 1).map(|_| sample(&names, dice)).collect(),
        notes: (0..dice.up_to(3) - 1).map(|_| dice.word()).collect(),
        load: (dice.up_to(3) == 1).then(|| r#"{"label":"x","n":[1,2.5]}"#.into()),
    }
}

fn sample(names: &[Arc<str>], dice: &mut SessionGenerator) -> Sample {
    Sample {
        metric: dice.one_of(names),
        value: dice.number(),
        elapsed_ns: dice.maybe(|dice| dice.one_of(&[0, 7, 1 << 53, (1 << 53) + 1, u64::MAX - 1])),
        iterations: dice.maybe(SessionGenerator::number),
    }
}

fn design(variants: &[Variant], dice: &mut SessionGenerator) -> SessionDesign {
    let stopping = if dice.coin() {
        StoppingDesign::Fixed { runs: 30 }
    } else {
        StoppingDesign::Sequential { looks: vec![8, 14, 20], alpha: 0.05, delta: dice.number() }
    };
    SessionDesign {
        order: dice.one_of(&[
            RunOrder::Blocks,
            RunOrder::Alternate,
            RunOrder::Parallel,
            RunOrder::Imported,
        ]),
        stopping,
        baseline: variants[0].name.clone(),
        seed: dice.0.random(),
        runs_per_block: 2,
        threshold: None,
        experiment: None,
        definitions: Vec::new(),
        conditions: Vec::new(),
        gate_lines: dice.maybe(SessionGenerator::word).into_iter().collect(),
        reject: dice.maybe(|_| "steal>1%".parse().unwrap()).unwrap_or_default(),
        counting: dice.maybe(|dice| InstructionCounting {
            tool: dice.word(),
            cache_model: dice.coin(),
            also_timed: dice.coin(),
        }),
        steady: None,
        layout: LayoutVariation::default(),
        bisection: dice.maybe(|dice| BisectionRange {
            range: dice.word(),
            line: vec![LineRevision::default()],
            metric: dice.maybe(SessionGenerator::word),
            with_own_benchmarks: dice.coin(),
        }),
        purpose: Default::default(),
        work: Default::default(),
        order_choice: None,
    }
}

fn origin(dice: &mut SessionGenerator) -> Option<CodeOrigin> {
    let origin = CodeOrigin {
        revision: dice.word(),
        tree: dice.one_of(&[None, Some("feed".to_owned())]),
        parents: (0..dice.up_to(3)).map(|_| dice.word()).collect(),
        branch: dice.one_of(&[None, Some("fix/a b".to_owned())]),
        committed_unix_ms: dice.one_of(&[None, Some(-5), Some(1_769_868_300_000)]),
        subject: Some(dice.word()),
        dirty: dice.one_of(&[None, Some("beef".to_owned())]),
        source: dice.one_of(&[
            OriginSource::Option,
            OriginSource::Ci,
            OriginSource::Git,
            OriginSource::File,
        ]),
        ..CodeOrigin::default()
    };
    dice.one_of(&[None, Some(origin)])
}

fn environment(dice: &mut SessionGenerator) -> Environment {
    Environment {
        machine: dice.maybe(SessionGenerator::word),
        host: dice.maybe(SessionGenerator::word),
        cpu: dice.maybe(SessionGenerator::word),
        cpus: dice.maybe(|dice| dice.0.random()),
        memory_bytes: dice.maybe(|dice| dice.0.random()),
        kernel: dice.maybe(SessionGenerator::word),
        governors: (0..dice.up_to(3) - 1).map(|_| dice.word()).collect(),
        aslr: dice.maybe(SessionGenerator::coin),
        load: dice.maybe(|dice| [dice.number(), dice.number(), dice.number()]),
        facts: (0..dice.up_to(4)).map(|n| (format!("fact {n}"), dice.word())).collect(),
        programs: (0..dice.up_to(3) - 1).map(|_| program(dice)).collect(),
        speedwell: dice.maybe(SessionGenerator::word),
    }
}

fn program(dice: &mut SessionGenerator) -> MeasuredProgram {
    MeasuredProgram {
        variant: dice.word(),
        path: PathBuf::from(dice.word()),
        version: dice.maybe(SessionGenerator::word),
        size_bytes: dice.maybe(|dice| dice.0.random()),
        modified_unix_ms: dice.maybe(|dice| dice.0.random()),
        versions: [("v8".to_owned(), dice.word())].into(),
    }
}

fn failure(dice: &mut SessionGenerator) -> StepFailure {
    let reason = dice.word();
    StepFailure {
        step: dice.one_of(&[SessionStep::Describe, SessionStep::Build, SessionStep::Run]),
        benchmark: dice.word(),
        case: dice.maybe(SessionGenerator::word),
        variant: dice.maybe(SessionGenerator::word),
        slot: dice.maybe(|dice| dice.0.random()),
        cause: dice.one_of(&[
            FailureCause::Exit { code: -1 },
            FailureCause::Signal { signal: 9 },
            FailureCause::Timeout { limit_ms: u64::MAX },
            FailureCause::Start { reason: reason.clone() },
            FailureCause::Silent,
            FailureCause::Invalid { reason: reason.clone() },
            FailureCause::Skipped { reason },
        ]),
        stderr_tail: dice.word(),
        replay: dice.word(),
    }
}
