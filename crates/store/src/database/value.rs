//! Converts Rust values into parameters of statements.

use std::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum SqlParam<'a> {
    Null,
    /// An integer or a boolean (1 or 0).
    Integer(i64),
    Real(f64),
    Text(&'a str),
    Bytes(&'a [u8]),
}

/// Builds the parameters of a statement, in the order of its placeholders.
macro_rules! sql_params {
    ($($value:expr),* $(,)?) => {
        &[$($crate::database::SqlParam::from($value)),*]
    };
}
pub(crate) use sql_params;

macro_rules! integers {
    ($($kind:ty)*) => {
        $(impl From<$kind> for SqlParam<'_> {
            fn from(value: $kind) -> Self {
                SqlParam::Integer(i64::from(value))
            }
        })*
    };
}
integers!(i64 i32 u32 bool);

impl From<f64> for SqlParam<'_> {
    fn from(value: f64) -> Self {
        SqlParam::Real(value)
    }
}

impl<'a> From<&'a str> for SqlParam<'a> {
    fn from(value: &'a str) -> Self {
        SqlParam::Text(value)
    }
}

impl<'a> From<&'a String> for SqlParam<'a> {
    fn from(value: &'a String) -> Self {
        SqlParam::Text(value)
    }
}

impl<'a> From<&'a Arc<str>> for SqlParam<'a> {
    fn from(value: &'a Arc<str>) -> Self {
        SqlParam::Text(value)
    }
}

impl<'a> From<&'a Vec<u8>> for SqlParam<'a> {
    fn from(value: &'a Vec<u8>) -> Self {
        SqlParam::Bytes(value)
    }
}

impl<'a, T: Into<SqlParam<'a>>> From<Option<T>> for SqlParam<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(SqlParam::Null, T::into)
    }
}

impl<'a> From<&'a Option<String>> for SqlParam<'a> {
    fn from(value: &'a Option<String>) -> Self {
        value.as_deref().into()
    }
}

impl<'a> From<&'a Option<Vec<u8>>> for SqlParam<'a> {
    fn from(value: &'a Option<Vec<u8>>) -> Self {
        value.as_ref().into()
    }
}
