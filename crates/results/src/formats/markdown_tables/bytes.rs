//! How many bytes a megabyte of a table has, where the table does not say.
//!
//! Decides by the sizes of answers: constant answers have a whole number of bytes, so the unit by which
//! requests per second and bytes per second give whole numbers in every row is the one that was meant.

use super::figures::{Cell, Figures};
use super::number::Unit;

/// Averages of rates and of bytes over seconds do not divide into whole numbers quite, so a few rows may
/// miss by chance; the right unit has this many times fewer of them.
const MUCH_BETTER: usize = 4;

/// Gives the values without a unit their unit. What was assumed is added to `remarks`.
pub fn settle(group: &mut [Figures], remarks: &mut Vec<String>) {
    let Some(at) = group.iter().position(|table| table.is_vague) else {
        return;
    };
    let misfits = |unit| misfits(group, &group[at], unit);
    let (decimal, binary) = (misfits(Unit::MB_PER_SECOND), misfits(Unit::MIB_PER_SECOND));
    let unit = if MUCH_BETTER * binary < decimal {
        remarks.push(
            "throughput beside requests has no unit and is read as MiB/s: only so have responses \
             a whole number of bytes"
                .to_owned(),
        );
        Unit::MIB_PER_SECOND
    } else {
        remarks.push(
            "throughput beside requests has no unit and is read as MB/s (10^6 bytes)".to_owned(),
        );
        Unit::MB_PER_SECOND
    };
    for cell in group
        .iter_mut()
        .filter(|table| table.is_vague)
        .flat_map(|t| &mut t.cells)
    {
        cell.value = cell.number.value(unit);
    }
}

/// How many cells have no whole number of bytes per response within their rounding.
fn misfits(group: &[Figures], bytes: &Figures, unit: Unit) -> usize {
    let step = |cells: &[Cell]| {
        let decimals = cells.iter().map(|cell| cell.number.decimals()).max();
        f64::powi(10.0, -(decimals.unwrap_or(0) as i32))
    };
    let factor = f64::powi(10.0, unit.tens) * f64::powi(2.0, unit.twos);
    let half = step(&bytes.cells) / 2.0 * factor;
    let misfits = |cell: &&Cell| {
        let same = |other: &&Cell| {
            other.metric.name == "throughput"
                && (&other.row, &other.column, other.occurrence)
                    == (&cell.row, &cell.column, cell.occurrence)
        };
        let Some((table, rate)) = group
            .iter()
            .find_map(|table| Some((table, table.cells.iter().find(same)?)))
        else {
            return false;
        };
        let half_rate = step(&table.cells) / 2.0;
        let value = cell.number.value(unit);
        let low = (value - half) / (rate.value + half_rate);
        let high = (value + half) / (rate.value - half_rate);
        low.ceil() > high
    };
    bytes.cells.iter().filter(misfits).count()
}
