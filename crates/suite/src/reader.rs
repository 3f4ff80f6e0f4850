//! Reads parts of a definition file into types that derive `serde::Deserialize`, with our own
//! messages.
//!
//! Decides which values a type accepts and how errors are reported. Besides serde's features, two
//! type names have a meaning here: an enum renamed to `$by-shape` has variants named after the form
//! of the value (`"a text"`, `"a number"`, `"a list"`, `"a table"`, `"a value"`), and a newtype
//! renamed to `$one-or-more` accepts a single value as a list. Start at [`Reader`]; [`Fault`]
//! becomes a message when the position is known.

use super::part::{Part, Place, nearest_of};
use super::tree::{Content, Node, Table};
use anyhow::Error;
use indexmap::map::Keys;
use serde::de::value::{MapAccessDeserializer, MapDeserializer, SeqDeserializer, StrDeserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, IntoDeserializer, MapAccess,
    Visitor,
};
use serde::forward_to_deserialize_any;
use speedwell_model::nearest;
use std::fmt::Display;

/// Name of enums whose variants differ in the form of the value.
const BY_SHAPE: &str = "$by-shape";

/// Name of lists that may be a single value.
const ONE_OR_MORE: &str = "$one-or-more";

/// An error whose position may not be known yet.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// Error in a value, to be appended to its key, such as `is not a table`.
    #[error("{0}")]
    Value(String),
    /// An unknown key, and a hint.
    #[error("has a key '{0}' that is not known\nhint: {1}")]
    UnknownKey(String, String),
    /// A missing key.
    #[error("has no key '{0}'\nhint: {hint}", hint = example(.0))]
    MissingKey(&'static str),
    /// The complete message.
    #[error("{0}")]
    Whole(Error),
}

/// Returns an example of a required key.
fn example(key: &str) -> &'static str {
    match key {
        "name" => "name = \"http\"",
        "kind" => "kind = \"server\", \"command\" or \"function\"",
        "expr" => "expr = \"throughput(new) > throughput(old)\"",
        "match" => "match = { server = \"express\" }",
        _ => "docs/reference/experiment-file.md describes the keys",
    }
}

impl Fault {
    /// Returns the message about the table.
    pub fn placed_in(self, table: &Part) -> Error {
        match self {
            Fault::Whole(error) => error,
            Fault::UnknownKey(ref key, _) => {
                table.error(key, format!("{} {self}", table.heading()))
            }
            other => table.wrong_table(other),
        }
    }

    /// Completes the message if it concerns a key, not the table as a value.
    fn in_table(self, table: &Part) -> Fault {
        match self {
            Fault::Value(_) => self,
            about_key => Fault::Whole(about_key.placed_in(table)),
        }
    }

    /// Completes the message about the value of one of the table's keys.
    pub fn at_key(self, key: &str, table: &Part) -> Fault {
        match self {
            Fault::Value(message) if message.starts_with(':') => {
                let heading = table.heading();
                let message = format!("the key '{key}' of {heading}{message}");
                Fault::Whole(table.error(key, message))
            }
            Fault::Value(message) => Fault::Whole(table.wrong(key, message)),
            placed => placed,
        }
    }
}

impl serde::de::Error for Fault {
    fn custom<T: Display>(message: T) -> Fault {
        Fault::Value(message.to_string())
    }

    fn invalid_type(_: serde::de::Unexpected<'_>, wanted: &dyn serde::de::Expected) -> Fault {
        Fault::Value(format!("is not {wanted}"))
    }

    fn unknown_variant(value: &str, known: &'static [&'static str]) -> Fault {
        let known: Vec<String> = known.iter().map(|&name| name.to_owned()).collect();
        Fault::Value(unknown_name(value, &known))
    }

    fn unknown_field(key: &str, known: &'static [&'static str]) -> Fault {
        let names: Vec<String> = known.iter().map(|&name| name.to_owned()).collect();
        let hint = match nearest(key, &names) {
            Some(near) => format!("did you mean '{near}'?"),
            None => format!("its keys are {}", known.join(", ")),
        };
        Fault::UnknownKey(key.to_owned(), hint)
    }

    fn duplicate_field(key: &'static str) -> Fault {
        Fault::Value(format!(
            "has the key '{key}' twice, perhaps by another name"
        ))
    }

    fn missing_field(key: &'static str) -> Fault {
        Fault::MissingKey(key)
    }
}

impl Part<'_> {
    /// Reads the part into a type.
    ///
    /// # Errors
    /// A key is unknown or a value is invalid; the message names line and key.
    pub fn read<T: DeserializeOwned>(&self) -> anyhow::Result<T> {
        let read = T::deserialize(Reader::new(self));
        read.map_err(|fault| fault.placed_in(self))
    }

    /// Reads the value of a key.
    ///
    /// # Errors
    /// The value is invalid.
    pub fn read_key<T: DeserializeOwned>(&self, key: &str) -> anyhow::Result<Option<T>> {
        let Some(part) = self.part(key) else {
            return Ok(None);
        };
        let read = T::deserialize(Reader::new(&part)).map(Some);
        read.map_err(|fault| fault.at_key(key, self).placed_in(self))
    }
}

/// Deserializer of a node.
pub struct Reader<'a> {
    place: Place,
    node: &'a Node,
    takes_one: bool,
}

impl<'a> Reader<'a> {
    /// Creates a reader of a part.
    pub fn new(part: &Part<'a>) -> Reader<'a> {
        Reader {
            place: part.place.clone(),
            node: part.node,
            takes_one: false,
        }
    }

    fn part(&self) -> Part<'a> {
        Part::new(&self.place, self.node)
    }

    fn not(&self, wanted: &str) -> Fault {
        Fault::Value(format!("is not {wanted}"))
    }

    /// Returns the first of the known forms that the value has.
    fn shape(&self, known: &'static [&'static str]) -> Result<&'static str, Fault> {
        let fits = |shape: &str| match &self.node.content {
            Content::Text(_) => ["a text", "a value", "a number"].contains(&shape),
            Content::Whole(_) | Content::Number(_) => ["a number", "a value"].contains(&shape),
            Content::Truth(_) => shape == "a value",
            Content::List(_) => shape == "a list",
            Content::Table(_) => shape == "a table",
            Content::Other => false,
        };
        let found = known.iter().find(|shape| fits(shape));
        let wanted = known.join(" or ");
        let wanted = wanted.replace("a value", "a text, a number, a truth value");
        found.copied().ok_or_else(|| self.not(&wanted))
    }
}

impl<'de> Deserializer<'de> for Reader<'_> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.node.content {
            Content::Text(text) => visitor.visit_str(text),
            Content::Whole(number) => visitor.visit_i64(*number),
            Content::Number(number) => visitor.visit_f64(*number),
            Content::Truth(truth) => visitor.visit_bool(*truth),
            Content::List(_) => self.deserialize_seq(visitor),
            Content::Table(_) => self.deserialize_map(visitor),
            Content::Other => visitor.visit_unit(),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.node.content {
            Content::Truth(truth) => visitor.visit_bool(truth),
            _ => Err(self.not("true or false")),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let text = self.node.text();
        visitor.visit_str(text.ok_or_else(|| self.not("a text in quotes"))?)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.takes_one = name == ONE_OR_MORE;
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let items = match &self.node.content {
            Content::List(items) if items.is_empty() && self.takes_one => {
                return Err(Fault::custom("is an empty list"));
            }
            Content::List(items) => items.as_slice(),
            _ if self.takes_one => std::slice::from_ref(self.node),
            _ => return Err(self.not("a list")),
        };
        let is_one = std::ptr::eq(items.as_ptr(), self.node);
        let item = |(at, node)| {
            let place = if is_one {
                self.place.clone()
            } else {
                self.place.item(at)
            };
            Reader::new(&Part::new(&place, node))
        };
        visitor.visit_seq(SeqDeserializer::new(items.iter().enumerate().map(item)))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let (part, table) = (self.part(), self.node.table());
        let table = table.ok_or_else(|| self.not("a table"))?;
        let read = visitor.visit_map(Entries::new(&part, table));
        read.map_err(|fault| fault.in_table(&part))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        if name == BY_SHAPE {
            let variant = std::iter::once((self.shape(variants)?, self));
            let variant = MapDeserializer::new(variant);
            return visitor.visit_enum(MapAccessDeserializer::new(variant));
        }
        if let Content::Table(table) = &self.node.content {
            let part = self.part();
            let unknown = table.keys().find(|key| !variants.contains(&key.as_str()));
            if let Some(key) = unknown {
                return Err(Fault::unknown_field(key, variants).in_table(&part));
            }
            if table.len() != 1 {
                let wanted = format!("a table with exactly one of {}", variants.join(", "));
                return Err(self.not(&wanted));
            }
            let entry = MapAccessDeserializer::new(Entries::new(&part, table));
            return visitor.visit_enum(entry);
        }
        let text = self.node.text();
        let text = text.ok_or_else(|| self.not("a text in quotes"))?;
        visitor.visit_enum(StrDeserializer::new(text))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str bytes byte_buf unit unit_struct
        tuple tuple_struct identifier
    }
}

impl<'de> IntoDeserializer<'de, Fault> for Reader<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// Iterates over the keys and values of a table.
struct Entries<'a, 'p> {
    part: &'p Part<'a>,
    keys: Keys<'a, String, Node>,
    key: &'a str,
}

impl<'a, 'p> Entries<'a, 'p> {
    fn new(part: &'p Part<'a>, table: &'a Table) -> Self {
        let keys = table.keys();
        Entries {
            part,
            keys,
            key: "",
        }
    }
}

impl<'de> MapAccess<'de> for Entries<'_, '_> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Fault> {
        let Some(key) = self.keys.next() else {
            return Ok(None);
        };
        self.key = key;
        seed.deserialize(StrDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Fault> {
        let part = self.part.part(self.key);
        let part = part.ok_or_else(|| Fault::custom("is not a table"))?;
        let read = seed.deserialize(Reader::new(&part));
        read.map_err(|fault| fault.at_key(self.key, self.part))
    }
}

/// Returns the error message for a value that is not among the known names.
pub fn unknown_name(value: &str, known: &[String]) -> String {
    format!("cannot be '{value}'\nhint: {}", nearest_of(value, known))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::parse_toml;
    use crate::value::Many;
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename = "$by-shape")]
    enum Warmup {
        #[serde(rename = "a text")]
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
        names: Many<String>,
    }

    fn read(text: &str) -> Result<Keys, String> {
        let tree = parse_toml(text).unwrap();
        let read = Part::top(&tree).read();
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
    fn what_fits_no_type_is_reported_with_line_key_and_table() {
        for (text, message) in [
            (
                "names = 'a'\nwarmup = [1]",
                "line 2: the key 'warmup' of the file is not a text or a table",
            ),
            (
                "names = 'a'\n[warmup]\nrequests = 5",
                "line 3: the key 'requests' of [warmup] is not true or false",
            ),
            (
                "names = 'a'\nwarmup = { requests = true, until = 'x' }",
                "line 2: the key 'warmup' of the file is not a table with exactly one of requests, until",
            ),
            (
                "names = 'a'\nwarmup = { untill = 'x' }",
                "line 2: [warmup] has a key 'untill' that is not known\nhint: did you mean 'until'?",
            ),
            (
                "names = []",
                "line 1: the key 'names' of the file is an empty list",
            ),
        ] {
            assert_eq!(read(text).unwrap_err(), message, "{text}");
        }
    }
}
