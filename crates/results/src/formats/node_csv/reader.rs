//! Streaming reader for the rows of a Node.js benchmark CSV, in constant memory.
//!
//! Decides which lines are rows. All other lines (output of benchmarks, repeated headers in
//! concatenated files) are skipped, and counted unless they are headers. Knows neither cases nor
//! sessions. Start at [`Reader::next_row`].

use super::javascript;
use super::record::{Field, Scan, scan};
use super::{BYTE_ORDER_MARK, Layout};
use crate::formats::Skipped;
use memchr::memchr;
use std::borrow::Cow;
use std::io::{self, Read};
use std::ops::Range;

/// Read size in bytes; the pipe of a shell holds 64 KiB.
const CHUNK_BYTES: usize = 256 * 1024;

/// Maximum length of a row; a longer "row" is text that happens to begin with a quote.
const LONGEST_ROW_BYTES: usize = 1024 * 1024;

/// Streaming reader of rows.
pub struct Reader<R> {
    source: R,
    buffer: Vec<u8>,
    /// The unconsumed part of `buffer`.
    unread: Range<usize>,
    at_end: bool,
    fields: Vec<Field>,
    layout: Option<Layout>,
    skipped: Skipped,
}

/// A result as written in the file.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    record: &'a [u8],
    fields: &'a [Field],
    /// Layout of the row.
    pub layout: &'a Layout,
    /// Rate; NaN if the file states that it is missing.
    pub rate: f64,
}

impl<R: Read> Reader<R> {
    /// Creates a reader for `source`, which needs no buffering.
    pub fn new(source: R) -> Reader<R> {
        Reader {
            source,
            buffer: vec![0; CHUNK_BYTES],
            unread: 0..0,
            at_end: false,
            fields: Vec::new(),
            layout: None,
            skipped: Skipped::default(),
        }
    }

    /// Returns the layout of the last header, if there was one.
    pub fn layout(&self) -> Option<&Layout> {
        self.layout.as_ref()
    }

    /// Returns what was skipped so far.
    pub fn skipped(&self) -> &Skipped {
        &self.skipped
    }

    /// Returns the next row; `None` at the end.
    ///
    /// # Errors
    /// Reading the source fails.
    pub fn next_row(&mut self) -> io::Result<Option<Row<'_>>> {
        let Some((record, rate)) = self.find_row()? else {
            return Ok(None);
        };
        // Rows are only recognized below a header.
        let Some(layout) = &self.layout else {
            return Ok(None);
        };
        Ok(Some(Row {
            record: &self.buffer[record],
            fields: &self.fields,
            layout,
            rate,
        }))
    }

    fn find_row(&mut self) -> io::Result<Option<(Range<usize>, f64)>> {
        loop {
            let bytes = &self.buffer[self.unread.clone()];
            if bytes.is_empty() && self.at_end {
                return Ok(None);
            }
            match scan(bytes, self.at_end, &mut self.fields) {
                Scan::Unfinished if bytes.len() < LONGEST_ROW_BYTES => self.fill()?,
                Scan::Unfinished | Scan::NotARecord => self.skip_line()?,
                Scan::Record(length) => {
                    let record = self.unread.start..self.unread.start + length;
                    match self.judge(&self.buffer[record.clone()]) {
                        Judged::Row(rate) => {
                            self.unread.start = record.end;
                            return Ok(Some((record, rate)));
                        }
                        Judged::Header(layout) => {
                            self.unread.start = record.end;
                            self.layout = Some(layout);
                        }
                        Judged::Neither => self.skip_line()?,
                    }
                }
            }
        }
    }

    fn judge(&self, record: &[u8]) -> Judged {
        if let Some(layout) = &self.layout
            && layout.columns() == self.fields.len()
            && let [.., rate, time] = self.fields.as_slice()
            && let Some(rate) = javascript::figure(rate.raw(record))
            && (javascript::is_number(time.raw(record))
                || javascript::figure(time.raw(record)).is_some())
            && !self.fields[0].raw(record).is_empty()
        {
            return Judged::Row(rate);
        }
        let record = record.strip_prefix(BYTE_ORDER_MARK).unwrap_or(record);
        let mut fields = Vec::new();
        match scan(record, true, &mut fields) {
            Scan::Record(_) => {
                Layout::of_header(record, &fields).map_or(Judged::Neither, Judged::Header)
            }
            _ => Judged::Neither,
        }
    }

    /// Skips up to and including the next line end.
    fn skip_line(&mut self) -> io::Result<()> {
        loop {
            let bytes = &self.buffer[self.unread.clone()];
            let length = match memchr(b'\n', bytes) {
                Some(at) => at + 1,
                None if self.at_end || bytes.len() >= LONGEST_ROW_BYTES => bytes.len(),
                None => {
                    self.fill()?;
                    continue;
                }
            };
            self.skipped.add(&bytes[..length]);
            self.unread.start += length;
            return Ok(());
        }
    }

    /// Reads more data, after moving the unread bytes to the front of the buffer.
    fn fill(&mut self) -> io::Result<()> {
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

enum Judged {
    Row(f64),
    Header(Layout),
    Neither,
}

impl<'a> Row<'a> {
    /// Returns the column `binary` of a compare file.
    pub fn binary(&self) -> Option<Cow<'a, str>> {
        matches!(self.layout, Layout::Compare).then(|| self.text(0))
    }

    /// Returns the name of the benchmark, `group/name.js`.
    pub fn filename(&self) -> Cow<'a, str> {
        self.text(self.name_column())
    }

    /// Returns the configuration; `None` in a scatter file, which has columns instead.
    pub fn configuration(&self) -> Option<Cow<'a, str>> {
        match self.layout {
            Layout::Scatter { .. } => None,
            _ => Some(self.text(self.name_column() + 1)),
        }
    }

    /// Returns the parameters of a scatter file: name, text, and whether the text was quoted.
    pub fn parameters(&self) -> impl Iterator<Item = (&'a str, Cow<'a, str>, bool)> + use<'a> {
        let row = *self;
        let names: &'a [String] = match self.layout {
            Layout::Scatter { parameters } => parameters,
            _ => &[],
        };
        names.iter().enumerate().map(move |(index, name)| {
            (
                name.as_str(),
                row.text(index + 1),
                row.fields[index + 1].is_quoted(),
            )
        })
    }

    /// Returns the unparsed text that identifies the case: file name and parameters.
    pub fn case_text(&self) -> &'a [u8] {
        let rate = self.fields.len().saturating_sub(2);
        &self.record[self.fields[self.name_column()].start()..self.fields[rate].start()]
    }

    /// Returns the measured time.
    pub fn elapsed_ns(&self) -> Option<u64> {
        javascript::nanoseconds(self.time_text())
    }

    /// Returns the unparsed time.
    pub fn time_text(&self) -> &'a [u8] {
        self.fields
            .last()
            .map_or(b"", |field| field.raw(self.record))
    }

    /// Returns whether column `index` consists of exactly these bytes.
    pub fn is(&self, index: usize, bytes: &[u8]) -> bool {
        self.fields[index].raw(self.record) == bytes
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
        usize::from(matches!(self.layout, Layout::Compare))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "\"binary\",\"filename\",\"configuration\",\"rate\",\"time\"\n";

    /// A source that returns one byte at a time, so that every position is a buffer end once.
    struct Drip<'a>(&'a [u8]);

    impl Read for Drip<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let Some((first, rest)) = self.0.split_first() else {
                return Ok(0);
            };
            out[0] = *first;
            self.0 = rest;
            Ok(1)
        }
    }

    fn rows(text: &str) -> (Vec<String>, Skipped) {
        let mut whole = Reader::new(text.as_bytes());
        let all = collect(&mut whole);
        let mut drip = Reader::new(Drip(text.as_bytes()));
        assert_eq!(
            collect(&mut drip),
            all,
            "the rows depend on how the bytes arrive"
        );
        assert_eq!(drip.skipped(), whole.skipped());
        (all, whole.skipped().clone())
    }

    fn collect(reader: &mut Reader<impl Read>) -> Vec<String> {
        let mut all = Vec::new();
        while let Some(row) = reader.next_row().unwrap() {
            let binary = row.binary().unwrap_or_default();
            let configuration = row.configuration().unwrap_or_default();
            all.push(format!(
                "{binary}|{}|{configuration}|{}",
                row.filename(),
                row.rate
            ));
        }
        all
    }

    #[test]
    fn chatter_between_rows_is_left_out_and_counted() {
        let text = format!(
            "{HEADER}noise \"x\"\n\"old\",\"g/a.js\",\"n=1\",5,0.1\n\n\"unbalanced\n\
             {HEADER}a,b,c,d,e\n\"new\",\"g/a.js\",\"n=1\",6,0.1"
        );
        let (rows, skipped) = rows(&text);
        assert_eq!(rows, ["old|g/a.js|n=1|5", "new|g/a.js|n=1|6"]);
        assert_eq!(
            skipped,
            Skipped {
                lines: 3,
                first: Some("noise \"x\"".into())
            }
        );
        assert_eq!(
            skipped.warning().as_deref(),
            Some("3 lines that are no result were left out; the first is 'noise \"x\"'")
        );
    }

    #[test]
    fn carriage_returns_and_line_breaks_in_quotes_are_understood() {
        let text = "\"filename\", \"q\", \"rate\", \"time\"\r\n\"zz/s.js\", \"g\nh\", 5, 0.5\r\n";
        let mut reader = Reader::new(text.as_bytes());
        let row = reader.next_row().unwrap().unwrap();
        assert_eq!(
            row.parameters().next(),
            Some(("q", Cow::Borrowed("g\nh"), true))
        );
        assert_eq!(row.elapsed_ns(), Some(500_000_000));
        assert!(reader.next_row().unwrap().is_none());
        assert_eq!(reader.skipped().warning(), None);
    }

    #[test]
    fn a_row_without_a_rate_is_still_a_row() {
        let (rows, skipped) = rows(&format!(
            "{HEADER}\"old\",\"http/s.js\",\"c=1\",null,5.01\n"
        ));
        assert_eq!(rows, ["old|http/s.js|c=1|NaN"]);
        assert_eq!(skipped.lines, 0);
    }

    #[test]
    fn missing_figures_blanks_and_line_ends_are_read_as_r_reads_them() {
        let text = include_str!("../../../../speedwell/tests/golden/node-core/missing-figures.csv");
        let expected =
            include_str!("../../../../speedwell/tests/golden/node-core/missing-figures.R.tsv");
        let mut reader = Reader::new(text.as_bytes());
        let mut rows = String::new();
        let missing = |text: String| if text == "NaN" { "NA".to_owned() } else { text };
        while let Some(row) = reader.next_row().unwrap() {
            let seconds = row.elapsed_ns().map_or(f64::NAN, |ns| ns as f64 / 1e9);
            rows += &format!(
                "{}|{}|{}|{}|{}\n",
                row.binary().unwrap_or_default(),
                row.filename(),
                row.configuration().unwrap_or_default(),
                missing(javascript::number_text(row.rate)),
                missing(javascript::number_text(seconds)),
            );
        }
        assert_eq!(rows, expected);
        assert_eq!(reader.skipped().lines, 0);
    }

    #[test]
    fn a_file_of_another_kind_has_no_rows() {
        let (rows, skipped) = rows("{\"a\": 1}\n[1, 2]\n");
        assert_eq!((rows.len(), skipped.lines), (0, 2));
    }
}
