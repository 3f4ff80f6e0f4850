//! What is said of a session of series, and whether the gate lets it pass. Start at [`conclude`].

use super::options::{FailOn, Task};
use super::{Status, status};
use speedwell_analysis::CaseComparison;
use speedwell_analysis::warmup::{self, CaseWarmup, WarmupFindings};
use speedwell_model::{Session, SteadyRule};
use speedwell_report as report;

/// Analyses a session of series that was just measured, reports, judges.
///
/// # Errors
/// An output that cannot be written.
pub fn conclude(session: &Session, rule: &SteadyRule, task: &Task) -> anyhow::Result<Status> {
    let found = warmup::analyse(session, rule, &task.settings);
    let mut document = report::warmup(&found, &session.environment, &task.output.settings());
    document.append(report::circumstances(&[(None, session)], &found.findings));
    task.output.print(&document)?;
    let failures = status::of_failures(&session.failures);
    Ok(judge(&found, task.fail_on).or(failures))
}

/// Whether the gate lets the findings pass: nothing is refused for what the processes of a case do not agree on.
fn judge(found: &WarmupFindings, fail_on: FailOn) -> Status {
    let agreed: Vec<&CaseWarmup> = found.cases.iter().filter(|own| own.agrees()).collect();
    let is_agreed = |row: &CaseComparison, variant: &str| {
        agreed
            .iter()
            .any(|own| own.case == row.case && *own.variant == *variant)
    };
    let comparisons = found.findings.comparisons.iter();
    let mut verdicts = comparisons.flat_map(|of| {
        let both = |row: &&_| is_agreed(row, &of.baseline) && is_agreed(row, &of.candidate);
        of.rows.iter().filter(both).map(|row| row.verdict)
    });
    let never_steady = agreed.iter().any(|own| own.is_never_steady());
    let is_refused = fail_on != FailOn::Never
        && (never_steady || verdicts.any(|verdict| fail_on.refuses(verdict)));
    if is_refused { Status::NO } else { Status::DONE }
}
