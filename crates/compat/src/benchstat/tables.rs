//! Groups results into tables: one per unit, with a row for each benchmark and a column for each
//! file. Start at [`Tables::new`].

use crate::benchstat::keys::{Key, Projection, Taken, of};
use crate::benchstat::records::{Record, Records};
use crate::benchstat::samples::{Comparison, Summary, geometric_mean};
use std::collections::{BTreeMap, BTreeSet};

/// How results are split and judged.
#[derive(Debug, Clone)]
pub struct Rules {
    /// Projection into tables.
    pub table: Projection,
    /// Projection into rows.
    pub row: Projection,
    /// Projection into columns.
    pub column: Projection,
    /// Projection of all remaining keys.
    pub rest: Projection,
    /// Keys used by the projections.
    pub taken: Taken,
    /// Confidence level of intervals.
    pub confidence: f64,
    /// Significance level of tests.
    pub alpha: f64,
}

#[derive(Debug, Default)]
struct Values {
    values: Vec<f64>,
    rest: BTreeSet<Key>,
}

#[derive(Debug, Clone)]
pub struct Cell {
    pub summary: Summary,
    /// Remarks on its values.
    pub warnings: Vec<String>,
    /// Typical value of the baseline, and the comparison with it.
    pub comparison: Option<(f64, Comparison)>,
}

/// Last line of one column.
#[derive(Debug, Clone, Default)]
pub struct Geomean {
    /// Geometric mean of all typical values.
    pub mean: Option<f64>,
    /// Geometric mean of all ratios to the baseline.
    pub ratio: Option<f64>,
    pub warnings: Vec<String>,
}

#[derive(Debug, Clone)]
pub struct Table {
    pub key: Key,
    pub unit: String,
    pub rows: Vec<String>,
    pub columns: Vec<Key>,
    /// Cells, row by row.
    pub cells: Vec<Vec<Option<Cell>>>,
    /// One for each column.
    pub geomeans: Vec<Geomean>,
}

/// All tables.
#[derive(Debug, Clone)]
pub struct Tables {
    /// How they were made; the projections hold the names and the order of fields.
    pub rules: Rules,
    pub tables: Vec<Table>,
}

/// Cells of one table by row and column.
type Cells = BTreeMap<(Key, Key), Values>;

impl Tables {
    pub fn new(mut rules: Rules, results: &[Record], records: &Records) -> Tables {
        let mut collected: BTreeMap<Key, Cells> = BTreeMap::new();
        for record in results {
            let row = rules.row.key(record, None, &rules.taken);
            let column = rules.column.key(record, None, &rules.taken);
            let rest = rules.rest.key(record, None, &rules.taken);
            for figure in &record.figures {
                let table = rules.table.key(record, Some(&figure.unit), &rules.taken);
                let cells = collected.entry(table).or_default();
                let cell = cells.entry((row.clone(), column.clone())).or_default();
                cell.values.push(figure.value);
                cell.rest.insert(rest.clone());
            }
        }
        let mut keys: Vec<Key> = collected.keys().cloned().collect();
        rules.table.sort(&mut keys);
        let mut tables = Vec::new();
        for key in keys {
            let cells = collected.remove(&key).unwrap_or_default();
            tables.push(rules.one(key, cells, records));
        }
        Tables { rules, tables }
    }
}

impl Rules {
    fn one(&self, key: Key, mut cells: Cells, records: &Records) -> Table {
        let unit = self
            .table
            .unit()
            .map_or("", |unit| of(&key, unit))
            .to_owned();
        let distinct = |of: &dyn Fn(&(Key, Key)) -> Key| -> Vec<Key> {
            let keys: BTreeSet<Key> = cells.keys().map(of).collect();
            keys.into_iter().collect()
        };
        let mut rows = distinct(&|place| place.0.clone());
        let mut columns = distinct(&|place| place.1.clone());
        self.row.sort(&mut rows);
        self.column.sort(&mut columns);
        for cell in cells.values_mut() {
            cell.values.sort_by(f64::total_cmp);
        }
        let assumption = records.assumption(&unit);
        let cell_at = |row: &Key, column: &Key| -> Option<Cell> {
            let own = cells.get(&(row.clone(), column.clone()))?;
            let base = cells.get(&(row.clone(), columns[0].clone()));
            let base = base.filter(|_| *column != columns[0]);
            let comparison = base.map(|base| {
                let centre = assumption.summary(&base.values, self.confidence).centre;
                (
                    centre,
                    assumption.compare(&base.values, &own.values, self.alpha),
                )
            });
            Some(Cell {
                summary: assumption.summary(&own.values, self.confidence),
                warnings: self.varied(own),
                comparison,
            })
        };
        let line = |row: &Key| columns.iter().map(|column| cell_at(row, column)).collect();
        let found: Vec<Vec<Option<Cell>>> = rows.iter().map(line).collect();
        Table {
            geomeans: (0..columns.len()).map(|at| geomean(&found, at)).collect(),
            rows: rows.iter().map(|row| self.row.values(row)).collect(),
            cells: found,
            columns,
            unit,
            key,
        }
    }

    /// Returns a remark if the results differ in a key that no projection uses.
    fn varied(&self, values: &Values) -> Vec<String> {
        let mut keys: Vec<Key> = values.rest.iter().cloned().collect();
        self.rest.sort(&mut keys);
        match self.rest.differing(&keys)[..] {
            [] => Vec::new(),
            ref fields => vec![format!("benchmarks vary in {}", fields.join(", "))],
        }
    }
}

fn geomean(cells: &[Vec<Option<Cell>>], column: usize) -> Geomean {
    let own = || cells.iter().filter_map(|row| row[column].as_ref());
    let centres: Vec<f64> = own().map(|cell| cell.summary.centre).collect();
    let ratio = |cell: &Cell| -> Option<f64> {
        let (base, _) = cell.comparison.as_ref()?;
        Some(match cell.summary.centre {
            centre if centre == *base => 1.0,
            // An undefined ratio makes the mean of all undefined.
            _ if *base == 0.0 => f64::NAN,
            centre => centre / base,
        })
    };
    let ratios: Vec<f64> = own().filter_map(ratio).collect();
    let in_base = cells.iter().filter(|row| row[0].is_some()).count();
    let mut warnings = Vec::new();
    if column > 0 && in_base != ratios.len() {
        let sentence = "benchmark set differs from baseline; geomeans may not be comparable";
        warnings.push(sentence.to_owned());
    }
    let mean = geometric_mean(&centres);
    if mean.is_none() {
        warnings.push("summaries must be >0 to compute geomean".to_owned());
    }
    let mut ratio = None;
    if column > 0 && !ratios.iter().any(|ratio| ratio.is_nan()) {
        ratio = geometric_mean(&ratios);
        if ratio.is_none() {
            warnings.push("ratios must be >0 to compute geomean".to_owned());
        }
    }
    Geomean {
        mean,
        ratio,
        warnings,
    }
}
