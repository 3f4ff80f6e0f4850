//! Results as files: JSON, CSV, and tables in Markdown, AsciiDoc and Org, byte for byte as the
//! original writes them. Start at [`write`].

use crate::hyperfine::arguments::Export;
use crate::hyperfine::figures::{Figures, Relative, Unit, fastest, relative};
use serde::Serialize;
use serde_json::ser::{PrettyFormatter, Serializer};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::io;
use std::path::Path;

/// One command of an export.
#[derive(Serialize)]
struct Entry<'a> {
    command: &'a str,
    mean: f64,
    stddev: Option<f64>,
    median: f64,
    user: f64,
    system: f64,
    min: f64,
    max: f64,
    times: Vec<f64>,
    memory_usage_byte: Vec<u64>,
    exit_codes: Vec<Option<i32>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    parameters: BTreeMap<&'a str, &'a str>,
}

#[derive(Serialize)]
struct Document<'a> {
    results: Vec<Entry<'a>>,
}

/// Formats an export. Tables are in `unit`, by default in the one that fits the first mean; ordered
/// by mean if `by_time`.
///
/// # Errors
/// A figure cannot be represented in JSON.
pub fn write(
    export: Export,
    all: &[Figures],
    unit: Option<Unit>,
    by_time: bool,
) -> anyhow::Result<String> {
    let markup = match export {
        Export::Json => return json(all),
        Export::Csv => return Ok(csv(all)),
        Export::Markdown => Markup::Markdown,
        Export::AsciiDoc => Markup::AsciiDoc,
        Export::Org => Markup::Org,
    };
    let first = all.first();
    let unit = unit.unwrap_or_else(|| first.map_or(Unit::Second, |one| Unit::fitting(one.mean)));
    let rows = relative(all, fastest(all), by_time);
    Ok(markup.table(&rows, unit))
}

/// Replaces a file atomically: if the process is killed, the file has the old text or the new one,
/// never a part.
///
/// # Errors
/// The file cannot be written.
pub fn replace(file: &str, text: &str) -> io::Result<()> {
    let path = Path::new(file);
    let known = fs::symlink_metadata(path);
    // Links, terminals and pipes cannot be replaced by another file.
    let draft = match known.as_ref().map(Metadata::is_file) {
        Ok(true) => path.file_name().map(|name| {
            let name = format!(".{}.{}", name.to_string_lossy(), std::process::id());
            path.with_file_name(name)
        }),
        _ => None,
    };
    let (Some(draft), Ok(known)) = (draft, known) else {
        return fs::write(path, text);
    };
    let written = fs::write(&draft, text)
        .and_then(|()| fs::set_permissions(&draft, known.permissions()))
        .and_then(|()| fs::rename(&draft, path));
    written.or_else(|_| {
        // The folder may not permit new files; then only this file can be written.
        let _ = fs::remove_file(&draft);
        fs::write(path, text)
    })
}

fn json(all: &[Figures]) -> anyhow::Result<String> {
    let entry = |figures| {
        let figures: &Figures = figures;
        Entry {
            command: &figures.name,
            mean: figures.mean,
            stddev: figures.deviation,
            median: figures.median,
            user: figures.user,
            system: figures.system,
            min: figures.least,
            max: figures.most,
            times: figures.times().collect(),
            memory_usage_byte: figures.runs.iter().map(|run| run.memory_bytes).collect(),
            exit_codes: figures.runs.iter().map(|run| run.status).collect(),
            parameters: sorted(figures),
        }
    };
    let results = all.iter().map(entry).collect();
    let mut bytes = Vec::new();
    let pretty = PrettyFormatter::new();
    Document { results }.serialize(&mut Serializer::with_formatter(&mut bytes, pretty))?;
    bytes.push(b'\n');
    Ok(String::from_utf8(bytes)?)
}

fn sorted(figures: &Figures) -> BTreeMap<&str, &str> {
    let own = figures.parameters.iter();
    own.map(|(name, value)| (name.as_str(), value.as_str()))
        .collect()
}

fn csv(all: &[Figures]) -> String {
    let fixed = "command,mean,stddev,median,user,system,min,max".to_owned();
    let names: BTreeSet<&str> = all.iter().flat_map(|one| sorted(one).into_keys()).collect();
    let headers = names
        .iter()
        .map(|name| quoted(&format!("parameter_{name}")));
    let headers: Vec<String> = [fixed].into_iter().chain(headers).collect();
    let mut text = headers.join(",") + "\n";
    for figures in all {
        let deviation = figures.deviation.unwrap_or(0.0);
        let numbers = [
            figures.mean,
            deviation,
            figures.median,
            figures.user,
            figures.system,
            figures.least,
            figures.most,
        ];
        let mut cells = vec![quoted(&figures.name)];
        cells.extend(numbers.map(|number| number.to_string()));
        // A reference has no parameters when the other commands have some.
        let values = sorted(figures);
        let value = |name: &&str| {
            values
                .get(name)
                .map_or(String::new(), |value| quoted(value))
        };
        cells.extend(names.iter().map(value));
        text.push_str(&(cells.join(",") + "\n"));
    }
    text
}

/// Quotes a cell only where RFC 4180 requires it.
fn quoted(text: &str) -> String {
    if text.is_empty() || text.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Markup {
    Markdown,
    AsciiDoc,
    Org,
}

impl Markup {
    fn table(self, rows: &[Relative<'_>], unit: Unit) -> String {
        let sign = unit.sign();
        let header = [
            "Command".to_owned(),
            format!("Mean [{sign}]"),
            format!("Min [{sign}]"),
            format!("Max [{sign}]"),
            "Relative".to_owned(),
        ];
        let (before, below, after) = match self {
            Markup::Markdown => ("", "|:---|---:|---:|---:|---:|\n", ""),
            Markup::AsciiDoc => ("[cols=\"<,>,>,>,>\"]\n|===", "", "|===\n"),
            Markup::Org => ("", "|--+--+--+--+--|\n", ""),
        };
        let rows: String = rows
            .iter()
            .map(|row| self.row(&self.cells(row, unit)))
            .collect();
        format!("{before}{}{below}{rows}{after}", self.row(&header))
    }

    fn cells(self, row: &Relative<'_>, unit: Unit) -> [String; 5] {
        let figures = row.figures;
        let spread = figures
            .deviation
            .map(|own| format!(" ± {}", unit.digits(own)));
        let of_ratio = row.deviation.filter(|_| !row.is_reference);
        let of_ratio = of_ratio.map(|own| format!(" ± {own:.2}"));
        let command = figures.title.replace('|', "\\|");
        let mark = if self == Markup::Org { '=' } else { '`' };
        [
            format!("{mark}{command}{mark}"),
            format!(
                "{}{}",
                unit.digits(figures.mean),
                spread.unwrap_or_default()
            ),
            unit.digits(figures.least),
            unit.digits(figures.most),
            format!("{:.2}{}", row.ratio, of_ratio.unwrap_or_default()),
        ]
    }

    fn row(self, cells: &[String; 5]) -> String {
        match self {
            Markup::Markdown => format!("| {} |\n", cells.join(" | ")),
            Markup::AsciiDoc => format!("\n| {} \n", cells.join(" \n| ")),
            Markup::Org => format!("| {}  |  {} |\n", cells[0], cells[1..].join(" |  ")),
        }
    }
}
