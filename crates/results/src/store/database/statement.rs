//! Statements: one text for every back end.
//!
//! It is written in what SQLite and PostgreSQL have in common: placeholders `$1 $2 ...` numbered in the order of their
//! first use, `ON CONFLICT (...)`, `RETURNING`, `coalesce`, `CASE` in place of `min(a, b)`, `<> 0` in place of truth,
//! `CAST(... AS BIGINT)` where a type does not follow from a column. JSON is text that is read by us, and a time is a
//! number of milliseconds. Texts are sorted by `COLLATE {{binary}}`, or the order would be that of the server's language.

use std::sync::OnceLock;

/// A statement in the text that all back ends share; made by [`sql!`] alone, where a test finds it.
#[derive(Debug)]
pub(in crate::store) struct Statement {
    shared: &'static str,
    sqlite: OnceLock<String>,
    #[cfg(feature = "postgres")]
    postgres: OnceLock<String>,
}

/// The statement of that text, beside the code that uses it.
macro_rules! sql {
    ($text:literal) => {{
        static STATEMENT: $crate::store::database::Statement =
            $crate::store::database::Statement::new($text);
        &STATEMENT
    }};
}
pub(in crate::store) use sql;

impl Statement {
    /// For [`sql!`].
    pub const fn new(shared: &'static str) -> Statement {
        Statement {
            shared,
            sqlite: OnceLock::new(),
            #[cfg(feature = "postgres")]
            postgres: OnceLock::new(),
        }
    }

    /// As it stands in the source.
    #[cfg(test)]
    pub fn shared(&self) -> &'static str {
        self.shared
    }

    /// As SQLite reads it.
    pub fn sqlite(&self) -> &str {
        self.sqlite
            .get_or_init(|| self.shared.replace("{{binary}}", "BINARY"))
    }

    /// As PostgreSQL reads it.
    #[cfg(feature = "postgres")]
    pub fn postgres(&self) -> &str {
        self.postgres
            .get_or_init(|| self.shared.replace("{{binary}}", "\"C\""))
    }
}
