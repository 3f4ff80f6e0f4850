//! From findings to an exit status.

use super::Status;
use super::options::FailOn;
use speedwell_analysis::Findings;
use speedwell_model::{Failure, Verdict};

/// Whether the findings pass the gate, and whether anything failed.
pub fn judge(findings: &Findings, fail_on: FailOn) -> Status {
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
    answer.or(of_failures(&findings.failures))
}

/// Whether anything failed; what says itself that it cannot run here did not.
pub fn of_failures(failures: &[Failure]) -> Status {
    if failures.iter().any(|failure| !failure.cause.is_skip()) {
        Status::COULD_NOT
    } else {
        Status::DONE
    }
}
