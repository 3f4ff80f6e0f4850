//! Reports the outcome of a command's gate, the condition that decides the exit status.
//!
//! `analysis::gate` determines the outcome, according to the table in docs/reference/gates.md.
//! Start at [`CommandGate::new`] and [`reject_before_measuring`].

use super::CommandStatus;
use super::options::{FailOn, MeasureTask, OutputArgs, is_for_people};
use super::status;
use anyhow::{bail, ensure};
use speedwell_adapters::plan::SessionPlan;
use speedwell_analysis::gate::{self, GateAnswer, GateOutcome};
use speedwell_analysis::{AnalysisFindings, AnalysisSettings, TestingCorrection, WithheldReason};
use speedwell_engine::reach_warning;
use speedwell_report::{self as report, Document};
use speedwell_store::Store;

/// The outcome of the gate, if there is a gate, and the exit status.
#[derive(Debug, Clone, Default)]
pub struct CommandGate {
    outcome: Option<GateOutcome>,
    /// The exit status that applies if the gate passes or if there is no gate.
    status_without_failure: CommandStatus,
}

impl CommandGate {
    /// Evaluates the gate. `analyze_every_metric` computes the findings of every metric, and is
    /// called only if there is a gate.
    pub fn new(
        findings: &AnalysisFindings,
        fail_on: FailOn,
        analyze_every_metric: impl FnOnce() -> Option<AnalysisFindings>,
    ) -> CommandGate {
        let all_findings = (fail_on != FailOn::Never).then(analyze_every_metric).flatten();
        let busy_status =
            if findings.is_too_busy { CommandStatus::NEGATIVE } else { CommandStatus::DONE };
        let outcome = gate::judge_findings(findings, fail_on, all_findings.as_ref());
        let mut rows = findings.comparisons.iter().flat_map(|comparison| &comparison.rows);
        if outcome.is_some()
            && rows.any(|row| row.withheld == Some(WithheldReason::BenchmarkChanged))
        {
            status::print_hint(
                "with --with-own-benchmarks, each side runs its own version of the benchmark",
            );
        }
        let failures = outcome.is_none().then(|| status::status_of_failures(&findings.failures));
        let status_without_failure = busy_status.worse_of(failures.unwrap_or_default());
        CommandGate { outcome, status_without_failure }
    }

    /// Wraps an outcome that other rules determined, such as the gates of an experiment.
    pub fn from_outcome(
        outcome: Option<GateOutcome>,
        status_without_failure: CommandStatus,
    ) -> CommandGate {
        CommandGate { outcome, status_without_failure }
    }

    /// Returns the outcome, if there is a gate.
    pub fn outcome(&self) -> Option<&GateOutcome> {
        self.outcome.as_ref()
    }

    /// Returns the exit status. A case that got worse outranks cases that could not be judged.
    pub fn exit_status(&self) -> CommandStatus {
        match self.outcome.as_ref().map(GateOutcome::to_answer) {
            Some(GateAnswer::Failed) => CommandStatus::NEGATIVE,
            Some(GateAnswer::CannotJudge) => CommandStatus::FAILED,
            Some(GateAnswer::Passed) | None => self.status_without_failure,
        }
    }

    /// Adds the gate's line to a report, in place of the line with which the session was measured.
    /// Also prints it on stderr if standard output is for programs: text and Markdown begin with the
    /// line.
    pub fn add_to(&self, document: &mut Document, output: &OutputArgs) {
        let Some(outcome) = &self.outcome else { return };
        document.gate_lines.clear();
        document.append_document(report::report_gate(outcome));
        if !is_for_people(output.output_format()) {
            status::print_note(&outcome.to_line());
        }
    }

    /// Prints a report with the gate's line. Returns the exit status.
    ///
    /// # Errors
    /// Fails if an output cannot be written.
    pub fn print_report(
        &self,
        mut document: Document,
        output: &OutputArgs,
    ) -> anyhow::Result<CommandStatus> {
        self.add_to(&mut document, output);
        output.print_document(&document)?;
        Ok(self.exit_status())
    }

    /// Stores the gate's line with the measured session, so that later reports show it.
    ///
    /// # Errors
    /// Fails if the store cannot be written.
    pub fn store_line(&self, session: i64, store: &mut Store) -> anyhow::Result<()> {
        let line = self.outcome.as_ref().map(GateOutcome::to_line);
        line.map_or(Ok(()), |line| store.set_gate_lines(session, &[line]))
    }

    /// Prints the gate's line when there is no report to add it to.
    pub fn print_line(&self) {
        if let Some(outcome) = &self.outcome {
            status::print_note(&outcome.to_line());
        }
    }
}

/// Returns settings that cover every metric, so that the report can mention differences outside the
/// gate. Returns `None` if `settings` covers every metric.
pub fn every_metric(settings: &AnalysisSettings) -> Option<AnalysisSettings> {
    (!settings.wants_all_metrics())
        .then(|| AnalysisSettings { metrics: vec!["all".to_owned()], ..settings.clone() })
}

/// Rejects a gate that cannot fail, whatever the results.
///
/// # Errors
/// Fails if there is a gate, but only one variant or too few planned runs for the statistical test.
pub fn reject_before_measuring(plan: &SessionPlan, task: &MeasureTask) -> anyhow::Result<()> {
    let has_own_gates = plan.design.experiment.is_some();
    let is_series = plan.design.steady.is_some_and(|rule| !rule.is_metric);
    if task.fail_on == FailOn::Never || has_own_gates || is_series {
        return Ok(());
    }
    reject_single_variant(plan.variants.len(), task.fail_on)?;
    // This check is optimistic: it assumes that every case has changed. Benjamini-Hochberg then
    // tests each case at the full level.
    let is_holm = task.settings.correction == TestingCorrection::Holm;
    let correction = if is_holm { TestingCorrection::Holm } else { TestingCorrection::None };
    let settings = AnalysisSettings { correction, ..task.settings.clone() };
    if let Some(warning) = reach_warning(plan, &settings) {
        let (problem, remedy) = warning.split_once(". ").unwrap_or((&warning, ""));
        bail!(
            "--fail-on {} could never fail: {problem}\nhint: {}",
            task.fail_on.name(),
            remedy.trim_end_matches('.')
        );
    }
    Ok(())
}

/// Rejects a gate over a single variant.
///
/// # Errors
/// Fails if there is a gate, but only one variant.
pub fn reject_single_variant(variants: usize, fail_on: FailOn) -> anyhow::Result<()> {
    ensure!(
        fail_on == FailOn::Never || variants > 1,
        "--fail-on {} could never fail: there is only one variant\nhint: use --old and --new, \
         or 'speedwell compare @base @latest' for stored results",
        fail_on.name()
    );
    Ok(())
}
