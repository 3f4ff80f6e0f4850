//! The report as a table in HTML: `-w`, with the attributes of `-x`, `-y` and `-z`.
//!
//! Start at [`write`]. Attributes are written as they were typed, as they are the user's own HTML;
//! what comes from the server is escaped, unlike in the original.

use super::{Line, Report, added, text};
use crate::ab::arguments::Attributes;
use crate::ab::milliseconds::milliseconds;
use crate::ab::times::{Part, Times, Timing};
use std::io::{self, Write};

/// Rows of the table of times. The original leaves out waiting here.
const ROWS: [(&str, Part); 3] = [
    ("Connect", |timing| timing.connect_ns),
    ("Processing", |timing| timing.processing_ns),
    ("Total", Timing::total_ns),
];

/// Writes what stands above the line of progress.
///
/// # Errors
/// `out` is closed.
pub fn write_banner(out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "<p>")?;
    for line in text::banner() {
        writeln!(out, " {}<br>", escaped(&line))?;
    }
    writeln!(out, "</p>\n<p>")
}

/// Writes everything behind the line that tells of progress.
///
/// # Errors
/// `out` is closed.
pub fn write(report: &Report, attributes: &Attributes, out: &mut dyn Write) -> io::Result<()> {
    let Attributes { table, row, cell } = attributes;
    write!(out, "\n\n<table {table}>\n")?;
    let field = |name: &str, value: &str| {
        format!(
            "<tr {row}><th colspan=2 {cell}>{name}:</th><td colspan=2 {cell}>{}</td></tr>",
            escaped(value)
        )
    };
    for line in report.facts() {
        match line {
            Line::Field(name, value) => writeln!(out, "{}", field(name, &value))?,
            Line::Kinds(kinds) => {
                writeln!(out, "<tr {row}><td colspan=4 {cell} >{kinds}</td></tr>")?;
            }
            Line::Gap => {}
        }
    }
    if let Some(rate) = report.figures.rate() {
        writeln!(
            out,
            "{}",
            field("Requests per second", &format!("{rate:.2}"))
        )?;
    }
    let words = ["received", "sent", "total"];
    for (rate, word) in report.transfer_rates().iter().zip(words) {
        let value = format!("{rate:.2} kb/s {word}");
        match word {
            "received" => writeln!(out, "{}", field("Transfer rate", &value))?,
            _ => writeln!(
                out,
                "<tr {row}><td colspan=2 {cell}>&nbsp;</td><td colspan=2 {cell}>{value}</td></tr>"
            )?,
        }
    }
    if let Some(times) = &report.figures.times {
        write_times(times, attributes, out)?;
    }
    writeln!(out, "</table>\n<p>")?;
    for (name, value) in added::lines(report) {
        writeln!(out, " {name}: {}<br>", escaped(&value))?;
    }
    writeln!(out, "</p>")?;
    out.flush()
}

fn write_times(times: &Times, attributes: &Attributes, out: &mut dyn Write) -> io::Result<()> {
    let Attributes { row, cell, .. } = attributes;
    writeln!(
        out,
        "<tr {row}><th {cell} colspan=4>Connection Times (ms)</th></tr>"
    )?;
    writeln!(
        out,
        "<tr {row}><th {cell}>&nbsp;</th> <th {cell}>min</th>   <th {cell}>avg</th>   <th {cell}>max</th></tr>"
    )?;
    for (name, kind) in ROWS {
        let spread = times.spread(kind);
        write!(out, "<tr {row}><th {cell}>{name}:</th>")?;
        for ns in [
            spread.least_ns,
            spread.mean_ns.round() as u64,
            spread.greatest_ns,
        ] {
            write!(out, "<td {cell}>{:>5}</td>", milliseconds(ns))?;
        }
        writeln!(out, "</tr>")?;
    }
    Ok(())
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::super::text::tests::{asked, golden};
    use super::*;
    use crate::ab::figures::Figures;
    use crate::ab::made::Made;
    use speedwell_load::outcomes::ErrorClass;

    fn printed(line: &str, made: Made) -> String {
        let (request, url) = asked(line);
        let report = Report {
            request: &request,
            url: &url,
            server: Some("a <b>".to_owned()),
            tls: None,
            figures: Figures::of(&request, &made.measured(), 100),
            cut_short: None,
        };
        let mut out = Vec::new();
        write(&report, request.shown.html.as_ref().unwrap(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// The lines of the table, without what stands in its cells behind the names.
    fn shape(text: &str) -> Vec<String> {
        let table = text.split("<table").nth(1).unwrap();
        let rows = table.split("</table>").next().unwrap().lines();
        rows.map(|row| {
            let mut shape = String::new();
            for (at, cell) in row.split("<td").enumerate() {
                let tag_end = cell.find('>').map_or(0, |end| end + 1);
                shape.push_str(if at == 0 { cell } else { &cell[..tag_end] });
            }
            shape
        })
        .collect()
    }

    #[test]
    fn the_table_has_the_rows_of_the_original() {
        let line = "-w -k -n 60 -c 6 http://127.0.0.1:18195/slow";
        let ours = printed(line, Made::new().ok(60, 200));
        assert_eq!(shape(&ours), shape(&golden("ab_html.out")));
        assert!(ours.contains("</table>\n<p>\n Account: 60 attempted = 60 ok<br>\n"));
        assert!(ours.contains(">a &lt;b&gt;</td>"));
    }

    #[test]
    fn attributes_are_written_as_typed() {
        let line = "-x border=1 -y a=b -z c=d -n 2 http://h/";
        let made = Made::new().ok(1, 200).failed(1, ErrorClass::EofInHead);
        let html = printed(line, made);
        // As recorded from ab with the same attributes.
        assert!(html.starts_with(
            "\n\n<table border=1>\n<tr a=b><th colspan=2 c=d>Server Software:</th><td colspan=2 c=d>"
        ));
        assert!(html.contains(
            "\n<tr a=b><td colspan=4 c=d >   (Connect: 0, Receive: 1, Length: 0, Exceptions: 0)</td></tr>\n"
        ));
    }
}
