//! Writes the files requested with `-o`. A file's extension decides what is written to it. A
//! document with several charts yields several picture files, with numbers in their names. Writing
//! fails if any file cannot be written.

use super::format::ReportFormat;
use crate::document::{Document, ReportChart};
use anyhow::{Context as _, bail};
use std::path::{Path, PathBuf};

/// Scale of PNG images, for high-density screens and print.
const PNG_SCALE: u32 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OutputFileKind {
    Text(ReportFormat),
    /// The chart with this index in the document.
    Svg(usize),
    /// The chart with this index in the document.
    Png(usize),
}

/// A file to write.
#[derive(Debug)]
pub struct PlannedFile {
    path: PathBuf,
    kind: OutputFileKind,
}

/// Determines the kind of each file.
///
/// # Errors
/// Fails if a name has no known extension, or if a document without charts is to be written as a
/// picture.
pub fn plan_files(document: &Document, paths: &[PathBuf]) -> anyhow::Result<Vec<PlannedFile>> {
    let mut planned = Vec::new();
    for path in paths {
        let picture: fn(usize) -> OutputFileKind = match file_kind(path)? {
            OutputFileKind::Svg(_) => OutputFileKind::Svg,
            OutputFileKind::Png(_) => OutputFileKind::Png,
            kind => {
                planned.push(PlannedFile { path: path.clone(), kind });
                continue;
            }
        };
        let charts = document.charts().count();
        if charts == 0 {
            bail!("cannot write '{}': there is nothing to draw", path.display());
        }
        let planned_charts = (0..charts)
            .map(|index| PlannedFile { path: numbered_path(path, index), kind: picture(index) });
        planned.extend(planned_charts);
    }
    Ok(planned)
}

/// Whether the file would be an HTML page.
pub fn is_page(path: &Path) -> bool {
    matches!(file_kind(path), Ok(OutputFileKind::Text(ReportFormat::Html)))
}

fn file_kind(path: &Path) -> anyhow::Result<OutputFileKind> {
    let extension =
        path.extension().and_then(|end| end.to_str()).unwrap_or_default().to_ascii_lowercase();
    match extension.as_str() {
        "svg" => return Ok(OutputFileKind::Svg(0)),
        "png" => return Ok(OutputFileKind::Png(0)),
        _ => {}
    }
    if let Ok(format) = extension.parse() {
        return Ok(OutputFileKind::Text(format));
    }
    let known_extensions = ReportFormat::NAMES
        .iter()
        .map(|(_, names)| format!(".{}", names[0]))
        .collect::<Vec<_>>()
        .join(" ");
    bail!(
        "cannot write '{}': unknown kind of file: supported extensions are {known_extensions} .svg .png",
        path.display()
    )
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

/// Returns the path of the chart at `position`, counted from 0. The first chart has the path
/// `path`; the others have a number in their name, as in `report-2.svg`.
fn numbered_path(path: &Path, position: usize) -> PathBuf {
    if position == 0 {
        return path.to_owned();
    }
    let number = position + 1;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{stem}-{number}.{extension}"))
}

/// A file that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenFile {
    /// The path of the file.
    pub path: PathBuf,
    /// The title of the chart in the file; `None` for a text file.
    pub shows: Option<String>,
}

/// Writes the files and returns them.
///
/// # Errors
/// Reports the first file that cannot be drawn or written.
pub fn write_files(document: &Document, plan: &[PlannedFile]) -> anyhow::Result<Vec<WrittenFile>> {
    let charts: Vec<&ReportChart> = document.charts().collect();
    for PlannedFile { path, kind } in plan {
        let bytes = match *kind {
            OutputFileKind::Text(format) => {
                render_text(document, format, picture_names(plan, path))?
            }
            OutputFileKind::Svg(index) => render_svg(charts[index]),
            OutputFileKind::Png(index) => render_png(charts[index])?,
        };
        std::fs::write(path, bytes)
            .with_context(|| format!("cannot write '{}'", path.display()))?;
    }
    let written = |planned: &PlannedFile| WrittenFile {
        path: planned.path.clone(),
        shows: match planned.kind {
            OutputFileKind::Text(_) => None,
            OutputFileKind::Svg(index) | OutputFileKind::Png(index) => {
                Some(charts[index].title.clone())
            }
        },
    };
    Ok(plan.iter().map(written).collect())
}

fn render_text(
    document: &Document,
    format: ReportFormat,
    pictures: Vec<String>,
) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    format.file_renderer(pictures).render(document, &mut bytes)?;
    Ok(bytes)
}

/// Returns the names of the picture files in the folder of the text file `path`, one per chart. If
/// a chart is written as both SVG and PNG, the file requested first is used.
fn picture_names(plan: &[PlannedFile], path: &Path) -> Vec<String> {
    let siblings = plan.iter().filter(|planned| planned.path.parent() == path.parent());
    let mut names: Vec<String> = Vec::new();
    for planned in siblings {
        let (OutputFileKind::Svg(index) | OutputFileKind::Png(index)) = planned.kind else {
            continue;
        };
        let name = planned.path.file_name().unwrap_or_default().to_string_lossy();
        if index == names.len() {
            names.push(name.into_owned());
        }
    }
    names
}

fn render_svg(chart: &ReportChart) -> Vec<u8> {
    chart.picture.svg(chart.picture.natural_size()).into_bytes()
}

fn render_png(chart: &ReportChart) -> anyhow::Result<Vec<u8>> {
    let size = chart.picture.natural_size();
    chart
        .picture
        .png_zoomed(size, PNG_SCALE)
        .with_context(|| format!("cannot draw '{}'", chart.title))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::ReportBlock;

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

    fn planned_files(number: usize, paths: &[&str]) -> anyhow::Result<Vec<String>> {
        let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
        let plan = plan_files(&with_charts(number), &paths)?;
        Ok(plan.iter().map(|planned| planned.path.display().to_string()).collect())
    }

    #[test]
    fn further_charts_are_numbered() {
        let paths = planned_files(3, &["out/r.svg", "r.md"]).unwrap();
        assert_eq!(paths, ["out/r.svg", "out/r-2.svg", "out/r-3.svg", "r.md"]);
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
        let paths = ["r.md", "a.svg", "a.png", "else/b.svg"].map(PathBuf::from);
        let plan = plan_files(&with_charts(2), &paths).unwrap();
        assert_eq!(picture_names(&plan, Path::new("r.md")), ["a.svg", "a-2.svg"]);
        assert_eq!(picture_names(&plan, Path::new("else/r.md")), ["b.svg", "b-2.svg"]);
    }
}
