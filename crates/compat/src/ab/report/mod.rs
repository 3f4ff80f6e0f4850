//! Builds the contents of a report, and writes it in ab's layout.
//!
//! Decides which of ab's lines appear, and their order. They are printed as text, or with `-w` as
//! an HTML table with the attributes of `-x`, `-y` and `-z`. The attributes are written as typed,
//! because they are the user's own HTML. Text from the server is escaped, unlike in ab. TLS is
//! described in the OpenSSL terms that ab prints. Start at [`write_text`] and [`write_html`].

use crate::ab::arguments::{AbRequest, HtmlAttributes};
use crate::ab::figures::{AbFigures, RequestTiming, RequestTimings, TimeSelector};
use crate::ab::load::AbUrl;
use speedwell_model::load::latency::{AB_PERCENTS, MIN_CONCURRENCY_SHARE};
use speedwell_model::load::measurement::TlsFacts;
use speedwell_model::load::outcomes::ErrorClass;
use std::io::{self, Write};

/// Reason why a test ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutShort {
    /// A request failed in this way, and `-r` was not given or would not have helped.
    Failed(ErrorClass),
    /// The user interrupted the test.
    Interrupted,
}

impl CutShort {
    /// Returns the reason as a sentence fragment.
    pub fn reason(self) -> &'static str {
        match self {
            CutShort::Failed(class) => class.description(),
            CutShort::Interrupted => "it was interrupted",
        }
    }
}

/// Contents of a report.
#[derive(Debug)]
pub struct AbReportContent<'a> {
    pub request: &'a AbRequest,
    pub url: &'a AbUrl,
    /// Value of the `Server` header field.
    pub server: Option<String>,
    /// Negotiated TLS parameters.
    pub tls: Option<TlsFacts>,
    pub figures: AbFigures,
    /// Reason for an incomplete report.
    pub cut_short: Option<CutShort>,
}

/// Line of a report: a name and its value. A line without a name is printed as it is.
type ReportLine = (&'static str, String);

impl AbReportContent<'_> {
    /// Returns the lines from `Server Software` to `HTML transferred`.
    fn fact_lines(&self) -> Vec<ReportLine> {
        let host = &self.url.host;
        let mut lines = vec![
            field_line("Server Software", self.server.as_deref().unwrap_or("")),
            field_line("Server Hostname", &host.name),
            field_line("Server Port", host.port),
        ];
        if let Some(tls) = &self.tls {
            lines.push(field_line("SSL/TLS Protocol", format_tls_protocol(tls)));
            let key = tls.group.as_deref().map(format_temporary_key);
            lines.extend(key.map(|key| field_line("Server Temp Key", key)));
            // IP addresses are not sent as server names (RFC 6066, section 3).
            let is_name = host.name.parse::<std::net::IpAddr>().is_err();
            lines.extend(is_name.then(|| field_line("TLS Server Name", &host.name)));
        }
        let length = self.figures.lengths.map_or(0, |lengths| lengths.first);
        let is_varying = self.request.varying;
        let length = if is_varying { "Variable".to_owned() } else { format!("{length} bytes") };
        lines.push(("", String::new()));
        lines.push(field_line("Document Path", &self.url.path));
        lines.push(field_line("Document Length", length));
        lines.push(("", String::new()));
        lines.extend(self.count_lines());
        lines
    }

    fn count_lines(&self) -> Vec<ReportLine> {
        let figures = &self.figures;
        let failures = &figures.failures;
        let seconds = figures.elapsed_ns as f64 / 1e9;
        let mut lines = vec![
            field_line("Concurrency Level", figures.concurrency),
            field_line("Time taken for tests", format!("{seconds:.3} seconds")),
            field_line("Complete requests", figures.complete),
            field_line("Failed requests", failures.failed_requests()),
        ];
        if failures.failed_requests() > 0 {
            let kinds = format!(
                "   (Connect: {}, Receive: {}, Length: {}, Exceptions: {})",
                failures.connect, failures.receive, failures.length, failures.exceptions
            );
            lines.push(("", kinds));
        }
        for (name, count, is_shown) in [
            ("Write errors", failures.write, failures.write > 0),
            ("Non-2xx responses", figures.non2xx, figures.non2xx > 0),
            ("Keep-Alive requests", figures.kept_alive, self.request.keeps_alive),
        ] {
            lines.extend(is_shown.then(|| field_line(name, count)));
        }
        let bytes = |count| format!("{count} bytes");
        lines.push(field_line("Total transferred", bytes(figures.received_bytes)));
        let sent = figures.sent_bytes;
        lines.extend(sent.map(|sent| field_line("Total body sent", sent)));
        lines.push(field_line("HTML transferred", bytes(figures.body_bytes)));
        lines
    }

    /// Returns the transfer rates in kilobytes per second. The first is the rate of received bytes.
    /// If requests have a body, the rate of sent bytes and the sum of both follow.
    fn transfer_rates(&self) -> Vec<f64> {
        let figures = &self.figures;
        let received = figures.received_bytes;
        let sent = figures.sent_bytes.into_iter().flat_map(|sent| [sent, sent + received]);
        let bytes = [received].into_iter().chain(sent);
        bytes.filter_map(|bytes| figures.kib_per_second(bytes)).collect()
    }
}

fn field_line(name: &'static str, value: impl ToString) -> ReportLine {
    (name, value.to_string())
}

/// Returns the lines (name, text) that Speedwell adds at the end. They do not break parsers
/// of ab's report, because they have new names and come last.
fn added_lines(report: &AbReportContent) -> Vec<ReportLine> {
    let figures = &report.figures;
    let mut lines = vec![("Account", format_account(report))];
    if let Some(effective) = figures.effective_concurrency() {
        let text = format!("{effective:.2} on average, {} requested", figures.concurrency);
        lines.push(("Effective concurrency", text));
    }
    let ranges = figures.lengths.map(|lengths| lengths.range);
    if let Some((min, max)) = ranges.filter(|(min, max)| min < max) {
        lines.push(("Body lengths", format!("{min} to {max} bytes, not counted as failures")));
    }
    if let Some(lengths) = figures.lengths
        && report.request.counts_lengths
    {
        let (differing, complete) = (lengths.others, figures.complete);
        let text = format!("{differing} of {complete} (length differs from the first)");
        lines.push(("Failed by ab's rule", text));
    }
    let warnings = report_warnings(report).into_iter();
    lines.extend(warnings.map(|text| ("WARNING", text)));
    lines
}

/// Returns the number of attempts as the sum of all outcomes, such as `40 attempted = 20 ok + 20
/// reset.in-body`.
fn format_account(report: &AbReportContent) -> String {
    let figures = &report.figures;
    let outcomes = figures.account.iter();
    let outcomes: Vec<String> = outcomes.map(|(name, count)| format!("{count} {name}")).collect();
    format!("{} attempted = {}", figures.attempted, outcomes.join(" + "))
}

/// Returns warnings against misreading the figures, in complete sentences.
fn report_warnings(report: &AbReportContent) -> Vec<String> {
    let figures = &report.figures;
    let mut warnings = Vec::new();
    if let Some(reason) = report.cut_short.map(CutShort::reason) {
        warnings.push(format!("This report covers only part of the test: {reason}."));
    }
    let failed = figures.complete - figures.success_count().min(figures.complete);
    if failed > 0 && report.cut_short.is_none() {
        warnings.push(format!(
            "{failed} of {} requests failed or had a status other than 2xx: the rate does not \
             represent a working server.",
            figures.complete
        ));
    }
    if figures.lacks_concurrency() {
        warnings.push(format!(
            "Less than {:.0} % of the requested concurrency was reached, so the times belong to a \
             lighter load.",
            MIN_CONCURRENCY_SHARE * 100.0
        ));
    }
    warnings
}

/// Formats the TLS parameters, such as `TLSv1.3,TLS_AES_256_GCM_SHA384,2048,256`: the protocol, the
/// cipher, the number of bits of the server's key, and the number of bits of the cipher. An unknown
/// number is `-`.
fn format_tls_protocol(facts: &TlsFacts) -> String {
    let cipher = openssl_cipher(&facts.cipher);
    let or_unknown = |bits: Option<u32>| bits.map_or("-".to_owned(), |bits| bits.to_string());
    let bits = [facts.key_bits, cipher_bits(&cipher)].map(or_unknown).join(",");
    format!("{},{cipher},{bits}", facts.version)
}

/// Formats the temporary key, such as `X25519 253 bits`. If the size of the group is unknown,
/// returns only its name.
fn format_temporary_key(group: &str) -> String {
    // Names and sizes as OpenSSL 3 prints them for these groups.
    match group.to_ascii_lowercase().as_str() {
        "x25519" => "X25519 253 bits".to_owned(),
        "secp256r1" => "ECDH prime256v1 256 bits".to_owned(),
        "secp384r1" => "ECDH secp384r1 384 bits".to_owned(),
        "secp521r1" => "ECDH secp521r1 521 bits".to_owned(),
        _ => group.to_owned(),
    }
}

/// Returns OpenSSL's name of a cipher suite. For TLS 1.3, this is the name in RFC 8446, appendix
/// B.4. Names for older versions have hyphens instead of underscores, such as
/// `ECDHE-RSA-AES128-GCM-SHA256`.
fn openssl_cipher(name: &str) -> String {
    if let Some(rest) = name.strip_prefix("TLS13_") {
        return format!("TLS_{rest}");
    }
    let parts = name.strip_prefix("TLS_").and_then(|rest| rest.split_once("_WITH_"));
    let Some((exchange, cipher)) = parts else { return name.to_owned() };
    let cipher = match cipher {
        "CHACHA20_POLY1305_SHA256" => "CHACHA20_POLY1305".to_owned(),
        cipher => cipher.replacen("AES_", "AES", 1),
    };
    format!("{exchange}-{cipher}").replace('_', "-")
}

fn cipher_bits(cipher: &str) -> Option<u32> {
    let sizes =
        [("AES_128", 128), ("AES128", 128), ("AES_256", 256), ("AES256", 256), ("CHACHA20", 256)];
    sizes.into_iter().find(|(name, _)| cipher.contains(name)).map(|(_, bits)| bits)
}

/// Times below this number of nanoseconds are shown with decimals.
const FINE_BELOW_NS: u64 = 10_000_000;

/// Formats a time in milliseconds. Times below 10 ms have three decimals, and longer times have
/// none. Zero is `0`.
pub fn format_ms(ns: u64) -> String {
    match ns {
        0 => "0".to_owned(),
        small_ns if small_ns < FINE_BELOW_NS => format!("{:.3}", small_ns as f64 / 1e6),
        large_ns => format!("{}", (large_ns + 500_000) / 1_000_000),
    }
}

/// Formats a standard deviation in milliseconds. A deviation above zero and below 10 ms has three
/// decimals; any other deviation has one decimal, as in ab.
pub fn format_deviation(ns: f64) -> String {
    let is_small = ns > 0.0 && ns < FINE_BELOW_NS as f64;
    let decimals = if is_small { 3 } else { 1 };
    format!("{:.decimals$}", ns / 1e6)
}

/// First words of the report. They name the version of ab that this tool imitates. Scripts search
/// for this string.
const BANNER: &str = "This is ApacheBench, Version 2.3";

/// Rows of the table of times.
const TIME_ROWS: [(&str, TimeSelector); 4] = [
    ("Connect", |timing| timing.connect_ns),
    ("Processing", |timing| timing.processing_ns),
    ("Waiting", |timing| timing.waiting_ns),
    ("Total", RequestTiming::total_ns),
];

/// Returns the three lines that start every report. In ab, the second and third lines state its
/// copyright and license.
pub fn banner_lines() -> [String; 3] {
    [
        format!("{BANNER} <Speedwell {}>", env!("CARGO_PKG_VERSION")),
        "This is not ApacheBench itself, but a drop-in replacement by Speedwell that prints the \
         same report."
            .to_owned(),
        "Differences: 'speedwell as ab -h' and docs/reference/ab.md.".to_owned(),
    ]
}

/// Writes everything after the progress line.
///
/// # Errors
/// Fails if `out` is closed.
pub fn write_text(report: &AbReportContent, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "\n\n")?;
    for (name, value) in report.fact_lines() {
        match name {
            "" => writeln!(out, "{value}")?,
            name => write_field(name, &value, out)?,
        }
    }
    write_rates(report, out)?;
    if let Some(times) = &report.figures.times {
        write_times(times, !report.request.hides_spread, out)?;
        // A single request has no distribution.
        if !report.request.hides_percentages && times.count() > 1 {
            write_percentages(times, out)?;
        }
    }
    writeln!(out)?;
    for (name, value) in added_lines(report) {
        write_field(name, &value, out)?;
    }
    out.flush()
}

fn write_field(name: &str, value: &str, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{:<24}{value}", format!("{name}:"))
}

fn write_rates(report: &AbReportContent, out: &mut dyn Write) -> io::Result<()> {
    let figures = &report.figures;
    if let Some(rate) = figures.requests_per_second() {
        write_field("Requests per second", &format!("{rate:.2} [#/sec] (mean)"), out)?;
    }
    if let Some((per_client, across_clients)) = figures.time_per_request_ms() {
        write_field("Time per request", &format!("{per_client:.3} [ms] (mean)"), out)?;
        let unit = "[ms] (mean, across all concurrent requests)";
        write_field("Time per request", &format!("{across_clients:.3} {unit}"), out)?;
    }
    let units =
        [("Transfer rate:", "[Kbytes/sec] received"), ("", "kb/s sent"), ("", "kb/s total")];
    for (rate, (name, unit)) in report.transfer_rates().iter().zip(units) {
        writeln!(out, "{name:<24}{rate:.2} {unit}")?;
    }
    Ok(())
}

/// Writes the table of times. Its columns end at the same position as in ab, or one or two places
/// further right, because times with decimals are wider.
fn write_times(times: &RequestTimings, has_spread: bool, out: &mut dyn Write) -> io::Result<()> {
    let columns = if has_spread { "min  mean[+/-sd] median   max" } else { "min   avg   max" };
    writeln!(out, "\nConnection Times (ms)\n              {columns}")?;
    for (name, kind) in TIME_ROWS {
        let spread = times.spread(kind);
        let name = format!("{name}:");
        let min = format_ms(spread.least_ns);
        let (mean, max) = (format_ms(spread.mean_ns.round() as u64), format_ms(spread.greatest_ns));
        write!(out, "{name:<12}{min:>5} {mean:>5}")?;
        if has_spread {
            let deviation = format_deviation(spread.deviation_ns);
            write!(out, " {deviation:>5} {:>7}", format_ms(spread.median_ns))?;
        }
        writeln!(out, " {max:>5}")?;
    }
    Ok(())
}

fn write_percentages(times: &RequestTimings, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\nPercentage of the requests served within a certain time (ms)")?;
    for percent in AB_PERCENTS {
        let time = format_ms(times.percentile_ns(percent));
        let remark = if percent == 100 { " (longest request)" } else { "" };
        writeln!(out, "{percent:>4}%  {time:>5}{remark}")?;
    }
    Ok(())
}

/// Writes everything above the progress line.
///
/// # Errors
/// Fails if `out` is closed.
pub fn write_html_banner(out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "<p>")?;
    for line in banner_lines() {
        writeln!(out, " {}<br>", escape_html(&line))?;
    }
    writeln!(out, "</p>\n<p>")
}

/// Writes everything after the progress line.
///
/// # Errors
/// Fails if `out` is closed.
pub fn write_html(
    report: &AbReportContent,
    attributes: &HtmlAttributes,
    out: &mut dyn Write,
) -> io::Result<()> {
    let HtmlAttributes { table, row, cell } = attributes;
    write!(out, "\n\n<table {table}>\n")?;
    let field = |name: &str, value: &str| {
        format!(
            "<tr {row}><th colspan=2 {cell}>{name}:</th><td colspan=2 {cell}>{}</td></tr>",
            escape_html(value)
        )
    };
    for (name, value) in report.fact_lines() {
        match name {
            "" if value.is_empty() => {}
            "" => writeln!(out, "<tr {row}><td colspan=4 {cell} >{value}</td></tr>")?,
            name => writeln!(out, "{}", field(name, &value))?,
        }
    }
    if let Some(rate) = report.figures.requests_per_second() {
        writeln!(out, "{}", field("Requests per second", &format!("{rate:.2}")))?;
    }
    let directions = ["received", "sent", "total"];
    for (rate, direction) in report.transfer_rates().iter().zip(directions) {
        let value = format!("{rate:.2} kb/s {direction}");
        match direction {
            "received" => writeln!(out, "{}", field("Transfer rate", &value))?,
            _ => writeln!(
                out,
                "<tr {row}><td colspan=2 {cell}>&nbsp;</td><td colspan=2 {cell}>{value}</td></tr>"
            )?,
        }
    }
    if let Some(times) = &report.figures.times {
        write_html_times(times, attributes, out)?;
    }
    writeln!(out, "</table>\n<p>")?;
    for (name, value) in added_lines(report) {
        writeln!(out, " {name}: {}<br>", escape_html(&value))?;
    }
    writeln!(out, "</p>")?;
    out.flush()
}

fn write_html_times(
    times: &RequestTimings,
    attributes: &HtmlAttributes,
    out: &mut dyn Write,
) -> io::Result<()> {
    let HtmlAttributes { row, cell, .. } = attributes;
    writeln!(out, "<tr {row}><th {cell} colspan=4>Connection Times (ms)</th></tr>")?;
    writeln!(
        out,
        "<tr {row}><th {cell}>&nbsp;</th> <th {cell}>min</th>   <th {cell}>avg</th>   <th {cell}>max</th></tr>"
    )?;
    // As in ab, this table has no row for waiting.
    for (name, kind) in TIME_ROWS.into_iter().filter(|(name, _)| *name != "Waiting") {
        let spread = times.spread(kind);
        write!(out, "<tr {row}><th {cell}>{name}:</th>")?;
        for ns in [spread.least_ns, spread.mean_ns.round() as u64, spread.greatest_ns] {
            write!(out, "<td {cell}>{:>5}</td>", format_ms(ns))?;
        }
        writeln!(out, "</tr>")?;
    }
    Ok(())
}

fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod layout_tests;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cipher_suites_have_the_names_of_openssl() {
        // From `openssl ciphers -stdname`.
        for (standard, name, bits) in [
            ("TLS13_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384", 256),
            ("TLS_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256", 128),
            ("TLS13_CHACHA20_POLY1305_SHA256", "TLS_CHACHA20_POLY1305_SHA256", 256),
            ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256", 128),
            ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305", 256),
        ] {
            let facts = TlsFacts {
                version: "TLSv1.3".to_owned(),
                cipher: standard.to_owned(),
                key_bits: Some(2048),
                group: None,
                alpn: None,
            };
            assert_eq!(format_tls_protocol(&facts), format!("TLSv1.3,{name},2048,{bits}"));
        }
        assert_eq!(format_temporary_key("X25519"), "X25519 253 bits");
        assert_eq!(format_temporary_key("X25519MLKEM768"), "X25519MLKEM768");
    }

    #[test]
    fn fast_answers_have_decimals_and_slow_ones_have_none() {
        for (ns, text) in [
            (0, "0"),
            (400, "0.000"),
            (161_499, "0.161"),
            (9_999_000, "9.999"),
            (10_000_000, "10"),
            (20_500_000, "21"),
            (4_299_000_000, "4299"),
        ] {
            assert_eq!(format_ms(ns), text);
        }
        assert_eq!(format_deviation(0.0), "0.0");
        assert_eq!(format_deviation(111_600.0), "0.112");
        assert_eq!(format_deviation(11_840_000.0), "11.8");
    }
}
