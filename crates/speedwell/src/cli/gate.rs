//! From findings to an exit status.

use super::Status;
use super::options::FailOn;
use crate::analysis::Findings;
use crate::model::Verdict;

/// Whether the findings pass the gate, and whether anything failed.
pub fn judge(findings: &Findings, fail_on: FailOn) -> Status {
    let failed = findings
        .failures
        .iter()
        .any(|failure| !failure.cause.is_skip());
    let mut verdicts = findings
        .comparisons
        .iter()
        .flat_map(|c| &c.rows)
        .map(|row| row.verdict);
    let refused = match fail_on {
        FailOn::Never => false,
        FailOn::Worse => verdicts.any(|verdict| verdict == Verdict::Worse),
        FailOn::Unclear => verdicts.any(|v| matches!(v, Verdict::Worse | Verdict::Unclear)),
    };
    let answer = if refused { Status::NO } else { Status::DONE };
    answer.or(if failed {
        Status::COULD_NOT
    } else {
        Status::DONE
    })
}
