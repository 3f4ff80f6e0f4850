//! Builds the reports of `fleet status` and `fleet clean`: the progress of a session's shards, the
//! machines of an experiment's roles, and the sessions removed from machines. Start at
//! [`list_fleet_shards`].

use crate::columns::{ColumnSet, column_set};
use crate::document::{Document, ReportBlock};
use crate::table::{ReportCell, TextEmphasis};

/// A shard of a session.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ShardRow {
    /// The shard's position in the session.
    pub place: u32,
    /// The shard's machine.
    pub machine: String,
    /// `waiting`, `sent`, `running`, `done` or `lost`.
    pub state: String,
    /// The number of cases.
    pub cases: usize,
    /// The number of blocks in the store.
    pub blocks: usize,
    /// The number of the latest attempt, counted from 0.
    pub attempt: u32,
    /// The status that the engine reports for the shard.
    pub said: String,
}

/// Lists the shards, one per row.
pub fn list_fleet_shards(rows: &[ShardRow]) -> Document {
    let columns = column_set! { row: ShardRow;
        words("state", "state") => state_cell(&row.state),
        identifier("shard", "shard") => row.place.to_string(),
        identifier("machine", "machine") => &row.machine,
        figure("cases", "cases") => row.cases,
        figure("blocks", "blocks") => row.blocks,
        figure("attempt", "attempt") => row.attempt,
        words("engine", "engine") => &row.said,
    };
    list_rows("shards", columns, rows)
}

fn state_cell(state: &str) -> ReportCell {
    let emphasis = match state {
        "done" => TextEmphasis::Good,
        "lost" => TextEmphasis::Bad,
        _ => TextEmphasis::Caution,
    };
    ReportCell::words(state).with_emphasis(emphasis)
}

/// Builds a document of one table. Both have the same name.
fn list_rows<T>(name: &'static str, columns: ColumnSet<T>, rows: &[T]) -> Document {
    let mut document = Document::new(name);
    document.push(ReportBlock::Table(columns.build_table(name, rows)));
    document
}

/// A role of an experiment, with its machine.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RoleRow {
    /// `target`, `load`, or the name of a service.
    pub role: String,
    /// The role's machine.
    pub machine: String,
    /// The address at which other machines reach this machine.
    pub address: String,
    /// `running`, `interrupted` or `done`.
    pub state: String,
    /// The status that the engine reports for the machine.
    pub said: String,
}

/// Lists the roles of an experiment, one per row.
pub fn list_fleet_roles(rows: &[RoleRow]) -> Document {
    let columns = column_set! { row: RoleRow;
        words("state", "state") => state_cell(&row.state),
        identifier("role", "role") => &row.role,
        identifier("machine", "machine") => &row.machine,
        words("address", "address") => &row.address,
        words("engine", "engine") => &row.said,
    };
    list_rows("roles", columns, rows)
}

/// Lists the cleaned machines. A row has a machine's name, the number of removed sessions, and
/// their size in bytes.
pub fn list_fleet_cleaned(rows: &[(String, u32, u64)]) -> Document {
    let columns = column_set! { row: (String, u32, u64);
        identifier("machine", "machine") => &row.0,
        figure("sessions", "sessions") => row.1,
        figure("bytes", "bytes") => row.2,
    };
    list_rows("cleaned", columns, rows)
}
