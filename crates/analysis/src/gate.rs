//! Gates: whether findings pass, fail or cannot be judged, and the line that reports it.
//!
//! Decides for comparisons of all kinds, so that every command and the server give the same answer;
//! callers map the answer to an exit or commit status. The rules are tabulated in
//! docs/reference/gates.md. Start at [`judge`].

use crate::validity::Level;
use crate::{CaseComparison, Comparison, Findings, NoVerdict};
use speedwell_model::{Better, Metric, Verdict};
use std::collections::{BTreeMap, BTreeSet};

/// When a gate fails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FailOn {
    /// If a case is worse.
    Worse,
    /// If a case is worse, undecided, or has no counterpart.
    Unclear,
    /// Never: no gate.
    #[default]
    Never,
}

impl FailOn {
    /// All rules.
    pub const ALL: [FailOn; 3] = [FailOn::Worse, FailOn::Unclear, FailOn::Never];

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            FailOn::Worse => "worse",
            FailOn::Unclear => "unclear",
            FailOn::Never => "never",
        }
    }

    /// Whether a case with this verdict fails the gate.
    pub fn refuses(self, verdict: Verdict) -> bool {
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
    /// Everything comparable was judged, and nothing is worse.
    Passed,
    /// Something is worse.
    Failed,
    /// Something requested could not be judged, and nothing that was judged is worse.
    CannotJudge,
}

impl GateAnswer {
    /// Name in machine-readable output.
    pub fn name(self) -> &'static str {
        match self {
            GateAnswer::Passed => "passed",
            GateAnswer::Failed => "failed",
            GateAnswer::CannotJudge => "cannot judge",
        }
    }
}

/// Details of a gate's answer. Parts of sentences have no full stop.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GateOutcome {
    /// What was judged, in words: `11 cases by time`.
    pub judged: String,
    /// What makes the gate fail: `2 worse ('g/a', 'g/b')`.
    pub failing: Vec<String>,
    /// Why it could not judge what was requested.
    pub obstacles: Vec<String>,
    /// What was excluded or left undecided.
    pub remarks: Vec<String>,
}

impl GateOutcome {
    /// The answer. A worse case fails the gate even if others could not be judged.
    pub fn answer(&self) -> GateAnswer {
        match (&self.failing[..], &self.obstacles[..]) {
            ([], []) => GateAnswer::Passed,
            ([], _) => GateAnswer::CannotJudge,
            _ => GateAnswer::Failed,
        }
    }

    /// The line that reports the gate.
    pub fn line(&self) -> String {
        let (mut parts, begin) = match self.answer() {
            GateAnswer::Passed => (vec![self.judged.clone()], "gate passed"),
            GateAnswer::Failed => {
                let failing = self.failing.join(", ");
                let failed = format!("{failing} of {}", self.judged);
                let parts = [&[failed], &self.obstacles[..]].concat();
                (parts, "gate failed")
            }
            GateAnswer::CannotJudge => {
                let judged = format!("judged: {}", self.judged);
                let parts = [&self.obstacles[..], &[judged]].concat();
                (parts, "gate cannot judge")
            }
        };
        parts.extend(self.remarks.iter().cloned());
        format!("{begin}: {}", parts.join("; "))
    }
}

/// Judges findings; `None` without a gate. `all` holds the findings on every metric, if known:
/// metrics that differ but are not part of the gate are mentioned.
pub fn judge(findings: &Findings, fail_on: FailOn, all: Option<&Findings>) -> Option<GateOutcome> {
    if fail_on == FailOn::Never {
        return None;
    }
    let gated: Vec<&Comparison> = findings
        .comparisons
        .iter()
        .filter(|comparison| decides(&comparison.metric))
        .collect();
    let counts = Counts::new(&gated);
    let mut outcome = GateOutcome {
        judged: judged_words(&gated, &counts),
        failing: failing(&counts, fail_on),
        obstacles: of_findings(findings),
        remarks: remarks(&counts, fail_on),
    };
    outcome.obstacles.extend(obstacles(&gated, &counts));
    outcome.remarks.extend(findings.left_out.iter().cloned());
    outcome
        .remarks
        .extend(all.and_then(|all| beside(&gated, all)));
    Some(outcome)
}

/// Why a gate cannot judge results without a comparison.
pub(crate) const NOTHING_TO_COMPARE: &str = "there is nothing to compare";

/// Whether a metric counts for the gate: the cache model's estimate does not.
fn decides(metric: &Metric) -> bool {
    metric.name != Metric::CYCLES_ESTIMATE
}

/// Ids of cases by result.
#[derive(Default)]
struct Counts {
    judged: BTreeSet<String>,
    worse: BTreeSet<String>,
    unclear: BTreeSet<String>,
    too_few: BTreeSet<String>,
    undefined: BTreeSet<String>,
    refused: BTreeSet<String>,
    /// By reason.
    withheld: BTreeMap<String, BTreeSet<String>>,
    only_baseline: BTreeSet<String>,
    only_candidate: BTreeSet<String>,
}

impl Counts {
    fn new(gated: &[&Comparison]) -> Counts {
        let mut counts = Counts::default();
        for comparison in gated {
            // A metric without a good direction has no verdicts.
            if comparison.metric.better != Better::Unknown {
                comparison.rows.iter().for_each(|row| counts.add(row));
            }
            (counts.only_baseline).extend(comparison.only_baseline.iter().cloned());
            (counts.only_candidate).extend(comparison.only_candidate.iter().cloned());
        }
        counts
    }

    fn add(&mut self, row: &CaseComparison) {
        let id = row.case.id();
        if let Some(withheld) = &row.withheld {
            let cases = self.withheld.entry(withheld.to_string()).or_default();
            cases.insert(id);
            return;
        }
        let place = match row.no_verdict {
            Some(NoVerdict::TooFewRuns) => &mut self.too_few,
            Some(NoVerdict::NoTest) => &mut self.undefined,
            Some(NoVerdict::NotComparable) => &mut self.refused,
            None => {
                if row.gated().any(|verdict| verdict == Verdict::Worse) {
                    self.worse.insert(id.clone());
                } else if row.gated().any(|verdict| verdict == Verdict::Unclear) {
                    self.unclear.insert(id.clone());
                }
                &mut self.judged
            }
        };
        place.insert(id);
    }
}

/// `11 cases by time`, `no case`.
fn judged_words(gated: &[&Comparison], counts: &Counts) -> String {
    let cases = match counts.judged.len() {
        0 => return "no case".to_owned(),
        1 => "1 case".to_owned(),
        many => format!("{many} cases"),
    };
    let is_judged = |comparison: &&&Comparison| {
        comparison.metric.better != Better::Unknown
            && comparison.rows.iter().any(CaseComparison::is_judged)
    };
    let metrics = gated.iter().filter(is_judged);
    format!(
        "{cases} by {}",
        listed(metrics.map(|of| of.metric.name.as_str()))
    )
}

fn failing(counts: &Counts, fail_on: FailOn) -> Vec<String> {
    let mut failing = Vec::new();
    if !counts.worse.is_empty() {
        failing.push(format!(
            "{} worse ({})",
            counts.worse.len(),
            quoted(&counts.worse)
        ));
    }
    if fail_on != FailOn::Unclear {
        return failing;
    }
    let others = [
        (&counts.unclear, "unclear"),
        (&counts.only_baseline, "only in the baseline"),
        (&counts.only_candidate, "only in the candidate"),
    ];
    for (cases, what) in others {
        if !cases.is_empty() {
            failing.push(format!("{} {what} ({})", cases.len(), quoted(cases)));
        }
    }
    failing
}

/// Undecided cases, and cases that one side lacks.
fn remarks(counts: &Counts, fail_on: FailOn) -> Vec<String> {
    let mut remarks = Vec::new();
    if fail_on != FailOn::Unclear {
        let others = [
            (&counts.unclear, "unclear"),
            (&counts.only_baseline, "only in the baseline"),
            (&counts.only_candidate, "only in the candidate"),
        ];
        let named = others.iter().filter(|(cases, _)| !cases.is_empty());
        remarks.extend(named.map(|(cases, what)| format!("{} {what}", cases.len())));
    }
    if !counts.judged.is_empty() {
        let withheld = counts.withheld.iter();
        let left_out = withheld.map(|(why, cases)| format!("{} left out: {why}", cases.len()));
        remarks.extend(left_out);
    }
    remarks
}

/// Reasons why compared cases could not be judged.
fn obstacles(gated: &[&Comparison], counts: &Counts) -> Vec<String> {
    let mut obstacles = Vec::new();
    if gated.iter().all(|comparison| comparison.rows.is_empty()) {
        obstacles.push(NOTHING_TO_COMPARE.to_owned());
    }
    let of_cases = [
        (&counts.too_few, "too few runs in"),
        (&counts.undefined, "the test is undefined in"),
        (&counts.refused, "figures that must not be compared in"),
    ];
    for (cases, what) in of_cases {
        if !cases.is_empty() {
            obstacles.push(format!("{what} {}", cases_words(cases.len())));
        }
    }
    if counts.judged.is_empty() {
        let withheld = counts.withheld.iter();
        let of_all = withheld.map(|(why, cases)| format!("{why} in {}", cases_words(cases.len())));
        obstacles.extend(of_all);
    }
    let without_rows = |comparison: &&&Comparison| {
        comparison.rows.is_empty() && gated.iter().any(|other| !other.rows.is_empty())
    };
    for comparison in gated.iter().filter(without_rows) {
        obstacles.push(format!(
            "'{}' of '{}' and '{}' cannot be compared: they have it in no case in common",
            comparison.metric.name, comparison.baseline, comparison.candidate
        ));
    }
    let undirected = gated
        .iter()
        .filter(|comparison| comparison.metric.better == Better::Unknown);
    let names: BTreeSet<&str> = undirected.map(|of| of.metric.name.as_str()).collect();
    if !names.is_empty() {
        obstacles.push(format!(
            "the good direction of {} is unknown (--better METRIC=higher or lower decides)",
            listed(names)
        ));
    }
    obstacles
}

/// Gaps in sessions and sides, failures, and unusable figures.
pub(crate) fn of_findings(findings: &Findings) -> Vec<String> {
    let mut obstacles = findings.gate_obstacles.clone();
    let failures = findings.failures.iter();
    let lost = failures.filter(|failure| !failure.cause.is_skip()).count();
    if lost > 0 {
        let steps = if lost == 1 { "step" } else { "steps" };
        obstacles.push(format!("{lost} {steps} failed"));
    }
    let red = findings.validity.iter();
    let red: BTreeSet<&str> = red
        .filter(|finding| finding.level == Level::Red)
        .map(|finding| finding.check.name())
        .collect();
    if !red.is_empty() {
        obstacles.push(format!("do not use these figures ({})", listed(red)));
    }
    obstacles
}

/// Lists metrics that differ but are not part of the gate.
fn beside(gated: &[&Comparison], all: &Findings) -> Option<String> {
    let is_gated = |name: &str| gated.iter().any(|of| of.metric.name == name);
    let others = all.comparisons.iter().filter(|other| {
        let differs = |row: &CaseComparison| row.is_judged() && row.differs;
        decides(&other.metric) && !is_gated(&other.metric.name) && other.rows.iter().any(differs)
    });
    let mut names: Vec<&str> = Vec::new();
    for other in others {
        if !names.contains(&other.metric.name.as_str()) {
            names.push(&other.metric.name);
        }
    }
    let verb = if names.len() == 1 {
        "differs"
    } else {
        "differ"
    };
    (!names.is_empty()).then(|| format!("{} {verb}, not in the gate", listed(names)))
}

fn cases_words(count: usize) -> String {
    format!("{count} {}", if count == 1 { "case" } else { "cases" })
}

/// Number of names to list; the rest are counted.
const LISTED: usize = 3;

/// `'a', 'b' and 4 more`.
fn quoted(names: &BTreeSet<String>) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
    listed(quoted.iter().map(String::as_str))
}

/// `a`, `a and b`, `a, b, c and 4 more`; each name once.
fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut distinct: Vec<String> = Vec::new();
    for name in names {
        if distinct.iter().all(|known| known != name) {
            distinct.push(name.to_owned());
        }
    }
    if distinct.len() > LISTED + 1 {
        let more = distinct.len() - LISTED;
        distinct.truncate(LISTED);
        distinct.push(format!("{more} more"));
    }
    crate::validity::joined(&distinct)
}
