//! Writes the report in ab's layout: as text, or with `-w` as an HTML table with the attributes of
//! `-x`, `-y` and `-z`.
//!
//! Start at [`write_text`] and [`write_html`]. Attributes are written as typed, because they are
//! the user's own HTML; text from the server is escaped, unlike in ab.

use crate::ab::arguments::HtmlAttributes;
use crate::ab::figures::{PERCENTS, RequestTiming, RequestTimings, TimeSelector, TimeStatistics};
use crate::ab::report::{AbReportContent, ReportLine, added_lines, format_deviation, format_ms};
use std::io::{self, Write};

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
    for line in report.fact_lines() {
        match line {
            ReportLine::Field(name, value) => write_field(name, &value, out)?,
            ReportLine::Kinds(kinds) => writeln!(out, "{kinds}")?,
            ReportLine::Gap => writeln!(out)?,
        }
    }
    write_rates(report, out)?;
    if let Some(times) = &report.figures.times {
        write_times_table(times, !report.request.shown.hides_spread, out)?;
        // A single request has no distribution.
        if !report.request.shown.hides_percentages && times.count() > 1 {
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
        let rate = format!("{rate:.2} [#/sec] (mean)");
        write_field("Requests per second", &rate, out)?;
    }
    if let Some((per_client, across_clients)) = figures.time_per_request_ms() {
        write_field("Time per request", &format!("{per_client:.3} [ms] (mean)"), out)?;
        let across_clients =
            format!("{across_clients:.3} [ms] (mean, across all concurrent requests)");
        write_field("Time per request", &across_clients, out)?;
    }
    let rates = report.transfer_rates();
    for (rate, unit) in rates.iter().zip(["[Kbytes/sec] received", "kb/s sent", "kb/s total"]) {
        if unit.ends_with("received") {
            write_field("Transfer rate", &format!("{rate:.2} {unit}"), out)?
        } else {
            writeln!(out, "{:24}{rate:.2} {unit}", "")?
        }
    }
    Ok(())
}

/// Writes the table of times. Its columns end at the same position as in ab, or one or two places
/// further right, because times with decimals are wider.
fn write_times_table(
    times: &RequestTimings,
    has_spread: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, "\nConnection Times (ms)")?;
    writeln!(
        out,
        "{}",
        if has_spread {
            "              min  mean[+/-sd] median   max"
        } else {
            "              min   avg   max"
        }
    )?;
    for (name, kind) in TIME_ROWS {
        let spread = times.spread(kind);
        let name = format!("{name}:");
        let min = format_ms(spread.least_ns);
        let (mean, max) = (format_mean(&spread), format_ms(spread.greatest_ns));
        if has_spread {
            writeln!(
                out,
                "{name:<12}{min:>5} {mean:>5} {:>5} {:>7} {max:>5}",
                format_deviation(spread.deviation_ns),
                format_ms(spread.median_ns),
            )?
        } else {
            writeln!(out, "{name:<12}{min:>5} {mean:>5} {max:>5}")?
        }
    }
    Ok(())
}

fn format_mean(spread: &TimeStatistics) -> String {
    format_ms(spread.mean_ns.round() as u64)
}

fn write_percentages(times: &RequestTimings, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\nPercentage of the requests served within a certain time (ms)")?;
    for percent in PERCENTS {
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
    for line in report.fact_lines() {
        match line {
            ReportLine::Field(name, value) => writeln!(out, "{}", field(name, &value))?,
            ReportLine::Kinds(kinds) => {
                writeln!(out, "<tr {row}><td colspan=4 {cell} >{kinds}</td></tr>")?;
            }
            ReportLine::Gap => {}
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
mod tests;
