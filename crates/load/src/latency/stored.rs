//! Times as they are written to files, without loss: the histogram as a V2 payload, sums as text.

use super::values::Stored;
use super::{ByOutcome, Distribution, Kind, Outcome, Timed, Values};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::{Deserializer as Payload, Serializer as _, V2DeflateSerializer};
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

/// The stored form. Sums outgrow the numbers of most formats.
#[derive(Serialize, Deserialize)]
struct Record {
    histogram: String,
    least_ns: u64,
    greatest_ns: u64,
    sum_ns: String,
    squares: String,
    beyond: u64,
    lower_bounds: u64,
    least_lower_bound_ns: u64,
}

impl<K: Kind> Serialize for Distribution<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let stored = self.stored();
        let mut payload = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&stored.histogram, &mut payload)
            .map_err(|error| S::Error::custom(error.to_string()))?;
        let record = Record {
            histogram: STANDARD.encode(payload),
            least_ns: stored.least_ns,
            greatest_ns: stored.greatest_ns,
            sum_ns: stored.sum.to_string(),
            squares: stored.squares.to_string(),
            beyond: stored.beyond,
            lower_bounds: stored.lower_bounds,
            least_lower_bound_ns: stored.least_lower_bound_ns,
        };
        record.serialize(serializer)
    }
}

impl<'de, K: Kind> Deserialize<'de> for Distribution<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let record = Record::deserialize(deserializer)?;
        let payload = STANDARD
            .decode(&record.histogram)
            .map_err(D::Error::custom)?;
        let histogram = Payload::new()
            .deserialize(&mut payload.as_slice())
            .map_err(D::Error::custom)?;
        let whole = |text: &str| text.parse().map_err(D::Error::custom);
        Values::restore(Stored {
            histogram,
            least_ns: record.least_ns,
            greatest_ns: record.greatest_ns,
            sum: whole(&record.sum_ns)?,
            squares: whole(&record.squares)?,
            beyond: record.beyond,
            lower_bounds: record.lower_bounds,
            least_lower_bound_ns: record.least_lower_bound_ns,
        })
        .map(Distribution::from)
        .ok_or_else(|| D::Error::custom("the histogram has other bounds"))
    }
}

impl Serialize for Outcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Outcome {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Outcome::from_name(&name)
            .ok_or_else(|| D::Error::custom(format!("there is no outcome called '{name}'")))
    }
}

impl<T: Timed + Serialize> Serialize for ByOutcome<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(outcome, set)| (outcome.name(), set)))
    }
}

impl<'de, T: Timed + Deserialize<'de>> Deserialize<'de> for ByOutcome<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut sets = ByOutcome::default();
        for (name, set) in BTreeMap::<String, T>::deserialize(deserializer)? {
            let outcome = Outcome::from_name(&name)
                .ok_or_else(|| D::Error::custom(format!("there is no outcome called '{name}'")))?;
            *sets.entry(outcome) = set;
        }
        Ok(sets)
    }
}
