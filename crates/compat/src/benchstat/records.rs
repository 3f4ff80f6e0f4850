//! Reads results in Go's benchmark format, each with the configuration that applies to it.
//!
//! Does not use the importer of such files (`formats/go_bench`), which builds sessions: benchstat
//! needs the lines as written and every configuration key, and must make the same complaints as
//! Go's benchstat. Start at [`BenchmarkRecords::read_file`].

use crate::benchstat::samples::{ValueAssumption, tidy_unit};
use speedwell_report::escape_controls;
use std::collections::HashMap;

/// One figure of a result.
#[derive(Debug, Clone, PartialEq)]
pub struct BenchstatFigure {
    /// Value in the tidied unit.
    pub value: f64,
    /// Tidied unit.
    pub unit: String,
    /// Unit as written in the file, if different.
    pub typed_unit: Option<String>,
}

/// One result.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BenchmarkRecord {
    /// Name without the prefix `Benchmark`.
    pub name: String,
    /// Keys and values of the configuration, in the same order as in Go's benchstat. The key `.file`
    /// does not come from a line of the file.
    pub settings: Vec<(String, String)>,
    pub figures: Vec<BenchstatFigure>,
}

impl BenchmarkRecord {
    /// Returns the value of a configuration key, or an empty string.
    pub fn setting_value(&self, key: &str) -> &str {
        let found = self.settings.iter().find(|(known, _)| known == key);
        found.map_or("", |(_, value)| value)
    }

    /// Returns the name up to the first slash; without a slash, the name without the number of
    /// processors.
    pub fn base_name(&self) -> &str {
        let before_slash = self.name.split_once('/').map(|(base, _)| base);
        before_slash.unwrap_or(split_processors(&self.name).0)
    }

    /// Returns the first part of the name, and a list of the other parts, each with its slash. If
    /// the name contains the number of processors, this number is last in the list, with its dash.
    pub fn name_parts(&self) -> (&str, Vec<&str>) {
        let (name, processors) = split_processors(&self.name);
        let mut cuts: Vec<usize> = name.match_indices('/').map(|(index, _)| index).collect();
        cuts.push(name.len());
        let mut parts: Vec<&str> = cuts.windows(2).map(|ends| &name[ends[0]..ends[1]]).collect();
        parts.extend(processors);
        (&name[..cuts[0]], parts)
    }
}

/// Splits off the number of processors, with its dash, from the end of a name. Like Go's benchstat,
/// looks only at this name (`go doc golang.org/x/perf/benchfmt.Name.Parts`). Our importer also
/// looks at the other names in the file.
fn split_processors(name: &str) -> (&str, Option<&str>) {
    let before = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let base = before.strip_suffix('-').filter(|_| before.len() < name.len());
    base.map_or((name, None), |base| (base, Some(&name[base.len()..])))
}

/// Contents of all files.
#[derive(Debug, Default)]
pub struct BenchmarkRecords {
    /// Results in order.
    pub results: Vec<BenchmarkRecord>,
    /// Complaints about lines, in order, each with path and line number.
    pub complaints: Vec<String>,
    /// Values from `Unit` lines, by unit and key.
    units: HashMap<(String, String), String>,
}

impl BenchmarkRecords {
    /// Reads the `text` of one file. Complaints name the file by `path`; the key `.file`, and thus
    /// the column of the file, has the value `label`.
    pub fn read_file(&mut self, path: &str, label: &str, text: &str) {
        let mut active_settings = Vec::new();
        set_entry(&mut active_settings, ".file", label);
        for (index, line) in text.lines().enumerate() {
            let line = &*escape_controls(line);
            let complain = |reason: String| format!("{path}:{}: {reason}", index + 1);
            if let Some(result) = line.strip_prefix("Benchmark") {
                match parse_result(result) {
                    Ok(None) => {}
                    Ok(Some((name, figures))) => {
                        let settings = active_settings.clone();
                        self.results.push(BenchmarkRecord { name, settings, figures });
                    }
                    Err(reason) => self.complaints.push(complain(reason)),
                }
            } else if line.split_whitespace().next() == Some("Unit") && line.starts_with("Unit") {
                let complaints = self.read_unit_line(line);
                self.complaints.extend(complaints.into_iter().map(complain));
            } else if let Some((key, value)) = parse_setting(line) {
                set_entry(&mut active_settings, key, value);
            }
        }
    }

    fn read_unit_line(&mut self, line: &str) -> Vec<String> {
        let mut fields = line.split_whitespace().skip(1);
        let Some(unit) = fields.next() else { return vec!["missing unit".to_owned()] };
        let mut complaints = Vec::new();
        for field in fields {
            let Some((key, value)) = field.split_once('=').filter(|(key, _)| !key.is_empty())
            else {
                complaints.push("expected key=value".to_owned());
                continue;
            };
            let metadata_key = (tidy_unit(unit).0, key.to_owned());
            let known = self.units.entry(metadata_key).or_insert_with(|| value.to_owned());
            if known != value {
                complaints.push(format!("metadata {key} of unit {unit} already set to {known}"));
            }
        }
        complaints
    }

    /// Returns the assumption that the `Unit` lines of the files state about the values of a unit.
    pub fn assumption(&self, unit: &str) -> ValueAssumption {
        let assumed = self.units.get(&(tidy_unit(unit).0, "assume".to_owned()));
        let is_exact = assumed.is_some_and(|assumed| assumed == "exact");
        if is_exact { ValueAssumption::Exact } else { ValueAssumption::Nothing }
    }
}

/// Sets the value of a key. An empty value removes the key. As in Go's benchstat, the last key then
/// moves to the position of the removed key.
fn set_entry(settings: &mut Vec<(String, String)>, key: &str, value: &str) {
    match settings.iter().position(|(known, _)| known == key) {
        Some(position) if value.is_empty() => drop(settings.swap_remove(position)),
        Some(position) => settings[position].1 = value.to_owned(),
        None if value.is_empty() => {}
        None => settings.push((key.to_owned(), value.to_owned())),
    }
}

/// Parses `key: value`: the key begins with a lowercase letter and contains neither white space nor
/// uppercase letters.
fn parse_setting(line: &str) -> Option<(&str, &str)> {
    if !line.starts_with(char::is_lowercase) {
        return None;
    }
    let end = line.find(|c: char| c == ':' || c.is_whitespace() || c.is_uppercase())?;
    let value = line[end..].strip_prefix(':')?;
    let trimmed = value.trim_start_matches([' ', '\t']);
    (value.is_empty() || trimmed.len() < value.len()).then_some((&line[..end], trimmed))
}

/// Parses the part of a line after `Benchmark` into name and figures. Returns `None` if the line
/// holds only a name.
fn parse_result(result: &str) -> Result<Option<(String, Vec<BenchstatFigure>)>, String> {
    let Some((name, result)) = result.split_once(char::is_whitespace) else { return Ok(None) };
    let mut fields = result.split_whitespace();
    let count = fields.next().ok_or("missing iteration count")?;
    count.parse::<i64>().map_err(|error| {
        use std::num::IntErrorKind::{NegOverflow, PosOverflow};
        let is_large = matches!(error.kind(), PosOverflow | NegOverflow);
        let reason = if is_large { "value out of range" } else { "invalid syntax" };
        format!("parsing iteration count: {reason}")
    })?;
    let mut figures = Vec::new();
    while let Some(field) = fields.next() {
        let written_value = parse_number(field)?;
        let unit = fields.next().ok_or("missing units")?;
        let (tidied, factor) = tidy_unit(unit);
        let value = written_value * factor;
        // If tidying does not change the value, the value keeps its unit: a time of 0 stays in
        // nanoseconds.
        let is_kept = value == written_value;
        figures.push(BenchstatFigure {
            value,
            unit: if is_kept { unit.to_owned() } else { tidied },
            typed_unit: (!is_kept).then(|| unit.to_owned()),
        });
    }
    if figures.is_empty() {
        return Err("missing measurements".to_owned());
    }
    Ok(Some((name.to_owned(), figures)))
}

fn parse_number(field: &str) -> Result<f64, String> {
    match field.parse::<f64>() {
        Err(_) => Err("parsing measurement: invalid syntax".to_owned()),
        Ok(number) if number.is_infinite() && !field.contains(['i', 'I', 'n', 'N']) => {
            Err("parsing measurement: value out of range".to_owned())
        }
        Ok(number) => Ok(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_results_settings_units_or_nothing() {
        let mut records = BenchmarkRecords::default();
        let text = "goos: linux\nnote:\t x\nBenchmarkA/n=1-8 10 5 ns/op 3 B/op\nnote:\nPASS\nBad key: x\nok \tx\t1s\n\
                    Unit ns/op assume=exact\nBenchmarkAlone\nBenchmarkZero 1 0 ns/op\n";
        records.read_file("p", "l", text);
        assert!(records.complaints.is_empty(), "{records:?}");
        let [first, second] = &records.results[..] else { panic!("{records:?}") };
        assert_eq!((first.name.as_str(), first.base_name()), ("A/n=1-8", "A"));
        assert_eq!(first.name_parts(), ("A", vec!["/n=1", "-8"]));
        assert_eq!((first.setting_value("note"), second.setting_value("note")), ("x", ""));
        assert_eq!(first.setting_value(".file"), "l");
        assert_eq!(
            (first.figures[0].unit.as_str(), first.figures[0].value),
            ("sec/op", 5.0 * 1e-9)
        );
        assert_eq!(second.figures[0].unit, "ns/op");
        assert_eq!(records.assumption("sec/op"), ValueAssumption::Exact);
        assert_eq!(records.assumption("B/op"), ValueAssumption::Nothing);
    }

    #[test]
    fn malformed_lines_are_reported_with_their_line_number() {
        let mut records = BenchmarkRecords::default();
        let text = "BenchmarkA \nBenchmarkA x\nBenchmarkA 1\nBenchmarkA 1 x ns/op\nBenchmarkA 1 5\nBenchmarkA 1 1e999 B\n\
                    BenchmarkA 99999999999999999999 1 B\nUnit\nUnit B a\nUnit B a=1\nUnit B a=2\n";
        records.read_file("f", "f", text);
        let complaints: Vec<&str> = records.complaints.iter().map(String::as_str).collect();
        assert_eq!(
            complaints,
            [
                "f:1: missing iteration count",
                "f:2: parsing iteration count: invalid syntax",
                "f:3: missing measurements",
                "f:4: parsing measurement: invalid syntax",
                "f:5: missing units",
                "f:6: parsing measurement: value out of range",
                "f:7: parsing iteration count: value out of range",
                "f:8: missing unit",
                "f:9: expected key=value",
                "f:11: metadata a of unit B already set to 1",
            ]
        );
    }
}
