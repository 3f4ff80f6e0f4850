//! Handles the command line of an R script: prints help, rejects an invalid command line, or runs
//! the script.
//!
//! Decides what the drop-ins for `compare.R`, `scatter.R` and `bar.R` do before they read input.
//! `r/print.rs` prints tables as R does. [`TextCollation`] sorts names in the same order as R, and
//! [`ChartFile`] writes charts. They show the same data as R's charts, but may look different.
//! Start at [`RScript::run_with`].

use crate::console::{self, DropInConsole, ParsedArguments};
use anyhow::{Context, Result, bail};
pub use speedwell_plot::AnyChart;
use speedwell_plot::{
    BarCategory, BarChart, BoxCategory, BoxChart, BoxSeries, ChartAxis, ChartBar, ImageSize,
};
use std::cmp::Ordering;
use std::path::PathBuf;
use unicode_width::UnicodeWidthStr;

pub mod print;

/// Command line of a script.
#[derive(Debug, Clone, Copy)]
pub struct RScript {
    /// Name of the original script.
    pub tool: &'static str,
    /// Usage text that the original script prints for `--help` and for an invalid command line.
    pub usage: &'static str,
    /// Options with a value that must be given.
    pub required: &'static [&'static str],
    /// Options besides these, and besides `--help` and `--plot`, which all scripts have.
    pub options: &'static [&'static str],
}

impl RScript {
    /// Parses `arguments` and passes them to `perform`, which returns the chart if `--plot` asks for
    /// one. Saves this chart; returns the exit status.
    ///
    /// # Errors
    /// Fails if `perform` fails, the chart cannot be saved, or a stream is closed.
    pub fn run_with<F>(
        &self,
        arguments: &[String],
        console: &mut DropInConsole<'_>,
        perform: F,
    ) -> Result<i32>
    where
        F: FnOnce(&ParsedArguments<'_>, &mut DropInConsole<'_>) -> Result<Option<AnyChart>>,
    {
        let known_options = [&["help", "plot"], self.required, self.options].concat();
        let options = match console::parse_r(arguments, &known_options) {
            Ok(options) => options,
            Err(word) => {
                let reason = format!("unknown option '{word}'");
                return Ok(console.reject(self.tool, &reason, self.usage)?);
            }
        };
        if options.has("help") {
            return Ok(console.print_help(self.usage)?);
        }
        let lacks_value = |option: &&str| options.value(option).is_none();
        if options.has("plot") && lacks_value(&"plot") || self.required.iter().any(lacks_value) {
            return Ok(console.reject(self.tool, "", self.usage)?);
        }
        let picture = options.value("plot").map(ChartFile::from_path).transpose()?;
        let chart = perform(&options, console)?;
        if let Some((picture, chart)) = picture.zip(chart) {
            writeln!(console.stderr, "{}", picture.save_chart(&chart)?)?;
        }
        Ok(0)
    }
}

/// Order of strings.
///
/// In the locales C and POSIX, R sorts by code points. In all others, including C.UTF-8, R uses ICU
/// and thus the Unicode collation algorithm. For all of these locales, we use the order of the root
/// locale: punctuation, then digits, then letters. Lowercase comes before uppercase only if strings
/// do not differ otherwise. We sort letters beyond Latin-1 after `z`, by code point; ICU may sort
/// them differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextCollation {
    /// By code points.
    CodePoints,
    /// By the root order of the Unicode Common Locale Data Repository.
    Root,
}

impl TextCollation {
    /// Returns the order that R would use with these environment variables.
    ///
    /// If none of the variables is set, R uses the locale C and prints `±` as two escape sequences.
    /// All our output is UTF-8, so we use the order of a UTF-8 locale.
    pub fn from_environment(variable: impl Fn(&str) -> Option<String>) -> TextCollation {
        let mut names = ["LC_ALL", "LC_COLLATE", "LANG"].into_iter();
        let locale = names.find_map(|name| variable(name).filter(|value| !value.is_empty()));
        match locale.as_deref() {
            Some("C" | "POSIX") => TextCollation::CodePoints,
            _ => TextCollation::Root,
        }
    }

    /// Sorts `items` by the string that `text` returns for each.
    pub fn sort_by_text<T>(self, items: &mut [T], text: impl Fn(&T) -> &str) {
        items.sort_by_cached_key(|item| self.sort_key(text(item)));
    }

    /// Compares two strings.
    pub fn compare_texts(self, a: &str, b: &str) -> Ordering {
        self.sort_key(a).cmp(&self.sort_key(b))
    }

    /// Returns the root collation's levels of a string, and the string, which decides if they are
    /// equal.
    fn sort_key(self, text: &str) -> (Option<RootKey>, String) {
        let root_key = (self == TextCollation::Root).then(|| RootKey::from_text(text));
        (root_key, text.to_owned())
    }
}

/// White space and punctuation in the order of the root collation (CLDR, `allkeys_CLDR.txt`).
const BEFORE_DIGITS: &str = "\t\n\u{b}\u{c}\r\u{85} _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$";

/// Base letter of each character from U+00C0 to U+00FF; `-` if there is none.
const LATIN_1_LETTERS: &str = "AAAAAA-CEEEEIIII-NOOOOO-OUUUUY--aaaaaa-ceeeeiiii-nooooo-ouuuuy-y";

/// Sort key of a string. The three levels are compared one after the other.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct RootKey {
    letters: Vec<u32>,
    accents: Vec<u32>,
    capitals: Vec<bool>,
}

impl RootKey {
    fn from_text(text: &str) -> RootKey {
        let mut key = RootKey {
            letters: Vec::with_capacity(text.len()),
            accents: Vec::with_capacity(text.len()),
            capitals: Vec::with_capacity(text.len()),
        };
        for c in text.chars() {
            let base = base_letter(c);
            let Some(weight) = character_weight(base) else { continue };
            key.letters.push(weight);
            key.accents.push(if base == c { 0 } else { c.to_ascii_lowercase().into() });
            key.capitals.push(base.is_uppercase());
        }
        key
    }
}

fn base_letter(c: char) -> char {
    let index = (c as usize).wrapping_sub(0xC0);
    match LATIN_1_LETTERS.as_bytes().get(index) {
        Some(b'-') | None => c,
        Some(&letter) => letter.into(),
    }
}

/// Returns the weight of a character without accent; `None` if the order ignores the character.
fn character_weight(c: char) -> Option<u32> {
    const SYMBOLS: u32 = 0x100;
    const DIGITS: u32 = 0x20_0000;
    const LETTERS: u32 = 0x30_0000;
    const FURTHER_LETTERS: u32 = 0x40_0000;
    match c {
        '0'..='9' => Some(DIGITS + c as u32),
        'a'..='z' | 'A'..='Z' => Some(LETTERS + c.to_ascii_lowercase() as u32),
        _ => match BEFORE_DIGITS.find(c) {
            Some(index) => Some(index as u32),
            None if c.is_control() => None,
            None if c.is_alphabetic() => Some(FURTHER_LETTERS + c as u32),
            None => Some(SYMBOLS + c as u32),
        },
    }
}

/// Width and height of an image in inches, as in R. An image is taller than this if its cases would
/// not fit otherwise.
const SIDE_INCHES: f64 = 7.0;

/// Number of layout pixels per inch. Text is readable at this scale.
const PX_PER_INCH: f64 = 100.0;

/// Rendered pixels per layout pixel, so that PNG files have 300 dots per inch, as in R.
const PNG_ZOOM: u32 = 3;

/// Label of the rate axis.
pub const RATE_LABEL: &str = "rate of operations (higher is better)";

/// File to which a chart is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChartFile {
    path: PathBuf,
    /// Whether the format is PNG; otherwise, it is SVG.
    is_png: bool,
}

impl ChartFile {
    /// Chooses the format of a chart file by the extension of `path`; writes nothing yet.
    ///
    /// # Errors
    /// Fails if the extension is neither `svg` nor `png`.
    pub fn from_path(path: &str) -> Result<ChartFile> {
        let path = PathBuf::from(path);
        let extension = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
        let is_png = match extension.as_str() {
            "svg" => false,
            "png" => true,
            _ => bail!("cannot draw '{}': its name must end in .svg or .png", path.display()),
        };
        Ok(ChartFile { path, is_png })
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
        let bytes = if self.is_png {
            let png = chart.png_zoomed(size, PNG_ZOOM).or_else(|_| chart.png_zoomed(size, 1));
            png.with_context(|| format!("cannot draw '{}'", self.path.display()))?
        } else {
            chart.svg(size).into_bytes()
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
    let category = |(name, old, new): ComparedCase<'a, &[f64]>| {
        // The script sorts alphabetically, so `new` comes before `old`.
        let sides = [("new", new), ("old", old)].map(|(name, values)| BoxSeries {
            name: name.to_owned(),
            values: values.to_vec(),
            center: None,
        });
        let boxes = sides.into_iter().filter(|side| !side.values.is_empty()).collect();
        BoxCategory { label: case_label(name), boxes }
    };
    AnyChart::Box(BoxChart {
        value_axis: ChartAxis::linear(RATE_LABEL),
        categories: cases.map(category).collect(),
        ..BoxChart::default()
    })
}

/// Draws the chart of `bar.R --plot`: a pair of bars per case. If `old` or `new` has no values, its
/// mean is NaN, and it has no bar.
pub fn bar_chart<'a>(cases: impl Iterator<Item = ComparedCase<'a, f64>>) -> AnyChart {
    let category = |(name, old, new): ComparedCase<'a, f64>| {
        let pair = [("new", new), ("old", old)].map(|(name, value)| ChartBar {
            name: name.to_owned(),
            value,
            ..ChartBar::default()
        });
        let bars = pair.into_iter().filter(|bar| bar.value.is_finite()).collect();
        BarCategory { label: case_label(name), bars }
    };
    AnyChart::Bar(BarChart {
        value_axis: ChartAxis::linear(RATE_LABEL),
        categories: cases.map(category).collect(),
        ..BarChart::default()
    })
}

/// Puts the file name above its configuration.
fn case_label(name: &str) -> String {
    name.replacen(' ', "\n", 1)
}

/// Width of the scale in columns.
const SCALE_COLUMNS: usize = 60;

/// Value of the reference line in text charts.
const REFERENCE: f64 = 0.0;

/// One line of the chart.
#[derive(Debug, Clone, PartialEq)]
pub struct ChartBand {
    /// Label on the left.
    pub label: String,
    /// Value.
    pub value: f64,
    /// Interval around the value, if defined.
    pub interval: Option<(f64, f64)>,
}

/// Draws a text chart without colors: `o` for a value, `[---]` for its interval, `|` for the
/// reference (`+` within an interval).
///
/// Draws one line for each band, and a last line with the two ends of the scale. `number` formats
/// these ends. The scale includes 0, the reference.
///
/// Bands without a finite value are omitted. The chart is empty if no band is left, or if all
/// values and bounds are 0.
pub fn band_chart(heading: &str, bands: &[ChartBand], number: impl Fn(f64) -> String) -> String {
    let bands: Vec<&ChartBand> = bands.iter().filter(|band| band.value.is_finite()).collect();
    let (mut low, mut high) = (REFERENCE, REFERENCE);
    for band in &bands {
        let (start, end) = band.interval.unwrap_or((band.value, band.value));
        for value in [start, end, band.value].into_iter().filter(|value| value.is_finite()) {
            (low, high) = (low.min(value), high.max(value));
        }
    }
    if bands.is_empty() || low == high {
        return String::new();
    }
    // Values beyond the ends are placed at the ends.
    let column = |value: f64| {
        let fraction = ((value - low) / (high - low)).clamp(0.0, 1.0);
        (fraction * (SCALE_COLUMNS - 1) as f64).round() as usize
    };
    let label_width = bands.iter().map(|band| band.label.width()).max().unwrap_or(0);
    let mut chart = format!("\n{heading}:\n\n");
    for band in &bands {
        let mut marks = [b' '; SCALE_COLUMNS];
        marks[column(REFERENCE)] = b'|';
        if let Some((low, high)) = band.interval {
            let (low, high) = (column(low), column(high));
            for mark in &mut marks[low..=high] {
                *mark = if *mark == b'|' { b'+' } else { b'-' };
            }
            (marks[low], marks[high]) = (b'[', b']');
        }
        marks[column(band.value)] = b'o';
        let padding = " ".repeat(label_width - band.label.width());
        let line = format!("{}{padding}  {}", band.label, String::from_utf8_lossy(&marks));
        chart.push_str(line.trim_end());
        chart.push('\n');
    }
    let (low, high) = (number(low), number(high));
    let gap = " ".repeat(SCALE_COLUMNS.saturating_sub(low.width() + high.width()).max(1));
    chart + &" ".repeat(label_width + 2) + &low + &gap + &high + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 4] = ["plot", "log", "help", "xaxis"];

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn one_dash_is_as_good_as_two() {
        let words = words("-xaxis len --plot a.svg stray --log");
        let options = console::parse_r(&words, &KNOWN).unwrap();
        assert_eq!(options.value("xaxis"), Some("len"));
        assert_eq!(options.value("plot"), Some("a.svg"));
        assert!(options.has("log") && !options.has("help") && !options.has("stray"));
    }

    #[test]
    fn a_value_cannot_begin_with_a_dash() {
        let words = words("--plot --log");
        let options = console::parse_r(&words, &KNOWN).unwrap();
        assert!(options.has("plot") && options.value("plot").is_none());
    }

    #[test]
    fn unknown_options_are_errors_instead_of_being_passed_over() {
        for word in ["--polt", "--plot=a.svg"] {
            assert_eq!(console::parse_r(&[word.to_owned()], &KNOWN), Err(word));
        }
    }

    fn sorted(collation: TextCollation, texts: &str, separator: &str) -> String {
        let mut texts: Vec<&str> = texts.split(separator).collect();
        collation.sort_by_text(&mut texts, |text| text);
        texts.join(separator)
    }

    /// `sort()` of R 4.2.2 printed the expected orders under `LC_ALL=C.UTF-8`.
    #[test]
    fn outside_the_c_locale_the_order_is_that_of_r_with_icu() {
        let words = "UTF-8|utf8|utf-8|AscII|ascii|ASCII|base|Base|aB|Ab|ab|AB|ab c|a b|a_b|a-b|a.b|\
                     abc|e|é|f|ü|z|ss|st|日本|😀|\u{1}a";
        assert_eq!(
            sorted(TextCollation::Root, words, "|"),
            "😀|\u{1}a|a b|a_b|a-b|a.b|ab|aB|Ab|AB|ab c|abc|ascii|AscII|ASCII|base|Base|e|é|f|ss|st|\
             ü|utf-8|UTF-8|utf8|z|日本"
        );
        let all: Vec<String> = (' '..='~').map(String::from).collect();
        assert_eq!(
            sorted(TextCollation::Root, &all.join("\0"), "\0").replace('\0', ""),
            " _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$\
             0123456789aAbBcCdDeEfFgGhHiIjJkKlLmMnNoOpPqQrRsStTuUvVwWxXyYzZ"
        );
    }

    #[test]
    fn in_the_c_locale_code_points_decide() {
        assert_eq!(sorted(TextCollation::CodePoints, "b|B|a_|a-|é|1", "|"), "1|B|a-|a_|b|é");
    }

    #[test]
    fn the_locale_is_found_as_the_c_library_finds_it() {
        let collation_for = |set: &'static [(&str, &str)]| {
            TextCollation::from_environment(|name| {
                set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(collation_for(&[]), TextCollation::Root);
        assert_eq!(collation_for(&[("LANG", "C.UTF-8")]), TextCollation::Root);
        assert_eq!(
            collation_for(&[("LANG", "de_DE.UTF-8"), ("LC_ALL", "C")]),
            TextCollation::CodePoints
        );
        assert_eq!(
            collation_for(&[("LC_ALL", ""), ("LC_COLLATE", "POSIX")]),
            TextCollation::CodePoints
        );
    }

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

    fn sample_band(label: &str, value: f64, interval: Option<(f64, f64)>) -> ChartBand {
        ChartBand { label: label.into(), value, interval }
    }

    #[test]
    fn all_bands_and_the_reference_share_one_scale() {
        let bands = [
            sample_band("slower", -15.0, Some((-20.0, -10.0))),
            sample_band("same", 1.0, Some((-5.0, 7.0))),
            sample_band("é", 39.0, None),
            sample_band("unknown", f64::NAN, None),
        ];
        let chart = band_chart("Slowdown", &bands, |number| format!("{number} %"));
        // One column per percent, from -20 to 39: the reference, 0 %, is in column 20.
        assert_eq!(
            chart,
            "\nSlowdown:\n\nslower  [----o----]         |\n\
             same                   [----+o-----]\n\
             é                           |                                      o\n        \
             -20 %                                                   39 %\n"
        );
    }

    #[test]
    fn a_chart_without_a_range_is_empty() {
        assert_eq!(band_chart("", &[], |number| number.to_string()), "");
        assert_eq!(band_chart("", &[sample_band("a", 0.0, None)], |number| number.to_string()), "");
    }
}
