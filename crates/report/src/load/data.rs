//! Loads for machines: what was found by stable names, and everything that was measured.

use serde_json::{Value, json};
use speedwell_analysis::load::{Course, LoadFindings, Remark};

/// What was measured and asked for, without loss: what `speedwell report FILE.json` reads back.
pub fn run(load: &LoadFindings<'_>) -> Value {
    // Plain data with names for keys always become JSON; a null would be told by the reader.
    serde_json::to_value(load.run).unwrap_or(Value::Null)
}

/// What was found.
pub fn findings(load: &LoadFindings<'_>) -> Value {
    let remarks: Vec<&str> = load.remarks.iter().map(name).collect();
    json!({
        "load": super::name(load),
        "throughput": load.throughput_per_s,
        "principal": {"quantity": load.principal().0.name(), "group": load.principal().1.name()},
        "concurrency": {
            "asked": load.concurrency.asked,
            "effective": load.concurrency.effective,
            "connecting": load.concurrency.connecting,
            "is_short": load.concurrency.is_short,
        },
        "open": load.open.map(|open| json!({
            "achieved": open.achieved,
            "lateness_p99_ns": open.own_lag_p99_ns,
            "lateness_limit_ns": open.own_lag_limit_ns,
            "is_generator_limited": open.is_generator_limited(),
            "is_rate_missed": open.is_rate_missed(),
        })),
        "generator": {
            "threads": load.generator.threads,
            "bottlenecks": load.generator.bottlenecks,
            "busiest": load.generator.busiest,
            "switches_per_s": load.generator.switches_per_s,
            "late_by_ns": load.generator.late_by_ns,
            "system_calls_per_request": load.generator.system_calls_per_request,
            "cpu_ns_per_request": load.generator.cpu_ns_per_request,
        },
        "requests_per_connection": load.per_connection,
        "halves": load.halves.map(|halves| json!({
            "of": match halves.course {
                Course::Throughput => "throughput",
                Course::Median => "p50_ns",
            },
            "first": halves.first,
            "second": halves.second,
        })),
        "is_balanced": load.balance.is_ok(),
        "remarks": remarks,
    })
}

/// The name of a remark, which never changes.
pub fn name(remark: &Remark) -> &'static str {
    match remark {
        Remark::Imbalance(_) => "imbalance",
        Remark::NothingAnswered => "nothing-answered",
        Remark::Interrupted => "interrupted",
        Remark::GeneratorLimited(_) => "generator-limited",
        Remark::RateMissed(_) => "rate-missed",
        Remark::ConcurrencyShort { .. } => "concurrency-short",
        Remark::GeneratorBound { .. } => "generator-bound",
        Remark::ConnectionsCapped { .. } => "connections-capped",
        Remark::Failed { .. } => "failed",
        Remark::Accepted { .. } => "accepted",
        Remark::Unfinished { .. } => "unfinished",
        Remark::Unsteady(_) => "unsteady",
        Remark::Disturbed { .. } => "disturbed",
        Remark::LengthsVary { .. } => "lengths-vary",
        Remark::DoubtfulFraming { .. } => "doubtful-framing",
        Remark::StrayBytes { .. } => "stray-bytes",
        Remark::Retried { .. } => "retried",
        Remark::Interim { .. } => "interim",
        Remark::NotReusable { .. } => "not-reusable",
    }
}
