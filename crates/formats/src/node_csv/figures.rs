//! Reads the figures of large files compactly, for tables that need no session.
//!
//! [`CompareRates`] holds the rates in a file of `compare.js`, grouped by case and side, for
//! comparison tables. It stores even a million rows compactly: one name per case, eight bytes per
//! row. Names are kept byte for byte as they are in the file, because comparison tables match names
//! as strings, not as parsed cases. [`ScatterFrame`] holds the output of `scatter.js` in columns,
//! for parameter studies. It stores each distinct string of a column once and does not interpret it.
//! Neither computes statistics.

use super::CsvLayout;
use super::reader::{CsvRow, RowReader};
use crate::SkippedLines;
use crate::foreign::diagnosis::plain_source;
use anyhow::{Result, bail};
use indexmap::{IndexMap, IndexSet};
use std::io::Read;

/// One of the two programs that `compare.js` compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompareSide {
    /// `--old`, the baseline.
    Old,
    /// `--new`, the candidate.
    New,
}

/// Rates of a case.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CaseRates {
    /// Operations per second of the baseline, in file order.
    pub old: Vec<f64>,
    /// Operations per second of the candidate.
    pub new: Vec<f64>,
}

/// All rates in a file of `compare.js`.
#[derive(Debug, Clone, Default)]
pub struct CompareRates {
    groups: IndexMap<Box<[u8]>, CaseRates>,
    /// Index of the case to which the next row most likely belongs.
    expected: usize,
    /// Skipped lines.
    pub skipped: SkippedLines,
    /// Number of rows whose binary is neither `old` nor `new`.
    pub of_other_binaries: u64,
    /// Number of rows whose rate is missing or not finite.
    pub without_rate: u64,
}

impl CompareRates {
    /// Reads output of `compare.js`.
    ///
    /// # Errors
    /// Fails if the source cannot be read, is empty or of another kind, or has no results.
    pub fn read(source: impl Read) -> Result<CompareRates> {
        let mut reader = RowReader::new(plain_source(source)?);
        let mut groups = CompareRates::default();
        let mut name = Vec::new();
        while let Some(row) = reader.next_row()? {
            if *row.layout != CsvLayout::Compare {
                bail!("the rows contain a header of another format");
            }
            let side = match row.raw(0) {
                b"old" => CompareSide::Old,
                b"new" => CompareSide::New,
                _ => {
                    groups.of_other_binaries += 1;
                    continue;
                }
            };
            name.clear();
            row.append_name(&mut name);
            groups.add_row(&name, side, row.rate);
        }
        groups.skipped = reader.skipped.clone();
        if groups.is_empty() {
            let is_compare = matches!(reader.layout, Some(CsvLayout::Compare));
            let is_unusable = groups.of_other_binaries + groups.without_rate > 0;
            bail!("{}", describe_problem(&reader, "compare.js", is_compare, is_unusable));
        }
        Ok(groups)
    }

    /// Adds a row; `name` is `filename configuration`.
    pub fn add_row(&mut self, name: &[u8], side: CompareSide, rate: f64) {
        if !rate.is_finite() {
            self.without_rate += 1;
            return;
        }
        let index = self.case_index(name);
        self.expected = index + 1;
        let rates = &mut self.groups[index];
        match side {
            CompareSide::Old => rates.old.push(rate),
            CompareSide::New => rates.new.push(rate),
        }
    }

    /// Returns the index of a case, adding it if needed.
    ///
    /// The drivers cycle through the cases in a fixed order. Therefore, the case that follows the
    /// previous row's case is tried first: comparing names is cheaper than hashing them.
    fn case_index(&mut self, name: &[u8]) -> usize {
        match self.groups.get_index(self.expected) {
            Some((expected, _)) if **expected == *name => self.expected,
            _ => match self.groups.get_index_of(name) {
                Some(index) => index,
                None => self.groups.insert_full(name.into(), CaseRates::default()).0,
            },
        }
    }

    /// Returns name and rates of each case, in order of first appearance.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &CaseRates)> {
        self.groups.iter().map(|(name, rates)| (&**name, rates))
    }

    /// Returns the number of cases.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Returns whether there are no cases.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Returns warnings about dropped content, one sentence each.
    pub fn warnings(&self) -> Vec<String> {
        let other_binaries = "with a binary other than 'old' and 'new'";
        let of_binaries = dropped_rows(self.of_other_binaries, other_binaries);
        let without_rate = dropped_rows(self.without_rate, "without a rate");
        self.skipped.warning().into_iter().chain(of_binaries).chain(without_rate).collect()
    }
}

/// Explains why the input has no results. `is_expected` states whether it is the output of `script`,
/// and `is_unusable` whether it has rows that cannot be used.
fn describe_problem(
    reader: &RowReader<impl Read>,
    script: &str,
    is_expected: bool,
    is_unusable: bool,
) -> String {
    let other = if script == "compare.js" { "scatter.js" } else { "compare.js" };
    match reader.layout {
        _ if is_unusable => "no row has a usable rate".to_owned(),
        Some(_) if is_expected => "there are no results below the header".to_owned(),
        Some(_) => format!("this is not the output of {script} but of run.js or {other}"),
        None if reader.skipped.lines == 0 => "the input is empty".to_owned(),
        None => format!("this is not the output of {script}: its header is missing"),
    }
}

/// Returns a warning about dropped rows, if there are any.
fn dropped_rows(count: u64, what: &str) -> Option<String> {
    let rows = if count == 1 { "row" } else { "rows" };
    (count > 0).then(|| format!("left out {count} {rows} {what}"))
}

/// Columns of a file that `scatter.js` wrote.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ScatterFrame {
    /// Name of the benchmark of each row.
    pub filenames: TextColumn,
    /// One column per parameter.
    pub columns: Vec<TextColumn>,
    /// Operations per second, one per row.
    pub rates: Vec<f64>,
    /// Skipped lines.
    pub skipped: SkippedLines,
    /// Number of rows whose rate is missing or not finite. The columns do not contain these rows.
    pub without_rate: u64,
}

/// Values of a parameter, as strings.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TextColumn {
    /// Name of the parameter.
    pub name: String,
    /// Distinct strings, in order of first appearance.
    pub texts: IndexSet<String>,
    /// For each row, the index of its string in `texts`.
    pub codes: Vec<usize>,
}

impl TextColumn {
    /// Creates an empty column.
    pub fn new(name: impl Into<String>) -> TextColumn {
        TextColumn { name: name.into(), ..TextColumn::default() }
    }

    /// Appends the string of a row.
    pub fn push(&mut self, text: &str) {
        let known = self.texts.get_index_of(text);
        let code = known.unwrap_or_else(|| self.texts.insert_full(text.to_owned()).0);
        self.codes.push(code);
    }
}

impl ScatterFrame {
    /// Reads output of `scatter.js`.
    ///
    /// # Errors
    /// Fails if the source cannot be read, is empty or of another kind, has no results, or has a
    /// second header with other columns.
    pub fn read(source: impl Read) -> Result<ScatterFrame> {
        let mut reader = RowReader::new(plain_source(source)?);
        let mut frame = ScatterFrame::default();
        while let Some(row) = reader.next_row()? {
            frame.add_row(&row)?;
        }
        frame.skipped = reader.skipped.clone();
        if frame.rates.is_empty() {
            let is_scatter = matches!(reader.layout, Some(CsvLayout::Scatter { .. }));
            let is_unusable = frame.without_rate > 0;
            bail!("{}", describe_problem(&reader, "scatter.js", is_scatter, is_unusable));
        }
        Ok(frame)
    }

    fn add_row(&mut self, row: &CsvRow<'_>) -> Result<()> {
        let CsvLayout::Scatter { parameters } = row.layout else {
            bail!("this is not the output of scatter.js but of run.js or compare.js");
        };
        if self.columns.is_empty() && self.rates.is_empty() {
            self.columns = parameters.iter().map(TextColumn::new).collect();
        } else if !self.columns.iter().map(|column| &column.name).eq(parameters) {
            bail!("a second header has different columns than the first one");
        }
        let values = row.parameters().map(|(_, text, _)| text);
        self.push(&row.filename(), values, row.rate);
        Ok(())
    }

    /// Appends a row; `values` has one string per column.
    pub fn push(
        &mut self,
        filename: &str,
        values: impl IntoIterator<Item = impl AsRef<str>>,
        rate: f64,
    ) {
        if !rate.is_finite() {
            self.without_rate += 1;
            return;
        }
        self.filenames.push(filename);
        self.columns.iter_mut().zip(values).for_each(|(column, text)| column.push(text.as_ref()));
        self.rates.push(rate);
    }

    /// Returns the column of the parameter with this name. The name `filename` selects the names of
    /// benchmarks.
    pub fn find_column(&self, name: &str) -> Option<&TextColumn> {
        match name {
            "filename" => Some(&self.filenames),
            _ => self.columns.iter().find(|column| column.name == name),
        }
    }

    /// Returns the benchmark name of the first row; empty without rows.
    pub fn filename(&self) -> &str {
        self.filenames.texts.first().map_or("", String::as_str)
    }

    /// Returns warnings about dropped content, one sentence each.
    pub fn warnings(&self) -> Vec<String> {
        let without_rate = dropped_rows(self.without_rate, "without a rate");
        self.skipped.warning().into_iter().chain(without_rate).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "\"binary\",\"filename\",\"configuration\",\"rate\",\"time\"\n";

    fn read(text: &str) -> Result<CompareRates> {
        CompareRates::read(text.as_bytes())
    }

    #[test]
    fn rates_are_kept_by_case_and_side() {
        let groups = read(&format!(
            "{HEADER}\"old\",\"a\",\"q=\"\"x\"\"\",5,1\n\"new\",\"a\",\"q=\"\"x\"\"\",6,1\n\
             \"old\",\"a\",\"\",7,1\n\"old\",\"a\",\"q=\"\"x\"\"\",8,1\n"
        ))
        .unwrap();
        let cases: Vec<_> = groups.iter().collect();
        assert_eq!(cases[0].0, b"a q=\"x\"");
        assert_eq!(*cases[0].1, CaseRates { old: vec![5.0, 8.0], new: vec![6.0] });
        assert_eq!(cases[1].0, b"a ");
        assert_eq!(groups.warnings(), [""; 0]);
    }

    #[test]
    fn rows_that_cannot_be_used_are_counted() {
        let groups = read(&format!(
            "{HEADER}\"old\",\"a\",\"\",5,1\n\"mid\",\"a\",\"\",5,1\nchatter\n\"new\",\"a\",\"\",NaN,1\n"
        ))
        .unwrap();
        assert_eq!(
            groups.warnings(),
            [
                "1 line without a result was left out; the first is 'chatter'",
                "left out 1 row with a binary other than 'old' and 'new'",
                "left out 1 row without a rate",
            ]
        );
    }

    #[test]
    fn the_error_for_an_input_without_results_describes_the_input() {
        for (text, message) in [
            ("", "the input is empty"),
            (HEADER, "there are no results below the header"),
            ("hello\n", "this is not the output of compare.js: its header is missing"),
            (
                "\"filename\", \"configuration\", \"rate\", \"time\"\n",
                "this is not the output of compare.js but of run.js or scatter.js",
            ),
        ] {
            assert_eq!(read(text).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn each_distinct_string_is_stored_once() {
        let text = "\"filename\", \"n\", \"e\", \"rate\", \"time\"\n\"g/a.js\", 5, \"u\", 1, 1\n\
                    \"g/a.js\", 5, \"v\", 2, 1\n\"g/a.js\", 5, \"u\", null, 1\n";
        let frame = ScatterFrame::read(text.as_bytes()).unwrap();
        assert_eq!(frame.filename(), "g/a.js");
        assert_eq!(frame.rates, [1.0, 2.0]);
        assert_eq!(frame.columns[0].codes, [0, 0]);
        assert_eq!(frame.columns[1].texts.iter().collect::<Vec<_>>(), ["u", "v"]);
        assert_eq!(frame.warnings(), ["left out 1 row without a rate"]);
    }

    #[test]
    fn columns_that_change_are_refused() {
        let text = "\"filename\",\"n\",\"rate\",\"time\"\n\"a\",5,1,1\n\
                    \"filename\",\"m\",\"rate\",\"time\"\n\"a\",5,1,1\n";
        let error = ScatterFrame::read(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(error, "a second header has different columns than the first one");
    }
}
