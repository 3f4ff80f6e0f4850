//! Defines a case: a benchmark plus one value per parameter. The history of a case is stored under
//! the id of the case. If the benchmark is a snippet, its name contains the language.
//!
//! A value has the same text form everywhere, so that the id of a case does not depend on where the
//! values were read. A number is written as JavaScript prints it: in the shortest form that is
//! parsed as the same number. Node.js benchmarks report their parameters in this form. Start at
//! [`Case`] and [`ParameterValue`].

use crate::parse::{looks_numeric, parse_number};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A benchmark with one value per parameter.
///
/// Two cases are the same if their [`Case::id`] is equal. The order in which their parameters were
/// declared does not matter.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// `group/name`, with the file's extension where the benchmark is a file.
    pub benchmark: String,
    /// Parameter names and values in the order in which the benchmark reports them.
    pub values: Vec<(String, ParameterValue)>,
}

/// An error from parsing a case id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CaseError {
    /// A text that has no `=` after the name.
    #[error("cannot parse '{0}': expected name=value")]
    NotAPair(String),
    /// A JSON string that is not terminated or has an invalid escape.
    #[error("the quoted value at '{0}' is not a valid JSON string")]
    BadQuote(String),
}

/// The error for too many combinations of parameter values.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct TooManyCases(String);

impl Case {
    /// Creates a case of `benchmark`.
    pub fn new(benchmark: impl Into<String>, values: Vec<(String, ParameterValue)>) -> Case {
        Case { benchmark: benchmark.into(), values }
    }

    /// Maximum number of cases per benchmark. All benchmarks of Node.js core together have about
    /// ten thousand cases.
    pub const MOST: usize = 100_000;

    /// Returns every combination of the values; the last parameter changes fastest.
    ///
    /// # Errors
    /// Returns an error, before any combination is created, if there are more than [`Case::MOST`].
    pub fn cartesian_product(
        parameters: &[(String, Vec<ParameterValue>)],
    ) -> Result<Vec<Vec<(String, ParameterValue)>>, TooManyCases> {
        let counts = parameters.iter().map(|(_, values)| values.len());
        let product = counts.clone().map(|count| count as f64).product::<f64>();
        if product > Case::MOST as f64 {
            let counts: Vec<String> = counts.map(|count| count.to_string()).collect();
            let product =
                if product < 1e15 { product.to_string() } else { format!("{product:.0e}") };
            return Err(TooManyCases(format!(
                "its parameters make {} = {product} cases; the limit is {}\n\
                 hint: give fewer values, or set some with --set NAME=VALUE",
                counts.join(" x "),
                Case::MOST
            )));
        }
        let mut rows: Vec<Vec<(String, ParameterValue)>> = vec![Vec::new()];
        for (name, values) in parameters {
            let longer = rows.iter().flat_map(|row| {
                let extend = move |value| [&row[..], &[(name.clone(), value)]].concat();
                values.iter().cloned().map(extend)
            });
            rows = longer.collect();
        }
        Ok(rows)
    }

    /// The canonical identity, such as `group/name len=16 type=utf8`. Parameters are sorted by
    /// name.
    pub fn id(&self) -> String {
        let mut sorted: Vec<_> = self.values.iter().collect();
        sorted.sort_by(|a, b| a.0.cmp(&b.0));
        let mut id = self.benchmark.clone();
        id.extend(sorted.iter().map(|(name, value)| format!(" {name}={value}")));
        id
    }

    /// Parses an id whose benchmark name contains no space. If the name is known, use
    /// [`Case::with_values`].
    ///
    /// # Errors
    /// Fails if a value is not preceded by `name=`, or a quoted value is malformed.
    pub fn parse(id: &str) -> Result<Case, CaseError> {
        let (benchmark, values) = id.split_once(' ').unwrap_or((id, ""));
        Case::with_values(benchmark, values)
    }

    /// Parses the values in `text`, such as `len=16 type=utf8`, for a known benchmark. A benchmark
    /// name may contain spaces, so an id alone does not show where the name ends.
    ///
    /// # Errors
    /// Fails if a value is not preceded by `name=`, or a quoted value is malformed.
    pub fn with_values(benchmark: &str, text: &str) -> Result<Case, CaseError> {
        let mut rest = text.trim_start();
        let mut values = Vec::new();
        while !rest.is_empty() {
            let (name, tail) =
                rest.split_once('=').ok_or_else(|| CaseError::NotAPair(rest.to_owned()))?;
            let (value, tail) = take_value(tail)?;
            values.push((name.to_owned(), value));
            rest = tail.trim_start();
        }
        Ok(Case::new(benchmark, values))
    }

    /// Returns the reason why a parameter name is invalid, or `None` if the name is valid. An id
    /// with an invalid name would be parsed as a different name and value.
    pub fn refuses_name(name: &str) -> Option<&'static str> {
        match name {
            "" => Some("a name must not be empty"),
            _ if name.contains('=') => {
                Some("a name must not contain '=', which separates it from the value")
            }
            _ if name.contains(char::is_control) => {
                Some("a name must not contain tabs, newlines or other control characters")
            }
            _ if name.trim() != name => Some("a name must not begin or end with a space"),
            _ => None,
        }
    }

    /// The language, if the case consists of snippets of code: its benchmark is `eval/LANGUAGE`.
    pub fn snippet_language(&self) -> Option<SnippetLanguage> {
        SnippetLanguage::from_name(self.benchmark.strip_prefix("eval/")?)
    }

    /// Returns the name of the case under a variant, for people. This is the id, except for
    /// snippets: their text, which is the parameter `code` or the name of the variant, replaces the
    /// benchmark.
    pub fn name_under(&self, variant: &str) -> String {
        match self.snippet_language() {
            Some(_) => self.with_snippet_text(variant).id(),
            None => self.id(),
        }
    }

    /// Returns the case of a snippet with its text as the benchmark: the parameter `code` or,
    /// without it, `text`.
    pub fn with_snippet_text(&self, text: &str) -> Case {
        let (code, values): (Vec<_>, Vec<_>) =
            self.values.iter().cloned().partition(|(name, _)| name == "code");
        let benchmark = code.first().map_or_else(|| text.to_owned(), |(_, code)| code.plain());
        Case::new(benchmark, values)
    }

    /// Does the same as [`Case::name_under`] for an id.
    pub fn name_of_id_under(id: &str, variant: &str) -> String {
        let snippet = id.starts_with("eval/").then(|| Case::parse(id).ok()).flatten();
        snippet.map_or_else(|| id.to_owned(), |case| case.name_under(variant))
    }

    /// The group: the benchmark's name up to its last `/`, or empty.
    pub fn group(&self) -> &str {
        self.benchmark.rsplit_once('/').map_or("", |(group, _)| group)
    }

    /// The value of a parameter.
    pub fn value(&self, name: &str) -> Option<&ParameterValue> {
        self.values.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// Number of concurrent workers, from the parameter `concurrency`.
    pub fn workers(&self) -> Option<u32> {
        let workers = self.value("concurrency")?.as_number()?;
        (workers >= 1.0).then_some(workers as u32)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.id())
    }
}

fn take_value(text: &str) -> Result<(ParameterValue, &str), CaseError> {
    if !text.starts_with('"') {
        let end = text.find(' ').unwrap_or(text.len());
        return Ok((ParameterValue::infer_value(&text[..end]), &text[end..]));
    }
    let mut strings = serde_json::Deserializer::from_str(text).into_iter::<String>();
    match strings.next() {
        Some(Ok(string)) => Ok((ParameterValue::Text(string), &text[strings.byte_offset()..])),
        _ => Err(CaseError::BadQuote(text.to_owned())),
    }
}

/// Languages of snippets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SnippetLanguage {
    /// Erlang.
    Erlang,
    /// Elixir.
    Elixir,
    /// JavaScript for Node.js.
    Node,
    /// Python.
    Python,
    /// C.
    C,
    /// C++.
    Cpp,
    /// Go.
    Go,
    /// Rust.
    Rust,
    /// Java.
    Java,
    /// Shell commands. Each iteration is a process.
    #[default]
    Sh,
}

impl SnippetLanguage {
    /// Whether snippets are compiled to a separate program before measuring.
    pub fn is_compiled(self) -> bool {
        use SnippetLanguage::*;
        matches!(self, C | Cpp | Go | Rust | Java)
    }
}

name_variants!(SnippetLanguage: Erlang = "erlang", Elixir = "elixir", Node = "node",
    Python = "python", C = "c", Cpp = "cpp", Go = "go", Rust = "rust", Java = "java", Sh = "sh");

/// A parameter's value: `1024`, `utf8`, `true`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ParameterValue {
    /// A Boolean.
    Bool(bool),
    /// A number; integers are exact up to 2^53 as in JavaScript.
    Number(f64),
    /// Any string.
    Text(String),
}

/// The kind of a value, as a benchmark declares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ValueKind {
    /// `true` or `false`.
    Bool,
    /// A number.
    Number,
    /// Text.
    Text,
}

impl ParameterValue {
    /// The kind of this value.
    pub fn kind(&self) -> ValueKind {
        match self {
            ParameterValue::Bool(_) => ValueKind::Bool,
            ParameterValue::Number(_) => ValueKind::Number,
            ParameterValue::Text(_) => ValueKind::Text,
        }
    }

    /// Parses `text` as a value of `kind`.
    ///
    /// Numbers may be written as `10k`, `10M` or `1e6`.
    pub fn parse(text: &str, kind: ValueKind) -> Option<ParameterValue> {
        match kind {
            ValueKind::Bool => text.parse().ok().map(ParameterValue::Bool),
            ValueKind::Number => parse_number(text).map(ParameterValue::Number),
            ValueKind::Text => Some(ParameterValue::Text(text.to_owned())),
        }
    }

    /// Parses a value of unknown kind: as `true`/`false`, then as a plain number, then as text.
    pub fn infer_value(text: &str) -> ParameterValue {
        if let Ok(truth) = text.parse() {
            return ParameterValue::Bool(truth);
        }
        let number = text.parse::<f64>().ok().filter(|_| looks_numeric(text));
        number.map_or_else(|| ParameterValue::Text(text.to_owned()), ParameterValue::Number)
    }

    /// The value as a number, if it is one.
    pub fn as_number(&self) -> Option<f64> {
        match self {
            ParameterValue::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// The text passed to a program: unquoted, numbers in shortest form.
    pub fn plain(&self) -> String {
        match self {
            ParameterValue::Text(text) => text.clone(),
            other => other.to_string(),
        }
    }
}

/// Writes the canonical form of a value: without quotes if that is unambiguous, otherwise as a JSON
/// string.
impl fmt::Display for ParameterValue {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParameterValue::Bool(truth) => write!(out, "{truth}"),
            ParameterValue::Number(number) => out.write_str(ryu_js::Buffer::new().format(*number)),
            ParameterValue::Text(text) if is_bare(text) => out.write_str(text),
            ParameterValue::Text(text) => serde_json::Value::from(text.as_str()).fmt(out),
        }
    }
}

fn is_bare(text: &str) -> bool {
    !text.is_empty()
        && matches!(ParameterValue::infer_value(text), ParameterValue::Text(_))
        && !text.chars().any(|c| c.is_whitespace() || c.is_control() || "\"'`=\\".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepted_parameter_names_survive_a_round_trip_through_the_id() {
        for name in ["len", "g h", "\"q\"", "é:1", "-x"] {
            assert_eq!(Case::refuses_name(name), None, "{name}");
            let values = vec![(name.to_owned(), text("a b")), ("z".to_owned(), text("c"))];
            let case = Case::new("g/b", values);
            assert_eq!(Case::parse(&case.id()).unwrap().value(name), case.value(name), "{name}");
        }
        for name in ["", "a=b", "c\td", "e\nf", " g", "h "] {
            assert!(Case::refuses_name(name).is_some(), "{name:?}");
        }
    }

    fn text(value: &str) -> ParameterValue {
        ParameterValue::Text(value.into())
    }

    #[test]
    fn the_id_does_not_depend_on_the_order_of_declaration() {
        let case = Case::new(
            "g/b",
            vec![("n".into(), ParameterValue::Number(5.0)), ("e".into(), text("u"))],
        );
        let two = Case::new(
            "g/b",
            vec![("e".into(), text("u")), ("n".into(), ParameterValue::Number(5.0))],
        );
        assert_eq!(case.id(), "g/b e=u n=5");
        assert_eq!(case.id(), two.id());
    }

    #[test]
    fn ids_with_awkward_values_come_back_unchanged() {
        for awkward in ["x y", "a\"b", "e'f", "g\nh", "é😀", "16", "", "a=b", "back\\slash"] {
            let case = Case::new("zz/s.js", vec![("q".into(), text(awkward))]);
            assert_eq!(Case::parse(&case.id()), Ok(case), "{awkward:?}");
        }
    }

    #[test]
    fn a_benchmark_with_spaces_in_its_name_keeps_its_values() {
        let case = Case::with_values("my bench/a=1 b.js", " n=5 s=\"x y\"").unwrap();
        assert_eq!(case.benchmark, "my bench/a=1 b.js");
        assert_eq!(
            case.values,
            [("n".into(), ParameterValue::Number(5.0)), ("s".into(), text("x y"))]
        );
    }

    #[test]
    fn the_concurrency_parameter_is_the_number_of_workers() {
        let workers = |id: &str| Case::parse(id).unwrap().workers();
        assert_eq!(workers("b concurrency=8 n=2"), Some(8));
        for without in ["b n=2", "b concurrency=0", "b concurrency=max"] {
            assert_eq!(workers(without), None, "{without}");
        }
    }

    #[test]
    fn errors_in_a_case_id_name_the_broken_part() {
        assert_eq!(Case::parse("g/b len"), Err(CaseError::NotAPair("len".into())));
        assert!(matches!(Case::parse("g/b s=\"x"), Err(CaseError::BadQuote(_))));
    }

    #[test]
    fn too_many_parameter_combinations_are_refused_with_their_number() {
        let values =
            |count: usize| (0..count).map(|n| ParameterValue::Number(n as f64)).collect::<Vec<_>>();
        let parameters = |names: &str, count| -> Vec<_> {
            names.chars().map(|name| (name.to_string(), values(count))).collect()
        };
        let rows = Case::cartesian_product(&parameters("ab", 2)).unwrap();
        let ids = rows.into_iter().map(|row| Case::new("g", row).id());
        assert_eq!(ids.collect::<Vec<_>>(), ["g a=0 b=0", "g a=0 b=1", "g a=1 b=0", "g a=1 b=1"]);
        assert_eq!(Case::cartesian_product(&parameters("abcde", 10)).unwrap().len(), Case::MOST);
        let message =
            Case::cartesian_product(&parameters("abcdefgh", 100)).unwrap_err().to_string();
        assert!(
            message.contains("100 x 100 x 100 x 100 x 100 x 100 x 100 x 100 = 1e16 cases"),
            "{message}"
        );
    }

    #[test]
    fn numbers_print_as_javascript_prints_them() {
        for (number, text) in [(1024.0, "1024"), (0.05, "0.05"), (1e21, "1e+21"), (-0.5, "-0.5")] {
            assert_eq!(ParameterValue::Number(number).to_string(), text);
        }
    }

    #[test]
    fn text_that_could_be_misread_is_quoted() {
        for (text, printed) in [
            ("utf8", "utf8"),
            ("base64-utf8", "base64-utf8"),
            ("16", "\"16\""),
            ("true", "\"true\""),
            ("", "\"\""),
            ("x y", "\"x y\""),
            ("e'f", "\"e'f\""),
            ("g\nh", "\"g\\nh\""),
            ("NaN", "NaN"),
        ] {
            assert_eq!(ParameterValue::Text(text.into()).to_string(), printed);
        }
    }

    #[test]
    fn a_declared_number_refuses_words() {
        assert_eq!(
            ParameterValue::parse("1e6", ValueKind::Number),
            Some(ParameterValue::Number(1e6))
        );
        assert_eq!(
            ParameterValue::parse("10k", ValueKind::Number),
            Some(ParameterValue::Number(10_000.0))
        );
        for invalid in ["abc", "", "inf", "nan", "k", "0x10"] {
            assert_eq!(ParameterValue::parse(invalid, ValueKind::Number), None, "{invalid}");
        }
    }
}
