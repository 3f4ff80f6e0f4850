//! Translates statements, so that one SQL text serves all back ends, and converts Rust values into
//! their parameters.
//!
//! Statements use the common subset of SQLite and PostgreSQL: placeholders `$1 $2 ...` numbered in
//! order of first use, `ON CONFLICT (...)`, `RETURNING`, `coalesce`, `CASE` instead of `min(a, b)`,
//! `<> 0` instead of booleans, and `CAST(... AS BIGINT)` where no column determines the type. JSON
//! is text that the program parses; times are milliseconds. Five macros cover constructs without a
//! common form:
//!
//! | macro | SQLite | PostgreSQL |
//! |---|---|---|
//! | `COLLATE {{binary}}` | `BINARY` | `"C"`: otherwise the server's locale determines the order |
//! | `{{numbers:2}}` | subquery of the numbers in `$2`, a JSON array such as `[3, 5]` | the same |
//! | `{{texts:a ORDER BY b}}` | the strings of a group as a JSON array | the same |
//! | `FROM run {{by:run_by_case}}` | `INDEXED BY run_by_case`: otherwise the planner would search all runs of the session | nothing: row statistics keep the planner from doing so |
//! | `{{rows:3}}` | `VALUES ($1, $2, $3)`, executed per row | the same for many rows in one round trip |

use std::sync::{Arc, OnceLock};

/// A statement in the shared dialect. Only [`sql!`] creates statements, so that a test can find all
/// of them in the source.
#[derive(Debug)]
pub(crate) struct SqlStatement {
    shared: &'static str,
    sqlite: OnceLock<String>,
    #[cfg(feature = "postgres")]
    postgres: OnceLock<String>,
}

/// Creates a static statement from a literal, at the place where it is used.
macro_rules! sql {
    ($text:literal) => {{
        static STATEMENT: $crate::database::SqlStatement =
            $crate::database::SqlStatement::new($text);
        &STATEMENT
    }};
}
pub(crate) use sql;

impl SqlStatement {
    /// Creates a statement, for [`sql!`].
    pub const fn new(shared: &'static str) -> SqlStatement {
        SqlStatement {
            shared,
            sqlite: OnceLock::new(),
            #[cfg(feature = "postgres")]
            postgres: OnceLock::new(),
        }
    }

    /// Returns the text as written in the source.
    #[cfg(test)]
    pub fn source_text(&self) -> &'static str {
        self.shared
    }

    /// Returns the text for SQLite.
    pub fn sqlite_text(&self) -> &str {
        self.sqlite.get_or_init(|| {
            let text = self.shared.replace("{{binary}}", "BINARY");
            let text = expand_macro(&text, "numbers", "(SELECT value FROM json_each($@))");
            let text = expand_macro(&text, "texts", "json_group_array(@)");
            expand_rows(&expand_macro(&text, "by", "INDEXED BY @"), 1)
        })
    }

    /// Returns the text for PostgreSQL.
    #[cfg(feature = "postgres")]
    pub fn postgres_text(&self) -> &str {
        self.postgres.get_or_init(|| self.postgres_text_for_rows(1))
    }

    /// Returns the text for PostgreSQL that inserts this number of rows at once.
    #[cfg(feature = "postgres")]
    pub fn postgres_text_for_rows(&self, rows: usize) -> String {
        let text = self.shared.replace("{{binary}}", "\"C\"");
        let numbers_sql = "(SELECT CAST(value AS BIGINT)
                       FROM json_array_elements_text(CAST(CAST($@ AS TEXT) AS JSON)))";
        let texts_sql = "CAST(coalesce(json_agg(@), '[]') AS TEXT)";
        let text = expand_macro(&expand_macro(&text, "numbers", numbers_sql), "texts", texts_sql);
        let text = expand_macro(&text, "by", "");
        expand_rows(&text, rows)
    }
}

/// Replaces every `{{NAME:ARGUMENT}}` with `replacement`, in which `@` stands for the argument.
fn expand_macro(text: &str, name: &str, replacement: &str) -> String {
    let opening = format!("{{{{{name}:");
    let mut parts = text.split(opening.as_str());
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (argument, after) = part.split_once("}}").unwrap_or((part, ""));
        out += &replacement.replace('@', argument);
        out += after;
    }
    out
}

/// Replaces `{{rows:N}}` with `VALUES` and the placeholders of `rows` rows of N columns.
fn expand_rows(text: &str, rows: usize) -> String {
    let Some((before, (width, after))) = text.split_once("{{rows:").and_then(|(before, tail)| {
        let (width, after) = tail.split_once("}}")?;
        Some((before, (width.parse::<usize>().ok()?, after)))
    }) else {
        return text.to_owned();
    };
    let row = |row: usize| {
        let placeholders = (1..=width).map(|column| format!("${}", row * width + column));
        format!("({})", placeholders.collect::<Vec<_>>().join(", "))
    };
    let rows: Vec<String> = (0..rows).map(row).collect();
    format!("{before}VALUES {}{after}", rows.join(", "))
}

/// A parameter of a statement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum SqlParam<'a> {
    Null,
    /// An integer or a boolean (1 or 0).
    Integer(i64),
    Real(f64),
    Text(&'a str),
    Bytes(&'a [u8]),
}

/// Purpose of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TransactionPurpose {
    /// Reads a consistent snapshot.
    Reading,
    /// Excludes other writers.
    Writing,
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

/// A count that is too large for an integer of a database counts as the largest one.
impl From<usize> for SqlParam<'_> {
    fn from(value: usize) -> Self {
        SqlParam::Integer(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

/// A number is stored as the signed integer with the same bits.
impl From<u64> for SqlParam<'_> {
    fn from(value: u64) -> Self {
        SqlParam::Integer(value.cast_signed())
    }
}

impl From<f64> for SqlParam<'_> {
    fn from(value: f64) -> Self {
        SqlParam::Real(value)
    }
}

macro_rules! references {
    ($($kind:ty => $param:ident)*) => {
        $(impl<'a> From<&'a $kind> for SqlParam<'a> {
            fn from(value: &'a $kind) -> Self {
                SqlParam::$param(value)
            }
        })*
    };
}
references!(str => Text String => Text Arc<str> => Text Vec<u8> => Bytes);

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_for_rows_has_a_placeholder_for_each_value() {
        let text = "INSERT INTO a (b, c) {{rows:2}} ON CONFLICT DO NOTHING";
        assert_eq!(
            expand_rows(text, 1),
            "INSERT INTO a (b, c) VALUES ($1, $2) ON CONFLICT DO NOTHING"
        );
        assert_eq!(
            expand_rows(text, 2),
            "INSERT INTO a (b, c) VALUES ($1, $2), ($3, $4) ON CONFLICT DO NOTHING"
        );
        assert_eq!(expand_rows("SELECT 1", 3), "SELECT 1");
    }
}
