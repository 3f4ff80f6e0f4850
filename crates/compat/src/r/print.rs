//! Prints data frames as R does.
//!
//! Decides how columns are aligned, how a wide table is divided into blocks of columns, which
//! characters are escaped, and how many rows are shown. [`format_numbers`] decides how many digits
//! a column shows. All numbers of a column have the same number of decimals. There are only as many
//! decimals as necessary to show each number with up to 7 significant digits. If the scientific
//! form is narrower, all numbers have that form (R's `options(digits = 7, scipen = 0)`; see
//! `print.default` and `format`). [`RTexts`] interprets a column as `read.csv` does. This file does
//! not depend on the meaning of a table. Start at [`format_data_frame`].

use crate::r::TextCollation;
use speedwell_formats::node_csv::javascript;
use speedwell_report::escape_controls;
use std::borrow::Cow;
use std::cmp::Ordering;
use unicode_width::UnicodeWidthChar;

/// Maximum number of cells that R shows (`options("max.print")`).
const MAX_PRINTED_CELLS: usize = 99_999;

/// A column: its name and one string per row.
#[derive(Debug, Clone, PartialEq)]
pub struct FrameColumn {
    /// Header of the column.
    pub name: String,
    /// Strings below the header.
    pub cells: Vec<String>,
}

impl FrameColumn {
    /// Creates a column.
    pub fn new(name: impl Into<String>, cells: Vec<String>) -> FrameColumn {
        FrameColumn { name: name.into(), cells }
    }
}

/// Returns the maximum number of rows that R shows if a table has this many columns.
pub fn max_rows(columns: usize) -> usize {
    MAX_PRINTED_CELLS / columns.max(1)
}

/// Formats a table. Row names are on the left and left-aligned; all columns are right-aligned.
///
/// Lines stay narrower than `width` if possible: columns that do not fit go into further blocks
/// below. Every block repeats the row names. If `names` is empty, the table has no row names.
pub fn format_data_frame(names: &[String], columns: &[FrameColumn], width: usize) -> String {
    let rows = columns.first().map_or(0, |column| column.cells.len());
    let shown_rows = rows.min(max_rows(columns.len()));
    let names = escape_lines("", names, shown_rows);
    let names = PrintedColumn { width: max_width(&names), lines: names };
    let printed = columns.iter().map(|column| {
        let lines = escape_lines(&column.name, &column.cells, shown_rows);
        PrintedColumn { width: max_width(&lines) + 1, lines }
    });
    let columns: Vec<PrintedColumn<'_>> = printed.collect();
    let mut out = String::new();
    let mut remaining = columns.as_slice();
    while !remaining.is_empty() {
        let (block, next_columns) = remaining.split_at(block_length(remaining, names.width, width));
        print_block(&mut out, &names, block);
        remaining = next_columns;
    }
    if shown_rows < rows {
        let omitted = format!("omitted {} rows", rows - shown_rows);
        out += &format!(" [ reached 'max' / getOption(\"max.print\") -- {omitted} ]\n");
    }
    out
}

/// Column ready to be printed.
struct PrintedColumn<'a> {
    /// The name, followed by the cells.
    lines: Vec<Cow<'a, str>>,
    /// Width on the terminal; if the column is not the first, including the space in front.
    width: usize,
}

/// Escapes a header and the first `count` strings below it.
fn escape_lines<'a>(header: &'a str, texts: &'a [String], count: usize) -> Vec<Cow<'a, str>> {
    let cells = texts.iter().take(count).map(String::as_str);
    [header].into_iter().chain(cells).map(escape_text).collect()
}

fn max_width(lines: &[Cow<'_, str>]) -> usize {
    lines.iter().map(|line| display_width(line)).max().unwrap_or(0)
}

/// Returns how many columns fit side by side; at least one.
fn block_length(columns: &[PrintedColumn<'_>], name_width: usize, width: usize) -> usize {
    let mut used = name_width;
    let fits = |column: &&PrintedColumn<'_>| {
        used += column.width;
        used < width
    };
    columns.iter().take_while(fits).count().max(1)
}

fn print_block(out: &mut String, names: &PrintedColumn<'_>, columns: &[PrintedColumn<'_>]) {
    let padding = |text: &str, width: usize| " ".repeat(width - display_width(text));
    for row in 0..columns[0].lines.len() {
        if let Some(name) = names.lines.get(row) {
            out.push_str(name);
            out.push_str(&padding(name, names.width));
        }
        for PrintedColumn { lines, width } in columns {
            out.push_str(&padding(&lines[row], *width));
            out.push_str(&lines[row]);
        }
        out.push('\n');
    }
}

/// Returns the width of an escaped text on the terminal.
fn display_width(text: &str) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// Escapes a string as R's `print` does: doubles backslashes, and shows control characters as
/// escape sequences.
fn escape_text(text: &str) -> Cow<'_, str> {
    // Fast path: most text is printable ASCII.
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'\\') {
        return Cow::Borrowed(text);
    }
    if !text.contains(|c: char| c == '\\' || c.is_control()) {
        // Unlike R, we also escape characters that change the writing direction.
        return escape_controls(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match "\\\u{7}\u{8}\t\n\u{b}\u{c}\r".find(c) {
            Some(index) => out.extend(['\\', char::from(b"\\abtnvfr"[index])]),
            None if c.is_ascii_control() => out.push_str(&format!("\\{:03o}", c as u32)),
            None if c.is_control() => out.push_str(&format!("\\u{:04x}", c as u32)),
            None => out.push_str(&escape_controls(c.encode_utf8(&mut [0; 4]))),
        }
    }
    Cow::Owned(out)
}

/// R's default number of significant digits.
const SIGNIFICANT_DIGITS: usize = 7;

/// A number rounded to [`SIGNIFICANT_DIGITS`] significant digits.
struct RoundedNumber {
    negative: bool,
    /// Power of ten of the first digit.
    exponent: i32,
    /// Number of significant digits without trailing zeros.
    digits: i32,
    /// Whether rounding to significant digits yields a power of ten, but rounding in fixed form
    /// stays below this power.
    widened: bool,
}

impl RoundedNumber {
    fn from_number(number: f64) -> RoundedNumber {
        let text = format!("{:.*e}", SIGNIFICANT_DIGITS - 1, number.abs());
        let (mantissa, exponent) = split_exponent(&text);
        let significant = mantissa.trim_end_matches('0').bytes().filter(u8::is_ascii_digit).count();
        // Rounding to significant digits may turn a number into a power of ten: 999999.95 becomes
        // 1e+06. In fixed form, the number is rounded to `cut` decimals at most, and may stay below
        // this power: 999999.9.
        let cut = (SIGNIFICANT_DIGITS as i32 - exponent).max(0);
        let stays_below = 10f64.powi(exponent) - 0.5 / 10f64.powi(cut);
        RoundedNumber {
            negative: number < 0.0,
            exponent,
            digits: significant.max(1) as i32,
            widened: exponent > 0 && number.abs() < stays_below,
        }
    }

    /// Returns the number of characters before the decimal point in fixed form, including the sign.
    fn integer_width(&self) -> i32 {
        let digits = self.exponent + 1 - i32::from(self.widened);
        digits.max(1) + i32::from(self.negative)
    }

    /// Returns the number of decimals in fixed form.
    fn decimal_count(&self) -> i32 {
        (self.digits - self.exponent - 1).max(0)
    }
}

/// Formats the numbers of one column, without padding to a common width. `None` stands for R's
/// `NA`.
pub fn format_numbers(column: &[Option<f64>]) -> Vec<String> {
    let finite = column.iter().flatten().copied().filter(|number| number.is_finite());
    let rounded: Vec<RoundedNumber> = finite.map(RoundedNumber::from_number).collect();
    let max_of =
        |property: fn(&RoundedNumber) -> i32| rounded.iter().map(property).max().unwrap_or(0);
    let (integer_width, decimal_count) =
        (max_of(RoundedNumber::integer_width), max_of(RoundedNumber::decimal_count));
    let fixed_width = integer_width + decimal_count + i32::from(decimal_count > 0);
    let decimals = max_of(|number| number.digits) - 1;
    let sign_width = i32::from(rounded.iter().any(|number| number.negative));
    let exponent_digits =
        if rounded.iter().any(|number| number.exponent.abs() >= 100) { 3 } else { 2 };
    let point_width = i32::from(decimals > 0);
    // The parts are the sign, the first digit, the decimal point, the decimals, `e`, the sign of
    // the exponent, and the exponent.
    let scientific_width = sign_width + 1 + point_width + decimals + 2 + exponent_digits;
    let scientific = fixed_width > scientific_width;
    let text = |number: &Option<f64>| match *number {
        None => "NA".to_owned(),
        Some(number) if number.is_nan() => "NaN".to_owned(),
        Some(f64::INFINITY) => "Inf".to_owned(),
        Some(f64::NEG_INFINITY) => "-Inf".to_owned(),
        Some(number) if scientific => to_c_exponent(&format!("{number:.*e}", decimals as usize)),
        Some(number) => format!("{number:.*}", decimal_count as usize),
    };
    column.iter().map(text).collect()
}

/// Splits a number that Rust wrote in scientific form (`1.5e-7`) into its digits and its exponent.
pub fn split_exponent(scientific: &str) -> (&str, i32) {
    let (digits, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    (digits, exponent.parse().unwrap_or(0))
}

/// Converts the scientific form of Rust to that of C, Go and Python: the exponent has a sign and at
/// least two digits.
pub fn to_c_exponent(scientific: &str) -> String {
    let (digits, exponent) = split_exponent(scientific);
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// Distinct strings of a column, interpreted as numbers if possible.
#[derive(Debug, Clone, PartialEq)]
pub struct RTexts {
    /// The strings.
    pub texts: Vec<String>,
    /// Their numbers, if all strings are numbers.
    pub numbers: Option<Vec<f64>>,
    /// Whether all strings are whole numbers of at most 32 bits.
    are_integers: bool,
}

impl RTexts {
    /// Interprets `texts`.
    pub fn parse(texts: Vec<String>) -> RTexts {
        RTexts {
            numbers: texts.iter().map(|text| parse_real(text)).collect(),
            are_integers: texts.iter().all(|text| is_integer(text)),
            texts,
        }
    }

    /// Compares the strings at two indices.
    pub fn compare_at(&self, a: usize, b: usize, collation: TextCollation) -> Ordering {
        match &self.numbers {
            Some(numbers) => numbers[a].total_cmp(&numbers[b]),
            None => collation.compare_texts(&self.texts[a], &self.texts[b]),
        }
    }

    /// Formats a column whose cells contain the strings at these indices.
    pub fn format_cells(&self, indices: &[usize]) -> Vec<String> {
        let indices = indices.iter().copied();
        match &self.numbers {
            None => indices.map(|index| self.texts[index].clone()).collect(),
            Some(numbers) if self.are_integers => {
                indices.map(|index| javascript::format_number(numbers[index])).collect()
            }
            Some(reals) => {
                format_numbers(&indices.map(|index| Some(reals[index])).collect::<Vec<_>>())
            }
        }
    }
}

fn parse_real(text: &str) -> Option<f64> {
    // R reads `null` and `undefined` as strings.
    let is_word = matches!(text, "null" | "undefined");
    if is_word { None } else { javascript::parse_number(text.trim().as_bytes()) }
}

/// R's integers have 32 bits, and the smallest of them means "not available".
fn is_integer(text: &str) -> bool {
    text.trim().parse::<i32>().is_ok_and(|number| number != i32::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|&text| text.to_owned()).collect()
    }

    #[test]
    fn row_names_are_aligned_left_and_cells_right() {
        let columns = [
            FrameColumn::new("x", strings(&["1.5", "10.0"])),
            FrameColumn::new("long", strings(&["", "NA"])),
        ];
        assert_eq!(
            format_data_frame(&strings(&["a", "bcd"]), &columns, 80),
            "       x long\na    1.5     \nbcd 10.0   NA\n"
        );
        assert_eq!(format_data_frame(&[], &columns, 80), "    x long\n  1.5     \n 10.0   NA\n");
    }

    #[test]
    fn a_line_stays_below_the_width() {
        let columns = ["a", "b", "c"].map(|name| FrameColumn::new(name, strings(&["1234"])));
        // The name takes 1 character and each column takes 5, so two columns take 11 together.
        let wide = "     a    b\nn 1234 1234\n     c\nn 1234\n";
        assert_eq!(format_data_frame(&strings(&["n"]), &columns, 12), wide);
        let narrow = format_data_frame(&strings(&["n"]), &columns, 11);
        assert_eq!(narrow, "     a\nn 1234\n     b\nn 1234\n     c\nn 1234\n");
        assert_eq!(
            format_data_frame(&strings(&["n"]), &columns, 1),
            narrow,
            "one column always fits"
        );
    }

    #[test]
    fn wide_letters_take_two_places_and_backslashes_are_doubled() {
        let columns = [FrameColumn::new("x", strings(&["1", "2", "3"]))];
        assert_eq!(
            format_data_frame(&strings(&["é😀", "a\\nb", "\u{1}日"]), &columns, 80),
            "       x\né😀    1\na\\\\nb  2\n\\001日 3\n"
        );
    }

    #[test]
    fn very_long_tables_end_as_in_r() {
        let rows = 20_003;
        let cells = vec!["1".to_owned(); rows];
        let columns: Vec<_> = (0..5).map(|_| FrameColumn::new("x", cells.clone())).collect();
        let table = format_data_frame(&cells, &columns, 80);
        assert_eq!(table.lines().count(), 1 + 19_999 + 1);
        let last = " [ reached 'max' / getOption(\"max.print\") -- omitted 4 rows ]\n";
        assert!(table.ends_with(last));
    }

    /// Each expected column was printed by `format(c(...))` of R 4.2.2.
    #[test]
    fn columns_are_formatted_as_in_r() {
        let cases: &[(&[f64], &[&str])] = &[
            (
                &[516194.04781470774, 505270.1370375367, 1038734.0434914406],
                &["516194.0", "505270.1", "1038734.0"],
            ),
            (&[0.5, 1000000.0, 3000000000.0], &["5e-01", "1e+06", "3e+09"]),
            (&[1234567890.0, 0.00012345678], &["1.234568e+09", "1.234568e-04"]),
            (&[100000.0], &["1e+05"]),
            (&[100000.0, 1.0], &["1e+05", "1e+00"]),
            (&[123456.0], &["123456"]),
            (&[0.1, 0.12345678], &["0.1000000", "0.1234568"]),
            (&[99999999.0], &["1e+08"]),
            (&[9999999.6, 1.0], &["1e+07", "1e+00"]),
            (&[1e-300, 1.0], &["1e-300", "1e+00"]),
            (&[1e+100, 1e-05], &["1e+100", "1e-05"]),
            (&[-1.5, 2.0], &["-1.5", "2.0"]),
            (&[-10000000000.0, 5.0], &["-1e+10", "5e+00"]),
            (&[f64::NAN, 1.25, f64::INFINITY, f64::NEG_INFINITY], &["NaN", "1.25", "Inf", "-Inf"]),
            (&[0.0, 0.0], &["0", "0"]),
            (&[635.3102, f64::NAN], &["635.3102", "NaN"]),
            (&[100000.0, 1e-05], &["1e+05", "1e-05"]),
            (&[9.99999999, 100.5], &["10.0", "100.5"]),
            (&[99999.99999], &["1e+05"]),
            (&[1000000000000000.0], &["1e+15"]),
            (&[1000000000000002.0], &["1e+15"]),
            (&[1e-05], &["1e-05"]),
            (&[0.0001], &["1e-04"]),
            (&[0.0001234], &["0.0001234"]),
            (&[1234567.8], &["1234568"]),
            (&[123456789.123], &["123456789"]),
            (
                &[0.6666666666666666, 6.666666666666667, 666666.6666666666],
                &["6.666667e-01", "6.666667e+00", "6.666667e+05"],
            ),
            (&[1e+300, -1e-300], &["1e+300", "-1e-300"]),
            (&[31.0, 1.2345678912], &["31.000000", "1.234568"]),
            (&[1e-15, 1.0], &["1e-15", "1e+00"]),
            (&[f64::NAN], &["NaN"]),
            (&[12345678.0], &["12345678"]),
            (&[999999.95, 1.0], &["999999.9", "1.0"]),
            (&[-1.23456e-05], &["-1.23456e-05"]),
            (&[1e+22, 1.0], &["1e+22", "1e+00"]),
            (&[5e-324], &["4.940656e-324"]),
            (&[1.7976931348623157e+308], &["1.797693e+308"]),
        ];
        for (column, texts) in cases {
            let column: Vec<_> = column.iter().copied().map(Some).collect();
            assert_eq!(format_numbers(&column), *texts, "{column:?}");
        }
    }

    #[test]
    fn a_missing_number_does_not_change_the_others() {
        assert_eq!(format_numbers(&[Some(1.5), None, Some(2.0)]), ["1.5", "NA", "2.0"]);
        assert_eq!(format_numbers(&[None]), ["NA"]);
    }

    fn texts(texts: &[&str]) -> RTexts {
        RTexts::parse(strings(texts))
    }

    #[test]
    fn whole_numbers_print_in_full_and_others_as_r_prints_them() {
        assert_eq!(texts(&["100000", "1"]).format_cells(&[0, 1, 0]), ["100000", "1", "100000"]);
        assert_eq!(texts(&["100000", "0.5"]).format_cells(&[0, 1]), ["1e+05", "5e-01"]);
        assert_eq!(texts(&["3000000000"]).format_cells(&[0]), ["3e+09"]);
    }

    #[test]
    fn numbers_sort_by_value_and_words_by_letters() {
        let order = |column: RTexts| column.compare_at(0, 1, TextCollation::Root);
        assert_eq!(order(texts(&["16", "9"])), Ordering::Greater);
        assert_eq!(order(texts(&["16", "9a"])), Ordering::Less);
        assert_eq!(order(texts(&["utf8", "UTF"])), Ordering::Greater);
    }
}
