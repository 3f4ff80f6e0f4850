//! Output destinations: standard output in one format, and files whose names select their format.

use super::files::{self, Written};
use super::format::{Format, Render, Text};
use super::unit::UnitChoice;
use crate::charts::ChartKind;
use crate::document::{Block, Document};
use crate::table::Audience;
use anyhow::{Context as _, bail};
use std::borrow::Cow;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

/// The output options.
#[derive(Debug, Clone, Default)]
pub struct Output {
    /// Files to write besides standard output, in the format of their extension.
    pub files: Vec<PathBuf>,
    /// The format of standard output; text by default.
    pub format: Option<Format>,
    /// The preferred unit for figures that it fits; by default the unit that keeps them short.
    pub unit: Option<UnitChoice>,
    /// Whether standard output is colored.
    pub color: bool,
    /// Columns of the terminal; `None` gives tables their natural width.
    pub width: Option<usize>,
    /// The chart to draw; by default whichever suit the findings.
    pub chart: Option<ChartKind>,
    /// Whether to draw flame graphs in addition to the charts.
    pub flames: bool,
    /// The machine-readable key of the column to sort tables by, largest first; smallest first with
    /// a leading `-`. Tables without that column keep their order.
    pub sort: Option<String>,
    /// The level of detail.
    pub verbosity: Verbosity,
}

/// The level of detail of a report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// The answer and its table.
    Quiet,
    /// Plus the context to judge it.
    #[default]
    Normal,
    /// Everything.
    Verbose,
}

impl Output {
    /// Whether any output is an HTML page.
    pub(crate) fn wants_page(&self) -> bool {
        let is_page = |file: &PathBuf| file.extension().is_some_and(|kind| kind == "html");
        self.format == Some(Format::Html) || self.files.iter().any(is_page)
    }

    /// The only audience of the output, if there is only one: other columns would fill the memory
    /// in large reports.
    pub(crate) fn audience(&self) -> Option<Audience> {
        match self.format.unwrap_or(Format::Text) {
            _ if !self.files.is_empty() || self.sort.is_some() => None,
            Format::Text | Format::Markdown | Format::AsciiDoc | Format::Org => {
                Some(Audience::People)
            }
            Format::Csv | Format::Json => Some(Audience::Machines),
            Format::Html => None,
        }
    }

    /// Adds what `-q` leaves out of standard output. Files have it all the same.
    pub(crate) fn add_detail(
        &self,
        document: &mut Document,
        detail: impl FnOnce(&Output, &mut Document),
    ) {
        self.add_shortened(document, Vec::new, detail);
    }

    /// Adds what `-q` shortens on standard output, where it shows `short`. Files have the whole.
    pub(crate) fn add_shortened(
        &self,
        document: &mut Document,
        short: impl FnOnce() -> Vec<Block>,
        whole: impl FnOnce(&Output, &mut Document),
    ) {
        if self.verbosity != Verbosity::Quiet {
            whole(self, document);
        } else if self.files.is_empty() {
            document.extend(short());
        } else {
            let of_files = Output {
                verbosity: Verbosity::Normal,
                ..self.clone()
            };
            let mut detail = Document::default();
            whole(&of_files, &mut detail);
            document.push(Block::Shortened {
                short: short(),
                whole: Box::new(detail),
            });
        }
    }

    /// The document with its tables sorted as requested; tables without that column are unchanged.
    fn sorted<'d>(&self, document: Cow<'d, Document>) -> Cow<'d, Document> {
        let Some(sort) = &self.sort else {
            return document;
        };
        let (key, descending) = match sort.strip_prefix('-') {
            Some(key) => (key, false),
            None => (sort.as_str(), true),
        };
        let mut document = document.into_owned();
        document.for_each_table(&mut |table| {
            table.sort_by(key, descending);
        });
        Cow::Owned(document)
    }
}

/// Writes `document` to `stdout` and to every requested file. Returns the files written: a document
/// with several charts produces `FILE.svg`, `FILE-2.svg` and so on.
///
/// # Errors
/// If a file's kind or the sort column is unknown (before anything is written), if a chart file is
/// requested of a document without a chart, or if a file cannot be written. A reader of `stdout`
/// that closes it early (`| head`) is not an error.
pub fn print(
    document: &Document,
    output: &Output,
    stdout: &mut dyn Write,
) -> anyhow::Result<Vec<Written>> {
    check_sort(&document.whole(), output)?;
    let whole = output.sorted(document.whole());
    let plan = files::plan(&whole, &output.files)?;
    let render: Box<dyn Render> = match output.format.unwrap_or(Format::Text) {
        Format::Text => Box::new(Text {
            width: output.width,
            color: output.color,
            brief: output.verbosity < Verbosity::Verbose,
        }),
        other => other.renderer(Vec::new()),
    };
    let short = output.sorted(document.shortened());
    match render.render(&short, stdout).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
        other => other.context("cannot write to standard output")?,
    }
    files::write(&whole, &plan)
}

/// Checks that the document can be printed and written to every requested file.
///
/// # Errors
/// As for [`print`], as far as can be checked without writing.
pub fn check_document(document: &Document, output: &Output) -> anyhow::Result<()> {
    let document = document.whole();
    check_sort(&document, output)?;
    files::plan(&document, &output.files).map(drop)
}

fn check_sort(document: &Document, output: &Output) -> anyhow::Result<()> {
    let keys = document.tables().flat_map(|table| {
        let shown = table.for_machines().into_iter();
        shown.map(|at| table.columns[at].key)
    });
    let keys: Vec<&str> = keys.collect();
    if keys.is_empty() {
        Ok(())
    } else {
        sorts_by(output.sort.as_deref(), keys)
    }
}

/// Checks that the requested sort column exists.
///
/// # Errors
/// If it does not exist; the error lists the valid ones.
pub fn sorts_by(sort: Option<&str>, mut keys: Vec<&str>) -> anyhow::Result<()> {
    let Some(sort) = sort else {
        return Ok(());
    };
    let key = sort.strip_prefix('-').unwrap_or(sort);
    if keys.contains(&key) {
        return Ok(());
    }
    keys.sort_unstable();
    keys.dedup();
    bail!(
        "there is no column '{key}' to sort by (known: {})",
        keys.join(" ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Cell;
    use crate::table::Column;
    use crate::table::Kind;
    use crate::table::Row;
    use crate::table::Table;
    use std::io;

    /// A reader that closes its end, or a full disk.
    struct Broken(ErrorKind);

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_unknown_column_to_sort_by_names_the_known_ones() {
        let mut document = Document::new("t");
        let columns = vec![Column::machine("q"), Column::machine("change")];
        document.push(Block::Table(Table {
            columns,
            ..Table::new("changes")
        }));
        let output = Output {
            sort: Some("-p".into()),
            ..Output::default()
        };
        let error = print(&document, &output, &mut Vec::new()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "there is no column 'p' to sort by (known: change q)"
        );
    }

    #[test]
    fn every_table_with_the_column_is_sorted() {
        let row = |value: f64| Row::Cells(vec![Cell::figure(Some(value)).shown(value.to_string())]);
        let table = |key, values: [f64; 3]| {
            Block::Table(Table {
                columns: vec![Column::new(key, "v", Kind::Figure)],
                rows: values.map(row).into(),
                ..Table::new("t")
            })
        };
        let mut document = Document::new("t");
        document.push(table("change", [1.0, 3.0, 2.0]));
        document.push(table("other", [5.0, 6.0, 4.0]));
        document.push(Block::Appendix {
            title: "more".into(),
            instead: None,
            blocks: vec![table("change", [7.0, 9.0, 8.0])],
        });
        let printed = |sort: &str| {
            let output = Output {
                sort: Some(sort.into()),
                format: Some(Format::Csv),
                ..Output::default()
            };
            let mut bytes = Vec::new();
            print(&document, &output, &mut bytes).unwrap();
            let text = String::from_utf8(bytes).unwrap();
            let figures = text.chars().filter(char::is_ascii_digit);
            figures.collect::<String>()
        };
        assert_eq!(printed("change"), "321564987");
        assert_eq!(printed("-change"), "123564789");
    }

    #[test]
    fn a_quiet_command_leaves_its_notes_to_files() {
        let quiet = Output {
            files: vec!["report.md".into()],
            verbosity: Verbosity::Quiet,
            ..Output::default()
        };
        let document_for = |output: &Output| {
            let mut document = Document::new("t");
            document.push(Block::Headline("faster".into()));
            output.add_detail(&mut document, |output, document| {
                assert_ne!(output.verbosity, Verbosity::Quiet);
                document.push(Block::Note("found by a test".into()));
            });
            document
        };
        let note = |document: &Document| {
            let notes = document.blocks.iter();
            notes
                .filter(|block| matches!(block, Block::Note(_)))
                .count()
        };
        let document = document_for(&quiet);
        assert_eq!(note(&document.shortened()), 0);
        assert_eq!(note(&document.whole()), 1);
        let without_files = Output {
            files: Vec::new(),
            ..quiet
        };
        assert_eq!(note(&document_for(&without_files).whole()), 0);
        assert_eq!(note(&document_for(&Output::default()).shortened()), 1);
    }

    #[test]
    fn a_reader_that_goes_away_is_no_error_but_a_full_disk_is() {
        let document = Document {
            blocks: vec![Block::Paragraph("x".into())],
            ..Document::new("t")
        };
        let output = Output::default();
        assert!(print(&document, &output, &mut Broken(ErrorKind::BrokenPipe)).is_ok());
        let error = print(&document, &output, &mut Broken(ErrorKind::StorageFull)).unwrap_err();
        assert_eq!(error.to_string(), "cannot write to standard output");
    }
}
