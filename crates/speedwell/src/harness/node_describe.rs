//! From the events of `describe` to jobs.

use super::job::{Description, Job, Parameter, Request, Route, Source, Trial};
use super::node_events::Events;
use super::{Message, http_tool, node_core};
use crate::model::{Case, Value, ValueKind};

/// What the file said of itself.
pub(super) fn described(source: &Source, request: &Request, events: &Events) -> Description {
    let mut description = Description::default();
    let Some(benchmark) = events.first("benchmark") else {
        return description;
    };
    description.parameters = parameters(benchmark);
    let draft = draft(source, request, benchmark);
    if benchmark.get("setup").as_deref() == Some("1") {
        // Its set-up must run once before all cases, so the file has to start them itself.
        let arguments = node_core::set_arguments(request);
        let flags = Vec::new();
        description.jobs = vec![Job {
            route: Route::Parent,
            arguments,
            flags,
            ..draft
        }];
        return description;
    }
    description.jobs = events
        .all("case")
        .map(|event| job(event, benchmark, &draft))
        .collect();
    if description.jobs.is_empty() {
        let warning = format!(
            "'{}' has no cases: its own filter leaves none.",
            source.name
        );
        description.warnings.push(warning);
    }
    description
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

/// What all cases of the file have in common.
fn draft(source: &Source, request: &Request, benchmark: &Message) -> Job {
    let text = std::fs::read_to_string(&source.file).unwrap_or_default();
    let set = request.sets.iter().rfind(|(name, _)| name == "benchmarker");
    let tool = http_tool::choose(
        &text,
        set.map(|(_, value)| value.as_str()),
        request.trial != Trial::No,
    );
    let (label, flags) = (source.name.clone(), benchmark.list("flags"));
    node_core::job(
        source,
        request,
        label,
        Route::Direct,
        flags,
        Vec::new(),
        &tool,
    )
}

fn job(event: &Message, benchmark: &Message, draft: &Job) -> Job {
    let mut arguments = event.list("args");
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
