//! Groups results into tables. By default, there is one table per unit and configuration, with a
//! row for each benchmark and a column for each file. Start at [`BenchstatTables::new`].

use crate::benchstat::keys::{KeyProjection, KeyValues, UsedKeys, field_value};
use crate::benchstat::records::{BenchmarkRecord, BenchmarkRecords};
use crate::benchstat::samples::{SampleComparison, SampleSummary, geometric_mean};
use std::collections::{BTreeMap, BTreeSet};

/// How results are split and judged.
#[derive(Debug, Clone)]
pub struct TableRules {
    /// Projection into tables.
    pub table: KeyProjection,
    /// Projection into rows.
    pub row: KeyProjection,
    /// Projection into columns.
    pub column: KeyProjection,
    /// Projection of all remaining keys.
    pub remaining: KeyProjection,
    /// Keys used by the projections.
    pub used_keys: UsedKeys,
    /// Confidence level of intervals.
    pub confidence: f64,
    /// Significance level of tests.
    pub alpha: f64,
}

#[derive(Debug, Default)]
struct CellValues {
    values: Vec<f64>,
    remaining: BTreeSet<KeyValues>,
}

#[derive(Debug, Clone)]
pub struct TableCell {
    pub summary: SampleSummary,
    /// Remarks on the values of the cell.
    pub warnings: Vec<String>,
    /// Typical value of the baseline, and the comparison with it.
    pub comparison: Option<(f64, SampleComparison)>,
}

/// Geometric means of one column, shown in the last line of a table.
#[derive(Debug, Clone, Default)]
pub struct ColumnGeomean {
    /// Geometric mean of all typical values.
    pub mean: Option<f64>,
    /// Geometric mean of all ratios to the baseline.
    pub ratio: Option<f64>,
    pub warnings: Vec<String>,
}

#[derive(Debug, Clone)]
pub struct BenchstatTable {
    pub key: KeyValues,
    pub unit: String,
    pub rows: Vec<String>,
    pub columns: Vec<KeyValues>,
    /// Cells, row by row.
    pub cells: Vec<Vec<Option<TableCell>>>,
    /// One for each column.
    pub geomeans: Vec<ColumnGeomean>,
}

/// All tables.
#[derive(Debug, Clone)]
pub struct BenchstatTables {
    /// Rules by which the tables were made. Their projections hold the names and the order of
    /// fields.
    pub rules: TableRules,
    pub tables: Vec<BenchstatTable>,
}

/// Cells of one table by row and column.
type CellMap = BTreeMap<(KeyValues, KeyValues), CellValues>;

impl BenchstatTables {
    pub fn new(
        mut rules: TableRules,
        results: &[BenchmarkRecord],
        records: &BenchmarkRecords,
    ) -> BenchstatTables {
        let mut collected: BTreeMap<KeyValues, CellMap> = BTreeMap::new();
        for record in results {
            let row = rules.row.key(record, None, &rules.used_keys);
            let column = rules.column.key(record, None, &rules.used_keys);
            let remaining = rules.remaining.key(record, None, &rules.used_keys);
            for figure in &record.figures {
                let table = rules.table.key(record, Some(&figure.unit), &rules.used_keys);
                let cells = collected.entry(table).or_default();
                let cell = cells.entry((row.clone(), column.clone())).or_default();
                cell.values.push(figure.value);
                cell.remaining.insert(remaining.clone());
            }
        }
        let mut keys: Vec<KeyValues> = collected.keys().cloned().collect();
        rules.table.sort_keys(&mut keys);
        let mut tables = Vec::new();
        for key in keys {
            let cells = collected.remove(&key).unwrap_or_default();
            tables.push(rules.build_table(key, cells, records));
        }
        BenchstatTables { rules, tables }
    }
}

impl TableRules {
    fn build_table(
        &self,
        key: KeyValues,
        mut cells: CellMap,
        records: &BenchmarkRecords,
    ) -> BenchstatTable {
        let unit = self.table.unit_field().map_or("", |unit| field_value(&key, unit)).to_owned();
        let distinct =
            |coordinate: &dyn Fn(&(KeyValues, KeyValues)) -> KeyValues| -> Vec<KeyValues> {
                let keys: BTreeSet<KeyValues> = cells.keys().map(coordinate).collect();
                keys.into_iter().collect()
            };
        let mut rows = distinct(&|coordinates| coordinates.0.clone());
        let mut columns = distinct(&|coordinates| coordinates.1.clone());
        self.row.sort_keys(&mut rows);
        self.column.sort_keys(&mut columns);
        for cell in cells.values_mut() {
            cell.values.sort_by(f64::total_cmp);
        }
        let assumption = records.assumption(&unit);
        let cell_at = |row: &KeyValues, column: &KeyValues| -> Option<TableCell> {
            let samples = cells.get(&(row.clone(), column.clone()))?;
            let base =
                cells.get(&(row.clone(), columns[0].clone())).filter(|_| *column != columns[0]);
            let comparison = base.map(|base| {
                let centre = assumption.summarize(&base.values, self.confidence).centre;
                (centre, assumption.compare_samples(&base.values, &samples.values, self.alpha))
            });
            Some(TableCell {
                summary: assumption.summarize(&samples.values, self.confidence),
                warnings: self.variation_warning(samples),
                comparison,
            })
        };
        let row_cells =
            |row: &KeyValues| columns.iter().map(|column| cell_at(row, column)).collect();
        let cell_rows: Vec<Vec<Option<TableCell>>> = rows.iter().map(row_cells).collect();
        BenchstatTable {
            geomeans: (0..columns.len()).map(|column| column_geomean(&cell_rows, column)).collect(),
            rows: rows.iter().map(|row| self.row.joined_values(row)).collect(),
            cells: cell_rows,
            columns,
            unit,
            key,
        }
    }

    /// Returns a remark if the results differ in a key that no projection uses.
    fn variation_warning(&self, values: &CellValues) -> Vec<String> {
        let mut keys: Vec<KeyValues> = values.remaining.iter().cloned().collect();
        self.remaining.sort_keys(&mut keys);
        match self.remaining.differing_fields(&keys)[..] {
            [] => Vec::new(),
            ref fields => vec![format!("benchmarks vary in {}", fields.join(", "))],
        }
    }
}

fn column_geomean(cells: &[Vec<Option<TableCell>>], column: usize) -> ColumnGeomean {
    let column_cells = || cells.iter().filter_map(|row| row[column].as_ref());
    let centres: Vec<f64> = column_cells().map(|cell| cell.summary.centre).collect();
    let ratio = |cell: &TableCell| -> Option<f64> {
        let (base, _) = cell.comparison.as_ref()?;
        Some(match cell.summary.centre {
            centre if centre == *base => 1.0,
            // An undefined ratio makes the mean of all ratios undefined.
            _ if *base == 0.0 => f64::NAN,
            centre => centre / base,
        })
    };
    let ratios: Vec<f64> = column_cells().filter_map(ratio).collect();
    let base_count = cells.iter().filter(|row| row[0].is_some()).count();
    let mut warnings = Vec::new();
    if column > 0 && base_count != ratios.len() {
        let warning = "benchmark set differs from baseline; geomeans may not be comparable";
        warnings.push(warning.to_owned());
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
    ColumnGeomean { mean, ratio, warnings }
}
