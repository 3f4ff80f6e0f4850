//! What was measured on: machine, system, and the version of every program. Facts that nobody
//! looked up are not shown.

use super::digits::Uncertainty;
use super::document::{Block, Document, Fact};
use super::quantity::quantity;
use serde_json::json;
use speedwell_model::{Environment, Program};

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
            .map(|(name, value)| words_of(name, value)),
    );
    facts.extend(environment.programs.iter().map(program));
    facts
}

/// A further fact in words: `now_cpu_pressure_percent` 1.25 is "cpu pressure before" 1.25 %. Those of the moment were
/// taken when the session began.
fn words_of(name: &str, value: &str) -> Fact {
    let (name, when) = match name.strip_prefix("now_") {
        Some(name) => (name, " before"),
        None => (name, ""),
    };
    let number: Option<f64> = value.parse().ok();
    let (name, value) = match (
        name.strip_suffix("_percent"),
        name.strip_suffix("_bytes"),
        number,
    ) {
        (Some(name), _, Some(_)) => (name, format!("{value} %")),
        (_, Some(name), Some(bytes)) => (name, quantity(bytes, "B", Uncertainty::Unknown)),
        _ => (name, value.to_owned()),
    };
    (name.replace('_', " ") + when, value)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_told_in_words() {
        let told = |name, value| {
            let (name, value) = words_of(name, value);
            format!("{name}: {value}")
        };
        assert_eq!(
            told("now_cpu_pressure_percent", "1.25"),
            "cpu pressure before: 1.25 %"
        );
        assert_eq!(
            told("now_memory_available_bytes", "1073741824"),
            "memory available before: 1.00 GiB"
        );
        assert_eq!(
            told("transparent_huge_pages", "madvise"),
            "transparent huge pages: madvise"
        );
    }
}
