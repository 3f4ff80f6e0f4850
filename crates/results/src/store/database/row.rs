//! Rows, and how a column becomes a value of ours.

use super::Error;
use rusqlite::types::ValueRef;

/// The rows of a query, one after the other.
pub(in crate::store) enum Rows<'a> {
    /// Read from the file one by one.
    Sqlite(rusqlite::Rows<'a>),
    /// All of them, and how many were taken.
    #[cfg(feature = "postgres")]
    Postgres(Vec<postgres::Row>, usize),
}

impl Rows<'_> {
    /// The next row; `None` after the last.
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

/// One row.
#[derive(Clone, Copy)]
pub(in crate::store) enum Row<'a> {
    /// Of a file.
    Sqlite(&'a rusqlite::Row<'a>),
    /// Of a server.
    #[cfg(feature = "postgres")]
    Postgres(&'a postgres::Row),
}

/// What a column holds.
#[derive(Debug, Clone, Copy)]
pub(in crate::store) enum Held<'a> {
    /// Nothing.
    Null,
    /// A whole number.
    Integer(i64),
    /// A number.
    Real(f64),
    /// A text.
    Text(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
}

impl<'a> Row<'a> {
    /// A column's value.
    ///
    /// # Errors
    /// It is of another kind, or too large for `T`.
    pub fn get<T: Column>(&self, at: usize) -> Result<T, Error> {
        let held = self.held(at)?;
        T::of(held).ok_or_else(|| held.unlike(at, T::KIND))
    }

    /// A text, without a copy of it.
    ///
    /// # Errors
    /// It is of another kind.
    pub fn text(&self, at: usize) -> Result<&'a str, Error> {
        self.text_or_null(at)?
            .ok_or_else(|| Held::Null.unlike(at, "a text"))
    }

    /// A text or nothing.
    ///
    /// # Errors
    /// It is of another kind.
    pub fn text_or_null(&self, at: usize) -> Result<Option<&'a str>, Error> {
        match self.held(at)? {
            Held::Null => Ok(None),
            Held::Text(text) => Ok(Some(text)),
            other => Err(other.unlike(at, "a text")),
        }
    }

    /// Bytes or nothing.
    ///
    /// # Errors
    /// It is of another kind.
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

/// What can be read from a column.
pub(in crate::store) trait Column: Sized {
    /// Its kind in words.
    const KIND: &'static str;

    /// The value; `None` if the column holds something else.
    fn of(held: Held<'_>) -> Option<Self>;
}

impl Column for i64 {
    const KIND: &'static str = "a whole number";

    fn of(held: Held<'_>) -> Option<i64> {
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

            fn of(held: Held<'_>) -> Option<$kind> {
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

    fn of(held: Held<'_>) -> Option<bool> {
        i64::of(held).map(|number| number != 0)
    }
}

impl Column for f64 {
    const KIND: &'static str = "a number";

    fn of(held: Held<'_>) -> Option<f64> {
        match held {
            Held::Real(number) => Some(number),
            Held::Integer(number) => Some(number as f64),
            _ => None,
        }
    }
}

impl Column for String {
    const KIND: &'static str = "a text";

    fn of(held: Held<'_>) -> Option<String> {
        match held {
            Held::Text(text) => Some(text.to_owned()),
            _ => None,
        }
    }
}

impl Column for Vec<u8> {
    const KIND: &'static str = "bytes";

    fn of(held: Held<'_>) -> Option<Vec<u8>> {
        match held {
            Held::Bytes(bytes) => Some(bytes.to_vec()),
            _ => None,
        }
    }
}

impl<T: Column> Column for Option<T> {
    const KIND: &'static str = T::KIND;

    fn of(held: Held<'_>) -> Option<Option<T>> {
        match held {
            Held::Null => Some(None),
            other => T::of(other).map(Some),
        }
    }
}
