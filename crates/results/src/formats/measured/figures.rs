//! The figures of a load as metrics and parameters. Times that `analysis` would not tell are left out here,
//! too: a stored figure would be compared without its warning.

use crate::formats::load_report::{LoadReport, percentile};
use speedwell_load::latency::{Distribution, Kind, OpenTimes, OpenVerdict};
use speedwell_load::measured::Latency;
use speedwell_load::outcomes::ErrorClass;
use speedwell_model::load_run::{LoadRun, PaceFacts, StageFacts};
use speedwell_model::{Better, Metric, Value};

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

/// Percentiles from here on are left out of a load that missed its rate.
const TAIL_PPM: u32 = 990_000;

/// The figures of a load by the names of other tools' figures.
pub(super) fn report(load: &LoadRun) -> LoadReport {
    let (asked, measured) = (&load.asked, &load.measured);
    let counts = &measured.totals.outcomes;
    let verdict = measured.verdict();
    let is_closed = matches!(asked.pace, PaceFacts::Closed { think_ns: 0, .. });
    let non2xx = counts.codes().total() - counts.codes().of_hundred(2);
    let mut report = LoadReport {
        target: load.url.clone(),
        concurrency: asked.concurrency().map(f64::from),
        throughput: measured.throughput(),
        requests: Some(counts.attempts() as f64),
        elapsed_ns: Some(measured.elapsed_ns as f64),
        errors: Some((counts.all_errors() - counts.errors(ErrorClass::Status)) as f64),
        non2xx: Some(non2xx as f64),
        has_fixed_rate: !is_closed,
        parameters: parameters(load),
        remarks: refusals(verdict.as_ref()),
        ..LoadReport::default()
    };
    let all = match &measured.totals.latency {
        Latency::Open(open) => Some(open.requests.merged()),
        Latency::Closed(_) => None,
    };
    let is_told = |ppm: u32| is_told(ppm, verdict.as_ref(), all.as_ref());
    report.times_ns = times("latency", measured.totals.latency.service(), is_told);
    let mut others = Vec::new();
    if let (Latency::Open(open), Some(all)) = (&measured.totals.latency, &all) {
        others.extend(times("response", &all.response, is_told));
        others.extend(times("lag", &open.lag, |_| true));
    }
    let others = others.into_iter();
    report.others = others
        .map(|(name, ns)| (Metric::new(name, "ns", Better::Lower), ns))
        .collect();
    let seconds = measured.elapsed_ns as f64 / 1e9;
    let bandwidth = Metric::new("bytes_per_second", "B/s", Better::Higher);
    let received = counts.bytes.received as f64 / seconds;
    report.others.push((bandwidth, received));
    report
}

/// Mean and percentiles of one quantity. `latency_p100` is called `latency_max`, as of other tools.
pub fn times<K: Kind>(
    quantity: &str,
    times: &Distribution<K>,
    is_told: impl Fn(u32) -> bool,
) -> Vec<(String, f64)> {
    let named = |percent: &str| match percent {
        "100" => format!("{quantity}_max"),
        _ => percentile(percent).replacen("latency", quantity, 1),
    };
    let mean = times.mean_ns().filter(|_| is_told(0));
    let mean = mean.map(|ns| (format!("{quantity}_mean"), ns));
    let percentiles = PERCENTILES.iter().filter(|(_, ppm)| is_told(*ppm));
    let percentiles = percentiles
        .filter_map(|(percent, ppm)| Some((named(percent), times.quantile(*ppm)?.ns as f64)));
    mean.into_iter().chain(percentiles).collect()
}

/// Whether a percentile in millionths is reported, or the mean, which is 0.
fn is_told(ppm: u32, verdict: Option<&OpenVerdict>, all: Option<&OpenTimes>) -> bool {
    let (Some(verdict), Some(all)) = (verdict, all) else {
        return true;
    };
    let is_wide = match ppm {
        0 => all.is_mean_too_wide(),
        _ => all.are_too_wide(&[ppm]).map(|wide| wide == [true]),
    };
    let is_late = is_wide.unwrap_or_else(|| verdict.is_generator_limited());
    let is_lost = verdict.is_rate_missed() && ppm >= TAIL_PPM;
    !is_late && !is_lost
}

fn refusals(verdict: Option<&OpenVerdict>) -> Vec<String> {
    let Some(verdict) = verdict else {
        return Vec::new();
    };
    let mut refusals = Vec::new();
    if verdict.is_generator_limited() {
        refusals.push(
            "the generator itself was late, which is in the response times; those that it may have doubled are \
             left out"
                .to_owned(),
        );
    }
    if verdict.is_rate_missed() {
        refusals.push(
            "fewer than 98 % of the due requests were sent, so percentiles from 99 on are left out"
                .to_owned(),
        );
    }
    refusals
}

/// What tells cases of one address apart, beside the concurrency. What is usual is not said, so that ids
/// agree with those of other tools.
fn parameters(load: &LoadRun) -> Vec<(String, Value)> {
    let asked = &load.asked;
    let mut parameters = Vec::new();
    let mut say = |name: &str, value: Value| parameters.push((name.to_owned(), value));
    match &asked.pace {
        PaceFacts::Closed { think_ns, .. } if *think_ns > 0 => {
            say("think_ms", Value::Number(*think_ns as f64 / 1e6));
        }
        PaceFacts::Closed { .. } => {}
        PaceFacts::Open { stages, .. } => match &stages[..] {
            [stage] if stage.from_per_s == stage.to_per_s => {
                say("rate", Value::Number(stage.to_per_s));
            }
            stages => {
                let stages: Vec<String> = stages.iter().map(stage_words).collect();
                say("rate", Value::Text(stages.join(",")));
            }
        },
    }
    if let [kind] = &asked.kinds[..]
        && kind.method != "GET"
    {
        say("method", Value::Text(kind.method.clone()));
    }
    if asked.streams_per_connection > 1 {
        say(
            "lanes",
            Value::Number(f64::from(asked.streams_per_connection)),
        );
    }
    if asked.protocol != "HTTP/1.1" {
        say("protocol", Value::Text(asked.protocol.clone()));
    }
    if !asked.keeps_alive {
        say("keepalive", Value::Bool(false));
    }
    parameters
}

/// A stage as it is typed: `0-5000:30s`.
fn stage_words(stage: &StageFacts) -> String {
    let length = stage.duration_ns.map(|ns| format!(":{}s", ns as f64 / 1e9));
    let length = length.unwrap_or_default();
    if stage.from_per_s == stage.to_per_s {
        format!("{}{length}", stage.to_per_s)
    } else {
        format!("{}-{}{length}", stage.from_per_s, stage.to_per_s)
    }
}
