//! Defines the options of `run`, which `compare` and `confirm` share: what to select, and how to
//! vary the memory layout. Turns the options of every command that measures into a request
//! ([`SelectionArgs::measure_request`]).

use crate::options::{
    ComparisonArgs, FailOn, FleetArgs, MetricArgs, OriginArgs, OutputArgs, PushTarget, StoreArgs,
    VariantArgs, parse,
};
use crate::progress::ProgressDisplay;
use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};
use regex::Regex;
use speedwell_adapters::TrialMode;
use speedwell_adapters::discover::BenchmarkSelection;
use speedwell_analysis::AnalysisSettings;
use speedwell_compat::erlperf::ReportDetail;
use speedwell_engine::{
    ExecutionArgs, MeasureRequest, PlanRequest, SamplingRequest, SessionRequest,
};
use speedwell_machine::process::CpuSet;
use speedwell_model::{InstructionCounting, LayoutVariation, Metric, SessionPurpose, SteadyRule};
use speedwell_report::session::StudyChoice;
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
    pub results: ResultArgs,
}

impl RunArgs {
    /// Builds the request.
    ///
    /// # Errors
    /// Fails if settings or variants cannot be parsed.
    pub fn measure_request(&self) -> anyhow::Result<MeasureRequest> {
        let plan = self.plan_request()?;
        self.selection.measure_request(&self.targets, &self.arguments, &self.variants, plan)
    }

    /// Builds the plan of runs.
    ///
    /// # Errors
    /// Fails if layout options conflict.
    pub fn plan_request(&self) -> anyhow::Result<PlanRequest> {
        Ok(PlanRequest {
            layout: self.layout.build_layout()?,
            ..plan_request(
                &self.execution,
                &self.sampling,
                &self.results.comparison,
                &self.selection.metric.names,
            )
        })
    }

    /// Builds the task.
    pub fn measure_task(&self) -> MeasureTask {
        let metrics = &self.selection.metric.names;
        MeasureTask {
            profile: self.profile,
            ..self.results.measure_task(&self.execution, &self.sampling, metrics)
        }
    }
}

/// Options of results: which machines measure them, and how they are compared, reported and stored.
#[derive(Debug, Args)]
pub struct ResultArgs {
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

impl ResultArgs {
    /// Builds a task whose session `run` can resume.
    pub fn measure_task(
        &self,
        execution: &ExecutionArgs,
        sampling: &SamplingRequest,
        metrics: &[String],
    ) -> MeasureTask {
        MeasureTask {
            settings: self.comparison.analysis_settings(&execution.report_metrics(metrics), None),
            fail_on: self.comparison.fail_on,
            gate_options: self.comparison.gate_options(metrics),
            divides_runs: sampling.divides_runs(),
            steady: sampling.steady_rule(execution.clock),
            execution: execution.clone(),
            fleet: self.fleet.clone(),
            study: self.study.clone(),
            output: self.output.clone(),
            store: self.store.clone(),
            origin: self.origin.clone(),
            owing: self.owing.clone(),
            resume_command: "run",
            ..MeasureTask::default()
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
        plan: PlanRequest,
    ) -> anyhow::Result<MeasureRequest> {
        let is_setting =
            |argument: &String| argument.contains('=') && !Path::new(argument).exists();
        let (settings, targets): (Vec<String>, _) =
            targets_and_values.iter().cloned().partition(is_setting);
        Ok(MeasureRequest {
            targets,
            selection: self.build_selection(&settings, plan.execution.trial_mode())?,
            variants: variants.variant_request(arguments)?,
            plan,
            place_roles: Some(super::fleet::place_roles),
        })
    }
}

/// Builds the request for the plan of runs. `metrics` are the requested metrics.
pub fn plan_request(
    execution: &ExecutionArgs,
    sampling: &SamplingRequest,
    comparison: &ComparisonArgs,
    metrics: &[String],
) -> PlanRequest {
    PlanRequest {
        sampling: sampling.clone(),
        execution: execution.clone(),
        confidence: comparison.confidence,
        threshold: comparison.threshold,
        counting: instruction_counting(metrics, execution.estimate_cycles),
        layout: LayoutVariation::default(),
        purpose: SessionPurpose::Measured,
    }
}

/// Options of the commands that measure revisions: how to measure them, and where the results go.
#[derive(Debug, Args)]
pub struct RevisionMeasuringArgs {
    /// Pin measured processes to these CPUs, e.g. 1 or 0,2-3
    #[arg(long, value_name = "CPUS", help_heading = "Execution")]
    pub pin: Option<CpuSet>,
    #[command(flatten)]
    pub selection: SelectionArgs,
    #[command(flatten)]
    pub sampling: SamplingRequest,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub store: StoreArgs,
}

impl RevisionMeasuringArgs {
    /// Builds the request without the revisions, which become variants later.
    ///
    /// # Errors
    /// Fails if settings cannot be parsed.
    pub fn measure_request(
        &self,
        targets_and_values: &[String],
        arguments: &[String],
        plan: PlanRequest,
    ) -> anyhow::Result<MeasureRequest> {
        let plan = PlanRequest {
            sampling: self.sampling.clone(),
            execution: ExecutionArgs { pin: self.pin.clone(), ..plan.execution },
            counting: instruction_counting(&self.selection.metric.names, false),
            ..plan
        };
        let variants = VariantArgs::default();
        self.selection.measure_request(targets_and_values, arguments, &variants, plan)
    }
}

/// The task of a measuring command: how it executes plans, and what it does with the results.
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
    pub style: Option<ReportDetail>,
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

/// Selection options.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Selection")]
pub struct SelectionArgs {
    /// Only benchmarks whose 'group/name' matches this pattern
    ///
    /// Repeatable: benchmarks that match any of the patterns are measured.
    #[arg(short = 'f', long = "filter", value_name = "RE")]
    pub filter: Vec<Regex>,
    /// Leave out benchmarks that match this pattern (repeatable)
    ///
    /// The pattern may match anywhere in 'group/name'.
    #[arg(short = 'x', long = "exclude", value_name = "RE")]
    pub exclude: Vec<Regex>,
    /// Set a parameter to these values (repeatable)
    ///
    /// The values replace the declared ones. NAME=V[,V...] among the targets has the same effect. '@FILE' reads lines
    /// such as 'group/file.js n=1000', as written by 'speedwell iterations'.
    #[arg(short = 's', long = "set", value_name = "NAME=V[,V...]")]
    pub set: Vec<String>,
    #[command(flatten)]
    pub metric: MetricArgs,
}

impl SelectionArgs {
    /// Builds the selection. `set_arguments` are the NAME=VALUE arguments among the targets.
    ///
    /// # Errors
    /// Fails if a setting is not of the form NAME=VALUE, or if a file of settings cannot be read.
    pub fn build_selection(
        &self,
        set_arguments: &[String],
        trial: TrialMode,
    ) -> anyhow::Result<BenchmarkSelection> {
        let mut selection = BenchmarkSelection {
            filters: self.filter.clone(),
            excludes: self.exclude.clone(),
            trial,
            ..BenchmarkSelection::default()
        };
        for text in &self.set {
            match text.strip_prefix('@') {
                Some(file) => std::fs::read_to_string(file)
                    .map_err(anyhow::Error::from)
                    .and_then(|lines| selection.add_lines(&lines))
                    .with_context(|| format!("cannot read the values in '{file}'"))
                    .context("in --set")?,
                None => {
                    selection.sets.extend(BenchmarkSelection::parse_set(text).context("in --set")?)
                }
            }
        }
        for text in set_arguments {
            selection.sets.extend(BenchmarkSelection::parse_set(text)?);
        }
        Ok(selection)
    }
}

/// Study options.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Study")]
pub struct StudyArgs {
    /// Study how the metric depends on this parameter
    #[arg(long, value_name = "NAME")]
    pub x_axis: Option<String>,
    /// Draw a line for each value of NAME ('variant': each variant)
    #[arg(long, value_name = "NAME", requires = "x_axis")]
    pub by: Option<String>,
    /// Use a logarithmic x axis
    #[arg(long, requires = "x_axis")]
    pub log: bool,
}

impl StudyArgs {
    /// Converts the options for the report.
    pub fn study_choice(&self) -> StudyChoice {
        StudyChoice { x_axis: self.x_axis.clone(), by: self.by.clone(), log: self.log }
    }
}

/// Returns how to count instructions, if `metrics` requests it.
fn instruction_counting(metrics: &[String], cache_model: bool) -> Option<InstructionCounting> {
    let is_requested = |metric: &str| metrics.iter().any(|name| name == metric);
    is_requested(Metric::INSTRUCTIONS).then(|| InstructionCounting {
        tool: String::new(),
        cache_model,
        also_timed: Metric::TIMES.into_iter().any(is_requested),
    })
}

/// Layout options.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Execution")]
pub struct LayoutArgs {
    /// Link each variant in N different layouts (C, C++, Rust, Go)
    ///
    /// Each build orders functions and data differently, and run i executes build i. With fewer builds than runs,
    /// builds are compared instead of runs.
    #[arg(long, value_name = "N", value_parser = builds, conflicts_with = "resume")]
    pub builds: Option<u32>,
    /// Vary the memory layout: sections, env, stack, align or none
    ///
    /// 'sections' orders functions and data differently in each build. 'env' varies the size of the environment in each
    /// run, 'stack' the length of the program's path. 'align' aligns functions to 64 bytes [default: none; with
    /// --builds: sections,env,stack].
    #[arg(long, value_name = "PART[,PART...]", value_delimiter = ',', conflicts_with = "resume")]
    pub layout: Vec<LayoutPart>,
}

/// Parts of a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LayoutPart {
    /// Order of functions and data.
    Sections,
    /// Size of the environment.
    Env,
    /// Length of the program's path.
    Stack,
    /// Functions aligned to 64 bytes.
    Align,
    /// The usual layout.
    None,
}

impl LayoutArgs {
    /// Converts the options to the requested variation of the layout.
    ///
    /// # Errors
    /// Fails if options conflict.
    pub fn build_layout(&self) -> anyhow::Result<LayoutVariation> {
        use LayoutPart::*;
        let has_part = |part| self.layout.contains(&part);
        let uses_defaults = self.layout.is_empty() && self.builds.is_some();
        ensure!(
            !has_part(None) || (self.layout.len() == 1 && self.builds.is_none()),
            "'--layout none' cannot be combined with --builds or other parts\nhint: leave out 'none', or the rest"
        );
        ensure!(
            !has_part(Sections) || self.builds.is_some(),
            "'--layout sections' needs several builds\nhint: add --builds 32"
        );
        ensure!(
            self.builds.is_none() || uses_defaults || has_part(Sections),
            "--builds varies the order of sections, but '--layout' leaves 'sections' out\nhint: use --layout sections,env,stack"
        );
        Ok(LayoutVariation {
            builds: self.builds.unwrap_or(0),
            env: uses_defaults || has_part(Env),
            stack: uses_defaults || has_part(Stack),
            align: has_part(Align),
        })
    }
}

/// Parses a number of builds, at least 2.
fn builds(text: &str) -> Result<u32, String> {
    match parse::count(text)? {
        1 => Err("expected 2 builds or more: a single build has a single layout".to_owned()),
        builds => Ok(builds),
    }
}
