//! Converts HTTP loads of Speedwell's own generator into a session, and reads the JSON of its load
//! reports.
//!
//! Decides the case and variant names of a load, and which of its figures become metrics.
//! `load_report` uses the same names, so that a load can be compared with reports of other tools.
//! All other facts about a load are stored in its run. Start at [`load_session`].
//!
//! Addresses that were measured in a single round are separate cases, because one run of each says
//! nothing about a difference. With several rounds, the user wants to compare the addresses. They
//! are then variants of one case, and the first address is the baseline. Times that `analysis`
//! would withhold with a warning are not stored, because later comparisons would not repeat the
//! warning. [`merge_load_parts`] adds up the parts of a load that several generators sent.

use crate::foreign::json::{self, JsonContent};
use crate::load_report::{LoadReport, percentile_metric};
use crate::session_builder::{InputFile, ONLY_VARIANT, SessionBuilder};
use anyhow::{Context, Result, bail, ensure};
use indexmap::IndexSet;
use serde::Deserialize;
use speedwell_model::load::latency::{
    LoadLatency, OpenTimes, OpenVerdict, TimeDistribution, is_reached_by_failures,
};
use speedwell_model::load::measurement::{LoadRun, PaceFacts, StageFacts};
use speedwell_model::load::outcomes::{ErrorClass, OutcomeCounts};
use speedwell_model::{
    FailureCause, Metric, MetricDirection, ParameterValue, Run, Session, SessionState, Variant,
};
use std::sync::Arc;

/// Builds a session from loads, in the order of their execution. `label` is the user's name for
/// these loads. The caller fills in command line, tags, environment, order and seed. Adds messages
/// for the user to `remarks`.
///
/// # Errors
/// Fails if there are no loads.
pub fn load_session(label: &str, loads: &[LoadRun], remarks: &mut Vec<String>) -> Result<Session> {
    let mut imported = SessionBuilder::default();
    let variants = LoadVariants::from_loads(loads);
    let mut ordered: Vec<&LoadRun> = loads.iter().collect();
    ordered.sort_by_key(|load| load.slot);
    for load in &ordered {
        add_load(load, variants.as_ref(), &mut imported, remarks)?;
    }
    let first_ms = loads.iter().map(|load| load.measured.began_epoch_ms).min();
    imported.started_unix_ms = first_ms.and_then(|ms| i64::try_from(ms).ok());
    let mut session = imported.into_session(label)?;
    let is_interrupted = loads.iter().any(|load| load.measured.is_interrupted);
    session.state = if is_interrupted { SessionState::Interrupted } else { SessionState::Complete };
    if let Some(LoadVariants { labels, .. }) = &variants {
        session.variants = labels.iter().map(Variant::plain).collect();
        session.design.baseline = labels.first().cloned().unwrap_or_default();
    }
    Ok(session)
}

/// The addresses of the loads, if each is a variant of this benchmark.
struct LoadVariants {
    benchmark: String,
    labels: IndexSet<String>,
}

impl LoadVariants {
    /// Returns `None` if each address is a case.
    fn from_loads(loads: &[LoadRun]) -> Option<LoadVariants> {
        let labels: IndexSet<String> = loads.iter().map(|load| load.label.clone()).collect();
        let is_repeated = loads.iter().any(|load| load.round > 0);
        (labels.len() > 1 && is_repeated)
            .then(|| LoadVariants { benchmark: common_address(loads), labels })
    }
}

/// Returns the common path of all addresses, or else their common server, or else `load`.
fn common_address(loads: &[LoadRun]) -> String {
    let common_part = |part: fn(&str) -> &str| {
        let mut parts = loads.iter().map(|load| part(&load.url));
        let first = parts.next()?;
        parts.all(|other| other == first).then(|| first.to_owned())
    };
    let path = common_part(|url| split_address(url).1);
    path.or_else(|| common_part(|url| split_address(url).0)).unwrap_or_else(|| "load".to_owned())
}

fn split_address(url: &str) -> (&str, &str) {
    let host = url.find("://").map_or(0, |offset| offset + 3);
    let path = url[host..].find('/').map_or(url.len(), |offset| host + offset);
    (&url[..path], &url[path..])
}

fn add_load(
    load: &LoadRun,
    variants: Option<&LoadVariants>,
    imported: &mut SessionBuilder,
    remarks: &mut Vec<String>,
) -> Result<()> {
    let mut report = load_figures(load);
    if let Some(variants) = variants {
        report.target.clone_from(&variants.benchmark);
    }
    if load.measured.totals.outcomes.succeeded() == 0 {
        let case = report.case();
        // The replay contains only the address, because the other options are unknown here.
        let replay = format!("speedwell load {}", speedwell_model::quote(&load.url));
        imported.add_failure(&case, FailureCause::invalid("no request succeeded"), replay);
        return Ok(());
    }
    report.add_to(imported, remarks);
    let run = imported.last_run().context("the load has no run")?;
    // Add the facts that reports of other tools do not contain.
    run.variant = variants.map_or(ONLY_VARIANT, |_| load.label.as_str()).into();
    (run.slot, run.block) = (load.slot, load.round);
    run.started_unix_ms = i64::try_from(load.measured.began_epoch_ms).unwrap_or(0);
    run.notes.extend_from_slice(&load.warnings);
    let mut stored = load.clone();
    // Per-request rows belong in a separate file, not in every copy of a session.
    stored.measured.rows.clear();
    run.load = Some(Arc::from(serde_json::to_string(&stored)?));
    Ok(())
}

/// The part of a load report's JSON that is read.
#[derive(Deserialize)]
struct LoadDocument {
    loads: Vec<LoadRun>,
}

/// Returns whether the data are the JSON of a load report.
pub fn recognizes(file: &JsonContent<'_>) -> bool {
    file.has_key(1, "speedwell") && file.has_key(2, "schema") && file.has_key(1, "load_summaries")
}

/// Reads the loads from a report's JSON, exactly as they were measured.
///
/// # Errors
/// Fails if the data are not the JSON of a load report that this version can read, or contain no
/// loads.
pub fn read_loads(bytes: &[u8]) -> Result<Vec<LoadRun>> {
    let document: LoadDocument = json::read_lenient(bytes, |text| serde_json::from_str(text))?;
    ensure!(!document.loads.is_empty(), "it contains no loads");
    Ok(document.loads)
}

/// Reads the JSON of a load report as a session that contains its loads.
///
/// # Errors
/// Fails like [`read_loads`].
pub fn read(file: &InputFile<'_>, remarks: &mut Vec<String>) -> Result<Vec<Session>> {
    let session = load_session(file.label, &read_loads(file.bytes)?, remarks)?;
    Ok(vec![Session { state: SessionState::Imported, ..session }])
}

/// Percentiles that become metrics, in percent and in millionths.
const PERCENTILES: [(&str, u32); 7] = [
    ("50", 500_000),
    ("75", 750_000),
    ("90", 900_000),
    ("95", 950_000),
    ("99", 990_000),
    ("99.9", 999_000),
    ("100", 1_000_000),
];

/// Returns the figures of a load, under the same names as the figures of other tools.
fn load_figures(load: &LoadRun) -> LoadReport {
    let (requested, measured) = (&load.requested, &load.measured);
    let counts = &measured.totals.outcomes;
    let verdict = measured.verdict();
    let idle_note = match requested.pace {
        PaceFacts::Closed { think_ns: 0, .. } => None,
        PaceFacts::Closed { .. } => Some(Run::WITH_THINK_TIME),
        PaceFacts::Open { .. } => Some(Run::AT_FIXED_RATE),
    };
    let non2xx = counts.codes.total() - counts.codes.class_count(2);
    let mut report = LoadReport {
        target: load.url.clone(),
        concurrency: requested.concurrency().map(f64::from),
        throughput: measured.throughput(),
        requests: Some(counts.attempts() as f64),
        elapsed_ns: Some(measured.elapsed_ns as f64),
        errors: Some((counts.all_errors() - counts.errors(ErrorClass::Status)) as f64),
        non2xx: Some(non2xx as f64),
        idle_note,
        parameters: load_parameters(load),
        remarks: load_warnings(verdict.as_ref(), counts),
        ..LoadReport::default()
    };
    let all_requests = match &measured.totals.latency {
        LoadLatency::Open(open) => Some(open.requests.merge_all()),
        LoadLatency::Closed(_) => None,
    };
    let is_shown = |ppm: u32| {
        !is_left_out(ppm, counts) && is_shown(ppm, verdict.as_ref(), all_requests.as_ref())
    };
    report.times_ns = time_metrics("latency", measured.totals.latency.service_times(), is_shown);
    let mut others = Vec::new();
    if let (LoadLatency::Open(open), Some(all_requests)) = (&measured.totals.latency, &all_requests)
    {
        others.extend(time_metrics("response", &all_requests.response, is_shown));
        others.extend(time_metrics("lag", &open.lag, |_| true));
    }
    let metric = |(name, ns): (String, f64)| (Metric::new(name, "ns", MetricDirection::Lower), ns);
    report.others = others.into_iter().map(metric).collect();
    let seconds = measured.elapsed_ns as f64 / 1e9;
    let bandwidth = Metric::new("bytes_per_second", "B/s", MetricDirection::Higher);
    let received = counts.bytes.received as f64 / seconds;
    report.others.push((bandwidth, received));
    report
}

/// Returns the mean and the percentiles of a quantity. The 100th percentile has the suffix `_max`,
/// as for other tools.
pub(super) fn time_metrics(
    quantity: &str,
    times: &TimeDistribution,
    is_shown: impl Fn(u32) -> bool,
) -> Vec<(String, f64)> {
    let metric_name = |percent: &str| match percent {
        "100" => format!("{quantity}_max"),
        _ => percentile_metric(percent).replacen("latency", quantity, 1),
    };
    let mean = times.mean_ns().filter(|_| is_shown(0)).map(|ns| (format!("{quantity}_mean"), ns));
    let percentiles = PERCENTILES
        .iter()
        .filter(|(_, ppm)| is_shown(*ppm))
        .filter_map(|(percent, ppm)| Some((metric_name(percent), times.quantile(*ppm)?.ns as f64)));
    mean.into_iter().chain(percentiles).collect()
}

/// Returns whether to report a percentile. `ppm` is the percentile in millionths, or 0 for the
/// mean.
fn is_shown(ppm: u32, verdict: Option<&OpenVerdict>, times: Option<&OpenTimes>) -> bool {
    let (Some(verdict), Some(times)) = (verdict, times) else { return true };
    match ppm {
        0 => times.mean_refusal(verdict).is_none(),
        _ => times.quantile_refusals(verdict, &[ppm]).iter().all(Option::is_none),
    }
}

/// Returns whether the load has no such percentile, because it is that of a failed request. `ppm` is
/// the percentile in millionths, or 0 for the mean, which is left out together with the 99th
/// percentile.
fn is_left_out(ppm: u32, counts: &OutcomeCounts) -> bool {
    let ppm = if ppm == 0 { TAIL_PPM } else { ppm };
    is_reached_by_failures(ppm, counts.all_errors(), counts.attempts())
}

/// The 99th percentile, in millionths.
const TAIL_PPM: u32 = 990_000;

fn load_warnings(verdict: Option<&OpenVerdict>, counts: &OutcomeCounts) -> Vec<String> {
    let mut warnings = Vec::new();
    if is_left_out(TAIL_PPM, counts) {
        warnings.push(
            "more than 1% of the requests failed; they count as slower than all others, so times that \
             they reach are left out"
                .to_owned(),
        );
    }
    let Some(verdict) = verdict else { return warnings };
    if verdict.is_generator_limited() {
        warnings.push(
            "the generator itself was late, which inflates response times; times that may have doubled are \
             left out"
                .to_owned(),
        );
    }
    if verdict.is_rate_missed() {
        warnings.push(
            "fewer than 98% of the due requests were sent, so percentiles from 99 on are left out"
                .to_owned(),
        );
    }
    warnings
}

/// Returns the parameters that distinguish cases of one address, without the concurrency. Defaults
/// are omitted, so that reports from other tools have the same case ids.
fn load_parameters(load: &LoadRun) -> Vec<(String, ParameterValue)> {
    let requested = &load.requested;
    let mut parameters = Vec::new();
    let mut add = |name: &str, value: ParameterValue| parameters.push((name.to_owned(), value));
    match &requested.pace {
        PaceFacts::Closed { think_ns, .. } if *think_ns > 0 => {
            add("think_ms", ParameterValue::Number(*think_ns as f64 / 1e6));
        }
        PaceFacts::Closed { .. } => {}
        PaceFacts::Open { stages, .. } => match &stages[..] {
            [stage] if stage.from_per_s == stage.to_per_s => {
                add("rate", ParameterValue::Number(stage.to_per_s));
            }
            stages => {
                let formatted: Vec<String> = stages.iter().map(format_stage).collect();
                add("rate", ParameterValue::Text(formatted.join(",")));
            }
        },
    }
    if let [kind] = &requested.kinds[..]
        && kind.method != "GET"
    {
        add("method", ParameterValue::Text(kind.method.clone()));
    }
    if requested.streams_per_connection > 1 {
        add("lanes", ParameterValue::Number(f64::from(requested.streams_per_connection)));
    }
    if requested.protocol != "HTTP/1.1" {
        add("protocol", ParameterValue::Text(requested.protocol.clone()));
    }
    if !requested.keeps_alive {
        add("keepalive", ParameterValue::Bool(false));
    }
    parameters
}

/// Formats a stage as on the command line: `0-5000:30s`.
fn format_stage(stage: &StageFacts) -> String {
    let length = stage.duration_ns.map(|ns| format!(":{}s", ns as f64 / 1e9)).unwrap_or_default();
    if stage.from_per_s == stage.to_per_s {
        format!("{}{length}", stage.to_per_s)
    } else {
        format!("{}-{}{length}", stage.from_per_s, stage.to_per_s)
    }
}

/// Merges the parts of one load that several generators sent at the same time.
///
/// # Errors
/// Fails if there are no parts, or if the parts differ in their addresses, in the kinds of their
/// schedules or in the numbers of their stages.
pub fn merge_load_parts(parts: Vec<LoadRun>) -> Result<LoadRun> {
    let mut remaining = parts.into_iter();
    let Some(mut merged) = remaining.next() else { bail!("there are no loads to merge") };
    for part in remaining {
        ensure!(
            part.url == merged.url,
            "loads of '{}' and '{}' are not parts of the same load",
            merged.url,
            part.url
        );
        add_schedule(&mut merged.requested.pace, &part.requested.pace)?;
        merged.requested.requests =
            merged.requested.requests.zip(part.requested.requests).map(|(one, other)| one + other);
        merged.requested.processes += part.requested.processes;
        merged.is_partial |= part.is_partial;
        for warning in part.warnings {
            if !merged.warnings.contains(&warning) {
                merged.warnings.push(warning);
            }
        }
        merged.measured.merge(part.measured);
    }
    Ok(merged)
}

/// Adds the clients or rates of `theirs` to `mine`, because each generator sent only its share of
/// the load.
fn add_schedule(mine: &mut PaceFacts, theirs: &PaceFacts) -> Result<()> {
    match (mine, theirs) {
        (PaceFacts::Closed { concurrency, .. }, PaceFacts::Closed { concurrency: other, .. }) => {
            *concurrency += other
        }
        (
            PaceFacts::Open { stages, connections, max_connections, .. },
            PaceFacts::Open {
                stages: other_stages,
                connections: other,
                max_connections: other_most,
                ..
            },
        ) => {
            ensure!(
                stages.len() == other_stages.len(),
                "the loads are not parts of the same load: their schedules have {} and {} stages",
                stages.len(),
                other_stages.len()
            );
            for (stage, other) in stages.iter_mut().zip(other_stages) {
                stage.from_per_s += other.from_per_s;
                stage.to_per_s += other.to_per_s;
            }
            *connections += other;
            *max_connections += other_most;
        }
        _ => bail!(
            "the loads are not parts of the same load: one generator sent requests on a \
             schedule, but another waited for responses"
        ),
    }
    Ok(())
}
