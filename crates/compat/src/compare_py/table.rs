//! Prints the table. It equals the table of `compare.py` byte for byte, unless
//! [`ComparisonRules::Sound`] requires a different text, width or color.
//!
//! Decides the widths, order and colors of the table's parts. Does not know where the figures come
//! from. Start at [`ComparisonTable::write`]. [`write_json`] writes the comparison as JSON.
//! [`warning_sentences`] and the functions after it return messages that `compare.py` itself does
//! not print.

use crate::compare_py::arguments::ComparePyRequest;
use crate::compare_py::figures::{
    ComparedPair, ComparedRow, ComparedSide, ComparisonRules, RELIABLE_TEST_ENTRIES, TimePair,
    UTest, UTestTable,
};
use crate::r::print::{split_exponent, to_c_exponent};
use indexmap::IndexMap;
use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::value::RawValue;
use speedwell_formats::foreign::google_benchmark::GoogleBenchmarkEntry;
use speedwell_report::escape_line;
use std::io::{self, Write};
use unicode_width::UnicodeWidthStr;

/// Name of the row with the geometric means.
pub const GEOMEAN: &str = "OVERALL_GEOMEAN";

/// Suffix of the names of rows with p values.
const P_VALUE: &str = "_pvalue";

/// Heading of the first column.
const BENCHMARK: &str = "Benchmark";

/// Headings of the other columns.
const HEADINGS: &str =
    "Time             CPU      Time Old      Time New       CPU Old       CPU New";

/// Changes above this are colored as losses.
const LOSS_ABOVE: f64 = 0.05;

/// Changes at or below this are colored as gains.
const GAIN_UP_TO: f64 = -0.07;

const NAME: &str = "\x1b[92m";
const RED: &str = "\x1b[91m";
const WHITE: &str = "\x1b[97m";
const CYAN: &str = "\x1b[96m";
const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[93m";
const END: &str = "\x1b[0m";

/// How a table is shown.
#[derive(Debug, Clone, Copy)]
pub struct ComparisonTable<'t> {
    pub figures: &'t UTestTable<'t>,
    pub request: &'t ComparePyRequest,
    pub colors: bool,
    /// Rules for widths and colors of values that `compare.py` does not expect.
    pub rules: ComparisonRules,
}

impl ComparisonTable<'_> {
    /// Writes heading and rows; returns the number of rows, not counting the geometric means.
    ///
    /// # Errors
    /// Fails if the output is closed.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<usize> {
        let width = self.name_column_width();
        let heading = format!("{BENCHMARK:<0$}{HEADINGS}", width + 12);
        writeln!(out, "{heading}\n{}", "-".repeat(heading.len()))?;
        let mut count = 0;
        for row in &self.figures.rows {
            let name = &escape_line(&row.first.name);
            if !self.request.aggregates_only || row.first.is_aggregate() {
                for pair in &row.pairs {
                    out.write_all(self.format_pair(name, width, pair).as_bytes())?;
                }
                count += row.pairs.len();
            }
            if let Some(test) = &row.u_test {
                out.write_all(self.format_test(name, width, test).as_bytes())?;
                count += 1;
            }
        }
        if let Some(pair) = &self.figures.geomean {
            out.write_all(self.format_pair(GEOMEAN, width, pair).as_bytes())?;
        }
        Ok(count)
    }

    /// Returns the width of the first column.
    fn name_column_width(&self) -> usize {
        let names = self.figures.rows.iter().map(|row| &*row.first.name);
        let means = self.figures.geomean.map(|_| GEOMEAN);
        let widths = names.chain(means).map(|name| self.display_width(name));
        widths.max().unwrap_or(0).max(BENCHMARK.len()) + P_VALUE.len()
    }

    /// Returns the width of a name. `compare.py` counts characters, whatever their width.
    fn display_width(&self, name: &str) -> usize {
        let name = &*escape_line(name);
        match self.rules {
            ComparisonRules::Sound => name.width(),
            ComparisonRules::Original => name.chars().count(),
        }
    }

    fn color_code(&self, color: &'static str) -> &'static str {
        if self.colors { color } else { "" }
    }

    /// Formats the begin of a line: the name, and a figure of each time with its color.
    fn format_begin(
        &self,
        name: &str,
        width: usize,
        figures: TimePair<(&'static str, String)>,
    ) -> String {
        let (color, end) = (self.color_code(NAME), self.color_code(END));
        let padding = width - self.display_width(name);
        let figures =
            figures.map_times(|(color, text)| format!("{}{text}{end}", self.color_code(color)));
        format!("{color}{name}{:padding$}{end}{}{}", "", figures.real, figures.cpu)
    }

    fn format_pair(&self, name: &str, width: usize, pair: &ComparedPair) -> String {
        let changes = pair.change.map_times(|change| {
            let text = change.map(|change| format_signed(change, 16, 4));
            (self.change_color(change), text.unwrap_or_else(|| format!("{:>16}", "n/a")))
        });
        let begin = self.format_begin(name, width, changes);
        let [old, new] = [pair.baseline, pair.candidate]
            .map(|times| times.map_times(|time| format_fixed(time, 14, 0)));
        let end = self.color_code(END);
        format!("{begin}{}{}{end}{}{}\n", old.real, new.real, old.cpu, new.cpu)
    }

    fn format_test(&self, name: &str, width: usize, test: &UTest) -> String {
        let figures = test.p.map_times(|p| (self.p_color(p), format_fixed(p, 16, 4)));
        let begin = self.format_begin(&format!("{name}{P_VALUE}"), width, figures);
        let needed = format!("{RELIABLE_TEST_ENTRIES}+ repetitions recommended.");
        let (color, warning) = if test.is_reliable() {
            (GREEN, String::new())
        } else {
            (YELLOW, format!(". WARNING: Results unreliable! {needed}"))
        };
        let (old, new) = (test.baseline_count, test.candidate_count);
        let color = self.color_code(color);
        format!("{begin}{color}      U Test, Repetitions: {old} vs {new}{warning}\n")
    }

    /// Returns the color of a change. Under the rules [`ComparisonRules::Sound`], a change of NaN
    /// has neither the color of a gain nor the color of a loss. In `compare.py`, it has the color
    /// of a gain.
    fn change_color(&self, change: Option<f64>) -> &'static str {
        match change {
            Some(change) if change > LOSS_ABOVE => RED,
            Some(change) if change > GAIN_UP_TO => WHITE,
            Some(change) if self.rules == ComparisonRules::Original || !change.is_nan() => CYAN,
            Some(_) | None => WHITE,
        }
    }

    /// Returns the color of a p value. Under the rules [`ComparisonRules::Sound`], NaN has the
    /// color of a p value that is not significant. In `compare.py`, it has the color of a
    /// significant p value.
    fn p_color(&self, p: f64) -> &'static str {
        let is_undefined = p.is_nan() && self.rules == ComparisonRules::Sound;
        if p >= self.request.alpha || is_undefined { RED } else { GREEN }
    }
}

/// One element of the JSON array.
#[derive(Serialize)]
struct JsonElement<'e> {
    name: &'e str,
    label: &'e str,
    measurements: Vec<JsonMeasurement>,
    time_unit: &'e str,
    run_type: &'e str,
    aggregate_name: &'e str,
    utest: JsonTest,
}

#[derive(Serialize)]
struct JsonMeasurement {
    real_time: PythonNumber,
    cpu_time: PythonNumber,
    real_time_other: PythonNumber,
    cpu_time_other: PythonNumber,
    time: Option<PythonNumber>,
    cpu: Option<PythonNumber>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum JsonTest {
    None {},
    Done {
        have_optimal_repetitions: bool,
        cpu_pvalue: PythonNumber,
        time_pvalue: PythonNumber,
        nr_of_repetitions: usize,
        nr_of_repetitions_other: usize,
    },
}

impl JsonMeasurement {
    fn new(pair: &ComparedPair) -> JsonMeasurement {
        let [old, new] = [pair.baseline, pair.candidate].map(|times| times.map_times(PythonNumber));
        let change = pair.change.map_times(|change| change.map(PythonNumber));
        JsonMeasurement {
            real_time: old.real,
            cpu_time: old.cpu,
            real_time_other: new.real,
            cpu_time_other: new.cpu,
            time: change.real,
            cpu: change.cpu,
        }
    }
}

fn json_element<'e>(row: &'e ComparedRow<'_>) -> JsonElement<'e> {
    let first = row.first;
    let aggregate = first.aggregate_name.as_deref();
    JsonElement {
        name: &first.name,
        label: first.label.as_deref().unwrap_or_default(),
        measurements: row.pairs.iter().map(JsonMeasurement::new).collect(),
        time_unit: row.unit,
        run_type: first.run_type.as_deref().unwrap_or_default(),
        aggregate_name: aggregate.filter(|_| first.is_aggregate()).unwrap_or_default(),
        utest: row.u_test.as_ref().map_or(JsonTest::None {}, |test| JsonTest::Done {
            have_optimal_repetitions: test.is_reliable(),
            cpu_pvalue: PythonNumber(test.p.cpu),
            time_pvalue: PythonNumber(test.p.real),
            nr_of_repetitions: test.baseline_count,
            nr_of_repetitions_other: test.candidate_count,
        }),
    }
}

fn geomean_element<'e>(pair: &'e ComparedPair) -> JsonElement<'e> {
    JsonElement {
        name: GEOMEAN,
        label: "",
        measurements: vec![JsonMeasurement::new(pair)],
        time_unit: "s",
        run_type: "aggregate",
        aggregate_name: "geomean",
        utest: JsonTest::None {},
    }
}

/// Writes all rows and the geometric means as JSON (`-d`), byte for byte as Python does. Only
/// numbers that are not finite differ: they become null.
///
/// # Errors
/// Fails if the file cannot be written.
pub fn write_json(table: &UTestTable<'_>, out: &mut dyn Write) -> io::Result<()> {
    let elements =
        (table.rows.iter().map(json_element)).chain(table.geomean.iter().map(geomean_element));
    let mut json = Vec::new();
    let formatter = PrettyFormatter::with_indent(b" ");
    let mut serializer = Serializer::with_formatter(&mut json, formatter);
    serde::Serializer::collect_seq(&mut serializer, elements)?;
    // Python escapes all characters except printable ASCII. Only strings contain other characters.
    for character in String::from_utf8_lossy(&json).chars() {
        match character {
            '\n' | ' '..='~' => out.write_all(&[character as u8])?,
            _ => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    write!(out, "\\u{unit:04x}")?;
                }
            }
        }
    }
    out.flush()
}

/// A number as Python writes it. A number that is not finite becomes null, because the bare `NaN`
/// that `compare.py` writes is invalid JSON.
struct PythonNumber(f64);

impl Serialize for PythonNumber {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw_number = self.0.is_finite().then(|| RawValue::from_string(format_repr(self.0)));
        raw_number.transpose().map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

/// Formats a number like Python's `{:WIDTH.DIGITSf}`.
pub fn format_fixed(number: f64, width: usize, digits: usize) -> String {
    if number.is_nan() { format!("{:>width$}", "nan") } else { format!("{number:width$.digits$}") }
}

/// Formats a number like Python's `{:+WIDTH.DIGITSf}`.
pub fn format_signed(number: f64, width: usize, digits: usize) -> String {
    let text = if number.is_nan() { "+nan".to_owned() } else { format!("{number:+.digits$}") };
    format!("{text:>width$}")
}

/// Formats a number like Python's `repr`. Numbers below 1e-4, and numbers from 1e16 on, have an
/// exponent with at least two digits.
pub fn format_repr(number: f64) -> String {
    let scientific = format!("{number:e}");
    match split_exponent(&scientific).1 {
        -4..16 => format!("{number:?}"),
        _ => to_c_exponent(&scientific),
    }
}

/// Maximum number of names listed in a sentence; further names are only counted.
const MAX_LISTED_NAMES: usize = 20;

/// Environment facts that make figures hard to compare if they differ.
const ENVIRONMENT_KEYS: &str = "host_name num_cpus cpu_scaling_enabled aslr_enabled library_version \
                                library_build_type";

/// Returns sentences about what the table omits.
pub fn warning_sentences(labels: [&str; 2], table: &UTestTable<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    for (label, names) in labels.iter().zip(&table.unmatched) {
        if !names.is_empty() {
            warnings.push(format!("only in '{label}': {}", format_names(names)));
        }
    }
    if !table.odd_units.is_empty() {
        let names = format_names(&table.odd_units);
        warnings.push(format!("not compared, because their units are incompatible: {names}"));
    }
    if table.not_in_geomean > 0 && table.geomean.is_some() {
        warnings.push(format!(
            "OVERALL_GEOMEAN leaves out {} without a counterpart or a time",
            format_count(table.not_in_geomean, "repetition")
        ));
    }
    warnings
}

/// Returns lines about failed or skipped entries. Each line has the name, the reason, and how
/// often this happened on each side.
pub fn resultless_lines(labels: [&str; 2], table: &UTestTable<'_>) -> Vec<String> {
    let mut counts_by_reason: IndexMap<(&str, String), [usize; 2]> = IndexMap::new();
    for (side, entries) in table.without_result.iter().enumerate() {
        for entry in entries {
            counts_by_reason.entry((&entry.name, resultless_reason(entry))).or_default()[side] += 1;
        }
    }
    let lines = counts_by_reason.iter().map(|((name, reason), counts)| {
        let sides = labels.iter().zip(counts).filter(|(_, count)| **count > 0);
        let side = |(label, count): (&&str, &usize)| {
            format!("{} in '{label}'", format_count(*count, "time"))
        };
        let sides: Vec<String> = if labels[0] == labels[1] {
            vec![format_count(counts.iter().sum(), "time")]
        } else {
            sides.map(side).collect()
        };
        let line = format!("not compared: {name} {reason} ({})", sides.join(", "));
        escape_line(&line).into_owned()
    });
    lines.collect()
}

/// Warns about a filter that makes different names equal.
pub fn merge_warning(side: &ComparedSide<'_>, filter: &str) -> Option<String> {
    let (count, name) = side.merged.as_ref()?;
    Some(format!(
        "the filter '{filter}' makes {count} names equal ('{}'), so different benchmarks and \
         figures count as repetitions of one benchmark; use a narrower filter",
        escape_line(name)
    ))
}

/// Warns about environment facts that differ.
pub fn environment_warning(contexts: [&Value; 2]) -> Option<String> {
    let differing = ENVIRONMENT_KEYS.split(' ').filter_map(|key| {
        let [Some(baseline), Some(contender)] = contexts.map(|context| context.get(key)) else {
            return None;
        };
        (baseline != contender)
            .then(|| format!("{key} {} and {}", format_value(baseline), format_value(contender)))
    });
    let differing: Vec<String> = differing.collect();
    (!differing.is_empty())
        .then(|| format!("the sides were measured differently: {}", differing.join(", ")))
}

fn format_value(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), |text| format!("'{text}'"))
}

fn resultless_reason(entry: &GoogleBenchmarkEntry<'_>) -> String {
    let (outcome, message) = if entry.has_failed {
        ("failed", &entry.error_message)
    } else {
        ("was skipped", &entry.skip_message)
    };
    match message.as_deref() {
        None | Some("") => outcome.to_owned(),
        Some(message) => format!("{outcome}: {message}"),
    }
}

fn format_names(names: &[&str]) -> String {
    let (listed, omitted) = names.split_at(names.len().min(MAX_LISTED_NAMES));
    let joined = listed.join(", ");
    let escaped = escape_line(&joined);
    match omitted.len() {
        0 => escaped.into_owned(),
        count => format!("{escaped} and {}", format_count(count, "more name")),
    }
}

fn format_count(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values: Python 3.11, `format(x, "+16.4f")`, `format(x, "14.0f")`, `repr(x)`.
    #[test]
    fn numbers_are_formatted_as_in_python() {
        for (number, in_row, rounded, repr) in [
            (0.5, "+0.5000", "0", "0.5"),
            (1.5, "+1.5000", "2", "1.5"),
            (2.5, "+2.5000", "2", "2.5"),
            (-0.0, "-0.0000", "-0", "-0.0"),
            (-0.00001, "-0.0000", "-0", "-1e-05"),
            (0.0001, "+0.0001", "0", "0.0001"),
            (0.00005, "+0.0001", "0", "5e-05"),
            (1e15, "+1000000000000000.0000", "1000000000000000", "1000000000000000.0"),
            (1e16, "+10000000000000000.0000", "10000000000000000", "1e+16"),
            (1.25e-300, "+0.0000", "0", "1.25e-300"),
            (f64::NAN, "+nan", "nan", "NaN"),
            (f64::NEG_INFINITY, "-inf", "-inf", "-inf"),
        ] {
            assert_eq!(format_signed(number, 16, 4).trim_start(), in_row);
            assert_eq!(format_fixed(number, 14, 0).trim_start(), rounded);
            assert_eq!(format_repr(number), repr);
        }
        assert_eq!(format_signed(1.0, 16, 4).len(), 16);
        assert_eq!(format_fixed(f64::NAN, 14, 0).len(), 14);
        assert_eq!(format_repr(123456.789), "123456.789");
    }
}
