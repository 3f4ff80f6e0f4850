//! Hand-made findings: every verdict, unmatched cases, metrics of both directions.

use speedwell_analysis::{
    AnalysisFindings, CandidateComparison, CaseComparison, CaseSummary, SideSummary,
    StatisticalMethod, TestingCorrection,
};
use speedwell_model::{Case, IntervalEstimate, Metric, MetricDirection, RunValue, Verdict, median};
use std::sync::Arc;

/// `number` values around `center`, spread evenly over plus or minus the fraction `spread` of it.
fn values(center: f64, spread: f64, number: usize) -> Vec<RunValue> {
    let value = |at: usize| {
        // Multiples of the golden ratio modulo 1, which have no visible order.
        let place = (at as f64 * 0.618_033_988_75).fract() - 0.5;
        let value = center * (1.0 + 2.0 * spread * place);
        RunValue { slot: at as u32, block: (at / 2) as u32, value: (value * 1e3).round() / 1e3 }
    };
    (0..number).map(value).collect()
}

fn mean_of(runs: &[RunValue]) -> f64 {
    runs.iter().map(|run| run.value).sum::<f64>() / runs.len() as f64
}

fn variation_of(runs: &[RunValue]) -> Option<f64> {
    let mean = mean_of(runs);
    let squares: f64 = runs.iter().map(|run| (run.value - mean).powi(2)).sum();
    (runs.len() > 1).then(|| (squares / (runs.len() - 1) as f64).sqrt() / mean)
}

fn median_of(runs: &[RunValue]) -> f64 {
    median(&mut runs.iter().map(|run| run.value).collect::<Vec<_>>()).unwrap()
}

fn side(center: f64, spread: f64, number: usize) -> SideSummary {
    let runs = values(center, spread, number);
    SideSummary {
        location: center,
        median: median_of(&runs),
        mean: mean_of(&runs),
        variation: variation_of(&runs),
        exposure: Default::default(),
        runs: runs.into(),
    }
}

fn estimate(value: f64, low: f64, high: f64) -> IntervalEstimate {
    IntervalEstimate { value, low, high }
}

fn case(id: &str) -> Arc<Case> {
    Arc::new(Case::parse(id).unwrap())
}

/// A row whose sides differ by `change`, seen in `runs` runs per side.
fn row(
    id: &str,
    center: f64,
    change: IntervalEstimate,
    runs: usize,
    verdict: Verdict,
) -> CaseComparison {
    CaseComparison {
        case: case(id),
        baseline: side(center, 0.012, runs),
        candidate: side(center * (1.0 + change.value), 0.015, runs),
        change: Some(change),
        mean_change: Some(change),
        is_shape_changed: false,
        p: Some(0.0002),
        q: Some(0.0004),
        verdict,
        withheld: None,
        no_verdict: None,
        differs: matches!(verdict, Verdict::Better | Verdict::Worse),
        is_exact: false,
        is_indicative: false,
        decided_at: Some(runs as u32),
        detectable: Some(0.009),
        more_runs: None,
        cliffs_delta: Some(0.92),
        machines: None,
        notes: Vec::new(),
    }
}

const DECODER: &str = "string_decoder/string-decoder.js n=2500000";

const BETTER: IntervalEstimate = IntervalEstimate { value: 0.0823, low: 0.0691, high: 0.0958 };
const SAME: IntervalEstimate = IntervalEstimate { value: 0.0012, low: -0.0052, high: 0.0071 };
const DEPENDENT: &str = "runs depend on each other; blocks protect the test";

fn throughput_rows() -> Vec<CaseComparison> {
    let id = |rest: &str| format!("{DECODER} {rest}");
    let worse = estimate(-0.0514, -0.0632, -0.0401);
    let jump = estimate(0.352, 0.321, 0.384);
    let mut rows = vec![
        row(&id("encoding=ascii inLen=32"), 1_148_312.0, BETTER, 8, Verdict::Better),
        CaseComparison {
            p: Some(0.61),
            q: Some(0.61),
            ..row(&id("encoding=ascii inLen=1024"), 903_112.0, SAME, 14, Verdict::Same)
        },
        row(&id("encoding=utf8 inLen=32"), 1_020_500.0, worse, 8, Verdict::Worse),
    ];
    rows.extend(special_rows());
    let compare = "buffers/buffer-compare.js n=1000000 size=16";
    rows.push(row(compare, 2_214_000.0, jump, 8, Verdict::Better));
    rows.push(CaseComparison {
        notes: vec![DEPENDENT.into()],
        ..row("util/format.js n=100000 type=\"a|b\"", 310_000.0, SAME, 8, Verdict::Same)
    });
    rows
}

/// An unclear case, one whose shape changed, and one that is only a hint.
fn special_rows() -> [CaseComparison; 3] {
    let id = |rest: &str| format!("{DECODER} {rest}");
    let unclear = estimate(0.0124, -0.0085, 0.0331);
    [
        CaseComparison {
            p: Some(0.21),
            q: Some(0.24),
            decided_at: None,
            detectable: Some(0.034),
            more_runs: Some(38),
            notes: vec![DEPENDENT.into()],
            ..row(&id("encoding=utf8 inLen=1024"), 455_210.0, unclear, 32, Verdict::Unclear)
        },
        CaseComparison {
            mean_change: Some(estimate(0.214, 0.162, 0.261)),
            is_shape_changed: true,
            ..row(&id("encoding=base64-utf8 inLen=32"), 1_301_120.0, BETTER, 8, Verdict::Better)
        },
        CaseComparison {
            is_exact: false,
            is_indicative: true,
            candidate: side(812_000.0, 0.02, 6),
            ..row(&id("encoding=base64-utf8 inLen=1024"), 760_000.0, BETTER, 8, Verdict::Better)
        },
    ]
}

fn against_old(metric: Metric, rows: Vec<CaseComparison>) -> CandidateComparison {
    CandidateComparison {
        baseline: "old".into(),
        candidate: "new".into(),
        metric,
        method: StatisticalMethod::Rank,
        confidence: 0.95,
        delta: 0.02,
        threshold: None,
        correction: TestingCorrection::BenjaminiHochberg,
        rows,
        overall: Some(estimate(0.0612, 0.0231, 0.0987)),
        is_typical: false,
        only_baseline: Vec::new(),
        only_candidate: Vec::new(),
    }
}

fn memory() -> Metric {
    Metric::new("max_rss", "B", MetricDirection::Lower)
}

/// Two metrics, every verdict, cases that only one side has.
pub fn comparison() -> AnalysisFindings {
    let memory_rows = vec![
        row(
            "buffers/buffer-compare.js n=1000000 size=16",
            48.2e6,
            estimate(-0.121, -0.133, -0.108),
            8,
            Verdict::Better,
        ),
        row(
            "util/format.js n=100000 type=\"a|b\"",
            52.0e6,
            estimate(0.041, 0.032, 0.05),
            8,
            Verdict::Worse,
        ),
    ];
    let throughput = CandidateComparison {
        only_baseline: vec!["buffers/buffer-iterate.js n=1000 type=fast".into()],
        only_candidate: vec!["url/url-parse.js n=1e7".into()],
        ..against_old(Metric::throughput(), throughput_rows())
    };
    let memory = CandidateComparison {
        overall: Some(estimate(-0.044, -0.123, 0.042)),
        is_typical: false,
        ..against_old(memory(), memory_rows)
    };
    let comparisons = vec![throughput, memory];
    AnalysisFindings {
        summaries: comparisons.iter().flat_map(summaries_of).collect(),
        comparisons,
        warnings: vec![
            "the load of the machine was 3.2 when the session began: other work \
                        disturbs the figures"
                .into(),
        ],
        ..AnalysisFindings::default()
    }
}

fn summaries_of(comparison: &CandidateComparison) -> Vec<CaseSummary> {
    let sides = |row: &CaseComparison| {
        [("old", &row.baseline), ("new", &row.candidate)]
            .map(|(name, side)| summary(&row.case, name, &comparison.metric, side.runs.to_vec()))
    };
    comparison.rows.iter().flat_map(sides).collect()
}

fn summary(case: &Arc<Case>, variant: &str, metric: &Metric, runs: Vec<RunValue>) -> CaseSummary {
    let middle = median_of(&runs);
    let half = 0.008 * middle;
    let spread = if runs.len() < 6 { 0.0 } else { half };
    CaseSummary {
        case: Arc::clone(case),
        variant: variant.into(),
        metric: metric.clone(),
        center: estimate(middle, middle - spread, middle + spread),
        mean: mean_of(&runs),
        variation: variation_of(&runs),
        autocorrelation: (runs.len() >= 8).then_some(0.12),
        outliers: Vec::new(),
        exposure: Default::default(),
        notes: Vec::new(),
        runs: runs.into(),
    }
}

/// One variant, cases of three benchmarks.
pub fn one_sided() -> Vec<CaseSummary> {
    let summary = |id: &str, center: f64, runs: usize| {
        summary(&case(id), "node", &Metric::throughput(), values(center, 0.015, runs))
    };
    let mut summaries = vec![
        summary(&format!("{DECODER} encoding=ascii inLen=32"), 1_148_312.0, 12),
        summary(&format!("{DECODER} encoding=ascii inLen=1024"), 903_112.0, 12),
        summary(&format!("{DECODER} encoding=base64-utf8 inLen=1024"), 455_210.0, 12),
        summary("buffers/buffer-compare.js n=1000000 size=16", 2_214_000.0, 12),
        summary("util/format.js n=100000 type=number", 310_000.0, 4),
    ];
    summaries[1].outliers = vec![3, 7];
    summaries[2].notes = vec!["runs depend on each other".into()];
    summaries
}

fn load_metrics() -> Vec<(Metric, f64)> {
    vec![
        (Metric::throughput(), 51_234.0),
        (Metric::new("latency_p50", "ns", MetricDirection::Lower), 912_000.0),
        (Metric::new("latency_p99", "ns", MetricDirection::Lower), 3_410_000.0),
        (Metric::new("received", "B/s", MetricDirection::Higher), 8.4e6),
    ]
}

const LOAD: &str = "http/hello concurrency=50";

/// One case, several metrics.
pub fn load_test() -> Vec<CaseSummary> {
    let one = |(metric, center): (Metric, f64)| {
        summary(&case(LOAD), "server", &metric, values(center, 0.02, 8))
    };
    load_metrics().into_iter().map(one).collect()
}

/// The case of [`load_test`], compared with another server.
pub fn load_compared() -> AnalysisFindings {
    let one = |(metric, center): (Metric, f64)| {
        let (change, verdict) = match metric.better {
            MetricDirection::Higher => (estimate(0.12, 0.107, 0.135), Verdict::Better),
            MetricDirection::Lower | MetricDirection::Unknown => {
                (estimate(0.034, 0.025, 0.043), Verdict::Worse)
            }
        };
        against_old(metric, vec![row(LOAD, center, change, 14, verdict)])
    };
    let comparisons = load_metrics().into_iter().map(one);
    AnalysisFindings { comparisons: comparisons.collect(), ..AnalysisFindings::default() }
}

/// A comparison of throughput with one case per verdict and change.
pub fn verdicts(verdicts: &[(Verdict, f64)]) -> AnalysisFindings {
    let one = |(at, &(verdict, change)): (usize, &(Verdict, f64))| CaseComparison {
        more_runs: (verdict == Verdict::Unclear).then_some(12),
        ..row(
            &format!("math/add n={at}"),
            1e6,
            estimate(change, change - 0.01, change + 0.01),
            8,
            verdict,
        )
    };
    let rows = verdicts.iter().enumerate().map(one).collect();
    let comparison = CandidateComparison {
        overall: None,
        is_typical: false,
        ..against_old(Metric::throughput(), rows)
    };
    AnalysisFindings { comparisons: vec![comparison], ..AnalysisFindings::default() }
}

/// Three ways to do the same thing, compared with a fourth.
pub fn contest() -> AnalysisFindings {
    let one = |(name, change, verdict): (&str, IntervalEstimate, Verdict)| CandidateComparison {
        baseline: "concat".into(),
        candidate: name.into(),
        overall: None,
        is_typical: false,
        ..against_old(
            Metric::throughput(),
            vec![row("eval/strings", 8_412_000.0, change, 8, verdict)],
        )
    };
    let candidates = [
        ("join", estimate(-0.312, -0.334, -0.29), Verdict::Worse),
        ("template", estimate(0.003, -0.007, 0.012), Verdict::Same),
        ("buffer", estimate(1.84, 1.72, 1.97), Verdict::Better),
    ];
    AnalysisFindings { comparisons: candidates.map(one).to_vec(), ..AnalysisFindings::default() }
}
