//! Writes rows that are byte-identical to those of the Node.js scripts `run.js`, `scatter.js` and
//! `compare.js`.
//!
//! Decides spacing, quoting and number formats of each layout; the caller supplies the names and
//! numbers. `run.js` and `scatter.js` separate columns with a comma and a space, `compare.js` with
//! a comma alone.

use super::javascript;
use speedwell_model::ParameterValue;

/// Header of `run.js --format csv`.
pub const RUN_HEADER: &str = "\"filename\", \"configuration\", \"rate\", \"time\"\n";

/// Header of `compare.js`.
pub const COMPARE_HEADER: &str = "\"binary\",\"filename\",\"configuration\",\"rate\",\"time\"\n";

/// Names and values of parameters, in the order in which the benchmark reports them.
pub type ParameterValues<'a> = &'a [(String, ParameterValue)];

/// A measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeasuredRate {
    /// Operations per second.
    pub rate: f64,
    /// Duration of the measurement, if known.
    pub elapsed_ns: Option<u64>,
}

/// Formats a line of `run.js --format csv`.
pub fn format_run_row(name: &str, values: ParameterValues<'_>, measured: MeasuredRate) -> String {
    let configuration = join_parameters(values, javascript::format_json).replace('"', "\"\"");
    format!("\"{name}\", \"{configuration}\", {}\n", format_figures(measured, ", "))
}

/// Formats a line of `compare.js`; `binary` is `old` or `new`.
pub fn format_compare_row(
    binary: &str,
    name: &str,
    values: ParameterValues<'_>,
    measured: MeasuredRate,
) -> String {
    let configuration = join_parameters(values, javascript::format_inspected).replace('"', "\"\"");
    format!("\"{binary}\",\"{name}\",\"{configuration}\",{}\n", format_figures(measured, ","))
}

/// Formats the header of `scatter.js`.
pub fn format_scatter_header(values: ParameterValues<'_>) -> String {
    let names: String = values.iter().map(|(name, _)| format!("\"{name}\", ")).collect();
    format!("\"filename\", {names}\"rate\", \"time\"\n")
}

/// Formats a line of `scatter.js`.
pub fn format_scatter_row(
    name: &str,
    values: ParameterValues<'_>,
    measured: MeasuredRate,
) -> String {
    let cells: String = values.iter().map(|(_, value)| format_cell(value) + ", ").collect();
    format!("\"{name}\", {cells}{}\n", format_figures(measured, ", "))
}

/// Formats parameters as `name=value`, separated by spaces.
pub fn join_parameters(values: ParameterValues<'_>, text: fn(&ParameterValue) -> String) -> String {
    let pairs: Vec<String> =
        values.iter().map(|(name, value)| format!("{name}={}", text(value))).collect();
    pairs.join(" ")
}

fn format_cell(value: &ParameterValue) -> String {
    match value {
        ParameterValue::Text(text) => format!("\"{}\"", text.replace('"', "\"\"")),
        other => other.plain(),
    }
}

fn format_figures(measured: MeasuredRate, separator: &str) -> String {
    format!(
        "{}{separator}{}",
        javascript::format_number(measured.rate),
        javascript::format_seconds(measured.elapsed_ns)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_benchmark_without_parameters_has_an_empty_configuration() {
        let measured = MeasuredRate { rate: 5.0, elapsed_ns: Some(1) };
        assert_eq!(format_run_row("g/a.js", &[], measured), "\"g/a.js\", \"\", 5, 0.000000001\n");
        assert_eq!(
            format_compare_row("old", "g/a.js", &[], measured),
            "\"old\",\"g/a.js\",\"\",5,0.000000001\n"
        );
        assert_eq!(format_scatter_row("g/a.js", &[], measured), "\"g/a.js\", 5, 0.000000001\n");
        assert_eq!(format_scatter_header(&[]), "\"filename\", \"rate\", \"time\"\n");
    }
}
