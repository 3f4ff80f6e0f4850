//! Reads the rows of a Node.js benchmark CSV one after the other, in constant memory.
//!
//! Decides which lines are rows. All other lines, such as output of benchmarks, are skipped.
//! Skipped lines are counted, except blank lines and the repeated headers of concatenated files.
//! This module knows nothing about cases or sessions. Start at [`RowReader::next_row`].

use super::javascript;
use super::{CsvField, CsvLayout, ScanResult, scan_record};
use crate::SkippedLines;
use memchr::memchr;
use std::borrow::Cow;
use std::io::{self, Read};
use std::ops::Range;

/// Initial size of the buffer, in bytes. It exceeds the 64 KiB that the pipe of a shell holds.
const CHUNK_BYTES: usize = 256 * 1024;

/// Maximum length of a row. A longer text is presumably a line whose opening quote is never closed.
const LONGEST_ROW_BYTES: usize = 1024 * 1024;

/// Reads rows from a source, one after the other.
pub struct RowReader<R> {
    source: R,
    buffer: Vec<u8>,
    /// The unconsumed part of `buffer`.
    unread: Range<usize>,
    at_end: bool,
    fields: Vec<CsvField>,
    /// The layout of the last header, if there was one.
    pub layout: Option<CsvLayout>,
    /// The lines skipped so far.
    pub skipped: SkippedLines,
}

/// A result as written in the file.
#[derive(Debug, Clone, Copy)]
pub struct CsvRow<'a> {
    record: &'a [u8],
    fields: &'a [CsvField],
    /// Layout of the row.
    pub layout: &'a CsvLayout,
    /// Rate; NaN if the file states that it is missing.
    pub rate: f64,
}

impl<R: Read> RowReader<R> {
    /// Creates a reader for `source`, which needs no buffering.
    pub fn new(source: R) -> RowReader<R> {
        RowReader {
            source,
            buffer: vec![0; CHUNK_BYTES],
            unread: 0..0,
            at_end: false,
            fields: Vec::new(),
            layout: None,
            skipped: SkippedLines::default(),
        }
    }

    /// Returns the next row; `None` at the end.
    ///
    /// # Errors
    /// Fails if reading the source fails.
    pub fn next_row(&mut self) -> io::Result<Option<CsvRow<'_>>> {
        let Some((record, rate)) = self.find_row()? else { return Ok(None) };
        // There is always a layout here, because rows are only recognized below a header.
        let Some(layout) = &self.layout else { return Ok(None) };
        Ok(Some(CsvRow { record: &self.buffer[record], fields: &self.fields, layout, rate }))
    }

    fn find_row(&mut self) -> io::Result<Option<(Range<usize>, f64)>> {
        loop {
            let bytes = &self.buffer[self.unread.clone()];
            if bytes.is_empty() && self.at_end {
                return Ok(None);
            }
            match scan_record(bytes, self.at_end, &mut self.fields) {
                ScanResult::Unfinished if bytes.len() < LONGEST_ROW_BYTES => self.fill_buffer()?,
                ScanResult::Unfinished | ScanResult::NotARecord => self.skip_line()?,
                ScanResult::Record(length) => {
                    let record = self.unread.start..self.unread.start + length;
                    let bytes = &self.buffer[record.clone()];
                    if let Some(rate) = self.row_rate(bytes) {
                        self.unread.start = record.end;
                        return Ok(Some((record, rate)));
                    }
                    match CsvLayout::from_line(bytes) {
                        Some(layout) => {
                            self.unread.start = record.end;
                            self.layout = Some(layout);
                        }
                        None => self.skip_line()?,
                    }
                }
            }
        }
    }

    /// Returns the rate of a record; `None` if the record is not a row.
    fn row_rate(&self, record: &[u8]) -> Option<f64> {
        self.layout.as_ref().filter(|layout| layout.column_count() == self.fields.len())?;
        let [name, .., rate, time] = self.fields.as_slice() else { return None };
        let (rate, time) = (javascript::parse_figure(rate.raw(record))?, time.raw(record));
        let has_time = javascript::is_number(time) || javascript::parse_figure(time).is_some();
        (has_time && !name.raw(record).is_empty()).then_some(rate)
    }

    /// Skips up to and including the next line end.
    fn skip_line(&mut self) -> io::Result<()> {
        loop {
            let bytes = &self.buffer[self.unread.clone()];
            let length = match memchr(b'\n', bytes) {
                Some(index) => index + 1,
                None if self.at_end || bytes.len() >= LONGEST_ROW_BYTES => bytes.len(),
                None => {
                    self.fill_buffer()?;
                    continue;
                }
            };
            self.skipped.add_line(&bytes[..length]);
            self.unread.start += length;
            return Ok(());
        }
    }

    /// Reads more data, after moving the unread bytes to the front of the buffer.
    fn fill_buffer(&mut self) -> io::Result<()> {
        self.buffer.copy_within(self.unread.clone(), 0);
        self.unread = 0..self.unread.len();
        if self.unread.end == self.buffer.len() {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        let length = loop {
            match self.source.read(&mut self.buffer[self.unread.end..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        self.unread.end += length;
        self.at_end = length == 0;
        Ok(())
    }
}

impl<'a> CsvRow<'a> {
    /// Returns the column `binary` of a compare file.
    pub fn binary(&self) -> Option<Cow<'a, str>> {
        matches!(self.layout, CsvLayout::Compare).then(|| self.text(0))
    }

    /// Returns the name of the benchmark, `group/name.js`.
    pub fn filename(&self) -> Cow<'a, str> {
        self.text(self.name_column())
    }

    /// Returns the configuration; `None` in a scatter file, which has a column per parameter
    /// instead.
    pub fn configuration(&self) -> Option<Cow<'a, str>> {
        match self.layout {
            CsvLayout::Scatter { .. } => None,
            _ => Some(self.text(self.name_column() + 1)),
        }
    }

    /// Returns the parameters of a scatter file: name, text, and whether the text was quoted.
    pub fn parameters(&self) -> impl Iterator<Item = (&'a str, Cow<'a, str>, bool)> + use<'a> {
        let row = *self;
        let names: &'a [String] = match self.layout {
            CsvLayout::Scatter { parameters } => parameters,
            _ => &[],
        };
        names.iter().enumerate().map(move |(index, name)| {
            (name.as_str(), row.text(index + 1), row.fields[index + 1].is_quoted(row.record))
        })
    }

    /// Returns the unparsed text that identifies the case: file name and parameters.
    pub fn case_text(&self) -> &'a [u8] {
        let rate = self.fields.len().saturating_sub(2);
        &self.record[self.fields[self.name_column()].start..self.fields[rate].start]
    }

    /// Returns the measured time.
    pub fn elapsed_ns(&self) -> Option<u64> {
        javascript::parse_nanoseconds(self.fields.last()?.raw(self.record))
    }

    /// Returns the bytes of column `index` as in the file.
    pub fn raw(&self, index: usize) -> &'a [u8] {
        self.fields[index].raw(self.record)
    }

    /// Appends `filename configuration` to `out`, separated by a blank.
    pub fn append_name(&self, out: &mut Vec<u8>) {
        let column = self.name_column();
        self.fields[column].append_to(self.record, out);
        out.push(b' ');
        self.fields[column + 1].append_to(self.record, out);
    }

    fn text(&self, column: usize) -> Cow<'a, str> {
        self.fields[column].text(self.record)
    }

    fn name_column(&self) -> usize {
        usize::from(matches!(self.layout, CsvLayout::Compare))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "\"binary\",\"filename\",\"configuration\",\"rate\",\"time\"\n";

    /// A source that returns one byte at a time. The buffered data thus end at every possible
    /// position.
    struct DripSource<'a>(&'a [u8]);

    impl Read for DripSource<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let Some((first, rest)) = self.0.split_first() else { return Ok(0) };
            out[0] = *first;
            self.0 = rest;
            Ok(1)
        }
    }

    fn read_rows(text: &str) -> (Vec<String>, SkippedLines) {
        let mut reader = RowReader::new(text.as_bytes());
        let expected = collect_rows(&mut reader);
        let mut drip = RowReader::new(DripSource(text.as_bytes()));
        assert_eq!(collect_rows(&mut drip), expected, "the rows depend on how the bytes arrive");
        assert_eq!(drip.skipped, reader.skipped);
        (expected, reader.skipped.clone())
    }

    fn collect_rows(reader: &mut RowReader<impl Read>) -> Vec<String> {
        let mut rows = Vec::new();
        while let Some(row) = reader.next_row().unwrap() {
            let binary = row.binary().unwrap_or_default();
            let configuration = row.configuration().unwrap_or_default();
            rows.push(format!("{binary}|{}|{configuration}|{}", row.filename(), row.rate));
        }
        rows
    }

    #[test]
    fn chatter_between_rows_is_left_out_and_counted() {
        let text = format!(
            "{HEADER}noise \"x\"\n\"old\",\"g/a.js\",\"n=1\",5,0.1\n\n\"unbalanced\n\
             {HEADER}a,b,c,d,e\n\"new\",\"g/a.js\",\"n=1\",6,0.1"
        );
        let (rows, skipped) = read_rows(&text);
        assert_eq!(rows, ["old|g/a.js|n=1|5", "new|g/a.js|n=1|6"]);
        assert_eq!(skipped, SkippedLines { lines: 3, first: Some("noise \"x\"".into()) });
        assert_eq!(
            skipped.warning().as_deref(),
            Some("3 lines without a result were left out; the first is 'noise \"x\"'")
        );
    }

    #[test]
    fn carriage_returns_and_line_breaks_in_quotes_are_understood() {
        let text = "\"filename\", \"q\", \"rate\", \"time\"\r\n\"zz/s.js\", \"g\nh\", 5, 0.5\r\n";
        let mut reader = RowReader::new(text.as_bytes());
        let row = reader.next_row().unwrap().unwrap();
        assert_eq!(row.parameters().next(), Some(("q", Cow::Borrowed("g\nh"), true)));
        assert_eq!(row.elapsed_ns(), Some(500_000_000));
        assert!(reader.next_row().unwrap().is_none());
        assert_eq!(reader.skipped.warning(), None);
    }

    #[test]
    fn a_row_without_a_rate_is_still_a_row() {
        let (rows, skipped) =
            read_rows(&format!("{HEADER}\"old\",\"http/s.js\",\"c=1\",null,5.01\n"));
        assert_eq!(rows, ["old|http/s.js|c=1|NaN"]);
        assert_eq!(skipped.lines, 0);
    }

    #[test]
    fn missing_figures_blanks_and_line_ends_are_read_as_r_reads_them() {
        let text = include_str!("../../../speedwell/tests/golden/node-core/missing-figures.csv");
        let expected =
            include_str!("../../../speedwell/tests/golden/node-core/missing-figures.R.tsv");
        let mut reader = RowReader::new(text.as_bytes());
        let mut rows = String::new();
        let missing = |text: String| if text == "NaN" { "NA".to_owned() } else { text };
        while let Some(row) = reader.next_row().unwrap() {
            let seconds = row.elapsed_ns().map_or(f64::NAN, |ns| ns as f64 / 1e9);
            rows += &format!(
                "{}|{}|{}|{}|{}\n",
                row.binary().unwrap_or_default(),
                row.filename(),
                row.configuration().unwrap_or_default(),
                missing(javascript::format_number(row.rate)),
                missing(javascript::format_number(seconds)),
            );
        }
        assert_eq!(rows, expected);
        assert_eq!(reader.skipped.lines, 0);
    }

    #[test]
    fn a_file_of_another_kind_has_no_rows() {
        let (rows, skipped) = read_rows("{\"a\": 1}\n[1, 2]\n");
        assert_eq!((rows.len(), skipped.lines), (0, 2));
    }
}
