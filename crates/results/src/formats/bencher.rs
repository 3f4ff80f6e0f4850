//! Answers of bencher's `perf` interface: results by branch, testbed, benchmark and measure.
//!
//! Decides that one report is one session, its testbed the machine, each iteration of the report a run, and each measure a
//! metric. Which direction of a measure is good is in no answer, so the user says it. It must not know where the answer came
//! from. Start at [`read`].

use super::imported::{Process, sample};
use super::input::Input;
use super::points::{Place, Points, revision};
use crate::foreign::json::{self, Content, Node};
use crate::foreign::unit::Measure;
use anyhow::{Result, ensure};
use indexmap::IndexMap;
use jiff::Timestamp;
use speedwell_model::{Case, Environment, Metric, Origin, Sample, Session};
use std::collections::HashMap;

/// Whether bytes are of this kind.
pub fn recognises(file: &Content<'_>) -> bool {
    file.has(1, "results") && file.has(3, "testbed")
}

/// Reads a whole answer. What the user should know is added to `warnings`.
///
/// # Errors
/// The content is no JSON, a value is missing or of another type (the message names its place), or the good direction of a
/// measure is not known.
pub fn read(file: &Input<'_>, warnings: &mut Vec<String>) -> Result<Vec<Session>> {
    let parsed = json::parse(file.bytes)?;
    let root = Node::root(&parsed);
    let project = root.get("project").map(|project| project.text_of("name"));
    let project = project.transpose()?.flatten().unwrap_or_default();
    let mut reports = Reports::default();
    for series in root.need("results")?.elements()? {
        reports.add(project, &series, file)?;
    }
    if reports.unnamed > 0 {
        warnings.push(format!(
            "'{}': reports without a commit ({}) are of the revisions 'version 0' and so on, as bencher counts them",
            file.label, reports.unnamed
        ));
    }
    reports.into_sessions(file.label)
}

/// A run of a session: the case and the iteration.
type Key = (String, u64);

/// The reports of an answer: several series hold parts of each.
#[derive(Default)]
struct Reports {
    /// Each with its runs in the order in which they are met.
    by_id: IndexMap<String, (Place, IndexMap<Key, Process>)>,
    metrics: HashMap<String, Metric>,
    /// How many name no commit.
    unnamed: usize,
}

impl Reports {
    /// Takes the results of one branch, testbed, benchmark and measure.
    fn add(&mut self, project: &str, series: &Node<'_>, file: &Input<'_>) -> Result<()> {
        let name = |key: &str| -> Result<String> {
            Ok(series.need(key)?.need("name")?.text()?.to_owned())
        };
        let (benchmark, testbed) = (name("benchmark")?, name("testbed")?);
        let branch = series.get("branch").map(|branch| branch.text_of("name"));
        let branch = branch.transpose()?.flatten();
        let (metric, factor) = measure(&series.need("measure")?, file)?;
        for point in series.need("metrics")?.elements()? {
            let report = point.need("report")?.text()?;
            let key = serde_json::json!([report, testbed, branch]).to_string();
            if !self.by_id.contains_key(&key) {
                let (origin, is_named) = origin(&point, branch)?;
                self.unnamed += usize::from(!is_named);
                let place = Place {
                    suite: project.to_owned(),
                    key: report.to_owned(),
                    origin,
                    environment: Environment {
                        machine: Some(testbed.clone()),
                        ..Environment::default()
                    },
                    started_unix_ms: moment(&point)?,
                    ..Place::default()
                };
                self.by_id.insert(key.clone(), (place, IndexMap::new()));
            }
            let iteration = point.number_of("iteration")?.unwrap_or_default() as u64;
            let (sample, note) = figure(&point, &metric, factor)?;
            if let Some((_, runs)) = self.by_id.get_mut(&key) {
                let run = runs.entry((benchmark.clone(), iteration)).or_default();
                run.samples.push(sample);
                run.notes.extend(note);
            }
        }
        self.metrics.insert(metric.name.clone(), metric);
        Ok(())
    }

    fn into_sessions(self, label: &str) -> Result<Vec<Session>> {
        let mut points = Points::new("bencher");
        for (place, runs) in self.by_id.into_values() {
            let imported = points.at(place);
            for ((benchmark, _), process) in runs {
                for sample in &process.samples {
                    let known = self.metrics.get(&*sample.metric).cloned();
                    known.map(|metric| imported.metric(metric));
                }
                imported.run(Case::new(benchmark, Vec::new()), process);
            }
        }
        points.into_sessions(label)
    }
}

/// The metric of a measure, and what its figures are multiplied by.
fn measure(measure: &Node<'_>, file: &Input<'_>) -> Result<(Metric, f64)> {
    let slug = measure.text_of("slug")?;
    let name = match slug {
        Some(slug) => slug,
        None => measure.need("name")?.text()?,
    };
    let written = measure.text_of("units")?.unwrap_or_default();
    let of_unit = Measure::of_unit(written);
    let better = file.better.need(name)?;
    Ok((
        Metric::new(name, of_unit.metric.unit, better),
        of_unit.factor,
    ))
}

/// The revision of a point, and whether the answer names a commit.
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

/// When a point was measured.
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

/// The figure of a point, and what the answer says of its spread.
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
