//! Builds the reports of `fleet status` and `fleet clean`: the progress of a session's shards, the
//! machines of an experiment's roles, and the sessions removed from machines. Start at
//! [`list_fleet_shards`].

use crate::document::{Document, ReportBlock};
use crate::table::{ColumnKind, ColumnSet, ReportCell, ReportColumn, TextEmphasis};

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
    let mut columns = ColumnSet::new();
    columns.add_column(ReportColumn::words("state", "state"), |row: &ShardRow| {
        let emphasis = match row.state.as_str() {
            "done" => TextEmphasis::Good,
            "lost" => TextEmphasis::Bad,
            _ => TextEmphasis::Caution,
        };
        ReportCell::words(row.state.clone()).with_emphasis(emphasis)
    });
    let number_column = ReportColumn::new("shard", "shard", ColumnKind::Identifier);
    columns.add_column(number_column, |row| ReportCell::words(row.place.to_string()));
    columns.add_column(ReportColumn::new("machine", "machine", ColumnKind::Identifier), |row| {
        ReportCell::words(row.machine.clone())
    });
    columns.add_column(ReportColumn::figure("cases", "cases"), |row| {
        ReportCell::count(row.cases as u64)
    });
    columns.add_column(ReportColumn::figure("blocks", "blocks"), |row| {
        ReportCell::count(row.blocks as u64)
    });
    columns.add_column(ReportColumn::figure("attempt", "attempt"), |row| {
        ReportCell::count(row.attempt)
    });
    columns.add_column(ReportColumn::words("engine", "engine"), |row| {
        ReportCell::words(row.said.clone())
    });
    let mut document = Document::new("shards");
    document.push(ReportBlock::Table(columns.build_table("shards", rows)));
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
    let mut columns = ColumnSet::new();
    columns.add_column(ReportColumn::words("state", "state"), |row: &RoleRow| {
        let emphasis = match row.state.as_str() {
            "done" => TextEmphasis::Good,
            _ => TextEmphasis::Caution,
        };
        ReportCell::words(row.state.clone()).with_emphasis(emphasis)
    });
    columns.add_column(ReportColumn::new("role", "role", ColumnKind::Identifier), |row| {
        ReportCell::words(row.role.clone())
    });
    columns.add_column(ReportColumn::new("machine", "machine", ColumnKind::Identifier), |row| {
        ReportCell::words(row.machine.clone())
    });
    columns.add_column(ReportColumn::words("address", "address"), |row| {
        ReportCell::words(row.address.clone())
    });
    columns.add_column(ReportColumn::words("engine", "engine"), |row| {
        ReportCell::words(row.said.clone())
    });
    let mut document = Document::new("roles");
    document.push(ReportBlock::Table(columns.build_table("roles", rows)));
    document
}

/// Lists the cleaned machines. A row has a machine's name, the number of removed sessions, and
/// their size in bytes.
pub fn list_fleet_cleaned(rows: &[(String, u32, u64)]) -> Document {
    let mut columns = ColumnSet::new();
    columns.add_column(
        ReportColumn::new("machine", "machine", ColumnKind::Identifier),
        |row: &(String, u32, u64)| ReportCell::words(row.0.clone()),
    );
    columns
        .add_column(ReportColumn::figure("sessions", "sessions"), |row| ReportCell::count(row.1));
    columns.add_column(ReportColumn::figure("bytes", "bytes"), |row| ReportCell::count(row.2));
    let mut document = Document::new("cleaned");
    document.push(ReportBlock::Table(columns.build_table("cleaned", rows)));
    document
}
