//! A hand-made parameter study.

use speedwell_analysis::{AggregatedParameter, ParameterStudy, StudyPoint, StudyStep};
use speedwell_model::{IntervalEstimate, Metric, ParameterValue};

fn estimate(value: f64, low: f64, high: f64) -> IntervalEstimate {
    IntervalEstimate { value, low, high }
}

/// Throughput over the length of the input, one line per encoding, chunk sizes averaged.
pub fn study() -> ParameterStudy {
    let lengths = [32.0, 256.0, 1024.0];
    let lines = [("ascii", 1.2e6), ("utf8", 9.1e5)];
    let mean = |top: f64, len: f64| top * (32.0 / len).powf(0.4);
    let point = |line: &str, top: f64, len: f64| StudyPoint {
        x: ParameterValue::Number(len),
        line: line.into(),
        runs: vec![mean(top, len); 40],
        cases: 4,
        mean: estimate(mean(top, len), mean(top, len) * 0.98, mean(top, len) * 1.021),
        median: mean(top, len) * 1.004,
        is_skewed: line == "utf8" && len == 1024.0,
    };
    let step = |line: &str, from: f64, to: f64| StudyStep {
        line: line.into(),
        from: ParameterValue::Number(from),
        to: ParameterValue::Number(to),
        ratio: (from / to).powf(0.4),
        p: Some(0.0004),
        cliffs_delta: Some(-1.0),
        exponent: Some(-0.4),
    };
    ParameterStudy {
        metric: Metric::throughput(),
        x_axis: "inLen".into(),
        by: Some("encoding".into()),
        aggregated: vec![
            AggregatedParameter { name: "chunkLen".into(), explained: Some(0.62) },
            AggregatedParameter { name: "n".into(), explained: None },
        ],
        points: lines
            .iter()
            .flat_map(|&(line, top)| lengths.map(|len| point(line, top, len)))
            .collect(),
        steps: lines
            .iter()
            .flat_map(|&(line, _)| [step(line, 32.0, 256.0), step(line, 256.0, 1024.0)])
            .collect(),
        exponents: lines.iter().map(|&(line, _)| (line.to_owned(), Some(-0.4))).collect(),
        warnings: vec![
            "chunkLen explains most of the variance within points: study it by itself".into(),
        ],
    }
}
