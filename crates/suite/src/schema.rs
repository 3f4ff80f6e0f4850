//! The JSON Schema of definition files: what `schemars` makes of the types that they are read into, for editors.
//!
//! It decides only what the types cannot say: no key may be `null`, and a name that is chosen among known ones may come
//! from a placeholder. Start at [`generate`].

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema, json_schema};
use serde_json::Value;

/// The schema of a type, as a text.
pub fn generate<T: JsonSchema>() -> String {
    let settings = SchemaSettings::draft2020_12();
    let settings = settings.with_transform(RecursiveTransform(without_null));
    let schema = settings.into_generator().into_root_schema_for::<T>();
    format!("{:#}\n", schema.to_value())
}

/// What is optional for serde may be absent here, but not `null`.
fn without_null(schema: &mut Schema) {
    let is_null = |value: &Value| value == "null" || value["type"] == "null";
    if schema.get("default").is_some_and(Value::is_null) {
        schema.remove("default");
    }
    for key in ["type", "anyOf"] {
        let Some(Value::Array(choices)) = schema.get_mut(key) else {
            continue;
        };
        choices.retain(|choice| !is_null(choice));
        let [only] = choices.as_mut_slice() else {
            continue;
        };
        match only.take() {
            Value::Object(only) => {
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

/// A name that is chosen among known ones may also come from a placeholder.
pub fn or_placeholder(schema: &mut Schema) {
    let known = std::mem::take(schema);
    *schema = json_schema!({
        "anyOf": [known, { "type": "string", "pattern": r"\{[A-Za-z_]\w*\}" }]
    });
}
