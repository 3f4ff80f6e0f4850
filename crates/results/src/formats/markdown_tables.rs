//! Tables of figures in Markdown, as they are published: a whole document or a pasted table.
//!
//! Decides that a row is a case, a column a variant and a cell one run, and that the tables of a section
//! are joined by the names of rows and columns, never by position. It must not judge the figures. Start
//! at [`read`]; what a number means is decided in `figures.rs`.

mod bytes;
mod figures;
mod layout;
mod number;

use self::figures::{Cell, Figures};
use super::imported::{empty_session, sample};
use anyhow::{Result, ensure};
use speedwell_model::{Case, Metric, Run, Session, Variant};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Whether there is a table of figures in the text.
pub fn recognises(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(super::beginning(bytes));
    let (tables, _) = layout::tables(&text);
    !figures::of(&tables).is_empty()
}

/// Reads all tables of figures, one session for the tables of a section that have the same columns. What
/// was assumed or left out is added to `warnings`.
///
/// # Errors
/// There is no table of figures.
pub fn read(label: &str, bytes: &[u8], warnings: &mut Vec<String>) -> Result<Vec<Session>> {
    let text = crate::foreign::utf8(bytes)?;
    let (tables, cut) = layout::tables(text);
    let mut remarks: Vec<String> = cut.into_iter().collect();
    let mut groups: Vec<Vec<Figures>> = Vec::new();
    for table in figures::of(&tables) {
        match groups.iter_mut().find(|group| belongs(&group[0], &table)) {
            Some(group) => group.push(table),
            None => groups.push(vec![table]),
        }
    }
    ensure!(
        !groups.is_empty(),
        "there are no rows of figures in it\nhint: a table needs names in its first column, and numbers \
         with a unit, or below a heading such as Requests or Latency, in the others"
    );
    let mut sessions = Vec::new();
    for mut group in groups {
        bytes::settle(&mut group, &mut remarks);
        remarks.extend(group.iter().flat_map(|table| table.remarks.clone()));
        sessions.push(joined(label, &group));
    }
    warnings.extend(remarks.iter().map(|remark| format!("'{label}': {remark}")));
    Ok(sessions)
}

/// Whether two tables tell different metrics of the same things.
fn belongs(one: &Figures, other: &Figures) -> bool {
    let columns = |table: &Figures| -> HashSet<String> { table.columns.iter().cloned().collect() };
    let rows = |table: &Figures| -> HashSet<String> {
        table.cells.iter().map(|cell| cell.row.clone()).collect()
    };
    let (mine, theirs) = (rows(one), rows(other));
    let shared = mine.intersection(&theirs).count();
    one.section == other.section
        && columns(one) == columns(other)
        && 2 * shared >= mine.len().min(theirs.len())
        && shared > 0
}

/// The tables of one group as a session: a cell of each table with the same names is the same run.
fn joined(label: &str, group: &[Figures]) -> Session {
    let variants = group[0].columns.iter().map(Variant::plain).collect();
    let mut metrics: Vec<Metric> = Vec::new();
    let mut places: HashMap<(&str, &str, usize), usize> = HashMap::new();
    let mut runs: Vec<Run> = Vec::new();
    for table in group {
        for cell in &table.cells {
            if !metrics.iter().any(|known| known.name == cell.metric.name) {
                metrics.push(cell.metric.clone());
            }
            let key = (cell.row.as_str(), cell.column.as_str(), cell.occurrence);
            let place = *places.entry(key).or_insert_with(|| {
                runs.push(run(cell, runs.len()));
                runs.len() - 1
            });
            let known = runs[place].samples.iter();
            // The same metric twice would make two samples of one run.
            if !known.clone().any(|s| *s.metric == *cell.metric.name) {
                let name = Arc::from(cell.metric.name.as_str());
                runs[place].samples.push(sample(&name, cell.value));
            }
        }
    }
    let most = runs.iter().map(|run| run.block + 1).max();
    Session {
        metrics,
        runs,
        ..empty_session(label, variants, most)
    }
}

fn run(cell: &Cell, slot: usize) -> Run {
    Run {
        case: Case::new(&cell.row, Vec::new()).into(),
        variant: Arc::from(cell.column.as_str()),
        slot: slot as u32,
        block: cell.occurrence as u32,
        started_unix_ms: 0,
        wall_ns: 0,
        usage: None,
        samples: Vec::new(),
        notes: Vec::new(),
        load: None,
    }
}
