//! Parses the output of HTTP tools: rate, latency, errors and responses other than 2xx. Figures
//! that a tool does not report are omitted.
//!
//! The output comes from a tool that Node core's `common.js` started, or from a file. `common.js`
//! itself ignores most of the output. Start at [`HttpOutput::read`].

use serde_json::{Map, Value as Json, json};

/// Result of a finished load test, as its tool reports it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HttpOutput {
    /// Name of the tool.
    pub tool: &'static str,
    /// Address, if printed.
    pub url: Option<String>,
    /// Number of concurrent connections.
    pub connections: Option<f64>,
    /// Concurrent requests per connection, if more than one.
    pub pipelining: Option<f64>,
    /// Duration of the test.
    pub seconds: Option<f64>,
    /// Number of responses.
    pub requests: Option<f64>,
    /// Responses per second.
    pub rate: Option<f64>,
    /// Bytes received per second.
    pub bytes_per_second: Option<f64>,
    /// Failed requests.
    pub errors: f64,
    /// Responses other than 2xx; wrk does not count 3xx among them.
    pub non2xx: f64,
    /// Latencies by name: `mean`, `p50`, `p99_9`, `max` and the like.
    pub latency_ms: Vec<(String, f64)>,
    /// Whether the tool states that it sent requests at a fixed rate.
    pub has_fixed_rate: bool,
    /// Problems with the figures, as sentence fragments.
    pub remarks: Vec<String>,
}

impl HttpOutput {
    /// Parses the output of `tool`; `None` if the measurement did not finish, or the tool is not
    /// supported.
    pub fn read(tool: &str, output: &str) -> Option<HttpOutput> {
        match tool {
            "wrk" => parse_wrk(output),
            "autocannon" => parse_autocannon(&serde_json::from_str(output.trim()).ok()?),
            "h2load" => parse_h2load(output),
            "speedwell" => parse_speedwell(&serde_json::from_str(output.trim()).ok()?),
            _ => None,
        }
    }

    /// Returns latency and errors in the format in which Speedwell's Node.js package reports them.
    pub fn to_report(&self) -> Json {
        let latency: Map<String, Json> =
            self.latency_ms.iter().map(|(name, ms)| (name.clone(), json!(ms))).collect();
        json!({
            "errors": self.errors, "non2xx": self.non2xx, "latency_ms": latency, "tool": self.tool
        })
    }

    fn add_latency(&mut self, name: &str, ms: Option<f64>) {
        let is_new = self.latency_ms.iter().all(|(existing, _)| existing != name);
        self.latency_ms.extend(ms.filter(|_| is_new).map(|ms| (name.to_owned(), ms)));
    }
}

/// Returns the name of a percentile: `p50`, `p99_9` for `99.900`, `max` for `100`.
pub fn percentile_name(percent: &str) -> String {
    let digits = match percent.split_once('.') {
        Some((integer_part, fraction)) => match fraction.trim_end_matches('0') {
            "" => integer_part.to_owned(),
            fraction => format!("{integer_part}_{fraction}"),
        },
        None => percent.to_owned(),
    };
    match digits.as_str() {
        "100" => "max".to_owned(),
        digits => format!("p{digits}"),
    }
}

/// Parses the output of wrk 4.x, with or without `--latency`, and of wrk2.
fn parse_wrk(output: &str) -> Option<HttpOutput> {
    let words_after = |prefix: &str| -> Option<Vec<&str>> {
        let line = output.lines().find_map(|line| line.trim_start().strip_prefix(prefix));
        Some(line?.split_whitespace().collect())
    };
    let first_word = |prefix: &str| words_after(prefix)?.first().copied();
    let running = output.lines().find_map(|line| line.strip_prefix("Running ")?.split_once(" @ "));
    let mut found = HttpOutput {
        tool: "wrk",
        rate: Some(first_word("Requests/sec:")?.parse().ok()?),
        url: running.map(|(_, url)| url.trim().to_owned()),
        bytes_per_second: first_word("Transfer/sec:").and_then(parse_bytes),
        // Only wrk2 names its histogram, and wrk2 always sends at a fixed rate.
        has_fixed_rate: output.contains("HdrHistogram"),
        ..HttpOutput::default()
    };
    let stats = words_after("Latency  ").unwrap_or_default();
    found.add_latency("mean", stats.first().and_then(|text| parse_milliseconds(text)));
    // wrk2 prints its percentiles twice. The percentiles under the second heading are not corrected
    // for requests that started late, so `add_latency` keeps only the first value of each
    // percentile.
    let is_below_100 = |percent: &&str| percent.parse::<f64>().is_ok_and(|percent| percent < 100.0);
    for line in output.lines() {
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            [_, "threads", "and", count, "connections"] => found.connections = count.parse().ok(),
            [count, "requests", "in", time, ..] => {
                found.requests = count.parse().ok();
                let ms = parse_milliseconds(time.trim_end_matches(','));
                found.seconds = ms.map(|ms| ms / 1e3);
            }
            [percent, time] => {
                if let Some(percent) = percent.strip_suffix('%').filter(is_below_100) {
                    found.add_latency(&percentile_name(percent), parse_milliseconds(time));
                }
            }
            _ => {}
        }
    }
    found.add_latency("max", stats.get(2).and_then(|text| parse_milliseconds(text)));
    found.errors = words_after("Socket errors:").map_or(0.0, |words| {
        let counts = words.iter();
        counts
            .filter_map(|word| word.trim_end_matches(',').parse::<f64>().ok())
            .fold(0.0, |sum, count| sum + count)
    });
    let non2xx = first_word("Non-2xx or 3xx responses:").and_then(|count| count.parse().ok());
    found.non2xx = non2xx.unwrap_or(0.0);
    Some(found)
}

/// Percentiles of autocannon, each with its stored name and with its name in version 2 of
/// autocannon.
const AUTOCANNON_PERCENTILES: [(&str, &str); 8] = [
    ("p50", "p50"),
    ("p75", "p75"),
    ("p90", "p90"),
    ("p97_5", "p97_5"),
    ("p99", "p99"),
    ("p99_9", "p999"),
    ("p99_99", "p9999"),
    ("max", "max"),
];

/// Parses the output of autocannon with `-j`.
pub fn parse_autocannon(result: &Json) -> Option<HttpOutput> {
    let count = |key: &str| result[key].as_f64();
    let requests = result["requests"]["total"].as_f64();
    let seconds = count("duration").filter(|seconds| *seconds > 0.0);
    let per_second = |total: Option<f64>| total.zip(seconds).map(|(total, s)| total / s);
    let mut found = HttpOutput {
        tool: "autocannon",
        url: result["url"].as_str().map(str::to_owned),
        connections: count("connections"),
        pipelining: count("pipelining").filter(|requests| *requests > 1.0),
        seconds,
        requests,
        // The rate is computed here, because autocannon's own average is less exact: its histogram
        // rounds the counts of requests per second.
        rate: per_second(requests),
        bytes_per_second: per_second(result["throughput"]["total"].as_f64()),
        errors: count("errors")? + count("timeouts").unwrap_or(0.0),
        non2xx: count("non2xx").unwrap_or(0.0),
        ..HttpOutput::default()
    };
    let latency = &result["latency"];
    let mean = latency["average"].as_f64();
    found.add_latency("mean", mean);
    // autocannon's minimum ignores values that it rounded down to 0 ms, and may then exceed the
    // mean.
    let min = latency["min"].as_f64();
    found.add_latency("min", min.filter(|min| mean.is_none_or(|mean| *min <= mean)));
    for (name, old_name) in AUTOCANNON_PERCENTILES {
        let ms = latency[name].as_f64();
        found.add_latency(name, ms.or_else(|| latency[old_name].as_f64()));
    }
    let recorded = latency["totalCount"].as_f64();
    if let Some((recorded, requests)) = recorded.zip(requests)
        && recorded > requests
    {
        found.has_fixed_rate = true;
        found.remarks.push(format!(
            "the output has {recorded} latencies for {requests} responses: autocannon added the \
             surplus to account for requests that could not start on time at the constant rate; \
             because it did so in steps of 1 ms, it added too many"
        ));
    }
    let in_flight = count("connections").unwrap_or(1.0) * count("pipelining").unwrap_or(1.0);
    if let Some((sent, requests)) = result["requests"]["sent"].as_f64().zip(requests) {
        let lost = sent - requests - found.errors;
        if lost > in_flight {
            found.remarks.push(format!(
                "{lost} of {sent} requests sent were neither answered nor counted as errors"
            ));
        }
    }
    Some(found)
}

/// Parses the output of Speedwell's own load generator, which an HTTP benchmark can use as its tool
/// (`speedwell load --benchmarker`).
fn parse_speedwell(line: &Json) -> Option<HttpOutput> {
    let figure = |key: &str| line[key].as_f64();
    let mut found = HttpOutput {
        tool: "speedwell",
        seconds: figure("seconds"),
        requests: figure("requests"),
        rate: Some(figure("rate")?),
        bytes_per_second: figure("bytes_per_second"),
        errors: figure("errors")?,
        non2xx: figure("non2xx")?,
        ..HttpOutput::default()
    };
    for (name, ms) in line["latency_ms"].as_object()? {
        found.add_latency(name, ms.as_f64());
    }
    Some(found)
}

/// Parses the output of h2load: its counts of requests and status codes, and the mean time per
/// request.
fn parse_h2load(output: &str) -> Option<HttpOutput> {
    let line = |prefix: &str| output.lines().find_map(|line| line.strip_prefix(prefix));
    let counted = |line: &str, name: &str| -> Option<f64> {
        let part = line.split(',').find(|part| part.trim().ends_with(name))?;
        part.split_whitespace().next()?.parse().ok()
    };
    let requests = line("requests:")?;
    let codes = line("status codes:").unwrap_or_default();
    let finished: Vec<&str> = line("finished in ").unwrap_or_default().split(", ").collect();
    let clients = output.lines().filter_map(|line| {
        let (count, _) = line.split_once(" total client(s)")?;
        count.rsplit(' ').next()?.parse::<f64>().ok()
    });
    let clients: f64 = clients.sum();
    let other_codes = ["3xx", "4xx", "5xx"].iter().filter_map(|code| counted(codes, code));
    let rate = finished.get(1).and_then(|text| text.strip_suffix(" req/s"));
    let bandwidth = finished.get(2).and_then(|text| text.strip_suffix("/s"));
    let mut found = HttpOutput {
        tool: "h2load",
        connections: (clients > 0.0).then_some(clients),
        seconds: finished.first().and_then(|time| parse_milliseconds(time)).map(|ms| ms / 1e3),
        requests: counted(requests, "done"),
        rate: rate.and_then(|rate| rate.parse().ok()),
        bytes_per_second: bandwidth.and_then(parse_bytes),
        // A failed request has an error, such as a timeout, or a status of 4xx or 5xx, which h2load
        // counts separately.
        errors: counted(requests, "errored")?,
        // `sum()` returns -0 if there are no numbers; folding from 0.0 does not.
        non2xx: other_codes.fold(0.0, |sum, count| sum + count),
        ..HttpOutput::default()
    };
    let times: Vec<&str> =
        line("time for request:").unwrap_or_default().split_whitespace().collect();
    for (name, index) in [("min", 0), ("mean", 2), ("max", 1)] {
        let ms = times.get(index).and_then(|text| parse_milliseconds(text));
        found.add_latency(name, ms);
    }
    Some(found)
}

/// Parses `353.21us`, `1.29ms`, `2.01s` or `1.00m` into milliseconds.
fn parse_milliseconds(text: &str) -> Option<f64> {
    parse_with_unit(text, &[("us", 1e-3), ("ms", 1.0), ("s", 1e3), ("m", 60e3), ("h", 3_600e3)])
}

/// Parses `22.73KB`; kilobytes of wrk and h2load have 1024 bytes.
fn parse_bytes(text: &str) -> Option<f64> {
    const KB: f64 = 1024.0;
    parse_with_unit(text, &[("B", 1.0), ("KB", KB), ("MB", KB * KB), ("GB", KB * KB * KB)])
}

/// Parses a number with one of the units, which have different factors.
fn parse_with_unit(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic())?);
    let (_, factor) = units.iter().find(|(symbol, _)| *symbol == unit)?;
    Some(number.parse::<f64>().ok()? * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_report(tool: &str, output: &str) -> Option<Json> {
        HttpOutput::read(tool, output).map(|output| output.to_report())
    }

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
    fn latency_and_errors_of_wrk_are_read() {
        let report = parse_report("wrk", WRK).unwrap();
        assert_eq!((&report["errors"], &report["non2xx"]), (&json!(3.0), &json!(7.0)));
        let latency = &report["latency_ms"];
        assert_eq!(latency["mean"], 12.5);
        assert_eq!((&latency["p99"], &latency["max"]), (&json!(15.0), &json!(1010.0)));
    }

    #[test]
    fn latency_and_errors_of_autocannon_are_read() {
        let json = r#"{"requests":{"average":814},"latency":{"average":1.2,"p99":4,"max":20},
                       "errors":0,"timeouts":2,"non2xx":1}"#;
        let report = parse_report("autocannon", json).unwrap();
        assert_eq!((&report["errors"], &report["non2xx"]), (&json!(2.0), &json!(1.0)));
        assert_eq!(report["latency_ms"]["p99"], 4.0);
    }

    #[test]
    fn counts_and_mean_latency_of_h2load_are_read() {
        let text = "finished in 182.01ms, 549.41 req/s, 123.46MB/s
requests: 100 total, 100 started, 100 done, 98 succeeded, 5 failed, 2 errored, 1 timeout
status codes: 95 2xx, 0 3xx, 3 4xx, 0 5xx
                     min         max         mean         sd        +/- sd
time for request:     1.02ms     20.50ms      3.50ms       500us    80.00%
";
        let report = parse_report("h2load", text).unwrap();
        assert_eq!((&report["errors"], &report["non2xx"]), (&json!(2.0), &json!(3.0)));
        assert_eq!(report["latency_ms"], json!({"min": 1.02, "mean": 3.5, "max": 20.5}));
    }

    #[test]
    fn output_of_speedwells_own_generator_is_read() {
        let line = r#"{"tool":"speedwell","requests":90,"seconds":0.5,"rate":178.0,"errors":1.0,
                       "non2xx":0.0,"latency_ms":{"mean":2.5,"p99":9.0}}"#;
        let report = parse_report("speedwell", line).unwrap();
        assert_eq!((&report["tool"], &report["errors"]), (&json!("speedwell"), &json!(1.0)));
        assert_eq!(report["latency_ms"], json!({"mean": 2.5, "p99": 9.0}));
    }

    #[test]
    fn help_texts_and_garbage_are_not_parsed_as_measurements() {
        for (tool, text) in [
            ("wrk", "Usage: wrk <options> <url>"),
            ("autocannon", "x"),
            ("h2load", ""),
            ("speedwell", "{}"),
        ] {
            assert_eq!(parse_report(tool, text), None, "{tool}");
        }
    }
}
