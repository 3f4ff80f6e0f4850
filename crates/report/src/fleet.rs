//! Reports the machines of a fleet and whether they are fit for measuring. Start at
//! [`list_fleet_machines`].

use crate::document::{Document, ReportBlock};
use crate::figure::{Uncertainty, format_quantity};
use crate::table::{ColumnKind, ColumnSet, ReportCell, ReportColumn, ReportRow, TextEmphasis};

/// A machine of a fleet.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FleetLine {
    /// The machine's name.
    pub name: String,
    /// The machine's state. The list of machines says `free`, `busy` or `unfit`; a check says
    /// `fit`, `warning` or `unfit`.
    pub state: String,
    /// The machine's labels. Other machines may have the same labels.
    pub labels: Vec<String>,
    /// What the machine reported about itself. `None` if it was not asked.
    pub known: Option<FleetFacts>,
    /// Remarks below the row, one per line.
    pub notes: Vec<String>,
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
    let columns = machine_columns(is_checked);
    let mut rows = Vec::new();
    for machine in machines {
        rows.push(columns.build_row(machine));
        rows.extend(machine.notes.iter().map(|remark| ReportRow::Remark(format!("→ {remark}"))));
    }
    let mut document = Document::new("machines");
    document.push(ReportBlock::Table(columns.table_of_rows("machines", rows)));
    document
}

fn machine_columns(is_checked: bool) -> ColumnSet<FleetLine> {
    let mut columns = ColumnSet::new();
    columns.add_column(ReportColumn::words("state", "state"), |machine: &FleetLine| {
        let (symbol, emphasis) = state_symbol(&machine.state);
        ReportCell::value(machine.state.clone())
            .with_text(format!("{symbol} {}", machine.state))
            .with_emphasis(emphasis)
    });
    columns.add_column(ReportColumn::new("name", "machine", ColumnKind::Identifier), |machine| {
        ReportCell::words(machine.name.clone())
    });
    columns.add_column(ReportColumn::words("labels", "labels"), |machine| {
        ReportCell::words(machine.labels.join(" "))
    });
    if is_checked {
        add_facts(&mut columns);
    }
    columns.add_value("notes", |machine| machine.notes.join(" "));
    columns
}

fn add_facts(columns: &mut ColumnSet<FleetLine>) {
    let text = |machine: &FleetLine, fact: fn(&FleetFacts) -> String| {
        machine.known.as_ref().map(fact).unwrap_or_default()
    };
    columns.add_column(ReportColumn::words("class", "class"), move |machine| {
        ReportCell::words(text(machine, |facts| facts.class.clone()))
    });
    columns.add_column(ReportColumn::words("clock_shown", "clock").for_people(), move |machine| {
        ReportCell::words(text(machine, |facts| format_clock(facts.offset_ns)))
    });
    columns.add_column(ReportColumn::words("speed_shown", "speed").for_people(), move |machine| {
        ReportCell::words(text(machine, |facts| {
            let [integers, memory] = facts.speed_probe_ns.map(format_time);
            format!("{integers} + {memory}")
        }))
    });
    columns.add_value("id", move |machine| text(machine, |facts| facts.id.clone()));
    let figure =
        |machine: &FleetLine, figure: fn(&FleetFacts) -> f64| machine.known.as_ref().map(figure);
    columns
        .add_figure("offset_ns", move |machine| figure(machine, |facts| facts.offset_ns.0 as f64));
    columns.add_figure("uncertainty_ns", move |machine| {
        figure(machine, |facts| facts.offset_ns.1 as f64)
    });
    columns.add_figure("integer_ns", move |machine| {
        figure(machine, |facts| facts.speed_probe_ns[0] as f64)
    });
    columns.add_figure("memory_ns", move |machine| {
        figure(machine, |facts| facts.speed_probe_ns[1] as f64)
    });
}

/// Formats a time as in `3.200 ms`. The uncertainty is assumed to be 0.5 %.
fn format_time(ns: u64) -> String {
    let uncertainty = Uncertainty::Half(0.005 * ns as f64);
    format_quantity(ns as f64, "ns", uncertainty)
}

/// Formats the offset of a machine's clock as in `3.200 ms ahead`. An offset that does not exceed
/// its uncertainty is formatted as in `within 50.00 µs`.
fn format_clock((offset_ns, uncertainty_ns): (i64, u64)) -> String {
    let size = offset_ns.unsigned_abs();
    let word = if offset_ns < 0 { "ahead" } else { "behind" };
    if size <= uncertainty_ns {
        return format!("within {}", format_time(uncertainty_ns));
    }
    format!("{} {word}", format_time(size))
}

fn state_symbol(state: &str) -> (char, TextEmphasis) {
    match state {
        "free" | "fit" => ('✓', TextEmphasis::Good),
        "busy" | "warning" => ('!', TextEmphasis::Caution),
        _ => ('✗', TextEmphasis::Bad),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_ahead_or_behind_only_beyond_its_uncertainty() {
        assert_eq!(format_clock((-40_000, 50_000)), "within 50.00 µs");
        assert_eq!(format_clock((-3_200_000, 50_000)), "3.200 ms ahead");
        assert_eq!(format_clock((3_200_000, 50_000)), "3.200 ms behind");
    }
}
