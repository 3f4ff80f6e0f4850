//! Decides whether findings pass a gate, fail it or cannot be judged, and writes the line that
//! reports the answer.
//!
//! The rules are the same for comparisons of all kinds, so that every command and the server give
//! the same answer. Callers turn the answer into an exit status or a commit status.
//! docs/reference/gates.md lists the rules. Start at [`judge_findings`].

use crate::grid::distinct_items;
use crate::validity::FindingSeverity;
use crate::warnings::format_count;
use crate::{AnalysisFindings, CandidateComparison, CaseComparison, NoVerdict};
use speedwell_model::{Case, Metric, MetricDirection, Verdict, name_variants};
use std::collections::{BTreeMap, BTreeSet};

/// When a gate fails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FailOn {
    /// If a case is worse.
    Worse,
    /// If a case is worse or undecided, or if only one side has it.
    Unclear,
    /// Never: no gate.
    #[default]
    Never,
}

// Names on the command line.
name_variants!(FailOn: Worse = "worse", Unclear = "unclear", Never = "never");

impl FailOn {
    /// Whether a case with this verdict fails the gate.
    pub fn fails_on(self, verdict: Verdict) -> bool {
        match self {
            FailOn::Never => false,
            FailOn::Worse => verdict == Verdict::Worse,
            FailOn::Unclear => matches!(verdict, Verdict::Worse | Verdict::Unclear),
        }
    }
}

/// Result of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GateAnswer {
    /// Everything comparable was judged, and no case fails the gate.
    Passed,
    /// A case fails the gate, for instance because it is worse.
    Failed,
    /// Some requested case could not be judged, and no judged case fails the gate.
    CannotJudge,
}

// Names in machine-readable output.
name_variants!(GateAnswer: Passed = "passed", Failed = "failed", CannotJudge = "cannot judge");

/// Details of a gate's answer. Each text is a part of a sentence, without a full stop.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GateOutcome {
    /// Judged cases and metrics, in words: `11 cases by time`.
    pub judged: String,
    /// What makes the gate fail: `2 worse ('g/a', 'g/b')`.
    pub failing: Vec<String>,
    /// Reasons why the gate could not judge.
    pub obstacles: Vec<String>,
    /// Excluded and undecided cases, and other results that are not part of the gate.
    pub remarks: Vec<String>,
}

impl GateOutcome {
    /// The answer. If a case fails the gate, the answer is `Failed` even if other cases could not
    /// be judged.
    pub fn to_answer(&self) -> GateAnswer {
        match (&self.failing[..], &self.obstacles[..]) {
            ([], []) => GateAnswer::Passed,
            ([], _) => GateAnswer::CannotJudge,
            _ => GateAnswer::Failed,
        }
    }

    /// The line that reports the gate.
    pub fn to_line(&self) -> String {
        let (obstacles, judged) = (&self.obstacles[..], &self.judged);
        let (begin, parts) = match self.to_answer() {
            GateAnswer::Passed => ("gate passed", vec![judged.clone()]),
            GateAnswer::Failed => {
                let failed = format!("{} of {judged}", self.failing.join(", "));
                ("gate failed", [&[failed], obstacles].concat())
            }
            GateAnswer::CannotJudge => {
                ("gate cannot judge", [obstacles, &[format!("judged: {judged}")]].concat())
            }
        };
        let parts = [&parts[..], &self.remarks[..]].concat();
        format!("{begin}: {}", parts.join("; "))
    }
}

/// Judges findings; `None` if `fail_on` is `Never`. `all_findings` contains the findings for every
/// metric, if known. The outcome then mentions metrics that differ but are not part of the gate.
pub fn judge_findings(
    findings: &AnalysisFindings,
    fail_on: FailOn,
    all_findings: Option<&AnalysisFindings>,
) -> Option<GateOutcome> {
    if fail_on == FailOn::Never {
        return None;
    }
    let gated: Vec<&CandidateComparison> =
        findings.comparisons.iter().filter(|comparison| is_decisive(&comparison.metric)).collect();
    let counts = GateCounts::new(&gated);
    let mut outcome = GateOutcome {
        judged: describe_judged(&gated, &counts),
        failing: failing_cases(&counts, fail_on),
        obstacles: finding_obstacles(findings),
        remarks: undecided_cases(&counts, fail_on),
    };
    outcome.obstacles.extend(comparison_obstacles(&gated, &counts));
    outcome.remarks.extend(findings.excluded.iter().cloned());
    let ungated = all_findings.and_then(|all| ungated_differences(&gated, all));
    outcome.remarks.extend(ungated);
    Some(outcome)
}

/// Why a gate cannot judge results without a comparison.
pub(crate) const NOTHING_TO_COMPARE: &str = "there is nothing to compare";

/// Whether the gate uses this metric. The gate uses all metrics except the number of cycles
/// estimated by the cache model.
fn is_decisive(metric: &Metric) -> bool {
    metric.name != Metric::CYCLES_ESTIMATE
}

/// Names of cases by result: the ids, but the texts of compared snippets.
#[derive(Default)]
struct GateCounts {
    judged: BTreeSet<String>,
    worse: BTreeSet<String>,
    unclear: BTreeSet<String>,
    without_verdict: BTreeMap<NoVerdict, BTreeSet<String>>,
    /// Cases whose answer is withheld, by reason.
    withheld: BTreeMap<String, BTreeSet<String>>,
    only_baseline: BTreeSet<String>,
    only_candidate: BTreeSet<String>,
}

impl GateCounts {
    fn new(gated: &[&CandidateComparison]) -> GateCounts {
        let mut counts = GateCounts::default();
        for comparison in gated {
            // A metric without a preferred direction has no verdicts.
            if comparison.metric.better != MetricDirection::Unknown {
                for row in &comparison.rows {
                    counts.add_row(row.case.name_under(&comparison.candidate), row);
                }
            }
            let CandidateComparison { baseline, candidate, .. } = comparison;
            let names = |ids: &[String], variant: &str| -> Vec<String> {
                ids.iter().map(|id| Case::name_of_id_under(id, variant)).collect()
            };
            (counts.only_baseline).extend(names(&comparison.only_baseline, baseline));
            (counts.only_candidate).extend(names(&comparison.only_candidate, candidate));
        }
        counts
    }

    fn add_row(&mut self, id: String, row: &CaseComparison) {
        if let Some(withheld) = &row.withheld {
            let cases = self.withheld.entry(withheld.to_string()).or_default();
            cases.insert(id);
            return;
        }
        let cases = match row.no_verdict {
            Some(reason) => self.without_verdict.entry(reason).or_default(),
            None => {
                if row.gate_verdicts().any(|verdict| verdict == Verdict::Worse) {
                    self.worse.insert(id.clone());
                } else if row.gate_verdicts().any(|verdict| verdict == Verdict::Unclear) {
                    self.unclear.insert(id.clone());
                }
                &mut self.judged
            }
        };
        cases.insert(id);
    }

    /// Groups of cases that fail the gate only under [`FailOn::Unclear`], each with a description.
    /// Empty groups are left out.
    fn undecided_groups(&self) -> impl Iterator<Item = (&BTreeSet<String>, &'static str)> {
        let groups = [
            (&self.unclear, "unclear"),
            (&self.only_baseline, "only in the baseline"),
            (&self.only_candidate, "only in the candidate"),
        ];
        groups.into_iter().filter(|(cases, _)| !cases.is_empty())
    }
}

/// Describes the judged cases and metrics, as in `11 cases by time` or `no case`.
fn describe_judged(gated: &[&CandidateComparison], counts: &GateCounts) -> String {
    if counts.judged.is_empty() {
        return "no case".to_owned();
    }
    let cases = count_cases(counts.judged.len());
    let is_judged = |comparison: &&&CandidateComparison| {
        comparison.metric.better != MetricDirection::Unknown
            && comparison.rows.iter().any(CaseComparison::is_judged)
    };
    let metrics = gated.iter().filter(is_judged);
    format!("{cases} by {}", list_names(metrics.map(|comparison| comparison.metric.plain_name())))
}

fn failing_cases(counts: &GateCounts, fail_on: FailOn) -> Vec<String> {
    let mut failing = Vec::new();
    if !counts.worse.is_empty() {
        failing.push(format!("{} worse ({})", counts.worse.len(), quote_names(&counts.worse)));
    }
    if fail_on != FailOn::Unclear {
        return failing;
    }
    let undecided = counts.undecided_groups();
    failing.extend(undecided.map(|(cases, description)| {
        format!("{} {description} ({})", cases.len(), quote_names(cases))
    }));
    failing
}

/// Remarks on cases left out and, unless they fail the gate, on unclear cases and on cases that
/// only one side has.
fn undecided_cases(counts: &GateCounts, fail_on: FailOn) -> Vec<String> {
    let mut remarks = Vec::new();
    if fail_on != FailOn::Unclear {
        let undecided = counts.undecided_groups();
        remarks
            .extend(undecided.map(|(cases, description)| format!("{} {description}", cases.len())));
    }
    if !counts.judged.is_empty() {
        let withheld = counts.withheld.iter();
        let left_out =
            withheld.map(|(reason, cases)| format!("{} left out: {reason}", cases.len()));
        remarks.extend(left_out);
    }
    remarks
}

/// Reasons why compared cases could not be judged.
fn comparison_obstacles(gated: &[&CandidateComparison], counts: &GateCounts) -> Vec<String> {
    let mut obstacles = Vec::new();
    if gated.iter().all(|comparison| comparison.rows.is_empty()) {
        obstacles.push(NOTHING_TO_COMPARE.to_owned());
    }
    for (reason, cases) in &counts.without_verdict {
        let problem = match reason {
            NoVerdict::TooFewRuns => "too few runs",
            NoVerdict::NoTest => "the test is undefined",
            NoVerdict::NotComparable => "figures that must not be compared",
        };
        obstacles.push(format!("{problem} in {}", count_cases(cases.len())));
    }
    if counts.judged.is_empty() {
        let withheld = counts.withheld.iter();
        let withheld_everywhere =
            withheld.map(|(reason, cases)| format!("{reason} in {}", count_cases(cases.len())));
        obstacles.extend(withheld_everywhere);
    }
    let without_rows = |comparison: &&&CandidateComparison| {
        comparison.rows.is_empty() && gated.iter().any(|other| !other.rows.is_empty())
    };
    for comparison in gated.iter().filter(without_rows) {
        obstacles.push(format!(
            "'{}' of '{}' and '{}' cannot be compared: no case in common has this metric",
            comparison.metric.plain_name(),
            comparison.baseline,
            comparison.candidate
        ));
    }
    let undirected =
        gated.iter().filter(|comparison| comparison.metric.better == MetricDirection::Unknown);
    let names: BTreeSet<&str> =
        undirected.map(|comparison| comparison.metric.name.as_str()).collect();
    if !names.is_empty() {
        obstacles.push(format!(
            "the preferred direction of {} is unknown (set it with --better METRIC=higher or \
             METRIC=lower)",
            list_names(names)
        ));
    }
    obstacles
}

/// Reasons why findings cannot be judged: obstacles that the analysis recorded, failed steps, and
/// figures that must not be used.
pub(crate) fn finding_obstacles(findings: &AnalysisFindings) -> Vec<String> {
    let mut obstacles = findings.gate_obstacles.clone();
    let failures = findings.failures.iter();
    let failed_steps = failures.filter(|failure| !failure.cause.is_skip()).count();
    if failed_steps > 0 {
        obstacles.push(format_count(failed_steps, "step failed", "steps failed"));
    }
    let red = findings.validity.iter();
    let red: BTreeSet<&str> = red
        .filter(|finding| finding.level == FindingSeverity::Red)
        .map(|finding| finding.check.name())
        .collect();
    if !red.is_empty() {
        obstacles.push(format!("some figures must not be used ({})", list_names(red)));
    }
    obstacles
}

/// Lists metrics that differ but are not part of the gate.
fn ungated_differences(
    gated: &[&CandidateComparison],
    all_findings: &AnalysisFindings,
) -> Option<String> {
    let is_gated = |name: &str| gated.iter().any(|comparison| comparison.metric.name == name);
    let ungated = all_findings.comparisons.iter().filter(|comparison| {
        let differs = |row: &CaseComparison| row.is_judged() && row.differs;
        is_decisive(&comparison.metric)
            && !is_gated(&comparison.metric.name)
            && comparison.rows.iter().any(differs)
    });
    let gates_median = is_gated(Metric::TIME_MEDIAN);
    let names = distinct_items(ungated.map(|comparison| {
        let metric = &comparison.metric;
        if gates_median { metric.name_beside_median() } else { metric.name.as_str() }
    }));
    let verb = if names.len() == 1 { "differs but is" } else { "differ but are" };
    (!names.is_empty()).then(|| format!("{} {verb} not in the gate", list_names(names)))
}

fn count_cases(count: usize) -> String {
    format_count(count, "case", "cases")
}

/// Number of names that are listed; any others are only counted. If there is just one other name,
/// it is listed as well.
const MAX_LISTED: usize = 3;

/// Lists names in quotes, such as `'a', 'b', 'c' and 4 more`.
fn quote_names(names: &BTreeSet<String>) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
    list_names(quoted.iter().map(String::as_str))
}

/// Lists each name once, as in `a`, `a and b` or `a, b, c and 4 more`.
fn list_names<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut distinct = distinct_items(names.into_iter().map(str::to_owned));
    if distinct.len() > MAX_LISTED + 1 {
        let omitted = distinct.len() - MAX_LISTED;
        distinct.truncate(MAX_LISTED);
        distinct.push(format!("{omitted} more"));
    }
    crate::validity::join_names(&distinct)
}
