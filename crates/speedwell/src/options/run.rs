//! Defines the options of `run`, which `compare` and `confirm` share. Turns the options of every
//! command that measures into a request ([`SelectionArgs::measure_request`]).

use super::{
    ComparisonArgs, ExecutionArgs, FailOn, FleetArgs, LayoutArgs, OriginArgs, OutputArgs,
    PushTarget, SelectionArgs, StoreArgs, StudyArgs, VariantArgs, instruction_counting,
};
use crate::progress::ProgressDisplay;
use anyhow::Context;
use clap::Args;
use speedwell_analysis::AnalysisSettings;
use speedwell_compat::erlperf::ReportDetail as Style;
use speedwell_engine::{MeasureRequest, PlanRequest, SamplingRequest, SessionRequest};
use speedwell_model::{LayoutVariation, SessionPurpose, SteadyRule};
use speedwell_store::Store;
use std::path::Path;

/// Measure benchmark files, groups or whole benchmark folders
///
/// A single variant gives a table with the results of each case; several variants give a comparison with a verdict for
/// every case.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  speedwell run benchmarks/buffers
  speedwell run benchmarks/buffers/copy.js len=1024 --runs 10
  speedwell run string_decoder --variant old=./node-18 --variant new=./node-22 -o report.md
  speedwell run --resume @latest")]
pub struct RunArgs {
    /// Files, folders, group names; and NAME=VALUE to set a parameter
    #[arg(index = 1, value_name = "TARGET|NAME=VALUE", required_unless_present = "resume")]
    pub targets: Vec<String>,
    /// After '--': arguments for every measured program
    ///
    /// They precede the variant's own arguments.
    #[arg(index = 2, last = true, value_name = "ARG")]
    pub arguments: Vec<String>,
    #[command(flatten)]
    pub selection: SelectionArgs,
    #[command(flatten)]
    pub sampling: SamplingRequest,
    #[command(flatten)]
    pub variants: VariantArgs,
    #[command(flatten)]
    pub execution: ExecutionArgs,
    #[command(flatten)]
    pub layout: LayoutArgs,
    /// Profile every case of an experiment after measuring
    ///
    /// The profiled runs are not timed.
    #[arg(long, help_heading = "Execution", conflicts_with_all = ["list", "test"])]
    pub profile: bool,
    /// Show live results in a browser
    ///
    /// The dashboard is served until you press Enter, or until a minute after the last viewer leaves.
    #[arg(long, help_heading = "Execution", conflicts_with_all = ["list", "test", "no_save"])]
    pub dashboard: bool,
    #[command(flatten)]
    pub fleet: FleetArgs,
    #[command(flatten)]
    pub comparison: ComparisonArgs,
    #[command(flatten)]
    pub study: StudyArgs,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub store: StoreArgs,
    #[command(flatten)]
    pub origin: OriginArgs,
    #[command(flatten)]
    pub owing: PushTarget,
}

impl RunArgs {
    /// Builds the request.
    ///
    /// # Errors
    /// Fails if settings or variants cannot be parsed.
    pub fn measure_request(&self) -> anyhow::Result<MeasureRequest> {
        let plan = self.plan_request()?;
        self.selection.measure_request(
            &self.targets,
            &self.arguments,
            &self.variants,
            &self.execution,
            plan,
        )
    }

    /// Builds the plan of runs.
    ///
    /// # Errors
    /// Fails if layout options conflict.
    pub fn plan_request(&self) -> anyhow::Result<PlanRequest> {
        Ok(PlanRequest {
            layout: self.layout.build_layout()?,
            ..self.execution.plan_request(
                &self.sampling,
                &self.comparison,
                &self.selection.metric.names,
            )
        })
    }

    /// Builds the task.
    pub fn measure_task(&self) -> MeasureTask {
        MeasureTask {
            settings: self.comparison.analysis_settings(
                &self.execution.report_metrics(&self.selection.metric.names),
                None,
            ),
            fail_on: self.comparison.fail_on,
            gate_options: self.comparison.gate_options(&self.selection.metric.names),
            divides_runs: self.sampling.divides_runs(),
            steady: self.sampling.steady_rule(self.execution.clock),
            execution: self.execution.clone(),
            profile: self.profile,
            has_given_order: false,
            fleet: self.fleet.clone(),
            study: self.study.clone(),
            output: self.output.clone(),
            store: self.store.clone(),
            origin: self.origin.clone(),
            owing: self.owing.clone(),
            style: None,
            resume_command: "run",
        }
    }
}

impl SelectionArgs {
    /// Builds the request. An element of `targets_and_values` that has the form NAME=VALUE is a
    /// setting, unless a file of this name exists; any other element is a target. `arguments` are
    /// passed to every program.
    ///
    /// # Errors
    /// Fails if settings or variants cannot be parsed.
    pub fn measure_request(
        &self,
        targets_and_values: &[String],
        arguments: &[String],
        variants: &VariantArgs,
        execution: &ExecutionArgs,
        plan: PlanRequest,
    ) -> anyhow::Result<MeasureRequest> {
        let is_setting =
            |argument: &String| argument.contains('=') && !Path::new(argument).exists();
        let (settings, targets): (Vec<String>, _) =
            targets_and_values.iter().cloned().partition(is_setting);
        Ok(MeasureRequest {
            targets,
            selection: self.build_selection(&settings, execution.trial_mode())?,
            variants: variants.variant_request(arguments)?,
            plan,
            only_lists: execution.list,
            place_roles: Some(super::fleet::place_roles),
        })
    }
}

impl ExecutionArgs {
    /// Builds the request for the plan of runs. `metrics` are the requested metrics.
    pub fn plan_request(
        &self,
        sampling: &SamplingRequest,
        comparison: &ComparisonArgs,
        metrics: &[String],
    ) -> PlanRequest {
        PlanRequest {
            sampling: sampling.clone(),
            order: self.order,
            clock: self.clock.unwrap_or_default(),
            seed: self.seed,
            pin: self.pin.clone(),
            budget: self.budget,
            confidence: comparison.confidence,
            threshold: comparison.threshold,
            reject: self.reject.clone().unwrap_or_default(),
            counting: instruction_counting(metrics, self.estimate_cycles),
            layout: LayoutVariation::default(),
            purpose: SessionPurpose::Measured,
        }
    }
}

/// How a measuring command executes plans, and what happens to the results.
#[derive(Debug, Default)]
pub struct MeasureTask {
    pub settings: AnalysisSettings,
    /// The gate: which results make the command fail.
    pub fail_on: FailOn,
    /// The gate's options, for the hint about resuming the session.
    pub gate_options: String,
    /// Whether the division of runs into samples was requested.
    pub divides_runs: bool,
    /// The rule that finds the steady part of every run, or `None` without `--steady`.
    pub steady: Option<SteadyRule>,
    /// Execution options, for example whether to only list or try the cases.
    pub execution: ExecutionArgs,
    pub profile: bool,
    /// Whether the caller fixes the order of runs. There is then no advice about the order.
    pub has_given_order: bool,
    pub fleet: FleetArgs,
    pub study: StudyArgs,
    pub output: OutputArgs,
    pub store: StoreArgs,
    /// Origin of the measured code as given by the user.
    pub origin: OriginArgs,
    /// Whether and where to push the session.
    pub owing: PushTarget,
    /// Alternative style of the report.
    pub style: Option<Style>,
    /// The command that resumes an interrupted session.
    pub resume_command: &'static str,
}

impl MeasureTask {
    /// Opens the store. If cases are only listed or tried, opens an empty store in memory.
    ///
    /// # Errors
    /// Fails if the store cannot be opened.
    pub fn open_store(&self) -> anyhow::Result<Store> {
        if self.execution.list || self.execution.test {
            Store::in_memory()
        } else {
            let opened = self.store.open_store();
            opened.context("cannot store the session\nhint: --no-save measures without storing")
        }
    }

    pub fn progress_display(&self) -> ProgressDisplay {
        ProgressDisplay::new(&self.output)
    }

    /// Builds the request for the session.
    pub fn session_request(&self) -> SessionRequest {
        SessionRequest {
            settings: self.settings.clone(),
            has_given_order: self.has_given_order,
            fail_fast: self.execution.fail_fast,
            divides_runs: self.divides_runs,
            push: self.owing.push_url(),
            ..self.store.session_request(&self.origin)
        }
    }
}
