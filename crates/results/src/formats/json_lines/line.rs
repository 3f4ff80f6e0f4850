//! What the lines look like. Everything about the format is on this page; `json_lines.rs` turns it
//! into sessions and back.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::value::RawValue;
use speedwell_model::{
    Design, Environment, Failure, Metric, Recorded, State, Usage, Value, Variant,
};
use std::borrow::Cow;
use std::fmt;

/// The version written here, and the highest that is read.
pub(super) const VERSION: u64 = 1;

/// The kinds of lines. Exactly one of the keys is present.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Line<'a> {
    /// `session` marks a header; the rest of the line is a [`HeaderLine`].
    #[serde(skip_serializing)]
    pub speedwell: Option<String>,
    #[serde(skip_serializing)]
    pub version: Option<u64>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunLine<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<Cow<'a, Failure>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub profile: Option<ProfileLine<'a>>,
}

/// The header of a session.
#[derive(Serialize, Deserialize)]
pub(super) struct HeaderLine {
    pub speedwell: String,
    pub version: u64,
    pub id: String,
    pub started_unix_ms: i64,
    pub state: State,
    #[serde(default)]
    pub tags: Vec<String>,
    #[serde(default)]
    pub command: Vec<String>,
    pub design: Design,
    pub variants: Vec<Variant>,
    pub metrics: Vec<Metric>,
    #[serde(default)]
    pub environment: Environment,
    /// How many lines of each kind belong to the session, so that a file cut short is noticed.
    /// A program that writes while it measures leaves them out.
    pub runs: Option<usize>,
    pub failures: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profiles: Option<usize>,
}

/// One run.
#[derive(Serialize, Deserialize)]
pub(super) struct RunLine<'a> {
    #[serde(borrow)]
    pub benchmark: Cow<'a, str>,
    /// Name and value of every parameter, in the order in which the benchmark reports them.
    #[serde(default)]
    pub parameters: Cow<'a, [(String, Value)]>,
    #[serde(borrow)]
    pub variant: Cow<'a, str>,
    pub slot: u32,
    #[serde(default)]
    pub block: u32,
    #[serde(default)]
    pub started_unix_ms: i64,
    #[serde(default)]
    pub wall_ns: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    #[serde(borrow)]
    pub samples: Vec<SampleLine<'a>>,
    #[serde(default, skip_serializing_if = "<[String]>::is_empty")]
    pub notes: Cow<'a, [String]>,
    /// The HTTP load that the run was.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub load: Option<&'a RawValue>,
}

/// Where a case under a variant spent its time.
#[derive(Serialize, Deserialize)]
pub(super) struct ProfileLine<'a> {
    #[serde(borrow)]
    pub benchmark: Cow<'a, str>,
    /// As in a run.
    #[serde(default)]
    pub parameters: Cow<'a, [(String, Value)]>,
    #[serde(borrow)]
    pub variant: Cow<'a, str>,
    #[serde(flatten)]
    pub profile: Recorded,
}

/// One sample of a run.
#[derive(Serialize, Deserialize)]
pub(super) struct SampleLine<'a> {
    #[serde(borrow)]
    pub metric: Cow<'a, str>,
    pub value: Number,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iterations: Option<Number>,
}

/// A number that need not be finite: JSON has no word for those, so they are written as the
/// strings that JavaScript prints.
#[derive(Clone, Copy)]
pub(super) struct Number(pub f64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            number if number.is_finite() => out.serialize_f64(number),
            number if number.is_nan() => out.serialize_str("NaN"),
            number if number > 0.0 => out.serialize_str("Infinity"),
            _ => out.serialize_str("-Infinity"),
        }
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Number, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Number;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a number, \"NaN\", \"Infinity\" or \"-Infinity\"")
            }
            fn visit_f64<E>(self, number: f64) -> Result<Number, E> {
                Ok(Number(number))
            }
            fn visit_i64<E>(self, number: i64) -> Result<Number, E> {
                Ok(Number(number as f64))
            }
            fn visit_u64<E>(self, number: u64) -> Result<Number, E> {
                Ok(Number(number as f64))
            }
            fn visit_str<E: de::Error>(self, word: &str) -> Result<Number, E> {
                match word {
                    "NaN" => Ok(Number(f64::NAN)),
                    "Infinity" => Ok(Number(f64::INFINITY)),
                    "-Infinity" => Ok(Number(f64::NEG_INFINITY)),
                    _ => Err(E::invalid_value(de::Unexpected::Str(word), &self)),
                }
            }
        }
        from.deserialize_any(Visitor)
    }
}
