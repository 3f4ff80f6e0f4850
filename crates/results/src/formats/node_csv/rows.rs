//! Writes rows byte-identical to those of the Node.js drivers.
//!
//! Decides spacing, quoting and number formats of each layout; the caller decides what to write and
//! when. `run.js` and `scatter.js` separate columns by comma and blank, `compare.js` by a comma.

use super::javascript;
use speedwell_model::Value;

/// Header of `run.js --format csv`.
pub const RUN_HEADER: &str = "\"filename\", \"configuration\", \"rate\", \"time\"\n";

/// Header of `compare.js`.
pub const COMPARE_HEADER: &str = "\"binary\",\"filename\",\"configuration\",\"rate\",\"time\"\n";

/// Parameters and values in reported order.
pub type Values<'a> = &'a [(String, Value)];

/// A measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// Operations per second.
    pub rate: f64,
    /// Duration of the measurement, if known.
    pub elapsed_ns: Option<u64>,
}

/// Formats a line of `run.js --format csv`.
pub fn run_row(name: &str, values: Values<'_>, measured: Measured) -> String {
    let configuration = joined(values, javascript::json);
    format!(
        "\"{name}\", \"{configuration}\", {}\n",
        figures(measured, ", ")
    )
}

/// Formats a line of `compare.js`; `binary` is `old` or `new`.
pub fn compare_row(binary: &str, name: &str, values: Values<'_>, measured: Measured) -> String {
    let configuration = joined(values, javascript::inspect);
    format!(
        "\"{binary}\",\"{name}\",\"{configuration}\",{}\n",
        figures(measured, ",")
    )
}

/// Formats the header of `scatter.js`.
pub fn scatter_header(values: Values<'_>) -> String {
    let names: String = values
        .iter()
        .map(|(name, _)| format!("\"{name}\", "))
        .collect();
    format!("\"filename\", {names}\"rate\", \"time\"\n")
}

/// Formats a line of `scatter.js`.
pub fn scatter_row(name: &str, values: Values<'_>, measured: Measured) -> String {
    let cells: String = values.iter().map(|(_, value)| cell(value) + ", ").collect();
    format!("\"{name}\", {cells}{}\n", figures(measured, ", "))
}

fn joined(values: Values<'_>, text: fn(&Value) -> String) -> String {
    let pairs: Vec<String> = values
        .iter()
        .map(|(name, value)| format!("{name}={}", text(value)))
        .collect();
    pairs.join(" ").replace('"', "\"\"")
}

fn cell(value: &Value) -> String {
    match value {
        Value::Text(text) => format!("\"{}\"", text.replace('"', "\"\"")),
        other => other.plain(),
    }
}

fn figures(measured: Measured, separator: &str) -> String {
    format!(
        "{}{separator}{}",
        javascript::number_text(measured.rate),
        javascript::seconds_text(measured.elapsed_ns)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_benchmark_without_parameters_has_an_empty_configuration() {
        let measured = Measured {
            rate: 5.0,
            elapsed_ns: Some(1),
        };
        assert_eq!(
            run_row("g/a.js", &[], measured),
            "\"g/a.js\", \"\", 5, 0.000000001\n"
        );
        assert_eq!(
            compare_row("old", "g/a.js", &[], measured),
            "\"old\",\"g/a.js\",\"\",5,0.000000001\n"
        );
        assert_eq!(
            scatter_row("g/a.js", &[], measured),
            "\"g/a.js\", 5, 0.000000001\n"
        );
        assert_eq!(scatter_header(&[]), "\"filename\", \"rate\", \"time\"\n");
    }
}
