//! Serializes adapters in a plan: a built-in one by name, any other in full, so that a resumed
//! session uses the same.

use super::known::shipped;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use speedwell_suite::adapter::Adapter;
use std::sync::Arc;

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Stored {
    Name(String),
    Whole(Arc<Adapter>),
}

/// Serializes an adapter.
///
/// # Errors
/// Errors of the serializer.
pub fn serialize<S: Serializer>(adapter: &Option<Arc<Adapter>>, to: S) -> Result<S::Ok, S::Error> {
    let stored = adapter.as_ref().map(|adapter| {
        let is_shipped = shipped(&adapter.name).is_some_and(|own| own == *adapter);
        if is_shipped {
            Stored::Name(adapter.name.clone())
        } else {
            Stored::Whole(adapter.clone())
        }
    });
    stored.serialize(to)
}

/// Deserializes an adapter.
///
/// # Errors
/// There is no built-in adapter of that name.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Arc<Adapter>>, D::Error> {
    match Option::<Stored>::deserialize(from)? {
        Some(Stored::Name(name)) => {
            let unknown = || serde::de::Error::custom(format!("there is no suite '{name}'"));
            shipped(&name).map(Some).ok_or_else(unknown)
        }
        Some(Stored::Whole(adapter)) => Ok(Some(adapter)),
        None => Ok(None),
    }
}
