//! From the events of `describe` to jobs.

use super::Message;
use super::events::Events;
use super::job::{Description, Job, Parameter, Request, Route, Source};
use speedwell_model::{Case, Value, ValueKind};

/// What the file said of itself; its jobs are copies of `draft`.
pub(super) fn described(
    source: &Source,
    request: &Request,
    events: &Events,
    draft: &Job,
) -> Description {
    let mut description = Description::default();
    for benchmark in events.all("benchmark") {
        description.parameters.extend(parameters(benchmark));
        let draft = Job {
            flags: benchmark.list("flags"),
            ..draft.clone()
        };
        if benchmark.get("setup").as_deref() == Some("1") {
            // Its set-up must run once before all cases, so the file has to start them itself.
            description.jobs.push(Job {
                route: Route::Parent,
                arguments: request.words(),
                flags: Vec::new(),
                ..draft
            });
            continue;
        }
        let name = benchmark.get("name");
        let cases = events
            .all("case")
            .filter(|case| case.get("benchmark") == name);
        description
            .jobs
            .extend(cases.map(|case| job(case, benchmark, &draft)));
    }
    let versions = events.first("described").map(|last| last.list("versions"));
    description.versions = versions
        .iter()
        .flatten()
        .filter_map(|word| word.split_once('='))
        .map(|(name, version)| (name.to_owned(), version.to_owned()))
        .collect();
    if description.jobs.is_empty() && events.first("described").is_some() {
        description.warnings.push(nothing(source, events));
    }
    description
}

/// Why a file that describes itself has no cases.
fn nothing(source: &Source, events: &Events) -> String {
    let name = &source.name;
    match events.first("benchmark") {
        Some(_) => format!("'{name}' has no cases: its own filter leaves none."),
        None => format!("'{name}' declares no benchmark."),
    }
}

/// The declared kind of a parameter.
fn kind_of(benchmark: &Message, name: &str) -> ValueKind {
    match benchmark.get(&format!("type.{name}")).as_deref() {
        Some("int" | "float") => ValueKind::Number,
        Some("bool") => ValueKind::Bool,
        _ => ValueKind::Text,
    }
}

fn parameters(benchmark: &Message) -> Vec<Parameter> {
    let names = benchmark
        .keys()
        .filter_map(|key| key.strip_prefix("param."));
    names
        .map(|name| {
            let kind = kind_of(benchmark, name);
            let texts = benchmark.list(&format!("param.{name}"));
            let values = texts
                .iter()
                .filter_map(|text| Value::parse(text, kind))
                .collect();
            Parameter {
                name: name.to_owned(),
                values,
            }
        })
        .collect()
}

fn job(event: &Message, benchmark: &Message, draft: &Job) -> Job {
    let job = job_with(event.list("args"), event, benchmark, draft);
    let measured = event.list("measured");
    Job {
        measured: (!measured.is_empty())
            .then(|| Box::new(job_with(measured, event, benchmark, draft))),
        ..job
    }
}

fn job_with(mut arguments: Vec<String>, event: &Message, benchmark: &Message, draft: &Job) -> Job {
    let pairs = arguments.iter().filter_map(|word| word.split_once('='));
    let values = pairs.map(|(name, text)| {
        let value = Value::parse(text, kind_of(benchmark, name));
        (name.to_owned(), value.unwrap_or_else(|| Value::guess(text)))
    });
    let case = Case::new(event.get("benchmark").unwrap_or_default(), values.collect());
    let more: Vec<String> = draft
        .arguments
        .iter()
        .filter(|word| !arguments.contains(word))
        .cloned()
        .collect();
    arguments.extend(more);
    Job {
        label: case.id(),
        arguments,
        case: Some(case),
        ..draft.clone()
    }
}
