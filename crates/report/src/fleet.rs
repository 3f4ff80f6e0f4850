//! Reports the machines of a fleet and whether they are fit for measuring, and the progress of work
//! on them. Start at [`list_fleet_machines`] and [`list_fleet_shards`].

use crate::document::Document;
use crate::figure::format_ns;
use crate::table::{ReportCell, TextEmphasis, column_set};

/// A machine of a fleet.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FleetLine {
    /// The machine's name.
    pub name: String,
    /// The machine's state: `free`, `busy` or `unfit` in a list of machines, and `fit`, `warning`
    /// or `unfit` after a check.
    pub state: String,
    /// The machine's labels. Other machines may have the same labels.
    pub labels: Vec<String>,
    /// Facts that the machine reported about itself. `None` if it was not asked.
    pub known: Option<FleetFacts>,
    /// Remarks below the row, one per line.
    pub notes: Vec<String>,
}

impl FleetLine {
    /// Returns a fact in words, or an empty text if the machine was not asked.
    fn fact_text(&self, fact: impl Fn(&FleetFacts) -> String) -> String {
        self.known.as_ref().map(fact).unwrap_or_default()
    }
}

/// The facts that a machine reports about itself.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetFacts {
    /// The id of the machine.
    pub id: String,
    /// The processor model, the number of processors, the memory and the architecture.
    pub class: String,
    /// The clock offset and its uncertainty, in nanoseconds. The machine's time plus the offset is
    /// our time.
    pub offset_ns: (i64, u64),
    /// The times of two fixed workloads in nanoseconds: integer arithmetic, then memory access.
    pub speed_probe_ns: [u64; 2],
}

/// Lists the machines, one per row.
pub fn list_fleet_machines(machines: &[FleetLine]) -> Document {
    let is_checked = machines.iter().any(|machine| machine.known.is_some());
    let columns = column_set! { line: FleetLine;
        words("state", "state") => ReportCell::state(&line.state),
        identifier("name", "machine") => &line.name,
        words("labels", "labels") => line.labels.join(" "),
        words("class", "class") if is_checked => line.fact_text(|facts| facts.class.clone()),
        words("clock_shown", "clock").for_people() if is_checked =>
            line.fact_text(|facts| format_clock(facts.offset_ns)),
        words("speed_shown", "speed").for_people() if is_checked =>
            line.fact_text(|facts| facts.speed_probe_ns.map(|ns| format_ns(ns as f64)).join(" + ")),
        machine("id") if is_checked => line.fact_text(|facts| facts.id.clone()),
        machine("offset_ns") if is_checked =>
            line.known.as_ref().map(|facts| facts.offset_ns.0 as f64),
        machine("uncertainty_ns") if is_checked =>
            line.known.as_ref().map(|facts| facts.offset_ns.1 as f64),
        machine("integer_ns") if is_checked =>
            line.known.as_ref().map(|facts| facts.speed_probe_ns[0] as f64),
        machine("memory_ns") if is_checked =>
            line.known.as_ref().map(|facts| facts.speed_probe_ns[1] as f64),
        machine("notes") => line.notes.join(" "),
    };
    let remarks = |machine: &FleetLine| -> Vec<String> {
        machine.notes.iter().map(|note| format!("→ {note}")).collect()
    };
    Document::new("machines").with_table(columns.build_with_remarks("machines", machines, remarks))
}

/// Formats the offset of a machine's clock as in `3.20 ms ahead`. An offset that does not exceed
/// its uncertainty is formatted as in `within 50.0 µs`.
fn format_clock((offset_ns, uncertainty_ns): (i64, u64)) -> String {
    let size = offset_ns.unsigned_abs();
    let word = if offset_ns < 0 { "ahead" } else { "behind" };
    if size <= uncertainty_ns {
        return format!("within {}", format_ns(uncertainty_ns as f64));
    }
    format!("{} {word}", format_ns(size as f64))
}

// The reports of `fleet status` and `fleet clean`: the progress of a session's shards, the machines
// of an experiment's roles, and the sessions removed from machines.

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
        words("state", "state") => progress_cell(&row.state),
        identifier("shard", "shard") => row.place.to_string(),
        identifier("machine", "machine") => &row.machine,
        figure("cases", "cases") => row.cases,
        figure("blocks", "blocks") => row.blocks,
        figure("attempt", "attempt") => row.attempt,
        words("engine", "engine") => &row.said,
    };
    Document::new("shards").with_table(columns.build_table("shards", rows))
}

fn progress_cell(state: &str) -> ReportCell {
    let emphasis = match state {
        "done" => TextEmphasis::Good,
        "lost" => TextEmphasis::Bad,
        _ => TextEmphasis::Caution,
    };
    ReportCell::words(state).with_emphasis(emphasis)
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
        words("state", "state") => progress_cell(&row.state),
        identifier("role", "role") => &row.role,
        identifier("machine", "machine") => &row.machine,
        words("address", "address") => &row.address,
        words("engine", "engine") => &row.said,
    };
    Document::new("roles").with_table(columns.build_table("roles", rows))
}

/// Lists the cleaned machines. A row has a machine's name, the number of removed sessions, and
/// their size in bytes.
pub fn list_fleet_cleaned(rows: &[(String, u32, u64)]) -> Document {
    let columns = column_set! { row: (String, u32, u64);
        identifier("machine", "machine") => &row.0,
        figure("sessions", "sessions") => row.1,
        figure("bytes", "bytes") => row.2,
    };
    Document::new("cleaned").with_table(columns.build_table("cleaned", rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_ahead_or_behind_only_beyond_its_uncertainty() {
        assert_eq!(format_clock((-40_000, 50_000)), "within 50.0 µs");
        assert_eq!(format_clock((-3_200_000, 50_000)), "3.20 ms ahead");
        assert_eq!(format_clock((3_200_000, 50_000)), "3.20 ms behind");
    }
}
