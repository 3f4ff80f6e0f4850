//! The gate of a command: its line in the report and its exit status.
//!
//! Maps answers to exit statuses. The answer itself comes from `analysis::gate`, by the table of
//! docs/reference/gates.md. Start at [`Gate::new`] and [`refuse_before`].

use super::Status;
use super::options::{FailOn, OutputArgs, Task};
use super::status;
use anyhow::{bail, ensure};
use speedwell_analysis::gate::{self, GateAnswer, GateOutcome};
use speedwell_analysis::{Correction, Findings, Settings, Withheld};
use speedwell_harness::plan::Plan;
use speedwell_measure::reach_warning;
use speedwell_report::{self as report, Document};

/// The outcome of a gate, or the status without one.
#[derive(Debug, Clone, Default)]
pub struct Gate {
    outcome: Option<GateOutcome>,
    /// The status if the gate does not fail.
    otherwise: Option<Status>,
}

impl Gate {
    /// Evaluates the gate. `all` computes the findings of every metric, and is called only if there
    /// is a gate.
    pub fn new(
        findings: &Findings,
        fail_on: FailOn,
        all: impl FnOnce() -> Option<Findings>,
    ) -> Gate {
        let all = (fail_on != FailOn::Never).then(all).flatten();
        let busy = if findings.is_too_busy {
            Status::NO
        } else {
            Status::DONE
        };
        let outcome = gate::judge(findings, fail_on, all.as_ref());
        let mut rows = findings.comparisons.iter().flat_map(|of| &of.rows);
        if outcome.is_some() && rows.any(|row| row.withheld == Some(Withheld::BenchmarkChanged)) {
            status::hint("--with-own-benchmarks compares each side's own benchmark");
        }
        let failures = match outcome {
            None => status::of_failures(&findings.failures),
            Some(_) => Status::DONE,
        };
        Gate {
            outcome,
            otherwise: Some(busy.or(failures)),
        }
    }

    /// Wraps an outcome that other rules decided.
    pub fn of(outcome: Option<GateOutcome>, otherwise: Status) -> Gate {
        Gate {
            outcome,
            otherwise: Some(otherwise),
        }
    }

    /// The outcome, if there is a gate.
    pub fn outcome(&self) -> Option<&GateOutcome> {
        self.outcome.as_ref()
    }

    /// The exit status. A worse case outranks cases that could not be judged.
    pub fn status(&self) -> Status {
        let otherwise = self.otherwise.unwrap_or(Status::DONE);
        match self.outcome.as_ref().map(GateOutcome::answer) {
            Some(GateAnswer::Failed) => Status::NO,
            Some(GateAnswer::CannotJudge) => Status::COULD_NOT,
            Some(GateAnswer::Passed) | None => otherwise,
        }
    }

    /// Adds the gate's line to a report, and prints it on stderr if the report is not read by
    /// people.
    pub fn add_to(&self, document: &mut Document, output: &OutputArgs) {
        let Some(outcome) = &self.outcome else {
            return;
        };
        document.append(report::gate(outcome));
        if output.format.is_some() || output.quiet {
            status::note(&outcome.line());
        }
    }

    /// Prints the gate's line when there is no report to add it to.
    pub fn say(&self) {
        if let Some(outcome) = &self.outcome {
            status::note(&outcome.line());
        }
    }
}

/// Returns settings that cover every metric, to name those that differ but are not in the gate.
/// Returns `None` if `settings` covers them all already.
pub fn every_metric(settings: &Settings) -> Option<Settings> {
    (!settings.wants_all_metrics()).then(|| Settings {
        metrics: vec!["all".to_owned()],
        ..settings.clone()
    })
}

/// Rejects a gate that could not fail, whatever is measured.
///
/// # Errors
/// Fails if there is only one variant, or if the number of runs is below what the test needs.
pub fn refuse_before(plan: &Plan, task: &Task) -> anyhow::Result<()> {
    let has_own_gates = plan.design.experiment.is_some();
    let is_series = plan.design.steady.is_some_and(|rule| !rule.is_metric);
    if task.fail_on == FailOn::Never || has_own_gates || is_series {
        return Ok(());
    }
    refuse_one_variant(plan.variants.len(), task.fail_on)?;
    // Unlike Holm's, the other corrections can find each change by itself or many together.
    let correction = match task.settings.correction {
        Correction::Holm => Correction::Holm,
        Correction::BenjaminiHochberg | Correction::None => Correction::None,
    };
    let settings = Settings {
        correction,
        ..task.settings.clone()
    };
    if let Some(sentence) = reach_warning(plan, &settings) {
        let (why, enough) = sentence.split_once(". ").unwrap_or((&sentence, ""));
        let enough = enough.trim_end_matches('.');
        bail!(
            "--fail-on {} could never fail: {why}\nhint: {enough}",
            task.fail_on.name()
        );
    }
    Ok(())
}

/// Rejects a gate over a single variant.
///
/// # Errors
/// Fails if there is only one.
pub fn refuse_one_variant(variants: usize, fail_on: FailOn) -> anyhow::Result<()> {
    ensure!(
        fail_on == FailOn::Never || variants > 1,
        "--fail-on {} could never fail: there is one variant only, and nothing to compare it with\nhint: --old and --new, \
         or 'speedwell compare @base @latest' for results that are stored",
        fail_on.name()
    );
    Ok(())
}
