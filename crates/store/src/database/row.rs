//! Reads the rows of a query, and converts their columns into Rust values.

use super::errors::Error;
use rusqlite::types::ValueRef;

/// Iterator over the rows of a query.
pub(crate) enum SqlRows<'a> {
    /// Rows fetched from SQLite one by one.
    Sqlite(rusqlite::Rows<'a>),
    /// All rows of a PostgreSQL query, and the number of rows consumed so far.
    #[cfg(feature = "postgres")]
    Postgres(Vec<postgres::Row>, usize),
}

impl SqlRows<'_> {
    /// Returns the next row; `None` after the last.
    pub fn next(&mut self) -> Result<Option<SqlRow<'_>>, Error> {
        match self {
            SqlRows::Sqlite(rows) => Ok(rows.next()?.map(SqlRow::Sqlite)),
            #[cfg(feature = "postgres")]
            SqlRows::Postgres(rows, consumed) => {
                *consumed += 1;
                Ok(rows.get(*consumed - 1).map(SqlRow::Postgres))
            }
        }
    }
}

/// A row of a query.
#[derive(Clone, Copy)]
pub(crate) enum SqlRow<'a> {
    Sqlite(&'a rusqlite::Row<'a>),
    #[cfg(feature = "postgres")]
    Postgres(&'a postgres::Row),
}

/// Raw value of a column.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SqlValue<'a> {
    Null,
    Integer(i64),
    Real(f64),
    Text(&'a str),
    Bytes(&'a [u8]),
}

impl<'a> SqlRow<'a> {
    /// Returns the value of a column.
    ///
    /// # Errors
    /// Fails if the column has another type or is out of range for `T`.
    pub fn get<T: FromColumn<'a>>(&self, column: usize) -> Result<T, Error> {
        let value = self.raw_value(column)?;
        T::from_value(value).ok_or_else(|| value.type_mismatch(column, T::KIND))
    }

    fn raw_value(&self, column: usize) -> Result<SqlValue<'a>, Error> {
        match self {
            SqlRow::Sqlite(row) => Ok(match row.get_ref(column)? {
                ValueRef::Null => SqlValue::Null,
                ValueRef::Integer(number) => SqlValue::Integer(number),
                ValueRef::Real(number) => SqlValue::Real(number),
                ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
                    Ok(text) => SqlValue::Text(text),
                    Err(_) => SqlValue::Bytes(bytes),
                },
                ValueRef::Blob(bytes) => SqlValue::Bytes(bytes),
            }),
            #[cfg(feature = "postgres")]
            SqlRow::Postgres(row) => Ok(server_value(row, column)?),
        }
    }
}

/// Converts a column into a raw value.
#[cfg(feature = "postgres")]
fn server_value(row: &postgres::Row, column: usize) -> Result<SqlValue<'_>, postgres::Error> {
    use postgres::types::Type;

    Ok(match *row.columns()[column].type_() {
        Type::BOOL => {
            let value: Option<bool> = row.try_get(column)?;
            value.map_or(SqlValue::Null, |yes| SqlValue::Integer(i64::from(yes)))
        }
        Type::FLOAT8 => {
            row.try_get::<_, Option<f64>>(column)?.map_or(SqlValue::Null, SqlValue::Real)
        }
        Type::TEXT => {
            row.try_get::<_, Option<&str>>(column)?.map_or(SqlValue::Null, SqlValue::Text)
        }
        Type::BYTEA => {
            row.try_get::<_, Option<&[u8]>>(column)?.map_or(SqlValue::Null, SqlValue::Bytes)
        }
        _ => row.try_get::<_, Option<i64>>(column)?.map_or(SqlValue::Null, SqlValue::Integer),
    })
}

impl SqlValue<'_> {
    fn type_mismatch(self, column: usize, expected: &'static str) -> Error {
        let found = match self {
            SqlValue::Null => "null",
            SqlValue::Integer(_) => "an integer",
            SqlValue::Real(_) => "a number",
            SqlValue::Text(_) => "text",
            SqlValue::Bytes(_) => "bytes",
        };
        Error::Column { column, found, expected }
    }
}

/// Type that can be read from a column. Strings and bytes may be borrowed from the row. A `u64` is
/// stored as the signed integer with the same bits.
pub(crate) trait FromColumn<'a>: Sized {
    /// Name of the expected type, for errors.
    const KIND: &'static str;

    /// Converts the value; `None` if it has another type.
    fn from_value(value: SqlValue<'a>) -> Option<Self>;
}

macro_rules! column_types {
    ($row:lifetime: $($kind:ty, $name:literal, $($value:pat => $converted:expr),+;)*) => {
        $(impl<$row> FromColumn<$row> for $kind {
            const KIND: &'static str = $name;

            fn from_value(value: SqlValue<$row>) -> Option<$kind> {
                match value {
                    $($value => $converted,)+
                    _ => None,
                }
            }
        })*
    };
}
column_types! {
    'a:
    i64, "an integer", SqlValue::Integer(number) => Some(number);
    i32, "an integer in range", SqlValue::Integer(number) => i32::try_from(number).ok();
    u32, "an integer in range", SqlValue::Integer(number) => u32::try_from(number).ok();
    usize, "an integer in range", SqlValue::Integer(number) => usize::try_from(number).ok();
    u64, "an integer", SqlValue::Integer(number) => Some(number.cast_unsigned());
    bool, "a boolean", SqlValue::Integer(number) => Some(number != 0);
    f64, "a number", SqlValue::Real(number) => Some(number),
        SqlValue::Integer(number) => Some(number as f64);
    &'a str, "text", SqlValue::Text(text) => Some(text);
    &'a [u8], "bytes", SqlValue::Bytes(bytes) => Some(bytes);
    String, "text", SqlValue::Text(text) => Some(text.to_owned());
    Vec<u8>, "bytes", SqlValue::Bytes(bytes) => Some(bytes.to_vec());
}

impl<'a, T: FromColumn<'a>> FromColumn<'a> for Option<T> {
    const KIND: &'static str = T::KIND;

    fn from_value(value: SqlValue<'a>) -> Option<Option<T>> {
        match value {
            SqlValue::Null => Some(None),
            other => T::from_value(other).map(Some),
        }
    }
}
