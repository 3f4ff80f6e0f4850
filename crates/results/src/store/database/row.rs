//! Rows, and conversion of columns into Rust values.

use super::Error;
use rusqlite::types::ValueRef;

/// Iterator over the rows of a query.
pub(in crate::store) enum Rows<'a> {
    /// Rows fetched from SQLite one by one.
    Sqlite(rusqlite::Rows<'a>),
    /// All rows of a PostgreSQL query, and the number consumed.
    #[cfg(feature = "postgres")]
    Postgres(Vec<postgres::Row>, usize),
}

impl Rows<'_> {
    /// Returns the next row; `None` after the last.
    pub fn next(&mut self) -> Result<Option<Row<'_>>, Error> {
        match self {
            Rows::Sqlite(rows) => Ok(rows.next()?.map(Row::Sqlite)),
            #[cfg(feature = "postgres")]
            Rows::Postgres(rows, taken) => {
                *taken += 1;
                Ok(rows.get(*taken - 1).map(Row::Postgres))
            }
        }
    }
}

/// A row of a query.
#[derive(Clone, Copy)]
pub(in crate::store) enum Row<'a> {
    /// Of SQLite.
    Sqlite(&'a rusqlite::Row<'a>),
    /// Of PostgreSQL.
    #[cfg(feature = "postgres")]
    Postgres(&'a postgres::Row),
}

/// Raw value of a column.
#[derive(Debug, Clone, Copy)]
pub(in crate::store) enum Held<'a> {
    Null,
    /// An integer.
    Integer(i64),
    /// A floating-point number.
    Real(f64),
    Text(&'a str),
    Bytes(&'a [u8]),
}

impl<'a> Row<'a> {
    /// Returns the value of a column.
    ///
    /// # Errors
    /// The column has another type or is out of range for `T`.
    pub fn get<T: Column>(&self, at: usize) -> Result<T, Error> {
        let held = self.held(at)?;
        T::from_held(held).ok_or_else(|| held.unlike(at, T::KIND))
    }

    /// Returns a string without copying it.
    ///
    /// # Errors
    /// The column has another type.
    pub fn text(&self, at: usize) -> Result<&'a str, Error> {
        self.text_or_null(at)?
            .ok_or_else(|| Held::Null.unlike(at, "a text"))
    }

    /// Returns a string or null.
    ///
    /// # Errors
    /// The column has another type.
    pub fn text_or_null(&self, at: usize) -> Result<Option<&'a str>, Error> {
        match self.held(at)? {
            Held::Null => Ok(None),
            Held::Text(text) => Ok(Some(text)),
            other => Err(other.unlike(at, "a text")),
        }
    }

    /// Returns bytes or null.
    ///
    /// # Errors
    /// The column has another type.
    pub fn bytes_or_null(&self, at: usize) -> Result<Option<&'a [u8]>, Error> {
        match self.held(at)? {
            Held::Null => Ok(None),
            Held::Bytes(bytes) => Ok(Some(bytes)),
            other => Err(other.unlike(at, "bytes")),
        }
    }

    fn held(&self, at: usize) -> Result<Held<'a>, Error> {
        match self {
            Row::Sqlite(row) => Ok(match row.get_ref(at)? {
                ValueRef::Null => Held::Null,
                ValueRef::Integer(number) => Held::Integer(number),
                ValueRef::Real(number) => Held::Real(number),
                ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
                    Ok(text) => Held::Text(text),
                    Err(_) => Held::Bytes(bytes),
                },
                ValueRef::Blob(bytes) => Held::Bytes(bytes),
            }),
            #[cfg(feature = "postgres")]
            Row::Postgres(row) => Ok(super::postgres::held(row, at)?),
        }
    }
}

impl Held<'_> {
    fn unlike(self, column: usize, expected: &'static str) -> Error {
        let found = match self {
            Held::Null => "nothing",
            Held::Integer(_) => "a whole number",
            Held::Real(_) => "a number",
            Held::Text(_) => "a text",
            Held::Bytes(_) => "bytes",
        };
        Error::Column {
            column,
            found,
            expected,
        }
    }
}

/// Type that can be read from a column.
pub(in crate::store) trait Column: Sized {
    /// Name of the expected type, for errors.
    const KIND: &'static str;

    /// Converts the value; `None` if it has another type.
    fn from_held(held: Held<'_>) -> Option<Self>;
}

impl Column for i64 {
    const KIND: &'static str = "a whole number";

    fn from_held(held: Held<'_>) -> Option<i64> {
        match held {
            Held::Integer(number) => Some(number),
            _ => None,
        }
    }
}

macro_rules! smaller_integers {
    ($($kind:ty)*) => {
        $(impl Column for $kind {
            const KIND: &'static str = "a whole number of its range";

            fn from_held(held: Held<'_>) -> Option<$kind> {
                match held {
                    Held::Integer(number) => <$kind>::try_from(number).ok(),
                    _ => None,
                }
            }
        })*
    };
}
smaller_integers!(i32 u32);

impl Column for bool {
    const KIND: &'static str = "yes or no";

    fn from_held(held: Held<'_>) -> Option<bool> {
        i64::from_held(held).map(|number| number != 0)
    }
}

impl Column for f64 {
    const KIND: &'static str = "a number";

    fn from_held(held: Held<'_>) -> Option<f64> {
        match held {
            Held::Real(number) => Some(number),
            Held::Integer(number) => Some(number as f64),
            _ => None,
        }
    }
}

impl Column for String {
    const KIND: &'static str = "a text";

    fn from_held(held: Held<'_>) -> Option<String> {
        match held {
            Held::Text(text) => Some(text.to_owned()),
            _ => None,
        }
    }
}

impl Column for Vec<u8> {
    const KIND: &'static str = "bytes";

    fn from_held(held: Held<'_>) -> Option<Vec<u8>> {
        match held {
            Held::Bytes(bytes) => Some(bytes.to_vec()),
            _ => None,
        }
    }
}

impl<T: Column> Column for Option<T> {
    const KIND: &'static str = T::KIND;

    fn from_held(held: Held<'_>) -> Option<Option<T>> {
        match held {
            Held::Null => Some(None),
            other => T::from_held(other).map(Some),
        }
    }
}
