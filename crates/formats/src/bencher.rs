//! Reads responses of bencher's `perf` endpoint: results by branch, testbed, benchmark and measure.
//!
//! A report becomes a session, and its testbed becomes the machine. Each iteration of the report
//! becomes a run, and each measure becomes a metric. Responses do not state the direction of a
//! measure, so the user must state it. Does not fetch responses. Start at [`read`].

use super::duplicate_names::{ListedResult, distinguish_results};
use super::input::InputFile;
use super::points::{FileSessions, PointKey, revision_origin};
use super::session_builder::{DroppedEntries, ImportedProcess, value_sample};
use crate::foreign::json::{self, JsonContent, JsonNode};
use crate::foreign::unit::MetricConversion;
use anyhow::{Result, ensure};
use indexmap::IndexMap;
use jiff::Timestamp;
use speedwell_model::{Case, CodeOrigin, Environment, Metric, Sample, Session};
use std::collections::HashMap;

/// Returns whether the data are a response of bencher's `perf` endpoint.
pub fn recognizes(file: &JsonContent<'_>) -> bool {
    file.has_key(1, "results") && file.has_key(3, "testbed")
}

/// Reads a whole response. Adds messages for the user to `warnings`.
///
/// # Errors
/// Fails if the content is not JSON, no result can be read, or the direction of a measure is
/// unknown.
pub fn read(file: &InputFile<'_>, warnings: &mut Vec<String>) -> Result<Vec<Session>> {
    let parsed = json::parse(file.bytes)?;
    let root = JsonNode::from_root(&parsed);
    let project = root
        .get("project")
        .map(|project| project.text_of("name"))
        .transpose()?
        .flatten()
        .unwrap_or_default();
    let mut reports = BencherReports::default();
    for series in root.require("results")?.elements()? {
        reports.add_series(project, &series, file)?;
    }
    let mut remarks = Vec::new();
    if reports.unnamed > 0 {
        remarks.push(format!(
            "number of reports without a commit: {}; their revisions are named after bencher's version numbers, such as \
             'version 0'",
            reports.unnamed
        ));
    }
    let sessions = reports.into_sessions(file.label, &mut remarks)?;
    warnings.extend(remarks.iter().map(|remark| format!("'{}': {remark}", file.label)));
    Ok(sessions)
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
        let Some((facts, points)) = self.left_out.ok_or_count(SeriesFacts::read(series)) else {
            return Ok(());
        };
        let better = file.better.require_direction(&facts.measure)?;
        let metric = Metric::new(&facts.measure, &facts.unit.metric.unit, better);
        for node in points {
            let point = ReportFigure::read(&node, &facts, &metric);
            if let Some(point) = self.left_out.ok_or_count(point) {
                self.add_point(project, &facts, point);
            }
        }
        self.metrics.insert(metric.name.clone(), metric);
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
            metric: format!("{} {}", series.measure, point.iteration),
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
    /// Slug of the measure, or its name if it has no slug.
    measure: String,
    unit: MetricConversion,
}

impl SeriesFacts {
    /// Parses a series; returns its facts and its points.
    fn read<'a>(series: &JsonNode<'a>) -> Result<(SeriesFacts, Vec<JsonNode<'a>>)> {
        let name = |key: &str| -> Result<String> {
            Ok(series.require(key)?.require("name")?.text()?.to_owned())
        };
        let branch = series.get("branch").map(|branch| branch.text_of("name"));
        let measure = series.require("measure")?;
        let slug = match measure.text_of("slug")? {
            Some(slug) => slug,
            None => measure.require("name")?.text()?,
        };
        let unit = measure.text_of("units")?.unwrap_or_default();
        let read = SeriesFacts {
            benchmark: name("benchmark")?,
            slug: (series.require("benchmark")?.text_of("slug")?)
                .map(|slug| ("slug".to_owned(), slug.to_owned())),
            testbed: name("testbed")?,
            branch: branch.transpose()?.flatten().map(str::to_owned),
            measure: slug.to_owned(),
            unit: MetricConversion::from_unit(unit),
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
    fn read(point: &JsonNode<'_>, series: &SeriesFacts, metric: &Metric) -> Result<ReportFigure> {
        let (origin, has_commit) = read_origin(point, series.branch.as_deref())?;
        let started_unix_ms = read_start_time(point)?;
        let (sample, note) = read_figure(point, metric, series.unit.factor)?;
        Ok(ReportFigure {
            report: point.require("report")?.text()?.to_owned(),
            iteration: point.number_of("iteration")?.unwrap_or_default() as u64,
            origin,
            has_commit,
            started_unix_ms,
            sample,
            note,
        })
    }
}

/// Returns the revision of a point, and whether the response names a commit.
fn read_origin(point: &JsonNode<'_>, branch: Option<&str>) -> Result<(CodeOrigin, bool)> {
    let version = point.require("version")?;
    let hash = version.text_of("hash")?.filter(|hash| !hash.is_empty());
    let name = match hash {
        Some(hash) => hash.to_owned(),
        None => format!("version {}", version.require("number")?.number()?),
    };
    let origin = CodeOrigin { branch: branch.map(str::to_owned), ..revision_origin(&name) };
    Ok((origin, hash.is_some()))
}

fn read_start_time(point: &JsonNode<'_>) -> Result<Option<i64>> {
    let Some(text) = point.text_of("start_time")? else {
        return Ok(None);
    };
    let moment: std::result::Result<Timestamp, _> = text.parse();
    ensure!(
        moment.is_ok(),
        "'{}.start_time' is '{}', not a time like 2026-01-31T12:00:00Z",
        point.location(),
        text.escape_debug()
    );
    Ok(moment.ok().map(Timestamp::as_millisecond))
}

/// Returns the figure of a point, and a note on its spread.
fn read_figure(
    point: &JsonNode<'_>,
    metric: &Metric,
    factor: f64,
) -> Result<(Sample, Option<String>)> {
    let node = point.require("metric")?;
    let value = node.require("value")?;
    let scaled = value.number()? * factor;
    ensure!(scaled.is_finite(), "'{}' is too large", value.location());
    let (low, high) = (node.number_of("lower_value")?, node.number_of("upper_value")?);
    let note = low.zip(high).map(|(low, high)| {
        format!("bencher reports '{}' between {} and {}.", metric.name, low * factor, high * factor)
    });
    Ok((value_sample(&metric.name.as_str().into(), scaled), note))
}
