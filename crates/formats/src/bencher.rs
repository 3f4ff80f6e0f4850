//! Reads responses of bencher's `perf` endpoint, with results by branch, testbed, benchmark and
//! measure, and Bencher Metric Format (BMF), with results by benchmark and measure.
//!
//! A report becomes a session, and its testbed becomes the machine. Each iteration of the report
//! becomes a run, and each measure becomes a metric. Responses do not state the direction of a
//! measure, so the user must state it; BMF does not either, except for the measures that bencher
//! defines. Does not fetch responses. Start at [`read`] or [`read_metrics`].

use super::duplicate_names::{ListedResult, distinguish_results};
use super::session_builder::{
    DroppedEntries, FileSessions, ImportedProcess, InputFile, PointKey, SessionBuilder,
    revision_origin, value_sample,
};
use crate::foreign::json::{self, JsonContent, JsonNode};
use crate::foreign::unit::MetricConversion;
use anyhow::{Context, Result};
use indexmap::IndexMap;
use jiff::Timestamp;
use speedwell_model::{Case, CodeOrigin, Environment, Metric, Sample, Session};
use std::collections::HashMap;

/// Returns whether the data are a response of bencher's `perf` endpoint.
pub fn recognizes(file: &JsonContent<'_>) -> bool {
    file.has_key(1, "results") && file.has_key(3, "testbed")
}

/// Measures of BMF that bencher itself defines, with their units.
const BUILTIN_MEASURES: [(&str, &str); 4] =
    [("latency", "ns"), ("throughput", "ops/s"), ("build-time", "s"), ("file-size", "bytes")];

/// Keys of a figure in BMF.
const FIGURE_KEYS: [&[u8]; 3] = [b"value", b"lower_value", b"upper_value"];

/// Returns whether the data are BMF: objects nested three levels deep, the innermost with figures.
pub fn recognizes_metrics(file: &JsonContent<'_>) -> bool {
    let has_depth = |depth| file.keys().iter().any(|(found, _)| *found == depth);
    (1..=3).all(has_depth)
        && file.keys().iter().all(|(depth, key)| *depth < 3 || FIGURE_KEYS.contains(key))
}

/// Reads a file in BMF. Each benchmark becomes a run. Adds messages for the user to `remarks`.
///
/// # Errors
/// Fails if the content is not JSON, no figure can be read, or the direction of a measure is
/// unknown.
pub fn read_metrics(file: &InputFile<'_>, remarks: &mut Vec<String>) -> Result<Vec<Session>> {
    let parsed = json::parse(file.bytes)?;
    let mut imported = SessionBuilder::default();
    let mut left_out = DroppedEntries::default();
    for (benchmark, measures) in JsonNode::from_root(&parsed).members() {
        let measures = JsonNode::at_location(benchmark.to_owned(), measures);
        let mut process = ImportedProcess::default();
        for (measure, _) in measures.members() {
            let builtin = BUILTIN_MEASURES.iter().find(|(name, _)| *name == measure);
            let unit = MetricConversion::from_unit(builtin.map_or("", |(_, unit)| *unit));
            let better = match (file.better.direction_of(measure), builtin) {
                (None, Some(_)) => unit.metric.better,
                _ => file.better.require_direction(measure)?,
            };
            let metric = Metric::new(measure, &unit.metric.unit, better);
            let figure = measures.require(measure);
            let read = figure.and_then(|figure| read_figure(&figure, &metric, unit.factor));
            if let Some((sample, note)) = left_out.ok_or_count(read) {
                imported.declare_metric(metric);
                process.samples.push(sample);
                process.notes.extend(note);
            }
        }
        if !process.samples.is_empty() {
            imported.add_run(Case::new(benchmark, Vec::new()), process);
        }
    }
    remarks.extend(left_out.into_warning(imported.is_empty())?);
    Ok(vec![imported.into_session(file.label)?])
}

/// Reads a whole response. Adds messages for the user to `remarks`.
///
/// # Errors
/// Fails if the content is not JSON, no result can be read, or the direction of a measure is
/// unknown.
pub fn read(file: &InputFile<'_>, remarks: &mut Vec<String>) -> Result<Vec<Session>> {
    let parsed = json::parse(file.bytes)?;
    let root = JsonNode::from_root(&parsed);
    let project = optional_name(&root, "project")?.unwrap_or_default();
    let mut reports = BencherReports::default();
    for series in root.require("results")?.elements()? {
        reports.add_series(project, &series, file)?;
    }
    if reports.unnamed > 0 {
        remarks.push(format!(
            "number of reports without a commit: {}; their revisions are named after bencher's version numbers, such as \
             'version 0'",
            reports.unnamed
        ));
    }
    reports.into_sessions(file.label, remarks)
}

/// Returns the name of an optional member.
fn optional_name<'a>(node: &JsonNode<'a>, key: &str) -> Result<Option<&'a str>> {
    Ok(node.get(key).map(|member| member.text_of("name")).transpose()?.flatten())
}

/// The reports of a response. The figures of a report may be spread over several series.
#[derive(Default)]
struct BencherReports {
    /// One [`PointKey`] per session, stored under the facts that identify the session: the id of
    /// the report, the testbed and the branch.
    keys: IndexMap<String, PointKey>,
    points: Vec<ListedResult<ReportFigure>>,
    metrics: HashMap<String, Metric>,
    /// Number of reports without a commit.
    unnamed: usize,
    left_out: DroppedEntries,
}

impl BencherReports {
    /// Adds the results of one branch, testbed, benchmark and measure. Invalid results are dropped.
    ///
    /// # Errors
    /// Fails if the direction of the measure is unknown.
    fn add_series(
        &mut self,
        project: &str,
        series: &JsonNode<'_>,
        file: &InputFile<'_>,
    ) -> Result<()> {
        let Some((mut facts, points)) = self.left_out.ok_or_count(SeriesFacts::read(series)) else {
            return Ok(());
        };
        facts.metric.better = file.better.require_direction(&facts.metric.name)?;
        for node in points {
            if let Some(point) = self.left_out.ok_or_count(ReportFigure::read(&node, &facts)) {
                self.add_point(project, &facts, point);
            }
        }
        self.metrics.insert(facts.metric.name.clone(), facts.metric);
        Ok(())
    }

    fn add_point(&mut self, project: &str, series: &SeriesFacts, point: ReportFigure) {
        let branch = &point.origin.branch;
        let key = serde_json::json!([point.report, series.testbed, branch]).to_string();
        if !self.keys.contains_key(&key) {
            self.unnamed += usize::from(!point.has_commit);
        }
        let entry = self.keys.entry(key);
        let measurement = entry.index();
        entry.or_insert_with(|| PointKey {
            suite: project.to_owned(),
            key: point.report.clone(),
            origin: point.origin.clone(),
            environment: Environment {
                machine: Some(series.testbed.clone()),
                ..Environment::default()
            },
            started_unix_ms: point.started_unix_ms,
            ..PointKey::default()
        });
        self.points.push(ListedResult {
            measurement,
            case: Case::new(&series.benchmark, Vec::new()),
            // A benchmark has one result per measure and iteration.
            metric: format!("{} {}", series.metric.name, point.iteration),
            details: series.slug.iter().cloned().collect(),
            content: point,
        });
    }

    fn into_sessions(self, label: &str, remarks: &mut Vec<String>) -> Result<Vec<Session>> {
        remarks.extend(self.left_out.into_warning(self.points.is_empty())?);
        let mut runs: IndexMap<(usize, String, u64), (Case, ImportedProcess)> = IndexMap::new();
        for result in distinguish_results(self.points, remarks)? {
            let key = (result.measurement, result.case.id(), result.content.iteration);
            let (_, process) =
                runs.entry(key).or_insert_with(|| (result.case, ImportedProcess::default()));
            process.samples.push(result.content.sample);
            process.notes.extend(result.content.note);
        }
        runs.sort_by(|first, _, second, _| first.0.cmp(&second.0));
        let mut points = FileSessions::new("bencher");
        for ((measurement, ..), (case, process)) in runs {
            let imported = points.session_for(self.keys[measurement].clone());
            for sample in &process.samples {
                let metric = self.metrics.get(&*sample.metric).cloned();
                metric.map(|metric| imported.declare_metric(metric));
            }
            imported.add_run(case, process);
        }
        points.into_sessions(label)
    }
}

/// Facts common to all points of a series.
struct SeriesFacts {
    benchmark: String,
    /// Slug of the benchmark, which is unique even if its name is not.
    slug: Option<(String, String)>,
    testbed: String,
    branch: Option<String>,
    /// The measure, under its slug, or its name if it has no slug.
    metric: Metric,
    /// Factor that converts figures to the unit of `metric`.
    factor: f64,
}

impl SeriesFacts {
    /// Parses a series; returns its facts and its points.
    fn read<'a>(series: &JsonNode<'a>) -> Result<(SeriesFacts, Vec<JsonNode<'a>>)> {
        let name = |key: &str| -> Result<String> {
            Ok(series.require(key)?.require("name")?.text()?.to_owned())
        };
        let measure = series.require("measure")?;
        let slug = match measure.text_of("slug")? {
            Some(slug) => slug,
            None => measure.require("name")?.text()?,
        };
        let unit = MetricConversion::from_unit(measure.text_of("units")?.unwrap_or_default());
        let read = SeriesFacts {
            benchmark: name("benchmark")?,
            slug: (series.require("benchmark")?.text_of("slug")?)
                .map(|slug| ("slug".to_owned(), slug.to_owned())),
            testbed: name("testbed")?,
            branch: optional_name(series, "branch")?.map(str::to_owned),
            metric: Metric { name: slug.to_owned(), ..unit.metric },
            factor: unit.factor,
        };
        Ok((read, series.require("metrics")?.elements()?))
    }
}

struct ReportFigure {
    report: String,
    iteration: u64,
    origin: CodeOrigin,
    /// Whether the response names a commit.
    has_commit: bool,
    started_unix_ms: Option<i64>,
    sample: Sample,
    note: Option<String>,
}

impl ReportFigure {
    fn read(point: &JsonNode<'_>, series: &SeriesFacts) -> Result<ReportFigure> {
        let version = point.require("version")?;
        let hash = version.text_of("hash")?.filter(|hash| !hash.is_empty());
        let revision = match hash {
            Some(hash) => hash.to_owned(),
            None => format!("version {}", version.require("number")?.number()?),
        };
        let started_unix_ms = read_start_time(point)?;
        let (sample, note) = read_figure(&point.require("metric")?, &series.metric, series.factor)?;
        Ok(ReportFigure {
            report: point.require("report")?.text()?.to_owned(),
            iteration: point.number_of("iteration")?.unwrap_or_default() as u64,
            origin: CodeOrigin { branch: series.branch.clone(), ..revision_origin(&revision) },
            has_commit: hash.is_some(),
            started_unix_ms,
            sample,
            note,
        })
    }
}

fn read_start_time(point: &JsonNode<'_>) -> Result<Option<i64>> {
    let Some(text) = point.text_of("start_time")? else { return Ok(None) };
    let moment = text.parse::<Timestamp>().ok().with_context(|| {
        let (location, text) = (point.location(), text.escape_debug());
        format!("'{location}.start_time' is '{text}', not a time like 2026-01-31T12:00:00Z")
    })?;
    Ok(Some(moment.as_millisecond()))
}

/// Returns a figure, and a note on its spread.
fn read_figure(
    node: &JsonNode<'_>,
    metric: &Metric,
    factor: f64,
) -> Result<(Sample, Option<String>)> {
    let scaled = node.require("value")?.scaled_number(factor)?;
    let (low, high) = (node.number_of("lower_value")?, node.number_of("upper_value")?);
    let note = low.zip(high).map(|(low, high)| {
        format!("bencher reports '{}' between {} and {}.", metric.name, low * factor, high * factor)
    });
    Ok((value_sample(&metric.name.as_str().into(), scaled), note))
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_model::MetricDirection;

    #[test]
    fn bmf_figures_become_samples_and_measures_become_metrics() {
        let text = r#"{"sum": {"latency": {"value": 88.0, "lower_value": 87, "upper_value": 90.5},
            "throughput": {"value": 5.5}}, "make": {"build-time": {"value": 2}}}"#;
        let session = crate::read("f", text.as_bytes()).unwrap().remove(0);
        let value = |run: usize, metric: &str| session.runs[run].value_of(metric);
        assert_eq!((value(0, "latency"), value(0, "throughput")), (Some(88.0), Some(5.5)));
        assert_eq!((session.runs[1].case.id(), value(1, "build-time")), ("make".into(), Some(2e9)));
        let metric = |name: &str| session.metric(name).unwrap();
        let latency = Metric::new("latency", "ns", MetricDirection::Lower);
        let throughput = Metric::new("throughput", "1/s", MetricDirection::Higher);
        assert_eq!((metric("latency"), metric("throughput")), (&latency, &throughput));
        assert_eq!(session.runs[0].notes, ["bencher reports 'latency' between 87 and 90.5."]);
    }

    #[test]
    fn the_direction_of_a_measure_that_bencher_does_not_define_is_asked_for() {
        let text = r#"{"sum": {"score": {"value": 7}, "latency": {}}}"#;
        let mut better = crate::MetricDirections::default();
        let mut warnings = Vec::new();
        let input = InputFile { label: "f", bytes: text.as_bytes(), better: &better };
        let error = crate::read_input(&input, &mut warnings).unwrap_err();
        assert!(format!("{error:#}").contains("more or less of 'score' is better"), "{error:#}");
        better.set_direction("better", "more").unwrap();
        let input = InputFile { label: "f", bytes: text.as_bytes(), better: &better };
        let sessions = crate::read_input(&input, &mut warnings).unwrap();
        assert_eq!(sessions[0].runs[0].value_of("score"), Some(7.0));
        assert!(warnings[0].contains("'value' is missing in 'sum.latency'"), "{warnings:?}");
    }
}
