//! Defines the types of values in definition files: numbers, times, fractions, patterns, single
//! values and lists.
//!
//! Each type rejects invalid values with a message that continues `the key 'x' of [y]`, and has a
//! JSON Schema that lets editors check the same rule. A number may also be written as a string,
//! because strings may contain placeholders and calculations. Start at [`PlainValue`] and
//! [`checked`].

use super::expression;
use regex::Regex;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, Error as _, IgnoredAny};
use serde::{Deserialize, Serialize};
use speedwell_model::{ParameterValue, parse_duration};
use std::borrow::Cow;
use std::marker::PhantomData;
use std::ops::Deref;
use std::time::Duration;

/// A string, a number or a boolean.
#[derive(Debug, Clone, PartialEq, JsonSchema)]
#[schemars(inline, with = "String", extend("type" = ["string", "number", "boolean"]))]
pub struct PlainValue(pub ParameterValue);

impl PlainValue {
    /// Returns the string that a program receives.
    pub fn program_text(&self) -> String {
        self.0.plain()
    }

    /// Returns the number. A string may be a calculation such as `"2*8"`.
    fn as_number(&self) -> Option<f64> {
        match &self.0 {
            ParameterValue::Number(number) => Some(*number).filter(|number| number.is_finite()),
            ParameterValue::Text(text) => expression::evaluate_arithmetic(text),
            ParameterValue::Bool(_) => None,
        }
    }

    /// Returns the whole number if it is at least `min`.
    pub fn as_whole(&self, min: u64) -> Option<u64> {
        // Up to 2^53, every whole number is exactly representable as a float.
        let number = self.as_number()?;
        let is_whole = number.fract() == 0.0 && number >= 0.0 && number < 2f64.powi(53);
        let rounded = is_whole.then_some(number as u64);
        rounded.filter(|rounded| *rounded >= min)
    }
}

impl<'de> Deserialize<'de> for PlainValue {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<PlainValue, D::Error> {
        let to_error = |_| D::Error::custom("must be a string, a number or a boolean");
        ParameterValue::deserialize(reader).map(PlainValue).map_err(to_error)
    }
}

/// Defines a newtype that is checked when it is read. The arguments are the newtype, the type from
/// which it is read, its JSON Schema, and the check. The message of the check continues
/// `the key 'x' of [y]`.
macro_rules! checked {
    ($(#[$meta:meta])* $vis:vis struct $name:ident($inner:ty) from $source:ty as $schema:tt, $check:expr) => {
        $(#[$meta])*
        #[derive(Debug, Clone)]
        $vis struct $name(pub $inner);

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(reader: D) -> Result<$name, D::Error> {
                let check: fn($source) -> Result<$inner, String> = $check;
                let source = <$source as serde::Deserialize>::deserialize(reader)?;
                check(source).map($name).map_err(serde::de::Error::custom)
            }
        }

        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!($schema)
            }
        }
    };
}
pub(crate) use checked;

/// One or more values; a single value needs no list.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename = "$one-or-more")]
pub struct OneOrMany<T>(pub Vec<T>);

impl<T> Default for OneOrMany<T> {
    fn default() -> OneOrMany<T> {
        OneOrMany(Vec::new())
    }
}

impl<T> Deref for OneOrMany<T> {
    type Target = Vec<T>;

    fn deref(&self) -> &Vec<T> {
        &self.0
    }
}

impl<T: JsonSchema> JsonSchema for OneOrMany<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("OneOrMore{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let item = generator.subschema_for::<T>();
        json_schema!({ "anyOf": [item, { "type": "array", "minItems": 1, "items": item }] })
    }
}

/// A string, or a table that says more.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "$by-shape")]
#[schemars(untagged, inline)]
pub enum TextOrTable<S, T> {
    #[serde(rename = "a string")]
    Text(S),
    #[serde(rename = "a table")]
    Table(T),
}

checked! {
    /// A number, or a string with a calculation.
    #[derive(Copy)]
    pub struct NumberValue(f64) from PlainValue as { "type": ["number", "string"] },
    |value| value.as_number().ok_or("must be a number".to_owned())
}

/// A whole number of at least `LEAST`, or a string with a calculation that yields one.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(try_from = "PlainValue")]
#[schemars(inline, extend("type" = ["integer", "string"], "minimum" = LEAST))]
pub struct WholeNumber<const LEAST: u64>(pub u64);

impl<const LEAST: u64> TryFrom<PlainValue> for WholeNumber<LEAST> {
    type Error = String;

    fn try_from(value: PlainValue) -> Result<Self, String> {
        let wanted = match LEAST {
            0 => "must be a whole number".to_owned(),
            1 => "must be a whole number above 0".to_owned(),
            least => format!("must be a whole number of at least {least}"),
        };
        value.as_whole(LEAST).map(WholeNumber).ok_or(wanted)
    }
}

checked! {
    /// A count: a whole number above 0, or a string with a calculation that yields one.
    #[derive(Copy)]
    pub struct PositiveCount(u32) from WholeNumber<1> as { "type": ["integer", "string"], "minimum": 1 },
    |count| u32::try_from(count.0).map_err(|_| "must be below 2^32".to_owned())
}

checked! {
    /// A fraction: `"3%"` or `0.03`.
    #[derive(Copy)]
    pub struct ShareValue(f64) from PlainValue as {
        "type": ["number", "string"], "exclusiveMinimum": 0, "exclusiveMaximum": 1
    },
    |value| {
        let share = value.as_number().filter(|share| *share > 0.0 && *share < 1.0);
        share.ok_or("must be a fraction between 0 and 1, such as 0.03 or \"3%\"".to_owned())
    }
}

checked! {
    /// A duration: `"500ms"`, `"3s"`, `"2m"`.
    #[derive(Copy)]
    pub struct DurationValue(Duration) from String as {
        "type": "string", "pattern": r"^[0-9.]+ *(ns|us|µs|μs|ms|s|m|min|h)?$|\{[A-Za-z_]"
    },
    |text| {
        let error = || format!(": cannot parse duration '{text}': expected e.g. \"500ms\" or \
                                \"3s\"");
        parse_duration(&text).ok_or_else(error)
    }
}

checked! {
    /// A regular expression.
    pub struct RegexPattern(String) from String as { "type": "string" },
    |pattern| {
        let Err(error) = Regex::new(&pattern) else { return Ok(pattern) };
        let explained = error.to_string();
        let last_line = explained.lines().last().unwrap_or_default();
        let why = last_line.trim_start_matches("error: ");
        Err(format!(": cannot parse pattern '{pattern}': {why}"))
    }
}

checked! {
    /// Path of a request: `"/items"`.
    pub struct UrlPath(String) from String as {
        "type": "string", "pattern": r"^(/|\{[A-Za-z_])\S*$"
    },
    |path| {
        let is_path = path.starts_with('/') && !path.contains(char::is_whitespace);
        let error = format!(": cannot parse path '{path}': expected e.g. \"/\"");
        is_path.then_some(path).ok_or(error)
    }
}

/// A value that is read for each case, after its placeholders have been filled.
#[derive(Debug, Clone)]
pub struct DeferredValue<T>(PhantomData<T>);

impl<'de, T> Deserialize<'de> for DeferredValue<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<DeferredValue<T>, D::Error> {
        IgnoredAny::deserialize(deserializer)?;
        Ok(DeferredValue(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for DeferredValue<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

/// Returns the name of a choice, as spelled in files.
pub fn choice_name(choice: &impl Serialize) -> String {
    let name = serde_json::to_value(choice).unwrap_or_default();
    name.as_str().unwrap_or_default().to_owned()
}

/// Returns the JSON Schema of a type as a string.
pub fn schema_of<T: JsonSchema>() -> String {
    let settings = SchemaSettings::draft2020_12().with_transform(RecursiveTransform(without_null));
    let schema = settings.into_generator().into_root_schema_for::<T>();
    format!("{:#}\n", schema.to_value())
}

/// Removes `null` from optional keys: they may be absent, but not null.
fn without_null(schema: &mut Schema) {
    let is_null = |value: &serde_json::Value| value == "null" || value["type"] == "null";
    if schema.get("default").is_some_and(serde_json::Value::is_null) {
        schema.remove("default");
    }
    for key in ["type", "anyOf"] {
        let Some(serde_json::Value::Array(choices)) = schema.get_mut(key) else { continue };
        choices.retain(|choice| !is_null(choice));
        let [only] = choices.as_mut_slice() else { continue };
        match only.take() {
            serde_json::Value::Object(only) => {
                schema.remove(key);
                for (key, value) in only {
                    let described = schema.get(&key).is_none();
                    if described {
                        schema.insert(key, value);
                    }
                }
            }
            only => {
                schema.insert(key.to_owned(), only);
            }
        }
    }
}

/// Allows a placeholder where one of several names is expected.
pub fn or_placeholder(schema: &mut Schema) {
    let original = std::mem::take(schema);
    *schema = json_schema!({
        "anyOf": [original, { "type": "string", "pattern": r"\{[A-Za-z_]\w*\}" }]
    });
}
