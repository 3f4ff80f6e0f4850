//! Serializes the adapters in a plan: a built-in adapter by its name, any other adapter in full. A
//! resumed session thus uses the same adapters.

use super::registry::builtin_adapter;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use speedwell_config::adapter::SuiteAdapter;
use std::sync::Arc;

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum StoredAdapter {
    Name(String),
    Whole(Arc<SuiteAdapter>),
}

/// Serializes an adapter.
///
/// # Errors
/// Returns errors of the serializer.
pub fn serialize<S: Serializer>(
    adapter: &Option<Arc<SuiteAdapter>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let stored = adapter.as_ref().map(|adapter| {
        let is_shipped = builtin_adapter(&adapter.name).is_some_and(|builtin| builtin == *adapter);
        if is_shipped {
            StoredAdapter::Name(adapter.name.clone())
        } else {
            StoredAdapter::Whole(adapter.clone())
        }
    });
    stored.serialize(serializer)
}

/// Deserializes an adapter.
///
/// # Errors
/// Fails if there is no built-in adapter of that name.
pub fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Arc<SuiteAdapter>>, D::Error> {
    match Option::<StoredAdapter>::deserialize(deserializer)? {
        Some(StoredAdapter::Name(name)) => {
            let unknown = || serde::de::Error::custom(format!("unknown suite '{name}'"));
            builtin_adapter(&name).map(Some).ok_or_else(unknown)
        }
        Some(StoredAdapter::Whole(adapter)) => Ok(Some(adapter)),
        None => Ok(None),
    }
}
