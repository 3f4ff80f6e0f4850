//! Writes results as files: JSON, CSV, and tables in Markdown, AsciiDoc and Org, byte for byte as
//! hyperfine does. Start at [`format_export`].

use crate::hyperfine::arguments::ExportKind;
use crate::hyperfine::figures::{
    CommandFigures, RelativeFigures, RunTiming, TimeUnit, fastest_index, relative_to,
};
use serde::Serialize;
use serde_json::ser::{PrettyFormatter, Serializer};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::io;
use std::path::Path;

/// One command of an export.
#[derive(Serialize)]
struct ExportEntry<'a> {
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
struct ExportDocument<'a> {
    results: Vec<ExportEntry<'a>>,
}

/// Formats an export. Tables state times in `unit`; by default, in the unit that fits the mean of
/// the first command. If `by_time` is set, the rows of tables are sorted by mean.
///
/// # Errors
/// Fails if a figure cannot be represented in JSON.
pub fn format_export(
    export: ExportKind,
    commands: &[CommandFigures],
    unit: Option<TimeUnit>,
    by_time: bool,
) -> anyhow::Result<String> {
    let markup = match export {
        ExportKind::Json => return format_json(commands),
        ExportKind::Csv => return Ok(format_csv(commands)),
        ExportKind::Markdown => TableMarkup::Markdown,
        ExportKind::AsciiDoc => TableMarkup::AsciiDoc,
        ExportKind::Org => TableMarkup::Org,
    };
    let natural_unit = || {
        let first = commands.first();
        first.map_or(TimeUnit::Second, |first| TimeUnit::for_seconds(first.mean))
    };
    let rows = relative_to(commands, fastest_index(commands), by_time);
    Ok(markup.format_table(&rows, unit.unwrap_or_else(natural_unit)))
}

/// Writes a file. An existing regular file is replaced atomically if its folder permits new files:
/// if the process is killed, the file has the old content or the new content, never a part of it.
///
/// # Errors
/// Fails if the file cannot be written.
pub fn replace_file(file: &str, text: &str) -> io::Result<()> {
    let path = Path::new(file);
    let old_metadata = fs::symlink_metadata(path);
    // Only a regular file is replaced. A link, a terminal or a pipe is written to.
    let temporary = match old_metadata.as_ref().map(Metadata::is_file) {
        Ok(true) => path.file_name().map(|name| {
            let name = format!(".{}.{}", name.to_string_lossy(), std::process::id());
            path.with_file_name(name)
        }),
        _ => None,
    };
    let (Some(temporary), Ok(old_metadata)) = (temporary, old_metadata) else {
        return fs::write(path, text);
    };
    let written = fs::write(&temporary, text)
        .and_then(|()| fs::set_permissions(&temporary, old_metadata.permissions()))
        .and_then(|()| fs::rename(&temporary, path));
    written.or_else(|_| {
        // The folder may not permit new files. In this case, the existing file is overwritten.
        let _ = fs::remove_file(&temporary);
        fs::write(path, text)
    })
}

fn format_json(commands: &[CommandFigures]) -> anyhow::Result<String> {
    let entry = |figures| {
        let figures: &CommandFigures = figures;
        ExportEntry {
            command: &figures.name,
            mean: figures.mean,
            stddev: figures.deviation,
            median: figures.median,
            user: figures.user,
            system: figures.system,
            min: figures.min,
            max: figures.max,
            times: figures.wall_times().collect(),
            memory_usage_byte: figures.runs.iter().map(|run| run.memory_bytes).collect(),
            exit_codes: figures.runs.iter().map(RunTiming::exit_status).collect(),
            parameters: sorted_parameters(figures),
        }
    };
    let results = commands.iter().map(entry).collect();
    let mut bytes = Vec::new();
    let pretty = PrettyFormatter::new();
    ExportDocument { results }.serialize(&mut Serializer::with_formatter(&mut bytes, pretty))?;
    bytes.push(b'\n');
    Ok(String::from_utf8(bytes)?)
}

fn sorted_parameters(figures: &CommandFigures) -> BTreeMap<&str, &str> {
    let parameters = figures.parameters.iter();
    parameters.map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

fn format_csv(commands: &[CommandFigures]) -> String {
    let fixed_headers = "command,mean,stddev,median,user,system,min,max".to_owned();
    let names: BTreeSet<&str> =
        commands.iter().flat_map(|figures| sorted_parameters(figures).into_keys()).collect();
    let headers = names.iter().map(|name| quote_csv(&format!("parameter_{name}")));
    let headers: Vec<String> = [fixed_headers].into_iter().chain(headers).collect();
    let mut text = headers.join(",") + "\n";
    for figures in commands {
        let deviation = figures.deviation.unwrap_or(0.0);
        let numbers = [
            figures.mean,
            deviation,
            figures.median,
            figures.user,
            figures.system,
            figures.min,
            figures.max,
        ];
        let mut cells = vec![quote_csv(&figures.name)];
        cells.extend(numbers.map(|number| number.to_string()));
        // The reference command has no parameters, even if the other commands do.
        let values = sorted_parameters(figures);
        let value = |name: &&str| values.get(name).map_or(String::new(), |value| quote_csv(value));
        cells.extend(names.iter().map(value));
        text.push_str(&(cells.join(",") + "\n"));
    }
    text
}

/// Quotes a cell if it is empty, or if RFC 4180 requires quotes.
fn quote_csv(text: &str) -> String {
    if text.is_empty() || text.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TableMarkup {
    Markdown,
    AsciiDoc,
    Org,
}

impl TableMarkup {
    fn format_table(self, rows: &[RelativeFigures<'_>], unit: TimeUnit) -> String {
        let symbol = unit.symbol();
        let header = [
            "Command".to_owned(),
            format!("Mean [{symbol}]"),
            format!("Min [{symbol}]"),
            format!("Max [{symbol}]"),
            "Relative".to_owned(),
        ];
        let (before, below, after) = match self {
            TableMarkup::Markdown => ("", "|:---|---:|---:|---:|---:|\n", ""),
            TableMarkup::AsciiDoc => ("[cols=\"<,>,>,>,>\"]\n|===", "", "|===\n"),
            TableMarkup::Org => ("", "|--+--+--+--+--|\n", ""),
        };
        let rows: String =
            rows.iter().map(|row| self.format_row(&self.format_cells(row, unit))).collect();
        format!("{before}{}{below}{rows}{after}", self.format_row(&header))
    }

    fn format_cells(self, row: &RelativeFigures<'_>, unit: TimeUnit) -> [String; 5] {
        let figures = row.figures;
        let spread =
            figures.deviation.map(|deviation| format!(" ± {}", unit.format_digits(deviation)));
        let ratio_deviation = row
            .deviation
            .filter(|_| !row.is_reference)
            .map(|deviation| format!(" ± {deviation:.2}"));
        let command = figures.title.replace('|', "\\|");
        let mark = if self == TableMarkup::Org { '=' } else { '`' };
        [
            format!("{mark}{command}{mark}"),
            format!("{}{}", unit.format_digits(figures.mean), spread.unwrap_or_default()),
            unit.format_digits(figures.min),
            unit.format_digits(figures.max),
            format!("{:.2}{}", row.ratio, ratio_deviation.unwrap_or_default()),
        ]
    }

    fn format_row(self, cells: &[String; 5]) -> String {
        match self {
            TableMarkup::Markdown => format!("| {} |\n", cells.join(" | ")),
            TableMarkup::AsciiDoc => format!("\n| {} \n", cells.join(" \n| ")),
            TableMarkup::Org => format!("| {}  |  {} |\n", cells[0], cells[1..].join(" |  ")),
        }
    }
}
