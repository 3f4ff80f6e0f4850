//! Reads and writes result files of Node.js core's drivers: `run.js`, `compare.js`, `scatter.js`.
//!
//! This module knows nothing about how the figures are used. Start at [`RowReader`] for individual
//! rows, at [`sessions::read`] for a whole session, and at [`sessions::write`] for writing.
//! [`figures`] holds the figures of large files compactly, for tables that need no session.
//!
//! Rows are written byte-identical to those of the scripts: `run.js` and `scatter.js` separate
//! columns with a comma and a space, `compare.js` with a comma alone.
//!
//! [`scan_record`] splits a CSV record off the front of a byte slice, without copying. A field is
//! either unquoted, or in double quotes with each inner quote doubled. Blanks around a field are
//! ignored, so that `a,b` and `a, b` have the same fields. Text that is not a record is
//! distinguished from a record that continues after the end of the slice.

use memchr::{memchr, memchr2};
use speedwell_model::ParameterValue;
use std::borrow::Cow;

pub mod figures;
pub mod javascript;
pub mod reader;
pub mod sessions;

pub use figures::{CompareRates, CompareSide, ScatterFrame};
pub use reader::{CsvRow, RowReader};

/// Columns of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CsvLayout {
    /// `run.js --format csv`: filename, configuration, rate, time.
    Run,
    /// `compare.js`: binary, filename, configuration, rate, time.
    Compare,
    /// `scatter.js`: filename, one column per parameter, rate, time.
    Scatter {
        /// Parameters in column order.
        parameters: Vec<String>,
    },
}

impl CsvLayout {
    /// Returns the layout that a line defines; `None` if the line is not a header.
    pub fn from_line(line: &[u8]) -> Option<CsvLayout> {
        let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        let mut fields = Vec::new();
        let is_record = matches!(scan_record(line, true, &mut fields), ScanResult::Record(_));
        // Fast path: rows are far more frequent than headers and never begin with these words.
        if !is_record || !matches!(fields.first()?.raw(line), b"binary" | b"filename") {
            return None;
        }
        let names: Vec<_> = fields.iter().map(|field| field.text(line)).collect();
        let names: Vec<&str> = names.iter().map(|name| &**name).collect();
        match names.as_slice() {
            ["binary", "filename", "configuration", "rate", "time"] => Some(CsvLayout::Compare),
            ["filename", "configuration", "rate", "time"] => Some(CsvLayout::Run),
            ["filename", parameters @ .., "rate", "time"] => Some(CsvLayout::Scatter {
                parameters: parameters.iter().map(|&name| name.to_owned()).collect(),
            }),
            _ => None,
        }
    }

    /// Returns the number of columns per row.
    pub fn column_count(&self) -> usize {
        match self {
            CsvLayout::Run => 4,
            CsvLayout::Compare => 5,
            CsvLayout::Scatter { parameters } => parameters.len() + 3,
        }
    }
}

/// Returns the layout that the first header in `bytes` defines. Other text may precede the header.
pub fn find_header(bytes: &[u8]) -> Option<CsvLayout> {
    bytes.split_inclusive(|&byte| byte == b'\n').find_map(CsvLayout::from_line)
}

/// UTF-8 byte order mark, which some editors prepend.
pub const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Position of a field in the scanned bytes, without the surrounding quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CsvField {
    start: usize,
    end: usize,
}

impl CsvField {
    /// Returns the bytes of the field as in `record`; doubled quotes stay doubled.
    pub fn raw<'a>(&self, record: &'a [u8]) -> &'a [u8] {
        &record[self.start..self.end]
    }

    /// Appends the bytes of the field to `out`, with each doubled quote reduced to one.
    pub fn append_to(&self, record: &[u8], out: &mut Vec<u8>) {
        let mut rest = self.raw(record);
        if self.is_quoted(record) {
            while let Some(index) = memchr(b'"', rest) {
                out.extend_from_slice(&rest[..=index]);
                rest = &rest[index + 2..];
            }
        }
        out.extend_from_slice(rest);
    }

    /// Returns the field as text; invalid UTF-8 is replaced.
    pub fn text<'a>(&self, record: &'a [u8]) -> Cow<'a, str> {
        if !self.is_quoted(record) || memchr(b'"', self.raw(record)).is_none() {
            return String::from_utf8_lossy(self.raw(record));
        }
        let mut bytes = Vec::with_capacity(self.end - self.start);
        self.append_to(record, &mut bytes);
        Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns whether the field is quoted in `record`. A quoted `16` is a string, not a number.
    pub fn is_quoted(&self, record: &[u8]) -> bool {
        self.start > 0 && record[self.start - 1] == b'"'
    }
}

/// Result of [`scan_record`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanResult {
    /// A record of this many bytes, including its line end.
    Record(usize),
    /// The record continues after the end of the bytes.
    Unfinished,
    /// The bytes do not start with a record.
    NotARecord,
}

/// Splits the record at the front of `bytes` into fields.
///
/// `last` means that no more bytes follow; the record then needs no line end.
pub fn scan_record(bytes: &[u8], last: bool, fields: &mut Vec<CsvField>) -> ScanResult {
    fields.clear();
    let mut index = 0;
    loop {
        index += count_blanks(&bytes[index..]);
        let field_end = match bytes.get(index) {
            Some(b'"') => scan_quoted(bytes, index + 1, fields),
            Some(_) => scan_unquoted(bytes, index, last, fields),
            None if last => {
                fields.push(CsvField { start: index, end: index });
                return ScanResult::Record(index);
            }
            None => None,
        };
        let Some(after) = field_end else {
            return if last { ScanResult::NotARecord } else { ScanResult::Unfinished };
        };
        match scan_separator(&bytes[after..], last) {
            FieldSeparator::Comma(length) => index = after + length,
            FieldSeparator::LineEnd(length) => return ScanResult::Record(after + length),
            FieldSeparator::Unknown => return ScanResult::Unfinished,
            FieldSeparator::None => return ScanResult::NotARecord,
        }
    }
}

/// Returns the position after the field, where a separator must follow; `None` if the field is not
/// complete.
fn scan_quoted(bytes: &[u8], start: usize, fields: &mut Vec<CsvField>) -> Option<usize> {
    let mut index = start;
    while let Some(offset) = memchr(b'"', &bytes[index..]) {
        let quote = index + offset;
        if bytes.get(quote + 1) != Some(&b'"') {
            fields.push(CsvField { start, end: quote });
            return Some(quote + 1);
        }
        index = quote + 2;
    }
    None
}

/// Returns the same as [`scan_quoted`].
fn scan_unquoted(
    bytes: &[u8],
    start: usize,
    last: bool,
    fields: &mut Vec<CsvField>,
) -> Option<usize> {
    let end = match memchr2(b',', b'\n', &bytes[start..]) {
        Some(length) => start + length,
        None if last => bytes.len(),
        None => return None,
    };
    let trimmed = bytes[start..end].trim_ascii_end().len();
    fields.push(CsvField { start, end: start + trimmed });
    Some(end)
}

enum FieldSeparator {
    Comma(usize),
    LineEnd(usize),
    /// More bytes are needed to decide.
    Unknown,
    None,
}

fn scan_separator(bytes: &[u8], last: bool) -> FieldSeparator {
    let skipped = count_blanks(bytes);
    match &bytes[skipped..] {
        [b',', ..] => FieldSeparator::Comma(skipped + 1),
        [b'\n', ..] => FieldSeparator::LineEnd(skipped + 1),
        [b'\r', b'\n', ..] => FieldSeparator::LineEnd(skipped + 2),
        [] | [b'\r'] if last => FieldSeparator::LineEnd(bytes.len()),
        [] | [b'\r'] => FieldSeparator::Unknown,
        _ => FieldSeparator::None,
    }
}

fn count_blanks(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|&&byte| byte == b' ').count()
}

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

    fn texts(bytes: &[u8]) -> (ScanResult, Vec<String>) {
        let mut fields = Vec::new();
        let scan = scan_record(bytes, true, &mut fields);
        (scan, fields.iter().map(|field| field.text(bytes).into_owned()).collect())
    }

    #[test]
    fn both_spacings_give_the_same_fields() {
        let (_, tight) = texts(b"\"a\",\"b c\",1.5\n");
        let (_, wide) = texts(b"\"a\", \"b c\", 1.5\r\n");
        assert_eq!(tight, ["a", "b c", "1.5"]);
        assert_eq!(tight, wide);
    }

    #[test]
    fn doubled_quotes_and_line_breaks_belong_to_the_field() {
        let (scan, fields) = texts(b"\"a\"\"b\",\"g\nh\"\nnext");
        assert_eq!(fields, ["a\"b", "g\nh"]);
        assert_eq!(scan, ScanResult::Record(13));
    }

    #[test]
    fn an_unfinished_record_is_distinguished_from_other_text() {
        let mut fields = Vec::new();
        assert_eq!(scan_record(b"\"a\",\"b", false, &mut fields), ScanResult::Unfinished);
        assert_eq!(scan_record(b"\"a\",1", false, &mut fields), ScanResult::Unfinished);
        assert_eq!(scan_record(b"\"a\",\"b", true, &mut fields), ScanResult::NotARecord);
        assert_eq!(scan_record(b"\"a\" b\n", false, &mut fields), ScanResult::NotARecord);
        assert_eq!(
            scan_record(b"\"a\"", false, &mut fields),
            ScanResult::Unfinished,
            "the quote may be doubled"
        );
    }

    #[test]
    fn the_last_record_needs_no_line_end() {
        assert_eq!(texts(b"\"a\",2").1, ["a", "2"]);
        assert_eq!(texts(b"a,").1, ["a", ""]);
    }

    #[test]
    fn every_driver_is_known_by_its_header() {
        let scatter = CsvLayout::Scatter { parameters: vec!["n".into(), "len".into()] };
        for (header, layout) in [
            ("\"filename\", \"configuration\", \"rate\", \"time\"\n", Some(CsvLayout::Run)),
            (
                "\"binary\",\"filename\",\"configuration\",\"rate\",\"time\"\n",
                Some(CsvLayout::Compare),
            ),
            (
                "\"binary\", \"filename\", \"configuration\", \"rate\", \"time\"",
                Some(CsvLayout::Compare),
            ),
            ("\"filename\", \"n\", \"len\", \"rate\", \"time\"\r\n", Some(scatter)),
            ("\"filename\", \"n\"\n", None),
            ("{\"id\": 1}\n", None),
            ("", None),
        ] {
            assert_eq!(find_header(header.as_bytes()), layout, "{header}");
        }
    }

    #[test]
    fn a_header_is_found_below_chatter_and_after_a_byte_order_mark() {
        let header = "\"binary\",\"filename\",\"configuration\",\"rate\",\"time\"\n";
        assert_eq!(
            find_header(format!("> make bench\n{header}").as_bytes()),
            Some(CsvLayout::Compare)
        );
        assert_eq!(find_header(format!("\u{feff}{header}").as_bytes()), Some(CsvLayout::Compare));
    }
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
