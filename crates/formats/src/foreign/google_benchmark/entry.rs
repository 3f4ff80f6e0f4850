//! Reads a result file of google/benchmark without conversion: every entry in file order, including
//! aggregates.
//!
//! Decides which keys of an entry matter for `compare.py`. Strings are borrowed from the text of
//! the file, so that a large file needs little memory. The meaning of an entry is decided by
//! [`GoogleBenchmarkRow`](super::GoogleBenchmarkRow). Start at [`ResultFile`].

use super::{BorrowedText as Borrowed, check_version, context_warnings};
use crate::foreign::json::{self, JsonNode};
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use std::borrow::Cow;
use std::cell::OnceCell;
use std::fmt;

/// Unparsed content of a result file, from which the parsed entries borrow.
#[derive(Debug)]
pub struct ResultFile {
    original: String,
    /// The same text as strict JSON, if the original deviates from the standard.
    strict: OnceCell<String>,
}

/// Content of a file.
#[derive(Debug)]
pub struct FileEntries<'a> {
    /// Description of machine, library and program; null if the file has none.
    pub context: Value,
    /// Entries in file order.
    pub entries: Vec<GoogleBenchmarkEntry<'a>>,
}

impl ResultFile {
    /// Returns whether bytes could be JSON, judging by the first character.
    pub fn recognises(bytes: &[u8]) -> bool {
        let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start();
        text.starts_with(b"{") || text.starts_with(b"[")
    }

    /// Takes the whole content of a file.
    ///
    /// # Errors
    /// Fails if the content is not UTF-8.
    pub fn new(bytes: Vec<u8>) -> Result<ResultFile> {
        let mut original = String::from_utf8(bytes).context("it is not UTF-8")?;
        if original.starts_with('\u{feff}') {
            original.remove(0);
        }
        Ok(ResultFile { original, strict: OnceCell::new() })
    }

    /// Parses all entries.
    ///
    /// # Errors
    /// Fails if the text is not JSON, has an unsupported schema version, or lacks a list of
    /// benchmarks; the message names the location.
    pub fn parse_entries(&self) -> Result<FileEntries<'_>> {
        let message = "the key 'benchmarks' is missing";
        ensure!(self.original.trim_start().starts_with('{'), message);
        let strict = || self.strict.get_or_init(|| json::to_strict_json(&self.original, "null"));
        let members: FileMembers<'_> = serde_json::from_str(&self.original)
            .or_else(|_| serde_json::from_str(strict()))
            .map_err(json::explain_error)?;
        let context = members.context.unwrap_or_default();
        check_version(&context)?;
        Ok(FileEntries { entries: members.benchmarks.context(message)?, context })
    }
}

impl FileEntries<'_> {
    /// Returns problems that affect all figures, as sentence fragments.
    pub fn remarks(&self) -> Vec<String> {
        context_warnings(&JsonNode::from_root(&self.context))
    }
}

/// An element of `benchmarks`.
#[derive(Debug, Clone, Default)]
pub struct GoogleBenchmarkEntry<'a> {
    /// Name, with arguments and the suffix of aggregates.
    pub name: Cow<'a, str>,
    /// Name without the suffix of aggregates.
    pub run_name: Option<Cow<'a, str>>,
    /// `iteration` or `aggregate`.
    pub run_type: Option<Cow<'a, str>>,
    /// `mean`, `median`, ...
    pub aggregate_name: Option<Cow<'a, str>>,
    /// Label set by the program.
    pub label: Option<Cow<'a, str>>,
    /// Index of the entry's family in the program.
    pub family_index: Option<f64>,
    /// Index of the benchmark in its family.
    pub per_family_instance_index: Option<f64>,
    /// Index of the repetition.
    pub repetition_index: Option<f64>,
    /// Wall time per iteration in `time_unit`; NaN if the value is null or not
    /// finite, `None` if the key is absent.
    pub real_time: Option<f64>,
    /// CPU time per iteration in `time_unit`; NaN if the value is null or not
    /// finite, `None` if the key is absent.
    pub cpu_time: Option<f64>,
    /// `ns`, `us`, `ms` or `s`.
    pub time_unit: Option<Cow<'a, str>>,
    /// Whether the key `error_occurred` is true.
    pub has_failed: bool,
    /// Value of the key `error_message`.
    pub error_message: Option<Cow<'a, str>>,
    /// Whether the key `skipped` is true.
    pub was_skipped: bool,
    /// Value of the key `skip_message`.
    pub skip_message: Option<Cow<'a, str>>,
}

impl GoogleBenchmarkEntry<'_> {
    /// Returns whether the entry is marked as an aggregate over several repetitions.
    pub fn is_aggregate(&self) -> bool {
        self.run_type.as_deref() == Some("aggregate")
    }

    /// Returns whether the benchmark failed or was skipped. The times of such an entry are 0.
    pub fn is_without_result(&self) -> bool {
        self.has_failed || self.was_skipped
    }
}

#[derive(Deserialize)]
struct FileMembers<'a> {
    context: Option<Value>,
    #[serde(borrow)]
    benchmarks: Option<Vec<GoogleBenchmarkEntry<'a>>>,
}

impl<'de: 'a, 'a> Deserialize<'de> for GoogleBenchmarkEntry<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EntryVisitor)
    }
}

/// Reads an entry. The visitor is written by hand because a counter may have the name of another
/// key. The key then occurs twice in the entry, which derived code rejects. Here the last
/// occurrence is used, as in other programs that read such files.
struct EntryVisitor;

impl<'de> Visitor<'de> for EntryVisitor {
    type Value = GoogleBenchmarkEntry<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a 'name'")
    }

    fn visit_map<A: MapAccess<'de>>(
        self,
        mut map: A,
    ) -> Result<GoogleBenchmarkEntry<'de>, A::Error> {
        let mut entry = GoogleBenchmarkEntry::default();
        let mut is_named = false;
        while let Some(Borrowed(key)) = map.next_key::<Borrowed<'de>>()? {
            match &*key {
                "name" => {
                    entry.name = map.next_value::<Borrowed<'de>>()?.0;
                    is_named = true;
                }
                "run_name" => entry.run_name = next_text(&mut map)?,
                "run_type" => entry.run_type = next_text(&mut map)?,
                "aggregate_name" => entry.aggregate_name = next_text(&mut map)?,
                "label" => entry.label = next_text(&mut map)?,
                "family_index" => entry.family_index = map.next_value()?,
                "per_family_instance_index" => {
                    entry.per_family_instance_index = map.next_value()?;
                }
                "repetition_index" => entry.repetition_index = map.next_value()?,
                "real_time" => entry.real_time = Some(next_number(&mut map)?),
                "cpu_time" => entry.cpu_time = Some(next_number(&mut map)?),
                "time_unit" => entry.time_unit = next_text(&mut map)?,
                "error_occurred" => entry.has_failed = next_is_true(&mut map)?,
                "error_message" => entry.error_message = next_text(&mut map)?,
                "skipped" => entry.was_skipped = next_is_true(&mut map)?,
                "skip_message" => entry.skip_message = next_text(&mut map)?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        if is_named { Ok(entry) } else { Err(serde::de::Error::missing_field("name")) }
    }
}

fn next_text<'de, A: MapAccess<'de>>(map: &mut A) -> Result<Option<Cow<'de, str>>, A::Error> {
    let text: Option<Borrowed<'de>> = map.next_value()?;
    Ok(text.map(|text| text.0))
}

fn next_number<'de, A: MapAccess<'de>>(map: &mut A) -> Result<f64, A::Error> {
    let number: Option<f64> = map.next_value()?;
    Ok(number.unwrap_or(f64::NAN))
}

/// Reads a flag. A counter may have the same name; its value is a number, which is read as false.
fn next_is_true<'de, A: MapAccess<'de>>(map: &mut A) -> Result<bool, A::Error> {
    Ok(map.next_value::<Value>()? == Value::Bool(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> ResultFile {
        ResultFile::new(text.as_bytes().to_vec()).unwrap()
    }

    fn message(text: &str) -> String {
        file(text).parse_entries().unwrap_err().to_string()
    }

    #[test]
    fn plain_texts_are_borrowed_and_unknown_members_are_ignored() {
        let file = file(
            r#"{"context": {"x": [1]}, "benchmarks": [
                {"name": "a\tb", "run_type": "aggregate", "threads": 1, "deep": {"a": [{}]},
                 "real_time": 10, "cpu_time": 1.5e+00, "time_unit": "us"},
                {"name": "c", "skipped": 7, "error_occurred": true, "error_message": "no"}]}"#,
        );
        let results = file.parse_entries().unwrap();
        let [first, second] = &results.entries[..] else { panic!("{results:?}") };
        assert!(matches!(first.name, Cow::Owned(_)) && matches!(second.name, Cow::Borrowed("c")));
        assert!(first.is_aggregate() && !first.is_without_result());
        assert_eq!((first.real_time, first.cpu_time), (Some(10.0), Some(1.5)));
        assert_eq!(first.family_index, None);
        assert!(second.has_failed && !second.was_skipped);
        assert_eq!(second.error_message.as_deref(), Some("no"));
    }

    #[test]
    fn tabs_in_strings_and_nan_and_infinity_are_accepted() {
        let file =
            file("{\"benchmarks\": [{\"name\": \"a\tb\", \"real_time\": NaN, \"x\": -inf}]}");
        let results = file.parse_entries().unwrap();
        assert_eq!(results.entries[0].name, "a\tb");
        assert!(results.entries[0].real_time.unwrap().is_nan());
    }

    #[test]
    fn the_last_of_two_members_with_the_same_name_counts() {
        let file = file(r#"{"benchmarks": [{"name": "a", "real_time": 1, "real_time": 2}]}"#);
        assert_eq!(file.parse_entries().unwrap().entries[0].real_time, Some(2.0));
    }

    #[test]
    fn files_that_are_not_results_are_refused_with_the_reason() {
        assert_eq!(message("{}"), "the key 'benchmarks' is missing");
        assert_eq!(message("[1]"), "the key 'benchmarks' is missing");
        assert!(message(r#"{"benchmarks": [{}]}"#).contains("missing field `name`"));
        assert!(message(r#"{"benchmarks": ["#).contains("cut short"));
        assert!(
            message(r#"{"context": {"json_schema_version": 2}, "benchmarks": []}"#)
                .contains("json_schema_version 2: expected 1")
        );
        assert!(ResultFile::recognises(b"\xef\xbb\xbf {") && !ResultFile::recognises(b"nope"));
    }
}
