//! Computes what a report on snippets shows in addition to the comparison: the figures of each
//! snippet, how much its runs were disturbed, and how throughput depends on the number of workers.
//!
//! Start at [`snippet_figures`] and [`snippet_levels`].

use super::scaling::{self, ConcurrencyLevel, ScalingFindings};
use super::{AnalysisFindings, AnalysisSettings};
use crate::grid::{
    SnippetGroup, distinct_items, is_folded, is_snippet, ordered_groups, snippet_groups,
};
use crate::summary::estimate_with_interval;
use crate::warnings::quote_list;
use speedwell_model::{Case, IntervalEstimate, Metric, Run, Session, Snippet, Verdict, median};
use speedwell_stats::interval::median_binomial;
use speedwell_stats::test::welch;

/// Ratio of mean to median time per iteration above which a run counts as disturbed.
pub const MAX_DISTURBANCE: f64 = 1.1;

/// Results of one snippet at one number of workers.
#[derive(Debug, Clone)]
pub struct SnippetFigures {
    /// Label: the text of the snippet, or the name of the variant.
    pub label: String,
    /// Number of workers, if it is a parameter.
    pub concurrency: Option<u32>,
    /// Number of runs.
    pub runs: usize,
    /// Time that one worker needs for an iteration in a run's median batch, in nanoseconds: the
    /// median over runs. If there are too few runs for an interval (fewer than 6 at 95%), `low`
    /// and `high` equal `value`.
    pub time_median_ns: Option<IntervalEstimate>,
    /// Time that one worker needs for an iteration at the 5th percentile of batches, in
    /// nanoseconds.
    pub time_p5_ns: Option<f64>,
    /// Mean time that one worker needs for an iteration, in nanoseconds.
    pub time_ns: Option<f64>,
    /// Iterations per second over all workers.
    pub per_s: Option<f64>,
    /// Mean time divided by the time in the median batch: 1 on a quiet machine.
    pub disturbance: Option<f64>,
    /// User and kernel processor time per iteration in nanoseconds, if an iteration is a process.
    pub cpu_ns: Option<(f64, f64)>,
    /// Processor time per iteration in nanoseconds, without the shell, if known.
    pub own_cpu_ns: Option<f64>,
    /// Time that each execution spends in the shell, in nanoseconds, if a shell executes the
    /// command.
    pub shell_ns: Option<f64>,
    /// Whether the compiler has probably optimized the snippet away.
    pub is_folded: bool,
}

/// One snippet at several numbers of workers.
#[derive(Debug, Clone)]
pub struct SnippetLevels {
    /// Label of the snippet.
    pub label: String,
    /// Language of the code, by the name that `eval` uses.
    pub language: String,
    /// Results at each number of workers, ascending.
    pub figures: Vec<SnippetFigures>,
    /// Combined result over all levels; `None` if no level is usable.
    pub scaling: Option<ScalingFindings>,
}

/// Whether a session consists of snippet runs only.
pub fn has_only_snippets(session: &Session) -> bool {
    !session.runs.is_empty() && session.runs.iter().all(|run| is_snippet(&run.case))
}

/// Results of each snippet and number of workers, in the order in which the snippets were typed.
pub fn snippet_figures(session: &Session, confidence: f64) -> Vec<SnippetFigures> {
    ordered_groups(session)
        .iter()
        .map(|(label, case, runs)| figures_of(label, case, runs, confidence))
        .collect()
}

/// Snippets measured with several numbers of workers.
pub fn snippet_levels(session: &Session, confidence: f64) -> Vec<SnippetLevels> {
    let groups = snippet_groups(session);
    let labels = distinct_items(groups.iter().map(|(label, ..)| label));
    let levels_of_label = |label: &&String| {
        let groups_of_label = groups.iter().filter(|(other_label, ..)| other_label == *label);
        let mut figures: Vec<SnippetFigures> = Vec::new();
        let mut levels: Vec<ConcurrencyLevel> = Vec::new();
        let mut language = String::new();
        for (label, case, runs) in groups_of_label {
            // The benchmark of a snippet is `eval/LANGUAGE`.
            let benchmark = case.benchmark.as_str();
            language = benchmark.strip_prefix("eval/").unwrap_or(benchmark).to_owned();
            levels.push(ConcurrencyLevel {
                concurrency: case.workers()?,
                throughputs: runs.iter().filter_map(|run| per_s(run, case)).collect(),
                is_spoilt: false,
            });
            figures.push(figures_of(label, case, runs, confidence));
        }
        figures.sort_by_key(|figures| figures.concurrency);
        (levels.len() > 1).then(|| SnippetLevels {
            label: (*label).clone(),
            language,
            figures,
            scaling: scaling::evaluate_scaling(&levels),
        })
    };
    labels.iter().filter_map(levels_of_label).collect()
}

/// Time windows of one snippet at one number of workers.
#[derive(Debug, Clone)]
pub struct SnippetWindows {
    /// Label of the snippet.
    pub label: String,
    /// Number of workers, if it is a parameter.
    pub concurrency: Option<u32>,
    /// Iterations per second in each window, in execution order over all runs.
    pub per_s: Vec<f64>,
    /// Time that one worker needs for an iteration, over all windows, in nanoseconds; `None` if no
    /// iteration was completed.
    pub time_ns: Option<f64>,
}

/// Time windows of each snippet and number of workers, in the order in which the snippets were
/// typed.
pub fn snippet_windows(session: &Session) -> Vec<SnippetWindows> {
    let of_group = |(label, case, runs): SnippetGroup<'_>| {
        let samples = runs.iter().flat_map(|run| &run.samples);
        let windows: Vec<_> =
            samples.filter(|sample| &*sample.metric == Metric::THROUGHPUT).collect();
        let elapsed_ns =
            (windows.iter()).filter_map(|sample| sample.elapsed_ns).sum::<u64>() as f64;
        let iterations: f64 = windows.iter().filter_map(|sample| sample.iterations).sum();
        let concurrency = case.workers();
        let time_ns = f64::from(concurrency.unwrap_or(1)) * elapsed_ns / iterations;
        SnippetWindows {
            label,
            concurrency,
            per_s: windows.iter().map(|sample| sample.value).collect(),
            time_ns: (iterations > 0.0).then_some(time_ns),
        }
    };
    ordered_groups(session).into_iter().map(of_group).collect()
}

/// Two-sided p value of Welch's test, applied to the logarithms of two snippets' samples.
/// Logarithms suit rates, because rates differ by factors: a disturbed rate is a fraction of the
/// others. `None` if a side has fewer than two samples, or if the samples of neither side
/// vary. 0 if one snippet completed no iteration in any sample and the other completed some in
/// every sample. If only some samples of a side are zero, the samples themselves are tested,
/// because zero has no logarithm.
pub fn p_of_difference(first: &[f64], second: &[f64]) -> Option<f64> {
    let is_done = |samples: &[f64]| samples.iter().all(|sample| *sample > 0.0);
    let logs = |samples: &[f64]| -> Vec<f64> { samples.iter().map(|sample| sample.ln()).collect() };
    let is_idle = |samples: &[f64]| samples.iter().all(|sample| *sample == 0.0);
    match (is_done(first), is_done(second)) {
        (true, true) => Some(welch(&logs(first), &logs(second)).ok()?.p),
        (true, false) if is_idle(second) => Some(0.0),
        (false, true) if is_idle(first) => Some(0.0),
        _ => Some(welch(first, second).ok()?.p),
    }
}

/// Warnings about what may distort the figures and how they may be misread.
pub fn snippet_warnings(
    session: &Session,
    figures: &[SnippetFigures],
    settings: &AnalysisSettings,
) -> Vec<String> {
    let mut warnings = Vec::new();
    // Workers that share processors wait for each other. This does not count as a disturbance.
    let processors = session.environment.cpus.unwrap_or(1);
    let has_own_processors =
        |snippet: &&SnippetFigures| snippet.concurrency.unwrap_or(1) <= processors;
    let disturbed = figures
        .iter()
        .filter(has_own_processors)
        .filter_map(|snippet| Some((snippet, snippet.disturbance?)));
    let worst = disturbed.max_by(|a, b| a.1.total_cmp(&b.1));
    // On a busy machine, disturbance is expected, and the user was warned before measuring.
    let worst =
        worst.filter(|(_, worst)| *worst > MAX_DISTURBANCE && !session.environment.was_busy());
    warnings.extend(worst.map(|(snippet, disturbance)| {
        format!(
            "{}: the mean is {disturbance:.1} times the median batch; the machine was busy with \
             other work, or a few iterations cost much more than most, as with garbage collection.",
            snippet.label
        )
    }));
    warnings.extend(warn_mostly_shell(figures));
    // If there are several runs, the session's own warnings include their common notes.
    if let [only] = &session.runs[..] {
        let notes = only.notes.iter().filter(|note| *note != Snippet::FOLDED);
        warnings.extend(notes.cloned());
    }
    warnings.extend(warn_contradiction(session, settings));
    warnings
}

/// Warns about commands whose executions consist mostly of shell startup.
fn warn_mostly_shell(figures: &[SnippetFigures]) -> Option<String> {
    let is_mostly_shell = |snippet: &&SnippetFigures| {
        let times = snippet.time_median_ns.zip(snippet.shell_ns);
        times.is_some_and(|(time, shell_ns)| shell_ns * 2.0 > time.value)
    };
    let mut affected = figures.iter().filter(is_mostly_shell).peekable();
    affected.peek()?;
    Some(format!(
        "{}: more than half of an execution is shell startup, so a change in the command's own \
         time looks smaller than it is.",
        quote_list(affected.map(|snippet| snippet.label.as_str()))
    ))
}

/// Warns if the median batch and the throughput contradict each other.
fn warn_contradiction(session: &Session, settings: &AnalysisSettings) -> Option<String> {
    let verdicts = |metric: &str| -> Vec<(String, String, Verdict)> {
        let settings = AnalysisSettings { metrics: vec![metric.to_owned()], ..settings.clone() };
        let findings: AnalysisFindings = super::analyze_session(session, &settings);
        let rows = findings.comparisons.into_iter().flat_map(|comparison| {
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
    let is_opposite = |(name, case, verdict): &(String, String, Verdict)| {
        let throughput = by_throughput.iter().find(|entry| (&entry.0, &entry.1) == (name, case));
        let pair = (*verdict, throughput.map(|entry| entry.2));
        matches!(
            pair,
            (Verdict::Better, Some(Verdict::Worse)) | (Verdict::Worse, Some(Verdict::Better))
        )
    };
    let by_time_median = verdicts(Metric::TIME_MEDIAN);
    let (name, ..) = by_time_median.iter().find(|entry| is_opposite(entry))?;
    Some(format!(
        "{name}: the median batch and the throughput contradict each other. Only the throughput \
         includes rare costs, such as garbage collection: see --metric throughput."
    ))
}

fn figures_of(label: &str, case: &Case, runs: &[&Run], confidence: f64) -> SnippetFigures {
    let values =
        |metric: &str| -> Vec<f64> { runs.iter().filter_map(|run| run.value_of(metric)).collect() };
    let median_of = |metric: &str| median(&mut values(metric));
    let medians = values(Metric::TIME_MEDIAN);
    let time_median_ns = median(&mut medians.clone())
        .map(|value| estimate_with_interval(value, median_binomial(&medians, confidence)));
    let disturbance =
        |run: &&Run| Some(run.value_of(Metric::TIME)? / run.value_of(Metric::TIME_MEDIAN)?);
    let mut disturbances: Vec<f64> = runs.iter().filter_map(disturbance).collect();
    let mut rates: Vec<f64> = runs.iter().filter_map(|run| per_s(run, case)).collect();
    SnippetFigures {
        label: label.to_owned(),
        concurrency: case.workers(),
        runs: runs.len(),
        time_median_ns,
        time_p5_ns: median_of(Metric::TIME_P5),
        time_ns: median_of(Metric::TIME),
        per_s: median(&mut rates),
        disturbance: median(&mut disturbances),
        cpu_ns: median_of("user_time").zip(median_of("system_time")),
        own_cpu_ns: median_of(Metric::OWN_CPU_TIME),
        shell_ns: median_of(Metric::SHELL_TIME),
        is_folded: is_folded(runs.iter().copied()),
    }
}

/// Iterations per second of all workers over the whole run. This figure is less biased than the
/// mean over time windows, because each window ends at the end of an iteration.
fn per_s(run: &Run, case: &Case) -> Option<f64> {
    let workers = case.workers().unwrap_or(1);
    Some(f64::from(workers) / run.value_of(Metric::TIME)? * 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_fixtures::FakeSession;
    use speedwell_model::Environment;

    /// Two snippets; the compiler may have optimized the first one away.
    fn half_folded() -> Session {
        let values =
            |side: &str, run: u32| f64::from(run) + if side == "malloc(16)" { 99.0 } else { 1.0 };
        let mut session = FakeSession::with_fixed_blocks(&["sqrt(2.0)", "malloc(16)"], 4)
            .add_case("eval/c", values)
            .build();
        for run in &mut session.runs {
            if &*run.variant == "sqrt(2.0)" {
                run.notes.push(Snippet::FOLDED.to_owned());
            }
        }
        session
    }

    #[test]
    fn optimized_away_code_is_named_in_a_warning_and_beside_its_rows() {
        let session = half_folded();
        let found = crate::analyze_session(&session, &AnalysisSettings::default());
        let named = |text: &String| text.contains("'sqrt(2.0)'") && text.contains("optimized");
        assert_eq!(found.warnings.iter().filter(|text| named(text)).count(), 1, "{found:?}");
        assert!(!found.warnings.iter().any(|text| text.contains("malloc")), "{found:?}");
        assert!(found.comparisons[0].rows[0].notes.iter().any(named), "{found:?}");
        let folded: Vec<bool> =
            snippet_figures(&session, 0.95).iter().map(|one| one.is_folded).collect();
        assert_eq!(folded, [true, false]);
    }

    #[test]
    fn optimized_away_code_is_named_if_it_is_the_only_variant() {
        let mut session = half_folded();
        session.runs.retain(|run| &*run.variant == "sqrt(2.0)");
        session.variants.truncate(1);
        let found = crate::analyze_session(&session, &AnalysisSettings::default());
        let warnings: Vec<&String> =
            found.warnings.iter().filter(|text| text.contains("optimized")).collect();
        assert!(warnings.len() == 1 && warnings[0].starts_with("'sqrt(2.0)'"), "{warnings:?}");
    }

    fn command_figures(median_ns: f64, shell_ns: f64) -> SnippetFigures {
        SnippetFigures {
            label: "true".into(),
            concurrency: None,
            runs: 6,
            time_median_ns: Some(IntervalEstimate {
                value: median_ns,
                low: median_ns,
                high: median_ns,
            }),
            time_p5_ns: None,
            time_ns: Some(median_ns * 3.0),
            per_s: None,
            disturbance: Some(3.0),
            cpu_ns: None,
            own_cpu_ns: None,
            shell_ns: Some(shell_ns),
            is_folded: false,
        }
    }

    #[test]
    fn commands_dominated_by_shell_startup_cause_a_warning() {
        assert_eq!(warn_mostly_shell(&[command_figures(5e6, 1e6)]), None);
        let warning =
            warn_mostly_shell(&[command_figures(1e6, 1.1e6), command_figures(3e6, 1e6)]).unwrap();
        assert!(warning.starts_with("'true': more than half"), "{warning}");
    }

    #[test]
    fn disturbance_is_not_reported_for_a_known_busy_machine() {
        let mut session = half_folded();
        let warnings_of = |session: &Session| {
            let figures = [command_figures(5e6, 1e3)];
            snippet_warnings(session, &figures, &AnalysisSettings::default()).concat()
        };
        assert!(
            warnings_of(&session).contains("the mean is 3.0 times the median batch"),
            "{}",
            warnings_of(&session)
        );
        let pressure = ("now_cpu_pressure_percent".to_owned(), "99.10".to_owned());
        session.environment = Environment { facts: [pressure].into(), ..Environment::default() };
        assert!(!warnings_of(&session).contains("median batch;"), "{}", warnings_of(&session));
    }

    #[test]
    fn samples_thousands_of_times_apart_differ_despite_large_variation() {
        let quick = [2_100_000.0, 9_800_000.0, 13_000_000.0];
        let slow = [19.0, 27.0, 12.0];
        assert!(welch(&quick, &slow).unwrap().p > 0.05);
        assert!(p_of_difference(&quick, &slow).unwrap() < 0.01);
        let repetition = [3_000_000.0, 11_000_000.0, 8_000_000.0];
        assert!(p_of_difference(&quick, &repetition).unwrap() > 0.5);
    }

    #[test]
    fn all_zero_samples_differ_from_nonzero_samples() {
        assert_eq!(p_of_difference(&[0.0, 0.0], &[3.0, 4.0]), Some(0.0));
        assert_eq!(p_of_difference(&[3.0, 4.0], &[0.0, 0.0]), Some(0.0));
        assert!(p_of_difference(&[0.0, 4.0], &[3.0, 0.0]).unwrap() > 0.5);
        assert_eq!(p_of_difference(&[3.0], &[3.0, 4.0]), None);
    }
}
