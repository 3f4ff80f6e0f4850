//! Where a document goes: standard output in one format, and files each in the kind their name says.

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

/// What the output options request.
#[derive(Debug, Clone, Default)]
pub struct Output {
    /// Files to write, besides standard output. The extension decides the kind.
    pub files: Vec<PathBuf>,
    /// The format of standard output; text if not given.
    pub format: Option<Format>,
    /// The unit to show figures in, where it fits; else the one in which they are short.
    pub unit: Option<UnitChoice>,
    /// Whether standard output is coloured.
    pub color: bool,
    /// Columns of the terminal; `None` lays tables out as wide as they are.
    pub width: Option<usize>,
    /// The chart drawn; else those that suit the findings.
    pub chart: Option<ChartKind>,
    /// Whether flame graphs are drawn whatever other charts are.
    pub flames: bool,
    /// The column, by its key for machines, by which tables are sorted, largest first; with a `-` in
    /// front smallest first. Tables without it keep their order.
    pub sort: Option<String>,
    /// How much is said.
    pub verbosity: Verbosity,
}

/// How much a report says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// The answer and its table.
    Quiet,
    /// And what is needed to judge it.
    #[default]
    Normal,
    /// Everything.
    Verbose,
}

impl Output {
    /// Whether a page is among what is to be written.
    pub(crate) fn wants_page(&self) -> bool {
        let is_page = |file: &PathBuf| file.extension().is_some_and(|kind| kind == "html");
        self.format == Some(Format::Html) || self.files.iter().any(is_page)
    }

    /// Whom alone it is for, if that is so: columns for others would fill the memory in large reports.
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

    /// The document with its tables sorted as requested; tables without that column stay as they are.
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
/// with several charts makes `FILE.svg`, `FILE-2.svg` and so on.
///
/// # Errors
/// A file of unknown kind or an unknown column to sort by (before anything is written), a chart file for a document without a chart,
/// or a file that cannot be written. A reader of `stdout` that closes it early (`| head`) is no error.
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

/// Checks that the document can be printed, and written to every requested file.
///
/// # Errors
/// As for [`print`], as far as nothing has to be written to find out.
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

/// Whether what was requested to sort by is among the columns.
///
/// # Errors
/// It is not; the error names those that are.
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

    /// A reader that goes away, or a disk that is full.
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
