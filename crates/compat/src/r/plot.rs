//! The pictures of Node.js core's R scripts, and the files they go into.
//!
//! Decides what such a chart shows (the same as the original's, not pixel by pixel) and the kind of
//! file, by its extension. It must not know where the figures come from. Start at [`Picture`].

use anyhow::{Context, Result, bail};
use speedwell_plot::{
    Axis, Bar, BarCategory, BarChart, BoxCategory, BoxChart, BoxSeries, LineChart, Point,
    PointSeries, Size,
};
use std::path::PathBuf;

pub use speedwell_plot::Chart;

/// R saves 7 by 7 inches; a chart of more cases than fit gets more room.
const SIDE_INCHES: f64 = 7.0;

/// Layout pixels in an inch: the unit in which text keeps a readable size.
const PX_PER_INCH: f64 = 100.0;

/// Painted pixels per layout pixel, so that PNG files have the 300 dots per inch of the originals.
const ZOOM: u32 = 3;

/// The label of the rate axis.
const RATE: &str = "rate of operations (higher is better)";

/// A file to be written with a chart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    path: PathBuf,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Svg,
    Png,
}

impl Picture {
    /// A picture whose kind is told by the extension of `path`.
    ///
    /// # Errors
    /// The extension is neither `svg` nor `png`.
    pub fn at(path: &str) -> Result<Picture> {
        let path = PathBuf::from(path);
        let extension = path
            .extension()
            .unwrap_or_default()
            .to_string_lossy()
            .to_lowercase();
        let kind = match extension.as_str() {
            "svg" => Kind::Svg,
            "png" => Kind::Png,
            _ => bail!(
                "cannot draw '{}': its name must end in .svg or .png",
                path.display()
            ),
        };
        Ok(Picture { path, kind })
    }

    /// Draws `chart`; returns the sentence in which R says so.
    ///
    /// # Errors
    /// The chart cannot be painted or the file not be written.
    pub fn save(&self, chart: &Chart) -> Result<String> {
        let natural = chart.natural_size();
        let side = (SIDE_INCHES * PX_PER_INCH) as u32;
        let square = Size {
            width_px: side,
            height_px: side,
        };
        let size = if natural.height_px <= side {
            square
        } else {
            natural
        };
        let bytes = match self.kind {
            Kind::Svg => chart.svg(size).into_bytes(),
            Kind::Png => chart
                .png_zoomed(size, ZOOM)
                .or_else(|_| chart.png_zoomed(size, 1))
                .with_context(|| format!("cannot draw '{}'", self.path.display()))?,
        };
        std::fs::write(&self.path, bytes)
            .with_context(|| format!("cannot write '{}'", self.path.display()))?;
        let inches = |px: u32| f64::from(px) / PX_PER_INCH;
        Ok(format!(
            "Saving {} x {} in image",
            inches(size.width_px),
            inches(size.height_px)
        ))
    }
}

/// One case of a comparison: its name and the rates of both sides.
pub struct ComparedRates<'a> {
    /// File name, blank, configuration.
    pub name: &'a str,
    /// Rates of `old`.
    pub old: &'a [f64],
    /// Rates of `new`.
    pub new: &'a [f64],
}

/// `compare.R --plot`: one pair of boxes per case.
pub fn boxes(cases: &[ComparedRates<'_>]) -> Chart {
    let series = |name: &str, values: &[f64]| {
        (!values.is_empty()).then(|| BoxSeries {
            name: name.to_owned(),
            values: values.to_vec(),
            center: None,
        })
    };
    let category = |case: &ComparedRates<'_>| BoxCategory {
        label: label(case.name),
        // `new` stands before `old` in the original, whose order is that of the alphabet.
        boxes: [series("new", case.new), series("old", case.old)]
            .into_iter()
            .flatten()
            .collect(),
    };
    Chart::Box(BoxChart {
        value_axis: Axis::linear(RATE),
        categories: cases.iter().map(category).collect(),
        ..BoxChart::default()
    })
}

/// One case of a comparison in two means; NaN for a side without values.
pub struct ComparedMeans<'a> {
    /// File name, blank, configuration.
    pub name: &'a str,
    /// Mean rate of `old`.
    pub old: f64,
    /// Mean rate of `new`.
    pub new: f64,
}

/// `bar.R --plot`: one pair of bars per case.
pub fn bars(cases: &[ComparedMeans<'_>]) -> Chart {
    let bar = |name: &str, mean: f64| {
        mean.is_finite().then(|| Bar {
            name: name.to_owned(),
            value: mean,
            low: None,
            high: None,
        })
    };
    let category = |case: &ComparedMeans<'_>| BarCategory {
        label: label(case.name),
        bars: [bar("new", case.new), bar("old", case.old)]
            .into_iter()
            .flatten()
            .collect(),
    };
    Chart::Bar(BarChart {
        value_axis: Axis::linear(RATE),
        categories: cases.iter().map(category).collect(),
        ..BarChart::default()
    })
}

/// `scatter.R --plot`: one line per category over the x axis.
#[derive(Debug, Clone, Default)]
pub struct Lines {
    /// The benchmark's name.
    pub title: String,
    /// The parameter along the x axis.
    pub x_axis: String,
    /// The values of the x axis by name, where they are no numbers; `x` then is an index.
    pub x_names: Option<Vec<String>>,
    /// Whether each doubling of x takes the same distance.
    pub log2: bool,
    /// The lines by name.
    pub lines: Vec<(String, Vec<LinePoint>)>,
}

/// A point of a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinePoint {
    /// Place on the x axis.
    pub x: f64,
    /// Mean rate.
    pub mean: f64,
    /// Half the length of the error bar; `None` for no bar.
    pub half_width: Option<f64>,
}

impl Lines {
    /// The chart.
    pub fn chart(self) -> Chart {
        let x = match self.x_names {
            Some(names) => Axis::category(self.x_axis, names),
            None if self.log2 => Axis::log2(self.x_axis),
            None => Axis::linear(self.x_axis),
        };
        let point = |at: &LinePoint| match at.half_width {
            Some(half) => Point::with_interval(at.x, at.mean, at.mean - half, at.mean + half),
            None => Point::new(at.x, at.mean),
        };
        let series = self.lines.into_iter().map(|(name, points)| PointSeries {
            name,
            points: points.iter().map(point).collect(),
            colour: None,
        });
        Chart::Line(LineChart {
            title: self.title,
            x,
            y: Axis::linear(RATE),
            series: series.collect(),
            ..LineChart::default()
        })
    }
}

/// The file name above its configuration.
fn label(name: &str) -> String {
    name.replacen(' ', "\n", 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> Chart {
        boxes(&[ComparedRates {
            name: "g/a.js n=1 s='x y'",
            old: &[1.0, 2.0, 3.0],
            new: &[4.0],
        }])
    }

    #[test]
    fn the_extension_tells_the_kind_of_picture() {
        let folder = tempfile::tempdir().unwrap();
        for (name, beginning) in [("a.svg", &b"<svg"[..]), ("b.PNG", b"\x89PNG")] {
            let path = folder.path().join(name);
            let said = Picture::at(path.to_str().unwrap())
                .unwrap()
                .save(&chart())
                .unwrap();
            assert!(
                said.starts_with("Saving ") && said.ends_with(" in image"),
                "{said}"
            );
            assert!(
                std::fs::read(&path).unwrap().starts_with(beginning),
                "{name}"
            );
        }
        let error = Picture::at("plot.pdf").unwrap_err().to_string();
        assert_eq!(
            error,
            "cannot draw 'plot.pdf': its name must end in .svg or .png"
        );
    }

    #[test]
    fn a_box_plot_names_cases_sides_and_the_axis() {
        let svg = chart().svg(Size::default());
        for text in ["g/a.js", "n=1 s=&apos;x y&apos;", ">new<", ">old<", RATE] {
            assert!(
                svg.contains(text) || svg.contains(&text.replace("&apos;", "'")),
                "{text}"
            );
        }
    }

    #[test]
    fn a_side_without_values_has_no_bar() {
        let Chart::Bar(chart) = bars(&[ComparedMeans {
            name: "g/a.js n=1",
            old: 5.0,
            new: f64::NAN,
        }]) else {
            panic!("no bar chart")
        };
        assert_eq!(chart.categories[0].label, "g/a.js\nn=1");
        let names: Vec<&str> = chart.categories[0]
            .bars
            .iter()
            .map(|bar| bar.name.as_str())
            .collect();
        assert_eq!(names, ["old"]);
    }
}
