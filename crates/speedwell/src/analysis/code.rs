//! What runs of pieces of code show beside the comparison: the figures of each, how much they were disturbed, and how
//! throughput depends on the number of workers.
//!
//! Start at [`figures`] and [`levels`].

use super::scaling::{self, Level, Scaling};
use super::{Findings, Settings};
use crate::model::{Case, Estimate, Metric, Run, Session, Value, Verdict, median};
use speedwell_stats::interval::median_binomial;
use speedwell_stats::test::welch;
use std::sync::Arc;

/// Iterations that take longer in the mean than in the median batch by more than this were disturbed.
pub const MOST_DISTURBANCE: f64 = 1.1;

/// What one code did at one number of workers.
#[derive(Debug, Clone)]
pub struct CodeFigures {
    /// What it is called: the case's code, or the variant.
    pub label: String,
    /// Workers, where they are a parameter.
    pub concurrency: Option<u32>,
    /// Runs.
    pub runs: usize,
    /// Time per iteration and worker in the median batch, in nanoseconds, with the interval of its median over
    /// runs; without interval (low = high) below 6 runs.
    pub time_median_ns: Option<Estimate>,
    /// The same in the batch that a twentieth is quicker than.
    pub time_p5_ns: Option<f64>,
    /// Mean time per iteration and worker.
    pub time_ns: Option<f64>,
    /// Iterations per second of all workers.
    pub per_s: Option<f64>,
    /// Mean divided by median: 1 on a quiet machine.
    pub disturbance: Option<f64>,
    /// Processor time of an iteration in user mode and in the kernel, in nanoseconds, where an iteration is a
    /// process.
    pub cpu_ns: Option<(f64, f64)>,
}

/// One code at several numbers of workers.
#[derive(Debug, Clone)]
pub struct CodeLevels {
    /// What it is called.
    pub label: String,
    /// Its figures at each number, ascending.
    pub figures: Vec<CodeFigures>,
    /// What they show together; `None` if no level counts.
    pub scaling: Option<Scaling>,
}

/// Whether all runs of a session are those of code.
pub fn is_code(session: &Session) -> bool {
    let is_code = |run: &Run| run.case.benchmark.starts_with("eval/");
    !session.runs.is_empty() && session.runs.iter().all(is_code)
}

/// The figures of every code and number of workers, in the order typed.
pub fn figures(session: &Session, confidence: f64) -> Vec<CodeFigures> {
    ordered(session)
        .iter()
        .map(|(label, case, runs)| figures_of(label, case, runs, confidence))
        .collect()
}

/// Codes that were measured with several numbers of workers.
pub fn levels(session: &Session, confidence: f64) -> Vec<CodeLevels> {
    let groups = groups(session);
    let mut labels: Vec<&String> = Vec::new();
    for (label, ..) in &groups {
        if !labels.contains(&label) {
            labels.push(label);
        }
    }
    let of_label = |label: &&String| {
        let own = groups.iter().filter(|(other, ..)| other == *label);
        let mut figures: Vec<CodeFigures> = Vec::new();
        let mut levels: Vec<Level> = Vec::new();
        for (label, case, runs) in own {
            levels.push(Level {
                concurrency: concurrency(case)?,
                throughputs: runs.iter().filter_map(|run| per_s(run, case)).collect(),
                is_spoilt: false,
            });
            figures.push(figures_of(label, case, runs, confidence));
        }
        figures.sort_by_key(|one| one.concurrency);
        (levels.len() > 1).then(|| CodeLevels {
            label: (*label).clone(),
            figures,
            scaling: scaling::scaling(&levels),
        })
    };
    labels.iter().filter_map(of_label).collect()
}

/// Every window of one code at one number of workers.
#[derive(Debug, Clone)]
pub struct CodeWindows {
    /// What it is called.
    pub label: String,
    /// Workers, where they are a parameter.
    pub concurrency: Option<u32>,
    /// Iterations per second of each window, in order of execution; those of all runs together.
    pub per_s: Vec<f64>,
    /// Time of an iteration of one worker over all windows, in nanoseconds; `None` if none was completed.
    pub time_ns: Option<f64>,
}

/// The windows of every code and number of workers, in the order typed.
pub fn windows(session: &Session) -> Vec<CodeWindows> {
    let of_group = |(label, case, runs): Group<'_>| {
        let samples = runs.iter().flat_map(|run| &run.samples);
        let own: Vec<_> = samples
            .filter(|sample| &*sample.metric == Metric::THROUGHPUT)
            .collect();
        let elapsed_ns = own.iter().filter_map(|sample| sample.elapsed_ns);
        let elapsed_ns = elapsed_ns.sum::<u64>() as f64;
        let iterations: f64 = own.iter().filter_map(|sample| sample.iterations).sum();
        let concurrency = concurrency(&case);
        let time_ns = f64::from(concurrency.unwrap_or(1)) * elapsed_ns / iterations;
        CodeWindows {
            label,
            concurrency,
            per_s: own.iter().map(|sample| sample.value).collect(),
            time_ns: (iterations > 0.0).then_some(time_ns),
        }
    };
    ordered(session).into_iter().map(of_group).collect()
}

/// Two-sided p of Welch's test of two codes' samples; `None` with fewer than two of either, or without any spread.
pub fn p_of_difference(one: &[f64], other: &[f64]) -> Option<f64> {
    Some(welch(one, other).ok()?.p)
}

/// Sentences about what may spoil the figures, or be read out of them wrongly.
pub fn warnings(session: &Session, figures: &[CodeFigures], settings: &Settings) -> Vec<String> {
    let mut warnings = Vec::new();
    // Workers that share processors wait for each other, which is no disturbance.
    let processors = session.environment.cpus.unwrap_or(1);
    let alone = |one: &&CodeFigures| one.concurrency.unwrap_or(1) <= processors;
    let disturbed = figures
        .iter()
        .filter(alone)
        .filter_map(|one| Some((one, one.disturbance?)));
    let worst = disturbed.max_by(|a, b| a.1.total_cmp(&b.1));
    if let Some((one, disturbance)) = worst.filter(|(_, worst)| *worst > MOST_DISTURBANCE) {
        warnings.push(format!(
            "{}: an iteration takes {disturbance:.1} times as long in the mean as in the median batch: the machine was \
             busy with other things, or few iterations cost much more than most, as with a garbage collection. The \
             median tells what the code costs, the throughput what was achieved.",
            one.label
        ));
    }
    // What several runs share is told with the session.
    if let [only] = &session.runs[..] {
        warnings.extend(only.notes.iter().cloned());
    }
    warnings.extend(contradiction(session, settings));
    warnings
}

/// Where the median batch and the throughput say the opposite of each other.
fn contradiction(session: &Session, settings: &Settings) -> Option<String> {
    let verdicts = |metric: &str| -> Vec<(String, String, Verdict)> {
        let settings = Settings {
            metrics: vec![metric.to_owned()],
            ..settings.clone()
        };
        let found: Findings = super::of(session, &settings);
        let rows = found.comparisons.into_iter().flat_map(|comparison| {
            let name = comparison.candidate;
            let row = move |row: super::CaseComparison| (name.clone(), row.case.id(), row.verdict);
            comparison.rows.into_iter().map(row)
        });
        rows.collect()
    };
    if session.variants.len() < 2 || !settings.metrics.is_empty() {
        return None;
    }
    let by_throughput = verdicts(Metric::THROUGHPUT);
    let opposite = |(name, case, verdict): &(String, String, Verdict)| {
        let other = by_throughput
            .iter()
            .find(|one| (&one.0, &one.1) == (name, case));
        let pair = (*verdict, other.map(|other| other.2));
        matches!(
            pair,
            (Verdict::Better, Some(Verdict::Worse)) | (Verdict::Worse, Some(Verdict::Better))
        )
    };
    let all = verdicts(Metric::TIME_MEDIAN);
    let (name, ..) = all.iter().find(|one| opposite(one))?;
    Some(format!(
        "{name}: the median batch and the throughput say the opposite of each other. Rare costs, such as those of \
         garbage collection, are in the throughput alone: see --metric throughput."
    ))
}

/// The runs of one code at one number of workers.
type Group<'a> = (String, Arc<Case>, Vec<&'a Run>);

fn ordered(session: &Session) -> Vec<Group<'_>> {
    let mut groups = groups(session);
    let place = |name: &str| session.variants.iter().position(|one| one.name == name);
    // Blocks are shuffled, and the first code typed is the baseline.
    groups.sort_by_key(|(.., runs)| place(&runs[0].variant));
    groups
}

fn groups(session: &Session) -> Vec<Group<'_>> {
    let several = session.variants.len() > 1;
    let mut groups: Vec<Group<'_>> = Vec::new();
    for run in &session.runs {
        let code = match run.case.value("code") {
            Some(Value::Text(code)) => Some(code.clone()),
            _ => None,
        };
        let label = match (code, several) {
            (Some(code), true) => format!("{code} ({})", run.variant),
            (Some(code), false) => code,
            (None, _) => run.variant.to_string(),
        };
        let id = run.case.id();
        let known = |group: &&mut Group<'_>| group.0 == label && group.1.id() == id;
        match groups.iter_mut().find(known) {
            Some(group) => group.2.push(run),
            None => groups.push((label, run.case.clone(), vec![run])),
        }
    }
    groups
}

fn concurrency(case: &Case) -> Option<u32> {
    match case.value("concurrency")? {
        Value::Number(count) => Some(*count as u32),
        _ => None,
    }
}

fn figures_of(label: &str, case: &Case, runs: &[&Run], confidence: f64) -> CodeFigures {
    let values = |metric: &str| -> Vec<f64> {
        let values = runs.iter().filter_map(|run| run.value_of(metric));
        values.collect()
    };
    let typical = |metric: &str| median(&mut values(metric));
    let medians = values(Metric::TIME_MEDIAN);
    let time_median_ns = median(&mut medians.clone()).map(|value| {
        let interval = median_binomial(&medians, confidence);
        Estimate {
            value,
            low: interval.map_or(value, |interval| interval.low),
            high: interval.map_or(value, |interval| interval.high),
        }
    });
    let disturbance =
        |run: &&Run| Some(run.value_of(Metric::TIME)? / run.value_of(Metric::TIME_MEDIAN)?);
    let mut disturbances: Vec<f64> = runs.iter().filter_map(disturbance).collect();
    let mut rates: Vec<f64> = runs.iter().filter_map(|run| per_s(run, case)).collect();
    CodeFigures {
        label: label.to_owned(),
        concurrency: concurrency(case),
        runs: runs.len(),
        time_median_ns,
        time_p5_ns: typical(Metric::TIME_P5),
        time_ns: typical(Metric::TIME),
        per_s: median(&mut rates),
        disturbance: median(&mut disturbances),
        cpu_ns: typical("user_time").zip(typical("system_time")),
    }
}

/// Iterations per second of all workers over the whole of a run, which is less biased than the mean of its windows:
/// they end when an iteration does.
fn per_s(run: &Run, case: &Case) -> Option<f64> {
    let workers = concurrency(case).unwrap_or(1);
    Some(f64::from(workers) / run.value_of(Metric::TIME)? * 1e9)
}
