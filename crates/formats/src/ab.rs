//! Reads reports of ApacheBench (ab), one or several per file. A report is HTML (`-w`) or plain
//! text, and may have been pasted, which can collapse its whitespace.
//!
//! Decides where a report begins and what its lines mean. A line is recognized by the words before
//! its colon, because pasted reports have lost the alignment of their columns. Start at [`read`],
//! or at [`read_percentages`] and [`read_requests`] for the tables that ab writes to files (`-e`,
//! `-g`). These tables do not name the measured address. The source for the lines is `support/ab.c`
//! of httpd 2.2 and 2.4.

use crate::foreign::json::JsonContent;
use crate::load_report::{LoadReport, NS_PER_MS, NS_PER_SECOND, percentile_metric};
use crate::session_builder::{ImportedProcess, InputFile, SessionBuilder};
use anyhow::{Context, Result, ensure};
use speedwell_model::{Case, Metric, MetricDirection, Session};

/// Start of the first line of a report.
const FIRST_LINE: &str = "This is ApacheBench";

/// Fields that occur only in reports. They identify a pasted report that has lost its first line.
const REPORT_FIELDS: [&str; 4] =
    ["Server Software", "Concurrency Level", "Complete requests", "Requests per second"];

/// Returns whether the data contain a report of ab.
pub fn recognizes(file: &JsonContent<'_>) -> bool {
    file.beginning().lines().any(|line| {
        let line = line.trim();
        line.starts_with(FIRST_LINE)
            || (line.starts_with("Requests per second:") && line.contains("[#/sec]"))
    })
}

/// Reads all reports of a file. Each report is a run, because a process of ab writes only one. Adds
/// messages for the user to `remarks`.
///
/// # Errors
/// Fails if no report has results.
pub fn read(file: &InputFile<'_>, remarks: &mut Vec<String>) -> Result<Vec<Session>> {
    let mut text = String::from_utf8_lossy(file.bytes);
    if is_html(&text) {
        text = html_to_text(&text).into();
    }
    let mut imported = SessionBuilder::default();
    for (first_line, lines) in split_reports(&text) {
        let report = AbReport::read(&lines);
        imported.environment.facts.extend(report.facts.clone());
        match report.into_load_report() {
            Some(load) => load.add_to(&mut imported, remarks),
            None => remarks.push(format!(
                "the report that begins at line {first_line} has no results: ab gave up, or the text is cut \
                 short"
            )),
        }
    }
    ensure!(
        !imported.is_empty(),
        "{}\nhint: ab prints no report when it stops early, for example on a refused connection; check \
         its stderr, and try 'ab -r'",
        remarks.first().map_or("it contains no report", String::as_str)
    );
    Ok(vec![imported.into_session(file.label)?])
}

/// Splits `text` into reports. Returns for each report the number of its first line, and its lines.
fn split_reports(text: &str) -> Vec<(usize, Vec<&str>)> {
    let mut reports: Vec<(usize, Vec<&str>)> = Vec::new();
    for (line, number) in text.split_inclusive('\n').zip(1..) {
        if line.starts_with(FIRST_LINE) || reports.is_empty() {
            reports.push((number, Vec::new()));
        }
        if let Some((_, lines)) = reports.last_mut() {
            lines.push(line);
        }
    }
    // Text above the first report does not belong to that report, even if its lines contain colons
    // like the fields of a report.
    if reports.len() > 1 && !is_report(&reports[0].1) {
        reports.remove(0);
    }
    reports
}

/// Returns whether the lines are a report, rather than text above the first report.
fn is_report(lines: &[&str]) -> bool {
    lines.iter().any(|line| {
        let name = split_field(line).map(|(name, _)| name);
        line.starts_with(FIRST_LINE) || name.is_some_and(|name| REPORT_FIELDS.contains(&name))
    })
}

/// Rows of the table "Connection Times", with the prefixes of their metrics.
const CONNECTION_ROWS: [(&str, &str); 4] = [
    ("Connect", "connect"),
    ("Processing", "processing"),
    ("Waiting", "waiting"),
    ("Total", "latency"),
];

/// Columns of the table "Connection Times": first the columns that ab prints by default, then the
/// columns that ab prints with -S.
const CONNECTION_COLUMNS: [&[&str]; 2] =
    [&["min", "mean", "sd", "median", "max"], &["min", "mean", "max"]];

/// Lines that are stored as facts about the measured server, each with the name of its fact.
const FACT_LINES: [(&str, &str); 3] = [
    ("Server Software", "server_software"),
    ("Document Length", "document_length"),
    ("SSL/TLS Protocol", "tls"),
];

#[derive(Debug, Default)]
struct AbReport {
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

/// Splits `Requests per second: 1806.13 [#/sec] (mean)` into name and value.
fn split_field(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.trim().split_once(':')?;
    Some((name, value.trim()))
}

fn first_number(text: &str) -> Option<f64> {
    let number: f64 = text.split_whitespace().next()?.parse().ok()?;
    number.is_finite().then_some(number)
}

impl AbReport {
    /// Parses the lines of a report, each with its line end.
    fn read(lines: &[&str]) -> AbReport {
        let mut report = AbReport::default();
        // ab prints connection times in whole milliseconds.
        report.load.resolution_ns = NS_PER_MS;
        report.load.has_single_requests = true;
        for line in lines {
            // A line without a line feed may have lost digits at its end. It has lost none if it
            // ends with the words that ab prints after the figure.
            if !line.ends_with('\n') && !line.ends_with("(longest request)") {
                // If the last line of the report has been read, this line is other text, and the
                // report is complete.
                report.is_cut = !report.has_longest;
                continue;
            }
            report.parse_line(line.trim());
        }
        report
    }

    /// Returns the figures of the report; `None` if the report has no throughput and therefore no
    /// results.
    fn into_load_report(mut self) -> Option<LoadReport> {
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
        let (scheme, default_port) = if is_tls { ("https", "443") } else { ("http", "80") };
        let port = match self.port.as_str() {
            "" => String::new(),
            port if port == default_port => String::new(),
            port => format!(":{port}"),
        };
        format!("{scheme}://{}{port}{}", self.host, self.path)
    }

    fn parse_line(&mut self, line: &str) {
        if let Some(kinds) = line.strip_prefix('(').and_then(|line| line.strip_suffix(')')) {
            self.parse_failure_kinds(kinds);
        } else if let Some((percent, value)) = line.split_once('%')
            && percent.bytes().all(|byte| byte.is_ascii_digit())
        {
            self.parse_percentile(percent, value);
        } else if let Some((name, value)) = split_field(line) {
            self.parse_field(name, value);
        } else if line.ends_with(" kb/s sent") {
            self.parse_bandwidth("bytes_sent_per_second", line);
        }
    }

    fn parse_field(&mut self, name: &str, value: &str) {
        if let Some((_, fact)) = FACT_LINES.iter().find(|(fact_name, _)| *fact_name == name) {
            self.facts.push(((*fact).to_owned(), value.to_owned()));
        }
        let load = &mut self.load;
        match name {
            "Server Hostname" => self.host = value.to_owned(),
            "Server Port" => self.port = value.to_owned(),
            "Document Path" => self.path = value.to_owned(),
            "Concurrency Level" => load.concurrency = first_number(value),
            "Time taken for tests" => {
                load.elapsed_ns = first_number(value).map(|seconds| seconds * NS_PER_SECOND);
            }
            "Complete requests" => load.requests = first_number(value),
            "Failed requests" => load.errors = first_number(value),
            "Write errors" => {
                let count =
                    first_number(value).map(|count| (count_metric("http_write_errors"), count));
                load.others.extend(count);
            }
            "Non-2xx responses" => load.non2xx = first_number(value),
            "Keep-Alive requests" => self.facts.push(("keep_alive".to_owned(), "on".to_owned())),
            "Requests per second" => load.throughput = first_number(value),
            "Time per request" => {
                let is_across = value.contains("across");
                let name = if is_across { "time_across_all" } else { "time" };
                let time = first_number(value).map(|ms| (name.to_owned(), ms * NS_PER_MS));
                load.times_ns.extend(time);
            }
            "Transfer rate" => self.parse_bandwidth("bytes_per_second", value),
            _ => self.parse_connection_row(name, value),
        }
    }

    /// Parses a transfer rate. ab's kilobytes have 1024 bytes.
    fn parse_bandwidth(&mut self, name: &str, text: &str) {
        let metric = Metric::new(name, "B/s", MetricDirection::Higher);
        let figure = first_number(text).map(|kib| (metric, kib * 1024.0));
        self.load.others.extend(figure);
    }

    /// Parses a row of the connection times; the number of columns identifies the layout.
    fn parse_connection_row(&mut self, name: &str, value: &str) {
        let Some((_, row)) = CONNECTION_ROWS.iter().find(|(row_name, _)| *row_name == name) else {
            return;
        };
        let numbers: Vec<f64> = value.split_whitespace().map_while(first_number).collect();
        let Some(columns) =
            CONNECTION_COLUMNS.iter().find(|columns| columns.len() == numbers.len())
        else {
            return;
        };
        self.has_total |= *row == "latency";
        for (column, ms) in columns.iter().zip(numbers) {
            // The percentile table contains these two figures of the row Total as well, unless that
            // table is switched off.
            if *row == "latency" && ["median", "max"].contains(column) {
                continue;
            }
            let metric = format!("{row}_{column}");
            self.load.times_ns.push((metric, ms * NS_PER_MS));
        }
    }

    fn parse_failure_kinds(&mut self, text: &str) {
        for kind in text.split(',') {
            let Some((name, count)) = split_field(kind) else { continue };
            let Some(count) = first_number(count) else { continue };
            let metric = count_metric(&format!("http_failed_{}", name.to_lowercase()));
            self.load.others.push((metric, count));
        }
    }

    fn parse_percentile(&mut self, percent: &str, value: &str) {
        let Some(ms) = first_number(value) else { return };
        self.has_percentiles = true;
        self.has_longest |= percent == "100";
        let name = percentile_metric(percent);
        self.load.times_ns.push((name, ms * NS_PER_MS));
    }
}

fn count_metric(name: &str) -> Metric {
    Metric::new(name, "", MetricDirection::Lower)
}

const PERCENTAGES_HEADER: &str = "Percentage served,Time in ms";
const REQUESTS_HEADER: &str = "starttime\tseconds\tctime\tdtime\tttime\twait";

/// Number of rows in a percentile table, which has a row for each percentage from 0 to 100.
const PERCENTILE_ROWS: usize = 101;

/// Percentiles that become metrics: those in ab's own report, including the maximum (100), and in
/// addition the minimum (0).
const KEPT_PERCENTILES: [&str; 10] = ["0", "50", "66", "75", "80", "90", "95", "98", "99", "100"];

/// Benchmark name for a file without an address.
const DEFAULT_BENCHMARK: &str = "ab";

/// Returns whether the data are a percentile table.
pub fn recognizes_percentages(file: &JsonContent<'_>) -> bool {
    file.bytes.starts_with(PERCENTAGES_HEADER.as_bytes())
}

/// Returns whether the data are a table of requests.
pub fn recognizes_requests(file: &JsonContent<'_>) -> bool {
    file.bytes.starts_with(REQUESTS_HEADER.as_bytes())
}

/// Reads a percentile table. Adds messages for the user to `remarks`.
///
/// # Errors
/// Fails if the table has no rows, or a row is invalid; the message names the line of that row.
pub fn read_percentages(file: &InputFile<'_>, remarks: &mut Vec<String>) -> Result<Vec<Session>> {
    let table = DelimitedTable::read(file.bytes, PERCENTAGES_HEADER, ',')?;
    let mut load = LoadReport { target: DEFAULT_BENCHMARK.to_owned(), ..LoadReport::default() };
    for row in &table.rows {
        let percent = row.1[0];
        if KEPT_PERCENTILES.contains(&percent) {
            let name = match percent {
                "0" => "latency_min".to_owned(),
                percent => percentile_metric(percent),
            };
            load.times_ns.push((name, parse_cell(row, 1)? * NS_PER_MS));
        }
    }
    if table.is_cut || table.rows.len() < PERCENTILE_ROWS {
        load.remarks
            .push("the table is cut short, so percentages at its end are missing".to_owned());
    }
    ensure!(!load.times_ns.is_empty(), "it contains no rows");
    load.into_sessions(file, remarks)
}

/// Reads a table of requests, as one run with a sample of each metric for each request. Adds
/// messages for the user to `remarks`.
///
/// # Errors
/// Fails if the table has no rows, or a row is invalid; the message names the line of that row.
pub fn read_requests(file: &InputFile<'_>, remarks: &mut Vec<String>) -> Result<Vec<Session>> {
    let table = DelimitedTable::read(file.bytes, REQUESTS_HEADER, '\t')?;
    ensure!(!table.rows.is_empty(), "it contains no rows");
    let mut imported = SessionBuilder::default();
    let mut samples = Vec::new();
    let mut zeros = 0;
    let mut started_s = f64::INFINITY;
    for row in &table.rows {
        started_s = started_s.min(parse_cell(row, 1)?);
        for (column, name) in [(4, "latency"), (2, "connect"), (3, "processing"), (5, "waiting")] {
            let ms = parse_cell(row, column)?;
            zeros += u32::from(column == 4 && ms == 0.0);
            let metric = Metric::new(name, "ns", MetricDirection::Lower);
            samples.push(imported.metric_sample(metric, ms * NS_PER_MS));
        }
    }
    let process = ImportedProcess { samples, ..ImportedProcess::default() };
    imported.add_run(Case::new(DEFAULT_BENCHMARK, Vec::new()), process);
    if zeros > 0 {
        remarks.push(format!(
            "{zeros} of {} requests took less than 1 ms, the resolution of ab; they are stored \
             as 0",
            table.rows.len()
        ));
    }
    if table.is_cut {
        remarks.push(
            "the last line has no newline, so it may be cut short and was left out".to_owned(),
        );
    }
    imported.started_unix_ms = Some((started_s * 1e3) as i64);
    Ok(vec![imported.into_session(file.label)?])
}

/// Number and cells of a line.
type NumberedRow<'a> = (usize, Vec<&'a str>);

/// Rows below a header, all with as many cells as the header.
struct DelimitedTable<'a> {
    rows: Vec<NumberedRow<'a>>,
    /// Whether an unterminated last line was dropped.
    is_cut: bool,
}

impl<'a> DelimitedTable<'a> {
    fn read(bytes: &'a [u8], header: &str, separator: char) -> Result<DelimitedTable<'a>> {
        let text = crate::foreign::require_utf8(bytes)?;
        let mut table = DelimitedTable { rows: Vec::new(), is_cut: !text.ends_with('\n') };
        let complete_lines = text.rfind('\n').map_or("", |end| &text[..end]);
        ensure!(complete_lines.lines().next() == Some(header), "its first line is not '{header}'");
        let columns = header.split(separator).count();
        for (line, number) in complete_lines.lines().zip(1..).skip(1) {
            let row: Vec<&str> = line.split(separator).collect();
            ensure!(
                row.len() == columns,
                "the number of columns in line {number} is {}, expected {columns}",
                row.len()
            );
            table.rows.push((number, row));
        }
        Ok(table)
    }
}

fn parse_cell((line, row): &NumberedRow<'_>, column: usize) -> Result<f64> {
    let number: Option<f64> = row[column].trim().parse().ok();
    number
        .filter(|number| number.is_finite())
        .with_context(|| format!("line {line}: '{}' is not a number", row[column]))
}

/// HTML entities that ab uses.
const HTML_ENTITIES: [(&str, &str); 5] = [
    ("&nbsp;", " "),
    ("&lt;", "<"),
    ("&gt;", ">"),
    ("&quot;", "\""),
    // This entity comes last, so that the `&` that replaces it is not taken for the beginning of
    // another entity.
    ("&amp;", "&"),
];

/// Returns whether `text` is HTML rather than plain text.
fn is_html(text: &str) -> bool {
    text.lines().any(|line| line.trim_start().starts_with("<table"))
}

/// Converts HTML to text, with cells separated by blanks.
fn html_to_text(page: &str) -> String {
    page.split_inclusive('\n').map(html_line_to_text).collect()
}

fn html_line_to_text(line: &str) -> String {
    let end = if line.ends_with('\n') { "\n" } else { "" };
    let mut text = String::with_capacity(line.len());
    for (index, piece) in line.split('<').enumerate() {
        match piece.split_once('>') {
            Some((_, after_tag)) if index > 0 => {
                text.push(' ');
                text.push_str(after_tag);
            }
            _ if index > 0 => {}
            _ => text.push_str(piece),
        }
    }
    for (name, character) in HTML_ENTITIES {
        text = text.replace(name, character);
    }
    format!("{}{end}", text.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_with_colons_above_the_first_report_is_ignored() {
        let begins = |text: &str| split_reports(text).iter().map(|(at, _)| *at).collect::<Vec<_>>();
        let complete = format!("{FIRST_LINE}\nComplete requests: 1\n");
        assert_eq!(begins(&format!("Created: 19 March\n{complete}")), [2]);
        // A report without its first line.
        let headless = format!("Complete requests: 1\nRequests per second: 5\n{complete}");
        assert_eq!(begins(&headless), [1, 3]);
    }

    #[test]
    fn text_below_a_complete_report_does_not_cut_it_short() {
        let read = |lines: &[&str]| AbReport::read(lines).is_cut;
        assert!(!read(&["100% 3 (longest request)\n", "Sign up: it is free"]));
        assert!(read(&["99% 3\n", "100% 3 (lon"]));
    }

    #[test]
    fn html_rows_become_lines_and_html_cells_become_words() {
        let page = "<table >\n<tr ><th colspan=2>Server Software:</th><td>a &lt;b&gt; &amp;lt;</td></tr>\n\
                    <tr ><th>Connect:</th><td>    0</td><td>   1</td></tr>";
        assert!(is_html(page));
        let cells: Vec<String> = html_to_text(page)
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(cells, ["", "Server Software: a <b> &lt;", "Connect: 0 1"]);
        assert!(!html_to_text(page).ends_with('\n'));
        assert!(!is_html("Document Path:          /<table\n"));
    }
}
