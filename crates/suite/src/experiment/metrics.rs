//! Metrics that every group of a kind has, without the file saying where they come from.

use super::group::Kind;
use speedwell_model::{Better, Metric};

/// Figures of a server under load.
const OF_A_SERVER: [(&str, &str, Better); 13] = [
    ("throughput", "1/s", Better::Higher),
    ("bytes_per_second", "B/s", Better::Higher),
    ("bytes_per_response", "B", Better::Lower),
    ("cpu_per_request", "ns", Better::Lower),
    ("cpu_cores", "1", Better::Lower),
    ("instructions_per_request", "1", Better::Lower),
    ("max_rss", "B", Better::Lower),
    ("server_ready", "ns", Better::Lower),
    ("server_exit", "ns", Better::Lower),
    ("effective_concurrency", "1", Better::Higher),
    ("requests_per_connection_min", "1", Better::Higher),
    ("requests_per_connection_max", "1", Better::Lower),
    ("cpu_time", "ns", Better::Lower),
];

/// Figures of a load of the short form.
const OF_A_LOAD: [&str; 4] = [
    "throughput",
    "bytes_per_second",
    "cpu_per_request",
    "server_ready",
];

/// Figures of a command.
const OF_A_COMMAND: [(&str, &str, Better); 3] = [
    ("wall_time", "ns", Better::Lower),
    ("cpu_time", "ns", Better::Lower),
    ("max_rss", "B", Better::Lower),
];

/// What `also` may ask for: costs of the operating system's counters, which not every machine has.
pub const ALSO: [(&str, &str); 16] = [
    ("cpu_time", "ns"),
    ("max_rss", "B"),
    ("instructions", "1"),
    ("instructions:u", "1"),
    ("cycles", "1"),
    ("cycles:u", "1"),
    ("branches", "1"),
    ("branches:u", "1"),
    ("branch-misses", "1"),
    ("branch-misses:u", "1"),
    ("cache-references", "1"),
    ("cache-misses", "1"),
    ("task-clock", "ns"),
    ("page-faults", "1"),
    ("context-switches", "1"),
    ("cpu-migrations", "1"),
];

/// Figures with names, units and directions.
fn own(kind: Kind) -> impl Iterator<Item = (&'static str, &'static str, Better)> {
    let table: &[(&str, &str, Better)] = match kind {
        Kind::Server | Kind::Load => &OF_A_SERVER,
        Kind::Command => &OF_A_COMMAND,
        Kind::Function => &[],
    };
    let is_there = move |name: &str| kind != Kind::Load || OF_A_LOAD.contains(&name);
    table
        .iter()
        .copied()
        .filter(move |(name, ..)| is_there(name))
}

fn is_loaded(kind: Kind) -> bool {
    matches!(kind, Kind::Server | Kind::Load)
}

/// The metric of that name, if every group of the kind has it.
pub fn find(kind: Kind, name: &str) -> Option<Metric> {
    let known = own(kind).find(|(known, ..)| *known == name);
    let latency = || (is_loaded(kind) && is_latency(name)).then_some(("ns", Better::Lower));
    let (unit, better) = known
        .map(|(_, unit, better)| (unit, better))
        .or_else(latency)?;
    Some(Metric::new(name, unit, better))
}

/// The name under which runs keep the figure that a file calls by this name: its own, unless the file spells it as earlier
/// files did. `is_old`: `throughput` counts bytes, as it did in them.
pub fn stored(kind: Kind, name: &str, is_old: bool) -> String {
    let plain = name.strip_suffix(":u").unwrap_or(name);
    let known = match (is_loaded(kind), plain) {
        (true, "rps") => "throughput",
        (true, "throughput") if is_old => "bytes_per_second",
        (true, "ready_ms") => "server_ready",
        (true, "exit_ms") => "server_exit",
        (true, "latency.p100" | "latency_p100") => "latency_max",
        (false, "time") if kind == Kind::Command => "wall_time",
        _ => return plain.replace('.', "_"),
    };
    known.to_owned()
}

/// The name that is to be written for an older one; `None` for one that is good as it stands.
pub fn renamed(kind: Kind, name: &str, is_old: bool) -> Option<String> {
    let is_own = find(kind, name).is_some_and(|metric| metric.name == name);
    let is_moved = is_old && name == "throughput" && is_loaded(kind);
    let today = stored(kind, name, is_old);
    let is_known = find(kind, &today).is_some();
    (is_known && today != name && (!is_own || is_moved)).then_some(today)
}

/// Whether a figure is a plain number of milliseconds, as some were in earlier files.
pub fn in_ms(name: &str) -> bool {
    matches!(name, "ready_ms" | "exit_ms")
}

/// The metric that `also` asks for by that name.
pub fn also(name: &str) -> Option<Metric> {
    let (_, unit) = ALSO.iter().find(|(known, _)| *known == name)?;
    Some(Metric::new(name, *unit, Better::Lower))
}

/// `latency_mean`, `latency_min`, `latency_max`, `latency_p50`, `latency_p99_9`.
fn is_latency(name: &str) -> bool {
    let Some(which) = name.strip_prefix("latency_") else {
        return false;
    };
    let share = which.strip_prefix('p').and_then(|text| {
        let is_number = text.starts_with(|c: char| c.is_ascii_digit());
        text.replace('_', ".")
            .parse::<f64>()
            .ok()
            .filter(|_| is_number)
    });
    ["mean", "min", "max"].contains(&which) || share.is_some_and(|p| (0.0..=100.0).contains(&p))
}

/// Names to choose from in a hint.
pub fn names(kind: Kind) -> Vec<String> {
    let latencies = ["mean", "p50", "p75", "p90", "p95", "p99", "p99_9", "max"];
    let latencies = latencies.into_iter().filter(|_| is_loaded(kind));
    let own = own(kind).map(|(name, ..)| name.to_owned());
    own.chain(latencies.map(|which| format!("latency_{which}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_known_whatever_their_number_and_only_of_servers() {
        for name in [
            "latency_p50",
            "latency_p99_9",
            "latency_p100",
            "latency_mean",
            "throughput",
        ] {
            assert!(find(Kind::Server, name).is_some(), "{name}");
            assert!(find(Kind::Command, name).is_none(), "{name}");
        }
        for name in [
            "latency_p101",
            "latency_pinf",
            "latency_p",
            "latency",
            "p50",
        ] {
            assert!(find(Kind::Server, name).is_none(), "{name}");
        }
        for kind in [Kind::Server, Kind::Command, Kind::Load] {
            assert!(names(kind).iter().all(|name| find(kind, name).is_some()));
        }
    }
}
