//! Reads results of asv (airspeed velocity): one file per machine, revision and environment, plus
//! files that describe the benchmarks and the machine.
//!
//! Decides what asv's values mean: a number becomes a run, null a failed benchmark, and NaN a
//! skipped benchmark. The source is "Benchmark suite layout and file formats" in asv's developer
//! documentation (API 1 and 2). Does not search for files. Start at [`read_file`], or at [`AsvRow`]
//! for the two layouts of results.

use super::session_builder::{
    DroppedEntries, FileSessions, ImportedProcess, InputFile, MetricDirections, ONLY_VARIANT,
    PointKey, SessionBuilder, revision_origin, unknown_directions_warning, value_sample,
};
use crate::foreign::json::{self, JsonContent, JsonNode};
use crate::foreign::unit::MetricConversion;
use anyhow::{Context, Result, ensure};
use serde_json::Value as Json;
use speedwell_model::{
    Case, Environment, FailureCause, MeasuredProgram, MetricDirection, ParameterValue, Sample,
    Session, quote,
};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Descriptions of the benchmarks and the machine, from the files next to the results.
#[derive(Debug, Clone, Default)]
pub struct AsvMetadata {
    /// Benchmarks by name, from `benchmarks.json`.
    benchmarks: HashMap<String, AsvBenchmark>,
    /// Facts about the machine, from `machine.json`.
    machine: BTreeMap<String, String>,
}

/// A benchmark as described by `benchmarks.json`.
#[derive(Debug, Clone, Default)]
struct AsvBenchmark {
    kind: String,
    unit: String,
    parameters: Vec<String>,
    /// Version of the benchmark's code. Results of any other version are left out, because they
    /// measured different code.
    version: Option<String>,
}

impl AsvMetadata {
    /// Adds the content of `benchmarks.json`.
    ///
    /// # Errors
    /// Fails if the file is not JSON, or a value has the wrong type; the message names its
    /// location.
    pub fn with_benchmarks(mut self, bytes: &[u8]) -> Result<AsvMetadata> {
        let parsed = json::parse(bytes)?;
        for (name, value) in JsonNode::from_root(&parsed).members() {
            let node = JsonNode::at_location(name.to_owned(), value);
            if !value.is_object() {
                // The only value that is not an object is the version of the file format.
                continue;
            }
            let text = |key: &str| -> Result<String> {
                Ok(node.text_of(key)?.unwrap_or_default().to_owned())
            };
            let parameters =
                node.get("param_names").map_or(Ok(Vec::new()), |names| read_texts(&names))?;
            let (kind, unit) = (text("type")?, text("unit")?);
            let version = node.text_of("version")?.map(str::to_owned);
            let benchmark = AsvBenchmark { kind, unit, parameters, version };
            self.benchmarks.insert(name.to_owned(), benchmark);
        }
        Ok(self)
    }

    /// Adds the content of `machine.json`.
    ///
    /// # Errors
    /// Fails if the file is not JSON, or does not name the machine.
    pub fn with_machine(mut self, bytes: &[u8]) -> Result<AsvMetadata> {
        let parsed = json::parse(bytes)?;
        let root = JsonNode::from_root(&parsed);
        root.require("machine")?.text()?;
        self.machine = read_facts(&root);
        Ok(self)
    }
}

/// Returns whether the data are a result file.
pub fn recognizes(file: &JsonContent<'_>) -> bool {
    file.has_key(1, "commit_hash") && file.has_key(1, "requirements")
}

/// Reads a result file without the files that describe the benchmarks and the machine. The kind of
/// a benchmark is therefore inferred from its name.
///
/// # Errors
/// See [`read_file`].
pub fn read(file: &InputFile<'_>, remarks: &mut Vec<String>) -> Result<Vec<Session>> {
    Ok(vec![read_file(file, &AsvMetadata::default(), remarks)?])
}

/// Reads a result file.
///
/// # Errors
/// Fails if the file is not JSON, no result can be read, or the file belongs to another machine.
pub fn read_file(
    file: &InputFile<'_>,
    metadata: &AsvMetadata,
    remarks: &mut Vec<String>,
) -> Result<Session> {
    let parsed = json::parse_marking_not_finite(file.bytes)?;
    let root = JsonNode::from_root(&parsed);
    let mut reading = AsvReader {
        metadata,
        better: file.better,
        commit: root.require("commit_hash")?.text()?,
        guesses: BTreeSet::new(),
        other_versions: 0,
        left_out: DroppedEntries::default(),
    };
    let rows = read_rows(&root, &mut reading.left_out)?;
    let mut points = FileSessions::new("asv");
    let imported = points.session_for(point_key(&root, metadata, &rows)?);
    let mut work = BTreeMap::new();
    for row in &rows {
        if reading.add_results(row, imported) {
            // Like asv, assume that a result without a version belongs to the current version of
            // its benchmark.
            let version = row.version.as_ref().or_else(|| {
                let described = metadata.benchmarks.get(row.name)?;
                described.version.as_ref()
            });
            work.extend(version.map(|version| (row.name.to_owned(), version.clone())));
        }
    }
    let left_out = reading.left_out.into_warning(imported.is_empty())?;
    remarks.extend(unknown_directions_warning(&reading.guesses));
    remarks.extend(match reading.other_versions {
        0 => None,
        1 => Some(
            "the results of 1 benchmark were left out: they belong to another version of the benchmark"
                .to_owned(),
        ),
        many => Some(format!(
            "the results of {many} benchmarks were left out: they belong to other versions of these benchmarks"
        )),
    });
    remarks.extend(left_out);
    let mut sessions = points.into_sessions(file.label)?;
    let mut session = sessions.pop().context("it contains no results")?;
    session.design.work = work;
    Ok(session)
}

/// Returns the facts that identify the session of a file.
fn point_key(root: &JsonNode<'_>, metadata: &AsvMetadata, rows: &[AsvRow<'_>]) -> Result<PointKey> {
    let mut facts = metadata.machine.clone();
    facts.extend(read_facts(&root.require("params")?));
    let machine = facts.remove("machine");
    if let (Some(name), Some(folder)) = (&machine, metadata.machine.get("machine")) {
        ensure!(
            name == folder,
            "it is from machine '{name}', but its folder belongs to machine '{folder}'"
        );
    }
    let committed = root.number_of("date")?.map(|date| date as i64);
    let environment_name = derive_environment_name(root)?;
    let environment = read_environment(root, machine, facts, &environment_name)?;
    let started = rows.iter().filter_map(|row| row.started).min_by(f64::total_cmp);
    let mut origin = revision_origin(root.require("commit_hash")?.text()?);
    origin.committed_unix_ms = committed;
    Ok(PointKey {
        origin,
        environment,
        environment_name,
        started_unix_ms: started.map(|started| started as i64).or(committed),
        ..PointKey::default()
    })
}

/// Returns the name of the environment. Old files lack the name; this function then derives it from
/// the requirements in the file, as asv does.
fn derive_environment_name(root: &JsonNode<'_>) -> Result<String> {
    if let Some(name) = root.text_of("env_name")? {
        return Ok(name.to_owned());
    }
    let mut name = format!("py{}", root.text_of("python")?.unwrap_or_default());
    for (package, version) in member_facts(root, "requirements") {
        name.push_str(&format!("-{package}{version}"));
    }
    Ok(name)
}

/// Returns the members of an object that are strings, numbers or null, as strings.
fn read_facts(node: &JsonNode<'_>) -> BTreeMap<String, String> {
    let text = |value: &Json| match value {
        Json::String(text) => Some(text.clone()),
        Json::Number(number) => Some(number.to_string()),
        Json::Null => Some(String::new()),
        _ => None,
    };
    let facts = node.members();
    facts.filter_map(|(key, value)| Some((key.to_owned(), text(value)?))).collect()
}

/// Returns the facts in an optional member.
fn member_facts(root: &JsonNode<'_>, key: &str) -> BTreeMap<String, String> {
    root.get(key).map(|node| read_facts(&node)).unwrap_or_default()
}

fn read_environment(
    root: &JsonNode<'_>,
    machine: Option<String>,
    mut facts: BTreeMap<String, String>,
    name: &str,
) -> Result<Environment> {
    let mut take = |key: &str| facts.remove(key).filter(|fact| !fact.is_empty());
    let (cpu, kernel, cpus) = (take("cpu"), take("os"), take("num_cpu"));
    take("version");
    take("python");
    // The key `python` holds a version or, if asv did not create the environment, the path of the
    // interpreter.
    let python = root.text_of("python")?.map(|python| MeasuredProgram {
        variant: ONLY_VARIANT.to_owned(),
        path: if python.contains('/') { python } else { "python" }.into(),
        version: Some(python.to_owned()).filter(|python| !python.contains('/')),
        ..MeasuredProgram::default()
    });
    for (package, version) in member_facts(root, "requirements") {
        facts.remove(&package);
        facts.insert(format!("requirement_{package}"), version);
    }
    for (variable, value) in member_facts(root, "env_vars") {
        facts.insert(format!("variable_{variable}"), value);
    }
    facts.insert(Environment::NAME.to_owned(), name.to_owned());
    Ok(Environment {
        machine,
        cpu,
        cpus: cpus.and_then(|count| count.parse().ok()),
        kernel,
        facts,
        programs: python.into_iter().collect(),
        ..Environment::default()
    })
}

/// The results of a benchmark in a file.
struct AsvRow<'a> {
    name: &'a str,
    /// One element per combination of parameter values; `None` if all combinations failed.
    results: Option<Vec<JsonNode<'a>>>,
    /// The values of each parameter, as Python source.
    parameters: Vec<Vec<String>>,
    version: Option<String>,
    /// Start of the measurement, in milliseconds since the Unix epoch.
    started: Option<f64>,
    statistics: AsvStatistics<'a>,
    /// Individual measurements of each combination.
    samples: Vec<JsonNode<'a>>,
}

/// Statistics of each combination.
enum AsvStatistics<'a> {
    /// API 2: a list per statistic, by names like `q_25`.
    Lists(HashMap<String, Vec<JsonNode<'a>>>),
    /// API 1: an object per combination.
    Objects(Vec<JsonNode<'a>>),
}

/// Returns all readable benchmarks of a file, in file order.
fn read_rows<'a>(root: &JsonNode<'a>, left_out: &mut DroppedEntries) -> Result<Vec<AsvRow<'a>>> {
    let columns = root.get("result_columns").map(|node| read_texts(&node)).transpose()?;
    let results = root.require("results")?;
    let row = |(name, value): (&'a str, &'a Json)| {
        let node = JsonNode::at_location(format!("results.{name}"), value);
        match &columns {
            Some(columns) => AsvRow::from_columns(name, &node, columns),
            None => AsvRow::from_members(name, &node, root),
        }
    };
    let rows = results.members().map(row);
    Ok(rows.filter_map(|row| left_out.ok_or_count(row)).collect())
}

impl<'a> AsvRow<'a> {
    /// Reads a benchmark in API 2: a list with one element per name in `result_columns`. Elements
    /// at the end of the list may be missing.
    fn from_columns(name: &'a str, node: &JsonNode<'a>, columns: &[String]) -> Result<AsvRow<'a>> {
        let elements = node.elements()?;
        let present = columns.iter().zip(elements).filter(|(_, element)| !element.is_null());
        let by_column: HashMap<&str, JsonNode<'a>> =
            present.map(|(key, node)| (key.as_str(), node)).collect();
        let list = |key: &str| by_column.get(key).map(JsonNode::elements).transpose();
        let mut statistics = HashMap::new();
        for column in columns {
            if let Some(key) = column.strip_prefix("stats_") {
                statistics.extend(list(column)?.map(|values| (key.to_owned(), values)));
            }
        }
        Ok(AsvRow {
            name,
            results: list("result")?,
            parameters: read_parameters(by_column.get("params"))?,
            version: by_column.get("version").map(JsonNode::text).transpose()?.map(str::to_owned),
            started: by_column.get("started_at").map(JsonNode::number).transpose()?,
            statistics: AsvStatistics::Lists(statistics),
            samples: list("samples")?.unwrap_or_default(),
        })
    }

    /// Reads a benchmark in API 1: a value, or an object with the values of all combinations.
    fn from_members(name: &'a str, node: &JsonNode<'a>, root: &JsonNode<'a>) -> Result<AsvRow<'a>> {
        let root_member =
            |key: &str| root.get(key).and_then(|values_by_name| values_by_name.get(name));
        let version = root_member("benchmark_version").map(|node| node.text()).transpose()?;
        let started = root_member("started_at").map(|node| node.number());
        let (results, parameters, samples, statistics) = if node.value().is_object() {
            (
                node.get("result").map(|node| one_or_more(&node)),
                read_parameters(node.get("params").as_ref())?,
                node.get("samples").map(|node| one_or_more(&node)),
                node.get("stats").map(|node| one_or_more(&node)),
            )
        } else {
            (Some(vec![node.clone()]), Vec::new(), None, None)
        };
        Ok(AsvRow {
            name,
            results,
            parameters,
            version: version.map(str::to_owned),
            started: started.transpose()?,
            statistics: AsvStatistics::Objects(statistics.unwrap_or_default()),
            samples: samples.unwrap_or_default(),
        })
    }

    /// Returns the parameter values of every combination in asv's order, with the last parameter
    /// varying fastest.
    fn parameter_combinations(
        &self,
        names: &[String],
    ) -> Result<Vec<Vec<(String, ParameterValue)>>> {
        let values = self.parameters.iter().map(|texts| parse_values(texts));
        let parameters: Vec<(String, Vec<ParameterValue>)> =
            names.iter().cloned().zip(values).collect();
        let combinations = Case::cartesian_product(&parameters)
            .map_err(anyhow::Error::from)
            .with_context(|| format!("'results.{}'", self.name))?;
        let result_count = self.results.as_ref().map_or(combinations.len(), Vec::len);
        ensure!(
            result_count == combinations.len(),
            "'results.{}' has {result_count} results for {} combinations of its parameters",
            self.name,
            combinations.len()
        );
        Ok(combinations)
    }

    fn statistic(&self, key: &str, index: usize) -> Option<f64> {
        let object = match &self.statistics {
            AsvStatistics::Lists(lists) => return lists.get(key)?.get(index)?.number().ok(),
            AsvStatistics::Objects(objects) => objects.get(index)?,
        };
        let bound = |end: usize| object.get("ci_99")?.elements().ok()?.get(end).cloned();
        let statistic = match key {
            "ci_99_a" => bound(0),
            "ci_99_b" => bound(1),
            _ => object.get(key),
        };
        statistic?.number().ok()
    }
}

/// Returns the elements of a list, or a single value as a list of one.
fn one_or_more<'a>(node: &JsonNode<'a>) -> Vec<JsonNode<'a>> {
    node.elements().unwrap_or_else(|_| vec![node.clone()])
}

fn read_texts(node: &JsonNode<'_>) -> Result<Vec<String>> {
    let text = |node: &JsonNode<'_>| Ok(node.text()?.to_owned());
    node.elements()?.iter().map(text).collect()
}

fn read_parameters(node: Option<&JsonNode<'_>>) -> Result<Vec<Vec<String>>> {
    let Some(node) = node else { return Ok(Vec::new()) };
    node.elements()?.iter().map(read_texts).collect()
}

/// Parses values written by Python's `repr`. Strings lose their quotes, unless two values would
/// become equal.
fn parse_values(sources: &[String]) -> Vec<ParameterValue> {
    let values: Vec<ParameterValue> = sources.iter().map(|text| parse_value(text)).collect();
    let distinct: HashSet<String> = values.iter().map(ParameterValue::to_string).collect();
    if distinct.len() == values.len() {
        values
    } else {
        sources.iter().cloned().map(ParameterValue::Text).collect()
    }
}

fn parse_value(text: &str) -> ParameterValue {
    match text {
        "True" => return ParameterValue::Bool(true),
        "False" => return ParameterValue::Bool(false),
        _ => {}
    }
    let inside = ['\'', '"'].iter().find_map(|&quote| {
        let inside = text.strip_prefix(quote)?.strip_suffix(quote)?;
        (!inside.contains([quote, '\\'])).then_some(inside)
    });
    match inside {
        Some(inside) => ParameterValue::Text(inside.to_owned()),
        None => ParameterValue::infer_value(text),
    }
}

struct AsvReader<'a> {
    metadata: &'a AsvMetadata,
    better: &'a MetricDirections,
    commit: &'a str,
    /// Metrics whose direction is unknown, because neither the unit nor the user states it.
    guesses: BTreeSet<String>,
    /// Number of benchmarks with results of another version.
    other_versions: usize,
    left_out: DroppedEntries,
}

impl AsvReader<'_> {
    /// Adds the results of a benchmark. If they belong to a version other than the one in
    /// `benchmarks.json`, adds nothing and returns false.
    fn add_results(&mut self, row: &AsvRow<'_>, imported: &mut SessionBuilder) -> bool {
        let benchmark = self.metadata.benchmarks.get(row.name);
        // Like asv, accept results without a version.
        if let (Some(benchmark), Some(version)) = (benchmark, &row.version)
            && benchmark.version.as_ref() != Some(version)
        {
            self.other_versions += 1;
            return false;
        }
        let names = parameter_names(benchmark, row.parameters.len());
        let measure = self.benchmark_metric(row.name, benchmark);
        let combinations = self.left_out.ok_or_count(row.parameter_combinations(&names));
        for (index, values) in combinations.into_iter().flatten().enumerate() {
            let case = Case::new(row.name, values);
            let result = row.results.as_ref().and_then(|results| results.get(index));
            let cause = match result.filter(|result| !result.is_null()) {
                None => FailureCause::invalid("it failed, or asv did not finish it"),
                Some(result) if result.is_not_finite() => {
                    FailureCause::Skipped { reason: "reported by asv".to_owned() }
                }
                Some(result) => {
                    let process = build_process(row, index, result, &measure, imported);
                    if let Some(process) = self.left_out.ok_or_count(process) {
                        imported.add_run(case, process);
                    }
                    continue;
                }
            };
            let pattern = quote(&format!("^{}\\b", row.name));
            let commit = quote(&format!("{}^!", self.commit));
            imported.add_failure(&case, cause, format!("asv run --bench {pattern} {commit}"));
        }
        true
    }

    /// Returns metric, unit and direction of a benchmark.
    fn benchmark_metric(
        &mut self,
        name: &str,
        benchmark: Option<&AsvBenchmark>,
    ) -> MetricConversion {
        let function = name.rsplit('.').next().unwrap_or(name).to_ascii_lowercase();
        let kind = benchmark.map_or("", |benchmark| benchmark.kind.as_str());
        let is_type = |type_name: &str, prefix: &str| match kind {
            "" => function.starts_with(prefix),
            kind => kind == type_name,
        };
        let (is_memory, is_peak) = (is_type("memory", "mem_"), is_type("peakmemory", "peakmem_"));
        let unit = match benchmark {
            // asv writes the word `unit` if a benchmark has no unit.
            Some(benchmark) if benchmark.unit == "unit" => "",
            Some(benchmark) => benchmark.unit.as_str(),
            None if is_memory || is_peak => "bytes",
            None if is_type("track", "track_") => "",
            None => "seconds",
        };
        let mut measure = MetricConversion::from_unit(unit);
        if measure.metric.unit == "B" && (is_peak || is_memory) {
            measure.metric.name = if is_peak { "peak_memory" } else { "memory" }.to_owned();
        }
        if measure.metric.better == MetricDirection::Unknown {
            match self.better.direction_of(&measure.metric.name) {
                Some(better) => measure.metric.better = better,
                None => drop(self.guesses.insert(measure.metric.name.clone())),
            }
        }
        measure
    }
}

/// Returns names for `count` parameters: the names in `benchmarks.json` if there are `count` of
/// them and they are usable and distinct, otherwise asv's default names.
fn parameter_names(benchmark: Option<&AsvBenchmark>, count: usize) -> Vec<String> {
    let names = benchmark.map_or(&[][..], |benchmark| &benchmark.parameters);
    let usable = names.iter().filter(|name| Case::refuses_name(name).is_none());
    let distinct: HashSet<&String> = usable.collect();
    if names.len() == count && distinct.len() == count {
        return names.to_vec();
    }
    (1..=count).map(|number| format!("param{number}")).collect()
}

/// Converts a result into a run, with its individual measurements if the file has them.
fn build_process(
    row: &AsvRow<'_>,
    index: usize,
    result: &JsonNode<'_>,
    measure: &MetricConversion,
    imported: &mut SessionBuilder,
) -> Result<ImportedProcess> {
    let value = result.scaled_number(measure.factor)?;
    let metric = imported.declare_metric(measure.metric.clone());
    let measured = row.samples.get(index).filter(|node| !node.is_null());
    let single = measured.map(|node| node.elements()).transpose()?;
    let number = row.statistic("number", index).filter(|number| *number > 0.0);
    let is_time = measure.metric.unit == "ns";
    let loop_sample = |value: f64| Sample {
        iterations: number,
        elapsed_ns: number.filter(|_| is_time).map(|number| (value * number) as u64),
        ..value_sample(&metric, value)
    };
    let samples = match single.filter(|single| !single.is_empty()) {
        Some(single) => {
            let sample = |node: &JsonNode<'_>| node.scaled_number(measure.factor).map(loop_sample);
            single.iter().map(sample).collect::<Result<_>>()?
        }
        None => vec![loop_sample(value)],
    };
    let notes = spread_note(row, index).into_iter().collect();
    Ok(ImportedProcess { samples, notes, ..ImportedProcess::default() })
}

/// Returns what asv reports about the spread of a result, as a sentence.
fn spread_note(row: &AsvRow<'_>, index: usize) -> Option<String> {
    let pair =
        |low: &str, high: &str| Some((row.statistic(low, index)?, row.statistic(high, index)?));
    let quartiles = pair("q_25", "q_75").map(|(low, high)| format!("quartiles {low} and {high}"));
    let interval = pair("ci_99_a", "ci_99_b")
        .map(|(low, high)| format!("a 99% interval from {low} to {high}"));
    let ranges: Vec<String> = quartiles.into_iter().chain(interval).collect();
    let repeat_count =
        row.statistic("repeat", index).map(|repeat_count| format!(" of {repeat_count} repeats"));
    (!ranges.is_empty()).then(|| {
        format!("asv reports {}{}.", ranges.join(" and "), repeat_count.unwrap_or_default())
    })
}
