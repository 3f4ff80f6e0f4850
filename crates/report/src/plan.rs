//! Reports plans before anything is measured: every case (`--list`), or the result of a trial
//! (`--test`).
//!
//! The list of cases shortens no id, so that ids can be copied and piped.

use crate::OutputOptions;
use crate::case_labels::parameters_json;
use crate::columns::{ColumnSet, column_set};
use crate::document::{Document, ReportBlock};
use crate::failures::report_failures;
use crate::figure::{format_about, format_count};
use crate::table::ReportCell;
use speedwell_model::{Case, StepFailure};
use std::time::Duration;

/// A case of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseLine {
    /// The case.
    pub case: Case,
    /// Number of planned runs over all variants. If the session decides during the measurement how
    /// many runs are needed, this is an upper bound.
    pub runs: u64,
}

/// Lists the cases. Below them are the total number of runs, which may be an upper bound, and the
/// measuring time if it is known.
pub fn list_planned_cases(
    cases: &[CaseLine],
    is_upper_bound: bool,
    time: Option<Duration>,
) -> Document {
    let mut document = Document::new("cases");
    document.push(ReportBlock::Table(case_columns().build_table("cases", cases)));
    let runs: u64 = cases.iter().map(|case| case.runs).sum();
    let runs = format_count(runs as usize, "run", "runs");
    let (up_to, precision) = if is_upper_bound { ("up to ", "up to") } else { ("", "about") };
    let duration = time.map(|time| format!(", {precision} {} of measuring", format_about(time)));
    document.push(ReportBlock::Note(format!(
        "{}, {up_to}{runs}{}",
        format_count(cases.len(), "case", "cases"),
        duration.unwrap_or_default()
    )));
    document
}

fn case_columns() -> ColumnSet<CaseLine> {
    column_set! { line: CaseLine;
        identifier("case", "case") => line.case.id(),
        machine("benchmark") => &line.case.benchmark,
        machine("parameters") => parameters_json(&line.case),
        figure("runs", "runs") => ReportCell::large_count(line.runs as usize),
    }
}

/// The counts of a trial.
#[derive(Debug, Clone)]
pub struct TrialOutcome {
    /// Number of benchmark files tried.
    pub files: usize,
    /// Number of files whose cases all worked.
    pub working_files: usize,
    /// Number of cases that worked. In an experiment, a case counts once for each variant under
    /// which it worked.
    pub cases: usize,
    /// Whether an experiment was tried.
    pub is_experiment: bool,
    /// Cases that failed or cannot run here.
    pub failures: Vec<StepFailure>,
}

/// Reports a trial.
pub fn report_trial(trial: &TrialOutcome, output: &OutputOptions) -> Document {
    let failed = trial.failures.iter().filter(|failure| !failure.cause.is_skip()).count();
    let skipped = trial.failures.len() - failed;
    let mut document = Document::new("trial");
    let text = if trial.is_experiment {
        format!("{} of {} combinations of case and variant work", trial.cases, trial.cases + failed)
    } else {
        format!(
            "{} of {} benchmark files work: {} cases succeeded, {failed} failed, {skipped} skipped",
            trial.working_files, trial.files, trial.cases
        )
    };
    document.push(ReportBlock::Headline(text));
    let table = trial_columns(failed, skipped).build_table("trial", std::slice::from_ref(trial));
    document.push(ReportBlock::Table(table));
    document.append_document(report_failures(&trial.failures, output.verbosity));
    document
}

/// Returns the columns of a trial. They are for programs only: people read the headline.
fn trial_columns(failed: usize, skipped: usize) -> ColumnSet<TrialOutcome> {
    column_set! { trial: TrialOutcome;
        machine("files") => trial.files,
        machine("working_files") => trial.working_files,
        machine("cases") => trial.cases,
        machine("failed") => failed,
        machine("skipped") => skipped,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{OutputOptions, print_document};

    #[test]
    fn ids_stay_whole_on_a_narrow_screen() {
        let id = "string_decoder/string-decoder.js encoding=utf8 inLen=1024 n=2500000";
        let line = CaseLine { case: Case::parse(id).unwrap(), runs: 1_060 };
        let output = OutputOptions { width: Some(30), ..OutputOptions::default() };
        let mut out = Vec::new();
        let list = list_planned_cases(&[line], true, Some(Duration::from_secs(90)));
        print_document(&list, &output, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains(&format!("{id}  1,060\n")), "{text}");
        assert!(
            text.ends_with("\n1 case, up to 1,060 runs, up\nto 1 min 30 s of measuring\n"),
            "{text}"
        );
    }
}
