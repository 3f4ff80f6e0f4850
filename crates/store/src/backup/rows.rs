//! Writes and restores the rows of tables that refer to no other table. Each column keeps its value
//! unchanged.

use crate::database::{Database, SqlParam, SqlRow, SqlStatement, sql, sql_params};
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

/// Value of a column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum ColumnValue {
    Nothing,
    Number(i64),
    Text(String),
    Bytes { hex: String },
}

/// A table, with statements that read its rows and insert missing ones.
struct BackupTable {
    name: &'static str,
    read: &'static SqlStatement,
    insert: &'static SqlStatement,
    columns: usize,
}

/// The tables, in an order in which they can be restored.
static TABLES: [BackupTable; 7] = [
    BackupTable {
        name: "token",
        read: sql!(
            "SELECT id, digest, name, scopes, project, branches, machines, created_unix_ms,
                        expires_unix_ms, used_unix_ms, revoked_unix_ms FROM token ORDER BY number"
        ),
        insert: sql!(
            "INSERT INTO token (id, digest, name, scopes, project, branches, machines,
                     created_unix_ms, expires_unix_ms, used_unix_ms, revoked_unix_ms)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT DO NOTHING"
        ),
        columns: 11,
    },
    BackupTable {
        name: "audit",
        read: sql!(
            "SELECT at_unix_ms, actor, token, address, project, action, subject, result
                 FROM audit ORDER BY number"
        ),
        insert: sql!(
            "INSERT INTO audit (at_unix_ms, actor, token, address, project, action, subject, result)
                 SELECT CAST($1 AS BIGINT), CAST($2 AS TEXT), CAST($3 AS TEXT), CAST($4 AS TEXT),
                        CAST($5 AS TEXT), CAST($6 AS TEXT), CAST($7 AS TEXT), CAST($8 AS TEXT)
                 WHERE NOT EXISTS (SELECT 1 FROM audit WHERE at_unix_ms = $1 AND action = $6
                                   AND subject IS NOT DISTINCT FROM $7)"
        ),
        columns: 8,
    },
    BackupTable {
        name: "rename",
        read: sql!("SELECT old, new FROM rename ORDER BY old COLLATE {{binary}}"),
        insert: sql!(
            "INSERT INTO rename (project, old, new) VALUES (1, $1, $2) ON CONFLICT DO NOTHING"
        ),
        columns: 2,
    },
    BackupTable {
        name: "annotation",
        read: sql!("SELECT revision, text FROM annotation ORDER BY number"),
        insert: sql!(
            "INSERT INTO annotation (project, revision, text)
                 SELECT 1, CAST($1 AS TEXT), CAST($2 AS TEXT)
                 WHERE NOT EXISTS (SELECT 1 FROM annotation WHERE revision = $1 AND text = $2)"
        ),
        columns: 2,
    },
    BackupTable {
        name: "deleted_session",
        read: sql!(
            "SELECT id, number, actor, reason, at_unix_ms, lines FROM deleted_session
                 ORDER BY id COLLATE {{binary}}"
        ),
        insert: sql!(
            "INSERT INTO deleted_session (id, number, actor, reason, at_unix_ms, lines)
                 VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING"
        ),
        columns: 6,
    },
    BackupTable {
        name: "comment",
        read: sql!(
            "SELECT forge, repository, pull, revision, posted_unix_ms, url, text
                 FROM comment ORDER BY number"
        ),
        insert: sql!(
            "INSERT INTO comment (forge, repository, pull, revision, posted_unix_ms, url, text)
                 SELECT CAST($1 AS TEXT), CAST($2 AS TEXT), CAST($3 AS TEXT), CAST($4 AS TEXT),
                        CAST($5 AS BIGINT), CAST($6 AS TEXT), CAST($7 AS TEXT)
                 WHERE NOT EXISTS (SELECT 1 FROM comment WHERE posted_unix_ms = $5 AND pull = $3)"
        ),
        columns: 7,
    },
    BackupTable {
        name: "setting",
        read: sql!("SELECT name, value FROM setting ORDER BY name COLLATE {{binary}}"),
        insert: sql!("INSERT INTO setting (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING"),
        columns: 2,
    },
];

/// Passes all rows of all tables to `put`.
pub(super) fn write_rows(
    file: &Database,
    put: &mut dyn FnMut(&str, Vec<ColumnValue>) -> Result<()>,
) -> Result<()> {
    for table in &TABLES {
        let mut statement = file.prepare(table.read)?;
        let mut rows = statement.query(sql_params![])?;
        while let Some(row) = rows.next()? {
            let values = (0..table.columns).map(|column| read_value(&row, column));
            put(table.name, values.collect::<Result<_>>()?)?;
        }
    }
    Ok(())
}

fn read_value(row: &SqlRow<'_>, column: usize) -> Result<ColumnValue> {
    if let Ok(text) = row.get::<Option<String>>(column) {
        return Ok(text.map_or(ColumnValue::Nothing, ColumnValue::Text));
    }
    if let Ok(number) = row.get::<i64>(column) {
        return Ok(ColumnValue::Number(number));
    }
    let bytes: Vec<u8> = row.get(column)?;
    let hex = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(ColumnValue::Bytes { hex })
}

/// Validates a row.
///
/// # Errors
/// Fails if the row has too few columns, or its bytes are not hexadecimal.
pub(super) fn validate_row(name: &str, values: &[ColumnValue]) -> Result<()> {
    let columns = find_table(name).map_or(0, |table| table.columns);
    if values.len() < columns {
        bail!("the number of columns in a row of '{name}' is {}, expected {columns}", values.len());
    }
    values.iter().try_for_each(|value| decode_hex(value).map(drop))
}

/// Returns the table with this name; `None` for a table that a later version added. The rows of
/// such a table are skipped.
fn find_table(name: &str) -> Option<&'static BackupTable> {
    TABLES.iter().find(|table| table.name == name)
}

/// Inserts a validated row unless it exists.
pub(super) fn insert_row(file: &Database, name: &str, values: &[ColumnValue]) -> Result<()> {
    let Some(table) = find_table(name) else { return Ok(()) };
    let bytes: Vec<Option<Vec<u8>>> = values.iter().map(decode_hex).collect::<Result<_>>()?;
    let params = values.iter().zip(&bytes).map(|(value, bytes)| match value {
        ColumnValue::Nothing => SqlParam::Null,
        ColumnValue::Number(number) => SqlParam::Integer(*number),
        ColumnValue::Text(text) => SqlParam::Text(text),
        ColumnValue::Bytes { .. } => SqlParam::from(bytes),
    });
    let params: Vec<SqlParam<'_>> = params.collect();
    Ok(file.execute(table.insert, &params[..table.columns])?)
}

fn decode_hex(value: &ColumnValue) -> Result<Option<Vec<u8>>> {
    let ColumnValue::Bytes { hex } = value else { return Ok(None) };
    let digits = hex.as_bytes().chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair).ok()?;
        u8::from_str_radix(pair, 16).ok()
    });
    let bytes: Option<Vec<u8>> = digits.collect();
    bytes.map(Some).context("cannot parse bytes: expected hexadecimal digits")
}
