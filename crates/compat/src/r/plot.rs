//! Draws the charts of Node.js core's R scripts, and writes them to files.
//!
//! Decides what a chart shows. A chart shows the same as in R, but its pixels may differ. The
//! extension of a file decides its format. Does not know where the data come from. Start at
//! [`ChartFile`].

use anyhow::{Context, Result, bail};
use speedwell_plot::{
    BarCategory, BarChart, BoxCategory, BoxChart, BoxSeries, ChartAxis, ChartBar, ImageSize,
    LineChart, PointSeries,
};
use std::path::PathBuf;

pub use speedwell_plot::AnyChart;

/// Side of an image in inches, as in R. An image is taller than this if its cases do not fit
/// otherwise.
const SIDE_INCHES: f64 = 7.0;

/// Number of layout pixels per inch. Text is readable at this scale.
const PX_PER_INCH: f64 = 100.0;

/// Rendered pixels per layout pixel, so that PNG files have 300 dots per inch, as in R.
const PNG_ZOOM: u32 = 3;

/// Label of the rate axis.
const RATE_LABEL: &str = "rate of operations (higher is better)";

/// File to which a chart is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChartFile {
    path: PathBuf,
    kind: ImageFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ImageFormat {
    Svg,
    Png,
}

impl ChartFile {
    /// Chooses the format of a chart file by the extension of `path`; writes nothing yet.
    ///
    /// # Errors
    /// Fails if the extension is neither `svg` nor `png`.
    pub fn from_path(path: &str) -> Result<ChartFile> {
        let path = PathBuf::from(path);
        let extension = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
        let kind = match extension.as_str() {
            "svg" => ImageFormat::Svg,
            "png" => ImageFormat::Png,
            _ => bail!("cannot draw '{}': its name must end in .svg or .png", path.display()),
        };
        Ok(ChartFile { path, kind })
    }

    /// Draws `chart` and writes the file; returns the message that R prints.
    ///
    /// # Errors
    /// Fails if the chart cannot be rendered, or the file cannot be written.
    pub fn save_chart(&self, chart: &AnyChart) -> Result<String> {
        let natural_size = chart.natural_size();
        let side = (SIDE_INCHES * PX_PER_INCH) as u32;
        let square = ImageSize { width_px: side, height_px: side };
        let size = if natural_size.height_px <= side { square } else { natural_size };
        let bytes = match self.kind {
            ImageFormat::Svg => chart.svg(size).into_bytes(),
            ImageFormat::Png => chart
                .png_zoomed(size, PNG_ZOOM)
                .or_else(|_| chart.png_zoomed(size, 1))
                .with_context(|| format!("cannot draw '{}'", self.path.display()))?,
        };
        std::fs::write(&self.path, bytes)
            .with_context(|| format!("cannot write '{}'", self.path.display()))?;
        let inches = |px: u32| f64::from(px) / PX_PER_INCH;
        Ok(format!("Saving {} x {} in image", inches(size.width_px), inches(size.height_px)))
    }
}

/// One case of a comparison: its name (file name, a space, configuration), then the data of `old`
/// and of `new`.
pub type ComparedCase<'a, T> = (&'a str, T, T);

/// Draws the chart of `compare.R --plot`: a pair of boxes per case.
pub fn box_chart<'a>(cases: impl Iterator<Item = ComparedCase<'a, &'a [f64]>>) -> AnyChart {
    let series = |name: &str, values: &[f64]| {
        (!values.is_empty()).then(|| BoxSeries {
            name: name.to_owned(),
            values: values.to_vec(),
            center: None,
        })
    };
    let category = |(name, old, new): ComparedCase<'a, &[f64]>| BoxCategory {
        label: case_label(name),
        // The script sorts alphabetically, so `new` comes before `old`.
        boxes: series("new", new).into_iter().chain(series("old", old)).collect(),
    };
    AnyChart::Box(BoxChart {
        value_axis: ChartAxis::linear(RATE_LABEL),
        categories: cases.map(category).collect(),
        ..BoxChart::default()
    })
}

/// Draws the chart of `bar.R --plot`: a pair of bars per case. The mean of a side without values is
/// NaN, and this side has no bar.
pub fn bar_chart<'a>(cases: impl Iterator<Item = ComparedCase<'a, f64>>) -> AnyChart {
    let bar = |name: &str, mean: f64| {
        mean.is_finite().then(|| ChartBar {
            name: name.to_owned(),
            value: mean,
            low: None,
            high: None,
        })
    };
    let category = |(name, old, new): ComparedCase<'a, f64>| BarCategory {
        label: case_label(name),
        bars: bar("new", new).into_iter().chain(bar("old", old)).collect(),
    };
    AnyChart::Bar(BarChart {
        value_axis: ChartAxis::linear(RATE_LABEL),
        categories: cases.map(category).collect(),
        ..BarChart::default()
    })
}

/// Draws the chart of `scatter.R --plot`: a line per category over the x axis.
pub fn line_chart(title: String, x: ChartAxis, series: Vec<PointSeries>) -> AnyChart {
    AnyChart::Line(LineChart {
        title,
        x,
        y: ChartAxis::linear(RATE_LABEL),
        series,
        ..LineChart::default()
    })
}

/// Puts the file name above its configuration.
fn case_label(name: &str) -> String {
    name.replacen(' ', "\n", 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> AnyChart {
        let case = ("g/a.js n=1 s='x y'", &[1.0, 2.0, 3.0][..], &[4.0][..]);
        box_chart([case].into_iter())
    }

    #[test]
    fn the_extension_tells_the_kind_of_picture() {
        let folder = tempfile::tempdir().unwrap();
        for (name, beginning) in [("a.svg", &b"<svg"[..]), ("b.PNG", b"\x89PNG")] {
            let path = folder.path().join(name);
            let message =
                ChartFile::from_path(path.to_str().unwrap()).unwrap().save_chart(&chart()).unwrap();
            assert!(message.starts_with("Saving ") && message.ends_with(" in image"), "{message}");
            assert!(std::fs::read(&path).unwrap().starts_with(beginning), "{name}");
        }
        let error = ChartFile::from_path("plot.pdf").unwrap_err().to_string();
        assert_eq!(error, "cannot draw 'plot.pdf': its name must end in .svg or .png");
    }

    #[test]
    fn a_box_plot_names_cases_sides_and_the_axis() {
        let svg = chart().svg(ImageSize::default());
        for text in ["g/a.js", "n=1 s=&apos;x y&apos;", ">new<", ">old<", RATE_LABEL] {
            assert!(svg.contains(text) || svg.contains(&text.replace("&apos;", "'")), "{text}");
        }
    }

    #[test]
    fn a_side_without_values_has_no_bar() {
        let AnyChart::Bar(chart) = bar_chart([("g/a.js n=1", 5.0, f64::NAN)].into_iter()) else {
            panic!("no bar chart")
        };
        assert_eq!(chart.categories[0].label, "g/a.js\nn=1");
        let names: Vec<&str> =
            chart.categories[0].bars.iter().map(|bar| bar.name.as_str()).collect();
        assert_eq!(names, ["old"]);
    }
}
