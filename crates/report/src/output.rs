//! Writes documents to standard output in one format, and to files. The name of a file selects its
//! format.

use crate::charts::ChartKind;
use crate::document::{Document, ReportBlock, ReportChart};
use crate::figure::unless_empty;
use crate::format::{RenderDocument, ReportFormat, TextFormat};
use crate::table::ColumnAudience;
use crate::unit::UnitChoice;
use anyhow::{Context as _, bail, ensure};
use std::borrow::Cow;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The output options.
#[derive(Debug, Clone, Default)]
pub struct OutputOptions {
    /// Files to write besides standard output. Their extensions select the formats.
    pub files: Vec<PathBuf>,
    /// The format of standard output; text by default.
    pub format: Option<ReportFormat>,
    /// The preferred unit, used where it applies. By default, the unit that keeps figures short.
    pub unit: Option<UnitChoice>,
    /// Whether to color standard output.
    pub color: bool,
    /// Columns of the terminal; `None` gives tables their natural width.
    pub width: Option<usize>,
    /// The kind of chart to draw. By default, each report chooses its charts.
    pub chart: Option<ChartKind>,
    /// Whether picture files show every chart. By default, they show the first one, or every chart
    /// of the requested kind.
    pub all_charts: bool,
    /// Whether to draw flame graphs in addition to the charts.
    pub flames: bool,
    /// The machine-readable key of the column by which tables are sorted, largest value first. A
    /// leading `-` puts the smallest value first. Tables without this column keep their order.
    pub sort: Option<String>,
    /// The level of detail.
    pub verbosity: Verbosity,
    /// Whether a hint after the report says how to measure further, so that headlines need not.
    pub has_resume_hint: bool,
}

/// The level of detail of a report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// The answer, or the table that stands for it.
    Quiet,
    /// The answer, its table, and the context needed to judge it.
    #[default]
    Normal,
    /// Everything.
    Verbose,
}

impl OutputOptions {
    /// Whether any output is an HTML page.
    pub(crate) fn wants_page(&self) -> bool {
        let is_page = |file: &PathBuf| {
            matches!(file_kind(file), Ok(OutputFileKind::Text(ReportFormat::Html)))
        };
        self.format == Some(ReportFormat::Html) || self.files.iter().any(is_page)
    }

    /// Whether the user asks for a chart, or for a picture file.
    pub(crate) fn wants_chart(&self) -> bool {
        let is_picture = |file: &PathBuf| {
            matches!(file_kind(file), Ok(OutputFileKind::Svg | OutputFileKind::Png))
        };
        self.chart.is_some() || self.all_charts || self.files.iter().any(is_picture)
    }

    /// Returns the audience of the output, or `None` if there are several audiences. With a single
    /// audience, columns for others need not be built, which saves much memory in large reports.
    pub(crate) fn only_audience(&self) -> Option<ColumnAudience> {
        match self.format.unwrap_or(ReportFormat::Text) {
            _ if !self.files.is_empty() || self.sort.is_some() => None,
            ReportFormat::Text | ReportFormat::Markdown => Some(ColumnAudience::People),
            ReportFormat::Csv | ReportFormat::Json => Some(ColumnAudience::Machines),
            ReportFormat::Html => None,
        }
    }

    /// Whether standard output shows only the answer. Programs get everything.
    fn shows_only_answer(&self) -> bool {
        let is_for_people =
            matches!(self.format, None | Some(ReportFormat::Text | ReportFormat::Markdown));
        self.verbosity == Verbosity::Quiet && is_for_people
    }

    /// Adds a part that `-q` omits on standard output. Files always include it.
    pub(crate) fn add_detail(
        &self,
        document: &mut Document,
        detail: impl FnOnce(&OutputOptions, &mut Document),
    ) {
        self.add_shortened(document, Vec::new, detail);
    }

    /// Adds content that `-q` replaces with `short` on standard output. Files always include the
    /// whole content.
    pub(crate) fn add_shortened(
        &self,
        document: &mut Document,
        short: impl FnOnce() -> Vec<ReportBlock>,
        detail: impl FnOnce(&OutputOptions, &mut Document),
    ) {
        if self.verbosity != Verbosity::Quiet {
            detail(self, document);
        } else if self.files.is_empty() {
            document.extend(short());
        } else {
            let file_options = OutputOptions { verbosity: Verbosity::Normal, ..self.clone() };
            let mut complete = Document::default();
            detail(&file_options, &mut complete);
            document.push(ReportBlock::Shortened { short: short(), whole: Box::new(complete) });
        }
    }

    /// Returns the document with its tables sorted as requested. Tables without the sort column are
    /// unchanged.
    fn sort_document<'d>(&self, document: Cow<'d, Document>) -> Cow<'d, Document> {
        let Some(sort) = &self.sort else { return document };
        let ascending = sort.strip_prefix('-');
        let mut sorted = document.into_owned();
        sorted.for_each_table(&mut |table| {
            table.sort_by(ascending.unwrap_or(sort), ascending.is_none());
        });
        Cow::Owned(sorted)
    }
}

/// Writes `document` to `stdout` and to every requested file. Returns the files written. A picture
/// file shows the main chart. If several are requested, they are `FILE.svg`, `FILE-2.svg` and so on.
///
/// # Errors
/// Fails before writing if a file's kind or the sort column is unknown. Also fails if a chart file
/// is requested for a document without a chart, or if a file cannot be written. A reader of
/// `stdout` that closes it early (`| head`) is not an error.
pub fn print_document(
    document: &Document,
    output: &OutputOptions,
    stdout: &mut dyn Write,
) -> anyhow::Result<Vec<WrittenFile>> {
    check_sort(&document.whole(), output)?;
    let complete = output.sort_document(document.whole());
    let plan = plan_files(&complete, output)?;
    let render: Box<dyn RenderDocument> = match output.format.unwrap_or(ReportFormat::Text) {
        ReportFormat::Text => Box::new(TextFormat {
            width: output.width,
            color: output.color,
            brief: output.verbosity < Verbosity::Verbose,
        }),
        other => other.file_renderer(Vec::new()),
    };
    let mut short = output.sort_document(document.shortened());
    if output.shows_only_answer() && short.has_answer() {
        short = Cow::Owned(short.into_owned().answer_only());
    }
    match render.render(&short, stdout).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
        other => other.context("cannot write to standard output")?,
    }
    write_files(&complete, &plan)
}

/// Checks whether the document has the requested sort column, and charts for the requested chart
/// files. Writes nothing.
///
/// # Errors
/// Fails like [`print_document`], except for errors that only writing can reveal.
pub fn check_document(document: &Document, output: &OutputOptions) -> anyhow::Result<()> {
    let complete = document.whole();
    check_sort(&complete, output)?;
    plan_files(&complete, output).map(drop)
}

fn check_sort(document: &Document, output: &OutputOptions) -> anyhow::Result<()> {
    let keys = document.tables().flat_map(|table| {
        let columns = table.for_machines().into_iter();
        columns.map(|column| table.columns[column].key)
    });
    let keys: Vec<&str> = keys.collect();
    if keys.is_empty() { Ok(()) } else { sorts_by(output.sort.as_deref(), keys) }
}

/// Checks that the requested sort column exists.
///
/// # Errors
/// Fails if no column has this key. The error lists the valid keys.
pub fn sorts_by(sort: Option<&str>, mut keys: Vec<&str>) -> anyhow::Result<()> {
    let Some(sort) = sort else { return Ok(()) };
    let key = sort.strip_prefix('-').unwrap_or(sort);
    if keys.contains(&key) {
        return Ok(());
    }
    keys.sort_unstable();
    keys.dedup();
    bail!("unknown sort column '{key}': supported columns are {}", keys.join(" "))
}

// Writes the files requested with `-o`. A file's extension determines its content. Several
// requested charts yield several picture files, with numbers in their names. Writing fails if any
// file cannot be written.

/// Scale of PNG images, for high-density screens and print.
const PNG_SCALE: u32 = 2;

/// What a file contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OutputFileKind {
    Text(ReportFormat),
    Svg,
    Png,
}

/// A file to write.
#[derive(Debug)]
struct PlannedFile {
    path: PathBuf,
    kind: OutputFileKind,
    /// The index of the chart in the document, for a picture.
    chart: usize,
}

/// Determines the kind of each file.
///
/// # Errors
/// Fails if a name has no known extension, or if a document without charts is to be written as a
/// picture.
fn plan_files(document: &Document, output: &OutputOptions) -> anyhow::Result<Vec<PlannedFile>> {
    let charts = document.charts().count();
    let pictures = if output.all_charts || output.chart.is_some() { charts } else { charts.min(1) };
    let mut planned = Vec::new();
    for path in &output.files {
        let kind = file_kind(path)?;
        let files = if matches!(kind, OutputFileKind::Text(_)) { 1 } else { pictures };
        ensure!(files > 0, "cannot write '{}': there is nothing to draw", path.display());
        let file = |chart| PlannedFile { path: numbered_path(path, chart), kind, chart };
        planned.extend((0..files).map(file));
    }
    Ok(planned)
}

fn file_kind(path: &Path) -> anyhow::Result<OutputFileKind> {
    let extension =
        path.extension().and_then(|end| end.to_str()).unwrap_or_default().to_ascii_lowercase();
    let known = ReportFormat::NAMES.iter().map(|(_, names)| format!(".{}", names[0]));
    Ok(match (extension.as_str(), extension.parse::<ReportFormat>()) {
        ("svg", _) => OutputFileKind::Svg,
        ("png", _) => OutputFileKind::Png,
        (_, Ok(format)) => OutputFileKind::Text(format),
        _ => bail!(
            "cannot write '{}': unknown kind of file: supported extensions are {} .svg .png",
            path.display(),
            known.collect::<Vec<_>>().join(" ")
        ),
    })
}

/// Checks that the files can be written. Commands call this function before they measure, so that a
/// wrong path costs no measuring time.
///
/// # Errors
/// Fails if a name has no known extension, or if [`check_writable`] fails.
pub fn check_files(paths: &[PathBuf]) -> anyhow::Result<()> {
    for path in paths {
        file_kind(path)?;
        check_writable(path)?;
    }
    Ok(())
}

/// Checks that a file can be written, by opening it. Keeps existing contents.
///
/// # Errors
/// Fails if the folder of the file does not exist, or if the file cannot be written.
pub fn check_writable(path: &Path) -> anyhow::Result<()> {
    let metadata = std::fs::metadata(path).ok();
    // Opening a pipe would block until it has a reader.
    if metadata.as_ref().is_some_and(|metadata| !metadata.is_file() && !metadata.is_dir()) {
        return Ok(());
    }
    let mut options = std::fs::OpenOptions::new();
    let opened = options.append(true).create(true).open(path);
    opened.with_context(|| format!("cannot write '{}'", path.display()))?;
    if metadata.is_none() {
        // The file exists only because this check opened it.
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

/// Returns the path of the file at `position`, counted from 0, of several files that `path` names.
/// The first file has this path; the others have a number in their name, as in `report-2.svg`.
pub fn numbered_path(path: &Path, position: usize) -> PathBuf {
    if position == 0 {
        return path.to_owned();
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path.extension().map(|extension| format!(".{}", extension.to_string_lossy()));
    path.with_file_name(format!("{stem}-{}{}", position + 1, extension.unwrap_or_default()))
}

/// A file that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenFile {
    /// The path of the file.
    pub path: PathBuf,
    /// The title of the chart in the file, and the number of charts that were left out; `None` for a
    /// text file.
    pub shows: Option<String>,
}

/// Writes the files and returns them.
///
/// # Errors
/// Reports the first file that cannot be drawn or written.
fn write_files(document: &Document, plan: &[PlannedFile]) -> anyhow::Result<Vec<WrittenFile>> {
    let charts: Vec<&ReportChart> = document.charts().collect();
    let drawn = plan.iter().map(|file| file.chart + 1).max().unwrap_or_default();
    let more = unless_empty(charts.len().saturating_sub(drawn), |others| {
        format!("; --chart all draws {others} more")
    });
    let mut written = Vec::new();
    for PlannedFile { path, kind, chart } in plan {
        let mut bytes = Vec::new();
        let mut shows = None;
        if let OutputFileKind::Text(format) = kind {
            format.file_renderer(picture_names(plan, path)).render(document, &mut bytes)?;
        } else {
            let ReportChart { picture, title, .. } = charts[*chart];
            let size = picture.natural_size();
            bytes = if *kind == OutputFileKind::Svg {
                picture.svg(size).into_bytes()
            } else {
                let png = picture.png_zoomed(size, PNG_SCALE);
                png.with_context(|| format!("cannot draw '{title}'"))?
            };
            shows = Some(title.clone() + &more);
        }
        std::fs::write(path, bytes)
            .with_context(|| format!("cannot write '{}'", path.display()))?;
        written.push(WrittenFile { path: path.clone(), shows });
    }
    Ok(written)
}

/// Returns the names of the picture files in the folder of the text file `path`, one per chart. If
/// a chart is written as both SVG and PNG, the file requested first is used.
fn picture_names(plan: &[PlannedFile], path: &Path) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for PlannedFile { path: picture, kind, chart } in plan {
        let is_picture = !matches!(kind, OutputFileKind::Text(_));
        if is_picture && picture.parent() == path.parent() && *chart == names.len() {
            names.push(picture.file_name().unwrap_or_default().to_string_lossy().into_owned());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{ColumnKind, ReportCell, ReportColumn, ReportRow, ReportTable};
    use std::io;

    /// A destination where every write fails with this error: a reader has closed its end, or the
    /// disk is full.
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
    fn an_unknown_sort_column_is_refused_with_the_supported_ones() {
        let mut document = Document::new("t");
        let columns = vec![ReportColumn::machine("q"), ReportColumn::machine("change")];
        document.push_table(ReportTable { columns, ..ReportTable::new("changes") });
        let output = OutputOptions { sort: Some("-p".into()), ..OutputOptions::default() };
        let error = print_document(&document, &output, &mut Vec::new()).unwrap_err();
        assert_eq!(error.to_string(), "unknown sort column 'p': supported columns are change q");
    }

    #[test]
    fn every_table_with_the_column_is_sorted() {
        let row = |value: f64| {
            ReportRow::Cells(vec![ReportCell::figure(Some(value)).with_text(value.to_string())])
        };
        let table = |key, values: [f64; 3]| {
            ReportBlock::Table(ReportTable {
                columns: vec![ReportColumn::new(key, "v", ColumnKind::Figure)],
                rows: values.map(row).into(),
                ..ReportTable::new("t")
            })
        };
        let mut document = Document::new("t");
        document.push(table("change", [1.0, 3.0, 2.0]));
        document.push(table("other", [5.0, 6.0, 4.0]));
        document.push(ReportBlock::appendix("more", vec![table("change", [7.0, 9.0, 8.0])]));
        let printed = |sort: &str| {
            let output = OutputOptions {
                sort: Some(sort.into()),
                format: Some(ReportFormat::Csv),
                ..OutputOptions::default()
            };
            let mut bytes = Vec::new();
            print_document(&document, &output, &mut bytes).unwrap();
            let text = String::from_utf8(bytes).unwrap();
            let figures = text.chars().filter(char::is_ascii_digit);
            figures.collect::<String>()
        };
        assert_eq!(printed("change"), "321564987");
        assert_eq!(printed("-change"), "123564789");
    }

    #[test]
    fn a_quiet_command_leaves_its_notes_to_files() {
        let quiet = OutputOptions {
            files: vec!["report.md".into()],
            verbosity: Verbosity::Quiet,
            ..OutputOptions::default()
        };
        let document_for = |output: &OutputOptions| {
            let mut document = Document::new("t");
            document.push_headline("faster");
            output.add_detail(&mut document, |output, document| {
                assert_ne!(output.verbosity, Verbosity::Quiet);
                document.push_note("found by a test");
            });
            document
        };
        let note = |document: &Document| {
            let notes = document.blocks.iter();
            notes.filter(|block| matches!(block, ReportBlock::Note(_))).count()
        };
        let document = document_for(&quiet);
        assert_eq!(note(&document.shortened()), 0);
        assert_eq!(note(&document.whole()), 1);
        let without_files = OutputOptions { files: Vec::new(), ..quiet };
        assert_eq!(note(&document_for(&without_files).whole()), 0);
        assert_eq!(note(&document_for(&OutputOptions::default()).shortened()), 1);
    }

    #[test]
    fn a_quiet_command_prints_only_the_answer_to_people() {
        let mut document = Document::new("t");
        document.push_headline("b is faster");
        document.push_table(ReportTable::new("changes"));
        document.push(ReportBlock::Warning("busy".into()));
        let blocks = |document: &Document, format| {
            let output =
                OutputOptions { format, verbosity: Verbosity::Quiet, ..OutputOptions::default() };
            assert_eq!(output.shows_only_answer(), format != Some(ReportFormat::Json));
            document.clone().answer_only().blocks.len()
        };
        assert!(document.has_answer());
        assert_eq!(blocks(&document, None), 2);
        blocks(&document, Some(ReportFormat::Json));
        document.blocks.remove(0);
        assert!(!document.has_answer(), "the table stands for the answer");
    }

    #[test]
    fn a_closed_pipe_is_ignored_and_a_full_disk_is_an_error() {
        let document =
            Document { blocks: vec![ReportBlock::Paragraph("x".into())], ..Document::new("t") };
        let output = OutputOptions::default();
        assert!(print_document(&document, &output, &mut Broken(ErrorKind::BrokenPipe)).is_ok());
        let error =
            print_document(&document, &output, &mut Broken(ErrorKind::StorageFull)).unwrap_err();
        assert_eq!(error.to_string(), "cannot write to standard output");
    }

    fn with_charts(number: usize) -> Document {
        let picture = speedwell_plot::AnyChart::Bar(speedwell_plot::BarChart::default());
        let chart = |_| {
            ReportBlock::Chart(Box::new(ReportChart {
                title: "t".into(),
                picture: picture.clone(),
                shown_elsewhere: false,
            }))
        };
        Document { blocks: (0..number).map(chart).collect(), ..Document::new("t") }
    }

    fn picture_output<'p>(
        all_charts: bool,
        paths: impl IntoIterator<Item = &'p &'p str>,
    ) -> OutputOptions {
        let files = paths.into_iter().map(PathBuf::from).collect();
        OutputOptions { files, all_charts, ..OutputOptions::default() }
    }

    fn planned_files(number: usize, paths: &[&str]) -> anyhow::Result<Vec<String>> {
        let plan = plan_files(&with_charts(number), &picture_output(true, paths))?;
        Ok(plan.iter().map(|planned| planned.path.display().to_string()).collect())
    }

    #[test]
    fn further_charts_are_numbered() {
        let paths = planned_files(3, &["out/r.svg", "r.md"]).unwrap();
        assert_eq!(paths, ["out/r.svg", "out/r-2.svg", "out/r-3.svg", "r.md"]);
        let plan = plan_files(&with_charts(3), &picture_output(false, &["r.svg"])).unwrap();
        assert_eq!(plan.len(), 1, "only the main chart, unless more are requested");
    }

    #[test]
    fn an_unknown_file_extension_is_refused_with_the_supported_ones() {
        let message = planned_files(1, &["r.pdf"]).unwrap_err().to_string();
        assert_eq!(
            message,
            "cannot write 'r.pdf': unknown kind of file: supported extensions are .txt .md .csv .json .html .svg .png"
        );
        assert!(planned_files(1, &["report"]).is_err());
        let message = planned_files(0, &["r.PNG"]).unwrap_err().to_string();
        assert_eq!(message, "cannot write 'r.PNG': there is nothing to draw");
    }

    #[test]
    fn markdown_shows_the_pictures_in_its_folder() {
        let output = picture_output(true, &["r.md", "a.svg", "a.png", "else/b.svg"]);
        let plan = plan_files(&with_charts(2), &output).unwrap();
        assert_eq!(picture_names(&plan, Path::new("r.md")), ["a.svg", "a-2.svg"]);
        assert_eq!(picture_names(&plan, Path::new("else/r.md")), ["b.svg", "b-2.svg"]);
    }
}
