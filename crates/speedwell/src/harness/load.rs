//! Benchmarks of definition files: HTTP loads.
//!
//! The process that performs a case is this program itself, asked for one load over the harness
//! protocol (`cli/load/performed.rs`): it starts the server, verifies an answer, sends the load and
//! reports. So every run has a fresh server and a fresh generator. It gets its load as options of `speedwell load`, so
//! that a failure can be repeated by hand.

use super::job::{Description, Job, Parameter, Request, Setting, Source};
use super::protocol::{self, Loop};
use super::{Attempt, Harness, node_core, own_program};
use crate::definition::{self, Definition, LoadBenchmark, blanks_of, fill};
use crate::model::load_spec::{Client, LoadSpec};
use crate::model::{Case, TooManyCases, Value};
use crate::process::{Channel, Spec, quote};
use anyhow::{Context, ensure};
use std::path::PathBuf;

/// The harness for definition files.
pub struct Load;

impl Harness for Load {
    fn describe(&self, source: &Source, request: &Request) -> Description {
        let definition = match source.definition().and_then(definition::of) {
            Ok(definition) => definition,
            Err(error) => return protocol::unreadable(source, &error),
        };
        let mut description = Description::default();
        for load in &definition.loads {
            let own = load.parameters.iter().map(|(name, values)| Parameter {
                name: name.clone(),
                values: values.clone(),
            });
            description.parameters.extend(own);
            let cases = match cases(load, request) {
                Ok(cases) => cases,
                Err(error) => return protocol::unreadable(source, &error.into()),
            };
            let jobs = cases
                .into_iter()
                .map(|case| protocol::job_of(source, request, case));
            description.jobs.extend(jobs);
        }
        description
    }

    fn perform(&self, job: &Job, setting: &Setting<'_>) -> Attempt {
        match spec(job, setting) {
            Ok(spec) => {
                let args = ["load".to_owned()].into_iter().chain(spec.to_args());
                let mut plain = Spec::new(own_program())
                    .args(args)
                    .args(["--no-save".to_owned()]);
                plain.directory = Some(job.source.directory.clone());
                plain.limit = setting.limit;
                let spec = Spec {
                    channel: Channel::Harness,
                    pin: setting.pin.cloned(),
                    ..plain.clone().args(["--harness"])
                };
                protocol::perform(job, setting, &spec, &plain, Loop::OfTheFile)
            }
            Err(error) => {
                let spec = Spec::new(own_program());
                Attempt::refused(&spec, &format!("{error:#}"), job, setting)
            }
        }
    }

    fn usual_program(&self, source: &Source) -> PathBuf {
        let definition = source.definition().and_then(definition::of).ok();
        let program = definition.and_then(|definition| definition.program);
        program.unwrap_or_else(own_program)
    }
}

/// Every combination of the values, those that the user set in the place of the declared ones.
fn cases(load: &LoadBenchmark, request: &Request) -> Result<Vec<Case>, TooManyCases> {
    let values_of = |(name, declared): &(String, Vec<Value>)| {
        let set = request.sets.iter().filter(|(known, _)| known == name);
        let set: Vec<Value> = set
            .filter_map(|(_, text)| match declared.first() {
                Some(first) => Value::parse(text, first.kind()),
                None => Some(Value::guess(text)),
            })
            .collect();
        let values = if set.is_empty() {
            declared.clone()
        } else {
            set
        };
        (name.clone(), values)
    };
    let parameters: Vec<_> = load.parameters.iter().map(values_of).collect();
    let rows = Case::combinations(&parameters)?.into_iter();
    Ok(rows
        .map(|mut values| {
            // Figures of different clients are different measurements.
            if load.spec.client != Client::Builtin {
                let client = Value::Text(load.spec.client.name().to_owned());
                values.push(("client".to_owned(), client));
            }
            Case::new(&load.name, values)
        })
        .collect())
}

/// The load of one run.
fn spec(job: &Job, setting: &Setting<'_>) -> anyhow::Result<LoadSpec> {
    let case = job.case.as_ref().context("the case is not known")?;
    let definition = definition::of(job.source.definition()?)?;
    let load = definition
        .loads
        .iter()
        .find(|load| load.name == case.benchmark);
    let load = load.with_context(|| format!("the file has no benchmark '{}'", case.benchmark))?;
    let common = patched(&definition, load, setting)?;
    let port = node_core::free_port().context("no port is free")?;
    let environment = &setting.variant.environment;
    match &common.serve {
        Some(serve) => check_program(serve, &definition, setting)?,
        None => ensure!(
            environment.is_empty() && setting.variant.program.is_none(),
            "the variant '{}' changes the server, but none is started\nhint: 'serve' is the command \
             that starts it",
            setting.variant.name
        ),
    }
    let program = program(setting);
    let mut spec = common.fill(&|text| {
        fill(text, |name| match name {
            "port" => Some(port.to_string()),
            "program" => Some(program.clone()),
            name => case.value(name).map(Value::plain),
        })
    });
    spec.serve = spec.serve.map(|serve| exports(environment) + &serve);
    for (name, value) in &case.values {
        match (name.as_str(), value) {
            ("concurrency", Value::Number(number)) => {
                let is_whole = number.fract() == 0.0 && (1.0..=4e9).contains(number);
                ensure!(
                    is_whole,
                    "a concurrency is a whole number of at least 1, not {number}"
                );
                spec.concurrency = Some(*number as u32);
            }
            ("rate", Value::Number(number)) => spec.rate = Some(*number),
            _ => {}
        }
    }
    Ok(if job.test {
        spec.single_request()
    } else {
        spec
    })
}

/// What all cases have in common, with what the variant puts in the place of what the benchmark says.
fn patched(
    definition: &Definition,
    load: &LoadBenchmark,
    setting: &Setting<'_>,
) -> anyhow::Result<LoadSpec> {
    let name = &setting.variant.name;
    let mut patches = definition.variants.iter();
    let patch = patches.find(|patch| patch.variant.name == *name);
    let mut spec = load.spec.clone();
    if let Some(patch) = patch {
        spec.serve = patch.serve.clone().or(spec.serve);
        spec.url = patch.url.clone().unwrap_or(spec.url);
    }
    ensure!(!spec.url.is_empty(), "the variant '{name}' has no url");
    Ok(spec)
}

/// A program that a variant names and nobody starts would be compared with itself.
fn check_program(
    serve: &str,
    definition: &Definition,
    setting: &Setting<'_>,
) -> anyhow::Result<()> {
    let variant = setting.variant;
    let is_named = variant.program.is_some() || !variant.arguments.is_empty();
    let starts_it = blanks_of(serve).iter().any(|name| name == "program");
    ensure!(
        !is_named || starts_it,
        "the variant '{}' names a program or arguments, but 'serve' does not start '{{program}}'",
        variant.name
    );
    ensure!(
        !starts_it || variant.program.is_some() || definition.program.is_some(),
        "nothing says what '{{program}}' is\nhint: program = \"node\" at the top of the file, or in \
         the variant"
    );
    Ok(())
}

/// Program and arguments of the variant, for a shell.
fn program(setting: &Setting<'_>) -> String {
    let program = setting.program.to_string_lossy();
    let mut words = vec![quote(&program)];
    words.extend(setting.variant.arguments.iter().map(|word| quote(word)));
    words.join(" ")
}

/// Variables for the server alone: what sends the load must not have them.
fn exports(environment: &[(String, String)]) -> String {
    let one = |(name, value): &(String, String)| format!("export {name}={}; ", quote(value));
    environment.iter().map(one).collect()
}
