//! What was measured on: machine, system, and the version of every program. Facts that nobody
//! looked up are not shown.

use super::digits::Uncertainty;
use super::document::{Block, Document, Fact};
use super::quantity::quantity;
use crate::model::{Environment, Program};
use serde_json::json;

/// The block with the environment, of the source of that name where there are several; for machines
/// all of it, as it is stored.
pub fn environment(environment: &Environment, source: Option<&str>) -> Document {
    let mut document = Document::new("environment");
    let facts = facts(environment);
    if !facts.is_empty() {
        let title = match source {
            Some(source) => format!("Measured on: {source}"),
            None => "Measured on".into(),
        };
        document.push(Block::Appendix {
            title,
            instead: None,
            blocks: vec![Block::Facts(facts)],
        });
    }
    // The model's own form is the contract; it has no value that JSON lacks.
    let data = serde_json::to_value(environment).unwrap_or_else(|_| json!({}));
    document.attach("environments", json!([data]));
    document
}

fn facts(environment: &Environment) -> Vec<Fact> {
    let memory = environment
        .memory_bytes
        .map(|bytes| quantity(bytes as f64, "B", Uncertainty::Unknown));
    let load = environment
        .load
        .map(|load| load.map(|one| format!("{one:.2}")).join(" "));
    let aslr = environment
        .aslr
        .map(|on| if on { "on" } else { "off" }.to_owned());
    let governors = Some(environment.governors.join(" ")).filter(|names| !names.is_empty());
    let known = [
        ("host", environment.host.clone()),
        ("processor", processor(environment)),
        ("memory", memory),
        ("system", environment.kernel.clone()),
        ("frequency governor", governors),
        ("address randomisation", aslr),
        ("load before", load),
        ("speedwell", environment.speedwell.clone()),
    ];
    let mut facts: Vec<Fact> = known
        .into_iter()
        .filter_map(|(name, value)| value.map(|value| (name.to_owned(), value)))
        .collect();
    facts.extend(
        environment
            .facts
            .iter()
            .map(|(name, value)| (name.clone(), value.clone())),
    );
    facts.extend(environment.programs.iter().map(program));
    facts
}

fn processor(environment: &Environment) -> Option<String> {
    let number = environment.cpus.map(|number| format!("{number} ×"));
    let words: Vec<String> = number.into_iter().chain(environment.cpu.clone()).collect();
    Some(words.join(" ")).filter(|words| !words.is_empty())
}

fn program(program: &Program) -> Fact {
    let mut words: Vec<String> = program.version.clone().into_iter().collect();
    words.push(program.path.display().to_string());
    let versions: Vec<_> = program
        .versions
        .iter()
        .map(|(name, version)| format!("{name} {version}"))
        .collect();
    if !versions.is_empty() {
        words.push(format!("({})", versions.join(", ")));
    }
    (format!("variant {}", program.variant), words.join(" "))
}
