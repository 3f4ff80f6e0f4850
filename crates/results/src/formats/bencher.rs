//! Responses of bencher's `perf` endpoint: results by branch, testbed, benchmark and measure.
//!
//! Decides that a report is a session, its testbed the machine, each iteration of the report a run,
//! and each measure a metric. Responses do not state the direction of a measure, so the user does.
//! Does not know where the response comes from. Start at [`read`].

use super::imported::{LeftOut, Process, sample};
use super::input::Input;
use super::points::{Place, Points, revision};
use super::same_names::{Listed, tell_apart};
use crate::foreign::json::{self, Content, Node};
use crate::foreign::unit::Measure;
use anyhow::{Result, ensure};
use indexmap::IndexMap;
use jiff::Timestamp;
use speedwell_model::{Case, Environment, Metric, Origin, Sample, Session};
use std::collections::HashMap;

/// Returns whether the data have this format.
pub fn recognises(file: &Content<'_>) -> bool {
    file.has(1, "results") && file.has(3, "testbed")
}

/// Reads a whole response. Adds messages for the user to `warnings`.
///
/// # Errors
/// The content is not JSON, nothing can be read (the message names the first location), or the
/// direction of a measure is unknown.
pub fn read(file: &Input<'_>, warnings: &mut Vec<String>) -> Result<Vec<Session>> {
    let parsed = json::parse(file.bytes)?;
    let root = Node::root(&parsed);
    let project = root.get("project").map(|project| project.text_of("name"));
    let project = project.transpose()?.flatten().unwrap_or_default();
    let mut reports = Reports::default();
    for series in root.need("results")?.elements()? {
        reports.add(project, &series, file)?;
    }
    let mut remarks = Vec::new();
    if reports.unnamed > 0 {
        remarks.push(format!(
            "reports without a commit ({}) are of the revisions 'version 0' and so on, as bencher counts them",
            reports.unnamed
        ));
    }
    let sessions = reports.into_sessions(file.label, &mut remarks)?;
    warnings.extend(
        remarks
            .iter()
            .map(|remark| format!("'{}': {remark}", file.label)),
    );
    Ok(sessions)
}

/// The reports of a response. Each may be spread over several series.
#[derive(Default)]
struct Reports {
    /// Points by their identifying facts.
    places: IndexMap<String, Place>,
    points: Vec<Listed<Point>>,
    metrics: HashMap<String, Metric>,
    /// Number of reports without a commit.
    unnamed: usize,
    left_out: LeftOut,
}

impl Reports {
    /// Adds the results of one branch, testbed, benchmark and measure, dropping invalid ones.
    ///
    /// # Errors
    /// The direction of the measure is unknown.
    fn add(&mut self, project: &str, series: &Node<'_>, file: &Input<'_>) -> Result<()> {
        let Some((of, points)) = self.left_out.unless_read(Series::read(series)) else {
            return Ok(());
        };
        let better = file.better.need(&of.measure)?;
        let metric = Metric::new(&of.measure, &of.unit.metric.unit, better);
        for node in points {
            let point = Point::read(&node, &of, &metric);
            if let Some(point) = self.left_out.unless_read(point) {
                self.keep(project, &of, point);
            }
        }
        self.metrics.insert(metric.name.clone(), metric);
        Ok(())
    }

    fn keep(&mut self, project: &str, of: &Series, point: Point) {
        let branch = &point.origin.branch;
        let key = serde_json::json!([point.report, of.testbed, branch]).to_string();
        if !self.places.contains_key(&key) {
            self.unnamed += usize::from(!point.has_commit);
        }
        let entry = self.places.entry(key);
        let measurement = entry.index();
        entry.or_insert_with(|| Place {
            suite: project.to_owned(),
            key: point.report.clone(),
            origin: point.origin.clone(),
            environment: Environment {
                machine: Some(of.testbed.clone()),
                ..Environment::default()
            },
            started_unix_ms: point.started_unix_ms,
            ..Place::default()
        });
        self.points.push(Listed {
            measurement,
            case: Case::new(&of.benchmark, Vec::new()),
            // A benchmark has one result per measure and iteration.
            metric: format!("{} {}", of.measure, point.iteration),
            details: of.slug.iter().cloned().collect(),
            content: point,
        });
    }

    fn into_sessions(self, label: &str, remarks: &mut Vec<String>) -> Result<Vec<Session>> {
        remarks.extend(self.left_out.into_remark(self.points.is_empty())?);
        let mut runs: IndexMap<(usize, String, u64), (Case, Process)> = IndexMap::new();
        for one in tell_apart(self.points, remarks)? {
            let key = (one.measurement, one.case.id(), one.content.iteration);
            let (_, process) = runs
                .entry(key)
                .or_insert_with(|| (one.case, Process::default()));
            process.samples.push(one.content.sample);
            process.notes.extend(one.content.note);
        }
        runs.sort_by(|one, _, other, _| one.0.cmp(&other.0));
        let mut points = Points::new("bencher");
        for ((measurement, ..), (case, process)) in runs {
            let imported = points.at(self.places[measurement].clone());
            for sample in &process.samples {
                let known = self.metrics.get(&*sample.metric).cloned();
                known.map(|metric| imported.metric(metric));
            }
            imported.run(case, process);
        }
        points.into_sessions(label)
    }
}

/// Facts common to all points of a series.
struct Series {
    benchmark: String,
    /// Slug of the benchmark, which is unique even if its name is not.
    slug: Option<(String, String)>,
    testbed: String,
    branch: Option<String>,
    /// Slug of its measure.
    measure: String,
    unit: Measure,
}

impl Series {
    /// Parses a series; returns its facts and its points.
    fn read<'a>(series: &Node<'a>) -> Result<(Series, Vec<Node<'a>>)> {
        let name = |key: &str| -> Result<String> {
            Ok(series.need(key)?.need("name")?.text()?.to_owned())
        };
        let branch = series.get("branch").map(|branch| branch.text_of("name"));
        let measure = series.need("measure")?;
        let slug = match measure.text_of("slug")? {
            Some(slug) => slug,
            None => measure.need("name")?.text()?,
        };
        let written = measure.text_of("units")?.unwrap_or_default();
        let read = Series {
            benchmark: name("benchmark")?,
            slug: (series.need("benchmark")?.text_of("slug")?)
                .map(|slug| ("slug".to_owned(), slug.to_owned())),
            testbed: name("testbed")?,
            branch: branch.transpose()?.flatten().map(str::to_owned),
            measure: slug.to_owned(),
            unit: Measure::of_unit(written),
        };
        Ok((read, series.need("metrics")?.elements()?))
    }
}

struct Point {
    report: String,
    iteration: u64,
    origin: Origin,
    /// Whether the response names a commit.
    has_commit: bool,
    started_unix_ms: Option<i64>,
    sample: Sample,
    note: Option<String>,
}

impl Point {
    fn read(point: &Node<'_>, of: &Series, metric: &Metric) -> Result<Point> {
        let (origin, has_commit) = origin(point, of.branch.as_deref())?;
        let started_unix_ms = moment(point)?;
        let (sample, note) = figure(point, metric, of.unit.factor)?;
        Ok(Point {
            report: point.need("report")?.text()?.to_owned(),
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
fn origin(point: &Node<'_>, branch: Option<&str>) -> Result<(Origin, bool)> {
    let version = point.need("version")?;
    let hash = version.text_of("hash")?.filter(|hash| !hash.is_empty());
    let name = match hash {
        Some(hash) => hash.to_owned(),
        None => format!("version {}", version.need("number")?.number()?),
    };
    let origin = Origin {
        branch: branch.map(str::to_owned),
        ..revision(&name)
    };
    Ok((origin, hash.is_some()))
}

/// Returns the time of a point.
fn moment(point: &Node<'_>) -> Result<Option<i64>> {
    let Some(text) = point.text_of("start_time")? else {
        return Ok(None);
    };
    let moment: std::result::Result<Timestamp, _> = text.parse();
    ensure!(
        moment.is_ok(),
        "'{}.start_time' is '{}', not a time like 2026-01-31T12:00:00Z",
        point.place(),
        text.escape_debug()
    );
    Ok(moment.ok().map(Timestamp::as_millisecond))
}

/// Returns the figure of a point, and a note on its spread.
fn figure(point: &Node<'_>, metric: &Metric, factor: f64) -> Result<(Sample, Option<String>)> {
    let node = point.need("metric")?;
    let value = node.need("value")?;
    let scaled = value.number()? * factor;
    ensure!(scaled.is_finite(), "'{}' is too large", value.place());
    let (low, high) = (
        node.number_of("lower_value")?,
        node.number_of("upper_value")?,
    );
    let note = low.zip(high).map(|(low, high)| {
        format!(
            "bencher gives '{}' values from {} to {}.",
            metric.name,
            low * factor,
            high * factor
        )
    });
    Ok((sample(&metric.name.as_str().into(), scaled), note))
}
