//! One report of ApacheBench.
//!
//! Decides what its lines mean. It must not know other reports. Start at [`Report::read`]. A line is
//! told by the words before its colon, as pasted reports have lost their columns.

use crate::formats::load_report::{LoadReport, NS_PER_MS, NS_PER_SECOND, percentile};
use speedwell_model::{Better, Metric};

/// Rows of the table "Connection Times", and what their metrics are called.
const ROWS: [(&str, &str); 4] = [
    ("Connect", "connect"),
    ("Processing", "processing"),
    ("Waiting", "waiting"),
    ("Total", "latency"),
];

/// Columns of that table: as a rule, and with -S.
const COLUMNS: [&[&str]; 2] = [
    &["min", "mean", "sd", "median", "max"],
    &["min", "mean", "max"],
];

/// Lines that are kept as facts, for they tell what was measured and how.
const FACTS: [(&str, &str); 3] = [
    ("Server Software", "server_software"),
    ("Document Length", "document_length"),
    ("SSL/TLS Protocol", "tls"),
];

/// What the lines of one report say.
#[derive(Debug, Default)]
pub struct Report {
    host: String,
    port: String,
    path: String,
    facts: Vec<(String, String)>,
    load: LoadReport,
    has_total: bool,
    has_percentiles: bool,
    has_longest: bool,
    is_cut: bool,
}

/// `Requests per second:    1806.13 [#/sec] (mean)` as its name and the rest.
pub fn field(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = line.trim().split_once(':')?;
    Some((name, rest.trim()))
}

/// The first number of a text.
fn number(text: &str) -> Option<f64> {
    let number: f64 = text.split_whitespace().next()?.parse().ok()?;
    number.is_finite().then_some(number)
}

impl Report {
    /// Reads the lines of a report, each with its line end.
    pub fn read(lines: &[&str]) -> Report {
        let mut report = Report::default();
        // ab prints the times of connections in whole milliseconds.
        report.load.resolution_ns = NS_PER_MS;
        report.load.has_single_requests = true;
        for line in lines {
            // A line without its end may have lost digits, unless its last words are there.
            if !line.ends_with('\n') && !line.ends_with("(longest request)") {
                report.is_cut = true;
                continue;
            }
            report.line(line.trim());
        }
        report
    }

    /// What the report tells of its circumstances.
    pub fn facts(&self) -> Vec<(String, String)> {
        self.facts.clone()
    }

    /// The figures; `None` if there are none.
    pub fn load(mut self) -> Option<LoadReport> {
        self.load.throughput?;
        let is_whole = self.has_total && (self.has_longest || !self.has_percentiles);
        if self.is_cut || !is_whole {
            self.load
                .remarks
                .push("the report is cut short, so figures at its end are missing".to_owned());
        }
        self.load.target = self.target();
        Some(self.load)
    }

    fn target(&self) -> String {
        if self.host.is_empty() {
            return "ab".to_owned();
        }
        let is_tls = self.facts.iter().any(|(name, _)| name == "tls");
        let (scheme, usual) = if is_tls {
            ("https", "443")
        } else {
            ("http", "80")
        };
        let port = match self.port.as_str() {
            "" => String::new(),
            port if port == usual => String::new(),
            port => format!(":{port}"),
        };
        format!("{scheme}://{}{port}{}", self.host, self.path)
    }

    fn line(&mut self, line: &str) {
        if let Some(kinds) = line
            .strip_prefix('(')
            .and_then(|line| line.strip_suffix(')'))
        {
            self.kinds(kinds);
        } else if let Some((percent, rest)) = line.split_once('%')
            && percent.bytes().all(|byte| byte.is_ascii_digit())
        {
            self.percentile(percent, rest);
        } else if let Some((name, rest)) = field(line) {
            self.field(name, rest);
        } else if line.ends_with(" kb/s sent") {
            self.bandwidth("bytes_sent_per_second", line);
        }
    }

    fn field(&mut self, name: &str, rest: &str) {
        if let Some((_, fact)) = FACTS.iter().find(|(known, _)| *known == name) {
            self.facts.push(((*fact).to_owned(), rest.to_owned()));
        }
        let load = &mut self.load;
        match name {
            "Server Hostname" => self.host = rest.to_owned(),
            "Server Port" => self.port = rest.to_owned(),
            "Document Path" => self.path = rest.to_owned(),
            "Concurrency Level" => load.concurrency = number(rest),
            "Time taken for tests" => {
                load.elapsed_ns = number(rest).map(|seconds| seconds * NS_PER_SECOND);
            }
            "Complete requests" => load.requests = number(rest),
            "Failed requests" => load.errors = number(rest),
            "Write errors" => {
                let count = number(rest).map(|count| (count_of("http_write_errors"), count));
                load.others.extend(count);
            }
            "Non-2xx responses" => load.non2xx = number(rest),
            "Keep-Alive requests" => {
                self.facts.push(("keep_alive".to_owned(), "on".to_owned()));
            }
            "Requests per second" => load.throughput = number(rest),
            "Time per request" => {
                let is_across = rest.contains("across");
                let name = if is_across { "time_across_all" } else { "time" };
                let time = number(rest).map(|ms| (name.to_owned(), ms * NS_PER_MS));
                load.times_ns.extend(time);
            }
            "Transfer rate" => self.bandwidth("bytes_per_second", rest),
            _ => self.row(name, rest),
        }
    }

    /// ab's kilobytes have 1024 bytes.
    fn bandwidth(&mut self, name: &str, text: &str) {
        let metric = Metric::new(name, "B/s", Better::Higher);
        let figure = number(text).map(|kib| (metric, kib * 1024.0));
        self.load.others.extend(figure);
    }

    /// A row of the table of connections, whose columns are told by their number.
    fn row(&mut self, name: &str, rest: &str) {
        let Some((_, row)) = ROWS.iter().find(|(known, _)| *known == name) else {
            return;
        };
        let numbers: Vec<f64> = rest.split_whitespace().map_while(number).collect();
        let Some(columns) = COLUMNS.iter().find(|known| known.len() == numbers.len()) else {
            return;
        };
        self.has_total |= *row == "latency";
        for (column, ms) in columns.iter().zip(numbers) {
            // The table of percentiles says the same of Total, unless it was not asked for.
            if *row == "latency" && ["median", "max"].contains(column) {
                continue;
            }
            let metric = format!("{row}_{column}");
            self.load.times_ns.push((metric, ms * NS_PER_MS));
        }
    }

    fn kinds(&mut self, text: &str) {
        for kind in text.split(',') {
            let Some((name, count)) = field(kind) else {
                continue;
            };
            let Some(count) = number(count) else { continue };
            let metric = count_of(&format!("http_failed_{}", name.to_lowercase()));
            self.load.others.push((metric, count));
        }
    }

    fn percentile(&mut self, percent: &str, rest: &str) {
        let Some(ms) = number(rest) else { return };
        self.has_percentiles = true;
        self.has_longest |= percent == "100";
        let name = percentile(percent);
        self.load.times_ns.push((name, ms * NS_PER_MS));
    }
}

fn count_of(name: &str) -> Metric {
    Metric::new(name, "", Better::Lower)
}
