//! Reads the `context` of a google/benchmark file, which describes the machine, the library and the
//! program.
//!
//! Decides which facts are worth comparing and which make the results unreliable. Does not read the
//! results themselves. Start at [`read_environment`].

use crate::foreign::json::JsonNode;
use anyhow::Result;
use jiff::Timestamp;
use speedwell_model::{Environment, MeasuredProgram};

/// Keys that are read separately or are irrelevant for comparisons. Any other key whose value is a
/// string becomes a fact, because the library writes custom context (`--benchmark_context`) next to
/// its own keys.
const NON_FACT_KEYS: [&str; 3] = ["date", "host_name", "executable"];

/// Returns the environment of the measurement, with the executable as the program of `variant`.
///
/// # Errors
/// Fails if a known key has a value of the wrong type.
pub fn read_environment(context: &JsonNode<'_>, variant: &str) -> Result<Environment> {
    let flag = |key: &str| context.get(key).map(|node| node.is_true());
    let mut environment = Environment {
        host: context.text_of("host_name")?.map(str::to_owned),
        cpus: context.number_of("num_cpus")?.map(|count| count as u32),
        aslr: flag("aslr_enabled"),
        load: read_load_average(context)?,
        ..Environment::default()
    };
    let facts = &mut environment.facts;
    for (key, value) in context.members().filter(|(key, _)| !NON_FACT_KEYS.contains(key)) {
        let fact = value.as_str().map(|fact| (key.to_owned(), fact.to_owned()));
        facts.extend(fact);
    }
    let mhz =
        context.number_of("mhz_per_cpu")?.map(|mhz| ("mhz_per_cpu".to_owned(), mhz.to_string()));
    facts.extend(mhz);
    facts.extend(format_caches(context)?.map(|caches| ("caches".to_owned(), caches)));
    let scaling = flag("cpu_scaling_enabled").map(|on| if on { "on" } else { "off" });
    facts.extend(scaling.map(|state| ("cpu_scaling".to_owned(), state.to_owned())));
    environment.programs.extend(context.text_of("executable")?.map(|path| MeasuredProgram {
        variant: variant.to_owned(),
        path: path.into(),
        ..MeasuredProgram::default()
    }));
    Ok(environment)
}

/// Formats caches like `L1 Data 32768 B, L2 Unified 1048576 B shared by 2`.
fn format_caches(context: &JsonNode<'_>) -> Result<Option<String>> {
    let Some(list) = context.get("caches") else {
        return Ok(None);
    };
    let mut caches = Vec::new();
    for cache in list.elements()? {
        let level = cache.require("level")?.number()?;
        let kind = cache.require("type")?.text()?;
        let size = cache.require("size")?.number()?;
        let shared = match cache.number_of("num_sharing")? {
            Some(count) if count > 1.0 => format!(" shared by {count}"),
            _ => String::new(),
        };
        caches.push(format!("L{level} {kind} {size} B{shared}"));
    }
    Ok((!caches.is_empty()).then(|| caches.join(", ")))
}

/// Returns the three load averages, or `None` if the file does not contain them.
fn read_load_average(context: &JsonNode<'_>) -> Result<Option<[f64; 3]>> {
    let Some(list) = context.get("load_avg") else {
        return Ok(None);
    };
    let numbers: Vec<f64> = list.elements()?.iter().map(JsonNode::number).collect::<Result<_>>()?;
    Ok(numbers.try_into().ok())
}

/// Returns when the program ran; `None` if the date has no UTC offset, as in old files.
pub fn started_unix_ms(context: &JsonNode<'_>) -> Option<i64> {
    let date = context.get("date")?.text().ok()?;
    let date: Timestamp = date.parse().ok()?;
    Some(date.as_second() * 1_000)
}

/// Returns problems that affect all figures. The library warns about the same problems at run time.
pub fn warnings(context: &JsonNode<'_>) -> Vec<String> {
    let mut remarks = Vec::from_iter(debug_build_warning(context));
    if context.get("cpu_scaling_enabled").is_some_and(|node| node.is_true()) {
        remarks.push("CPU frequency scaling was enabled while measuring".to_owned());
    }
    remarks
}

/// Returns a warning if the library itself was built without optimization.
pub fn debug_build_warning(context: &JsonNode<'_>) -> Option<String> {
    let build = context.get("library_build_type")?;
    (build.value() == "debug")
        .then(|| "the benchmark library is a debug build, so times are too long".to_owned())
}
