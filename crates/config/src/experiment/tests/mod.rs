//! Two complete experiments, parsed and resolved, and every kind of error.

mod mistakes;
mod places;
mod programs;

use super::*;
use rustix::process::Signal;
use speedwell_model::assignment::{
    BodyRule, EnvVarChange, LoadWarmup, MetricSource, ProcessorShares, ProfilingTool, ProofSource,
    ReadinessCheck, RunAssignment, StopSignal, TargetWork, VariantProof,
};
use speedwell_model::experiment::{ProcessorPins, ProfileCondition, ReportOutput, SeedSource};
use speedwell_model::load::spec::LoadClient;
use speedwell_model::{Metric, MetricDirection, RunOrder, Verdict};
use std::time::Duration;

const TOPOLOGIES: &str =
    include_str!("../../../../speedwell/tests/golden/experiments/topologies.toml");
const OVERHEAD: &str =
    include_str!("../../../../speedwell/tests/golden/experiments/module-overhead.toml");

fn read_with(text: &str, set: &[(&str, &str)], usable: u32) -> Result<Experiment> {
    let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let set: Vec<(String, String)> = set.iter().map(pair).collect();
    resolve_file(&parse_toml(text)?, "file", Path::new("/x"), &set, usable)
}

pub fn read_experiment(text: &str) -> Result<Experiment> {
    read_with(text, &[], 8)
}

pub fn message_of(text: &str) -> String {
    match read_experiment(text) {
        Ok(_) => panic!("this was read without an error:\n{text}"),
        Err(error) => format!("{error:#}"),
    }
}

pub fn assignment_of(
    experiment: &Experiment,
    group: &str,
    case: usize,
    variant: &str,
) -> RunAssignment {
    let group = experiment.find_group(group).unwrap();
    experiment.assignment(group, &group.cases[case], variant, 42).unwrap()
}

pub fn service_of(assignment: &RunAssignment) -> &speedwell_model::assignment::ServerWork {
    match &assignment.work {
        TargetWork::Server(service) => service,
        _ => panic!("{assignment:?}"),
    }
}

pub fn case_ids(experiment: &Experiment, group: &str) -> Vec<String> {
    let cases = &experiment.find_group(group).unwrap().cases;
    cases.iter().map(|case| case.id()).collect()
}

fn as_json(toml: &str) -> String {
    let value: toml::Value = toml::from_str(toml).unwrap();
    serde_json::to_string(&value).unwrap()
}

fn metric_names(metrics: &[Metric]) -> Vec<&str> {
    metrics.iter().map(|metric| metric.name.as_str()).collect()
}

#[test]
fn the_topologies_are_six_variants_of_one_server_on_seven_of_eight_processors() {
    let found = read_experiment(TOPOLOGIES).unwrap();
    assert_eq!(found.name, "http-worker-topologies");
    assert_eq!(found.cpus, 7);
    assert_eq!(found.claim_number("workers"), Some(7.0));
    assert_eq!(found.claim_number("cpus"), Some(7.0));
    let variants: Vec<&str> = found.variants.iter().map(|v| v.name.as_str()).collect();
    assert_eq!(variants, ["red", "green", "blue", "purple", "brown", "cyan"]);
    let purple = &found.variants[3];
    assert_eq!(purple.color.as_deref(), Some("#8e44ad"));
    assert_eq!(purple.factors[1], ("calc".to_owned(), "one worker".to_owned()));
    assert_eq!(case_ids(&found, "random-fib"), ["http-worker-topologies/random-fib"]);
    let group = found.find_group("random-fib").unwrap();
    assert_eq!(group.seed, SeedSource::PerBlock);
    let metrics = [
        "latency_p50",
        "latency_p95",
        "latency_p99",
        "latency_max",
        "throughput",
        "cpu_per_request",
    ];
    assert_eq!(metric_names(&group.metrics), metrics);
}

#[test]
fn the_topologies_define_comparisons_claims_and_outputs() {
    let found = read_experiment(TOPOLOGIES).unwrap();
    let pins = ProcessorPins { target: None, load: 1 };
    assert_eq!(
        (found.plan.runs, found.plan.order, found.plan.pins, found.plan.budget),
        (Some(8), RunOrder::Blocks, Some(pins), Some(Duration::from_secs(600)))
    );
    assert_eq!(found.compare.baseline, "red");
    assert_eq!(found.compare.threshold, Some(0.05));
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    assert_eq!(
        found.compare.all_pairs(),
        [pair("red", "green"), pair("blue", "purple"), pair("brown", "cyan")]
    );
    assert_eq!(found.claims.len(), 2);
    assert_eq!(found.claims[0].expression.terms().len(), 6);
    assert_eq!(found.claims[0].rows.len(), 1);
    let ReportOutput::Chart { name, stages, .. } = &found.outputs[0] else {
        panic!("{:?}", found.outputs)
    };
    assert_eq!((name.as_str(), stages[0].len(), stages[2].len()), ("served", 2, 6));
    assert_eq!(found.outputs.len(), 4);
    let RequirementKind::Program { command, at_least, .. } = &found.requirements[0].need else {
        panic!("{:?}", found.requirements)
    };
    assert_eq!((command.join(" ").as_str(), at_least.as_deref()), ("node --version", Some("18")));
}

#[test]
fn a_topology_is_resolved_down_to_the_last_word() {
    let found = read_experiment(TOPOLOGIES).unwrap();
    let cyan = assignment_of(&found, "random-fib", 0, "cyan");
    assert_eq!(
        cyan.target.command,
        ["node", "server.js", "--port={port}", "--seed=42", "--http=7", "--fib=7"]
    );
    assert_eq!(cyan.target.directory, Path::new("/x"));
    assert_eq!(cyan.target.environment, []);
    let service = service_of(&cyan);
    assert_eq!(service.children, Some(14));
    assert_eq!((service.port, service.private_network), (None, false));
    let ready = ReadinessCheck { path: Some("/".to_owned()), status: 200, within_ms: 10_000 };
    assert_eq!(service.ready, ready);
    assert_eq!(service.stop, StopSignal { signal: Signal::TERM.as_raw(), grace_ms: 3000 });
    assert_eq!(service.load.spec.client, LoadClient::Builtin);
    assert_eq!(service.load.spec.url, "http://127.0.0.1:{port}/");
    assert_eq!((service.load.spec.concurrency, service.load.spec.pipeline), (Some(250), None));
    assert_eq!((service.load.spec.count, service.load.spec.time), (Some(8000), None));
    assert_eq!(service.load.warmup, LoadWarmup::Requests(500));
    assert_eq!(service.verify.statuses, [(200, 200)]);
    assert_eq!(service.verify.body, Some(BodyRule::Regex(r"^\s*\d+$".to_owned())));
    assert!(!service.verify.same_bytes);
    let children = |name: &str| service_of(&assignment_of(&found, "random-fib", 0, name)).children;
    assert_eq!(children("red"), Some(0));
    assert_eq!(children("purple"), Some(8));
    assert_eq!(assignment_of(&found, "random-fib", 0, "red").target.command.len(), 4);
}

#[test]
fn values_of_set_replace_params_and_parameters_of_groups() {
    let found = read_with(TOPOLOGIES, &[("workers", "2"), ("clients", "1k")], 8).unwrap();
    let cyan = assignment_of(&found, "random-fib", 0, "cyan");
    assert_eq!(cyan.target.command[4], "--http=2");
    assert_eq!(service_of(&cyan).load.spec.concurrency, Some(1000));
    assert_eq!(found.claim_number("cpus"), Some(7.0));
    let tests =
        [("test", "fibonacci-async-es2017-native"), ("server", "hapi"), ("server", "restify")];
    let found = read_with(OVERHEAD, &tests, 8).unwrap();
    assert_eq!(case_ids(&found, "http").len(), 2);
    assert_eq!(
        case_ids(&found, "promises"),
        ["crash-collector-overhead/promises test=fibonacci-async-es2017-native"]
    );
    let lost = read_with(TOPOLOGIES, &[("worker", "2")], 8).unwrap_err().to_string();
    assert!(lost.contains("'worker'") && lost.contains("did you mean 'workers'?"), "{lost}");
    let twice = read_with(TOPOLOGIES, &[("workers", "1"), ("workers", "2")], 8).unwrap_err();
    assert!(twice.to_string().contains("is set to several values"), "{twice}");
}

#[test]
fn few_processors_are_not_divided() {
    assert_eq!(read_with(TOPOLOGIES, &[], 2).unwrap().cpus, 2);
    assert_eq!(read_with(TOPOLOGIES, &[], 4).unwrap().cpus, 3);
    let pins = ProcessorPins { target: Some(2), load: 2 };
    let shared = Some(ProcessorShares { target: 2, load: 2 });
    assert_eq!(
        (pins.divide_processors(8), pins.divide_processors(4), pins.divide_processors(3)),
        (shared, shared, None)
    );
    assert_eq!(ProcessorPins { target: Some(7), load: 2 }.divide_processors(8), None);
}

#[test]
fn the_overhead_of_a_module_is_measured_in_three_groups() {
    let found = read_experiment(OVERHEAD).unwrap();
    let counts: Vec<usize> = found.groups.iter().map(|group| group.cases.len()).collect();
    assert_eq!(counts, [5, 7, 2]);
    let promises = found.find_group("promises").unwrap();
    assert_eq!(metric_names(&promises.metrics), ["time", "instructions:u", "cpu_time", "max_rss"]);
    assert_eq!(promises.metrics[0], Metric::new("time", "ns", MetricDirection::Lower));
    assert_eq!(found.plan.control.as_deref(), Some("baseline"));
    assert_eq!(found.plan.precision, Some(0.02));
    assert_eq!(found.plan.budget, Some(Duration::from_secs(1800)));
    assert_eq!(found.compare.method.as_deref(), Some("rank"));
    let candidates: Vec<String> = found.compare.all_pairs().into_iter().map(|p| p.1).collect();
    assert_eq!(candidates, ["session-only", "debugger-enabled", "collector"]);
    let gates: Vec<String> = found
        .compare
        .gates
        .iter()
        .map(|(group, gate)| format!("{}: {gate}", group.as_deref().unwrap_or("all")))
        .collect();
    assert_eq!(gates, ["promises: time < +250%", "http: throughput > -5%"]);
    let profile = found.profile.as_ref().unwrap();
    let differs = ProfileCondition::Verdict { verdict: Verdict::Same, equal: false };
    assert_eq!(
        (&profile.when, profile.tool, profile.after_warmup),
        (&differs, Some(ProfilingTool::Auto), true)
    );
    let packages = RequirementKind::Packages { directory: "/x/servers".into(), lockfile: true };
    assert_eq!(found.requirements[1].need, packages);
}

#[test]
fn the_target_loads_the_module_and_a_proof_checks_it() {
    let found = read_experiment(OVERHEAD).unwrap();
    let run = assignment_of(&found, "promises", 2, "collector");
    assert_eq!(run.target.command, ["node", "src/fibonacci-async-es2017-native.js"]);
    assert_eq!(run.target.directory, Path::new("/x/promise-performance-tests"));
    let append = EnvVarChange::Append("NODE_OPTIONS".into(), "--require=/x/collector.js".into());
    let mode = EnvVarChange::Set("CC_MODE".into(), "uncaught".into());
    assert_eq!(run.target.environment, [append, mode]);
    let proof = VariantProof {
        place: ProofSource::Stderr,
        pattern: "\"mode\":\"uncaught\"".to_owned(),
        at_exit: true,
    };
    assert_eq!(run.proofs, [proof]);
    assert_eq!(run.work, TargetWork::Command);
    assert_eq!(run.also, ["instructions:u", "cpu_time", "max_rss"]);
    assert_eq!(run.figures[0].factor, 1e6);
    let pattern = r"Time\((?P<name>[^)]+)\): (?P<value>[\d.]+) ms";
    assert_eq!(run.figures[0].from, MetricSource::Regex(pattern.to_owned()));
    let plain = assignment_of(&found, "promises", 2, "baseline");
    assert_eq!((plain.target.environment, plain.proofs), (Vec::new(), Vec::new()));
}

#[test]
fn exceptions_change_only_their_own_case() {
    let found = read_experiment(OVERHEAD).unwrap();
    let hapi = assignment_of(&found, "http", 2, "collector");
    let prefix = assignment_of(&found, "http", 3, "collector");
    let big = assignment_of(&found, "http", 6, "collector");
    assert_eq!(hapi.target.command[1], "benchmarks/hapi.cjs");
    assert_eq!(service_of(&hapi).load.spec.url, "http://127.0.0.1:{port}/");
    assert_eq!(service_of(&hapi).ready.path.as_deref(), Some("/"));
    assert_eq!(service_of(&prefix).load.spec.url, "http://127.0.0.1:{port}/greet/hello");
    assert_eq!(service_of(&prefix).ready.path.as_deref(), Some("/greet/hello"));
    let hello = BodyRule::Json(serde_json::json!({"hello": "world"}));
    assert_eq!(service_of(&prefix).verify.body, Some(hello.clone()));
    assert_eq!(service_of(&hapi).verify.body, Some(hello));
    assert_eq!(service_of(&big).verify.body, Some(BodyRule::JsonLength(200)));
    let service = service_of(&big);
    assert_eq!((service.port, service.private_network), (Some(3000), true));
    assert_eq!(service.stop, StopSignal { signal: Signal::INT.as_raw(), grace_ms: 2000 });
    assert_eq!((service.load.spec.concurrency, service.load.spec.pipeline), (Some(1000), Some(10)));
    let end = (service.load.spec.time, service.load.spec.count);
    assert_eq!(end, (Some(Duration::from_secs(10)), None));
    assert_eq!(service.load.warmup, LoadWarmup::Requests(12_000));
    assert!(service.verify.same_bytes);
}

#[test]
fn an_exit_status_may_depend_on_the_case_and_a_time_on_marks() {
    let found = read_experiment(OVERHEAD).unwrap();
    let crash = assignment_of(&found, "exit-delay", 0, "baseline");
    let clean = assignment_of(&found, "exit-delay", 1, "baseline");
    assert_eq!((crash.target.expected_exit, clean.target.expected_exit), (1, 0));
    let marks = MetricSource::Marks("mark:throw".to_owned(), "process-end".to_owned());
    assert_eq!((&crash.figures[0].from, crash.figures[0].factor), (&marks, 1.0));
    assert_eq!(crash.figures[0].metric, Metric::new("exit_delay", "ns", MetricDirection::Lower));
}

#[test]
fn json_says_the_same_as_toml() {
    for text in [TOPOLOGIES, OVERHEAD] {
        let toml = parse_toml(text).unwrap();
        let json = parse_json(&as_json(text)).unwrap();
        let one = resolve_file(&toml, "file", Path::new("/x"), &[], 8).unwrap();
        let other = resolve_file(&json, "file", Path::new("/x"), &[], 8).unwrap();
        for (group, twin) in one.groups.iter().zip(&other.groups) {
            for case in &group.cases {
                for variant in &one.variants {
                    let run = one.assignment(group, case, &variant.name, 7).unwrap();
                    assert_eq!(run, other.assignment(twin, case, &variant.name, 7).unwrap());
                }
            }
        }
        assert_eq!(one.claims, other.claims);
        assert_eq!((&one.plan, &one.compare), (&other.plan, &other.compare));
        assert_eq!((&one.outputs, &one.profile), (&other.outputs, &other.profile));
    }
}

#[test]
fn a_name_in_quotes_is_kept_as_it_is_with_its_dots() {
    let text = "[variant.\"v1.2\"]\n[variant.\"v2.0\"]\nlabel = \"new\"\n[benchmark.\"a.b\"]\nkind = \"load\"\n\
                url = \"http://127.0.0.1:8000/\"\n";
    let found = read_experiment(text).unwrap();
    let variants: Vec<&str> = found.variants.iter().map(|v| v.name.as_str()).collect();
    assert_eq!(variants, ["v1.2", "v2.0"]);
    assert_eq!(case_ids(&found, "a.b"), ["file/a.b concurrency=10"]);
    let wrong = message_of(&text.replace("label", "lable"));
    assert!(wrong.starts_with("line 3: [variant.\"v2.0\"] has an unknown key 'lable'"), "{wrong}");
}

#[test]
fn mistakes_in_json_are_reported_with_their_path() {
    let wrong =
        TOPOLOGIES.replace("pipelining", "x").replace("keepalive   = true", "keepalife = true");
    let json = parse_json(&as_json(&wrong)).unwrap();
    let message = resolve_file(&json, "file", Path::new("/x"), &[], 8).unwrap_err().to_string();
    assert_eq!(
        message,
        "'group[0].load' has an unknown key 'keepalife'\nhint: did you mean 'keepalive'?"
    );
}

#[test]
fn a_definition_is_parsed_once_and_again_only_with_other_values() {
    let definition = LazyDefinition::new(DefinitionFile {
        file: "/x/a.toml".into(),
        text: "[benchmark.b]\nkind = \"load\"\nurl = \"http://x/\"\nparameters = { size = 1 }"
            .into(),
        set: Vec::new(),
        cpus: 2,
        placement: None,
    });
    let parsed = definition.experiment().unwrap();
    assert!(std::ptr::eq(parsed, definition.experiment().unwrap()));
    let same = definition.experiment_with(Vec::new()).unwrap();
    assert!(matches!(same, Cow::Borrowed(same) if std::ptr::eq(parsed, same)));
    let set = vec![("size".to_owned(), "7".to_owned())];
    let other = definition.experiment_with(set).unwrap();
    assert_eq!(other.groups[0].cases[0].id(), "a/b concurrency=10 size=7");
}
