//! Puts the answer of a comparison into words. Also states what readers need to judge the answer:
//! units above the table, method and limits below it, and the cases that stand out or are missing.
//!
//! The words must agree with the figures: nothing is called faster unless the verdict says so.

use crate::case_labels::distinct;
use crate::cell::verdict_symbol;
use crate::charts::label_cases;
use crate::comparison::effect::{EffectWords, describe_effect, describe_unclear, reversed, spaced};
use crate::comparison::sections::with_short_names;
use crate::comparison::table::{capitalize_sentence, prepare_lines};
use crate::document::ReportBlock;
use crate::figure::{
    Uncertainty, better_direction, describe_metric, format_change_interval, format_count,
    format_percent_interval, format_quantity, format_setting, format_share, format_whole,
    join_texts, quality_words,
};
use crate::output::Verbosity;
use crate::table::{TableFootnotes, json_number};
use crate::unit::UnitChoice;
use indexmap::IndexMap;
use serde_json::{Value, json};
use speedwell_analysis::{
    AnalysisFindings, CandidateComparison, CaseComparison, NoVerdict, StatisticalMethod,
    TestingCorrection,
};
use speedwell_model::{IntervalEstimate, Metric, RunOrder, StepFailure, Verdict};
use std::sync::Arc;

/// What the sentences about one of several comparisons need to know about the others.
#[derive(Debug, Clone, Default)]
pub struct HeadlineContext {
    /// What distinguishes the comparison, such as `latency_p50: `. May be empty.
    pub prefix: String,
    /// Whether this is the only comparison, so that sentences need not name its sides.
    pub is_only: bool,
    /// Whether sentences are about the candidate. Otherwise they are about the faster side.
    pub is_about_candidate: bool,
    /// The requested unit.
    pub unit: Option<UnitChoice>,
    /// Whether a hint below the report says how to measure further.
    pub has_resume_hint: bool,
}

/// Returns the answer of `compared`, one of the comparisons in `findings`, in one or two sentences.
pub fn comparison_headline(
    compared: &CandidateComparison,
    context: &HeadlineContext,
    findings: &AnalysisFindings,
) -> String {
    let shortened = with_short_names(compared, findings);
    let comparison = shortened.as_ref().unwrap_or(compared);
    let (baseline, candidate) = (&comparison.baseline, &comparison.candidate);
    let prefix = &context.prefix;
    if comparison.rows.is_empty()
        && let Some(failed) = failed_sides(comparison, &findings.failures)
    {
        return format!("{prefix}{baseline} and {candidate} cannot be compared: {failed}.");
    }
    match (&comparison.rows[..], findings.ended_after) {
        ([], Some(runs)) => format!(
            "{prefix}{baseline} and {candidate} cannot be compared yet: measuring ended after {}, and no case has runs of both.",
            format_count(runs, "run", "runs")
        ),
        ([], None) => format!("{prefix}{baseline} and {candidate} have no case in common."),
        ([only], _) => single_case_headline(comparison, context, only),
        _ => format!(
            "{prefix}{}{}",
            many_cases_headline(comparison),
            representative_change(comparison)
        ),
    }
}

/// Names the sides that failed, and how, as in `new failed (exited with status 3: no such file)`.
fn failed_sides(comparison: &CandidateComparison, failures: &[StepFailure]) -> Option<String> {
    let failed = [&comparison.baseline, &comparison.candidate].into_iter().filter_map(|side| {
        let mut failures = failures.iter().filter(|failure| !failure.cause.is_skip());
        let reason = failures.find(|failure| failure.variant.as_ref() == Some(side))?.reason_line();
        Some(match reason.strip_prefix("failed") {
            Some(reason) => format!("{side} failed{reason}"),
            None => format!("{side} failed ({reason})"),
        })
    });
    Some(join_texts(" and ", failed)).filter(|failed| !failed.is_empty())
}

fn single_case_headline(
    comparison: &CandidateComparison,
    context: &HeadlineContext,
    row: &CaseComparison,
) -> String {
    let (baseline, candidate) = (&comparison.baseline, &comparison.candidate);
    let (prefix, metric) = (&context.prefix, &comparison.metric);
    if let Some(withheld) = &row.withheld {
        return format!("{prefix}{baseline} and {candidate} are not compared: {withheld}.");
    }
    let no = if prefix.is_empty() { "No" } else { "no" };
    let interval =
        row.change.map_or_else(String::new, |change| spaced(&format_percent_interval(&change)));
    match (row.verdict, row.change) {
        (Verdict::Better | Verdict::Worse, Some(change)) => {
            format!("{prefix}{}.", effect_sentence(comparison, context, row, &change))
        }
        (Verdict::Same, _) => format!(
            "{prefix}{no} difference: {candidate} and {baseline} are the same within {}{interval}.",
            format_setting(comparison.delta)
        ),
        _ if is_without_difference(comparison, row) => {
            let between = format!(" between {candidate} and {baseline}");
            let sides = if context.is_only { "" } else { between.as_str() };
            let missed = row.detectable.map(|share| {
                format!("; one of {} or more would probably have been", format_share(share))
            });
            format!(
                "{prefix}{no} difference found{sides}{interval}{}.{}",
                missed.unwrap_or_default(),
                more_runs_sentence(row, context)
            )
        }
        _ => {
            let mut sentence = undecided(comparison, row, metric);
            if prefix.is_empty() && !sentence.starts_with(candidate.as_str()) {
                sentence[..1].make_ascii_uppercase();
            }
            let is_enough_said = row.no_verdict == Some(NoVerdict::TooFewRuns);
            let more_runs = Some(more_runs_sentence(row, context)).filter(|_| !is_enough_said);
            format!("{prefix}{sentence}.{}", more_runs.unwrap_or_default())
        }
    }
}

/// Detectable change, as a fraction, from which on "no difference found" would say too little.
const MAX_TOLD_DETECTABLE: f64 = 0.5;

/// Whether the headline of a single case says which difference would have been found. It does not
/// if the interval leaves open a change that is larger than that, and the estimate is such a one.
fn is_without_difference(comparison: &CandidateComparison, row: &CaseComparison) -> bool {
    let (Some(change), Some(detectable)) = (row.change, row.detectable) else { return false };
    let includes_zero = change.low <= 0.0 && change.high >= 0.0;
    let farthest = change.high.ln_1p().max(-change.low.ln_1p());
    let is_within = farthest <= detectable.ln_1p() || change.value.abs() <= comparison.delta;
    let is_told = detectable < MAX_TOLD_DETECTABLE && is_within;
    row.verdict == Verdict::Unclear && !row.differs && row.is_judged() && includes_zero && is_told
}

/// Says that the sides differ, or whether they do, where no verdict on a relative change can.
fn undecided(comparison: &CandidateComparison, row: &CaseComparison, metric: &Metric) -> String {
    let (baseline, candidate) = (&comparison.baseline, &comparison.candidate);
    let (good, bad) = quality_words(metric);
    let sentence = match (row.verdict, row.change) {
        (Verdict::Better, _) => format!("{candidate} is {good} than {baseline}"),
        (Verdict::Worse, _) => format!("{candidate} is {bad} than {baseline}"),
        _ if row.differs => format!("{candidate} differs from {baseline}"),
        _ if row.no_verdict == Some(NoVerdict::TooFewRuns) => {
            return too_few_runs(comparison, row);
        }
        (_, Some(change)) if change.low > -1.0 && change.high.is_finite() => {
            return format!("unclear: {candidate} {}", describe_unclear(metric, &change, baseline));
        }
        _ => format!("unclear whether {candidate} is {good} than {baseline}"),
    };
    // Without a verdict, the reader needs to know which direction is better.
    let direction = match row.verdict {
        Verdict::Unclear => format!(" ({})", better_direction(metric.better)),
        _ => String::new(),
    };
    let change =
        size(row, metric).map(|size| format!(": {} {size}{direction}", metric.plain_name()));
    sentence + &change.unwrap_or_default()
}

/// Says how many runs there are and, if a note says so, how many are enough.
fn too_few_runs(comparison: &CandidateComparison, row: &CaseComparison) -> String {
    let fewest = row.baseline.runs.len().min(row.candidate.runs.len());
    let mut notes = row.notes.iter().filter_map(|note| note.strip_prefix("Too few "));
    let (unit, numbers) = match notes.find_map(|note| note.split_once(": ")) {
        Some((unit, numbers)) => (unit, numbers.trim_end_matches('.').to_owned()),
        None => ("runs", format!("{} a side", format_whole(fewest))),
    };
    let CandidateComparison { baseline, candidate, .. } = comparison;
    format!("too few {unit} to compare {candidate} with {baseline}: {numbers}")
}

fn more_runs_sentence(row: &CaseComparison, context: &HeadlineContext) -> String {
    let more_runs = row.more_runs.filter(|_| !context.has_resume_hint);
    more_runs.map_or_else(String::new, |runs| {
        let runs = format_count(runs as usize, "more run", "more runs");
        format!(" About {runs} a side would decide.")
    })
}

/// States a change, as in `loop is 9.28 times as fast as regex [9.19, 9.37]: 15.4 against 143 ns`.
fn effect_sentence(
    comparison: &CandidateComparison,
    context: &HeadlineContext,
    row: &CaseComparison,
    change: &IntervalEstimate,
) -> String {
    let (baseline, candidate) = (comparison.baseline.as_str(), comparison.candidate.as_str());
    let is_about_candidate = context.is_about_candidate || row.verdict == Verdict::Better;
    let (subject, other, change) = if is_about_candidate {
        (candidate, baseline, *change)
    } else {
        (baseline, candidate, reversed(change))
    };
    let effect = describe_effect(&comparison.metric, &change);
    let EffectWords { predicate, link, interval, is_factor } = effect;
    let sentence = format!("{subject} {predicate} {link} {other}{interval}");
    if !is_factor {
        return sentence;
    }
    let lines =
        prepare_lines(vec![(comparison, row)], context.unit, &mut TableFootnotes::default());
    let ([old, new], [old_in_unit, new_in_unit]) =
        (lines[0].side_figures(), lines[0].figures_with_unit());
    let (first, second) = if is_about_candidate { (new, old_in_unit) } else { (old, new_in_unit) };
    format!("{sentence}: {first} against {second}")
}

/// Formats the change with its interval, or both sides of a change from zero: `0 -> 1`.
pub fn size(row: &CaseComparison, metric: &Metric) -> Option<String> {
    let from_zero = || {
        let sides = [row.baseline.location, row.candidate.location];
        sides.map(|side| format_quantity(side, &metric.unit, Uncertainty::Unknown)).join(" -> ")
    };
    let change = row.change.map(|change| format_change_interval(&change));
    change.or_else(|| row.is_from_zero().then(from_zero))
}

fn many_cases_headline(comparison: &CandidateComparison) -> String {
    let (baseline, candidate) = (&comparison.baseline, &comparison.candidate);
    let (good, bad) = quality_words(&comparison.metric);
    let omitted = omitted_clause(comparison);
    let total = comparison.rows.iter().filter(|row| row.withheld.is_none()).count();
    if total == 0 {
        return format!("{baseline} and {candidate} are not compared{omitted}.");
    }
    let is_different = |row: &&CaseComparison| row.verdict == Verdict::Unclear && row.differs;
    let differing = comparison.rows.iter().filter(is_different).count();
    if differing > 0 {
        let cases = share_of_cases(differing, total);
        return format!("{candidate} differs from {baseline} in {cases}.");
    }
    let equal = format!("the same within {}", format_setting(comparison.delta));
    let counts = [
        (Verdict::Better, good),
        (Verdict::Worse, bad),
        (Verdict::Same, &*equal),
        (Verdict::Unclear, "unclear"),
    ];
    let mut parts = Vec::new();
    for (verdict, adjective) in counts {
        let count = comparison.rows_with_verdict(verdict).count();
        let cases = if parts.is_empty() { share_of_cases(count, total) } else { count.to_string() };
        parts.extend((count > 0).then(|| format!("{cases} {adjective}")));
    }
    format!("{candidate} against {baseline}: {}{omitted}.", parts.join(", "))
}

/// Says how many cases have no answer, and why.
fn omitted_clause(comparison: &CandidateComparison) -> String {
    let mut reasons: IndexMap<String, usize> = IndexMap::new();
    for withheld in comparison.rows.iter().filter_map(|row| row.withheld.as_ref()) {
        *reasons.entry(withheld.to_string()).or_default() += 1;
    }
    let part = |(reason, cases): (&String, &usize)| format!("; {cases} left out, because {reason}");
    reasons.iter().map(part).collect()
}

/// States the typical change or, without one, the largest change that has a verdict.
fn representative_change(comparison: &CandidateComparison) -> String {
    if let Some(typical) = comparison.typical() {
        return format!(" Typical change: {}.", format_change_interval(&typical));
    }
    let size = |row: &&CaseComparison| row.change.map_or(0.0, |change| change.value.ln_1p().abs());
    let decided = [Verdict::Better, Verdict::Worse].into_iter();
    let changed = decided.flat_map(|verdict| comparison.rows_with_verdict(verdict));
    let largest = changed.max_by(|one, other| size(one).total_cmp(&size(other)));
    largest.and_then(|row| Some((row, row.change?))).map_or_else(String::new, |(row, change)| {
        let EffectWords { predicate, interval, .. } = describe_effect(&comparison.metric, &change);
        format!(" Largest: {} {predicate}{interval}.", short_case_name(comparison, row))
    })
}

/// Maximum number of cases that are compared to find a short name for one of them.
const MAX_SHORTENED_CASES: usize = 1_000;

/// Returns what distinguishes a case from the others if they belong to one benchmark, otherwise its
/// id.
fn short_case_name(comparison: &CandidateComparison, row: &CaseComparison) -> String {
    if comparison.rows.len() > MAX_SHORTENED_CASES {
        return row.case.id();
    }
    let cases: Vec<_> = comparison.rows.iter().map(|row| Arc::clone(&row.case)).collect();
    let (_, names) = label_cases(&cases);
    // The name of a case in a group follows the group's heading, on a line of its own.
    let is_grouped = names.iter().any(|(_, name)| name.contains('\n'));
    let own = names.into_iter().rfind(|(index, _)| Arc::ptr_eq(&cases[*index], &row.case));
    let name = own.map(|(_, name)| name).filter(|name| !name.is_empty() && !is_grouped);
    name.unwrap_or_else(|| row.case.id())
}

/// Formats the number of affected cases: `3 of 8 cases`, `both cases`, `all 8 cases`.
fn share_of_cases(number: usize, total: usize) -> String {
    match (number == total, total) {
        (true, 1) => "1 case".to_owned(),
        (true, 2) => "both cases".to_owned(),
        (true, _) => format!("all {}", format_count(total, "case", "cases")),
        (false, _) => format!("{number} of {}", format_count(total, "case", "cases")),
    }
}

/// Returns the line above the table: metric, unit, direction, runs, and everything else that all
/// rows share.
pub fn comparison_caption(
    section: &[&CandidateComparison],
    unit: Option<String>,
    runs: Option<String>,
) -> String {
    let metric = &section[0].metric;
    let is_common = section.iter().all(|comparison| comparison.metric == *metric);
    let described = is_common.then(|| describe_metric(metric, unit));
    let runs_a_side = runs.map(|runs| match &*runs {
        "1" => "1 run a side".to_owned(),
        _ => format!("{runs} runs a side"),
    });
    join_texts(", ", described.into_iter().chain(runs_a_side))
}

/// Returns the line below a table of commands: the number of runs, and their order.
pub fn runs_sentence(
    section: &[&CandidateComparison],
    findings: &AnalysisFindings,
) -> Option<String> {
    let runs = range_of_runs(section.iter().flat_map(|comparison| &comparison.rows))?;
    let (run, pair) = if runs == "1" { ("run", "pair") } else { ("runs", "pairs") };
    let busy = if findings.was_busy { " (machine busy)" } else { "" };
    Some(match findings.order {
        Some(RunOrder::Paired) => format!("{runs} {pair} on one CPU{busy}."),
        Some(RunOrder::Blocks) => format!("{runs} {run} a side in random blocks."),
        Some(RunOrder::Alternate) => format!("{runs} {run} a side in turns."),
        Some(RunOrder::Parallel) => format!("{runs} {run} a side at the same time."),
        Some(RunOrder::Imported) | None => format!("{runs} {run} a side."),
    })
}

/// Formats the smallest and the largest number of runs of a side.
pub fn range_of_runs<'r>(rows: impl Iterator<Item = &'r CaseComparison>) -> Option<String> {
    let counts = rows.flat_map(|row| [row.baseline.runs.len(), row.candidate.runs.len()]);
    format_range(&counts.collect::<Vec<usize>>(), format_whole)
}

/// Returns the explanations below all tables, without duplicates: limits of unusual figures and,
/// where no change was found, how large a hidden change may be and how many more runs are needed.
/// Verbose output adds the method, which pages list among the measurement details.
pub fn comparison_notes(comparisons: &[CandidateComparison], verbosity: Verbosity) -> Vec<String> {
    let is_verbose = verbosity == Verbosity::Verbose;
    let mut notes: Vec<String> = Vec::new();
    for comparison in comparisons.iter().filter(|comparison| !comparison.rows.is_empty()) {
        let method = || is_verbose.then(|| method_note(comparison));
        notes.extend(unusual_figures(comparison).or_else(method));
        notes.extend(hypothesis_note(comparison).filter(|_| is_verbose));
        if is_verbose || comparison.correction == TestingCorrection::None {
            notes.extend(correction_note(comparisons).map(str::to_owned));
        }
    }
    let is_in_headline = matches!(
        comparisons,
        [only] if matches!(&only.rows[..], [row] if row.verdict == Verdict::Unclear)
    );
    notes.extend(undetected_note(comparisons).filter(|_| is_verbose || !is_in_headline));
    notes.extend(early_stop_note(comparisons).filter(|_| is_verbose));
    distinct(notes)
}

/// Explains figures that are not times of runs.
fn unusual_figures(comparison: &CandidateComparison) -> Option<String> {
    if comparison.metric.name == Metric::CYCLES_ESTIMATE {
        return Some(format!(
            "{}: estimated by a cache model, with 1, 5 and 35 cycles per access to each level; \
             --fail-on ignores it.",
            Metric::CYCLES_ESTIMATE
        ));
    }
    comparison.rows.iter().all(|row| row.is_exact).then(|| {
        let delta = format_setting(comparison.delta);
        format!(
            "Method: instructions in user mode, the same number in every run; a change within \
             {delta} counts as the same. They say nothing about waiting, system calls, caches or \
             branch prediction."
        )
    })
}

/// Says that other work disturbed runs, if that may be why a case is unclear. Sides that were
/// disturbed unequally have a footnote of their own, and runs in pairs share every disturbance.
pub fn disturbance_note(comparisons: &[&CandidateComparison]) -> Option<String> {
    let unpaired = comparisons.iter().filter(|found| found.method != StatisticalMethod::SignedRank);
    let unclear = unpaired.flat_map(|found| found.rows_with_verdict(Verdict::Unclear));
    let shares = unclear.flat_map(|row| [&row.baseline.exposure, &row.candidate.exposure]);
    let notable = shares.filter(|side| side.is_notable()).map(|side| side.disturbed_share());
    Some(format!(
        "Other work disturbed up to {} of the runs of unclear cases: quiet the machine.",
        format_share(notable.max_by(f64::total_cmp)?)
    ))
}

fn method_note(comparison: &CandidateComparison) -> String {
    let delta = format_setting(comparison.delta);
    let method = method_words(comparison.method);
    let confidence = format_setting(comparison.confidence);
    let figures = match comparison.method {
        StatisticalMethod::Welch | StatisticalMethod::Bootstrap => "figures are means",
        _ => {
            "a candidate's figure is the baseline's figure plus the change; the median is that of all runs"
        }
    };
    format!(
        "Method: {method}, {confidence} intervals; a change within {delta} counts as the same; {figures}."
    )
}

/// Names the test, and the kind of change that it estimates.
pub fn method_words(method: StatisticalMethod) -> &'static str {
    match method {
        StatisticalMethod::Rank => "rank test permuted within blocks, change of the typical run",
        StatisticalMethod::SignedRank => {
            "signed-rank test of pairs that shared a processor, change of the typical run's processor time"
        }
        StatisticalMethod::Welch => "Welch's t test, change of the mean",
        StatisticalMethod::MannWhitney => "Mann-Whitney U test, change of the typical run",
        StatisticalMethod::Bootstrap => "bootstrap of the change of the mean",
    }
}

/// Says how the p-values of many cases are adjusted.
pub fn correction_words(correction: TestingCorrection) -> &'static str {
    correction_texts(correction)[1]
}

/// Returns a correction's name in `--correct`, its description, and the note below a table.
fn correction_texts(correction: TestingCorrection) -> [&'static str; 3] {
    match correction {
        TestingCorrection::BenjaminiHochberg => [
            "bh",
            "Benjamini-Hochberg over all comparisons shown: controls the false discovery rate",
            "q: p corrected for all comparisons shown (Benjamini-Hochberg).",
        ],
        TestingCorrection::Holm => [
            "holm",
            "Holm over all comparisons shown: controls the family-wise error rate",
            "q: p corrected for all comparisons shown (Holm).",
        ],
        TestingCorrection::None => [
            "none",
            "none: p values are not corrected",
            "Not corrected for the number of comparisons: about one in twenty unchanged ones looks \
             changed.",
        ],
    }
}

/// Describes the null hypothesis behind p, if it is not "no change".
fn hypothesis_note(comparison: &CandidateComparison) -> Option<String> {
    let threshold = format_setting(comparison.threshold?);
    Some(format!(
        "p: probability of such figures if the change were at most {threshold} in either \
         direction."
    ))
}

fn correction_note(comparisons: &[CandidateComparison]) -> Option<&'static str> {
    let rows = comparisons.iter().flat_map(|comparison| &comparison.rows);
    let has_several = rows.filter(|row| row.p.is_some()).nth(1).is_some();
    let correction = comparisons.first()?.correction;
    has_several.then(|| correction_texts(correction)[2])
}

/// Formats the smallest and the largest figure.
fn format_range<T: PartialOrd + Copy>(
    figures: &[T],
    format_one: impl Fn(T) -> String,
) -> Option<String> {
    let smallest = figures.iter().copied().reduce(|a, b| if b < a { b } else { a })?;
    let largest = figures.iter().copied().reduce(|a, b| if b > a { b } else { a })?;
    let (smallest, largest) = (format_one(smallest), format_one(largest));
    Some(if smallest == largest { smallest } else { format!("{smallest} to {largest}") })
}

/// Says how large a change may be hidden in cases without a finding, and how many runs unclear
/// cases need. Every answer that found nothing, including "same", must give this minimum detectable
/// effect.
fn undetected_note(comparisons: &[CandidateComparison]) -> Option<String> {
    let rows = comparisons.iter().flat_map(|comparison| &comparison.rows);
    let open: Vec<&CaseComparison> =
        rows.filter(|row| matches!(row.verdict, Verdict::Same | Verdict::Unclear)).collect();
    let sizes: Vec<f64> = open.iter().filter_map(|row| row.detectable).collect();
    let found = format_range(&sizes, format_share).map(|range| {
        format!("where no change was found, a change of {range} would have been detected")
    });
    let more_runs: Vec<u32> = open.iter().filter_map(|row| row.more_runs).collect();
    let needed = format_range(&more_runs, format_whole)
        .map(|range| format!("unclear cases need about {range} more runs a side"));
    let note = join_texts("; ", found.into_iter().chain(needed));
    (!note.is_empty()).then(|| capitalize_sentence(&note))
}

fn early_stop_note(comparisons: &[CandidateComparison]) -> Option<String> {
    let rows = comparisons.iter().flat_map(|comparison| &comparison.rows);
    let looks: Vec<u32> = rows.filter_map(|row| row.decided_at).collect();
    let range = format_range(&looks, format_whole)?;
    Some(format!(
        "Measuring ended as soon as the sequential test decided (at {range} runs a side); stopping \
         early exaggerates changes a little."
    ))
}

/// Maximum number of rows of a table without a list of highlights above it.
const MAX_SHORT_TABLE: usize = 20;
/// Maximum number of cases named per verdict.
const MAX_NAMED_CHANGES: usize = 5;

/// Lists up to five of the worst and five of the best cases. Empty for a short table.
pub fn highlight_blocks(comparison: &CandidateComparison) -> Vec<ReportBlock> {
    if comparison.rows.len() <= MAX_SHORT_TABLE {
        return Vec::new();
    }
    let verdicts = [Verdict::Worse, Verdict::Better].into_iter();
    let largest = verdicts.flat_map(|verdict| largest_changes(comparison, verdict));
    let items: Vec<String> = largest.map(highlight_text).collect();
    if items.is_empty() {
        return Vec::new();
    }
    vec![ReportBlock::Paragraph("Largest changes:".to_owned()), ReportBlock::List(items)]
}

fn largest_changes(comparison: &CandidateComparison, verdict: Verdict) -> Vec<&CaseComparison> {
    let size = |row: &CaseComparison| row.change.map_or(0.0, |change| change.value.abs());
    let mut rows: Vec<_> = comparison.rows_with_verdict(verdict).collect();
    rows.sort_by(|a, b| size(b).total_cmp(&size(a)));
    rows.truncate(MAX_NAMED_CHANGES);
    rows
}

fn highlight_text(row: &CaseComparison) -> String {
    let change = row.change.as_ref().map(format_change_interval).unwrap_or_default();
    format!("{} {} {change} {}", verdict_symbol(row.verdict), row.verdict, row.case.id())
}

/// Maximum number of unmatched cases that are named by default.
const MAX_NAMED_UNMATCHED: usize = 8;

/// Lists the cases that only one side has, for each side.
pub fn unmatched_blocks(
    comparisons: &[&CandidateComparison],
    failures: &[StepFailure],
    verbosity: Verbosity,
) -> Vec<ReportBlock> {
    let mut blocks = Vec::new();
    let sides = comparisons.iter().flat_map(|comparison| {
        [
            (&comparison.baseline, &comparison.only_baseline),
            (&comparison.candidate, &comparison.only_candidate),
        ]
    });
    for (variant, ids) in distinct(sides.filter(|(_, ids)| !ids.is_empty())) {
        // The headline says how the only case failed.
        if let ([only], [id]) = (comparisons, ids.as_slice())
            && only.rows.is_empty()
            && failed_partner(id, variant, comparisons, failures).is_some()
        {
            continue;
        }
        let cases = format_count(ids.len(), "case", "cases");
        blocks.push(ReportBlock::Paragraph(format!("Not compared, only in {variant} ({cases}):")));
        let most = if verbosity == Verbosity::Verbose { usize::MAX } else { MAX_NAMED_UNMATCHED };
        let mut items: Vec<String> = (ids.iter().take(most))
            .map(|id| match failed_partner(id, variant, comparisons, failures) {
                Some(failed) => format!("{id}: {failed}"),
                None => id.clone(),
            })
            .collect();
        items.extend((most < ids.len()).then(|| format!("and {} more", ids.len() - most)));
        blocks.push(ReportBlock::List(items));
    }
    blocks
}

/// Describes how the other side of a case failed; `None` if it did not fail.
fn failed_partner(
    id: &str,
    variant: &str,
    comparisons: &[&CandidateComparison],
    failures: &[StepFailure],
) -> Option<String> {
    let is_partner = |name: &str| {
        comparisons.iter().any(|comparison| {
            let sides = [comparison.baseline.as_str(), comparison.candidate.as_str()];
            sides == [variant, name] || sides == [name, variant]
        })
    };
    let mut failures = failures.iter().filter(|failure| failure.case.as_deref() == Some(id));
    failures.find_map(|failure| {
        let partner = failure.variant.as_deref().filter(|name| is_partner(name))?;
        Some(format!("{partner} {}", failure.cause))
    })
}

/// Describes a comparison for programs.
pub fn comparison_data(comparison: &CandidateComparison) -> Value {
    let count = |verdict| comparison.rows_with_verdict(verdict).count();
    let withheld = comparison.rows.iter().filter(|row| row.withheld.is_some()).count();
    let mut data = json!({
        "baseline": comparison.baseline,
        "candidate": comparison.candidate,
        "metric": comparison.metric,
        "method": comparison.method,
        "confidence": comparison.confidence,
        "delta": comparison.delta,
        "correction": correction_texts(comparison.correction)[0],
        "cases": comparison.rows.len(),
        "verdicts": {
            "better": count(Verdict::Better),
            "worse": count(Verdict::Worse),
            "same": count(Verdict::Same),
            "unclear": count(Verdict::Unclear),
        },
        "overall": comparison.typical().as_ref().map(estimate_data),
        "range": comparison.range().map(|ends| ends.map(|end| json_number(end.value))),
        "only_baseline": comparison.only_baseline,
        "only_candidate": comparison.only_candidate,
    });
    if withheld > 0 {
        data["verdicts"]["withheld"] = json!(withheld);
    }
    data
}

/// Returns an estimate as data; bounds that are not finite become `null`.
fn estimate_data(estimate: &IntervalEstimate) -> Value {
    json!({
        "value": json_number(estimate.value),
        "low": json_number(estimate.low),
        "high": json_number(estimate.high),
    })
}
