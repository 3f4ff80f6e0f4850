//! Unmodified Node.js core benchmark scripts with their folder's own, untouched `common.js`.
//!
//! [`super::probe`] enumerates the cases. Each sample is one process, started directly in the role
//! that the original gives to its grandchildren, so that it costs one start of Node.js instead of
//! two or three. Scripts that start their cases in their own ways are executed whole.

use crate::attempt::{invalid, not_described};
use crate::job::{Description, Job, Parameter, Request, Route, Setting, Source, Trial};
use crate::node::http_tool::{
    Choice, Library, OWN, Shim, choose, next_serial, shown_name, stands_in_for, with_surroundings,
};
use crate::node::probe::{Declared, Enumeration, FOREIGN, Probed, Recorded, probe, skip_reason};
use crate::node::reports::Reports;
use crate::node::runtime::Runtime;
use crate::{Attempt, Harness, protocol};
use speedwell_model::{Case, Cause, Value};
use speedwell_process::{Channel, Spec, run};
use std::path::{Path, PathBuf};

/// Harness for folders with their own `common.js`.
pub struct NodeCore;

impl Harness for NodeCore {
    fn describe(&self, source: &Source, request: &Request) -> Description {
        if let Some(reason) = refusal(&request.program) {
            let spec = Spec::new(&request.program);
            return not_described(source, invalid(reason), &spec, None);
        }
        let text = std::fs::read_to_string(&source.file).unwrap_or_default();
        let tool = choose(&text, request, Library::NodeCore);
        let enumerated = if request.trial == Trial::No {
            enumerate(source, request)
        } else {
            enumerate_trial(source, request)
        };
        match enumerated {
            Probed::Cases(found) => described(source, request, found, &tool),
            Probed::NeedsParent => whole_file(source, request, &tool),
            Probed::Failed(cause, spec, outcome) => {
                not_described(source, cause, &spec, outcome.as_ref().as_ref())
            }
        }
    }

    fn perform(&self, job: &Job, setting: &Setting<'_>) -> Attempt {
        // Replay commands omit port and search path, which are ours to choose.
        let bare = bare_spec(job, setting);
        let (spec, shim) = with_http_tool(bare.clone(), job.http_tool.as_deref());
        let bare = with_stand_in(bare, shim.as_ref());
        let refusal = refusal(&setting.program);
        if let Some(reason) = job.unavailable.as_deref().or(refusal) {
            return Attempt::refused(&bare, reason, job, setting);
        }
        let expected = (job.route == Route::Direct).then_some(1);
        let mut reports = Reports::new(expected, Some(job.source.name.clone()), job.test);
        reports.shim = shim;
        match run(&setting.layout.apply(&spec), &mut reports) {
            Err(error) => Attempt::not_started(&bare, &error, job, setting),
            Ok(outcome) => {
                let mut fault = reports.verdict();
                if fault == Some(Cause::Silent) {
                    let output = format!("{}{}", outcome.stdout.text(), outcome.stderr.text());
                    let skipped = skip_reason(&output).map(|reason| Cause::Skipped { reason });
                    fault = skipped.or(fault);
                }
                let mut seen = reports.observations;
                // We cannot read a clock inside the folder's library, so this is the time of the
                // whole process; with an HTTP tool, most of it would be the tool's.
                if let (Some(_), [one], None) = (expected, &mut seen[..], &job.http_tool) {
                    let usage = &outcome.usage;
                    one.add_cpu_times(&[usage.cpu_ns() as f64]);
                }
                Attempt::new(&bare, &outcome, seen, fault, job, setting)
            }
        }
    }

    fn usual_program(&self, _source: &Source) -> PathBuf {
        PathBuf::from("node")
    }
}

/// Returns why the program cannot measure such a folder.
fn refusal(program: &Path) -> Option<&'static str> {
    (Runtime::detect(program) == Runtime::Deno).then_some(
        "a folder with a common.js of its own reports over a channel of Node.js, over which Deno is not measured; files \
         that use the package 'speedwell' are",
    )
}

/// Enumerates the file's cases, with the user's values applied.
fn enumerate(source: &Source, request: &Request) -> Probed {
    probe(source, request, request.assignments())
}

/// Enumerates cases for a trial: every combination of non-numeric values, with the small numbers
/// that the file uses for trials. The original tries one case per file, so that broken ones go
/// unnoticed, and ignores the user's values.
fn enumerate_trial(source: &Source, request: &Request) -> Probed {
    let trial = |more: Vec<String>| {
        let mut arguments = vec!["--test".to_owned()];
        arguments.extend(request.assignments());
        arguments.extend(more);
        probe(source, request, arguments)
    };
    if request.trial == Trial::Own {
        return trial(Vec::new());
    }
    let (usual, small) = match (enumerate(source, request), trial(Vec::new())) {
        (Probed::Cases(usual), Probed::Cases(small)) => (usual, small),
        (_, small) => return small,
    };
    let more = words_left_out(&usual, &small, request);
    let mut found = if more.is_empty() {
        small
    } else {
        match trial(more) {
            Probed::Cases(found) => found,
            _ => small,
        }
    };
    found.cases.retain(|case| keeps_sets(case, request));
    for case in &mut found.cases {
        let measured = usual.cases.iter().find(|usual| same_words(case, usual));
        case.measured = measured
            .filter(|m| m.args != case.args)
            .cloned()
            .map(Box::new);
    }
    let mut seen = Vec::new();
    found.cases.retain(|case| {
        let new = !seen.contains(case);
        seen.push(case.clone());
        new
    });
    Probed::Cases(found)
}

/// Returns `name=value` for non-numeric values that the full cases have and the file's own trial
/// lacks, unless the file or the user chose a special value for that parameter.
fn words_left_out(usual: &Enumeration, small: &Enumeration, request: &Request) -> Vec<String> {
    let first = |found: &Enumeration, name: &str| {
        found
            .cases
            .first()
            .and_then(|case| value_of(case, name).map(str::to_owned))
    };
    parameters(&usual.cases)
        .into_iter()
        .filter(|parameter| !request.sets.iter().any(|(name, _)| *name == parameter.name))
        .filter(|parameter| first(usual, &parameter.name) == first(small, &parameter.name))
        .flat_map(|parameter| {
            let words = parameter.values.into_iter().skip(1);
            words
                .filter(|value| !matches!(value, Value::Number(_)))
                .map(|value| format!("{}={}", parameter.name, value.plain()))
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Whether two cases differ at most in numbers.
fn same_words(case: &Recorded, other: &Recorded) -> bool {
    let own = values(&case.args);
    let others = values(&other.args);
    own.len() == others.len()
        && own.iter().zip(&others).all(|(one, two)| {
            let numbers = matches!((&one.1, &two.1), (Value::Number(_), Value::Number(_)));
            one.0 == two.0 && (numbers || one.1 == two.1)
        })
}

fn keeps_sets(case: &Recorded, request: &Request) -> bool {
    request.sets.iter().all(|(name, _)| {
        value_of(case, name)
            .is_none_or(|value| request.sets.iter().any(|(n, v)| n == name && v == value))
    })
}

fn value_of<'a>(case: &'a Recorded, name: &str) -> Option<&'a str> {
    case.args
        .iter()
        .find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

fn described(source: &Source, request: &Request, found: Enumeration, tool: &Choice) -> Description {
    let mut description = Description {
        parameters: declared(source, request, &found),
        versions: found.versions.clone(),
        loaded: found.loaded().to_vec(),
        ..Default::default()
    };
    if found.cases.is_empty() {
        let warning = format!(
            "'{}' has no cases: its own filter leaves none.",
            source.name
        );
        description.warnings.push(warning);
    }
    description.jobs = found
        .cases
        .into_iter()
        .map(|case| {
            let job_for = |case: Recorded| {
                let job = Job {
                    label: Case::new(&source.name, values(&case.args)).id(),
                    flags: case.flags,
                    arguments: case.args,
                    ..protocol::draft(source, request)
                };
                with_tool(job, tool)
            };
            let measured = case.measured.clone().map(|case| Box::new(job_for(*case)));
            Job {
                measured,
                ..job_for(case)
            }
        })
        .collect();
    description
}

/// Returns the parameters that the file declares. If they could not be observed and the user set
/// values, the cases also carry names unknown to the file, so enumerates again without the values.
fn declared(source: &Source, request: &Request, found: &Enumeration) -> Vec<Parameter> {
    if let Some(declared) = &found.declared {
        let parameter = |known: &Declared| Parameter {
            name: known.name.clone(),
            values: known.values.clone(),
        };
        return declared.iter().map(parameter).collect();
    }
    if request.sets.is_empty() {
        return parameters(&found.cases);
    }
    let plain = Request {
        sets: Vec::new(),
        ..request.clone()
    };
    match enumerate(source, &plain) {
        Probed::Cases(found) => parameters(&found.cases),
        _ => parameters(&found.cases),
    }
}

fn whole_file(source: &Source, request: &Request, tool: &Choice) -> Description {
    let mut arguments = request.assignments();
    if request.trial != Trial::No {
        arguments.insert(0, "--test".into());
    }
    let job = Job {
        route: Route::Parent,
        arguments,
        ..protocol::draft(source, request)
    };
    Description {
        jobs: vec![with_tool(job, tool)],
        ..Description::default()
    }
}

/// Sets the HTTP tool of a job; a tool that the user chose becomes an argument as well.
pub(super) fn with_tool(mut job: Job, tool: &Choice) -> Job {
    match tool {
        Choice::NotNeeded => {}
        Choice::Missing { reason } => job.unavailable = Some(reason.clone()),
        Choice::Tool { name, argument } => {
            job.http_tool = Some(name.clone());
            let choice = format!("benchmarker={}", shown_name(name));
            if *argument && !job.arguments.contains(&choice) {
                job.arguments.push(choice);
            }
        }
    }
    job
}

/// Parses `name=value` words; value kinds are guessed until a report gives them.
fn values(arguments: &[String]) -> Vec<(String, Value)> {
    let pair = |word: &String| {
        let (name, value) = word.split_once('=')?;
        Some((name.to_owned(), Value::guess(value)))
    };
    arguments.iter().filter_map(pair).collect()
}

fn parameters(cases: &[Recorded]) -> Vec<Parameter> {
    let mut found: Vec<Parameter> = Vec::new();
    for (name, value) in cases.iter().flat_map(|case| values(&case.args)) {
        match found.iter_mut().find(|parameter| parameter.name == name) {
            Some(known) if known.values.contains(&value) => {}
            Some(known) => known.values.push(value),
            None => found.push(Parameter {
                name,
                values: vec![value],
            }),
        }
    }
    found
}

/// The process that gives one sample.
fn bare_spec(job: &Job, setting: &Setting<'_>) -> Spec {
    let mut spec = Spec::new(&setting.program);
    spec.arguments
        .extend(setting.variant.arguments.iter().cloned());
    spec.arguments.extend(job.flags.iter().cloned());
    spec.arguments
        .push(job.source.file.to_string_lossy().into_owned());
    spec.arguments
        .extend(job.arguments.iter().map(|word| argument_text(word, job)));
    spec.directory = Some(job.source.directory.clone());
    spec.unset = FOREIGN.map(str::to_owned).to_vec();
    spec.environment
        .extend(setting.variant.environment.iter().cloned());
    if job.route == Route::Direct {
        spec.environment
            .push(("NODE_RUN_BENCHMARK_FN".into(), String::new()));
    }
    if job.test {
        spec.environment
            .push(("NODEJS_BENCHMARK_ZERO_ALLOWED".into(), "1".into()));
    }
    spec.limit = setting.limit;
    spec.pin = setting.pin.cloned();
    spec.channel = Channel::NodeSocket;
    spec
}

/// Translates an argument for the folder's own library, which does not know our generator: it is
/// replaced by the name of a known tool.
fn argument_text(word: &str, job: &Job) -> String {
    match (word.strip_prefix("benchmarker="), &job.http_tool) {
        (Some(OWN), Some(tool)) => format!("benchmarker={}", stands_in_for(tool)),
        _ => word.to_owned(),
    }
}

/// Makes the chosen HTTP tool available: through a shim that saves its output, or directly if no
/// shim can be created.
fn with_http_tool(spec: Spec, tool: Option<&str>) -> (Spec, Option<Shim>) {
    let serial = next_serial();
    let Some(shim) = tool.and_then(|tool| Shim::new(tool, &serial)) else {
        return (with_surroundings(spec, tool), None);
    };
    let mut spec = with_surroundings(spec, None);
    if let Some((_, path)) = spec.environment.iter_mut().find(|(name, _)| name == "PATH") {
        *path = format!("{}:{path}", shim.folder().display());
    }
    spec.environment.extend(shim.environment());
    (spec, Some(shim))
}

/// Makes our generator available to the replay command as it was to the process.
fn with_stand_in(bare: Spec, shim: Option<&Shim>) -> Spec {
    let own = shim.filter(|shim| shim.tool() == OWN);
    match (own, std::env::var("PATH")) {
        (Some(shim), Ok(path)) => bare.env("PATH", format!("{}:{path}", shim.folder().display())),
        _ => bare,
    }
}
