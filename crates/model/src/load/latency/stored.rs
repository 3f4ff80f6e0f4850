//! Stores times and outcomes through serde without loss.

use super::{
    ByOutcome, ExactSums, OutcomeSet, RequestOutcome, SIGNIFICANT_DIGITS, TimeDistribution,
    TimeQuantity, TimeValues, new_histogram,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer as Payload, Serializer as _, V2DeflateSerializer};
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::marker::PhantomData;

/// The stored form of times. The sums are text, because they exceed the range of numbers in most
/// formats.
#[derive(Serialize, Deserialize)]
struct SerializedTimes {
    histogram: String,
    #[serde(alias = "least_ns")]
    min_ns: u64,
    #[serde(alias = "greatest_ns")]
    max_ns: u64,
    sum_ns: String,
    #[serde(alias = "squares")]
    sum_of_squares: String,
    beyond: u64,
    lower_bounds: u64,
    #[serde(alias = "least_lower_bound_ns")]
    min_lower_bound_ns: u64,
}

impl<K: TimeQuantity> Serialize for TimeDistribution<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let values = &self.values;
        let mut payload = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&values.to_histogram(), &mut payload)
            .map_err(|error| S::Error::custom(error.to_string()))?;
        let record = SerializedTimes {
            histogram: STANDARD.encode(payload),
            min_ns: values.moments.min_ns,
            max_ns: values.moments.max_ns,
            sum_ns: values.moments.sum.to_string(),
            sum_of_squares: values.moments.sum_of_squares.to_string(),
            beyond: values.beyond,
            lower_bounds: values.lower_bounds,
            min_lower_bound_ns: values.min_lower_bound_ns,
        };
        record.serialize(serializer)
    }
}

impl<'de, K: TimeQuantity> Deserialize<'de> for TimeDistribution<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let record = SerializedTimes::deserialize(deserializer)?;
        let payload = STANDARD.decode(&record.histogram).map_err(D::Error::custom)?;
        let stored: Histogram<u64> =
            Payload::new().deserialize(&mut payload.as_slice()).map_err(D::Error::custom)?;
        let whole = |text: &str| text.parse().map_err(D::Error::custom);
        let moments = ExactSums {
            min_ns: record.min_ns,
            max_ns: record.max_ns,
            sum: whole(&record.sum_ns)?,
            sum_of_squares: whole(&record.sum_of_squares)?,
        };
        let mut histogram = new_histogram();
        if stored.sigfig() != SIGNIFICANT_DIGITS || histogram.add(&stored).is_err() {
            return Err(D::Error::custom("the histogram has unexpected bounds"));
        }
        let values = TimeValues {
            early: Vec::new(),
            histogram: Some(histogram),
            moments,
            beyond: record.beyond,
            lower_bounds: record.lower_bounds,
            min_lower_bound_ns: record.min_lower_bound_ns,
        };
        Ok(TimeDistribution { values, kind: PhantomData })
    }
}

impl Serialize for RequestOutcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for RequestOutcome {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        RequestOutcome::from_name(&name)
            .ok_or_else(|| D::Error::custom(format!("unknown outcome '{name}'")))
    }
}

impl<T: OutcomeSet + Serialize> Serialize for ByOutcome<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(outcome, set)| (outcome.name(), set)))
    }
}

impl<'de, T: OutcomeSet + Deserialize<'de>> Deserialize<'de> for ByOutcome<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut sets = ByOutcome::default();
        for (name, set) in BTreeMap::<String, T>::deserialize(deserializer)? {
            let outcome = RequestOutcome::from_name(&name)
                .ok_or_else(|| D::Error::custom(format!("unknown outcome '{name}'")))?;
            *sets.get_or_create(outcome) = set;
        }
        Ok(sets)
    }
}
