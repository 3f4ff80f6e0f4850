//! Defines the cells of tables. A cell has text, rounded to what the data support, and a value with
//! every digit.
//!
//! Cells that several tables share have constructors here, such as [`ReportCell::share`]. Verdicts
//! have a symbol and an emphasis.

use crate::figure::{
    Uncertainty, format_moment, format_quantity, format_reported_time, format_share,
    insert_separators, uncertainty_of,
};
use serde_json::{Number, Value};
use speedwell_analysis::load::ReportedTime;
use speedwell_model::{IntervalEstimate, RunValue, Verdict};
use speedwell_plot::{ForestRow, SparkLevel, Sparkline};
use std::sync::Arc;

/// A full name, and a short form for pages too narrow for the full names of all rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowName {
    /// The full name. An empty heading is not shown.
    pub full: String,
    /// The short form.
    pub short: String,
}

impl RowName {
    /// Creates a name without a shorter form.
    pub fn plain(name: impl Into<String>) -> RowName {
        let full = name.into();
        RowName { short: full.clone(), full }
    }
}

/// The emphasis of text. The text must be understandable without it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TextEmphasis {
    /// Ordinary text.
    #[default]
    None,
    /// Important.
    Strong,
    /// Good news.
    Good,
    /// Bad news.
    Bad,
    /// Not known yet, or to be treated with care.
    Caution,
    /// Less important.
    Muted,
}

/// Returns a symbol that distinguishes verdicts without color.
pub fn verdict_symbol(verdict: Verdict) -> char {
    match verdict {
        Verdict::Better => '▲',
        Verdict::Worse => '▼',
        Verdict::Same => '=',
        Verdict::Unclear => '?',
    }
}

/// Returns the emphasis of a verdict.
pub fn verdict_emphasis(verdict: Verdict) -> TextEmphasis {
    match verdict {
        Verdict::Better => TextEmphasis::Good,
        Verdict::Worse => TextEmphasis::Bad,
        Verdict::Same => TextEmphasis::None,
        Verdict::Unclear => TextEmphasis::Caution,
    }
}

/// A cell of a table.
#[derive(Debug, Clone, Default)]
pub struct ReportCell {
    /// The text for people. A number is rounded, and its unit follows it unless a caption or
    /// another column states the unit.
    pub text: String,
    /// The value for programs. A number has every digit. `None` means "not known".
    pub value: Option<Datum>,
    /// The emphasis of the text.
    pub emphasis: TextEmphasis,
    /// Properties that few cells have. They are boxed, because large tables have a million cells.
    pub rare: Option<Box<RareCellData>>,
}

/// Properties that few cells have.
#[derive(Debug, Clone, Default)]
pub struct RareCellData {
    /// The text for a narrow page, or `None` if there is no shorter text.
    pub short: Option<String>,
    /// One number per run, for programs, instead of a value. There may be millions of runs.
    pub runs: Option<RunList>,
    /// The drawing of the cell.
    pub drawn: Option<ForestRow>,
    /// A sparkline, for pages.
    pub sparkline: Option<Sparkline>,
    /// The address that the cell links to on a served page. Other pages have no such addresses.
    pub link: Option<String>,
    /// The moment that the text names, in milliseconds since the Unix epoch.
    pub moment: Option<i64>,
    /// The form that a served page shows instead of the text.
    pub form: Option<CellForm>,
}

/// A small form in a row of a table. It changes something, so it is sent with POST. The address of
/// the page is sent along as `to`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CellForm {
    /// The address to which the form is sent.
    pub action: String,
    /// The purpose of the form.
    pub title: String,
    /// Names and values that the user does not see.
    pub hidden: Vec<(&'static str, String)>,
    /// Name and label of a text field.
    pub note: (&'static str, String),
    /// The name that the buttons have in common.
    pub name: &'static str,
    /// Values and texts of the buttons.
    pub buttons: Vec<(&'static str, &'static str)>,
}

/// One number per run, in execution order. The numbers are converted to a list only when written.
#[derive(Debug, Clone)]
pub enum RunList {
    /// The value of each run.
    Values(Arc<[RunValue]>),
    /// The position of each run in the execution order of its session.
    Slots(Arc<[RunValue]>),
}

impl RunList {
    /// Converts to a list.
    pub fn to_json(&self) -> Value {
        match self {
            RunList::Values(runs) => {
                runs.iter().map(|run| json_number(run.value).unwrap_or(Value::Null)).collect()
            }
            RunList::Slots(runs) => runs.iter().map(|run| Value::from(run.slot)).collect(),
        }
    }
}

impl ReportCell {
    /// Creates a cell with the same words for people and programs.
    pub fn words(text: impl Into<String>) -> ReportCell {
        let text = text.into();
        ReportCell { value: Some(Datum::Text(text.as_str().into())), text, ..ReportCell::default() }
    }

    /// Creates a cell for people only.
    pub fn text(text: impl Into<String>) -> ReportCell {
        ReportCell { text: text.into(), ..ReportCell::default() }
    }

    /// Creates a cell for programs only.
    pub fn value(value: impl Into<Value>) -> ReportCell {
        ReportCell { value: Some(value.into().into()), ..ReportCell::default() }
    }

    /// Creates a cell with a number for programs, if there is one. Infinities and NaN, which JSON
    /// cannot represent, become "not known".
    pub fn figure(figure: Option<f64>) -> ReportCell {
        ReportCell { value: figure.and_then(json_number).map(Datum::from), ..ReportCell::default() }
    }

    /// Creates a cell with a figure, if there is one. Programs get the figure. People get the text
    /// that `format` makes of it.
    pub fn shown_figure(
        figure: impl Into<Option<f64>>,
        format: impl FnOnce(f64) -> String,
    ) -> ReportCell {
        let figure = figure.into();
        ReportCell::figure(figure).with_text(figure.map(format).unwrap_or_default())
    }

    /// Creates a cell with a drawing, if there is one.
    pub fn drawing(drawn: Option<ForestRow>) -> ReportCell {
        let mut cell = ReportCell::default();
        if drawn.is_some() {
            cell.rare_mut().drawn = drawn;
        }
        cell
    }

    /// Creates a cell with a sparkline, for pages. `levels` index `points`.
    pub fn sparkline(points: Vec<f64>, levels: Vec<SparkLevel>) -> ReportCell {
        let mut cell = ReportCell::default();
        if !points.is_empty() {
            cell.rare_mut().sparkline = Some(Sparkline { points, levels });
        }
        cell
    }

    /// Replaces the text for people.
    pub fn with_text(mut self, text: impl Into<String>) -> ReportCell {
        self.text = text.into();
        self
    }

    /// Uses a name as the text for people.
    pub fn with_name(mut self, name: &RowName) -> ReportCell {
        self.text.clone_from(&name.full);
        self.rare_mut().short = Some(name.short.clone());
        self
    }

    /// Links the cell to an address of the server.
    pub fn with_link(mut self, href: impl Into<String>) -> ReportCell {
        self.rare_mut().link = Some(href.into());
        self
    }

    /// Returns the rare properties, creating them if needed.
    pub fn rare_mut(&mut self) -> &mut RareCellData {
        self.rare.get_or_insert_default()
    }

    /// Returns the text for a narrow page, if there is a shorter text.
    pub fn short(&self) -> Option<&str> {
        self.rare.as_ref()?.short.as_deref()
    }

    /// Returns the list with one number per run, which programs get instead of a value.
    pub fn runs(&self) -> Option<&RunList> {
        self.rare.as_ref()?.runs.as_ref()
    }

    /// Returns the drawing of the cell.
    pub fn drawn(&self) -> Option<&ForestRow> {
        self.rare.as_ref()?.drawn.as_ref()
    }

    /// Returns the sparkline that the cell shows on pages.
    pub fn sparkline_drawing(&self) -> Option<&Sparkline> {
        self.rare.as_ref()?.sparkline.as_ref()
    }

    /// Returns the address that the cell links to on a served page.
    pub fn link(&self) -> Option<&str> {
        self.rare.as_ref()?.link.as_deref()
    }

    /// States which moment the text names.
    pub fn with_moment(mut self, unix_ms: i64) -> ReportCell {
        self.rare_mut().moment = Some(unix_ms);
        self
    }

    /// Returns the moment that the text names, in milliseconds since the Unix epoch.
    pub fn moment_ms(&self) -> Option<i64> {
        self.rare.as_ref()?.moment
    }

    /// Shows a form instead of the text on a served page.
    pub fn with_form(mut self, form: CellForm) -> ReportCell {
        self.rare_mut().form = Some(form);
        self
    }

    /// Returns the form that a served page shows instead of the text.
    pub fn form(&self) -> Option<&CellForm> {
        self.rare.as_ref()?.form.as_ref()
    }

    /// Sets the emphasis.
    pub fn with_emphasis(mut self, emphasis: TextEmphasis) -> ReportCell {
        self.emphasis = emphasis;
        self
    }

    /// Creates a cell with a fraction, shown in percent, if it is known.
    pub fn share(share: impl Into<Option<f64>>) -> ReportCell {
        ReportCell::shown_figure(share, format_share)
    }

    /// Creates a cell with a figure of unknown uncertainty in `unit`, if it is known.
    pub fn quantity(figure: impl Into<Option<f64>>, unit: &str) -> ReportCell {
        let format = |figure| format_quantity(figure, unit, Uncertainty::Unknown);
        ReportCell::shown_figure(figure, format)
    }

    /// Creates a cell with a time in nanoseconds, if it is known.
    pub fn time(ns: impl Into<Option<f64>>) -> ReportCell {
        ReportCell::quantity(ns, "ns")
    }

    /// Creates a cell with a time of a load, if it is known. For a range, programs get the upper
    /// bound: the time since the requests were due. For a withheld time, they get nothing.
    pub fn reported_time(time: Option<ReportedTime>) -> ReportCell {
        ReportCell::figure(time.and_then(ReportedTime::longest_ns).map(|ns| ns as f64))
            .with_text(time.map(format_reported_time).unwrap_or_default())
    }

    /// Creates a cell with an estimate in `unit`, if it is known. The interval of the estimate
    /// decides how many digits are shown.
    pub fn estimate(estimate: impl Into<Option<IntervalEstimate>>, unit: &str) -> ReportCell {
        ReportCell::from(estimate.into().map(|estimate| {
            let text = format_quantity(estimate.value, unit, uncertainty_of(&estimate));
            ReportCell::from(estimate.value).with_text(text)
        }))
    }

    /// Creates a cell with a moment in milliseconds since the Unix epoch, shown as date and time.
    pub fn moment(unix_ms: i64) -> ReportCell {
        ReportCell::value(unix_ms).with_text(format_moment(unix_ms))
    }

    /// Creates a cell with the number of a session, shown as `@12`.
    pub fn session(number: i64) -> ReportCell {
        ReportCell::value(number).with_text(format!("@{number}"))
    }

    /// Creates a cell with a word, shown after a symbol that distinguishes it without color.
    pub fn marked(word: impl Into<String>, symbol: char, emphasis: TextEmphasis) -> ReportCell {
        let word = word.into();
        let text = format!("{symbol} {word}");
        ReportCell::words(word).with_text(text).with_emphasis(emphasis)
    }

    /// Creates a cell with the state of a check, a setting or a machine, in one word.
    pub fn state(word: &str) -> ReportCell {
        let (symbol, emphasis) = match word {
            "ok" | "fit" | "free" | "set" | "already" => ('✓', TextEmphasis::Good),
            "warning" | "busy" => ('!', TextEmphasis::Caution),
            "problem" | "unfit" => ('✗', TextEmphasis::Bad),
            "cannot" => ('✗', TextEmphasis::Caution),
            "would set" => ('○', TextEmphasis::None),
            _ => ('-', TextEmphasis::Muted),
        };
        ReportCell::marked(word, symbol, emphasis)
    }

    /// Hides the text from people unless the condition is true. Programs get the value anyway.
    pub fn shown_if(self, condition: bool) -> ReportCell {
        if condition { self } else { self.with_text("") }
    }
}

/// Converts values to cells with the given functions.
macro_rules! convert_with {
    ($($Value:ty => $convert:expr),+ $(,)?) => {
        $(impl From<$Value> for ReportCell {
            fn from(value: $Value) -> ReportCell {
                $convert(value)
            }
        })+
    };
}
convert_with! {
    // The same words for people and programs.
    &str => ReportCell::words,
    &String => ReportCell::words,
    String => ReportCell::words,
    // Counts show every digit, with separators.
    i64 => count_cell,
    u32 => count_cell,
    u64 => count_cell,
    usize => count_cell,
    // Only for programs.
    bool => ReportCell::value,
    Value => ReportCell::value,
}

/// Creates a cell with a whole number, shown with thousands separators.
fn count_cell<Count: Into<Value> + ToString>(count: Count) -> ReportCell {
    let text = insert_separators(&count.to_string());
    ReportCell::value(count).with_text(text)
}

impl From<f64> for ReportCell {
    /// Converts to a figure for programs only. Infinities and NaN become "not known".
    fn from(figure: f64) -> ReportCell {
        ReportCell::figure(Some(figure))
    }
}

impl From<RunList> for ReportCell {
    /// Converts to one number per run for programs only.
    fn from(runs: RunList) -> ReportCell {
        let mut cell = ReportCell::default();
        cell.rare_mut().runs = Some(runs);
        cell
    }
}

impl<C: Into<ReportCell>> From<Option<C>> for ReportCell {
    /// Converts to an empty cell, which means "not known", if there is no value.
    fn from(cell: Option<C>) -> ReportCell {
        cell.map_or_else(ReportCell::default, C::into)
    }
}

/// Converts a figure to JSON. Whole numbers get no fraction. Infinities and NaN become `None`.
pub fn json_number(figure: f64) -> Option<Value> {
    // This is 2^53. Below it, an `f64` represents every whole number exactly.
    const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;
    if figure.fract() == 0.0 && figure.abs() < MAX_EXACT_INTEGER {
        return Some(Value::from(figure as i64));
    }
    serde_json::Number::from_f64(figure).map(Value::Number)
}

// The machine-readable value of a cell, with every digit.
//
// A [`Datum`] is equivalent to a JSON value but needs less memory. A table of ten thousand rows
// has hundreds of thousands of cells.

/// A scalar or JSON value.
#[derive(Debug, Clone, PartialEq)]
pub enum Datum {
    /// A number.
    Number(Number),
    /// A string.
    Text(Box<str>),
    /// Any other JSON value.
    Other(Box<Value>),
}

impl Datum {
    /// Converts to JSON.
    pub fn to_json(&self) -> Value {
        match self {
            Datum::Number(number) => Value::Number(number.clone()),
            Datum::Text(text) => Value::String(text.to_string()),
            Datum::Other(value) => Value::clone(value),
        }
    }

    /// Returns the number, if this is a number.
    pub fn as_f64(&self) -> Option<f64> {
        let Datum::Number(number) = self else { return None };
        number.as_f64()
    }

    /// Returns the string, if this is a string.
    pub fn as_str(&self) -> Option<&str> {
        let Datum::Text(text) = self else { return None };
        Some(text)
    }

    /// Whether the value is an array or an object.
    pub fn is_nested(&self) -> bool {
        matches!(self, Datum::Other(value) if value.is_array() || value.is_object())
    }
}

impl From<Value> for Datum {
    fn from(value: Value) -> Datum {
        match value {
            Value::Number(number) => Datum::Number(number),
            Value::String(text) => Datum::Text(text.into()),
            other => Datum::Other(Box::new(other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn json_numbers_omit_zero_fractions_and_infinities_are_unknown() {
        assert_eq!(json_number(12.0).map(|v| v.to_string()).as_deref(), Some("12"));
        assert_eq!(json_number(0.1).map(|v| v.to_string()).as_deref(), Some("0.1"));
        assert_eq!(json_number(f64::INFINITY), None);
        assert_eq!(json_number(f64::NAN), None);
    }

    #[test]
    fn a_datum_keeps_its_json_value() {
        for value in [json!(1), json!(0.25), json!("a"), json!(true), json!(null), json!([1, "b"])]
        {
            let datum = Datum::from(value.clone());
            assert_eq!(datum.to_json(), value);
            assert_eq!(datum.as_f64(), value.as_f64());
            assert_eq!(datum.as_str(), value.as_str());
            assert_eq!(datum.is_nested(), value.is_array());
        }
    }

    #[test]
    fn all_counts_have_separators() {
        let cells = [ReportCell::from(1_838_u64), 1_838_i64.into(), 1_838_usize.into()];
        for cell in cells {
            assert_eq!((cell.text.as_str(), cell.value), ("1,838", Some(json!(1_838).into())));
        }
    }

    #[test]
    fn a_report_cell_takes_at_most_64_bytes() {
        assert!(size_of::<ReportCell>() <= 64, "{}", size_of::<ReportCell>());
    }
}
