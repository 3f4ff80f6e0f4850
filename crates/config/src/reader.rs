//! Reads parts of a definition file into types that derive `serde::Deserialize`, but words the
//! error messages itself.
//!
//! Two serde names of types have a special meaning here. The variants of an enum renamed to
//! `$by-shape` are named after the shape of the value (`"a string"`, `"a number"`, `"a list"`,
//! `"a table"`, `"a value"`). A newtype renamed to `$one-or-more` accepts a single value as a list.
//! Start at [`PartReader`]; [`ReadError`] becomes a message when the position is known.

use super::file_part::{FilePart, NodeContent, NodePath, NodeTable, TreeNode, nearest_hint};
use anyhow::Error;
use indexmap::map::Keys;
use serde::de::value::{MapAccessDeserializer, MapDeserializer, SeqDeserializer, StrDeserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, IntoDeserializer, MapAccess,
    Visitor,
};
use serde::forward_to_deserialize_any;
use speedwell_model::nearest_name;
use std::fmt::Display;

/// The serde name of an enum whose variant is chosen by the shape of the value.
const BY_SHAPE: &str = "$by-shape";

/// The serde name of a list that may also be written as a single value.
const ONE_OR_MORE: &str = "$one-or-more";

/// An error whose position may not be known yet.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Message about a value, to be appended to the key, such as `must be a table`.
    #[error("{0}")]
    Value(String),
    /// An unknown key, and a hint.
    #[error("has an unknown key '{0}'\nhint: {1}")]
    UnknownKey(String, String),
    /// A missing key.
    #[error("has no key '{0}'\nhint: {hint}", hint = key_example(.0))]
    MissingKey(&'static str),
    /// The complete message.
    #[error("{0}")]
    Whole(Error),
}

/// Returns an example of a required key.
fn key_example(key: &str) -> &'static str {
    match key {
        "name" => "name = \"http\"",
        "kind" => "kind = \"server\", \"command\" or \"function\"",
        "expr" => "expr = \"throughput(new) > throughput(old)\"",
        "match" => "match = { server = \"express\" }",
        _ => "docs/reference/experiment-file.md describes the keys",
    }
}

impl ReadError {
    /// Converts this error, which concerns `table` or one of its keys, to a complete message.
    pub fn into_table_error(self, table: &FilePart) -> Error {
        match self {
            ReadError::Whole(error) => error,
            ReadError::UnknownKey(ref key, _) => {
                table.error_at_key(key, format!("{} {self}", table.heading()))
            }
            other => table.wrong_table(other),
        }
    }

    /// Completes the message if it concerns a key of the table.
    fn complete_in_table(self, table: &FilePart) -> ReadError {
        match self {
            ReadError::Value(_) => self,
            key_error => ReadError::Whole(key_error.into_table_error(table)),
        }
    }

    /// Completes the message about the value of one of the table's keys.
    pub fn complete_at_key(self, key: &str, table: &FilePart) -> ReadError {
        match self {
            ReadError::Value(message) if message.starts_with(':') => {
                let heading = table.heading();
                let message = format!("the key '{key}' of {heading}{message}");
                ReadError::Whole(table.error_at_key(key, message))
            }
            ReadError::Value(message) => ReadError::Whole(table.value_error(key, message)),
            complete => complete,
        }
    }
}

impl serde::de::Error for ReadError {
    fn custom<T: Display>(message: T) -> ReadError {
        ReadError::Value(message.to_string())
    }

    fn invalid_type(_: serde::de::Unexpected<'_>, wanted: &dyn serde::de::Expected) -> ReadError {
        ReadError::Value(format!("must be {wanted}"))
    }

    fn unknown_variant(value: &str, known: &'static [&'static str]) -> ReadError {
        ReadError::Value(unknown_name(value, known.iter().copied()))
    }

    fn unknown_field(key: &str, known: &'static [&'static str]) -> ReadError {
        let names: Vec<String> = known.iter().map(|&name| name.to_owned()).collect();
        let hint = match nearest_name(key, &names) {
            Some(near) => format!("did you mean '{near}'?"),
            None => format!("its keys are {}", known.join(", ")),
        };
        ReadError::UnknownKey(key.to_owned(), hint)
    }

    fn missing_field(key: &'static str) -> ReadError {
        ReadError::MissingKey(key)
    }
}

impl FilePart<'_> {
    /// Reads the part into a type.
    ///
    /// # Errors
    /// Fails if a key is unknown or missing, or a value is invalid; the message names the
    /// line and the key.
    pub fn read_part<T: DeserializeOwned>(&self) -> anyhow::Result<T> {
        let read = T::deserialize(PartReader::new(self));
        read.map_err(|error| error.into_table_error(self))
    }

    /// Reads the value of a key.
    ///
    /// # Errors
    /// Fails if the value is invalid.
    pub fn read_key<T: DeserializeOwned>(&self, key: &str) -> anyhow::Result<Option<T>> {
        let Some(part) = self.part(key) else { return Ok(None) };
        let read = T::deserialize(PartReader::new(&part)).map(Some);
        read.map_err(|error| error.complete_at_key(key, self).into_table_error(self))
    }
}

/// Deserializer of a node.
pub struct PartReader<'a> {
    place: NodePath,
    node: &'a TreeNode,
    accepts_single: bool,
}

impl<'a> PartReader<'a> {
    /// Creates a reader of a part.
    pub fn new(part: &FilePart<'a>) -> PartReader<'a> {
        PartReader { place: part.place.clone(), node: part.node, accepts_single: false }
    }

    fn current_part(&self) -> FilePart<'a> {
        FilePart::new(&self.place, self.node)
    }

    fn type_error(&self, wanted: &str) -> ReadError {
        ReadError::Value(format!("must be {wanted}"))
    }

    /// Returns the first of the known shapes that the value has.
    fn matching_shape(&self, known: &'static [&'static str]) -> Result<&'static str, ReadError> {
        let has_shape = |shape: &str| match &self.node.content {
            NodeContent::Text(_) => ["a string", "a value", "a number"].contains(&shape),
            NodeContent::Whole(_) | NodeContent::Number(_) => {
                ["a number", "a value"].contains(&shape)
            }
            NodeContent::Truth(_) => shape == "a value",
            NodeContent::List(_) => shape == "a list",
            NodeContent::Table(_) => shape == "a table",
            NodeContent::Other => false,
        };
        let found = known.iter().find(|shape| has_shape(shape));
        let wanted = known.join(" or ").replace("a value", "a string, a number, a boolean");
        found.copied().ok_or_else(|| self.type_error(&wanted))
    }
}

impl<'de> Deserializer<'de> for PartReader<'_> {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match &self.node.content {
            NodeContent::Text(text) => visitor.visit_str(text),
            NodeContent::Whole(number) => visitor.visit_i64(*number),
            NodeContent::Number(number) => visitor.visit_f64(*number),
            NodeContent::Truth(truth) => visitor.visit_bool(*truth),
            NodeContent::List(_) => self.deserialize_seq(visitor),
            NodeContent::Table(_) => self.deserialize_map(visitor),
            NodeContent::Other => visitor.visit_unit(),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.node.content {
            NodeContent::Truth(truth) => visitor.visit_bool(truth),
            _ => Err(self.type_error("true or false")),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        let text = self.node.as_text();
        visitor.visit_str(text.ok_or_else(|| self.type_error("a quoted string"))?)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        self.accepts_single = name == ONE_OR_MORE;
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        let items = match &self.node.content {
            NodeContent::List(items) if items.is_empty() && self.accepts_single => {
                return Err(ReadError::custom("is an empty list"));
            }
            NodeContent::List(items) => items.as_slice(),
            _ if self.accepts_single => std::slice::from_ref(self.node),
            _ => return Err(self.type_error("a list")),
        };
        let is_single = std::ptr::eq(items.as_ptr(), self.node);
        let item = |(index, node)| {
            let place = if is_single { self.place.clone() } else { self.place.list_item(index) };
            PartReader::new(&FilePart::new(&place, node))
        };
        visitor.visit_seq(SeqDeserializer::new(items.iter().enumerate().map(item)))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        let part = self.current_part();
        let table = self.node.as_table().ok_or_else(|| self.type_error("a table"))?;
        let read = visitor.visit_map(TableEntries::new(&part, table));
        read.map_err(|error| error.complete_in_table(&part))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        if name == BY_SHAPE {
            let variant = std::iter::once((self.matching_shape(variants)?, self));
            let variant = MapDeserializer::new(variant);
            return visitor.visit_enum(MapAccessDeserializer::new(variant));
        }
        if let NodeContent::Table(table) = &self.node.content {
            let part = self.current_part();
            let unknown = table.keys().find(|key| !variants.contains(&key.as_str()));
            if let Some(key) = unknown {
                return Err(ReadError::unknown_field(key, variants).complete_in_table(&part));
            }
            if table.len() != 1 {
                let wanted = format!("a table with exactly one of {}", variants.join(", "));
                return Err(self.type_error(&wanted));
            }
            let entry = MapAccessDeserializer::new(TableEntries::new(&part, table));
            return visitor.visit_enum(entry);
        }
        let text = self.node.as_text().ok_or_else(|| self.type_error("a quoted string"))?;
        visitor.visit_enum(StrDeserializer::new(text))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str bytes byte_buf unit unit_struct
        tuple tuple_struct identifier
    }
}

impl<'de> IntoDeserializer<'de, ReadError> for PartReader<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// Iterates over the keys and values of a table.
struct TableEntries<'a, 'p> {
    part: &'p FilePart<'a>,
    keys: Keys<'a, String, TreeNode>,
    key: &'a str,
}

impl<'a, 'p> TableEntries<'a, 'p> {
    fn new(part: &'p FilePart<'a>, table: &'a NodeTable) -> Self {
        let keys = table.keys();
        TableEntries { part, keys, key: "" }
    }
}

impl<'de> MapAccess<'de> for TableEntries<'_, '_> {
    type Error = ReadError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, ReadError> {
        let Some(key) = self.keys.next() else { return Ok(None) };
        self.key = key;
        seed.deserialize(StrDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, ReadError> {
        let part = self.part.part(self.key).ok_or_else(|| ReadError::custom("must be a table"))?;
        let read = seed.deserialize(PartReader::new(&part));
        read.map_err(|error| error.complete_at_key(self.key, self.part))
    }
}

/// Returns the error message for a value that is not among the known names.
pub fn unknown_name(value: &str, known: impl IntoIterator<Item = impl Into<String>>) -> String {
    format!("cannot be '{value}'\nhint: {}", nearest_hint(value, known))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file_part::parse_toml;
    use crate::value::OneOrMany;
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename = "$by-shape")]
    enum Warmup {
        #[serde(rename = "a string")]
        Time(String),
        #[serde(rename = "a table")]
        End(End),
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum End {
        Requests(bool),
        Until(String),
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Keys {
        warmup: Warmup,
        names: OneOrMany<String>,
    }

    fn read(text: &str) -> Result<Keys, String> {
        let tree = parse_toml(text).unwrap();
        let read = FilePart::top(&tree).read_part();
        read.map_err(|error| error.to_string())
    }

    #[test]
    fn an_enum_may_be_chosen_by_the_shape_of_a_value_or_by_the_only_key_of_a_table() {
        let time = read("warmup = '2s'\nnames = 'a'").unwrap();
        assert_eq!(time.warmup, Warmup::Time("2s".to_owned()));
        assert_eq!(time.names.0, ["a"]);
        let until = read("warmup.until = 'steady'\nnames = ['a', 'b']").unwrap();
        assert_eq!(until.warmup, Warmup::End(End::Until("steady".to_owned())));
        assert_eq!(until.names.0, ["a", "b"]);
    }

    #[test]
    fn type_mismatches_are_reported_with_line_key_and_table() {
        for (text, message) in [
            (
                "names = 'a'\nwarmup = [1]",
                "line 2: the key 'warmup' of the file must be a string or a table",
            ),
            (
                "names = 'a'\n[warmup]\nrequests = 5",
                "line 3: the key 'requests' of [warmup] must be true or false",
            ),
            (
                "names = 'a'\nwarmup = { requests = true, until = 'x' }",
                "line 2: the key 'warmup' of the file must be a table with exactly one of requests, until",
            ),
            (
                "names = 'a'\nwarmup = { untill = 'x' }",
                "line 2: [warmup] has an unknown key 'untill'\nhint: did you mean 'until'?",
            ),
            ("names = []", "line 1: the key 'names' of the file is an empty list"),
        ] {
            assert_eq!(read(text).unwrap_err(), message, "{text}");
        }
    }
}
