//! The gate of a command: its answer in the report, and the exit status that it deserves.
//!
//! Decides which status belongs to which answer; the answer is found in `analysis::gate`, by the table of
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

/// What a gate says of findings, or what there is without one.
#[derive(Debug, Clone, Default)]
pub struct Gate {
    outcome: Option<GateOutcome>,
    /// The status where the gate says nothing against it.
    otherwise: Option<Status>,
}

impl Gate {
    /// Judges findings. `all` finds what every metric shows, and is used only where there is a gate.
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

    /// A gate that was judged by other rules.
    pub fn of(outcome: Option<GateOutcome>, otherwise: Status) -> Gate {
        Gate {
            outcome,
            otherwise: Some(otherwise),
        }
    }

    /// The answer, if there is a gate.
    pub fn outcome(&self) -> Option<&GateOutcome> {
        self.outcome.as_ref()
    }

    /// The exit status. A case that is worse outranks what could not be judged.
    pub fn status(&self) -> Status {
        let otherwise = self.otherwise.unwrap_or(Status::DONE);
        match self.outcome.as_ref().map(GateOutcome::answer) {
            Some(GateAnswer::Failed) => Status::NO,
            Some(GateAnswer::CannotJudge) => Status::COULD_NOT,
            Some(GateAnswer::Passed) | None => otherwise,
        }
    }

    /// Adds the line of the gate to a report. Where the report is not read by people, the line stands on standard error.
    pub fn add_to(&self, document: &mut Document, output: &OutputArgs) {
        let Some(outcome) = &self.outcome else {
            return;
        };
        document.append(report::gate(outcome));
        if output.format.is_some() || output.quiet {
            status::note(&outcome.line());
        }
    }

    /// Says the line of the gate where there is no report of ours.
    pub fn say(&self) {
        if let Some(outcome) = &self.outcome {
            status::note(&outcome.line());
        }
    }
}

/// Settings that look at every metric, to name those that differ and are not in the gate; `None` where all are looked at
/// already.
pub fn every_metric(settings: &Settings) -> Option<Settings> {
    (!settings.wants_all_metrics()).then(|| Settings {
        metrics: vec!["all".to_owned()],
        ..settings.clone()
    })
}

/// Refuses a gate that could not fail, whatever is measured.
///
/// # Errors
/// There is one variant only, or the number of runs is below what the test needs.
pub fn refuse_before(plan: &Plan, task: &Task) -> anyhow::Result<()> {
    let has_own_gates = plan.design.experiment.is_some();
    let is_series = plan.design.steady.is_some_and(|rule| !rule.is_metric);
    if task.fail_on == FailOn::Never || has_own_gates || is_series {
        return Ok(());
    }
    refuse_one_variant(plan.variants.len(), task.fail_on)?;
    // Any other correction than Holm's lets many changes be found together, or each by itself.
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

/// Refuses a gate over a single variant.
///
/// # Errors
/// There is only one.
pub fn refuse_one_variant(variants: usize, fail_on: FailOn) -> anyhow::Result<()> {
    ensure!(
        fail_on == FailOn::Never || variants > 1,
        "--fail-on {} could never fail: there is one variant only, and nothing to compare it with\nhint: --old and --new, \
         or 'speedwell compare @base @latest' for results that are stored",
        fail_on.name()
    );
    Ok(())
}
