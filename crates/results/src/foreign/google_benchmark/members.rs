//! How a row is spelled: the members of its object.
//!
//! Decides which members the library writes itself; any other number is a counter. A large file has
//! hundreds of thousands of rows, so they are read straight from the text. Start at [`Row`]'s
//! `deserialize`.

use super::row::{Kind, Row};
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use speedwell_model::{Better, Metric};
use std::borrow::Cow;
use std::fmt;

/// Members that are known and of no use here.
const UNUSED: [&str; 5] = [
    "family_index",
    "per_family_instance_index",
    "repetitions",
    "repetition_index",
    "aggregate_unit",
];

impl<'de> Deserialize<'de> for Row {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Row, D::Error> {
        source.deserialize_map(RowVisitor)
    }
}

struct RowVisitor;

impl<'de> Visitor<'de> for RowVisitor {
    type Value = Row;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Row, A::Error> {
        let mut members = Members::default();
        while let Some(Text(key)) = map.next_key::<Text<'de>>()? {
            members.take(&key, &mut map)?;
        }
        members.into_row()
    }
}

/// What has been read of a row. Null is the same as absent: it stands for a number that is not
/// finite.
#[derive(Default)]
struct Members<'de> {
    name: Option<Text<'de>>,
    run_name: Option<Text<'de>>,
    run_type: Option<Text<'de>>,
    aggregate_name: Option<Text<'de>>,
    threads: Option<f64>,
    iterations: Option<f64>,
    real_time: Option<f64>,
    cpu_time: Option<f64>,
    time_unit: Option<Text<'de>>,
    real_coefficient: Option<f64>,
    cpu_coefficient: Option<f64>,
    rms: Option<f64>,
    big_o: Option<Text<'de>>,
    error_occurred: bool,
    error_message: Option<Text<'de>>,
    skipped: bool,
    skip_message: Option<Text<'de>>,
    label: Option<Text<'de>>,
    counters: Vec<(String, f64)>,
}

impl<'de> Members<'de> {
    fn take<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "name" => self.name = member(key, map)?,
            "run_name" => self.run_name = member(key, map)?,
            "run_type" => self.run_type = member(key, map)?,
            "aggregate_name" => self.aggregate_name = member(key, map)?,
            "threads" => self.threads = member(key, map)?,
            "iterations" => self.iterations = member(key, map)?,
            "real_time" => self.real_time = member(key, map)?,
            "cpu_time" => self.cpu_time = member(key, map)?,
            "time_unit" => self.time_unit = member(key, map)?,
            "real_coefficient" => self.real_coefficient = member(key, map)?,
            "cpu_coefficient" => self.cpu_coefficient = member(key, map)?,
            "rms" => self.rms = member(key, map)?,
            "big_o" => self.big_o = member(key, map)?,
            "error_occurred" => self.error_occurred = member(key, map)?.unwrap_or_default(),
            "error_message" => self.error_message = member(key, map)?,
            "skipped" => self.skipped = member(key, map)?.unwrap_or_default(),
            "skip_message" => self.skip_message = member(key, map)?,
            "label" => self.label = member(key, map)?,
            _ if UNUSED.contains(&key) => drop(map.next_value::<IgnoredAny>()?),
            _ => {
                let counter = map.next_value::<Loose>()?.0;
                let counter = counter.map(|value| (key.to_owned(), value));
                self.counters.extend(counter);
            }
        }
        Ok(())
    }

    /// The figures of a fit over a family.
    fn fit(&self, ns_per_unit: f64) -> Vec<(Metric, f64)> {
        let figures = [
            ("real_coefficient", "ns", self.real_coefficient, ns_per_unit),
            ("cpu_coefficient", "ns", self.cpu_coefficient, ns_per_unit),
            ("rms", "", self.rms, 1.0),
        ];
        let metric = |(name, unit, figure, factor): (&str, &str, Option<f64>, f64)| {
            Some((Metric::new(name, unit, Better::Lower), figure? * factor))
        };
        figures.into_iter().filter_map(metric).collect()
    }

    fn into_row<E: Error>(self) -> Result<Row, E> {
        let factor = match self.real_time.or(self.cpu_time) {
            None if self.big_o.is_none() => 1.0,
            _ => ns_per_unit(self.time_unit.as_ref().map(|text| &*text.0))?,
        };
        let fit = self.fit(factor);
        let owned = |text: Option<Text<'de>>| text.map(|text| text.0.into_owned());
        let name = owned(self.name).ok_or_else(|| E::custom("the key 'name' is missing"))?;
        let kind = match self.run_type.as_ref().map(|text| &*text.0) {
            Some("aggregate") => Kind::Aggregate(owned(self.aggregate_name).unwrap_or_default()),
            Some(_) => Kind::Iteration,
            None => Kind::Unsaid,
        };
        let name = if fit.is_empty() {
            name
        } else {
            // Old files have the name of the row alone.
            without_end(&name).to_owned()
        };
        let reason = |is_so: bool, message| is_so.then(|| owned(message).unwrap_or_default());
        Ok(Row {
            name: owned(self.run_name).unwrap_or(name),
            kind,
            iterations: self.iterations,
            threads: self.threads.unwrap_or(1.0),
            real_ns: self.real_time.map(|time| time * factor),
            cpu_ns: self.cpu_time.map(|time| time * factor),
            counters: self.counters,
            fit,
            big_o: owned(self.big_o),
            error: reason(self.error_occurred, self.error_message),
            skipped: reason(self.skipped, self.skip_message),
            label: owned(self.label).filter(|label| !label.is_empty()),
        })
    }
}

/// The name of a family without what a fit's has behind it.
fn without_end(name: &str) -> &str {
    let mut ends = ["_BigO", "_RMS"].into_iter();
    ends.find_map(|end| name.strip_suffix(end)).unwrap_or(name)
}

/// The value of a member that must be of one type, or null.
fn member<'de, A: MapAccess<'de>, T: Deserialize<'de>>(
    key: &str,
    map: &mut A,
) -> Result<Option<T>, A::Error> {
    let value = map.next_value::<Option<T>>();
    value.map_err(|error| A::Error::custom(format!("'{key}': {error}")))
}

fn ns_per_unit<E: Error>(unit: Option<&str>) -> Result<f64, E> {
    let unit = unit.ok_or_else(|| E::custom("the key 'time_unit' is missing"))?;
    ns_per(unit).ok_or_else(|| E::custom(format!("'time_unit' is '{unit}', not ns, us, ms or s")))
}

/// Nanoseconds in one of a unit that the library writes; `None` for any other name.
pub fn ns_per(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return None,
    })
}

/// A text that is copied only if it holds escapes.
pub(super) struct Text<'de>(pub(super) Cow<'de, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Text<'de>, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a text")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        source.deserialize_str(TextVisitor)
    }
}

/// A number, or anything else, which is passed over.
struct Loose(Option<f64>);

impl<'de> Deserialize<'de> for Loose {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Loose, D::Error> {
        source.deserialize_any(LooseVisitor)
    }
}

struct LooseVisitor;

impl<'de> Visitor<'de> for LooseVisitor {
    type Value = Loose;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a value")
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Loose, E> {
        Ok(Loose(Some(value)))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Loose, E> {
        Ok(Loose(Some(value as f64)))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Loose, E> {
        Ok(Loose(Some(value as f64)))
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Loose, E> {
        Ok(Loose(None))
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Loose, E> {
        Ok(Loose(None))
    }

    fn visit_unit<E: Error>(self) -> Result<Loose, E> {
        Ok(Loose(None))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Loose, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Loose(None))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Loose, A::Error> {
        while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Loose(None))
    }
}
