//! The runs of a study arranged in cells (one case under one variant) and points.
//!
//! Decides the order of points: lines by first appearance, x ascending where it is numeric and by
//! first appearance where not. It must not know intervals or tests.

use super::{unknown, without};
use crate::grid::{Grid, values_of};
use speedwell_model::{Case, Value};
use speedwell_stats::effect::eta_squared;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Something by which cells differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Key {
    /// A parameter of the case.
    Parameter(String),
    /// The name of the benchmark.
    Benchmark,
    /// The variant.
    Variant,
}

impl Key {
    /// Its word on the command line.
    pub fn name(&self) -> String {
        match self {
            Key::Parameter(name) => name.clone(),
            Key::Benchmark => "benchmark".into(),
            Key::Variant => "variant".into(),
        }
    }

    /// Its value in a cell; empty where the case lacks the parameter.
    pub fn of(&self, cell: &Cell) -> String {
        match self {
            Key::Parameter(name) => cell.case.value(name).map_or(String::new(), Value::plain),
            Key::Benchmark => cell.case.benchmark.clone(),
            Key::Variant => cell.variant.to_string(),
        }
    }
}

/// What the x axis and the lines are.
pub(super) struct Axes {
    pub x: String,
    pub by: Option<Key>,
}

impl Axes {
    /// Finds the two among what the cases have.
    pub fn new(grid: &Grid<'_>, x: &str, by: Option<&str>) -> anyhow::Result<Axes> {
        let keys = keys(grid);
        let parameters: Vec<Key> = keys
            .iter()
            .filter(|key| matches!(key, Key::Parameter(_)))
            .cloned()
            .collect();
        if !parameters.contains(&Key::Parameter(x.to_owned())) {
            return Err(unknown(x, &parameters));
        }
        let find = |name: &str| {
            keys.iter()
                .find(|key| key.name() == name && name != x)
                .cloned()
        };
        let by = match by {
            Some(name) => Some(find(name).ok_or_else(|| unknown(name, &keys))?),
            None => (grid.variants.len() > 1).then_some(Key::Variant),
        };
        Ok(Axes {
            x: x.to_owned(),
            by,
        })
    }

    /// Whether the key is one of the axes.
    pub fn uses(&self, key: &Key) -> bool {
        self.by.as_ref() == Some(key) || *key == Key::Parameter(self.x.clone())
    }

    fn line(&self, cell: &Cell) -> String {
        self.by.as_ref().map_or(String::new(), |key| key.of(cell))
    }
}

/// Everything by which the cells of a session may differ: parameters by first appearance, then
/// benchmark and variant.
pub(super) fn keys(grid: &Grid<'_>) -> Vec<Key> {
    let mut keys = Vec::new();
    for (name, _) in grid.cases.iter().flat_map(|case| &case.case.values) {
        let key = Key::Parameter(name.clone());
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys.extend([Key::Benchmark, Key::Variant]);
    keys
}

/// The runs of one case under one variant.
pub(super) struct Cell {
    pub case: Arc<Case>,
    pub variant: Arc<str>,
    pub x: Value,
    pub values: Vec<f64>,
}

/// Cells that share x value and line.
pub(super) struct Point<'a> {
    pub x: Value,
    pub line: String,
    pub cells: Vec<&'a Cell>,
}

impl Point<'_> {
    /// All runs of all cells.
    pub fn pooled(&self) -> Vec<f64> {
        self.cells
            .iter()
            .flat_map(|cell| cell.values.iter().copied())
            .collect()
    }
}

/// The cells that have an x value and runs with a value of the metric.
pub(super) fn cells(
    grid: &Grid<'_>,
    axes: &Axes,
    metric: &str,
    warnings: &mut Vec<String>,
) -> Vec<Cell> {
    let (mut cells, mut lacking) = (Vec::new(), 0);
    for case in &grid.cases {
        let Some(x) = case.case.value(&axes.x) else {
            lacking += 1;
            continue;
        };
        for (variant, runs) in grid.variants.iter().zip(&case.by_variant) {
            let values: Vec<f64> = values_of(runs, metric)
                .iter()
                .map(|run| run.value)
                .collect();
            if !values.is_empty() {
                let (case, variant) = (case.case.clone(), variant.clone());
                cells.push(Cell {
                    case,
                    variant,
                    x: x.clone(),
                    values,
                });
            }
        }
    }
    if lacking > 0 {
        warnings.push(without(lacking, &axes.x));
    }
    cells
}

/// Gathers cells into points, line by line.
pub(super) fn points<'a>(cells: &'a [Cell], axes: &Axes) -> Vec<Point<'a>> {
    let mut lines: Vec<String> = Vec::new();
    let mut points: Vec<Point<'a>> = Vec::new();
    for cell in cells {
        let line = axes.line(cell);
        if !lines.contains(&line) {
            lines.push(line.clone());
        }
        match points
            .iter_mut()
            .find(|point| point.line == line && point.x == cell.x)
        {
            Some(point) => point.cells.push(cell),
            None => points.push(Point {
                x: cell.x.clone(),
                line,
                cells: vec![cell],
            }),
        }
    }
    let place = |line: &String| lines.iter().position(|known| known == line);
    let number = |point: &Point<'_>| point.x.as_number().unwrap_or(f64::INFINITY);
    points.sort_by(|a, b| {
        place(&a.line)
            .cmp(&place(&b.line))
            .then(number(a).total_cmp(&number(b)))
    });
    points
}

/// The different values of a key.
pub(super) fn levels(points: &[Point<'_>], of: &impl Fn(&Cell) -> String) -> Vec<String> {
    let mut levels: Vec<String> = points
        .iter()
        .flat_map(|point| &point.cells)
        .map(|cell| of(cell))
        .collect();
    levels.sort();
    levels.dedup();
    levels
}

/// Eta squared of a key within points; `None` when nothing varies within points.
pub(super) fn explained(points: &[Point<'_>], of: &impl Fn(&Cell) -> String) -> Option<f64> {
    let groups = |point: &Point<'_>| {
        let mut groups: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for cell in &point.cells {
            groups.entry(of(cell)).or_default().extend(&cell.values);
        }
        groups.into_values().collect()
    };
    eta_squared(&points.iter().map(groups).collect::<Vec<_>>())
}
