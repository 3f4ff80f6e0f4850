//! The reports of `fleet status` and `fleet clean`: the progress of a session's parcels, the
//! machine of each role of an experiment, and what was removed from machines. Start at
//! [`fleet_parcels`].

use crate::document::{Block, Document};
use crate::table::{Cell, Column, Columns, Emphasis, Kind};

/// A parcel of a session.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ParcelRow {
    /// Its position in the session.
    pub place: u32,
    /// Its machine.
    pub machine: String,
    /// `waiting`, `sent`, `running`, `done` or `lost`.
    pub state: String,
    /// The number of its cases.
    pub cases: usize,
    /// The number of its blocks in the store.
    pub blocks: usize,
    /// The number of the latest attempt, from 0.
    pub attempt: u32,
    /// The status reported by the engine.
    pub said: String,
}

/// Lists the parcels, one per row.
pub fn fleet_parcels(rows: &[ParcelRow]) -> Document {
    let mut columns = Columns::new();
    columns.add(Column::words("state", "state"), |row: &ParcelRow| {
        let emphasis = match row.state.as_str() {
            "done" => Emphasis::Good,
            "lost" => Emphasis::Bad,
            _ => Emphasis::Caution,
        };
        Cell::words(row.state.clone()).emphasised(emphasis)
    });
    let place = Column::new("parcel", "parcel", Kind::Identifier);
    columns.add(place, |row| Cell::words(row.place.to_string()));
    columns.add(Column::new("machine", "machine", Kind::Identifier), |row| {
        Cell::words(row.machine.clone())
    });
    columns.add(Column::figure("cases", "cases"), |row| {
        Cell::count(row.cases as u64)
    });
    columns.add(Column::figure("blocks", "blocks"), |row| {
        Cell::count(row.blocks as u64)
    });
    columns.add(Column::figure("attempt", "attempt"), |row| {
        Cell::count(row.attempt)
    });
    columns.add(Column::words("engine", "engine"), |row| {
        Cell::words(row.said.clone())
    });
    let mut document = Document::new("parcels");
    document.push(Block::Table(columns.table("parcels", rows)));
    document
}

/// A role of an experiment on its machine.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PartRow {
    /// `target`, `load`, or the name of a service.
    pub part: String,
    /// Its machine.
    pub machine: String,
    /// The address at which other machines reach it.
    pub address: String,
    /// `running`, `interrupted` or `done`.
    pub state: String,
    /// The status of the machine, reported by the engine.
    pub said: String,
}

/// Lists the roles of an experiment, one per row.
pub fn fleet_parts(rows: &[PartRow]) -> Document {
    let mut columns = Columns::new();
    columns.add(Column::words("state", "state"), |row: &PartRow| {
        let emphasis = match row.state.as_str() {
            "done" => Emphasis::Good,
            _ => Emphasis::Caution,
        };
        Cell::words(row.state.clone()).emphasised(emphasis)
    });
    columns.add(Column::new("part", "part", Kind::Identifier), |row| {
        Cell::words(row.part.clone())
    });
    columns.add(Column::new("machine", "machine", Kind::Identifier), |row| {
        Cell::words(row.machine.clone())
    });
    columns.add(Column::words("address", "address"), |row| {
        Cell::words(row.address.clone())
    });
    columns.add(Column::words("engine", "engine"), |row| {
        Cell::words(row.said.clone())
    });
    let mut document = Document::new("parts");
    document.push(Block::Table(columns.table("parts", rows)));
    document
}

/// Lists the cleaned machines: name, number of sessions removed, and their size in bytes.
pub fn fleet_cleaned(rows: &[(String, u32, u64)]) -> Document {
    let mut columns = Columns::new();
    columns.add(
        Column::new("machine", "machine", Kind::Identifier),
        |row: &(String, u32, u64)| Cell::words(row.0.clone()),
    );
    columns.add(Column::figure("sessions", "sessions"), |row| {
        Cell::count(row.1)
    });
    columns.add(Column::figure("bytes", "bytes"), |row| Cell::count(row.2));
    let mut document = Document::new("cleaned");
    document.push(Block::Table(columns.table("cleaned", rows)));
    document
}
