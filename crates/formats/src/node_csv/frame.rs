//! Reads the output of `scatter.js` into columns, for parameter studies.
//!
//! Stores each distinct string of a column once and does not interpret it. Start at
//! [`ScatterFrame::read`].

use super::reader::{CsvRow, RowReader};
use crate::SkippedLines;
use crate::foreign::diagnosis::plain_source;
use crate::node_csv::CsvLayout;
use anyhow::{Result, bail};
use indexmap::IndexSet;
use std::io::Read;

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
        let code = match self.texts.get_index_of(text) {
            Some(code) => code,
            None => self.texts.insert_full(text.to_owned()).0,
        };
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
        frame.skipped = reader.skipped().clone();
        if frame.rates.is_empty() {
            bail!("{}", no_results_message(reader.layout(), &frame));
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
        for (column, text) in self.columns.iter_mut().zip(values) {
            column.push(text.as_ref());
        }
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
        let without_rate = (self.without_rate > 0).then(|| {
            format!(
                "left out {} row{} without a rate",
                self.without_rate,
                if self.without_rate == 1 { "" } else { "s" }
            )
        });
        self.skipped.warning().into_iter().chain(without_rate).collect()
    }
}

fn no_results_message(layout: Option<&CsvLayout>, frame: &ScatterFrame) -> &'static str {
    match layout {
        _ if frame.without_rate > 0 => "no row has a usable rate",
        Some(CsvLayout::Scatter { .. }) => "there are no results below the header",
        Some(_) => "this is not the output of scatter.js but of run.js or compare.js",
        None if frame.skipped.lines == 0 => "the input is empty",
        None => "this is not the output of scatter.js: its header is missing",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
