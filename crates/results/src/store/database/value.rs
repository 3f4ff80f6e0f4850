//! Parameters of statements.

use std::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::store) enum Given<'a> {
    Null,
    /// An integer or a boolean (1 or 0).
    Integer(i64),
    /// A floating-point number.
    Real(f64),
    Text(&'a str),
    Bytes(&'a [u8]),
}

/// Builds the parameters of a statement, in the order of its placeholders.
macro_rules! given {
    ($($value:expr),* $(,)?) => {
        &[$($crate::store::database::Given::from($value)),*]
    };
}
pub(in crate::store) use given;

macro_rules! integers {
    ($($kind:ty)*) => {
        $(impl From<$kind> for Given<'_> {
            fn from(value: $kind) -> Self {
                Given::Integer(i64::from(value))
            }
        })*
    };
}
integers!(i64 i32 u32 bool);

impl From<f64> for Given<'_> {
    fn from(value: f64) -> Self {
        Given::Real(value)
    }
}

impl<'a> From<&'a str> for Given<'a> {
    fn from(value: &'a str) -> Self {
        Given::Text(value)
    }
}

impl<'a> From<&'a String> for Given<'a> {
    fn from(value: &'a String) -> Self {
        Given::Text(value)
    }
}

impl<'a> From<&'a Arc<str>> for Given<'a> {
    fn from(value: &'a Arc<str>) -> Self {
        Given::Text(value)
    }
}

impl<'a> From<&'a Vec<u8>> for Given<'a> {
    fn from(value: &'a Vec<u8>) -> Self {
        Given::Bytes(value)
    }
}

impl<'a, T: Into<Given<'a>>> From<Option<T>> for Given<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Given::Null, T::into)
    }
}

impl<'a> From<&'a Option<String>> for Given<'a> {
    fn from(value: &'a Option<String>) -> Self {
        value.as_deref().into()
    }
}

impl<'a> From<&'a Option<Vec<u8>>> for Given<'a> {
    fn from(value: &'a Option<Vec<u8>>) -> Self {
        value.as_ref().into()
    }
}
