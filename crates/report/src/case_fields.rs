//! The columns by which machines recognise a case and a metric, the same in every table.

use super::field::Field;
use super::table::{Cell, number};
use serde_json::{Map, Value};
use speedwell_model::{Better, Case, Metric, RunValue};

/// What a row is about.
pub struct CaseMetric<'x> {
    /// The case.
    pub case: &'x Case,
    /// The metric.
    pub metric: &'x Metric,
}

/// `benchmark`, `parameters`, `metric`, `unit` and `better` of a row.
pub fn case_fields<T>(
    of: impl for<'x> Fn(&'x T) -> CaseMetric<'x> + Copy + 'static,
) -> Vec<Field<T>> {
    vec![
        Field::machine("benchmark", move |row| {
            Cell::value(of(row).case.benchmark.clone())
        }),
        Field::machine("parameters", move |row| {
            Cell::value(parameters(of(row).case))
        }),
        Field::machine("metric", move |row| {
            Cell::value(of(row).metric.name.clone())
        }),
        Field::machine("unit", move |row| Cell::value(of(row).metric.unit.clone())),
        Field::machine("better", move |row| {
            Cell::value(better(of(row).metric.better))
        }),
    ]
}

/// The parameters of a case as an object, in the order of the case.
pub fn parameters(case: &Case) -> Value {
    let pair = |(name, value): &(String, speedwell_model::Value)| {
        let value = match value {
            speedwell_model::Value::Bool(truth) => Value::Bool(*truth),
            speedwell_model::Value::Number(figure) => number(*figure).unwrap_or(Value::Null),
            speedwell_model::Value::Text(text) => Value::String(text.clone()),
        };
        (name.clone(), value)
    };
    Value::Object(case.values.iter().map(pair).collect::<Map<_, _>>())
}

fn better(better: Better) -> &'static str {
    match better {
        Better::Higher => "higher",
        Better::Lower => "lower",
    }
}

/// The value of each run, in order of execution.
pub fn values(runs: &[RunValue]) -> Vec<Value> {
    runs.iter()
        .map(|run| number(run.value).unwrap_or(Value::Null))
        .collect()
}

/// The position of each run in the order of execution of its session.
pub fn slots(runs: &[RunValue]) -> Vec<u32> {
    runs.iter().map(|run| run.slot).collect()
}
