//! Defines the machine-readable value of a table cell, with every digit.
//!
//! A [`Datum`] is equivalent to a JSON value but needs less memory. A table of ten thousand rows
//! has hundreds of thousands of cells.

use serde_json::{Number, Value};

/// A scalar or JSON value.
#[derive(Debug, Clone, PartialEq)]
pub enum Datum {
    /// A number.
    Number(Number),
    /// A string.
    Text(Box<str>),
    /// Any other JSON value.
    Other(Box<Value>),
}

impl Datum {
    /// Converts to JSON.
    pub fn to_json(&self) -> Value {
        match self {
            Datum::Number(number) => Value::Number(number.clone()),
            Datum::Text(text) => Value::String(text.to_string()),
            Datum::Other(value) => Value::clone(value),
        }
    }

    /// Returns the number, if this is a number.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Datum::Number(number) => number.as_f64(),
            _ => None,
        }
    }

    /// Returns the string, if this is a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Datum::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Whether the value is an array or an object.
    pub fn is_nested(&self) -> bool {
        matches!(self, Datum::Other(value) if value.is_array() || value.is_object())
    }
}

impl From<Value> for Datum {
    fn from(value: Value) -> Datum {
        match value {
            Value::Number(number) => Datum::Number(number),
            Value::String(text) => Datum::Text(text.into()),
            other => Datum::Other(Box::new(other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::ReportCell;
    use serde_json::json;

    #[test]
    fn a_datum_keeps_its_json_value() {
        for value in [json!(1), json!(0.25), json!("a"), json!(true), json!(null), json!([1, "b"])]
        {
            let datum = Datum::from(value.clone());
            assert_eq!(datum.to_json(), value);
            assert_eq!(datum.as_f64(), value.as_f64());
            assert_eq!(datum.as_str(), value.as_str());
            assert_eq!(datum.is_nested(), value.is_array());
        }
    }

    #[test]
    fn a_report_cell_takes_at_most_64_bytes() {
        assert!(size_of::<ReportCell>() <= 64, "{}", size_of::<ReportCell>());
    }
}
