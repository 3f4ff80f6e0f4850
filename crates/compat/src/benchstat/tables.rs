//! Groups results into tables. By default, there is one table per unit and configuration, with a
//! row for each benchmark and a column for each file. Start at [`BenchstatTables::new`].
//!
//! [`KeyProjection`] maps results to keys. The keys decide the table, row and column of a result,
//! and the order of tables, rows and columns. [`filter_record`] decides which results are kept.

use crate::benchstat::query::{BenchstatFilter, PartOrder, ProjectionPart};
use crate::benchstat::records::{BenchmarkRecord, BenchmarkRecords, BenchstatFigure};
use crate::benchstat::samples::{
    SampleComparison, SampleSummary, format_percentage, geometric_mean,
};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Rules for splitting results into tables, rows and columns, and for the statistics of the cells.
#[derive(Debug, Clone)]
pub struct TableRules {
    /// Projection into tables.
    pub table: KeyProjection,
    /// Projection into rows.
    pub row: KeyProjection,
    /// Projection into columns.
    pub column: KeyProjection,
    /// Projection of all keys that no other projection uses.
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

impl ColumnGeomean {
    /// Formats the ratio as a change; `None` if it is undefined.
    pub fn format_change(&self) -> Option<String> {
        self.ratio.map(|ratio| format_percentage((ratio - 1.0) * 100.0))
    }
}

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
        let build_table = |key: KeyValues| {
            let cells = collected.remove(&key).unwrap_or_default();
            rules.build_table(key, cells, records)
        };
        let tables = keys.into_iter().map(build_table).collect();
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
        let (rows, columns): (BTreeSet<_>, BTreeSet<_>) = cells.keys().cloned().unzip();
        let (mut rows, mut columns) = (Vec::from_iter(rows), Vec::from_iter(columns));
        self.row.sort_keys(&mut rows);
        self.column.sort_keys(&mut columns);
        for cell in cells.values_mut() {
            cell.values.sort_by(f64::total_cmp);
        }
        let assumption = records.assumption(&unit);
        let samples_at =
            |row: &KeyValues, column: &KeyValues| cells.get(&(row.clone(), column.clone()));
        let cell_at = |row: &KeyValues, column: &KeyValues| -> Option<TableCell> {
            let samples = samples_at(row, column)?;
            let base = samples_at(row, &columns[0]).filter(|_| *column != columns[0]);
            let comparison = base.map(|base| {
                let centre = assumption.summarize(&base.values, self.confidence).centre;
                (centre, assumption.compare_samples(&base.values, &samples.values, self.alpha))
            });
            let mut summary = assumption.summarize(&samples.values, self.confidence);
            if let Some(warning) = self.variation_warning(samples) {
                summary.warnings.insert(0, warning);
            }
            Some(TableCell { summary, comparison })
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
    fn variation_warning(&self, values: &CellValues) -> Option<String> {
        let mut keys: Vec<KeyValues> = values.remaining.iter().cloned().collect();
        self.remaining.sort_keys(&mut keys);
        let fields = self.remaining.differing_fields(&keys);
        (!fields.is_empty()).then(|| format!("benchmarks vary in {}", fields.join(", ")))
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

/// Values of a key, indexed by field; trailing empty values are omitted.
pub type KeyValues = Vec<String>;

/// Field of a key.
#[derive(Debug, Clone)]
struct ProjectionField {
    name: String,
    /// Index of the field's part in the projection.
    part: usize,
    order: PartOrder,
    /// For the order of first appearance: the position of each value.
    positions: HashMap<String, usize>,
}

/// Derives a key from a result.
#[derive(Debug, Clone, Default)]
pub struct KeyProjection {
    parts: Vec<ProjectionPart>,
    fields: Vec<ProjectionField>,
}

/// Settings and name parts that the projections on the command line use. The projection of the
/// remaining keys excludes them.
#[derive(Debug, Clone, Default)]
pub struct UsedKeys {
    keys: Vec<String>,
}

impl UsedKeys {
    /// Creates a projection of these parts, and marks the names in them as used. `has_unit` is true
    /// for the projection into tables, where the unit becomes the last field.
    pub fn add_projection(
        &mut self,
        parts: Vec<ProjectionPart>,
        has_unit: bool,
    ) -> Result<KeyProjection, String> {
        let mut projection = KeyProjection::default();
        for (index, part) in parts.iter().enumerate() {
            match part.key.as_str() {
                ".unit" => return Err(".unit is only allowed in filters".to_owned()),
                "" => return Err("key must not be empty".to_owned()),
                ".config" => {}
                key => {
                    projection.add_field(key, index, &part.order);
                }
            }
            self.keys.push(part.key.clone());
        }
        if has_unit {
            projection.add_field(".unit", parts.len(), &PartOrder::First);
        }
        projection.parts = parts;
        Ok(projection)
    }

    /// Creates a projection of the name and the configuration keys that no other projection uses.
    pub fn remaining_projection(&self) -> KeyProjection {
        let mut projection = KeyProjection::default();
        let part = |key: &str| ProjectionPart { key: key.to_owned(), order: PartOrder::First };
        projection.parts.extend((!self.contains(".config")).then(|| part(".config")));
        if !self.contains(".fullname") {
            projection.add_field(".fullname", projection.parts.len(), &PartOrder::First);
            projection.parts.push(part(".fullname"));
        }
        projection
    }

    fn contains(&self, key: &str) -> bool {
        self.keys.iter().any(|used| used == key)
    }

    /// Returns the name of a result without the parts that projections use.
    fn remaining_name(&self, record: &BenchmarkRecord) -> String {
        let name_keys = self.keys.iter().filter(|key| key.starts_with('/'));
        let prefixes: Vec<String> = name_keys.map(|key| format!("{key}=")).collect();
        let has_base = self.contains(".name");
        let has_processors = self.contains("/gomaxprocs");
        let is_marked = prefixes.iter().any(|prefix| record.name.contains(prefix));
        if !(has_base || is_marked || has_processors && record.name.contains('-')) {
            return record.name.clone();
        }
        let (base, parts) = record.name_parts();
        let mut name = if has_base { "*" } else { base }.to_owned();
        for part in parts {
            let is_used = prefixes.iter().any(|prefix| part.starts_with(prefix));
            if !(is_used || has_processors && part.starts_with('-')) {
                name.push_str(part);
            }
        }
        name
    }
}

/// Returns the value of a key other than `.config` and `.unit`.
fn key_value(key: &str, record: &BenchmarkRecord) -> String {
    match key {
        ".name" => record.base_name().to_owned(),
        ".fullname" => record.name.clone(),
        key if key.starts_with('/') => {
            let (_, parts) = record.name_parts();
            let processors = parts.last().and_then(|last| last.strip_prefix('-'));
            if let Some(processors) = processors.filter(|_| key == "/gomaxprocs") {
                return processors.to_owned();
            }
            let prefix = format!("{key}=");
            let value = parts.iter().find_map(|part| part.strip_prefix(&prefix));
            value.unwrap_or_default().to_owned()
        }
        key => record.setting_value(key).to_owned(),
    }
}

impl KeyProjection {
    fn add_field(&mut self, name: &str, part: usize, order: &PartOrder) -> usize {
        let (name, order) = (name.to_owned(), order.clone());
        self.fields.push(ProjectionField { name, part, order, positions: HashMap::new() });
        self.fields.len() - 1
    }

    /// Returns the key of a result. In the projection into tables, a result has one key for each of
    /// its units.
    pub fn key(
        &mut self,
        record: &BenchmarkRecord,
        unit: Option<&str>,
        used_keys: &UsedKeys,
    ) -> KeyValues {
        let mut row = vec![String::new(); self.fields.len()];
        for part in 0..self.parts.len() {
            let ProjectionPart { key, order } = self.parts[part].clone();
            if key != ".config" {
                if let Some(field) = self.fields.iter().position(|field| field.part == part) {
                    row[field] = match key.as_str() {
                        ".fullname" => used_keys.remaining_name(record),
                        key => key_value(key, record),
                    };
                }
                continue;
            }
            for (setting, value) in record.settings.iter().filter(|(key, _)| key != ".file") {
                let is_of_setting =
                    |field: &ProjectionField| field.part == part && field.name == *setting;
                let existing = self.fields.iter().position(is_of_setting);
                if existing.is_none() && used_keys.contains(setting) {
                    continue;
                }
                let field = existing.unwrap_or_else(|| self.add_field(setting, part, &order));
                row.resize(self.fields.len(), String::new());
                row[field] = value.clone();
            }
        }
        if let Some((field, unit)) = self.unit_field().zip(unit) {
            row[field] = unit.to_owned();
        }
        self.record_order(&row);
        while row.last().is_some_and(String::is_empty) {
            row.pop();
        }
        row
    }

    /// Records the order in which values first appear. As in Go's benchstat, this excludes values
    /// of the configuration, which are sorted alphabetically instead.
    fn record_order(&mut self, row: &[String]) {
        let parts = &self.parts;
        for (field, value) in self.fields.iter_mut().zip(row) {
            let is_config = parts.get(field.part).is_some_and(|part| part.key == ".config");
            if field.order == PartOrder::First && !is_config {
                let next = field.positions.len();
                field.positions.entry(value.clone()).or_insert(next);
            }
        }
    }

    /// Returns the indices of the fields in order: by part, and within a part by first appearance.
    pub fn field_order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.fields.len()).collect();
        order.sort_by_key(|field| self.fields[*field].part);
        order
    }

    /// Returns the name of a field.
    pub fn field_name(&self, field: usize) -> &str {
        &self.fields[field].name
    }

    /// Returns the index of the unit's field, which belongs to no part of the projection.
    pub fn unit_field(&self) -> Option<usize> {
        self.fields.iter().position(|field| field.part == self.parts.len())
    }

    /// Returns all nonempty values of a key, joined with spaces.
    pub fn joined_values(&self, key: &KeyValues) -> String {
        let order = self.field_order();
        let values = order.iter().map(|field| field_value(key, *field));
        values.filter(|value| !value.is_empty()).collect::<Vec<_>>().join(" ")
    }

    pub fn sort_keys(&self, keys: &mut [KeyValues]) {
        let order = self.field_order();
        keys.sort_by(|a, b| {
            let mut fields = order.iter().map(|field| {
                (&self.fields[*field], field_value(a, *field), field_value(b, *field))
            });
            let differing = fields.find(|(_, a, b)| a != b);
            differing.map_or(Ordering::Equal, |(field, a, b)| {
                field.compare_values(a, b).then_with(|| a.cmp(b))
            })
        });
    }

    /// Returns the fields whose values differ among keys.
    pub fn differing_fields(&self, keys: &[KeyValues]) -> Vec<&str> {
        let differs = |field: &usize| {
            keys.windows(2).any(|neighbors| {
                field_value(&neighbors[0], *field) != field_value(&neighbors[1], *field)
            })
        };
        let order = self.field_order();
        order.into_iter().filter(differs).map(|field| self.field_name(field)).collect()
    }

    /// Whether a result is kept. A result is dropped if its value is missing from the list of a
    /// part that has a fixed order.
    pub fn admits(&self, record: &BenchmarkRecord) -> bool {
        self.parts.iter().all(|part| match &part.order {
            PartOrder::Fixed(values) => values.contains(&key_value(&part.key, record)),
            _ => true,
        })
    }
}

/// Returns the value of a field; omitted trailing values are empty.
pub fn field_value(key: &KeyValues, field: usize) -> &str {
    key.get(field).map_or("", String::as_str)
}

impl ProjectionField {
    fn compare_values(&self, a: &str, b: &str) -> Ordering {
        match &self.order {
            PartOrder::First => {
                let position = |value: &str| self.positions.get(value).copied().unwrap_or(0);
                position(a).cmp(&position(b))
            }
            PartOrder::Alpha => a.cmp(b),
            PartOrder::Number => match (parse_number(a), parse_number(b)) {
                (Some(a), Some(b)) if a.is_nan() || b.is_nan() => a.is_nan().cmp(&b.is_nan()),
                (Some(a), Some(b)) => a.total_cmp(&b),
                (None, None) => Ordering::Equal,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
            },
            PartOrder::Fixed(values) => {
                let position = |value: &str| values.iter().rposition(|listed| listed == value);
                position(a).unwrap_or(0).cmp(&position(b).unwrap_or(0))
            }
        }
    }
}

/// Parses a number that may be followed by a metric or binary prefix, and by `b` or `B`: `4k`,
/// `1Mi`, `16KiB`.
fn parse_number(text: &str) -> Option<f64> {
    const PREFIXES: &str = "KMGTPEZY";
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    let text = text.strip_suffix(['b', 'B']).unwrap_or(text);
    let (text, base) = text.strip_suffix('i').map_or((text, 1000f64), |text| (text, 1024f64));
    let prefix = text.chars().last()?;
    let large_prefix = if prefix == 'k' { 'K' } else { prefix };
    let power = PREFIXES.find(large_prefix).map(|index| index as i32 + 1);
    let digits = match power {
        Some(_) => &text[..text.len() - prefix.len_utf8()],
        None if base == 1000.0 => text,
        None => return None,
    };
    let is_plain = digits.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | '+' | '-'));
    let value: f64 = digits.parse().ok().filter(|_| is_plain)?;
    Some(value * base.powi(power.unwrap_or(0)))
}

/// Returns the result with the figures that a filter keeps; `None` if no figure is left.
pub fn filter_record(filter: &BenchstatFilter, record: BenchmarkRecord) -> Option<BenchmarkRecord> {
    let kept = record.figures.iter().filter(|figure| matches(filter, &record, figure));
    let figures: Vec<BenchstatFigure> = kept.cloned().collect();
    (!figures.is_empty()).then_some(BenchmarkRecord { figures, ..record })
}

/// Rejects keys that filters do not support.
///
/// # Errors
/// Fails if a key is empty, or is `.config`, which is only allowed in projections.
pub fn check_filter(filter: &BenchstatFilter) -> Result<(), String> {
    match filter {
        BenchstatFilter::And(filters) | BenchstatFilter::Or(filters) => {
            filters.iter().try_for_each(check_filter)
        }
        BenchstatFilter::Not(inner) => check_filter(inner),
        BenchstatFilter::Match(key, _) if key == ".config" => {
            Err(".config is only allowed in projections".to_owned())
        }
        BenchstatFilter::Match(key, _) if key.is_empty() => Err("key must not be empty".to_owned()),
        BenchstatFilter::Match(..) => Ok(()),
    }
}

/// Whether a filter keeps a figure of a result.
fn matches(filter: &BenchstatFilter, record: &BenchmarkRecord, figure: &BenchstatFigure) -> bool {
    let keeps = |inner: &BenchstatFilter| matches(inner, record, figure);
    match filter {
        BenchstatFilter::And(filters) => filters.iter().all(keeps),
        BenchstatFilter::Or(filters) => filters.iter().any(keeps),
        BenchstatFilter::Not(inner) => !matches(inner, record, figure),
        BenchstatFilter::Match(key, pattern) if key == ".unit" => {
            let typed_unit = figure.typed_unit.as_deref();
            pattern.matches(&figure.unit) || typed_unit.is_some_and(|unit| pattern.matches(unit))
        }
        BenchstatFilter::Match(key, pattern) => pattern.matches(&key_value(key, record)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::benchstat::query::{parse_filter, parse_projection};

    fn sample_record() -> BenchmarkRecord {
        let mut records = BenchmarkRecords::default();
        records.read_file("f", "old", "goos: linux\nBenchmarkA/size=4k/x=1-8 1 5 ns/op 3 B/op\n");
        records.results.remove(0)
    }

    #[test]
    fn filters_keep_results_or_some_of_their_figures() {
        let count_figures = |text: &str| {
            let record = filter_record(&parse_filter(text).unwrap(), sample_record());
            record.map(|record| record.figures.len())
        };
        for (text, count) in [
            ("*", Some(2)),
            ("goos:linux /size:4k .name:A", Some(2)),
            ("goos:plan9", None),
            (".unit:ns/op", Some(1)),
            (".unit:(sec/op OR B/op)", Some(2)),
            ("-.unit:B/op", Some(1)),
            ("/gomaxprocs:8 -/x:2", Some(2)),
            (".file:/^o/ OR goos:plan9", Some(2)),
            (".unit:B/op goos:plan9", None),
        ] {
            assert_eq!(count_figures(text), count, "{text}");
        }
        assert!(check_filter(&parse_filter("a:1 .config:2").unwrap()).is_err());
    }

    #[test]
    fn later_projections_omit_keys_used_by_earlier_ones() {
        let mut used_keys = UsedKeys::default();
        let mut column =
            used_keys.add_projection(parse_projection("/size goos").unwrap(), false).unwrap();
        let mut row =
            used_keys.add_projection(parse_projection(".fullname").unwrap(), false).unwrap();
        let mut remaining = used_keys.remaining_projection();
        let record = sample_record();
        assert_eq!(column.key(&record, None, &used_keys), ["4k", "linux"]);
        assert_eq!(row.key(&record, None, &used_keys), ["A/x=1-8"]);
        assert_eq!(remaining.key(&record, None, &used_keys), KeyValues::new());
        assert!(used_keys.add_projection(parse_projection(".unit").unwrap(), false).is_err());
    }

    #[test]
    fn numbers_are_ordered_as_numbers_and_before_words() {
        let order = ProjectionField {
            name: String::new(),
            part: 0,
            order: PartOrder::Number,
            positions: HashMap::new(),
        };
        for (less, more) in
            [("2", "10"), ("999", "1k"), ("1000", "1Ki"), ("5MB", "1GiB"), ("9", "x")]
        {
            assert_eq!(order.compare_values(less, more), Ordering::Less, "{less} {more}");
            assert_eq!(order.compare_values(more, less), Ordering::Greater, "{less} {more}");
        }
        assert_eq!(order.compare_values("x", "y"), Ordering::Equal);
    }
}
