//! What HTTP tools print: latency, errors and answers other than 2xx, which Node core's `common.js`
//! throws away. Figures that a tool does not give are left out.

use serde_json::{Map, Value as Json, json};

/// The figures in the output of `tool`, in the form that our own package reports; `None` when the
/// output is not that of a finished measurement.
pub(super) fn figures(tool: &str, output: &str) -> Option<Json> {
    let mut figures = match tool {
        "wrk" => wrk(output)?,
        "autocannon" => autocannon(output)?,
        "h2load" => h2load(output)?,
        _ => return None,
    };
    figures.insert("tool".into(), json!(tool));
    Some(Json::Object(figures))
}

/// wrk 4.x, with `--latency`.
fn wrk(output: &str) -> Option<Map<String, Json>> {
    output
        .lines()
        .find(|line| line.starts_with("Requests/sec:"))?;
    let words = |prefix: &str| {
        let line = output
            .lines()
            .find_map(|line| line.trim_start().strip_prefix(prefix));
        line.map(|rest| {
            rest.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
    };
    let mut latency = Map::new();
    let mut keep = |name: &str, text: Option<&String>| {
        if let Some(ms) = text.and_then(|text| milliseconds(text)) {
            latency.insert(name.into(), json!(ms));
        }
    };
    let stats = words("Latency  ").unwrap_or_default();
    keep("mean", stats.first());
    keep("max", stats.get(2));
    for (name, prefix) in [
        ("p50", "50% "),
        ("p75", "75% "),
        ("p90", "90% "),
        ("p99", "99% "),
    ] {
        keep(name, words(prefix).unwrap_or_default().first());
    }
    let errors = words("Socket errors:").map_or(0.0, |words| {
        words
            .iter()
            .filter_map(|word| word.trim_end_matches(',').parse::<f64>().ok())
            .sum()
    });
    let non2xx = words("Non-2xx or 3xx responses:").and_then(|words| words.first()?.parse().ok());
    Some(object(errors, non2xx.unwrap_or(0.0), latency))
}

/// autocannon with `-j`.
fn autocannon(output: &str) -> Option<Map<String, Json>> {
    let result: Json = serde_json::from_str(output.trim()).ok()?;
    let mut latency = Map::new();
    for (name, key) in [
        ("mean", "average"),
        ("p50", "p50"),
        ("p75", "p75"),
        ("p90", "p90"),
        ("p99", "p99"),
        ("max", "max"),
    ] {
        if let Some(ms) = result["latency"][key].as_f64() {
            latency.insert(name.into(), json!(ms));
        }
    }
    let count = |key: &str| result[key].as_f64();
    let errors = count("errors")? + count("timeouts").unwrap_or(0.0);
    Some(object(errors, count("non2xx").unwrap_or(0.0), latency))
}

/// h2load: its counts of requests and status codes, and the mean time for a request.
fn h2load(output: &str) -> Option<Map<String, Json>> {
    let line = |prefix: &str| output.lines().find_map(|line| line.strip_prefix(prefix));
    let counted = |line: &str, name: &str| -> Option<f64> {
        let part = line.split(',').find(|part| part.trim().ends_with(name))?;
        part.split_whitespace().next()?.parse().ok()
    };
    let requests = line("requests:")?;
    let errors = counted(requests, "failed")? + counted(requests, "timeout").unwrap_or(0.0);
    let codes = line("status codes:").unwrap_or_default();
    let non2xx = ["3xx", "4xx", "5xx"]
        .iter()
        .filter_map(|code| counted(codes, code))
        .sum();
    let times: Vec<&str> = line("time for request:")
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    let mut latency = Map::new();
    for (name, at) in [("max", 1), ("mean", 2)] {
        if let Some(ms) = times.get(at).and_then(|text| milliseconds(text)) {
            latency.insert(name.into(), json!(ms));
        }
    }
    Some(object(errors, non2xx, latency))
}

fn object(errors: f64, non2xx: f64, latency: Map<String, Json>) -> Map<String, Json> {
    let mut figures = Map::new();
    figures.insert("errors".into(), json!(errors));
    figures.insert("non2xx".into(), json!(non2xx));
    figures.insert("latency_ms".into(), Json::Object(latency));
    figures
}

/// `353.21us`, `1.29ms`, `2.01s`, `1.00m` in milliseconds.
fn milliseconds(text: &str) -> Option<f64> {
    let split = text.find(|c: char| c.is_ascii_alphabetic())?;
    let factor = match &text[split..] {
        "us" => 1e-3,
        "ms" => 1.0,
        "s" => 1e3,
        "m" => 60e3,
        _ => return None,
    };
    Some(text[..split].parse::<f64>().ok()? * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRK: &str = "Running 1s test @ http://127.0.0.1:12346/
  2 threads and 50 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency    12.50ms  353.21us   1.01s    91.93%
    Req/Sec     1.90k   210.00      2.20k    70.00%
  Latency Distribution
     50%   12.40ms
     99%   15.00ms
  3790 requests in 1.01s, 1.20MB read
  Socket errors: connect 0, read 2, write 0, timeout 1
  Non-2xx or 3xx responses: 7
Requests/sec:   3752.47
";

    #[test]
    fn wrk_tells_latency_and_errors() {
        let seen = figures("wrk", WRK).unwrap();
        assert_eq!(
            (&seen["errors"], &seen["non2xx"]),
            (&json!(3.0), &json!(7.0))
        );
        let latency = &seen["latency_ms"];
        assert_eq!(latency["mean"], 12.5);
        assert_eq!(
            (&latency["p99"], &latency["max"]),
            (&json!(15.0), &json!(1010.0))
        );
    }

    #[test]
    fn autocannon_tells_latency_and_errors() {
        let json = r#"{"requests":{"average":814},"latency":{"average":1.2,"p99":4,"max":20},
                       "errors":0,"timeouts":2,"non2xx":1}"#;
        let seen = figures("autocannon", json).unwrap();
        assert_eq!(
            (&seen["errors"], &seen["non2xx"]),
            (&json!(2.0), &json!(1.0))
        );
        assert_eq!(seen["latency_ms"]["p99"], 4.0);
    }

    #[test]
    fn h2load_tells_counts_and_the_mean() {
        let text = "finished in 182.01ms, 549.41 req/s, 123.46MB/s
requests: 100 total, 100 started, 100 done, 98 succeeded, 2 failed, 1 errored, 1 timeout
status codes: 95 2xx, 0 3xx, 3 4xx, 0 5xx
                     min         max         mean         sd        +/- sd
time for request:     1.02ms     20.50ms      3.50ms       500us    80.00%
";
        let seen = figures("h2load", text).unwrap();
        assert_eq!(
            (&seen["errors"], &seen["non2xx"]),
            (&json!(3.0), &json!(3.0))
        );
        assert_eq!(seen["latency_ms"], json!({"max": 20.5, "mean": 3.5}));
    }

    #[test]
    fn a_help_text_or_garbage_is_no_measurement() {
        for (tool, text) in [
            ("wrk", "Usage: wrk <options> <url>"),
            ("autocannon", "x"),
            ("h2load", ""),
        ] {
            assert_eq!(figures(tool, text), None, "{tool}");
        }
    }
}
